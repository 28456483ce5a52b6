// SPDX-License-Identifier: MIT OR Apache-2.0
//! The box blur.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::blur::border;
use kernels_gpu::blur::box_3x3::{self, BATCH, STRIP};
use kernels_gpu::blur::box_blur::{self as kernels, column_strip, row_strip};
use kernels_gpu::blur::sums::{Bytes, Floats, Sums, WideWords, Words};
use ndarray::{Dimension, Ix3};

use super::{Border, Channels, MAX_GRID_Y, PictureAxes, Pixel, check_radius, resident_threads, stepping};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;

/// The parameters of the pass along the rows.
type RowParams<P> = (
    &'static [<P as Sums>::Pixel],
    usize,
    usize,
    u32,
    <P as Sums>::Pixel,
    SliceMut<'static, <P as Sums>::RowSum>,
);

/// The parameters of the pass along the columns.
type ColumnParams<P> = (
    &'static [<P as Sums>::RowSum],
    usize,
    usize,
    usize,
    u32,
    <P as Sums>::Pixel,
    SliceMut<'static, <P as Sums>::Pixel>,
);

/// A way to sum that the kernels are compiled for.
trait BoxSums: Sums<Pixel: Pixel, RowSum: Element> {
    type Rows1: SafeKernel<Params = RowParams<Self>>;
    type Rows3: SafeKernel<Params = RowParams<Self>>;
    type Rows4: SafeKernel<Params = RowParams<Self>>;
    type Columns: SafeKernel<Params = ColumnParams<Self>>;
}

impl BoxSums for Bytes {
    type Rows1 = kernels::box_rows<Bytes, 1>;
    type Rows3 = kernels::box_rows<Bytes, 3>;
    type Rows4 = kernels::box_rows<Bytes, 4>;
    type Columns = kernels::box_columns<Bytes>;
}

impl BoxSums for Words {
    type Rows1 = kernels::box_rows<Words, 1>;
    type Rows3 = kernels::box_rows<Words, 3>;
    type Rows4 = kernels::box_rows<Words, 4>;
    type Columns = kernels::box_columns<Words>;
}

impl BoxSums for WideWords {
    type Rows1 = kernels::box_rows<WideWords, 1>;
    type Rows3 = kernels::box_rows<WideWords, 3>;
    type Rows4 = kernels::box_rows<WideWords, 4>;
    type Columns = kernels::box_columns<WideWords>;
}

impl BoxSums for Floats {
    type Rows1 = kernels::box_rows<Floats, 1>;
    type Rows3 = kernels::box_rows<Floats, 3>;
    type Rows4 = kernels::box_rows<Floats, 4>;
    type Columns = kernels::box_columns<Floats>;
}

/// A blur whose parameters have been checked, of a picture that has pixels.
#[doc(hidden)]
pub struct Call<'a, T> {
    picture: &'a DeviceArrayRef<T, Ix3>,
    out: &'a mut DeviceArrayRef<T, Ix3>,
    channels: Channels,
    radius: usize,
    border: (u32, T),
}

impl<T: Pixel> Call<'_, T> {
    /// Both passes, with the sums of the first in an array of their own.
    fn launch<P: BoxSums<Pixel = T>>(self) -> Result<()> {
        let stream = self.picture.stream();
        let (rows, columns, channels) = self.picture.raw_dim().into_pattern();
        let (radius, (border, constant)) = (self.radius, self.border);
        let mut sums = DeviceArray::<P::RowSum, Ix3>::uninit(stream, self.picture.raw_dim())?;
        let strips = rows * columns.div_ceil(row_strip(radius));
        let config = stepping(strips, kernels::WARPS, kernels::THREADS);
        let args = (self.picture, columns, radius, border, constant, &mut sums);
        match self.channels {
            Channels::Gray => stream.launch::<P::Rows1>(&config, args)?,
            Channels::Rgb => stream.launch::<P::Rows3>(&config, args)?,
            Channels::Rgba => stream.launch::<P::Rows4>(&config, args)?,
        }
        let blocks = (columns * channels).div_ceil(kernels::THREADS) * rows.div_ceil(column_strip(radius));
        let args = (&sums, columns, channels, radius, border, constant, self.out);
        stream.launch::<P::Columns>(&stepping(blocks, 1, kernels::THREADS), args)
    }
}

/// The blur of bytes.
pub(super) fn bytes(call: Call<'_, u8>) -> Result<()> {
    if call.radius == 1 && call.border.0 == border::MISSING {
        return call.picture.box_blur_3x3_into(call.out);
    }
    // A radius of 2^23, for which 32 bits do not do, takes a picture of as many rows and columns: 2^46 pixels.
    call.launch::<Bytes>()
}

/// The blur of words.
pub(super) fn words(call: Call<'_, u16>) -> Result<()> {
    if call.radius < 1 << 15 {
        call.launch::<Words>()
    } else {
        call.launch::<WideWords>()
    }
}

/// The blur of floats.
pub(super) fn floats(call: Call<'_, f32>) -> Result<()> {
    call.launch::<Floats>()
}

/// The call, if the parameters are possible, and if there is anything to do.
fn check<'a, T: Pixel>(
    picture: &'a DeviceArrayRef<T, Ix3>,
    radius: usize,
    border: Border<T>,
    out: &'a mut DeviceArrayRef<T, Ix3>,
) -> Result<Option<Call<'a, T>>> {
    let (channels, border) = check_input(picture, radius, border)?;
    picture.fits("box_blur", out)?;
    Ok((!picture.is_empty()).then_some(Call {
        picture,
        out,
        channels,
        radius,
        border,
    }))
}

fn check_input<T: Pixel>(
    picture: &DeviceArrayRef<T, Ix3>,
    radius: usize,
    border: Border<T>,
) -> Result<(Channels, (u32, T))> {
    let channels = Channels::of("box_blur", picture)?;
    check_radius("box_blur", "radius", radius.to_string(), radius, picture)?;
    Ok((channels, border.to_kernel("box_blur")?))
}

/// The box blur.
impl<T: Pixel, D: PictureAxes> DeviceArrayRef<T, D> {
    /// The picture blurred by a box: each pixel becomes the mean of the `2 radius + 1` rows and columns around it,
    /// where `border` says what lies beyond the edges; of four channels, the last (alpha) is kept. 1, 3 or 4 channels, or no
    /// axis for them: gray.
    ///
    /// The time does not depend on the radius: a running sum along the rows, then one along the columns (M. J. McDonnell,
    /// "Box-filtering techniques", 1981). Of `n` numbers of `p` bytes, at least `2 n (p + s)` bytes are moved, with sums of
    /// `s` bytes, 4 for integers (8 for `u16` with a radius from 2^15 on) and 8 for `f32`, for which `n s` bytes are
    /// allocated meanwhile. A radius of 1 with [`Border::Mean`] on `u8` is [`box_blur_3x3`](Self::box_blur_3x3), which
    /// takes one pass.
    ///
    /// * Integers: the real mean rounded to nearest, halves up, exactly.
    /// * `f32`: the mean of the numbers' sum in `f64`. Its distance to the real one is at most `2^−24 |mean| + 2^−51 (3
    ///   w + 13 a + 4 b) M` (and half the least number, 2^−150), with a window of `w = 2 radius + 1`, strips of `a =
    ///   max(w, 256)` columns and `b = max(w, 32)` rows, and `M` the largest finite `|x|` of the channel or the border.
    ///   The same bits on every device. A window that holds a NaN, or both infinities, has a mean of NaN, one that
    ///   holds an infinity has that, and all other windows have their own mean. A zero has no sign: −0 counts as +0,
    ///   also where the radius is 0.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) for another number of channels,
    /// [`Error::Parameter`](crate::Error::Parameter) if the radius is larger than the number of rows or of columns (of
    /// a picture that has pixels) or the border's constant is not finite, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::Array3;
    /// # use warpsmith::{Device, DeviceArray, ops::Border};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut star = Array3::<u8>::zeros((101, 101, 1));
    /// star[[50, 50, 0]] = 250;
    /// let star = DeviceArray::from_ndarray(device.default_stream(), &star)?;
    /// let blurred = star.box_blur(2, Border::Clamp)?.to_ndarray()?;
    /// assert_eq!(blurred[[48, 52, 0]], 10);
    /// assert_eq!(blurred[[47, 52, 0]], 0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "uniform_filter")]
    pub fn box_blur(&self, radius: usize, border: Border<T>) -> Result<DeviceArray<T, D>> {
        check_input(&*D::with_channels(self)?, radius, border)?;
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.box_blur_into(radius, border, out)
        })
    }

    /// [`box_blur`](Self::box_blur) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`box_blur`](Self::box_blur), and [`Error::Shape`](crate::Error::Shape) if the shapes differ.
    pub fn box_blur_into(&self, radius: usize, border: Border<T>, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        let picture = &*D::with_channels(self)?;
        check_input(picture, radius, border)?;
        self.fits("box_blur", out)?;
        let picture = &*picture.in_order()?;
        D::with_channels_mut(out)?.write_in_order(
            self.stream(),
            &mut |out| match check(picture, radius, border, out)? {
                Some(call) => T::launch_box_blur(call),
                None => Ok(()),
            },
        )
    }
}

/// The 3 × 3 box blur of pictures of bytes.
impl<D: PictureAxes> DeviceArrayRef<u8, D> {
    /// The picture blurred by a 3 × 3 box: what [`box_blur`](Self::box_blur) gives for a radius of 1 and
    /// [`Border::Mean`], in one pass, without an array for sums: each byte is read and written once. 1, 3 or 4 channels,
    /// or no axis for them. The mean is the real one, rounded to nearest, halves up.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) for another number of channels, and those of an allocation and a launch.
    pub fn box_blur_3x3(&self) -> Result<DeviceArray<u8, D>> {
        Channels::of("box_blur_3x3", &*D::with_channels(self)?)?;
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| self.box_blur_3x3_into(out))
    }

    /// [`box_blur_3x3`](Self::box_blur_3x3) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`box_blur_3x3`](Self::box_blur_3x3), and [`Error::Shape`](crate::Error::Shape) if the shapes differ.
    pub fn box_blur_3x3_into(&self, out: &mut DeviceArrayRef<u8, D>) -> Result<()> {
        let picture = &*D::with_channels(self)?;
        let channels = Channels::of("box_blur_3x3", picture)?;
        self.fits("box_blur_3x3", out)?;
        if out.is_empty() {
            return Ok(());
        }
        let picture = &*picture.in_order()?;
        D::with_channels_mut(out)?.write_in_order(self.stream(), &mut |out| match channels {
            Channels::Gray => launch_3x3::<box_3x3::box_blur_3x3<1, 1>, box_3x3::box_blur_3x3<1, STRIP>>(picture, out),
            Channels::Rgb => launch_3x3::<box_3x3::box_blur_3x3<3, 1>, box_3x3::box_blur_3x3<3, STRIP>>(picture, out),
            Channels::Rgba => launch_3x3::<box_3x3::box_blur_3x3<4, 1>, box_3x3::box_blur_3x3<4, STRIP>>(picture, out),
        })
    }
}

/// The most rows of a strip, unless the picture is too tall for that: beyond, it makes no difference that the rows
/// above the first and below the last are read by two threads. Where rows are not aligned, reading takes more.
const MAX_ROWS: usize = 12;
const MAX_SHIFTED_ROWS: usize = 32;

/// Launches kernel `A` if its accesses are aligned, and `U` otherwise.
fn launch_3x3<U, A>(picture: &DeviceArrayRef<u8, Ix3>, out: &mut DeviceArrayRef<u8, Ix3>) -> Result<()>
where
    U: SafeKernel<Params = (&'static [u8], usize, usize, SliceMut<'static, u8>)>,
    A: SafeKernel<Params = (&'static [u8], usize, usize, SliceMut<'static, u8>)>,
{
    let (height, width, channels) = (picture.shape()[0], picture.shape()[1], picture.shape()[2]);
    let is_aligned = |address: u64| address.is_multiple_of(STRIP as u64);
    let addresses = [picture.address(), out.address()];
    let is_aligned = (width * channels).is_multiple_of(STRIP) && addresses.into_iter().all(is_aligned);
    let (strips_per_block, max_rows) = if is_aligned {
        (box_3x3::THREADS, MAX_ROWS)
    } else {
        (box_3x3::SHIFTED_STRIPS, MAX_SHIFTED_ROWS)
    };
    let strips = (width * channels).div_ceil(STRIP);
    let threads = resident_threads(picture.stream());
    // Short strips where the picture is too small to give threads enough to do: a quarter of those that fit is enough.
    let rows = match 4 * strips * height / threads {
        0..2 => 2,
        rows => Ord::min(rows.next_multiple_of(BATCH), max_rows),
    };
    let rows = Ord::max(rows, height.div_ceil(MAX_GRID_Y));
    let config = LaunchConfig::new(
        (
            u32::try_from(strips.div_ceil(strips_per_block)).unwrap_or(u32::MAX),
            height.div_ceil(rows) as u32,
        ),
        box_3x3::THREADS as u32,
    );
    if is_aligned {
        picture.stream().launch::<A>(&config, (picture, width, rows, out))
    } else {
        picture.stream().launch::<U>(&config, (picture, width, rows, out))
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array3;

    use super::*;
    use crate::Device;

    /// The sums of radii that only pictures of 2^30 pixels have, on a small one.
    #[test]
    fn wide_sums_of_words_give_what_narrow_ones_do() {
        let device = Device::auto().unwrap();
        for channels in [1, 3, 4] {
            let picture = Array3::from_shape_fn((37, 41, channels), |(y, x, c)| {
                ((y * 2711 + x * 7919 + c * 104_729) % 65_536) as u16
            });
            let picture = DeviceArray::from_ndarray(device.default_stream(), &picture).unwrap();
            for border in [Border::Mean, Border::Reflect, Border::Constant(u16::MAX)] {
                let narrow = picture.box_blur(9, border).unwrap();
                let mut wide = DeviceArray::zeros(device.default_stream(), picture.raw_dim()).unwrap();
                let call = check(&picture, 9, border, &mut wide).unwrap().unwrap();
                call.launch::<WideWords>().unwrap();
                assert_eq!(wide.to_ndarray().unwrap(), narrow.to_ndarray().unwrap());
            }
        }
    }
}
