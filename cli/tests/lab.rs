// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `lab`, on few elements.

use crate::common::Workplace;
use serde_json::Value;

#[test]
fn experiments_are_listed() {
    let place = Workplace::new();
    let listing = place.succeed(&["lab"]);
    assert!(listing.starts_with("cpu-vs-gpu"), "{listing}");
    assert!(listing.lines().all(|line| line.len() > 30), "{listing}");
    assert_eq!(listing.lines().count(), 15);
}

#[test]
fn an_experiment_has_tables_lines_and_a_plot() {
    let place = Workplace::new();
    let text = place.succeed(&[
        "lab",
        "coalescing",
        "--device",
        "sim",
        "--size",
        "256",
        "--plot",
        "plot.svg",
    ]);
    for part in [
        "reads with a stride",
        "| stride",
        " 64 |",
        "lab/kernels/src/coalescing.rs",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let plot = std::fs::read_to_string(place.path("plot.svg")).unwrap();
    assert!(
        plot.contains("coalescing on ") && plot.contains("sectors a request"),
        "{plot}"
    );
}

#[test]
fn all_are_one_object() {
    let place = Workplace::new();
    let text = place.succeed(&["lab", "all", "--device", "sim", "--size", "100", "--json"]);
    let found: Value = serde_json::from_str(&text).unwrap();
    let experiments = found["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), 15);
    for experiment in experiments {
        assert_eq!(experiment["device"], "sim");
        assert!(
            !experiment["tables"][0]["rows"].as_array().unwrap().is_empty(),
            "{experiment}"
        );
    }
}

#[test]
fn what_is_no_experiment_is_refused() {
    let place = Workplace::new();
    place.fail(&["lab", "alchemy"], &["alchemy", "coalescing"]);
    place.fail(&["lab", "all", "--plot", "plot.svg"], &["--plot", "one of them"]);
    place.fail(&["lab", "latency", "--plot", "plot.txt"], &["plot.txt", ".svg or .png"]);
    assert!(!place.path("plot.svg").exists());
}

/// Copies of the simulated GPU take no time worth a picture.
#[test]
fn a_plot_without_numbers_is_refused() {
    let place = Workplace::new();
    let args = [
        "lab",
        "transfers",
        "--device",
        "sim",
        "--size",
        "64",
        "--plot",
        "plot.png",
    ];
    place.fail(&args, &["--plot", "transfers has no numbers to draw"]);
    assert!(!place.path("plot.png").exists());
}
