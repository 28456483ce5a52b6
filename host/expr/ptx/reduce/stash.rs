// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a row has behind the elements in registers, in shared memory: it is on its way while the first pass has those, without a
//! register, and each thread finds there what it has copied itself, as often as it reads it.

use super::Folding;
use super::rows::Place;
use crate::expr::program::GROUP;
use crate::expr::program::stashed::stash_groups;
use crate::expr::ptx::link::Least;
use crate::expr::ptx::steps::{Span, Stashed, element};
use crate::expr::ptx::writer::{Register, Writer};

/// The compute capability from which on GPUs copy so, and the version of PTX that has it.
pub(in crate::expr) const STASH: Least = ((8, 0), (7, 0));

/// The name of that memory.
pub(in crate::expr::ptx) const NAME: &str = "stash";

/// Where a thread's elements are.
pub(super) struct Stash {
    inputs: Vec<usize>,
    /// Bytes of an element of one of them.
    bytes: usize,
    /// The groups of a thread that are copied at a time, and that the last pass has.
    pub groups: usize,
    /// Where the thread begins.
    first: Register,
    /// The threads that have groups side by side here, as a power of two: those of the block.
    threads_log2: u8,
}

impl Folding<'_> {
    /// Asks for the elements of a row that are not in registers, if they are stashed.
    pub(super) fn stash(&self, place: &mut Place, lanes_log2: u8, writer: &mut Writer) -> Option<Stash> {
        if !self.kernel.is_stashed {
            return None;
        }
        let program = self.kernel.program;
        let (inputs, groups) = (program.read_again(), stash_groups(program)?);
        let bytes = program.inputs[*inputs.first()?].ty.bytes();
        let base = writer.new_word("mov.u32", NAME);
        let of_group = GROUP * bytes * inputs.len();
        let first = writer.new_word("mad.lo.s32", format_args!("{}, {of_group}, {base}", place.lane));
        let stash = Stash {
            inputs,
            bytes,
            groups,
            first,
            threads_log2: self.reduce.threads_log2(),
        };
        let at = stash.begin(writer);
        if self.reduce.rounds() == 1 {
            self.copy_behind(place, &stash, at, lanes_log2, writer);
            return Some(stash);
        }
        let round = self.begin_rounds(place, "stash", writer);
        self.copy_behind(place, &stash, at, lanes_log2, writer);
        self.end_round(place, round, "stash", writer);
        Some(stash)
    }

    /// Asks for the thread's elements that are not in registers, one after another from that address on.
    fn copy_behind(&self, place: &Place, stash: &Stash, at: Register, lanes_log2: u8, writer: &mut Writer) {
        let start = writer.new_word("mov.b32", place.behind);
        writer.mark("$stash:");
        let is_over = writer.new_predicate("setp.ge.u32", format_args!("{start}, {}", place.end));
        writer.line(format_args!("@{is_over} bra $stashed"));
        let groups = (stash.groups, lanes_log2);
        let ragged = if self.is_whole(stash.groups) { stash.groups } else { 0 };
        let spans = self.spans(place, start, groups, ragged, writer);
        for (&input, addresses) in &stash.at(at, &spans, writer) {
            for (span, &to) in spans.iter().zip(addresses) {
                self.copy(place, input, span, to, writer);
            }
        }
        stash.step(start, at, groups, writer);
        writer.line("bra.uni $stash");
        writer.mark("$stashed:");
    }

    /// Copies neighbours of an input, which are there when the thread has waited for them.
    fn copy(&self, place: &Place, input: usize, span: &Span, to: Register, writer: &mut Writer) {
        let ty = self.kernel.program.inputs[input].ty;
        let from = element(place.row.inputs[input], span.column, ty, writer);
        let bytes = span.len * ty.bytes();
        // Only whole sectors pass the first level.
        let level = if bytes == 16 { "cg" } else { "ca" };
        let streaming = self.kernel.streaming.zip(self.kernel.block.back(input));
        let Some((streaming, back)) = streaming else {
            writer.line(format_args!("cp.async.{level}.shared.global [{to}], [{from}], {bytes}"));
            return;
        };
        let policy = streaming.policy;
        writer.line(format_args!(
            "cp.async.{level}.shared.global.L2::cache_hint [{to}], [{from}], {bytes}, {policy}"
        ));
        let back = self.kernel.double(back, writer);
        streaming.release(from, back, writer);
    }
}

impl Stash {
    /// Waits for what was asked for.
    pub(super) fn wait(writer: &mut Writer) {
        writer.line("cp.async.wait_all");
    }

    /// The addresses of a thread's spans in each input, where those of its groups begin at `at`: side by side are the groups of a
    /// thread's inputs, then those of its neighbours.
    pub(super) fn at(&self, at: Register, spans: &[Span], writer: &mut Writer) -> Stashed {
        let of_group = GROUP * self.bytes;
        let mut stashed = Stashed::default();
        for (number, &input) in self.inputs.iter().enumerate() {
            let mut first = 0;
            let mut addresses = Vec::with_capacity(spans.len());
            for span in spans {
                let (group, within) = (first / GROUP, first % GROUP);
                let offset =
                    ((group << self.threads_log2) * self.inputs.len() + number) * of_group + within * self.bytes;
                addresses.push(writer.new_word("add.s32", format_args!("{at}, {offset}")));
                first += span.len;
            }
            stashed.insert(input, addresses);
        }
        stashed
    }

    /// A register that begins where the thread does.
    pub(super) fn begin(&self, writer: &mut Writer) -> Register {
        writer.new_word("mov.b32", self.first)
    }

    /// Goes on to the next groups, in the row and here.
    pub(super) fn step(&self, start: Register, at: Register, (groups, lanes_log2): (usize, u8), writer: &mut Writer) {
        let step = (groups << lanes_log2) * GROUP;
        writer.line(format_args!("add.s32 {start}, {start}, {step}"));
        let step = (groups << self.threads_log2) * GROUP * self.bytes * self.inputs.len();
        writer.line(format_args!("add.s32 {at}, {at}, {step}"));
    }
}
