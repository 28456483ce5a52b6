// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels of docs/guide, a module for each chapter, and those of its exercises' solutions: compiled for GPUs by the
//! build script of the tests that launch them.
#![no_std]

pub mod add;
pub mod calls;
pub mod debugging;
pub mod hello;
pub mod memory;
pub mod own;
pub mod places;
pub mod solutions;
pub mod together;
