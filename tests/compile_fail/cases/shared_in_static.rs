// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared memory, and an atomic in it, kept in a static: they belong to one block.

use std::sync::Mutex;

use cuda_std::atomic::{self, Atomic, Block};
use cuda_std::prelude::*;

static KEPT: Mutex<Option<Shared<f32>>> = Mutex::new(None);
static KEPT_ATOMIC: Mutex<Option<Atomic<'static, u32, atomic::Shared, Block>>> = Mutex::new(None);

fn main() {}
