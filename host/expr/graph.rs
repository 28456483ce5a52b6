// SPDX-License-Identifier: MIT OR Apache-2.0
//! Going through graphs, without recursion: an expression may be as deep as memory is large.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::compiled::Place;
use super::node::{Array, Elements, Kind, Node, Reduced, Reduction};
use crate::error::Result;
use crate::stream::Stream;

/// The parts of the roots, and they, each behind its own parts. What is combined in reductions is no part.
pub(super) fn in_order<'r, 'a>(roots: &[&'r Arc<Node<'a>>]) -> Vec<&'r Arc<Node<'a>>> {
    let mut nodes = Vec::new();
    let mut known = FxHashSet::default();
    let mut rest: Vec<_> = roots.iter().rev().map(|&root| (root, false)).collect();
    while let Some((node, parts_are_there)) = rest.pop() {
        match &node.kind {
            Kind::Call(_, parts) if !parts_are_there => {
                if !known.contains(&Arc::as_ptr(node)) {
                    rest.push((node, true));
                    rest.extend(parts.iter().rev().map(|part| (part, false)));
                }
            }
            _ => {
                if known.insert(Arc::as_ptr(node)) {
                    nodes.push(node);
                }
            }
        }
    }
    nodes
}

/// The roots with each part replaced by what `change` makes of it. It is given calls with their parts replaced already.
pub(super) fn rewrite<'a>(
    roots: &[&Arc<Node<'a>>],
    mut change: impl FnMut(Arc<Node<'a>>) -> Result<Arc<Node<'a>>>,
) -> Result<Vec<Arc<Node<'a>>>> {
    let mut changed: FxHashMap<*const Node<'a>, Arc<Node<'a>>> = FxHashMap::default();
    for node in in_order(roots) {
        let mut new = Arc::clone(node);
        if let Kind::Call(function, parts) = &node.kind {
            let parts_now: Vec<_> = parts
                .iter()
                .map(|part| Arc::clone(&changed[&Arc::as_ptr(part)]))
                .collect();
            if !parts.iter().zip(&parts_now).all(|(part, now)| Arc::ptr_eq(part, now)) {
                new = Arc::new(node.with_kind(Kind::Call(function, parts_now)));
            }
        }
        changed.insert(Arc::as_ptr(node), change(new)?);
    }
    Ok(roots
        .iter()
        .map(|root| Arc::clone(&changed[&Arc::as_ptr(root)]))
        .collect())
}

/// The reductions that the roots are made of, each behind those that it is of.
pub(super) fn reductions<'a>(roots: &[&Arc<Node<'a>>]) -> Vec<Arc<Reduction<'a>>> {
    let direct = |nodes: &[&Arc<Node<'a>>]| -> Vec<(Arc<Reduction<'a>>, bool)> {
        let nodes = in_order(nodes);
        let reduced = nodes.iter().rev().filter_map(|node| match &node.kind {
            Kind::Reduced(reduced) => Some((Arc::clone(&reduced.reduction), false)),
            _ => None,
        });
        reduced.collect()
    };
    let (mut ordered, mut known, mut seen) = (Vec::new(), FxHashSet::default(), FxHashSet::default());
    let mut rest = direct(roots);
    while let Some((reduction, others_are_there)) = rest.pop() {
        if others_are_there {
            if known.insert(Arc::as_ptr(&reduction)) {
                ordered.push(reduction);
            }
        } else if seen.insert(Arc::as_ptr(&reduction)) {
            let others = direct(&reduction.parts.iter().collect::<Vec<_>>());
            rest.push((reduction, true));
            rest.extend(others);
        }
    }
    ordered
}

/// [`rewrite`], also of what is combined in reductions.
pub(super) fn rewrite_all<'a>(
    roots: &[&Arc<Node<'a>>],
    change: impl FnMut(Arc<Node<'a>>) -> Result<Arc<Node<'a>>>,
) -> Result<Vec<Arc<Node<'a>>>> {
    rewrite_unless(roots, |_| false, change)
}

/// [`rewrite_all`], but for what is combined in reductions that are `left` as they are.
pub(super) fn rewrite_unless<'a>(
    roots: &[&Arc<Node<'a>>],
    left: impl Fn(&Arc<Reduction<'a>>) -> bool,
    mut change: impl FnMut(Arc<Node<'a>>) -> Result<Arc<Node<'a>>>,
) -> Result<Vec<Arc<Node<'a>>>> {
    let mut rebuilt: FxHashMap<*const Reduction<'a>, Arc<Reduction<'a>>> = FxHashMap::default();
    let mut anew = |rebuilt: &FxHashMap<_, Arc<Reduction<'a>>>, node: Arc<Node<'a>>| match &node.kind {
        Kind::Reduced(reduced) => match rebuilt.get(&Arc::as_ptr(&reduced.reduction)) {
            Some(reduction) => change(node.with_reduction(reduced, reduction)),
            None => change(node),
        },
        _ => change(node),
    };
    for reduction in reductions(roots).into_iter().filter(|reduction| !left(reduction)) {
        let parts: Vec<_> = reduction.parts.iter().collect();
        let now = rewrite(&parts, |node| anew(&rebuilt, node))?;
        if !now.iter().zip(parts).all(|(now, part)| Arc::ptr_eq(now, part)) {
            let new = Reduction {
                operator: reduction.operator,
                parts: now,
                axes: reduction.axes.clone(),
            };
            rebuilt.insert(Arc::as_ptr(&reduction), Arc::new(new));
        }
    }
    rewrite(roots, |node| anew(&rebuilt, node))
}

/// The same elements with an axis of length 1 ahead of axis `axis`, which is at most the number of axes.
pub(super) fn insert_axis<'a>(root: &Arc<Node<'a>>, axis: usize) -> Arc<Node<'a>> {
    // Shapes of parts are aligned at their ends.
    let from_end = root.shape.len() - axis;
    let insert = |node: Arc<Node<'a>>| {
        let Some(at) = node.shape.len().checked_sub(from_end) else {
            return Ok(node);
        };
        let mut shape = node.shape.to_vec();
        shape.insert(at, 1);
        let kind = match &node.kind {
            Kind::Array(array) => {
                let mut strides = array.strides().to_vec();
                strides.insert(at, 0);
                Kind::Array(with_layout(array, shape.clone(), strides))
            }
            Kind::Index(of) => Kind::Index(of + usize::from(at <= *of)),
            Kind::Reduced(reduced) => {
                let mut axes = reduced.axes.to_vec();
                axes.insert(at, None);
                Kind::Reduced(Reduced {
                    axes: axes.into(),
                    ..reduced.clone()
                })
            }
            kind @ (Kind::Scalar(_) | Kind::Argument(_) | Kind::Call(..)) => kind.clone(),
        };
        let mut new = node.with_kind(kind);
        new.shape = shape.into();
        Ok(Arc::new(new))
    };
    let mut roots = rewrite(&[root], insert).expect("nothing is computed");
    roots.pop().expect("one root")
}

/// The elements that are first along `axes`, which have length 1 then. None if they follow from a reduction's results.
pub(super) fn first_along<'a>(root: &Arc<Node<'a>>, axes: &[usize]) -> Option<Arc<Node<'a>>> {
    if in_order(&[root])
        .iter()
        .any(|node| matches!(node.kind, Kind::Reduced(_)))
    {
        return None;
    }
    let from_end: Vec<usize> = axes.iter().map(|axis| root.shape.len() - axis).collect();
    let first = |node: Arc<Node<'a>>| {
        let at: Vec<usize> = from_end
            .iter()
            .filter_map(|from_end| node.shape.len().checked_sub(*from_end))
            .collect();
        let mut shape = node.shape.to_vec();
        at.iter().for_each(|&axis| shape[axis] = 1);
        let kind = match &node.kind {
            Kind::Array(array) => Kind::Array(with_layout(array, shape.clone(), array.strides().to_vec())),
            Kind::Index(of) if at.contains(of) => Kind::Scalar(0),
            kind => kind.clone(),
        };
        let mut new = node.with_kind(kind);
        new.shape = shape.into();
        Ok(Arc::new(new))
    };
    let mut roots = rewrite(&[root], first).expect("nothing is computed");
    roots.pop()
}

/// An array's elements, all of which lie so too.
pub(super) fn with_layout<'a>(array: &Array<'a>, shape: Vec<usize>, strides: Vec<isize>) -> Array<'a> {
    Arc::new(Lying {
        array: Arc::clone(array),
        shape,
        strides,
    })
}

/// Elements of an array along other axes.
struct Lying<'a> {
    array: Array<'a>,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Elements for Lying<'_> {
    fn stream(&self) -> &Stream {
        self.array.stream()
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn strides(&self) -> &[isize] {
        &self.strides
    }

    fn first_address(&self) -> u64 {
        self.array.first_address()
    }

    fn reads_on(&self, stream: &Stream) -> Result<()> {
        self.array.reads_on(stream)
    }

    fn writes_on(&self, stream: &Stream) -> Result<()> {
        self.array.writes_on(stream)
    }

    fn is_part(&self) -> bool {
        self.array.is_part()
    }

    fn place(&self) -> Option<Place> {
        self.array.place()
    }
}
