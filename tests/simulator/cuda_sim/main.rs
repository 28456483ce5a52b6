// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of the simulated GPU, one executable: as many would each be linked for themselves. ../hook.rs, which sets the
//! process's panic hook, is one of its own.

mod common;

mod block;
mod cluster;
mod cooperative;
mod counters;
// Where its unit tests do not run.
#[cfg(thread_sanitizer)]
#[path = "../../../crates/cuda_sim/src/crew.rs"]
#[expect(dead_code, reason = "its tests alone are wanted")]
mod crew;
mod faults;
mod launch;
mod overflow;
mod print;
mod schedules;
mod shared;
mod stuck;
mod warp;
mod watchdog;
