// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations on whole arrays come ahead of the kernels that their results are read by.
//!
//! What an operation is of is computed first, unless it is an array, and is an array from then on wherever else it stands; so is
//! what the operation gives. Where nothing else needs what an operation is of, and its kernels can compute it where they would
//! read it, it is never an array. Where that is a root, it is written to the output itself. An array is dropped when nothing that
//! is still to be computed reads it.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::fuse::fused;
use super::long::weights;
use super::run::{Runner, Source, uninit_shape};
use super::{run_kernels, seen};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::expr::graph::apply::{Application, Key, key};
use crate::expr::graph::walk::{Depth, lying, rewrite, walk};
use crate::expr::graph::{Array, Elements, Kind, Node};
use crate::expr::program::Step;
use crate::expr::program::lower::lower;
use crate::expr::ptx;

/// [`run`](super::run) of roots that have operations on whole arrays among their parts.
pub(in crate::expr) fn materialize(
    runner: &dyn Runner,
    roots: &[&Arc<Node<'_>>],
    outputs: &[&dyn Elements],
) -> Result<()> {
    let roots: Vec<_> = roots.iter().map(|&root| Arc::clone(root)).collect();
    let roots = fused(&roots, false);
    let mut rest: Vec<_> = roots.iter().zip(outputs.iter().copied()).collect();
    let mut plan = Materialized::new(runner, &roots);
    for (step, application) in applications(&roots).into_iter().enumerate() {
        let place = rest.iter().position(|(root, output)| {
            root.as_application()
                .is_some_and(|other| Arc::ptr_eq(other, application))
                && !plan.reads(*output)
        });
        let output = place.map(|place| rest.swap_remove(place).1);
        plan.apply(application, output)?;
        plan.arrays.retain(|key, _| plan.last_uses[key] > step);
    }
    if rest.is_empty() {
        return Ok(());
    }
    let (roots, outputs): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
    let roots = plan.with_arrays(&roots);
    drop(plan);
    run_kernels(runner, &roots.iter().collect::<Vec<_>>(), &outputs)
}

/// The applications that the roots are made of, each behind those that it is of.
fn applications<'r, 'a>(roots: &'r [Arc<Node<'a>>]) -> Vec<&'r Arc<Application<'a>>> {
    let mut known = FxHashSet::default();
    let nodes = walk(&roots.iter().collect::<Vec<_>>(), |node| node.parts(Depth::All)).into_iter();
    let applications = nodes.filter_map(|node| match &node.kind {
        Kind::Applied(applied) => Some(&applied.application),
        _ => None,
    });
    applications
        .filter(|application| known.insert(Arc::as_ptr(application)))
        .collect()
}

/// Parts that are arrays now, each by its key.
struct Materialized<'r, 'a> {
    runner: &'r dyn Runner,
    arrays: FxHashMap<Key, Arc<Node<'a>>>,
    /// The number of the application that is the last one to read what becomes an array; behind those of all, if it is the roots.
    last_uses: FxHashMap<Key, usize>,
    /// How many applications, and roots, have what becomes an array among their parts.
    users: FxHashMap<Key, usize>,
    /// The memory of the arrays that the roots are of.
    read: Vec<*const Buffer>,
}

impl<'r, 'a> Materialized<'r, 'a> {
    fn new(runner: &'r dyn Runner, roots: &[Arc<Node<'a>>]) -> Self {
        let applications = applications(roots);
        let operands = applications.iter().flat_map(|application| &application.operands);
        let all: FxHashSet<Key> = operands.map(key).collect();
        let (mut last_uses, mut read) = (FxHashMap::default(), Vec::new());
        let mut users: FxHashMap<Key, usize> = FxHashMap::default();
        let parts = applications.iter().map(|application| &application.operands[..]);
        for (step, parts) in parts.chain([roots]).enumerate() {
            for node in walk(&parts.iter().collect::<Vec<_>>(), |node| node.parts(Depth::Reductions)) {
                match &node.kind {
                    Kind::Array(array) => read.extend(memory(&**array)),
                    Kind::Applied(_) => drop(last_uses.insert(key(node), step)),
                    _ if all.contains(&key(node)) => {
                        last_uses.insert(key(node), step);
                        *users.entry(key(node)).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        Self {
            runner,
            arrays: FxHashMap::default(),
            last_uses,
            users,
            read,
        }
    }

    /// Whether an output is in memory that is read, too: it is written only when all has been read.
    fn reads(&self, output: &dyn Elements) -> bool {
        memory(output).is_some_and(|memory| self.read.contains(&memory))
    }

    /// Applies an operation whose operands' own applications are arrays, into an output or an array of its own.
    fn apply<'o>(&mut self, application: &Arc<Application<'a>>, output: Option<&'o dyn Elements>) -> Result<()>
    where
        'o: 'a,
    {
        let mut operands = Vec::with_capacity(application.operands.len());
        for operand in &application.operands {
            operands.push(self.operand(application, operand)?);
        }
        let result: Array<'a> = match output {
            Some(output) => Arc::new(lying(output, output.shape(), output.strides())),
            None => uninit_shape(self.runner, application.ty, &application.shape)?,
        };
        if !application.shape.contains(&0) {
            self.runner.apply(application, &operands, &*result)?;
        }
        self.arrays
            .insert(Arc::as_ptr(application).cast(), Node::of_array(result, application.ty));
        Ok(())
    }

    /// An operand as an array, which it is computed into if it is none; or as what the operation's kernels compute.
    fn operand(&mut self, application: &Application<'a>, operand: &Arc<Node<'a>>) -> Result<Source<'a>> {
        let now = self.with_arrays(&[operand]).pop().expect("one root");
        if let Kind::Array(array) = &now.kind {
            return Ok(Source::Array(Arc::clone(array)));
        }
        if application.operation.reads()
            && self.users.get(&key(operand)) == Some(&1)
            && let Some(source) = readable(&now)
        {
            return Ok(source);
        }
        let array = uninit_shape(self.runner, now.ty, &now.shape)?;
        if !now.shape.contains(&0) {
            let purpose = format!("an operand of {}", application.operation.describe());
            self.runner.begin(Some(purpose));
            run_kernels(self.runner, &[&now], &[&*array])?;
            self.runner.begin(None);
        }
        self.arrays
            .insert(key(operand), Node::of_array(Arc::clone(&array), now.ty));
        Ok(Source::Array(array))
    }

    /// These with the arrays in place of what has become one.
    fn with_arrays(&self, roots: &[&Arc<Node<'a>>]) -> Vec<Arc<Node<'a>>> {
        let parts = |node: &Arc<Node<'a>>| self.arrays.contains_key(&key(node));
        rewrite(
            roots,
            |node| {
                if parts(node) {
                    &[]
                } else {
                    node.parts(Depth::Reductions)
                }
            },
            |node, now| match (self.arrays.get(&key(node)), &node.kind) {
                (None, _) => now,
                (Some(array), Kind::Applied(applied)) => seen(array, node, &applied.axes),
                (Some(array), _) => Arc::clone(array),
            },
        )
    }
}

/// The most calls of functions that another kernel does for each element, which it has in its text a hundred times.
const MOST_CALLS: usize = 16;

/// The most that such elements are made of: they share the kernel's parameters with its own.
const MOST_WEIGHT: usize = 200;

/// A node as elements that other kernels compute where they would read them, if they can: nothing is combined, each element comes
/// of few calls, the elements can be counted, and neighbours are read together as they lie.
fn readable<'a>(node: &Arc<Node<'a>>) -> Option<Source<'a>> {
    let len: usize = node.shape.iter().product();
    if node.has.reductions || len > ptx::MOST || len == 0 || weights(&[node]) > MOST_WEIGHT {
        return None;
    }
    let lowered = lower(&[Arc::clone(node)], &node.shape, &[0]);
    let calls = lowered
        .program
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Call(..)));
    let is_short = calls.count() <= MOST_CALLS && lowered.program.transposed.is_none();
    is_short.then(|| Source::Elements(Box::new(lowered), node.shape.clone()))
}

/// The memory of an array, if it has any.
fn memory(elements: &dyn Elements) -> Option<*const Buffer> {
    elements.memory().map(|(buffer, _)| Arc::as_ptr(buffer))
}
