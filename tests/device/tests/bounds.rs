// SPDX-License-Identifier: MIT OR Apache-2.0
//! An index out of bounds in a kernel reaches the caller, and so do numbers of a panic. In a process of its own, as the panic.

use device_test_kernels::faults::{out_of_bounds, set_out_of_bounds, too_large};
use device_tests::{device, upload, zeros};
use warpsmith::{Device, Error, LaunchConfig};

#[test]
fn an_index_out_of_bounds_is_an_error_of_the_caller() {
    let device = device();
    let (x, mut out) = (upload(&device, &[1u32; 64]), zeros::<u32>(&device, 64));
    let launched = device
        .default_stream()
        .launch::<out_of_bounds>(&LaunchConfig::new(2, 32), (&x, &mut out));
    let error = launched
        .and_then(|()| device.default_stream().synchronize())
        .unwrap_err();
    let Error::Fault(fault) = &error else { panic!("{error}") };
    assert_eq!((fault.block.x, fault.thread.x), (1, 31));
    let location = fault.location.as_ref().expect("a panic has a place");
    assert!(location.file.ends_with("src/faults.rs"), "{location}");
    assert_eq!(location.line, 18);
    let message = match device.is_simulator() {
        true => "index out of bounds: the len is 64 but the index is 64",
        false => {
            "panic (its message has arguments, which only the simulated GPU formats; cuda_std::panic_with has numbers)"
        }
    };
    assert_eq!(fault.message, message);
    // Numbers are there on every device.
    let message = |device: &Device, launched: warpsmith::Result<()>| match launched.and_then(|()| device.synchronize())
    {
        Err(Error::Fault(fault)) => fault.message.clone(),
        other => panic!("{other:?}"),
    };
    let device = device.reset().unwrap();
    let x = upload(&device, &[1u32, 3, 4]);
    let launched = device
        .default_stream()
        .launch::<too_large>(&LaunchConfig::new(1, 32), (&x,));
    assert_eq!(message(&device, launched), "element 2 is -4, of 3");
    let device = device.reset().unwrap();
    let mut out = zeros::<u32>(&device, 32);
    let launched = device
        .default_stream()
        .launch::<set_out_of_bounds>(&LaunchConfig::new(1, 32), (&mut out,));
    assert_eq!(
        message(&device, launched),
        "index out of bounds of a SliceMut: the len is 32 but the index is 32"
    );
}
