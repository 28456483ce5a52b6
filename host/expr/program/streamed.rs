// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the size of the device's second-level cache decides: which arrays it evicts last, as they are read, and which programs go
//! through their arrays from either end.

use std::ops::Range;

use super::lower::Lowered;
use super::{Layout, Step};
use crate::expr::graph::Array;
use crate::expr::plan::run::dense;

/// Inputs are [streamed](Program::streamed) where they are so many times the second-level cache.
const CACHES: usize = 4;

/// And where so many functions are called for each element at most: with more, as in a chain of twelve, it is instructions that
/// take the time.
const MOST_CALLS: usize = 8;

/// So many [streamed](Lowered::streamed) inputs are read [by words](Lowered::is_by_words).
const MANY: usize = 5;

/// Arrays that take less than the cache by that quotient do not matter where others do.
const LARGE: usize = 8;

impl Lowered<'_> {
    /// Says of the program what the cache's size decides.
    pub(super) fn suit_cache(&mut self) {
        let streamed = self.streamed();
        self.program.by_words = self.is_by_words(&streamed);
        if !self.program.by_words {
            self.program.streamed = streamed;
        }
        self.program.either_way = self.either_way();
    }

    /// The inputs that are [streamed](Program::streamed): of a program that writes an element for each that it reads, on a GPU
    /// that has policies for its cache.
    fn streamed(&self) -> Vec<u16> {
        let program = &self.program;
        let least = CACHES * self.cache;
        if self.cache == 0 || program.transposed.is_some() || self.read() < least {
            return Vec::new();
        }
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
        match has_elements && read >= least {
            true => those,
            false => Vec::new(),
        }
    }

    /// [`Program::by_words`]: whether as many inputs are streamed, all arrays have elements of a word, and nothing is reduced.
    /// Then a block is on fewer pages of memory at a time if its threads have one element of each array, and not a vector (eight
    /// arrays of 2^28 `f32`, H100: 3115 µs for 3133); of four arrays it gains nothing, of three and fewer it loses. Nor does the
    /// policy for the cache gain anything there.
    fn is_by_words(&self, streamed: &[u16]) -> bool {
        let program = &self.program;
        let outputs = program.outputs.iter().map(|&value| program.types[usize::from(value)]);
        let mut types = program.inputs.iter().map(|input| input.ty).chain(outputs);
        streamed.len() >= MANY && program.reduce.is_none() && types.all(|ty| ty.bytes() == 4)
    }

    /// [`Program::either_way`]: where it reads and writes a quarter more than the cache has. Of less the first elements may still be
    /// there, whoever has left them (H100: two kernels, of which one reads 24 MB that the other has written, lose 3 % otherwise).
    fn either_way(&self) -> bool {
        let written: usize = (0..self.program.outputs.len()).map(|output| self.written(output)).sum();
        self.cache > 0 && self.read() + written >= self.cache + self.cache / 4
    }

    /// The bytes of an output that has a number for each element; 0 of others, which have few.
    fn written(&self, output: usize) -> usize {
        let program = &self.program;
        match &program.reduce {
            Some(reduce) if reduce.is_row[output] => 0,
            _ => program.types[usize::from(program.outputs[output])].bytes() * self.lengths.iter().product::<usize>(),
        }
    }

    /// The addresses that large arrays take, by their numbers, outputs first.
    pub(in crate::expr) fn large(&self, outputs: &[u64]) -> Vec<(usize, Range<u64>)> {
        let written = outputs.iter().enumerate();
        let written = written.map(|(output, &address)| address..address + self.written(output) as u64);
        let inputs = self.inputs.iter().zip(&self.program.inputs).zip(&self.strides);
        let read = inputs.map(|((&address, input), strides)| {
            // As far before the first element, and behind it, as strides go.
            let (mut before, mut behind) = (0, 1);
            for (&length, &stride) in self.lengths.iter().zip(strides) {
                let along = (length as i64 - 1) * stride as i64;
                *if stride < 0 { &mut before } else { &mut behind } += along;
            }
            let at = |element: i64| address.wrapping_add_signed(element * input.ty.bytes() as i64);
            at(before)..at(behind)
        });
        let is_large = |(_, range): &(usize, Range<u64>)| range.end - range.start >= (self.cache / LARGE) as u64;
        written.chain(read).enumerate().filter(is_large).collect()
    }
}

/// The second-level cache of the device on which that array is; 0 if it is not known.
pub(super) fn cache(array: &Array<'_>) -> usize {
    let device = array.stream().backend().properties();
    match device.compute_capability {
        // The simulated GPU has one in tests, which run kernels' texts too.
        None if cfg!(test) => 1 << 12,
        _ => device.l2_cache.unwrap_or(0) as usize,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndarray::s;

    use crate::expr::program::lower::lower;
    use crate::{Device, DeviceArray};

    /// Of what is read and written, by the cache of 4 KiB that the simulated GPU has in tests.
    #[test]
    fn large_arrays_are_where_their_elements_are() -> crate::Result<()> {
        let device = Device::simulator();
        let x = DeviceArray::<f32, _>::zeros(device.default_stream(), (16, 64))?;
        let row = x.slice(s![..1, ..])?;
        let first = x.first_address() as u64;
        let output = 1 << 20;
        let reversed = x.slice(s![..;-1, ..;-1])?;
        let part = (reversed.expr() + &row).into_part().expect("one shape");
        let lowered = lower(&[Arc::clone(&part)], &part.shape, &[output]);
        assert!(lowered.program.either_way);
        // The row is small.
        assert_eq!(
            lowered.large(&[output]),
            [(0, output..output + 4096), (1, first..first + 4096)]
        );
        let half = x.slice(s![..8, ..])?;
        let part = (half.expr() + 1.0).into_part().expect("an array");
        assert!(!lower(&[Arc::clone(&part)], &part.shape, &[output]).program.either_way);
        Ok(())
    }
}
