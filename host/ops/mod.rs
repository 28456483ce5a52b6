// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations on device arrays: one file per family. Each checks shapes, chooses a launch plan from the kernel's own
//! constants, and launches.

mod binary;
mod image;
mod map;
mod reduce;

pub use binary::Arithmetic;
pub use image::Channels;
pub use map::{CastTo, FloatMath, Math};
pub use reduce::Reduce;

use crate::launch::LaunchConfig;

/// A one-dimensional launch in which each block treats `tile` of the `len` elements, which are at least one.
fn tiles(len: usize, tile: usize, threads: usize) -> LaunchConfig {
    let blocks = u32::try_from(len.div_ceil(tile)).unwrap_or(u32::MAX);
    LaunchConfig::new(blocks, threads as u32)
}
