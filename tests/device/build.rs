// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the test kernels to PTX.

use cuda_builder::{CudaBuilder, NvvmArch};

fn main() {
    if let Err(error) = CudaBuilder::new("kernels").arch(NvvmArch::Compute75).build() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
