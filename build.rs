// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles kernels-gpu to PTX, which the host crate embeds.
//!
//! Where the source of Rust's `core` is missing, the crate is built without device code: the simulated GPU works, and
//! opening a CUDA device is an error that says why. In CI that fails the build. It is also built so where the variable
//! `WARPSMITH_SIM_ONLY` is set, which saves minutes where no GPU code is to run, as in tests that only compile.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};

fn main() {
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-env-changed=WARPSMITH_SIM_ONLY");
    println!("cargo::rerun-if-changed=build.rs");
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

/// What `cuda_builder` writes, of no module.
fn write_no_modules() {
    if let Err(error) = CudaBuilder::new("kernels-gpu").write_no_modules() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
