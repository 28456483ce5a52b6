// SPDX-License-Identifier: MIT OR Apache-2.0
//! Panics with numbers; and what a thread on a GPU leaves of its panic, which is not for direct use.
//!
//! A panic ends the launch and the device's context with it, and device memory can be read no more. So the host crate
//! gives each module that can panic the address of a [`PanicRecord`] in its own memory, which the device can write:
//! the variable [`HOST`] of the module has it. The first thread of a module that panics takes the module's own record,
//! and of those the first takes the host's; the others wait for it, so that none ends the launch before all is written.

use core::panic::Location;
use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};

use crate::{hint, machine};

/// The variable of a module, two `u64`: the address of the host's [`PanicRecord`] and the number that the host gives the
/// module. Both are 0 where the host knows nothing of them. The name has the version of the record's layout.
pub const HOST: &str = "cuda_std_panic_host_2";

/// The most numbers that a message has.
pub const NUMBERS: usize = 3;

/// Panics with a message in which the first place stands for the first of the numbers, the next one for the next, up to
/// [`NUMBERS`] of them. A place is `{}` for a signed number, `{u}` for one that was a `u64`, and `{iu}` for one of which only
/// the caller knows what it was: a negative one is then told both ways.
///
/// `panic!` and `assert!` whose messages have arguments want the formatter, for which a kernel would need registers and a stack;
/// so on a GPU such a panic is told by its place alone. This one has its numbers there, too: the host puts them in.
///
/// ```should_panic
/// use cuda_std::prelude::*;
///
/// /// `out[i] = table[places[i]]`
/// #[kernel]
/// pub fn look_up(table: &[f32], places: &[u32], out: SliceMut<'_, f32>) {
///     let i = thread::index_1d();
///     if i < out.len() {
///         let place = places[i] as usize;
///         if place >= table.len() {
///             cuda_std::panic_with("place {} of a table of {}", [place as i64, table.len() as i64]);
///         }
///         out.set(i, table[place]);
///     }
/// }
/// # let mut out = [0.0; 3];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| look_up(&[1.0, 2.0], &[0, 1, 7], out));
/// ```
#[cold]
#[inline(always)]
#[track_caller]
pub fn panic_with<const N: usize>(message: &'static str, numbers: [i64; N]) -> ! {
    const { assert!(N <= NUMBERS, "a panic has at most three numbers") };
    let number = |i| if i < N { numbers[i] } else { 0 };
    machine::panic_with(message, number(0), number(1), number(2), N as u32, Location::caller())
}

/// Of several threads the first does something, and the others wait until it has.
#[derive(Debug)]
#[repr(transparent)]
pub struct Turn(AtomicU32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const FINISHED: u32 = 2;

/// A panic: which thread of which module, where in the source, and the message. All zeros if there was none.
#[derive(Debug)]
#[repr(C)]
pub struct PanicRecord {
    /// Of who writes it.
    pub turn: Turn,
    module: AtomicU32,
    block: [AtomicU32; 3],
    thread: [AtomicU32; 3],
    line: AtomicU32,
    column: AtomicU32,
    /// How many of the numbers there are.
    count: AtomicU32,
    numbers: [AtomicI64; NUMBERS],
    file: Text<256>,
    message: Text<512>,
}

/// A text, cut where it is too long, with a zero byte at the end.
#[derive(Debug)]
#[repr(C)]
struct Text<const BYTES: usize> {
    /// One more than the whole text's bytes; 0 if there is none.
    len: AtomicU32,
    bytes: [AtomicU8; BYTES],
}

/// What [`PanicRecord`] has, as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panic<'a> {
    /// The number of the module.
    pub module: u32,
    /// The block's index in the grid.
    pub block: [u32; 3],
    /// The thread's index in the block.
    pub thread: [u32; 3],
    /// The file, as the compiler was given it.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// The message; none if it would have to be formatted, for which a kernel would need registers and a stack.
    pub message: Option<&'a str>,
}

impl Turn {
    /// Nobody's yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Whether it is this thread's. If it is another's, this waits until that has [finished](Self::finish).
    #[inline(always)]
    pub fn take(&self) -> bool {
        let taken = self
            .0
            .compare_exchange(FREE, TAKEN, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() {
            return true;
        }
        while self.0.load(Ordering::Relaxed) != FINISHED {}
        false
    }

    /// Lets the others go on. Who calls this orders what it has written before it, by a fence.
    #[inline(always)]
    pub fn finish(&self) {
        self.0.store(FINISHED, Ordering::Relaxed);
    }
}

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}

impl PanicRecord {
    /// Of no panic.
    pub const fn new() -> Self {
        Self {
            turn: Turn::new(),
            module: AtomicU32::new(0),
            block: [const { AtomicU32::new(0) }; 3],
            thread: [const { AtomicU32::new(0) }; 3],
            line: AtomicU32::new(0),
            column: AtomicU32::new(0),
            count: AtomicU32::new(0),
            numbers: [const { AtomicI64::new(0) }; NUMBERS],
            file: Text::new(),
            message: Text::new(),
        }
    }

    /// Writes which thread it is, of which module.
    #[inline(always)]
    pub fn write_thread(&self, module: u32, block: [u32; 3], thread: [u32; 3]) {
        self.module.store(module, Ordering::Relaxed);
        for i in 0..3 {
            self.block[i].store(block[i], Ordering::Relaxed);
            self.thread[i].store(thread[i], Ordering::Relaxed);
        }
    }

    /// Writes where in the source it is.
    #[inline(always)]
    pub fn write_place(&self, file: &str, line: u32, column: u32) {
        self.line.store(line, Ordering::Relaxed);
        self.column.store(column, Ordering::Relaxed);
        self.file.write(file);
    }

    /// Writes the message.
    #[inline(always)]
    pub fn write_message(&self, message: &str) {
        self.message.write(message);
    }

    /// Writes so many numbers that stand in the message.
    #[inline(always)]
    pub fn write_numbers(&self, numbers: [i64; NUMBERS], count: u32) {
        self.count.store(count, Ordering::Relaxed);
        let ([a, b, c], [x, y, z]) = (&self.numbers, numbers);
        a.store(x, Ordering::Relaxed);
        b.store(y, Ordering::Relaxed);
        c.store(z, Ordering::Relaxed);
    }

    /// Whether a message was written.
    #[inline(always)]
    pub fn has_message(&self) -> bool {
        self.message.len.load(Ordering::Relaxed) != 0
    }

    /// The bytes of the message, with a zero byte at their end.
    #[inline(always)]
    pub fn message(&self) -> *const u8 {
        self.message.bytes.as_ptr().cast()
    }
}

impl Default for PanicRecord {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BYTES: usize> Text<BYTES> {
    const fn new() -> Self {
        Self {
            len: AtomicU32::new(0),
            bytes: [const { AtomicU8::new(0) }; BYTES],
        }
    }

    #[inline(always)]
    fn write(&self, text: &str) {
        self.len.store(text.len() as u32 + 1, Ordering::Relaxed);
        write_bytes(&self.bytes[..BYTES - 1], text.as_bytes());
    }
}

/// Writes as much as there is room for. Once in a module's code, and with few registers: the compiler must not know how
/// often this loops, or it unrolls.
#[inline(never)]
fn write_bytes(room: &[AtomicU8], bytes: &[u8]) {
    let mut i = 0;
    while let (Some(to), Some(&from)) = (room.get(i as usize), bytes.get(i as usize)) {
        to.store(from, Ordering::Relaxed);
        i = hint::opaque(i + 1);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::with_numbers;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::*;

    /// What stands for a number in a message, and what is written in its place.
    type Place = (&'static str, fn(i64) -> String);

    const PLACES: [Place; 3] = [
        ("{}", |number| number.to_string()),
        ("{u}", |number| (number as u64).to_string()),
        ("{iu}", |number| match number {
            0.. => number.to_string(),
            _ => format!("{number} (or {} of u64)", number as u64),
        }),
    ];

    /// The message with the numbers, each in its place, as long as there are some.
    pub(crate) fn with_numbers(message: &str, numbers: &[i64]) -> String {
        let (mut text, mut rest) = (String::new(), message);
        for &number in numbers {
            let first = PLACES
                .iter()
                .filter_map(|place| Some((rest.find(place.0)?, place)))
                .min_by_key(|&(at, _)| at);
            let Some((at, (place, write))) = first else { break };
            text += &rest[..at];
            text += &write(number);
            rest = &rest[at + place.len()..];
        }
        text + rest
    }

    impl PanicRecord {
        /// Hands over the panic, if one was written; what was cut ends in an ellipsis.
        pub fn read<R>(&self, with: impl FnOnce(Panic<'_>) -> R) -> Option<R> {
            if self.turn.0.load(Ordering::Acquire) != FINISHED {
                return None;
            }
            let number = |number: &AtomicU32| number.load(Ordering::Relaxed);
            let numbers = |of: &[AtomicU32; 3]| of.each_ref().map(number);
            let (file, message) = (self.file.read(), self.message.read());
            let count = (number(&self.count) as usize).min(NUMBERS);
            let in_message: Vec<i64> = self.numbers[..count]
                .iter()
                .map(|x| x.load(Ordering::Relaxed))
                .collect();
            let message = message.map(|message| with_numbers(&message, &in_message));
            Some(with(Panic {
                module: number(&self.module),
                block: numbers(&self.block),
                thread: numbers(&self.thread),
                file: file.as_deref().unwrap_or_default(),
                line: number(&self.line),
                column: number(&self.column),
                message: message.as_deref(),
            }))
        }
    }

    impl<const BYTES: usize> Text<BYTES> {
        fn read(&self) -> Option<String> {
            let len = (self.len.load(Ordering::Relaxed) as usize).checked_sub(1)?;
            let bytes = self.bytes[..len.min(BYTES - 1)].iter();
            let bytes: Vec<u8> = bytes.map(|byte| byte.load(Ordering::Relaxed)).collect();
            let end = if len < BYTES { "" } else { "…" };
            Some(String::from_utf8_lossy(&bytes).trim_end_matches('\u{fffd}').to_owned() + end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: Panic<'_> = Panic {
        module: 7,
        block: [1, 2, 3],
        thread: [4, 5, 6],
        file: "src/lib.rs",
        line: 8,
        column: 9,
        message: Some("no"),
    };

    fn write(record: &PanicRecord, panic: &Panic<'_>) {
        record.write_thread(panic.module, panic.block, panic.thread);
        record.write_place(panic.file, panic.line, panic.column);
        panic.message.inspect(|message| record.write_message(message));
    }

    #[test]
    fn what_the_first_writes_is_read() {
        for panic in [PANIC, Panic { message: None, ..PANIC }] {
            let record = PanicRecord::new();
            assert!(record.turn.take());
            write(&record, &panic);
            assert!(record.read(|_| ()).is_none(), "not finished");
            record.turn.finish();
            assert_eq!(record.read(|read| assert_eq!(read, panic)), Some(()));
            assert!(!record.turn.take(), "it has one");
        }
    }

    #[test]
    fn numbers_stand_in_the_message() {
        let message = |text: &'static str, numbers, count| {
            let record = PanicRecord::new();
            assert!(record.turn.take());
            write(
                &record,
                &Panic {
                    message: Some(text),
                    ..PANIC
                },
            );
            record.write_numbers(numbers, count);
            record.turn.finish();
            record.read(|panic| panic.message.unwrap().to_owned()).unwrap()
        };
        assert_eq!(
            message("{} of {}: {}", [i64::MIN, 2, -3], 3),
            "-9223372036854775808 of 2: -3"
        );
        assert_eq!(message("{} of {}", [1, 2, 3], 1), "1 of {}");
        assert_eq!(message("none", [1, 2, 3], 2), "none");
        assert_eq!(message("{}", [1, 2, 3], 0), "{}");
        assert_eq!(
            message("{u} of {}: {iu}", [i64::MIN, -2, -3], 3),
            "9223372036854775808 of -2: -3 (or 18446744073709551613 of u64)"
        );
        assert_eq!(message("{iu}{u}{u}", [7, -1, 0], 2), "718446744073709551615{u}");
    }

    #[test]
    fn others_wait_until_the_first_has_written() {
        let record = PanicRecord::new();
        assert!(record.turn.take());
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(!record.turn.take());
                record.read(|panic| panic.line)
            });
            write(&record, &PANIC);
            std::sync::atomic::fence(Ordering::Release);
            record.turn.finish();
            assert_eq!(other.join().unwrap(), Some(8));
        });
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        for (message, kept) in [("a".repeat(511), 511), ("a".repeat(512), 511), ("é".repeat(300), 510)] {
            let record = PanicRecord::new();
            assert!(record.turn.take());
            record.write_message(&message);
            record.turn.finish();
            let end = if message.len() > 511 { "…" } else { "" };
            let expected = message[..kept].to_owned() + end;
            record.read(|panic| assert_eq!(panic.message, Some(&*expected)));
        }
    }
}
