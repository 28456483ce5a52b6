// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention.

use cuda_std::SliceMut;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Kernel, SafeKernel};
use cuda_std::tma::{TensorMap, TensorMapMut};

use super::sealed::Sealed;
use crate::attention::AttentionShape;
use crate::attention::bias_plan::BiasPlan;
use crate::attention::decode::{self, DecodePlan};
use crate::attention::mma;
use crate::attention::tiled::gradients::GradientStrides;
use crate::attention::tiled::{self, AttentionStrides};
use crate::attention::wgmma;
use crate::attention::wgmma::bias::BiasAxes;
use crate::attention::wgmma::gradients::Exponents;
use crate::num::Num;

/// The parameters of [`attention`](fn@tiled::attention).
pub type AttentionParams<T> = (
    &'static [T],
    &'static [T],
    &'static [T],
    &'static [T],
    &'static [u32],
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

/// The parameters of [`attention_decode`](fn@decode::attention_decode).
pub type AttentionDecodeParams<T> = (
    &'static [T],
    &'static [T],
    &'static [T],
    &'static [u32],
    SliceMut<'static, T>,
    SliceMut<'static, f32>,
    SliceMut<'static, f32>,
    SliceMut<'static, f32>,
    SliceMut<'static, u32>,
    AttentionShape,
    AttentionStrides,
    DecodePlan,
    f32,
);

/// Attention of few queries to many keys of elements of this type.
pub trait AttentionDecode: Attention {
    /// One query for a head of keys.
    type One: SafeKernel<Params = AttentionDecodeParams<Self>>;
    /// Blocks of four.
    type Four: SafeKernel<Params = AttentionDecodeParams<Self>>;
}

macro_rules! attention_decode {
    ($($type:ty),*) => {$(
        impl AttentionDecode for $type {
            type One = decode::attention_decode<$type, 1>;
            type Four = decode::attention_decode<$type, 4>;
        }
    )*};
}

attention_decode!(f32, bf16, f16);

/// Attention of few queries to many keys of elements of this type on tensor cores, from Ampere's on: kernels for each head dimension.
pub trait AttentionDecodeTensor: AttentionDecode {
    /// 64.
    type D64: Kernel<Params = AttentionDecodeParams<Self>>;
    /// 128.
    type D128: Kernel<Params = AttentionDecodeParams<Self>>;
}

macro_rules! attention_decode_tensor {
    ($($type:ty),*) => {$(
        impl AttentionDecodeTensor for $type {
            type D64 = decode::tensor::attention_decode_tensor<$type, 64>;
            type D128 = decode::tensor::attention_decode_tensor<$type, 128>;
        }
    )*};
}

attention_decode_tensor!(bf16, f16);

/// The parameters of [`attention_mma`](fn@mma::attention_mma).
pub type AmpereAttentionParams<T> = (
    &'static [T],
    &'static [T],
    &'static [T],
    &'static [u32],
    SliceMut<'static, T>,
    SliceMut<'static, f32>,
    AttentionShape,
    AttentionStrides,
    f32,
);

/// The parameters of [`attention_gradients_mma`](fn@mma::gradients::attention_gradients_mma).
pub type AmpereGradientsParams<T> = (
    &'static [T],
    &'static [T],
    &'static [T],
    &'static [T],
    &'static [f32],
    &'static [f32],
    &'static [u32],
    SliceMut<'static, T>,
    SliceMut<'static, T>,
    SliceMut<'static, T>,
    AttentionShape,
    GradientStrides,
    [f32; 2],
);

/// Attention of elements of this type on tensor cores, from Ampere's on, and its gradients: kernels for each head dimension.
pub trait AmpereAttention: Attention {
    /// 64.
    type D64: Kernel<Params = AmpereAttentionParams<Self>>;
    /// 128.
    type D128: Kernel<Params = AmpereAttentionParams<Self>>;
    /// Gradients, for 64.
    type GradientsD64: Kernel<Params = AmpereGradientsParams<Self>>;
    /// For 128.
    type GradientsD128: Kernel<Params = AmpereGradientsParams<Self>>;
}

macro_rules! attention_mma {
    ($($type:ty),*) => {$(
        impl AmpereAttention for $type {
            type D64 = mma::attention_mma<$type, 64>;
            type D128 = mma::attention_mma<$type, 128>;
            type GradientsD64 = mma::gradients::attention_gradients_mma<$type, 64>;
            type GradientsD128 = mma::gradients::attention_gradients_mma<$type, 128>;
        }
    )*};
}

attention_mma!(bf16, f16);

/// The parameters of [`attention_wgmma`](fn@wgmma::attention_wgmma).
pub type HopperAttentionParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    &'static [u32],
    SliceMut<'static, T>,
    SliceMut<'static, f32>,
    SliceMut<'static, u32>,
    AttentionShape,
    BiasAxes,
    [f32; 2],
);

/// The parameters of [`attention_gradients_wgmma`](fn@wgmma::gradients::attention_gradients_wgmma).
pub type HopperGradientsParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    &'static [f32],
    TensorMap<'static, T>,
    &'static [u32],
    TensorMapMut<'static, f32>,
    SliceMut<'static, u32>,
    SliceMut<'static, T>,
    SliceMut<'static, T>,
    AttentionShape,
    Exponents,
    u32,
);

/// The parameters of [`attention_gradients_of_queries`](fn@wgmma::gradients::of_queries::attention_gradients_of_queries).
pub type GradientsOfQueriesParams<T> = (
    &'static [T],
    &'static [T],
    &'static [f32],
    SliceMut<'static, f32>,
    AttentionShape,
    [usize; 3],
    [usize; 3],
);

/// The parameters of [`attention_gradients_of_sums`](fn@wgmma::gradients::of_sums::attention_gradients_of_sums).
pub type GradientsOfSumsParams<T> = (
    &'static [f32],
    &'static [u32],
    SliceMut<'static, T>,
    SliceMut<'static, u32>,
    AttentionShape,
    f32,
    u32,
);

/// The parameters of [`attention_bias_gradient_wgmma`](fn@wgmma::gradients::bias::attention_bias_gradient_wgmma).
pub type BiasGradientParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    &'static [f32],
    TensorMap<'static, T>,
    &'static [u32],
    SliceMut<'static, f32>,
    AttentionShape,
    BiasAxes,
    BiasPlan,
    [f32; 2],
);

/// Attention of elements of this type on Hopper's tensor cores, and its gradients: kernels for each head dimension.
pub trait HopperAttention: Attention {
    /// 64.
    type D64: Kernel<Params = HopperAttentionParams<Self>>;
    /// 128.
    type D128: Kernel<Params = HopperAttentionParams<Self>>;
    /// With a bias, or sequences: 64.
    type FormsD64: Kernel<Params = HopperAttentionParams<Self>>;
    /// 128.
    type FormsD128: Kernel<Params = HopperAttentionParams<Self>>;
    /// Gradients, for 64.
    type GradientsD64: Kernel<Params = HopperGradientsParams<Self>>;
    /// For 128.
    type GradientsD128: Kernel<Params = HopperGradientsParams<Self>>;
    /// With a bias, or sequences: gradients, for 64.
    type GradientsOfFormsD64: Kernel<Params = HopperGradientsParams<Self>>;
    /// For 128.
    type GradientsOfFormsD128: Kernel<Params = HopperGradientsParams<Self>>;
    /// What these know of queries.
    type GradientsOfQueries: Kernel<Params = GradientsOfQueriesParams<Self>>;
    /// Those of queries, of their sums.
    type GradientsOfSums: Kernel<Params = GradientsOfSumsParams<Self>>;
    /// The gradient of a bias, for 64.
    type BiasGradientD64: Kernel<Params = BiasGradientParams<Self>>;
    /// For 128.
    type BiasGradientD128: Kernel<Params = BiasGradientParams<Self>>;
}

macro_rules! hopper {
    ($($type:ty),*) => {$(
        impl HopperAttention for $type {
            type D64 = wgmma::attention_wgmma<$type, 32, false>;
            type D128 = wgmma::attention_wgmma<$type, 64, false>;
            type FormsD64 = wgmma::attention_wgmma<$type, 32, true>;
            type FormsD128 = wgmma::attention_wgmma<$type, 64, true>;
            type GradientsD64 = wgmma::gradients::attention_gradients_wgmma<$type, 32, false>;
            type GradientsD128 = wgmma::gradients::attention_gradients_wgmma<$type, 64, false>;
            type GradientsOfFormsD64 = wgmma::gradients::attention_gradients_wgmma<$type, 32, true>;
            type GradientsOfFormsD128 = wgmma::gradients::attention_gradients_wgmma<$type, 64, true>;
            type GradientsOfQueries = wgmma::gradients::of_queries::attention_gradients_of_queries<$type>;
            type GradientsOfSums = wgmma::gradients::of_sums::attention_gradients_of_sums<$type>;
            type BiasGradientD64 = wgmma::gradients::bias::attention_bias_gradient_wgmma<$type, 32>;
            type BiasGradientD128 = wgmma::gradients::bias::attention_bias_gradient_wgmma<$type, 64>;
        }
    )*};
}

hopper!(bf16, f16);
