// SPDX-License-Identifier: MIT OR Apache-2.0
//! The barrier of all blocks of a grid.

use super::{AtomicInteger, AtomicValue, Device, Global, block_idx, grid_dim, sync_threads, thread_idx};

/// Waits for all threads of the grid.
///
/// One thread of each block adds to the word. Together the blocks add 2^31: each of them 1, but for block 0, which adds
/// what is left. So the highest bit changes when the last block has come, and the others are 0 again, ready for the next
/// round, in this launch or another. Nobody misses the change: it lasts until all have come once more.
///
/// What the block's threads wrote is ordered before the addition by the block's barrier and the addition's release, and
/// before what other blocks read by the acquire of those that see the sum, and the barrier of their blocks.
///
/// # Safety
///
/// As of `GridBarrier::from_word`.
#[inline(always)]
pub unsafe fn sync_grid(word: *mut u32) {
    sync_threads();
    let (thread, block) = (thread_idx(), block_idx());
    if thread.x | thread.y | thread.z == 0 {
        let grid = grid_dim();
        // Fewer than 2^31, as all run at a time.
        let others = grid.x * grid.y * grid.z - 1;
        let part = match block.x | block.y | block.z {
            0 => (1 << 31) - others,
            _ => 1,
        };
        // SAFETY: the caller's promise: an aligned word, which others access only so.
        unsafe {
            let before = u32::add_ordered::<Global, Device>(word, part);
            while (before ^ u32::load_acquire::<Global, Device>(word)) >> 31 == 0 {}
        }
    }
    sync_threads();
}
