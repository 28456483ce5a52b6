// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays and along axes.
//!
//! The primitives are here, generic over the operator: [`whole`], [`along_axis`], [`along_axes`]. `primitive.rs` has
//! them as public methods; those with a name of their own, `sum` and its kin, are in `named.rs`, `named_axis.rs` and
//! `named_axes.rs`. `axes.rs` says what lies where, `launch.rs` launches.

mod axes;
mod launch;
mod named;
mod named_axes;
mod named_axis;
mod primitive;

use kernels_gpu::compiled::Reduce;
use kernels_gpu::op::ReduceOp;
use ndarray::{Axis, Dimension, Ix0, Ix1, IxDyn, RemoveAxis};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::landed::Landed;

use super::transpose::Ordered;
use axes::{Axes, Extent};
use launch::{launch, launch_rows};

/// What a reduction wants of the elements that it combines, and counts them for.
#[derive(Clone, Copy)]
enum Wants {
    /// Nothing.
    Any,
    /// Nothing, but to be told the elements' indices.
    AnyIndexed,
    /// An element.
    One,
    /// An element, and to be told the elements' indices.
    OneIndexed,
    /// More elements than are taken off the divisor.
    MoreThan(usize),
}

impl Wants {
    /// The count that the operator is given for `length` elements, of an array of that shape.
    fn count(self, operation: &'static str, shape: &[usize], length: usize) -> Result<u64> {
        match self {
            Wants::One | Wants::OneIndexed | Wants::MoreThan(_) if length == 0 => Err(Error::Empty {
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
            Wants::Any | Wants::AnyIndexed | Wants::One | Wants::OneIndexed => Ok(length as u64),
        }
    }

    /// All elements as one axis, in an order that will do.
    fn elements<T: Element, D: Dimension>(self, x: &DeviceArrayRef<T, D>) -> Result<Ordered<'_, T, Ix1>> {
        match self {
            Wants::AnyIndexed | Wants::OneIndexed if !x.is_standard_layout() => {
                Ok(Ordered::Copied(x.to_array()?.into_shape(x.len())?))
            }
            _ => x.in_any_order(),
        }
    }
}

/// Of the whole array, into an array without axes.
fn whole_into<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wants: Wants,
    out: &mut DeviceArray<Op::Output, Ix0>,
) -> Result<()> {
    let count = wants.count(operation, x.shape(), x.len())?;
    check_output(operation, x, &[], out)?;
    launch_rows::<Op, _, _>(&*wants.elements(x)?, Extent::whole(x.len()), count, out)
}

/// Of the whole array; waits for the result.
fn whole<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wants: Wants,
) -> Result<Op::Output> {
    let count = wants.count(operation, x.shape(), x.len())?;
    let elements = wants.elements(x)?;
    let mut out = Landed::new(x.stream())?;
    launch_rows::<Op, _, _>(&elements, Extent::whole(x.len()), count, &mut out)?;
    out.read()
}

/// Along one axis, into an existing array.
fn along_axis_into<Op: ReduceOp<T>, T: Reduce<Op>, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axis: Axis,
    wants: Wants,
    out: &mut DeviceArray<Op::Output, D::Smaller>,
) -> Result<()> {
    let dim = without(operation, x, axis)?;
    let extent = Extent::axis(x.shape(), axis.index());
    let count = wants.count(operation, x.shape(), extent.length)?;
    check_output(operation, x, dim.slice(), out)?;
    launch::<Op, _, _, _>(&*x.in_order()?, extent, count, out)
}

/// Along one axis.
fn along_axis<Op: ReduceOp<T>, T: Reduce<Op>, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axis: Axis,
    wants: Wants,
) -> Result<DeviceArray<Op::Output, D::Smaller>> {
    let dim = without(operation, x, axis)?;
    wants.count(operation, x.shape(), x.shape()[axis.index()])?;
    let mut out = DeviceArray::uninit(x.stream(), dim)?;
    along_axis_into::<Op, T, D>(operation, x, axis, wants, &mut out)?;
    Ok(out)
}

/// Along several axes, into an existing array. Where they are not all neighbours, a copy brings them together.
fn along_axes_into<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axes: &[usize],
    wants: Wants,
    out: &mut DeviceArray<Op::Output, IxDyn>,
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
        return launch_rows::<Op, _, _>(x, extent, count, out);
    }
    let axes = Axes::new(x.shape(), axes);
    let x = &*x.in_order()?;
    match axes.together() {
        None => launch::<Op, _, _, _>(x, axes.extent(), count, out),
        Some(order) => {
            let x = x.in_shape(IxDyn(&axes.shape())).permuted_axes(IxDyn(&order))?;
            let x = x.to_array()?;
            launch::<Op, _, _, _>(&x, axes.extent(), count, out)
        }
    }
}

/// Along several axes.
fn along_axes<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axes: &[usize],
    wants: Wants,
) -> Result<DeviceArray<Op::Output, IxDyn>> {
    let (kept, length) = split(operation, x.shape(), axes)?;
    wants.count(operation, x.shape(), length)?;
    let mut out = DeviceArray::uninit(x.stream(), IxDyn(&kept))?;
    along_axes_into::<Op, T, D>(operation, x, axes, wants, &mut out)?;
    Ok(out)
}

/// The shape without one axis.
fn without<T: Element, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
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

/// An error unless `out` can take the result of `operation` on `x`.
fn check_output<T: Element, D: Dimension, O: Element, E: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wanted: &[usize],
    out: &DeviceArrayRef<O, E>,
) -> Result<()> {
    if out.shape() != wanted {
        return Err(Error::Shape {
            operation,
            given: format!("an output of shape {:?}", out.shape()),
            wanted: format!("one of shape {wanted:?}, for an array of shape {:?}", x.shape()),
        });
    }
    x.stream().check_device(operation, out.stream())
}
