// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warpsmith's kernels: a library of generic device code first, a set of PTX modules second.
//!
//! The layers, from below: the intrinsics of [`cuda_std`]; what threads compute together ([`cuda_block`]); numbers and
//! operators ([`num`], [`op`]); and the kernels, one file per algorithm family, short, and public as functions too, so that
//! other kernel crates can instantiate the same code with their own types and operators.
//!
//! Tuning (threads a block, elements a thread) is constant data beside each kernel, from which the host derives its
//! launch, so that the two cannot disagree.
#![no_std]
#![deny(missing_docs)]
// Arrays stay in registers where every index is a constant, which it is in an unrolled loop over indices.
#![allow(clippy::needless_range_loop)]

pub mod attention;
pub mod binary;
pub mod blur;
mod cast;
#[cfg(not(target_arch = "nvptx64"))]
pub mod compiled;
pub mod convolve;
pub mod create;
pub mod elementwise;
pub mod function;
mod generate;
pub mod grayscale;
pub mod histogram;
pub mod index;
pub mod map;
pub mod matmul;
mod narrow;
pub mod num;
pub mod op;
pub mod pixel;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod select;
pub mod sort;
mod tile;
pub mod top_k;
pub mod transpose;
mod user;

#[doc(hidden)]
pub use bytemuck::Pod as __Pod;
