// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a panic does on an NVIDIA GPU.

use core::panic::{Location, PanicInfo};
use core::sync::atomic::{AtomicU64, Ordering};

use super::device::{block_idx, fence_system, thread_idx};
use crate::panics::{NUMBERS, PanicRecord, Turn};

/// The first thread of the module that panics takes this.
static FIRST: Turn = Turn::new();

/// Its record, where no host wants to be told. Not on that thread's stack, which would give every kernel that can panic a
/// stack frame.
static PANIC: PanicRecord = PanicRecord::new();

/// The module's variable [`panics::HOST`](crate::panics::HOST).
#[unsafe(no_mangle)]
static cuda_std_panic_host_2: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// A message with arguments would pull the formatter into every kernel; such a panic is told by its place alone.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    fail(info.location(), info.message().as_str(), [0; NUMBERS], 0)
}

/// Panics with a message that has so many of the numbers in it. They are not an array here, for which the caller would need a
/// stack.
#[cold]
#[inline(never)]
pub fn panic_with(message: &'static str, a: i64, b: i64, c: i64, count: u32, place: &'static Location<'static>) -> ! {
    fail(Some(place), Some(message), [a, b, c], count)
}

/// Leaves what is known of a panic to the host, and ends the launch with CUDA_ERROR_ASSERT by the driver's function for
/// failed assertions, which also has it printed.
///
/// A kernel has as many registers and as much of a stack as this takes, so it holds on to nothing that it can read again.
#[inline(always)]
fn fail(place: Option<&Location<'_>>, message: Option<&str>, numbers: [i64; NUMBERS], count: u32) -> ! {
    unsafe extern "C" {
        fn __assertfail(message: *const u8, file: *const u8, line: u32, function: *const u8, size: usize) -> !;
    }
    let mut text = c"panic".as_ptr().cast();
    if FIRST.take() {
        let record = host_record().unwrap_or(&PANIC);
        if record.turn.take() {
            record_thread(record);
            record.write_numbers(numbers, count);
            if let Some(place) = place {
                record.write_place(place.file(), place.line(), place.column());
            }
            if let Some(message) = message {
                record.write_message(message);
            }
            fence_system();
            record.turn.finish();
            fence_system();
        }
        if PANIC.has_message() {
            text = PANIC.message();
        }
        FIRST.finish();
    }
    let (file, line) = match place {
        Some(place) => (place.file_as_c_str(), place.line()),
        None => (c"unknown", 0),
    };
    // SAFETY: zero-terminated strings and the size of their characters.
    unsafe { __assertfail(text, file.as_ptr().cast(), line, c"kernel".as_ptr().cast(), 1) }
}

/// The host's record, if it wants to be told.
#[inline(always)]
fn host_record() -> Option<&'static PanicRecord> {
    let address = cuda_std_panic_host_2[0].load(Ordering::Relaxed);
    // SAFETY: null, or the host's record, which it keeps as long as the module is loaded.
    unsafe { core::ptr::with_exposed_provenance::<PanicRecord>(address as usize).as_ref() }
}

/// Writes which thread it is.
#[inline(never)]
fn record_thread(record: &PanicRecord) {
    let (block, thread) = (block_idx(), thread_idx());
    let module = cuda_std_panic_host_2[1].load(Ordering::Relaxed) as u32;
    record.write_thread(module, [block.x, block.y, block.z], [thread.x, thread.y, thread.z]);
}
