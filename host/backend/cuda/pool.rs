// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory pool of a GPU: the driver's stream-ordered allocator, or none where a device has none.

use std::ptr;

use cuda_driver::sys::{self, DeviceAttribute, Status};

use super::context::Context;
use crate::error::Result;

/// A pool of a context; null where the device has none.
#[derive(Debug)]
pub(super) struct Pool(sys::CUmemoryPool);

impl Pool {
    /// A pool that keeps what is freed, if the device has pools.
    pub(super) fn create(context: &Context) -> Result<Self> {
        let mut pool = Self(ptr::null_mut());
        if !context.has(DeviceAttribute::MEMORY_POOLS_SUPPORTED) {
            return Ok(pool);
        }
        let _current = context.enter()?;
        let properties = sys::CUmemPoolProps {
            alloc_type: sys::AllocationType::PINNED,
            handle_types: sys::HandleType::NONE,
            location: sys::CUmemLocation {
                kind: sys::LocationType::DEVICE,
                id: context.device(),
            },
            win32_security_attributes: ptr::null_mut(),
            reserved: [0; 64],
        };
        // SAFETY: a valid structure, and a place for a handle.
        let status = unsafe { sys::cuMemPoolCreate(&mut pool.0, &properties) };
        context.check("cuMemPoolCreate", status)?;
        // Without a threshold, every synchronisation would give the memory back to the system.
        match pool.set_release_threshold(context, u64::MAX) {
            Ok(()) => Ok(pool),
            Err(error) => {
                // SAFETY: nobody has had it.
                unsafe { pool.destroy() };
                Err(error)
            }
        }
    }

    /// Whether there is none, so that memory is given back at once.
    pub(super) fn is_none(&self) -> bool {
        self.0.is_null()
    }

    /// The driver's handle.
    pub(super) fn raw(&self) -> sys::CUmemoryPool {
        self.0
    }

    /// Memory in the order of the stream, where there is a pool; `None` if the device has not enough.
    ///
    /// # Safety
    ///
    /// That of [`Backend::allocate`](crate::backend::Backend::allocate); the context is current.
    pub(super) unsafe fn allocate(
        &self,
        context: &Context,
        stream: sys::CUstream,
        bytes: usize,
    ) -> Result<Option<u64>> {
        let mut address = 0;
        // SAFETY: this function's contract; writes an address.
        let (call, status) = unsafe {
            if self.is_none() {
                ("cuMemAlloc", sys::cuMemAlloc_v2(&mut address, bytes))
            } else {
                let status = sys::cuMemAllocFromPoolAsync(&mut address, bytes, self.0, stream);
                ("cuMemAllocFromPoolAsync", status)
            }
        };
        if status == Status::OUT_OF_MEMORY {
            return Ok(None);
        }
        context.check(call, status)?;
        Ok(Some(address))
    }

    /// The bytes that the pool has of the system, if there is one.
    pub(super) fn reserved(&self, context: &Context) -> Result<Option<u64>> {
        if self.is_none() {
            return Ok(None);
        }
        let _current = context.enter()?;
        let mut reserved = 0u64;
        let (attribute, value) = (sys::PoolAttribute::RESERVED_MEM_CURRENT, (&raw mut reserved).cast());
        // SAFETY: the pool lives as long as `self`; the attribute is a u64.
        let status = unsafe { sys::cuMemPoolGetAttribute(self.0, attribute, value) };
        context.check("cuMemPoolGetAttribute", status)?;
        Ok(Some(reserved))
    }

    /// Gives what nobody uses back to the system.
    pub(super) fn trim(&self, context: &Context) -> Result<()> {
        if self.is_none() {
            return Ok(());
        }
        let _current = context.enter()?;
        // SAFETY: the pool lives as long as `self`.
        context.check("cuMemPoolTrimTo", unsafe { sys::cuMemPoolTrimTo(self.0, 0) })
    }

    /// Has it keep so many bytes at the next wait.
    pub(super) fn set_release_threshold(&self, context: &Context, mut bytes: u64) -> Result<()> {
        if self.is_none() {
            return Ok(());
        }
        let _current = context.enter()?;
        let (attribute, value) = (sys::PoolAttribute::RELEASE_THRESHOLD, (&raw mut bytes).cast());
        // SAFETY: the pool lives as long as `self`; the attribute is a u64.
        let status = unsafe { sys::cuMemPoolSetAttribute(self.0, attribute, value) };
        context.check("cuMemPoolSetAttribute", status)
    }

    /// Destroys it, if there is one. An error would be that of earlier work.
    ///
    /// # Safety
    ///
    /// Nothing uses its memory any more, nor it after this; the context is current.
    pub(super) unsafe fn destroy(&mut self) {
        if !self.is_none() {
            // SAFETY: this function's contract.
            let _ = unsafe { sys::cuMemPoolDestroy(self.0) };
        }
    }
}
