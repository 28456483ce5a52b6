// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CUDA driver as a backend, through `cust`.
//!
//! `cust`'s own types serve where they are sound: initialisation, discovery, the primary context. Its streams, events
//! and memory leave hazards open (a constructor that drops NON_BLOCKING, drops that discard errors, no context made
//! current on the calling thread), so for those its raw bindings are called, with the context made current first.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, MutexGuard};

use cuda_driver as _; // provides the functions that `cust` links to
use cuda_sim::{Dim3, LaunchConfig};
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::sys::{self, cudaError_enum as Status};
use miniz_oxide::inflate::decompress_to_vec;

use super::{Backend, KernelInfo, RawEvent, RawStream};
use crate::device::{Properties, PtxModule};
use crate::error::{Error, Result};

/// Shared memory, static and dynamic, that a kernel may have without asking for more.
const SHARED_WITHOUT_OPTIN: usize = 48 << 10;

/// Bytes of stack a thread gets where a kernel calls through pointers.
const STACK_FOR_POINTER_CALLS: usize = 8 << 10;

#[derive(Debug)]
pub(crate) struct Cuda {
    properties: Properties,
    context: Context,
    /// The pool of the stream-ordered allocator; null where the device has none.
    pool: sys::CUmemoryPool,
    modules: Mutex<Modules>,
}

/// What was registered and loaded.
#[derive(Debug, Default)]
struct Modules {
    registered: HashMap<&'static str, &'static [PtxModule]>,
    /// By package and kernel.
    loaded: HashMap<(&'static str, &'static str), (sys::CUmodule, sys::CUfunction)>,
}

// SAFETY: the driver's handles may be used from every thread; all calls make the context current first.
unsafe impl Send for Cuda {}
// SAFETY: as above; the tables are behind a mutex.
unsafe impl Sync for Cuda {}

/// The number of GPUs, or why there is none.
pub(crate) fn count() -> std::result::Result<u32, String> {
    if let Some(reason) = cuda_driver::load_error() {
        return Err(format!("there is no NVIDIA driver: {reason}"));
    }
    cust::init(cust::CudaFlags::empty())
        .and_then(|()| Device::num_devices())
        .map_err(|error| format!("the NVIDIA driver says: {error}"))
}

/// The properties of GPU `ordinal`, without using it.
pub(crate) fn properties(ordinal: u32) -> Result<Properties> {
    let reason = match count() {
        Ok(count) if ordinal < count => return read_properties(ordinal).map_err(|e| missing(ordinal, e.to_string())),
        Ok(0) => "this machine has no GPU".into(),
        Ok(1) => "this machine has one GPU, cuda:0".into(),
        Ok(count) => format!("this machine has {count} GPUs, cuda:0 to cuda:{}", count - 1),
        Err(reason) => reason,
    };
    Err(missing(ordinal, reason))
}

fn missing(ordinal: u32, reason: String) -> Error {
    Error::NoDevice { ordinal, reason }
}

fn read_properties(ordinal: u32) -> cust::error::CudaResult<Properties> {
    use DeviceAttribute as A;
    let device = Device::get_device(ordinal)?;
    let get = |attribute| device.get_attribute(attribute).map(|value| value as u32);
    let version = cust::CudaApiVersion::get()?;
    Ok(Properties {
        id: format!("cuda:{ordinal}"),
        name: device.name()?,
        compute_capability: Some((get(A::ComputeCapabilityMajor)?, get(A::ComputeCapabilityMinor)?)),
        driver_version: Some((version.major() as u32, version.minor() as u32)),
        total_memory: device.total_memory()? as u64,
        multiprocessors: get(A::MultiprocessorCount)?,
        warp_size: get(A::WarpSize)?,
        max_threads_per_block: get(A::MaxThreadsPerBlock)?,
        max_threads_per_multiprocessor: get(A::MaxThreadsPerMultiprocessor)?,
        max_block: Dim3 {
            x: get(A::MaxBlockDimX)?,
            y: get(A::MaxBlockDimY)?,
            z: get(A::MaxBlockDimZ)?,
        },
        max_grid: Dim3 {
            x: get(A::MaxGridDimX)?,
            y: get(A::MaxGridDimY)?,
            z: get(A::MaxGridDimZ)?,
        },
        registers_per_block: Some(get(A::MaxRegistersPerBlock)?),
        shared_memory_per_block: get(A::MaxSharedMemoryPerBlock)?,
        shared_memory_per_block_optin: raw_attribute(
            device,
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        ),
        shared_memory_per_multiprocessor: Some(get(A::MaxSharedMemoryPerMultiprocessor)?),
        constant_memory: Some(get(A::TotalConstantMemory)?),
        l2_cache: Some(get(A::L2CacheSize)?),
        clock_khz: Some(get(A::ClockRate)?),
        memory_clock_khz: Some(get(A::MemoryClockRate)?),
        memory_bus_bits: Some(get(A::GlobalMemoryBusWidth)?),
        copy_engines: Some(get(A::AsyncEngineCount)?),
        ecc: Some(get(A::EccEnabled)? != 0),
        pci: Some((get(A::PciDomainId)?, get(A::PciBusId)?, get(A::PciDeviceId)?)),
    })
}

/// An attribute that `cust` has no name for; 0 where the driver does not know it.
fn raw_attribute(device: Device, attribute: sys::CUdevice_attribute) -> u32 {
    let mut value: c_int = 0;
    // SAFETY: writes one int; the device exists.
    let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device.as_raw()) };
    if status == Status::CUDA_SUCCESS {
        value as u32
    } else {
        0
    }
}

/// The name of a status and what it means.
fn describe(status: Status) -> String {
    let text = |get: unsafe extern "C" fn(Status, *mut *const std::ffi::c_char) -> Status| {
        let mut text = ptr::null();
        // SAFETY: writes a pointer to a string of the driver's, or leaves null.
        unsafe {
            get(status, &mut text);
            if text.is_null() {
                "unknown".into()
            } else {
                CStr::from_ptr(text).to_string_lossy()
            }
        }
    };
    format!("{} ({})", text(sys::cuGetErrorName), text(sys::cuGetErrorString))
}

/// The statuses by which a kernel's failure shows, in whichever call comes next.
fn kernel_failed(status: Status) -> bool {
    matches!(
        status,
        Status::CUDA_ERROR_ASSERT
            | Status::CUDA_ERROR_ILLEGAL_ADDRESS
            | Status::CUDA_ERROR_MISALIGNED_ADDRESS
            | Status::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Status::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Status::CUDA_ERROR_INVALID_PC
            | Status::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Status::CUDA_ERROR_LAUNCH_TIMEOUT
            | Status::CUDA_ERROR_LAUNCH_FAILED
    )
}

fn stream_of(stream: RawStream) -> sys::CUstream {
    ptr::with_exposed_provenance_mut(stream.0 as usize)
}

fn event_of(event: RawEvent) -> sys::CUevent {
    ptr::with_exposed_provenance_mut(event.0 as usize)
}

impl Cuda {
    /// Opens GPU `ordinal`: its primary context, and a memory pool that keeps what is freed.
    pub(crate) fn new(ordinal: u32) -> Result<Self> {
        let properties = properties(ordinal)?;
        let context = Device::get_device(ordinal)
            .and_then(Context::new)
            .map_err(|error| missing(ordinal, format!("its context cannot be created: {error}")))?;
        let mut cuda = Self {
            properties,
            context,
            pool: ptr::null_mut(),
            modules: Mutex::default(),
        };
        cuda.pool = cuda.create_pool(ordinal)?;
        Ok(cuda)
    }

    fn create_pool(&self, ordinal: u32) -> Result<sys::CUmemoryPool> {
        let device = Device::get_device(ordinal).map_err(|error| missing(ordinal, error.to_string()))?;
        let supported = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        if raw_attribute(device, supported) == 0 {
            return Ok(ptr::null_mut());
        }
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: ordinal as c_int,
            },
            win32SecurityAttributes: ptr::null_mut(),
            reserved: [0; 64],
        };
        let mut pool = ptr::null_mut();
        // Without a threshold, every synchronisation would give the memory back to the system.
        let mut threshold = u64::MAX;
        let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: valid structures; the threshold is a u64, as the attribute wants.
        unsafe {
            self.check("cuMemPoolCreate", sys::cuMemPoolCreate(&mut pool, &properties))?;
            let value = (&raw mut threshold).cast();
            self.check(
                "cuMemPoolSetAttribute",
                sys::cuMemPoolSetAttribute(pool, attribute, value),
            )?;
        }
        Ok(pool)
    }

    /// Makes the context current on this thread; every call of the driver needs that.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as `self`.
        self.check("cuCtxSetCurrent", unsafe {
            sys::cuCtxSetCurrent(self.context.as_raw())
        })
    }

    fn check(&self, call: &'static str, status: Status) -> Result<()> {
        match status {
            Status::CUDA_SUCCESS => Ok(()),
            status if kernel_failed(status) => Err(Error::KernelFailed {
                device: self.properties.id.clone(),
                message: describe(status),
            }),
            status => Err(Error::Cuda {
                device: self.properties.id.clone(),
                call,
                message: describe(status),
            }),
        }
    }

    fn modules(&self) -> MutexGuard<'_, Modules> {
        self.modules.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets launches of `function` have so much dynamic shared memory, if that takes more than being launched.
    fn allow_shared(&self, function: sys::CUfunction, dynamic: usize) -> Result<()> {
        use sys::CUfunction_attribute as Attribute;
        let mut fixed = 0;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: a function of this context, and a place for the number.
        let status = unsafe { sys::cuFuncGetAttribute(&raw mut fixed, attribute, function) };
        self.check("cuFuncGetAttribute", status)?;
        if dynamic + fixed as usize <= SHARED_WITHOUT_OPTIN {
            return Ok(());
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of this context.
        let status = unsafe { sys::cuFuncSetAttribute(function, attribute, dynamic as c_int) };
        self.check("cuFuncSetAttribute", status)
    }

    /// The kernel's function; its module is loaded on first use.
    fn function(&self, kernel: &KernelInfo) -> Result<sys::CUfunction> {
        let mut modules = self.modules();
        if let Some(&(_, function)) = modules.loaded.get(&(kernel.package, kernel.name)) {
            return Ok(function);
        }
        let module = self.load(kernel, modules.registered.get(kernel.package).copied().unwrap_or(&[]))?;
        let name = CString::new(kernel.name).unwrap_or_default(); // an identifier, so without a zero byte
        let mut function = ptr::null_mut();
        // SAFETY: a loaded module and a zero-terminated name.
        let status = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", status)?;
        modules.loaded.insert((kernel.package, kernel.name), (module, function));
        Ok(function)
    }

    /// Loads the kernel's module: the best of those registered that this GPU can run.
    fn load(&self, kernel: &KernelInfo, registered: &[PtxModule]) -> Result<sys::CUmodule> {
        let capability = self.properties.compute_capability.unwrap_or_default();
        let candidates = registered.iter().filter(|(module, _, _)| *module == kernel.name);
        let (_, _, packed) = candidates
            .filter_map(|module| Some((target_rank(module.1, capability)?, module)))
            .max_by_key(|(rank, _)| *rank)
            .map(|(_, module)| *module)
            .ok_or(Error::NoModule {
                kernel: kernel.name,
                package: kernel.package,
            })?;
        let failed = |message| Error::Module {
            kernel: kernel.name,
            package: kernel.package,
            message,
        };
        let ptx = decompress_to_vec(packed).map_err(|error| failed(error.to_string()))?;
        self.reserve_stack(&ptx)?;
        let ptx = CString::new(ptx).map_err(|error| failed(error.to_string()))?;
        let mut log = vec![0u8; 8192];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            ptr::without_provenance_mut(log.len()),
        ];
        let mut module = ptr::null_mut();
        // SAFETY: zero-terminated PTX, two options and their two values, a buffer of the size that is said.
        let status = unsafe {
            sys::cuModuleLoadDataEx(
                &mut module,
                ptx.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if status != Status::CUDA_SUCCESS {
            let end = log.iter().position(|&byte| byte == 0).unwrap_or(0);
            let log = String::from_utf8_lossy(&log[..end]);
            return Err(failed(format!("{} {}", describe(status), log.trim())));
        }
        Ok(module)
    }

    /// Whether the driver knows this host memory as page-locked, so that a copy from it does not wait.
    fn is_page_locked(&self, host: *const u8) -> bool {
        let mut kind = 0u32; // stays 0 for memory that the driver does not know
        let mut attributes = [sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE];
        let mut values = [(&raw mut kind).cast::<c_void>()];
        let address = host.addr() as sys::CUdeviceptr;
        // SAFETY: one attribute, whose value is one u32; any address may be asked about.
        let status = unsafe { sys::cuPointerGetAttributes(1, attributes.as_mut_ptr(), values.as_mut_ptr(), address) };
        status == Status::CUDA_SUCCESS && kind != 0
    }

    /// Gives threads a larger stack if a kernel calls through pointers, as Rust's formatter does: how much that needs,
    /// the assembler cannot tell, and the driver's default of 1 KiB is not enough for it.
    fn reserve_stack(&self, ptx: &[u8]) -> Result<()> {
        let mark = b".callprototype";
        if !ptx.windows(mark.len()).any(|bytes| bytes == mark) {
            return Ok(());
        }
        let limit = sys::CUlimit::CU_LIMIT_STACK_SIZE;
        let mut bytes = 0;
        // SAFETY: writes one size; then sets the limit of this context.
        unsafe {
            self.check("cuCtxGetLimit", sys::cuCtxGetLimit(&mut bytes, limit))?;
            if bytes < STACK_FOR_POINTER_CALLS {
                self.check("cuCtxSetLimit", sys::cuCtxSetLimit(limit, STACK_FOR_POINTER_CALLS))?;
            }
        }
        Ok(())
    }

    fn out_of_memory(&self, wanted: usize) -> Error {
        Error::OutOfMemory {
            device: self.properties.id.clone(),
            wanted: wanted as u64,
            free: self.free_memory().unwrap_or(0),
            total: self.properties.total_memory,
        }
    }
}

/// How well PTX for `target` ("sm_75", "sm_90a") suits a GPU; `None` where it cannot run. PTX for a plain target runs
/// on every later GPU, PTX for an architecture's own features (`a`) on that one alone.
fn target_rank(target: &str, (major, minor): (u32, u32)) -> Option<(u32, bool)> {
    let capability = major * 10 + minor;
    let number = target.strip_prefix("sm_")?;
    match number.strip_suffix('a') {
        Some(number) => (number.parse::<u32>().ok()? == capability).then_some((capability, true)),
        None => number
            .parse::<u32>()
            .ok()
            .filter(|&number| number <= capability)
            .map(|number| (number, false)),
    }
}

impl Backend for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn free_memory(&self) -> Result<u64> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        self.check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn register_kernels(&self, package: &'static str, modules: &'static [PtxModule]) {
        self.modules().registered.insert(package, modules);
    }

    fn create_stream(&self) -> Result<RawStream> {
        self.enter()?;
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes a handle.
        self.check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        Ok(RawStream(stream.expose_provenance() as u64))
    }

    unsafe fn destroy_stream(&self, stream: RawStream) {
        if self.enter().is_ok() {
            // SAFETY: the trait's contract. The driver finishes the stream's work first; an error would be one of
            // that work, and shows in the next call.
            unsafe { sys::cuStreamDestroy_v2(stream_of(stream)) };
        }
    }

    unsafe fn synchronize(&self, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuStreamSynchronize", unsafe {
            sys::cuStreamSynchronize(stream_of(stream))
        })
    }

    fn create_event(&self, timed: bool) -> Result<RawEvent> {
        self.enter()?;
        let mut event = ptr::null_mut();
        let flags = if timed {
            0
        } else {
            sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32
        };
        // SAFETY: writes a handle.
        self.check("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, flags) })?;
        Ok(RawEvent(event.expose_provenance() as u64))
    }

    unsafe fn destroy_event(&self, event: RawEvent) {
        if self.enter().is_ok() {
            // SAFETY: the trait's contract; work that waits for the event still does.
            unsafe { sys::cuEventDestroy_v2(event_of(event)) };
        }
    }

    unsafe fn record(&self, event: RawEvent, stream: RawStream) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuEventRecord", unsafe {
            sys::cuEventRecord(event_of(event), stream_of(stream))
        })
    }

    unsafe fn wait(&self, stream: RawStream, event: RawEvent) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(stream_of(stream), event_of(event), 0)
        })
    }

    unsafe fn synchronize_event(&self, event: RawEvent) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract.
        self.check("cuEventSynchronize", unsafe {
            sys::cuEventSynchronize(event_of(event))
        })
    }

    unsafe fn elapsed_ms(&self, start: RawEvent, end: RawEvent) -> Result<f32> {
        self.enter()?;
        let mut ms = 0.0;
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuEventElapsedTime(&mut ms, event_of(start), event_of(end)) };
        self.check("cuEventElapsedTime", status)?;
        Ok(ms)
    }

    unsafe fn allocate(&self, stream: RawStream, bytes: usize) -> Result<u64> {
        self.enter()?;
        if bytes as u64 > self.properties.total_memory {
            return Err(self.out_of_memory(bytes));
        }
        let mut address = 0;
        // SAFETY: the trait's contract; writes an address.
        let status = unsafe {
            if self.pool.is_null() {
                sys::cuMemAlloc_v2(&mut address, bytes)
            } else {
                sys::cuMemAllocFromPoolAsync(&mut address, bytes, self.pool, stream_of(stream))
            }
        };
        if status == Status::CUDA_ERROR_OUT_OF_MEMORY {
            return Err(self.out_of_memory(bytes));
        }
        self.check("cuMemAllocFromPoolAsync", status)?;
        Ok(address)
    }

    unsafe fn free(&self, stream: RawStream, address: u64) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract. `cuMemFree` waits for the device, so no work uses the memory any more.
        let status = unsafe {
            if self.pool.is_null() {
                sys::cuMemFree_v2(address)
            } else {
                sys::cuMemFreeAsync(address, stream_of(stream))
            }
        };
        self.check("cuMemFreeAsync", status)
    }

    unsafe fn upload(&self, stream: RawStream, to: u64, from: &[u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract. From pageable memory the driver has read all when the call returns; from
        // page-locked memory it has not, so that is waited for.
        let status = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), from.len(), stream_of(stream)) };
        self.check("cuMemcpyHtoDAsync", status)?;
        if self.is_page_locked(from.as_ptr()) {
            // SAFETY: the trait's contract.
            unsafe { self.synchronize(stream)? };
        }
        Ok(())
    }

    unsafe fn download(&self, stream: RawStream, to: *mut u8, from: u64, bytes: usize) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract; the copy is waited for before the return.
        unsafe {
            let status = sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream_of(stream));
            let copied = self.check("cuMemcpyDtoHAsync", status);
            self.synchronize(stream)?;
            copied
        }
    }

    unsafe fn copy(&self, stream: RawStream, to: u64, from: u64, bytes: usize) -> Result<()> {
        self.enter()?;
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream_of(stream)) };
        self.check("cuMemcpyDtoDAsync", status)
    }

    unsafe fn fill_zero(&self, stream: RawStream, address: u64, bytes: usize) -> Result<()> {
        self.enter()?;
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
        self.enter()?;
        let function = self.function(kernel)?;
        if config.dynamic_shared > 0 {
            self.allow_shared(function, config.dynamic_shared)?;
        }
        let (grid, block) = (config.grid, config.block);
        // SAFETY: the trait's contract: the parameters are those of the function; the driver copies them.
        let status = unsafe {
            sys::cuLaunchKernel(
                function,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                config.dynamic_shared as u32,
                stream_of(stream),
                params.as_mut_ptr().cast(),
                ptr::null_mut(),
            )
        };
        self.check("cuLaunchKernel", status)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        if self.enter().is_err() {
            return;
        }
        let modules = std::mem::take(&mut *self.modules());
        // SAFETY: nothing uses the modules and the pool any more: streams and arrays keep the backend alive. Errors
        // would be those of earlier work, which was waited for or given up.
        unsafe {
            for (module, _) in modules.loaded.into_values() {
                sys::cuModuleUnload(module);
            }
            if !self.pool.is_null() {
                sys::cuMemPoolDestroy(self.pool);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::target_rank;

    #[test]
    fn the_best_target_that_runs_is_taken() {
        assert_eq!(target_rank("sm_75", (9, 0)), Some((75, false)));
        assert_eq!(target_rank("sm_80", (7, 5)), None);
        assert_eq!(target_rank("sm_90a", (9, 0)), Some((90, true)));
        assert_eq!(target_rank("sm_90a", (10, 0)), None);
        assert!(target_rank("sm_90a", (9, 0)) > target_rank("sm_90", (9, 0)));
        assert!(target_rank("sm_90", (9, 0)) > target_rank("sm_80", (9, 0)));
        assert_eq!(target_rank("compute_75", (9, 0)), None);
    }
}
