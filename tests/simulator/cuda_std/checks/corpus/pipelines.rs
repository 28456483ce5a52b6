// SPDX-License-Identifier: MIT OR Apache-2.0
//! Producers and consumers, by barriers in shared memory.

use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;

/// The name of this file, and what is in it.
pub const SOURCE: (&str, &str) = ("pipelines.rs", include_str!("pipelines.rs"));

/// The `full` and the `empty` barrier of a ring of one buffer, for a producing and a consuming warp.
fn barriers() -> (Mbarrier, Mbarrier) {
    let words = shared_array![u64; 2];
    // SAFETY: the words are barriers only, and each phase gets the arrivals of one warp.
    let (full, empty) = unsafe { (Mbarrier::at(words, 0), Mbarrier::at(words, 1)) };
    if thread::thread_idx_x() == 0 {
        full.init(32);
        empty.init(32);
        mbarrier::fence_init();
    }
    thread::sync_threads();
    (full, empty)
}

/// What the second warp adds up of what the first one makes.
fn pipeline(
    out: SliceMut<'_, u32>,
    produce: impl Fn(Mbarrier, Mbarrier, Shared<u32>, u32),
    consume: impl Fn(Mbarrier, Mbarrier, Shared<u32>, u32) -> u32,
) {
    let buffer = shared_array![u32; 32];
    let (full, empty) = barriers();
    let mut sum = 0_u32;
    for round in 0..3 {
        if thread::thread_idx_x() < 32 {
            produce(full, empty, buffer, round);
        } else {
            sum = sum.wrapping_add(consume(full, empty, buffer, round));
        }
    }
    out.set(thread::thread_idx_x() as usize, sum);
}

fn produce(full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32) {
    empty.wait((round + 1) % 2);
    buffer.set(warp::lane_id() as usize, round);
    full.arrive();
}

fn consume(full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32) -> u32 {
    full.wait(round % 2);
    let value = buffer.get(31 - warp::lane_id() as usize);
    empty.arrive();
    value
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn consumer_does_not_wait<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let buffer = shared_array![u32; 32];
    let (full, _) = barriers();
    let lane = warp::lane_id() as usize;
    if thread::thread_idx_x() < 32 {
        buffer.set(lane, 1); // consumer_does_not_wait: first
        full.arrive();
    } else {
        if RIGHT {
            full.wait(0);
        }
        out.set(lane, buffer.get(31 - lane)); // consumer_does_not_wait: second
    }
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn producer_does_not_wait<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let consume = |full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32| {
        full.wait(round % 2);
        let value = buffer.get(31 - warp::lane_id() as usize); // producer_does_not_wait: second
        empty.arrive();
        value
    };
    let produce = |full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32| {
        if RIGHT {
            empty.wait((round + 1) % 2);
        }
        buffer.set(warp::lane_id() as usize, round); // producer_does_not_wait: first
        if !RIGHT {
            empty.wait((round + 1) % 2);
        }
        full.arrive();
    };
    pipeline(out, produce, consume);
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn arrives_before_it_writes<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let produce_early = |full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32| {
        empty.wait((round + 1) % 2);
        full.arrive();
        buffer.set(warp::lane_id() as usize, round); // arrives_before_it_writes: first
    };
    let consume_it = |full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32| {
        full.wait(round % 2);
        let value = buffer.get(31 - warp::lane_id() as usize); // arrives_before_it_writes: second
        empty.arrive();
        value
    };
    if RIGHT {
        pipeline(out, produce, consume_it);
    } else {
        pipeline(out, produce_early, consume_it);
    }
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn arrives_before_it_reads<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let produce_it = |full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32| {
        empty.wait((round + 1) % 2);
        buffer.set(warp::lane_id() as usize, round); // arrives_before_it_reads: second
        full.arrive();
    };
    let consume_late = |full: Mbarrier, empty: Mbarrier, buffer: Shared<u32>, round: u32| {
        full.wait(round % 2);
        empty.arrive();
        buffer.get(31 - warp::lane_id() as usize) // arrives_before_it_reads: first
    };
    if RIGHT {
        pipeline(out, produce_it, consume);
    } else {
        pipeline(out, produce_it, consume_late);
    }
}

/// Hands the kernels to a macro: of each the extents of grid and block, and how what the simulated GPU finds begins.
#[macro_export]
macro_rules! corpus_pipelines {
    ($($cases:tt)+) => {
        $($cases)+! {
            consumer_does_not_wait(1, 64), "data race on element";
            producer_does_not_wait(1, 64), "data race on element";
            arrives_before_it_writes(1, 64), "data race on element";
            arrives_before_it_reads(1, 64), "data race on element";
        }
    };
}
