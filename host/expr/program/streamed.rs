// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which arrays are evicted from the device's cache last, as they are read.

use super::lower::Lowered;
use super::{Layout, Step};
use crate::expr::graph::Array;
use crate::expr::plan::run::dense;
use crate::expr::ptx;

/// Inputs are [streamed](Program::streamed) where they are so many times the second-level cache.
const CACHES: usize = 4;

/// And where so many functions are called for each element at most: with more, as in a chain of twelve, it is instructions that
/// take the time.
const MOST_CALLS: usize = 8;

impl Lowered<'_> {
    /// The inputs that are [streamed](Program::streamed): of a program that writes an element for each that it reads, on a GPU
    /// that has policies for its cache.
    pub(super) fn streamed(&self) -> Vec<u16> {
        let program = &self.program;
        let calls = program.steps.iter().filter(|step| matches!(step, Step::Call(..)));
        let has_elements = match &program.reduce {
            Some(reduce) => reduce.is_row.contains(&false) && !reduce.form.has_columns(),
            None => calls.count() <= MOST_CALLS,
        };
        let dense = dense(&self.lengths);
        let lies_densely = |input: &u16| {
            let (input, strides) = (&program.inputs[usize::from(*input)], &self.strides[usize::from(*input)]);
            let mut along = strides.iter().zip(&dense).zip(&self.lengths);
            input.layout == Layout::Rows && along.all(|((stride, dense), &length)| stride == dense || length == 1)
        };
        let those: Vec<u16> = (0..program.inputs.len() as u16).filter(lies_densely).collect();
        let bytes = |&input: &u16| program.inputs[usize::from(input)].ty.bytes();
        let read = those.iter().map(bytes).sum::<usize>() * self.lengths.iter().product::<usize>();
        match self.cache > 0 && has_elements && !program.transposed && read >= CACHES * self.cache {
            true => those,
            false => Vec::new(),
        }
    }
}

/// The second-level cache of the device on which that array is, if there are policies for it; else 0.
pub(super) fn cache(array: &Array<'_>) -> usize {
    let device = array.stream().backend().properties();
    match device.compute_capability {
        // The simulated GPU has one in tests, which run kernels' texts too.
        None if cfg!(test) => 1 << 12,
        Some(capability) if capability >= ptx::POLICIES.0 => device.l2_cache.unwrap_or(0) as usize,
        _ => 0,
    }
}
