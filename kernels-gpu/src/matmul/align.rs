// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of operands whose lines do not begin at multiples of 16 bytes, where tensor maps want them to begin.
//!
//! Both operands of a product in one launch: for short products a launch takes longer than the bytes. A thread copies four
//! neighbours, which it loads one by one, and stores at once.

use cuda_std::prelude::*;

use super::unroll;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Elements that a thread copies.
pub const PIECE: usize = 4;

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
    /// From product to product, and from line to line, in elements.
    pub strides: [usize; 2],
}

impl LinesShape {
    /// Pieces of a line, of which the last one may reach beyond its end.
    #[inline(always)]
    pub fn pieces(&self) -> u32 {
        self.length.div_ceil(PIECE as u32)
    }

    /// Copies piece `number` of all. What is behind a line's end is 0.
    ///
    /// # Safety
    ///
    /// `from` has the elements of the lines, and `to` those of the pieces.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn copy(&self, from: &[f32], to: SliceMut<'_, f32>, number: u32) {
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
}

/// Copies the lines of two operands to such as are a multiple of 16 bytes long, one after another; zeros are behind their
/// ends. The grid has one axis, of blocks for all pieces of `a`, the first `blocks_of_a`, and for those of `b`.
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
    let block = thread::block_idx_x();
    let piece = |block: u32| block * THREADS as u32 + thread::thread_idx_x();
    // SAFETY (of both): the kernel's contract.
    if block < blocks_of_a {
        unsafe { of_a.copy(a, to_a, piece(block)) };
    } else {
        unsafe { of_b.copy(b, to_b, piece(block - blocks_of_a)) };
    }
}
