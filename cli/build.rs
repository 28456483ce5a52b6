// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the program's own kernels to PTX, which the program embeds.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    cuda_builder::CudaBuilder::new("kernels").build()?;
    Ok(())
}
