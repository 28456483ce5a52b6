// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles kernels-gpu to PTX, which the host crate embeds.
//!
//! A package has the PTX packed beside its Cargo.toml, where `cargo xtask package` puts it: then nothing is compiled for
//! GPUs. The workspace has none there, and builds from source.

use cuda_builder::{CudaBuilder, CudaBuilderError};

fn main() -> Result<(), CudaBuilderError> {
    if !cuda_builder::use_packed("ptx")? {
        CudaBuilder::new("kernels-gpu").fmt_debug(false).build()?;
    }
    Ok(())
}
