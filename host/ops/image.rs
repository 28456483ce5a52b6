// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures: arrays of `u8` with the axes row, column, channel, as the crate `image` and NumPy lay them out.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::{blur, grayscale};
use ndarray::{Ix2, Ix3};

use super::tiles;
use crate::array::DeviceArray;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;

/// The channels of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// One: gray.
    Gray,
    /// Three: red, green, blue.
    Rgb,
    /// Four: red, green, blue, alpha.
    Rgba,
}

impl Channels {
    /// The channels of a picture that has so many.
    fn of(operation: &'static str, picture: &DeviceArray<u8, Ix3>) -> Result<Self> {
        match picture.shape()[2] {
            1 => Ok(Self::Gray),
            3 => Ok(Self::Rgb),
            4 => Ok(Self::Rgba),
            _ => Err(Error::Shape {
                operation,
                given: format!("shape {:?}", picture.shape()),
                wanted: "rows × columns × channels, with 1, 3 or 4 channels".into(),
            }),
        }
    }
}

/// Pictures.
impl DeviceArray<u8, Ix3> {
    /// The picture in shades of gray: rows × columns × 3 or 4 channels (alpha is not looked at) to rows × columns.
    ///
    /// ITU-R BT.601 luma: `0.299 R + 0.587 G + 0.114 B` rounded to nearest, halves up, exactly.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for another number of channels, and those of an allocation and a launch.
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
    pub fn grayscale(&self) -> Result<DeviceArray<u8, Ix2>> {
        let mut out = DeviceArray::uninit(self.stream(), Ix2(self.shape()[0], self.shape()[1]))?;
        self.grayscale_into(&mut out)?;
        Ok(out)
    }

    /// [`grayscale`](Self::grayscale) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`grayscale`](Self::grayscale), and [`Error::Shape`] if `out` does not have the picture's rows and columns.
    pub fn grayscale_into(&self, out: &mut DeviceArray<u8, Ix2>) -> Result<()> {
        let channels = Channels::of("grayscale", self)?;
        if out.shape() != &self.shape()[..2] || channels == Channels::Gray {
            return Err(Error::Shape {
                operation: "grayscale",
                given: format!("shape {:?} into {:?}", self.shape(), out.shape()),
                wanted: "rows × columns × 3 or 4 channels into rows × columns".into(),
            });
        }
        if out.is_empty() {
            return Ok(());
        }
        let config = tiles(out.len(), grayscale::THREADS, grayscale::THREADS);
        if channels == Channels::Rgb {
            self.stream().launch::<grayscale::grayscale<3>>(&config, (self, out))
        } else {
            self.stream().launch::<grayscale::grayscale<4>>(&config, (self, out))
        }
    }

    /// The picture blurred by a 3 × 3 box: each pixel becomes the mean of itself and those of its eight neighbours that
    /// exist, rounded to nearest, halves up; of four channels, the last (alpha) is kept. 1, 3 or 4 channels.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for another number of channels, and those of an allocation and a launch.
    pub fn box_blur_3x3(&self) -> Result<Self> {
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.box_blur_3x3_into(&mut out)?;
        Ok(out)
    }

    /// [`box_blur_3x3`](Self::box_blur_3x3) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`box_blur_3x3`](Self::box_blur_3x3), and [`Error::Shape`] if the shapes differ.
    pub fn box_blur_3x3_into(&self, out: &mut Self) -> Result<()> {
        let channels = Channels::of("box_blur_3x3", self)?;
        self.same_shape("box_blur_3x3", out)?;
        if out.is_empty() {
            return Ok(());
        }
        match channels {
            Channels::Gray => launch_blur::<blur::box_blur_3x3<1>>(self, out),
            Channels::Rgb => launch_blur::<blur::box_blur_3x3<3>>(self, out),
            Channels::Rgba => launch_blur::<blur::box_blur_3x3<4>>(self, out),
        }
    }
}

/// The most blocks of a grid along y; taller pictures are gone down in steps.
const MAX_GRID_Y: u32 = 65_535;

fn launch_blur<K>(picture: &DeviceArray<u8, Ix3>, out: &mut DeviceArray<u8, Ix3>) -> Result<()>
where
    K: SafeKernel<Params = (&'static [u8], usize, SliceMut<'static, u8>)>,
{
    let (height, width) = (picture.shape()[0], picture.shape()[1]);
    let blocks = |pixels: usize, threads: usize| u32::try_from(pixels.div_ceil(threads)).unwrap_or(u32::MAX);
    let config = LaunchConfig::new(
        (
            blocks(width, blur::THREADS_X),
            blocks(height, blur::THREADS_Y).min(MAX_GRID_Y),
        ),
        (blur::THREADS_X as u32, blur::THREADS_Y as u32),
    );
    picture.stream().launch::<K>(&config, (picture, width, out))
}
