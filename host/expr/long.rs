// SPDX-License-Identifier: MIT OR Apache-2.0
//! Expressions that are too long for one kernel: parts of them are computed first, into arrays.

use std::sync::Arc;

use ndarray::IxDyn;
use rustc_hash::{FxHashMap, FxHashSet};

use super::eval::compute;
use super::node::{Kind, Node};
use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::stream::Stream;

/// The most operations of a kernel: what it takes to compile grows with them.
const MOST: usize = 1000;

/// The same expressions with no more than [`MOST`] operations, or hardly more: parts of others are computed on `stream` and
/// are arrays in what is given.
pub(super) fn cut<'a>(stream: &Stream, roots: &[&Arc<Node<'a>>]) -> Result<Vec<Arc<Node<'a>>>> {
    let same = || Ok(roots.iter().map(|&root| Arc::clone(root)).collect());
    if roots.iter().map(|root| root.size).fold(0, usize::saturating_add) <= MOST {
        return same();
    }
    let nodes = nodes(roots);
    if nodes.len() <= MOST {
        return same();
    }
    // Of each node what it has become, and how many operations that has, those of shared parts counted each time.
    let mut cut: FxHashMap<*const Node<'a>, (Arc<Node<'a>>, usize)> = FxHashMap::default();
    for node in nodes {
        let (mut new, mut size) = (Arc::clone(node), 1);
        if let Kind::Call(function, parts) = &node.kind {
            let parts: Vec<_> = parts.iter().map(|part| cut[&Arc::as_ptr(part)].clone()).collect();
            size += parts.iter().map(|(_, size)| size).sum::<usize>();
            let parts = parts.into_iter().map(|(part, _)| part).collect();
            new = Arc::new(node.with_kind(Kind::Call(function, parts)));
        }
        if size > MOST / 2 && !roots.iter().any(|root| Arc::ptr_eq(root, node)) {
            (new, size) = (array(stream, &new)?, 1);
        }
        cut.insert(Arc::as_ptr(node), (new, size));
    }
    Ok(roots
        .iter()
        .map(|root| Arc::clone(&cut[&Arc::as_ptr(root)].0))
        .collect())
}

/// The parts of the roots, and they, each behind its own parts.
pub(super) fn nodes<'r, 'a>(roots: &[&'r Arc<Node<'a>>]) -> Vec<&'r Arc<Node<'a>>> {
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

/// The part as an array.
fn array<'a>(stream: &Stream, part: &Arc<Node<'a>>) -> Result<Arc<Node<'a>>> {
    match part.ty.bytes() {
        1 => array_of::<u8>(stream, part),
        2 => array_of::<u16>(stream, part),
        4 => array_of::<u32>(stream, part),
        _ => array_of::<u64>(stream, part),
    }
}

fn array_of<'a, T: Element>(stream: &Stream, part: &Arc<Node<'a>>) -> Result<Arc<Node<'a>>> {
    let out: DeviceArray<T, IxDyn> = DeviceArray::uninit(stream, IxDyn(&part.shape))?;
    compute(stream, std::slice::from_ref(part), &[&&*out])?;
    Ok(Node::owned(out, part.ty))
}
