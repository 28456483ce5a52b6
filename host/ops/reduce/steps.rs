// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions in two steps, without a copy of the elements: along the axes that lie together first, for values of which
//! nothing is lost, and these along the others, as if all elements were combined at once.

use cuda_std::scalar::Scalar;
use kernels_gpu::compiled::{Number, Reduce};
use kernels_gpu::num::Accumulator;
use kernels_gpu::op::{Mean, Moments, ROOT, ReduceOp, Statistic, Sum, Variance, WideSum};
use ndarray::IxDyn;

use super::{DynRef, Reduction, Wants};
use crate::array::DeviceArray;
use crate::error::Result;
use crate::expr::one::{Conversion, Term};
use crate::stream::Stream;

/// Combines the elements along those axes first, and then along all that are combined; the last operator is given the
/// count.
pub(super) type InSteps<T, R> = fn(&DynRef<T>, &[usize], &dyn Fn(usize) -> bool, u64, &mut DynRef<R>) -> Result<()>;

/// The axes of `axes` that are left when the first are combined.
fn axes_left(axes: usize, first: &[usize]) -> Vec<usize> {
    (0..axes).filter(|axis| !first.contains(axis)).collect()
}

/// A step, of elements and results that were checked.
fn reduction<Op: ReduceOp<T>, T: Reduce<Op>>(in_steps: Option<InSteps<T, Op::Output>>) -> Reduction<T, Op::Output> {
    Reduction::by::<Op>("in_steps", Wants::Any, in_steps)
}

/// The elements combined along all axes but those that are left.
fn first_step<Op: ReduceOp<T>, T: Reduce<Op>>(x: &DynRef<T>, left: &[usize]) -> Result<DeviceArray<Op::Output, IxDyn>> {
    let shape: Vec<usize> = left.iter().map(|&axis| x.shape()[axis]).collect();
    let mut results = DeviceArray::uninit(x.stream(), IxDyn(&shape))?;
    reduction::<Op, T>(None).combine(x, &|axis| !left.contains(&axis), 1, &mut results)?;
    Ok(results)
}

/// By `First`, and its results by `Then`, in as many steps as it takes.
pub(super) fn in_steps<First, Then, T>(
    x: &DynRef<T>,
    first: &[usize],
    is_combined: &dyn Fn(usize) -> bool,
    count: u64,
    out: &mut DynRef<First::Output>,
) -> Result<()>
where
    First: ReduceOp<T>,
    T: Reduce<First>,
    Then: ReduceOp<First::Output, Output = First::Output>,
    First::Output: Reduce<Then>,
{
    let left = axes_left(x.ndim(), first);
    let results = first_step::<First, T>(x, &left)?;
    let again: InSteps<First::Output, First::Output> = in_steps::<Then, Then, First::Output>;
    reduction::<Then, First::Output>(Some(again)).combine(&results, &|axis| is_combined(left[axis]), count, out)
}

/// Sums; those of 16-bit floats are made in `f64`, and rounded once.
pub(super) fn sum_in_steps<T: Number>() -> InSteps<T, T::Total> {
    match total_in_steps::<Sum, T>() {
        Some(in_steps) => in_steps,
        None => |x, first, is_combined, count, out| {
            // The mean of such a float is of its type, and so is the total.
            let mut out = out.of_type_mut::<<T as Statistic>::Mean>().expect("a 16-bit float");
            rounded::<T>(&mut out, x.stream(), |out| {
                in_steps::<WideSum, Sum, T>(x, first, is_combined, count, out)
            })
        },
    }
}

/// Sums and products, but for those of 16-bit floats, which are rounded once.
pub(super) fn total_in_steps<Op, T>() -> Option<InSteps<T, T::Total>>
where
    Op: ReduceOp<T, Output = T::Total> + ReduceOp<T::Total, Output = T::Total>,
    T: Number + Reduce<Op>,
    T::Total: Reduce<Op>,
{
    (size_of::<Accumulator<T>>() == size_of::<T::Total>()).then_some(in_steps::<Op, Op, T>)
}

/// Has `compute` write means as `f64`, and rounds them once if that is not their type.
fn rounded<T: Number>(
    out: &mut DynRef<<T as Statistic>::Mean>,
    stream: &Stream,
    compute: impl FnOnce(&mut DynRef<f64>) -> Result<()>,
) -> Result<()> {
    if let Some(mut out) = out.of_type_mut::<f64>() {
        return compute(&mut out);
    }
    let mut wide = DeviceArray::uninit(stream, out.raw_dim())?;
    compute(&mut wide)?;
    let means = Term::array(&*wide).cast(Conversion::Plain, <T as Statistic>::Mean::TYPE)?;
    means.write(stream, out)
}

/// Means: sums in `f64`, unrounded, and the means of these.
pub(super) fn mean_in_steps<T: Number>(
    x: &DynRef<T>,
    first: &[usize],
    is_combined: &dyn Fn(usize) -> bool,
    count: u64,
    out: &mut DynRef<<T as Statistic>::Mean>,
) -> Result<()> {
    rounded::<T>(out, x.stream(), |out| {
        in_steps::<WideSum, Mean, T>(x, first, is_combined, count, out)
    })
}

/// Variances: the moments of some elements, and these of all.
pub(super) fn variance_in_steps<T: Number>(
    x: &DynRef<T>,
    first: &[usize],
    is_combined: &dyn Fn(usize) -> bool,
    count: u64,
    out: &mut DynRef<<T as Statistic>::Mean>,
) -> Result<()> {
    rounded::<T>(out, x.stream(), |out| {
        let left = axes_left(x.ndim(), first);
        let moments = first_step::<Moments, T>(x, &left)?;
        reduction::<Variance, Moments>(None).combine(&moments, &|axis| is_combined(left[axis]), count, out)
    })
}

/// Standard deviations, as [`variance_in_steps`].
pub(super) fn std_in_steps<T: Number>(
    x: &DynRef<T>,
    first: &[usize],
    is_combined: &dyn Fn(usize) -> bool,
    count: u64,
    out: &mut DynRef<<T as Statistic>::Mean>,
) -> Result<()> {
    variance_in_steps::<T>(x, first, is_combined, count | ROOT, out)
}
