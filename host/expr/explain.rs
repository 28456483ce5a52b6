// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an expression computes, as text.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use half::{bf16, f16};
use rustc_hash::FxHashMap;

use super::long::nodes;
use super::node::{Kind, Node};

/// A line for each step.
pub(super) fn explain(root: &Arc<Node<'_>>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut of_steps: FxHashMap<String, usize> = FxHashMap::default();
    let mut of_nodes: FxHashMap<*const Node<'_>, usize> = FxHashMap::default();
    for node in nodes(&[root]) {
        let (what, lies) = match &node.kind {
            Kind::Array(array) => ("array".into(), Some((array.first_address(), array.strides()))),
            Kind::Scalar(bits) => (number(node.ty, *bits), None),
            Kind::Index(axis) => (format!("index along axis {axis}"), None),
            Kind::Call(function, parts) => {
                let parts = parts.iter().map(|part| format!("%{}", of_nodes[&Arc::as_ptr(part)]));
                (
                    format!("{}({})", function.name, parts.collect::<Vec<_>>().join(", ")),
                    None,
                )
            }
        };
        let step = format!("{what}: {} {:?}", node.ty.name(), node.shape);
        let number = *of_steps.entry(format!("{step} {lies:?}")).or_insert_with(|| {
            lines.push(format!("%{} = {step}", lines.len()));
            lines.len() - 1
        });
        of_nodes.insert(Arc::as_ptr(node), number);
    }
    lines.join("\n")
}

/// The number of that type.
fn number(ty: ScalarType, bits: u64) -> String {
    match ty {
        ScalarType::Bool => (bits != 0).to_string(),
        ScalarType::F16 => f16::from_bits(bits as u16).to_string(),
        ScalarType::Bf16 => bf16::from_bits(bits as u16).to_string(),
        ScalarType::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        ScalarType::F64 => format!("{:?}", f64::from_bits(bits)),
        ScalarType::I32 => (bits as i32).to_string(),
        ScalarType::I64 => (bits as i64).to_string(),
        _ => bits.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::super::AnyExpr;
    use crate::{Device, DeviceArray};

    #[test]
    fn each_step_is_a_line() -> crate::Result<()> {
        let device = Device::simulator();
        let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32], [2.0]])?;
        let n = DeviceArray::from_ndarray(device.default_stream(), &array![1i32, 2, 3])?;
        let any: AnyExpr = ((&n - 1) * &n + x.expr().tanh() * x.expr().tanh()).into();
        let wanted = "\
%0 = array: i32 [3]
%1 = 1: i32 []
%2 = number_binary_u32_Sub(%0, %1): i32 [3]
%3 = number_binary_u32_Mul(%2, %0): i32 [3]
%4 = number_cast_i32_f32(%3): f32 [3]
%5 = array: f32 [2, 1]
%6 = number_unary_f32_Tanh(%5): f32 [2, 1]
%7 = number_binary_f32_Mul(%6, %6): f32 [2, 1]
%8 = number_binary_f32_Add(%4, %7): f32 [2, 3]";
        assert_eq!(any.explain()?, wanted);
        Ok(())
    }
}
