// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operators of reductions in two steps, along some axes and then along others: the first gives values of which nothing is
//! lost yet, the second combines those, and finishes them.

use super::{Moments, Statistic, Variance, variance};
use crate::op::{ReduceOp, Vectors};

/// The sum in `f64`, what a [`Mean`](super::Mean) is before it is divided and rounded.
#[derive(Clone, Copy, Debug)]
pub struct WideSum;

impl<T: Statistic> ReduceOp<T> for WideSum {
    type Acc = f64;
    type Output = f64;

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
    fn finish(acc: f64, _: u64) -> f64 {
        acc
    }
}

/// The moments themselves, what a [`Variance`] is before it is divided and rounded.
impl<T: Statistic> ReduceOp<T> for Moments {
    type Acc = Moments;
    type Output = Moments;

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
    fn finish(acc: Moments, _: u64) -> Moments {
        acc
    }
}

/// The variance of all elements that the moments are of.
impl ReduceOp<Moments> for Variance {
    type Acc = Moments;
    type Output = f64;

    #[inline(always)]
    fn identity() -> Moments {
        Moments::EMPTY
    }

    #[inline(always)]
    fn lift(x: Moments, _: u64) -> Moments {
        x
    }

    #[inline(always)]
    fn combine(a: Moments, b: Moments) -> Moments {
        Moments::combine(a, b)
    }

    #[inline(always)]
    fn finish(acc: Moments, count: u64) -> f64 {
        variance(acc, count)
    }
}
