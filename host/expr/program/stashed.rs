// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that are longer than what a block has in registers, and stay in its shared memory from pass to pass.
//!
//! What is combined with what is as it would be without, so that a program gives the same bits where there is no such memory.

use super::clusters::MOST_LANES_OF_CLUSTER_LOG2;
use super::lower::Lowered;
use super::{Form, GROUP, MOST_WARPS_LOG2, Program};
use crate::expr::graph::Array;
use crate::expr::plan::GROUPS;
use crate::expr::ptx;

/// The bytes that a block of the simulated GPU has in tests: about as many as of compute capability 8.0.
#[cfg(test)]
const ROOM_IN_TESTS: usize = 160 << 10;

/// Bytes for a number of each warp, of one round.
const OF_WARPS: usize = 8 << MOST_WARPS_LOG2;

impl Lowered<'_> {
    /// Says of the program whether its device has shared memory for what it reads again.
    pub(super) fn suit_shared_memory(&mut self) {
        let form = self.program.reduce.as_ref().map(|reduce| reduce.form);
        if !matches!(form, Some(Form::Rows { looped: 1.., .. })) {
            return;
        }
        let room = self.arrays.first().map_or(0, room);
        let has_room = self.stash().is_some_and(|bytes| bytes <= room);
        let is_stashed = has_room && self.program.aligned;
        if let Some(reduce) = &mut self.program.reduce {
            reduce.is_stashed = is_stashed;
        }
    }

    /// Whether a row is in the registers of a block or, where the GPU has clusters, of several of half the most threads: the same on
    /// every device. Not of rows by single elements, nor of larger blocks, each alone on its multiprocessor, which take as long as two
    /// kernels.
    pub(in crate::expr) fn is_at_hand(&self) -> bool {
        let has_vectors = self.lengths[self.lengths.len() - 1].is_multiple_of(GROUP);
        let form = self.program.reduce.as_ref().map(|reduce| reduce.form);
        form.is_some_and(|form| match form {
            Form::Rows { lanes_log2, .. } if form.has_cluster() => {
                has_vectors && lanes_log2 < MOST_LANES_OF_CLUSTER_LOG2
            }
            Form::Rows { looped, .. } => looped == 0,
            Form::Columns { .. } => false,
        })
    }

    /// The bytes that a block brings to shared memory, with those for its warps, if it does: of elements of one size, no part of
    /// which is in registers only where they are words. Of shorter ones two blocks at a time find what they read in the cache.
    fn stash(&self) -> Option<usize> {
        let program = &self.program;
        let again = program.read_again();
        let bytes = |input: usize| program.inputs[input].ty.bytes();
        let first = bytes(*again.first()?);
        let is_alike = again.iter().all(|&input| bytes(input) == first);
        let reduce = program.reduce.as_ref()?;
        let least = match reduce.form {
            Form::Rows { held: 0, .. } => WORD,
            _ => WORD / ptx::vector_len(program),
        };
        let numbers: usize = program.folds.iter().map(|fold| fold.combine.types.len()).sum();
        let len = stash_len(program, self.lengths[self.lengths.len() - 1])?;
        (is_alike && first >= least && self.parts.0 == 1).then_some(len + numbers * OF_WARPS * reduce.rounds())
    }
}

/// The least bytes that a thread copies to shared memory at a time, without registers.
const WORD: usize = 4;

/// The groups of a thread that are copied at a time, and that the last pass has at a time, if a program's rows are read in a loop:
/// more where that waits for others that it reads.
pub(in crate::expr) fn stash_groups(program: &Program) -> Option<usize> {
    match program.reduce.as_ref()?.form {
        Form::Rows { looped: 0, .. } | Form::Columns { .. } => None,
        // From round to round all passes take as many steps.
        form @ Form::Rows { looped, .. } if program.reads_late() && !form.has_cluster() => {
            Some(GROUPS.max(looped.into()))
        }
        Form::Rows { looped, .. } => Some(looped.into()),
    }
}

/// The bytes of what a row of that length has behind the elements in registers, if it is read in a loop: of whole
/// [groups](stash_groups).
pub(in crate::expr) fn stash_len(program: &Program, row_len: usize) -> Option<usize> {
    let reduce = program.reduce.as_ref()?;
    let form = reduce.form;
    let step = stash_groups(program)? * form.lanes();
    let in_registers = match form {
        Form::Rows { held, .. } => usize::from(held) * form.lanes(),
        Form::Columns { .. } => 0,
    };
    let again = program.read_again().into_iter();
    let bytes: usize = again.map(|input| program.inputs[input].ty.bytes()).sum();
    let (rounds, len) = (reduce.rounds(), row_len.next_multiple_of(step));
    Some(match form {
        Form::Rows { held: 1.., .. } if rounds > 1 => len / rounds * (rounds - 1) * bytes,
        _ => row_len.saturating_sub(in_registers).next_multiple_of(step) * bytes,
    })
}

/// The shared memory of a block on the device on which that array is, if it has instructions that copy to it.
fn room(array: &Array<'_>) -> usize {
    let device = array.stream().backend().properties();
    match device.compute_capability {
        // The simulated GPU has it in tests, which run kernels' texts too.
        #[cfg(test)]
        None => ROOM_IN_TESTS,
        Some(capability) if capability >= ptx::STASH.0 => device.shared_memory_per_block_optin as usize,
        _ => 0,
    }
}
