// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms and counts of values.

mod bincount;
mod launch;
mod plan;

use std::ops::RangeInclusive;

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::compiled::CountBins;
use kernels_gpu::histogram::{Channels, Sample, Search, Uniform};
use ndarray::{Array1, Dimension, Ix1, Ix2, Ix3};

use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};

pub use bincount::Bincount;
use launch::{clear, extent, launch};
use plan::{MAX_BINS, MAX_COUNTERS, checked_bins, checked_range, equal_width, uniform_plan};

/// The element types of histograms: `u8`, `u16`, `i32`, `u32`, `f32`, `f64`.
pub trait Histogram: Sample + CountBins<Uniform> + CountBins<Channels> + CountBins<Search> {
    /// The kernel for the smallest and the largest element.
    #[doc(hidden)]
    type Extent: SafeKernel<Params = (&'static [Self], SliceMut<'static, u64>)>;

    /// The least value that is at least `edge`.
    #[doc(hidden)]
    fn at_least(edge: f64) -> Option<Self>;

    /// The greatest value that is at most `edge`.
    #[doc(hidden)]
    fn at_most(edge: f64) -> Option<Self>;

    /// The next smaller value.
    #[doc(hidden)]
    fn before(self) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Histogram for $type {
            type Extent = kernels_gpu::histogram::extent<$type>;

            fn at_least(edge: f64) -> Option<Self> {
                (edge <= f64::from(Self::MAX)).then(|| edge.ceil() as Self)
            }

            fn at_most(edge: f64) -> Option<Self> {
                (edge >= f64::from(Self::MIN)).then(|| edge.floor() as Self)
            }

            fn before(self) -> Option<Self> {
                self.checked_sub(1)
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ident)*) => {$(
        impl Histogram for $type {
            type Extent = kernels_gpu::histogram::extent<$type>;

            fn at_least(edge: f64) -> Option<Self> {
                let nearest = edge as Self;
                Some(if f64::from(nearest) < edge { nearest.next_up() } else { nearest })
            }

            fn at_most(edge: f64) -> Option<Self> {
                let nearest = edge as Self;
                Some(if f64::from(nearest) > edge { nearest.next_down() } else { nearest })
            }

            fn before(self) -> Option<Self> {
                (self > Self::NEG_INFINITY).then(|| self.next_down())
            }
        }
    )*};
}

integers!(u8 u16 i32 u32);
floats!(f32 f64);

/// The edges of `bins` bins of equal width from the lower to the upper limit, `bins + 1` numbers: those of NumPy's
/// `histogram_bin_edges` for data of type `T`.
///
/// They are computed as NumPy's `linspace` does: edge `i` is `i * step + lo` in `f64`, with `step = (hi − lo) / bins`,
/// and the last is `hi`. Where the limits are equal, they are moved apart by 0.5 each. For `f32` the edges are rounded
/// to `f32`, beyond its greatest number to infinity. Edges may coincide where the bins are narrower than the type can
/// tell apart (NumPy 2 refuses those); all but the last of such bins stay empty.
///
/// # Errors
///
/// [`Error::Parameter`] unless there are 1 to 2^20 bins and the limits are finite, in order, and not further apart than
/// the greatest `f64`.
///
/// # Examples
///
/// ```
/// # fn main() -> warpsmith::Result<()> {
/// assert_eq!(warpsmith::ops::histogram_bin_edges::<f64>(4, -1.0..=1.0)?, [-1.0, -0.5, 0.0, 0.5, 1.0]);
/// # Ok(())
/// # }
/// ```
pub fn histogram_bin_edges<T: Histogram>(bins: usize, range: RangeInclusive<f64>) -> Result<Vec<f64>> {
    let operation = "histogram_bin_edges";
    let bins = checked_bins(operation, bins)?;
    let (lo, hi) = checked_range(operation, &range)?;
    let plan = equal_width(bins, lo, hi);
    Ok((0..bins).map(|k| plan.edge::<T>(k)).chain([T::edge(hi)]).collect())
}

/// Histograms: how many elements lie in each bin. The counts are exact, by comparison with the edges, and of 64 bits.
/// Elements outside of the range and NaN are not counted. Every element is read once.
///
/// Each block counts in shared memory (V. Podlozhnyuk, "Histogram calculation in CUDA", 2007): up to 256 bins in a copy of
/// the counters for each lane, where equal elements cost no more than others, up to 16384 in as many copies as there is
/// room for; more are counted in global memory. The work is `n`, and `n log2(bins)` between given edges.
impl<T: Histogram, D: Dimension> DeviceArrayRef<T, D> {
    /// The number of elements in each of `bins` bins of equal width in `range`: NumPy's `histogram(x, bins, (lo, hi))`.
    ///
    /// Bin `i` has the elements with `edges[i] <= x < edges[i + 1]`, the last also those that equal the upper limit;
    /// the edges are those of [`histogram_bin_edges`]. For an empty array all counts are 0.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] as [`histogram_bin_edges`], and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.0f32, 0.9, 1.0, 2.5, 4.0, 4.1, f32::NAN])?;
    /// assert_eq!(x.histogram(4, 0.0..=4.0)?.to_ndarray()?, array![2, 1, 1, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram(&self, bins: usize, range: RangeInclusive<f64>) -> Result<DeviceArray<u64, Ix1>> {
        check_histogram(bins, &range)?;
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(bins))?;
        self.histogram_into(range, &mut counts)?;
        Ok(counts)
    }

    /// [`histogram`](Self::histogram) into an existing array or view, with as many bins as it has elements; what they were is
    /// overwritten.
    ///
    /// # Errors
    ///
    /// As [`histogram`](Self::histogram), and [`Error::DifferentDevices`].
    pub fn histogram_into(&self, range: RangeInclusive<f64>, counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()> {
        let bins = checked_bins("histogram", counts.len())?;
        let (lo, hi) = checked_range("histogram", &range)?;
        launch::<Uniform, _, _, _>("histogram", self, uniform_plan::<T>(bins, lo, hi), None, counts)
    }

    /// The range that a histogram has if none is given, by NumPy's rule: the smallest and the largest element, and 0
    /// and 1 for an empty array. Waits for the result.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if either is infinite or NaN (which both are if any element is), and those of an allocation
    /// and a launch.
    pub fn histogram_range(&self) -> Result<RangeInclusive<f64>> {
        if self.is_empty() {
            return Ok(0.0..=1.0);
        }
        let (least, greatest) = extent(self)?;
        // A NaN is beyond all numbers, on one side or the other.
        let (lo, hi) = match (least.to_f64(), greatest.to_f64()) {
            (lo, hi) if lo.is_nan() || hi.is_nan() => (f64::NAN, f64::NAN),
            limits => limits,
        };
        if lo.is_finite() && hi.is_finite() {
            return Ok(lo..=hi);
        }
        Err(Error::Parameter {
            operation: "histogram_range",
            parameter: "x",
            given: format!("elements from {lo:?} to {hi:?}"),
            wanted: "finite elements, or a range".into(),
        })
    }

    /// The histogram over the whole range of the elements, and the edges of its bins: NumPy's `histogram(x, bins)`.
    /// Waits for the range, not for the counts.
    ///
    /// To count into an existing array or view, give [`histogram_range`](Self::histogram_range) to
    /// [`histogram_into`](Self::histogram_into).
    ///
    /// # Errors
    ///
    /// As [`histogram`](Self::histogram) and [`histogram_range`](Self::histogram_range).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3, 7, 5, 4])?;
    /// let (counts, edges) = x.histogram_auto(2)?;
    /// assert_eq!(edges, [3.0, 5.0, 7.0]);
    /// assert_eq!(counts.to_ndarray()?, array![2, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram_auto(&self, bins: usize) -> Result<(DeviceArray<u64, Ix1>, Vec<f64>)> {
        checked_bins("histogram", bins)?;
        let range = self.histogram_range()?;
        let edges = histogram_bin_edges::<T>(bins, range.clone())?;
        Ok((self.histogram(bins, range)?, edges))
    }

    /// The number of elements between any two neighbouring `edges`: NumPy's `histogram(x, edges)`.
    ///
    /// Bin `i` has the elements with `edges[i] <= x < edges[i + 1]`, the last also those that equal the last edge.
    /// Elements are compared with the edges as they are, in `f64`. Edges may be equal, and infinite.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless there are 2 to 2^20 + 1 edges that never decrease, none of them NaN; and those of an
    /// allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1u8, 2, 3, 10, 200])?;
    /// assert_eq!(x.histogram_edges(&[0.0, 2.5, 10.0])?.to_ndarray()?, array![2, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram_edges(&self, edges: &[f64]) -> Result<DeviceArray<u64, Ix1>> {
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(bins_of_edges(edges)?))?;
        self.histogram_edges_into(edges, &mut counts)?;
        Ok(counts)
    }

    /// [`histogram_edges`](Self::histogram_edges) into an existing array or view with one element less than there are edges;
    /// what they were is overwritten.
    ///
    /// # Errors
    ///
    /// As [`histogram_edges`](Self::histogram_edges), [`Error::Shape`] if the length is another, and
    /// [`Error::DifferentDevices`].
    pub fn histogram_edges_into(&self, edges: &[f64], counts: &mut DeviceArrayRef<u64, Ix1>) -> Result<()> {
        let bins = checked_edges(edges)?;
        if counts.len() != bins as usize {
            return Err(Error::Shape {
                operation: "histogram_edges",
                given: format!("{} edges and shape {:?}", edges.len(), counts.shape()),
                wanted: format!("shape [{bins}]"),
            });
        }
        let limits = (T::at_least(edges[0]), T::at_most(edges[edges.len() - 1]));
        let (Some(first), Some(last)) = limits else {
            return clear("histogram_edges", self, counts);
        };
        let interior = edges[1..edges.len() - 1].iter();
        let starts = interior.map_while(|&edge| T::at_least(edge).filter(|&start| start <= last));
        let starts = starts.map(|start| start.start(first));
        let starts = DeviceArray::literal(self.stream(), &Array1::from_iter(starts))?;
        let mut plan = equal_width(bins, 0.0, 1.0);
        (plan.first, plan.last) = (first.to_f64(), last.to_f64());
        let plan = (first <= last).then_some(plan);
        launch::<Search, _, _, _>("histogram_edges", self, plan, Some(&starts), counts)
    }
}

/// The number of bins between the edges, if they are possible.
fn checked_edges(edges: &[f64]) -> Result<u32> {
    let operation = "histogram_edges";
    let refuse = |given: String, wanted: String| {
        Err(Error::Parameter {
            operation,
            parameter: "edges",
            given,
            wanted,
        })
    };
    if !(2..=MAX_BINS + 1).contains(&edges.len()) {
        return refuse(edges.len().to_string(), format!("2 to {} edges", MAX_BINS + 1));
    }
    if let Some(i) = edges.iter().position(|edge| edge.is_nan()) {
        return refuse(format!("NaN as edge {i}"), "numbers".into());
    }
    if let Some(i) = edges.windows(2).position(|pair| pair[0] > pair[1]) {
        let given = format!("{:?} as edge {i} and {:?} as edge {}", edges[i], edges[i + 1], i + 1);
        return refuse(given, "edges that never decrease".into());
    }
    checked_bins(operation, edges.len() - 1)
}

/// What [`histogram`](DeviceArrayRef::histogram) wants of its parameters.
pub(crate) fn check_histogram(bins: usize, range: &RangeInclusive<f64>) -> Result<()> {
    checked_bins("histogram", bins)?;
    checked_range("histogram", range).map(|_| ())
}

/// The number of bins of [`histogram_edges`](DeviceArrayRef::histogram_edges).
pub(crate) fn bins_of_edges(edges: &[f64]) -> Result<usize> {
    checked_edges(edges).map(|bins| bins as usize)
}

/// What [`histogram_channels`](DeviceArrayRef::histogram_channels) wants of its parameters.
pub(crate) fn check_histogram_channels(channels: usize, bins: usize, range: &RangeInclusive<f64>) -> Result<()> {
    checked_channels(channels, bins)?;
    checked_range("histogram_channels", range).map(|_| ())
}

/// Histograms of pictures.
impl<T: Histogram> DeviceArrayRef<T, Ix3> {
    /// The histogram of each channel of a picture, rows × columns × channels: channels × bins counts. The bins are
    /// those of [`histogram`](Self::histogram); the picture is read once, whatever the number of channels.
    ///
    /// # Errors
    ///
    /// As [`histogram`](Self::histogram); [`Error::Parameter`] also if there are more than 2^31 counts in all.
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
    /// let counts = picture.histogram_channels(2, 0.0..=256.0)?;
    /// assert_eq!(counts.to_ndarray()?, array![[0, 2], [1, 1], [1, 1]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn histogram_channels(&self, bins: usize, range: RangeInclusive<f64>) -> Result<DeviceArray<u64, Ix2>> {
        let channels = self.shape()[2];
        check_histogram_channels(channels, bins, &range)?;
        let mut counts = DeviceArray::uninit(self.stream(), Ix2(channels, bins))?;
        self.histogram_channels_into(range, &mut counts)?;
        Ok(counts)
    }

    /// [`histogram_channels`](Self::histogram_channels) into an existing array or view of channels × bins; what was in it is
    /// overwritten.
    ///
    /// # Errors
    ///
    /// As [`histogram_channels`](Self::histogram_channels), [`Error::Shape`] if `counts` has another number of rows
    /// than the picture has channels, and [`Error::DifferentDevices`].
    pub fn histogram_channels_into(
        &self,
        range: RangeInclusive<f64>,
        counts: &mut DeviceArrayRef<u64, Ix2>,
    ) -> Result<()> {
        let operation = "histogram_channels";
        let (channels, bins) = (self.shape()[2], counts.shape()[1]);
        if counts.shape()[0] != channels {
            return Err(Error::Shape {
                operation,
                given: format!("shape {:?} into {:?}", self.shape(), counts.shape()),
                wanted: "rows × columns × channels into channels × bins".into(),
            });
        }
        let (channels, bins) = checked_channels(channels, bins)?;
        let (lo, hi) = checked_range(operation, &range)?;
        let mut plan = uniform_plan::<T>(bins, lo, hi);
        if let Some(plan) = &mut plan {
            plan.channels = channels;
        }
        // In C order, since the place says which channel an element is of.
        launch::<Channels, _, _, _>(operation, &*self.in_order()?, plan, None, counts)
    }
}

/// The numbers of channels and of bins, if they are possible.
fn checked_channels(channels: usize, bins: usize) -> Result<(u32, u32)> {
    let operation = "histogram_channels";
    let bins = checked_bins(operation, bins)?;
    match u32::try_from(channels) {
        Ok(narrow) if channels <= MAX_COUNTERS / bins as usize => Ok((narrow, bins)),
        _ => Err(Error::Parameter {
            operation,
            parameter: "channels × bins",
            given: format!("{channels} × {bins}"),
            wanted: format!("at most {MAX_COUNTERS}"),
        }),
    }
}
