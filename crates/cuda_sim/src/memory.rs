// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory, and what threads say of their accesses to memory of either kind, which is checked and counted.

use crate::check::{self, Atomic, Awaited, Bytes, Engine, Kind, Meeting, Scope, Space};
use crate::count::{self, Operands, Operation};
use crate::error::Call;
use crate::shared::{SharedPtr, SharedSite};
use crate::{context, watchdog};

/// The memory of one static shared array: the same place for all threads of a
/// block, filled with the byte 0xA5 when the block first asks for it. It is a
/// fault if the arrays of a block need more than [`LIMITS`](crate::LIMITS) allow.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn static_shared(site: &'static SharedSite) -> SharedPtr {
    let call = Call::new("static_shared");
    context::with("static_shared", |context| {
        let array = context.shared_array(site);
        array.unwrap_or_else(|message| context.raise(call, message))
    })
}

/// The dynamic shared memory of the block and its size in bytes, aligned to 128
/// bytes and filled with the byte 0xA5 when the block first asks for it.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn dynamic_shared() -> (SharedPtr, usize) {
    context::with("dynamic_shared", |context| context.shared.dynamic())
}

/// The place in the shared memory of the block of that rank in the cluster, its linear index there, that is where `at` is in
/// this block's. It is a fault if there is no such rank.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn map_shared(at: SharedPtr, rank: u32) -> SharedPtr {
    let call = Call::new("map_shared");
    context::with("map_shared", |context| context.map_shared(call, at, rank))
}

/// The address of `bytes` bytes of shared memory at `at`, valid until the block
/// that has them ends. It is a fault if `at` belongs to another block than the one that runs,
/// but for blocks of its cluster that have not ended, or if there are fewer bytes.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn shared_memory(at: SharedPtr, bytes: usize) -> *mut u8 {
    let call = Call::new("shared_memory");
    watchdog::listen(call);
    locate(call, at, bytes)
}

#[inline(always)]
#[track_caller]
fn locate(call: Call, at: SharedPtr, bytes: usize) -> *mut u8 {
    context::with("shared_memory", |context| match context.shared.at(at, bytes) {
        Some(address) => address,
        None => context.locate_in_cluster(call, at, bytes),
    })
}

/// Says that the thread accesses `bytes` bytes of memory at `address`, which for shared memory is
/// [`shared_memory`]'s: in a launch that is checked, a race or a read of what nobody has written is a fault, and in one that
/// is counted it counts, as instructions of at most `align` bytes; 0 says that no instruction of the thread's does it.
/// [Polls](crate::poll) too. Costs one load in other launches; does nothing outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn access(space: Space, address: usize, bytes: usize, align: usize, kind: Kind) {
    let call = Call::new(match (space, kind) {
        (Space::Shared, _) => "shared_memory",
        (Space::Global, kind) if kind.writes() => "set",
        (Space::Global, _) => "get",
    });
    let place = Bytes::new(space, address, bytes, align);
    watchdog::listen_and(call, |context| check::access(context, call, place, kind));
}

/// As [`access`], where nothing is to be checked: only counts.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn count(space: Space, address: usize, bytes: usize, align: usize, operation: Operation) {
    let call = Call::new("load");
    let place = Bytes::new(space, address, bytes, align);
    watchdog::listen_and(call, |context| count::access(context, call, place, operation));
}

/// Says that the thread does its part, so many operations, of a product of matrices on tensor cores: in a launch that is counted
/// they count.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn products(operands: Operands, operations: u64) {
    watchdog::listen_and(Call::new("mma"), |context| {
        count::products(context, operands, operations)
    });
}

/// [`shared_memory`], and [`access`] of it.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn access_shared(at: SharedPtr, bytes: usize, align: usize, kind: Kind) -> *mut u8 {
    let address = locate(Call::new("shared_memory"), at, bytes);
    access(Space::Shared, address.addr(), bytes, align, kind);
    address
}

/// As [`access`], of a load from global memory for which no race is looked for, as nothing else writes there: that it reads
/// what nobody has written is a fault in a launch that is checked.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn load(address: usize, bytes: usize, align: usize) {
    let call = Call::new("load");
    let place = Bytes::new(Space::Global, address, bytes, align);
    watchdog::listen_and(call, |context| {
        check::load(context, call, place);
        count::access(context, call, place, Operation::Load);
    });
}

/// As [`load`], of what is one only if the address is in an allocation, where
/// [`Options::allocation`](crate::Options::allocation) tells.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn load_element(address: usize, bytes: usize, align: usize) {
    let call = Call::new("load");
    let place = Bytes::new(Space::Global, address, bytes, align);
    watchdog::listen_and(call, |context| {
        check::load(context, call, place);
        let allocation = context.grid.options.allocation;
        if allocation.is_none_or(|find| find(address).is_some()) {
            count::access(context, call, place, Operation::Load);
        }
    });
}

/// As [`access`], of an atomic operation in `scope`.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn atomic(space: Space, address: usize, bytes: usize, operation: Atomic, scope: Scope) {
    let call = Call::new(match space {
        Space::Shared => "shared_memory",
        Space::Global => "atomic",
    });
    let place = Bytes::new(space, address, bytes, bytes);
    watchdog::listen_and(call, |context| check::atomic(context, call, place, operation, scope));
}

/// [`shared_memory`], and [`atomic`] of it.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn atomic_shared(at: SharedPtr, bytes: usize, operation: Atomic, scope: Scope) -> *mut u8 {
    let address = locate(Call::new("shared_memory"), at, bytes);
    atomic(Space::Shared, address.addr(), bytes, operation, scope);
    address
}

/// Says that the thread orders its accesses in `scope` by a fence: what it did before is handed on by its atomic stores
/// behind it, and what others have handed on by words that it has loaded is over for it.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn fence(scope: Scope) {
    watchdog::listen_and(Call::new("fence"), |context| check::fence(context, scope));
}

/// Says that the thread lets bulk copies and matrix products come behind what it has done in that memory, and knows to be over:
/// those that are ordered behind this. Without it their accesses ([`Kind::AsyncRead`] and its kind) of memory that threads have
/// accessed are faults, whatever orders them; in global memory those that come behind copies of another block, too.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn fence_async(space: Space) {
    watchdog::listen_and(Call::new("fence_async"), |context| check::fence_async(context, space));
}

/// Says that `bytes` bytes from `address` on, of shared memory whole words, may be read whether anybody is known to have
/// written them or not: what is there does not matter, or was written by what is not told here.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn assume_written(space: Space, address: usize, bytes: usize) {
    let place = Bytes::new(space, address, bytes, 0);
    watchdog::listen_and(Call::new("assume_written"), |context| {
        check::assume_written(context, place)
    });
}

/// Says that the thread has asked for a copy of its own ([`Engine::Async`]) that fills `bytes` bytes of shared memory at `at`,
/// whose address it gives. It is an [`access`] now, and until the thread has waited, one that does not go with that is a
/// fault.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn copy_begins(at: SharedPtr, bytes: usize) -> *mut u8 {
    let call = Call::new("shared_memory");
    let address = locate(call, at, bytes);
    let place = Bytes::new(Space::Shared, address.addr(), bytes, bytes);
    watchdog::listen_and(call, |context| {
        let awaited = Awaited::groups(Engine::Async, context.who());
        check::copy_begins(context, call, [place], Kind::Write, awaited);
    });
    address
}

/// As [`copy_begins`], of a bulk copy or a product that reads several pieces of `bytes` bytes, at those offsets from `at`, which
/// may wrap around: each of elements of `element` bytes, of which a fault speaks.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn reads_begin<const P: usize>(
    engine: Engine,
    at: SharedPtr,
    offsets: [usize; P],
    (bytes, element): (usize, usize),
) -> [*mut u8; P] {
    let call = Call::new("shared_memory");
    // A loop, for the method `map` is not inlined here, nor is what it calls for each.
    let mut addresses = [std::ptr::null_mut(); P];
    for (address, offset) in addresses.iter_mut().zip(offsets) {
        *address = locate(call, at.byte_add(offset), bytes);
    }
    watchdog::listen_and(call, |context| {
        let places = addresses.map(|address| Bytes::new(Space::Shared, address.addr(), bytes, 0).of(element));
        let awaited = Awaited::groups(engine, context.who());
        check::copy_begins(context, call, places, Kind::AsyncRead, awaited);
    });
    addresses
}

/// As [`copy_begins`], of a bulk copy that fills `bytes` bytes, of elements of `element` bytes, which the block's threads wait
/// for: they arrive at the barrier at address `barrier`, in a phase of that parity.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn load_begins(at: SharedPtr, (bytes, element): (usize, usize), (barrier, parity): (usize, u32)) -> *mut u8 {
    let call = Call::new("shared_memory");
    let address = locate(call, at, bytes);
    let place = Bytes::new(Space::Shared, address.addr(), bytes, 0).of(element);
    let awaited = Awaited::Phases(barrier, parity);
    watchdog::listen_and(call, |context| {
        check::copy_begins(context, call, [place], Kind::AsyncWrite, awaited);
    });
    address
}

/// As [`copy_begins`], of a bulk copy that accesses `bytes` bytes of global memory at `address`, of elements of `element` bytes,
/// by [`Kind::AsyncWrite`] or [`Kind::AsyncUpdate`]: a copy of [`Engine::BulkWrite`].
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn store_begins(address: usize, (bytes, element): (usize, usize), kind: Kind) {
    let call = Call::new("set");
    let place = Bytes::new(Space::Global, address, bytes, 0).of(element);
    watchdog::listen_and(call, |context| {
        let awaited = Awaited::groups(Engine::BulkWrite, context.who());
        check::copy_begins(context, call, [place], kind, awaited);
    });
}

/// Says that the copies which the thread has asked for since the last call are a group.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn copies_commit(engine: Engine) {
    watchdog::listen_and(Call::new("commit"), |context| check::copies_commit(context, engine));
}

/// Says that the thread has waited for all its groups of copies but the `newest` ones.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn copies_wait(engine: Engine, newest: u32) {
    watchdog::listen_and(Call::new("wait"), |context| check::copies_wait(context, engine, newest));
}

/// Says that the thread arrives at the barrier in shared memory at `address`, in a phase of that parity: for the threads of
/// the barrier's block, or, in the scope of the device, as one that may be of another block of the cluster.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn phase_arrive(address: usize, parity: u32, scope: Scope) {
    watchdog::listen_and(Call::new("arrive"), |context| {
        check::arrive(context, Meeting::Phase(address, parity, scope))
    });
}

/// Says that the thread has waited for the end of such a phase: what threads did before they arrived in it is over, those of
/// other blocks only if this waits in the scope of the device; and so are copies that arrive in it ([`load_begins`]).
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn phase_wait(address: usize, parity: u32, scope: Scope) {
    watchdog::listen_and(Call::new("wait"), |context| {
        check::phase_ends(context, address, parity, scope);
    });
}
