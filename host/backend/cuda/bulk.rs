// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large copies between pageable memory of the host and the device: in chunks, by way of page-locked memory, by several
//! threads.
//!
//! The driver does the same for a pageable copy with one thread and small chunks. On an H200 that gives 6.8 GB/s up; it
//! gives 1.4 GB/s down into memory that was never touched, where the system has to find and clear each page when the
//! first byte is written to it. The device copies at 53 GB/s to and from page-locked memory. So here several threads
//! copy, each a chunk at a time, while the device copies the others' chunks; and several threads find pages.
//!
//! A *piece* is page-locked memory for one chunk, with an event that is recorded behind the device's copy. An upload
//! returns when the last chunk has been read: the pieces are under way then, and their events tell when they may be
//! written again. The caller's memory is touched by the host alone, so nothing of it is in use when a copy fails.
//!
//! All pieces are made when they are needed, [`MOST`] of them. When all are under way for other streams, a chunk is
//! copied as it lies and waited for: nobody waits for the work of another stream.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use cuda_driver::sys::{self, Status};

use super::{Cuda, stream_of};
use crate::backend::RawStream;
use crate::error::Result;

/// The bytes of a chunk: those of a huge page, so that no two threads touch the same one first.
const CHUNK: usize = 2 << 20;

/// Pieces at most: two for each of the threads of a copy, 32 MiB.
const MOST: usize = 2 * MOST_THREADS;

/// Threads of a copy at most. They share the memory's bandwidth, of which eight cores take enough for the bus.
const MOST_THREADS: usize = 8;

/// For so many bytes a thread is worth starting, which takes some 20 µs.
const BYTES_PER_THREAD: usize = 2 * CHUNK;

/// The pieces of a device.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    pieces: Mutex<Pieces>,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Those that nobody writes or reads on the host, the one that was used longest ago first.
    waiting: VecDeque<Piece>,
    /// How many there are, with those in use.
    made: usize,
}

/// [`CHUNK`] bytes of page-locked memory. Not freed when it is dropped: only [`Bulk::free`] knows that the driver
/// uses it no more.
#[derive(Debug)]
struct Piece {
    memory: *mut u8,
    /// Recorded behind the last copy.
    event: sys::CUevent,
    /// The stream of that copy. When it is gone, another one may have its handle, which then waits for it: a wait for a
    /// copy that is done, or soon will be.
    stream: sys::CUstream,
}

// SAFETY: the driver's handles and page-locked memory may be used on every thread.
unsafe impl Send for Piece {}

/// The parts of a copy, each of which is given to one thread.
struct Chunks {
    next: AtomicUsize,
    bytes: usize,
    /// How far the first byte is behind the boundary of a chunk.
    skew: usize,
}

impl Chunks {
    /// The chunks of `bytes` bytes of memory at `address`, with boundaries at multiples of their size.
    fn of(address: usize, bytes: usize) -> Self {
        Self {
            next: AtomicUsize::new(0),
            bytes,
            skew: address % CHUNK,
        }
    }

    /// The next one that nobody has.
    fn claim(&self) -> Option<Range<usize>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let start = number.checked_mul(CHUNK)?.saturating_sub(self.skew);
        let end = ((number + 1).saturating_mul(CHUNK) - self.skew).min(self.bytes);
        (start < end).then_some(start..end)
    }

    /// Leaves nothing to be claimed.
    fn stop(&self) {
        self.next.store(usize::MAX / 2, Ordering::Relaxed);
    }
}

/// How many threads copy that many bytes.
fn threads(bytes: usize) -> usize {
    // The system is asked once: it reads files to tell.
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
    (bytes / BYTES_PER_THREAD).clamp(1, MOST_THREADS.min(cores))
}

/// Copies of any size, with the context current or not.
impl Cuda {
    /// Copies to the device. All of `from` has been read on return; the device's copies are queued.
    ///
    /// # Safety
    ///
    /// As of [`Backend::upload`](crate::backend::Backend::upload).
    pub(super) unsafe fn upload_bulk(&self, stream: RawStream, to: u64, from: &[u8]) -> Result<()> {
        let chunks = Chunks::of(from.as_ptr() as usize, from.len());
        self.in_threads(&chunks, &|| {
            while let Some(range) = chunks.claim() {
                // SAFETY: this function's contract: a part of the copy.
                unsafe { self.upload_chunk(stream, to + range.start as u64, &from[range])? };
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// As of [`Backend::upload`](crate::backend::Backend::upload); the context is current.
    unsafe fn upload_chunk(&self, stream: RawStream, to: u64, from: &[u8]) -> Result<()> {
        let raw = stream_of(stream);
        let Some(piece) = self.take_piece(raw)? else {
            // SAFETY: this function's contract; the copy is waited for.
            return unsafe { self.upload_directly(stream, to, from) };
        };
        // SAFETY: the piece has room for a chunk, and nobody else uses it. The rest is this function's contract.
        let status = unsafe {
            ptr::copy_nonoverlapping(from.as_ptr(), piece.memory, from.len());
            sys::cuMemcpyHtoDAsync_v2(to, piece.memory.cast(), from.len(), raw)
        };
        // Also after an error, which may be one of earlier work: then the copy may be queued.
        let recorded = self.record_piece(piece, raw).map(|piece| self.put_piece(piece));
        self.check("cuMemcpyHtoDAsync", status).and(recorded)
    }

    /// Copies from the device, and waits for the copy.
    ///
    /// # Safety
    ///
    /// As of [`Backend::download`](crate::backend::Backend::download).
    pub(super) unsafe fn download_bulk(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        let to = to.expose_provenance();
        let chunks = Chunks::of(to, bytes);
        self.in_threads(&chunks, &|| {
            // The device copies the next chunk while this thread copies the one before.
            let mut last: Option<Arriving<'_>> = None;
            while let Some(range) = chunks.claim() {
                let part = (ptr::with_exposed_provenance_mut(to + range.start), range.len());
                // SAFETY: this function's contract: a part of the copy.
                let next = unsafe { self.begin_download(stream, part, from + range.start as u64)? };
                if let Some(arriving) = std::mem::replace(&mut last, next) {
                    arriving.finish()?;
                }
            }
            last.map_or(Ok(()), Arriving::finish)
        })
    }

    /// Queues the copy of a chunk; `None` where it has been copied, as no piece was free.
    ///
    /// # Safety
    ///
    /// As of [`Backend::download`](crate::backend::Backend::download), until the chunk is finished or dropped; the
    /// context is current.
    unsafe fn begin_download(
        &self,
        stream: RawStream,
        (to, bytes): (*mut u8, usize),
        from: u64,
    ) -> Result<Option<Arriving<'_>>> {
        let raw = stream_of(stream);
        let Some(piece) = self.take_piece(raw)? else {
            // SAFETY: this function's contract; the copy is waited for.
            return unsafe { self.download_directly(stream, to, from, bytes) }.map(|()| None);
        };
        // SAFETY: the piece has room for a chunk, and nobody else uses it. The rest is this function's contract.
        let status = unsafe { sys::cuMemcpyDtoHAsync_v2(piece.memory.cast(), from, bytes, raw) };
        // Also after an error: as above.
        let piece = self.record_piece(piece, raw)?;
        let arriving = Arriving {
            cuda: self,
            piece: Some(piece),
            to,
            bytes,
        };
        self.check("cuMemcpyDtoHAsync", status).map(|()| Some(arriving))
    }

    /// Does `work`, which claims chunks until there is none, on as many threads as the copy is worth.
    fn in_threads(&self, chunks: &Chunks, work: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
        let work = || {
            let done = self.enter().and_then(|_current| work());
            if done.is_err() {
                chunks.stop();
            }
            done
        };
        thread::scope(|scope| {
            // One that the system refuses to start leaves its chunks to the others.
            let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads(chunks.bytes)).filter_map(start).collect();
            others.into_iter().fold(work(), |result, other| match other.join() {
                Ok(done) => result.and(done),
                Err(panic) => resume_unwind(panic),
            })
        })
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.bulk.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece that no copy uses: the one used longest ago if its copy is done, or a new one, or with all of them under
    /// way the oldest, if it is of the same stream.
    fn take_piece(&self, stream: sys::CUstream) -> Result<Option<Piece>> {
        let mut pieces = self.pieces();
        let full = pieces.made >= MOST;
        if let Some(piece) = pieces.waiting.pop_front() {
            // SAFETY: the piece's own event.
            match unsafe { sys::cuEventQuery(piece.event) } {
                Status::SUCCESS => return Ok(Some(piece)),
                Status::NOT_READY if full && piece.stream == stream => {
                    drop(pieces);
                    // SAFETY: as above.
                    let status = unsafe { sys::cuEventSynchronize(piece.event) };
                    if let Err(error) = self.check("cuEventSynchronize", status) {
                        self.put_piece(piece);
                        return Err(error);
                    }
                    return Ok(Some(piece));
                }
                status => {
                    match piece.stream == stream {
                        true => pieces.waiting.push_front(piece),
                        // Last, so that a slow stream does not stand before what others have done.
                        false => pieces.waiting.push_back(piece),
                    }
                    if status != Status::NOT_READY {
                        return self.check("cuEventQuery", status).map(|()| None);
                    }
                }
            }
        }
        if full {
            return Ok(None);
        }
        pieces.made += 1;
        drop(pieces);
        let piece = self.new_piece();
        if piece.is_err() {
            self.pieces().made -= 1;
        }
        piece.map(Some)
    }

    fn new_piece(&self) -> Result<Piece> {
        let (mut memory, mut event) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes an address. No flag: the memory is read and written by copies alone.
        let status = unsafe { sys::cuMemHostAlloc(&mut memory, CHUNK, 0) };
        self.check("cuMemHostAlloc", status)?;
        // SAFETY: writes a handle.
        let status = unsafe { sys::cuEventCreate(&mut event, sys::CU_EVENT_DISABLE_TIMING) };
        if let Err(error) = self.check("cuEventCreate", status) {
            // SAFETY: just allocated, and given to nobody.
            let _ = unsafe { sys::cuMemFreeHost(memory) };
            return Err(error);
        }
        Ok(Piece {
            memory: memory.cast(),
            event,
            stream: ptr::null_mut(),
        })
    }

    /// Records the piece's event behind its copy. Where neither the event nor the stream tells when the copy is done,
    /// the piece is never used again nor freed; the context takes it along.
    fn record_piece(&self, piece: Piece, stream: sys::CUstream) -> Result<Piece> {
        // SAFETY: the piece's own event, and a stream that lives while something is copied on it.
        let status = unsafe { sys::cuEventRecord(piece.event, stream) };
        if let Err(error) = self.check("cuEventRecord", status) {
            // SAFETY: as above.
            if unsafe { sys::cuStreamSynchronize(stream) }.is_success() {
                self.put_piece(piece);
            }
            return Err(error);
        }
        Ok(Piece { stream, ..piece })
    }

    fn put_piece(&self, piece: Piece) {
        self.pieces().waiting.push_back(piece);
    }
}

/// A chunk that the device copies to the host.
struct Arriving<'a> {
    cuda: &'a Cuda,
    /// None when it is dropped.
    piece: Option<Piece>,
    to: *mut u8,
    bytes: usize,
}

impl Arriving<'_> {
    /// Waits for the device's copy, and copies to where the bytes are wanted.
    fn finish(self) -> Result<()> {
        let Some(piece) = &self.piece else { return Ok(()) };
        // SAFETY: the piece's own event.
        let status = unsafe { sys::cuEventSynchronize(piece.event) };
        self.cuda.check("cuEventSynchronize", status)?;
        // SAFETY: the device has written as many bytes; the target is the caller's, by the contract of
        // `begin_download`.
        unsafe { ptr::copy_nonoverlapping(piece.memory, self.to, self.bytes) };
        Ok(())
    }
}

impl Drop for Arriving<'_> {
    /// The event tells when the piece may be used again, whether the copy was waited for or not.
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.cuda.put_piece(piece);
        }
    }
}

impl Bulk {
    /// Frees all pieces, each when its copy is done. One whose event cannot be waited for stays allocated: the driver
    /// may still use it.
    ///
    /// # Safety
    ///
    /// The device's context is current.
    pub(super) unsafe fn free(&mut self) {
        let pieces = self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces.waiting.drain(..) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_every_byte_once_with_boundaries_at_huge_pages() {
        for (address, bytes) in [(0, 1), (0, 3 * CHUNK), (5, CHUNK), (CHUNK - 1, 2 * CHUNK + 7), (3, 10)] {
            let chunks = Chunks::of(address, bytes);
            let all: Vec<_> = std::iter::from_fn(|| chunks.claim()).collect();
            assert_eq!((all[0].start, all[all.len() - 1].end), (0, bytes));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(
                all[1..]
                    .iter()
                    .all(|chunk| (address + chunk.start).is_multiple_of(CHUNK))
            );
            assert!(all.iter().all(|chunk| chunk.len() <= CHUNK));
            assert!(chunks.claim().is_none());
        }
        let chunks = Chunks::of(0, 10 * CHUNK);
        chunks.stop();
        assert!(chunks.claim().is_none());
    }

    #[test]
    fn a_small_copy_takes_one_thread() {
        assert_eq!(threads(CHUNK), 1);
        assert!((1..=MOST_THREADS).contains(&threads(usize::MAX)));
    }
}
