// SPDX-License-Identifier: MIT OR Apache-2.0
//! The banks of shared memory: word `i` lies in bank `i % 32`, and a bank serves one word at a time.

use cuda_std::prelude::*;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Words of the block's shared memory.
pub const WORDS: usize = 8192;

/// Loads of a round: so many that they, and not the loop around them, take the time.
pub const LOADS: usize = 8;

// ANCHOR: strided_shared
/// Each thread reads [`LOADS`] words in each of `rounds` rounds, the lanes of a warp `stride` words apart. `out` gets the
/// sums.
#[kernel(max_threads = THREADS)]
pub fn strided_shared(stride: u32, rounds: u32, out: SliceMut<'_, u32>) {
    let memory = shared_array![u32; WORDS];
    let t = thread::thread_idx_x();
    for i in (t as usize..WORDS).step_by(THREADS) {
        memory.set(i, i as u32);
    }
    thread::sync_threads();
    let mut sum = 0;
    for round in 0..rounds {
        let first = (stride * t + round) as usize % (WORDS / 2);
        for k in 0..LOADS {
            sum += memory.get(first + 32 * k);
        }
    }
    out.set(thread::index_1d(), sum);
}
// ANCHOR_END: strided_shared
