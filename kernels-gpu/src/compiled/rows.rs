// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling, and the largest elements of rows.

use cuda_std::SliceMut;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::SafeKernel;

use super::sealed::Sealed;
use crate::num::Num;
use crate::pool::{self, Windows};
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

/// Elements whose largest are found: `f32`, `f64`, `f16`, `bf16` and `i32`.
pub trait TopK: Sealed + Ranked {
    /// The kernel.
    #[doc(hidden)]
    type Kernel: SafeKernel<Params = TopKParams<Self>>;
}

macro_rules! top_ks {
    ($($type:ty),*) => {$(
        impl TopK for $type {
            type Kernel = top_k::top_k<$type>;
        }
    )*};
}

top_ks!(f32, f64, f16, bf16, i32);
