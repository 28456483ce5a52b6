// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows in shared memory, by the tests' machine: the bits are those of the simulated GPU, which reads them again.

use ndarray::Axis;

use super::clusters::with_clusters;
use super::emulated::{numbers, programs, softmax, twice};
use crate::expr::program::Program;
use crate::{DeviceArray, Result, Stream};

/// Rows that are longer than what a block has in registers, by vectors and not, of whole steps and not, of elements of other sizes, and
/// of two arrays; numbers of rows beside elements.
pub(super) fn rows_in_shared_memory(stream: &Stream) -> Result<()> {
    for len in [32_772, 33_001, 49_152] {
        let x = numbers(stream, [1, 1, len])?;
        softmax(&x.expr(), 2).eval()?;
    }
    let x = numbers(stream, [1, 2, 17_412])?;
    softmax(&x.expr(), 2).cast::<crate::f16>().eval()?;
    let y = x.expr().cast::<f64>().eval()?;
    (&y - y.expr().mean_axis(Axis(2)).insert_axis(Axis(2))).eval()?;
    y.expr().softmax_backward(Axis(2), &y).eval()?;
    let narrow = numbers(stream, [1, 1, 33_000])?.expr().cast::<crate::f16>().eval()?;
    (&narrow - narrow.expr().mean_axis(Axis(2)).insert_axis(Axis(2))).eval()?;
    let logits = numbers(stream, [1, 2, 18_000])?;
    let labels = DeviceArray::from_ndarray(stream, &ndarray::array![[17_000, -1]])?;
    logits.expr().cross_entropy_with_gradient(Axis(2), &labels, 1.0)?;
    Ok(())
}

#[test]
fn long_rows_stay_in_shared_memory() {
    assert!(with_clusters(false, || twice(rows_in_shared_memory)) > 10);
    let programs = with_clusters(false, || programs(rows_in_shared_memory));
    let is_stashed = |program: &Program| program.reduce.as_ref().is_some_and(|reduce| reduce.is_stashed);
    // Not those in registers, nor what begins at no multiple of a vector.
    let stashed: Vec<bool> = programs.iter().map(is_stashed).collect();
    assert_eq!(stashed.iter().filter(|&&is| is).count(), 6, "{stashed:?}");
}
