// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the pixels around each.

use cuda_std::SliceMut;
use kernels_gpu::blur::filter::{ROWS, THREADS};
use kernels_gpu::blur::filter_3x3::Weights3x3;
use ndarray::{ArrayBase, Data, Dimension, Ix2, Ix3};

use super::{Border, Channels, MAX_GRID_Y, Pixel, check_radius, resident_threads};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;

/// What errors call it.
const OPERATION: &str = "filter";

/// The parameters of the kernel for 3 × 3 weights of one channel.
pub type Filter3x3Params<T> = (
    &'static [T],
    usize,
    usize,
    u32,
    u32,
    Weights3x3,
    T,
    SliceMut<'static, T>,
);

/// The parameters of that for any weights.
pub type FilterParams<T> = (
    &'static [T],
    usize,
    usize,
    usize,
    &'static [f32],
    usize,
    u32,
    u32,
    T,
    SliceMut<'static, T>,
);

/// The most rows of a strip. Of `f32` that is loaded by vectors memory is the limit: strips are so short that those one above the other run
/// at a time, and the rows at their edges, which two threads read, are in the cache. Else instructions are, of which each strip's first
/// rows want some.
const fn max_rows<T: Pixel>(width: usize) -> usize {
    if size_of::<T>() == 4 && width.is_multiple_of(T::FILTERED) {
        8
    } else {
        32
    }
}

/// The border as kernels take it, if weights and border are possible.
fn check<T: Pixel, S: Data<Elem = f32>>(
    picture: &DeviceArrayRef<T, Ix3>,
    weights: &ArrayBase<S, Ix2>,
    border: Border<T>,
) -> Result<(u32, T)> {
    Channels::of(OPERATION, picture)?;
    let refuse = |parameter, given: String, wanted: &str| Error::Parameter {
        operation: OPERATION,
        parameter,
        given,
        wanted: wanted.into(),
    };
    let (rows, columns) = weights.dim();
    if weights.is_empty() {
        return Err(refuse(
            "weights",
            format!("shape {:?}", weights.shape()),
            "at least one",
        ));
    }
    if matches!(border, Border::Mean) {
        return Err(refuse("border", "Mean".into(), "one that has pixels"));
    }
    let radius = rows.max(columns) / 2;
    check_radius(OPERATION, "weights", format!("{rows} × {columns}"), radius, picture)?;
    border.to_kernel(OPERATION)
}

/// Filters with weights of one's own.
impl<T: Pixel> DeviceArrayRef<T, Ix3> {
    /// The picture filtered by `weights`: each number becomes the sum of those of its channel around it, times the weights, where
    /// `border` says what lies beyond the edges; of four channels, the last (alpha) is kept. 1, 3 or 4 channels.
    ///
    /// `out[y, x] = Σ weights[i, j] · picture[y + i − ⌊rows / 2⌋, x + j − ⌊columns / 2⌋]`, as SciPy's `ndimage.correlate` and OpenCV's
    /// `filter2D`: the weights are not reversed.
    ///
    /// The sum is `fma(w[n−1], x[n−1], … fma(w[1], x[1], fma(w[0], x[0], +0)) …)` in `f32`, with the weights row by row, so every device
    /// gives the same bits; for `n` weights it is off by at most `n 2⁻²⁴ Σ|w||x|` to first order. Integers are rounded to nearest, halves
    /// up, and clamped; NaN, which takes weights that are not finite, becomes 0.
    ///
    /// With 3 × 3 weights and one channel each number is read once and written once. Otherwise a thread has several results of up to four
    /// rows, and reads a number from the cache once for all of them; weights that are a product of a row and a column are not taken apart.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for another number of channels, [`Error::Parameter`] without weights, for more rows or columns of them than
    /// twice the picture's and one, with [`Border::Mean`] and with a constant that is not finite, and those of an allocation and a
    /// launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::{Array3, array};
    /// # use warpsmith::{Device, DeviceArray, ops::Border};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let step = Array3::from_shape_fn((5, 6, 1), |(_, column, _)| if column < 3 { 10u8 } else { 50 });
    /// let step = DeviceArray::from_ndarray(device.default_stream(), &step)?;
    /// let sobel = array![[-1.0f32, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]];
    /// let edges = step.filter(&sobel, Border::Clamp)?;
    /// assert_eq!([edges.get([2, 1, 0])?, edges.get([2, 2, 0])?, edges.get([2, 4, 0])?], [0, 160, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn filter<S: Data<Elem = f32>>(
        &self,
        weights: &ArrayBase<S, Ix2>,
        border: Border<T>,
    ) -> Result<DeviceArray<T, Ix3>> {
        check(self, weights, border)?;
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.filter_into(weights, border, out)
        })
    }

    /// [`filter`](Self::filter) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`filter`](Self::filter), and [`Error::Shape`] if the shapes differ.
    pub fn filter_into<S: Data<Elem = f32>>(
        &self,
        weights: &ArrayBase<S, Ix2>,
        border: Border<T>,
        out: &mut DeviceArrayRef<T, Ix3>,
    ) -> Result<()> {
        let border = check(self, weights, border)?;
        self.fits(OPERATION, out)?;
        if self.is_empty() {
            return Ok(());
        }
        let picture = &*self.in_order()?;
        let all: Vec<f32> = weights.iter().copied().collect();
        out.write_in_order(self.stream(), &mut |out| match (
            weights.dim(),
            picture.shape()[2],
            <[f32; 9]>::try_from(&all[..]),
        ) {
            ((3, 3), 1, Ok(weights)) => filter_3x3(picture, Weights3x3 { weights }, border, out),
            ((_, taps), ..) => filter_any(picture, &all, taps, border, out),
        })
    }
}

/// By the kernel for 3 × 3 weights.
fn filter_3x3<T: Pixel>(
    picture: &DeviceArrayRef<T, Ix3>,
    weights: Weights3x3,
    (border, constant): (u32, T),
    out: &mut DeviceArrayRef<T, Ix3>,
) -> Result<()> {
    let stream = picture.stream();
    let (height, width, _) = picture.raw_dim().into_pattern();
    let across = width.div_ceil(T::FILTERED * THREADS);
    // Short strips where the picture is too small to give threads enough to do.
    let rows = (across * THREADS * height / resident_threads(stream)).clamp(2, max_rows::<T>(width));
    let rows = rows.max(height.div_ceil(MAX_GRID_Y));
    let blocks = (u32::try_from(across).unwrap_or(u32::MAX), height.div_ceil(rows) as u32);
    let config = LaunchConfig::new(blocks, THREADS as u32);
    let args = (picture, width, height, rows as u32, border, weights, constant, out);
    stream.launch::<T::Filter3x3>(&config, args)
}

/// By the kernel for any weights.
fn filter_any<T: Pixel>(
    picture: &DeviceArrayRef<T, Ix3>,
    weights: &[f32],
    taps: usize,
    (border, constant): (u32, T),
    out: &mut DeviceArrayRef<T, Ix3>,
) -> Result<()> {
    let stream = picture.stream();
    let (height, width, channels) = picture.raw_dim().into_pattern();
    let weights = stream.constant(weights)?;
    let across = width.div_ceil(T::FILTERED) * channels;
    // A thread takes hardly longer for two rows than for one: one row is for pictures of so few threads that each runs by itself.
    let rows = (1 + across * height * 16 / resident_threads(stream)).min(ROWS);
    let blocks = across.div_ceil(THREADS) * height.div_ceil(rows);
    let config = LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS as u32);
    let args = (
        picture,
        width,
        height,
        channels,
        &weights,
        taps,
        rows as u32,
        border,
        constant,
        out,
    );
    stream.launch::<T::Filter>(&config, args)
}
