// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host calls: launches.

use std::sync::OnceLock;

use crate::check::Checks;
use crate::config::{LaunchConfig, Options};
use crate::count::{Counter, LaunchCounters};
use crate::error::Error;
use crate::workers;

/// Runs `body` once for each thread of the grid, and returns when all are done.
///
/// Blocks start in linear order, x fastest, and run in parallel on the calling
/// thread and a pool of the engine's own, as many at once as rayon's current pool
/// has threads; a grid of one block runs on the calling thread alone. The calling
/// thread does nothing else before the launch is over, also where it is a thread
/// of rayon's: a lock may be held. The threads of one block all run on one OS thread. Launches
/// from several OS threads at once are independent of each other, but that one
/// waits while others have the stacks that its threads need, as on a GPU it would
/// for its resources: there are 28 672.
///
/// # Errors
///
/// [`Error::Config`] if the configuration is outside [`LIMITS`](crate::LIMITS): nothing was run.
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
    workers::launch(kernel, config, options, None, body)
}

/// [`launch`] of a grid whose blocks may meet at the [`grid_barrier`](crate::grid_barrier): all of them
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
    workers::launch(kernel, config, options, None, body)
}

/// [`launch`] with options, which say of checks what is wanted whatever the environment says.
///
/// # Errors
///
/// As [`launch`] and [`launch_cooperative`]; [`Error::Clusters`] for a grid that is no multiple of the clusters. What is checked and found is a [`Fault`](crate::Fault) of the second of two threads.
///
/// # Panics
///
/// If called from inside a kernel; if the launch is cooperative and has clusters.
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
    workers::launch(kernel, config, options, None, body)
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
    let counter = Counter::new(options.traced);
    workers::launch(kernel, config, options, Some(&counter), body)?;
    Ok(counter.finish(kernel, config))
}

/// What the environment says, read once.
fn default_checks() -> Checks {
    static CHECKS: OnceLock<Checks> = OnceLock::new();
    *CHECKS.get_or_init(Checks::from_env)
}

/// The most blocks of so many threads that a cooperative launch takes: as many as
/// there are stacks for all their threads.
pub fn cooperative_blocks(threads: u32) -> u32 {
    workers::cooperative_blocks(threads)
}
