// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the lanes of a warp compute together of several values each, or of some of the lanes.
//!
//! Reductions and scans of one value of every lane are in [`cuda_std::warp`].
//!
//! # Convergence
//!
//! All lanes of the warp reach the same call.

use bytemuck::Pod;
use cuda_std::prelude::*;

/// For each of this lane's values, one of each of `U` rows of 32, what stands before it in its row and the rows before,
/// combined; and the total of all.
///
/// `combine` must be associative, up to rounding; it need not be commutative. The rows are scanned independently of one
/// another, so that their shuffles are in flight together, and then carried from one to the next.
///
/// Cost: `7 U` shuffles of a value.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The sums of the elements before each of 64.
/// #[kernel(max_threads = 32)]
/// pub fn sums_before(x: &[u32], out: SliceMut<'_, u32>) {
///     let lane = warp::lane_id() as usize;
///     let (before, _) = cuda_block::warp::scan_rows([x[lane], x[32 + lane]], 0, |a, b| a + b);
///     out.set(lane, before[0]);
///     out.set(32 + lane, before[1]);
/// }
/// # let (x, mut out) = (vec![2u32; 64], vec![0u32; 64]);
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| sums_before(&x, out));
/// assert!((0..64).all(|i| out[i] as usize == 2 * i));
/// ```
#[inline(always)]
#[track_caller]
pub fn scan_rows<T: Pod, const U: usize>(
    values: [T; U],
    identity: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> ([T; U], T) {
    let inclusive = cuda_std::array::map(values, |value| warp::inclusive_scan(value, combine));
    let mut carry = identity;
    let before = cuda_std::array::from_fn(|u| {
        let below = warp::shuffle_up(warp::FULL_MASK, inclusive[u], 1);
        let row = warp::shuffle(warp::FULL_MASK, inclusive[u], 31);
        let before = if warp::lane_id() == 0 {
            carry
        } else {
            combine(carry, below)
        };
        carry = combine(carry, row);
        before
    });
    (before, carry)
}

/// The values of this lane and of every `STEP`th below it, combined in the order of the lanes: an inclusive scan of
/// each of `STEP` interleaved sequences, such as the channels of pixels.
///
/// `combine` as [`scan_rows`] wants it. Cost: `⌈log2(32 / STEP)⌉` shuffles of the value.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Running sums of 16 pairs, of the first and of the second of each.
/// #[kernel(max_threads = 32)]
/// pub fn running_sums(x: &[u32], out: SliceMut<'_, u32>) {
///     let lane = warp::lane_id() as usize;
///     out.set(lane, cuda_block::warp::inclusive_scan_strided::<2, _>(x[lane], |a, b| a + b));
/// }
/// # let (x, mut out) = (Vec::from_iter((0..32u32).map(|i| i % 2)), vec![0u32; 32]);
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| running_sums(&x, out));
/// assert!((0..32).all(|i| out[i] as usize == if i % 2 == 0 { 0 } else { i / 2 + 1 }));
/// ```
#[inline(always)]
#[track_caller]
pub fn inclusive_scan_strided<const STEP: usize, T: Pod>(mut value: T, combine: impl Fn(T, T) -> T) -> T {
    const { assert!(STEP > 0) };
    let lane = warp::lane_id();
    let mut distance = STEP as u32;
    while distance < warp::WARP_SIZE {
        let below = warp::shuffle_up(warp::FULL_MASK, value, distance);
        if lane >= distance {
            value = combine(below, value);
        }
        distance *= 2;
    }
    value
}

/// Combines each of the `K` values over groups of `lanes` neighbouring lanes, a power of two of at most 32, the same in
/// all lanes; every lane receives the results of its group.
///
/// `combine` must be associative and commutative, up to rounding. Cost: `K log2(lanes)` shuffles of a value.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The greatest of each 4 elements.
/// #[kernel(max_threads = 32)]
/// pub fn greatest_of_four(x: &[u32], out: SliceMut<'_, u32>) {
///     let lane = warp::lane_id() as usize;
///     let [greatest] = cuda_block::warp::all_reduce_groups([x[lane]], 4, Ord::max);
///     if lane % 4 == 0 {
///         out.set(lane / 4, greatest);
///     }
/// }
/// # let (x, mut out) = (Vec::from_iter(0..32u32), vec![0u32; 8]);
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| greatest_of_four(&x, out));
/// assert_eq!(out, [3, 7, 11, 15, 19, 23, 27, 31]);
/// ```
#[inline(always)]
#[track_caller]
pub fn all_reduce_groups<T: Pod, const K: usize>(
    mut values: [T; K],
    lanes: u32,
    combine: impl Fn(T, T) -> T,
) -> [T; K] {
    let mut distance = lanes / 2;
    while distance > 0 {
        values = cuda_std::array::map(values, |value| {
            combine(value, warp::shuffle_xor(warp::FULL_MASK, value, distance))
        });
        distance /= 2;
    }
    values
}
