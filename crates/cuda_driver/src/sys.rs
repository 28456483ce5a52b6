// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's functions that Warpsmith calls, declared so that no answer of any driver is undefined behaviour.
//!
//! The driver's C functions return an `enum` that grows with every release. Bindings that declare it as a Rust `enum`,
//! as `cust_raw` does, promise the compiler that no other value comes back, and a newer driver breaks the promise. Here
//! every result is a [`Status`], and every option of an `enum` type is an integer with named constants, so that any
//! number is a value. Names, parameters and their order are those of cuda.h; a test holds them against `cust_raw`'s.
//!
//! All functions are safe to call as far as Rust's types go only with arguments as the CUDA driver API reference wants
//! them; its text is their contract.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

/// Integers with named values, as the driver's `enum` types are.
macro_rules! integers {
    ($(#[doc = $about:literal] $type:ident { $($name:ident = $value:literal,)* })*) => {$(
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $type(pub c_int);

        #[allow(missing_docs, reason = "the constants are cuda.h's, by their names there")]
        impl $type {
            $(pub const $name: Self = Self($value);)*
        }
    )*};
}

integers! {
    /// What a call returns (`CUresult`). Drivers return numbers that are not listed here.
    Status {
        SUCCESS = 0,
        INVALID_VALUE = 1,
        OUT_OF_MEMORY = 2,
        NOT_INITIALIZED = 3,
        NO_DEVICE = 100,
        ECC_UNCORRECTABLE = 214,
        NVLINK_UNCORRECTABLE = 220,
        UNSUPPORTED_PTX_VERSION = 222,
        CONTAINED = 226,
        SHARED_OBJECT_INIT_FAILED = 303,
        NOT_FOUND = 500,
        NOT_READY = 600,
        ILLEGAL_ADDRESS = 700,
        LAUNCH_OUT_OF_RESOURCES = 701,
        LAUNCH_TIMEOUT = 702,
        CONTEXT_IS_DESTROYED = 709,
        ASSERT = 710,
        HARDWARE_STACK_ERROR = 714,
        ILLEGAL_INSTRUCTION = 715,
        MISALIGNED_ADDRESS = 716,
        INVALID_ADDRESS_SPACE = 717,
        INVALID_PC = 718,
        LAUNCH_FAILED = 719,
        COOPERATIVE_LAUNCH_TOO_LARGE = 720,
        TENSOR_MEMORY_LEAK = 721,
        NOT_SUPPORTED = 801,
        MPS_CLIENT_TERMINATED = 810,
        GRAPH_EXEC_UPDATE_FAILURE = 910,
        EXTERNAL_DEVICE = 911,
    }

    /// What can be asked of a device (`CUdevice_attribute`).
    DeviceAttribute {
        MAX_THREADS_PER_BLOCK = 1,
        MAX_BLOCK_DIM_X = 2,
        MAX_BLOCK_DIM_Y = 3,
        MAX_BLOCK_DIM_Z = 4,
        MAX_GRID_DIM_X = 5,
        MAX_GRID_DIM_Y = 6,
        MAX_GRID_DIM_Z = 7,
        MAX_SHARED_MEMORY_PER_BLOCK = 8,
        TOTAL_CONSTANT_MEMORY = 9,
        WARP_SIZE = 10,
        MAX_REGISTERS_PER_BLOCK = 12,
        CLOCK_RATE = 13,
        MULTIPROCESSOR_COUNT = 16,
        ECC_ENABLED = 32,
        PCI_BUS_ID = 33,
        PCI_DEVICE_ID = 34,
        MEMORY_CLOCK_RATE = 36,
        GLOBAL_MEMORY_BUS_WIDTH = 37,
        L2_CACHE_SIZE = 38,
        MAX_THREADS_PER_MULTIPROCESSOR = 39,
        ASYNC_ENGINE_COUNT = 40,
        PCI_DOMAIN_ID = 50,
        COMPUTE_CAPABILITY_MAJOR = 75,
        COMPUTE_CAPABILITY_MINOR = 76,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
        MEMORY_POOLS_SUPPORTED = 115,
    }

    /// What can be asked and told of a function (`CUfunction_attribute`).
    FunctionAttribute {
        MAX_THREADS_PER_BLOCK = 0,
        SHARED_SIZE_BYTES = 1,
        NUM_REGS = 4,
        MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    }

    /// An option of the PTX compiler (`CUjit_option`).
    JitOption {
        ERROR_LOG_BUFFER = 5,
        ERROR_LOG_BUFFER_SIZE_BYTES = 6,
    }

    /// A limit of a context (`CUlimit`).
    Limit {
        STACK_SIZE = 0,
    }

    /// What can be told of a memory pool (`CUmemPool_attribute`).
    PoolAttribute {
        RELEASE_THRESHOLD = 4,
        RESERVED_MEM_CURRENT = 5,
    }

    /// How a pool's memory is allocated (`CUmemAllocationType`).
    AllocationType {
        PINNED = 1,
    }

    /// How a pool's memory can be given to other processes (`CUmemAllocationHandleType`).
    HandleType {
        NONE = 0,
    }

    /// Where a pool's memory is (`CUmemLocationType`).
    LocationType {
        DEVICE = 1,
    }

    /// What a device may do with a pool's memory (`CUmemAccess_flags`).
    AccessFlags {
        READWRITE = 3,
    }

    /// Whether a stream's work is recorded for a graph (`CUstreamCaptureStatus`).
    CaptureStatus {
        NONE = 0,
    }

    /// What can be told of a launch in a graph (`CUkernelNodeAttrID`).
    KernelNodeAttribute {
        COOPERATIVE = 2,
        CLUSTER_DIMENSION = 4,
    }

    /// What kind of memory a copy reads or writes (`CUmemorytype`).
    MemoryType {
        DEVICE = 2,
    }
}

/// A stream that does not wait for the null stream; a flag of [`cuStreamCreateWithPriority`].
pub const CU_STREAM_NON_BLOCKING: c_uint = 1;

/// An event without a time; a flag of [`cuEventCreate`].
pub const CU_EVENT_DISABLE_TIMING: c_uint = 2;

/// Memory that the device can reach; a flag of [`cuMemHostRegister_v2`].
pub const CU_MEMHOSTREGISTER_DEVICEMAP: c_uint = 2;

/// Memory that kernels use by its address on the host; a flag of [`cuMemHostAlloc`].
pub const CU_MEMHOSTALLOC_DEVICEMAP: c_uint = 2;

/// For [`cuPointerGetAttribute`]: a [`CUdevice`], that of the memory.
pub const CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: c_uint = 9;

/// Pointers to what only the driver knows the inside of.
macro_rules! handles {
    ($(#[doc = $about:literal] $name:ident -> $pointee:ident;)*) => {$(
        #[doc = concat!("What a [`", stringify!($name), "`] points to.")]
        #[derive(Debug)]
        #[repr(C)]
        pub struct $pointee {
            _opaque: [u8; 0],
        }

        #[doc = $about]
        pub type $name = *mut $pointee;
    )*};
}

handles! {
    /// A context: a process's use of a GPU.
    CUcontext -> OpaqueContext;
    /// A module: loaded code.
    CUmodule -> OpaqueModule;
    /// A function of a module: a kernel.
    CUfunction -> OpaqueFunction;
    /// A stream.
    CUstream -> OpaqueStream;
    /// An event.
    CUevent -> OpaqueEvent;
    /// A pool of the stream-ordered allocator.
    CUmemoryPool -> OpaquePool;
    /// A graph: work that is described.
    CUgraph -> OpaqueGraph;
    /// A piece of a graph's work.
    CUgraphNode -> OpaqueGraphNode;
    /// A graph that can be launched.
    CUgraphExec -> OpaqueGraphExec;
}

/// A GPU, by the driver's number.
pub type CUdevice = c_int;

/// An address in device memory.
pub type CUdeviceptr = u64;

/// A function that a stream calls on the host.
pub type CUhostFn = Option<unsafe extern "C" fn(data: *mut c_void)>;

/// Tells how much dynamic shared memory a block of that size takes.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(block_size: c_int) -> usize>;

/// Where memory is (`CUmemLocation`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUmemLocation {
    /// The kind of place.
    pub kind: LocationType,
    /// Which one of that kind.
    pub id: c_int,
}

/// What a memory pool is to be (`CUmemPoolProps`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUmemPoolProps {
    /// How memory is allocated.
    pub alloc_type: AllocationType,
    /// How memory can be given to other processes.
    pub handle_types: HandleType,
    /// Where memory is.
    pub location: CUmemLocation,
    /// For Windows; null.
    pub win32_security_attributes: *mut c_void,
    /// Zeros; later drivers have given some of them meanings, for which 0 is the default.
    pub reserved: [c_uchar; 64],
}

/// Who may do what with a pool's memory (`CUmemAccessDesc`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CUmemAccessDesc {
    /// Who.
    pub location: CUmemLocation,
    /// What.
    pub flags: AccessFlags,
}

/// A launch as a graph has it (`CUDA_KERNEL_NODE_PARAMS`, the first version).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CudaKernelNodeParams {
    /// The kernel.
    pub function: CUfunction,
    /// Blocks along each axis.
    pub grid: [c_uint; 3],
    /// Threads of a block along each axis.
    pub block: [c_uint; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The addresses of the parameters, which are read when the node is made.
    pub params: *mut *mut c_void,
    /// Another way to give them; null.
    pub extra: *mut *mut c_void,
}

/// What is told of a launch in a graph (`CUkernelNodeAttrValue`, as large as later drivers have it).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct CUkernelNodeAttrValue {
    /// Whether all blocks run at a time, 1 or 0; or the extents of a cluster along x, y and z, in blocks. Zeros behind that: room for
    /// the values of other attributes.
    pub words: [c_uint; 16],
}

/// Memory that a graph sets (`CUDA_MEMSET_NODE_PARAMS`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CudaMemsetNodeParams {
    /// Where it begins.
    pub to: CUdeviceptr,
    /// The distance of two rows; not read for one row.
    pub pitch: usize,
    /// What it is set to.
    pub value: c_uint,
    /// The bytes of an element: 1, 2 or 4.
    pub element_size: c_uint,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// One side of a copy, in [`CudaMemcpy3d`]; of memory of a device the address alone is read, and where it begins there.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CudaMemcpy3dSide {
    /// The first byte of a row.
    pub x_in_bytes: usize,
    /// The first row.
    pub y: usize,
    /// The first slice.
    pub z: usize,
    /// 0.
    pub lod: usize,
    /// Which of the next three is read.
    pub memory_type: MemoryType,
    /// An address of the host's.
    pub host: *mut c_void,
    /// An address of the device's.
    pub device: CUdeviceptr,
    /// An array of the driver's.
    pub array: *mut c_void,
    /// Null.
    pub reserved: *mut c_void,
    /// The distance of two rows; not read for one row.
    pub pitch: usize,
    /// The distance of two slices, in rows; not read for one slice.
    pub height: usize,
}

/// A copy (`CUDA_MEMCPY3D`).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CudaMemcpy3d {
    /// What is read.
    pub from: CudaMemcpy3dSide,
    /// What is written.
    pub to: CudaMemcpy3dSide,
    /// Bytes of a row.
    pub width_in_bytes: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

#[allow(
    missing_docs,
    reason = "the CUDA driver API reference documents them, under the same names"
)]
#[allow(non_snake_case, reason = "the names of the driver's symbols")]
unsafe extern "C" {
    pub fn cuGetErrorName(error: Status, name: *mut *const c_char) -> Status;
    pub fn cuGetErrorString(error: Status, text: *mut *const c_char) -> Status;

    pub fn cuInit(flags: c_uint) -> Status;
    pub fn cuDriverGetVersion(version: *mut c_int) -> Status;
    pub fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64) -> Status;

    pub fn cuDeviceGetCount(count: *mut c_int) -> Status;
    pub fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> Status;
    pub fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice) -> Status;
    pub fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> Status;
    pub fn cuDeviceGetAttribute(value: *mut c_int, attribute: DeviceAttribute, device: CUdevice) -> Status;
    pub fn cuDeviceCanAccessPeer(can: *mut c_int, device: CUdevice, peer: CUdevice) -> Status;

    pub fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> Status;
    pub fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> Status;
    pub fn cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int) -> Status;
    pub fn cuDevicePrimaryCtxReset_v2(device: CUdevice) -> Status;
    pub fn cuCtxGetCurrent(context: *mut CUcontext) -> Status;
    pub fn cuCtxSetCurrent(context: CUcontext) -> Status;
    pub fn cuCtxPushCurrent_v2(context: CUcontext) -> Status;
    pub fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> Status;
    pub fn cuCtxSynchronize() -> Status;
    pub fn cuCtxGetStreamPriorityRange(last: *mut c_int, first: *mut c_int) -> Status;
    pub fn cuCtxGetLimit(value: *mut usize, limit: Limit) -> Status;
    pub fn cuCtxSetLimit(limit: Limit, value: usize) -> Status;

    pub fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        options: *mut JitOption,
        values: *mut *mut c_void,
    ) -> Status;
    pub fn cuModuleUnload(module: CUmodule) -> Status;
    pub fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> Status;
    pub fn cuModuleGetGlobal_v2(
        address: *mut CUdeviceptr,
        bytes: *mut usize,
        module: CUmodule,
        name: *const c_char,
    ) -> Status;
    pub fn cuFuncGetAttribute(value: *mut c_int, attribute: FunctionAttribute, function: CUfunction) -> Status;
    pub fn cuFuncSetAttribute(function: CUfunction, attribute: FunctionAttribute, value: c_int) -> Status;
    pub fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Status;

    pub fn cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        params: *mut *mut c_void,
    ) -> Status;

    pub fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: CUfunction,
        block_size: c_int,
        dynamic_shared: usize,
    ) -> Status;
    pub fn cuOccupancyMaxPotentialBlockSize(
        min_grid_size: *mut c_int,
        block_size: *mut c_int,
        function: CUfunction,
        dynamic_shared_for: CUoccupancyB2DSize,
        dynamic_shared: usize,
        block_size_limit: c_int,
    ) -> Status;

    pub fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, priority: c_int) -> Status;
    pub fn cuStreamDestroy_v2(stream: CUstream) -> Status;
    pub fn cuStreamGetCtx(stream: CUstream, context: *mut CUcontext) -> Status;
    pub fn cuStreamIsCapturing(stream: CUstream, status: *mut CaptureStatus) -> Status;
    pub fn cuStreamQuery(stream: CUstream) -> Status;
    pub fn cuStreamSynchronize(stream: CUstream) -> Status;
    pub fn cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void) -> Status;
    pub fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> Status;

    pub fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> Status;
    pub fn cuEventDestroy_v2(event: CUevent) -> Status;
    pub fn cuEventRecord(event: CUevent, stream: CUstream) -> Status;
    pub fn cuEventQuery(event: CUevent) -> Status;
    pub fn cuEventSynchronize(event: CUevent) -> Status;
    pub fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> Status;

    pub fn cuPointerGetAttribute(data: *mut c_void, attribute: c_uint, address: CUdeviceptr) -> Status;
    pub fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Status;
    pub fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> Status;
    pub fn cuMemFree_v2(address: CUdeviceptr) -> Status;
    pub fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> Status;
    pub fn cuMemFreeHost(memory: *mut c_void) -> Status;
    pub fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint) -> Status;
    pub fn cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint) -> Status;
    pub fn cuMemHostUnregister(memory: *mut c_void) -> Status;
    pub fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    ) -> Status;
    pub fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> Status;
    pub fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) -> Status;
    pub fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: PoolAttribute, value: *mut c_void) -> Status;
    pub fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: PoolAttribute, value: *mut c_void) -> Status;
    pub fn cuMemPoolSetAccess(pool: CUmemoryPool, access: *const CUmemAccessDesc, count: usize) -> Status;
    pub fn cuMemPoolTrimTo(pool: CUmemoryPool, bytes: usize) -> Status;
    pub fn cuMemPoolDestroy(pool: CUmemoryPool) -> Status;

    pub fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) -> Status;
    pub fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> Status;
    pub fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> Status;
    pub fn cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) -> Status;
    pub fn cuMemcpyPeerAsync(
        to: CUdeviceptr,
        to_context: CUcontext,
        from: CUdeviceptr,
        from_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    ) -> Status;
    pub fn cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream) -> Status;

    pub fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) -> Status;
    pub fn cuGraphDestroy(graph: CUgraph) -> Status;
    pub fn cuGraphAddKernelNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CudaKernelNodeParams,
    ) -> Status;
    pub fn cuGraphKernelNodeSetAttribute(
        node: CUgraphNode,
        attribute: KernelNodeAttribute,
        value: *const CUkernelNodeAttrValue,
    ) -> Status;
    pub fn cuGraphAddMemcpyNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CudaMemcpy3d,
        context: CUcontext,
    ) -> Status;
    pub fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode,
        graph: CUgraph,
        after: *const CUgraphNode,
        count: usize,
        params: *const CudaMemsetNodeParams,
        context: CUcontext,
    ) -> Status;
    pub fn cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: u64) -> Status;
    pub fn cuGraphExecUpdate(
        exec: CUgraphExec,
        graph: CUgraph,
        error_node: *mut CUgraphNode,
        result: *mut c_int,
    ) -> Status;
    pub fn cuGraphExecDestroy(exec: CUgraphExec) -> Status;
    pub fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> Status;
}

impl Status {
    /// Whether the call did what it was to do.
    pub fn is_success(self) -> bool {
        self == Self::SUCCESS
    }
}

/// The error's name, its number, and what it means, in the driver's words:
/// `CUDA_ERROR_OUT_OF_MEMORY (2: out of memory)`.
///
/// Of a number that the driver does not know itself, `error 912, which the driver has no name for`.
impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.words(cuGetErrorName), self.words(cuGetErrorString)) {
            (Some(name), Some(text)) => write!(f, "{name} ({}: {text})", self.0),
            (Some(name), None) => write!(f, "{name} ({})", self.0),
            (None, Some(text)) => write!(f, "error {} ({text})", self.0),
            (None, None) => write!(f, "error {}, which the driver has no name for", self.0),
        }
    }
}

impl Status {
    /// What `get`, one of the driver's two functions that describe statuses, says of this one.
    fn words(self, get: unsafe extern "C" fn(Self, *mut *const c_char) -> Self) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: both functions take any number and a place for a pointer, and can be called before `cuInit`.
        let status = unsafe { get(self, &mut text) };
        if !status.is_success() || text.is_null() {
            return None;
        }
        // SAFETY: on success the driver has written the address of a string of its own, which stays.
        Some(unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
