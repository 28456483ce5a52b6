// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks of the simulated threads, kept from launch to launch.
//!
//! Mapping a stack and touching it for the first time costs microseconds, and a
//! block may need 1024 of them; so they are never unmapped. A stack here is
//! plain memory that belongs to no coroutine: it may serve another OS thread
//! next time.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use corosensei::stack::{DefaultStack, Stack as RawStack, StackPointer};

use crate::overflow;

/// Room for a kernel's frames, also unoptimised ones. A thread that wants more is
/// a fault ([`overflow`]).
pub(crate) const STACK_BYTES: usize = 64 * 1024;

/// What there is beyond, for that fault to be found before the guard page, and for
/// its unwinding: the local memory that a thread of a GPU has at the most. So an
/// array that is too large here leads to the fault if it is none too large there.
/// Memory is taken where it is touched.
const BEYOND: usize = 512 * 1024;

/// How many stacks may be in use at once, by all launches together. Each takes two
/// of the 65 530 mappings that Linux grants a process by default.
pub(crate) const MAX_STACKS: usize = 28 * 1024;

/// By how much the start of each new stack is shifted against the one before,
/// modulo [`SHIFT_RANGE`]. Mappings start at page boundaries, and a cache finds
/// a line's set by its place in the page: unshifted, the busy ends of all stacks
/// fight for the same few sets. With the shift a bare switch took 4 ns instead
/// of 10 with 256 threads, and 5 instead of 18 with 1024.
const SHIFT: usize = 9 * 64;
const SHIFT_RANGE: usize = 4096;

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: Vec::new(),
    created: 0,
});

struct Pool {
    free: Vec<Stack>,
    created: usize,
}

/// How many stacks are reserved.
static RESERVED: Mutex<usize> = Mutex::new(0);
static RELEASED: Condvar = Condvar::new();

/// Who reserves next: one that waits for many is not overtaken for ever by others that want few.
static TURN: Mutex<()> = Mutex::new(());

/// What a launch may have of the stacks, until it is dropped.
pub(crate) struct Reservation {
    pub(crate) stacks: usize,
}

/// Reserves `most` stacks, or as many as there are, but at least `least`: for these it waits until other launches have
/// ended. No launch wants more than [`MAX_STACKS`].
pub(crate) fn reserve(least: usize, most: usize) -> Reservation {
    assert!(least <= MAX_STACKS, "{least} stacks wanted of {MAX_STACKS}");
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let too_few = |reserved: &mut usize| MAX_STACKS - *reserved < least;
    let mut reserved = (RELEASED.wait_while(reserved(), too_few)).unwrap_or_else(PoisonError::into_inner);
    let stacks = most.clamp(least, MAX_STACKS - *reserved);
    *reserved += stacks;
    Reservation { stacks }
}

fn reserved() -> MutexGuard<'static, usize> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *reserved() -= self.stacks;
        RELEASED.notify_one();
    }
}

/// The stack of one coroutine.
pub(crate) struct Stack {
    memory: DefaultStack,
    base: StackPointer,
}

impl Stack {
    fn new(number: usize) -> io::Result<Stack> {
        let memory = DefaultStack::new(STACK_BYTES + BEYOND + SHIFT_RANGE)?;
        // The guard page is at the lower end.
        overflow::add_guard(memory.limit().get());
        let top = memory.base();
        let base = top.get() - number.wrapping_mul(SHIFT) % SHIFT_RANGE;
        Ok(Stack {
            memory,
            base: StackPointer::new(base).unwrap_or(top),
        })
    }

    /// The lowest address that a kernel may have.
    pub(crate) fn limit_of_kernels(&self) -> usize {
        self.base.get() - STACK_BYTES
    }
}

// SAFETY: the memory between `limit` and `base` is that of `memory`, less fewer
// than `SHIFT_RANGE` bytes at the upper end: at least `STACK_BYTES + BEYOND`, with the
// guard page at the lower end. Both shift and range are multiples of 64, so that
// `base` is aligned as well as `memory`'s, as far as a stack asks for.
unsafe impl RawStack for Stack {
    #[inline(always)]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline(always)]
    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }
}

/// Up to `count` stacks, at least one: those at hand, or a new one. They are of the caller's [`Reservation`].
pub(crate) fn take(count: usize) -> io::Result<Vec<Stack>> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let rest = pool.free.len().saturating_sub(count);
    let mut taken = pool.free.split_off(rest);
    if taken.is_empty() {
        let number = pool.created;
        pool.created += 1;
        drop(pool);
        taken.push(Stack::new(number)?);
    }
    Ok(taken)
}

/// Gives stacks back for later launches.
pub(crate) fn give(stacks: impl Iterator<Item = Stack>) {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    pool.free.extend(stacks);
}
