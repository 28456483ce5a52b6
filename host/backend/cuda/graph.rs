// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded work: graphs of the driver's, made node by node.
//!
//! The driver can also capture what is queued on a stream. But while it does, no thread of the process may wait for the
//! device, whatever library it is of: the capture is invalid then, and the wait an error. A graph that is made of nodes
//! disturbs nobody, and nobody disturbs it.

use std::ptr;

use cuda_driver::sys::{self, CudaKernelNodeParams, CudaMemcpy3d, CudaMemcpy3dSide, CudaMemsetNodeParams, MemoryType};
use cuda_driver::sys::{CUgraphNode, CUkernelNodeAttrValue, KernelNodeAttribute, Status};
use cuda_sim::{Dim3, LaunchConfig};

use super::launching::Ready;
use super::{Cuda, dependent, stream_of};
use crate::backend::{FunctionInfo, Graphs, KernelInfo, RawExec, RawFunction, RawGraph, RawNode, RawPlace, RawStream};
use crate::error::Result;

fn graph_of(graph: RawGraph) -> sys::CUgraph {
    ptr::with_exposed_provenance_mut(graph.0 as usize)
}

fn exec_of(exec: RawExec) -> sys::CUgraphExec {
    ptr::with_exposed_provenance_mut(exec.0 as usize)
}

fn node_of(node: RawNode) -> CUgraphNode {
    ptr::with_exposed_provenance_mut(node.0 as usize)
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

impl Graphs for Cuda {
    fn create_graph(&self) -> Result<RawGraph> {
        let _current = self.enter()?;
        let mut graph = ptr::null_mut();
        // SAFETY: writes a handle.
        self.check("cuGraphCreate", unsafe { sys::cuGraphCreate(&mut graph, 0) })?;
        Ok(RawGraph(graph.expose_provenance() as u64))
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the trait's contract. An error would be one of earlier work.
            let _ = unsafe { sys::cuGraphDestroy(graph_of(graph)) };
        }
    }

    unsafe fn record_launch(
        &self,
        at: RawPlace,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode> {
        let _current = self.enter()?;
        let function = self.ready_kernel(kernel, config.dynamic_shared)?;
        if kernel.cooperative {
            // Otherwise it is the graph's launch that fails.
            self.check_room(function.raw, kernel.name, config)?;
        }
        let function = Ready {
            waits: function.waits && !kernel.cooperative,
            ..function
        };
        // SAFETY: the trait's contract: the parameters are those of the function.
        let node = unsafe { self.add_launch(at, function, config, params)? };
        if kernel.cooperative {
            self.make_cooperative(node)?;
        }
        Ok(node)
    }

    unsafe fn record_function(
        &self,
        at: RawPlace,
        function: RawFunction,
        info: &FunctionInfo,
        name: &str,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode> {
        let _current = self.enter()?;
        let raw = self.ready_function(function, info, name, config.dynamic_shared)?;
        // SAFETY: the trait's contract: the parameters are those of the function.
        unsafe { self.add_launch(at, raw, config, params) }
    }

    unsafe fn record_copy(&self, at: RawPlace, to: u64, from: u64, bytes: usize) -> Result<RawNode> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        unsafe { self.add_copy(at, to, from, bytes) }
    }

    unsafe fn record_fill_zero(&self, at: RawPlace, address: u64, bytes: usize) -> Result<RawNode> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        unsafe { self.add_fill_zero(at, address, bytes) }
    }

    unsafe fn instantiate(&self, graph: RawGraph) -> Result<RawExec> {
        let _current = self.enter()?;
        let mut exec = ptr::null_mut();
        // SAFETY: the trait's contract; writes a handle.
        let status = unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph_of(graph), 0) };
        self.check("cuGraphInstantiateWithFlags", status)?;
        Ok(RawExec(exec.expose_provenance() as u64))
    }

    unsafe fn update_exec(&self, exec: RawExec, graph: RawGraph) -> Result<bool> {
        let _current = self.enter()?;
        let (mut node, mut result) = (ptr::null_mut(), 0);
        // SAFETY: the trait's contract; writes a handle and a number.
        let status = unsafe { sys::cuGraphExecUpdate(exec_of(exec), graph_of(graph), &mut node, &mut result) };
        match status {
            Status::GRAPH_EXEC_UPDATE_FAILURE => Ok(false),
            status => self.check("cuGraphExecUpdate", status).map(|()| true),
        }
    }

    unsafe fn launch_graph(&self, stream: RawStream, exec: RawExec) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the trait's contract.
        let status = unsafe { sys::cuGraphLaunch(exec_of(exec), stream_of(stream)) };
        self.check("cuGraphLaunch", status)
    }

    unsafe fn destroy_exec(&self, exec: RawExec) {
        if let Ok(_current) = self.enter() {
            // SAFETY: the trait's contract: the driver frees it when its launches are done. An error would be one of
            // earlier work.
            let _ = unsafe { sys::cuGraphExecDestroy(exec_of(exec)) };
        }
    }
}

impl Cuda {
    /// Adds a node at that place by `add`, which is given where the node goes, the nodes that it comes behind, and how
    /// many those are.
    fn add_node(
        &self,
        call: &'static str,
        at: RawPlace,
        add: impl FnOnce(*mut CUgraphNode, *const CUgraphNode, usize) -> Status,
    ) -> Result<RawNode> {
        let after = node_of(at.after);
        let mut node = ptr::null_mut();
        let status = add(&mut node, &after, usize::from(!after.is_null()));
        self.check(call, status)?;
        Ok(RawNode(node.expose_provenance() as u64))
    }

    /// # Safety
    ///
    /// The parameters are the function's; the graph lives.
    unsafe fn add_launch(
        &self,
        at: RawPlace,
        function: Ready,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode> {
        let (grid, block) = (config.grid, config.block);
        let launch = CudaKernelNodeParams {
            function: function.raw,
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            shared_bytes: config.dynamic_shared as u32,
            params: params.as_mut_ptr().cast(),
            extra: ptr::null_mut(),
        };
        let graph = graph_of(at.graph);
        // SAFETY: this function's contract: the node is of the graph.
        let follows = function.waits && unsafe { dependent::can_follow(node_of(at.after)) };
        let node = self.add_node("cuGraphAddKernelNode", at, |node, after, count| {
            let count = if follows { 0 } else { count };
            // SAFETY: this function's contract; the driver copies the parameters.
            unsafe { sys::cuGraphAddKernelNode(node, graph, after, count, &launch) }
        })?;
        if follows {
            // SAFETY: the new node, whose kernel waits, and the one that was looked at.
            let status = unsafe { dependent::follow(graph, node_of(at.after), node_of(node)) };
            self.check("cuGraphAddDependencies", status)?;
        }
        if let Some(Dim3 { x, y, z }) = function.cluster {
            self.set_attribute(node, KernelNodeAttribute::CLUSTER_DIMENSION, [x, y, z])?;
        }
        Ok(node)
    }

    /// Has all blocks of a launch, which was just added, run at a time.
    fn make_cooperative(&self, node: RawNode) -> Result<()> {
        self.set_attribute(node, KernelNodeAttribute::COOPERATIVE, [1, 0, 0])
    }

    /// Says more of a launch, which was just added.
    fn set_attribute(&self, node: RawNode, attribute: KernelNodeAttribute, [x, y, z]: [u32; 3]) -> Result<()> {
        let mut words = [0; 16];
        (words[0], words[1], words[2]) = (x, y, z);
        let value = CUkernelNodeAttrValue { words };
        // SAFETY: a node of a graph that lives, which is a kernel's.
        let status = unsafe { sys::cuGraphKernelNodeSetAttribute(node_of(node), attribute, &value) };
        self.check("cuGraphKernelNodeSetAttribute", status)
    }

    /// # Safety
    ///
    /// The addresses are as [`Backend`](crate::backend::Backend) says; the graph lives.
    unsafe fn add_copy(&self, at: RawPlace, to: u64, from: u64, bytes: usize) -> Result<RawNode> {
        let copy = CudaMemcpy3d {
            from: side(from),
            to: side(to),
            width_in_bytes: bytes,
            height: 1,
            depth: 1,
        };
        let context = self.context.raw();
        self.add_node("cuGraphAddMemcpyNode", at, |node, after, count| {
            // SAFETY: this function's contract; the context is this device's.
            unsafe { sys::cuGraphAddMemcpyNode(node, graph_of(at.graph), after, count, &copy, context) }
        })
    }

    /// # Safety
    ///
    /// As [`add_copy`](Self::add_copy).
    unsafe fn add_fill_zero(&self, at: RawPlace, address: u64, bytes: usize) -> Result<RawNode> {
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
        self.add_node("cuGraphAddMemsetNode", at, |node, after, count| {
            // SAFETY: as in `add_copy`.
            unsafe { sys::cuGraphAddMemsetNode(node, graph_of(at.graph), after, count, &fill, context) }
        })
    }
}
