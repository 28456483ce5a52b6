// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operators of reductions: the numbers that an element brings, and how those of two become one's.

use cuda_std::scalar::ScalarType;

use super::function::{self, Binary, Ternary, Unary};
use crate::backend::DeviceFnInfo;
use crate::expr::program::{MAX_ARGUMENTS, Value};

/// What a reduction computes of elements of a type that it is offered for: see [`Operator::type_of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::expr) enum Operator {
    Sum,
    Product,
    Min,
    Max,
    /// Of conditions.
    Any,
    /// Of conditions.
    All,
    /// Of numbers, and their places: both of the smallest number, of several the first. NaN comes before all others.
    ArgMin,
    /// As [`ArgMin`](Self::ArgMin), of the largest.
    ArgMax,
    /// Of numbers of a type of floats, and of 1 beside each: the largest number, and the sum of `e^(x − largest)`, in one pass
    /// (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018).
    SumExp,
}

/// Calls of device functions that make the numbers of two sets of elements those of both: numbered as in
/// [`Combine`](crate::expr::program::Combine).
pub(in crate::expr) struct Calls {
    pub(in crate::expr) calls: Vec<(&'static DeviceFnInfo, [Value; MAX_ARGUMENTS])>,
    pub(in crate::expr) results: Vec<Value>,
    next: Value,
}

impl Calls {
    fn new(numbers: usize) -> Self {
        Self {
            calls: Vec::new(),
            results: Vec::new(),
            next: 2 * numbers as Value,
        }
    }

    fn call(&mut self, function: Option<&'static DeviceFnInfo>, arguments: &[Value]) -> Value {
        let mut all = [0; MAX_ARGUMENTS];
        all[..arguments.len()].copy_from_slice(arguments);
        self.calls.push((function.expect("the type has this function"), all));
        self.next += 1;
        self.next - 1
    }
}

impl Operator {
    pub(in crate::expr) const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Min => "min",
            Self::Max => "max",
            Self::Any => "any",
            Self::All => "all",
            Self::ArgMin => "argmin",
            Self::ArgMax => "argmax",
            Self::SumExp => "sum_exp",
        }
    }

    /// What one of its numbers is called.
    pub(in crate::expr) const fn name_of(self, number: usize) -> &'static str {
        match (self, number) {
            (Self::SumExp, 0) => Self::Max.name(),
            _ => self.name(),
        }
    }

    /// How many numbers an element brings.
    pub(in crate::expr) const fn numbers(self) -> usize {
        match self {
            Self::ArgMin | Self::ArgMax | Self::SumExp => 2,
            _ => 1,
        }
    }

    /// The type of one of them, of which the first is of type `ty`.
    pub(in crate::expr) const fn type_of(self, number: usize, ty: ScalarType) -> ScalarType {
        match (self, number) {
            (Self::ArgMin | Self::ArgMax, 1) => ScalarType::U64,
            _ => ty,
        }
    }

    /// The bits of what changes nothing; none where a reduction of no elements has no value.
    pub(in crate::expr) fn identities(self, ty: ScalarType) -> Vec<u64> {
        match self {
            Self::Sum | Self::Any => vec![0],
            Self::All => vec![1],
            Self::Product => vec![bits_of_one(ty)],
            Self::Min => vec![greatest(ty)],
            Self::Max => vec![least(ty)],
            // No place is as far away.
            Self::ArgMin => vec![greatest(ty), u64::MAX],
            Self::ArgMax => vec![least(ty), u64::MAX],
            Self::SumExp => vec![least(ty), 0],
        }
    }

    /// Whether there is a result where there are no elements.
    pub(super) const fn takes_none(self) -> bool {
        matches!(self, Self::Sum | Self::Product | Self::Any | Self::All)
    }

    pub(in crate::expr) fn combine(self, ty: ScalarType) -> Calls {
        let mut calls = Calls::new(self.numbers());
        let binary = match self {
            Self::Sum => Binary::Add,
            Self::Product => Binary::Mul,
            Self::Min => Binary::Minimum,
            Self::Max => Binary::Maximum,
            Self::Any => Binary::BitOr,
            Self::All => Binary::BitAnd,
            Self::ArgMin | Self::ArgMax => {
                first_extreme(self, ty, &mut calls);
                return calls;
            }
            Self::SumExp => {
                sum_of_exponentials(ty, &mut calls);
                return calls;
            }
        };
        let both = calls.call(function::binary(binary, ty), &[0, 1]);
        calls.results.push(both);
        calls
    }
}

/// Of two numbers with places the smaller or larger number, of equal ones that with the smaller place.
fn first_extreme(operator: Operator, ty: ScalarType, calls: &mut Calls) {
    let [a, a_place, b, b_place] = [0, 1, 2, 3];
    let less = function::binary(Binary::Less, ty);
    let bit = |operator| function::binary(operator, ScalarType::Bool);
    let mut is_better = match operator {
        Operator::ArgMin => calls.call(less, &[b, a]),
        _ => calls.call(less, &[a, b]),
    };
    let mut is_equal = calls.call(function::binary(Binary::Equal, ty), &[a, b]);
    if matches!(ty, ScalarType::F32 | ScalarType::F64) {
        let [a_is_nan, b_is_nan] = [a, b].map(|x| calls.call(function::unary(Unary::IsNan, ty), &[x]));
        let a_is_number = calls.call(function::unary(Unary::Not, ScalarType::Bool), &[a_is_nan]);
        let b_is_first_nan = calls.call(bit(Binary::BitAnd), &[a_is_number, b_is_nan]);
        let are_nan = calls.call(bit(Binary::BitAnd), &[a_is_nan, b_is_nan]);
        is_better = calls.call(bit(Binary::BitOr), &[is_better, b_is_first_nan]);
        is_equal = calls.call(bit(Binary::BitOr), &[is_equal, are_nan]);
    }
    let is_ahead = calls.call(function::binary(Binary::Less, ScalarType::U64), &[b_place, a_place]);
    let is_first = calls.call(bit(Binary::BitAnd), &[is_equal, is_ahead]);
    let is_b = calls.call(bit(Binary::BitOr), &[is_better, is_first]);
    let number = calls.call(function::ternary(Ternary::Select, ty), &[is_b, b, a]);
    let place = calls.call(
        function::ternary(Ternary::Select, ScalarType::U64),
        &[is_b, b_place, a_place],
    );
    calls.results.extend([number, place]);
}

/// Of two numbers with sums the larger number, and its sum with the other's, which counts `e^(smaller − larger)` times. Equal
/// ones, infinities among them, are no distance apart. NaN makes the sum NaN.
fn sum_of_exponentials(ty: ScalarType, calls: &mut Calls) {
    let [a, a_sum, b, b_sum] = [0, 1, 2, 3];
    let select = function::ternary(Ternary::Select, ty);
    let is_b = calls.call(function::binary(Binary::Less, ty), &[a, b]);
    let [larger, smaller] = [[b, a], [a, b]].map(|[x, y]| calls.call(select, &[is_b, x, y]));
    let [sum, other] = [[b_sum, a_sum], [a_sum, b_sum]].map(|[x, y]| calls.call(select, &[is_b, x, y]));
    let distance = calls.call(function::binary(Binary::Sub, ty), &[smaller, larger]);
    let factor = calls.call(function::unary(Unary::Exp, ty), &[distance]);
    let apart = calls.call(function::ternary(Ternary::MulAdd, ty), &[other, factor, sum]);
    let together = calls.call(function::binary(Binary::Add, ty), &[sum, other]);
    let are_equal = calls.call(function::binary(Binary::Equal, ty), &[a, b]);
    let total = calls.call(select, &[are_equal, together, apart]);
    calls.results.extend([larger, total]);
}

fn bits_of_one(ty: ScalarType) -> u64 {
    match ty {
        ScalarType::F32 => 1f32.to_bits().into(),
        ScalarType::F64 => 1f64.to_bits(),
        _ => 1,
    }
}

/// The bits of the greatest number, or of ∞.
fn greatest(ty: ScalarType) -> u64 {
    let bits = 8 * ty.bytes();
    match ty {
        ScalarType::F32 => f32::INFINITY.to_bits().into(),
        ScalarType::F64 => f64::INFINITY.to_bits(),
        ScalarType::I8 | ScalarType::I16 | ScalarType::I32 | ScalarType::I64 => (1 << (bits - 1)) - 1,
        _ => u64::MAX >> (64 - bits),
    }
}

/// The bits of the least number, or of −∞.
fn least(ty: ScalarType) -> u64 {
    match ty {
        ScalarType::F32 => f32::NEG_INFINITY.to_bits().into(),
        ScalarType::F64 => f64::NEG_INFINITY.to_bits(),
        ScalarType::I8 | ScalarType::I16 | ScalarType::I32 | ScalarType::I64 => 1 << (8 * ty.bytes() - 1),
        _ => 0,
    }
}
