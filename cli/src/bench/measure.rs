// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a row is measured, and what a measurement is.

use std::time::{Duration, Instant};

use anyhow::Result;
use ndarray::{Array, Dimension, Ix1};
use warpsmith::{Device, DeviceArray, Element, Event, Stream};

use crate::timing::milliseconds;

/// Calls before those that are timed.
const WARM_UP: usize = 3;

/// Timed calls for each head start. With two events each, and 400 fills at most, they take some 700 entries of the
/// thousand or so that a GPU's queue holds: a full one makes the host wait.
const CALLS_AHEAD: usize = 100;

/// What a fill writes, in bytes.
const FILL_BYTES: usize = 256 << 20;

/// How long a fill takes at least: at 5 TB/s, which is more than an H200 has.
const FILL_TIME: Duration = Duration::from_micros(50);

const LONGEST_HEAD_START: Duration = Duration::from_millis(20);

/// Where rows are measured.
pub struct Bench {
    pub device: Device,
    pub stream: Stream,
    pub repeats: usize,
    pub is_simulator: bool,
}

/// The time of a call, of several.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub median: Duration,
    pub min: Duration,
    /// How many they are of.
    pub repeats: usize,
}

/// What limits a row, and thereby what its throughput is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Bandwidth,
    Arithmetic,
}

/// A row at one size.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub dtype: &'static str,
    /// Elements, or pixels.
    pub n: usize,
    /// Of a matrix and a picture.
    pub shape: Option<Vec<usize>>,
    /// Bytes that must move: every input read once, every result written once.
    pub bytes: f64,
    /// Operations on numbers; one for each element where there are none.
    pub operations: f64,
    pub limit: Limit,
    pub times: Times,
}

impl Bench {
    pub fn new(device: &Device, repeats: usize) -> Self {
        Self {
            device: device.clone(),
            stream: device.default_stream().clone(),
            repeats,
            is_simulator: device.is_simulator(),
        }
    }

    pub fn upload<T: Element, D: Dimension>(&self, host: &Array<T, D>) -> Result<DeviceArray<T, D>> {
        Ok(DeviceArray::from_ndarray(&self.stream, host)?)
    }

    pub fn zeros<T: Element, D: Dimension>(
        &self,
        shape: impl ndarray::IntoDimension<Dim = D>,
    ) -> Result<DeviceArray<T, D>> {
        Ok(DeviceArray::zeros(&self.stream, shape)?)
    }

    /// Calls `launch` once, which writes `out`, checks that, and times the call.
    ///
    /// What a call takes the host is what the last one of the warm-up took it, events included: by then all is compiled
    /// and loaded.
    pub fn times<O>(
        &self,
        out: &mut O,
        mut launch: impl FnMut(&mut O) -> warpsmith::Result<()>,
        check: impl FnOnce(&O) -> Result<()>,
    ) -> Result<Times> {
        launch(out)?;
        check(out)?;
        let mut timed = || -> warpsmith::Result<(Event, Event)> {
            let start = self.stream.record()?;
            launch(out)?;
            Ok((start, self.stream.record()?))
        };
        let mut host_time = Duration::ZERO;
        for _ in 0..WARM_UP {
            let before = Instant::now();
            timed()?;
            host_time = before.elapsed();
        }
        let mut events = Vec::with_capacity(self.repeats);
        while events.len() < self.repeats {
            let calls = CALLS_AHEAD.min(self.repeats - events.len());
            self.head_start(host_time * calls as u32)?;
            for _ in 0..calls {
                events.push(timed()?);
            }
        }
        let times = events.iter().map(|(start, end)| end.elapsed_since(start));
        Ok(Times::of(times.collect::<warpsmith::Result<Vec<_>>>()?))
    }

    /// Gives a GPU work for twice the time that the host needs to queue the calls that follow: fills of memory. A GPU
    /// that reached a call before its kernel is queued would wait for the host between the call's two events.
    ///
    /// These are fills, and not a gate that the host opens, so that a call that waits for the GPU loses the head start
    /// and no more. They also evict the L2 cache, before the first call alone, which does not move a median. The
    /// simulated GPU does its work while it is queued.
    fn head_start(&self, host_time: Duration) -> warpsmith::Result<()> {
        if self.is_simulator {
            return Ok(());
        }
        let wanted = (2 * host_time).min(LONGEST_HEAD_START);
        let fills = wanted.as_nanos().div_ceil(FILL_TIME.as_nanos());
        // Freed and allocated again in the order of the stream: the same memory each time.
        (0..fills).try_for_each(|_| DeviceArray::<u8, Ix1>::zeros(&self.stream, FILL_BYTES).map(drop))
    }
}

impl Times {
    /// Of at least one.
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let middle = times.len() / 2;
        let median = match times.len() % 2 {
            0 => (times[middle - 1] + times[middle]) / 2,
            _ => times[middle],
        };
        Self {
            median,
            min: times[0],
            repeats: times.len(),
        }
    }
}

impl Measurement {
    /// A row of `n` elements, each of which moves `bytes` bytes.
    pub fn new(dtype: &'static str, n: usize, bytes: usize, times: Times) -> Self {
        Self {
            dtype,
            n,
            shape: None,
            bytes: n as f64 * bytes as f64,
            operations: n as f64,
            limit: Limit::Bandwidth,
            times,
        }
    }

    pub fn of_shape(self, shape: &[usize]) -> Self {
        let shape = Some(shape.to_vec());
        Self { shape, ..self }
    }

    /// With so many `f32` that move in all.
    pub fn moving(self, numbers: usize) -> Self {
        let bytes = (numbers * size_of::<f32>()) as f64;
        Self { bytes, ..self }
    }

    /// With that many operations on each element.
    pub fn operations_each(self, operations: f64) -> Self {
        let operations = self.n as f64 * operations;
        Self { operations, ..self }
    }

    fn seconds(&self) -> f64 {
        // The clock of a simulated GPU can stand still.
        self.times.median.as_secs_f64().max(1e-9)
    }

    pub fn bytes_per_second(&self) -> f64 {
        self.bytes / self.seconds()
    }

    pub fn operations_per_second(&self) -> f64 {
        self.operations / self.seconds()
    }

    /// Operations for each byte.
    pub fn intensity(&self) -> f64 {
        self.operations / self.bytes
    }

    pub fn median_ms(&self) -> f64 {
        milliseconds(self.times.median)
    }

    pub fn min_ms(&self) -> f64 {
        milliseconds(self.times.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let times = |ms: &[u64]| Times::of(ms.iter().copied().map(Duration::from_millis).collect());
        let odd = times(&[9, 1, 4]);
        assert_eq!(
            (odd.median, odd.min),
            (Duration::from_millis(4), Duration::from_millis(1))
        );
        assert_eq!(times(&[8, 2, 4, 5]).median, Duration::from_micros(4500));
    }
}
