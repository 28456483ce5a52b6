// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that are wrong, each with its corrected form: the checks find every wrong one, by both lines, and say nothing of
//! the others.
//!
//! A kernel is a function `name::<RIGHT>`; where it goes wrong the comments `name: first` and `name: second` mark
//! the lines of the two accesses, the second one alone where there is one: where nobody has written what is read, or a wait
//! is missing.

mod blocks;
mod bulk;
mod clusters;
pub mod corpus;
mod global;
mod pipelines;
mod products;
mod rules;
mod shared;
mod warps;

use cuda_sim::{Checks, Error, Fault, LaunchConfig, Options, launch_with};
use cuda_std::prelude::*;

/// The elements of the memory that each kernel has.
const LEN: usize = 4096;

/// For races alone.
const RACES: Checks = Checks {
    races: true,
    ..Checks::NONE
};

/// Runs a kernel on zeros.
fn run(
    (grid, block, cooperative): (u32, u32, bool),
    checks: Checks,
    kernel: impl Fn(SliceMut<'_, u32>) + Sync,
) -> Option<Fault> {
    let options = Options {
        cooperative,
        checks,
        ..Options::default()
    };
    run_with((grid, block), options, kernel)
}

/// The same, with other options.
fn run_with(
    (grid, block): (u32, u32),
    options: Options<'_>,
    kernel: impl Fn(SliceMut<'_, u32>) + Sync,
) -> Option<Fault> {
    let mut memory = vec![0_u32; LEN];
    let at = memory.as_mut_ptr().expose_provenance();
    let config = LaunchConfig {
        dynamic_shared: 1024,
        ..LaunchConfig::new(grid, block)
    };
    // SAFETY: the elements of `memory`, which nothing else uses before the launch is over.
    let body = || kernel(unsafe { SliceMut::from_raw_parts(std::ptr::with_exposed_provenance_mut(at), LEN) });
    match launch_with("kernel", &config, options, &body) {
        Ok(()) => None,
        Err(Error::Fault(fault)) => Some(fault),
        Err(error) => panic!("{error}"),
    }
}

/// The number of the line of `source` that is marked so.
fn line(source: &str, mark: &str) -> u32 {
    marked(source, mark).unwrap_or_else(|| panic!("no line is marked `{mark}`"))
}

/// As [`line`], if there is one.
fn marked(source: &str, mark: &str) -> Option<u32> {
    let found = source.lines().position(|line| line.ends_with(&format!("// {mark}")))?;
    Some(found as u32 + 1)
}

/// Runs both forms of a kernel, the corrected one with all checks; `wanted` is how the other's fault begins.
fn try_both((file, source): (&str, &str), name: &str, wanted: &str, launch: impl Fn(bool, Checks) -> Option<Fault>) {
    if let Some(fault) = launch(true, Checks::ALL) {
        panic!("`{name}`, corrected: {fault}");
    }
    let races = wanted.starts_with("data race");
    let fault = launch(false, Checks::ALL);
    let fault = fault.unwrap_or_else(|| panic!("`{name}`: nothing was found"));
    assert!(fault.message.starts_with(wanted), "`{name}`: {fault}");
    let at = fault.location.as_ref().expect("the fault has a place");
    assert!(at.file.ends_with(file), "`{name}`: {fault}");
    let second = line(source, &format!("{name}: second"));
    let Some(first) = marked(source, &format!("{name}: first")) else {
        assert!(!races, "`{name}` marks no line as its first");
        return assert_eq!(at.line, second, "`{name}`: {fault}");
    };
    // Which of two accesses that race comes first is the order that threads happen to run in.
    let other = if at.line == second { first } else { second };
    assert!(at.line == second || races && at.line == first, "`{name}`: {fault}");
    assert!(fault.message.contains(&format!("{file}:{other}:")), "`{name}`: {fault}");
}

/// A test for each kernel of a module `kernels`: the extents of grid and block, and how the fault begins.
macro_rules! cases {
    ($($name:ident($grid:literal, $block:literal), $wanted:literal;)*) => {
        $(#[test]
        fn $name() {
            crate::checks::try_both(kernels::SOURCE, stringify!($name), $wanted, |right, checks| match right {
                true => crate::checks::run(($grid, $block, false), checks, kernels::$name::<true>),
                false => crate::checks::run(($grid, $block, false), checks, kernels::$name::<false>),
            });
        })*
    };
}
pub(crate) use cases;
