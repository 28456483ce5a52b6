// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of AdamW in `f32`, of a few large arrays of parameters and of many small ones, recorded into graphs: each array for itself,
//! and all together; and what comes ahead of them: gradients that are clipped by their norm, and looked at for what is not finite.

use anyhow::{Result, ensure};
use ndarray::Ix1;
use warpsmith::optim::{self, Adam, LossScale};
use warpsmith::{DeviceArray, Generator, Graph};

use super::{Measurements, near};

type Vector = DeviceArray<f32, Ix1>;

/// Weights, what steps them, and their gradients.
type Recorded = (Vec<Vector>, Vec<Adam<f32>>, Vec<Vector>);

const RATE: f64 = 1e-3;
const DECAY: f64 = 0.01;

/// Of each set, its name, how many arrays there are, and their lengths by their numbers.
type Set = (&'static str, usize, fn(usize) -> usize);

const SETS: [Set; 2] = [
    ("10_of_16mi", 10, |_| 1 << 24),
    // From 4 to 64 Ki.
    ("100_of_4ki_to_64ki", 100, |number| {
        4096 << [0, 0, 0, 1, 2, 3, 4][number % 7]
    }),
];

pub fn run(of: &Measurements) -> Result<()> {
    for (set, count, len) in SETS {
        let lengths: Vec<usize> = (0..count).map(len).collect();
        for (way, is_together) in [("one_by_one", false), ("together", true)] {
            let name = format!("adamw_{set}_{way}");
            if of.is_wanted(&name) {
                steps(of, &name, &lengths, is_together)?;
            }
        }
        let name = format!("clip_norm_{set}");
        if of.is_wanted(&name) {
            clip_norm(of, &name, &lengths)?;
        }
        let name = format!("loss_scale_{set}");
        if of.is_wanted(&name) {
            loss_scale(of, &name, &lengths)?;
        }
    }
    Ok(())
}

/// Random arrays of these lengths.
fn vectors(of: &Measurements, random: &mut Generator, lengths: &[usize]) -> Result<Vec<Vector>> {
    let lengths = lengths.iter().map(|&len| of.length(len, len.min(1000)));
    let all = lengths.map(|len| random.standard_normal(of.stream(), len));
    Ok(all.collect::<warpsmith::Result<_>>()?)
}

/// Gradients that are made half as long.
fn clip_norm(of: &Measurements, name: &str, lengths: &[usize]) -> Result<()> {
    let gradients = vectors(of, &mut Generator::new(1), lengths)?;
    let mut squares = 0.0;
    for gradient in &gradients {
        squares += gradient
            .to_ndarray()?
            .iter()
            .map(|&x| f64::from(x).powi(2))
            .sum::<f64>();
    }
    let norm = squares.sqrt();
    let mut graph = of.stream().capture(gradients, |_, gradients| {
        let mut views: Vec<_> = gradients
            .iter_mut()
            .map(|gradient| gradient.view_mut().into_dyn())
            .collect();
        optim::clip_norm(&mut views, norm / 2.0)
    })?;
    let times = of.bench.times(
        &mut graph,
        |graph| graph.launch().map(drop),
        |graph| near("norm", graph.output().get(())?.into(), norm, 1e-5 * norm),
    )?;
    let [median, least] = [times.median, times.min].map(|time| time.as_secs_f64() * 1e6);
    println!("{name} {median:.1} {least:.1}");
    Ok(())
}

fn loss_scale(of: &Measurements, name: &str, lengths: &[usize]) -> Result<()> {
    let gradients = vectors(of, &mut Generator::new(1), lengths)?;
    let scale = LossScale::new(of.stream(), 65536.0)?;
    let mut graph = of.stream().capture((scale, gradients), |_, (scale, gradients)| {
        let views: Vec<_> = gradients.iter().map(|gradient| gradient.view().into_dyn()).collect();
        scale.update(&views)
    })?;
    let times = of.bench.times(
        &mut graph,
        |graph| graph.launch().map(drop),
        |graph| {
            ensure!(graph.args().0.state()?.steps == 1, "not one step with finite gradients");
            Ok(())
        },
    )?;
    let [median, least] = [times.median, times.min].map(|time| time.as_secs_f64() * 1e6);
    println!("{name} {median:.1} {least:.1}");
    Ok(())
}

fn steps(of: &Measurements, name: &str, lengths: &[usize], is_together: bool) -> Result<()> {
    let stream = of.stream();
    let mut random = Generator::new(1);
    let weights = vectors(of, &mut random, lengths)?;
    let gradients = vectors(of, &mut random, lengths)?;
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
