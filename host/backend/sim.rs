// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulated GPU as a backend. Device memory is the host's; work is done when it is asked for, so a stream is
//! always idle and order between streams holds by itself.

mod counting;
mod graph;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::TypeId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use cuda_sim::{Array, Checks, Fault, LaunchConfig, LaunchCounters, Schedule, Written};

use super::system::{has_room, memory_info};
use super::{
    Backend, Callback, Code, DeviceFnInfo, FunctionInfo, KernelInfo, PeerMemory, RawEvent, RawFunction, RawModule,
    RawPeer, RawStream, Stay, check_cooperative,
};
use crate::device::Properties;
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::ptx::{PtxModules, Registry, Wanted};
use crate::tensor_map::TensorType;
use counting::Counting;
use cuda_std::tma::{RawTensorMap, TensorMapLayout};
use graph::Recorded;

/// The alignment of allocations, as on a GPU.
const ALIGNMENT: usize = 256;

pub(crate) struct Simulator {
    properties: Properties,
    memory: Memory,
    /// Streams and events are numbers.
    next_handle: AtomicU64,
    /// When each event was recorded.
    events: Mutex<HashMap<u64, Option<Instant>>>,
    /// By address.
    allocations: Mutex<BTreeMap<u64, Allocation>>,
    /// What launches are checked for.
    checks: Checks,
    /// Which bytes of the allocations are written; `None` where that is not checked.
    written: Option<Written>,
    /// In which order threads and blocks run; without one, blocks run on all cores.
    schedule: Option<Schedule>,
    counting: Counting,
    /// The block whose steps are kept where launches are counted.
    traced: Option<u64>,
    kernels: Mutex<Kernels>,
    expressions: crate::expr::Kernels,
    /// Graphs, and those that can be launched, by handle.
    graphs: Mutex<HashMap<u64, Arc<Vec<Recorded>>>>,
}

/// Memory of the host's.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    /// The bytes that there are.
    room: usize,
    /// Those that its owner asked for.
    bytes: usize,
}

/// What tests want of a simulated GPU, all at once, and the same on every machine.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// What launches are checked for.
    pub checks: Checks,
    /// In which order threads and blocks run.
    pub schedule: Schedule,
    /// Whether launches are counted.
    pub counting: bool,
    /// The compute capability of its tensor cores.
    pub tensor_cores: Option<(u32, u32)>,
    /// How many blocks there are said to be room for: libraries choose their kernels by it.
    pub multiprocessors: u32,
}

/// The PTX that the device was given: it is not used here, but what a GPU would refuse is refused.
#[derive(Debug, Default)]
struct Kernels {
    registry: Registry,
    /// The kernels that the PTX is known to fit.
    checked: HashSet<TypeId>,
}

impl Simulator {
    pub(crate) fn new() -> Self {
        Self::checked(Checks::from_env())
    }

    /// With these checks, whatever the environment says.
    pub(crate) fn checked(checks: Checks) -> Self {
        Self {
            properties: properties(),
            memory: Memory::default(),
            next_handle: AtomicU64::new(1),
            events: Mutex::default(),
            allocations: Mutex::default(),
            checks,
            written: checks.uninitialised.then(Written::default),
            schedule: Schedule::from_env(),
            counting: Counting::from_env(),
            traced: None,
            kernels: Mutex::default(),
            expressions: crate::expr::Kernels::default(),
            graphs: Mutex::default(),
        }
    }

    pub(crate) fn of(simulation: Simulation) -> Self {
        let mut simulator = Self::checked(simulation.checks);
        simulator.schedule = Some(simulation.schedule);
        simulator.counting = if simulation.counting {
            Counting::kept()
        } else {
            Counting::Off
        };
        simulator.properties.tensor_cores = simulation.tensor_cores;
        simulator.properties.multiprocessors = simulation.multiprocessors;
        simulator
    }

    /// By that schedule, whatever the environment says.
    pub(crate) fn with_schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// That counts what launches do, for its user to take.
    pub(crate) fn counting(mut self) -> Self {
        self.counting = Counting::kept();
        self
    }

    /// That also keeps the steps of that block.
    pub(crate) fn tracing(mut self, block: u64) -> Self {
        self.traced = Some(block);
        self.counting()
    }

    /// The allocation that an address is in.
    fn allocation(&self, address: usize) -> Option<Range<usize>> {
        let allocations = lock(&self.allocations);
        let (&start, allocation) = allocations.range(..=address as u64).next_back()?;
        let range = start as usize..start as usize + allocation.bytes;
        range.contains(&address).then_some(range)
    }

    /// Refuses a copy to the host of what nobody has written.
    fn check_written(&self, operation: &'static str, address: u64, bytes: usize) -> Result<()> {
        let first = (self.written.as_ref()).and_then(|written| written.first_unwritten(address as usize, bytes));
        let Some(first) = first else { return Ok(()) };
        let array = self.allocation(first).unwrap_or(first..first);
        Err(Error::Uninitialised {
            operation,
            bytes,
            byte: first - array.start,
            array: array.len(),
            allocated_by: self.memory.made_by(array.start as u64),
        })
    }

    /// A kernel's fault, which says where the array was allocated that something was found in, if that is known.
    fn fault(&self, mut fault: Fault) -> Error {
        if let Some(Array::Global { address, .. }) = fault.finding.as_deref().map(|finding| &finding.array)
            && let Some(call) = self.memory.made_by(*address as u64)
        {
            fault.message += &format!(" (the array was allocated by {call})");
        }
        Error::Fault(Box::new(fault))
    }

    /// With the instructions of those tensor cores.
    pub(crate) fn with_tensor_cores(mut self, tensor_cores: (u32, u32)) -> Self {
        self.properties.tensor_cores = Some(tensor_cores);
        self
    }

    fn handle(&self) -> u64 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// Refuses a kernel whose PTX is of other source, as a GPU does.
    fn check(&self, kernel: &KernelInfo) -> Result<()> {
        let mut kernels = lock(&self.kernels);
        if !kernels.checked.contains(&kernel.id) {
            kernels.registry.check(kernel)?;
            kernels.checked.insert(kernel.id);
        }
        Ok(())
    }

    /// Refuses a cooperative launch of too many blocks.
    fn check_room(&self, kernel: &KernelInfo, config: &LaunchConfig) -> Result<()> {
        if !kernel.cooperative {
            return Ok(());
        }
        // At most a block's, as the launch has checked.
        let threads = config.block.count() as u32;
        check_cooperative(
            kernel.name,
            config,
            self.cooperative_blocks(kernel, threads, config.dynamic_shared)?,
        )
    }

    fn recorded(&self, event: RawEvent) -> Result<Instant> {
        let events = lock(&self.events);
        events.get(&event.0).copied().flatten().ok_or_else(|| Error::Cuda {
            device: self.properties.id.clone(),
            call: "elapsed_ms",
            message: "the event was not recorded".into(),
        })
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let backend: &dyn Backend = self;
        backend.close_memory();
    }
}

/// The table behind a mutex; what holds it does not panic between changes that belong together.
fn lock<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What the simulated GPU says of itself: CUDA's limits, the host's memory and processors.
fn properties() -> Properties {
    let limits = &cuda_sim::LIMITS;
    let total_memory = memory_info("MemTotal:").unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    Properties {
        id: "sim".into(),
        name: "Warpsmith simulated GPU".into(),
        compute_capability: None,
        driver_version: None,
        total_memory,
        multiprocessors: cores,
        warp_size: limits.warp_size,
        max_threads_per_block: limits.max_threads_per_block,
        max_threads_per_multiprocessor: limits.max_threads_per_block,
        max_block: limits.max_block,
        max_grid: limits.max_grid,
        shared_memory_per_block: limits.max_static_shared as u32,
        shared_memory_per_block_optin: limits.max_shared as u32,
        ..Properties::default()
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, ALIGNMENT).ok()
}

/// At least one byte of the host's memory; `None` if there is not enough.
fn host_memory(bytes: usize) -> Option<u64> {
    assert!(bytes > 0, "an allocation of no bytes");
    // SAFETY: the layout has a size, as just asked.
    let address = unsafe { alloc_zeroed(layout(bytes)?) };
    (!address.is_null()).then(|| address.expose_provenance() as u64)
}

/// # Safety
///
/// `host_memory` gave the address for as many bytes, and nobody uses it any more.
unsafe fn free_host_memory(address: u64, bytes: usize) {
    let layout = layout(bytes).expect("it was allocated by this layout");
    // SAFETY: this function's contract.
    unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address as usize), layout) };
}

impl Backend for Simulator {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn free_memory(&self) -> Result<u64> {
        Ok(memory_info("MemAvailable:").unwrap_or(self.properties.total_memory))
    }

    unsafe fn adopt_stream(&self, _: u64) -> Result<Option<RawStream>> {
        Ok(None)
    }

    unsafe fn release_stream(&self, _: RawStream) {}

    /// All that the process has: the simulated GPU's memory is the host's.
    fn has_memory(&self, _: u64) -> Result<bool> {
        Ok(true)
    }

    fn register_kernels(&self, modules: PtxModules) -> Result<()> {
        let mut kernels = lock(&self.kernels);
        kernels.checked.clear();
        kernels.registry.register(modules)
    }

    fn reset(&self) -> Result<Arc<dyn Backend>> {
        let mut fresh = Self::checked(self.checks);
        fresh.properties = self.properties.clone();
        fresh.schedule = self.schedule;
        fresh.counting = self.counting.clone();
        fresh.traced = self.traced;
        lock(&fresh.kernels).registry = lock(&self.kernels).registry.clone();
        Ok(Arc::new(fresh))
    }

    fn stay(&self) -> Result<Stay> {
        Ok(Stay { _call: None })
    }

    fn synchronize_all(&self) -> Result<()> {
        Ok(())
    }

    fn create_stream(&self, _priority: i32) -> Result<RawStream> {
        Ok(RawStream(self.handle()))
    }

    fn stream_priorities(&self) -> Result<RangeInclusive<i32>> {
        Ok(0..=0)
    }

    unsafe fn destroy_stream(&self, _stream: RawStream) {}

    unsafe fn synchronize(&self, _stream: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn is_idle(&self, _stream: RawStream) -> Result<bool> {
        Ok(true)
    }

    unsafe fn call_back(&self, _stream: RawStream, callback: Callback) -> Result<()> {
        callback();
        Ok(())
    }

    fn create_event(&self, _timed: bool) -> Result<RawEvent> {
        let event = self.handle();
        lock(&self.events).insert(event, None);
        Ok(RawEvent(event))
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        lock(&self.events).remove(&event.0);
    }

    unsafe fn record(&self, event: RawEvent, _stream: RawStream) -> Result<()> {
        let mut events = lock(&self.events);
        events.insert(event.0, Some(Instant::now()));
        Ok(())
    }

    unsafe fn wait(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
        Ok(())
    }

    unsafe fn synchronize_event(&self, _event: RawEvent) -> Result<()> {
        Ok(())
    }

    unsafe fn is_reached(&self, _event: RawEvent) -> Result<bool> {
        Ok(true)
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32> {
        let (start, end) = (self.recorded(start)?, self.recorded(end)?);
        let elapsed =
            end.saturating_duration_since(start).as_secs_f64() - start.saturating_duration_since(end).as_secs_f64();
        Ok((elapsed * 1e3) as f32)
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    unsafe fn allocate(&self, _stream: RawStream, bytes: usize) -> Result<Option<u64>> {
        let address = self.pin(bytes)?;
        if let Some(address) = address {
            lock(&self.allocations).insert(address, Allocation { room: bytes, bytes });
        }
        Ok(address)
    }

    fn acquired(&self, address: u64, bytes: usize) {
        if let Some(allocation) = lock(&self.allocations).get_mut(&address) {
            allocation.bytes = bytes;
        }
        if let Some(written) = &self.written {
            written.allocate(address as usize, bytes);
        }
    }

    fn assume_written(&self, address: u64, bytes: usize) {
        if let Some(written) = &self.written {
            written.write(address as usize, bytes);
        }
    }

    unsafe fn free(&self, _stream: RawStream, address: u64) -> Result<()> {
        let allocation = lock(&self.allocations).remove(&address);
        if let Some(written) = &self.written {
            written.free(address as usize);
        }
        if let Some(Allocation { room, .. }) = allocation {
            // SAFETY: `allocate` gave this address for as many bytes, and it was still in the table.
            unsafe { free_host_memory(address, room) };
        }
        Ok(())
    }

    unsafe fn free_now(&self, address: u64) -> Result<()> {
        // SAFETY: the trait's contract; all streams are one.
        unsafe { self.free(RawStream(0), address) }
    }

    fn reserved_memory(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    fn trim_pool(&self) -> Result<()> {
        Ok(())
    }

    fn set_release_threshold(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn pin(&self, bytes: usize) -> Result<Option<u64>> {
        Ok(has_room(bytes).then(|| host_memory(bytes)).flatten())
    }

    unsafe fn unpin(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract.
        unsafe { free_host_memory(address, bytes) };
    }

    unsafe fn strand_pinned(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract; no work is ever queued.
        unsafe { self.unpin(address, bytes) };
    }

    unsafe fn upload(&self, _stream: RawStream, to: u64, from: &[u8]) -> Result<()> {
        self.assume_written(to, from.len());
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
        // SAFETY: the contract of the trait: `to` is within an allocation; `from` is the host's own.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    unsafe fn download(&self, _stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        self.check_written("a copy", from, bytes)?;
        let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
        // SAFETY: the contract of the trait: `from` is within an allocation, `to` is the caller's.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        Ok(())
    }

    fn land(&self, bytes: usize) -> Result<u64> {
        host_memory(bytes).ok_or(Error::HostMemory { wanted: bytes })
    }

    unsafe fn read_landed(&self, _: RawStream, from: u64, to: *mut u8, bytes: usize, _unit: usize) -> Result<()> {
        let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
        // SAFETY: the contract of the trait: memory that `land` gave, and the caller's.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
        Ok(())
    }

    unsafe fn unland(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract.
        unsafe { free_host_memory(address, bytes) };
    }

    unsafe fn upload_pinned(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: the contract of the trait; all memory is the host's.
        unsafe { self.copy(stream, to, from, bytes) }
    }

    unsafe fn download_pinned(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        self.check_written("a copy to page-locked memory", from, bytes)?;
        // SAFETY: as above.
        unsafe { self.copy(stream, to, from, bytes) }
    }

    fn peer(&self) -> Option<RawPeer> {
        None
    }

    unsafe fn copy_to_peer(&self, _: RawStream, _: PeerMemory, _: u64, _: usize) -> Result<()> {
        unreachable!("the simulator has no context, and so no peer")
    }

    unsafe fn copy(&self, _stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        if let Some(written) = &self.written {
            written.copy(to as usize, from as usize, bytes);
        }
        let from = std::ptr::with_exposed_provenance::<u8>(from as usize);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
        // SAFETY: the contract of the trait: both are within allocations.
        unsafe { to.copy_from(from, bytes) };
        Ok(())
    }

    unsafe fn fill_zero(&self, _stream: RawStream, address: u64, bytes: usize) -> Result<()> {
        self.assume_written(address, bytes);
        // SAFETY: the contract of the trait: within an allocation.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address as usize).write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn launch(
        &self,
        _stream: RawStream,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        /// Parameters are only read, so every thread may have their addresses.
        struct Shared(*const *const ());
        // SAFETY: as just said.
        unsafe impl Sync for Shared {}

        self.check(kernel)?;
        self.check_room(kernel, config)?;
        let shared = &Shared(params.as_ptr());
        // SAFETY: the contract of the trait: the parameters are the kernel's, and live until the launch is over, which
        // it is when `cuda_sim::launch` returns.
        let body = move || unsafe { (kernel.run)(shared.0) };
        let allocation = |address| self.allocation(address);
        let options = cuda_sim::Options {
            cooperative: kernel.cooperative,
            cluster: (kernel.cluster.count() > 1).then_some(kernel.cluster),
            checks: self.checks,
            schedule: self.schedule,
            traced: self.traced,
            allocation: Some(&allocation),
            written: self.written.as_ref(),
        };
        self.counting
            .launch(kernel.name, config, options, &body)
            .map_err(|error| match error {
                cuda_sim::Error::Fault(fault) => self.fault(fault),
                other => Error::LaunchConfig {
                    kernel: kernel.name.into(),
                    what: "configuration",
                    given: format!("{config:?}"),
                    wanted: other.to_string(),
                },
            })
    }

    fn preload(&self, kernel: &KernelInfo) -> Result<()> {
        self.check(kernel)
    }

    fn function_text(&self, function: &DeviceFnInfo) -> Result<String> {
        Err(Wanted::from(function).missing())
    }

    fn kernel_text(&self, kernel: &KernelInfo) -> Result<String> {
        Err(Wanted::from(kernel).missing())
    }

    fn take_counters(&self) -> Vec<LaunchCounters> {
        self.counting.take()
    }

    fn expressions(&self) -> &crate::expr::Kernels {
        &self.expressions
    }

    fn occupancy(&self, kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32> {
        self.check(kernel)?;
        let shared = self.properties.shared_memory_per_block_optin as usize;
        let by_memory = shared.checked_div(dynamic_shared).unwrap_or(usize::MAX);
        let by_threads = self.properties.max_threads_per_multiprocessor / threads;
        Ok(by_threads.min(u32::try_from(by_memory).unwrap_or(u32::MAX)))
    }

    fn cooperative_blocks(&self, kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32> {
        let blocks = self.occupancy(kernel, threads, dynamic_shared)?;
        let blocks = blocks.saturating_mul(self.properties.multiprocessors);
        Ok(blocks.min(cuda_sim::cooperative_blocks(threads)))
    }

    unsafe fn tensor_map(&self, of: TensorType, address: u64, layout: &TensorMapLayout) -> Result<RawTensorMap> {
        let map = RawTensorMap::simulated(address as usize, layout);
        Ok(match of {
            TensorType::Tf32 => map.rounding_to_tf32(),
            _ => map,
        })
    }

    fn best_block(&self, kernel: &KernelInfo, most: u32) -> Result<u32> {
        self.check(kernel)?;
        Ok(most)
    }

    unsafe fn load_module(&self, _: &str, _: Code, _: &[u8]) -> Result<RawModule> {
        Err(Error::NotSimulated {
            operation: "loading a module of another compiler",
        })
    }

    unsafe fn unload_module(&self, _: RawModule) {
        unreachable!("none was loaded");
    }

    unsafe fn module_function(&self, _: RawModule, _: &str, _: &str) -> Result<(RawFunction, FunctionInfo)> {
        unreachable!("no module was loaded");
    }

    unsafe fn launch_function(
        &self,
        _: RawStream,
        _: RawFunction,
        _: &FunctionInfo,
        _: &str,
        _: &LaunchConfig,
        _: &mut [*const ()],
    ) -> Result<()> {
        unreachable!("no module was loaded");
    }
}
