// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the program's own kernels to PTX, which the program embeds.
//!
//! Where the source of Rust's `core` is missing, the program is built without device code, as the library then is. In
//! CI that fails the build.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() {
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-changed=build.rs");
    match CudaBuilder::new("kernels").arch(NvvmArch::Compute75).build() {
        Ok(_) => {}
        // The library's build script has warned.
        Err(CudaBuilderError::MissingCoreSource { .. }) if std::env::var_os("CI").is_none() => write_no_modules(),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// What `cuda_builder` writes, of no module.
fn write_no_modules() {
    if let Err(error) = CudaBuilder::new("kernels").write_no_modules() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
