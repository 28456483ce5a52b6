// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies between GPUs.

use warpsmith::{Device, DeviceArray, Error};

use super::transfers::numbers;
use super::{run, stub, stub_fail};

/// Arrays of two GPUs. The first one's stream has work when the copy is made.
pub(crate) fn peers(one: Device) -> String {
    let other = Device::cuda(1).unwrap();
    let x = DeviceArray::from_ndarray(one.default_stream(), &numbers(1000, 1)).unwrap();
    let y = x.to_device(other.default_stream()).unwrap();
    drop(x);
    let there = y.to_ndarray().unwrap() == numbers(1000, 1);
    let back = y.to_device(&one.create_stream().unwrap()).unwrap();
    let simulated = back.to_device(Device::simulator().default_stream()).unwrap();
    let mixed = back
        .to_device(other.default_stream())
        .unwrap()
        .into_stream(one.default_stream())
        .unwrap_err();
    format!(
        "{there}, {}, {mixed}",
        simulated.to_ndarray().unwrap() == numbers(1000, 1)
    )
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn arrays_are_copied_from_one_gpu_to_the_other() {
    let (said, log) = run(stub(), "peers", &[("STUB_GPUS", "2")]);
    let error = "into_stream: given an operand on cuda:0, wanted one on cuda:1; `to_device` copies arrays";
    assert_eq!(said, format!("true, true, {error}"));
    let wanted = [
        "device 0 reaches the pool of device 1",
        "device 1 reaches the pool of device 0",
        "copy from device 0 to 1",
        "device 0 reaches the pool of device 1",
        "device 1 reaches the pool of device 0",
        "copy from device 1 to 0",
        "copy from device 0 to 1",
    ];
    // Each device grants once.
    let copies = |line: &&String| line.starts_with("copy from device") || line.contains("reaches");
    let mut log: Vec<_> = log.iter().filter(copies).collect();
    log[3..5].sort();
    assert_eq!(log, wanted);
    // Devices that do not reach one another are told of no pool, nor are those without pools.
    for variable in ["STUB_PEERS", "STUB_POOLS"] {
        let (said, log) = run(stub(), "peers", &[("STUB_GPUS", "2"), (variable, "0")]);
        assert_eq!(said, format!("true, true, {error}"));
        assert_eq!(
            log.iter().filter(|line| line.starts_with("copy from device")).count(),
            3
        );
        assert!(!log.iter().any(|line| line.contains("reaches")), "{log:?}");
    }
}

/// Copies to another GPU, opened anew for each, in which each call fails in turn.
pub(crate) fn peer_failures(one: Device) -> String {
    let fail = stub_fail();
    let x = DeviceArray::from_ndarray(one.default_stream(), &numbers(1000, 1)).unwrap();
    let attempt = |first, end| {
        let other = Device::cuda(1).unwrap();
        fail(first, end);
        let done = x.to_device(other.default_stream()).and_then(|y| y.to_ndarray());
        let calls = fail(u64::MAX, u64::MAX);
        other.trim().unwrap();
        assert_eq!(other.memory().unwrap().allocated, 0, "{first}");
        (calls, done)
    };
    let (mut errors, mut n) = (Vec::new(), 0);
    loop {
        let (calls, done) = attempt(n, n + 1);
        match done {
            Ok(y) => assert!(y == numbers(1000, 1), "{n}"),
            Err(Error::Cuda { call, .. }) => errors.push(call),
            Err(error) => assert!(matches!(error, Error::OutOfMemory { .. }), "{n}: {error}"),
        }
        if calls <= n {
            break;
        }
        n += 1;
    }
    let failed = |call| errors.contains(&call);
    format!("{}, {}", failed("cuDeviceCanAccessPeer"), failed("cuMemPoolSetAccess"))
}

#[test]
#[cfg_attr(sim_only, ignore = "wants device code")]
fn whatever_call_of_a_copy_to_another_gpu_fails_the_next_one_works() {
    let (said, _) = run(stub(), "peer_failures", &[("STUB_GPUS", "2")]);
    assert_eq!(said, "true, true");
}
