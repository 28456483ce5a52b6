// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-locked memory for the host. It is the process's own, which the driver only locks: memory that the driver allocates
//! goes with its context, and a reset ends that while the host may read what is in it.

use std::alloc::{alloc, dealloc};
use std::ptr;

use cuda_driver::sys::{self, Status};

use super::Cuda;
use super::generation::{free_pinned, pinned_layout};
use crate::backend::system::{has_room, prefer_huge_pages};
use crate::error::Result;

impl Cuda {
    /// That of [`Backend::pin`](crate::backend::Backend::pin); the context is current.
    pub(super) fn lock_memory(&self, bytes: usize) -> Result<Option<u64>> {
        let Some(layout) = pinned_layout(bytes).filter(|layout| layout.size() > 0 && has_room(bytes)) else {
            return Ok(None);
        };
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc(layout) };
        if memory.is_null() {
            return Ok(None);
        }
        prefer_huge_pages(memory, bytes);
        // So that it is initialised for whoever reads it.
        // SAFETY: as many bytes were allocated.
        unsafe { memory.write_bytes(0, bytes) };
        let address = memory.expose_provenance() as u64;
        // SAFETY: memory of that size. No flag: with unified addressing all contexts know the memory.
        let status = unsafe { sys::cuMemHostRegister_v2(memory.cast(), bytes, 0) };
        let registered = match status {
            Status::OUT_OF_MEMORY => Ok(None),
            status => self.check("cuMemHostRegister", status).map(|()| Some(address)),
        };
        if !matches!(registered, Ok(Some(_))) {
            // SAFETY: allocated just now, by that layout.
            unsafe { dealloc(memory, layout) };
        }
        registered
    }

    /// Gives back what [`lock_memory`](Self::lock_memory) gave.
    ///
    /// # Safety
    ///
    /// As of [`Backend::unpin`](crate::backend::Backend::unpin); the context is current.
    pub(super) unsafe fn unlock_memory(&self, address: u64, bytes: usize) {
        let memory = ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: this function's contract. Memory that stays locked is kept: the driver may still know it.
        unsafe {
            match sys::cuMemHostUnregister(memory) {
                Status::SUCCESS => free_pinned(address, bytes),
                _ => self.context.generation().strand(address, bytes),
            }
        }
    }
}
