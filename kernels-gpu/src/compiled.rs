// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is compiled: for each family of kernels, the operators and element types that there are entries for. Not present
//! on the device.
//!
//! A family is a trait of the element type, with the operator as its parameter and the kernels' handles as associated
//! types: `f32: Reduce<Sum>` says that sums of `f32` are compiled, and which kernels compute them. The host's primitives
//! are generic over the operator by these traits. The table at the end implements them for the library's operators;
//! [`operator_kernels!`](crate::operator_kernels) does for those of other crates. There is no implementation for all
//! operators at once, which would leave no room for those.

mod products;

use core::fmt::Display;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::SafeKernel;
use cuda_std::param::ByValue;
use cuda_std::{Slice, SliceMut};

use crate::broadcast::{OutputAxes, Strides};
use crate::num::{MulAdd, Num};
use crate::op::*;
use crate::reduce::{ColumnPlan, RowPlan};
use crate::scan::blelloch;
use crate::{binary, broadcast, cast, compare, map, reduce, scan, select};

pub use products::{CountBins, CountValues, Gemm, GemmParams, GemvParams, MatMul};

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
pub type ScanRowsParams<T, R> = (&'static [T], usize, usize, u32, SliceMut<'static, R>);

/// The parameters of [`scan_columns`](fn@crate::scan::scan_columns).
pub type ScanColumnsParams<T, R> = (
    &'static [T],
    usize,
    usize,
    usize,
    u32,
    u32,
    SliceMut<'static, u64>,
    SliceMut<'static, R>,
);

/// The parameters of [`scan_tree`](fn@crate::scan::scan_tree).
pub type ScanTreeParams<T, A, R> = (&'static [T], u32, SliceMut<'static, A>, SliceMut<'static, R>);

/// The parameters of a kernel with two operands that lie as the output does.
pub type DenseParams<T, U> = (Slice<'static, T>, Slice<'static, T>, SliceMut<'static, U>);

/// The parameters of a kernel with two operands that lie otherwise.
pub type StridedParams<T, U> = (
    OutputAxes,
    Slice<'static, T>,
    Strides,
    Slice<'static, T>,
    Strides,
    SliceMut<'static, U>,
);

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
    /// Where the elements of a result lie side by side.
    type Rows: SafeKernel<Params = ReduceParams<Self, Op, RowPlan>>;
    /// Where they do not.
    type Columns: SafeKernel<Params = ReduceParams<Self, Op, ColumnPlan>>;
}

/// Scans by `Op` of elements of this type.
///
/// Implemented by [`operator_kernels!`](crate::operator_kernels). An implementation by hand names kernels that do
/// nothing but call [`lookback::scan`](fn@crate::scan::lookback::scan), [`scan_rows`](fn@crate::scan::scan_rows) and
/// [`scan_columns`](fn@crate::scan::scan_columns) for `Op`: with others, this launch and later ones, which find the
/// states that they have left, give wrong results or do not end.
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
    type Kernel: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, Self>)>;
}

/// Operation `Op` on two operands of this type.
#[diagnostic::on_unimplemented(message = "`{Op}` of two operands is not compiled for `{Self}`")]
pub trait Binary<Op>: Pod + Send + Sync + ByValue {
    /// Two arrays that lie as the output does.
    type ArrayArray: SafeKernel<Params = DenseParams<Self, Self>>;
    /// Such an array and one number.
    type ArrayScalar: SafeKernel<Params = (Slice<'static, Self>, Self, SliceMut<'static, Self>)>;
    /// Two arrays that lie otherwise.
    type Strided: SafeKernel<Params = StridedParams<Self, Self>>;
}

/// Operation `Op` on one number and an array: of the operators that do not commute.
pub trait ScalarFirst<Op>: Binary<Op> {
    /// The kernel.
    type ScalarArray: SafeKernel<Params = (Self, Slice<'static, Self>, SliceMut<'static, Self>)>;
}

/// Comparison `Op` of elements of this type, to 1 and 0.
#[diagnostic::on_unimplemented(message = "comparisons `{Op}` are not compiled for `{Self}`")]
pub trait Compare<Op>: Pod + Send + Sync + ByValue {
    /// Whether the kernels of two arrays take them in the other order: `a > b` is `b < a`.
    const SWAPPED: bool;
    /// Two arrays that lie as the output does.
    type ArrayArray: SafeKernel<Params = DenseParams<Self, u8>>;
    /// Such an array and one number, in this order.
    type ArrayScalar: SafeKernel<Params = (Slice<'static, Self>, Self, SliceMut<'static, u8>)>;
    /// Two arrays that lie otherwise.
    type Strided: SafeKernel<Params = StridedParams<Self, u8>>;
}

/// An element type that can be cast to `U`: any two of `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`
/// and `u64`, also the same.
pub trait CastTo<U: Pod>: Pod + Send + Sync {
    /// As Rust's `as`.
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, U>)>;
    /// To the nearest.
    #[doc(hidden)]
    type Saturating: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, U>)>;
    /// Modulo 2^bits.
    #[doc(hidden)]
    type Wrapping: SafeKernel<Params = (Slice<'static, Self>, SliceMut<'static, U>)>;
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
    + Statistic
    + MulAdd
    + ByValue
    + PartialOrd
    + Display
    + Reduce<Sum>
    + Reduce<Product>
    + Reduce<Min>
    + Reduce<Max>
    + Reduce<Mean>
    + Reduce<Variance>
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
    /// Each element, or the limit that it is beyond.
    #[doc(hidden)]
    type Clamp: SafeKernel<Params = (Slice<'static, Self>, Self, Self, SliceMut<'static, Self>)>;
    /// `alpha · x + y`
    #[doc(hidden)]
    type Axpy: SafeKernel<Params = (Self, &'static [Self], Slice<'static, Self>, SliceMut<'static, Self>)>;
    /// Selection by a mask, where all operands lie as the output does.
    #[doc(hidden)]
    type Select: SafeKernel<
        Params = (
            Slice<'static, u8>,
            Slice<'static, Self>,
            Slice<'static, Self>,
            SliceMut<'static, Self>,
        ),
    >;
    /// Selection by a mask, where they lie otherwise.
    #[doc(hidden)]
    type SelectStrided: SafeKernel<
        Params = (
            OutputAxes,
            Slice<'static, u8>,
            Strides,
            Slice<'static, Self>,
            Strides,
            Slice<'static, Self>,
            Strides,
            SliceMut<'static, Self>,
        ),
    >;
}

/// The element types of the functions that only floats have: `f32`, `f64`, `f16` and `bf16`.
///
/// 16-bit floats are computed in `f32` and rounded once.
pub trait Real: Number + Map<Sqrt> + Map<Exp> + Map<Ln> + Map<Sin> + Map<Cos> + Map<Tanh> + Map<Sigmoid> {}

impl Real for f32 {}
impl Real for f64 {}
impl Real for f16 {}
impl Real for bf16 {}

/// The kernels of a family for each of the types and each of the operators: `family: [types] by [operators]`.
macro_rules! compiled {
    ($($family:ident: [$($type:ty),*] by $operators:tt;)*) => { $($(compiled!(@each $family $type, $operators);)*)* };
    (@each $family:ident $type:ty, [$($operator:tt),*]) => { $(compiled!(@$family $type, $operator);)* };
    (@reduce $type:ty, $operator:ident) => {
        impl Reduce<$operator> for $type {
            type Rows = reduce::reduce<$type, $operator>;
            type Columns = reduce::reduce_columns<$type, $operator>;
        }
    };
    (@scan $type:ty, $operator:ident) => {
        impl Scan<$operator> for $type {
            type LookBack = scan::scan<$type, $operator>;
            type Rows = scan::scan_rows<$type, $operator>;
            type Columns = scan::scan_columns<$type, $operator>;
        }

        impl ScanTree<$operator> for $type {
            type Acc = <$operator as ReduceOp<$type>>::Acc;
            type Output = <$operator as ReduceOp<$type>>::Output;
            const TILE: usize = blelloch::tile_len::<$type, $operator>();
            type Tree = scan::scan_tree<$type, $operator>;
        }
    };
    (@map $type:ty, $operator:ident) => {
        impl Map<$operator> for $type {
            const TILE: usize = map::tile_len::<$type, $type>();
            type Kernel = map::map<$type, $operator>;
        }
    };
    (@map_float $type:ty, $operator:ident) => {
        impl Map<$operator> for $type {
            const TILE: usize = map::float_tile_len::<$type>();
            type Kernel = map::map_float<$type, $operator>;
        }
    };
    (@binary $type:ty, $operator:ident) => {
        impl Binary<$operator> for $type {
            type ArrayArray = binary::binary<$type, $operator>;
            type ArrayScalar = binary::binary_scalar<$type, $operator>;
            type Strided = broadcast::broadcast<$type, $operator>;
        }
    };
    (@scalar_first $type:ty, $operator:ident) => {
        impl ScalarFirst<$operator> for $type {
            type ScalarArray = binary::scalar_binary<$type, $operator>;
        }
    };
    (@compare $type:ty, ($operator:ident = $swapped:literal $of_arrays:ident)) => {
        impl Compare<$operator> for $type {
            const SWAPPED: bool = $swapped;
            type ArrayArray = compare::compare<$type, $of_arrays>;
            type ArrayScalar = compare::compare_scalar<$type, $operator>;
            type Strided = compare::compare_broadcast<$type, $of_arrays>;
        }
    };
    (@cast $type:ty, ($to:ident: $saturating:ident $wrapping:ident)) => {
        impl CastTo<$to> for $type {
            type Kernel = cast::cast<$type, $to>;
            type Saturating = cast::$saturating<$type, $to>;
            type Wrapping = cast::$wrapping<$type, $to>;
        }
    };
    (@number $type:ty, _) => {
        impl sealed::Sealed for $type {}

        impl Number for $type {
            type Clamp = map::clamp<$type>;
            type Axpy = map::axpy<$type>;
            type Select = select::select<$type>;
            type SelectStrided = select::select_broadcast<$type>;
        }
    };
}

compiled! {
    number: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [_];
    reduce: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64]
        by [Sum, Product, Min, Max, Mean, Variance, Std, ArgMin, ArgMax, Any, All];
    scan: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Sum, Product, Min, Max];
    map: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Neg, Abs, Square, Relu];
    map_float: [f32, f64, f16, bf16] by [Sqrt, Exp, Ln, Sin, Cos, Tanh, Sigmoid];
    binary: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Add, Sub, Mul, Div, Minimum, Maximum, Pow];
    scalar_first: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [Sub, Div, Pow];
    compare: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [
        (Equal = false Equal), (NotEqual = false NotEqual), (Less = false Less), (LessEqual = false LessEqual),
        (Greater = true Less), (GreaterEqual = true LessEqual)
    ];
    // To which type, and by which kernels if saturating and if wrapping: `cast` where that is the same.
    cast: [f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64] by [
        (f32: cast cast), (f64: cast cast), (f16: cast cast), (bf16: cast cast)
    ];
    cast: [f32, f64, f16, bf16] by [
        (i32: cast cast_wrapping), (i64: cast cast_wrapping), (u8: cast cast_wrapping), (u16: cast cast_wrapping),
        (u32: cast cast_wrapping), (u64: cast cast_wrapping)
    ];
    cast: [i32, i64, u16, u32, u64] by [
        (i32: cast_saturating cast), (i64: cast_saturating cast), (u8: cast_saturating cast),
        (u16: cast_saturating cast), (u32: cast_saturating cast), (u64: cast_saturating cast)
    ];
    cast: [u8] by [
        (i32: cast cast), (i64: cast cast), (u8: cast cast), (u16: cast cast), (u32: cast cast), (u64: cast cast)
    ];
}
