// SPDX-License-Identifier: MIT OR Apache-2.0
//! Depthwise convolutions of pictures, on Ampere and later.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{AmpereConvolve, DepthwisePatchesParams};
use kernels_gpu::convolve::depthwise::STRIP;
use kernels_gpu::convolve::depthwise::patches::{BLOCKS, PatchesPlan, TAPS, THREADS, lines};
use kernels_gpu::convolve::mma::WIDE;

use super::{Lies, most_bytes, of_multiprocessor};
use crate::error::Result;
use crate::launch::{LaunchConfig, Words, WordsMut};
use crate::ops::convolve::Convolve;
use crate::ops::convolve::forward::{Task, steps};
use crate::ops::convolve::geometry::Problem;
use crate::ops::matmul::{AMPERE, has_tensor_cores};
use crate::stream::Stream;

/// Units of 8 channels of a block, at most: with as many the lines that a warp reads at once are in different banks. With three, 28² with 240
/// channels and 5 × 5 taps took 27.0 µs for 26.0 on an H100.
const UNITS: usize = 4;

/// Items of a tile along the lines and the last axis, and how many patches a block has: of all that were measured, those that are the best
/// of a layer, or nearly.
const TILES: [([usize; 2], usize); 11] = [
    ([2, 7], 2),
    ([4, 2], 2),
    ([8, 1], 2),
    ([4, 4], 2),
    ([7, 2], 2),
    ([8, 2], 2),
    ([4, 7], 1),
    ([7, 4], 1),
    ([7, 7], 1),
    ([14, 2], 1),
    ([14, 4], 1),
];

/// The most lines of taps.
const MOST_LINES: usize = 64;

/// Bytes that a multiprocessor of a chip of data centres has of memory in a cycle.
const BYTES_OF_CYCLE: usize = 20;

/// Instructions of a warp for a copy of 16 bytes.
const OF_COPY: usize = 25;

/// Instructions of a warp for a tile that are none of its copies' and items'.
const OF_TILE: usize = 100;

/// The stride along lines and the last axis, if the kernel computes such convolutions: of two axes, in which there are lines.
fn stride(problem: &Problem) -> Option<usize> {
    let is_depthwise = problem.channels == 1 && problem.outputs == 1 && problem.groups.is_multiple_of(WIDE);
    let has_two_axes =
        problem.input[0] == 1 && problem.output[0] == 1 && problem.window[0] == 1 && problem.first[0] == 0;
    let is_dense = (1..3).all(|axis| problem.dilation[axis] == 1 || problem.window[axis] == 1);
    let has_lines = problem.output[1] > 1 && problem.window[1] <= MOST_LINES;
    let has_taps = TAPS.contains(&problem.window[2]);
    let [_, stride, along] = problem.stride;
    let is_possible = is_depthwise && has_two_axes && is_dense && has_lines && has_taps;
    (is_possible && stride == along && (1..=2).contains(&stride)).then_some(stride)
}

/// Items that a block of so many units has at a time.
fn items_at_once(units: usize) -> usize {
    THREADS / (units * WIDE / 2)
}

/// What plans are made for.
struct Wanted<'a> {
    problem: &'a Problem,
    stride: usize,
    stream: &'a Stream,
}

/// A plan, how many blocks it wants, and what it costs, in cycles.
struct Planned {
    plan: PatchesPlan,
    blocks: u32,
    cost: usize,
}

impl Wanted<'_> {
    /// The plan with tiles of so many items along the axes, if the kernel can have it.
    fn of_items(&self, [lines, strips]: [usize; 2], stages: usize) -> Option<Planned> {
        let (problem, stride) = (self.problem, self.stride);
        let [_, window, taps] = problem.window;
        let (all, of_item) = (problem.groups / WIDE, self::lines(stride as u32) as usize);
        let chunks = all.div_ceil(UNITS);
        let units = all.div_ceil(chunks);
        let (rows, columns) = (lines * of_item, strips * STRIP);
        let tiles = [problem.output[1].div_ceil(rows), problem.output[2].div_ceil(columns)];
        let number = problem.images.checked_mul(tiles[0])?.checked_mul(tiles[1])?;
        i32::try_from(number).ok()?;
        let plan = PatchesPlan {
            units: units as u32,
            chunks: chunks as u32,
            items: [lines, strips].map(|items| items as u32),
            tiles: tiles.map(|tiles| tiles as u32),
            stages: stages as u32,
        };
        let bytes = plan.memory([window as u32, taps as u32], stride as u32);
        if bytes > most_bytes(self.stream) {
            return None;
        }
        let patch = ((rows - 1) * stride + window) * ((columns - 1) * stride + taps) * units;
        let items = lines * strips;
        // An item's, for what lines of the input have, products, weights and outputs.
        let of_one = (window + of_item - 1) * (3 * ((STRIP - 1) * stride + taps) + 12)
            + window * taps * (2 * STRIP * of_item + 3)
            + 40 * of_item
            + 60;
        // Each scheduler of a multiprocessor has two of a block's eight warps.
        let instructions = 2 * (patch.div_ceil(THREADS) * OF_COPY + items * of_one / items_at_once(units) + OF_TILE);
        let memory = (patch + rows * columns * units) * 2 * WIDE / BYTES_OF_CYCLE;
        let multiprocessors = self.stream.backend().properties().multiprocessors as usize;
        let at_once = of_multiprocessor(self.stream, bytes, BLOCKS);
        let of_chunk = (at_once * multiprocessors / chunks).clamp(1, number);
        let blocks = of_chunk.checked_mul(chunks)?;
        let beside = blocks.div_ceil(multiprocessors);
        // What is copied and computed at a time, by the block itself or those beside it.
        let together = if stages == 2 { 4 } else { beside.min(at_once) };
        let of_tile = instructions.max(memory) + instructions.min(memory) / together;
        Some(Planned {
            plan,
            blocks: u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32)?,
            cost: number.div_ceil(of_chunk).saturating_mul(beside).saturating_mul(of_tile),
        })
    }

    /// The plan of least cost.
    fn plan(&self) -> Option<Planned> {
        let all = TILES.iter().filter_map(|&(items, stages)| self.of_items(items, stages));
        all.min_by_key(|planned| planned.cost)
    }
}

/// Computes, if the device has such tensor cores and the kernel is for such operands.
pub(in crate::ops::convolve) fn compute<T: Convolve + AmpereConvolve>(task: &mut Task<'_, T>) -> Result<bool> {
    let (problem, x, out) = (task.problem, Lies::of(task.x), steps(task.out));
    let out_is_in_pairs = task.out.address().is_multiple_of(4) && out[4] == 1;
    let out_is_in_pairs = out_is_in_pairs && (out[0] | out[1] | out[2] | out[3]).is_multiple_of(2);
    if !has_tensor_cores(task.stream, AMPERE) || !x.by_16_bytes() || !out_is_in_pairs {
        return Ok(false);
    }
    let Some(stride) = stride(problem) else {
        return Ok(false);
    };
    let stream = task.stream;
    let wanted = Wanted {
        problem,
        stride,
        stream,
    };
    let Some(planned) = wanted.plan() else {
        return Ok(false);
    };
    match problem.window[2] {
        3 => launch::<T, T::Depthwise3>(task, &planned, stride)?,
        5 => launch::<T, T::Depthwise5>(task, &planned, stride)?,
        _ => launch::<T, T::Depthwise7>(task, &planned, stride)?,
    }
    Ok(true)
}

fn launch<T: Convolve, K: Kernel<Params = DepthwisePatchesParams<T>>>(
    task: &mut Task<'_, T>,
    &Planned { plan, blocks, .. }: &Planned,
    stride: usize,
) -> Result<()> {
    let shape = task.shape();
    let weights = task.weights.in_order()?;
    let [_, lines, taps] = shape.window;
    let config = LaunchConfig {
        dynamic_shared: plan.memory([lines, taps], stride as u32) as usize,
        ..LaunchConfig::new(blocks, THREADS as u32)
    };
    let args = (Words::of(task.x), &*weights, WordsMut::of(task.out), shape, plan);
    // SAFETY: the kernel's contract: threads, memory and blocks are those of the plan, which is of the shape; the operands are those of
    // the shape, with weights in C order, none is empty, and they lie so.
    unsafe { task.stream.launch_on_tensor_cores::<K>(&config, args) }
}
