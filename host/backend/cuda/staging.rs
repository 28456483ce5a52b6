// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small uploads that do not wait: the bytes go through page-locked memory that belongs to the library.
//!
//! The caller may do what it likes with its memory when an upload returns, and the driver promises of pageable memory
//! only that a copy which was waited for has read it. From page-locked memory the driver's documentation has the copy
//! asynchronous: the device reads the memory when the stream comes to it. So an upload copies the caller's bytes into a
//! piece of page-locked memory and queues the copy from there.
//!
//! A piece is *open* for one stream, whose uploads lie in it one behind the other. When one does not fit any more, or
//! the stream is about to be destroyed, the piece is *closed*: an event is recorded behind its copies, which tells when
//! it may be written again. An event for each upload would be two more calls of the driver, to record and to query it:
//! some 1.5 µs of the 24 that a Gaussian blur of 2^20 pixels takes on an H200, whose weights are uploaded.
//!
//! For small uploads the wait is most of the cost, some 8 µs on an H200. The host copies [`PIECE`] bytes in a few
//! microseconds, less than the wait takes. Of larger ones several threads copy the parts (bulk.rs).
//!
//! There are up to [`MOST`] pieces for a device, open or closed, and one more for each further thread that uploads at
//! the same moment; they are made when they are needed. When all are under way, an upload waits for a copy on its own
//! stream, or takes the piece that is open for a stream which has nothing to do. If there is neither, it is not staged:
//! it never waits for the work of another stream.

use std::collections::VecDeque;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_driver::sys::{self, Status};

use super::context::Context;
use crate::error::Result;

/// The bytes of a piece, and the most that are uploaded without a wait.
pub(super) const PIECE: usize = 64 << 10;

/// Where an upload may begin in a piece.
const ALIGNMENT: usize = 16;

/// Pieces that are kept: 1 MiB of page-locked memory.
const MOST: usize = 16;

/// The pieces of a device. All methods want the device's context current.
#[derive(Debug, Default)]
pub(super) struct Staging {
    pieces: Mutex<Pieces>,
}

/// The pieces but for those that a thread writes to, or queues a copy from.
#[derive(Debug, Default)]
struct Pieces {
    /// Those that were used longest ago first. Their streams live.
    open: VecDeque<Piece>,
    /// Those that were closed longest ago first, but for those that a slow stream still reads.
    closed: VecDeque<Piece>,
}

/// [`PIECE`] bytes of page-locked memory. Not freed when it is dropped: only [`Staging::free`] knows that the driver
/// reads it no more.
#[derive(Debug)]
struct Piece {
    memory: *mut u8,
    /// Bytes that are taken, from the start; a multiple of [`ALIGNMENT`].
    used: usize,
    /// Of a closed piece, recorded behind all copies from it. Of an open one, done or never recorded.
    event: sys::CUevent,
    /// The stream of those copies; null when that is gone.
    stream: sys::CUstream,
}

impl Staging {
    /// Queues a copy of `from`, at most [`PIECE`] bytes, which may be reused on return. `false` where nothing was done
    /// since all pieces are under way for other streams.
    ///
    /// # Safety
    ///
    /// As of [`Backend::upload`](crate::backend::Backend::upload); the device's context is current.
    pub(super) unsafe fn upload(&self, context: &Context, stream: sys::CUstream, to: u64, from: &[u8]) -> Result<bool> {
        assert!(from.len() <= PIECE, "an upload of {} bytes is not staged", from.len());
        // SAFETY: the stream lives.
        let Some(mut piece) = (unsafe { self.take(context, stream, from.len()) })? else {
            return Ok(false);
        };
        // SAFETY: the bytes fit behind those that are used, nobody else has the piece, and no copy reads there. They
        // stay as they are until the piece is closed and its event done, or its stream idle. The rest is this
        // function's contract.
        let status = unsafe {
            let staged = piece.memory.add(piece.used);
            ptr::copy_nonoverlapping(from.as_ptr(), staged, from.len());
            sys::cuMemcpyHtoDAsync_v2(to, staged.cast(), from.len(), stream)
        };
        // Also after an error, which may be one of earlier work: then the copy may be queued.
        piece.used += from.len().next_multiple_of(ALIGNMENT);
        self.pieces().open.push_back(piece);
        context.check("cuMemcpyHtoDAsync", status).map(|()| true)
    }

    /// Closes what is open for a stream, which is then destroyed.
    ///
    /// # Safety
    ///
    /// The stream lives. Nobody uploads on it any more but those who call this when they are done, as one may that was
    /// adopted more than once. The device's context is current.
    pub(super) unsafe fn leave(&self, stream: sys::CUstream) {
        while let Some(piece) = self.take_open(stream) {
            // SAFETY: the stream lives. An error would be one of earlier work, and shows in the next call.
            let _ = unsafe { self.close(piece) };
        }
        // The driver may give the handle to another stream.
        for piece in &mut self.pieces().closed {
            if piece.stream == stream {
                piece.stream = ptr::null_mut();
            }
        }
    }

    /// A piece that is open for the stream, with room for `bytes` bytes; `None` where there is none to be had.
    ///
    /// # Safety
    ///
    /// The stream lives.
    unsafe fn take(&self, context: &Context, stream: sys::CUstream, bytes: usize) -> Result<Option<Piece>> {
        while let Some(piece) = self.take_open(stream) {
            if piece.used + bytes <= PIECE {
                return Ok(Some(piece));
            }
            // SAFETY: the stream lives.
            context.check("cuEventRecord", unsafe { self.close(piece) })?;
        }
        let unused = self.take_unused(context, stream)?;
        Ok(unused.map(|piece| Piece {
            used: 0,
            stream,
            ..piece
        }))
    }

    fn take_open(&self, stream: sys::CUstream) -> Option<Piece> {
        let open = &mut self.pieces().open;
        let index = open.iter().position(|piece| piece.stream == stream)?;
        open.remove(index)
    }

    /// Records the event of an open piece.
    ///
    /// # Safety
    ///
    /// The piece's stream lives.
    unsafe fn close(&self, piece: Piece) -> Status {
        // SAFETY: the piece's own event, and a stream that lives.
        let status = unsafe { sys::cuEventRecord(piece.event, piece.stream) };
        // SAFETY: as above.
        if status.is_success() || unsafe { sys::cuStreamSynchronize(piece.stream) }.is_success() {
            self.pieces().closed.push_back(piece);
        }
        // Otherwise no event tells when the driver has read the piece, and nor does the stream. It is never used again
        // nor freed; the context takes it along.
        status
    }

    /// A piece that no copy uses: the one closed longest ago if its copies are done, or a new one. With all pieces
    /// under way the oldest is waited for if it is of the same stream; else it is the open one that was used longest
    /// ago, if its stream is idle.
    fn take_unused(&self, context: &Context, stream: sys::CUstream) -> Result<Option<Piece>> {
        let mut pieces = self.pieces();
        let full = pieces.open.len() + pieces.closed.len() >= MOST;
        if let Some(piece) = pieces.closed.pop_front() {
            // SAFETY: the piece's own event.
            match unsafe { sys::cuEventQuery(piece.event) } {
                Status::SUCCESS => return Ok(Some(piece)),
                Status::NOT_READY if full && piece.stream == stream => {
                    drop(pieces);
                    return self.wait_for(context, piece).map(Some);
                }
                status => {
                    match piece.stream == stream {
                        true => pieces.closed.push_front(piece),
                        // Last, so that a slow stream does not stand before what others have done.
                        false => pieces.closed.push_back(piece),
                    }
                    if status != Status::NOT_READY {
                        return context.check("cuEventQuery", status).map(|()| None);
                    }
                }
            }
        }
        if !full {
            drop(pieces);
            return Piece::new(context).map(Some);
        }
        let Some(piece) = pieces.open.pop_front() else {
            return Ok(None);
        };
        // SAFETY: the stream lives while the lock is held, since `leave` would have to take the piece first.
        if unsafe { sys::cuStreamQuery(piece.stream) }.is_success() {
            return Ok(Some(piece));
        }
        pieces.open.push_back(piece); // last, as above; an error shows in the copy that is then made
        Ok(None)
    }

    /// Waits until the copies of a closed piece are done.
    fn wait_for(&self, context: &Context, piece: Piece) -> Result<Piece> {
        // SAFETY: the piece's own event.
        let status = unsafe { sys::cuEventSynchronize(piece.event) };
        if let Err(error) = context.check("cuEventSynchronize", status) {
            self.pieces().closed.push_front(piece);
            return Err(error);
        }
        Ok(piece)
    }

    /// The driver is asked for no more than whether something is done while the guard lives, so nothing blocks.
    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees all pieces, each when its copies are done. One whose event cannot be waited for stays allocated: the
    /// driver may still read it. So does one that is open, whose stream could not be destroyed.
    ///
    /// # Safety
    ///
    /// The device's context is current.
    pub(super) unsafe fn free(&mut self) {
        for piece in std::mem::take(&mut self.pieces().closed) {
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
    fn new(context: &Context) -> Result<Self> {
        let (mut memory, mut event) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes an address. No flag: the memory is for this context and read by copies alone.
        let status = unsafe { sys::cuMemHostAlloc(&mut memory, PIECE, 0) };
        context.check("cuMemHostAlloc", status)?;
        // SAFETY: writes a handle.
        let status = unsafe { sys::cuEventCreate(&mut event, sys::CU_EVENT_DISABLE_TIMING) };
        if let Err(error) = context.check("cuEventCreate", status) {
            // SAFETY: just allocated, and given to nobody.
            let _ = unsafe { sys::cuMemFreeHost(memory) };
            return Err(error);
        }
        Ok(Self {
            memory: memory.cast(),
            used: 0,
            event,
            stream: ptr::null_mut(),
        })
    }
}
