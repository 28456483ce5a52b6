// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers as parts of expressions: those of the arrays that the generator makes, to the last bit.

use ndarray::{Array2, ArrayD, Axis, Dimension, IntoDimension, IxDyn, s};
use warpsmith::expr::{self, Expr, Value};
use warpsmith::{Device, DeviceArray, Error, Generator, Result, Stream};

use crate::common::*;

fn stream() -> &'static Stream {
    device().default_stream()
}

/// Shapes with elements side by side, with axes of one element and of none, and with lengths that are no multiples of 4.
fn shapes() -> Vec<Vec<usize>> {
    let lengths = [0, 1, 2, 3, 4, 31, 256, 1001, 10_000].map(|len| vec![len]);
    let others: [&[usize]; 9] = [
        &[],
        &[3, 5],
        &[1, 7],
        &[7, 1],
        &[1, 1],
        &[0, 3],
        &[2, 3, 5],
        &[40, 130],
        &[3, 1, 1, 70],
    ];
    lengths.into_iter().chain(others.map(<[usize]>::to_vec)).collect()
}

/// Places in a sequence, the end of the numbers among them.
const PLACES: [u64; 3] = [0, 12_345, u64::MAX - 3];

/// The array that `eager` makes and the expression of `lazy` have the same elements, and leave the generator at the same place.
fn same<T: Value<Element: Number>>(
    eager: impl Fn(&mut Generator, IxDyn) -> Result<Dyn<T::Element>>,
    lazy: impl Fn(&mut Generator, IxDyn) -> Expr<'static, T, IxDyn>,
    what: &str,
) {
    for (shape, place) in shapes().into_iter().zip(PLACES.into_iter().cycle()) {
        let what = format!("{what} of shape {shape:?} at {place}");
        let mut generator = Generator::new(0x0123_4567_89ab_cdef).with_sequence(1 << 40).at(place);
        let mut other = generator.clone();
        let wanted = eager(&mut generator, IxDyn(&shape)).unwrap();
        let numbers = lazy(&mut other, IxDyn(&shape));
        assert_eq!(other, generator, "{what}");
        for _ in 0..2 {
            let got = numbers.eval_on(stream()).unwrap();
            assert_eq!(got.shape(), shape, "{what}");
            assert_same(&elements(&got), &elements(&wanted), &what);
        }
    }
}

macro_rules! same {
    ($($type:ty: $method:ident, $lazy:ident ($($parameter:expr),*);)*) => {$(
        same::<$type>(
            |generator, shape| generator.$method(stream(), shape, $($parameter),*),
            |generator, shape| generator.$lazy(shape, $($parameter),*),
            stringify!($method of $type: $($parameter),*),
        );
    )*};
}

#[test]
fn uniform_numbers() {
    same! {
        f32: uniform, uniform_expr(0.0f32..1.0);
        f32: uniform, uniform_expr(-0.0f32..1.0);
        f32: uniform, uniform_expr(-1.0f32..2.0);
        f64: uniform, uniform_expr(0.0f64..1.0);
        f64: uniform, uniform_expr(-1.0f64..2.0);
    }
}

/// Where the sum rounds to the end, and where it is 0 of either sign.
#[test]
fn uniform_numbers_of_ranges_that_round() {
    for range in [
        1.0f32..1.0 + 2.0 * f32::EPSILON,
        1.0..1.0 + f32::EPSILON,
        -1e-45..1e-45,
        -1e-45..0.0,
        0.0..1e-45,
        16_777_213.0..16_777_216.0,
        f32::MIN / 2.0..f32::MAX / 2.0,
    ] {
        let wanted = Generator::new(2).uniform(stream(), 20_000, range.clone()).unwrap();
        let got = Generator::new(2)
            .uniform_expr(20_000, range.clone())
            .eval_on(stream())
            .unwrap();
        assert_same(&elements(&got), &elements(&wanted), &format!("{range:?}"));
    }
}

#[test]
fn normal_numbers() {
    same! {
        f32: normal, normal_expr(3.0f32, 0.5);
        f64: normal, normal_expr(3.0f64, 0.5);
        f32: normal, normal_expr(2.5f32, 0.0);
        f32: standard_normal, standard_normal_expr();
        f64: standard_normal, standard_normal_expr();
    }
}

/// By ranges whose integers the block's words decide nearly always, never, and half of the time.
#[test]
fn integers() {
    same! {
        i32: integers, integers_expr(-20..=30i32);
        i32: integers, integers_expr(..0i32);
        i32: integers, integers_expr(7..8i32);
        u32: integers, integers_expr(..=1u32 << 16);
        u32: integers, integers_expr(..=1u32 << 31);
        u32: integers, integers_expr(..u32::MAX);
        u32: integers, integers_expr(..);
        i64: integers, integers_expr(i64::MIN..5);
        u64: integers, integers_expr(..=999u64);
        u64: integers, integers_expr(..=1u64 << 62);
        u64: integers, integers_expr(..u64::MAX);
        u64: integers, integers_expr(..);
    }
}

#[test]
fn conditions() {
    same! {
        bool: bernoulli, bernoulli_expr(0.375);
        bool: bernoulli, bernoulli_expr(0.0);
        bool: bernoulli, bernoulli_expr(1.0);
    }
}

fn noise<D: Dimension>(shape: impl IntoDimension<Dim = D>) -> Expr<'static, i32, D> {
    Generator::new(5).integers_expr(shape, -1000..1000)
}

fn noise_array(shape: [usize; 2]) -> Array2<i32> {
    Generator::new(5)
        .integers(stream(), shape, -1000..1000)
        .unwrap()
        .to_ndarray()
        .unwrap()
}

/// Numbers that follow from a seed.
fn numbers(shape: [usize; 2], seed: u64) -> Array2<i32> {
    let values = random::<i32>(shape[0] * shape[1], seed).into_iter().map(|x| x >> 12);
    Array2::from_shape_vec(shape, values.collect()).unwrap()
}

/// Beside arrays and views, repeated along axes, in place, into views, and of several expressions at once: they are the same.
#[test]
fn they_are_the_same_wherever_they_stand() {
    let shape = [37, 50];
    let (host, wanted) = (numbers(shape, 1), noise_array(shape));
    let mut x = upload(&host);
    let turned = upload(&host.t().as_standard_layout().to_owned());
    let turned = turned.view().reversed_axes();

    let sum = (&x + noise(shape)).eval().unwrap();
    assert_eq!(sum.to_ndarray().unwrap(), &host + &wanted);
    let sum = (&turned + noise(shape)).eval().unwrap();
    assert_eq!(sum.to_ndarray().unwrap(), &host + &wanted);
    let (sum, product) = expr::eval((&(&x + noise(shape)), &(&x * noise(shape)))).unwrap();
    assert_eq!(sum.to_ndarray().unwrap(), &host + &wanted);
    assert_eq!(product.to_ndarray().unwrap(), &host * &wanted);

    // A row, a column and one number for all, by themselves repeated.
    let row = noise_array([1, 50]);
    assert_eq!((&x + noise(50)).eval().unwrap().to_ndarray().unwrap(), &host + &row);
    assert_eq!(
        (&x + noise((1, 50))).eval().unwrap().to_ndarray().unwrap(),
        &host + &row
    );
    assert_eq!(
        (&x + noise(37).insert_axis(Axis(1)))
            .eval()
            .unwrap()
            .to_ndarray()
            .unwrap(),
        &host + &noise_array([37, 1])
    );
    let one = noise_array([1, 1])[[0, 0]];
    assert_eq!((&x + noise(())).eval().unwrap().to_ndarray().unwrap(), &host + one);

    // Elements that begin beside a multiple of a vector.
    let mut larger = upload(&Array2::<i32>::zeros((40, 60)));
    noise(shape)
        .eval_into(&mut larger.slice_mut(s![2..39, 3..53]).unwrap())
        .unwrap();
    let part = larger.slice(s![2..39, 3..53]).unwrap();
    assert_eq!(part.to_ndarray().unwrap(), wanted);

    x.update(|x| x - noise(shape)).unwrap();
    assert_eq!(x.to_ndarray().unwrap(), &host - &wanted);
}

/// Reductions of them, along every set of axes, read nothing; those of integers are exact.
#[test]
fn reductions() {
    for shape in [
        vec![10_007],
        vec![3, 1, 700],
        vec![700, 3],
        vec![70, 2, 33],
        vec![2, 5, 7, 3],
        vec![70_001],
    ] {
        let eager = Generator::new(5)
            .integers(stream(), IxDyn(&shape), -1000..1000)
            .unwrap();
        let lazy = noise(IxDyn(&shape));
        for set in 1usize..1 << shape.len() {
            let what = format!("shape {shape:?}, axes {set:b}");
            let axes: Vec<usize> = (0..shape.len()).filter(|axis| set >> axis & 1 == 1).collect();
            let check = |got: Expr<'_, i64, IxDyn>, wanted: Expr<'_, i64, IxDyn>| {
                let (got, wanted) = (got.eval_on(stream()).unwrap(), wanted.eval().unwrap());
                assert_eq!(got.shape(), wanted.shape(), "{what}");
                assert_same(&elements(&got), &elements(&wanted), &what);
            };
            check(lazy.sum_axes(&axes), eager.expr().sum_axes(&axes));
            check(lazy.max_axes(&axes).cast(), eager.expr().max_axes(&axes).cast());
            check(lazy.argmin_axes(&axes).cast(), eager.expr().argmin_axes(&axes).cast());
            check(
                lazy.less(0).count_axes(&axes).cast(),
                eager.expr().less(0).count_axes(&axes).cast(),
            );
            let [got, wanted] = [lazy.variance_axes(&axes, 0), eager.expr().variance_axes(&axes, 0)]
                .map(|variance| elements(&variance.eval_on(stream()).unwrap()));
            for (got, wanted) in got.into_iter().zip(wanted) {
                assert!((got - wanted).abs() <= 1e-12 * wanted, "{what}: {got}, wanted {wanted}");
            }
        }
    }
}

/// What follows from a reduction of them stands beside them, which are computed once more.
#[test]
fn they_stand_beside_what_they_are_reduced_to() {
    for (shape, axis) in [((9, 100), 1), ((100, 9), 0), ((2, 20_000), 1)] {
        let axis = Axis(axis);
        let centred = noise(shape).cast::<i64>() - noise(shape).sum_axis(axis).insert_axis(axis);
        let wanted = noise_array([shape.0, shape.1]).mapv(i64::from);
        let wanted = &wanted - &wanted.sum_axis(axis).insert_axis(axis);
        assert_eq!(centred.eval_on(stream()).unwrap().to_ndarray().unwrap(), wanted);
    }
}

/// The area of a quarter of a circle, by points that nobody keeps: the same on every device.
#[test]
fn a_circle() {
    let points = 300_000;
    let inside = |device: &Device| {
        let mut random = Generator::new(2026);
        let (x, y) = (
            random.uniform_expr(points, 0.0f32..1.0),
            random.uniform_expr(points, 0.0f32..1.0),
        );
        let inside = (x.square() + y.square())
            .less(1.0)
            .count()
            .eval_on(device.default_stream());
        inside.unwrap().to_ndarray().unwrap().into_scalar()
    };
    let count = inside(device());
    let pi = 4.0 * count as f64 / points as f64;
    // Five standard deviations.
    let error = 5.0 * (std::f64::consts::PI * (4.0 - std::f64::consts::PI) / points as f64).sqrt();
    assert!((pi - std::f64::consts::PI).abs() < error, "{pi}");
    assert_eq!(inside(&Device::simulator()), count);
}

/// Clones have the same numbers, other places, sequences and seeds others.
#[test]
fn seeds() {
    let numbers = |generator: &Generator| {
        let mut generator = generator.clone();
        elements(&generator.integers_expr::<u64, _>(100, ..).eval_on(stream()).unwrap())
    };
    let first = Generator::new(3);
    assert_eq!(numbers(&first), numbers(&Generator::new(3)));
    let others = [
        Generator::new(4),
        Generator::new(3 + (1 << 32)),
        first.clone().with_sequence(1),
        first.clone().with_sequence(1 << 32),
        first.clone().at(50),
    ];
    for other in others {
        assert!(
            numbers(&first).iter().all(|number| !numbers(&other).contains(number)),
            "{other:?}"
        );
    }
}

#[test]
fn parameters_that_are_none() {
    let mut generator = Generator::new(1);
    let error = |result: Result<Dyn<f32>>| result.unwrap_err().to_string();
    let shape = || IxDyn(&[2]);
    for (lazy, eager) in [
        (
            generator.clone().uniform_expr(shape(), 2.0f32..2.0),
            generator.uniform(stream(), shape(), 2.0..2.0),
        ),
        (
            generator.clone().normal_expr(shape(), 0.0f32, -1.0),
            generator.normal(stream(), shape(), 0.0, -1.0),
        ),
    ] {
        assert_eq!(error(lazy.eval_on(stream())), error(eager));
    }
    for error in [
        generator.uniform_expr(2, f64::NAN..1.0).eval_on(stream()).unwrap_err(),
        generator
            .normal_expr(2, f64::INFINITY, 1.0)
            .eval_on(stream())
            .unwrap_err(),
        (generator.integers_expr(2, 5..5) * 2).eval_on(stream()).unwrap_err(),
        generator.bernoulli_expr(2, 1.5).eval_on(stream()).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Parameter { .. }), "{error}");
    }
    let too_many = generator
        .uniform_expr((1 << 40, 1 << 40), 0.0f32..1.0)
        .sum()
        .eval_on(stream());
    assert!(matches!(too_many, Err(Error::Shape { .. })), "{too_many:?}");
    assert_eq!(generator.position(), 0, "what fails takes no block");
    // Of no array, there is no stream.
    let homeless = generator.bernoulli_expr(2, 0.5).eval();
    assert!(matches!(homeless, Err(Error::Parameter { .. })), "{homeless:?}");
    let array = DeviceArray::<f32, _>::zeros(stream(), 3).unwrap();
    let misfit = (&array + generator.standard_normal_expr::<f32, _>(2)).eval();
    assert!(matches!(misfit, Err(Error::Shape { .. })), "{misfit:?}");
}

/// A mean and a deviation of many, of which none is in an array.
#[test]
fn moments() {
    let normal = Generator::new(9).normal_expr::<f64, _>((100, 1000), 5.0, 2.0);
    let eager: ArrayD<f64> = Generator::new(9)
        .normal(stream(), (100, 1000), 5.0, 2.0)
        .unwrap()
        .to_ndarray()
        .unwrap()
        .into_dyn();
    let [mean, deviation] = [normal.mean(), normal.std(0)]
        .map(|number| number.eval_on(stream()).unwrap().to_ndarray().unwrap().into_scalar());
    assert!((mean - eager.mean().unwrap()).abs() < 1e-12, "{mean}");
    assert!((deviation - eager.std(0.0)).abs() < 1e-12, "{deviation}");
}
