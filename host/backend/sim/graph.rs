// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recorded work of the simulated GPU: a list, which is done from first to last.

use std::any::TypeId;
use std::sync::Arc;

use cuda_sim::LaunchConfig;
use cuda_std::tma::RawTensorMap;

use super::{Simulator, lock};
use crate::backend::{
    Backend, FunctionInfo, Graphs, KernelInfo, RawExec, RawFunction, RawGraph, RawNode, RawPlace, RawStream,
};
use crate::error::Result;

/// What a graph does, a node each.
#[derive(Clone, Debug)]
pub(super) enum Recorded {
    Launch {
        kernel: KernelInfo,
        config: LaunchConfig,
        /// A copy of each parameter.
        params: Vec<Box<[Line]>>,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    FillZero {
        address: u64,
        bytes: usize,
    },
}

/// Bytes aligned as any parameter may be: the most is what a tensor map wants.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

const _: () = assert!(align_of::<Line>() >= align_of::<RawTensorMap>());

impl Recorded {
    /// # Safety
    ///
    /// The parameters are the kernel's.
    unsafe fn launch(kernel: &KernelInfo, config: &LaunchConfig, params: &[*const ()]) -> Self {
        let sizes = kernel.sizes.iter().flat_map(|&(head, tail)| [head, tail]);
        let sizes = sizes.filter(|&size| size > 0);
        let copy = |(&from, size): (&*const (), usize)| {
            let mut copy = vec![Line([0; 64]); size.div_ceil(size_of::<Line>())].into_boxed_slice();
            // SAFETY: a parameter of that size, by this function's contract, and room for as many bytes.
            unsafe {
                copy.as_mut_ptr()
                    .cast::<u8>()
                    .copy_from_nonoverlapping(from.cast(), size)
            };
            copy
        };
        Self::Launch {
            kernel: *kernel,
            config: *config,
            params: params.iter().zip(sizes).map(copy).collect(),
        }
    }

    /// Does it.
    ///
    /// # Safety
    ///
    /// That of [`Backend`], for what was recorded.
    unsafe fn run(&self, simulator: &Simulator, stream: RawStream) -> Result<()> {
        // SAFETY: this function's contract; the parameters are copies of the kernel's own.
        unsafe {
            match self {
                Self::Launch { kernel, config, params } => {
                    let mut params: Vec<_> = params.iter().map(|param| param.as_ptr().cast()).collect();
                    simulator.launch(stream, kernel, config, &mut params)
                }
                Self::Copy { to, from, bytes } => simulator.copy(stream, *to, *from, *bytes),
                Self::FillZero { address, bytes } => simulator.fill_zero(stream, *address, *bytes),
            }
        }
    }

    /// The kernel, if it is a launch.
    fn kernel(&self) -> Option<TypeId> {
        match self {
            Self::Launch { kernel, .. } => Some(kernel.id),
            Self::Copy { .. } | Self::FillZero { .. } => None,
        }
    }

    /// Whether the other does the same with other arguments.
    fn is_alike(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.kernel() == other.kernel()
    }
}

impl Simulator {
    /// Adds to a graph's work.
    fn record(&self, graph: RawGraph, work: Recorded) -> RawNode {
        let mut graphs = lock(&self.graphs);
        let recorded = Arc::make_mut(graphs.entry(graph.0).or_default());
        recorded.push(work);
        RawNode(recorded.len() as u64)
    }

    /// The work of a graph, or of what was instantiated.
    fn recorded_work(&self, handle: u64) -> Arc<Vec<Recorded>> {
        lock(&self.graphs).get(&handle).cloned().unwrap_or_default()
    }
}

impl Graphs for Simulator {
    fn create_graph(&self) -> Result<RawGraph> {
        let graph = self.handle();
        lock(&self.graphs).insert(graph, Arc::default());
        Ok(RawGraph(graph))
    }

    unsafe fn destroy_graph(&self, graph: RawGraph) {
        lock(&self.graphs).remove(&graph.0);
    }

    unsafe fn record_launch(
        &self,
        at: RawPlace,
        kernel: &KernelInfo,
        config: &LaunchConfig,
        params: &mut [*const ()],
    ) -> Result<RawNode> {
        self.check(kernel)?;
        self.check_room(kernel, config)?;
        // SAFETY: the contract of the trait: the parameters are the kernel's.
        Ok(self.record(at.graph, unsafe { Recorded::launch(kernel, config, params) }))
    }

    unsafe fn record_function(
        &self,
        _: RawPlace,
        _: RawFunction,
        _: &FunctionInfo,
        _: &str,
        _: &LaunchConfig,
        _: &mut [*const ()],
    ) -> Result<RawNode> {
        unreachable!("no module was loaded");
    }

    unsafe fn record_copy(&self, at: RawPlace, to: u64, from: u64, bytes: usize) -> Result<RawNode> {
        Ok(self.record(at.graph, Recorded::Copy { to, from, bytes }))
    }

    unsafe fn record_fill_zero(&self, at: RawPlace, address: u64, bytes: usize) -> Result<RawNode> {
        Ok(self.record(at.graph, Recorded::FillZero { address, bytes }))
    }

    unsafe fn instantiate(&self, graph: RawGraph) -> Result<RawExec> {
        let exec = self.handle();
        let recorded = self.recorded_work(graph.0);
        lock(&self.graphs).insert(exec, recorded);
        Ok(RawExec(exec))
    }

    unsafe fn update_exec(&self, exec: RawExec, graph: RawGraph) -> Result<bool> {
        let (old, new) = (self.recorded_work(exec.0), self.recorded_work(graph.0));
        let fits = old.len() == new.len() && old.iter().zip(&*new).all(|(old, new)| old.is_alike(new));
        if fits {
            lock(&self.graphs).insert(exec.0, new);
        }
        Ok(fits)
    }

    unsafe fn launch_graph(&self, stream: RawStream, exec: RawExec) -> Result<()> {
        let recorded = self.recorded_work(exec.0);
        // SAFETY: the contract of the trait, which is that of what was recorded.
        recorded.iter().try_for_each(|work| unsafe { work.run(self, stream) })
    }

    unsafe fn destroy_exec(&self, exec: RawExec) {
        lock(&self.graphs).remove(&exec.0);
    }
}
