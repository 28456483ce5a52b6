// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays and views of any strides as arguments of kernels that take an [`ArrayView`] or an [`ArrayViewMut`].

use std::ptr;

use cuda_std::launch::Abi;
use cuda_std::view::Layout;
use cuda_std::{ArrayView, ArrayViewMut};
use ndarray::{Dim, Dimension};

use super::{DeviceView, DeviceViewMut};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{Arg, address};
use crate::stream::Stream;

/// Where the elements lie from the lowest on.
fn layout<T: Element, const N: usize>(elements: &DeviceArrayRef<T, Dim<[usize; N]>>) -> Layout<N>
where
    Dim<[usize; N]>: Dimension,
{
    let extent = elements.layout.extent();
    let (mut shape, mut strides) = ([0; N], [0; N]);
    shape.copy_from_slice(elements.shape());
    strides.copy_from_slice(elements.strides());
    let first = elements.layout.offset() - extent.start;
    Layout::new(extent.len(), first, shape, strides).expect("the elements lie from the lowest to the highest")
}

macro_rules! view_args {
    ($($param:ident by $ordered:ident, $pointer:ident: $($type:ty),*;)*) => {$($(
        // SAFETY: the elements, in the memory of the stream's device, borrowed as the view is, and aligned as such elements
        // are, since the memory is to 256 bytes. A mutable one has no element twice: only shared ones are broadcast.
        unsafe impl<T: Element, const N: usize> Arg<$param<'static, T, N>> for $type
        where
            Dim<[usize; N]>: Dimension,
        {
            fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
                stream.check_device(kernel, self.stream())?;
                self.$ordered(stream)
            }

            fn is_part(&self) -> bool {
                DeviceArrayRef::is_part(self)
            }

            fn abi(&self) -> Abi<$param<'static, T, N>> {
                Abi {
                    head: ptr::$pointer(address::<T>(self.address())),
                    tail: layout(self),
                }
            }
        }
    )*)*};
}

view_args! {
    ArrayView by reads_on, with_exposed_provenance:
        &DeviceArrayRef<T, Dim<[usize; N]>>,
        &DeviceArray<T, Dim<[usize; N]>>,
        &DeviceView<'_, T, Dim<[usize; N]>>,
        &DeviceViewMut<'_, T, Dim<[usize; N]>>;
    ArrayViewMut by writes_on, with_exposed_provenance_mut:
        &mut DeviceArrayRef<T, Dim<[usize; N]>>,
        &mut DeviceArray<T, Dim<[usize; N]>>,
        &mut DeviceViewMut<'_, T, Dim<[usize; N]>>;
}
