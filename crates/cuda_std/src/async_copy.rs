// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies from global to shared memory that do not go through registers, and that a thread does not wait for until it wants
//! to (`__pipeline_memcpy_async`, PTX `cp.async`).
//!
//! Each thread copies for itself, 16 bytes at a time. Copies that it has asked for since the last [`commit`] are a group;
//! it waits for groups by [`wait`]. What it copied is visible to itself then, and to the others behind a barrier. On Hopper,
//! [bulk copies](crate::tma) do more with less.
//!
//! GPU: compute 8.0 or later. Source: PTX ISA, "Non-bulk copy: cp.async".
//!
//! On the simulated GPU a copy is done when it is asked for; where it checks for races, an access to what it fills that comes
//! before the thread has waited is an error.

use bytemuck::Pod;

use crate::machine;
use crate::shared::Shared;

/// Copies `bytes` bytes, 16 at most, from `from` to byte `offset` of `to`, and zeros behind them, 16 in all. They go by the
/// L2 cache only.
///
/// ```
/// use cuda_std::async_copy;
/// use cuda_std::prelude::*;
///
/// /// Turns the elements of each block around; where they end, zeros follow.
/// #[kernel(max_threads = 32)]
/// pub fn reverse(x: &[f32], out: SliceMut<'_, f32>) {
///     let tile = shared_array![f32; 128];
///     let t = thread::thread_idx_x() as usize;
///     let first = 128 * thread::block_idx_x() as usize;
///     let left = x.len().saturating_sub(first + 4 * t).min(4);
///     let from = x.as_ptr().wrapping_add(first + 4 * t);
///     // SAFETY: so many elements are left, 16 bytes of the tile are this thread's, and both are aligned; nobody reads the
///     // tile ahead of the barrier.
///     unsafe { async_copy::copy_16(tile, 16 * t as u32, from, 4 * left as u32) };
///     async_copy::commit();
///     async_copy::wait::<0>();
///     thread::sync_threads();
///     for k in 0..4 {
///         out.set(first + 4 * t + k, tile.get(127 - 4 * t - k));
///     }
/// }
/// # #[repr(align(16))] struct Aligned([f32; 200]);
/// # let x = Aligned(std::array::from_fn(|i| i as f32 + 1.0));
/// # let mut out = [9.0; 256];
/// # cuda_std::launch::on_simulator(2, 32, &mut out, |out| reverse(&x.0[..199], out));
/// assert_eq!((out[0], out[127]), (128.0, 1.0));
/// assert_eq!((out[255], out[255 - 70], out[255 - 71]), (129.0, 199.0, 0.0));
/// ```
///
/// # Safety
///
/// * At `from`, a multiple of 16 bytes, `bytes` bytes of global memory can be read, and nothing writes them until the copy
///   has been waited for.
/// * 16 bytes from `offset` on are in `to`, at a multiple of 16 bytes of the block's shared memory (which the simulated GPU
///   checks), and until then nobody accesses them.
#[inline(always)]
#[track_caller]
pub unsafe fn copy_16<T: Pod>(to: Shared<T>, offset: u32, from: *const T, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe { machine::copy_16(to.bytes_at(offset as usize, 16), from.cast(), bytes) }
}

/// Ends a group: the copies that the thread has asked for since the last call.
#[inline(always)]
pub fn commit() {
    machine::copy_commit();
}

/// Waits until all groups of the thread's but the newest `N` are done.
#[inline(always)]
pub fn wait<const N: u32>() {
    machine::copy_wait::<N>();
}
