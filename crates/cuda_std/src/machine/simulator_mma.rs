// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp on the simulated GPU: the lanes exchange what they have of A and B, and each computes its own
//! elements.

use cuda_sim::Lanes;
use half::{bf16, f16};

use crate::mma::{F64M16N8K8, Mma};

/// What all lanes have of A and B: `V` is a word, as the values that are multiplied, so that each is converted once.
struct Fragments<V>(Lanes<([V; 4], [V; 2])>);

impl<V: Copy + Default> Fragments<V> {
    #[track_caller]
    fn exchange(a: [u32; 4], b: [u32; 2], values: impl Fn(u32) -> V) -> Self {
        let given = (a.map(&values), b.map(&values));
        Self(cuda_sim::exchange("mma", u32::MAX, given))
    }

    /// Word `word` of the eight of a row of A: the four lanes that have the row have the first four, then the others. For
    /// two rows, eight apart, a lane has the words one behind the other.
    fn a(&self, row: u32, word: u32) -> V {
        let given = self.0.get(row % 8 * 4 + word % 4).unwrap_or_default();
        given.0[(word / 4 * 2 + row / 8) as usize]
    }

    /// Word `word` of the eight of a column of B.
    fn b(&self, word: u32, column: u32) -> V {
        let given = self.0.get(column * 4 + word % 4).unwrap_or_default();
        given.1[(word / 4) as usize]
    }

    /// Adds to the lane's elements: a row of A and a column of B have eight words each.
    fn add_to(&self, mut c: [f32; 4], product: impl Fn(V, V) -> f32) -> [f32; 4] {
        let lane = cuda_sim::lane();
        for (i, c) in (0..).zip(&mut c) {
            let (row, column) = bf16::place_c(lane, i);
            for word in 0..8 {
                *c += product(self.a(row, word), self.b(word, column));
            }
        }
        c
    }
}

/// The sum of the two products of the elements in a word.
fn dot(a: [f32; 2], b: [f32; 2]) -> f32 {
    a[0] * b[0] + a[1] * b[1]
}

/// The two elements in a word.
fn both(word: u32, value: impl Fn(u16) -> f32) -> [f32; 2] {
    [value(word as u16), value((word >> 16) as u16)]
}

#[track_caller]
pub fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let value = |bits| bf16::from_bits(bits).to_f32();
    Fragments::exchange(a, b, |word| both(word, value)).add_to(c, dot)
}

#[track_caller]
pub fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let value = |bits| f16::from_bits(bits).to_f32();
    Fragments::exchange(a, b, |word| both(word, value)).add_to(c, dot)
}

#[track_caller]
pub fn mma_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let value = |word| f32::from_bits(word & !0x1fff);
    Fragments::exchange(a.map(f32::to_bits), b.map(f32::to_bits), value).add_to(c, |a, b| a * b)
}

pub fn nearest_tf32(x: f32) -> f32 {
    match x.is_finite() {
        true => f32::from_bits(x.to_bits().wrapping_add(0x1000)),
        false => x,
    }
}

#[track_caller]
pub fn mma_f64([a]: [f64; 1], [b]: [f64; 1], mut c: [f64; 2]) -> [f64; 2] {
    let lanes = cuda_sim::exchange("mma", u32::MAX, (a, b));
    let given = |lane| lanes.get(lane).unwrap_or_default();
    for (i, c) in (0..).zip(&mut c) {
        let (row, column) = f64::place_c(cuda_sim::lane(), i);
        for k in 0..4 {
            *c = given(row * 4 + k).0.mul_add(given(column * 4 + k).1, *c);
        }
    }
    c
}

#[track_caller]
pub fn mma_f64_m16n8k8(a: [f64; 4], b: [f64; 2], mut c: [f64; 4]) -> [f64; 4] {
    let lanes = cuda_sim::exchange("mma", u32::MAX, (a, b));
    let given = |lane| lanes.get(lane).unwrap_or_default();
    for (i, c) in (0..).zip(&mut c) {
        let (row, column) = F64M16N8K8::place_c(cuda_sim::lane(), i);
        for k in 0..8 {
            let of_a = given(row % 8 * 4 + k % 4).0[(row / 8 + k / 4 * 2) as usize];
            let of_b = given(column * 4 + k % 4).1[(k / 4) as usize];
            *c = of_a.mul_add(of_b, *c);
        }
    }
    c
}
