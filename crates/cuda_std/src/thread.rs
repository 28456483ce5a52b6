// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a thread stands in its grid, and the barriers of its block.

use crate::machine;

pub use crate::machine::Dim3;

/// The thread's position in its block (`threadIdx`).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// For each thread its place in its block and its block's in the grid, as four digits: block y, x, thread y, x.
/// #[kernel]
/// pub fn places(out: SliceMut<'_, u32>) {
///     let (row, column) = thread::index_2d();
///     let (block, thread) = (thread::block_idx(), thread::thread_idx());
///     let columns = (thread::grid_dim().x * thread::block_dim().x) as usize;
///     out.set(row * columns + column, 1000 * block.y + 100 * block.x + 10 * thread.y + thread.x);
/// }
/// # let mut out = [0; 16];
/// # cuda_std::launch::on_simulator((2, 2), (2, 2), &mut out, places);
/// assert_eq!(out[..8], [0, 1, 100, 101, 10, 11, 110, 111]);
/// ```
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
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[kernel]
/// pub fn square(x: &[u32], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     // The last block may have more threads than there are elements left.
///     if i < out.len() {
///         out.set(i, x[i] * x[i]);
///     }
/// }
/// # let mut out = [0; 5];
/// # cuda_std::launch::on_simulator(2, 4, &mut out, |out| square(&[1, 2, 3, 4, 5], out));
/// # assert_eq!(out, [1, 4, 9, 16, 25]);
/// ```
#[inline(always)]
pub fn index_1d() -> usize {
    block_idx_x() as usize * block_dim_x() as usize + thread_idx_x() as usize
}

/// The number of threads of a one-dimensional grid: the step of a grid-stride loop.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// For any length, whatever the grid.
/// #[kernel]
/// pub fn double(x: &[u32], out: SliceMut<'_, u32>) {
///     let mut i = thread::index_1d();
///     while i < out.len() {
///         out.set(i, 2 * x[i]);
///         i += thread::stride_1d();
///     }
/// }
/// # let x: Vec<u32> = (0..100).collect();
/// # let mut out = [0; 100];
/// # cuda_std::launch::on_simulator(2, 8, &mut out, |out| double(&x, out));
/// # assert!((0..100).all(|i| out[i] == 2 * x[i]));
/// ```
#[inline(always)]
pub fn stride_1d() -> usize {
    grid_dim_x() as usize * block_dim_x() as usize
}

/// The thread's row and column in a two-dimensional grid of two-dimensional blocks, from 0: a row for each y, a column
/// for each x. Neighbouring threads have neighbouring columns, so arrays in standard layout are read and written in
/// wide accesses.
///
/// `LaunchConfig::for_shape` makes the grid. Both numbers are 64-bit.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The brightness of each pixel of a picture that is `width` pixels wide.
/// #[kernel]
/// pub fn grayscale(rgb: &[[u8; 3]], width: usize, gray: SliceMut<'_, u8>) {
///     let (row, column) = thread::index_2d();
///     let i = row * width + column;
///     // Blocks at the right and the lower edge have threads outside of the picture.
///     if column < width && i < gray.len() {
///         let [r, g, b] = rgb[i].map(u32::from);
///         gray.set(i, ((299 * r + 587 * g + 114 * b + 500) / 1000) as u8);
///     }
/// }
/// # let rgb: Vec<[u8; 3]> = (0..35).map(|i| [i, i, i]).collect();
/// # let mut gray = [0u8; 35];
/// # cuda_std::launch::on_simulator((2, 3), (4, 2), &mut gray, |gray| grayscale(&rgb, 7, gray));
/// # assert!((0..35).all(|i| gray[i as usize] == i));
/// ```
#[inline(always)]
pub fn index_2d() -> (usize, usize) {
    let (block, extent, thread) = (block_idx(), block_dim(), thread_idx());
    let index = |block: u32, extent: u32, thread: u32| block as usize * extent as usize + thread as usize;
    (index(block.y, extent.y, thread.y), index(block.x, extent.x, thread.x))
}

/// The number of rows and of columns of a two-dimensional grid, in threads: the steps of a grid-stride loop over
/// [`index_2d`].
#[inline(always)]
pub fn stride_2d() -> (usize, usize) {
    let (blocks, extent) = (grid_dim(), block_dim());
    (
        blocks.y as usize * extent.y as usize,
        blocks.x as usize * extent.x as usize,
    )
}

/// The thread's number in its block, counted x first: warps are 32 threads of consecutive numbers.
#[inline(always)]
pub fn linear_thread_idx() -> u32 {
    let (i, n) = (thread_idx(), block_dim());
    i.x + n.x * (i.y + n.y * i.z)
}

/// Waits until every thread of the block has come here (`__syncthreads`); what they wrote to shared and global
/// memory before is then visible to all of them.
///
/// For all threads of the grid there is a [`GridBarrier`](crate::GridBarrier).
///
/// # Convergence
///
/// Every thread of the block must reach the same call. The simulated GPU reports any that does not.
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Turns each block's elements around.
/// #[kernel(max_threads = 64)]
/// pub fn reverse_in_blocks(x: &[u32], out: SliceMut<'_, u32>) {
///     let tile = shared_array![u32; 64];
///     let (t, i) = (thread::thread_idx_x() as usize, thread::index_1d());
///     tile.set(t, x[i]);
///     // What another thread has set is there behind the barrier.
///     thread::sync_threads();
///     out.set(i, tile.get(63 - t));
/// }
/// # let x: Vec<u32> = (0..128).collect();
/// # let mut out = [0; 128];
/// # cuda_std::launch::on_simulator(2, 64, &mut out, |out| reverse_in_blocks(&x, out));
/// assert_eq!((out[0], out[63], out[64]), (63, 0, 127));
/// ```
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
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// For each block: how many of its elements are odd, whether all are, whether any is.
/// #[kernel]
/// pub fn odd_in_blocks(x: &[u32], out: SliceMut<'_, u32>) {
///     let odd = x[thread::index_1d()] % 2 == 1;
///     let count = thread::sync_threads_count(odd);
///     let (all, any) = (thread::sync_threads_and(odd), thread::sync_threads_or(odd));
///     if thread::thread_idx_x() == 0 {
///         let first = 3 * thread::block_idx_x() as usize;
///         out.set(first, count);
///         out.set(first + 1, all.into());
///         out.set(first + 2, any.into());
///     }
/// }
/// # let x = [1, 2, 3, 4, 1, 3, 5, 7, 2, 4, 6, 8];
/// # let mut out = [0; 9];
/// # cuda_std::launch::on_simulator(3, 4, &mut out, |out| odd_in_blocks(&x, out));
/// assert_eq!(out, [2, 0, 1, 4, 1, 1, 0, 0, 0]);
/// ```
#[inline(always)]
#[track_caller]
pub fn sync_threads_count(predicate: bool) -> u32 {
    machine::sync_threads_count(predicate)
}

/// [`sync_threads`], and whether `predicate` holds in every thread (`__syncthreads_and`). The example of
/// [`sync_threads_count`] has it.
///
/// # Convergence
///
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub fn sync_threads_and(predicate: bool) -> bool {
    machine::sync_threads_and(predicate)
}

/// [`sync_threads`], and whether `predicate` holds in any thread (`__syncthreads_or`). The example of
/// [`sync_threads_count`] has it.
///
/// # Convergence
///
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub fn sync_threads_or(predicate: bool) -> bool {
    machine::sync_threads_or(predicate)
}

/// Waits until `COUNT` threads of the block have come to barrier `ID`, one of 15, 1 to 15 (`__barrier_sync_count`): a
/// barrier of some warps, while the others do something else. What the threads wrote to shared and global memory before is
/// then visible to all of them.
///
/// # Convergence
///
/// Whole warps come, `COUNT / 32` of them, all with the same `COUNT`. The simulated GPU reports different counts; warps
/// that do not come it cannot tell from those that are late, and the launch is given up some time.
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Turns the elements of each half of a block around; neither waits for the other.
/// #[kernel(max_threads = 128)]
/// pub fn reverse_in_halves(x: &[u32], out: SliceMut<'_, u32>) {
///     let tile = shared_array![u32; 128];
///     let t = thread::thread_idx_x() as usize;
///     tile.set(t, x[t]);
///     match t / 64 {
///         0 => thread::sync_threads_named::<1, 64>(),
///         _ => thread::sync_threads_named::<2, 64>(),
///     }
///     out.set(t, tile.get(t ^ 63));
/// }
/// # let x: Vec<u32> = (0..128).collect();
/// # let mut out = [0; 128];
/// # cuda_std::launch::on_simulator(1, 128, &mut out, |out| reverse_in_halves(&x, out));
/// assert_eq!((out[0], out[63], out[64]), (63, 0, 127));
/// ```
#[inline(always)]
#[track_caller]
pub fn sync_threads_named<const ID: u32, const COUNT: u32>() {
    const {
        assert!(
            ID >= 1 && ID < 16,
            "the named barriers are those of the numbers 1 to 15"
        )
    };
    const {
        assert!(
            COUNT.is_multiple_of(32) && COUNT >= 32 && COUNT <= 1024,
            "whole warps meet"
        )
    };
    machine::sync_threads_named::<ID, COUNT>();
}

/// Suspends the thread for about `nanoseconds`, between 0 and twice that (`__nanosleep`). Loops that wait for
/// another block call it, so that the others get on; on the simulated GPU they must.
///
/// The example of [`Atomic::store_release`](crate::atomic::Atomic::store_release) waits so.
#[inline(always)]
#[track_caller]
pub fn nanosleep(nanoseconds: u32) {
    machine::nanosleep(nanoseconds);
}
