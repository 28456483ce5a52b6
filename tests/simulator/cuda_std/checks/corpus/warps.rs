// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lanes of a warp may rely on, and what not.

use cuda_std::prelude::*;

/// The name of this file, and what is in it.
pub const SOURCE: (&str, &str) = ("warps.rs", include_str!("warps.rs"));

fn me() -> usize {
    thread::thread_idx_x() as usize
}

#[kernel(RIGHT = [true, false])]
pub fn warp_synchronous<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 32];
    tile.set(me(), 1);
    warp::sync_warp(warp::FULL_MASK);
    let mut half = 16;
    while half > 0 {
        let sum = tile.get(me()).wrapping_add(tile.get((me() + half) % 32)); // warp_synchronous: second
        if RIGHT {
            warp::sync_warp(warp::FULL_MASK);
        }
        tile.set(me(), sum); // warp_synchronous: first
        if RIGHT {
            warp::sync_warp(warp::FULL_MASK);
        }
        half /= 2;
    }
    out.set(me(), tile.get(me()));
}

#[kernel(RIGHT = [true, false])]
pub fn shuffle_orders_nothing<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 32];
    tile.set(me(), 1); // shuffle_orders_nothing: first
    let other = warp::shuffle_xor(warp::FULL_MASK, me() as u32, 1);
    if RIGHT {
        warp::sync_warp(warp::FULL_MASK);
    }
    out.set(me(), tile.get(other as usize)); // shuffle_orders_nothing: second
}

#[kernel(RIGHT = [true, false])]
pub fn vote_orders_nothing<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 32];
    tile.set(me(), 1); // vote_orders_nothing: first
    warp::ballot(warp::FULL_MASK, me() < 16);
    if RIGHT {
        warp::sync_warp(warp::FULL_MASK);
    }
    out.set(me(), tile.get(31 - me())); // vote_orders_nothing: second
}

#[kernel(RIGHT = [true, false])]
pub fn halves_of_a_warp<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 32];
    tile.set(me(), 1); // halves_of_a_warp: first
    if RIGHT {
        warp::sync_warp(warp::FULL_MASK);
    } else {
        warp::sync_warp(if me() < 16 { 0xffff } else { 0xffff_0000 });
    }
    out.set(me(), tile.get(31 - me())); // halves_of_a_warp: second
}

#[kernel(RIGHT = [true, false])]
pub fn own_half_of_a_warp<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 32];
    tile.set(me(), 1); // own_half_of_a_warp: first
    if RIGHT {
        warp::sync_warp(if me() < 16 { 0xffff } else { 0xffff_0000 });
    }
    out.set(me(), tile.get(me() ^ 15)); // own_half_of_a_warp: second
}

#[kernel(RIGHT = [true, false])]
pub fn another_warp<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 64];
    tile.set(me(), 1); // another_warp: first
    if RIGHT {
        thread::sync_threads();
    } else {
        warp::sync_warp(warp::FULL_MASK);
    }
    out.set(me(), tile.get(63 - me())); // another_warp: second
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn elected_lane<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let word = shared_array![u32; 1];
    if warp::elect() {
        word.set(0, 1); // elected_lane: first
    }
    if RIGHT {
        warp::sync_warp(warp::FULL_MASK);
    }
    out.set(me(), word.get(0)); // elected_lane: second
}

/// Hands the kernels to a macro: of each the extents of grid and block, and how what the simulated GPU finds begins.
#[macro_export]
macro_rules! corpus_warps {
    ($($cases:tt)+) => {
        $($cases)+! {
            warp_synchronous(1, 32), "data race on element";
            shuffle_orders_nothing(1, 32), "data race on element";
            vote_orders_nothing(1, 32), "data race on element";
            halves_of_a_warp(1, 32), "data race on element";
            own_half_of_a_warp(1, 32), "data race on element";
            another_warp(1, 64), "data race on element";
            elected_lane(1, 32), "data race on element";
        }
    };
}
