// SPDX-License-Identifier: MIT OR Apache-2.0
//! What networks are made of, on the device: rows of softmax, layer norm and cross-entropy, pictures under weights of their own,
//! attention and its gradients, steps of optimisers: `cargo bench --bench networks [-- PART...]`, of those whose names have one of these parts.
//!
//! Prints a line for each: the median and the least of 30 calls in microseconds, and whether the GPU waited for the host meanwhile; and for attention the mean of a second of calls
//! without a pause, behind another second of them, at the limit of power. Some elements of each result are checked against sums in
//! f64. benches/peers/glance.py prints the same of PyTorch, and layers.rs has convolutions.

mod attention;
mod optimizers;
mod pictures;
mod rows;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use warpsmith::Stream;
use warpsmith_lab::bench::{Bench, device_with_tensor_cores, is_wanted, parts_of_names};

/// How long calls without a pause go on before they are timed, and then.
const PERIOD: Duration = Duration::from_secs(1);

/// Calls between two looks at the clock.
const CALLS: u32 = 8;

/// What is measured, by the names that are asked for.
struct Measurements {
    bench: Bench,
    parts: Vec<String>,
}

impl Measurements {
    /// Whether a row of that name is asked for: else there is no need of what it takes.
    fn is_wanted(&self, name: &str) -> bool {
        is_wanted(name, &self.parts)
    }

    fn stream(&self) -> &Stream {
        &self.bench.stream
    }

    /// A length, which the simulated GPU has a small one for.
    fn length(&self, on_gpu: usize, simulated: usize) -> usize {
        if self.bench.is_simulator { simulated } else { on_gpu }
    }

    /// Measures a call that makes a result anew, which is checked.
    fn measure<O>(
        &self,
        name: &str,
        compute: impl Fn() -> warpsmith::Result<O>,
        check: impl FnOnce(&O) -> Result<()>,
    ) -> Result<()> {
        let mut out = None;
        let launch = |out: &mut Option<O>| compute().map(|result| *out = Some(result));
        let check = |out: &Option<O>| check(out.as_ref().expect("the launch made one"));
        let times = self.bench.times(&mut out, launch, check)?;
        let [median, least] = [times.median, times.min].map(|time| time.as_secs_f64() * 1e6);
        println!("{name} {median:.1} {least:.1}");
        if !times.is_ahead {
            eprintln!("{name}: the GPU waited for the host, whose times these are in part");
        }
        Ok(())
    }

    /// Measures calls without a pause.
    fn measure_continuously<O>(&self, name: &str, compute: impl Fn() -> warpsmith::Result<O>) -> Result<()> {
        if self.bench.is_simulator {
            return Ok(());
        }
        self.calls(&compute)?;
        println!("{name}_continuously {:.1}", self.calls(&compute)? * 1e6);
        Ok(())
    }

    /// Calls for a period, and gives the seconds of one. The host is 8 to 16 calls ahead.
    fn calls<O>(&self, compute: impl Fn() -> warpsmith::Result<O>) -> Result<f64> {
        let (begin, start) = (Instant::now(), self.stream().record()?);
        let (mut before, mut count) = (self.stream().record()?, 0);
        loop {
            (0..CALLS).try_for_each(|_| compute().map(drop))?;
            count += CALLS;
            let event = self.stream().record()?;
            if begin.elapsed() > PERIOD {
                return Ok(event.elapsed_since(&start)?.as_secs_f64() / f64::from(count));
            }
            before.synchronize()?;
            before = event;
        }
    }
}

/// An error unless the number is as wanted, within a bound.
fn near(what: &str, got: f64, wanted: f64, bound: f64) -> Result<()> {
    ensure!(
        (got - wanted).abs() <= bound,
        "{what}: {got}, wanted {wanted} to {bound:e}"
    );
    Ok(())
}

fn main() -> Result<()> {
    let parts = parts_of_names();
    let device = device_with_tensor_cores()?;
    let repeats = if device.is_simulator() { 1 } else { 30 };
    let bench = Bench::new(&device, repeats);
    let measurements = Measurements { bench, parts };
    rows::run(&measurements)?;
    pictures::run(&measurements)?;
    attention::run(&measurements)?;
    optimizers::run(&measurements)
}
