// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the pixels around each.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::blur::border::CONSTANT;
use kernels_gpu::blur::filter::{ROWS, THREADS};
use kernels_gpu::blur::filter_3x3::{Weights3x3, filter_3x3};
use kernels_gpu::blur::filter_3x3_lines::{APART, BYTE_EXPONENT, ScaledWeights, blocks, filter_3x3_lines};
use kernels_gpu::blur::filter_strips::{WORD_EXPONENT, blocks as blocks_of_strips, filter_strips};
use ndarray::{ArrayBase, Data, Dimension, Ix2, Ix3};

use super::gaussian::two_passes;
use super::separable::Factors;
use super::{Border, Channels, MAX_GRID_Y, PictureAxes, Pixel, check_radius, resident_threads};
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

/// The parameters of the kernel for 3 × 3 weights of pixels that are scaled.
pub type FilterLinesParams<T> = (
    &'static [T],
    usize,
    usize,
    u32,
    u32,
    ScaledWeights,
    T,
    SliceMut<'static, T>,
);

/// The parameters of the kernel for `N × N` weights of strips.
pub type FilterStripsParams<T, const N: usize> = (
    &'static [T],
    usize,
    usize,
    usize,
    u32,
    u32,
    [[f32; N]; N],
    f32,
    T,
    SliceMut<'static, T>,
);

/// A filter of a picture.
pub struct Call<'a, T: Pixel> {
    picture: &'a DeviceArrayRef<T, Ix3>,
    /// Row by row, and how many of both there are.
    weights: Vec<f32>,
    shape: (usize, usize),
    border: (u32, T),
    out: &'a mut DeviceArrayRef<T, Ix3>,
}

impl<T: Pixel> Call<'_, T> {
    /// The weights, if there are 3 × 3, and the picture has one channel.
    fn three_by_three(&self) -> Option<[f32; 9]> {
        let weights = <[f32; 9]>::try_from(&self.weights[..]).ok()?;
        (self.shape == (3, 3) && self.picture.shape()[2] == 1).then_some(weights)
    }

    /// The weights with zeros around them, if they are no more than `N × N`.
    fn padded<const N: usize>(&self) -> Option<[[f32; N]; N]> {
        let (rows, columns) = self.shape;
        if rows > N || columns > N {
            return None;
        }
        let mut padded = [[0.0; N]; N];
        for (i, row) in self.weights.chunks(columns).enumerate() {
            padded[N / 2 - rows / 2 + i][N / 2 - columns / 2..][..columns].copy_from_slice(row);
        }
        Some(padded)
    }

    /// Whether the kernel for strips takes the picture: rows have the columns of a thread, and numbers that 32 bits count.
    fn has_strips(&self) -> bool {
        let (_, width, channels) = self.picture.raw_dim().into_pattern();
        width >= T::FILTERED && u32::try_from(width * channels).is_ok()
    }

    /// Whether the rows of both pictures begin at vectors of `count`.
    fn begins_at_vectors(&self, count: usize) -> bool {
        let bytes = (count * size_of::<T>()) as u64;
        self.picture.raw_dim()[1].is_multiple_of(count)
            && self.picture.address().is_multiple_of(bytes)
            && self.out.address().is_multiple_of(bytes)
    }

    /// Strips of at most `most` rows, and of at least two for each of `parts`: short where the picture is too small to give the `resident`
    /// threads enough to do. `columns` are those of a thread.
    fn strips(&self, columns: usize, parts: usize, most: usize, resident: usize) -> (LaunchConfig, u32) {
        let (height, width, channels) = self.picture.raw_dim().into_pattern();
        let across = (width.div_ceil(columns) * channels)
            .div_ceil(THREADS)
            .next_multiple_of(parts);
        let rows = across * THREADS * height / resident;
        let rows = rows.clamp(2 * parts, most).max(height.div_ceil(MAX_GRID_Y));
        let blocks = (u32::try_from(across).unwrap_or(u32::MAX), height.div_ceil(rows) as u32);
        (LaunchConfig::new(blocks, THREADS as u32), rows as u32)
    }

    /// The threads that run at a time where multiprocessors have room for so many `blocks`.
    fn resident(&self, blocks: usize) -> usize {
        let multiprocessors = self.picture.stream().backend().properties().multiprocessors as usize;
        multiprocessors * blocks * THREADS
    }
}

/// Bytes.
pub fn bytes(call: Call<'_, u8>) -> Result<()> {
    let Some(weights) = call.three_by_three() else {
        return match (call.padded::<5>(), call.padded::<7>()) {
            (Some(weights), _) => integers::<u8, filter_strips<u8, 8, 5>, 5>(call, weights, &BYTES),
            (_, Some(weights)) => integers::<u8, filter_strips<u8, 8, 7>, 7>(call, weights, &BYTES),
            _ => of_any_size(call),
        };
    };
    // By vectors where rows begin at them and the weights can be scaled.
    match scaled(weights, &BYTES).filter(|_| call.begins_at_vectors(16)) {
        Some((weights, scale)) => {
            // Instructions are the limit: a strip's first two rows count, so that strips are as long as those that run at a time allow.
            let resident = call.resident(blocks(16));
            let weights = ScaledWeights { weights, scale };
            by_lines::<u8, filter_3x3_lines<u8, 16>>(call, weights, 16 / APART, 128, resident)
        }
        None => of_any_width::<u8, filter_3x3<u8, 8>>(call, weights),
    }
}

/// Integers of 16 bits.
pub fn words(call: Call<'_, u16>) -> Result<()> {
    if let Some(weights) = call.three_by_three() {
        return of_any_width::<u16, filter_3x3<u16, 8>>(call, weights);
    }
    match call.padded() {
        Some(weights) => integers::<u16, filter_strips<u16, 8, 5>, 5>(call, weights, &WORDS),
        None => of_any_size(call),
    }
}

/// Floats.
pub fn floats(call: Call<'_, f32>) -> Result<()> {
    if let Some(weights) = call.three_by_three() {
        // Memory is the limit: strips are so short that those one above the other run at a time, and the rows at their edges, which two
        // threads read, are in the cache.
        let resident = resident_threads(call.picture.stream());
        let weights = ScaledWeights { weights, scale: 1.0 };
        return by_lines::<f32, filter_3x3_lines<f32, 4>>(call, weights, 4 / APART, 8, resident);
    }
    // Zeros around fewer weights would make NaN of infinities.
    match call.padded().filter(|_| call.shape == (5, 5) && call.has_strips()) {
        Some(weights) => by_strips::<f32, filter_strips<f32, 4, 5>, 5>(call, weights, 1.0),
        None => of_any_size(call),
    }
}

/// Integers, by strips where the `weights` can be scaled. Zeros around fewer than `N × N` change no result.
fn integers<T: Pixel, K: SafeKernel<Params = FilterStripsParams<T, N>>, const N: usize>(
    call: Call<'_, T>,
    weights: [[f32; N]; N],
    scale: &Scale,
) -> Result<()> {
    match scaled(weights, scale).filter(|_| call.has_strips()) {
        Some((weights, scale)) => by_strips::<T, K, N>(call, weights, scale),
        None => filter_any(call),
    }
}

/// How pixels are scaled.
struct Scale {
    /// The exponent of the power of two that they are multiplied by.
    exponent: i32,
    /// That of the least power of two that sums may be multiplied by, as rounding wants it.
    least: i32,
}

const BYTES: Scale = Scale {
    exponent: BYTE_EXPONENT,
    least: -8,
};

const WORDS: Scale = Scale {
    exponent: WORD_EXPONENT,
    least: -1,
};

/// Weights, one by one.
trait Weights {
    /// All of them.
    fn all(&mut self) -> &mut [f32];
}

impl<const N: usize> Weights for [f32; N] {
    fn all(&mut self) -> &mut [f32] {
        self
    }
}

impl<const N: usize> Weights for [[f32; N]; N] {
    fn all(&mut self) -> &mut [f32] {
        self.as_flattened_mut()
    }
}

/// The weights times a power of two, and what the sums of scaled pixels are then to be multiplied by.
///
/// The largest weight becomes at least 2¹²⁶, so that each product with a pixel, which is below 2⁻¹²⁵ when it is scaled, is less than 4.
/// Others are at least 2⁻¹⁰⁰ of it, or 0: their products with pixels are multiples of 2⁻¹⁴⁹, the least `f32`, and so is each sum. The bits
/// of all are thus those without a scale, where no sum overflows, as weights are below 2¹¹². There is none if they are not so.
///
/// Sums are multiplied by the `least` power of two at least: weights that are all small do not become as large. Then the least normal
/// number still becomes 2¹⁵ for bytes, and 2¹⁶ for 16 bits, and its products are such multiples.
fn scaled<W: Weights>(mut weights: W, &Scale { exponent, least }: &Scale) -> Option<(W, f32)> {
    let all = weights.all();
    let largest = all.iter().fold(0.0, |largest: f32, weight| largest.max(weight.abs()));
    let is_plain =
        |x: f32| x == 0.0 || x >= largest * 2.0f32.powi(-100) && x >= f32::MIN_POSITIVE && x < 2.0f32.powi(112);
    if largest == 0.0 || !all.iter().all(|weight| is_plain(weight.abs())) {
        return None;
    }
    let power_of_two = |exponent: i32| f64::from_bits(((1023 + exponent) as u64) << 52);
    let by = Ord::min(126 - (largest.to_bits() >> 23) as i32 + 127, -least - exponent);
    for weight in all {
        *weight = (f64::from(*weight) * power_of_two(by)) as f32;
    }
    Some((weights, power_of_two(-exponent - by) as f32))
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
impl<T: Pixel, D: PictureAxes> DeviceArrayRef<T, D> {
    /// The picture filtered by `weights`: each number becomes the sum of those of its channel around it, times the weights, where
    /// `border` says what lies beyond the edges; of four channels, the last (alpha) is kept. 1, 3 or 4 channels, or no axis
    /// for them: gray.
    ///
    /// `out[y, x] = Σ weights[i, j] · picture[y + i − ⌊rows / 2⌋, x + j − ⌊columns / 2⌋]`, as SciPy's `ndimage.correlate` and OpenCV's
    /// `filter2D`: the weights are not reversed.
    ///
    /// The sum is `fma(w[n−1], x[n−1], … fma(w[1], x[1], fma(w[0], x[0], +0)) …)` in `f32`, with the weights row by row, so every device
    /// gives the same bits; for `n` weights it is off by at most `n 2⁻²⁴ Σ|w||x|` to first order. Integers are rounded to nearest, halves
    /// up, and clamped; NaN, which takes weights that are not finite, becomes 0.
    ///
    /// With 3 × 3 weights and one channel, with 5 × 5, and for integers with any that are no more (for `u8`, than 7 × 7), each number is read
    /// once and written once. Otherwise a thread has several results of up to four rows, and reads a number from the cache once for all of
    /// them.
    ///
    /// Other weights of an odd number of rows and of columns, at least seven each, that are a column times a row, each to within 2⁻²⁰ of
    /// itself, are taken apart: first the rows are filtered, by that of the largest weight, and then the columns, by `rows + columns`
    /// products for each number in place of `rows · columns`. Where the magnitudes of that row add up to more than 1, a power of two is
    /// moved from it to the column, so that no sum between the passes is larger than the largest number. Each pass sums in the order
    /// above, in `f32`, so every device gives the same bits here, too, and the error is within the same bound, but for numbers of `f32`
    /// whose products with that row are no normal numbers: those lose up to 2⁻¹⁵⁰ each, times the column. `4 n` bytes are allocated for
    /// `n` numbers. Weights with a constant border other than 0 are not taken apart, nor such as are so large that the power of two
    /// would make the column overflow.
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
    #[doc(alias("convolve2d", "correlate"))]
    pub fn filter<S: Data<Elem = f32>>(
        &self,
        weights: &ArrayBase<S, Ix2>,
        border: Border<T>,
    ) -> Result<DeviceArray<T, D>> {
        check(&*D::with_channels(self)?, weights, border)?;
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
        out: &mut DeviceArrayRef<T, D>,
    ) -> Result<()> {
        let picture = &*D::with_channels(self)?;
        let border = check(picture, weights, border)?;
        self.fits(OPERATION, out)?;
        if self.is_empty() {
            return Ok(());
        }
        let picture = &*picture.in_order()?;
        let all: Vec<f32> = weights.iter().copied().collect();
        D::with_channels_mut(out)?.write_in_order(self.stream(), &mut |out| {
            T::launch_filter(Call {
                picture,
                weights: all.clone(),
                shape: weights.dim(),
                border,
                out,
            })
        })
    }
}

/// By the kernel for rows of any width.
fn of_any_width<T: Pixel, K: SafeKernel<Params = Filter3x3Params<T>>>(
    call: Call<'_, T>,
    weights: [f32; 9],
) -> Result<()> {
    let (config, rows) = call.strips(T::FILTERED, 1, 32, resident_threads(call.picture.stream()));
    let (picture, (border, constant)) = (call.picture, call.border);
    let (height, width, _) = picture.raw_dim().into_pattern();
    let weights = Weights3x3 { weights };
    let args = (picture, width, height, rows, border, weights, constant, call.out);
    picture.stream().launch::<K>(&config, args)
}

/// By the kernel for scaled pixels, of which `resident` threads run at a time, in strips of at most `most` rows, which it takes in `parts`
/// where rows begin at vectors.
fn by_lines<T: Pixel, K: SafeKernel<Params = FilterLinesParams<T>>>(
    call: Call<'_, T>,
    weights: ScaledWeights,
    parts: usize,
    most: usize,
    resident: usize,
) -> Result<()> {
    let (config, rows) = call.strips(APART, parts, most, resident);
    let (picture, (border, constant)) = (call.picture, call.border);
    let (height, width, _) = picture.raw_dim().into_pattern();
    let args = (picture, width, height, rows, border, weights, constant, call.out);
    picture.stream().launch::<K>(&config, args)
}

/// By the kernel for `N × N` weights.
fn by_strips<T: Pixel, K: SafeKernel<Params = FilterStripsParams<T, N>>, const N: usize>(
    call: Call<'_, T>,
    weights: [[f32; N]; N],
    scale: f32,
) -> Result<()> {
    let (picture, (border, constant)) = (call.picture, call.border);
    let (height, width, channels) = picture.raw_dim().into_pattern();
    let across = (width.div_ceil(T::FILTERED) * channels).div_ceil(THREADS);
    // Each strip reads `N − 1` rows more than it has: it is as long as leaves all at a time, up to where that hardly counts.
    let at_a_time = Ord::max(call.resident(blocks_of_strips(N)) / (across * THREADS), 1);
    let rows = height.div_ceil(at_a_time).min(256).max(height.div_ceil(MAX_GRID_Y));
    let blocks = (u32::try_from(across).unwrap_or(u32::MAX), height.div_ceil(rows) as u32);
    let config = LaunchConfig::new(blocks, THREADS as u32);
    let rows = rows as u32;
    let args = (
        picture, width, height, channels, rows, border, weights, scale, constant, call.out,
    );
    picture.stream().launch::<K>(&config, args)
}

/// By two passes where the weights are a column times a row, else by the kernel for any weights.
fn of_any_size<T: Pixel>(call: Call<'_, T>) -> Result<()> {
    let (border, constant) = call.border;
    // Beyond the picture's upper and lower edge the second pass has a constant itself, and not what the first would make of it.
    let is_zero_beyond = border != CONSTANT || constant.to_f32() == 0.0;
    let factors = Factors::of(&call.weights, call.shape.1).filter(|_| is_zero_beyond);
    let Some(Factors {
        along_rows,
        along_columns,
    }) = factors
    else {
        return filter_any(call);
    };
    let kind = Channels::of(OPERATION, call.picture)?;
    two_passes(
        call.picture,
        [&along_rows, &along_columns],
        (kind, call.border),
        call.out,
    )
}

/// By the kernel for any weights.
fn filter_any<T: Pixel>(call: Call<'_, T>) -> Result<()> {
    let (picture, (border, constant)) = (call.picture, call.border);
    let stream = picture.stream();
    let (height, width, channels) = picture.raw_dim().into_pattern();
    let weights = stream.constant(&call.weights)?;
    let across = width.div_ceil(T::FILTERED) * channels;
    // A thread takes hardly longer for two rows than for one: one row is for pictures of so few threads that each runs by itself.
    let rows = (1 + across * height * 16 / resident_threads(stream)).min(ROWS);
    let blocks = across.div_ceil(THREADS) * height.div_ceil(rows);
    let config = LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS as u32);
    let (_, taps) = call.shape;
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
        call.out,
    );
    stream.launch::<T::Filter>(&config, args)
}
