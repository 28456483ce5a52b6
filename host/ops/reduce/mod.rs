// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays and along axes.
//!
//! The primitives are here, generic over the operator: [`whole`], [`along_axis`], [`along_axes`]. `primitive.rs` has
//! them as public methods; those with a name of their own, `sum` and its kin, are in `named.rs`, `named_axis.rs` and
//! `named_axes.rs`. `axes.rs` says what lies where, `steps.rs` what is combined along some axes first,
//! `launch.rs` launches.

mod axes;
mod launch;
mod named;
mod named_axes;
mod named_axis;
mod primitive;
mod steps;

use kernels_gpu::compiled::Reduce;
use kernels_gpu::op::ReduceOp;
use ndarray::{Axis, Dimension, Ix0, IxDyn, RemoveAxis};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::landed::Landed;

use super::transpose::copy_to;
use axes::{Lie, Way};
use launch::{launch, launch_to};
use steps::InSteps;

/// Elements of any number of axes.
type DynRef<T> = DeviceArrayRef<T, IxDyn>;

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

    /// Whether the operator is told the elements' places among those that it combines.
    fn is_indexed(self) -> bool {
        matches!(self, Wants::AnyIndexed | Wants::OneIndexed)
    }
}

/// Combines the elements along some axes into the results along the others, of which `out`, on the same device, has the
/// shape.
fn combine<Op: ReduceOp<T>, T: Reduce<Op>>(
    x: &DynRef<T>,
    is_combined: &dyn Fn(usize) -> bool,
    wants: Wants,
    count: u64,
    in_steps: Option<InSteps<T, Op::Output>>,
    out: &mut DynRef<Op::Output>,
) -> Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let stream = x.stream();
    if x.is_empty() {
        // Nothing to combine for any result.
        let nothing = Way::Rows {
            rows: out.len(),
            length: 0,
        };
        return out.write_in_order(stream, |out| launch::<Op, T>(x, nothing, count, out));
    }
    let lie = Lie::new((x.shape(), x.strides()), is_combined, wants.is_indexed());
    let Some(way) = lie.way() else {
        if let (Some(in_steps), Some(first)) = (in_steps, lie.first()) {
            return in_steps(x, &first, is_combined, count, out);
        }
        let order = lie.together();
        let x = x.view().permuted_axes(IxDyn(&order))?.to_array()?;
        let mut places = order.clone();
        order.iter().enumerate().for_each(|(place, &axis)| places[axis] = place);
        let x = x.view().permuted_axes(IxDyn(&places))?;
        return combine::<Op, T>(&x, is_combined, wants, count, None, out);
    };
    if lie.is_in_order() && !x.interlaces(out) {
        return out.write_in_order(stream, |out| launch::<Op, T>(x, way, count, out));
    }
    let mut results = DeviceArray::uninit(stream, IxDyn(&lie.results()))?;
    launch::<Op, T>(x, way, count, &mut results)?;
    let results = lie.in_order(results.view())?;
    copy_to(&*results.broadcast(out.raw_dim())?, stream, out)
}

/// Of the whole array, into an array or view without axes.
fn whole_into<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
    out: &mut DeviceArrayRef<Op::Output, Ix0>,
) -> Result<()> {
    let count = wants.count(operation, x.shape(), x.len())?;
    check_output(operation, x, &[], out)?;
    combine::<Op, T>(
        &x.view().into_dyn(),
        &|_| true,
        wants,
        count,
        in_steps,
        &mut out.view_mut().into_dyn(),
    )
}

/// The way in which one kernel combines all elements, if there is one.
fn way_of_all<T: Element>(x: &DynRef<T>, wants: Wants) -> Option<Way> {
    match x.is_empty() {
        true => Some(Way::Rows { rows: 1, length: 0 }),
        false => Lie::new((x.shape(), x.strides()), |_| true, wants.is_indexed()).way(),
    }
}

/// Of the whole array; waits for the result.
fn whole<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
) -> Result<Op::Output> {
    let count = wants.count(operation, x.shape(), x.len())?;
    let elements = x.view().into_dyn();
    if let Some(way) = way_of_all(&elements, wants) {
        let mut out = Landed::new(x.stream())?;
        launch_to::<Op, T>(&elements, way, count, &mut out)?;
        return out.read();
    }
    let mut out = DeviceArray::uninit(x.stream(), Ix0())?;
    let to = &mut out.view_mut().into_dyn();
    combine::<Op, T>(&elements, &|_| true, wants, count, in_steps, to)?;
    Ok(out.to_ndarray()?.into_scalar())
}

/// Along one axis, into an existing array or view.
fn along_axis_into<Op: ReduceOp<T>, T: Reduce<Op>, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axis: Axis,
    wants: Wants,
    out: &mut DeviceArrayRef<Op::Output, D::Smaller>,
) -> Result<()> {
    let dim = without(operation, x, axis)?;
    let count = wants.count(operation, x.shape(), x.shape()[axis.index()])?;
    check_output(operation, x, dim.slice(), out)?;
    combine::<Op, T>(
        &x.view().into_dyn(),
        &|other| other == axis.index(),
        wants,
        count,
        None,
        &mut out.view_mut().into_dyn(),
    )
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

/// Along several axes, into an existing array or view.
fn along_axes_into<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axes: &[usize],
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
    out: &mut DeviceArrayRef<Op::Output, IxDyn>,
) -> Result<()> {
    let (kept, length) = split(operation, x.shape(), axes)?;
    let count = wants.count(operation, x.shape(), length)?;
    check_output(operation, x, &kept, out)?;
    combine::<Op, T>(
        &x.view().into_dyn(),
        &|axis| axes.contains(&axis),
        wants,
        count,
        in_steps,
        &mut out.view_mut().into_dyn(),
    )
}

/// Along several axes.
fn along_axes<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axes: &[usize],
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
) -> Result<DeviceArray<Op::Output, IxDyn>> {
    let (kept, length) = split(operation, x.shape(), axes)?;
    wants.count(operation, x.shape(), length)?;
    let mut out = DeviceArray::uninit(x.stream(), IxDyn(&kept))?;
    along_axes_into::<Op, T, D>(operation, x, axes, wants, in_steps, &mut out)?;
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
