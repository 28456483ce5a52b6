// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernels that were made of programs, and their launches.

pub(in crate::expr) mod reading;
pub(in crate::expr) mod together;

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::backend::{Backend, Code, FunctionInfo, KernelInfo, RawFunction};
use crate::error::{Error, Result};
use crate::expr::compiled::evaluated::Plans;
use crate::expr::program::Program;
use crate::expr::program::interpret::Job;
use crate::expr::program::lower::Lowered;
use crate::expr::ptx::{self, Parts};
use crate::graph::Keeper;
use crate::launch::LaunchConfig;
use crate::stream::Stream;

/// A kernel that is loaded.
pub(in crate::expr) struct Made {
    function: RawFunction,
    info: FunctionInfo,
    /// What keeps its module, which goes with the context: nobody has to.
    module: Keeper,
}

impl Made {
    /// Launches it.
    ///
    /// # Safety
    ///
    /// The kernel is one of the stream's device, and the block of parameters is one for its program, whose arrays are there, and
    /// the stream ordered for them.
    unsafe fn launch(&self, stream: &Stream, block: &[u8], config: &LaunchConfig) -> Result<()> {
        // SAFETY: the kernel's one parameter is such a block; for the rest the caller's promise.
        unsafe { self.launch_with(stream, ptx::NAME, config, &mut [block.as_ptr().cast()]) }
    }

    /// # Safety
    ///
    /// The kernel, called so, is one of the stream's device, and these are the addresses of its parameters, as it wants them.
    unsafe fn launch_with(
        &self,
        stream: &Stream,
        name: &str,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        let function = (self.function, Arc::clone(&self.module));
        // SAFETY: the caller's promise.
        unsafe { stream.queue_function(function, &self.info, name, config, params) }
    }
}

type ByProgram = FxHashMap<Program, Arc<Made>>;

/// The kernels of a device, by their programs; those that read elements in place of an array also by what they were before. They
/// stay loaded as long as the device's context is there. And the plans of expressions that were evaluated.
#[derive(Default)]
pub(crate) struct Kernels {
    made: Mutex<FxHashMap<Option<TypeId>, ByProgram>>,
    plans: Plans,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").finish_non_exhaustive()
    }
}

impl Kernels {
    pub(in crate::expr) fn plans(&self) -> &Plans {
        &self.plans
    }

    fn find(&self, reader: Option<TypeId>, program: &Program) -> Option<Arc<Made>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(&reader)?.get(program).cloned()
    }

    /// Keeps a kernel; where another thread has made the same meanwhile, that one.
    fn keep(&self, reader: Option<TypeId>, program: &Program, new: Made) -> Arc<Made> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let made = made.entry(reader).or_default();
        made.entry(program.clone()).or_insert(Arc::new(new)).clone()
    }
}

/// The kernel of a program, or `reader` with the program's elements in place of its first array, made now if it was not before:
/// no lock is held while the driver compiles it.
pub(in crate::expr) fn kernel(
    backend: &Arc<dyn Backend>,
    program: &Program,
    reader: Option<&KernelInfo>,
) -> Result<Arc<Made>> {
    let id = reader.map(|reader| reader.id);
    if let Some(made) = backend.expressions().find(id, program) {
        return Ok(made);
    }
    let name = reader.map_or(ptx::NAME, |reader| reader.name);
    let texts = program.functions.iter().map(|function| backend.function_text(function));
    let texts: Vec<String> = texts.collect::<Result<_>>()?;
    let refused = |message: String| Error::Module {
        kernel: name,
        package: reader.map_or(env!("CARGO_PKG_NAME"), |reader| reader.package),
        message,
    };
    let capability = backend.properties().compute_capability.unwrap_or_default();
    let text = match reader {
        None => ptx::kernel(program, &texts, capability),
        Some(reader) => ptx::reading(program, &texts, (name, &backend.kernel_text(reader)?), capability),
    };
    let mut text = text.map_err(|malformed| refused(malformed.to_string()))?;
    text.push('\0');
    // SAFETY: text that ends with a zero; the module is never unloaded, but goes with the context.
    let (function, info) = unsafe {
        let module = backend.load_module("the kernel of an expression", Code::Own, text.as_bytes())?;
        backend.module_function(module, "the kernel of an expression", name)?
    };
    let module = Arc::new(());
    let made = Made { function, info, module };
    Ok(backend.expressions().keep(id, program, made))
}

/// Computes the program's outputs, in C order at those addresses.
///
/// # Safety
///
/// There is room for all elements at the addresses, in memory of the stream's device that it is ordered for; so are the
/// arrays. An output may be an input, element by element.
pub(in crate::expr) unsafe fn launch(stream: &Stream, lowered: &Lowered<'_>, outputs: &[u64]) -> Result<()> {
    if stream.backend().properties().is_simulated() {
        #[cfg(test)]
        if ptx::is_recorded(&lowered.program) {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { interpret(stream, lowered, outputs)? };
        #[cfg(test)]
        ptx::run_again(lowered, outputs);
        return Ok(());
    }
    let made = kernel(stream.backend(), &lowered.program, None)?;
    let from_end = lowered.program.either_way && {
        let large = lowered.large(outputs);
        stream
            .turns()
            .begins_with_end(large.iter().map(|(_, addresses)| addresses.clone()))
    };
    for piece in in_turn(&pieces(lowered, outputs), from_end) {
        let (mut block, config) = piece.launch(lowered);
        if from_end {
            ptx::begin_with_last(&lowered.program, &mut block, &config);
        }
        // SAFETY: the kernel of this program on this device; its arrays are as the caller promises.
        unsafe { made.launch(stream, &block, &config)? };
    }
    Ok(())
}

/// Addresses that are so many bytes farther.
fn moved(addresses: &Range<u64>, by: u64) -> Range<u64> {
    addresses.start.wrapping_add(by)..addresses.end.wrapping_add(by)
}

/// In order, or the last one first.
fn in_turn<P>(pieces: &[P], from_end: bool) -> impl Iterator<Item = &P> {
    let number = move |k: usize| if from_end { pieces.len() - 1 - k } else { k };
    (0..pieces.len()).map(move |k| &pieces[number(k)])
}

/// A program and its arrays and numbers, but for the addresses of these arrays and for some numbers.
pub(in crate::expr) struct Later {
    /// Where addresses are, their distance from those that are given; where numbers are that are given, 0.
    lowered: Lowered<'static>,
    outputs: Vec<u64>,
}

impl Later {
    /// Of a program whose arrays were lowered as if they were at the addresses `bases`, outputs first.
    pub(in crate::expr) fn new(lowered: &Lowered<'_>, outputs: &[u64], bases: &[u64]) -> Self {
        let negative: Vec<u64> = bases.iter().map(|base| base.wrapping_neg()).collect();
        let (of_outputs, of_inputs) = negative.split_at(outputs.len());
        Self {
            outputs: sums(outputs, of_outputs),
            lowered: Lowered {
                inputs: sums(&lowered.inputs, of_inputs),
                later: Vec::new(),
                ..without_arrays(lowered)
            },
        }
    }

    /// With these addresses and numbers: of outputs, inputs, and numbers, where 0 stands for a number that is known.
    pub(in crate::expr) fn with(&self, values: &[u64]) -> (Lowered<'static>, Vec<u64>) {
        let (outputs, rest) = values.split_at(self.outputs.len());
        let (inputs, scalars) = rest.split_at(self.lowered.inputs.len());
        let lowered = Lowered {
            inputs: sums(&self.lowered.inputs, inputs),
            scalars: sums(&self.lowered.scalars, scalars),
            ..self.lowered.clone()
        };
        (lowered, sums(&self.outputs, outputs))
    }
}

/// What is lowered, of arrays that somebody else keeps.
fn without_arrays(lowered: &Lowered<'_>) -> Lowered<'static> {
    Lowered {
        program: lowered.program.clone(),
        arrays: Vec::new(),
        inputs: lowered.inputs.clone(),
        scalars: lowered.scalars.clone(),
        later: lowered.later.clone(),
        lengths: lowered.lengths.clone(),
        strides: lowered.strides.clone(),
        parts: lowered.parts,
        cache: lowered.cache,
    }
}

/// The launches of a program, ready but for the addresses of its arrays and for numbers.
pub(in crate::expr) struct Launches {
    later: Later,
    /// Found, or made, by the first launch that is none of several together; on the simulated GPU by none.
    made: OnceLock<Arc<Made>>,
    /// Blocks of parameters, whose first words are outputs, inputs and numbers, in the same way.
    pieces: Vec<(Vec<u8>, LaunchConfig)>,
    /// The [large](Lowered::large) arrays, in the same way, if the program goes either way.
    large: Vec<(usize, Range<u64>)>,
}

impl Launches {
    /// Of a program whose arrays were lowered as if they were at the addresses `bases`, outputs first.
    pub(in crate::expr) fn new(lowered: &Lowered<'_>, outputs: &[u64], bases: &[u64]) -> Self {
        let negative: Vec<u64> = bases.iter().map(|base| base.wrapping_neg()).collect();
        let pieces = pieces(lowered, outputs).into_iter().map(|piece| {
            let (mut block, config) = piece.launch(lowered);
            add_words(&mut block, &negative);
            (block, config)
        });
        let large = match lowered.program.either_way {
            true => lowered.large(outputs),
            false => Vec::new(),
        };
        let large = large
            .into_iter()
            .map(|(number, at)| (number, moved(&at, negative[number])));
        Self {
            made: OnceLock::new(),
            pieces: pieces.collect(),
            large: large.collect(),
            later: Later::new(lowered, outputs, bases),
        }
    }

    /// Whether its launches [can be parts](together::can_be_together) of others.
    pub(in crate::expr) fn can_be_together(&self) -> bool {
        let Lowered { program, lengths, .. } = &self.later.lowered;
        together::can_be_together(program, lengths)
    }

    /// What is computed with these addresses and numbers, which are those of [`launch`](Self::launch).
    pub(in crate::expr) fn at(&self, values: &[u64]) -> together::Work<'static> {
        self.later.with(values)
    }

    fn made(&self, stream: &Stream) -> Result<&Arc<Made>> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = kernel(stream.backend(), &self.later.lowered.program, None)?;
        Ok(self.made.get_or_init(|| made))
    }

    /// Launches them with these addresses and numbers: of outputs, inputs, and numbers, where 0 stands for a number that is
    /// known.
    ///
    /// # Safety
    ///
    /// That of [`launch`], of a stream of the same device.
    pub(in crate::expr) unsafe fn launch(&self, stream: &Stream, values: &[u64]) -> Result<()> {
        if stream.backend().properties().is_simulated() {
            let (lowered, outputs) = self.later.with(values);
            #[cfg(test)]
            assert!(self.tell(&lowered, &outputs, values), "{:?}", lowered.program);
            // SAFETY: the caller's promise.
            return unsafe { launch(stream, &lowered, &outputs) };
        }
        let made = self.made(stream)?;
        let program = &self.later.lowered.program;
        let large = self.large.iter().map(|(number, at)| moved(at, values[*number]));
        let from_end = program.either_way && stream.turns().begins_with_end(large);
        for (piece, config) in in_turn(&self.pieces, from_end) {
            let mut block = piece.clone();
            add_words(&mut block, values);
            if from_end {
                ptx::begin_with_last(program, &mut block, config);
            }
            // SAFETY: the kernel of this program on this device; its arrays are as the caller promises.
            unsafe { made.launch(stream, &block, config)? };
        }
        Ok(())
    }

    /// Whether these launches tell a GPU what launches of such a program are told.
    #[cfg(test)]
    fn tell(&self, lowered: &Lowered<'_>, outputs: &[u64], values: &[u64]) -> bool {
        let told = self.pieces.iter().cloned().map(|(mut block, config)| {
            add_words(&mut block, values);
            (block, config)
        });
        told.eq(pieces(lowered, outputs).into_iter().map(|piece| piece.launch(lowered)))
    }
}

fn sums(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| a.wrapping_add(*b)).collect()
}

/// Adds to the first words of a block.
fn add_words(block: &mut [u8], summands: &[u64]) {
    for (word, summand) in block.chunks_exact_mut(8).zip(summands) {
        let number = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        word.copy_from_slice(&number.wrapping_add(*summand).to_le_bytes());
    }
}

/// Elements for one launch.
pub(in crate::expr) struct Piece<'l> {
    outputs: Cow<'l, [u64]>,
    inputs: Cow<'l, [u64]>,
    lengths: Cow<'l, [usize]>,
    first: usize,
    parts: Parts,
}

impl Piece<'_> {
    /// The block of parameters, and the threads.
    pub(in crate::expr) fn launch(&self, lowered: &Lowered<'_>) -> (Vec<u8>, LaunchConfig) {
        let arguments = ptx::Arguments {
            outputs: &self.outputs,
            inputs: &self.inputs,
            scalars: &lowered.scalars,
            lengths: &self.lengths,
            strides: &lowered.strides,
            first: self.first,
            parts: self.parts,
            cache: lowered.cache,
        };
        let config = ptx::config(&lowered.program, &self.lengths, self.parts);
        (ptx::parameters(&lowered.program, &arguments), config)
    }
}

/// What is launched one by one: parts of the first axis, or of the rows that are combined.
pub(in crate::expr) fn pieces<'l>(lowered: &'l Lowered<'_>, outputs: &'l [u64]) -> Vec<Piece<'l>> {
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
        // A row may have several blocks.
        Some(reduce) => lengths[1..lengths.len() - 1].iter().product::<usize>() << reduce.blocks_log2,
    };
    let most = ptx::MOST.checked_div(counted).map_or(usize::MAX, |most| most.max(1));
    // Parts of whole tiles have whole tiles, and others begin with a vector.
    let of_tiles = program.has_turned() && program.transposed == Some(0);
    let most = match of_tiles || program.ragged {
        true => most - most % ptx::TILE_ROWS,
        false => most,
    };
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
fn rows(lowered: &Lowered<'_>, outputs: &[u64], range: Range<usize>, parts: Parts) -> Piece<'static> {
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
        inputs: along(lowered, 0, range.start).into(),
        lengths: of_piece.into(),
        first: range.start,
        parts,
    }
}

/// Parts of all rows.
fn parts_of_rows<'l>(lowered: &'l Lowered<'_>, outputs: &'l [u64], parts: Parts) -> Piece<'l> {
    let start = parts.first * parts.len;
    Piece {
        outputs: outputs.into(),
        inputs: match lowered.program.reduced_axis() {
            Some(axis) if start > 0 => along(lowered, axis, start).into(),
            _ => lowered.inputs.as_slice().into(),
        },
        lengths: lowered.lengths.as_slice().into(),
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

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis, Ix0, Ix2};

    use super::*;
    use crate::expr::program::Form;
    use crate::expr::program::lower::{Reducing, lower};
    use crate::expr::{Expr, compile};
    use crate::{Device, DeviceArray, Result};

    const LEN: usize = 1 << 16;

    /// 2^32 elements.
    fn table<'a>(x: &'a DeviceArray<f32, Ix2>, y: &'a DeviceArray<f32, Ix2>, output: u64) -> Lowered<'a> {
        let root = (x.expr() + y.expr() * 2.0).into_part().expect("a table");
        lower(&[root], &[LEN, LEN], &[output])
    }

    #[test]
    fn parts_of_whole_tiles_have_whole_tiles() -> Result<()> {
        let device = Device::simulator();
        let x = DeviceArray::<f32, Ix2>::zeros(device.default_stream(), (192, 64))?;
        let turned = x.t();
        let root = turned.expr().into_part().expect("a table");
        let mut lowered = lower(&[root], &[64, 192], &[0]);
        assert!(lowered.program.has_turned());
        for columns in [192, ptx::MOST / ptx::TILE_ROWS] {
            lowered.lengths = vec![100_000 * ptx::TILE_ROWS, columns];
            let pieces = pieces(&lowered, &[0]);
            assert!(
                pieces
                    .iter()
                    .all(|piece| piece.lengths[0].is_multiple_of(ptx::TILE_ROWS))
            );
            let rows: usize = pieces.iter().map(|piece| piece.lengths[0]).sum();
            assert_eq!((rows, pieces.len() > 1), (lowered.lengths[0], true));
        }
        Ok(())
    }

    #[test]
    fn parts_of_ragged_programs_begin_with_a_vector() -> Result<()> {
        let device = Device::simulator();
        let x = DeviceArray::<f32, Ix2>::zeros(device.default_stream(), (193, 33))?;
        let turned = x.t();
        let root = turned.expr().into_part().expect("a table");
        let mut lowered = lower(&[root], &[33, 193], &[0]);
        assert!(lowered.program.ragged);
        lowered.lengths = vec![1 << 23, 193];
        let pieces = pieces(&lowered, &[0]);
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.outputs[0].is_multiple_of(16)));
        Ok(())
    }

    /// A sum in parts.
    fn row<'a>(x: &'a DeviceArray<f32, Ix2>, _: &DeviceArray<f32, Ix2>, output: u64) -> Lowered<'a> {
        let root = x.expr().sum_axis(Axis(1)).into_part().expect("a sum");
        let form = Form::Rows {
            lanes_log2: 8,
            held: 0,
            looped: 4,
        };
        Reducing::new(&[root], &[1, LEN], &[1]).finish(form, (16, LEN / 16), &[output])
    }

    #[test]
    fn launches_tell_of_other_arrays_what_launches_of_those_are_told() -> Result<()> {
        let device = Device::simulator();
        let zeros = |shape| DeviceArray::<f32, Ix2>::zeros(device.default_stream(), shape);
        let (one, other) = (
            (zeros((1, LEN))?, zeros((LEN, 1))?),
            (zeros((1, LEN))?, zeros((LEN, 1))?),
        );
        let (own, others) = (1 << 40, 1 << 41);
        for (known, called, count) in [
            (table(&one.0, &one.1, own), table(&other.0, &other.1, others), 4),
            (row(&one.0, &one.1, own), row(&other.0, &other.1, others), 1),
        ] {
            let bases = [&[own], &known.inputs[..]].concat();
            let values = [&[others], &called.inputs[..], &vec![0; called.scalars.len()]].concat();
            let launches = Launches::new(&known, &[own], &bases);
            assert_eq!(launches.pieces.len(), count);
            assert!(launches.tell(&called, &[others], &values));
            assert!(!launches.tell(&called, &[own], &values));
        }
        Ok(())
    }

    /// Each launch of these calls looks whether it tells what it should.
    #[test]
    fn compiled_functions_launch_with_the_numbers_of_each_call() -> Result<()> {
        let device = Device::simulator();
        let f = compile(|(x, a): (Expr<f32, Ix2>, Expr<f32, Ix0>)| (x.exp() * 2.0 + &a).sum_axis(Axis(0)) * a);
        for (seed, a) in [(1.0f32, 0.5f32), (2.0, -3.0)] {
            let x = DeviceArray::from_ndarray(device.default_stream(), &Array2::from_elem((300, 41), seed))?;
            let wanted = ((x.expr().exp() * 2.0 + a).sum_axis(Axis(0)) * a)
                .eval()?
                .to_ndarray()?;
            assert_eq!(f.call((&x, a))?.to_ndarray()?, wanted);
        }
        Ok(())
    }
}
