// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of arrays between the host and a device. They are above the transposition, which puts what lies in another
//! order of the axes in C order on the device.

use ndarray::{Array, ArrayBase, Data, DataMut, Dimension, Ix1, aview1};

use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::backend::{PeerMemory, prefer_huge_pages};
use crate::error::{Error, Result};
use crate::graph::{Capture, NO_RESULT, READ_ONCE};
use crate::stream::Stream;

/// Copies between the host and the device.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// Copies an array of any layout to the device.
    ///
    /// An array in C order is copied as it lies. So is one whose elements have no gap between them and lie in another
    /// order of the axes, such as Fortran order; they are then put in C order on the device, for which it holds them
    /// twice for a while. Any other is put in C order on the host first.
    ///
    /// `array` may change or go when this returns. On a GPU the copy is queued by way of page-locked memory of the
    /// library's, to which several threads copy a large array; in a [`PinnedArray`](crate::PinnedArray) the device copies
    /// it from where it lies.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the device has not enough, [`Error::Cuda`] if the driver fails; for an array in
    /// another order of the axes also those of a launch.
    ///
    /// # Examples
    ///
    /// Of an array, and a part of one:
    ///
    /// ```
    /// use ndarray::{array, s};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let matrix = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let x = DeviceArray::from_ndarray(stream, &matrix)?;
    /// assert_eq!(x.to_ndarray()?, matrix);
    /// let column = DeviceArray::from_ndarray(stream, &matrix.slice(s![.., 1]))?;
    /// assert_eq!(column.to_ndarray()?, array![2.0, 5.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("asarray", "array", "to_gpu", "to_device"))]
    pub fn from_ndarray<S: Data<Elem = T>>(stream: &Stream, array: &ArrayBase<S, D>) -> Result<Self> {
        let mut result = Self::uninit(stream, array.raw_dim())?;
        result.upload(array)?;
        Ok(result)
    }

    /// An array that an operation makes of its own parameters, and only reads. A graph has it as it is now in all of its
    /// launches.
    pub(crate) fn literal<S: Data<Elem = T>>(stream: &Stream, array: &ArrayBase<S, D>) -> Result<Self> {
        let Some(capture) = Capture::of(stream) else {
            return Self::from_ndarray(stream, array);
        };
        let literal = Capture::outside(|| Self::from_ndarray(stream, array))?;
        capture.keep_literal(literal.buffer());
        Ok(literal)
    }
}

/// Copies of slices.
impl<T: Element> DeviceArray<T, Ix1> {
    /// Copies a slice to the device, as [`from_ndarray`](Self::from_ndarray); [`into_shape`](Self::into_shape) gives it more axes.
    ///
    /// # Errors
    ///
    /// As [`from_ndarray`](Self::from_ndarray).
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let numbers: Vec<f32> = vec![1.0, 4.0, 9.0, 16.0];
    /// let x = DeviceArray::from_slice(device.default_stream(), &numbers)?.into_shape((2, 2))?;
    /// assert_eq!(x.sqrt()?.to_vec()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("array", "from_vec"))]
    pub fn from_slice(stream: &Stream, elements: &[T]) -> Result<Self> {
        Self::from_ndarray(stream, &aview1(elements))
    }
}

/// Copies between the host and arrays or views.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// A copy of the elements at home on `stream`, of this device or another. A view that is not a whole array in C order is
    /// copied on its own device first.
    ///
    /// Between two GPUs the copy is queued, and goes from one to the other where the machine lets it, else by way of the
    /// host's memory; the streams of both wait for it, and the host does not. The first such copy lets the two reach each
    /// other's arrays, which takes a moment. Between a GPU and the simulated one it goes by way of the host, which waits.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the device has not enough, [`Error::Cuda`] if the driver fails; by way of the host,
    /// also those of [`to_ndarray`](DeviceArrayRef::to_ndarray).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let (one, other) = (Device::auto()?, Device::simulator());
    /// let x = DeviceArray::from_ndarray(one.default_stream(), &array![1, 2, 3])?;
    /// let y = DeviceArray::from_ndarray(other.default_stream(), &array![10, 20, 30])?;
    /// // Operands of two devices are an error; a copy makes them of one.
    /// assert!(x.add(&y).is_err());
    /// assert_eq!(x.add(&y.to_device(x.stream())?)?.to_ndarray()?, array![11, 22, 33]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_device(&self, stream: &Stream) -> Result<DeviceArray<T, D>> {
        if self.is_part() || !self.is_standard_layout() {
            return self.view().to_array()?.to_device(stream);
        }
        let (home, bytes) = (self.stream(), self.buffer().bytes());
        let peer = stream.backend().peer().filter(|_| home.backend().peer().is_some());
        if !home.same_device(stream) && peer.is_none() {
            return DeviceArray::from_ndarray(stream, &self.to_ndarray()?);
        }
        let result = DeviceArray::uninit(stream, self.raw_dim())?;
        if bytes == 0 {
            return Ok(result);
        }
        let (from, to) = (self.buffer().address(), result.buffer().address());
        let Some(peer) = peer.filter(|_| !home.same_device(stream)) else {
            self.buffer().reads_on(stream)?;
            result.buffer().writes_on(stream)?; // for a graph, which is to know
            // SAFETY: two whole buffers of as many bytes, ordered on this stream.
            unsafe { stream.queue_copy(to, from, bytes)? };
            return Ok(result);
        };
        for end in [home, stream] {
            end.check_not_captured("to_device", "a graph is of one device")?;
        }
        self.buffer().reads_on(home)?;
        home.wait_for(stream)?; // the memory is there from then on
        let to = PeerMemory { peer, address: to };
        let stay = stream.backend().stay()?;
        // SAFETY: two whole buffers of as many bytes, the other device's of a context that no reset destroys meanwhile. The
        // source is ordered on its own stream, which the copy is on; the result's stream comes behind it, or it is waited
        // for.
        let copied = unsafe { home.backend().copy_to_peer(home.raw(), to, from, bytes) };
        drop(stay);
        let ordered = stream.wait_for(home);
        if ordered.is_err() && home.synchronize().is_err() {
            // The copy may be queued, and nothing tells when it is done.
            std::mem::forget(result);
            return Err(copied.and(ordered).expect_err("one of them is an error"));
        }
        copied.and(ordered).map(|()| result)
    }

    /// Copies an array of any layout, as [`from_ndarray`](DeviceArray::from_ndarray), to these elements; by way of the
    /// device's memory where they are not in C order without a gap.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, and those of [`from_ndarray`](DeviceArray::from_ndarray).
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
    #[doc(alias = "memcpy_htod")]
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
        if self.len() * size_of::<T>() == 0 {
            return Ok(());
        }
        if let Some(elements) = array.as_slice() {
            return self.upload_in_order(elements);
        }
        if let Some(elements) = array.as_slice_memory_order()
            && let Some(strides) = forwards(array.shape(), array.strides())
        {
            return self.upload_strided(elements, strides);
        }
        match array.as_standard_layout().as_slice() {
            Some(elements) => self.upload_in_order(elements),
            None => unreachable!("an array in standard layout is a slice"),
        }
    }

    /// Copies elements in C order from the host.
    fn upload_in_order(&mut self, elements: &[T]) -> Result<()> {
        let stream = self.stream().clone();
        self.write_in_order(&stream, &mut |x| x.upload_elements(elements))
    }

    /// Copies elements that lie so on the host, without a gap.
    fn upload_strided(&mut self, elements: &[T], strides: Vec<usize>) -> Result<()> {
        let mut staged = DeviceArray::<T, Ix1>::uninit(self.stream(), Ix1(elements.len()))?;
        staged.upload_elements(elements)?;
        staged.view().laid_out(self.raw_dim(), strides).to_array_into(self)
    }

    /// Copies all elements, which lie in C order without a gap.
    fn upload_elements(&mut self, elements: &[T]) -> Result<()> {
        assert_eq!(elements.len(), self.len(), "as many elements as the array has");
        self.stream().check_not_captured("upload", READ_ONCE)?;
        self.writes_on(self.stream())?;
        let (backend, bytes) = (self.stream().backend(), bytemuck::cast_slice(elements));
        // SAFETY: elements without a gap, which have as many bytes, borrowed mutably and ordered on this stream.
        unsafe { backend.upload(self.stream().raw(), self.address(), bytes)? };
        if self.is_part() {
            // Once more: other threads may have prepared other parts of the array since.
            self.writes_on(self.stream())?;
        }
        Ok(())
    }

    /// Copies the elements to the host, in C order; those of a view that lie otherwise are put in order on the device first.
    /// Waits for the work that they depend on. Several threads copy a large array, which takes most of its time to make the
    /// result's pages; [`copy_to_ndarray`](Self::copy_to_ndarray) and [`download_async`](Self::download_async) use
    /// memory again.
    ///
    /// # Errors
    ///
    /// [`Error::KernelFailed`] if a kernel of the device failed, [`Error::HostMemory`] if the host has not enough
    /// memory, [`Error::Cuda`] if the driver fails; of a view that is put in order, those of
    /// [`to_array`](Self::to_array).
    #[doc(alias("asnumpy", "copy_to_host"))]
    pub fn to_ndarray(&self) -> Result<Array<T, D>> {
        let mut elements: Vec<T> = Vec::new();
        // Elements that are repeated can be more than there are addresses.
        let wanted = self.len().saturating_mul(size_of::<T>());
        elements
            .try_reserve_exact(self.len())
            .map_err(|_| Error::HostMemory { wanted })?;
        prefer_huge_pages(elements.as_mut_ptr().cast(), wanted);
        // SAFETY: the vector has room for all elements.
        unsafe { self.download(elements.as_mut_ptr())? };
        // SAFETY: the download wrote `len` elements, whose every bit pattern is a value.
        unsafe { elements.set_len(self.len()) };
        Array::from_shape_vec(self.raw_dim(), elements).map_err(|error| Error::Shape {
            operation: "to_ndarray",
            given: format!("shape {:?}", self.shape()),
            wanted: error.to_string(),
        })
    }

    /// Copies the elements to the host, in C order, as [`to_ndarray`](Self::to_ndarray).
    ///
    /// # Errors
    ///
    /// As [`to_ndarray`](Self::to_ndarray).
    #[doc(alias = "tolist")]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        // In C order, the elements begin at the vector's first.
        Ok(self.to_ndarray()?.into_raw_vec_and_offset().0)
    }

    /// Copies the elements into an array of the host's, of any layout; in C order without a copy in between. Waits for the
    /// work that they depend on.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, and those of [`to_ndarray`](Self::to_ndarray); `array` may have been
    /// written to then.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2], [3, 4]])?;
    /// let mut host = Array2::zeros((2, 2));
    /// x.copy_to_ndarray(&mut host.view_mut().reversed_axes())?;
    /// assert_eq!(host, array![[1, 3], [2, 4]]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "memcpy_dtoh")]
    pub fn copy_to_ndarray<S: DataMut<Elem = T>>(&self, array: &mut ArrayBase<S, D>) -> Result<()> {
        if self.shape() != array.shape() {
            return Err(Error::Shape {
                operation: "copy_to_ndarray",
                given: format!("shape {:?}", array.shape()),
                wanted: format!("shape {:?}", self.shape()),
            });
        }
        match array.as_slice_mut() {
            // SAFETY: as many elements.
            Some(elements) => unsafe { self.download(elements.as_mut_ptr()) },
            None => {
                array.assign(&self.to_ndarray()?);
                Ok(())
            }
        }
    }

    /// Copies all elements to the host, and waits for the copy.
    ///
    /// # Safety
    ///
    /// There is room for them, which may be uninitialised.
    unsafe fn download(&self, to: *mut T) -> Result<()> {
        if self.is_empty() || size_of::<T>() == 0 {
            return Ok(());
        }
        let (stream, x) = (self.stream(), &*self.in_order()?);
        stream.check_not_captured("download", NO_RESULT)?;
        x.reads_on(stream)?;
        // SAFETY: elements without a gap, ordered on this stream; the rest is this function's contract.
        unsafe {
            stream
                .backend()
                .download(stream.raw(), to.cast(), x.address(), x.bytes().len())
        }
    }
}

/// The strides of elements of the host, if no axis is reversed.
fn forwards(shape: &[usize], strides: &[isize]) -> Option<Vec<usize>> {
    let stride = |(&stride, &len): (&isize, &usize)| match len {
        // Along such an axis there is no step, and the stride can be anything.
        1 => Some(0),
        _ => usize::try_from(stride).ok(),
    };
    strides.iter().zip(shape).map(stride).collect()
}
