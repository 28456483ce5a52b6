// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording of a graph: what becomes of operations on a stream while this thread captures it.
//!
//! The device's stream is not touched: a thread that captures has its launches, copies and fills on that stream added to
//! a graph instead, and other threads use the stream as ever. Of every array that is used it is noted which bytes are
//! read and written, so that each launch of the graph can be ordered as the operations would be.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use cuda_sim::LaunchConfig;

use super::arrays::{GraphArrays, HeldArrays, HeldBytes};
use super::memory::{Block, Contents, GraphMemory};
use crate::backend::{Backend, FunctionInfo, KernelInfo, RawExec, RawFunction, RawGraph, RawNode, RawPlace};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::workspace::Lease;

thread_local! {
    /// What this thread captures.
    static CURRENT: RefCell<Option<Rc<Capture>>> = const { RefCell::new(None) };
}

/// Why an upload is not recorded.
pub(crate) const READ_ONCE: &str = "the host's memory would be read now, once: upload it before, as an argument";

/// Why a download is not recorded.
pub(crate) const NO_RESULT: &str = "there is no result before the graph is launched: read its output then";

/// Why nothing is waited for.
pub(crate) const NOT_DONE: &str = "what is recorded is not done before the graph is launched";

/// What keeps something alive.
pub(crate) type Keeper = Arc<dyn Any + Send + Sync>;

pub(crate) struct Capture {
    stream: Stream,
    memory: Arc<GraphMemory>,
    graph: OwnedGraph,
    /// The node that was added last.
    last: Cell<RawNode>,
    /// What the arguments have.
    held: HeldBytes,
    uses: RefCell<HashMap<*const Buffer, Used>>,
    kept: RefCell<Vec<Keeper>>,
    /// Those of the kept buffers that were written before, and that nobody writes any more.
    literals: RefCell<Vec<*const Buffer>>,
}

/// A graph of the backend's.
struct OwnedGraph {
    backend: Arc<dyn Backend>,
    raw: RawGraph,
}

impl Drop for OwnedGraph {
    fn drop(&mut self) {
        // SAFETY: this was the graph's owner.
        unsafe { self.backend.destroy_graph(self.raw) };
    }
}

/// A buffer that is used, and how: which bytes, and whether they are written.
struct Used {
    buffer: Held,
    uses: Vec<(Range<usize>, bool)>,
}

enum Held {
    /// Kept alive.
    Kept(Arc<Buffer>),
    /// One in the graph's own memory, where others can follow it when it is dropped.
    Own(Weak<Buffer>),
}

/// Ends the recording, however the closure ends.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(capture) = CURRENT.take() {
            capture.memory.close();
        }
    }
}

/// Use of some bytes of a buffer by each launch of a graph.
pub(super) struct Use {
    pub(super) buffer: Arc<Buffer>,
    pub(super) bytes: Range<usize>,
    pub(super) writes: bool,
    /// Whether they are an argument's.
    pub(super) is_argument: bool,
}

/// Work that was recorded. All that it uses lives as long.
pub(super) struct Recording {
    graph: OwnedGraph,
    is_empty: bool,
    pub(super) resources: Resources,
}

/// What a graph's launches use.
pub(super) struct Resources {
    pub(super) uses: Vec<Use>,
    _kept: Vec<Keeper>,
    pub(super) memory: Arc<GraphMemory>,
}

/// Records what `work` does on the stream.
pub(super) fn record<A: GraphArrays, O: GraphArrays>(
    operation: &'static str,
    stream: &Stream,
    args: &mut A,
    work: impl FnOnce(&Stream, &mut A) -> Result<O>,
) -> Result<(Recording, O)> {
    if CURRENT.with_borrow(Option::is_some) {
        let reason = "this thread is capturing a stream already";
        return Err(Error::Capture { operation, reason });
    }
    let held = HeldArrays::of(stream, args).check(operation)?;
    let capture = Rc::new(Capture {
        held,
        ..Capture::new(stream)?
    });
    let running = Running;
    CURRENT.set(Some(Rc::clone(&capture)));
    let output = work(stream, args);
    drop(running);
    let output = output?;
    let args = HeldArrays::of(stream, args).check(operation)?;
    let results = HeldArrays::of(stream, &output).check(operation)?;
    let recording = capture.finish(operation, &args, &results)?;
    Ok((recording, output))
}

impl Capture {
    fn new(stream: &Stream) -> Result<Self> {
        let backend = Arc::clone(stream.backend());
        let raw = backend.create_graph()?;
        Ok(Self {
            stream: stream.clone(),
            memory: GraphMemory::new(stream),
            graph: OwnedGraph { backend, raw },
            last: Cell::new(RawNode(0)),
            held: HeldBytes::default(),
            uses: RefCell::default(),
            kept: RefCell::default(),
            literals: RefCell::default(),
        })
    }

    /// What this thread captures, if it is that stream.
    pub(crate) fn of(stream: &Stream) -> Option<Rc<Self>> {
        // A thread that ends, and drops its arrays, captures nothing.
        let current = CURRENT.try_with(|current| {
            let current = current.borrow();
            current.as_ref().filter(|capture| capture.stream == *stream).cloned()
        });
        current.ok().flatten()
    }

    /// Memory for an array of the graph.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Block> {
        self.memory.allocate(bytes, Contents::Unspecified)
    }

    /// `len` words of the graph's memory for one launch, with those contents in every launch of the graph.
    pub(crate) fn lease<W>(&self, len: usize, contents: Contents) -> Result<Lease<'static, W>> {
        let bytes = len.saturating_mul(size_of::<W>());
        let block = match bytes {
            0 => None,
            _ => Some(self.memory.allocate(bytes, contents)?),
        };
        Ok(Lease::of_graph(self.stream.raw(), block, len))
    }

    /// Keeps something alive that the graph uses.
    pub(crate) fn keep(&self, keeper: Keeper) {
        self.kept.borrow_mut().push(keeper);
    }

    /// Does what is not to be recorded.
    pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
        struct Resume(Option<Rc<Capture>>);
        impl Drop for Resume {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _resume = Resume(CURRENT.take());
        work()
    }

    /// Keeps an array that was written on this stream, ahead of every launch, and that work may read.
    pub(crate) fn keep_literal(&self, buffer: &Arc<Buffer>) {
        self.keep(Arc::clone(buffer) as Keeper);
        self.literals.borrow_mut().push(Arc::as_ptr(buffer));
    }

    /// Notes that those bytes are read or written.
    pub(crate) fn note(&self, buffer: &Arc<Buffer>, bytes: Range<usize>, writes: bool) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !writes && self.literals.borrow().contains(&Arc::as_ptr(buffer)) {
            return Ok(());
        }
        let own = buffer.is_of_graph(&self.memory);
        if !own && !self.held.have(buffer, &bytes) {
            return Err(Error::Capture {
                operation: "use of an array",
                reason: "it is not among the arguments that the graph was given, and so may be changed or used by others",
            });
        }
        let mut uses = self.uses.borrow_mut();
        let used = uses.entry(Arc::as_ptr(buffer)).or_insert_with(|| Used {
            buffer: match own {
                true => Held::Own(Arc::downgrade(buffer)),
                false => Held::Kept(Arc::clone(buffer)),
            },
            uses: Vec::new(),
        });
        if !used.uses.contains(&(bytes.clone(), writes)) {
            used.uses.push((bytes, writes));
        }
        Ok(())
    }

    /// Adds a node behind the last one.
    pub(crate) fn add(&self, node: impl FnOnce(&dyn Backend, RawPlace) -> Result<RawNode>) -> Result<()> {
        let at = RawPlace {
            graph: self.graph.raw,
            after: self.last.get(),
        };
        self.last.set(node(&*self.graph.backend, at)?);
        Ok(())
    }

    /// What was recorded, if nobody else has what it uses: arrays are the arguments', the result's, or dropped.
    fn finish(self: Rc<Self>, operation: &'static str, args: &HeldBytes, results: &HeldBytes) -> Result<Recording> {
        let capture = Rc::into_inner(self).expect("nothing holds a capture beyond a call");
        let mut uses = Vec::new();
        for used in capture.uses.into_inner().into_values() {
            let buffer = match used.buffer {
                Held::Kept(buffer) => buffer,
                Held::Own(buffer) => match buffer.upgrade() {
                    Some(buffer) => buffer,
                    None => continue,
                },
            };
            let is_alone = Arc::strong_count(&buffer) == 1;
            for (bytes, writes) in used.uses {
                let is_argument = args.have(&buffer, &bytes);
                if !is_argument && !is_alone && !results.have(&buffer, &bytes) {
                    return Err(Error::Capture {
                        operation,
                        reason: "an array that is used is kept elsewhere than in the arguments and the result",
                    });
                }
                uses.push(Use {
                    buffer: Arc::clone(&buffer),
                    bytes,
                    writes,
                    is_argument,
                });
            }
        }
        Ok(Recording {
            graph: capture.graph,
            is_empty: capture.last.get().0 == 0,
            resources: Resources {
                uses,
                _kept: capture.kept.into_inner(),
                memory: capture.memory,
            },
        })
    }
}

/// A graph that can be launched.
pub(super) struct Exec {
    backend: Arc<dyn Backend>,
    pub(super) raw: RawExec,
}

impl Drop for Exec {
    fn drop(&mut self) {
        // SAFETY: this was its owner; launches that are queued are done all the same.
        unsafe { self.backend.destroy_exec(self.raw) };
    }
}

impl Recording {
    /// Makes it ready for launches; `None` if it does nothing.
    pub(super) fn instantiate(&self) -> Result<Option<Exec>> {
        if self.is_empty {
            return Ok(None);
        }
        let backend = Arc::clone(&self.graph.backend);
        // SAFETY: the graph lives, and what it uses.
        let raw = unsafe { backend.instantiate(self.graph.raw)? };
        Ok(Some(Exec { backend, raw }))
    }

    /// As [`instantiate`](Self::instantiate), by way of one that is ready, if that is possible.
    pub(super) fn replace(&self, exec: Option<Exec>) -> Result<Option<Exec>> {
        let Some(exec) = exec.filter(|_| !self.is_empty) else {
            return self.instantiate();
        };
        // SAFETY: both live, and what they use.
        match unsafe { exec.backend.update_exec(exec.raw, self.graph.raw)? } {
            true => Ok(Some(exec)),
            false => self.instantiate(),
        }
    }
}

/// Work that is queued on the stream, or recorded while this thread captures it.
impl Stream {
    /// An error while this thread captures the stream.
    pub(crate) fn check_not_captured(&self, operation: &'static str, reason: &'static str) -> Result<()> {
        match Capture::of(self) {
            None => Ok(()),
            Some(_) => Err(Error::Capture { operation, reason }),
        }
    }

    /// # Safety
    ///
    /// That of [`Backend::launch`]; what the parameters point to was prepared for this stream.
    pub(crate) unsafe fn queue_launch(
        &self,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        // SAFETY: this function's contract. What a graph uses was noted when it was prepared, and lives as long as that.
        unsafe {
            match Capture::of(self) {
                None => self.backend().launch(self.raw(), kernel, config, params),
                Some(capture) => capture.add(|backend, at| backend.record_launch(at, kernel, config, params)),
            }
        }
    }

    /// # Safety
    ///
    /// Keeps something as long as what this thread captures on the stream, if it does.
    pub(crate) fn keep_recorded(&self, keeper: Keeper) {
        if let Some(capture) = Capture::of(self) {
            capture.keep(keeper);
        }
    }

    /// As [`queue_launch`](Self::queue_launch); `module` keeps the function loaded.
    pub(crate) unsafe fn queue_function(
        &self,
        (function, module): (RawFunction, Keeper),
        info: &FunctionInfo,
        name: &str,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        let Some(capture) = Capture::of(self) else {
            let backend = self.backend();
            // SAFETY: this function's contract.
            return unsafe { backend.launch_function(self.raw(), function, info, name, config, params) };
        };
        capture.keep(module);
        // SAFETY: as in `queue_launch`.
        capture.add(|backend, at| unsafe { backend.record_function(at, function, info, name, config, params) })
    }

    /// # Safety
    ///
    /// That of [`Backend::copy`]; both sides were prepared for this stream.
    pub(crate) unsafe fn queue_copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: as in `queue_launch`.
        unsafe {
            match Capture::of(self) {
                None => self.backend().copy(self.raw(), to, from, bytes),
                Some(capture) => capture.add(|backend, at| backend.record_copy(at, to, from, bytes)),
            }
        }
    }

    /// # Safety
    ///
    /// That of [`Backend::fill_zero`]; the memory was prepared for this stream.
    pub(crate) unsafe fn queue_fill_zero(&self, address: u64, bytes: usize) -> Result<()> {
        // SAFETY: as in `queue_launch`.
        unsafe {
            match Capture::of(self) {
                None => self.backend().fill_zero(self.raw(), address, bytes),
                Some(capture) => capture.add(|backend, at| backend.record_fill_zero(at, address, bytes)),
            }
        }
    }
}
