// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of small groups on tensor cores of Ampere and later: 4, 8 or 16 channels, and as many outputs.

use kernels_gpu::compiled::AmpereConvolve;
use kernels_gpu::convolve::mma::groups::{BLOCKS, ITEM};
use kernels_gpu::convolve::mma::{MmaPlan, PLACES, THREADS};

use super::{Lies, Wanted, blocks_at_once, most_bytes};
use crate::error::Result;
use crate::launch::{LaunchConfig, Words, WordsMut};
use crate::ops::convolve::Convolve;
use crate::ops::convolve::forward::{Task, steps};
use crate::ops::convolve::geometry::Problem;
use crate::ops::convolve::plans::{Gpu, Plans};
use crate::stream::Stream;

/// Bytes at multiples of which outputs and weights begin.
const ALIGNED: u64 = 16;

/// Items of a block, at most: with four, 28² with 32 groups of 8 took a tenth longer on an H200, others as long.
const ITEMS: usize = 2;

/// The most groups of a block, which divide all and have whole items, if groups are such.
fn groups_of_block(problem: &Problem) -> Option<usize> {
    let Problem {
        groups,
        channels,
        outputs,
        ..
    } = *problem;
    if channels != outputs || ![4, 8, 16].contains(&channels) {
        return None;
    }
    let of_item = ITEM / channels;
    let is_possible = |all: &usize| groups.is_multiple_of(*all);
    let items = (1..=ITEMS).rev();
    items.map(|items| items * of_item).find(is_possible)
}

/// The plan, if the kernel can have such operands.
fn plan(problem: &Problem, x: Lies, stream: &Stream) -> Option<MmaPlan> {
    static PLANS: Plans<(Problem, Lies, Gpu), Option<MmaPlan>> = Plans::new();
    PLANS.get((*problem, x, Gpu::of(stream)), || find_plan(problem, x, stream))
}

/// The same, by a search.
fn find_plan(problem: &Problem, x: Lies, stream: &Stream) -> Option<MmaPlan> {
    let taps = u32::try_from(problem.taps()).ok()?;
    let groups = groups_of_block(problem)?;
    let wanted = Wanted {
        problem,
        groups,
        x,
        most: most_bytes(stream),
        tile: None,
        stream,
        blocks: BLOCKS,
    };
    // Of 4 channels half the products are of use.
    let products = PLACES * (problem.taps() * problem.channels.max(8) + problem.outputs) * groups;
    let plan = wanted.plan(|plan| (plan.memory_of_groups(taps)[4], products))?;
    (plan.wide != 0).then_some(plan)
}

/// Computes, if the kernel is for such operands; of a device with such tensor cores.
pub(super) fn compute<T: Convolve + AmpereConvolve>(task: &mut Task<'_, T>) -> Result<bool> {
    let problem = task.problem;
    let out = steps(task.out);
    let out_is_aligned = task.out.address().is_multiple_of(ALIGNED) && out[4] == 1;
    let out_is_aligned = out_is_aligned && (out[0] | out[1] | out[2] | out[3]).is_multiple_of(4);
    if !out_is_aligned || groups_of_block(problem).is_none() {
        return Ok(false);
    }
    let weights = task.weights.in_order()?;
    if !weights.address().is_multiple_of(ALIGNED) {
        return Ok(false);
    }
    let Some(plan) = plan(problem, Lies::of(task.x), task.stream) else {
        return Ok(false);
    };
    let shape = task.shape();
    let bytes = plan.memory_of_groups(problem.taps() as u32)[4];
    let config = LaunchConfig {
        dynamic_shared: bytes as usize,
        ..LaunchConfig::new(blocks_at_once(task, &plan, bytes, BLOCKS), THREADS as u32)
    };
    let args = (Words::of(task.x), &*weights, WordsMut::of(task.out), shape, plan);
    // SAFETY: the kernel's contract: threads, memory and blocks are those of the plan, which is of the shape; the operands are those of
    // the shape, with weights in C order, none is empty, and they lie so.
    unsafe { task.stream.launch_on_tensor_cores::<T::Groups>(&config, args)? };
    Ok(true)
}
