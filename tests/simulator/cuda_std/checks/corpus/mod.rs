// SPDX-License-Identifier: MIT OR Apache-2.0
//! Those of the kernels that a GPU runs to their end, wrong as they are: the tests of the device library compile this module as
//! well, for compute-sanitizer to look at (tests/device/tests/corpus.rs).

pub mod boxes;
pub mod copies;
pub mod pipelines;
pub mod products;
pub mod shared;
pub mod warps;
