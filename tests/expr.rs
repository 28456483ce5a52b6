// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions: the bits of the operations one by one, on the device and on the simulated GPU.

mod bounds;
mod functions;
mod layouts;
mod lifetimes;
mod odd;
mod own;
mod owned;

use ndarray::{Array1, Array2, Array3, Array4, ArrayD, Axis, Dimension, Ix3, IxDyn, array, s};
use proptest::prelude::*;
use warpsmith::expr::{self, Expr};
use warpsmith::{Device, DeviceArray, Error, bf16, f16};

use crate::common::*;

/// An expression, and the array that the operations one by one give.
type Both<'a, T, D = IxDyn> = (Expr<'a, T, D>, DeviceArray<T, D>);

fn check<T: Number + expr::Value<Element = T>, D: Dimension>((expr, eager): &Both<'_, T, D>, what: &str) {
    let got = expr.eval().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(got.shape(), eager.shape(), "{what}");
    assert_same(&elements(&got), &elements(eager), what);
}

/// The operations that every number has, of two arrays and of an array and a number.
fn arithmetic<T>()
where
    T: Number + warpsmith::ops::Number + expr::Value<Element = T> + expr::Promote<T, Output = T>,
{
    let (a, b) = (upload_vec(&random::<T>(1000, 1)), upload_vec(&random::<T>(1000, 2)));
    let number = random::<T>(1, 3)[0];
    let (x, y) = (a.expr(), b.expr());
    for (what, both) in [
        ("add", (&a + &b, a.add(&b))),
        ("sub", (&a - &b, a.sub(&b))),
        ("mul", (&x * &b, a.mul(&b))),
        ("div", (&x / &y, a.div(&b))),
        ("minimum", (x.minimum(&b), a.minimum(&b))),
        ("maximum", (x.maximum(&y), a.maximum(&b))),
        ("pow", (x.pow(&y), a.pow(&b))),
        ("add_scalar", (&x + number, a.add_scalar(number))),
        ("sub of a scalar", (expr::scalar(number) - &x, a.scalar_sub(number))),
        ("neg", (-&x, a.neg())),
        ("abs", (x.abs(), a.abs())),
        ("square", (x.square(), a.square())),
        ("relu", (x.relu(), a.relu())),
        ("clamp", (x.clamp(T::ZERO, T::ONE), a.clamp(T::ZERO, T::ONE))),
        (
            "greater, selected",
            (
                x.greater(&y).select(x.clone(), &y),
                a.greater(&b).unwrap().select(&a, &b),
            ),
        ),
        (
            "less equal, selected",
            (
                x.less_equal(&y).select(x.clone(), &y),
                a.less_equal(&b).unwrap().select(&a, &b),
            ),
        ),
    ] {
        let (expr, eager) = both;
        check(&(expr, eager.unwrap()), what);
    }
    for (what, mask, eager) in [
        ("equal", x.equal(&y), a.equal(&b)),
        ("not equal", x.not_equal(number), a.not_equal_scalar(number)),
        ("less", x.less(&y), a.less(&b)),
        ("greater equal", x.greater_equal(&y), a.greater_equal(&b)),
    ] {
        assert_eq!(
            elements(&mask.eval().unwrap()),
            elements(&eager.unwrap()),
            "{what} of {}",
            T::NAME
        );
    }
    let mut z = upload_vec(&random::<T>(1000, 4));
    let got = x.mul_add(number, &z).eval().unwrap();
    z.axpy(number, &a).unwrap();
    assert_same(&elements(&got), &elements(&z), "mul_add");
}

for_types!(arithmetic: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

#[test]
fn casts_are_those_of_arrays() {
    fn to<T, U>(a: &Dyn<T>)
    where
        T: Number + warpsmith::ops::CastTo<U> + expr::Value<Element = T>,
        U: Number + warpsmith::ops::Number + expr::Value<Element = U>,
    {
        let what = format!("{} to {}", T::NAME, U::NAME);
        check(&(a.expr().cast::<U>(), a.cast::<U>().unwrap()), &what);
    }
    fn from<T>()
    where
        T: Number + expr::Value<Element = T>,
        T: warpsmith::ops::CastTo<f32> + warpsmith::ops::CastTo<f64> + warpsmith::ops::CastTo<f16>,
        T: warpsmith::ops::CastTo<bf16> + warpsmith::ops::CastTo<i32> + warpsmith::ops::CastTo<i64>,
        T: warpsmith::ops::CastTo<u8> + warpsmith::ops::CastTo<u16> + warpsmith::ops::CastTo<u32>,
        T: warpsmith::ops::CastTo<u64>,
    {
        let a = upload_vec(&random::<T>(1000, 6));
        to::<T, f32>(&a);
        to::<T, f64>(&a);
        to::<T, f16>(&a);
        to::<T, bf16>(&a);
        to::<T, i32>(&a);
        to::<T, i64>(&a);
        to::<T, u8>(&a);
        to::<T, u16>(&a);
        to::<T, u32>(&a);
        to::<T, u64>(&a);
    }
    from::<f32>();
    from::<f64>();
    from::<f16>();
    from::<bf16>();
    from::<i32>();
    from::<i64>();
    from::<u8>();
    from::<u16>();
    from::<u32>();
    from::<u64>();
}

#[test]
fn mixtures_have_the_type_that_is_promised() {
    let stream = device().default_stream();
    let half = DeviceArray::from_ndarray(stream, &array![f16::from_f32(0.1), f16::from_f32(3.0)]).unwrap();
    let brain = DeviceArray::from_ndarray(stream, &array![bf16::from_f32(2.0), bf16::from_f32(0.1)]).unwrap();
    let int = DeviceArray::from_ndarray(stream, &array![-7i32, 16_777_217]).unwrap();
    let byte = DeviceArray::from_ndarray(stream, &array![200u8, 3]).unwrap();
    let sum: DeviceArray<f32, _> = (&half + &brain).eval().unwrap();
    let exact = |i: usize, h: f32, b: f32| [f16::from_f32(h).to_f32() + bf16::from_f32(b).to_f32()][i];
    assert_eq!(
        sum.to_ndarray().unwrap(),
        array![exact(0, 0.1, 2.0), exact(0, 3.0, 0.1)]
    );
    let product: DeviceArray<i32, _> = (&int * &byte).eval().unwrap();
    assert_eq!(product.to_ndarray().unwrap(), array![-1400, 50_331_651]);
    let float: DeviceArray<f32, _> = (&int + sum.expr() * 0.0).eval().unwrap();
    assert_eq!(float.to_ndarray().unwrap(), array![-7.0, 16_777_216.0]);
    let chosen: DeviceArray<f64, _> = (byte.expr().greater(100).select(int.expr(), expr::scalar(0.5f64)))
        .eval()
        .unwrap();
    assert_eq!(chosen.to_ndarray().unwrap(), array![-7.0, 0.5]);
    let numbers: DeviceArray<u8, _> = int.expr().less(0).select(255u8, 0).eval().unwrap();
    assert_eq!(numbers.to_ndarray().unwrap(), array![255, 0]);
    let arrays: DeviceArray<i32, _> = byte.expr().greater(100).select(&byte, &int).eval().unwrap();
    assert_eq!(arrays.to_ndarray().unwrap(), array![200, 16_777_217]);
    let bits: DeviceArray<u8, _> = ((!byte.expr() & 0xf0) | byte.expr().shr(4) ^ 1).eval().unwrap();
    assert_eq!(bits.to_ndarray().unwrap(), array![0x30 | 0x0d, 0xf1]);
    let both = (byte.expr().less(10) & int.expr().greater(0)) ^ !byte.expr().equal(3);
    assert_eq!(both.eval().unwrap().to_ndarray().unwrap(), array![1, 1]);
    assert_eq!((&int % 4).eval().unwrap().to_ndarray().unwrap(), array![-3, 1]);
}

#[test]
fn places_along_axes() {
    let stream = device().default_stream();
    let shape = (3, 4, 5, 7);
    let place = |axis| expr::index(shape, axis);
    let table = (((place(0) * 10 + place(1)) * 10 + place(2)) * 10 + place(3))
        .eval_on(stream)
        .unwrap();
    let wanted = Array4::from_shape_fn(shape, |(i, j, k, l)| (1000 * i + 100 * j + 10 * k + l) as u64);
    assert_eq!(table.to_ndarray().unwrap(), wanted);
    // Along a repeated axis of one element all are the first.
    let x = DeviceArray::<u64, _>::zeros(stream, (4, 2)).unwrap();
    let one = (&x + expr::index((1, 2), 0) + expr::index(2, 0)).eval().unwrap();
    assert_eq!(one.to_ndarray().unwrap(), array![[0, 1], [0, 1], [0, 1], [0, 1]]);
    let diagonal = (expr::index((5, 5), 0).equal(expr::index((5, 5), 1)))
        .cast::<f32>()
        .eval_on(stream)
        .unwrap();
    assert_eq!(diagonal.to_ndarray().unwrap(), Array2::<f32>::eye(5));
    assert!(matches!(
        expr::index((2, 2), 2).eval_on(stream),
        Err(Error::Axes { .. })
    ));
}

#[test]
fn in_place_and_into_views() {
    let a = Array2::from_shape_vec((6, 10), random::<f32>(60, 13)).unwrap();
    let row = Array1::from(random::<f32>(10, 14));
    let (mut x, r) = (upload(&a), upload(&row));
    x.update(|x| (x * 2.0 + &r).abs()).unwrap();
    let wanted = (&a * 2.0 + &row).mapv(f32::abs);
    assert_eq!(x.to_ndarray().unwrap(), wanted);
    let (mut x, mut wanted) = (upload(&a), a.clone());
    x.slice_mut(s![..;2, 1..;3]).unwrap().update(|x| -x).unwrap();
    wanted.slice_mut(s![..;2, 1..;3]).mapv_inplace(|x| -x);
    assert_eq!(x.to_ndarray().unwrap(), wanted);
    (&r * 3.0)
        .eval_into(&mut x.index_axis_mut(Axis(0), 2).unwrap())
        .unwrap();
    wanted.row_mut(2).assign(&(&row * 3.0));
    assert_eq!(x.to_ndarray().unwrap(), wanted);
}

#[test]
fn what_is_evaluated_together_is_what_is_evaluated_alone() {
    let (a, b) = (
        upload_vec(&random::<f32>(5000, 15)),
        upload_vec(&random::<i32>(5000, 16)),
    );
    let shared = (&a * &a).exp();
    let (first, second, third) = (&shared + &b, shared.cast::<i32>() ^ &b, shared.less(2.0));
    let together = expr::eval((&first, &second, &third)).unwrap();
    check(&(first, together.0), "the first");
    check(&(second, together.1), "the second");
    assert_eq!(elements(&third.eval().unwrap()), elements(&together.2));
}

#[test]
fn what_does_not_fit_is_an_error_of_the_operation() {
    let stream = device().default_stream();
    let a = DeviceArray::<f32, _>::zeros(stream, (2, 3)).unwrap();
    let b = DeviceArray::<f32, _>::zeros(stream, 4).unwrap();
    let error = ((&a - &b).sqrt() * 2.0).eval().unwrap_err();
    assert_eq!(
        error.to_string(),
        "sub: given shapes [2, 3] and [4], wanted shapes that broadcast together: along each axis, from the last, equal \
         lengths or a 1"
    );
    let other = Device::simulator();
    let c = DeviceArray::<f32, _>::zeros(other.default_stream(), (2, 3)).unwrap();
    assert!(matches!(
        (&a * &c).eval(),
        Err(Error::DifferentDevices { operation: "mul", .. })
    ));
    assert!(matches!(
        a.expr().eval_on(other.default_stream()),
        Err(Error::DifferentDevices { .. })
    ));
    assert!(matches!((expr::scalar(1.0) + 2.0).eval(), Err(Error::Parameter { .. })));
    let mut out = DeviceArray::<f32, _>::zeros(stream, (3, 2)).unwrap();
    let error = a.expr().eval_into(&mut out).unwrap_err();
    assert!(
        error.to_string().contains("shape [2, 3], wanted one of shape [3, 2]"),
        "{error}"
    );
    assert_eq!(
        (expr::scalar(1.5f32) * 2.0)
            .eval_on(stream)
            .unwrap()
            .to_ndarray()
            .unwrap()
            .into_scalar(),
        3.0
    );
    let empty = DeviceArray::<f32, _>::zeros(stream, (0, 3)).unwrap();
    assert_eq!((&empty + 1.0).eval().unwrap().shape(), [0, 3]);
}

/// `fast_math` has one rounding where there were several, within reductions too, and leaves all else as it is.
#[test]
fn fast_math_rounds_less() {
    let (a, b) = (random::<f32>(1000, 18), random::<f32>(1000, 19));
    let (x, y) = (upload_vec(&a), upload_vec(&b));
    let pairs = || a.iter().zip(&b);
    let wanted: Vec<f32> = pairs().map(|(a, b)| a.mul_add(*b, 0.5).mul_add(-b, *a)).collect();
    let sum = &x * &y + 0.5;
    assert_same(
        &elements(&(&x - sum * &y).fast_math().eval().unwrap()),
        &wanted,
        "fast_math",
    );
    let wanted: Vec<f32> = pairs().map(|(a, b)| a.mul_add(*a, -b)).collect();
    assert_same(
        &elements(&(x.expr().square() - &y).fast_math().eval().unwrap()),
        &wanted,
        "squares",
    );
    let largest = elements(&(&x * &y + &x).max().fast_math().eval().unwrap());
    let wanted = pairs()
        .map(|(a, b)| a.mul_add(*b, *a))
        .fold(f32::NEG_INFINITY, f32::max);
    assert!(largest[0] == wanted || largest[0].is_nan());
    let halves: Vec<f16> = (0..1000).map(|i| f16::from_f32(i as f32 / 37.0)).collect();
    let h = upload_vec(&halves);
    let got = ((&h * f16::from_f32(3.3)).tanh() + f16::ONE)
        .fast_math()
        .eval()
        .unwrap();
    let once = halves
        .iter()
        .map(|h| f16::from_f32((h.to_f32() * f16::from_f32(3.3).to_f32()).tanh() + 1.0));
    let bits = |x: f16| i32::from(x.to_bits());
    assert!(
        elements(&got)
            .into_iter()
            .zip(once)
            .all(|(got, once)| (bits(got) - bits(once)).abs() <= 1)
    );
    let untouched = x.expr().exp() + y.expr().sin();
    assert_same(
        &elements(&untouched.fast_math().eval().unwrap()),
        &elements(&untouched.eval().unwrap()),
        "no product",
    );
}

/// Longer than a kernel, and deeper than a stack: 100,000 operations one after another.
#[test]
fn long_expressions_are_cut() {
    let a = upload_vec(&random::<i64>(100, 17));
    let mut chain = a.expr();
    for i in 0..3000 {
        chain = chain * 3 + (i % 7);
    }
    let wanted = elements(&a)
        .into_iter()
        .map(|x| (0..3000).fold(x, |x: i64, i| x.wrapping_mul(3).wrapping_add(i % 7)));
    assert_eq!(elements(&chain.eval().unwrap()), wanted.collect::<Vec<_>>());
    // Twenty doublings are twenty operations, however often the parts stand in it.
    let mut doubled = a.expr();
    for _ in 0..60 {
        doubled = &doubled + &doubled;
    }
    let wanted = elements(&a).into_iter().map(|x| x.wrapping_shl(60));
    assert_eq!(elements(&doubled.eval().unwrap()), wanted.collect::<Vec<_>>());
    // Deeper than a stack: built, told of, computed, by kernels of which each goes on with what the one before has left, and dropped.
    let mut deep = a.expr();
    for i in 0..100_000 {
        deep = deep + (i % 3);
    }
    assert!(deep.explain().unwrap().lines().count() > 60);
    let wanted = elements(&a).into_iter().map(|x| x.wrapping_add(99_999));
    assert_eq!(elements(&deep.eval().unwrap()), wanted.collect::<Vec<_>>());
    let _text = format!("{deep:?}");
    drop(deep);
    let mut deeper = a.expr();
    for _ in 0..200_000 {
        deeper = -deeper;
    }
    drop(deeper);
}

/// A number on either side of every operator, of every type: as the expression of that number.
#[test]
fn numbers_on_either_side_of_every_operator() {
    macro_rules! sides {
        ($($type:ty),*) => {$({
            let of = |numbers: [u8; 4]| numbers.map(|x| <$type as From<u8>>::from(x));
            let (x, n) = (upload_vec(&of([1, 7, 0, 200])), of([3, 0, 0, 0])[0]);
            let number = expr::scalar(n);
            for (at, [got, wanted]) in [
                [&x + n, &x + &number], [n + &x, &number + &x],
                [&x - n, &x - &number], [n - &x, &number - &x],
                [&x * n, &x * &number], [n * &x, &number * &x],
                [&x / n, &x / &number], [n / &x, &number / &x],
                [&x % n, &x % &number], [n % x.expr(), &number % &x],
            ].iter().enumerate() {
                let [got, wanted] = [got, wanted].map(|expr| elements(&expr.eval().unwrap()));
                assert_same(&got, &wanted, &format!("{} {at}", stringify!($type)));
            }
        })*};
    }
    sides!(f32, f64, f16, bf16, i32, i64, u8, u16, u32, u64);
    let x = upload(&array![-7, 7, 8]);
    // The sign of what is divided, as of Rust's; and by zero 0.
    assert_eq!(elements(&(&x % 3).eval().unwrap()), [-1, 1, 2]);
    assert_eq!(elements(&(&x % 0 + 1 / (&x - 7)).eval().unwrap()), [0, 0, 1]);
    let is_odd = (&x & 1).equal(1);
    assert_eq!(elements(&(!(&is_odd) | x.expr().less(0)).eval().unwrap()), [1, 0, 1]);
    assert_eq!(elements(&(is_odd ^ x.expr().less(0)).eval().unwrap()), [0, 1, 0]);
}

#[test]
fn items_are_numbers_and_conditions() {
    let x = upload(&array![3.0f32, -4.0]);
    assert_eq!(x.expr().square().sum().sqrt().item().unwrap(), 5.0);
    assert!(x.expr().less(0.0).any().item().unwrap());
    assert!(!x.expr().less(0.0).all().item().unwrap());
    let error = x.expr().item().unwrap_err().to_string();
    assert!(
        error.contains("an expression of shape [2], wanted one element"),
        "{error}"
    );
    let error = (&x + &upload(&array![1.0f32, 2.0, 3.0])).sum().item().unwrap_err();
    assert!(matches!(error, Error::Shape { operation: "add", .. }), "{error}");
}

#[test]
fn a_graph_computes_expressions_anew() {
    let stream = device().default_stream();
    let mut x = upload(&array![1.0f32, 2.0, 3.0]);
    let step = upload(&array![0.5f32, 0.25, 0.125]);
    let mut graph = stream
        .capture((&mut x, step), |_, (x, step)| x.update(|x| x * 2.0 + &*step))
        .unwrap();
    graph.launch().unwrap();
    graph.launch().unwrap();
    drop(graph);
    assert_eq!(x.to_ndarray().unwrap(), array![5.5, 8.75, 12.375]);
}

/// One more operation of an expression and of its array, on two that are there.
fn grow<'a>(parts: &mut Vec<Both<'a, f32>>, operation: u8, a: usize, b: usize) {
    let (a, b) = (a % parts.len(), b % parts.len());
    let ((x, dx), (y, dy)) = (&parts[a], &parts[b]);
    let new = match operation % 12 {
        0 => (x + y, dx.add(dy)),
        1 => (x - y, dx.sub(dy)),
        2 => (x * y, dx.mul(dy)),
        3 => (x / y, dx.div(dy)),
        4 => (x.maximum(y), dx.maximum(dy)),
        5 => (x.tanh(), dx.tanh()),
        6 => (x.sin(), dx.sin()),
        7 => (x.abs().sqrt(), dx.abs().unwrap().sqrt()),
        8 => (-x, dx.neg()),
        9 => (x * 0.75, dx.mul_scalar(0.75)),
        10 => (x.less(y).select(y.clone(), x), dx.less(dy).unwrap().select(dy, dx)),
        _ => (x.cast::<f16>().cast::<f32>(), dx.cast::<f16>().unwrap().cast::<f32>()),
    };
    parts.push((new.0, new.1.unwrap()));
}

proptest! {
    #![proptest_config(cases(60))]

    /// Random graphs of arrays, rows, columns, transposed views and numbers.
    #[test]
    fn random_graphs_have_the_bits_of_the_operations(
        (rows, columns) in (1usize..40, 1usize..80),
        steps in prop::collection::vec((any::<u8>(), 0usize..100, 0usize..100), 1..25),
        seed in any::<u64>(),
    ) {
        let values = |shape: &[usize], seed: u64| {
            let values = random::<f32>(shape.iter().product(), seed);
            upload(&ArrayD::from_shape_vec(IxDyn(shape), values).unwrap())
        };
        let whole = values(&[rows, columns], seed);
        let transposed = values(&[columns, rows], seed ^ 1);
        let transposed = transposed.view().reversed_axes();
        let (row, column) = (values(&[columns], seed ^ 2), values(&[rows, 1], seed ^ 3));
        let mut parts = vec![
            (whole.expr(), whole.to_array().unwrap()),
            (transposed.expr(), transposed.to_array().unwrap()),
            (row.expr(), row.to_array().unwrap()),
            (column.expr(), column.to_array().unwrap()),
        ];
        for (operation, a, b) in steps {
            grow(&mut parts, operation, a, b);
        }
        check(parts.last().unwrap(), "a random graph");
    }
}

#[test]
fn a_number_before_an_array_is_one_before_its_expression() {
    let (x, n) = (upload(&array![[1.0f32, 2.0], [4.0, 8.0]]), upload(&array![1i32, 2, 3]));
    let same = |got: Expr<'_, f32, ndarray::Ix2>, wanted: Expr<'_, f32, ndarray::Ix2>| {
        assert_eq!(
            got.eval().unwrap().to_ndarray().unwrap(),
            wanted.eval().unwrap().to_ndarray().unwrap()
        );
    };
    same(1.0 - &x, 1.0 - x.expr());
    same(2.0 * &*x + 1.0, 2.0 * x.expr() + 1.0);
    same(8.0 / &x.t() % 3.0, 8.0 / x.t().expr() % 3.0);
    assert_eq!((6 / &n).eval().unwrap().to_ndarray().unwrap(), array![6, 3, 2]);
}

/// On a GPU, arrays that are more than four times the second-level cache, which its kernels are told of: along one axis, which is
/// not whole blocks, and in rows, beside a row that is repeated.
#[test]
fn arrays_of_several_times_the_cache() {
    let columns = 1000;
    let rows = device().properties().l2_cache.unwrap_or(0) as usize / columns + 3;
    let places = expr::index((rows, columns), 0) * 7u64 + expr::index((rows, columns), 1);
    let x = (places % 1000u64)
        .cast::<f32>()
        .eval_on(device().default_stream())
        .unwrap();
    let y = x.add_scalar(0.5).unwrap();
    let row = x.slice(s![..1, ..]).unwrap().to_array().unwrap();
    let same = |got: Expr<'_, f32, ndarray::Ix2>, wanted: &DeviceArray<f32, ndarray::Ix2>| {
        let got = got.eval().unwrap();
        let different = got.expr().not_equal(wanted).count().eval().unwrap();
        assert_eq!(different.to_ndarray().unwrap().into_scalar(), 0);
    };
    same(x.expr() * 2.0 + &y, &x.mul_scalar(2.0).unwrap().add(&y).unwrap());
    same(&x * &row + &y, &x.mul(&row).unwrap().add(&y).unwrap());
    let largest = x.max_axis(Axis(1)).unwrap();
    let wanted = x.sub(&largest.insert_axis(Axis(1)).unwrap()).unwrap();
    same(x.expr() - x.expr().max_axis(Axis(1)).insert_axis(Axis(1)), &wanted);
    let mut z = x.to_array().unwrap();
    z.update(|z| z * 0.5).unwrap();
    same(x.expr() * 0.5, &z);
}

/// On a GPU, of arrays that the second-level cache has no room for every second kernel begins with the last block: with the same
/// bits, of elements in vectors or not, in tiles, of rows and of parts of them.
#[test]
fn kernels_that_begin_with_the_last_block() {
    let columns = 1000;
    let rows = device().properties().l2_cache.unwrap_or(0) as usize / (4 * columns) + 131;
    let places = expr::index((rows, columns), 0) * 7u64 + expr::index((rows, columns), 1);
    let x = ((places % 1000u64).cast::<f32>() * 0.37 - 100.0)
        .eval_on(device().default_stream())
        .unwrap();
    let y = x.t().to_array().unwrap();
    let row = x.slice(s![..1, ..]).unwrap().to_array().unwrap();
    fn same<T: expr::Value<Element: PartialEq>, D: Dimension>(expression: Expr<'_, T, D>, what: &str) {
        let [a, b] = [(); 2].map(|()| expression.eval().unwrap().to_ndarray().unwrap());
        assert!(a == b, "{what}");
    }
    same(x.expr() * 2.0 + 1.0, "elements");
    let part = x.slice(s![.., 1..]).unwrap();
    same(part.expr() * 2.0 + 1.0, "elements between vectors");
    same(x.expr().tanh().cast::<f16>(), "other sizes");
    same(&x * &row + 1.0, "rows");
    same(&x + &y.t(), "a transposed operand");
    let (tiles, whole) = (rows / 64 * 64, columns / 64 * 64);
    let (left, right) = (
        x.slice(s![..tiles, ..whole]).unwrap().to_array().unwrap(),
        y.slice(s![..whole, ..tiles]).unwrap().to_array().unwrap(),
    );
    same(&left + &right.t(), "whole tiles");
    same(x.expr().sum(), "a sum");
    same(x.expr().variance(0), "a variance");
    same(x.expr().sum_axis(Axis(0)), "sums of columns");
    same(x.expr().sum_axis(Axis(1)), "sums of rows");
    same(x.expr().argmax_axis(Axis(0)), "places in columns");
    same(x.expr().softmax(Axis(1)), "rows at once");
    let long = x.slice(s![..rows / 8 * 8, ..]).unwrap().to_array().unwrap();
    let long = long.into_shape((rows / 8, 8 * columns)).unwrap();
    same(long.expr().softmax(Axis(1)), "long rows");
    let [mut a, mut b] = [(); 2].map(|()| x.to_array().unwrap());
    a.update(|a| a * 0.5).unwrap();
    b.update(|b| b * 0.5).unwrap();
    assert_eq!(a.to_ndarray().unwrap(), b.to_ndarray().unwrap());
    let step = expr::compile(|(x, a): (Expr<f32, ndarray::Ix2>, Expr<f32, ndarray::Ix0>)| x.sin() * a);
    let [a, b] = [(); 2].map(|()| step.call((&x, 0.25)).unwrap().to_ndarray().unwrap());
    assert_eq!(a, b);
}
