// SPDX-License-Identifier: MIT OR Apache-2.0
//! How threads share a convolution whose groups have one channel.

use cuda_std::hint;
use cuda_std::prelude::*;

use super::super::{ConvolveShape, divide};
use crate::num::Num;

/// Places of a strip.
pub const STRIP: usize = 8;

/// Vectors of a place's outputs that neighbouring threads have, at most.
pub const LANES: u32 = 32;

/// Taps along the last axis that a thread has at once, at most, by any kernel: with four, ptxas keeps registers of 3 × 3 taps of f32 in
/// memory, a sixth slower.
pub const FEW_TAPS: usize = 3;

/// The same by kernels of their own for longer lines of 16-bit elements, of which as many have room. Three taps by these are slower, an
/// eighth and more.
pub const MANY_TAPS: usize = 7;

/// Which of the two kernels has lines of so many taps, of elements of so many bytes.
pub const fn taps_at_once(bytes: usize, taps: u32) -> usize {
    if bytes == 2 && taps > FEW_TAPS as u32 {
        MANY_TAPS
    } else {
        FEW_TAPS
    }
}

/// Calls with the constants that are made of a number of taps, `M` at most, where `V` outputs lie side by side, and a stride: taps, elements from one place of a strip to the next among those that are loaded, and how many are loaded.
macro_rules! by_taps {
    ($taps:expr, $stride:expr, |$k:ident, $s:ident, $n:ident| $call:expr) => {
        match ($taps, $stride) {
            _ if const { V == 1 } => by_taps!(@ 1, 1, $k $s $n $call),
            (2, 1) => by_taps!(@ 2, 1, $k $s $n $call),
            (2, _) => by_taps!(@ 2, 2, $k $s $n $call),
            (3, 1) => by_taps!(@ 3, 1, $k $s $n $call),
            (3, _) => by_taps!(@ 3, 2, $k $s $n $call),
            (5, 1) if const { M == MANY_TAPS } => by_taps!(@ 5, 1, $k $s $n $call),
            (5, _) if const { M == MANY_TAPS } => by_taps!(@ 5, 2, $k $s $n $call),
            (7, 1) if const { M == MANY_TAPS } => by_taps!(@ 7, 1, $k $s $n $call),
            (7, _) if const { M == MANY_TAPS } => by_taps!(@ 7, 2, $k $s $n $call),
            _ => by_taps!(@ 1, 1, $k $s $n $call),
        }
    };
    (@ $taps:literal, $stride:literal, $k:ident $s:ident $n:ident $call:expr) => {{
        const $k: usize = $taps;
        const $s: usize = $stride;
        const $n: usize = (STRIP - 1) * $s + $k;
        $call
    }};
}

pub(super) use by_taps;

/// Outputs of a thread, of elements of so many bytes, where they lie side by side: 16 bytes of numbers as they are computed with.
pub const fn vector(bytes: usize) -> u32 {
    if bytes == 8 { 2 } else { 4 }
}

/// Repeats a block for each of up to 24 numbers, which are constants: of more than some 16 the compiler does not unroll a loop, and what
/// is indexed by them would be in memory. That a block is beyond the count is a constant, too, so that rustc leaves it out.
#[cfg(target_arch = "nvptx64")]
macro_rules! each {
    ($count:ident, $i:ident => $body:block) => {
        each!(@ $count, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23)
    };
    (@ $count:ident, $i:ident, $body:block, $($value:literal)*) => {$(
        if const { $value < $count } {
            let $i: usize = $value % $count;
            $body
        }
    )*};
}

/// On the simulated GPU a loop does.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each {
    ($count:ident, $i:ident => $body:block) => {
        for $i in 0..$count $body
    };
}

/// How the outputs of a place fall to threads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct Strips {
    /// Outputs of a thread: 1, or [`vector`] of them.
    pub vector: u32,
    /// Vectors that neighbouring threads have.
    pub lanes: u32,
    /// How many times as many a place has.
    pub chunks: u32,
    /// Taps along the last axis that a thread has at once, at most: what [`taps_at_once`] says.
    pub taps: u32,
}

impl Strips {
    /// Those of so many outputs, of all groups, of which there are some, with so many taps at once.
    pub fn new(outputs: u32, vector: u32, taps: usize) -> Self {
        Self::of_lanes(outputs, vector, taps, LANES)
    }

    /// The same, with so many lanes at most.
    pub(super) fn of_lanes(outputs: u32, vector: u32, taps: usize, lanes: u32) -> Self {
        let vectors = outputs / vector;
        let chunks = vectors.div_ceil(lanes);
        Self {
            vector,
            lanes: vectors.div_ceil(chunks),
            chunks,
            taps: taps as u32,
        }
    }

    /// How many taps along the last axis a thread has at once: [`taps`](Self::taps) where neighbouring places share what they read, else 1.
    /// For single outputs 1 as well, or the code would be twice as long.
    #[inline(always)]
    pub(super) fn together(&self, shape: &ConvolveShape) -> u32 {
        match (self.vector, shape.dilation[2], shape.stride[2]) {
            (2.., 1, 1 | 2) => self.taps,
            _ => 1,
        }
    }

    /// How many a thread has from `tap` on, of which there is code for 1, 2, 3, 5 and 7.
    #[inline(always)]
    pub(super) fn taps_from(&self, shape: &ConvolveShape, tap: u32) -> u32 {
        match Ord::min(self.together(shape), shape.window[2].wrapping_sub(tap)) {
            4 => 3,
            6 => 5,
            taps => taps,
        }
    }

    /// Strips of all places, if 32 bits count them.
    #[inline(always)]
    pub fn count(shape: &ConvolveShape) -> Option<u32> {
        let [a, b, c] = shape.output;
        counted(counted(counted(shape.images, a)?, b)?, strips_of_line(c))
    }

    /// Vectors of all strips, and of lanes that have none, if 32 bits count them.
    #[inline(always)]
    pub fn vectors(&self, shape: &ConvolveShape) -> Option<u32> {
        counted(counted(Self::count(shape)?, self.lanes)?, self.chunks)
    }

    /// The first output of a thread, if there is such a vector.
    #[inline(always)]
    pub(super) fn output(&self, shape: &ConvolveShape, chunk: u32, lane: u32) -> Option<usize> {
        let vector = (chunk as usize)
            .wrapping_mul(self.lanes as usize)
            .wrapping_add(lane as usize);
        let output = vector.wrapping_mul(self.vector as usize);
        (output < shape.all_outputs()).then_some(output)
    }
}

/// The product, if 32 bits count it.
#[inline(always)]
fn counted(a: u32, b: u32) -> Option<u32> {
    u32::try_from(u64::from(a) * u64::from(b)).ok()
}

/// Quotient and remainder; 0 where there is none, so that there is no panic to compile.
#[inline(always)]
pub(super) fn quotient(a: u32, b: u32) -> (u32, u32) {
    let quotient = a.checked_div(b).unwrap_or(0);
    (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
}

/// Strips of a line of so many places.
#[inline(always)]
fn strips_of_line(places: u32) -> u32 {
    places.div_ceil(STRIP as u32)
}

impl ConvolveShape {
    /// Outputs of all groups.
    #[inline(always)]
    pub(super) fn all_outputs(&self) -> usize {
        (self.groups as usize).wrapping_mul(self.outputs as usize)
    }

    /// The channel that an output is of.
    #[inline(always)]
    pub(super) fn channel_of(&self, output: usize) -> usize {
        match self.outputs {
            1 => output,
            outputs => divide(output, outputs).0,
        }
    }

    /// Whether each group has one output, and neighbouring `vector` ones and their channels lie side by side, at multiples of as many
    /// elements.
    #[inline(always)]
    pub fn is_in_vectors(&self, vector: usize) -> bool {
        let lies = |of: [usize; 5]| of[4] == 1 && (of[0] | of[1] | of[2] | of[3]).is_multiple_of(vector);
        self.outputs == 1 && (self.groups as usize).is_multiple_of(vector) && lies(self.x) && lies(self.out)
    }
}

/// Places of the output one after another along the last axis.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    /// The first element of the input's image.
    image: usize,
    /// Where in it the first tap of the first place is, modulo 2^32.
    at: [u32; 3],
    /// Strips below this one.
    below: u32,
    /// The first element of the first place in the output.
    pub(super) out: usize,
    /// Places: [`STRIP`], or fewer at the end of a line.
    pub(super) places: u32,
}

impl Strip {
    /// Strip number `number` of the first image, and what is left of the number: strips below each other come one after another.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(shape: &ConvolveShape, number: u32) -> (Self, u32) {
        let (rest, b) = quotient(number, shape.output[1]);
        let (rest, strip) = quotient(rest, strips_of_line(shape.output[2]));
        let (rest, a) = quotient(rest, shape.output[0]);
        let c = strip * STRIP as u32;
        let at = |axis: usize, place: u32| place.wrapping_mul(shape.stride[axis]).wrapping_add(shape.first[axis]);
        let out = |axis: usize, place: u32| (place as usize).wrapping_mul(shape.out[axis + 1]);
        let strip = Self {
            image: 0,
            at: [at(0, a), at(1, b), at(2, c)],
            below: shape.output[1].wrapping_sub(b).wrapping_sub(1),
            out: out(0, a).wrapping_add(out(1, b)).wrapping_add(out(2, c)),
            places: Ord::min(shape.output[2].wrapping_sub(c), STRIP as u32),
        };
        (strip, rest)
    }

    /// The same strip of another image.
    #[inline(always)]
    pub(super) fn of_image(self, shape: &ConvolveShape, image: u32) -> Self {
        let image = image as usize;
        Self {
            image: image.wrapping_mul(shape.x[0]),
            out: self.out.wrapping_add(image.wrapping_mul(shape.out[0])),
            ..self
        }
    }

    /// The strip so many below this one, if there are.
    #[inline(always)]
    pub(super) fn below(self, shape: &ConvolveShape, by: u32) -> Option<Self> {
        let [a, b, c] = self.at;
        Some(Self {
            at: [a, b.wrapping_add(by.wrapping_mul(shape.stride[1])), c],
            below: self.below.checked_sub(by)?,
            out: self.out.wrapping_add((by as usize).wrapping_mul(shape.out[2])),
            ..self
        })
    }

    /// What taps along the last axis read of a channel and those beside it, if the input has that line.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn line(&self, shape: &ConvolveShape, [a, b]: [u32; 2], channel: usize) -> Option<Line> {
        let along = |axis: usize, tap: u32| self.at[axis].wrapping_add(tap.wrapping_mul(shape.dilation[axis]));
        let (a, b) = (along(0, a), along(1, b));
        let is_inside = a < shape.input[0] && b < shape.input[1] && shape.input[2] > 0;
        let place = |axis: usize, place: u32| (place as usize).wrapping_mul(shape.x[axis + 1]);
        is_inside.then(|| Line {
            at: self
                .image
                .wrapping_add(place(0, a))
                .wrapping_add(place(1, b))
                .wrapping_add(channel.wrapping_mul(shape.x[4])),
            first: self.at[2],
        })
    }
}

/// A line of the input along the last axis, which is not empty.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// Its first element.
    at: usize,
    /// The place that the first tap of the first place reads, modulo 2^32.
    first: u32,
}

impl Line {
    /// What `K` neighbouring taps from `tap` on read, 0 where the line has no such place: of several taps each place from the first one on,
    /// of one tap a place for each of a strip.
    ///
    /// # Safety
    ///
    /// The line's places, with `V` channels each, lie in `x`, as vectors.
    #[inline(always)]
    pub(super) unsafe fn load<T: Num, const V: usize, const K: usize, const N: usize>(
        &self,
        x: &[T],
        shape: &ConvolveShape,
        tap: u32,
    ) -> [[T::Wide; V]; N] {
        // SAFETY (of both): the caller's promise.
        if const { K <= 3 } {
            return unsafe { self.load_as(x, shape, tap, K, T::Wide::ZERO, T::widen) };
        }
        // Of so many taps ptxas wants half the registers for numbers of 16 bits until they are computed with.
        let loaded: [[T; V]; N] = unsafe { self.load_as(x, shape, tap, K, T::ZERO, |x| x) };
        let mut all = [[T::Wide::ZERO; V]; N];
        each!(N, i => {
            all[i] = cuda_std::array::map(loaded[i], T::widen);
        });
        all
    }

    /// The same of `taps` taps, each number by way of `to`, or `zero`.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load_as<T: Num, U: Copy, const V: usize, const N: usize>(
        &self,
        x: &[T],
        shape: &ConvolveShape,
        tap: u32,
        taps: usize,
        zero: U,
        to: impl Fn(T) -> U + Copy,
    ) -> [[U; V]; N] {
        let step = if taps == 1 { shape.stride[2] } else { 1 };
        let first = self.first.wrapping_add(tap.wrapping_mul(shape.dilation[2]));
        let (length, distance) = (shape.input[2], shape.x[3]);
        let mut all = [[zero; V]; N];
        let from = i64::from(first as i32);
        let last = from + (N as i64 - 1) * i64::from(step);
        if from >= 0 && last < i64::from(length) {
            let at = self.at.wrapping_add((first as usize).wrapping_mul(distance));
            let next = (step as usize).wrapping_mul(distance);
            each!(N, i => {
                // SAFETY: a place of the line, which is the caller's promise.
                let vector: [T; V] = unsafe { x.load_vec_unchecked(at.wrapping_add(i.wrapping_mul(next))) };
                all[i] = cuda_std::array::map(vector, to);
            });
        } else {
            // Without a branch, so that all loads are under way at once: from the nearest place that there is, of which nothing is kept.
            let nearest = |place: u32| Ord::max(Ord::min(place as i32, (length as i32).wrapping_sub(1)), 0) as usize;
            let mut loaded = [[T::ZERO; V]; N];
            each!(N, i => {
                let at = nearest(first.wrapping_add((i as u32).wrapping_mul(step))).wrapping_mul(distance);
                // SAFETY: as above.
                loaded[i] = unsafe { x.load_vec_unchecked(self.at.wrapping_add(at)) };
            });
            // The compiler would keep the answers for later, for which there is no room.
            let first = hint::opaque(first);
            each!(N, i => {
                let is_inside = first.wrapping_add((i as u32).wrapping_mul(step)) < length;
                for v in 0..V {
                    all[i][v] = if is_inside { to(loaded[i][v]) } else { zero };
                }
            });
        }
        all
    }
}
