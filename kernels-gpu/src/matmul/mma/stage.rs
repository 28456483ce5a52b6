// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tiles of operands in shared memory: how they lie, what a thread copies there, and what a lane reads.

use core::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::{async_copy, hint, matrix};

use super::{Generation, LINE, PIECE, tile_k};
use crate::matmul::unroll;

/// Where the piece that number `piece` of row `row` is goes, among the pieces of the row: as far as another is from it, so
/// far it goes in each eight rows, so that neither eight pieces of a row nor eight of a column are in a bank.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn swizzled<E>(along_k: bool, row: u32, piece: u32) -> u32 {
    piece
        ^ match (along_k, size_of::<E>()) {
            // Rows of four pieces: two of them pass all banks. Of f64, lanes read two pieces in four rows.
            (true, 8) => row / 2 % 2 * 2,
            (true, _) => row / 2 % 4,
            (false, 2) => row % 8,
            // Lanes read two pieces in four rows.
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
pub(super) struct OperandCopies<E, const ALONG_K: bool, G> {
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
    /// The pieces of the next stage, where they pass registers.
    loaded: [[u32; 4]; 4],
    _generation: PhantomData<G>,
}

impl<E: Pod, const ALONG_K: bool, G: Generation> OperandCopies<E, ALONG_K, G> {
    /// Elements of a piece.
    const UNIT: u32 = PIECE / size_of::<E>() as u32;

    /// Of lines from `line` on of the matrix at `matrix`, whose rows of pieces are `stride` elements apart.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
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
            loaded: [[0; 4]; 4],
            _generation: PhantomData,
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

    /// Rows of pieces, and elements along them, that are in bounds; of k, so many elements are left.
    #[inline(always)]
    fn bounds(&self, k_left: u32) -> [u32; 2] {
        match ALONG_K {
            true => [self.of.lines, k_left],
            false => [k_left, self.of.lines],
        }
    }

    /// Bytes of the pieces that are in bounds, in rows that are.
    #[inline(always)]
    fn bytes(&self, k_left: u32) -> u32 {
        let [_, elements] = self.bounds(k_left);
        elements.saturating_sub(self.first).min(Self::UNIT) * size_of::<E>() as u32
    }

    /// Whether the row of piece `i` is in bounds.
    #[inline(always)]
    fn has_row(&self, i: usize, k_left: u32) -> bool {
        let apart = self.of.threads / Self::across(self.of);
        self.row + i as u32 * apart < self.bounds(k_left)[0]
    }

    /// Whether there is piece `i` of the thread's.
    #[inline(always)]
    fn has(&self, i: usize) -> bool {
        i as u32 * self.of.threads * PIECE < self.of.tile * LINE
    }

    /// Where piece `i` goes in the memory, in bytes, of the tile at byte `at`.
    #[inline(always)]
    fn place(&self, at: u32, i: usize) -> u32 {
        at + self.to + i as u32 * self.of.threads * PIECE
    }

    /// Has piece `i` of the next stage copied to the tile at byte `at`, of which so many bytes are in bounds.
    ///
    /// # Safety
    ///
    /// The bytes can be read; the tile is in `memory`, and nobody accesses it until the copies are waited for.
    #[inline(always)]
    unsafe fn copy(&self, memory: Shared<u8>, at: u32, i: usize, bytes: u32) {
        let from = self.from.wrapping_add(i * self.apart);
        // SAFETY: the caller's promise.
        unsafe { async_copy::copy_16(memory, self.place(at, i), from.cast(), bytes) };
    }

    /// Has the pieces of the next stage copied to the tile at byte `at`; of k, so many elements are left.
    ///
    /// # Safety
    ///
    /// The elements in bounds can be read, and all are in bounds, if that is said; the tile is in `memory`, and nobody
    /// accesses it until the copies are waited for.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill<const WHOLE: bool>(&self, memory: Shared<u8>, at: u32, k_left: u32) {
        unroll!(4, i => {
            if self.has(i) {
                let bytes = match WHOLE {
                    true => PIECE,
                    false if self.has_row(i, k_left) => self.bytes(k_left),
                    false => 0,
                };
                // SAFETY: the caller's promise; so many bytes are in bounds.
                unsafe { self.copy(memory, at, i, bytes) };
            }
        });
    }

    /// [`fill`](Self::fill) by a loop, which the assembler cannot make part of the code around it.
    ///
    /// # Safety
    ///
    /// As for [`fill`](Self::fill).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn fill_by_loop(&self, memory: Shared<u8>, at: u32, k_left: u32) {
        let mut i = 0;
        while self.has(i) {
            let bytes = if self.has_row(i, k_left) { self.bytes(k_left) } else { 0 };
            // SAFETY: the caller's promise; so many bytes are in bounds.
            unsafe { self.copy(memory, at, i, bytes) };
            // Known to be one more, the loop would be unrolled.
            i = hint::pinned(i as u32 + 1) as usize;
        }
    }

    /// Whether all of the next stage of the tile is in bounds, which is the same for all threads.
    #[inline(always)]
    fn is_whole(&self, k_left: u32) -> bool {
        self.of.lines >= self.of.tile && k_left >= tile_k(size_of::<E>()) as u32
    }

    /// Whether the pieces of the next stage are whole, where their rows are in bounds.
    #[inline(always)]
    fn are_whole(&self, k_left: u32) -> bool {
        self.bytes(k_left) == PIECE
    }

    /// Loads the pieces of the next stage into registers.
    ///
    /// # Safety
    ///
    /// The elements in bounds can be read; the pieces are whole, if that is said.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load<const WHOLE: bool>(&mut self, k_left: u32) {
        let bytes = if WHOLE { PIECE } else { self.bytes(k_left) };
        unroll!(4, i => {
            if self.has(i) {
                self.loaded[i] = [0; 4];
                if self.has_row(i, k_left) {
                    let from = self.from.wrapping_add(i * self.apart);
                    // SAFETY: so many bytes are in bounds; pieces begin at multiples of their size.
                    self.loaded[i] = unsafe { piece(from, bytes) };
                }
            }
        });
    }

    /// Puts the pieces that were loaded, at first zeros, into the tile at byte `at`.
    ///
    /// # Safety
    ///
    /// The tile is in `memory`, and nobody accesses it ahead of a barrier.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn put(&self, memory: Shared<u8>, at: u32) {
        unroll!(4, i => {
            if self.has(i) {
                // SAFETY: a piece of the tile, at a multiple of its size.
                unsafe {
                    let to = memory.subarray_unchecked(self.place(at, i) as usize, PIECE as usize);
                    to.cast::<u32>().set_vec_unchecked(0, self.loaded[i]);
                }
            }
        });
    }
}

/// What a thread copies of both operands, a stage after another.
pub(super) struct Copies<E, const A_ALONG_K: bool, const B_ALONG_K: bool, G> {
    pub(super) a: OperandCopies<E, A_ALONG_K, G>,
    pub(super) b: OperandCopies<E, B_ALONG_K, G>,
    /// Where the tile of `B` begins in a stage.
    pub(super) b_at: u32,
    /// Elements of k that are left.
    pub(super) k_left: u32,
}

impl<E: Pod, const A_ALONG_K: bool, const B_ALONG_K: bool, G: Generation> Copies<E, A_ALONG_K, B_ALONG_K, G> {
    /// Has the next stage copied to byte `stage` of the memory. Where pieces pass registers, those that the last call loaded go
    /// there, at first zeros, and the next ones are loaded.
    ///
    /// # Safety
    ///
    /// The elements in bounds can be read; the stage is in `memory`, and nobody accesses it until it has been waited for.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn fill(&mut self, memory: Shared<u8>, stage: u32) {
        let Self { a, b, b_at, k_left } = self;
        // SAFETY (of all): the caller's promise.
        unsafe {
            if G::ASYNC {
                a.fill::<false>(memory, stage, *k_left);
                b.fill::<false>(memory, stage + *b_at, *k_left);
                async_copy::commit();
            } else {
                a.put(memory, stage);
                b.put(memory, stage + *b_at);
                // Code without branches for each piece: almost all of them are whole.
                if a.are_whole(*k_left) && b.are_whole(*k_left) {
                    a.load::<true>(*k_left);
                    b.load::<true>(*k_left);
                } else {
                    a.load::<false>(*k_left);
                    b.load::<false>(*k_left);
                }
            }
        }
        self.advance();
    }

    /// [`fill`](Self::fill) of what passes no register, with fewer instructions: almost all stages are whole, and how much
    /// there is of a piece takes more of them than all else about it. By a branch, across which the compiler moves nothing.
    ///
    /// # Safety
    ///
    /// As for [`fill`](Self::fill).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn fill_by_branch(&mut self, memory: Shared<u8>, stage: u32) {
        let Self { a, b, b_at, k_left } = self;
        // SAFETY (of all): the caller's promise.
        unsafe {
            if a.is_whole(*k_left) && b.is_whole(*k_left) {
                a.fill::<true>(memory, stage, *k_left);
                b.fill::<true>(memory, stage + *b_at, *k_left);
            } else {
                a.fill_by_loop(memory, stage, *k_left);
                b.fill_by_loop(memory, stage + *b_at, *k_left);
            }
        }
        async_copy::commit();
        self.advance();
    }

    /// To the stage behind the next one.
    #[inline(always)]
    fn advance(&mut self) {
        self.a.from = self.a.from.wrapping_add(self.a.ahead);
        self.b.from = self.b.from.wrapping_add(self.b.ahead);
        self.k_left = self.k_left.saturating_sub(tile_k(size_of::<E>()) as u32);
    }
}

/// The words of a piece of which so many bytes are there, and zeros behind them.
///
/// # Safety
///
/// So many bytes, of whole elements, can be read at `from`, a multiple of 16 bytes.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn piece<E: Pod>(from: *const E, bytes: u32) -> [u32; 4] {
    if bytes == PIECE {
        // SAFETY: the caller's promise.
        return unsafe { Slice::from_raw_parts(from.cast::<u32>(), 4).get_vec_unchecked(0) };
    }
    let mut words = [0; 4];
    let mut left = bytes as usize / size_of::<E>();
    // From the last one on, each element moves those behind it up.
    while left > 0 {
        // Known to be one less, the loop would be unrolled.
        left = hint::pinned(left as u32 - 1) as usize;
        // SAFETY: one of the elements.
        let [element] = unsafe { Slice::from_raw_parts(from, left + 1).get_vec_unchecked::<1>(left) };
        let bits = 8 * size_of::<E>() as u32;
        let [a, b, c, d] = words;
        let up = |low: u32, high: u32| high << bits | low >> (32 - bits);
        words = [a << bits | low_bits(element), up(a, b), up(b, c), up(c, d)];
    }
    words
}

/// The bits of an element of one or two bytes.
#[inline(always)]
fn low_bits<E: Pod>(element: E) -> u32 {
    match size_of::<E>() {
        1 => u32::from(bytemuck::cast::<E, u8>(element)),
        _ => u32::from(bytemuck::cast::<E, u16>(element)),
    }
}

/// Where a lane reads fragments of an operand in its tile: of `A` or of `B`.
pub(super) struct Reads<E, const ALONG_K: bool, const A: bool> {
    /// In bytes: along k, of either half of a stage's k; along the lines, of each group of 16, or of 8 of 32-bit elements of `B`,
    /// or of either 8 of f64. The rest are constants.
    at: [u32; 4],
    /// Bytes of an element of k, where the lines are along the rows.
    row: u32,
    _element: PhantomData<E>,
}

impl<E: Pod, const ALONG_K: bool, const A: bool> Reads<E, ALONG_K, A> {
    /// Of the lines from `first` on, of a tile of so many.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(first: u32, lines: u32) -> Self {
        let lane = thread::thread_idx_x() % 32;
        let row = lines * size_of::<E>() as u32;
        // Of four matrices of 8 lines × 16 bytes of k: eight lanes say where each one's rows are.
        let (second, fourth) = (lane / 8 % 2, lane / 16);
        let (lines, bytes) = if A { (second, fourth) } else { (fourth, second) };
        let at = cuda_std::array::map([0, 1, 2, 3], |number| match (ALONG_K, size_of::<E>()) {
            (true, 8) => {
                let line = first + lane / 4;
                line * LINE + swizzled::<E>(true, line, lane % 4 / 2 + 2 * (number % 2)) * PIECE + lane % 2 * 8
            }
            (false, 8) => {
                let (k, line) = (lane % 4, lane / 4);
                let piece = (first + 8 * (number % 2) + line) / 2;
                k * row + swizzled::<E>(false, k, piece) * PIECE + line % 2 * 8
            }
            (true, _) => {
                let line = first + lane % 8 + 8 * lines;
                line * LINE + swizzled::<E>(true, line, bytes + 2 * (number % 2)) * PIECE
            }
            (false, 2) => {
                let k = lane % 8 + 8 * bytes;
                k * row + swizzled::<E>(false, k, (first + 16 * number) / 8 + lines) * PIECE
            }
            (false, 4) if A => {
                let (k, line) = (lane % 4, lane / 4 * 2);
                k * row + swizzled::<E>(false, k, (first + 16 * number + line) / 4) * PIECE + line % 4 * 4
            }
            (false, _) => {
                let (k, line) = (lane % 4, lane / 4);
                k * row + swizzled::<E>(false, k, (first + 8 * number + line) / 4) * PIECE + line % 4 * 4
            }
        });
        Self {
            at,
            row,
            _element: PhantomData,
        }
    }

    /// The words of group `i`, in a half of a stage's k, of the tile at byte `tile`. Where numbers of 32 bits of `A` lie along the
    /// lines, a lane has two neighbours for a line of the first eight and one of the others: lines `2 i` and `2 i + 1` are
    /// the instruction's rows `i` and `i + 8`.
    ///
    /// # Safety
    ///
    /// The tile is in `memory`, and nobody writes it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) unsafe fn group(&self, memory: Shared<u8>, tile: u32, half: usize, i: usize) -> [u32; 4] {
        // Elements of k of a half.
        let step = LINE / 2 / size_of::<E>() as u32 * self.row * half as u32;
        // SAFETY (of all): in the tile, at multiples of 16 bytes, or 8.
        match (ALONG_K, size_of::<E>()) {
            (_, 8) => {
                let both = |lines: usize| {
                    let at = match ALONG_K {
                        true => self.at[half] + LINE * (16 * i + 8 * lines) as u32,
                        false => self.at[lines] + 8 * PIECE * i as u32 + step,
                    };
                    unsafe { memory.subarray_unchecked((tile + at) as usize, 8) }.cast::<u32>()
                };
                let both = |lines| unsafe { both(lines).get_vec_unchecked::<2>(0) };
                let ([a, b], [c, d]) = (both(0), both(1));
                [a, b, c, d]
            }
            (true, _) => unsafe { matrix::ldmatrix_x4(memory, tile + self.at[half] + 16 * LINE * i as u32) },
            (false, 2) => unsafe { matrix::ldmatrix_x4_trans(memory, tile + self.at[i] + step) },
            (false, _) if A => {
                let pair = |k: u32| {
                    let at = self.at[i] + step + k * self.row;
                    unsafe { memory.subarray_unchecked((tile + at) as usize, 8) }.cast::<u32>()
                };
                let pair = |k| unsafe { pair(k).get_vec_unchecked::<2>(0) };
                let ([a, b], [c, d]) = (pair(0), pair(4));
                [a, b, c, d]
            }
            (false, _) => {
                let word = |lines: usize, k: u32| {
                    let number = 2 * i + lines;
                    let at = self.at[number % 4] + (number / 4) as u32 * 8 * PIECE + step + k * self.row;
                    unsafe { memory.subarray_unchecked((tile + at) as usize, 4) }.cast::<u32>()
                };
                let word = |lines, k| unsafe { word(lines, k).get_unchecked(0) };
                [word(0, 0), word(0, 4), word(1, 0), word(1, 4)]
            }
        }
    }
}
