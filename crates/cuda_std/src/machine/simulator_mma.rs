// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp on the simulated GPU: the lanes exchange what they have of A and B, and each computes its own
//! elements.

use cuda_sim::{Lanes, Operands};
use half::{bf16, f16};

use crate::float8::{F8E4M3, F8E5M2};
use crate::mma::{F64M16N8K8, Mma};

/// Counts a lane's part of a product of matrices of m × k and k × n elements.
fn count(operands: Operands, [m, n, k]: [u64; 3]) {
    cuda_sim::products(operands, 2 * m * n * k / 32);
}

/// What all lanes have of A and B: `V` is a word, as the values that are multiplied, so that each is converted once.
struct Fragments<V>(Lanes<([V; 4], [V; 2])>);

impl<V: Copy + Default> Fragments<V> {
    #[track_caller]
    fn exchange(a: [u32; 4], b: [u32; 2], value_a: impl Fn(u32) -> V, value_b: impl Fn(u32) -> V) -> Self {
        let given = (a.map(value_a), b.map(value_b));
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

    /// Adds to the lane's elements, where a row of A and a column of B have so many words.
    fn add_to<S>(&self, mut c: [S; 4], words: u32, add: impl Fn(&mut S, V, V)) -> [S; 4] {
        let lane = cuda_sim::lane();
        for (i, c) in (0..).zip(&mut c) {
            let (row, column) = bf16::place_c(lane, i);
            for word in 0..words {
                add(c, self.a(row, word), self.b(word, column));
            }
        }
        c
    }
}

/// Adds the two products of the elements in a word.
fn add_two(sum: &mut f32, a: [f32; 2], b: [f32; 2]) {
    *sum += a[0] * b[0] + a[1] * b[1];
}

/// The two elements in a word.
fn both(word: u32, value: impl Fn(u16) -> f32) -> [f32; 2] {
    [value(word as u16), value((word >> 16) as u16)]
}

#[track_caller]
pub fn mma_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    count(Operands::Bf16, [16, 8, 16]);
    let values = |word| both(word, |bits| bf16::from_bits(bits).to_f32());
    Fragments::exchange(a, b, values, values).add_to(c, 8, add_two)
}

/// The two numbers in a word.
fn f16s(word: u32) -> [f32; 2] {
    both(word, |bits| f16::from_bits(bits).to_f32())
}

#[track_caller]
pub fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    count(Operands::F16, [16, 8, 16]);
    Fragments::exchange(a, b, f16s, f16s).add_to(c, 8, add_two)
}

#[track_caller]
pub fn mma_f16_m16n8k8([low, high]: [u32; 2], [b]: [u32; 1], c: [f32; 4]) -> [f32; 4] {
    count(Operands::F16, [16, 8, 8]);
    Fragments::exchange([low, high, 0, 0], [b, 0], f16s, f16s).add_to(c, 4, add_two)
}

#[track_caller]
pub fn mma_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    count(Operands::Tf32, [16, 8, 8]);
    let value = |word| f32::from_bits(word & !0x1fff);
    Fragments::exchange(a.map(f32::to_bits), b.map(f32::to_bits), value, value).add_to(c, 8, |sum, a, b| *sum += a * b)
}

/// The sum of the four products of the integers in two words.
fn dot_i8(a: u32, b: u32) -> i32 {
    let numbers = |word: u32| word.to_le_bytes().map(|byte| i32::from(byte as i8));
    numbers(a).into_iter().zip(numbers(b)).map(|(a, b)| a * b).sum()
}

#[track_caller]
pub fn mma_i8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    count(Operands::Int8, [16, 8, 32]);
    let word = |word| word;
    Fragments::exchange(a, b, word, word).add_to(c, 8, |sum, a, b| *sum = sum.wrapping_add(dot_i8(a, b)))
}

#[track_caller]
pub fn mma_i8_m8n8k16([a]: [u32; 1], [b]: [u32; 1], mut c: [i32; 2]) -> [i32; 2] {
    count(Operands::Int8, [8, 8, 16]);
    let lanes = cuda_sim::exchange("mma", u32::MAX, (a, b));
    let given = |lane| lanes.get(lane).unwrap_or_default();
    for (i, c) in (0..).zip(&mut c) {
        let (row, column) = <i8 as Mma>::place_c(cuda_sim::lane(), i);
        for word in 0..4 {
            *c = c.wrapping_add(dot_i8(given(row * 4 + word).0, given(column * 4 + word).1));
        }
    }
    c
}

macro_rules! float8 {
    ($($name:ident $a:ident $b:ident)*) => {$(
        #[track_caller]
        pub fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
            count(Operands::Float8, [16, 8, 32]);
            let of_a = |word: u32| word.to_le_bytes().map(|byte| $a::from_bits(byte).to_f32());
            let of_b = |word: u32| word.to_le_bytes().map(|byte| $b::from_bits(byte).to_f32());
            Fragments::exchange(a, b, of_a, of_b).add_to(c, 8, |sum, a, b| {
                a.into_iter().zip(b).for_each(|(a, b)| *sum += a * b);
            })
        }
    )*};
}

float8! {
    mma_e4m3_e4m3 F8E4M3 F8E4M3
    mma_e4m3_e5m2 F8E4M3 F8E5M2
    mma_e5m2_e4m3 F8E5M2 F8E4M3
    mma_e5m2_e5m2 F8E5M2 F8E5M2
}

pub fn nearest_tf32(x: f32) -> f32 {
    match x.is_finite() {
        true => f32::from_bits(x.to_bits().wrapping_add(0x1000)),
        false => x,
    }
}

pub fn nearest_tf32_of_two(two: [f32; 2]) -> [f32; 2] {
    match two.iter().any(|x| x.is_nan()) {
        true => two,
        false => two.map(|x| f32::from_bits(x.to_bits().wrapping_add(0x1000))),
    }
}

#[track_caller]
pub fn mma_f64([a]: [f64; 1], [b]: [f64; 1], mut c: [f64; 2]) -> [f64; 2] {
    count(Operands::F64, [8, 8, 4]);
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
    count(Operands::F64, [16, 8, 8]);
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
