// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands `devices` and `demo`, and the options that hold for every command.

use std::process::Stdio;

use crate::common::Workplace;
use ndarray::{Array1, array};

#[test]
fn devices_shows_the_simulator_last() {
    let place = Workplace::new();
    let text = place.succeed(&["devices"]);
    assert!(
        text.contains("Warpsmith simulated GPU") && text.contains("warp size"),
        "{text}"
    );
    let devices = place.json(&["devices", "--json"])["devices"].clone();
    let last = devices.as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["id"], &last["warp_size"]), (&"sim".into(), &32.into()));
    assert_eq!(last["max_block"], serde_json::json!([1024, 1024, 64]));
    let one = place.json(&["--json", "devices", "--device", "sim"])["devices"].clone();
    assert_eq!(one.as_array().unwrap().len(), 1);
}

#[test]
fn new_writes_a_project_once() {
    let place = Workplace::new();
    let text = place.succeed(&["new", "my-project"]);
    assert!(text.contains("cd my-project && cargo run && cargo test"), "{text}");
    let manifest = std::fs::read_to_string(place.path("my-project/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-project\""), "{manifest}");
    // This program is no package's, so what it writes depends on the repository.
    assert_eq!(manifest.matches("git = \"https://").count(), 2, "{manifest}");
    place.fail(&["new", "my-project"], &["my-project is there already"]);
    place.fail(&["new", "no-such-folder/x"], &["no-such-folder/x cannot be made"]);
    place.fail(&["new", "1st"], &["`1st` is no name for a project"]);
}

#[test]
fn demo_passes_and_writes_its_pictures() {
    let place = Workplace::new();
    // A length that no tile divides.
    let text = place.succeed(&[
        "demo",
        "--out",
        "made/here",
        "--len",
        "9001",
        "--types",
        "f32,f64,i32,i64,u8,u16,u32,u64",
    ]);
    assert!(!text.contains("WRONG"));
    for kernel in [
        "scalar sub",
        "cast to u64",
        "sigmoid",
        "mean",
        "grayscale RGBA",
        "scan sum, Blelloch",
        "argmax",
        "matmul, transposed",
        "matvec",
        "transpose",
        "histogram",
        "box blur gray",
        "Gaussian blur RGB",
    ] {
        assert!(text.contains(&format!("| {kernel} ")), "no {kernel} in {text}");
    }
    for name in ["gray.png", "blur.png"] {
        assert!(text.contains(&format!("wrote made/here/{name}")));
        let picture = image::open(place.path("made/here").join(name)).unwrap();
        // Every sixth pixel: no more of them than elements.
        assert_eq!((picture.width(), picture.height()), (86, 86));
    }
    assert_eq!(std::fs::read_dir(place.path("made/here")).unwrap().count(), 2);
}

#[test]
fn demo_in_json() {
    let place = Workplace::new();
    let object = place.json(&["demo", "--json", "--len", "1", "--types", "u32"]);
    assert_eq!(object["ok"], true);
    let rows = object["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["kernel"] == "add").unwrap();
    assert_eq!(
        (&row["type"], &row["size"], &row["largest_error"]),
        (&"u32".into(), &"1".into(), &0.0.into())
    );
    assert!(row["time_ms"].as_f64().unwrap() > 0.0 && row["gb_per_s"].as_f64().unwrap() > 0.0);
    assert!(place.path("warpsmith-demo/gray.png").exists());
}

#[test]
fn demo_of_16_bit_floats_is_refused() {
    let place = Workplace::new();
    place.fail(
        &["demo", "--types", "f32,f16"],
        &["demo of f16: wanted f32, f64, i32, i64, u8, u16, u32 or u64"],
    );
}

#[test]
fn json_tells_what_was_done() {
    let place = Workplace::new();
    place.save("x.npy", &array![[1.0f32, 2.0]]);
    let object = place.json(&["add", "x.npy", "1", "-o", "y.npy", "--json"]);
    assert_eq!(object["operation"], "add");
    assert_eq!(object["dtype"], "f32");
    assert_eq!(object["shape"], serde_json::json!([1, 2]));
    assert_eq!(object["output"], "y.npy");
    assert!(
        ["sim"].contains(&object["device"].as_str().unwrap())
            || object["device"].as_str().unwrap().starts_with("cuda:")
    );
    for phase in ["allocation", "copy_in", "kernel", "copy_out"] {
        assert!(object["timings_ms"][phase].is_f64(), "{object}");
    }
}

#[test]
fn verbose_tells_the_times() {
    let place = Workplace::new();
    place.save("x.npy", &array![1.0f32, 2.0]);
    place.save_picture("x.png", image::RgbImage::new(3, 2));
    let commands: [&[&str]; 3] = [
        &["-v", "add", "x.npy", "x.npy", "-o", "y.npy"],
        &["map", "exp", "x.npy", "-o", "y.npy", "--verbose"],
        &["blur", "x.png", "-o", "y.png", "-v"],
    ];
    for args in commands {
        let text = String::from_utf8(place.run(args).stderr).unwrap();
        let phases: Vec<&str> = text.lines().map(|line| line[..20].trim_end()).collect();
        assert_eq!(phases, ["allocation", "copy in", "kernel", "copy out"]);
        assert!(text.lines().all(|line| line.ends_with(" ms")));
    }
    let text = String::from_utf8(place.run(&["reduce", "sum", "x.npy", "-v"]).stderr).unwrap();
    assert!(text.contains("copy in ") && text.contains("kernel and copy out "));
}

/// A reader that goes away early is no error.
#[test]
fn a_closed_pipe_is_no_panic() {
    let place = Workplace::new();
    place.save("x.npy", &Array1::<f32>::ones(10));
    let commands: [&[&str]; 3] = [
        &["devices"],
        &["reduce", "sum", "x.npy"],
        &["bench", "--only", "copy", "--sizes", "100", "--repeats", "1"],
    ];
    for args in commands {
        let mut command = place.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn help_and_version() {
    let place = Workplace::new();
    assert!(place.succeed(&["--version"]).starts_with("warpsmith "));
    let help = place.succeed(&["--help"]);
    for command in [
        "devices",
        "demo",
        "add",
        "sub",
        "mul",
        "div",
        "min",
        "max",
        "map",
        "reduce",
        "scan",
        "matmul",
        "histogram",
        "transpose",
        "grayscale",
        "blur",
        "bench",
    ] {
        assert!(help.contains(&format!("  {command} ")), "{command}");
    }
}
