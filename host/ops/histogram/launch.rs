// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches of histograms.

use kernels_gpu::compiled::{CountBins, CountValues};
use kernels_gpu::histogram::{self as kernels, BLOCKS, Plan, Sample, THREADS};
use ndarray::{Dimension, Ix1};

use super::Histogram;
use super::plan::{Mode, choose_mode};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::ops::tiles;
use crate::workspace::Lease;

/// Makes the counts 0 on the stream of `x`.
pub(super) fn clear<T: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    counts: &mut DeviceArrayRef<u64, E>,
) -> Result<()> {
    let stream = x.stream();
    stream.check_device(operation, counts.stream())?;
    if counts.is_empty() {
        return Ok(());
    }
    counts.write_in_order(stream, &mut |counts| {
        counts.writes_on(stream)?;
        // SAFETY: the bytes of elements without a gap, of this device, borrowed mutably and ordered on this stream.
        unsafe { stream.queue_fill_zero(counts.address(), counts.bytes().len())? };
        // Once more: of a part of an array, other threads may have prepared other parts since.
        counts.writes_on(stream)
    })
}

/// A launch on all of `x`, which is not empty: as many blocks as the device holds, or one for each
/// `block_len` elements.
fn config<T: Element, D: Dimension>(x: &DeviceArrayRef<T, D>, block_len: usize, dynamic_shared: usize) -> LaunchConfig {
    let multiprocessors = x.stream().backend().properties().multiprocessors as usize;
    let blocks = x.len().div_ceil(block_len).min(multiprocessors * BLOCKS);
    LaunchConfig {
        dynamic_shared,
        ..tiles(blocks, 1, THREADS)
    }
}

/// Counts into `counts`, whatever they were. No element is counted where there is no plan; the kernels of some plans look
/// at the `edges`.
pub(super) fn launch<F, T: CountBins<F> + Sample, D: Dimension, E: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    plan: Option<Plan>,
    edges: Option<&DeviceArray<T, Ix1>>,
    counts: &mut DeviceArrayRef<u64, E>,
) -> Result<()> {
    let Some(mut plan) = plan.filter(|_| !x.is_empty() && !counts.is_empty()) else {
        return clear(operation, x, counts);
    };
    x.stream().check_device(operation, counts.stream())?;
    let (mode, shared) = choose_mode::<T>(&mut plan);
    let config = config(x, T::BLOCK_LENS[mode as usize], shared);
    let x = &*x.in_any_order()?;
    counts.write_in_order(x.stream(), &mut |counts| {
        let mut counters = take_counters(operation, mode, x, counts)?;
        let edges = edges.map_or(x, |edges| edges);
        let (stream, args) = (x.stream(), (x, plan, edges, &mut counters, counts));
        match mode {
            Mode::Columns => stream.launch::<T::InColumns>(&config, args)?,
            Mode::Copies => stream.launch::<T::InCopies>(&config, args)?,
            Mode::Cache => stream.launch::<T::InCache>(&config, args)?,
        }
        counters.give_back();
        Ok(())
    })
}

/// Counts the values that have a place in `counts`, which is not empty; nor is `x`.
pub(super) fn launch_bincount<T: CountValues, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    mut plan: Plan,
    counts: &mut DeviceArrayRef<u64, Ix1>,
) -> Result<()> {
    x.stream().check_device("bincount", counts.stream())?;
    let (mode, shared) = choose_mode::<T>(&mut plan);
    let config = config(x, T::BLOCK_LENS[mode as usize], shared);
    let x = &*x.in_any_order()?;
    counts.write_in_order(x.stream(), &mut |counts| {
        let mut counters = take_counters("bincount", mode, x, counts)?;
        let (stream, args) = (x.stream(), (x, plan, &mut counters, counts));
        match mode {
            Mode::Columns => stream.launch::<T::InColumns>(&config, args)?,
            Mode::Copies => stream.launch::<T::InCopies>(&config, args)?,
            Mode::Cache => stream.launch::<T::InCache>(&config, args)?,
        }
        counters.give_back();
        Ok(())
    })
}

/// What the kernel wants, so that the counts are 0 at first: counters, or for [`Mode::Cache`] that they are.
fn take_counters<'a, T: Element, D: Dimension, E: Dimension>(
    operation: &'static str,
    mode: Mode,
    x: &'a DeviceArrayRef<T, D>,
    counts: &mut DeviceArrayRef<u64, E>,
) -> Result<Lease<'a, u32>> {
    let stream = x.stream();
    stream.check_device(operation, counts.stream())?;
    if mode == Mode::Cache {
        clear(operation, x, counts)?;
        return stream.take_counters(0);
    }
    stream.take_counters(kernels::COUNTERS)
}

/// The smallest and the largest element of an array that is not empty; either is NaN if any element is. Waits.
pub(super) fn extent<T: Histogram, D: Dimension>(x: &DeviceArrayRef<T, D>) -> Result<(T, T)> {
    let mut out = DeviceArray::zeros(x.stream(), Ix1(2))?;
    let x = &*x.in_any_order()?;
    x.stream()
        .launch::<T::Extent>(&config(x, kernels::extent_tile_len::<T>(), 0), (x, &mut out))?;
    let orders = out.to_ndarray()?;
    Ok((T::of_order(!orders[0]), T::of_order(orders[1])))
}
