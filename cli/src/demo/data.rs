// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arrays that the demo's kernels are run on.

use anyhow::Result;
use ndarray::{Array1, Ix1};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use warpsmith::{DeviceArray, Stream};

use super::reference::Reference;

pub type Vector<T> = DeviceArray<T, Ix1>;

const SEED: u64 = 137_086;

/// The same numbers on every run.
pub fn generator() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(SEED)
}

/// An array here and there.
pub struct Operand<T> {
    pub host: Array1<T>,
    pub device: Vector<T>,
}

impl<T: Reference> Operand<T> {
    pub fn new(stream: &Stream, host: Array1<T>) -> Result<Self> {
        let device = DeviceArray::from_ndarray(stream, &host)?;
        Ok(Self { host, device })
    }
}
