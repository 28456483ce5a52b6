// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators: types without values that name what a kernel computes for each element or pair.
//!
//! A kernel is written once, generic over its operator; other kernel crates implement these traits for operators of
//! their own.

use bytemuck::Pod;
use cuda_block::thread::{fold, fold_pairwise};
use cuda_block::warp::{all_reduce_groups, scan_rows};
use cuda_std::hint;

use crate::num::{Accumulator, CastTo, Num, WrappingCastTo};
use crate::scan::scan_segments;

mod bits;
mod compound;
mod math;
mod predicates;

pub use bits::{BitAnd, BitOr, BitXor, Not, Shl, Shr, Width};
pub use compound::{ArgMax, ArgMin, Mean, Moments, Ordered, ROOT, Ranked, Statistic, Std, Variance, WideSum};
pub use math::*;
pub use predicates::{All, Any};

/// Computes one number of two.
pub trait BinaryOp<T>: 'static {
    /// The result for `a` and `b`.
    fn apply(a: T, b: T) -> T;
}

/// Compares two numbers.
pub trait CompareOp<T>: 'static {
    /// Whether the comparison of `a` with `b` holds.
    fn holds(a: T, b: T) -> bool;
}

/// Computes one number of one, perhaps of another type.
pub trait UnaryOp<T, U = T>: 'static {
    /// The result for `x`.
    fn apply(x: T) -> U;
}

/// Vectors of `N` elements of a row, by their number: what [`ReduceOp::lift_lane`] is given.
pub trait Vectors<T, const N: usize> {
    /// The vectors of these numbers, loaded together. There are such.
    fn at<const U: usize>(&self, numbers: [u32; U]) -> [[T; N]; U];
}

/// Combines any number of elements into one: what a reduction and a scan compute.
///
/// An element is lifted to an `Acc`, those are combined, and the last one is finished to the `Output`. Other kernel
/// crates implement this trait for operators of their own ([`reduce`](crate::reduce) shows how).
pub trait ReduceOp<T>: 'static {
    /// What the elements are combined in: at most 32 bytes.
    type Acc: Pod + Send + Sync;

    /// What the result is.
    type Output: Pod + Send + Sync;

    /// The result for no element; combined with any value, on either side, it gives that value.
    fn identity() -> Self::Acc;

    /// The result for one element, number `index` of those that are combined (in C order).
    fn lift(x: T, index: u64) -> Self::Acc;

    /// The result for `N` elements, of which the first has number `first` and each next one `step` more.
    ///
    /// What a reduction does with the elements that a thread has loaded together. By default they are lifted, and then
    /// combined as a tree; an operator whose combination is costly may have a better way.
    #[inline(always)]
    fn lift_all<const N: usize>(values: [T; N], first: u64, step: u64) -> Self::Acc
    where
        T: Copy,
    {
        let lifted = cuda_std::array::from_fn(|k| Self::lift(values[k], first + k as u64 * step));
        fold_pairwise::<_, N>(lifted, Self::combine)
    }

    /// The result for `U` vectors of `N` neighbours, of which the first starts with number `first`, and each next one
    /// `stride` further on.
    ///
    /// What a reduction does with vectors as they were loaded: one of them, or all that a thread has in flight, where an
    /// `Acc` has more than 8 bytes, and no registers are left for several of them. By default, the vectors are treated
    /// by [`lift_all`](Self::lift_all) and combined one after another.
    #[inline(always)]
    fn lift_vectors<const N: usize, const U: usize>(vectors: [[T; N]; U], first: u64, stride: u64) -> Self::Acc
    where
        T: Copy,
    {
        fold_vectors::<T, Self, N, U>(vectors, first, stride)
    }

    /// The result for those of `U` vectors that are there, as [`lift_vectors`](Self::lift_vectors): the first one, and no
    /// other behind one that is not. In place of those that are not, there are others of the same row, whose own numbers are
    /// lower than those of the places where they stand; their results are combined with this one sooner or later. So an operator
    /// to which it makes no difference that an element comes twice, the second time with a higher number, may combine all
    /// `U`.
    ///
    /// What a reduction does with the last vectors of a row. By default, they are combined one after another.
    #[inline(always)]
    fn lift_some<const N: usize, const U: usize>(
        vectors: [[T; N]; U],
        is_there: impl Fn(usize) -> bool,
        first: u64,
        stride: u64,
    ) -> Self::Acc
    where
        T: Copy,
    {
        fold_some::<T, Self, N, U>(vectors, is_there, first, stride)
    }

    /// The result for a lane's vectors of a row: those of `vectors` from `first` on, `first + step` and so on below `length`,
    /// these three being `place`. `step` is a power of two.
    ///
    /// What a reduction does with rows in shared memory. By default, several are lifted together, and combined one after
    /// another; an operator whose combination is costly may go through them twice.
    #[inline(always)]
    fn lift_lane<const N: usize>(vectors: &impl Vectors<T, N>, place: (u32, u32, u32)) -> Self::Acc
    where
        T: Copy,
    {
        fold_lane::<T, Self, N>(vectors, place)
    }

    /// The results of groups of `lanes` lanes, a power of two, for each of `K` rows: what each of them has, combined. Called by
    /// all lanes.
    ///
    /// By default by shuffles; an operator may have a way to combine the values of all lanes at once.
    #[inline(always)]
    fn combine_lanes<const K: usize>(accs: [Self::Acc; K], lanes: u32) -> [Self::Acc; K] {
        all_reduce_groups(accs, lanes, Self::combine)
    }

    /// The result for `N` neighbours, of which the first has number `first`, combined in their order.
    ///
    /// What a scan does with a vector before it knows what stands before it. By default they are combined one after
    /// another.
    #[inline(always)]
    fn lift_in_order<const N: usize>(values: [T; N], first: u64) -> Self::Acc
    where
        T: Copy,
    {
        fold(lift::<T, Self, N>(values, first), Self::combine)
    }

    /// For each of this lane's values, one of each of `U` rows of a warp's values, what stands before it in its row and
    /// the rows before; and the total of all. Each value is that of at most 16 elements. Called by all lanes.
    ///
    /// By default each row is scanned by shuffles; an operator may have a way to do so in fewer.
    #[inline(always)]
    fn scan_warp<const U: usize>(values: [Self::Acc; U]) -> ([Self::Acc; U], Self::Acc) {
        scan_rows(values, Self::identity(), Self::combine)
    }

    /// [`scan_warp`](Self::scan_warp) of rows that lie one behind the other: a bit of `heads[u]` says that one begins in the
    /// value that the lane of that number has of row `u` of the warp's values, and what stands before a value, and the total,
    /// are those from the last beginning on.
    ///
    /// By default by shuffles as well.
    #[inline(always)]
    fn scan_segments<const U: usize>(values: [Self::Acc; U], heads: [u32; U]) -> ([Self::Acc; U], Self::Acc) {
        scan_segments(values, heads, Self::identity(), Self::combine)
    }

    /// The result for bytes whose sum this is, where the elements are bytes and nothing but their sum is asked for: a
    /// reduction of columns then adds four of them at a time. `None`, the default, for all other operators.
    #[inline(always)]
    fn of_bytes(_sum: u32) -> Option<Self::Acc> {
        None
    }

    /// The result for all elements of `a` and of `b`, where those of `a` stand before those of `b`.
    ///
    /// Associative, up to rounding. A scan keeps the order of the elements; a reduction does not, and wants an operator
    /// that is commutative as well.
    fn combine(a: Self::Acc, b: Self::Acc) -> Self::Acc;

    /// What is given for `count` elements that were combined to `acc`.
    fn finish(acc: Self::Acc, count: u64) -> Self::Output;

    /// [`finish`](Self::finish) of many values, each of as many elements: what depends on the count alone may be computed
    /// here, once.
    #[inline(always)]
    fn finisher(count: u64) -> impl Fn(Self::Acc) -> Self::Output {
        move |acc| Self::finish(acc, count)
    }
}

/// [`ReduceOp::lift_vectors`] by default.
#[inline(always)]
pub(crate) fn fold_vectors<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize, const U: usize>(
    vectors: [[T; N]; U],
    first: u64,
    stride: u64,
) -> Op::Acc {
    let mut acc = Op::lift_all(vectors[0], first, 1);
    for u in 1..U {
        acc = Op::combine(acc, Op::lift_all(vectors[u], first + u as u64 * stride, 1));
    }
    acc
}

/// [`ReduceOp::lift_some`] by default.
#[inline(always)]
pub(crate) fn fold_some<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize, const U: usize>(
    vectors: [[T; N]; U],
    is_there: impl Fn(usize) -> bool,
    first: u64,
    stride: u64,
) -> Op::Acc {
    // Of the first ones, and of those that are there: so it is a constant how many elements are combined with a vector.
    let mut all = Op::lift_vectors([vectors[0]], first, 0);
    let mut some = all;
    for u in 1..U {
        all = Op::combine(all, Op::lift_vectors([vectors[u]], first + u as u64 * stride, 0));
        some = if is_there(u) { all } else { some };
    }
    some
}

/// `acc` with vectors of a row: the first is number `first` of `length`, each next one `step` further on, and behind the last
/// one of the row there are others of it.
#[inline(always)]
pub(crate) fn combine_vectors<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize, const U: usize>(
    acc: Op::Acc,
    vectors: [[T; N]; U],
    (first, step, length): (u32, u32, u32),
) -> Op::Acc {
    let (place, stride) = (u64::from(first) * N as u64, u64::from(step) * N as u64);
    let lifted = if first + (U as u32 - 1) * step < length {
        lift_items::<T, Op, N, U>(vectors, place, stride)
    } else {
        Op::lift_some(vectors, |u| first + (u as u32) * step < length, place, stride)
    };
    Op::combine(acc, lifted)
}

/// [`ReduceOp::lift_lane`] by default: eight elements at a time, or four words. What is left are elements as they are, of which
/// those that are not there are left out, or words one after another.
#[inline(always)]
fn fold_lane<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize>(
    vectors: &impl Vectors<T, N>,
    (mut i, step, length): (u32, u32, u32),
) -> Op::Acc {
    let mut acc = Op::identity();
    if N > 1 {
        acc = fold_whole::<T, Op, N, 4>(vectors, (&mut i, step, length), acc);
        while i < length {
            acc = Op::combine(acc, Op::lift_vectors(vectors.at([i]), u64::from(i) * N as u64, 0));
            // Opaque, so that it is not written out.
            i += hint::opaque(step);
        }
        return acc;
    }
    acc = fold_whole::<T, Op, N, 8>(vectors, (&mut i, step, length), acc);
    if i + 4 * step < length {
        acc = fold_rest::<T, Op, N, 8>(vectors, (i, step, length), acc);
    } else if i < length {
        acc = fold_rest::<T, Op, N, 4>(vectors, (i, step, length), acc);
    }
    acc
}

/// `acc` with a lane's vectors, `U` at a time, as long as there are as many.
#[inline(always)]
fn fold_whole<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize, const U: usize>(
    vectors: &impl Vectors<T, N>,
    (i, step, length): (&mut u32, u32, u32),
    mut acc: Op::Acc,
) -> Op::Acc {
    while *i + (U as u32 - 1) * step < length {
        let loaded = vectors.at(cuda_std::array::from_fn::<_, U, _>(|u| *i + u as u32 * step));
        let (place, stride) = (u64::from(*i) * N as u64, u64::from(step) * N as u64);
        acc = Op::combine(acc, lift_items::<T, Op, N, U>(loaded, place, stride));
        *i += U as u32 * step;
    }
    acc
}

/// `acc` with those of a lane's next `U` vectors that are there.
#[inline(always)]
fn fold_rest<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize, const U: usize>(
    vectors: &impl Vectors<T, N>,
    (i, step, length): (u32, u32, u32),
    acc: Op::Acc,
) -> Op::Acc {
    // Of those that are not, the last one again.
    let loaded = vectors.at(cuda_std::array::from_fn::<_, U, _>(|u| {
        Ord::min(i + u as u32 * step, length - 1)
    }));
    let (place, stride) = (u64::from(i) * N as u64, u64::from(step) * N as u64);
    let lifted = Op::lift_some(loaded, |u| i + u as u32 * step < length, place, stride);
    Op::combine(acc, lifted)
}

/// The sum of a function of the elements of a lane's vectors, as [`ReduceOp::lift_lane`] has them.
#[inline(always)]
pub(crate) fn sum_of_lane<T: Num, const N: usize>(
    vectors: &impl Vectors<T, N>,
    (mut i, step, length): (u32, u32, u32),
    of: impl Fn(f64) -> f64,
) -> f64 {
    let of_vector = |i: u32| {
        fold_pairwise(cuda_std::array::map(vectors.at([i])[0], |x| of(x.to_f64())), |a, b| {
            a + b
        })
    };
    let mut sum = 0.0;
    while i + 3 * step < length {
        let four: [f64; 4] = cuda_std::array::from_fn(|k| of_vector(i + k as u32 * step));
        sum += fold_pairwise(four, |a, b| a + b);
        i += 4 * step;
    }
    while i < length {
        sum += of_vector(i);
        i += step;
    }
    sum
}

/// [`ReduceOp::lift_vectors`], of vectors of one element by [`ReduceOp::lift_all`].
#[inline(always)]
pub(crate) fn lift_items<T: Copy, Op: ReduceOp<T> + ?Sized, const N: usize, const U: usize>(
    vectors: [[T; N]; U],
    first: u64,
    stride: u64,
) -> Op::Acc {
    if N == 1 {
        return Op::lift_all(cuda_std::array::map(vectors, |vector| vector[0]), first, stride);
    }
    Op::lift_vectors(vectors, first, stride)
}

/// The values of a vector whose first element has the number `index` in its row.
#[inline(always)]
pub(crate) fn lift<T: Copy, Op: ReduceOp<T> + ?Sized, const V: usize>(vector: [T; V], index: u64) -> [Op::Acc; V] {
    cuda_std::array::from_fn(|k| Op::lift(vector[k], index.wrapping_add(k as u64)))
}

/// The results for one vector, before which stands `before`, and whose first element is number `index` of its row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(crate) fn results<T, Op: ReduceOp<T> + ?Sized, const V: usize>(
    before: Op::Acc,
    values: [Op::Acc; V],
    index: u64,
    exclusive: bool,
) -> [Op::Output; V] {
    let mut acc = before;
    cuda_std::array::from_fn(|k| {
        let (before, count) = (acc, index.wrapping_add(k as u64));
        acc = Op::combine(acc, values[k]);
        // Not by `finish`: look-back would spill registers (docs/build-times.md).
        if exclusive {
            Op::finish(before, count)
        } else {
            Op::finish(acc, count.wrapping_add(1))
        }
    })
}

/// The result of a scan at element number `index`, of what stands before it, or of that and the element, `acc`. One of
/// them is finished, and not both for one to be taken.
#[inline(always)]
pub(crate) fn finish<T, Op: ReduceOp<T> + ?Sized>(
    before: Op::Acc,
    acc: Op::Acc,
    index: u64,
    exclusive: bool,
) -> Op::Output {
    let (value, count) = if exclusive {
        (before, index)
    } else {
        (acc, index.wrapping_add(1))
    };
    Op::finish(value, count)
}

macro_rules! binary_ops {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> BinaryOp<T> for $name {
            #[inline(always)]
            fn apply(a: T, b: T) -> T {
                a.$method(b)
            }
        }
    )*};
}

macro_rules! unary_ops {
    ($($(#[$doc:meta])* $name:ident = |$x:ident| $result:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> UnaryOp<T> for $name {
            #[inline(always)]
            fn apply($x: T) -> T {
                $result
            }
        }
    )*};
}

/// Sums and products: of integers in 64 bits.
macro_rules! totals {
    ($(
        $(#[$doc:meta])*
        $name:ident = $method:ident or $all:ident from $identity:ident
        $(, of vectors $vectors:ident and bytes $bytes:ident, scanned by $in_order:ident and $warp:ident or $segments:ident)?;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> ReduceOp<T> for $name {
            type Acc = Accumulator<T>;
            type Output = T::Total;

            #[inline(always)]
            fn identity() -> Accumulator<T> {
                Num::$identity
            }

            #[inline(always)]
            fn lift(x: T, _: u64) -> Accumulator<T> {
                x.accumulate()
            }

            #[inline(always)]
            fn lift_all<const N: usize>(values: [T; N], _: u64, _: u64) -> Accumulator<T> {
                T::$all(values)
            }

            #[inline(always)]
            fn lift_some<const N: usize, const U: usize>(
                vectors: [[T; N]; U],
                is_there: impl Fn(usize) -> bool,
                first: u64,
                stride: u64,
            ) -> Accumulator<T> {
                if N == 1 {
                    return T::$all(cuda_std::array::from_fn::<_, U, _>(|u| {
                        if is_there(u) { vectors[u][0] } else { <T as Num>::$identity }
                    }));
                }
                let mut acc = Self::lift_vectors([vectors[0]], first, stride);
                for u in 1..U {
                    let lifted = Self::lift_vectors([vectors[u]], first, stride);
                    acc = acc.$method(if is_there(u) { lifted } else { Num::$identity });
                }
                acc
            }

            $(
                #[inline(always)]
                fn lift_vectors<const N: usize, const U: usize>(vectors: [[T; N]; U], _: u64, _: u64) -> Accumulator<T> {
                    T::$vectors(vectors)
                }

                #[inline(always)]
                fn lift_in_order<const N: usize>(values: [T; N], _: u64) -> Accumulator<T> {
                    T::$in_order(values)
                }

                #[inline(always)]
                fn of_bytes(sum: u32) -> Option<Accumulator<T>> {
                    T::$bytes(sum)
                }

                #[inline(always)]
                fn scan_warp<const U: usize>(values: [Accumulator<T>; U]) -> ([Accumulator<T>; U], Accumulator<T>) {
                    T::$warp(values)
                }

                #[inline(always)]
                fn scan_segments<const U: usize>(
                    values: [Accumulator<T>; U],
                    heads: [u32; U],
                ) -> ([Accumulator<T>; U], Accumulator<T>) {
                    T::$segments(values, heads)
                }
            )?

            #[inline(always)]
            fn combine(a: Accumulator<T>, b: Accumulator<T>) -> Accumulator<T> {
                a.$method(b)
            }

            #[inline(always)]
            fn finish(acc: Accumulator<T>, _: u64) -> T::Total {
                T::Total::narrow(acc)
            }
        }
    )*};
}

/// The least and the greatest.
macro_rules! extremes {
    ($($(#[$doc:meta])* $name:ident = $method:ident or $all:ident from $identity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> ReduceOp<T> for $name {
            type Acc = T::Wide;
            type Output = T;

            #[inline(always)]
            fn identity() -> T::Wide {
                <T::Wide as Num>::$identity
            }

            #[inline(always)]
            fn lift(x: T, _: u64) -> T::Wide {
                x.widen()
            }

            #[inline(always)]
            fn lift_all<const N: usize>(values: [T; N], _: u64, _: u64) -> T::Wide {
                T::Wide::$all(cuda_std::array::from_fn::<_, N, _>(|k| values[k].widen()))
            }

            #[inline(always)]
            fn lift_some<const N: usize, const U: usize>(
                vectors: [[T; N]; U],
                _: impl Fn(usize) -> bool,
                first: u64,
                stride: u64,
            ) -> T::Wide {
                // Elements that come twice make no difference.
                lift_items::<T, Self, N, U>(vectors, first, stride)
            }

            #[inline(always)]
            fn combine(a: T::Wide, b: T::Wide) -> T::Wide {
                a.$method(b)
            }

            #[inline(always)]
            fn finish(acc: T::Wide, _: u64) -> T {
                T::narrow(acc)
            }
        }
    )*};
}

binary_ops! {
    /// `a + b`
    Add = add;
    /// `a − b`
    Sub = sub;
    /// `a · b`
    Mul = mul;
    /// `a / b`
    Div = div;
    /// What is left of `a` when it is divided by `b`, with the sign of `a`; 0 for integers where `b` is 0.
    Rem = rem;
    /// The smaller of `a` and `b`.
    Minimum = min;
    /// The larger of `a` and `b`.
    Maximum = max;
}

/// `a` to the power of `b`.
#[derive(Clone, Copy, Debug)]
pub struct Pow;

impl<T: Num> BinaryOp<T> for Pow {
    #[inline(always)]
    fn apply(a: T, b: T) -> T {
        a.pow(b)
    }
}

macro_rules! compare_ops {
    ($($(#[$doc:meta])* $name:ident = $operator:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> CompareOp<T> for $name {
            #[inline(always)]
            fn holds(a: T, b: T) -> bool {
                a.widen() $operator b.widen()
            }
        }
    )*};
}

compare_ops! {
    /// `a = b`: not for NaN, and −0 equals 0.
    Equal = ==;
    /// `a ≠ b`: also where either is NaN.
    NotEqual = !=;
    /// `a < b`
    Less = <;
    /// `a ≤ b`
    LessEqual = <=;
    /// `a > b`
    Greater = >;
    /// `a ≥ b`
    GreaterEqual = >=;
}

unary_ops! {
    /// `−x`
    Neg = |x| x.neg();
    /// `|x|`
    Abs = |x| x.abs();
    /// `x²`
    Square = |x| x.mul(x);
    /// `max(x, 0)`; NaN stays NaN.
    Relu = |x| x.max(T::ZERO);
}

macro_rules! cast_ops {
    ($($(#[$doc:meta])* $name:ident: $trait:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: $trait<U>, U> UnaryOp<T, U> for $name {
            #[inline(always)]
            fn apply(x: T) -> U {
                x.$method()
            }
        }
    )*};
}

cast_ops! {
    /// The number in another type, as Rust's `as`.
    Cast: CastTo = cast;
    /// A float rounded towards zero, modulo 2^bits of an integer type.
    CastWrapping: WrappingCastTo = cast_wrapping;
}

totals! {
    /// The sum, a [`Total`](Num::Total): of integers in 64 bits, which wrap around, as NumPy's.
    Sum = add or sum_of from ZERO, of vectors sum_of_vectors and bytes sum_of_bytes, scanned by sum_in_order and sums_of_warp or sums_of_segments;
    /// The product, a [`Total`](Num::Total): of integers in 64 bits, which wrap around, as NumPy's.
    Product = mul or product_of from ONE;
}

extremes! {
    /// The smallest element; NaN if any is NaN.
    Min = min or min_of from GREATEST;
    /// The largest element; NaN if any is NaN.
    Max = max or max_of from LEAST;
}
