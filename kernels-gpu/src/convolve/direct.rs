// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each output by a thread: for groups of few outputs, as depthwise convolutions have, of which a tile would have no use.
//!
//! Neighbouring threads have neighbouring outputs of a place, so that they read neighbouring channels, or the same ones, and
//! neighbouring weights. What places next to one another have in common comes from the cache. Of a depthwise convolution with as many
//! outputs as channels, side by side, a thread has four.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{ConvolveShape, Place, divide};
use crate::matmul::MulAdd;
use crate::num::Num;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Neighbouring channels of a depthwise convolution that a thread has, where they lie so.
const WIDE: usize = 4;

/// The convolution: `weights` has taps, channels of a group and outputs of all groups, in C order.
///
/// Sums are in the order of taps, then of channels, by fused multiply-add in the wide type, and rounded once. The grid has one axis,
/// with a thread for each output, or fewer, which take several. Where operands do not lie within their arrays, nothing is written.
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS)]
pub fn convolve_direct<T: Num<Wide: MulAdd>>(x: &[T], weights: &[T], out: SliceMut<'_, T>, shape: ConvolveShape) {
    if !shape.fits(x.len(), weights.len(), out.len()) {
        return;
    }
    let strides = |of: [usize; 5]| of[0] | of[1] | of[2] | of[3];
    let lies = |of: [usize; 5]| of[4] == 1 && strides(of).is_multiple_of(WIDE);
    let wide = shape.channels == 1
        && shape.outputs == 1
        && (shape.groups as usize).is_multiple_of(WIDE)
        && lies(shape.x)
        && lies(shape.out)
        && x.is_vec_aligned::<WIDE>()
        && weights.is_vec_aligned::<WIDE>()
        && out.is_vec_aligned::<WIDE>();
    let outputs = shape.groups as usize * shape.outputs as usize;
    let width = if wide { WIDE } else { 1 };
    // More outputs than 32 bits count are more than a grid has, and fit nowhere.
    let of_place = u32::try_from(outputs / width).unwrap_or(0);
    let total = shape.places() * (outputs / width);
    let mut number = thread::index_1d();
    while number < total {
        let (place, output) = divide(number, of_place);
        let place = shape.place(place);
        if wide {
            let first = output * WIDE;
            let sums = depthwise(x, weights, &shape, &place, first, outputs);
            // SAFETY: the place and the outputs are the shape's, which `fits` found to lie in `out`; all offsets are multiples of
            // `WIDE`, as the array is aligned.
            unsafe { out.set_vec_unchecked::<WIDE>(place.out.wrapping_add(first), sums.map(T::narrow)) };
        } else {
            let sum = sum(x, weights, &shape, &place, [output, outputs]);
            let at = place.out.wrapping_add(output.wrapping_mul(shape.out[4]));
            // SAFETY: as above.
            unsafe { out.set_vec_unchecked(at, [T::narrow(sum)]) };
        }
        number += thread::stride_1d();
    }
}

/// The sums of neighbouring channels of a place, from `first` of `channels` on.
#[inline(always)]
fn depthwise<T: Num<Wide: MulAdd>>(
    x: &[T],
    weights: &[T],
    shape: &ConvolveShape,
    place: &Place,
    first: usize,
    channels: usize,
) -> [T::Wide; WIDE] {
    let mut sums = [T::Wide::ZERO; WIDE];
    let mut weight = first;
    for a in 0..shape.window[0] {
        for b in 0..shape.window[1] {
            for c in 0..shape.window[2] {
                if let Some(source) = shape.source(place, [a, b, c]) {
                    // SAFETY (of both): channels of a place of the input, and their weights, which `fits` found to be in their arrays,
                    // at multiples of `WIDE`.
                    let (x, w) = unsafe {
                        (
                            x.load_vec_unchecked::<WIDE>(source.wrapping_add(first)),
                            weights.load_vec_unchecked::<WIDE>(weight),
                        )
                    };
                    sums = cuda_std::array::from_fn(|i| x[i].widen().mul_add(w[i].widen(), sums[i]));
                }
                weight += channels;
            }
        }
    }
    sums
}

/// The sum that is that output of a place.
#[inline(always)]
fn sum<T: Num<Wide: MulAdd>>(
    x: &[T],
    weights: &[T],
    shape: &ConvolveShape,
    place: &Place,
    [output, outputs]: [usize; 2],
) -> T::Wide {
    let (group, _) = divide(output, shape.outputs);
    let first = group.wrapping_mul(shape.channels as usize).wrapping_mul(shape.x[4]);
    let mut sum = T::Wide::ZERO;
    let mut weight = output;
    for a in 0..shape.window[0] {
        for b in 0..shape.window[1] {
            for c in 0..shape.window[2] {
                let Some(source) = shape.source(place, [a, b, c]) else {
                    weight += shape.channels as usize * outputs;
                    continue;
                };
                let mut at = source.wrapping_add(first);
                for _ in 0..shape.channels {
                    // SAFETY (of both): the channel of a place of the input, and a weight, which `fits` found to be in their arrays.
                    let ([x], [w]) =
                        unsafe { (x.load_vec_unchecked::<1>(at), weights.load_vec_unchecked::<1>(weight)) };
                    sum = x.widen().mul_add(w.widen(), sum);
                    at = at.wrapping_add(shape.x[4]);
                    weight += outputs;
                }
            }
        }
    }
    sum
}
