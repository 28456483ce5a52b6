// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for the PTX that the library writes of expressions: blocks of threads with registers, shuffles, barriers and
//! shared memory. It knows these instructions and no others; device functions are one each, which the host computes.
//!
//! The lanes of a warp that are at one instruction do it together: what it is is looked up once for all of them, and a device
//! function is called once. Where they part, those that are least far go on until they have caught up. What threads tell each
//! other through shared memory has a barrier between: all else is found. The blocks of a cluster run side by side.

mod arithmetic;
mod function;
mod line;
mod memory;
mod shared;
mod warp;

use std::collections::HashMap;

pub use function::{Function, MAX_ARGUMENTS};
use line::Line;
pub use memory::{Memory, ProcessMemory};
use shared::Shared;
use warp::{Stop, Warp};

/// Lanes of a warp.
const LANES: usize = 32;

/// The most shared memory of a block beside its own.
const MOST_SHARED: usize = 227 << 10;

/// A kernel, taken apart.
pub struct Emulator<'a> {
    lines: Vec<Line>,
    registers: usize,
    shared: usize,
    functions: &'a [Function],
}

/// What the warps of a block have in common, and those of the other blocks of its cluster.
struct Block<'a> {
    /// The place of the block that is run.
    place: (u32, u32),
    /// Its number among those of the cluster.
    rank: usize,
    parameters: &'a [u8],
    /// Of each of them.
    shared: Vec<Shared>,
    memory: &'a mut dyn Memory,
}

impl<'a> Emulator<'a> {
    /// Of a text with an entry, and the device functions that it calls, by their numbers.
    pub fn new(text: &str, functions: &'a [Function]) -> Self {
        let (head, body) = text.split_once("\n{\n").expect("a body");
        let lines: Vec<&str> = body.lines().take_while(|line| *line != "}").map(str::trim).collect();
        let mut labels = HashMap::new();
        let mut shared = 0usize;
        let mut kept = Vec::new();
        for line in lines {
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label, kept.len());
            } else if let Some(declared) = line.strip_prefix(".shared") {
                let (_, size) = declared.split_once('[').expect("a size");
                shared = size
                    .trim_end_matches(|c: char| !c.is_ascii_digit())
                    .parse()
                    .expect("a size");
            } else if !line.starts_with(['.', '{', '}']) {
                kept.push(line.trim_end_matches(';'));
            }
        }
        // How much more there is a launch says; here it is as much as a GPU has.
        let stash = shared.next_multiple_of(16);
        if head.contains(".extern .shared") {
            shared = stash + MOST_SHARED;
        }
        let mut registers = HashMap::new();
        let parse = |line| Line::parse(line, &labels, stash, &mut registers);
        let lines = kept.into_iter().map(parse).collect();
        Self {
            lines,
            registers: registers.len(),
            shared,
            functions,
        }
    }

    /// Runs a block.
    pub fn block(&self, block: (u32, u32), threads: u32, parameters: &[u8], memory: &mut dyn Memory) {
        self.cluster(block, 1, threads, parameters, memory);
    }

    /// Runs the blocks of a cluster, neighbours along x from that one on.
    pub fn cluster(&self, (x, y): (u32, u32), blocks: u32, threads: u32, parameters: &[u8], memory: &mut dyn Memory) {
        let mut block = Block {
            place: (x, y),
            rank: 0,
            parameters,
            shared: (0..blocks).map(|_| Shared::new(self.shared)).collect(),
            memory,
        };
        let of_block = |rank: u32| {
            (0..threads)
                .step_by(LANES)
                .map(move |first| Warp::new((rank, first), (threads - first).min(LANES as u32), self.registers))
        };
        let mut warps: Vec<Warp> = (0..blocks).flat_map(of_block).collect();
        loop {
            for warp in &mut warps {
                block.rank = warp.rank();
                block.place = (x + block.rank as u32, y);
                while let Stop::Shuffle(at) = self.run(warp, &mut block) {
                    warp.shuffle(&self.lines[at]);
                }
            }
            if warps.iter().all(Warp::is_done) {
                return;
            }
            let barrier = warps[0].waits_at();
            assert!(
                barrier.is_some() && warps.iter().all(|warp| warp.waits_at() == barrier),
                "a barrier of some"
            );
            let is_of_cluster = barrier.is_some_and(|at| self.lines[at].is_of_cluster());
            assert!(is_of_cluster || blocks == 1, "a barrier of one block");
            let mut are_released = true;
            if is_of_cluster {
                // Nobody sees what was stored ahead of a barrier that does not say so.
                warps.iter_mut().for_each(|warp| are_released &= warp.has_released());
            }
            if are_released {
                block.shared.iter_mut().for_each(Shared::meet);
            }
            warps.iter_mut().for_each(Warp::pass);
        }
    }
}
