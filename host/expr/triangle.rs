// SPDX-License-Identifier: MIT OR Apache-2.0
//! Triangles of matrices.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use ndarray::Dimension;

use super::Expr;
use super::graph::function::{Binary, Ternary};
use super::graph::problem::Problem;
use super::graph::{Node, Part, binary, cast, ternary};
use super::value::Value;

/// Triangles of the matrices along the last two axes.
impl<T: Value, D: Dimension> Expr<'_, T, D> {
    /// The elements on the `k`-th diagonal and below it, and 0 elsewhere: NumPy's `tril`. The diagonal 0 begins with the first
    /// element; `k` counts upwards, and is negative below it.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Axes`](crate::Error::Axes) if there are not two axes.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6], [7, 8, 9]])?;
    /// assert_eq!(x.expr().tril(0).eval()?.to_ndarray()?, array![[1, 0, 0], [4, 5, 0], [7, 8, 9]]);
    /// assert_eq!(x.expr().triu(1).eval()?.to_ndarray()?, array![[0, 2, 3], [0, 0, 6], [0, 0, 0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tril(&self, k: i64) -> Self {
        Self::of(self.part.clone().and_then(|x| triangle("tril", x, k)))
    }

    /// The elements on the `k`-th diagonal and above it, and 0 elsewhere: NumPy's `triu`, as [`tril`](Self::tril).
    ///
    /// # Errors
    ///
    /// As [`tril`](Self::tril).
    pub fn triu(&self, k: i64) -> Self {
        Self::of(self.part.clone().and_then(|x| triangle("triu", x, k)))
    }
}

/// The lower triangle for `tril`, else the upper one.
fn triangle<'a>(operation: &'static str, x: Arc<Node<'a>>, k: i64) -> Part<'a> {
    let Some(row) = x.shape.len().checked_sub(2) else {
        return Err(Problem::Axes {
            operation,
            given: (0..x.shape.len()).collect(),
            wanted: "two axes at least".into(),
        });
    };
    let place = |axis| cast(Node::index(&x.shape, axis)?, ScalarType::I64);
    // Diagonals beyond the corners are as empty as those at them, and no place wraps around.
    let (lowest, highest) = (-(x.shape[row] as i64), x.shape[row + 1] as i64);
    let shift = Node::scalar(ScalarType::I64, k.clamp(lowest, highest) as u64);
    let (diagonal, column) = (binary(Binary::Add, place(row)?, shift)?, place(row + 1)?);
    let is_kept = match operation {
        "tril" => binary(Binary::LessEqual, column, diagonal)?,
        _ => binary(Binary::LessEqual, diagonal, column)?,
    };
    let zero = Node::scalar(x.ty, 0);
    ternary(Ternary::Select, [is_kept, x, zero])
}
