// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory, between the threads of a block.

use cuda_std::prelude::*;
use cuda_std::shared::dynamic;

/// The name of this file, and what is in it.
pub const SOURCE: (&str, &str) = ("shared.rs", include_str!("shared.rs"));

fn me() -> usize {
    thread::thread_idx_x() as usize
}

#[kernel(RIGHT = [true, false])]
pub fn missing_barrier<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    tile.set(me(), 7); // missing_barrier: first
    if RIGHT {
        thread::sync_threads();
    }
    // A thread that runs behind the other finds the right number all the same.
    out.set(me(), tile.get(me() / 2)); // missing_barrier: second
}

#[kernel(RIGHT = [true, false])]
pub fn barrier_too_early<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    tile.set(me(), 0);
    thread::sync_threads();
    tile.set(me(), 7); // barrier_too_early: first
    if RIGHT {
        thread::sync_threads();
    }
    out.set(me(), tile.get(me() / 2)); // barrier_too_early: second
}

#[kernel(RIGHT = [true, false])]
pub fn tile_used_again<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    let mut sum = 0;
    for round in 0..3 {
        tile.set(me(), round); // tile_used_again: second
        thread::sync_threads();
        sum += tile.get(63 - me()); // tile_used_again: first
        if RIGHT {
            thread::sync_threads();
        }
    }
    out.set(me(), sum);
}

#[kernel(RIGHT = [true, false])]
pub fn double_buffer<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let buffers = shared_array![u32; 2 * 64];
    let mut sum = 0;
    for round in 0..4 {
        // With two buffers one barrier a round is enough, if they take turns.
        let buffer = if RIGHT { round % 2 } else { round / 3 };
        buffers.set(64 * buffer + me(), 1); // double_buffer: second
        thread::sync_threads();
        sum += buffers.get(64 * buffer + 63 - me()); // double_buffer: first
    }
    out.set(me(), sum);
}

#[kernel(RIGHT = [true, false])]
pub fn reduction<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 128];
    tile.set(me(), 1);
    let mut half = 64;
    while half > 0 {
        if RIGHT || half == 64 {
            thread::sync_threads();
        }
        if me() < half {
            let sum = tile.get(me()) + tile.get(me() + half); // reduction: second
            tile.set(me(), sum); // reduction: first
        }
        half /= 2;
    }
    if me() == 0 {
        out.set(0, tile.get(0));
    }
}

#[kernel(RIGHT = [true, false])]
pub fn scan_in_place<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    tile.set(me(), 1);
    let mut step = 1;
    while step < 64 {
        thread::sync_threads();
        let before = if me() >= step { tile.get(me() - step) } else { 0 }; // scan_in_place: second
        if RIGHT {
            thread::sync_threads();
        }
        tile.set(me(), tile.get(me()) + before); // scan_in_place: first
        step *= 2;
    }
    thread::sync_threads();
    out.set(me(), tile.get(me()));
}

#[kernel(RIGHT = [true, false])]
pub fn up_sweep<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 128];
    tile.set(2 * me(), 1);
    tile.set(2 * me() + 1, 1);
    thread::sync_threads();
    let mut step = 1;
    while step < 128 {
        let right = 2 * step * (me() + 1) - 1;
        if right < 128 {
            let sum = tile.get(right - step) + tile.get(right); // up_sweep: second
            tile.set(right, sum); // up_sweep: first
        }
        if RIGHT {
            thread::sync_threads();
        }
        step *= 2;
    }
    if me() == 63 {
        out.set(0, tile.get(127));
    }
}

#[kernel(RIGHT = [true, false])]
pub fn transpose<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 8 * 9];
    let (row, column) = (me() / 8, me() % 8);
    tile.set(9 * row + column, 1); // transpose: second
    if RIGHT {
        thread::sync_threads();
    }
    out.set(me(), tile.get(9 * column + row)); // transpose: first
}

#[kernel(RIGHT = [true, false])]
pub fn halo<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 66];
    tile.set(me() + 1, 1);
    // One thread brings both ends.
    if me() == 40 {
        tile.set(0, 0);
        tile.set(65, 0); // halo: first
    }
    if RIGHT {
        thread::sync_threads();
    }
    if RIGHT || me() == 63 {
        out.set(me(), tile.get(me() + 1) + tile.get(me() + 2)); // halo: second
    }
}

#[kernel(RIGHT = [true, false])]
pub fn broadcast<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let total = shared_array![u32; 1];
    if me() == 0 {
        total.set(0, 5); // broadcast: first
    }
    if RIGHT {
        thread::sync_threads();
    }
    out.set(me(), total.get(0)); // broadcast: second
}

#[kernel(RIGHT = [true, false])]
pub fn broadcast_again<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let total = shared_array![u32; 1];
    for round in 0..2 {
        if me() == 40 {
            total.set(0, round); // broadcast_again: second
        }
        thread::sync_threads();
        out.set(64 * round as usize + me(), total.get(0)); // broadcast_again: first
        if RIGHT {
            thread::sync_threads();
        }
    }
}

#[kernel(RIGHT = [true, false])]
pub fn histogram<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let bins = shared_array![u32; 8];
    if me() < 8 {
        bins.set(me(), 0);
    }
    thread::sync_threads();
    if RIGHT {
        bins.atomic(me() % 8).fetch_add(1);
    } else {
        let count = bins.get(me() % 8); // histogram: second
        bins.set(me() % 8, count + 1); // histogram: first
    }
    thread::sync_threads();
    if me() < 8 {
        out.set(me(), bins.get(me()));
    }
}

#[kernel(RIGHT = [true, false])]
pub fn counters_not_cleared_yet<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let bins = shared_array![u32; 64];
    bins.set(me(), 0); // counters_not_cleared_yet: first
    if RIGHT {
        thread::sync_threads();
    }
    bins.atomic(me() / 2).fetch_add(1); // counters_not_cleared_yet: second
    thread::sync_threads();
    out.set(me(), bins.get(me()));
}

#[kernel(RIGHT = [true, false])]
pub fn counters_read_too_early<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let bins = shared_array![u32; 2];
    if me() < 2 {
        bins.set(me(), 0);
    }
    thread::sync_threads();
    bins.atomic(me() % 2).fetch_add(1); // counters_read_too_early: first
    if RIGHT {
        thread::sync_threads();
    }
    if me() == 63 {
        out.set(0, bins.get(0)); // counters_read_too_early: second
    }
}

#[kernel(RIGHT = [true, false])]
pub fn same_value_by_all<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let flag = shared_array![u32; 1];
    if !RIGHT || me() == 0 {
        flag.set(0, 1); // same_value_by_all: second
    }
    thread::sync_threads();
    out.set(me(), flag.get(0));
}

#[kernel(RIGHT = [true, false])]
pub fn bytes_of_words<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let bytes = shared_array![u8; 64].aligned::<4>();
    // Neighbours within a word are no race.
    bytes.set(me(), 1); // bytes_of_words: first
    if RIGHT {
        thread::sync_threads();
    }
    if me() % 4 == 3 {
        out.set(me() / 4, bytes.cast::<u32>().get(me() / 4)); // bytes_of_words: second
    }
}

#[kernel(RIGHT = [true, false])]
pub fn halves_by_named_barriers<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    tile.set(me(), 3); // halves_by_named_barriers: first
    if me() < 32 {
        thread::sync_threads_named::<1, 32>();
    } else {
        thread::sync_threads_named::<2, 32>();
    }
    // A half is in order, and the other is not.
    let other = if RIGHT {
        me() / 32 * 32 + 31 - me() % 32
    } else {
        63 - me()
    };
    out.set(me(), tile.get(other)); // halves_by_named_barriers: second
}

#[kernel(RIGHT = [true, false])]
pub fn last_threads_do_not_load<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    if me() < 60 {
        tile.set(me(), 1);
    } else if RIGHT {
        tile.set(me(), 0);
    }
    thread::sync_threads();
    out.set(me(), tile.get(63 - me())); // last_threads_do_not_load: second
}

#[kernel(RIGHT = [true, false])]
pub fn dynamic_beyond_what_is_loaded<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = dynamic::<u32>();
    tile.set(me(), 1);
    thread::sync_threads();
    out.set(me(), tile.get(me() + usize::from(!RIGHT))); // dynamic_beyond_what_is_loaded: second
}

/// On a GPU it finds what the block before has left, of this launch or of one before.
#[kernel(RIGHT = [true, false])]
pub fn left_by_the_block_before<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    if RIGHT || thread::block_idx_x() == 0 {
        tile.set(me(), 1);
    }
    thread::sync_threads();
    out.set(thread::index_1d(), tile.get(me())); // left_by_the_block_before: second
}

#[kernel(RIGHT = [true, false])]
pub fn counters_never_cleared<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let bins = shared_array![u32; 4];
    if RIGHT && me() < 4 {
        bins.set(me(), 0);
    }
    thread::sync_threads();
    bins.atomic(me() % 4).fetch_add(1); // counters_never_cleared: second
    thread::sync_threads();
    out.set(me(), bins.get(me() % 4));
}

/// Hands the kernels to a macro: of each the extents of grid and block, and how what the simulated GPU finds begins.
#[macro_export]
macro_rules! corpus_shared {
    ($($cases:tt)+) => {
        $($cases)+! {
            missing_barrier(1, 64), "data race on element";
            barrier_too_early(1, 64), "data race on element";
            tile_used_again(1, 64), "data race on element";
            double_buffer(1, 64), "data race on element";
            reduction(1, 128), "data race on element";
            scan_in_place(1, 64), "data race on element";
            up_sweep(1, 64), "data race on element";
            transpose(1, 64), "data race on element";
            halo(1, 64), "data race on element";
            broadcast(1, 64), "data race on element";
            broadcast_again(1, 64), "data race on element";
            histogram(1, 64), "data race on element";
            counters_not_cleared_yet(1, 64), "data race on element";
            counters_read_too_early(1, 64), "data race on element";
            bytes_of_words(1, 64), "data race on element";
            halves_by_named_barriers(1, 64), "data race on element";
            last_threads_do_not_load(1, 64), "uninitialised: byte";
            dynamic_beyond_what_is_loaded(1, 64), "uninitialised: byte 256 of the dynamic shared memory is read, which no thread of the block has written yet";
            left_by_the_block_before(2, 64), "uninitialised: byte";
            counters_never_cleared(1, 64), "uninitialised: byte";
        }
    };
}
