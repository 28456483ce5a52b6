// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention of few queries to many keys, at the speed of memory: a step of decoding.
//!
//! Keys are divided among blocks, as in Flash-Decoding (T. Dao, D. Haziza, F. Massa, G. Sizov, 2023). A block has up to `G` *rows* of a
//! head of keys, that is queries of all heads that share it, so that their keys and values are read once for all of these, and a part of
//! the keys. Nothing goes through shared memory: 8, 16 or 32 lanes have a key, 8 elements each, and a part of each row's sums; four loads of
//! 16 bytes of keys and as many of values are in flight. Each group of lanes keeps greatest score and sums for itself, and groups, then
//! warps, are brought together in the end. The last block to come does as much for the parts of the keys.
//!
//! Sums are in a fixed order, by fused multiply-add: the same bits each time.

use cuda_std::float::approximate;
use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::tiled::{AttentionStrides, fits};
use super::{AttentionShape, Lines as Of, Sequence, base};
use crate::matmul::unroll;
use crate::num::Num;

mod parts;
pub mod tensor;

/// Threads of a block.
pub const THREADS: usize = 128;

/// Elements of a lane.
pub const ELEMENTS: usize = 8;

/// The greatest head dimension.
pub const MAX_DIM: usize = 32 * ELEMENTS;

/// The most rows of a block: each is brought together by a warp.
pub const MOST_ROWS: usize = 4;

/// Warps of a block.
const WARPS: usize = THREADS / 32;

const _: () = assert!(MOST_ROWS <= WARPS);

/// The most warps of a block on tensor cores.
const MOST_WARPS: usize = 2 * WARPS;

/// Loads of keys that are in flight: 64 bytes of a lane.
const fn loads(element: usize) -> usize {
    if element == 4 { 2 } else { 4 }
}

/// Blocks of so many rows that a multiprocessor holds at a time at least: 128 registers a thread, or 168.
const fn blocks(rows: usize) -> usize {
    if rows == 1 { 4 } else { 3 }
}

/// The most loads.
const MOST_LOADS: usize = 4;

/// How the keys are divided that the queries of a problem see.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct DecodePlan {
    /// Parts.
    pub parts: u32,
    /// Keys of a part; of the last one, those that are left.
    pub keys: u32,
}

/// Whether keys lie so that a lane's elements of one are whole accesses: lines without gaps, at multiples of 8 elements.
#[inline(always)]
fn lie_well<T: Num>(elements: &[T], strides: [usize; 4], dim: u32) -> bool {
    let [batch, head, line, along] = strides;
    along == 1
        && [batch, head, line].iter().all(|stride| stride.is_multiple_of(ELEMENTS))
        && (dim as usize).is_multiple_of(ELEMENTS)
        && elements.is_vec_aligned::<ELEMENTS>()
}

/// [`attention`](super::tiled::attention()) of up to [`MAX_DIM`] elements a line, by parts of the keys.
///
/// `out` and `log_sums` are as there. With more parts than one, the sums of each go to `parts` first, in f32, one part after another, and
/// its greatest exponents of 2 and sums of weights, in pairs, to `sums`; of the blocks that have the same rows the last one to come brings
/// the parts together. There is a counter for each such group of blocks, which is 0, and is 0 again in the end. With one part, none of
/// these is used.
///
/// `sequences` are none, or say how many keys each problem has. Where several queries of a head see other first keys each, or sequences are
/// packed, nothing is written. The grid has one axis, with a block for each `G` rows of a head of keys, or fewer, and each part. Where operands do not lie within their
/// arrays, or lines do not begin at multiples of 16 bytes, nothing is written.
#[kernel(T = [f32, bf16, f16], G = [1, 4], max_threads = THREADS, min_blocks = blocks(G))]
pub fn attention_decode<T: Num<Wide = f32>, const G: usize>(
    q: &[T],
    k: &[T],
    v: &[T],
    sequences: &[u32],
    out: SliceMut<'_, T>,
    log_sums: SliceMut<'_, f32>,
    parts: SliceMut<'_, f32>,
    sums: SliceMut<'_, f32>,
    counters: SliceMut<'_, u32>,
    shape: AttentionShape,
    strides: AttentionStrides,
    plan: DecodePlan,
    factor: f32,
) {
    let operands = [(q, strides.q), (k, strides.k), (v, strides.v)];
    let results = Results {
        out,
        log_sums,
        parts,
        sums,
        counters,
    };
    if !fits_launch(&shape, &strides, operands, sequences) || !results.fit(&shape, &plan) {
        return;
    }
    // SAFETY: as just asked.
    let Some(place) = (unsafe { Place::of_block(&shape, sequences, &plan, G as u32) }) else {
        return;
    };
    let shared = shared_array![f32; WARPS * MOST_ROWS * (MAX_DIM + 2)];
    let lanes = match shape.dim {
        ..=64 => 8,
        65..=128 => 16,
        _ => 32,
    };
    let block = Block::<T, G> {
        operands: cuda_std::array::map(operands, |(elements, strides)| Lines::new(elements, strides)),
        shape,
        place,
        lanes,
        factor,
        shared,
        pitch: MAX_DIM,
        warps: WARPS,
    }
    .of_heads();
    let rows = block.rows();
    block.share(rows);
    thread::sync_threads();
    block.finish(&plan, results);
}

/// Whether operands and sequences are as the kernels want them, and the block is.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn fits_launch<T: Num>(
    shape: &AttentionShape,
    strides: &AttentionStrides,
    operands: [(&[T], [usize; 4]); 3],
    sequences: &[u32],
) -> bool {
    let [q, k, v] = cuda_std::array::map(operands, |(elements, _)| elements.len());
    thread::block_dim_x() as usize == THREADS
        && shape.is_valid(1)
        && shape.dim as usize <= MAX_DIM
        && fits(shape, strides, [q, k, v, usize::MAX])
        && is_for_few(shape)
        && shape.fits_sequences(sequences)
        && lie_well(operands[0].0, operands[0].1, shape.dim)
        && lie_well(operands[1].0, operands[1].1, shape.dim)
        && lie_well(operands[2].0, operands[2].1, shape.dim)
}

/// Where results go, and those of parts before.
#[derive(Clone, Copy)]
struct Results<'a, T> {
    out: SliceMut<'a, T>,
    log_sums: SliceMut<'a, f32>,
    parts: SliceMut<'a, f32>,
    sums: SliceMut<'a, f32>,
    counters: SliceMut<'a, u32>,
}

impl<T: Num> Results<'_, T> {
    /// Whether there is room for the results, and for those of parts, if there are several.
    #[inline(always)]
    fn fit(&self, shape: &AttentionShape, plan: &DecodePlan) -> bool {
        let of_parts = || {
            has_room(shape, plan.parts, self.parts.len(), self.sums.len() / 2)
                && self.parts.is_vec_aligned::<ELEMENTS>()
                && self.sums.is_vec_aligned::<2>()
        };
        has_room(shape, 1, self.out.len(), usize::MAX)
            && self.out.is_vec_aligned::<ELEMENTS>()
            && (plan.parts <= 1 || of_parts())
    }
}

/// Whether the kernel is for such a shape: sequences are not packed, and all queries of a head see its first key, or there is one of them.
#[inline(always)]
pub fn is_for_few(shape: &AttentionShape) -> bool {
    let all_see_first = (shape.queries as i32).wrapping_add(shape.from) <= 0;
    shape.packed == 0 && (shape.queries <= 1 || all_see_first)
}

/// Queries in all heads.
#[inline(always)]
fn lines(shape: &AttentionShape) -> usize {
    (shape.batch * shape.heads) as usize * shape.queries as usize
}

/// Whether there is room for so many results of all queries, of so many elements and pairs of sums.
#[inline(always)]
fn has_room(shape: &AttentionShape, parts: u32, elements: usize, sums: usize) -> bool {
    let lines = lines(shape).checked_mul(parts as usize);
    lines.is_some_and(|lines| {
        lines <= sums
            && lines
                .checked_mul(shape.dim as usize)
                .is_some_and(|product| product <= elements)
    })
}

/// What a block computes.
#[derive(Clone, Copy)]
struct Place {
    batch: u32,
    key_head: u32,
    /// The first of its rows, and how many rows the head of keys has.
    row: u32,
    rows: u32,
    /// What belongs together, the block's keys of it, and the number of the part.
    sequence: Sequence,
    keys: [u32; 2],
    part: u32,
    /// The number of the blocks that have the same rows, among all such groups.
    group: usize,
}

impl Place {
    /// That of this block, if there is one: those that have the same keys one after another.
    ///
    /// # Safety
    ///
    /// [`fits_sequences`](AttentionShape::fits_sequences).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn of_block(
        shape: &AttentionShape,
        sequences: &[u32],
        plan: &DecodePlan,
        rows_of_block: u32,
    ) -> Option<Self> {
        let (rows, key_heads) = (shape.queries * shape.sharing, shape.key_head(shape.heads));
        let divide = |a: u32, b: u32| Some((a.checked_div(b)?, a.checked_rem(b)?));
        let blocks = rows.div_ceil(rows_of_block);
        let (number, block) = divide(thread::block_idx_x(), blocks)?;
        let (head, part) = divide(number, plan.parts)?;
        let (batch, key_head) = divide(head, key_heads)?;
        if batch >= shape.batch {
            return None;
        }
        // SAFETY: the caller's promise.
        let (sequence, _) = unsafe { shape.sequence(sequences, Of::Queries, batch, (0, 1))? };
        let first = part.checked_mul(plan.keys)?.checked_add(sequence.begin(0))?;
        let end = first.checked_add(plan.keys)?;
        let keys = sequence.keys;
        Some(Self {
            batch,
            key_head,
            row: block * rows_of_block,
            rows,
            sequence,
            keys: [first, if end < keys { end } else { keys }],
            part,
            group: head as usize * blocks as usize + block as usize,
        })
    }

    /// That of this block of a grid of three axes, which takes no division: the problems, the heads of keys, of which a block has all rows, and
    /// the parts.
    ///
    /// # Safety
    ///
    /// [`fits_sequences`](AttentionShape::fits_sequences).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn of_all_rows(shape: &AttentionShape, sequences: &[u32], plan: &DecodePlan) -> Self {
        let (batch, key_head, part) = (thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z());
        // SAFETY: the caller's promise.
        let sequence = match unsafe { shape.sequence(sequences, Of::Queries, batch, (0, 1)) } {
            Some((sequence, _)) => sequence,
            // There is one where none are packed.
            None => shape.whole(),
        };
        let first = part * plan.keys + sequence.begin(0);
        let (end, keys) = (first + plan.keys, sequence.keys);
        Self {
            batch,
            key_head,
            row: 0,
            rows: shape.queries * shape.sharing,
            sequence,
            keys: [first, if end < keys { end } else { keys }],
            part,
            group: (batch * thread::grid_dim_y() + key_head) as usize,
        }
    }
}

/// The lines of an operand, or of a head of it.
#[derive(Clone, Copy)]
struct Lines<'a, T> {
    elements: &'a [T],
    strides: [usize; 4],
    /// The first element.
    first: usize,
}

impl<'a, T: Num> Lines<'a, T> {
    #[inline(always)]
    fn new(elements: &'a [T], strides: [usize; 4]) -> Self {
        Self {
            elements,
            strides,
            first: 0,
        }
    }

    /// Those of a head.
    #[inline(always)]
    fn of_head(self, batch: u32, head: u32) -> Self {
        let [of_batch, of_head, ..] = self.strides;
        // Of an operand without lines it may wrap around, and is not used.
        let first = (batch as usize)
            .wrapping_mul(of_batch)
            .wrapping_add((head as usize).wrapping_mul(of_head));
        Self { first, ..self }
    }

    /// The number of an element of a line. Of a line that is not there it may wrap around.
    #[inline(always)]
    fn at(&self, line: u32, column: u32) -> usize {
        self.behind(self.first.wrapping_add(column as usize), line as usize)
    }

    /// The number of the element that is so many lines behind that one.
    #[inline(always)]
    fn behind(&self, at: usize, lines: usize) -> usize {
        at.wrapping_add(lines.wrapping_mul(self.strides[2]))
    }

    /// Elements of a line, from `column` on.
    ///
    /// # Safety
    ///
    /// There are as many, and they lie well.
    #[inline(always)]
    unsafe fn load(&self, line: u32, column: u32) -> [T; ELEMENTS] {
        let at = self.first + line as usize * self.strides[2] + column as usize;
        // SAFETY: the caller's promise.
        unsafe { self.elements.load_vec_unchecked(at) }
    }
}

/// What a lane has of a row: the greatest score, the sum of weights, and of its elements the sums of weighted values.
#[derive(Clone, Copy)]
struct Sums {
    max: f32,
    sum: f32,
    values: [f32; ELEMENTS],
}

impl Sums {
    const NONE: Self = Self {
        max: f32::NEG_INFINITY,
        sum: 0.0,
        values: [0.0; ELEMENTS],
    };

    /// Those that the lane has whose number is this one's but for a bit. For whole warps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_lane(&self, bit: u32) -> Self {
        let of_lane = |x: f32| warp::shuffle_xor(warp::FULL_MASK, x, bit);
        Self {
            max: of_lane(self.max),
            sum: of_lane(self.sum),
            values: cuda_std::array::from_fn(|i| of_lane(self.values[i])),
        }
    }

    /// Adds those of several others at once, so that no exponential waits for another one.
    #[inline(always)]
    fn add_all<const N: usize>(&mut self, max: [f32; N], sum: [f32; N], values: [[f32; ELEMENTS]; N]) {
        let mut most = self.max;
        unroll!(8, n => {
            if n < N {
                most = Float::maximum_number(most, max[n]);
            }
        });
        let (_, [own]) = common_with(most, [self.max]);
        let (_, others) = common_with(most, max);
        self.max = most;
        self.sum *= own;
        unroll!(8, i => {
            self.values[i] *= own;
        });
        unroll!(8, n => {
            if n < N {
                self.sum = Float::mul_add(sum[n], others[n], self.sum);
                unroll!(8, i => {
                    self.values[i] = Float::mul_add(values[n][i], others[n], self.values[i]);
                });
            }
        });
    }

    /// Adds those of other keys.
    #[inline(always)]
    fn add(&mut self, other: Self) {
        let (max, [own, others]) = common([self.max, other.max]);
        self.max = max;
        self.sum = Float::mul_add(self.sum, own, other.sum * others);
        unroll!(8, i => {
            self.values[i] = Float::mul_add(self.values[i], own, other.values[i] * others);
        });
    }
}

/// The greatest of these scores, and by what the sums that belong to them are multiplied then.
#[inline(always)]
fn common<const N: usize>(scores: [f32; N]) -> (f32, [f32; N]) {
    let (mut max, mut i) = (f32::NEG_INFINITY, 0);
    while i < N {
        max = Float::maximum_number(max, scores[i]);
        i += 1;
    }
    common_with(max, scores)
}

/// [`common`], where the greatest score is known.
#[inline(always)]
fn common_with<const N: usize>(max: f32, scores: [f32; N]) -> (f32, [f32; N]) {
    let base = base(max);
    (max, cuda_std::array::from_fn(|i| approximate::exp2(scores[i] - base)))
}

/// What the threads of a block have in common.
struct Block<'a, T, const G: usize> {
    /// Queries, keys and values: the latter of the block's head.
    operands: [Lines<'a, T>; 3],
    shape: AttentionShape,
    place: Place,
    /// How many lanes have a key: a power of 2.
    lanes: u32,
    factor: f32,
    /// Sums of values of each row of each warp, so many elements apart, then the greatest scores and the sums of weights.
    shared: Shared<f32>,
    pitch: usize,
    /// Warps of a block on tensor cores; others have [`WARPS`].
    warps: usize,
}

impl<T: Num<Wide = f32>, const G: usize> Block<'_, T, G> {
    /// Its warps.
    #[inline(always)]
    fn warps(&self) -> usize {
        if G > MOST_ROWS { self.warps } else { WARPS }
    }

    /// With keys and values of the block's head.
    #[inline(always)]
    fn of_heads(self) -> Self {
        let [q, k, v] = self.operands;
        let of_head = |lines: Lines<'_, T>| lines.of_head(self.place.batch, self.place.key_head).first;
        let (of_k, of_v) = (of_head(k), of_head(v));
        Self {
            operands: [q, Lines { first: of_k, ..k }, Lines { first: of_v, ..v }],
            ..self
        }
    }

    /// The line of the query that is this row of the block, among all.
    #[inline(always)]
    fn line(&self, row: u32) -> usize {
        let (head, query) = self.query(row);
        let head = (self.place.batch * self.shape.heads + head) as usize;
        head * self.shape.queries as usize + query as usize
    }

    /// Where a row's sums of values of a warp are in shared memory, and where its greatest score and sum of weights are.
    #[inline(always)]
    fn places(&self, warp: usize, row: usize) -> (usize, usize) {
        // Of twice as many warps each has half as many rows.
        let rows = if self.warps() > WARPS { G / 2 } else { G };
        let number = warp * rows + row;
        (number * self.pitch, WARPS * G * self.pitch + 2 * number)
    }

    /// How many rows the block has.
    #[inline(always)]
    fn height(&self) -> u32 {
        let left = self.place.rows - self.place.row;
        if left < G as u32 { left } else { G as u32 }
    }

    /// The first element of this lane, and the number of its key among those of a load.
    #[inline(always)]
    fn place_of_lane(&self) -> (u32, u32) {
        let lane = thread::thread_idx_x() % 32;
        (
            lane % self.lanes * ELEMENTS as u32,
            lane.checked_div(self.lanes).unwrap_or(0),
        )
    }

    /// Head and query of a row of the block: of the last one, where there are not as many.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn query(&self, row: u32) -> (u32, u32) {
        let row = self.place.row + row;
        let row = if row < self.place.rows {
            row
        } else {
            self.place.rows - 1
        };
        let head = match self.shape.queries {
            // The commonest number: a division takes as long as what it is for.
            1 => row,
            queries => row.checked_div(queries).unwrap_or(0),
        };
        (
            self.place.key_head * self.shape.sharing + head,
            row - head * self.shape.queries,
        )
    }

    /// Goes over the warp's keys.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn rows(&self) -> [Sums; G] {
        let (column, slot) = self.place_of_lane();
        let inside = column < self.shape.dim;
        let [first, last] = self.place.keys;
        let (mut q, mut ends, mut end) = ([[0.0; ELEMENTS]; G], [0; G], first);
        unroll!(G; 4, g => {
            let (head, query) = self.query(g as u32);
            if inside {
                // SAFETY: `fits` found the line in the array, and it lies well.
                let elements = unsafe { self.operands[0].of_head(self.place.batch, head).load(query, column) };
                q[g] = cuda_std::array::from_fn(|i| elements[i].widen());
            }
            let visible = self.place.sequence.end(query);
            ends[g] = if visible < last { visible } else { last };
            end = if ends[g] > end { ends[g] } else { end };
        });
        let mut rows = [Sums::NONE; G];
        let step = loads(size_of::<T>()) as u32 * (32u32.checked_div(self.lanes).unwrap_or(1));
        let mut key = first + thread::thread_idx_x() / 32 * step;
        while key < end {
            self.add_keys(key + slot, (inside, column), &q, &ends, &mut rows);
            key += WARPS as u32 * step;
        }
        rows
    }

    /// Adds what the lane's keys of some loads, the first of which is `key`, add to the rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_keys(
        &self,
        key: u32,
        (inside, column): (bool, u32),
        q: &[[f32; ELEMENTS]; G],
        ends: &[u32; G],
        rows: &mut [Sums; G],
    ) {
        let mut keys = [[T::ZERO; ELEMENTS]; MOST_LOADS];
        let mut values = keys;
        let slots = 32u32.checked_div(self.lanes).unwrap_or(1);
        unroll!(MOST_LOADS; 4, n => {
            if n < loads(size_of::<T>()) {
            let key = key + n as u32 * slots;
            if inside && key < self.place.keys[1] {
                // SAFETY (of both): `fits` found the line in the array, and it lies well.
                keys[n] = unsafe { self.operands[1].load(key, column) };
                values[n] = unsafe { self.operands[2].load(key, column) };
            }
            }
        });
        let mut scores = [[f32::NEG_INFINITY; MOST_LOADS]; G];
        unroll!(MOST_LOADS; 4, n => {
            if n < loads(size_of::<T>()) {
            unroll!(G; 4, g => {
                let mut score = 0.0;
                unroll!(8, i => {
                    score = Float::mul_add(q[g][i], keys[n][i].widen(), score);
                });
                scores[g][n] = score;
            });
            }
        });
        self.sum_over_lanes(&mut scores, 1);
        self.sum_over_lanes(&mut scores, 2);
        self.sum_over_lanes(&mut scores, 4);
        if self.lanes > 8 {
            self.sum_over_lanes(&mut scores, 8);
        }
        if self.lanes > 16 {
            self.sum_over_lanes(&mut scores, 16);
        }
        unroll!(G; 4, g => {
            unroll!(4, n => {
                let is_seen = n < loads(size_of::<T>()) && key + n as u32 * slots < ends[g];
                scores[g][n] = if is_seen { scores[g][n] * self.factor } else { f32::NEG_INFINITY };
            });
            let [a, b, c, d] = scores[g];
            let (max, [old, weights @ ..]) = common([rows[g].max, a, b, c, d]);
            let [a, b, c, d] = weights;
            rows[g].max = max;
            rows[g].sum = Float::mul_add(rows[g].sum, old, (a + b) + (c + d));
            unroll!(8, i => {
                let mut value = rows[g].values[i] * old;
                unroll!(MOST_LOADS; 4, n => {
                    if n < loads(size_of::<T>()) {
                    value = Float::mul_add(weights[n], values[n][i].widen(), value);
                    }
                });
                rows[g].values[i] = value;
            });
        });
    }

    /// Adds the scores of the lanes that are so far away.
    #[inline(always)]
    fn sum_over_lanes(&self, scores: &mut [[f32; MOST_LOADS]; G], distance: u32) {
        unroll!(G; 4, g => {
            unroll!(MOST_LOADS; 4, n => {
                if n < loads(size_of::<T>()) {
                scores[g][n] += warp::shuffle_xor(warp::FULL_MASK, scores[g][n], distance);
                }
            });
        });
    }

    /// Brings the warp's groups of lanes together, and puts the rows into shared memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn share(&self, mut rows: [Sums; G]) {
        let mut distance = self.lanes;
        while distance < 32 {
            unroll!(G; 4, g => {
                rows[g].add(rows[g].of_lane(distance));
            });
            distance *= 2;
        }
        let (column, slot) = self.place_of_lane();
        if slot > 0 || column >= self.shape.dim {
            return;
        }
        unroll!(G; 4, g => {
            let (of_values, at) = self.places(thread::thread_idx_x() as usize / 32, g);
            // SAFETY (of all): there is room for each row of each warp.
            unsafe {
                self.shared.set_vec_unchecked(of_values + column as usize, rows[g].values);
                // The lanes have the same.
                if column == 0 {
                    self.shared.set_unchecked(at, rows[g].max);
                    self.shared.set_unchecked(at + 1, rows[g].sum);
                }
            }
        });
    }
}
