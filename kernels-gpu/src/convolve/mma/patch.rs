// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the taps of a tile of places read, in shared memory.

use cuda_std::async_copy;
use cuda_std::prelude::*;

use super::super::{ConvolveShape, divide};
use super::{MmaPlan, THREADS, WIDE};
use crate::matmul::unroll;
use crate::num::Num;

/// A block's patch, of one tile after another.
pub(super) struct Patch<'a, T> {
    pub(super) x: &'a [T],
    pub(super) shape: ConvolveShape,
    pub(super) plan: MmaPlan,
    /// The first group of the block.
    pub(super) group: u32,
    /// For each place of the patch, how far from its first one it is in the input, in elements, and its number along each axis: of 8, 11
    /// and 13 bits.
    pub(super) table: Shared<u32>,
    /// Places, and of each the channels of the block's groups, as words.
    pub(super) memory: Shared<u32>,
}

/// A tile of places.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) image: usize,
    /// The first place of the output.
    pub(super) place: [u32; 3],
}

/// Two channels of a tap.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) tap: u32,
    /// The first one, of those of a group.
    pub(super) channel: u32,
    /// Where in the patch they are, in words from the first tap of the first channel on.
    pub(super) word: u32,
}

/// The number of the reciprocal's multiple that is at most `a`: of numbers whose product is less than 2^32.
#[inline(always)]
fn times(a: u32, reciprocal: u32) -> u32 {
    // Of 1 it would be 2^32.
    if reciprocal == 0 {
        a
    } else {
        ((u64::from(a) * u64::from(reciprocal)) >> 32) as u32
    }
}

impl<T: Num> Patch<'_, T> {
    /// Tiles of all images.
    #[inline(always)]
    pub(super) fn tiles(&self) -> usize {
        let [a, b, c] = self.plan.tiles;
        self.shape.images as usize * a as usize * b as usize * c as usize
    }

    /// That of a number.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn tile(&self, number: usize) -> Tile {
        let mut place = [0; 3];
        let mut rest = number;
        unroll!(3, i => {
            let axis = 2 - i;
            let (quotient, at) = divide(rest, self.plan.tiles[axis]);
            place[axis] = (at as u32) << self.plan.log_tile[axis];
            rest = quotient;
        });
        Tile { image: rest, place }
    }

    /// The pair of that number along k, if it is there.
    #[inline(always)]
    pub(super) fn pair(&self, number: u32) -> Option<Pair> {
        let shape = &self.shape;
        let (tap, channel) = self.tap(number);
        let (rest, c) = quotient(tap, shape.window[2]);
        let (a, b) = quotient(rest, shape.window[1]);
        let at = [a, b, c];
        let from = cuda_std::array::from_fn(|axis: usize| at[axis] * shape.dilation[axis]);
        (a < shape.window[0]).then(|| Pair {
            tap,
            channel,
            word: self.word(from) + channel / 2,
        })
    }

    /// The tap of a pair, which may not be there, and its first channel.
    #[inline(always)]
    pub(super) fn tap(&self, number: u32) -> (u32, u32) {
        let tap = times(number, self.plan.reciprocals[3]);
        (tap, 2 * number - tap * self.plan.channels)
    }

    /// The place of line `line` of a tile.
    #[inline(always)]
    pub(super) fn line(&self, line: u32) -> [u32; 3] {
        let [_, b, c] = self.plan.log_tile;
        [line >> (b + c), line >> c & ((1 << b) - 1), line & ((1 << c) - 1)]
    }

    /// Where that place of a tile begins in an array that lies as the output, if the output has it.
    #[inline(always)]
    pub(super) fn output(&self, tile: &Tile, place: [u32; 3]) -> Option<usize> {
        let shape = &self.shape;
        let at: [u32; 3] = cuda_std::array::from_fn(|axis: usize| tile.place[axis] + place[axis]);
        let is_inside = at[0] < shape.output[0] && at[1] < shape.output[1] && at[2] < shape.output[2];
        is_inside.then(|| {
            tile.image
                .wrapping_mul(shape.out[0])
                .wrapping_add((at[0] as usize).wrapping_mul(shape.out[1]))
                .wrapping_add((at[1] as usize).wrapping_mul(shape.out[2]))
                .wrapping_add((at[2] as usize).wrapping_mul(shape.out[3]))
        })
    }

    /// The first word of what the first tap of a place of the tile reads.
    #[inline(always)]
    pub(super) fn first(&self, place: [u32; 3]) -> u32 {
        self.word(cuda_std::array::from_fn(|axis: usize| {
            place[axis] * self.shape.stride[axis]
        }))
    }

    /// The first word of a place of the patch.
    #[inline(always)]
    fn word(&self, [a, b, c]: [u32; 3]) -> u32 {
        let [_, rows, columns] = self.plan.patch;
        ((a * rows + b) * columns + c) * (self.plan.pitch / 2)
    }

    /// Writes the table.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn fill_table(&self) {
        let [_, rows, columns] = self.plan.patch;
        let mut number = thread::thread_idx_x();
        while number < self.plan.places() {
            let row = times(number, self.plan.reciprocals[1]);
            let plane = times(row, self.plan.reciprocals[0]);
            let (b, c) = (row - plane * rows, number - row * columns);
            let [_, of_a, of_b, of_c, _] = cuda_std::array::map(self.shape.x, |distance| distance as u32);
            let far = plane
                .wrapping_mul(of_a)
                .wrapping_add(b.wrapping_mul(of_b))
                .wrapping_add(c.wrapping_mul(of_c));
            // SAFETY: one of the places, of two words each.
            unsafe {
                self.table
                    .set_vec_unchecked(2 * number as usize, [far, plane << 24 | b << 13 | c])
            };
            number += THREADS as u32;
        }
    }

    /// Where a tile's patch begins.
    #[inline(always)]
    fn origin(&self, tile: &Tile) -> Origin {
        let shape = &self.shape;
        let at: [u32; 3] = cuda_std::array::from_fn(|axis: usize| {
            tile.place[axis]
                .wrapping_mul(shape.stride[axis])
                .wrapping_add(shape.first[axis])
        });
        let mut element = tile
            .image
            .wrapping_mul(shape.x[0])
            .wrapping_add(((self.group * shape.channels) as usize).wrapping_mul(shape.x[4]));
        let mut is_whole = true;
        unroll!(3, axis => {
            // Before the input it is a large number.
            is_whole &= at[axis] < shape.input[axis] && self.plan.patch[axis] <= shape.input[axis] - at[axis];
            element = element.wrapping_add((at[axis] as i32 as usize).wrapping_mul(shape.x[axis + 1]));
        });
        Origin { at, element, is_whole }
    }

    /// The first element of place `number` of the patch that begins there, in the first channel of the block, if the input has it.
    #[inline(always)]
    fn source(&self, origin: &Origin, number: u32) -> Option<usize> {
        // SAFETY: one of the places.
        let [far, place] = unsafe { self.table.get_vec_unchecked::<2>(2 * number as usize) };
        let input = &self.shape.input;
        let is_inside = origin.is_whole
            || origin.at[0].wrapping_add(place >> 24) < input[0]
                && origin.at[1].wrapping_add(place >> 13 & 0x7ff) < input[1]
                && origin.at[2].wrapping_add(place & 0x1fff) < input[2];
        is_inside.then(|| origin.element.wrapping_add(far as usize))
    }

    /// Fills the patch with what the tile reads, for all threads of the block.
    ///
    /// # Safety
    ///
    /// The kernel's contract. The table is there. Nobody accesses the patch until the thread has waited for its copies, and a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn fill(&self, tile: &Tile) {
        let origin = self.origin(tile);
        // SAFETY (of both): the caller's promise.
        if self.plan.wide != 0 {
            unsafe { self.copy(&origin) };
        } else {
            unsafe { self.load(&origin) };
        }
    }

    /// Has the patch filled with what the tile reads by copies of 16 bytes, for all threads of the block.
    ///
    /// # Safety
    ///
    /// As [`fill`](Self::fill), where `wide` is not 0.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn copy_tile(&self, tile: &Tile) {
        // SAFETY: the caller's promise.
        unsafe { self.copy(&self.origin(tile)) };
    }

    /// Has the patch copied, 16 bytes at a time.
    ///
    /// # Safety
    ///
    /// The kernel's contract, where `wide` is not 0, and as [`fill`](Self::fill).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn copy(&self, origin: &Origin) {
        let accesses = self.plan.groups * self.shape.channels / WIDE as u32;
        let all = self.plan.places() * accesses;
        let mut number = thread::thread_idx_x();
        while number < all {
            let place = times(number, self.plan.reciprocals[2]);
            let channel = (number - place * accesses) * WIDE as u32;
            let source = self.source(origin, place);
            let from = self
                .x
                .as_ptr()
                .wrapping_add(source.map_or(0, |at| at + channel as usize));
            let to = (place * self.plan.pitch + channel) * 2;
            // SAFETY: channels of a place of the input, at a multiple of 16 bytes by the kernel's contract, or none; the patch has room
            // for its places.
            unsafe { async_copy::copy_16(self.memory, to, from.cast(), if source.is_some() { 16 } else { 0 }) };
            number += THREADS as u32;
        }
        async_copy::commit();
    }

    /// Loads the patch, element by element, and fills each group up to an even number of channels with zeros.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and as [`fill`](Self::fill).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load(&self, origin: &Origin) {
        let shape = &self.shape;
        let all = self.plan.places();
        let mut first = thread::thread_idx_x();
        while first < all {
            let sources: [Option<usize>; 4] = cuda_std::array::from_fn(|i: usize| {
                let number = first + (i * THREADS) as u32;
                if number < all {
                    self.source(origin, number)
                } else {
                    None
                }
            });
            let mut group = 0;
            while group < self.plan.groups {
                let mut channel = 0;
                while channel < shape.channels {
                    let at = ((group * shape.channels + channel) as usize).wrapping_mul(shape.x[4]);
                    let mut values = [[T::ZERO; 2]; 4];
                    unroll!(4, i => {
                        if let Some(source) = sources[i] {
                            // SAFETY (of both): a channel of a place of the input.
                            [values[i][0]] = unsafe { self.x.load_vec_unchecked::<1>(source.wrapping_add(at)) };
                            if channel + 1 < shape.channels {
                                let at = source.wrapping_add(at).wrapping_add(shape.x[4]);
                                [values[i][1]] = unsafe { self.x.load_vec_unchecked::<1>(at) };
                            }
                        }
                    });
                    unroll!(4, i => {
                        let number = first + (i * THREADS) as u32;
                        if number < all {
                            let to = (number * self.plan.pitch + group * self.plan.channels + channel) / 2;
                            // SAFETY: a pair of the patch.
                            unsafe { self.memory.set_unchecked(to as usize, pack(values[i])) };
                        }
                    });
                    channel += 2;
                }
                group += 1;
            }
            first += (4 * THREADS) as u32;
        }
    }
}

/// Where a patch begins in the input.
#[derive(Clone, Copy)]
struct Origin {
    /// Its first place, modulo 2^32.
    at: [u32; 3],
    /// The first element of that, modulo 2^64, in the first channel of the block.
    element: usize,
    /// Whether the input has all of the patch.
    is_whole: bool,
}

/// Quotient and remainder; 0 where there is none, so that there is no panic to compile.
#[inline(always)]
fn quotient(a: u32, b: u32) -> (u32, u32) {
    let quotient = a.checked_div(b).unwrap_or(0);
    (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
}

/// Two numbers as a word, the first in the lower half.
#[inline(always)]
pub(super) fn pack<T: Num>([low, high]: [T; 2]) -> u32 {
    let bits = |x: T| u32::from(bytemuck::cast::<T, u16>(x));
    bits(low) | bits(high) << 16
}
