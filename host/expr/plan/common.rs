// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common subexpressions: what was written twice is one part, and so is computed once.
//!
//! Parts are numbered by value (J. Cocke, "Global common subexpression elimination", 1970), each behind its own: two are the
//! same that do the same to the same ones. Within a kernel program/lower.rs does that for steps; here it is done for what operations on
//! whole arrays are of and give, and for reductions that several kernels read: they are arrays of their own.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use crate::backend::DeviceFnInfo;
use crate::expr::compiled::Place;
use crate::expr::graph::apply::Application;
use crate::expr::graph::fold::Operator;
use crate::expr::graph::parts::Shape;
use crate::expr::graph::walk::{Depth, rewrite};
use crate::expr::graph::{Kind, Node, Reduction};

/// The roots with one part for all that are the same.
pub(super) fn with_common_parts<'a>(roots: &[&Arc<Node<'a>>]) -> Vec<Arc<Node<'a>>> {
    let mut known = Known::default();
    rewrite(roots, |node| node.parts(Depth::All), |_, node| known.same(node))
}

/// The parts so far. Each is kept, so that its address is no other's.
#[derive(Default)]
struct Known<'a> {
    nodes: FxHashMap<Key<'a>, Arc<Node<'a>>>,
    /// By operator, axes and parts.
    reductions: FxHashMap<(Operator, Shape, Parts<'a>), Arc<Reduction<'a>>>,
    /// By operands: those of different operations.
    applications: FxHashMap<Parts<'a>, Vec<Arc<Application<'a>>>>,
}

/// Known parts, which are the same if they lie at one address.
type Parts<'a> = Vec<*const Node<'a>>;

fn addresses<'a>(parts: &[Arc<Node<'a>>]) -> Parts<'a> {
    parts.iter().map(Arc::as_ptr).collect()
}

/// What says which part it is, besides type and shape.
#[derive(PartialEq, Eq, Hash)]
enum Is<'a> {
    /// By first element and strides; what stands for an array by that, too.
    Array(u64, Vec<isize>, Option<Place>),
    Scalar(u64),
    Argument(Place),
    Index(usize),
    Call(&'static DeviceFnInfo, Parts<'a>),
    Reduced(*const Reduction<'a>, usize, Arc<[Option<usize>]>),
    Applied(*const Application<'a>, Arc<[Option<usize>]>),
}

type Key<'a> = (Is<'a>, ScalarType, Shape);

impl<'a> Known<'a> {
    /// The part that is known already, or this one.
    fn same(&mut self, node: Arc<Node<'a>>) -> Arc<Node<'a>> {
        let node = match &node.kind {
            Kind::Reduced(reduced) => match self.reduction(&reduced.reduction) {
                known if Arc::ptr_eq(&known, &reduced.reduction) => node,
                known => node.with_reduction(reduced, &known),
            },
            Kind::Applied(applied) => match self.application(&applied.application) {
                known if Arc::ptr_eq(&known, &applied.application) => node,
                known => node.with_application(applied, &known),
            },
            _ => node,
        };
        self.nodes.entry(key(&node)).or_insert(node).clone()
    }

    fn reduction(&mut self, new: &Arc<Reduction<'a>>) -> Arc<Reduction<'a>> {
        let key = (new.operator, new.axes.clone(), addresses(&new.parts));
        Arc::clone(self.reductions.entry(key).or_insert_with(|| Arc::clone(new)))
    }

    fn application(&mut self, new: &Arc<Application<'a>>) -> Arc<Application<'a>> {
        let of_operands = self.applications.entry(addresses(&new.operands)).or_default();
        let is_same = |known: &&Arc<Application<'a>>| {
            (known.ty, &known.shape) == (new.ty, &new.shape) && known.operation.is_same(&*new.operation)
        };
        if let Some(known) = of_operands.iter().find(is_same) {
            return Arc::clone(known);
        }
        of_operands.push(Arc::clone(new));
        Arc::clone(new)
    }
}

fn key<'a>(node: &Node<'a>) -> Key<'a> {
    let is = match &node.kind {
        Kind::Array(array) => Is::Array(array.first_address(), array.strides().to_vec(), array.place()),
        Kind::Scalar(bits) => Is::Scalar(*bits),
        Kind::Argument(place) => Is::Argument(*place),
        Kind::Index(axis) => Is::Index(*axis),
        Kind::Call(function, parts) => Is::Call(function, addresses(parts)),
        Kind::Reduced(reduced) => Is::Reduced(
            Arc::as_ptr(&reduced.reduction),
            reduced.number,
            Arc::clone(&reduced.axes),
        ),
        Kind::Applied(applied) => Is::Applied(Arc::as_ptr(&applied.application), Arc::clone(&applied.axes)),
        Kind::Composed(_) => unreachable!("composites are expanded by now"),
    };
    (is, node.ty, node.shape.clone())
}
