// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators of reductions that take more than one function of numbers: moments and positions.

mod divisor;
mod steps;

use bytemuck::{Pod, Zeroable};
use cuda_block::thread::fold_pairwise;
use cuda_block::warp::all_reduce_groups;
use cuda_std::Float;
use cuda_std::half::{bf16, bf16_from_f32, f16, f16_from_f32};
use cuda_std::{hint, warp};

use super::{ReduceOp, Vectors, fold_vectors, lift_items, sum_of_lane};
use crate::num::{Num, any_of};

use divisor::{Divisor, opaque};
pub use steps::WideSum;

/// The bit of the count that [`Variance`] is given where the standard deviation is wanted: one kernel finishes both.
pub const ROOT: u64 = 1 << 63;

/// A number that has a mean and a variance.
pub trait Statistic: Num {
    /// The type of a mean: the float itself, and `f64` for integers.
    type Mean: Pod + Send + Sync;

    /// The nearest number of that type.
    fn mean_from(value: f64) -> Self::Mean;
}

macro_rules! statistics {
    ($($type:ty: $mean:ty = $from:expr;)*) => {$(
        impl Statistic for $type {
            type Mean = $mean;

            #[inline(always)]
            fn mean_from(value: f64) -> $mean {
                let from: fn(f64) -> $mean = $from;
                from(value)
            }
        }
    )*};
}

statistics! {
    f32: f32 = |value| value as f32;
    f64: f64 = |value| value;
    f16: f16 = |value| f16_from_f32(rounded_to_odd(value));
    bf16: bf16 = |value| bf16_from_f32(rounded_to_odd(value));
    i32: f64 = |value| value;
    i64: f64 = |value| value;
    u8: f64 = |value| value;
    u16: f64 = |value| value;
    u32: f64 = |value| value;
    u64: f64 = |value| value;
}

/// The value as an `f32`, and where that is not exact the neighbour whose last bit is 1. Rounding it to a 16-bit float
/// then gives what rounding the value at once would (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded
/// sums", 2008), which the nearest `f32` does not.
#[inline(always)]
fn rounded_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let widened = nearest as f64;
    if widened == value || value.is_nan() {
        return nearest;
    }
    let towards_zero = nearest.to_bits() - u32::from(Float::abs(widened) > Float::abs(value));
    f32::from_bits(towards_zero | 1)
}

/// The mean: summed in `f64`, divided by the count, and rounded to [`Statistic::Mean`].
#[derive(Clone, Copy, Debug)]
pub struct Mean;

impl<T: Statistic> ReduceOp<T> for Mean {
    type Acc = f64;
    type Output = T::Mean;

    #[inline(always)]
    fn identity() -> f64 {
        0.0
    }

    #[inline(always)]
    fn lift(x: T, _: u64) -> f64 {
        x.to_f64()
    }

    #[inline(always)]
    fn combine(a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline(always)]
    fn finish(acc: f64, count: u64) -> T::Mean {
        T::mean_from(acc / count as f64)
    }
}

/// Number, mean, and sum of the squared deviations from the mean of some elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Moments {
    count: f64,
    mean: f64,
    deviations: f64,
}

impl Moments {
    const EMPTY: Self = Self {
        count: 0.0,
        mean: 0.0,
        deviations: 0.0,
    };

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of<T: Num>(x: T) -> Self {
        let mean = x.to_f64();
        Self {
            count: 1.0,
            mean,
            // 0, and NaN where the element is infinite or NaN: so is the variance.
            #[allow(clippy::eq_op)]
            deviations: (mean - mean) * (mean - mean),
        }
    }

    /// Those of `N` elements, which takes no division by a variable.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_all<T: Num, const N: usize>(values: [T; N]) -> Self {
        if !N.is_multiple_of(4) {
            return fold_pairwise(
                cuda_std::array::from_fn::<_, N, _>(|k| Self::of(values[k])),
                Self::combine,
            );
        }
        let four = |i: usize| Self::of_four([values[i], values[i + 1], values[i + 2], values[i + 3]]);
        // The counts are constants, and so are the weights.
        let mut all = four(0);
        for i in 1..N / 4 {
            all = Self::combine(all, four(4 * i));
        }
        all
    }

    /// Those of four elements in two passes.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_four<T: Num>(values: [T; 4]) -> Self {
        let values: [f64; 4] = cuda_std::array::from_fn(|k| values[k].to_f64());
        let mean = fold_pairwise(values, |a, b| a + b) * 0.25;
        let squares: [f64; 4] = cuda_std::array::from_fn(|k| (values[k] - mean) * (values[k] - mean));
        Self {
            count: 4.0,
            mean,
            deviations: fold_pairwise(squares, |a, b| a + b),
        }
    }

    /// Those of a lane's vectors, as [`ReduceOp::lift_lane`] has them: in two passes, and by one division, which is ahead of
    /// a loop over rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_lane<T: Num, const N: usize>(vectors: &impl Vectors<T, N>, (first, step, length): (u32, u32, u32)) -> Self {
        if first >= length {
            return Self::EMPTY;
        }
        let count = f64::from(((length - first + step - 1) >> step.trailing_zeros()) * N as u32);
        // From one of them on: so elements that are all equal have no deviations.
        let origin = vectors.at([first])[0][0].to_f64();
        let mean = origin + Divisor::new(count).divide(sum_of_lane(vectors, (first, step, length), |x| x - origin));
        Self {
            count,
            mean,
            deviations: sum_of_lane(vectors, (first, step, length), |x| (x - mean) * (x - mean)),
        }
    }

    /// Those of groups of lanes: two sums, and a division, in place of one at each level.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_lanes(self, lanes: u32) -> Self {
        // Opaque, so that nothing of it is computed ahead of the loops, and kept in registers that those need.
        let lanes = hint::opaque(lanes);
        if lanes == 1 {
            return self;
        }
        let sum = |value: f64| all_reduce_groups([value], lanes, |a, b| a + b)[0];
        let count = sum(self.count);
        if count == 0.0 {
            return Self::EMPTY;
        }
        let origin = warp::shuffle(warp::FULL_MASK, self.mean, warp::lane_id() & !(lanes - 1));
        let distance = self.mean - origin;
        let shift = sum(self.count * distance) / count;
        let deviation = distance - shift;
        Self {
            count,
            mean: origin + shift,
            deviations: sum(self.deviations + self.count * deviation * deviation),
        }
    }

    /// Those of the elements of both (T. Chan, G. Golub, R. LeVeque, "Updating formulae and a pairwise algorithm for
    /// computing sample variances", 1979).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn combine(a: Self, b: Self) -> Self {
        if b.count == 0.0 {
            return a;
        }
        if a.count == 0.0 {
            return b;
        }
        let count = a.count + b.count;
        let (delta, weight) = (b.mean - a.mean, b.count / count);
        Self {
            count,
            mean: a.mean + delta * weight,
            deviations: a.deviations + b.deviations + delta * weight * (delta * a.count),
        }
    }
}

macro_rules! variances {
    ($($(#[$doc:meta])* $name:ident = |$acc:ident, $count:ident| $result:expr, $flag:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Statistic> ReduceOp<T> for $name {
            type Acc = Moments;
            type Output = T::Mean;

            #[inline(always)]
            fn identity() -> Moments {
                Moments::EMPTY
            }

            #[inline(always)]
            fn lift(x: T, _: u64) -> Moments {
                Moments::of(x)
            }

            #[inline(always)]
            fn lift_all<const N: usize>(values: [T; N], _: u64, _: u64) -> Moments {
                Moments::of_all(values)
            }

            #[inline(always)]
            fn lift_lane<const N: usize>(vectors: &impl Vectors<T, N>, place: (u32, u32, u32)) -> Moments {
                Moments::of_lane(vectors, place)
            }

            #[inline(always)]
            fn combine_lanes<const K: usize>(accs: [Moments; K], lanes: u32) -> [Moments; K] {
                cuda_std::array::map(accs, |acc| acc.of_lanes(lanes))
            }

            #[inline(always)]
            fn combine(a: Moments, b: Moments) -> Moments {
                Moments::combine(a, b)
            }

            #[inline(always)]
            fn finish($acc: Moments, $count: u64) -> T::Mean {
                T::mean_from($result)
            }

            #[inline(always)]
            fn finisher(count: u64) -> impl Fn(Moments) -> T::Mean {
                let (divisor, count) = (Divisor::new((count & !ROOT) as f64), count | $flag);
                move |acc| T::mean_from(root_if_wanted(divisor.divide(acc.deviations), count))
            }
        }
    )*};
}

variances! {
    /// The variance, in one pass: the sum of the squared deviations from the mean, in `f64`, divided by the count that
    /// [`finish`](ReduceOp::finish) is given, which is the number of elements less the degrees of freedom that are
    /// gone. With [`ROOT`] in the count, its square root.
    Variance = |acc, count| variance(acc, count), 0;
    /// The standard deviation: the square root of the [`Variance`], by whose kernels it is computed.
    Std = |acc, count| Float::sqrt(acc.deviations / count as f64), ROOT;
}

/// What a [`Variance`] is finished to.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn variance(acc: Moments, count: u64) -> f64 {
    // Opaque, so that nothing of it is computed ahead of the loops, and kept in registers that those need.
    let (low, high) = (hint::opaque(count as u32), hint::opaque((count >> 32) as u32));
    let count = u64::from(high) << 32 | u64::from(low);
    let variance = acc.deviations / (count & !ROOT) as f64;
    // The root is taken of each: a branch would have blocks spill a register.
    if count & ROOT == 0 {
        variance
    } else {
        Float::sqrt(variance)
    }
}

/// A variance, or its root if the count says so, which is not taken of others: it is a fifth of what a short row takes.
#[inline(always)]
fn root_if_wanted(variance: f64, count: u64) -> f64 {
    if count & ROOT == 0 {
        variance
    } else {
        // Opaque, or the compiler would take it of all.
        Float::sqrt(opaque(variance))
    }
}

/// A number with a place in the order of its type.
pub trait Ordered: Num {
    /// No number has a greater rank.
    const GREATEST_RANK: u64;

    /// Whether it is not a number.
    fn is_nan(self) -> bool;

    /// A number that compares as this one does; of floats, neither the least nor the greatest. Both zeros have the
    /// same.
    fn rank(self) -> u64;
}

macro_rules! ordered_integers {
    ($($type:ident)*) => {$(
        impl Ordered for $type {
            const GREATEST_RANK: u64 = $type::MAX.wrapping_sub($type::MIN) as u64 & u64::MAX >> (64 - $type::BITS);

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }

            #[inline(always)]
            fn rank(self) -> u64 {
                // The least is 0: for signed integers, the sign bit is turned over.
                (self as u64).wrapping_sub($type::MIN as u64)
            }
        }
    )*};
}

/// The bits of a float as an integer that compares as the float does: negative ones are turned over, and come first.
macro_rules! ordered_floats {
    ($($type:ident: $float:ident $bits:ident |$x:ident| $wide:expr;)*) => {$(
        impl Ordered for $type {
            const GREATEST_RANK: u64 = $bits::MAX as u64;

            #[inline(always)]
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }

            #[inline(always)]
            fn rank(self) -> u64 {
                const SIGN: $bits = 1 << ($bits::BITS - 1);
                let $x = self;
                let wide: $float = $wide;
                // −0 + 0 is +0.
                let bits = (wide + 0.0).to_bits();
                (if bits & SIGN == 0 { bits | SIGN } else { !bits }) as u64
            }
        }
    )*};
}

ordered_integers!(i32 i64 u8 u16 u32 u64);
ordered_floats! {
    f32: f32 u32 |x| x;
    f64: f64 u64 |x| x;
    f16: f32 u32 |x| x.widen();
    bf16: f32 u32 |x| x.widen();
}

/// An element's rank, and where it stands.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Ranked {
    rank: u64,
    index: u64,
}

impl Ranked {
    /// Behind every element whose rank is at most `greatest`: behind those of that rank by its index.
    #[inline(always)]
    const fn behind(greatest: u64) -> Self {
        Self {
            rank: greatest,
            index: u64::MAX,
        }
    }

    /// The one of the lower rank; of equal ones, the first.
    #[inline(always)]
    fn first(a: Self, b: Self) -> Self {
        let b_is_first = b.rank < a.rank || (b.rank == a.rank && b.index < a.index);
        Self {
            rank: if b_is_first { b.rank } else { a.rank },
            index: if b_is_first { b.index } else { a.index },
        }
    }
}

/// The first of the numbers that come before all others, and how many stand in front of it.
#[derive(Clone, Copy)]
struct Found<W> {
    /// NaN comes before every number; if it is one, `value` says nothing.
    is_nan: bool,
    value: W,
    number: u32,
}

impl<W: Ordered> Found<W> {
    /// Among vectors, one behind the other. `precedes` is the order of numbers.
    ///
    /// One comparison and two selections for each number, and half a comparison for NaN, whose place is looked for
    /// only where there is one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn among<T: Ordered<Wide = W>, const N: usize, const U: usize>(
        vectors: &[[T; N]; U],
        precedes: impl Fn(W, W) -> bool,
    ) -> Self {
        let first = |a: (W, u32), b: (W, u32)| {
            let b_is_first = precedes(b.0, a.0);
            (if b_is_first { b.0 } else { a.0 }, if b_is_first { b.1 } else { a.1 })
        };
        let at = |u: usize, k: usize| (vectors[u][k].widen(), (u * N + k) as u32);
        let (mut found, mut is_nan) = (at(0, 0), false);
        for u in 0..U {
            // Long vectors each by itself first: their chains of comparisons do not wait for one another.
            let mut chain = if N > 4 { at(u, 0) } else { found };
            for k in 0..N {
                chain = first(chain, at(u, k));
            }
            found = if N > 4 { first(found, chain) } else { chain };
            is_nan |= any_of(vectors[u], |x| x.widen().is_nan());
        }
        let (value, number) = found;
        let number = if is_nan { first_nan(vectors) } else { number };
        Self { is_nan, value, number }
    }
}

/// The number of the first NaN of vectors, one behind the other.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn first_nan<T: Ordered, const N: usize, const U: usize>(vectors: &[[T; N]; U]) -> u32 {
    let mut number = 0;
    for u in (0..U).rev() {
        for k in (0..N).rev() {
            // Not of the widened number: all of those would have to stay in registers until here.
            number = if vectors[u][k].is_nan() {
                (u * N + k) as u32
            } else {
                number
            };
        }
    }
    number
}

/// The first of the lowest rank, and its number, where ranks have 16 bits: the number stands below the rank in a word,
/// so that one minimum keeps both.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn first_by_word<T: Ordered, const N: usize, const U: usize>(
    vectors: &[[T; N]; U],
    rank: impl Fn(T) -> u64,
) -> (u64, u32) {
    let mut first = u32::MAX;
    for u in 0..U {
        for k in 0..N {
            let word = (rank(vectors[u][k]) as u32) << 16 | (u * N + k) as u32;
            first = Ord::min(first, word);
        }
    }
    (u64::from(first >> 16), first & 0xffff)
}

macro_rules! positions {
    ($($(#[$doc:meta])* $name:ident = $precedes:tt by |$x:ident: $type:ident| $rank:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl $name {
            /// Lower than that of every number that comes later, and above 0 for floats.
            #[inline(always)]
            fn rank<$type: Ordered>($x: $type) -> u64 {
                $rank
            }

            /// The rank of the first element, 0 for NaN, which comes before every number, as in NumPy; and its number.
            #[inline(always)]
            fn first<T: Ordered<Wide: Ordered>, const N: usize, const U: usize>(vectors: &[[T; N]; U]) -> (u64, u32) {
                if T::GREATEST_RANK <= u64::from(u16::MAX) {
                    return first_by_word(vectors, Self::rank);
                }
                let found = Found::among(vectors, |a, b| a $precedes b);
                let rank = if found.is_nan { 0 } else { Self::rank(found.value) };
                (rank, found.number)
            }

            /// The first element of vectors, of which the first starts with number `first`, and each next one `stride`
            /// further on.
            #[inline(always)]
            fn ranked<T: Ordered<Wide: Ordered>, const N: usize, const U: usize>(
                vectors: &[[T; N]; U],
                first: u64,
                stride: u64,
            ) -> Ranked {
                let (rank, number) = Self::first(vectors);
                // Powers of two: a shift and a mask.
                let (u, k) = (number / N as u32, number % N as u32);
                let index = first + u64::from(u) * stride + u64::from(k);
                Ranked { rank, index }
            }
        }

        impl<T: Ordered<Wide: Ordered>> ReduceOp<T> for $name {
            type Acc = Ranked;
            type Output = u64;

            #[inline(always)]
            fn identity() -> Ranked {
                // Not the greatest of all ranks: of 32 bits, the upper half is known to be 0.
                Ranked::behind(T::GREATEST_RANK)
            }

            #[inline(always)]
            fn lift(x: T, index: u64) -> Ranked {
                let rank = if x.is_nan() { 0 } else { Self::rank(x) };
                Ranked { rank, index }
            }

            #[inline(always)]
            fn lift_all<const N: usize>(values: [T; N], first: u64, step: u64) -> Ranked {
                let (rank, number) = Self::first(&[values]);
                let index = first + u64::from(number) * step;
                Ranked { rank, index }
            }

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn lift_vectors<const N: usize, const U: usize>(vectors: [[T; N]; U], first: u64, stride: u64) -> Ranked {
                // More than 32 numbers, unpacked, do not fit into the registers at once; of bytes, not even those of
                // two vectors.
                if N > 8 {
                    return fold_vectors::<T, Self, N, U>(vectors, first, stride);
                }
                if N > 4 && U == 8 {
                    let half = |from: usize| -> [[T; N]; 4] { cuda_std::array::from_fn(|u| vectors[from + u]) };
                    let (a, b) = (half(0), half(4));
                    return Ranked::first(Self::ranked(&a, first, stride), Self::ranked(&b, first + 4 * stride, stride));
                }
                Self::ranked(&vectors, first, stride)
            }

            #[inline(always)]
            fn lift_some<const N: usize, const U: usize>(
                vectors: [[T; N]; U],
                _: impl Fn(usize) -> bool,
                first: u64,
                stride: u64,
            ) -> Ranked {
                // Those that are there are the first ones of their rank.
                lift_items::<T, Self, N, U>(vectors, first, stride)
            }

            #[inline(always)]
            fn combine(a: Ranked, b: Ranked) -> Ranked {
                Ranked::first(a, b)
            }

            #[inline(always)]
            fn finish(acc: Ranked, _: u64) -> u64 {
                acc.index
            }
        }
    )*};
}

positions! {
    /// The index of the smallest element, and of several the first; of the first NaN, if there is one.
    ArgMin = < by |x: T| x.rank();
    /// The index of the largest element, and of several the first; of the first NaN, if there is one.
    ArgMax = > by |x: T| T::GREATEST_RANK - x.rank();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Max, Min};

    /// Vectors of few different values, so that many are equal; number `seed` of them.
    fn vectors<T: Num, const N: usize, const U: usize>(values: &[T], seed: usize) -> [[T; N]; U] {
        cuda_std::array::from_fn(|u| {
            cuda_std::array::from_fn(|k| values[(seed * (u * N + k + 1) * 7919 + seed / 7) % values.len()])
        })
    }

    /// What an operator gives for vectors and for each of them is what it gives for their elements, one by one.
    fn agrees<T: Num, Op: ReduceOp<T>, const N: usize>(values: &[T]) {
        // All vectors of one value are the same.
        let seeds = if values.len() == 1 { 1 } else { 500 };
        for seed in 0..seeds {
            let vectors: [[T; N]; 8] = vectors(values, seed);
            let mut all = Op::identity();
            for u in 0..8 {
                let mut one = Op::identity();
                for k in 0..N {
                    let first = 100 + 1000 * u as u64;
                    one = Op::combine(one, Op::lift(vectors[u][k], first + k as u64));
                    all = Op::combine(all, Op::lift(vectors[u][k], first + k as u64));
                }
                assert_eq!(bits(&Op::lift_all(vectors[u], 100 + 1000 * u as u64, 1)), bits(&one));
            }
            assert_eq!(
                bits(&Op::lift_vectors(vectors, 100, 1000)),
                bits(&all),
                "of all vectors, {seed}"
            );
        }
    }

    /// To tell −0 from +0, and to compare NaN.
    fn bits<A: Pod>(value: &A) -> &[u8] {
        bytemuck::bytes_of(value)
    }

    fn all_operators<T: Ordered<Wide: Ordered>, const N: usize>(values: &[T]) {
        agrees::<T, ArgMin, N>(values);
        agrees::<T, ArgMax, N>(values);
        agrees::<T, Min, N>(values);
        agrees::<T, Max, N>(values);
        // Those of elements that are all equal, also to the identity.
        for value in values {
            agrees::<T, ArgMin, N>(&[*value]);
            agrees::<T, ArgMax, N>(&[*value]);
        }
    }

    #[test]
    fn vectors_give_what_their_elements_give() {
        all_operators::<i32, 4>(&[i32::MIN, -1, 0, 1, i32::MAX]);
        all_operators::<u32, 4>(&[0, 1, u32::MAX]);
        all_operators::<i64, 2>(&[i64::MIN, -1, 0, i64::MAX]);
        all_operators::<u64, 2>(&[0, 1, u64::MAX]);
        all_operators::<u16, 8>(&[0, 1, 255, 256, u16::MAX]);
        all_operators::<u8, 16>(&[0, 1, 254, u8::MAX]);
    }

    #[test]
    fn vectors_of_floats_give_what_their_elements_give() {
        let numbers = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 2.0, f64::INFINITY];
        let few_nans = [-1.0, 0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, f64::NAN];
        for values in [&numbers[..], &numbers[2..4], &few_nans] {
            let of = |index: usize| values[index % values.len()];
            all_operators::<f64, 2>(&cuda_std::array::from_fn::<_, 66, _>(of));
            all_operators::<f32, 4>(&cuda_std::array::from_fn::<_, 66, _>(|i| of(i) as f32));
            all_operators::<f16, 8>(&cuda_std::array::from_fn::<_, 66, _>(|i| f16_from_f32(of(i) as f32)));
            all_operators::<bf16, 8>(&cuda_std::array::from_fn::<_, 66, _>(|i| bf16_from_f32(of(i) as f32)));
        }
    }
}
