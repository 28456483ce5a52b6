// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions that would be computed when their arrays are gone or others, though they may be dropped then.

use warpsmith::expr::{AnyExpr, Expr};
use warpsmith::{DeviceArray, Result};

type Vector = DeviceArray<f32, ndarray::Ix1>;

fn of_array_that_went_elsewhere(x: Vector) -> Result<Vector> {
    let twice = x.expr() * 2.0;
    drop(x);
    twice.eval()
}

fn of_array_that_is_replaced(mut x: Vector) -> Result<Vector> {
    let shifted = x.slice(ndarray::s![1..])?.expr() + 1.0;
    x = shifted.eval()?;
    shifted.eval()
}

fn of_array_that_is_changed(mut x: Vector) -> Result<Vector> {
    let any: AnyExpr = (&x * 2.0).into();
    x.fill(0.0)?;
    println!("{:?}", any.shape()?);
    Ok(x)
}

fn of_array_of_inner_block(y: &Vector) -> Result<Vector> {
    let sum;
    {
        let x = y.square()?;
        sum = y.expr() + &x;
    }
    sum.clone().eval()
}

fn longer_than_lent<'a>(x: &'a Vector) -> Expr<'static, f32, ndarray::Ix1> {
    x.expr().square()
}

/// A destructor that may use it.
struct Last<'a>(Expr<'a, f32, ndarray::Ix1>);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        let _ = self.0.eval();
    }
}

fn of_destructor(mut x: Vector) -> Result<()> {
    let _last = Last(x.expr());
    x = x.square()?;
    Ok(())
}

fn main() {}
