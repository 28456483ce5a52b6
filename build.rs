// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles kernels-gpu to PTX, which the host crate embeds.
//!
//! A package has the PTX packed beside its Cargo.toml, where `cargo xtask package` puts it: then nothing is compiled for
//! GPUs. The workspace has none there, and builds from source.

use cuda_builder::{CudaBuilder, CudaBuilderError};

fn main() -> Result<(), CudaBuilderError> {
    println!("cargo::rustc-check-cfg=cfg(sim_only)");
    if !cuda_builder::use_packed("ptx")? && CudaBuilder::new("kernels-gpu").fmt_debug(false).build()?.is_empty() {
        // Tests that want device code are ignored.
        println!("cargo::rustc-cfg=sim_only");
    }
    Ok(())
}
