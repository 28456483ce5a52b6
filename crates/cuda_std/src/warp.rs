// SPDX-License-Identifier: MIT OR Apache-2.0
//! The warp: 32 threads that exchange values without shared memory.
//!
//! Every function takes a mask of the lanes that take part, bit `i` for lane `i`; [`FULL_MASK`] names all.
//!
//! # Convergence
//!
//! All lanes that the mask names must reach the same call with the same mask, and the caller must be one of them. The
//! simulated GPU reports what breaks this; on a GPU the result is unspecified, or the kernel hangs.

use bytemuck::Pod;

use crate::machine::{self, Shuffle};

/// The number of threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// The mask that names all lanes of a warp.
pub const FULL_MASK: u32 = u32::MAX;

/// The thread's number in its warp, 0 to 31.
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[kernel]
/// pub fn warps_and_lanes(out: SliceMut<'_, u32>) {
///     out.set(thread::index_1d(), 100 * warp::warp_id() + warp::lane_id());
/// }
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, warps_and_lanes);
/// assert_eq!((out[0], out[31], out[32], out[63]), (0, 31, 100, 131));
/// ```
#[inline(always)]
pub fn lane_id() -> u32 {
    machine::lane_id()
}

/// The warp's number in its block.
#[inline(always)]
pub fn warp_id() -> u32 {
    crate::thread::linear_thread_idx() / WARP_SIZE
}

/// The lanes that run this instruction together right now (`__activemask`). Not a substitute for knowing the mask.
#[inline(always)]
pub fn active_mask() -> u32 {
    machine::active_mask()
}

/// Waits for the lanes of `mask`, and makes their memory accesses visible to one another (`__syncwarp`).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Turns the elements of each warp around. Warps do not wait for one another.
/// #[kernel(max_threads = 64)]
/// pub fn reverse_in_warps(x: &[u32], out: SliceMut<'_, u32>) {
///     let tile = shared_array![u32; 64];
///     let i = thread::index_1d();
///     let (first, lane) = (32 * warp::warp_id() as usize, warp::lane_id() as usize);
///     tile.set(first + lane, x[i]);
///     warp::sync_warp(warp::FULL_MASK);
///     out.set(i, tile.get(first + 31 - lane));
/// }
/// # let x: Vec<u32> = (0..64).collect();
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| reverse_in_warps(&x, out));
/// assert_eq!((out[0], out[31], out[32]), (31, 0, 63));
/// ```
#[inline(always)]
#[track_caller]
pub fn sync_warp(mask: u32) {
    machine::sync_warp(mask);
}

/// Whether this is the lane of its warp that is elected, the same one each time (`elect.sync`): for what one thread does for
/// all, above all [bulk copies](crate::tma). Of a lane that is elected the compiler knows that it is alone; behind a
/// comparison of its number it wraps each copy in a loop over the lanes that might be there.
///
/// GPU: compute 9.0 or later.
///
/// # Convergence
///
/// All lanes of the warp reach the same call.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// One thread of each warp counts.
/// #[kernel]
/// pub fn count(out: SliceMut<'_, u32>) {
///     let elected = warp::elect();
///     out.set(thread::index_1d(), u32::from(elected));
/// }
/// # let mut out = [2; 64];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, count);
/// assert_eq!(out.iter().sum::<u32>(), 2);
/// ```
#[inline(always)]
#[track_caller]
pub fn elect() -> bool {
    machine::elect()
}

/// The `value` of lane `lane % 32` (`__shfl_sync`).
///
/// A value of any [`Pod`] type, moved in words of 32 bits.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Takes each warp's first element off all of them.
/// #[kernel]
/// pub fn from_first(x: &[f64], out: SliceMut<'_, f64>) {
///     let i = thread::index_1d();
///     out.set(i, x[i] - warp::shuffle(warp::FULL_MASK, x[i], 0));
/// }
/// # let x: Vec<f64> = (10..74).map(f64::from).collect();
/// # let mut out = [0.0; 64];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| from_first(&x, out));
/// assert!((0..64).all(|i| out[i] == (i % 32) as f64));
/// ```
#[inline(always)]
#[track_caller]
pub fn shuffle<T: Pod>(mask: u32, value: T, lane: u32) -> T {
    machine::shuffle_value(Shuffle::Index, mask, value, lane)
}

/// The `value` of lane 0: for a value that is the same in all lanes, such as the number of the warp, so that the compiler
/// sees that it is, and that the lanes go the same way where it decides. Lanes are all of the warp's.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Each warp has its own task; that its lanes agree on it, the compiler is told.
/// #[kernel(max_threads = 64)]
/// pub fn tasks(out: SliceMut<'_, u32>) {
///     let task = warp::uniform(thread::thread_idx_x() / 32);
///     out.set(thread::index_1d(), if task == 0 { 100 } else { 200 });
/// }
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, tasks);
/// assert_eq!((out[31], out[32]), (100, 200));
/// ```
#[inline(always)]
#[track_caller]
pub fn uniform(value: u32) -> u32 {
    machine::shuffle(Shuffle::Index, FULL_MASK, value, 0)
}

/// The `value` of the lane `delta` below, or the caller's own where there is none (`__shfl_up_sync`).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// The neighbours of each element in its warp, at its ends the element itself: below, above, and the other of the pair.
/// #[kernel]
/// pub fn neighbours(x: &[u32], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     let below = warp::shuffle_up(warp::FULL_MASK, x[i], 1);
///     let above = warp::shuffle_down(warp::FULL_MASK, x[i], 1);
///     let pair = warp::shuffle_xor(warp::FULL_MASK, x[i], 1);
///     out.set(i, 10_000 * below + 100 * above + pair);
/// }
/// # let x: Vec<u32> = (0..32).collect();
/// # let mut out = [0; 32];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| neighbours(&x, out));
/// assert_eq!((out[0], out[7], out[31]), (0_01_01, 6_08_06, 30_31_30));
/// ```
#[inline(always)]
#[track_caller]
pub fn shuffle_up<T: Pod>(mask: u32, value: T, delta: u32) -> T {
    machine::shuffle_value(Shuffle::Up, mask, value, delta)
}

/// The `value` of the lane `delta` above, or the caller's own where there is none (`__shfl_down_sync`). The example of
/// [`shuffle_up`] has it.
#[inline(always)]
#[track_caller]
pub fn shuffle_down<T: Pod>(mask: u32, value: T, delta: u32) -> T {
    machine::shuffle_value(Shuffle::Down, mask, value, delta)
}

/// The `value` of the lane whose number differs by exclusive or with `lane_mask` (`__shfl_xor_sync`). The example of
/// [`shuffle_up`] has it.
#[inline(always)]
#[track_caller]
pub fn shuffle_xor<T: Pod>(mask: u32, value: T, lane_mask: u32) -> T {
    machine::shuffle_value(Shuffle::Xor, mask, value, lane_mask)
}

/// The mask of the lanes whose `predicate` holds (`__ballot_sync`).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// For each warp: the lanes with an odd element, whether all have one, whether any has.
/// #[kernel]
/// pub fn odd_lanes(x: &[u32], out: SliceMut<'_, [u32; 3]>) {
///     let i = thread::index_1d();
///     let odd = x[i] % 2 == 1;
///     let lanes = warp::ballot(warp::FULL_MASK, odd);
///     let (all, any) = (warp::all(warp::FULL_MASK, odd), warp::any(warp::FULL_MASK, odd));
///     if warp::lane_id() == 0 {
///         out.set(i / 32, [lanes, all.into(), any.into()]);
///     }
/// }
/// # let x: Vec<u32> = (0..32).chain([1; 32]).chain([2; 32]).collect();
/// # let mut out = [[9; 3]; 3];
/// # cuda_std::launch::on_simulator(1, 96, &mut out, |out| odd_lanes(&x, out));
/// assert_eq!(out, [[0xaaaa_aaaa, 0, 1], [u32::MAX, 1, 1], [0, 0, 0]]);
/// ```
#[inline(always)]
#[track_caller]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    machine::ballot(mask, predicate)
}

/// Whether `predicate` holds in every lane of `mask` (`__all_sync`). The example of [`ballot`] has it.
#[inline(always)]
#[track_caller]
pub fn all(mask: u32, predicate: bool) -> bool {
    machine::vote_all(mask, predicate)
}

/// Whether `predicate` holds in any lane of `mask` (`__any_sync`). The example of [`ballot`] has it.
#[inline(always)]
#[track_caller]
pub fn any(mask: u32, predicate: bool) -> bool {
    machine::vote_any(mask, predicate)
}

/// The mask of the lanes whose `value` equals the caller's (`__match_any_sync`).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Counts each key, with one atomic for all lanes of a warp that have it.
/// #[kernel]
/// pub fn count_keys(keys: &[u32], counts: SliceMut<'_, u32>) {
///     let key = keys[thread::index_1d()];
///     let same = warp::match_any(warp::FULL_MASK, key.into());
///     if warp::lane_id() == same.trailing_zeros() {
///         counts.atomic(key as usize).fetch_add(same.count_ones());
///     }
/// }
/// # let keys: Vec<u32> = (0..64).map(|i| i % 3).collect();
/// # let mut counts = [0; 3];
/// # cuda_std::launch::on_simulator(2, 32, &mut counts, |counts| count_keys(&keys, counts));
/// assert_eq!(counts, [22, 21, 21]);
/// ```
#[inline(always)]
#[track_caller]
pub fn match_any(mask: u32, value: u64) -> u32 {
    machine::match_any(mask, value)
}

/// The mask of the lanes whose `value` has the caller's lowest `BITS` bits: [`match_any`] of few bits, by a [`ballot`] for each of
/// them, which for 8 takes less than the instruction (as in A. Adinets, D. Merrill, "Onesweep: a faster least significant digit
/// radix sort for GPUs", 2022).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// How many lanes have a byte's upper digit.
/// #[kernel]
/// pub fn lanes_with_digit(bytes: &[u8], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     let same = warp::match_any_bits::<4>(warp::FULL_MASK, u32::from(bytes[i] >> 4));
///     out.set(i, same.count_ones());
/// }
/// # let bytes: Vec<u8> = (0..32).map(|i| 0x30 + i).collect();
/// # let mut out = [0; 32];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| lanes_with_digit(&bytes, out));
/// assert_eq!(out, [16; 32]);
/// ```
#[inline(always)]
#[track_caller]
pub fn match_any_bits<const BITS: u32>(mask: u32, value: u32) -> u32 {
    const { assert!(BITS <= u32::BITS, "a value has 32 bits") };
    machine::match_any_bits::<BITS>(mask, value)
}

/// Combines the `value` of all 32 lanes in five steps; every lane receives the result.
///
/// `combine` must be associative and commutative up to rounding; the order is the same on every run.
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[kernel]
/// pub fn warp_sums(x: &[u32], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     let sum = warp::all_reduce(x[i], |a, b| a + b);
///     if warp::lane_id() == 0 {
///         out.set(i / 32, sum);
///     }
/// }
/// # let x: Vec<u32> = (0..64).collect();
/// # let mut out = [0; 2];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| warp_sums(&x, out));
/// assert_eq!(out, [(0..32).sum(), (32..64).sum()]);
/// ```
#[inline(always)]
#[track_caller]
pub fn all_reduce<T: Pod>(value: T, combine: impl Fn(T, T) -> T) -> T {
    let value = combine(value, shuffle_xor(FULL_MASK, value, 16));
    let value = combine(value, shuffle_xor(FULL_MASK, value, 8));
    let value = combine(value, shuffle_xor(FULL_MASK, value, 4));
    let value = combine(value, shuffle_xor(FULL_MASK, value, 2));
    combine(value, shuffle_xor(FULL_MASK, value, 1))
}

/// The values of all lanes up to and with the caller's, combined in the order of the lanes (an inclusive scan, or
/// prefix sum), in five steps.
///
/// `combine` must be associative, up to rounding; it need not be commutative. The order is the same on every run: P.
/// Kogge and H. Stone, "A parallel algorithm for the efficient solution of a general class of recurrence equations"
/// (1973).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `out[i]`: the sum of the elements of the warp up to and with number `i`.
/// #[kernel]
/// pub fn warp_prefix_sums(x: &[u32], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     out.set(i, warp::inclusive_scan(x[i], |a, b| a + b));
/// }
/// # let mut out = [0; 64];
/// # cuda_std::launch::on_simulator(1, 64, &mut out, |out| warp_prefix_sums(&[1; 64], out));
/// assert!((0..64).all(|i| out[i] == i as u32 % 32 + 1));
/// ```
#[inline(always)]
#[track_caller]
pub fn inclusive_scan<T: Pod>(value: T, combine: impl Fn(T, T) -> T) -> T {
    let lane = lane_id();
    let step = |value: T, delta: u32| {
        let below = shuffle_up(FULL_MASK, value, delta);
        if lane >= delta { combine(below, value) } else { value }
    };
    step(step(step(step(step(value, 1), 2), 4), 8), 16)
}

/// The values of all lanes below the caller's, combined in the order of the lanes (an exclusive scan), in six steps;
/// lane 0 receives `identity`.
///
/// `combine` as [`inclusive_scan`] wants it.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `out[i]`: where number `i` of the warp begins, when each has the length `lengths[i]` and one follows the other.
/// #[kernel]
/// pub fn warp_offsets(lengths: &[u32], out: SliceMut<'_, u32>) {
///     let i = thread::index_1d();
///     out.set(i, warp::exclusive_scan(lengths[i], 0, |a, b| a + b));
/// }
/// # let mut out = [9; 32];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| warp_offsets(&[3; 32], out));
/// assert_eq!((out[0], out[1], out[31]), (0, 3, 93));
/// ```
#[inline(always)]
#[track_caller]
pub fn exclusive_scan<T: Pod>(value: T, identity: T, combine: impl Fn(T, T) -> T) -> T {
    let below = shuffle_up(FULL_MASK, inclusive_scan(value, combine), 1);
    if lane_id() == 0 { identity } else { below }
}
