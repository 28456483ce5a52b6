// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tiles of operands in shared memory: how they lie, what a thread copies there, and what a lane reads.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::{async_copy, matrix};

use super::{LINE, PIECE, tile_k};
use crate::matmul::unroll;

/// Where the piece that number `piece` of row `row` is goes, among the pieces of the row: as far as another is from it, so
/// far it goes in each eight rows, so that neither eight pieces of a row nor eight of a column are in a bank.
#[inline(always)]
fn swizzled<E>(along_k: bool, row: u32, piece: u32) -> u32 {
    piece
        ^ match (along_k, size_of::<E>()) {
            // Rows of four pieces: two of them pass all banks.
            (true, _) => row / 2 % 4,
            (false, 2) => row % 8,
            // Lanes read words of two pieces, in four rows.
            (false, _) => row % 4 * 2,
        }
}

/// The extent of an operand along its lines.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Lines from the tile's first on.
    pub(super) lines: u32,
    /// Lines of the tile.
    pub(super) tile: u32,
    /// Threads that copy it.
    pub(super) threads: u32,
}

/// What a thread copies of an operand's tile: some pieces of 16 bytes, all in the same column of pieces.
pub(super) struct Copies<E, const ALONG_K: bool> {
    /// The first piece of the next stage.
    from: *const E,
    /// Elements from piece to piece.
    apart: usize,
    /// Elements from stage to stage.
    ahead: usize,
    /// Where the first piece goes in the tile, in bytes.
    to: u32,
    /// The first piece's row of pieces: a line, or an element of k.
    row: u32,
    /// The first element along the rows of pieces: of k, or a line.
    first: u32,
    of: Extent,
}

impl<E: Pod, const ALONG_K: bool> Copies<E, ALONG_K> {
    /// Elements of a piece.
    const UNIT: u32 = PIECE / size_of::<E>() as u32;

    /// Of lines from `line` on of the matrix at `matrix`, whose rows of pieces are `stride` elements apart.
    #[inline(always)]
    pub(super) fn new(matrix: *const E, stride: usize, line: u32, of: Extent) -> Self {
        let across = Self::across(of);
        let (row, piece) = (thread::thread_idx_x() / across, thread::thread_idx_x() % across);
        let first = piece * Self::UNIT;
        let from = match ALONG_K {
            true => (line + row) as usize * stride + first as usize,
            false => row as usize * stride + (line + first) as usize,
        };
        let tile_k = tile_k(size_of::<E>());
        Self {
            from: matrix.wrapping_add(from),
            apart: (of.threads / across) as usize * stride,
            ahead: if ALONG_K { tile_k } else { tile_k * stride },
            to: (row * across + swizzled::<E>(ALONG_K, row, piece)) * PIECE,
            row,
            first,
            of,
        }
    }

    /// Pieces of a row.
    #[inline(always)]
    fn across(of: Extent) -> u32 {
        match ALONG_K {
            true => LINE / PIECE,
            false => of.tile / Self::UNIT,
        }
    }

    /// Has the pieces of the next stage copied to the tile at byte `at`; of k, so many elements are left.
    ///
    /// # Safety
    ///
    /// The elements in bounds can be read; the tile is in `memory`, and nobody accesses it until the copies are waited for.
    #[inline(always)]
    pub(super) unsafe fn fill(&mut self, memory: Shared<u8>, at: u32, k_left: u32) {
        let apart = self.of.threads / Self::across(self.of);
        let (rows, elements) = match ALONG_K {
            true => (self.of.lines, k_left),
            false => (k_left, self.of.lines),
        };
        let bytes = elements.saturating_sub(self.first).min(Self::UNIT) * size_of::<E>() as u32;
        unroll!(4, i => {
            if i as u32 * self.of.threads * PIECE < self.of.tile * LINE {
                let bytes = if self.row + i as u32 * apart < rows { bytes } else { 0 };
                let to = at + self.to + i as u32 * self.of.threads * PIECE;
                let from = self.from.wrapping_add(i * self.apart);
                // SAFETY: the caller's promise; so many bytes are in bounds.
                unsafe { async_copy::copy_16(memory, to, from.cast(), bytes) };
            }
        });
        self.from = self.from.wrapping_add(self.ahead);
    }
}

/// Where a lane reads fragments of an operand in its tile: of `A` or of `B`.
pub(super) struct Reads<E, const ALONG_K: bool, const A: bool> {
    /// In bytes: along k, of either half of a stage's k; along the lines, of each group of 16, or of 8 of 32-bit elements. The
    /// rest are constants.
    at: [u32; 4],
    /// Bytes of an element of k, where the lines are along the rows.
    row: u32,
    _element: core::marker::PhantomData<E>,
}

impl<E: Pod, const ALONG_K: bool, const A: bool> Reads<E, ALONG_K, A> {
    /// Of the lines from `first` on, of a tile of so many.
    #[inline(always)]
    pub(super) fn new(first: u32, lines: u32) -> Self {
        let lane = thread::thread_idx_x() % 32;
        let row = lines * size_of::<E>() as u32;
        // Of four matrices of 8 lines × 16 bytes of k: eight lanes say where each one's rows are.
        let (second, fourth) = (lane / 8 % 2, lane / 16);
        let (lines, bytes) = if A { (second, fourth) } else { (fourth, second) };
        let at = [0, 1, 2, 3].map(|number| match (ALONG_K, size_of::<E>()) {
            (true, _) => {
                let line = first + lane % 8 + 8 * lines;
                line * LINE + swizzled::<E>(true, line, bytes + 2 * (number % 2)) * PIECE
            }
            (false, 2) => {
                let k = lane % 8 + 8 * bytes;
                k * row + swizzled::<E>(false, k, (first + 16 * number) / 8 + lines) * PIECE
            }
            (false, _) => {
                let (k, line) = (lane % 4, lane / 4);
                k * row + swizzled::<E>(false, k, (first + 8 * number + line) / 4) * PIECE + line % 4 * 4
            }
        });
        Self {
            at,
            row,
            _element: core::marker::PhantomData,
        }
    }

    /// The words of group `i`, in a half of a stage's k, of the tile at byte `tile`.
    ///
    /// # Safety
    ///
    /// The tile is in `memory`, and nobody writes it.
    #[inline(always)]
    pub(super) unsafe fn group(&self, memory: Shared<u8>, tile: u32, half: usize, i: usize) -> [u32; 4] {
        // Elements of k of a half.
        let step = LINE / 2 / size_of::<E>() as u32 * self.row * half as u32;
        // SAFETY (of all): in the tile, at multiples of 16 bytes, or 8.
        match (ALONG_K, size_of::<E>()) {
            (true, _) => unsafe { matrix::ldmatrix_x4(memory, tile + self.at[half] + 16 * LINE * i as u32) },
            (false, 2) => unsafe { matrix::ldmatrix_x4_trans(memory, tile + self.at[i] + step) },
            (false, _) => {
                let word = |lines: usize, k: u32| {
                    let number = 2 * i + lines;
                    let at = self.at[number % 4] + (number / 4) as u32 * 8 * PIECE + step + k * self.row;
                    unsafe { memory.subarray_unchecked((tile + at) as usize, 4) }.cast::<u32>()
                };
                let word = |lines, k| unsafe { word(lines, k).get_unchecked(0) };
                match A {
                    true => [word(0, 0), word(1, 0), word(0, 4), word(1, 4)],
                    false => [word(0, 0), word(0, 4), word(1, 0), word(1, 4)],
                }
            }
        }
    }
}
