// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a graph has: its arguments, its output, and the arrays that are in them.

use std::ops::Range;
use std::sync::Arc;

use ndarray::Dimension;

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

/// Arrays that a [`Graph`](crate::Graph) has, as its arguments or as its output: an array, a view, a reference to one, or
/// tuples, `Vec`s, options of such.
///
/// A graph uses the memory of its arguments whenever it is launched, so it must know that nobody else does meanwhile:
/// what it has, or has borrowed, nobody else can use.
///
/// # Safety
///
/// [`arrays`](Self::arrays) calls no other function of the [`HeldArrays`] than that of the fields' own implementations.
/// What it names belongs to the value or is borrowed by it, as long as the value lives, and stays what it is as long as
/// nobody has the value mutably: so there is no lock or cell on the way to it.
///
/// # Examples
///
/// ```
/// use ndarray::{Ix1, Ix2};
/// use warpsmith::{DeviceArray, GraphArrays, HeldArrays};
///
/// struct Layer {
///     weights: DeviceArray<f32, Ix2>,
///     bias: DeviceArray<f32, Ix1>,
/// }
///
/// // SAFETY: the two fields' arrays, which belong to the layer.
/// unsafe impl GraphArrays for Layer {
///     fn arrays(&self, held: &mut HeldArrays<'_>) {
///         self.weights.arrays(held);
///         self.bias.arrays(held);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a graph cannot have `{Self}` as its arguments or its output",
    note = "wanted: arrays, views, references to them, and tuples, `Vec`s and options of such"
)]
pub unsafe trait GraphArrays {
    /// Names the arrays, by the implementations of what the value is made of.
    fn arrays(&self, held: &mut HeldArrays<'_>);
}

/// Bytes of buffers. A buffer is told by its address; who asks has it.
#[derive(Debug, Default)]
pub(super) struct HeldBytes(Vec<(*const Buffer, Range<usize>)>);

impl HeldBytes {
    /// Whether those bytes of the buffer are among them.
    pub(super) fn have(&self, buffer: &Arc<Buffer>, bytes: &Range<usize>) -> bool {
        let has = |(held, of): &(*const Buffer, Range<usize>)| {
            std::ptr::eq(*held, Arc::as_ptr(buffer)) && of.start <= bytes.start && bytes.end <= of.end
        };
        self.0.iter().any(has)
    }
}

/// The arrays that a value has, as [`GraphArrays`] names them.
#[derive(Debug)]
pub struct HeldArrays<'a> {
    stream: &'a Stream,
    bytes: HeldBytes,
    /// Whether one is at home on another stream, and whether one has gaps.
    elsewhere: bool,
    gaps: bool,
}

impl<'a> HeldArrays<'a> {
    /// Those of a graph's arguments or output, which is launched on `stream`.
    pub(super) fn of(stream: &'a Stream, value: &impl GraphArrays) -> Self {
        let mut held = Self {
            stream,
            bytes: HeldBytes::default(),
            elsewhere: false,
            gaps: false,
        };
        value.arrays(&mut held);
        held
    }

    fn add<T: Element, D: Dimension>(&mut self, array: &DeviceArrayRef<T, D>) {
        self.elsewhere |= array.stream() != self.stream;
        let bytes = array.bytes();
        if !bytes.is_empty() {
            // Each element once, however often a broadcast has it.
            let axes = array.shape().iter().zip(array.strides());
            let elements: usize = axes.filter(|axis| *axis.1 != 0).map(|axis| *axis.0).product();
            self.gaps |= elements * size_of::<T>() < bytes.len();
            self.bytes.0.push((Arc::as_ptr(array.buffer()), bytes));
        }
    }

    /// Their bytes; an error if there is one of them that a graph cannot have.
    pub(super) fn check(self, operation: &'static str) -> Result<HeldBytes> {
        let reason = match self {
            Self { elsewhere: true, .. } => {
                "an array is at home on another stream, where operations are not recorded; `into_stream` changes that"
            }
            // Between its elements there may be those of another view, which a graph must not take for its own.
            Self { gaps: true, .. } => "a view has other elements between its own; `to_array` copies it",
            Self { bytes, .. } => return Ok(bytes),
        };
        Err(Error::Capture { operation, reason })
    }
}

// SAFETY: it has its elements for itself.
unsafe impl<T: Element, D: Dimension> GraphArrays for DeviceArray<T, D> {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        held.add(self);
    }
}

// SAFETY: the elements are borrowed as long as the view lives.
unsafe impl<T: Element, D: Dimension> GraphArrays for DeviceView<'_, T, D> {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        held.add(self);
    }
}

// SAFETY: as above, mutably.
unsafe impl<T: Element, D: Dimension> GraphArrays for DeviceViewMut<'_, T, D> {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        held.add(self);
    }
}

macro_rules! wrappers {
    ($($(#[$why:meta])* $type:ty),* $(,)?) => {$(
        // SAFETY: what it leads to belongs to it or is borrowed by it, or is shared, so that nobody writes it.
        unsafe impl<A: GraphArrays + ?Sized> GraphArrays for $type {
            fn arrays(&self, held: &mut HeldArrays<'_>) {
                (**self).arrays(held);
            }
        }
    )*};
}

wrappers!(&A, &mut A, Box<A>, Arc<A>);

// SAFETY: the elements belong to it.
unsafe impl<A: GraphArrays> GraphArrays for [A] {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        self.iter().for_each(|element| element.arrays(held));
    }
}

macro_rules! sequences {
    ($([$($const:tt)*] $type:ty),*) => {$(
        // SAFETY: the elements belong to it.
        unsafe impl<A: GraphArrays $($const)*> GraphArrays for $type {
            fn arrays(&self, held: &mut HeldArrays<'_>) {
                self.iter().for_each(|element| element.arrays(held));
            }
        }
    )*};
}

sequences!([] Vec<A>, [] Option<A>, [, const N: usize] [A; N]);

macro_rules! tuples {
    ($($name:ident)*) => {
        // SAFETY: the elements belong to it.
        unsafe impl<$($name: GraphArrays),*> GraphArrays for ($($name,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn arrays(&self, held: &mut HeldArrays<'_>) {
                let ($($name,)*) = self;
                $($name.arrays(held);)*
            }
        }
    };
}

tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
