// SPDX-License-Identifier: MIT OR Apache-2.0
//! What tests of expressions share.

use ndarray::{Array, Array2, Dimension, Ix2};
use warpsmith::expr::{Expr, Value};
use warpsmith::{Device, DeviceArray, Element, Error, Result, Stream};

use super::{Number, assert_same, device, elements, random, upload};

/// What `compute` gives on the device; on a GPU it is what the simulated one gives.
pub fn both<T: Number, D: Dimension>(compute: impl Fn(&Stream) -> Result<DeviceArray<T, D>>, what: &str) -> Vec<T> {
    let run =
        |device: &Device| elements(&compute(device.default_stream()).unwrap_or_else(|error| panic!("{what}: {error}")));
    let got = run(device());
    if !device().is_simulator() {
        assert_same(&got, &run(&Device::simulator()), what);
    }
    got
}

pub fn on<T: Element, D: Dimension>(stream: &Stream, array: &Array<T, D>) -> DeviceArray<T, D> {
    DeviceArray::from_ndarray(stream, array).unwrap()
}

/// That the expression gives what the operations give.
#[track_caller]
pub fn check<T: Number + Value<Element = T>, D: Dimension>(
    expr: &Expr<'_, T, D>,
    eager: Result<DeviceArray<T, D>>,
    what: &str,
) {
    let (got, eager) = (
        expr.eval().unwrap_or_else(|error| panic!("{what}: {error}")),
        eager.unwrap(),
    );
    assert_eq!(got.shape(), eager.shape(), "{what}");
    assert_same(&elements(&got), &elements(&eager), what);
}

/// The kernels that `explain` names, each without its number.
#[track_caller]
pub fn kernels<T: Value, D: Dimension>(expr: &Expr<'_, T, D>) -> Vec<String> {
    let text = expr.explain().unwrap();
    let lines = text.lines().filter(|line| line.starts_with("kernel "));
    lines.map(|line| line.split_once(": ").unwrap().1.to_string()).collect()
}

/// Numbers of that shape, of which sums of several are exact.
pub fn small<D: Dimension>(dim: D, seed: u64) -> DeviceArray<f32, D> {
    let mut values = random::<i32>(dim.size(), seed)
        .into_iter()
        .map(|x| (x >> 24) as f32 / 16.0);
    upload(&Array::from_shape_simple_fn(dim, || values.next().unwrap()))
}

/// Numbers that products of matrices are exact of, and such that are not.
pub fn matrix<T: Number>(shape: [usize; 2], seed: u64, of: impl Fn(f64) -> T) -> DeviceArray<T, Ix2> {
    let mut values = random::<i32>(shape[0] * shape[1], seed)
        .into_iter()
        .map(|x| of(f64::from(x) / 2e9));
    upload(&Array2::from_shape_simple_fn(shape, || values.next().unwrap()))
}

/// That evaluating the expression is the error that the operation on arrays is.
#[track_caller]
pub fn assert_same_error<T: Value, D: Dimension, E>(expr: &Expr<'_, T, D>, eager: Result<E>) {
    let (error, eager) = (expr.eval().map(drop).unwrap_err(), eager.map(drop).unwrap_err());
    assert_eq!(error.to_string(), eager.to_string());
}

/// That it is the error of shapes that do not fit the operation.
#[track_caller]
pub fn assert_shape_error(error: &Error, operation: &str) {
    assert!(
        matches!(error, Error::Shape { operation: of, .. } if *of == operation),
        "of {operation}: {error}"
    );
}
