// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the test kernels to PTX, which the tests embed.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    cuda_builder::CudaBuilder::new("kernels").build()?;
    Ok(())
}
