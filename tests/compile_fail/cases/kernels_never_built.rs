// SPDX-License-Identifier: MIT OR Apache-2.0
//! No build script has made the device code of `my_kernels`.

fn main() {
    let _ = warpsmith::kernels!(my_kernels);
}
