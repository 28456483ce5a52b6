// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device library on the device that `WARPSMITH_DEVICE` names. One executable, but for what ends a process's
//! context on a GPU.

mod atomics;
mod bits;
mod clusters;
mod cooperative;
mod counters;
mod epilogues;
mod floats;
mod functions;
mod memory;
mod operators;
mod random;
mod scan_operators;
mod threads;
mod views;
mod warps;
