// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small uploads that do not wait: the bytes go through page-locked memory that belongs to the library.
//!
//! The caller may do what it likes with its memory when an upload returns, and the driver promises of pageable memory
//! only that a copy which was waited for has read it. From page-locked memory the driver's documentation has the copy
//! asynchronous: the device reads the memory when the stream comes to it. So an upload copies the caller's bytes into a
//! piece of page-locked memory, queues the copy from there, and records an event behind it. The event tells when the
//! piece may be written again.
//!
//! For small uploads, the weights of a filter say, the wait is most of the cost, some 8 µs on an H200. The host copies
//! [`PIECE`] bytes in a few microseconds, less than the wait takes; larger uploads gain nothing, and are copied from
//! where they lie and waited for.
//!
//! There are up to [`MOST`] pieces for a device, and one more for each further thread that uploads at the same moment;
//! they are made when they are needed. When all are under way, an upload waits for a copy on its own stream, and never
//! for the work of another one.

use std::collections::VecDeque;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys::{self, Status};

use super::status::check_device;
use crate::error::Result;

/// The bytes of a piece, and the most that are uploaded without a wait.
pub(super) const PIECE: usize = 64 << 10;

/// Pieces that are kept: 1 MiB of page-locked memory.
const MOST: usize = 16;

/// The pieces of a device, those that were used longest ago first. All methods want the device's context current.
#[derive(Debug, Default)]
pub(super) struct Staging {
    pieces: Mutex<VecDeque<Piece>>,
}

/// [`PIECE`] bytes of page-locked memory. Not freed when it is dropped: only [`Staging::free`] knows that the driver
/// reads it no more.
#[derive(Debug)]
struct Piece {
    memory: *mut u8,
    /// Recorded behind the last copy from the memory.
    event: sys::CUevent,
    /// The stream of that copy, which may have been destroyed since.
    stream: sys::CUstream,
}

impl Staging {
    /// Queues a copy of `from`, at most [`PIECE`] bytes, which may be reused on return. `false` where nothing was done
    /// since all pieces are under way, and the oldest for another stream.
    ///
    /// # Safety
    ///
    /// As of [`Backend::upload`](crate::backend::Backend::upload); the device's context is current.
    pub(super) unsafe fn upload(&self, device: &str, stream: sys::CUstream, to: u64, from: &[u8]) -> Result<bool> {
        assert!(from.len() <= PIECE, "an upload of {} bytes is not staged", from.len());
        let check = |call, status| check_device(device, call, status);
        let Some(mut piece) = self.take(device, stream)? else {
            return Ok(false);
        };
        piece.stream = stream;
        // SAFETY: the piece has room for the bytes, nobody else has it, and no copy from it is under way. It stays as
        // it is until the event, or the stream, was waited for. The rest is this function's contract.
        let queued = unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), piece.memory, from.len());
            let status = sys::cuMemcpyHtoDAsync_v2(to, piece.memory.cast(), from.len(), stream);
            check("cuMemcpyHtoDAsync", status)
                .and_then(|()| check("cuEventRecord", sys::cuEventRecord(piece.event, stream)))
        };
        // SAFETY: a stream that lives.
        if queued.is_err() && !unsafe { sys::cuStreamSynchronize(stream) }.is_success() {
            // No event tells when the driver has read the piece, and nor does the stream. It is never used again nor
            // freed; the context takes it along.
            return queued.map(|()| true);
        }
        self.pieces().push_back(piece);
        queued.map(|()| true)
    }

    /// A piece that no copy uses: the one used longest ago if its copy is done, or a new one. With all pieces under way
    /// the oldest is waited for if it is for the same stream; if it is for another, there is none.
    fn take(&self, device: &str, stream: sys::CUstream) -> Result<Option<Piece>> {
        let (oldest, full) = {
            let mut pieces = self.pieces();
            let full = pieces.len() >= MOST;
            (pieces.pop_front(), full)
        };
        let Some(piece) = oldest else {
            return Piece::new(device).map(Some);
        };
        // SAFETY: the piece's own event.
        let (call, status) = match unsafe { sys::cuEventQuery(piece.event) } {
            Status::NOT_READY if full && piece.stream == stream => {
                // SAFETY: as above.
                ("cuEventSynchronize", unsafe { sys::cuEventSynchronize(piece.event) })
            }
            status => ("cuEventQuery", status),
        };
        if status == Status::SUCCESS {
            return Ok(Some(piece));
        }
        match piece.stream == stream {
            true => self.pieces().push_front(piece),
            // Last, so that a slow stream does not stand before what others have done.
            false => self.pieces().push_back(piece),
        }
        match status {
            Status::NOT_READY if full => Ok(None),
            Status::NOT_READY => Piece::new(device).map(Some),
            status => check_device(device, call, status).map(|()| None),
        }
    }

    /// Nothing blocks while the guard lives: it is held only to take a piece from the list, or to put it there.
    fn pieces(&self) -> MutexGuard<'_, VecDeque<Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees all pieces, each when its copy is done. One whose event cannot be waited for stays allocated: the driver
    /// may still read it.
    ///
    /// # Safety
    ///
    /// The device's context is current.
    pub(super) unsafe fn free(&mut self) {
        for piece in std::mem::take(&mut *self.pieces()) {
            // SAFETY: the piece is used by nobody else, and after the wait by no copy. An error of the frees would be
            // one of earlier work.
            unsafe {
                if sys::cuEventSynchronize(piece.event).is_success() {
                    let _ = sys::cuMemFreeHost(piece.memory.cast());
                    let _ = sys::cuEventDestroy_v2(piece.event);
                }
            }
        }
    }
}

impl Piece {
    /// A new one. The device's context is current.
    fn new(device: &str) -> Result<Self> {
        let (mut memory, mut event) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes an address. No flag: the memory is for this context and read by copies alone.
        let status = unsafe { sys::cuMemHostAlloc(&mut memory, PIECE, 0) };
        check_device(device, "cuMemHostAlloc", status)?;
        // SAFETY: writes a handle.
        let status = unsafe { sys::cuEventCreate(&mut event, sys::CU_EVENT_DISABLE_TIMING) };
        if let Err(error) = check_device(device, "cuEventCreate", status) {
            // SAFETY: just allocated, and given to nobody.
            let _ = unsafe { sys::cuMemFreeHost(memory) };
            return Err(error);
        }
        Ok(Self {
            memory: memory.cast(),
            event,
            stream: ptr::null_mut(),
        })
    }
}
