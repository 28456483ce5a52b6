// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions of whole arrays and along axes.
//!
//! The primitives are here, generic over the operator: [`whole`], [`along_axis`], [`along_axes`]; what they do is
//! [`Reduction`]'s. `primitive.rs` has
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
use crate::layout;

use super::transpose::copy_to;
use axes::{Lie, Way};
use launch::{Launch, Results, launch};
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

/// A reduction by one operator. Only the launch is the operator's: all else is compiled once for elements and results of
/// these types, of any number of axes.
struct Reduction<T, R> {
    operation: &'static str,
    wants: Wants,
    launch: Launch<T, R>,
    in_steps: Option<InSteps<T, R>>,
}

impl<T: Element, R: Element> Reduction<T, R> {
    fn by<Op: ReduceOp<T, Output = R>>(operation: &'static str, wants: Wants, in_steps: Option<InSteps<T, R>>) -> Self
    where
        T: Reduce<Op>,
    {
        Self {
            operation,
            wants,
            launch: launch::<Op, T>,
            in_steps,
        }
    }

    /// The count that the operator is given for `length` of the elements.
    fn count(&self, x: &DynRef<T>, length: usize) -> Result<u64> {
        self.wants.count(self.operation, x.shape(), length)
    }

    /// Combines the elements along some axes into the results along the others, of which `out`, on the same device, has the
    /// shape.
    fn combine(
        &self,
        x: &DynRef<T>,
        is_combined: &dyn Fn(usize) -> bool,
        count: u64,
        out: &mut DynRef<R>,
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        if x.is_empty() {
            // Nothing to combine for any result.
            let nothing = Way::Rows {
                rows: out.len(),
                length: 0,
            };
            return self.write(x, nothing, count, out);
        }
        let lie = Lie::new((x.shape(), x.strides()), is_combined, self.wants.is_indexed());
        let Some(way) = lie.way() else {
            if let (Some(in_steps), Some(first)) = (self.in_steps, lie.first()) {
                return in_steps(x, &first, is_combined, count, out);
            }
            let order = lie.together();
            let x = x.view().permuted_axes(IxDyn(&order))?.to_array()?;
            let mut places = order.clone();
            order.iter().enumerate().for_each(|(place, &axis)| places[axis] = place);
            let x = x.view().permuted_axes(IxDyn(&places))?;
            let at_once = Self {
                in_steps: None,
                ..*self
            };
            return at_once.combine(&x, is_combined, count, out);
        };
        if lie.is_in_order() && !x.interlaces(out) {
            return self.write(x, way, count, out);
        }
        let mut results = DeviceArray::uninit(x.stream(), IxDyn(&lie.results()))?;
        self.launch(x, way, count, &mut results)?;
        let results = lie.in_order(results.view())?;
        copy_to(&*results.broadcast(out.raw_dim())?, x.stream(), out)
    }

    /// Launches, into elements that lie as they may.
    fn write(&self, x: &DynRef<T>, way: Way, count: u64, out: &mut DynRef<R>) -> Result<()> {
        out.write_in_order(x.stream(), &mut |out| self.launch(x, way, count, out))
    }

    /// Launches, into elements in C order.
    fn launch(&self, x: &DynRef<T>, way: Way, count: u64, out: &mut DynRef<R>) -> Result<()> {
        assert_eq!(way.results(), out.len(), "an element for each result");
        (self.launch)(x, way, count, &mut Results::Elements(out))
    }

    /// Of the whole array, into an array or view without axes.
    fn whole_into(&self, x: &DynRef<T>, out: &mut DynRef<R>) -> Result<()> {
        let count = self.count(x, x.len())?;
        self.check_output(x, &[], out)?;
        self.combine(x, &|_| true, count, out)
    }

    /// Of the whole array; waits for the result.
    fn whole(&self, x: &DynRef<T>) -> Result<R> {
        let count = self.count(x, x.len())?;
        if let Some(way) = self.way_of_all(x) {
            let mut out = Landed::new(x.stream())?;
            (self.launch)(x, way, count, &mut Results::Landed(&mut out))?;
            return out.read();
        }
        let mut out = DeviceArray::uninit(x.stream(), IxDyn(&[]))?;
        self.combine(x, &|_| true, count, &mut out)?;
        Ok(out.to_ndarray()?[IxDyn(&[])])
    }

    /// The way in which one kernel combines all elements, if there is one.
    fn way_of_all(&self, x: &DynRef<T>) -> Option<Way> {
        match x.is_empty() {
            true => Some(Way::Rows { rows: 1, length: 0 }),
            false => Lie::new((x.shape(), x.strides()), |_| true, self.wants.is_indexed()).way(),
        }
    }

    /// Along one axis, which there is, into an existing array or view.
    fn along_axis_into(&self, x: &DynRef<T>, axis: Axis, out: &mut DynRef<R>) -> Result<()> {
        let count = self.count(x, x.shape()[axis.index()])?;
        self.check_output(x, x.raw_dim().remove_axis(axis).slice(), out)?;
        self.combine(x, &|other| other == axis.index(), count, out)
    }

    /// Along several axes, into an existing array or view.
    fn along_axes_into(&self, x: &DynRef<T>, axes: &[usize], out: &mut DynRef<R>) -> Result<()> {
        let (kept, length) = split(self.operation, x.shape(), axes)?;
        let count = self.count(x, length)?;
        self.check_output(x, &kept, out)?;
        self.combine(x, &|axis| axes.contains(&axis), count, out)
    }

    /// Along several axes.
    fn along_axes(&self, x: &DynRef<T>, axes: &[usize]) -> Result<DeviceArray<R, IxDyn>> {
        let (kept, length) = split(self.operation, x.shape(), axes)?;
        self.count(x, length)?;
        DeviceArray::made(x.stream(), IxDyn(&kept), &mut |out| self.along_axes_into(x, axes, out))
    }

    /// An error unless `out` can take the result for `x`, of the shape `wanted`.
    fn check_output(&self, x: &DynRef<T>, wanted: &[usize], out: &DynRef<R>) -> Result<()> {
        if out.shape() != wanted {
            return Err(Error::Shape {
                operation: self.operation,
                given: format!("an output of shape {:?}", out.shape()),
                wanted: format!("one of shape {wanted:?}, for an array of shape {:?}", x.shape()),
            });
        }
        x.stream().check_device(self.operation, out.stream())
    }
}

/// Of the whole array, into an array or view without axes.
fn whole_into<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
    out: &mut DeviceArrayRef<Op::Output, Ix0>,
) -> Result<()> {
    Reduction::by::<Op>(operation, wants, in_steps).whole_into(&x.view().into_dyn(), &mut out.view_mut().into_dyn())
}

/// Of the whole array; waits for the result.
fn whole<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
) -> Result<Op::Output> {
    Reduction::by::<Op>(operation, wants, in_steps).whole(&x.view().into_dyn())
}

/// Along one axis, into an existing array or view.
fn along_axis_into<Op: ReduceOp<T>, T: Reduce<Op>, D: RemoveAxis>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axis: Axis,
    wants: Wants,
    out: &mut DeviceArrayRef<Op::Output, D::Smaller>,
) -> Result<()> {
    x.layout.check_axis(operation, axis.index())?;
    Reduction::by::<Op>(operation, wants, None).along_axis_into(
        &x.view().into_dyn(),
        axis,
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
    x.layout.check_axis(operation, axis.index())?;
    wants.count(operation, x.shape(), x.shape()[axis.index()])?;
    DeviceArray::made(x.stream(), x.raw_dim().remove_axis(axis), &mut |out| {
        along_axis_into::<Op, T, D>(operation, x, axis, wants, out)
    })
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
    Reduction::by::<Op>(operation, wants, in_steps).along_axes_into(&x.view().into_dyn(), axes, out)
}

/// Along several axes.
fn along_axes<Op: ReduceOp<T>, T: Reduce<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axes: &[usize],
    wants: Wants,
    in_steps: Option<InSteps<T, Op::Output>>,
) -> Result<DeviceArray<Op::Output, IxDyn>> {
    Reduction::by::<Op>(operation, wants, in_steps).along_axes(&x.view().into_dyn(), axes)
}

/// The lengths of the axes that are kept, and the number of elements along the others.
fn split(operation: &'static str, shape: &[usize], axes: &[usize]) -> Result<(Vec<usize>, usize)> {
    layout::check_axes(operation, shape.len(), axes)?;
    let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
    Ok((
        kept.map(|axis| shape[axis]).collect(),
        axes.iter().map(|&axis| shape[axis]).product(),
    ))
}
