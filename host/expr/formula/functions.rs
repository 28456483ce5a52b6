// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operators, functions and constants of formulas: their names, and what they compute.

use cuda_std::scalar::ScalarType;

use super::arrays::Accumulation;
use crate::expr::graph::function::{Binary, Ternary, Unary};
use crate::expr::reductions::Statistic;

/// What an operator or a function computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Unary(Unary),
    Binary(Binary),
    /// `>` and `≥` are comparisons with the operands in the other order.
    Swapped(Binary),
    Ternary(Ternary),
    /// `+x`
    Same,
    /// −1, 0 or 1: NumPy's `sign`. 0 and NaN stay what they are.
    Sign,
    /// The quotient rounded down: Python's `//`.
    FloorDiv,
    /// The remainder of that, with the divisor's sign: Python's `%`.
    Modulo,
    Cast(ScalarType),
    /// The place along an axis.
    Index,
    /// Of all elements, or of those along an axis.
    Reduction(Statistic),
    /// Of the exponentials of all elements, or of those along an axis.
    Exponentials(Exponentials),
    /// Of the elements so far, along an axis or of all.
    Accumulation(Accumulation),
    /// The product of matrices.
    MatMul,
}

/// What is computed of elements' exponentials beside the largest of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exponentials {
    Softmax,
    LogSoftmax,
    LogSumExp,
}

/// The numbers that an operation is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Integers and floats.
    Numbers,
    /// Floats; integers become `f64`.
    Floats,
    /// Integers and `bool`.
    Bits,
    Integers,
    All,
}

impl Operation {
    pub(super) fn takes(self) -> Takes {
        match self {
            Self::Unary(operator) => match operator {
                Unary::Neg | Unary::Abs | Unary::Square | Unary::Relu => Takes::Numbers,
                Unary::Floor | Unary::Ceil | Unary::Round | Unary::RoundTiesEven | Unary::Trunc => Takes::Numbers,
                Unary::Not => Takes::Bits,
                _ => Takes::Floats,
            },
            Self::Binary(operator) => match operator {
                Binary::Div | Binary::Atan2 | Binary::Hypot | Binary::Copysign => Takes::Floats,
                Binary::BitAnd | Binary::BitOr | Binary::BitXor => Takes::Bits,
                Binary::Shl | Binary::Shr => Takes::Integers,
                Binary::Equal | Binary::NotEqual => Takes::All,
                _ => Takes::Numbers,
            },
            Self::Exponentials(_) => Takes::Floats,
            Self::Ternary(Ternary::Select) | Self::Cast(_) => Takes::All,
            _ => Takes::Numbers,
        }
    }
}

/// An operator between two operands.
#[derive(Debug, PartialEq)]
pub(super) struct Infix {
    pub(super) symbol: &'static str,
    /// Those with the higher number are computed first.
    pub(super) level: u8,
    pub(super) operation: Operation,
}

/// An operator before its operand.
#[derive(Debug, PartialEq)]
pub(super) struct Prefix {
    pub(super) symbol: &'static str,
    pub(super) operation: Operation,
}

/// Where comparisons stand among operators, of which two do not stand side by side.
pub(super) const COMPARISONS: u8 = 0;
/// Where operators before their operand stand, from which on one more is computed ahead of them: [`POWER`].
pub(super) const PREFIX: u8 = 7;
/// What is no operator.
pub(super) const ATOM: u8 = 9;

const fn infix(symbol: &'static str, level: u8, operator: Binary) -> Infix {
    Infix {
        symbol,
        level,
        operation: Operation::Binary(operator),
    }
}

const fn infix_of(symbol: &'static str, level: u8, operation: Operation) -> Infix {
    Infix {
        symbol,
        level,
        operation,
    }
}

/// The power, which is computed from the right to the left.
pub(super) static POWER: Infix = infix("**", 8, Binary::Pow);

/// The others, which are computed from the left to the right, in Python's order.
pub(super) static INFIXES: [Infix; 18] = [
    infix("<", COMPARISONS, Binary::Less),
    infix("<=", COMPARISONS, Binary::LessEqual),
    infix_of(">", COMPARISONS, Operation::Swapped(Binary::Less)),
    infix_of(">=", COMPARISONS, Operation::Swapped(Binary::LessEqual)),
    infix("==", COMPARISONS, Binary::Equal),
    infix("!=", COMPARISONS, Binary::NotEqual),
    infix("|", 1, Binary::BitOr),
    infix("^", 2, Binary::BitXor),
    infix("&", 3, Binary::BitAnd),
    infix("<<", 4, Binary::Shl),
    infix(">>", 4, Binary::Shr),
    infix("+", 5, Binary::Add),
    infix("-", 5, Binary::Sub),
    infix("*", 6, Binary::Mul),
    infix("/", 6, Binary::Div),
    infix_of("//", 6, Operation::FloorDiv),
    infix_of("%", 6, Operation::Modulo),
    infix_of("@", 6, Operation::MatMul),
];

const fn prefix(symbol: &'static str, operation: Operation) -> Prefix {
    Prefix { symbol, operation }
}

pub(super) static PREFIXES: [Prefix; 4] = [
    prefix("-", Operation::Unary(Unary::Neg)),
    prefix("+", Operation::Same),
    prefix("~", Operation::Unary(Unary::Not)),
    prefix("!", Operation::Unary(Unary::Not)),
];

/// A function by its names.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Other names, such as NumPy's.
    pub(super) aliases: &'static [&'static str],
    /// The arguments that are wanted.
    pub(super) wanted: &'static [&'static str],
    /// Those that may be left out, behind them.
    pub(super) optional: &'static [&'static str],
    pub(super) operation: Operation,
}

impl Function {
    /// The names of the arguments, in their order.
    pub(super) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.wanted.iter().chain(self.optional).copied()
    }

    /// How it is called by one of its names.
    pub(super) fn usage(&self, name: &str) -> String {
        let optional = self.optional.iter().map(|name| format!("{name}=…"));
        let all: Vec<String> = self.wanted.iter().map(ToString::to_string).chain(optional).collect();
        format!("`{name}({})`", all.join(", "))
    }
}

type Names = &'static [&'static str];

const fn unary(operator: Unary, aliases: Names) -> Function {
    function(operator.name(), aliases, &["x"], Operation::Unary(operator))
}

const fn binary(operator: Binary, aliases: Names, wanted: Names) -> Function {
    function(operator.name(), aliases, wanted, Operation::Binary(operator))
}

const fn function(name: &'static str, aliases: Names, wanted: Names, operation: Operation) -> Function {
    Function {
        name,
        aliases,
        wanted,
        optional: &[],
        operation,
    }
}

const fn cast(ty: ScalarType, aliases: Names) -> Function {
    function(ty.name(), aliases, &["x"], Operation::Cast(ty))
}

const fn reduction(name: &'static str, statistic: Statistic, aliases: Names, optional: Names) -> Function {
    Function {
        name,
        aliases,
        wanted: &["x"],
        optional,
        operation: Operation::Reduction(statistic),
    }
}

const fn exponentials(name: &'static str, of: Exponentials, aliases: Names, optional: Names) -> Function {
    Function {
        name,
        aliases,
        wanted: &["x"],
        optional,
        operation: Operation::Exponentials(of),
    }
}

const fn accumulation(name: &'static str, by: Accumulation) -> Function {
    Function {
        name,
        aliases: &[],
        wanted: &["x"],
        optional: &["axis"],
        operation: Operation::Accumulation(by),
    }
}

pub(super) static FUNCTIONS: &[Function] = &[
    unary(Unary::Neg, &["negative"]),
    unary(Unary::Abs, &["absolute", "fabs"]),
    unary(Unary::Square, &[]),
    unary(Unary::Relu, &[]),
    unary(Unary::Sqrt, &[]),
    unary(Unary::Rsqrt, &[]),
    unary(Unary::Cbrt, &[]),
    unary(Unary::Recip, &["reciprocal"]),
    unary(Unary::Exp, &[]),
    unary(Unary::Exp2, &[]),
    unary(Unary::ExpM1, &["expm1"]),
    unary(Unary::Ln, &["log"]),
    unary(Unary::Log2, &[]),
    unary(Unary::Log10, &[]),
    unary(Unary::Ln1p, &["log1p"]),
    unary(Unary::Sin, &[]),
    unary(Unary::Cos, &[]),
    unary(Unary::Tan, &[]),
    unary(Unary::Asin, &["arcsin"]),
    unary(Unary::Acos, &["arccos"]),
    unary(Unary::Atan, &["arctan"]),
    unary(Unary::Sinh, &[]),
    unary(Unary::Cosh, &[]),
    unary(Unary::Tanh, &[]),
    unary(Unary::Sigmoid, &["expit"]),
    unary(Unary::Erf, &[]),
    unary(Unary::Erfc, &[]),
    unary(Unary::Floor, &[]),
    unary(Unary::Ceil, &[]),
    unary(Unary::Round, &[]),
    unary(Unary::RoundTiesEven, &["rint"]),
    unary(Unary::Trunc, &["fix"]),
    unary(Unary::Signum, &[]),
    unary(Unary::Gelu, &[]),
    unary(Unary::GeluTanh, &[]),
    unary(Unary::Silu, &[]),
    unary(Unary::IsNan, &["isnan"]),
    unary(Unary::IsFinite, &["isfinite"]),
    unary(Unary::IsInfinite, &["isinf"]),
    function("sign", &[], &["x"], Operation::Sign),
    binary(Binary::Minimum, &[], &["a", "b"]),
    binary(Binary::Maximum, &[], &["a", "b"]),
    binary(Binary::Pow, &["power"], &["x", "y"]),
    binary(Binary::Atan2, &["arctan2"], &["y", "x"]),
    binary(Binary::Hypot, &[], &["x", "y"]),
    binary(Binary::Copysign, &[], &["x", "sign"]),
    binary(Binary::Rem, &["fmod"], &["a", "b"]),
    function("mod", &["remainder"], &["a", "b"], Operation::Modulo),
    function("floor_divide", &[], &["a", "b"], Operation::FloorDiv),
    function(
        "mul_add",
        &["fma"],
        &["a", "b", "c"],
        Operation::Ternary(Ternary::MulAdd),
    ),
    function(
        "clamp",
        &["clip"],
        &["x", "lo", "hi"],
        Operation::Ternary(Ternary::Clamp),
    ),
    function(
        "select",
        &["where"],
        &["c", "a", "b"],
        Operation::Ternary(Ternary::Select),
    ),
    function("index", &[], &["axis"], Operation::Index),
    cast(ScalarType::Bool, &["bool_"]),
    cast(ScalarType::F32, &["float32"]),
    cast(ScalarType::F64, &["float64", "float"]),
    cast(ScalarType::F16, &["float16"]),
    cast(ScalarType::Bf16, &["bfloat16"]),
    cast(ScalarType::I32, &["int32"]),
    cast(ScalarType::I64, &["int64", "int"]),
    cast(ScalarType::U8, &["uint8"]),
    cast(ScalarType::U16, &["uint16"]),
    cast(ScalarType::U32, &["uint32"]),
    cast(ScalarType::U64, &["uint64"]),
    reduction("sum", Statistic::Sum, &[], &["axis", "keepdims"]),
    reduction("product", Statistic::Product, &["prod"], &["axis", "keepdims"]),
    reduction("min", Statistic::Min, &["amin"], &["axis", "keepdims"]),
    reduction("max", Statistic::Max, &["amax"], &["axis", "keepdims"]),
    reduction("mean", Statistic::Mean, &[], &["axis", "keepdims"]),
    reduction("variance", Statistic::Variance, &["var"], &["axis", "ddof", "keepdims"]),
    reduction("std", Statistic::Std, &[], &["axis", "ddof", "keepdims"]),
    reduction("any", Statistic::Any, &[], &["axis", "keepdims"]),
    reduction("all", Statistic::All, &[], &["axis", "keepdims"]),
    reduction("argmin", Statistic::ArgMin, &[], &["axis", "keepdims"]),
    reduction("argmax", Statistic::ArgMax, &[], &["axis", "keepdims"]),
    exponentials("softmax", Exponentials::Softmax, &[], &["axis"]),
    exponentials("log_softmax", Exponentials::LogSoftmax, &[], &["axis"]),
    exponentials(
        "log_sum_exp",
        Exponentials::LogSumExp,
        &["logsumexp"],
        &["axis", "keepdims"],
    ),
    accumulation("cumsum", Accumulation::Sum),
    accumulation("cumprod", Accumulation::Product),
    function("matmul", &[], &["a", "b"], Operation::MatMul),
];

/// The function of that name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .iter()
        .find(|function| function.name == name || function.aliases.contains(&name))
}

/// All names of functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS
        .iter()
        .flat_map(|function| function.aliases.iter().copied().chain([function.name]))
}

/// A number that has a name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Constant {
    Float(f64),
    Bool(bool),
}

pub(super) const CONSTANTS: [(&str, Constant); 8] = [
    ("pi", Constant::Float(std::f64::consts::PI)),
    ("e", Constant::Float(std::f64::consts::E)),
    ("inf", Constant::Float(f64::INFINITY)),
    ("nan", Constant::Float(f64::NAN)),
    ("true", Constant::Bool(true)),
    ("false", Constant::Bool(false)),
    ("True", Constant::Bool(true)),
    ("False", Constant::Bool(false)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_function() {
        let mut all: Vec<_> = names().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
        for name in all {
            assert!(find(name).is_some_and(|function| !function.wanted.is_empty()), "{name}");
        }
    }

    #[test]
    fn usages_name_the_arguments() {
        assert_eq!(find("clip").unwrap().usage("clip"), "`clip(x, lo, hi)`");
        assert_eq!(find("sum").unwrap().usage("sum"), "`sum(x, axis=…, keepdims=…)`");
    }
}
