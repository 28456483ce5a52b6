// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the driver's functions: the one list from which everything else is made.
//!
//! Those that `cust_raw` 0.11.3 declares, under the names of the symbols (with their `_v2`
//! suffixes), in the order and under the headings of the CUDA driver API reference.

/// Gives the names of all the driver's functions to the macro `$callback`.
macro_rules! with_driver_functions {
    ($callback:ident) => {
        $callback! {
            // Errors
            cuGetErrorString cuGetErrorName

            // Initialisation, version
            cuInit cuDriverGetVersion

            // Devices
            cuDeviceGet cuDeviceGetCount cuDeviceGetName cuDeviceGetUuid cuDeviceGetUuid_v2
            cuDeviceGetLuid cuDeviceTotalMem_v2 cuDeviceGetTexture1DLinearMaxWidth
            cuDeviceGetAttribute cuDeviceGetNvSciSyncAttributes cuDeviceSetMemPool
            cuDeviceGetMemPool cuDeviceGetDefaultMemPool cuFlushGPUDirectRDMAWrites
            cuDeviceGetProperties cuDeviceComputeCapability

            // Primary contexts
            cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxSetFlags_v2
            cuDevicePrimaryCtxGetState cuDevicePrimaryCtxReset_v2 cuDeviceGetExecAffinitySupport

            // Contexts
            cuCtxCreate_v2 cuCtxCreate_v3 cuCtxDestroy_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2
            cuCtxSetCurrent cuCtxGetCurrent cuCtxGetDevice cuCtxGetFlags cuCtxSynchronize
            cuCtxSetLimit cuCtxGetLimit cuCtxGetCacheConfig cuCtxSetCacheConfig
            cuCtxGetSharedMemConfig cuCtxSetSharedMemConfig cuCtxGetApiVersion
            cuCtxGetStreamPriorityRange cuCtxResetPersistingL2Cache cuCtxGetExecAffinity cuCtxAttach
            cuCtxDetach

            // Modules
            cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleUnload
            cuModuleGetFunction cuModuleGetGlobal_v2 cuModuleGetTexRef cuModuleGetSurfRef

            // JIT linker
            cuLinkCreate_v2 cuLinkAddData_v2 cuLinkAddFile_v2 cuLinkComplete cuLinkDestroy

            // Memory
            cuMemGetInfo_v2 cuMemAlloc_v2 cuMemAllocPitch_v2 cuMemFree_v2 cuMemGetAddressRange_v2
            cuMemAllocHost_v2 cuMemFreeHost cuMemHostAlloc cuMemHostGetDevicePointer_v2
            cuMemHostGetFlags cuMemAllocManaged

            // PCI bus identifiers, memory shared between processes, host registration
            cuDeviceGetByPCIBusId cuDeviceGetPCIBusId cuIpcGetEventHandle cuIpcOpenEventHandle
            cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcCloseMemHandle cuMemHostRegister_v2
            cuMemHostUnregister

            // Copies
            cuMemcpy cuMemcpyPeer cuMemcpyHtoD_v2 cuMemcpyDtoH_v2 cuMemcpyDtoD_v2 cuMemcpyDtoA_v2
            cuMemcpyAtoD_v2 cuMemcpyHtoA_v2 cuMemcpyAtoH_v2 cuMemcpyAtoA_v2 cuMemcpy2D_v2
            cuMemcpy2DUnaligned_v2 cuMemcpy3D_v2 cuMemcpy3DPeer cuMemcpyAsync cuMemcpyPeerAsync
            cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyHtoAAsync_v2
            cuMemcpyAtoHAsync_v2 cuMemcpy2DAsync_v2 cuMemcpy3DAsync_v2 cuMemcpy3DPeerAsync

            // Fills
            cuMemsetD8_v2 cuMemsetD16_v2 cuMemsetD32_v2 cuMemsetD2D8_v2 cuMemsetD2D16_v2
            cuMemsetD2D32_v2 cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemsetD2D8Async
            cuMemsetD2D16Async cuMemsetD2D32Async

            // Arrays
            cuArrayCreate_v2 cuArrayGetDescriptor_v2 cuArrayGetSparseProperties
            cuMipmappedArrayGetSparseProperties cuArrayGetPlane cuArrayDestroy cuArray3DCreate_v2
            cuArray3DGetDescriptor_v2 cuMipmappedArrayCreate cuMipmappedArrayGetLevel
            cuMipmappedArrayDestroy

            // Virtual memory
            cuMemAddressReserve cuMemAddressFree cuMemCreate cuMemRelease cuMemMap
            cuMemMapArrayAsync cuMemUnmap cuMemSetAccess cuMemGetAccess cuMemExportToShareableHandle
            cuMemImportFromShareableHandle cuMemGetAllocationGranularity
            cuMemGetAllocationPropertiesFromHandle cuMemRetainAllocationHandle

            // Stream-ordered allocation
            cuMemFreeAsync cuMemAllocAsync cuMemPoolTrimTo cuMemPoolSetAttribute
            cuMemPoolGetAttribute cuMemPoolSetAccess cuMemPoolGetAccess cuMemPoolCreate
            cuMemPoolDestroy cuMemAllocFromPoolAsync cuMemPoolExportToShareableHandle
            cuMemPoolImportFromShareableHandle cuMemPoolExportPointer cuMemPoolImportPointer

            // Unified addressing
            cuPointerGetAttribute cuMemPrefetchAsync cuMemAdvise cuMemRangeGetAttribute
            cuMemRangeGetAttributes cuPointerSetAttribute cuPointerGetAttributes

            // Streams
            cuStreamCreate cuStreamCreateWithPriority cuStreamGetPriority cuStreamGetFlags
            cuStreamGetCtx cuStreamWaitEvent cuStreamAddCallback cuStreamBeginCapture_v2
            cuThreadExchangeStreamCaptureMode cuStreamEndCapture cuStreamIsCapturing
            cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2 cuStreamUpdateCaptureDependencies
            cuStreamAttachMemAsync cuStreamQuery cuStreamSynchronize cuStreamDestroy_v2
            cuStreamCopyAttributes cuStreamGetAttribute cuStreamSetAttribute

            // Events
            cuEventCreate cuEventRecord cuEventRecordWithFlags cuEventQuery cuEventSynchronize
            cuEventDestroy_v2 cuEventElapsedTime

            // External memory and semaphores
            cuImportExternalMemory cuExternalMemoryGetMappedBuffer
            cuExternalMemoryGetMappedMipmappedArray cuDestroyExternalMemory
            cuImportExternalSemaphore cuSignalExternalSemaphoresAsync cuWaitExternalSemaphoresAsync
            cuDestroyExternalSemaphore

            // Stream memory operations
            cuStreamWaitValue32 cuStreamWaitValue64 cuStreamWriteValue32 cuStreamWriteValue64
            cuStreamBatchMemOp

            // Functions and launches
            cuFuncGetAttribute cuFuncSetAttribute cuFuncSetCacheConfig cuFuncSetSharedMemConfig
            cuFuncGetModule cuLaunchKernel cuLaunchCooperativeKernel
            cuLaunchCooperativeKernelMultiDevice cuLaunchHostFunc cuFuncSetBlockShape
            cuFuncSetSharedSize cuParamSetSize cuParamSeti cuParamSetf cuParamSetv cuLaunch
            cuLaunchGrid cuLaunchGridAsync cuParamSetTexRef

            // Graphs
            cuGraphCreate cuGraphAddKernelNode cuGraphKernelNodeGetParams cuGraphKernelNodeSetParams
            cuGraphAddMemcpyNode cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams
            cuGraphAddMemsetNode cuGraphMemsetNodeGetParams cuGraphMemsetNodeSetParams
            cuGraphAddHostNode cuGraphHostNodeGetParams cuGraphHostNodeSetParams
            cuGraphAddChildGraphNode cuGraphChildGraphNodeGetGraph cuGraphAddEmptyNode
            cuGraphAddEventRecordNode cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent
            cuGraphAddEventWaitNode cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
            cuGraphAddExternalSemaphoresSignalNode cuGraphExternalSemaphoresSignalNodeGetParams
            cuGraphExternalSemaphoresSignalNodeSetParams cuGraphAddExternalSemaphoresWaitNode
            cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams
            cuGraphAddMemAllocNode cuGraphMemAllocNodeGetParams cuGraphAddMemFreeNode
            cuGraphMemFreeNodeGetParams cuDeviceGraphMemTrim cuDeviceGetGraphMemAttribute
            cuDeviceSetGraphMemAttribute cuGraphClone cuGraphNodeFindInClone cuGraphNodeGetType
            cuGraphGetNodes cuGraphGetRootNodes cuGraphGetEdges cuGraphNodeGetDependencies
            cuGraphNodeGetDependentNodes cuGraphAddDependencies cuGraphRemoveDependencies
            cuGraphDestroyNode cuGraphInstantiate_v2 cuGraphInstantiateWithFlags
            cuGraphExecKernelNodeSetParams cuGraphExecMemcpyNodeSetParams
            cuGraphExecMemsetNodeSetParams cuGraphExecHostNodeSetParams
            cuGraphExecChildGraphNodeSetParams cuGraphExecEventRecordNodeSetEvent
            cuGraphExecEventWaitNodeSetEvent cuGraphExecExternalSemaphoresSignalNodeSetParams
            cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphUpload cuGraphLaunch
            cuGraphExecDestroy cuGraphDestroy cuGraphExecUpdate cuGraphKernelNodeCopyAttributes
            cuGraphKernelNodeGetAttribute cuGraphKernelNodeSetAttribute cuGraphDebugDotPrint
            cuUserObjectCreate cuUserObjectRetain cuUserObjectRelease cuGraphRetainUserObject
            cuGraphReleaseUserObject

            // Occupancy
            cuOccupancyMaxActiveBlocksPerMultiprocessor
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxPotentialBlockSize
            cuOccupancyMaxPotentialBlockSizeWithFlags cuOccupancyAvailableDynamicSMemPerBlock

            // Texture and surface references
            cuTexRefSetArray cuTexRefSetMipmappedArray cuTexRefSetAddress_v2 cuTexRefSetAddress2D_v3
            cuTexRefSetFormat cuTexRefSetAddressMode cuTexRefSetFilterMode
            cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp
            cuTexRefSetMaxAnisotropy cuTexRefSetBorderColor cuTexRefSetFlags cuTexRefGetAddress_v2
            cuTexRefGetArray cuTexRefGetMipmappedArray cuTexRefGetAddressMode cuTexRefGetFilterMode
            cuTexRefGetFormat cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias
            cuTexRefGetMipmapLevelClamp cuTexRefGetMaxAnisotropy cuTexRefGetBorderColor
            cuTexRefGetFlags cuTexRefCreate cuTexRefDestroy cuSurfRefSetArray cuSurfRefGetArray

            // Texture and surface objects
            cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc
            cuTexObjectGetTextureDesc cuTexObjectGetResourceViewDesc cuSurfObjectCreate
            cuSurfObjectDestroy cuSurfObjectGetResourceDesc

            // Peer access
            cuDeviceCanAccessPeer cuCtxEnablePeerAccess cuCtxDisablePeerAccess
            cuDeviceGetP2PAttribute

            // Graphics interoperability
            cuGraphicsUnregisterResource cuGraphicsSubResourceGetMappedArray
            cuGraphicsResourceGetMappedMipmappedArray cuGraphicsResourceGetMappedPointer_v2
            cuGraphicsResourceSetMapFlags_v2 cuGraphicsMapResources cuGraphicsUnmapResources

            // Entry points
            cuGetProcAddress cuGetExportTable

            // Profiler
            cuProfilerInitialize cuProfilerStart cuProfilerStop
        }
    };
}

pub(crate) use with_driver_functions;
