// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which bin an element is in.

use bytemuck::{Pod, Zeroable};
use cuda_std::hint;
use cuda_std::prelude::*;

use super::{Sample, Value};

/// The bins, and how a launch counts in them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, KernelParam, Pod, Zeroable)]
pub struct Plan {
    /// The lower limit.
    pub lo: f64,
    /// The upper limit less the lower one.
    pub width: f64,
    /// `width / bins`
    pub step: f64,
    /// The least element that is counted.
    pub first: f64,
    /// The greatest element that is counted.
    pub last: f64,
    /// Bins per unit, about: what [`Sample::position`] of `f64` multiplies with, …
    pub scale: f64,
    /// … and that of other types.
    pub scale_f32: f32,
    /// The position of `first`, about: what [`Sample::position`] adds.
    pub offset: f32,
    /// An element at position `p` is in bin `k = min(⌊p⌋, bins − 1)` if `p − k < above`; else, it may be in the next.
    pub above: f32,
    /// Unless it is 0, the bins of integers are computed in fixed point, and none needs to be compared with edges: what
    /// the distance to `first` is multiplied with, …
    pub factor: u32,
    /// … what it adds, …
    pub addend: u32,
    /// … and by how much it shifts the upper 32 bits.
    pub shift: u32,
    /// The number of bins of a channel.
    pub bins: u32,
    /// The number of channels.
    pub channels: u32,
    /// The number of private counters of a block.
    pub counters: u32,
    /// The copies of each: a power of two, 32 at most.
    pub copies: u32,
}

impl Plan {
    /// The words of shared memory for the copies of the private counters. Where each lane has a copy, there is one
    /// counter more, which takes the elements that are not counted.
    pub const fn private_len(&self) -> usize {
        let spare = if self.copies == 32 { 1 } else { 0 };
        (self.counters as usize + spare) * self.copies as usize
    }

    /// Edge `k` of bins of equal width, the lower one of bin `k`, as NumPy's `linspace` computes it; `k < bins`.
    #[inline(always)]
    pub fn edge<T: Sample>(&self, k: u32) -> f64 {
        let distance = if self.step == 0.0 {
            // The step of a range of subnormal width may underflow.
            k as f64 / self.bins as f64 * self.width
        } else {
            k as f64 * self.step
        };
        T::edge(distance + self.lo)
    }
}

/// The bin of an element that is in none. This and [`UNSURE`] are beyond any bin, rather than an `enum`'s cases, so
/// that a thread computes them without a branch for each element.
pub const OUTSIDE: u32 = 1 << 30;

/// The bin of an element that needs a second look.
pub const UNSURE: u32 = 1 << 31;

/// A rule by which elements are put into bins.
pub trait Find<T>: 'static {
    /// Whether each element has a channel.
    const CHANNELS: bool = false;

    /// Whether [`bins`](Self::bins) may say [`UNSURE`].
    const LOOKS_TWICE: bool = false;

    /// The bins of several elements, or [`OUTSIDE`], or [`UNSURE`].
    fn bins<const N: usize>(plan: &Plan, edges: &[T], values: [T; N]) -> [u32; N];

    /// The bin of an element.
    fn exact(plan: &Plan, edges: &[T], value: T) -> Option<u32>;
}

/// Bins of equal width, by NumPy's rule: `edge(k) <= x < edge(k + 1)`, the last one closed.
///
/// An element's position, which is rounded, is never in a bin above the element's, and as good as always far enough
/// from the next edge to settle the bin; [`Plan::above`] says how far is enough. If it is not, the element is compared
/// with the edges, which are computed anew.
#[derive(Clone, Copy, Debug)]
pub struct EqualWidth<const CHANNELS: bool>;

/// [`EqualWidth`], of all elements.
pub type Uniform = EqualWidth<false>;

/// [`EqualWidth`] for several channels: element `i` is of channel `i % channels`.
pub type Channels = EqualWidth<true>;

/// Bins between given edges: a binary search in a list of the [`start`](Sample::start) of each bin but the first, as far as they
/// are not greater than `plan.last`.
#[derive(Clone, Copy, Debug)]
pub struct Search;

/// A bin for each integer from 0.
#[derive(Clone, Copy, Debug)]
pub struct Values;

/// Whether the bins have room for the element; not for NaN.
#[inline(always)]
fn is_inside<T: Sample>(plan: &Plan, value: T) -> bool {
    value.is_between(T::of_f64(plan.first), T::of_f64(plan.last))
}

/// The element's position, and the bin that it suggests.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn guess<T: Sample>(plan: &Plan, value: T) -> (f32, u32) {
    let position = value.position(T::of_f64(plan.first), plan);
    // Both limits before the cast, which is then one instruction. Exact for as many bins as there may be.
    let last_bin = Ord::min(plan.bins.wrapping_sub(1), 1 << 24) as f32;
    // Not `clamp`: `max` takes NaN to 0.
    #[allow(clippy::manual_clamp)]
    let bounded = position.max(0.0).min(last_bin);
    // SAFETY: from 0 to 2^24.
    (position, unsafe { bounded.to_int_unchecked() })
}

/// The bin that the element's position gives, where it settles it.
#[inline(always)]
pub(super) fn bin_at_position<T: Sample>(plan: &Plan, value: T) -> u32 {
    let (position, bin) = guess(plan, value);
    if position - (bin as f32) < plan.above {
        bin
    } else {
        UNSURE
    }
}

/// Compares with the edges: two that are next to the guess as a rule, and where the guess is worse than that, those of
/// a bisection.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn exact_uniform<T: Sample>(plan: &Plan, value: T) -> Option<u32> {
    if !is_inside(plan, value) {
        return None;
    }
    let (_, guess) = guess(plan, value);
    let value = value.number(plan);
    // The bin is one of `low .. high`.
    let (mut low, mut high) = (0, plan.bins);
    let mut edge = if guess == 0 { 1 } else { guess };
    let mut tries = 0;
    while high - low > 1 {
        let above = value >= plan.edge::<T>(edge);
        if above {
            low = edge;
        } else {
            high = edge;
        }
        tries += 1;
        edge = if tries > 2 {
            low + (high - low) / 2
        } else if above {
            low + 1
        } else {
            high - 1
        };
    }
    Some(low)
}

impl<T: Sample, const CHANNELS: bool> Find<T> for EqualWidth<CHANNELS> {
    const CHANNELS: bool = CHANNELS;

    const LOOKS_TWICE: bool = true;

    #[inline(always)]
    fn bins<const N: usize>(plan: &Plan, _: &[T], values: [T; N]) -> [u32; N] {
        let bins = T::bins(plan, values);
        cuda_std::array::from_fn(|k| if is_inside(plan, values[k]) { bins[k] } else { OUTSIDE })
    }

    #[inline(always)]
    fn exact(plan: &Plan, _: &[T], value: T) -> Option<u32> {
        exact_uniform(plan, value)
    }
}

impl<T: Sample> Find<T> for Search {
    /// All elements of the vector go down the list together, so that as many loads are in flight.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn bins<const N: usize>(plan: &Plan, edges: &[T], values: [T; N]) -> [u32; N] {
        let first = T::of_f64(plan.first);
        // Of the `left` edges from `base` on, those that are at most the value are to be counted. Both halves of an odd
        // number of edges keep the larger one's length, so that one `left` does for all elements. In 32 bits, half the
        // registers: there are fewer edges than `OUTSIDE`, or the rest is not looked at.
        let mut base = [0u32; N];
        let mut left = edges.len() as u32;
        while left > 0 {
            let half = left / 2;
            // SAFETY: `base + left <= edges.len()` throughout, and `half < left`.
            let middle: [T; N] =
                cuda_std::array::from_fn(|k| unsafe { edges.load_vec_unchecked::<1>((base[k] + half) as usize)[0] });
            base = cuda_std::array::from_fn(|k| {
                if values[k].reaches(middle[k], first) {
                    base[k] + (left - half)
                } else {
                    base[k]
                }
            });
            left = half;
        }
        // Asked here, the elements need no registers while others go down the list.
        cuda_std::array::from_fn(|k| hint::pinned(if is_inside(plan, values[k]) { base[k] } else { OUTSIDE }))
    }

    #[inline(always)]
    fn exact(plan: &Plan, edges: &[T], value: T) -> Option<u32> {
        let [bin] = Self::bins(plan, edges, [value]);
        (bin < OUTSIDE).then_some(bin)
    }
}

impl<T: Value> Find<T> for Values {
    #[inline(always)]
    fn bins<const N: usize>(plan: &Plan, _: &[T], values: [T; N]) -> [u32; N] {
        cuda_std::array::map(values, |value| {
            if is_inside(plan, value) {
                value.bin() & (OUTSIDE - 1)
            } else {
                OUTSIDE
            }
        })
    }

    #[inline(always)]
    fn exact(plan: &Plan, _: &[T], value: T) -> Option<u32> {
        is_inside(plan, value).then(|| value.bin())
    }
}
