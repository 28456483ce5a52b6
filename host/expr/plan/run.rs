// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who computes the kernels of a plan: a stream; or nobody, who only says what they are (explain.rs).

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use ndarray::Ix1;

use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::expr::compiled::without_elements;
use crate::expr::graph::apply::Application;
use crate::expr::graph::parts::Shape;
use crate::expr::graph::walk::with_layout;
use crate::expr::graph::{Array, Elements, Node};
use crate::expr::kernel::launch;
use crate::expr::kernel::reading::apply;
use crate::expr::program::Program;
use crate::expr::program::lower::{Lowered, lower};
use crate::stream::Stream;

/// What an operation is of.
pub(in crate::expr) enum Source<'a> {
    Array(Array<'a>),
    /// Elements of that shape that a program of one output computes, in its own kernels.
    Elements(Box<Lowered<'a>>, Shape),
}

pub(in crate::expr) trait Runner {
    /// Room for `len` numbers of that type.
    fn uninit<'a>(&self, ty: ScalarType, len: usize) -> Result<Array<'a>>;

    /// Runs a program, whose outputs these are.
    fn run(&self, lowered: &Lowered<'_>, outputs: &[&dyn Elements]) -> Result<()>;

    /// Applies an operation to these, into an output in C order.
    fn apply(&self, application: &Application<'_>, operands: &[Source<'_>], output: &dyn Elements) -> Result<()>;

    /// What is computed next is for that, or for the result again if it is nothing.
    fn begin(&self, _purpose: Option<String>) {}
}

/// Computes roots that are short enough for a kernel, and of no reductions.
pub(in crate::expr) fn compute(runner: &dyn Runner, roots: &[Arc<Node<'_>>], outputs: &[&dyn Elements]) -> Result<()> {
    runner.run(&lower(roots, outputs[0].shape(), &addresses(outputs)), outputs)
}

pub(in crate::expr) fn addresses(outputs: &[&dyn Elements]) -> Vec<u64> {
    outputs.iter().map(|output| output.first_address()).collect()
}

/// Room for elements of that shape, in C order.
pub(in crate::expr) fn uninit_shape<'a>(runner: &dyn Runner, ty: ScalarType, shape: &[usize]) -> Result<Array<'a>> {
    let array = runner.uninit(ty, shape.iter().product())?;
    Ok(with_layout(&array, shape.to_vec(), dense(shape)))
}

/// The strides of elements in C order.
pub(in crate::expr) fn dense(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

/// Has `launch` launch what reads and writes those arrays, in the order of their other uses.
pub(in crate::expr) fn in_order<'e>(
    stream: &Stream,
    reads: impl Iterator<Item = &'e dyn Elements> + Clone,
    writes: impl Iterator<Item = &'e dyn Elements> + Clone,
    launch: impl FnOnce() -> Result<()>,
) -> Result<()> {
    for array in reads.clone() {
        array.reads_on(stream)?;
    }
    for array in writes.clone() {
        array.writes_on(stream)?;
    }
    launch()?;
    // A thread that has prepared another part of an array since has waited for this stream without the launch.
    for array in reads.filter(|array| array.is_part()) {
        array.reads_on(stream)?;
    }
    for array in writes.filter(|array| array.is_part()) {
        array.writes_on(stream)?;
    }
    Ok(())
}

impl Runner for Stream {
    fn uninit<'a>(&self, ty: ScalarType, len: usize) -> Result<Array<'a>> {
        fn of<'a, T: Element>(stream: &Stream, len: usize) -> Result<Array<'a>> {
            let array: DeviceArray<T, Ix1> = DeviceArray::uninit(stream, Ix1(len))?;
            Ok(Arc::new(array))
        }
        match ty.bytes() {
            1 => of::<u8>(self, len),
            2 => of::<u16>(self, len),
            4 => of::<u32>(self, len),
            _ => of::<u64>(self, len),
        }
    }

    fn apply(&self, application: &Application<'_>, operands: &[Source<'_>], output: &dyn Elements) -> Result<()> {
        let operation = &*application.operation;
        let mut arrays: Vec<&dyn Elements> = Vec::with_capacity(operands.len());
        for operand in operands {
            match operand {
                Source::Array(array) => arrays.push(&**array),
                Source::Elements(lowered, _) if !lowered.later.is_empty() => return Err(without_elements()),
                Source::Elements(lowered, shape) => {
                    let reads = lowered.arrays.iter().map(|array| &**array);
                    // SAFETY: the arrays' elements, in memory of the stream's device, as in `run`; the stream was just ordered.
                    let apply = || unsafe { apply(self, operation, lowered, shape, output) };
                    return in_order(self, reads, std::iter::empty(), apply);
                }
            }
        }
        operation.run(self, &arrays, output)
    }

    fn run(&self, lowered: &Lowered<'_>, outputs: &[&dyn Elements]) -> Result<()> {
        if !reads_in_order(lowered, outputs) {
            return apart(self, lowered, outputs);
        }
        if !lowered.later.is_empty() {
            return Err(without_elements());
        }
        let reads = lowered.arrays.iter().map(|array| &**array);
        // SAFETY: the arrays' elements and the outputs', in memory of the stream's device: `eval` has checked that of the
        // arrays, and nodes that all of an expression's are on one. The stream was just ordered behind their other uses. An
        // output is an input only in `update`, and then the program reads it element by element, as just asked.
        let launch = || unsafe { launch(self, lowered, &addresses(outputs)) };
        in_order(self, reads, outputs.iter().copied(), launch)
    }
}

/// Whether an array that is both read and written is read where it is written, by the thread that does, before.
pub(in crate::expr) fn reads_in_order(lowered: &Lowered<'_>, outputs: &[&dyn Elements]) -> bool {
    let Lowered {
        program,
        inputs,
        lengths,
        strides,
        ..
    } = lowered;
    let dense = lowered.dense();
    let is_apart = |input: usize, output: usize| inputs[input] != outputs[output].first_address();
    let is_element = |output: usize| program.reduce.as_ref().is_none_or(|reduce| !reduce.is_row[output]);
    let lies_so = |input: usize| {
        let axes = strides[input].iter().zip(&dense).zip(lengths);
        axes.into_iter()
            .all(|((stride, dense), &length)| stride == dense || length == 1)
    };
    (0..inputs.len())
        .all(|input| (0..outputs.len()).all(|output| is_apart(input, output) || is_element(output) && lies_so(input)))
}

/// Runs a program into memory of its own, which is then copied to the outputs.
pub(in crate::expr) fn apart(runner: &dyn Runner, lowered: &Lowered<'_>, outputs: &[&dyn Elements]) -> Result<()> {
    let Program {
        types, outputs: steps, ..
    } = &lowered.program;
    let ty = |output: usize| types[usize::from(steps[output])];
    let own = outputs.iter().enumerate();
    let own = own.map(|(output, array)| uninit_shape(runner, ty(output), array.shape()));
    let own = own.collect::<Result<Vec<Array<'_>>>>()?;
    runner.run(lowered, &own.iter().map(|array| &**array).collect::<Vec<_>>())?;
    for (output, (array, to)) in own.into_iter().zip(outputs).enumerate() {
        compute(runner, &[Node::of_array(array, ty(output))], &[*to])?;
    }
    Ok(())
}
