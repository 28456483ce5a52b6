// SPDX-License-Identifier: MIT OR Apache-2.0
//! The launches of reductions: which axes are combined, and by which kernel.

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::reduce::{BLOCKS, ColumnPlan, RowPlan, SWAP_TILE, THREADS, swap_axes};
use ndarray::{Dimension, Ix1};

use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::ops::KernelOf;
use crate::workspace::Lease;

/// A kernel that combines the rows of an array of `T`: one that has the parameters of [`kernels_gpu::reduce::reduce()`]
/// and calls it.
pub trait ReduceRows<T: Element>: SafeKernel<Params = RowParams<T, Self::Acc, Self::Output>> {
    /// What elements are combined in.
    type Acc: Element;
    /// What the result is.
    type Output: Element;
}

/// A kernel that combines the columns of an array of `T`: one that has the parameters of
/// [`kernels_gpu::reduce::reduce_columns()`] and calls it.
pub trait ReduceColumns<T: Element>: SafeKernel<Params = ColumnParams<T, Self::Acc, Self::Output>> {
    /// What elements are combined in.
    type Acc: Element;
    /// What the result is.
    type Output: Element;
}

/// The parameters of [`kernels_gpu::reduce::reduce`].
type RowParams<T, A, O> = (
    &'static [T],
    RowPlan,
    SliceMut<'static, A>,
    SliceMut<'static, u32>,
    SliceMut<'static, O>,
);

/// The parameters of [`kernels_gpu::reduce::reduce_columns`].
type ColumnParams<T, A, O> = (
    &'static [T],
    ColumnPlan,
    SliceMut<'static, A>,
    SliceMut<'static, u32>,
    SliceMut<'static, O>,
);

impl<T: Element, A: Element, O: Element, K: SafeKernel<Params = RowParams<T, A, O>>> ReduceRows<T> for K {
    type Acc = A;
    type Output = O;
}

impl<T: Element, A: Element, O: Element, K: SafeKernel<Params = ColumnParams<T, A, O>>> ReduceColumns<T> for K {
    type Acc = A;
    type Output = O;
}

/// An array as (outer, length, inner), of which the middle axis is combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    outer: usize,
    pub(super) length: usize,
    inner: usize,
}

impl Extent {
    /// All axes of an array of `len` elements.
    pub(super) fn whole(len: usize) -> Self {
        Self {
            outer: 1,
            length: len,
            inner: 1,
        }
    }

    /// One axis, which the shape has.
    pub(super) fn axis(shape: &[usize], axis: usize) -> Self {
        Self::of([
            shape[..axis].iter().product(),
            shape[axis],
            shape[axis + 1..].iter().product(),
        ])
    }

    /// The same, by rows where the middle axis has less than two elements: nothing lies between them.
    fn of([outer, length, inner]: [usize; 3]) -> Self {
        if length < 2 {
            Self {
                outer: outer * inner,
                length,
                inner: 1,
            }
        } else {
            Self { outer, length, inner }
        }
    }

    /// The number of results.
    fn results(&self) -> usize {
        self.outer * self.inner
    }
}

/// Combines `x` as `extent` says, by kernel `R` where the elements of a result lie side by side, and by `C` where not.
/// `out` has as many elements as there are results; `count` is what the operator's `finish` is given.
pub(super) fn launch<R, C, T: Element, O, D: Dimension, E: Dimension>(
    x: &DeviceArray<T, D>,
    extent: Extent,
    count: u64,
    out: &mut DeviceArray<O, E>,
    kernel_of: KernelOf,
) -> Result<()>
where
    O: Element,
    R: ReduceRows<T, Output = O>,
    C: ReduceColumns<T, Output = O>,
{
    if extent.inner == 1 {
        return launch_rows::<R, _, _, _>(x, extent, count, out, kernel_of);
    }
    let columns = extent.results();
    if columns == 0 {
        return Ok(());
    }
    let plan = ColumnPlan::new::<T>(columns, extent.length, extent.inner, count);
    let config = grid(plan.blocks(columns));
    let (partials, counters) = (plan.partials(columns), plan.counters(columns));
    let stream = x.stream();
    let (mut partials, mut counters) = (stream.take_partials(partials)?, stream.take_counters(counters)?);
    stream.launch::<C>(&config, (x, plan, &mut partials, &mut counters, out))?;
    give_back(partials, counters, kernel_of);
    Ok(())
}

/// [`launch`] where the elements of a result lie side by side.
pub(super) fn launch_rows<R: ReduceRows<T>, T: Element, D: Dimension, E: Dimension>(
    x: &DeviceArray<T, D>,
    extent: Extent,
    count: u64,
    out: &mut DeviceArray<R::Output, E>,
    kernel_of: KernelOf,
) -> Result<()> {
    let rows = extent.results();
    if rows == 0 {
        return Ok(());
    }
    let plan = RowPlan::new::<T>(rows, extent.length, count);
    let stream = x.stream();
    // Twice as many as run at a time, so that none runs alone for long at the end.
    let most = 2 * BLOCKS * stream.backend().properties().multiprocessors as usize;
    let config = grid(plan.blocks::<T>(rows, most));
    let (partials, counters) = (plan.partials(rows), plan.counters(rows));
    let (mut partials, mut counters) = (stream.take_partials(partials)?, stream.take_counters(counters)?);
    stream.launch::<R>(&config, (x, plan, &mut partials, &mut counters, out))?;
    give_back(partials, counters, kernel_of);
    Ok(())
}

fn give_back<A>(partials: Lease<'_, A>, counters: Lease<'_, u32>, kernel_of: KernelOf) {
    partials.give_back();
    if kernel_of == KernelOf::Library {
        counters.give_back();
    }
}

/// A launch of that many blocks.
fn grid(blocks: usize) -> LaunchConfig {
    LaunchConfig::new(u32::try_from(blocks).unwrap_or(u32::MAX), THREADS as u32)
}

/// An array whose axes are to be combined, some of them.
///
/// Neighbouring axes are one where both are combined, or both are kept, and axes of length 1 are none; so the axes that
/// are left are combined and kept in turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    /// The length of each axis, and whether it is combined.
    axes: Vec<(usize, bool)>,
}

/// A copy in which two neighbouring axes are swapped, of an array of shape (outer, a, b, inner).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Swap {
    a: usize,
    b: usize,
    inner: usize,
}

impl Axes {
    /// The axes of `shape`, of which those in `combined` are combined. The array is not empty.
    pub(super) fn new(shape: &[usize], combined: &[usize]) -> Self {
        let mut axes: Vec<(usize, bool)> = Vec::new();
        for (axis, &length) in shape.iter().enumerate().filter(|&(_, &length)| length != 1) {
            let is_combined = combined.contains(&axis);
            match axes.last_mut() {
                Some(last) if last.1 == is_combined => last.0 *= length,
                _ => axes.push((length, is_combined)),
            }
        }
        Self { axes }
    }

    /// The next copy that brings axes together which are to be combined: the first of them behind the kept axis that
    /// follows it.
    pub(super) fn next_swap(&mut self) -> Option<Swap> {
        let first = self.axes.iter().position(|axis| axis.1)?;
        let [(a, _), (b, _), (second, _)] = *self.axes.get(first..first + 3)? else {
            return None;
        };
        let inner = self.axes[first + 2..].iter().map(|axis| axis.0).product();
        self.axes.splice(first..first + 3, [(b, false), (a * second, true)]);
        if first > 0 {
            self.axes[first - 1].0 *= b;
            self.axes.remove(first);
        }
        Some(Swap { a, b, inner })
    }

    /// The array with all axes that are combined together.
    pub(super) fn extent(&self) -> Extent {
        let lengths = |axes: &[(usize, bool)]| axes.iter().map(|axis| axis.0).product();
        match self.axes.iter().position(|axis| axis.1) {
            Some(axis) => Extent::of([
                lengths(&self.axes[..axis]),
                self.axes[axis].0,
                lengths(&self.axes[axis + 1..]),
            ]),
            None => Extent::of([lengths(&self.axes), 1, 1]),
        }
    }
}

/// An element type that can be copied with axes swapped.
#[doc(hidden)]
pub trait HasSwap: Element {
    type Kernel: SafeKernel<Params = (&'static [Self], usize, usize, usize, SliceMut<'static, Self>)>;
}

impl<T: Element> HasSwap for T
where
    swap_axes<T>: SafeKernel<Params = (&'static [T], usize, usize, usize, SliceMut<'static, T>)>,
{
    type Kernel = swap_axes<T>;
}

/// The copy. The array is not empty.
pub(super) fn swapped<T: HasSwap, D: Dimension>(x: &DeviceArray<T, D>, swap: Swap) -> Result<DeviceArray<T, Ix1>> {
    let mut out = DeviceArray::uninit(x.stream(), Ix1(x.len()))?;
    let arguments = (x, swap.a, swap.b, swap.inner, &mut out);
    x.stream()
        .launch::<T::Kernel>(&grid(x.len().div_ceil(SWAP_TILE)), arguments)?;
    Ok(out)
}

/// An error unless `out` can take the result of `operation` on `x`.
pub(super) fn check_output<T: Element, D: Dimension, O: Element, E: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    wanted: &[usize],
    out: &DeviceArray<O, E>,
) -> Result<()> {
    if out.shape() != wanted {
        return Err(Error::Shape {
            operation,
            given: format!("an output of shape {:?}", out.shape()),
            wanted: format!("one of shape {wanted:?}, for an array of shape {:?}", x.shape()),
        });
    }
    if !x.stream().same_device(out.stream()) {
        let (given, wanted) = (out.stream().device_id(), x.stream().device_id());
        return Err(Error::different_devices(operation, given, wanted));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_merged_and_brought_together() {
        let mut axes = Axes::new(&[2, 3, 1, 5, 7, 11], &[1, 2, 4]);
        assert_eq!(axes.axes, [(2, false), (3, true), (5, false), (7, true), (11, false)]);
        let swap = Swap { a: 3, b: 5, inner: 77 };
        assert_eq!(axes.next_swap(), Some(swap));
        assert_eq!(axes.axes, [(10, false), (21, true), (11, false)]);
        assert_eq!(axes.next_swap(), None);
        let extent = Extent {
            outer: 10,
            length: 21,
            inner: 11,
        };
        assert_eq!(axes.extent(), extent);
    }

    #[test]
    fn neighbouring_axes_need_no_copy() {
        for (combined, extent) in [
            (&[][..], [24, 1, 1]),
            (&[0], [1, 2, 12]),
            (&[1, 0], [1, 6, 4]),
            (&[2, 1], [2, 12, 1]),
            (&[2, 0, 1], [1, 24, 1]),
        ] {
            let mut axes = Axes::new(&[2, 3, 4], combined);
            assert_eq!(axes.next_swap(), None, "{combined:?}");
            let [outer, length, inner] = extent;
            assert_eq!(axes.extent(), Extent { outer, length, inner }, "{combined:?}");
        }
        assert_eq!(Axes::new(&[1, 1], &[0]).extent().length, 1);
    }
}
