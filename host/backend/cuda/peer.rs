// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies from one GPU to another.
//!
//! Arrays come from a pool of the library's, whose memory other devices reach only if the pool says so; a context's peer
//! access is of no account for it. Until then the driver copies by way of the host. So the first copy between two devices
//! has the pools of both grant access to the other, where the machine lets that reach it. Devices that never copy to one
//! another have nothing mapped for it.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cuda_driver::sys;

use super::{Cuda, stream_of};
use crate::backend::{PeerMemory, RawContext, RawPeer, RawStream};
use crate::error::Result;

/// What a backend knows of the others.
#[derive(Debug)]
pub(super) struct Peers {
    /// Its own number, which no other backend of the process has or had: a pool's address is used again.
    number: u64,
    /// The numbers of those that access has been granted to and by, as far as the machine lets it.
    met: Mutex<Vec<u64>>,
}

impl Default for Peers {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            met: Mutex::default(),
        }
    }
}

impl Cuda {
    /// What others need to copy to this device.
    pub(super) fn as_peer(&self) -> RawPeer {
        RawPeer {
            context: self.context.handle(),
            device: self.context.device(),
            pool: self.pool.raw().expose_provenance() as u64,
            number: self.peers.number,
        }
    }

    /// Queues a copy to memory of another device.
    ///
    /// # Safety
    ///
    /// As of [`Backend::copy_to_peer`](crate::backend::Backend::copy_to_peer); the context is current.
    pub(super) unsafe fn copy_there(&self, stream: RawStream, to: PeerMemory, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: this function's contract: the peer lives.
        unsafe { self.meet(to.peer)? };
        let context = |context: RawContext| ptr::with_exposed_provenance_mut(context.0 as usize);
        let (theirs, ours) = (context(to.peer.context), context(self.context.handle()));
        // SAFETY: this function's contract; both contexts live as their devices do.
        let status = unsafe { sys::cuMemcpyPeerAsync(to.address, theirs, from, ours, bytes, stream_of(stream)) };
        self.check("cuMemcpyPeerAsync", status)
    }

    /// Lets both devices reach the memory of the other's pool, where they can; once.
    ///
    /// # Safety
    ///
    /// The peer lives, and its pool with it.
    unsafe fn meet(&self, peer: RawPeer) -> Result<()> {
        let mut met = self.peers.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.contains(&peer.number) {
            return Ok(());
        }
        let (ours, theirs) = (self.context.device(), peer.device);
        let pool_of_peer = ptr::with_exposed_provenance_mut(peer.pool as usize);
        // SAFETY: pools of these devices, or null; this one lives as long as `self`, the other by this function's contract.
        unsafe {
            self.grant(pool_of_peer, theirs, ours)?;
            self.grant(self.pool.raw(), ours, theirs)?;
        }
        met.push(peer.number);
        Ok(())
    }

    /// Lets device `user` reach the memory of `pool`, which is on device `owner`, if it can.
    ///
    /// # Safety
    ///
    /// The pool is null, or a pool of that device that lives.
    unsafe fn grant(&self, pool: sys::CUmemoryPool, owner: sys::CUdevice, user: sys::CUdevice) -> Result<()> {
        if pool.is_null() {
            return Ok(());
        }
        let mut can = 0;
        // SAFETY: writes a number; both are devices.
        let status = unsafe { sys::cuDeviceCanAccessPeer(&mut can, user, owner) };
        self.check("cuDeviceCanAccessPeer", status)?;
        if can == 0 {
            return Ok(());
        }
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                kind: sys::LocationType::DEVICE,
                id: user,
            },
            flags: sys::AccessFlags::READWRITE,
        };
        // SAFETY: a pool that lives, and one valid structure.
        self.check("cuMemPoolSetAccess", unsafe {
            sys::cuMemPoolSetAccess(pool, &access, 1)
        })
    }
}
