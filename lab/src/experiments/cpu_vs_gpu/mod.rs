// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first question: how much faster than my CPU?

mod operations;
mod race;

use anyhow::{Context, Result};

use crate::lab::{Lab, note_of_host};
use crate::report::{Report, Table};
use operations::OPERATIONS;
use race::{Race, Seconds};

/// Of each operation the sizes that were run, with their times.
type Found = Vec<(&'static str, Vec<(usize, Seconds)>)>;

pub fn run(lab: &Lab) -> Result<Report> {
    let most = lab.size(100_000_000, 10_000);
    let sizes: Vec<usize> = (3..=8).map(|power| 10usize.pow(power)).filter(|&n| n <= most).collect();
    // Fewer elements than that are asked for by tests.
    let sizes = if sizes.is_empty() { vec![most] } else { sizes };
    let mut found: Found = Vec::new();
    for operation in &OPERATIONS {
        let mut race = Race::new(lab, operation.growth);
        let mut times = Vec::new();
        for &n in &sizes {
            if race.goes_on() {
                let seconds = (operation.run)(&mut race, n).with_context(|| format!("{} of {n}", operation.name))?;
                times.push((n, seconds));
            }
        }
        found.push((operation.name, times));
    }
    let cores = rayon::current_num_threads();
    let mut lines = explain(&found, cores);
    note_of_host(&mut lines);
    Ok(Report {
        tables: vec![table(&found, cores)],
        lines,
    })
}

/// How many times as fast as the first the second is.
fn ratio(first: Option<f64>, second: Option<f64>) -> Option<f64> {
    Some(first? / second?)
}

fn table(found: &Found, cores: usize) -> Table {
    let milliseconds = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
    let row = |name: &'static str, (n, it): &(usize, Seconds)| {
        vec![
            name.into(),
            (*n).into(),
            milliseconds(it.one).into(),
            milliseconds(it.all).into(),
            milliseconds(it.copied).into(),
            milliseconds(it.gpu).into(),
            ratio(it.one, it.copied).into(),
            ratio(it.all, it.copied).into(),
            ratio(it.all, it.gpu).into(),
        ]
    };
    Table {
        title: format!("f32, on this machine's {cores} cores and on the GPU, with its copies and without"),
        columns: [
            "operation",
            "elements",
            "one core, ms",
            "all cores, ms",
            "GPU with copies, ms",
            "GPU, ms",
            "with copies × one core",
            "with copies × all cores",
            "× all cores",
        ]
        .map(String::from)
        .to_vec(),
        rows: found
            .iter()
            .flat_map(|(name, times)| times.iter().map(|it| row(name, it)))
            .collect(),
    }
}

fn explain(found: &Found, cores: usize) -> Vec<String> {
    let copied = |it: &Seconds| ratio(it.all, it.copied);
    if found
        .iter()
        .all(|(_, times)| times.iter().all(|(_, it)| it.copied.is_none()))
    {
        return vec![format!(
            "The results of {cores} cores and of the simulated GPU agree. It runs on those cores itself: how much faster a GPU is, only a GPU says."
        )];
    }
    let crossover = |(name, times): &(&'static str, Vec<(usize, Seconds)>)| {
        // From there on for good.
        let slower = times
            .iter()
            .rposition(|(_, it)| copied(it).is_none_or(|gain| gain < 1.0));
        match times.get(slower.map_or(0, |i| i + 1)) {
            Some((n, _)) => format!("{name} from {n}"),
            None => format!("{name} from none of these sizes"),
        }
    };
    let last = |gain: &dyn Fn(&Seconds) -> Option<f64>| {
        let one = |(name, times): &(&'static str, Vec<(usize, Seconds)>)| {
            let (n, it) = times.last()?;
            Some(format!("{name} of {n} {:.1}", gain(it)?))
        };
        found.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    vec![
        format!(
            "With copies in and out, the GPU is faster than {cores} cores: {}.",
            found.iter().map(crossover).collect::<Vec<_>>().join("; ")
        ),
        format!(
            "At the largest sizes it is, with copies, so many times as fast as {cores} cores: {}. What does little with each byte that is copied waits for the bus.",
            last(&copied)
        ),
        format!(
            "On data that are on the GPU already: {}. So data should go there once, and stay.",
            last(&|it: &Seconds| ratio(it.all, it.gpu))
        ),
    ]
}
