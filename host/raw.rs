// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory and streams shared with other libraries, by their addresses: cuBLAS, cuFFT, a C library of one's own.
//!
//! All libraries that use the CUDA runtime work in a GPU's primary context, as this one does, so what one makes the
//! others can use.

use std::any::Any;
use std::ffi::c_void;
use std::ptr;

use ndarray::{Dimension, IntoDimension};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::layout::checked_len;
use crate::owner::Owner;
use crate::stream::Stream;

/// What every allocation of a device is aligned to.
const ALIGN: usize = 256;

impl Stream {
    /// The driver's handle of the stream (`CUstream`, `cudaStream_t`), for libraries that take one; null on the simulated
    /// GPU. It is valid as long as the stream, and nobody else destroys it.
    pub fn as_raw(&self) -> *mut c_void {
        if self.backend().properties().is_simulated() {
            return ptr::null_mut();
        }
        ptr::with_exposed_provenance_mut(self.raw().0 as usize)
    }

    /// A stream that another library made, as one of `device`: arrays can be at home on it, and the other library can
    /// queue its own work between their operations. `owner` is dropped when this library is done with the stream; never,
    /// if the device has failed or was reset by then, as the stream has gone with its context. Null is the default stream of
    /// the device's context.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream was made in another context than the device's, as all are for the
    /// simulated GPU; [`Error::Parameter`] for the default stream of each thread (`CU_STREAM_PER_THREAD`), which is another
    /// one on each; [`Error::Cuda`] if the driver fails. `owner` is then dropped.
    ///
    /// # Safety
    ///
    /// `stream` is a stream (`CUstream`, `cudaStream_t`), and it lives as long as `owner`.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void, owner: impl Any + Send + Sync) -> Result<Self> {
        let handle = stream.expose_provenance() as u64;
        // SAFETY: the caller's promise.
        unsafe { Self::adopt("Stream::from_raw", device.default_stream(), handle, Owner::new(owner)) }
    }
}

/// Why another library's work is not recorded.
pub(crate) const FOREIGN: &str = "what another library queues is not recorded";

/// Addresses for other libraries.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// Where the first element lies, for work that another library queues on `stream`: orders the stream behind what
    /// writes the elements, and lets later writes wait for what the stream has queued until then.
    ///
    /// The others lie from there as [`shape`](Self::shape) and [`strides`](Self::strides) say, in elements: of an array in C
    /// order, of a view at any distances, also backwards. What lies between the elements of a view may be in use by others,
    /// and must not be touched. Where other threads use other parts of the array meanwhile, this is to be called once more
    /// when the work is queued.
    ///
    /// On a GPU the host must not read the memory. Null if there is no element; on the simulated GPU an address of the
    /// host's memory, and streams are always idle there.
    ///
    /// # Errors
    ///
    /// [`Error::DifferentDevices`] if the stream is another device's, [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![[1.5f32, 2.5], [3.5, 4.5]])?;
    /// let pointer: *const f32 = x.as_device_ptr(stream)?;
    /// // … a function of a C library, with `pointer` and `stream.as_raw()` …
    /// # // SAFETY: the simulated GPU's memory is the host's, and its streams are idle.
    /// # assert_eq!(unsafe { *pointer.add(1) }, 2.5);
    /// let column = x.slice(s![.., 1])?;
    /// assert_eq!((column.as_device_ptr(stream)?, column.strides()), (pointer.wrapping_add(1), &[2][..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn as_device_ptr(&self, stream: &Stream) -> Result<*const T> {
        stream.check_device("as_device_ptr", self.stream())?;
        stream.check_not_captured("as_device_ptr", FOREIGN)?;
        self.reads_on(stream)?;
        Ok(ptr::with_exposed_provenance(self.first_address()))
    }

    /// [`as_device_ptr`](Self::as_device_ptr) for work that writes the elements: `stream` is ordered behind all that uses
    /// them, and later uses wait for what the stream has queued until then.
    ///
    /// # Errors
    ///
    /// As [`as_device_ptr`](Self::as_device_ptr).
    pub fn as_device_mut_ptr(&mut self, stream: &Stream) -> Result<*mut T> {
        stream.check_device("as_device_mut_ptr", self.stream())?;
        stream.check_not_captured("as_device_mut_ptr", FOREIGN)?;
        self.writes_on(stream)?;
        Ok(ptr::with_exposed_provenance_mut(self.first_address()))
    }

    /// The address of the first element; 0 where there is none.
    pub(crate) fn first_address(&self) -> usize {
        if self.is_empty() || size_of::<T>() == 0 {
            return 0;
        }
        self.buffer().address() as usize + self.layout.offset() * size_of::<T>()
    }
}

impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// An array, at home on `stream`, in memory that another library allocated. When it is dropped, the stream is waited
    /// for, and then `owner` is dropped, which may free the memory.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for a shape of 2^63 bytes or more, [`Error::Parameter`] if the address is not a multiple of 256,
    /// as those of all allocations are, [`Error::DifferentDevices`] if the driver knows of no memory of this device's
    /// there, [`Error::Cuda`] if the driver fails. `owner` is then dropped. For the simulated GPU, whose memory is the
    /// host's, nobody is asked.
    ///
    /// # Safety
    ///
    /// At `memory` there are the array's elements, in C order. They are there as long as `owner` lives, and until then
    /// nobody else uses them but in the order of `stream`.
    pub unsafe fn from_device_ptr(
        stream: &Stream,
        memory: *mut T,
        shape: impl IntoDimension<Dim = D>,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe {
            Self::adopt(
                "from_device_ptr",
                stream,
                memory,
                shape.into_dimension(),
                Owner::new(owner),
            )
        }
    }

    /// [`from_device_ptr`](Self::from_device_ptr) for `operation`.
    ///
    /// # Safety
    ///
    /// As that.
    pub(crate) unsafe fn adopt(
        operation: &'static str,
        stream: &Stream,
        memory: *mut T,
        dim: D,
        owner: Owner,
    ) -> Result<Self> {
        let bytes = checked_len(dim.slice()).and_then(|len| len.checked_mul(size_of::<T>()));
        let Some(bytes) = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()) else {
            return Err(Error::Shape {
                operation,
                given: format!("shape {:?} of {}-byte elements", dim.slice(), size_of::<T>()),
                wanted: "less than 2^63 bytes".into(),
            });
        };
        if bytes == 0 {
            return Self::zeros(stream, dim);
        }
        let address = memory.expose_provenance();
        if !stream.backend().has_memory(address as u64)? {
            let (given, wanted) = ("another device or the host", stream.device_id());
            return Err(Error::different_devices(operation, given, wanted));
        }
        if !address.is_multiple_of(ALIGN) {
            return Err(Error::Parameter {
                operation,
                parameter: "the memory's address",
                given: format!("{address:#x}"),
                wanted: format!("a multiple of {ALIGN}, as every allocation has"),
            });
        }
        // SAFETY: memory of this device, as just asked, of that many bytes, by the caller's promise the owner's.
        let buffer = unsafe { Buffer::adopt(stream, address as u64, bytes, owner) };
        Ok(Self::of_buffer(stream, buffer, dim))
    }
}
