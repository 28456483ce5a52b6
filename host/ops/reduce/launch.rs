// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches of reductions: by which kernel, and with what plan.

use cuda_std::SliceMut;
use kernels_gpu::compiled::Reduce;
use kernels_gpu::op::ReduceOp;
use kernels_gpu::reduce::{BLOCKS, ColumnPlan, RowPlan, THREADS};
use ndarray::Dimension;

use super::axes::Extent;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{Arg, LaunchConfig};

/// Combines `x` as `extent` says. `out` has as many elements as there are results; `count` is what the operator's
/// `finish` is given.
pub(super) fn launch<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension, E: Dimension>(
    x: &DeviceArrayRef<T, D>,
    extent: Extent,
    count: u64,
    out: &mut DeviceArray<Op::Output, E>,
) -> Result<()> {
    if extent.inner == 1 {
        return launch_rows::<Op, _, _>(x, extent, count, out);
    }
    let columns = extent.results();
    if columns == 0 {
        return Ok(());
    }
    let plan = ColumnPlan::new::<T>(columns, extent.length, extent.inner, count | T::COUNT_FLAG);
    let stream = x.stream();
    let mut partials = stream.take_partials(plan.partials(columns))?;
    let mut counters = stream.take_counters(plan.counters(columns))?;
    let config = grid(plan.blocks(columns));
    stream.launch::<T::Columns>(&config, (x, plan, &mut partials, &mut counters, out))?;
    partials.give_back();
    counters.give_back();
    Ok(())
}

/// [`launch`] where the elements of a result lie side by side; `out` is an array, or one value for the host.
pub(super) fn launch_rows<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    extent: Extent,
    count: u64,
    out: impl Arg<SliceMut<'static, Op::Output>>,
) -> Result<()> {
    let rows = extent.results();
    if rows == 0 {
        return Ok(());
    }
    let plan = RowPlan::new::<T>(rows, extent.length, count | T::COUNT_FLAG);
    let stream = x.stream();
    // Twice as many as run at a time, so that none runs alone for long at the end.
    let most = 2 * BLOCKS * stream.backend().properties().multiprocessors as usize;
    let mut partials = stream.take_partials(plan.partials(rows))?;
    let mut counters = stream.take_counters(plan.counters(rows))?;
    let config = grid(plan.blocks::<T>(rows, most));
    stream.launch::<T::Rows>(&config, (x, plan, &mut partials, &mut counters, out))?;
    partials.give_back();
    counters.give_back();
    Ok(())
}

/// A launch of that many blocks.
fn grid(blocks: usize) -> LaunchConfig {
    LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS as u32)
}
