// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures that kernels cannot take.

use cuda_std::KernelParam;

#[derive(Clone, Copy, KernelParam)]
pub struct AnyOrder {
    pub a: u8,
    pub b: f64,
}

#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub struct Refers {
    pub to: &'static f32,
}

#[repr(C)]
#[derive(Clone, Copy, KernelParam)]
pub enum Choice {
    This,
    That,
}

fn main() {}
