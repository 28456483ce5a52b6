// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of one to three axes, as networks have them: cross-correlations with several channels.
//!
//! `out[n, o, k] = Σ_t Σ_c x[n, o · stride + t · dilation + first, c] · weights[k, t, c]`, where `o` and `t` are places along three
//! axes, and `x` is 0 outside. Channels fall into groups, which have their own outputs.
//!
//! [`tiled`] is a product of matrices whose left one, of a line for each place of the output, is in no memory; [`direct`] computes an
//! output by itself, for groups of few outputs; [`depthwise`] has several, for groups of one channel. [`mma`] is for few channels or outputs
//! on tensor cores, and [`parts`] adds up gradients that are made in parts.

use cuda_std::prelude::*;

use crate::matmul::{span, unroll};

pub mod depthwise;
pub mod direct;
pub mod mma;
pub mod parts;
pub mod tiled;

/// The shape of a convolution, and where elements lie. Axes that there are not have the length 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct ConvolveShape {
    /// Inputs, and as many outputs.
    pub images: u32,
    /// Places of the input along each axis.
    pub input: [u32; 3],
    /// Places of the output.
    pub output: [u32; 3],
    /// Taps: places of the weights.
    pub window: [u32; 3],
    /// Places of the input from one of the output to the next.
    pub stride: [u32; 3],
    /// Places of the input from one tap to the next.
    pub dilation: [u32; 3],
    /// Where in the input the first tap of the first place of the output is, modulo 2^32: negative where there is padding.
    pub first: [u32; 3],
    /// Groups.
    pub groups: u32,
    /// Channels of a group.
    pub channels: u32,
    /// Outputs of a group.
    pub outputs: u32,
    /// Distances in the input, in elements: between images, along the axes, between channels.
    pub x: [usize; 5],
    /// The same in the output.
    pub out: [usize; 5],
}

/// A place of the output.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The first element of the input's image.
    image: usize,
    /// Where the first tap is, modulo 2^32.
    at: [u32; 3],
    /// The first of its elements in the output.
    out: usize,
}

impl ConvolveShape {
    /// Taps.
    #[inline(always)]
    fn taps(&self) -> usize {
        product(1, self.window)
    }

    /// Products that an output is the sum of.
    #[inline(always)]
    fn depth(&self) -> usize {
        self.taps().wrapping_mul(self.channels as usize)
    }

    /// Places of all outputs.
    #[inline(always)]
    fn places(&self) -> usize {
        product(self.images as usize, self.output)
    }

    /// Whether the operands lie within arrays of these lengths, and there is something to be summed.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn fits(&self, x: usize, weights: usize, out: usize) -> bool {
        let of = |images: u32, [a, b, c]: [u32; 3], channels: usize| {
            [images as usize, a as usize, b as usize, c as usize, channels]
        };
        let product = |[a, b, c, d, e]: [usize; 5]| {
            let product = a.checked_mul(b)?.checked_mul(c)?.checked_mul(d)?;
            product.checked_mul(e)
        };
        let within = |needed: Option<usize>, len| needed.is_some_and(|needed| needed <= len);
        // Less than 2^64.
        let [groups, channels, outputs] = [self.groups, self.channels, self.outputs].map(|n| n as usize);
        let (inner, outer) = (groups * channels, groups * outputs);
        within(span(of(self.images, self.input, inner), self.x), x)
            && within(span(of(self.images, self.output, outer), self.out), out)
            && product(of(self.images, self.output, outer)).is_some()
            && within(product(of(self.channels, self.window, outer)), weights)
            && self.taps() > 0
            && channels > 0
    }

    /// Place number `number`, of those of all outputs.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(crate) fn place(&self, number: usize) -> Place {
        let mut place = Place {
            image: 0,
            at: [0; 3],
            out: 0,
        };
        let mut rest = number;
        unroll!(3, i => {
            let axis = 2 - i;
            let (quotient, at) = divide(rest, self.output[axis]);
            rest = quotient;
            place.at[axis] = (at as u32)
                .wrapping_mul(self.stride[axis])
                .wrapping_add(self.first[axis]);
            place.out = place.out.wrapping_add(at.wrapping_mul(self.out[axis + 1]));
        });
        place.image = rest.wrapping_mul(self.x[0]);
        place.out = place.out.wrapping_add(rest.wrapping_mul(self.out[0]));
        place
    }

    /// The element of the input that a tap of a place has, in the first channel; `None` where the input has no such place.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(crate) fn source(&self, place: &Place, tap: [u32; 3]) -> Option<usize> {
        let mut at = place.image;
        unroll!(3, axis => {
            let along = place.at[axis].wrapping_add(tap[axis].wrapping_mul(self.dilation[axis]));
            if along >= self.input[axis] {
                return None;
            }
            at = at.wrapping_add((along as usize).wrapping_mul(self.x[axis + 1]));
        });
        Some(at)
    }
}

/// The product of all, modulo 2^64.
#[inline(always)]
fn product(first: usize, [a, b, c]: [u32; 3]) -> usize {
    first
        .wrapping_mul(a as usize)
        .wrapping_mul(b as usize)
        .wrapping_mul(c as usize)
}

/// Quotient and remainder; 0 where there is none, so that there is no panic to compile. Numbers of 32 bits are divided as such.
#[inline(always)]
pub(crate) fn divide(a: usize, b: u32) -> (usize, usize) {
    let quotient = match u32::try_from(a) {
        Ok(a) => a.checked_div(b).unwrap_or(0) as usize,
        Err(_) => a.checked_div(b as usize).unwrap_or(0),
    };
    (quotient, a.wrapping_sub(quotient.wrapping_mul(b as usize)))
}
