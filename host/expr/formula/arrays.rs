// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on whole arrays in formulas, as NumPy has them: products of matrices and vectors, and scans.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use half::{bf16, f16};
use kernels_gpu::compiled::{MatVec, Scan};
use kernels_gpu::op::{Product, ReduceOp, Sum};
use ndarray::{Axis, Ix1, Ix2, Ix3, IxDyn};

use super::numbers::{Number, Together, convert, problem, together};
use crate::array::Element;
use crate::array_ref::DeviceArrayRef;
use crate::expr::graph::apply::of_one;
use crate::expr::graph::walk::insert_axis;
use crate::expr::graph::{Node, Part};
use crate::expr::product::{full, product, product_with_vector};
use crate::expr::scan::scan;
use crate::expr::value::Value;
use crate::ops::{MatMul, Precision};

/// What is scanned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulation {
    Sum,
    Product,
}

/// The product of matrices, vectors, or batches of them: a vector is a row on the left and a column on the right, and that axis
/// is none of the result's.
pub(super) fn matmul<'a>(name: &str, a: &Number<'a>, b: &Number<'a>) -> Result<Number<'a>, String> {
    let of = |what: &str| format!("`{name}` of {what}");
    let parts = match together(&[a.clone(), b.clone()]).map_err(|message| format!("`{name}`: {message}"))? {
        Together::Typed(parts) => parts,
        _ => return Err(of("numbers, wanted arrays; `*` multiplies numbers")),
    };
    let [a, b] = [&parts[0], &parts[1]];
    for part in [a, b] {
        match part.shape.len() {
            0 => return Err(of("a number, wanted arrays; `*` multiplies by numbers")),
            1..=3 => {}
            axes => return Err(of(&format!("{axes} axes, wanted 1 to 3"))),
        }
    }
    let rows = b.shape[b.shape.len().saturating_sub(2)];
    if a.shape[a.shape.len() - 1] != rows {
        let (a, b) = (&a.shape, &b.shape);
        return Err(of(&format!(
            "shapes {a:?} and {b:?}, wanted as many columns on the left as rows on the right"
        )));
    }
    macro_rules! by_type {
        ($($variant:ident $type:ty;)*) => {
            match a.ty {
                $(ScalarType::$variant => of_type::<$type>(a, b).map(Number::Typed).map_err(problem),)*
                ty => Err(of(&format!(
                    "{}, wanted f32, f64, f16, bf16 or i32; a cast makes one of them, as in `f32(a)`",
                    ty.name()
                ))),
            }
        };
    }
    by_type! {
        F32 f32;
        F64 f64;
        F16 f16;
        Bf16 bf16;
        I32 i32;
    }
}

/// The product of operands of one to three axes.
fn of_type<'a, T>(a: &Arc<Node<'a>>, b: &Arc<Node<'a>>) -> Part<'a>
where
    T: Value<Element = T> + MatMul + MatVec<Wide: Element>,
{
    let (full2, full3) = (
        (Precision::Full, full::<T, Ix2> as _),
        (Precision::Full, full::<T, Ix3> as _),
    );
    let [of_a, of_b] = [a, b].map(|part| part.shape.len());
    match (of_a, of_b) {
        (2, 2) => product::<T, Ix2>("matmul", full2, Arc::clone(a), Arc::clone(b)),
        (2, 1) => product_with_vector::<T>(false, Arc::clone(a), Arc::clone(b)),
        (1, 2) => product_with_vector::<T>(true, Arc::clone(b), Arc::clone(a)),
        (1, 1) => {
            let dot = product_with_vector::<T>(false, insert_axis(a, 0), Arc::clone(b))?;
            Ok(dot.without_axis(0))
        }
        _ => {
            let a_row = if of_a == 1 { insert_axis(a, 0) } else { Arc::clone(a) };
            let b_column = if of_b == 1 { insert_axis(b, 1) } else { Arc::clone(b) };
            let batch = |part: Arc<Node<'a>>| match part.shape.len() {
                2 => insert_axis(&part, 0),
                _ => part,
            };
            let product = product::<T, Ix3>("batched_matmul", full3, batch(a_row), batch(b_column))?;
            Ok(match (of_a, of_b) {
                (1, _) => product.without_axis(1),
                (_, 1) => product.without_axis(2),
                _ => product,
            })
        }
    }
}

/// The sums or products of the elements so far, along an axis, or of all in C order as one axis.
pub(super) fn accumulate<'a>(
    name: &'static str,
    by: Accumulation,
    x: Number<'a>,
    axis: impl FnOnce(&[usize]) -> Result<Option<usize>, String>,
) -> Result<Number<'a>, String> {
    let x = match x.typed()? {
        // Of conditions, those that hold are counted.
        x if x.ty == ScalarType::Bool => convert(x, ScalarType::U32)?,
        x => x,
    };
    let axis = axis(&x.shape)?.map(Axis);
    macro_rules! by_type {
        ($($variant:ident $type:ty;)*) => {
            match (x.ty, by) {
                $(
                    (ScalarType::$variant, Accumulation::Sum) => accumulated::<$type, Sum>(name, x, axis),
                    (ScalarType::$variant, Accumulation::Product) => accumulated::<$type, Product>(name, x, axis),
                )*
                (ty, _) => return Err(format!("`{name}` of {}, wanted numbers", ty.name())),
            }
        };
    }
    let accumulated = by_type! {
        F32 f32;
        F64 f64;
        F16 f16;
        Bf16 bf16;
        I32 i32;
        I64 i64;
        U8 u8;
        U16 u16;
        U32 u32;
        U64 u64;
    };
    accumulated.map(Number::Typed).map_err(problem)
}

fn accumulated<'a, T, Op>(name: &'static str, x: Arc<Node<'a>>, axis: Option<Axis>) -> Part<'a>
where
    T: Element + Scan<Op>,
    Op: ReduceOp<T, Output: Value<Element = Op::Output> + Element>,
{
    if let Some(axis) = axis {
        return scan(
            name,
            None,
            x,
            Some(axis),
            axis,
            |axis, x: &DeviceArrayRef<T, IxDyn>, out| x.inclusive_scan_axis_into::<Op>(*axis, out),
        );
    }
    let len = x.shape.iter().product();
    let whole = |(): &(), x: &DeviceArrayRef<T, IxDyn>, out: &mut DeviceArrayRef<Op::Output, Ix1>| {
        x.inclusive_scan_into::<Op>(&mut out.in_shape_mut(x.raw_dim()))
    };
    let ty = <Op::Output as cuda_std::scalar::Scalar>::TYPE;
    Node::apply(name, of_one(name.into(), (), whole), vec![x], ty, &[len])
}
