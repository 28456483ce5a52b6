// SPDX-License-Identifier: MIT OR Apache-2.0
//! What instructions compute of numbers, each in the low bits of a word.

use half::{bf16, f16};

use super::line::MAX_OPERANDS;

fn low(value: u64) -> u64 {
    u64::from(value as u32)
}

fn shifted(by: u64, number: u64) -> u64 {
    if by < 32 { number } else { 0 }
}

/// What an instruction computes of so many numbers.
pub(super) fn computed(opcode: &str, numbers: usize) -> fn([u64; MAX_OPERANDS]) -> u64 {
    match (opcode, numbers) {
        ("mov.pred" | "mov.u32" | "mov.b32" | "mov.b64" | "cvta.to.global.u64" | "cvt.u64.u32", 1) => |[a, ..]| a,
        ("mov.b64", 2) => |[low, high, _]| low | high << 32,
        ("mov.b32", 2) => |[low, high, _]| low | high << 16,
        ("cvt.u32.u64", 1) => |[a, ..]| low(a),
        ("cvt.u32.u16", 1) => |[a, ..]| a,
        ("cvt.u16.u32", 1) => |[a, ..]| a & 0xffff,
        ("mad.lo.s32", 3) => |[a, b, c]| low(a.wrapping_mul(b).wrapping_add(c)),
        ("mad.wide.u32" | "mad.lo.s64", 3) => |[a, b, c]| a.wrapping_mul(b).wrapping_add(c),
        ("mul.lo.s32", 2) => |[a, b, _]| low(a.wrapping_mul(b)),
        ("mul.hi.u32", 2) => |[a, b, _]| (a * b) >> 32,
        ("add.s32", 2) => |[a, b, _]| low(a.wrapping_add(b)),
        ("add.s64", 2) => |[a, b, _]| a.wrapping_add(b),
        ("sub.s32", 2) => |[a, b, _]| low(a.wrapping_sub(b)),
        ("and.b32" | "and.pred", 2) => |[a, b, _]| a & b,
        ("xor.b32", 2) => |[a, b, _]| low(a ^ b),
        ("or.pred", 2) => |[a, b, _]| a | b,
        ("not.pred", 1) => |[a, ..]| a ^ 1,
        ("min.u32", 2) => |[a, b, _]| a.min(b),
        ("shr.u64", 2) => |[a, b, _]| a >> b,
        ("bfe.u32", 3) => |[a, from, bits]| low(a) >> from & ((1 << bits) - 1),
        ("shr.u32", 2) => |[a, b, _]| shifted(b, a >> (b & 31)),
        ("shl.b32", 2) => |[a, b, _]| shifted(b, low(a << (b & 31))),
        ("setp.ge.u32", 2) => |[a, b, _]| u64::from(a >= b),
        ("setp.lt.u32", 2) => |[a, b, _]| u64::from(a < b),
        ("setp.eq.u32", 2) => |[a, b, _]| u64::from(a == b),
        ("setp.ne.u32", 2) => |[a, b, _]| u64::from(a != b),
        ("selp.b32" | "selp.b64", 3) => |[a, b, is_first]| if is_first == 0 { b } else { a },
        ("prmt.b32", 3) => |[a, b, selector]| {
            let both = a | b << 32;
            (0..4)
                .map(|k| (both >> (8 * (selector >> (4 * k) & 7)) & 0xff) << (8 * k))
                .sum()
        },
        ("neg.f32", 1) => |[a, ..]| low(a ^ 1 << 31),
        ("abs.f32", 1) => |[a, ..]| low(a & !(1 << 31)),
        ("rcp.rn.f32", 1) => |words| of_f32(words, |[a, ..]| 1.0 / a),
        ("add.rn.f32", 2) => |words| of_f32(words, |[a, b, _]| a + b),
        ("mul.rn.f32", 2) => |words| of_f32(words, |[a, b, _]| a * b),
        ("fma.rn.f32", 3) => |words| of_f32(words, |[a, b, c]| a.mul_add(b, c)),
        ("max.NaN.f32", 2) => |words| {
            of_f32(words, |[a, b, _]| {
                // +0 is above −0.
                extreme(a, b, a > b || a == b && a.is_sign_positive())
            })
        },
        ("min.NaN.f32", 2) => |words| {
            of_f32(words, |[a, b, _]| {
                extreme(a, b, a < b || a == b && a.is_sign_negative())
            })
        },
        ("createpolicy.fractional.L2::evict_last.b64" | "createpolicy.fractional.L2::evict_normal.b64", 1) => |_| 0,
        ("sub.s64", 2) => |[a, b, _]| a.wrapping_sub(b),
        ("and.b64", 2) => |[a, b, _]| a & b,
        ("setp.ltu.f32", 2) => |[a, b, _]| {
            let (a, b) = (f32_of(a), f32_of(b));
            u64::from(a < b || a.is_nan() || b.is_nan())
        },
        ("setp.gtu.f32", 2) => |[a, b, _]| {
            let (a, b) = (f32_of(a), f32_of(b));
            u64::from(a > b || a.is_nan() || b.is_nan())
        },
        ("setp.nan.f32", 2) => |[a, b, _]| u64::from(f32_of(a).is_nan() || f32_of(b).is_nan()),
        _ => computed_of_floats(opcode, numbers),
    }
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// One of two numbers, or the GPU's NaN.
fn extreme(a: f32, b: f32, is_a: bool) -> f32 {
    match a.is_nan() || b.is_nan() {
        true => f32::from_bits(0x7fff_ffff),
        false if is_a => a,
        false => b,
    }
}

fn of_f32(words: [u64; MAX_OPERANDS], compute: fn([f32; MAX_OPERANDS]) -> f32) -> u64 {
    compute(words.map(f32_of)).to_bits().into()
}

/// The same for 16-bit floats. Their sums and products are those of `f64`, rounded: exact ones, but where one of two numbers
/// is nothing against the other.
fn computed_of_floats(opcode: &str, numbers: usize) -> fn([u64; MAX_OPERANDS]) -> u64 {
    match (opcode, numbers) {
        ("cvt.f32.f16", 1) => |[a, ..]| f16::from_bits(a as u16).to_f32().to_bits().into(),
        ("cvt.rn.f16.f32", 1) => |[a, ..]| f16::from_f32(f32::from_bits(a as u32)).to_bits().into(),
        ("cvt.rn.bf16.f32", 1) => |[a, ..]| round_to_bf16(a),
        ("cvt.rn.bf16x2.f32", 2) => |[high, low, _]| round_to_bf16(low) | round_to_bf16(high) << 16,
        ("add.rn.f16x2", 2) => |words| both_halves(words, |[a, b, _]| f16::from_f64(f64_of(a) + f64_of(b)).to_bits()),
        ("sub.rn.f16x2", 2) => |words| both_halves(words, |[a, b, _]| f16::from_f64(f64_of(a) - f64_of(b)).to_bits()),
        ("mul.rn.f16x2", 2) => |words| both_halves(words, |[a, b, _]| f16::from_f64(f64_of(a) * f64_of(b)).to_bits()),
        ("fma.rn.bf16x2", 3) => |words| {
            both_halves(words, |bits| {
                let [a, b, c] = bits.map(|bits| bf16::from_bits(bits).to_f64());
                bf16::from_f64(a * b + c).to_bits()
            })
        },
        _ => panic!("unknown instruction {opcode} of {numbers} numbers"),
    }
}

fn f64_of(bits: u16) -> f64 {
    f16::from_bits(bits).to_f64()
}

fn round_to_bf16(bits: u64) -> u64 {
    bf16::from_f32(f32::from_bits(bits as u32)).to_bits().into()
}

fn both_halves(words: [u64; MAX_OPERANDS], compute: fn([u16; MAX_OPERANDS]) -> u16) -> u64 {
    let of = |half: u32| u64::from(compute(words.map(|word| (word >> (16 * half)) as u16)));
    of(0) | of(1) << 16
}
