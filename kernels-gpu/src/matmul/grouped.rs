// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many products in one launch, each with a shape and operands of its own: which they are, and who computes what of them.
//!
//! A table in the device's memory has a [`Problem`] for each product, and a list beside it where the problem's tiles begin
//! among the tiles of all. Whoever computes a tile looks for its problem there, a warp together, which asks at 32 places at
//! once: one load and one vote for 32 problems, two for 1024. (The scheduler of CUTLASS's grouped kernels, NVIDIA, 2021,
//! counts tiles from one problem to the next.)
//!
//! Where the products are of parts of one matrix's rows, and only the device knows which, [`place_groups()`] writes the
//! table: so nobody waits for the numbers of rows.

use bytemuck::{Pod, Zeroable};
use cuda_std::prelude::*;

use super::tiles::{Tile, Tiles};

/// A product of an m × k matrix and a k × n matrix.
///
/// Kernels that read by pointers have addresses and strides, those that read by tensor maps the places in these.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam, Pod, Zeroable)]
pub struct Problem {
    /// The address of the first element of `A`.
    pub a: u64,
    /// The same of `B`.
    pub b: u64,
    /// The same of `C`, which is in C order.
    pub c: u64,
    /// Elements from row to row of `A`, or, of what lies along its rows' numbers, from column to column.
    pub a_stride: u64,
    /// The same of `B`, from column to column, or from row to row.
    pub b_stride: u64,
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`. Where it is 0, the product is 0.
    pub k: u32,
    /// Its first row in the maps of `A` and `C`.
    pub row: u32,
    /// Its number in the map of `B`.
    pub product: u32,
    /// [`A_ALONG_M`], [`B_ALONG_N`]
    pub layout: u32,
}

/// The elements of a column of `A` are neighbours (else those of a row).
pub const A_ALONG_M: u32 = 1;

/// The elements of a row of `B` are neighbours (else those of a column).
pub const B_ALONG_N: u32 = 2;

/// Rows of a tile.
pub const TILE_M: u32 = 128;

/// The tiles of all problems.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) problems: &'a [Problem],
    /// Where each problem's tiles begin, and at last how many there are.
    pub(super) starts: &'a [u32],
    /// Columns of a tile.
    pub(super) tile_n: u32,
    /// Rows of tiles that numbers go down before they go right.
    pub(super) group: u32,
}

impl Table<'_> {
    /// The problem that has tile `number`, and the tile in it, or nothing if there are not so many. For all lanes of a warp
    /// together.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn tile(&self, number: u32) -> Option<(Problem, Tile)> {
        // The votes tell the compiler that the warp goes one way.
        if warp::all(warp::FULL_MASK, number >= *self.starts.last()?) {
            return None;
        }
        // The last one that begins there or before is among `length` from `first` on.
        let (mut first, mut length) = (0, self.problems.len() as u32);
        while length > 1 {
            let step = length.div_ceil(32);
            let ahead = thread::thread_idx_x() % 32 * step;
            let start = self.starts.get((first + ahead) as usize);
            let begins = ahead < length && start.is_some_and(|&start| start <= number);
            let passed = (warp::ballot(warp::FULL_MASK, begins).count_ones() - 1) * step;
            first += passed;
            length = step.min(length - passed);
        }
        let start = *self.starts.get(first as usize)?;
        let problem = *self.problems.get(first as usize)?;
        let tiles = Tiles::new(1, [problem.m, problem.n], [TILE_M, self.tile_n], self.group);
        Some((problem, tiles.tile(number - start)))
    }
}

/// An integer that says where a group of rows ends.
pub trait RowNumber: Pod {
    /// The number, or the nearest one from 0 to `rows`.
    fn within(self, rows: u32) -> u32;

    /// The number, or 0 if it is negative.
    fn row(self) -> u64;
}

impl RowNumber for i32 {
    #[inline(always)]
    fn within(self, rows: u32) -> u32 {
        (self.max(0) as u32).min(rows)
    }

    #[inline(always)]
    fn row(self) -> u64 {
        self.max(0) as u64
    }
}

impl RowNumber for u64 {
    #[inline(always)]
    fn within(self, rows: u32) -> u32 {
        self.min(rows as u64) as u32
    }

    #[inline(always)]
    fn row(self) -> u64 {
        self
    }
}

/// Groups of rows of a matrix, each of which is multiplied with a matrix of its own.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct GroupsShape {
    /// The product of all rows with the first matrix.
    pub whole: Problem,
    /// Bytes from row to row of `A`.
    pub a_row: u64,
    /// Bytes from matrix to matrix of `B`.
    pub b_product: u64,
    /// Bytes from row to row of `C`.
    pub c_row: u64,
    /// Columns of tiles.
    pub columns: u32,
}

/// Writes the table of the products of groups of rows: `ends[i]` is the row behind group `i`, which begins where the one
/// before ends. An end that is less than one before counts as that, and none is beyond the last row. The rows behind all
/// groups are a problem of their own, the last, with a `k` of 0.
///
/// One block of a warp, which takes 32 groups at a time.
///
/// # Safety
///
/// `problems` has one more than `ends`, `starts` two.
#[kernel(T = [i32, u64], max_threads = 32)]
pub unsafe fn place_groups<T: RowNumber>(
    ends: &[T],
    shape: GroupsShape,
    problems: SliceMut<'_, Problem>,
    starts: SliceMut<'_, u32>,
) {
    let (lane, whole) = (thread::thread_idx_x(), shape.whole);
    let (mut row, mut tiles) = (0, 0);
    let mut first = 0;
    if lane == 0 {
        // SAFETY: the kernel's contract.
        unsafe { starts.set_vec_unchecked(0, [0]) };
    }
    while first <= ends.len() {
        let number = first + lane as usize;
        let end = ends.get(number).map_or(whole.m, |end| end.within(whole.m)).max(row);
        let end = warp::inclusive_scan(end, |a, b| a.max(b));
        let below = warp::shuffle_up(warp::FULL_MASK, end, 1);
        let start = if lane == 0 { row } else { below };
        let m = end - start;
        let of_group = m.div_ceil(TILE_M) * shape.columns;
        let behind = tiles + warp::inclusive_scan(of_group, |a, b| a.wrapping_add(b));
        if number <= ends.len() {
            let is_group = number < ends.len();
            let problem = Problem {
                a: whole.a + u64::from(start) * shape.a_row,
                b: whole.b + number as u64 * shape.b_product,
                c: whole.c + u64::from(start) * shape.c_row,
                m,
                k: if is_group { whole.k } else { 0 },
                row: start,
                product: number as u32,
                ..whole
            };
            // SAFETY (of both): the kernel's contract.
            unsafe {
                problems.set_vec_unchecked(number, [problem]);
                starts.set_vec_unchecked(number + 1, [behind]);
            }
        }
        row = warp::shuffle(warp::FULL_MASK, end, 31);
        tiles = warp::shuffle(warp::FULL_MASK, behind, 31);
        first += 32;
    }
}
