// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of the weights of convolutions whose groups have one channel.
//!
//! A block has a *part* of the strips of all images. A thread has neighbouring taps, whose sums it keeps in registers, and takes every
//! so many strips of the part: so each element of the input comes to as many threads of the block as there are lines of taps, next to
//! one another in time. In the end the block adds up the sums of its threads, in a fixed order, and writes them; those of all parts are
//! for others to add.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::super::ConvolveShape;
use super::strips::{LANES, Line, MANY_TAPS, STRIP, Strip, Strips, by_taps, quotient};
use super::vector;
use crate::matmul::{MulAdd, unroll};
use crate::num::Num;

/// Threads of a block, at most. A multiprocessor has one: with two of 192 threads, ptxas keeps registers in memory, a tenth slower.
pub const THREADS: usize = 384;

/// Who adds which taps and strips.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct WeightPlan {
    /// The outputs of threads.
    pub strips: Strips,
    /// Taps fall into runs, those that a thread has: of a block.
    pub runs: u32,
    /// Blocks that have all runs.
    pub blocks_of_runs: u32,
    /// Threads that have the same outputs and taps, and take turns with the strips.
    pub turns: u32,
    /// Strips of all images.
    pub total: u32,
    /// Strips of a part.
    pub of_part: u32,
}

impl WeightPlan {
    /// That of a convolution with so many strips, of which there are some, and how many parts it has, on a device of so many
    /// multiprocessors; if 32 bits count its blocks.
    pub fn new(
        shape: &ConvolveShape,
        vector: u32,
        taps: usize,
        total: u32,
        multiprocessors: u32,
    ) -> Option<(Self, u32)> {
        let outputs = shape.all_outputs() as u32;
        let of_lanes = |lanes: u32| {
            let strips = Strips::of_lanes(outputs, vector, taps, lanes);
            let runs = shape.window[0]
                .checked_mul(shape.window[1])?
                .checked_mul(shape.window[2].div_ceil(strips.together(shape)))?;
            let blocks_of_runs = runs.div_ceil(THREADS as u32 / strips.lanes);
            let of_block = runs.div_ceil(blocks_of_runs);
            let turns = THREADS as u32 / (strips.lanes * of_block);
            Some((strips, blocks_of_runs, of_block, turns))
        };
        // As many threads as there may be: with seven lines of taps, of all lanes there are few.
        let threads = |lanes: u32| of_lanes(lanes).map(|(strips, _, of_block, turns)| strips.lanes * of_block * turns);
        let lanes = [LANES, LANES / 4 * 3, LANES / 2]
            .into_iter()
            .rev()
            .max_by_key(|&lanes| threads(lanes))?;
        let (strips, blocks_of_runs, of_block, turns) = of_lanes(lanes)?;
        let beside = strips.chunks.checked_mul(blocks_of_runs)?;
        let wanted = (multiprocessors / beside).clamp(1, total.div_ceil(turns));
        let of_part = total.div_ceil(wanted);
        let plan = Self {
            strips,
            runs: of_block,
            blocks_of_runs,
            turns,
            total,
            of_part,
        };
        Some((plan, total.div_ceil(of_part)))
    }

    /// Blocks for each part.
    pub fn blocks(&self) -> u32 {
        self.strips.chunks * self.blocks_of_runs
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.strips.lanes * self.runs * self.turns
    }
}

/// Taps one after another along the last axis.
#[derive(Clone, Copy)]
struct Run {
    /// The line of taps.
    line: [u32; 2],
    /// The first, and how many.
    tap: u32,
    taps: u32,
    /// Its number among all taps.
    number: usize,
}

impl Run {
    /// For how many taps there is code, of which the last ones may not be there.
    #[inline(always)]
    fn code(&self) -> u32 {
        match self.taps {
            4 => 5,
            6 => 7,
            taps => taps,
        }
    }

    /// Run number `number`, if there is.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new(shape: &ConvolveShape, strips: &Strips, number: u32) -> Option<Self> {
        let together = strips.together(shape);
        // Rounded up; taps are counted by 31 bits.
        let runs = quotient(shape.window[2].wrapping_add(together).wrapping_sub(1), together).0;
        let (line, run) = quotient(number, runs);
        let (a, b) = quotient(line, shape.window[1]);
        let tap = run.wrapping_mul(together);
        (a < shape.window[0]).then(|| Self {
            line: [a, b],
            tap,
            taps: Ord::min(together, shape.window[2].wrapping_sub(tap)),
            number: (line as usize)
                .wrapping_mul(shape.window[2] as usize)
                .wrapping_add(tap as usize),
        })
    }
}

/// The sums of products of `x` and the gradient of the result, for each part: parts, outputs of all groups, and taps, in C order.
///
/// The grid has one axis, of [`blocks`](WeightPlan::blocks) blocks for each part, which have [`threads`](WeightPlan::threads) threads.
/// Sums are by fused multiply-add in the wide type, in an order that `plan` alone says. Where a group has several channels, operands do
/// not lie within their arrays and as `plan` has them, which has `M` taps at once, or there are other threads, nothing is written.
#[kernel(T = [f32, f64, f16, bf16], M = [3], max_threads = THREADS, min_blocks = 1)]
pub fn convolve_depthwise_weights<T: Num<Wide: MulAdd>, const M: usize>(
    x: &[T],
    gradient: &[T],
    sums: SliceMut<'_, <T as Num>::Wide>,
    shape: ConvolveShape,
    plan: WeightPlan,
) {
    let counts = [plan.strips.lanes, plan.runs, plan.turns].map(|count| Ord::min(count as usize, THREADS + 1));
    let threads = counts[0] * counts[1] * counts[2];
    let is_possible = threads <= THREADS && threads == thread::block_dim_x() as usize && shape.channels == 1;
    let is_possible = is_possible && Strips::count(&shape) == Some(plan.total);
    if !is_possible || !shape.fits(x.len(), sums.len(), gradient.len()) {
        return;
    }
    let shared = shared_array![u64; 2 * THREADS].cast();
    let of = Weights::<T, M> {
        x,
        gradient,
        sums,
        shape,
        plan,
        shared,
    };
    // SAFETY (of all): the operands lie within their arrays, as vectors where that is asked.
    match plan.strips.vector {
        1 => unsafe { of.run::<1>() },
        2 if const { vector(size_of::<T>()) == 2 } && of.is_in_vectors::<2>() => unsafe { of.run::<2>() },
        4 if const { vector(size_of::<T>()) == 4 } && of.is_in_vectors::<4>() => unsafe { of.run::<4>() },
        _ => {}
    }
}

struct Weights<'a, T: Num, const M: usize> {
    x: &'a [T],
    gradient: &'a [T],
    sums: SliceMut<'a, T::Wide>,
    shape: ConvolveShape,
    plan: WeightPlan,
    /// 4 numbers of 4 bytes or 2 of 8 for each thread.
    shared: Shared<T::Wide>,
}

/// Sums of a thread's taps.
type Sums<W, const V: usize, const M: usize> = [[W; V]; M];

impl<T: Num<Wide: MulAdd>, const M: usize> Weights<'_, T, M> {
    /// Whether `V` outputs side by side can be loaded at once.
    #[inline(always)]
    fn is_in_vectors<const V: usize>(&self) -> bool {
        self.shape.is_in_vectors(V) && self.x.is_vec_aligned::<V>() && self.gradient.is_vec_aligned::<V>()
    }

    /// # Safety
    ///
    /// The operands lie within their arrays, and in vectors of `V` unless that is 1; a block has the plan's threads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const V: usize>(&self) {
        let (shape, plan) = (&self.shape, &self.plan);
        let (rest, lane) = quotient(thread::thread_idx_x(), plan.strips.lanes);
        let (turn, run) = quotient(rest, plan.runs);
        let (rest, of_runs) = quotient(thread::block_idx_x(), plan.blocks_of_runs);
        let (part, chunk) = quotient(rest, plan.strips.chunks);
        let run = Run::new(shape, &plan.strips, of_runs.wrapping_mul(plan.runs).wrapping_add(run));
        let output = plan.strips.output(shape, chunk, lane);
        let mut sums = [[T::Wide::ZERO; V]; M];
        if let (Some(run), Some(output)) = (run, output) {
            let channel = shape.channel_of(output);
            let start = part.wrapping_mul(plan.of_part);
            let end = Ord::min(start.saturating_add(plan.of_part), plan.total);
            let mut number = start.saturating_add(turn);
            let mut strip = None;
            while number < end {
                // Most strips are below the one before: no division.
                let here = match strip.and_then(|strip: Strip| strip.below(shape, plan.turns)) {
                    Some(strip) => strip,
                    None => {
                        let (strip, image) = Strip::new(shape, number);
                        strip.of_image(shape, image)
                    }
                };
                if let Some(line) = here.line(shape, run.line, channel) {
                    // SAFETY: a strip, a line and outputs of the shape, and the caller's promise.
                    by_taps!(run.code(), shape.stride[2], |K, S, N| unsafe {
                        self.add::<V, K, S, N>(&mut sums, &here, &line, run.tap, output)
                    });
                }
                strip = Some(here);
                number = number.saturating_add(plan.turns);
            }
        }
        self.store::<V>(&sums, part, turn, run.zip(output));
    }

    /// Adds the products of a strip by `K` taps from `tap` on, of a line of which its places read `N` elements, `S` from one place to the
    /// next.
    ///
    /// # Safety
    ///
    /// As [`run`](Self::run), for a strip, its line, taps, and outputs of the shape.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn add<const V: usize, const K: usize, const S: usize, const N: usize>(
        &self,
        sums: &mut Sums<T::Wide, V, M>,
        strip: &Strip,
        line: &Line,
        tap: u32,
        output: usize,
    ) {
        const { assert!(N == (STRIP - 1) * S + K) };
        let shape = &self.shape;
        // SAFETY: the caller's promise.
        let x: [[T::Wide; V]; N] = unsafe { line.load::<T, V, K, N>(self.x, shape, tap) };
        let first = strip.out.wrapping_add(output.wrapping_mul(shape.out[4]));
        let mut gradient = [[T::ZERO; V]; STRIP];
        for place in 0..STRIP {
            // Beyond the last place that one, of which nothing is kept: without a branch, so that all loads are under way at once.
            let from = Ord::min(place as u32, strip.places.wrapping_sub(1)) as usize;
            let at = first.wrapping_add(from.wrapping_mul(shape.out[3]));
            // SAFETY: a place of the strip, whose outputs are the caller's promise.
            gradient[place] = unsafe { self.gradient.load_vec_unchecked(at) };
        }
        unroll!(8, place => {
            // Not by zeros: what taps read beyond the last place may be infinite.
            if (place as u32) < strip.places {
                let gradient = cuda_std::array::map(gradient[place], T::widen);
                for k in 0..K {
                    for v in 0..V {
                        sums[k][v] = gradient[v].mul_add(x[(place * S + k) % N][v], sums[k][v]);
                    }
                }
            }
        });
    }

    /// Adds up the sums of the block's threads, turn by turn, and writes them. For all threads of the block.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<const V: usize>(&self, sums: &Sums<T::Wide, V, M>, part: u32, turn: u32, of: Option<(Run, usize)>) {
        let (shape, plan) = (&self.shape, &self.plan);
        let (thread, team) = (
            thread::thread_idx_x() as usize,
            plan.strips.lanes as usize * plan.runs as usize,
        );
        let taps = shape.taps();
        unroll!(8, k => {
            // The same for all threads.
            if k < M && (k as u32) < plan.strips.together(shape) {
                let of_tap = sums[k % M];
                for v in 0..V {
                    // SAFETY: there is room for as many numbers of each thread.
                    unsafe { self.shared.set_unchecked(v * THREADS + thread, of_tap[v]) };
                }
                thread::sync_threads();
                if let (0, Some((run, output))) = (turn, of) {
                    for v in 0..V {
                        let mut sum = of_tap[v];
                        for other in 1..plan.turns as usize {
                            // SAFETY: a thread of the block.
                            sum = sum.add(unsafe { self.shared.get_unchecked(v * THREADS + thread + other * team) });
                        }
                        let line = (part as usize)
                            .wrapping_mul(shape.all_outputs())
                            .wrapping_add(output)
                            .wrapping_add(v);
                        let at = line.wrapping_mul(taps).wrapping_add(run.number).wrapping_add(k);
                        if (k as u32) < run.taps && at < self.sums.len() {
                            // SAFETY: less than the length, as just asked.
                            unsafe { self.sums.set_vec_unchecked(at, [sum]) };
                        }
                    }
                }
                thread::sync_threads();
            }
        });
    }
}
