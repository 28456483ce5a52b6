// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory that a kernel keeps beyond its block, which only the simulated GPU has a place for.

use std::cell::Cell;

use cuda_sim::{Error, Fault, LaunchConfig, launch};
use cuda_std::atomic::{self, Atomic, Block};
use cuda_std::prelude::*;
use cuda_std::shared::dynamic;

const STALE: &str = "shared memory of another block: it was kept beyond the block that it belongs to";

type SharedAtomic = Atomic<'static, u64, atomic::Shared, Block>;

thread_local! {
    static KEPT: Cell<Option<Shared<u64>>> = const { Cell::new(None) };
    static KEPT_ATOMIC: Cell<Option<SharedAtomic>> = const { Cell::new(None) };
}

fn keep() {
    let tile = shared_array![u64; 64];
    tile.set(3, 7);
    KEPT.set(Some(tile));
    KEPT_ATOMIC.set(Some(tile.atomic(3)));
}

fn fault(config: LaunchConfig, body: &(dyn Fn() + Sync)) -> Fault {
    match launch("kernel", &config, body) {
        Err(Error::Fault(fault)) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

/// Each way to the memory, through the array kept and the atomic kept.
const ACCESSES: [fn(Shared<u64>, SharedAtomic); 8] = [
    |tile, _| _ = tile.get(3),
    |tile, _| tile.set(3, 1),
    |tile, _| _ = tile.get_vec::<2>(4),
    |tile, _| tile.cast::<u8>().set_vec::<16>(0, [1; 16]),
    |tile, _| _ = tile.atomic(3).load(),
    |_, element| _ = element.fetch_add(1),
    |_, element| element.store(1),
    |_, element| _ = element.compare_exchange(7, 8),
];

#[test]
fn shared_memory_of_another_launch() {
    for access in ACCESSES {
        let config = LaunchConfig::new(1, 1);
        launch("keep", &config, &|| {
            keep();
            access(KEPT.get().unwrap(), KEPT_ATOMIC.get().unwrap());
        })
        .unwrap();
        let failed = fault(config, &|| {
            // Memory of the same size at the same place.
            shared_array![u64; 64].set(0, 1);
            access(KEPT.get().unwrap(), KEPT_ATOMIC.get().unwrap());
        });
        assert_eq!(failed.message, STALE);
        assert!(failed.location.unwrap().file.ends_with("cuda_std/shared.rs"));
    }
}

#[test]
fn shared_memory_of_another_block_on_the_same_host_thread() {
    let config = LaunchConfig {
        dynamic_shared: 64,
        ..LaunchConfig::new(1, 1)
    };
    launch("keep", &config, &|| KEPT.set(Some(dynamic()))).unwrap();
    let kept = KEPT.get().unwrap();
    assert_eq!(kept.len(), 8, "what is not memory can be asked");

    // All blocks of a grid run on this thread if the others are busy, and some do whatever they are.
    let failed = fault(LaunchConfig::new(1000, 1), &|| match KEPT_ATOMIC.get() {
        None => keep(),
        Some(element) => _ = element.load(),
    });
    assert_eq!(failed.message, STALE);
    assert_ne!(failed.block.x, 0);
}

#[test]
#[should_panic(expected = "called outside a kernel")]
fn shared_memory_outside_a_kernel() {
    launch("keep", &LaunchConfig::new(1, 1), &keep).unwrap();
    KEPT.get().unwrap().get(0);
}

#[test]
fn errors_name_index_and_length() {
    let mut elements = [0u32; 96];
    let (start, len) = (elements.as_mut_ptr().expose_provenance(), elements.len());
    // SAFETY: the array, which nothing else uses while its launch runs.
    let slice = || unsafe { SliceMut::from_raw_parts(std::ptr::with_exposed_provenance_mut::<u32>(start), len) };
    // SAFETY: as above.
    let input = || unsafe { cuda_std::Slice::from_raw_parts(std::ptr::with_exposed_provenance::<u32>(start), len) };
    let message = |body: &(dyn Fn() + Sync)| fault(LaunchConfig::new(1, 1), body).message;
    let index = |what, len, index| format!("index out of bounds of {what}: the len is {len} but the index is {index}");
    assert_eq!(message(&|| slice().set(96, 1)), index("a SliceMut", 96, 96));
    assert_eq!(message(&|| _ = slice().get(1000)), index("a SliceMut", 96, 1000));
    assert_eq!(
        message(&|| _ = slice().atomic(usize::MAX)),
        "index out of bounds of a SliceMut: the len is 96 but the index is -1 (or 18446744073709551615 of u64)",
        "as it was computed, if it wrapped around"
    );
    assert_eq!(message(&|| _ = input().get(96)), index("a Slice", 96, 96));
    assert_eq!(
        message(&|| _ = shared_array![f32; 256].get(300)),
        index("shared memory", 256, 300)
    );
    assert_eq!(
        message(&|| _ = slice().get_vec::<4>(93)),
        "4 elements from index 93 on are out of bounds of a slice, whose len is 96"
    );
    assert_eq!(
        message(&|| shared_array![u8; 64].set_vec::<16>(usize::MAX, [0; 16])),
        format!(
            "16 elements from index {} on are out of bounds of shared memory, whose len is 64",
            usize::MAX
        )
    );
}
