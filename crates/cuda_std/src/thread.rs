// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a thread stands in its grid, and the barriers of its block.

use crate::machine;

pub use crate::machine::Dim3;

/// The thread's position in its block (`threadIdx`).
#[inline(always)]
pub fn thread_idx() -> Dim3 {
    machine::thread_idx()
}

/// The block's position in the grid (`blockIdx`).
#[inline(always)]
pub fn block_idx() -> Dim3 {
    machine::block_idx()
}

/// The block's extent in threads (`blockDim`).
#[inline(always)]
pub fn block_dim() -> Dim3 {
    machine::block_dim()
}

/// The grid's extent in blocks (`gridDim`).
#[inline(always)]
pub fn grid_dim() -> Dim3 {
    machine::grid_dim()
}

/// The x of [`thread_idx`].
#[inline(always)]
pub fn thread_idx_x() -> u32 {
    thread_idx().x
}

/// The y of [`thread_idx`].
#[inline(always)]
pub fn thread_idx_y() -> u32 {
    thread_idx().y
}

/// The z of [`thread_idx`].
#[inline(always)]
pub fn thread_idx_z() -> u32 {
    thread_idx().z
}

/// The x of [`block_idx`].
#[inline(always)]
pub fn block_idx_x() -> u32 {
    block_idx().x
}

/// The y of [`block_idx`].
#[inline(always)]
pub fn block_idx_y() -> u32 {
    block_idx().y
}

/// The z of [`block_idx`].
#[inline(always)]
pub fn block_idx_z() -> u32 {
    block_idx().z
}

/// The x of [`block_dim`].
#[inline(always)]
pub fn block_dim_x() -> u32 {
    block_dim().x
}

/// The y of [`block_dim`].
#[inline(always)]
pub fn block_dim_y() -> u32 {
    block_dim().y
}

/// The z of [`block_dim`].
#[inline(always)]
pub fn block_dim_z() -> u32 {
    block_dim().z
}

/// The x of [`grid_dim`].
#[inline(always)]
pub fn grid_dim_x() -> u32 {
    grid_dim().x
}

/// The y of [`grid_dim`].
#[inline(always)]
pub fn grid_dim_y() -> u32 {
    grid_dim().y
}

/// The z of [`grid_dim`].
#[inline(always)]
pub fn grid_dim_z() -> u32 {
    grid_dim().z
}

/// The thread's number in a one-dimensional grid of one-dimensional blocks, from 0.
///
/// 64-bit, so that grids beyond 2^32 threads count on.
#[inline(always)]
pub fn index_1d() -> usize {
    block_idx_x() as usize * block_dim_x() as usize + thread_idx_x() as usize
}

/// The number of threads of a one-dimensional grid: the step of a grid-stride loop.
#[inline(always)]
pub fn stride_1d() -> usize {
    grid_dim_x() as usize * block_dim_x() as usize
}

/// The thread's number in its block, counted x first.
#[inline(always)]
pub fn linear_thread_idx() -> u32 {
    let (i, n) = (thread_idx(), block_dim());
    i.x + n.x * (i.y + n.y * i.z)
}

/// Waits until every thread of the block has come here (`__syncthreads`); what they wrote to shared and global
/// memory before is then visible to all of them.
///
/// # Convergence
///
/// Every thread of the block must reach the same call. The simulated GPU reports any that does not.
#[inline(always)]
#[track_caller]
pub fn sync_threads() {
    machine::sync_threads();
}

/// [`sync_threads`], and the number of threads whose `predicate` holds (`__syncthreads_count`).
///
/// # Convergence
///
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub fn sync_threads_count(predicate: bool) -> u32 {
    machine::sync_threads_count(predicate)
}

/// [`sync_threads`], and whether `predicate` holds in every thread (`__syncthreads_and`).
///
/// # Convergence
///
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub fn sync_threads_and(predicate: bool) -> bool {
    machine::sync_threads_and(predicate)
}

/// [`sync_threads`], and whether `predicate` holds in any thread (`__syncthreads_or`).
///
/// # Convergence
///
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub fn sync_threads_or(predicate: bool) -> bool {
    machine::sync_threads_or(predicate)
}

/// Suspends the thread for about `nanoseconds`, between 0 and twice that (`__nanosleep`). Loops that wait for
/// another block call it, so that the others get on; on the simulated GPU they must.
#[inline(always)]
#[track_caller]
pub fn nanosleep(nanoseconds: u32) {
    machine::nanosleep(nanoseconds);
}
