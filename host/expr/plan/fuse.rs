// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an operation's own kernel does to its results: a bias, an activation and a residual behind a product of matrices.
//!
//! That is one step or more behind what nobody else needs: an addend that is an array and is repeated to the results' shape, or a
//! function; of 16-bit floats between two casts, in `f32`. The operation says what its kernel can do with the same bits.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

use super::common::with_common_parts;
use crate::expr::graph::apply::{Application, Applied, Key, Then, key};
use crate::expr::graph::function::{self, Binary, Unary};
use crate::expr::graph::walk::{Depth, rewrite, walk};
use crate::expr::graph::{Kind, Node};

/// The roots with what was written twice there once, and steps behind operations done by these: those with the same bits, or, if
/// `is_fast`, also others.
pub(in crate::expr) fn fused<'a>(roots: &[Arc<Node<'a>>], is_fast: bool) -> Vec<Arc<Node<'a>>> {
    if !roots.iter().any(|root| root.has.applications) {
        return roots.to_vec();
    }
    let roots = with_common_parts(&roots.iter().collect::<Vec<_>>());
    let roots: Vec<_> = roots.iter().collect();
    let mut uses = Uses::of(&roots);
    rewrite(
        &roots,
        |node| node.parts(Depth::All),
        |node, now| {
            let fused = uses.fuse(&now, is_fast).unwrap_or(now);
            uses.keep(node, &fused);
            fused
        },
    )
}

/// How often nodes and applications are parts of others, or roots.
struct Uses {
    counts: FxHashMap<Key, usize>,
}

impl Uses {
    fn of(roots: &[&Arc<Node<'_>>]) -> Self {
        let nodes = walk(roots, |node| node.parts(Depth::All));
        let mut counts = FxHashMap::default();
        let parts = nodes.iter().flat_map(|node| node.parts(Depth::All));
        for part in parts.chain(roots.iter().copied()) {
            *counts.entry(key(part)).or_default() += 1;
        }
        Self { counts }
    }

    /// What a node has become is used as often as it.
    fn keep(&mut self, node: &Arc<Node<'_>>, now: &Arc<Node<'_>>) {
        let count = self.count(node);
        self.counts.insert(key(now), count);
    }

    fn count(&self, node: &Arc<Node<'_>>) -> usize {
        self.counts.get(&key(node)).copied().unwrap_or_default()
    }

    /// The node as an operation that does it and what it is of.
    fn fuse<'a>(&self, node: &Arc<Node<'a>>, is_fast: bool) -> Option<Arc<Node<'a>>> {
        let (base, steps) = self.steps(node)?;
        let application = base.as_application()?;
        let mut operation = Arc::clone(&application.operation);
        let mut operands = application.operands.clone();
        for step in steps.into_iter().rev() {
            operation = operation.then(step.then, is_fast)?;
            operands.extend(step.addend);
        }
        let applied = Applied {
            application: Arc::new(Application {
                operation,
                operands,
                ..Application::clone(application)
            }),
            axes: (0..node.shape.len()).map(Some).collect(),
        };
        Some(Arc::new(node.with_kind(Kind::Applied(applied))))
    }

    /// What an operation gives that nothing else needs, and the steps from it to the node, the last one first.
    fn steps<'n, 'a>(&self, node: &'n Arc<Node<'a>>) -> Option<(&'n Arc<Node<'a>>, Vec<Step<'a>>)> {
        let narrow = node.ty;
        let (mut at, ty) = match as_cast(node, ScalarType::F32, narrow) {
            Some(wide) => (wide, ScalarType::F32),
            None => (node, narrow),
        };
        let mut steps = Vec::new();
        loop {
            // What lies in between is needed by nothing else either.
            if !Arc::ptr_eq(at, node) && self.count(at) != 1 {
                return None;
            }
            let (next, step) = self.step(at, [narrow, ty])?;
            steps.push(step);
            match narrowed(next, [narrow, ty]) {
                Some(base) if self.is_alone(next) && self.is_alone(base) => return Some((base, steps)),
                _ if ty == narrow => return None,
                _ => at = next,
            }
        }
    }

    fn is_alone(&self, node: &Arc<Node<'_>>) -> bool {
        self.count(node) == 1
    }

    /// What a step is done to in the second of these types, and the step.
    fn step<'n, 'a>(&self, node: &'n Arc<Node<'a>>, types: [ScalarType; 2]) -> Option<(&'n Arc<Node<'a>>, Step<'a>)> {
        let Kind::Call(called, parts) = &node.kind else {
            return None;
        };
        match &parts[..] {
            [x] => {
                let is = |operator: &Unary| function::unary(*operator, types[1]) == Some(*called);
                let then = Then::Apply(FUNCTIONS.into_iter().find(is)?);
                Some((x, Step { then, addend: None }))
            }
            [a, b] if function::binary(Binary::Add, types[1]) == Some(*called) => {
                let array = |part| narrowed(part, types).filter(|part| is_array(part));
                let is_base = |part| narrowed(part, types).is_none_or(|part| part.as_application().is_some());
                let ways = [(a, b), (b, a)].into_iter();
                let mut ways = ways.filter(|(base, _)| base.shape == node.shape && is_base(base));
                let (base, addend) = ways.find_map(|(base, addend)| Some((base, array(addend)?)))?;
                let addend = Some(Arc::clone(addend));
                Some((
                    base,
                    Step {
                        then: Then::Add,
                        addend,
                    },
                ))
            }
            _ => None,
        }
    }
}

/// What is done behind an operation.
struct Step<'a> {
    then: Then,
    addend: Option<Arc<Node<'a>>>,
}

/// The functions that operations may do.
const FUNCTIONS: [Unary; 4] = [Unary::Relu, Unary::Gelu, Unary::GeluTanh, Unary::Silu];

/// Whether the node is an array when operations are applied.
fn is_array(node: &Node<'_>) -> bool {
    matches!(node.kind, Kind::Array(_) | Kind::Applied(_))
}

/// The number of the first of these types that the node is in the second one.
fn narrowed<'n, 'a>(node: &'n Arc<Node<'a>>, [narrow, wide]: [ScalarType; 2]) -> Option<&'n Arc<Node<'a>>> {
    if narrow == wide {
        return Some(node);
    }
    as_cast(node, narrow, wide)
}

/// What the node is a cast of, from 16-bit floats to `f32` or back.
fn as_cast<'n, 'a>(node: &'n Arc<Node<'a>>, from: ScalarType, to: ScalarType) -> Option<&'n Arc<Node<'a>>> {
    match &node.kind {
        Kind::Call(called, parts) if parts[0].ty == from && function::casts(from, to) == [*called] => {
            let [narrow, wide] = if from.bytes() == 2 { [from, to] } else { [to, from] };
            let is_half = matches!(narrow, ScalarType::F16 | ScalarType::Bf16) && wide == ScalarType::F32;
            is_half.then_some(&parts[0])
        }
        _ => None,
    }
}
