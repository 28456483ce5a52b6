// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the kernels crate to PTX.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    cuda_builder::CudaBuilder::new("kernels").build()?;
    Ok(())
}
