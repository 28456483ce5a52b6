// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drivers that fail, are slow, or do only what their documentation promises.
//!
//! The driver is driver/stub.rs, compiled here. Which libcuda a process uses is decided once, so each case runs in a
//! process of its own: this program again, with the stub's folder before all others and the test `child` chosen.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};

use cuda_std::launch::Kernel;
use cuda_std::prelude::*;
use ndarray::{Array1, array};
use warpsmith::{Device, DeviceArray, DeviceGridBarrier, Error, LaunchConfig, Module, PtxModules, Stream, expr};

#[cfg(feature = "cudarc")]
#[path = "driver/cudarc.rs"]
mod cudarc;
#[path = "driver/failures.rs"]
mod failures;
#[path = "driver/panics.rs"]
mod panics;
#[path = "driver/peers.rs"]
mod peers;
#[cfg(feature = "nvtx")]
#[path = "driver/ranges.rs"]
mod ranges;
#[path = "driver/transfers.rs"]
mod transfers;
#[path = "driver/uploads.rs"]
mod uploads;

/// The folder with the stub as `libcuda.so.1`.
fn stub() -> &'static Path {
    static STUB: OnceLock<PathBuf> = OnceLock::new();
    STUB.get_or_init(|| {
        remove_leftovers();
        let folder = scratch("stub");
        compile("stub.rs", &folder.join("libcuda.so.1"));
        folder
    })
}

/// Makes a shared library of a file of this test's folder.
fn compile(source: &str, library: &Path) {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=cdylib", "--crate-name=stub", "-o"])
        .arg(library)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver").join(source))
        .output()
        .expect("rustc can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Removes the folders of processes that have ended.
fn remove_leftovers() {
    let entries = std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).expect("cargo's folder for test files can be read");
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix("driver-").and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir_all(entry.path()); // another process may be at it
        }
    }
}

/// A folder for this process and purpose.
fn scratch(purpose: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("driver-{}-{purpose}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("cargo's folder for test files can be written");
    folder
}

/// What the child says that does `case` with the libcuda in `folder`, and what that has logged.
fn run(folder: &Path, case: &str, variables: &[(&str, &str)]) -> (String, Vec<String>) {
    // A file for each run: tests run one case with different variables, at once.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let log = scratch("logs").join(RUNS.fetch_add(1, Ordering::Relaxed).to_string());
    let output = Command::new(std::env::current_exe().expect("this program's path"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder)
        .env("CASE", case)
        .env("STUB_LOG", &log)
        .env_remove("WARPSMITH_DEVICE")
        .envs(variables.iter().copied())
        .output()
        .expect("this program can be run");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let said = stdout.lines().filter_map(|line| line.split_once("said: "));
    let said = said.map(|(_, said)| said).collect::<Vec<_>>().join("\n");
    let log = std::fs::read_to_string(log).unwrap_or_default();
    (said, log.lines().map(String::from).collect())
}

/// The device that `Device::auto` gives, or the error.
fn auto() -> String {
    match Device::auto() {
        Ok(device) => device.properties().id.clone(),
        Err(error) => format!("error: {error}"),
    }
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The address of a function of the stub's own.
fn stub_function(name: &CStr) -> *mut c_void {
    const RTLD_NOW: c_int = 2;
    // SAFETY: names that end with a zero; the library is loaded.
    let function = unsafe { dlsym(dlopen(c"libcuda.so.1".as_ptr(), RTLD_NOW), name.as_ptr()) };
    assert!(!function.is_null());
    function
}

/// Has calls fail, from one to another.
fn stub_fail() -> extern "C" fn(u64, u64) -> u64 {
    // SAFETY: the stub's function has that type.
    unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64) -> u64>(stub_function(c"stub_fail")) }
}

/// Has the context fail at a call, with a status.
fn stub_break() -> extern "C" fn(u64, c_int) -> u64 {
    // SAFETY: as above.
    unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64, c_int) -> u64>(stub_function(c"stub_break")) }
}

/// The words of the variable of the module that was loaded last.
fn stub_variable() -> [u64; 2] {
    // SAFETY: the stub's function has that type.
    let variable = unsafe {
        std::mem::transmute::<*mut c_void, extern "C" fn() -> *const [u64; 2]>(stub_function(c"stub_variable"))
    };
    // SAFETY: the stub's variable, which is never freed and was written.
    unsafe { *variable() }
}

/// Not a test by itself.
#[test]
#[ignore = "run by the others, with another libcuda"]
fn child() {
    let Ok(case) = std::env::var("CASE") else { return };
    let said = match case.as_str() {
        "auto" => auto(),
        "list" => match Device::list() {
            Ok(devices) => format!("{} devices", devices.len()),
            Err(error) => format!("error: {error}"),
        },
        "sim" => Device::named("sim")
            .expect("the simulator needs no driver")
            .properties()
            .id
            .clone(),
        "fork" => fork_and_look(),
        "uploads" => with_device(uploads::uploads),
        "small_uploads" => with_device(uploads::small_uploads),
        "full_pieces" => with_device(uploads::full_pieces),
        "slow_stream" => with_device(uploads::slow_stream),
        "many_streams" => with_device(uploads::many_streams),
        "stream_drop" => with_device(uploads::stream_drop),
        "upload_threads" => with_device(uploads::upload_threads),
        "upload_errors" => with_device(uploads::upload_errors),
        "bulk" => with_device(transfers::bulk),
        "bulk_beside_slow" => with_device(transfers::bulk_beside_slow),
        "bulk_errors" => with_device(transfers::bulk_errors),
        "pinned_copies" => with_device(transfers::pinned_copies),
        "pinned_errors" => with_device(transfers::pinned_errors),
        "landed" => with_device(transfers::landed),
        "peers" => with_device(peers::peers),
        "peer_failures" => with_device(peers::peer_failures),
        "callbacks" => with_device(transfers::callbacks),
        "callback_errors" => with_device(transfers::callback_errors),
        "full_pool" => with_device(transfers::full_pool),
        "ledger" => with_device(transfers::ledger),
        "unwritten" => transfers::unwritten(),
        "open_failures" => with_device(transfers::open_failures),
        "call_failures" => with_device(transfers::call_failures),
        "frees" => with_device(frees),
        "loads" => with_device(loads),
        "shared" => with_device(shared),
        "contexts" => with_device(contexts),
        "registration" => with_device(registration),
        "unknown_failure" => with_device(unknown_failure),
        "broken" => with_device(failures::broken),
        "named" => with_device(failures::named),
        "resources" => with_device(failures::resources),
        "two_devices" => with_device(failures::two_devices),
        "closing" => with_device(failures::closing),
        "owners" => with_device(failures::owners),
        "threads" => with_device(failures::threads),
        "others" => with_device(failures::others),
        "pinned_reset" => with_device(failures::pinned_reset),
        "occupancy" => with_device(failures::occupancy),
        "cooperative" => with_device(cooperative),
        "dependent" => with_device(dependent),
        #[cfg(feature = "cudarc")]
        "cudarc_slices" => with_device(cudarc::slices),
        #[cfg(feature = "cudarc")]
        "cudarc_lent" => with_device(cudarc::lent),
        #[cfg(feature = "cudarc")]
        "cudarc_streams" => with_device(cudarc::streams),
        "panicking" => with_device(panics::panicking),
        "threads_panic" => with_device(panics::threads_panic),
        "unlocked" => with_device(panics::unlocked),
        "library" => with_device(panics::library),
        #[cfg(feature = "nvtx")]
        "ranges" => ranges::ranges(),
        "sticky" => with_device(failures::sticky),
        "too_old" => failures::too_old(),
        other => panic!("no case {other}"),
    };
    println!("said: {said}");
}

/// What `case` says of the stub's device, which a library without device code does not open: where that has none
/// (`sim_only`, by its build script), the tests that ask for such cases are ignored.
fn with_device(case: fn(Device) -> String) -> String {
    match Device::cuda(0) {
        Ok(device) => case(device),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_driver_that_fails_is_an_error_and_not_the_simulator() {
    let variables = [("STUB_cuInit", "803")];
    for case in ["auto", "list"] {
        let (said, _) = run(stub(), case, &variables);
        assert_eq!(
            said,
            "error: the NVIDIA driver does not work: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803: system has \
             unsupported display driver); the device `sim` needs none"
        );
    }
    assert_eq!(run(stub(), "sim", &variables).0, "sim");
}

#[test]
fn a_status_that_nobody_knows_is_told_by_its_number() {
    let (said, _) = run(stub(), "auto", &[("STUB_cuDeviceGetCount", "912")]);
    assert!(
        said.starts_with("error: ") && said.contains("cuDeviceGetCount: error 912"),
        "{said}"
    );
}

#[test]
fn without_a_gpu_there_is_the_simulator() {
    for variables in [
        ("STUB_cuInit", "100"),
        ("STUB_GPUS", "0"),
        ("STUB_cuDeviceGetCount", "100"),
    ] {
        assert_eq!(run(stub(), "auto", &[variables]).0, "sim", "{variables:?}");
        assert_eq!(run(stub(), "list", &[variables]).0, "1 devices", "{variables:?}");
    }
}

#[test]
fn a_driver_that_does_not_load_is_an_error() {
    let folder = scratch("broken");
    std::fs::write(folder.join("libcuda.so.1"), "not a library").expect("the folder can be written");
    let (said, _) = run(&folder, "auto", &[]);
    assert!(
        said.starts_with("error: the NVIDIA driver does not work: dlopen: "),
        "{said}"
    );
    assert!(said.contains("libcuda.so.1"), "{said}");
    assert_eq!(run(&folder, "sim", &[]).0, "sim");
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// Uses the driver, forks, and tells what `Device::auto` is in the new process.
fn fork_and_look() -> String {
    Device::list().expect("the stub works before the fork");
    // SAFETY: the new process does no more than to ask for a device, and ends at once.
    let process = unsafe { fork() };
    if process == 0 {
        let answer = match Device::auto() {
            Err(Error::Driver { call: "cuInit", .. }) => 40,
            Err(_) => 41,
            Ok(_) => 42,
        };
        // SAFETY: ends the process.
        unsafe { _exit(answer) }
    }
    let mut status = 0;
    // SAFETY: waits for that process, and writes one number.
    let waited = unsafe { waitpid(process, &mut status, 0) };
    assert_eq!(waited, process);
    format!("{}", status >> 8)
}

#[test]
fn after_a_fork_the_driver_is_an_error_and_not_the_simulator() {
    assert_eq!(run(stub(), "fork", &[]).0, "40");
}

/// An array is freed while the copy to it is queued.
fn frees(device: Device) -> String {
    let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::from_elem(1000, 1.0f32)).unwrap();
    drop(x.try_clone().unwrap());
    drop(x);
    "freed".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn without_an_allocator_in_stream_order_memory_is_freed_behind_the_stream() {
    let (_, log) = run(stub(), "frees", &[("STUB_POOLS", "0")]);
    let freed: Vec<_> = log.iter().filter(|line| line.starts_with("freed")).collect();
    assert_eq!(freed, ["freed, copies pending: 0"; 2]);
}

#[kernel]
fn first(out: SliceMut<'_, u32>) {
    out.set(0, 1);
}

#[kernel]
fn second(out: SliceMut<'_, u32>) {
    out.set(0, 2);
}

#[kernel]
fn meet(grid: GridBarrier<'_>, out: SliceMut<'_, u32>) {
    grid.sync();
    out.set(0, 3);
}

/// The two kernels as a build script would give them, with `signature` for the second.
fn modules(signature: u64) -> PtxModules {
    // Of no text: the stub takes anything.
    modules_of("", signature)
}

/// The two kernels, each with that text.
fn modules_of(text: &str, signature: u64) -> PtxModules {
    let text = packed(text);
    let first = (
        <first as Kernel>::NAME,
        "sm_75",
        entries(<first as Kernel>::NAME, <first as Kernel>::SIGNATURE),
        text,
    );
    let second = (
        <second as Kernel>::NAME,
        "sm_75",
        entries(<second as Kernel>::NAME, signature),
        text,
    );
    let (package, version) = (<first as Kernel>::PACKAGE, <first as Kernel>::VERSION);
    // SAFETY: the stub runs nothing of it.
    unsafe { PtxModules::from_build((package, version, Vec::leak(vec![first, second]))) }
}

/// The text as cuda_builder packs it.
fn packed(text: &str) -> &'static [u8] {
    Vec::leak(ptx_pack::pack(text))
}

fn entries(name: &'static str, signature: u64) -> &'static [(&'static str, u64)] {
    Vec::leak(vec![(name, signature)])
}

/// Two threads launch one kernel, two another one, for the first time.
fn loads(device: Device) -> String {
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (device, start) = (&device, &start);
            scope.spawn(move || {
                let stream = device.create_stream().unwrap();
                let mut out = DeviceArray::from_ndarray(&stream, &array![0u32]).unwrap();
                let config = LaunchConfig::new(1, 1);
                start.wait();
                match i % 2 {
                    0 => stream.launch::<first>(&config, (&mut out,)).unwrap(),
                    _ => stream.launch::<second>(&config, (&mut out,)).unwrap(),
                }
            });
        }
    });
    "launched".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn kernels_are_compiled_side_by_side_and_each_once() {
    let (_, log) = run(stub(), "loads", &[("STUB_LOAD_MS", "300")]);
    let of = |part: &str| {
        log.iter()
            .filter(|line| line.starts_with(part))
            .cloned()
            .collect::<Vec<_>>()
    };
    let expected = ["load begins", "load begins", "load ends", "load ends"];
    assert_eq!(of("load"), expected, "{log:?}");
    let mut functions = of("function");
    functions.sort();
    assert_eq!(functions, ["function first", "function second"]);
    assert_eq!(of("launch").len(), 4);
    let end = [
        "module unloaded",
        "module unloaded",
        "pool destroyed",
        "context released",
        "context destroyed",
    ];
    assert_eq!(log[log.len() - 5..], end, "{log:?}");
}

/// Whatever a launch asks for, the function is allowed the same.
fn shared(device: Device) -> String {
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    let stream = device.default_stream();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    let mut launch = |dynamic_shared| {
        let config = LaunchConfig {
            dynamic_shared,
            ..LaunchConfig::new(1, 1)
        };
        stream.launch::<first>(&config, (&mut out,))
    };
    for bytes in [1000, 100_000, 60_000, 47 << 10] {
        launch(bytes).unwrap();
    }
    launch(227 << 10).unwrap_err().to_string()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn dynamic_shared_memory_is_allowed_once_and_for_all_sizes() {
    let (said, log) = run(stub(), "shared", &[]);
    // 227 KiB a block, of which the stub says that 1 KiB is static.
    let most = 226 << 10;
    assert!(said.ends_with(&format!(
        "given {} bytes, wanted at most {most}, beside 1024 of the kernel's own",
        227 << 10
    )));
    let attributes = log.iter().filter(|line| line.starts_with("attribute"));
    assert!(
        attributes.clone().all(|line| *line == format!("attribute {most}")),
        "{log:?}"
    );
    assert_eq!(attributes.count(), 2, "{log:?}");
}

/// The caller's context is current again after every call.
fn contexts(device: Device) -> String {
    use cuda_driver::sys;
    let foreign = std::ptr::without_provenance_mut(0xf0);
    let current = || {
        let mut context = std::ptr::null_mut();
        // SAFETY: writes a handle.
        assert!(unsafe { sys::cuCtxGetCurrent(&mut context) }.is_success());
        context
    };
    // SAFETY: the stub takes any handle.
    assert!(unsafe { sys::cuCtxSetCurrent(foreign) }.is_success());
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0f32, 2.0]).unwrap();
    assert_eq!(current(), foreign);
    assert_eq!(x.to_ndarray().unwrap(), array![1.0, 2.0]);
    assert_eq!(current(), foreign);
    drop((x, device));
    assert_eq!(current(), foreign);
    std::thread::spawn(move || assert!(current().is_null())).join().unwrap();
    "kept".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_foreign_context_stays_current() {
    let (said, _) = run(stub(), "contexts", &[]);
    assert_eq!(said, "kept");
}

/// What no package has PTX of.
#[device_fn]
pub fn unregistered(x: f32) -> f32 {
    x + 1.0
}

/// Nobody takes the place of a kernel, and nobody is launched in the place of another; nor is a function that is not there.
fn registration(device: Device) -> String {
    let stale = modules(1);
    device.register_kernels(stale).unwrap();
    device.register_kernels(stale).unwrap();
    let error = device
        .register_kernels(modules(<second as Kernel>::SIGNATURE))
        .unwrap_err();
    assert!(
        matches!(error, Error::DuplicateKernels { kernel: "first", .. }),
        "{error}"
    );

    let stream = device.default_stream();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    stream.launch::<first>(&LaunchConfig::new(1, 1), (&mut out,)).unwrap();
    let error = stream
        .launch::<second>(&LaunchConfig::new(1, 1), (&mut out,))
        .unwrap_err();
    assert!(
        matches!(error, Error::SignatureMismatch { kernel: "second", .. }),
        "{error}"
    );
    let x = DeviceArray::from_ndarray(stream, &array![1.0f32]).unwrap();
    let error = expr::call::<unregistered, _>((&x,)).eval().unwrap_err();
    let is_missing = matches!(
        error,
        Error::NoModule {
            kernel: "unregistered",
            ..
        }
    );
    assert!(is_missing, "{error}");
    "refused".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn kernels_are_never_replaced_and_stale_ones_not_launched() {
    let (said, log) = run(stub(), "registration", &[]);
    assert_eq!(said, "refused");
    let launches = log.iter().filter(|line| line.starts_with("launch"));
    assert_eq!(launches.count(), 1, "{log:?}");
}

/// Launches of a kernel with a grid's barrier.
fn cooperative(device: Device) -> String {
    let name = <meet as Kernel>::NAME;
    let module = (name, "sm_75", entries(name, <meet as Kernel>::SIGNATURE), packed(""));
    // SAFETY: the stub runs nothing of it.
    let modules = unsafe { PtxModules::from_build((meet::PACKAGE, meet::VERSION, Vec::leak(vec![module]))) };
    device.register_kernels(modules).unwrap();
    let stream = device.default_stream();
    let mut barrier = DeviceGridBarrier::new(stream).unwrap();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    let most = device.cooperative_config::<meet>(256, 0).unwrap();
    stream.launch::<meet>(&most, (&mut barrier, &mut out)).unwrap();
    let config = LaunchConfig::new((3, 43), 256);
    let refused = stream.launch::<meet>(&config, (&mut barrier, &mut out)).unwrap_err();
    let recorded = stream.capture((&mut barrier, &mut out), |stream, (barrier, out)| {
        stream.launch::<meet>(&config, (&mut **barrier, &mut **out))
    });
    assert_eq!(recorded.unwrap_err().to_string(), refused.to_string());
    let mut graph = stream
        .capture((barrier, out), |stream, (barrier, out)| {
            stream.launch::<meet>(&LaunchConfig::new(7, 32), (barrier, out))
        })
        .unwrap();
    graph.launch().unwrap();
    refused.to_string()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_kernel_with_a_barrier_is_launched_cooperatively() {
    let (said, log) = run(stub(), "cooperative", &[]);
    assert_eq!(
        said,
        "launch of kernel `meet`: blocks of a cooperative launch: given 129, wanted at most 128, as many as run at a \
             time"
    );
    let launches = log
        .iter()
        .filter(|line| line.contains("launch") || line.starts_with("attribute 2 "));
    let launches: Vec<_> = launches.map(String::as_str).collect();
    assert_eq!(
        launches,
        [
            "cooperative launch of 128",
            "attribute 2 of a node: 1",
            "graph launched"
        ]
    );
}

/// Launches of kernels, a copy among them.
fn dependent(device: Device) -> String {
    let text = ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry first()\n{\n\tret;\n}\n";
    device
        .register_kernels(modules_of(text, <second as Kernel>::SIGNATURE))
        .unwrap();
    let stream = device.default_stream();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    let launch = |stream: &Stream, out: &mut DeviceArray<u32, ndarray::Ix1>| {
        stream.launch::<first>(&LaunchConfig::new(3, 1), (out,))
    };
    launch(stream, &mut out).unwrap();
    let foreign = Module::from_ptx(&device, text).unwrap().function("first").unwrap();
    // SAFETY: the stub runs nothing of it.
    unsafe { stream.launch_function(&foreign, &LaunchConfig::new(1, 1), (&mut out,)) }.unwrap();
    let mut graph = stream.capture(out, |stream, out| {
        launch(stream, out)?;
        launch(stream, out)?;
        let copy = out.try_clone()?;
        launch(stream, out)?;
        // SAFETY: as above.
        unsafe { stream.launch_function(&foreign, &LaunchConfig::new(1, 1), (&mut *out,)) }?;
        launch(stream, out)?;
        Ok(copy)
    });
    graph.as_mut().unwrap().launch().unwrap();
    device.properties().id.clone()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn kernels_of_this_library_begin_before_the_end_of_the_one_before() {
    let said = |variables: &[(&str, &str)]| {
        let (_, log) = run(stub(), "dependent", variables);
        let told = log.iter().filter(|line| {
            let told = ["launch", "dependent", "kernels", "graph"];
            told.iter().any(|word| line.starts_with(word))
        });
        told.cloned().collect::<Vec<_>>()
    };
    let with = [
        "kernels that wait: 1",
        "dependent launch of 3 with 0",
        "launch with 0",
        // Behind a kernel, of whatever compiler: not behind nothing or a copy, nor one of another compiler.
        "dependent node",
        "dependent node",
        "graph of 6 nodes",
        "graph launched",
    ];
    let without = ["launch with 0", "launch with 0", "graph of 6 nodes", "graph launched"];
    assert_eq!(said(&[("STUB_DEPENDENT", "1")]), with);
    assert_eq!(said(&[]), without);
    assert_eq!(said(&[("STUB_DEPENDENT", "1"), ("STUB_VERSION", "12020")]), without);
}

/// A call that fails with a number of a newer driver.
fn unknown_failure(device: Device) -> String {
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    let stream = device.default_stream();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    let error = stream
        .launch::<first>(&LaunchConfig::new(1, 1), (&mut out,))
        .unwrap_err();
    error.to_string()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_launch_that_fails_in_a_way_unknown_here_is_an_error() {
    let (said, _) = run(stub(), "unknown_failure", &[("STUB_cuLaunchKernel", "912")]);
    assert_eq!(
        said,
        "cuLaunchKernel failed on cuda:0: error 912, which the driver has no name for"
    );
}
