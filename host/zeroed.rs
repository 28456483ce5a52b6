// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that a stream keeps for its launches: 0 at first, then as the launch before has left it.
//!
//! To set it to 0 for each launch takes about a microsecond, a fifth of a small reduction, and so does allocating it.
//! The library's own kernels leave it ready for the next launch.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_std::SliceMut;
use cuda_std::launch::Abi;
use ndarray::Ix1;

use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::launch::Arg;
use crate::stream::Stream;

/// The least that a stream allocates for a purpose, in bytes.
const LEAST: usize = 4096;

/// The most that it keeps, in bytes. More is allocated for its launch.
const MOST: usize = 4 << 20;

/// Launches after which memory is allocated anew, since kernels may tell what earlier launches have left by a number of
/// 30 bits.
const LAUNCHES: u32 = 1 << 29;

/// Whose kernel a launch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelOf {
    /// The library's, which leaves its memory ready for the next launch.
    Library,
    /// The user's, of which that is asked and not known: it is given new memory.
    User,
}

/// What a stream keeps for one purpose.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    memory: Mutex<Option<Memory>>,
}

#[derive(Clone, Copy, Debug)]
struct Memory {
    address: u64,
    bytes: usize,
    launches: u32,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Option<Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of what is kept, which is kept no longer.
    pub(crate) fn take(&self) -> Option<u64> {
        self.lock().take().map(|memory| memory.address)
    }

    /// Calls `launch` with `len` words, for one launch on `stream`, which is always the same: all 0, or as the last
    /// launch for this purpose has left them.
    pub(crate) fn with<W: Element>(
        &self,
        stream: &Stream,
        kernel_of: KernelOf,
        len: usize,
        launch: impl FnOnce(Zeroed<W>) -> Result<()>,
    ) -> Result<()> {
        let bytes = len * size_of::<W>();
        if kernel_of == KernelOf::User || bytes == 0 || bytes > MOST {
            let words = DeviceArray::<W, Ix1>::zeros(stream, len)?;
            // SAFETY: an array of this stream, which nobody else knows; it is freed behind the launch.
            return launch(unsafe { Zeroed::new(words.buffer().address(), len) });
        }
        // Locked until the launch is queued, and taken out: a launch that fails may leave anything.
        let mut kept = self.lock();
        let mut memory = match kept.take() {
            Some(memory) if memory.bytes >= bytes && memory.launches < LAUNCHES => memory,
            other => {
                if let Some(memory) = other {
                    free(stream, memory.address);
                }
                allocate(stream, bytes.next_power_of_two().max(LEAST))?
            }
        };
        memory.launches += 1;
        // SAFETY: allocated on this stream, with at least that many words, and taken out.
        let result = launch(unsafe { Zeroed::new(memory.address, len) });
        match result {
            Ok(()) => *kept = Some(memory),
            Err(_) => free(stream, memory.address),
        }
        result
    }
}

fn allocate(stream: &Stream, bytes: usize) -> Result<Memory> {
    let backend = stream.backend();
    // SAFETY: the backend's own stream, on which the memory is first allocated and then filled.
    let address = unsafe {
        let address = backend.allocate(stream.raw(), bytes)?;
        backend.fill_zero(stream.raw(), address, bytes)?;
        address
    };
    Ok(Memory {
        address,
        bytes,
        launches: 0,
    })
}

/// Frees what was kept; an error is one of earlier work, which every later call reports as well.
fn free(stream: &Stream, address: u64) {
    // SAFETY: allocated by this stream's backend, and used on this stream alone.
    let _ = unsafe { stream.backend().free(stream.raw(), address) };
}

/// Memory that is ready for a launch, as a kernel's argument.
pub(crate) struct Zeroed<W> {
    address: u64,
    len: usize,
    _word: PhantomData<W>,
}

impl<W> Zeroed<W> {
    /// # Safety
    ///
    /// At `address` are `len` words of the stream that the argument is used on, unless `len` is 0; they are neither
    /// freed nor used by another launch before that one is queued.
    unsafe fn new(address: u64, len: usize) -> Self {
        Self {
            address,
            len,
            _word: PhantomData,
        }
    }
}

// SAFETY: `new` was promised memory of the stream, which the launch has for itself.
unsafe impl<W: Element> Arg<SliceMut<'static, W>> for Zeroed<W> {
    fn prepare(&self, _: &'static str, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn abi(&self) -> Abi<SliceMut<'static, W>> {
        let address = match self.len {
            0 => align_of::<W>(),
            _ => self.address as usize,
        };
        Abi {
            head: std::ptr::with_exposed_provenance_mut(address),
            tail: self.len,
        }
    }
}
