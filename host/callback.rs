// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread on which callbacks of streams run.
//!
//! The driver calls a stream's function on a thread of its own, in which no function of the driver may be called, and
//! lets the stream wait. So what it calls here only sends the callback to another thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use crate::backend::Callback;

/// Runs the callbacks one after the other, in the order in which they come; ends with the process.
fn runner() -> &'static Sender<Callback> {
    static RUNNER: OnceLock<Sender<Callback>> = OnceLock::new();
    RUNNER.get_or_init(|| {
        let (sender, receiver) = channel::<Callback>();
        let run = move || {
            for callback in receiver {
                // A panic has been reported by the hook, and ends this callback alone.
                let _ = catch_unwind(AssertUnwindSafe(callback));
            }
        };
        let thread = std::thread::Builder::new().name("warpsmith-callbacks".into());
        thread.spawn(run).expect("the system starts a thread");
        sender
    })
}

/// What a stream is to call so that `callback` runs on the thread.
pub(crate) fn on_thread(callback: impl FnOnce() + Send + 'static) -> Callback {
    let (runner, callback) = (runner().clone(), Box::new(callback));
    Box::new(move || {
        // The thread receives as long as the process lives.
        let _ = runner.send(callback);
    })
}
