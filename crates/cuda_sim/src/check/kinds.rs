// SPDX-License-Identifier: MIT OR Apache-2.0
//! How memory is accessed: where, by what, and among whom it is atomic.

use crate::count::Operation;

/// A memory of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Space {
    /// That of all blocks.
    Global,
    /// That of the block, or of another one of its cluster.
    Shared,
}

impl Space {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
        }
    }
}

/// The threads among which an operation is atomic, or orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Scope {
    /// Those of the block.
    Block,
    /// All; of shared memory those of the cluster, which are all that have it.
    Device,
}

/// How memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By a load.
    Read,
    /// By a store.
    Write,
    /// By a bulk copy or a matrix product: in the async proxy, which sees what threads did when a fence has shown it.
    AsyncRead,
    /// By a bulk copy.
    AsyncWrite,
    /// By a bulk copy that adds to what is there, element by element in one step.
    AsyncUpdate,
    /// By an atomic load.
    AtomicRead(Scope),
    /// By an atomic store, or by one that changes what is there.
    AtomicWrite(Scope),
}

impl Kind {
    pub(super) fn reads(self) -> bool {
        matches!(
            self,
            Kind::Read | Kind::AsyncRead | Kind::AsyncUpdate | Kind::AtomicRead(_)
        )
    }

    pub(crate) fn writes(self) -> bool {
        matches!(
            self,
            Kind::Write | Kind::AsyncWrite | Kind::AsyncUpdate | Kind::AtomicWrite(_)
        )
    }

    pub(super) fn is_async(self) -> bool {
        matches!(self, Kind::AsyncRead | Kind::AsyncWrite | Kind::AsyncUpdate)
    }

    /// The instruction that does it.
    pub(super) fn operation(self) -> Operation {
        match self {
            Kind::Read | Kind::AsyncRead => Operation::Load,
            Kind::Write | Kind::AsyncWrite => Operation::Store,
            // The atomic ones are of a barrier in shared memory.
            Kind::AsyncUpdate | Kind::AtomicRead(_) | Kind::AtomicWrite(_) => Operation::Atomic,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::AsyncRead => "asynchronous read",
            Kind::AsyncWrite => "asynchronous write",
            Kind::AsyncUpdate => "asynchronous addition",
            Kind::AtomicRead(_) => "atomic read",
            Kind::AtomicWrite(_) => "atomic access",
        }
    }
}

/// An atomic operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomic {
    /// A load.
    Load,
    /// A load that acquires.
    LoadAcquire,
    /// A store.
    Store,
    /// A store that releases.
    StoreRelease,
    /// One that reads and writes.
    Update,
    /// One that reads and writes, acquires and releases.
    UpdateOrdered,
}

impl Atomic {
    /// The instruction that does it.
    pub(super) fn operation(self) -> Operation {
        match self {
            Atomic::Load | Atomic::LoadAcquire => Operation::Load,
            Atomic::Store | Atomic::StoreRelease => Operation::Store,
            Atomic::Update | Atomic::UpdateOrdered => Operation::Atomic,
        }
    }

    /// What it does to memory, one after another.
    pub(super) fn kinds(self, scope: Scope) -> impl Iterator<Item = Kind> {
        let reads = !matches!(self, Atomic::Store | Atomic::StoreRelease);
        let writes = !matches!(self, Atomic::Load | Atomic::LoadAcquire);
        let read = reads.then_some(Kind::AtomicRead(scope));
        read.into_iter().chain(writes.then_some(Kind::AtomicWrite(scope)))
    }
}

/// Bytes of memory.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) space: Space,
    pub(crate) address: usize,
    pub(crate) len: usize,
    /// The most that one instruction accesses; 0 where no thread's instruction does.
    pub(crate) align: usize,
    /// Of how many bytes what is wrong is said.
    pub(crate) element: usize,
    /// The block whose shared memory it is, where that is another one than the thread's.
    pub(crate) holder: Option<u64>,
}

impl Bytes {
    #[inline(always)]
    pub(crate) fn new(space: Space, address: usize, len: usize, align: usize) -> Bytes {
        Bytes {
            space,
            address,
            len,
            align,
            element: len,
            holder: None,
        }
    }

    /// The same, of elements of that size.
    #[inline(always)]
    pub(crate) fn of(self, element: usize) -> Bytes {
        Bytes { element, ..self }
    }

    pub(super) fn elements(self) -> impl DoubleEndedIterator<Item = Bytes> {
        (0..self.len / self.element).map(move |number| Bytes {
            address: self.address + number * self.element,
            len: self.element,
            ..self
        })
    }
}
