// SPDX-License-Identifier: MIT OR Apache-2.0
//! From which end the kernels of a stream go through arrays that are larger than the device's second-level cache.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What the last such kernel of a stream has left in the cache: of each of its arrays the end at which it stopped.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    from_end: bool,
    /// Their addresses.
    arrays: Vec<Range<u64>>,
}

impl Turns {
    /// Whether a kernel that goes through arrays at these addresses is to begin with their ends: if the last one has gone through
    /// any of them, and stopped there.
    pub(crate) fn begins_with_end(&self, arrays: impl Iterator<Item = Range<u64>> + Clone) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |array: Range<u64>| {
            let others = &mut last.arrays.iter();
            others.any(|other| array.start < other.end && other.start < array.end)
        };
        let is_known = arrays.clone().any(is_there);
        last.from_end = is_known && !last.from_end;
        last.arrays.clear();
        last.arrays.extend(arrays);
        last.from_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_one_array_take_turns_and_others_begin_with_the_first_block() {
        let turns = Turns::default();
        let ask = |arrays: &[&Range<u64>]| turns.begins_with_end(arrays.iter().map(|&array| array.clone()));
        let [a, b, c, d, part] = [0..10, 10..20, 15..30, 30..40, 29..31];
        // Again and again, and an array that the one before has written.
        assert!(!ask(&[&b, &a]));
        assert!(ask(&[&b, &a]));
        assert!(!ask(&[&a, &d]));
        assert!(ask(&[&d]));
        // Others, and again by a part of one.
        assert!(!ask(&[&a, &b]));
        assert!(ask(&[&c]));
        assert!(!ask(&[&a]));
        assert!(!ask(&[&c, &d]));
        assert!(ask(&[&part]));
        // What has no large array is no array's turn.
        assert!(!ask(&[]));
        assert!(!ask(&[&c]));
    }
}
