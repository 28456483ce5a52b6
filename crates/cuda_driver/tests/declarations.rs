// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cuda_driver::sys` against the declarations that bindgen made from cuda.h for `cust_raw`: as many parameters of the
//! same sizes, the same numbers, the same layouts.

use cuda_driver::sys;
use cust::sys as raw;

/// The sizes of a C function's result and parameters.
trait Sizes {
    fn sizes(&self) -> Vec<usize>;
}

macro_rules! sizes {
    ($($param:ident)*) => {
        impl<Out $(, $param)*> Sizes for unsafe extern "C" fn($($param),*) -> Out {
            fn sizes(&self) -> Vec<usize> {
                vec![size_of::<Out>(), $(size_of::<$param>()),*]
            }
        }
    };
}
sizes!();
sizes!(A);
sizes!(A B);
sizes!(A B C);
sizes!(A B C D);
sizes!(A B C D E);
sizes!(A B C D E F);
sizes!(A B C D E F G H I J);
sizes!(A B C D E F G H I J K);

#[test]
fn functions_take_what_cuda_h_says() {
    macro_rules! compare {
        ($($name:ident($($_:ident)*);)*) => {$(
            let here = sys::$name as unsafe extern "C" fn($(compare!(@any $_)),*) -> _;
            let there = raw::$name as unsafe extern "C" fn($(compare!(@any $_)),*) -> _;
            assert_eq!(here.sizes(), there.sizes(), stringify!($name));
            assert_eq!(here as *const (), there as *const (), stringify!($name));
        )*};
        (@any $_:ident) => { _ };
    }
    compare! {
        cuGetErrorName(a b);
        cuGetErrorString(a b);
        cuInit(a);
        cuDriverGetVersion(a);
        cuGetProcAddress(a b c d);
        cuDeviceGetCount(a);
        cuDeviceGet(a b);
        cuDeviceGetName(a b c);
        cuDeviceTotalMem_v2(a b);
        cuDeviceGetAttribute(a b c);
        cuDeviceCanAccessPeer(a b c);
        cuDevicePrimaryCtxRetain(a b);
        cuDevicePrimaryCtxRelease_v2(a);
        cuDevicePrimaryCtxGetState(a b c);
        cuDevicePrimaryCtxReset_v2(a);
        cuCtxGetCurrent(a);
        cuCtxSetCurrent(a);
        cuCtxPushCurrent_v2(a);
        cuCtxPopCurrent_v2(a);
        cuCtxSynchronize();
        cuCtxGetStreamPriorityRange(a b);
        cuCtxGetLimit(a b);
        cuCtxSetLimit(a b);
        cuModuleLoadDataEx(a b c d e);
        cuModuleUnload(a);
        cuModuleGetFunction(a b c);
        cuModuleGetGlobal_v2(a b c d);
        cuFuncGetAttribute(a b c);
        cuFuncSetAttribute(a b c);
        cuLaunchKernel(a b c d e f g h i j k);
        cuLaunchCooperativeKernel(a b c d e f g h i j);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(a b c d);
        cuOccupancyMaxPotentialBlockSize(a b c d e f);
        cuStreamCreateWithPriority(a b c);
        cuStreamDestroy_v2(a);
        cuStreamGetCtx(a b);
        cuStreamIsCapturing(a b);
        cuStreamQuery(a);
        cuStreamSynchronize(a);
        cuLaunchHostFunc(a b c);
        cuStreamWaitEvent(a b c);
        cuEventCreate(a b);
        cuEventDestroy_v2(a);
        cuEventRecord(a b);
        cuEventQuery(a);
        cuEventSynchronize(a);
        cuEventElapsedTime(a b c);
        cuPointerGetAttribute(a b c);
        cuMemGetInfo_v2(a b);
        cuMemAlloc_v2(a b);
        cuMemFree_v2(a);
        cuMemHostAlloc(a b c);
        cuMemFreeHost(a);
        cuMemHostRegister_v2(a b c);
        cuMemHostGetDevicePointer_v2(a b c);
        cuMemHostUnregister(a);
        cuMemAllocFromPoolAsync(a b c d);
        cuMemFreeAsync(a b);
        cuMemPoolCreate(a b);
        cuMemPoolSetAttribute(a b c);
        cuMemPoolGetAttribute(a b c);
        cuMemPoolSetAccess(a b c);
        cuMemPoolTrimTo(a b);
        cuMemPoolDestroy(a);
        cuMemcpyHtoD_v2(a b c);
        cuMemcpyHtoDAsync_v2(a b c d);
        cuMemcpyDtoHAsync_v2(a b c d);
        cuMemcpyDtoDAsync_v2(a b c d);
        cuMemcpyPeerAsync(a b c d e f);
        cuMemsetD8Async(a b c d);
        cuGraphCreate(a b);
        cuGraphDestroy(a);
        cuGraphAddKernelNode(a b c d e);
        cuGraphKernelNodeSetAttribute(a b c);
        cuGraphAddMemcpyNode(a b c d e f);
        cuGraphAddMemsetNode(a b c d e f);
        cuGraphInstantiateWithFlags(a b c);
        cuGraphExecUpdate(a b c d);
        cuGraphExecDestroy(a);
        cuGraphLaunch(a b);
    }
}

#[test]
fn numbers_are_those_of_cuda_h() {
    macro_rules! compare {
        ($($here:ident, $there:ident, $prefix:literal: $($name:ident = $full:ident)*;)*) => {$($(
            assert_eq!(stringify!($full), concat!($prefix, stringify!($name)));
            assert_eq!(sys::$here::$name.0, raw::$there::$full as i32, stringify!($full));
        )*)*};
    }
    compare! {
        Status, cudaError_enum, "CUDA_ERROR_":
            INVALID_VALUE = CUDA_ERROR_INVALID_VALUE
            OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY
            NOT_INITIALIZED = CUDA_ERROR_NOT_INITIALIZED
            NO_DEVICE = CUDA_ERROR_NO_DEVICE
            ECC_UNCORRECTABLE = CUDA_ERROR_ECC_UNCORRECTABLE
            NVLINK_UNCORRECTABLE = CUDA_ERROR_NVLINK_UNCORRECTABLE
            UNSUPPORTED_PTX_VERSION = CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            SHARED_OBJECT_INIT_FAILED = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
            NOT_FOUND = CUDA_ERROR_NOT_FOUND
            NOT_READY = CUDA_ERROR_NOT_READY
            ILLEGAL_ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS
            LAUNCH_OUT_OF_RESOURCES = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
            LAUNCH_TIMEOUT = CUDA_ERROR_LAUNCH_TIMEOUT
            CONTEXT_IS_DESTROYED = CUDA_ERROR_CONTEXT_IS_DESTROYED
            ASSERT = CUDA_ERROR_ASSERT
            HARDWARE_STACK_ERROR = CUDA_ERROR_HARDWARE_STACK_ERROR
            ILLEGAL_INSTRUCTION = CUDA_ERROR_ILLEGAL_INSTRUCTION
            MISALIGNED_ADDRESS = CUDA_ERROR_MISALIGNED_ADDRESS
            INVALID_ADDRESS_SPACE = CUDA_ERROR_INVALID_ADDRESS_SPACE
            INVALID_PC = CUDA_ERROR_INVALID_PC
            LAUNCH_FAILED = CUDA_ERROR_LAUNCH_FAILED
            COOPERATIVE_LAUNCH_TOO_LARGE = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
            NOT_SUPPORTED = CUDA_ERROR_NOT_SUPPORTED
            EXTERNAL_DEVICE = CUDA_ERROR_EXTERNAL_DEVICE
            GRAPH_EXEC_UPDATE_FAILURE = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        DeviceAttribute, CUdevice_attribute_enum, "CU_DEVICE_ATTRIBUTE_":
            MAX_THREADS_PER_BLOCK = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
            MAX_BLOCK_DIM_X = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X
            MAX_BLOCK_DIM_Y = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y
            MAX_BLOCK_DIM_Z = CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z
            MAX_GRID_DIM_X = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X
            MAX_GRID_DIM_Y = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y
            MAX_GRID_DIM_Z = CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z
            MAX_SHARED_MEMORY_PER_BLOCK = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK
            TOTAL_CONSTANT_MEMORY = CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY
            WARP_SIZE = CU_DEVICE_ATTRIBUTE_WARP_SIZE
            MAX_REGISTERS_PER_BLOCK = CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK
            CLOCK_RATE = CU_DEVICE_ATTRIBUTE_CLOCK_RATE
            MULTIPROCESSOR_COUNT = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
            ECC_ENABLED = CU_DEVICE_ATTRIBUTE_ECC_ENABLED
            PCI_BUS_ID = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID
            PCI_DEVICE_ID = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID
            MEMORY_CLOCK_RATE = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
            GLOBAL_MEMORY_BUS_WIDTH = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH
            L2_CACHE_SIZE = CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
            MAX_THREADS_PER_MULTIPROCESSOR = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
            ASYNC_ENGINE_COUNT = CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT
            PCI_DOMAIN_ID = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID
            COMPUTE_CAPABILITY_MAJOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
            COMPUTE_CAPABILITY_MINOR = CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
            MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
            MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            MEMORY_POOLS_SUPPORTED = CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
        FunctionAttribute, CUfunction_attribute_enum, "CU_FUNC_ATTRIBUTE_":
            MAX_THREADS_PER_BLOCK = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
            SHARED_SIZE_BYTES = CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
            NUM_REGS = CU_FUNC_ATTRIBUTE_NUM_REGS
            MAX_DYNAMIC_SHARED_SIZE_BYTES = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        JitOption, CUjit_option_enum, "CU_JIT_":
            ERROR_LOG_BUFFER = CU_JIT_ERROR_LOG_BUFFER
            ERROR_LOG_BUFFER_SIZE_BYTES = CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
        Limit, CUlimit_enum, "CU_LIMIT_": STACK_SIZE = CU_LIMIT_STACK_SIZE;
        PoolAttribute, CUmemPool_attribute_enum, "CU_MEMPOOL_ATTR_":
            RELEASE_THRESHOLD = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
            RESERVED_MEM_CURRENT = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
        AllocationType, CUmemAllocationType_enum, "CU_MEM_ALLOCATION_TYPE_": PINNED = CU_MEM_ALLOCATION_TYPE_PINNED;
        HandleType, CUmemAllocationHandleType_enum, "CU_MEM_HANDLE_TYPE_": NONE = CU_MEM_HANDLE_TYPE_NONE;
        LocationType, CUmemLocationType_enum, "CU_MEM_LOCATION_TYPE_": DEVICE = CU_MEM_LOCATION_TYPE_DEVICE;
        AccessFlags, CUmemAccess_flags_enum, "CU_MEM_ACCESS_FLAGS_PROT_":
            READWRITE = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        CaptureStatus, CUstreamCaptureStatus_enum, "CU_STREAM_CAPTURE_STATUS_": NONE = CU_STREAM_CAPTURE_STATUS_NONE;
        KernelNodeAttribute, CUkernelNodeAttrID_enum, "CU_KERNEL_NODE_ATTRIBUTE_":
            COOPERATIVE = CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE;
        MemoryType, CUmemorytype_enum, "CU_MEMORYTYPE_": DEVICE = CU_MEMORYTYPE_DEVICE;
    }
    assert_eq!(sys::Status::SUCCESS.0, raw::cudaError_enum::CUDA_SUCCESS as i32);
    assert_eq!(
        sys::CU_STREAM_NON_BLOCKING,
        raw::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32
    );
    assert_eq!(
        sys::CU_EVENT_DISABLE_TIMING,
        raw::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32
    );
    assert_eq!(sys::CU_MEMHOSTALLOC_DEVICEMAP, raw::CU_MEMHOSTALLOC_DEVICEMAP);
    assert_eq!(
        sys::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        raw::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as u32
    );
}

#[test]
fn structures_are_laid_out_as_in_cuda_h() {
    use std::mem::offset_of;
    assert_eq!(size_of::<sys::CUmemPoolProps>(), size_of::<raw::CUmemPoolProps>());
    assert_eq!(align_of::<sys::CUmemPoolProps>(), align_of::<raw::CUmemPoolProps>());
    assert_eq!(
        [
            offset_of!(sys::CUmemPoolProps, handle_types),
            offset_of!(sys::CUmemPoolProps, location) + offset_of!(sys::CUmemLocation, id),
            offset_of!(sys::CUmemPoolProps, win32_security_attributes),
            offset_of!(sys::CUmemPoolProps, reserved),
        ],
        [
            offset_of!(raw::CUmemPoolProps, handleTypes),
            offset_of!(raw::CUmemPoolProps, location) + offset_of!(raw::CUmemLocation, id),
            offset_of!(raw::CUmemPoolProps, win32SecurityAttributes),
            offset_of!(raw::CUmemPoolProps, reserved),
        ]
    );
    assert_eq!(size_of::<sys::CUmemAccessDesc>(), size_of::<raw::CUmemAccessDesc>());
    assert_eq!(
        [
            offset_of!(sys::CUmemAccessDesc, location),
            offset_of!(sys::CUmemAccessDesc, flags)
        ],
        [
            offset_of!(raw::CUmemAccessDesc, location),
            offset_of!(raw::CUmemAccessDesc, flags)
        ]
    );
}

#[test]
fn nodes_of_graphs_are_laid_out_as_in_cuda_h() {
    macro_rules! compare {
        ($($here:ident = $there:ident: $($($field:ident).+ = $full:ident),*;)*) => {$(
            assert_eq!(size_of::<sys::$here>(), size_of::<raw::$there>());
            assert_eq!(align_of::<sys::$here>(), align_of::<raw::$there>());
            $(assert_eq!(
                std::mem::offset_of!(sys::$here, $($field).+),
                std::mem::offset_of!(raw::$there, $full),
                stringify!($full)
            );)*
        )*};
    }
    compare! {
        CudaKernelNodeParams = CUDA_KERNEL_NODE_PARAMS: function = func, grid = gridDimX, block = blockDimX,
            shared_bytes = sharedMemBytes, params = kernelParams, extra = extra;
        CudaMemsetNodeParams = CUDA_MEMSET_NODE_PARAMS: to = dst, pitch = pitch, value = value,
            element_size = elementSize, width = width, height = height;
        CudaMemcpy3d = CUDA_MEMCPY3D: from.x_in_bytes = srcXInBytes, from.y = srcY, from.z = srcZ, from.lod = srcLOD,
            from.memory_type = srcMemoryType, from.host = srcHost, from.device = srcDevice, from.array = srcArray,
            from.reserved = reserved0, from.pitch = srcPitch, from.height = srcHeight, to.x_in_bytes = dstXInBytes,
            to.memory_type = dstMemoryType, to.host = dstHost, to.device = dstDevice, to.array = dstArray,
            to.reserved = reserved1, to.pitch = dstPitch, to.height = dstHeight, width_in_bytes = WidthInBytes,
            height = Height, depth = Depth;
    }
}

/// The value of an attribute is a union, which has grown since `cust_raw`'s was made.
#[test]
fn attributes_of_nodes_have_room() {
    assert!(size_of::<sys::CUkernelNodeAttrValue>() >= size_of::<raw::CUkernelNodeAttrValue>());
    assert_eq!(
        align_of::<sys::CUkernelNodeAttrValue>(),
        align_of::<raw::CUkernelNodeAttrValue>()
    );
    assert_eq!(std::mem::offset_of!(sys::CUkernelNodeAttrValue, words), 0);
    assert_eq!(std::mem::offset_of!(raw::CUkernelNodeAttrValue, cooperative), 0);
}

/// A number that no driver's header has yet is a status like any other, and is told by its number.
#[test]
fn a_status_that_nobody_knows_is_told_by_its_number() {
    let text = sys::Status(4_321).to_string();
    assert!(text.contains("4321"), "{text}");
    let known = sys::Status::NO_DEVICE.to_string();
    assert!(known.starts_with("CUDA_ERROR_NO_DEVICE (100: "), "{known}");
}
