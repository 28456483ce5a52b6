// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads hand on through words of memory, by atomic operations and fences.

use std::collections::HashMap;

use super::Scope;
use super::clock::Knowledge;
use super::shadow::ByAddress;

/// The words of a memory that threads have handed something on through, by address.
pub(super) type Words = HashMap<usize, Published, ByAddress>;

/// What threads have handed on through a word of memory, for those who read it.
#[derive(Clone, Default)]
pub(super) struct Published {
    /// For all.
    device: Knowledge,
    /// For the threads of this block.
    block: Option<(u64, Knowledge)>,
}

impl Published {
    pub(super) fn add(&mut self, scope: Scope, block: u64, knowledge: &Knowledge) {
        match (scope, &mut self.block) {
            (Scope::Device, _) => self.device.learn(knowledge),
            (Scope::Block, Some((of, own))) if *of == block => own.learn(knowledge),
            (Scope::Block, own) => *own = Some((block, knowledge.clone())),
        }
    }

    /// What is published there, as seen by a load in `scope`, is added to this.
    pub(super) fn take_in(&mut self, other: &Published, scope: Scope) {
        if scope == Scope::Device {
            self.device.learn(&other.device);
        }
        if let Some((block, knowledge)) = &other.block {
            self.add(Scope::Block, *block, knowledge);
        }
    }

    /// What a thread of `block` learns that acquires it in `scope`.
    pub(super) fn teach(&self, scope: Scope, block: u64, knowledge: &mut Knowledge) {
        if scope == Scope::Device {
            knowledge.learn(&self.device);
        }
        if let Some((of, own)) = &self.block
            && *of == block
        {
            knowledge.learn(own);
        }
    }
}
