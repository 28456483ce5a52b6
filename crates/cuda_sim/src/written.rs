// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bytes of global memory somebody has written, from launch to launch: a bit for each byte of an allocation, until
//! all of it is written.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which bytes of allocations of global memory have been written since they were allocated, by kernels or by the host.
///
/// Launches with [`Options::written`](crate::Options::written) note what they write, and where they are checked for
/// [uninitialised](crate::Checks::uninitialised) memory, a read of a byte that nobody has written is a fault. What the host
/// does with the memory it notes itself. Memory that no allocation is known for counts as written.
///
/// ```
/// use cuda_sim::{Checks, Error, Kind, LaunchConfig, Options, Space, Written, access, launch_with, thread_idx};
///
/// let written = Written::default();
/// written.allocate(4096, 256);
/// written.write(4096, 128);
/// let options = Options { checks: Checks::ALL, written: Some(&written), ..Options::default() };
/// let read = || access(Space::Global, 4096 + 4 * thread_idx().x as usize, 4, 4, Kind::Read);
/// assert!(launch_with("read", &LaunchConfig::new(1, 32), options, &read).is_ok());
/// let Err(Error::Fault(fault)) = launch_with("read", &LaunchConfig::new(1, 33), options, &read) else { panic!() };
/// assert_eq!(fault.thread.x, 32);
/// assert!(fault.message.starts_with("uninitialised: this read of 4 bytes of global memory at 0x1080 is"), "{fault}");
/// ```
#[derive(Debug, Default)]
pub struct Written(Mutex<BTreeMap<usize, Allocation>>);

#[derive(Debug)]
struct Allocation {
    bytes: usize,
    /// `None` where all is written.
    map: Option<Map>,
}

/// The bytes that are written, a bit each.
#[derive(Debug)]
struct Map {
    bits: Box<[u64]>,
    /// Of how many bytes the bit is not set.
    unwritten: usize,
}

impl Written {
    /// There are `bytes` bytes at `address`, and nobody has written them; what there was before is gone.
    pub fn allocate(&self, address: usize, bytes: usize) {
        let map = Map {
            bits: vec![0; bytes.div_ceil(64)].into(),
            unwritten: bytes,
        };
        let map = Some(map);
        self.lock().insert(address, Allocation { bytes, map });
    }

    /// The allocation at `address` is none any more.
    pub fn free(&self, address: usize) {
        self.lock().remove(&address);
    }

    /// Somebody writes those bytes.
    pub fn write(&self, address: usize, bytes: usize) {
        self.set(address, bytes, true);
    }

    /// The first of those bytes that nobody has written.
    pub fn first_unwritten(&self, address: usize, bytes: usize) -> Option<usize> {
        let mut allocations = self.lock();
        let (start, range, allocation) = find(&mut allocations, address, bytes)?;
        let (first, _) = allocation
            .map
            .as_ref()?
            .runs(range)
            .find(|(_, is_written)| !is_written)?;
        Some(start + first.start)
    }

    /// Bytes are copied: what was not written at `from` is not at `to`.
    pub fn copy(&self, to: usize, from: usize, bytes: usize) {
        // What is copied is known before any of it is changed: the two may overlap.
        let unwritten = self.unwritten(from, bytes);
        self.write(to, bytes);
        for run in unwritten {
            self.set(run.start - from + to, run.len(), false);
        }
    }

    /// The runs of those bytes that nobody has written.
    fn unwritten(&self, address: usize, bytes: usize) -> Vec<Range<usize>> {
        let mut allocations = self.lock();
        let Some((start, range, allocation)) = find(&mut allocations, address, bytes) else {
            return Vec::new();
        };
        let runs = allocation.map.iter().flat_map(|map| map.runs(range.clone()));
        runs.filter(|(_, is_written)| !is_written)
            .map(|(run, _)| start + run.start..start + run.end)
            .collect()
    }

    fn set(&self, address: usize, bytes: usize, is_written: bool) {
        let mut allocations = self.lock();
        let Some((_, range, allocation)) = find(&mut allocations, address, bytes) else {
            return;
        };
        let len = allocation.bytes;
        if allocation.map.is_none() && is_written {
            return;
        }
        let map = allocation.map.get_or_insert_with(|| Map::full(len));
        map.set(range, is_written);
        if map.unwritten == 0 {
            allocation.map = None;
        }
    }

    /// Each change is whole when the guard goes.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Allocation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The allocation that an address is in: where it begins, and which of its bytes are meant.
fn find(
    allocations: &mut BTreeMap<usize, Allocation>,
    address: usize,
    bytes: usize,
) -> Option<(usize, Range<usize>, &mut Allocation)> {
    let (&start, allocation) = allocations.range_mut(..=address).next_back()?;
    let first = address - start;
    let end = allocation.bytes.min(first.saturating_add(bytes));
    (first < end).then_some((start, first..end, allocation))
}

impl Map {
    fn full(bytes: usize) -> Map {
        Map {
            bits: vec![u64::MAX; bytes.div_ceil(64)].into(),
            unwritten: 0,
        }
    }

    /// The range in parts, each of one word and either written or not.
    fn runs(&self, range: Range<usize>) -> impl Iterator<Item = (Range<usize>, bool)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let word = *self.bits.get(at / 64).filter(|_| at < range.end)? >> (at % 64);
            let is_written = word & 1 != 0;
            let alike = if is_written {
                word.trailing_ones()
            } else {
                word.trailing_zeros()
            };
            let end = (at + alike as usize).min(at / 64 * 64 + 64).min(range.end);
            Some((std::mem::replace(&mut at, end)..end, is_written))
        })
    }

    fn set(&mut self, range: Range<usize>, is_written: bool) {
        let mut at = range.start;
        while at < range.end {
            let next = (at / 64 * 64 + 64).min(range.end);
            // At least one bit, from the first byte's on.
            let bits = u64::MAX >> (64 - (next - at)) << (at % 64);
            let word = &mut self.bits[at / 64];
            if is_written {
                self.unwritten -= (bits & !*word).count_ones() as usize;
                *word |= bits;
            } else {
                self.unwritten += (bits & *word).count_ones() as usize;
                *word &= !bits;
            }
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: usize = 1024;
    const LEN: usize = 200;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write(usize, usize),
        Copy(usize, usize, usize),
        Allocate,
    }

    fn step() -> impl Strategy<Value = Step> {
        let range = || (0..LEN).prop_flat_map(|first| (Just(first), 0..=LEN - first));
        let copy = (0..LEN, 0..LEN).prop_flat_map(|(to, from)| (Just(to), Just(from), 0..=LEN - to.max(from)));
        prop_oneof![
            8 => range().prop_map(|(first, len)| Step::Write(first, len)),
            4 => copy.prop_map(|(to, from, len)| Step::Copy(to, from, len)),
            1 => Just(Step::Allocate),
        ]
    }

    proptest! {
        /// The same as with a flag for each byte.
        #[test]
        fn bytes_are_written_one_by_one(steps in prop::collection::vec(step(), 0..12)) {
            let written = Written::default();
            written.allocate(START, LEN);
            let mut flags = [false; LEN];
            for step in steps {
                match step {
                    Step::Write(first, len) => {
                        written.write(START + first, len);
                        flags[first..first + len].fill(true);
                    }
                    Step::Copy(to, from, len) => {
                        written.copy(START + to, START + from, len);
                        flags.copy_within(from..from + len, to);
                    }
                    Step::Allocate => {
                        written.allocate(START, LEN);
                        flags.fill(false);
                    }
                }
                for first in 0..LEN {
                    let wanted = flags[first..].iter().position(|&flag| !flag).map(|at| START + first + at);
                    prop_assert_eq!(written.first_unwritten(START + first, LEN), wanted);
                }
            }
        }
    }

    #[test]
    fn what_is_no_allocation_is_written() {
        let written = Written::default();
        written.allocate(START, 8);
        assert_eq!(written.first_unwritten(START - 8, 8), None);
        assert_eq!(written.first_unwritten(START + 8, 8), None);
        assert_eq!(written.first_unwritten(START + 7, 8), Some(START + 7));
        written.copy(START, 0, 8);
        assert_eq!(written.first_unwritten(START, 8), None);
        written.allocate(START, 8);
        written.free(START);
        assert_eq!(written.first_unwritten(START, 8), None);
    }
}
