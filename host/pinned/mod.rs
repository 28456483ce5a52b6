// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays in page-locked memory of the host, which the device copies by itself.

mod cache;
mod copy;

use std::fmt;
use std::marker::PhantomData;

use ndarray::{ArrayBase, ArrayView, ArrayViewMut, Data, Dimension, IntoDimension, Zip};

use crate::array::Element;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::layout::checked_len;
use cache::PinnedMemory;

pub(crate) use cache::PinnedCache;
pub use copy::PendingCopy;

/// An array of the host's, in C order, in memory that the system keeps in place. A device copies it at the full speed
/// of the bus, and by itself: the copy is queued, and the host and the stream's kernels go on
/// ([`DeviceArray::upload_async`](crate::DeviceArray::upload_async),
/// [`download_async`](crate::DeviceArrayRef::download_async)).
///
/// The memory comes from a cache of the device and goes back there, as to lock pages is slow: up to 512 MiB are kept
/// unused. Page-locked memory is taken from all other programs; lock what the copies need and no more. On the simulated
/// GPU it is ordinary memory.
///
/// # Examples
///
/// ```
/// use warpsmith::{Device, DeviceArray, PinnedArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let mut batch = PinnedArray::zeros(&device, (2, 3))?;
/// batch.view_mut().fill(2.0f32);
/// // The copy owns `batch` until it is done.
/// let (x, upload) = DeviceArray::upload_async(device.default_stream(), batch)?;
/// let result = x.square()?.download_async()?;
/// // … other work of the host …
/// assert_eq!(result.wait()?.view().sum(), 24.0);
/// let batch = upload.wait()?; // to be filled again
/// # assert_eq!(batch.shape(), [2, 3]);
/// # Ok(())
/// # }
/// ```
pub struct PinnedArray<T, D> {
    memory: PinnedMemory,
    dim: D,
    _element: PhantomData<T>,
}

impl<T: Element, D: Dimension> PinnedArray<T, D> {
    /// An array of that shape whose bytes are all zero, for copies to and from that device.
    ///
    /// # Errors
    ///
    /// [`Error::HostMemory`] if the system locks no more, [`Error::Shape`] if the elements cannot be counted,
    /// [`Error::Cuda`] if the driver fails.
    pub fn zeros(device: &Device, shape: impl IntoDimension<Dim = D>) -> Result<Self> {
        let mut result = Self::uninit(device.backend(), shape.into_dimension())?;
        bytemuck::fill_zeroes(result.elements_mut());
        Ok(result)
    }

    /// A copy of an array of any layout, for copies to and from that device.
    ///
    /// # Errors
    ///
    /// Those of [`zeros`](Self::zeros).
    pub fn from_ndarray<S: Data<Elem = T>>(device: &Device, array: &ArrayBase<S, D>) -> Result<Self> {
        let mut result = Self::uninit(device.backend(), array.raw_dim())?;
        match array.as_slice() {
            Some(elements) => result.elements_mut().copy_from_slice(elements),
            None => Zip::from(result.view_mut()).and(array).for_each(|to, &from| *to = from),
        }
        Ok(result)
    }

    /// An array of that shape with unspecified elements.
    pub(crate) fn uninit(backend: &std::sync::Arc<dyn crate::backend::Backend>, dim: D) -> Result<Self> {
        let bytes = checked_len(dim.slice()).and_then(|len| len.checked_mul(size_of::<T>()));
        let Some(bytes) = bytes.filter(|&bytes| isize::try_from(bytes).is_ok()) else {
            return Err(Error::Shape {
                operation: "allocation",
                given: format!("shape {:?} of {}-byte elements", dim.slice(), size_of::<T>()),
                wanted: "less than 2^63 bytes".into(),
            });
        };
        Ok(Self {
            memory: PinnedMemory::new(backend, bytes)?,
            dim,
            _element: PhantomData,
        })
    }

    /// Where the elements lie.
    fn pointer(&self) -> *mut T {
        match self.dim.size() * size_of::<T>() {
            0 => std::ptr::NonNull::dangling().as_ptr(),
            _ => std::ptr::with_exposed_provenance_mut(self.memory.address() as usize),
        }
    }

    /// The elements, in C order.
    fn elements(&self) -> &[T] {
        // SAFETY: as many elements lie there, aligned, and no copy uses them: a copy owns its array. The bytes are the
        // system's, the library's or those of a copy, and any are a value of the type.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len()) }
    }

    pub(crate) fn elements_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and they are this array's alone.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len()) }
    }

    /// The elements, to be read.
    pub fn view(&self) -> ArrayView<'_, T, D> {
        ArrayView::from_shape(self.dim.clone(), self.elements()).expect("as many elements as the shape has")
    }

    /// The elements, to be written.
    pub fn view_mut(&mut self) -> ArrayViewMut<'_, T, D> {
        let dim = self.dim.clone();
        ArrayViewMut::from_shape(dim, self.elements_mut()).expect("as many elements as the shape has")
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        self.dim.slice()
    }

    /// The shape as ndarray's dimension type.
    pub fn raw_dim(&self) -> D {
        self.dim.clone()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.dim.size()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Element, D: Dimension> fmt::Debug for PinnedArray<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedArray")
            .field("element", &std::any::type_name::<T>())
            .field("shape", &self.shape())
            .field("device", &self.memory.backend().properties().id)
            .finish()
    }
}
