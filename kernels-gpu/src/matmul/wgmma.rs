// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix on Hopper's tensor cores, of numbers of 16 bits or of f32 rounded to TF32, accumulated in f32, with an
//! [`epilogue`](super::epilogue). What it is made of, [`fp8`] and [`int8`] use for numbers of 8 bits.
//!
//! A block computes tiles of `C` of 128 × `2 R` elements, one after another. Three warpgroups share the work ("CUTLASS
//! 3.x", NVIDIA 2023: warp specialised, persistent). One thread of the first, the producer, or two, have the tensor memory
//! accelerator copy the tiles of `A` and `B`, 128 bytes of k at a time, into a ring of stages in shared memory; the
//! two others, the consumers, multiply them (`wgmma`), 64 rows of the tile each, with the sums in registers. Two barriers
//! a stage say that it is full, and that both consumers are done with it. A tile's result goes by way of shared memory,
//! in boxes of 16 rows × 128 bytes for each warp, and is stored by the accelerator while the next tile is multiplied.
//! Of a tile of 256 columns there is memory for half of a 16-bit result at a time; the other half waits in registers.
//!
//! Tiles and boxes are 128 bytes wide and lie in shared memory with the swizzle of 128 bytes, so that neither side has
//! bank conflicts. An operand of 16-bit elements may lie along k or along its lines: `wgmma` takes both. TF32 it takes
//! along k alone, but an `A` along m from registers (`tf32`). The accelerator rounds to TF32, to nearest. Elements out of
//! bounds are read as zeros and not written, so any shape is right.
//!
//! [`across`] has tiles of other sizes, whose products are computed as their transposes.
//!
//! Of a small product each step along k counts. There are tiles of 64 × 64, of which each consumer has all rows, in the
//! stages of one parity; their sums are added in the end.
//!
//! Of a large addend, old elements or a residual, each tile comes by way of the ring as well (`addend`).
//!
//! The epilogue goes over the sums, those of a box at a time, in a loop that is not unrolled, or its code would be eight times
//! as long. So these are copied to other registers first, by a branch that the warp takes as one: registers have no
//! addresses. Sums that are only scaled are stored without it.
//!
//! Work `2 m n k`. Elements moved from the cache `m n k (1 / 128 + 1 / (2 R))`. The sums of a tile's element are in the
//! order of k, in f32 with the tensor core's rounding: of 64-bit dot products in hardware, whose error is at most
//! `k u Σ|a||b|` with `u = 2⁻²³`, since a tensor core truncates where f32 arithmetic rounds (M. Fasi, N. Higham, M.
//! Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021).

use cuda_std::half::pack;
use cuda_std::prelude::*;
use cuda_std::tma::{TensorMap, TensorMapMut};
use cuda_std::wgmma::{KMajor, Layout, MnMajor, MnMajorB64, MultiplyBy, Operand, Registers, Tf32};
use half::{bf16, f16};

use self::addend::{Addend, RingAddend};
use super::epilogue::{Epilogue, EpilogueOp, EpiloguePlan};
use super::tiles::{Tile, Tiles};
use crate::num::Num;

pub mod across;
pub mod addend;
mod block;
mod consume;
pub mod convolve;
pub mod fp8;
pub mod grouped;
pub mod int8;
mod produce;
mod store;
mod tf32;

/// Threads of a block: the producer's warpgroup, and two of consumers.
pub const THREADS: usize = threads(32);

/// Threads of a block whose sums take `registers` of a thread, or the most that it has: the producer's warpgroup, and the
/// consumers'.
pub const fn threads(registers: usize) -> usize {
    128 * (1 + consumers(registers))
}

/// Warpgroups that multiply.
const fn consumers(registers: usize) -> usize {
    match registers {
        48 | 88 => 3,
        _ => 2,
    }
}

/// Parts of 64 rows that a consumer has of a tile, each with an accumulator of its own.
const fn parts(registers: usize) -> usize {
    match registers {
        80 | 84 => 2,
        _ => 1,
    }
}

/// Rows of a block's tile.
pub const TILE_M: usize = 128;

/// Rows of the smallest tiles, whose consumers have stages in turn.
pub const HALF_TILE_M: usize = 64;

/// Bytes of a line of a stage, or of a box of the result.
pub const LINE: usize = 128;

/// Elements along k of a stage, where they have so many bytes.
pub const fn tile_k(element: usize) -> usize {
    LINE / element
}

/// Rows of a block's tile, or the most that it has.
pub const fn tile_m(registers: usize) -> usize {
    match registers {
        24 => HALF_TILE_M,
        _ => 64 * consumers(registers) * parts(registers),
    }
}

/// Bytes of a stage's tile of `A`, of [`TILE_M`] rows.
const A_BYTES: usize = TILE_M * LINE;

/// Bytes of a stage's tile of `A`.
const fn a_bytes(registers: usize) -> usize {
    tile_m(registers) * LINE
}

/// Rows of tiles that numbers go down before they go right.
const GROUP: u32 = 16;

/// The same of tiles of 64, 96, 128, 160, 168 and 176 columns and elements of so many bytes, as measured on an H100. Some 16 blocks of neighbouring numbers
/// are in one part of the GPU (GPC), which seems to ask the cache once for what several of them read at a time: of tiles so narrow, what
/// is asked for counts, and it is least of parts that are as wide as they are high.
const fn group(registers: usize, element: usize) -> u32 {
    match (registers, element) {
        (32, 2) => 4,
        (48 | 56 | 80 | 84 | 88, 2) => 2,
        (64, 1) => 4,
        _ => GROUP,
    }
}

/// Rows of the boxes in which a warp stores its part.
pub const BOX_M: usize = 16;

const BOX_BYTES: usize = BOX_M * LINE;

/// Columns of a block's tile, whose sums take `registers` of a thread.
pub const fn tile_n(registers: usize) -> usize {
    2 * registers
}

/// Stages of the ring: as many as fit.
const fn stages(registers: usize) -> usize {
    match registers {
        24 | 32 => 8,
        56 | 64 => 6,
        48 => 5,
        80 | 84 | 88 => 3,
        _ => 4,
    }
}

/// Boxes of a warp that are stored at the same time.
const fn boxes(registers: usize) -> usize {
    match registers {
        96 => 4,
        _ => 2,
    }
}

/// Columns of a box of `B` where it lies along n: 64, or 32 in tiles that are no multiple of that.
pub const fn b_box(registers: usize) -> usize {
    match tile_n(registers) % 64 {
        0 => 64,
        _ => 32,
    }
}

/// Bytes of a stage's tile of `B`.
const fn b_bytes(registers: usize) -> usize {
    tile_n(registers) * LINE
}

/// Bytes of what is stored, and of sums that the consumers exchange.
const fn result_bytes(registers: usize) -> usize {
    match registers {
        24 | 48 | 56 | 80 | 84 | 88 | 104 => across::result_bytes(registers),
        _ => 4 * consumers(registers) * boxes(registers) * BOX_BYTES,
    }
}

/// Barriers of copies of what is added to the sums: one for each consumer of the tiles of [`across`].
const fn added(registers: usize) -> usize {
    match registers {
        24 | 48 | 56 | 80 | 84 | 88 => consumers(registers),
        _ => 0,
    }
}

/// Whether a launch of tiles whose sums take so many registers may be in clusters. They want a hundred instructions more ahead of
/// the first copy and in the producer's loop, which took 0.2 µs in tiles of 64 columns.
pub const fn may_have_clusters(registers: usize) -> bool {
    matches!(registers, 48 | 56 | 80 | 84 | 88)
}

/// Whether they may be in clusters of four: the half of a tile of `B` that a block copies then begins where the swizzle does.
pub const fn may_be_in_fours(registers: usize) -> bool {
    may_have_clusters(registers) && tile_n(registers).is_multiple_of(16)
}

/// Whether a launch of [`gemm_wgmma()`] by tiles whose sums take so many registers, of elements of 16 bits, may be in clusters of two, whose
/// blocks have tiles one above the other, and copy a half of their tile of `B` each for both. Narrower ones, of small products, would
/// wait for the instructions.
pub const fn may_be_in_pairs(registers: usize) -> bool {
    matches!(registers, 96 | 128)
}

/// Bytes in front of the barriers.
const fn tiles_bytes(registers: usize) -> usize {
    stages(registers) * (a_bytes(registers) + b_bytes(registers)) + result_bytes(registers)
}

/// The dynamic shared memory of a launch in bytes: the tiles are aligned to 1024.
pub const fn shared_bytes(registers: usize) -> usize {
    1024 + tiles_bytes(registers) + barriers_bytes(registers)
}

const fn barriers_bytes(registers: usize) -> usize {
    16 * stages(registers) + 8 * added(registers)
}

/// Numbers that the result is stored as.
pub trait Output: Num<Wide = f32> {
    /// Whether two are packed into 32 bits.
    const PACKED: bool;

    /// Two of 16 bits.
    fn pack(low: f32, high: f32) -> u32;
}

impl Output for f32 {
    const PACKED: bool = false;

    #[inline(always)]
    fn pack(low: f32, _: f32) -> u32 {
        low.to_bits()
    }
}

impl Output for bf16 {
    const PACKED: bool = true;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        pack::<bf16>(low, high)
    }
}

impl Output for f16 {
    const PACKED: bool = true;

    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        pack::<f16>(low, high)
    }
}

/// The shape of a batch of products, and how their operands lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct WgmmaShape {
    /// Products.
    pub batch: u32,
    /// Rows of `A` and `C`.
    pub m: u32,
    /// Columns of `B` and `C`.
    pub n: u32,
    /// Columns of `A` and rows of `B`.
    pub k: u32,
    /// From product to product in the map of `A`: 1, or 0 for one matrix for all.
    pub a_step: u32,
    /// The same of `B`.
    pub b_step: u32,
    /// From product to product along k in both maps, where the products are parts of one: a multiple of [`tile_k`], of which the last part
    /// may lack some. Otherwise 0.
    pub k_step: u32,
    /// Whether the map of `A` has its rows last (0: its columns).
    pub a_along_m: u32,
    /// Whether the map of `B` has its columns last (0: its rows).
    pub b_along_n: u32,
    /// Whether the map of the result has the columns as its rows (0: the rows).
    pub c_transposed: u32,
    /// Rows of a tile: [`TILE_M`], or, where its sums take 32 registers, `k` is more
    /// than [`tile_k`] and `A` does not come from registers, [`HALF_TILE_M`]. Of [`across`], [`tile_m`], or of tiles of 96 columns
    /// [`TILE_M`], or of [`gemm_wgmma_across_in_fours`](fn@across::gemm_wgmma_across_in_fours) [`HALF_TILE_M`].
    pub tile_m: u32,
    /// Lines of `A` that a copy brings where they lie along k: those of a tile; or, of elements of 8 and 16 bits, where that has
    /// [`HALF_TILE_M`] and there are fewer, as many of them, to a multiple of 8.
    pub a_lines: u32,
    /// The binary logarithm of the blocks of the launch's clusters, along x, where it [may be in such](may_have_clusters): 1 or, where it [may](may_be_in_fours), 2. Two
    /// have tiles side by side, and copy a half of `A` each for both; four have two by two, and so of `B` those one above the other.
    /// Of [`gemm_wgmma()`], where it [may be in pairs](may_be_in_pairs), 1: two have tiles one above the other, and copy a half of `B` each
    /// for both. Otherwise 0.
    pub cluster: u32,
    /// The row behind which no tile of 16-bit elements begins: those that would reach back, among the rows of a neighbour. A multiple of [`BOX_M`] or,
    /// of [`across`], of 64. Where the old elements are read it is [`u32::MAX`]: a neighbour may have stored them.
    pub last_row: u32,
    /// The same of columns: a multiple of those of a box of the result or, of [`across`], of [`across::copy_m`].
    pub last_column: u32,
}

impl WgmmaShape {
    /// Threads of a block whose sums take so many registers.
    pub fn threads(&self, registers: usize) -> usize {
        threads(registers) - if self.leaves_one_out(registers) { 128 } else { 0 }
    }

    /// The shape of a launch of whole products, as a constant.
    #[inline(always)]
    fn without_parts(self) -> Self {
        Self { k_step: 0, ..self }
    }

    /// The shape of a launch by a kernel that takes no clusters, so that it has no instructions for them.
    #[inline(always)]
    fn without_clusters(self) -> Self {
        Self { cluster: 0, ..self }
    }

    /// The shape of a launch whose tiles have so many rows, which they have.
    #[inline(always)]
    fn of_rows(self, rows: usize) -> Self {
        Self {
            tile_m: rows as u32,
            ..self
        }
    }

    /// The shape of a launch by [`gemm_wgmma_across`](fn@across::gemm_wgmma_across): where tiles may have [`HALF_TILE_M`] rows by another
    /// kernel, they have all, as a constant, so that nobody asks whether consumers have stages in turn.
    #[inline(always)]
    pub fn across(self, registers: usize) -> Self {
        match across::may_have_half_rows(registers) {
            true => self.without_parts().of_rows(tile_m(registers)),
            false => self.without_parts(),
        }
    }

    /// The shape of a launch by tiles of [`HALF_TILE_M`] rows in clusters of four, which it is.
    #[inline(always)]
    pub fn in_fours(self) -> Self {
        Self {
            cluster: 2,
            ..self.without_parts().of_rows(HALF_TILE_M)
        }
    }

    /// Whether the consumers of tiles whose sums take so many registers have stages in turn, and not rows each.
    #[inline(always)]
    fn shares_k(&self, registers: usize) -> bool {
        let may = (registers == 32 || across::may_have_half_rows(registers)) && self.tile_m != TILE_M as u32;
        may || tile_m(registers) == HALF_TILE_M
    }

    /// Whether tiles whose sums take so many registers have a consumer fewer than there may be.
    #[inline(always)]
    fn leaves_one_out(&self, registers: usize) -> bool {
        registers == 48 && self.tile_m == TILE_M as u32
    }
}

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, with the function of the plan. `C` is read
/// where the addend of the ring is that; where that is the residual, `residual` says that there is one, and is not read.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`] bytes of dynamic shared memory; the grid has one axis. The maps
/// have three axes, the products first, and the swizzle of 128 bytes; a tile of theirs is, along the last two axes and with
/// `k` for [`tile_k`], the shape's lines × `k` of `a` (`k` × `k` where it lies along m), [`tile_n`] × `k` of `b` (`k` × `k` where it
/// lies along n), [`BOX_M`] × 128 bytes of `c`, and [`ADDEND_M`](addend::ADDEND_M) × 128 bytes of `addend`, which is of the memory of
/// `c`, or of the residual, as `ring` says. The other addends are as [`Epilogue::new`] and [`Epilogue::finish_fragment`] say. If
/// the operands are of [`Tf32`], so are the types of their maps, and `b` lies along k; where `a` does not, sums are only scaled:
/// `ring` and the plan have nothing. `C` is transposed in its map at most there. A launch in clusters is one of whole clusters of as
/// many blocks as the shape says, and a tile of the map of `b` is the half that one of them copies: of its lines, or, where these lie along
/// themselves, of the elements along k.
#[kernel(
    T = [bf16], C = [bf16, f32], R = [32, 64, 96, 128];
    T = [f16], C = [f16, f32], R = [32, 64, 96, 128];
    T = [Tf32], C = [f32], R = [32, 64, 96, 128],
    arch = "sm_90a",
    max_threads = THREADS,
    min_blocks = 1,
)]
pub unsafe fn gemm_wgmma<T: Input, C: Output, const R: usize>(
    a: TensorMap<'_, <T as Operand>::Element>,
    b: TensorMap<'_, <T as Operand>::Element>,
    c: TensorMapMut<'_, C>,
    addend: TensorMap<'_, C>,
    shape: WgmmaShape,
    alpha: f32,
    ring: RingAddend,
    plan: EpiloguePlan,
    bias: &[C],
    residual: &[C],
) where
    [f32; R]: Registers,
{
    // SAFETY: the kernel's contract.
    unsafe { gemm_wgmma_with::<T, C, _, R>(a, b, c, addend, shape, alpha, ring, plan, bias, residual) };
}

/// [`gemm_wgmma()`], with any function.
///
/// # Safety
///
/// The kernel's.
#[allow(clippy::too_many_arguments, reason = "a kernel's")]
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub unsafe fn gemm_wgmma_with<T: Input, C: Output, F: EpilogueOp<f32>, const R: usize>(
    a: TensorMap<'_, T::Element>,
    b: TensorMap<'_, T::Element>,
    c: TensorMapMut<'_, C>,
    addend: TensorMap<'_, C>,
    shape: WgmmaShape,
    alpha: f32,
    ring: RingAddend,
    plan: EpiloguePlan<F>,
    bias: &[C],
    residual: &[C],
) where
    [f32; R]: Registers,
{
    // SAFETY (of both): the kernel's contract.
    let result = Result {
        alpha,
        addend: ring,
        epilogue: unsafe { Epilogue::new(plan, bias, residual) },
    };
    let block = unsafe { Block::<T::Element, C, R>::new(a, b, c, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    // What is behind `else` comes first in the machine code, right behind what all warps run: the first copies wait for the
    // producer's instructions to be fetched, and the consumers for the copies.
    if warp >= 4 {
        block.apart().consume::<T>(warp - 4, result);
    } else {
        let addend = Addend {
            map: addend,
            step: ring.step,
        };
        block.produce(warp, ring.is_there().then_some(addend));
    }
}

/// What becomes of the sums.
#[derive(Clone, Copy)]
struct Result<'a, C, F> {
    alpha: f32,
    addend: RingAddend,
    epilogue: Epilogue<'a, C, F>,
}

/// What sums are multiplied with before anything else becomes of them.
pub(super) trait Factors: Copy {
    /// Whether there is any but 1.
    fn are_there(self) -> bool;

    /// The products with sums as [`Epilogue::finish_fragment`] takes them.
    fn multiply<const N: usize>(self, sums: [f32; N], at: [u32; 3], extents: [u32; 2]) -> [f32; N];
}

/// None.
impl Factors for () {
    #[inline(always)]
    fn are_there(self) -> bool {
        false
    }

    #[inline(always)]
    fn multiply<const N: usize>(self, sums: [f32; N], _: [u32; 3], _: [u32; 2]) -> [f32; N] {
        sums
    }
}

/// What the threads of a block have in common.
#[derive(Clone, Copy)]
struct Block<'a, E, C, const R: usize> {
    a: TensorMap<'a, E>,
    b: TensorMap<'a, E>,
    c: TensorMapMut<'a, C>,
    shape: WgmmaShape,
    tiles: Tiles,
    /// The block's first.
    first: Tile,
    /// The block's rank in its cluster.
    rank: u32,
    /// Stages of `A`, stages of `B`, the boxes of the warps.
    memory: Shared<u8>,
    /// For each stage whether it is full, then for each whether it is free; then, of [`across`], for each consumer whether what is
    /// added to its sums is there.
    barriers: Shared<u64>,
}

/// A place in the ring of stages.
#[derive(Clone, Copy)]
struct Place<const R: usize> {
    stage: u32,
    /// The parity of the rounds so far.
    round: u32,
}

impl<const R: usize> Place<R> {
    const FIRST: Self = Self { stage: 0, round: 0 };

    #[inline(always)]
    fn next(self) -> Self {
        self.after(1)
    }

    /// So many places on, fewer than there are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn after(self, places: u32) -> Self {
        let stage = self.stage + places;
        if stage >= stages(R) as u32 {
            Self {
                stage: stage - stages(R) as u32,
                round: self.round ^ 1,
            }
        } else {
            Self { stage, ..self }
        }
    }

    /// How many places on the next stage is whose number has this parity. There is an even number of them.
    #[inline(always)]
    fn until(self, parity: u32) -> u32 {
        (self.stage ^ parity) & 1
    }

    /// Any number of places on.
    #[inline(always)]
    fn far_after(self, places: u32) -> Self {
        let stage = self.stage + places;
        Self {
            stage: stage % stages(R) as u32,
            round: self.round ^ ((stage / stages(R) as u32) & 1),
        }
    }
}

/// How an operand lies in a stage.
pub trait Side<T>: Layout<T> {
    /// Bytes from one box to the next: of what lies along its lines.
    const LEADING: u32;
    /// Bytes from eight rows of a box to the next eight.
    const STRIDE: u32;
    /// Bytes from the elements along k of one instruction to those of the next: 32 bytes of them.
    const STEP: u32;
}

impl<T> Side<T> for KMajor
where
    KMajor: Layout<T>,
{
    const LEADING: u32 = 16;
    const STRIDE: u32 = 8 * LINE as u32;
    const STEP: u32 = 32;
}

macro_rules! along_lines {
    ($($layout:ident $line:literal;)*) => {$(
        impl<T> Side<T> for $layout
        where
            $layout: Layout<T>,
        {
            const LEADING: u32 = 64 * $line;
            const STRIDE: u32 = 8 * $line;
            const STEP: u32 = 16 * $line;
        }
    )*};
}

along_lines! {
    MnMajor 128;
    MnMajorB64 64;
}

/// Numbers that are multiplied: `f16`, `bf16`, and [`Tf32`], which in memory is `f32`.
pub trait Input: MultiplyBy {
    /// How an operand lies that does not lie along k. Of TF32, none.
    type AlongLines: Side<Self>;
    /// The same in boxes of 32 lines.
    type AlongLinesBy32: Side<Self>;
}

impl Input for f16 {
    type AlongLines = MnMajor;
    type AlongLinesBy32 = MnMajorB64;
}

impl Input for bf16 {
    type AlongLines = MnMajor;
    type AlongLinesBy32 = MnMajorB64;
}

impl Input for Tf32 {
    type AlongLines = KMajor;
    type AlongLinesBy32 = KMajor;
}
