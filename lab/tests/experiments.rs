// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each experiment checks its own results; here on few elements, of ragged numbers too, with data races and shared memory that
//! nobody has written as errors.

use warpsmith::{Checks, Device};
use warpsmith_lab::report::{Cell, Report};
use warpsmith_lab::{EXPERIMENTS, Lab, find};

#[test]
fn results_are_right_and_free_of_races() {
    for size in [1, 1000] {
        let lab = Lab::new(&Device::checked_simulator(Checks::ALL), Some(size)).unwrap();
        for experiment in EXPERIMENTS {
            let report = experiment.run(&lab).unwrap();
            for table in &report.tables {
                assert!(!table.rows.is_empty(), "{}: {}", experiment.name, table.title);
                let cells = table.columns.len();
                assert!(table.rows.iter().all(|row| row.len() == cells), "{}", table.title);
            }
            experiment.plot(&report.tables).svg(experiment.name).unwrap();
        }
    }
}

#[test]
fn names_are_found() {
    for experiment in EXPERIMENTS {
        assert_eq!(find(experiment.name).unwrap().sentence, experiment.sentence);
    }
    assert!(find("alchemy").is_none());
}

#[test]
fn the_sources_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for source in EXPERIMENTS.iter().flat_map(|experiment| experiment.sources) {
        assert!(root.join(source).is_file(), "{source}");
    }
}

/// The column of a table of an experiment, of numbers.
fn column(report: &Report, table: usize, name: &str) -> Vec<f64> {
    let table = &report.tables[table];
    let at = table.column(name);
    let at = at.unwrap_or_else(|| panic!("{name} in {:?}", table.columns));
    let number = |row: &Vec<Cell>| match row[at] {
        Cell::Number(number) => number,
        ref other => panic!("{other:?}"),
    };
    table.rows.iter().map(number).collect()
}

fn counted(name: &str, size: usize) -> Report {
    let lab = Lab::new(&Device::counting_simulator(), Some(size)).unwrap();
    find(name).unwrap().run(&lab).unwrap()
}

#[test]
fn strides_take_sectors() {
    let report = counted("coalescing", 1024);
    // A request reads 32 elements a stride apart, another one writes 32 neighbours: or the other way round.
    let wanted = [4.0, 6.0, 10.0, 18.0, 18.0, 18.0, 18.0];
    assert_eq!(column(&report, 0, "sectors a request"), wanted);
    assert_eq!(column(&report, 1, "sectors a request"), wanted);
    // From elements 1, 2, 4 and 31 on, 32 of them lie in five sectors.
    assert_eq!(
        column(&report, 2, "sectors a request"),
        [4.0, 4.5, 4.5, 4.5, 4.0, 4.0, 4.5, 4.0]
    );
    // Two fields of eight: each of 32 is in a sector of its own. The other layout has 4 for 32.
    assert_eq!(column(&report, 3, "sectors a request"), [32.0, 4.0]);
    assert!(
        report.lines[0].contains("at stride 1 a request takes 4.0 sectors"),
        "{:?}",
        report.lines
    );
}

#[test]
fn strides_share_banks() {
    let report = counted("shared-memory", 1024);
    // 32 warps read 8 words in each of two rounds.
    let requests = 32.0 * 16.0;
    let wanted = [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 0.0].map(|more| more * requests);
    assert_eq!(column(&report, 0, "bank conflicts"), wanted);
    let transposes = column(&report, 1, "bank conflicts");
    assert!(transposes[1] > 0.0 && transposes[2] == 0.0, "{transposes:?}");
}

#[test]
fn ways_divide_warps() {
    let report = counted("divergence", 1024);
    assert_eq!(column(&report, 0, "lanes a request"), [32.0, 16.0, 8.0, 4.0]);
    assert_eq!(column(&report, 1, "lanes a request"), [32.0; 4]);
}

#[test]
fn lanes_that_count_one_value_collide() {
    let report = counted("atomics", 1024);
    let collisions = column(&report, 0, "collisions");
    // Of one value, the last four rows: every lane of 32 warps with the first ones, none where one lane adds for all.
    assert!(
        collisions[8] >= 31.0 * 32.0 && collisions[9] >= 31.0 * 32.0,
        "{collisions:?}"
    );
    assert_eq!(collisions[10], 0.0);
    assert!(collisions[0] < collisions[8] / 4.0, "{collisions:?}");
}

#[test]
fn ladders_spare_memory() {
    let report = counted("matmul-ladder", 64 * 64);
    let requests = column(&report, 0, "requests");
    assert!(
        requests[2] < requests[1] / 10.0 && requests[3] < requests[2],
        "{requests:?}"
    );
    let report = counted("reduction-ladder", 1 << 12);
    let conflicts = column(&report, 0, "bank conflicts");
    assert!(conflicts[1] > 0.0 && conflicts[2] == 0.0, "{conflicts:?}");
    let report = counted("scan-ladder", 1 << 12);
    let (conflicts, moved) = (column(&report, 0, "bank conflicts"), column(&report, 0, "bytes moved"));
    assert!(conflicts[2] < conflicts[1] / 4.0, "{conflicts:?}");
    assert!(moved[3] < moved[2], "{moved:?}");
    // Eight kernels read and write 4096 elements, one does so once.
    let report = counted("many-kernels", 1 << 12);
    let line = &report.lines[0];
    assert!(
        line.contains(" move 262144 bytes") && line.contains(" moves 32768,"),
        "{line}"
    );
}
