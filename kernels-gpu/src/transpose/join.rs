// SPDX-License-Identifier: MIT OR Apache-2.0
//! Short lines of two arrays side by side: 16 aligned bytes of the output at a time, of however many lines they are. A thread
//! finds the row of its first byte by a division with the constants of the plan, and goes on from there word by word, each
//! of which is of one line.

use cuda_std::prelude::*;

use super::plan::{Joined, Side};
use super::{CHUNK, STRIDED_THREADS};

/// 32-bit words of a chunk.
const WORDS: usize = CHUNK / 4;

/// Where the next word of a thread comes from.
struct Source {
    /// Its place in the row.
    at: u32,
    /// What the row's line of `x` begins with, and where the row would begin if that of `y` were all of it: numbers that
    /// wrap around.
    x: u64,
    y: u64,
}

impl Source {
    /// The place behind `bytes` bytes, which do not reach beyond the row.
    #[inline(always)]
    fn behind(self, bytes: u32, plan: &Joined) -> Self {
        let at = self.at + bytes;
        if at < plan.row.len() {
            return Self { at, ..self };
        }
        Self {
            at: 0,
            x: self.x.wrapping_add(plan.x.stride),
            y: self.y.wrapping_add(plan.y.stride),
        }
    }
}

/// Whether `bytes` has `rows` lines of `len` bytes there, at least one, of which all words of `W` bytes are aligned.
#[inline(always)]
fn has_lines<const W: usize>(bytes: &[u8], side: Side, len: u32, rows: u64) -> bool {
    let last = (rows - 1).checked_mul(side.stride);
    let end = last
        .and_then(|last| last.checked_add(side.first))
        .and_then(|last| last.checked_add(len.into()));
    let all = bytes.as_ptr().addr() as u64 | side.first | side.stride | u64::from(len);
    end.is_some_and(|end| end <= bytes.len() as u64) && all.is_multiple_of(W as u64)
}

/// Makes the chunk of this thread of such a block, in words of `W` bytes.
#[inline(always)]
fn copy_words<const W: usize>(x: &[u8], y: &[u8], plan: &Joined, out: SliceMut<'_, u8>, block: u32) {
    let (row, rows) = (plan.row.len(), u64::from(plan.rows));
    let total = rows * u64::from(row);
    if total == 0 || total >= 1 << 31 || plan.x_len >= row {
        return;
    }
    if !has_lines::<W>(x, plan.x, plan.x_len, rows) || !has_lines::<W>(y, plan.y, row - plan.x_len, rows) {
        return;
    }
    let has_room = plan.out_first <= out.len() as u64 && total <= out.len() as u64 - plan.out_first;
    let is_aligned = (out.as_ptr().addr() as u64 | plan.out_first).is_multiple_of(CHUNK as u64);
    let total = total as u32;
    let index = block
        .wrapping_mul(STRIDED_THREADS as u32)
        .wrapping_add(thread::thread_idx_x());
    if !has_room || !is_aligned || index >= total.div_ceil(CHUNK as u32) {
        return;
    }
    let first = index * CHUNK as u32;
    let (line, at) = plan.row.div_rem(first);
    // By the constants of a plan that is wrong it may be another: `line * row + at` is `first` of any, if these are so.
    if at >= row || line >= plan.rows {
        return;
    }
    let along = |side: Side| side.first.wrapping_add(u64::from(line).wrapping_mul(side.stride));
    let mut source = Source {
        at,
        x: along(plan.x),
        y: along(plan.y).wrapping_sub(plan.x_len.into()),
    };
    let mut chunk = [0; WORDS];
    let exists = |place: usize| first + (place + W) as u32 <= total;
    for k in 0..CHUNK / W {
        if exists(k * W) {
            let (bytes, line) = if source.at < plan.x_len {
                (x, source.x)
            } else {
                (y, source.y)
            };
            let at = line.wrapping_add(source.at.into()) as usize;
            // SAFETY: an aligned word of one line, as all lengths and distances are multiples of a word, and `has_lines` says
            // that the lines of all rows are in bounds.
            set(&mut chunk, k * W, unsafe { bytes.load_vec_unchecked::<W>(at) });
        }
        source = source.behind(W as u32, plan);
    }
    let place = plan.out_first as usize + first as usize;
    if exists(CHUNK - W) {
        // SAFETY: the row's bytes are in bounds of the output, where chunks are aligned.
        unsafe { out.set_vec_unchecked::<CHUNK>(place, bytemuck::cast(chunk.map(u32::to_le))) };
        return;
    }
    for k in 0..CHUNK / W {
        if exists(k * W) {
            // SAFETY: as above; a word of a chunk is aligned.
            unsafe { out.set_vec_unchecked::<W>(place + k * W, get(&chunk, k * W)) };
        }
    }
}

/// Sets the bytes of the chunk from `place` on, which were zero.
#[inline(always)]
fn set<const W: usize>(chunk: &mut [u32; WORDS], place: usize, bytes: [u8; W]) {
    for j in 0..W {
        chunk[(place + j) / 4] |= u32::from(bytes[j]) << (8 * ((place + j) % 4));
    }
}

/// The bytes of the chunk from `place` on.
#[inline(always)]
fn get<const W: usize>(chunk: &[u32; WORDS], place: usize) -> [u8; W] {
    cuda_std::array::from_fn(|j| (chunk[(place + j) / 4] >> (8 * ((place + j) % 4))) as u8)
}

/// Makes the chunk of this thread of such a block.
#[inline(always)]
pub(super) fn copy(x: &[u8], y: &[u8], plan: &Joined, out: SliceMut<'_, u8>, block: u32) {
    match plan.word {
        16 => copy_words::<16>(x, y, plan, out, block),
        4 => copy_words::<4>(x, y, plan, out, block),
        2 => copy_words::<2>(x, y, plan, out, block),
        _ => copy_words::<1>(x, y, plan, out, block),
    }
}
