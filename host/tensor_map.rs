// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tensor maps of arrays: what a kernel needs to have the GPU's tensor memory accelerator (TMA) copy tiles.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::launch::Abi;
use cuda_std::param::NoTail;
pub use cuda_std::tma::Swizzle;
use cuda_std::tma::{RawTensorMap, TensorMap, TensorMapLayout, TensorMapMut};
use half::{bf16, f16};
use ndarray::Dimension;

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::launch::Arg;
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

/// The most axes that a tensor map has.
const MAX_AXES: usize = 5;

/// The most elements of a tile along an axis.
const MAX_TILE: usize = 256;

/// The most elements from one of a tile to the next along an axis.
const MAX_STEP: usize = 8;

/// What addresses, and strides in bytes, are multiples of.
const ALIGN: usize = 16;

/// What the elements of a tensor map are to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorType {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    Bf16,
    /// `f32`, rounded to TF32 by the copy.
    Tf32,
}

/// A type of elements that tensor maps have.
pub trait TensorElement: Element + sealed::Sealed {
    #[doc(hidden)]
    const MAP_TYPE: sealed::Type;
}

mod sealed {
    pub trait Sealed {}

    #[derive(Clone, Copy, Debug)]
    pub struct Type(pub(crate) super::TensorType);
}

macro_rules! elements {
    ($($type:ty = $name:ident),*) => {$(
        impl sealed::Sealed for $type {}

        impl TensorElement for $type {
            const MAP_TYPE: sealed::Type = sealed::Type(TensorType::$name);
        }
    )*};
}

elements!(
    u8 = U8,
    u16 = U16,
    u32 = U32,
    i32 = I32,
    u64 = U64,
    i64 = I64,
    f16 = F16,
    f32 = F32,
    f64 = F64,
    bf16 = Bf16,
    F8E4M3 = U8,
    F8E5M2 = U8,
    i8 = U8
);

/// A tensor map of an array or view: the argument for a kernel's parameter of type
/// [`TensorMap`], or, made of a mutable one,
/// [`TensorMapMut`].
///
/// It borrows the elements as long as it lives.
#[derive(Debug)]
pub struct TensorMapArg<'a, T> {
    raw: RawTensorMap,
    buffer: Arc<Buffer>,
    bytes: Range<usize>,
    stream: Stream,
    _elements: PhantomData<&'a T>,
}

/// As [`TensorMapArg`], of elements that are borrowed mutably.
#[derive(Debug)]
pub struct TensorMapMutArg<'a, T> {
    map: TensorMapArg<'a, T>,
    _elements: PhantomData<&'a mut T>,
}

impl<T: TensorElement, D: Dimension> DeviceArrayRef<T, D> {
    /// A tensor map by which a kernel copies tiles of the shape `tile` from these elements to shared memory.
    ///
    /// Kernels name places by the map's axes from the last to the first. `swizzle` says in which order the pieces of 16
    /// bytes of a tile's line lie in shared memory.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there are 1 to 5 axes, none of them empty, and elements that are neighbours along the
    /// last one are neighbours in memory; the address of the first element, and the strides of the other axes in bytes,
    /// are multiples of 16; a tile has as many axes, of 1 to 256 elements each, and lines of a multiple of 16 bytes, no
    /// more than the swizzle has. [`Error::Cuda`] if the driver refuses it, as one for older GPUs than Hopper does.
    pub fn tensor_map(&self, tile: &[usize], swizzle: Swizzle) -> Result<TensorMapArg<'_, T>> {
        self.tensor_map_as(T::MAP_TYPE.0, tile, swizzle)
    }

    /// [`tensor_map`](Self::tensor_map) of elements that the copy takes as `of`.
    pub(crate) fn tensor_map_as(
        &self,
        of: TensorType,
        tile: &[usize],
        swizzle: Swizzle,
    ) -> Result<TensorMapArg<'_, T>> {
        self.tensor_map_of(of, &layout(self, tile, swizzle)?)
    }

    /// [`tensor_map`](Self::tensor_map) of tiles that have every so manieth element along each axis, as [`tile_fits`] says.
    pub(crate) fn tensor_map_in_steps(
        &self,
        tile: &[usize],
        steps: &[usize],
        swizzle: Swizzle,
    ) -> Result<TensorMapArg<'_, T>> {
        let mut layout = layout(self, tile, swizzle)?;
        for (i, &step) in steps.iter().rev().enumerate() {
            layout.box_dims[i] = (layout.box_dims[i] - 1) * step as u32 + 1;
            layout.steps[i] = step as u32;
        }
        self.tensor_map_of(T::MAP_TYPE.0, &layout)
    }

    fn tensor_map_of(&self, of: TensorType, layout: &TensorMapLayout) -> Result<TensorMapArg<'_, T>> {
        // SAFETY: the layout is that of elements in this device's memory.
        let raw = unsafe { self.stream().backend().tensor_map(of, self.address(), layout)? };
        Ok(TensorMapArg {
            raw,
            buffer: Arc::clone(self.buffer()),
            bytes: self.bytes(),
            stream: self.stream().clone(),
            _elements: PhantomData,
        })
    }
}

impl<'a, T: TensorElement, D: Dimension> DeviceView<'a, T, D> {
    /// As [`tensor_map_as`](DeviceArrayRef::tensor_map_as), for as long as the elements are borrowed.
    pub(crate) fn into_tensor_map(
        self,
        of: TensorType,
        tile: &[usize],
        swizzle: Swizzle,
    ) -> Result<TensorMapArg<'a, T>> {
        let TensorMapArg {
            raw,
            buffer,
            bytes,
            stream,
            ..
        } = self.tensor_map_as(of, tile, swizzle)?;
        Ok(TensorMapArg {
            raw,
            buffer,
            bytes,
            stream,
            _elements: PhantomData,
        })
    }
}

macro_rules! mutable {
    ($($type:ty),*) => {$(
        impl<T: TensorElement, D: Dimension> $type {
            /// As [`tensor_map`](DeviceArrayRef::tensor_map), of elements that a kernel writes.
            ///
            /// # Errors
            ///
            /// As [`tensor_map`](DeviceArrayRef::tensor_map), and [`Error::Shape`] unless the last axis is a multiple of 16
            /// bytes long: of the last piece of 16 bytes of a line the GPU writes all, also what is beyond the line's end.
            pub fn tensor_map_mut(&mut self, tile: &[usize], swizzle: Swizzle) -> Result<TensorMapMutArg<'_, T>> {
                check_line(self)?;
                Ok(TensorMapMutArg {
                    map: self.tensor_map(tile, swizzle)?,
                    _elements: PhantomData,
                })
            }
        }
    )*};
}

mutable!(DeviceArray<T, D>, DeviceViewMut<'_, T, D>);

/// An error unless the lines that are written are whole pieces of 16 bytes.
fn check_line<T: TensorElement, D: Dimension>(elements: &DeviceArrayRef<T, D>) -> Result<()> {
    match elements.shape().last() {
        Some(&length) if (length * size_of::<T>()).is_multiple_of(ALIGN) => Ok(()),
        _ => Err(Error::Shape {
            operation: "tensor_map_mut",
            given: format!(
                "a view of shape {:?} of elements of {} bytes",
                elements.shape(),
                size_of::<T>()
            ),
            wanted: format!("a last axis of a multiple of {ALIGN} bytes"),
        }),
    }
}

/// The map's layout, of the axes from the last to the first.
pub(crate) fn layout<T: TensorElement, D: Dimension>(
    elements: &DeviceArrayRef<T, D>,
    tile: &[usize],
    swizzle: Swizzle,
) -> Result<TensorMapLayout> {
    let refuse = |wanted: String| {
        Err(Error::Shape {
            operation: "tensor_map",
            given: format!(
                "a view of shape {:?} and strides {:?} at address {:#x}, in tiles of {tile:?}",
                elements.shape(),
                elements.strides(),
                elements.address()
            ),
            wanted,
        })
    };
    let (axes, bytes) = (elements.ndim(), size_of::<T>());
    if !(1..=MAX_AXES).contains(&axes) || tile.len() != axes || elements.is_empty() {
        return refuse(format!(
            "1 to {MAX_AXES} axes that are not empty, and as many of a tile"
        ));
    }
    if !elements.address().is_multiple_of(ALIGN as u64) {
        return refuse(format!("an address that is a multiple of {ALIGN}"));
    }
    let line = tile[axes - 1] * bytes;
    if tile.iter().any(|length| !(1..=MAX_TILE).contains(length)) || !line.is_multiple_of(ALIGN) {
        return refuse(format!(
            "tiles of 1 to {MAX_TILE} elements an axis, with lines of a multiple of {ALIGN} bytes"
        ));
    }
    if swizzle_line(swizzle).is_some_and(|most| line > most) {
        return refuse(format!("tiles with lines of no more bytes than {swizzle:?} has"));
    }
    let mut layout = TensorMapLayout {
        element_bytes: bytes as u32,
        rank: axes as u32,
        dims: [1; 5],
        strides: [0; 4],
        box_dims: [1; 5],
        steps: [1; 5],
        swizzle,
    };
    let mut dense = bytes;
    for (i, axis) in (0..axes).rev().enumerate() {
        let length = elements.shape()[axis];
        // The stride of an axis of one element is nowhere used, but must be such a multiple all the same.
        let stride = match usize::try_from(elements.strides()[axis]) {
            _ if length == 1 => dense.next_multiple_of(if i == 0 { bytes } else { ALIGN }),
            Ok(stride) => stride * bytes,
            Err(_) => return refuse("strides that are not negative".into()),
        };
        match i {
            0 if stride != bytes => return refuse("a stride of 1 along the last axis".into()),
            0 => {}
            _ if stride == 0 || !stride.is_multiple_of(ALIGN) || stride >= 1 << 40 => {
                return refuse(format!("strides of a multiple of {ALIGN} bytes, but 0, below 2^40"));
            }
            i => layout.strides[i - 1] = stride as u64,
        }
        if length > u32::MAX as usize {
            return refuse("axes of less than 2^32 elements".into());
        }
        layout.dims[i] = length as u64;
        layout.box_dims[i] = tile[axis] as u32;
        dense = dense.max(stride * length);
    }
    Ok(layout)
}

/// Whether a tile may have so many elements along an axis, from each of which to the next there are so many.
pub(crate) fn tile_fits(length: usize, step: usize) -> bool {
    (1..=MAX_STEP).contains(&step) && (length - 1) * step < MAX_TILE
}

/// The bytes of the lines that a swizzle is for.
fn swizzle_line(swizzle: Swizzle) -> Option<usize> {
    match swizzle {
        Swizzle::None => None,
        Swizzle::B32 => Some(32),
        Swizzle::B64 => Some(64),
        Swizzle::B128 => Some(128),
    }
}

/// A map of an array that a kernel reads by it, and writes by another argument.
#[derive(Debug)]
pub(crate) struct TensorMapInPlace<T> {
    raw: RawTensorMap,
    _element: PhantomData<T>,
}

/// A map of an array that a kernel writes by it, and by another argument.
#[derive(Debug)]
pub(crate) struct TensorMapMutInPlace<T> {
    raw: RawTensorMap,
    _element: PhantomData<T>,
}

impl<T> TensorMapArg<'_, T> {
    /// The map as an argument of a launch that writes the elements by another one.
    ///
    /// # Safety
    ///
    /// The launch that takes this argument also takes the array mutably, and its kernel reads by it only what nothing writes
    /// meanwhile.
    pub(crate) unsafe fn in_place(&self) -> TensorMapInPlace<T> {
        TensorMapInPlace {
            raw: self.raw,
            _element: PhantomData,
        }
    }
}

impl<T> TensorMapMutArg<'_, T> {
    /// [`TensorMapArg::in_place`] of the same map.
    ///
    /// # Safety
    ///
    /// That function's.
    pub(crate) unsafe fn in_place(&self) -> TensorMapInPlace<T> {
        // SAFETY: the caller's promise.
        unsafe { self.map.in_place() }
    }

    /// The map as an argument of a launch that has the array as another one, too.
    ///
    /// # Safety
    ///
    /// The launch that takes this argument also takes the array mutably, and its kernel writes by it only what nothing else accesses
    /// meanwhile.
    pub(crate) unsafe fn in_place_mut(&self) -> TensorMapMutInPlace<T> {
        TensorMapMutInPlace {
            raw: self.map.raw,
            _element: PhantomData,
        }
    }

    /// This argument, which stands for all its elements, with a map of some of them.
    pub(crate) fn by(mut self, map: &TensorMapMutInPlace<T>) -> Self {
        self.map.raw = map.raw;
        self
    }
}

// SAFETY: `in_place` was promised that the array itself is an argument too, which orders the stream and holds the borrow.
unsafe impl<T: TensorElement> Arg<TensorMap<'static, T>> for &TensorMapInPlace<T> {
    fn prepare(&self, _: &'static str, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn abi(&self) -> Abi<TensorMap<'static, T>> {
        Abi {
            head: self.raw,
            tail: NoTail,
        }
    }
}

// SAFETY: `in_place_mut` was promised the same.
unsafe impl<T: TensorElement> Arg<TensorMapMut<'static, T>> for &TensorMapMutInPlace<T> {
    fn prepare(&self, _: &'static str, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn abi(&self) -> Abi<TensorMapMut<'static, T>> {
        Abi {
            head: self.raw,
            tail: NoTail,
        }
    }
}

impl<T> TensorMapArg<'_, T> {
    fn is_part(&self) -> bool {
        self.bytes.len() < self.buffer.bytes()
    }
}

// SAFETY: the map is of elements in the memory of the stream's device, which it borrows.
unsafe impl<T: TensorElement> Arg<TensorMap<'static, T>> for &TensorMapArg<'_, T> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        stream.check_device(kernel, &self.stream)?;
        self.buffer.reads_part_on(stream, self.bytes.clone())
    }

    fn is_part(&self) -> bool {
        TensorMapArg::is_part(self)
    }

    fn abi(&self) -> Abi<TensorMap<'static, T>> {
        Abi {
            head: self.raw,
            tail: NoTail,
        }
    }
}

// SAFETY: the map is of elements in the memory of the stream's device, which it borrows mutably.
unsafe impl<T: TensorElement> Arg<TensorMapMut<'static, T>> for &mut TensorMapMutArg<'_, T> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        stream.check_device(kernel, &self.map.stream)?;
        self.map.buffer.writes_part_on(stream, self.map.bytes.clone())
    }

    fn is_part(&self) -> bool {
        self.map.is_part()
    }

    fn abi(&self) -> Abi<TensorMapMut<'static, T>> {
        Abi {
            head: self.map.raw,
            tail: NoTail,
        }
    }
}
