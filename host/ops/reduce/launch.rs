// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches of reductions: by which kernel, and with what plan.

use cuda_std::SliceMut;
use kernels_gpu::compiled::Reduce;
use kernels_gpu::op::ReduceOp;
use kernels_gpu::reduce::{BLOCKS, ColumnPlan, RowPlan, THREADS};

use super::DynRef;
use super::axes::Way;
use crate::error::Result;
use crate::launch::{Arg, LaunchConfig, Words};

/// Combines `x`, which is read in that way, with strides from its lowest element on. `out` has as many elements as there
/// are results, at least one, in C order; `count` is what the operator's `finish` is given.
pub(super) fn launch<Op: ReduceOp<T>, T: Reduce<Op>>(
    x: &DynRef<T>,
    way: Way,
    count: u64,
    out: &mut DynRef<Op::Output>,
) -> Result<()> {
    assert_eq!(way.results(), out.len(), "an element for each result");
    launch_to::<Op, T>(x, way, count, out)
}

/// [`launch`], into an array or a value for the host, with as many elements as there are results.
pub(super) fn launch_to<Op: ReduceOp<T>, T: Reduce<Op>>(
    x: &DynRef<T>,
    way: Way,
    count: u64,
    out: impl Arg<SliceMut<'static, Op::Output>>,
) -> Result<()> {
    let (stream, count, x) = (x.stream(), count | T::COUNT_FLAG, Words::<T>::of(x));
    match way {
        Way::Rows { rows, length } => {
            let plan = RowPlan::new::<T>(rows, length, count);
            // Twice as many as run at a time, so that none runs alone for long at the end.
            let most = 2 * BLOCKS * stream.backend().properties().multiprocessors as usize;
            let mut partials = stream.take_partials(plan.partials(rows))?;
            let mut counters = stream.take_counters(plan.counters(rows))?;
            let config = grid(plan.blocks::<T>(rows, most));
            stream.launch::<T::Rows>(&config, (x, plan, &mut partials, &mut counters, out))?;
            partials.give_back();
            counters.give_back();
        }
        Way::Columns {
            outer,
            outer_stride,
            length,
            stride,
            inner,
        } => {
            let columns = outer * inner;
            let plan = ColumnPlan::new::<T>(columns, length, inner, count).lying(outer_stride, stride);
            let mut partials = stream.take_partials(plan.partials(columns))?;
            let mut counters = stream.take_counters(plan.counters(columns))?;
            let config = grid(plan.blocks(columns));
            stream.launch::<T::Columns>(&config, (x, plan, &mut partials, &mut counters, out))?;
            partials.give_back();
            counters.give_back();
        }
    }
    Ok(())
}

/// A launch of that many blocks.
fn grid(blocks: usize) -> LaunchConfig {
    LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS as u32)
}
