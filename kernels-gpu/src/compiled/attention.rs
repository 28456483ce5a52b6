// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention.

use cuda_std::SliceMut;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Kernel, SafeKernel};
use cuda_std::tma::TensorMap;

use super::sealed::Sealed;
use crate::attention::AttentionShape;
use crate::attention::tiled::{self, AttentionStrides};
use crate::attention::wgmma;
use crate::num::Num;

/// The parameters of [`attention`](fn@tiled::attention).
pub type AttentionParams<T> = (
    &'static [T],
    &'static [T],
    &'static [T],
    SliceMut<'static, T>,
    SliceMut<'static, f32>,
    AttentionShape,
    AttentionStrides,
    f32,
);

/// Attention of elements of this type on any GPU: a kernel for each head dimension, up to which it goes.
pub trait Attention: Sealed + Num<Wide = f32> {
    /// 64.
    type D64: SafeKernel<Params = AttentionParams<Self>>;
    /// 128.
    type D128: SafeKernel<Params = AttentionParams<Self>>;
    /// 256.
    type D256: SafeKernel<Params = AttentionParams<Self>>;
}

macro_rules! attention {
    ($($type:ty),*) => {$(
        impl Attention for $type {
            type D64 = tiled::attention<$type, 8>;
            type D128 = tiled::attention<$type, 16>;
            type D256 = tiled::attention<$type, 32>;
        }
    )*};
}

attention!(f32, bf16, f16);

/// The parameters of [`attention_wgmma`](fn@wgmma::attention_wgmma).
pub type HopperAttentionParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    SliceMut<'static, T>,
    SliceMut<'static, f32>,
    SliceMut<'static, u32>,
    AttentionShape,
    f32,
);

/// Attention of elements of this type on Hopper's tensor cores: a kernel for each head dimension.
pub trait HopperAttention: Attention {
    /// 64.
    type D64: Kernel<Params = HopperAttentionParams<Self>>;
    /// 128.
    type D128: Kernel<Params = HopperAttentionParams<Self>>;
}

macro_rules! hopper {
    ($($type:ty),*) => {$(
        impl HopperAttention for $type {
            type D64 = wgmma::attention_wgmma<$type, 32>;
            type D128 = wgmma::attention_wgmma<$type, 64>;
        }
    )*};
}

hopper!(bf16, f16);
