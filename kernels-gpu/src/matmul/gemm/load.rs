// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of an operand's tiles from global to shared memory, through registers.
//!
//! A tile is `WIDTH` lines (rows of `A`, columns of `B`) by `BK` elements along k. Neighbouring threads load along the
//! axis that the [`Layout`] names; in accesses of 16 bytes where lengths and strides make all of them aligned and none
//! of them ragged, else one by one, in another distribution, in which neighbouring threads load neighbouring elements
//! too.

use cuda_std::prelude::*;

use super::Layout;
use crate::num::Num;

/// Where a thread is in the tiles of one operand.
///
/// As little as is enough, and 32-bit where it can be: it stays in registers while the sums take most of them.
#[derive(Clone, Copy)]
pub struct Loader {
    /// Whether accesses have 16 bytes.
    wide: bool,
    /// The first element that the thread loads from the next tile.
    next: usize,
    /// The line of the thread's first access in a tile.
    line: u32,
    /// Its position along k.
    k: u32,
    /// Lines that the operand has in the tile: as many as the tile is wide, or fewer.
    lines: u32,
    /// Distances in the operand, in elements: between lines, along k.
    strides: [usize; 2],
}

/// From an access of a thread to its next one in a tile, for accesses of `N` elements: lines, positions along k.
const fn step<L: Layout, const WIDTH: usize, const BK: usize, const N: usize, const THREADS: usize>() -> [usize; 2] {
    if L::ALONG_K {
        [THREADS / (BK / N), 0]
    } else {
        [0, THREADS / (WIDTH / N)]
    }
}

/// Line and position along k of the first access of this thread in a tile.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn place<L: Layout, const WIDTH: usize, const BK: usize, const N: usize>() -> (u32, u32) {
    let t = thread::thread_idx_x();
    let n = N as u32;
    if L::ALONG_K {
        let accesses = BK as u32 / n;
        (t / accesses, t % accesses * n)
    } else {
        let accesses = WIDTH as u32 / n;
        (t % accesses * n, t / accesses)
    }
}

impl Loader {
    /// The loader of the tiles that begin in line `first` of product `product`, in an operand of `lines` lines and `k`
    /// elements in each, with those strides (batch, lines, k).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn new<L: Layout, T: Num, const WIDTH: usize, const BK: usize, const V: usize>(
        x: &[T],
        [batch, line, depth]: [usize; 3],
        [product, first]: [usize; 2],
        [lines, k]: [usize; 2],
    ) -> Self {
        let (along, across, len) = if L::ALONG_K {
            (depth, line, k)
        } else {
            (line, depth, lines)
        };
        let whole = |x: usize| x.is_multiple_of(V);
        let wide = along == 1 && whole(across) && whole(batch) && whole(len) && x.is_vec_aligned::<V>();
        let (at_line, at_k) = if wide {
            place::<L, WIDTH, BK, V>()
        } else {
            place::<L, WIDTH, BK, 1>()
        };
        // Offsets of lines and positions that the operand does not have may wrap around; they are not used.
        let offset = (first + at_line as usize)
            .wrapping_mul(line)
            .wrapping_add((at_k as usize).wrapping_mul(depth));
        Self {
            wide,
            next: product.wrapping_mul(batch).wrapping_add(offset),
            line: at_line,
            k: at_k,
            lines: Ord::min(lines - first, WIDTH) as u32,
            strides: [line, depth],
        }
    }

    /// This thread's elements of the next tile, which so many threads load, of whose `BK` positions along k the operand has `left`; zeros where the
    /// operand ends.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn load<
        L: Layout,
        T: Num,
        const WIDTH: usize,
        const BK: usize,
        const V: usize,
        const N: usize,
        const THREADS: usize,
    >(
        &mut self,
        x: &[T],
        left: usize,
    ) -> [T; N] {
        let left = Ord::min(left, BK) as u32;
        let mut values = [T::ZERO; N];
        let mut index = self.next;
        if self.wide {
            for access in 0..N / V {
                let vector = self.access::<L, T, WIDTH, BK, V, THREADS>(x, left, access, &mut index);
                for i in 0..V {
                    values[access * V + i] = vector[i];
                }
            }
        } else {
            for access in 0..N {
                [values[access]] = self.access::<L, T, WIDTH, BK, 1, THREADS>(x, left, access, &mut index);
            }
        }
        self.next = self.next.wrapping_add(BK.wrapping_mul(self.strides[1]));
        values
    }

    /// Access number `access`, at element `index`, which moves on to that of the next access.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn access<L: Layout, T: Num, const WIDTH: usize, const BK: usize, const V: usize, const THREADS: usize>(
        &self,
        x: &[T],
        left: u32,
        access: usize,
        index: &mut usize,
    ) -> [T; V] {
        let [lines, positions] = step::<L, WIDTH, BK, V, THREADS>();
        let at = *index;
        *index = if L::ALONG_K {
            at.wrapping_add(lines.wrapping_mul(self.strides[0]))
        } else {
            at.wrapping_add(positions.wrapping_mul(self.strides[1]))
        };
        let within =
            self.line + ((access * lines) as u32) < self.lines && self.k + ((access * positions) as u32) < left;
        if within {
            // SAFETY: line and position are the operand's, which `GemmShape::fits` found to lie in `x`. If `V` is not 1,
            // the loader is wide: the elements lie side by side, their number is a multiple of `V`, like every offset,
            // so that the whole vector is in the operand, and aligned, as `new` asked.
            unsafe { x.load_vec_unchecked::<V>(at) }
        } else {
            [T::ZERO; V]
        }
    }

    /// Puts what [`load`](Self::load) gave into the tile at element `at` of `tiles`, whose lines along the width are
    /// `pitch` elements apart, one for each position along k.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn store<
        L: Layout,
        T: Num,
        const WIDTH: usize,
        const BK: usize,
        const V: usize,
        const N: usize,
        const THREADS: usize,
    >(
        &self,
        tiles: Shared<T>,
        at: u32,
        values: [T; N],
    ) {
        let pitch = WIDTH + V;
        let at = (at + self.k * pitch as u32 + self.line) as usize;
        let offset = |[lines, positions]: [usize; 2], access: usize| access * (lines + positions * pitch);
        // SAFETY (of all): lines are less than the width and positions less than `BK`, for which `storage` has room; 16
        // bytes are aligned, because `at`, `pitch` and the line are multiples of `V`.
        if !self.wide {
            for access in 0..N {
                let at = at + offset(step::<L, WIDTH, BK, 1, THREADS>(), access);
                unsafe { tiles.set_unchecked(at, values[access]) };
            }
        } else if L::ALONG_K {
            for access in 0..N / V {
                let at = at + offset(step::<L, WIDTH, BK, V, THREADS>(), access);
                for i in 0..V {
                    unsafe { tiles.set_unchecked(at + i * pitch, values[access * V + i]) };
                }
            }
        } else {
            for access in 0..N / V {
                let at = at + offset(step::<L, WIDTH, BK, V, THREADS>(), access);
                let vector: [T; V] = cuda_std::array::from_fn(|i| values[access * V + i]);
                unsafe { tiles.set_vec_unchecked(at, vector) };
            }
        }
    }
}
