// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms and counts of values.

use std::ops::RangeInclusive;

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::histogram::{
    self as kernels, BLOCKS, CACHE, COLUMN_COUNTERS, COLUMNS, COPIES, COPIES_LEN, Channels, Find, Plan, Sample, Search,
    THREADS, Uniform, Value, tile_len,
};
use ndarray::{Array1, Dimension, Ix1, Ix2, Ix3};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};

/// The most bins of a histogram.
const MAX_BINS: usize = 1 << 20;

/// The most counters of a histogram of several channels.
const MAX_COUNTERS: usize = 1 << 31;

/// The most counters of a block that has one copy of them, less than 64 KiB, which every GPU has.
const MAX_PRIVATE_COUNTERS: u64 = 1 << 14;

/// The most bins for which the margins of [`Plan::below`] are computed, which takes the host a step for each. Finer bins
/// are compared with their edges always.
const MAX_MARGIN_BINS: u32 = 1 << 16;

/// An element type that the kernel is compiled for.
#[doc(hidden)]
pub trait HasHistogram<F, const MODE: usize>: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], Plan, &'static [Self], SliceMut<'static, u64>)>;
}

impl<T: Element + Sample, F: Find<T>, const MODE: usize> HasHistogram<F, MODE> for T
where
    kernels::histogram<T, F, MODE>: SafeKernel<Params = (&'static [T], Plan, &'static [T], SliceMut<'static, u64>)>,
{
    type Kernel = kernels::histogram<T, F, MODE>;
}

/// An element type that bins by rule `F` are compiled for.
#[doc(hidden)]
pub trait HasBins<F>: HasHistogram<F, COLUMNS> + HasHistogram<F, COPIES> + HasHistogram<F, CACHE> {}

impl<T: HasHistogram<F, COLUMNS> + HasHistogram<F, COPIES> + HasHistogram<F, CACHE>, F> HasBins<F> for T {}

/// An integer type that the counting of values is compiled for.
#[doc(hidden)]
pub trait HasBincount<const MODE: usize>: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], Plan, SliceMut<'static, u64>)>;
}

impl<T: Element + Value, const MODE: usize> HasBincount<MODE> for T
where
    kernels::bincount<T, MODE>: SafeKernel<Params = (&'static [T], Plan, SliceMut<'static, u64>)>,
{
    type Kernel = kernels::bincount<T, MODE>;
}

/// An element type that the kernel for the smallest and largest element is compiled for.
#[doc(hidden)]
pub trait HasExtent: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], SliceMut<'static, u64>)>;
}

impl<T: Element + Sample> HasExtent for T
where
    kernels::extent<T>: SafeKernel<Params = (&'static [T], SliceMut<'static, u64>)>,
{
    type Kernel = kernels::extent<T>;
}

/// The element types of histograms: `u8`, `u16`, `i32`, `u32`, `f32`, `f64`.
pub trait Histogram: Sample + HasExtent + HasBins<Uniform> + HasBins<Channels> + HasBins<Search> {
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

/// The element types whose values can be counted: `u8`, `u16`, `i32`, `u32`.
pub trait Bincount: Histogram + Value + HasBincount<COLUMNS> + HasBincount<COPIES> + HasBincount<CACHE> {}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Histogram for $type {
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

        impl Bincount for $type {}
    )*};
}

macro_rules! floats {
    ($($type:ident)*) => {$(
        impl Histogram for $type {
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
/// They are computed as NumPy's `linspace` does: edge `i` is `i * step + lo` in `f64`, with `step = (hi − lo) / bins`, and
/// the last is `hi`. Where the limits are equal, they are moved apart by 0.5 each. For `f32` the edges are rounded to
/// `f32`, beyond its greatest number to infinity. Edges may coincide where the bins are narrower than the type can tell
/// apart (NumPy 2 refuses those); all but the last of such bins stay empty.
///
/// # Errors
///
/// [`Error::Parameter`] unless there are 1 to 2^20 bins and the limits are finite, in order, and not further apart than the
/// greatest `f64`.
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

/// The number of bins, if it is possible.
fn checked_bins(operation: &'static str, bins: usize) -> Result<u32> {
    match u32::try_from(bins) {
        Ok(narrow) if (1..=MAX_BINS).contains(&bins) => Ok(narrow),
        _ => Err(Error::Parameter {
            operation,
            parameter: "bins",
            given: bins.to_string(),
            wanted: format!("1 to {MAX_BINS}"),
        }),
    }
}

/// The limits, if they are possible; equal ones moved apart.
fn checked_range(operation: &'static str, range: &RangeInclusive<f64>) -> Result<(f64, f64)> {
    let (lo, hi) = (*range.start(), *range.end());
    let wanted = if !(lo.is_finite() && hi.is_finite()) {
        "finite limits"
    } else if lo > hi {
        "a lower limit that is not above the upper one"
    } else if !(hi - lo).is_finite() {
        "limits whose distance an f64 can hold"
    } else {
        return Ok(if lo == hi { (lo - 0.5, hi + 0.5) } else { (lo, hi) });
    };
    Err(Error::Parameter {
        operation,
        parameter: "range",
        given: format!("{lo:?}..={hi:?}"),
        wanted: wanted.into(),
    })
}

/// The plan of bins of equal width, before anything of the data is known.
fn equal_width(bins: u32, lo: f64, hi: f64) -> Plan {
    Plan {
        lo,
        width: hi - lo,
        step: (hi - lo) / f64::from(bins),
        first: lo,
        last: hi,
        scale: f64::from(bins) / (hi - lo),
        offset: 0.0,
        // No element is settled by its position.
        below: f32::INFINITY,
        above: 0.0,
        bins,
        channels: 1,
        counters: 0,
        copies: 1,
    }
}

/// The plan of bins of equal width; `None` where no value of `T` is in the range.
fn uniform_plan<T: Histogram>(bins: u32, lo: f64, hi: f64) -> Option<Plan> {
    let (first, last) = (T::at_least(T::edge(lo))?, T::at_most(T::edge(hi))?);
    let mut plan = equal_width(bins, lo, hi);
    (plan.first, plan.last) = (first.to_f64(), last.to_f64());
    plan.offset = (plan.first - lo) * plan.scale;
    if bins <= MAX_MARGIN_BINS
        && T::VALUES == 0
        && let Some((below, above)) = margins(&plan, first, last)
    {
        (plan.below, plan.above) = (below, above);
    }
    (first <= last).then_some(plan)
}

/// How far from the whole numbers a position must be to settle the bin: [`Plan::below`] and [`Plan::above`].
///
/// Positions never decrease from one element to the next larger one. So an element is not below edge `k` if its position is
/// greater than that of the greatest element below the edge, and it is below the edge if its position is less than that of
/// the least element that is not. The margins are the largest distances of those positions from `k`, of all edges; no
/// estimate of rounding errors is needed. `None` if they leave no room, as for ranges whose positions overflow.
fn margins<T: Histogram>(plan: &Plan, first: T, last: T) -> Option<(f32, f32)> {
    let position = |x: T| f64::from(x.position(first, plan));
    let (mut excess, mut deficit) = (-1.0f64, -1.0f64);
    for k in 1..plan.bins {
        let least = T::at_least(plan.edge::<T>(k));
        let below = match least {
            Some(least) if least <= last => least.before(),
            _ => Some(last),
        };
        if let Some(below) = below.filter(|&below| below >= first) {
            let distance = position(below) - f64::from(k);
            excess = if distance.is_finite() {
                excess.max(distance)
            } else {
                return None;
            };
        }
        if let Some(least) = least.filter(|&least| least <= last) {
            let distance = f64::from(k) - position(if least < first { first } else { least });
            deficit = if distance.is_finite() {
                deficit.max(distance)
            } else {
                return None;
            };
        }
    }
    let (below, above) = ((excess as f32).next_up(), ((1.0 - deficit) as f32).next_down());
    (below < above).then_some((below, above))
}

/// How a launch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Columns,
    Copies,
    Cache,
}

/// Completes the plan by the way of counting, and gives the bytes of shared memory for it.
fn choose_mode<T: Sample>(plan: &mut Plan) -> (Mode, usize) {
    let each = if T::VALUES == 0 { plan.bins } else { T::VALUES };
    let counters = u64::from(plan.channels) * u64::from(each);
    if counters > MAX_PRIVATE_COUNTERS {
        return (Mode::Cache, 0);
    }
    plan.counters = counters as u32;
    let mode = if plan.counters as usize <= COLUMN_COUNTERS {
        plan.copies = 32;
        Mode::Columns
    } else {
        let fit = (COPIES_LEN as u32 / plan.counters).max(1);
        plan.copies = 1 << fit.ilog2();
        Mode::Copies
    };
    (mode, plan.private_len() * size_of::<u32>())
}

/// Makes the counts 0 on the stream of `x`.
fn clear<T: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    counts: &mut DeviceArray<u64, E>,
) -> Result<()> {
    let stream = x.stream();
    if !stream.same_device(counts.stream()) {
        return Err(Error::different_devices(
            operation,
            counts.stream().device_id(),
            stream.device_id(),
        ));
    }
    if !counts.is_empty() {
        counts.buffer().writes_on(stream)?;
        let (address, bytes) = (counts.buffer().address(), counts.buffer().bytes());
        // SAFETY: the whole buffer, of this device, borrowed mutably and ordered on this stream.
        unsafe { stream.backend().fill_zero(stream.raw(), address, bytes)? };
    }
    Ok(())
}

/// A launch on all of `x`, which is not empty, with as many blocks as the device holds, or one for each tile.
fn blocks<T: Element, D: Dimension>(x: &DeviceArray<T, D>) -> usize {
    let multiprocessors = x.stream().backend().properties().multiprocessors as usize;
    x.len().div_ceil(tile_len::<T>()).min(multiprocessors * BLOCKS)
}

/// Counts into `counts`, whatever they were. No element is counted where there is no plan.
fn launch<F, T: HasBins<F> + Sample, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    plan: Option<Plan>,
    edges: &DeviceArray<T, impl Dimension>,
    counts: &mut DeviceArray<u64, E>,
) -> Result<()> {
    clear(operation, x, counts)?;
    let Some(mut plan) = plan.filter(|_| !x.is_empty() && !counts.is_empty()) else {
        return Ok(());
    };
    let (mode, shared) = choose_mode::<T>(&mut plan);
    let mut config = tiles(blocks(x), 1, THREADS);
    config.dynamic_shared = shared;
    let (stream, args) = (x.stream(), (x, plan, edges, counts));
    match mode {
        Mode::Columns => stream.launch::<<T as HasHistogram<F, COLUMNS>>::Kernel>(&config, args),
        Mode::Copies => stream.launch::<<T as HasHistogram<F, COPIES>>::Kernel>(&config, args),
        Mode::Cache => stream.launch::<<T as HasHistogram<F, CACHE>>::Kernel>(&config, args),
    }
}

/// The smallest and the largest element of an array that is not empty; either is NaN if any element is. Waits.
fn extent<T: Histogram, D: Dimension>(x: &DeviceArray<T, D>) -> Result<(T, T)> {
    let mut out = DeviceArray::zeros(x.stream(), Ix1(2))?;
    x.stream()
        .launch::<<T as HasExtent>::Kernel>(&tiles(blocks(x), 1, THREADS), (x, &mut out))?;
    let orders = out.to_ndarray()?;
    Ok((T::of_order(!orders[0]), T::of_order(orders[1])))
}

/// Histograms: how many elements lie in each bin. The counts are exact, by comparison with the edges, and of 64 bits.
/// Elements outside of the range and NaN are not counted. Every element is read once.
impl<T: Histogram, D: Dimension> DeviceArray<T, D> {
    /// The number of elements in each of `bins` bins of equal width in `range`: NumPy's `histogram(x, bins, (lo, hi))`.
    ///
    /// Bin `i` has the elements with `edges[i] <= x < edges[i + 1]`, the last also those that equal the upper limit; the
    /// edges are those of [`histogram_bin_edges`]. For an empty array all counts are 0.
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
        checked_bins("histogram", bins)?;
        checked_range("histogram", &range)?;
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(bins))?;
        self.histogram_into(range, &mut counts)?;
        Ok(counts)
    }

    /// [`histogram`](Self::histogram) into an existing array, with as many bins as it has elements; what they were is
    /// overwritten.
    ///
    /// # Errors
    ///
    /// As [`histogram`](Self::histogram), and [`Error::DifferentDevices`].
    pub fn histogram_into(&self, range: RangeInclusive<f64>, counts: &mut DeviceArray<u64, Ix1>) -> Result<()> {
        let bins = checked_bins("histogram", counts.len())?;
        let (lo, hi) = checked_range("histogram", &range)?;
        launch::<Uniform, _, _, _>("histogram", self, uniform_plan::<T>(bins, lo, hi), self, counts)
    }

    /// The range that a histogram has if none is given, by NumPy's rule: the smallest and the largest element, and 0 and 1
    /// for an empty array. Waits for the result.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if either is infinite or NaN (which both are if any element is), and those of an allocation and
    /// a launch.
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

    /// The histogram over the whole range of the elements, and the edges of its bins: NumPy's `histogram(x, bins)`. Waits
    /// for the range, not for the counts.
    ///
    /// To count into an existing array, give [`histogram_range`](Self::histogram_range) to
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
    /// Bin `i` has the elements with `edges[i] <= x < edges[i + 1]`, the last also those that equal the last edge. Elements
    /// are compared with the edges as they are, in `f64`. Edges may be equal, and infinite.
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
        let bins = checked_edges(edges)?;
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(bins as usize))?;
        self.histogram_edges_into(edges, &mut counts)?;
        Ok(counts)
    }

    /// [`histogram_edges`](Self::histogram_edges) into an existing array with one element less than there are edges; what
    /// they were is overwritten.
    ///
    /// # Errors
    ///
    /// As [`histogram_edges`](Self::histogram_edges), [`Error::Shape`] if the length is another, and
    /// [`Error::DifferentDevices`].
    pub fn histogram_edges_into(&self, edges: &[f64], counts: &mut DeviceArray<u64, Ix1>) -> Result<()> {
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
        let starts = DeviceArray::from_ndarray(self.stream(), &Array1::from_iter(starts))?;
        let mut plan = equal_width(bins, 0.0, 1.0);
        (plan.first, plan.last) = (first.to_f64(), last.to_f64());
        let plan = (first <= last).then_some(plan);
        launch::<Search, _, _, _>("histogram_edges", self, plan, &starts, counts)
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

/// Histograms of pictures.
impl<T: Histogram> DeviceArray<T, Ix3> {
    /// The histogram of each channel of a picture, rows × columns × channels: channels × bins counts. The bins are those of
    /// [`histogram`](Self::histogram); the picture is read once, whatever the number of channels.
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
        checked_channels(channels, bins)?;
        checked_range("histogram_channels", &range)?;
        let mut counts = DeviceArray::uninit(self.stream(), Ix2(channels, bins))?;
        self.histogram_channels_into(range, &mut counts)?;
        Ok(counts)
    }

    /// [`histogram_channels`](Self::histogram_channels) into an existing array of channels × bins; what was in it is
    /// overwritten.
    ///
    /// # Errors
    ///
    /// As [`histogram_channels`](Self::histogram_channels), [`Error::Shape`] if `counts` has another number of rows than
    /// the picture has channels, and [`Error::DifferentDevices`].
    pub fn histogram_channels_into(
        &self,
        range: RangeInclusive<f64>,
        counts: &mut DeviceArray<u64, Ix2>,
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
        launch::<Channels, _, _, _>(operation, self, plan, self, counts)
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

/// Counts of values.
impl<T: Bincount, D: Dimension> DeviceArray<T, D> {
    /// How often each value from 0 to the largest element occurs: NumPy's `bincount`. No count for an empty array. Waits
    /// for the largest element, not for the counts.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] if an element is negative, and those of an allocation (of 8 bytes for each value up to the
    /// largest) and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 4, 1, 0])?;
    /// assert_eq!(x.bincount()?.to_ndarray()?, array![1, 2, 0, 0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn bincount(&self) -> Result<DeviceArray<u64, Ix1>> {
        if self.is_empty() {
            return DeviceArray::uninit(self.stream(), Ix1(0));
        }
        let (least, greatest) = extent(self)?;
        if least < T::ZERO {
            return Err(Error::Parameter {
                operation: "bincount",
                parameter: "x",
                given: format!("an element {}", least.to_f64()),
                wanted: "no negative element".into(),
            });
        }
        let mut counts = DeviceArray::uninit(self.stream(), Ix1(greatest.bin() as usize + 1))?;
        self.bincount_into(&mut counts)?;
        Ok(counts)
    }

    /// How often each value from 0 occurs, into an existing array of any length: what was in it is overwritten, and values
    /// that have no place in it are not counted. Does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`], and those of a launch.
    pub fn bincount_into(&self, counts: &mut DeviceArray<u64, Ix1>) -> Result<()> {
        clear("bincount", self, counts)?;
        if self.is_empty() || counts.is_empty() {
            return Ok(());
        }
        let bins = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let mut plan = equal_width(bins, 0.0, f64::from(bins));
        let greatest = T::at_most((counts.len() - 1) as f64).unwrap_or(T::ZERO);
        (plan.first, plan.last) = (0.0, greatest.to_f64());
        let (mode, shared) = choose_mode::<T>(&mut plan);
        let mut config = tiles(blocks(self), 1, THREADS);
        config.dynamic_shared = shared;
        let (stream, args) = (self.stream(), (self, plan, counts));
        match mode {
            Mode::Columns => stream.launch::<<T as HasBincount<COLUMNS>>::Kernel>(&config, args),
            Mode::Copies => stream.launch::<<T as HasBincount<COPIES>>::Kernel>(&config, args),
            Mode::Cache => stream.launch::<<T as HasBincount<CACHE>>::Kernel>(&config, args),
        }
    }
}
