// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device below the host crate: one folder for the CUDA driver, one file for the simulated GPU. Nothing above knows
//! which.

pub(crate) mod cuda;
pub(crate) mod faulty;
#[cfg(feature = "nvtx")]
mod nvtx;
pub(crate) mod sim;
mod system;
#[cfg(any(feature = "tracing", feature = "nvtx"))]
pub(crate) mod traced;

use std::any::TypeId;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, RwLockReadGuard};

use cuda_sim::{Dim3, LaunchConfig, LaunchCounters};
use cuda_std::launch::{DeviceFn, Kernel, Params};
use cuda_std::scalar::{Scalar, ScalarType};
use cuda_std::tma::{RawTensorMap, TensorMapLayout};

use crate::device::Properties;
use crate::error::{Error, Result};
use crate::expr::Kernels;
use crate::memory::Memory;
use crate::ptx::PtxModules;
use crate::tensor_map::TensorType;

pub(crate) use system::prefer_huge_pages;

/// A backend's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawStream(pub u64);

/// A backend's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawEvent(pub u64);

/// A backend's module that was loaded at run time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawModule {
    pub raw: u64,
    /// Whether its kernels wait, before all else, for the kernel before them.
    pub waits: bool,
}

/// A kernel in one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFunction {
    pub raw: u64,
    /// As its module.
    pub waits: bool,
}

/// Whose code is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// PTX of this library's, which a backend may change for its device.
    Own,
    /// Another compiler's, which stays as it is.
    Foreign,
}

/// Work that is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawGraph(pub u64);

/// A piece of it; 0 for none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawNode(pub u64);

/// Where work is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPlace {
    pub graph: RawGraph,
    /// The piece that it comes behind; for the first, none.
    pub after: RawNode,
}

/// Recorded work that can be launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawExec(pub u64);

/// What is known of such a kernel.
#[derive(Clone, Debug)]
pub(crate) struct FunctionInfo {
    /// The size of each parameter, if the driver tells.
    pub parameters: Option<Arc<[usize]>>,
    /// The most threads of a block.
    pub max_threads: u32,
    /// The registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory beside the dynamic.
    pub static_shared: usize,
}

/// A context of the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawContext(pub u64);

/// What a device is to others that copy to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPeer {
    pub context: RawContext,
    /// The driver's number of the device.
    pub device: i32,
    /// The pool that its arrays come from; 0 for none.
    pub pool: u64,
    /// Of the backend: no other of this process has it.
    pub number: u64,
}

/// An address in another device's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerMemory {
    pub peer: RawPeer,
    pub address: u64,
}

/// Keeps a device from being reset; see [`Backend::stay`].
#[must_use = "the device may be reset when this is dropped"]
#[derive(Debug)]
pub(crate) struct Stay {
    /// None on the simulator.
    _call: Option<RwLockReadGuard<'static, ()>>,
}

/// The most that [`Backend::land`] gives.
pub(crate) const LANDING: usize = 64 << 10;

/// What a stream calls on the host.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// A kernel without its types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelInfo {
    /// The type of the kernel's handle, which no two kernels share.
    pub id: TypeId,
    pub package: &'static str,
    pub version: &'static str,
    /// The name of the PTX entry, and of the module that holds it.
    pub name: &'static str,
    /// The number that the PTX entry must have as well.
    pub signature: u64,
    /// The sizes of the two values that each parameter is; a value of no size is not passed.
    pub sizes: &'static [(usize, usize)],
    /// Whether all blocks run at a time.
    pub cooperative: bool,
    /// The extents of a cluster, in blocks; all 1 where there are none.
    pub cluster: Dim3,
    /// Whether the launch says so, and not the kernel.
    pub sets_cluster: bool,
    /// The body for one thread of the simulated GPU.
    pub run: unsafe fn(*const *const ()),
}

impl KernelInfo {
    pub(crate) fn of<K: Kernel>() -> Self {
        Self::with_body::<K>(K::run)
    }

    /// A kernel for tensor cores, which no simulated GPU has but those of tests. Only with cuda_sim's feature `tensor-cores`
    /// is its body compiled: programs without are spared half of the library's code.
    pub(crate) fn of_tensor_cores<K: Kernel>() -> Self {
        let run = if cuda_sim::TENSOR_CORES { K::run } else { no_body };
        Self::with_body::<K>(run)
    }

    fn with_body<K: Kernel>(run: unsafe fn(*const *const ())) -> Self {
        Self {
            id: TypeId::of::<K>(),
            package: K::PACKAGE,
            version: K::VERSION,
            name: K::NAME,
            signature: K::SIGNATURE,
            sizes: K::Params::SIZES,
            cooperative: K::Params::IS_COOPERATIVE,
            cluster: K::CLUSTER,
            sets_cluster: false,
            run,
        }
    }

    /// The same, launched in clusters of so many blocks along x.
    pub(crate) fn in_clusters(self, blocks: u32) -> Self {
        Self {
            cluster: blocks.into(),
            sets_cluster: blocks > 1,
            ..self
        }
    }

    /// The extents of a cluster that the driver is told of.
    pub(crate) fn cluster_to_set(&self) -> Option<Dim3> {
        self.sets_cluster.then_some(self.cluster)
    }
}

/// What runs in place of a body that was not compiled.
unsafe fn no_body(_: *const *const ()) {
    panic!("simulated tensor cores want the feature `tensor-cores` of cuda_sim");
}

/// A device function without its types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceFnInfo {
    pub package: &'static str,
    pub version: &'static str,
    /// The name of the PTX function.
    pub name: &'static str,
    /// The number that the PTX function must have as well.
    pub signature: u64,
    pub arguments: &'static [ScalarType],
    pub result: ScalarType,
    /// Applies the function to each of some elements, on the host: the arguments' addresses, the result's, and their number.
    pub run: unsafe fn(*const *const (), *mut (), usize),
}

impl DeviceFnInfo {
    pub(crate) const fn of<F: DeviceFn>() -> Self {
        Self {
            package: F::PACKAGE,
            version: F::VERSION,
            name: F::NAME,
            signature: F::SIGNATURE,
            arguments: F::ARGUMENTS,
            result: F::Output::TYPE,
            run: F::run,
        }
    }
}

impl PartialEq for DeviceFnInfo {
    fn eq(&self, other: &Self) -> bool {
        // One is mostly the same place in memory; of others the number says it nearly always.
        std::ptr::eq(self, other)
            || (self.signature, self.name, self.package, self.version)
                == (other.signature, other.name, other.package, other.version)
    }
}

impl Eq for DeviceFnInfo {}

impl Hash for DeviceFnInfo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.signature.hash(state);
    }
}

/// An error for a cooperative launch of more blocks than `most`, which run at a time.
fn check_cooperative(kernel: &str, config: &LaunchConfig, most: u32) -> Result<()> {
    let given = config.grid.count();
    if given <= most.into() {
        return Ok(());
    }
    Err(Error::LaunchConfig {
        kernel: kernel.into(),
        what: "blocks of a cooperative launch",
        given: given.to_string(),
        wanted: format!("at most {most}, as many as run at a time"),
    })
}

/// The device's name: nearly all that a user prints has a backend somewhere, and whose it is says enough.
impl fmt::Debug for dyn Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.properties().id)
    }
}

/// What a device does. Work on a stream happens in order, asynchronously where the device can.
///
/// The unsafe functions have one contract: addresses are of this device's memory, allocated and not freed in the
/// stream's order, and the bytes named lie within the allocation; streams and events are this backend's and live.
pub(crate) trait Backend: Graphs + Send + Sync {
    fn properties(&self) -> &Properties;
    /// Bytes that the system has left.
    fn free_memory(&self) -> Result<u64>;
    fn register_kernels(&self, modules: PtxModules) -> Result<()>;
    /// A device anew, with the kernels that this one was given. On a GPU, all that was made on it is gone then, by
    /// whichever backend of this process: each function here is the error that says so, and those without a result do
    /// nothing. The simulator's stays.
    fn reset(&self) -> Result<Arc<dyn Backend>>;
    /// Until it is dropped nobody resets the device, whose streams, events and memory another backend is given.
    fn stay(&self) -> Result<Stay>;
    /// Waits for all work of the device.
    fn synchronize_all(&self) -> Result<()>;

    /// A stream. Of those with work to do the one with the least number comes first; numbers outside of
    /// [`stream_priorities`](Self::stream_priorities) mean the nearest one inside.
    fn create_stream(&self, priority: i32) -> Result<RawStream>;
    /// The priorities from the first to the last that there are.
    fn stream_priorities(&self) -> Result<RangeInclusive<i32>>;
    unsafe fn destroy_stream(&self, stream: RawStream);
    /// A stream of somebody else's, by the driver's handle; `None` if it is not one of this device's context.
    unsafe fn adopt_stream(&self, handle: u64) -> Result<Option<RawStream>>;
    /// To be called when an adopted stream is done with: its owner may destroy it then. Adopted more than once, it is
    /// called for each, and the stream lives until the last of them.
    unsafe fn release_stream(&self, stream: RawStream);
    unsafe fn synchronize(&self, stream: RawStream) -> Result<()>;
    /// Whether all work of the stream is done.
    unsafe fn is_idle(&self, stream: RawStream) -> Result<bool>;
    /// Has `callback`, which must not call this backend, called when the stream's work up to here is done. It is not
    /// called if that work fails.
    unsafe fn call_back(&self, stream: RawStream, callback: Callback) -> Result<()>;

    /// An event; one that is only waited for (not `timed`) is cheaper.
    fn create_event(&self, timed: bool) -> Result<RawEvent>;
    unsafe fn destroy_event(&self, event: RawEvent);
    unsafe fn record(&self, event: RawEvent, stream: RawStream) -> Result<()>;
    /// Lets the stream's later work wait for the event.
    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()>;
    unsafe fn synchronize_event(&self, event: RawEvent) -> Result<()>;
    /// Whether the stream's work up to the event is done.
    unsafe fn is_reached(&self, event: RawEvent) -> Result<bool>;
    /// Milliseconds between two recorded, timed events.
    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32>;

    /// The accounts of the memory that `allocate` gives; `acquire` and `release` keep them.
    fn memory(&self) -> &Memory;
    /// Memory of `bytes` bytes, at least one, aligned to 256; `None` if there is not enough.
    unsafe fn allocate(&self, stream: RawStream, bytes: usize) -> Result<Option<u64>>;
    /// That what `allocate` gave has another owner from here on, for whom it is memory of so many bytes, and what was in it
    /// is gone: only the simulator has a use for that.
    fn acquired(&self, address: u64, bytes: usize);
    /// That kernels may read those bytes though nobody has written them. Only the simulator has a use for that, too.
    fn assume_written(&self, address: u64, bytes: usize);
    unsafe fn free(&self, stream: RawStream, address: u64) -> Result<()>;
    /// Frees memory that no work uses any more.
    unsafe fn free_now(&self, address: u64) -> Result<()>;
    /// Bytes that were taken from the system for `allocate`, if there is a pool that keeps them.
    fn reserved_memory(&self) -> Result<Option<u64>>;
    /// Gives back to the system what is reserved and not allocated.
    fn trim_pool(&self) -> Result<()>;
    /// How much may stay reserved when the device is waited for.
    fn set_release_threshold(&self, bytes: u64) -> Result<()>;

    /// Page-locked memory of the host, at least one byte, aligned to 256; `None` if there is not enough.
    fn pin(&self, bytes: usize) -> Result<Option<u64>>;
    /// Gives back what `pin` gave for as many bytes. No work uses it any more.
    unsafe fn unpin(&self, address: u64, bytes: usize);
    /// As [`unpin`](Self::unpin), of memory that queued work may still use: it is freed when none can be left.
    unsafe fn strand_pinned(&self, address: u64, bytes: usize);
    /// Whether there is memory of this device's at the address, whoever allocated it.
    fn has_memory(&self, address: u64) -> Result<bool>;
    /// Copies to the device; `from` may be reused on return.
    unsafe fn upload(&self, stream: RawStream, to: u64, from: &[u8]) -> Result<()>;
    /// Copies from the device, and waits for the copy. Writes all of `to`, which may be uninitialised.
    unsafe fn download(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()>;
    /// Memory of the host for `bytes` bytes, at most [`LANDING`], that one kernel of this device writes, and nobody has yet.
    /// Aligned to 256.
    fn land(&self, bytes: usize) -> Result<u64>;
    /// Waits until the kernel has written that memory whole, and copies it to `to`. The kernel was queued on the stream; it
    /// writes each byte once, and at a time units of `unit` bytes (1, 2 or 4) or several of them.
    unsafe fn read_landed(&self, stream: RawStream, from: u64, to: *mut u8, bytes: usize, unit: usize) -> Result<()>;
    /// Gives back what `land` gave for as many bytes. It was read, or no work writes it.
    unsafe fn unland(&self, address: u64, bytes: usize);
    /// Queues a copy from memory that [`pin`](Self::pin) gave.
    unsafe fn upload_pinned(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()>;
    /// Queues a copy to memory that [`pin`](Self::pin) gave.
    unsafe fn download_pinned(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()>;
    unsafe fn copy(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()>;
    /// What the device is to [`copy_to_peer`](Self::copy_to_peer) of others; `None` on the simulator. Streams of devices
    /// that both are one wait for each other's events.
    fn peer(&self) -> Option<RawPeer>;
    /// Queues a copy to memory of another device, whose backend lives.
    unsafe fn copy_to_peer(&self, stream: RawStream, to: PeerMemory, from: u64, bytes: usize) -> Result<()>;
    unsafe fn fill_zero(&self, stream: RawStream, address: u64, bytes: usize) -> Result<()>;

    /// Launches a kernel whose parameters lie at the addresses in `params`; they are read before the return.
    unsafe fn launch(
        &self,
        stream: RawStream,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()>;

    /// Gets ready to launch the kernel.
    fn preload(&self, kernel: &KernelInfo) -> Result<()>;
    /// The PTX of a device function with what it uses, the best for this device; an error of a device that runs no PTX, as the
    /// simulated GPU does not.
    fn function_text(&self, function: &DeviceFnInfo) -> Result<String>;
    /// The PTX of a kernel, in the same way.
    fn kernel_text(&self, kernel: &KernelInfo) -> Result<String>;
    /// What was counted of launches, on a simulated GPU that keeps it, since the last call.
    fn take_counters(&self) -> Vec<LaunchCounters> {
        Vec::new()
    }
    /// The kernels that were made of expressions, and the plans of those, which go with the device's context.
    fn expressions(&self) -> &Kernels;
    /// How many blocks of so many threads, at most those of a block, run at a time on a multiprocessor.
    fn occupancy(&self, kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32>;
    /// How many of them run at a time on the device, which is the most that a cooperative launch has.
    fn cooperative_blocks(&self, kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32>;
    /// A tensor map, of a layout that is as the driver wants it, of memory at the address.
    unsafe fn tensor_map(&self, of: TensorType, address: u64, layout: &TensorMapLayout) -> Result<RawTensorMap>;
    /// The threads of a block, at most `most`, with which the most threads run at a time.
    fn best_block(&self, kernel: &KernelInfo, most: u32) -> Result<u32>;

    /// Loads PTX that ends with a zero, or a cubin or fatbin, whole as a compiler made it; `name` is for errors.
    unsafe fn load_module(&self, name: &str, code: Code, image: &[u8]) -> Result<RawModule>;
    /// Unloads a module, whose functions are launched no more, when the device's work is done.
    unsafe fn unload_module(&self, module: RawModule);
    unsafe fn module_function(
        &self,
        module: RawModule,
        module_name: &str,
        name: &str,
    ) -> Result<(RawFunction, FunctionInfo)>;
    /// As [`launch`](Self::launch).
    unsafe fn launch_function(
        &self,
        stream: RawStream,
        function: RawFunction,
        info: &FunctionInfo,
        name: &str,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()>;
}

/// Work that is recorded, and done whenever it is launched. The contract is that of [`Backend`]: when it is recorded, and
/// until its last launch is done.
pub(crate) trait Graphs {
    fn create_graph(&self) -> Result<RawGraph>;
    unsafe fn destroy_graph(&self, graph: RawGraph);
    /// Records a launch at that place; the parameters are read before the return.
    unsafe fn record_launch(
        &self,
        at: RawPlace,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode>;
    /// As [`record_launch`](Self::record_launch).
    unsafe fn record_function(
        &self,
        at: RawPlace,
        function: RawFunction,
        info: &FunctionInfo,
        name: &str,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode>;
    unsafe fn record_copy(&self, at: RawPlace, to: u64, from: u64, bytes: usize) -> Result<RawNode>;
    unsafe fn record_fill_zero(&self, at: RawPlace, address: u64, bytes: usize) -> Result<RawNode>;
    /// What is recorded in the graph, of which there is at least one node, as it is now.
    unsafe fn instantiate(&self, graph: RawGraph) -> Result<RawExec>;
    /// Gives what was instantiated the work of `graph`; not, if that is of other kinds or in another order. Launches that
    /// are queued do the work that it had.
    unsafe fn update_exec(&self, exec: RawExec, graph: RawGraph) -> Result<bool>;
    /// Queues the recorded work.
    unsafe fn launch_graph(&self, stream: RawStream, exec: RawExec) -> Result<()>;
    /// Launches that are queued are done all the same.
    unsafe fn destroy_exec(&self, exec: RawExec);
}
