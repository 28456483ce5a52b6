// SPDX-License-Identifier: MIT OR Apache-2.0
//! When what ran: the phases of a pipeline between events of their streams, as a timeline for `chrome://tracing` and
//! <https://ui.perfetto.dev>, and as a table of what share of the memory's bandwidth each had.
//!
//! A phase is what a closure queues on a stream: copies, kernels, allocations. It lasts from the device's arrival there until
//! it is done, so a stream that waits shows as a gap. An event costs the device about a microsecond, which belongs to the
//! phase; phases that short are better looked at by Nsight Systems (docs/profiling.md).

use std::time::Duration;

use serde_json::{Value, json};
use warpsmith::{Device, DeviceArray, Event, Result, Stream};

use crate::report::{Cell, Table};

/// Bytes of the copy that bandwidths are held against: more than any L2 cache has.
const COPIED: usize = 256 << 20;

/// Phases as they are recorded.
///
/// ```
/// use warpsmith::{Device, DeviceArray};
/// use warpsmith_lab::timeline::Timeline;
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let mut timeline = Timeline::new(&device)?;
/// let x = timeline.phase(stream, "zeros", 4096, || DeviceArray::<f32, _>::zeros(stream, 1024))?;
/// let y = timeline.phase(stream, "square", 8192, || x.square())?;
/// let trace = timeline.finish()?.to_chrome_trace();
/// assert_eq!(trace["traceEvents"][1]["name"], "square");
/// # Ok(())
/// # }
/// ```
pub struct Timeline {
    device: Device,
    origin: Event,
    streams: Vec<Stream>,
    open: Vec<Open>,
}

/// A phase that the device may not have done.
struct Open {
    name: String,
    stream: usize,
    bytes: usize,
    events: [Event; 2],
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// The number of its stream, in the order in which streams first had a phase.
    pub stream: usize,
    /// When the device came to it, since the timeline's beginning.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// The bytes of the device's memory that it has to read and write, as its caller said.
    pub bytes: usize,
}

/// A timeline whose phases are done.
#[derive(Clone, Debug)]
pub struct Finished {
    /// In the order in which they were queued.
    pub phases: Vec<Phase>,
    /// Bytes a second of the device's own copy, read and written; none on the simulated GPU.
    pub bandwidth: Option<f64>,
}

impl Timeline {
    /// A timeline that begins now.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::record`] and [`Stream::synchronize`].
    pub fn new(device: &Device) -> Result<Self> {
        let origin = device.default_stream().record()?;
        // Streams that are ahead of the default one do not begin before it.
        origin.synchronize()?;
        Ok(Self {
            device: device.clone(),
            origin,
            streams: Vec::new(),
            open: Vec::new(),
        })
    }

    /// Queues a phase by `work`, all of which is on `stream`, and has to read and write so many bytes of the device's memory.
    /// Nobody waits, unless `work` does.
    ///
    /// # Errors
    ///
    /// Those of `work` and of [`Stream::record`].
    pub fn phase<R>(
        &mut self,
        stream: &Stream,
        name: impl Into<String>,
        bytes: usize,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let number = self.streams.iter().position(|known| known == stream);
        let number = number.unwrap_or_else(|| {
            self.streams.push(stream.clone());
            self.streams.len() - 1
        });
        let start = stream.record()?;
        let result = work()?;
        self.open.push(Open {
            name: name.into(),
            stream: number,
            bytes,
            events: [start, stream.record()?],
        });
        Ok(result)
    }

    /// Waits until all phases are done. On a GPU it then times a copy, which the bandwidths are held against.
    ///
    /// # Errors
    ///
    /// [`warpsmith::Error::KernelFailed`] if a kernel failed, and those of the copy.
    pub fn finish(self) -> Result<Finished> {
        let phase = |open: Open| {
            let [start, end] = open.events;
            Ok(Phase {
                name: open.name,
                stream: open.stream,
                bytes: open.bytes,
                start: start.elapsed_since(&self.origin)?,
                duration: end.elapsed_since(&start)?,
            })
        };
        let phases = self.open.into_iter().map(phase).collect::<Result<_>>()?;
        let bandwidth = match self.device.is_simulator() {
            true => None,
            false => Some(copy_bandwidth(&self.device)?),
        };
        Ok(Finished { phases, bandwidth })
    }
}

/// Bytes that the second of two copies reads and writes in a second.
fn copy_bandwidth(device: &Device) -> Result<f64> {
    let stream = device.default_stream();
    let x = DeviceArray::<u8, _>::zeros(stream, COPIED)?;
    let mut y = DeviceArray::<u8, _>::zeros(stream, COPIED)?;
    y.assign(&x)?;
    let start = stream.record()?;
    y.assign(&x)?;
    let time = stream.record()?.elapsed_since(&start)?;
    Ok(2.0 * COPIED as f64 / time.as_secs_f64())
}

impl Finished {
    /// The phases in the format of Chrome's traces (Google, "Trace Event Format"): a row for each stream.
    pub fn to_chrome_trace(&self) -> Value {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let event = |phase: &Phase| {
            json!({
                "name": phase.name,
                "ph": "X",
                "pid": 0,
                "tid": phase.stream,
                "ts": micros(phase.start),
                "dur": micros(phase.duration),
                "args": { "bytes": phase.bytes },
            })
        };
        let events: Vec<Value> = self.phases.iter().map(event).collect();
        json!({ "traceEvents": events, "displayTimeUnit": "ns" })
    }

    /// A row for each phase: when, how long, and its share of the bandwidth. Last the gaps: how long no stream had a phase.
    pub fn table(&self) -> Table {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let rate = |phase: &Phase| phase.bytes as f64 / phase.duration.as_secs_f64();
        let row = |phase: &Phase| {
            let share = self.bandwidth.map(|most| 100.0 * rate(phase) / most);
            vec![
                phase.name.as_str().into(),
                phase.stream.into(),
                micros(phase.start).into(),
                micros(phase.duration).into(),
                Some(rate(phase) / 1e9)
                    .filter(|_| phase.bytes > 0 && self.bandwidth.is_some())
                    .into(),
                share.filter(|_| phase.bytes > 0).into(),
            ]
        };
        let mut rows: Vec<_> = self.phases.iter().map(row).collect();
        let gaps = micros(self.gaps()).into();
        rows.push(vec![
            "gaps".into(),
            Cell::Empty,
            Cell::Empty,
            gaps,
            Cell::Empty,
            Cell::Empty,
        ]);
        Table {
            title: "phases of the streams".into(),
            columns: [
                "phase",
                "stream",
                "start, µs",
                "time, µs",
                "GB/s",
                "of the copy's rate, %",
            ]
            .map(String::from)
            .to_vec(),
            rows,
        }
    }

    /// How long no stream had a phase, between the first and the last.
    pub fn gaps(&self) -> Duration {
        let mut spans: Vec<_> = self
            .phases
            .iter()
            .map(|phase| (phase.start, phase.start + phase.duration))
            .collect();
        spans.sort();
        let mut gaps = Duration::ZERO;
        let mut until = spans.first().map_or(Duration::ZERO, |span| span.0);
        for (start, end) in spans {
            gaps += start.saturating_sub(until);
            until = until.max(end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, stream: usize, start: u64, duration: u64) -> Phase {
        Phase {
            name: name.into(),
            stream,
            start: Duration::from_micros(start),
            duration: Duration::from_micros(duration),
            bytes: 1000,
        }
    }

    #[test]
    fn gaps_are_where_no_stream_works() {
        let phases = vec![
            phase("a", 0, 10, 10),
            phase("b", 1, 15, 20),
            phase("c", 0, 20, 5),
            phase("d", 0, 40, 1),
        ];
        let finished = Finished {
            phases,
            bandwidth: Some(1e9),
        };
        assert_eq!(finished.gaps(), Duration::from_micros(5));
        let table = finished.table();
        // 1000 bytes in 10 µs are a tenth of 1 GB/s.
        let wanted: [Cell; 6] = ["a".into(), 0.into(), 10.0.into(), 10.0.into(), 0.1.into(), 10.0.into()];
        let close = |(a, b): (&Cell, &Cell)| match (a, b) {
            (Cell::Number(a), Cell::Number(b)) => (a - b).abs() < 1e-9,
            _ => a == b,
        };
        assert!(table.rows[0].iter().zip(&wanted).all(close), "{:?}", table.rows[0]);
        assert_eq!(table.rows.len(), 5);
        let nothing = Finished {
            phases: vec![],
            bandwidth: None,
        };
        assert_eq!(nothing.gaps(), Duration::ZERO);
    }

    #[test]
    fn a_trace_has_an_event_for_each_phase() {
        let finished = Finished {
            phases: vec![phase("copy", 2, 10, 4)],
            bandwidth: None,
        };
        let event = &finished.to_chrome_trace()["traceEvents"][0];
        let wanted =
            json!({ "name": "copy", "ph": "X", "pid": 0, "tid": 2, "ts": 10.0, "dur": 4.0, "args": { "bytes": 1000 } });
        assert_eq!(event, &wanted);
    }

    #[test]
    fn phases_follow_one_another_on_a_stream() -> Result<()> {
        let device = Device::simulator();
        let (one, other) = (device.create_stream()?, device.create_stream()?);
        let mut timeline = Timeline::new(&device)?;
        let x = timeline.phase(&one, "zeros", 4000, || DeviceArray::<f32, _>::zeros(&one, 1000))?;
        timeline.phase(&one, "square", 8000, || x.square())?;
        timeline.phase(&other, "ones", 4000, || DeviceArray::<f32, _>::ones(&other, 1000))?;
        let phases = timeline.finish()?.phases;
        assert_eq!(phases.iter().map(|phase| phase.stream).collect::<Vec<_>>(), [0, 0, 1]);
        assert!(phases[1].start >= phases[0].start + phases[0].duration);
        Ok(())
    }
}
