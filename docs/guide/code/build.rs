// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the listings' kernels to PTX: what the book shows is to be right on GPUs, too.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    // As for the library's kernels, with whose `core` these are compiled.
    cuda_builder::CudaBuilder::new("kernels").fmt_debug(false).build()?;
    Ok(())
}
