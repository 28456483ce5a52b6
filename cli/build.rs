// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the program's own kernels to PTX, which the program embeds.
//!
//! Where the source of Rust's `core` is missing, the program is built without device code, as the library then is. In
//! CI that fails the build.

use std::path::PathBuf;

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() {
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-changed=build.rs");
    match CudaBuilder::new("kernels").arch(NvvmArch::Compute75).build() {
        Ok(_) => {}
        // The library's build script has warned.
        Err(CudaBuilderError::MissingCoreSource { .. }) if std::env::var_os("CI").is_none() => write_empty_index(),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// The index that `cuda_builder` writes, of no module.
fn write_empty_index() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    std::fs::write(out.join("warpsmith_cli_kernels.ptx.rs"), "&[]").expect("cargo's OUT_DIR can be written");
}
