// SPDX-License-Identifier: MIT OR Apache-2.0
//! Says what a check has found: the fault of the running thread.

use std::panic::Location;

use super::checker::{Found, Late};
use super::copies::Copy;
use super::finding::{Access, Finding, FindingKind};
use super::shadow::Foreign;
use super::word::{Entry, Problem};
use super::{Bytes, Kind, Space, Who};
use crate::cluster::KEEPS;
use crate::context::Context;
use crate::error::{Call, Failure};

#[cold]
pub(super) fn raise(context: &Context<'_>, call: Call, kind: Kind, (place, problem): Found) -> ! {
    let who = context.who();
    let (found, place, other, message) = match problem {
        Problem::Uninitialised(_) if place.space == Space::Global => {
            let name = context.name_of(place);
            let message =
                format!("uninitialised: this read of {name} is of what nobody has written since it was allocated");
            (FindingKind::Uninitialised, place, None, message)
        }
        Problem::Uninitialised(address) => {
            let byte = Bytes {
                address,
                len: 1,
                ..place
            };
            let name = context.name_of(byte);
            let message = format!("uninitialised: {name} is read, which no thread of the block has written yet");
            (FindingKind::Uninitialised, byte, None, message)
        }
        Problem::Race(other, lane) => {
            let message = race(context, place, kind, &other, lane);
            let thread = other.moment.warp * 32 + lane;
            let other = access_of(context, other.kind, other.moment.block, thread, other.at);
            (FindingKind::Race, place, Some(other), message)
        }
        Problem::NotFenced(other, lane) => {
            let message = not_fenced(context, place, kind, &other, lane);
            let thread = other.moment.warp * 32 + lane;
            let other = access_of(context, other.kind, other.moment.block, thread, other.at);
            (FindingKind::NotFenced, place, Some(other), message)
        }
        Problem::BlockEnded => {
            context.end_with_others();
            let message = context.holder(place.space, place.address).missed();
            (FindingKind::BlockEnded, place, None, message)
        }
        Problem::NotWaitedFor(copy) => {
            let message = not_waited_for(context, &context.name_of(place), kind, &copy);
            let other = access_of(context, copy.kind, copy.who.block, copy.who.thread, copy.at);
            (FindingKind::NotWaitedFor, place, Some(other), message)
        }
    };
    let (array, offset) = context.array_of(place);
    let finding = Finding {
        kind: found,
        array,
        offset,
        bytes: place.len,
        access: access_of(context, kind, who.block, who.thread, call.at),
        other,
    };
    context.raise_finding(call, message, finding)
}

/// The block of `context` has ended, and its shared memory may be accessed still: the fault of the thread that does, or has it
/// done.
#[cold]
pub(crate) fn report_end(context: &Context<'_>, late: Late) {
    match late {
        Late::Foreign(foreign) => report_foreign(context, &foreign),
        Late::Copy(place, copy) => report_copy(context, place, &copy),
    }
}

fn report_foreign(context: &Context<'_>, late: &Foreign) {
    let place = Bytes::new(Space::Shared, late.address, late.len, 0);
    let (block, entry) = (context.block.get(), &late.entry);
    let (name, kind) = (context.name_of(place), entry.kind.name());
    let message = format!(
        "access to shared memory of block {block} of the cluster, which may have ended: nothing orders its end behind this \
         {kind} of {name}; {KEEPS}"
    );
    let who = entry.who(late.lane);
    report_access(
        context,
        FindingKind::BlockEnded,
        place,
        (who, entry.kind, entry.at),
        message,
    );
}

fn report_copy(context: &Context<'_>, place: Bytes, copy: &Copy) {
    let (copied, remedy) = copy.name_and_remedy();
    let message = format!(
        "not waited for: the block ends while {copied} may still be at {}, by this {}; {remedy}",
        context.name_of(place),
        copy.kind.name()
    );
    let access = (copy.who, copy.kind, copy.at);
    report_access(context, FindingKind::NotWaitedFor, place, access, message);
}

/// What is wrong with an access that is past.
fn report_access(
    context: &Context<'_>,
    found: FindingKind,
    place: Bytes,
    (who, kind, at): (Who, Kind, &'static Location<'static>),
    message: String,
) {
    let access = access_of(context, kind, who.block, who.thread, at);
    let (array, offset) = context.array_of(place);
    let block = access.block;
    let failure = Failure {
        thread: access.thread,
        location: Some(at.into()),
        message,
        finding: Some(Box::new(Finding {
            kind: found,
            array,
            offset,
            bytes: place.len,
            access,
            other: None,
        })),
    };
    context.grid.report(who.block, block, failure);
}

fn access_of(context: &Context<'_>, kind: Kind, block: u64, thread: u32, at: &'static Location<'static>) -> Access {
    Access {
        kind,
        block: context.grid.config.grid.position(block),
        thread: context.index_of(thread),
        location: at.into(),
    }
}

/// What is wrong with an access to what a copy still uses.
fn not_waited_for(context: &Context<'_>, place: &str, kind: Kind, copy: &Copy) -> String {
    let (own, (copied, remedy), at) = (kind.name(), copy.name_and_remedy(), copy.at);
    let uses = if copy.kind.writes() { "fills" } else { "reads" };
    let thread = thread_of(context, copy.who);
    format!(
        "not waited for: this {own} of {place} comes while {copied} may still be at it, which {thread} has asked for at \
         {at} and which {uses} that memory; {remedy}"
    )
}

/// A thread, with its block if that is another than the running thread's.
fn thread_of(context: &Context<'_>, who: Who) -> String {
    let thread = context.index_of(who.thread);
    if who.block == context.who().block {
        return format!("thread {thread}");
    }
    let block = context.grid.config.grid.position(who.block);
    format!("block {block}, thread {thread}")
}

/// What is between an access and one of the async proxy, and what is not.
fn not_fenced(context: &Context<'_>, place: Bytes, kind: Kind, other: &Entry, lane: u32) -> String {
    let thread = thread_of(context, other.who(lane));
    let (own, theirs, at) = (kind.name(), other.kind.name(), other.at);
    let fence = match place.space {
        Space::Shared => "tma::fence_async",
        Space::Global => "tma::fence_async_global",
    };
    let name = context.name_of(place);
    if other.kind.is_async() {
        return format!(
            "not fenced: this {own} of {name} comes behind the {theirs} of {thread} at {at} for threads alone; copies of another \
             block come behind it where a thread that knows it to be over calls `{fence}` before it asks for them"
        );
    }
    format!(
        "not fenced: this {own} of {name} comes behind the {theirs} of {thread} at {at} for threads alone; bulk copies and \
         matrix products come behind it where the thread calls `{fence}` between the {theirs} and what orders the two"
    )
}

/// What a race is, and what would order the two accesses.
fn race(context: &Context<'_>, place: Bytes, kind: Kind, other: &Entry, lane: u32) -> String {
    let (who, space, place) = (context.who(), place.space, context.name_of(place));
    let remedy = if other.moment.block != who.block {
        match space {
            Space::Global => {
                "blocks of a launch are ordered by what one releases and another acquires in the scope of the device"
            }
            Space::Shared => "a `cluster::sync` between them would order them",
        }
    } else if other.moment.warp == who.thread / 32 {
        "a `sync_warp` or a barrier between them would order them"
    } else {
        "a barrier between them would order them"
    };
    let thread = thread_of(context, other.who(lane));
    let (own, theirs, at) = (kind.name(), other.kind.name(), other.at);
    format!("data race on {place}: this {own}, and the {theirs} of {thread} at {at}, are not ordered; {remedy}")
}
