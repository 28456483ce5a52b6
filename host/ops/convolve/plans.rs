// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans of convolutions that were found before: a search tries dozens of tiles, and a network's layers have the same shapes in each step.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use crate::device::Properties;
use crate::stream::Stream;

/// Plans that are kept, at most: more than a network has layers. Behind it all are found anew.
const MOST: usize = 1024;

/// What a plan depends on beside the convolution: numbers of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gpu {
    multiprocessors: u32,
    shared_memory_per_block: u32,
    shared_memory_per_multiprocessor: Option<u32>,
}

impl Gpu {
    /// Those of the stream's device.
    pub(super) fn of(stream: &Stream) -> Self {
        let Properties {
            multiprocessors,
            shared_memory_per_block_optin,
            shared_memory_per_multiprocessor,
            ..
        } = *stream.backend().properties();
        Self {
            multiprocessors,
            shared_memory_per_block: shared_memory_per_block_optin,
            shared_memory_per_multiprocessor,
        }
    }
}

/// Plans by what they depend on, in memory for the whole process.
#[derive(Debug)]
pub(super) struct Plans<K, P>(RwLock<Option<HashMap<K, P>>>);

impl<K: Copy + Eq + Hash, P: Copy> Plans<K, P> {
    pub(super) const fn new() -> Self {
        Self(RwLock::new(None))
    }

    /// The plan for `key`, which `find` finds where it is not kept yet.
    pub(super) fn get(&self, key: K, find: impl FnOnce() -> P) -> P {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = kept.as_ref().and_then(|plans| plans.get(&key)) {
            return *plan;
        }
        drop(kept);
        // Not locked meanwhile: who asks for the same finds the same.
        let plan = find();
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let plans = kept.get_or_insert_default();
        if plans.len() >= MOST {
            plans.clear();
        }
        plans.insert(key, plan);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept() {
        let plans = Plans::new();
        let mut searches = 0;
        for (key, wanted) in [(1, 10), (2, 20), (1, 10), (2, 20)] {
            let found = plans.get(key, || {
                searches += 1;
                10 * key
            });
            assert_eq!(found, wanted);
        }
        assert_eq!(searches, 2);
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let plans = Plans::new();
        for key in 0..3 * MOST {
            assert_eq!(plans.get(key, || key + 1), key + 1);
            assert!(plans.0.read().unwrap().as_ref().unwrap().len() <= MOST);
        }
    }
}
