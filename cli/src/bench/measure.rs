// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a row's measurement is.

pub use warpsmith_lab::bench::{Bench, Times};

use crate::timing::milliseconds;

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
