// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of the simulated GPU, one executable: as many would each be linked for themselves. ../hook.rs, which sets the
//! process's panic hook, is one of its own.

mod common;

mod block;
mod cluster;
mod cooperative;
mod counters;
mod faults;
mod launch;
mod overflow;
mod print;
mod schedules;
mod shared;
mod stuck;
mod warp;
mod watchdog;
