// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dependent launches ("programmatic dependent launch" in NVIDIA's documentation): the device makes a kernel's launch
//! ready while the kernel before it on the stream, or in the graph, still runs, and its blocks begin as soon as those of
//! the other are done, instead of behind all that the end of a kernel takes.
//!
//! Such a kernel may not access memory before it has waited for the other (`griddepcontrol.wait`), which GPUs from Hopper
//! on have. So the PTX of kernels that are this library's to load, those of kernels crates and of expressions, gets that
//! wait as each kernel's first instruction when it is loaded on one: then it is the same to the kernel, and to what comes
//! behind it, as if it had begun after the other's end. A module of another compiler is loaded, and launched, as it is.
//!
//! The kernel before does not say ahead of its end that the next may take its place (`griddepcontrol.launch_dependents`):
//! blocks that wait take room from those that work, and are spread as these leave it. Products of f32 whose side is 768
//! took 45 µs for 35 so, and nothing took less than it does without.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt::Write as _;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use cuda_driver::sys::{self, CUfunction, CUgraph, CUgraphNode, Status};
use cuda_sim::{Dim3, LaunchConfig};

use crate::device::Properties;

/// The instruction that a kernel begins with, and the first version of PTX and the first target that have it.
const WAIT: &str = "\tgriddepcontrol.wait;\n";
const VERSION: (u32, u32) = (7, 8);
const TARGET: u32 = 90;

/// The first driver whose graphs have such launches, by its CUDA version.
const DRIVER: (u32, u32) = (12, 3);

/// Whether kernels of this library are launched so on the device.
fn is_possible(device: &Properties) -> bool {
    device.compute_capability >= Some((TARGET / 10, 0)) && device.driver_version >= Some(DRIVER) && calls().is_some()
}

/// PTX whose kernels wait, before all else, for the kernel that was launched before them. `None` where the device [has no
/// such launches](is_possible), and where it is not known how to change the text: it is none that a kernels crate or an
/// expression has.
pub(super) fn waiting(device: &Properties, ptx: &str) -> Option<String> {
    is_possible(device).then(|| with_waits(ptx)).flatten()
}

fn with_waits(ptx: &str) -> Option<String> {
    let mut text = String::with_capacity(ptx.len() + 256);
    let (mut is_header, mut is_entry) = (true, false);
    for line in ptx.split_inclusive('\n') {
        if is_header && let Some(version) = line.strip_prefix(".version ") {
            let (major, minor) = version.trim().split_once('.')?;
            let (major, minor) = VERSION.max((major.parse().ok()?, minor.parse().ok()?));
            writeln!(text, ".version {major}.{minor}").ok()?;
            continue;
        }
        if is_header && let Some(target) = line.strip_prefix(".target sm_") {
            is_header = false;
            let digits = target.find(|c: char| !c.is_ascii_digit()).unwrap_or(target.len());
            if target[..digits].parse::<u32>().ok()? < TARGET {
                writeln!(text, ".target sm_{TARGET}{}", target[digits..].trim_end()).ok()?;
                continue;
            }
        }
        is_entry |= line.contains(".entry ");
        match line.find('{') {
            Some(body) if is_entry => {
                is_entry = false;
                text.push_str(&line[..=body]);
                text.push('\n');
                text.push_str(WAIT);
                text.push_str(&line[body + 1..]);
            }
            _ => text.push_str(line),
        }
    }
    (!is_header && !is_entry).then_some(text)
}

/// What a launch is told beside its function and its parameters (`CUlaunchConfig`).
#[repr(C)]
struct CuLaunchConfig {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    stream: sys::CUstream,
    attributes: *const LaunchAttribute,
    count: c_uint,
}

/// One thing more (`CUlaunchAttribute`).
#[derive(Clone, Copy)]
#[repr(C)]
struct LaunchAttribute {
    /// What it is about.
    id: c_uint,
    _padding: c_uint,
    /// The value, and room for those of others.
    value: [c_uint; 16],
}

impl LaunchAttribute {
    const fn new(id: c_uint, [x, y, z]: [c_uint; 3]) -> Self {
        let mut value = [0; 16];
        (value[0], value[1], value[2]) = (x, y, z);
        Self { id, _padding: 0, value }
    }
}

/// That the launch need not wait for the end of the kernel before it on the stream
/// (`CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`).
const DEPENDENT: LaunchAttribute = LaunchAttribute::new(6, [1, 0, 0]);

/// The extents of the launch's clusters (`CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`).
const CLUSTER: c_uint = 4;

/// How two nodes of a graph are ordered (`CUgraphEdgeData`).
#[repr(C)]
struct EdgeData {
    from_port: u8,
    to_port: u8,
    kind: u8,
    _reserved: [u8; 5],
}

/// As two launches on a stream are of which the second is [`DEPENDENT`] (`CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC`,
/// `CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC`).
const DEPENDENT_EDGE: EdgeData = EdgeData {
    from_port: 1,
    to_port: 0,
    kind: 1,
    _reserved: [0; 5],
};

/// The kind of a node that is a kernel's (`CU_GRAPH_NODE_TYPE_KERNEL`).
const KERNEL_NODE: c_int = 0;

/// `cuLaunchKernelEx`, since CUDA 11.8.
type Launch = unsafe extern "C" fn(*const CuLaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void) -> Status;

/// `cuGraphNodeGetType`, since CUDA 10.0.
type NodeType = unsafe extern "C" fn(CUgraphNode, *mut c_int) -> Status;

/// `cuGraphAddDependencies`, as it is since CUDA 12.3.
type AddDependencies =
    unsafe extern "C" fn(CUgraph, *const CUgraphNode, *const CUgraphNode, *const EdgeData, usize) -> Status;

/// The driver's functions that not every driver has.
struct Calls {
    launch: Launch,
    node_type: NodeType,
    add_dependencies: AddDependencies,
}

fn calls() -> Option<&'static Calls> {
    static CALLS: OnceLock<Option<Calls>> = OnceLock::new();
    let calls = CALLS.get_or_init(|| {
        let launch = cuda_driver::address(c"cuLaunchKernelEx", (11, 8))?;
        let node_type = cuda_driver::address(c"cuGraphNodeGetType", (10, 0))?;
        let add_dependencies = cuda_driver::address(c"cuGraphAddDependencies", DRIVER)?;
        // SAFETY: the driver's functions of these names and versions, which have these types in cuda.h.
        Some(unsafe {
            Calls {
                launch: mem::transmute::<NonNull<c_void>, Launch>(launch),
                node_type: mem::transmute::<NonNull<c_void>, NodeType>(node_type),
                add_dependencies: mem::transmute::<NonNull<c_void>, AddDependencies>(add_dependencies),
            }
        })
    });
    calls.as_ref()
}

/// Launches a kernel that [waits](waiting), or does not, in clusters of these extents, if there are any: the name of the driver's
/// function, and what it says.
///
/// # Safety
///
/// The parameters are the function's; the stream lives and is the current context's. The driver [is one that can
/// this](is_possible).
pub(super) unsafe fn launch(
    function: CUfunction,
    config: &LaunchConfig,
    (waits, cluster): (bool, Option<Dim3>),
    stream: sys::CUstream,
    params: *mut *mut c_void,
) -> (&'static str, Status) {
    let (grid, block) = (config.grid, config.block);
    let (mut attributes, mut count) = ([DEPENDENT; 2], usize::from(waits));
    if let Some(Dim3 { x, y, z }) = cluster {
        attributes[count] = LaunchAttribute::new(CLUSTER, [x, y, z]);
        count += 1;
    }
    let config = CuLaunchConfig {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        shared_bytes: config.dynamic_shared as u32,
        stream,
        attributes: attributes.as_ptr(),
        count: count as c_uint,
    };
    // SAFETY: the caller's promise; the driver copies the parameters, and what the configuration refers to lives.
    let status = calls().map(|calls| unsafe { (calls.launch)(&config, function, params, ptr::null_mut()) });
    ("cuLaunchKernelEx", status.unwrap_or(Status::NOT_SUPPORTED))
}

/// Whether a launch may come behind that node as [`follow`] has it: where it is a kernel's.
///
/// # Safety
///
/// The node is null, for none, or of a graph that lives.
pub(super) unsafe fn can_follow(node: CUgraphNode) -> bool {
    let mut kind = -1;
    // SAFETY: the caller's promise, and a place for a number.
    let ask = |calls: &Calls| unsafe { (calls.node_type)(node, &mut kind) };
    let answer = calls().filter(|_| !node.is_null()).map(ask);
    answer.is_some_and(Status::is_success) && kind == KERNEL_NODE
}

/// Has a kernel that [waits](waiting) follow another one in a graph.
///
/// # Safety
///
/// Both are kernels' nodes of that graph, which lives. The driver [is one that can this](is_possible).
pub(super) unsafe fn follow(graph: CUgraph, before: CUgraphNode, node: CUgraphNode) -> Status {
    // SAFETY: the caller's promise; one edge with its data.
    let status = calls().map(|calls| unsafe { (calls.add_dependencies)(graph, &before, &node, &DEPENDENT_EDGE, 1) });
    status.unwrap_or(Status::NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_waits_and_nothing_else_changes() {
        let ptx = "//\n.version 6.3\n.target sm_75\n.address_size 64\n.func f()\n{\n\tret;\n}\n.visible .entry a(\n\t.param \
                   .u64 p\n)\n.maxntid 256\n{\n\t.reg .b32 \t%r<2>;\n\tret;\n}\n.visible .entry b() { ret;\n}\n";
        let wanted = "//\n.version 7.8\n.target sm_90\n.address_size 64\n.func f()\n{\n\tret;\n}\n.visible .entry \
                      a(\n\t.param .u64 p\n)\n.maxntid 256\n{\n\tgriddepcontrol.wait;\n\n\t.reg .b32 \
                      \t%r<2>;\n\tret;\n}\n.visible .entry b() {\n\tgriddepcontrol.wait;\n ret;\n}\n";
        assert_eq!(with_waits(ptx).unwrap(), wanted);
    }

    #[test]
    fn later_versions_and_targets_stay() {
        for header in [
            ".version 8.0\n.target sm_90a\n",
            ".version 8.7\n.target sm_100f, debug\n",
        ] {
            assert_eq!(with_waits(header).unwrap(), header);
        }
        let debug = ".version 7.8\n.target sm_80, debug\n";
        assert_eq!(with_waits(debug).unwrap(), ".version 7.8\n.target sm_90, debug\n");
    }

    #[test]
    fn what_is_no_ptx_is_left_alone() {
        for text in [
            "",
            "\x7fELF",
            ".version 7\n.target sm_75\n",
            ".version 7.8\n.target x\n",
        ] {
            assert_eq!(with_waits(text), None, "{text}");
        }
    }
}
