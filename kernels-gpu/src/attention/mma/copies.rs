// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of operands that a block has copied to shared memory (`cp.async`), as they lie, but that the 16-byte pieces of a line are swapped by an
//! exclusive or with the line's number: so neither copies nor reads (`ldmatrix`) meet in a bank.

use cuda_std::async_copy;
use cuda_std::prelude::*;

use super::{ELEMENTS, PIECE, THREADS, line_bytes};
use crate::attention::decode::tensor::Half;
use crate::matmul::unroll;

/// What a thread copies of an operand's tiles: some pieces of 16 bytes, all in the same column of pieces.
#[derive(Clone, Copy)]
pub(super) struct Copies<T, const D: usize> {
    /// The piece of the sequence's line of the thread's number.
    from: *const T,
    /// Elements from line to line.
    stride: usize,
    /// Lines of the sequence that are behind that one, and it.
    lines: u32,
    /// Where the first piece of a tile goes, in bytes.
    to: u32,
}

impl<T: Half, const D: usize> Copies<T, D> {
    /// Pieces of a line.
    const ACROSS: u32 = D as u32 / ELEMENTS;

    /// Lines from one piece of the thread's to the next: a multiple of 8, so that all go to the same place in their lines.
    const APART: u32 = THREADS as u32 / Self::ACROSS;

    /// Of so many lines of a head, from a first one on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(
        elements: &[T],
        strides: [usize; 4],
        [batch, head]: [u32; 2],
        (first, lines): (u32, u32),
    ) -> Self {
        let [of_batch, of_head, stride, _] = strides;
        let (row, piece) = (
            thread::thread_idx_x() / Self::ACROSS,
            thread::thread_idx_x() % Self::ACROSS,
        );
        // Where there is no line this may wrap around, and nothing is read.
        let at = [
            (batch, of_batch),
            (head, of_head),
            (first + row, stride),
            (piece, ELEMENTS as usize),
        ];
        let at = at
            .iter()
            .fold(0usize, |at, &(n, of)| at.wrapping_add((n as usize).wrapping_mul(of)));
        Self {
            from: elements.as_ptr().wrapping_add(at),
            stride,
            lines: lines.saturating_sub(row),
            to: row * line_bytes(D) + (piece ^ (row % 8)) * PIECE,
        }
    }

    /// Goes on to lines that are so many elements further on, of the next head.
    #[inline(always)]
    pub(super) fn advance(&mut self, elements: usize) {
        self.from = self.from.wrapping_add(elements);
    }

    /// Has `LINES` lines, 64 at most, from line `first` of the sequence on copied to byte `at` of the memory: zeros where there are none.
    ///
    /// # Safety
    ///
    /// The sequence's lines can be read; the tile is in the memory, and nobody accesses it until the copies are waited for.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn copy<const LINES: u32>(&self, memory: Shared<u8>, at: u32, first: u32) {
        const { assert!(LINES.is_multiple_of(Self::APART) && LINES <= 8 * Self::APART) };
        let from = self.from.wrapping_add((first as usize).wrapping_mul(self.stride));
        unroll!(8, i => {
            let row = i as u32 * Self::APART;
            if row < LINES {
                let bytes = if first + row < self.lines { PIECE } else { 0 };
                let from = from.wrapping_add(self.stride.wrapping_mul(row as usize));
                let to = at + self.to + row * line_bytes(D);
                // SAFETY: the caller's promise; a line of the sequence, or nothing is read.
                unsafe { async_copy::copy_16(memory, to, from.cast(), bytes) };
            }
        });
    }
}

/// Waits until what the block's threads have had copied is there, and all have read what they have asked for.
#[inline(always)]
pub(super) fn meet() {
    async_copy::commit();
    async_copy::wait::<0>();
    thread::sync_threads();
}
