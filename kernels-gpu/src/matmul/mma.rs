// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix on the tensor cores of Ampere and later: `C ← α A B + β C`, of numbers of 16 bits or of f32 rounded
//! to TF32, accumulated in f32.
//!
//! A block computes one tile of `C`, of 64 × 64, 128 × 128 or 128 × 256 elements, by warps of 32 × 32 or 64 × 64. Each
//! thread has its pieces of the tiles of `A` and `B`, 64 bytes of k at a time, copied into a ring of stages in shared
//! memory (`cp.async`), two or three stages ahead; the warps read fragments from there (`ldmatrix`), for one instruction
//! ahead along k, and multiply them (`mma.sync.m16n8k16`, or `m16n8k8` of TF32): the structure of CUTLASS's kernels for
//! Ampere (NVIDIA, 2020). One barrier a stage says both that the next one is full and that the last one is free.
//!
//! An operand may lie along k or along its lines (rows of `A`, columns of `B`), and lies in shared memory as it does in
//! memory, in rows of 16-byte pieces that are swapped by an exclusive or with the row's number, so that neither copies nor
//! reads meet in a bank. Fragments want neighbours along k in a word. `ldmatrix` takes numbers of 16 bits out of rows along
//! the lines as well, by transposing; TF32 has one number a word, which ordinary loads read there.
//!
//! TF32 is rounded to nearest when it has been read: the instruction truncates. What is out of bounds is copied as zeros and
//! not written, so any shape is right.
//!
//! Work `2 m n k`. Elements moved from the cache `m n k (1 / ROWS + 1 / COLUMNS)`. The sums of a tile's element are in the
//! order of k, in f32 with the tensor core's rounding: the error is at most `k u Σ|a||b|` with `u = 2⁻²³`, as for
//! [`wgmma`](super::wgmma).

use bytemuck::Pod;
use cuda_std::half::{bf16, bf16_to_f32, f16, f16_to_f32, pack};
use cuda_std::mma::{self, Mma, mma};
use cuda_std::prelude::*;
use cuda_std::wgmma::{Operand, Tf32};
use cuda_std::{async_copy, matrix};

use super::tiles::{Tile, Tiles};
use super::{scaled, unroll};

/// Bytes along k of a stage.
const LINE: u32 = 64;

/// Bytes of a piece, which a thread copies at a time.
const PIECE: u32 = 16;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 16;

/// Elements along k of a stage, where they have so many bytes.
pub const fn tile_k(element: usize) -> usize {
    LINE as usize / element
}

/// Rows of a block's tile of so many columns.
pub const fn rows(columns: usize) -> usize {
    if columns < 128 { columns } else { 128 }
}

/// Rows and columns of a warp's tile.
const fn warp_tile(columns: usize) -> usize {
    if columns < 128 { 32 } else { 64 }
}

/// Threads of a block, by the columns of its tile.
pub const fn threads(columns: usize) -> usize {
    32 * rows(columns) * columns / (warp_tile(columns) * warp_tile(columns))
}

/// Blocks of a multiprocessor.
const fn blocks(columns: usize) -> usize {
    match columns {
        64 => 4,
        128 => 2,
        _ => 1,
    }
}

/// Stages of the ring. Two blocks of 128 × 128 fit into the 100 KiB that a multiprocessor of a GeForce has.
const fn stages(columns: usize) -> u32 {
    if columns == 128 { 3 } else { 4 }
}

/// Bytes of a stage.
const fn stage_bytes(columns: usize) -> u32 {
    LINE * (rows(columns) + columns) as u32
}

/// The dynamic shared memory of a launch in bytes.
pub const fn shared_bytes(columns: usize) -> usize {
    (stages(columns) * stage_bytes(columns)) as usize
}

/// Numbers that are multiplied: `f16`, `bf16`, and [`Tf32`], which in memory is `f32`.
pub trait Input: Operand + Mma<C = [f32; 4]> {
    /// A fragment of `A`, of the words that were read.
    fn a(words: [u32; 4]) -> Self::A;

    /// A fragment of `B`.
    fn b(words: [u32; 2]) -> Self::B;
}

macro_rules! sixteen_bits {
    ($($type:ident)*) => {$(
        impl Input for $type {
            #[inline(always)]
            fn a(words: [u32; 4]) -> [u32; 4] {
                words
            }

            #[inline(always)]
            fn b(words: [u32; 2]) -> [u32; 2] {
                words
            }
        }
    )*};
}

sixteen_bits! { f16 bf16 }

impl Input for Tf32 {
    #[inline(always)]
    fn a(words: [u32; 4]) -> [f32; 4] {
        words.map(|word| mma::nearest_tf32(f32::from_bits(word)))
    }

    #[inline(always)]
    fn b(words: [u32; 2]) -> [f32; 2] {
        words.map(|word| mma::nearest_tf32(f32::from_bits(word)))
    }
}

/// Numbers that the result is stored as.
pub trait Output: Pod {
    /// The nearest one.
    fn nearest(value: f32) -> Self;

    /// The value, exactly.
    fn value(self) -> f32;
}

impl Output for f32 {
    #[inline(always)]
    fn nearest(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

macro_rules! outputs {
    ($($type:ident $value:ident)*) => {$(
        impl Output for $type {
            #[inline(always)]
            fn nearest(value: f32) -> Self {
                Self::from_bits(pack::<Self>(value, 0.0) as u16)
            }

            #[inline(always)]
            fn value(self) -> f32 {
                $value(self)
            }
        }
    )*};
}

outputs! { f16 f16_to_f32 bf16 bf16_to_f32 }

/// The shape of a batch of products, and how their operands lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct MmaShape {
    /// Products.
    pub batch: u32,
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`.
    pub k: u32,
    /// Elements from product to product of `A` (0 for one matrix for all), and from row to row, or, of what lies along its
    /// rows, from column to column.
    pub a: [usize; 2],
    /// The same of `B`, from column to column, or from row to row.
    pub b: [usize; 2],
    /// Whether the elements of a column of `A` are neighbours (0: those of a row).
    pub a_along_m: u32,
    /// Whether the elements of a row of `B` are neighbours (0: those of a column).
    pub b_along_n: u32,
}

/// `C ← alpha · A B + beta · C` for each product of the batch, in `c` one after another, in C order; where `beta` is 0, `C`
/// is not read.
///
/// # Safety
///
/// A block has [`threads`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis, and a block
/// for each tile of [`rows`] × `COLUMNS` of each product. `a` and `b` have the elements that the shape names, `c` those of
/// the products; `k` is not 0. The first elements of `a` and `b` are at multiples of 16 bytes, and so are their strides.
#[kernel(
    T = [bf16], C = [bf16, f32], COLUMNS = [64, 128, 256];
    T = [f16], C = [f16, f32], COLUMNS = [64, 128, 256];
    T = [Tf32], C = [f32], COLUMNS = [64, 128, 256],
    arch = "sm_80",
    max_threads = threads(COLUMNS),
    min_blocks = blocks(COLUMNS),
)]
pub unsafe fn gemm_mma<T: Input, C: Output, const COLUMNS: usize>(
    a: &[<T as Operand>::Element],
    b: &[<T as Operand>::Element],
    c: SliceMut<'_, C>,
    shape: MmaShape,
    alpha: f32,
    beta: f32,
) {
    let tiles = Tiles::new(
        shape.batch,
        [shape.m, shape.n],
        [rows(COLUMNS) as u32, COLUMNS as u32],
        GROUP,
    );
    let block = Block::<T, COLUMNS> {
        a: a.as_ptr(),
        b: b.as_ptr(),
        shape,
        tile: tiles.tile(thread::block_idx_x()),
        memory: cuda_std::shared::dynamic(),
    };
    // SAFETY (of the four): the kernel's contract.
    let sums = unsafe {
        match (shape.a_along_m != 0, shape.b_along_n != 0) {
            (false, false) => block.sums::<true, true>(),
            (false, true) => block.sums::<true, false>(),
            (true, false) => block.sums::<false, true>(),
            (true, true) => block.sums::<false, false>(),
        }
    };
    // SAFETY: the kernel's contract; the stages are done with.
    unsafe { block.store(&sums, Scaled { c, alpha, beta }) };
}

/// The sums of a lane: of each group of 16 rows and each of 8 columns of its warp.
type Sums = [[[f32; 4]; 8]; 4];

/// What a lane has of the operands for 32 bytes of k, of each group of 16 lines: words of the first eight lines and of the
/// others, in the first half of the bytes and in the second. Of `A` the lines change first, of `B` the bytes, so that an
/// instruction finds its words in registers that follow one another.
#[derive(Clone, Copy)]
struct Fragments {
    a: [[u32; 4]; 4],
    b: [[u32; 4]; 4],
}

/// What the threads of a block have in common.
struct Block<T: Operand, const COLUMNS: usize> {
    a: *const T::Element,
    b: *const T::Element,
    shape: MmaShape,
    tile: Tile,
    /// The stages: of each the tile of `A`, then that of `B`.
    memory: Shared<u8>,
}

impl<T: Input, const COLUMNS: usize> Block<T, COLUMNS> {
    const ROWS: u32 = rows(COLUMNS) as u32;

    /// Elements along k of a stage.
    const TILE_K: u32 = tile_k(size_of::<T::Element>()) as u32;

    /// Where the tile of `B` begins in a stage.
    const B: u32 = LINE * Self::ROWS;

    const STAGE: u32 = stage_bytes(COLUMNS);

    /// Behind the last stage.
    const END: u32 = stages(COLUMNS) * Self::STAGE;

    /// Elements from row to row of a warp's sums in shared memory: two rows are not in the same banks.
    const PITCH: u32 = warp_tile(COLUMNS) as u32 + 8;

    /// Groups of 16 lines of a warp's tile.
    const GROUPS: usize = warp_tile(COLUMNS) / 16;

    /// The first row and column of this warp in the block's tile.
    #[inline(always)]
    fn warp_place() -> [u32; 2] {
        let warp = warp::uniform(thread::thread_idx_x() / 32);
        let (side, across) = (warp_tile(COLUMNS) as u32, (COLUMNS / warp_tile(COLUMNS)) as u32);
        [warp / across * side, warp % across * side]
    }

    /// This lane's part of the block's tile.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and that the operands lie so.
    // Elsewhere, in code that is not optimised, the stack has no room for the states of all loops.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sums<const A_ALONG_K: bool, const B_ALONG_K: bool>(&self) -> Sums {
        let Self {
            shape, tile, memory, ..
        } = *self;
        let product = tile.product as usize;
        let [of_a, of_b] = [
            Extent {
                lines: shape.m - tile.row,
                tile: Self::ROWS,
                threads: threads(COLUMNS) as u32,
            },
            Extent {
                lines: shape.n - tile.column,
                tile: COLUMNS as u32,
                threads: threads(COLUMNS) as u32,
            },
        ];
        let mut copies_a =
            Copies::<T::Element, A_ALONG_K>::new(self.a.wrapping_add(product * shape.a[0]), shape.a[1], tile.row, of_a);
        let mut copies_b = Copies::<T::Element, B_ALONG_K>::new(
            self.b.wrapping_add(product * shape.b[0]),
            shape.b[1],
            tile.column,
            of_b,
        );
        let mut k_left = shape.k;
        let mut fill = |stage: u32| {
            // SAFETY: the kernel's contract; the stage is in the memory, and nobody reads it until it has been waited for.
            unsafe {
                copies_a.fill(memory, stage, k_left);
                copies_b.fill(memory, stage + Self::B, k_left);
            }
            async_copy::commit();
            k_left = k_left.saturating_sub(Self::TILE_K);
        };
        let [row, column] = Self::warp_place();
        let reads_a = Reads::<T::Element, A_ALONG_K, true>::new(row, Self::ROWS);
        let reads_b = Reads::<T::Element, B_ALONG_K, false>::new(column, COLUMNS as u32);
        let read = |stage: u32, half: usize| {
            let mut fragments = Fragments {
                a: [[0; 4]; 4],
                b: [[0; 4]; 4],
            };
            unroll!(4, i => {
                if i < Self::GROUPS {
                    // SAFETY: the stage is full, and has the warp's lines.
                    unsafe {
                        fragments.b[i] = reads_b.group(memory, stage + Self::B, half, i);
                        fragments.a[i] = reads_a.group(memory, stage, half, i);
                    }
                }
            });
            fragments
        };

        unroll!(4, stage => {
            if stage + 1 < stages(COLUMNS) as usize {
                fill(stage as u32 * Self::STAGE);
            }
        });
        Self::wait();
        let mut sums = [[[0.0; 4]; 8]; 4];
        let (mut from, mut to) = (0, Self::END - Self::STAGE);
        let mut fragments = read(from, 0);
        let mut k = 0;
        while k < shape.k {
            let second = read(from, 1);
            // Everyone has read this stage: that was before the barrier.
            fill(to);
            Self::multiply(&fragments, &mut sums);
            to = from;
            from = if from + Self::STAGE == Self::END {
                0
            } else {
                from + Self::STAGE
            };
            Self::wait();
            // Behind the last stage these are zeros, which nobody multiplies.
            fragments = read(from, 0);
            Self::multiply(&second, &mut sums);
            k += Self::TILE_K;
        }
        async_copy::wait::<0>();
        thread::sync_threads();
        sums
    }

    /// Waits until all have copied their part of the next stage, and read their part of the one before.
    #[inline(always)]
    fn wait() {
        // All but the newest of the stages that are on their way.
        if stages(COLUMNS) == 3 {
            async_copy::wait::<1>();
        } else {
            async_copy::wait::<2>();
        }
        thread::sync_threads();
    }

    /// Adds the products for 32 bytes of k.
    #[inline(always)]
    fn multiply(fragments: &Fragments, sums: &mut Sums) {
        let a = fragments.a.map(T::a);
        unroll!(4, j => {
            if j < Self::GROUPS {
                let [low0, high0, low1, high1] = fragments.b[j];
                let b = [T::b([low0, high0]), T::b([low1, high1])];
                unroll!(8, number => {
                    // There and back, so that an instruction has an operand of the one before.
                    let i = if j % 2 == 0 { number / 2 } else { Self::GROUPS.saturating_sub(1 + number / 2) };
                    if number / 2 < Self::GROUPS {
                        let tile = &mut sums[i][2 * j + number % 2];
                        *tile = mma::<T>(a[i], b[number % 2], *tile);
                    }
                });
            }
        });
    }

    /// Puts the warp's sums into `C`, by way of shared memory, out of which a lane takes four neighbours: two groups of rows
    /// at a time.
    ///
    /// # Safety
    ///
    /// The kernel's contract. All copies to the stages are done, and nobody reads them.
    #[inline(always)]
    unsafe fn store<C: Output>(&self, sums: &Sums, result: Scaled<'_, C>) {
        let MmaShape { m, n, .. } = self.shape;
        let warp = thread::thread_idx_x() / 32;
        let at = (warp * 32 * Self::PITCH * 4) as usize;
        // SAFETY: the rows of all warps take less than the stages.
        let memory = unsafe { self.memory.subarray_unchecked(at, (32 * Self::PITCH * 4) as usize) }.cast::<f32>();
        let [row, column] = Self::warp_place();
        let (row, column) = (self.tile.row + row, self.tile.column + column);
        let wide = n % 4 == 0 && result.c.is_vec_aligned::<4>();
        unroll!(2, round => {
            if 2 * round < Self::GROUPS {
                warp::sync_warp(warp::FULL_MASK);
                self.put(memory, sums, 2 * round);
                warp::sync_warp(warp::FULL_MASK);
                let part = Part {
                    memory,
                    row: row + 32 * round as u32,
                    column,
                    line: self.tile.product as usize * m as usize,
                    m,
                    n,
                };
                // SAFETY: the kernel's contract.
                unsafe {
                    match wide {
                        true => self.store_wide(part, result),
                        false => self.store_any(part, result),
                    }
                }
            }
        });
    }

    /// Puts the sums of groups `first` and `first + 1` of rows into the warp's memory, by rows.
    #[inline(always)]
    fn put(&self, memory: Shared<f32>, sums: &Sums, first: usize) {
        let lane = thread::thread_idx_x() % 32;
        let at = lane / 4 * Self::PITCH + lane % 4 * 2;
        unroll!(4, number => {
            let (i, h) = (number / 2, number % 2);
            let at = at + (16 * i as u32 + 8 * h as u32) * Self::PITCH;
            unroll!(8, j => {
                if j < 2 * Self::GROUPS {
                    let of = sums[first + i][j];
                    let two = [of[2 * h], of[2 * h + 1]];
                    // SAFETY: of 32 rows, at an even place.
                    unsafe { memory.set_vec_unchecked(at as usize + 8 * j, two) };
                }
            });
        });
    }

    /// Stores 32 rows of a warp's part of `C`, four elements at a time.
    ///
    /// # Safety
    ///
    /// `c` has the lines, which are a multiple of four elements long, and is aligned as vectors of four are.
    #[inline(always)]
    unsafe fn store_wide<C: Output>(&self, part: Part, result: Scaled<'_, C>) {
        let lane = thread::thread_idx_x() % 32;
        // Lanes of a row, rows of the warp.
        let lanes = warp_tile(COLUMNS) as u32 / 4;
        let rows = 32 / lanes;
        let column = lane % lanes * 4;
        // The old elements of eight vectors are read ahead of all stores, which they wait for.
        let mut row = lane / lanes;
        while row < 32 && part.column + column < part.n {
            let mut old = [[0.0; 4]; 8];
            let at = |i: usize| {
                let row = row + i as u32 * rows;
                (part.row + row < part.m).then(|| {
                    let of_c = (part.line + (part.row + row) as usize) * part.n as usize;
                    (
                        (row * Self::PITCH + column) as usize,
                        of_c + (part.column + column) as usize,
                    )
                })
            };
            unroll!(8, i => {
                if result.beta != 0.0 && let Some((_, at)) = at(i) {
                    // SAFETY: the row and the column are in C.
                    old[i] = unsafe { result.old(at) };
                }
            });
            unroll!(8, i => {
                if let Some((from, at)) = at(i) {
                    // SAFETY: as above, and of the 32 rows in memory.
                    unsafe { result.set(at, part.memory.get_vec_unchecked::<4>(from), old[i]) };
                }
            });
            row += 8 * rows;
        }
    }

    /// [`store_wide`](Self::store_wide) where lines begin anywhere: one element at a time.
    ///
    /// # Safety
    ///
    /// `c` has the lines.
    #[inline(always)]
    unsafe fn store_any<C: Output>(&self, part: Part, result: Scaled<'_, C>) {
        let lane = thread::thread_idx_x() % 32;
        let side = warp_tile(COLUMNS) as u32;
        let mut number = lane;
        while number < 32 * side {
            let (row, column) = (number / side, number % side);
            if part.row + row < part.m && part.column + column < part.n {
                let at = (part.line + (part.row + row) as usize) * part.n as usize + (part.column + column) as usize;
                // SAFETY (of the three): the row and the column are in C, and of the 32 rows in memory.
                unsafe {
                    let sum = part
                        .memory
                        .get_vec_unchecked::<1>((row * Self::PITCH + column) as usize);
                    let old = if result.beta != 0.0 { result.old(at) } else { [0.0] };
                    result.set(at, sum, old);
                }
            }
            number += 32;
        }
    }
}

/// Rows of a warp's sums in shared memory, and where they belong in `C`.
#[derive(Clone, Copy)]
struct Part {
    memory: Shared<f32>,
    row: u32,
    column: u32,
    /// Rows of the products before.
    line: usize,
    m: u32,
    n: u32,
}

/// What becomes of the sums.
#[derive(Clone, Copy)]
struct Scaled<'a, C> {
    c: SliceMut<'a, C>,
    alpha: f32,
    beta: f32,
}

impl<C: Output> Scaled<'_, C> {
    /// `N` elements of `c`.
    ///
    /// # Safety
    ///
    /// There are `N` elements at `at`, aligned as vectors of `N` are.
    #[inline(always)]
    unsafe fn old<const N: usize>(&self, at: usize) -> [f32; N] {
        // SAFETY: the same memory, which is written only through `c`; the rest is the caller's promise.
        let old: [C; N] = unsafe { Slice::from_raw_parts(self.c.as_ptr(), self.c.len()).get_vec_unchecked::<N>(at) };
        old.map(C::value)
    }

    /// `c ← alpha · sums + beta · old`, rounded to `C` once.
    ///
    /// # Safety
    ///
    /// As for [`old`](Self::old).
    #[inline(always)]
    unsafe fn set<const N: usize>(&self, at: usize, sums: [f32; N], old: [f32; N]) {
        let values = cuda_std::array::from_fn(|i| {
            let beta_and_old = (self.beta != 0.0).then_some((self.beta, old[i]));
            C::nearest(scaled(self.alpha, sums[i], beta_and_old))
        });
        // SAFETY: the caller's promise.
        unsafe { self.c.set_vec_unchecked::<N>(at, values) };
    }
}

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
struct Extent {
    /// Lines from the tile's first on.
    lines: u32,
    /// Lines of the tile.
    tile: u32,
    /// Threads that copy it.
    threads: u32,
}

/// What a thread copies of an operand's tile: some pieces of 16 bytes, all in the same column of pieces.
struct Copies<E, const ALONG_K: bool> {
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
    fn new(matrix: *const E, stride: usize, line: u32, of: Extent) -> Self {
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
    unsafe fn fill(&mut self, memory: Shared<u8>, at: u32, k_left: u32) {
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
struct Reads<E, const ALONG_K: bool, const A: bool> {
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
    fn new(first: u32, lines: u32) -> Self {
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
    unsafe fn group(&self, memory: Shared<u8>, tile: u32, half: usize, i: usize) -> [u32; 4] {
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
