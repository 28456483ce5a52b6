// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lanes of a warp may rely on, and what not.

mod kernels {
    use cuda_std::prelude::*;

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

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

    pub fn shuffle_orders_nothing<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1); // shuffle_orders_nothing: first
        let other = warp::shuffle_xor(warp::FULL_MASK, me() as u32, 1);
        if RIGHT {
            warp::sync_warp(warp::FULL_MASK);
        }
        out.set(me(), tile.get(other as usize)); // shuffle_orders_nothing: second
    }

    pub fn vote_orders_nothing<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1); // vote_orders_nothing: first
        warp::ballot(warp::FULL_MASK, me() < 16);
        if RIGHT {
            warp::sync_warp(warp::FULL_MASK);
        }
        out.set(me(), tile.get(31 - me())); // vote_orders_nothing: second
    }

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

    pub fn own_half_of_a_warp<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1); // own_half_of_a_warp: first
        if RIGHT {
            warp::sync_warp(if me() < 16 { 0xffff } else { 0xffff_0000 });
        }
        out.set(me(), tile.get(me() ^ 15)); // own_half_of_a_warp: second
    }

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

    pub fn global_scratch_of_a_warp<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(me(), 1); // global_scratch_of_a_warp: first
        if RIGHT {
            warp::sync_warp(warp::FULL_MASK);
        }
        out.set(64 + me(), out.get(31 - me())); // global_scratch_of_a_warp: second
    }
}

crate::cases! { "warps.rs":
    warp_synchronous(1, 32), "data race on element";
    shuffle_orders_nothing(1, 32), "data race on element";
    vote_orders_nothing(1, 32), "data race on element";
    halves_of_a_warp(1, 32), "data race on element";
    own_half_of_a_warp(1, 32), "data race on element";
    another_warp(1, 64), "data race on element";
    elected_lane(1, 32), "data race on element";
    global_scratch_of_a_warp(1, 32), "data race on 4 bytes of global memory at";
}
