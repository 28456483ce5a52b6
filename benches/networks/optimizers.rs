// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of AdamW in `f32`, of a few large arrays of parameters and of many small ones, recorded into graphs: each array for itself,
//! and all together.

use anyhow::{Result, ensure};
use ndarray::Ix1;
use warpsmith::optim::{self, Adam};
use warpsmith::{DeviceArray, Generator, Graph};

use super::{Measurements, near};

type Vector = DeviceArray<f32, Ix1>;

/// Weights, what steps them, and their gradients.
type Recorded = (Vec<Vector>, Vec<Adam<f32>>, Vec<Vector>);

const RATE: f64 = 1e-3;
const DECAY: f64 = 0.01;

/// Of each set, its name, and its lengths by their numbers.
type Set = (&'static str, usize, fn(usize) -> usize);

const SETS: [Set; 2] = [
    ("adamw_10_of_16mi", 10, |_| 1 << 24),
    // From 4 to 64 Ki.
    ("adamw_100_of_4ki_to_64ki", 100, |number| {
        4096 << [0, 0, 0, 1, 2, 3, 4][number % 7]
    }),
];

pub fn run(of: &Measurements) -> Result<()> {
    for (name, count, len) in SETS {
        for (way, is_together) in [("one_by_one", false), ("together", true)] {
            let name = format!("{name}_{way}");
            if of.is_wanted(&name) {
                let lengths: Vec<usize> = (0..count).map(len).collect();
                steps(of, &name, &lengths, is_together)?;
            }
        }
    }
    Ok(())
}

fn steps(of: &Measurements, name: &str, lengths: &[usize], is_together: bool) -> Result<()> {
    let stream = of.stream();
    let mut random = Generator::new(1);
    let mut new = || -> warpsmith::Result<Vec<Vector>> {
        let lengths = lengths.iter().map(|&len| of.length(len, len.min(1000)));
        lengths.map(|len| random.standard_normal(stream, len)).collect()
    };
    let (weights, gradients) = (new()?, new()?);
    let first = [weights[0].get(0)?, gradients[0].get(0)?].map(f64::from);
    let adams = weights
        .iter()
        .map(|weights| Adam::new(weights, RATE)?.decoupled_weight_decay(DECAY));
    let adams = adams.collect::<warpsmith::Result<Vec<_>>>()?;
    let mut graph = stream.capture((weights, adams, gradients), |_, (weights, adams, gradients)| {
        let all = weights.iter_mut().zip(adams).zip(gradients.iter());
        let mut steps = all.map(|((weights, adam), gradient)| adam.defer_step(weights, gradient));
        match is_together {
            true => optim::step_all(steps.collect::<warpsmith::Result<Vec<_>>>()?),
            false => steps.try_for_each(|step| optim::step_all([step?])),
        }
    })?;
    let check = |graph: &Graph<Recorded, ()>| {
        let (weights, adams, _) = graph.args();
        // The first step is as long as the rate, whatever the gradient is.
        let [weight, gradient] = first;
        near(
            "weight",
            weights[0].get(0)?.into(),
            weight * (1.0 - RATE * DECAY) - RATE * gradient.signum(),
            1e-6,
        )?;
        ensure!(
            adams.last().expect("some").state()?.steps == 1,
            "not one step of the last parameters"
        );
        Ok(())
    };
    let times = of.bench.times(&mut graph, |graph| graph.launch().map(drop), check)?;
    let [median, least] = [times.median, times.min].map(|time| time.as_secs_f64() * 1e6);
    println!("{name} {median:.1} {least:.1}");
    Ok(())
}
