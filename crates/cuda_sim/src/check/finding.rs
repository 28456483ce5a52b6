// SPDX-License-Identifier: MIT OR Apache-2.0
//! What checks find, in parts: a fault's message says the same in words.

use super::Kind;
use crate::dim3::Dim3;
use crate::error::SourceLocation;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// Nothing orders two accesses.
    Race,
    /// Memory is read that nobody has written.
    Uninitialised,
    /// Memory is accessed that a copy or a matrix product still uses, because nobody has waited for it; or the block ends, whose
    /// memory it is.
    NotWaitedFor,
    /// A bulk copy or a matrix product accesses what threads have accessed before, and no fence of the async proxy is between
    /// the two.
    NotFenced,
    /// Shared memory of another block of the cluster is accessed, which may have ended by then.
    BlockEnded,
}

/// The array that a place in memory is of.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Array {
    /// An allocation of global memory.
    Global {
        /// Its address.
        address: usize,
        /// Its bytes.
        bytes: usize,
    },
    /// A static array in shared memory, declared there.
    Shared(SourceLocation),
    /// The dynamic shared memory.
    DynamicShared,
    /// Global memory that no allocation is known for; offsets are addresses.
    Unknown,
}

/// An access of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// How.
    pub kind: Kind,
    /// The block's index in the grid.
    pub block: Dim3,
    /// The thread's index in the block.
    pub thread: Dim3,
    /// Where in the source.
    pub location: SourceLocation,
}

/// What a check has found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The array that is accessed.
    pub array: Array,
    /// The first byte of it that is.
    pub offset: usize,
    /// How many bytes are.
    pub bytes: usize,
    /// The access that is wrong, by the faulted thread.
    pub access: Access,
    /// The one before that it is wrong with: the other of a race, what is not waited for, or what is not fenced.
    pub other: Option<Access>,
}

impl Finding {
    /// The index of what is accessed, in an array of elements of that size; `None` if it is no such element.
    pub fn element(&self) -> Option<usize> {
        (self.offset.checked_rem(self.bytes)? == 0).then(|| self.offset / self.bytes)
    }
}
