// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fewer roundings than the operations one by one, where it is asked for.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use ndarray::Dimension;

use super::Expr;
use super::graph::composite::expanded;
use super::graph::function::{self, Binary, Ternary, Unary};
use super::graph::walk::{Depth, rewrite};
use super::graph::{Kind, Node, Part, ternary, unary};
use super::plan::fuse::fused;
use super::value::Value;
use crate::backend::DeviceFnInfo;

impl<'a, T: Value, D: Dimension> Expr<'a, T, D> {
    /// The same with fewer roundings, which takes less time:
    ///
    /// * `a · b + c` and its kind, of `f32` and `f64`, is rounded once, as [`mul_add`](Self::mul_add), wherever it stands;
    /// * 16-bit floats are not rounded to 16 bits between one operation and the next, which computes with `f32` anyway;
    /// * a bias, a function and a residual behind a product of matrices of 16-bit floats are done by its kernel, with one rounding,
    ///   and of one with [`Precision::Tf32`](crate::ops::Precision::Tf32). A product that other expressions need as well is computed
    ///   once more for them.
    ///
    /// Results are no less exact. They have other bits than those of the operations one by one; `a · b − c`,
    /// which is 0 for equal products, may be so no longer. Other functions are the same, and the simulated GPU still gives the
    /// bits of a GPU where products of matrices do.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.1f32, 0.7])?;
    /// let y = (&x * &x - 0.3).fast_math().eval()?.to_ndarray()?;
    /// assert_eq!(y, array![0.1f32.mul_add(0.1, -0.3), 0.7f32.mul_add(0.7, -0.3)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fast_math(&self) -> Self {
        let contracted = |root: Arc<Node<'a>>| -> Part<'a> {
            let root = expanded(&root)?;
            let contracted = |_: &_, node| contract(&node).unwrap_or(node);
            let roots = rewrite(&[&root], |node| node.parts(Depth::All), contracted);
            Ok(fused(&roots, true).pop().expect("one root"))
        };
        Self::of(self.part.clone().and_then(contracted))
    }
}

/// A sum or difference one of whose parts is a product, with one rounding.
fn contract<'a>(node: &Arc<Node<'a>>) -> Option<Arc<Node<'a>>> {
    let ty = node.ty;
    let Kind::Call(called, parts) = &node.kind else {
        return None;
    };
    if let Some(unrounded) = unrounded(called, parts).or_else(|| of_any_f32(called, parts)) {
        return Some(unrounded);
    }
    if !matches!(ty, ScalarType::F32 | ScalarType::F64) {
        return None;
    }
    let is = |operator| function::binary(operator, ty) == Some(*called);
    let negative = |x: &Arc<Node<'a>>| unary(Unary::Neg, Arc::clone(x)).ok();
    let fused =
        |a: &Arc<Node<'a>>, b: Arc<Node<'a>>, c: Arc<Node<'a>>| ternary(Ternary::MulAdd, [Arc::clone(a), b, c]).ok();
    let product = |x: &Arc<Node<'a>>| match &x.kind {
        Kind::Call(function, factors) if function::binary(Binary::Mul, ty) == Some(*function) => {
            Some((Arc::clone(&factors[0]), Arc::clone(&factors[1])))
        }
        Kind::Call(function, factors) if function::unary(Unary::Square, ty) == Some(*function) => {
            Some((Arc::clone(&factors[0]), Arc::clone(&factors[0])))
        }
        _ => None,
    };
    match &parts[..] {
        [a, b] if is(Binary::Add) => match (product(a), product(b)) {
            (Some((x, y)), _) => fused(&x, y, Arc::clone(b)),
            (None, Some((x, y))) => fused(&x, y, Arc::clone(a)),
            (None, None) => None,
        },
        [a, b] if is(Binary::Sub) => match (product(a), product(b)) {
            (Some((x, y)), _) => fused(&x, y, negative(b)?),
            (None, Some((x, y))) => fused(&negative(&x)?, y, Arc::clone(a)),
            (None, None) => None,
        },
        _ => None,
    }
}

/// A function of 16-bit floats that is given what was not rounded: that of `f32`.
fn of_any_f32<'a>(called: &DeviceFnInfo, parts: &[Arc<Node<'a>>]) -> Option<Arc<Node<'a>>> {
    let is_narrow =
        |part: &Arc<Node<'a>>| matches!(&part.kind, Kind::Call(widening, _) if function::widened(widening).is_some());
    if parts.iter().all(is_narrow) {
        return None;
    }
    let function = function::of_f32(called)?;
    Node::call("fast_math", function, ScalarType::F32, parts.to_vec()).ok()
}

/// The `f32` that was rounded to 16 bits and is cast back.
fn unrounded<'a>(called: &DeviceFnInfo, parts: &[Arc<Node<'a>>]) -> Option<Arc<Node<'a>>> {
    let [rounded] = parts else { return None };
    let Kind::Call(rounding, of) = &rounded.kind else {
        return None;
    };
    let narrow = function::widened(called)?;
    (function::rounded(rounding) == Some(narrow)).then(|| Arc::clone(&of[0]))
}
