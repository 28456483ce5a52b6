// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is small and goes to the host: the device writes it to page-locked memory of the library, from which the host
//! copies.
//!
//! Of a download to pageable memory the driver makes the same, through memory of its own, and takes twice the time for a
//! number. A number that a kernel makes for the host, as a sum is, needs no copy of the device's at all: the kernel
//! writes it to that memory itself, which the device knows by the same address, and the host looks there until it has
//! come. That is sooner than the stream can say that the kernel is done, and sooner still than a copy behind it.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys;

use super::{Cuda, stream_of};
use crate::backend::RawStream;
use crate::error::Result;

/// The most that is downloaded so, in bytes.
pub(super) const MOST: usize = crate::backend::LANDING;

/// Each byte of what no kernel has written yet: no number that would come often.
const UNWRITTEN: u8 = 0xa5;

/// How often the host looks for a number before it asks the stream, some 2 µs, and how often it asks before it waits as
/// the driver does.
const LOOKS: usize = 64;
const QUERIES: usize = 64;

/// Memory for what arrives, one piece of [`MOST`] bytes for each thread that waits at the same moment.
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
            // SAFETY: allocated by `piece`, and used by no copy or kernel. An error would be one of earlier work.
            let _ = unsafe { sys::cuMemFreeHost(memory.cast()) };
        }
    }
}

/// Whether no unit of that many bytes is as it was before a kernel wrote there. A unit that is written with just those
/// bytes is not told from one that is not: then the stream tells.
///
/// # Safety
///
/// The memory is at least as large, and aligned to 4.
unsafe fn has_landed(memory: *const u8, bytes: usize, unit: usize) -> bool {
    const { assert!(UNWRITTEN == 0xa5) };
    (0..bytes).step_by(unit).all(|at| {
        // SAFETY: within the memory; aligned, since the step is. The device writes meanwhile, so that reads are atomic.
        unsafe {
            let place = memory.add(at);
            match unit {
                1 => (*place.cast::<AtomicU8>()).load(Ordering::Relaxed) != UNWRITTEN,
                2 => (*place.cast::<AtomicU16>()).load(Ordering::Relaxed) != 0xa5a5,
                _ => (*place.cast::<AtomicU32>()).load(Ordering::Relaxed) != 0xa5a5_a5a5,
            }
        }
    })
}

/// All with the context current.
impl Cuda {
    /// A piece that nobody else has.
    fn piece(&self) -> Result<*mut u8> {
        if let Some(memory) = self.landing.unused().pop() {
            return Ok(memory);
        }
        let mut memory = ptr::null_mut();
        // SAFETY: writes an address. With unified addressing, as each 64-bit system has it, kernels use the same.
        let status = unsafe { sys::cuMemHostAlloc(&mut memory, MOST, sys::CU_MEMHOSTALLOC_DEVICEMAP) };
        self.check("cuMemHostAlloc", status)?;
        Ok(memory.cast())
    }

    /// Copies at most [`MOST`] bytes from the device, and waits for the copy.
    ///
    /// # Safety
    ///
    /// As of [`Backend::download`](crate::backend::Backend::download).
    pub(super) unsafe fn download_small(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        assert!(bytes <= MOST, "a download of {bytes} bytes");
        let memory = self.piece()?;
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

    /// A piece of which so many bytes are as no kernel has written them.
    pub(super) fn clear_piece(&self, bytes: usize) -> Result<u64> {
        assert!(bytes <= MOST, "a result of {bytes} bytes");
        let memory = self.piece()?;
        // SAFETY: the piece has room, and is nobody else's.
        unsafe { memory.write_bytes(UNWRITTEN, bytes) };
        Ok(memory.expose_provenance() as u64)
    }

    /// Takes a piece back.
    ///
    /// # Safety
    ///
    /// It is one of [`clear_piece`](Self::clear_piece), and no work writes it any more.
    pub(super) unsafe fn put_piece_back(&self, address: u64) {
        let memory = ptr::with_exposed_provenance_mut(address as usize);
        self.landing.unused().push(memory);
    }

    /// Waits until `bytes` bytes of a piece are written, and copies them.
    ///
    /// # Safety
    ///
    /// As of [`Backend::read_landed`](crate::backend::Backend::read_landed).
    pub(super) unsafe fn read_piece(
        &self,
        stream: RawStream,
        address: u64,
        to: *mut u8,
        bytes: usize,
        unit: usize,
    ) -> Result<()> {
        let memory: *const u8 = ptr::with_exposed_provenance(address as usize);
        // SAFETY: this function's contract.
        unsafe {
            self.wait_for_piece(stream, memory, bytes, unit)?;
            ptr::copy_nonoverlapping(memory, to, bytes);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As [`read_piece`](Self::read_piece).
    unsafe fn wait_for_piece(&self, stream: RawStream, memory: *const u8, bytes: usize, unit: usize) -> Result<()> {
        let raw = stream_of(stream);
        for _ in 0..QUERIES {
            for _ in 0..LOOKS {
                // SAFETY: this function's contract.
                if unsafe { has_landed(memory, bytes, unit) } {
                    return Ok(());
                }
                spin_loop();
            }
            // A kernel that has failed never writes, and one that is done has written, whatever that was.
            // SAFETY: as above.
            if self.is_done("cuStreamQuery", unsafe { sys::cuStreamQuery(raw) })? {
                return Ok(());
            }
        }
        // SAFETY: as above.
        unsafe { self.finish(stream) }
    }
}
