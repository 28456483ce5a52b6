// SPDX-License-Identifier: MIT OR Apache-2.0
//! Launches, and what is known of one that fails.

use std::ffi::c_int;
use std::ptr;

use cuda_driver::sys::{self, CaptureStatus, FunctionAttribute, Status};
use cuda_sim::{Dim3, LaunchConfig};

use super::{Cuda, dependent, foreign, modules, stream_of};
use crate::backend::{FunctionInfo, KernelInfo, RawFunction, RawStream, check_cooperative};
use crate::error::{Error, Result};

/// A function that can be launched.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) raw: sys::CUfunction,
    /// Whether it [waits](dependent::waiting) for the kernel before it.
    pub(super) waits: bool,
    /// The extents of its clusters, where the launch says them.
    pub(super) cluster: Option<Dim3>,
}

impl Cuda {
    /// The kernel's function, for launches with so much dynamic shared memory; the context is current.
    pub(super) fn ready_kernel(&self, kernel: &KernelInfo, dynamic_shared: usize) -> Result<Ready> {
        let function = self.modules.function(kernel, &self.context, &self.properties)?;
        function.allow_shared(dynamic_shared, kernel.name, &self.context, &self.properties)?;
        Ok(Ready {
            raw: function.raw,
            waits: function.waits,
            cluster: kernel.cluster_to_set(),
        })
    }

    /// As [`ready_kernel`](Self::ready_kernel), for a kernel of a module that was loaded at run time.
    pub(super) fn ready_function(
        &self,
        function: RawFunction,
        info: &FunctionInfo,
        name: &str,
        dynamic_shared: usize,
    ) -> Result<Ready> {
        let raw = foreign::raw(function);
        let (context, device) = (&self.context, &self.properties);
        modules::allow_shared(raw, info.static_shared, dynamic_shared, name, context, device)?;
        Ok(Ready {
            raw,
            waits: function.waits,
            cluster: None,
        })
    }

    /// How many blocks of so many threads, at most those of a block, run at a time on a multiprocessor; the context is
    /// current.
    pub(super) fn blocks_at_a_time(
        &self,
        function: sys::CUfunction,
        threads: u32,
        dynamic_shared: usize,
    ) -> Result<u32> {
        let mut blocks = 0;
        // SAFETY: a function of the current context; writes a number. The threads are at most a block's.
        let status = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads as c_int, dynamic_shared)
        };
        self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", status)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Refuses a cooperative launch of more blocks than run at a time; the context is current.
    pub(super) fn check_room(&self, function: sys::CUfunction, name: &str, config: &LaunchConfig) -> Result<()> {
        // At most a block's, as the launch has checked.
        let threads = config.block.count() as u32;
        let blocks = self.blocks_at_a_time(function, threads, config.dynamic_shared)?;
        check_cooperative(name, config, blocks.saturating_mul(self.properties.multiprocessors))
    }

    /// Launches a function, cooperatively or not; the context is current.
    ///
    /// # Safety
    ///
    /// The parameters are the function's; the stream is this context's and lives.
    pub(super) unsafe fn launch_raw(
        &self,
        stream: RawStream,
        (function, name, cooperative): (Ready, &str, bool),
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<()> {
        let (grid, block) = (config.grid, config.block);
        let (shared, stream_raw, params) = (
            config.dynamic_shared as u32,
            stream_of(stream),
            params.as_mut_ptr().cast(),
        );
        let Ready {
            raw: function,
            waits,
            cluster,
        } = function;
        let one_kernel = self.synchronous.then(|| self.context.one_kernel());
        // SAFETY: the caller's promise; the driver copies the parameters.
        let (call, status) = unsafe {
            let (x, y, z) = (block.x, block.y, block.z);
            match cooperative {
                false if waits || cluster.is_some() => {
                    dependent::launch(function, config, (waits, cluster), stream_raw, params)
                }
                false => (
                    "cuLaunchKernel",
                    sys::cuLaunchKernel(
                        function,
                        grid.x,
                        grid.y,
                        grid.z,
                        x,
                        y,
                        z,
                        shared,
                        stream_raw,
                        params,
                        ptr::null_mut(),
                    ),
                ),
                true => (
                    "cuLaunchCooperativeKernel",
                    sys::cuLaunchCooperativeKernel(
                        function, grid.x, grid.y, grid.z, x, y, z, shared, stream_raw, params,
                    ),
                ),
            }
        };
        match status {
            Status::LAUNCH_OUT_OF_RESOURCES | Status::INVALID_VALUE => {
                return Err(self.refused_launch(function, name, config, status));
            }
            // The occupancy is asked for only now: it is a call of the driver's more.
            Status::COOPERATIVE_LAUNCH_TOO_LARGE => self.check_room(function, name, config)?,
            _ => {}
        }
        self.check(call, status)?;
        match one_kernel {
            // SAFETY: the caller's promise.
            Some(_one_kernel) => unsafe { self.finish_launch(stream, name) },
            None => Ok(()),
        }
    }

    /// Waits for the kernel that was launched last on the stream, so that what it did wrong is told of it. Where the
    /// stream's work is recorded for a graph there is nothing to wait for.
    ///
    /// # Safety
    ///
    /// As of [`launch_raw`](Self::launch_raw).
    unsafe fn finish_launch(&self, stream: RawStream, name: &str) -> Result<()> {
        let mut capture = CaptureStatus::NONE;
        // SAFETY: the caller's promise; writes a number.
        let status = unsafe { sys::cuStreamIsCapturing(stream_of(stream), &mut capture) };
        self.context.check_kernel("cuStreamIsCapturing", status, Some(name))?;
        if capture != CaptureStatus::NONE {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let status = unsafe { sys::cuStreamSynchronize(stream_of(stream)) };
        self.context.check_kernel("cuStreamSynchronize", status, Some(name))
    }

    /// The error of a launch that the driver refuses, with what it has taken.
    fn refused_launch(&self, function: sys::CUfunction, name: &str, config: &LaunchConfig, status: Status) -> Error {
        let attribute = |attribute| {
            let mut value = 0;
            // SAFETY: a function of the current context; writes a number. Where it fails, the number stays 0.
            let _ = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
            value
        };
        Error::LaunchResources {
            device: self.properties.id.clone(),
            kernel: name.into(),
            wanted: format!(
                "grid {}, block {}, {} bytes of dynamic shared memory beside {} of the kernel's own, {} registers a \
                 thread",
                config.grid,
                config.block,
                config.dynamic_shared,
                attribute(FunctionAttribute::SHARED_SIZE_BYTES),
                attribute(FunctionAttribute::NUM_REGS)
            ),
            message: status.to_string(),
        }
    }
}
