// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays and along axes.

mod methods;
mod run;
mod with;

use kernels_gpu::op::{All, Any, ArgMax, ArgMin, Max, Mean, Min, Product, ReduceOp, Statistic, Std, Sum, Variance};
use kernels_gpu::reduce as kernels;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::ops::KernelOf;

use run::{Axes, Extent, check_output, launch, launch_rows, swapped};
pub use run::{HasSwap, ReduceColumns, ReduceRows};

/// An element type that operator `Op` is compiled for.
#[doc(hidden)]
pub trait HasReduce<Op>: Element {
    type Output: Element;
    type Rows: ReduceRows<Self, Output = Self::Output>;
    type Columns: ReduceColumns<Self, Output = Self::Output>;
}

impl<T: Element, Op: ReduceOp<T>> HasReduce<Op> for T
where
    Op::Output: Element,
    kernels::reduce<T, Op>: ReduceRows<T, Output = Op::Output>,
    kernels::reduce_columns<T, Op>: ReduceColumns<T, Output = Op::Output>,
{
    type Output = Op::Output;
    type Rows = kernels::reduce<T, Op>;
    type Columns = kernels::reduce_columns<T, Op>;
}

/// The element types of reductions: `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`.
///
/// The type of a mean, a variance and a standard deviation is `T::Mean`: the float itself, and `f64` for integers.
pub trait Reduce:
    Statistic
    + HasSwap
    + HasReduce<Sum, Output = Self>
    + HasReduce<Product, Output = Self>
    + HasReduce<Min, Output = Self>
    + HasReduce<Max, Output = Self>
    + HasReduce<Mean, Output = <Self as Statistic>::Mean>
    + HasReduce<Variance, Output = <Self as Statistic>::Mean>
    + HasReduce<Std, Output = <Self as Statistic>::Mean>
    + HasReduce<ArgMin, Output = u64>
    + HasReduce<ArgMax, Output = u64>
    + HasReduce<Any, Output = u8>
    + HasReduce<All, Output = u8>
{
}

macro_rules! implement {
    ($($type:ty),*) => { $(impl Reduce for $type {})* };
}

implement!(f32, f64, half::f16, half::bf16, i32, i64, u8, u16, u32, u64);

/// What a reduction wants of the elements that it combines, and counts them for.
#[derive(Clone, Copy)]
enum Wants {
    /// Nothing.
    Any,
    /// An element.
    One,
    /// More elements than are taken off the divisor.
    MoreThan(usize),
}

impl Wants {
    /// The count that the operator is given for `length` elements, of an array of that shape.
    fn count(self, operation: &'static str, shape: &[usize], length: usize) -> Result<u64> {
        match self {
            Wants::One | Wants::MoreThan(_) if length == 0 => Err(Error::Empty {
                operation,
                shape: shape.to_vec(),
            }),
            Wants::MoreThan(ddof) if length <= ddof => Err(Error::Parameter {
                operation,
                parameter: "ddof",
                given: ddof.to_string(),
                wanted: format!("less than the number of elements that are combined, {length}"),
            }),
            Wants::MoreThan(ddof) => Ok((length - ddof) as u64),
            Wants::Any | Wants::One => Ok(length as u64),
        }
    }
}

/// Of the whole array.
fn whole_into<Op, T: HasReduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    wants: Wants,
    out: &mut DeviceArray<T::Output, Ix0>,
) -> Result<()> {
    let count = wants.count(operation, x.shape(), x.len())?;
    check_output(operation, x, &[], out)?;
    launch_rows::<T::Rows, _, _, _>(x, Extent::whole(x.len()), count, out, KernelOf::Library)
}

/// Of the whole array; waits for the result.
fn whole<Op, T: HasReduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    wants: Wants,
) -> Result<T::Output> {
    wants.count(operation, x.shape(), x.len())?;
    let mut out = DeviceArray::uninit(x.stream(), Ix0())?;
    whole_into::<Op, T, D>(operation, x, wants, &mut out)?;
    Ok(out.to_ndarray()?.into_scalar())
}

/// Along one axis.
fn axis_into<Op, T: HasReduce<Op>, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    axis: Axis,
    wants: Wants,
    out: &mut DeviceArray<T::Output, D::Smaller>,
) -> Result<()> {
    let dim = without(operation, x, axis)?;
    let extent = Extent::axis(x.shape(), axis.index());
    let count = wants.count(operation, x.shape(), extent.length)?;
    check_output(operation, x, dim.slice(), out)?;
    launch::<T::Rows, T::Columns, _, _, _, _>(x, extent, count, out, KernelOf::Library)
}

/// Along one axis, into a new array.
fn axis<Op, T: HasReduce<Op>, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    axis: Axis,
    wants: Wants,
) -> Result<DeviceArray<T::Output, D::Smaller>> {
    let dim = without(operation, x, axis)?;
    wants.count(operation, x.shape(), x.shape()[axis.index()])?;
    let mut out = DeviceArray::uninit(x.stream(), dim)?;
    axis_into::<Op, T, D>(operation, x, axis, wants, &mut out)?;
    Ok(out)
}

/// Along several axes. Each further group of neighbouring axes costs a copy that brings it together with the last.
fn axes_into<Op, T: HasReduce<Op> + HasSwap, D: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    axes: &[usize],
    wants: Wants,
    out: &mut DeviceArray<T::Output, IxDyn>,
) -> Result<()> {
    let (kept, length) = split(operation, x.shape(), axes)?;
    let count = wants.count(operation, x.shape(), length)?;
    check_output(operation, x, &kept, out)?;
    if out.is_empty() {
        return Ok(());
    }
    if x.is_empty() {
        // Nothing to combine for any result.
        let extent = Extent::axis(&[out.len(), 0], 1);
        return launch_rows::<T::Rows, _, _, _>(x, extent, count, out, KernelOf::Library);
    }
    let mut axes = Axes::new(x.shape(), axes);
    let Some(swap) = axes.next_swap() else {
        return launch::<T::Rows, T::Columns, _, _, _, _>(x, axes.extent(), count, out, KernelOf::Library);
    };
    let mut copy = swapped(x, swap)?;
    while let Some(swap) = axes.next_swap() {
        copy = swapped(&copy, swap)?;
    }
    launch::<T::Rows, T::Columns, _, _, _, _>(&copy, axes.extent(), count, out, KernelOf::Library)
}

/// Along several axes, into a new array.
fn axes<Op, T: HasReduce<Op> + HasSwap, D: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    axes: &[usize],
    wants: Wants,
) -> Result<DeviceArray<T::Output, IxDyn>> {
    let (kept, length) = split(operation, x.shape(), axes)?;
    wants.count(operation, x.shape(), length)?;
    let mut out = DeviceArray::uninit(x.stream(), IxDyn(&kept))?;
    axes_into::<Op, T, D>(operation, x, axes, wants, &mut out)?;
    Ok(out)
}

/// The shape without one axis.
fn without<T: Element, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    axis: Axis,
) -> Result<D::Smaller> {
    let axes = x.shape().len();
    if axis.index() < axes {
        return Ok(x.raw_dim().remove_axis(axis));
    }
    Err(Error::Axes {
        operation,
        given: vec![axis.index()],
        wanted: match axes {
            0 => "an array that has an axis".into(),
            _ => format!("an axis below {axes}"),
        },
    })
}

/// The lengths of the axes that are kept, and the number of elements along the others.
fn split(operation: &'static str, shape: &[usize], axes: &[usize]) -> Result<(Vec<usize>, usize)> {
    let is_repeated = |(i, axis): (usize, &usize)| axes[..i].contains(axis);
    if axes.iter().any(|&axis| axis >= shape.len()) || axes.iter().enumerate().any(is_repeated) {
        return Err(Error::Axes {
            operation,
            given: axes.to_vec(),
            wanted: format!("axes below {}, each at most once", shape.len()),
        });
    }
    let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
    Ok((
        kept.map(|axis| shape[axis]).collect(),
        axes.iter().map(|&axis| shape[axis]).product(),
    ))
}
