// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory fences: what this thread wrote before is seen by whoever sees what it writes after.
//!
//! A fence orders, it does not wait for other threads; [`sync_threads`](crate::thread::sync_threads) does both for
//! the threads of a block.
//!
//! ```
//! use cuda_std::fence;
//! use cuda_std::prelude::*;
//!
//! /// Block 0 computes several values, then says so; block 1 waits for that, and adds them up.
//! #[kernel(max_threads = 1)]
//! pub fn hand_on(memory: SliceMut<'_, u32>) {
//!     if thread::block_idx_x() == 0 {
//!         for i in 1..4 {
//!             memory.set(i, 10 * i as u32);
//!         }
//!         // Who sees the flag sees all that was written before it.
//!         fence::device();
//!         memory.atomic(0).store(1);
//!     } else {
//!         while memory.atomic(0).load() == 0 {
//!             thread::nanosleep(100);
//!         }
//!         fence::device();
//!         memory.set(4, memory.get(1) + memory.get(2) + memory.get(3));
//!     }
//! }
//! # let mut memory = [0; 5];
//! # cuda_std::launch::on_simulator(2, 1, &mut memory, hand_on);
//! assert_eq!(memory, [1, 10, 20, 30, 60]);
//! ```

use crate::machine;

/// Orders this thread's accesses as seen by its block (`__threadfence_block`).
#[inline(always)]
#[track_caller]
pub fn block() {
    machine::fence_block();
}

/// Orders this thread's accesses as seen by all threads of the device (`__threadfence`).
#[inline(always)]
#[track_caller]
pub fn device() {
    machine::fence_device();
}

/// Orders this thread's accesses as seen by the device, the host and other devices (`__threadfence_system`).
#[inline(always)]
#[track_caller]
pub fn system() {
    machine::fence_system();
}
