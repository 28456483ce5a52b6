// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads compute together: the collectives of CUB, for kernels in Rust.
//!
//! The layer between the instructions of [`cuda_std`] and kernels. A folder is a scope of cooperation:
//!
//! | CUB | here |
//! |---|---|
//! | `ThreadReduce` | [`thread::fold`], [`thread::fold_pairwise`] |
//! | `WarpReduce`, `WarpScan` | [`cuda_std::warp`], [`warp`] |
//! | `BlockReduce` | [`Storage::reduce`], [`Storage::all_reduce`] |
//! | `BlockScan` | [`Storage::exclusive_scan`], [`Storage::inclusive_scan`] |
//! | `BlockExchange` | [`Storage::blocked_to_striped`], [`Storage::striped_to_blocked`] |
//! | `BlockLoad`, `BlockStore` | [`tile`] |
//! | `TempStorage` | [`Storage`] |
//! | decoupled look-back (`ScanTileState`) | [`lookback`] |
//!
//! # Shared memory, once at a time
//!
//! Threads of a block exchange values in shared memory, and between two uses of the same memory all of them must have
//! come to a barrier. In CUDA C++ a forgotten `__syncthreads` is a race. Here a collective consumes its [`Storage`] and
//! gives it back as [`Used`], which has no collectives; only a barrier makes a [`Storage`] of it again. Using it before
//! does not compile.
//!
//! ```
//! use cuda_block::storage;
//! use cuda_std::prelude::*;
//!
//! /// The sum and the greatest of all elements, by one block of 256 threads.
//! #[kernel(max_threads = 256)]
//! pub fn sum_and_max(x: &[u32], out: SliceMut<'_, u32>) {
//!     let i = thread::index_1d();
//!     let value = if i < x.len() { x[i] } else { 0 };
//!     let storage = storage![u32; 8];
//!     let (sum, used) = storage.reduce::<256>(value, 0, |a, b| a + b);
//!     // Whoever reads the sums of the warps must have done so before the next reduction writes its own.
//!     let storage = used.sync();
//!     let (max, _) = storage.reduce::<256>(value, 0, Ord::max);
//!     if let (Some(sum), Some(max)) = (sum, max) {
//!         out.set(0, sum);
//!         out.set(1, max);
//!     }
//! }
//! # let (x, mut out) = (vec![3u32; 100], vec![0u32; 2]);
//! # cuda_std::launch::on_simulator(1, 256, &mut out, |out| sum_and_max(&x, out));
//! assert_eq!(out, [300, 3]);
//! ```
//!
//! Without the barrier, it is an error:
//!
//! ```compile_fail,E0599
//! # use cuda_std::prelude::*;
//! # #[kernel]
//! # pub fn two_sums(x: &[u32]) {
//! let storage = cuda_block::storage![u32; 8];
//! let (sum, used) = storage.reduce::<256>(x[0], 0, |a, b| a + b);
//! let (other, _) = used.reduce::<256>(x[1], 0, |a, b| a + b); // no method named `reduce` found for struct `Used`
//! # }
//! ```
//!
//! ```compile_fail,E0382
//! # use cuda_std::prelude::*;
//! # #[kernel]
//! # pub fn two_sums(x: &[u32]) {
//! let storage = cuda_block::storage![u32; 8];
//! let (sum, _) = storage.reduce::<256>(x[0], 0, |a, b| a + b);
//! let (other, _) = storage.reduce::<256>(x[1], 0, |a, b| a + b); // use of moved value: `storage`
//! # }
//! ```
//!
//! # Convergence
//!
//! Every collective of a block must be reached by all of its threads, which are as many as its `THREADS` says, in one
//! dimension. The simulated GPU reports what breaks this.
//!
//! # Determinism
//!
//! What is combined with what depends on the numbers of threads and elements alone, so floats give the same bits on
//! every run and every device. [`lookback`] is the exception: how far a block looks back depends on timing, and so does
//! the grouping, though never the order.
#![no_std]
#![deny(missing_docs)]
// Arrays stay in registers where every index is a constant, which it is in an unrolled loop over indices.
#![allow(clippy::needless_range_loop)]

mod exchange;
pub mod lookback;
mod reduce;
mod scan;
mod storage;
pub mod thread;
pub mod tile;
pub mod warp;

pub use exchange::exchange_len;
pub use scan::{Scanned, scan_of_warps};
pub use storage::{Storage, Used};

/// Bytes of the largest value that [`lookback`] passes on: a larger one takes more registers than it saves time.
pub const MAX_VALUE: usize = 32;
