// SPDX-License-Identifier: MIT OR Apache-2.0
//! What experiments are made of: sizes, measurements, and tables of steps.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ndarray::{ArrayBase, Data, Dimension};
use warpsmith::sim::{LaunchCounters, Space};
use warpsmith::{Device, DeviceArray, Element};

use crate::bench::{Bench, Times};
use crate::report::{Cell, Table};

/// Timed calls of each measurement on a GPU.
const REPEATS: usize = 15;

/// A device to experiment on.
pub struct Lab {
    /// Where to measure.
    pub bench: Bench,
    size: Option<usize>,
}

/// What a piece of work cost; shown as the time, or as what was counted.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    /// On a GPU: the median of the calls.
    Time(Duration),
    /// On a simulated GPU that counts.
    Counts(Counted),
    /// On one that does not: nothing.
    Unknown,
}

/// What a simulated GPU counted of all launches of a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// Requests of global memory: what the lanes of a warp ask for together.
    pub requests: u64,
    /// Lanes that took part in them.
    pub lanes: u64,
    /// Sectors of 32 bytes that they took.
    pub sectors: u64,
    /// Rounds in which shared memory answered.
    pub wavefronts: u64,
    /// Those of them that bank conflicts added.
    pub bank_conflicts: u64,
    /// Lanes that came to an element of an atomic operation with another lane of their warp.
    pub collisions: u64,
}

impl Display for Cost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Counts(counted) => {
                let [lanes, sectors] =
                    [Count::LanesPerRequest, Count::SectorsPerRequest].map(|count| count.of(counted));
                write!(
                    f,
                    "{} requests of {lanes:.1} lanes and {sectors:.1} sectors",
                    counted.requests
                )?;
                if counted.wavefronts > 0 {
                    let (rounds, conflicts) = (counted.wavefronts, counted.bank_conflicts);
                    write!(f, "; {rounds} rounds of shared memory, {conflicts} by bank conflicts")?;
                }
                match counted.collisions {
                    0 => Ok(()),
                    collisions => write!(f, "; {collisions} collisions"),
                }
            }
            Self::Unknown => f.write_str("a simulated GPU has no time to tell"),
        }
    }
}

impl Counted {
    fn of(launches: &[LaunchCounters]) -> Self {
        let mut all = Self::default();
        for line in launches.iter().flat_map(|launch| &launch.lines) {
            let counts = &line.counts;
            all.collisions += counts.collisions;
            match line.space {
                Space::Global => {
                    all.requests += counts.requests;
                    all.lanes += counts.lanes;
                    all.sectors += counts.sectors;
                }
                Space::Shared => {
                    all.wavefronts += counts.wavefronts;
                    all.bank_conflicts += counts.bank_conflicts;
                }
            }
        }
        all
    }
}

/// A column of what was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Of global memory.
    Requests,
    /// Of a request of global memory.
    SectorsPerRequest,
    /// By sectors of global memory.
    BytesMoved,
    /// Of a request of global memory.
    LanesPerRequest,
    /// Of shared memory.
    Wavefronts,
    /// Of shared memory.
    BankConflicts,
    /// Of atomic operations.
    Collisions,
}

impl Count {
    /// The column's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::SectorsPerRequest => "sectors a request",
            Self::BytesMoved => "bytes moved",
            Self::LanesPerRequest => "lanes a request",
            Self::Wavefronts => "rounds of shared memory",
            Self::BankConflicts => "bank conflicts",
            Self::Collisions => "collisions",
        }
    }

    fn of(self, counted: &Counted) -> f64 {
        let per_request = |count: u64| count as f64 / counted.requests.max(1) as f64;
        match self {
            Self::Requests => counted.requests as f64,
            Self::SectorsPerRequest => per_request(counted.sectors),
            Self::BytesMoved => 32.0 * counted.sectors as f64,
            Self::LanesPerRequest => per_request(counted.lanes),
            Self::Wavefronts => counted.wavefronts as f64,
            Self::BankConflicts => counted.bank_conflicts as f64,
            Self::Collisions => counted.collisions as f64,
        }
    }
}

impl Lab {
    /// A laboratory on that device, with experiments of `size` elements, or their own sizes.
    ///
    /// # Errors
    ///
    /// If the device has other kernels of these names.
    pub fn new(device: &Device, size: Option<usize>) -> Result<Self> {
        crate::register(device)?;
        Ok(Self {
            bench: Bench::new(device, REPEATS),
            size,
        })
    }

    /// A laboratory on the first GPU, or on a simulated one that counts, with experiments of their own sizes.
    ///
    /// # Errors
    ///
    /// As [`Device::auto`].
    pub fn auto() -> Result<Self> {
        match Device::auto()? {
            device if device.is_simulator() => Self::new(&Device::counting_simulator(), None),
            device => Self::new(&device, None),
        }
    }

    /// How many elements an experiment has, if not asked for a number: on a GPU, and on the simulated one.
    pub fn size(&self, gpu: usize, simulator: usize) -> usize {
        self.size.unwrap_or(if self.is_simulator() { simulator } else { gpu })
    }

    /// Whether times mean nothing.
    pub fn is_simulator(&self) -> bool {
        self.bench.is_simulator
    }

    /// What `launch` costs, which writes `out`: once its result has been checked.
    ///
    /// # Errors
    ///
    /// Those of `launch` and `check`.
    pub fn cost<O>(
        &self,
        out: &mut O,
        mut launch: impl FnMut(&mut O) -> warpsmith::Result<()>,
        check: impl FnOnce(&O) -> Result<()>,
    ) -> Result<Cost> {
        if self.is_simulator() {
            // What was there before is not of this work.
            self.bench.device.take_counters();
            launch(out)?;
            let counters = self.bench.device.take_counters();
            check(out)?;
            return Ok(match &counters[..] {
                [] => Cost::Unknown,
                launches => match Counted::of(launches) {
                    // The kernels of expressions are interpreted there, and counted by nobody.
                    nothing if nothing == Counted::default() => Cost::Unknown,
                    counted => Cost::Counts(counted),
                },
            });
        }
        Ok(Cost::Time(self.bench.times(out, launch, check)?.median))
    }

    /// What `launch` takes the host, which writes `out`, with its wait until the device has done it; on a simulated GPU that
    /// counts, what it counts.
    ///
    /// # Errors
    ///
    /// Those of `launch` and `check`.
    pub fn wall_of<O>(
        &self,
        out: &mut O,
        mut launch: impl FnMut(&mut O) -> warpsmith::Result<()>,
        check: impl FnOnce(&O) -> Result<()>,
    ) -> Result<Cost> {
        if self.is_simulator() {
            return self.cost(out, launch, check);
        }
        launch(out)?;
        check(out)?;
        self.wall(|| Ok(launch(out)?))
    }

    /// What `work` takes the host, with its wait until the device has done it; on a GPU, after a first call.
    ///
    /// # Errors
    ///
    /// Those of `work`.
    pub fn wall(&self, mut work: impl FnMut() -> Result<()>) -> Result<Cost> {
        work()?;
        if self.is_simulator() {
            return Ok(Cost::Unknown);
        }
        let time = |_| {
            self.bench.device.synchronize()?;
            let start = Instant::now();
            work()?;
            self.bench.device.synchronize()?;
            Ok(start.elapsed())
        };
        let times = (0..REPEATS).map(time).collect::<Result<Vec<_>>>()?;
        Ok(Cost::Time(Times::of(times).median))
    }
}

/// What is said of times of the host where the program is built without optimisation.
pub fn note_of_host(lines: &mut Vec<String>) {
    if cfg!(debug_assertions) {
        let note =
            "This program is built without optimisation: its times of the host mean little. Build it with --release.";
        lines.push(note.into());
    }
}

/// An error unless the array has these elements.
///
/// # Errors
///
/// One that names the first place that differs.
pub fn check_equal<T: Element + PartialEq + std::fmt::Debug, D: Dimension, S: Data<Elem = T>>(
    array: &DeviceArray<T, D>,
    wanted: &ArrayBase<S, D>,
) -> Result<()> {
    let array = array.to_ndarray()?;
    ensure!(
        array.shape() == wanted.shape(),
        "{:?} for {:?}",
        array.shape(),
        wanted.shape()
    );
    let differing = array.iter().zip(wanted).position(|(a, b)| a != b);
    if let Some(i) = differing {
        let (given, wanted) = (array.iter().nth(i), wanted.iter().nth(i));
        anyhow::bail!("element {i} is {given:?}, wanted {wanted:?}");
    }
    Ok(())
}

/// What the work of a step is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes that have to move.
    Bytes,
    /// Multiplications and additions of floats.
    Operations,
    /// Elements.
    Elements,
    /// Launches, or whole pieces of work.
    Calls,
}

impl Unit {
    /// What a rate is counted in.
    pub fn rate(self) -> &'static str {
        match self {
            Self::Bytes => "GB/s",
            Self::Operations => "GFLOP/s",
            Self::Elements => "10⁹ elements/s",
            Self::Calls => "a millisecond",
        }
    }

    /// How many in a second that is.
    fn per_second(self) -> f64 {
        match self {
            Self::Calls => 1e3,
            _ => 1e9,
        }
    }
}

/// Ways to do the same, or the same at several settings, and what each cost.
pub struct Steps {
    title: String,
    keys: Vec<&'static str>,
    unit: Unit,
    counts: Vec<Count>,
    rows: Vec<(Vec<Cell>, Cost, f64)>,
}

impl Steps {
    /// A table without rows, whose first columns are `keys`.
    pub fn new(title: impl Into<String>, keys: &[&'static str], unit: Unit) -> Self {
        Self {
            title: title.into(),
            keys: keys.to_vec(),
            unit,
            counts: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// With these columns on a simulated GPU that counts.
    pub fn counting(mut self, counts: &[Count]) -> Self {
        self.counts = counts.to_vec();
        self
    }

    /// A row: what it is, what it cost, and how much work that is.
    pub fn push(&mut self, keys: impl Into<Vec<Cell>>, cost: Cost, work: f64) {
        self.rows.push((keys.into(), cost, work));
    }

    /// The seconds of each row; none where times mean nothing.
    pub fn seconds(&self) -> Option<Vec<f64>> {
        let seconds = |(_, cost, _): &(_, Cost, _)| match cost {
            Cost::Time(time) => Some(time.as_secs_f64()),
            _ => None,
        };
        self.rows.iter().map(seconds).collect()
    }

    /// The rate of each row, in what the unit's is counted in.
    pub fn rates(&self) -> Option<Vec<f64>> {
        let rate = |(seconds, (_, _, work)): (f64, &(_, _, f64))| work / seconds / self.unit.per_second();
        Some(self.seconds()?.into_iter().zip(&self.rows).map(rate).collect())
    }

    /// What was counted of each row, NaN of one of which nothing was; none where nothing was of any.
    pub fn counts(&self, count: Count) -> Option<Vec<f64>> {
        let value = |(_, cost, _): &(_, Cost, _)| match cost {
            Cost::Counts(counted) => count.of(counted),
            _ => f64::NAN,
        };
        let values: Vec<f64> = self.rows.iter().map(value).collect();
        (!values.iter().all(|value| value.is_nan())).then_some(values)
    }

    /// The columns that are measured are as the device has them.
    pub fn table(&self) -> Table {
        let mut columns = self.keys.clone();
        let mut rows: Vec<Vec<Cell>> = self.rows.iter().map(|(keys, _, _)| keys.clone()).collect();
        if let (Some(seconds), Some(rates)) = (self.seconds(), self.rates()) {
            columns.extend(["time, µs", self.unit.rate(), "× first"]);
            for (row, (time, rate)) in rows.iter_mut().zip(seconds.iter().zip(&rates)) {
                row.extend([(time * 1e6).into(), (*rate).into(), (rate / rates[0]).into()]);
            }
        }
        for &count in &self.counts {
            if let Some(values) = self.counts(count) {
                columns.push(count.name());
                rows.iter_mut()
                    .zip(values)
                    .for_each(|(row, value)| row.push(Some(value).filter(|value| !value.is_nan()).into()));
            }
        }
        Table {
            title: self.title.clone(),
            columns: columns.into_iter().map(String::from).collect(),
            rows,
        }
    }
}
