// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a multiprocessor does for one request.
//!
//! Sectors: "CUDA C++ Best Practices Guide", "Coalesced Access to Global Memory". Banks: "CUDA C++ Programming Guide",
//! "Shared Memory" of compute capability 5.x, which holds for all later ones. What these leave open was measured on an H100 by
//! ncu, on the launches of tests/device/tests/counters.rs, whose requests, sectors, wavefronts and conflicts are these.

use std::collections::HashMap;
use std::ops::Range;

use super::counters::SECTOR;
use super::{Counts, Operation, Request};
use crate::check::{ByAddress, Space};

/// Words that shared memory gives in one round, each from a bank of its own.
const BANKS: usize = 32;

/// Bytes of such a word.
const WORD: usize = 4;

/// What a request counts for.
pub(super) fn counts(request: &Request, space: Space, operation: Operation, width: usize) -> Counts {
    let lanes = u64::from(request.lanes.count_ones());
    let elements = distinct(request.addresses(0..32)).len() as u64;
    let mut counts = Counts {
        requests: 1,
        lanes,
        bytes: elements * width as u64,
        ..Counts::default()
    };
    if operation == Operation::Atomic {
        counts.collisions = lanes - elements;
    }
    match space {
        Space::Global if operation == Operation::Atomic => counts.sectors = atomic_sectors(request),
        Space::Global => counts.sectors = distinct(sectors(request)).len() as u64,
        Space::Shared => (counts.wavefronts, counts.bank_conflicts) = wavefronts(request, width),
    }
    counts
}

fn distinct(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Those that the request is in, as often as lanes are: an aligned access of 16 bytes at most is in one.
fn sectors(request: &Request) -> impl Iterator<Item = usize> {
    request.addresses(0..32).map(|address| address / SECTOR)
}

/// The sectors of an atomic request: each once for every round in which it has an element, and lanes at one element come in
/// rounds one after another.
fn atomic_sectors(request: &Request) -> u64 {
    let mut lanes = HashMap::<usize, u64>::new();
    for address in request.addresses(0..32) {
        *lanes.entry(address).or_default() += 1;
    }
    let mut rounds = HashMap::<usize, u64>::new();
    for (address, lanes) in lanes {
        let most = rounds.entry(address / SECTOR).or_default();
        *most = lanes.max(*most);
    }
    rounds.values().sum()
}

/// The rounds of a request, and how many of these one without conflicts would not have. Where lanes want 8 bytes, half of
/// the warp is served at a time, and a quarter where they want 16; two such parts are served in one round if no bank has to
/// give two words, as when they want the same.
fn wavefronts(request: &Request, width: usize) -> (u64, u64) {
    let lanes = 32 / width.div_ceil(WORD) as u32;
    let (mut rounds, mut needed) = (0, 0);
    // A pair of parts, or the only one.
    for first in (0..32).step_by(2 * lanes as usize) {
        let together = most_of_a_bank(request, first..32.min(first + 2 * lanes), width);
        if together <= 1 || lanes == 32 {
            rounds += together;
            needed += together.min(1);
            continue;
        }
        for first in [first, first + lanes] {
            let part = most_of_a_bank(request, first..first + lanes, width);
            rounds += part;
            needed += part.min(1);
        }
    }
    (rounds, rounds - needed)
}

/// The most words that those lanes want of one bank.
fn most_of_a_bank(request: &Request, lanes: Range<u32>, width: usize) -> u64 {
    let words =
        (request.addresses(lanes)).flat_map(|address| (0..width.div_ceil(WORD)).map(move |k| address / WORD + k));
    let mut wanted = [0_u64; BANKS];
    for word in distinct(words) {
        wanted[word % BANKS] += 1;
    }
    wanted.into_iter().max().unwrap_or(0)
}

/// Sectors that a launch has read and written: by number divided by 128, a bit for each of so many.
#[derive(Default)]
pub(super) struct Touched(HashMap<usize, [u128; 2], ByAddress>);

impl Touched {
    pub(super) fn enter(&mut self, request: &Request, operation: Operation) {
        for sector in sectors(request) {
            let [read, written] = self.0.entry(sector / 128).or_default();
            let bit = 1 << (sector % 128);
            if operation != Operation::Store {
                *read |= bit;
            }
            if operation != Operation::Load {
                *written |= bit;
            }
        }
    }

    /// How many were read, and how many written.
    pub(super) fn sectors(&self) -> (u64, u64) {
        let count = |number: usize| self.0.values().map(|bits| u64::from(bits[number].count_ones())).sum();
        (count(0), count(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lanes: u32, address: impl Fn(usize) -> usize) -> Request {
        let addresses = std::array::from_fn(address);
        Request { lanes, addresses }
    }

    fn shared(width: usize, address: impl Fn(usize) -> usize) -> (u64, u64) {
        wavefronts(&request(u32::MAX, address), width)
    }

    #[test]
    fn words_of_one_bank_conflict_unless_they_are_the_same() {
        for (stride, rounds) in [(0, 1), (1, 1), (2, 2), (3, 1), (8, 8), (31, 1), (32, 32), (33, 1)] {
            assert_eq!(
                shared(4, |lane| 4 * stride * lane),
                (rounds, rounds - 1),
                "stride {stride}"
            );
        }
        // Four bytes of a word, by neighbours.
        assert_eq!(shared(1, |lane| lane), (1, 0));
        assert_eq!(shared(2, |lane| 128 * (lane % 2) + 2 * lane), (2, 1));
    }

    #[test]
    fn wide_accesses_are_served_in_parts() {
        assert_eq!(shared(8, |lane| 8 * lane), (2, 0));
        assert_eq!(shared(16, |lane| 16 * lane), (4, 0));
        assert_eq!(shared(16, |lane| 32 * lane), (8, 4));
        // Parts that want no more than the banks give in a round are served together.
        assert_eq!(shared(8, |lane| 8 * (lane / 2)), (1, 0));
        assert_eq!(shared(8, |_| 40), (1, 0));
        assert_eq!(shared(16, |lane| 16 * (lane / 2)), (2, 0));
        assert_eq!(shared(16, |_| 48), (2, 0));
        // A quarter that takes no part needs no round.
        assert_eq!(wavefronts(&request(0xff, |lane| 16 * lane), 16), (1, 0));
    }

    #[test]
    fn sectors_of_a_request() {
        let sectors = |width, address: &dyn Fn(usize) -> usize| {
            let request = request(u32::MAX, address);
            counts(&request, Space::Global, Operation::Load, width).sectors
        };
        assert_eq!(sectors(4, &|lane| 4 * lane), 4);
        assert_eq!(sectors(4, &|lane| 4 * lane + 4), 5);
        assert_eq!(sectors(4, &|lane| 8 * lane), 8);
        assert_eq!(sectors(4, &|lane| 128 * lane), 32);
        assert_eq!(sectors(4, &|_| 512), 1);
        assert_eq!(sectors(16, &|lane| 16 * lane), 16);
    }

    #[test]
    fn lanes_at_one_element_collide() {
        let request = request(0xffff, |lane| 4 * (lane % 4));
        let counts = counts(&request, Space::Global, Operation::Atomic, 4);
        assert_eq!((counts.lanes, counts.collisions, counts.bytes), (16, 12, 16));
        // Four elements of one sector, in four rounds.
        assert_eq!(counts.sectors, 4);
    }
}
