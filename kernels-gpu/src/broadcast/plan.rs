// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host tells the kernels: the output's axes, and how far apart an operand's elements lie along them.
//!
//! A launch has at most 2^30 elements, so coordinates are 32-bit; the place of an element is a 64-bit sum of products.

use bytemuck::{Pod, Zeroable};
use cuda_std::KernelParam;

use super::vector::{Row, Vector};
use crate::tile;
use crate::transpose::Extent;

/// Axes that a launch can have.
pub const AXES: usize = MIDDLE + 2;

/// The most elements of a launch. With idle threads at the ends of tiles, too, its threads have numbers below 2^31.
pub const MOST: usize = 1 << 30;

/// Axes between the first and the last.
const MIDDLE: usize = 6;

/// Vectors in a row of a tile, where an operand is transposed.
const LANES: usize = 4;

/// Rows of such a tile: at least as many as a sector of memory has elements.
const HEIGHT: usize = 32;

/// Elements of a vector where rows have no more: of 16 bytes, most would be idle.
pub(super) const SHORT: usize = 4;

/// Elements of a vector where the largest of the element types has `bytes` bytes, and a row `columns` elements.
const fn vec_len(bytes: usize, columns: usize) -> usize {
    let len = tile::vec_len(bytes);
    if columns <= SHORT && SHORT < len { SHORT } else { len }
}

/// The output's axes, and how threads share its elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct OutputAxes {
    start: u64,
    columns: u32,
    rows: u32,
    /// Tiles next to one another.
    tiles: Extent,
    /// The lengths of the axes between the first and the last, from the last of them.
    middle: [Extent; MIDDLE],
    middles: u32,
    lanes_log2: u32,
    height_log2: u32,
    /// Always 0: it makes the size a multiple of 8 bytes.
    zero: u32,
}

/// An operand's strides along the output's axes, in elements; a negative one is the number that wraps around to it.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Strides {
    start: u64,
    column: u64,
    middle: [u64; MIDDLE],
    first: u64,
}

impl OutputAxes {
    /// The output's elements from number `start` on, as axes of the lengths `axes`, from the first: 1 to [`AXES`] of
    /// them, none 0. `bytes` is the size of the largest element type. `transposed` says that an operand has its
    /// neighbours along the last axis but one.
    ///
    /// # Panics
    ///
    /// If there is no axis, or more than [`AXES`], or there are more than [`MOST`] elements.
    pub fn new(start: usize, axes: &[usize], bytes: usize, transposed: bool) -> Self {
        let (&columns, outer) = axes.split_last().expect("at least one axis");
        assert!(axes.len() <= AXES, "at most {AXES} axes");
        let rows = outer.iter().product::<usize>();
        assert!(rows * columns <= MOST, "at most {MOST} elements");
        let len = vec_len(bytes, columns);
        // Where rows begin and end between two vectors, a row has a part of one more.
        let ragged = columns >= len && !(start.is_multiple_of(len) && columns.is_multiple_of(len));
        let vectors = (columns + if ragged { len - 1 } else { 0 }).div_ceil(len);
        let (lanes, height) = if transposed {
            let height = HEIGHT.min(rows.next_power_of_two());
            (LANES.min(vectors.next_power_of_two()), height)
        } else {
            (1, 1)
        };
        let tiles = vectors.div_ceil(lanes);
        let mut middle = [Extent::new(1); MIDDLE];
        for (to, &length) in middle.iter_mut().zip(outer.iter().skip(1).rev()) {
            *to = Extent::new(length);
        }
        Self {
            start: start as u64,
            columns: columns as u32,
            rows: rows as u32,
            tiles: Extent::new(tiles),
            middle,
            middles: outer.len().saturating_sub(1) as u32,
            lanes_log2: lanes.trailing_zeros(),
            height_log2: height.trailing_zeros(),
            zero: 0,
        }
    }

    /// The number of the first element in the output.
    pub fn start(&self) -> usize {
        self.start as usize
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.rows as usize * self.columns as usize
    }

    /// The threads of the launch, in blocks of any size: one for each vector, and in tiles some beyond the ends.
    pub fn threads(&self) -> usize {
        let rows = self.rows.next_multiple_of(1 << self.height_log2);
        ((self.tiles.len() << self.lanes_log2) * rows) as usize
    }

    /// The length of a row.
    #[inline(always)]
    pub(super) fn columns(&self) -> u32 {
        self.columns
    }

    /// The row of thread number `thread`, and its vector of `V` elements; `None` if there is none left.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn vector<const V: usize>(&self, thread: u32) -> Option<(u32, Vector<V>)> {
        let (row, number) = if self.lanes_log2 | self.height_log2 == 0 {
            self.tiles.div_rem(thread)
        } else {
            self.place_in_tile(thread)
        };
        if row >= self.rows {
            return None;
        }
        let row_start = self.start.wrapping_add(row as u64 * self.columns as u64);
        Some((row, Vector::new(row_start, self.columns, number)?))
    }

    /// The row of thread number `thread`, and the number of its vector in the row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn place_in_tile(&self, thread: u32) -> (u32, u32) {
        let low = |x: u32, bits: u32| x & 1u32.wrapping_shl(bits).wrapping_sub(1);
        let above = thread.wrapping_shr(self.lanes_log2);
        let (row, column) = self.tiles.div_rem(above.wrapping_shr(self.height_log2));
        (
            row.wrapping_shl(self.height_log2)
                .wrapping_add(low(above, self.height_log2)),
            column
                .wrapping_shl(self.lanes_log2)
                .wrapping_add(low(thread, self.lanes_log2)),
        )
    }

    /// Where operands have the elements of a row.
    // Arrays that are indexed with constants, once the loops are unrolled, stay in registers; iterators' do not always.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn places<const M: usize>(&self, strides: [&Strides; M], mut row: u32) -> [Row; M] {
        let plus = |at: u64, steps: u32, stride: u64| at.wrapping_add((steps as u64).wrapping_mul(stride));
        let mut first: [u64; M] = cuda_std::array::from_fn(|m| strides[m].start);
        if self.middles != 0 {
            for k in 0..MIDDLE {
                if (k as u32) < self.middles {
                    let (rest, coordinate) = self.middle[k].div_rem(row);
                    first = cuda_std::array::from_fn(|m| plus(first[m], coordinate, strides[m].middle[k]));
                    row = rest;
                }
            }
        }
        cuda_std::array::from_fn(|m| Row {
            first: plus(first[m], row, strides[m].first),
            step: strides[m].column,
        })
    }
}

impl Strides {
    /// The strides along the axes of [`OutputAxes`], from the first; the operand's element for the shape's first one is
    /// number `start`.
    ///
    /// # Panics
    ///
    /// If there is no axis, or more than [`AXES`].
    pub fn new(start: usize, strides: &[isize]) -> Self {
        assert!(strides.len() <= AXES, "at most {AXES} axes");
        let (&column, outer) = strides.split_last().expect("at least one axis");
        let mut middle = [0; MIDDLE];
        for (to, &stride) in middle.iter_mut().zip(outer.iter().skip(1).rev()) {
            *to = stride as u64;
        }
        Self {
            start: start as u64,
            column: column as u64,
            middle,
            first: outer.first().map_or(0, |&stride| stride as u64),
        }
    }
}
