// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention of few queries to many keys on the tensor cores of Ampere and later, for numbers of 16 bits with head dimensions of 64 and 128.
//!
//! Of few keys most of the time is that of instructions that wait for one another, ahead of the first load and behind the last: so the host has
//! checked the operands, blocks find their place without a division, and addresses are sums of those before.
//!
//! All rows of a head of keys, up to [`ROWS`], are those of one matrix, so that keys and values are read once for all of them, by as many
//! instructions as for one. A warp takes 16 keys at a time, straight from memory to registers: in what order the elements of lines are
//! multiplied is free, so that a lane has 16 bytes side by side of a key where the instruction wants single words, and of values the columns that
//! it has 16 bytes of. Of these, two keys' elements are brought together in words by permutations of bytes.
//!
//! The weights are rounded to 16 bits as they are multiplied with values; the sums of weights are of what they were before.

use cuda_std::bits::byte_perm;
use cuda_std::half::{Packed, pack};
use cuda_std::mma::{Mma, mma};

use super::*;

/// Rows of a matrix.
pub const ROWS: usize = 16;

/// Threads of a wide block: where parts of keys for each multiprocessor would have to be brought together, so many have all of them.
pub const WIDE_THREADS: usize = 32 * MOST_WARPS;

/// Rows of a head of keys that a wide block may have.
pub const WIDE_ROWS: usize = ROWS / 2;

/// The most elements of a line.
const MOST_ELEMENTS: usize = 128;

/// Keys of a warp at a time.
const KEYS: u32 = 16;

/// Numbers of 16 bits.
pub trait Half: Num<Wide = f32> + Packed + Mma<A = [u32; 4], B = [u32; 2], C = [f32; 4]> {}

impl<T: Num<Wide = f32> + Packed + Mma<A = [u32; 4], B = [u32; 2], C = [f32; 4]>> Half for T {}

/// [`attention_decode`](fn@attention_decode) of `D` elements a line, for up to [`ROWS`] rows of a head of keys.
///
/// All is as there, but that nothing is checked here: that took as long as to load the keys of a short part.
///
/// # Safety
///
/// A block has [`THREADS`] threads, or [`WIDE_THREADS`] where no more than [`WIDE_ROWS`] queries share a head of keys. The grid has three axes: the problems, their heads of keys, and the parts of `plan`, of which there is at least
/// one, with no more than 2³¹ keys in all. The shape is valid for tiles of one query, [`is_for_few`], has lines of `D` elements, and no more than
/// [`ROWS`] queries share a head of keys; `sequences` fit it. The lines of operands lie within them, without gaps, and begin at multiples of 16
/// bytes. `out` begins at such a one, and has room for as many lines as there are queries. With more parts than one, `parts` and `sums` do and have
/// so for each of them, in pairs for `sums`, and there is a counter for each problem and head of keys, in this order, which is 0, and which nobody
/// else uses until the launch has ended.
#[kernel(T = [bf16, f16], D = [64, 128], arch = "sm_80", max_threads = WIDE_THREADS, min_blocks = 1)]
pub unsafe fn attention_decode_tensor<T: Half, const D: usize>(
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
    // As it is: the compiler knows of these numbers now.
    let shape = AttentionShape {
        dim: D as u32,
        packed: 0,
        ..shape
    };
    // SAFETY: the kernel's contract.
    let place = unsafe { Place::of_all_rows(&shape, sequences, &plan) };
    let block = Block::<T, ROWS> {
        operands: cuda_std::array::map(operands, |(elements, strides)| Lines::new(elements, strides)),
        shape,
        place,
        lanes: 4,
        factor,
        shared: shared_array![f32; WARPS * ROWS * (MOST_ELEMENTS + 2)],
        pitch: D,
        warps: if thread::block_dim_x() as usize > THREADS {
            MOST_WARPS
        } else {
            WARPS
        },
    }
    .of_heads();
    let rows = Rows::<T, D>::of_block(&block);
    rows.share(&block);
    thread::sync_threads();
    block.finish(&plan, results);
}

/// What a lane has of two rows, the second of which is 8 behind the first: the greatest score, a part of the sum of weights, and sums of values.
struct Rows<T, const D: usize> {
    max: [f32; 2],
    sum: [f32; 2],
    /// Of 64 columns, 8 results of the instruction: number `t` has those of each 8 columns that are `t` behind the first.
    values: [[[f32; 4]; 8]; 2],
    of: core::marker::PhantomData<T>,
}

impl<T: Half, const D: usize> Rows<T, D> {
    /// Goes over the warp's keys.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_block(block: &Block<'_, T, ROWS>) -> Self {
        let lane = thread::thread_idx_x() % 32;
        let [first, last] = block.place.keys;
        let mut rows = Self {
            max: [f32::NEG_INFINITY; 2],
            sum: [0.0; 2],
            values: [[[0.0; 4]; 8]; 2],
            of: core::marker::PhantomData,
        };
        let mut key = first + thread::thread_idx_x() / 32 * KEYS;
        // Keys of all warps at a time.
        let step = block.warps() * KEYS as usize;
        let [_, of_keys, of_values] = &block.operands;
        // Where the lane's first elements are: what is behind them is a sum away, as each product with a distance of lines would take longer.
        let mut at_keys = of_keys.at(key + lane / 4, lane % 4 * 8);
        let mut at_values = of_values.at(key + lane % 4 * 2, lane / 4 * 8);
        let mut keys = load_keys::<T, D>(block, key, at_keys);
        let mut values = load_values::<T, D>(block, key, at_values);
        let (mut queries, mut ends) = ([[[0; 4]; 4]; 2], [0; 2]);
        unroll!(2, half => {
            // Mostly there are not that many.
            if half == 0 || block.height() > 8 {
                let row = lane / 4 + 8 * half as u32;
                let (head, query) = block.query(row);
                let of_head = block.operands[0].of_head(block.place.batch, head);
                unroll!(4, chunk => {
                    if chunk < D / 32 {
                        // SAFETY: by the kernel's contract the line is in the array, and it lies well.
                        queries[half][chunk] = words(unsafe { of_head.load(query, chunk as u32 * 32 + lane % 4 * 8) });
                    }
                });
                let end = block.place.sequence.end(query);
                ends[half] = if end < last { end } else { last };
            }
        });
        while key < last {
            // What is asked for next takes the registers of what has just been multiplied: so memory is never without something to do.
            let mut scores = Self::scores(block, key, &queries, &keys, ends);
            let next = key + step as u32;
            at_keys = of_keys.behind(at_keys, step);
            keys = load_keys::<T, D>(block, next, at_keys);
            rows.weigh(&mut scores);
            rows.add_values(&scores, &values);
            at_values = of_values.behind(at_values, step);
            values = load_values::<T, D>(block, next, at_values);
            key = next;
        }
        rows
    }

    /// Of [`KEYS`] keys from one on, of which those before the ends of the lane's two rows count.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn scores(
        block: &Block<'_, T, ROWS>,
        first: u32,
        queries: &[[[u32; 4]; 4]; 2],
        keys: &Elements,
        ends: [u32; 2],
    ) -> [[f32; 4]; 2] {
        let lane = thread::thread_idx_x() % 32;
        let mut scores = [[0.0; 4]; 2];
        unroll!(2, group => {
            unroll!(4, chunk => {
                if chunk < D / 32 {
                    let ([a, b], k) = ([queries[0][chunk], queries[1][chunk]], keys[group][chunk]);
                    scores[group] = mma::<T>([a[0], b[0], a[1], b[1]], [k[0], k[1]], scores[group]);
                    scores[group] = mma::<T>([a[2], b[2], a[3], b[3]], [k[2], k[3]], scores[group]);
                }
            });
            unroll!(4, i => {
                let key = first + 8 * group as u32 + lane % 4 * 2 + (i % 2) as u32;
                let score = scores[group][i] * block.factor;
                scores[group][i] = if key < ends[i / 2] { score } else { f32::NEG_INFINITY };
            });
        });
        scores
    }

    /// Adds values by the weights that scores have become.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add_values(&mut self, scores: &[[f32; 4]; 2], values: &Elements) {
        let pair = |group: usize, i: usize| pack::<T>(scores[group][i], scores[group][i + 1]);
        let weights = [pair(0, 0), pair(0, 2), pair(1, 0), pair(1, 2)];
        unroll!(2, chunk => {
            unroll!(8, t => {
                if chunk < D / 64 {
                    let selector = if t.is_multiple_of(2) { 0x5410 } else { 0x7632 };
                    let of_keys = |i: usize| byte_perm(values[chunk][i][t / 2], values[chunk][i + 1][t / 2], selector);
                    let sum = &mut self.values[chunk][t];
                    *sum = mma::<T>(weights, [of_keys(0), of_keys(2)], *sum);
                }
            });
        });
    }

    /// Makes weights of scores, and brings the sums to the new greatest scores.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn weigh(&mut self, scores: &mut [[f32; 4]; 2]) {
        let mut factors = [1.0; 2];
        unroll!(2, half => {
            let [a, b] = [scores[0][2 * half], scores[0][2 * half + 1]];
            let [c, d] = [scores[1][2 * half], scores[1][2 * half + 1]];
            let most = Float::maximum_number(Float::maximum_number(a, b), Float::maximum_number(c, d));
            let most = Float::maximum_number(most, warp::shuffle_xor(warp::FULL_MASK, most, 1));
            let most = Float::maximum_number(most, warp::shuffle_xor(warp::FULL_MASK, most, 2));
            let (max, [old, a, b, c, d]) = common_with(Float::maximum_number(self.max[half], most), [
                self.max[half],
                a,
                b,
                c,
                d,
            ]);
            [scores[0][2 * half], scores[0][2 * half + 1]] = [a, b];
            [scores[1][2 * half], scores[1][2 * half + 1]] = [c, d];
            self.max[half] = max;
            self.sum[half] = Float::mul_add(self.sum[half], old, (a + b) + (c + d));
            factors[half] = old;
        });
        // Seldom, and for the whole warp.
        if warp::any(warp::FULL_MASK, factors[0] != 1.0 || factors[1] != 1.0) {
            unroll!(2, chunk => {
                unroll!(8, t => {
                    unroll!(4, i => {
                        self.values[chunk][t][i] *= factors[i / 2];
                    });
                });
            });
        }
    }

    /// Puts the warp's rows into shared memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn share(&self, block: &Block<'_, T, ROWS>) {
        let lane = thread::thread_idx_x() as usize % 32;
        unroll!(2, half => {
            if half == 0 || block.height() > 8 {
                let (of_values, at) = block.places(thread::thread_idx_x() as usize / 32, lane / 4 + 8 * half);
                let sum = self.sum[half];
                let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
                let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 2);
                // SAFETY (of all): there is room for each row of each warp, at multiples of 4.
                if lane.is_multiple_of(4) {
                    unsafe {
                        block.shared.set_unchecked(at, self.max[half]);
                        block.shared.set_unchecked(at + 1, sum);
                    }
                }
                unroll!(2, chunk => {
                    unroll!(4, part => {
                        if chunk < D / 64 {
                            // Columns 8 · (2 · lane + part / 2) on, of which each instruction has one.
                            let values = &self.values[chunk];
                            let value = |i: usize| values[part % 2 * 4 + i][2 * half + part / 2];
                            let column = 64 * chunk + 16 * (lane % 4) + 4 * part;
                            let four = [value(0), value(1), value(2), value(3)];
                            unsafe { block.shared.set_vec_unchecked(of_values + column, four) };
                        }
                    });
                });
            }
        });
    }
}

/// Of [`KEYS`] keys or values, a lane's words.
type Elements = [[[u32; 4]; 4]; 2];

/// The lane's elements of a line of keys or values from number `at` on, 0 beyond the block's last line.
#[inline(always)]
fn load<T: Half>(block: &Block<'_, T, ROWS>, of: usize, line: u32, at: usize) -> [u32; 4] {
    if line >= block.place.keys[1] {
        return [0; 4];
    }
    // SAFETY: by the kernel's contract the line is in the array, and it lies well.
    words(unsafe { block.operands[of].elements.load_vec_unchecked(at) })
}

/// [`KEYS`] keys from one on: by group of 8, chunks of 32 elements.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load_keys<T: Half, const D: usize>(block: &Block<'_, T, ROWS>, first: u32, at: usize) -> Elements {
    let lane = thread::thread_idx_x() % 32;
    let mut keys = [[[0; 4]; 4]; 2];
    unroll!(2, group => {
        unroll!(4, chunk => {
            if chunk < D / 32 {
                let key = first + 8 * group as u32 + lane / 4;
                let at = block.operands[1].behind(at, 8 * group) + chunk * 32;
                keys[group][chunk] = load(block, 1, key, at);
            }
        });
    });
    keys
}

/// Their values: by chunk of 64 elements, the lane's keys.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load_values<T: Half, const D: usize>(block: &Block<'_, T, ROWS>, first: u32, at: usize) -> Elements {
    let lane = thread::thread_idx_x() % 32;
    let mut values = [[[0; 4]; 4]; 2];
    unroll!(2, chunk => {
        unroll!(4, i => {
            if chunk < D / 64 {
                let key = first + lane % 4 * 2 + (i % 2 + i / 2 * 8) as u32;
                let at = block.operands[2].behind(at, i % 2 + i / 2 * 8) + chunk * 64;
                values[chunk][i] = load(block, 2, key, at);
            }
        });
    });
    values
}

/// A lane's elements as words.
#[inline(always)]
fn words<T: Num>(elements: [T; ELEMENTS]) -> [u32; 4] {
    let [a, b, c, d, e, f, g, h] = elements;
    let word = |pair: [T; 2]| bytemuck::cast(pair);
    [word([a, b]), word([c, d]), word([e, f]), word([g, h])]
}
