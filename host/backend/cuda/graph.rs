// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded work: graphs of the driver's, made node by node.
//!
//! The driver can also capture what is queued on a stream. But while it does, no thread of the process may wait for the
//! device, whatever library it is of: the capture is invalid then, and the wait an error. A graph that is made of nodes
//! disturbs nobody, and nobody disturbs it.

use std::ptr;

use cuda_driver::sys::{self, CudaKernelNodeParams, CudaMemcpy3d, CudaMemcpy3dSide, CudaMemsetNodeParams, MemoryType};
use cuda_driver::sys::{CUgraphNode, Status};
use cuda_sim::LaunchConfig;

use super::Cuda;
use super::status::check_device;
use crate::backend::{RawExec, RawGraph, RawNode};
use crate::error::Result;

pub(super) fn graph_of(graph: RawGraph) -> sys::CUgraph {
    ptr::with_exposed_provenance_mut(graph.0 as usize)
}

pub(super) fn exec_of(exec: RawExec) -> sys::CUgraphExec {
    ptr::with_exposed_provenance_mut(exec.0 as usize)
}

/// A graph without nodes; a context is current, as for all functions here.
pub(super) fn create(device: &str) -> Result<RawGraph> {
    let mut graph = ptr::null_mut();
    // SAFETY: writes a handle.
    let status = unsafe { sys::cuGraphCreate(&mut graph, 0) };
    check_device(device, "cuGraphCreate", status)?;
    Ok(RawGraph(graph.expose_provenance() as u64))
}

/// # Safety
///
/// The graph lives, and so does all that its nodes name.
pub(super) unsafe fn instantiate(device: &str, graph: RawGraph) -> Result<RawExec> {
    let mut exec = ptr::null_mut();
    // SAFETY: this function's contract; writes a handle.
    let status = unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph_of(graph), 0) };
    check_device(device, "cuGraphInstantiateWithFlags", status)?;
    Ok(RawExec(exec.expose_provenance() as u64))
}

/// Whether `exec` does from now on what `graph` says, which takes one with the same kinds of nodes.
///
/// # Safety
///
/// As [`instantiate`]; `exec` lives.
pub(super) unsafe fn update(device: &str, exec: RawExec, graph: RawGraph) -> Result<bool> {
    let (mut node, mut result) = (ptr::null_mut(), 0);
    // SAFETY: this function's contract; writes a handle and a number.
    let status = unsafe { sys::cuGraphExecUpdate(exec_of(exec), graph_of(graph), &mut node, &mut result) };
    if status == Status::GRAPH_EXEC_UPDATE_FAILURE {
        return Ok(false);
    }
    check_device(device, "cuGraphExecUpdate", status).map(|()| true)
}

/// One side of a copy, in device memory.
fn side(address: u64) -> CudaMemcpy3dSide {
    CudaMemcpy3dSide {
        x_in_bytes: 0,
        y: 0,
        z: 0,
        lod: 0,
        memory_type: MemoryType::DEVICE,
        host: ptr::null_mut(),
        device: address,
        array: ptr::null_mut(),
        reserved: ptr::null_mut(),
        pitch: 0,
        height: 0,
    }
}

impl Cuda {
    /// Adds a node behind `after` by `add`, which is given where the node goes, the nodes that it comes behind, and how
    /// many those are.
    fn add_node(
        &self,
        call: &'static str,
        after: RawNode,
        add: impl FnOnce(*mut CUgraphNode, *const CUgraphNode, usize) -> Status,
    ) -> Result<RawNode> {
        let after: CUgraphNode = ptr::with_exposed_provenance_mut(after.0 as usize);
        let mut node = ptr::null_mut();
        let status = add(&mut node, &after, usize::from(!after.is_null()));
        self.check(call, status)?;
        Ok(RawNode(node.expose_provenance() as u64))
    }

    /// # Safety
    ///
    /// The parameters are the function's; the graph lives.
    pub(super) unsafe fn add_launch(
        &self,
        graph: RawGraph,
        after: RawNode,
        function: sys::CUfunction,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode> {
        let (grid, block) = (config.grid, config.block);
        let launch = CudaKernelNodeParams {
            function,
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            shared_bytes: config.dynamic_shared as u32,
            params: params.as_mut_ptr().cast(),
            extra: ptr::null_mut(),
        };
        self.add_node("cuGraphAddKernelNode", after, |node, after, count| {
            // SAFETY: this function's contract; the driver copies the parameters.
            unsafe { sys::cuGraphAddKernelNode(node, graph_of(graph), after, count, &launch) }
        })
    }

    /// # Safety
    ///
    /// The addresses are as [`Backend`](crate::backend::Backend) says; the graph lives.
    pub(super) unsafe fn add_copy(
        &self,
        graph: RawGraph,
        after: RawNode,
        to: u64,
        from: u64,
        bytes: usize,
    ) -> Result<RawNode> {
        let copy = CudaMemcpy3d {
            from: side(from),
            to: side(to),
            width_in_bytes: bytes,
            height: 1,
            depth: 1,
        };
        let context = self.context.raw();
        self.add_node("cuGraphAddMemcpyNode", after, |node, after, count| {
            // SAFETY: this function's contract; the context is this device's.
            unsafe { sys::cuGraphAddMemcpyNode(node, graph_of(graph), after, count, &copy, context) }
        })
    }

    /// # Safety
    ///
    /// As [`add_copy`](Self::add_copy).
    pub(super) unsafe fn add_fill_zero(
        &self,
        graph: RawGraph,
        after: RawNode,
        address: u64,
        bytes: usize,
    ) -> Result<RawNode> {
        // By words where that is possible, of which a row has fewer.
        let element_size = if (address | bytes as u64).is_multiple_of(4) {
            4
        } else {
            1
        };
        let fill = CudaMemsetNodeParams {
            to: address,
            pitch: 0,
            value: 0,
            element_size,
            width: bytes / element_size as usize,
            height: 1,
        };
        let context = self.context.raw();
        self.add_node("cuGraphAddMemsetNode", after, |node, after, count| {
            // SAFETY: as in `add_copy`.
            unsafe { sys::cuGraphAddMemsetNode(node, graph_of(graph), after, count, &fill, context) }
        })
    }
}
