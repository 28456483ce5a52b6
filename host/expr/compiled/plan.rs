// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace leaves behind: launches that want addresses and numbers, and the arrays that they go with.

use std::sync::{Arc, Weak};

use cuda_std::scalar::ScalarType;

use super::inputs::{Argument, Given};
use crate::backend::Backend;
use crate::error::Result;
use crate::expr::graph::apply::Operation;
use crate::expr::graph::description::alignment;
use crate::expr::graph::parts::Shape;
use crate::expr::graph::walk::lying;
use crate::expr::graph::{Array, Elements};
use crate::expr::kernel::reading::apply;
use crate::expr::kernel::{Later, Launches, together};
use crate::expr::plan::run::{Runner, in_order};
use crate::stream::Stream;

/// What all calls have in common that one plan serves.
pub(super) struct Class {
    /// Weak, so that plans keep no device open; nobody else has its address meanwhile.
    backend: Weak<dyn Backend>,
    inputs: Vec<Lies>,
    output: u64,
}

/// How an argument lies.
enum Lies {
    Number,
    Array {
        shape: Box<[usize]>,
        strides: Box<[isize]>,
        alignment: u64,
    },
}

impl Lies {
    fn of(given: Given<'_>) -> Self {
        match given.0 {
            Argument::Number(_) => Self::Number,
            Argument::Array(array) => Self::Array {
                shape: array.shape().into(),
                strides: array.strides().into(),
                alignment: alignment(array.first_address()),
            },
        }
    }

    fn is_of(&self, given: Given<'_>) -> bool {
        match (self, given.0) {
            (Self::Number, Argument::Number(_)) => true,
            (
                Self::Array {
                    shape,
                    strides,
                    alignment: own,
                },
                Argument::Array(array),
            ) => **shape == *array.shape() && **strides == *array.strides() && *own == alignment(array.first_address()),
            _ => false,
        }
    }
}

impl Class {
    /// Of a call on that stream, to whose device all arrays belong, with outputs so aligned.
    pub(super) fn of(stream: &Stream, given: &[Given<'_>], output: u64) -> Self {
        Self {
            backend: Arc::downgrade(stream.backend()),
            inputs: given.iter().map(|given| Lies::of(*given)).collect(),
            output,
        }
    }

    /// Whether it is that of such a call.
    pub(super) fn is_of(&self, stream: &Stream, given: &[Given<'_>], output: u64) -> bool {
        std::ptr::addr_eq(self.backend.as_ptr(), Arc::as_ptr(stream.backend()))
            && self.output == output
            && (self.inputs.iter().zip(given)).all(|(lies, given)| lies.is_of(*given))
    }

    /// The alignment of the outputs.
    pub(super) fn output(&self) -> u64 {
        self.output
    }
}

/// What an address or a number of a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// That of the call's arguments.
    Argument(usize),
    /// An array that the function has brought along.
    Captured(usize),
    /// What an earlier launch of the call leaves for later ones.
    Temporary(usize),
    /// A result.
    Output(usize),
}

/// What is done to arrays.
pub(super) enum Work {
    /// The launches of one program, and their outputs, inputs and numbers; none for a number that the launches know.
    Program(Box<Launches>, Vec<Option<Slot>>),
    /// An operation on what is read, into what is written, with these layouts.
    Operation(Arc<dyn Operation>, Vec<Layout>),
    /// An operation on elements of that shape that a program computes, with those addresses and numbers, into what is written,
    /// with that layout.
    Reading(Arc<dyn Operation>, Box<Later>, Vec<Option<Slot>>, Shape, Layout),
}

/// Shape and strides.
pub(super) type Layout = (Box<[usize]>, Box<[isize]>);

/// One after another they are a plan's.
pub(super) struct Step {
    work: Work,
    reads: Vec<Slot>,
    writes: Vec<Slot>,
    /// The temporaries that no later step uses.
    last: Vec<usize>,
}

impl Step {
    pub(super) fn new(work: Work, reads: Vec<Slot>, writes: Vec<Slot>) -> Self {
        Self {
            work,
            reads,
            writes,
            last: Vec::new(),
        }
    }

    fn uses(&self, temporary: usize) -> bool {
        let slot = Slot::Temporary(temporary);
        self.reads.contains(&slot) || self.writes.contains(&slot)
    }
}

/// What is launched for a call.
pub(in crate::expr) struct Plan<'a> {
    captured: Vec<Array<'a>>,
    /// Their types and lengths.
    temporaries: Vec<(ScalarType, usize)>,
    steps: Vec<Step>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(captured: Vec<Array<'a>>, temporaries: Vec<(ScalarType, usize)>, mut steps: Vec<Step>) -> Self {
        for temporary in 0..temporaries.len() {
            if let Some(step) = steps.iter_mut().rev().find(|step| step.uses(temporary)) {
                step.last.push(temporary);
            }
        }
        Self {
            captured,
            temporaries,
            steps,
        }
    }

    /// Computes the results on `stream` into outputs in C order.
    ///
    /// # Safety
    ///
    /// The plan's class is that of the call. The outputs are of its shape and types, aligned as the class says, in memory of the
    /// stream's device that is written by nobody else, and is an argument's only where it was that of the plan's, too; it is no
    /// captured array's.
    pub(super) unsafe fn run(&self, stream: &Stream, given: &[Given<'_>], outputs: &[Given<'_>]) -> Result<()> {
        let mut call = Call::new(self, given, outputs);
        for step in &self.steps {
            // SAFETY: the caller's promise.
            unsafe { call.run(stream, step)? };
        }
        Ok(())
    }
}

/// The arrays and numbers of one call.
pub(in crate::expr) struct Call<'c> {
    plan: &'c Plan<'c>,
    given: &'c [Given<'c>],
    outputs: &'c [Given<'c>],
    temporaries: Vec<Option<Array<'static>>>,
}

impl<'c> Call<'c> {
    pub(super) fn new(plan: &'c Plan<'c>, given: &'c [Given<'c>], outputs: &'c [Given<'c>]) -> Self {
        let mut temporaries = Vec::new();
        temporaries.resize_with(plan.temporaries.len(), || None);
        Self {
            plan,
            given,
            outputs,
            temporaries,
        }
    }

    /// The steps that there are.
    pub(in crate::expr) fn steps(&self) -> usize {
        self.plan.steps.len()
    }

    /// What a step's launch computes, if that can be one for others, too: it is to be launched with them, and to [end](Self::end) then.
    /// Else the step is done.
    ///
    /// # Safety
    ///
    /// That of [`Plan::run`], on this stream; all steps ahead are done.
    pub(in crate::expr) unsafe fn begin(
        &mut self,
        stream: &Stream,
        step: usize,
    ) -> Result<Option<together::Work<'static>>> {
        let step = &self.plan.steps[step];
        match &step.work {
            Work::Program(launches, slots) if launches.can_be_together() => {
                self.make_room(stream, step)?;
                Ok(Some(launches.at(&self.values(slots))))
            }
            // SAFETY: the caller's promise.
            _ => unsafe { self.run(stream, step).map(|()| None) },
        }
    }

    /// The arrays that a step reads.
    pub(in crate::expr) fn reads(&self, step: usize) -> impl Iterator<Item = &dyn Elements> + Clone {
        self.plan.steps[step].reads.iter().map(|slot| self.array(*slot))
    }

    /// The arrays that it writes.
    pub(in crate::expr) fn writes(&self, step: usize) -> impl Iterator<Item = &dyn Elements> + Clone {
        self.plan.steps[step].writes.iter().map(|slot| self.array(*slot))
    }

    /// Frees what no later step uses.
    pub(in crate::expr) fn end(&mut self, step: usize) {
        for &temporary in &self.plan.steps[step].last {
            self.temporaries[temporary] = None;
        }
    }

    /// Room for what the step writes. What has no elements is written by no step.
    fn make_room(&mut self, stream: &Stream, step: &Step) -> Result<()> {
        for slot in step.writes.iter().chain(&step.reads) {
            if let Slot::Temporary(number) = *slot
                && self.temporaries[number].is_none()
            {
                let (ty, len) = self.plan.temporaries[number];
                self.temporaries[number] = Some(stream.uninit(ty, len)?);
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As [`begin`](Self::begin), of one of the plan's steps.
    unsafe fn run(&mut self, stream: &Stream, step: &Step) -> Result<()> {
        self.make_room(stream, step)?;
        let (reads, writes) = (step.reads.iter(), step.writes.iter());
        let array = |slot: &Slot| self.array(*slot);
        match &step.work {
            Work::Program(launches, slots) => {
                let values = self.values(slots);
                // SAFETY: the arrays lie as those that the launches were planned for, by the caller's promise; captured ones
                // and temporaries do not change. Their memory is the stream's device's: `trace` has checked that of captured
                // ones. `in_order` has ordered the stream behind their other uses, and what is read and written is read
                // element by element, which the trace has looked for.
                let launch = || unsafe { launches.launch(stream, &values) };
                in_order(stream, reads.map(array), writes.map(array), launch)?;
            }
            Work::Reading(operation, later, slots, shape, at) => {
                let lowered = later.with(&self.values(slots)).0;
                let output = lying(self.array(step.writes[0]), &at.0, &at.1);
                // SAFETY: the arrays that are read, as for a program; `in_order` has ordered the stream.
                let apply = || unsafe { apply(stream, &**operation, &lowered, shape, &output) };
                in_order(stream, reads.map(array), std::iter::empty(), apply)?;
            }
            Work::Operation(operation, layouts) => {
                let arrays = reads.chain(writes).map(array).zip(layouts);
                let arrays: Vec<_> = arrays.map(|(array, at)| lying(array, &at.0, &at.1)).collect();
                let arrays: Vec<&dyn Elements> = arrays.iter().map(|array| array as _).collect();
                let (output, operands) = arrays.split_last().expect("an output");
                operation.run(stream, operands, *output)?;
            }
        }
        for &temporary in &step.last {
            self.temporaries[temporary] = None;
        }
        Ok(())
    }

    /// The addresses and numbers of a launch; 0 for one that it knows.
    fn values(&self, slots: &[Option<Slot>]) -> Vec<u64> {
        let value = |slot: &Option<Slot>| slot.map_or(0, |slot| self.value(slot));
        slots.iter().map(value).collect()
    }

    fn array(&self, slot: Slot) -> &dyn Elements {
        let array = match slot {
            Slot::Argument(number) => self.given[number].elements(),
            Slot::Captured(number) => Some(&*self.plan.captured[number]),
            Slot::Temporary(number) => self.temporaries[number].as_deref(),
            Slot::Output(number) => self.outputs[number].elements(),
        };
        array.expect("an array that is there")
    }

    /// The address or the number.
    fn value(&self, slot: Slot) -> u64 {
        match slot {
            Slot::Argument(number) => match self.given[number].0 {
                Argument::Number(bits) => bits,
                Argument::Array(array) => array.first_address(),
            },
            _ => self.array(slot).first_address(),
        }
    }
}
