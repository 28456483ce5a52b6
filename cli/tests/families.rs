// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reductions along axes, scans, products, histograms, transposition and the options of pictures.

use crate::common::Workplace;
use ndarray::{Array, Array1, Array2, Array3, Axis, ShapeBuilder, array};

fn numbers() -> Array3<i32> {
    Array::from_shape_fn((3, 50, 7), |(i, j, k)| (i * 31 + j * 17 + k * 5) as i32 % 23 - 11)
}

#[test]
fn reductions_along_an_axis() {
    let place = Workplace::new();
    let x = numbers();
    place.save("x.npy", &x);
    for axis in 0..3 {
        let text = axis.to_string();
        let run = |op: &str| place.succeed(&["reduce", op, "x.npy", "--axis", &text, "-o", "out.npy"]);
        run("sum");
        let sum = x.mapv(i64::from).sum_axis(Axis(axis));
        assert_eq!(place.load::<i64>("out.npy"), sum.into_dyn());
        run("max");
        let max = x.fold_axis(Axis(axis), i32::MIN, |&a, &b| a.max(b));
        assert_eq!(place.load::<i32>("out.npy"), max.into_dyn());
        run("argmin");
        let argmin = x.map_axis(Axis(axis), |lane| {
            let least = *lane.iter().min().unwrap();
            lane.iter().position(|&x| x == least).unwrap() as u64
        });
        assert_eq!(place.load::<u64>("out.npy"), argmin.into_dyn());
        run("any");
        let any = x.map_axis(Axis(axis), |lane| lane.iter().any(|&x| x != 0));
        assert_eq!(place.load::<bool>("out.npy"), any.into_dyn());
        run("mean");
        let mean = x.mapv(f64::from).mean_axis(Axis(axis)).unwrap();
        let errors = &place.load::<f64>("out.npy") - &mean;
        assert!(errors.iter().all(|error| error.abs() < 1e-13));
    }
    assert_eq!(place.succeed(&["reduce", "all", "x.npy"]), "false\n");
    place.succeed(&["reduce", "sum", "x.npy", "-o", "out.npy"]);
    let sum = place.load::<i64>("out.npy").into_raw_vec_and_offset().0;
    assert_eq!(sum, [i64::from(x.sum())]);
    place.save("small.npy", &array![1.0, 2.0, 4.0]);
    let variance: f64 = place
        .succeed(&["reduce", "var", "small.npy", "--ddof", "1"])
        .trim()
        .parse()
        .unwrap();
    assert!((variance - 7.0 / 3.0).abs() < 1e-15);
    place.fail(
        &["reduce", "sum", "x.npy", "--axis", "3", "-o", "none.npy"],
        &["x.npy: reduce sum: given axis 3, wanted one of the 3 of shape [3, 50, 7], from -3 to 2"],
    );
    place.fail(
        &["reduce", "var", "small.npy", "--ddof", "3"],
        &["small.npy", "variance"],
    );
}

#[test]
fn axes_count_from_the_end() {
    let place = Workplace::new();
    let x = numbers();
    place.save("x.npy", &x);
    for axis in 0..3 {
        let text = (axis as isize - 3).to_string();
        place.succeed(&["reduce", "sum", "x.npy", "--axis", &text, "-o", "out.npy"]);
        let mut sums = x.mapv(i64::from);
        assert_eq!(place.load::<i64>("out.npy"), sums.sum_axis(Axis(axis)).into_dyn());
        place.succeed(&["scan", "sum", "x.npy", &format!("--axis={text}"), "-o", "out.npy"]);
        sums.accumulate_axis_inplace(Axis(axis), |&before, x| *x += before);
        assert_eq!(place.load::<i64>("out.npy"), sums.into_dyn());
    }
    for axes in ["-1,0,1", "2,-3,-2"] {
        place.succeed(&["transpose", "x.npy", "--axes", axes, "-o", "out.npy"]);
        let wanted = x.view().permuted_axes([2, 0, 1]).into_dyn();
        assert_eq!(place.load::<i32>("out.npy"), wanted, "{axes}");
    }
    let axes = "axis -4, wanted one of the 3 of shape [3, 50, 7], from -3 to 2";
    let fail = |args: &[&str], parts: &[&str]| place.fail(&[args, &["-o", "none.npy"]].concat(), parts);
    fail(
        &["reduce", "max", "x.npy", "--axis", "-4"],
        &["x.npy: reduce max", axes],
    );
    fail(&["scan", "max", "x.npy", "--axis", "-4"], &["x.npy: scan", axes]);
    fail(&["transpose", "x.npy", "--axes", "0,1,-4"], &["x.npy: transpose", axes]);
    fail(
        &["transpose", "x.npy", "--axes", "0,2,-1"],
        &["given axes [0, 2, -1], wanted each"],
    );
    place.save("scalar.npy", &ndarray::arr0(1.0f32));
    fail(
        &["reduce", "max", "scalar.npy", "--axis", "-1"],
        &["axis -1, wanted one of the 0 of shape []"],
    );
}

#[test]
fn results_along_an_axis_are_printed() {
    let place = Workplace::new();
    place.save("x.npy", &array![[1.5f32, 2.0], [3.0, -0.25]]);
    assert_eq!(
        place.succeed(&["reduce", "sum", "x.npy", "--axis", "0"]),
        "[4.5, 1.75]\n"
    );
    assert_eq!(
        place.succeed(&["reduce", "argmax", "x.npy", "--axis", "-1"]),
        "[1, 0]\n"
    );
    let object = place.json(&["reduce", "max", "x.npy", "--axis", "1", "--json"]);
    assert_eq!(object["value"], serde_json::json!([2.0, 3.0]));
    assert_eq!(object["shape"], serde_json::json!([2]));
    let x = numbers();
    place.save("n.npy", &x);
    let text = place.succeed(&["reduce", "max", "n.npy", "--axis", "1"]);
    let max = x.fold_axis(Axis(1), i32::MIN, |&a, &b| a.max(b));
    assert_eq!(text, format!("{max}\n"));
    place.save("long.npy", &Array2::<u32>::ones((2, 9000)));
    let text = place.succeed(&["reduce", "min", "long.npy", "--axis", "0"]);
    assert!(
        text.ends_with("(9000 elements of shape [9000], not all shown: -o OUT.npy writes them, --json prints them)\n")
    );
    let object = place.json(&["reduce", "min", "long.npy", "--axis", "0", "--json"]);
    assert_eq!(object["value"].as_array().unwrap().len(), 9000);
}

#[test]
fn scans() {
    let place = Workplace::new();
    let x = Array1::from_iter((0..9001u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 20));
    place.save("x.npy", &x);
    let mut sum = 0;
    let sums = x.mapv(|x| {
        sum += u64::from(x);
        sum
    });
    for algorithm in ["look-back", "blelloch"] {
        place.succeed(&["scan", "sum", "x.npy", "-o", "out.npy", "--algorithm", algorithm]);
        assert_eq!(place.load::<u64>("out.npy"), sums.clone().into_dyn());
    }
    place.succeed(&["scan", "sum", "x.npy", "-o", "out.npy", "--exclusive"]);
    assert_eq!(place.load::<u64>("out.npy"), (&sums - &x.mapv(u64::from)).into_dyn());
    let x = numbers();
    place.save("x.npy", &x);
    place.succeed(&["scan", "max", "x.npy", "--axis", "1", "-o", "out.npy"]);
    let mut largest = x.clone();
    largest.accumulate_axis_inplace(Axis(1), |&before, x| *x = before.max(*x));
    assert_eq!(place.load::<i32>("out.npy"), largest.into_dyn());
    place.fail(
        &["scan", "sum", "x.npy", "--axis", "9", "-o", "none.npy"],
        &["x.npy: scan: given axis 9"],
    );
}

#[test]
fn products_of_matrices() {
    let place = Workplace::new();
    let a = Array2::from_shape_fn((33, 20), |(i, j)| (i * 3 + j) as i32 % 11 - 5);
    // A file in Fortran order.
    let b = Array2::from_shape_fn((20, 17).f(), |(i, j)| (i + 5 * j) as i32 % 13 - 6);
    place.save("a.npy", &a);
    place.save("b.npy", &b);
    place.succeed(&["matmul", "a.npy", "b.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<i32>("out.npy"), a.dot(&b).into_dyn());
    place.save("v.npy", &b.column(3).to_owned());
    place.succeed(&["matmul", "a.npy", "v.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<i32>("out.npy"), a.dot(&b.column(3)).into_dyn());
    let stack = Array3::from_shape_fn((4, 20, 6), |(i, j, k)| (i + j * k) as i32 % 7);
    place.save("stack.npy", &stack);
    place.save("one.npy", &a.clone().insert_axis(Axis(0)));
    place.succeed(&["matmul", "one.npy", "stack.npy", "-o", "out.npy"]);
    let got = place.load::<i32>("out.npy");
    for (i, matrix) in stack.outer_iter().enumerate() {
        assert_eq!(got.index_axis(Axis(0), i), a.dot(&matrix).into_dyn());
    }
    let fail = |a: &str, b: &str, parts: &[&str]| place.fail(&["matmul", a, b, "-o", "none.npy"], parts);
    fail(
        "b.npy",
        "a.npy",
        &["matmul: given shapes [20, 17] and [33, 20], wanted m × k and k × n"],
    );
    place.save("f.npy", &array![[1.0f32]]);
    fail(
        "a.npy",
        "f.npy",
        &["a.npy is i32 and f.npy is f32, wanted the same element type"],
    );
    place.save("u.npy", &array![[1u8]]);
    fail(
        "u.npy",
        "u.npy",
        &["matmul of u8: wanted f16, f32, f64, i8, i16 or i32"],
    );
}

#[test]
fn products_of_rounded_matrices() {
    let place = Workplace::new();
    // Numbers of few bits, which TF32 does not change.
    let a = Array2::from_shape_fn((9, 20), |(i, j)| (i * 3 + j) as f32 % 11.0 - 5.0);
    place.save("a.npy", &a);
    place.save("b.npy", &a.t().to_owned());
    place.succeed(&["matmul", "a.npy", "b.npy", "-o", "out.npy", "--precision", "tf32"]);
    assert_eq!(place.load::<f32>("out.npy"), a.dot(&a.t()).into_dyn());
    // 8-bit floats have them once they are scaled so that 5 becomes 448: off by a sixteenth each at most.
    place.succeed(&["matmul", "a.npy", "b.npy", "-o", "out.npy", "--precision", "fp8"]);
    let bound = a.mapv(f32::abs).dot(&a.t().mapv(f32::abs)) * (2.0 / 16.0 + 1.0 / 256.0);
    let off = place.load::<f32>("out.npy") - a.dot(&a.t()).into_dyn();
    assert!(
        off.iter().zip(&bound).all(|(off, bound)| off.abs() <= bound + 0.1),
        "{off}"
    );
    place.save("stack.npy", &a.clone().insert_axis(Axis(0)));
    place.save("turned.npy", &a.t().insert_axis(Axis(0)).to_owned());
    place.succeed(&[
        "matmul",
        "stack.npy",
        "turned.npy",
        "-o",
        "out.npy",
        "--precision",
        "tf32",
    ]);
    assert_eq!(
        place.load::<f32>("out.npy"),
        a.dot(&a.t()).insert_axis(Axis(0)).into_dyn()
    );
    place.save("v.npy", &a.row(0).to_owned());
    place.save("i.npy", &array![[1i32]]);
    let fail = |a: &str, b: &str, precision: &str, parts: &[&str]| {
        place.fail(&["matmul", a, b, "-o", "none.npy", "--precision", precision], parts);
    };
    fail(
        "i.npy",
        "i.npy",
        "tf32",
        &["--precision tf32: given i32, wanted matrices of f32"],
    );
    fail(
        "a.npy",
        "v.npy",
        "tf32",
        &["given f32 and a vector, wanted matrices of f32"],
    );
}

#[test]
fn transposition() {
    let place = Workplace::new();
    let x = numbers();
    place.save("x.npy", &x);
    place.succeed(&["transpose", "x.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<i32>("out.npy"), x.t().into_dyn());
    place.succeed(&["transpose", "x.npy", "--axes", "2,0,1", "-o", "out.npy"]);
    assert_eq!(
        place.load::<i32>("out.npy"),
        x.view().permuted_axes([2, 0, 1]).into_dyn()
    );
    place.fail(
        &["transpose", "x.npy", "--axes", "0,0,1", "-o", "none.npy"],
        &["transpose: given axes [0, 0, 1], wanted each of the 3 axes of x.npy once"],
    );
}

#[test]
fn histograms() {
    let place = Workplace::new();
    place.save("x.npy", &array![0.0f32, 0.1, 0.5, 0.5, 0.999, 1.0, 1.5, -1.0, f32::NAN]);
    let text = place.succeed(&["histogram", "x.npy", "--bins", "2", "--range", "0,1", "-o", "out.npy"]);
    assert_eq!(place.load::<u64>("out.npy"), array![2u64, 4].into_dyn());
    assert_eq!(text.lines().count(), 2);
    assert!(
        text.lines().nth(1).unwrap().contains("0.50000            4 █"),
        "{text}"
    );
    let object = place.json(&["histogram", "x.npy", "--bins", "2", "--range=-1,1.5", "--json"]);
    assert_eq!(object["value"]["counts"], serde_json::json!([3, 5]));
    place.succeed(&["histogram", "x.npy", "--bins", "2", "--range", "0,1", "-o", "plot.png"]);
    let plot = image::open(place.path("plot.png")).unwrap();
    assert_eq!((plot.width(), plot.height()), (800, 400));

    let picture = image::RgbImage::from_fn(20, 10, |x, y| image::Rgb([x as u8, y as u8, 255]));
    place.save_picture("in.png", picture);
    place.succeed(&["histogram", "in.png", "--bins", "256", "-o", "out.npy"]);
    let counts = place.load::<u64>("out.npy");
    assert_eq!(counts.shape(), [3, 256]);
    assert_eq!(
        (counts[[0, 19]], counts[[1, 9]], counts[[2, 255]], counts.sum()),
        (10, 20, 200, 600)
    );

    let fail = |args: &[&str], parts: &[&str]| place.fail(&[&["histogram", "x.npy"], args].concat(), parts);
    fail(&["--bins", "4", "--range", "2,1"], &["x.npy", "range"]);
    fail(&["--bins", "4", "--range", "NaN,1"], &["x.npy", "range"]);
    fail(&["--bins", "4"], &["x.npy", "range"]); // NaN among the elements
    fail(
        &["--bins", "4", "-o", "out.txt"],
        &["out.txt: wanted a name that ends in .npy, .npz or .png"],
    );
    place.save("n.npy", &array![1i64]);
    place.fail(
        &["histogram", "n.npy", "--bins", "4"],
        &["histogram of i64: wanted f32"],
    );
    place.write("x.txt", b"1 2 3");
    place.fail(
        &["histogram", "x.txt", "--bins", "4"],
        &["x.txt: is no .npy or .npz file, and no PNG or JPEG picture"],
    );
}

/// What is printed has a row for each bin, or says what the rows stand for.
#[test]
fn histograms_lose_no_bins_unsaid() {
    let place = Workplace::new();
    place.save("x.npy", &Array1::from_iter(0..6400));
    let text = place.succeed(&["histogram", "x.npy", "--bins", "33"]);
    assert_eq!(text.lines().count(), 33, "{text}");
    let text = place.succeed(&["histogram", "x.npy", "--bins", "100"]);
    assert_eq!(text.lines().count(), 51, "{text}");
    assert!(text.ends_with("(100 bins; each row is the sum of 2)\n"), "{text}");
    assert!(text.lines().take(50).all(|line| line.contains(" 128 ")), "{text}");
}

#[test]
fn options_of_pictures() {
    let place = Workplace::new();
    let picture = image::RgbImage::from_fn(9, 7, |x, y| image::Rgb([20 * x as u8, 30 * y as u8, 77]));
    place.save_picture("in.png", picture.clone());
    place.succeed(&["grayscale", "in.png", "-o", "out.png", "--weights", "bt709"]);
    let gray = image::open(place.path("out.png")).unwrap().into_luma8();
    for (x, y, pixel) in picture.enumerate_pixels() {
        let [r, g, b] = pixel.0.map(u32::from);
        assert_eq!(
            u32::from(gray.get_pixel(x, y).0[0]),
            (2126 * r + 7152 * g + 722 * b + 5000) / 10000
        );
    }
    place.succeed(&["blur", "in.png", "-o", "same.png", "--radius", "0"]);
    assert_eq!(image::open(place.path("same.png")).unwrap().into_rgb8(), picture);
    place.succeed(&[
        "blur",
        "in.png",
        "-o",
        "out.png",
        "--radius",
        "3",
        "--border",
        "constant:255",
    ]);
    let blurred = image::open(place.path("out.png")).unwrap().into_rgb8();
    // The corner's window has 4 × 4 pixels of the picture, and 33 beyond it.
    let sum: u32 = (0..4)
        .flat_map(|y| (0..4).map(move |x| (x, y)))
        .map(|(x, y)| u32::from(picture.get_pixel(x, y).0[0]))
        .sum();
    assert_eq!(u32::from(blurred.get_pixel(0, 0).0[0]), (sum + 33 * 255 + 24) / 49);
    place.succeed(&["blur", "in.png", "-o", "out.png", "--sigma", "1.5", "--border", "wrap"]);

    let fail = |args: &[&str], parts: &[&str]| place.fail(&[args, &["in.png", "-o", "none.png"]].concat(), parts);
    fail(&["blur", "--radius", "8"], &["radius", "8"]);
    fail(&["blur", "--sigma", "-1"], &["sigma", "-1"]);
    fail(&["blur", "--sigma", "NaN"], &["sigma", "NaN"]);
    fail(&["grayscale", "--weights", "1,inf,0"], &["weights", "inf"]);
}

#[test]
fn broadcasting_and_narrow_types() {
    let place = Workplace::new();
    place.save("a.npy", &array![[1u8], [200]]);
    place.save("b.npy", &array![10u8, 100]);
    place.succeed(&["add", "a.npy", "b.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<u8>("out.npy"), array![[11u8, 101], [210, 44]].into_dyn());
    place.succeed(&["map", "cast:u16", "b.npy", "-o", "out.npy"]);
    assert_eq!(place.load::<u16>("out.npy"), array![10u16, 100].into_dyn());
}
