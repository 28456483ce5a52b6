// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the kernels crate in `fixture/` for real. `core` is built twice, once for each profile: that of the release
//! profile is the workspace's own, if it has built device code, the other is kept in cargo's folder for test files. Only
//! the tests of the cache have one. Where device code is not wanted, what compiles it is ignored.

#[cfg(unix)]
mod cache;
mod errors;
mod fixture;
mod freshness;
mod modules;

use cuda_builder::{CudaBuilder, NvvmArch};

/// Not a test by itself: the body of a build script.
#[test]
#[ignore = "run by the tests that need a build script"]
fn as_a_build_script() {
    let Some(kernels) = std::env::var_os("FIXTURE") else {
        return;
    };
    println!();
    let archs: &[NvvmArch] = match std::env::var_os("FIXTURE_ONE_ARCH") {
        Some(_) => &[NvvmArch::Compute75],
        None => &[NvvmArch::Compute75, NvvmArch::Compute80],
    };
    CudaBuilder::new(kernels).archs(archs).build().unwrap();
}
