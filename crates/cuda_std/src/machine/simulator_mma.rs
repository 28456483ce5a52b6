// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp on the simulated GPU: the lanes exchange what they have of A and B, and one of them multiplies.

use cuda_sim::{Lanes, Operands};
use half::{bf16, f16};

use crate::array;
use crate::float8::{F8E4M3, F8E5M2};

/// Counts a lane's part of a product of matrices of m × k and k × n elements.
fn count(operands: Operands, [m, n, k]: [u64; 3]) {
    cuda_sim::products(operands, 2 * m * n * k / 32);
}

/// What a warp's product gives each lane of what it has of A, B and C: `V` is a word, as the values that are multiplied, so
/// that each is converted once. `add` adds the products of two words.
///
/// The lane that comes last multiplies for all. Each element is summed word by word, in order. The four lanes that have a row
/// of A or a column of B have the first four of its words, then the next; of two rows, eight apart, they have the words one
/// behind the other.
#[track_caller]
fn multiply<V, S, const A: usize, const B: usize, const C: usize>(
    given: ([V; A], [V; B], [S; C]),
    add: impl Fn(&mut S, V, V),
) -> [S; C]
where
    V: Copy + 'static,
    S: Copy + Default + 'static,
{
    const { assert!(A == B * C / 2) };
    let product = |lanes: &Lanes<([V; A], [V; B], [S; C])>| {
        let given: [_; 32] = array::from_fn(|lane| lanes.get(lane as u32).unwrap_or(given));
        let b: [[[V; 8]; 4]; B] =
            array::from_fn(|fours| array::from_fn(|word| array::from_fn(|column| given[column * 4 + word].1[fours])));
        let mut sums = [[S::default(); C]; 32];
        for row in 0..4 * C {
            let (first, half) = (row % 8 * 4, row / 8);
            let mut c: [S; 8] = array::from_fn(|column| given[first + column / 2].2[half * 2 + column % 2]);
            for (fours, b) in b.iter().enumerate() {
                for (word, b) in b.iter().enumerate() {
                    let a = given[first + word].0[fours * (C / 2) + half];
                    c.iter_mut().zip(b).for_each(|(c, b)| add(c, a, *b));
                }
            }
            for (sums, c) in sums[first..].iter_mut().zip(c.chunks_exact(2)) {
                sums[half * 2..][..2].copy_from_slice(c);
            }
        }
        sums
    };
    // SAFETY: it computes from numbers alone.
    unsafe { cuda_sim::exchange_with("mma", u32::MAX, given, product) }
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
    multiply((array::map(a, values), array::map(b, values), c), add_two)
}

/// The two numbers in a word.
fn f16s(word: u32) -> [f32; 2] {
    both(word, |bits| f16::from_bits(bits).to_f32())
}

#[track_caller]
pub fn mma_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    count(Operands::F16, [16, 8, 16]);
    multiply((array::map(a, f16s), array::map(b, f16s), c), add_two)
}

#[track_caller]
pub fn mma_f16_m16n8k8([low, high]: [u32; 2], [b]: [u32; 1], c: [f32; 4]) -> [f32; 4] {
    count(Operands::F16, [16, 8, 8]);
    multiply(([low, high].map(f16s), [f16s(b)], c), add_two)
}

#[track_caller]
pub fn mma_tf32(a: [f32; 4], b: [f32; 2], c: [f32; 4]) -> [f32; 4] {
    count(Operands::Tf32, [16, 8, 8]);
    let value = |x: f32| f32::from_bits(x.to_bits() & !0x1fff);
    multiply((array::map(a, value), array::map(b, value), c), |sum, a, b| {
        *sum += a * b
    })
}

/// Adds the four products of the integers in two words.
fn add_four(sum: &mut i32, a: u32, b: u32) {
    let numbers = |word: u32| word.to_le_bytes().map(|byte| i32::from(byte as i8));
    let products = numbers(a).into_iter().zip(numbers(b)).map(|(a, b)| a * b);
    *sum = sum.wrapping_add(products.sum());
}

#[track_caller]
pub fn mma_i8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    count(Operands::Int8, [16, 8, 32]);
    multiply((a, b, c), add_four)
}

#[track_caller]
pub fn mma_i8_m8n8k16(a: [u32; 1], b: [u32; 1], c: [i32; 2]) -> [i32; 2] {
    count(Operands::Int8, [8, 8, 16]);
    multiply((a, b, c), add_four)
}

macro_rules! float8 {
    ($($name:ident $a:ident $b:ident)*) => {$(
        #[track_caller]
        pub fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
            count(Operands::Float8, [16, 8, 32]);
            let of_a = |word: u32| array::map(word.to_le_bytes(), |byte| $a::from_bits(byte).to_f32());
            let of_b = |word: u32| array::map(word.to_le_bytes(), |byte| $b::from_bits(byte).to_f32());
            multiply((array::map(a, of_a), array::map(b, of_b), c), |sum, a, b| {
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
pub fn mma_f64(a: [f64; 1], b: [f64; 1], c: [f64; 2]) -> [f64; 2] {
    count(Operands::F64, [8, 8, 4]);
    multiply((a, b, c), |sum, a, b| *sum = a.mul_add(b, *sum))
}

#[track_caller]
pub fn mma_f64_m16n8k8(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
    count(Operands::F64, [16, 8, 8]);
    multiply((a, b, c), |sum, a, b| *sum = a.mul_add(b, *sum))
}
