// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that are replaced in place by what is made of them.

use std::sync::Arc;

use ndarray::Dimension;

use super::eval::{check_shape, run};
use super::graph::{Elements, Node};
use super::value::Value;
use super::{Deferred, Expr};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::copy_to;
use crate::stream::Stream;
use crate::view::DeviceViewMut;

impl<T: Value<Element = T> + Element, D: Dimension> DeviceArrayRef<T, D> {
    /// Replaces the elements by what `function` makes of them, in place: each is read and written once, unless the function needs
    /// other ones too, as by a reduction along the first axis; then they are computed into memory of their own first. Several
    /// arrays at once: [`expr::update`](update()).
    ///
    /// # Errors
    ///
    /// As [`Expr::eval_into`].
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let step = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, -2.0])?;
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![10.0f32, 20.0])?;
    /// x.update(|x| x * 0.9 - &step)?;
    /// assert_eq!(x.to_ndarray()?, array![8.0, 20.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update<'a>(&'a mut self, function: impl FnOnce(Expr<'a, T, D>) -> Expr<'a, T, D>) -> Result<()> {
        let this = &*self;
        let root = function(this.expr()).into_part()?;
        // SAFETY: borrowed mutably; what has read them, `root`, is computed into them.
        let target = unsafe { Target::new(this, &root, this.stream())? };
        run(this.stream(), &[&root], &[target.elements()])?;
        target.finish(this.stream())
    }
}

/// Arrays or views that are replaced together: a mutable reference to one, or a tuple of two to six to such of one shape.
pub trait Update<'a> {
    /// Their elements as expressions: an [`Expr`], or a tuple of them.
    type Exprs;

    #[doc(hidden)]
    fn defer(self, function: impl FnOnce(Self::Exprs) -> Self::Exprs) -> Result<Deferred<'a>>;
}

/// Replaces the elements of several arrays of one shape by what `function` makes of them all, in place and by one kernel: what a
/// step of an optimiser is made of, for example.
///
/// `function` is given the arrays' elements as they are, and returns as many expressions of their types. The arrays are read
/// and written once, and what the expressions share is computed once. Where an element takes others of the same arrays, as by a
/// reduction along the first axis or by places of its own, all are computed into memory of their own first, and then copied, as
/// are those of a view that does not lie in C order. It runs on the stream of the first array.
///
/// # Errors
///
/// As [`Expr::eval_into`], [`Error::Shape`](crate::Error::Shape) if the shapes differ, and
/// [`Error::DifferentDevices`](crate::Error::DifferentDevices). The arrays are as they were then.
///
/// # Examples
///
/// Gradient descent with momentum: the velocity and with it the weights.
///
/// ```
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray, expr};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let gradient = DeviceArray::from_ndarray(stream, &array![1.0f32, -2.0])?;
/// let mut weights = DeviceArray::from_ndarray(stream, &array![10.0f32, 20.0])?;
/// let mut velocity = DeviceArray::from_ndarray(stream, &array![2.0f32, 0.0])?;
/// expr::update((&mut weights, &mut velocity), |(w, v)| {
///     let v = v * 0.5 + &gradient;
///     (w - &v * 0.25, v)
/// })?;
/// assert_eq!(velocity.to_ndarray()?, array![2.0, -2.0]);
/// assert_eq!(weights.to_ndarray()?, array![9.5, 20.5]);
/// # Ok(())
/// # }
/// ```
pub fn update<'a, U: Update<'a>>(arrays: U, function: impl FnOnce(U::Exprs) -> U::Exprs) -> Result<()> {
    arrays.defer(function)?.run()
}

/// What can be replaced in place: `&mut DeviceArray`, `&mut DeviceViewMut` and `&mut DeviceArrayRef`.
pub trait Replace<'a>: 'a {
    /// The type of its elements.
    type Number: Value<Element = Self::Number> + Element;
    /// The dimension.
    type Dim: Dimension;

    #[doc(hidden)]
    fn elements(self) -> &'a mut DeviceArrayRef<Self::Number, Self::Dim>;
}

macro_rules! replace {
    ($($type:ty),*) => {$(
        impl<'a, T: Value<Element = T> + Element, D: Dimension> Replace<'a> for &'a mut $type {
            type Number = T;
            type Dim = D;

            fn elements(self) -> &'a mut DeviceArrayRef<T, D> {
                self
            }
        }

        impl<'a, T: Value<Element = T> + Element, D: Dimension> Update<'a> for &'a mut $type {
            type Exprs = Expr<'a, T, D>;

            fn defer(self, function: impl FnOnce(Self::Exprs) -> Self::Exprs) -> Result<Deferred<'a>> {
                let elements: &DeviceArrayRef<T, D> = self;
                // SAFETY: borrowed mutably for `'a`, and read by the function's expression alone.
                unsafe { Deferred::on(elements.stream()).replace(elements, function(elements.expr())) }
            }
        }
    )*};
}

replace!(DeviceArrayRef<T, D>, DeviceArray<T, D>, DeviceViewMut<'_, T, D>);

macro_rules! updates {
    ($first:ident $first_root:ident $($type:ident $root:ident)+) => {
        impl<'a, $first: Replace<'a>, $($type: Replace<'a, Dim = $first::Dim>),+> Update<'a> for ($first, $($type),+) {
            type Exprs = (Expr<'a, $first::Number, $first::Dim>, $(Expr<'a, $type::Number, $first::Dim>),+);

            #[allow(non_snake_case)]
            fn defer(self, function: impl FnOnce(Self::Exprs) -> Self::Exprs) -> Result<Deferred<'a>> {
                let ($first, $($type),+) = self;
                let ($first, $($type),+) = (&*$first.elements(), $(&*$type.elements()),+);
                let ($first_root, $($root),+) = function(($first.expr(), $($type.expr()),+));
                // SAFETY: borrowed mutably for `'a`, all of them, and read by the function's expressions alone.
                unsafe {
                    let all = Deferred::on($first.stream()).replace($first, $first_root)?;
                    $(let all = all.replace($type, $root)?;)+
                    Ok(all)
                }
            }
        }
    };
}

updates!(A a B b);
updates!(A a B b C c);
updates!(A a B b C c D d);
updates!(A a B b C c D d E e);
updates!(A a B b C c D d E e F f);

/// Elements that are replaced: they themselves, or where they do not lie in C order an array that is then copied to them.
pub(super) struct Target<'a, T, D> {
    /// Borrowed mutably; what is made of them has them, too.
    elements: &'a DeviceArrayRef<T, D>,
    ordered: Option<DeviceArray<T, D>>,
}

impl<'a, T: Element, D: Dimension> Target<'a, T, D> {
    /// # Safety
    ///
    /// The caller has borrowed the elements mutably for `'a`, and reads them by nothing but what replaces them.
    pub(super) unsafe fn new(
        elements: &'a DeviceArrayRef<T, D>,
        root: &Arc<Node<'_>>,
        stream: &Stream,
    ) -> Result<Self> {
        check_shape("update", &root.shape, elements.shape())?;
        elements.stream().check_device("update", stream)?;
        let ordered = match elements.is_standard_layout() {
            true => None,
            false => Some(DeviceArray::uninit(stream, elements.raw_dim())?),
        };
        Ok(Self { elements, ordered })
    }

    pub(super) fn elements(&self) -> &dyn Elements {
        match &self.ordered {
            None => &self.elements,
            Some(ordered) => ordered,
        }
    }

    pub(super) fn finish(self, stream: &Stream) -> Result<()> {
        match self.ordered {
            None => Ok(()),
            Some(ordered) => {
                let mut elements = self.elements.with_layout(self.elements.layout.clone());
                copy_to(&ordered, stream, &mut elements)
            }
        }
    }
}
