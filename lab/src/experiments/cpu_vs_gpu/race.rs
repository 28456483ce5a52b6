// SPDX-License-Identifier: MIT OR Apache-2.0
//! One operation at one size, done in four ways.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::bench::Times;
use crate::lab::Lab;

/// What no run on the host is expected to take longer than.
const LONGEST: Duration = Duration::from_secs(2);

/// How long runs on the host go on for a median, and how many there are at most.
const LONG_ENOUGH: Duration = Duration::from_millis(60);
const MOST_RUNS: usize = 15;

/// Seconds of each way; none where it was not run, for it would take too long, or its time means nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seconds {
    /// ndarray, on one core.
    pub one: Option<f64>,
    /// rayon, on all.
    pub all: Option<f64>,
    /// The GPU, from its memory to its memory.
    pub gpu: Option<f64>,
    /// The GPU, from the host's memory to the host's memory.
    pub copied: Option<f64>,
}

/// How far an operation has got on the host.
pub struct Race<'a> {
    pub lab: &'a Lab,
    /// How many times as much work each size is than the one before.
    growth: f64,
    last: Seconds,
}

impl<'a> Race<'a> {
    pub fn new(lab: &'a Lab, growth: f64) -> Self {
        Self {
            lab,
            growth,
            last: Seconds::default(),
        }
    }

    /// Whether the host is fast enough for the next size: then there is a result to compare with.
    pub fn goes_on(&self) -> bool {
        self.is_short(self.last.all)
    }

    fn is_short(&self, last: Option<f64>) -> bool {
        last.is_none_or(|seconds| seconds * self.growth < LONGEST.as_secs_f64())
    }

    /// Runs all four, whose results `agree`.
    pub fn run<R>(
        &mut self,
        one: impl Fn() -> R,
        all: impl Fn() -> R,
        mut gpu: impl FnMut() -> warpsmith::Result<()>,
        mut copied: impl FnMut() -> warpsmith::Result<R>,
        agree: impl Fn(&R, &R) -> bool,
    ) -> Result<Seconds> {
        let (result, seconds) = time(&all);
        let mut found = Seconds {
            all: Some(seconds),
            ..Seconds::default()
        };
        // Once left out, always left out.
        if self.last.all.is_none() || (self.last.one.is_some() && self.is_short(self.last.one)) {
            let (other, seconds) = time(&one);
            ensure!(agree(&other, &result), "one core and all cores do not agree");
            found.one = Some(seconds);
        }
        ensure!(agree(&copied()?, &result), "the device and the host do not agree");
        if self.lab.is_simulator() {
            gpu()?;
        } else {
            let bench = &self.lab.bench;
            found.gpu = Some(bench.times(&mut (), |()| gpu(), |()| Ok(()))?.median.as_secs_f64());
            let runs = (0..5).map(|_| {
                let start = Instant::now();
                drop(copied()?);
                Ok(start.elapsed())
            });
            let runs = runs.collect::<warpsmith::Result<Vec<_>>>()?;
            found.copied = Some(Times::of(runs).median.as_secs_f64());
        }
        self.last = found;
        Ok(found)
    }
}

/// The result, and the median of the times.
fn time<R>(work: impl Fn() -> R) -> (R, f64) {
    let begin = Instant::now();
    let mut times = Vec::new();
    loop {
        let start = Instant::now();
        let result = std::hint::black_box(work());
        times.push(start.elapsed());
        if begin.elapsed() > LONG_ENOUGH || times.len() == MOST_RUNS {
            return (result, Times::of(times).median.as_secs_f64().max(1e-9));
        }
    }
}
