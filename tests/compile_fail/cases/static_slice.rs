// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel that wants its input for longer than the launch, to keep it.

use std::sync::Mutex;

use cuda_std::prelude::*;

static KEPT: Mutex<Option<&'static [f32]>> = Mutex::new(None);

#[kernel]
pub fn keep(x: &'static [f32]) {
    *KEPT.lock().unwrap() = Some(x);
}

fn main() {}
