// SPDX-License-Identifier: MIT OR Apache-2.0
//! A number that a kernel makes for the host, which waits for it: a place in memory of the host's that the kernel
//! writes, so that nothing is copied. For reductions of whole arrays, whose result is read at once.

use std::marker::PhantomData;

use crate::array::Element;
use crate::backend::LANDING;
use crate::error::Result;
use crate::graph::NO_RESULT;
use crate::stream::Stream;

/// What the backend gives for a value: there is no memory of no bytes.
const fn room<T>() -> usize {
    if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
}

/// Room for one value, which one launch on the stream writes whole.
#[derive(Debug)]
pub(crate) struct Landed<'a, T> {
    stream: &'a Stream,
    address: u64,
    _value: PhantomData<T>,
}

impl<'a, T: Element> Landed<'a, T> {
    /// For a launch on that stream, which is to be the next thing that is done with this.
    pub(crate) fn new(stream: &'a Stream) -> Result<Self> {
        const { assert!(size_of::<T>() <= LANDING, "a value of at most 64 KiB") };
        stream.check_not_captured("download", NO_RESULT)?;
        Ok(Self {
            stream,
            address: stream.backend().land(room::<T>())?,
            _value: PhantomData,
        })
    }

    /// Where it is written; by one launch.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn stream(&self) -> &Stream {
        self.stream
    }

    /// The value, when the launch has written it. Other work of the stream may be left then.
    pub(crate) fn read(self) -> Result<T> {
        let mut value = T::zeroed();
        let to = bytemuck::bytes_of_mut(&mut value);
        // What the kernel stores at a time is no smaller than what the type is aligned to.
        let unit = align_of::<T>().min(4);
        let (backend, stream) = (self.stream.backend(), self.stream.raw());
        // SAFETY: the backend's own stream and memory, for one launch, which was queued on the stream.
        unsafe { backend.read_landed(stream, self.address, to.as_mut_ptr(), to.len(), unit)? };
        let (address, stream) = (self.address, self.stream);
        std::mem::forget(self);
        // SAFETY: it was read.
        unsafe { stream.backend().unland(address, room::<T>()) };
        Ok(value)
    }
}

impl<T> Drop for Landed<'_, T> {
    /// Of a launch that has failed, or a value that could not be read: the launch may be queued all the same. What no
    /// wait tells of is never used again.
    fn drop(&mut self) {
        let (backend, stream) = (self.stream.backend(), self.stream.raw());
        // SAFETY: the backend's own stream and memory, which no work uses behind the wait.
        unsafe {
            if backend.synchronize(stream).is_ok() {
                backend.unland(self.address, room::<T>());
            }
        }
    }
}
