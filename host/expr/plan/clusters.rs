// SPDX-License-Identifier: MIT OR Apache-2.0
//! How kernels go through rows that no block has room for, but several have together.

use super::{
    GROUPS, LONG_ROW, MOST_CALLS, MOST_CALLS_OF_LONG, MOST_LANES_LOG2, MOST_OF_THREAD, groups_in_registers, longer,
    most_groups,
};
use crate::expr::program::clusters::MOST_LANES_OF_CLUSTER_LOG2;
use crate::expr::program::lower::Reducing;
use crate::expr::program::{Form, GROUP};

/// The 4-byte words of a row that a cluster has in registers at most.
const MOST_CLUSTER_WORDS: usize = MOST_OF_THREAD << MOST_LANES_OF_CLUSTER_LOG2;

/// The most numbers of a row: each has 8 bytes for each warp of the most threads, 2 KB of the 48 that a kernel has by itself.
const MOST_NUMBERS_OF_CLUSTER: usize = 24;

/// The rows beyond the [longest](LONG_ROW) that the blocks of clusters share: fewer go by several kernels, which are as quick there
/// (softmax of one row of 128,256 `f32` on an H200 takes 7.1 µs either way, of 16 rows 13.4 for 14.2), and keep a GPU without clusters
/// busy, of which each row has one block.
const FEW_ROWS: usize = 16;

/// The longest of so many rows that the blocks of a cluster share.
pub(in crate::expr) fn longest_of_cluster(rows: usize) -> usize {
    match rows {
        ..FEW_ROWS => LONG_ROW,
        _ => MOST_CLUSTER_WORDS,
    }
}

/// The form of rows that a cluster of blocks has room for in registers, but no block: its threads follow from the length and from what
/// is computed, so that what is combined with what is the same on GPUs without clusters, which read most of a row in each pass.
pub(super) fn by_cluster(reducing: &Reducing<'_, '_>) -> Option<Form> {
    if !shares_rows(reducing.row_len(), reducing.bytes()) {
        return None;
    }
    let all = reducing.row_len().div_ceil(GROUP);
    let many = groups_in_registers(reducing, MOST_CALLS_OF_LONG);
    let lanes = all.div_ceil(many).next_power_of_two().max(2 << MOST_LANES_LOG2);
    let lanes_log2 = lanes.trailing_zeros() as u8;
    let has_room = many * GROUP * reducing.words().kept <= MOST_OF_THREAD;
    let has_place = lanes_log2 <= MOST_LANES_OF_CLUSTER_LOG2 && reducing.numbers() <= MOST_NUMBERS_OF_CLUSTER;
    if !has_place || !has_room || is_of_block(reducing, many) {
        return None;
    }
    let held = all.div_ceil(lanes);
    if reducing.has_clusters() {
        return Some(Form::Rows {
            lanes_log2,
            held: held as u8,
            looped: 0,
        });
    }
    // The first of the blocks that one stands for, where that is a part that counts.
    let is_much = 4 * ((held * GROUP) << MOST_LANES_LOG2) >= reducing.row_len();
    Some(Form::Rows {
        lanes_log2,
        held: if is_much { held as u8 } else { 0 },
        looped: match is_much {
            true => 1,
            false => GROUPS.min(most_groups(reducing, MOST_CALLS)).min(held) as u8,
        },
    })
}

/// Whether one block with the row in its shared memory takes less time, since threads have so few groups: fewer than they have registers
/// for, for each element calls many functions. On an H200 the gradient of cross-entropy takes 736 µs for 825 of 8192 rows of 32,000
/// `f32`, and 589 for 818 of 4096 of 50,304; a layer norm of 2048 rows of 32,768 `bf16` 104.9 for 111.5. Of short elements, no part of
/// which is in registers, rows are read in loops, by which that gradient takes 704 for 679.
fn is_of_block(reducing: &Reducing<'_, '_>, groups: usize) -> bool {
    let is_full = groups == groups_in_registers(reducing, usize::MAX);
    let is_stashed = reducing.reads_words() || !matches!(longer(reducing), Form::Rows { held: 0, .. });
    !is_full && is_stashed && reducing.row_len() <= LONG_ROW
}

/// Whether a cluster takes less time for rows of that length, of which an element has so many bytes: those of no whole groups are read
/// by single elements, which gains only where those are short (softmax of rows of 65,537 on an H200: of `f32` 430 µs for 357 by two
/// passes in loops, of `bf16` 270 for 281; of 50,257 349 for 377, and 240 for 290).
pub(in crate::expr) fn shares_rows(len: usize, bytes: usize) -> bool {
    len.is_multiple_of(GROUP) || bytes <= 2
}
