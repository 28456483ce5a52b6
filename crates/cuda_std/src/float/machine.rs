// SPDX-License-Identifier: MIT OR Apache-2.0
//! The floating-point operations that the hardware has: one instruction each on a GPU.
//!
//! Each rounds once, as IEEE 754 defines it, on both machines, so that whatever is built from
//! them gives the same bits on the GPU and on the simulated one. The device reaches them through
//! `core`'s own float functions (LLVM lowers `sqrt` to `sqrt.rn` and `mul_add` to `fma.rn`), the
//! host through `std`. The reciprocal takes three, and comes out the same.

macro_rules! machine {
    ($name:ident, $float:ty, $core:path, $nvvm_min:literal, $nvvm_max:literal) => {
        pub(crate) mod $name {
            #[cfg(target_arch = "nvptx64")]
            use $core as ops;

            // One instruction: `core`'s own forms, and LLVM's `minimum` and `maximum` before compute_80,
            // are a cascade of comparisons.
            #[cfg(target_arch = "nvptx64")]
            unsafe extern "C" {
                #[link_name = $nvvm_min]
                safe fn nvvm_min(a: $float, b: $float) -> $float;
                #[link_name = $nvvm_max]
                safe fn nvvm_max(a: $float, b: $float) -> $float;
            }

            /// `a * b + c`, rounded once.
            #[inline(always)]
            pub fn fma(a: $float, b: $float, c: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return ops::mul_add(a, b, c);
                #[cfg(not(target_arch = "nvptx64"))]
                return a.mul_add(b, c);
            }

            machine!(@unary $float: sqrt, floor, ceil, trunc, round_ties_even);

            /// To the nearest integer, halves away from zero.
            ///
            /// On a GPU, which has no such instruction, LLVM asks for several cases. The number below 1/2 is as good: a half that it
            /// leaves below an integer is rounded to that, as the last bit of the sum has no place there.
            #[inline(always)]
            pub fn round(x: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return ops::trunc(x + <$float>::copysign(0.5 - 0.25 * <$float>::EPSILON, x));
                #[cfg(not(target_arch = "nvptx64"))]
                return x.round();
            }

            /// The smaller of two numbers, the other one if either is NaN, with −0 below +0 (which PTX
            /// promises of `min`).
            #[inline(always)]
            pub fn minimum_number(a: $float, b: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return nvvm_min(a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return if b.is_nan() || a < b || (a == b && a.is_sign_negative()) {
                    a
                } else {
                    b
                };
            }

            /// The larger of two numbers, the other one if either is NaN, with +0 above −0.
            #[inline(always)]
            pub fn maximum_number(a: $float, b: $float) -> $float {
                #[cfg(target_arch = "nvptx64")]
                return nvvm_max(a, b);
                #[cfg(not(target_arch = "nvptx64"))]
                return if b.is_nan() || a > b || (a == b && a.is_sign_positive()) {
                    a
                } else {
                    b
                };
            }

            /// The smaller of two numbers, NaN if either is one, with −0 below +0.
            #[inline(always)]
            pub fn minimum(a: $float, b: $float) -> $float {
                if a.is_nan() || b.is_nan() {
                    <$float>::NAN
                } else {
                    minimum_number(a, b)
                }
            }

            /// The larger of two numbers, NaN if either is one, with +0 above −0.
            #[inline(always)]
            pub fn maximum(a: $float, b: $float) -> $float {
                if a.is_nan() || b.is_nan() {
                    <$float>::NAN
                } else {
                    maximum_number(a, b)
                }
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

machine!(single, f32, core::f32::math, "llvm.nvvm.fmin.f", "llvm.nvvm.fmax.f");
machine!(double, f64, core::f64::math, "llvm.nvvm.fmin.d", "llvm.nvvm.fmax.d");

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.rcp.approx.ftz.f"]
    safe fn nvvm_approximate_recip(x: f32) -> f32;
    #[link_name = "llvm.nvvm.rsqrt.approx.ftz.f"]
    safe fn nvvm_approximate_rsqrt(x: f32) -> f32;
    #[link_name = "llvm.nvvm.lg2.approx.ftz.f"]
    safe fn nvvm_approximate_log2(x: f32) -> f32;
}

/// 1 / x for 2^-126 ≤ |x| < 2^126, correctly rounded; NaN for ±0, ±∞ and NaN. Not for other x.
///
/// On a GPU, `1.0 / x` asks first whether x is in that range, and takes these three instructions if so. The question
/// costs twice as many, and its branch keeps the elements that a thread treats from being interleaved. All such x were
/// compared on an H200; ptxas makes the same three of `1.0 / x` for every GPU from sm_75 to sm_121.
#[inline(always)]
pub(super) fn recip_of_normal(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = nvvm_approximate_recip(x);
        single::fma(y, single::fma(-x, y, 1.0), y)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        if x == 0.0 || !x.is_finite() {
            return f32::NAN;
        }
        debug_assert!((f32::MIN_POSITIVE..2f32.powi(126)).contains(&x.abs()));
        1.0 / x
    }
}

/// √x for 2^-101 ≤ x < ∞, correctly rounded; NaN for ±0, ∞, x < 0 and NaN. Not for other x.
///
/// On a GPU, `sqrt` asks first whether x is in that range, and takes these five instructions if so: see
/// [`recip_of_normal`].
#[inline(always)]
pub(crate) fn sqrt_of_normal(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = nvvm_approximate_rsqrt(x);
        let (root, half) = (x * y, 0.5 * y);
        single::fma(single::fma(-root, root, x), half, root)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        if x == 0.0 || x == f32::INFINITY {
            return f32::NAN;
        }
        debug_assert!(x.is_nan() || !(0.0..3.944_304_5e-31).contains(&x));
        x.sqrt()
    }
}

/// 1 / √x for normal x > 0, correctly rounded; NaN for ±0, ∞, x < 0 and NaN. Not for other x.
///
/// On a GPU, what is left of 1 when the approximation is multiplied by itself and x is computed exactly but for a rounding that
/// is 2^-24 of it. So the sum that ends it is off by 2^-45 before it is rounded, and the same for every approximation that is as
/// good as PTX promises (2^-22.9): all x of two binades were tried with each of them, and no sum is as near as that to the middle
/// of two floats.
#[inline(always)]
pub(crate) fn rsqrt_of_normal(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    return refined_rsqrt(x, nvvm_approximate_rsqrt(x));
    #[cfg(not(target_arch = "nvptx64"))]
    {
        if x == 0.0 || x == f32::INFINITY {
            return f32::NAN;
        }
        debug_assert!(!x.is_subnormal());
        // Of no float it is so near to the middle of two that it matters that the root is rounded.
        (1.0 / f64::from(x).sqrt()) as f32
    }
}

/// 1 / √x for x from an approximation of it.
#[cfg(any(test, target_arch = "nvptx64"))]
#[inline(always)]
fn refined_rsqrt(x: f32, y: f32) -> f32 {
    let product = x * y;
    let rest = single::fma(x, y, -product);
    let error = single::fma(-rest, y, single::fma(-product, y, 1.0));
    single::fma(y * error, single::fma(error, 0.4, 0.5), y)
}

/// 1 / √x, correctly rounded. Not for subnormal x.
#[inline(always)]
pub(super) fn rsqrt(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        // What `rsqrt_of_normal` leaves out the approximation has exactly.
        let y = nvvm_approximate_rsqrt(x);
        let refined = refined_rsqrt(x, y);
        if refined.is_nan() { y } else { refined }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if x == 0.0 || x == f32::INFINITY {
        1.0 / x
    } else {
        rsqrt_of_normal(x)
    }
}

/// The limit of log x where that is no number: −∞ for ±0, ∞ for ∞, NaN for x < 0 and NaN. For all other x but subnormal ones
/// a number of less than 200, which is not the same on all devices.
///
/// On a GPU it is one instruction, which PTX defines so; all results of `ln` and its kind were compared on an H100.
#[inline(always)]
pub(super) fn limit_of_log(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    return nvvm_approximate_log2(x);
    #[cfg(not(target_arch = "nvptx64"))]
    {
        debug_assert!(!x.is_subnormal());
        if x == 0.0 {
            f32::NEG_INFINITY
        } else if x > 0.0 && x < f32::INFINITY {
            0.0
        } else if x < 0.0 {
            f32::NAN
        } else {
            x
        }
    }
}

/// 1 / x for any x whose reciprocal is a normal number, ±0, ±∞ and NaN, correctly rounded: for every `f16`.
///
/// On a GPU, what [`recip_of_normal`] leaves out the approximation has exactly.
#[inline(always)]
pub(super) fn half_recip(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = nvvm_approximate_recip(x);
        let refined = single::fma(y, single::fma(-x, y, 1.0), y);
        if refined.is_nan() { y } else { refined }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return 1.0 / x;
}

/// a / b of two `f16`, correctly rounded.
///
/// On a GPU it is a quotient with an error below 2^-45 before its last rounding, while a quotient of two numbers of 11 bits is
/// no nearer than 2^-36 to the middle of two f32, and never in the middle. What has no such quotient is a times the
/// approximation of 1 / b, which is exact.
#[inline(always)]
pub(super) fn half_quotient(a: f32, b: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = nvvm_approximate_recip(b);
        let inverse = single::fma(y, single::fma(-b, y, 1.0), y);
        let rough = a * inverse;
        let refined = single::fma(inverse, single::fma(-b, rough, a), rough);
        // The sum of two zeros may have lost the sign.
        if refined.is_nan() {
            a * y
        } else {
            refined.copysign(rough)
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return a / b;
}

/// √x for x ≥ 2^-101, ±0, ∞, x < 0 and NaN, correctly rounded: for every `f16`.
#[inline(always)]
pub(super) fn half_root(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        // Those numbers are their squares, as is 1: ±0 and ∞, which `sqrt_of_normal` leaves out.
        if x * x == x { x } else { sqrt_of_normal(x) }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    return x.sqrt();
}

/// 1 / √x, of which both are rounded once, for the x of [`half_root`].
#[inline(always)]
pub(super) fn half_rsqrt(x: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let y = nvvm_approximate_rsqrt(x);
        let refined = recip_of_normal(sqrt_of_normal(x));
        if refined.is_nan() { y } else { refined }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if x == 0.0 {
        f32::INFINITY.copysign(x)
    } else {
        1.0 / x.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of every approximation that is as good as PTX promises, and of the host's formula, which is compared in integers. Other
    /// exponents change nothing, and no x that is farther from the middle of two floats than the error.
    #[test]
    fn reciprocal_roots_do_not_depend_on_the_approximation() {
        let error = 2f64.powf(-22.8);
        let mut near = 0;
        for x in (1f32.to_bits()..4f32.to_bits()).map(f32::from_bits) {
            let exact = 1.0 / f64::from(x).sqrt();
            let nearest = exact as f32;
            let to_other = if exact < f64::from(nearest) {
                nearest.next_down()
            } else {
                nearest.next_up()
            };
            let middle = 0.5 * (f64::from(nearest) + f64::from(to_other));
            if (exact - middle).abs() > 2f64.powi(-41) {
                continue;
            }
            near += 1;
            assert_eq!(rsqrt_of_normal(x), nearest, "{x}");
            // x · middle² against 1, where x has 23 bits behind the point and the middle 26.
            let scaled = |x: f64, bits: i32| (x * 2f64.powi(bits)) as u128;
            let is_above = scaled(f64::from(x), 23) * scaled(middle, 26).pow(2) < 1 << 75;
            assert_eq!(is_above, exact > middle, "{x}");
            let mut y = (exact * (1.0 - error)) as f32;
            while f64::from(y) <= exact * (1.0 + error) {
                assert_eq!(refined_rsqrt(x, y), nearest, "{x} by {y}");
                y = y.next_up();
            }
        }
        assert!(near > 100);
    }
}
