// SPDX-License-Identifier: MIT OR Apache-2.0
//! Indices of parts along an axis, on the device or on the host, as kernels take them.

use ndarray::{ArrayBase, ArrayView1, Data, Ix1};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

/// The types of indices on the device: `u64`, `u32`, `u16`, `u8`, `i64` and `i32`. Indices count from 0; a negative one is out of
/// bounds. Kernels take them with 64 bits: those of other types than `u64` are cast first, by a kernel of their own. A mask of
/// `u8` is no list of indices: its bytes would name the elements 0 and 1, as in NumPy's `take`.
pub trait Index: sealed::Sealed {}

/// The types of indices on the host: `usize`, `isize`, `u64`, `u32`, `u16`, `u8`, `i64`, `i32`, `i16` and `i8`. Indices count from 0; a
/// negative one is out of bounds.
pub trait HostIndex: Copy + sealed::ToPlace {}

/// Which parts along an axis are meant, one after another: a reference to an array or a view of one axis, of an [`Index`]; or to
/// a slice, an array, a `Vec` or an array of ndarray's on the host, of a [`HostIndex`], which is copied to the device first.
///
/// Indices on the host are looked at before anything is done: one that is out of bounds is
/// [`Error::Parameter`](crate::Error::Parameter), which names it. Those on the device are looked at by the kernel, and one that is out
/// of bounds is its panic, [`Error::Fault`](crate::Error::Fault), which names it, too (a `u64` from 2⁶³ on as the `i64` of its bits).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the indices of parts along an axis",
    note = "wanted: a reference to an array of one axis on the device, of `u64`, `u32`, `u16`, `u8`, `i64` or `i32`; or to a \
            slice or an array of one axis on the host, of these types, `usize`, `isize`, `i16` or `i8`"
)]
pub trait Indices<'a>: sealed::Indices<'a> {}

/// Indices on the host that are looked through for some that are the same.
const FEW: usize = 256;

/// What the traits are made of.
pub(super) mod sealed {
    use super::*;

    pub trait Sealed: Element {
        /// The indices as the kernels take them: with 64 bits, of which a negative number is a large one.
        fn to_kernel(indices: &DeviceArrayRef<Self, Ix1>) -> Result<Ordered<'_, u64, Ix1>>;
    }

    impl Sealed for u64 {
        fn to_kernel(indices: &DeviceArrayRef<u64, Ix1>) -> Result<Ordered<'_, u64, Ix1>> {
            indices.in_order()
        }
    }

    pub trait ToPlace: std::fmt::Display {
        /// The place that it names, if there may be such a place.
        fn place(self) -> Option<u64>;
    }

    pub trait Indices<'a> {
        /// How many there are.
        fn count(&self) -> usize;

        /// Whether one may occur more than once, as far as is known ahead.
        fn may_repeat(&self) -> bool;

        /// The indices as the kernels take them, of `operation`, along an axis of `length`; on that stream's device, of which what is on
        /// a device has to be.
        fn on_device(self, operation: &'static str, stream: &Stream, length: usize) -> Result<Ordered<'a, u64, Ix1>>;
    }
}

impl Index for u64 {}

/// Types whose indices are cast.
macro_rules! cast_index {
    ($($type:ty),*) => {$(
        impl Index for $type {}

        impl sealed::Sealed for $type {
            fn to_kernel(indices: &DeviceArrayRef<$type, Ix1>) -> Result<Ordered<'_, u64, Ix1>> {
                Ok(Ordered::Copied(indices.cast_wrapping::<u64>()?))
            }
        }
    )*};
}

cast_index!(u32, u16, u8, i64, i32);

macro_rules! host_index {
    ($($type:ty),*) => {$(
        impl HostIndex for $type {}

        impl sealed::ToPlace for $type {
            fn place(self) -> Option<u64> {
                u64::try_from(self).ok()
            }
        }
    )*};
}

host_index!(usize, isize, u64, u32, u16, u8, i64, i32, i16, i8);

macro_rules! on_the_device {
    ($($type:ty),*) => {$(
        impl<'a, I: Index> Indices<'a> for &'a $type {}

        impl<'a, I: Index> sealed::Indices<'a> for &'a $type {
            fn count(&self) -> usize {
                self.len()
            }

            fn may_repeat(&self) -> bool {
                self.len() > 1
            }

            fn on_device(self, operation: &'static str, stream: &Stream, _: usize) -> Result<Ordered<'a, u64, Ix1>> {
                stream.check_device(operation, self.stream())?;
                I::to_kernel(self)
            }
        }
    )*};
}

on_the_device!(DeviceArrayRef<I, Ix1>, DeviceArray<I, Ix1>, DeviceView<'_, I, Ix1>, DeviceViewMut<'_, I, Ix1>);

macro_rules! on_the_host {
    ($([$($parameters:tt)*] $type:ty: |$this:ident| $view:expr;)*) => {$(
        impl<I: HostIndex, $($parameters)*> Indices<'_> for &$type {}

        impl<'a, I: HostIndex, $($parameters)*> sealed::Indices<'a> for &$type {
            fn count(&self) -> usize {
                self.len()
            }

            fn may_repeat(&self) -> bool {
                let $this = self;
                may_repeat($view)
            }

            fn on_device(self, operation: &'static str, stream: &Stream, length: usize) -> Result<Ordered<'a, u64, Ix1>> {
                let $this = self;
                upload(operation, stream, length, $view)
            }
        }
    )*};
}

on_the_host! {
    [] [I]: |indices| ArrayView1::from(indices);
    [const N: usize] [I; N]: |indices| ArrayView1::from(indices);
    [] Vec<I>: |indices| ArrayView1::from(indices);
    [S: Data<Elem = I>] ArrayBase<S, Ix1>: |indices| indices.view();
}

/// Whether there are two that are the same; or so many that the device has sooner found which are the last.
fn may_repeat<I: HostIndex>(indices: ArrayView1<'_, I>) -> bool {
    if indices.len() > FEW {
        return true;
    }
    let mut places: Vec<_> = indices.iter().map(|index| index.place()).collect();
    places.sort_unstable();
    places.windows(2).any(|two| two[0] == two[1])
}

/// The indices, each of which is below `length`.
fn upload<'a, I: HostIndex>(
    operation: &'static str,
    stream: &Stream,
    length: usize,
    indices: ArrayView1<'_, I>,
) -> Result<Ordered<'a, u64, Ix1>> {
    let mut places = Vec::with_capacity(indices.len());
    for (number, &index) in indices.iter().enumerate() {
        match index.place().filter(|&place| place < length as u64) {
            Some(place) => places.push(place),
            None => {
                return Err(Error::Parameter {
                    operation,
                    parameter: "indices",
                    given: format!("{index}, as number {number}"),
                    wanted: format!("indices below {length}, the length of the axis"),
                });
            }
        }
    }
    Ok(Ordered::Copied(DeviceArray::literal(
        stream,
        &ArrayView1::from(&places),
    )?))
}
