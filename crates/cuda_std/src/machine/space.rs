// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memories of a GPU, and the scopes of what is atomic in them; [`crate::atomic`] hands them on.

/// The memory that an [`Atomic`](crate::atomic::Atomic) is in.
pub trait Space: Copy {
    /// The memory as a value.
    #[doc(hidden)]
    const MEMORY: Memory;

    /// Where an element of it is.
    #[doc(hidden)]
    type Ptr<T>: Copy;

    /// The element's address, for the instruction that accesses it by that operation in that scope. The simulated GPU
    /// refuses another block's, and notes the access.
    #[doc(hidden)]
    #[track_caller]
    fn address<T>(ptr: Self::Ptr<T>, operation: Operation, scope: Level) -> *mut T;
}

/// A [`Space`] as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Global memory.
    Global,
    /// The block's shared memory.
    Shared,
    /// That of a block of the cluster.
    Distributed,
}

/// What an atomic operation does to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads it.
    Load,
    /// Reads it, and acquires.
    LoadAcquire,
    /// Writes it.
    Store,
    /// Writes it, and releases.
    StoreRelease,
    /// Reads and writes it.
    Update,
    /// Reads and writes it, acquires and releases.
    UpdateOrdered,
}

/// Global memory.
#[derive(Clone, Copy, Debug)]
pub struct Global;

/// Shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

/// The shared memory of any block of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct DistributedShared;

/// The threads among which an [`Atomic`](crate::atomic::Atomic) is atomic.
pub trait Scope: Copy {
    /// The scope as a value.
    #[doc(hidden)]
    const LEVEL: Level;
}

/// A [`Scope`] as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The threads of the block.
    Block,
    /// The threads of the cluster.
    Cluster,
    /// The threads of the device.
    Device,
    /// The device, the host and the other devices.
    System,
}

/// The threads of the block.
#[derive(Clone, Copy, Debug)]
pub struct Block;

/// The threads of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Cluster;

/// The threads of the device.
#[derive(Clone, Copy, Debug)]
pub struct Device;

/// The threads of the device, the host, and the other devices.
#[derive(Clone, Copy, Debug)]
pub struct System;

impl Scope for Block {
    const LEVEL: Level = Level::Block;
}

impl Scope for Cluster {
    const LEVEL: Level = Level::Cluster;
}

impl Scope for Device {
    const LEVEL: Level = Level::Device;
}

impl Scope for System {
    const LEVEL: Level = Level::System;
}
