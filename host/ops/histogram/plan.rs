// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bins of a histogram as its kernel wants them.

use std::ops::RangeInclusive;

use kernels_gpu::histogram::{COLUMN_COUNTERS, COPIES_LEN, Plan, Sample};

use super::Histogram;
use crate::error::{Error, Result};

/// The most bins of a histogram.
pub(super) const MAX_BINS: usize = 1 << 20;

/// The most counters of a histogram of several channels.
pub(super) const MAX_COUNTERS: usize = 1 << 31;

/// The most counters of a block that has one copy of them, less than 64 KiB, which every GPU has.
const MAX_PRIVATE_COUNTERS: u64 = 1 << 14;

/// The most bins for which [`Plan::settled`] or the margins of [`Plan::below`] are looked for, which takes the host a
/// step for each. Finer bins are compared with their edges always.
const MAX_MARGIN_BINS: u32 = 1 << 16;

/// The number of bins, if it is possible.
pub(super) fn checked_bins(operation: &'static str, bins: usize) -> Result<u32> {
    match u32::try_from(bins) {
        Ok(narrow) if (1..=MAX_BINS).contains(&bins) => Ok(narrow),
        _ => Err(Error::Parameter {
            operation,
            parameter: "bins",
            given: bins.to_string(),
            wanted: format!("1 to {MAX_BINS}"),
        }),
    }
}

/// The limits, if they are possible; equal ones moved apart.
pub(super) fn checked_range(operation: &'static str, range: &RangeInclusive<f64>) -> Result<(f64, f64)> {
    let (lo, hi) = (*range.start(), *range.end());
    let wanted = if !(lo.is_finite() && hi.is_finite()) {
        "finite limits"
    } else if lo > hi {
        "a lower limit that is not above the upper one"
    } else if !(hi - lo).is_finite() {
        "limits whose distance an f64 can hold"
    } else {
        return Ok(if lo == hi { (lo - 0.5, hi + 0.5) } else { (lo, hi) });
    };
    Err(Error::Parameter {
        operation,
        parameter: "range",
        given: format!("{lo:?}..={hi:?}"),
        wanted: wanted.into(),
    })
}

/// The plan of bins of equal width, before anything of the data is known.
pub(super) fn equal_width(bins: u32, lo: f64, hi: f64) -> Plan {
    Plan {
        lo,
        width: hi - lo,
        step: (hi - lo) / f64::from(bins),
        first: lo,
        last: hi,
        scale: f64::from(bins) / (hi - lo),
        offset: 0.0,
        // No element is settled by its position.
        below: f32::INFINITY,
        above: 0.0,
        settled: 0,
        factor: 0,
        addend: 0,
        shift: 0,
        bins,
        channels: 1,
        counters: 0,
        copies: 1,
    }
}

/// The plan of bins of equal width; `None` where no value of `T` is in the range.
pub(super) fn uniform_plan<T: Histogram>(bins: u32, lo: f64, hi: f64) -> Option<Plan> {
    let (first, last) = (T::at_least(T::edge(lo))?, T::at_most(T::edge(hi))?);
    let mut plan = equal_width(bins, lo, hi);
    (plan.first, plan.last) = (first.to_f64(), last.to_f64());
    plan.offset = (plan.first - lo) * plan.scale;
    if bins <= MAX_MARGIN_BINS && T::VALUES == 0 {
        if let Some(settled) = settled(&plan, first, last) {
            plan = settled;
        } else if let Some((below, above)) = margins(&plan, first, last) {
            (plan.below, plan.above) = (below, above);
        }
    }
    (first <= last).then_some(plan)
}

/// For each edge between two bins its number, the greatest element from `first` to `last` that is below it, and the
/// least one that is not, as far as there are such.
fn neighbours<T: Histogram>(plan: Plan, first: T, last: T) -> impl Iterator<Item = (u32, Option<T>, Option<T>)> {
    (1..plan.bins).map(move |k| {
        let least = T::at_least(plan.edge::<T>(k)).filter(|&least| least <= last);
        let below = least.map_or(Some(last), T::before).filter(|&below| below >= first);
        (k, below, least.map(|least| if least < first { first } else { least }))
    })
}

/// The plan with what makes [`Sample::settled_bin`] give the bin of every element, if that can be had.
///
/// The bin that it gives never decreases from one element to the next larger one. So it is right for all elements if it
/// is for the two next to each edge; no estimate of rounding errors is needed.
fn settled<T: Histogram>(plan: &Plan, first: T, last: T) -> Option<Plan> {
    let mut settled = fixed_point(plan).into_iter();
    settled.find(|plan| {
        let bin = |x: T| x.settled_bin(first, plan);
        neighbours(*plan, first, last)
            .all(|(k, below, least)| below.is_none_or(|x| bin(x) < k) && least.is_none_or(|x| bin(x) >= k))
    })
}

/// Two plans by which bins of integers are computed in fixed point: with a factor of bins per unit that is rounded up,
/// and with one that is rounded down, where 1 is added to the distance instead. Neither is right for all ranges: not
/// for bins narrower than 1, nor where there are bins below the least number of the type. Floats do not look at it.
fn fixed_point(plan: &Plan) -> [Plan; 2] {
    // So that the factor, `bins per unit · 2^(32 + shift)`, has 32 bits.
    let shift = (-plan.scale.log2()).floor().clamp(0.0, 31.0) as u32;
    let unit = ((1u64 << 32) << shift) as f64;
    let (factor, addend) = (plan.scale * unit, plan.offset * unit);
    // Casts saturate.
    let plan = |factor: f64, addend: f64| Plan {
        settled: 1,
        factor: factor as u32,
        addend: addend as u32,
        shift,
        ..*plan
    };
    [
        plan(factor.ceil(), addend),
        plan(factor.floor(), addend + factor.floor()),
    ]
}

/// How far from the whole numbers a position must be to settle the bin: [`Plan::below`] and [`Plan::above`].
///
/// Positions never decrease either. So an element is not below edge `k` if its position is greater than that of the
/// greatest element below the edge, and it is below the edge if its position is less than that of the least element
/// that is not. The margins are the largest distances of those positions from `k`, of all edges. `None` if they leave
/// no room, as for ranges whose positions overflow.
fn margins<T: Histogram>(plan: &Plan, first: T, last: T) -> Option<(f32, f32)> {
    let position = |x: T| f64::from(x.position(first, plan));
    let (mut excess, mut deficit) = (-1.0f64, -1.0f64);
    for (k, below, least) in neighbours(*plan, first, last) {
        let of_below = below.map_or(-1.0, |below| position(below) - f64::from(k));
        let of_least = least.map_or(-1.0, |least| f64::from(k) - position(least));
        if !(of_below.is_finite() && of_least.is_finite()) {
            return None;
        }
        (excess, deficit) = (excess.max(of_below), deficit.max(of_least));
    }
    let (below, above) = ((excess as f32).next_up(), ((1.0 - deficit) as f32).next_down());
    (below < above).then_some((below, above))
}

/// How a launch counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Columns,
    Copies,
    Cache,
}

/// Completes the plan by the way of counting, and gives the bytes of shared memory for it.
pub(super) fn choose_mode<T: Sample>(plan: &mut Plan) -> (Mode, usize) {
    let each = if T::VALUES == 0 { plan.bins } else { T::VALUES };
    let counters = u64::from(plan.channels) * u64::from(each);
    if counters > MAX_PRIVATE_COUNTERS {
        return (Mode::Cache, 0);
    }
    plan.counters = counters as u32;
    let mode = if plan.counters as usize <= COLUMN_COUNTERS {
        plan.copies = 32;
        Mode::Columns
    } else {
        let fit = (COPIES_LEN as u32 / plan.counters).max(1);
        plan.copies = 1 << fit.ilog2();
        Mode::Copies
    };
    (mode, plan.private_len() * size_of::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bin of `x` by comparison with all edges.
    fn compared<T: Histogram>(plan: &Plan, x: T) -> u32 {
        (1..plan.bins).filter(|&k| x.to_f64() >= plan.edge::<T>(k)).count() as u32
    }

    fn settled_plan<T: Histogram>(bins: u32, lo: f64, hi: f64) -> Option<Plan> {
        uniform_plan::<T>(bins, lo, hi).filter(|plan| plan.settled != 0)
    }

    #[test]
    fn settled_bins_are_those_of_the_edges() {
        let ranges = [
            (256, 0.0, 256.0),
            (255, 0.0, 255.0),
            (64, 0.0, 256.0),
            (10, 3.5, 1003.5),
            (7, 100.0, 65_535.0),
            (100, 0.1, 40_000.3),
            (256, 0.0, 65_536.0),
            (1, 5.0, 6.0),
        ];
        for (bins, lo, hi) in ranges {
            let plan = settled_plan::<u16>(bins, lo, hi).unwrap_or_else(|| panic!("{bins} bins in {lo}..={hi}"));
            for x in plan.first as u16..=plan.last as u16 {
                let bin = Ord::min(x.settled_bin(plan.first as u16, &plan), bins - 1);
                assert_eq!(bin, compared(&plan, x), "{x}: {bins} bins in {lo}..={hi}");
            }
        }
    }

    #[test]
    fn the_widest_ranges_are_settled_and_right_at_their_ends() {
        let plan = settled_plan::<i32>(256, -2_147_483_648.0, 2_147_483_648.0).expect("bins of 2^24");
        for x in [i32::MIN, -1, 0, 0x00ff_ffff, 0x0100_0000, i32::MAX] {
            assert_eq!(x.settled_bin(i32::MIN, &plan), compared(&plan, x), "{x}");
        }
        // Numbers from the last bin on are of the last bin.
        let plan = settled_plan::<u32>(2, 0.0, 4_294_967_295.0).expect("two bins");
        let bins = [0, i32::MAX as u32, 1 << 31, u32::MAX].map(|x| Ord::min(x.settled_bin(0, &plan), 1));
        assert_eq!(bins, [0, 0, 1, 1]);
    }

    #[test]
    fn what_no_formula_gets_right_is_not_settled() {
        // Bins below the least number of the type.
        assert_eq!(settled_plan::<u16>(10, -300.0, 700.0), None);
        // Four bins for each integer.
        assert_eq!(settled_plan::<i32>(40, 0.0, 10.0), None);
        // 0.7 · 10 is 7, but the edge 7 · 0.1 is above 0.7.
        assert_eq!(settled_plan::<f64>(10, 0.0, 1.0), None);
        assert!(settled_plan::<f32>(256, 0.0, 1.0).is_some());
    }
}
