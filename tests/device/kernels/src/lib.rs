// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that use each part of the device library, a file for each part.
#![no_std]

pub mod atomics;
pub mod bits;
pub mod clusters;
pub mod cooperative;
/// Kernels that are wrong, each with its corrected form, which the checks of the simulated GPU are tested with.
#[path = "../../../simulator/cuda_std/checks/corpus/mod.rs"]
pub mod corpus;
pub mod counters;
pub mod epilogues;
pub mod faults;
pub mod floats;
pub mod functions;
pub mod memory;
pub mod operators;
pub mod random;
pub mod scan_operators;
pub mod threads;
pub mod views;
pub mod warps;
