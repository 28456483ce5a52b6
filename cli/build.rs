// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the program's own kernels to PTX, which the program embeds.
//!
//! A package has the PTX packed beside its Cargo.toml, where `cargo xtask package` puts it: then nothing is compiled for
//! the GPU. The workspace has none there, and builds from source.
//!
//! Where the source of Rust's `core` is missing, the program is built without device code, as the library then is. In
//! CI that fails the build.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(packed)");
    if is_packed() {
        return;
    }
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

/// Whether the PTX is packed in, whose place `warpsmith::kernels!` is then told; and the program, by a cfg.
fn is_packed() -> bool {
    let packed = Path::new("ptx/warpsmith_cli_kernels.ptx.rs");
    if let (true, Ok(path)) = (packed.exists(), std::path::absolute(packed)) {
        println!("cargo::rustc-cfg=packed");
        println!(
            "cargo::rustc-env=CUDA_BUILDER_PTX_warpsmith_cli_kernels={}",
            path.display()
        );
        return true;
    }
    false
}

/// What `cuda_builder` writes, of no module.
fn write_no_modules() {
    if let Err(error) = CudaBuilder::new("kernels").write_no_modules() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
