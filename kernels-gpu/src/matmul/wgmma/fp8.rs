// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit floats on Hopper's tensor cores, scaled: `C ← f(s_a s_b A B + bias) + residual`.
//!
//! The block is that of [`gemm_wgmma`](super::gemm_wgmma()), with 128 of k in a stage; both operands lie along k, since `wgmma`
//! takes bytes in no other way.
//!
//! The tensor cores add products of 8-bit floats with some 14 bits (`cuda_std::wgmma`, "Rounding"). So the sums are on two
//! levels, as in "DeepSeek-V3 Technical Report", 2024, 3.3.2: those of a stage, 128 products, begin from zero, and are then
//! added to f32 sums of the thread's own, times the scales of blocks where there are any, by one fused multiply-add for each.
//! The products of the next stage go on meanwhile, in registers of their own. So three sets of sums are in registers, and a
//! tile has 128 columns, or 192, of which the two sets are of half of the columns each. Who asks for that has the sums in the
//! tensor cores alone, with the error that comes of it, and tiles of up to 256 columns.
//!
//! A scale for each row of `A` and for each column of `B` is multiplied with the sums once, ahead of the epilogue.
//!
//! Work and memory: those of [`gemm_wgmma`](super::gemm_wgmma()), with elements of one byte, and `m n` fused multiply-adds for
//! each 128 of k.

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::wgmma::{Accumulator, InFlight, KMajor, MultiplyBy, Operand, Registers};
use cuda_std::{half::bf16, warpgroup};

use super::addend::RingAddend;
use super::store::Packed;
use super::{BOX_M, Block, Factors, LINE, Output, Place, Result, THREADS, WgmmaShape};
use crate::matmul::epilogue::{Epilogue, EpilogueOp, EpiloguePlan};
use crate::matmul::span;
use crate::matmul::tiles::Tile;

/// Elements along k that have a scale in common, and columns of `B`, where scales are of blocks.
pub const SCALE_BLOCK: usize = 128;

/// Where the scales of the operands lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct ScalePlan {
    /// The strides of the scales of `A`: from product to product, from row to row, from block to block of k.
    pub a: [usize; 3],
    /// The strides of the scales of `B`: from product to product, from column to column (of scales of blocks, from block to
    /// block), from block to block of k.
    pub b: [usize; 3],
    /// Whether those of `A` are of blocks of k (0: of rows).
    pub a_by_blocks: u32,
    /// Whether those of `B` are of blocks of k and of columns (0: of columns).
    pub b_by_blocks: u32,
    /// Whether Hopper's tensor cores add all of k, whatever the tiles (0: a stage, where [sums are on two levels](is_two_level)).
    pub one_level: u32,
}

impl ScalePlan {
    /// Whether scales, of so many elements, are there for all of a batch of products of these extents: products, rows,
    /// columns, elements along k. Without an element there are none.
    pub fn fits(&self, [batch, m, n, k]: [usize; 4], a: usize, b: usize) -> bool {
        let blocks = |length: usize, by_blocks: u32| {
            if by_blocks == 0 {
                length
            } else {
                length.div_ceil(SCALE_BLOCK)
            }
        };
        let of_k = |by_blocks: u32| if by_blocks == 0 { 1 } else { k.div_ceil(SCALE_BLOCK) };
        let within = |extents, strides, len| len == 0 || span(extents, strides).is_some_and(|span| span <= len);
        within([batch, m, of_k(self.a_by_blocks)], self.a, a)
            && within([batch, blocks(n, self.b_by_blocks), of_k(self.b_by_blocks)], self.b, b)
    }
}

/// Whether sums that take so many registers are added on two levels.
pub const fn is_two_level(registers: usize) -> bool {
    registers <= 96
}

/// Whether sums that take so many registers may have scales of blocks: a tile has no columns of two blocks.
pub const fn may_have_blocks(registers: usize) -> bool {
    2 * registers <= SCALE_BLOCK
}

/// `C ← f(A B + bias) + residual` for each product of the batch, of scaled operands.
///
/// # Safety
///
/// As [`gemm_wgmma`](super::gemm_wgmma()), where both operands lie along k: tiles are 128 × 128 bytes of `a`, and
/// [`tile_n`](super::tile_n) × 128 of `b`. The scales are as [`ScalePlan::fits`] says, and of blocks only where sums
/// [may have such](may_have_blocks), and the plan does not want them on one level.
#[kernel(
    T = [F8E4M3], U = [F8E4M3], C = [bf16, f32], R = [32, 64, 96, 128];
    T = [F8E4M3], U = [F8E5M2], C = [bf16, f32], R = [32, 64, 128];
    T = [F8E5M2], U = [F8E4M3], C = [bf16, f32], R = [32, 64, 128],
    arch = "sm_90a",
    max_threads = THREADS,
    min_blocks = 1,
)]
pub unsafe fn gemm_fp8<T: MultiplyBy<U>, U: Operand, C: Output, const R: usize>(
    a: TensorMap<'_, u8>,
    b: TensorMap<'_, u8>,
    c: TensorMapMut<'_, C>,
    shape: WgmmaShape,
    plan: EpiloguePlan,
    bias: &[C],
    residual: &[C],
    scales: ScalePlan,
    a_scales: &[f32],
    b_scales: &[f32],
) where
    [f32; R]: Registers,
{
    // SAFETY (of both): the kernel's contract.
    let result = Result {
        alpha: 1.0,
        addend: RingAddend::default(),
        epilogue: unsafe { Epilogue::new(plan, bias, residual) },
    };
    let block = unsafe { Block::<u8, C, R>::new(a, b, c, shape.without_parts()) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        block.produce(warp, None);
    } else {
        warpgroup::increase_registers::<232>();
        let scales = Scales::new(scales, a_scales, b_scales);
        block.consume_fp8::<T, U>(warp - 4, result, scales);
    }
}

/// The scales of both operands.
#[derive(Clone, Copy)]
pub(in crate::matmul) struct Scales<'a> {
    plan: ScalePlan,
    a: Slice<'a, f32>,
    b: Slice<'a, f32>,
}

/// The elements, whose indices are not checked.
///
/// # Safety
///
/// Nobody writes them as long as the slice is used.
#[inline(always)]
unsafe fn slice<T: Pod>(elements: &[T]) -> Slice<'_, T> {
    // SAFETY: a reference is to as many elements; the caller's promise.
    unsafe { Slice::from_raw_parts(elements.as_ptr(), elements.len()) }
}

/// A scale.
///
/// # Safety
///
/// There is one at `at`.
#[inline(always)]
unsafe fn scale(scales: Slice<'_, f32>, at: usize) -> f32 {
    // SAFETY: the caller's promise; a vector of one is aligned like its element.
    let [scale] = unsafe { scales.get_vec_unchecked::<1>(at) };
    scale
}

impl<'a> Scales<'a> {
    /// Those that lie as the plan says.
    #[inline(always)]
    pub(in crate::matmul) fn new(plan: ScalePlan, a: &'a [f32], b: &'a [f32]) -> Self {
        // SAFETY (of both): references, whose elements nobody writes.
        let (a, b) = unsafe { (slice(a), slice(b)) };
        Self { plan, a, b }
    }
}

impl Scales<'_> {
    /// Whether there are scales of blocks.
    #[inline(always)]
    pub(in crate::matmul) fn by_blocks(&self) -> bool {
        (self.plan.a_by_blocks | self.plan.b_by_blocks) != 0
    }

    /// The scales of `A` that a thread's two rows have at a block of k, those rows that there are, from the first row on.
    ///
    /// # Safety
    ///
    /// [`ScalePlan::fits`]; product and block are among them, the plan's extents have `m` rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn of_rows(&self, at: Tile, m: u32, block: usize) -> [f32; 2] {
        let [product, row, k] = self.plan.a;
        let of_row = |number: u32| match number < m {
            // SAFETY: the caller's promise.
            true => unsafe {
                scale(
                    self.a,
                    at.product as usize * product + number as usize * row + block * k,
                )
            },
            false => 1.0,
        };
        [of_row(at.row), of_row(at.row + 8)]
    }

    /// The scales of a stage's sums in a thread's two rows.
    ///
    /// # Safety
    ///
    /// As [`of_rows`](Self::of_rows); the tile's columns begin within those that there are.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(in crate::matmul) unsafe fn of_stage(&self, at: Tile, m: u32, block: usize) -> StageScales {
        let mut scales = StageScales::default();
        if self.plan.a_by_blocks != 0 {
            // SAFETY: the caller's promise.
            scales.of_rows = unsafe { self.of_rows(at, m, block) };
        }
        if self.plan.b_by_blocks != 0 {
            let [product, column, k] = self.plan.b;
            let of_block = at.column as usize / SCALE_BLOCK * column;
            // SAFETY: the caller's promise; a tile has no columns of two blocks.
            scales.of_columns = unsafe { scale(self.b, at.product as usize * product + of_block + block * k) };
        }
        scales
    }

    /// The scales of a thread's two rows, from `at` on, or of all of `A`, if there are any.
    ///
    /// # Safety
    ///
    /// As [`of_rows`](Self::of_rows).
    #[inline(always)]
    pub(in crate::matmul) unsafe fn of_a(&self, at: Tile, m: u32) -> Option<[f32; 2]> {
        let there = self.plan.a_by_blocks == 0 && !self.a.is_empty();
        // SAFETY: the caller's promise.
        there.then(|| unsafe { self.of_rows(at, m, 0) })
    }

    /// The scale of all of `B`, if it is that.
    ///
    /// # Safety
    ///
    /// [`ScalePlan::fits`], and it is one of its products.
    #[inline(always)]
    pub(in crate::matmul) unsafe fn of_b(&self, product: u32) -> Option<f32> {
        let there = self.plan.b_by_blocks == 0 && !self.b.is_empty() && self.plan.b[1] == 0;
        // SAFETY: the caller's promise.
        there.then(|| unsafe { scale(self.b, product as usize * self.plan.b[0]) })
    }

    /// Multiplies a thread's sums, of the rows from `at` on, with the scales of rows, or of all of `A`, and then with that of all
    /// of `B`: one after the other, since the product of both could be beyond the range of `f32` where the result is not.
    ///
    /// # Safety
    ///
    /// As [`of_rows`](Self::of_rows).
    #[inline(always)]
    unsafe fn multiply_rows<const R: usize>(&self, sums: &mut Accumulator<R>, at: Tile, m: u32)
    where
        [f32; R]: Registers,
    {
        // SAFETY (of both): the caller's promise.
        if let Some(factors) = unsafe { self.of_a(at, m) } {
            sums.update(|i, sum| sum * factors[i / 2 % 2]);
        }
        if let Some(factor) = unsafe { self.of_b(at.product) } {
            sums.update(|_, sum| sum * factor);
        }
    }
}

/// The scales of columns.
impl Factors for Scales<'_> {
    #[inline(always)]
    fn are_there(self) -> bool {
        self.plan.b_by_blocks == 0 && !self.b.is_empty() && self.plan.b[1] != 0
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn multiply<const N: usize>(
        self,
        mut sums: [f32; N],
        [product, _, column]: [u32; 3],
        [_, n]: [u32; 2],
    ) -> [f32; N] {
        if !self.are_there() {
            return sums;
        }
        let [product_stride, stride, _] = self.plan.b;
        // Of two neighbours of each eight columns; for those beyond the matrix some of its last, so that none depends on a
        // condition, and all are on their way at once.
        let of_column = |i: usize| {
            let column = Ord::min(column + (8 * (i / 2) + i % 2) as u32, n - 1);
            // SAFETY: the kernel's contract, for a column that there is.
            unsafe { scale(self.b, product as usize * product_stride + column as usize * stride) }
        };
        for i in 0..N / 2 {
            let scale = of_column(i);
            sums[4 * (i / 2) + i % 2] *= scale;
            sums[4 * (i / 2) + i % 2 + 2] *= scale;
        }
        sums
    }
}

impl<C: Output, const R: usize> Block<'_, u8, C, R>
where
    [f32; R]: Registers,
{
    /// Multiplies the stages, and scales and stores the tiles. For the eight warps of two warpgroups.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_fp8<T: MultiplyBy<U>, U: Operand>(
        &self,
        warp: u32,
        result: Result<'_, C, impl EpilogueOp<f32>>,
        scales: Scales<'_>,
    ) {
        self.clear_lines();
        let mut place = Place::<R>::FIRST;
        let mut packed = Packed::NONE;
        let lane = thread::thread_idx_x() % 32;
        for tile in self.tiles.of_block() {
            // Where both consumers have all rows, they have the same scales.
            let row = tile.row + if self.shares_k() { warp % 4 } else { warp } * BOX_M as u32;
            // Where the thread's first element is.
            let at = Tile {
                row: row + lane / 4,
                column: tile.column + lane % 4 * 2,
                ..tile
            };
            let bias = self.load_bias(tile, 0, &result);
            let is_two_level = is_two_level(R) && scales.plan.one_level == 0;
            let mut sums = match is_two_level {
                true if R == 2 * HALF => self.sums_of_halves::<T, U>(warp / 4, &mut place),
                true if may_have_blocks(R) && scales.by_blocks() => {
                    self.sums_of_stages::<T, U, true>(warp / 4, &mut place, at, scales)
                }
                true => self.sums_of_stages::<T, U, false>(warp / 4, &mut place, at, scales),
                false => {
                    let beside = |k| {
                        if packed.is_due(k) {
                            self.store_packed(&mut packed, warp);
                        }
                    };
                    self.sums_beside::<T, U, KMajor, KMajor>(warp / 4, &mut place, beside)
                }
            };
            if self.shares_k() {
                self.add_parts(&mut sums, warp / 4, |a, b| a + b);
                if warp >= 4 {
                    continue;
                }
            }
            // SAFETY: the kernel's contract.
            unsafe { scales.multiply_rows(&mut sums, at, self.shape.m) };
            let tile = Tile { row, ..tile };
            packed = match !is_two_level && self.packs(&result, scales) {
                true => self.store_and_pack(&sums, result.alpha, warp, tile),
                false => {
                    self.store(sums, warp, tile, &result, bias, scales, &mut place);
                    Packed::NONE
                }
            };
        }
        if packed.is_there() {
            self.store_packed(&mut packed, warp);
        }
        if lane == 0 {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }

    /// This thread's part of the product of 64 rows of the tile, on two levels. With scales of blocks or without is a loop each: the
    /// question within it would take 7 % of a large product's time.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums_of_stages<T: MultiplyBy<U>, U: Operand, const BY_BLOCKS: bool>(
        &self,
        group: u32,
        place: &mut Place<R>,
        at: Tile,
        scales: Scales<'_>,
    ) -> Accumulator<R> {
        let (a, b) = (self.a_of::<T, KMajor>(group), self.b_of::<U, KMajor>());
        let leads = thread::thread_idx_x().is_multiple_of(128);
        // The place of the first stage, and from one stage to the next.
        let (first, step) = match self.shares_k() {
            true => (place.until(group), 2),
            false => (0, 1),
        };
        let of_tile = *place;
        *place = of_tile.after(first);

        // Begins the products of the stage at `k`.
        let begin = |part: Accumulator<R>, k: u32, place: &mut Place<R>| {
            let mut of_stage = StageScales::default();
            if BY_BLOCKS {
                // SAFETY: the kernel's contract, for a block of k that there is.
                of_stage = unsafe { scales.of_stage(at, self.shape.m, k as usize / SCALE_BLOCK) };
            }
            // The same in all lanes, which the assembler does not see in this loop: it would bring each descriptor into uniform
            // registers by itself. Ahead of the wait, which hides how long that takes.
            let stage = warp::uniform(place.stage);
            self.full(stage).wait(place.round);
            *place = place.after(step);
            // SAFETY: the stage is full, and is not filled again before both consumers have arrived at its barrier.
            let part = unsafe {
                let part = part.start().mma_from_zero(a(stage, 0), b(stage, 0));
                let part = part.mma(a(stage, 1), b(stage, 1));
                let part = part.mma(a(stage, 2), b(stage, 2));
                part.mma(a(stage, 3), b(stage, 3)).commit()
            };
            Begun { part, stage, of_stage }
        };
        // Gives the stage back, and adds what has come of its products, which are done.
        let add = |sums: &mut Accumulator<R>, part: &Accumulator<R>, stage: u32, of_stage: StageScales| {
            self.free(stage).arrive_if(leads);
            if BY_BLOCKS {
                // Not before: the scales may still be on their way when the products begin.
                let factors = of_stage.factors();
                sums.update(|i, sum| Float::mul_add(part.element(i), factors[i / 2 % 2], sum));
            } else {
                // It reads one register less.
                sums.update(|i, sum| part.element(i) + sum);
            }
        };

        let (mut sums, mut spare) = (Accumulator::<R>::zero(), Accumulator::<R>::zero());
        let mut begun = begin(Accumulator::zero(), first * Self::TILE_K, place);
        let mut k = (first + step) * Self::TILE_K;
        // Two sets of registers take turns, each in a part of the loop: what is in flight cannot be moved to others.
        loop {
            if k >= self.shape.k {
                add(&mut sums, &begun.part.wait(), begun.stage, begun.of_stage);
                break;
            }
            let next = begin(spare, k, place);
            // SAFETY: the batch of `next` is newer.
            let part = unsafe { begun.part.wait_beside_newer() };
            add(&mut sums, &part, begun.stage, begun.of_stage);
            k += step * Self::TILE_K;
            if k >= self.shape.k {
                add(&mut sums, &next.part.wait(), next.stage, next.of_stage);
                break;
            }
            begun = begin(part, k, place);
            // SAFETY: the batch of `begun` is newer.
            spare = unsafe { next.part.wait_beside_newer() };
            add(&mut sums, &spare, next.stage, next.of_stage);
            k += step * Self::TILE_K;
        }
        if self.shares_k() {
            *place = of_tile.far_after(self.shape.k.div_ceil(Self::TILE_K));
        }
        sums
    }
}

/// Registers of the sums of half of the columns of the widest tiles that are on two levels.
const HALF: usize = 48;

impl<C: Output, const R: usize> Block<'_, u8, C, R>
where
    [f32; R]: Registers,
{
    /// This thread's part of the product of 64 rows of the tile, on two levels, where registers for three sets of sums are not
    /// there: of either half of the columns the products of a stage are added while those of the other half go on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums_of_halves<T: MultiplyBy<U>, U: Operand>(&self, group: u32, place: &mut Place<R>) -> Accumulator<R> {
        let (a, b) = (self.a_of::<T, KMajor>(group), self.b_of::<U, KMajor>());
        let leads = thread::thread_idx_x().is_multiple_of(128);
        let begin = |part: Accumulator<HALF>, half: u32, stage: u32| {
            let b = |step: u32| b(stage, step).advance(half * (2 * HALF * LINE) as u32);
            // SAFETY: the stage is full, and is not filled again before both consumers have arrived at its barrier.
            unsafe {
                let part = part.start().mma_from_zero(a(stage, 0), b(0));
                let part = part.mma(a(stage, 1), b(1));
                let part = part.mma(a(stage, 2), b(2));
                part.mma(a(stage, 3), b(3)).commit()
            }
        };
        let add = |sums: &mut Accumulator<R>, part: &Accumulator<HALF>, half: usize| {
            sums.update(|i, sum| match i / HALF == half {
                true => part.element(i % HALF) + sum,
                false => sum,
            });
        };
        // As in `sums_of_stages`.
        let full = |place: &mut Place<R>| {
            let stage = warp::uniform(place.stage);
            self.full(stage).wait(place.round);
            *place = place.next();
            stage
        };
        let mut sums = Accumulator::<R>::zero();
        let (mut low, mut high) = (Accumulator::<HALF>::any(), Accumulator::<HALF>::any());
        let mut k = 0;
        while k < self.shape.k {
            let stage = full(place);
            let (of_low, of_high) = (begin(low, 0, stage), begin(high, 1, stage));
            // SAFETY: the batch of the other half is newer.
            low = unsafe { of_low.wait_beside_newer() };
            add(&mut sums, &low, 0);
            // The next stage's products do not begin before these are done, or the assembler would have none go on beside the
            // additions; meanwhile the other consumer's do.
            high = of_high.wait();
            self.free(stage).arrive_if(leads);
            add(&mut sums, &high, 1);
            k += Self::TILE_K;
        }
        sums
    }
}

/// The products of a stage on their way.
struct Begun<const R: usize> {
    part: InFlight<R>,
    stage: u32,
    of_stage: StageScales,
}

/// The scales of blocks that a stage's sums are multiplied with: in a thread's two rows, and of the tile's columns.
#[derive(Clone, Copy)]
pub(in crate::matmul) struct StageScales {
    of_rows: [f32; 2],
    of_columns: f32,
}

impl StageScales {
    /// What the sums of a thread's two rows are multiplied with.
    #[inline(always)]
    pub(in crate::matmul) fn factors(self) -> [f32; 2] {
        cuda_std::array::map(self.of_rows, |of_row| of_row * self.of_columns)
    }
}

impl Default for StageScales {
    #[inline(always)]
    fn default() -> Self {
        Self {
            of_rows: [1.0; 2],
            of_columns: 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_counted_by_rows_columns_and_blocks() {
        let extents = [2, 3, 200, 300];
        let rows_and_columns = ScalePlan {
            a: [3, 1, 0],
            b: [0, 1, 0],
            ..ScalePlan::default()
        };
        assert!(rows_and_columns.fits(extents, 6, 200) && rows_and_columns.fits(extents, 0, 0));
        assert!(!rows_and_columns.fits(extents, 5, 200) && !rows_and_columns.fits(extents, 6, 199));
        let blocks = ScalePlan {
            a: [9, 3, 1],
            b: [6, 1, 2],
            a_by_blocks: 1,
            b_by_blocks: 1,
            one_level: 0,
        };
        assert!(blocks.fits(extents, 18, 12));
        assert!(!blocks.fits(extents, 17, 12) && !blocks.fits(extents, 18, 11));
    }
}
