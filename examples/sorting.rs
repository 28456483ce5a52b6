// SPDX-License-Identifier: MIT OR Apache-2.0
//! Players by score: the best of them, how often each score occurs, and what half of them reach.
//!
//! `cargo run --release --example sorting`

use warpsmith::ndarray::{Axis, s};
use warpsmith::{Device, Generator};

fn main() -> warpsmith::Result<()> {
    let device = Device::auto()?;
    let stream = device.default_stream();
    let players = 20_000;
    let scores = Generator::new(7).integers(stream, players, 0..500i32)?;

    // The places of the scores in ascending order: the best are last. `take` brings what belongs to them into that order.
    let order = scores.argsort(Axis(0))?;
    let best = order.slice(s![-3..])?.flip(Axis(0))?.to_array()?;
    let of_best = scores.take(Axis(0), &best)?.to_ndarray()?;
    for (player, score) in best.to_ndarray()?.iter().zip(&of_best) {
        println!("player {player:5}: {score}");
    }

    let (values, counts) = scores.unique_counts()?;
    let commonest = counts.argmax()? as usize;
    println!(
        "{} different scores, of which {} occurs most often: {} times",
        values.len(),
        values.get(commonest)?,
        counts.get(commonest)?
    );
    println!(
        "half of the players reach {}, a tenth {}",
        scores.median()?,
        scores.quantile(0.9)?
    );
    Ok(())
}
