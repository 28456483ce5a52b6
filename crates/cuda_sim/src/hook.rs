// SPDX-License-Identifier: MIT OR Apache-2.0
//! The panic hook: a panic in a simulated thread becomes a fault, and prints
//! nothing.
//!
//! A caught panic no longer knows where it happened; only the hook is told. So
//! one hook is put before the process's own, for good: in a simulated thread it
//! keeps message and location for whoever catches the panic, elsewhere it calls
//! the hook it found. A program that sets its own hook afterwards loses the
//! location of faults, not their message.

use std::any::Any;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use crate::context;
use crate::error::SourceLocation;

/// What the hook saw of a panic.
pub(crate) struct Panic {
    pub(crate) message: String,
    pub(crate) location: Option<SourceLocation>,
}

impl Panic {
    /// What is left of a panic that passed the hook by.
    pub(crate) fn from_payload(payload: &(dyn Any + Send)) -> Panic {
        let text =
            (payload.downcast_ref::<&str>().copied()).or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Panic {
            message: text.unwrap_or(NO_TEXT).to_owned(),
            location: None,
        }
    }
}

const NO_TEXT: &str = "panicked with a value that is no text";

/// Installs the hook, once a process. Must not be called while panicking.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let seen = || Panic {
                message: info.payload_as_str().unwrap_or(NO_TEXT).to_owned(),
                location: info.location().map(SourceLocation::from),
            };
            if !context::record_panic(seen) {
                previous(info);
            }
        }));
    });
}
