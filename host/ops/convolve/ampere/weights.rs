// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of the weights of few channels on tensor cores of Ampere and later.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{AmpereConvolve, AmpereConvolveWeightsParams};
use kernels_gpu::convolve::mma::weights::{WeightsMmaPlan, columns};
use kernels_gpu::convolve::mma::{MmaPlan, PLACES, THREADS, WARPS, WIDE};
use kernels_gpu::num::Num;
use ndarray::{Ix3, Ix5};

use super::{Lies, Wanted, is_near, is_taken, most_bytes};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words};
use crate::ops::convolve::Convolve;
use crate::ops::convolve::forward::steps;
use crate::ops::convolve::geometry::Problem;
use crate::ops::convolve::plans::{Gpu, Plans};
use crate::ops::matmul::{AMPERE, has_tensor_cores};
use crate::stream::Stream;

/// Blocks of a multiprocessor.
const BLOCKS: usize = 2;

/// Tiles of a part, at least, where each multiprocessor has a block all the same: with four, 14² with 32 groups of 16 took 26.9 µs for 25.4
/// on an H100, with one 26.2.
const TILES_OF_PART: usize = 2;

/// How many groups are one for a warp, and the convolution of those: as many as have 16 outputs and channels, which then are in units, and
/// columns for all taps.
fn merged(problem: &Problem) -> (usize, Problem) {
    let is_possible = |&by: &usize| {
        let (channels, outputs) = (problem.channels * by, problem.outputs * by);
        let columns_fit = channels.saturating_mul(problem.taps()) <= 8 * columns(1);
        let is_small = channels <= 16 && outputs <= 16 && columns_fit;
        is_small && channels.is_multiple_of(WIDE) && problem.groups.is_multiple_of(by * WARPS)
    };
    let is_even = problem.channels.is_multiple_of(2);
    let by = [8, 4, 2].into_iter().find(|by| is_even && is_possible(by)).unwrap_or(1);
    let problem = Problem {
        groups: problem.groups / by,
        channels: problem.channels * by,
        outputs: problem.outputs * by,
        ..*problem
    };
    (by, problem)
}

/// A plan, and how many times 16 outputs a warp has.
type Planned = (WeightsMmaPlan, usize);

/// The plan, if the kernel can have such operands.
fn plan(merged: usize, problem: &Problem, x: Lies, gradient: Lies, stream: &Stream) -> Option<Planned> {
    static PLANS: Plans<(usize, Problem, [Lies; 2], Gpu), Option<Planned>> = Plans::new();
    let key = (merged, *problem, [x, gradient], Gpu::of(stream));
    PLANS.get(key, || find_plan(merged, problem, x, gradient, stream))
}

/// The same, by a search.
fn find_plan(merged: usize, problem: &Problem, x: Lies, gradient: Lies, stream: &Stream) -> Option<Planned> {
    let all = problem.taps() * problem.channels.next_multiple_of(2);
    let is_small = problem.outputs <= 16 && all <= 8 * columns(1) && problem.groups.is_multiple_of(WARPS);
    let groups = if is_small { WARPS } else { 1 };
    let m = match problem.outputs {
        ..=16 => 1,
        17..=32 => 2,
        _ => 4,
    };
    // As many units for each warp, in as few blocks as have them.
    let units = all.div_ceil(8);
    let warps = if is_small { 1 } else { WARPS };
    let blocks = units.div_ceil(warps * columns(m));
    let units = units.div_ceil(blocks * warps);
    let of_block = warps * 8 * units;
    let with = |plan: &MmaPlan| WeightsMmaPlan {
        of: MmaPlan {
            columns: blocks as u32,
            ..*plan
        },
        rows: problem.outputs.div_ceil(16 * m) as u32,
        units: units as u32,
        wide: (gradient.by_16_bytes() && problem.outputs.is_multiple_of(WIDE)).into(),
        merged: merged as u32,
        channels: (problem.channels / merged) as u32,
    };
    let wanted = Wanted {
        problem,
        groups,
        x,
        most: most_bytes(stream),
        tile: None,
        stream,
        blocks: BLOCKS,
    };
    let products = PLACES * of_block.min(all);
    let plan = wanted.plan(|plan| (with(plan).memory()[3], products))?;
    is_near(&plan, gradient).then(|| (with(&plan), m))
}

/// The gradient of the weights, of a gradient of the output in C order: groups, outputs, taps with their channels; if the device has such
/// tensor cores and the kernel is for such operands.
pub(in crate::ops::convolve) fn weight_gradient<T: Convolve + AmpereConvolve + Num<Wide = f32>>(
    problem: &Problem,
    x: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<Option<DeviceArray<T, Ix3>>> {
    if !has_tensor_cores(x.stream(), AMPERE) || !is_taken(problem) || x.is_empty() || out.is_empty() {
        return Ok(None);
    }
    let (by, of_merged) = merged(problem);
    let Some((plan, m)) = plan(by, &of_merged, Lies::of(x), Lies::of(out), x.stream()) else {
        return Ok(None);
    };
    match m {
        1 => launch::<T, T::Weights16>(problem, &of_merged, plan, x, out).map(Some),
        2 => launch::<T, T::Weights32>(problem, &of_merged, plan, x, out).map(Some),
        _ => launch::<T, T::Weights64>(problem, &of_merged, plan, x, out).map(Some),
    }
}

fn launch<T, K>(
    problem: &Problem,
    merged: &Problem,
    plan: WeightsMmaPlan,
    x: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<DeviceArray<T, Ix3>>
where
    T: Convolve + Num<Wide = f32>,
    K: Kernel<Params = AmpereConvolveWeightsParams<T>>,
{
    let stream = x.stream();
    let shape = merged.to_kernel(steps(x), steps(out));
    let tiles = plan.of.tiles_of(problem.images);
    let beside = plan.rows as usize * plan.of.columns as usize * plan.of.slices as usize;
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    // Each part's sums are written and read.
    let most = (BLOCKS * multiprocessors / beside).min(tiles / TILES_OF_PART);
    let parts = most.max(multiprocessors / beside).clamp(1, tiles);
    let depth = problem.taps() * problem.channels;
    let sums = Ix3(parts, problem.groups * problem.outputs, depth);
    let mut sums = DeviceArray::<f32, Ix3>::uninit(stream, sums)?;
    let config = LaunchConfig {
        dynamic_shared: plan.memory()[3] as usize,
        ..LaunchConfig::new((parts * beside) as u32, THREADS as u32)
    };
    let args = (Words::of(x), Words::of(out), &mut sums, shape, plan);
    // SAFETY: the kernel's contract: threads, memory and blocks are those of the plan, which is of the shape; the operands are those of
    // the shape, and none is empty.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
    let sums = T::of_sums(sums, true)?;
    sums.into_shape(Ix3(problem.groups, problem.outputs, depth))
}
