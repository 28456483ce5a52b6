// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of the weights of depthwise convolutions on tensor cores of Ampere and later.

use kernels_gpu::compiled::AmpereConvolve;
use kernels_gpu::convolve::mma::depthwise::{BLOCKS, DepthwiseMmaPlan, LINES, UNITS, log_tile, pairs};
use kernels_gpu::convolve::mma::{PLACES, THREADS, WIDE};
use kernels_gpu::num::Num;
use ndarray::{Ix3, Ix5};

use super::{Lies, Wanted, is_near, most_bytes, of_multiprocessor};
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

/// Tiles of a part, at least, where each multiprocessor has a block all the same.
const TILES_OF_PART: usize = 2;

/// The convolution with units of 8 channels for groups, and how many of them a block has; if groups have one channel and one output, and
/// copies take whole sectors of memory.
fn units(problem: &Problem) -> Option<(Problem, usize)> {
    let is_possible = problem.channels == 1 && problem.outputs == 1 && problem.groups.is_multiple_of(WIDE);
    let all = problem.groups / WIDE;
    let of_block = (1..=UNITS).rev().find(|&units| all.is_multiple_of(units))?;
    let problem = Problem {
        groups: all,
        channels: WIDE,
        outputs: WIDE,
        ..*problem
    };
    (is_possible && (of_block > 1 || all == 1)).then_some((problem, of_block))
}

/// The plan with panels of so many lines of taps, and what it costs in instructions of a warp for a tile, if the kernel can have such
/// operands.
fn plan_of(
    problem: &Problem,
    units: usize,
    lines: usize,
    x: Lies,
    stream: &Stream,
) -> Option<(usize, DepthwiseMmaPlan)> {
    let (strides, dilation) = (problem.stride[1], problem.dilation[1]);
    // Neighbouring lines of places share what lines of taps read.
    if lines > 1 && (strides > 2 || (dilation > 1 && problem.window[1] > 1)) {
        return None;
    }
    let of_panel = [1, lines, 2 * pairs(lines)];
    let window: [usize; 3] = std::array::from_fn(|axis| problem.window[axis].min(of_panel[axis]));
    let panels: [usize; 3] = std::array::from_fn(|axis| problem.window[axis].div_ceil(of_panel[axis]));
    let wanted = Wanted {
        problem: &Problem { window, ..*problem },
        groups: units,
        x,
        most: most_bytes(stream),
        tile: Some(log_tile(lines)),
        stream,
        blocks: BLOCKS,
    };
    let with = |of| DepthwiseMmaPlan {
        of,
        lines: lines as u32,
        panels: panels.map(|panels| panels as u32),
        taps: [window[1], window[2]].map(|taps| taps as u32),
    };
    let of = wanted.plan(|&plan| (with(plan).memory()[3], 0))?;
    if of.wide == 0 {
        return None;
    }
    // Some 20 for a copy of 16 bytes, of which a lane has one at a time; one to load what a line's pair of taps reads; and the products.
    let copies = (of.places() as usize + PLACES) * 20 / 32;
    let products = 4 * (lines + 1) * pairs(lines) + 8 * lines * pairs(lines);
    let all = panels.into_iter().fold(of.tiles_of(1), usize::saturating_mul);
    Some((all.saturating_mul(copies + products), with(of)))
}

/// The plan that costs least, if the kernel can have such operands.
fn plan(problem: &Problem, units: usize, x: Lies, stream: &Stream) -> Option<DepthwiseMmaPlan> {
    static PLANS: Plans<(Problem, usize, Lies, Gpu), Option<DepthwiseMmaPlan>> = Plans::new();
    PLANS.get((*problem, units, x, Gpu::of(stream)), || {
        let plans = LINES.map(|lines| plan_of(problem, units, lines, x, stream));
        let best = plans.into_iter().flatten().min_by_key(|&(cost, _)| cost);
        best.map(|(_, plan)| plan)
    })
}

/// The gradient of the weights, of a gradient of the output in C order: one group, outputs, taps; if the device has such tensor cores and
/// the kernel is for such operands.
pub(in crate::ops::convolve) fn weight_gradient<T: Convolve + AmpereConvolve + Num<Wide = f32>>(
    problem: &Problem,
    x: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<Option<DeviceArray<T, Ix3>>> {
    let stream = x.stream();
    if !has_tensor_cores(stream, AMPERE) || x.is_empty() || out.is_empty() || !Lies::of(out).by_16_bytes() {
        return Ok(None);
    }
    let Some((of_units, units)) = units(problem) else {
        return Ok(None);
    };
    let Some(plan) = plan(&of_units, units, Lies::of(x), stream) else {
        return Ok(None);
    };
    if !is_near(&plan.of, Lies::of(out)) {
        return Ok(None);
    }
    let bytes = plan.memory()[3];
    let shape = of_units.to_kernel(steps(x), steps(out));
    let tiles = plan.of.tiles_of(problem.images);
    let panels = plan.panels.iter().map(|&panels| panels as usize);
    let beside = panels.fold(plan.of.slices as usize, usize::saturating_mul);
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let wanted = multiprocessors * of_multiprocessor(stream, bytes, BLOCKS) / beside;
    let parts = wanted
        .min(tiles / TILES_OF_PART)
        .max(multiprocessors / beside)
        .clamp(1, tiles);
    let Ok(blocks) = i32::try_from(parts.saturating_mul(beside)) else {
        return Ok(None);
    };
    let sums = Ix3(parts, problem.groups, problem.taps());
    let mut sums = DeviceArray::<f32, Ix3>::uninit(stream, sums)?;
    let config = LaunchConfig {
        dynamic_shared: bytes as usize,
        ..LaunchConfig::new(blocks as u32, THREADS as u32)
    };
    let args = (Words::of(x), Words::of(out), &mut sums, shape, plan);
    // SAFETY: the kernel's contract: threads, memory and blocks are those of the plan, which is of the shape; the operands are those of
    // the shape, none is empty, and they lie so.
    unsafe { stream.launch_on_tensor_cores::<T::WeightsDepthwise>(&config, args)? };
    T::of_sums(sums, true).map(Some)
}
