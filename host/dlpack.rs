// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays given to other libraries (PyTorch, CuPy, JAX, TVM) and taken from them without a copy, as the C structure that
//! they have agreed on: [DLPack](https://dmlc.github.io/dlpack/latest/c_api.html), version 1.1 and those before.
//!
//! A tensor that is given away has a `deleter`; whoever has it calls that once, when all work that uses the memory is
//! done. Python's libraries take a structure in a capsule: [`DLManagedTensor`] in one with the name `dltensor`,
//! [`DLManagedTensorVersioned`] in one with the name `dltensor_versioned`.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

use cuda_std::float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use ndarray::{Dimension, IxDyn};

use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::stream::Stream;

/// The version of DLPack that this module writes.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };

const CPU: i32 = 1;
const CUDA: i32 = 2;

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const BOOL: u8 = 6;
// Since version 1.1.
const FLOAT8_E4M3FN: u8 = 10;
const FLOAT8_E5M2: u8 = 12;

/// The flag of a tensor that must not be written.
const READ_ONLY: u64 = 1;

/// A version of DLPack: structures of one `major` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLPackVersion {
    /// Other layout.
    pub major: u32,
    /// Other values only.
    pub minor: u32,
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    /// 1 for the host, 2 for a GPU.
    pub device_type: i32,
    /// The number of the GPU.
    pub device_id: i32,
}

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    /// 0 for a signed integer, 1 for an unsigned one, 2 for a float, 4 for a bfloat, 6 for a truth value.
    pub code: u8,
    /// Bits of a number.
    pub bits: u8,
    /// Numbers of an element.
    pub lanes: u16,
}

/// An array that somebody owns.
#[derive(Debug)]
#[repr(C)]
pub struct DLTensor {
    /// The memory.
    pub data: *mut c_void,
    /// Where it is.
    pub device: DLDevice,
    /// The number of axes.
    pub ndim: i32,
    /// What an element is.
    pub dtype: DLDataType,
    /// The length of each axis.
    pub shape: *mut i64,
    /// The distance between neighbours along each axis, in elements; null for C order.
    pub strides: *mut i64,
    /// Where the first element is, in bytes from `data`.
    pub byte_offset: u64,
}

/// A tensor and its owner, as before version 1.0.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// To be called once, with the structure's address.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A tensor and its owner, since version 1.0.
#[derive(Debug)]
#[repr(C)]
pub struct DLManagedTensorVersioned {
    /// The version of the structure.
    pub version: DLPackVersion,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// To be called once, with the structure's address.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// 1 for a tensor that must not be written.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// Numbers that DLPack has a name for.
pub trait DLElement: Element {
    /// The [code](DLDataType::code).
    const CODE: u8;
}

macro_rules! elements {
    ($($code:ident: $($type:ty)*;)*) => {
        $($(impl DLElement for $type {
            const CODE: u8 = $code;
        })*)*
    };
}

elements! {
    INT: i8 i16 i32 i64;
    UINT: u8 u16 u32 u64;
    FLOAT: f16 f32 f64;
    BFLOAT: bf16;
    FLOAT8_E4M3FN: F8E4M3;
    FLOAT8_E5M2: F8E5M2;
}

/// One of the two structures.
pub trait Managed: sealed::Managed {}

impl Managed for DLManagedTensor {}
impl Managed for DLManagedTensorVersioned {}

mod sealed {
    use super::*;

    pub trait Managed: Sized + 'static {
        fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self;
        fn tensor(&self) -> &DLTensor;
        fn manager(&self) -> *mut c_void;
        fn set_manager(&mut self, manager: *mut c_void);
        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
        /// Why an array cannot be made of it, whatever the tensor is.
        fn refusal(&self) -> Option<String>;
    }

    impl Managed for DLManagedTensor {
        fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
            Self {
                dl_tensor,
                manager_ctx,
                deleter: Some(deleter),
            }
        }

        fn tensor(&self) -> &DLTensor {
            &self.dl_tensor
        }

        fn manager(&self) -> *mut c_void {
            self.manager_ctx
        }

        fn set_manager(&mut self, manager: *mut c_void) {
            self.manager_ctx = manager;
        }

        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
            self.deleter
        }

        fn refusal(&self) -> Option<String> {
            None
        }
    }

    impl Managed for DLManagedTensorVersioned {
        fn new(dl_tensor: DLTensor, manager_ctx: *mut c_void, deleter: unsafe extern "C" fn(*mut Self)) -> Self {
            Self {
                version: VERSION,
                manager_ctx,
                deleter: Some(deleter),
                flags: 0,
                dl_tensor,
            }
        }

        fn tensor(&self) -> &DLTensor {
            &self.dl_tensor
        }

        fn manager(&self) -> *mut c_void {
            self.manager_ctx
        }

        fn set_manager(&mut self, manager: *mut c_void) {
            self.manager_ctx = manager;
        }

        fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
            self.deleter
        }

        fn refusal(&self) -> Option<String> {
            if self.version.major != VERSION.major {
                let DLPackVersion { major, minor } = self.version;
                return Some(format!("a tensor of DLPack {major}.{minor}"));
            }
            (self.flags & READ_ONLY != 0).then(|| "a tensor that must not be written".into())
        }
    }
}

/// A tensor that was given away, with all that it points to.
struct Given<M> {
    managed: M,
    _shape: Box<[i64]>,
    _strides: Box<[i64]>,
    _array: Box<dyn Any>,
}

/// The deleter of tensors that were given away.
///
/// # Safety
///
/// As DLPack says: called once, for a tensor that [`DeviceArray::into_dlpack`] made.
unsafe extern "C" fn delete<M: sealed::Managed>(managed: *mut M) {
    // SAFETY: the caller's promise; `into_dlpack` has put the box's address there.
    drop(unsafe { Box::from_raw((*managed).manager().cast::<Given<M>>()) });
}

/// A tensor that was taken, whose deleter is called when this is dropped.
struct Taken<M: sealed::Managed>(NonNull<M>);

// SAFETY: by the contract of `from_dlpack`, the deleter may be called on any thread; nothing else is done with it.
unsafe impl<M: sealed::Managed> Send for Taken<M> {}
// SAFETY: as above.
unsafe impl<M: sealed::Managed> Sync for Taken<M> {}

impl<M: sealed::Managed> Drop for Taken<M> {
    fn drop(&mut self) {
        // SAFETY: by the contract of `from_dlpack` the tensor lives until its deleter is called, which is here only.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter() {
                deleter(self.0.as_ptr());
            }
        }
    }
}

impl<T: DLElement, D: Dimension> DeviceArray<T, D> {
    /// The array as a tensor that another library can take, without a copy. Waits for the work that the array depends
    /// on, so that the other library may use it on any stream. `M` is one of the two structures.
    ///
    /// Who takes it calls its `deleter` once, when the work that uses the memory is done; else the memory is lost.
    /// On the simulated GPU it is a tensor of the host.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed; the array is then dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::dlpack::DLManagedTensorVersioned;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let tensor = x.into_dlpack::<DLManagedTensorVersioned>()?;
    /// // … and back again, as another library would give one.
    /// // SAFETY: a tensor that nobody else has.
    /// let x: DeviceArray<f32, ndarray::Ix2> = unsafe { DeviceArray::from_dlpack(device.default_stream(), tensor)? };
    /// assert_eq!(x.sum()?, 10.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_dlpack<M: Managed>(self) -> Result<NonNull<M>> {
        let data = self.as_device_ptr(self.stream())?;
        self.stream().synchronize()?;
        // Below 2^63, as all of them multiplied are.
        let mut shape: Box<[i64]> = self.shape().iter().map(|&length| length as i64).collect();
        let mut strides: Box<[i64]> = self.strides().iter().map(|&stride| stride as i64).collect();
        let tensor = DLTensor {
            data: data.cast_mut().cast(),
            device: device_of(self.stream()),
            ndim: shape.len() as i32,
            dtype: dtype_of::<T>(),
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let given = Box::into_raw(Box::new(Given {
            managed: M::new(tensor, ptr::null_mut(), delete::<M>),
            _shape: shape,
            _strides: strides,
            _array: Box::new(self.into_dyn()),
        }));
        // SAFETY: the address of a box that nobody else knows yet.
        Ok(unsafe {
            (*given).managed.set_manager(given.cast());
            NonNull::new_unchecked(&raw mut (*given).managed)
        })
    }

    /// The tensor of another library as an array that is at home on `stream`, without a copy. Its deleter is called when
    /// the array is dropped, which waits for the stream then, or when this fails.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a tensor of other elements than `T` (truth values are taken as `u8`), of another version
    /// of DLPack, or that must not be written; [`Error::Shape`] for one with another number of axes than `D`, or that is
    /// not in C order; [`Error::DifferentDevices`] for one that is not in the memory of the stream's device; and those of
    /// [`from_device_ptr`](Self::from_device_ptr).
    ///
    /// # Safety
    ///
    /// `tensor` is as DLPack says, nobody else uses it, and its deleter may be called on any thread. The work that other
    /// libraries do with the memory is done, or ordered ahead of the stream.
    pub unsafe fn from_dlpack<M: Managed>(stream: &Stream, tensor: NonNull<M>) -> Result<Self> {
        let taken = Taken(tensor);
        // SAFETY: the tensor lives as long as `taken`.
        let managed = unsafe { tensor.as_ref() };
        let refuse = |given: String| Error::Parameter {
            operation: "from_dlpack",
            parameter: "tensor",
            given,
            wanted: format!(
                "one of {}, of DLPack {}.x, to be written",
                std::any::type_name::<T>(),
                VERSION.major
            ),
        };
        if let Some(refusal) = managed.refusal() {
            return Err(refuse(refusal));
        }
        let tensor = managed.tensor();
        let is_truth = tensor.dtype.code == BOOL && dtype_of::<T>() == dtype_of::<u8>();
        if tensor.dtype != dtype_of::<T>() && !(is_truth && tensor.dtype.bits == 8 && tensor.dtype.lanes == 1) {
            return Err(refuse(format!("elements of {:?}", tensor.dtype)));
        }
        if tensor.device != device_of(stream) {
            let given = format!("DLPack's {:?}", tensor.device);
            return Err(Error::different_devices("from_dlpack", &given, stream.device_id()));
        }
        // SAFETY: the caller's promise.
        let dim = unsafe { shape_of(tensor)? };
        let data = tensor
            .data
            .cast::<u8>()
            .wrapping_add(tensor.byte_offset as usize)
            .cast();
        // SAFETY: the caller's promise, and what was just asked: the elements are there, in C order, as long as the
        // tensor is not deleted.
        unsafe { Self::adopt("from_dlpack", stream, data, dim, Owner::new(taken)) }
    }
}

/// The device of the stream, as DLPack names it.
fn device_of(stream: &Stream) -> DLDevice {
    let ordinal = stream
        .device_id()
        .strip_prefix("cuda:")
        .and_then(|number| number.parse().ok());
    match ordinal {
        Some(device_id) => DLDevice {
            device_type: CUDA,
            device_id,
        },
        None => DLDevice {
            device_type: CPU,
            device_id: 0,
        },
    }
}

fn dtype_of<T: DLElement>() -> DLDataType {
    DLDataType {
        code: T::CODE,
        bits: 8 * size_of::<T>() as u8,
        lanes: 1,
    }
}

/// The shape of a tensor whose elements are in C order.
///
/// # Safety
///
/// The tensor is as DLPack says.
unsafe fn shape_of<D: Dimension>(tensor: &DLTensor) -> Result<D> {
    let axes = usize::try_from(tensor.ndim).unwrap_or(0);
    let of = |numbers: *const i64| match axes {
        0 => &[][..],
        // SAFETY: DLPack says that there are as many.
        _ => unsafe { std::slice::from_raw_parts(numbers, axes) },
    };
    let refuse = |given: String, wanted: String| Error::Shape {
        operation: "from_dlpack",
        given,
        wanted,
    };
    let shape = of(tensor.shape);
    let lengths: Option<Vec<usize>> = shape.iter().map(|&length| usize::try_from(length).ok()).collect();
    let lengths = lengths.ok_or_else(|| refuse(format!("shape {shape:?}"), "lengths of 0 or more".into()))?;
    let dim = D::from_dimension(&IxDyn(&lengths)).ok_or_else(|| {
        let wanted = D::NDIM.map_or_else(String::new, |axes| format!("{axes} axes"));
        refuse(format!("shape {shape:?}"), wanted)
    })?;
    if !tensor.strides.is_null() && !shape.contains(&0) {
        let strides = of(tensor.strides);
        let mut expected = 1i64;
        for (&length, &stride) in shape.iter().zip(strides).rev() {
            if length != 1 && stride != expected {
                let given = format!("shape {shape:?} with strides {strides:?}");
                return Err(refuse(given, "a tensor in C order".into()));
            }
            expected = expected.saturating_mul(length);
        }
    }
    Ok(dim)
}
