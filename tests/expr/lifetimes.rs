// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays that are replaced, moved and dropped while expressions of them are yet to be dropped: statements that are to compile, and
//! destructors that are to read nothing. That none is computed by then is tests/compile_fail's.

use ndarray::{Array1, Array2, Axis, Ix1, array, s};
use warpsmith::expr::{self, AnyExpr, Expr, Formula};
use warpsmith::ops::Sum;
use warpsmith::{DeviceArray, Result};

use crate::common::*;

type Row = DeviceArray<f32, Ix1>;

fn row() -> Row {
    upload(&array![1.0, -2.0, 3.0])
}

#[test]
fn an_array_becomes_what_is_computed_of_it() -> Result<()> {
    let mut x = row();
    x = (x.expr().square() * 3.0 + &x).eval()?;
    assert_eq!(x.to_ndarray()?, array![4.0, 10.0, 30.0]);
    x = (&x * 0.5 - 1.0).eval()?;
    x = (-x.view().expr()).eval()?;
    assert_eq!(x.to_ndarray()?, array![-1.0, -4.0, -14.0]);
    x = (x.slice(s![1..])?.expr() - x.slice(s![..-1])?.expr()).eval()?;
    assert_eq!(x.to_ndarray()?, array![-3.0, -10.0]);
    x = x
        .expr()
        .greater(-5.0)
        .select(&x, 0.0)
        .eval_on(device().default_stream())?;
    assert_eq!(x.to_ndarray()?, array![-3.0, 0.0]);
    x = expr::map2(&x, &x, |a, b| a * b).eval()?;
    assert_eq!(x.to_ndarray()?, array![9.0, 0.0]);
    Ok(())
}

#[test]
fn arrays_become_what_is_computed_of_all() -> Result<()> {
    let (mut x, mut y) = (row(), row());
    for _ in 0..3 {
        let sum = x.expr() + &y;
        (x, y) = expr::eval((&sum * 0.5, &x - &sum))?;
    }
    // x = 1, y = 1: 1, −1; 0, 1; 0.5, −1.
    assert_eq!(x.to_ndarray()?, array![0.5, -1.0, 1.5]);
    assert_eq!(y.to_ndarray()?, array![-1.0, 2.0, -3.0]);
    Ok(())
}

/// By reductions and products, whose nodes share what they are of.
#[test]
fn matrices_become_what_is_computed_of_them() -> Result<()> {
    let mut x = upload(&array![[1.0f64, 2.0], [3.0, 5.0]]);
    for _ in 0..2 {
        x = x.expr().matmul(&x).eval()?;
        x = (x.expr() - x.expr().mean_axis(Axis(0)).insert_axis(Axis(0))).eval()?;
    }
    let mut wanted = array![[1.0f64, 2.0], [3.0, 5.0]];
    for _ in 0..2 {
        wanted = wanted.dot(&wanted);
        wanted = &wanted - &wanted.mean_axis(Axis(0)).unwrap();
    }
    assert_eq!(x.to_ndarray()?, wanted);
    x = x.expr().softmax(Axis(1)).eval()?;
    x = x.expr().inclusive_scan_axis::<Sum>(Axis(1)).eval()?;
    assert!(
        (x.to_ndarray()?.column(1).to_owned() - 1.0)
            .iter()
            .all(|error| error.abs() < 1e-15)
    );
    Ok(())
}

/// A type that is known at run time, and text.
#[test]
fn formulas_replace_what_they_are_of() -> Result<()> {
    let formula = Formula::parse("x * 2 + 1").expect("a formula");
    let mut x = row();
    let AnyExpr::F32(made) = formula.apply(&[("x", x.expr().into())]).expect("an array of that name") else {
        panic!("another type");
    };
    x = made.eval()?.into_dimensionality()?;
    assert_eq!(x.to_ndarray()?, array![3.0, -3.0, 7.0]);
    Ok(())
}

/// Expressions of all kinds of parts are dropped behind their arrays, whose memory has been filled by others by then.
#[test]
fn expressions_are_dropped_behind_their_arrays() -> Result<()> {
    let x = Box::new(upload(&Array2::<f32>::eye(3)));
    let view = x.t();
    let product = x.expr().matmul(&view) + 1.0;
    let shared = product.sum_axis(Axis(0)) / 3.0;
    let _any: AnyExpr<'_> = shared.clone().into();
    let _both = (&product, &shared.clone().insert_axis(Axis(0)) * &product);
    let mut deep: Expr<'_, f32, _> = x.expr();
    for _ in 0..100_000 {
        deep = deep + &*x;
    }
    assert_eq!(shared.eval()?.to_ndarray()?, Array1::from_elem(3, 4.0 / 3.0));
    drop(x);
    let others: Vec<_> = (0..64).map(|_| Box::new(row())).collect();
    // The view, `product`, `shared`, `_any`, `_both` and `deep` go now, the first last.
    drop(others);
    Ok(())
}

/// What one thread drops another one has lent: the array is its own again.
#[test]
fn expressions_are_dropped_on_other_threads() {
    let mut x = row();
    std::thread::scope(|scope| {
        let twice = &x * 2.0;
        scope.spawn(move || twice.eval().map(drop)).join().unwrap()
    })
    .unwrap();
    x.fill(0.0).unwrap();
}
