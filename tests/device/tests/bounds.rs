// SPDX-License-Identifier: MIT OR Apache-2.0
//! An index out of bounds in a kernel reaches the caller. In a process of its own, as the panic.

use device_test_kernels::faults::out_of_bounds;
use device_tests::{device, upload, zeros};
use warpsmith::{Error, LaunchConfig};

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
    match &error {
        Error::Fault(fault) => {
            assert_eq!((fault.block.x, fault.thread.x), (1, 31));
            assert!(
                error
                    .to_string()
                    .contains("index out of bounds: the len is 64 but the index is 64"),
                "{error}"
            );
        }
        Error::KernelFailed { message, .. } => assert!(message.contains("CUDA_ERROR_ASSERT"), "{message}"),
        other => panic!("{other}"),
    }
}
