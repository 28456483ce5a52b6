// SPDX-License-Identifier: MIT OR Apache-2.0
//! The panic hook that the program had is left to the program's own panics.

use std::panic::{catch_unwind, set_hook};
use std::sync::Mutex;

use cuda_sim::{LaunchConfig, launch};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn only_host_panics_reach_the_hook() {
    set_hook(Box::new(|info| {
        let text = info.payload_as_str().unwrap_or_default().to_owned();
        SEEN.lock().unwrap().push(text);
    }));
    let failed = launch("kernel", &LaunchConfig::new(4, 4), &|| panic!("device"));
    assert!(failed.is_err());
    let host = catch_unwind(|| panic!("host"));
    assert!(host.is_err());
    assert_eq!(*SEEN.lock().unwrap(), ["host"]);
}
