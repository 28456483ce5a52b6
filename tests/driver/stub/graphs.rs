// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stub's graphs: their nodes, which are done in order when a graph is launched.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex};

use super::{
    NOT_INITIALIZED, OUT_OF_MEMORY, PROCESS, SUCCESS, UNKNOWN, UPDATE_FAILURE, broken, handle, has_dependent_launches,
    is_due, log, queue, told,
};

/// What a graph does: a kernel, or a copy (to, from, bytes) as [`queue`] takes it.
#[derive(Clone)]
enum Node {
    Kernel(usize),
    Copy(usize, usize, usize),
}

/// The nodes of graphs, and of those that can be launched.
static GRAPHS: LazyLock<Mutex<HashMap<usize, Vec<(usize, Node)>>>> = LazyLock::new(Mutex::default);

/// Adds a node, which must come behind the last one.
///
/// # Safety
/// There are `count` nodes at `after`.
unsafe fn add_node(graph: usize, after: *const usize, count: usize, node: Node) -> usize {
    let mut graphs = GRAPHS.lock().unwrap();
    let nodes = graphs.get_mut(&graph).unwrap();
    // SAFETY: the caller's contract.
    let after = unsafe { std::slice::from_raw_parts(after, count) };
    let last: Vec<usize> = nodes.last().map(|(node, _)| *node).into_iter().collect();
    // The edge of a dependent launch is added behind it.
    assert!(after == last || after.is_empty() && has_dependent_launches());
    nodes.push((handle(), node));
    nodes.last().unwrap().0
}

functions! {
    fn cuGraphCreate(graph: *mut usize, flags: u32) {
        graph.write(handle());
        GRAPHS.lock().unwrap().insert(*graph, Vec::new());
    }
    fn cuGraphDestroy(graph: usize) { assert!(GRAPHS.lock().unwrap().remove(&graph).is_some()) }
    fn cuGraphAddKernelNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const c_void
    ) {
        node.write(add_node(graph, after, count, Node::Kernel(params.cast::<usize>().read())))
    }
    fn cuGraphNodeGetType(node: usize, kind: *mut c_int) {
        let graphs = GRAPHS.lock().unwrap();
        let (_, of) = graphs.values().flatten().find(|(other, _)| *other == node).unwrap();
        kind.write(match of {
            Node::Kernel(_) => 0,
            Node::Copy(..) => 1,
        })
    }
    fn cuGraphAddDependencies_v2(
        graph: usize, from: *const usize, to: *const usize, data: *const [u8; 8], count: usize
    ) {
        let graphs = GRAPHS.lock().unwrap();
        let nodes = &graphs[&graph];
        let last: Vec<usize> = nodes[nodes.len() - 2..].iter().map(|(node, _)| *node).collect();
        assert_eq!((&last[..], count), (&[from.read(), to.read()][..], 1));
        assert_eq!(data.read(), [1, 0, 1, 0, 0, 0, 0, 0]);
        log("dependent node")
    }
    fn cuGraphKernelNodeSetAttribute(node: usize, attribute: c_int, value: *const c_int) {
        let graphs = GRAPHS.lock().unwrap();
        let mut nodes = graphs.values().flatten();
        assert!(nodes.any(|(other, kind)| *other == node && matches!(kind, Node::Kernel(_))));
        log(&format!("attribute {attribute} of a node: {}", *value))
    }
    fn cuGraphAddMemcpyNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const [usize; 25], context: usize
    ) {
        // The addresses, the bytes, one row of one slice.
        let params = params.read();
        assert_eq!((params[4] as u32, params[15] as u32, params[23], params[24]), (2, 2, 1, 1));
        node.write(add_node(graph, after, count, Node::Copy(params[17], params[6], params[22])))
    }
    fn cuGraphAddMemsetNode(
        node: *mut usize, graph: usize, after: *const usize, count: usize, params: *const [usize; 5], context: usize
    ) {
        let params = params.read();
        let (value, element_size) = (params[2] as u32, params[2] >> 32);
        assert_eq!((value, params[4]), (0, 1));
        node.write(add_node(graph, after, count, Node::Copy(params[0], 0, element_size * params[3])))
    }
    fn cuGraphInstantiateWithFlags(exec: *mut usize, graph: usize, flags: u64) {
        exec.write(handle());
        let mut graphs = GRAPHS.lock().unwrap();
        let nodes = graphs[&graph].clone();
        log(&format!("graph of {} nodes", nodes.len()));
        graphs.insert(*exec, nodes);
    }
    fn cuGraphExecUpdate(exec: usize, graph: usize, error: *mut usize, result: *mut c_int) {
        let mut graphs = GRAPHS.lock().unwrap();
        let (old, new) = (graphs[&exec].clone(), graphs[&graph].clone());
        let kind = |(_, node): &(usize, Node)| std::mem::discriminant(node);
        if !old.iter().map(kind).eq(new.iter().map(kind)) {
            log("graph is another");
            return UPDATE_FAILURE;
        }
        log("graph updated");
        graphs.insert(exec, new);
    }
    fn cuGraphExecDestroy(exec: usize) { assert!(GRAPHS.lock().unwrap().remove(&exec).is_some()) }
    fn cuGraphLaunch(exec: usize, stream: usize) {
        let nodes = GRAPHS.lock().unwrap()[&exec].clone();
        for (_, node) in nodes {
            match node {
                Node::Kernel(function) => assert_ne!(function, 0),
                Node::Copy(to, from, bytes) => queue(stream, to, from, bytes),
            }
        }
        log("graph launched")
    }
}
