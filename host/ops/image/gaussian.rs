// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Gaussian blur.

use cuda_std::SliceMut;
use kernels_gpu::blur::gaussian::{COLUMN_BLOCKS, COLUMN_OUTPUTS, COLUMN_THREADS, ROW_BLOCKS, ROW_THREADS, row_tile};
use ndarray::{Dimension, Ix3};

use super::{Border, Channels, MAX_GRID_Y, PictureAxes, Pixel, check_radius};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::stream::Stream;

#[doc(hidden)]
/// The parameters of the pass along the rows.
pub type RowParams<T> = (
    &'static [T],
    usize,
    usize,
    &'static [f32],
    u32,
    T,
    SliceMut<'static, f32>,
);

#[doc(hidden)]
/// The parameters of the pass along the columns.
pub type ColumnParams<T> = (
    &'static [f32],
    usize,
    usize,
    u32,
    usize,
    &'static [f32],
    u32,
    T,
    SliceMut<'static, T>,
);

/// The radius of the window: four standard deviations, rounded to nearest, halves up, as SciPy has it.
fn radius(sigma: f64) -> usize {
    (4.0 * sigma + 0.5).floor() as usize
}

/// The weights of a window: `exp(−k² / 2σ²)` for k from −radius to radius, divided by their sum, computed in `f64` and
/// rounded once.
fn weights(sigma: f64) -> Vec<f32> {
    let radius = radius(sigma);
    let exact = Vec::from_iter((0..2 * radius + 1).map(|i| {
        let deviations = i.abs_diff(radius) as f64 / sigma;
        (-0.5 * deviations * deviations).exp()
    }));
    let sum: f64 = exact.iter().sum();
    Vec::from_iter(exact.iter().map(|weight| (weight / sum) as f32))
}

/// The most rows, and groups of [`COLUMN_OUTPUTS`] rows, that a block treats one after another.
const MOST: usize = 4;

/// How many of `tasks` a block treats one after another, up to [`MOST`]: as many as leave each multiprocessor `blocks`
/// blocks.
fn each(tasks: usize, stream: &Stream, blocks: usize) -> usize {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    (tasks / (multiprocessors * blocks)).clamp(1, MOST)
}

fn check<T: Pixel>(picture: &DeviceArrayRef<T, Ix3>, sigma: f64, border: Border<T>) -> Result<(Channels, (u32, T))> {
    let operation = "gaussian_blur";
    let channels = Channels::of(operation, picture)?;
    if !(sigma.is_finite() && sigma > 0.0) {
        return Err(Error::Parameter {
            operation,
            parameter: "sigma",
            given: sigma.to_string(),
            wanted: "a finite number above 0".into(),
        });
    }
    let radius = radius(sigma);
    check_radius(
        operation,
        "sigma",
        format!("{sigma}, whose window has a radius of {radius}"),
        radius,
        picture,
    )?;
    Ok((channels, border.to_kernel(operation)?))
}

/// The Gaussian blur.
impl<T: Pixel, D: PictureAxes> DeviceArrayRef<T, D> {
    /// The picture blurred by a Gaussian of standard deviation `sigma`, in pixels, where `border` says what lies beyond
    /// the edges; of four channels, the last (alpha) is kept to the bit. 1, 3 or 4 channels, or no axis for
    /// them: gray.
    ///
    /// The window has a radius of `r = ⌊4 sigma + ½⌋`, as SciPy's `gaussian_filter` does; its weights are computed in
    /// `f64`, add up to 1, and are rounded to `f32`. First the rows, then the columns: `fma(w[2r], x[i+r], … fma(w[1],
    /// x[i−r+1], fma(w[0], x[i−r], +0)) …)` in `f32`, in this order, with no other rounding in between, so every device
    /// gives the same bits. [`Border::Mean`] counts what is missing as 0, and divides by the sum, in the same order, of
    /// the weights of what exists. [`Border::Constant`] has the constant beyond the edges in both passes.
    ///
    /// The result's distance to the Gaussian with real weights is, to first order, at most `(4 r + 6) 2^−24 M` for `M`
    /// the largest `|x|` of the window, and twice that for [`Border::Mean`]; and beside that a half for integers, which
    /// are rounded to nearest at the end, halves up, and clamped. In an `f32` picture, a NaN or an infinity makes
    /// windows that hold it NaN or infinite, and no others; a zero has no sign.
    ///
    /// The time is proportional to `sigma`: `4 r + 2` fused multiply-adds for each number of a channel. Of `n` numbers of
    /// `p` bytes, at least `n (2 p + 8)` bytes are moved, and `4 n` allocated for what is between the passes.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for another number of channels, [`Error::Parameter`] if `sigma` is not a finite number above 0,
    /// the window's radius is larger than the number of rows or of columns (of a picture that has pixels) or the
    /// border's constant is not finite, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::Array3;
    /// # use warpsmith::{Device, DeviceArray, ops::Border};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut star = Array3::<f32>::zeros((101, 101, 1));
    /// star[[50, 50, 0]] = 1.0;
    /// let star = DeviceArray::from_ndarray(device.default_stream(), &star)?;
    /// let blurred = star.gaussian_blur(2.0, Border::Reflect)?.to_ndarray()?;
    /// let ratio = blurred[[50, 52, 0]] / blurred[[50, 50, 0]];
    /// assert!((ratio - (-0.5f32).exp()).abs() < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "gaussian_filter")]
    pub fn gaussian_blur(&self, sigma: f64, border: Border<T>) -> Result<DeviceArray<T, D>> {
        check(&*D::with_channels(self)?, sigma, border)?;
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.gaussian_blur_into(sigma, border, out)
        })
    }

    /// [`gaussian_blur`](Self::gaussian_blur) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`gaussian_blur`](Self::gaussian_blur), and [`Error::Shape`] if the shapes differ.
    pub fn gaussian_blur_into(&self, sigma: f64, border: Border<T>, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        let picture = &*D::with_channels(self)?;
        let checked = check(picture, sigma, border)?;
        self.fits("gaussian_blur", out)?;
        if self.is_empty() {
            return Ok(());
        }
        blur(picture, sigma, checked, &mut *D::with_channels_mut(out)?)
    }
}

/// Both passes, of a picture that has pixels.
fn blur<T: Pixel>(
    picture: &DeviceArrayRef<T, Ix3>,
    sigma: f64,
    (kind, border): (Channels, (u32, T)),
    out: &mut DeviceArrayRef<T, Ix3>,
) -> Result<()> {
    let weights = weights(sigma);
    let picture = &*picture.in_order()?;
    out.write_in_order(picture.stream(), &mut |out| {
        two_passes(picture, [&weights, &weights], (kind, border), out)
    })
}

/// A picture filtered by weights along its rows, and then by others along its columns, of both of which there is an odd number. Both pictures
/// lie in order, and have pixels.
pub(super) fn two_passes<T: Pixel>(
    picture: &DeviceArrayRef<T, Ix3>,
    [along_rows, along_columns]: [&[f32]; 2],
    (kind, (border, constant)): (Channels, (u32, T)),
    out: &mut DeviceArrayRef<T, Ix3>,
) -> Result<()> {
    let stream = picture.stream();
    let (rows, columns, channels) = picture.raw_dim().into_pattern();
    let weights = stream.constant(along_rows)?;
    let mut between = DeviceArray::<f32, Ix3>::uninit(stream, picture.raw_dim())?;
    let tiles = columns.div_ceil(row_tile(channels));
    let rows_each = each(tiles * rows, stream, ROW_BLOCKS);
    let blocks = (tiles as u32, rows.div_ceil(rows_each).min(MAX_GRID_Y) as u32);
    let config = LaunchConfig::new(blocks, ROW_THREADS as u32);
    let args = (picture, columns, rows, &weights, border, constant, &mut between);
    match kind {
        Channels::Gray => stream.launch::<T::GaussianRows1>(&config, args)?,
        Channels::Rgb => stream.launch::<T::GaussianRows3>(&config, args)?,
        Channels::Rgba => stream.launch::<T::GaussianRows4>(&config, args)?,
    }
    let weights = stream.constant(along_columns)?;
    let row_len = columns * channels;
    let across = row_len.div_ceil(COLUMN_THREADS);
    let groups = each(across * rows.div_ceil(COLUMN_OUTPUTS), stream, COLUMN_BLOCKS);
    let strip = Ord::max(groups * COLUMN_OUTPUTS, rows.div_ceil(MAX_GRID_Y));
    let blocks = (across as u32, rows.div_ceil(strip) as u32);
    let config = LaunchConfig::new(blocks, COLUMN_THREADS as u32);
    let has_alpha = u32::from(kind == Channels::Rgba);
    let args = (
        &between, row_len, rows, has_alpha, strip, &weights, border, constant, out,
    );
    stream.launch::<T::GaussianColumns>(&config, args)
}
