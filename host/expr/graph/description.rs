// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an expression is but for where its arrays are and for its numbers: what is the same in that is computed by the same
//! launches.

use std::sync::Arc;

use cuda_std::scalar::ScalarType;

use super::composite::Composed;
use super::function::bits_of;
use super::walk::{Depth, FEW, Known};
use super::{Array, Elements, Kind, Node, Reduced};
use crate::expr::ptx;

/// What a launch depends on of an array's address.
pub(in crate::expr) fn alignment(address: u64) -> u64 {
    address % ptx::ACCESS as u64
}

/// The words of most expressions: for so many nothing has to grow.
const WORDS: usize = 128;

/// Roots and their outputs, in words, and what is not in these.
pub(in crate::expr) struct Description<'r, 'a> {
    /// The same for roots of the same parts, whose arrays lie alike and begin at one address where the others do, and whose numbers
    /// are equal where the others are: each part behind its own, by the numbers of these.
    pub(in crate::expr) words: Vec<u64>,
    /// In the order of the words, each once.
    pub(in crate::expr) arrays: Vec<&'r Array<'a>>,
    /// By their bits, in the same way.
    pub(in crate::expr) numbers: Vec<u64>,
    of_numbers: Known<(u64, ScalarType), usize>,
    of_addresses: Known<u64, u64>,
    addresses: u64,
    /// Of parts that more than one may have.
    of_nodes: Known<*const Node<'a>, u64>,
    nodes: u64,
    /// Of reductions and composites, which several parts are results of, by their addresses.
    of_sources: Known<*const (), u64>,
    sources: u64,
    /// The shape that was written last.
    shape: &'r [usize],
}

/// What is to be done to a part.
#[derive(Clone, Copy)]
enum Visit {
    /// Its own parts are to be gone through first.
    Begin,
    /// They have been.
    End,
}

impl<'r, 'a> Description<'r, 'a> {
    /// Of roots that no application is a part of, into outputs in C order. None if an array or a number is not there: it stands for
    /// one that a compiled function is given.
    pub(in crate::expr) fn new(roots: &[&'r Arc<Node<'a>>], outputs: &[&dyn Elements]) -> Option<Self> {
        let mut this = Self {
            words: Vec::with_capacity(WORDS),
            arrays: Vec::with_capacity(4),
            numbers: Vec::with_capacity(4),
            of_numbers: Known::default(),
            of_addresses: Known::default(),
            addresses: 0,
            of_nodes: Known::default(),
            nodes: 0,
            of_sources: Known::default(),
            sources: 0,
            shape: &[],
        };
        this.words.push(outputs.len() as u64);
        for output in outputs {
            this.write_lengths(output.shape());
            this.write_address(output.first_address());
        }
        let (mut numbers, mut rest) = (Vec::with_capacity(FEW), Vec::with_capacity(FEW));
        for root in roots {
            this.root(root, &mut rest, &mut numbers)?;
        }
        this.words.append(&mut numbers);
        Some(this)
    }

    /// The number of an array that is described, in [`arrays`](Self::arrays).
    pub(in crate::expr) fn array(&self, array: &Array<'_>) -> Option<usize> {
        let is_same = |known: &&Array<'_>| {
            known.first_address() == array.first_address()
                && known.strides() == array.strides()
                && known.shape() == array.shape()
        };
        self.arrays.iter().position(is_same)
    }

    /// That of a number, in [`numbers`](Self::numbers).
    pub(in crate::expr) fn number(&self, bits: u64, ty: ScalarType) -> Option<usize> {
        self.of_numbers.get(&(bits, bits_of(ty)))
    }

    /// Describes a root, behind its parts, without recursion, and puts its number behind `numbers`; in between there are the numbers
    /// of parts until what they are parts of is described.
    fn root(
        &mut self,
        root: &'r Arc<Node<'a>>,
        rest: &mut Vec<(&'r Arc<Node<'a>>, Visit)>,
        numbers: &mut Vec<u64>,
    ) -> Option<()> {
        rest.push((root, Visit::Begin));
        while let Some((node, visit)) = rest.pop() {
            let parts = self.parts(node);
            if let Visit::Begin = visit {
                if let Some(known) = self.known(node) {
                    numbers.push(known);
                    continue;
                }
                if !parts.is_empty() {
                    rest.push((node, Visit::End));
                    rest.extend(parts.iter().rev().map(|part| (part, Visit::Begin)));
                    continue;
                }
            }
            let first = numbers.len() - parts.len();
            self.node(node, &numbers[first..])?;
            numbers.truncate(first);
            numbers.push(self.nodes);
            if is_shared(node) {
                self.of_nodes.insert(Arc::as_ptr(node), self.nodes);
            }
            self.nodes += 1;
        }
        Some(())
    }

    /// The parts that are to be described: of a reduction or a composite that is described already none.
    fn parts(&self, node: &'r Arc<Node<'a>>) -> &'r [Arc<Node<'a>>] {
        match source(&node.kind).and_then(|source| self.of_sources.get(&source)) {
            Some(_) => &[],
            None => node.parts(Depth::Reductions),
        }
    }

    /// The number of a part that is described already.
    fn known(&self, node: &Arc<Node<'a>>) -> Option<u64> {
        is_shared(node).then(|| self.of_nodes.get(&Arc::as_ptr(node))).flatten()
    }

    /// Describes a part, whose own parts have these numbers: its kind and type, its shape, and what its kind has.
    fn node(&mut self, node: &'r Node<'a>, parts: &[u64]) -> Option<()> {
        let kind = match &node.kind {
            Kind::Array(_) => 0,
            Kind::Scalar(_) => 1,
            Kind::Index(_) => 2,
            Kind::Call(..) => 3,
            Kind::Reduced(_) => 4,
            Kind::Composed(_) => 5,
            Kind::Argument(_) | Kind::Applied(_) => return None,
        };
        let (ty, is_of_last_shape) = (u64::from(node.ty as u8), *node.shape == *self.shape);
        let head = [kind, ty, is_of_last_shape.into(), parts.len() as u64];
        self.words
            .push(head.into_iter().fold(0, |word, part| word << 16 | part));
        if !is_of_last_shape {
            self.write_lengths(&node.shape);
            self.shape = &node.shape;
        }
        match &node.kind {
            Kind::Array(array) => self.write_array(array)?,
            Kind::Scalar(bits) => self.write_number(*bits, node.ty),
            Kind::Index(axis) => self.words.push(*axis as u64),
            Kind::Call(function, _) => self.words.push(std::ptr::from_ref(*function).addr() as u64),
            Kind::Reduced(reduced) => self.write_reduced(reduced),
            Kind::Composed(composed) => self.write_composed(composed),
            Kind::Argument(_) | Kind::Applied(_) => {}
        }
        self.words.extend(parts);
        Some(())
    }

    fn write_array(&mut self, array: &'r Array<'a>) -> Option<()> {
        if array.place().is_some() {
            return None;
        }
        let is_known = !self.write_address(array.first_address());
        let known = is_known.then(|| self.array(array)).flatten();
        self.words.push(known.unwrap_or(self.arrays.len()) as u64);
        if known.is_none() {
            self.words.extend(array.strides().iter().map(|&stride| stride as u64));
            self.arrays.push(array);
        }
        Some(())
    }

    /// Whether it is a new one.
    fn write_address(&mut self, address: u64) -> bool {
        match self.of_addresses.get(&address) {
            Some(number) => {
                self.words.push(number);
                false
            }
            None => {
                self.words.extend([self.addresses, alignment(address)]);
                self.of_addresses.insert(address, self.addresses);
                self.addresses += 1;
                true
            }
        }
    }

    fn write_number(&mut self, bits: u64, ty: ScalarType) {
        let known = self.number(bits, ty);
        self.words.push(known.unwrap_or(self.numbers.len()) as u64);
        if known.is_none() {
            self.of_numbers.insert((bits, bits_of(ty)), self.numbers.len());
            self.numbers.push(bits);
        }
    }

    /// What is combined, unless it is described already, and which number of it, along which axes. The parts follow.
    fn write_reduced(&mut self, reduced: &'r Reduced<'a>) {
        let reduction = &reduced.reduction;
        if self.write_source(Arc::as_ptr(reduction).cast()) {
            self.words.push(reduction.operator as u64);
            self.write_lengths(&reduction.axes);
        }
        self.words.push(reduced.number as u64);
        let axes = reduced.axes.iter();
        self.words.push(axes.len() as u64);
        self.words
            .extend(axes.map(|axis| axis.map_or(u64::MAX, |axis| axis as u64)));
    }

    /// The operation, unless it is described already, which of its results, and the axes that this has got. The parts follow.
    fn write_composed(&mut self, composed: &'r Composed<'a>) {
        let composite = &composed.composite;
        if self.write_source(Arc::as_ptr(composite).cast()) {
            // Functions that are at one address do the same.
            self.words.push(composite.expand as usize as u64);
            self.write_lengths(&composite.settings);
        }
        self.words.push(composed.number as u64);
        self.write_lengths(&composed.inserted);
    }

    /// Whether it is a new one.
    fn write_source(&mut self, source: *const ()) -> bool {
        let known = self.of_sources.get(&source);
        self.words.push(known.unwrap_or(self.sources));
        if known.is_none() {
            self.of_sources.insert(source, self.sources);
            self.sources += 1;
        }
        known.is_none()
    }

    /// Lengths or axes, and how many they are.
    fn write_lengths(&mut self, lengths: &[usize]) {
        self.words.push(lengths.len() as u64);
        self.words.extend(lengths.iter().map(|&length| length as u64));
    }
}

/// What the part is one of several results of, by its address.
fn source(kind: &Kind<'_>) -> Option<*const ()> {
    match kind {
        Kind::Reduced(reduced) => Some(Arc::as_ptr(&reduced.reduction).cast()),
        Kind::Composed(composed) => Some(Arc::as_ptr(&composed.composite).cast()),
        _ => None,
    }
}

/// Whether another part may have it, too: what has one owner is a part of one, and is come to once.
fn is_shared(node: &Arc<Node<'_>>) -> bool {
    Arc::strong_count(node) > 1
}
