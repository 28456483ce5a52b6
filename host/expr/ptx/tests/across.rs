// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows side by side in registers: the kernels' texts give the bits that the simulated GPU gives.

use ndarray::{Axis, s};

use super::emulated::{numbers, programs, softmax, twice};
use crate::expr;
use crate::expr::program::{Form, Program};
use crate::{Result, Stream};

/// Rows side by side that a block has in registers: by parts of a warp, by a warp, and by some; whole and not, by vectors and not,
/// beside what is read late, of one number and of two.
pub(super) fn held_across(stream: &Stream) -> Result<()> {
    for shape in [
        [1, 2, 40],
        [2, 3, 1000],
        [3, 5, 17],
        [1, 33, 64],
        [2, 130, 36],
        [1, 300, 33],
        [1, 1000, 16],
        [1, 70, 16],
    ] {
        let x = numbers(stream, shape)?;
        x.expr().softmax(Axis(1)).eval()?;
        softmax(&x.expr(), 1).eval()?;
        x.slice(s![.., .., 1..])?.expr().log_softmax(Axis(1)).eval()?;
        x.expr().cast::<f64>().softmax(Axis(1)).eval()?;
        x.expr().cast::<crate::f16>().softmax(Axis(1)).eval()?;
        x.expr().variance_axis(Axis(1), 0).eval()?;
        // Of which a thread has few: many calls, and several words of each element.
        let much = ((x.expr().cast::<f64>().sin() * 1.5).exp() - 1.0).abs().tanh();
        (&much - much.mean_axis(Axis(1)).insert_axis(Axis(1))).eval()?;
        let wide = x.expr().cast::<f64>().eval()?;
        wide.expr().softmax_backward(Axis(1), &(&wide * 2.0).eval()?).eval()?;
        let (weights, row) = (x.slice(s![..1, .., ..1])?, x.slice(s![.., ..1, ..])?);
        let centred = x.expr() - x.expr().mean_axis(Axis(1)).insert_axis(Axis(1));
        let place = expr::index((shape[0], shape[1], shape[2]), 1) + expr::index((shape[0], shape[1], shape[2]), 0);
        ((&centred * &weights + &row) + place.cast::<f32>()).eval()?;
        let deviation = centred.square().mean_axis(Axis(1)).sqrt();
        (&centred / deviation.insert_axis(Axis(1))).eval()?;
        let farthest = x.expr().argmax_axis(Axis(1)).insert_axis(Axis(1)).cast::<f32>();
        (x.expr() - farthest).eval()?;
    }
    Ok(())
}

#[test]
fn rows_side_by_side_in_registers() {
    assert!(twice(held_across) > 10);
    let programs = programs(held_across);
    let is_held = |program: &&Program| {
        let form = program.reduce.as_ref().map(|reduce| reduce.form);
        matches!(form, Some(Form::Columns { is_held: true, .. }))
    };
    assert!(programs.iter().filter(is_held).count() > 60);
}
