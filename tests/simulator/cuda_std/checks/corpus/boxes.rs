// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boxes that are copied to and from shared memory, where threads access them as well.

use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};

/// The name of this file, and what is in it.
pub const SOURCE: (&str, &str) = ("boxes.rs", include_str!("boxes.rs"));

fn me() -> usize {
    thread::thread_idx_x() as usize
}

/// A box of ones, which thread 0 may have stored, and a barrier for one copy.
pub fn box_and_barrier() -> (Shared<u32>, Mbarrier) {
    let words = shared_array![u64; 1];
    let tile = cuda_std::shared::dynamic::<u32>().aligned::<128>();
    // SAFETY: the word is a barrier only.
    let full = unsafe { Mbarrier::at(words, 0) };
    if me() == 0 {
        full.init(1);
        mbarrier::fence_init();
    }
    tile.set(me(), 1);
    tma::fence_async();
    thread::sync_threads();
    (tile, full)
}

/// Has the box loaded.
///
/// # Safety
///
/// The map's boxes are of 32 elements, and the tile has room for one.
#[track_caller]
unsafe fn load(x: TensorMap<'_, u32>, tile: Shared<u32>, full: Mbarrier) {
    full.arrive_expect_tx(128);
    // SAFETY: the caller's promise.
    unsafe { x.load(tile, [0], full) };
}

/// Has the box stored.
///
/// # Safety
///
/// As for [`load`].
#[track_caller]
unsafe fn store(y: TensorMapMut<'_, u32>, tile: Shared<u32>) {
    // SAFETY: the caller's promise.
    unsafe { y.store([0], tile) };
    tma::commit();
}

/// # Safety
///
/// The maps' boxes are of 32 elements, for one of which there is room in dynamic shared memory.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub unsafe fn barrier_in_place_of_a_wait<const RIGHT: bool>(
    x: TensorMap<'_, u32>,
    _: TensorMapMut<'_, u32>,
    out: SliceMut<'_, u32>,
) {
    let (tile, full) = box_and_barrier();
    if me() == 0 {
        // SAFETY: this function's promise.
        unsafe { load(x, tile, full) }; // barrier_in_place_of_a_wait: first
    }
    if RIGHT {
        full.wait(0);
    } else {
        thread::sync_threads();
    }
    out.set(me(), tile.get(me())); // barrier_in_place_of_a_wait: second
    full.wait(0);
}

/// # Safety
///
/// The maps' boxes are of 32 elements, for one of which there is room in dynamic shared memory.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub unsafe fn read_by_who_has_it_loaded<const RIGHT: bool>(
    x: TensorMap<'_, u32>,
    _: TensorMapMut<'_, u32>,
    out: SliceMut<'_, u32>,
) {
    let (tile, full) = box_and_barrier();
    if me() == 0 {
        // SAFETY: this function's promise.
        unsafe { load(x, tile, full) }; // read_by_who_has_it_loaded: first
        if RIGHT {
            full.wait(0);
        }
        out.set(0, tile.get(0)); // read_by_who_has_it_loaded: second
        full.wait(0);
    }
}

/// The box that thread 0 stores is written again, by all.
///
/// # Safety
///
/// The maps' boxes are of 32 elements, for one of which there is room in dynamic shared memory.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub unsafe fn written_while_it_is_stored<const RIGHT: bool>(
    _: TensorMap<'_, u32>,
    y: TensorMapMut<'_, u32>,
    _: SliceMut<'_, u32>,
) {
    let (tile, _) = box_and_barrier();
    if me() == 0 {
        // SAFETY: this function's promise.
        unsafe { store(y, tile) };
        if RIGHT {
            tma::wait_read::<0>();
        }
    }
    thread::sync_threads();
    tile.set(me(), 2); // written_while_it_is_stored: second
    tma::wait_read::<0>();
}

/// # Safety
///
/// The maps' boxes are of 32 elements, for one of which there is room in dynamic shared memory.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub unsafe fn stored_without_a_fence<const RIGHT: bool>(
    _: TensorMap<'_, u32>,
    y: TensorMapMut<'_, u32>,
    _: SliceMut<'_, u32>,
) {
    let (tile, _) = box_and_barrier();
    tile.set(me(), 2); // stored_without_a_fence: first
    if RIGHT {
        tma::fence_async();
    }
    // It orders the threads, and not the copy behind what they wrote.
    thread::sync_threads();
    if me() == 0 {
        // SAFETY: this function's promise.
        unsafe { store(y, tile) }; // stored_without_a_fence: second
        tma::wait_read::<0>();
    }
}

/// Boxes come one after another, and are read between.
///
/// # Safety
///
/// The maps' boxes are of 32 elements, for one of which there is room in dynamic shared memory.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub unsafe fn filled_again_without_a_fence<const RIGHT: bool>(
    x: TensorMap<'_, u32>,
    _: TensorMapMut<'_, u32>,
    out: SliceMut<'_, u32>,
) {
    let (tile, full) = box_and_barrier();
    let mut sum = 0_u32;
    for round in 0..3 {
        if me() == 0 {
            // SAFETY: this function's promise.
            unsafe { load(x, tile, full) }; // filled_again_without_a_fence: second
        }
        full.wait(round % 2);
        sum = sum.wrapping_add(tile.get(31 - me())); // filled_again_without_a_fence: first
        if RIGHT {
            tma::fence_async();
        }
        thread::sync_threads();
    }
    out.set(me(), sum);
}

/// # Safety
///
/// The maps' boxes are of 32 elements, for one of which there is room in dynamic shared memory.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub unsafe fn filled_where_threads_have_written<const RIGHT: bool>(
    x: TensorMap<'_, u32>,
    _: TensorMapMut<'_, u32>,
    out: SliceMut<'_, u32>,
) {
    let (tile, full) = box_and_barrier();
    tile.set(me(), 0); // filled_where_threads_have_written: first
    if RIGHT {
        tma::fence_async();
    }
    thread::sync_threads();
    if me() == 0 {
        // SAFETY: this function's promise.
        unsafe { load(x, tile, full) }; // filled_where_threads_have_written: second
    }
    full.wait(0);
    out.set(me(), tile.get(me()));
}

/// Hands the kernels to a macro: of each the extents of grid and block, and how what the simulated GPU finds begins.
#[macro_export]
macro_rules! corpus_boxes {
    ($($cases:tt)+) => {
        $($cases)+! {
            barrier_in_place_of_a_wait(1, 32), "not waited for: this read of element ";
            read_by_who_has_it_loaded(1, 32), "not waited for: this read of element 0";
            written_while_it_is_stored(1, 32), "not waited for: this write of element";
            stored_without_a_fence(1, 32), "not fenced: this asynchronous read of element 0 (of 4 bytes) of the dynamic shared memory comes behind the write of thread (0, 0, 0) at";
            filled_again_without_a_fence(1, 32), "not fenced: this asynchronous write of element 0 (of 4 bytes) of the dynamic shared memory comes behind the read of thread (31, 0, 0) at";
            filled_where_threads_have_written(1, 32), "not fenced: this asynchronous write of element 0";
        }
    };
}
