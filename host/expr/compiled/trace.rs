// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracing: a function is called once with expressions of arrays that are not there, and what would be launched is kept.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_std::scalar::ScalarType;

use super::inputs::{Argument, Given, Parameters, Results};
use super::plan::{Class, Plan, Slot, Step, Work};
use crate::error::{Error, Result};
use crate::expr::eval::check_shape;
use crate::expr::graph::apply::Application;
use crate::expr::graph::description::alignment;
use crate::expr::graph::parts::Shape;
use crate::expr::graph::walk::{Depth, rewrite};
use crate::expr::graph::{Array, Elements, Kind, Node};
use crate::expr::kernel::{Later, Launches};
use crate::expr::operand::HiddenParts;
use crate::expr::plan;
use crate::expr::plan::run::{Runner, Source, addresses, apart, dense, reads_in_order};
use crate::expr::program::lower::Lowered;
use crate::graph::Capture;
use crate::stream::Stream;

/// What stands for an array or a number in one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::expr) struct Place {
    trace: u64,
    pub(in crate::expr) number: usize,
}

/// An array that is not there yet.
struct Placeholder {
    place: Place,
    stream: Stream,
    shape: Vec<usize>,
    strides: Vec<isize>,
    address: u64,
}

// SAFETY: it borrows nothing.
unsafe impl Elements for Placeholder {
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
        self.address
    }

    // What a launch asks of every array that it uses: so none uses this one.
    fn reads_on(&self, _: &Stream) -> Result<()> {
        Err(without_elements())
    }

    fn writes_on(&self, _: &Stream) -> Result<()> {
        Err(without_elements())
    }

    fn is_part(&self) -> bool {
        false
    }

    fn place(&self) -> Option<Place> {
        Some(self.place)
    }
}

/// The error of computing what a traced function was given, or of using it in another trace.
pub(in crate::expr) fn without_elements() -> Error {
    Error::Parameter {
        operation: "eval",
        parameter: "expression",
        given: "one of what a compiled function takes, which has no elements while it is traced".into(),
        wanted: "to be a part of that function's result alone".into(),
    }
}

/// What is found out in one call of the function, and the runner that writes down what it is asked to run.
pub(super) struct Trace<'a> {
    id: u64,
    stream: Stream,
    found: RefCell<Found<'a>>,
}

#[derive(Default)]
struct Found<'a> {
    /// What each place stands for, and the address that it has meanwhile.
    places: Vec<(Slot, u64)>,
    captured: Vec<Array<'a>>,
    temporaries: Vec<(ScalarType, usize)>,
    steps: Vec<Step>,
}

/// The plan of a function's calls of one class.
pub(super) struct Traced<'a> {
    pub(super) class: Class,
    /// That of all results.
    pub(super) shape: Shape,
    pub(super) plan: Plan<'a>,
}

/// Calls the function with what stands for arrays and numbers of the class, and plans what it gives.
pub(super) fn trace<'a, P: Parameters<'a>, R: Results<'a>>(
    function: &dyn Fn(P) -> R,
    class: Class,
    stream: &Stream,
    given: &[Given<'_>],
) -> Result<Traced<'a>> {
    let trace = Trace::new(stream);
    let leaves = given.iter().zip(P::TYPES).enumerate();
    let leaves = leaves.map(|(number, (given, ty))| Ok(trace.leaf(number, *given, *ty)));
    let leaves = HiddenParts(leaves.collect());
    // Arrays that the function makes are kept with the plan, longer than a graph that is being recorded.
    let results = Capture::outside(|| function(P::of(leaves))).parts().0;
    plan_of(
        trace,
        results.into_iter().collect::<std::result::Result<Vec<_>, _>>()?,
        class,
        stream,
    )
}

/// Plans what the function gave.
fn plan_of<'a>(trace: Trace<'a>, roots: Vec<Arc<Node<'a>>>, class: Class, stream: &Stream) -> Result<Traced<'a>> {
    for root in &roots {
        check_shape("call", &root.shape, &roots[0].shape)?;
        if let Some(array) = &root.home {
            array.stream().check_device("call", stream)?;
        }
    }
    let shape = roots[0].shape.clone();
    let mut refused = None;
    let roots = rewrite(
        &roots.iter().collect::<Vec<_>>(),
        |node| node.parts(Depth::All),
        |_, node| {
            trace.replace_array(&node).unwrap_or_else(|error| {
                refused = Some(error);
                node
            })
        },
    );
    if let Some(error) = refused {
        return Err(error);
    }
    if !shape.contains(&0) {
        let dense = dense(&shape);
        let output = |number| trace.array(Slot::Output(number), (&shape, &dense), (None, class.output()));
        let outputs: Vec<Array<'_>> = (0..roots.len()).map(output).collect();
        let outputs: Vec<&dyn Elements> = outputs.iter().map(|array| &**array).collect();
        plan::run(&trace, &roots.iter().collect::<Vec<_>>(), &outputs)?;
    }
    drop(roots);
    let plan = trace.plan();
    Ok(Traced { class, shape, plan })
}

impl<'a> Trace<'a> {
    /// Of what is to be launched on that stream's device.
    pub(super) fn new(stream: &Stream) -> Self {
        static TRACES: AtomicU64 = AtomicU64::new(0);
        Self {
            id: TRACES.fetch_add(1, Ordering::Relaxed),
            stream: stream.clone(),
            found: RefCell::default(),
        }
    }

    /// What would have been launched.
    pub(super) fn plan(self) -> Plan<'a> {
        let found = self.found.into_inner();
        Plan::new(found.captured, found.temporaries, found.steps)
    }

    /// The next place, which stands for that and meanwhile has that address: if none is given, one that is nobody's.
    pub(super) fn place(&self, slot: Slot, address: Option<u64>, alignment: u64) -> (Place, u64) {
        let places = &mut self.found.borrow_mut().places;
        let (trace, number) = (self.id, places.len());
        let address = address.unwrap_or((1 << 62) + ((number as u64) << 8) + alignment);
        places.push((slot, address));
        (Place { trace, number }, address)
    }

    /// An array of that layout at the next place.
    pub(super) fn array<'b>(
        &self,
        slot: Slot,
        (shape, strides): (&[usize], &[isize]),
        at: (Option<u64>, u64),
    ) -> Array<'b> {
        let (place, address) = self.place(slot, at.0, at.1);
        Arc::new(Placeholder {
            place,
            stream: self.stream.clone(),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            address,
        })
    }

    /// What the function is given for that argument.
    fn leaf(&self, number: usize, given: Given<'_>, ty: ScalarType) -> Arc<Node<'a>> {
        let slot = Slot::Argument(number);
        match given.0 {
            Argument::Number(_) => Node::argument(ty, self.place(slot, Some(0), 0).0),
            Argument::Array(array) => {
                let layout = (array.shape(), array.strides());
                Node::of_array(self.array(slot, layout, (None, alignment(array.first_address()))), ty)
            }
        }
    }

    /// Puts a place where an array stands that the function has brought along.
    fn replace_array(&self, node: &Arc<Node<'a>>) -> Result<Arc<Node<'a>>> {
        let array = match &node.kind {
            Kind::Argument(place) if place.trace != self.id => return Err(without_elements()),
            Kind::Array(array) => array,
            _ => return Ok(Arc::clone(node)),
        };
        match array.place() {
            Some(place) if place.trace == self.id => return Ok(Arc::clone(node)),
            Some(_) => return Err(without_elements()),
            None => {}
        }
        let mut found = self.found.borrow_mut();
        let same = |known: &Array<'_>| known.first_address() == array.first_address();
        let known = found.captured.iter().position(same).map(Slot::Captured);
        // Where arrays begin at one address their places do: what is the same elements is read once.
        let known = known.and_then(|known| found.places.iter().find(|place| place.0 == known));
        let at = (known.map(|place| place.1), alignment(array.first_address()));
        found.captured.push(Arc::clone(array));
        let slot = Slot::Captured(found.captured.len() - 1);
        drop(found);
        let stands = self.array(slot, (array.shape(), array.strides()), at);
        Ok(Arc::new(node.with_kind(Kind::Array(stands))))
    }

    /// What each address and number of a program stands for, outputs first, and the addresses that there are meanwhile. Numbers
    /// that are known stand for nothing.
    fn values(&self, lowered: &Lowered<'_>, outputs: &[&dyn Elements]) -> (Vec<Option<Slot>>, Vec<u64>) {
        let outputs = outputs.iter().map(|output| output.place());
        let arrays = outputs.chain(lowered.arrays.iter().map(|array| array.place()));
        let (mut values, mut bases) = (Vec::new(), Vec::new());
        for (slot, address) in arrays.map(|place| self.known(place)) {
            values.push(Some(slot));
            bases.push(address);
        }
        let first = values.len();
        values.resize(first + lowered.scalars.len(), None);
        for (at, place) in &lowered.later {
            values[first + at] = Some(self.known(Some(*place)).0);
        }
        (values, bases)
    }

    /// What an array or a number of a program stands for, and the address that it has meanwhile.
    fn known(&self, place: Option<Place>) -> (Slot, u64) {
        let place = place
            .filter(|place| place.trace == self.id)
            .expect("a place of this trace");
        self.found.borrow().places[place.number]
    }
}

impl Runner for Trace<'_> {
    fn uninit<'b>(&self, ty: ScalarType, len: usize) -> Result<Array<'b>> {
        let slot = Slot::Temporary(self.found.borrow().temporaries.len());
        self.found.borrow_mut().temporaries.push((ty, len));
        Ok(self.array(slot, (&[len], &[1]), (None, 0)))
    }

    fn run(&self, lowered: &Lowered<'_>, outputs: &[&dyn Elements]) -> Result<()> {
        if !reads_in_order(lowered, outputs) {
            return apart(self, lowered, outputs);
        }
        let (values, bases) = self.values(lowered, outputs);
        let launches = Launches::new(lowered, &addresses(outputs), &bases);
        let slot = |array: &dyn Elements| self.known(array.place()).0;
        let reads = lowered.arrays.iter().map(|array| slot(&**array)).collect();
        let writes = outputs.iter().map(|output| slot(*output)).collect();
        let step = Step::new(Work::Program(Box::new(launches), values), reads, writes);
        self.found.borrow_mut().steps.push(step);
        Ok(())
    }

    fn apply(&self, application: &Application<'_>, operands: &[Source<'_>], output: &dyn Elements) -> Result<()> {
        let slot = |array: &dyn Elements| self.known(array.place()).0;
        let layout = |array: &dyn Elements| (array.shape().into(), array.strides().into());
        let operation = Arc::clone(&application.operation);
        let (mut reads, mut layouts) = (Vec::new(), Vec::new());
        let mut work = None;
        for operand in operands {
            match operand {
                Source::Array(array) => {
                    reads.push(slot(&**array));
                    layouts.push(layout(&**array));
                }
                Source::Elements(lowered, shape) => {
                    reads.extend(lowered.arrays.iter().map(|array| slot(&**array)));
                    let (values, bases) = self.values(lowered, &[]);
                    let later = Box::new(Later::new(lowered, &[], &bases));
                    work = Some(Work::Reading(
                        Arc::clone(&operation),
                        later,
                        values,
                        shape.clone(),
                        layout(output),
                    ));
                }
            }
        }
        layouts.push(layout(output));
        let work = work.unwrap_or(Work::Operation(operation, layouts));
        let step = Step::new(work, reads, vec![slot(output)]);
        self.found.borrow_mut().steps.push(step);
        Ok(())
    }
}
