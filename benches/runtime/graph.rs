// SPDX-License-Identifier: MIT OR Apache-2.0
//! 1,000 small operations launched one by one, and as a graph; a capture and an update of them:
//! `cargo bench --bench runtime -- graph`. By the host's clock, medians, until the work is done; results are compared.
//! Each operation reads what the one before has written.
//!
//! Beside it there is what the driver takes for as many launches of kernels that do nothing, or add 1 to 1,000 numbers in
//! the fewest instructions, by its own calls alone: one by one, and as graphs of one chain and of several side by side.

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use crate::driver::{self, check};
use cuda_driver::sys;
use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, Result};

const OPERATIONS: usize = 1000;
const LEN: usize = 1000;

/// Adds 1 so many times.
fn work(x: &DeviceArray<f32, Ix1>) -> Result<DeviceArray<f32, Ix1>> {
    let mut y = x.add_scalar(1.0)?;
    for _ in 1..OPERATIONS {
        y = y.add_scalar(1.0)?;
    }
    Ok(y)
}

/// The median time of `work`.
fn median(rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[rounds / 2])
}

pub fn run() -> Result<()> {
    let device = Device::auto()?;
    let rounds = if device.is_simulator() { 3 } else { 101 };
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &Array1::from_elem(LEN, 0.0f32))?;
    let expected = Array1::from_elem(LEN, OPERATIONS as f32);
    println!(
        "{}: {OPERATIONS} operations on {LEN} elements",
        device.properties().name
    );
    let print = |name: &str, time: Duration| println!("{name:>24}  {:>10.1} µs", time.as_secs_f64() * 1e6);

    assert_eq!(work(&x)?.to_ndarray()?, expected);
    let one_by_one = median(rounds, || {
        work(&x)?;
        stream.synchronize()
    })?;
    print("one by one", one_by_one);

    let mut graph = stream.capture(&x, |_, x| work(x))?;
    graph.launch()?;
    assert_eq!(graph.output().to_ndarray()?, expected);
    let as_a_graph = median(rounds, || {
        graph.launch()?;
        stream.synchronize()
    })?;
    print("as a graph", as_a_graph);
    print(
        "capture",
        median(rounds, || stream.capture(&x, |_, x| work(x)).map(drop))?,
    );
    print("update", median(rounds, || graph.update(|_, x| work(x)))?);
    graph.launch()?;
    assert_eq!(graph.output().to_ndarray()?, expected);
    println!(
        "the graph is {:.1} × as fast",
        one_by_one.as_secs_f64() / as_a_graph.as_secs_f64()
    );
    if !device.is_simulator() {
        by_the_driver(rounds)?;
    }
    Ok(())
}

/// Kernels of one block.
const KERNELS: &std::ffi::CStr = c"
.version 6.3
.target sm_75
.address_size 64

.visible .entry nothing(.param .u64 numbers)
{
    ret;
}

.visible .entry add_one(.param .u64 numbers)
{
    .reg .u64 %address, %offset;
    .reg .u32 %thread;
    .reg .f32 %a, %b, %c, %d;
    ld.param.u64 %address, [numbers];
    cvta.to.global.u64 %address, %address;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %offset, %thread, 16;
    add.u64 %address, %address, %offset;
    ld.global.v4.f32 {%a, %b, %c, %d}, [%address];
    add.f32 %a, %a, 0f3f800000;
    add.f32 %b, %b, 0f3f800000;
    add.f32 %c, %c, 0f3f800000;
    add.f32 %d, %d, 0f3f800000;
    st.global.v4.f32 [%address], {%a, %b, %c, %d};
    ret;
}
";

/// Threads of the kernels' block, each of which has four numbers.
const THREADS: u32 = 250;

/// Prints the driver's times.
fn by_the_driver(rounds: usize) -> Result<()> {
    let driver = Driver::new();
    for name in [c"nothing", c"add_one"] {
        let kernel = driver.kernel(name);
        let one_by_one = median(rounds, || {
            (0..OPERATIONS).for_each(|_| driver.launch(kernel));
            driver.synchronize();
            Ok(())
        })?;
        let name = name.to_string_lossy();
        println!(
            "the driver, {name}: one by one {:.1} µs",
            one_by_one.as_secs_f64() * 1e6
        );
        for chains in [1, 2, 4, 8] {
            let exec = driver.graph(kernel, chains);
            let time = median(rounds, || {
                // SAFETY: a graph and a stream that live.
                check(unsafe { sys::cuGraphLaunch(exec, driver.stream) });
                driver.synchronize();
                Ok(())
            })?;
            println!(
                "{:>24}  {:>10.1} µs, {:.1} × as fast",
                format!("a graph of {chains} chains"),
                time.as_secs_f64() * 1e6,
                one_by_one.as_secs_f64() / time.as_secs_f64()
            );
            // SAFETY: its launches are done.
            check(unsafe { sys::cuGraphExecDestroy(exec) });
        }
    }
    Ok(())
}

/// The driver's own calls, on a stream of their own. What is made is there until the program ends.
struct Driver {
    stream: sys::CUstream,
    module: sys::CUmodule,
    numbers: sys::CUdeviceptr,
}

impl Driver {
    fn new() -> Self {
        let stream = driver::stream();
        let (mut module, mut numbers) = (ptr::null_mut(), 0);
        // SAFETY: functions that write a handle or an address, and PTX that ends with a zero; the device was opened, so
        // there is one.
        unsafe {
            let (ptx, none) = (KERNELS.as_ptr().cast(), ptr::null_mut());
            check(sys::cuModuleLoadDataEx(&mut module, ptx, 0, none, ptr::null_mut()));
            check(sys::cuMemAlloc_v2(&mut numbers, 8 * LEN * size_of::<f32>()));
        }
        Self {
            stream,
            module,
            numbers,
        }
    }

    fn kernel(&self, name: &std::ffi::CStr) -> sys::CUfunction {
        let mut kernel = ptr::null_mut();
        // SAFETY: a module that lives, and the name of one of its kernels.
        check(unsafe { sys::cuModuleGetFunction(&mut kernel, self.module, name.as_ptr()) });
        kernel
    }

    fn launch(&self, kernel: sys::CUfunction) {
        let mut numbers = self.numbers;
        let mut params: [*mut c_void; 1] = [(&raw mut numbers).cast()];
        let (params, none) = (params.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the kernel takes an address, at which it has room.
        check(unsafe { sys::cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, self.stream, params, none) });
    }

    fn synchronize(&self) {
        // SAFETY: a stream that lives.
        check(unsafe { sys::cuStreamSynchronize(self.stream) });
    }

    /// As many launches in all, those of a chain one behind the other, each chain with numbers of its own.
    fn graph(&self, kernel: sys::CUfunction, chains: usize) -> sys::CUgraphExec {
        let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: writes a handle.
        check(unsafe { sys::cuGraphCreate(&mut graph, 0) });
        for chain in 0..chains {
            let mut numbers = self.numbers + (chain * LEN * size_of::<f32>()) as u64;
            let mut params: [*mut c_void; 1] = [(&raw mut numbers).cast()];
            let launch = sys::CudaKernelNodeParams {
                function: kernel,
                grid: [1; 3],
                block: [THREADS, 1, 1],
                shared_bytes: 0,
                params: params.as_mut_ptr(),
                extra: ptr::null_mut(),
            };
            let mut last = ptr::null_mut();
            for i in 0..OPERATIONS / chains {
                let mut node = ptr::null_mut();
                // SAFETY: as for `launch`; the driver copies the parameters, and the node before lives.
                check(unsafe { sys::cuGraphAddKernelNode(&mut node, graph, &last, usize::from(i > 0), &launch) });
                last = node;
            }
        }
        // SAFETY: a graph that lives, and is not used behind this; writes a handle.
        unsafe {
            check(sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0));
            check(sys::cuGraphDestroy(graph));
        }
        exec
    }
}
