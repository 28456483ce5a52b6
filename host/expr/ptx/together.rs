// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several launches of one program as one: as of many small arrays, each of which would take a launch that computes little.
//!
//! The kernel's parameter has a block of parameters for each of them, and ahead of those a table: the number of the first block of
//! threads that each has. A block of threads looks for its own number there, by halves, without branches, and goes on as the block of
//! that launch which it would be, with parameters of that one. So elements are computed as they are in launches of their own.

use super::arguments::Block;
use super::kernel::{MOST_PARAMETERS, PARAMETER};
use super::writer::{Register, Writer};
use crate::expr::program::Program;
use crate::launch::LaunchConfig;

/// The launches that the table has room for, a power of two.
const TABLE: usize = 64;

/// Bytes of the table, which begins the parameter: `u32`s.
const TABLE_BYTES: usize = 4 * TABLE;

/// The first block of threads of a launch that is not there.
const NONE: u32 = u32::MAX;

/// Where a thread finds its block of parameters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given {
    /// It is the kernel's parameter.
    Alone,
    /// It is one of several.
    Together {
        /// Its address, less the [table's bytes](TABLE_BYTES).
        begin: Register,
        /// The number of the block of threads among those that have it.
        block: Register,
    },
}

impl Given {
    /// Finds the one of the thread's block.
    pub(super) fn find(block: &Block, writer: &mut Writer) -> Self {
        let number = writer.new_word("mov.u32", "%ctaid.x");
        let table = writer.new_double("mov.b64", PARAMETER);
        let mut own = table;
        let mut step = TABLE / 2;
        while step > 0 {
            let later = writer.new_double("add.s64", format_args!("{own}, {}", 4 * step));
            let first = writer.new_word("ld.param.b32", format_args!("[{later}]"));
            let is_later = writer.new_predicate("setp.ge.u32", format_args!("{number}, {first}"));
            own = writer.new_double("selp.b64", format_args!("{later}, {own}, {is_later}"));
            step /= 2;
        }
        let first = writer.new_word("ld.param.b32", format_args!("[{own}]"));
        let within = writer.new_double("sub.s64", format_args!("{own}, {table}"));
        // As many words from the table's beginning as there are blocks of parameters ahead.
        let begin = writer.new_double("mad.lo.s64", format_args!("{within}, {}, {table}", stride(block) / 4));
        Self::Together {
            begin,
            block: writer.new_word("sub.s32", format_args!("{number}, {first}")),
        }
    }

    /// The operand of a load from that offset of the block of parameters.
    pub(super) fn at(self, offset: usize) -> String {
        match self {
            Self::Alone => format!("[{PARAMETER}+{offset}]"),
            Self::Together { begin, .. } => format!("[{begin}+{}]", TABLE_BYTES + offset),
        }
    }
}

/// From one block of parameters to the next.
fn stride(block: &Block) -> usize {
    block.size.next_multiple_of(8)
}

/// How many launches of the program one launch is at most.
pub(in crate::expr) fn most(program: &Program) -> usize {
    ((MOST_PARAMETERS - TABLE_BYTES) / stride(&Block::new(program))).min(TABLE)
}

/// The parameter and the threads of a launch that is all of these, [`most`] of them.
///
/// # Panics
///
/// If they are more, or have blocks of threads along two axes.
pub(in crate::expr) fn together(program: &Program, all: &[(Vec<u8>, LaunchConfig)]) -> (Vec<u8>, LaunchConfig) {
    let stride = stride(&Block::new(program));
    assert!(all.len() <= most(program), "there is room for them");
    let mut bytes = vec![0; MOST_PARAMETERS];
    let mut config = all[0].1;
    let mut blocks = 0u32;
    for number in 0..TABLE {
        let first = all.get(number).map_or(NONE, |_| blocks);
        bytes[4 * number..][..4].copy_from_slice(&first.to_le_bytes());
        if let Some((block, own)) = all.get(number) {
            assert!(
                own.grid.x.min(own.grid.y) == 1 && own.grid.z == 1,
                "blocks go along one axis"
            );
            bytes[TABLE_BYTES + number * stride..][..block.len()].copy_from_slice(block);
            blocks += own.grid.x * own.grid.y;
        }
    }
    (config.grid.x, config.grid.y) = (blocks, 1);
    (bytes, config)
}
