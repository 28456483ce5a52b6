// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory fences: what this thread wrote before is seen by whoever sees what it writes after.
//!
//! A fence orders, it does not wait for other threads; [`sync_threads`](crate::thread::sync_threads) does both for
//! the threads of a block.

use crate::machine;

/// Orders this thread's accesses as seen by its block (`__threadfence_block`).
#[inline(always)]
pub fn block() {
    machine::fence_block();
}

/// Orders this thread's accesses as seen by all threads of the device (`__threadfence`).
#[inline(always)]
pub fn device() {
    machine::fence_device();
}

/// Orders this thread's accesses as seen by the device, the host and other devices (`__threadfence_system`).
#[inline(always)]
pub fn system() {
    machine::fence_system();
}
