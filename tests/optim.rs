// SPDX-License-Identifier: MIT OR Apache-2.0
//! Optimisers against their formulas in `f64`, and recorded steps against steps one by one.

use ndarray::{Array1, Array2, ArrayD, Axis, Ix1, IxDyn, array, s};
use warpsmith::expr::{Promote, Value};
use warpsmith::optim::{Adam, LossScale, LossScaleState, Parameter, Sgd, clip_norm};
use warpsmith::{Device, DeviceArray, Error, Result, bf16, f16};

use crate::common::*;

mod together;

/// Floats that are parameters.
trait Float: FloatNumber + Parameter + Value<Element = Self> + Promote<Self, Output = Self> {}

impl Float for f32 {}
impl Float for f64 {}
impl Float for f16 {}
impl Float for bf16 {}

/// The unit roundoff of what is computed with.
fn unit<T: Float>() -> f64 {
    T::UNIT_ROUNDOFF.min(f32::UNIT_ROUNDOFF)
}

/// Numbers from 0.5 to 2, of either sign: sums of an element's in several steps lose no digits.
fn numbers<T: Float>(len: usize, seed: u64) -> ArrayD<T> {
    let values = random::<i32>(len, seed).into_iter();
    let values = values.map(|x| {
        let size = 0.5 + f64::from(x.unsigned_abs() >> 8) / f64::from(1 << 23) * 1.5;
        T::of(size.copysign(f64::from(x)))
    });
    ArrayD::from_shape_vec(IxDyn(&[len]), values.collect()).unwrap()
}

const LEN: usize = 257;
const STEPS: usize = 12;
const RATE: f64 = 0.03125;
const DECAY: f64 = 0.25;

/// The parameters are off by a rounding of each step, and by some of each step's length.
#[track_caller]
fn assert_near<T: Float>(got: &[T], wanted: &[f64], lengths: &[f64], what: &str) {
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let steps = STEPS as f64 * (T::UNIT_ROUNDOFF * (wanted.abs() + lengths[i]) + 4.0 * unit::<T>() * wanted.abs());
        let bound = 1.01 * (steps + 32.0 * unit::<T>() * lengths[i]);
        let off = (got.wide() - wanted).abs();
        assert!(
            off <= bound,
            "{what} of {}: {i} is {got:?}, wanted {wanted:e}; {off:e} > {bound:e}",
            T::NAME
        );
    }
}

/// Steps are of numbers that have one sign, since each element's gradient keeps its own, larger than what decay adds.
fn sgd<T: Float>() {
    for (momentum, is_nesterov, decay) in [
        (0.0, false, 0.0),
        (0.0, false, DECAY),
        (0.875, false, 0.0),
        (0.875, true, 0.0),
        (0.875, true, DECAY),
    ] {
        let what = format!("momentum {momentum}, Nesterov's {is_nesterov}, decay {decay}");
        let (w, g) = (numbers::<T>(LEN, 1), numbers::<T>(LEN, 2));
        let mut weights = upload(&w);
        let gradient = upload(&g);
        let mut sgd = Sgd::new(&weights, RATE).unwrap().weight_decay(decay).unwrap();
        sgd = match (momentum, is_nesterov) {
            (0.0, _) => sgd,
            (_, false) => sgd.momentum(momentum).unwrap(),
            _ => sgd.nesterov(momentum).unwrap(),
        };
        let mut wanted: Vec<f64> = w.iter().map(|w| w.wide()).collect();
        let (mut velocity, mut lengths) = (vec![0.0; LEN], vec![0.0; LEN]);
        for _ in 0..STEPS {
            sgd.step(&mut weights, &gradient).unwrap();
            for i in 0..LEN {
                let g = g[i].wide() + decay * wanted[i];
                velocity[i] = momentum * velocity[i] + g;
                let step = if is_nesterov {
                    g + momentum * velocity[i]
                } else {
                    velocity[i]
                };
                wanted[i] -= RATE * step;
                lengths[i] += RATE * (step.abs() + decay * wanted[i].abs());
            }
        }
        assert_near(&elements(&weights), &wanted, &lengths, &what);
    }
}
for_types!(sgd: f32 f64 f16 bf16);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Decay {
    None,
    Coupled,
    Decoupled,
}

fn adam<T: Float>() {
    for decay in [Decay::None, Decay::Coupled, Decay::Decoupled] {
        let (w, g) = (numbers::<T>(LEN, 3), numbers::<T>(LEN, 4));
        let mut weights = upload(&w);
        let mut adam = Adam::new(&weights, RATE).unwrap().betas(0.875, 0.96875).unwrap();
        adam = adam.epsilon(0.001).unwrap();
        adam = match decay {
            Decay::None => adam,
            Decay::Coupled => adam.weight_decay(DECAY / 4.0).unwrap(),
            Decay::Decoupled => adam.decoupled_weight_decay(DECAY).unwrap(),
        };
        let mut wanted: Vec<f64> = w.iter().map(|w| w.wide()).collect();
        let (mut mean, mut square) = (vec![0.0; LEN], vec![0.0; LEN]);
        let mut lengths = vec![0.0; LEN];
        for t in 1..=STEPS as i32 {
            // One that changes, and is an expression.
            let gradient = upload(&g);
            let scale = 1.0 + f64::from(t % 3);
            adam.step(&mut weights, gradient.expr() * T::of(scale)).unwrap();
            for i in 0..LEN {
                let mut g = T::of(g[i].wide() * scale).wide();
                if decay == Decay::Coupled {
                    g += DECAY / 4.0 * wanted[i];
                }
                mean[i] = 0.875 * mean[i] + 0.125 * g;
                square[i] = 0.96875 * square[i] + 0.03125 * g * g;
                let (m, v) = (
                    mean[i] / (1.0 - 0.875f64.powi(t)),
                    square[i] / (1.0 - 0.96875f64.powi(t)),
                );
                let step = RATE * m / (v.sqrt() + 0.001);
                if decay == Decay::Decoupled {
                    wanted[i] -= RATE * DECAY * wanted[i];
                }
                wanted[i] -= step;
                lengths[i] += step.abs();
            }
        }
        assert_near(&elements(&weights), &wanted, &lengths, &format!("{decay:?}"));
    }
}
for_types!(adam: f32 f64 f16 bf16);

/// The parameters after steps with one rate and with another.
fn by_steps(start: &Array1<f32>, gradient: &Array1<f32>) -> Vec<f32> {
    let (mut weights, gradient) = (upload(start), upload(gradient));
    let mut adam = Adam::new(&weights, 0.1).unwrap().decoupled_weight_decay(0.5).unwrap();
    for _ in 0..5 {
        adam.step(&mut weights, &gradient).unwrap();
    }
    adam.set_learning_rate(0.01).unwrap();
    for _ in 0..5 {
        adam.step(&mut weights, &gradient).unwrap();
    }
    elements(&weights)
}

#[test]
fn recorded_steps_count_and_take_the_learning_rate_of_now() {
    let (start, gradient) = (
        Array1::from_shape_fn(1000, |i| (i as f32).sin()),
        Array1::from_shape_fn(1000, |i| (i as f32).cos()),
    );
    let stream = device().default_stream();
    let weights = upload(&start);
    let adam = Adam::new(&weights, 0.1).unwrap().decoupled_weight_decay(0.5).unwrap();
    let mut graph = stream
        .capture((weights, adam, upload(&gradient)), |_, (weights, adam, gradient)| {
            adam.step(weights, &*gradient)
        })
        .unwrap();
    for _ in 0..5 {
        graph.launch().unwrap();
    }
    graph.args_mut().1.set_learning_rate(0.01).unwrap();
    for _ in 0..4 {
        graph.launch().unwrap();
    }
    // And one that is not recorded.
    let (weights, adam, gradient_here) = graph.args_mut();
    adam.step(weights, &*gradient_here).unwrap();
    assert_same(&elements(&graph.args().0), &by_steps(&start, &gradient), "Adam");

    let weights = upload(&start);
    let sgd = Sgd::new(&weights, 0.5).unwrap().momentum(0.5).unwrap();
    let mut graph = stream
        .capture(
            (weights, sgd, upload(&Array1::<f32>::ones(1000))),
            |_, (weights, sgd, gradient)| sgd.step(weights, &*gradient),
        )
        .unwrap();
    graph.launch().unwrap();
    graph.args_mut().1.set_learning_rate(0.25).unwrap();
    graph.launch().unwrap();
    let wanted = start.mapv(|w| w - 0.5 - 0.25 * 1.5);
    assert_same(&elements(&graph.args().0), &wanted.to_vec(), "SGD");
}

/// What another optimiser does with the state, and the parameters' elements, has the same bits.
fn interrupted<T: Float>() {
    let (w, g) = (numbers::<T>(LEN, 5), upload(&numbers::<T>(LEN, 6)));
    let gradient = |t: i32| g.expr() * T::of(1.0 + f64::from(t % 3));
    let mut weights = upload(&w);
    let make_adam = || {
        let adam = Adam::new(&upload(&w), RATE).unwrap().betas(0.875, 0.96875).unwrap();
        adam.decoupled_weight_decay(DECAY).unwrap()
    };
    let mut adam = make_adam();
    for t in 0..5 {
        adam.step(&mut weights, gradient(t)).unwrap();
    }
    let (mut state, mut loaded, mut next) = (adam.state().unwrap(), weights.try_clone().unwrap(), make_adam());
    assert_eq!(state.steps, 5);
    next.set_state(&state).unwrap();
    for t in 5..9 {
        adam.step(&mut weights, gradient(t)).unwrap();
        next.step(&mut loaded, gradient(t)).unwrap();
    }
    assert_same(&elements(&loaded), &elements(&weights), "Adam");
    assert_eq!(next.state().unwrap(), adam.state().unwrap());
    // A count that no loop gets to: nothing is left to be corrected.
    state.steps = u64::MAX;
    next.set_state(&state).unwrap();
    next.step(&mut loaded, &g).unwrap();
    assert!(elements(&loaded).iter().all(|w| w.wide().is_finite()));

    let make_sgd = || Sgd::new(&upload(&w), RATE).unwrap().nesterov(0.875).unwrap();
    let mut sgd = make_sgd();
    sgd.step(&mut weights, &g).unwrap();
    let (state, mut loaded, mut next) = (sgd.state().unwrap(), weights.try_clone().unwrap(), make_sgd());
    next.set_state(&state).unwrap();
    sgd.step(&mut weights, gradient(1)).unwrap();
    next.step(&mut loaded, gradient(1)).unwrap();
    assert_same(&elements(&loaded), &elements(&weights), "SGD");
}
for_types!(interrupted: f32 bf16);

#[test]
fn states_of_recorded_steps() {
    let stream = device().default_stream();
    let start = Array1::from_shape_fn(100, |i| (i as f32).sin());
    let record = || {
        let (weights, gradient) = (upload(&start), upload(&Array1::<f32>::ones(100)));
        let adam = Adam::new(&weights, 0.1).unwrap();
        let scale = LossScale::new(stream, 1.0).unwrap().growth_interval(3).unwrap();
        let args = (weights, adam, scale, gradient);
        let step = stream.capture(args, |_, (weights, adam, scale, gradient)| {
            scale.update(&[gradient.view().into_dyn()])?;
            adam.step_scaled(weights, &*gradient, scale)
        });
        step.unwrap()
    };
    let mut wanted = record();
    (0..4).for_each(|_| wanted.launch().unwrap());
    let mut graph = record();
    let (weights, adam, scale, _) = graph.args_mut();
    weights.assign(&wanted.args().0).unwrap();
    adam.set_state(&wanted.args().1.state().unwrap()).unwrap();
    let state = wanted.args().2.state().unwrap();
    assert_eq!(state, LossScaleState { value: 2.0, steps: 1 });
    scale.set_state(&state).unwrap();
    for graph in [&mut wanted, &mut graph] {
        (0..3).for_each(|_| graph.launch().unwrap());
    }
    assert_same(&elements(&graph.args().0), &elements(&wanted.args().0), "weights");
    assert_eq!(graph.args().1.state().unwrap(), wanted.args().1.state().unwrap());
    assert_eq!(graph.args().2.state().unwrap(), LossScaleState { value: 4.0, steps: 1 });
}

#[test]
fn states_that_do_not_fit_change_nothing() {
    let x = upload(&array![[1.0f32, 2.0]]);
    let mut adam = Adam::new(&x, 0.1).unwrap();
    let before = adam.state().unwrap();
    let mut other = Adam::new(&upload(&array![[1.0f32], [2.0]]), 0.1)
        .unwrap()
        .state()
        .unwrap();
    other.steps = 3;
    let error = adam.set_state(&other).unwrap_err().to_string();
    assert_eq!(
        error,
        "Adam::set_state: given mean of shape [2, 1], wanted that of the parameters, [1, 2]"
    );
    other.mean = before.mean.clone();
    let error = adam.set_state(&other).unwrap_err().to_string();
    assert!(error.contains("square of shape [2, 1]"), "{error}");
    assert_eq!(adam.state().unwrap(), before);
    let mut plain = Sgd::new(&x, 0.1).unwrap();
    let with_momentum = Sgd::new(&x, 0.1).unwrap().momentum(0.5).unwrap();
    let error = plain
        .set_state(&with_momentum.state().unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("velocity") && error.contains("given one, wanted none"),
        "{error}"
    );
    let mut scale = LossScale::new(device().default_stream(), 8.0).unwrap();
    let zero = LossScaleState { value: 0.0, steps: 0 };
    assert!(matches!(scale.set_state(&zero), Err(Error::Parameter { .. })));
    assert_eq!(scale.state().unwrap(), LossScaleState { value: 8.0, steps: 0 });
}

#[test]
fn views_empty_arrays_and_gradients_of_other_types() {
    let start = Array2::<f32>::from_shape_fn((5, 8), |(i, j)| (i * 8 + j) as f32);
    let mut all = upload(&start);
    {
        let mut part = all.slice_mut(s![..;2, 1..4]).unwrap();
        let gradient = DeviceArray::from_elem(device().default_stream(), (3, 3), bf16::from_f32(2.0)).unwrap();
        let mut sgd = Sgd::new(&part, 0.25).unwrap().momentum(0.5).unwrap();
        sgd.step(&mut part, &gradient).unwrap();
        let mut plain = Sgd::new(&part, 0.5).unwrap();
        plain.step(&mut part, gradient.expr().cast::<f32>() * 0.5).unwrap();
    }
    let mut wanted = start.clone();
    wanted.slice_mut(s![..;2, 1..4]).mapv_inplace(|w| w - 1.0);
    assert_same(&elements(&all), wanted.as_slice().unwrap(), "a part");
    let mut none = all.slice_mut(s![..0, ..]).unwrap();
    let gradient = DeviceArray::<f32, _>::zeros(device().default_stream(), (0, 8)).unwrap();
    Adam::new(&none, 0.1).unwrap().step(&mut none, &gradient).unwrap();
    // Parameters of 16 bits have a state of 32: a thousand small gradients are not lost in the velocity.
    let mut narrow = upload(&array![f16::ZERO]);
    let small = upload(&array![f16::from_f32(6e-8)]);
    let mut sgd = Sgd::new(&narrow, 1000.0).unwrap().momentum(0.999).unwrap();
    for _ in 0..100 {
        sgd.step(&mut narrow, &small).unwrap();
    }
    let got = elements(&narrow)[0].to_f64();
    let wanted: f64 = -(0..100)
        .map(|t| (1..=t + 1).map(|k| 0.999f64.powi(k - 1)).sum::<f64>())
        .sum::<f64>()
        * 5.960_464_5e-5;
    assert!((got - wanted).abs() < 0.02 * wanted.abs(), "{got} {wanted}");
}

#[test]
fn errors_change_nothing() {
    let mut x = upload(&array![[1.0f32, 2.0]]);
    let row = upload(&array![1.0f32, 1.0]);
    let mut adam = Adam::new(&x, 0.1).unwrap();
    let mut sgd = Sgd::new(&x, 0.1).unwrap().momentum(0.9).unwrap();
    for error in [adam.step(&mut x, &row).unwrap_err(), sgd.step(&mut x, 1.0).unwrap_err()] {
        assert!(
            matches!(
                error,
                Error::Shape {
                    operation: "Adam::step" | "Sgd::step",
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("[1, 2]"), "{error}");
    }
    let mut other = upload(&array![[1.0f32], [2.0]]);
    let gradient = upload(&array![[1.0f32], [2.0]]);
    assert!(matches!(adam.step(&mut other, &gradient), Err(Error::Shape { .. })));
    assert!(matches!(sgd.step(&mut other, &gradient), Err(Error::Shape { .. })));
    let hopper = Device::simulated_hopper();
    let mut far = DeviceArray::<f32, _>::ones(hopper.default_stream(), (1, 2)).unwrap();
    let far_gradient = far.ones_like().unwrap();
    assert!(matches!(
        adam.step(&mut far, &far_gradient),
        Err(Error::DifferentDevices { .. })
    ));
    assert!(matches!(
        sgd.step(&mut far, &far_gradient),
        Err(Error::DifferentDevices { .. })
    ));
    assert_eq!(
        (elements(&x), elements(&other), elements(&far)),
        (vec![1.0, 2.0], vec![1.0, 2.0], vec![1.0; 2])
    );
    // Adam has not counted: its next step is its first.
    let gradient = upload(&array![[1.0f32, -1.0]]);
    adam.step(&mut x, &gradient).unwrap();
    let first = elements(&x);
    assert!(
        (first[0] - 0.9).abs() < 1e-6 && (first[1] - 2.1).abs() < 1e-6,
        "{first:?}"
    );
    let refused = |result: Result<()>| matches!(result, Err(Error::Parameter { .. }));
    assert!(refused(Sgd::new(&x, -1.0).map(|_| ())) && refused(Adam::new(&x, f64::NAN).map(|_| ())));
    assert!(refused(Sgd::new(&x, 1.0).unwrap().momentum(1.0).map(|_| ())));
    assert!(refused(
        Sgd::new(&x, 1.0).unwrap().weight_decay(f64::INFINITY).map(|_| ())
    ));
    assert!(refused(Adam::new(&x, 1.0).unwrap().betas(0.9, 1.0).map(|_| ())));
    assert!(refused(adam.set_learning_rate(-0.1)));
}

#[test]
fn norms_are_clipped() {
    let stream = device().default_stream();
    let mut a = upload(&Array2::from_shape_fn((30, 40), |(i, j)| ((i + j) % 5) as f32 - 2.0));
    let mut b = upload(&Array1::from_shape_fn(1001, |i| (i % 3) as f32));
    let before = [elements(&a), elements(&b)];
    let exact = before.concat().iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
    let clip = |a: &mut DeviceArray<f32, _>, b: &mut DeviceArray<f32, _>, most: f64| {
        let norm = clip_norm(&mut [a.view_mut().into_dyn(), b.view_mut().into_dyn()], most).unwrap();
        f64::from(elements(&norm)[0])
    };
    // Sums of small integers are exact.
    assert!((clip(&mut a, &mut b, 1e6) - exact).abs() <= 1e-7 * exact);
    assert_eq!([elements(&a), elements(&b)], before);
    assert!((clip(&mut a, &mut b, 1.0) - exact).abs() <= 1e-7 * exact);
    for (got, before) in [elements(&a), elements(&b)].concat().iter().zip(before.concat()) {
        assert!((f64::from(*got) - f64::from(before) / exact).abs() <= 4e-7 * (f64::from(before) / exact).abs());
    }
    assert!((clip(&mut a, &mut b, 1.0) - 1.0).abs() < 1e-5);
    let mut zeros = upload(&Array1::<f16>::from_elem(3, f16::ZERO));
    clip_norm(&mut [zeros.view_mut().into_dyn()], 1.0).unwrap();
    assert_eq!(elements(&zeros), [f16::ZERO; 3]);
    // 0 of at most 0 is no quotient.
    clip_norm(&mut [zeros.view_mut().into_dyn()], 0.0).unwrap();
    assert_eq!(elements(&zeros), [f16::ZERO; 3]);
    // Squares that f16 does not have; a part of an array.
    let mut large = DeviceArray::from_elem(stream, (4, 4), f16::from_f32(1000.0)).unwrap();
    let norm = clip_norm(&mut [large.slice_mut(s![.., ..;2]).unwrap().into_dyn()], 4.0).unwrap();
    assert!((elements(&norm)[0] - 8f32.sqrt() * 1000.0).abs() < 0.01);
    let row = large
        .index_axis(Axis(0), 3)
        .unwrap()
        .to_ndarray()
        .unwrap()
        .mapv(f16::to_f32);
    assert!((row[0] - 2f32.sqrt()).abs() < 1e-3 && row[1] == 1000.0, "{row}");
    let mut broken = upload(&array![1.0f32, f32::NAN]);
    let mut whole = upload(&array![1.0f32]);
    clip_norm(&mut [whole.view_mut().into_dyn(), broken.view_mut().into_dyn()], 1.0).unwrap();
    assert!(elements(&whole)[0].is_nan() && elements(&broken)[0].is_nan());
    assert!(matches!(
        clip_norm::<f32>(&mut [], 1.0),
        Err(Error::Parameter {
            parameter: "gradients",
            ..
        })
    ));
    assert!(matches!(
        clip_norm(&mut [whole.view_mut().into_dyn()], -1.0),
        Err(Error::Parameter { parameter: "most", .. })
    ));
}

/// Of gradients that a few threads have, a block, or several blocks, and of which one has what is not finite at its end.
#[test]
fn many_gradients_are_clipped_and_looked_at_together() {
    let lengths = [5, 300, 301, 4096, 9000, 40_000, 66_001];
    let number = |i: usize| (i % 7) as f32 - 3.0;
    let mut all = lengths.map(|len| upload(&Array1::from_shape_fn(len, number)));
    let mut scale = LossScale::new(device().default_stream(), 8.0).unwrap();
    let mut update = |all: &[DeviceArray<f32, Ix1>]| {
        let views: Vec<_> = all.iter().map(|gradient| gradient.view().into_dyn()).collect();
        scale.update(&views).unwrap();
        scale.state().unwrap()
    };
    assert_eq!(update(&all), LossScaleState { value: 8.0, steps: 1 });
    // Sums of small integers are exact.
    let squares = |len: usize| (0..len).map(|i| number(i).powi(2)).sum::<f32>();
    let exact = lengths.map(squares).iter().sum::<f32>().sqrt();
    let mut views: Vec<_> = all.iter_mut().map(|gradient| gradient.view_mut().into_dyn()).collect();
    assert_eq!(elements(&clip_norm(&mut views, 1e6).unwrap()), [exact]);
    for at in 0..lengths.len() {
        let mut broken = lengths.map(|len| upload(&Array1::from_shape_fn(len, number)));
        broken[at].set(lengths[at] - 1, f32::INFINITY).unwrap();
        let before = update(&all).value;
        assert_eq!(
            update(&broken),
            LossScaleState {
                value: before / 2.0,
                steps: 0
            }
        );
    }
}

/// Steps with gradients that are times the scale, of which those in `broken` have one that is not finite, beside steps with
/// the others as they are.
fn scaled_steps<T: Float>() {
    let stream = device().default_stream();
    let (start, g) = (numbers::<T>(LEN, 5), numbers::<T>(LEN, 6));
    let broken = [f64::INFINITY, f64::NAN, f64::NEG_INFINITY];
    for momentum in [0.0, 0.875] {
        let mut wanted = [upload(&start), upload(&start)];
        let mut got = [upload(&start), upload(&start)];
        let sgd = || Sgd::new(&wanted[0], RATE).unwrap().momentum(momentum).unwrap();
        let adam = || {
            Adam::new(&wanted[0], RATE)
                .unwrap()
                .decoupled_weight_decay(DECAY)
                .unwrap()
        };
        let (mut plain, mut scaled) = ((sgd(), adam()), (sgd(), adam()));
        let mut scale = LossScale::new(stream, 64.0).unwrap().growth_interval(3).unwrap();
        let (mut value, mut since) = (64.0, 0);
        for t in 0..12usize {
            assert_eq!(f64::from(elements(scale.value())[0]), value, "ahead of step {t}");
            // Powers of two are exact.
            let mut times = upload(&g.mapv(|g| T::of(g.wide() * value)));
            let other = upload(&array![T::of(1.0)]);
            let is_broken = t % 4 == 2;
            if is_broken {
                times.set(IxDyn(&[t * 20]), T::of(broken[t / 4])).unwrap();
            }
            scale
                .update(&[other.view().into_dyn(), times.view().into_dyn()])
                .unwrap();
            scaled.0.step_scaled(&mut got[0], &times, &scale).unwrap();
            scaled.1.step_scaled(&mut got[1], &times, &scale).unwrap();
            if is_broken {
                (value, since) = (value / 2.0, 0);
            } else {
                plain.0.step(&mut wanted[0], &upload(&g)).unwrap();
                plain.1.step(&mut wanted[1], &upload(&g)).unwrap();
                since += 1;
                if since == 3 {
                    (value, since) = (value * 2.0, 0);
                }
            }
            for (got, wanted) in got.iter().zip(&wanted) {
                assert_same(&elements(got), &elements(wanted), &format!("step {t}"));
            }
        }
        assert_eq!(value, 32.0);
    }
}
for_types!(scaled_steps: f32 f64 f16 bf16);

#[test]
fn scales_stay_finite_and_are_recorded() {
    let stream = device().default_stream();
    let one = upload(&array![1.0f32]);
    let mut scale = LossScale::new(stream, 2f64.powi(126))
        .unwrap()
        .growth_interval(1)
        .unwrap();
    for wanted in [127, 127, 127] {
        scale.update(&[one.view().into_dyn()]).unwrap();
        assert_eq!(elements(scale.value()), [2f32.powi(wanted)]);
    }
    let nan = upload(&array![f16::NAN]);
    let mut scale = LossScale::new(stream, 2f64.powi(-125)).unwrap();
    for wanted in [-126, -126, -126] {
        scale.update(&[nan.view().into_dyn()]).unwrap();
        assert_eq!(elements(scale.value()), [2f32.powi(wanted)]);
    }
    let weights = upload(&array![1.0f32, 2.0]);
    let adam = Adam::new(&weights, 0.25).unwrap();
    let scale = LossScale::new(stream, 8.0).unwrap().growth_interval(2).unwrap();
    let gradient = upload(&array![8.0f32, -8.0]);
    let args = (weights, adam, scale, gradient);
    let mut graph = stream
        .capture(args, |_, (weights, adam, scale, gradient)| {
            scale.update(&[gradient.view().into_dyn()])?;
            adam.step_scaled(weights, &*gradient, scale)
        })
        .unwrap();
    graph.launch().unwrap();
    let first = elements(&graph.args().0);
    assert!(
        (first[0] - 0.75).abs() < 1e-6 && (first[1] - 2.25).abs() < 1e-6,
        "{first:?}"
    );
    graph.args_mut().3.set(1, f32::INFINITY).unwrap();
    graph.launch().unwrap();
    assert_eq!(
        (elements(&graph.args().0), elements(graph.args().2.value())),
        (first, vec![4.0])
    );
    for initial in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e39, 1e-46] {
        let refused = LossScale::new(stream, initial);
        assert!(
            matches!(
                refused,
                Err(Error::Parameter {
                    parameter: "initial",
                    ..
                })
            ),
            "{initial}"
        );
    }
    assert!(matches!(
        LossScale::new(stream, 1.0).unwrap().clip_norm::<f32>(&mut [], 1.0),
        Err(Error::Parameter { .. })
    ));
    let mut scale = LossScale::new(stream, 1.0).unwrap();
    assert!(matches!(scale.update::<f32>(&[]), Err(Error::Parameter { .. })));
    assert!(matches!(scale.growth_interval(0), Err(Error::Parameter { .. })));
}

/// A step with gradients of a scaled loss that are clipped is that with the gradients themselves, and one that is not finite is none.
#[test]
fn clipping_scaled_gradients() {
    let stream = device().default_stream();
    let plain = [array![3.0f32, -4.0], array![12.0, 0.0]];
    for most in [1.0, 6.5, 20.0] {
        let mut wanted = plain.each_ref().map(upload);
        let [a, b] = &mut wanted;
        let norm = clip_norm(&mut [a.view_mut().into_dyn(), b.view_mut().into_dyn()], most).unwrap();
        let mut scale = LossScale::new(stream, 1024.0).unwrap().growth_interval(1).unwrap();
        let mut scaled = plain.each_ref().map(|x| upload(&x.mapv(|x| f16::from_f32(x * 1024.0))));
        let [a, b] = &mut scaled;
        // The next factor is another one: what counts is that of these gradients.
        scale.update(&[a.view().into_dyn(), b.view().into_dyn()]).unwrap();
        let got = scale
            .clip_norm(&mut [a.view_mut().into_dyn(), b.view_mut().into_dyn()], most)
            .unwrap();
        assert_eq!(elements(&got), elements(&norm));
        for (scaled, wanted) in scaled.iter().zip(&wanted) {
            let rounded: Vec<f16> = elements(wanted).iter().map(|x| f16::from_f32(x * 1024.0)).collect();
            assert_eq!(elements(scaled), rounded);
        }
    }
    let mut weights = upload(&array![1.0f32, 2.0]);
    let mut sgd = Sgd::new(&weights, 0.5).unwrap();
    let mut scale = LossScale::new(stream, 1024.0).unwrap();
    let mut gradient = upload(&array![f32::INFINITY, 1.0]);
    scale.update(&[gradient.view().into_dyn()]).unwrap();
    scale.clip_norm(&mut [gradient.view_mut().into_dyn()], 1.0).unwrap();
    sgd.step_scaled(&mut weights, &gradient, &scale).unwrap();
    assert_eq!(elements(&weights), [1.0, 2.0]);
}
