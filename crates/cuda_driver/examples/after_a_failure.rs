// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this machine's driver does after a kernel has failed: which ways to another context it takes in the same process.
//!
//! ```text
//! cargo run -p cuda_driver --example after_a_failure
//! ```
//!
//! A way is a list of calls, each printed with its status. Every failure meets every way, in a process of its own.

use std::ffi::{CStr, c_uint, c_void};
use std::process::Command;
use std::ptr::null_mut;

use cuda_driver::sys::{self, CUcontext, CUdevice, CUdeviceptr, CUfunction, CUmodule, CUstream, Status};

unsafe extern "C" {
    fn cuCtxCreate_v2(context: *mut CUcontext, flags: c_uint, device: CUdevice) -> Status;
    fn cuCtxDestroy_v2(context: CUcontext) -> Status;
}

/// Kernels that fail, each in another way, and one that works.
const PTX: &CStr = c".version 6.3
.target sm_75
.address_size 64
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[6] = {112, 97, 110, 105, 99, 0};
.visible .entry assertion() {
    .reg .b64 %rd<2>;
    mov.u64 %rd1, text;
    cvta.global.u64 %rd1, %rd1;
    {
    .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
    st.param.b64 [a], %rd1;
    st.param.b64 [b], %rd1;
    st.param.b32 [c], 1;
    st.param.b64 [d], %rd1;
    st.param.b64 [e], 1;
    call.uni __assertfail, (a, b, c, d, e);
    }
    ret;
}
.visible .entry breakdown() { trap; }
.visible .entry address() {
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 64;
    st.global.u32 [%rd1], 1;
    ret;
}
.visible .entry nothing() { ret; }
";

const FAILURES: [&CStr; 4] = [c"nothing", c"assertion", c"breakdown", c"address"];

/// What is done after a failure, in one of these ways.
const WAYS: [(&str, &[Call]); 6] = {
    use Call::*;
    [
        ("release", &[Release, State, Retain]),
        ("leave and release", &[Leave, Release, State, Retain]),
        ("release and reset", &[Release, State, Reset, State, Retain]),
        ("reset and release", &[Leave, Reset, Release, State, Retain]),
        (
            "destroy all, release and reset",
            &[Destroy, Leave, Release, State, Retain, Reset, State, Retain],
        ),
        ("a context that is not the primary one", &[Own]),
    ]
};

#[derive(Clone, Copy)]
enum Call {
    /// `cuCtxSetCurrent` of none.
    Leave,
    /// Frees the memory and destroys stream and module.
    Destroy,
    /// `cuDevicePrimaryCtxRelease`
    Release,
    /// `cuDevicePrimaryCtxGetState`
    State,
    /// `cuDevicePrimaryCtxReset`
    Reset,
    /// `cuDevicePrimaryCtxRetain`, and work in that context.
    Retain,
    /// `cuCtxCreate`, a failure in that context, `cuCtxDestroy`; then work in another one.
    Own,
}

/// What the failed context has.
struct Made {
    module: CUmodule,
    stream: CUstream,
    memory: CUdeviceptr,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [failure, way] = &arguments[..] {
        return child(failure.parse().expect("a number"), way.parse().expect("a number"));
    }
    for failure in 0..FAILURES.len() {
        for way in 0..WAYS.len() {
            let program = std::env::current_exe().expect("this program's path");
            let arguments = [failure.to_string(), way.to_string()];
            let ended = Command::new(program).args(arguments).status();
            println!("  {}\n", ended.expect("this program can be run"));
        }
    }
}

fn child(failure: usize, way: usize) {
    let (failure, (name, calls)) = (FAILURES[failure], WAYS[way]);
    println!("{}; {name}", failure.to_string_lossy());
    // SAFETY: arguments as the CUDA driver API reference wants them; what is gone is not used any more.
    unsafe {
        let mut made = None;
        if !say("cuInit", sys::cuInit(0)) {
            return;
        }
        if !matches!(calls, [Call::Own]) {
            if !retain() {
                return;
            }
            made = make();
            work(failure);
        }
        for call in calls {
            match call {
                Call::Leave => say("cuCtxSetCurrent of none", sys::cuCtxSetCurrent(null_mut())),
                Call::Destroy => {
                    let Some(made) = made.take() else { continue };
                    say("cuMemFree", sys::cuMemFree_v2(made.memory));
                    say("cuStreamDestroy", sys::cuStreamDestroy_v2(made.stream));
                    say("cuModuleUnload", sys::cuModuleUnload(made.module))
                }
                Call::Release => say("cuDevicePrimaryCtxRelease", sys::cuDevicePrimaryCtxRelease_v2(0)),
                Call::State => {
                    let (mut flags, mut active) = (0, 0);
                    let status = sys::cuDevicePrimaryCtxGetState(0, &mut flags, &mut active);
                    say(&format!("cuDevicePrimaryCtxGetState, active: {active}"), status)
                }
                Call::Reset => say("cuDevicePrimaryCtxReset", sys::cuDevicePrimaryCtxReset_v2(0)),
                Call::Retain => retain() && work(c"nothing"),
                Call::Own => own(failure) && own(c"nothing"),
            };
        }
    }
}

fn say(call: &str, status: Status) -> bool {
    match status.is_success() {
        true => println!("  {call}: success"),
        false => println!("  {call}: {status}"),
    }
    status.is_success()
}

/// Retains the primary context and makes it current.
///
/// # Safety
///
/// The driver is initialised.
unsafe fn retain() -> bool {
    let mut context = null_mut();
    // SAFETY: writes a handle; then a context that lives.
    unsafe {
        say(
            "cuDevicePrimaryCtxRetain",
            sys::cuDevicePrimaryCtxRetain(&mut context, 0),
        ) && say("cuCtxSetCurrent", sys::cuCtxSetCurrent(context))
    }
}

/// Memory, a stream and a module.
///
/// # Safety
///
/// A context is current.
unsafe fn make() -> Option<Made> {
    let (mut module, mut stream, mut memory) = (null_mut(), null_mut(), 0);
    // SAFETY: writes handles and an address; text that ends with a zero.
    let made = unsafe {
        say("cuModuleLoadDataEx", load(&mut module))
            && say(
                "cuStreamCreateWithPriority",
                sys::cuStreamCreateWithPriority(&mut stream, sys::CU_STREAM_NON_BLOCKING, 0),
            )
            && say("cuMemAlloc", sys::cuMemAlloc_v2(&mut memory, 1 << 20))
    };
    made.then_some(Made { module, stream, memory })
}

/// # Safety
///
/// A context is current.
unsafe fn load(module: &mut CUmodule) -> Status {
    // SAFETY: writes a handle; text that ends with a zero, and no options.
    unsafe { sys::cuModuleLoadDataEx(module, PTX.as_ptr().cast(), 0, null_mut(), null_mut()) }
}

/// Launches that kernel and waits for it.
///
/// # Safety
///
/// A context is current.
unsafe fn work(kernel: &CStr) -> bool {
    let (mut module, mut function): (CUmodule, CUfunction) = (null_mut(), null_mut());
    let launch = |function| {
        let none = null_mut::<*mut c_void>();
        // SAFETY: a function without parameters.
        unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, null_mut(), none, none) }
    };
    // SAFETY: writes handles; a name that ends with a zero.
    unsafe {
        say("cuModuleLoadDataEx", load(&mut module))
            && say(
                "cuModuleGetFunction",
                sys::cuModuleGetFunction(&mut function, module, kernel.as_ptr()),
            )
            && say("cuLaunchKernel", launch(function))
            && say("cuCtxSynchronize", sys::cuCtxSynchronize())
    }
}

/// Works in a context that is not the primary one, and destroys it.
///
/// # Safety
///
/// The driver is initialised.
unsafe fn own(kernel: &CStr) -> bool {
    let mut context = null_mut();
    // SAFETY: writes a handle; then a context that lives until it is destroyed.
    unsafe {
        if !say("cuCtxCreate", cuCtxCreate_v2(&mut context, 0, 0)) {
            return false;
        }
        work(kernel);
        say("cuCtxDestroy", cuCtxDestroy_v2(context))
    }
}
