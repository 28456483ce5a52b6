//! Compiles the kernels to PTX, for `warpsmith::kernels!`.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    cuda_builder::CudaBuilder::new("kernels").build()?;
    Ok(())
}
