// SPDX-License-Identifier: MIT OR Apache-2.0
//! Panics of kernels as the host is told of them: the stub runs no kernel, so the test writes what a kernel would.

use cuda_std::launch::Kernel;
use cuda_std::panics::{HOST, PanicRecord};
use ndarray::{Axis, array};
use warpsmith::{Device, DeviceArray, Error, KernelFailure, LaunchConfig, PtxModules};

use super::{first, modules_of, run, second, stub, stub_break, stub_variable};

const ASSERT: i32 = 710;
const ILLEGAL_ADDRESS: i32 = 700;
const ECC_UNCORRECTABLE: i32 = 214;

/// The two kernels, whose text has the variable that modules have which can panic.
fn panicking_modules() -> PtxModules {
    modules_of(HOST, <second as Kernel>::SIGNATURE)
}

/// Launches both kernels; what each module was told.
fn launch_both(device: &Device) -> [[u64; 2]; 2] {
    let stream = device.default_stream();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    let config = LaunchConfig::new(1, 1);
    stream.launch::<first>(&config, (&mut out,)).unwrap();
    let of_first = stub_variable();
    stream.launch::<second>(&config, (&mut out,)).unwrap();
    [of_first, stub_variable()]
}

/// Takes the record of which a module was told.
fn take([address, _]: [u64; 2]) -> Option<&'static PanicRecord> {
    // SAFETY: the library's memory, which it keeps as long as the context.
    let record = unsafe { &*std::ptr::with_exposed_provenance::<PanicRecord>(address as usize) };
    record.turn.take().then_some(record)
}

fn write(record: &PanicRecord, module: [u64; 2], message: Option<&str>) {
    record.write_numbers([-1, 2, 3], 2);
    record.write_thread(module[1] as u32, [1, 2, 3], [4, 5, 6]);
    record.write_place("src/kernels.rs", 17, 9);
    message.inspect(|message| record.write_message(message));
    record.turn.finish();
}

/// With each status, and whatever the message.
pub(crate) fn panicking(mut device: Device) -> String {
    let break_at = stub_break();
    device.register_kernels(panicking_modules()).unwrap();
    let mut said = String::new();
    for (status, message) in [
        (ASSERT, Some("no {} of {}")),
        (719, None),
        (ECC_UNCORRECTABLE, Some("lost")),
    ] {
        let [_, told] = launch_both(&device);
        write(take(told).unwrap(), told, message);
        break_at(0, status);
        let error = device.synchronize().unwrap_err();
        assert_eq!(device.create_stream().unwrap_err().to_string(), error.to_string());
        said += &format!("{error}; ");
        device = device.reset().unwrap();
    }
    // The new context's record has nothing of the old one.
    launch_both(&device);
    break_at(0, ILLEGAL_ADDRESS);
    let error = device.synchronize().unwrap_err();
    assert!(
        matches!(
            error,
            Error::KernelFailed {
                failure: KernelFailure::IllegalAddress,
                ..
            }
        ),
        "{error}"
    );
    said
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_panic_is_an_error_with_kernel_block_thread_place_and_message() {
    let (said, log) = run(stub(), "panicking", &[]);
    let thread = "kernel `second`: block (1, 2, 3), thread (4, 5, 6)";
    let expected = format!(
        "{thread}: no -1 of 2, at src/kernels.rs:17:9; {thread}: panic (its message has arguments, which only the simulated \
             GPU formats; cuda_std::panic_with has numbers), at src/kernels.rs:17:9; cuda:0 is lost: "
    );
    assert!(said.starts_with(&expected), "{said}");
    let variables = log.iter().filter(|line| line.starts_with("variable"));
    assert_eq!(variables.clone().count(), 8, "each module is told once: {log:?}");
    assert!(variables.clone().all(|line| *line == format!("variable {HOST}")));
    let locked = log.iter().filter(|line| *line == "host memory allocated").count();
    assert_eq!(
        locked, 8,
        "for each context a page, and what the upload goes through: {log:?}"
    );
}

/// Two kernels panic at once, one of them is late.
pub(crate) fn threads_panic(device: Device) -> String {
    let break_at = stub_break();
    device.register_kernels(panicking_modules()).unwrap();
    let [of_first, of_second] = launch_both(&device);
    assert_eq!(of_first[0], of_second[0]);
    let record = take(of_first).unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| take(of_second).is_none());
        write(record, of_first, Some("first"));
        assert!(late.join().unwrap(), "it has been written");
    });
    break_at(0, ASSERT);
    match device.synchronize() {
        Err(Error::Fault(fault)) => format!("{} {}", fault.kernel, fault.message),
        other => panic!("{other:?}"),
    }
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn of_several_panics_the_first_is_told() {
    let (said, _) = run(stub(), "threads_panic", &[]);
    assert_eq!(said, "first first");
}

/// The device and the host have no memory that both can reach; or something fails while a module is told.
pub(crate) fn unlocked(device: Device) -> String {
    let break_at = stub_break();
    device.register_kernels(panicking_modules()).unwrap();
    let stream = device.default_stream();
    let mut out = DeviceArray::from_ndarray(stream, &array![0u32]).unwrap();
    let launched = stream.launch::<first>(&LaunchConfig::new(1, 1), (&mut out,));
    break_at(0, ASSERT);
    match launched.and_then(|()| device.synchronize()) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("it works"),
    }
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn without_memory_that_both_can_reach_a_panic_is_told_by_its_status() {
    let (said, _) = run(stub(), "unlocked", &[("STUB_cuMemHostRegister_v2", "801")]);
    assert!(said.starts_with("a kernel failed on cuda:0: panic: "), "{said}");
    for (function, call) in [
        ("cuMemHostRegister_v2", "cuMemHostRegister"),
        ("cuMemHostGetDevicePointer_v2", "cuMemHostGetDevicePointer"),
        ("cuModuleGetGlobal_v2", "cuModuleGetGlobal"),
        ("cuMemcpyHtoD_v2", "cuMemcpyHtoD"),
    ] {
        let (said, log) = run(stub(), "unlocked", &[(&*format!("STUB_{function}"), "912")]);
        assert!(
            said.starts_with(&format!("{call} failed on cuda:0: error 912")),
            "{said}"
        );
        assert!(log.iter().any(|line| line == "module unloaded"), "{log:?}");
    }
    // One that ends the context while a module is told.
    let (said, _) = run(stub(), "unlocked", &[("STUB_cuMemcpyHtoD_v2", "700")]);
    assert!(
        said.starts_with("a kernel failed on cuda:0: illegal address: "),
        "{said}"
    );
}

/// The library's own kernels, one that can panic and one that cannot.
pub(crate) fn library(device: Device) -> String {
    let stream = device.default_stream();
    let x = DeviceArray::from_ndarray(stream, &array![1.0f32, 2.0]).unwrap();
    let before = x
        .square()
        .map(|_| std::fs::read_to_string(std::env::var("STUB_LOG").unwrap()).unwrap());
    assert!(!before.unwrap().contains("variable"), "squares do not panic");
    let indices = DeviceArray::from_ndarray(stream, &array![1u64, 0]).unwrap();
    x.take(Axis(0), &indices).unwrap();
    "taken".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_module_is_told_if_its_ptx_can_panic() {
    let (said, log) = run(stub(), "library", &[]);
    assert_eq!(said, "taken");
    let variables: Vec<_> = log.iter().filter(|line| line.starts_with("variable")).collect();
    assert_eq!(variables, [&format!("variable {HOST}")]);
}
