// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of a cluster, and their shared memory.

use cuda_sim::{Checks, Options, Schedule};
use cuda_std::prelude::*;
use cuda_std::tma::{RawTensorMap, TensorMap};

use super::pipelines::map_of;

mod kernels {
    use cuda_std::async_copy;
    use cuda_std::cluster;
    use cuda_std::mbarrier::{self, Mbarrier};
    use cuda_std::prelude::*;
    use cuda_std::tma::{self, TensorMap};

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

    /// The other block of two.
    fn other() -> u32 {
        1 - cluster::block_rank()
    }

    pub fn read_without_cluster_sync<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1); // read_without_cluster_sync: first
        if RIGHT {
            cluster::sync();
        } else {
            thread::sync_threads();
        }
        let value = tile.map_shared_rank(other()).get(me()); // read_without_cluster_sync: second
        out.set(thread::index_1d(), value);
        cluster::sync();
    }

    pub fn written_while_it_is_read<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1);
        cluster::sync();
        out.set(thread::index_1d(), tile.get(31 - me())); // written_while_it_is_read: first
        if RIGHT {
            cluster::sync();
        }
        tile.map_shared_rank(other()).set(me(), 2); // written_while_it_is_read: second
        cluster::sync();
    }

    pub fn ends_before_it_is_read<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1);
        cluster::sync();
        if cluster::block_rank() == 0 {
            out.set(thread::index_1d(), tile.map_shared_rank(1).get(me())); // ends_before_it_is_read: second
        }
        if RIGHT {
            cluster::sync();
        }
    }

    pub fn not_initialised_there<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        if RIGHT || cluster::block_rank() == 1 {
            tile.set(me(), 1);
        }
        cluster::sync();
        let value = tile.map_shared_rank(0).get(me()); // not_initialised_there: second
        out.set(thread::index_1d(), value);
        cluster::sync();
    }

    #[repr(align(16))]
    struct Numbers([u32; 128]);

    static NUMBERS: Numbers = Numbers([1; 128]);

    /// The other block's threads meet this one's, and its copies nobody.
    pub fn copies_not_waited_for_there<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 128].aligned::<16>();
        // SAFETY: 16 bytes of the array, aligned, and of the tile.
        unsafe { async_copy::copy_16(tile, 16 * me() as u32, NUMBERS.0.as_ptr().add(4 * me()), 16) }; // copies_not_waited_for_there: first
        async_copy::commit();
        if RIGHT {
            async_copy::wait::<0>();
        }
        cluster::sync();
        let value = tile.map_shared_rank(other()).get(me()); // copies_not_waited_for_there: second
        out.set(thread::index_1d(), value);
        cluster::sync();
    }

    pub fn wrong_rank<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1);
        cluster::sync();
        let next = cluster::block_rank() + 1;
        let next = if RIGHT { next % cluster::num_blocks() } else { next };
        let tile = tile.map_shared_rank(next); // wrong_rank: second
        out.set(thread::index_1d(), tile.get(me()));
        cluster::sync();
    }

    pub fn beyond_the_array<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        tile.set(me(), 1);
        cluster::sync();
        let index = if RIGHT { me() } else { me() + 1 };
        let value = tile.map_shared_rank(other()).get(index); // beyond_the_array: second
        out.set(thread::index_1d(), value);
        cluster::sync();
    }

    pub fn counts_by_atomics_of_the_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let bins = shared_array![u32; 1];
        if me() == 0 {
            bins.set(0, 0);
        }
        cluster::sync();
        if RIGHT || cluster::block_rank() == 1 {
            bins.map_shared_rank(0).atomic(0).fetch_add(1); // counts_by_atomics_of_the_block: first
        } else {
            bins.atomic(0).fetch_add(1); // counts_by_atomics_of_the_block: second
        }
        cluster::sync();
        out.set(thread::index_1d(), bins.get(0));
    }

    pub fn counts_not_awaited<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let bins = shared_array![u32; 32];
        bins.set(me(), 0);
        cluster::sync();
        bins.map_shared_rank(other()).atomic(me()).fetch_add(1); // counts_not_awaited: first
        if RIGHT {
            cluster::sync();
        } else {
            thread::sync_threads();
        }
        out.set(thread::index_1d(), bins.get(me())); // counts_not_awaited: second
        cluster::sync();
    }

    pub fn flag_without_acquire<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let words = shared_array![u32; 2];
        if me() < 2 {
            words.set(me(), 0);
        }
        cluster::sync();
        if me() == 0 && cluster::block_rank() == 1 {
            let there = words.map_shared_rank(0);
            there.set(1, 7); // flag_without_acquire: first
            there.atomic(0).store_release(1);
        }
        if me() == 0 && cluster::block_rank() == 0 {
            let flag = words.map_shared_rank(0).atomic(0);
            let load = || if RIGHT { flag.load_acquire() } else { flag.load() };
            while load() == 0 {
                thread::nanosleep(100);
            }
            out.set(thread::index_1d(), words.get(1)); // flag_without_acquire: second
        }
        cluster::sync();
    }

    /// A barrier of one phase of 32 arrivals, in each block.
    fn barrier(arrivals: u32) -> Mbarrier {
        let words = shared_array![u64; 1];
        // SAFETY: the word is a barrier only, initialised ahead of the cluster's barrier, and its phase gets the arrivals of
        // one warp, or of one thread.
        let ready = unsafe { Mbarrier::at(words, 0) };
        if me() == 0 {
            ready.init(arrivals);
            mbarrier::fence_init();
        }
        ready
    }

    pub fn waits_in_the_block<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        let ready = barrier(32);
        cluster::sync();
        if cluster::block_rank() == 1 {
            tile.map_shared_rank(0).set(me(), 3); // waits_in_the_block: first
            ready.map_shared_rank(0).arrive();
        } else {
            if RIGHT {
                ready.wait_cluster(0);
            } else {
                ready.wait(0);
            }
            out.set(thread::index_1d(), tile.get(31 - me())); // waits_in_the_block: second
        }
        cluster::sync();
    }

    pub fn arrives_there_before_it_writes<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let tile = shared_array![u32; 32];
        let ready = barrier(32);
        tile.set(me(), 0);
        cluster::sync();
        if cluster::block_rank() == 1 {
            if !RIGHT {
                ready.map_shared_rank(0).arrive();
            }
            tile.map_shared_rank(0).set(me(), 3); // arrives_there_before_it_writes: first
            if RIGHT {
                ready.map_shared_rank(0).arrive();
            }
        } else {
            ready.wait_cluster(0);
            out.set(thread::index_1d(), tile.get(31 - me())); // arrives_there_before_it_writes: second
        }
        cluster::sync();
    }

    pub fn barrier_used_before_it_is_one<const RIGHT: bool>(out: SliceMut<'_, u32>) {
        let ready = barrier(32);
        if RIGHT {
            cluster::sync();
        } else {
            thread::sync_threads();
        }
        ready.map_shared_rank(other()).arrive(); // barrier_used_before_it_is_one: second
        ready.wait_cluster(0);
        out.set(thread::index_1d(), 1);
        cluster::sync();
    }

    /// The first block loads 32 numbers for both.
    pub fn multicast_not_waited_for<const RIGHT: bool>(map: TensorMap<'_, u32>, out: SliceMut<'_, u32>) {
        let tile = cuda_std::shared::dynamic::<u32>().aligned::<128>();
        let loaded = barrier(1);
        if me() == 0 {
            loaded.arrive_expect_tx(128);
        }
        cluster::sync();
        if me() == 0 && cluster::block_rank() == 0 {
            // SAFETY: a box of 32 numbers, for which there is room in both blocks.
            unsafe { map.load_multicast(tile, [0], loaded, 0b11) }; // multicast_not_waited_for: first
        }
        if RIGHT || cluster::block_rank() == 0 {
            loaded.wait(0);
        }
        out.set(thread::index_1d(), tile.get(me())); // multicast_not_waited_for: second
        cluster::sync();
    }

    /// Threads of the other block have written where the box comes to.
    pub fn multicast_without_a_fence<const RIGHT: bool>(map: TensorMap<'_, u32>, out: SliceMut<'_, u32>) {
        let tile = cuda_std::shared::dynamic::<u32>().aligned::<128>();
        let loaded = barrier(1);
        tile.set(me(), 1); // multicast_without_a_fence: first
        if RIGHT || cluster::block_rank() == 0 {
            tma::fence_async();
        }
        if me() == 0 {
            loaded.arrive_expect_tx(32 * 4);
        }
        cluster::sync();
        if me() == 0 && cluster::block_rank() == 0 {
            // SAFETY: the tiles have room for a box, and are let alone until it is there.
            unsafe { map.load_multicast(tile, [0], loaded, 0b11) }; // multicast_without_a_fence: second
        }
        loaded.wait(0);
        out.set(thread::index_1d(), tile.get(me()));
        cluster::sync();
    }

    pub fn multicast_beyond_the_cluster<const RIGHT: bool>(map: TensorMap<'_, u32>, out: SliceMut<'_, u32>) {
        let tile = cuda_std::shared::dynamic::<u32>().aligned::<128>();
        let loaded = barrier(1);
        if me() == 0 {
            loaded.arrive_expect_tx(128);
        }
        cluster::sync();
        if me() == 0 && cluster::block_rank() == 0 {
            let blocks = if RIGHT { 0b11 } else { 0b111 };
            // SAFETY: a box of 32 numbers, for which there is room; not in block 2, which the simulated GPU says.
            unsafe { map.load_multicast(tile, [0], loaded, blocks) }; // multicast_beyond_the_cluster: second
        }
        loaded.wait(0);
        out.set(thread::index_1d(), tile.get(me()));
        cluster::sync();
    }
}

/// Two clusters of two blocks of a warp.
fn in_clusters(checks: Checks, schedule: Option<Schedule>) -> Options<'static> {
    Options {
        cluster: Some(2.into()),
        checks,
        schedule,
        ..Options::default()
    }
}

type Kernel = fn(SliceMut<'_, u32>);

/// Runs both forms of a kernel, and the corrected one by several schedules.
fn try_in_clusters(
    name: &str,
    wanted: &str,
    right: impl Fn(SliceMut<'_, u32>) + Sync,
    wrong: impl Fn(SliceMut<'_, u32>) + Sync,
) {
    crate::checks::try_both(SOURCE, name, wanted, |is_right, checks| match is_right {
        true => crate::checks::run_with((4, 32), in_clusters(checks, None), &right),
        false => crate::checks::run_with((4, 32), in_clusters(checks, None), &wrong),
    });
    for schedule in Schedule::several(4, 4) {
        let fault = crate::checks::run_with((4, 32), in_clusters(Checks::ALL, Some(schedule)), &right);
        assert_eq!(fault, None, "`{name}`, corrected, {schedule:?}");
        let fault = crate::checks::run_with((4, 32), in_clusters(Checks::ALL, Some(schedule)), &wrong);
        assert!(fault.is_some(), "`{name}`, {schedule:?}: nothing was found");
    }
}

const SOURCE: (&str, &str) = ("clusters.rs", include_str!("clusters.rs"));

macro_rules! cases {
    ($($name:ident, $wanted:literal;)*) => {$(
        #[test]
        fn $name() {
            let (right, wrong): (Kernel, Kernel) = (kernels::$name::<true>, kernels::$name::<false>);
            try_in_clusters(stringify!($name), $wanted, right, wrong);
        }
    )*};
}

cases! {
    read_without_cluster_sync, "data race on element";
    written_while_it_is_read, "data race on element";
    ends_before_it_is_read, "access to shared memory of block (1, 0, 0) of the cluster, which ";
    not_initialised_there, "uninitialised: byte 0 of the shared array at ";
    copies_not_waited_for_there, "not waited for: this read of element";
    wrong_rank, "index out of bounds of the blocks of the cluster: the len is 2 but the index is 2";
    beyond_the_array, "index out of bounds of distributed shared memory: the len is 32 but the index is 32";
    counts_by_atomics_of_the_block, "data race on element";
    counts_not_awaited, "data race on element";
    flag_without_acquire, "data race on element";
    waits_in_the_block, "data race on element";
    arrives_there_before_it_writes, "data race on element";
    barrier_used_before_it_is_one, "an mbarrier is used that was not initialised";
}

/// The map, for as long as a test runs.
fn numbers(map: &RawTensorMap) -> TensorMap<'_, u32> {
    // SAFETY: of `map_of`, whose memory the test keeps, and nothing writes.
    unsafe { TensorMap::from_address(map) }
}

/// Those that copy by a map.
macro_rules! copies {
    ($($name:ident, $wanted:literal;)*) => {$(
        #[test]
        fn $name() {
            let mut memory = [0; 8];
            let map = map_of(&mut memory);
            try_in_clusters(
                stringify!($name),
                $wanted,
                |out| kernels::$name::<true>(numbers(&map), out),
                |out| kernels::$name::<false>(numbers(&map), out),
            );
        }
    )*};
}

copies! {
    multicast_not_waited_for, "data race on element";
    multicast_without_a_fence, "not fenced: this asynchronous write of element 0 (of 4 bytes) of the dynamic shared memory in block (1, 0, 0) of the cluster comes behind the write of block (1, 0, 0), thread (0, 0, 0)";
    multicast_beyond_the_cluster, "a bulk copy to the blocks 0b111 of a cluster of 2";
}
