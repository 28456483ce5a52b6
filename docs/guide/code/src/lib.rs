// SPDX-License-Identifier: MIT OR Apache-2.0
//! The listings of docs/guide, a module for each chapter, and the solutions of its exercises: each runs as a test.
//!
//! The book includes what stands between `ANCHOR` and `ANCHOR_END`, and the files of `src/output`, which the tests here
//! hold what is printed against. Kernels are in the crate in `kernels`, which the build script compiles for GPUs; they run
//! on the simulated GPU, with all checks, and what is the library's alone on the first GPU, where there is one.

#[cfg(test)]
mod add;
#[cfg(test)]
mod algorithms;
#[cfg(test)]
mod book;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod debugging;
#[cfg(test)]
mod expressions;
#[cfg(test)]
mod first;
#[cfg(test)]
mod hello;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod own;
#[cfg(test)]
mod places;
#[cfg(test)]
mod solutions;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod together;
