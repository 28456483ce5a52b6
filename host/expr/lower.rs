// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the graph of an expression to the program that computes it, and where its arrays lie.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use super::function::bits_of;
use super::node::{Array, Kind, Node};
use super::program::{Input, Layout, MAX_ARGUMENTS, Program, Step, Value};
use super::ptx;
use crate::backend::DeviceFnInfo;

/// A program, and the arrays and numbers that it is of.
pub(super) struct Lowered<'a> {
    pub(super) program: Program,
    pub(super) arrays: Vec<Array<'a>>,
    /// The address of each array's first element.
    pub(super) inputs: Vec<u64>,
    /// The bits of the numbers.
    pub(super) scalars: Vec<u64>,
    /// The lengths of the program's axes.
    pub(super) lengths: Vec<usize>,
    /// Of each array, the distances along them, in elements.
    pub(super) strides: Vec<Vec<isize>>,
}

/// What the elements of `shape` of all roots take. Each root's shape is repeated to that one.
pub(super) fn lower<'a>(roots: &[Arc<Node<'a>>], shape: &[usize]) -> Lowered<'a> {
    let mut steps = Steps {
        shape,
        program: Program::default(),
        arrays: Vec::new(),
        strides: Vec::new(),
        scalars: Vec::new(),
        of_nodes: FxHashMap::default(),
        of_steps: FxHashMap::default(),
    };
    let outputs = roots.iter().map(|root| steps.root(root)).collect();
    steps.program.outputs = outputs;
    steps.finish()
}

struct Steps<'s, 'a> {
    shape: &'s [usize],
    program: Program,
    arrays: Vec<Array<'a>>,
    /// Of each array, along the axes of `shape`.
    strides: Vec<Vec<isize>>,
    scalars: Vec<u64>,
    of_nodes: FxHashMap<*const Node<'a>, Value>,
    /// What was written twice is computed once.
    of_steps: FxHashMap<Step, Value>,
}

impl<'a> Steps<'_, 'a> {
    /// The step that gives the elements of `root`, behind those of its parts, without recursion.
    fn root(&mut self, root: &Arc<Node<'a>>) -> Value {
        let mut rest = vec![(root, false)];
        while let Some((node, parts_are_there)) = rest.pop() {
            if self.of_nodes.contains_key(&Arc::as_ptr(node)) {
                continue;
            }
            match &node.kind {
                Kind::Call(_, arguments) if !parts_are_there => {
                    rest.push((node, true));
                    rest.extend(arguments.iter().rev().map(|part| (part, false)));
                }
                _ => {
                    let value = self.step(node);
                    self.of_nodes.insert(Arc::as_ptr(node), value);
                }
            }
        }
        self.of_nodes[&Arc::as_ptr(root)]
    }

    fn step(&mut self, node: &Node<'a>) -> Value {
        let step = match &node.kind {
            Kind::Array(array) => Step::Input(self.input(array, node.ty)),
            Kind::Scalar(bits) => Step::Scalar(self.scalar(node.ty, *bits)),
            Kind::Index(axis) => Step::Index((axis + self.shape.len() - node.shape.len()) as u8),
            Kind::Call(function, parts) => {
                let mut arguments = [0; MAX_ARGUMENTS];
                for (argument, part) in arguments.iter_mut().zip(parts) {
                    *argument = self.of_nodes[&Arc::as_ptr(part)];
                }
                Step::Call(self.function(function), arguments)
            }
        };
        let program = &mut self.program;
        *self.of_steps.entry(step).or_insert_with(|| {
            program.steps.push(step);
            program.types.push(bits_of(node.ty));
            (program.steps.len() - 1) as Value
        })
    }

    fn input(&mut self, array: &Array<'a>, ty: ScalarType) -> u16 {
        let ty = bits_of(ty);
        let elements = array;
        let added = self.shape.len() - elements.shape().len();
        let mut strides = vec![0; self.shape.len()];
        for (axis, to) in strides.iter_mut().enumerate().skip(added) {
            if elements.shape()[axis - added] != 1 {
                *to = elements.strides()[axis - added];
            }
        }
        let same = |(other, lies): (&Array<'_>, &Vec<isize>)| {
            other.first_address() == elements.first_address() && *lies == strides
        };
        let mut known = self.arrays.iter().zip(&self.strides).zip(&self.program.inputs);
        if let Some(at) = known.position(|(lies, input)| input.ty == ty && same(lies)) {
            return at as u16;
        }
        self.arrays.push(array.clone());
        self.strides.push(strides);
        let layout = Layout::Strided; // until all axes are known
        self.program.inputs.push(Input { ty, layout });
        (self.arrays.len() - 1) as u16
    }

    /// A number of the expression's own: the same program serves others.
    fn scalar(&mut self, ty: ScalarType, bits: u64) -> u16 {
        self.scalars.push(bits);
        self.program.scalars.push(bits_of(ty));
        (self.scalars.len() - 1) as u16
    }

    fn function(&mut self, function: &'static DeviceFnInfo) -> u16 {
        let functions = &mut self.program.functions;
        let at = functions
            .iter()
            .position(|known| *known == function)
            .unwrap_or_else(|| {
                functions.push(function);
                functions.len() - 1
            });
        at as u16
    }

    /// Leaves out what no one needs of the axes, and says how arrays lie along them.
    fn finish(self) -> Lowered<'a> {
        let Self {
            shape,
            mut program,
            arrays,
            strides,
            scalars,
            ..
        } = self;
        let kept = join_axes(shape, &strides, &indexed(&program));
        let mut lengths = Vec::with_capacity(kept.len());
        let mut of_axes = vec![0; shape.len()];
        for (new_axis, axes) in kept.iter().enumerate() {
            of_axes[axes.clone()].fill(new_axis as u8);
            lengths.push(shape[axes.clone()].iter().product());
        }
        for step in &mut program.steps {
            if let Step::Index(axis) = step {
                *axis = of_axes[usize::from(*axis)];
            }
        }
        let joined = |strides: &Vec<isize>| kept.iter().map(|axes| strides[axes.end - 1]).collect();
        let mut strides: Vec<Vec<isize>> = strides.iter().map(joined).collect();
        if lengths.is_empty() {
            lengths.push(1);
            strides.iter_mut().for_each(|strides| strides.push(0));
        }
        for (input, strides) in program.inputs.iter_mut().zip(&strides) {
            input.layout = layout(strides);
        }
        program.axes = lengths.len() as u8;
        program.transposed =
            (program.inputs.iter().zip(&strides)).any(|(input, strides)| is_transposed(input, strides));
        let inputs: Vec<u64> = arrays.iter().map(|array| array.first_address()).collect();
        program.aligned = are_aligned(&program, &inputs, &lengths, &strides);
        Lowered {
            program,
            arrays,
            inputs,
            scalars,
            lengths,
            strides,
        }
    }
}

/// The axes along which places are asked for.
fn indexed(program: &Program) -> Vec<usize> {
    let axes = program.steps.iter().filter_map(|step| match step {
        Step::Index(axis) => Some(usize::from(*axis)),
        _ => None,
    });
    axes.collect()
}

/// The axes in groups that all arrays go through as through one axis; axes of length 1 are in none, but for those that
/// places are asked along, which stand alone.
fn join_axes(shape: &[usize], strides: &[Vec<isize>], indexed: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (axis, &length) in shape.iter().enumerate() {
        if length == 1 && !indexed.contains(&axis) {
            continue;
        }
        let joins = groups.last().is_some_and(|group| {
            let before = group.end - 1;
            !indexed.contains(&before)
                && !indexed.contains(&axis)
                && (strides.iter()).all(|strides| strides[before] == strides[axis] * length as isize)
        });
        match groups.last_mut() {
            // Between the two are axes of length 1 at most.
            Some(group) if joins => group.end = axis + 1,
            _ => groups.push(axis..axis + 1),
        }
    }
    groups
}

fn layout(strides: &[isize]) -> Layout {
    match strides.split_last() {
        _ if strides.iter().all(|&stride| stride == 0) => Layout::Single,
        Some((1, _)) => Layout::Rows,
        Some((0, _)) => Layout::Columns,
        _ => Layout::Strided,
    }
}

/// Whether elements that share a sector of memory are neighbours along the last axis but one, and those along the last are
/// farther apart.
fn is_transposed(input: &Input, strides: &[isize]) -> bool {
    match *strides {
        [.., row, column] if input.layout == Layout::Strided => {
            let [row, column] = [row, column].map(isize::unsigned_abs);
            (1..column).contains(&row) && row * input.ty.bytes() < ptx::SECTOR
        }
        _ => false,
    }
}

/// [`Program::aligned`]
fn are_aligned(program: &Program, inputs: &[u64], lengths: &[usize], strides: &[Vec<isize>]) -> bool {
    let vector = ptx::vector_len(program);
    let is_whole = |(input, (&address, strides)): (&Input, (&u64, &Vec<isize>))| {
        let outer = &strides[..strides.len() - 1];
        input.layout != Layout::Rows
            || address.is_multiple_of((vector * input.ty.bytes()) as u64)
                && outer.iter().all(|stride| stride.unsigned_abs().is_multiple_of(vector))
    };
    let rows_are_whole = lengths.len() == 1 || lengths[lengths.len() - 1].is_multiple_of(vector);
    rows_are_whole && program.inputs.iter().zip(inputs.iter().zip(strides)).all(is_whole)
}

#[cfg(test)]
mod tests {
    use ndarray::s;

    use super::*;
    use crate::{Device, DeviceArray};

    /// Views of an array that were put together with `x`, and whether the program is transposed.
    #[test]
    fn programs_are_transposed_where_an_input_has_its_neighbours_along_the_last_axis_but_one() -> crate::Result<()> {
        let device = Device::simulator();
        let zeros = |shape: [usize; 3]| DeviceArray::<f32, _>::zeros(device.default_stream(), shape);
        let (x, y) = (zeros([4, 40, 50])?, zeros([4, 50, 40])?);
        let is_transposed = |part: Arc<Node<'_>>| lower(&[Arc::clone(&part)], &part.shape).program.transposed;
        let plain = (x.expr() + &x).part.expect("one shape");
        assert!(!is_transposed(plain));
        let turned = y.view().permuted_axes([0, 2, 1])?;
        assert!(is_transposed((x.expr() + &*turned).part.expect("one shape")));
        assert!(is_transposed(turned.expr().part.expect("an array")));
        let reversed = turned.slice(s![.., ..;-1, ..;-1])?;
        assert!(is_transposed(reversed.expr().part.expect("an array")));
        // Of a matrix, whatever other axes of one element it has.
        let one = turned.slice(s![1..2, .., ..])?;
        assert!(is_transposed(one.expr().part.expect("an array")));
        // Columns, one row for all, elements that are apart, in C order, or in no sector with others.
        for view in [
            turned.slice(s![.., .., 0..1])?,
            turned.slice(s![.., 0..1, ..])?,
            x.slice(s![.., .., ..;2])?,
            x.slice(s![.., .., ..;-1])?,
            turned.slice(s![.., ..;8, ..])?,
        ] {
            assert!(
                !is_transposed(view.expr().part.expect("an array")),
                "{:?}",
                view.strides()
            );
        }
        Ok(())
    }
}
