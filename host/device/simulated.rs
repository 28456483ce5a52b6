// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated GPU's forms: with checks, by a schedule, counting.

use std::sync::Arc;

use cuda_sim::{Checks, LaunchCounters, Schedule};

use super::{Device, traced};
use crate::backend::sim::{self, Simulation};
use crate::error::{Error, Result};

impl Device {
    /// The simulated GPU: kernels run on the host's cores, and what is undefined on a GPU is an error.
    ///
    /// A launch of which no block has ended for 60 seconds is an error as well; the environment variable
    /// `WARPSMITH_SIM_TIMEOUT` gives another number of seconds, 0 no limit.
    ///
    /// Data races and reads of memory that nobody has written are errors where the environment variable
    /// `WARPSMITH_SIM_CHECKS` asks for it: `all`, or a list of `races` and `uninitialised`. See
    /// [`checked_simulator`](Self::checked_simulator).
    ///
    /// With `WARPSMITH_SIM_PROFILE=1` each launch writes to the standard error what it has counted, or with the name of a
    /// file to that. See [`counting_simulator`](Self::counting_simulator).
    ///
    /// Each call makes a device of its own.
    pub fn simulator() -> Self {
        Self::simulated(sim::Simulator::new())
    }

    /// The simulated GPU with these checks of every launch, whatever the environment says: the place to find out whether a
    /// kernel is right. What is found is [`Error::Fault`], which names both accesses by file and line; the device goes on
    /// working.
    ///
    /// What orders two accesses is what does so on a GPU: barriers of the block and the grid, `sync_warp`, what one thread
    /// releases and another acquires, each in its scope. That this machine happens to run one before the other does not.
    /// Reads of arrays that the launch only reads race with nothing. What has been written in an array is known from launch
    /// to launch, and a copy to the host of what has not is [`Error::Uninitialised`].
    ///
    /// Each launch runs on one core, and takes several times as long as without checks. docs/simulator.md has examples.
    ///
    /// ```
    /// use warpsmith::{Checks, Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::checked_simulator(Checks::ALL);
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &ndarray::arr1(&[1.0f32, 2.0, 3.0]))?;
    /// assert_eq!(x.sum()?, 6.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn checked_simulator(checks: Checks) -> Self {
        Self::simulated(sim::Simulator::checked(checks))
    }

    /// The simulated GPU, whose threads and blocks run in the order of `schedule`, whatever the environment says; without it
    /// the variable `WARPSMITH_SIM_SEED` has a seed of a random one, or `reversed`.
    ///
    /// A GPU does not say in which order threads run either. By a schedule it is the same each time, so that a kernel which
    /// depends on it always gives one result, and by another schedule another; launches run on one core. Without one the
    /// threads of a block run as by [`Schedule::InOrder`], and blocks on all cores.
    pub fn scheduled_simulator(schedule: Schedule) -> Self {
        Self::simulated(sim::Simulator::new().with_schedule(schedule))
    }

    /// Calls `run` with a simulated GPU for each of the schedules, and compares what it returns with what the first one
    /// gave, which is returned.
    ///
    /// How large the launches are is up to `run`; [`smallest_failure`](Self::smallest_failure) finds the smallest that fail.
    ///
    /// # Errors
    ///
    /// Those of `run`; [`Error::ScheduleDependent`] names the first schedule by which the result is another: the kernels
    /// depend on the order of threads, as one that races does. `Device::scheduled_simulator` with it shows the same again.
    /// Sums of floats by atomics depend on it, and are meant to.
    ///
    /// # Panics
    ///
    /// If there is no schedule.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::{Device, DeviceArray, Error, LaunchConfig, Schedule};
    ///
    /// /// Counts threads, and forgets that others do so as well.
    /// #[kernel]
    /// pub fn count(counter: SliceMut<'_, u32>) {
    ///     counter.set(0, counter.get(0) + 1);
    /// }
    ///
    /// let counts = Device::compare_schedules(Schedule::several(4, 20), |device| {
    ///     let stream = device.default_stream();
    ///     let mut counter = DeviceArray::<u32, _>::zeros(stream, 1)?;
    ///     stream.launch::<count>(&LaunchConfig::new(4, 32), (&mut counter,))?;
    ///     counter.to_ndarray()
    /// });
    /// let Err(Error::ScheduleDependent { schedule, .. }) = counts else { panic!() };
    /// // The first by which the count is another than in order.
    /// assert_eq!(schedule, Schedule::Random(0));
    /// ```
    pub fn compare_schedules<R: PartialEq>(
        schedules: impl IntoIterator<Item = Schedule>,
        mut run: impl FnMut(&Device) -> Result<R>,
    ) -> Result<R> {
        let mut results = (schedules.into_iter()).map(|schedule| (schedule, run(&Self::scheduled_simulator(schedule))));
        let (first, result) = results.next().expect("schedules to compare");
        let result = result?;
        for (schedule, other) in results {
            if other? != result {
                return Err(Error::ScheduleDependent { first, schedule });
            }
        }
        Ok(result)
    }

    /// Calls `run` with `size`, and gives what it returns. If kernels are found to be wrong there, looks for the smallest
    /// size at which they still are: a race of two blocks is easier to understand than one of a thousand.
    ///
    /// What a size is, blocks or elements for instance, is up to `run`, and so is what is tried, by simulated GPUs of its
    /// own: a launch with checks, or several schedules. A kernel is wrong that faults, whose result
    /// [depends on the schedule](Self::compare_schedules), or that leaves what is read [uninitialised](Error::Uninitialised).
    /// Other errors at smaller sizes, such as that of a launch without blocks, do not count.
    ///
    /// Small sizes are tried one by one, from 1 on, as many as together are no larger than `size`, about √(2 size) of them:
    /// the first of these that fails is the smallest of all. If there is none, the range above them is halved until the
    /// size that is found fails and the one below it does not: the smallest of all as well, if all larger ones fail.
    ///
    /// # Errors
    ///
    /// [`Error::SmallestFailure`] has the size, and what is wrong there: what was found, or the first schedule with another
    /// result. Other errors of `run` at `size`.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::{Device, DeviceArray, Error, LaunchConfig, Schedule};
    ///
    /// /// Counts blocks, and forgets that others do so as well.
    /// #[kernel]
    /// pub fn count(counter: SliceMut<'_, u32>) {
    ///     counter.set(0, counter.get(0) + 1);
    /// }
    ///
    /// let count = Device::smallest_failure(1000, |blocks| {
    ///     Device::compare_schedules(Schedule::several(blocks as u64, 20), |device| {
    ///         let stream = device.default_stream();
    ///         let mut counter = DeviceArray::<u32, _>::zeros(stream, 1)?;
    ///         stream.launch::<count>(&LaunchConfig::new(blocks as u32, 1), (&mut counter,))?;
    ///         counter.get([0])
    ///     })
    /// });
    /// let error = count.unwrap_err();
    /// println!("{error}");
    /// let Error::SmallestFailure { size, failure, .. } = error else { panic!() };
    /// assert_eq!(size, 2);
    /// let Error::ScheduleDependent { schedule, .. } = *failure else { panic!() };
    /// // `Device::scheduled_simulator(schedule)` has the same again.
    /// assert!(matches!(schedule, Schedule::Random(_)));
    /// ```
    pub fn smallest_failure<R>(size: usize, mut run: impl FnMut(usize) -> Result<R>) -> Result<R> {
        let error = match run(size) {
            Err(error) if error.is_of_wrong_kernels() => error,
            other => return other,
        };
        let fails = |size| run(size).err().filter(Error::is_of_wrong_kernels);
        let (smallest, error) = shrink((size, error), fails);
        Err(Error::SmallestFailure {
            size: smallest,
            given: size,
            failure: Box::new(error),
        })
    }

    /// The simulated GPU, which counts what each launch would have the memory of a GPU do: requests of warps, sectors of
    /// global memory, bank conflicts of shared memory, collisions of atomics, for each line of the source. It is where to
    /// learn why a kernel is slow without a GPU, and what a GPU's profiler would count.
    ///
    /// [`take_counters`](Self::take_counters) has the numbers. Launches run on one core, and take several times as long.
    /// What is counted, and how it compares with a GPU, is in docs/simulator.md.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::sim::{Operation, Space};
    /// use warpsmith::{Device, DeviceArray, LaunchConfig};
    ///
    /// /// `out` = every second element of `x`
    /// #[kernel]
    /// pub fn every_second(x: &[f32], out: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     out.set(i, x[2 * i]);
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::counting_simulator();
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &ndarray::Array1::<f32>::zeros(128))?;
    /// let mut out = DeviceArray::<f32, _>::zeros(stream, 64)?;
    /// stream.launch::<every_second>(&LaunchConfig::new(1, 64), (&x, &mut out))?;
    ///
    /// let counters = device.take_counters();
    /// let [counters] = &counters[..] else { panic!() };
    /// // Two warps, each of which reads 4 bytes of every 8: eight sectors of 32 bytes where four would do.
    /// let loads = counters.total(Space::Global, Operation::Load);
    /// assert_eq!((loads.requests, loads.sectors_per_request(), loads.efficiency()), (2, 8.0, 0.5));
    /// println!("{counters}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn counting_simulator() -> Self {
        Self::simulated(sim::Simulator::new().counting())
    }

    /// A [`counting_simulator`](Self::counting_simulator) that also keeps what one block of each launch does, step by step:
    /// what each warp reads and writes, and where the block meets ([`LaunchCounters::steps`]). For teaching:
    /// examples/sim_trace.rs prints it.
    ///
    /// Blocks have numbers in linear order, x fastest. The first 10,000 steps are kept.
    pub fn tracing_simulator(block: u64) -> Self {
        Self::simulated(sim::Simulator::new().tracing(block))
    }

    /// What was counted of the launches of a [`counting_simulator`](Self::counting_simulator) since the last call, in their
    /// order. Other devices have nothing.
    pub fn take_counters(&self) -> Vec<LaunchCounters> {
        self.backend.take_counters()
    }

    pub(super) fn simulated(simulator: sim::Simulator) -> Self {
        Self::with_backend(traced(Arc::new(simulator)))
            .expect("the simulator's streams are numbers, and it has no kernels yet")
    }

    /// The simulated GPU with the instructions of Hopper's tensor cores, for which products of matrices have kernels of
    /// their own. For tests: they are slower there than those of [`simulator`](Self::simulator).
    #[doc(hidden)]
    pub fn simulated_hopper() -> Self {
        Self::simulated(sim::Simulator::new().with_tensor_cores((9, 0)))
    }

    /// A GPU that is simulated so, whatever the environment says. For tests.
    #[doc(hidden)]
    pub fn simulated_as(simulation: Simulation) -> Self {
        Self::simulated(sim::Simulator::of(simulation))
    }
}

/// A smaller size that `fails`, and how, or the one that is known to; see [`Device::smallest_failure`].
fn shrink<E>((mut size, mut error): (usize, E), mut fails: impl FnMut(usize) -> Option<E>) -> (usize, E) {
    let (mut passes, mut tried) = (0, 0);
    for small in 1..size {
        // Together they cost no more than the size that failed.
        tried += small;
        if tried > size {
            break;
        }
        if let Some(error) = fails(small) {
            return (small, error);
        }
        passes = small;
    }
    while passes + 1 < size {
        let middle = passes.midpoint(size);
        match fails(middle) {
            Some(smaller) => (size, error) = (middle, smaller),
            None => passes = middle,
        }
    }
    (size, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size that is found of those that `fails` says, and how large those are together that were tried.
    fn shrunk(size: usize, fails: impl Fn(usize) -> bool) -> (usize, usize) {
        let mut tried = 0;
        let (smallest, error) = shrink((size, size), |size| {
            tried += size;
            fails(size).then_some(size)
        });
        assert_eq!(smallest, error);
        (smallest, tried)
    }

    #[test]
    fn the_smallest_of_all_that_fail_from_one_on() {
        for size in 1..200 {
            for first in 1..=size {
                assert_eq!(shrunk(size, |size| size >= first).0, first, "{size}");
            }
        }
        let (smallest, tried) = shrunk(1_000_000, |size| size >= 600_001);
        assert_eq!(smallest, 600_001);
        // Each half as often as there are bits, and the first ones.
        assert!(tried < 21 * 1_000_000, "{tried}");
    }

    #[test]
    fn a_small_one_where_some_do_not_fail() {
        // 7 of every 32.
        assert_eq!(shrunk(1000, |size| size % 32 > 24).0, 25);
        // Only sizes beyond the first ones.
        let fails = |size| size > 300 && size % 3 == 1;
        let (smallest, _) = shrunk(1000, fails);
        assert!(fails(smallest) && !fails(smallest - 1), "{smallest}");
        // No other.
        assert_eq!(shrunk(1000, |size| size == 1000).0, 1000);
        assert_eq!(shrunk(1, |_| panic!("there is none")).0, 1);
        assert_eq!(shrunk(0, |_| panic!("there is none")).0, 0);
    }
}
