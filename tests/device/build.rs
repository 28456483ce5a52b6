// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the test kernels to PTX, which the tests embed. Those that look at it are ignored where there is none.

fn main() -> Result<(), cuda_builder::CudaBuilderError> {
    println!("cargo::rustc-check-cfg=cfg(sim_only)");
    // As for the library's kernels, with whose `core` these are compiled.
    let modules = cuda_builder::CudaBuilder::new("kernels").fmt_debug(false).build()?;
    if modules.is_empty() {
        println!("cargo::rustc-cfg=sim_only");
    }
    Ok(())
}
