// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the laboratory's kernels to PTX; or takes them as they are packed, as the library's build script does.

use cuda_builder::{CudaBuilder, CudaBuilderError};

fn main() -> Result<(), CudaBuilderError> {
    if !cuda_builder::use_packed("ptx")? {
        CudaBuilder::new("kernels").fmt_debug(false).build()?;
    }
    Ok(())
}
