// SPDX-License-Identifier: MIT OR Apache-2.0
//! What compiled functions take and give: expressions where they are traced, arrays and numbers where they are called.

use cuda_std::scalar::ScalarType;
use ndarray::{Dimension, Ix0};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::expr::Expr;
use crate::expr::eval::dim;
use crate::expr::graph::{Elements, Part};
use crate::expr::operand::HiddenParts;
use crate::expr::value::Value;
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

/// What a function that is [compiled](super::compile) takes: an [`Expr`], or a tuple of one to eight.
#[diagnostic::on_unimplemented(
    message = "a compiled function does not take `{Self}`",
    note = "wanted: an `Expr<T, D>`, or a tuple of one to eight of them"
)]
pub trait Parameters<'a>: Sized {
    #[doc(hidden)]
    const TYPES: &'static [ScalarType];

    /// Of as many parts of these types.
    #[doc(hidden)]
    fn of(parts: HiddenParts<'a>) -> Self;
}

/// What a function that is [compiled](super::compile) gives: an [`Expr`], or a tuple of two to six of one shape.
#[diagnostic::on_unimplemented(
    message = "a compiled function does not give `{Self}`",
    note = "wanted: an `Expr<T, D>`, or a tuple of two to six of them, all of one dimension"
)]
pub trait Results<'a> {
    /// The arrays, as a tuple if there are several.
    type Arrays;

    #[doc(hidden)]
    fn parts(self) -> HiddenParts<'a>;

    /// Room for results of that shape.
    #[doc(hidden)]
    fn uninit(stream: &Stream, shape: &[usize]) -> Result<Self::Arrays>;

    #[doc(hidden)]
    fn with<O>(arrays: &Self::Arrays, work: impl FnOnce(&[Given<'_>]) -> O) -> O;
}

/// An argument for an `Expr<T, D>` of a [compiled](super::compile) function: a reference to an array or a view, or for an
/// `Expr<T, Ix0>` a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument for an `Expr<{T}, {D}>` of a compiled function",
    note = "wanted: a reference to an array or a view of `{T}` and of that dimension, or for `Ix0` a number of type `{T}`"
)]
pub trait Input<T, D> {
    #[doc(hidden)]
    fn given(&self) -> Given<'_>;
}

/// The arguments for what a [compiled](super::compile) function takes, `P`: an [`Input`] for one `Expr`, for a tuple a tuple of
/// as many.
#[diagnostic::on_unimplemented(
    message = "the arguments `{Self}` do not match what the compiled function takes, `{P}`",
    note = "wanted: an argument for an `Expr`, for a tuple of them a tuple of as many arguments in the same order"
)]
pub trait Inputs<P> {
    #[doc(hidden)]
    fn with<O>(&self, work: impl FnOnce(&[Given<'_>]) -> O) -> O;
}

/// An argument without its type.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Given<'g>(pub(super) Argument<'g>);

#[derive(Clone, Copy)]
pub(super) enum Argument<'g> {
    Array(&'g dyn Elements),
    /// By its bits.
    Number(u64),
}

impl<'g> Given<'g> {
    pub(super) fn array(elements: &'g dyn Elements) -> Self {
        Self(Argument::Array(elements))
    }

    pub(super) fn elements(self) -> Option<&'g dyn Elements> {
        match self.0 {
            Argument::Array(elements) => Some(elements),
            Argument::Number(_) => None,
        }
    }
}

impl<T: Value> Input<T, Ix0> for T {
    fn given(&self) -> Given<'_> {
        Given(Argument::Number(self.bits()))
    }
}

impl<T: Value<Element = T> + Element, D: Dimension> Input<T, D> for &DeviceArrayRef<T, D> {
    fn given(&self) -> Given<'_> {
        Given::array(self)
    }
}

macro_rules! arrays {
    ($($type:ty),*) => {$(
        impl<T: Value<Element = T> + Element, D: Dimension> Input<T, D> for &$type {
            fn given(&self) -> Given<'_> {
                Given::array(*self)
            }
        }
    )*};
}

arrays!(DeviceArray<T, D>, DeviceView<'_, T, D>, DeviceViewMut<'_, T, D>);

impl<'a, T: Value, D: Dimension> Parameters<'a> for Expr<'a, T, D> {
    const TYPES: &'static [ScalarType] = &[T::TYPE];

    fn of(parts: HiddenParts<'a>) -> Self {
        Self::of(next(&mut parts.0.into_iter()))
    }
}

impl<T, D, I: Input<T, D>> Inputs<Expr<'_, T, D>> for I {
    fn with<O>(&self, work: impl FnOnce(&[Given<'_>]) -> O) -> O {
        work(&[self.given()])
    }
}

fn next<'a>(parts: &mut impl Iterator<Item = Part<'a>>) -> Part<'a> {
    parts.next().expect("a part for each parameter")
}

macro_rules! parameters {
    ($($input:ident $type:ident $dim:ident),+) => {
        impl<'a, $($type: Value, $dim: Dimension),+> Parameters<'a> for ($(Expr<'a, $type, $dim>,)+) {
            const TYPES: &'static [ScalarType] = &[$($type::TYPE),+];

            fn of(parts: HiddenParts<'a>) -> Self {
                let mut parts = parts.0.into_iter();
                ($(Expr::<'a, $type, $dim>::of(next(&mut parts)),)+)
            }
        }

        impl<'a, $($type, $dim, $input: Input<$type, $dim>),+> Inputs<($(Expr<'a, $type, $dim>,)+)> for ($($input,)+) {
            fn with<O>(&self, work: impl FnOnce(&[Given<'_>]) -> O) -> O {
                #[allow(non_snake_case)]
                let ($($input,)+) = self;
                work(&[$($input.given()),+])
            }
        }
    };
}

parameters!(I A D);
parameters!(I A D, J B E);
parameters!(I A D, J B E, K C F);
parameters!(I A D, J B E, K C F, L G H);
parameters!(I A D, J B E, K C F, L G H, M N P);
parameters!(I A D, J B E, K C F, L G H, M N P, Q R S);
parameters!(I A D, J B E, K C F, L G H, M N P, Q R S, T U V);
parameters!(I A D, J B E, K C F, L G H, M N P, Q R S, T U V, W X Y);

impl<'a, T: Value, D: Dimension> Results<'a> for Expr<'a, T, D> {
    type Arrays = DeviceArray<T::Element, D>;

    fn parts(self) -> HiddenParts<'a> {
        HiddenParts(vec![self.into_part()])
    }

    fn uninit(stream: &Stream, shape: &[usize]) -> Result<Self::Arrays> {
        DeviceArray::uninit(stream, dim(shape))
    }

    fn with<O>(array: &Self::Arrays, work: impl FnOnce(&[Given<'_>]) -> O) -> O {
        work(&[Given::array(array)])
    }
}

macro_rules! results {
    ($($type:ident $array:ident),+) => {
        impl<'a, $($type: Value,)+ D: Dimension> Results<'a> for ($(Expr<'a, $type, D>,)+) {
            type Arrays = ($(DeviceArray<$type::Element, D>,)+);

            fn parts(self) -> HiddenParts<'a> {
                let ($($array,)+) = self;
                HiddenParts(vec![$($array.into_part()),+])
            }

            fn uninit(stream: &Stream, shape: &[usize]) -> Result<Self::Arrays> {
                Ok(($(DeviceArray::<$type::Element, D>::uninit(stream, dim(shape))?,)+))
            }

            fn with<O>(arrays: &Self::Arrays, work: impl FnOnce(&[Given<'_>]) -> O) -> O {
                let ($($array,)+) = arrays;
                work(&[$(Given::array($array)),+])
            }
        }
    };
}

results!(A a, B b);
results!(A a, B b, C c);
results!(A a, B b, C c, E e);
results!(A a, B b, C c, E e, F f);
results!(A a, B b, C c, E e, F f, G g);
