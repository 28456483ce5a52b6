// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a channel of a pixel can be, and the kernels that are compiled for it.

use cuda_std::launch::SafeKernel;
use cuda_std::param::ByValue;
use kernels_gpu::blur::filter::filter;
use kernels_gpu::blur::gaussian::{gaussian_columns, gaussian_rows};
use kernels_gpu::grayscale::{grayscale as Exact, grayscale_fused as Fused};

use super::filter::FilterParams;
use super::gaussian::{ColumnParams, RowParams};
use super::{Weights, box_blur, filter as filters, grayscale};
use crate::array::Element;
use crate::error::Result;

/// What a channel of a picture's pixel can be: `u8`, `u16` or `f32`.
pub trait Pixel: Element + ByValue + kernels_gpu::pixel::Pixel {
    /// 0
    #[doc(hidden)]
    const ZERO: Self;

    /// The Gaussian blur along the rows, of one channel.
    #[doc(hidden)]
    type GaussianRows1: SafeKernel<Params = RowParams<Self>>;
    /// Of three channels.
    #[doc(hidden)]
    type GaussianRows3: SafeKernel<Params = RowParams<Self>>;
    /// Of four channels.
    #[doc(hidden)]
    type GaussianRows4: SafeKernel<Params = RowParams<Self>>;
    /// The Gaussian blur along the columns.
    #[doc(hidden)]
    type GaussianColumns: SafeKernel<Params = ColumnParams<Self>>;

    /// The columns of a thread of a filter.
    #[doc(hidden)]
    const FILTERED: usize;
    /// The filter with any weights.
    #[doc(hidden)]
    type Filter: SafeKernel<Params = FilterParams<Self>>;

    /// Whether it is neither infinite nor NaN.
    #[doc(hidden)]
    fn is_finite(self) -> bool;

    /// The box blur, by the sums that suit the type.
    #[doc(hidden)]
    fn launch_box_blur(call: box_blur::Call<'_, Self>) -> Result<()>;

    /// The filter with any weights, by the kernel that suits the type, the rows and their number.
    #[doc(hidden)]
    fn launch_filter(call: filters::Call<'_, Self>) -> Result<()>;

    /// The picture in shades of gray, exactly where the type and the weights allow it.
    #[doc(hidden)]
    fn launch_grayscale(call: grayscale::Call<'_, Self>, weights: Weights) -> Result<()>;
}

impl Pixel for u8 {
    const ZERO: Self = 0;

    type GaussianRows1 = gaussian_rows<u8, 1>;
    type GaussianRows3 = gaussian_rows<u8, 3>;
    type GaussianRows4 = gaussian_rows<u8, 4>;
    type GaussianColumns = gaussian_columns<u8>;
    const FILTERED: usize = 8;
    type Filter = filter<u8, 8>;

    fn is_finite(self) -> bool {
        true
    }

    fn launch_box_blur(call: box_blur::Call<'_, Self>) -> Result<()> {
        box_blur::bytes(call)
    }

    fn launch_filter(call: filters::Call<'_, Self>) -> Result<()> {
        filters::bytes(call)
    }

    fn launch_grayscale(call: grayscale::Call<'_, Self>, weights: Weights) -> Result<()> {
        grayscale::integers::<u8, Exact<u8, 3>, Exact<u8, 4>, Fused<u8, 3>, Fused<u8, 4>>(call, weights)
    }
}

impl Pixel for u16 {
    const ZERO: Self = 0;

    type GaussianRows1 = gaussian_rows<u16, 1>;
    type GaussianRows3 = gaussian_rows<u16, 3>;
    type GaussianRows4 = gaussian_rows<u16, 4>;
    type GaussianColumns = gaussian_columns<u16>;
    const FILTERED: usize = 8;
    type Filter = filter<u16, 8>;

    fn is_finite(self) -> bool {
        true
    }

    fn launch_box_blur(call: box_blur::Call<'_, Self>) -> Result<()> {
        box_blur::words(call)
    }

    fn launch_filter(call: filters::Call<'_, Self>) -> Result<()> {
        filters::words(call)
    }

    fn launch_grayscale(call: grayscale::Call<'_, Self>, weights: Weights) -> Result<()> {
        grayscale::integers::<u16, Exact<u16, 3>, Exact<u16, 4>, Fused<u16, 3>, Fused<u16, 4>>(call, weights)
    }
}

impl Pixel for f32 {
    const ZERO: Self = 0.0;

    type GaussianRows1 = gaussian_rows<f32, 1>;
    type GaussianRows3 = gaussian_rows<f32, 3>;
    type GaussianRows4 = gaussian_rows<f32, 4>;
    type GaussianColumns = gaussian_columns<f32>;
    const FILTERED: usize = 4;
    type Filter = filter<f32, 4>;

    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }

    fn launch_box_blur(call: box_blur::Call<'_, Self>) -> Result<()> {
        box_blur::floats(call)
    }

    fn launch_filter(call: filters::Call<'_, Self>) -> Result<()> {
        filters::floats(call)
    }

    fn launch_grayscale(call: grayscale::Call<'_, Self>, weights: Weights) -> Result<()> {
        grayscale::floats(call, weights)
    }
}
