// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an expression is when it is evaluated: a list of steps, each of which gives one number of one element.
//!
//! A program has no values and no shapes, but for the number of axes along which its inputs lie; so one program serves
//! all expressions of one form, and finds its kernel by comparison.

pub(in crate::expr) mod clusters;
pub(in crate::expr) mod interpret;
mod layouts;
pub(in crate::expr) mod lower;
pub(in crate::expr) mod stashed;
mod streamed;

use cuda_std::scalar::ScalarType;

use crate::backend::DeviceFnInfo;

/// The number of a step.
pub(crate) type Value = u16;

/// How a number comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The element of that input.
    Input(u16),
    /// That number of those that go with a launch.
    Scalar(u16),
    /// The element's place along that axis of the result, a `u64`.
    Index(u8),
    /// That function of the program's, of the numbers that these steps gave: as many as it takes.
    Call(u16, [Value; MAX_ARGUMENTS]),
    /// That number of the row's fold.
    Folded(u16, u8),
}

/// The most numbers that a function takes.
pub(crate) const MAX_ARGUMENTS: usize = 6;

/// An array that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Input {
    pub ty: ScalarType,
    pub layout: Layout,
}

/// How the elements of an array lie along the axes of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Layout {
    /// One element for all.
    Single,
    /// Side by side along the last axis, at any distances along the others.
    Rows,
    /// As [`Rows`](Self::Rows), but vectors of the outputs' are no vectors of its, so that it is read element by element.
    Offset,
    /// The same element all along the last axis.
    Columns,
    /// At any distances along all axes.
    Strided,
    /// Side by side along the axis that the program is [transposed](Program::transposed) along, in an aligned program whose elements are whole
    /// [tiles](crate::expr::ptx::has_tiles), of which threads bring each other what they have loaded.
    Turned,
}

/// How many vectors a thread has, of an aligned program of one axis that reduces nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Vectors {
    /// Any number, and behind the last vector there may be elements: each thread has to ask.
    #[default]
    Any,
    /// One, or two that are a block's threads apart: the elements are as many as full blocks of threads have.
    One,
    Two,
}

/// The steps that give the elements of the outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Program {
    /// The axes of the results, where neighbouring ones are joined that all arrays go through as through one. At least 1; with
    /// 1 axis and no `Strided` input all arrays lie densely.
    pub axes: u8,
    /// Whether vectors of [`vector_len`](crate::expr::ptx::vector_len) elements begin at multiples of their size in all arrays that
    /// lie in rows, the outputs too, and rows are as many vectors.
    pub aligned: bool,
    /// Whether vectors begin at multiples of their size in the outputs and in arrays that lie in rows, but rows do not begin with
    /// a vector. Such a program is transposed.
    pub ragged: bool,
    /// The axis, not the last, along which an input has its neighbours: threads share the elements by tiles of several rows that
    /// are neighbours along that axis, so that they find neighbours of that input too.
    pub transposed: Option<u8>,
    /// How many vectors each thread has, where that is known of all of them.
    pub vectors: Vectors,
    pub inputs: Vec<Input>,
    /// Whether so many of the inputs are several times the second-level cache that each access is of a word: see
    /// [`Lowered::is_by_words`](lower::Lowered::is_by_words).
    pub by_words: bool,
    /// Inputs whose lines the second-level cache [evicts last](mod@crate::expr::ptx::stream). They lie in C order, and blocks go
    /// through them in that order.
    pub streamed: Vec<u16>,
    /// Whether launches say [from which end](mod@crate::expr::ptx::order) blocks go through the arrays.
    pub either_way: bool,
    /// Whether a launch is [several](mod@crate::expr::ptx::together) of this program, each of arrays and numbers of its own.
    pub together: bool,
    pub scalars: Vec<ScalarType>,
    pub functions: Vec<&'static DeviceFnInfo>,
    pub steps: Vec<Step>,
    /// The type of each step.
    pub types: Vec<ScalarType>,
    /// What is stored: into arrays in C order, as many as these.
    pub outputs: Vec<Value>,
    /// Reductions along an axis.
    pub folds: Vec<Fold>,
    /// How they are done, if there are any; then there are at least 2 axes.
    pub reduce: Option<Reduce>,
}

/// Reductions along one of a program's axes: each of its *rows*, the elements along that axis, becomes numbers.
///
/// What is combined with what is the same on every device, since it follows from the lengths: the elements of a row, or of a
/// part of it, belong to *lanes*, in turn. A lane combines its elements one after another, and then lanes are combined as a
/// tree by halves, the first with the first of the second half. [`Form::order`] says in which order the tree has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reduce {
    pub form: Form,
    /// Whether each output has a number for each row, or else one for each element.
    pub is_row: Vec<bool>,
    /// Whether rows are combined in parts, each by a block.
    pub in_parts: bool,
    /// Whether every thread has as many elements of each part of a row as [`Form::step`] says, again and again.
    pub is_whole: bool,
    /// Whether what a row has behind the elements in registers is brought to shared memory ahead of the passes that read it: the
    /// inputs that are [read again](Program::read_again).
    pub is_stashed: bool,
    /// The blocks that share a row, as a power of two: a cluster, which has all of it in registers.
    pub blocks_log2: u8,
    /// Whether at most half of those blocks' threads have elements of a row in the last of their groups, so that warps that have none go
    /// past it.
    pub skips_last: bool,
}

impl Reduce {
    /// The threads that a block has of a row's, as a power of two.
    pub(crate) fn threads_log2(&self) -> u8 {
        match self.form {
            Form::Rows { lanes_log2, .. } => (lanes_log2 - self.blocks_log2).min(MOST_WARPS_LOG2 + WARP_LOG2),
            Form::Columns {
                lanes_log2,
                across_log2,
                ..
            } => lanes_log2 + across_log2,
        }
    }

    /// How many times as many threads a row has as a block, or the blocks of a cluster together: so often its block goes through
    /// the row, each time as others of them. 1, unless a row [has a cluster](Form::has_cluster) and the GPU has none.
    pub(crate) fn rounds(&self) -> usize {
        match self.form {
            Form::Rows { lanes_log2, .. } => 1 << (lanes_log2 - self.blocks_log2 - self.threads_log2()),
            Form::Columns { .. } => 1,
        }
    }
}

/// What is combined: of each element `types.len()` numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fold {
    /// The steps that give an element's numbers.
    pub elements: Vec<Value>,
    pub combine: Combine,
}

/// How the numbers of two elements, or of two sets of elements, become those of both.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Combine {
    pub types: Vec<ScalarType>,
    /// The bits of the numbers that change nothing.
    pub identities: Vec<u64>,
    /// Functions of the program's, applied to numbers: first those of the first set, then those of the second, then what each
    /// call gave.
    pub calls: Vec<(u16, [Value; MAX_ARGUMENTS])>,
    /// Which of these numbers are those of both.
    pub results: Vec<Value>,
}

/// How a kernel goes through the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// A row lies along the last axis. `1 << lanes_log2` threads have it, each of which has groups of [`GROUP`] neighbours in
    /// turn: the first `held` of them in registers, which are read once, and those behind them `looped` at a time in a loop,
    /// read in each pass. Without a loop, where that is 0, there are no more, nor fewer if the thread has all that it could; else
    /// `held` is a multiple of it. More threads than a block has are those of a cluster's blocks, as those of the largest block may
    /// be; where the GPU has no clusters, one block stands for them in [rounds](Reduce::rounds): in its first round all of its groups
    /// are in registers, if any are, and in the others they are read in a loop.
    Rows { lanes_log2: u8, held: u8, looped: u8 },
    /// Rows lie along the first axis, and `1 << across_log2` threads, of a warp, a part of one or several, have rows that are
    /// neighbours along the last one. Of `1 << lanes_log2` threads each has so many elements of them at a time, or, if they are
    /// held, all of its elements: in registers, so that they are read once.
    Columns {
        in_flight: u8,
        lanes_log2: u8,
        across_log2: u8,
        is_held: bool,
    },
}

/// The 4-byte words of an element in a thread's registers: see [`Program::words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Of all elements of the thread, in some pass: what the first pass reads, or what earlier ones have computed and is still
    /// needed.
    pub kept: usize,
    /// Of the elements that the thread computes just then, in some pass: what a later pass than the first reads.
    pub late: usize,
    /// The bytes of those, which vectors of short elements have in fewer registers.
    pub late_bytes: usize,
}

/// Neighbours that belong to one thread.
pub(crate) const GROUP: usize = 4;

/// The most warps of a block, as a power of two.
pub(crate) const MOST_WARPS_LOG2: u8 = 5;

/// Threads of a warp, as a power of two.
pub(crate) const WARP_LOG2: u8 = 5;

impl Form {
    /// The lane at each place of the tree: a group's four, then a warp's threads, then its warps are nearest to its leaves.
    pub(crate) fn order(self) -> Vec<usize> {
        let lanes_log2 = match self {
            Self::Rows { lanes_log2, .. } => lanes_log2,
            Self::Columns { across_log2, .. } => {
                let threads = 1usize << WARP_LOG2.saturating_sub(across_log2);
                let warps = self.lanes() / threads;
                return (0..threads)
                    .flat_map(|t| (0..warps).map(move |w| w * threads + t))
                    .collect();
            }
        };
        let threads = 1usize << lanes_log2.min(WARP_LOG2);
        let warps = (1usize << lanes_log2) / threads;
        let places = (0..GROUP).flat_map(|k| (0..threads).flat_map(move |t| (0..warps).map(move |w| (k, t, w))));
        places.map(|(k, t, w)| (w * threads + t) * GROUP + k).collect()
    }

    /// The lanes of a row.
    pub(crate) fn lanes(self) -> usize {
        match self {
            Self::Rows { lanes_log2, .. } => GROUP << lanes_log2,
            Self::Columns { lanes_log2, .. } => 1 << lanes_log2,
        }
    }

    /// The elements of a row that its threads have at a time.
    pub(crate) fn step(self) -> usize {
        match self {
            Self::Rows {
                lanes_log2,
                held,
                looped,
            } => {
                let groups = if looped > 0 { looped } else { held };
                (usize::from(groups) * GROUP) << lanes_log2
            }
            Self::Columns { in_flight, .. } => usize::from(in_flight) * self.lanes(),
        }
    }

    /// Whether rows lie side by side, in blocks as large arrays have them, which read them in a loop, once.
    pub(crate) fn has_large_columns(self) -> bool {
        match self {
            Self::Columns {
                lanes_log2,
                across_log2,
                is_held: false,
                ..
            } => lanes_log2 + across_log2 == MOST_WARPS_LOG2 + WARP_LOG2,
            _ => false,
        }
    }

    /// Whether rows lie along the last axis and have more threads than a block, so that a cluster has one, on GPUs that have them.
    pub(crate) fn has_cluster(self) -> bool {
        matches!(self, Self::Rows { lanes_log2, .. } if lanes_log2 > MOST_WARPS_LOG2 + WARP_LOG2)
    }

    /// Whether rows lie side by side.
    pub(crate) fn has_columns(self) -> bool {
        matches!(self, Self::Columns { .. })
    }

    /// The axis that rows lie along, of so many.
    pub(crate) fn axis(self, axes: usize) -> usize {
        match self {
            Self::Rows { .. } => axes - 1,
            Self::Columns { .. } => 0,
        }
    }
}

impl Program {
    /// The axis that rows lie along which are combined.
    pub(crate) fn reduced_axis(&self) -> Option<usize> {
        let reduce = self.reduce.as_ref()?;
        Some(reduce.form.axis(usize::from(self.axes)))
    }

    /// Whether an input is [turned](Layout::Turned).
    pub(crate) fn has_turned(&self) -> bool {
        self.inputs.iter().any(|input| input.layout == Layout::Turned)
    }

    /// Whether an output has a number for each row, or part of one, which one thread stores, and no neighbour.
    pub(crate) fn is_alone(&self, output: usize) -> bool {
        let is_row = |reduce: &Reduce| reduce.is_row[output] && !reduce.form.has_columns();
        self.reduce.as_ref().is_some_and(is_row)
    }

    /// Whether neighbours along the last axis belong to different rows.
    pub(crate) fn has_columns(&self) -> bool {
        self.reduce.as_ref().is_some_and(|reduce| reduce.form.has_columns())
    }

    /// The steps whose numbers a step takes.
    pub(crate) fn arguments<'s>(&self, step: &'s Step) -> &'s [Value] {
        match step {
            Step::Call(function, arguments) => &arguments[..self.functions[usize::from(*function)].arguments.len()],
            _ => &[],
        }
    }

    /// Whether each step differs between the elements, if those do that take no other's number and of which `differs` says so.
    pub(crate) fn varying(&self, differs: impl Fn(&Step) -> bool) -> Vec<bool> {
        let mut varies = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            varies.push(match step {
                Step::Call(..) => self.arguments(step).iter().any(|&value| varies[usize::from(value)]),
                _ => differs(step),
            });
        }
        varies
    }

    /// Whether each step is one of these, or one that they need, by what each takes.
    pub(crate) fn needed<'s>(
        &self,
        steps: impl Iterator<Item = Value>,
        arguments: impl Fn(usize) -> &'s [Value],
    ) -> Vec<bool> {
        let mut needed = vec![false; self.steps.len()];
        steps.for_each(|step| needed[usize::from(step)] = true);
        for step in (0..self.steps.len()).rev() {
            if needed[step] {
                arguments(step)
                    .iter()
                    .for_each(|&value| needed[usize::from(value)] = true);
            }
        }
        needed
    }

    /// The 4-byte words of an element that a thread has in registers if it has its elements there all at once. `varies` says
    /// which steps are numbers of elements; those of `stored` are stored.
    pub(crate) fn words(&self, varies: &[bool], stored: &[Value]) -> Words {
        let passes = self.passes();
        let last = passes.iter().copied().max().unwrap_or(0);
        let wanted = |pass: u8| self.wanted(pass, &passes, stored);
        // The pass that computes each step, and the last one that takes it.
        let (mut first, mut until) = (vec![None; self.steps.len()], vec![0; self.steps.len()]);
        for pass in 0..=last {
            let wanted = wanted(pass);
            let needed = self.needed(wanted.iter().copied(), |step| self.arguments(&self.steps[step]));
            wanted.iter().for_each(|&step| until[usize::from(step)] = pass);
            for step in (0..self.steps.len()).filter(|&step| needed[step]) {
                if first[step].is_none() {
                    first[step] = Some(pass);
                    let arguments = self.arguments(&self.steps[step]).iter();
                    arguments.for_each(|&value| until[usize::from(value)] = pass);
                }
            }
        }
        let words = |is_one: &dyn Fn(usize, u8) -> bool| -> usize {
            let steps = (0..self.steps.len()).filter(|&step| varies[step]);
            let those = steps.filter(|&step| first[step].is_some_and(|first| is_one(step, first)));
            those.map(|step| self.types[step].bytes().div_ceil(4)).sum()
        };
        let is_input = |step: usize| matches!(self.steps[step], Step::Input(_));
        let kept = |pass: u8| match pass {
            0 => words(&|step, first| first == 0 && is_input(step)),
            _ => words(&|step, first| first < pass && pass <= until[step]),
        };
        let late = |pass: u8| words(&|step, first| first == pass && is_input(step));
        let late_bytes = |pass: u8| -> usize {
            let steps =
                (0..self.steps.len()).filter(|&step| varies[step] && first[step] == Some(pass) && is_input(step));
            steps.map(|step| self.types[step].bytes()).sum()
        };
        Words {
            kept: (0..=last).map(kept).max().unwrap_or(0),
            late: (1..=last).map(late).max().unwrap_or(0),
            late_bytes: (1..=last).map(late_bytes).max().unwrap_or(0),
        }
    }

    /// The steps that a pass gives of each element, by the passes of the steps; those of `stored` are stored.
    fn wanted(&self, pass: u8, passes: &[u8], stored: &[Value]) -> Vec<Value> {
        let folds = self.folds.iter().enumerate();
        let folds = folds.filter(|(fold, _)| self.fold_pass(*fold, passes) == pass);
        let elements = folds.flat_map(|(_, fold)| fold.elements.iter().copied());
        let is_last = passes.iter().max() == Some(&pass);
        let stored = stored.iter().copied().filter(|_| is_last);
        elements.chain(stored).collect()
    }

    /// The passes that take each input.
    fn passes_of_inputs(&self) -> Vec<Vec<u8>> {
        let is_row = self.reduce.iter().flat_map(|reduce| &reduce.is_row);
        let stored = self.outputs.iter().zip(is_row);
        let stored: Vec<Value> = stored.filter(|(_, is_row)| !**is_row).map(|(&step, _)| step).collect();
        let passes = self.passes();
        let mut of_inputs = vec![Vec::new(); self.inputs.len()];
        for pass in 0..=passes.iter().copied().max().unwrap_or(0) {
            let wanted = self.wanted(pass, &passes, &stored);
            let needed = self.needed(wanted.into_iter(), |step| self.arguments(&self.steps[step]));
            for (step, _) in self.steps.iter().zip(needed).filter(|(_, needed)| *needed) {
                if let Step::Input(input) = step {
                    of_inputs[usize::from(*input)].push(pass);
                }
            }
        }
        of_inputs
    }

    /// The inputs with an element for each of a row, side by side, that more than one pass takes.
    pub(crate) fn read_again(&self) -> Vec<usize> {
        let of_inputs = self.passes_of_inputs();
        let is_again = |input: &usize| of_inputs[*input].len() > 1 && self.inputs[*input].layout == Layout::Rows;
        (0..self.inputs.len()).filter(is_again).collect()
    }

    /// Whether there is such an input that a later pass takes alone, as a norm's weights.
    pub(crate) fn reads_late(&self) -> bool {
        let both = self.inputs.iter().zip(self.passes_of_inputs());
        both.into_iter()
            .any(|(input, passes)| input.layout == Layout::Rows && matches!(passes[..], [pass] if pass > 0))
    }

    /// For each step, how many reductions there are one after another ahead of it: it can be computed when so many passes over
    /// the elements are done.
    pub(crate) fn passes(&self) -> Vec<u8> {
        let mut passes = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            passes.push(match *step {
                Step::Input(_) | Step::Scalar(_) | Step::Index(_) => 0,
                Step::Call(..) => {
                    let arguments = self.arguments(step).iter();
                    arguments.map(|&value| passes[usize::from(value)]).max().unwrap_or(0)
                }
                Step::Folded(fold, _) => 1 + self.fold_pass(usize::from(fold), &passes),
            });
        }
        passes
    }

    /// The pass in which a fold's elements are combined, by the passes of the steps.
    pub(crate) fn fold_pass(&self, fold: usize, passes: &[u8]) -> u8 {
        let elements = self.folds[fold].elements.iter();
        elements.map(|&value| passes[usize::from(value)]).max().unwrap_or(0)
    }
}
