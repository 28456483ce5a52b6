// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each output by a thread: for groups of few outputs, of which a tile would have no use.
//!
//! Neighbouring threads have neighbouring outputs of a place, so that they read the same channels, and neighbouring weights. What places
//! next to one another have in common comes from the cache.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{ConvolveShape, Place, divide};
use crate::matmul::MulAdd;
use crate::num::Num;

/// Threads of a block.
pub const THREADS: usize = 256;

/// The convolution: `weights` has taps, channels of a group and outputs of all groups, in C order.
///
/// Sums are in the order of taps, then of channels, by fused multiply-add in the wide type, and rounded once. The grid has one axis,
/// with a thread for each output, or fewer, which take several. Where operands do not lie within their arrays, nothing is written.
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS)]
pub fn convolve_direct<T: Num<Wide: MulAdd>>(x: &[T], weights: &[T], out: SliceMut<'_, T>, shape: ConvolveShape) {
    if !shape.fits(x.len(), weights.len(), out.len()) {
        return;
    }
    let outputs = shape.groups as usize * shape.outputs as usize;
    // More outputs than 32 bits count are more than a grid has, and fit nowhere.
    let of_place = u32::try_from(outputs).unwrap_or(0);
    let total = shape.places() * outputs;
    let mut number = thread::index_1d();
    while number < total {
        let (place, output) = divide(number, of_place);
        let place = shape.place(place);
        let sum = sum(x, weights, &shape, &place, [output, outputs]);
        let at = place.out.wrapping_add(output.wrapping_mul(shape.out[4]));
        // SAFETY: the place and the output are the shape's, which `fits` found to lie in `out`.
        unsafe { out.set_vec_unchecked(at, [T::narrow(sum)]) };
        number += thread::stride_1d();
    }
}

/// The sum that is that output of a place.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
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
