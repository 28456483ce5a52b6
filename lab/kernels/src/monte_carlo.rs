// SPDX-License-Identifier: MIT OR Apache-2.0
//! π by random points: a quarter of a circle has π/4 of those in the square around it.

use cuda_std::prelude::*;
use cuda_std::random::{Philox4x32, uniform_f32};

// ANCHOR: pi
/// Adds to `hits` how many random points lie in the circle, of `2 * draws` for each thread. No point is ever in memory:
/// each is a function of the seed, the thread and the draw.
#[kernel]
pub fn pi_hits(random: Philox4x32, draws: u32, hits: SliceMut<'_, u64>) {
    let random = random.with_sequence(thread::index_1d() as u64);
    let mut count = 0;
    for draw in 0..draws {
        let [a, b, c, d] = random.block(draw.into()).map(uniform_f32);
        count += u32::from(a * a + b * b < 1.0) + u32::from(c * c + d * d < 1.0);
    }
    // One atomic for each warp.
    let count = warp::all_reduce(count, |a, b| a + b);
    if warp::lane_id() == 0 {
        hits.atomic(0).fetch_add(count.into());
    }
}
// ANCHOR_END: pi
