// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels and devices that fail for good: which error it is, that all later calls say so without asking the driver, that
//! drops are silent, and that a reset makes the device work again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cuda_std::launch::Kernel;
use ndarray::{Array1, array};
use warpsmith::{Device, DeviceArray, Error, KernelFailure, LaunchConfig, PinnedArray, Result, Stream};

use super::{first, modules, run, second, stub, stub_break};

const NEVER: u64 = u64::MAX;
const ILLEGAL_ADDRESS: i32 = 700;
const ASSERT: i32 = 710;

/// Copies up and down, a launch, streams and events.
fn work(device: &Device) -> Result<()> {
    let stream = device.create_stream()?;
    let mut x = DeviceArray::from_ndarray(&stream, &array![7u32])?;
    stream.launch::<first>(&LaunchConfig::new(1, 1), (&mut x,))?;
    let (y, upload) =
        DeviceArray::upload_async(&stream, PinnedArray::from_ndarray(device, &Array1::<f32>::ones(5000))?)?;
    let large = DeviceArray::from_ndarray(&stream, &Array1::<u32>::ones(600_000))?;
    let other = y.to_device(&device.create_stream()?)?;
    drop(upload.wait()?);
    assert_eq!(other.to_ndarray()?, Array1::<f32>::ones(5000));
    assert_eq!(large.to_ndarray()?, Array1::ones(600_000));
    let start = stream.record()?;
    stream.record()?.elapsed_since(&start)?;
    assert_eq!(x.to_ndarray()?, array![7]); // the stub runs no kernel
    device.synchronize()
}

fn assert_failed(result: Result<()>, context: &str) {
    assert!(
        matches!(
            result,
            Err(Error::KernelFailed {
                failure: KernelFailure::IllegalAddress,
                kernel: None,
                ..
            })
        ),
        "{context}: {result:?}"
    );
}

/// Each call of the driver in turn is the one that reports the failure.
pub(crate) fn broken(device: Device) -> String {
    let break_at = stub_break();
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    work(&device).unwrap();
    break_at(NEVER, 0);
    work(&device).unwrap();
    let calls = break_at(NEVER, 0);
    let mut device = device;
    for n in 0..calls {
        let at = format!("call {n} of {calls}");
        let stream = device.create_stream().unwrap();
        let x = DeviceArray::from_ndarray(&stream, &array![1.0f32, 2.0]).unwrap();
        let pinned = PinnedArray::from_ndarray(&device, &array![3u32, 4]).unwrap();
        let event = stream.record().unwrap();
        let (y, upload) =
            DeviceArray::upload_async(&stream, PinnedArray::from_ndarray(&device, &array![5]).unwrap()).unwrap();
        break_at(n, ILLEGAL_ADDRESS);
        // A drop may have been told, and then the next call is.
        assert_failed(work(&device).and_then(|()| device.synchronize()), &at);

        break_at(0, ILLEGAL_ADDRESS);
        assert_failed(x.try_clone().map(drop), &at);
        assert_failed(x.to_ndarray().map(drop), &at);
        assert_failed(stream.synchronize(), &at);
        assert_failed(event.synchronize(), &at);
        assert_failed(device.create_stream().map(drop), &at);
        assert_failed(device.memory().map(drop), &at);
        assert_failed(upload.wait().map(drop), &at);
        drop((y, event));
        assert_eq!(break_at(0, ILLEGAL_ADDRESS), 0, "{at}: the driver is called no more");

        let fresh = device.reset().unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(break_at(NEVER, 0) > 0);
        for result in [x.try_clone().map(drop), device.synchronize(), stream.record().map(drop)] {
            assert!(matches!(result, Err(Error::DeviceReset { .. })), "{at}: {result:?}");
        }
        assert_eq!(pinned.view(), array![3, 4]);
        drop((x, stream, pinned, device));
        assert_eq!(break_at(NEVER, 0), 0, "{at}: drops are silent");
        work(&fresh).unwrap_or_else(|error| panic!("{at}, after the reset: {error}"));
        device = fresh;
    }
    format!("{}", calls > 60)
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn after_a_failure_every_call_says_so_without_the_driver_until_a_reset() {
    let (said, log) = run(stub(), "broken", &[]);
    assert_eq!(said, "true");
    let count = |line: &str| log.iter().filter(|said| *said == line).count();
    assert_eq!(count("context released"), count("context destroyed"));
}

/// The last of a launch's calls is the wait.
pub(crate) fn named(device: Device) -> String {
    let break_at = stub_break();
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    let stream = device.default_stream();
    let mut x = DeviceArray::from_ndarray(stream, &array![7u32]).unwrap();
    let mut launch = || stream.launch::<second>(&LaunchConfig::new(1, 1), (&mut x,));
    launch().unwrap();
    break_at(NEVER, 0);
    launch().unwrap();
    let calls = break_at(NEVER, 0);
    break_at(calls - 1, ASSERT);
    let error = launch().unwrap_err();
    assert_eq!(stream.synchronize().unwrap_err().to_string(), error.to_string());
    error.to_string()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_launch_that_is_waited_for_reports_its_own_failure_by_name() {
    let (said, log) = run(stub(), "named", &[("WARPSMITH_SYNC", "1")]);
    assert!(said.starts_with("kernel `second` failed on cuda:0: panic: "), "{said}");
    assert!(said.contains("reported by cuStreamSynchronize"), "{said}");
    let waits = log.iter().filter(|line| line.starts_with("stream waited for")).count();
    assert_eq!(waits, 2, "{log:?}");
    // Without the variable, the launch is the last call, and can only tell of an earlier kernel.
    for value in ["0", ""] {
        let (said, log) = run(stub(), "named", &[("WARPSMITH_SYNC", value)]);
        assert!(said.starts_with("a kernel failed on cuda:0: panic: "), "{said}");
        assert!(!log.iter().any(|line| line.starts_with("stream waited for")), "{log:?}");
    }
}

pub(crate) fn resources(device: Device) -> String {
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    let stream = device.default_stream();
    let mut x = DeviceArray::from_ndarray(stream, &array![7u32]).unwrap();
    let config = LaunchConfig::new(3, (32, 8));
    let error = stream.launch::<first>(&config, (&mut x,)).unwrap_err();
    assert!(matches!(error, Error::LaunchResources { .. }), "{error}");
    assert_eq!(x.to_ndarray().unwrap(), array![7]);
    error.to_string()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_launch_that_wants_too_much_names_what_it_wants_and_the_device_goes_on() {
    for (status, message) in [("701", "error 701"), ("1", "error 1,")] {
        let (said, _) = run(stub(), "resources", &[("STUB_cuLaunchKernel", status)]);
        assert!(
            said.starts_with("launch of kernel `first` on cuda:0: not enough resources for grid (3, 1, 1)"),
            "{said}"
        );
        for part in ["block (32, 8, 1)", "1024 registers a thread", message] {
            assert!(said.contains(part), "{said}");
        }
    }
}

/// Two devices of one GPU, opened one by one.
pub(crate) fn two_devices(one: Device) -> String {
    let break_at = stub_break();
    let two = Device::cuda(0).unwrap();
    let of_two = DeviceArray::from_ndarray(two.default_stream(), &array![1, 2]).unwrap();
    break_at(0, 220);
    let lost = one.synchronize().unwrap_err();
    assert!(matches!(lost, Error::DeviceLost { .. }), "{lost}");
    break_at(0, 220);
    let elsewhere = of_two.to_ndarray().unwrap_err();
    assert_eq!((elsewhere.to_string(), break_at(0, 220)), (lost.to_string(), 0));
    assert!(
        matches!(Device::cuda(0), Err(Error::DeviceLost { .. })),
        "of the same context"
    );

    let one = one.reset().unwrap();
    let of_one = DeviceArray::from_ndarray(one.default_stream(), &array![3, 4]).unwrap();
    assert!(matches!(of_two.to_ndarray(), Err(Error::DeviceReset { .. })));
    // Too late for another reset: it is the same new context.
    let fresh = two.reset().unwrap();
    assert_eq!(of_one.to_ndarray().unwrap(), array![3, 4]);
    // But for one that has failed as well.
    break_at(0, ILLEGAL_ADDRESS);
    assert!(fresh.synchronize().is_err());
    let two = two.reset().unwrap();
    drop((one, of_one, fresh));
    let copy = DeviceArray::from_ndarray(two.default_stream(), &array![5, 6]).unwrap();
    assert_eq!(copy.to_ndarray().unwrap(), array![5, 6]);
    drop((two, copy, of_two));

    // What is of a failed context ends with the last that was made in it.
    let device = Device::cuda(0).unwrap();
    break_at(0, ILLEGAL_ADDRESS);
    assert!(device.synchronize().is_err() && Device::cuda(0).is_err());
    drop(device);
    Device::cuda(0).unwrap().synchronize().unwrap();
    "same".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn devices_of_one_gpu_fail_together_and_are_reset_once() {
    let (said, log) = run(stub(), "two_devices", &[]);
    assert_eq!(said, "same");
    let destroyed = log.iter().filter(|line| *line == "context destroyed").count();
    assert_eq!(destroyed, 5, "{log:?}");
}

/// What another library owns is not given back to it when it has gone with the context.
pub(crate) fn owners(device: Device) -> String {
    struct Owner {
        _stream: Stream,
        dropped: Arc<AtomicUsize>,
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let adopt = |device: &Device| {
        let theirs = device.create_stream().unwrap();
        let owner = Owner {
            _stream: theirs.clone(),
            dropped: Arc::clone(&dropped),
        };
        // SAFETY: the stream lives as long as its owner, which has it.
        unsafe { Stream::from_raw(device, theirs.as_raw(), owner) }.unwrap()
    };
    let stream = adopt(&device);
    drop(DeviceArray::from_ndarray(&stream, &array![1, 2]).unwrap());
    drop(stream);
    let before = dropped.load(Ordering::Relaxed);
    let stream = adopt(&device);
    let _fresh = device.reset().unwrap();
    drop(stream);
    format!("{before} {}", dropped.load(Ordering::Relaxed))
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_stream_that_has_gone_is_not_given_back_to_its_owner() {
    let (said, _) = run(stub(), "owners", &[]);
    assert_eq!(said, "1 1");
}

/// The last one ends the context, also of two that are closed at a time.
pub(crate) fn closing(device: Device) -> String {
    drop(device);
    for _ in 0..200 {
        let (one, two) = (Device::cuda(0).unwrap(), Device::cuda(0).unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || drop(one));
            drop(two);
        });
    }
    "closed".into()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn the_context_ends_with_its_last_device() {
    let (said, log) = run(stub(), "closing", &[]);
    assert_eq!(said, "closed");
    let destroyed = log.iter().filter(|line| *line == "context destroyed").count();
    assert_eq!(destroyed, 201, "{log:?}");
}

/// Threads that go on with whatever device there is, while it fails now and then.
pub(crate) fn threads(device: Device) -> String {
    const FAILURES: usize = 30;
    let break_at = stub_break();
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    let (shared, done, worked) = (Mutex::new(device), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // On a busy machine all failures may have come before anything has worked.
                while done.load(Ordering::Relaxed) < FAILURES || worked.load(Ordering::Relaxed) == 0 {
                    let device = shared.lock().unwrap().clone();
                    match work(&device) {
                        Ok(()) => drop(worked.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::KernelFailed { .. } | Error::DeviceReset { .. }) => match device.reset() {
                            Ok(fresh) => *shared.lock().unwrap() = fresh,
                            Err(error) => assert!(matches!(error, Error::KernelFailed { .. }), "{error}"),
                        },
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        for i in 0..FAILURES as u64 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            break_at(7 * i, ILLEGAL_ADDRESS);
            done.fetch_add(1, Ordering::Relaxed);
        }
    });
    let device = shared.into_inner().unwrap();
    let device = device.reset().unwrap();
    break_at(NEVER, 0);
    work(&device).unwrap();
    format!("{}", worked.into_inner() > 0)
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn threads_go_on_when_one_of_them_resets_the_device() {
    let (said, log) = run(stub(), "threads", &[]);
    assert_eq!(said, "true");
    let used: Vec<_> = log
        .iter()
        .filter(|line| line.starts_with("host memory freed") && !line.ends_with(": 0"))
        .collect();
    assert!(used.is_empty(), "{used:?}");
}

/// Another library retains the context.
pub(crate) fn others(device: Device) -> String {
    use cuda_driver::sys;
    let mut context = std::ptr::null_mut();
    // SAFETY: writes a handle.
    assert!(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, 0) }.is_success());
    let x = DeviceArray::from_ndarray(device.default_stream(), &array![1, 2]).unwrap();
    let refused = device.reset().unwrap_err();
    assert_eq!(x.to_ndarray().unwrap(), array![1, 2], "nothing has changed");
    // SAFETY: retained above.
    assert!(unsafe { sys::cuDevicePrimaryCtxRelease_v2(0) }.is_success());
    let device = device.reset().unwrap();
    assert!(x.to_ndarray().is_err());
    device.synchronize().unwrap();
    refused.to_string()
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_context_that_another_library_uses_is_not_destroyed() {
    let (said, log) = run(stub(), "others", &[]);
    assert!(
        said.starts_with("reset of cuda:0: another library of this process uses its context"),
        "{said}"
    );
    let destroyed = log.iter().filter(|line| *line == "context destroyed").count();
    assert_eq!(destroyed, 2, "{log:?}");
}

/// A driver that goes on to report a failure when the context that had it is gone.
pub(crate) fn sticky(device: Device) -> String {
    let break_at = stub_break();
    break_at(0, ASSERT);
    assert!(device.synchronize().is_err());
    match device.reset() {
        Ok(fresh) => {
            fresh.synchronize().unwrap();
            let x = DeviceArray::from_ndarray(fresh.default_stream(), &array![1, 2]).unwrap();
            format!("{}", x.to_ndarray().unwrap().sum())
        }
        Err(error) => {
            assert!(matches!(error, Error::Unrecoverable { .. }), "{error}");
            for again in [device.reset().map(drop), Device::cuda(0).map(drop)] {
                assert_eq!(again.unwrap_err().to_string(), error.to_string());
            }
            assert!(matches!(device.synchronize(), Err(Error::DeviceReset { .. })));
            error.to_string()
        }
    }
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_context_that_stays_failed_is_reset_by_force() {
    let (said, log) = run(stub(), "sticky", &[("STUB_STICKY", "1")]);
    assert_eq!(said, "3");
    let log: Vec<_> = log.iter().filter(|line| line.starts_with("context")).collect();
    let expected = [
        "context retained: 0",
        "context released",
        "context destroyed",
        "context retained: 710",
        "context reset",
        "context retained: 0",
        "context released",
        "context destroyed",
    ];
    assert_eq!(log, expected);
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn where_the_driver_makes_no_other_context_the_error_says_that_the_process_has_to_end() {
    let (said, _) = run(stub(), "sticky", &[("STUB_STICKY", "2")]);
    assert!(
        said.starts_with("cuda:0 cannot be used in this process any more: after a failure the driver makes no other"),
        "{said}"
    );
    assert!(
        said.contains("cuDevicePrimaryCtxRetain: ") && said.contains("710"),
        "{said}"
    );
    assert!(said.ends_with("start the process anew"), "{said}");
    // A forced reset that is refused says more than the call that came before.
    let variables = [("STUB_STICKY", "2"), ("STUB_cuDevicePrimaryCtxReset_v2", "719")];
    let (said, _) = run(stub(), "sticky", &variables);
    assert!(
        said.contains("cuDevicePrimaryCtxReset: ") && said.contains("719"),
        "{said}"
    );
}

/// The host goes on reading what is in page-locked memory.
pub(crate) fn pinned_reset(device: Device) -> String {
    let kept = PinnedArray::from_ndarray(&device, &Array1::<u32>::ones(100_000)).unwrap();
    let view = kept.view();
    let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::<u32>::ones(100_000)).unwrap();
    let (download, fresh) = (x.download_async().unwrap(), device.reset().unwrap());
    assert_eq!(view.sum(), 100_000);
    assert!(matches!(download.wait(), Err(Error::DeviceReset { .. })));
    let there = PinnedArray::from_ndarray(&fresh, &view).unwrap();
    assert!(matches!(
        DeviceArray::upload_async(fresh.default_stream(), kept),
        Err(Error::DifferentDevices { .. })
    ));
    let (y, upload) = DeviceArray::upload_async(fresh.default_stream(), there).unwrap();
    drop(upload);
    format!("{}", y.to_ndarray().unwrap().sum())
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn page_locked_memory_outlives_a_reset() {
    let (said, _) = run(stub(), "pinned_reset", &[]);
    assert_eq!(said, "100000");
}

pub(crate) fn occupancy(device: Device) -> String {
    device.register_kernels(modules(<second as Kernel>::SIGNATURE)).unwrap();
    device.preload::<first>().unwrap();
    let blocks = device.occupancy::<first>((32, 8), 60_000).unwrap();
    let error = device.occupancy::<first>(2048, 0).unwrap_err();
    assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");
    let config = device.launch_config::<first>(2000).unwrap();
    let fresh = device.reset().unwrap();
    fresh.preload::<first>().unwrap();
    format!("{blocks}, {} of {}", config.grid, config.block)
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_kernel_is_loaded_ahead_and_once_a_context() {
    let (said, log) = run(stub(), "occupancy", &[]);
    assert_eq!(said, "8, (3, 1, 1) of (768, 1, 1)");
    let loads = log.iter().filter(|line| *line == "function first").count();
    assert_eq!(loads, 2, "{log:?}");
    assert!(!log.iter().any(|line| line.starts_with("launch")), "{log:?}");
}

pub(crate) fn too_old() -> String {
    match Device::cuda(0) {
        Ok(device) => device
            .synchronize()
            .map_or_else(|error| error.to_string(), |()| "opened".into()),
        Err(error) => error.to_string(),
    }
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn a_driver_that_is_older_than_the_kernels_is_refused_when_the_device_is_opened() {
    let (said, _) = run(stub(), "too_old", &[("STUB_VERSION", "9020")]);
    let wanted = "the NVIDIA driver of cuda:0 is too old: given one for CUDA 9.2, wanted one for CUDA ";
    let version = said.strip_prefix(wanted).unwrap_or_else(|| panic!("{said}"));
    let version = version.strip_suffix(" or later").unwrap();
    // The one that is wanted is new enough.
    let (major, minor) = version.split_once('.').unwrap();
    let number = 1000 * major.parse::<u32>().unwrap() + 10 * minor.parse::<u32>().unwrap();
    assert_eq!(
        run(stub(), "too_old", &[("STUB_VERSION", &number.to_string())]).0,
        "opened"
    );
}
