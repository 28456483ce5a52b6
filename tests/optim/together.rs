// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of many parameters by one launch, beside steps one by one.

use ndarray::{Array1, Array2, Axis, IxDyn, array, s};
use warpsmith::optim::{self, Adam, LossScale, Sgd};
use warpsmith::{DeviceArray, Result, bf16};

use super::{DECAY, RATE, numbers};
use crate::common::*;

/// Three steps of parameters of several lengths, two of them parts of a table that lie otherwise, by optimisers of different kinds and
/// numbers, together or one by one: the elements of all of them, and the counts.
fn many(scale: Option<&LossScale>, is_together: bool) -> (Vec<Vec<f32>>, Vec<bf16>, Vec<u64>) {
    let lengths = [1, 4, 7, 300, 0, 1024, 33, 8];
    let mut weights: Vec<_> = (0..40)
        .map(|k| upload(&numbers::<f32>(lengths[k % 8], k as u64)))
        .collect();
    let adam = |(k, weights): (usize, &DeviceArray<f32, IxDyn>)| {
        let adam = Adam::new(weights, RATE * (k + 1) as f64).unwrap();
        match k % 3 {
            0 => adam.decoupled_weight_decay(DECAY).unwrap(),
            1 => adam.weight_decay(DECAY).unwrap(),
            _ => adam.epsilon(0.5).unwrap(),
        }
    };
    let mut adams: Vec<_> = weights.iter().enumerate().map(adam).collect();
    let mut table = upload(&Array2::from_shape_fn((6, 8), |(i, j)| (i * 8 + j) as f32));
    let (mut upper, lower) = table.split_at_mut(Axis(0), 3).unwrap();
    let (mut upper, mut lower) = (upper.slice_mut(s![..;2, 1..5]).unwrap(), lower.reversed_axes());
    let mut of_upper = Adam::new(&upper, RATE).unwrap();
    let mut of_lower = Sgd::new(&lower, RATE).unwrap().momentum(0.5).unwrap();
    let mut narrow = upload(&Array1::from_shape_fn(9, |i| bf16::from_f32(i as f32)));
    let mut of_narrow = Adam::new(&narrow, RATE).unwrap();
    for number in 0..3 {
        let gradients: Vec<_> = weights.iter().map(|w| upload(&numbers::<f32>(w.len(), 99))).collect();
        let table = upload(&Array2::<f32>::from_elem((3, 8), 1.5));
        let (of_part, of_rows) = (table.slice(s![..2, ..4]).unwrap(), table.t());
        let of_nine = upload(&Array1::<f32>::from_elem(9, 0.25));
        let mut steps = Vec::new();
        let mut add = |step| match is_together {
            true => steps.push(step),
            false => optim::step_all([step]).unwrap(),
        };
        for ((weights, adam), gradient) in weights.iter_mut().zip(&mut adams).zip(&gradients) {
            let gradient = gradient.expr() * (number as f32 + 1.0);
            add(match scale {
                None => adam.defer_step(weights, gradient).unwrap(),
                Some(scale) => adam.defer_step_scaled(weights, gradient, scale).unwrap(),
            });
        }
        add(of_upper.defer_step(&mut upper, &of_part).unwrap());
        add(of_lower.defer_step(&mut lower, &of_rows).unwrap());
        add(of_narrow.defer_step(&mut narrow, &of_nine).unwrap());
        optim::step_all(steps).unwrap();
    }
    let counts = adams.iter().map(|adam| adam.state().unwrap().steps).collect();
    let mut all: Vec<_> = weights.iter().map(elements).collect();
    all.push(elements(&table));
    (all, elements(&narrow), counts)
}

#[test]
fn steps_together_have_the_bits_of_steps_one_by_one() {
    let mut scale = LossScale::new(device().default_stream(), 4.0).unwrap();
    let start = many(None, false);
    assert_eq!(many(None, true), start);
    assert_eq!(start.2, [3; 40]);
    let gradient = upload(&array![1.0f32]);
    scale.update(&[gradient.view().into_dyn()]).unwrap();
    let scaled = many(Some(&scale), false);
    assert_eq!(many(Some(&scale), true), scaled);
    assert_ne!(scaled.0, start.0);
    // Not all gradients were finite: no step of those that look at the scale.
    let infinite = upload(&array![f32::INFINITY]);
    scale.update(&[infinite.view().into_dyn()]).unwrap();
    let (_, _, counts) = many(Some(&scale), true);
    assert_eq!(counts, [0; 40]);
}

#[test]
fn steps_together_in_a_graph() {
    let stream = device().default_stream();
    let record = |is_together: bool| {
        let weights: Vec<_> = [5, 64, 100].map(|len| upload(&numbers::<f32>(len, len as u64))).into();
        let gradients: Vec<_> = weights.iter().map(|w| upload(&numbers::<f32>(w.len(), 3))).collect();
        let adams: Vec<_> = weights.iter().map(|w| Adam::new(w, RATE).unwrap()).collect();
        let args = (weights, adams, gradients);
        let graph = stream.capture(args, |_, (weights, adams, gradients)| {
            let all = weights.iter_mut().zip(adams).zip(&*gradients);
            let mut steps = all.map(|((weights, adam), gradient)| adam.defer_step(weights, gradient));
            match is_together {
                true => optim::step_all(steps.collect::<Result<Vec<_>>>()?),
                false => steps.try_for_each(|step| optim::step_all([step?])),
            }
        });
        let mut graph = graph.unwrap();
        (0..3).for_each(|_| graph.launch().unwrap());
        graph.args().0.iter().map(elements).collect::<Vec<_>>()
    };
    assert_eq!(record(true), record(false));
}
