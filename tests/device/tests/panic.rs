// SPDX-License-Identifier: MIT OR Apache-2.0
//! A panic in a kernel reaches the caller. One test in a process of its own: on a GPU it ends the process's context.

use device_test_kernels::faults::panics;
use device_tests::{device, zeros};
use warpsmith::{DeviceArray, Error, LaunchConfig};

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
    let Error::Fault(fault) = &error else { panic!("{error}") };
    assert_eq!(fault.kernel, "panics");
    let (block, thread) = (fault.block, fault.thread);
    assert_eq!((block.x, block.y, block.z), (1, 0, 0));
    assert_eq!((thread.x, thread.y, thread.z), (5, 0, 0));
    assert_eq!(fault.message, "thread 37 gives up");
    let location = fault.location.as_ref().expect("a panic has a place");
    assert!(location.file.ends_with("src/faults.rs"), "{location}");
    assert_eq!((location.line, location.column), (10, 5));
    let thread = "kernel `panics`: block (1, 0, 0), thread (5, 0, 0)";
    assert_eq!(
        error.to_string(),
        format!("{thread}: thread 37 gives up, at {location}")
    );
    if !device.is_simulator() {
        assert_eq!(device.synchronize().unwrap_err().to_string(), error.to_string());
    }
    let fresh = match device.reset() {
        Ok(fresh) => fresh,
        // There are drivers that make no other context in the process; `Device::reset` says which was seen to.
        Err(error) => {
            assert!(matches!(error, Error::Unrecoverable { .. }), "{error}");
            assert!(!device.is_simulator(), "{error}");
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
