// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers.

use cuda_std::prelude::*;
use cuda_std::random::{Philox4x32, bounded_u32, bounded_u64, normal_f32, normal_f64, uniform_f32, uniform_f64};

/// The blocks of these numbers, four words each.
#[kernel]
pub fn blocks(random: Philox4x32, numbers: &[u64], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < numbers.len() {
        for (k, word) in random.block(numbers[i]).into_iter().enumerate() {
            out.set(4 * i + k, word);
        }
    }
}

/// How many results [`made_of`] has.
pub const RESULTS: usize = 8;

/// The bits of everything that is made of four words.
pub fn made_of(words: [u32; 4]) -> [u64; RESULTS] {
    let [a, b, c, d] = words;
    let [x, y] = normal_f32([a, b], 0.5, 2.0);
    let [z, w] = normal_f64(words, 0.5, 2.0);
    [
        uniform_f32(a).to_bits().into(),
        uniform_f64([a, b]).to_bits(),
        x.to_bits().into(),
        y.to_bits().into(),
        z.to_bits(),
        w.to_bits(),
        bounded_u32([a, b], c).into(),
        bounded_u64(words, u64::from(c) << 32 | u64::from(d)),
    ]
}

/// What is made of each four words.
#[kernel]
pub fn made(words: &[u32], out: SliceMut<'_, u64>) {
    let i = thread::index_1d();
    if 4 * i + 3 < words.len() {
        let results = made_of(cuda_std::array::from_fn(|k| words[4 * i + k]));
        for (k, result) in results.into_iter().enumerate() {
            out.set(RESULTS * i + k, result);
        }
    }
}
