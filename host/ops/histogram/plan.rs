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

/// The most bins for which a formula or the margin of [`Plan::above`] is looked for, which takes the host a few steps
/// for each. Elements of finer bins are compared with their edges always.
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
        scale_f32: (f64::from(bins) / (hi - lo)) as f32,
        offset: 0.0,
        // No element is settled by its position.
        above: f32::NEG_INFINITY,
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
    plan.offset = first_position(&plan) as f32;
    if bins <= MAX_MARGIN_BINS && T::VALUES == 0 {
        let found = settled(&plan, first, last).or_else(|| with_margin(&plan, first, last));
        plan = found.unwrap_or(plan);
    }
    (first <= last).then_some(plan)
}

/// The position of `first`: integers may begin above the lower limit.
fn first_position(plan: &Plan) -> f64 {
    (plan.first - plan.lo) * plan.scale
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

/// The plan with a formula that gives the bin of every element, if one does: one in fixed point, or the position.
///
/// The bin that it gives never decreases from one element to the next larger one. So it is right for all elements if it
/// is for the two next to each edge; no estimate of rounding errors is needed.
fn settled<T: Histogram>(plan: &Plan, first: T, last: T) -> Option<Plan> {
    let [up, down] = fixed_point(plan);
    let position = Plan {
        above: f32::INFINITY,
        ..*plan
    };
    [up, down, position].into_iter().find(|plan| {
        let bin = |x: T| T::bins(plan, [x])[0];
        neighbours(*plan, first, last)
            .all(|(k, below, least)| below.is_none_or(|x| bin(x) < k) && least.is_none_or(|x| bin(x) >= k))
    })
}

/// Two plans by which bins of integers are computed in fixed point: with a factor of bins per unit that is rounded up,
/// and with one that is rounded down, where 1 is added to the distance instead. Neither is right for all ranges: not
/// for bins narrower than 1, nor where there are bins below the least number of the type. Floats have none: their bins
/// are those of the position.
fn fixed_point(plan: &Plan) -> [Plan; 2] {
    // So that the factor, `bins per unit · 2^(32 + shift)`, has 32 bits.
    let shift = (-plan.scale.log2()).floor().clamp(0.0, 31.0) as u32;
    let unit = ((1u64 << 32) << shift) as f64;
    let (factor, addend) = (plan.scale * unit, first_position(plan) * unit);
    // Casts saturate.
    let plan = |factor: f64, addend: f64| Plan {
        above: f32::INFINITY,
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

/// The plan whose positions are so much smaller that no element's is in a bin above its own, and how near to the next
/// bin they may then be: [`Plan::offset`] and [`Plan::above`].
///
/// Positions never decrease either. So an element is below edge `k` if its position is less than that of the least
/// element that is not below it, and it is not below the edge if its position is greater than that of the greatest
/// element below. `None` if there is no room, as for ranges whose positions overflow.
fn with_margin<T: Histogram>(plan: &Plan, first: T, last: T) -> Option<Plan> {
    let (excess, _) = errors(plan, first, last)?;
    // More than what is rounded when it is subtracted.
    let ulp = (plan.bins as f32).next_up() - plan.bins as f32;
    let mut plan = *plan;
    plan.offset -= (excess.max(0.0) as f32).next_up() + ulp;
    let (excess, deficit) = errors(&plan, first, last)?;
    plan.above = ((1.0 - deficit) as f32).next_down();
    (excess < 0.0 && plan.above > 0.0).then_some(plan)
}

/// By how much the position of an element below an edge exceeds the edge's, and by how much that of an element that is
/// not falls short of it, at most of all edges. `None` where positions are no numbers.
fn errors<T: Histogram>(plan: &Plan, first: T, last: T) -> Option<(f64, f64)> {
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
    Some((excess, deficit))
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
    use kernels_gpu::histogram::UNSURE;

    use super::*;

    /// The bin of `x` by comparison with all edges.
    fn compared<T: Histogram>(plan: &Plan, x: T) -> u32 {
        (1..plan.bins).filter(|&k| x.to_f64() >= plan.edge::<T>(k)).count() as u32
    }

    fn settled_plan<T: Histogram>(bins: u32, lo: f64, hi: f64) -> Option<Plan> {
        uniform_plan::<T>(bins, lo, hi).filter(|plan| plan.above == f32::INFINITY)
    }

    fn fixed_plan<T: Histogram>(bins: u32, lo: f64, hi: f64) -> Option<Plan> {
        uniform_plan::<T>(bins, lo, hi).filter(|plan| plan.factor != 0)
    }

    fn bin<T: Histogram>(plan: &Plan, x: T) -> u32 {
        T::bins(plan, [x])[0]
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
            let plan = fixed_plan::<u16>(bins, lo, hi).unwrap_or_else(|| panic!("{bins} bins in {lo}..={hi}"));
            for x in plan.first as u16..=plan.last as u16 {
                assert_eq!(bin(&plan, x), compared(&plan, x), "{x}: {bins} bins in {lo}..={hi}");
            }
        }
    }

    #[test]
    fn the_widest_ranges_are_settled_and_right_at_their_ends() {
        let plan = fixed_plan::<i32>(256, -2_147_483_648.0, 2_147_483_648.0).expect("bins of 2^24");
        for x in [i32::MIN, -1, 0, 0x00ff_ffff, 0x0100_0000, i32::MAX] {
            assert_eq!(bin(&plan, x), compared(&plan, x), "{x}");
        }
        // Numbers from the last bin on are of the last bin.
        let plan = fixed_plan::<u32>(2, 0.0, 4_294_967_295.0).expect("two bins");
        let bins = [0, i32::MAX as u32, 1 << 31, u32::MAX].map(|x| bin(&plan, x));
        assert_eq!(bins, [0, 0, 1, 1]);
    }

    #[test]
    fn what_no_formula_gets_right_is_not_settled() {
        // Bins below the least number of the type.
        assert_eq!(fixed_plan::<u16>(10, -300.0, 700.0), None);
        // Four bins for each integer.
        assert_eq!(fixed_plan::<i32>(40, 0.0, 10.0), None);
        // 0.7 · 10 is 7, but the edge 7 · 0.1 is above 0.7.
        assert_eq!(settled_plan::<f64>(10, 0.0, 1.0), None);
        assert!(settled_plan::<f32>(256, 0.0, 1.0).is_some());
    }

    /// What a position settles is the bin by comparison, for the elements around each edge; and it settles nearly all.
    #[test]
    fn positions_settle_no_wrong_bin() {
        let ranges = [
            (10, 0.0, 1.0),
            (100, -0.2, 0.7),
            (255, -3.3, 100.1),
            (256, -0.25, 0.75),
            (1000, 0.0, 1.0),
            (7, 1e6, 1e6 + 3.0),
        ];
        for (bins, lo, hi) in ranges {
            let plan = uniform_plan::<f32>(bins, lo, hi).expect("a plan");
            assert!(plan.above > 0.9, "{bins} bins in {lo}..={hi}: {}", plan.above);
            for k in 0..=bins {
                let edge = if k == bins { plan.last } else { plan.edge::<f32>(k) } as f32;
                let around =
                    (-20..=20).map(|steps: i32| f32::of_order((edge.order() as i64 + i64::from(steps)) as u64));
                for x in around.filter(|x| (plan.first..=plan.last).contains(&f64::from(*x))) {
                    let found = bin(&plan, x);
                    assert!(
                        found == UNSURE || found == compared(&plan, x),
                        "{x}: {bins} bins in {lo}..={hi}"
                    );
                }
            }
            let middle = plan.edge::<f32>(bins / 2) + plan.step / 2.0;
            assert_eq!(bin(&plan, middle as f32), bins / 2, "{bins} bins in {lo}..={hi}");
        }
    }
}
