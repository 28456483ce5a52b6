// SPDX-License-Identifier: MIT OR Apache-2.0
//! One block's tile of a transposition: what it brings to shared memory along the input's rows, and takes from there along
//! the output's.

use bytemuck::Zeroable;
use cuda_std::hint;
use cuda_std::prelude::*;

use super::plan::{Place, Tiles};
use super::{LANES, PITCH, Packed, UNROLL, WARPS};

/// One block's tile. Positions in the tile: `a` counts rows of the input, `b` rows of the output.
pub(super) struct Tile<'a, T> {
    pub x: &'a [T],
    pub out: SliceMut<'a, T>,
    /// The tile's first element, on either side.
    pub first: Place,
    /// The tile's first row of the input, and of the output.
    pub at: (u64, u64),
    pub a_stride: usize,
    pub b_stride: usize,
    /// The elements of the tile that exist.
    pub a_len: usize,
    pub b_len: usize,
}

impl<'a, T> Tile<'a, T> {
    /// The tile of this block, which has so many elements along `a` and along `b`; `None` for a block too many.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn new(x: &'a [T], plan: &Tiles, out: SliceMut<'a, T>, sides: [u32; 2]) -> Option<Self> {
        let index = thread::block_idx_x();
        if index >= plan.count {
            return None;
        }
        let (mut rest, a, b);
        if plan.a_first != 0 {
            (rest, a) = plan.a_tiles.div_rem(index);
            (rest, b) = plan.b_tiles.div_rem(rest);
        } else {
            (rest, b) = plan.b_tiles.div_rem(index);
            (rest, a) = plan.a_tiles.div_rem(rest);
        }
        let first = Place {
            x: plan.x_first,
            out: plan.out_first,
        };
        let mut first = first.along(&plan.axes, plan.rank, rest);
        let [a_side, b_side] = sides.map(u64::from);
        let (a, b) = (a as u64 * a_side, b as u64 * b_side);
        first.x = first.x.wrapping_add(a.wrapping_mul(plan.a_stride)).wrapping_add(b);
        first.out = first.out.wrapping_add(b.wrapping_mul(plan.b_stride)).wrapping_add(a);
        Some(Self {
            x,
            out,
            first,
            at: (a, b),
            a_stride: plan.a_stride as usize,
            b_stride: plan.b_stride as usize,
            a_len: Ord::min(plan.a_len.saturating_sub(a), a_side) as usize,
            b_len: Ord::min(plan.b_len.saturating_sub(b), b_side) as usize,
        })
    }
}

impl<T: bytemuck::Pod> Tile<'_, T> {
    /// The thread's lane and warp, of which the compiler can not tell that they were computed before: it would keep
    /// them, and all that follows from them, across the barrier, in the registers that the words need.
    #[inline(always)]
    pub fn lane_and_warp() -> (usize, usize) {
        let t = hint::opaque(thread::thread_idx_x()) as usize;
        (t % LANES, t / LANES % WARPS)
    }

    /// How many elements behind a word's beginning element `index` of the input is.
    #[inline(always)]
    pub fn x_phase<const V: usize>(&self, index: usize) -> usize {
        (self.x.as_ptr().addr() / size_of::<T>()).wrapping_add(index) % V
    }

    /// The same of the output.
    #[inline(always)]
    pub fn out_phase<const V: usize>(&self, index: usize) -> usize {
        (self.out.as_ptr().addr() / size_of::<T>()).wrapping_add(index) % V
    }

    /// Where in shared memory the word lies that has the `index`-th `V` elements of row `b` of the output.
    #[inline(always)]
    fn word<const V: usize>(b: usize, index: usize) -> usize {
        (b % V * LANES + b / V) * PITCH + index
    }

    /// Brings a tile without a gap, whose rows are aligned, to shared memory.
    ///
    /// # Safety
    ///
    /// Every element of the tile, of `32 V` either way, is in bounds, and its rows start at multiples of `V` of an
    /// aligned input.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn load_aligned<const V: usize>(&self, shared: Shared<T::Word>)
    where
        T: Packed<V>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let first = self.first.x as usize + lane * V;
        for g in 0..V {
            let words: [T::Word; UNROLL] = cuda_std::array::from_fn(|k| {
                let a = (warp + WARPS * (g * (UNROLL / V) + k / V)) * V + k % V;
                // SAFETY: the caller's promise; `a` and the word's elements are less than the tile's side.
                bytemuck::cast(unsafe { self.x.load_vec_unchecked::<V>(first + a * self.a_stride) })
            });
            for q in 0..UNROLL / V {
                let words = T::transpose(cuda_std::array::from_fn(|i| words[q * V + i]));
                for j in 0..V {
                    let at = (j * LANES + lane) * PITCH + warp + WARPS * (g * (UNROLL / V) + q);
                    // SAFETY: a row less than `32 V` and a column less than 32.
                    unsafe { shared.set_unchecked(at, words[j]) };
                }
            }
        }
    }

    /// Whether the aligned words that have elements of the tile are all in the input, and have none that is of no row:
    /// that may never have been written.
    #[inline(always)]
    pub fn words_are_inside<const V: usize>(&self, plan: &Tiles) -> bool {
        let margin = V as u64 - 1;
        let (stride, len) = (self.a_stride, self.b_len);
        if self.x_phase::<V>(self.first.x as usize) == 0 && stride.is_multiple_of(V) && len.is_multiple_of(V) {
            return true;
        }
        let (before, behind) = (self.at.1, plan.b_len.wrapping_sub(self.at.1 + self.b_len as u64));
        // Of rows without a gap between them, what is beside one is of the next, but at the corners.
        let whole = plan.a_stride == plan.b_len;
        let (before, behind) = if whole {
            let below = plan.a_len.wrapping_sub(self.at.0 + self.a_len as u64);
            (before + self.at.0, behind.wrapping_add(below))
        } else {
            (before, behind)
        };
        // Of a tile without rows, of which nothing is read, any number.
        let below = (self.a_len as u64).wrapping_sub(1).wrapping_mul(self.a_stride as u64);
        let last = self.first.x.wrapping_add(below).wrapping_add(self.b_len as u64);
        let are_within = last.wrapping_add(margin) <= self.x.len() as u64;
        before >= margin && behind >= margin && self.first.x >= margin && are_within
    }

    /// Brings any tile to shared memory, by aligned words where rows begin between them.
    ///
    /// # Safety
    ///
    /// The elements of the tile that exist are in bounds, and [`words_are_inside`](Self::words_are_inside).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn load_shifted<const V: usize>(&self, shared: Shared<T::Word>)
    where
        T: Packed<V>,
    {
        let (lane, warp) = Self::lane_and_warp();
        // Places of rows beyond the tile's wrap around; no one reads there.
        let below = |place: usize, rows: usize| place.wrapping_add(rows.wrapping_mul(self.a_stride));
        let first = below(self.first.x as usize, warp * V);
        // Of each of `V` rows; those that the warp has further down are a multiple of `V` rows away, and so begin alike.
        let phases: [usize; V] = cuda_std::array::from_fn(|k| self.x_phase::<V>(below(first, k)));
        let exists = lane * V < self.b_len;
        let mut index = warp;
        let mut group = first.wrapping_add(lane * V);
        while index < LANES {
            let mut words = [T::Word::zeroed(); V];
            for k in 0..V {
                let start = below(group, k).wrapping_sub(phases[k]);
                let exists = exists && index * V + k < self.a_len;
                let load = |start: usize, exists: bool| {
                    if !exists {
                        return T::Word::zeroed();
                    }
                    // SAFETY: an aligned word that has an element of the tile, and so is in bounds.
                    bytemuck::cast(unsafe { self.x.load_vec_unchecked::<V>(start) })
                };
                let low = load(start, exists);
                let high = load(
                    start.wrapping_add(V),
                    exists && phases[k] > 0 && lane * V + V - phases[k] < self.b_len,
                );
                words[k] = T::shift([low, high], phases[k]);
            }
            let words = T::transpose(words);
            for j in 0..V {
                // SAFETY: a row less than `32 V` and a column less than 32.
                unsafe { shared.set_unchecked((j * LANES + lane) * PITCH + index, words[j]) };
            }
            index += WARPS;
            group = below(group, WARPS * V);
        }
    }

    /// Brings any tile to shared memory, element by element.
    ///
    /// # Safety
    ///
    /// The elements of the tile that exist are in bounds.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn load_elements<const V: usize>(&self, shared: Shared<T::Word>)
    where
        T: Packed<V>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let shared = shared.cast::<T>();
        let mut a = warp;
        while a < LANES * V {
            for j in 0..V {
                let b = lane * V + j;
                let mut element = T::zeroed();
                if a < self.a_len && b < self.b_len {
                    let at = self.first.x as usize + a * self.a_stride + b;
                    // SAFETY: the caller's promise; a single element is always aligned.
                    [element] = unsafe { self.x.load_vec_unchecked(at) };
                }
                // SAFETY: both are less than the tile's side.
                unsafe { shared.set_unchecked(Self::word::<V>(b, a / V) * V + a % V, element) };
            }
            a += WARPS;
        }
    }

    /// Writes a tile without a gap, whose rows in the output are aligned.
    ///
    /// # Safety
    ///
    /// As [`load_aligned`](Self::load_aligned), of the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn store_aligned<const V: usize>(&self, shared: Shared<T::Word>)
    where
        T: Packed<V>,
    {
        let (lane, warp) = Self::lane_and_warp();
        let first = self.first.out as usize + lane * V;
        for g in 0..V {
            let row = |k: usize| warp + WARPS * (g * UNROLL + k);
            let words: [T::Word; UNROLL] = cuda_std::array::from_fn(|k| {
                // SAFETY: the row is less than the tile's side, and the lane less than 32.
                unsafe { get(shared, Self::word::<V>(row(k), lane)) }
            });
            for k in 0..UNROLL {
                let at = first + row(k) * self.b_stride;
                // SAFETY: the caller's promise; the row and the word's elements are less than the tile's side.
                unsafe { self.out.set_vec_unchecked::<V>(at, bytemuck::cast(words[k])) };
            }
        }
    }

    /// Writes any tile, by aligned words but at the ends of its rows.
    ///
    /// # Safety
    ///
    /// The elements of the tile that exist are in bounds.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn store_shifted<const V: usize>(&self, shared: Shared<T::Word>)
    where
        T: Packed<V>,
    {
        let (lane, warp) = Self::lane_and_warp();
        // The place of a row beyond the tile's wraps around; no one writes there.
        let below = |place: usize, rows: usize| place.wrapping_add(rows.wrapping_mul(self.b_stride));
        let mut row = below(self.first.out as usize, warp);
        // Of all rows that the warp has, which are a multiple of `V` away.
        let phase = self.out_phase::<V>(row);
        let a = (lane * V).wrapping_sub(phase);
        let mut b = warp;
        while b < self.b_len {
            // SAFETY: the row is less than the tile's side, and both indices less than 32.
            let word = |index: usize| unsafe { get(shared, Self::word::<V>(b, index)) };
            // The word that begins `phase` elements ahead of the lane's. Lane 0 has the row's last elements, too, in the
            // place of those that would be ahead of the row.
            let word = T::shift([word(lane.wrapping_sub(1) % LANES), word(lane)], V - phase);
            if a < self.a_len && a + V <= self.a_len {
                // SAFETY: the caller's promise; the row is `phase` elements behind an aligned one.
                unsafe { self.out.set_vec_unchecked::<V>(row + a, bytemuck::cast(word)) };
            } else {
                let elements: [T; V] = bytemuck::cast(word);
                for j in 0..V {
                    let a = a.wrapping_add(j);
                    let a = if a > LANES * V { a.wrapping_add(LANES * V) } else { a };
                    if a < self.a_len {
                        // SAFETY: the caller's promise; a single element is always aligned.
                        unsafe { self.out.set_vec_unchecked(row + a, [elements[j]]) };
                    }
                }
            }
            b += WARPS;
            row = below(row, WARPS);
        }
    }
}

/// Element `index` of shared memory, without a check.
///
/// # Safety
///
/// `index` is less than the length.
#[inline(always)]
pub(super) unsafe fn get<T: bytemuck::Pod>(shared: Shared<T>, index: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { core::hint::assert_unchecked(index < shared.len()) };
    shared.get(index)
}
