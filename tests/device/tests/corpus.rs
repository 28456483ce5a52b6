// SPDX-License-Identifier: MIT OR Apache-2.0
//! What compute-sanitizer's racecheck says, on a GPU, of the kernels that the checks of the simulated GPU are tried with.
//!
//! ```text
//! WARPSMITH_DEVICE=cuda:0 device-tests-corpus racecheck --exact --ignored --nocapture
//! ```
//!
//! launches each form of each kernel in a process of its own, under `compute-sanitizer`, and prints what that has found. GPU:
//! compute 9.0, for barriers in shared memory.

use std::env;
use std::process::Command;

use cuda_std::SliceMut;
use cuda_std::launch::{Kernel, SafeKernel};
use cuda_std::tma::{Swizzle, TensorMap, TensorMapMut};
use device_tests::{device, upload, zeros};
use warpsmith::{Device, LaunchConfig, Result};

/// What names the kernel that [`one_launch`] launches, and its form: `missing_barrier false`.
const VARIABLE: &str = "WARPSMITH_CORPUS";

/// A kernel, and how what the simulated GPU finds of its wrong form begins.
struct Case {
    name: &'static str,
    found: &'static str,
    launch: fn(&Device, bool) -> Result<()>,
}

impl Case {
    /// Whether it is a race between threads that the wrong form has: what racecheck looks for.
    fn is_race(&self) -> bool {
        self.found.starts_with("data race")
    }
}

fn config(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig {
        dynamic_shared: 1024,
        ..LaunchConfig::new(grid, block)
    }
}

fn launch_output<K>(device: &Device, grid: u32, block: u32) -> Result<()>
where
    K: SafeKernel<Params = (SliceMut<'static, u32>,)>,
{
    let mut out = zeros::<u32>(device, 4096);
    let stream = device.default_stream();
    stream.launch::<K>(&config(grid, block), (&mut out,))?;
    stream.synchronize()
}

fn launch_copy<K>(device: &Device, grid: u32, block: u32) -> Result<()>
where
    K: SafeKernel<Params = (&'static [u32], SliceMut<'static, u32>)>,
{
    let x = upload(device, &[5_u32; 64]);
    let mut out = zeros::<u32>(device, 4096);
    let stream = device.default_stream();
    stream.launch::<K>(&config(grid, block), (&x, &mut out))?;
    stream.synchronize()
}

fn launch_boxes<K>(device: &Device, grid: u32, block: u32) -> Result<()>
where
    K: Kernel<
        Params = (
            TensorMap<'static, u32>,
            TensorMapMut<'static, u32>,
            SliceMut<'static, u32>,
        ),
    >,
{
    let x = upload(device, &[5_u32; 32]);
    let (mut y, mut out) = (zeros::<u32>(device, 32), zeros::<u32>(device, 4096));
    let stream = device.default_stream();
    let from = x.tensor_map(&[32], Swizzle::None)?;
    let mut to = y.tensor_map_mut(&[32], Swizzle::None)?;
    // SAFETY: the boxes are of 32 elements, and there is room for one.
    unsafe { stream.launch_unchecked::<K>(&config(grid, block), (&from, &mut to, &mut out)) }?;
    stream.synchronize()
}

/// The cases of a module `kernels`, by a function `launch`.
macro_rules! cases {
    ($($name:ident($grid:literal, $block:literal), $found:literal;)*) => {
        pub const CASES: &[crate::Case] = &[$(crate::Case {
            name: stringify!($name),
            found: $found,
            launch: |device, is_right| match is_right {
                true => launch::<kernels::$name<true>>(device, $grid, $block),
                false => launch::<kernels::$name<false>>(device, $grid, $block),
            },
        }),*];
    };
}
use cases;

mod shared {
    use crate::launch_output as launch;
    use device_test_kernels::corpus::shared as kernels;

    device_test_kernels::corpus_shared! { crate::cases }
}

mod warps {
    use crate::launch_output as launch;
    use device_test_kernels::corpus::warps as kernels;

    device_test_kernels::corpus_warps! { crate::cases }
}

mod pipelines {
    use crate::launch_output as launch;
    use device_test_kernels::corpus::pipelines as kernels;

    device_test_kernels::corpus_pipelines! { crate::cases }
}

mod products {
    use crate::launch_output as launch;
    use device_test_kernels::corpus::products as kernels;

    device_test_kernels::corpus_products! { crate::cases }
}

mod boxes {
    use crate::launch_boxes as launch;
    use device_test_kernels::corpus::boxes as kernels;

    device_test_kernels::corpus_boxes! { crate::cases }
}

mod copies {
    use crate::launch_copy as launch;
    use device_test_kernels::corpus::copies as kernels;

    device_test_kernels::corpus_copies! { crate::cases }
}

fn all() -> impl Iterator<Item = &'static Case> {
    let groups = [
        shared::CASES,
        warps::CASES,
        pipelines::CASES,
        copies::CASES,
        boxes::CASES,
        products::CASES,
    ];
    groups.into_iter().flatten()
}

/// The device, if it runs all of the kernels.
fn device_with_kernels() -> Option<Device> {
    let device = device();
    let runs_all = device.is_simulator() || device.properties().compute_capability == Some((9, 0));
    runs_all.then_some(device)
}

#[test]
fn corrected_forms_end() {
    let Some(device) = device_with_kernels() else { return };
    for case in all() {
        (case.launch)(&device, true).unwrap_or_else(|error| panic!("`{}`: {error}", case.name));
    }
}

/// Launches the form that the environment names.
#[test]
#[ignore = "for compute-sanitizer, which `racecheck` runs"]
fn one_launch() {
    let wanted = env::var(VARIABLE).expect("the environment names a form");
    let device = device_with_kernels().expect("a GPU of compute 9.0");
    let form = all().find_map(|case| Some((case, wanted.strip_prefix(case.name)?.strip_prefix(' ')?)));
    let (case, is_right) = form.unwrap_or_else(|| panic!("no form is named {wanted:?}"));
    (case.launch)(&device, is_right == "true").unwrap();
}

/// How many hazards racecheck has found of a form. It is told to stop after a minute: a wrong kernel may wait for ever.
fn hazards(case: &Case, is_right: bool) -> u32 {
    let mut tool = Command::new("timeout");
    tool.args([
        "60",
        "compute-sanitizer",
        "--tool",
        "racecheck",
        "--report-api-errors",
        "no",
    ]);
    tool.arg(env::current_exe().unwrap());
    tool.args(["one_launch", "--exact", "--ignored"]);
    tool.env(VARIABLE, format!("{} {is_right}", case.name));
    let output = tool.output().expect("`timeout` and `compute-sanitizer` can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    displayed(&text).unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("`{}`, {is_right}: {}\n{text}\n{errors}", case.name, output.status)
    })
}

/// The number of hazards in what racecheck says; `None` where it does not say.
fn displayed(text: &str) -> Option<u32> {
    let (_, summary) = text.split_once("RACECHECK SUMMARY: ")?;
    summary.split_whitespace().next()?.parse().ok()
}

#[test]
fn hazards_are_read_from_the_summary() {
    let text =
        "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 12 hazards displayed (12 errors, 0 warnings)\n";
    assert_eq!(displayed(text), Some(12));
    assert_eq!(displayed("========= COMPUTE-SANITIZER\n"), None);
}

/// Racecheck finds nothing in a corrected form. Of the wrong ones it is said which it finds: those that race between threads are
/// what it looks for.
#[test]
#[ignore = "wants a GPU of compute 9.0 and compute-sanitizer"]
fn racecheck() {
    assert!(!device().is_simulator(), "racecheck looks at kernels on a GPU");
    let (mut seen, mut races, mut false_alarms) = (0, 0, Vec::new());
    for case in all() {
        let (wrong, right) = (hazards(case, false), hazards(case, true));
        println!(
            "{}: {wrong} hazards, corrected {right}; simulated: {}",
            case.name, case.found
        );
        if case.is_race() {
            races += 1;
            seen += u32::from(wrong > 0);
        }
        if right > 0 {
            false_alarms.push(case.name);
        }
    }
    println!("racecheck finds {seen} of {races} races");
    assert!(seen > 0, "racecheck finds none of the races");
    assert_eq!(
        false_alarms,
        Vec::<&str>::new(),
        "racecheck finds something in corrected forms"
    );
}
