// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles kernels-gpu to PTX, which the host crate embeds.
//!
//! A package has the PTX packed beside its Cargo.toml, where `cargo xtask package` puts it: then nothing is compiled for
//! the GPU. The workspace has none there, and builds from source.
//!
//! Where the source of Rust's `core` is missing, the crate is built without device code: the simulated GPU works, and
//! opening a CUDA device is an error that says why. In CI that fails the build. It is also built so where the variable
//! `WARPSMITH_SIM_ONLY` is set, which saves minutes where no GPU code is to run, as in tests that only compile.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-env-changed=WARPSMITH_SIM_ONLY");
    println!("cargo::rerun-if-changed=build.rs");
    if is_packed() {
        return;
    }
    if std::env::var_os("WARPSMITH_SIM_ONLY").is_some() {
        return write_no_modules();
    }
    let built = CudaBuilder::new("kernels-gpu").arch(NvvmArch::Compute75).build();
    match built {
        Ok(_) => {}
        Err(error @ CudaBuilderError::MissingCoreSource { .. }) if std::env::var_os("CI").is_none() => {
            for line in error.to_string().lines() {
                println!("cargo::warning={line}");
            }
            println!("cargo::warning=warpsmith is built without device code: only the simulated GPU will work");
            write_no_modules();
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// Whether the PTX is packed in, whose place `warpsmith::kernels!` is then told.
fn is_packed() -> bool {
    let packed = Path::new("ptx/kernels_gpu.ptx.rs");
    if let (true, Ok(path)) = (packed.exists(), std::path::absolute(packed)) {
        println!("cargo::rustc-env=CUDA_BUILDER_PTX_kernels_gpu={}", path.display());
        return true;
    }
    false
}

/// What `cuda_builder` writes, of no module.
fn write_no_modules() {
    if let Err(error) = CudaBuilder::new("kernels-gpu").write_no_modules() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
