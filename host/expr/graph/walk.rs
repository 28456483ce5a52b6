// SPDX-License-Identifier: MIT OR Apache-2.0
//! Going through graphs, without recursion: an expression may be as deep as memory is large.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::apply::{Application, Applied};
use super::composite::{Composite, expanded};
use super::parts::{shared, with_one_more};
use super::{Array, Elements, Kind, Node, Reduced, Reduction};
use crate::buffer::Buffer;
use crate::error::Result;
use crate::expr::compiled::Place;
use crate::stream::Stream;

/// The parts of most expressions: for so many nothing has to grow.
pub(in crate::expr) const FEW: usize = 14;

/// The values of keys. Few keys are looked through, which takes less time than a table.
pub(in crate::expr) struct Known<K, V> {
    few: [Option<(K, V)>; FEW],
    len: usize,
    /// All of them, if they are more.
    many: FxHashMap<K, V>,
}

impl<K: Copy, V: Copy> Default for Known<K, V> {
    fn default() -> Self {
        Self {
            few: [None; FEW],
            len: 0,
            many: FxHashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Known<K, V> {
    pub(in crate::expr) fn get(&self, key: &K) -> Option<V> {
        if self.len > FEW {
            return self.many.get(key).copied();
        }
        let mut few = self.few[..self.len].iter().flatten();
        few.find(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// A key that is not there yet.
    pub(in crate::expr) fn insert(&mut self, key: K, value: V) {
        self.len += 1;
        if let Some(place) = self.few.get_mut(self.len - 1) {
            *place = Some((key, value));
            return;
        }
        if self.many.is_empty() {
            self.many.reserve(8 * FEW);
            self.many.extend(self.few.iter().flatten().copied());
        }
        self.many.insert(key, value);
    }
}

/// How far parts are parts of a root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum Depth {
    /// Those that functions are of.
    Calls,
    /// Those that reductions and composites are of, too.
    Reductions,
    /// And those that applications are of.
    All,
}

impl<'a> Node<'a> {
    /// Its own parts, as far as that.
    pub(in crate::expr) fn parts(&self, depth: Depth) -> &[Arc<Self>] {
        match &self.kind {
            Kind::Call(_, parts) => parts,
            Kind::Reduced(reduced) if depth != Depth::Calls => &reduced.reduction.parts,
            Kind::Composed(composed) if depth != Depth::Calls => &composed.composite.parts,
            Kind::Applied(applied) if depth == Depth::All => &applied.application.operands,
            _ => &[],
        }
    }
}

/// The parts of the roots, and they, each behind its own parts. What is combined in reductions is no part, nor is what
/// operations are applied to.
pub(in crate::expr) fn in_order<'r, 'a>(roots: &[&'r Arc<Node<'a>>]) -> Vec<&'r Arc<Node<'a>>> {
    walk(roots, |node| node.parts(Depth::Calls))
}

/// The roots and their parts, each behind its own, which are these.
pub(in crate::expr) fn walk<'r, 'a>(
    roots: &[&'r Arc<Node<'a>>],
    parts: impl Fn(&'r Arc<Node<'a>>) -> &'r [Arc<Node<'a>>],
) -> Vec<&'r Arc<Node<'a>>> {
    let mut nodes = Vec::with_capacity(FEW);
    visit(roots, parts, |node| nodes.push(node));
    nodes
}

/// [`walk`], with what is to be done to each; the numbers that they have in that order.
fn visit<'r, 'a>(
    roots: &[&'r Arc<Node<'a>>],
    parts: impl Fn(&'r Arc<Node<'a>>) -> &'r [Arc<Node<'a>>],
    mut behind: impl FnMut(&'r Arc<Node<'a>>),
) -> Known<*const Node<'a>, usize> {
    let (mut numbers, mut next) = (Known::default(), 0);
    let mut rest = Vec::with_capacity(FEW);
    rest.extend(roots.iter().rev().map(|&root| (root, false)));
    while let Some((node, parts_are_there)) = rest.pop() {
        if numbers.get(&Arc::as_ptr(node)).is_some() {
            continue;
        }
        let own = parts(node);
        if own.is_empty() || parts_are_there {
            numbers.insert(Arc::as_ptr(node), next);
            next += 1;
            behind(node);
        } else {
            rest.push((node, true));
            rest.extend(own.iter().rev().map(|part| (part, false)));
        }
    }
    numbers
}

/// The roots with each part, as far as these are its parts, replaced by what `change` makes of it: that is given the part, and
/// the same with its own parts replaced already.
pub(in crate::expr) fn rewrite<'r, 'a>(
    roots: &[&'r Arc<Node<'a>>],
    parts: impl Fn(&'r Arc<Node<'a>>) -> &'r [Arc<Node<'a>>],
    mut change: impl FnMut(&Arc<Node<'a>>, Arc<Node<'a>>) -> Arc<Node<'a>>,
) -> Vec<Arc<Node<'a>>> {
    let mut nodes = Vec::with_capacity(FEW);
    let numbers = visit(roots, &parts, |node| nodes.push(node));
    let mut changed = Changed {
        numbers,
        nodes: Vec::with_capacity(nodes.len()),
        reductions: FxHashMap::default(),
        applications: FxHashMap::default(),
        composites: FxHashMap::default(),
    };
    for node in nodes {
        let new = changed.rebuilt(node, parts(node));
        changed.nodes.push(change(node, new));
    }
    roots.iter().map(|root| Arc::clone(changed.now(root))).collect()
}

/// What parts have become.
struct Changed<'a> {
    numbers: Known<*const Node<'a>, usize>,
    /// By their numbers.
    nodes: Vec<Arc<Node<'a>>>,
    /// One for each that several nodes have a number of.
    reductions: FxHashMap<*const Reduction<'a>, Arc<Reduction<'a>>>,
    applications: FxHashMap<*const Application<'a>, Arc<Application<'a>>>,
    composites: FxHashMap<*const Composite<'a>, Arc<Composite<'a>>>,
}

impl<'a> Changed<'a> {
    fn now(&self, node: &Arc<Node<'a>>) -> &Arc<Node<'a>> {
        let number = self.numbers.get(&Arc::as_ptr(node));
        &self.nodes[number.expect("parts are ahead of what they are parts of")]
    }

    /// The node of what its parts have become.
    fn rebuilt(&mut self, node: &Arc<Node<'a>>, parts: &[Arc<Node<'a>>]) -> Arc<Node<'a>> {
        if parts.iter().all(|part| Arc::ptr_eq(part, self.now(part))) {
            return Arc::clone(node);
        }
        let now = parts.iter().map(|part| Arc::clone(self.now(part)));
        match &node.kind {
            Kind::Call(function, _) => {
                let kind = Kind::Call(function, now.collect());
                Arc::new(node.with_kind(kind))
            }
            Kind::Reduced(reduced) => {
                let old = &reduced.reduction;
                let parts = now.collect();
                let new = self.reductions.entry(Arc::as_ptr(old)).or_insert_with(|| {
                    Arc::new(Reduction {
                        operator: old.operator,
                        parts,
                        axes: old.axes.clone(),
                    })
                });
                node.with_reduction(reduced, new)
            }
            Kind::Applied(applied) => {
                let old = &applied.application;
                let operands = now.collect();
                let new = self.applications.entry(Arc::as_ptr(old)).or_insert_with(|| {
                    Arc::new(Application {
                        operands,
                        ..Application::clone(old)
                    })
                });
                node.with_application(applied, new)
            }
            Kind::Composed(composed) => {
                let old = &composed.composite;
                let parts = now.collect();
                let new = self.composites.entry(Arc::as_ptr(old)).or_insert_with(|| {
                    Arc::new(Composite {
                        expand: old.expand,
                        parts,
                        settings: old.settings.clone(),
                    })
                });
                node.with_composite(composed, new)
            }
            Kind::Array(_) | Kind::Scalar(_) | Kind::Argument(_) | Kind::Index(_) => {
                unreachable!("a part without parts")
            }
        }
    }
}

/// The reductions that the roots are made of, each behind those that it is of.
pub(in crate::expr) fn reductions<'a>(roots: &[&Arc<Node<'a>>]) -> Vec<Arc<Reduction<'a>>> {
    let mut known = FxHashSet::default();
    let nodes = walk(roots, |node| node.parts(Depth::Reductions)).into_iter();
    let reductions = nodes.filter_map(|node| match &node.kind {
        Kind::Reduced(reduced) => Some(&reduced.reduction),
        _ => None,
    });
    let first = reductions.filter(|reduction| known.insert(Arc::as_ptr(reduction)));
    first.cloned().collect()
}

/// The same elements with an axis of length 1 ahead of axis `axis`, which is at most the number of axes.
pub(in crate::expr) fn insert_axis<'a>(root: &Arc<Node<'a>>, axis: usize) -> Arc<Node<'a>> {
    // Shapes of parts are aligned at their ends.
    let from_end = root.shape.len() - axis;
    let insert = |_: &_, node: Arc<Node<'a>>| {
        let Some(at) = node.shape.len().checked_sub(from_end) else {
            return node;
        };
        let kind = match &node.kind {
            Kind::Array(array) => {
                let (mut shape, mut strides) = (node.shape.to_vec(), array.strides().to_vec());
                shape.insert(at, 1);
                strides.insert(at, 0);
                Kind::Array(with_layout(array, shape, strides))
            }
            Kind::Index(of) => Kind::Index(of + usize::from(at <= *of)),
            Kind::Reduced(reduced) => Kind::Reduced(Reduced {
                reduction: Arc::clone(&reduced.reduction),
                number: reduced.number,
                axes: shared(with_one_more(&reduced.axes, at, None)),
            }),
            Kind::Applied(applied) => Kind::Applied(Applied {
                application: Arc::clone(&applied.application),
                axes: shared(with_one_more(&applied.axes, at, None)),
            }),
            Kind::Composed(composed) => Kind::Composed(composed.with_axis(at)),
            kind @ (Kind::Scalar(_) | Kind::Argument(_) | Kind::Call(..)) => kind.clone(),
        };
        let mut new = node.with_kind(kind);
        new.shape = with_one_more(&node.shape, at, 1).collect();
        Arc::new(new)
    };
    if root.parts(Depth::Calls).is_empty() {
        return insert(root, Arc::clone(root));
    }
    let mut roots = rewrite(&[root], |node| node.parts(Depth::Calls), insert);
    roots.pop().expect("one root")
}

/// The elements that are first along `axes`, which have length 1 then. None if they follow from a reduction's results.
pub(in crate::expr) fn first_along<'a>(root: &Arc<Node<'a>>, axes: &[usize]) -> Option<Arc<Node<'a>>> {
    let root = &expanded(root).ok()?;
    if in_order(&[root])
        .iter()
        .any(|node| matches!(node.kind, Kind::Reduced(_)))
    {
        return None;
    }
    let from_end: Vec<usize> = axes.iter().map(|axis| root.shape.len() - axis).collect();
    let first = |_: &_, node: Arc<Node<'a>>| {
        let at: Vec<usize> = from_end
            .iter()
            .filter_map(|from_end| node.shape.len().checked_sub(*from_end))
            .collect();
        let mut shape = node.shape.to_vec();
        at.iter().for_each(|&axis| shape[axis] = 1);
        let kind = match &node.kind {
            Kind::Array(array) => Kind::Array(with_layout(array, shape.clone(), array.strides().to_vec())),
            Kind::Index(of) if at.contains(of) => Kind::Scalar(0),
            // What an operation gives is an array, of which the node then has the first elements.
            kind => kind.clone(),
        };
        let mut new = node.with_kind(kind);
        new.shape = shape[..].into();
        Arc::new(new)
    };
    let mut roots = rewrite(&[root], |node| node.parts(Depth::Calls), first);
    roots.pop()
}

/// An array's elements, all of which lie so too.
pub(in crate::expr) fn with_layout<'a>(array: &Array<'a>, shape: Vec<usize>, strides: Vec<isize>) -> Array<'a> {
    Arc::new(Lying {
        array: Arc::clone(array),
        shape,
        strides,
    })
}

/// The same elements, of an array that is borrowed.
pub(in crate::expr) fn lying<'e>(
    array: &'e dyn Elements,
    shape: &[usize],
    strides: &[isize],
) -> Lying<&'e dyn Elements> {
    Lying {
        array,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
    }
}

/// Elements of an array along other axes.
pub(in crate::expr) struct Lying<A> {
    array: A,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

/// What holds an array.
///
/// # Safety
///
/// As of [`Elements`].
pub(super) unsafe trait Holds: Send + Sync {
    fn elements(&self) -> &dyn Elements;
}

// SAFETY: the array's own promise.
unsafe impl Holds for Array<'_> {
    fn elements(&self) -> &dyn Elements {
        &**self
    }
}

// SAFETY: dropping a reference does nothing.
unsafe impl Holds for &dyn Elements {
    fn elements(&self) -> &dyn Elements {
        *self
    }
}

// SAFETY: what holds the array promises so.
unsafe impl<A: Holds> Elements for Lying<A> {
    fn stream(&self) -> &Stream {
        self.array.elements().stream()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn strides(&self) -> &[isize] {
        &self.strides
    }

    fn first_address(&self) -> u64 {
        self.array.elements().first_address()
    }

    fn reads_on(&self, stream: &Stream) -> Result<()> {
        self.array.elements().reads_on(stream)
    }

    fn writes_on(&self, stream: &Stream) -> Result<()> {
        self.array.elements().writes_on(stream)
    }

    fn is_part(&self) -> bool {
        self.array.elements().is_part()
    }

    fn place(&self) -> Option<Place> {
        self.array.elements().place()
    }

    fn memory(&self) -> Option<(&Arc<Buffer>, usize)> {
        self.array.elements().memory()
    }
}
