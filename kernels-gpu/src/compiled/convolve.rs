// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions.

use cuda_std::SliceMut;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Kernel, SafeKernel};
use cuda_std::tma::{TensorMap, TensorMapMut};

use super::sealed::Sealed;
use crate::convolve::depthwise::patches::{self, PatchesPlan};
use crate::convolve::depthwise::weights::{self, WeightPlan};
use crate::convolve::depthwise::{self, Strips};
use crate::convolve::mma::depthwise::DepthwiseMmaPlan;
use crate::convolve::mma::weights::{self as mma_weights, WeightsMmaPlan};
use crate::convolve::mma::{self, MmaPlan, groups};
use crate::convolve::tiled::{self, Large, Size, Small};
use crate::convolve::{ConvolveShape, direct, parts};
use crate::matmul::wgmma::WgmmaShape;
use crate::matmul::wgmma::convolve::across::{self, AcrossPlaces};
use crate::matmul::wgmma::convolve::patches::PatchesPlan as HopperPatchesPlan;
use crate::matmul::wgmma::convolve::{self as wgmma, ConvolvePhases, ConvolvePlaces};
use crate::num::Num;

/// The parameters of [`convolve_direct`](fn@direct::convolve_direct) and [`convolve_tiled`](fn@tiled::convolve_tiled).
pub type ConvolveParams<T> = (&'static [T], &'static [T], SliceMut<'static, T>, ConvolveShape);

/// The parameters of [`convolve_depthwise`](fn@depthwise::convolve_depthwise).
pub type DepthwiseParams<T> = (&'static [T], &'static [T], SliceMut<'static, T>, ConvolveShape, Strips);

/// The parameters of [`convolve_depthwise_weights`](fn@weights::convolve_depthwise_weights).
pub type DepthwiseWeightsParams<T> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, <T as Num>::Wide>,
    ConvolveShape,
    WeightPlan,
);

/// Convolutions of elements of this type on any GPU, output by output.
pub trait Convolve: Sealed + Num {
    /// What does them.
    type Direct: SafeKernel<Params = ConvolveParams<Self>>;
    /// What does those whose groups have one channel.
    type Depthwise: SafeKernel<Params = DepthwiseParams<Self>>;
    /// What makes the gradient of their weights.
    type DepthwiseWeights: SafeKernel<Params = DepthwiseWeightsParams<Self>>;
    /// What does them by [`MANY_TAPS`](depthwise::MANY_TAPS) at once, for the types that have it.
    type DepthwiseMany: SafeKernel<Params = DepthwiseParams<Self>>;
}

macro_rules! direct {
    ($($type:ident by $many:literal),*) => {$(
        impl Convolve for $type {
            type Direct = direct::convolve_direct<$type>;
            type Depthwise = depthwise::convolve_depthwise<$type, 3>;
            type DepthwiseWeights = weights::convolve_depthwise_weights<$type, 3>;
            type DepthwiseMany = depthwise::convolve_depthwise<$type, $many>;
        }
    )*};
}

direct!(f32 by 3, f64 by 3, f16 by 7, bf16 by 7);

/// Convolutions of elements of this type on any GPU, as products of matrices by tiles.
pub trait ConvolveTiled: Convolve {
    /// Places and outputs of a large tile.
    const LARGE_TILE: [usize; 2];
    /// Places and outputs of a small tile.
    const SMALL_TILE: [usize; 2];
    /// By large tiles.
    type Large: SafeKernel<Params = ConvolveParams<Self>>;
    /// By small ones.
    type Small: SafeKernel<Params = ConvolveParams<Self>>;
}

macro_rules! tiled {
    ($($type:ident by $large:ident;)*) => {$(
        impl ConvolveTiled for $type {
            const LARGE_TILE: [usize; 2] = <$large as Size<$type>>::BLOCK_TILE;
            const SMALL_TILE: [usize; 2] = <Small as Size<$type>>::BLOCK_TILE;
            type Large = tiled::convolve_tiled<$type, $large>;
            type Small = tiled::convolve_tiled<$type, Small>;
        }
    )*};
}

tiled! {
    f32 by Large;
    f64 by Small;
}

/// The parameters of [`convolve_mma`](fn@mma::convolve_mma).
pub type AmpereConvolveParams<T> = (&'static [T], &'static [T], SliceMut<'static, T>, ConvolveShape, MmaPlan);

/// The parameters of [`convolve_weights_mma`](fn@mma_weights::convolve_weights_mma).
pub type AmpereConvolveWeightsParams<T> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, f32>,
    ConvolveShape,
    WeightsMmaPlan,
);

/// The parameters of [`convolve_depthwise_weights_mma`](fn@mma::depthwise::convolve_depthwise_weights_mma).
pub type AmpereDepthwiseWeightsParams<T> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, f32>,
    ConvolveShape,
    DepthwiseMmaPlan,
);

/// The parameters of [`convolve_depthwise_patches`](fn@patches::convolve_depthwise_patches).
pub type DepthwisePatchesParams<T> = (
    &'static [T],
    &'static [T],
    SliceMut<'static, T>,
    ConvolveShape,
    PatchesPlan,
);

/// The parameters of [`add_parts`](fn@parts::add_parts).
pub type AddPartsParams<T> = (&'static [f32], SliceMut<'static, T>, u32, u32);

/// Convolutions of elements of this type on the tensor cores of Ampere and later: a kernel for each number of outputs of a tile.
pub trait AmpereConvolve: Convolve {
    /// 8.
    type N8: Kernel<Params = AmpereConvolveParams<Self>>;
    /// 32.
    type N32: Kernel<Params = AmpereConvolveParams<Self>>;
    /// 64.
    type N64: Kernel<Params = AmpereConvolveParams<Self>>;
    /// What does those of groups of 4, 8 or 16 channels and outputs.
    type Groups: Kernel<Params = AmpereConvolveParams<Self>>;
    /// What does depthwise ones of pictures with lines of 3 taps.
    type Depthwise3: Kernel<Params = DepthwisePatchesParams<Self>>;
    /// Of 5.
    type Depthwise5: Kernel<Params = DepthwisePatchesParams<Self>>;
    /// Of 7.
    type Depthwise7: Kernel<Params = DepthwisePatchesParams<Self>>;
    /// What makes the gradient of the weights of 16 outputs of a group or fewer.
    type Weights16: Kernel<Params = AmpereConvolveWeightsParams<Self>>;
    /// Of 32.
    type Weights32: Kernel<Params = AmpereConvolveWeightsParams<Self>>;
    /// What makes that of others.
    type Weights64: Kernel<Params = AmpereConvolveWeightsParams<Self>>;
    /// What makes that of groups of one channel and one output.
    type WeightsDepthwise: Kernel<Params = AmpereDepthwiseWeightsParams<Self>>;
    /// What adds up the parts of gradients.
    type AddParts: SafeKernel<Params = AddPartsParams<Self>>;
}

macro_rules! ampere {
    ($($type:ty),*) => {$(
        impl AmpereConvolve for $type {
            type N8 = mma::convolve_mma<$type, 1>;
            type N32 = mma::convolve_mma<$type, 4>;
            type N64 = mma::convolve_mma<$type, 8>;
            type Groups = groups::convolve_groups_mma<$type>;
            type Depthwise3 = patches::convolve_depthwise_patches<$type, 3>;
            type Depthwise5 = patches::convolve_depthwise_patches<$type, 5>;
            type Depthwise7 = patches::convolve_depthwise_patches<$type, 7>;
            type Weights16 = mma_weights::convolve_weights_mma<$type, 1>;
            type Weights32 = mma_weights::convolve_weights_mma<$type, 2>;
            type Weights64 = mma_weights::convolve_weights_mma<$type, 4>;
            type WeightsDepthwise = mma::depthwise::convolve_depthwise_weights_mma<$type>;
            type AddParts = parts::add_parts<$type>;
        }
    )*};
}

ampere!(bf16, f16);

/// The parameters of [`convolve_wgmma`](fn@wgmma::convolve_wgmma).
pub type HopperConvolveParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, T>,
    TensorMapMut<'static, T>,
    TensorMapMut<'static, T>,
    TensorMapMut<'static, T>,
    WgmmaShape,
    ConvolvePlaces,
    ConvolvePhases,
);

/// The parameters of [`convolve_wgmma_across`](fn@across::convolve_wgmma_across).
pub type HopperConvolveAcrossParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, T>,
    TensorMapMut<'static, T>,
    TensorMapMut<'static, T>,
    TensorMapMut<'static, T>,
    WgmmaShape,
    AcrossPlaces,
    ConvolvePhases,
);

/// The parameters of [`convolve_patches_wgmma`](fn@wgmma::patches::convolve_patches_wgmma).
pub type HopperPatchesParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    SliceMut<'static, T>,
    ConvolveShape,
    HopperPatchesPlan,
);

/// The parameters of [`convolve_weights_wgmma`](fn@wgmma::weights::convolve_weights_wgmma).
pub type HopperConvolveWeightsParams<T> = (
    TensorMap<'static, T>,
    TensorMap<'static, T>,
    TensorMapMut<'static, f32>,
    WgmmaShape,
    ConvolvePlaces,
);

/// Convolutions of elements of this type on Hopper's tensor cores: a kernel for each number of outputs of a tile.
pub trait HopperConvolve: Convolve {
    /// 64.
    type N64: Kernel<Params = HopperConvolveParams<Self>>;
    /// 128.
    type N128: Kernel<Params = HopperConvolveParams<Self>>;
    /// 256.
    type N256: Kernel<Params = HopperConvolveParams<Self>>;
    /// What has places as columns.
    type Across: Kernel<Params = HopperConvolveAcrossParams<Self>>;
    /// What has patches in shared memory, by 32 outputs of a tile.
    type Patches32: Kernel<Params = HopperPatchesParams<Self>>;
    /// 64.
    type Patches64: Kernel<Params = HopperPatchesParams<Self>>;
    /// 128.
    type Patches128: Kernel<Params = HopperPatchesParams<Self>>;
    /// What makes the gradient of their weights.
    type Weights: Kernel<Params = HopperConvolveWeightsParams<Self>>;
}

macro_rules! hopper {
    ($($type:ty),*) => {$(
        impl HopperConvolve for $type {
            type N64 = wgmma::convolve_wgmma<$type, 32>;
            type N128 = wgmma::convolve_wgmma<$type, 64>;
            type N256 = wgmma::convolve_wgmma<$type, 128>;
            type Across = across::convolve_wgmma_across<$type>;
            type Patches32 = wgmma::patches::convolve_patches_wgmma<$type, 16>;
            type Patches64 = wgmma::patches::convolve_patches_wgmma<$type, 32>;
            type Patches128 = wgmma::patches::convolve_patches_wgmma<$type, 64>;
            type Weights = wgmma::weights::convolve_weights_wgmma<$type>;
        }
    )*};
}

hopper!(bf16, f16);
