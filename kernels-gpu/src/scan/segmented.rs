// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a warp has of a stretch that is made of several rows, one behind the other: where they begin, and scans up to there.

use bytemuck::Pod;
use cuda_std::hint;
use cuda_std::prelude::*;

use crate::op::{ReduceOp, finish};

/// For each of this lane's values, one of each of `U` vectors of 32, what stands before it in its row, if that begins
/// in this stretch; and the total of what the last row has.
///
/// A bit of `heads[u]` says that a row begins at the lane's value `u`, or in it, the value being that of the row's part.
/// `combine` is associative, up to rounding. Called by all lanes. Cost: `7 U` shuffles of a value.
#[inline(always)]
pub(crate) fn scan_segments<T: Pod, const U: usize>(
    values: [T; U],
    heads: [u32; U],
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> ([T; U], T) {
    let lane = warp::lane_id();
    let inclusive = cuda_std::array::from_fn::<_, U, _>(|u| {
        // Up to this lane; the first one stands for all that is not in this vector.
        let begun = (heads[u] | 1) & (u32::MAX >> (31 - lane));
        inclusive_scan(values[u], lane - (31 - begun.leading_zeros()), combine)
    });
    let mut carry = identity;
    let before = cuda_std::array::from_fn(|u| {
        let below = warp::shuffle_up(warp::FULL_MASK, inclusive[u], 1);
        let last = warp::shuffle(warp::FULL_MASK, inclusive[u], 31);
        let before = if lane == 0 {
            carry
        } else if has_begun(heads[u]) {
            below
        } else {
            combine(carry, below)
        };
        carry = if heads[u] == 0 { combine(carry, last) } else { last };
        before
    });
    (before, carry)
}

/// Whether one of these rows begins before this lane.
#[inline(always)]
fn has_begun(heads: u32) -> bool {
    heads & ((1 << warp::lane_id()) - 1) != 0
}

/// The values of this lane and of so many below it, combined.
#[inline(always)]
fn inclusive_scan<T: Pod>(mut value: T, reach: u32, combine: impl Fn(T, T) -> T) -> T {
    let mut distance = 1;
    while distance < warp::WARP_SIZE {
        let below = warp::shuffle_up(warp::FULL_MASK, value, distance);
        if distance <= reach {
            value = combine(below, value);
        }
        distance *= 2;
    }
    value
}

/// Where rows of `n` elements begin in the vectors of a lane, one 32 vectors behind the other.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    /// A bit for each element where a row begins, from one that does on.
    pattern: u32,
    n: u32,
    /// From a vector to the next one.
    step: u32,
    /// The place of the next vector's first element in its row.
    column: u32,
}

/// The elements of a row, at most.
const LONG: usize = 1 << 28;

impl Heads {
    /// The first row begins `behind` elements behind the warp's first vector of `V`.
    #[inline(always)]
    pub(super) fn new<const V: usize>(n: usize, behind: usize) -> Self {
        let n = n.clamp(1, LONG) as u32;
        let mut pattern = 1;
        if (n as usize) < V {
            const { assert!(V <= 8) };
            pattern |= pattern << n;
            pattern |= pattern << (2 * n);
            pattern |= pattern << (4 * n);
        }
        let step = 32 * V as u32;
        // Of long rows without divisions, which take longer than the additions of a tile.
        let is_long = n > step;
        let remainder = |i: u32| if is_long { i - if i < n { 0 } else { n } } else { i % n };
        let before = if is_long { n } else { V as u32 * n } - behind as u32;
        Self {
            pattern,
            n,
            step: remainder(step),
            column: remainder(remainder(before) + warp::lane_id() * V as u32),
        }
    }

    /// The rows that begin in the lane's next vector, a bit for the element of each, perhaps more behind the last one; and
    /// the place of the first element in its row.
    #[inline(always)]
    pub(super) fn next<const V: usize>(&mut self) -> (u32, u64) {
        let column = self.column;
        let next = if column == 0 { 0 } else { self.n - column };
        self.column += self.step;
        if self.column >= self.n {
            self.column -= self.n;
        }
        (self.pattern.checked_shl(next).unwrap_or(0), column.into())
    }

    /// The same, of which the compiler does not know that it is: what is found again waits in no registers until then.
    #[inline(always)]
    pub(super) fn again(self) -> Self {
        Self {
            column: hint::opaque(self.column),
            ..self
        }
    }
}

/// A vector of a lane, lifted.
#[derive(Clone, Copy)]
pub(super) struct Vector<A, const V: usize> {
    values: [A; V],
    /// A bit for each element where a row begins.
    heads: u32,
    /// The number of the first element in its row.
    index: u64,
}

impl<A: Copy, const V: usize> Vector<A, V> {
    #[inline(always)]
    pub(super) fn lift<T: Pod, Op: ReduceOp<T, Acc = A>>(loaded: [T; V], heads: u32, index: u64) -> Self {
        let mut number = index;
        let values = cuda_std::array::from_fn(|k| {
            number = if is_head(heads, k) { 0 } else { number };
            let value = Op::lift(loaded[k], number);
            number = number.wrapping_add(1);
            value
        });
        Self { values, heads, index }
    }

    /// The same vector, of which the same is found again.
    #[inline(always)]
    pub(super) fn with_heads(self, (heads, index): (u32, u64)) -> Self {
        Self { heads, index, ..self }
    }

    #[inline(always)]
    pub(super) fn has_head(self) -> bool {
        self.heads & ((1 << V) - 1) != 0
    }

    /// The elements from the last beginning of a row on, or all, combined.
    #[inline(always)]
    pub(super) fn total<T, Op: ReduceOp<T, Acc = A>>(self) -> A {
        let mut acc = self.values[0];
        for k in 1..V {
            let value = self.values[k];
            acc = if is_head(self.heads, k) {
                value
            } else {
                Op::combine(acc, value)
            };
        }
        acc
    }

    /// The results, where `before` stands before the vector in its row.
    #[inline(always)]
    pub(super) fn results<T, Op: ReduceOp<T, Acc = A>>(self, before: A, exclusive: bool) -> [Op::Output; V] {
        let (mut acc, mut number) = (before, self.index);
        cuda_std::array::from_fn(|k| {
            let (before, index) = if is_head(self.heads, k) {
                (Op::identity(), 0)
            } else {
                (acc, number)
            };
            acc = Op::combine(before, self.values[k]);
            number = index.wrapping_add(1);
            finish::<T, Op>(before, acc, index, exclusive)
        })
    }
}

#[inline(always)]
fn is_head(heads: u32, k: usize) -> bool {
    heads & (1 << k) != 0
}

/// What stands before each of a lane's vectors in its row, `carry` before the first one, and before what comes behind them.
/// Called by all lanes.
#[inline(always)]
pub(super) fn scan<T: Pod, Op: ReduceOp<T>, const V: usize, const U: usize>(
    vectors: &[Vector<Op::Acc, V>; U],
    carry: Op::Acc,
) -> ([Op::Acc; U], Op::Acc) {
    let heads: [u32; U] = cuda_std::array::from_fn(|u| warp::ballot(warp::FULL_MASK, vectors[u].has_head()));
    let totals: [Op::Acc; U] = cuda_std::array::from_fn(|u| vectors[u].total::<T, Op>());
    let (before, all) = Op::scan_segments(totals, heads);
    let mut is_behind = false;
    let before = cuda_std::array::from_fn(|u| {
        let has_begun = is_behind || has_begun(heads[u]);
        is_behind |= heads[u] != 0;
        if has_begun {
            before[u]
        } else {
            Op::combine(carry, before[u])
        }
    });
    (before, if is_behind { all } else { Op::combine(carry, all) })
}
