// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that a launch is made with on request: data races, and reads of memory that nobody has written.
//!
//! A race is two accesses to a byte, at least one of them a write, of two threads, that nothing orders, unless both are
//! atomic in a scope which has both threads (PTX ISA, "Memory Consistency Model"). What orders is what does so on a GPU,
//! and not the order in which this machine happens to run the threads: barriers, `sync_warp`, and whoever acquires what
//! another has released, each in its scope. Shuffles and votes order nothing. For bulk copies and matrix products, which access
//! memory in the async proxy, what orders them behind a thread's access has a fence of that proxy in between.
//!
//! Each access is entered in a [`shadow`] of the memory by a [`clock`] of the thread's. A launch that is checked runs on the
//! thread of its caller alone, block after block, so that it finds the same each time.

mod block;
mod checker;
mod checks;
mod clock;
mod copies;
mod finding;
mod kinds;
mod published;
mod report;
mod shadow;
mod word;

use crate::context::Context;
use crate::count;
use crate::error::Call;
pub(crate) use block::{Meeting, Who};
pub(crate) use checker::Checker;
use checker::Found;
pub use checks::Checks;
pub(crate) use copies::Awaited;
pub use copies::Engine;
pub use finding::{Access, Array, Finding, FindingKind};
pub(crate) use kinds::Bytes;
pub use kinds::{Atomic, Kind, Scope, Space};
use report::raise;
pub(crate) use report::report_end;
pub(crate) use shadow::ByAddress;
use word::Problem;

/// Checks an access by the running thread, where a problem is its fault, and counts it.
#[cold]
pub(crate) fn access(context: &Context<'_>, call: Call, place: Bytes, kind: Kind) {
    if may_wait(place) {
        context.preempt();
    }
    let place = context.held(place);
    check(context, call, place, kind);
    count::access(context, call, place, kind.operation());
}

fn check(context: &Context<'_>, call: Call, place: Bytes, kind: Kind) {
    let Some(checker) = running(context) else {
        return;
    };
    if let Err(found) = checker.access(context.who(), place, kind, call.at) {
        let found = match found.1 {
            Problem::Uninitialised(_) if may_wait(place) => {
                let later = unless_written_later(context, checker, call, place, kind);
                later.err().unwrap_or(found)
            }
            _ => found,
        };
        raise(context, call, kind, found);
    }
}

/// Whether other threads may run where this place is accessed: not where one lane does what is all lanes'.
fn may_wait(place: Bytes) -> bool {
    place.align > 0
}

/// How often the other threads of a block may run before what one of them reads counts as written by nobody.
const PASSES: u32 = 64;

/// If another thread would write what this one reads, and merely has not come so far, it is the order of the two that is missing, and
/// not the write: the access is entered all the same, and the others go on to where they wait for this thread. The write is a race
/// then, and its thread's fault, which ends this one. It has not seen by then what is there.
fn unless_written_later(
    context: &Context<'_>,
    checker: &Checker<'_>,
    call: Call,
    place: Bytes,
    kind: Kind,
) -> Result<(), Found> {
    checker.access_unwritten(context.who(), place, kind, call.at)?;
    (0..PASSES).for_each(|_| context.yield_now());
    Ok(())
}

/// As [`access`], of a copy or a product, which is under way until it has been waited for: what comes too early for it is a
/// race. All places are in the memory of one block, or in that of all.
#[cold]
pub(crate) fn copy_begins<const P: usize>(
    context: &Context<'_>,
    call: Call,
    places: [Bytes; P],
    kind: Kind,
    awaited: Awaited,
) {
    if places.iter().copied().any(may_wait) {
        context.preempt();
    }
    let places = places.map(|place| context.held(place));
    if let Some(checker) = running(context)
        && let Err(found) = checker.copy_begins(context.who(), &places, kind, awaited, call.at)
    {
        raise(context, call, kind, found);
    }
    for place in places {
        count::access(context, call, place, kind.operation());
    }
}

/// A load from global memory that races with nothing.
#[cold]
pub(crate) fn load(context: &Context<'_>, call: Call, place: Bytes) {
    if let Some(checker) = running(context)
        && let Err(problem) = checker.enter_written(place, Kind::Read)
    {
        raise(context, call, Kind::Read, (place, problem));
    }
}

/// As [`access`], of an atomic operation.
#[cold]
pub(crate) fn atomic(context: &Context<'_>, call: Call, place: Bytes, operation: Atomic, scope: Scope) {
    context.preempt();
    let place = context.held(place);
    check_atomic(context, call, place, operation, scope);
    count::access(context, call, place, operation.operation());
}

fn check_atomic(context: &Context<'_>, call: Call, place: Bytes, operation: Atomic, scope: Scope) {
    let Some(checker) = running(context) else {
        return;
    };
    if let Err(found) = checker.atomic(context.who(), place, operation, scope, call.at) {
        let kind = operation.kinds(scope).last().unwrap_or(Kind::AtomicRead(scope));
        raise(context, call, kind, found);
    }
}

#[cold]
pub(crate) fn fence(context: &Context<'_>, scope: Scope) {
    if let Some(checker) = running(context) {
        checker.fence(context.who(), scope);
    }
}

#[cold]
pub(crate) fn fence_async(context: &Context<'_>, space: Space) {
    if let Some(checker) = running(context) {
        checker.fence_async(context.who(), space);
    }
}

/// Memory that may be read though nobody is known to have written it.
#[cold]
pub(crate) fn assume_written(context: &Context<'_>, place: Bytes) {
    if let Some(checker) = running(context) {
        checker.assume_written(context.who(), context.held(place));
    }
}

/// The copies that the thread has asked that engine for since the last call are a group.
#[cold]
pub(crate) fn copies_commit(context: &Context<'_>, engine: Engine) {
    if let Some(checker) = running(context) {
        checker.copies_commit(context.who(), engine);
    }
}

/// The thread has waited for all its groups but the `newest` ones.
#[cold]
pub(crate) fn copies_wait(context: &Context<'_>, engine: Engine, newest: u32) {
    if let Some(checker) = running(context) {
        checker.copies_wait(context.who(), engine, newest);
    }
}

/// The running thread comes to a place where some meet.
#[cold]
pub(crate) fn arrive(context: &Context<'_>, meeting: Meeting) {
    if let Some(checker) = running(context) {
        let holder = match meeting {
            Meeting::Phase(address, ..) => context.holder(Space::Shared, address),
            Meeting::Warp(..) | Meeting::Group(_) => context,
        };
        checker.arrive(context.who(), holder.who().block, meeting);
    }
}

/// It goes on from there.
#[cold]
pub(crate) fn leave(context: &Context<'_>, meeting: Meeting) {
    if let Some(checker) = running(context) {
        checker.leave(context.who(), meeting);
    }
}

/// It has waited for a phase of that parity of the barrier at that address, in that scope.
#[cold]
pub(crate) fn phase_ends(context: &Context<'_>, address: usize, parity: u32, scope: Scope) {
    leave(context, Meeting::Phase(address, parity, Scope::Block));
    if scope == Scope::Device {
        leave(context, Meeting::Phase(address, parity, scope));
    }
    if let Some(checker) = running(context) {
        checker.phase_ends(context.who(), address, parity);
    }
}

/// The checker of a launch; none for destructors of a thread that unwinds.
pub(crate) fn running<'a>(context: &'a Context<'_>) -> Option<&'a Checker<'a>> {
    let checker = context.grid.checker.as_ref()?;
    (!context.unwinds()).then_some(checker)
}
