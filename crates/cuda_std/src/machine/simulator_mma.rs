// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp on the simulated GPU: the lanes exchange what they have of A and B, and each computes its own
//! elements.

use cuda_sim::Lanes;
use half::{bf16, f16};

use crate::mma::{F64M16N8K8, Mma};

/// What all lanes have of A and B, as words.
struct Fragments {
    a: [Lanes; 2],
    b: Lanes,
}

impl Fragments {
    #[track_caller]
    fn exchange(name: &'static str, a: [u32; 4], b: [u32; 2]) -> Fragments {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Fragments {
            a: [
                cuda_sim::exchange(name, u32::MAX, pair(a[0], a[1])),
                cuda_sim::exchange(name, u32::MAX, pair(a[2], a[3])),
            ],
            b: cuda_sim::exchange(name, u32::MAX, pair(b[0], b[1])),
        }
    }

    /// Word `word` of the eight of a row of A: the four lanes that have the row have the first four, then the others. For
    /// two rows, eight apart, a lane has the words one behind the other.
    fn a(&self, row: u32, word: u32) -> u32 {
        let lanes = &self.a[word as usize / 4];
        (lanes.get(row % 8 * 4 + word % 4).unwrap_or_default() >> (row / 8 * 32)) as u32
    }

    /// Word `word` of the eight of a column of B.
    fn b(&self, word: u32, column: u32) -> u32 {
        (self.b.get(column * 4 + word % 4).unwrap_or_default() >> (word / 4 * 32)) as u32
    }

    /// Adds to the lane's elements: a row of A and a column of B have eight words each.
    fn add_to(&self, mut c: [f32; 4], product: impl Fn(u32, u32) -> f32) -> [f32; 4] {
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
fn dot(a: u32, b: u32, value: impl Fn(u16) -> f32) -> f32 {
    value(a as u16) * value(b as u16) + value((a >> 16) as u16) * value((b >> 16) as u16)
}

#[track_caller]
pub fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let value = |bits| bf16::from_bits(bits).to_f32();
    Fragments::exchange("mma", a, b).add_to(c, |a, b| dot(a, b, value))
}

#[track_caller]
pub fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    let value = |bits| f16::from_bits(bits).to_f32();
    Fragments::exchange("mma", a, b).add_to(c, |a, b| dot(a, b, value))
}

#[track_caller]
pub fn mma_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    let value = |bits: u32| f32::from_bits(bits & !0x1fff);
    Fragments::exchange("mma", a.map(f32::to_bits), b.map(f32::to_bits)).add_to(c, |a, b| value(a) * value(b))
}

pub fn nearest_tf32(x: f32) -> f32 {
    match x.is_finite() {
        true => f32::from_bits(x.to_bits().wrapping_add(0x1000)),
        false => x,
    }
}

#[track_caller]
pub fn mma_f64([a]: [f64; 1], [b]: [f64; 1], mut c: [f64; 2]) -> [f64; 2] {
    let a = cuda_sim::exchange("mma", u32::MAX, a.to_bits());
    let b = cuda_sim::exchange("mma", u32::MAX, b.to_bits());
    let value = |lanes: &Lanes, lane| f64::from_bits(lanes.get(lane).unwrap_or_default());
    for (i, c) in (0..).zip(&mut c) {
        let (row, column) = f64::place_c(cuda_sim::lane(), i);
        for k in 0..4 {
            *c = value(&a, row * 4 + k).mul_add(value(&b, column * 4 + k), *c);
        }
    }
    c
}

#[track_caller]
pub fn mma_f64_m16n8k8(a: [f64; 4], b: [f64; 2], mut c: [f64; 4]) -> [f64; 4] {
    let a = a.map(|a| cuda_sim::exchange("mma", u32::MAX, a.to_bits()));
    let b = b.map(|b| cuda_sim::exchange("mma", u32::MAX, b.to_bits()));
    let value = |lanes: &Lanes, lane| f64::from_bits(lanes.get(lane).unwrap_or_default());
    for (i, c) in (0..).zip(&mut c) {
        let (row, column) = F64M16N8K8::place_c(cuda_sim::lane(), i);
        for k in 0..8 {
            let of_a = value(&a[(row / 8 + k / 4 * 2) as usize], row % 8 * 4 + k % 4);
            let of_b = value(&b[(k / 4) as usize], column * 4 + k % 4);
            *c = of_a.mul_add(of_b, *c);
        }
    }
    c
}
