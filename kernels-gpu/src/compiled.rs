// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is compiled: for each family of kernels, the operators and element types that there are entries for. Not present
//! on the device.
//!
//! A family is a trait of the element type, with the operator as its parameter and the kernels' handles as associated
//! types: `f32: Reduce<Sum>` says that sums of `f32` are compiled, and which kernels compute them. The host's primitives
//! are generic over the operator by these traits. The table at the end implements them for the library's operators;
//! [`operator_kernels!`](crate::operator_kernels) does for those of other crates. There is no implementation for all
//! operators at once, which would leave no room for those.

mod attention;
mod convolve;
mod made;
mod products;
mod rows;

use core::fmt::Display;

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Retyped, SafeKernel, SameBits};
use cuda_std::param::ByValue;
use cuda_std::scalar::{Scalar, ScalarType};
use cuda_std::{Slice, SliceMut};

use crate::num::{MulAdd, Num};
use crate::op::*;
use crate::reduce::{ColumnPlan, RowPlan};
use crate::scan::{Lines, blelloch};
use crate::{binary, create, map, reduce, scan, select};

pub use attention::{
    AmpereAttention, AmpereAttentionParams, AmpereGradientsParams, Attention, AttentionDecode, AttentionDecodeParams,
    AttentionDecodeTensor, AttentionParams, BiasGradientParams, GradientsOfQueriesParams, GradientsOfSumsParams,
    HopperAttention, HopperAttentionParams, HopperGradientsParams,
};
pub use convolve::{
    AmpereConvolve, AmpereConvolveParams, AmpereConvolveWeightsParams, Convolve, ConvolveParams, ConvolveTiled,
    DepthwiseParams, DepthwisePatchesParams, DepthwiseWeightsParams, HopperConvolve, HopperConvolveAcrossParams,
    HopperConvolveParams, HopperConvolveWeightsParams, HopperPatchesParams,
};
pub use made::{RandomFloat, RandomInteger, Range};
pub use products::{
    AcrossGemm, AcrossParams, AdaGemm, AmpereGemm, BinsParams, CombineParams, CombineRowsParams, CountBins,
    CountValues, DmmaParams, FinishSums, FinishSumsParams, Fp8Gemm, Fp8MmaParams, Fp8Params, Gemm, GemmParams,
    GemvParams, GroupedGemm, HopperGemm, HopperRows, Int8Params, MatVec, MmaGroupedParams, MmaParams, PlaceParams,
    RowNumber, ScatterAdd, ScatterAddInOrder, ScatterAddInOrderParams, ScatterAddParams, SimtParams, SumParts,
    SumPartsParams, Tiled, TuringGemm, ValuesParams, WgmmaGroupedParams, WgmmaParams, WgmmaRowsParams,
};
pub use rows::{
    CountDigitsParams, MaxPoolGradientParams, MoveByDigitParams, Pool, PoolParams, SearchSortedParams, Sort,
    SortRowsParams, TopK, TopKParams, TopKRowsParams,
};

/// The parameters of [`reduce()`](crate::reduce::reduce()), and with a [`ColumnPlan`] those of
/// [`reduce_columns()`](crate::reduce::reduce_columns()).
pub type ReduceParams<T, Op, Plan> = (
    &'static [T],
    Plan,
    SliceMut<'static, <Op as ReduceOp<T>>::Acc>,
    SliceMut<'static, u32>,
    SliceMut<'static, <Op as ReduceOp<T>>::Output>,
);

/// The parameters of [`lookback::scan`](fn@crate::scan::lookback::scan).
pub type LookBackParams<T, R> = (&'static [T], usize, u32, SliceMut<'static, u64>, SliceMut<'static, R>);

/// The parameters of [`scan_rows`](fn@crate::scan::scan_rows).
pub type ScanRowsParams<T, R> = (&'static [T], Lines, u32, u32, SliceMut<'static, R>);

/// The parameters of [`scan_columns`](fn@crate::scan::scan_columns).
pub type ScanColumnsParams<T, R> = (
    &'static [T],
    Lines,
    u32,
    u32,
    SliceMut<'static, u64>,
    SliceMut<'static, R>,
);

/// The parameters of [`scan_tree`](fn@crate::scan::scan_tree).
pub type ScanTreeParams<T, A, R> = (&'static [T], u32, SliceMut<'static, A>, SliceMut<'static, R>);

/// The parameters of a kernel with two operands that lie as the output does.
pub type DenseParams<T, U> = (Slice<'static, T>, Slice<'static, T>, SliceMut<'static, U>);

/// The parameters of a kernel of one operand.
pub type MapParams<T, U> = (Slice<'static, T>, SliceMut<'static, U>);

/// The parameters of [`select`](fn@select::select).
pub type SelectParams<T> = (
    Slice<'static, u8>,
    Slice<'static, T>,
    Slice<'static, T>,
    SliceMut<'static, T>,
);

/// The type of the results of `Op`.
type Output<T, Op> = <Op as ReduceOp<T>>::Output;

/// Reductions by `Op` of elements of this type.
///
/// Implemented by [`operator_kernels!`](crate::operator_kernels). An implementation by hand names kernels that do
/// nothing but call [`reduce()`](crate::reduce::reduce()) and [`reduce_columns()`](crate::reduce::reduce_columns()) for
/// `Op`: with others, this launch and later ones, which find the counters that they have left, give wrong results or
/// do not end.
#[diagnostic::on_unimplemented(
    message = "reductions of `{Self}` by `{Op}` are not compiled",
    note = "for an operator of your own: `kernels_gpu::operator_kernels!({Op}: {Self} => reduce);` in a kernels crate"
)]
pub trait Reduce<Op: ReduceOp<Self>>: Pod + Send + Sync {
    /// What the kernels are told beside the count, in a bit that no count has.
    #[doc(hidden)]
    const COUNT_FLAG: u64 = 0;
    /// Where the elements of a result lie side by side.
    type Rows: SafeKernel<Params = ReduceParams<Self, Op, RowPlan>>;
    /// Where they do not.
    type Columns: SafeKernel<Params = ReduceParams<Self, Op, ColumnPlan>>;
}

/// Scans by `Op` of elements of this type.
///
/// Implemented by [`operator_kernels!`](crate::operator_kernels). An implementation by hand names kernels that do
/// nothing but call [`lookback::scan`](fn@crate::scan::lookback::scan), [`scan_rows`](fn@crate::scan::scan_rows) and
/// [`scan_columns`](fn@crate::scan::scan_columns) for `Op`, the last one as `Few`, too: with others, this launch and later
/// ones, which find the states that they have left, give wrong results or do not end.
#[diagnostic::on_unimplemented(
    message = "scans of `{Self}` by `{Op}` are not compiled",
    note = "for an operator of your own: `kernels_gpu::operator_kernels!({Op}: {Self} => scan);` in a kernels crate"
)]
pub trait Scan<Op: ReduceOp<Self>>: Pod + Send + Sync {
    /// Of a whole array or long rows.
    type LookBack: SafeKernel<Params = LookBackParams<Self, Op::Output>>;
    /// Of short rows.
    type Rows: SafeKernel<Params = ScanRowsParams<Self, Op::Output>>;
    /// Of columns.
    type Columns: SafeKernel<Params = ScanColumnsParams<Self, Op::Output>>;
    /// Whether the next one is [`scan_few`](fn@crate::scan::scan_few).
    #[doc(hidden)]
    const HAS_FEW: bool = false;
    /// Of a few long columns that lie side by side; or else that of columns.
    #[doc(hidden)]
    type Few: SafeKernel<Params = ScanColumnsParams<Self, Op::Output>>;
}

/// Scans by `Op` with the same bits on every run, by Blelloch's tree: those of [`Sum`], [`Product`], [`Min`] and [`Max`].
#[diagnostic::on_unimplemented(message = "scans of `{Self}` by `{Op}` with Blelloch's tree are not compiled")]
pub trait ScanTree<Op>: Pod + Send + Sync {
    /// What the elements are combined in, the totals of tiles too, which are scanned in turn.
    type Acc: ScanTree<Op, Acc = Self::Acc, Output = Self::Acc>;
    /// What the result is.
    type Output: Pod + Send + Sync;
    /// [`blelloch::tile_len`]
    const TILE: usize;
    /// The kernel.
    type Tree: SafeKernel<Params = ScanTreeParams<Self, Self::Acc, Self::Output>>;
}

/// The function `Op` of each element of this type.
#[diagnostic::on_unimplemented(message = "`{Op}` of each element is not compiled for `{Self}`")]
pub trait Map<Op>: Pod + Send + Sync {
    /// Elements that a block treats.
    const TILE: usize;
    /// The kernel.
    type Kernel: SafeKernel<Params = MapParams<Self, Self>>;
}

/// An operator of two operands as a value, by the name of its type in [`op`](crate::op): which function of numbers it is, for what is
/// computed by an expression.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    Minimum,
    Maximum,
    Pow,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Operation `Op` on two operands of this type.
#[diagnostic::on_unimplemented(message = "`{Op}` of two operands is not compiled for `{Self}`")]
pub trait Binary<Op>: Scalar + Pod {
    /// The operator, of operands that are not two such arrays as below.
    #[doc(hidden)]
    const OPERATOR: Operator;
    /// Two arrays that lie as the output does.
    type ArrayArray: SafeKernel<Params = DenseParams<Self, Self>>;
}

/// Operation `Op` on one number and an array: of the operators that do not commute.
pub trait ScalarFirst<Op>: Binary<Op> {}

/// Comparison `Op` of elements of this type, to 1 and 0.
#[diagnostic::on_unimplemented(message = "comparisons `{Op}` are not compiled for `{Self}`")]
pub trait Compare<Op>: Scalar + Pod {
    /// The operator.
    #[doc(hidden)]
    const OPERATOR: Operator;
}

/// An element type that can be cast to `U`: any two of `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`
/// and `u64`, also the same; an 8-bit float and one of `f32`, `f16` and `bf16`, either way; `i8` and one of `i32` and `f32`,
/// either way.
pub trait CastTo<U: Pod>: Pod + Send + Sync {
    /// This type and that one, as values.
    #[doc(hidden)]
    const TYPES: [ScalarType; 2];
}

/// A function of the elements of one to four arrays, made by [`elementwise!`](crate::elementwise!).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no elementwise function",
    note = "`kernels_gpu::elementwise!` makes one"
)]
pub trait Elementwise: 'static {
    /// The types of the elements, as a tuple.
    type Inputs;
    /// The type of the result.
    type Output: Pod + Send + Sync;
    /// Elements that a block treats.
    const TILE: usize;
    /// The kernel: a [`Slice`] for each input, and a [`SliceMut`] for the output.
    type Kernel: SafeKernel;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The element types of the library's operations: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32` and
/// `u64`.
///
/// Integers wrap around on overflow; a division by zero gives 0 for integers, and what IEEE 754 says for floats. 16-bit
/// floats are computed in `f32` and rounded once. The type of a sum, a product and their scans is
/// [`T::Total`](Num::Total): the float itself, `i64` for signed integers, `u64` for unsigned ones. That of a mean, a
/// variance and a standard deviation is [`T::Mean`](Statistic::Mean): the float itself, and `f64` for integers.
pub trait Number:
    sealed::Sealed
    + Ordered<Wide: Ordered>
    + Num<Total: Num<Total = <Self as Num>::Total> + Reduce<Sum> + Reduce<Product>>
    + Statistic<Mean: Statistic<Mean = <Self as Statistic>::Mean> + Reduce<Mean>>
    + MulAdd
    + ByValue
    + Range
    + PartialOrd
    + Display
    + Reduce<Sum>
    + Reduce<Product>
    + Reduce<Min>
    + Reduce<Max>
    + Reduce<Mean>
    + Reduce<WideSum>
    + Reduce<Variance>
    + Reduce<Moments>
    + Reduce<Std>
    + Reduce<ArgMin>
    + Reduce<ArgMax>
    + Reduce<Any>
    + Reduce<All>
    + Scan<Sum>
    + Scan<Product>
    + Scan<Min>
    + Scan<Max>
    + ScanTree<Sum, Output = <Self as Num>::Total>
    + ScanTree<Product, Output = <Self as Num>::Total>
    + ScanTree<Min, Output = Self>
    + ScanTree<Max, Output = Self>
    + Map<Neg>
    + Map<Abs>
    + Map<Square>
    + Map<Relu>
    + Binary<Add>
    + Binary<Mul>
    + Binary<Minimum>
    + Binary<Maximum>
    + ScalarFirst<Sub>
    + ScalarFirst<Div>
    + ScalarFirst<Pow>
    + Compare<Equal>
    + Compare<NotEqual>
    + Compare<Less>
    + Compare<LessEqual>
    + Compare<Greater>
    + Compare<GreaterEqual>
{
    /// Selection by a mask, where all operands lie as the output does.
    #[doc(hidden)]
    type Select: SafeKernel<Params = SelectParams<Self>>;
}

/// The element types of the functions that only floats have: `f32`, `f64`, `f16` and `bf16`.
///
/// 16-bit floats are computed in `f32` and rounded once.
pub trait Real:
    Number + create::Range<Exact = f64> + Map<Sqrt> + Map<Exp> + Map<Ln> + Map<Sin> + Map<Cos> + Map<Tanh> + Map<Sigmoid>
{
}

impl Real for f32 {}
impl Real for f64 {}
impl Real for f16 {}
impl Real for bf16 {}

// SAFETY (of both): the same type.
unsafe impl SameBits<Moments> for Moments {}
unsafe impl SameBits<Ranked> for Ranked {}

/// The kernels of a family for each of the types and each of the operators: `family: [types] by [operators]`. A type may
/// have the kernels of another, whose bits they treat alike: `(i32 as u32)`.
macro_rules! compiled {
    ($($family:ident: [$($type:tt),*] by $operators:tt;)*) => { $($(compiled!(@each $family $type, $operators);)*)* };
    (@each $family:ident ($type:ident as $bits:ident), [$($operator:tt),*]) => {
        $(compiled!(@$family $type as $bits, $operator);)*
    };
    (@each $family:ident $type:ident, [$($operator:tt),*]) => { $(compiled!(@$family $type as $type, $operator);)* };
    (@reduce $type:ident as $bits:ident, $operator:ident) => {
        impl Reduce<$operator> for $type {
            type Rows = Retyped<reduce::reduce<$bits, $operator>, ReduceParams<$type, $operator, RowPlan>>;
            type Columns = Retyped<reduce::reduce_columns<$bits, $operator>, ReduceParams<$type, $operator, ColumnPlan>>;
        }
    };
    (@std $type:ident as $bits:ident, _) => {
        impl Reduce<Std> for $type {
            const COUNT_FLAG: u64 = ROOT;
            type Rows = <$bits as Reduce<Variance>>::Rows;
            type Columns = <$bits as Reduce<Variance>>::Columns;
        }
    };
    // A mean of one element, as it were, which is not rounded.
    (@wide_sum $type:ident as $bits:ident, _) => {
        impl Reduce<WideSum> for $type {
            type Rows = <$type as Reduce<Mean>>::Rows;
            type Columns = <$type as Reduce<Mean>>::Columns;
        }
    };
    (@scan $type:ident as $bits:ident, $operator:ident) => {
        impl Scan<$operator> for $type {
            type LookBack = Retyped<scan::scan<$bits, $operator>, LookBackParams<$type, Output<$type, $operator>>>;
            type Rows = Retyped<scan::scan_rows<$bits, $operator>, ScanRowsParams<$type, Output<$type, $operator>>>;
            type Columns =
                Retyped<scan::scan_columns<$bits, $operator>, ScanColumnsParams<$type, Output<$type, $operator>>>;
            compiled!(@few $type as $bits, $operator);
        }

        impl ScanTree<$operator> for $type {
            type Acc = <$operator as ReduceOp<$type>>::Acc;
            type Output = Output<$type, $operator>;
            const TILE: usize = blelloch::tile_len::<$type, $operator>();
            type Tree = Retyped<scan::scan_tree<$bits, $operator>, ScanTreeParams<$type, Self::Acc, Self::Output>>;
        }
    };
    (@few $type:ident as $bits:ident, Sum) => {
        const HAS_FEW: bool = true;
        type Few = Retyped<scan::scan_few<$bits, Sum>, ScanColumnsParams<$type, Output<$type, Sum>>>;
    };
    (@few $type:ident as $bits:ident, $operator:ident) => {
        type Few = <Self as Scan<$operator>>::Columns;
    };
    (@map $type:ident as $bits:ident, ($operator:ident as $same:ident)) => {
        impl Map<$operator> for $type {
            const TILE: usize = map::tile_len::<$type, $type>();
            type Kernel = Retyped<map::map<$bits, $same>, MapParams<$type, $type>>;
        }
    };
    (@map $type:ident as $bits:ident, $operator:ident) => {
        compiled!(@map $type as $bits, ($operator as $operator));
    };
    (@map_float $type:ident as $bits:ident, $operator:ident) => {
        impl Map<$operator> for $type {
            const TILE: usize = map::float_tile_len::<$type>();
            type Kernel = map::map_float<$bits, $operator>;
        }
    };
    (@binary $type:ident as $bits:ident, $operator:ident) => {
        impl Binary<$operator> for $type {
            const OPERATOR: Operator = Operator::$operator;
            type ArrayArray = Retyped<binary::binary<$bits, $operator>, DenseParams<$type, $type>>;
        }
    };
    (@scalar_first $type:ident as $bits:ident, $operator:ident) => {
        impl ScalarFirst<$operator> for $type {}
    };
    (@compare $type:ident as $bits:ident, $operator:ident) => {
        impl Compare<$operator> for $type {
            const OPERATOR: Operator = Operator::$operator;
        }
    };
    (@cast $type:ident as $bits:ident, $to:ident) => {
        impl CastTo<$to> for $type {
            const TYPES: [ScalarType; 2] = [<$type as Scalar>::TYPE, <$to as Scalar>::TYPE];
        }
    };
    (@number $type:ident as $bits:ident, _) => {
        impl sealed::Sealed for $type {}

        impl Number for $type {
            type Select = Retyped<select::select<$bits>, SelectParams<$type>>;
        }
    };
}

compiled! {
    number: [
        (f32 as u32), (f64 as u64), (f16 as u16), (bf16 as u16), (i32 as u32), (i64 as u64), u8, u16, u32, u64
    ] by [_];
    reduce: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Min, Max, Mean, Variance, Moments, ArgMin, ArgMax];
    reduce: [f32, f16, bf16] by [WideSum];
    wide_sum: [f64, i32, i64, u8, u16, u32, u64] by [_];
    reduce: [Moments] by [Variance];
    reduce: [f32, f64, f16, bf16, i32, (i64 as u64), u8, u16, u32, u64] by [Sum, Product];
    reduce: [f32, f64, f16, (bf16 as f16), (i32 as u32), (i64 as u64), u8, u16, u32, u64] by [Any, All];
    std: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [_];
    scan: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Min, Max];
    scan: [f32, f64, f16, bf16, i32, (i64 as u64), u8, u16, u32, u64] by [Sum, Product];
    map: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Abs];
    map: [f32, f64, f16, bf16, (i32 as u32), (i64 as u64), u8, u16, u32, u64] by [Neg, Square];
    map: [f32, f64, f16, bf16, i32, i64] by [Relu];
    map: [u8, u16, u32, u64] by [(Relu as Abs)];
    map_float: [f32, f64, f16, bf16] by [Sqrt, Exp, Ln, Sin, Cos, Tanh, Sigmoid];
    binary: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Div, Minimum, Maximum, Pow];
    binary: [f32, f64, f16, bf16, (i32 as u32), (i64 as u64), u8, u16, u32, u64] by [Add, Sub, Mul];
    scalar_first: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Sub, Div, Pow];
    compare: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [
        Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual
    ];
    cast: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64];
    cast: [f32, f16, bf16] by [F8E4M3, F8E5M2];
    cast: [F8E4M3, F8E5M2] by [f32, f16, bf16];
    cast: [i8] by [f32, i32];
    cast: [f32, i32] by [i8];
}
