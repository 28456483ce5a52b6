// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warpgroup on an NVIDIA GPU.
//!
//! The registers of an accumulator are operands of the instructions one by one, with constant indices: so the array is
//! never in memory, and each register stays the same for all instructions. None of these is `nomem`: what
//! was written to shared memory before is there when they read it.

use core::arch::asm;

use super::{InRegisters, IntegerRegisters, Major, Registers, SharedPtr};
use crate::tma::Swizzle;

/// Where a matrix lies: PTX ISA, "Matrix Descriptor Format". In two halves, of which the lower one has the
/// address: to advance is one addition of 32 bits, whose carry has nowhere to go.
#[derive(Clone, Copy)]
pub struct MatrixDescriptor {
    low: u32,
    high: u32,
}

impl MatrixDescriptor {
    #[inline(always)]
    pub fn new(at: SharedPtr, leading: u32, stride: u32, swizzle: Swizzle) -> Self {
        let field = |bytes: u32| (bytes & 0x3_ffff) >> 4;
        let swizzle = match swizzle {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        };
        Self {
            low: field(at.0) | field(leading) << 16,
            high: field(stride) | swizzle << 30,
        }
    }

    #[inline(always)]
    pub fn advance(self, bytes: u32) -> Self {
        Self {
            low: self.low + (bytes >> 4),
            ..self
        }
    }
}

/// For registers that instructions in flight write to, and the thread has not touched since the last fence.
#[inline(always)]
pub fn wgmma_fence() {
    // SAFETY: a fence.
    unsafe { asm!("wgmma.fence.sync.aligned;", options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn wgmma_commit() {
    // SAFETY: closes a group of instructions.
    unsafe { asm!("wgmma.commit_group.sync.aligned;", options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn wgmma_wait_but_newest() {
    // SAFETY: waits.
    unsafe { asm!("wgmma.wait_group.sync.aligned 1;", options(nostack, preserves_flags)) };
}

/// Uses the registers: until here they are nobody else's. The compiler knows of no instruction in flight that reads them.
#[inline(always)]
pub fn keep_fragment(&[a0, a1, a2, a3]: &[u32; 4]) {
    // SAFETY: nothing.
    unsafe {
        asm!(
            "// {0} {1} {2} {3}", in(reg32) a0, in(reg32) a1, in(reg32) a2, in(reg32) a3,
            options(nostack, preserves_flags)
        );
    }
}

/// The instructions of one shape. Those of 16-bit types say how the matrices lie.
macro_rules! registers {
    ($($registers:literal $n:literal: $first:literal $($i:literal)*;)*) => {$(
        impl Registers for [f32; $registers] {
            registers!(multiply_bf16 $n "k16.f32.bf16.bf16" [", 1, 1, {ta}, {tb};"] [ta = const A::TRANSPOSED, tb = const B::TRANSPOSED,] $first $($i)*);
            registers!(multiply_f16 $n "k16.f32.f16.f16" [", 1, 1, {ta}, {tb};"] [ta = const A::TRANSPOSED, tb = const B::TRANSPOSED,] $first $($i)*);
            registers!(multiply_tf32 $n "k8.f32.tf32.tf32" [", 1, 1;"] [] $first $($i)*);
            registers!(@fragment multiply_tf32_fragment [] $n "k8.f32.tf32.tf32" [", 1, 1;"] [] $first $($i)*);
            registers!(@fragment multiply_bf16_fragment [B: Major,] $n "k16.f32.bf16.bf16" [", 1, 1, {tb};"] [tb = const B::TRANSPOSED,] $first $($i)*);
            registers!(@fragment multiply_f16_fragment [B: Major,] $n "k16.f32.f16.f16" [", 1, 1, {tb};"] [tb = const B::TRANSPOSED,] $first $($i)*);
            registers!(multiply_e4m3_e4m3 $n "k32.f32.e4m3.e4m3" [", 1, 1;"] [] $first $($i)*);
            registers!(multiply_e4m3_e5m2 $n "k32.f32.e4m3.e5m2" [", 1, 1;"] [] $first $($i)*);
            registers!(multiply_e5m2_e4m3 $n "k32.f32.e5m2.e4m3" [", 1, 1;"] [] $first $($i)*);
            registers!(multiply_e5m2_e5m2 $n "k32.f32.e5m2.e5m2" [", 1, 1;"] [] $first $($i)*);
        }

        impl IntegerRegisters for [i32; $registers] {
            registers!(multiply_s8 $n "k32.s32.s8.s8" [";"] [] $first $($i)*);
        }

        registers!(@wait f32 $registers: $first $($i)*);
        registers!(@wait i32 $registers: $first $($i)*);
    )*};
    (@wait $sum:ident $registers:literal: $first:literal $($i:literal)*) => {
        impl InRegisters<$sum> for [$sum; $registers] {
            #[inline(always)]
            fn update(&mut self, f: impl Fn(usize, $sum) -> $sum) {
                self[$first] = f($first, self[$first]);
                $(self[$i] = f($i, self[$i]);)*
            }

            #[inline(always)]
            fn any() -> Self {
                let mut registers = [<$sum>::default(); $registers];
                // SAFETY: writes nothing: the registers are those that the compiler chose, with what was in them.
                unsafe {
                    asm!(
                        concat!("//", " {", $first, "}", $(" {", $i, "}",)*),
                        out(reg32) registers[$first], $(out(reg32) registers[$i],)* options(nostack, preserves_flags)
                    );
                }
                registers
            }

            // Every register is an operand of both, or the compiler would move what sets it down over the fence, and what
            // reads it up over the wait.
            #[inline(always)]
            fn fence(&mut self) {
                // SAFETY: a fence.
                unsafe {
                    asm!(
                        "wgmma.fence.sync.aligned;",
                        concat!("//", " {", $first, "}", $(" {", $i, "}",)*),
                        inout(reg32) self[$first], $(inout(reg32) self[$i],)* options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            fn wait(&mut self) {
                // SAFETY: waits.
                unsafe {
                    asm!(
                        "wgmma.wait_group.sync.aligned 0;",
                        concat!("//", " {", $first, "}", $(" {", $i, "}",)*),
                        inout(reg32) self[$first], $(inout(reg32) self[$i],)* options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            fn wait_but_newest(&mut self) {
                // SAFETY: waits.
                unsafe {
                    asm!(
                        "wgmma.wait_group.sync.aligned 1;",
                        concat!("//", " {", $first, "}", $(" {", $i, "}",)*),
                        inout(reg32) self[$first], $(inout(reg32) self[$i],)* options(nostack, preserves_flags)
                    );
                }
            }
        }
    };
    (@fragment $name:ident [$($generic:tt)*] $n:literal $types:literal [$tail:literal] [$($major:tt)*]
        $first:literal $($i:literal)*
    ) => {
        #[inline(always)]
        unsafe fn $name<$($generic)* const ADD: i32>(&mut self, [a0, a1, a2, a3]: [u32; 4], b: MatrixDescriptor) {
            // SAFETY: the caller's promise, that of `Batch::mma_fragment`.
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred p;",
                    ".reg .b64 b;",
                    "setp.ne.b32 p, {add}, 0;",
                    "mov.b64 b, {{{b_low}, {b_high}}};",
                    concat!(
                        "wgmma.mma_async.sync.aligned.m64n", $n, $types, " {{", "{", $first, "}", $(", {", $i, "}",)*
                        "}}, {{{a0}, {a1}, {a2}, {a3}}}, b, p", $tail
                    ),
                    "}}",
                    inout(reg32) self[$first], $(inout(reg32) self[$i],)*
                    a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                    b_low = in(reg32) b.low, b_high = in(reg32) b.high, add = const ADD, $($major)* options(nostack, preserves_flags)
                );
            }
        }
    };
    ($name:ident $n:literal $types:literal [$tail:literal] [$($major:tt)*] $first:literal $($i:literal)*) => {
        #[inline(always)]
        unsafe fn $name<A: Major, B: Major, const ADD: i32>(&mut self, a: MatrixDescriptor, b: MatrixDescriptor) {
            // What begins from zero has a fence of its own. That of `start` is the same for all ways that matrices lie, so
            // that the compiler moves it up to where the way is chosen: then the driver adds one here.
            if const { ADD == 0 } {
                registers!(@ self a b "wgmma.fence.sync.aligned;" "0" $n $types [$tail] [$($major)*] $first $($i)*);
            } else {
                registers!(@ self a b "" "1" $n $types [$tail] [$($major)*] $first $($i)*);
            }
        }
    };
    (@ $self:ident $a:ident $b:ident $fence:literal $add:literal $n:literal $types:literal [$tail:literal]
        [$($major:tt)*] $first:literal $($i:literal)*
    ) => {
        // SAFETY: the caller's promise, that of `Batch::mma`.
        unsafe {
            asm!(
                $fence,
                "{{",
                ".reg .pred p;",
                ".reg .b64 a, b;",
                "mov.b64 a, {{{a_low}, {a_high}}};",
                "mov.b64 b, {{{b_low}, {b_high}}};",
                concat!("setp.ne.b32 p, ", $add, ", 0;"),
                concat!(
                    "wgmma.mma_async.sync.aligned.m64n", $n, $types, " {{", "{", $first, "}", $(", {", $i, "}",)*
                    "}}, a, b, p", $tail
                ),
                "}}",
                inout(reg32) $self[$first], $(inout(reg32) $self[$i],)*
                a_low = in(reg32) $a.low, a_high = in(reg32) $a.high,
                b_low = in(reg32) $b.low, b_high = in(reg32) $b.high, $($major)* options(nostack, preserves_flags)
            );
        }
    };
}

registers! {
    16 32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    24 48: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23;
    32 64: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31;
    48 96: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47;
    56 112: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55;
    64 128: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63;
    80 160: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
        74 75 76 77 78 79;
    84 168: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
        74 75 76 77 78 79 80 81 82 83;
    88 176: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
        74 75 76 77 78 79 80 81 82 83 84 85 86 87;
    96 192: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
        74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95;
    104 208: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
        74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103;
    128 256: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37
        38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73
        74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106
        107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127;
}
