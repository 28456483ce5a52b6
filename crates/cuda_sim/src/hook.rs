// SPDX-License-Identifier: MIT OR Apache-2.0
//! The panic hook: a panic in a simulated thread becomes a fault, and prints
//! nothing.
//!
//! A caught panic no longer knows where it happened; only the hook is told. So
//! one hook is put before the process's own, for good: in a simulated thread it
//! keeps message and location for whoever catches the panic, elsewhere it calls
//! the hook it found. A program that sets its own hook afterwards loses the
//! location of faults, not their message.

use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use crate::context;
use crate::error::Panic;

/// Installs the hook, once a process. Must not be called while panicking.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if !context::record_panic(|| Panic::from_hook(info)) {
                previous(info);
            }
        }));
    });
}
