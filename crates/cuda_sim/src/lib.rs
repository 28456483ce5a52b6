// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated CUDA GPU: it runs a kernel's grids, blocks, warps, barriers and
//! shared memory on the CPU, and reports what a GPU would get wrong in silence.
//!
//! [`launch`] calls a closure once for each GPU thread. Inside, the closure asks
//! for its place ([`thread_idx`], [`block_idx`], …) and meets the other threads
//! of its block ([`barrier`]) and its warp ([`exchange`]). Blocks run in
//! parallel over the cores; the threads of a block are coroutines on one OS
//! thread which switch only where they wait, about 10 ns a switch. A thread that
//! never waits costs little more than a call.
//!
//! A thread that panics, a barrier that not all threads reach, a warp operation
//! that names an absent lane, too much shared memory, a stack that overflows: each is a [`Fault`] that
//! names kernel, block, thread and source line. It ends the grid, not the
//! process, and prints nothing.
//!
//! # Launches that never end
//!
//! A launch is given up when none of its blocks has ended, or come through the
//! [`grid_barrier`], for 60 seconds, or as
//! many as the environment variable `WARPSMITH_SIM_TIMEOUT` says (`0.5`, `600`;
//! `0` is no limit; it is read once a process). Its threads end at the next
//! function here that waits or touches memory, by a [`Fault`] that names the
//! thread and where it loops or waits. A thread that calls none, as in `loop {}`,
//! cannot be ended, and the launch does not return: then a line on standard
//! error names kernel, block and thread. Time in which the process was stopped
//! does not count.
//!
//! # Reversing a block through shared memory
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use cuda_sim::{LaunchConfig, SharedSite, barrier, launch, shared_memory, static_shared, thread_idx};
//!
//! let output: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
//! launch("reverse", &LaunchConfig::new(1, 64), &|| {
//!     static TILE: SharedSite = SharedSite::new(64 * 4, 4);
//!     let tile = shared_memory(static_shared(&TILE), 64 * 4).cast::<u32>();
//!     let i = thread_idx().x as usize;
//!     // SAFETY: the array has 64 elements, and each thread writes its own.
//!     unsafe { tile.add(i).write(i as u32) };
//!     barrier("sync_threads", 0);
//!     // SAFETY: as above; the barrier has put all writes before all reads.
//!     output[i].store(unsafe { tile.add(63 - i).read() }, Relaxed);
//! })?;
//! assert!((0..64).all(|i| output[i].load(Relaxed) == 63 - i as u32));
//! # Ok::<(), cuda_sim::Error>(())
//! ```
//!
//! # What the engine asks of a kernel
//!
//! - A loop that waits for another thread or block by reading memory must call
//!   [`yield_now`], or it keeps its OS thread until the launch is given up. A
//!   block may wait for blocks of lower number; a higher one need not have
//!   started, but in a cooperative launch it has or will.
//! - In a launch with clusters those begin in linear order, and a block may wait for
//!   all blocks of its cluster and of those of lower number.
//! - A loop that reads memory which other threads write calls [`poll`], if it
//!   calls no other function here: a launch that never ends is given up there.
//! - A thread has 64 KiB of stack. Who has used more is a fault at the next
//!   function here that waits or touches memory. There are 512 KiB more until then;
//!   a thread that comes to their end first, by an array that no GPU's thread has
//!   room for or by a recursion that calls no function here, ends the process, with
//!   a line on stderr that names kernel, block and thread.
//! - A destructor that runs because its thread unwinds may call every function
//!   here; in it, the functions that wait return at once. As everywhere in Rust,
//!   it must not panic.
//! - Panics must unwind: with `panic = "abort"` a fault ends the process.
//!
//! # Features
//!
//! `tensor-cores`: what is built on this crate has the simulated GPU run kernels for tensor cores, too, where a test asks for a GPU
//! with such cores. Their bodies are more code than those of all other kernels.

#![deny(missing_docs)]

// Functions that kernels call all the time are inlined in optimised kernels. Others, such as those of tests, call them:
// inlined there they would be compiled without optimisation, and this crate is compiled with it.

mod barrier;
mod block;
mod check;
mod cluster;
mod config;
mod context;
mod count;
mod crew;
mod dim3;
mod error;
mod grid;
mod hook;
mod launch;
mod meeting;
mod memory;
mod overflow;
mod place;
mod print;
mod schedule;
mod shared;
mod stack;
mod sync;
mod wait;
mod warp;
mod watchdog;
mod workers;
mod written;

pub use barrier::{BarrierResult, GROUP_BARRIERS};
pub use check::{Access, Array, Atomic, Checks, Engine, Finding, FindingKind, Kind, Scope, Space};
pub use config::{LIMITS, LaunchConfig, Limits, Options, TENSOR_CORES};
pub use count::{Counts, LaunchCounters, LineCounters, Operands, Operation, Step};
pub use dim3::Dim3;
pub use error::{Error, Fault, SourceLocation};
pub use launch::{cooperative_blocks, launch, launch_cooperative, launch_counted, launch_with};
pub use memory::{
    access, access_shared, assume_written, atomic, atomic_shared, copies_commit, copies_wait, copy_begins, count,
    dynamic_shared, fence, fence_async, load, load_begins, load_element, map_shared, phase_arrive, phase_wait,
    products, reads_begin, shared_memory, static_shared, store_begins,
};
pub use place::{
    active_mask, block_dim, block_idx, block_in_cluster, cluster_dim, grid_dim, in_kernel, lane, thread_idx,
};
pub use print::print;
pub use schedule::Schedule;
pub use shared::{SharedPtr, SharedSite};
pub use sync::{
    barrier, cluster_barrier, exchange, exchange_bytes, exchange_with, grid_barrier, group_barrier, poll, sync_warp,
    wait_until, yield_now,
};
pub use warp::Lanes;
pub use written::Written;
