// SPDX-License-Identifier: MIT OR Apache-2.0
//! Producers and consumers: barriers in shared memory, asynchronous copies.

use cuda_sim::Checks;
use cuda_std::prelude::*;
use cuda_std::tma::{self, RawTensorMap, Swizzle, TensorMap, TensorMapLayout, TensorMapMut};

use super::corpus::boxes::box_and_barrier;

mod kernels {
    use cuda_std::mbarrier::{self, Mbarrier};
    use cuda_std::prelude::*;

    pub const SOURCE: (&str, &str) = ("pipelines.rs", include_str!("pipelines.rs"));

    pub fn init_not_ordered<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let words = shared_array![u64; 1];
        // SAFETY: the word is a barrier only, whose phase gets the arrivals of one warp.
        let full = unsafe { Mbarrier::at(words, 0) };
        if thread::thread_idx_x() == 0 {
            full.init(32); // init_not_ordered: first
            mbarrier::fence_init();
        }
        if RIGHT {
            thread::sync_threads();
        }
        full.arrive(); // init_not_ordered: second
        full.wait(0);
        out.set(thread::thread_idx_x() as usize, 1);
    }
}

/// Has the box stored.
#[track_caller]
fn store_box(map: &RawTensorMap, tile: Shared<u32>) {
    // SAFETY: a map of memory that lives until the launch is over; the tile has room for the box.
    unsafe { TensorMapMut::<u32>::from_address(map).store([0], tile) };
    tma::commit();
    tma::wait::<0>();
}

/// Boxes that threads access as well, by fences of the async proxy.
mod fences {
    use super::*;

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

    pub fn fenced_ahead_of_the_write<const RIGHT: bool>(map: &RawTensorMap, _: SliceMut<'_, u32>) {
        let (tile, _) = box_and_barrier();
        if !RIGHT {
            tma::fence_async();
        }
        tile.set(me(), 1); // fenced_ahead_of_the_write: first
        if RIGHT {
            tma::fence_async();
        }
        thread::sync_threads();
        if me() == 0 {
            store_box(map, tile); // fenced_ahead_of_the_write: second
        }
    }

    /// The thread that has the box stored has fenced what it wrote itself, before it knew of the others.
    pub fn fenced_by_one_thread<const RIGHT: bool>(map: &RawTensorMap, _: SliceMut<'_, u32>) {
        let (tile, _) = box_and_barrier();
        tile.set(me(), 1); // fenced_by_one_thread: first
        if RIGHT || me() == 0 {
            tma::fence_async();
        }
        thread::sync_threads();
        if me() == 0 {
            store_box(map, tile); // fenced_by_one_thread: second
        }
    }
}

/// A test for each of those.
macro_rules! fences {
    ($($name:ident, $wanted:literal;)*) => {$(
        #[test]
        fn $name() {
            let mut memory = [0; 8];
            let map = map_of(&mut memory);
            crate::checks::try_both(kernels::SOURCE, stringify!($name), $wanted, |right, checks| match right {
                true => crate::checks::run((1, 32, false), checks, |out| fences::$name::<true>(&map, out)),
                false => crate::checks::run((1, 32, false), checks, |out| fences::$name::<false>(&map, out)),
            });
        }
    )*};
}

fences! {
    fenced_ahead_of_the_write, "not fenced: this asynchronous read of element 0";
    fenced_by_one_thread, "not fenced: this asynchronous read of element 1";
}

/// What matters is that a fence lies on the way from the access to the copy, not whose it is; and that there is no way without a
/// barrier, whatever was fenced.
#[test]
fn a_fence_of_the_thread_that_copies_serves_all_that_it_knows() {
    let mut memory = [0; 8];
    let map = map_of(&mut memory);
    let launch = |is_ordered: bool, checks| {
        crate::checks::run((1, 32, false), checks, |_| {
            let (tile, _) = box_and_barrier();
            let me = thread::thread_idx_x() as usize;
            tile.set(me, 1);
            if is_ordered {
                thread::sync_threads();
            }
            tma::fence_async();
            if me == 31 {
                store_box(&map, tile);
            }
        })
    };
    assert_eq!(launch(true, Checks::ALL), None);
    let message = launch(false, crate::checks::RACES).unwrap().message;
    assert!(
        message.starts_with("data race on element 0 (of 4 bytes) of the dynamic"),
        "{message}"
    );
}

/// Thread 0 has a box copied, and the other warp adds it up behind the barrier's first phase, for which `bytes` were announced.
fn box_loaded(map: &RawTensorMap, bytes: u32, out: SliceMut<'_, u32>) {
    let (tile, full) = box_and_barrier();
    let me = thread::thread_idx_x() as usize;
    if me == 0 {
        full.arrive_expect_tx(bytes);
        // SAFETY: a map of memory that lives until the launch is over; the tile has room for the box.
        unsafe { TensorMap::<u32>::from_address(map).load(tile, [0], full) }; // fewer_bytes_than_a_box_has: first
    }
    full.wait(0); // more_bytes_than_a_box_has: second
    if me >= 32 {
        out.set(me, tile.get(me - 32)); // fewer_bytes_than_a_box_has: second
    }
}

/// A map whose box is all of the memory, 32 elements.
pub(super) fn map_of(memory: &mut [u128; 8]) -> RawTensorMap {
    let layout = TensorMapLayout {
        element_bytes: 4,
        rank: 1,
        dims: [32, 1, 1, 1, 1],
        strides: [0; 4],
        box_dims: [32, 1, 1, 1, 1],
        steps: [1; 5],
        swizzle: Swizzle::None,
    };
    RawTensorMap::simulated(memory.as_mut_ptr().expose_provenance(), &layout)
}

#[test]
fn boxes_of_other_bytes_than_were_announced() {
    let mut memory = [5; 8];
    let map = map_of(&mut memory);
    let wanted =
        "a phase of an mbarrier never ends: 1 of 1 arrivals have come, and 128 bytes of 256 that were expected";
    for (name, wrong, wanted) in [
        ("more_bytes_than_a_box_has", 256, wanted),
        // The phase ends before all of the box has come, and is another one than that in which the box has.
        (
            "fewer_bytes_than_a_box_has",
            64,
            "not waited for: this read of element 0",
        ),
    ] {
        crate::checks::try_both(kernels::SOURCE, name, wanted, |right, checks| {
            let bytes = if right { 128 } else { wrong };
            crate::checks::run((1, 64, false), checks, |out| box_loaded(&map, bytes, out))
        });
    }
}

/// Boxes that are loaded and stored.
mod boxes {
    use super::*;
    use crate::checks::corpus::boxes as kernels;

    macro_rules! cases {
        ($($name:ident($grid:literal, $block:literal), $wanted:literal;)*) => {$(
            #[test]
            fn $name() {
                let mut memory = [[0; 8]; 2];
                let [x, y] = memory.each_mut().map(map_of);
                crate::checks::try_both(kernels::SOURCE, stringify!($name), $wanted, |right, checks| {
                    crate::checks::run(($grid, $block, false), checks, |out| {
                        // SAFETY: maps of memory that lives until the launch is over; the boxes are of 32 elements.
                        unsafe {
                            let (x, y) = (TensorMap::from_address(&x), TensorMapMut::from_address(&y));
                            match right {
                                true => kernels::$name::<true>(x, y, out),
                                false => kernels::$name::<false>(x, y, out),
                            }
                        }
                    })
                });
            }
        )*};
    }

    crate::corpus_boxes! { cases }
}

/// Those that copy from an array.
mod copies {
    use crate::checks::corpus::copies as kernels;

    #[repr(align(16))]
    struct Aligned([u32; 64]);

    macro_rules! cases {
        ($($name:ident($grid:literal, $block:literal), $wanted:literal;)*) => {$(
            #[test]
            fn $name() {
                let x = Aligned([5; 64]);
                crate::checks::try_both(kernels::SOURCE, stringify!($name), $wanted, |right, checks| match right {
                    true => crate::checks::run(($grid, $block, false), checks, |out| kernels::$name::<true>(&x.0, out)),
                    false => crate::checks::run(($grid, $block, false), checks, |out| kernels::$name::<false>(&x.0, out)),
                });
            }
        )*};
    }

    crate::corpus_copies! { cases }
}

/// Barriers of which a GPU has instructions as well.
mod barriers {
    use crate::checks::corpus::pipelines as kernels;

    crate::corpus_pipelines! { crate::checks::cases }
}

crate::checks::cases! {
    init_not_ordered(1, 32), "data race on element 0 (of 8 bytes)";
}
