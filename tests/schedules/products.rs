// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices on ordinary cores, and of a matrix with a vector.

use ndarray::Ix2;
use warpsmith::ops::{MatMul, MatVec, set_matmul_choices};
use warpsmith::{DeviceArray, DeviceArrayRef, DeviceView, Result, bf16, f16};

use super::{MULTIPROCESSORS, Run, Value, each_type};
use crate::common::choices_of_products;

/// Which operands are transposed, as in BLAS.
pub(super) const LAYOUTS: [&str; 4] = ["nn", "nt", "tn", "tt"];

/// Operands of a product, each in C order or transposed.
pub(super) struct Operands<T> {
    a: DeviceArray<T, Ix2>,
    b: DeviceArray<T, Ix2>,
    layout: &'static str,
}

impl<T: Value> Operands<T> {
    pub(super) fn new(run: &mut Run, [m, n, k]: [usize; 3], layout: &'static str) -> Self {
        let shape = |transposed: bool, rows, columns| if transposed { (columns, rows) } else { (rows, columns) };
        Self {
            a: run.array(shape(layout.starts_with('t'), m, k)),
            b: run.array(shape(layout.ends_with('t'), k, n)),
            layout,
        }
    }

    pub(super) fn a(&self) -> DeviceView<'_, T, Ix2> {
        if self.layout.starts_with('t') {
            self.a.t()
        } else {
            self.a.view()
        }
    }

    pub(super) fn b(&self) -> DeviceView<'_, T, Ix2> {
        if self.layout.ends_with('t') {
            self.b.t()
        } else {
            self.b.view()
        }
    }
}

/// How two matrices are multiplied.
pub(super) type Multiply<T> = fn(&DeviceArrayRef<T, Ix2>, &DeviceArrayRef<T, Ix2>) -> Result<DeviceArray<T, Ix2>>;

/// Products of the class of 40 × 72 × 64, by each of the choices, which are those of `factors` on this device.
pub(super) fn by_choices<T: Value>(
    run: &mut Run,
    factors: &str,
    layouts: &[&'static str],
    choices: &[&str],
    multiply: Multiply<T>,
) {
    by_choices_along(64, run, factors, layouts, choices, multiply);
}

/// The same of another `k`.
pub(super) fn by_choices_along<T: Value>(
    k: usize,
    run: &mut Run,
    factors: &str,
    layouts: &[&'static str],
    choices: &[&str],
    multiply: Multiply<T>,
) {
    // The table is the process's, and another test has one too.
    let _alone = choices_of_products();
    let (major, minor) = run.generation().unwrap_or_default();
    for &layout in layouts {
        // Lines of operands begin at multiples of 16 bytes, and k can be cut into eight parts.
        let (m, n) = (8 * (1 + run.len(4)), 8 * (4 + run.len(7)));
        let operands = Operands::new(run, [m, n, k], layout);
        for choice in choices {
            let key = format!(
                "{major}.{minor} {MULTIPROCESSORS} {factors} {layout} 5 6 {} {choice}",
                k.ilog2()
            );
            run.ok(set_matmul_choices(&key));
            run.keep(multiply(&operands.a(), &operands.b()));
        }
    }
    run.ok(set_matmul_choices(""));
}

/// The product itself.
pub(super) fn matmul<T: MatMul>(a: &DeviceArrayRef<T, Ix2>, b: &DeviceArrayRef<T, Ix2>) -> Result<DeviceArray<T, Ix2>> {
    a.matmul(b)
}

pub(super) fn products(run: &mut Run) {
    let tiles = ["gemm 32 1", "gemm 64 1", "gemm 128 1"];
    by_choices::<f32>(run, "f32", &LAYOUTS, &tiles, matmul);
    by_choices::<f64>(run, "f64", &LAYOUTS, &tiles, matmul);
    // The tiles that are best at these sizes: small, medium, large.
    for [m, n] in [[20, 20], [64, 128], [128, 256]] {
        for layout in LAYOUTS {
            let k = run.len(40);
            let operands = Operands::<i32>::new(run, [m, n, k], layout);
            run.keep(operands.a().matmul(&operands.b()));
        }
    }
}

pub(super) fn vectors(run: &mut Run) {
    each_type!(run, matvec: f32 f64 i32 f16 bf16);
    each_type!(run, finish: f32 f64 i32 f16 bf16);
}

/// Along rows and along columns, in one part and in several.
fn matvec<T: Value + MatVec<Wide: warpsmith::Element>>(run: &mut Run) {
    for [m, k] in [
        [run.len(40), 32 + run.len(200)],
        [2, 4097 + run.len(100)],
        [run.len(40), 700],
        [run.len(40), 50],
    ] {
        for layout in ["nn", "tn"] {
            let operands = Operands::<T>::new(run, [m, 1, k], layout);
            let x = run.array::<T, _>(k);
            run.keep(operands.a().matvec(&x));
        }
    }
}

/// With what the kernels of large tiles have not.
fn finish<T: Value + MatMul>(run: &mut Run) {
    let [m, n, k] = [128, 256, run.len(9)];
    let operands = Operands::<T>::new(run, [m, n, k], "nn");
    let bias = run.array::<T, _>(n);
    run.keep(operands.a().fused_matmul(&operands.b()).bias(&bias).relu().compute());
}

/// One tile and a long k, in parts that are only added up.
pub(super) fn in_parts<T: Value + MatMul>(run: &mut Run) {
    let operands = Operands::<T>::new(run, [9, 15, 700], "nn");
    run.keep(operands.a().matmul(&operands.b()));
}
