// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions that are too long for one kernel: parts of them are computed first, into arrays.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::run::{Runner, compute, uninit_shape};
use crate::error::Result;
use crate::expr::graph::walk::in_order;
use crate::expr::graph::{Kind, Node, weight};

/// The most that a kernel is made of, by [`weight`]: what it takes to compile grows with its operations, and arrays and numbers
/// have to find room in its parameters.
pub(in crate::expr) const MOST: usize = 1600;

fn own_weight(node: &Node<'_>) -> usize {
    weight(&node.kind, node.shape.len())
}

/// The weight of parts, each of which counts once.
pub(in crate::expr) fn weights(roots: &[&Arc<Node<'_>>]) -> usize {
    in_order(roots).into_iter().map(|node| own_weight(node)).sum()
}

/// The same expressions with no more than [`MOST`] in each kernel: parts of others are computed, and are arrays in what is
/// given.
pub(in crate::expr) fn cut<'a>(runner: &dyn Runner, roots: &[&Arc<Node<'a>>]) -> Result<Vec<Arc<Node<'a>>>> {
    let same = || Ok(roots.iter().map(|&root| Arc::clone(root)).collect());
    if roots.iter().map(|root| root.size).fold(0, usize::saturating_add) <= MOST || weights(roots) <= MOST {
        return same();
    }
    // Of each node what it has become, and how much that weighs, shared parts each time.
    let mut cut: FxHashMap<*const Node<'a>, (Arc<Node<'a>>, usize)> = FxHashMap::default();
    for node in in_order(roots) {
        let (mut new, mut size) = (Arc::clone(node), own_weight(node));
        if let Kind::Call(function, parts) = &node.kind {
            let parts: Vec<_> = parts.iter().map(|part| cut[&Arc::as_ptr(part)].clone()).collect();
            size += parts.iter().map(|(_, size)| size).sum::<usize>();
            let parts = parts.into_iter().map(|(part, _)| part).collect();
            new = Arc::new(node.with_kind(Kind::Call(function, parts)));
        }
        if size > MOST / 2 && !roots.iter().any(|root| Arc::ptr_eq(root, node)) {
            let array = uninit_shape(runner, new.ty, &new.shape)?;
            compute(runner, &[new], &[&*array])?;
            new = Node::of_array(array, node.ty);
            size = own_weight(&new);
        }
        cut.insert(Arc::as_ptr(node), (new, size));
    }
    let cut = |root: &&Arc<Node<'a>>| Arc::clone(&cut[&Arc::as_ptr(root)].0);
    Ok(roots.iter().map(cut).collect())
}
