// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where threads meet and wait.

use crate::barrier::BarrierResult;
use crate::error::Call;
use crate::warp::Lanes;
use crate::{context, watchdog};

/// Waits until all threads of the block have come here, each with a value;
/// counts the values that are not zero. Faults name the barrier by `name`.
///
/// # Convergence
///
/// All threads of the block, in the same call: the same `name`, called from the
/// same place in the source. It is a fault if a thread has exited, waits at
/// another barrier, or waits in an [`exchange`] for a thread that is here.
///
/// # Panics
///
/// Outside a kernel.
///
/// ```
/// use cuda_sim::{LaunchConfig, barrier, launch, thread_idx};
///
/// launch("count", &LaunchConfig::new(1, 100), &|| {
///     let odd = barrier("sync_threads_count", u64::from(thread_idx().x % 2));
///     assert_eq!((odd.nonzero, odd.threads), (50, 100));
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[inline(always)]
#[track_caller]
pub fn barrier(name: &'static str, value: u64) -> BarrierResult {
    let call = Call::new(name);
    watchdog::listen(call);
    // SAFETY: used in this function only. A closure as elsewhere would be a call
    // of its own, and a switch inside calls costs a wrongly predicted return each.
    let context = unsafe { context::current("barrier") };
    context.wait_at_barrier(call, value)
}

/// Waits until all threads of all blocks have come here, in a launch by
/// [`launch_cooperative`](crate::launch_cooperative). Faults name the barrier by `name`.
///
/// # Convergence
///
/// All threads of the grid, in the same call, as for the [`barrier`] of a block. It
/// is a fault if a block has ended, or waits at another grid barrier; and if the
/// launch is not cooperative.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn grid_barrier(name: &'static str) {
    let call = Call::new(name);
    watchdog::listen(call);
    context::with("grid_barrier", |context| context.wait_for_grid(call));
}

/// Waits until all threads of all blocks of the cluster have come here; in a launch without clusters those of the block.
/// Faults name the barrier by `name`.
///
/// # Convergence
///
/// All threads of the cluster, in the same call, as for the [`barrier`] of a block. It
/// is a fault if a block has ended, or waits at another cluster barrier.
///
/// # Panics
///
/// Outside a kernel.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use cuda_sim::{LaunchConfig, Options, cluster_barrier, launch_with};
///
/// let arrived = AtomicU32::new(0);
/// let options = Options { cluster: Some(4.into()), ..Options::default() };
/// launch_with("meet", &LaunchConfig::new(4, 64), options, &|| {
///     arrived.fetch_add(1, Relaxed);
///     cluster_barrier("sync");
///     assert_eq!(arrived.load(Relaxed), 256);
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[track_caller]
pub fn cluster_barrier(name: &'static str) {
    let call = Call::new(name);
    watchdog::listen(call);
    context::with("cluster_barrier", |context| context.wait_for_cluster(call));
}

/// Waits until `threads` threads of the block have come to the barrier `number`,
/// below [`GROUP_BARRIERS`](crate::GROUP_BARRIERS); then it can be used again. Faults name it by `name`.
///
/// # Convergence
///
/// Whichever threads come first are those that meet. It is a fault if they do not
/// agree on how many they are. Unlike at the [`barrier`], nobody notices that a
/// thread is missing before the launch is given up.
///
/// # Panics
///
/// Outside a kernel.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use cuda_sim::{LaunchConfig, group_barrier, launch, thread_idx};
///
/// let arrived = AtomicU32::new(0);
/// launch("half", &LaunchConfig::new(1, 128), &|| {
///     if thread_idx().x < 64 {
///         arrived.fetch_add(1, Relaxed);
///         group_barrier("first half", 0, 64);
///         assert_eq!(arrived.load(Relaxed), 64);
///     }
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[track_caller]
pub fn group_barrier(name: &'static str, number: u32, threads: u32) {
    let call = Call::new(name);
    watchdog::listen(call);
    context::with("group_barrier", |context| context.wait_in_group(call, number, threads));
}

/// Waits until all lanes in `mask` have come here. Unlike an [`exchange`], it orders memory: for each of them, what all
/// did before is over.
///
/// # Convergence
///
/// As for [`exchange`].
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn sync_warp(name: &'static str, mask: u32) {
    let call = Call::new(name);
    watchdog::listen(call);
    context::with("sync_warp", |context| context.sync_warp(call, mask));
}

/// Waits until all lanes in `mask` have come here, each with a value, and gives
/// everyone's values to each. Shuffles, votes, matches and reductions of a warp
/// are made of it. Faults name the operation by `name`.
///
/// # Convergence
///
/// All lanes in `mask`, in the same call: the same `name` and `mask`, called
/// from the same place in the source. The caller is one of them. It is a fault
/// if one of them does not exist in this block, has exited, waits at the
/// [`barrier`], or waits in another exchange that in the end waits for the
/// caller. Several exchanges of a warp can be under way at once.
///
/// # Panics
///
/// Outside a kernel.
///
/// ```
/// use cuda_sim::{LaunchConfig, exchange, lane, launch};
///
/// launch("rotate", &LaunchConfig::new(1, 32), &|| {
///     let values = exchange("shfl", u32::MAX, u64::from(lane() * 10));
///     assert_eq!(values.get((lane() + 1) % 32), Some(u64::from((lane() + 1) % 32 * 10)));
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[inline(always)]
#[track_caller]
pub fn exchange<T: Copy>(name: &'static str, mask: u32, value: T) -> Lanes<T> {
    let call = Call::new(name);
    watchdog::listen(call);
    // SAFETY: as in `barrier`.
    let context = unsafe { context::current("exchange") };
    context.exchange(call, mask, value)
}

/// As [`exchange`], where each lane takes only the bytes that lane `from` gave: a
/// shuffle, of a value of any size. All lanes give as many. It is a fault if `from`
/// is not in `mask`.
///
/// # Panics
///
/// Outside a kernel; if `out` is not as long as `value`.
///
/// ```
/// use cuda_sim::{LaunchConfig, exchange_bytes, lane, launch};
///
/// launch("rotate", &LaunchConfig::new(1, 32), &|| {
///     let mut neighbour = [0; 2];
///     exchange_bytes("shfl", u32::MAX, &[lane() as u8, 7], (lane() + 1) % 32, &mut neighbour);
///     assert_eq!(neighbour, [(lane() as u8 + 1) % 32, 7]);
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[inline(always)]
#[track_caller]
pub fn exchange_bytes(name: &'static str, mask: u32, value: &[u8], from: u32, out: &mut [u8]) {
    let call = Call::new(name);
    watchdog::listen(call);
    // SAFETY: as in `barrier`.
    let context = unsafe { context::current("exchange_bytes") };
    context.exchange_bytes(call, mask, value, from, out);
}

/// As [`exchange`], where the lane that comes last makes of all values what each lane gets: element `lane` of what `make`
/// returns. What takes all values of the warp, as a product of matrices does, is so done once, and the values are not
/// copied for each lane.
///
/// # Panics
///
/// Outside a kernel.
///
/// # Safety
///
/// `make` calls no function of this crate but those of [`Lanes`]: it computes, on the stack of one lane, while the others wait.
///
/// ```
/// use cuda_sim::{LaunchConfig, exchange_with, lane, launch};
///
/// launch("sums", &LaunchConfig::new(1, 32), &|| {
///     let sums = |values: &cuda_sim::Lanes<u32>| {
///         let mut sum = 0;
///         std::array::from_fn(|lane| {
///             sum += values.get(lane as u32).unwrap_or_default();
///             sum
///         })
///     };
///     // SAFETY: it only adds.
///     let sum: u32 = unsafe { exchange_with("sums", u32::MAX, 2, sums) };
///     assert_eq!(sum, 2 * (lane() + 1));
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[inline(always)]
#[track_caller]
pub unsafe fn exchange_with<T: Copy + 'static, R: Copy + 'static>(
    name: &'static str,
    mask: u32,
    value: T,
    make: impl FnOnce(&Lanes<T>) -> [R; 32],
) -> R {
    let call = Call::new(name);
    watchdog::listen(call);
    // SAFETY: the context as in `barrier`; the caller promises what `make` does.
    unsafe { context::current("exchange_with").exchange_with(call, mask, value, make) }
}

/// Lets the other threads of the block, and other blocks, run: to be called in
/// every turn of a loop that waits for a change in memory. Unwinds the thread if
/// the grid has been stopped by a fault, and [polls](poll) in the name of `name`.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn yield_now(name: &'static str) {
    poll(name);
    context::with(name, |context| context.yield_now());
}

/// Waits until `is_over`, which nobody but other threads of the block, or of the cluster, can bring about. It is a fault, with
/// what `reason` says, if all of them wait for one another; unlike with [`yield_now`] that is noticed at once.
///
/// # Panics
///
/// Outside a kernel.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use cuda_sim::{Error, LaunchConfig, launch, thread_idx, wait_until};
///
/// let ready = AtomicBool::new(false);
/// let wait = || wait_until("wait", || ready.load(Relaxed), || "nobody is ready".into());
/// let Err(Error::Fault(fault)) = launch("wait", &LaunchConfig::new(1, 2), &wait) else { panic!() };
/// assert_eq!(fault.message, "nobody is ready");
/// launch("wait", &LaunchConfig::new(1, 2), &|| match thread_idx().x {
///     0 => wait(),
///     _ => ready.store(true, Relaxed),
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[track_caller]
pub fn wait_until(name: &'static str, is_over: impl Fn() -> bool, reason: impl FnOnce() -> String) {
    let call = Call::new(name);
    context::with(name, |context| context.wait_until(call, is_over, reason));
}

/// Ends the thread by a fault that names `name`, if the launch has been given up
/// because it does not end. To be called where a thread touches memory that
/// others write. Costs one load; does nothing outside a kernel.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use cuda_sim::{LaunchConfig, launch, poll, thread_idx};
///
/// let ready = AtomicBool::new(false);
/// launch("wait", &LaunchConfig::new(1, 2), &|| match thread_idx().x {
///     0 => ready.store(true, Relaxed),
///     // Without the store above, a fault.
///     _ => while !ready.load(Relaxed) {
///         poll("load");
///     },
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn poll(name: &'static str) {
    let call = Call::new(name);
    watchdog::listen(call);
}
