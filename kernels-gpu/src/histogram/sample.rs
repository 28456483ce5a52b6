// SPDX-License-Identifier: MIT OR Apache-2.0
//! The elements that are counted.

use cuda_std::Float;

use crate::num::Num;

use super::Plan;
use super::find::bin_at_position;

/// An element type of histograms.
pub trait Sample: Num {
    /// The number of values, where they are so few that a block counts them instead of bins; otherwise 0.
    const VALUES: u32;

    /// The edge that elements are compared with, for an edge that was computed in `f64`.
    fn edge(edge: f64) -> f64;

    /// The number that is this `f64`, which is one of this type. Of integers of 32 bits, the one with these bits, whether or not the
    /// type has a sign: the same kernel counts both, so that it knows numbers by their distance to the first alone.
    fn of_f64(value: f64) -> Self;

    /// This number, which is counted by `plan`, as an `f64`.
    fn number(self, plan: &Plan) -> f64;

    /// The smallest element of a bin, as [`Search`](super::Search) compares elements with it, where `first` is the least that is
    /// counted: of integers of 32 bits the distance to it, else the element itself.
    fn start(self, first: Self) -> Self;

    /// Whether the element, which is not smaller than `first`, is not smaller than that of a bin's [`start`](Self::start) either.
    fn reaches(self, start: Self, first: Self) -> bool;

    /// Whether the element is from `first` to `last`, of which `last` is not smaller; not for NaN.
    fn is_between(self, first: Self, last: Self) -> bool;

    /// About the distance to `first`, in bins, for elements that are not smaller: never decreasing from one element to
    /// the next larger one, and the same on every machine.
    fn position(self, first: Self, plan: &Plan) -> f32;

    /// The bins of several elements, or [`UNSURE`](super::UNSURE); of those that are not counted, any number.
    fn bins<const N: usize>(plan: &Plan, values: [Self; N]) -> [u32; N];

    /// A number that is ordered as the elements are; −0 is below 0, and NaN is beyond all other floats.
    fn order(self) -> u64;

    /// The `N` elements of 16 bytes, which are these words.
    fn of_words<const N: usize>(words: [u32; 4]) -> [Self; N];

    /// The element that has this [`order`](Self::order).
    fn of_order(order: u64) -> Self;

    /// The number of this value among the [`VALUES`](Self::VALUES); 0 where they are not counted.
    fn value_index(self) -> u32;

    /// The value of that number.
    fn of_value_index(index: u32) -> Self;
}

/// An integer that can be a bin's number.
pub trait Value: Sample {
    /// The number itself, if it is not negative.
    fn bin(self) -> u32;
}

macro_rules! integers {
    ($($type:ident: $values:literal values, order is xor $flip:literal of $bits:ident;)*) => {$(
        impl Sample for $type {
            const VALUES: u32 = $values;

            #[inline(always)]
            fn edge(edge: f64) -> f64 {
                edge
            }

            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                if size_of::<Self>() == 4 { value as i64 as Self } else { value as Self }
            }

            #[inline(always)]
            fn number(self, plan: &Plan) -> f64 {
                if size_of::<Self>() == 4 {
                    plan.first + self.wrapping_sub(Self::of_f64(plan.first)) as $bits as f64
                } else {
                    self as f64
                }
            }

            #[inline(always)]
            fn start(self, first: Self) -> Self {
                if size_of::<Self>() == 4 { self.wrapping_sub(first) } else { self }
            }

            #[inline(always)]
            fn reaches(self, start: Self, first: Self) -> bool {
                start as $bits <= self.start(first) as $bits
            }

            // One comparison, as unsigned numbers.
            #[inline(always)]
            fn is_between(self, first: Self, last: Self) -> bool {
                self.wrapping_sub(first) as $bits <= last.wrapping_sub(first) as $bits
            }

            // The distance is exact, and does not overflow as an unsigned number.
            #[inline(always)]
            fn position(self, first: Self, plan: &Plan) -> f32 {
                (self.wrapping_sub(first) as $bits as u32) as f32 * plan.scale_f32 + plan.offset
            }

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn bins<const N: usize>(plan: &Plan, values: [Self; N]) -> [u32; N] {
                if plan.factor == 0 {
                    return cuda_std::array::map(values, |value| bin_at_position(plan, value));
                }
                cuda_std::array::map(values, |value| {
                    let distance = value.wrapping_sub(Self::of_f64(plan.first)) as $bits as u64;
                    let product = (distance * plan.factor as u64).wrapping_add(plan.addend as u64);
                    let bin = ((product >> 32) as u32).wrapping_shr(plan.shift);
                    Ord::min(bin, plan.bins.wrapping_sub(1))
                })
            }

            #[inline(always)]
            fn order(self) -> u64 {
                (self as $bits ^ $flip) as u64
            }

            // By shifts: elements taken from memory, as a cast does it, would be in registers of their own all along.
            #[inline(always)]
            fn of_words<const N: usize>(words: [u32; 4]) -> [Self; N] {
                const BITS: usize = $bits::BITS as usize;
                cuda_std::array::from_fn(|i| (words[i * BITS / 32 % 4] >> (i * BITS % 32)) as Self)
            }

            #[inline(always)]
            fn of_order(order: u64) -> Self {
                (order as $bits ^ $flip) as Self
            }

            #[inline(always)]
            fn value_index(self) -> u32 {
                if $values == 0 { 0 } else { self as u32 }
            }

            #[inline(always)]
            fn of_value_index(index: u32) -> Self {
                index as Self
            }
        }

        impl Value for $type {
            #[inline(always)]
            fn bin(self) -> u32 {
                self as u32
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ident: $bits:ident, position is |$x:ident, $first:ident, $plan:ident| $position:expr;)*) => {$(
        impl Sample for $type {
            const VALUES: u32 = 0;

            #[inline(always)]
            fn edge(edge: f64) -> f64 {
                edge as Self as f64
            }

            #[inline(always)]
            fn of_f64(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn number(self, _: &Plan) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn start(self, _: Self) -> Self {
                self
            }

            #[inline(always)]
            fn reaches(self, start: Self, _: Self) -> bool {
                start <= self
            }

            #[inline(always)]
            fn is_between(self, first: Self, last: Self) -> bool {
                (self >= first) & (self <= last)
            }

            #[inline(always)]
            fn position(self, $first: Self, $plan: &Plan) -> f32 {
                let $x = self;
                $position
            }

            #[inline(always)]
            fn bins<const N: usize>(plan: &Plan, values: [Self; N]) -> [u32; N] {
                cuda_std::array::map(values, |value| bin_at_position(plan, value))
            }

            // Negative floats are ordered against their bits.
            #[inline(always)]
            fn order(self) -> u64 {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let bits = self.to_bits();
                (if bits & SIGN == 0 { bits | SIGN } else { !bits }) as u64
            }

            #[inline(always)]
            fn of_words<const N: usize>(words: [u32; 4]) -> [Self; N] {
                const WORDS: usize = size_of::<$bits>() / 4;
                cuda_std::array::from_fn(|i| {
                    let low = words[i * WORDS % 4] as u64;
                    let high = words[(i * WORDS + WORDS - 1) % 4] as u64;
                    Self::from_bits((low | high << 32) as $bits)
                })
            }

            #[inline(always)]
            fn of_order(order: u64) -> Self {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let bits = order as $bits;
                Self::from_bits(if bits & SIGN == 0 { !bits } else { bits & !SIGN })
            }

            #[inline(always)]
            fn value_index(self) -> u32 {
                0
            }

            #[inline(always)]
            fn of_value_index(_: u32) -> Self {
                0.0
            }
        }
    )*};
}

integers! {
    u8: 256 values, order is xor 0 of u8;
    u16: 0 values, order is xor 0 of u16;
    u32: 0 values, order is xor 0 of u32;
    i32: 0 values, order is xor 0x8000_0000 of u32;
}
floats! {
    f32: u32, position is |x, first, plan| Float::mul_add(x - first, plan.scale_f32, plan.offset);
    f64: u64, position is |x, first, plan| Float::mul_add(x - first, plan.scale, plan.offset as f64) as f32;
}
