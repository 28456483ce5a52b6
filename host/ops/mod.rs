// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations on device arrays: one file per family. Each checks shapes, chooses a launch plan from the kernel's
//! own constants, and launches.

mod binary;
mod broadcast;
mod cast;
mod compare;
mod histogram;
mod image;
mod map;
mod matmul;
mod reduce;
mod scan;
mod select;
mod transpose;

pub use binary::Arithmetic;
pub use cast::CastTo;
pub use compare::Compare;
pub use histogram::{Bincount, Histogram, histogram_bin_edges};
pub use image::{Border, Channels, Pixel, Weights};
pub use kernels_gpu::op::{Max, Min, Product, ReduceOp, Sum};
pub use map::{FloatMath, Math};
pub use matmul::MatMul;
pub use reduce::{Reduce, ReduceColumns, ReduceRows};
pub use scan::{LookBackParams, Scan, ScanAlgorithm, ScanKind};
pub use select::Select;

use crate::launch::LaunchConfig;

/// Whose kernel a launch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelOf {
    /// The library's, which leaves its workspace ready for the next launch.
    Library,
    /// The user's, of which that is asked and not known: its workspace is not used again.
    User,
}

/// A one-dimensional launch in which each block treats `tile` of the `len` elements, which are at least one.
fn tiles(len: usize, tile: usize, threads: usize) -> LaunchConfig {
    let blocks = u32::try_from(len.div_ceil(tile)).unwrap_or(u32::MAX);
    LaunchConfig::new(blocks, threads as u32)
}
