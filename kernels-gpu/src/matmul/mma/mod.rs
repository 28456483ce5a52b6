// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix on the tensor cores of Ampere and later: `C ← α A B + β C`, of numbers of 16 bits or of f32 rounded
//! to TF32, accumulated in f32, and with what an [`epilogue`](super::epilogue) adds to that.
//!
//! A block computes one tile of `C`, of 64 × 64, 128 × 128 or 128 × 256 elements, by warps of 32 × 32 or 64 × 64. Each
//! thread has its pieces of the tiles of `A` and `B`, 64 bytes of k at a time, copied into a ring of stages in shared
//! memory (`cp.async`), two or three stages ahead; the warps read fragments from there (`ldmatrix`), for one instruction
//! ahead along k, and multiply them (`mma.sync.m16n8k16`, or `m16n8k8` of TF32): the structure of CUTLASS's kernels for
//! Ampere (NVIDIA, 2020). One barrier a stage, or, in tiles of 64 columns of numbers that are not rounded, one for two stages, says
//! both that the next one is full and that the last one is free.
//!
//! In tiles of 256 columns of 16-bit numbers there are two barriers a stage, and the warps take turns: those of one half read
//! fragments while the others have pieces copied, and the next half stage the other way round. All multiply all the time.
//! Each quarter of a multiprocessor has a warp of either half, and shared memory as much to do at any time.
//!
//! An operand may lie along k or along its lines (rows of `A`, columns of `B`), and lies in shared memory as it does in
//! memory, in rows of 16-byte pieces that are swapped by an exclusive or with the row's number, so that neither copies nor
//! reads meet in a bank. Fragments want neighbours along k in a word. `ldmatrix` takes numbers of 16 bits out of rows along
//! the lines as well, by transposing; TF32 has one number a word, which ordinary loads read there.
//!
//! TF32 is rounded to nearest when it has been read, among the products of what was read half a stage earlier: the instruction
//! truncates. What is out of bounds is copied as zeros and not written, so any shape is right.
//!
//! Work `2 m n k`. Elements moved from the cache `m n k (1 / ROWS + 1 / COLUMNS)`. The sums of a tile's element are in the
//! order of k, in f32 with the tensor core's rounding: the error is at most `k u Σ|a||b|` with `u = 2⁻²³`, as for
//! [`wgmma`](super::wgmma).

pub mod double;
pub mod fp8;
pub mod grouped;
mod input;
pub mod int8;
mod stage;
mod store;
pub mod turing;

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;
use cuda_std::wgmma::{Operand, Tf32};
use cuda_std::{async_copy, hint};

pub use self::input::{Ampere, Generation, Input, Multiply, Narrow, Turing};
use self::stage::{Copies, Extent, OperandCopies, Reads};
use self::store::Result;
pub use self::store::{Output, Rounded};
use super::epilogue::{Epilogue, EpilogueOp, EpiloguePlan};
use super::tiles::{Tile, Tiles};
use super::unroll;
use crate::num::Num;

/// Bytes along k of a stage.
const LINE: u32 = 64;

/// Bytes of a piece, which a thread copies at a time.
const PIECE: u32 = 16;

/// Threads of a block whose warps take turns.
const TURNING: u32 = 256;

/// Rows of tiles that blocks of neighbouring numbers share.
const GROUP: u32 = 16;

/// The same of tiles of so many columns, of elements of so many bytes: of f64, rows of tiles are as many bytes as twice as many others,
/// and of small tiles as many blocks as run at the same time on one part of a GPU are best as high as wide.
const fn group(columns: usize, element: usize) -> u32 {
    match (columns, element) {
        (64, 1 | 2) | (_, 8) => GROUP / 2,
        _ => GROUP,
    }
}

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

/// Rows and columns of a warp's tile, of a kernel for that generation.
const fn warp_tile_of<G: Generation>(columns: usize) -> [usize; 2] {
    let side = warp_tile(columns);
    [side, if side < G::WARP_COLUMNS { side } else { G::WARP_COLUMNS }]
}

/// Threads of a block of a kernel for that generation, by the columns of its tile.
pub const fn threads_of<G: Generation>(columns: usize) -> usize {
    let [warp_rows, warp_columns] = warp_tile_of::<G>(columns);
    32 * rows(columns) * columns / (warp_rows * warp_columns)
}

/// [`threads_of`] Ampere.
pub const fn threads(columns: usize) -> usize {
    threads_of::<Ampere>(columns)
}

/// Blocks of a multiprocessor.
pub const fn blocks(columns: usize) -> usize {
    match columns {
        64 => 4,
        128 => 2,
        _ => 1,
    }
}

/// Stages of the ring. Two blocks of 128 × 128 fit into the 100 KiB that a multiprocessor of a GeForce has. What is on its way
/// in registers wants no stage.
const fn stages<G: Generation>(columns: usize, element: usize) -> u32 {
    match (G::ASYNC, columns) {
        (false, _) => 2,
        (true, 64) if stages_at_once::<G>(columns, element) > 1 => 6,
        (true, 128) => 3,
        (true, _) => 4,
    }
}

/// Stages between two barriers, where elements have so many bytes. Small tiles have few products for each, beside which all warps
/// wait for one another; those that are rounded ahead of their products have more to do.
const fn stages_at_once<G: Generation>(columns: usize, element: usize) -> u32 {
    if G::ASYNC && columns == 64 && element < 4 { 2 } else { 1 }
}

/// Bytes of a stage.
const fn stage_bytes(columns: usize) -> u32 {
    LINE * (rows(columns) + columns) as u32
}

/// Elements from row to row of a warp's sums in shared memory: two rows are not in the same banks.
const fn pitch<G: Generation>(columns: usize) -> u32 {
    warp_tile_of::<G>(columns)[1] as u32 + 8
}

/// Bytes of 32 rows of a warp's sums, of type `S`.
const fn sums_bytes<S, G: Generation>(columns: usize) -> u32 {
    32 * pitch::<G>(columns) * size_of::<S>() as u32
}

/// The dynamic shared memory of a launch in bytes, of a kernel for that generation and elements of so many bytes: stages, and then
/// the warps' sums, of type `S`.
pub const fn shared_bytes_of<S, G: Generation>(columns: usize, element: usize) -> usize {
    let of_stages = stages::<G>(columns, element) * stage_bytes(columns);
    let of_sums = (threads_of::<G>(columns) / 32) as u32 * sums_bytes::<S, G>(columns);
    (if of_sums < of_stages { of_stages } else { of_sums }) as usize
}

/// [`shared_bytes_of`] Ampere.
pub const fn shared_bytes(columns: usize, element: usize) -> usize {
    shared_bytes_of::<f32, Ampere>(columns, element)
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
    unsafe { gemm_mma_with::<T, C, _, COLUMNS, Ampere>(a, b, c, shape, alpha, beta, plan, bias, residual) };
}

/// [`gemm_mma()`], with any function, of any numbers, by the instructions of any generation.
///
/// # Safety
///
/// The kernel's.
#[allow(clippy::too_many_arguments, reason = "a kernel's")]
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub unsafe fn gemm_mma_with<
    T: Multiply<G>,
    C: Rounded<Wide = T::Sum>,
    F: EpilogueOp<T::Sum>,
    const COLUMNS: usize,
    G: Generation,
>(
    a: &[T::Element],
    b: &[T::Element],
    c: SliceMut<'_, C>,
    shape: MmaShape,
    alpha: T::Sum,
    beta: T::Sum,
    plan: EpiloguePlan<F>,
    bias: &[C],
    residual: &[C],
) {
    let block = Block::<T, COLUMNS, G>::new(a, b, shape);
    // SAFETY: the kernel's contract.
    let sums = unsafe { block.sums_as_they_lie() };
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
type Sums<S> = [[[S; 4]; 8]; 4];

/// What a lane has of the operands for 32 bytes of k, of each group of 16 lines: words of the first eight lines and of the
/// others, in the first half of the bytes and in the second. Of `A` the lines change first, of `B` the bytes, so that an
/// instruction finds its words in registers that follow one another.
#[derive(Clone, Copy)]
struct Fragments {
    a: [[u32; 4]; 4],
    b: [[u32; 4]; 4],
}

/// What the threads of a block have in common.
struct Block<T: Multiply<G>, const COLUMNS: usize, G = Ampere> {
    a: *const T::Element,
    b: *const T::Element,
    shape: MmaShape,
    tile: Tile,
    /// The stages: of each the tile of `A`, then that of `B`.
    memory: Shared<u8>,
}

impl<T: Multiply<G>, const COLUMNS: usize, G: Generation> Block<T, COLUMNS, G> {
    const ROWS: u32 = rows(COLUMNS) as u32;

    const THREADS: u32 = threads_of::<G>(COLUMNS) as u32;

    /// Elements along k of a stage.
    const TILE_K: u32 = tile_k(size_of::<T::Element>()) as u32;

    /// Where the tile of `B` begins in a stage.
    const B: u32 = LINE * Self::ROWS;

    const STAGE: u32 = stage_bytes(COLUMNS);

    /// Behind the last stage.
    const END: u32 = Self::STAGES * Self::STAGE;

    /// Stages of the ring.
    const STAGES: u32 = stages::<G>(COLUMNS, size_of::<T::Element>());

    /// Stages between two barriers.
    const AT_ONCE: u32 = stages_at_once::<G>(COLUMNS, size_of::<T::Element>());

    /// Whether warps have large tiles of numbers that they round as they read them: the instructions for that are as many as
    /// a loop has time for, and those of copies count. Elsewhere they find time between products.
    const ROUNDS: bool = size_of::<T::Element>() == 4 && COLUMNS >= 128;

    /// Whether one half of the warps is half a stage behind the other. A loop that rounds what it reads was no faster so.
    const TURNS: bool = G::ASYNC && COLUMNS == 256 && !Self::ROUNDS;

    /// Rows and columns of a warp's tile.
    const WARP: [usize; 2] = warp_tile_of::<G>(COLUMNS);

    /// Groups of 16 rows and of 16 columns of a warp's tile.
    const GROUPS: [usize; 2] = [Self::WARP[0] / 16, Self::WARP[1] / 16];

    /// That of this block's number.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new(a: &[T::Element], b: &[T::Element], shape: MmaShape) -> Self {
        let group = group(COLUMNS, size_of::<T::Element>());
        let tiles = Tiles::new(shape.batch, [shape.m, shape.n], [Self::ROWS, COLUMNS as u32], group);
        Self {
            a: a.as_ptr(),
            b: b.as_ptr(),
            shape,
            tile: tiles.tile(thread::block_idx_x()),
            memory: cuda_std::shared::dynamic(),
        }
    }

    /// The first row and column of this warp in the block's tile.
    #[inline(always)]
    fn warp_place() -> [u32; 2] {
        let warp = warp::uniform(thread::thread_idx_x() / 32);
        let [rows, columns] = cuda_std::array::map(Self::WARP, |side| side as u32);
        let across = COLUMNS as u32 / columns;
        [warp / across * rows, warp % across * columns]
    }

    /// This lane's part of the block's tile.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sums_as_they_lie(&self) -> Sums<T::Sum> {
        let along_k = (self.shape.a_along_m == 0, self.shape.b_along_n == 0);
        // SAFETY (of the five): the kernel's contract. Bytes lie along k.
        unsafe {
            match along_k {
                _ if const { size_of::<T::Element>() == 1 } => self.sums::<true, true>(),
                (true, true) => self.sums::<true, true>(),
                (true, false) => self.sums::<true, false>(),
                (false, true) => self.sums::<false, true>(),
                (false, false) => self.sums::<false, false>(),
            }
        }
    }

    /// This lane's part of the block's tile.
    ///
    /// # Safety
    ///
    /// The kernel's contract, and that the operands lie so.
    // Elsewhere, in code that is not optimised, the stack has no room for the states of all loops.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sums<const A_ALONG_K: bool, const B_ALONG_K: bool>(&self) -> Sums<T::Sum> {
        // SAFETY: the caller's promise.
        unsafe { self.sums_by::<A_ALONG_K, B_ALONG_K>(|_, _| {}) }
    }

    /// This lane's part of the block's tile, which `each` is given after every stage but the last, with the elements of k that
    /// are in it.
    ///
    /// # Safety
    ///
    /// As for [`sums`](Self::sums).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sums_by<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        &self,
        mut each: impl FnMut(u32, &mut Sums<T::Sum>),
    ) -> Sums<T::Sum> {
        let Self {
            shape, tile, memory, ..
        } = *self;
        let product = tile.product as usize;
        let [of_a, of_b] = [
            Extent {
                lines: shape.m - tile.row,
                tile: Self::ROWS,
                threads: Self::THREADS,
            },
            Extent {
                lines: shape.n - tile.column,
                tile: COLUMNS as u32,
                threads: Self::THREADS,
            },
        ];
        let mut copies = Copies::<T::Element, A_ALONG_K, B_ALONG_K, G> {
            a: OperandCopies::new(self.a.wrapping_add(product * shape.a[0]), shape.a[1], tile.row, of_a),
            b: OperandCopies::new(self.b.wrapping_add(product * shape.b[0]), shape.b[1], tile.column, of_b),
            b_at: Self::B,
            k_left: shape.k,
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
                // SAFETY (of both): the stage is full, and has the warp's lines.
                if i < Self::GROUPS[1] {
                    fragments.b[i] = unsafe { reads_b.group(memory, stage + Self::B, half, i) };
                }
                if i < Self::GROUPS[0] {
                    fragments.a[i] = unsafe { reads_a.group(memory, stage, half, i) };
                }
            });
            fragments
        };

        if G::ASYNC {
            unroll!(4, stage => {
                if stage as u32 + Self::AT_ONCE < Self::STAGES {
                    unsafe { copies.fill(memory, stage as u32 * Self::STAGE) };
                }
            });
        } else {
            // The first time there is nothing in the registers yet. A loop, so that its code is there once.
            let mut times = hint::opaque(2);
            while times > 0 {
                unsafe { copies.fill(memory, 0) };
                times -= 1;
            }
        }
        Self::wait();
        let mut sums = [[[T::Sum::ZERO; 4]; 8]; 4];
        let (mut from, mut to) = (0, Self::END - Self::AT_ONCE * Self::STAGE);
        // The second half of the stage before, at first zeros, is multiplied behind the barrier, while the first one of this
        // stage is read. The loop ends with the barrier: where it stood within, the assembler moved those products ahead of
        // it, and what was read behind it was waited for.
        let mut second = Fragments {
            a: [[0; 4]; 4],
            b: [[0; 4]; 4],
        };
        // Warp `i` is in quarter `i % 4` of a multiprocessor.
        let late = Self::TURNS && warp::uniform(thread::thread_idx_x() / 128) > 0;
        if late {
            Self::turn();
        }
        let mut k = 0;
        while k < shape.k {
            unroll!(2, stage => {
                if (stage as u32) < Self::AT_ONCE {
                    let further = stage as u32 * Self::STAGE;
                    let first = read(from + further, 0);
                    Self::multiply(&second, &mut sums);
                    each(k, &mut sums);
                    second = read(from + further, 1);
                    // Either half is rounded among the other one's products: ahead of its own, they would wait for that.
                    let first = Self::rounded(first);
                    if Self::TURNS {
                        // The stage before the newest: the other half reads the next one behind this barrier.
                        async_copy::wait::<1>();
                        Self::turn();
                    }
                    // SAFETY (of both): the kernel's contract; everyone has read this stage: that was before the barrier.
                    if Self::ROUNDS {
                        unsafe { copies.fill_by_branch(memory, to + further) };
                    } else {
                        unsafe { copies.fill(memory, to + further) };
                    }
                    Self::multiply(&first, &mut sums);
                    second = Self::rounded(second);
                    k += Self::TILE_K;
                }
            });
            to = from;
            from = if from + Self::AT_ONCE * Self::STAGE == Self::END {
                0
            } else {
                from + Self::AT_ONCE * Self::STAGE
            };
            if Self::TURNS {
                Self::turn();
            } else {
                Self::wait();
            }
        }
        if Self::TURNS && !late {
            Self::turn();
        }
        Self::multiply(&second, &mut sums);
        if G::ASYNC {
            async_copy::wait::<0>();
        }
        thread::sync_threads();
        sums
    }

    /// Waits until all have copied their part of the next stage, and read their part of the one before.
    #[inline(always)]
    fn wait() {
        // All but the newest of the stages that are on their way.
        match (G::ASYNC, Self::STAGES - 2 * Self::AT_ONCE) {
            (false, _) => {}
            (true, 1) => async_copy::wait::<1>(),
            (true, _) => async_copy::wait::<2>(),
        }
        thread::sync_threads();
    }

    /// Ends half a stage: waits until all warps have, those of either half at another place.
    #[inline(always)]
    fn turn() {
        const { assert!(!Self::TURNS || Self::THREADS == TURNING) };
        thread::sync_threads_named::<1, TURNING>();
    }

    /// What was read, rounded. By twos there are fewer instructions, each of which takes longer: what is best was measured.
    #[inline(always)]
    fn rounded(Fragments { a, b }: Fragments) -> Fragments {
        let by_twos = COLUMNS < 256;
        Fragments {
            a: cuda_std::array::map(a, |words| T::rounded_a(words, by_twos)),
            b: cuda_std::array::map(b, |words| T::rounded_b(words, by_twos)),
        }
    }

    /// Adds the products for 32 bytes of k.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply(fragments: &Fragments, sums: &mut Sums<T::Sum>) {
        unroll!(2, step => {
            if step < T::STEPS {
                Self::multiply_step(step, fragments, sums);
            }
        });
    }

    /// Adds those of one of the instructions along k.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply_step(step: usize, fragments: &Fragments, sums: &mut Sums<T::Sum>) {
        let a = cuda_std::array::map(fragments.a, T::a);
        let b = cuda_std::array::map(fragments.b, |[low0, high0, low1, high1]| {
            [T::b([low0, high0]), T::b([low1, high1])]
        });
        let [rows, columns] = [Self::GROUPS[0], 2 * Self::GROUPS[1]];
        unroll!(4, outer => {
            unroll!(8, inner => {
                // There and back, so that an instruction has an operand of the one before. In large tiles that is the larger
                // one, of `A`; small ones would wait for all of `B`.
                let (i, j) = match rows {
                    4 => (outer, there_and_back(outer, inner, columns)),
                    _ => (there_and_back(outer, inner / 2, rows), 2 * outer + inner % 2),
                };
                if i < rows && j < columns {
                    let tile = &mut sums[i][j];
                    *tile = T::multiply(step, a[i], b[j / 2][j % 2], *tile);
                }
            });
        });
    }
}

/// Place `i` of so many, from the first to the last on even ways and back on odd ones; places that there are not are none.
#[inline(always)]
const fn there_and_back(way: usize, i: usize, count: usize) -> usize {
    if way.is_multiple_of(2) {
        i
    } else {
        (count - 1).wrapping_sub(i)
    }
}
