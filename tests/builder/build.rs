// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that compile device code are ignored where none is wanted. cuda_builder itself has no such build script: all that
//! depends on it would be compiled anew when the variable changes.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(sim_only)");
    println!("cargo::rerun-if-env-changed=WARPSMITH_SIM_ONLY");
    if cuda_builder::is_sim_only() {
        println!("cargo::rustc-cfg=sim_only");
    }
}
