// SPDX-License-Identifier: MIT OR Apache-2.0
//! What NVIDIA's assembler says of kernels: nothing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ndarray::{Axis, s};

use super::across::held_across;
use super::clusters::{long_rows, longest_rows, with_clusters};
use super::emulated::{narrow_floats, norms, numbers, programs, random_numbers, softmax, turned_arrays};
use super::programs::{Random, samples};
use super::stashed::rows_in_shared_memory;
use crate::backend::DeviceFnInfo;
use crate::device::KERNELS;
use crate::expr::kernel::together::{can_be_together, of_many};
use crate::expr::program::Program;
use crate::expr::ptx::kernel;

/// The programs that are assembled.
const PROGRAMS: u64 = 200;

/// What ptxas calls them, and their compute capability.
pub(super) const ARCHITECTURES: [(&str, (u32, u32)); 2] = [("-arch=sm_75", (7, 5)), ("-arch=sm_90", (9, 0))];

/// The one that the variable PTXAS names, as for `cargo xtask ptx`, or else one on the PATH.
pub(super) fn ptxas() -> Option<PathBuf> {
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
        let Random { mut program, texts } = Random::new(seed, &samples);
        if seed % 3 == 0 && can_be_together(&program, &[]) {
            program = of_many(&program);
        }
        let (architecture, capability) = ARCHITECTURES[seed as usize % 2];
        let text = kernel(&program, &texts, capability).expect("a kernel");
        let errors = assemble(&ptxas, &folder.join(format!("{seed}.ptx")), architecture, &text);
        // What is called has a frame of its own: only the reduction of large angles does.
        let is_called = text.contains("call.uni");
        assert!(
            is_called || errors.contains("    0 bytes stack frame"),
            "program {seed}: {errors}\n{text}"
        );
    }
    fs::remove_dir_all(&folder).expect("the folder");
}

/// What ptxas says of a text, which it takes.
pub(super) fn assemble(ptxas: &Path, path: &Path, architecture: &str, text: &str) -> String {
    fs::write(path, text).expect("a file");
    let said = Command::new(ptxas)
        .args(["-v", architecture])
        .arg(path)
        .args(["-o", "/dev/null"])
        .output();
    let said = said.expect("ptxas runs");
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{errors}\n{text}");
    errors
}

/// The kernels of reductions with the library's own functions: in registers alone.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_reductions_of_all_forms() {
    let programs = programs(|stream| {
        for shape in [[1, 3, 300], [2, 2, 9000], [1, 2, 20_000], [1, 1, 70_000], [2, 1000, 40]] {
            let x = numbers(stream, shape)?;
            let part = x.slice(s![.., .., 1..])?;
            for axis in [2, 1] {
                softmax(&x.expr(), axis).eval()?;
                x.expr().softmax(Axis(axis)).eval()?;
                x.expr().variance_axis(Axis(axis), 0).eval()?;
                part.expr().cast::<f64>().sum_axis(Axis(axis)).eval()?;
                part.expr().argmax_axis(Axis(axis)).eval()?;
                // As many calls as columns of large arrays have.
                let long = ((x.expr().sin() * 1.5 + 0.5).exp() - 1.0).abs().tanh();
                long.sum_axis(Axis(axis)).eval()?;
                (x.expr().cast::<f64>().exp().sqrt() / 3.0)
                    .sin()
                    .sum_axis(Axis(axis))
                    .eval()?;
                (x.expr().cast::<crate::f16>() * crate::f16::ONE)
                    .max_axis(Axis(axis))
                    .eval()?;
            }
        }
        Ok(())
    });
    check_library("reductions", &programs, 0);
    let alone = programs.iter().filter(|program| can_be_together(program, &[1, 1]));
    check_library("together", &alone.map(of_many).collect::<Vec<_>>(), 0);
}

/// Those whose threads, as many as a block has, load vectors for each other.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_tiles_of_turned_arrays() {
    let programs = programs(|stream| {
        turned_arrays(stream, [1, 64, 64])?;
        turned_arrays(stream, [2, 64, 128])
    });
    check_library("tiles", &programs, 0);
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_16_bit_floats() {
    check_library("narrow", &programs(narrow_floats), 0);
}

/// Those of random numbers, where a variance of normal f64 is more than a thread of 1024 has registers for.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_random_numbers() {
    check_library("random", &programs(random_numbers), 64);
}

/// Those of softmax, norms, losses and their gradients.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_norms() {
    check_library("norms", &programs(norms), 0);
}

/// Rows in shared memory, and, for GPUs that do not copy there, in loops.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_rows_in_shared_memory() {
    let programs = with_clusters(false, || programs(rows_in_shared_memory));
    let both: Vec<_> = programs
        .iter()
        .flat_map(|program| [program.clone(), program.clone()])
        .collect();
    check_library("stashed", &both, 0);
}

/// Rows that a cluster's blocks share.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_rows_of_clusters() {
    check_library("clusters", &programs(long_rows), 64);
}

/// The longest of those, and the same where a block is each of several in rounds.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_longest_rows_of_clusters() {
    let mut all = programs(longest_rows);
    all.extend(with_clusters(false, || programs(longest_rows)));
    check_library("longest", &all, 64);
}

/// Rows side by side in registers, where places of 64 bits beside what is read late are more than a thread of 1024 has registers for.
#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn ptxas_takes_rows_side_by_side() {
    check_library("across", &programs(held_across), 64);
}

/// The kernels of these programs with the library's own functions are sound, and have no more than
/// so many bytes of a thread beside its registers.
fn check_library(name: &str, programs: &[Program], most: u32) {
    assert!(programs.len() > 10, "{name}: {}", programs.len());
    let ptxas = ptxas();
    let folder = env::temp_dir().join(format!("warpsmith-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    for (number, program) in programs.iter().enumerate() {
        let text = |function: &&'static DeviceFnInfo| KERNELS.text(function.name, "sm_75").expect("its text");
        let texts: Vec<String> = program.functions.iter().map(text).collect();
        let has_clusters = program.reduce.as_ref().is_some_and(|reduce| reduce.blocks_log2 > 0);
        let (architecture, capability) = ARCHITECTURES[if has_clusters { 1 } else { number % 2 }];
        let text = kernel(program, &texts, capability).expect("a kernel");
        let Some(ptxas) = &ptxas else { continue };
        let said = assemble(ptxas, &folder.join(format!("{number}.ptx")), architecture, &text);
        let frame = said.split_once(" bytes stack frame").expect("what it says").0;
        let frame: u32 = frame.rsplit(' ').next().unwrap_or_default().parse().expect("a number");
        if env::var_os("WARPSMITH_SHOW_PTXAS").is_some() {
            println!("{:?} {said}", program.reduce);
        }
        // What is called has a frame of its own.
        assert!(frame <= most || text.contains("call.uni"), "{program:?}: {said}");
    }
    fs::remove_dir_all(&folder).expect("the folder");
}
