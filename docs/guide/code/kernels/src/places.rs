// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chapter "Hello, GPU": the first kernel.

// ANCHOR: kernel
use cuda_std::prelude::*;
use cuda_std::println;

/// Each thread says where it is.
#[kernel]
pub fn places() {
    println!("block {}, thread {}", thread::block_idx_x(), thread::thread_idx_x());
}
// ANCHOR_END: kernel
