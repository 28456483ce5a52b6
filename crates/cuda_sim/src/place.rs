// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread asks: where it is, and in what.

use crate::context;
use crate::dim3::Dim3;

/// Whether the caller is a GPU thread, so that the other functions may be called.
#[cfg_attr(not(debug_assertions), inline)]
pub fn in_kernel() -> bool {
    context::is_set()
}

/// The index of this thread in its block.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn thread_idx() -> Dim3 {
    context::with("thread_idx", |context| context.index())
}

/// The index of this block in its grid.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn block_idx() -> Dim3 {
    context::with("block_idx", |context| context.block.get())
}

/// The extents of a block, in threads.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn block_dim() -> Dim3 {
    context::with("block_dim", |context| context.grid.config.block)
}

/// The extents of the grid, in blocks.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn grid_dim() -> Dim3 {
    context::with("grid_dim", |context| context.grid.config.grid)
}

/// The extents of a cluster, in blocks; all 1 in a launch without.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn cluster_dim() -> Dim3 {
    context::with("cluster_dim", |context| context.cluster_dim())
}

/// The index of this block in its cluster.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn block_in_cluster() -> Dim3 {
    context::with("block_in_cluster", |context| context.block_in_cluster())
}

/// This thread's lane in its warp: its linear index (x fastest) modulo 32.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn lane() -> u32 {
    context::with("lane", |context| context.linear() % 32)
}

/// The lanes of this warp that exist and have not exited, a bit each.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn active_mask() -> u32 {
    context::with("active_mask", |context| context.active_mask())
}
