// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters: their blocks, their barrier, and their shared memory.

use cuda_std::cluster;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap};

/// The blocks of the clusters below, and the threads of each.
pub const BLOCKS: u32 = 4;
pub const THREADS: u32 = 128;

fn me() -> usize {
    thread::thread_idx_x() as usize
}

/// Where each block is: its rank, the number of blocks, its index in the cluster and the extents, for clusters of that shape.
#[kernel(X = [1, 2], Y = [1, 4], cluster = (X, Y))]
pub fn places<const X: u32, const Y: u32>(out: SliceMut<'_, u32>) {
    let (block, grid) = (thread::block_idx(), thread::grid_dim());
    let first = 8 * (block.x + grid.x * block.y) as usize;
    let (at, extent) = (cluster::block_idx(), cluster::dim());
    let places = [
        cluster::block_rank(),
        cluster::num_blocks(),
        at.x,
        at.y,
        at.z,
        extent.x,
        extent.y,
        extent.z,
    ];
    for (i, place) in places.into_iter().enumerate() {
        out.set(first + i, place);
    }
}

/// How many bins each block of a histogram has.
pub const BINS: usize = 256;

/// How often each number occurs, of as many as the blocks of a cluster have bins.
#[kernel(cluster = BLOCKS, max_threads = THREADS)]
pub fn distributed_histogram(x: &[u32], counts: SliceMut<'_, u32>) {
    let bins = shared_array![u32; BINS];
    for bin in (me()..BINS).step_by(THREADS as usize) {
        bins.set(bin, 0);
    }
    cluster::sync();
    let mut i = thread::index_1d();
    while i < x.len() {
        let bin = x[i] as usize;
        bins.map_shared_rank((bin / BINS) as u32)
            .atomic(bin % BINS)
            .fetch_add(1);
        i += (thread::grid_dim_x() * THREADS) as usize;
    }
    cluster::sync();
    let first = BINS * cluster::block_rank() as usize;
    for bin in (me()..BINS).step_by(THREADS as usize) {
        counts.atomic(first + bin).fetch_add(bins.get(bin));
    }
}

/// The sum of each cluster's share of `x`, which every block of it writes: each reads the sums of all.
#[kernel(cluster = BLOCKS, max_threads = THREADS)]
pub fn cluster_sums(x: &[f64], sums: SliceMut<'_, f64>) {
    let sum = shared_array![f64; 1];
    if me() == 0 {
        sum.set(0, 0.0);
    }
    thread::sync_threads();
    // Whole numbers, whose sums are the same in any order.
    sum.atomic(0).fetch_add(x[thread::index_1d()]);
    cluster::sync();
    if me() == 0 {
        let all = (0..cluster::num_blocks())
            .map(|rank| sum.map_shared_rank(rank).get(0))
            .sum();
        sums.set(thread::block_idx_x() as usize, all);
    }
    cluster::sync();
}

/// Turns each cluster's elements around, by vectors: each block writes to the one opposite.
#[kernel(cluster = BLOCKS, max_threads = THREADS)]
pub fn reverse_in_clusters(x: &[u32], out: SliceMut<'_, u32>) {
    let tile = shared_array![u32; 4 * THREADS as usize];
    // Nobody writes to a block that has not begun.
    cluster::sync();
    let [a, b, c, d] = x.load_vec::<4>(4 * thread::index_1d());
    let opposite = tile.map_shared_rank(BLOCKS - 1 - cluster::block_rank());
    opposite.set_vec(4 * (THREADS as usize - 1 - me()), [d, c, b, a]);
    cluster::sync();
    out.set_vec(4 * thread::index_1d(), tile.get_vec::<4>(4 * me()));
}

/// A ring of the cluster's blocks: so many times, each gives the next one its number and takes that of the one before, each
/// number through a barrier that the one who takes it waits for, and one that the one who gives it does.
#[kernel(cluster = BLOCKS, max_threads = THREADS)]
pub fn pass_round(rounds: u32, out: SliceMut<'_, u32>) {
    let (slots, words) = (shared_array![u32; THREADS as usize], shared_array![u64; 2]);
    // SAFETY: the words are barriers only, initialised ahead of the cluster's barrier, and each phase gets the arrivals of one
    // block's threads.
    let (full, empty) = unsafe { (Mbarrier::at(words, 0), Mbarrier::at(words, 1)) };
    if me() == 0 {
        full.init(THREADS);
        empty.init(THREADS);
        mbarrier::fence_init();
    }
    cluster::sync();
    let rank = cluster::block_rank();
    let (next, last) = ((rank + 1) % BLOCKS, (rank + BLOCKS - 1) % BLOCKS);
    let mut number = thread::index_1d() as u32;
    for round in 0..rounds {
        // The next block has taken the number of the round before.
        empty.wait_cluster((round + 1) % 2);
        slots.map_shared_rank(next).set(me(), number);
        full.map_shared_rank(next).arrive();
        full.wait_cluster(round % 2);
        number = slots.get(me()).wrapping_mul(3).wrapping_add(round);
        empty.map_shared_rank(last).arrive();
    }
    out.set(thread::index_1d(), number);
    cluster::sync();
}

/// The sum of all rows, in every block: a round brings one row for each of the cluster's blocks, which load them for all, into a
/// buffer that all have done with.
///
/// # Safety
///
/// As of [`multicast`](multicast()).
#[kernel(cluster = BLOCKS, max_threads = 32, arch = "sm_90a")]
pub unsafe fn multicast_ring(rounds: u32, x: TensorMap<'_, f32>, out: SliceMut<'_, f32>) {
    let tile = cuda_std::shared::dynamic::<f32>().aligned::<128>();
    let words = shared_array![u64; 2];
    // SAFETY: the words are barriers only. A phase of the first gets one arrival, and one of the second those of all threads of
    // the cluster.
    let (full, empty) = unsafe { (Mbarrier::at(words, 0), Mbarrier::at(words, 1)) };
    let rank = cluster::block_rank();
    if me() == 0 {
        full.init(1);
        empty.init(32 * BLOCKS);
        mbarrier::fence_init();
    }
    cluster::sync();
    let mut sum = 0.0;
    for round in 0..rounds {
        if me() == 0 {
            // All blocks have read the rows of the round before. So none is in a phase of its own barrier before this one.
            empty.wait_cluster((round + 1) % 2);
            full.arrive_expect_tx(4 * 32 * BLOCKS);
            let (to, row) = (tile.subarray(32 * rank as usize, 32), (round * BLOCKS + rank) as i32);
            // SAFETY: a row of 32 elements, for which there is room in all blocks, and which nobody touches before it is there.
            unsafe { x.load_multicast(to, [0, row], full, (1 << BLOCKS) - 1) };
        }
        full.wait(round % 2);
        for row in 0..BLOCKS as usize {
            sum += tile.get(32 * row + me());
        }
        // The next copies come behind these reads.
        tma::fence_async();
        for loader in 0..BLOCKS {
            empty.map_shared_rank(loader).arrive();
        }
    }
    out.set(thread::index_1d(), sum);
    cluster::sync();
}

/// Every block of a cluster gets the rows of all of them, 32 elements each: each block loads its own, for all.
///
/// # Safety
///
/// The map's boxes are of 1 × 32 elements, without swizzle, and blocks have 1 KiB of dynamic shared memory.
#[kernel(cluster = BLOCKS, max_threads = 32, arch = "sm_90a")]
pub unsafe fn multicast(x: TensorMap<'_, f32>, out: SliceMut<'_, f32>) {
    let tile = cuda_std::shared::dynamic::<f32>().aligned::<128>();
    let words = shared_array![u64; 1];
    // SAFETY: the word is a barrier only, with one arrival for its one phase.
    let loaded = unsafe { Mbarrier::at(words, 0) };
    let rank = cluster::block_rank();
    if me() == 0 {
        loaded.init(1);
        mbarrier::fence_init();
        loaded.arrive_expect_tx(4 * 32 * BLOCKS);
    }
    // All barriers know of the bytes.
    cluster::sync();
    if me() == 0 {
        let row = thread::block_idx_x() as i32;
        let to = tile.subarray(32 * rank as usize, 32);
        // SAFETY: a row of 32 elements, for which there is room in all blocks, and which nobody touches before all are there.
        unsafe { x.load_multicast(to, [0, row], loaded, (1 << BLOCKS) - 1) };
    }
    loaded.wait(0);
    for row in 0..BLOCKS as usize {
        out.set(
            32 * (BLOCKS as usize * thread::block_idx_x() as usize + row) + me(),
            tile.get(32 * row + me()),
        );
    }
    // Nobody's copy comes to a block that has ended.
    cluster::sync();
}
