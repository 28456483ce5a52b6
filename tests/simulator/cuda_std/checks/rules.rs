// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of barriers, warps and bounds, which are always kept watch over.

mod kernels {
    use cuda_std::mbarrier::Mbarrier;
    use cuda_std::prelude::*;

    pub const SOURCE: (&str, &str) = ("rules.rs", include_str!("rules.rs"));

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

    pub fn barrier_in_a_branch<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if RIGHT || me() < 40 {
            out.set(me(), 1);
            thread::sync_threads(); // barrier_in_a_branch: second
        }
    }

    pub fn barrier_after_an_early_return<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let in_bounds = me() < 50;
        if !RIGHT && !in_bounds {
            return;
        }
        if in_bounds {
            out.set(me(), 1);
        }
        thread::sync_threads(); // barrier_after_an_early_return: second
        out.set(64 + me(), out.get(63 - me()));
    }

    pub fn barrier_in_a_loop_of_another_length<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let rounds = if RIGHT { 2 } else { 1 + me() / 32 };
        for round in 0..rounds {
            out.set(64 * round + me(), 1);
            thread::sync_threads(); // barrier_in_a_loop_of_another_length: second
        }
    }

    pub fn named_barrier_of_other_counts<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(me(), 1);
        if RIGHT || me() < 32 {
            thread::sync_threads_named::<1, 64>();
        } else {
            thread::sync_threads_named::<1, 32>(); // named_barrier_of_other_counts: second
        }
        out.set(64 + me(), out.get(63 - me()));
    }

    pub fn named_barrier_of_more_than_the_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        out.set(me(), 1);
        if RIGHT {
            thread::sync_threads_named::<1, 64>();
        } else {
            thread::sync_threads_named::<1, 96>(); // named_barrier_of_more_than_the_block: second
        }
    }

    pub fn shuffle_of_lanes_that_have_exited<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if me() >= 20 {
            return;
        }
        let mask = if RIGHT { (1 << 20) - 1 } else { warp::FULL_MASK };
        let sum = warp::shuffle_xor(mask, me() as u32, 1); // shuffle_of_lanes_that_have_exited: second
        out.set(me(), sum);
    }

    pub fn vote_in_a_branch<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        if me() < 16 {
            let mask = if RIGHT { 0xffff } else { warp::FULL_MASK };
            out.set(me(), warp::ballot(mask, me().is_multiple_of(2))); // vote_in_a_branch: second
        }
    }

    pub fn one_beyond_the_end<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 64];
        tile.set(me(), 1);
        thread::sync_threads();
        let next = if RIGHT { (me() + 1) % 64 } else { me() + 1 };
        out.set(me(), tile.get(next)); // one_beyond_the_end: second
    }

    pub fn vector_not_aligned<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let first = if RIGHT { 4 * me() } else { 4 * me() + 1 };
        out.set_vec(first, [1_u32; 2]); // vector_not_aligned: second
    }

    pub fn shared_memory_kept_beyond_its_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        std::thread_local! {
            static KEPT: std::cell::Cell<Option<Shared<u32>>> = const { std::cell::Cell::new(None) };
        }
        let tile = shared_array![u32; 64];
        let tile = if RIGHT { tile } else { KEPT.get().unwrap_or(tile) };
        tile.set(me(), 1); // shared_memory_kept_beyond_its_block: second
        KEPT.set(Some(tile));
        out.set(thread::index_1d(), tile.get(me()));
    }

    /// A barrier whose phases get so many arrivals.
    fn barrier(arrivals: u32) -> Mbarrier {
        let words = shared_array![u64; 1];
        // SAFETY: the word is a barrier only.
        let barrier = unsafe { Mbarrier::at(words, 0) };
        if me() == 0 {
            barrier.init(arrivals);
        }
        thread::sync_threads();
        barrier
    }

    pub fn lost_arrival<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let barrier = barrier(32);
        if RIGHT || me() != 5 {
            barrier.arrive();
        }
        barrier.wait(0); // lost_arrival: second
        out.set(me(), 1);
    }

    pub fn lost_arrival_beside_a_barrier<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let barrier = barrier(32);
        if RIGHT || me() != 5 {
            barrier.arrive();
        }
        if me() < 8 {
            barrier.wait(0); // lost_arrival_beside_a_barrier: second
        }
        thread::sync_threads();
        out.set(me(), 1);
    }

    pub fn bytes_that_nobody_brings<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let barrier = barrier(1);
        if me() == 0 {
            if RIGHT {
                barrier.arrive();
            } else {
                barrier.arrive_expect_tx(128);
            }
        }
        barrier.wait(0); // bytes_that_nobody_brings: second
        out.set(me(), 1);
    }

    pub fn wait_for_the_other_parity<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let barrier = barrier(32);
        barrier.arrive();
        barrier.wait(0);
        if !RIGHT {
            barrier.wait(1); // wait_for_the_other_parity: second
        }
        out.set(me(), 1);
    }

    pub fn mbarrier_that_is_not_initialised<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let words = shared_array![u64; 1];
        words.set(0, 0);
        // SAFETY: the word is a barrier only, from here on.
        let barrier = unsafe { Mbarrier::at(words, 0) };
        if RIGHT {
            barrier.init(1);
        }
        barrier.arrive(); // mbarrier_that_is_not_initialised: second
        out.set(0, 1);
    }
}

crate::checks::cases! {
    barrier_in_a_branch(1, 64), "barrier `sync_threads` not reached by all threads of the block";
    barrier_after_an_early_return(1, 64), "barrier `sync_threads` not reached by all threads of the block";
    barrier_in_a_loop_of_another_length(1, 64), "barrier `sync_threads` not reached by all threads of the block";
    named_barrier_of_other_counts(1, 64), "barrier `sync_threads_named` of 32 threads, where others wait to be 64";
    named_barrier_of_more_than_the_block(1, 64), "barrier `sync_threads_named` of 96 threads in a block of 64";
    shuffle_of_lanes_that_have_exited(1, 32), "`shuffle_xor` with mask 0xffffffff not reached by all its lanes";
    vote_in_a_branch(1, 32), "`ballot` with mask 0xffffffff not reached by all its lanes";
    one_beyond_the_end(1, 64), "index out of bounds of shared memory: the len is 64 but the index is 64";
    vector_not_aligned(1, 32), "vector access is not aligned";
    shared_memory_kept_beyond_its_block(2, 64), "shared memory of another block: it was kept beyond the block that it belongs to";
    lost_arrival(1, 32), "a phase of an mbarrier never ends: 31 of 32 arrivals have come, and 0 bytes of 0 that were expected";
    lost_arrival_beside_a_barrier(1, 32), "a phase of an mbarrier never ends: 31 of 32 arrivals have come, and 0 bytes of 0 that were expected";
    bytes_that_nobody_brings(1, 32), "a phase of an mbarrier never ends: 1 of 1 arrivals have come, and 0 bytes of 128 that were expected";
    wait_for_the_other_parity(1, 32), "a phase of an mbarrier never ends: 0 of 32 arrivals have come, and 0 bytes of 0 that were expected";
    mbarrier_that_is_not_initialised(1, 1), "an mbarrier is used that was not initialised";
}
