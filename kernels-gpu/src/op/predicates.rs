// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether any element is not 0, and whether none is.
//!
//! Elements of 8 and 16 bits are asked in the words of 32 bits that they are loaded in, without being unpacked: one of them is
//! not 0 where the disjunction of the words is not; and one of a word `w` is 0 where `(w − ones) & !w & signs` is not, where
//! `ones` and `signs` have the lowest and the highest bit of each (H. Warren, "Hacker's Delight", 2nd edition, 6-1): lent
//! is to the lowest element that is 0, and what it lends on makes no element below it look like one. Of `f16` and `bf16` the
//! sign bits are left out, so that −0 is 0, and NaN is not.

use bytemuck::Pod;
use cuda_std::scalar::{Scalar, ScalarType};

use super::{ReduceOp, fold_vectors, lift_items};
use crate::num::Num;

macro_rules! predicates {
    ($($(#[$doc:meta])* $name:ident = $operator:tt from $identity:literal, of words by $of_words:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl<T: Num> ReduceOp<T> for $name {
            type Acc = u32;
            type Output = u8;

            #[inline(always)]
            fn identity() -> u32 {
                $identity
            }

            #[inline(always)]
            fn lift(x: T, _: u64) -> u32 {
                u32::from(x.widen() != <T::Wide as Num>::ZERO)
            }

            #[inline(always)]
            fn lift_vectors<const N: usize, const U: usize>(vectors: [[T; N]; U], first: u64, stride: u64) -> u32 {
                match const { (size_of::<T>(), size_of::<[T; N]>()) } {
                    (1 | 2, 16) => $of_words::<T, U, 4>(words(vectors)),
                    (1 | 2, 8) => $of_words::<T, U, 2>(words(vectors)),
                    (1 | 2, 4) => $of_words::<T, U, 1>(words(vectors)),
                    _ => fold_vectors::<T, Self, N, U>(vectors, first, stride),
                }
            }

            #[inline(always)]
            fn lift_some<const N: usize, const U: usize>(
                vectors: [[T; N]; U],
                _: impl Fn(usize) -> bool,
                first: u64,
                stride: u64,
            ) -> u32 {
                // Those that are not there are of the same row: elements that come twice make no difference.
                lift_items::<T, Self, N, U>(vectors, first, stride)
            }

            #[inline(always)]
            fn combine(a: u32, b: u32) -> u32 {
                a $operator b
            }

            #[inline(always)]
            fn finish(acc: u32, _: u64) -> u8 {
                acc as u8
            }
        }
    )*};
}

predicates! {
    /// 1 if any element is not 0 (NaN is not), else 0.
    Any = | from 0, of words by any_of_words;
    /// 1 if no element is 0, else 0.
    All = & from 1, of words by all_of_words;
}

/// The words of vectors, of which each has `W`.
#[inline(always)]
fn words<T: Pod, const N: usize, const U: usize, const W: usize>(vectors: [[T; N]; U]) -> [[u32; W]; U] {
    cuda_std::array::map(vectors, bytemuck::cast)
}

/// 1 if any element of type `T` in these words is not 0, else 0.
#[inline(always)]
fn any_of_words<T: Scalar, const U: usize, const W: usize>(words: [[u32; W]; U]) -> u32 {
    let mut any = 0;
    for u in 0..U {
        for w in 0..W {
            any |= words[u][w];
        }
    }
    u32::from(any & magnitudes::<T>() != 0)
}

/// 1 if no element of type `T` in these words is 0, else 0.
#[inline(always)]
fn all_of_words<T: Scalar, const U: usize, const W: usize>(words: [[u32; W]; U]) -> u32 {
    let mut zeros = 0;
    for u in 0..U {
        for w in 0..W {
            let word = words[u][w] & magnitudes::<T>();
            zeros |= word.wrapping_sub(ones::<T>()) & !word;
        }
    }
    u32::from(zeros & signs::<T>() == 0)
}

/// The lowest bit of each element of type `T` in a word.
const fn ones<T>() -> u32 {
    u32::MAX / (u32::MAX >> (32 - 8 * size_of::<T>()))
}

/// The highest one.
const fn signs<T>() -> u32 {
    ones::<T>() << (8 * size_of::<T>() - 1)
}

/// The bits of a word that say of its elements whether they are 0: of floats all but the signs.
const fn magnitudes<T: Scalar>() -> u32 {
    match T::TYPE {
        ScalarType::F16 | ScalarType::Bf16 => !signs::<T>(),
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::half::{bf16, f16};

    /// What an operator gives for vectors is what it gives for their elements, one by one.
    #[track_caller]
    fn agrees<T: Num, Op: ReduceOp<T, Acc = u32>, const N: usize, const U: usize>(vectors: [[T; N]; U]) {
        let one_by_one = vectors
            .iter()
            .flatten()
            .fold(Op::identity(), |acc, &x| Op::combine(acc, Op::lift(x, 0)));
        assert_eq!(Op::lift_vectors(vectors, 0, 0), one_by_one);
        assert_eq!(Op::lift_some(vectors, |_| true, 0, 0), one_by_one);
    }

    /// Vectors of one value but for one element, at each place; with 0 beside each of the others, too.
    fn check<T: Num, const N: usize, const U: usize>(values: &[T]) {
        for &most in values {
            for &one in values {
                for place in 0..N * U {
                    let alike = |i: usize| if i == place { one } else { most };
                    let in_turn = |i: usize| if i == place { one } else { [most, T::ZERO][i % 2] };
                    for of in [&alike as &dyn Fn(usize) -> T, &in_turn] {
                        let vectors: [[T; N]; U] = core::array::from_fn(|u| core::array::from_fn(|k| of(u * N + k)));
                        agrees::<T, Any, N, U>(vectors);
                        agrees::<T, All, N, U>(vectors);
                    }
                }
            }
        }
    }

    #[test]
    fn bytes() {
        let values = [0u8, 1, 2, 127, 128, 129, 255];
        check::<u8, 16, 1>(&values);
        check::<u8, 16, 2>(&values);
        check::<u8, 8, 1>(&values);
        check::<u8, 4, 3>(&values);
        check::<u8, 2, 2>(&values);
        check::<u8, 1, 4>(&values);
    }

    #[test]
    fn halves() {
        let integers = [0u16, 1, 0x00ff, 0x0100, 0x7fff, 0x8000, 0x8001, 0xffff];
        check::<u16, 8, 2>(&integers);
        check::<u16, 4, 1>(&integers);
        check::<u16, 2, 2>(&integers);
        check::<u16, 1, 3>(&integers);
        // Both zeros, the least numbers, one, NaN and infinity.
        let floats = [0u16, 0x8000, 0x0001, 0x8001, 0x3c00, 0x7e00, 0xfc00];
        check::<f16, 8, 2>(&floats.map(f16::from_bits));
        check::<f16, 2, 2>(&floats.map(f16::from_bits));
        check::<bf16, 8, 1>(&floats.map(bf16::from_bits));
    }

    #[test]
    fn words_of_elements() {
        check::<u32, 4, 2>(&[0, 1, 1 << 31]);
        check::<f32, 4, 1>(&[0.0, -0.0, f32::NAN, -1e-45]);
        check::<f64, 2, 1>(&[0.0, -0.0, f64::NAN, -5e-324]);
    }
}
