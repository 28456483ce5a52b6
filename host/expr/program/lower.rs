// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the graph of an expression to the program that computes it, and where its arrays lie.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use super::layouts::{align, layout, neighbours, turn};
use super::streamed::cache;
use super::{Combine, Fold, Form, Input, Layout, MAX_ARGUMENTS, Program, Reduce, Step, Value, Words};
use crate::backend::DeviceFnInfo;
use crate::expr::compiled::Place;
use crate::expr::graph::function::bits_of;
use crate::expr::graph::walk::{FEW, Known};
use crate::expr::graph::{Array, Kind, Node, Reduction};
use crate::expr::plan::run::dense;
use crate::expr::ptx;

/// A program, and the arrays and numbers that it is of.
#[derive(Clone)]
pub(in crate::expr) struct Lowered<'a> {
    pub(in crate::expr) program: Program,
    pub(in crate::expr) arrays: Vec<Array<'a>>,
    /// The address of each array's first element.
    pub(in crate::expr) inputs: Vec<u64>,
    /// The bits of the numbers; 0 of those that are given later.
    pub(in crate::expr) scalars: Vec<u64>,
    /// Which of the numbers are given later.
    pub(in crate::expr) later: Vec<(usize, Place)>,
    /// The lengths of the program's axes.
    pub(in crate::expr) lengths: Vec<usize>,
    /// Of each array, the distances along them, in elements.
    pub(in crate::expr) strides: Vec<Vec<isize>>,
    /// The parts that rows are combined in, how many and of how many elements each.
    pub(in crate::expr) parts: (usize, usize),
    /// Bytes of the device's second-level cache.
    pub(in crate::expr) cache: usize,
}

impl Lowered<'_> {
    /// The strides of what has a number for each element, along the axes, in C order: rows that lie side by side go through their
    /// axis between the others.
    pub(in crate::expr) fn dense(&self) -> Vec<isize> {
        let [len, outer @ .., columns] = &self.lengths[..] else {
            return dense(&self.lengths);
        };
        if !self.program.has_columns() {
            return dense(&self.lengths);
        }
        let in_order = [outer, &[*len, *columns]].concat();
        let mut strides = dense(&in_order);
        let of_reduced = strides.remove(outer.len());
        strides.insert(0, of_reduced);
        strides
    }

    /// The bytes of the arrays that are read, each element once.
    pub(in crate::expr) fn read(&self) -> usize {
        let inputs = self.program.inputs.iter().zip(&self.strides);
        inputs
            .map(|(input, strides)| bytes_of(input.ty, &self.lengths, strides))
            .sum()
    }
}

/// The bytes of elements that lie so, each once.
pub(in crate::expr) fn bytes_of(ty: ScalarType, lengths: &[usize], strides: &[isize]) -> usize {
    let lengths = lengths.iter().zip(strides).filter(|(_, stride)| **stride != 0);
    ty.bytes() * lengths.map(|(length, _)| length).product::<usize>()
}

/// What the elements of `shape` of all roots take. Each root's shape is repeated to that one; `outputs` is where they are
/// stored.
pub(in crate::expr) fn lower<'a>(roots: &[Arc<Node<'a>>], shape: &[usize], outputs: &[u64]) -> Lowered<'a> {
    let mut steps = Steps::new(shape, &[]);
    let values = roots.iter().map(|root| steps.root(root, Along::Elements)).collect();
    steps.program.outputs = values;
    let mut joined = steps.join(0..shape.len());
    joined.fill();
    steps.finish(vec![joined], outputs)
}

/// Reductions along some axes of elements of one shape, and what is made of them.
pub(in crate::expr) struct Reducing<'s, 'a> {
    pub(super) steps: Steps<'s, 'a>,
    is_row: Vec<bool>,
    /// The axes that are left.
    rows: Joined,
    /// The axes that elements are combined along.
    reduced: Joined,
}

impl<'s, 'a> Reducing<'s, 'a> {
    /// Of roots that have the shape of the elements, `shape`, or that without the axes `reduced`, or with 1 in their place.
    pub(in crate::expr) fn new(roots: &[Arc<Node<'a>>], shape: &'s [usize], reduced: &'s [usize]) -> Self {
        let mut steps = Steps::new(shape, reduced);
        let mut is_row = Vec::with_capacity(roots.len());
        for root in roots {
            let along = if root.shape.len() == shape.len() {
                Along::Elements
            } else {
                Along::Rows
            };
            is_row.push(*root.shape != *shape);
            let value = steps.root(root, along);
            steps.program.outputs.push(value);
        }
        let mut rows = steps.join(steps.kept.iter().copied());
        let mut reduced = steps.join(reduced.iter().copied());
        rows.fill();
        reduced.fill();
        Self {
            steps,
            is_row,
            rows,
            reduced,
        }
    }

    /// The axes of the elements that the last of the axes goes through which all arrays have elements combined along: all of
    /// them, if the rows of each array lie along one axis.
    pub(in crate::expr) fn last_reduced(&self) -> &[usize] {
        &self.reduced.members[self.reduced.members.len() - 1]
    }

    /// Whether all rows lie along one axis.
    pub(in crate::expr) fn is_one_axis(&self) -> bool {
        self.reduced.lengths.len() == 1
    }

    /// The elements of a row.
    pub(in crate::expr) fn row_len(&self) -> usize {
        self.reduced.lengths.iter().product()
    }

    pub(in crate::expr) fn rows(&self) -> usize {
        self.rows.lengths.iter().product()
    }

    /// Whether what is left of the axes is one.
    pub(in crate::expr) fn has_one_axis_of_rows(&self) -> bool {
        self.rows.lengths.len() == 1
    }

    /// The reductions that depend on one another.
    pub(in crate::expr) fn passes(&self) -> usize {
        usize::from(self.steps.program.passes().into_iter().max().unwrap_or(0))
    }

    /// Whether an output has a number for each element.
    pub(in crate::expr) fn has_elements(&self) -> bool {
        self.is_row.contains(&false)
    }

    /// The numbers that elements bring, of all reductions.
    pub(in crate::expr) fn numbers(&self) -> usize {
        let folds = self.steps.program.folds.iter();
        folds.map(|fold| fold.combine.types.len()).sum()
    }

    /// The calls of functions that there are for each element, those for each row aside; one that gives 8 bytes counts twice, for
    /// it takes as many instructions and registers as two.
    pub(in crate::expr) fn calls(&self) -> usize {
        let program = &self.steps.program;
        let count = |function: u16| program.functions[usize::from(function)].result.bytes().div_ceil(4);
        let steps = program.steps.iter().zip(self.varying());
        let of_steps = steps.map(|(step, varies)| match step {
            Step::Call(function, _) if varies => count(*function),
            _ => 0,
        });
        let of_folds = program.folds.iter().flat_map(|fold| &fold.combine.calls);
        of_steps.sum::<usize>() + of_folds.map(|(function, _)| count(*function)).sum::<usize>()
    }

    /// The 4-byte words of an element that a thread has in registers if it has its elements there all at once.
    pub(in crate::expr) fn words(&self) -> Words {
        let outputs = self.steps.program.outputs.iter().zip(&self.is_row);
        let stored: Vec<Value> = outputs.filter(|(_, is_row)| !**is_row).map(|(&step, _)| step).collect();
        self.steps.program.words(&self.varying(), &stored)
    }

    /// The bytes that an element of a row reads.
    pub(in crate::expr) fn bytes(&self) -> usize {
        self.sizes().sum()
    }

    /// Whether all that an element of a row reads is words, or longer.
    pub(in crate::expr) fn reads_words(&self) -> bool {
        self.sizes().all(|bytes| bytes >= 4)
    }

    /// The bytes of each input of which a row has many elements.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let inputs = self.steps.program.inputs.iter().zip(&self.reduced.strides);
        let along = inputs.filter(|(_, strides)| strides.iter().any(|&stride| stride != 0));
        along.map(|(input, _)| input.ty.bytes())
    }

    /// Whether each step differs along a row.
    fn varying(&self) -> Vec<bool> {
        let strides = |input: u16| &self.reduced.strides[usize::from(input)];
        self.steps.program.varying(|step| match *step {
            Step::Input(input) => strides(input).iter().any(|&stride| stride != 0),
            Step::Index(axis) => !self.steps.kept.contains(&usize::from(axis)),
            _ => false,
        })
    }

    /// Whether more bytes have their neighbours in the next row than in their own, and `least` rows at least are neighbours.
    pub(in crate::expr) fn has_neighbours_in_rows(&self, least: usize) -> bool {
        let last =
            |joined: &Joined, array: usize| joined.strides[array].last().map_or(0, |stride| stride.unsigned_abs());
        let (mut along, mut across) = (0, 0);
        for (array, input) in self.steps.program.inputs.iter().enumerate() {
            match (last(&self.reduced, array), last(&self.rows, array)) {
                (0, _) => {}
                (1, _) => along += input.ty.bytes(),
                (_, 1) => across += input.ty.bytes(),
                _ => {}
            }
        }
        across > along && self.columns() >= least
    }

    /// The rows that are neighbours along their last axis.
    pub(in crate::expr) fn columns(&self) -> usize {
        self.rows.lengths[self.rows.lengths.len() - 1]
    }

    /// Whether a result with a number for each element has those of a row as far apart as the rows that are neighbours along the last
    /// axis are many.
    pub(in crate::expr) fn has_elements_in_order(&self) -> bool {
        let axes = &self.reduced.members[0];
        let (Some(&first), Some(&last)) = (axes.first(), axes.last()) else {
            return false;
        };
        // Nothing else lies between these axes, and the rows that are neighbours are all that lies behind.
        let len = |axes: &[usize]| axes.iter().product::<usize>();
        let (between, behind) = (&self.steps.shape[first..=last], &self.steps.shape[last + 1..]);
        len(between) == self.row_len() && len(behind) == self.columns()
    }

    /// The program that goes through the rows in that form. Of several parts, what is stored is that of each.
    pub(in crate::expr) fn finish(mut self, form: Form, parts: (usize, usize), outputs: &[u64]) -> Lowered<'a> {
        let (row_len, step) = (self.row_len(), form.step());
        self.steps.program.reduce = Some(Reduce {
            form,
            is_row: self.is_row,
            in_parts: parts.0 > 1,
            is_whole: row_len.is_multiple_of(step) && (parts.0 == 1 || parts.1.is_multiple_of(step)),
            is_stashed: false,
            blocks_log2: 0,
            skips_last: false,
        });
        let axes = match form {
            Form::Rows { .. } => vec![self.rows, self.reduced],
            Form::Columns { .. } => vec![self.reduced, self.rows],
        };
        let mut lowered = Lowered {
            parts,
            ..self.steps.finish(axes, outputs)
        };
        lowered.suit_clusters();
        lowered.suit_shared_memory();
        lowered
    }
}

/// What a part has its numbers along.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Along {
    /// The axes of the elements, the last ones.
    Elements,
    /// Those of them that nothing is combined along, the last ones.
    Rows,
}

/// A number of the expression's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Known(u64),
    Later(Place),
}

pub(super) struct Steps<'s, 'a> {
    shape: &'s [usize],
    /// The axes that nothing is combined along.
    kept: Vec<usize>,
    program: Program,
    pub(super) arrays: Vec<Array<'a>>,
    /// Of each array, along the axes of `shape`.
    strides: Vec<Vec<isize>>,
    scalars: Vec<Number>,
    of_nodes: Known<(*const Node<'a>, Along), Value>,
    of_reductions: FxHashMap<*const Reduction<'a>, u16>,
    /// What was written twice is computed once.
    of_steps: Known<Step, Value>,
}

impl<'s, 'a> Steps<'s, 'a> {
    fn new(shape: &'s [usize], reduced: &[usize]) -> Self {
        Steps {
            shape,
            kept: (0..shape.len()).filter(|axis| !reduced.contains(axis)).collect(),
            program: Program {
                steps: Vec::with_capacity(FEW),
                types: Vec::with_capacity(FEW),
                ..Program::default()
            },
            arrays: Vec::new(),
            strides: Vec::new(),
            scalars: Vec::new(),
            of_nodes: Known::default(),
            of_reductions: FxHashMap::default(),
            of_steps: Known::default(),
        }
    }

    /// The step that gives the elements of `root`, behind those of its parts, without recursion.
    fn root(&mut self, root: &Arc<Node<'a>>, along: Along) -> Value {
        let mut rest = Vec::with_capacity(FEW);
        rest.push((root, along, false));
        while let Some((node, along, parts_are_there)) = rest.pop() {
            if self.of_nodes.get(&(Arc::as_ptr(node), along)).is_some() {
                continue;
            }
            let parts: Option<(&[Arc<Node<'a>>], Along)> = match &node.kind {
                Kind::Call(_, arguments) => Some((arguments, along)),
                Kind::Reduced(reduced) => Some((&reduced.reduction.parts, Along::Elements)),
                _ => None,
            };
            match parts {
                Some((parts, of_parts)) if !parts_are_there => {
                    rest.push((node, along, true));
                    rest.extend(parts.iter().rev().map(|part| (part, of_parts, false)));
                }
                _ => {
                    let value = self.step(node, along);
                    self.of_nodes.insert((Arc::as_ptr(node), along), value);
                }
            }
        }
        self.of_node(root, along)
    }

    /// The step of a part that has been gone through.
    fn of_node(&self, part: &Arc<Node<'a>>, along: Along) -> Value {
        let step = self.of_nodes.get(&(Arc::as_ptr(part), along));
        step.expect("parts are ahead of what they are parts of")
    }

    /// The axis of the elements that is axis `axis` of a part with so many.
    fn axis(&self, axis: usize, axes: usize, along: Along) -> usize {
        match along {
            Along::Elements => axis + self.shape.len() - axes,
            Along::Rows => self.kept[axis + self.kept.len() - axes],
        }
    }

    fn step(&mut self, node: &Node<'a>, along: Along) -> Value {
        let step = match &node.kind {
            Kind::Array(array) => Step::Input(self.input(array, node.ty, along)),
            Kind::Scalar(bits) => Step::Scalar(self.scalar(node.ty, Number::Known(*bits))),
            Kind::Argument(place) => Step::Scalar(self.scalar(node.ty, Number::Later(*place))),
            Kind::Index(axis) => Step::Index(self.axis(*axis, node.shape.len(), along) as u8),
            Kind::Call(function, parts) => {
                let mut arguments = [0; MAX_ARGUMENTS];
                for (argument, part) in arguments.iter_mut().zip(parts) {
                    *argument = self.of_node(part, along);
                }
                Step::Call(self.function(function), arguments)
            }
            Kind::Reduced(reduced) => Step::Folded(self.fold(&reduced.reduction), reduced.number as u8),
            Kind::Applied(_) => unreachable!("what operations give are arrays by now"),
            Kind::Composed(_) => unreachable!("composites are expanded by now"),
        };
        if let Some(known) = self.of_steps.get(&step) {
            return known;
        }
        let number = self.program.steps.len() as Value;
        self.program.steps.push(step);
        self.program.types.push(bits_of(node.ty));
        self.of_steps.insert(step, number);
        number
    }

    fn fold(&mut self, reduction: &Arc<Reduction<'a>>) -> u16 {
        if let Some(&known) = self.of_reductions.get(&Arc::as_ptr(reduction)) {
            return known;
        }
        let parts = &reduction.parts;
        let elements = parts.iter().map(|part| self.of_node(part, Along::Elements));
        let elements = elements.collect();
        let calls = reduction.operator.combine(parts[0].ty);
        let combine = Combine {
            types: parts.iter().map(|part| bits_of(part.ty)).collect(),
            identities: reduction.operator.identities(parts[0].ty),
            calls: (calls.calls.iter())
                .map(|(function, arguments)| (self.function(function), *arguments))
                .collect(),
            results: calls.results,
        };
        let fold = Fold { elements, combine };
        let folds = &mut self.program.folds;
        let number = folds.iter().position(|known| *known == fold).unwrap_or_else(|| {
            folds.push(fold);
            folds.len() - 1
        });
        self.of_reductions.insert(Arc::as_ptr(reduction), number as u16);
        number as u16
    }

    fn input(&mut self, array: &Array<'a>, ty: ScalarType, along: Along) -> u16 {
        let ty = bits_of(ty);
        let elements = array;
        let axes = elements.shape().len();
        let mut strides = vec![0; self.shape.len()];
        for (axis, (&length, &stride)) in elements.shape().iter().zip(elements.strides()).enumerate() {
            if length != 1 {
                strides[self.axis(axis, axes, along)] = stride;
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

    /// A number of the expression's own: the same program serves others. Equal ones are one, so that what was written twice is
    /// the same step.
    fn scalar(&mut self, ty: ScalarType, number: Number) -> u16 {
        let mut known = self.scalars.iter().zip(&self.program.scalars);
        if let Some(at) = known.position(|known| known == (&number, &bits_of(ty))) {
            return at as u16;
        }
        self.scalars.push(number);
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

    /// The axes along which places are asked for.
    fn indexed(&self) -> impl Iterator<Item = usize> {
        self.program.steps.iter().filter_map(|step| match step {
            Step::Index(axis) => Some(usize::from(*axis)),
            _ => None,
        })
    }

    /// Some of the axes, in groups that all arrays go through as through one axis; axes of length 1 are in none, but for those
    /// that places are asked along, which stand alone.
    fn join(&self, axes: impl IntoIterator<Item = usize>) -> Joined {
        let indexed: Vec<usize> = self.indexed().collect();
        let mut members: Vec<Vec<usize>> = Vec::new();
        for axis in axes {
            let length = self.shape[axis];
            if length == 1 && !indexed.contains(&axis) {
                continue;
            }
            let joins = members.last().is_some_and(|group| {
                let before = group[group.len() - 1];
                !indexed.contains(&before)
                    && !indexed.contains(&axis)
                    && (self.strides.iter()).all(|strides| strides[before] == strides[axis] * length as isize)
            });
            match members.last_mut() {
                Some(group) if joins => group.push(axis),
                _ => members.push(vec![axis]),
            }
        }
        let lengths = |group: &Vec<usize>| group.iter().map(|&axis| self.shape[axis]).product();
        let joined = |strides: &Vec<isize>| members.iter().map(|group| strides[group[group.len() - 1]]).collect();
        Joined {
            lengths: members.iter().map(lengths).collect(),
            strides: self.strides.iter().map(joined).collect(),
            members,
        }
    }

    /// The program along these axes, and how arrays lie along them.
    fn finish(self, axes: Vec<Joined>, outputs: &[u64]) -> Lowered<'a> {
        let Self {
            shape,
            mut program,
            arrays,
            scalars,
            ..
        } = self;
        let lengths: Vec<usize> = axes.iter().flat_map(|axes| axes.lengths.iter().copied()).collect();
        let along = |array: usize| {
            axes.iter()
                .flat_map(|axes| axes.strides[array].iter().copied())
                .collect()
        };
        let strides: Vec<Vec<isize>> = (0..arrays.len()).map(along).collect();
        let mut of_axes = vec![0; shape.len()];
        for (new_axis, members) in axes.iter().flat_map(|axes| &axes.members).enumerate() {
            for &axis in members {
                of_axes[axis] = new_axis as u8;
            }
        }
        for step in &mut program.steps {
            if let Step::Index(axis) = step {
                *axis = of_axes[usize::from(*axis)];
            }
        }
        for (input, strides) in program.inputs.iter_mut().zip(&strides) {
            input.layout = layout(strides);
        }
        program.axes = lengths.len() as u8;
        if program.reduce.is_none() {
            program.transposed = neighbours(&program.inputs, &lengths, &strides);
        }
        let inputs: Vec<u64> = arrays.iter().map(|array| array.first_address()).collect();
        align(&mut program, &inputs, outputs, &lengths, &strides);
        if ptx::has_tiles(&program, &lengths) {
            turn(&mut program, &inputs, &strides);
        }
        let later = scalars.iter().enumerate().filter_map(|(at, number)| match number {
            Number::Known(_) => None,
            Number::Later(place) => Some((at, *place)),
        });
        let mut lowered = Lowered {
            cache: arrays.first().map_or(0, cache),
            program,
            arrays,
            inputs,
            later: later.collect(),
            scalars: scalars
                .iter()
                .map(|number| match number {
                    Number::Known(bits) => *bits,
                    Number::Later(_) => 0,
                })
                .collect(),
            lengths,
            strides,
            parts: (1, ptx::MOST),
        };
        lowered.suit_cache();
        lowered.program.vectors = ptx::vectors(&lowered.program, &lowered.lengths);
        lowered
    }
}

/// Axes that all arrays go through, each as through one.
struct Joined {
    /// The axes of the elements that each goes through.
    members: Vec<Vec<usize>>,
    lengths: Vec<usize>,
    /// Of each array.
    strides: Vec<Vec<isize>>,
}

impl Joined {
    /// Makes it one axis of one element if it is none.
    fn fill(&mut self) {
        if self.lengths.is_empty() {
            self.members.push(Vec::new());
            self.lengths.push(1);
            self.strides.iter_mut().for_each(|strides| strides.push(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::s;

    use super::*;
    use crate::expr::program::Vectors;
    use crate::{Device, DeviceArray};

    #[test]
    fn blocks_are_full_where_vectors_are_as_many() -> crate::Result<()> {
        let device = Device::simulator();
        let vectors = |shape: [usize; 2], is_row: bool| -> crate::Result<Vectors> {
            let x = DeviceArray::<f32, _>::zeros(device.default_stream(), shape)?;
            let one = x.slice(s![..1, ..])?;
            let both = if is_row { x.expr() + &one } else { x.expr() + 1.0 };
            let root = both.into_part().expect("one shape");
            Ok(lower(&[Arc::clone(&root)], &root.shape, &[1 << 20]).program.vectors)
        };
        for (shape, is_row, wanted) in [
            ([1, 1024], false, Vectors::One),
            ([32, 96], false, Vectors::One),
            ([4, 3072], true, Vectors::Any),
            ([1, 1020], false, Vectors::Any),
            ([1, 1025], false, Vectors::Any),
            ([32, 96], true, Vectors::Any),
        ] {
            assert_eq!(vectors(shape, is_row)?, wanted, "{shape:?} {is_row}");
        }
        let x = DeviceArray::<f32, _>::zeros(device.default_stream(), 2048)?;
        let much = (x.expr().sin() + 1.0).exp().tanh().sqrt().abs().ln().tanh();
        for (len, wanted) in [(2048, Vectors::Two), (1024, Vectors::Any), (0, Vectors::Any)] {
            let root = much.clone().into_part().expect("an array");
            let mut lowered = lower(&[Arc::clone(&root)], &root.shape, &[1 << 20]);
            lowered.lengths = vec![len];
            assert_eq!(ptx::vectors(&lowered.program, &lowered.lengths), wanted, "{len}");
        }
        let halves = DeviceArray::<crate::f16, _>::zeros(device.default_stream(), 8192)?;
        let tanh = || halves.expr().tanh() * crate::f16::ONE;
        for (expr, len, wanted) in [
            (tanh(), 8192, Vectors::Two),
            (tanh().fast_math(), 8192, Vectors::Two),
            (tanh(), 6144, Vectors::One),
            (tanh(), 8200, Vectors::Any),
            (tanh(), 10240, Vectors::One),
            (&halves + crate::f16::ONE, 8192, Vectors::One),
            (tanh() + &halves, 8192, Vectors::Two),
            (tanh().exp().sin().ln().sqrt().tanh(), 8192, Vectors::One),
        ] {
            let root = expr.into_part().expect("an array");
            let mut lowered = lower(&[Arc::clone(&root)], &root.shape, &[1 << 20]);
            lowered.lengths = vec![len];
            assert_eq!(
                ptx::vectors(&lowered.program, &lowered.lengths),
                wanted,
                "{len} of halves"
            );
        }
        Ok(())
    }
}
