// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches of reductions: by which kernel, and with what plan.

use cuda_std::SliceMut;
use cuda_std::launch::Abi;
use kernels_gpu::compiled::Reduce;
use kernels_gpu::op::ReduceOp;
use kernels_gpu::reduce::{BLOCKS, ColumnPlan, RowPlan, THREADS};

use super::DynRef;
use super::axes::Way;
use crate::array::Element;
use crate::error::Result;
use crate::landed::Landed;
use crate::launch::{Arg, LaunchConfig, Words};
use crate::stream::Stream;
use crate::workspace::Lease;

/// The bytes of a vector.
const VECTOR: u64 = 16;

/// The launch of a reduction by one operator: [`launch`].
pub(super) type Launch<T, R> = fn(&DynRef<T>, Way, u64, &mut Results<'_, '_, R>) -> Result<()>;

/// Where a kernel puts the results, of which there is at least one.
pub(super) enum Results<'a, 's, R> {
    /// In elements that lie in C order.
    Elements(&'a mut DynRef<R>),
    /// The one result, for the host.
    Landed(&'a mut Landed<'s, R>),
}

// SAFETY: that of the kinds, which are borrowed as long.
unsafe impl<R: Element> Arg<SliceMut<'static, R>> for &mut Results<'_, '_, R> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        match self {
            Results::Elements(elements) => elements.prepare(kernel, stream),
            Results::Landed(value) => value.prepare(kernel, stream),
        }
    }

    fn is_part(&self) -> bool {
        match self {
            Results::Elements(elements) => Arg::is_part(elements),
            Results::Landed(value) => value.is_part(),
        }
    }

    fn abi(&self) -> Abi<SliceMut<'static, R>> {
        match self {
            Results::Elements(elements) => elements.abi(),
            Results::Landed(value) => value.abi(),
        }
    }
}

/// Combines `x`, which is read in that way, with strides from its lowest element on. `out` has as many elements as there
/// are results; `count` is what the operator's `finish` is given.
pub(super) fn launch<Op: ReduceOp<T>, T: Reduce<Op>>(
    x: &DynRef<T>,
    way: Way,
    count: u64,
    out: &mut Results<'_, '_, Op::Output>,
) -> Result<()> {
    let (stream, count) = (x.stream(), count | T::COUNT_FLAG);
    match way {
        Way::Rows { rows, length } => {
            let plan = RowPlan::new::<T, Op::Acc>(rows, length, count);
            // Twice as many as run at a time, so that none runs alone for long at the end.
            let most = 2 * BLOCKS * stream.backend().properties().multiprocessors as usize;
            let config = LaunchConfig {
                dynamic_shared: plan.shared_bytes::<T>(),
                ..grid(plan.blocks::<T>(rows, most))
            };
            let room = [plan.partials(rows), plan.counters(rows)];
            with_room(stream, room, &mut |partials, counters| {
                stream.launch::<T::Rows>(&config, (Words::of(x), plan, partials, counters, &mut *out))
            })
        }
        Way::Columns {
            outer,
            outer_stride,
            length,
            stride,
            inner,
        } => {
            let columns = outer * inner;
            // Whole vectors are read where they lie so, which a part of an array may not.
            let is_aligned = Words::<T>::of(x).address().is_multiple_of(VECTOR);
            let (shape, steps) = ((columns, length, inner), (outer_stride, stride));
            let plan = ColumnPlan::lying::<T, Op::Acc>(shape, steps, is_aligned, count);
            let config = grid(plan.blocks::<T, Op::Acc>(columns));
            let room = [
                plan.partials::<T, Op::Acc>(columns),
                plan.counters::<T, Op::Acc>(columns),
            ];
            with_room(stream, room, &mut |partials, counters| {
                stream.launch::<T::Columns>(&config, (Words::of(x), plan, partials, counters, &mut *out))
            })
        }
    }
}

/// A launch with room for values of blocks, and counters.
type WithRoom<'a, A> = &'a mut dyn FnMut(&mut Lease<'_, A>, &mut Lease<'_, u32>) -> Result<()>;

/// Launches with so many values of blocks, and so many counters.
fn with_room<A>(stream: &Stream, [partials, counters]: [usize; 2], launch: WithRoom<'_, A>) -> Result<()> {
    let mut partials = stream.take_partials(partials)?;
    let mut counters = stream.take_counters(counters)?;
    launch(&mut partials, &mut counters)?;
    partials.give_back();
    counters.give_back();
    Ok(())
}

/// A launch of that many blocks.
fn grid(blocks: usize) -> LaunchConfig {
    LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS as u32)
}
