// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated GPU's way to compute a program: a kernel whose threads go through its steps, each for a chunk of
//! elements, by the functions that GPUs have as text.

use std::any::TypeId;
use std::sync::Arc;

use cuda_sim::{LaunchConfig, Space};
use cuda_std::scalar::ScalarType;

use super::lower::Lowered;
use super::{Combine, Fold, Form, Layout, MAX_ARGUMENTS, Program, Reduce, Step};
use crate::backend::KernelInfo;

/// Bytes that the steps of a chunk take, at most where they are few.
const CHUNK_BYTES: usize = 1 << 18;

/// What the kernel's one parameter points to.
pub(in crate::expr) struct Job {
    program: Program,
    inputs: Vec<u64>,
    scalars: Vec<u64>,
    /// Of the program's axes; rows that are combined lie along the last one.
    lengths: Vec<usize>,
    strides: Vec<Vec<isize>>,
    outputs: Vec<u64>,
    elements: usize,
    /// Elements that a thread computes at a time.
    chunk: usize,
    /// The parts of rows that are combined, how many and of how many elements each.
    parts: (usize, usize),
    /// As [`Program::passes`].
    passes: Vec<u8>,
}

impl Job {
    pub(in crate::expr) fn new(lowered: &Lowered<'_>, outputs: &[u64]) -> Arc<Self> {
        let mut job = Self {
            program: lowered.program.clone(),
            inputs: lowered.inputs.clone(),
            scalars: lowered.scalars.clone(),
            lengths: lowered.lengths.clone(),
            strides: lowered.strides.clone(),
            outputs: outputs.to_vec(),
            elements: lowered.lengths.iter().product(),
            chunk: (CHUNK_BYTES / 8 / lowered.program.steps.len()).clamp(64, 4096),
            parts: lowered.parts,
            passes: lowered.program.passes(),
        };
        if job.program.has_columns() {
            job.turn();
        }
        if job.program.reduce.is_some() {
            job.chunk = job.chunk.min(job.row_len());
        }
        Arc::new(job)
    }

    /// Puts the first axis last.
    fn turn(&mut self) {
        let axes = self.lengths.len() as u8;
        self.lengths.rotate_left(1);
        self.strides.iter_mut().for_each(|strides| strides.rotate_left(1));
        for step in &mut self.program.steps {
            if let Step::Index(axis) = step {
                *axis = (*axis + axes - 1) % axes;
            }
        }
    }

    /// A block of one thread for each chunk, or each part of a row.
    pub(in crate::expr) fn config(&self) -> LaunchConfig {
        let blocks = match &self.program.reduce {
            Some(_) => self.elements / self.row_len() * self.parts.0,
            None => self.elements.div_ceil(self.chunk),
        };
        LaunchConfig::new(blocks as u32, 1)
    }

    fn row_len(&self) -> usize {
        self.lengths[self.lengths.len() - 1]
    }

    /// The kernel, which takes the job's address.
    pub(in crate::expr) fn kernel() -> KernelInfo {
        KernelInfo {
            id: TypeId::of::<Self>(),
            package: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            name: "expression",
            signature: 0,
            sizes: &[(size_of::<u64>(), 0)],
            cooperative: false,
            cluster: 1.into(),
            sets_cluster: false,
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
        let mut numbers = self.numbers();
        // SAFETY: the caller's promise.
        unsafe {
            self.compute(&mut numbers, first, len, |_| true);
            for output in 0..self.outputs.len() {
                self.store(&mut numbers, output, first, len);
            }
        }
    }

    /// Room for what the steps give of a chunk: eight bytes for each element.
    fn numbers(&self) -> Vec<u64> {
        vec![0; self.program.steps.len() * self.chunk]
    }

    fn place(&self, numbers: &mut [u64], step: usize) -> *mut () {
        numbers[step * self.chunk..].as_mut_ptr().cast()
    }

    /// Computes those steps for the elements from `first` on, `len` of them and no more than a chunk.
    ///
    /// # Safety
    ///
    /// As [`run_chunk`](Self::run_chunk).
    unsafe fn compute(&self, numbers: &mut [u64], first: usize, len: usize, is_wanted: impl Fn(usize) -> bool) {
        let Program { steps, types, .. } = &self.program;
        for (at, (step, ty)) in steps.iter().zip(types).enumerate().filter(|(at, _)| is_wanted(*at)) {
            let to = self.place(numbers, at);
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
                            arguments.map(|step| self.place(numbers, step.into()).cast_const());
                        (function.run)(addresses.as_ptr(), to, len);
                    }
                    // Its place has the number since the fold was done.
                    Step::Folded(..) => {}
                }
            }
        }
    }

    /// Stores elements, those of the output from `first` on.
    ///
    /// # Safety
    ///
    /// As [`run_chunk`](Self::run_chunk); the elements were computed.
    unsafe fn store(&self, numbers: &mut [u64], output: usize, first: usize, len: usize) {
        let step = usize::from(self.program.outputs[output]);
        let bytes = self.program.types[step].bytes();
        let from: *const u8 = self.place(numbers, step).cast_const().cast();
        let to = std::ptr::with_exposed_provenance_mut::<u8>(self.outputs[output] as usize + first * bytes);
        // Races are not looked for: no two threads have the same elements.
        cuda_sim::assume_written(Space::Global, to.addr(), len * bytes);
        // SAFETY: the output has these elements.
        unsafe { to.copy_from(from, len * bytes) };
    }

    /// Stores elements of a row that lies across, from place `at` on.
    ///
    /// # Safety
    ///
    /// As [`store`](Self::store).
    unsafe fn store_across(&self, numbers: &mut [u64], output: usize, (row, at): (usize, usize), len: usize) {
        let step = usize::from(self.program.outputs[output]);
        let bytes = self.program.types[step].bytes();
        let from: *const u8 = self.place(numbers, step).cast_const().cast();
        let columns = self.lengths[self.lengths.len() - 2];
        for k in 0..len {
            let element = (row / columns * self.row_len() + at + k) * columns + row % columns;
            let to = std::ptr::with_exposed_provenance_mut::<u8>(self.outputs[output] as usize + element * bytes);
            // As in `store`.
            cuda_sim::assume_written(Space::Global, to.addr(), bytes);
            // SAFETY: the output has this element, and the chunk's place as well.
            unsafe { to.copy_from(from.add(k * bytes), bytes) };
        }
    }

    /// Combines a part of a row, and computes what is made of that.
    ///
    /// # Safety
    ///
    /// As [`run_chunk`](Self::run_chunk).
    unsafe fn run_row(&self, reduce: &Reduce, block: usize) {
        let (parts, part_len) = self.parts;
        let (row, part) = (block / parts, block % parts);
        let (begin, row_len) = (part * part_len, self.row_len());
        let end = row_len.min(begin.saturating_add(part_len));
        let passes = &self.passes;
        let last = passes.iter().copied().max().unwrap_or(0);
        let chunks = || {
            (begin..end)
                .step_by(self.chunk)
                .map(|at| (at, self.chunk.min(end - at)))
        };
        let mut numbers = self.numbers();
        for pass in 0..=last {
            let mut folding: Vec<(usize, Folding<'_>)> = Vec::new();
            for (number, fold) in self.program.folds.iter().enumerate() {
                if self.program.fold_pass(number, passes) == pass {
                    folding.push((number, Folding::new(&self.program, fold, reduce.form)));
                }
            }
            let elements: Vec<usize> = (0..self.outputs.len())
                .filter(|&output| pass == last && !reduce.is_row[output])
                .collect();
            if folding.is_empty() && elements.is_empty() {
                continue;
            }
            for (at, len) in chunks() {
                let first = row * row_len + at;
                // SAFETY: the caller's promise; steps of this pass and those before need folds that are done.
                unsafe { self.compute(&mut numbers, first, len, |step| passes[step] <= pass) };
                for (_, folding) in &mut folding {
                    let values: Vec<*const u8> = (folding.fold.elements.iter())
                        .map(|&step| self.place(&mut numbers, step.into()).cast_const().cast())
                        .collect();
                    // SAFETY: the elements' numbers, just computed.
                    unsafe { folding.add(&values, at - begin, len) };
                }
                for &output in &elements {
                    // SAFETY: the caller's promise; just computed.
                    unsafe {
                        match reduce.form {
                            Form::Rows { .. } => self.store(&mut numbers, output, first, len),
                            Form::Columns { .. } => self.store_across(&mut numbers, output, (row, at), len),
                        }
                    }
                }
            }
            for (fold, folding) in folding {
                let totals = folding.finish();
                for (at, step) in self.program.steps.iter().enumerate() {
                    match *step {
                        Step::Folded(of, number) if usize::from(of) == fold => {
                            let (bits, bytes) = (totals[usize::from(number)], self.program.types[at].bytes());
                            // SAFETY: a chunk's place.
                            unsafe { fill(bits, bytes, self.chunk, self.place(&mut numbers, at).cast()) };
                        }
                        _ => {}
                    }
                }
            }
        }
        // What is the same all along the row.
        // SAFETY: the caller's promise; there is a first element.
        unsafe { self.compute(&mut numbers, row * row_len + begin, 1, |_| true) };
        let number = match reduce.form {
            Form::Rows { .. } => block,
            Form::Columns { .. } => part * (self.elements / row_len) + row,
        };
        for output in (0..self.outputs.len()).filter(|&output| reduce.is_row[output]) {
            // SAFETY: the caller's promise; just computed.
            unsafe { self.store(&mut numbers, output, number, 1) };
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
            let from = base.wrapping_add(first * bytes);
            cuda_sim::load(from.addr(), len * bytes, 0);
            // SAFETY: the elements lie side by side.
            return unsafe { to.copy_from(from, len * bytes) };
        }
        let strides = &self.strides[input];
        let step = strides[strides.len() - 1] * bytes as isize;
        self.for_runs(first, len, |coordinates, run| {
            let steps = coordinates.iter().zip(strides);
            let offset: isize = steps.map(|(&at, &stride)| at as isize * stride).sum();
            if step == bytes as isize {
                let from = base.wrapping_offset(offset * step);
                for k in 0..run {
                    cuda_sim::load(from.addr() + k * bytes, bytes, 0);
                }
                // SAFETY: as many elements of the input, side by side, and room for them.
                unsafe {
                    to.copy_from_nonoverlapping(from, run * bytes);
                    to = to.add(run * bytes);
                }
                return;
            }
            for k in 0..run as isize {
                let from = base.wrapping_offset(offset * bytes as isize + k * step);
                cuda_sim::load(from.addr(), bytes, 0);
                // SAFETY: an element of the input, and room for it.
                unsafe {
                    to.copy_from_nonoverlapping(from, bytes);
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

/// The lanes of a row, as [`Reduce`] has them: numbers of eight bytes, the numbers of all lanes side by side as their type
/// wants.
struct Folding<'a> {
    program: &'a Program,
    fold: &'a Fold,
    /// The lane at each place of the tree.
    order: Vec<usize>,
    /// Of each number that an element brings, those of the lanes.
    lanes: Vec<Vec<u64>>,
}

impl<'a> Folding<'a> {
    fn new(program: &'a Program, fold: &'a Fold, form: Form) -> Self {
        let order = form.order();
        let Combine { types, identities, .. } = &fold.combine;
        let lanes = |(ty, &bits): (&ScalarType, &u64)| {
            let mut lanes = vec![0u64; order.len()];
            // SAFETY: eight bytes for each.
            unsafe { fill(bits, ty.bytes(), order.len(), lanes.as_mut_ptr().cast()) };
            lanes
        };
        Self {
            program,
            fold,
            lanes: types.iter().zip(identities).map(lanes).collect(),
            order,
        }
    }

    /// Combines the elements `first ..` of a part with the lanes that they belong to.
    ///
    /// # Safety
    ///
    /// There are `len` numbers of the fold's types at `values`.
    unsafe fn add(&mut self, values: &[*const u8], first: usize, len: usize) {
        let mut done = 0;
        while done < len {
            let lane = (first + done) % self.order.len();
            let count = (self.order.len() - lane).min(len - done);
            let sizes: Vec<usize> = self.fold.combine.types.iter().map(|ty| ty.bytes()).collect();
            let own = |lanes: &mut Vec<u64>, bytes: usize| lanes.as_mut_ptr().cast::<u8>().wrapping_add(lane * bytes);
            let own: Vec<*mut u8> = self
                .lanes
                .iter_mut()
                .zip(&sizes)
                .map(|(lanes, &bytes)| own(lanes, bytes))
                .collect();
            let others = values
                .iter()
                .zip(&sizes)
                .map(|(value, bytes)| value.wrapping_add(done * bytes));
            // SAFETY: lanes from `lane` on, and as many of the elements.
            unsafe { self.combine(&own, &others.collect::<Vec<_>>(), count) };
            done += count;
        }
    }

    /// The numbers of all lanes, combined.
    fn finish(mut self) -> Vec<u64> {
        let types = &self.fold.combine.types;
        let mut ordered: Vec<Vec<u64>> = Vec::with_capacity(types.len());
        for (lanes, ty) in self.lanes.iter().zip(types) {
            let (bytes, mut to) = (ty.bytes(), vec![0u64; self.order.len()]);
            for (place, &lane) in self.order.iter().enumerate() {
                let from: *const u8 = lanes.as_ptr().cast();
                // SAFETY: both have so many numbers.
                unsafe {
                    let to = to.as_mut_ptr().cast::<u8>().add(place * bytes);
                    to.copy_from_nonoverlapping(from.add(lane * bytes), bytes);
                }
            }
            ordered.push(to);
        }
        self.lanes = ordered;
        let mut len = self.order.len() / 2;
        while len > 0 {
            let first: Vec<*mut u8> = self.lanes.iter_mut().map(|lanes| lanes.as_mut_ptr().cast()).collect();
            let sizes = self.fold.combine.types.iter().map(|ty| ty.bytes());
            let second: Vec<*const u8> = first
                .iter()
                .zip(sizes)
                .map(|(at, bytes)| at.wrapping_add(len * bytes).cast_const())
                .collect();
            // SAFETY: the two halves of what is left.
            unsafe { self.combine(&first, &second, len) };
            len /= 2;
        }
        // The lowest bytes; others are 0 in a register.
        let total = |(lanes, ty): (&Vec<u64>, &ScalarType)| lanes[0] & u64::MAX >> (64 - 8 * ty.bytes());
        self.lanes.iter().zip(&self.fold.combine.types).map(total).collect()
    }

    /// Replaces `len` sets of numbers by what they are together with others.
    ///
    /// # Safety
    ///
    /// There are so many numbers of the fold's types at all addresses.
    unsafe fn combine(&self, own: &[*mut u8], others: &[*const u8], len: usize) {
        let combine = &self.fold.combine;
        let mut results: Vec<Vec<u64>> = Vec::with_capacity(combine.calls.len());
        let inputs = 2 * own.len();
        let at = |number: usize, results: &[Vec<u64>]| -> *const () {
            match number {
                _ if number < own.len() => own[number].cast_const().cast(),
                _ if number < inputs => others[number - own.len()].cast(),
                _ => results[number - inputs].as_ptr().cast(),
            }
        };
        for &(function, arguments) in &combine.calls {
            let function = self.program.functions[usize::from(function)];
            let mut addresses = [std::ptr::null(); MAX_ARGUMENTS];
            for (address, &number) in addresses.iter_mut().zip(&arguments).take(function.arguments.len()) {
                *address = at(number.into(), &results);
            }
            let mut result = vec![0u64; len];
            // SAFETY: so many numbers of the arguments' types, and room for the results.
            unsafe { (function.run)(addresses.as_ptr(), result.as_mut_ptr().cast(), len) };
            results.push(result);
        }
        for ((to, ty), &number) in own.iter().zip(&combine.types).zip(&combine.results) {
            let from: *const u8 = at(number.into(), &results).cast();
            // SAFETY: so many numbers of that type.
            unsafe { to.copy_from(from, len * ty.bytes()) };
        }
    }
}

/// The same number for each element.
///
/// # Safety
///
/// There is room for them at `to`.
unsafe fn fill(bits: u64, bytes: usize, len: usize, to: *mut u8) {
    let number = bits.to_le_bytes();
    let (mut done, all) = (bytes.min(len * bytes), len * bytes);
    // SAFETY: there is room for it.
    unsafe { to.copy_from_nonoverlapping(number.as_ptr(), done) };
    // What is there once more, until there is all.
    while done < all {
        let more = done.min(all - done);
        // SAFETY: there is room for all of it, behind what is copied.
        unsafe { to.add(done).copy_from_nonoverlapping(to, more) };
        done += more;
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
    unsafe {
        match &job.program.reduce {
            Some(reduce) => job.run_row(reduce, block),
            None => job.run_chunk(block * job.chunk),
        }
    }
}
