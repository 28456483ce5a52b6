// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on whole arrays as parts of expressions: scans, histograms and products of matrices.
//!
//! They are kernels of their own, whose results are parts again. A graph without types has the operation as an object, which
//! knows the types of its operands; which kernels there are is said in materialize.rs.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use ndarray::{Dimension, IxDyn};

use super::function::Unary;
use super::parts::Shape;
use super::problem::Problem;
use super::{Elements, Has, Kind, Node, Part, common_home, weight};
use crate::array::Element;
use crate::array_ref::{DeviceArrayRef, Held};
use crate::error::Result;
use crate::expr::compiled::without_elements;
use crate::layout::{Layout, checked_len};
use crate::stream::Stream;

/// An operation on arrays that gives an array.
pub(in crate::expr) trait Operation: Any + Send + Sync {
    /// What it is called, with its parameters.
    fn describe(&self) -> String;

    /// Whether the other gives the same of the same operands.
    fn is_same(&self, other: &dyn Operation) -> bool;

    /// Computes the result of operands that lie as they like into an output in C order, on that stream.
    fn run(&self, stream: &Stream, operands: &[&dyn Elements], out: &dyn Elements) -> Result<()>;

    /// Whether it has one operand, which none but its kernels read, each as its first parameter: then they may compute it.
    fn reads(&self) -> bool {
        false
    }

    /// The operation with that done to its results by its own kernel, where that gives the same bits; or other ones of which
    /// [`fast_math`](crate::expr::Expr::fast_math) says that they are no matter, if `is_fast` says so.
    fn then(&self, _next: Then, _is_fast: bool) -> Option<Arc<dyn Operation>> {
        None
    }
}

/// What can become of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expr) enum Then {
    /// One more operand, which is repeated to their shape, is added.
    Add,
    Apply(Unary),
}

/// An operation and what it is of.
#[derive(Clone)]
pub(in crate::expr) struct Application<'a> {
    pub(in crate::expr) operation: Arc<dyn Operation>,
    pub(in crate::expr) operands: Vec<Arc<Node<'a>>>,
    /// Of the result.
    pub(in crate::expr) ty: ScalarType,
    pub(in crate::expr) shape: Shape,
}

/// What an operation gives.
#[derive(Clone)]
pub(in crate::expr) struct Applied<'a> {
    pub(in crate::expr) application: Arc<Application<'a>>,
    /// For each axis of the node, which one of the result's it is; none for one of length 1 that was inserted. A node that has
    /// length 1 where the result is longer is of its first elements.
    pub(in crate::expr) axes: Arc<[Option<usize>]>,
}

impl<'a> Node<'a> {
    /// What an operation called `name` gives of operands that fit: a `ty` of that shape.
    pub(in crate::expr) fn apply(
        name: &'static str,
        operation: Arc<dyn Operation>,
        operands: Vec<Arc<Self>>,
        ty: ScalarType,
        shape: &[usize],
    ) -> Part<'a> {
        if checked_len(shape).is_none() {
            let shapes: Vec<_> = operands.iter().map(|operand| &operand.shape).collect();
            return Err(Problem::Shape {
                operation: name,
                given: format!("operands of shapes {shapes:?}, whose result has shape {shape:?}"),
                wanted: "a result of fewer than 2^63 elements".into(),
            });
        }
        let composites = Has::of(&operands).composites;
        let home = common_home(name, &operands)?;
        let applied = Applied {
            axes: (0..shape.len()).map(Some).collect(),
            application: Arc::new(Application {
                operation,
                operands,
                ty,
                shape: shape.into(),
            }),
        };
        let kind = Kind::Applied(applied);
        Ok(Arc::new(Self {
            ty,
            shape: shape.into(),
            home,
            size: weight(&kind, shape.len()),
            has: Has {
                applications: true,
                composites,
                ..Has::default()
            },
            kind,
        }))
    }

    /// The same elements of an application that takes the place of its own.
    pub(in crate::expr) fn with_application(
        &self,
        applied: &Applied<'a>,
        application: &Arc<Application<'a>>,
    ) -> Arc<Self> {
        let applied = Applied {
            application: Arc::clone(application),
            ..applied.clone()
        };
        Arc::new(self.with_kind(Kind::Applied(applied)))
    }

    /// The same elements without that axis of length 1, of what an operation gives.
    pub(in crate::expr) fn without_axis(&self, axis: usize) -> Arc<Self> {
        let Kind::Applied(applied) = &self.kind else {
            unreachable!("what an operation gives")
        };
        let mut shape = self.shape.to_vec();
        assert_eq!(shape.remove(axis), 1);
        let mut axes = applied.axes.to_vec();
        axes.remove(axis);
        let applied = Applied {
            axes: axes.into(),
            ..applied.clone()
        };
        let mut node = self.with_kind(Kind::Applied(applied));
        node.shape = shape[..].into();
        Arc::new(node)
    }

    /// What it is of, if it is all that an operation gives, as it gives it.
    pub(in crate::expr) fn as_application(&self) -> Option<&Arc<Application<'a>>> {
        let Kind::Applied(Applied { application, axes }) = &self.kind else {
            return None;
        };
        let is_all = self.shape == application.shape && axes.iter().copied().eq((0..self.shape.len()).map(Some));
        (is_all && self.ty.bytes() == application.ty.bytes()).then_some(application)
    }
}

/// What says whether parts are results of the same: by the address of the node, or of the application, of which several nodes
/// may be.
pub(in crate::expr) type Key = *const ();

pub(in crate::expr) fn key(node: &Arc<Node<'_>>) -> Key {
    match &node.kind {
        Kind::Applied(applied) => Arc::as_ptr(&applied.application).cast(),
        _ => Arc::as_ptr(node).cast(),
    }
}

/// Elements as operations on arrays take them, on that stream.
pub(in crate::expr) fn typed<T: Element, D: Dimension>(elements: &dyn Elements, stream: &Stream) -> Result<Held<T, D>> {
    let (buffer, offset) = elements.memory().ok_or_else(without_elements)?;
    let dim = |numbers: &[usize]| D::from_dimension(&IxDyn(numbers)).expect("as many axes as the operation is of");
    let strides: Vec<usize> = elements.strides().iter().map(|&stride| stride as usize).collect();
    let (shape, len) = (dim(elements.shape()), buffer.bytes() / size_of::<T>());
    Ok(DeviceArrayRef {
        buffer: Arc::clone(buffer),
        stream: stream.clone(),
        layout: Layout::within(len, offset, shape, dim(&strides)),
        _element: PhantomData,
        _size: [],
    })
}

/// The operation of that type, if it is one.
pub(in crate::expr) fn as_type<O: Operation>(operation: &dyn Operation) -> Option<&O> {
    (operation as &dyn Any).downcast_ref()
}

/// What computes the elements of an output of parameters and those of an array, and has nothing else: its type says what it does.
pub(in crate::expr) trait Compute<P, T, D, R, E>:
    Fn(&P, &DeviceArrayRef<T, D>, &mut DeviceArrayRef<R, E>) -> Result<()> + Send + Sync + 'static
{
}

impl<P, T, D, R, E, F> Compute<P, T, D, R, E> for F where
    F: Fn(&P, &DeviceArrayRef<T, D>, &mut DeviceArrayRef<R, E>) -> Result<()> + Send + Sync + 'static
{
}

/// What an operation is told besides its operands.
pub(in crate::expr) trait Told: PartialEq + Send + Sync + 'static {}

impl<P: PartialEq + Send + Sync + 'static> Told for P {}

/// An operation on one array.
struct OfOne<P, T, D, R, E, F> {
    description: String,
    parameters: P,
    compute: F,
    _arrays: PhantomData<fn(T, D, R, E)>,
}

/// The operation on one array that `compute` does, which has captured nothing, with these parameters. It has its kernels alone
/// [read](Operation::reads) the array.
pub(in crate::expr) fn of_one<P: Told, T: Element, D: Dimension + 'static, R: Element, E: Dimension + 'static>(
    description: String,
    parameters: P,
    compute: impl Compute<P, T, D, R, E>,
) -> Arc<dyn Operation> {
    Arc::new(OfOne {
        description,
        parameters,
        compute,
        _arrays: PhantomData,
    })
}

impl<P, T, D, R, E, F> Operation for OfOne<P, T, D, R, E, F>
where
    P: Told,
    T: Element,
    D: Dimension + 'static,
    R: Element,
    E: Dimension + 'static,
    F: Compute<P, T, D, R, E>,
{
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn is_same(&self, other: &dyn Operation) -> bool {
        const {
            assert!(
                size_of::<F>() == 0,
                "what it is told are parameters, which can be compared"
            )
        };
        as_type::<Self>(other).is_some_and(|other| other.parameters == self.parameters)
    }

    fn reads(&self) -> bool {
        true
    }

    fn run(&self, stream: &Stream, operands: &[&dyn Elements], out: &dyn Elements) -> Result<()> {
        (self.compute)(&self.parameters, &typed(operands[0], stream)?, &mut typed(out, stream)?)
    }
}
