// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device says of a kernel before it is launched, and a device anew. The kernels of this file are not compiled to
//! PTX, so the tests use the simulated GPU; driver/failures.rs has those of a GPU.

use cuda_std::launch::Kernel;
use cuda_std::prelude::*;
use ndarray::{Array1, array};
use warpsmith::{Device, DeviceArray, Error, LaunchConfig, PtxModules};

/// One more than each element, by 96 threads a block at most.
#[kernel(max_threads = 96)]
fn increment(data: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < data.len() {
        assert!(data.get(i) != 1313, "1313 at {i}");
        data.set(i, data.get(i) + 1);
    }
}

/// Modules with the kernel, with that signature.
fn modules(signature: u64) -> PtxModules {
    let (package, version, name) = (increment::PACKAGE, increment::VERSION, increment::NAME);
    let entries: &'static [(&'static str, u64)] = Vec::leak(vec![(name, signature)]);
    // SAFETY: the simulated GPU runs nothing of it.
    unsafe {
        PtxModules::from_build((
            package,
            version,
            Vec::leak(vec![(name, "sm_75", entries, &[3u8, 0][..])]),
        ))
    }
}

#[test]
fn a_kernel_is_checked_ahead() {
    let device = Device::simulator();
    device.preload::<increment>().unwrap();
    device.register_kernels(modules(increment::SIGNATURE ^ 1)).unwrap();
    // What is registered stays with a device that is made anew.
    for device in [&device, &device.reset().unwrap()] {
        for refused in [
            device.preload::<increment>(),
            device.occupancy::<increment>(32, 0).map(drop),
            device.launch_config::<increment>(10).map(drop),
        ] {
            assert!(matches!(refused, Err(Error::SignatureMismatch { .. })), "{refused:?}");
        }
    }
    Device::simulator().preload::<increment>().unwrap();
}

#[test]
fn as_many_blocks_run_at_a_time_as_threads_and_shared_memory_allow() {
    let device = Device::simulator();
    let occupancy = |block, shared| device.occupancy::<increment>(block, shared);
    assert_eq!(occupancy(32, 0).unwrap(), 32);
    assert_eq!(occupancy(96, 0).unwrap(), 10);
    let most = device.properties().shared_memory_per_block_optin as usize;
    assert_eq!(occupancy(32, most).unwrap(), 1);
    assert_eq!(occupancy(32, most / 3).unwrap(), 3);
    for (block, shared) in [(0, 0), (97, 0), (32, most + 1)] {
        let error = occupancy(block, shared).unwrap_err();
        assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");
    }
}

#[test]
fn the_suggested_configuration_covers_every_element_within_the_kernels_bound() {
    let device = Device::simulator();
    let stream = device.default_stream();
    for len in [0, 1, 95, 96, 97, 1000] {
        let config = device.launch_config::<increment>(len).unwrap();
        assert_eq!((config.block.x, config.grid.x as usize), (96, len.div_ceil(96).max(1)));
        let mut x = DeviceArray::from_ndarray(stream, &Array1::from_elem(len, 5)).unwrap();
        stream.launch::<increment>(&config, (&mut x,)).unwrap();
        assert_eq!(x.to_ndarray().unwrap(), Array1::from_elem(len, 6));
    }
    let error = device.launch_config::<increment>(usize::MAX).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Parameter {
                parameter: "the number of elements",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn the_simulated_gpu_is_made_anew_and_the_old_one_stays() {
    let old = Device::simulator();
    let mut x = DeviceArray::from_ndarray(old.default_stream(), &array![1u32, 1313]).unwrap();
    let failed = old
        .default_stream()
        .launch::<increment>(&LaunchConfig::new(1, 2), (&mut x,));
    assert!(matches!(failed, Err(Error::Fault(_))), "{failed:?}");
    let new = old.reset().unwrap();
    assert_ne!(new.default_stream(), old.default_stream());
    assert_eq!(
        (new.memory().unwrap().allocated, new.properties()),
        (0, old.properties())
    );
    assert_eq!(x.to_ndarray().unwrap()[1], 1313);
    let y = DeviceArray::from_ndarray(new.default_stream(), &array![1u32]).unwrap();
    assert!(matches!(y.add(&x), Err(Error::DifferentDevices { .. })));
}
