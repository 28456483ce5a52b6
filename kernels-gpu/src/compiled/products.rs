// SPDX-License-Identifier: MIT OR Apache-2.0
//! The families of few types: products of matrices, histograms, and additions where indices say.

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Kernel, Retyped, SafeKernel};
use cuda_std::param::ByValue;
use cuda_std::tma::{TensorMap, TensorMapMut};
use cuda_std::wgmma::{Operand, Tf32};
use cuda_std::{Slice, SliceMut};

use super::sealed::Sealed;
use crate::histogram::{
    self, CACHE, COLUMNS, COPIES, Channels, Plan, Sample, Search, Uniform, Value, Values, block_len,
};
use crate::index::in_order::{InOrderPlan, scatter_add_in_order};
use crate::index::scatter_add;
use crate::matmul::epilogue::{self, Activate, Activation, EpiloguePlan, SumsShape};
use crate::matmul::gemm::{self, KMajor, Large, Medium, MnMajor, Size, Small};
use crate::matmul::wgmma::fp8::{self, ScalePlan};
use crate::matmul::wgmma::{self, Input};
use crate::matmul::{MulAdd, dmma, gemv, grouped, mma, simt};
use crate::num::Num;
use crate::op::ReduceOp;

/// The parameters of [`gemm`](fn@gemm::gemm).
pub type GemmParams<T> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, T>,
    gemm::GemmShape,
    T,
    T,
    EpiloguePlan,
    &'static [T],
    &'static [T],
);

/// The parameters of [`gemv_rows`](fn@gemv::gemv_rows) and [`gemv_columns`](fn@gemv::gemv_columns).
pub type GemvParams<T, Y> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, Y>,
    gemv::GemvShape,
    <T as Num>::Wide,
    <T as Num>::Wide,
);

/// The parameters of [`gemv_combine`](fn@gemv::gemv_combine), of sums of type `W`.
pub type CombineParams<W, Y> = (&'static [W], SliceMut<'static, Y>, usize, [usize; 2], W, W);

/// Products of matrices of this type by tiles of size `S`: a kernel for each way that the operands lie, along k or not.
pub trait Gemm<S>: Pod + Send + Sync + ByValue {
    /// Rows and columns of a block's tile.
    const BLOCK_TILE: [usize; 2];
    /// [`Size::THREADS`]
    const THREADS: usize;
    /// [`Size::FINISHES`]
    const FINISHES: bool;
    /// Both along k.
    type AlongKK: SafeKernel<Params = GemmParams<Self>>;
    /// The left one along k, the right one along n.
    type AlongKN: SafeKernel<Params = GemmParams<Self>>;
    /// The left one along m, the right one along k.
    type AlongMK: SafeKernel<Params = GemmParams<Self>>;
    /// The left one along m, the right one along n.
    type AlongMN: SafeKernel<Params = GemmParams<Self>>;
}

/// The parameters of [`gemm_wgmma`](fn@wgmma::gemm_wgmma).
pub type WgmmaParams<T, C, F = Activation> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, C>,
    TensorMap<'static, C>,
    wgmma::WgmmaShape,
    f32,
    wgmma::addend::RingAddend,
    EpiloguePlan<F>,
    &'static [C],
    &'static [C],
);

/// The parameters of [`finish_sums`](fn@epilogue::finish_sums).
pub type FinishSumsParams<C, F = Activation> = (
    Slice<'static, <C as Num>::Wide>,
    SliceMut<'static, C>,
    SumsShape,
    <C as Num>::Wide,
    F,
    &'static [C],
    &'static [C],
);

/// The parameters of [`sum_parts`](fn@epilogue::parts::sum_parts).
pub type SumPartsParams<C> = (
    Slice<'static, <C as Num>::Wide>,
    SliceMut<'static, C>,
    u32,
    u32,
    u32,
    u32,
    u32,
);

/// Numbers of whose sums parts are added up.
pub trait SumParts: Num {
    /// What adds them up.
    type Kernel: Kernel<Params = SumPartsParams<Self>>;
}

/// Numbers whose sums in memory are finished with the function `F`.
///
/// Implemented by [`epilogue_kernels!`](crate::epilogue_kernels), as are [`HopperGemm`] and [`AmpereGemm`] with functions of
/// one's own.
#[diagnostic::on_unimplemented(
    message = "products of `{Self}` with the epilogue `{F}` are not compiled",
    note = "for an epilogue of your own: `kernels_gpu::epilogue_kernels!({F}: {Self});` in a kernels crate"
)]
pub trait FinishSums<F: 'static = Activation>: Num {
    /// What finishes them.
    type Kernel: Kernel<Params = FinishSumsParams<Self, F>>;
}

/// Products of matrices of this type on Hopper's tensor cores, with results of type `C` and an epilogue's function `F`: a
/// kernel for each width of tiles.
#[diagnostic::on_unimplemented(
    message = "products of `{Self}` with the epilogue `{F}` are not compiled",
    note = "for an epilogue of your own: `kernels_gpu::epilogue_kernels!({F}: {Self});` in a kernels crate"
)]
pub trait HopperGemm<C: 'static, F: 'static = Activation>: Input {
    /// 64 columns.
    type N64: Kernel<Params = WgmmaParams<<Self as Operand>::Element, C, F>>;
    /// 128 columns.
    type N128: Kernel<Params = WgmmaParams<<Self as Operand>::Element, C, F>>;
    /// 192 columns.
    type N192: Kernel<Params = WgmmaParams<<Self as Operand>::Element, C, F>>;
    /// 256 columns.
    type N256: Kernel<Params = WgmmaParams<<Self as Operand>::Element, C, F>>;
}

/// The parameters of [`gemm_wgmma_across`](fn@wgmma::across::gemm_wgmma_across).
pub type AcrossParams<T, F = Activation> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, T>,
    wgmma::WgmmaShape,
    f32,
    f32,
    u32,
    EpiloguePlan<F>,
    &'static [T],
    TensorMap<'static, T>,
);

/// Products of matrices of this type on Hopper's tensor cores that are computed as their transposes, with an epilogue's function
/// `F`: a kernel for each size of tiles.
#[diagnostic::on_unimplemented(
    message = "products of `{Self}` with the epilogue `{F}` are not compiled",
    note = "for an epilogue of your own: `kernels_gpu::epilogue_kernels!({F}: {Self});` in a kernels crate"
)]
pub trait AcrossGemm<F: 'static = Activation>: Pod {
    /// 64 columns of the result, 48 rows.
    type Tiles64By48: Kernel<Params = AcrossParams<Self, F>>;
    /// 192 columns, or 128, and 96 rows.
    type Tiles192By96: Kernel<Params = AcrossParams<Self, F>>;
    /// 64 columns, 112 rows, in clusters of four.
    type Tiles64By112: Kernel<Params = AcrossParams<Self, F>>;
    /// 128 columns, 112 rows.
    type Tiles128By112: Kernel<Params = AcrossParams<Self, F>>;
    /// 256 columns, 160 rows.
    type Tiles256By160: Kernel<Params = AcrossParams<Self, F>>;
    /// 256 columns, 168 rows.
    type Tiles256By168: Kernel<Params = AcrossParams<Self, F>>;
    /// 192 columns, 176 rows.
    type Tiles192By176: Kernel<Params = AcrossParams<Self, F>>;
}

macro_rules! across {
    ($($type:ident)*) => {$(
        impl AcrossGemm for $type {
            type Tiles64By48 = wgmma::across::gemm_wgmma_across<$type, 24>;
            type Tiles192By96 = wgmma::across::gemm_wgmma_across<$type, 48>;
            type Tiles64By112 = wgmma::across::gemm_wgmma_across_in_fours<$type, 56>;
            type Tiles128By112 = wgmma::across::gemm_wgmma_across<$type, 56>;
            type Tiles256By160 = wgmma::across::gemm_wgmma_across<$type, 80>;
            type Tiles256By168 = wgmma::across::gemm_wgmma_across<$type, 84>;
            type Tiles192By176 = wgmma::across::gemm_wgmma_across<$type, 88>;
        }
    )*};
}

across! { bf16 f16 }

/// The parameters of a [`gemm_wgmma`](fn@wgmma::gemm_wgmma) that reduces rows by `Op`: its own, and the partial values.
pub type WgmmaRowsParams<T, Op> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, T>,
    TensorMap<'static, T>,
    wgmma::WgmmaShape,
    f32,
    wgmma::addend::RingAddend,
    EpiloguePlan,
    &'static [T],
    &'static [T],
    SliceMut<'static, <Op as ReduceOp<T>>::Acc>,
);

/// The parameters of a kernel that does [`combine_rows`](epilogue::rows::combine_rows).
pub type CombineRowsParams<T, Op> = (
    &'static [<Op as ReduceOp<T>>::Acc],
    u64,
    SliceMut<'static, <Op as ReduceOp<T>>::Output>,
);

/// Products of matrices of this type on Hopper's tensor cores whose rows are reduced by `Op` as they are stored: a kernel for
/// each width of tiles.
///
/// Implemented by [`row_kernels!`](crate::row_kernels).
#[diagnostic::on_unimplemented(
    message = "products of `{Self}` with reductions of their rows by `{Op}` are not compiled",
    note = "`kernels_gpu::row_kernels!({Op}: {Self});` in a kernels crate does"
)]
pub trait HopperRows<Op: ReduceOp<Self>>: Pod + Send + Sync {
    /// 64 columns.
    type N64: Kernel<Params = WgmmaRowsParams<Self, Op>>;
    /// 128 columns.
    type N128: Kernel<Params = WgmmaRowsParams<Self, Op>>;
    /// 192 columns.
    type N192: Kernel<Params = WgmmaRowsParams<Self, Op>>;
    /// 256 columns.
    type N256: Kernel<Params = WgmmaRowsParams<Self, Op>>;
    /// What combines the partial values.
    type Combine: SafeKernel<Params = CombineRowsParams<Self, Op>>;
}

/// The parameters of [`gemm_fp8`](fn@fp8::gemm_fp8).
pub type Fp8Params<C> = (
    TensorMap<'static, u8>,
    TensorMap<'static, u8>,
    TensorMapMut<'static, C>,
    wgmma::WgmmaShape,
    EpiloguePlan,
    &'static [C],
    &'static [C],
    ScalePlan,
    &'static [f32],
    &'static [f32],
);

/// Products of matrices of this 8-bit float and those of `U` on Hopper's tensor cores, with results of type `C`: a kernel for
/// each width of tiles.
pub trait Fp8Gemm<U, C: 'static>: Pod {
    /// 64 columns.
    type N64: Kernel<Params = Fp8Params<C>>;
    /// 128 columns.
    type N128: Kernel<Params = Fp8Params<C>>;
    /// 192 columns, or, of types that have none, 128.
    type N192: Kernel<Params = Fp8Params<C>>;
    /// Whether there are 192.
    const HAS_192: bool;
    /// 256 columns, whose sums are the tensor cores' alone.
    type N256: Kernel<Params = Fp8Params<C>>;
}

macro_rules! fp8 {
    ($($type:ident by $other:ident, 192 as $wide:literal: $($result:ident)*;)*) => {$($(
        impl Fp8Gemm<$other, $result> for $type {
            type N64 = fp8::gemm_fp8<$type, $other, $result, 32>;
            type N128 = fp8::gemm_fp8<$type, $other, $result, 64>;
            type N192 = fp8::gemm_fp8<$type, $other, $result, $wide>;
            const HAS_192: bool = $wide == 96;
            type N256 = fp8::gemm_fp8<$type, $other, $result, 128>;
        }
    )*)*};
}

fp8! {
    F8E4M3 by F8E4M3, 192 as 96: bf16 f32;
    F8E4M3 by F8E5M2, 192 as 64: bf16 f32;
    F8E5M2 by F8E4M3, 192 as 64: bf16 f32;
}

/// The parameters of [`gemm_int8`](fn@wgmma::int8::gemm_int8).
pub type Int8Params = (
    TensorMap<'static, u8>,
    TensorMap<'static, u8>,
    TensorMapMut<'static, i32>,
    wgmma::WgmmaShape,
);

/// The parameters of [`gemm_simt`](fn@simt::gemm_simt).
pub type SimtParams = (
    TensorMap<'static, f32>,
    TensorMap<'static, f32>,
    SliceMut<'static, f32>,
    simt::SimtShape,
    f32,
    f32,
    EpiloguePlan,
    &'static [f32],
    &'static [f32],
    SliceMut<'static, f32>,
    SliceMut<'static, u32>,
);

/// The parameters of [`gemm_mma`](fn@mma::gemm_mma), with sums of type `S`.
pub type MmaParams<T, C, F = Activation, S = f32> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, C>,
    mma::MmaShape,
    S,
    S,
    EpiloguePlan<F>,
    &'static [C],
    &'static [C],
);

/// Products of matrices of this type on the tensor cores of Ampere and later, with results of type `C` and an epilogue's
/// function `F`: a kernel for each width of tiles.
#[diagnostic::on_unimplemented(
    message = "products of `{Self}` with the epilogue `{F}` are not compiled",
    note = "for an epilogue of your own: `kernels_gpu::epilogue_kernels!({F}: {Self});` in a kernels crate"
)]
pub trait AmpereGemm<C: 'static, F: 'static = Activation>: Operand {
    /// 64 columns.
    type N64: Kernel<Params = MmaParams<<Self as Operand>::Element, C, F>>;
    /// 128 columns.
    type N128: Kernel<Params = MmaParams<<Self as Operand>::Element, C, F>>;
    /// 256 columns.
    type N256: Kernel<Params = MmaParams<<Self as Operand>::Element, C, F>>;
}

/// The parameters of [`place_groups`](fn@grouped::place_groups).
pub type PlaceParams<O> = (
    &'static [O],
    grouped::GroupsShape,
    SliceMut<'static, grouped::Problem>,
    SliceMut<'static, u32>,
);

/// Integers that say where a group of rows ends: `i32` and `u64`.
pub trait RowNumber: Pod + Send + Sync + grouped::RowNumber {
    /// What makes problems of them.
    #[doc(hidden)]
    type Place: Kernel<Params = PlaceParams<Self>>;
}

/// The parameters of [`gemm_wgmma_grouped`](fn@wgmma::grouped::gemm_wgmma_grouped).
pub type WgmmaGroupedParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, T>,
    wgmma::WgmmaShape,
    &'static [grouped::Problem],
    &'static [u32],
);

/// The parameters of [`gemm_mma_grouped`](fn@mma::grouped::gemm_mma_grouped).
pub type MmaGroupedParams = (&'static [grouped::Problem], &'static [u32]);

/// Products of many shapes in one launch: `bf16` and `f16`.
pub trait GroupedGemm: Pod + Send + Sync {
    /// Of groups of rows on Hopper's tensor cores, by tiles of [`COLUMNS`](wgmma::grouped::COLUMNS).
    type Hopper: Kernel<Params = WgmmaGroupedParams<Self>>;
    /// Of any problems on those of Ampere and later.
    type Ampere: Kernel<Params = MmaGroupedParams>;
}

macro_rules! grouped {
    ($($number:ident)*; $($type:ident)*) => {
        $(impl RowNumber for $number {
            type Place = grouped::place_groups<$number>;
        })*
        $(impl GroupedGemm for $type {
            type Hopper = wgmma::grouped::gemm_wgmma_grouped<$type>;
            type Ampere = mma::grouped::gemm_mma_grouped<$type>;
        })*
    };
}

grouped! { i32 u64; bf16 f16 }

/// Results of products of matrices of `f16` on Turing's tensor cores: `f16`, `f32`.
pub trait TuringGemm: mma::Output {
    /// What multiplies.
    type Kernel: Kernel<Params = MmaParams<f16, Self>>;
}

impl TuringGemm for f16 {
    type Kernel = mma::turing::gemm_turing<f16>;
}

impl TuringGemm for f32 {
    type Kernel = mma::turing::gemm_turing<f32>;
}

/// The parameters of [`gemm_fp8_mma`](fn@mma::fp8::gemm_fp8_mma).
pub type Fp8MmaParams = (
    &'static [u8],
    &'static [u8],
    SliceMut<'static, f32>,
    mma::MmaShape,
    ScalePlan,
    &'static [f32],
    &'static [f32],
);

/// Products of matrices of this 8-bit float and those of `U` on the tensor cores of Ada and later.
pub trait AdaGemm<U>: Pod {
    /// The sums, scaled.
    type Kernel: Kernel<Params = Fp8MmaParams>;
}

impl AdaGemm<F8E4M3> for F8E4M3 {
    type Kernel = mma::fp8::gemm_fp8_mma<F8E4M3, F8E4M3>;
}

impl AdaGemm<F8E5M2> for F8E4M3 {
    type Kernel = mma::fp8::gemm_fp8_mma<F8E4M3, F8E5M2>;
}

impl AdaGemm<F8E4M3> for F8E5M2 {
    type Kernel = mma::fp8::gemm_fp8_mma<F8E5M2, F8E4M3>;
}

/// The parameters of [`gemm_dmma`](fn@dmma::gemm_dmma).
pub type DmmaParams = (
    TensorMap<'static, f64>,
    TensorMap<'static, f64>,
    SliceMut<'static, f64>,
    dmma::DmmaShape,
    f64,
    f64,
    EpiloguePlan,
    &'static [f64],
    &'static [f64],
    SliceMut<'static, f64>,
    SliceMut<'static, u32>,
);

/// The element types of the tiled product for any GPU: `f32`, `f64`, `i32`.
pub trait Tiled: Sealed + MulAdd + Activate + Gemm<Large> + Gemm<Medium> + Gemm<Small> {}

impl<T: Sealed + MulAdd + Activate + Gemm<Large> + Gemm<Medium> + Gemm<Small>> Tiled for T {}

/// The element types of products of matrices and vectors: `f32`, `f64`, `i32`, `f16`, `bf16`.
///
/// Those of 32 and 64 bits are multiplied and added in their own type, floats by fused multiply-add, integers modulo 2^32;
/// those of 16 bits in `f32`, and the result is rounded once.
pub trait MatVec: Sealed + Num<Wide: MulAdd + ByValue> {
    /// Matrix times vector, a warp for each row.
    #[doc(hidden)]
    type GemvRows: SafeKernel<Params = GemvParams<Self, Self>>;
    /// Matrix times vector, a lane for each row.
    #[doc(hidden)]
    type GemvColumns: SafeKernel<Params = GemvParams<Self, Self>>;
    /// The sums of matrix times vector, or of chunks of the rows, a warp for each.
    #[doc(hidden)]
    type SumRows: SafeKernel<Params = GemvParams<Self, Self::Wide>>;
    /// The same, a lane for each.
    #[doc(hidden)]
    type SumColumns: SafeKernel<Params = GemvParams<Self, Self::Wide>>;
    /// The sums of rows that were cut.
    #[doc(hidden)]
    type GemvCombine: SafeKernel<Params = CombineParams<Self::Wide, Self>>;
}

/// The parameters of [`scatter_add`](fn@scatter_add).
pub type ScatterAddParams<T> = (&'static [T], &'static [u64], usize, usize, SliceMut<'static, T>);

/// The element types that are added to atomically: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
pub trait ScatterAdd: Sealed + Pod + Send + Sync {
    /// Adds where indices say.
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = ScatterAddParams<Self>>;
}

macro_rules! scatter_add {
    ($($type:ident as $bits:ident,)*) => {$(
        impl ScatterAdd for $type {
            type Kernel = Retyped<scatter_add<$bits>, ScatterAddParams<$type>>;
        }
    )*};
}

scatter_add! {
    f32 as f32,
    f64 as f64,
    i32 as u32,
    i64 as u64,
    u32 as u32,
    u64 as u64,
}

/// The parameters of [`scatter_add_in_order`](fn@scatter_add_in_order).
pub type ScatterAddInOrderParams<T> = (
    &'static [T],
    &'static [u64],
    usize,
    usize,
    InOrderPlan,
    SliceMut<'static, T>,
);

/// The element types that are added to in order, which makes a difference: `f32` and `f64`.
pub trait ScatterAddInOrder: ScatterAdd {
    /// Adds where indices say, one value after another.
    #[doc(hidden)]
    type InOrder: SafeKernel<Params = ScatterAddInOrderParams<Self>>;
}

impl ScatterAddInOrder for f32 {
    type InOrder = scatter_add_in_order<f32>;
}

impl ScatterAddInOrder for f64 {
    type InOrder = scatter_add_in_order<f64>;
}

/// The parameters of [`histogram`](fn@histogram::histogram).
pub type BinsParams<T> = (
    &'static [T],
    Plan,
    &'static [T],
    SliceMut<'static, u32>,
    SliceMut<'static, u64>,
);

/// The parameters of [`bincount`](fn@histogram::bincount).
pub type ValuesParams<T> = (&'static [T], Plan, SliceMut<'static, u32>, SliceMut<'static, u64>);

/// Histograms of elements of this type, whose bins are found by rule `F`: a kernel for each way to count. Bytes of one channel
/// are always counted in columns, and have that one kernel; `i32` have those of `u32`.
pub trait CountBins<F>: Pod + Send + Sync {
    /// [`block_len`] of each kernel, in this order.
    const BLOCK_LENS: [usize; 3];
    /// [`COLUMNS`]
    type InColumns: SafeKernel<Params = BinsParams<Self>>;
    /// [`COPIES`]
    type InCopies: SafeKernel<Params = BinsParams<Self>>;
    /// [`CACHE`]
    type InCache: SafeKernel<Params = BinsParams<Self>>;
}

/// Counts of values of this type: a kernel for each way to count, and for bytes the one in columns; for `i32` those of `u32`, to which
/// negative numbers are beyond the last value.
pub trait CountValues: Sample + Value {
    /// [`block_len`] of each kernel, in this order.
    const BLOCK_LENS: [usize; 3];
    /// [`COLUMNS`]
    type InColumns: SafeKernel<Params = ValuesParams<Self>>;
    /// [`COPIES`]
    type InCopies: SafeKernel<Params = ValuesParams<Self>>;
    /// [`CACHE`]
    type InCache: SafeKernel<Params = ValuesParams<Self>>;
}

/// The kernels of a family for each of the types and each of the sizes or rules: `family: [types] by [them]`.
macro_rules! compiled {
    ($($family:ident: [$($type:ty),*] by $cases:tt;)*) => { $($(compiled!(@each $family $type, $cases);)*)* };
    (@each $family:ident $type:ty, [$($case:tt),*]) => { $(compiled!(@$family $type, $case);)* };
    (@gemm $type:ty, $size:ident) => {
        impl Gemm<$size> for $type {
            const BLOCK_TILE: [usize; 2] = <$size as Size<$type>>::BLOCK_TILE;
            const THREADS: usize = <$size as Size<$type>>::THREADS;
            const FINISHES: bool = <$size as Size<$type>>::FINISHES;
            type AlongKK = gemm::gemm<$type, $size, KMajor, KMajor>;
            type AlongKN = gemm::gemm<$type, $size, KMajor, MnMajor>;
            type AlongMK = gemm::gemm<$type, $size, MnMajor, KMajor>;
            type AlongMN = gemm::gemm<$type, $size, MnMajor, MnMajor>;
        }
    };
    (@vectors $type:ty, _) => {
        impl MatVec for $type {
            type GemvRows = gemv::gemv_rows<$type, $type>;
            type GemvColumns = gemv::gemv_columns<$type, $type>;
            type SumRows = gemv::gemv_rows<$type, <$type as Num>::Wide>;
            type SumColumns = gemv::gemv_columns<$type, <$type as Num>::Wide>;
            type GemvCombine = gemv::gemv_combine<$type>;
        }
    };
    (@hopper $type:ty, $result:ident) => {
        impl HopperGemm<$result> for $type {
            type N64 = wgmma::gemm_wgmma<$type, $result, 32>;
            type N128 = wgmma::gemm_wgmma<$type, $result, 64>;
            type N192 = wgmma::gemm_wgmma<$type, $result, 96>;
            type N256 = wgmma::gemm_wgmma<$type, $result, 128>;
        }
    };
    (@ampere $type:ty, $result:ident) => {
        impl AmpereGemm<$result> for $type {
            type N64 = mma::gemm_mma<$type, $result, 64>;
            type N128 = mma::gemm_mma<$type, $result, 128>;
            type N256 = mma::gemm_mma<$type, $result, 256>;
        }
    };
    (@finish_sums $type:ty, _) => {
        impl FinishSums for $type {
            type Kernel = epilogue::finish_sums<$type>;
        }
    };
    (@sum_parts $type:ty, _) => {
        impl SumParts for $type {
            type Kernel = epilogue::parts::sum_parts<$type>;
        }
    };
    (@bins $type:ty, $rule:ident) => {
        impl CountBins<$rule> for $type {
            const BLOCK_LENS: [usize; 3] = [
                block_len::<$type, $rule, COLUMNS>(),
                block_len::<$type, $rule, COPIES>(),
                block_len::<$type, $rule, CACHE>(),
            ];
            type InColumns = histogram::histogram<$type, $rule, COLUMNS>;
            type InCopies = histogram::histogram<$type, $rule, COPIES>;
            type InCache = histogram::histogram<$type, $rule, CACHE>;
        }
    };
    (@bins_of_u32 $type:ty, $rule:ident) => {
        impl CountBins<$rule> for $type {
            const BLOCK_LENS: [usize; 3] = <u32 as CountBins<$rule>>::BLOCK_LENS;
            type InColumns = Retyped<<u32 as CountBins<$rule>>::InColumns, BinsParams<$type>>;
            type InCopies = Retyped<<u32 as CountBins<$rule>>::InCopies, BinsParams<$type>>;
            type InCache = Retyped<<u32 as CountBins<$rule>>::InCache, BinsParams<$type>>;
        }
    };
    (@bins_in_columns $type:ty, $rule:ident) => {
        impl CountBins<$rule> for $type {
            const BLOCK_LENS: [usize; 3] = [block_len::<$type, $rule, COLUMNS>(); 3];
            type InColumns = histogram::histogram<$type, $rule, COLUMNS>;
            type InCopies = histogram::histogram<$type, $rule, COLUMNS>;
            type InCache = histogram::histogram<$type, $rule, COLUMNS>;
        }
    };
    (@values $type:ty, _) => {
        impl CountValues for $type {
            const BLOCK_LENS: [usize; 3] = [
                block_len::<$type, Values, COLUMNS>(),
                block_len::<$type, Values, COPIES>(),
                block_len::<$type, Values, CACHE>(),
            ];
            type InColumns = histogram::bincount<$type, COLUMNS>;
            type InCopies = histogram::bincount<$type, COPIES>;
            type InCache = histogram::bincount<$type, CACHE>;
        }
    };
    (@values_of_u32 $type:ty, _) => {
        impl CountValues for $type {
            const BLOCK_LENS: [usize; 3] = <u32 as CountValues>::BLOCK_LENS;
            type InColumns = Retyped<<u32 as CountValues>::InColumns, ValuesParams<$type>>;
            type InCopies = Retyped<<u32 as CountValues>::InCopies, ValuesParams<$type>>;
            type InCache = Retyped<<u32 as CountValues>::InCache, ValuesParams<$type>>;
        }
    };
    (@values_in_columns $type:ty, _) => {
        impl CountValues for $type {
            const BLOCK_LENS: [usize; 3] = [block_len::<$type, Values, COLUMNS>(); 3];
            type InColumns = histogram::bincount<$type, COLUMNS>;
            type InCopies = histogram::bincount<$type, COLUMNS>;
            type InCache = histogram::bincount<$type, COLUMNS>;
        }
    };
}

compiled! {
    gemm: [f32, f64, i32] by [Large, Medium, Small];
    vectors: [f32, f64, i32, f16, bf16] by [_];
    hopper: [bf16] by [bf16, f32];
    hopper: [f16] by [f16, f32];
    hopper: [Tf32] by [f32];
    ampere: [bf16] by [bf16, f32];
    ampere: [f16] by [f16, f32];
    ampere: [Tf32] by [f32];
    finish_sums: [f32, f64, i32, f16, bf16] by [_];
    sum_parts: [f32, i32, f16, bf16] by [_];
    bins: [f32, f64, u16, u32] by [Uniform, Channels, Search];
    bins_of_u32: [i32] by [Uniform, Channels, Search];
    bins: [u8] by [Channels];
    bins_in_columns: [u8] by [Uniform, Search];
    values: [u16, u32] by [_];
    values_of_u32: [i32] by [_];
    values_in_columns: [u8] by [_];
}
