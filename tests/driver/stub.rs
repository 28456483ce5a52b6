// SPDX-License-Identifier: MIT OR Apache-2.0
//! A libcuda of the functions that Warpsmith calls, for the tests of driver.rs, which compile it.
//!
//! Device memory is the host's. A function returns what the variable `STUB_<its name>` says, if it is set, and does
//! nothing else then. The number of GPUs is `STUB_GPUS` (1); with `STUB_POOLS` of 0 they have no stream-ordered
//! allocator. As with the driver, nothing works in a process that was forked after `cuInit`. Copies are done when their
//! stream, or an event behind them, is waited for, which is as late as the driver's documentation allows. A stream that
//! is gone is not to be named any more, and its handle is given to the next one. The pools have `STUB_POOL_BYTES`
//! together, and devices reach those of others unless `STUB_PEERS` is 0. The driver is for CUDA 12.4, or
//! `STUB_VERSION`. What matters to a test is written to the file `STUB_LOG`, a line each. A test can have the nth call fail,
//! of whatever function, by `stub_fail`, and the context fail for good at the nth call in it, by `stub_break`. When nobody
//! retains a context any more all that is in it is gone; of one that has failed the status stays, where `STUB_STICKY` is
//! `1` until the context is reset, where it is `2` for good.
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const OUT_OF_MEMORY: c_int = 2;
const NOT_INITIALIZED: c_int = 3;
const NOT_FOUND: c_int = 500;
const NOT_READY: c_int = 600;
const COOPERATIVE_LAUNCH_TOO_LARGE: c_int = 720;
const UPDATE_FAILURE: c_int = 910;
const UNKNOWN: c_int = 999;

/// The process that called `cuInit`; 0 for none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Handles that are given out.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

/// Calls since `stub_fail`, and which of them fail.
static CALLS: AtomicU64 = AtomicU64::new(0);
static FIRST_FAILURE: AtomicU64 = AtomicU64::new(u64::MAX);
static END_OF_FAILURES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Has the next calls from number `first` to `end` fail, counted from 0; returns how many there were since the last time.
#[unsafe(no_mangle)]
pub extern "C" fn stub_fail(first: u64, end: u64) -> u64 {
    FIRST_FAILURE.store(first, Ordering::Relaxed);
    END_OF_FAILURES.store(end, Ordering::Relaxed);
    CALLS.swap(0, Ordering::Relaxed)
}

/// The status that the context fails with, and the call from which on it does; 0 for none.
static BROKEN: AtomicI32 = AtomicI32::new(0);
static BREAKS_AT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Has the context fail with `status` at call number `at` of the next ones, until it is destroyed; returns how many calls
/// there were since the last time.
#[unsafe(no_mangle)]
pub extern "C" fn stub_break(at: u64, status: c_int) -> u64 {
    BREAKS_AT.store(u64::MAX, Ordering::Relaxed);
    BROKEN.store(status, Ordering::Relaxed);
    let calls = CALLS.swap(0, Ordering::Relaxed);
    BREAKS_AT.store(at, Ordering::Relaxed);
    calls
}

/// What a function of the context returns, if that has failed. `number` is the call's.
fn broken(function: &str, number: u64) -> Option<c_int> {
    let outside = function.starts_with("cuDevice") || ["cuInit", "cuDriverGetVersion"].contains(&function);
    let is_broken = !outside && number >= BREAKS_AT.load(Ordering::Relaxed);
    // It stays so when the calls are counted anew.
    is_broken.then(|| {
        BREAKS_AT.store(0, Ordering::Relaxed);
        BROKEN.load(Ordering::Relaxed)
    })
}

/// How often the context of each GPU is retained.
static RETAINED: LazyLock<Mutex<HashMap<c_int, u32>>> = LazyLock::new(Mutex::default);

/// What contexts that failed have left.
static LEFT: AtomicI32 = AtomicI32::new(SUCCESS);

/// The variable that was asked for last.
static VARIABLE: AtomicUsize = AtomicUsize::new(0);

/// The words of the variable that the host has asked for last.
#[unsafe(no_mangle)]
pub extern "C" fn stub_variable() -> *const [u64; 2] {
    VARIABLE.load(Ordering::Relaxed) as *const [u64; 2]
}

/// All that is in the contexts is gone; those of several GPUs end together here.
fn destroy() {
    if BREAKS_AT.load(Ordering::Relaxed) == 0 && std::env::var_os("STUB_STICKY").is_some() {
        LEFT.store(BROKEN.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    STREAMS.lock().unwrap().clear();
    EVENTS.lock().unwrap().clear();
    COPIES.lock().unwrap().clear();
    POOL_MEMORY.lock().unwrap().clear();
    HOST_MEMORY.lock().unwrap().clear();
    BREAKS_AT.store(u64::MAX, Ordering::Relaxed);
    log("context destroyed");
}

/// Locks memory of the process, or allocates it.
fn lock_memory(memory: usize, bytes: usize) {
    assert!(HOST_MEMORY.lock().unwrap().insert(memory, bytes).is_none(), "locked twice");
    log("host memory allocated")
}

fn unlock_memory(memory: usize) {
    let bytes = HOST_MEMORY.lock().unwrap().remove(&memory).expect("allocated and not freed");
    let memory = memory..memory + bytes;
    let uses = |copy: &&Copy| memory.contains(&copy.from) || memory.contains(&copy.to);
    let pending = COPIES.lock().unwrap().iter().filter(uses).count();
    log(&format!("host memory freed, copies pending: {pending}"))
}

/// The number of this call; whether it is to fail.
fn is_due() -> (u64, bool) {
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    let due = (FIRST_FAILURE.load(Ordering::Relaxed)..END_OF_FAILURES.load(Ordering::Relaxed)).contains(&number);
    (number, due)
}

/// A copy that is not yet done.
struct Copy {
    stream: usize,
    /// How many were queued before, on all streams.
    number: usize,
    to: usize,
    from: usize,
    bytes: usize,
    /// What is called instead, with `from`. Without one, and `from` 0, the bytes are set to 0.
    function: Option<unsafe extern "C" fn(*mut c_void)>,
}

static COPIES: Mutex<Vec<Copy>> = Mutex::new(Vec::new());
static QUEUED: AtomicUsize = AtomicUsize::new(0);

/// Events, with the stream on which they were recorded and the number of copies that were queued then.
static EVENTS: LazyLock<Mutex<HashMap<usize, (usize, usize)>>> = LazyLock::new(Mutex::default);

/// Handles of streams, and whether the stream lives.
static STREAMS: LazyLock<Mutex<HashMap<usize, bool>>> = LazyLock::new(Mutex::default);

/// Host memory that kernels write: the flag, and where such memory was allocated last.
const MAPPED: u32 = 2;
static LANDING: AtomicUsize = AtomicUsize::new(0);

/// Page-locked memory: bytes by address.
static HOST_MEMORY: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

/// Whether the driver has launches that need not wait for the end of the kernel before: with `STUB_DEPENDENT` of 1.
fn has_dependent_launches() -> bool {
    std::env::var("STUB_DEPENDENT").is_ok_and(|text| text == "1")
}

fn assert_lives(stream: usize) {
    assert!(STREAMS.lock().unwrap()[&stream], "stream {stream:#x} is gone");
}

fn queue(stream: usize, to: usize, from: usize, bytes: usize) {
    assert_lives(stream);
    let mut copies = COPIES.lock().unwrap();
    let number = QUEUED.fetch_add(1, Ordering::Relaxed);
    copies.push(Copy {
        stream,
        number,
        to,
        from,
        bytes,
        function: None,
    });
}

/// Memory of the pools that is allocated: bytes by address.
static POOL_MEMORY: LazyLock<Mutex<HashMap<u64, usize>>> = LazyLock::new(Mutex::default);

/// The devices of the pools.
static POOLS: LazyLock<Mutex<HashMap<usize, c_int>>> = LazyLock::new(Mutex::default);

/// What the pools have taken from the system.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// Takes memory from the pools; not, if they have not enough.
fn from_pool(bytes: usize) -> Option<u64> {
    let mut memory = POOL_MEMORY.lock().unwrap();
    let used = memory.values().sum::<usize>() + bytes;
    let most = std::env::var("STUB_POOL_BYTES").map_or(usize::MAX, |text| text.parse().unwrap());
    if used > most {
        return None;
    }
    RESERVED.fetch_max(used, Ordering::Relaxed);
    // Never given back: a test's few bytes. Aligned as the driver's.
    #[derive(Clone)]
    #[repr(align(256))]
    struct Line(#[allow(dead_code)] [u8; 256]);
    let address = Vec::leak(vec![Line([0; 256]); bytes.div_ceil(256)]).as_ptr() as u64;
    memory.insert(address, bytes);
    Some(address)
}

/// Does the copies of `stream` among the first `until` that were queued; returns how many are left, of all.
unsafe fn copy(stream: usize, until: usize) -> usize {
    let mut copies = COPIES.lock().unwrap();
    for copy in copies.extract_if(.., |copy| copy.stream == stream && copy.number < until) {
        // SAFETY: the caller's contract when the copy was queued.
        unsafe {
            match copy.function {
                Some(function) => function(copy.from as *mut c_void),
                None if copy.from == 0 => std::ptr::write_bytes(copy.to as *mut u8, 0, copy.bytes),
                None => std::ptr::copy(copy.from as *const u8, copy.to as *mut u8, copy.bytes),
            }
        }
    }
    copies.len()
}

/// Where `event` was recorded.
fn recorded(event: usize) -> (usize, usize) {
    EVENTS.lock().unwrap()[&event]
}

/// The handle of the first GPU's primary context; the others' follow.
const CONTEXT: usize = 0x100;

thread_local! {
    static CURRENT: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

fn log(line: &str) {
    if let Some(path) = std::env::var_os("STUB_LOG") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// What the environment has `function` return.
fn told(function: &str) -> Option<c_int> {
    std::env::var(format!("STUB_{function}")).ok()?.parse().ok()
}

fn handle() -> usize {
    NEXT.fetch_add(0x10, Ordering::Relaxed)
}

fn milliseconds(variable: &str) -> Duration {
    Duration::from_millis(std::env::var(variable).map_or(0, |text| text.parse().unwrap()))
}

/// Functions that return what they are told to, and NOT_INITIALIZED in a forked process.
macro_rules! functions {
    ($(fn $name:ident($($param:ident: $type:ty),*) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(unused_variables)]
        pub unsafe extern "C" fn $name($($param: $type),*) -> c_int {
            if let Some(status) = told(stringify!($name)) {
                return status;
            }
            let (number, due) = is_due();
            if let Some(status) = broken(stringify!($name), number) {
                return status;
            }
            if due {
                let allocates = ["cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuMemHostRegister_v2"].contains(&stringify!($name));
                return if allocates { OUT_OF_MEMORY } else { UNKNOWN };
            }
            let process = PROCESS.load(Ordering::Relaxed);
            if process != 0 && process != std::process::id() {
                return NOT_INITIALIZED;
            }
            // SAFETY: the caller's contract, which is the driver's.
            unsafe { $body }
            SUCCESS
        }
    )*};
}

#[path = "stub/graphs.rs"]
mod graphs;
use graphs::{cuGraphAddDependencies_v2, cuGraphNodeGetType};

functions! {
    fn cuInit(flags: u32) { PROCESS.store(std::process::id(), Ordering::Relaxed); }
    fn cuDriverGetVersion(version: *mut c_int) {
        version.write(std::env::var("STUB_VERSION").map_or(12_040, |text| text.parse().unwrap()))
    }
    fn cuDeviceGetCount(count: *mut c_int) {
        count.write(std::env::var("STUB_GPUS").map_or(1, |text| text.parse().unwrap()))
    }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) { device.write(ordinal) }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        let text = c"Stub".to_bytes_with_nul();
        name.cast::<u8>().copy_from(text.as_ptr(), text.len())
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) { bytes.write(1 << 30) }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        value.write(match attribute {
            1..=4 => 1024,
            5..=7 => 65_535,
            8 => 48 << 10,
            10 => 32,
            75 => 9,
            76 => 0,
            97 => 227 << 10,
            115 => std::env::var("STUB_POOLS").map_or(1, |text| text.parse().unwrap()),
            _ => 16,
        })
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        assert_ne!(device, peer);
        can.write(std::env::var("STUB_PEERS").map_or(1, |text| text.parse().unwrap()))
    }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        let left = LEFT.load(Ordering::Relaxed);
        log(&format!("context retained: {left}"));
        if left != SUCCESS {
            return left;
        }
        *RETAINED.lock().unwrap().entry(device).or_default() += 1;
        context.write(CONTEXT + device as usize)
    }
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        log("context released");
        let mut retained = RETAINED.lock().unwrap();
        *retained.get_mut(&device).expect("it is retained") -= 1;
        if retained.values().all(|times| *times == 0) {
            destroy();
        }
    }
    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        log("context reset");
        if std::env::var("STUB_STICKY").is_ok_and(|until| until == "1") {
            LEFT.store(SUCCESS, Ordering::Relaxed);
        }
    }
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut u32, active: *mut c_int) {
        active.write((RETAINED.lock().unwrap()[&device] > 0) as c_int)
    }
    fn cuCtxGetCurrent(context: *mut usize) {
        context.write(CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0)))
    }
    fn cuCtxSetCurrent(context: usize) {
        CURRENT.with_borrow_mut(|stack| {
            stack.pop();
            stack.push(context);
        })
    }
    fn cuCtxPushCurrent_v2(context: usize) { CURRENT.with_borrow_mut(|stack| stack.push(context)) }
    fn cuCtxPopCurrent_v2(context: *mut usize) {
        context.write(CURRENT.with_borrow_mut(|stack| stack.pop().unwrap()))
    }
    fn cuCtxSynchronize() {
        let streams: Vec<usize> = COPIES.lock().unwrap().iter().map(|copy| copy.stream).collect();
        for stream in streams {
            copy(stream, usize::MAX);
        }
        log("all waited for")
    }
    fn cuCtxGetStreamPriorityRange(last: *mut c_int, first: *mut c_int) {
        last.write(0);
        first.write(-5)
    }
    fn cuCtxGetLimit(value: *mut usize, limit: c_int) { value.write(1 << 20) }
    fn cuCtxSetLimit(limit: c_int, value: usize) {}

    fn cuModuleLoadDataEx(
        module: *mut usize, image: *const c_void, count: u32, options: *mut c_int, values: *mut *mut c_void
    ) {
        log("load begins");
        // SAFETY: what is loaded here is text, which ends with a zero.
        let waits = CStr::from_ptr(image.cast()).to_bytes().windows(20).filter(|text| text == b"griddepcontrol.wait;");
        match waits.count() {
            0 => {}
            count => log(&format!("kernels that wait: {count}")),
        }
        std::thread::sleep(milliseconds("STUB_LOAD_MS"));
        log("load ends");
        module.write(handle())
    }
    fn cuModuleUnload(module: usize) { log("module unloaded") }
    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        log(&format!("function {}", CStr::from_ptr(name).to_str().unwrap()));
        function.write(handle())
    }
    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char) {
        log(&format!("variable {}", CStr::from_ptr(name).to_str().unwrap()));
        address.write(Box::leak(Box::new([0u64; 2])).as_ptr() as u64);
        bytes.write(16);
        VARIABLE.store(*address as usize, Ordering::Relaxed)
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: usize) { value.write(1024) }
    fn cuFuncSetAttribute(function: usize, attribute: c_int, value: c_int) { log(&format!("attribute {value}")) }
    fn cuLaunchKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize,
        params: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        assert_eq!(CURRENT.with_borrow(|stack| stack.last().copied()), Some(CONTEXT));
        log(&format!("launch with {shared}"))
    }

    fn cuGetProcAddress(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64) {
        let found: *mut c_void = match CStr::from_ptr(name).to_str().unwrap() {
            _ if !has_dependent_launches() => return NOT_FOUND,
            "cuLaunchKernelEx" => cuLaunchKernelEx as *mut c_void,
            "cuGraphNodeGetType" => cuGraphNodeGetType as *mut c_void,
            "cuGraphAddDependencies" if version >= 12_030 => cuGraphAddDependencies_v2 as *mut c_void,
            _ => return NOT_FOUND,
        };
        address.write(found)
    }
    fn cuLaunchKernelEx(config: *const [u32; 16], function: usize, params: *mut *mut c_void, extra: *mut *mut c_void) {
        assert_eq!(CURRENT.with_borrow(|stack| stack.last().copied()), Some(CONTEXT));
        let config = config.read();
        let attributes = (u64::from(config[11]) << 32 | u64::from(config[10])) as *const [u32; 18];
        let attribute = attributes.read();
        assert_eq!((config[12], attribute[0], attribute[2]), (1, 6, 1));
        log(&format!("dependent launch of {} with {}", config[0] * config[1] * config[2], config[6]))
    }

    fn cuLaunchCooperativeKernel(
        function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize,
        params: *mut *mut c_void
    ) {
        assert_eq!(CURRENT.with_borrow(|stack| stack.last().copied()), Some(CONTEXT));
        if gx * gy * gz > 16 * (2048 / (bx * by * bz)) {
            return COOPERATIVE_LAUNCH_TOO_LARGE;
        }
        log(&format!("cooperative launch of {}", gx * gy * gz))
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: usize, block: c_int, shared: usize) {
        blocks.write(2048 / block)
    }
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, function: usize, shared_for: usize, shared: usize, limit: c_int
    ) {
        assert_eq!(shared_for, 0);
        grid.write(32);
        block.write(limit.min(768))
    }

    fn cuStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: c_int) {
        if priority != 0 {
            log(&format!("stream of priority {priority}"));
        }
        let mut streams = STREAMS.lock().unwrap();
        let gone = streams.iter().find_map(|(&stream, lives)| (!lives).then_some(stream));
        stream.write(gone.unwrap_or_else(handle));
        streams.insert(*stream, true);
    }
    // These two are called by `cudarc`, as are some of the others.
    fn cuStreamCreate(stream: *mut usize, flags: u32) { return cuStreamCreateWithPriority(stream, flags, 0) }
    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) {
        return cuMemAllocFromPoolAsync(address, bytes, 0, stream)
    }
    fn cuStreamDestroy_v2(stream: usize) {
        assert_lives(stream);
        // What it has queued is still to be done.
        let rest = handle();
        let mut copies = COPIES.lock().unwrap();
        copies.iter_mut().filter(|copy| copy.stream == stream).for_each(|copy| copy.stream = rest);
        let mut events = EVENTS.lock().unwrap();
        events.values_mut().filter(|(of, _)| *of == stream).for_each(|(of, _)| *of = rest);
        STREAMS.lock().unwrap().insert(stream, false);
    }
    fn cuStreamGetCtx(stream: usize, context: *mut usize) {
        assert_lives(stream);
        context.write(CONTEXT)
    }
    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) {
        assert_lives(stream);
        status.write(0)
    }
    fn cuStreamQuery(stream: usize) {
        assert_lives(stream);
        log("stream queried");
        if let Some(result) = told("KERNEL_WRITES") {
            // A kernel has written the result, and is not done yet.
            (*(LANDING.load(Ordering::Relaxed) as *const AtomicI32)).store(result, Ordering::Relaxed);
            return NOT_READY;
        }
        if COPIES.lock().unwrap().iter().any(|copy| copy.stream == stream) {
            return NOT_READY;
        }
    }
    fn cuStreamSynchronize(stream: usize) {
        assert_lives(stream);
        let left = copy(stream, usize::MAX);
        log(&format!("stream waited for, copies pending: {left}"))
    }
    fn cuLaunchHostFunc(stream: usize, function: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
        queue(stream, 0, data as usize, 0);
        COPIES.lock().unwrap().last_mut().unwrap().function = Some(function)
    }
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) {
        let (of, until) = recorded(event);
        copy(of, until);
    }
    fn cuEventCreate(event: *mut usize, flags: u32) {
        event.write(handle());
        EVENTS.lock().unwrap().insert(*event, (0, 0));
        log("event created")
    }
    fn cuEventDestroy_v2(event: usize) {
        assert!(EVENTS.lock().unwrap().remove(&event).is_some());
        log("event destroyed")
    }
    fn cuEventRecord(event: usize, stream: usize) {
        assert_lives(stream);
        log("event recorded");
        let queued = QUEUED.load(Ordering::Relaxed);
        *EVENTS.lock().unwrap().get_mut(&event).unwrap() = (stream, queued)
    }
    fn cuEventQuery(event: usize) {
        log("event queried");
        let (stream, until) = recorded(event);
        let pending = |copy: &Copy| copy.stream == stream && copy.number < until;
        if COPIES.lock().unwrap().iter().any(pending) {
            return NOT_READY;
        }
    }
    fn cuEventSynchronize(event: usize) {
        let (stream, until) = recorded(event);
        let left = copy(stream, until);
        log(&format!("event waited for, copies pending: {left}"))
    }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) { milliseconds.write(1.0) }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        free.write(1 << 29);
        total.write(1 << 30)
    }
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        address.write(Vec::leak(vec![0u128; bytes.div_ceil(16)]).as_ptr() as u64)
    }
    fn cuMemFree_v2(address: u64) {
        POOL_MEMORY.lock().unwrap().remove(&address);
        log(&format!("freed, copies pending: {}", COPIES.lock().unwrap().len()))
    }
    fn cuMemHostAlloc(memory: *mut usize, bytes: usize, flags: u32) {
        memory.write(Vec::leak(vec![0u128; bytes.div_ceil(16)]).as_ptr() as usize);
        if flags & MAPPED != 0 {
            LANDING.store(*memory, Ordering::Relaxed);
        }
        lock_memory(*memory, bytes)
    }
    fn cuMemHostRegister_v2(memory: usize, bytes: usize, flags: u32) { lock_memory(memory, bytes) }
    fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: usize, flags: u32) { address.write(memory as u64) }
    fn cuMemHostUnregister(memory: usize) { unlock_memory(memory) }
    fn cuMemFreeHost(memory: usize) { unlock_memory(memory) }
    fn cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: usize, stream: usize) {
        assert_lives(stream);
        match from_pool(bytes) {
            Some(memory) => address.write(memory),
            None => return OUT_OF_MEMORY,
        }
    }
    fn cuMemFreeAsync(address: u64, stream: usize) {
        assert_lives(stream);
        assert!(POOL_MEMORY.lock().unwrap().remove(&address).is_some(), "{address:#x} is not allocated")
    }
    fn cuPointerGetAttribute(value: *mut c_void, attribute: c_int, address: u64) {
        assert_eq!(attribute, 9);
        if !POOL_MEMORY.lock().unwrap().contains_key(&address) {
            return INVALID_VALUE;
        }
        value.cast::<c_int>().write(0)
    }
    fn cuMemPoolGetAttribute(pool: usize, attribute: c_int, value: *mut c_void) {
        assert_eq!(attribute, 5);
        value.cast::<u64>().write(RESERVED.load(Ordering::Relaxed) as u64)
    }
    fn cuMemPoolTrimTo(pool: usize, bytes: usize) {
        RESERVED.store(POOL_MEMORY.lock().unwrap().values().sum(), Ordering::Relaxed);
        log("pool trimmed")
    }
    fn cuMemPoolCreate(pool: *mut usize, properties: *const c_int) {
        pool.write(handle());
        POOLS.lock().unwrap().insert(*pool, *properties.add(3));
    }
    fn cuMemPoolSetAccess(pool: usize, access: *const c_int, count: usize) {
        assert_eq!((count, *access, *access.add(2)), (1, 1, 3), "a device that reads and writes");
        let owner = POOLS.lock().unwrap()[&pool];
        log(&format!("device {} reaches the pool of device {owner}", *access.add(1)))
    }
    fn cuMemPoolSetAttribute(pool: usize, attribute: c_int, value: *mut c_void) {}
    fn cuMemPoolDestroy(pool: usize) { log("pool destroyed") }
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        std::ptr::copy(from.cast::<u8>(), to as *mut u8, bytes)
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: usize) {
        log(&format!("upload of {bytes} bytes"));
        queue(stream, to as usize, from as usize, bytes)
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) {
        queue(stream, to as usize, from as usize, bytes)
    }
    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: usize) {
        assert_eq!(value, 0);
        queue(stream, to as usize, 0, bytes)
    }
    fn cuMemcpyPeerAsync(to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize) {
        log(&format!("copy from device {} to {}", from_context - CONTEXT, to_context - CONTEXT));
        queue(stream, to as usize, from as usize, bytes)
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: usize) {
        queue(stream, to as usize, from as usize, bytes)
    }
}

/// One name is known, as of an error that the tests have `cuInit` return.
///
/// # Safety
/// `name` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: c_int, name: *mut *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { answer(error, name, c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH") }
}

/// # Safety
/// `text` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { answer(error, text, c"system has unsupported display driver") }
}

unsafe fn answer(error: c_int, output: *mut *const c_char, string: &'static CStr) -> c_int {
    let known = error == 803;
    let string = if known { string.as_ptr() } else { std::ptr::null() };
    // SAFETY: the callers' contract.
    unsafe { output.write(string) };
    if known { SUCCESS } else { INVALID_VALUE }
}
