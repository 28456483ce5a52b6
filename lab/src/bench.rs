// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long work takes on a device.

use std::time::{Duration, Instant};

use anyhow::Result;
use ndarray::{Array, Dimension, Ix1};
use warpsmith::{Device, DeviceArray, Element, Event, Stream};

/// Calls before those that are timed.
const WARM_UP: usize = 3;

/// Timed calls for each head start. With two events and up to eight kernels each, and 400 fills at most, they take some
/// 700 entries of the thousand or so that a GPU's queue holds: a full one makes the host wait, and the GPU then waits for
/// the host between the events. 100 calls of five kernels and more took 600 µs so, of 43.
const CALLS_AHEAD: usize = 32;

/// How often calls are timed at most until the host has queued them while their head start lasted.
const ATTEMPTS: u32 = 3;

/// What a fill writes, in bytes.
const FILL_BYTES: usize = 256 << 20;

/// How long a fill takes at least: at 5 TB/s, which is more than an H200 has.
const FILL_TIME: Duration = Duration::from_micros(50);

const LONGEST_HEAD_START: Duration = Duration::from_millis(20);

/// A device to measure on.
pub struct Bench {
    /// The device.
    pub device: Device,
    /// Its default stream, on which all is queued.
    pub stream: Stream,
    /// Timed calls of each measurement.
    pub repeats: usize,
    /// Whether times are those of this machine's cores.
    pub is_simulator: bool,
}

/// The time of a call, of several.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Half of the calls took longer.
    pub median: Duration,
    /// The shortest.
    pub min: Duration,
    /// How many they are of.
    pub repeats: usize,
    /// Whether all calls were queued before the GPU came to the first; else the host was held up, or takes longer for a call than the
    /// GPU, or a call waits for the GPU, and times are the host's in part.
    pub is_ahead: bool,
}

/// The device that is found; where it is the simulated GPU, one with tensor cores, so that their kernels are checked.
///
/// # Errors
///
/// Those of [`Device::auto`].
pub fn device_with_tensor_cores() -> Result<Device> {
    Ok(match Device::auto()? {
        device if device.is_simulator() => Device::simulated_hopper(),
        device => device,
    })
}

/// The arguments of this program that are no options: parts of the names of what is to be measured.
pub fn parts_of_names() -> Vec<String> {
    std::env::args()
        .skip(1)
        .filter(|part| !part.starts_with("--"))
        .collect()
}

/// Whether that name is to be measured: it has one of the parts, or there is none.
pub fn is_wanted(name: &str, parts: &[String]) -> bool {
    parts.is_empty() || parts.iter().any(|part| name.contains(part))
}

impl Bench {
    /// A device on which each measurement is of that many calls.
    pub fn new(device: &Device, repeats: usize) -> Self {
        Self {
            device: device.clone(),
            stream: device.default_stream().clone(),
            repeats,
            is_simulator: device.is_simulator(),
        }
    }

    /// A copy on the device.
    ///
    /// # Errors
    ///
    /// Those of allocations and copies.
    pub fn upload<T: Element, D: Dimension>(&self, host: &Array<T, D>) -> Result<DeviceArray<T, D>> {
        Ok(DeviceArray::from_ndarray(&self.stream, host)?)
    }

    /// Zeros on the device.
    ///
    /// # Errors
    ///
    /// Those of allocations.
    pub fn zeros<T: Element, D: Dimension>(
        &self,
        shape: impl ndarray::IntoDimension<Dim = D>,
    ) -> Result<DeviceArray<T, D>> {
        Ok(DeviceArray::zeros(&self.stream, shape)?)
    }

    /// Calls `launch` once, which writes `out`, checks that, and times the call.
    ///
    /// What a call takes the host is what the fastest one of the warm-up took it, events included. Where the host was held up
    /// later, so that the GPU was done with its head start before the last call was queued, they are timed again behind a
    /// longer one, up to three times.
    ///
    /// # Errors
    ///
    /// Those of `launch` and `check`.
    pub fn times<O>(
        &self,
        out: &mut O,
        mut launch: impl FnMut(&mut O) -> warpsmith::Result<()>,
        check: impl FnOnce(&O) -> Result<()>,
    ) -> Result<Times> {
        launch(out)?;
        check(out)?;
        let mut timed = || -> warpsmith::Result<(Event, Event)> {
            let start = self.stream.record()?;
            launch(out)?;
            Ok((start, self.stream.record()?))
        };
        let mut host_time = Duration::MAX;
        for _ in 0..WARM_UP {
            let before = Instant::now();
            timed()?;
            host_time = host_time.min(before.elapsed());
        }
        let mut least: Option<Times> = None;
        for attempt in 1..=ATTEMPTS {
            let times = self.attempt(&mut timed, host_time * attempt)?;
            if times.is_ahead {
                return Ok(times);
            }
            least = Some(least.map_or(times, |least| if times.median < least.median { times } else { least }));
        }
        Ok(least.expect("an attempt"))
    }

    /// Times the calls once.
    fn attempt(
        &self,
        timed: &mut impl FnMut() -> warpsmith::Result<(Event, Event)>,
        host_time: Duration,
    ) -> warpsmith::Result<Times> {
        let mut events = Vec::with_capacity(self.repeats);
        let mut is_ahead = true;
        while events.len() < self.repeats {
            let first = events.len();
            let calls = CALLS_AHEAD.min(self.repeats - first);
            self.head_start(host_time * calls as u32)?;
            for _ in 0..calls {
                events.push(timed()?);
            }
            is_ahead &= self.is_simulator || !events[first].0.is_reached()?;
        }
        let times = events.iter().map(|(start, end)| end.elapsed_since(start));
        Ok(Times {
            is_ahead,
            ..Times::of(times.collect::<warpsmith::Result<Vec<_>>>()?)
        })
    }

    /// Gives a GPU work for twice the time that the host needs to queue the calls that follow: fills of memory. A GPU
    /// that reached a call before its kernel is queued would wait for the host between the call's two events.
    ///
    /// These are fills, and not a gate that the host opens, so that a call that waits for the GPU loses the head start
    /// and no more. They also evict the L2 cache, before the first call alone, which does not move a median. The
    /// simulated GPU does its work while it is queued.
    fn head_start(&self, host_time: Duration) -> warpsmith::Result<()> {
        if self.is_simulator {
            return Ok(());
        }
        let wanted = (2 * host_time).min(LONGEST_HEAD_START);
        let fills = wanted.as_nanos().div_ceil(FILL_TIME.as_nanos());
        // Freed and allocated again in the order of the stream: the same memory each time.
        (0..fills).try_for_each(|_| DeviceArray::<u8, Ix1>::zeros(&self.stream, FILL_BYTES).map(drop))
    }
}

impl Times {
    /// Of at least one.
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let middle = times.len() / 2;
        let median = match times.len() % 2 {
            0 => (times[middle - 1] + times[middle]) / 2,
            _ => times[middle],
        };
        Self {
            median,
            min: times[0],
            repeats: times.len(),
            is_ahead: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let times = |ms: &[u64]| Times::of(ms.iter().copied().map(Duration::from_millis).collect());
        let odd = times(&[9, 1, 4]);
        assert_eq!(
            (odd.median, odd.min),
            (Duration::from_millis(4), Duration::from_millis(1))
        );
        assert_eq!(times(&[8, 2, 4, 5]).median, Duration::from_micros(4500));
    }
}
