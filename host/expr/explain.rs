// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an expression computes, and by which kernels, as text.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use half::{bf16, f16};
use ndarray::Dimension;
use rustc_hash::FxHashMap;

use super::Expr;
use super::graph::apply::Application;
use super::graph::composite::expanded;
use super::graph::walk::{Depth, walk};
use super::graph::{Array, Elements, Kind, Node};
use super::plan;
use super::plan::run::{Runner, Source, uninit_shape};
use super::program::lower::{Lowered, bytes_of};
use super::program::{Form, Value as Number};
use super::value::Value;
use crate::device::Properties;
use crate::error::Result;
use crate::stream::Stream;

impl<T: Value, D: Dimension> Expr<'_, T, D> {
    /// What would be computed, and by which kernels: a line for each step with its type and shape; then for each kernel what it
    /// goes through, the bytes that it reads and writes, and on a GPU the time that its memory takes for them. An operation on
    /// whole arrays counts as one kernel, which reads and writes each element once; a kernel that computes what an operation is of
    /// says so, and so does an operation that computes it itself. Of an expression of no array, there are the steps alone.
    ///
    /// Rows that a reduction goes through are read "at once" where threads keep them in registers, "in a loop" where they read them
    /// anew for each pass, and "partly at once" where they keep what they have registers for; with shared memory in place of the
    /// loop, where the device has room, rows are "in shared memory", or "partly". The threads of long rows, 1024 that have all of one
    /// at once or more, are those "of a cluster" of blocks where the GPU has clusters; elsewhere a block has all of 1024, and of more
    /// each of its threads is several of them, one after another.
    ///
    /// # Errors
    ///
    /// That of the operation that put the expression together wrongly, as of [`eval`](Self::eval).
    ///
    /// # Examples
    ///
    /// ```
    /// use warpsmith::ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let centred = x.expr() - x.expr().mean_axis(Axis(1)).insert_axis(Axis(1));
    /// let text = centred.explain()?;
    /// assert!(text.ends_with("kernel 1: 2 rows of 2, by 1 thread each, at once, 1 reduction: reads 16 B, writes 16 B"), "{text}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain(&self) -> Result<String> {
        explain(self.part.as_ref().map_err(Clone::clone)?)
    }
}

pub(super) fn explain(root: &Arc<Node<'_>>) -> Result<String> {
    let root = &expanded(root)?;
    let mut text = steps(root);
    let Some(home) = root.home.as_ref().filter(|_| !root.shape.contains(&0)) else {
        return Ok(text);
    };
    let explained = Explained {
        stream: home.stream().clone(),
        kernels: RefCell::default(),
        purpose: RefCell::default(),
        arrays: Cell::default(),
    };
    let output = uninit_shape(&explained, root.ty, &root.shape)?;
    plan::run(&explained, &[root], &[&*output])?;
    for (number, kernel) in explained.kernels.borrow().iter().enumerate() {
        write!(text, "\nkernel {}: {kernel}", number + 1).expect("a string takes all");
    }
    Ok(text)
}

/// A line for each step.
fn steps(root: &Arc<Node<'_>>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut of_steps: FxHashMap<String, usize> = FxHashMap::default();
    let mut of_nodes: FxHashMap<*const Node<'_>, usize> = FxHashMap::default();
    for node in walk(&[root], |node| node.parts(Depth::All)) {
        let numbers = |parts: &[Arc<Node<'_>>]| -> String {
            let numbers = parts.iter().map(|part| format!("%{}", of_nodes[&Arc::as_ptr(part)]));
            numbers.collect::<Vec<_>>().join(", ")
        };
        let (what, lies) = match &node.kind {
            Kind::Array(array) => ("array".into(), Some((array.first_address(), array.strides()))),
            Kind::Scalar(bits) => (number(node.ty, *bits), None),
            Kind::Argument(place) => (format!("number {}", place.number), None),
            Kind::Index(axis) => (format!("index along axis {axis}"), None),
            Kind::Call(function, parts) => (format!("{}({})", function.name, numbers(parts)), None),
            Kind::Reduced(reduced) => {
                let reduction = &reduced.reduction;
                let (operator, parts) = (reduction.operator.name_of(reduced.number), numbers(&reduction.parts));
                (format!("{operator} along {:?}({parts})", reduction.axes), None)
            }
            Kind::Composed(_) => unreachable!("composites are expanded by now"),
            Kind::Applied(applied) => {
                let application = &applied.application;
                let (operation, operands) = (application.operation.describe(), numbers(&application.operands));
                // Another operation with the same operands may differ in what is not said.
                let address = Arc::as_ptr(application).cast::<()>() as u64;
                (format!("{operation}({operands})"), Some((address, &[][..])))
            }
        };
        let step = format!("{what}: {} {:?}", node.ty.name(), node.shape);
        let number = *of_steps.entry(format!("{step} {lies:?}")).or_insert_with(|| {
            lines.push(format!("%{} = {step}", lines.len()));
            lines.len() - 1
        });
        of_nodes.insert(Arc::as_ptr(node), number);
    }
    lines.join("\n")
}

/// A runner that runs nothing.
struct Explained {
    stream: Stream,
    kernels: RefCell<Vec<String>>,
    /// What the next ones are for.
    purpose: RefCell<Option<String>>,
    /// The arrays that there have been.
    arrays: Cell<u64>,
}

impl Runner for Explained {
    fn uninit<'a>(&self, _: ScalarType, len: usize) -> Result<Array<'a>> {
        let arrays = self.arrays.replace(self.arrays.get() + 1);
        Ok(Arc::new(Nowhere {
            stream: self.stream.clone(),
            shape: [len],
            // Where no memory is.
            address: (1 << 63) + (arrays << 8),
        }))
    }

    fn run(&self, lowered: &Lowered<'_>, _: &[&dyn Elements]) -> Result<()> {
        let mut kernel = describe(lowered, self.stream.backend().properties());
        if let Some(purpose) = &*self.purpose.borrow() {
            kernel += &format!(", for {purpose}");
        }
        self.kernels.borrow_mut().push(kernel);
        Ok(())
    }

    fn apply(&self, application: &Application<'_>, operands: &[Source<'_>], output: &dyn Elements) -> Result<()> {
        let types = application.operands.iter().map(|operand| operand.ty);
        let mut how = "";
        let read = types.zip(operands).map(|(ty, operand)| match operand {
            Source::Array(array) => bytes_of(ty, array.shape(), array.strides()),
            Source::Elements(lowered, _) => {
                how = " of elements that it computes";
                lowered.read()
            }
        });
        let read: usize = read.sum();
        let written = application.ty.bytes() * output.shape().iter().product::<usize>();
        let moved = moved(read, written, self.stream.backend().properties());
        let kernel = format!("{}{how}: {moved}", application.operation.describe());
        self.kernels.borrow_mut().push(kernel);
        Ok(())
    }

    fn begin(&self, purpose: Option<String>) {
        *self.purpose.borrow_mut() = purpose;
    }
}

/// An array that is only imagined, as well aligned as any, at an address of its own.
struct Nowhere {
    stream: Stream,
    shape: [usize; 1],
    address: u64,
}

// SAFETY: it borrows nothing.
unsafe impl Elements for Nowhere {
    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn strides(&self) -> &[isize] {
        &[1]
    }

    fn first_address(&self) -> u64 {
        self.address
    }

    fn reads_on(&self, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn writes_on(&self, _: &Stream) -> Result<()> {
        Ok(())
    }

    fn is_part(&self) -> bool {
        false
    }
}

/// What a kernel goes through, and the bytes that it moves.
fn describe(lowered: &Lowered<'_>, device: &Properties) -> String {
    let (program, lengths) = (&lowered.program, &lowered.lengths);
    let elements: usize = lengths.iter().product();
    let (rows, row_len) = match program.reduced_axis() {
        Some(axis) => (elements / lengths[axis], lengths[axis]),
        None => (1, elements),
    };
    let by = match program.reduce.as_ref().map(|reduce| reduce.form) {
        None => format!("{elements} elements"),
        Some(Form::Columns { is_held, .. }) => {
            let how = if is_held { ", at once" } else { "" };
            format!("{rows} rows of {row_len}, side by side{how}")
        }
        Some(Form::Rows {
            lanes_log2,
            held,
            looped,
        }) => {
            let threads = 1usize << lanes_log2;
            let is_stashed = program.reduce.as_ref().is_some_and(|reduce| reduce.is_stashed);
            let blocks_log2 = program.reduce.as_ref().map_or(0, |reduce| reduce.blocks_log2);
            let how = match (held, looped, is_stashed) {
                (_, 0, _) if blocks_log2 > 0 => &format!("of a cluster of {} blocks, at once", 1 << blocks_log2),
                (_, 0, _) => "at once",
                (0, _, true) => "in shared memory",
                (0, _, false) => "in a loop",
                (_, _, true) => "partly in shared memory",
                (_, _, false) => "partly at once",
            };
            format!("{rows} rows of {row_len}, by {} each, {how}", count(threads, "thread"))
        }
    };
    let parts = match lowered.parts {
        (1, _) => String::new(),
        (parts, _) => format!(", in {parts} parts"),
    };
    let reductions = match program.folds.len() {
        0 => String::new(),
        folds => format!(", {}", count(folds, "reduction")),
    };
    let bytes = |&value: &Number| program.types[usize::from(value)].bytes();
    let written: usize = (program.outputs.iter().enumerate())
        .map(|(output, value)| match &program.reduce {
            Some(reduce) if reduce.is_row[output] => rows * lowered.parts.0 * bytes(value),
            _ => elements * bytes(value),
        })
        .sum();
    format!("{by}{parts}{reductions}: {}", moved(lowered.read(), written, device))
}

/// So many bytes, with the time that the device's memory takes for them.
fn moved(read: usize, written: usize, device: &Properties) -> String {
    let time = match bandwidth(device) {
        Some(rate) => format!(
            ", {:.2} µs at {:.0} GB/s",
            (read + written) as f64 / rate * 1e6,
            rate / 1e9
        ),
        None => String::new(),
    };
    format!("reads {read} B, writes {written} B{time}")
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Bytes a second of the device's memory at its highest clock, twice in each cycle.
fn bandwidth(device: &Properties) -> Option<f64> {
    let (clock, bits) = (device.memory_clock_khz?, device.memory_bus_bits?);
    Some(2e3 * f64::from(clock) * f64::from(bits) / 8.0)
}

/// The number of that type.
fn number(ty: ScalarType, bits: u64) -> String {
    match ty {
        ScalarType::Bool => (bits != 0).to_string(),
        ScalarType::F16 => f16::from_bits(bits as u16).to_string(),
        ScalarType::Bf16 => bf16::from_bits(bits as u16).to_string(),
        ScalarType::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        ScalarType::F64 => format!("{:?}", f64::from_bits(bits)),
        ScalarType::I32 => (bits as i32).to_string(),
        ScalarType::I64 => (bits as i64).to_string(),
        _ => bits.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Axis, array};

    use super::super::AnyExpr;
    use crate::expr::ptx::with_clusters;
    use crate::{Device, DeviceArray};

    /// Which on the simulated GPU of these tests are as on a GPU, with clusters and without.
    #[test]
    fn rows_are_said_to_be_where_they_are() -> crate::Result<()> {
        let device = Device::simulator();
        for (len, has_clusters, how) in [
            (16_384, true, "by 512 threads each, at once"),
            (16_388, true, "by 1024 threads each, of a cluster of 2 blocks, at once"),
            (32_768, true, "by 1024 threads each, of a cluster of 2 blocks, at once"),
            (32_768, false, "by 1024 threads each, at once"),
            (40_000, true, "by 2048 threads each, of a cluster of 4 blocks, at once"),
            (70_004, true, "by 4096 threads each, of a cluster of 8 blocks, at once"),
            (40_000, false, "by 2048 threads each, partly in shared memory"),
            (40_001, true, "by 1024 threads each, partly at once"),
            (70_004, false, "by 4096 threads each, partly at once"),
            (262_144, false, "by 8192 threads each, in a loop"),
        ] {
            let x = DeviceArray::<f32, _>::zeros(device.default_stream(), (16, len))?;
            let text = with_clusters(has_clusters, || x.expr().softmax(Axis(1)).explain())?;
            assert!(text.contains(&format!("{how}, ")), "{len}: {text}");
        }
        Ok(())
    }

    #[test]
    fn each_step_is_a_line() -> crate::Result<()> {
        let device = Device::simulator();
        let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32], [2.0]])?;
        let n = DeviceArray::from_ndarray(device.default_stream(), &array![1i32, 2, 3])?;
        let any: AnyExpr = ((&n - 1) * &n + x.expr().tanh() * x.expr().tanh()).into();
        let wanted = "\
%0 = array: i32 [3]
%1 = 1: i32 []
%2 = number_binary_u32_Sub(%0, %1): i32 [3]
%3 = number_binary_u32_Mul(%2, %0): i32 [3]
%4 = number_cast_i32_f32(%3): f32 [3]
%5 = array: f32 [2, 1]
%6 = number_unary_f32_Tanh(%5): f32 [2, 1]
%7 = number_binary_f32_Mul(%6, %6): f32 [2, 1]
%8 = number_binary_f32_Add(%4, %7): f32 [2, 3]
kernel 1: 6 elements: reads 20 B, writes 24 B";
        assert_eq!(any.explain()?, wanted);
        Ok(())
    }
}
