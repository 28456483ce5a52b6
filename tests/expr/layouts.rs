// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions of operands that lie in any way.

use super::*;

#[test]
fn views_of_any_layout_and_broadcasts() {
    let (one, two) = (layout_base::<f32>(7), layout_base::<f32>(8));
    let device = device();
    for ((what, a), (_, b)) in layouts(&one).into_iter().zip(layouts(&two)) {
        let (a, b) = (a.to_owned(), b);
        let x = DeviceArray::from_ndarray(device.default_stream(), &a).unwrap();
        let y = DeviceArray::from_ndarray(device.default_stream(), &b).unwrap();
        check(&(&x * &y, x.mul(&y).unwrap()), what);
    }
    let base = upload(&one);
    let views: Vec<_> = [
        base.slice(s![.., .., ..;2, ..]).unwrap(),
        base.slice(s![..;-1, .., ..;2, ..;-1]).unwrap(),
        base.slice(s![.., .., 1..4, ..]).unwrap(),
    ]
    .into();
    for view in &views {
        let copy = view.to_array().unwrap();
        for other in [
            base.slice(s![0..1, .., 0..1, ..]).unwrap(),
            base.slice(s![.., 1..2, 0..1, 2..3]).unwrap(),
            base.slice(s![2..3, 1..2, 3..4, 2..3]).unwrap(),
        ] {
            let wanted = copy.sub(&other.to_array().unwrap()).unwrap();
            check(&(view.expr() - &other, wanted), "views");
        }
    }
}

/// Tiles of operands that lie across the others: whole tiles, one and several, in batches, parts of larger arrays, more operands than have
/// tiles, other types of four bytes, and the result in place of an operand that lies along.
#[test]
fn tiles_of_transposed_operands() {
    for [many, rows, columns] in [[1, 64, 64], [1, 192, 128], [3, 64, 128], [2, 60, 64], [1, 64, 65]] {
        let array = |shape: [usize; 3], seed| {
            let elements = random::<f32>(shape.iter().product(), seed);
            upload(&Array3::from_shape_vec(shape, elements).unwrap())
        };
        let across = |array: &DeviceArray<f32, Ix3>| array.view().permuted_axes([0, 2, 1]).unwrap().to_array().unwrap();
        let turned = [0, 2, 1];
        let what = format!("{many} × {rows} × {columns}");
        let x = array([many, rows, columns], 1);
        let others = [2, 3, 4, 5].map(|seed| array([many, columns, rows], seed));
        let views = others
            .each_ref()
            .map(|other| other.view().permuted_axes(turned).unwrap());
        let copies = others.each_ref().map(across);
        check(&(&x + &views[0], x.add(&copies[0]).unwrap()), &what);
        let of_all = (x.expr() * &views[0] - &views[1]) * (views[2].expr() + &views[3]);
        let wanted = x.mul(&copies[0]).unwrap().sub(&copies[1]).unwrap();
        let wanted = wanted.mul(&copies[2].add(&copies[3]).unwrap()).unwrap();
        check(&(of_all, wanted), &format!("{what}, four operands"));

        // Parts of larger arrays: of whole vectors, and not.
        let wide = array([many, columns + 1, rows + 4], 6);
        for begin in [4, 1] {
            let part = wide.slice(s![.., 1.., begin..begin + rows]).unwrap();
            let part = part.permuted_axes(turned).unwrap();
            let wanted = x.sub(&part.to_array().unwrap()).unwrap();
            check(&(x.expr() - &part, wanted), &format!("{what}, from {begin}"));
        }

        let integers = Array3::from_shape_vec([many, columns, rows], random::<i32>(many * columns * rows, 7)).unwrap();
        let integers = upload(&integers);
        let view = integers.view().permuted_axes(turned).unwrap();
        let copy = view.to_array().unwrap();
        check(
            &(view.expr() * 3 + &copy, copy.mul_scalar(3).unwrap().add(&copy).unwrap()),
            &format!("{what}, i32"),
        );

        let mut in_place = x.try_clone().unwrap();
        in_place.update(|x| x * 0.5 + &views[0]).unwrap();
        let wanted = x.mul_scalar(0.5).unwrap().add(&copies[0]).unwrap();
        assert_same(&elements(&in_place), &elements(&wanted), &format!("{what}, in place"));
    }
}

/// Rows and columns of all small sizes, of operands that lie along them, across them, and repeated.
#[test]
fn every_small_size() {
    for rows in [1, 2, 3, 31, 33, 100] {
        for columns in [1, 2, 3, 4, 5, 7, 8, 63, 64, 130] {
            let small = |seed| {
                random::<i32>(rows * columns, seed)
                    .into_iter()
                    .map(|x| x >> 8)
                    .collect()
            };
            let (a, b): (Vec<i32>, Vec<i32>) = (small(9), small(10));
            let a = Array2::from_shape_vec((rows, columns), a).unwrap();
            let b = Array2::from_shape_vec((columns, rows), b).unwrap();
            let (row, column) = (a.row(0).to_owned(), a.column(0).to_owned().insert_axis(Axis(1)));
            let wanted = (&a + &b.t()) * 3 + &row - &column;
            let (x, y, r, c) = (upload(&a), upload(&b), upload(&row), upload(&column));
            let y = y.view().reversed_axes();
            let got = ((&x + &y) * 3 + &r - &c).eval().unwrap();
            assert_eq!(got.to_ndarray().unwrap(), wanted, "{rows} by {columns}");
        }
    }
}

#[test]
fn every_length_of_small_elements() {
    for len in (0..70).chain([255, 256, 257, 4095, 4096, 4097, 70_001]) {
        let (a, b) = (upload_vec(&random::<u8>(len, 11)), upload_vec(&random::<u8>(len, 12)));
        check(&(&a + &b, a.add(&b).unwrap()), &format!("{len} bytes"));
        if len > 3 {
            let (a, b) = (a.slice(s![1..]).unwrap(), b.slice(s![..-1]).unwrap());
            let wanted = a.to_array().unwrap().add(&b.to_array().unwrap()).unwrap();
            check(&(a.expr() + &b, wanted), &format!("{len} bytes, from the second"));
        }
    }
}
