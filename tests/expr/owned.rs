// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators of arrays and views by value, beside what is by reference: the same expressions, which have the arrays for themselves.

use ndarray::{Array1, Axis, Ix1, array, s};
use warpsmith::expr::Expr;
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Error, Result};

use crate::common::*;

type Row = DeviceArray<f32, Ix1>;

fn row() -> Row {
    upload(&array![1.0, -2.0, 3.0])
}

fn view(x: &Row) -> warpsmith::DeviceView<'_, f32, Ix1> {
    x.view()
}

/// Each kind of operand on each side.
#[test]
fn every_operand_stands_on_both_sides() -> Result<()> {
    let (x, mut y) = (row(), row());
    let lent = row();
    let wanted = array![2.0, -4.0, 6.0];
    let same = |got: Expr<'_, f32, Ix1>| assert_eq!(got.eval().unwrap().to_ndarray().unwrap(), wanted);
    let e = lent.expr();
    let lent_ref: &DeviceArrayRef<f32, Ix1> = &lent;
    same(row() + row());
    same(row() + &x);
    same(row() + lent_ref);
    same(row() + view(&x));
    same(row() + &view(&x));
    same(row() + &y.view_mut());
    same(row() + x.expr());
    same(row() + &e);
    same(row() + 0.0 + row());
    same(&x + row());
    same(lent_ref + row());
    same(view(&x) + row());
    same(&view(&x) + row());
    same(&y.view_mut() + row());
    same(x.expr() + row());
    same(&e + row());
    same(0.0 + row() + row());
    same(view(&x) + view(&lent));
    same(view(&x) + &x);
    same(&x + view(&x));
    same(2.0 * view(&x));
    same(view(&x) * 2.0);
    same(2.0 * row());
    same(row() * 2.0);
    same(2.0 * &y.view_mut());
    same(x * 2.0);
    Ok(())
}

#[test]
fn signs_and_bits_of_arrays() -> Result<()> {
    let x = row();
    let mut y = row();
    let wanted = array![-1.0, 2.0, -3.0];
    for got in [-row(), -&x, -&*x, -x.view(), -&x.view(), -&y.view_mut()] {
        assert_eq!(got.eval()?.to_ndarray()?, wanted);
    }
    let bits = upload(&array![1u8, 0, 255]);
    for got in [!&bits, !bits.view(), !upload(&array![1u8, 0, 255])] {
        assert_eq!(got.eval()?.to_ndarray()?, array![254u8, 255, 0]);
    }
    let both = upload(&array![6i32, 5]) & upload(&array![3i32, 4]);
    assert_eq!(both.eval()?.to_ndarray()?, array![2, 4]);
    Ok(())
}

/// Types and shapes that two operands have together are those of references.
#[test]
fn types_and_shapes_are_common_ones() -> Result<()> {
    let wide = upload(&array![[10i32], [20]]) - row();
    assert_eq!(
        wide.eval()?.to_ndarray()?,
        array![[9.0f32, 12.0, 7.0], [19.0, 22.0, 17.0]]
    );
    let x = upload(&array![[1.0f64, 3.0], [2.0, 6.0]]);
    let centred = (&x - x.mean_axis(Axis(1))?.insert_axis(Axis(1))?).eval()?;
    assert_eq!(centred.to_ndarray()?, array![[-1.0, 1.0], [-2.0, 2.0]]);
    let layer = (x.matmul(&x)? + upload(&array![-7.0f64, 0.0])).relu();
    assert_eq!(layer.eval()?.to_ndarray()?, array![[0.0, 21.0], [7.0, 42.0]]);
    let error = (row() + upload(&array![1.0f32, 2.0])).eval().err().unwrap();
    assert!(matches!(error, Error::Shape { operation: "add", .. }), "{error}");
    let elsewhere = Device::simulator();
    let other = DeviceArray::<f32, _>::ones(elsewhere.default_stream(), 3)?;
    let error = (row() + other).eval().err().unwrap();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    Ok(())
}

/// What is computed of arrays by value needs them no longer than itself, nothing of the function that made them, and lets them go.
#[test]
fn arrays_go_with_their_expression() -> Result<()> {
    fn made(x: Row, y: &Row) -> Expr<'_, f32, Ix1> {
        x * 2.0 + y
    }
    fn alone() -> Expr<'static, f32, Ix1> {
        (row() + row()) * 0.5
    }
    let device = Device::simulator();
    let stream = device.default_stream();
    let upload = |len: usize| DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(len));
    let y = upload(1000)?;
    let before = device.memory()?.allocated;
    let sum = made(upload(1000)?, &y);
    assert_eq!(device.memory()?.allocated, 2 * before);
    let mut out = upload(1000)?;
    sum.eval_into(&mut out)?;
    drop(sum);
    assert_eq!(device.memory()?.allocated, 2 * before, "y and the result");
    assert_eq!(out.to_ndarray()?, Array1::from_elem(1000, 3.0));
    assert_eq!(alone().eval()?.to_ndarray()?, array![1.0, -2.0, 3.0]);
    // An array becomes what is computed of it.
    let mut x = row();
    for _ in 0..3 {
        x = (x * 2.0 - 1.0).eval()?;
    }
    assert_eq!(x.to_ndarray()?, array![1.0, -23.0, 17.0]);
    x = (&x + x.slice(s![..1])?).eval()?;
    assert_eq!(x.to_ndarray()?, array![2.0, -22.0, 18.0]);
    Ok(())
}

/// In generic functions whose dimension is any.
#[test]
fn generic_functions_take_both() -> Result<()> {
    fn twice<D: ndarray::Dimension>(x: &DeviceArrayRef<f32, D>) -> Result<DeviceArray<f32, D>> {
        (2.0 * x).eval()
    }
    fn minus<D: ndarray::Dimension + 'static>(x: DeviceArray<f32, D>) -> Result<DeviceArray<f32, D>> {
        (-x).eval()
    }
    assert_eq!(minus(twice(&row())?)?.to_ndarray()?, array![-2.0, 4.0, -6.0]);
    Ok(())
}

/// Wherever operands and expressions are wanted.
#[test]
fn methods_take_arrays_by_value() -> Result<()> {
    let x = row();
    let chosen = x.expr().greater(0.0).select(row(), view(&x) * 10.0);
    assert_eq!(chosen.eval()?.to_ndarray()?, array![1.0, -20.0, 3.0]);
    assert_eq!(
        x.expr().maximum(row() + 1.0).eval()?.to_ndarray()?,
        array![2.0, -1.0, 4.0]
    );
    Ok(())
}
