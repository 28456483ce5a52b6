// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another backend whose calls fail when a test wants it: each call that can fail is counted, and does nothing where a
//! failure is due. So a test can see what becomes of the library's work at every place where a device can fail.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_sim::LaunchConfig;

use super::{
    Backend, Callback, Code, DeviceFnInfo, FunctionInfo, Graphs, KernelInfo, PeerMemory, RawEvent, RawExec,
    RawFunction, RawGraph, RawModule, RawNode, RawPeer, RawPlace, RawStream, Stay,
};
use crate::device::Properties;
use crate::error::{Error, Result};
use crate::expr::Kernels;
use crate::memory::Memory;
use crate::ptx::PtxModules;
use crate::tensor_map::TensorType;
use cuda_std::tma::{RawTensorMap, TensorMapLayout};

/// Which calls of a device fail; see [`Device::with_faults`](crate::Device::with_faults).
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct Faults {
    plan: Arc<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: AtomicU64,
    failing: Mutex<Range<u64>>,
}

impl Faults {
    /// Has those of the next calls fail, counted from 0.
    pub fn fail(&self, calls: Range<u64>) {
        let mut failing = self.plan.failing.lock().unwrap_or_else(PoisonError::into_inner);
        *failing = calls;
        self.plan.calls.store(0, Ordering::Relaxed);
    }

    /// The calls since the last [`fail`](Self::fail).
    pub fn calls(&self) -> u64 {
        self.plan.calls.load(Ordering::Relaxed)
    }

    /// Counts a call; whether it is to fail.
    fn is_due(&self) -> bool {
        let number = self.plan.calls.fetch_add(1, Ordering::Relaxed);
        let failing = self.plan.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.contains(&number)
    }
}

#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<dyn Backend>,
    faults: Faults,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Backend>, faults: Faults) -> Self {
        Self { inner, faults }
    }

    fn try_call(&self, call: &'static str) -> Result<()> {
        match self.faults.is_due() {
            false => Ok(()),
            true => Err(Error::Cuda {
                device: self.properties().id.clone(),
                call,
                message: "a failure that was asked for".into(),
            }),
        }
    }
}

/// Calls that fail where that is due, and else are the other backend's.
macro_rules! calls {
    ($(fn $name:ident($($param:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, $($param: $type),*) -> Result<$result> {
            self.try_call(stringify!($name))?;
            self.inner.$name($($param),*)
        }
    )*};
    ($(unsafe fn $name:ident($($param:ident: $type:ty),*) -> $result:ty;)*) => {$(
        unsafe fn $name(&self, $($param: $type),*) -> Result<$result> {
            self.try_call(stringify!($name))?;
            // SAFETY: the trait's contract, which is the same.
            unsafe { self.inner.$name($($param),*) }
        }
    )*};
}

impl Backend for Faulty {
    calls! {
        fn free_memory() -> u64;
        fn register_kernels(modules: PtxModules) -> ();
        fn synchronize_all() -> ();
        fn create_stream(priority: i32) -> RawStream;
        fn stream_priorities() -> RangeInclusive<i32>;
        fn create_event(timed: bool) -> RawEvent;
        fn reserved_memory() -> Option<u64>;
        fn trim_pool() -> ();
        fn set_release_threshold(bytes: u64) -> ();
        fn land(bytes: usize) -> u64;
        fn has_memory(address: u64) -> bool;
        fn preload(kernel: &KernelInfo) -> ();
        fn function_text(function: &DeviceFnInfo) -> String;
        fn kernel_text(kernel: &KernelInfo) -> String;
        fn occupancy(kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> u32;
        fn cooperative_blocks(kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> u32;
        fn best_block(kernel: &KernelInfo, most: u32) -> u32;
    }
    calls! {
        unsafe fn adopt_stream(handle: u64) -> Option<RawStream>;
        unsafe fn synchronize(stream: RawStream) -> ();
        unsafe fn is_idle(stream: RawStream) -> bool;
        unsafe fn call_back(stream: RawStream, callback: Callback) -> ();
        unsafe fn record(event: RawEvent, stream: RawStream) -> ();
        unsafe fn wait(stream: RawStream, event: RawEvent) -> ();
        unsafe fn synchronize_event(event: RawEvent) -> ();
        unsafe fn is_reached(event: RawEvent) -> bool;
        unsafe fn elapsed_ms(start: RawEvent, end: RawEvent) -> f32;
        unsafe fn free(stream: RawStream, address: u64) -> ();
        unsafe fn free_now(address: u64) -> ();
        unsafe fn upload(stream: RawStream, to: u64, from: &[u8]) -> ();
        unsafe fn download(stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> ();
        unsafe fn read_landed(stream: RawStream, from: u64, to: *mut u8, bytes: usize, unit: usize) -> ();
        unsafe fn upload_pinned(stream: RawStream, to: u64, from: u64, bytes: usize) -> ();
        unsafe fn download_pinned(stream: RawStream, to: u64, from: u64, bytes: usize) -> ();
        unsafe fn copy(stream: RawStream, to: u64, from: u64, bytes: usize) -> ();
        unsafe fn copy_to_peer(stream: RawStream, to: PeerMemory, from: u64, bytes: usize) -> ();
        unsafe fn fill_zero(stream: RawStream, address: u64, bytes: usize) -> ();
        unsafe fn launch(
            stream: RawStream, kernel: &KernelInfo, config: &LaunchConfig, params: &mut [*const ()]
        ) -> ();
        unsafe fn tensor_map(of: TensorType, address: u64, layout: &TensorMapLayout) -> RawTensorMap;
        unsafe fn load_module(name: &str, code: Code, image: &[u8]) -> RawModule;
        unsafe fn module_function(module: RawModule, module_name: &str, name: &str) -> (RawFunction, FunctionInfo);
        unsafe fn launch_function(
            stream: RawStream,
            function: RawFunction,
            info: &FunctionInfo,
            name: &str,
            config: &LaunchConfig,
            params: &mut [*const ()]
        ) -> ();
    }

    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn memory(&self) -> &Memory {
        self.inner.memory()
    }

    fn acquired(&self, address: u64, bytes: usize) {
        self.inner.acquired(address, bytes);
    }

    fn assume_written(&self, address: u64, bytes: usize) {
        self.inner.assume_written(address, bytes);
    }

    fn expressions(&self) -> &Kernels {
        self.inner.expressions()
    }

    fn peer(&self) -> Option<RawPeer> {
        self.inner.peer()
    }

    fn reset(&self) -> Result<Arc<dyn Backend>> {
        self.try_call("reset")?;
        Ok(Arc::new(Self::new(self.inner.reset()?, self.faults.clone())))
    }

    fn stay(&self) -> Result<Stay> {
        self.inner.stay()
    }

    unsafe fn strand_pinned(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract, which is the same.
        unsafe { self.inner.strand_pinned(address, bytes) }
    }

    unsafe fn allocate(&self, stream: RawStream, bytes: usize) -> Result<Option<u64>> {
        match self.faults.is_due() {
            true => Ok(None),
            // SAFETY: the trait's contract, which is the same.
            false => unsafe { self.inner.allocate(stream, bytes) },
        }
    }

    fn pin(&self, bytes: usize) -> Result<Option<u64>> {
        match self.faults.is_due() {
            true => Ok(None),
            false => self.inner.pin(bytes),
        }
    }

    unsafe fn unland(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract, which is the same.
        unsafe { self.inner.unland(address, bytes) }
    }

    unsafe fn unpin(&self, address: u64, bytes: usize) {
        // SAFETY: the trait's contract, which is the same.
        unsafe { self.inner.unpin(address, bytes) }
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        // SAFETY: as above.
        unsafe { self.inner.destroy_stream(stream) }
    }

    unsafe fn unload_module(&self, module: RawModule) {
        // SAFETY: as above.
        unsafe { self.inner.unload_module(module) }
    }

    unsafe fn release_stream(&self, stream: RawStream) {
        // SAFETY: as above.
        unsafe { self.inner.release_stream(stream) }
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        // SAFETY: as above.
        unsafe { self.inner.destroy_event(event) }
    }
}

impl Graphs for Faulty {
    calls! {
        fn create_graph() -> RawGraph;
    }
    calls! {
        unsafe fn record_launch(
            at: RawPlace,
            kernel: &KernelInfo,
            config: &LaunchConfig,
            params: &mut [*const ()]
        ) -> RawNode;
        unsafe fn record_function(
            at: RawPlace,
            function: RawFunction,
            info: &FunctionInfo,
            name: &str,
            config: &LaunchConfig,
            params: &mut [*const ()]
        ) -> RawNode;
        unsafe fn record_copy(at: RawPlace, to: u64, from: u64, bytes: usize) -> RawNode;
        unsafe fn record_fill_zero(at: RawPlace, address: u64, bytes: usize) -> RawNode;
        unsafe fn instantiate(graph: RawGraph) -> RawExec;
        unsafe fn update_exec(exec: RawExec, graph: RawGraph) -> bool;
        unsafe fn launch_graph(stream: RawStream, exec: RawExec) -> ();
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) {
        // SAFETY: the trait's contract, which is the same.
        unsafe { self.inner.destroy_graph(graph) }
    }

    unsafe fn destroy_exec(&self, exec: RawExec) {
        // SAFETY: as above.
        unsafe { self.inner.destroy_exec(exec) }
    }
}
