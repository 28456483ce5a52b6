// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small downloads: the device writes to page-locked memory of the library, from which the host copies.
//!
//! Of pageable memory the driver makes the same, through memory of its own, and takes twice the time for a number: the
//! sum of an array, say, that the host reads.

use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys;

use super::{Cuda, stream_of};
use crate::backend::RawStream;
use crate::error::Result;

/// The most that is downloaded so, in bytes.
pub(super) const MOST: usize = 64 << 10;

/// Memory for downloads, one piece of [`MOST`] bytes for each thread that downloads at the same moment.
#[derive(Debug, Default)]
pub(super) struct Landing {
    unused: Mutex<Vec<*mut u8>>,
}

impl Landing {
    fn unused(&self) -> MutexGuard<'_, Vec<*mut u8>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    ///
    /// The device's context is current.
    pub(super) unsafe fn free(&mut self) {
        for memory in self.unused().drain(..) {
            // SAFETY: allocated by `download_small`, and used by no copy. An error would be one of earlier work.
            let _ = unsafe { sys::cuMemFreeHost(memory.cast()) };
        }
    }
}

impl Cuda {
    /// Copies at most [`MOST`] bytes from the device, and waits for the copy.
    ///
    /// # Safety
    ///
    /// As of [`Backend::download`](crate::backend::Backend::download); the context is current.
    pub(super) unsafe fn download_small(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        assert!(bytes <= MOST, "a download of {bytes} bytes");
        let unused = self.landing.unused().pop();
        let memory = match unused {
            Some(memory) => memory,
            None => {
                let mut memory = ptr::null_mut();
                // SAFETY: writes an address. No flag: the memory is written by copies alone.
                let status = unsafe { sys::cuMemHostAlloc(&mut memory, MOST, 0) };
                self.check("cuMemHostAlloc", status)?;
                memory.cast()
            }
        };
        let raw = stream_of(stream);
        // SAFETY: the memory has room, and is nobody else's. It stays so until the wait has succeeded: otherwise the
        // copy may still be queued, and it is never used again nor freed. The rest is this function's contract.
        unsafe {
            let copied = self.check(
                "cuMemcpyDtoHAsync",
                sys::cuMemcpyDtoHAsync_v2(memory.cast(), from, bytes, raw),
            );
            self.check("cuStreamSynchronize", sys::cuStreamSynchronize(raw))?;
            if copied.is_ok() {
                ptr::copy_nonoverlapping(memory, to, bytes);
            }
            self.landing.unused().push(memory);
            copied
        }
    }
}
