// SPDX-License-Identifier: MIT OR Apache-2.0
//! What kernels print on the simulated GPU: whole lines.

use std::process::Command;

use cuda_sim::{LaunchConfig, launch};
use cuda_std::io::LINE_BYTES;
use cuda_std::thread;

/// Set for the process whose output the test reads.
const CHILD: &str = "CUDA_STD_TEST_PRINTS";

#[test]
fn a_line_ends() {
    if std::env::var_os(CHILD).is_some() {
        launch("prints", &LaunchConfig::new(8, 32), &|| {
            cuda_std::println!("<{} {}>", thread::block_idx_x(), thread::thread_idx_x());
        })
        .unwrap();
        launch("prints", &LaunchConfig::new(1, 1), &|| {
            cuda_std::println!("{:1$}", 'x', LINE_BYTES + 1);
        })
        .unwrap();
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "print::a_line_ends", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for (block, thread) in (0..8).flat_map(|block| (0..32).map(move |thread| (block, thread))) {
        let wanted = format!("<{block} {thread}>");
        // The harness writes the test's name without an end of line before the first.
        assert_eq!(
            text.lines().filter(|line| line.ends_with(&wanted)).count(),
            1,
            "{wanted}"
        );
    }
    let cut = format!("{:1$}", 'x', LINE_BYTES);
    assert_eq!(
        text.lines().filter(|line| **line == cut).count(),
        1,
        "a long line is cut, and ends"
    );
}
