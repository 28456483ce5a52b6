// SPDX-License-Identifier: MIT OR Apache-2.0
//! A panic in a kernel reaches the caller. One test in a process of its own: on a GPU it ends the process's context.

use device_test_kernels::faults::panics;
use device_tests::{device, zeros};
use warpsmith::{DeviceArray, Error, KernelFailure, LaunchConfig};

#[test]
fn a_panic_is_an_error_of_the_caller() {
    let device = device();
    let mut out = zeros::<u32>(&device, 64);
    let launched = device
        .default_stream()
        .launch::<panics>(&LaunchConfig::new(2, 32), (&mut out,));
    let error = launched
        .and_then(|()| device.default_stream().synchronize())
        .unwrap_err();
    match &error {
        Error::Fault(fault) => {
            assert_eq!((fault.kernel.as_str(), fault.block.x, fault.thread.x), ("panics", 1, 5));
            let text = error.to_string();
            assert!(
                text.contains("thread 37 gives up") && text.contains("faults.rs:"),
                "{text}"
            );
        }
        // The driver prints file, line, block and thread itself; the error says which kind of failure it was.
        Error::KernelFailed { failure, message, .. } => {
            assert_eq!(*failure, KernelFailure::Panic);
            assert!(message.contains("CUDA_ERROR_ASSERT"), "{message}");
            let later = device.synchronize().unwrap_err();
            assert_eq!(later.to_string(), error.to_string());
        }
        other => panic!("{other}"),
    }
    let fresh = match device.reset() {
        Ok(fresh) => fresh,
        // There are drivers that make no other context in the process; `Device::reset` says which was seen to.
        Err(error) => {
            assert!(!device.is_simulator(), "{error}");
            assert!(
                error.to_string().starts_with("cuDevicePrimaryCtxRetain failed"),
                "{error}"
            );
            assert!(device.default_stream().synchronize().is_err());
            return;
        }
    };
    if !fresh.is_simulator() {
        let gone = device.default_stream().synchronize().unwrap_err();
        assert!(matches!(gone, Error::DeviceReset { .. }), "{gone}");
    }
    drop(out);
    let x = DeviceArray::from_elem(fresh.default_stream(), 1000, 3u32).unwrap();
    assert_eq!(x.sum().unwrap(), 3000);
}
