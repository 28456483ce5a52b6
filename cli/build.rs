// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the program's own kernels to PTX, which the program embeds; or takes them as they are packed, as the
//! library's build script does. Then the program is told by a cfg that it comes from a package.

use cuda_builder::{CudaBuilder, CudaBuilderError};

fn main() -> Result<(), CudaBuilderError> {
    println!("cargo::rustc-check-cfg=cfg(packed)");
    if cuda_builder::use_packed("ptx")? {
        println!("cargo::rustc-cfg=packed");
    } else {
        CudaBuilder::new("kernels").fmt_debug(false).build()?;
    }
    Ok(())
}
