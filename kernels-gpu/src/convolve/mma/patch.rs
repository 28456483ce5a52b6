// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the taps of a tile of places read, in shared memory, and how a block goes from tile to tile.

use cuda_std::async_copy;
use cuda_std::prelude::*;

use super::super::ConvolveShape;
use super::{MmaPlan, THREADS, WIDE};
use crate::matmul::unroll;
use crate::num::Num;

/// A block's patches, of one tile after another.
pub(super) struct Patch<'a, T> {
    pub(super) x: &'a [T],
    pub(super) shape: ConvolveShape,
    pub(super) plan: MmaPlan,
    /// The first group of the block.
    pub(super) group: u32,
    /// For each place of the patch, how far from its first one it is in the input, in elements, and its packed numbers, with guards.
    pub(super) table: Shared<u32>,
    /// Of each stage places, and of each place the channels of the block's groups, as words.
    pub(super) memory: Shared<u32>,
}

/// A tile of places.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) image: u32,
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

/// A bit above each of a packed place's three numbers, of 7, 10 and 12 bits.
const GUARDS: u32 = 1 << 31 | 1 << 23 | 1 << 12;

/// The numbers of a place along the axes as a word.
#[inline(always)]
fn packed([a, b, c]: [u32; 3]) -> u32 {
    a << 24 | b << 13 | c
}

/// Packed places from one to another along each axis.
#[derive(Clone, Copy)]
struct Range {
    /// The first.
    first: u32,
    /// The last, and twice the guards.
    last: u32,
}

impl Range {
    /// The places of a box of so many that an array of these extents has, where the box begins in it, modulo 2^32.
    #[inline(always)]
    fn new(at: [u32; 3], of_box: [u32; 3], extents: [u32; 3]) -> Self {
        let [mut first, mut last] = [[0; 3]; 2];
        let mut is_empty = false;
        unroll!(3, axis => {
            let (at, length) = (at[axis] as i32, of_box[axis] as i32);
            let behind = Ord::min((extents[axis] as i32).wrapping_sub(at), length);
            let from = Ord::max(at.wrapping_neg(), 0);
            is_empty |= from >= behind;
            first[axis] = from as u32;
            last[axis] = behind.wrapping_sub(1) as u32;
        });
        // Of none, the last of all numbers and the first.
        let [first, last] = if is_empty {
            [!GUARDS, 0]
        } else {
            [packed(first), packed(last)]
        };
        Self {
            first,
            last: last.wrapping_add(GUARDS).wrapping_add(GUARDS),
        }
    }

    /// Whether a packed place with its guards is one of them: a difference below 0 takes the guard.
    #[inline(always)]
    fn has(&self, place: u32) -> bool {
        let differences = place.wrapping_sub(self.first) & self.last.wrapping_sub(place);
        differences & GUARDS == GUARDS
    }
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
    fn tiles(&self) -> u32 {
        let [a, b, c] = self.plan.tiles;
        self.shape.images * a * b * c
    }

    /// The image of tile `number`, and its numbers along the axes.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn digits(&self, number: u32) -> [u32; 4] {
        let mut digits = [0; 4];
        let mut rest = number;
        unroll!(3, i => {
            let axis = 2 - i;
            (rest, digits[axis + 1]) = quotient(rest, self.plan.tiles[axis]);
        });
        digits[0] = rest;
        digits
    }

    /// Those of the sum of two numbers: divisions would take longer than all else between two tiles.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add(&self, digits: [u32; 4], more: [u32; 4]) -> [u32; 4] {
        let mut sum = digits;
        let mut carry = 0;
        unroll!(3, i => {
            let axis = 2 - i;
            let tiles = self.plan.tiles[axis];
            let digit = digits[axis + 1].wrapping_add(more[axis + 1]).wrapping_add(carry);
            carry = u32::from(digit >= tiles);
            sum[axis + 1] = if digit >= tiles { digit.wrapping_sub(tiles) } else { digit };
        });
        sum[0] = digits[0].wrapping_add(more[0]).wrapping_add(carry);
        sum
    }

    /// The tile of that image, and of these numbers along the axes.
    #[inline(always)]
    fn tile(&self, [image, at @ ..]: [u32; 4]) -> Tile {
        Tile {
            image,
            place: cuda_std::array::from_fn(|axis: usize| at[axis] << self.plan.log_tile[axis]),
        }
    }

    /// The first word of a stage's patch.
    #[inline(always)]
    pub(super) fn stage(&self, stage: u32) -> u32 {
        let [_, bytes] = self.plan.bytes();
        stage * (bytes / 4)
    }

    /// Tiles `first`, and every `apart`th after it: has each filled into a stage, and when all threads have done so, computes it. With two
    /// stages the next tile is being copied by then. For all threads of the block, behind what they write before.
    ///
    /// By `STEPS` a tile is found from the last one, without divisions, which takes a few registers more.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn each_tile<const STEPS: bool>(
        &self,
        first: u32,
        apart: u32,
        mut fill: impl FnMut(&Tile, u32),
        mut compute: impl FnMut(&Tile, u32),
    ) {
        let tiles = self.tiles();
        let ahead = if self.plan.stages == 2 { apart } else { 0 };
        let mut coming = first;
        let [mut digits, step] = match STEPS {
            true => [self.digits(first), self.digits(apart)],
            false => [[0; 4]; 2],
        };
        let mut stage = 0;
        let mut last = Tile {
            image: 0,
            place: [0; 3],
        };
        // With two stages there is nothing to compute in the first round.
        let mut is_filled = ahead == 0;
        while coming < tiles + ahead {
            // What is read of the tables, and of the patch that was in the stage.
            thread::sync_threads();
            let mut tile = last;
            if coming < tiles {
                last = self.tile(if STEPS { digits } else { self.digits(coming) });
                fill(&last, stage);
            }
            if ahead > 0 {
                stage ^= 1;
            } else {
                tile = last;
            }
            if is_filled {
                if ahead > 0 && coming < tiles {
                    async_copy::wait::<1>();
                } else {
                    async_copy::wait::<0>();
                }
                thread::sync_threads();
                compute(&tile, stage);
            }
            is_filled = true;
            coming += apart;
            if STEPS {
                digits = self.add(digits, step);
            }
        }
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
            (tile.image as usize)
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

    /// Writes a table of the places of a tile: how far each is from the first one in an array that lies as the output, in elements, and its
    /// packed numbers, with guards. For all threads of the block, of which there are as many as places.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn fill_places(&self, table: Shared<u32>) {
        let number = thread::thread_idx_x();
        let place = self.line(number);
        let [_, of_a, of_b, of_c, _] = cuda_std::array::map(self.shape.out, |distance| distance as u32);
        let far = (place[0].wrapping_mul(of_a))
            .wrapping_add(place[1].wrapping_mul(of_b))
            .wrapping_add(place[2].wrapping_mul(of_c));
        // SAFETY: one of the places, of two words each.
        unsafe { table.set_vec_unchecked(2 * number as usize, [far, packed(place) | GUARDS]) };
    }

    /// Where a tile's places begin in such an array.
    #[inline(always)]
    pub(super) fn target(&self, tile: &Tile) -> Origin {
        let shape = &self.shape;
        let mut element = (tile.image as usize).wrapping_mul(shape.out[0]);
        unroll!(3, axis => {
            element = element.wrapping_add((tile.place[axis] as usize).wrapping_mul(shape.out[axis + 1]));
        });
        let of_tile = cuda_std::array::map(self.plan.log_tile, |log| 1 << log);
        Origin {
            element,
            places: Range::new(tile.place, of_tile, shape.output),
        }
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
                    .set_vec_unchecked(2 * number as usize, [far, packed([plane, b, c]) | GUARDS])
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
        let mut element = (tile.image as usize)
            .wrapping_mul(shape.x[0])
            .wrapping_add(((self.group * shape.channels) as usize).wrapping_mul(shape.x[4]));
        unroll!(3, axis => {
            // Before the input it is a large number.
            element = element.wrapping_add((at[axis] as i32 as usize).wrapping_mul(shape.x[axis + 1]));
        });
        Origin {
            element,
            places: Range::new(at, self.plan.patch, shape.input),
        }
    }

    /// Fills a stage's patch with what the tile reads, for all threads of the block: of copies by 16 bytes, a thread finds so many sources
    /// at a time, which takes registers.
    ///
    /// # Safety
    ///
    /// The kernel's contract. The table is there. Nobody accesses the patch until the thread has waited for its copies, and a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn fill<const AT_ONCE: usize>(&self, tile: &Tile, stage: u32) {
        let origin = self.origin(tile);
        // SAFETY (of both): the caller's promise.
        if self.plan.wide != 0 {
            unsafe { self.copy::<AT_ONCE>(&origin, stage) };
        } else {
            unsafe { self.load(&origin, stage) };
        }
        async_copy::commit();
    }

    /// Has a stage's patch filled with what the tile reads by copies of 16 bytes, for all threads of the block.
    ///
    /// # Safety
    ///
    /// As [`fill`](Self::fill), where `wide` is not 0.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn copy_tile(&self, tile: &Tile, stage: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.copy::<1>(&self.origin(tile), stage) };
        async_copy::commit();
    }

    /// Has the patch copied, 16 bytes at a time.
    ///
    /// # Safety
    ///
    /// The kernel's contract, where `wide` is not 0, and as [`fill`](Self::fill).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn copy<const AT_ONCE: usize>(&self, origin: &Origin, stage: u32) {
        let first = 4 * self.stage(stage);
        let begin = self.x.as_ptr().wrapping_add(origin.element);
        let accesses = self.plan.groups * self.shape.channels / WIDE as u32;
        let all = self.plan.places() * accesses;
        let mut number = thread::thread_idx_x();
        while number < all {
            // Beyond the last copy that one, which is not made again: all are looked up at once.
            let places: [[u32; 2]; AT_ONCE] = cuda_std::array::from_fn(|i: usize| {
                let number = Ord::min(number + (i * THREADS) as u32, all - 1);
                let place = times(number, self.plan.reciprocals[2]);
                [place, (number - place * accesses) * WIDE as u32]
            });
            let sources: [(u32, bool); AT_ONCE] = cuda_std::array::from_fn(|i: usize| {
                let [place, _] = places[i];
                // SAFETY: a place of the patch.
                unsafe { origin.source(self.table, place) }
            });
            unroll!(4, i => {
                if i < AT_ONCE && (i == 0 || number + ((i * THREADS) as u32) < all) {
                    let ([place, channel], (far, is_inside)) = (places[i % AT_ONCE], sources[i % AT_ONCE]);
                    let from = begin.wrapping_add((far + channel) as usize);
                    let to = first + (place * self.plan.pitch + channel) * 2;
                    // SAFETY: channels of a place of the input, at a multiple of 16 bytes by the kernel's contract, or none; the patch has
                    // room for its places.
                    unsafe { async_copy::copy_16(self.memory, to, from.cast(), if is_inside { 16 } else { 0 }) };
                }
            });
            number += (AT_ONCE * THREADS) as u32;
        }
    }

    /// Loads the patch, element by element, and fills each group up to an even number of channels with zeros.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and as [`fill`](Self::fill).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load(&self, origin: &Origin, stage: u32) {
        let shape = &self.shape;
        let of_stage = self.stage(stage);
        let all = self.plan.places();
        let mut first = thread::thread_idx_x();
        while first < all {
            let sources: [Option<usize>; 4] = cuda_std::array::from_fn(|i: usize| {
                let number = first + (i * THREADS) as u32;
                if number < all {
                    // SAFETY: a place of the patch.
                    let (far, is_inside) = unsafe { origin.source(self.table, number) };
                    is_inside.then(|| origin.element.wrapping_add(far as usize))
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
                            let to = of_stage + (number * self.plan.pitch + group * self.plan.channels + channel) / 2;
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

/// Where a box of places begins in an array.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// The first element of its first place, modulo 2^64: of a patch, in the first channel of the block.
    pub(super) element: usize,
    /// The places that the array has.
    places: Range,
}

impl Origin {
    /// How far place number `number` of a table is from the first one, in elements, and whether the array has it.
    ///
    /// # Safety
    ///
    /// The table has that place.
    #[inline(always)]
    pub(super) unsafe fn source(&self, table: Shared<u32>, number: u32) -> (u32, bool) {
        // SAFETY: the caller's promise.
        let [far, place] = unsafe { table.get_vec_unchecked::<2>(2 * number as usize) };
        (far, self.places.has(place))
    }
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
