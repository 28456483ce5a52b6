// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles kernels-gpu to PTX, which the host crate embeds.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    cuda_builder::CudaBuilder::new("kernels-gpu").build()?;
    Ok(())
}
