// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that were made of programs, and their launches.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::interpret::Job;
use super::lower::Lowered;
use super::program::Program;
use super::ptx;
use crate::backend::{Backend, FunctionInfo, RawFunction};
use crate::error::{Error, Result};
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
        return unsafe { interpret(stream, lowered, outputs) };
    }
    let Made { function, info } = kernel(stream.backend(), &lowered.program)?;
    let strides: Vec<&[isize]> = lowered.strides.iter().map(Vec::as_slice).collect();
    for part in parts(&lowered.lengths) {
        let piece = piece(lowered, outputs, part);
        let block = ptx::parameters(
            &lowered.program,
            &ptx::Arguments {
                outputs: &piece.outputs,
                inputs: &piece.inputs,
                scalars: &lowered.scalars,
                lengths: &piece.lengths,
                strides: &strides,
                first: piece.first,
            },
        );
        let config = ptx::config(&lowered.program, &piece.lengths);
        let mut params = [block.as_ptr().cast()];
        // SAFETY: the kernel of this program on this device, whose one parameter is that block; its arrays are as the
        // caller promises. The module goes with the context, so nobody has to keep it.
        unsafe { stream.queue_function((function, Arc::new(())), &info, ptx::NAME, &config, &mut params)? };
    }
    Ok(())
}

/// Elements for one launch.
struct Piece {
    outputs: Vec<u64>,
    inputs: Vec<u64>,
    lengths: Vec<usize>,
    first: usize,
}

/// The parts of the first axis that are launched one by one.
fn parts(lengths: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let (first, rest) = (lengths[0], lengths[1..].iter().product::<usize>());
    // Parts of one axis begin where vectors do.
    let most = (ptx::MOST / rest).max(1);
    (0..first)
        .step_by(most)
        .map(move |begin| begin..first.min(begin + most))
}

fn piece(lowered: &Lowered<'_>, outputs: &[u64], part: Range<usize>) -> Piece {
    let Lowered {
        program,
        inputs,
        strides,
        lengths,
        ..
    } = lowered;
    let row: usize = lengths[1..].iter().product();
    let bytes = |value: u16| program.types[usize::from(value)].bytes();
    let outputs = (outputs.iter().zip(&program.outputs))
        .map(|(address, &value)| address + (part.start * row * bytes(value)) as u64);
    let inputs = inputs
        .iter()
        .zip(strides)
        .zip(&program.inputs)
        .map(|((address, strides), input)| {
            address.wrapping_add_signed((part.start as isize * strides[0] * input.ty.bytes() as isize) as i64)
        });
    let mut lengths = lengths.clone();
    lengths[0] = part.len();
    Piece {
        outputs: outputs.collect(),
        inputs: inputs.collect(),
        lengths,
        first: part.start,
    }
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
