// SPDX-License-Identifier: MIT OR Apache-2.0
//! The float functions.

use cuda_std::prelude::*;

/// The names of the functions, in the order of their numbers.
pub const NAMES: [&str; 38] = [
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "ln",
    "log2",
    "log10",
    "ln_1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "round",
    "round_ties_even",
    "trunc",
    "abs",
    "recip",
    "powf",
    "atan2",
    "hypot",
    "copysign",
    "minimum",
    "maximum",
    "minimum_number",
    "maximum_number",
    "mul_add",
    "sigmoid",
];

/// Function `number` of `x`, or of `x` and `y`.
pub fn apply<T: Float>(number: u32, x: T, y: T) -> T {
    match number {
        0 => x.sqrt(),
        1 => x.rsqrt(),
        2 => x.cbrt(),
        3 => x.exp(),
        4 => x.exp2(),
        5 => x.expm1(),
        6 => x.ln(),
        7 => x.log2(),
        8 => x.log10(),
        9 => x.ln_1p(),
        10 => x.sin(),
        11 => x.cos(),
        12 => x.tan(),
        13 => x.asin(),
        14 => x.acos(),
        15 => x.atan(),
        16 => x.sinh(),
        17 => x.cosh(),
        18 => x.tanh(),
        19 => x.erf(),
        20 => x.erfc(),
        21 => x.floor(),
        22 => x.ceil(),
        23 => x.round(),
        24 => x.round_ties_even(),
        25 => x.trunc(),
        26 => x.abs(),
        27 => x.recip(),
        28 => x.powf(y),
        29 => x.atan2(y),
        30 => x.hypot(y),
        31 => x.copysign(y),
        32 => x.minimum(y),
        33 => x.maximum(y),
        34 => x.minimum_number(y),
        35 => x.maximum_number(y),
        36 => x.mul_add(y, x),
        _ => x.sigmoid(),
    }
}

/// [`apply`] for each element.
#[kernel(T = [f32, f64])]
pub fn function<T: Float>(number: u32, x: &[T], y: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, apply(number, x[i], y[i]));
    }
}
