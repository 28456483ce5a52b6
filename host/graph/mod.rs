// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: work that is recorded once and launched as often as it is wanted, by one call of the driver.
//!
//! capture.rs records, arrays.rs says which arrays a graph has, memory.rs is where its own lie.

mod arrays;
mod capture;
mod memory;

use std::fmt;

use crate::error::{Error, Result};
use crate::stream::Stream;

pub use arrays::{GraphArrays, HeldArrays};
pub(crate) use capture::{Capture, Keeper, NO_RESULT, NOT_DONE, READ_ONCE};
use capture::{Exec, Resources, record};
pub(crate) use memory::{Block, Contents, GraphMemory};

/// Operations of a [`Stream`] that were recorded, to be done again and again: see [`Stream::capture`].
///
/// It has the arrays that the operations read and write: the arguments `A`, which are given to it or lent, and the
/// output `O`, which lies in memory of its own. [`launch`](Self::launch) does the operations anew, with what is in the
/// arguments then, and puts the results where those of the launch before were.
///
/// A launch costs little more than that of one kernel, however many the graph has, and the device begins each as soon
/// as the one before is done. It takes no memory: intermediate results have theirs since the capture.
///
/// Dropped, it gives its memory back behind the launches that are queued.
#[must_use = "nothing is done before `launch`"]
pub struct Graph<A, O> {
    /// Dropped before all that it uses.
    exec: Option<Exec>,
    /// How many launches may rely on the words that the one before has left, ahead of which they are set to 0 again; 0 where
    /// a launch has failed, or there was none yet.
    launches_left: u32,
    /// Whether an update has failed so that there is nothing to launch.
    broken: bool,
    output: O,
    args: A,
    /// Whether nobody has had the arguments mutably since they were looked at.
    args_known: bool,
    resources: Resources,
    stream: Stream,
}

impl Stream {
    /// Records what `work` does with arrays at home on this stream, without doing it: a [`Graph`], which does it when it
    /// is launched.
    ///
    /// `args` are the arrays that the work uses, by value or by reference: the graph has them as long as it lives, and
    /// gives them to `work`. What `work` returns is the graph's output. All operations can be recorded that only launch
    /// kernels, copy on the device, or make arrays there. Arrays that are made are memory of the graph's, and
    /// intermediate ones share it. Random numbers are the same in every launch, since the generator is not asked again.
    ///
    /// Only what this thread does on this stream is recorded; other threads may use it as ever.
    ///
    /// # Errors
    ///
    /// [`Error::Capture`] for what cannot be recorded: uploads, downloads and whatever reads a number back, waiting for
    /// the stream or an event, callbacks, another library's work, another capture or a graph's launch; an array that is
    /// not among the arguments, that is at home on another stream, or that is kept elsewhere than in the output. Those of
    /// the operations. `args` are dropped then, and nothing was done.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0, 3.0])?;
    /// let offset = DeviceArray::from_ndarray(stream, &array![0.5f32, 0.5, 0.5])?;
    /// // The graph has `x`, and borrows `offset`.
    /// let mut graph = stream.capture((x, &offset), |_, (x, offset)| x.square()?.add(*offset))?;
    /// graph.launch()?;
    /// assert_eq!(graph.output().to_ndarray()?, array![1.5, 4.5, 9.5]);
    /// // Another input, in the same memory.
    /// graph.args_mut().0.assign_ndarray(&array![10.0, 20.0, 30.0])?;
    /// graph.launch()?;
    /// assert_eq!(graph.output().to_ndarray()?, array![100.5, 400.5, 900.5]);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cudaStreamBeginCapture")]
    pub fn capture<A: GraphArrays, O: GraphArrays>(
        &self,
        mut args: A,
        work: impl FnOnce(&Stream, &mut A) -> Result<O>,
    ) -> Result<Graph<A, O>> {
        let (recording, output) = record("Stream::capture", self, &mut args, work)?;
        Ok(Graph {
            exec: recording.instantiate()?,
            launches_left: 0,
            broken: false,
            output,
            args,
            args_known: true,
            resources: recording.resources,
            stream: self.clone(),
        })
    }
}

impl<A: GraphArrays, O: GraphArrays> Graph<A, O> {
    /// Queues the recorded operations on the graph's stream, behind what other streams do with the arguments and the
    /// output.
    ///
    /// # Errors
    ///
    /// [`Error::Capture`] if the arguments are other arrays than those of the capture (see [`update`](Self::update)), if
    /// the last update failed on the device, or inside another capture; [`Error::Cuda`] if the driver fails, and on the
    /// simulated GPU [`Error::Fault`] if a kernel does.
    pub fn launch(&mut self) -> Result<()> {
        let operation = "Graph::launch";
        let reason = "a graph is launched, not recorded: call its work instead";
        self.stream.check_not_captured(operation, reason)?;
        if self.broken {
            let reason = "its last update failed: update it again";
            return Err(Error::Capture { operation, reason });
        }
        self.check_args(operation)?;
        let Some(exec) = &self.exec else {
            return Ok(());
        };
        self.prepare(|_| true)?;
        let left = match std::mem::take(&mut self.launches_left) {
            0 => self.resources.memory.reset_words()?,
            left => left,
        };
        // SAFETY: the backend's own stream. What the graph uses lives, is ordered on the stream, and is the graph's or
        // borrowed by it, as `record` and `check_args` have seen.
        unsafe { self.stream.backend().launch_graph(self.stream.raw(), exec.raw)? };
        self.launches_left = left - 1;
        // Once more: of parts of an array, other threads may have prepared others since.
        self.prepare(|of| of.bytes.len() < of.buffer.bytes())
    }

    /// Orders the stream behind the other uses of what the graph uses, and marks its own.
    fn prepare(&self, which: impl Fn(&capture::Use) -> bool) -> Result<()> {
        self.resources.uses.iter().filter(|of| which(of)).try_for_each(|of| {
            let bytes = of.bytes.clone();
            match of.writes {
                true => of.buffer.writes_part_on(&self.stream, bytes),
                false => of.buffer.reads_part_on(&self.stream, bytes),
            }
        })
    }

    /// An error if the memory that the graph uses is not its arguments' any more.
    fn check_args(&mut self, operation: &'static str) -> Result<()> {
        if self.args_known {
            return Ok(());
        }
        let held = HeldArrays::of(&self.stream, &self.args).check(operation)?;
        let arguments = self.resources.uses.iter().filter(|of| of.is_argument);
        for argument in arguments {
            if !held.have(&argument.buffer, &argument.bytes) {
                let reason = "an argument is another array than at the capture; `update` records the work with it";
                return Err(Error::Capture { operation, reason });
            }
        }
        self.args_known = true;
        Ok(())
    }

    /// Records `work` in place of what was recorded, with the arguments as they are, of which some may have been
    /// replaced: for other arrays, or other numbers among the kernels' arguments.
    ///
    /// Work of the same operations in the same order is put into the graph that the driver has, which costs less than a
    /// capture anew; any other takes its place. The output is a new one, with unspecified elements until the next launch.
    ///
    /// # Errors
    ///
    /// Those of [`Stream::capture`]; the graph is as before then, unless the device failed: in that case it must be
    /// updated again before it is launched.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let upload = |host| DeviceArray::from_ndarray(stream, &host);
    /// let mut graph = stream.capture(upload(array![1, 2, 3])?, |_, x| x.mul_scalar(10))?;
    /// graph.launch()?;
    /// assert_eq!(graph.output().to_ndarray()?, array![10, 20, 30]);
    /// *graph.args_mut() = upload(array![4, 5, 6])?;
    /// graph.update(|_, x| x.mul_scalar(-1))?;
    /// graph.launch()?;
    /// assert_eq!(graph.output().to_ndarray()?, array![-4, -5, -6]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&mut self, work: impl FnOnce(&Stream, &mut A) -> Result<O>) -> Result<()> {
        self.args_known = false;
        let (recording, output) = record("Graph::update", &self.stream, &mut self.args, work)?;
        self.broken = true;
        self.exec = recording.replace(self.exec.take())?;
        self.resources = recording.resources;
        self.launches_left = 0;
        self.output = output;
        (self.broken, self.args_known) = (false, true);
        Ok(())
    }
}

impl<A, O> Graph<A, O> {
    /// What the work returned: arrays whose elements are those of the last launch, and unspecified before the first.
    pub fn output(&self) -> &O {
        &self.output
    }

    /// The arrays that the graph was given.
    pub fn args(&self) -> &A {
        &self.args
    }

    /// The arrays that the graph was given, to assign to, for the launches that come. One that is replaced takes an
    /// [`update`](Self::update).
    pub fn args_mut(&mut self) -> &mut A {
        self.args_known = false;
        &mut self.args
    }

    /// The stream that the graph is launched on.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl<A, O> fmt::Debug for Graph<A, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffers = self.resources.uses.len();
        f.debug_struct("Graph").field("uses", &buffers).finish_non_exhaustive()
    }
}
