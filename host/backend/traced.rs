// SPDX-License-Identifier: MIT OR Apache-2.0
//! Another backend, each call of which is told to who listens: allocations, copies, launches and waits, as spans of the
//! crate `tracing` with the target `warpsmith` (feature `tracing`), and as ranges for NVIDIA's profilers (feature `nvtx`),
//! which last as long as the host is in the call. Where nobody listens, that is a look at a number; without the features
//! there is nothing of it. Loads of kernels have theirs in cuda/modules.rs, where it is known that there is one.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{
    Backend, Callback, Code, DeviceFnInfo, FunctionInfo, Graphs, KernelInfo, PeerMemory, RawEvent, RawExec,
    RawFunction, RawGraph, RawModule, RawNode, RawPeer, RawPlace, RawStream, Stay,
};
use crate::device::Properties;
use crate::error::Result;
use crate::expr::Kernels;
use crate::memory::Memory;
use crate::ptx::PtxModules;
use crate::tensor_map::TensorType;
use cuda_sim::{LaunchConfig, LaunchCounters};
use cuda_std::tma::{RawTensorMap, TensorMapLayout};

#[derive(Debug)]
pub(crate) struct Traced {
    inner: Arc<dyn Backend>,
}

impl Traced {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner }
    }
}

/// Tells of what is done until the end of the block, as `kernel` or by the name that it has otherwise.
macro_rules! tell {
    (@range $name:expr, kernel = $kernel:expr $(, $($rest:tt)*)?) => { super::nvtx::Range::new($kernel) };
    (@range $name:expr, $field:ident = $value:expr $(, $($rest:tt)*)?) => { tell!(@range $name, $($($rest)*)?) };
    (@range $name:expr,) => { super::nvtx::Range::new($name) };
    ($name:expr, $($fields:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::debug_span!(target: "warpsmith", $name, $($fields)*).entered();
        #[cfg(feature = "nvtx")]
        let _range = tell!(@range $name, $($fields)*);
    };
}

/// Calls of the other backend in a span, with the fields that are given.
macro_rules! spans {
    ($(unsafe fn $name:ident($($param:ident: $type:ty),*) -> $result:ty, $($field:ident = $value:expr),*;)*) => {$(
        unsafe fn $name(&self, $($param: $type),*) -> Result<$result> {
            tell!(stringify!($name), device = self.properties().id.as_str(), $($field = $value),*);
            // SAFETY: the trait's contract, which is the same.
            unsafe { self.inner.$name($($param),*) }
        }
    )*};
}

/// Calls of the other backend alone.
macro_rules! calls {
    ($(fn $name:ident($($param:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $name(&self, $($param: $type),*) -> $result {
            self.inner.$name($($param),*)
        }
    )*};
    ($(unsafe fn $name:ident($($param:ident: $type:ty),*) -> $result:ty;)*) => {$(
        unsafe fn $name(&self, $($param: $type),*) -> $result {
            // SAFETY: the trait's contract, which is the same.
            unsafe { self.inner.$name($($param),*) }
        }
    )*};
}

impl Backend for Traced {
    spans! {
        unsafe fn allocate(stream: RawStream, bytes: usize) -> Option<u64>, stream = stream.0, bytes = bytes;
        unsafe fn free(stream: RawStream, address: u64) -> (), stream = stream.0;
        unsafe fn synchronize(stream: RawStream) -> (), stream = stream.0;
        unsafe fn synchronize_event(event: RawEvent) -> (), event = event.0;
        unsafe fn upload(stream: RawStream, to: u64, from: &[u8]) -> (), stream = stream.0, bytes = from.len();
        unsafe fn download(stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> (),
            stream = stream.0, bytes = bytes;
        unsafe fn read_landed(stream: RawStream, from: u64, to: *mut u8, bytes: usize, unit: usize) -> (),
            stream = stream.0, bytes = bytes;
        unsafe fn upload_pinned(stream: RawStream, to: u64, from: u64, bytes: usize) -> (),
            stream = stream.0, bytes = bytes;
        unsafe fn download_pinned(stream: RawStream, to: u64, from: u64, bytes: usize) -> (),
            stream = stream.0, bytes = bytes;
        unsafe fn copy(stream: RawStream, to: u64, from: u64, bytes: usize) -> (), stream = stream.0, bytes = bytes;
        unsafe fn copy_to_peer(stream: RawStream, to: PeerMemory, from: u64, bytes: usize) -> (),
            stream = stream.0, bytes = bytes;
        unsafe fn fill_zero(stream: RawStream, address: u64, bytes: usize) -> (), stream = stream.0, bytes = bytes;
        unsafe fn launch(
            stream: RawStream, kernel: &KernelInfo, config: &LaunchConfig, params: &mut [*const ()]
        ) -> (),
            stream = stream.0,
            kernel = kernel.name,
            grid = tracing::field::display(config.grid),
            block = tracing::field::display(config.block),
            dynamic_shared = config.dynamic_shared;
        unsafe fn launch_function(
            stream: RawStream,
            function: RawFunction,
            info: &FunctionInfo,
            name: &str,
            config: &LaunchConfig,
            params: &mut [*const ()]
        ) -> (),
            stream = stream.0,
            kernel = name,
            grid = tracing::field::display(config.grid),
            block = tracing::field::display(config.block),
            dynamic_shared = config.dynamic_shared;
        unsafe fn load_module(name: &str, code: Code, image: &[u8]) -> RawModule, module = name, bytes = image.len();
    }
    calls! {
        fn properties() -> &Properties;
        fn memory() -> &Memory;
        fn acquired(address: u64, bytes: usize) -> ();
        fn assume_written(address: u64, bytes: usize) -> ();
        fn take_counters() -> Vec<LaunchCounters>;
        fn expressions() -> &Kernels;
        fn peer() -> Option<RawPeer>;
        fn stay() -> Result<Stay>;
        fn free_memory() -> Result<u64>;
        fn register_kernels(modules: PtxModules) -> Result<()>;
        fn create_stream(priority: i32) -> Result<RawStream>;
        fn stream_priorities() -> Result<RangeInclusive<i32>>;
        fn create_event(timed: bool) -> Result<RawEvent>;
        fn reserved_memory() -> Result<Option<u64>>;
        fn trim_pool() -> Result<()>;
        fn set_release_threshold(bytes: u64) -> Result<()>;
        fn land(bytes: usize) -> Result<u64>;
        fn has_memory(address: u64) -> Result<bool>;
        fn preload(kernel: &KernelInfo) -> Result<()>;
        fn function_text(function: &DeviceFnInfo) -> Result<String>;
        fn kernel_text(kernel: &KernelInfo) -> Result<String>;
        fn occupancy(kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32>;
        fn cooperative_blocks(kernel: &KernelInfo, threads: u32, dynamic_shared: usize) -> Result<u32>;
        fn best_block(kernel: &KernelInfo, most: u32) -> Result<u32>;
    }
    calls! {
        unsafe fn adopt_stream(handle: u64) -> Result<Option<RawStream>>;
        unsafe fn release_stream(stream: RawStream) -> ();
        unsafe fn destroy_stream(stream: RawStream) -> ();
        unsafe fn tensor_map(of: TensorType, address: u64, layout: &TensorMapLayout) -> Result<RawTensorMap>;
        unsafe fn is_idle(stream: RawStream) -> Result<bool>;
        unsafe fn call_back(stream: RawStream, callback: Callback) -> Result<()>;
        unsafe fn destroy_event(event: RawEvent) -> ();
        unsafe fn record(event: RawEvent, stream: RawStream) -> Result<()>;
        unsafe fn wait(stream: RawStream, event: RawEvent) -> Result<()>;
        unsafe fn is_reached(event: RawEvent) -> Result<bool>;
        unsafe fn elapsed_ms(start: RawEvent, end: RawEvent) -> Result<f32>;
        unsafe fn free_now(address: u64) -> Result<()>;
        unsafe fn unpin(address: u64, bytes: usize) -> ();
        unsafe fn unland(address: u64, bytes: usize) -> ();
        unsafe fn strand_pinned(address: u64, bytes: usize) -> ();
        unsafe fn unload_module(module: RawModule) -> ();
        unsafe fn module_function(
            module: RawModule, module_name: &str, name: &str
        ) -> Result<(RawFunction, FunctionInfo)>;
    }

    fn synchronize_all(&self) -> Result<()> {
        tell!("synchronize_all", device = self.properties().id.as_str());
        self.inner.synchronize_all()
    }

    fn pin(&self, bytes: usize) -> Result<Option<u64>> {
        tell!("pin", bytes = bytes);
        self.inner.pin(bytes)
    }

    fn reset(&self) -> Result<Arc<dyn Backend>> {
        tell!("reset", device = self.properties().id.as_str());
        Ok(Arc::new(Self::new(self.inner.reset()?)))
    }
}

impl Graphs for Traced {
    spans! {
        unsafe fn instantiate(graph: RawGraph) -> RawExec, graph = graph.0;
        unsafe fn update_exec(exec: RawExec, graph: RawGraph) -> bool, graph = graph.0;
        unsafe fn launch_graph(stream: RawStream, exec: RawExec) -> (), stream = stream.0, graph = exec.0;
    }
    calls! {
        fn create_graph() -> Result<RawGraph>;
    }
    calls! {
        unsafe fn destroy_graph(graph: RawGraph) -> ();
        unsafe fn destroy_exec(exec: RawExec) -> ();
        unsafe fn record_launch(
            at: RawPlace, kernel: &KernelInfo, config: &LaunchConfig, params: &mut [*const ()]
        ) -> Result<RawNode>;
        unsafe fn record_function(
            at: RawPlace,
            function: RawFunction,
            info: &FunctionInfo,
            name: &str,
            config: &LaunchConfig,
            params: &mut [*const ()]
        ) -> Result<RawNode>;
        unsafe fn record_copy(at: RawPlace, to: u64, from: u64, bytes: usize) -> Result<RawNode>;
        unsafe fn record_fill_zero(at: RawPlace, address: u64, bytes: usize) -> Result<RawNode>;
    }
}

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use crate::{Device, DeviceArray};

    /// Each span as a line.
    #[derive(Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    use super::Arc;

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            if field.name() != "stream" {
                self.0 += &format!(" {field}={value:?}");
            }
        }
    }

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "warpsmith"
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut line = Line(span.metadata().name().into());
            span.record(&mut line);
            self.0.lock().unwrap().push(line.0);
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    /// The subscriber is the process's: of what other tests do, lines come in between.
    #[test]
    fn copies_launches_and_allocations_are_told() {
        let lines = Arc::default();
        tracing::subscriber::set_global_default(Lines(Arc::clone(&lines))).unwrap();
        let device = Device::simulator();
        let x = DeviceArray::from_ndarray(device.default_stream(), &ndarray::Array1::<f32>::ones(1777)).unwrap();
        assert_eq!(x.square().unwrap().to_ndarray().unwrap().len(), 1777);
        let lines = lines.lock().unwrap();
        for wanted in [
            "allocate device=\"sim\" bytes=7168",
            "upload device=\"sim\" bytes=7108",
            "download device=\"sim\" bytes=7108",
        ] {
            assert!(lines.iter().any(|line| line == wanted), "{wanted}: {lines:?}");
        }
        let is_launch = |line: &String| {
            line.starts_with("launch device=\"sim\" kernel=\"") && line.contains(" grid=(") && line.contains(" block=(")
        };
        assert!(lines.iter().any(is_launch), "{lines:?}");
    }
}
