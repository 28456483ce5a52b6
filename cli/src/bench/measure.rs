// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a row is measured, and what a measurement is.

use std::time::Duration;

use anyhow::Result;
use ndarray::{Array, Dimension};
use warpsmith::{Device, DeviceArray, Element, Stream};

use crate::timing::milliseconds;

/// Calls before those that are timed.
const WARM_UP: usize = 3;

/// Where rows are measured.
pub struct Bench {
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
    pub fn times<O>(
        &self,
        out: &mut O,
        launch: impl Fn(&mut O) -> warpsmith::Result<()>,
        check: impl FnOnce(&O) -> Result<()>,
    ) -> Result<Times> {
        launch(out)?;
        check(out)?;
        (0..WARM_UP).try_for_each(|_| launch(out))?;
        let mut timed = || {
            let start = self.stream.record()?;
            launch(out)?;
            Ok((start, self.stream.record()?))
        };
        let events = (0..self.repeats)
            .map(|_| timed())
            .collect::<warpsmith::Result<Vec<_>>>()?;
        let times = events.iter().map(|(start, end)| end.elapsed_since(start));
        Ok(Times::of(times.collect::<warpsmith::Result<Vec<_>>>()?))
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
