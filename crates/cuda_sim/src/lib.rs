// SPDX-License-Identifier: MIT OR Apache-2.0
//! A simulated CUDA GPU: it runs a kernel's grids, blocks, warps, barriers and
//! shared memory on the CPU, and reports what a GPU would get wrong in silence.
//!
//! [`launch`] calls a closure once for each GPU thread. Inside, the closure asks
//! for its place ([`thread_idx`], [`block_idx`], …) and meets the other threads
//! of its block ([`barrier`]) and its warp ([`exchange`]). Blocks run in
//! parallel over the cores; the threads of a block are coroutines on one OS
//! thread which switch only where they wait, about 10 ns a switch. A thread that
//! never waits costs little more than a call.
//!
//! A thread that panics, a barrier that not all threads reach, a warp operation
//! that names an absent lane, too much shared memory: each is a [`Fault`] that
//! names kernel, block, thread and source line. It ends the grid, not the
//! process, and prints nothing.
//!
//! # Launches that never end
//!
//! A launch is given up when none of its blocks has ended, or come through the
//! [`grid_barrier`], for 60 seconds, or as
//! many as the environment variable `WARPSMITH_SIM_TIMEOUT` says (`0.5`, `600`;
//! `0` is no limit; it is read once a process). Its threads end at the next
//! function here that waits or touches memory, by a [`Fault`] that names the
//! thread and where it loops or waits. A thread that calls none, as in `loop {}`,
//! cannot be ended, and the launch does not return: then a line on standard
//! error names kernel, block and thread. Time in which the process was stopped
//! does not count.
//!
//! # Reversing a block through shared memory
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use cuda_sim::{LaunchConfig, SharedSite, barrier, launch, shared_memory, static_shared, thread_idx};
//!
//! let output: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
//! launch("reverse", &LaunchConfig::new(1, 64), &|| {
//!     static TILE: SharedSite = SharedSite::new(64 * 4, 4);
//!     let tile = shared_memory(static_shared(&TILE), 64 * 4).cast::<u32>();
//!     let i = thread_idx().x as usize;
//!     // SAFETY: the array has 64 elements, and each thread writes its own.
//!     unsafe { tile.add(i).write(i as u32) };
//!     barrier("sync_threads", 0);
//!     // SAFETY: as above; the barrier has put all writes before all reads.
//!     output[i].store(unsafe { tile.add(63 - i).read() }, Relaxed);
//! })?;
//! assert!((0..64).all(|i| output[i].load(Relaxed) == 63 - i as u32));
//! # Ok::<(), cuda_sim::Error>(())
//! ```
//!
//! # What the engine asks of a kernel
//!
//! - A loop that waits for another thread or block by reading memory must call
//!   [`yield_now`], or it keeps its OS thread until the launch is given up. A
//!   block may wait for blocks of lower number; a higher one need not have
//!   started, but in a cooperative launch it has or will.
//! - A loop that reads memory which other threads write calls [`poll`], if it
//!   calls no other function here: a launch that never ends is given up there.
//! - A thread has 64 KiB of stack, guarded: running over it ends the process,
//!   with a line on stderr that names kernel, block and thread.
//! - A destructor that runs because its thread unwinds may call every function
//!   here; in it, the functions that wait return at once. As everywhere in Rust,
//!   it must not panic.
//! - Panics must unwind: with `panic = "abort"` a fault ends the process.

#![deny(missing_docs)]

mod barrier;
mod block;
mod check;
mod config;
mod context;
mod count;
mod crew;
mod dim3;
mod error;
mod grid;
mod hook;
mod launch;
mod meeting;
mod overflow;
mod schedule;
mod shared;
mod stack;
mod wait;
mod warp;
mod watchdog;

use std::io::Write;
use std::panic::Location;

pub use barrier::{BarrierResult, GROUP_BARRIERS};
pub use check::{Access, Array, Atomic, Checks, Engine, Finding, FindingKind, Kind, Scope, Space};
pub use config::{LIMITS, LaunchConfig, Limits, Options, TENSOR_CORES};
pub use count::{Counts, LaunchCounters, LineCounters, Operation, Step};
pub use dim3::Dim3;
pub use error::{Error, Fault, SourceLocation};
pub use schedule::Schedule;
pub use shared::{SharedPtr, SharedSite};
pub use warp::Lanes;

use check::{Bytes, Meeting};
use error::Call;

// Functions that kernels call all the time are inlined in optimised kernels. Others, such as those of tests, call them:
// inlined there they would be compiled without optimisation, and this crate is compiled with it.

/// Runs `body` once for each thread of the grid, and returns when all are done.
///
/// Blocks start in linear order, x fastest, and run in parallel on the calling
/// thread and a pool of the engine's own, as many at once as rayon's current pool
/// has threads; a grid of one block runs on the calling thread alone. The calling
/// thread does nothing else before the launch is over, also where it is a thread
/// of rayon's: a lock may be held. The threads of one block all run on one OS thread. Launches
/// from several OS threads at once are independent of each other.
///
/// # Errors
///
/// [`Error::Config`] if the configuration is outside [`LIMITS`]: nothing was run.
/// [`Error::Fault`] if a thread failed: no further block starts, the threads
/// still waiting are unwound, and the fault of the lowest block among those that
/// failed is returned. The engine can be used again at once.
///
/// # Panics
///
/// If called from inside a kernel.
///
/// ```
/// use cuda_sim::{Error, LaunchConfig, launch, thread_idx};
///
/// let error = launch("odd", &LaunchConfig::new(4, 32), &|| {
///     assert!(thread_idx().x != 7, "seven");
/// });
/// let Err(Error::Fault(fault)) = error else { panic!() };
/// assert_eq!((fault.block.x, fault.thread.x, &*fault.message), (0, 7, "seven"));
/// assert!(fault.location.is_some());
/// ```
#[track_caller]
pub fn launch(kernel: &str, config: &LaunchConfig, body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    let options = Options {
        checks: default_checks(),
        ..Options::default()
    };
    launch::launch(kernel, config, options, None, body)
}

/// [`launch`] of a grid whose blocks may meet at the [`grid_barrier`]: all of them
/// run side by side. An OS thread runs several, one after another, as each of them
/// waits.
///
/// # Errors
///
/// As [`launch`]; [`Error::Config`] also for more blocks than
/// [`cooperative_blocks`].
///
/// # Panics
///
/// If called from inside a kernel.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use cuda_sim::{LaunchConfig, grid_barrier, launch_cooperative};
///
/// let arrived = AtomicU32::new(0);
/// launch_cooperative("meet", &LaunchConfig::new(8, 64), &|| {
///     arrived.fetch_add(1, Relaxed);
///     grid_barrier("sync");
///     assert_eq!(arrived.load(Relaxed), 512);
/// })?;
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[track_caller]
pub fn launch_cooperative(kernel: &str, config: &LaunchConfig, body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    let options = Options {
        cooperative: true,
        checks: default_checks(),
        ..Options::default()
    };
    launch::launch(kernel, config, options, None, body)
}

/// [`launch`] with options, which say of checks what is wanted whatever the environment says.
///
/// # Errors
///
/// As [`launch`] and [`launch_cooperative`]. What is checked and found is a [`Fault`] of the second of two threads.
///
/// # Panics
///
/// If called from inside a kernel.
///
/// ```
/// use cuda_sim::{Checks, Error, Kind, LaunchConfig, Options, Space, access, launch_with, thread_idx};
///
/// let cell = std::sync::atomic::AtomicU32::new(0);
/// let address = cell.as_ptr().addr();
/// let options = Options { checks: Checks::ALL, ..Options::default() };
/// let error = launch_with("race", &LaunchConfig::new(1, 64), options, &|| {
///     if thread_idx().x % 40 == 0 {
///         access(Space::Global, address, 4, 4, Kind::Write);
///     }
/// });
/// let Err(Error::Fault(fault)) = error else { panic!() };
/// assert_eq!(fault.thread.x, 40);
/// assert!(fault.message.starts_with("data race on 4 bytes of global memory"));
/// ```
#[track_caller]
pub fn launch_with(
    kernel: &str,
    config: &LaunchConfig,
    options: Options<'_>,
    body: &(dyn Fn() + Sync),
) -> Result<(), Error> {
    launch::launch(kernel, config, options, None, body)
}

/// [`launch_with`], on one core, that counts what the launch's accesses would have the memory of a GPU do.
///
/// # Errors
///
/// As [`launch_with`].
///
/// # Panics
///
/// If called from inside a kernel.
///
/// ```
/// use cuda_sim::{Kind, LaunchConfig, Operation, Options, Space, access, launch_counted, thread_idx};
///
/// let counted = launch_counted("strided", &LaunchConfig::new(1, 32), Options::default(), &|| {
///     access(Space::Global, 4096 + 8 * thread_idx().x as usize, 4, 4, Kind::Read);
/// })?;
/// let loads = counted.total(Space::Global, Operation::Load);
/// assert_eq!((loads.requests, loads.lanes, loads.sectors, loads.bytes), (1, 32, 8, 128));
/// # Ok::<(), cuda_sim::Error>(())
/// ```
#[track_caller]
pub fn launch_counted(
    kernel: &str,
    config: &LaunchConfig,
    options: Options<'_>,
    body: &(dyn Fn() + Sync),
) -> Result<LaunchCounters, Error> {
    let counter = count::Counter::new(options.traced);
    launch::launch(kernel, config, options, Some(&counter), body)?;
    Ok(counter.finish(kernel, config))
}

/// What the environment says, read once.
fn default_checks() -> Checks {
    static CHECKS: std::sync::OnceLock<Checks> = std::sync::OnceLock::new();
    *CHECKS.get_or_init(Checks::from_env)
}

/// The most blocks of so many threads that a cooperative launch takes: as many as
/// there is room for the stacks of all their threads.
pub fn cooperative_blocks(threads: u32) -> u32 {
    launch::cooperative_blocks(threads)
}

/// Whether the caller is a GPU thread, so that the other functions may be called.
#[cfg_attr(not(debug_assertions), inline)]
pub fn in_kernel() -> bool {
    context::is_set()
}

/// The index of this thread in its block.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn thread_idx() -> Dim3 {
    context::with("thread_idx", |context| context.index())
}

/// The index of this block in its grid.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn block_idx() -> Dim3 {
    context::with("block_idx", |context| context.block.get())
}

/// The extents of a block, in threads.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn block_dim() -> Dim3 {
    context::with("block_dim", |context| context.grid.config.block)
}

/// The extents of the grid, in blocks.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn grid_dim() -> Dim3 {
    context::with("grid_dim", |context| context.grid.config.grid)
}

/// This thread's lane in its warp: its linear index (x fastest) modulo 32.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn lane() -> u32 {
    context::with("lane", |context| context.linear() % 32)
}

/// The lanes of this warp that exist and have not exited, a bit each.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn active_mask() -> u32 {
    context::with("active_mask", |context| context.active_mask())
}

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
    let call = call(name);
    watchdog::listen(call);
    // SAFETY: used in this function only. A closure as elsewhere would be a call
    // of its own, and a switch inside calls costs a wrongly predicted return each.
    let context = unsafe { context::current("barrier") };
    context.wait_at_barrier(call, value)
}

/// Waits until all threads of all blocks have come here, in a launch by
/// [`launch_cooperative`]. Faults name the barrier by `name`.
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
    let call = call(name);
    watchdog::listen(call);
    context::with("grid_barrier", |context| context.wait_for_grid(call));
}

/// Waits until `threads` threads of the block have come to the barrier `number`,
/// below [`GROUP_BARRIERS`]; then it can be used again. Faults name it by `name`.
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
    let call = call(name);
    watchdog::listen(call);
    context::with("group_barrier", |context| context.wait_in_group(call, number, threads));
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
    let call = call(name);
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
    let call = call(name);
    watchdog::listen(call);
    // SAFETY: as in `barrier`.
    let context = unsafe { context::current("exchange_bytes") };
    context.exchange_bytes(call, mask, value, from, out);
}

/// The memory of one static shared array: the same place for all threads of a
/// block, filled with the byte 0xA5 when the block first asks for it. It is a
/// fault if the arrays of a block need more than [`LIMITS`] allow.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn static_shared(site: &'static SharedSite) -> SharedPtr {
    let call = call("static_shared");
    context::with("static_shared", |context| {
        let array = context.shared.array(site);
        array.unwrap_or_else(|message| context.raise(call, message))
    })
}

/// The dynamic shared memory of the block and its size in bytes, aligned to 128
/// bytes and filled with the byte 0xA5 when the block first asks for it.
///
/// # Panics
///
/// Outside a kernel.
#[track_caller]
pub fn dynamic_shared() -> (SharedPtr, usize) {
    context::with("dynamic_shared", |context| context.shared.dynamic())
}

/// The address of `bytes` bytes of shared memory at `at`, valid until the block
/// ends. It is a fault if `at` belongs to another block than the one that runs,
/// or if there are fewer bytes.
///
/// # Panics
///
/// Outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn shared_memory(at: SharedPtr, bytes: usize) -> *mut u8 {
    let call = call("shared_memory");
    watchdog::listen(call);
    context::with("shared_memory", |context| match context.shared.at(at, bytes) {
        Some(address) => address,
        None => context.raise(call, context.shared.refusal(at, bytes)),
    })
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
    let call = call(name);
    watchdog::listen(call);
}

/// Says that the thread accesses `bytes` bytes of memory at `address`, which for shared memory is
/// [`shared_memory`]'s: in a launch that is checked, a race or a read of what nobody has written is a fault, and in one that
/// is counted it counts, as instructions of at most `align` bytes; 0 says that no instruction of the thread's does it.
/// [Polls](poll) too. Costs one load in other launches; does nothing outside a kernel.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn access(space: Space, address: usize, bytes: usize, align: usize, kind: Kind) {
    let call = call(match (space, kind) {
        (Space::Shared, _) => "shared_memory",
        (Space::Global, Kind::Read | Kind::AtomicRead(_)) => "get",
        (Space::Global, Kind::Write | Kind::AtomicWrite(_)) => "set",
    });
    let place = Bytes::new(space, address, bytes, align);
    watchdog::listen_and(call, |context| check::access(context, call, place, kind));
}

/// As [`access`], where nothing is to be checked: only counts.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn count(space: Space, address: usize, bytes: usize, align: usize, operation: Operation) {
    let call = call("load");
    let place = Bytes::new(space, address, bytes, align);
    watchdog::listen_and(call, |context| count::access(context, call, place, operation));
}

/// As [`count`] of a load from global memory, if the address is in an allocation, where [`Options::allocation`] tells.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn count_element(address: usize, bytes: usize, align: usize) {
    let call = call("load");
    let place = Bytes::new(Space::Global, address, bytes, align);
    watchdog::listen_and(call, |context| count::element(context, call, place));
}

/// As [`access`], of an atomic operation in `scope`.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn atomic(space: Space, address: usize, bytes: usize, operation: Atomic, scope: Scope) {
    let call = call(match space {
        Space::Shared => "shared_memory",
        Space::Global => "atomic",
    });
    let place = Bytes::new(space, address, bytes, bytes);
    watchdog::listen_and(call, |context| check::atomic(context, call, place, operation, scope));
}

/// Says that the thread orders its accesses in `scope` by a fence: what it did before is handed on by its atomic stores
/// behind it, and what others have handed on by words that it has loaded is over for it.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn fence(scope: Scope) {
    watchdog::listen_and(call("fence"), |context| check::fence(context, scope));
}

/// Says that `bytes` bytes of shared memory from `address` on, of whole words, may be read whether anybody has written them
/// or not: what is there does not matter.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn assume_written(address: usize, bytes: usize) {
    watchdog::listen_and(call("assume_written"), |context| {
        check::assume_written(context, address, bytes)
    });
}

/// Says that the thread has asked for a copy that fills (of [`Engine::Async`]) or reads (of [`Engine::Bulk`]) `bytes` bytes
/// of shared memory at `address`: until it has waited, an access that does not go with that is a fault.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn copy_begins(engine: Engine, address: usize, bytes: usize) {
    let call = call("copy");
    let place = Bytes::new(Space::Shared, address, bytes, 0);
    watchdog::listen_and(call, |context| {
        check::copies(context, |copies, thread| copies.begin(engine, thread, place, call.at));
    });
}

/// Says that the copies which the thread has asked for since the last call are a group.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn copies_commit(engine: Engine) {
    watchdog::listen_and(call("commit"), |context| {
        check::copies(context, |copies, thread| copies.commit(engine, thread));
    });
}

/// Says that the thread has waited for all its groups of copies but the `newest` ones.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn copies_wait(engine: Engine, newest: u32) {
    watchdog::listen_and(call("wait"), |context| {
        check::copies(context, |copies, thread| copies.wait(engine, thread, newest));
    });
}

/// Says that the thread arrives at the barrier in shared memory at `address`, in a phase of that parity.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn phase_arrive(address: usize, parity: u32) {
    watchdog::listen_and(call("arrive"), |context| {
        check::arrive(context, Meeting::Phase(address, parity))
    });
}

/// Says that the thread has waited for the end of such a phase: what all did before they arrived in it is over.
#[cfg_attr(not(debug_assertions), inline)]
#[track_caller]
pub fn phase_wait(address: usize, parity: u32) {
    watchdog::listen_and(call("wait"), |context| {
        check::leave(context, Meeting::Phase(address, parity))
    });
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
    let call = call(name);
    watchdog::listen(call);
    context::with("sync_warp", |context| context.sync_warp(call, mask));
}

/// Writes `text` to standard output in one piece: texts of several threads do
/// not mix. As with the device's `printf`, that it cannot be written is no error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    // The device function has no way to fail, and the kernel is not at fault.
    let _ = out.write_all(text.as_bytes());
}

#[inline(always)]
#[track_caller]
fn call(name: &'static str) -> Call {
    Call {
        name,
        at: Location::caller(),
    }
}
