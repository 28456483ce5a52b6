// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that kernels of arrays compute where they would read an array, and operations on them.

use std::fmt;
use std::sync::Arc;

use super::{kernel, launch, without_arrays};
use crate::backend::KernelInfo;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::expr::graph::Elements;
use crate::expr::graph::apply::Operation;
use crate::expr::plan::run::{dense, uninit_shape};
use crate::expr::program::Vectors;
use crate::expr::program::lower::Lowered;
use crate::expr::ptx::{self, Parts};
use crate::launch::LaunchConfig;
use crate::stream::Stream;

/// The elements of a program, which kernels compute where they would read an array.
pub struct Reading {
    lowered: Lowered<'static>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reading").field(&self.lowered.program).finish()
    }
}

impl Reading {
    /// The address that kernels are given for the array.
    pub(crate) const FIRST: u64 = ptx::FIRST;

    /// Launches a kernel that has these elements in place of its first array.
    ///
    /// # Safety
    ///
    /// These are the addresses of the kernel's parameters, and those of a launch on that stream, whose first one is an array at
    /// [`FIRST`](Self::FIRST) of no more elements than the program's. The arrays that the program reads are there, in memory of
    /// the stream's device that the stream is ordered for.
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        reader: &KernelInfo,
        config: &LaunchConfig,
        params: &mut Vec<*const ()>,
    ) -> Result<()> {
        let Lowered { program, lengths, .. } = &self.lowered;
        let made = kernel(stream.backend(), program, Some(reader))?;
        let arguments = ptx::Arguments {
            outputs: &[0],
            inputs: &self.lowered.inputs,
            scalars: &self.lowered.scalars,
            lengths,
            strides: &self.lowered.strides,
            first: 0,
            parts: Parts {
                count: 1,
                len: ptx::MOST,
                first: 0,
                launched: 1,
            },
            cache: 0,
        };
        let block = ptx::reading_parameters(program, &arguments);
        params.push(block.as_ptr().cast());
        // SAFETY: the kernel's own parameters, as the caller promises, and the block that the rewritten one has besides.
        unsafe { made.launch_with(stream, reader.name, config, params) }
    }
}

/// An array that is not in memory.
struct Read {
    stream: Stream,
    shape: Vec<usize>,
    strides: Vec<isize>,
    buffer: Arc<Buffer>,
}

// SAFETY: it borrows nothing.
unsafe impl Elements for Read {
    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn strides(&self) -> &[isize] {
        &self.strides
    }

    fn first_address(&self) -> u64 {
        self.buffer.address()
    }

    fn reads_on(&self, stream: &Stream) -> Result<()> {
        self.buffer.reads_on(stream)
    }

    fn writes_on(&self, stream: &Stream) -> Result<()> {
        self.buffer.writes_on(stream)
    }

    fn is_part(&self) -> bool {
        false
    }

    fn memory(&self) -> Option<(&Arc<Buffer>, usize)> {
        Some((&self.buffer, 0))
    }
}

/// Applies an operation that [reads](Operation::reads) to the elements of that shape that a program of one output computes: on a
/// GPU its kernels compute them, on the simulated GPU they are computed first.
///
/// # Safety
///
/// The arrays that the program reads are there, in memory of the stream's device that the stream is ordered for.
pub(in crate::expr) unsafe fn apply(
    stream: &Stream,
    operation: &dyn Operation,
    lowered: &Lowered<'_>,
    shape: &[usize],
    output: &dyn Elements,
) -> Result<()> {
    let ty = lowered.program.types[usize::from(lowered.program.outputs[0])];
    if stream.backend().properties().is_simulated() {
        let array = uninit_shape(stream, ty, shape)?;
        array.writes_on(stream)?;
        // SAFETY: the caller's promise; the output is an array of the program's elements, just made, in C order.
        unsafe { launch(stream, lowered, &[array.first_address()])? };
        return operation.run(stream, &[&*array], output);
    }
    let mut lowered = without_arrays(lowered);
    // The text is one for all: the reader has its own threads.
    lowered.program.vectors = Vectors::Any;
    lowered.program.transposed = None;
    lowered.program.ragged = false;
    lowered.program.streamed = Vec::new();
    lowered.program.either_way = false;
    let reading = Reading { lowered };
    let bytes = shape.iter().product::<usize>() * ty.bytes();
    let elements = Read {
        stream: stream.clone(),
        shape: shape.to_vec(),
        strides: dense(shape),
        buffer: Arc::new(Buffer::of_expression(stream, bytes, reading)),
    };
    operation.run(stream, &[&elements], output)
}
