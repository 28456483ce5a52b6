// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernels of gradients have in common: the products of a consumer's lines and a tile's, what is known of queries, and what is seen.

use cuda_std::half::pack;
use cuda_std::matrix;
use cuda_std::prelude::*;
use cuda_std::wgmma::{Accumulator, Fragment, InFlight, KMajor, MatrixDescriptor, Registers};

use super::super::{Half, LINE};
use crate::attention::{AttentionShape, Sequence};
use crate::matmul::unroll;

/// Lines of a consumer, and of what it is multiplied with at a time.
pub const LINES: usize = 64;

/// Registers of the products of a consumer's lines and a tile's, and fragments of them.
pub(super) const PRODUCTS: usize = LINES / 2;
const FRAGMENTS: usize = LINES / 16;

/// What is known of each query: the logarithm to base 2 of its sum of exponentials, and the product of its result and its gradient.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    elements: &'a [f32],
    /// Heads of queries of a problem, and the distance from the first to the second of what is known.
    heads: u32,
    all: usize,
    queries: u32,
}

impl<'a> Known<'a> {
    #[inline(always)]
    pub(super) fn new(elements: &'a [f32], shape: &AttentionShape) -> Self {
        Self {
            elements,
            heads: shape.heads,
            all: (shape.batch * shape.heads) as usize * shape.queries as usize,
            queries: shape.queries,
        }
    }

    /// Of a query of a sequence; of one behind the last, as of one that sees no key.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn of(&self, [batch, head]: [u32; 2], sequence: &Sequence, query: u32) -> [f32; 2] {
        if query >= sequence.queries {
            return [f32::INFINITY, 0.0];
        }
        let head = (batch * self.heads + head) as usize;
        let at = head * self.queries as usize + (sequence.first_query + query) as usize;
        // SAFETY (of both): the kernels' contracts: there are both for each query.
        unsafe {
            let [log_sum] = self.elements.load_vec_unchecked::<1>(at);
            let [delta] = self.elements.load_vec_unchecked::<1>(self.all + at);
            [log_sum, delta]
        }
    }
}

/// What a consumer has packed of its products.
pub(super) struct Packed<T>(pub(super) [Fragment<T>; FRAGMENTS]);

impl<T: Half> Packed<T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(products: &Accumulator<PRODUCTS>) -> Self {
        let of = |j: usize| {
            let pair = |i: usize| pack::<T>(products.element(8 * j + i), products.element(8 * j + i + 1));
            Fragment::of_pairs([pair(0), pair(2), pair(4), pair(6)])
        };
        let packed = Self([of(0), of(1), of(2), of(3)]);
        packed.keep();
        packed
    }

    /// Of no particular elements.
    #[inline(always)]
    pub(super) fn any() -> Self {
        Self([0; FRAGMENTS].map(|_| Fragment::of_pairs([0; 4])))
    }

    /// Where fragment `j` of a thread's lines has its pieces of 16 bytes in a box of lines of [`LINE`] bytes, the first of which is `line`: as
    /// `ldmatrix` and `stmatrix` want it said.
    #[inline(always)]
    fn place(line: u32, j: usize) -> u32 {
        let thread = thread::thread_idx_x();
        let line = line + thread / 32 % 4 * 16 + thread % 16;
        let piece = (2 * j as u32 + thread % 32 / 16) ^ (thread % 8);
        line * LINE as u32 + piece * 16
    }

    /// The fragments of 64 lines of a box.
    ///
    /// # Safety
    ///
    /// They are there. All threads of the warpgroup come by.
    #[inline(always)]
    pub(super) unsafe fn load(from: Shared<T>) -> Self {
        // SAFETY: the caller's promise.
        let of = |j| Fragment::of_pairs(unsafe { matrix::ldmatrix_x4(from, Self::place(0, j)) });
        Self([of(0), of(1), of(2), of(3)])
    }

    /// Stores the fragments as 64 lines of a box, from `line` on.
    ///
    /// # Safety
    ///
    /// The box has them, and nobody else accesses them meanwhile. All threads of the warpgroup come by.
    #[inline(always)]
    pub(super) unsafe fn store(&self, to: Shared<T>, line: u32) {
        unroll!(4, j => {
            // SAFETY: the caller's promise.
            unsafe { matrix::stmatrix_x4(to, Self::place(line, j), self.0[j].pairs()) };
        });
    }

    /// Has the products of these lines and those of a tile, one box of 64, computed.
    ///
    /// # Safety
    ///
    /// The tile is there, and stays as it is until the products have been waited for. Behind that, the fragments are [kept](Self::keep).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn products(&self, tile: Shared<T>) -> InFlight<PRODUCTS> {
        let others = MatrixDescriptor::<T, KMajor>::new(tile, 16, 1024);
        let mut batch = Accumulator::<PRODUCTS>::any().start();
        unroll!(4, step => {
            let b = others.advance(step as u32 * 32);
            // SAFETY (of both): the caller's promise.
            batch = match step {
                0 => unsafe { batch.mma_fragment_from_zero(&self.0[step], b) },
                _ => unsafe { batch.mma_fragment(&self.0[step], b) },
            };
        });
        batch.commit()
    }

    /// Has these, times the 64 lines of a tile, added to sums.
    ///
    /// # Safety
    ///
    /// The tile is there, in boxes of as many lines, and stays as it is until the sums have been waited for. Behind that, the fragments are
    /// [kept](Self::keep).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn add_to<const R: usize>(&self, sums: Accumulator<R>, tile: Shared<T>) -> InFlight<R>
    where
        [f32; R]: Registers,
    {
        let next_box = (LINES * LINE) as u32;
        let lines = MatrixDescriptor::<T, T::AlongLines>::new(tile, next_box, 1024);
        let mut batch = sums.start();
        unroll!(4, step => {
            let b = lines.advance(step as u32 * 16 * LINE as u32);
            // SAFETY: the caller's promise; the fragments were made before the batch was opened.
            batch = unsafe { batch.mma_fragment(&self.0[step], b) };
        });
        batch.commit()
    }

    /// Keeps the registers from others until here.
    #[inline(always)]
    pub(super) fn keep(&self) {
        unroll!(4, j => {
            self.0[j].keep();
        });
    }
}

/// Has the products of 64 lines and the first 64 of a tile computed, whose boxes have so many.
///
/// # Safety
///
/// Both are there, in boxes of [`LINE`] bytes a line side by side, and stay as they are until the products have been waited for.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn products<T: Half, const R: usize>(
    own: MatrixDescriptor<T, KMajor>,
    tile: Shared<T>,
    lines: usize,
) -> InFlight<PRODUCTS> {
    let others = MatrixDescriptor::<T, KMajor>::new(tile, 16, 1024);
    let mut batch = Accumulator::<PRODUCTS>::any().start();
    unroll!(R / 8, step => {
        // 32 bytes of the line of a box, or the next box.
        let (of_box, in_line) = (step / 4 * LINE, step % 4 * 32);
        let a = own.advance((of_box * LINES + in_line) as u32);
        let b = others.advance((of_box * lines + in_line) as u32);
        // SAFETY (of both): the caller's promise.
        batch = match step {
            0 => unsafe { batch.mma_from_zero(a, b) },
            _ => unsafe { batch.mma(a, b) },
        };
    });
    batch.commit()
}

/// Takes what is of keys that a query does not see for `hidden`: of a warpgroup's lines from `row` on, which are queries or else keys, and
/// the others from `line` on.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn hide<const OF_QUERIES: bool>(
    scores: &mut Accumulator<PRODUCTS>,
    sequence: &Sequence,
    (row, line): (u32, u32),
    hidden: f32,
) {
    let (first_query, first_key) = match OF_QUERIES {
        true => (row, line),
        false => (line, row),
    };
    let sees_all = first_key + (LINES as u32) <= sequence.end(first_query)
        && first_key >= sequence.begin(first_query + LINES as u32 - 1);
    if sees_all {
        return;
    }
    let (own_row, column) = Accumulator::<PRODUCTS>::place(thread::thread_idx_x(), 0);
    let (row, line) = (row + own_row, line + column);
    scores.update(|i, score| {
        let (row, line) = (row + (i / 2 % 2 * 8) as u32, line + (i / 4 * 8 + i % 2) as u32);
        let (query, key) = match OF_QUERIES {
            true => (row, line),
            false => (line, row),
        };
        let is_seen = key < sequence.end(query) && key >= sequence.begin(query);
        if is_seen { score } else { hidden }
    });
}
