// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated thread that runs over its stack: a fault, or the end of the
//! process, which says why.
//!
//! There is more stack than a thread may have, and wherever it listens for the
//! watchdog, at every access to memory above all, it also looks how deep it is:
//! one comparison with a variable of the OS thread. There it can unwind.
//!
//! A thread that goes on without doing so reaches the guard page, which is a
//! SIGSEGV. There is no way back from that: it may come within any function, an
//! allocator's that holds its lock for instance, and the frames on the stack may
//! hold locks and borrows of the engine and of the program, which would be taken
//! for ever. But the handler here knows the guard pages, and prints what
//! overflowed before it aborts; any other fault it hands on to the handler that
//! it found.

use std::arch::asm;
use std::cell::Cell;
use std::fmt::{self, Write};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

use libc::{c_int, c_void, siginfo_t};

use crate::context::{self, Context};
use crate::error::Call;
use crate::stack::STACK_BYTES;

thread_local! {
    /// Below it the stack of the coroutine that runs, or ran last, has overflowed.
    static LIMIT: Cell<usize> = const { Cell::new(0) };
}

/// The coroutine that this OS thread runs from here on has that limit.
#[inline(always)]
pub(crate) fn set_limit(limit: usize) {
    LIMIT.set(limit);
}

/// Whether the running thread's stack has overflowed. Means nothing outside a
/// kernel.
#[inline(always)]
pub(crate) fn is_over() -> bool {
    stack_pointer() < LIMIT.get()
}

/// Ends the running thread by a fault, if its stack has overflowed.
pub(crate) fn end_in(context: &Context<'_>, call: Call) {
    if is_over() && !context.unwinds() {
        context.raise(call, Overflow.to_string());
    }
}

/// An address of a local variable would not do: in a large frame that may be far
/// above the frame's end.
#[inline(always)]
fn stack_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    // SAFETY: reads a register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// What is said of it.
struct Overflow;

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its stack of {} KiB overflowed. On a GPU its local memory would be so large; make local arrays smaller, or \
             the recursion less deep",
            STACK_BYTES / 1024
        )
    }
}

/// A guard page that there is for good, as there are the stacks.
struct Guard {
    start: usize,
    next: *const Guard,
}

/// All guard pages: a list that only grows, so that a handler can read it.
static GUARDS: AtomicPtr<Guard> = AtomicPtr::new(ptr::null_mut());

/// What was there before; known before the handler here is installed.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Makes a guard page known, by its lowest address.
pub(crate) fn add_guard(start: usize) {
    let guard = Box::leak(Box::new(Guard {
        start,
        next: ptr::null(),
    }));
    let mut next = GUARDS.load(Ordering::Acquire);
    loop {
        guard.next = next;
        // Released with the guard that it leads to.
        match GUARDS.compare_exchange_weak(next, guard, Ordering::Release, Ordering::Acquire) {
            Ok(_) => return,
            Err(changed) => next = changed,
        }
    }
}

/// Whether the address is in a guard page.
fn is_guarded(address: usize) -> bool {
    // SAFETY: writes nothing, and is allowed in handlers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let mut guard = GUARDS.load(Ordering::Acquire).cast_const();
    // SAFETY: null, or a guard that was leaked and is not written any more.
    while let Some(known) = unsafe { guard.as_ref() } {
        if (known.start..known.start + page).contains(&address) {
            return true;
        }
        guard = known.next;
    }
    false
}

/// Installs the handler, once a process.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: plain data, of which all that counts is set; the calls read and write it. Where
        // they fail, such a fault ends the process as it did before.
        unsafe {
            let mut previous: libc::sigaction = MaybeUninit::zeroed().assume_init();
            if libc::sigaction(libc::SIGSEGV, ptr::null(), &mut previous) != 0 || PREVIOUS.set(previous).is_err() {
                return;
            }
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut());
        }
    });
}

/// Runs on the signal stack that Rust gives its threads. Where a thread has
/// none, the kernel cannot call it, and ends the process.
extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, machine: *mut c_void) {
    // SAFETY: the kernel passes what tells of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    if !is_guarded(address) {
        return hand_on(signal, info, machine);
    }
    let mut text = Text::default();
    let _ = context::describe(&mut text);
    let _ = writeln!(text, ": {Overflow}");
    // SAFETY: both are allowed in handlers; the bytes are initialised.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.bytes.as_ptr().cast(), text.len);
        libc::abort();
    }
}

/// Calls the handler that was there before, or lets the signal do what it does
/// without one.
fn hand_on(signal: c_int, info: *mut siginfo_t, machine: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else {
        return;
    };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: what the process had; the instruction faults again.
            unsafe { libc::sigaction(signal, previous, ptr::null_mut()) };
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler that was installed with SA_SIGINFO has this type.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = unsafe { std::mem::transmute(handler) };
            handler(signal, info, machine);
        }
        handler => {
            // SAFETY: a handler that was installed without has this one.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// A line that is put together without an allocation; what does not fit is cut.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl Default for Text {
    fn default() -> Self {
        Text {
            bytes: [0; 512],
            len: 0,
        }
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let count = part.len().min(room.len());
        room[..count].copy_from_slice(&part.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}
