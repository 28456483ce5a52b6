// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk copies that nobody has waited for, and those to and from global memory that threads and other copies access as well.

use cuda_sim::{Checks, Fault};
use cuda_std::prelude::*;
use cuda_std::tma::RawTensorMap;

use super::corpus::boxes::box_and_barrier;
use super::pipelines::map_of;

mod kernels {
    use cuda_std::cluster;
    use cuda_std::mbarrier::Mbarrier;
    use cuda_std::prelude::*;
    use cuda_std::tma::{self, RawTensorMap, TensorMap, TensorMapMut};

    use crate::checks::corpus::boxes::box_and_barrier;

    pub const SOURCE: (&str, &str) = ("bulk.rs", include_str!("bulk.rs"));

    /// What each kernel has: a tensor of one box of 32 numbers, by its map and as a slice, and flags behind it.
    #[derive(Clone, Copy)]
    pub struct Tensor<'a> {
        pub map: &'a RawTensorMap,
        pub numbers: SliceMut<'a, u32>,
        pub flags: SliceMut<'a, u32>,
    }

    fn me() -> usize {
        thread::thread_idx_x() as usize
    }

    fn is_first_block() -> bool {
        thread::block_idx_x() == 0
    }

    impl Tensor<'_> {
        /// Has the box loaded.
        #[track_caller]
        pub fn load(self, tile: Shared<u32>, full: Mbarrier) {
            full.arrive_expect_tx(128);
            // SAFETY: a map of memory that lives until the launch is over; the tile has room for the box.
            unsafe { TensorMap::<u32>::from_address(self.map).load(tile, [0], full) };
        }

        /// Has the box stored.
        #[track_caller]
        pub fn store(self, tile: Shared<u32>) {
            // SAFETY: as in `load`.
            unsafe { TensorMapMut::<u32>::from_address(self.map).store([0], tile) };
            tma::commit();
        }

        /// Has the box added.
        #[track_caller]
        pub fn add(self, tile: Shared<u32>) {
            // SAFETY: as in `load`; a number of 32 bits is as good as another.
            unsafe { TensorMapMut::<f32>::from_address(self.map).add([0], tile.cast()) };
            tma::commit();
        }
    }

    pub fn waits_for_the_phase_before<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        for round in 0..2 {
            if me() == 0 {
                tensor.load(tile, full);
            }
            thread::sync_threads();
            full.wait(if RIGHT { round } else { 0 }); // waits_for_the_phase_before: second
            tensor.flags.set(me(), tile.get(me()));
            tma::fence_async();
            thread::sync_threads();
        }
    }

    pub fn ends_before_the_box_is_read<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        if me() == 0 {
            tensor.store(tile); // ends_before_the_box_is_read: second
            if RIGHT {
                tma::wait_read::<0>();
            }
        }
    }

    pub fn ends_before_the_box_is_there<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        if me() == 0 {
            tensor.load(tile, full); // ends_before_the_box_is_there: second
            if RIGHT {
                full.wait(0);
            }
        }
    }

    pub fn multicast_behind_the_cluster_barrier<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        if me() == 0 {
            full.arrive_expect_tx(128);
        }
        cluster::sync();
        if me() == 0 && cluster::block_rank() == 0 {
            // SAFETY: the tiles have room for a box, in both blocks.
            unsafe { TensorMap::<u32>::from_address(tensor.map).load_multicast(tile, [0], full, 0b11) }; // multicast_behind_the_cluster_barrier: first
        }
        cluster::sync();
        if RIGHT || cluster::block_rank() == 0 {
            full.wait(0);
        }
        tensor.flags.set(thread::index_1d(), tile.get(me())); // multicast_behind_the_cluster_barrier: second
        cluster::sync();
    }

    pub fn loaded_without_a_fence<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        tensor.numbers.set(me(), 5); // loaded_without_a_fence: first
        if RIGHT {
            tma::fence_async_global();
        }
        thread::sync_threads();
        if me() == 0 {
            tensor.load(tile, full); // loaded_without_a_fence: second
        }
        full.wait(0);
        tensor.flags.set(me(), tile.get(me()));
    }

    pub fn fenced_in_shared_memory<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        tensor.numbers.set(me(), 5); // fenced_in_shared_memory: first
        if RIGHT {
            tma::fence_async_global();
        } else {
            tma::fence_async();
        }
        thread::sync_threads();
        if me() == 0 {
            tensor.load(tile, full); // fenced_in_shared_memory: second
        }
        full.wait(0);
        tensor.flags.set(me(), tile.get(me()));
    }

    pub fn fenced_in_global_memory<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        tile.set(me(), 5); // fenced_in_global_memory: first
        if RIGHT {
            tma::fence_async();
        } else {
            tma::fence_async_global();
        }
        thread::sync_threads();
        if me() == 0 {
            tensor.store(tile); // fenced_in_global_memory: second
            tma::wait::<0>();
        }
    }

    pub fn stored_where_threads_have_written<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        tensor.numbers.set(me(), 0); // stored_where_threads_have_written: first
        if RIGHT {
            tma::fence_async_global();
        }
        thread::sync_threads();
        if me() == 0 {
            tensor.store(tile); // stored_where_threads_have_written: second
            tma::wait::<0>();
        }
    }

    pub fn stored_where_threads_have_read<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        tensor.flags.set(me(), tensor.numbers.get(me())); // stored_where_threads_have_read: first
        if RIGHT {
            tma::fence_async_global();
        }
        thread::sync_threads();
        if me() == 0 {
            tensor.store(tile); // stored_where_threads_have_read: second
            tma::wait::<0>();
        }
    }

    pub fn added_to_what_threads_have_written<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        tensor.numbers.set(me(), 0); // added_to_what_threads_have_written: first
        if RIGHT {
            tma::fence_async_global();
        }
        thread::sync_threads();
        if me() == 0 {
            tensor.add(tile); // added_to_what_threads_have_written: second
            tma::wait::<0>();
        }
    }

    pub fn read_before_it_is_stored<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        if me() == 0 {
            tensor.store(tile); // read_before_it_is_stored: first
            // The one waits until the tile has been read, the other until the tensor has been written.
            if RIGHT {
                tma::wait::<0>();
            } else {
                tma::wait_read::<0>();
            }
        }
        thread::sync_threads();
        tensor.flags.set(me(), tensor.numbers.get(me())); // read_before_it_is_stored: second
    }

    pub fn loaded_before_it_is_stored<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        if me() == 0 {
            tensor.store(tile); // loaded_before_it_is_stored: first
            if RIGHT {
                tma::wait::<0>();
            } else {
                tma::wait_read::<0>();
            }
            tensor.load(tile, full); // loaded_before_it_is_stored: second
            full.wait(0);
        }
    }

    pub fn waits_for_all_but_the_last<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        if me() == 0 {
            tensor.store(tile); // waits_for_all_but_the_last: first
            if RIGHT {
                tma::wait::<0>();
            } else {
                tma::wait::<1>();
            }
        }
        thread::sync_threads();
        tensor.numbers.set(me(), 2); // waits_for_all_but_the_last: second
    }

    /// Block 0 does the one, then block 1 the other, by its thread 0.
    fn one_after_another(tensor: Tensor<'_>, first: impl FnOnce(), second: impl FnOnce()) {
        let flag = tensor.flags.atomic(64);
        if me() == 0 && is_first_block() {
            first();
            flag.store_release(1);
        } else if me() == 0 {
            while flag.load_acquire() == 0 {}
            second();
        }
    }

    pub fn another_block_has_stored<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        let store = || {
            tensor.store(tile); // another_block_has_stored: first
            tma::wait::<0>();
        };
        one_after_another(tensor, store, || {
            if RIGHT {
                tma::fence_async_global();
            }
            tensor.load(tile, full); // another_block_has_stored: second
            full.wait(0);
        });
    }

    pub fn another_block_adds<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        let store = || {
            tensor.store(tile); // another_block_adds: first
            tma::wait::<0>();
        };
        one_after_another(tensor, store, || {
            if RIGHT {
                tma::fence_async_global();
            }
            tensor.add(tile); // another_block_adds: second
            tma::wait::<0>();
        });
    }

    pub fn another_block_has_written<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, full) = box_and_barrier();
        let write = || tensor.numbers.set(7, 1); // another_block_has_written: first
        one_after_another(tensor, write, || {
            if RIGHT {
                tma::fence_async_global();
            }
            tensor.load(tile, full); // another_block_has_written: second
            full.wait(0);
        });
    }

    pub fn says_too_early_that_it_is_stored<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        let store = || {
            tensor.store(tile); // says_too_early_that_it_is_stored: first
            if RIGHT {
                tma::wait::<0>();
            } else {
                tma::wait_read::<0>();
            }
        };
        one_after_another(tensor, store, || {
            tensor.flags.set(0, tensor.numbers.get(0)); // says_too_early_that_it_is_stored: second
        });
    }

    pub fn boxes_stored_over_one_another<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        if me() == 0 && is_first_block() {
            tensor.store(tile); // boxes_stored_over_one_another: first
            tma::wait::<0>();
        } else if me() == 0 && !RIGHT {
            tensor.store(tile); // boxes_stored_over_one_another: second
            tma::wait::<0>();
        }
    }

    pub fn added_to_what_is_stored_beside_it<const RIGHT: bool>(tensor: Tensor<'_>) {
        let (tile, _) = box_and_barrier();
        if me() == 0 {
            if RIGHT || is_first_block() {
                tensor.add(tile); // added_to_what_is_stored_beside_it: first
            } else {
                tensor.store(tile); // added_to_what_is_stored_beside_it: second
            }
            tma::wait::<0>();
        }
    }
}

use kernels::{SOURCE, Tensor};

type Kernel = fn(Tensor<'_>);

/// Runs a kernel in blocks of a warp, which have a tensor.
fn run(blocks: u32, cluster: bool, checks: Checks, kernel: impl Fn(Tensor<'_>) + Sync) -> Option<Fault> {
    let mut memory = [0; 8];
    let map: RawTensorMap = map_of(&mut memory);
    let at = memory.as_mut_ptr().expose_provenance();
    let options = cuda_sim::Options {
        cluster: cluster.then(|| blocks.into()),
        checks,
        ..Default::default()
    };
    crate::checks::run_with((blocks, 32), options, |flags| {
        // SAFETY: the elements of `memory`, which nothing else uses before the launch is over.
        let numbers = unsafe { SliceMut::from_raw_parts(std::ptr::with_exposed_provenance_mut(at), 32) };
        let map = &map;
        kernel(Tensor { map, numbers, flags });
    })
}

macro_rules! cases {
    ($($name:ident($blocks:literal, $cluster:literal), $wanted:literal;)*) => {$(
        #[test]
        fn $name() {
            let (right, wrong): (Kernel, Kernel) = (kernels::$name::<true>, kernels::$name::<false>);
            crate::checks::try_both(SOURCE, stringify!($name), $wanted, |is_right, checks| {
                run($blocks, $cluster, checks, if is_right { right } else { wrong })
            });
        }
    )*};
}

cases! {
    waits_for_the_phase_before(1, false), "a phase of an mbarrier never ends";
    ends_before_the_box_is_read(1, false), "not waited for: the block ends while a copy may still be at element 31 (of 4 bytes) of the dynamic shared memory, by this asynchronous read; the thread waits by `tma::wait_read`";
    ends_before_the_box_is_there(1, false), "not waited for: the block ends while a copy may still be at element 31 (of 4 bytes) of the dynamic shared memory, by this asynchronous write; `Mbarrier::wait` waits";
    multicast_behind_the_cluster_barrier(2, true), "not waited for: this read of element 0";
    loaded_without_a_fence(1, false), "not fenced: this asynchronous read of ";
    fenced_in_shared_memory(1, false), "not fenced: this asynchronous read of ";
    fenced_in_global_memory(1, false), "not fenced: this asynchronous read of element 0 (of 4 bytes) of the dynamic shared memory";
    stored_where_threads_have_written(1, false), "not fenced: this asynchronous write of 4 bytes of global memory";
    stored_where_threads_have_read(1, false), "not fenced: this asynchronous write of 4 bytes of global memory";
    added_to_what_threads_have_written(1, false), "not fenced: this asynchronous addition of 4 bytes of global memory";
    read_before_it_is_stored(1, false), "not waited for: this read of 4 bytes of global memory";
    loaded_before_it_is_stored(1, false), "not waited for: this asynchronous read of ";
    waits_for_all_but_the_last(1, false), "not waited for: this write of 4 bytes of global memory";
    another_block_has_stored(2, false), "not fenced: this asynchronous read of ";
    another_block_adds(2, false), "not fenced: this asynchronous addition of ";
    another_block_has_written(2, false), "not fenced: this asynchronous read of ";
    says_too_early_that_it_is_stored(2, false), "not waited for: this read of 4 bytes of global memory";
    boxes_stored_over_one_another(2, false), "data race on 4 bytes of global memory";
    added_to_what_is_stored_beside_it(2, false), "data race on 4 bytes of global memory";
}

/// Of a block's own copies it is enough to have waited for them; whose fence it is does not matter, so long as it lies on the way.
#[test]
fn copies_of_one_block_need_no_fence() {
    let fault = run(1, false, Checks::ALL, |tensor| {
        let (tile, full) = box_and_barrier();
        let me = thread::thread_idx_x() as usize;
        if me == 0 {
            tensor.store(tile);
            cuda_std::tma::wait::<0>();
        }
        thread::sync_threads();
        let sum = tensor.numbers.get(me);
        thread::sync_threads();
        if me == 31 {
            tensor.load(tile, full);
            full.wait(0);
        }
        tensor.flags.set(me, sum);
    });
    assert_eq!(fault, None);
}

/// A fence behind the grid's barrier has what all blocks did before.
#[test]
fn fenced_behind_the_grid_barrier() {
    let launch = |is_fenced: bool| {
        let mut memory = [0; 8];
        let map = map_of(&mut memory);
        let at = memory.as_mut_ptr().expose_provenance();
        let kernel = |flags: SliceMut<'_, u32>| {
            let map = &map;
            // SAFETY: the elements of `memory`, which nothing else uses before the launch is over.
            let numbers = unsafe { SliceMut::from_raw_parts(std::ptr::with_exposed_provenance_mut(at), 32) };
            let (tile, full) = box_and_barrier();
            numbers.set(thread::index_1d(), 1);
            cuda_sim::grid_barrier("sync");
            if thread::thread_idx_x() == 0 {
                if is_fenced {
                    cuda_std::tma::fence_async_global();
                }
                Tensor { map, numbers, flags }.load(tile, full);
                full.wait(0);
            }
        };
        crate::checks::run((2, 16, true), Checks::ALL, kernel)
    };
    assert_eq!(launch(true), None);
    let message = launch(false).unwrap().message;
    assert!(
        message.starts_with("not fenced: this asynchronous read of "),
        "{message}"
    );
}
