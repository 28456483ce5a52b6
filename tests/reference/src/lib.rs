// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests compare with, in f64, and what they run kernels on, where that takes long: this package is compiled with
//! optimisation, which tests are not. So nothing here is generic, for that would be compiled with the test.

pub mod attention;
pub mod blur;
pub mod convolve;
pub mod emulator;
pub mod random;
