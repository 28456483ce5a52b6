// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling, the largest elements of rows, and sorting.

use bytemuck::Pod;
use cuda_std::SliceMut;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::SafeKernel;

use super::sealed::Sealed;
use crate::num::Num;
use crate::pool::{self, Windows};
use crate::sort::rows::{RowWord, argsort_rows, sort_rows, top_k_rows};
use crate::sort::search::search_sorted;
use crate::sort::{Pass, count_digits, move_by_digit};
use crate::top_k::{self, Parts, Ranked};

/// The parameters of [`max_pool`](fn@pool::max_pool) and [`average_pool`](fn@pool::average_pool), and of the latter's gradient.
pub type PoolParams<T> = (&'static [T], Windows, SliceMut<'static, T>);

/// The parameters of [`max_pool_gradient`](fn@pool::max_pool_gradient).
pub type MaxPoolGradientParams<T> = (&'static [T], &'static [T], Windows, SliceMut<'static, T>);

/// The parameters of [`max_pool_places`](fn@pool::max_pool_places).
pub type MaxPoolPlacesParams<T> = (&'static [T], Windows, SliceMut<'static, u32>);

/// The parameters of [`max_pool_gradient_at`](fn@pool::max_pool_gradient_at).
pub type MaxPoolGradientAtParams<T> = (&'static [T], &'static [u32], Windows, SliceMut<'static, T>);

/// Pooling of elements of this type: `f32`, `f64`, `f16` and `bf16`.
pub trait Pool: Sealed + Num {
    /// The largest of each window.
    #[doc(hidden)]
    type Max: SafeKernel<Params = PoolParams<Self>>;
    /// Its gradient.
    #[doc(hidden)]
    type MaxGradient: SafeKernel<Params = MaxPoolGradientParams<Self>>;
    /// Where the largest of each window is.
    #[doc(hidden)]
    type MaxPlaces: SafeKernel<Params = MaxPoolPlacesParams<Self>>;
    /// The gradient by these.
    #[doc(hidden)]
    type MaxGradientAt: SafeKernel<Params = MaxPoolGradientAtParams<Self>>;
    /// The mean of each window.
    #[doc(hidden)]
    type Average: SafeKernel<Params = PoolParams<Self>>;
    /// Its gradient.
    #[doc(hidden)]
    type AverageGradient: SafeKernel<Params = PoolParams<Self>>;
}

macro_rules! pools {
    ($($type:ty),*) => {$(
        impl Pool for $type {
            type Max = pool::max_pool<$type>;
            type MaxGradient = pool::max_pool_gradient<$type>;
            type MaxPlaces = pool::max_pool_places<$type>;
            type MaxGradientAt = pool::max_pool_gradient_at<$type>;
            type Average = pool::average_pool<$type>;
            type AverageGradient = pool::average_pool_gradient<$type>;
        }
    )*};
}

pools!(f32, f64, f16, bf16);

/// The parameters of [`top_k`](fn@top_k::top_k).
pub type TopKParams<T> = (
    &'static [T],
    &'static [u64],
    Parts,
    SliceMut<'static, T>,
    SliceMut<'static, u64>,
);

/// The parameters of [`top_k_rows`](fn@top_k_rows).
pub type TopKRowsParams<W> = (
    &'static [W],
    u32,
    u32,
    Pass,
    SliceMut<'static, W>,
    SliceMut<'static, u64>,
);

/// Elements whose largest are found: `f32`, `f64`, `f16`, `bf16` and `i32`.
pub trait TopK: Sealed + Ranked + Sort {
    /// The kernel.
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = TopKParams<Self>>;
    /// The kernel for short rows.
    #[doc(hidden)]
    type ShortRows: SafeKernel<Params = TopKRowsParams<Self::Word>>;
}

macro_rules! top_ks {
    ($($type:ty),*) => {$(
        impl TopK for $type {
            type Kernel = top_k::top_k<$type>;
            type ShortRows = top_k_rows<<$type as Sort>::Word>;
        }
    )*};
}

top_ks!(f32, f64, f16, bf16, i32);

/// The parameters of [`count_digits`](fn@count_digits).
pub type CountDigitsParams<W> = (
    &'static [W],
    Pass,
    u32,
    u32,
    SliceMut<'static, u64>,
    SliceMut<'static, u32>,
);

/// The parameters of [`move_by_digit`](fn@move_by_digit).
pub type MoveByDigitParams<W> = (
    &'static [W],
    &'static [u32],
    Pass,
    u32,
    u32,
    u32,
    SliceMut<'static, u64>,
    SliceMut<'static, u32>,
    SliceMut<'static, W>,
    SliceMut<'static, u32>,
);

/// The parameters of [`sort_rows`](fn@sort_rows) and, with places as the output, of [`argsort_rows`](fn@argsort_rows).
pub type SortRowsParams<W, R> = (&'static [W], u32, Pass, SliceMut<'static, R>);

/// The parameters of [`search_sorted`](fn@search_sorted).
pub type SearchSortedParams<W> = (&'static [W], &'static [W], Pass, u32, SliceMut<'static, u64>);

/// Elements that can be sorted: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32` and `u64`.
///
/// Floats are in the order of their `total_cmp`, but that NaN with a sign comes behind all others, too.
pub trait Sort: Sealed + Pod + Send + Sync {
    /// Numbers of as many bits.
    #[doc(hidden)]
    type Word: RowWord;
    /// How the bits are ordered, with digits of the lowest bits.
    #[doc(hidden)]
    const PASS: Pass;
    /// The kernel that counts digits.
    #[doc(hidden)]
    type Count: SafeKernel<Params = CountDigitsParams<Self::Word>>;
    /// The kernel that moves elements.
    #[doc(hidden)]
    type Move: SafeKernel<Params = MoveByDigitParams<Self::Word>>;
    /// The kernel that sorts short rows.
    #[doc(hidden)]
    type Rows: SafeKernel<Params = SortRowsParams<Self::Word, Self::Word>>;
    /// The kernel that finds their places.
    #[doc(hidden)]
    type RowPlaces: SafeKernel<Params = SortRowsParams<Self::Word, u64>>;
    /// The kernel that searches sorted elements.
    #[doc(hidden)]
    type Search: SafeKernel<Params = SearchSortedParams<Self::Word>>;
}

macro_rules! sorts {
    ($($type:ty: $word:ident, $order:expr;)*) => {$(
        impl Sort for $type {
            type Word = $word;
            const PASS: Pass = $order;
            type Count = count_digits<$word>;
            type Move = move_by_digit<$word>;
            type Rows = sort_rows<$word>;
            type RowPlaces = argsort_rows<$word>;
            type Search = search_sorted<$word>;
        }
    )*};
}

sorts! {
    f32: u32, floats(1 << 31, f32::INFINITY.to_bits() as u64);
    f64: u64, floats(1 << 63, f64::INFINITY.to_bits());
    f16: u16, floats(1 << 15, f16::INFINITY.to_bits() as u64);
    bf16: u16, floats(1 << 15, bf16::INFINITY.to_bits() as u64);
    i32: u32, integers(1 << 31);
    i64: u64, integers(1 << 63);
    u8: u8, integers(0);
    u16: u16, integers(0);
    u32: u32, integers(0);
    u64: u64, integers(0);
}

/// Integers whose highest bit is changed by that.
const fn integers(sign: u64) -> Pass {
    Pass {
        positive: sign,
        negative: sign,
        least: 0,
        shift: 0,
        row_len: 0,
    }
}

/// Floats with that sign bit and that infinity. The greater a negative one's magnitude is the less it is, so all its bits are
/// changed. Then those of NaN with a sign are the least, as many as are above infinity: they are counted from the other end.
const fn floats(sign: u64, infinity: u64) -> Pass {
    Pass {
        positive: sign,
        negative: u64::MAX,
        least: sign - 1 - infinity,
        shift: 0,
        row_len: 0,
    }
}
