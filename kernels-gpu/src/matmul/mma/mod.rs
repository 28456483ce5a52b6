// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix on the tensor cores of Ampere and later: `C ← α A B + β C`, of numbers of 16 bits or of f32 rounded
//! to TF32, accumulated in f32, and with what an [`epilogue`](super::epilogue) adds to that.
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

mod stage;
mod store;

use cuda_std::async_copy;
use cuda_std::half::{bf16, f16};
use cuda_std::mma::{self, Mma, mma};
use cuda_std::prelude::*;
use cuda_std::wgmma::{Operand, Tf32};

use self::stage::{Copies, Extent, Reads};
pub use self::store::Output;
use self::store::Result;
use super::epilogue::{Epilogue, EpilogueOp, EpiloguePlan};
use super::tiles::{Tile, Tiles};
use super::unroll;

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
pub const fn blocks(columns: usize) -> usize {
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

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, in `c` one after another, in C order;
/// where `beta` is 0, `C` is not read.
///
/// # Safety
///
/// A block has [`threads`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis, and a block
/// for each tile of [`rows`] × `COLUMNS` of each product. `a` and `b` have the elements that the shape names, `c` those of
/// the products; `k` is not 0. The first elements of `a` and `b` are at multiples of 16 bytes, and so are their strides. The
/// addends are as [`Epilogue::new`] says.
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
    plan: EpiloguePlan,
    bias: &[C],
    residual: &[C],
) {
    // SAFETY: the kernel's contract.
    unsafe { gemm_mma_with::<T, C, _, COLUMNS>(a, b, c, shape, alpha, beta, plan, bias, residual) };
}

/// [`gemm_mma()`], with any function.
///
/// # Safety
///
/// The kernel's.
#[allow(clippy::too_many_arguments, reason = "a kernel's")]
#[inline(always)]
pub unsafe fn gemm_mma_with<T: Input, C: Output, F: EpilogueOp<f32>, const COLUMNS: usize>(
    a: &[T::Element],
    b: &[T::Element],
    c: SliceMut<'_, C>,
    shape: MmaShape,
    alpha: f32,
    beta: f32,
    plan: EpiloguePlan<F>,
    bias: &[C],
    residual: &[C],
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
    let result = Result {
        c,
        alpha,
        beta,
        // SAFETY: the kernel's contract.
        epilogue: unsafe { Epilogue::new(plan, bias, residual) },
    };
    // SAFETY: the kernel's contract; the stages are done with.
    unsafe { block.store(&sums, result) };
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
        // The second half of the stage before, at first zeros, is multiplied behind the barrier, while the first one of this
        // stage is read. The loop ends with the barrier: where it stood within, the assembler moved those products ahead of
        // it, and what was read behind it was waited for.
        let mut second = Fragments {
            a: [[0; 4]; 4],
            b: [[0; 4]; 4],
        };
        let mut k = 0;
        while k < shape.k {
            let first = read(from, 0);
            Self::multiply(&second, &mut sums);
            second = read(from, 1);
            // Everyone has read this stage: that was before the barrier.
            fill(to);
            Self::multiply(&first, &mut sums);
            to = from;
            from = if from + Self::STAGE == Self::END {
                0
            } else {
                from + Self::STAGE
            };
            k += Self::TILE_K;
            Self::wait();
        }
        Self::multiply(&second, &mut sums);
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
                    let i = if j.is_multiple_of(2) { number / 2 } else { Self::GROUPS.saturating_sub(1 + number / 2) };
                    if number / 2 < Self::GROUPS {
                        let tile = &mut sums[i][2 * j + number % 2];
                        *tile = mma::<T>(a[i], b[number % 2], *tile);
                    }
                });
            }
        });
    }
}
