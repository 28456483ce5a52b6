// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated GPU's way to compute a program: a kernel whose threads go through its steps, each for a chunk of
//! elements, by the functions that GPUs have as text.

use std::any::TypeId;
use std::sync::Arc;

use cuda_sim::LaunchConfig;

use super::lower::Lowered;
use super::program::{Layout, MAX_ARGUMENTS, Program, Step};
use crate::backend::KernelInfo;

/// Bytes that the steps of a chunk take, at most where they are few.
const CHUNK_BYTES: usize = 1 << 18;

/// What the kernel's one parameter points to.
pub(super) struct Job {
    program: Program,
    inputs: Vec<u64>,
    scalars: Vec<u64>,
    lengths: Vec<usize>,
    strides: Vec<Vec<isize>>,
    outputs: Vec<u64>,
    elements: usize,
    /// Elements that a thread computes.
    chunk: usize,
}

impl Job {
    pub(super) fn new(lowered: &Lowered<'_>, outputs: &[u64]) -> Arc<Self> {
        let program = lowered.program.clone();
        Arc::new(Self {
            chunk: (CHUNK_BYTES / 8 / program.steps.len()).clamp(64, 4096),
            program,
            inputs: lowered.inputs.clone(),
            scalars: lowered.scalars.clone(),
            lengths: lowered.lengths.clone(),
            strides: lowered.strides.clone(),
            outputs: outputs.to_vec(),
            elements: lowered.lengths.iter().product(),
        })
    }

    /// A block of one thread for each chunk.
    pub(super) fn config(&self) -> LaunchConfig {
        LaunchConfig::new(self.elements.div_ceil(self.chunk) as u32, 1)
    }

    /// The kernel, which takes the job's address.
    pub(super) fn kernel() -> KernelInfo {
        KernelInfo {
            id: TypeId::of::<Self>(),
            package: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            name: "expression",
            signature: 0,
            sizes: &[(size_of::<u64>(), 0)],
            cooperative: false,
            run,
        }
    }

    /// Computes the elements from `first` on.
    ///
    /// # Safety
    ///
    /// The addresses are those of the arrays of the program, whose elements lie along the lengths by the strides, and of
    /// outputs in C order.
    unsafe fn run_chunk(&self, first: usize) {
        let len = self.chunk.min(self.elements - first);
        let Program { steps, types, .. } = &self.program;
        let mut numbers = vec![0u64; steps.len() * self.chunk];
        let place = |numbers: &mut [u64], step: usize| -> *mut () { numbers[step * self.chunk..].as_mut_ptr().cast() };
        for (at, (step, ty)) in steps.iter().zip(types).enumerate() {
            let to = place(&mut numbers, at);
            // SAFETY (of all): a chunk's place has eight bytes for each element; inputs are as the caller promises;
            // functions find the numbers of earlier steps, which are of their arguments' types.
            unsafe {
                match *step {
                    Step::Input(input) => self.gather(input.into(), ty.bytes(), first, len, to.cast()),
                    Step::Scalar(scalar) => fill(self.scalars[usize::from(scalar)], ty.bytes(), len, to.cast()),
                    Step::Index(axis) => self.places(axis.into(), first, len, to.cast()),
                    Step::Call(function, arguments) => {
                        let function = self.program.functions[usize::from(function)];
                        let addresses: [*const (); MAX_ARGUMENTS] =
                            arguments.map(|step| place(&mut numbers, step.into()).cast_const());
                        (function.run)(addresses.as_ptr(), to, len);
                    }
                }
            }
        }
        for (&output, &step) in self.outputs.iter().zip(&self.program.outputs) {
            let bytes = types[usize::from(step)].bytes();
            let from: *const u8 = place(&mut numbers, step.into()).cast_const().cast();
            let to = std::ptr::with_exposed_provenance_mut::<u8>(output as usize + first * bytes);
            // SAFETY: the output has all elements.
            unsafe { to.copy_from(from, len * bytes) };
        }
    }

    /// Runs of elements along the last axis, from `first` on: the coordinates at which each begins, and its length.
    fn for_runs(&self, first: usize, len: usize, mut run: impl FnMut(&[usize], usize)) {
        let columns = self.lengths[self.lengths.len() - 1];
        let (mut at, end) = (first, first + len);
        let mut coordinates = vec![0; self.lengths.len()];
        while at < end {
            let mut rest = at;
            for (coordinate, &length) in coordinates.iter_mut().zip(&self.lengths).rev() {
                *coordinate = rest % length;
                rest /= length;
            }
            let length = (columns - at % columns).min(end - at);
            run(&coordinates, length);
            at += length;
        }
    }

    /// The elements of an input, side by side.
    ///
    /// # Safety
    ///
    /// As [`run_chunk`](Self::run_chunk); there is room for them at `to`.
    unsafe fn gather(&self, input: usize, bytes: usize, first: usize, len: usize, mut to: *mut u8) {
        let base = std::ptr::with_exposed_provenance::<u8>(self.inputs[input] as usize);
        if self.program.inputs[input].layout == Layout::Rows && self.lengths.len() == 1 {
            // SAFETY: the elements lie side by side.
            return unsafe { to.copy_from(base.add(first * bytes), len * bytes) };
        }
        let strides = &self.strides[input];
        let step = strides[strides.len() - 1] * bytes as isize;
        self.for_runs(first, len, |coordinates, run| {
            let steps = coordinates.iter().zip(strides);
            let offset: isize = steps.map(|(&at, &stride)| at as isize * stride).sum();
            for k in 0..run as isize {
                // SAFETY: an element of the input, and room for it.
                unsafe {
                    to.copy_from_nonoverlapping(base.offset(offset * bytes as isize + k * step), bytes);
                    to = to.add(bytes);
                }
            }
        });
    }

    /// The elements' places along an axis.
    ///
    /// # Safety
    ///
    /// There is room for as many numbers at `to`.
    unsafe fn places(&self, axis: usize, first: usize, len: usize, mut to: *mut u64) {
        let last = axis == self.lengths.len() - 1;
        self.for_runs(first, len, |coordinates, run| {
            for k in 0..run {
                // SAFETY: there is room for it.
                unsafe {
                    to.write((coordinates[axis] + if last { k } else { 0 }) as u64);
                    to = to.add(1);
                }
            }
        });
    }
}

/// The same number for each element.
///
/// # Safety
///
/// There is room for them at `to`.
unsafe fn fill(bits: u64, bytes: usize, len: usize, to: *mut u8) {
    let number = bits.to_le_bytes();
    for k in 0..len {
        // SAFETY: there is room for it.
        unsafe { to.add(k * bytes).copy_from_nonoverlapping(number.as_ptr(), bytes) };
    }
}

/// The kernel's body for one thread.
///
/// # Safety
///
/// The parameter is the address of a job whose arrays are there.
unsafe fn run(params: *const *const ()) {
    // SAFETY: the caller's promise.
    let job = unsafe { &*std::ptr::with_exposed_provenance::<Job>(*(*params).cast::<u64>() as usize) };
    let block = cuda_sim::block_idx().x as usize;
    // SAFETY: the caller's promise.
    unsafe { job.run_chunk(block * job.chunk) };
}
