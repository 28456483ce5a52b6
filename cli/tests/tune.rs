// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command `tune`.

use crate::common::Workplace;
use ndarray::Array2;

#[test]
fn the_simulated_gpu_is_not_measured() {
    let place = Workplace::new();
    place.fail(
        &["tune", "matmul", "--device", "sim", "-o", "table.txt"],
        &["simulated GPU", "cuda:0"],
    );
}

#[test]
fn a_table_is_what_products_take() {
    let place = Workplace::new();
    place.succeed(&["tune", "matmul", "--tiny", "-o", "table.txt"]);
    let table = std::fs::read_to_string(place.path("table.txt")).unwrap();
    assert!(table.starts_with("# "), "{table}");

    let x = Array2::from_shape_fn((16, 16), |(i, j)| (i * 5 + j) as f32 % 7.0);
    place.save("x.npy", &x);
    let product = |table: &str| {
        place.write("given.txt", table.as_bytes());
        let mut command = place.command(&["matmul", "x.npy", "x.npy", "-o", "out.npy"]);
        command.env("WARPSMITH_MATMUL_CHOICES", "given.txt").output().unwrap()
    };
    assert!(product(&table).status.success());
    assert_eq!(place.load::<f32>("out.npy"), x.dot(&x).into_dyn());

    let refused = product("9.0 132 half nn 12 12 12 wgmma 256 1\nno entry\n");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("given.txt") && said.contains("line 2"),
        "{said}"
    );
}

#[test]
fn what_there_is_no_time_for_is_named() {
    let place = Workplace::new();
    let table = place.succeed(&["tune", "matmul", "--tiny", "--seconds", "0", "-o", "-"]);
    assert!(table.contains("# not measured: f64 nn 4 5 5"), "{table}");
}
