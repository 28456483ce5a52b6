// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of few channels or outputs on tensor cores of Ampere and later: which their kernel takes, and its tiles.

pub(super) mod depthwise;
mod groups;
pub(super) mod pictures;
mod weights;

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{AmpereConvolve, AmpereConvolveParams};
use kernels_gpu::convolve::mma::{MmaPlan, PLACES, THREADS, WIDE, blocks};
use ndarray::Ix5;

pub(super) use self::weights::weight_gradient;
use super::Convolve;
use super::forward::{Task, steps};
use super::geometry::Problem;
use super::plans::{Gpu, Plans};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words, WordsMut};
use crate::ops::matmul::{AMPERE, has_tensor_cores};
use crate::stream::Stream;

/// Of more channels of a group, and more outputs, the kernels for whole chunks of channels are faster.
const FEW: usize = 32;

/// Outputs of a group up to which any number of channels is taken: of more, a tile of theirs is not empty for the most part.
const FEW_OUTPUTS: usize = 8;

/// The most bytes of shared memory of a block: with more, a multiprocessor of a chip of data centres has one at a time.
const MOST_BYTES: u32 = 100 << 10;

/// Channels of the groups of a block, at most, where there are several: two lines of 128 bytes, or one.
const CHANNELS_OF_BLOCK: usize = 64;

/// Banks of shared memory.
const BANKS: u32 = 32;

/// Whether the kernel is meant for so many channels and outputs.
pub(super) fn is_meant(problem: &Problem) -> bool {
    problem.channels <= FEW || problem.outputs <= FEW_OUTPUTS
}

/// Whether the kernel is meant for such operands.
fn is_taken(problem: &Problem) -> bool {
    // Where places share nothing of what they read, a patch saves nothing.
    let shares = problem.stride == [1; 3] || (0..3).any(|axis| problem.reach(axis) >= problem.stride[axis]);
    shares && is_meant(problem)
}

/// The tile's outputs in units of 8.
fn tile_outputs(problem: &Problem) -> usize {
    match problem.outputs {
        ..=8 => 1,
        9..=32 => 4,
        _ => 8,
    }
}

/// How many of a fragment's words are in one bank, where eight neighbouring places are so many words apart.
fn conflicts(apart: u32) -> u32 {
    let mut addresses: Vec<u32> = (0..32).map(|lane| lane / 4 * apart + lane % 4).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let of = |bank: u32| addresses.iter().filter(|&address| address % BANKS == bank).count() as u32;
    (0..BANKS).map(of).max().unwrap_or(0)
}

/// Elements from place to place of a patch of so many channels, which is a multiple of `unit` elements.
fn pitch(channels: u32, stride: u32, unit: u32) -> u32 {
    let all = (channels.next_multiple_of(unit)..).step_by(unit as usize).take(8);
    let best = all.min_by_key(|&pitch| (conflicts(pitch / 2 * stride), pitch));
    best.unwrap_or(channels)
}

/// `2³² / by`, rounded up, or 0 for 1.
fn reciprocal(by: u32) -> u32 {
    if by <= 1 {
        0
    } else {
        (u64::from(u32::MAX) / u64::from(by) + 1) as u32
    }
}

/// What a plan is made for.
struct Wanted<'a> {
    problem: &'a Problem,
    /// Groups of a block.
    groups: usize,
    x: Lies,
    /// Bytes of shared memory that a block may have.
    most: u32,
    /// The tile, if the kernel is for one alone.
    tile: Option<[u32; 3]>,
    stream: &'a Stream,
    /// Blocks that run on a multiprocessor at a time, at most.
    blocks: usize,
}

impl Wanted<'_> {
    /// The plan whose cost is least, of those whose bytes of shared memory are few enough: `of` gives the bytes, and what the products of
    /// a tile cost in elements that are copied.
    fn plan(&self, of: impl Fn(&MmaPlan) -> (u32, usize)) -> Option<MmaPlan> {
        let Self { problem, groups, .. } = *self;
        let channels = problem.channels.next_multiple_of(2);
        let wide = self.x.by_16_bytes() && channels == problem.channels && (groups * channels).is_multiple_of(WIDE);
        let (few_taps, few_channels) = (problem.taps() < 1 << 12, groups * channels < 1 << 12);
        if !few_taps || !few_channels {
            return None;
        }
        let unit = if wide { WIDE as u32 } else { 2 };
        let stride = problem.stride[2].min(BANKS as usize) as u32;
        let pitch = pitch((groups * channels) as u32, stride, unit);
        let log = PLACES.trailing_zeros();
        let all = (0..=log).flat_map(|c| (0..=log - c).map(move |b| [log - b - c, b, c]));
        let of_tile = |log_tile: [u32; 3]| {
            let length = |axis: usize| {
                let places = ((1usize << log_tile[axis]) - 1).checked_mul(problem.stride[axis])?;
                places.checked_add(problem.reach(axis) + 1)
            };
            let patch = [length(0)?, length(1)?, length(2)?];
            let places = patch[0].checked_mul(patch[1])?.checked_mul(patch[2])?;
            // A reciprocal is exact for so few.
            if places.checked_mul(pitch as usize)? > 1 << 16 {
                return None;
            }
            // A table has numbers of so many bits, and distances of 32.
            let far = patch
                .iter()
                .zip(&self.x.steps[1..4])
                .try_fold(0usize, |far, (&length, &step)| {
                    far.checked_add(length.checked_mul(step)?)
                });
            if patch[0] > 1 << 7 || patch[1] > 1 << 10 || patch[2] > 1 << 12 || far? > u32::MAX as usize {
                return None;
            }
            let tiles: [usize; 3] = std::array::from_fn(|axis| problem.output[axis].div_ceil(1 << log_tile[axis]));
            let all = tiles
                .iter()
                .try_fold(problem.images, |all, &tiles| all.checked_mul(tiles))?;
            i32::try_from(all).ok()?;
            let accesses = groups * problem.channels / WIDE;
            let plan = MmaPlan {
                log_tile,
                tiles: tiles.map(|tiles| tiles as u32),
                patch: patch.map(|length| length as u32),
                reciprocals: [patch[1], patch[2], accesses, channels / 2].map(|by| reciprocal(by as u32)),
                groups: groups as u32,
                slices: (problem.groups / groups) as u32,
                columns: 1,
                pitch,
                channels: channels as u32,
                line: 0,
                wide: wide.into(),
                stages: 1,
            };
            let (bytes, products) = of(&plan);
            // Where fewer than eight places follow one another, lanes meet in banks.
            let products = if log_tile[2] < 3 { products * 3 / 2 } else { products };
            let cost = tiles.iter().product::<usize>() * (4 * places * pitch as usize + products);
            (bytes <= self.most).then_some((cost, plan))
        };
        let plan = all
            .filter(|&tile| self.tile.is_none_or(|only| tile == only))
            .filter_map(of_tile)
            .min_by_key(|&(cost, _)| cost)
            .map(|(_, plan)| plan)?;
        // Two patches where as many blocks run at a time with them.
        let two = MmaPlan { stages: 2, ..plan };
        let at_once = |plan: &MmaPlan| of_multiprocessor(self.stream, of(plan).0, self.blocks);
        let is_better = wide && of(&two).0 <= self.most && at_once(&two) >= at_once(&plan);
        Some(if is_better { two } else { plan })
    }
}

/// The most groups of a block, of those that divide all.
fn groups_of_block(problem: &Problem) -> usize {
    let most = (CHANNELS_OF_BLOCK / problem.channels.next_multiple_of(2)).clamp(1, problem.groups);
    let divides = |groups: &usize| problem.groups.is_multiple_of(*groups);
    (1..=most).rev().find(divides).unwrap_or(1)
}

/// The plan, if the kernel can have such operands.
fn plan(problem: &Problem, n: usize, x: Lies, most: u32, stream: &Stream) -> Option<MmaPlan> {
    let taps = u32::try_from(problem.taps()).ok()?;
    let line = |plan: &MmaPlan| MmaPlan {
        line: 2 * plan.pairs(taps) + WIDE as u32,
        columns: problem.outputs.div_ceil(8 * n) as u32,
        ..*plan
    };
    let wanted = Wanted {
        problem,
        groups: groups_of_block(problem),
        x,
        most,
        tile: None,
        stream,
        blocks: blocks(n),
    };
    let plan = wanted.plan(|plan| {
        let products = PLACES * (plan.pairs(taps) as usize + 8 * n) * wanted.groups;
        (line(plan).memory(taps, n)[3], products)
    })?;
    Some(line(&plan))
}

/// Where elements lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Lies {
    /// Whether the first begins at a multiple of 16 bytes.
    is_aligned: bool,
    /// The distances between them along each axis.
    steps: [usize; 5],
}

impl Lies {
    fn of<T: Convolve>(elements: &DeviceArrayRef<T, Ix5>) -> Self {
        Self {
            is_aligned: elements.address().is_multiple_of(16),
            steps: steps(elements),
        }
    }

    /// Whether copies by 16 bytes have them so, where there are as many channels.
    fn by_16_bytes(&self) -> bool {
        let [images, a, b, c, channels] = self.steps;
        self.is_aligned && channels == 1 && (images | a | b | c).is_multiple_of(WIDE)
    }
}

/// Whether a tile's places are over less than 2^32 elements of an array that lies so.
fn is_near(plan: &MmaPlan, lies: Lies) -> bool {
    let lengths = plan.log_tile.iter().zip(&lies.steps[1..4]);
    let far = lengths.fold(0, |far: usize, (&log, &step)| {
        far.saturating_add(step.saturating_mul(1 << log))
    });
    u32::try_from(far).is_ok()
}

/// Bytes of shared memory that a block may have on the stream's device.
fn most_bytes(stream: &Stream) -> u32 {
    MOST_BYTES.min(stream.backend().properties().shared_memory_per_block_optin)
}

/// Computes, if the device has such tensor cores and the kernel is for such operands.
pub(super) fn compute<T: Convolve + AmpereConvolve>(task: &mut Task<'_, T>) -> Result<bool> {
    let problem = task.problem;
    if !has_tensor_cores(task.stream, AMPERE) || !is_taken(problem) {
        return Ok(false);
    }
    if groups::compute(task)? {
        return Ok(true);
    }
    static PLANS: Plans<(Problem, Lies, Gpu), Option<(usize, MmaPlan)>> = Plans::new();
    let (x, stream) = (Lies::of(task.x), task.stream);
    let Some((n, plan)) = PLANS.get((*problem, x, Gpu::of(stream)), || best_plan(problem, x, stream)) else {
        return Ok(false);
    };
    match n {
        1 => launch::<T, T::N8>(task, plan, n)?,
        4 => launch::<T, T::N32>(task, plan, n)?,
        _ => launch::<T, T::N64>(task, plan, n)?,
    }
    Ok(true)
}

/// Units of 8 outputs of a tile, and the plan with these, if the kernel can have such operands.
fn best_plan(problem: &Problem, x: Lies, stream: &Stream) -> Option<(usize, MmaPlan)> {
    let all = stream.backend().properties().shared_memory_per_block_optin;
    // Fewer outputs of a tile, or a multiprocessor's memory for one block, where there is no room.
    let of = |n: usize, most: u32| plan(problem, n, x, most.min(all), stream).map(|plan| (n, plan));
    let tiles = [8, 4, 1]
        .into_iter()
        .filter(|&n| n <= tile_outputs(problem) && 4 * n >= tile_outputs(problem).min(8));
    let mut with_few_bytes = tiles.clone();
    with_few_bytes
        .find_map(|n| of(n, MOST_BYTES))
        .or_else(|| tiles.clone().find_map(|n| of(n, all)))
}

/// How many blocks with so many bytes of shared memory run on a multiprocessor of the stream's device, of no more than `most`.
fn of_multiprocessor(stream: &Stream, bytes: u32, most: usize) -> usize {
    let properties = stream.backend().properties();
    let all = properties.shared_memory_per_multiprocessor.unwrap_or(MOST_BYTES) as usize;
    (all / (bytes as usize + 1024)).clamp(1, most)
}

/// As many blocks as run at a time, each of which has its weights copied first: with so many bytes, and no more than `most` a
/// multiprocessor.
fn blocks_at_once<T: Convolve>(task: &Task<'_, T>, plan: &MmaPlan, bytes: u32, most: usize) -> u32 {
    let tiles = plan.tiles_of(task.problem.images);
    let beside = plan.slices as usize * plan.columns as usize;
    let multiprocessors = task.stream.backend().properties().multiprocessors as usize;
    let wanted = (multiprocessors * of_multiprocessor(task.stream, bytes, most) / beside).max(1);
    (tiles.min(wanted) * beside) as u32
}

/// By the kernel for tiles of `n` times 8 outputs.
fn launch<T: Convolve, K: Kernel<Params = AmpereConvolveParams<T>>>(
    task: &mut Task<'_, T>,
    plan: MmaPlan,
    n: usize,
) -> Result<()> {
    let shape = task.shape();
    let weights = task.weights.in_order()?;
    let bytes = plan.memory(task.problem.taps() as u32, n)[3];
    let blocks = blocks_at_once(task, &plan, bytes, blocks(n));
    let config = LaunchConfig {
        dynamic_shared: bytes as usize,
        ..LaunchConfig::new(blocks, THREADS as u32)
    };
    let args = (Words::of(task.x), &*weights, WordsMut::of(task.out), shape, plan);
    // SAFETY: the kernel's contract: threads, memory and blocks are those of the plan, which is of the shape; the operands are those of
    // the shape, with weights in C order, and none is empty.
    unsafe { task.stream.launch_on_tensor_cores::<K>(&config, args) }
}
