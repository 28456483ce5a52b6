// SPDX-License-Identifier: MIT OR Apache-2.0
//! How kernels go through rows that lie side by side.

use super::{
    BLOCKS, GROUPS, MOST_CALLS, MOST_CALLS_OF_LONG, MOST_LANES_LOG2, MOST_OF_THREAD, MOST_PARTS, MOST_WORDS,
    PART_BYTES, groups_in_registers, most_groups, parts,
};
use crate::expr::program::lower::Reducing;
use crate::expr::program::{Form, GROUP, MOST_WARPS_LOG2, WARP_LOG2};
use crate::expr::ptx;

/// Rows side by side that are fewer are gone through as rows, unless they are long.
pub(super) const FEW_COLUMNS: usize = 16;

/// The warps that share rows side by side, as a power of two, unless arrays are large.
const COLUMN_WARPS_LOG2: u8 = 3;

/// The bytes of a part of rows that lie side by side, of large arrays.
const LONG_PART_BYTES: usize = if cfg!(test) { 64 } else { 4 * PART_BYTES };

/// The elements of a row that a thread has in flight, at most.
const MOST_IN_FLIGHT: usize = 8;

/// The fewest rows side by side for which threads of a warp have neighbours in them; threads read those of fewer as rows.
pub(super) const LEAST_COLUMNS: usize = 4;

/// Rows that are no longer than that are in registers also where each is read once anyway: blocks that share them in a loop have
/// threads without elements.
const SHORT_ROW: usize = 32;

/// The rows side by side that a block has at least, where it has all of them in registers: a sector of `f32`. And so many, where they
/// are not longer than that: an access of a warp, and more.
const LEAST_ACROSS: usize = 8;
const WIDE_ACROSS: usize = 64;

/// The threads of such a block, as a power of two, unless rows are longer.
const HELD_LOG2: u8 = 8;

/// Blocks with fewer rows side by side, where there would not be so many.
const BUSY_ACROSS: usize = 256;

/// The shared memory of a block.
const MOST_SHARED: usize = 48 << 10;

/// The longest rows that a block has side by side in registers, of words of 4 bytes; and the longest where there are fewer rows than
/// that: few blocks, each with much to read, take longer than several kernels.
const MOST_ACROSS: usize = MOST_WORDS / LEAST_ACROSS;
const MOST_OF_FEW: usize = 1024;
const MANY_ACROSS: usize = 512;

/// Whether rows of that length may be held, as many in all, of which so many are neighbours, if a word is kept of each element.
pub(in crate::expr) fn may_be_held(len: usize, rows: usize, neighbours: usize) -> bool {
    let most = if rows < MANY_ACROSS { MOST_OF_FEW } else { MOST_ACROSS };
    (1..=most).contains(&len) && neighbours >= FEW_COLUMNS && len.saturating_mul(rows) <= ptx::MOST
}

/// [`held_across`], of rows that a loop, too, reads once.
pub(super) fn held_once(reducing: &Reducing<'_, '_>) -> Option<Form> {
    if reducing.row_len() > SHORT_ROW {
        return None;
    }
    held_across(reducing)
}

/// The form of rows that lie side by side, and of which the threads of a block have all in registers, if there is room for them: of
/// longer rows a block has fewer, down to a sector of each.
pub(super) fn held_across(reducing: &Reducing<'_, '_>) -> Option<Form> {
    let (len, rows, columns) = (reducing.row_len(), reducing.rows(), reducing.columns());
    let is_across = may_be_held(len, rows, columns) && reducing.has_neighbours_in_rows(FEW_COLUMNS);
    if !is_across || reducing.has_elements() && !reducing.has_elements_in_order() {
        return None;
    }
    let of_vector = of_vector(columns);
    let elements = groups_in_registers(reducing, MOST_CALLS_OF_LONG) * GROUP;
    if elements * reducing.words().kept > MOST_OF_THREAD {
        return None;
    }
    let log2 = |number: usize| number.next_power_of_two().trailing_zeros() as u8;
    let [least, wide] = [LEAST_ACROSS, WIDE_ACROSS].map(|columns| log2(columns / of_vector));
    let lanes = |elements: usize| log2(len.div_ceil(elements / of_vector));
    // Elements that are loaded one by one take a register for each address, too: half of them, where the rows are not fewer then.
    let is_half = of_vector == 1 && lanes(elements / 2) + wide <= MOST_LANES_LOG2;
    let lanes_log2 = lanes(if is_half { elements / 2 } else { elements });
    let most = MOST_LANES_LOG2.checked_sub(lanes_log2).filter(|most| *most >= least)?;
    let across = columns.div_ceil(of_vector);
    let is_busy = |log2: &u8| rows / columns * across.div_ceil(1 << log2) >= BUSY_ACROSS;
    let widest = HELD_LOG2.saturating_sub(lanes_log2).max(wide).min(most);
    let across_log2 = (least..=widest)
        .rev()
        .find(|log2| has_few_idle(across, *log2) && is_busy(log2))
        .unwrap_or(least);
    // At least a warp.
    let lanes_log2 = lanes_log2.max(WARP_LOG2.saturating_sub(across_log2));
    let warps = 1usize << (lanes_log2 + across_log2 - across_log2.max(WARP_LOG2));
    let shared = warps * (of_vector << across_log2) * reducing.numbers() * size_of::<u64>();
    let form = Form::Columns {
        in_flight: len.div_ceil(1 << lanes_log2) as u8,
        lanes_log2,
        across_log2,
        is_held: true,
    };
    (warps == 1 || shared <= MOST_SHARED).then_some(form)
}

/// The columns of a vector, where rows of so many begin at vectors.
fn of_vector(columns: usize) -> usize {
    if columns.is_multiple_of(GROUP) { GROUP } else { 1 }
}

/// Whether of `1 << log2` threads side by side no more than a third is idle, for so many columns or vectors of them.
fn has_few_idle(across: usize, log2: u8) -> bool {
    2 * across.next_multiple_of(1 << log2) <= 3 * across
}

/// The form of rows that lie side by side, and their parts: of large arrays by the largest blocks, each of which goes through a
/// piece that is four times as long as that of a block of 8 warps, so that these leave neither more numbers nor fewer blocks.
pub(super) fn by_columns(reducing: &Reducing<'_, '_>) -> (Form, (usize, usize)) {
    let (len, rows, columns) = (reducing.row_len(), reducing.rows(), reducing.columns());
    // Those that have neighbours, if rows begin at vectors: as many of a warp as leave no more than a third idle.
    let across = columns / of_vector(columns);
    let across_log2 = match across <= 1 << WARP_LOG2 {
        true => across.next_power_of_two().trailing_zeros() as u8,
        false => (0..=WARP_LOG2)
            .rev()
            .find(|&log2| has_few_idle(across, log2))
            .unwrap_or(0),
    };
    let blocks = (rows / columns.max(1) * across.div_ceil(1 << across_log2)).max(1);
    let groups = most_groups(reducing, MOST_CALLS).min(GROUPS);
    // As many bytes where elements are loaded one by one.
    let in_flight = match columns.is_multiple_of(GROUP) {
        true => groups as u8,
        false => (groups * GROUP).min(MOST_IN_FLIGHT) as u8,
    };
    let form = |warps_log2| Form::Columns {
        in_flight,
        lanes_log2: warps_log2 + WARP_LOG2 - across_log2,
        across_log2,
        is_held: false,
    };
    let least = |form: Form| 8 * form.lanes();
    let (few, many) = (form(COLUMN_WARPS_LOG2), form(MOST_WARPS_LOG2));
    let bytes = len.saturating_mul(rows).saturating_mul(reducing.bytes());
    let pieces = (bytes / LONG_PART_BYTES).min(MOST_PARTS);
    // So many warps have shared memory for one number of each element.
    let is_large = pieces >= BLOCKS && len >= least(many) && reducing.numbers() == 1 && groups == GROUPS;
    match is_large {
        true => (many, parts(len, pieces / blocks, least(many))),
        false => (few, parts(len, BLOCKS / blocks, least(few))),
    }
}
