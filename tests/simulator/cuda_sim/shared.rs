// SPDX-License-Identifier: MIT OR Apache-2.0
//! A place in shared memory leads nowhere once its block has ended.

use std::cell::Cell;

use crate::common::{dim, fault};
use cuda_sim::{
    LaunchConfig, SharedPtr, SharedSite, block_idx, dynamic_shared, launch, shared_memory, static_shared, thread_idx,
};

const STALE: &str = "shared memory of another block: it was kept beyond the block that it belongs to";

static TILE: SharedSite = SharedSite::new(64, 8);

thread_local!(static KEPT: Cell<Option<SharedPtr>> = const { Cell::new(None) });

fn keep_from_a_launch() -> SharedPtr {
    let config = LaunchConfig {
        dynamic_shared: 64,
        ..LaunchConfig::new(1, 1)
    };
    launch("keep", &config, &|| KEPT.set(Some(dynamic_shared().0))).unwrap();
    KEPT.get().unwrap()
}

#[test]
fn another_block_of_the_launch() {
    // One worker, so that both blocks run on one OS thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for asks_itself in [false, true] {
        let failed = pool.install(|| {
            fault(LaunchConfig::new(2, 4), &|| {
                if block_idx().x == 0 {
                    KEPT.set(Some(static_shared(&TILE)));
                } else if thread_idx().x == 3 {
                    if asks_itself {
                        static_shared(&TILE);
                    }
                    shared_memory(KEPT.get().unwrap(), 8);
                }
            })
        });
        assert_eq!(failed.message, STALE);
        assert_eq!((failed.block, failed.thread), (dim(1, 0, 0), dim(3, 0, 0)));
        assert!(failed.location.unwrap().file.ends_with("shared.rs"));
    }
}

#[test]
fn another_launch() {
    keep_from_a_launch();
    let failed = fault(LaunchConfig::new(1, 1), &|| {
        static_shared(&TILE);
        shared_memory(KEPT.get().unwrap(), 8);
    });
    assert_eq!(failed.message, STALE);
}

#[test]
#[should_panic(expected = "cuda_sim::shared_memory called outside a kernel")]
fn outside_a_kernel() {
    shared_memory(keep_from_a_launch(), 8);
}

#[test]
fn beyond_the_memory_of_the_block() {
    for bytes in [48 * 1024 - 63, usize::MAX - 63, usize::MAX] {
        let failed = fault(LaunchConfig::new(1, 1), &|| {
            shared_memory(static_shared(&TILE).byte_add(64), bytes);
        });
        let message = format!("access out of bounds of the block's shared memory: {bytes} bytes at offset 64");
        assert_eq!(failed.message, message);
    }
}
