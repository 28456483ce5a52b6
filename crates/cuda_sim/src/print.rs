// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels print.

use std::io::Write;

/// Writes `text` to standard output in one piece: texts of several threads do
/// not mix. As with the device's `printf`, that it cannot be written is no error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // The device function has no way to fail, and the kernel is not at fault.
    let _ = out.write_all(text.as_bytes());
}
