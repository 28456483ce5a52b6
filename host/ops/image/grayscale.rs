// SPDX-License-Identifier: MIT OR Apache-2.0
//! Colour pictures to gray.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::grayscale as kernels;
use ndarray::{Ix2, Ix3};

use super::{Channels, Pixel};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::ops::tiles;

/// How much red, green and blue count for a gray.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Weights {
    /// ITU-R BT.601, of standard television and JPEG: 0.299, 0.587, 0.114.
    #[default]
    Bt601,
    /// ITU-R BT.709, of high-definition television and sRGB: 0.2126, 0.7152, 0.0722.
    Bt709,
    /// Weights for red, green and blue, which must be finite.
    Custom([f32; 3]),
}

impl Weights {
    /// The weights of a standard, in ten-thousandths.
    fn exact(self) -> Option<[u32; 3]> {
        match self {
            Self::Bt601 => Some([2990, 5870, 1140]),
            Self::Bt709 => Some([2126, 7152, 722]),
            Self::Custom(_) => None,
        }
    }

    /// The nearest `f32`.
    fn nearest(self) -> [f32; 3] {
        match self {
            Self::Bt601 => [0.299, 0.587, 0.114],
            Self::Bt709 => [0.2126, 0.7152, 0.0722],
            Self::Custom(weights) => weights,
        }
    }
}

/// A launch of one of the kernels.
#[doc(hidden)]
pub struct Call<'a, T> {
    picture: &'a DeviceArrayRef<T, Ix3>,
    gray: &'a mut DeviceArrayRef<T, Ix2>,
    channels: Channels,
    config: LaunchConfig,
}

impl<T: Pixel> Call<'_, T> {
    fn exact<K3, K4>(self, [red, green, blue]: [u32; 3]) -> Result<()>
    where
        K3: SafeKernel<Params = (&'static [T], u32, u32, u32, SliceMut<'static, T>)>,
        K4: SafeKernel<Params = (&'static [T], u32, u32, u32, SliceMut<'static, T>)>,
    {
        let (stream, args) = (self.picture.stream(), (self.picture, red, green, blue, self.gray));
        if self.channels == Channels::Rgb {
            stream.launch::<K3>(&self.config, args)
        } else {
            stream.launch::<K4>(&self.config, args)
        }
    }

    fn fused<K3, K4>(self, [red, green, blue]: [f32; 3]) -> Result<()>
    where
        K3: SafeKernel<Params = (&'static [T], f32, f32, f32, SliceMut<'static, T>)>,
        K4: SafeKernel<Params = (&'static [T], f32, f32, f32, SliceMut<'static, T>)>,
    {
        let (stream, args) = (self.picture.stream(), (self.picture, red, green, blue, self.gray));
        if self.channels == Channels::Rgb {
            stream.launch::<K3>(&self.config, args)
        } else {
            stream.launch::<K4>(&self.config, args)
        }
    }
}

/// Integers: exactly by the weights of a standard, by kernels `E3` and `E4`, and otherwise by `F3` and `F4`.
pub(super) fn integers<T: Pixel, E3, E4, F3, F4>(call: Call<'_, T>, weights: Weights) -> Result<()>
where
    E3: SafeKernel<Params = (&'static [T], u32, u32, u32, SliceMut<'static, T>)>,
    E4: SafeKernel<Params = (&'static [T], u32, u32, u32, SliceMut<'static, T>)>,
    F3: SafeKernel<Params = (&'static [T], f32, f32, f32, SliceMut<'static, T>)>,
    F4: SafeKernel<Params = (&'static [T], f32, f32, f32, SliceMut<'static, T>)>,
{
    match weights.exact() {
        Some(weights) => call.exact::<E3, E4>(weights),
        None => call.fused::<F3, F4>(weights.nearest()),
    }
}

/// Floats.
pub(super) fn floats(call: Call<'_, f32>, weights: Weights) -> Result<()> {
    call.fused::<kernels::grayscale_fused<f32, 3>, kernels::grayscale_fused<f32, 4>>(weights.nearest())
}

/// Colour pictures to gray. Each pixel is read once, each gray written once.
impl<T: Pixel> DeviceArrayRef<T, Ix3> {
    /// The picture in shades of gray, by ITU-R BT.601: [`grayscale_with`](Self::grayscale_with) of [`Weights::Bt601`].
    ///
    /// # Errors
    ///
    /// As [`grayscale_with`](Self::grayscale_with).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let red_and_white = array![[[255u8, 0, 0], [255, 255, 255]]];
    /// let picture = DeviceArray::from_ndarray(device.default_stream(), &red_and_white)?;
    /// assert_eq!(picture.grayscale()?.to_ndarray()?, array![[76, 255]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "rgb2gray")]
    pub fn grayscale(&self) -> Result<DeviceArray<T, Ix2>> {
        self.grayscale_with(Weights::Bt601)
    }

    /// [`grayscale`](Self::grayscale) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`grayscale_with_into`](Self::grayscale_with_into).
    pub fn grayscale_into(&self, out: &mut DeviceArrayRef<T, Ix2>) -> Result<()> {
        self.grayscale_with_into(Weights::Bt601, out)
    }

    /// The picture in shades of gray: rows × columns × 3 or 4 channels (alpha is not looked at) to rows × columns.
    ///
    /// * Integers with the weights of a standard: the real value of `r R + g G + b B` rounded to nearest, halves up,
    ///   exactly.
    /// * Otherwise `fma(b, B, fma(g, G, r · R))` in `f32`, where each operation rounds once, with the weights' nearest
    ///   `f32`; so every device gives the same bits. For integers the result is rounded to nearest, halves up (`⌊x⌋`,
    ///   and 1 more where `x − ⌊x⌋ ≥ ½`), then clamped to what the type has; NaN, which takes weights that overflow,
    ///   becomes 0. A NaN of a float picture gives NaN.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for another number of channels, [`Error::Parameter`] for weights that are not finite, and those
    /// of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray, ops::Weights};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let red_and_white = array![[[65535u16, 0, 0], [65535, 65535, 65535]]];
    /// let picture = DeviceArray::from_ndarray(device.default_stream(), &red_and_white)?;
    /// assert_eq!(picture.grayscale_with(Weights::Bt709)?.to_ndarray()?, array![[13933, 65535]]);
    /// let mean = Weights::Custom([0.5, 0.25, 0.25]);
    /// assert_eq!(picture.grayscale_with(mean)?.to_ndarray()?, array![[32768, 65535]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grayscale_with(&self, weights: Weights) -> Result<DeviceArray<T, Ix2>> {
        let dim = Ix2(self.shape()[0], self.shape()[1]);
        check(self, dim, weights)?;
        DeviceArray::made(self.stream(), dim, &mut |out| self.grayscale_with_into(weights, out))
    }

    /// [`grayscale_with`](Self::grayscale_with) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`grayscale_with`](Self::grayscale_with), and [`Error::Shape`] if `out` does not have the picture's rows and
    /// columns.
    pub fn grayscale_with_into(&self, weights: Weights, out: &mut DeviceArrayRef<T, Ix2>) -> Result<()> {
        let channels = check(self, out.raw_dim(), weights)?;
        if out.is_empty() {
            return Ok(());
        }
        let config = tiles(out.len(), kernels::tile_len::<T>(), kernels::THREADS);
        self.stream().check_device("grayscale", out.stream())?;
        let picture = &*self.in_order()?;
        out.write_in_order(self.stream(), &mut |gray| {
            let call = Call {
                picture,
                gray,
                channels,
                config,
            };
            T::launch_grayscale(call, weights)
        })
    }
}

/// The picture's channels, if it can be turned to a gray one of shape `out` with these weights.
fn check<T: Pixel>(picture: &DeviceArrayRef<T, Ix3>, out: Ix2, weights: Weights) -> Result<Channels> {
    let operation = "grayscale";
    let channels = Channels::of(operation, picture)?;
    let out = [out[0], out[1]];
    if out != picture.shape()[..2] || channels == Channels::Gray {
        return Err(Error::Shape {
            operation,
            given: format!("shape {:?} into {out:?}", picture.shape()),
            wanted: "rows × columns × 3 or 4 channels into rows × columns".into(),
        });
    }
    if weights.nearest().into_iter().all(f32::is_finite) {
        return Ok(channels);
    }
    Err(Error::Parameter {
        operation,
        parameter: "weights",
        given: format!("{:?}", weights.nearest()),
        wanted: "finite numbers".into(),
    })
}
