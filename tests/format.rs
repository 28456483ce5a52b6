// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays and views as text.

use crate::common::*;
use ndarray::{Array1, Array2, Array3, Array4, arr0, array, s};

/// What ndarray writes of as many elements as are shown in full.
#[test]
fn small_arrays_are_written_as_ndarray_does() {
    let x = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 12 + j * 4 + k) as f32 / 4.0);
    let on_device = upload(&x);
    assert_eq!(on_device.to_string(), x.to_string());
    assert_eq!(format!("{on_device:6.1}"), format!("{x:6.1}"));
    let (part, wanted) = (on_device.slice(s![1, ..;-1, 1..]).unwrap(), x.slice(s![1, ..;-1, 1..]));
    assert_eq!(part.to_string(), wanted.to_string());
    let x = Array4::<u8>::zeros((2, 1, 3, 2));
    assert_eq!(upload(&x).to_string(), x.to_string());
    assert_eq!(upload(&arr0(-3i64)).to_string(), "-3");
    for shape in [(0, 3), (3, 0)] {
        let none = Array2::<u16>::zeros(shape);
        assert_eq!(
            upload(&none).to_string(),
            if shape.0 == 0 { "[]" } else { "[[],\n [],\n []]" }
        );
    }
}

#[test]
fn large_arrays_are_written_shortened() {
    let x = upload(&Array1::from_iter(0..1000));
    assert!(x.to_string().contains(", 500, 501, "));
    let x = upload(&Array1::from_iter(0..1001));
    assert_eq!(x.to_string(), "[0, 1, 2, ..., 998, 999, 1000]");
    let x = upload(&Array2::from_shape_fn((300, 7), |(i, j)| i * 10 + j));
    let wanted = "[[0, 1, 2, ..., 4, 5, 6],\n [10, 11, 12, ..., 14, 15, 16],\n [20, 21, 22, ..., 24, 25, 26],\n ...,\n \
                  [2970, 2971, 2972, ..., 2974, 2975, 2976],\n [2980, 2981, 2982, ..., 2984, 2985, 2986],\n \
                  [2990, 2991, 2992, ..., 2994, 2995, 2996]]";
    assert_eq!(x.to_string(), wanted);
    let rows = x.slice(s![..;-1, ..2]).unwrap();
    let wanted = "[[2990, 2991],\n [2980, 2981],\n [2970, 2971],\n ...,\n [20, 21],\n [10, 11],\n [0, 1]]";
    assert_eq!(
        upload(&array![1u8]).view().broadcast([2, 1]).unwrap().to_string(),
        "[[1],\n [1]]"
    );
    // 600 elements are few.
    assert!(rows.to_string().lines().count() == 300);
    let rows = x.slice(s![..;-1, ..4]).unwrap();
    let shown = rows.slice(s![.., ..2]).unwrap().broadcast((2, 300, 2)).unwrap();
    let shown = shown.to_string();
    assert_eq!(shown, format!("[{0},\n\n {0}]", wanted.replace("\n", "\n ")));
}

#[test]
fn an_expression_says_that_it_is_not_computed() {
    let (x, longer) = (upload(&array![1.0f32, 2.0]), upload(&array![1.0f32, 2.0, 3.0]));
    let text = format!("{:?}", &x + &x);
    assert_eq!(text, "Expr(f32, shape=[2], not computed: see eval)");
    let text = format!("{:?}", &x + &longer);
    assert!(text.starts_with("Expr(f32, ") && text.contains("[3]"), "{text}");
}
