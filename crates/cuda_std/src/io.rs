// SPDX-License-Identifier: MIT OR Apache-2.0
//! Printing from a kernel.

use core::fmt::{self, Write};

/// The longest line that [`println!`](crate::println) prints, in bytes; the rest of a longer one is cut.
pub const LINE_BYTES: usize = 256;

/// Prints one line from a kernel, formatted as Rust formats.
///
/// On a GPU the driver holds the lines back in a buffer (1 MiB unless told otherwise) and prints them when the host
/// next waits for the device; lines of different threads come in any order, but whole. A line is cut at
/// [`LINE_BYTES`](crate::io::LINE_BYTES). For debugging: formatting costs registers, and each thread that the GPU can
/// hold gets a stack of 8 KiB.
///
/// ```
/// use cuda_std::{kernel, println, thread};
///
/// #[kernel]
/// pub fn hello() {
///     println!("hello from thread {} of block {}", thread::thread_idx_x(), thread::block_idx_x());
/// }
/// ```
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => {
        $crate::io::print_line(::core::format_args!($($argument)*))
    };
}

/// One line in the making, with a final zero byte for the driver's `%s`.
struct Line {
    bytes: [u8; LINE_BYTES + 1],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == LINE_BYTES {
                return Err(fmt::Error);
            }
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// What [`println!`](crate::println) calls.
#[doc(hidden)]
#[inline(never)]
pub fn print_line(arguments: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; LINE_BYTES + 1],
        len: 0,
    };
    // The only error is a full line, which is printed as far as it goes.
    let _ = line.write_fmt(arguments);
    crate::machine::print_line(&line.bytes, line.len);
}
