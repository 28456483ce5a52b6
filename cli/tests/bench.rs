// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `bench`, on few elements.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::Workplace;
use serde_json::Value;

/// All rows.
const NAMES: [&str; 101] = [
    "copy",
    "add",
    "square",
    "tanh_affine",
    "axpy",
    "reduce_sum",
    "reduce_max",
    "reduce_argmin",
    "scan_inclusive_sum",
    "scan_exclusive_sum",
    "scan_blelloch_sum",
    "grid_sync",
    "histogram_i32",
    "histogram_u8",
    "histogram_u8_equal",
    "transpose",
    "grayscale",
    "blur3x3",
    "blur_gaussian",
    "matmul_f32",
    "matmul_f16",
    "matmul_bf16",
    "matmul_tf32",
    "matmul_fp8",
    "matmul_fp8_fast",
    "matmul_int8",
    "matmul_f16_ampere",
    "matmul_bf16_ampere",
    "matmul_tf32_ampere",
    "matmul_bf16_bias_gelu",
    "matmul_f32_bias_gelu",
    "matmul_grouped_bf16",
    "matvec_f32",
    "matvec_bf16",
    "add_f64",
    "add_i64",
    "add_u8",
    "add_f16",
    "square_f64",
    "square_i64",
    "square_u8",
    "square_f16",
    "reduce_sum_f64",
    "reduce_sum_i64",
    "reduce_sum_i32",
    "reduce_sum_u8",
    "reduce_sum_u16",
    "reduce_sum_f16",
    "reduce_max_f64",
    "reduce_max_i64",
    "reduce_sum_axis_0_u8",
    "reduce_sum_axes_0_2",
    "scan_inclusive_sum_f64",
    "scan_inclusive_sum_i64",
    "scan_inclusive_sum_i32",
    "scan_inclusive_sum_u8",
    "scan_inclusive_sum_f16",
    "scan_exclusive_sum_f64",
    "scan_exclusive_sum_i64",
    "transpose_f64",
    "transpose_i64",
    "transpose_u8",
    "transpose_f16",
    "expr_tanh_affine",
    "expr_chain",
    "expr_tanh_affine_f16",
    "expr_tanh_affine_f16_fast",
    "expr_mixed",
    "expr_rows",
    "expr_transposed",
    "expr_eight",
    "expr_sum_squares",
    "expr_chain_sum",
    "expr_dot",
    "expr_variance",
    "expr_mean_variance",
    "expr_softmax_256",
    "expr_softmax_1024",
    "expr_softmax_4096",
    "expr_softmax_32768",
    "expr_layer_norm_1024",
    "expr_layer_norm_4096",
    "expr_rms_norm_4096",
    "expr_sum_axis_0",
    "max_pool",
    "max_pool_gradient",
    "average_pool",
    "top_k",
    "sort",
    "argsort",
    "embedding_gradient",
    "embedding_gradient_in_order",
    "attention",
    "attention_causal",
    "attention_window",
    "attention_bias",
    "attention_packed",
    "attention_decode",
    "attention_gradients",
    "attention_gradients_bias",
    "attention_bias_gradient",
];

fn names(list: &Value) -> Vec<&str> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

/// Every row, of which the program checks each against the CPU: at a size that no tile divides, and as files.
#[test]
fn every_row_is_right_and_written() {
    let place = Workplace::new();
    let args = [
        "bench",
        "--sizes",
        "5003",
        "--repeats",
        "1",
        "--plot",
        "roof.svg",
        "--json",
        "rows.json",
    ];
    let text = place.succeed(&args);
    let list: Value = serde_json::from_slice(&std::fs::read(place.path("rows.json")).unwrap()).unwrap();
    assert_eq!(names(&list), NAMES);
    let svg = std::fs::read_to_string(place.path("roof.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let labels: Vec<&str> = svg.lines().map(str::trim).collect();
    for name in NAMES {
        assert!(labels.contains(&name), "no {name} in the plot");
        assert!(text.contains(&format!("| {name} ")), "no {name} in {text}");
    }
    for row in list.as_array().unwrap() {
        assert_eq!(row["repeats"], 1);
        let (name, dtype) = (row["name"].as_str().unwrap(), row["dtype"].as_str().unwrap());
        let is_of_rows = ["softmax", "norm"].iter().any(|part| name.contains(part));
        let is_of_networks = ["pool", "top_k", "embedding", "attention"]
            .iter()
            .any(|part| name.contains(part));
        let has_shape = [
            "transpose",
            "grayscale",
            "blur",
            "matmul",
            "matvec",
            "axis",
            "axes",
            "rows",
        ]
        .iter()
        .any(|part| name.contains(part))
            || is_of_rows
            || is_of_networks;
        let is_product = name.starts_with("matmul");
        // A product of 64 × 64, sums over the outer axes of 8 × 64 × 8, 8 × 8 places of 64 channels, rows of 4096 and of 1024, and
        // six positions of six heads of 128.
        let n = if name.starts_with("attention") {
            6 * 6 * 128
        } else if is_product && is_simulated(&text) || name.contains("axes") || is_of_networks {
            4096
        } else if is_of_rows {
            // As many rows of that length as there are, or one of all.
            let columns = name.rsplit('_').next().unwrap().parse().unwrap();
            5003 - 5003 % std::cmp::min(columns, 5003)
        } else if has_shape {
            70 * 70
        } else {
            5003
        };
        assert_eq!((&row["n"], row["shape"].is_array()), (&n.into(), has_shape), "{name}");
        let suffix = name.rsplit('_').next().unwrap();
        let suffix = if is_product {
            name.split('_').nth(1).unwrap()
        } else {
            suffix
        };
        if ["f64", "i64", "u8", "u16", "f16", "bf16", "i32", "f32"].contains(&suffix) {
            assert_eq!(dtype, suffix, "{name}");
        }
        let is_of_arithmetic = is_product || name.starts_with("attention") && name != "attention_decode";
        let throughput = if is_of_arithmetic { "tflop_s" } else { "gb_s" };
        assert!(row[throughput].as_f64().unwrap() > 0.0, "{name}");
    }
}

fn is_simulated(text: &str) -> bool {
    text.lines().next().unwrap().ends_with("(sim)")
}

#[test]
fn sizes_and_rows_are_chosen() {
    let place = Workplace::new();
    let args = [
        "bench",
        "--sizes",
        "4Ki,300",
        "--only",
        "argmin,scan_excl",
        "--repeats",
        "2",
        "--json",
    ];
    let list = place.json(&args);
    for row in list.as_array().unwrap() {
        assert_eq!(row["repeats"], 2);
        assert!(row["ms_min"].as_f64().unwrap() <= row["ms_median"].as_f64().unwrap());
    }
    let rows: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["n"].as_u64().unwrap()))
        .collect();
    // A part of a name chooses every row that has it.
    let names = [
        "reduce_argmin",
        "scan_exclusive_sum",
        "scan_exclusive_sum_f64",
        "scan_exclusive_sum_i64",
    ];
    let wanted: Vec<_> = [4096, 300].iter().flat_map(|&n| names.map(|name| (name, n))).collect();
    assert_eq!(rows, wanted);
    let gray = place.json(&["bench", "--sizes", "1Ki", "--only", "gray", "--repeats", "1", "--json"]);
    assert_eq!(gray[0]["shape"], serde_json::json!([32, 32, 3]));
    let row = &gray[0];
    let gb_s = 4.0 * 1024.0 / row["ms_median"].as_f64().unwrap() / 1e6;
    assert!((row["gb_s"].as_f64().unwrap() / gb_s - 1.0).abs() < 1e-9);
}

#[test]
fn sizes_that_are_none() {
    let place = Workplace::new();
    for size in ["0", "x", "-1", "Ki", "1.5Mi", "17Gi", "99999999999999999999", ""] {
        let output = place.run(&["bench", &format!("--sizes={size}")]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{size}: {message}");
        assert!(
            message.contains("wanted a number of elements from 1"),
            "{size}: {message}"
        );
    }
    let output = place.run(&["bench", "--repeats", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Before any work is done: these sizes would take the simulated GPU hours.
#[test]
fn bad_options_fail_at_once() {
    let place = Workplace::new();
    let fail = |options: &[&str], parts: &[&str]| {
        place.fail(&[&["bench", "--sizes", "16Gi"], options].concat(), parts);
    };
    fail(
        &["--only", "scan,sorting"],
        &["no row has 'sorting'", "copy, add", "transpose_f16"],
    );
    fail(
        &["--plot", "missing/roof.svg"],
        &["missing/roof.svg: cannot be written"],
    );
    fail(&["--plot", "roof.png"], &["roof.png: wanted a name that ends in .svg"]);
    fail(
        &["--json", "missing/rows.json"],
        &["missing/rows.json: cannot be written"],
    );
    fail(&["rows.json"], &["rows.json: is written with --json only"]);
}

/// A Gaussian's window must fit into the picture; the rows beside it are measured and written all the same.
#[test]
fn a_row_that_fails_is_named_and_left_out() {
    let place = Workplace::new();
    let only = ["--only", "grayscale,blur_gaussian,histogram_i32"];
    let args = [&["bench", "--sizes", "16,4Ki", "--repeats", "1"], &only[..]].concat();
    let output = place.run(&[&args[..], &["--plot", "roof.svg", "--json", "rows.json"]].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), 2, "{message}");
    assert!(
        lines[0].starts_with("warpsmith: error: blur_gaussian of 16: "),
        "{message}"
    );
    assert!(lines[0].contains("window"), "{message}");
    assert_eq!(lines[1], "warpsmith: error: rows that failed: blur_gaussian of 16");
    let list: Value = serde_json::from_slice(&std::fs::read(place.path("rows.json")).unwrap()).unwrap();
    // Also of the size at which it succeeds.
    let rest = [
        "histogram_i32",
        "grayscale",
        "histogram_i32",
        "grayscale",
        "blur_gaussian",
    ];
    assert_eq!(names(&list), rest);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("| blur_gaussian ").count(), 1, "{text}");
    assert!(place.path("roof.svg").exists());
}

/// No row is left: an empty list, no plot, and the same status.
#[test]
fn rows_that_all_fail() {
    let place = Workplace::new();
    let args = [
        "bench",
        "--sizes",
        "16",
        "--only",
        "blur_gaussian",
        "--plot",
        "roof.svg",
        "--json",
    ];
    let output = place.run(&args);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"[]\n");
    assert!(!place.path("roof.svg").exists());
}

/// What was measured when the program is killed is in the table and in the file, and in a list that wants its bracket alone.
#[test]
fn a_run_that_is_killed_keeps_its_rows() {
    let place = Workplace::new();
    let options = ["bench", "--sizes", "5003", "--repeats", "1", "--json"];
    let run_until = |args: &[&str], line: &str| {
        let mut child = place.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        while !text.contains(line) {
            assert_ne!(stdout.read_line(&mut text).unwrap(), 0, "no {line} in {text}");
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success(), "it has measured all rows: {text}");
        text
    };
    run_until(&[&options[..], &["rows.json"]].concat(), "| add ");
    let list: Value = serde_json::from_slice(&std::fs::read(place.path("rows.json")).unwrap()).unwrap();
    assert_eq!(names(&list)[..2], NAMES[..2]);

    // A line is whole when the next row comes.
    let text = run_until(&options, "\"add\"");
    let list: Value = serde_json::from_str(&format!("{}]", text.trim_end().trim_end_matches(','))).unwrap();
    assert_eq!(names(&list), NAMES[..2]);
}

#[test]
fn verbose_tells_what_rows_took() {
    let place = Workplace::new();
    let output = place.run(&[
        "bench",
        "--sizes",
        "100",
        "--only",
        "grayscale",
        "--repeats",
        "1",
        "--verbose",
    ]);
    let text = String::from_utf8(output.stderr).unwrap();
    let rows: Vec<&str> = text.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    assert_eq!(rows, ["copy of 100", "grayscale of 100"]);
    assert!(text.lines().all(|line| line.ends_with(" s")), "{text}");
}
