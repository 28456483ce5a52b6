// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory, between the threads of a block.

use crate::checks::corpus::shared as kernels;
use cuda_sim::Checks;
use cuda_std::prelude::*;

crate::corpus_shared! { crate::checks::cases }

#[test]
fn the_same_value_by_all_threads_is_a_race_with_itself() {
    assert_eq!(
        crate::checks::run((1, 64, false), Checks::ALL, kernels::same_value_by_all::<true>),
        None
    );
    let fault = crate::checks::run((1, 64, false), Checks::ALL, kernels::same_value_by_all::<false>).unwrap();
    let line = crate::checks::line(kernels::SOURCE.1, "same_value_by_all: second");
    assert_eq!(fault.location.as_ref().unwrap().line, line);
    assert!(fault.message.contains(&format!("shared.rs:{line}:")), "{fault}");
    assert_eq!(fault.thread.x, 1);
}

/// A race that nobody asked for does not keep what is written from counting as written.
#[test]
fn words_that_race_are_written() {
    let checks = Checks {
        uninitialised: true,
        ..Checks::NONE
    };
    let fault = crate::checks::run((1, 32, false), checks, |out| {
        let tile = shared_array![u32; 4].aligned::<16>();
        tile.set_vec(0, [thread::thread_idx_x(); 4]);
        thread::sync_threads();
        out.set(thread::thread_idx_x() as usize, tile.get(3));
    });
    assert_eq!(fault, None);
}

/// The first thread reads what all others are to write, and comes first: it is the barrier that is missing, unless nobody writes.
#[test]
fn what_others_write_later_is_a_race() {
    let fault = |checks, written: usize| {
        crate::checks::run((1, 64, false), checks, |out| {
            let (tile, me) = (shared_array![u32; 64], thread::thread_idx_x() as usize);
            if me < written {
                tile.set(me, 1);
            }
            if me == 0 {
                out.set(0, (0..64).map(|i| tile.get(i)).sum());
            }
        })
        .unwrap()
    };
    let message = fault(Checks::ALL, 64).message;
    let wanted = "data race on element 1 (of 4 bytes) of the shared array at ";
    assert!(message.starts_with(wanted), "{message}");
    assert!(
        message.contains("this write, and the read of thread (0, 0, 0) at "),
        "{message}"
    );
    assert!(
        message.ends_with("a barrier between them would order them") || message.contains("sync_warp"),
        "{message}"
    );
    let without_races = Checks {
        races: false,
        ..Checks::ALL
    };
    for (checks, written) in [(Checks::ALL, 1), (without_races, 64)] {
        let message = fault(checks, written).message;
        assert!(
            message.starts_with("uninitialised: byte 4 of the shared array"),
            "{message}"
        );
    }
}

/// A fault has what its message says in parts, too.
#[test]
fn findings_in_parts() {
    use cuda_sim::{Array, FindingKind, Kind};

    let fault = crate::checks::run((1, 64, false), Checks::ALL, kernels::missing_barrier::<false>).unwrap();
    let finding = fault.finding.as_deref().unwrap();
    let other = finding.other.as_ref().unwrap();
    assert_eq!((finding.kind, finding.bytes), (FindingKind::Race, 4));
    let kinds = (finding.access.kind, other.kind);
    assert!(
        matches!(kinds, (Kind::Read, Kind::Write) | (Kind::Write, Kind::Read)),
        "{finding:?}"
    );
    let Array::Shared(array) = &finding.array else {
        panic!("{finding:?}")
    };
    assert!(array.file.ends_with("shared.rs"));
    let element = finding.element().unwrap();
    let wanted = format!("data race on element {element} (of 4 bytes) of the shared array at {array}: ");
    assert!(fault.message.starts_with(&wanted), "{fault}");
    assert_eq!(Some(&finding.access.location), fault.location.as_ref());
    assert_eq!(
        (finding.access.block, finding.access.thread),
        (fault.block, fault.thread)
    );
    assert!(
        fault
            .message
            .contains(&format!("thread {} at {}", other.thread, other.location)),
        "{fault}"
    );

    let fault = crate::checks::run(
        (1, 64, false),
        Checks::ALL,
        kernels::dynamic_beyond_what_is_loaded::<false>,
    )
    .unwrap();
    let finding = fault.finding.as_deref().unwrap();
    assert_eq!(
        (finding.kind, &finding.array),
        (FindingKind::Uninitialised, &Array::DynamicShared)
    );
    assert_eq!((finding.offset, finding.bytes, &finding.other), (256, 1, &None));
    // A panic is no finding.
    let fault = crate::checks::run((1, 1, false), Checks::ALL, |out| out.set(9999, 0)).unwrap();
    assert_eq!(fault.finding, None);
}
