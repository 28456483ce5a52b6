// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that were made of programs, and their launches.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::interpret::Job;
use super::lower::Lowered;
use super::program::Program;
use super::ptx::{self, Parts};
use crate::backend::{Backend, FunctionInfo, RawFunction};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::stream::Stream;

/// A kernel that is loaded.
#[derive(Clone)]
struct Made {
    function: RawFunction,
    info: FunctionInfo,
}

/// The kernels of a device, by their programs. They stay loaded as long as the device's context is there.
#[derive(Default)]
pub(crate) struct Kernels {
    made: Mutex<FxHashMap<Program, Made>>,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").finish_non_exhaustive()
    }
}

impl Kernels {
    fn find(&self, program: &Program) -> Option<Made> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(program).cloned()
    }

    /// Keeps a kernel; where another thread has made the same meanwhile, that one.
    fn keep(&self, program: &Program, new: Made) -> Made {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(program.clone()).or_insert(new).clone()
    }
}

/// The kernel of a program, made now if it was not before: no lock is held while the driver compiles it.
fn kernel(backend: &Arc<dyn Backend>, program: &Program) -> Result<Made> {
    if let Some(made) = backend.expressions().find(program) {
        return Ok(made);
    }
    let texts = program.functions.iter().map(|function| backend.function_text(function));
    let texts: Vec<String> = texts.collect::<Result<_>>()?;
    let refused = |message: String| Error::Module {
        kernel: ptx::NAME,
        package: env!("CARGO_PKG_NAME"),
        message,
    };
    let mut text = ptx::kernel(program, &texts).map_err(|malformed| refused(malformed.to_string()))?;
    text.push('\0');
    // SAFETY: text that ends with a zero; the module is never unloaded, but goes with the context.
    let (function, info) = unsafe {
        let module = backend.load_module("the kernel of an expression", text.as_bytes())?;
        backend.module_function(module, "the kernel of an expression", ptx::NAME)?
    };
    Ok(backend.expressions().keep(program, Made { function, info }))
}

/// Computes the program's outputs, in C order at those addresses.
///
/// # Safety
///
/// There is room for all elements at the addresses, in memory of the stream's device that it is ordered for; so are the
/// arrays. An output may be an input, element by element.
pub(super) unsafe fn launch(stream: &Stream, lowered: &Lowered<'_>, outputs: &[u64]) -> Result<()> {
    if stream.backend().properties().is_simulated() {
        // SAFETY: the caller's promise.
        unsafe { interpret(stream, lowered, outputs)? };
        #[cfg(test)]
        ptx::run_again(lowered, outputs);
        return Ok(());
    }
    let Made { function, info } = kernel(stream.backend(), &lowered.program)?;
    for piece in pieces(lowered, outputs) {
        let (block, config) = piece.launch(lowered);
        let mut params = [block.as_ptr().cast()];
        // SAFETY: the kernel of this program on this device, whose one parameter is that block; its arrays are as the
        // caller promises. The module goes with the context, so nobody has to keep it.
        unsafe { stream.queue_function((function, Arc::new(())), &info, ptx::NAME, &config, &mut params)? };
    }
    Ok(())
}

/// Elements for one launch.
pub(super) struct Piece {
    outputs: Vec<u64>,
    inputs: Vec<u64>,
    lengths: Vec<usize>,
    first: usize,
    parts: Parts,
}

impl Piece {
    /// The block of parameters, and the threads.
    pub(super) fn launch(&self, lowered: &Lowered<'_>) -> (Vec<u8>, LaunchConfig) {
        let strides: Vec<&[isize]> = lowered.strides.iter().map(Vec::as_slice).collect();
        let arguments = ptx::Arguments {
            outputs: &self.outputs,
            inputs: &self.inputs,
            scalars: &lowered.scalars,
            lengths: &self.lengths,
            strides: &strides,
            first: self.first,
            parts: self.parts,
        };
        let config = ptx::config(&lowered.program, &self.lengths, self.parts);
        (ptx::parameters(&lowered.program, &arguments), config)
    }
}

/// What is launched one by one: parts of the first axis, or of the rows that are combined.
pub(super) fn pieces(lowered: &Lowered<'_>, outputs: &[u64]) -> Vec<Piece> {
    let Lowered {
        program,
        lengths,
        parts: (count, len),
        ..
    } = lowered;
    let whole = Parts {
        count: *count,
        len: *len,
        first: 0,
        launched: *count,
    };
    // Of each element of the first axis, so many that a kernel counts.
    let counted = match &program.reduce {
        None => lengths[1..].iter().product(),
        Some(reduce) if reduce.form.has_columns() => 0,
        Some(reduce) if reduce.is_row.contains(&false) => lengths[1..].iter().product(),
        Some(_) => lengths[1..lengths.len() - 1].iter().product(),
    };
    let most = ptx::MOST.checked_div(counted).map_or(usize::MAX, |most| most.max(1));
    if lengths[0] > most {
        // Parts of one axis begin where vectors do.
        let begins = (0..lengths[0]).step_by(most);
        return begins
            .map(|begin| rows(lowered, outputs, begin..lengths[0].min(begin + most), whole))
            .collect();
    }
    let launched = (ptx::MOST / len).max(1);
    let part = |first: usize| {
        let parts = Parts {
            first,
            launched: launched.min(count - first),
            ..whole
        };
        parts_of_rows(lowered, outputs, parts)
    };
    (0..*count).step_by(launched).map(part).collect()
}

/// A part of the first axis.
fn rows(lowered: &Lowered<'_>, outputs: &[u64], range: Range<usize>, parts: Parts) -> Piece {
    let Lowered { program, lengths, .. } = lowered;
    let bytes = |value: u16| program.types[usize::from(value)].bytes();
    let of_row = |output: usize| match &program.reduce {
        // Of a row along the last axis there is one number.
        Some(reduce) if reduce.is_row[output] => lengths[1..lengths.len() - 1].iter().product::<usize>() * parts.count,
        _ => lengths[1..].iter().product(),
    };
    let moved = (outputs.iter().zip(&program.outputs))
        .enumerate()
        .map(|(output, (address, &value))| address + (range.start * of_row(output) * bytes(value)) as u64);
    let mut of_piece = lengths.clone();
    of_piece[0] = range.len();
    Piece {
        outputs: moved.collect(),
        inputs: along(lowered, 0, range.start),
        lengths: of_piece,
        first: range.start,
        parts,
    }
}

/// Parts of all rows.
fn parts_of_rows(lowered: &Lowered<'_>, outputs: &[u64], parts: Parts) -> Piece {
    let start = parts.first * parts.len;
    Piece {
        outputs: outputs.to_vec(),
        inputs: match lowered.program.reduced_axis() {
            Some(axis) => along(lowered, axis, start),
            None => lowered.inputs.clone(),
        },
        lengths: lowered.lengths.clone(),
        first: 0,
        parts,
    }
}

/// The inputs' addresses at that place of an axis.
fn along(lowered: &Lowered<'_>, axis: usize, place: usize) -> Vec<u64> {
    let inputs = lowered.inputs.iter().zip(&lowered.strides).zip(&lowered.program.inputs);
    inputs
        .map(|((address, strides), input)| {
            address.wrapping_add_signed((place as isize * strides[axis] * input.ty.bytes() as isize) as i64)
        })
        .collect()
}

/// [`launch`] on the simulated GPU.
///
/// # Safety
///
/// That of [`launch`].
unsafe fn interpret(stream: &Stream, lowered: &Lowered<'_>, outputs: &[u64]) -> Result<()> {
    let job = Job::new(lowered, outputs);
    let address = Arc::as_ptr(&job).expose_provenance() as u64;
    let mut params = [(&raw const address).cast()];
    // SAFETY: the kernel's one parameter is the address of a job, whose arrays are as the caller promises, and which is kept
    // as long as the launch can be done again.
    unsafe { stream.queue_launch(&Job::kernel(), &job.config(), &mut params)? };
    stream.keep_recorded(job);
    Ok(())
}
