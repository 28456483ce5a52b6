// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of operands that tensor maps cannot have as they lie: whose lines do not begin at multiples of 16 bytes, or have gaps between
//! their elements, since those of neighbouring lines are neighbours.
//!
//! Both operands of a product in one launch: for short products a launch takes longer than the bytes. A thread copies four
//! neighbours of a line, and stores them at once. It loads them one by one, or, where they are not neighbours in memory, has them from
//! a tile in shared memory, which the block has loaded the other way.

use cuda_std::prelude::*;

use super::unroll;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Elements that a thread copies.
pub const PIECE: usize = 4;

/// Lines of a tile, and their elements in it.
const SIDE: usize = 32;

/// From an element of a line to the next one in shared memory: with a word between, so that pieces of neighbouring lines meet no bank
/// twice.
const PITCH: usize = SIDE + 1;

/// The lines of an operand, and where they are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct LinesShape {
    /// Of all products, less than 2^32 pieces; 0 if there is nothing to copy.
    pub lines: u32,
    /// Of a product.
    pub of_product: u32,
    /// Elements of a line: 1 at least.
    pub length: u32,
    /// From product to product, from line to line, and along a line, in elements: one of the last two is 1.
    pub strides: [usize; 3],
}

impl LinesShape {
    /// Pieces of a line, of which the last one may reach beyond its end.
    #[inline(always)]
    pub fn pieces(&self) -> u32 {
        self.length.div_ceil(PIECE as u32)
    }

    /// Whether elements of a line are neighbours.
    #[inline(always)]
    fn is_along(&self) -> bool {
        self.strides[2] == 1
    }

    /// Tiles of a product along its lines' numbers, and along a line.
    #[inline(always)]
    fn tiles(&self) -> [u32; 2] {
        [self.of_product, self.length].map(|length| length.div_ceil(SIDE as u32))
    }

    /// Blocks that copy them.
    pub fn blocks(&self) -> u32 {
        if self.is_along() {
            return (self.lines * self.pieces()).div_ceil(THREADS as u32);
        }
        let [across, along] = self.tiles();
        self.lines.checked_div(self.of_product).unwrap_or(0) * across * along
    }

    /// Copies what the block of that number of all [`blocks`](Self::blocks) does. What is behind a line's end is 0.
    ///
    /// # Safety
    ///
    /// `from` has the elements of the lines, and `to` those of the pieces; `tile` has room for a tile, and all threads of the block are
    /// here.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn copy(&self, from: &[f32], to: SliceMut<'_, f32>, block: u32, tile: Shared<f32>) {
        // SAFETY (of both): the caller's promise.
        if self.is_along() {
            unsafe { self.copy_piece(from, to, block * THREADS as u32 + thread::thread_idx_x()) };
        } else {
            unsafe { self.turn_tile(from, to, block, tile) };
        }
    }

    /// Copies piece `number` of all, of lines whose elements are neighbours.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn copy_piece(&self, from: &[f32], to: SliceMut<'_, f32>, number: u32) {
        // There are pieces if there are lines; checks would leave panics.
        let line = number.checked_div(self.pieces()).unwrap_or(0);
        if line >= self.lines {
            return;
        }
        let column = PIECE as u32 * (number - line * self.pieces());
        let product = line.checked_div(self.of_product).unwrap_or(0);
        let of_product = line - product * self.of_product;
        let at = product as usize * self.strides[0] + of_product as usize * self.strides[1] + column as usize;
        let mut values = [0.0; PIECE];
        unroll!(4, i => {
            if column + (i as u32) < self.length {
                // SAFETY: an element of the line.
                [values[i]] = unsafe { from.load_vec_unchecked::<1>(at + i) };
            }
        });
        // SAFETY: the lines have room for whole pieces, which are aligned.
        unsafe { to.set_vec_unchecked(PIECE * number as usize, values) };
    }

    /// Copies tile `number` of all, of lines of which neighbours have neighbouring elements.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn turn_tile(&self, from: &[f32], to: SliceMut<'_, f32>, number: u32, tile: Shared<f32>) {
        let [across, along] = self.tiles();
        let product = number.checked_div(across * along).unwrap_or(0);
        let of_product = number - product * (across * along);
        let tile_column = of_product.checked_div(across).unwrap_or(0);
        let first_line = SIDE as u32 * (of_product - tile_column * across);
        let first_column = SIDE as u32 * tile_column;
        let thread = thread::thread_idx_x();
        let side = SIDE as u32;

        let (line, column) = (thread % side, thread / side);
        let at = product as usize * self.strides[0] + (first_line + line) as usize;
        unroll!(4, i => {
            let column = column + i as u32 * (THREADS as u32 / side);
            let is_there = first_line + line < self.of_product && first_column + column < self.length;
            let value = if is_there {
                // SAFETY: an element of a line.
                let [value] =
                    unsafe { from.load_vec_unchecked::<1>(at + (first_column + column) as usize * self.strides[2]) };
                value
            } else {
                0.0
            };
            // SAFETY: an element of the tile.
            unsafe { tile.set_unchecked(column as usize * PITCH + line as usize, value) };
        });
        thread::sync_threads();

        let of_line = side / PIECE as u32;
        let (line, column) = (thread / of_line, thread % of_line * PIECE as u32);
        if first_line + line < self.of_product && first_column + column < self.length {
            // SAFETY: elements of the tile.
            let element = |i: usize| unsafe { tile.get_unchecked((column as usize + i) * PITCH + line as usize) };
            let lines = product * self.of_product + first_line + line;
            let piece = lines * self.pieces() + (first_column + column) / PIECE as u32;
            // SAFETY: the lines have room for whole pieces, which are aligned.
            unsafe { to.set_vec_unchecked(PIECE * piece as usize, [element(0), element(1), element(2), element(3)]) };
        }
    }
}

/// Copies the lines of two operands to such as are a multiple of 16 bytes long, one after another; zeros are behind their
/// ends. The grid has one axis, of as many [`blocks`](LinesShape::blocks) as those of `a`, and then those of `b`.
///
/// # Safety
///
/// Blocks have [`THREADS`] threads. The operands have the elements of their lines, and the results, aligned to 16 bytes, those
/// of whole pieces.
#[kernel(max_threads = THREADS)]
pub unsafe fn align_lines(
    a: &[f32],
    b: &[f32],
    to_a: SliceMut<'_, f32>,
    to_b: SliceMut<'_, f32>,
    of_a: LinesShape,
    of_b: LinesShape,
    blocks_of_a: u32,
) {
    let tile = shared_array![f32; SIDE * PITCH];
    let block = thread::block_idx_x();
    // SAFETY (of both): the kernel's contract.
    if block < blocks_of_a {
        unsafe { of_a.copy(a, to_a, block, tile) };
    } else {
        unsafe { of_b.copy(b, to_b, block - blocks_of_a, tile) };
    }
}
