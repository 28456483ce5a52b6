// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two kinds of products that attention on ordinary cores is made of, through shared memory.

use cuda_std::hint;
use cuda_std::prelude::*;

use super::{
    CHUNK, KEYS, LANE_KEYS, LANE_ROWS, PITCH, ROWS, STAGE, STAGES, THREADS, VALUES, WARP_ROWS, WEIGHTS, max_dim,
};
use crate::attention::Sequence;
use crate::matmul::unroll;
use crate::num::Num;

/// Elements from a key's weights, for the queries of a warp, to the next one's.
const WEIGHTS_PITCH: usize = WARP_ROWS + 4;

const _: () = assert!(VALUES <= STAGE && ROWS == KEYS && ROWS == THREADS / 32 * WARP_ROWS);
const _: () = assert!(WEIGHTS == KEYS * WEIGHTS_PITCH);

/// Whether a stage's loads are under way while the one before is multiplied. Beside the longest results there are no registers for them.
const fn loads_ahead(columns: usize) -> bool {
    columns < 32
}

/// What a lane has of the scores of the block's lines with [`KEYS`] others.
pub(super) type Scores = [[f32; LANE_KEYS]; LANE_ROWS];

/// The lines of one head of an operand.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a, T> {
    elements: &'a [T],
    /// The first element.
    first: usize,
    /// Distances between lines, and along them.
    strides: [usize; 2],
    lines: u32,
    dim: u32,
    /// Whether four neighbours of a line are one access.
    wide: bool,
}

impl<'a, T: Num<Wide = f32>> Operand<'a, T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(elements: &'a [T], strides: [usize; 4], [batch, head]: [u32; 2], dim: u32) -> Self {
        let whole = |x: usize| x.is_multiple_of(4);
        let [of_batch, of_head, line, along] = strides;
        Self {
            elements,
            // In bounds, as `fits` asked; of a head without lines it may wrap around, and is not used.
            first: (batch as usize)
                .wrapping_mul(of_batch)
                .wrapping_add((head as usize).wrapping_mul(of_head)),
            strides: [line, along],
            lines: 0,
            dim,
            wide: along == 1
                && whole(line)
                && whole(of_head)
                && whole(of_batch)
                && dim.is_multiple_of(4)
                && elements.is_vec_aligned::<4>(),
        }
    }

    /// The lines of the queries of a sequence.
    #[inline(always)]
    pub(super) fn of_queries(self, sequence: &Sequence) -> Self {
        self.of_lines(sequence.first_query, sequence.queries)
    }

    /// The lines of the keys of a sequence.
    #[inline(always)]
    pub(super) fn of_keys(self, sequence: &Sequence) -> Self {
        self.of_lines(sequence.first_key, sequence.keys)
    }

    /// So many lines, from one on.
    #[inline(always)]
    fn of_lines(self, line: u32, lines: u32) -> Self {
        Self {
            first: self.first.wrapping_add((line as usize).wrapping_mul(self.strides[0])),
            lines,
            ..self
        }
    }

    /// Four neighbours of a line, from `at` on, which is a multiple of 4; zeros where there is none.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load(&self, line: u32, at: u32) -> [f32; 4] {
        if line >= self.lines || at >= self.dim {
            return [0.0; 4];
        }
        let [of_line, along] = self.strides;
        let index = self.first + line as usize * of_line + at as usize * along;
        // SAFETY (of both): the line and the places in it are the operand's, which `fits` found to lie in `elements`. A wide one has a
        // multiple of four of them side by side, and all offsets are multiples of four, as the array's start is aligned.
        if self.wide {
            let [a, b, c, d] = unsafe { self.elements.load_vec_unchecked::<4>(index) };
            return [a.widen(), b.widen(), c.widen(), d.widen()];
        }
        let element = |i: usize| {
            if at + (i as u32) < self.dim {
                let [element] = unsafe { self.elements.load_vec_unchecked::<1>(index + i * along) };
                element.widen()
            } else {
                0.0
            }
        };
        [element(0), element(1), element(2), element(3)]
    }
}

/// An operand of which all but its elements is in shared memory: there are no registers for it beside the products.
#[derive(Clone, Copy)]
pub(super) struct KeptOperand<'a, T> {
    elements: &'a [T],
    words: Shared<u32>,
    at: usize,
}

impl<'a, T: Num<Wide = f32>> KeptOperand<'a, T> {
    /// Words of an operand.
    pub(super) const WORDS: usize = 8;

    /// Beside the length of a line, which is less: that four neighbours of it are one access.
    const WIDE: u32 = 1 << 31;

    /// Keeps operands in [`WORDS`](Self::WORDS) words each, those of the present ones, which are all threads' then.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn keep<const N: usize>(words: Shared<u32>, operands: [Operand<'a, T>; N]) -> [Self; N] {
        let halves = |x: usize| [x as u32, (x as u64 >> 32) as u32];
        // Those before have been read.
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            for (i, operand) in operands.iter().enumerate() {
                let ([a, b], [c, d]) = (halves(operand.first), halves(operand.strides[0]));
                let [e, f] = halves(operand.strides[1]);
                let dim = operand.dim | if operand.wide { Self::WIDE } else { 0 };
                // SAFETY (of both): there are as many words, at multiples of 4.
                unsafe {
                    words.set_vec_unchecked(i * Self::WORDS, [a, b, c, d]);
                    words.set_vec_unchecked(i * Self::WORDS + 4, [e, f, operand.lines, dim]);
                }
            }
        }
        thread::sync_threads();
        cuda_std::array::from_fn(|i| Self {
            elements: operands[i].elements,
            words,
            at: i * Self::WORDS,
        })
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn get(&self) -> Operand<'a, T> {
        // SAFETY (of both): as in `keep`.
        let [a, b, c, d] = unsafe { self.words.get_vec_unchecked(self.at) };
        let [e, f, lines, dim] = unsafe { self.words.get_vec_unchecked(self.at + 4) };
        let whole = |low: u32, high: u32| (u64::from(high) << 32 | u64::from(low)) as usize;
        Operand {
            elements: self.elements,
            first: whole(a, b),
            strides: [whole(c, d), whole(e, f)],
            lines,
            dim: dim & !Self::WIDE,
            wide: dim & Self::WIDE != 0,
        }
    }
}

/// The shared memory of a block: two stages, and the weights of the warps.
pub(super) struct Products {
    pub(super) shared: Shared<f32>,
    /// The stage that is written to next. Two stages and one barrier for each: who writes into a stage has passed the barrier behind
    /// its last reads.
    stage: usize,
}

impl Products {
    /// With as much memory as [`SHARED`](super::SHARED) says, or [`STAGES`](super::STAGES), where nothing is added with weights.
    #[inline(always)]
    pub(super) fn new(shared: Shared<f32>) -> Self {
        Self { shared, stage: 0 }
    }

    /// The first of the lane's lines among the block's.
    #[inline(always)]
    pub(super) fn lane_row() -> u32 {
        let t = thread::thread_idx_x();
        t / 32 * WARP_ROWS as u32 + t % 32 / 8 * LANE_ROWS as u32
    }

    /// Which of the others column `j` of the lane's scores is.
    #[inline(always)]
    pub(super) fn lane_key(j: usize) -> u32 {
        thread::thread_idx_x() % 8 * 4 + (j / 4 * 32 + j % 4) as u32
    }

    /// The lane's products of the block's lines of `own`, from `row` on, and those of `others` from `key` on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn scores<T: Num<Wide = f32>, const C: usize>(
        &mut self,
        dim: u32,
        lines: [(&KeptOperand<'_, T>, u32); 2],
    ) -> Scores {
        let x = (thread::thread_idx_x() % 8) as usize * 4;
        let row = Self::lane_row() as usize;
        let mut scores = [[0.0f32; LANE_KEYS]; LANE_ROWS];
        let mut next = [[[0.0; 4]; 2]; 2];
        if loads_ahead(C) {
            next = load_chunk(lines, 0);
        }
        let mut at = 0;
        while at < dim {
            if !loads_ahead(C) {
                next = load_chunk(lines, at);
            }
            self.store_chunk(next);
            thread::sync_threads();
            if loads_ahead(C) && at + (CHUNK as u32) < dim {
                next = load_chunk(lines, at + CHUNK as u32);
            }
            let mut line = self.stage;
            let end = line + hint::opaque((CHUNK * PITCH) as u32) as usize;
            while line < end {
                // With all steps written out all would be loaded for ahead, and registers run out.
                unroll!(4, _step => {
                    // SAFETY (of all): within the chunks of a stage, at multiples of 4.
                    let q: [f32; 4] = unsafe { self.shared.get_vec_unchecked(line + row) };
                    let of_k = line + CHUNK * PITCH + x;
                    let k: [[f32; 4]; 2] = unsafe {
                        [self.shared.get_vec_unchecked(of_k), self.shared.get_vec_unchecked(of_k + 32)]
                    };
                    unroll!(4, i => {
                        unroll!(8, j => {
                            scores[i][j] = Float::mul_add(q[i], k[j / 4][j % 4], scores[i][j]);
                        });
                    });
                    line += PITCH;
                });
            }
            self.stage = STAGE - self.stage;
            at += CHUNK as u32;
        }
        scores
    }

    /// Puts what [`load_chunk`] gave into a stage, with the lines side by side.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_chunk(&self, chunks: [[[f32; 4]; 2]; 2]) {
        unroll!(2, of => {
            unroll!(2, i => {
                let [line, part] = place_in_chunk(i as u32);
                let to = self.stage + (of * CHUNK + part as usize) * PITCH + line as usize;
                unroll!(4, j => {
                    // SAFETY: within the chunk: 16 lines of 64 and a rest.
                    unsafe { self.shared.set_unchecked(to + j * PITCH, chunks[of][i][j]) };
                });
            });
        });
    }

    /// The weights of this thread's warp.
    #[inline(always)]
    fn weights() -> usize {
        STAGES + (thread::thread_idx_x() / 32) as usize * WEIGHTS
    }

    /// Hands the weights to the other lanes of the warp. All threads have taken scores since they last added with weights.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn put_weights(&self, weights: &Scores) {
        let lane = (thread::thread_idx_x() % 32) as usize;
        let to = Self::weights() + lane / 8 * LANE_ROWS;
        unroll!(8, j => {
            let key = Self::lane_key(j) as usize;
            let column = [weights[0][j], weights[1][j], weights[2][j], weights[3][j]];
            // SAFETY: within the warp's weights, at a multiple of 4. What they were before, all lanes have read: barriers of the block
            // stand behind those reads.
            unsafe { self.shared.set_vec_unchecked(to + key * WEIGHTS_PITCH, column) };
        });
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Adds the lines of `values` from `key` on, those before `end`, times their weights.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn add<T: Num<Wide = f32>, const C: usize>(
        &mut self,
        sums: &mut [[f32; C]; LANE_ROWS],
        values: &KeptOperand<'_, T>,
        key: u32,
        end: u32,
    ) {
        let keys = VALUES / max_dim(C);
        let lane = (thread::thread_idx_x() % 32) as usize;
        let (weights, x) = (Self::weights() + lane / 8 * LANE_ROWS, lane % 8 * 4);
        let mut next = [[0.0; 4]; VALUES / 4 / THREADS];
        if loads_ahead(C) {
            next = load_values::<T, C>(values, key);
        }
        let mut at = 0;
        while at < KEYS && key + (at as u32) < end {
            if !loads_ahead(C) {
                next = load_values::<T, C>(values, key + at as u32);
            }
            self.store_values::<C>(next);
            thread::sync_threads();
            if loads_ahead(C) && at + keys < KEYS {
                next = load_values::<T, C>(values, key + (at + keys) as u32);
            }
            let (mut of_weights, mut line) = (weights + at * WEIGHTS_PITCH, self.stage + x);
            let end = line + hint::opaque(VALUES as u32) as usize;
            while line < end {
                // With all steps written out all would be loaded for ahead, and registers run out.
                unroll!(4, _step => {
                    // SAFETY (of both): within the warp's weights, and the values of a stage, at multiples of 4.
                    let weight: [f32; LANE_ROWS] = unsafe { self.shared.get_vec_unchecked(of_weights) };
                    unroll!(C / 4, part => {
                        let value: [f32; 4] = unsafe { self.shared.get_vec_unchecked(line + part * 32) };
                        add_products(sums, part * 4, weight, value);
                    });
                    of_weights += WEIGHTS_PITCH;
                    line += max_dim(C);
                });
            }
            self.stage = STAGE - self.stage;
            at += keys;
        }
    }

    /// Puts lines of values into a stage.
    #[inline(always)]
    fn store_values<const C: usize>(&self, values: [[f32; 4]; VALUES / 4 / THREADS]) {
        unroll!(4, i => {
            let [line, part] = place_in_values::<C>(i as u32);
            let to = self.stage + line as usize * max_dim(C) + part as usize;
            // SAFETY: within the stage, at a multiple of 4.
            unsafe { self.shared.set_vec_unchecked(to, values[i]) };
        });
    }
}

/// Makes exponents of 2 of scores, those of the block's lines from `row` on with others from `at` on: by `factor`, with the elements of
/// `bias` added.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn add_bias<T: Num<Wide = f32>>(
    scores: &mut Scores,
    factor: f32,
    bias: &KeptOperand<'_, T>,
    (row, at): (u32, u32),
) {
    let bias = bias.get();
    unroll!(4, i => {
        let line = row + Products::lane_row() + i as u32;
        unroll!(2, part => {
            let four = bias.load(line, at + Products::lane_key(4 * part));
            unroll!(4, j => {
                let score = &mut scores[i][4 * part + j];
                *score = Float::mul_add(*score, factor, four[j] * core::f32::consts::LOG2_E);
            });
        });
    });
}

/// This thread's part of a chunk of two operands, from element `at` of their lines on.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load_chunk<T: Num<Wide = f32>>(lines: [(&KeptOperand<'_, T>, u32); 2], at: u32) -> [[[f32; 4]; 2]; 2] {
    let of = |(operand, first): (&KeptOperand<'_, T>, u32)| {
        let operand = operand.get();
        let part = |i: u32| {
            let [line, part] = place_in_chunk(i);
            operand.load(first + line, at + part)
        };
        [part(0), part(1)]
    };
    [of(lines[0]), of(lines[1])]
}

/// The line, and the place in it, of access `i` of the thread to a chunk.
#[inline(always)]
fn place_in_chunk(i: u32) -> [u32; 2] {
    let number = thread::thread_idx_x() + i * THREADS as u32;
    [number / (CHUNK as u32 / 4), number % (CHUNK as u32 / 4) * 4]
}

/// Adds the products of the lane's rows and of four columns, of which `first` is the first.
///
/// A function of its own since it has 16 lines, of which the compiler would look at 32 copies.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add_products<const C: usize>(
    sums: &mut [[f32; C]; LANE_ROWS],
    first: usize,
    rows: [f32; LANE_ROWS],
    columns: [f32; 4],
) {
    unroll!(4, i => {
        unroll!(4, j => {
            let sum = &mut sums[i][first + j];
            *sum = Float::mul_add(rows[i], columns[j], *sum);
        });
    });
}

/// This thread's part of the values from `key` on, as many as a stage has room for.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load_values<T: Num<Wide = f32>, const C: usize>(
    values: &KeptOperand<'_, T>,
    key: u32,
) -> [[f32; 4]; VALUES / 4 / THREADS] {
    let values = values.get();
    let load = |i: u32| {
        let [line, part] = place_in_values::<C>(i);
        values.load(key + line, part)
    };
    [load(0), load(1), load(2), load(3)]
}

/// The line, and the place in it, of access `i` of the thread to a chunk of values.
#[inline(always)]
fn place_in_values<const C: usize>(i: u32) -> [u32; 2] {
    let number = thread::thread_idx_x() + i * THREADS as u32;
    [number / (2 * C as u32), number % (2 * C as u32) * 4]
}

/// Stores the lane's part of a line of `dim` elements, which begins at `at`, times `factor`; zeros where there is none.
///
/// # Safety
///
/// The line is in `out`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn store<T: Num<Wide = f32>, const C: usize>(
    out: &SliceMut<'_, T>,
    (at, dim): (usize, usize),
    sums: &[f32; C],
    factor: Option<f32>,
) {
    let x = (thread::thread_idx_x() % 8) as usize * 4;
    let wide = dim.is_multiple_of(4) && out.is_vec_aligned::<4>();
    unroll!(C / 4, part => {
        let column = part * 32 + x;
        let value = |j: usize| T::narrow(factor.map_or(0.0, |factor| sums[part * 4 + j] * factor));
        let values = [value(0), value(1), value(2), value(3)];
        if wide && column < dim {
            // SAFETY: in the line, by the caller's promise, which has a multiple of four elements.
            unsafe { out.set_vec_unchecked(at + column, values) };
        } else {
            unroll!(4, j => {
                if column + j < dim {
                    // SAFETY: as above; a vector of one is aligned like its element.
                    unsafe { out.set_vec_unchecked(at + column + j, [values[j]]) };
                }
            });
        }
    });
}
