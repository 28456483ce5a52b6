// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchanges between the lanes of a warp.

use std::array;
use std::cell::Cell;

use cuda_sim::{
    Lanes, LaunchConfig, active_mask, barrier, exchange, exchange_bytes, exchange_with, lane, launch, thread_idx,
};

#[test]
fn everyone_gets_everyones_value() {
    launch("all", &LaunchConfig::new(10, 96), &|| {
        let warp = thread_idx().x / 32;
        for round in 0..20 {
            let given = |lane: u32| u64::from(warp * 1000 + lane) << round;
            let lanes = exchange("shfl", u32::MAX, given(lane()));
            assert_eq!(lanes.mask(), u32::MAX);
            assert!((0..32).all(|lane| lanes.get(lane) == Some(given(lane))));
            assert_eq!(lanes.get(32), None);
        }
    })
    .unwrap();
}

/// Of values of every size, in a round of places that lanes pass on: nobody gets what the other has got meanwhile.
#[test]
fn bytes_of_one_other_lane() {
    launch("bytes", &LaunchConfig::new(4, 64), &|| {
        for len in [0, 1, 2, 4, 7, 8, 24, 33] {
            let mut value: Vec<u8> = (0..len).map(|i| i as u8 ^ lane() as u8).collect();
            for round in 1..40 {
                let mut got = vec![0; len];
                exchange_bytes("shfl", u32::MAX, &value, (lane() + 1) % 32, &mut got);
                assert!((0..len).all(|i| got[i] == i as u8 ^ ((lane() + round) % 32) as u8));
                value = got;
            }
        }
    })
    .unwrap();
}

/// In whatever order the lanes come, once for all of them; values and what is made of them are of types of their own.
#[test]
fn the_last_lane_makes_what_each_gets() {
    launch("made", &LaunchConfig::new(3, 96), &|| {
        let warp = thread_idx().x / 32;
        for round in 0..20_u32 {
            let times = Cell::new(0);
            let make = |lanes: &Lanes<[u16; 3]>| {
                times.set(times.get() + 1);
                let sum: u32 = (0..32).map(|lane| u32::from(lanes.get(lane).unwrap()[2])).sum();
                array::from_fn(|lane| {
                    (
                        lane as u8,
                        u64::from(sum) << 32 | u64::from(lanes.get(31 - lane as u32).unwrap()[1]),
                    )
                })
            };
            let mine = |lane: u32| [0, (warp * 100 + lane) as u16, round as u16];
            // SAFETY: it only adds.
            let got = unsafe { exchange_with("sums", u32::MAX, mine(lane()), make) };
            assert_eq!(
                got,
                (
                    lane() as u8,
                    u64::from(32 * round) << 32 | u64::from(mine(31 - lane())[1])
                )
            );
            let all = exchange("count", u32::MAX, times.get());
            assert_eq!((0..32).filter_map(|lane| all.get(lane)).sum::<u32>(), 1);
        }
    })
    .unwrap();
}

/// Those that are not in the mask take no part.
#[test]
fn what_is_made_for_some_lanes() {
    launch("made", &LaunchConfig::new(1, 40), &|| {
        let mask = if thread_idx().x < 32 { 0x5555_5555 } else { 0xf0 };
        if mask >> lane() & 1 != 0 {
            let make = |lanes: &Lanes<u32>| {
                assert_eq!(lanes.mask(), mask);
                [(0..32).filter_map(|lane| lanes.get(lane)).sum::<u32>(); 32]
            };
            // SAFETY: it only adds.
            let sum = unsafe { exchange_with("sums", mask, lane(), make) };
            assert_eq!(sum, (0..32).filter(|lane| mask >> lane & 1 != 0).sum());
        }
    })
    .unwrap();
}

#[test]
fn partial_last_warp() {
    launch("partial", &LaunchConfig::new(1, 40), &|| {
        let mask = if thread_idx().x < 32 { u32::MAX } else { 0xff };
        assert_eq!(active_mask(), mask);
        let lanes = exchange("ballot", mask, 1);
        let count = (0..32).filter(|&lane| lanes.get(lane).is_some()).count();
        assert_eq!(count, mask.count_ones() as usize);
        assert_eq!(format!("{lanes:?}").matches(": 1").count(), count);
    })
    .unwrap();
}

/// Every way to cut a warp into runs of one length, with different numbers of
/// exchanges in each, so that they overtake each other.
#[test]
fn disjoint_masks_are_independent() {
    for width in [1, 2, 4, 8, 16, 32] {
        launch("disjoint", &LaunchConfig::new(3, 64), &|| {
            let group = lane() / width;
            let mask = (u32::MAX >> (32 - width)) << (group * width);
            for round in 0..=group {
                let lanes = exchange("sync", mask, u64::from(lane() + round));
                for other in 0..32 {
                    let wanted = (other / width == group).then_some(u64::from(other + round));
                    assert_eq!(lanes.get(other), wanted);
                }
            }
            let lanes = exchange("again", u32::MAX, 7);
            assert!((0..32).all(|lane| lanes.get(lane) == Some(7)));
        })
        .unwrap();
    }
}

/// Part of a warp may wait for all of it while the rest still exchanges among
/// itself, in steps of smaller and smaller parts.
#[test]
fn masks_under_way_may_overlap() {
    launch("overlap", &LaunchConfig::new(2, 64), &|| {
        for round in 0..5 {
            for width in (1..32).rev().filter(|&width| lane() < width) {
                let lanes = exchange("part", (1 << width) - 1, u64::from(lane() + round));
                assert_eq!(lanes.get(width - 1), Some(u64::from(width - 1 + round)));
            }
            let lanes = exchange("all", u32::MAX, u64::from(lane()));
            assert_eq!(lanes.get(31), Some(31));
        }
    })
    .unwrap();
}

/// A lane that has its result may start another exchange before a slower one has
/// read the first.
#[test]
fn results_outlive_later_exchanges() {
    launch("overtake", &LaunchConfig::new(1, 32), &|| {
        let first = exchange("first", u32::MAX, u64::from(lane()));
        if lane() % 2 == 1 {
            for round in 0..10 {
                exchange("odd", 0xaaaa_aaaa, 1000 + round);
            }
        }
        assert!((0..32).all(|lane| first.get(lane) == Some(u64::from(lane))));
    })
    .unwrap();
}

#[test]
fn lanes_that_exit_leave_the_active_mask() {
    launch("exits", &LaunchConfig::new(1, 64), &|| {
        if lane() < 8 {
            return;
        }
        let lanes = exchange("rest", 0xffff_ff00, u64::from(active_mask()));
        assert_eq!(lanes.get(31), Some(0xffff_ff00));
    })
    .unwrap();
}

#[test]
fn exchanges_between_barriers() {
    launch("mixed", &LaunchConfig::new(4, 128), &|| {
        for round in 0..30_u64 {
            let lanes = exchange("max", u32::MAX, u64::from(thread_idx().x) * round);
            let largest = (0..32).filter_map(|lane| lanes.get(lane)).max();
            assert_eq!(largest, Some(u64::from(thread_idx().x | 31) * round));
            assert_eq!(barrier("sync_threads", 1).nonzero, 128);
        }
    })
    .unwrap();
}
