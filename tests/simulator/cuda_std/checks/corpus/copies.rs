// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of a thread to shared memory, which it or others read or write.

use cuda_std::async_copy;
use cuda_std::prelude::*;

/// The name of this file, and what is in it.
pub const SOURCE: (&str, &str) = ("copies.rs", include_str!("copies.rs"));

/// Where the thread's 16 bytes begin, as an element.
fn mine() -> usize {
    4 * thread::thread_idx_x() as usize
}

fn copy(tile: Shared<u32>, x: &[u32], from: usize) {
    // SAFETY: 16 bytes of the array, aligned, and of the tile.
    unsafe { async_copy::copy_16(tile, 4 * from as u32, x.as_ptr().add(from % 64), 16) };
    async_copy::commit();
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn read_without_a_wait<const RIGHT: bool>(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64].aligned::<16>();
    copy(tile, x, mine());
    if RIGHT {
        async_copy::wait::<0>();
    }
    out.set(mine(), tile.get(mine())); // read_without_a_wait: second
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn others_read_without_a_wait<const RIGHT: bool>(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64].aligned::<16>();
    copy(tile, x, mine());
    if RIGHT {
        async_copy::wait::<0>();
    }
    // It orders the threads, and not a thread's copies.
    thread::sync_threads();
    out.set(mine(), tile.get(60 - mine())); // others_read_without_a_wait: second
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn waits_for_one_group_too_few<const RIGHT: bool>(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 128].aligned::<16>();
    copy(tile, x, mine());
    copy(tile, x, 64 + mine());
    if RIGHT {
        async_copy::wait::<1>();
    } else {
        async_copy::wait::<2>();
    }
    out.set(mine(), tile.get(mine())); // waits_for_one_group_too_few: second
    async_copy::wait::<0>();
    out.set(64 + mine(), tile.get(64 + mine()));
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn waits_for_what_is_not_committed<const RIGHT: bool>(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64].aligned::<16>();
    // SAFETY: as in `copy`.
    unsafe { async_copy::copy_16(tile, 4 * mine() as u32, x.as_ptr().add(mine()), 16) };
    if RIGHT {
        async_copy::commit();
    }
    async_copy::wait::<0>();
    out.set(mine(), tile.get(mine())); // waits_for_what_is_not_committed: second
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn writes_where_a_copy_does<const RIGHT: bool>(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64].aligned::<16>();
    copy(tile, x, mine());
    if RIGHT {
        async_copy::wait::<0>();
    }
    tile.set(mine() + 3, 0); // writes_where_a_copy_does: second
    async_copy::wait::<0>();
    out.set(mine(), tile.get(mine()));
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn copies_not_ordered<const RIGHT: bool>(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    let me = thread::thread_idx_x() as usize;
    if me < 16 {
        // SAFETY: 16 bytes of the array, aligned, and of the tile.
        unsafe { async_copy::copy_16(tile, 16 * me as u32, x.as_ptr().add(4 * me), 16) }; // copies_not_ordered: first
        async_copy::commit();
        async_copy::wait::<0>();
    }
    if RIGHT {
        thread::sync_threads();
    }
    // The threads have waited for their own copies alone.
    if RIGHT || me < 16 {
        out.set(me, tile.get(63 - me)); // copies_not_ordered: second
    }
}

/// Hands the kernels to a macro: of each the extents of grid and block, and how what the simulated GPU finds begins.
#[macro_export]
macro_rules! corpus_copies {
    ($($cases:tt)+) => {
        $($cases)+! {
            read_without_a_wait(1, 16), "not waited for: this ";
            others_read_without_a_wait(1, 16), "not waited for: this ";
            waits_for_one_group_too_few(1, 16), "not waited for: this ";
            waits_for_what_is_not_committed(1, 16), "not waited for: this ";
            writes_where_a_copy_does(1, 16), "not waited for: this ";
            copies_not_ordered(1, 64), "data race";
        }
    };
}
