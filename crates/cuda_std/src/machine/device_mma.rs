// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warp on an NVIDIA GPU. Not `pure`: the lanes are together where the instruction stands.

use core::arch::asm;

macro_rules! products {
    ($($name:ident $word:ident $sum:ident $instruction:literal)*) => {$(
        #[inline(always)]
        pub fn $name(a: [$word; 4], b: [$word; 2], c: [$sum; 4]) -> [$sum; 4] {
            let [mut d0, mut d1, mut d2, mut d3] = c;
            // SAFETY: registers only.
            unsafe {
                asm!(
                    concat!(
                        "mma.sync.aligned.", $instruction,
                        " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};"
                    ),
                    inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3,
                    in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3], in(reg32) b[0], in(reg32) b[1],
                    options(nomem, nostack, preserves_flags)
                );
            }
            [d0, d1, d2, d3]
        }
    )*};
}

products! {
    mma_bf16 u32 f32 "m16n8k16.row.col.f32.bf16.bf16.f32"
    mma_f16 u32 f32 "m16n8k16.row.col.f32.f16.f16.f32"
    mma_tf32 f32 f32 "m16n8k8.row.col.f32.tf32.tf32.f32"
    mma_i8 u32 i32 "m16n8k32.row.col.s32.s8.s8.s32"
    mma_e4m3_e4m3 u32 f32 "m16n8k32.row.col.f32.e4m3.e4m3.f32"
    mma_e4m3_e5m2 u32 f32 "m16n8k32.row.col.f32.e4m3.e5m2.f32"
    mma_e5m2_e4m3 u32 f32 "m16n8k32.row.col.f32.e5m2.e4m3.f32"
    mma_e5m2_e5m2 u32 f32 "m16n8k32.row.col.f32.e5m2.e5m2.f32"
}

#[inline(always)]
pub fn mma_f16_m16n8k8(a: [u32; 2], [b]: [u32; 1], c: [f32; 4]) -> [f32; 4] {
    let [mut d0, mut d1, mut d2, mut d3] = c;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 \
             {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3,
            in(reg32) a[0], in(reg32) a[1], in(reg32) b, options(nomem, nostack, preserves_flags)
        );
    }
    [d0, d1, d2, d3]
}

#[inline(always)]
pub fn mma_i8_m8n8k16([a]: [u32; 1], [b]: [u32; 1], c: [i32; 2]) -> [i32; 2] {
    let [mut d0, mut d1] = c;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {{{0}, {1}}}, {{{2}}}, {{{3}}}, {{{0}, {1}}};",
            inout(reg32) d0, inout(reg32) d1, in(reg32) a, in(reg32) b, options(nomem, nostack, preserves_flags)
        );
    }
    [d0, d1]
}

/// LLVM would compare the exponent, which takes two instructions more.
#[inline(always)]
pub fn nearest_tf32(x: f32) -> f32 {
    let mut bits = x.to_bits();
    // SAFETY: registers only.
    unsafe {
        asm!(
            "{{",
            ".reg .pred p;",
            ".reg .f32 m;",
            "abs.f32 m, {0};",
            "setp.lt.f32 p, m, 0f7F800000;",
            "@p add.u32 {0}, {0}, 0x1000;",
            "}}",
            inout(reg32) bits, options(pure, nomem, nostack, preserves_flags)
        );
    }
    f32::from_bits(bits)
}

/// One comparison for both, where LLVM makes two.
#[inline(always)]
pub fn nearest_tf32_of_two([x, y]: [f32; 2]) -> [f32; 2] {
    let (mut x, mut y) = (x.to_bits(), y.to_bits());
    // SAFETY: registers only.
    unsafe {
        asm!(
            "{{",
            ".reg .pred p;",
            "setp.num.f32 p, {0}, {1};",
            "@p add.u32 {0}, {0}, 0x1000;",
            "@p add.u32 {1}, {1}, 0x1000;",
            "}}",
            inout(reg32) x, inout(reg32) y, options(pure, nomem, nostack, preserves_flags)
        );
    }
    [x, y].map(f32::from_bits)
}

#[inline(always)]
pub fn mma_f64([a]: [f64; 1], [b]: [f64; 1], c: [f64; 2]) -> [f64; 2] {
    let [mut d0, mut d1] = c;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{{0}, {1}}}, {{{2}}}, {{{3}}}, {{{0}, {1}}};",
            inout(reg64) d0, inout(reg64) d1, in(reg64) a, in(reg64) b, options(nomem, nostack, preserves_flags)
        );
    }
    [d0, d1]
}

#[inline(always)]
pub fn mma_f64_m16n8k8(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
    let [mut d0, mut d1, mut d2, mut d3] = c;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 \
             {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg64) d0, inout(reg64) d1, inout(reg64) d2, inout(reg64) d3,
            in(reg64) a[0], in(reg64) a[1], in(reg64) a[2], in(reg64) a[3], in(reg64) b[0], in(reg64) b[1],
            options(nomem, nostack, preserves_flags)
        );
    }
    [d0, d1, d2, d3]
}
