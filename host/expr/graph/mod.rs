// SPDX-License-Identifier: MIT OR Apache-2.0
//! The graph behind expressions, without its types: what was written is checked here, and computed nowhere.

pub(in crate::expr) mod apply;
pub(in crate::expr) mod composite;
pub(in crate::expr) mod description;
pub(in crate::expr) mod fold;
pub(in crate::expr) mod function;
mod operations;
pub(in crate::expr) mod parts;
pub(in crate::expr) mod problem;
pub(in crate::expr) mod walk;

use std::sync::Arc;

use cuda_std::scalar::{Scalar, ScalarType};
use ndarray::Dimension;

use self::apply::Applied;
use self::composite::Composed;
use self::fold::Operator;
use self::function::Binary;
pub(in crate::expr) use self::operations::{
    binary, binary_as_it_is, cast, cast_saturating, cast_wrapping, one, repeated, ternary, unary, with_type,
};
use self::parts::{Parts, Shape, shared};
use self::problem::Problem;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::backend::DeviceFnInfo;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::expr::compiled::Place;
use crate::expr::program::MAX_ARGUMENTS;
use crate::layout;
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

/// A part of an expression, or why it is none.
pub(in crate::expr) type Part<'a> = std::result::Result<Arc<Node<'a>>, Problem>;

/// An array without its types.
///
/// # Safety
///
/// Dropping one reads nothing that it borrows: it may be dropped when that is gone, as a part of a [`Lent`](crate::expr::lent::Lent).
pub(in crate::expr) unsafe trait Elements: Send + Sync {
    fn stream(&self) -> &Stream;
    fn shape(&self) -> &[usize];
    fn strides(&self) -> &[isize];
    /// Where the first element lies; 0 where there is none.
    fn first_address(&self) -> u64;
    /// As [`DeviceArrayRef::reads_on`].
    fn reads_on(&self, stream: &Stream) -> Result<()>;
    /// As [`DeviceArrayRef::writes_on`].
    fn writes_on(&self, stream: &Stream) -> Result<()>;
    /// As [`DeviceArrayRef::is_part`].
    fn is_part(&self) -> bool;
    /// The memory, and the place of the first element in it; none of an array that is only imagined.
    fn memory(&self) -> Option<(&Arc<Buffer>, usize)> {
        None
    }

    /// Which array of a function that is being traced these elements stand for, if they are none themselves.
    fn place(&self) -> Option<Place> {
        None
    }
}

macro_rules! elements {
    ($($type:ty),*) => {$(
        // SAFETY: dropping a reference does nothing, and arrays and views hold no reference: what they borrow is in their types, and
        // their memory is counted.
        unsafe impl<T: Element, D: Dimension> Elements for $type {
            fn stream(&self) -> &Stream {
                DeviceArrayRef::stream(self)
            }

            fn shape(&self) -> &[usize] {
                DeviceArrayRef::shape(self)
            }

            fn strides(&self) -> &[isize] {
                DeviceArrayRef::strides(self)
            }

            fn first_address(&self) -> u64 {
                DeviceArrayRef::first_address(self) as u64
            }

            fn reads_on(&self, stream: &Stream) -> Result<()> {
                DeviceArrayRef::reads_on(self, stream)
            }

            fn writes_on(&self, stream: &Stream) -> Result<()> {
                DeviceArrayRef::writes_on(self, stream)
            }

            fn is_part(&self) -> bool {
                DeviceArrayRef::is_part(self)
            }

            fn memory(&self) -> Option<(&Arc<Buffer>, usize)> {
                Some((self.buffer(), self.layout.offset()))
            }
        }
    )*};
}

elements!(&DeviceArrayRef<T, D>, DeviceArray<T, D>, DeviceView<'_, T, D>, DeviceViewMut<'_, T, D>);

/// An array that an expression reads: one that is borrowed, or one that it has for itself.
pub(in crate::expr) type Array<'a> = Arc<dyn Elements + 'a>;

/// How a number of an element comes about.
#[derive(Clone)]
pub(in crate::expr) enum Kind<'a> {
    Array(Array<'a>),
    /// The same for all elements, by its bits.
    Scalar(u64),
    /// The same for all elements, given with each call of a function that is being traced.
    Argument(Place),
    /// The element's place along an axis, a `u64`.
    Index(usize),
    Call(&'static DeviceFnInfo, Parts<'a>),
    Reduced(Reduced<'a>),
    Applied(Applied<'a>),
    Composed(Composed<'a>),
}

/// An operation has weight 1, a number and an array as much as goes with their bytes in a kernel's parameters.
pub(in crate::expr) fn weight(kind: &Kind<'_>, axes: usize) -> usize {
    match kind {
        Kind::Call(..) | Kind::Index(_) | Kind::Reduced(_) | Kind::Composed(_) => 1,
        Kind::Scalar(_) | Kind::Argument(_) => 4,
        // What an operation gives is an array in a kernel.
        Kind::Array(_) | Kind::Applied(_) => 5 + 3 * axes,
    }
}

/// A number that elements along axes were combined to.
#[derive(Clone)]
pub(in crate::expr) struct Reduced<'a> {
    pub(in crate::expr) reduction: Arc<Reduction<'a>>,
    /// Which of the numbers that elements bring.
    pub(in crate::expr) number: usize,
    /// For each axis of the result, which one of the elements' it is; none for one of length 1 that was inserted.
    pub(in crate::expr) axes: Arc<[Option<usize>]>,
}

/// What is combined along which axes.
pub(in crate::expr) struct Reduction<'a> {
    pub(in crate::expr) operator: Operator,
    /// The numbers that each element brings, all of one shape.
    pub(in crate::expr) parts: Parts<'a>,
    /// In ascending order.
    pub(in crate::expr) axes: Shape,
}

impl Reduction<'_> {
    pub(in crate::expr) fn shape(&self) -> &Shape {
        &self.parts[0].shape
    }
}

/// A part of an expression.
pub(in crate::expr) struct Node<'a> {
    pub(in crate::expr) kind: Kind<'a>,
    pub(in crate::expr) ty: ScalarType,
    pub(in crate::expr) shape: Shape,
    /// An array that it reads, at whose home it is computed.
    pub(in crate::expr) home: Option<Array<'a>>,
    /// How much it and its parts [weigh](weight), shared parts each time.
    pub(in crate::expr) size: usize,
    pub(in crate::expr) has: Has,
}

/// What a part or parts of it may be the results of: evaluating looks for nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::expr) struct Has {
    pub(in crate::expr) reductions: bool,
    pub(in crate::expr) applications: bool,
    /// Whose own reductions are not told before they are expanded.
    pub(in crate::expr) composites: bool,
}

impl Has {
    /// What any of the parts has.
    pub(in crate::expr) fn of(parts: &[Arc<Node<'_>>]) -> Self {
        Self {
            reductions: parts.iter().any(|part| part.has.reductions),
            applications: parts.iter().any(|part| part.has.applications),
            composites: parts.iter().any(|part| part.has.composites),
        }
    }
}

/// Parts go without recursion: an expression may be as deep as memory is large.
impl Drop for Node<'_> {
    fn drop(&mut self) {
        let mut rest = Vec::new();
        self.leave_parts(&mut rest);
        while let Some(node) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                node.leave_parts(&mut rest);
            }
        }
    }
}

impl<'a> Node<'a> {
    /// Leaves to others what it is made of, as far as nobody else has it; parts that are made of none go at once.
    fn leave_parts(&mut self, rest: &mut Vec<Arc<Self>>) {
        match std::mem::replace(&mut self.kind, Kind::Scalar(0)) {
            Kind::Call(_, parts) => parts.leave_to(rest),
            Kind::Reduced(reduced) => {
                if let Some(reduction) = Arc::into_inner(reduced.reduction) {
                    reduction.parts.leave_to(rest);
                }
            }
            Kind::Applied(applied) => {
                if let Some(mut application) = Arc::into_inner(applied.application) {
                    rest.append(&mut application.operands);
                }
            }
            Kind::Composed(composed) => {
                if let Some(composite) = Arc::into_inner(composed.composite) {
                    composite.parts.leave_to(rest);
                }
            }
            Kind::Array(_) | Kind::Scalar(_) | Kind::Argument(_) | Kind::Index(_) => {}
        }
    }

    pub(in crate::expr) fn array<T: Element + Scalar, D: Dimension>(array: &'a DeviceArrayRef<T, D>) -> Arc<Self> {
        Self::of_array(Arc::new(array), T::TYPE)
    }

    /// An array whose elements are the bits of a `ty`.
    pub(in crate::expr) fn owned<T: Element, D: Dimension + 'static>(
        array: DeviceArray<T, D>,
        ty: ScalarType,
    ) -> Arc<Self> {
        Self::of_array(Arc::new(array), ty)
    }

    pub(in crate::expr) fn of_array(array: Array<'a>, ty: ScalarType) -> Arc<Self> {
        let kind = Kind::Array(Arc::clone(&array));
        Arc::new(Self {
            ty,
            shape: array.shape().into(),
            home: Some(Arc::clone(&array)),
            size: weight(&kind, array.shape().len()),
            has: Has::default(),
            kind,
        })
    }

    /// The same number by other means.
    pub(in crate::expr) fn with_kind(&self, kind: Kind<'a>) -> Self {
        Self {
            kind,
            ty: self.ty,
            shape: self.shape.clone(),
            home: self.home.clone(),
            size: self.size,
            has: self.has,
        }
    }

    /// The same number of a reduction that takes the place of its own.
    pub(in crate::expr) fn with_reduction(&self, reduced: &Reduced<'a>, reduction: &Arc<Reduction<'a>>) -> Arc<Self> {
        let reduced = Reduced {
            reduction: Arc::clone(reduction),
            ..reduced.clone()
        };
        Arc::new(self.with_kind(Kind::Reduced(reduced)))
    }

    /// One number, of no axes.
    pub(in crate::expr) fn scalar(ty: ScalarType, bits: u64) -> Arc<Self> {
        Self::number(ty, Kind::Scalar(bits))
    }

    /// One number that is given later, of no axes.
    pub(in crate::expr) fn argument(ty: ScalarType, place: Place) -> Arc<Self> {
        Self::number(ty, Kind::Argument(place))
    }

    fn number(ty: ScalarType, kind: Kind<'a>) -> Arc<Self> {
        Arc::new(Self {
            ty,
            shape: Shape::NONE,
            home: None,
            size: weight(&kind, 0),
            has: Has::default(),
            kind,
        })
    }

    /// The place along `axis` of each element of an array of that shape.
    pub(in crate::expr) fn index(shape: &[usize], axis: usize) -> Part<'a> {
        if axis >= shape.len() {
            return Err(Problem::Axes {
                operation: "index",
                given: vec![axis],
                wanted: format!("an axis below {}", shape.len()),
            });
        }
        // Along an axis of one element all are the first, also where it is repeated.
        let kind = if shape[axis] == 1 {
            Kind::Scalar(0)
        } else {
            Kind::Index(axis)
        };
        Ok(Arc::new(Self {
            kind,
            ty: ScalarType::U64,
            shape: shape.into(),
            home: None,
            size: weight(&Kind::Index(axis), shape.len()),
            has: Has::default(),
        }))
    }

    /// The place of each element of an array of that shape among those along `axes`, in C order; of none the first.
    pub(in crate::expr) fn places(shape: &[usize], axes: &[usize]) -> Part<'a> {
        // Along an axis of one element all are the first.
        let longer = axes.iter().filter(|&&axis| shape.get(axis) != Some(&1));
        let mut places = None;
        for &axis in longer {
            let along = Self::index(shape, axis)?;
            places = Some(match places {
                None => along,
                Some(places) => {
                    let len = Self::scalar(ScalarType::U64, shape[axis] as u64);
                    binary(Binary::Add, binary(Binary::Mul, places, len)?, along)?
                }
            });
        }
        match (places, axes.first()) {
            (Some(places), _) => Ok(places),
            (None, Some(&axis)) => Self::index(shape, axis),
            (None, None) => Ok(Self::scalar(ScalarType::U64, 0)),
        }
    }

    /// A function of numbers that have its arguments' bits, which gives those of a `ty`.
    pub(in crate::expr) fn call(
        operation: &'static str,
        function: &'static DeviceFnInfo,
        ty: ScalarType,
        arguments: impl Into<Parts<'a>>,
    ) -> Part<'a> {
        Self::call_of(operation, function, ty, arguments.into())
    }

    fn call_of(
        operation: &'static str,
        function: &'static DeviceFnInfo,
        ty: ScalarType,
        arguments: Parts<'a>,
    ) -> Part<'a> {
        let bytes = arguments.iter().map(|node| node.ty.bytes());
        debug_assert!(bytes.eq(function.arguments.iter().map(|ty| ty.bytes())), "{operation}");
        debug_assert_eq!(function.result.bytes(), ty.bytes(), "{operation}");
        let mut shape = arguments[0].shape.clone();
        let mut home = arguments[0].home.clone();
        for node in &arguments[1..] {
            if node.shape != shape {
                shape = common_shape(operation, &shape, &node.shape)?;
            }
            match (&home, &node.home) {
                (Some(one), Some(other)) => check_devices(operation, one, other)?,
                (None, Some(other)) => home = Some(other.clone()),
                _ => {}
            }
        }
        let sizes = arguments.iter().map(|node| node.size);
        let size = sizes.fold(1, usize::saturating_add);
        let has = Has::of(&arguments);
        let kind = match fold(function, &arguments) {
            Some(bits) => Kind::Scalar(bits),
            None => Kind::Call(function, arguments),
        };
        Ok(Arc::new(Self {
            kind,
            ty,
            shape,
            home,
            size,
            has,
        }))
    }
}

impl<'a> Node<'a> {
    /// The numbers that each element of some parts brings, combined along `axes`: of each number a part without these axes.
    pub(in crate::expr) fn reduce(
        operator: Operator,
        parts: impl Into<Parts<'a>>,
        axes: &[usize],
    ) -> std::result::Result<Parts<'a>, Problem> {
        let parts = parts.into();
        let shape = &parts[0].shape;
        let axes = ascending(axes);
        check_axes(operator.name(), shape, &axes)?;
        if axes.is_empty() {
            return Ok(parts);
        }
        let is_empty = axes.iter().any(|&axis| shape[axis] == 0);
        if is_empty && !operator.takes_none() {
            return Err(Problem::Empty {
                operation: operator.name(),
                shape: shape.to_vec(),
            });
        }
        let kept = (0..shape.len()).filter(|axis| !axes.contains(axis));
        let shape: Shape = kept.clone().map(|axis| shape[axis]).collect();
        let kept = shared(kept.map(Some));
        let ty = parts[0].ty;
        let home = parts.iter().find_map(|part| part.home.clone());
        let sizes = parts.iter().map(|part| part.size);
        let size = sizes.fold(1, usize::saturating_add);
        let has = match is_empty {
            true => Has::default(),
            false => Has {
                reductions: true,
                ..Has::of(&parts)
            },
        };
        let reduction = Arc::new(Reduction { operator, parts, axes });
        let node = |number| {
            let reduced = Reduced {
                reduction: Arc::clone(&reduction),
                number,
                axes: Arc::clone(&kept),
            };
            Arc::new(Self {
                kind: if is_empty {
                    Kind::Scalar(operator.identities(ty)[number])
                } else {
                    Kind::Reduced(reduced)
                },
                ty: operator.type_of(number, ty),
                shape: shape.clone(),
                home: home.clone(),
                size,
                has,
            })
        };
        Ok((0..operator.numbers()).map(node).collect())
    }
}

/// An error unless all axes are those of a shape, each once.
pub(in crate::expr) fn check_axes(
    operation: &'static str,
    shape: &[usize],
    axes: &[usize],
) -> std::result::Result<(), Problem> {
    Ok(layout::check_axes(operation, shape.len(), axes)?)
}

/// Axes in ascending order.
fn ascending(axes: &[usize]) -> Shape {
    if axes.is_sorted() {
        return axes.into();
    }
    let mut axes = axes.to_vec();
    axes.sort_unstable();
    axes[..].into()
}

/// The function of scalars. A 16-bit float that is cast to `f32` stays one, so that kernels can compute with it as such.
fn fold(function: &DeviceFnInfo, arguments: &[Arc<Node<'_>>]) -> Option<u64> {
    // Most calls have an array, or a place, among their arguments.
    let may_be_known = |node: &Arc<Node<'_>>| matches!(node.kind, Kind::Scalar(_) | Kind::Call(..));
    if !arguments.iter().all(may_be_known) {
        return None;
    }
    match function::widened(function) {
        Some(_) => None,
        None => computed(function, arguments),
    }
}

/// The function of numbers that are known.
fn computed(function: &DeviceFnInfo, arguments: &[Arc<Node<'_>>]) -> Option<u64> {
    let mut bits = [0u64; MAX_ARGUMENTS];
    for (bits, node) in bits.iter_mut().zip(arguments) {
        *bits = match &node.kind {
            Kind::Scalar(value) => *value,
            Kind::Call(widening, narrow) if function::widened(widening).is_some() => computed(widening, narrow)?,
            _ => return None,
        };
    }
    let addresses = bits.each_ref().map(|bits| (bits as *const u64).cast());
    let mut result = 0u64;
    // SAFETY: one number of each argument's type, as `call` was given, and room for the result: on a little-endian host, the
    // first bytes of a word are its lowest bits.
    unsafe { (function.run)(addresses.as_ptr(), (&raw mut result).cast(), 1) };
    Some(result)
}

const _: () = assert!(
    cfg!(target_endian = "little"),
    "numbers are kept by their bits, the lowest first"
);

/// The shape that two shapes are repeated to, by NumPy's rules.
fn common_shape(operation: &'static str, a: &Shape, b: &Shape) -> std::result::Result<Shape, Problem> {
    // Numbers beside arrays.
    match (&**a, &**b) {
        ([], _) => return Ok(b.clone()),
        (_, []) => return Ok(a.clone()),
        _ => {}
    }
    // Elements beside what is repeated to them.
    let is_repeated = |(length, to): (&usize, &usize)| length == to || *length == 1;
    if a.len() == b.len() {
        for (one, other) in [(a, b), (b, a)] {
            if one.iter().zip(&**other).all(is_repeated) {
                return Ok(other.clone());
            }
        }
    }
    let axes = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(axes) {
        Some(axis) => shape[axis],
        None => 1,
    };
    let mut shape = Vec::with_capacity(axes);
    for axis in 0..axes {
        match (at(a, axis), at(b, axis)) {
            (1, length) | (length, 1) => shape.push(length),
            (length, other) if length == other => shape.push(length),
            _ => {
                return Err(Problem::Shape {
                    operation,
                    given: format!("shapes {a:?} and {b:?}"),
                    wanted: "shapes that broadcast together: along each axis, from the last, equal lengths or a 1"
                        .into(),
                });
            }
        }
    }
    if crate::layout::checked_len(&shape).is_none() {
        return Err(Problem::Shape {
            operation,
            given: format!("shapes {a:?} and {b:?}"),
            wanted: "fewer than 2^63 elements together".into(),
        });
    }
    Ok(shape[..].into())
}

/// An array of the parts', of which all are on its device; `None` if there is none.
fn common_home<'a>(
    operation: &'static str,
    parts: &[Arc<Node<'a>>],
) -> std::result::Result<Option<Array<'a>>, Problem> {
    let mut homes = parts.iter().filter_map(|part| part.home.as_ref());
    let home = homes.next();
    if let Some(home) = home {
        homes.try_for_each(|other| check_devices(operation, home, other))?;
    }
    Ok(home.cloned())
}

fn check_devices(operation: &'static str, one: &Array<'_>, other: &Array<'_>) -> std::result::Result<(), Problem> {
    let (one, other) = (one.stream(), other.stream());
    if one.same_device(other) {
        return Ok(());
    }
    Err(Error::different_devices(operation, other.device_id(), one.device_id()).into())
}
