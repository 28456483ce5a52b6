// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches of histograms.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::histogram::{
    self as kernels, BLOCKS, CACHE, COLUMNS, COPIES, Find, Plan, Sample, THREADS, Value, Values, block_len,
};
use ndarray::{Dimension, Ix1};

use super::Histogram;
use super::plan::{Mode, choose_mode};
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::ops::tiles;
use crate::stream::Stream;
use crate::workspace::Lease;

/// The parameters of `histogram`.
#[doc(hidden)]
pub type HistogramParams<T> = (
    &'static [T],
    Plan,
    &'static [T],
    SliceMut<'static, u32>,
    SliceMut<'static, u64>,
);

/// Those of `bincount`.
#[doc(hidden)]
pub type BincountParams<T> = (&'static [T], Plan, SliceMut<'static, u32>, SliceMut<'static, u64>);

/// An element type that the kernel is compiled for.
#[doc(hidden)]
pub trait HasHistogram<F, const MODE: usize>: Element {
    /// [`block_len`]
    const BLOCK: usize;

    type Kernel: SafeKernel<Params = HistogramParams<Self>>;
}

impl<T: Element + Sample, F: Find<T>, const MODE: usize> HasHistogram<F, MODE> for T
where
    kernels::histogram<T, F, MODE>: SafeKernel<Params = HistogramParams<T>>,
{
    const BLOCK: usize = block_len::<T, F, MODE>();

    type Kernel = kernels::histogram<T, F, MODE>;
}

/// An element type that bins by rule `F` are compiled for.
#[doc(hidden)]
pub trait HasBins<F>: HasHistogram<F, COLUMNS> + HasHistogram<F, COPIES> + HasHistogram<F, CACHE> {}

impl<T: HasHistogram<F, COLUMNS> + HasHistogram<F, COPIES> + HasHistogram<F, CACHE>, F> HasBins<F> for T {}

/// An integer type that the counting of values is compiled for.
#[doc(hidden)]
pub trait HasBincount<const MODE: usize>: Element {
    /// [`block_len`]
    const BLOCK: usize;

    type Kernel: SafeKernel<Params = BincountParams<Self>>;
}

impl<T: Element + Value, const MODE: usize> HasBincount<MODE> for T
where
    kernels::bincount<T, MODE>: SafeKernel<Params = BincountParams<T>>,
{
    const BLOCK: usize = block_len::<T, Values, MODE>();

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

/// Makes the counts 0 on the stream of `x`.
pub(super) fn clear<T: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    counts: &mut DeviceArray<u64, E>,
) -> Result<()> {
    let stream = same_device(operation, x, counts)?;
    if !counts.is_empty() {
        counts.buffer().writes_on(stream)?;
        let (address, bytes) = (counts.buffer().address(), counts.buffer().bytes());
        // SAFETY: the whole buffer, of this device, borrowed mutably and ordered on this stream.
        unsafe { stream.backend().fill_zero(stream.raw(), address, bytes)? };
    }
    Ok(())
}

/// The stream of `x`, if `counts` is on the same device.
fn same_device<'a, T: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &'a DeviceArray<T, D>,
    counts: &DeviceArray<u64, E>,
) -> Result<&'a Stream> {
    let (stream, other) = (x.stream(), counts.stream());
    if stream.same_device(other) {
        Ok(stream)
    } else {
        Err(Error::different_devices(
            operation,
            other.device_id(),
            stream.device_id(),
        ))
    }
}

/// A launch on all of `x`, which is not empty: as many blocks as the device holds, or one for each
/// `block_len` elements.
fn config<T: Element, D: Dimension>(x: &DeviceArray<T, D>, block_len: usize, dynamic_shared: usize) -> LaunchConfig {
    let multiprocessors = x.stream().backend().properties().multiprocessors as usize;
    let blocks = x.len().div_ceil(block_len).min(multiprocessors * BLOCKS);
    LaunchConfig {
        dynamic_shared,
        ..tiles(blocks, 1, THREADS)
    }
}

/// Counts into `counts`, whatever they were. No element is counted where there is no plan.
pub(super) fn launch<F, T: HasBins<F> + Sample, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    plan: Option<Plan>,
    edges: &DeviceArray<T, impl Dimension>,
    counts: &mut DeviceArray<u64, E>,
) -> Result<()> {
    let Some(mut plan) = plan.filter(|_| !x.is_empty() && !counts.is_empty()) else {
        return clear(operation, x, counts);
    };
    let (mode, shared) = choose_mode::<T>(&mut plan);
    match mode {
        Mode::Columns => launch_mode::<F, COLUMNS, _, _, _>(operation, x, (plan, shared), edges, counts),
        Mode::Copies => launch_mode::<F, COPIES, _, _, _>(operation, x, (plan, shared), edges, counts),
        Mode::Cache => launch_mode::<F, CACHE, _, _, _>(operation, x, (plan, shared), edges, counts),
    }
}

fn launch_mode<F, const MODE: usize, T: HasHistogram<F, MODE>, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    (plan, shared): (Plan, usize),
    edges: &DeviceArray<T, impl Dimension>,
    counts: &mut DeviceArray<u64, E>,
) -> Result<()> {
    let config = config(x, T::BLOCK, shared);
    let launch = |counters: &mut Lease<'_, u32>, counts: &mut DeviceArray<u64, E>| {
        x.stream()
            .launch::<T::Kernel>(&config, (x, plan, edges, counters, counts))
    };
    with_zeroing::<MODE, _, _, _>(operation, x, counts, launch)
}

/// Calls `launch` with what the kernel wants, so that the counts are 0 at first: counters, or for [`CACHE`] that they
/// are.
fn with_zeroing<const MODE: usize, T: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    counts: &mut DeviceArray<u64, E>,
    launch: impl FnOnce(&mut Lease<'_, u32>, &mut DeviceArray<u64, E>) -> Result<()>,
) -> Result<()> {
    let stream = same_device(operation, x, counts)?;
    if MODE == CACHE {
        clear(operation, x, counts)?;
    }
    let mut counters = stream.take_counters(if MODE == CACHE { 0 } else { kernels::COUNTERS })?;
    launch(&mut counters, counts)?;
    counters.give_back();
    Ok(())
}

/// Counts the values that have a place in `counts`, which is not empty; nor is `x`.
pub(super) fn launch_bincount<T, D: Dimension>(
    x: &DeviceArray<T, D>,
    mut plan: Plan,
    counts: &mut DeviceArray<u64, Ix1>,
) -> Result<()>
where
    T: Sample + HasBincount<COLUMNS> + HasBincount<COPIES> + HasBincount<CACHE>,
{
    let (mode, shared) = choose_mode::<T>(&mut plan);
    match mode {
        Mode::Columns => launch_bincount_mode::<COLUMNS, _, _>(x, (plan, shared), counts),
        Mode::Copies => launch_bincount_mode::<COPIES, _, _>(x, (plan, shared), counts),
        Mode::Cache => launch_bincount_mode::<CACHE, _, _>(x, (plan, shared), counts),
    }
}

fn launch_bincount_mode<const MODE: usize, T: HasBincount<MODE>, D: Dimension>(
    x: &DeviceArray<T, D>,
    (plan, shared): (Plan, usize),
    counts: &mut DeviceArray<u64, Ix1>,
) -> Result<()> {
    let config = config(x, T::BLOCK, shared);
    let launch = |counters: &mut Lease<'_, u32>, counts: &mut DeviceArray<u64, Ix1>| {
        x.stream().launch::<T::Kernel>(&config, (x, plan, counters, counts))
    };
    with_zeroing::<MODE, _, _, _>("bincount", x, counts, launch)
}

/// The smallest and the largest element of an array that is not empty; either is NaN if any element is. Waits.
pub(super) fn extent<T: Histogram, D: Dimension>(x: &DeviceArray<T, D>) -> Result<(T, T)> {
    let mut out = DeviceArray::zeros(x.stream(), Ix1(2))?;
    x.stream()
        .launch::<<T as HasExtent>::Kernel>(&config(x, kernels::extent_tile_len::<T>(), 0), (x, &mut out))?;
    let orders = out.to_ndarray()?;
    Ok((T::of_order(!orders[0]), T::of_order(orders[1])))
}
