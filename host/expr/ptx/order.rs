// SPDX-License-Identifier: MIT OR Apache-2.0
//! From which end blocks go through arrays that the second-level cache does not hold.
//!
//! Behind such a kernel the cache has what was read and written last. A kernel that goes through the same arrays in the same order,
//! or through one that the first has written, evicts that before it comes to it; one that begins where the other has stopped
//! finds it there. So a launch says from which end: the other one than the stream's last such kernel began with, if that had one of
//! its arrays ([`Turns`](crate::turns::Turns)). A graph keeps what was said when it was recorded. Which elements a block has does not
//! change with that, nor what is combined with what.

use super::arguments::Block;
use super::kernel::Kernel;
use super::together::Given;
use super::writer::{Register, Writer};
use crate::expr::program::Program;
use crate::launch::LaunchConfig;

/// Bytes at the end of the block of parameters: 1 or -1, and the numbers of the blocks that begin along both axes of the grid.
pub(super) const BYTES: usize = 16;

/// An axis of the grid.
#[derive(Clone, Copy, Debug)]
pub(super) enum Axis {
    X,
    Y,
}

impl Kernel<'_> {
    /// The number of the block along an axis of the grid, in the order of the arrays.
    pub(super) fn block_number(&self, axis: Axis, writer: &mut Writer) -> Register {
        if let Given::Together { block, .. } = self.given {
            // Parts of its one row are what the blocks of a launch have, or else all rows.
            let in_parts = self.program.reduce.as_ref().is_some_and(|reduce| reduce.in_parts);
            return match (axis, in_parts) {
                (Axis::X, false) | (Axis::Y, true) => block,
                _ => writer.new_word("mov.u32", "0"),
            };
        }
        let (place, offset) = match axis {
            Axis::X => ("%ctaid.x", 4),
            Axis::Y => ("%ctaid.y", 8),
        };
        let number = writer.new_word("mov.u32", place);
        let Some(order) = self.block.order else { return number };
        let (step, first) = (self.word(order, writer), self.word(order + offset, writer));
        writer.new_word("mad.lo.s32", format_args!("{number}, {step}, {first}"))
    }
}

/// Writes that order into a block of parameters: from the first block on.
pub(super) fn begin_with_first(block: &Block, bytes: &mut [u8]) {
    if let Some(order) = block.order {
        bytes[order..order + 4].copy_from_slice(&1i32.to_le_bytes());
    }
}

/// Has a launch of a program that goes [either way](Program::either_way) begin with the last block.
pub(in crate::expr) fn begin_with_last(program: &Program, block: &mut [u8], config: &LaunchConfig) {
    let order = block.len() - BYTES;
    let words = [-1i32 as u32, config.grid.x - 1, config.grid.y - 1];
    for (bytes, word) in block[order..].chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    // What was read before lies behind.
    let streamed = &mut block[order - 8 * program.streamed.len()..order];
    for bytes in streamed.chunks_exact_mut(8) {
        let back = i64::from_le_bytes((&*bytes).try_into().expect("eight bytes"));
        bytes.copy_from_slice(&(-back).to_le_bytes());
    }
}
