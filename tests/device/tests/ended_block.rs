// SPDX-License-Identifier: MIT OR Apache-2.0
//! An access to the shared memory of a block that has ended fails the launch, and does nothing else: that a safe function makes
//! it counts on that. In a process of its own, as the panic.

use device_test_kernels::faults::reads_of_a_block_that_has_ended;
use device_tests::{device, zeros};
use warpsmith::{Error, LaunchConfig};

#[test]
fn an_access_to_a_block_that_has_ended_fails_the_launch() {
    let device = device();
    if (device.properties().compute_capability).is_some_and(|(major, _)| major < 9) {
        return;
    }
    let mut out = zeros::<u32>(&device, 1);
    let launched = device
        .default_stream()
        .launch::<reads_of_a_block_that_has_ended>(&LaunchConfig::new(2, 1), (&mut out,));
    let error = launched
        .and_then(|()| device.default_stream().synchronize())
        .unwrap_err();
    match &error {
        Error::Fault(fault) => {
            let wanted = "access to shared memory of block (1, 0, 0) of the cluster, which has ended";
            assert!(device.is_simulator() && fault.message.starts_with(wanted), "{fault}");
        }
        Error::KernelFailed { .. } => assert!(!device.is_simulator(), "{error}"),
        _ => panic!("{error}"),
    }
}
