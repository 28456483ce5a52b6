// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of the laboratory (`warpsmith lab`) and of the guide: each thing in several ways, from the first that comes
//! to mind to one that is near what the hardware has. They are meant to be read and changed; the library's own kernels
//! go further, and are in kernels-gpu.
//!
//! Inputs are `Slice`s, so that the simulated GPU counts each access to them: of a `&[T]` it counts those in the body of
//! the kernel itself, and not those of functions that several kernels share.
#![no_std]
#![deny(missing_docs)]

pub mod blur;
pub mod coalescing;
pub mod divergence;
pub mod hello;
pub mod histogram;
pub mod map;
pub mod matmul;
pub mod monte_carlo;
pub mod reduction;
pub mod scan;
pub mod shared_memory;
pub mod transpose;
