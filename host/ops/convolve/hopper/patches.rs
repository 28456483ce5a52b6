// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on Hopper's tensor cores with what a tile reads in shared memory: which their kernel takes, and its tiles.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{HopperConvolve, HopperPatchesParams};
use kernels_gpu::matmul::wgmma::convolve::CHANNELS;
use kernels_gpu::matmul::wgmma::convolve::patches::{CONSUMERS, PART, PatchesPlan, WIDE, at_once, threads};
use ndarray::Ix5;

use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, WordsMut};
use crate::ops::convolve::Convolve;
use crate::ops::convolve::forward::{Task, steps};
use crate::ops::convolve::geometry::Problem;
use crate::ops::convolve::plans::{Gpu, Plans};
use crate::ops::matmul::is_hopper;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::tensor_map::{self, Swizzle, TensorElement};

/// Channels of an instruction: two planes.
const PAIR: usize = 2 * WIDE;

/// The most parts of a tile, as a power of 2.
const LOG_MOST_PARTS: u32 = 4;

/// The most places of a box along an axis.
const MOST_BOX: usize = 256;

/// Patches of a block: one is copied while another is multiplied.
const STAGES: u32 = 2;

/// Cycles that a multiprocessor takes for an instruction, of so many outputs: to read A and B, or to multiply.
fn cycles(outputs: usize) -> usize {
    Ord::max(16 + outputs / 4, outputs / 2)
}

/// Cycles that the accelerator takes for a piece of 16 bytes.
const OF_PIECE: usize = 1;

/// Cycles of a tile beside those.
const OF_TILE: usize = 400;

/// Whether the kernel is meant for such operands. Where a third of the other kernel's chunks would be zeros it is faster; with 64 channels and
/// 128 outputs, 28² took 21.6 µs for 15.0, and 56² with 64 outputs 30.0 for 28.3, on an H100.
fn is_meant(problem: &Problem) -> bool {
    let of_units = [problem.channels, problem.outputs]
        .iter()
        .all(|n| n.is_multiple_of(WIDE));
    let is_between =
        problem.channels >= PAIR && 3 * problem.channels <= 2 * problem.channels.next_multiple_of(CHANNELS);
    let is_large = problem.outputs > WIDE && problem.taps() > 1;
    of_units && is_between && is_large && problem.groups == 1 && problem.stride == [1; 3]
}

/// Whether the kernel takes such a convolution, if operands lie as it wants them.
pub(super) fn takes(problem: &Problem, stream: &Stream) -> bool {
    is_meant(problem) && plan(problem, stream).is_some()
}

/// The outputs of a block.
fn outputs_of_block(problem: &Problem) -> usize {
    match problem.outputs {
        ..=32 => 32,
        33..=64 => 64,
        _ => 128,
    }
}

/// A plan, and what it costs.
fn plan_of(problem: &Problem, part: [usize; 3], parts: [usize; 3], stream: &Stream) -> Option<(usize, PatchesPlan)> {
    let properties = stream.backend().properties();
    let outputs = outputs_of_block(problem);
    let taps = problem.taps();
    let tile: [usize; 3] = std::array::from_fn(|axis| parts[axis] * part[axis]);
    let patch: [usize; 3] = std::array::from_fn(|axis| tile[axis] + problem.reach(axis));
    let is_box = patch.iter().chain(&problem.window).all(|&length| length <= MOST_BOX);
    let of_tile: usize = parts.iter().product();
    if !is_box || !of_tile.is_multiple_of(at_once(outputs / 2) as usize) {
        return None;
    }
    let tiles: [usize; 3] = std::array::from_fn(|axis| problem.output[axis].div_ceil(tile[axis]));
    let all = tiles
        .iter()
        .try_fold(problem.images, |all, &tiles| all.checked_mul(tiles))?;
    i32::try_from(all).ok()?;
    let (pairs, columns) = (problem.channels.div_ceil(PAIR), problem.outputs.div_ceil(outputs));
    let plan = PatchesPlan {
        tiles: tiles.map(|n| n as u32),
        parts: parts.map(|n| n as u32),
        part: part.map(|n| n as u32),
        patch: patch.map(|n| n as u32),
        pairs: pairs as u32,
        columns: columns as u32,
        stages: STAGES,
    };
    let places: usize = patch.iter().product();
    // Far less than 2^32 bytes, so that none of the plan's sums wraps.
    let most = properties.shared_memory_per_block_optin;
    let bytes = (places * STAGES as usize)
        .saturating_add(taps * outputs)
        .saturating_mul(2 * pairs * 16);
    if bytes > most as usize || plan.memory(taps as u32, outputs as u32) > most {
        return None;
    }
    let products = of_tile * taps * pairs * cycles(outputs);
    let copies = places * 2 * pairs * OF_PIECE;
    let beside = (properties.multiprocessors as usize / columns).max(1);
    let cost = all.div_ceil(beside) * (products.max(copies) + OF_TILE);
    Some((cost, plan))
}

/// The plan that costs least, and of those one that reads least, if the kernel can have such operands.
fn plan(problem: &Problem, stream: &Stream) -> Option<PatchesPlan> {
    static PLANS: Plans<(Problem, Gpu), Option<PatchesPlan>> = Plans::new();
    PLANS.get((*problem, Gpu::of(stream)), || find_plan(problem, stream))
}

/// The same, by a search.
fn find_plan(problem: &Problem, stream: &Stream) -> Option<PatchesPlan> {
    let all = (0..=LOG_MOST_PARTS).flat_map(|a| {
        let most = LOG_MOST_PARTS - a;
        (0..=most).flat_map(move |b| (0..=most - b).map(move |c| [a, b, c].map(|log| 1 << log)))
    });
    let both = all.flat_map(|parts| [[1, 8, 8], [1, 1, PART]].map(|part| (part, parts)));
    both.filter_map(|(part, parts)| plan_of(problem, part, parts, stream))
        .min_by_key(|(cost, plan)| (*cost, plan.patch.iter().product::<u32>()))
        .map(|(_, plan)| plan)
}

/// A box of the input.
fn box_of(plan: &PatchesPlan) -> [usize; 5] {
    let [a, b, c] = plan.patch.map(|length| length as usize);
    [1, a, b, c, WIDE]
}

/// Computes, if the device has such tensor cores and the kernel is for such operands.
pub(in crate::ops::convolve) fn compute<T: Convolve + HopperConvolve + TensorElement>(
    task: &mut Task<'_, T>,
) -> Result<bool> {
    let problem = task.problem;
    if !is_hopper(task.stream) || !is_meant(problem) {
        return Ok(false);
    }
    let [images, a, b, c, channels] = steps(task.out);
    let is_aligned = task.out.address().is_multiple_of(16) && channels == 1;
    if !is_aligned || !(images | a | b | c).is_multiple_of(WIDE) {
        return Ok(false);
    }
    let Some(plan) = plan(problem, task.stream) else {
        return Ok(false);
    };
    if tensor_map::layout(task.x, &box_of(&plan), Swizzle::None).is_err() {
        return Ok(false);
    }
    match outputs_of_block(problem) {
        32 => launch::<T, T::Patches32>(task, plan)?,
        64 => launch::<T, T::Patches64>(task, plan)?,
        _ => launch::<T, T::Patches128>(task, plan)?,
    }
    Ok(true)
}

/// Weights that a map can have by taps, outputs and channels: themselves, or a copy.
fn mapped_weights<T: Convolve + TensorElement>(weights: &DeviceArrayRef<T, Ix5>) -> Result<Ordered<'_, T, Ix5>> {
    Ok(match tensor_map::layout(weights, &[1, 1, 1, 1, WIDE], Swizzle::None) {
        Ok(_) => Ordered::AsIs(weights.view()),
        Err(_) => Ordered::Copied(weights.to_array()?),
    })
}

fn launch<T: Convolve + TensorElement, K: Kernel<Params = HopperPatchesParams<T>>>(
    task: &mut Task<'_, T>,
    plan: PatchesPlan,
) -> Result<()> {
    let (problem, shape, stream) = (task.problem, task.shape(), task.stream);
    let outputs = outputs_of_block(problem);
    let x = task.x.tensor_map(&box_of(&plan), Swizzle::None)?;
    let [a, b, c] = problem.window;
    let weights = mapped_weights(task.weights)?;
    let weights = weights.view().permuted_axes([1, 2, 3, 0, 4])?;
    let weights = weights.tensor_map(&[a, b, c, outputs, WIDE], Swizzle::None)?;
    let multiprocessors = stream.backend().properties().multiprocessors;
    let tiles = plan.tiles.iter().product::<u32>() * shape.images;
    let beside = (multiprocessors / plan.columns).max(1);
    let config = LaunchConfig {
        dynamic_shared: plan.memory(problem.taps() as u32, outputs as u32) as usize,
        ..LaunchConfig::new(tiles.min(beside) * plan.columns, threads(CONSUMERS) as u32)
    };
    let args = (&x, &weights, WordsMut::of(task.out), shape, plan);
    // SAFETY: the kernel's contract: threads, memory and blocks are those of the plan, which is of the shape, as are the maps; where the
    // output lies has been asked, and nothing is empty.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args) }
}
