// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the checks cost, family by family: the table of docs/benchmarks.md. `WARPSMITH_TEST_FAMILIES`, a list with commas, is
//! of which.

use warpsmith::{Checks, Simulation};

use super::{FAMILIES, Family, in_order, run};

/// Of the processor, so long is measured at the least.
const SECONDS: f64 = 0.5;

#[test]
#[ignore = "it measures, and prints a table"]
fn overheads() {
    let [races, uninitialised] =
        [(true, false), (false, true)].map(|(races, uninitialised)| Checks { races, uninitialised });
    println!("| family | without, ms | races | uninitialised | all |\n|---|--:|--:|--:|--:|");
    let only = std::env::var("WARPSMITH_TEST_FAMILIES").ok();
    let is_wanted = |family: &&Family| {
        let names = only.as_ref().map(|only| only.split(','));
        names.is_none_or(|mut names| names.any(|name| name == family.name))
    };
    for family in FAMILIES.iter().filter(is_wanted) {
        let without = seconds(family, Checks::NONE);
        let times = [races, uninitialised, Checks::ALL].map(|checks| seconds(family, checks) / without);
        let [races, uninitialised, all] = times.map(|times| format!("× {times:.1}"));
        println!(
            "| `{}` | {:.0} | {races} | {uninitialised} | {all} |",
            family.name,
            without * 1e3
        );
    }
}

/// Of the processor, for one way through a family on all of its devices, in order.
fn seconds(family: &Family, checks: Checks) -> f64 {
    let once = || {
        for &tensor_cores in family.devices {
            let simulation = Simulation {
                checks,
                counting: false,
                ..in_order(tensor_cores)
            };
            run(family, simulation, 0);
        }
    };
    once();
    let (start, mut times) = (processor_seconds(), 0);
    while processor_seconds() - start < SECONDS {
        once();
        times += 1;
    }
    (processor_seconds() - start) / f64::from(times)
}

/// What this process has taken, by proc(5)'s `utime`.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    // The program's name, in parentheses, may have blanks.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().nth(11).expect("as many fields");
    ticks.parse::<f64>().expect("a number") / 100.0
}
