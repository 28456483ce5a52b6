// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the listings' kernels to PTX: what the book shows is to be right on GPUs, too.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    cuda_builder::CudaBuilder::new("kernels").build()?;
    Ok(())
}
