// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions whose groups have one channel, depthwise ones above all. An output is the sum of as few products as there are taps, so
//! what counts is how often an element is loaded.
//!
//! A thread has a *strip*: [`STRIP`] places of the output one after another along the last axis, with an output or a few side by side.
//! What neighbouring taps along that axis read it loads once, into registers. Neighbouring threads have neighbouring outputs, up to
//! [`LANES`] vectors of them, and then strips one below the other, so that what taps along the other axes read again is in the cache of
//! the multiprocessor.
//!
//! [`weights`] has the gradient of the weights, by the same strips. [`patches`] is for pictures of 16-bit numbers, by way of shared memory.

pub mod patches;
mod strips;
pub mod weights;

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::ConvolveShape;
use crate::matmul::{MulAdd, unroll};
use crate::num::Num;
use strips::{Line, Strip, by_taps, quotient};

pub use strips::{FEW_TAPS, LANES, MANY_TAPS, STRIP, Strips, taps_at_once, vector};

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that ptxas makes room for on a multiprocessor: with three, or strips of 4 places, it is slower.
const BLOCKS: usize = 2;

/// Blocks of [`convolve_depthwise()`] for so many vectors, on a device of so many multiprocessors: no more than run at a time.
pub fn blocks(vectors: u32, multiprocessors: u32) -> u32 {
    Ord::min(vectors.div_ceil(THREADS as u32), BLOCKS as u32 * multiprocessors)
}

/// The convolution: `weights` has taps and outputs of all groups, in C order.
///
/// Sums are in the order of taps, by fused multiply-add in the wide type, and rounded once. The grid has one axis, with a thread for each
/// vector of each strip, or fewer, which take several: what is looked at ahead of the first one then counts for less. Where a group has
/// several channels, operands do not lie within their arrays and as `strips` has them, which has `M` taps at once, or 32 bits do not count
/// the vectors, nothing is written.
#[kernel(T = [f32, f64], M = [3]; T = [f16, bf16], M = [3, 7], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn convolve_depthwise<T: Num<Wide: MulAdd>, const M: usize>(
    x: &[T],
    weights: &[T],
    out: SliceMut<'_, T>,
    shape: ConvolveShape,
    strips: Strips,
) {
    let vectors = strips.vectors(&shape).unwrap_or(0);
    if shape.channels != 1 || !shape.fits(x.len(), weights.len(), out.len()) {
        return;
    }
    let of = Depthwise::<T, M> {
        x,
        weights,
        out,
        shape,
        strips,
    };
    // SAFETY (of all): operands that lie within their arrays, as vectors where that is asked.
    match strips.vector {
        1 => unsafe { of.run::<1>(vectors) },
        2 if const { vector(size_of::<T>()) == 2 } && of.is_in_vectors::<2>() => unsafe { of.run::<2>(vectors) },
        4 if const { vector(size_of::<T>()) == 4 } && of.is_in_vectors::<4>() => unsafe { of.run::<4>(vectors) },
        _ => {}
    }
}

struct Depthwise<'a, T, const M: usize> {
    x: &'a [T],
    weights: &'a [T],
    out: SliceMut<'a, T>,
    shape: ConvolveShape,
    strips: Strips,
}

impl<T: Num<Wide: MulAdd>, const M: usize> Depthwise<'_, T, M> {
    /// Whether `V` outputs side by side can be loaded and stored at once.
    #[inline(always)]
    fn is_in_vectors<const V: usize>(&self) -> bool {
        self.shape.is_in_vectors(V)
            && self.x.is_vec_aligned::<V>()
            && self.weights.is_vec_aligned::<V>()
            && self.out.is_vec_aligned::<V>()
    }

    /// Computes this thread's vectors, of so many.
    ///
    /// # Safety
    ///
    /// The operands lie within their arrays, and in vectors of `V` unless that is 1.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn run<const V: usize>(&self, vectors: u32) {
        let (shape, strips) = (&self.shape, &self.strips);
        let mut number = thread::index_1d();
        while number < vectors as usize {
            let (rest, lane) = quotient(number as u32, strips.lanes);
            let (strip, rest) = Strip::new(shape, rest);
            let (image, chunk) = quotient(rest, strips.chunks);
            if let Some(output) = strips.output(shape, chunk, lane) {
                // SAFETY: outputs of a strip, and the caller's promise.
                unsafe { self.sum::<V>(&strip.of_image(shape, image), output) };
            }
            number += thread::stride_1d();
        }
    }

    /// Computes the outputs from `output` on of a strip.
    ///
    /// # Safety
    ///
    /// As [`run`](Self::run), for a strip and outputs of the shape.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sum<const V: usize>(&self, strip: &Strip, output: usize) {
        let shape = &self.shape;
        let channel = shape.channel_of(output);
        let outputs = shape.all_outputs();
        let mut sums = [[T::Wide::ZERO; V]; STRIP];
        let mut weight = output;
        for a in 0..shape.window[0] {
            for b in 0..shape.window[1] {
                let Some(line) = strip.line(shape, [a, b], channel) else {
                    weight = weight.wrapping_add(outputs.wrapping_mul(shape.window[2] as usize));
                    continue;
                };
                let mut tap = 0;
                while tap < shape.window[2] {
                    let taps = self.strips.taps_from(shape, tap);
                    // SAFETY: a line of the input, weights of all outputs by taps that there are; and the caller's promise.
                    by_taps!(taps, shape.stride[2], |K, S, N| unsafe {
                        self.add::<V, K, S, N>(&mut sums, &line, tap, weight)
                    });
                    weight = weight.wrapping_add(outputs.wrapping_mul(taps as usize));
                    tap += taps;
                }
            }
        }
        let mut at = strip.out.wrapping_add(output.wrapping_mul(shape.out[4]));
        for place in 0..STRIP {
            if (place as u32) < strip.places {
                // SAFETY: a place of the strip, whose outputs are the caller's promise.
                unsafe {
                    self.out
                        .set_vec_unchecked::<V>(at, cuda_std::array::map(sums[place], T::narrow))
                };
            }
            at = at.wrapping_add(shape.out[3]);
        }
    }

    /// Adds the products of `K` taps from `tap` on, whose first weight is `weight`, of a line of which a strip's places read `N` elements,
    /// `S` from one place to the next.
    ///
    /// # Safety
    ///
    /// As [`sum`](Self::sum), for a line and taps of the shape.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn add<const V: usize, const K: usize, const S: usize, const N: usize>(
        &self,
        sums: &mut [[T::Wide; V]; STRIP],
        line: &Line,
        tap: u32,
        weight: usize,
    ) {
        const { assert!(N == (STRIP - 1) * S + K) };
        // SAFETY: the caller's promise.
        let x: [[T::Wide; V]; N] = unsafe { line.load::<T, V, K, N>(self.x, &self.shape, tap) };
        unroll!(8, k => {
            if k < K {
                let at = weight.wrapping_add(k.wrapping_mul(self.shape.all_outputs()));
                // SAFETY: the caller's promise.
                let of_tap: [T; V] = unsafe { self.weights.load_vec_unchecked(at) };
                let of_tap = cuda_std::array::map(of_tap, T::widen);
                for place in 0..STRIP {
                    for v in 0..V {
                        sums[place][v] = x[(place * S + k) % N][v].mul_add(of_tap[v], sums[place][v]);
                    }
                }
            }
        });
    }
}
