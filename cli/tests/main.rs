// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program as its users run it. One executable, so that what the files have in common is compiled and linked once.

mod common;

mod arrays;
mod bad_input;
mod bench;
mod eval;
mod families;
mod lab;
mod narrow_types;
mod pictures;
mod pieces;
mod pipes;
mod program;
mod tune;
