// SPDX-License-Identifier: MIT OR Apache-2.0
//! What NVIDIA's assembler says of kernels: nothing.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::programs::{Random, samples};
use crate::expr::ptx::kernel;

/// The programs that are assembled.
const PROGRAMS: u64 = 200;

/// The one that the variable PTXAS names, as for `cargo xtask ptx`, or else one on the PATH.
fn ptxas() -> Option<PathBuf> {
    let path = env::var_os("PTXAS").map_or_else(|| "ptxas".into(), PathBuf::from);
    let works = Command::new(&path)
        .arg("--version")
        .output()
        .is_ok_and(|said| said.status.success());
    works.then_some(path)
}

/// Where there is a ptxas: without one, `cargo xtask ptx` says how to get it, there is nothing to assemble with.
#[test]
fn ptxas_takes_programs_of_all_types_and_layouts() {
    let Some(ptxas) = ptxas() else { return };
    let folder = env::temp_dir().join(format!("warpsmith-expressions-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let samples = samples();
    for seed in 0..PROGRAMS {
        let Random { program, texts } = Random::new(seed, &samples);
        let text = kernel(&program, &texts).expect("a kernel");
        let path = folder.join(format!("{seed}.ptx"));
        fs::write(&path, &text).expect("a file");
        let architecture = ["-arch=sm_75", "-arch=sm_90"][seed as usize % 2];
        let said = Command::new(&ptxas)
            .args(["-v", architecture])
            .arg(&path)
            .args(["-o", "/dev/null"])
            .output();
        let said = said.expect("ptxas runs");
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "program {seed}: {errors}\n{text}");
        // What is called has a frame of its own: only the reduction of large angles does.
        let is_called = text.contains("call.uni");
        assert!(
            is_called || errors.contains("    0 bytes stack frame"),
            "program {seed}: {errors}\n{text}"
        );
    }
    fs::remove_dir_all(&folder).expect("the folder");
}
