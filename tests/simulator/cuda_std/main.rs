// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of the device library on the simulated GPU, one executable: as many would each be linked for themselves.

mod checks;
mod float;
mod narrow;
mod print;
mod shared;
mod tensor_cores;
mod watchdog;
