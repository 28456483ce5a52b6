// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that many threads print stay whole. The test runs itself as a program
//! of its own, whose output it can read.

use std::process::Command;

use cuda_sim::{LaunchConfig, block_idx, launch, print, thread_idx};

const CHILD: &str = "CUDA_SIM_TEST_PRINTS";

#[test]
fn texts_stay_whole() {
    if std::env::var_os(CHILD).is_some() {
        launch("prints", &LaunchConfig::new(50, 20), &|| {
            let (block, thread) = (block_idx().x, thread_idx().x);
            print(&format!("<block {block}\nthread {thread}>\n"));
        })
        .unwrap();
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", "print::texts_stay_whole", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for block in 0..50 {
        for thread in 0..20 {
            let wanted = format!("<block {block}\nthread {thread}>\n");
            assert_eq!(text.matches(&wanted).count(), 1);
        }
    }
}
