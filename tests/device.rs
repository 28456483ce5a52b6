// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which device is opened, what it says of itself, and what happens when it cannot be.

use crate::common::device;
use ndarray::{Ix1, Ix2};
use warpsmith::{DEVICE_VARIABLE, Device, DeviceArray, Dim3, Error};

#[test]
fn devices_are_opened_by_name() {
    let simulator = Device::named("sim").unwrap();
    assert!(simulator.is_simulator());
    assert_eq!(simulator.properties().id, "sim");
    let auto = Device::named("auto").unwrap();
    assert_eq!(auto.properties().id, device().properties().id);
}

/// The variable decides; without it, the first GPU, and only where there is none the simulator.
#[test]
fn the_device_is_the_one_that_the_environment_names() {
    let chosen = &device().properties().id;
    match std::env::var(DEVICE_VARIABLE) {
        Ok(name) if name != "auto" => assert_eq!(*chosen, name),
        _ => assert_eq!(*chosen, Device::list().unwrap()[0].id),
    }
}

#[test]
fn names_that_are_none_are_refused() {
    for name in [
        "",
        "gpu",
        "SIM",
        "sim ",
        "cuda",
        "cuda:",
        "cuda:x",
        "cuda:-1",
        "cuda:0x",
        "cuda:99999999999",
    ] {
        let error = Device::named(name).unwrap_err();
        assert!(matches!(error, Error::DeviceName { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("unknown device {name:?}: wanted auto, cuda:N or sim")
        );
    }
}

/// The commands are those of any project, not of this workspace.
#[test]
fn a_library_without_device_code_says_how_it_gets_some() {
    let message = Error::NoDeviceCode { ordinal: 1 }.to_string();
    for part in [
        "cannot use cuda:1",
        "WARPSMITH_SIM_ONLY",
        "`rustup component add rust-src`",
        "the published package",
        "the device `sim`",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!message.contains("xtask"), "{message}");
}

/// The error says how many GPUs there are, or why there is none.
#[test]
fn a_gpu_that_does_not_exist_is_an_error_with_a_reason() {
    let error = Device::named("cuda:99").unwrap_err();
    assert!(matches!(error, Error::NoDevice { ordinal: 99, .. }), "{error}");
    let message = error.to_string();
    let reason = message.strip_prefix("no device cuda:99: ").expect("names the device");
    let gpus = Device::list().unwrap().len() - 1;
    match gpus {
        0 => {
            assert!(reason.contains("no NVIDIA driver") || reason.contains("no GPU") || reason.contains("driver says"))
        }
        1 => assert_eq!(reason, "this machine has one GPU, cuda:0"),
        _ => assert_eq!(
            reason,
            format!("this machine has {gpus} GPUs, cuda:0 to cuda:{}", gpus - 1)
        ),
    }
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn the_list_names_every_device_once_and_the_simulator_last() {
    let list = Device::list().unwrap();
    let (simulator, gpus) = list.split_last().unwrap();
    assert_eq!(simulator.id, "sim");
    for (ordinal, gpu) in gpus.iter().enumerate() {
        assert_eq!(gpu.id, format!("cuda:{ordinal}"));
    }
    assert!(list.iter().any(|properties| properties == device().properties()));
}

#[test]
fn the_simulator_has_the_limits_of_a_gpu() {
    let device = Device::simulator();
    let properties = device.properties();
    assert_eq!(properties.name, "Warpsmith simulated GPU");
    assert_eq!((properties.warp_size, properties.max_threads_per_block), (32, 1024));
    assert_eq!(
        properties.max_block,
        Dim3 {
            x: 1024,
            y: 1024,
            z: 64
        }
    );
    assert_eq!(
        properties.max_grid,
        Dim3 {
            x: 2_147_483_647,
            y: 65_535,
            z: 65_535
        }
    );
    assert_eq!(properties.shared_memory_per_block, 48 << 10);
    assert!(properties.shared_memory_per_block_optin > properties.shared_memory_per_block);
    assert!(properties.multiprocessors >= 1);
    let hardware = (
        properties.compute_capability,
        properties.driver_version,
        properties.l2_cache,
        properties.pci,
    );
    assert_eq!(hardware, (None, None, None, None), "it has no hardware");
}

#[test]
fn every_device_has_memory() {
    let (total, free) = (device().properties().total_memory, device().memory().unwrap().free);
    assert!(0 < free && free <= total, "{free} of {total}");
}

#[test]
fn clones_are_the_same_device_and_simulators_are_not() {
    let device = Device::simulator();
    let array = DeviceArray::<u8, Ix1>::zeros(device.default_stream(), 4).unwrap();
    let clone = device.clone();
    assert_eq!(clone.default_stream(), device.default_stream());
    let array = array.into_stream(&clone.create_stream().unwrap()).unwrap();
    assert!(array.into_stream(Device::simulator().default_stream()).is_err());
}

#[test]
fn an_array_larger_than_the_memory_is_an_error_with_the_numbers() {
    let wanted = device().properties().total_memory as usize * 2;
    let error = DeviceArray::<u8, Ix1>::zeros(device().default_stream(), wanted).unwrap_err();
    let message = error.to_string();
    let Error::OutOfMemory {
        device: id,
        wanted: bytes,
        free,
        total,
        allocated,
        limit: None,
    } = error
    else {
        panic!("{message}")
    };
    assert_eq!((id.as_str(), bytes), (device().properties().id.as_str(), wanted as u64));
    assert_eq!(total, device().properties().total_memory);
    assert!(free <= total);
    let text =
        format!("out of memory on {id}: wanted {wanted} bytes; {allocated} are allocated, {free} of {total} are free");
    assert_eq!(message, text);
    // The device is as usable as before.
    let small = DeviceArray::<u32, Ix1>::zeros(device().default_stream(), 10).unwrap();
    assert_eq!(small.sum().unwrap(), 0);
}

#[test]
fn shapes_beyond_the_address_space_are_an_error() {
    for (shape, elements) in [
        (Ix2(usize::MAX, 2), "[18446744073709551615, 2]"),
        (Ix2(1 << 61, 1), "[2305843009213693952, 1]"),
    ] {
        let error = DeviceArray::<f32, Ix2>::zeros(device().default_stream(), shape).unwrap_err();
        let given = format!("given shape {elements} of 4-byte elements, wanted less than 2^63 bytes");
        assert_eq!(error.to_string(), format!("allocation: {given}"));
    }
}
