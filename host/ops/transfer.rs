// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of arrays between the host and a device. They are above the transposition, which puts what lies in another
//! order of the axes in C order on the device.

use ndarray::{Array, ArrayBase, Data, Dimension, Ix1};

use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// Copies between the host and the device.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// Copies an array of any layout to the device.
    ///
    /// An array in C order is copied as it lies. So is one whose elements have no gap between them and lie in another
    /// order of the axes, such as Fortran order; they are then put in C order on the device, for which it holds them
    /// twice for a while. Any other is put in C order on the host first.
    ///
    /// `array` may change or go when this returns. On a GPU, up to 64 KiB are queued, by way of memory of the library's;
    /// with more, this waits for the copy.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the device has not enough, [`Error::Cuda`] if the driver fails; for an array in
    /// another order of the axes also those of a launch.
    pub fn from_ndarray<S: Data<Elem = T>>(stream: &Stream, array: &ArrayBase<S, D>) -> Result<Self> {
        let mut result = Self::uninit(stream, array.raw_dim())?;
        result.upload(array)?;
        Ok(result)
    }

    /// Copies an array of any layout, as [`from_ndarray`](Self::from_ndarray), into this one.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, and those of [`from_ndarray`](Self::from_ndarray).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let mut x = DeviceArray::zeros(device.default_stream(), (2, 2))?;
    /// x.assign_ndarray(&array![[1, 2], [3, 4]].t())?;
    /// assert_eq!(x.to_ndarray()?, array![[1, 3], [2, 4]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn assign_ndarray<S: Data<Elem = T>>(&mut self, array: &ArrayBase<S, D>) -> Result<()> {
        if self.shape() != array.shape() {
            return Err(Error::Shape {
                operation: "assign_ndarray",
                given: format!("shape {:?}", array.shape()),
                wanted: format!("shape {:?}", self.shape()),
            });
        }
        self.upload(array)
    }

    /// Copies an array of the same shape to this one.
    fn upload<S: Data<Elem = T>>(&mut self, array: &ArrayBase<S, D>) -> Result<()> {
        if self.buffer().bytes() == 0 {
            return Ok(());
        }
        if let Some(elements) = array.as_slice() {
            return self.upload_elements(elements);
        }
        if let Some((elements, strides)) = without_gaps(array) {
            let mut staged = DeviceArray::<T, Ix1>::uninit(self.stream(), Ix1(elements.len()))?;
            staged.upload_elements(elements)?;
            return staged.view().laid_out(self.raw_dim(), strides).to_array_into(self);
        }
        match array.as_standard_layout().as_slice() {
            Some(elements) => self.upload_elements(elements),
            None => unreachable!("an array in standard layout is a slice"),
        }
    }

    /// Copies all elements, in the order of the memory.
    fn upload_elements(&mut self, elements: &[T]) -> Result<()> {
        assert_eq!(elements.len(), self.len(), "as many elements as the array has");
        self.buffer().writes_on(self.stream())?;
        let (backend, bytes) = (self.stream().backend(), bytemuck::cast_slice(elements));
        // SAFETY: the whole buffer, which has as many bytes, ordered on this stream.
        unsafe { backend.upload(self.stream().raw(), self.buffer().address(), bytes) }
    }

    /// Copies the array to the host, in C order. Waits for the work that it depends on.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed, [`Error::HostMemory`] if the host has not enough
    /// memory, [`Error::Cuda`] if the driver fails.
    pub fn to_ndarray(&self) -> Result<Array<T, D>> {
        let mut elements: Vec<T> = Vec::new();
        let wanted = self.buffer().bytes();
        elements
            .try_reserve_exact(self.len())
            .map_err(|_| Error::HostMemory { wanted })?;
        if wanted > 0 {
            self.buffer().reads_on(self.stream())?;
            let (backend, to) = (self.stream().backend(), elements.as_mut_ptr().cast());
            // SAFETY: the whole buffer, ordered on this stream; the vector has room for it.
            unsafe { backend.download(self.stream().raw(), to, self.buffer().address(), wanted)? };
        }
        // SAFETY: the download wrote `len` elements, whose every bit pattern is a value.
        unsafe { elements.set_len(self.len()) };
        Array::from_shape_vec(self.raw_dim(), elements).map_err(|error| Error::Shape {
            operation: "to_ndarray",
            given: format!("shape {:?}", self.shape()),
            wanted: error.to_string(),
        })
    }
}

/// The elements in the order of their memory, and the strides, if the elements lie without a gap in C order of some
/// order of the axes. None of an array with a reversed axis.
fn without_gaps<S: Data, D: Dimension>(array: &ArrayBase<S, D>) -> Option<(&[S::Elem], Vec<usize>)> {
    let stride = |(&stride, &len): (&isize, &usize)| match len {
        // Along such an axis there is no step, and the stride can be anything.
        1 => Some(0),
        _ => usize::try_from(stride).ok(),
    };
    let strides: Option<Vec<usize>> = array.strides().iter().zip(array.shape()).map(stride).collect();
    Some((array.as_slice_memory_order()?, strides?))
}
