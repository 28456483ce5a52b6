// SPDX-License-Identifier: MIT OR Apache-2.0
//! The floating-point operations that the hardware has: one instruction each on a GPU.
//!
//! Each rounds once, as IEEE 754 defines it, on both machines, so that whatever is built from
//! them gives the same bits on the GPU and on the simulated one. The device reaches them through
//! `core`'s own float functions (LLVM lowers `sqrt` to `sqrt.rn` and `mul_add` to `fma.rn`), the
//! host through `std`.

macro_rules! machine {
    ($name:ident, $float:ty, $core:path, $llvm_minimum:literal, $llvm_maximum:literal) => {
        pub(super) mod $name {
            #[cfg(target_arch = "nvptx64")]
            use $core as ops;

            // One instruction from compute_80 on; `core`'s own forms are a cascade of comparisons.
            #[cfg(target_arch = "nvptx64")]
            unsafe extern "C" {
                #[link_name = $llvm_minimum]
                safe fn llvm_minimum(a: $float, b: $float) -> $float;
                #[link_name = $llvm_maximum]
                safe fn llvm_maximum(a: $float, b: $float) -> $float;
            }

            /// `a * b + c`, rounded once.
            #[inline(always)]
            pub fn fma(a: $float, b: $float, c: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return ops::mul_add(a, b, c);
                #[cfg(not(target_arch = "nvptx64"))]
                return a.mul_add(b, c);
            }

            machine!(@unary $float: sqrt, floor, ceil, trunc, round, round_ties_even);

            /// The smaller of two numbers, NaN if either is one, with −0 below +0.
            #[inline(always)]
            pub fn minimum(a: $float, b: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return llvm_minimum(a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return if a.is_nan() || b.is_nan() {
                    a + b
                } else if a < b || (a == b && a.is_sign_negative()) {
                    a
                } else {
                    b
                };
            }

            /// The larger of two numbers, NaN if either is one, with +0 above −0.
            #[inline(always)]
            pub fn maximum(a: $float, b: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return llvm_maximum(a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return if a.is_nan() || b.is_nan() {
                    a + b
                } else if a > b || (a == b && a.is_sign_positive()) {
                    a
                } else {
                    b
                };
            }
        }
    };
    (@unary $float:ty: $($f:ident),+) => {$(
        #[inline(always)]
        pub fn $f(x: $float) -> $float {
            #[cfg(target_arch = "nvptx64")]
            return ops::$f(x);
            #[cfg(not(target_arch = "nvptx64"))]
            return x.$f();
        }
    )+};
}

machine!(single, f32, core::f32::math, "llvm.minimum.f32", "llvm.maximum.f32");
machine!(double, f64, core::f64::math, "llvm.minimum.f64", "llvm.maximum.f64");
