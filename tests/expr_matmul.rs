// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices as parts of expressions: the bits of the operations one by one, and what their kernels do.

use ndarray::{Array2, Axis, Ix1, Ix2, array, s};
use warpsmith::expr::{self, Expr, Value};
use warpsmith::ops::{FusedMatMul, MatMul, Precision};
use warpsmith::{DeviceArray, DeviceArrayRef, Element, bf16, f16};

use crate::common::expr::{check, kernels, matrix, small};
use crate::common::*;

fn products<T>(of: impl Fn(f64) -> T)
where
    T: Number + Value<Element = T> + MatMul + warpsmith::ops::Number + expr::Promote<T, Output = T>,
    T: warpsmith::ops::MatVec<Wide: Element>,
{
    let (a, b) = (matrix([9, 20], 1, &of), matrix([20, 13], 2, &of));
    check(&a.expr().matmul(&b), a.matmul(&b), "matmul");
    check(&a.expr().matmul(b.expr()), a.matmul(&b), "matmul of two expressions");
    check(&a.expr().matmul(a.t().expr()), a.matmul(&a.t()), "matmul with itself");
    check(&b.t().expr().matmul(&*a.t()), b.t().matmul(&a.t()), "turned");
    let doubled = a.add(&a).unwrap();
    let backwards = a.slice(s![..;-1, ..;-2]).unwrap();
    let part = b.slice(s![..10, 1..]).unwrap();
    check(&backwards.expr().matmul(&*part), backwards.matmul(&part), "parts");
    let negative = b.neg().unwrap();
    check(
        &(&a + &a).matmul(-b.expr()),
        doubled.matmul(&negative),
        "what is computed first",
    );
    let column = b.slice(s![.., 0..1]).unwrap();
    check(&a.expr().matmul(&*column), a.matmul(&column), "a column");
    let vector = b.index_axis(Axis(1), 2).unwrap();
    check(&a.expr().matvec(&*vector), a.matvec(&vector), "a vector");
    let sum = vector.add(&vector).unwrap();
    let both = (&a + &a).matvec(vector.expr() + &*vector);
    check(&both, doubled.matvec(&sum), "a vector that is computed first");
    let nothing = a.slice(s![.., 3..3]).unwrap();
    check(
        &nothing.expr().matmul(&*nothing.t()),
        nothing.matmul(&nothing.t()),
        "no terms",
    );
    let no_rows = a.slice(s![3..3, ..]).unwrap();
    check(&no_rows.expr().matmul(&b), no_rows.matmul(&b), "no rows");
    let stack = a.view().insert_axis(Axis(0)).unwrap();
    let two = matrix([40, 13], 3, &of).into_shape((2, 20, 13)).unwrap();
    check(
        &stack.expr().batched_matmul(&two),
        stack.batched_matmul(&two),
        "a batch",
    );
    // What follows is computed with the type's own arithmetic.
    let product = a.matmul(&b).unwrap();
    check(
        &(a.expr().matmul(&b).square() - a.expr().matmul(&b)),
        product.square().unwrap().sub(&product),
        "around products",
    );
}

#[test]
fn products_are_those_of_arrays() {
    products(|x| x as f32);
    products(|x| x);
    products(|x| (x * 1000.0) as i32);
    products(f16::from_f64);
    products(bf16::from_f64);
}

#[test]
fn products_with_a_precision() {
    let (a, b) = (matrix([9, 20], 1, |x| x as f32), matrix([20, 13], 2, |x| x as f32));
    for precision in [Precision::Full, Precision::Tf32] {
        check(
            &a.expr().matmul_with(&b, precision),
            a.matmul_with(&b, precision),
            "matmul_with",
        );
        let (x, y) = (
            a.view().insert_axis(Axis(0)).unwrap(),
            b.view().insert_axis(Axis(0)).unwrap(),
        );
        check(
            &x.expr().batched_matmul_with(&*y, precision),
            x.batched_matmul_with(&y, precision),
            "batched_matmul_with",
        );
    }
    // Integers beside floats become these.
    let whole = upload(&array![[1u8, 2], [3, 4]]);
    let x = upload(&array![[0.5f32, 1.0]]);
    let product = x.expr().matmul(&whole).eval().unwrap();
    assert_eq!(product.to_ndarray().unwrap(), array![[3.5, 5.0]]);
}

/// What follows a product in its kernel, against the operations one by one.
struct Layer<'x, T: Element> {
    a: &'x DeviceArrayRef<T, Ix2>,
    b: &'x DeviceArrayRef<T, Ix2>,
    row: &'x DeviceArrayRef<T, Ix1>,
    column: &'x DeviceArrayRef<T, Ix2>,
    all: &'x DeviceArrayRef<T, Ix2>,
}

impl<T> Layer<'_, T>
where
    T: Number + Value<Element = T> + MatMul + warpsmith::ops::Number + expr::Promote<T, Output = T>,
{
    /// That each has the bits, and one kernel if `is_fused` says so.
    fn check(&self, is_fused: bool) {
        let Self { a, b, row, column, all } = *self;
        let p = || a.expr().matmul(b);
        let product = a.matmul(b).unwrap();
        let add = |x: &DeviceArrayRef<T, Ix2>, y: &DeviceArrayRef<T, Ix2>| x.add(y).unwrap();
        let row_of_all = row.broadcast(product.raw_dim()).unwrap();
        let biased = product.add(&row_of_all).unwrap();
        let relu = |x: &DeviceArrayRef<T, Ix2>| x.relu().unwrap();
        let column_of_all = column.broadcast(product.raw_dim()).unwrap();
        for (expr, wanted, description) in [
            (p() + row, biased.try_clone().unwrap(), "bias"),
            (row + p(), biased.try_clone().unwrap(), "bias"),
            (p() + column, add(&product, &column_of_all), "bias"),
            (p() + all, add(&product, all), "bias"),
            ((p() + row).relu(), relu(&biased), "bias and relu"),
            (p().relu() + all, add(&relu(&product), all), "relu and residual"),
            (p() + row + all, add(&biased, all), "bias and residual"),
            (
                all + (p() + row).relu(),
                add(&relu(&biased), all),
                "bias, relu and residual",
            ),
            // What its kernel has no place for is behind it.
            ((p() + row + all).relu(), relu(&add(&biased, all)), "bias and residual"),
        ] {
            check(&expr, Ok(wanted), description);
            let kernels = kernels(&expr);
            let is_one = kernels[0].starts_with(&format!("matmul with {description}: "));
            assert_eq!(is_one, is_fused, "{kernels:?} of {}", T::NAME);
        }
        // `relu` has the bits of any type, once.
        check(&p().relu(), product.relu(), "relu");
        let twice = p().relu().relu() + row;
        check(&twice, relu(&product).add(&row_of_all), "relu twice");
        for expr in [p().relu(), twice] {
            assert!(kernels(&expr)[0].starts_with("matmul with relu: "));
        }
    }
}

/// On every device whose kernels sum otherwise.
fn layers<T>(of: impl Fn(f64) -> T, is_fused: bool)
where
    T: Number + Value<Element = T> + MatMul + warpsmith::ops::Number + expr::Promote<T, Output = T>,
{
    // Of these lengths the kernels of Hopper load the addends by pairs, and of those not.
    for n in [24, 13] {
        let host = |array: DeviceArray<T, Ix2>| array.to_ndarray().unwrap();
        let (a, b) = (host(matrix([20, 40], 1, &of)), host(matrix([40, n], 2, &of)));
        let (row, all) = (host(matrix([1, n], 3, &of)), host(matrix([20, n], 4, &of)));
        for device in with_turing() {
            let on = |array: &Array2<T>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
            let column = DeviceArray::from_ndarray(device.default_stream(), &all.slice(s![.., 0..1]).to_owned());
            let row = on(&row).into_shape(n).unwrap();
            Layer {
                a: &on(&a),
                b: &on(&b),
                row: &row,
                column: &column.unwrap(),
                all: &on(&all),
            }
            .check(is_fused);
        }
    }
}

#[test]
fn products_are_followed_by_sums_and_functions_in_their_kernel() {
    layers(|x| x as f32, true);
    layers(|x| x, true);
    layers(|x| (x * 1000.0) as i32, true);
}

/// By the same functions, so that they have the bits that they have of the product's array.
#[test]
fn functions_of_networks_are_done_by_the_products_kernel() {
    fn of<T>(of: impl Fn(f64) -> T)
    where
        T: Number + Value<Element = T> + MatMul + warpsmith::ops::Real + expr::Promote<T, Output = T>,
    {
        let host = |shape, seed| matrix(shape, seed, |x| of(4.0 * x)).to_ndarray().unwrap();
        let (a, b, all) = (host([20, 40], 1), host([40, 13], 2), host([20, 13], 3));
        for device in with_turing() {
            let on = |array: &Array2<T>| DeviceArray::from_ndarray(device.default_stream(), array).unwrap();
            let (a, b, all) = (on(&a), on(&b), on(&all));
            let product = a.matmul(&b).unwrap();
            let (p, q) = (|| a.expr().matmul(&b), || product.expr());
            for (expr, wanted, what) in [
                (p().gelu(), q().gelu(), "gelu"),
                (p().gelu_tanh() + &all, q().gelu_tanh() + &all, "gelu_tanh and residual"),
                ((p() + &all).silu(), (q() + &all).silu(), "bias and silu"),
            ] {
                check(&expr, wanted.eval(), what);
                assert_eq!(kernels(&expr).len(), 1, "{what} of {}", T::NAME);
            }
        }
    }
    of(|x| x as f32);
    of(|x| x);
}

#[test]
fn sums_of_16_bit_products_are_rounded_one_by_one() {
    layers(f16::from_f64, false);
    layers(bf16::from_f64, false);
}

#[test]
fn fast_math_does_in_the_products_kernel_what_has_other_bits() {
    fn of<T>(of: impl Fn(f64) -> T)
    where
        T: Number + Value<Element = T> + MatMul + warpsmith::ops::Real + expr::Promote<T, Output = T>,
    {
        let (a, b, all) = (
            matrix([9, 20], 1, &of),
            matrix([20, 14], 2, &of),
            matrix([9, 14], 3, &of),
        );
        let row = matrix([1, 14], 4, &of).into_shape(14).unwrap();
        let p = || a.expr().matmul(&b);
        let fused = || a.fused_matmul(&b);
        type Case<'x, T> = (Expr<'x, T, Ix2>, FusedMatMul<'x, T, Ix2>, &'static str);
        let cases: Vec<Case<'_, T>> = vec![
            (p() + &row, fused().bias(&row), "bias"),
            (p().relu() + &all, fused().relu().residual(&all), "relu and residual"),
            ((p() + &row).gelu(), fused().bias(&row).gelu(), "bias and gelu"),
            (
                (p() + &row).silu() + &all,
                fused().bias(&row).silu().residual(&all),
                "bias, silu and residual",
            ),
            (
                (p() + &row).gelu_tanh(),
                fused().bias(&row).gelu_tanh(),
                "bias and gelu_tanh",
            ),
            (
                &all + (&row + p()),
                fused().bias(&row).residual(&all),
                "bias and residual",
            ),
        ];
        for (expr, fused, what) in cases {
            let fast = expr.fast_math();
            check(&fast, fused.compute(), what);
            let kernels = kernels(&fast);
            assert_eq!(kernels.len(), 1, "{what} of {}: {kernels:?}", T::NAME);
            assert!(kernels[0].starts_with(&format!("matmul with {what}: ")), "{kernels:?}");
        }
        // What is behind is none of it.
        let behind = p().fast_math().gelu();
        check(&behind, (a.matmul(&b).unwrap().expr().gelu()).eval(), "behind");
        assert_eq!(kernels(&behind).len(), if size_of::<T>() > 2 { 1 } else { 2 });
    }
    of(|x| x as f32);
    of(|x| x);
    of(f16::from_f64);
    of(bf16::from_f64);
    let (a, b) = (matrix([9, 20], 1, |x| x as f32), matrix([20, 14], 2, |x| x as f32));
    let relu = a.expr().matmul_with(&b, Precision::Tf32).relu();
    assert_eq!((kernels(&relu).len(), kernels(&relu.fast_math()).len()), (2, 1));
    let n = upload(&array![[1, -2], [3, -4]]);
    let relu = (n.expr().matmul(&n) + &n).relu().fast_math();
    assert_eq!(kernels(&relu).len(), 1);
    let wanted = n.matmul(&n).unwrap().add(&n).unwrap().relu();
    check(&relu, wanted, "integers");
}

/// Nothing is fused that something else needs, or that is no array of the product's shape.
#[test]
fn products_that_others_need_are_left_alone() {
    let (a, b, all) = (small(Ix2(9, 20), 1), small(Ix2(20, 14), 2), small(Ix2(9, 14), 3));
    let p = a.expr().matmul(&b);
    let product = a.matmul(&b).unwrap();
    let twice = (&p + &all).relu() * &p;
    check(
        &twice,
        product.add(&all).unwrap().relu().unwrap().mul(&product),
        "twice",
    );
    assert_eq!(kernels(&twice).len(), 2);
    assert!(kernels(&twice)[0].starts_with("matmul: "));
    let with_itself = &p + &p;
    check(&with_itself, product.add(&product), "itself");
    for (expr, count) in [
        (&p + 1.0, 2),
        (&p + all.expr().square(), 2),
        (&all - p.clone(), 2),
        (p.clone(), 1),
    ] {
        assert_eq!(kernels(&expr).len(), count);
        assert!(kernels(&expr)[0].starts_with("matmul: "));
    }
    // A row that is repeated to more rows, and one of several batches.
    let first = a.slice(s![..1, ..]).unwrap();
    let row = first.expr().matmul(&b);
    assert_eq!(kernels(&(&row + &all)).len(), 2);
    // Of two products the first has the other one's result added to it.
    let c = small(Ix2(20, 14), 4);
    let sum = a.expr().matmul(&b) + a.expr().matmul(&c).relu();
    let other = a.matmul(&c).unwrap().relu().unwrap();
    check(&sum, product.add(&other), "two products");
    let names: Vec<String> = kernels(&sum)
        .iter()
        .map(|kernel| kernel.split(':').next().unwrap().into())
        .collect();
    assert_eq!(names, ["matmul with relu", "matmul with bias"]);
    // Between products, whose operands they are.
    let turned = b.t();
    let layers = (a.expr().matmul(&b) + &all).relu().matmul(&*turned);
    let hidden = product.add(&all).unwrap().relu().unwrap();
    check(&layers, hidden.matmul(&b.t()), "two layers");
    assert_eq!(kernels(&layers).len(), 2);
}
