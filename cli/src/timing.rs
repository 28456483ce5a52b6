// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the parts of an operation took.

use std::time::Duration;

use serde_json::{Map, Value};
use warpsmith::{Event, Stream};

/// The phases of an operation on one stream, in order, each between two events.
pub struct Timings {
    stream: Stream,
    phases: Vec<(&'static str, Duration)>,
}

impl Timings {
    pub fn new(stream: &Stream) -> Self {
        Self {
            stream: stream.clone(),
            phases: Vec::new(),
        }
    }

    pub fn stream(&self) -> Stream {
        self.stream.clone()
    }

    /// Does the work of a phase, and waits for it.
    pub fn time<R, E: From<warpsmith::Error>>(
        &mut self,
        phase: &'static str,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        let mut work = Some(work);
        self.time_once(phase, &mut || work.take().expect("a phase's work is done once")())
    }

    /// The same, compiled for each type of result, and not for each phase of each type of element.
    fn time_once<R, E: From<warpsmith::Error>>(
        &mut self,
        phase: &'static str,
        work: &mut dyn FnMut() -> Result<R, E>,
    ) -> Result<R, E> {
        let start = self.stream.record()?;
        let result = work()?;
        self.end(phase, &start)?;
        Ok(result)
    }

    fn end(&mut self, phase: &'static str, start: &Event) -> warpsmith::Result<()> {
        let end = self.stream.record()?;
        self.phases.push((phase, end.elapsed_since(start)?));
        Ok(())
    }

    /// In milliseconds, by phase.
    pub fn to_json(&self) -> Value {
        let entry =
            |(phase, duration): &(&str, Duration)| (phase.replace(' ', "_"), Value::from(milliseconds(*duration)));
        self.phases.iter().map(entry).collect::<Map<_, _>>().into()
    }

    /// A line for each phase.
    pub fn to_text(&self) -> String {
        let line = |(phase, duration): &(&str, Duration)| format!("{phase:<20}{:>12.3} ms\n", milliseconds(*duration));
        self.phases.iter().map(line).collect()
    }
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
