// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CUDA driver as a backend, through `cuda_driver::sys`: streams, events, memory and launches.
//!
//! context.rs finds the GPUs and makes their contexts current, generation.rs says how long one is of use, modules.rs loads
//! kernels and launching.rs launches them, foreign.rs those of other compilers, graph.rs records work, staging.rs takes
//! small uploads, landing.rs small downloads, bulk.rs large copies, status.rs makes errors of
//! what the driver says, and panics.rs of what kernels say. peer.rs copies to other GPUs, pool.rs has the memory.

mod bulk;
mod context;
mod dependent;
mod foreign;
mod generation;
mod graph;
mod landing;
mod launching;
mod locking;
mod modules;
mod panics;
mod peer;
mod pool;
mod staging;
mod status;
mod tensor_map;

use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;
use std::ptr;
use std::sync::Arc;

use cuda_driver::sys::{self, Status};
use cuda_sim::LaunchConfig;

use super::{
    Backend, Callback, Code, DeviceFnInfo, FunctionInfo, KernelInfo, PeerMemory, RawEvent, RawFunction, RawModule,
    RawPeer, RawStream, Stay,
};
use crate::device::Properties;
use crate::error::Result;
use crate::expr::Kernels;
use crate::memory::Memory;
use crate::ptx::PtxModules;
use crate::tensor_map::TensorType;
use bulk::Bulk;
use context::{Context, Entered};
use cuda_std::tma::{RawTensorMap, TensorMapLayout};
use landing::Landing;
use modules::Modules;
use peer::Peers;
use pool::Pool;
use staging::Staging;

pub(crate) use context::{count, properties};

/// The environment variable that has each launch on a GPU wait for its kernel, if it is `1` when the device is opened; see
/// [`Error::KernelFailed`](crate::Error::KernelFailed).
pub const SYNC_VARIABLE: &str = "WARPSMITH_SYNC";

pub(crate) struct Cuda {
    properties: Properties,
    memory: Memory,
    expressions: Kernels,
    modules: Modules,
    staging: Staging,
    landing: Landing,
    bulk: Bulk,
    peers: Peers,
    pool: Pool,
    /// Whether each launch is followed by a wait for its kernel.
    synchronous: bool,
    /// Last, so that it is released after all that is in it.
    context: Context,
}

// SAFETY: the driver's handles may be used from every thread; all calls make the context current first.
unsafe impl Send for Cuda {}
// SAFETY: as above; the driver is thread-safe, and the tables are behind locks.
unsafe impl Sync for Cuda {}

fn stream_of(stream: RawStream) -> sys::CUstream {
    ptr::with_exposed_provenance_mut(stream.0 as usize)
}

fn event_of(event: RawEvent) -> sys::CUevent {
    ptr::with_exposed_provenance_mut(event.0 as usize)
}

impl Cuda {
    /// Opens GPU `ordinal`: its primary context, and a memory pool that keeps what is freed.
    pub(crate) fn new(ordinal: u32) -> Result<Self> {
        Self::with_modules(ordinal, Modules::default())
    }

    /// Which uses those tensor cores.
    pub(crate) fn with_tensor_cores(mut self, tensor_cores: (u32, u32)) -> Self {
        self.properties.tensor_cores = Some(tensor_cores);
        self
    }

    fn with_modules(ordinal: u32, modules: Modules) -> Result<Self> {
        let properties = properties(ordinal)?;
        let context = Context::retain(ordinal, &properties.id)?;
        Ok(Self {
            properties,
            memory: Memory::default(),
            expressions: Kernels::default(),
            modules,
            staging: Staging::default(),
            landing: Landing::default(),
            bulk: Bulk::default(),
            peers: Peers::default(),
            pool: Pool::create(&context)?,
            synchronous: std::env::var_os(SYNC_VARIABLE).is_some_and(|value| value == "1"),
            context,
        })
    }

    /// Makes the context current on this thread; every call of the driver needs that.
    fn enter(&self) -> Result<Entered> {
        self.context.enter()
    }

    fn check(&self, call: &'static str, status: Status) -> Result<()> {
        self.context.check(call, status)
    }

    /// The answer of a query that says whether something is done.
    fn is_done(&self, call: &'static str, status: Status) -> Result<bool> {
        match status {
            Status::NOT_READY => Ok(false),
            status => self.check(call, status).map(|()| true),
        }
    }

    /// Waits for the stream, whatever has failed meanwhile.
    ///
    /// # Safety
    ///
    /// The stream is this context's and lives; the context is current.
    unsafe fn finish(&self, stream: RawStream) -> Result<()> {
        // SAFETY: this function's contract.
        self.check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(stream_of(stream))
        })
    }

    /// Copies from where the bytes lie, and waits for the copy. The driver's documentation of "API synchronization
    /// behavior" says of an asynchronous copy from pageable memory that it "might be synchronous", and that memory
    /// which has to be staged "may" be staged before the return; that of CUDA 11 has it staged by a thread of the
    /// driver's, later. From page-locked memory the device itself reads after the return. In none of these cases may
    /// the caller's memory be given back before the copy is done, and nothing but a wait tells when that is. The
    /// synchronous copy is no substitute: it is ordered with the null stream, which these streams do not wait for.
    ///
    /// # Safety
    ///
    /// That of [`Backend::upload`]; the context is current.
    unsafe fn upload_directly(&self, stream: RawStream, to: u64, from: &[u8]) -> Result<()> {
        // SAFETY: this function's contract; the copy is waited for before the return.
        unsafe {
            let status = sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), stream_of(stream));
            let copied = self.check("cuMemcpyHtoDAsync", status);
            self.finish(stream)?;
            copied
        }
    }

    /// Copies to where the bytes are wanted, and waits for the copy.
    ///
    /// # Safety
    ///
    /// That of [`Backend::download`]; the context is current.
    unsafe fn download_directly(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        // SAFETY: this function's contract; the copy is waited for before the return.
        unsafe {
            let status = sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream_of(stream));
            let copied = self.check("cuMemcpyDtoHAsync", status);
            self.finish(stream)?;
            copied
        }
    }
}

/// What a stream calls on a thread of the driver's.
///
/// # Safety
///
/// `data` is a `Box<Callback>` that nobody else has.
unsafe extern "C" fn run_callback(data: *mut c_void) {
    // SAFETY: this function's contract.
    let callback = unsafe { Box::from_raw(data.cast::<Callback>()) };
    callback();
}

impl Backend for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reset(&self) -> Result<Arc<dyn Backend>> {
        self.context.end()?;
        let ordinal = self.context.device() as u32; // it was one
        let mut fresh = Self::with_modules(ordinal, self.modules.unloaded())?;
        fresh.properties.tensor_cores = self.properties.tensor_cores;
        fresh.synchronize_all()?;
        Ok(Arc::new(fresh))
    }

    fn stay(&self) -> Result<Stay> {
        self.context.stay().map(|call| Stay { _call: Some(call) })
    }

    fn free_memory(&self) -> Result<u64> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        self.check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn register_kernels(&self, modules: PtxModules) -> Result<()> {
        self.modules.register(modules)
    }

    fn synchronize_all(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: takes nothing.
        self.check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }

    fn create_stream(&self, priority: i32) -> Result<RawStream> {
        let _current = self.enter()?;
        let mut stream = ptr::null_mut();
        // SAFETY: writes a handle.
        self.check("cuStreamCreateWithPriority", unsafe {
            sys::cuStreamCreateWithPriority(&mut stream, sys::CU_STREAM_NON_BLOCKING, priority)
        })?;
        Ok(RawStream(stream.expose_provenance() as u64))
    }

    fn stream_priorities(&self) -> Result<RangeInclusive<i32>> {
        let _current = self.enter()?;
        let (mut last, mut first) = (0, 0);
        // SAFETY: writes two numbers.
        self.check("cuCtxGetStreamPriorityRange", unsafe {
            sys::cuCtxGetStreamPriorityRange(&mut last, &mut first)
        })?;
        Ok(first..=last)
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the trait's contract: nobody uses the stream any more. The driver finishes the stream's work
            // first; an error would be one of that work, and shows in the next call.
            unsafe {
                self.staging.leave(stream_of(stream));
                let _ = sys::cuStreamDestroy_v2(stream_of(stream));
            }
        }
    }

    unsafe fn adopt_stream(&self, handle: u64) -> Result<Option<RawStream>> {
        let _current = self.enter()?;
        let mut context = ptr::null_mut();
        // SAFETY: a stream that lives, by the trait's contract; writes a handle.
        let status = unsafe { sys::cuStreamGetCtx(stream_of(RawStream(handle)), &mut context) };
        self.check("cuStreamGetCtx", status)?;
        Ok(self.context.is(context).then_some(RawStream(handle)))
    }

    unsafe fn release_stream(&self, stream: RawStream) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the trait's contract: the stream lives, and who else has adopted it calls this too.
            unsafe { self.staging.leave(stream_of(stream)) };
        }
    }

    unsafe fn synchronize(&self, stream: RawStream) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        unsafe { self.finish(stream) }
    }

    unsafe fn is_idle(&self, stream: RawStream) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        self.is_done("cuStreamQuery", unsafe { sys::cuStreamQuery(stream_of(stream)) })
    }

    unsafe fn call_back(&self, stream: RawStream, callback: Callback) -> Result<()> {
        let _current = self.enter()?;
        let data = Box::into_raw(Box::new(callback));
        // SAFETY: the trait's contract; the function is called once at most, with what it wants.
        let status = unsafe { sys::cuLaunchHostFunc(stream_of(stream), Some(run_callback), data.cast()) };
        self.check("cuLaunchHostFunc", status).inspect_err(|_| {
            // SAFETY: the driver has not taken it.
            drop(unsafe { Box::from_raw(data) });
        })
    }

    fn create_event(&self, timed: bool) -> Result<RawEvent> {
        let _current = self.enter()?;
        let mut event = ptr::null_mut();
        let flags = if timed { 0 } else { sys::CU_EVENT_DISABLE_TIMING };
        // SAFETY: writes a handle.
        self.check("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, flags) })?;
        Ok(RawEvent(event.expose_provenance() as u64))
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the trait's contract; work that waits for the event still does.
            let _ = unsafe { sys::cuEventDestroy_v2(event_of(event)) };
        }
    }

    unsafe fn record(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuEventRecord", unsafe {
            sys::cuEventRecord(event_of(event), stream_of(stream))
        })
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(stream_of(stream), event_of(event), 0)
        })
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuEventSynchronize", unsafe {
            sys::cuEventSynchronize(event_of(event))
        })
    }

    unsafe fn is_reached(&self, event: RawEvent) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        self.is_done("cuEventQuery", unsafe { sys::cuEventQuery(event_of(event)) })
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32> {
        let _current = self.enter()?;
        let mut ms = 0.0;
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuEventElapsedTime(&mut ms, event_of(start), event_of(end)) };
        self.check("cuEventElapsedTime", status)?;
        Ok(ms)
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }

    unsafe fn allocate(&self, stream: RawStream, bytes: usize) -> Result<Option<u64>> {
        let _current = self.enter()?;
        if bytes as u64 > self.properties.total_memory {
            return Ok(None);
        }
        // SAFETY: the trait's contract; the context is current.
        unsafe { self.pool.allocate(&self.context, stream_of(stream), bytes) }
    }

    fn acquired(&self, _: u64, _: usize) {}

    fn assume_written(&self, _: u64, _: usize) {}

    unsafe fn free(&self, stream: RawStream, address: u64) -> Result<()> {
        let _current = self.enter()?;
        if self.pool.is_none() {
            // Not stream-ordered, so the stream is waited for: by the trait's contract it is behind all that uses the
            // memory. A wait that fails leaves it allocated: something may still use it.
            // SAFETY: the trait's contract.
            unsafe {
                self.finish(stream)?;
                return self.check("cuMemFree", sys::cuMemFree_v2(address));
            }
        }
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuMemFreeAsync(address, stream_of(stream)) };
        self.check("cuMemFreeAsync", status)
    }

    unsafe fn free_now(&self, address: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract. The function takes memory of a pool as well.
        self.check("cuMemFree", unsafe { sys::cuMemFree_v2(address) })
    }

    fn reserved_memory(&self) -> Result<Option<u64>> {
        self.pool.reserved(&self.context)
    }

    fn trim_pool(&self) -> Result<()> {
        self.pool.trim(&self.context)
    }

    fn set_release_threshold(&self, bytes: u64) -> Result<()> {
        self.pool.set_release_threshold(&self.context, bytes)
    }

    fn pin(&self, bytes: usize) -> Result<Option<u64>> {
        let _current = self.enter()?;
        self.lock_memory(bytes)
    }

    unsafe fn unpin(&self, address: u64, bytes: usize) {
        match self.enter() {
            // SAFETY: the trait's contract; the context is current.
            Ok(_current) => unsafe { self.unlock_memory(address, bytes) },
            // SAFETY: the trait's contract.
            Err(_) => unsafe { self.strand_pinned(address, bytes) },
        }
    }

    unsafe fn strand_pinned(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract.
        unsafe { self.context.generation().strand(address, bytes) };
    }

    fn has_memory(&self, address: u64) -> Result<bool> {
        let _current = self.enter()?;
        let mut device: sys::CUdevice = -1;
        // SAFETY: writes the number of a device, as the attribute says.
        let status = unsafe {
            sys::cuPointerGetAttribute(
                (&raw mut device).cast(),
                sys::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                address,
            )
        };
        match status {
            // An address that the driver does not know.
            Status::INVALID_VALUE => Ok(false),
            status => self
                .check("cuPointerGetAttribute", status)
                .map(|()| device == self.context.device()),
        }
    }

    /// Queued from memory of the library, if that is not under way for other streams.
    unsafe fn upload(&self, stream: RawStream, to: u64, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.enter()?;
        let raw = stream_of(stream);
        // SAFETY: the trait's contract, in all cases.
        unsafe {
            if from.len() > staging::PIECE {
                return self.upload_bulk(stream, to, from);
            }
            if self.staging.upload(&self.context, raw, to, from)? {
                return Ok(());
            }
            self.upload_directly(stream, to, from)
        }
    }

    unsafe fn download(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract, in both cases.
        unsafe {
            match bytes <= landing::MOST {
                true => self.download_small(stream, to, from, bytes),
                false => self.download_bulk(stream, to, from, bytes),
            }
        }
    }

    fn land(&self, bytes: usize) -> Result<u64> {
        let _current = self.enter()?;
        self.clear_piece(bytes)
    }

    unsafe fn read_landed(&self, stream: RawStream, from: u64, to: *mut u8, bytes: usize, unit: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract. No reset ends the context, with which the memory goes, before it is read.
        unsafe { self.read_piece(stream, from, to, bytes, unit) }
    }

    unsafe fn unland(&self, address: u64, _bytes: usize) {
        // SAFETY: the trait's contract.
        unsafe { self.put_piece_back(address) };
    }

    unsafe fn upload_pinned(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        let from = ptr::with_exposed_provenance(from as usize);
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream_of(stream)) };
        self.check("cuMemcpyHtoDAsync", status)
    }

    unsafe fn download_pinned(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        let to = ptr::with_exposed_provenance_mut(to as usize);
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream_of(stream)) };
        self.check("cuMemcpyDtoHAsync", status)
    }

    fn peer(&self) -> Option<RawPeer> {
        Some(self.as_peer())
    }

    unsafe fn copy_to_peer(&self, stream: RawStream, to: PeerMemory, from: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract; the context is current.
        unsafe { self.copy_there(stream, to, from, bytes) }
    }

    unsafe fn copy(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream_of(stream)) };
        self.check("cuMemcpyDtoDAsync", status)
    }

    unsafe fn fill_zero(&self, stream: RawStream, address: u64, bytes: usize) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuMemsetD8Async(address, 0, bytes, stream_of(stream)) };
        self.check("cuMemsetD8Async", status)
    }

    unsafe fn launch(
        &self,
        stream: RawStream,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        let _current = self.enter()?;
        let function = self.ready_kernel(kernel, config.dynamic_shared)?;
        // SAFETY: the trait's contract: the parameters are those of the function.
        unsafe { self.launch_raw(stream, (function, kernel.name, kernel.cooperative), config, params) }
    }

    fn preload(&self, kernel: &KernelInfo) -> Result<()> {
        let _current = self.enter()?;
        self.modules.function(kernel, &self.context, &self.properties).map(drop)
    }

    fn function_text(&self, function: &DeviceFnInfo) -> Result<String> {
        self.modules.function_text(function, &self.properties)
    }

    fn kernel_text(&self, kernel: &KernelInfo) -> Result<String> {
        self.modules.kernel_text(kernel, &self.properties)
    }

    fn expressions(&self) -> &Kernels {
        &self.expressions
    }

    fn occupancy(&self, kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32> {
        let _current = self.enter()?;
        let function = self.ready_kernel(kernel, dynamic_shared)?.raw;
        self.blocks_at_a_time(function, threads, dynamic_shared)
    }

    fn cooperative_blocks(&self, kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32> {
        let blocks = self.occupancy(kernel, threads, dynamic_shared)?;
        Ok(blocks.saturating_mul(self.properties.multiprocessors))
    }

    unsafe fn tensor_map(&self, of: TensorType, address: u64, layout: &TensorMapLayout) -> Result<RawTensorMap> {
        self.encode_tensor_map(of, address, layout)
    }

    fn best_block(&self, kernel: &KernelInfo, most: u32) -> Result<u32> {
        let _current = self.enter()?;
        let function = self.modules.function(kernel, &self.context, &self.properties)?;
        let (mut grid, mut block) = (0, 0);
        // SAFETY: a function of the current context; writes two numbers. No function: no block has dynamic shared memory.
        let status = unsafe {
            sys::cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, function.raw, None, 0, most as c_int)
        };
        self.check("cuOccupancyMaxPotentialBlockSize", status)?;
        Ok(u32::try_from(block).unwrap_or(1).max(1))
    }

    unsafe fn load_module(&self, name: &str, code: Code, image: &[u8]) -> Result<RawModule> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        unsafe { foreign::load(&self.context, &self.properties, name, code, image) }
    }

    unsafe fn unload_module(&self, module: RawModule) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the trait's contract.
            unsafe { foreign::unload(module) };
        }
    }

    unsafe fn module_function(
        &self,
        module: RawModule,
        module_name: &str,
        name: &str,
    ) -> Result<(RawFunction, FunctionInfo)> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        unsafe { foreign::function(&self.context, module, module_name, name) }
    }

    unsafe fn launch_function(
        &self,
        stream: RawStream,
        function: RawFunction,
        info: &FunctionInfo,
        name: &str,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        let _current = self.enter()?;
        let ready = self.ready_function(function, info, name, config.dynamic_shared)?;
        // SAFETY: the trait's contract: the parameters are those of the function.
        unsafe { self.launch_raw(stream, (ready, name, false), config, params) }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        let backend: &dyn Backend = self;
        backend.close_memory();
        let Ok(_current) = self.context.enter() else {
            return; // the driver is gone or the process was forked; nothing can be given back
        };
        // SAFETY: nothing uses the modules and the pool any more: streams and arrays keep the backend alive. Errors
        // would be those of earlier work, which was waited for or given up.
        unsafe {
            self.staging.free();
            self.landing.free();
            self.bulk.free();
            self.modules.unload();
            self.pool.destroy();
        }
    }
}
