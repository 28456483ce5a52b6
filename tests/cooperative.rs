// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes wrong in cooperative launches. The kernels of this file are not compiled to PTX, so its tests use the
//! simulated GPU; tests/device has those of any device.

use cuda_std::prelude::*;
use ndarray::Array1;
use warpsmith::{Device, DeviceArray, DeviceGridBarrier, Error, LaunchConfig};

/// Each block writes its element, and after the barrier adds that of the block before. Block `silent` does not come to
/// the barrier, block `loud` panics behind it.
#[kernel]
fn shift(silent: u32, loud: u32, grid: GridBarrier<'_>, data: SliceMut<'_, u32>) {
    let (block, blocks) = (thread::block_idx_x(), thread::grid_dim_x());
    if thread::thread_idx_x() == 0 {
        data.set(block as usize, block);
    }
    if block == silent {
        return;
    }
    grid.sync();
    assert!(block != loud, "block {block} gives up");
    let before = data.get(((block + blocks - 1) % blocks) as usize);
    grid.sync();
    if thread::thread_idx_x() == 0 {
        data.set(block as usize, block + before);
    }
}

const NONE: u32 = u32::MAX;

#[test]
fn a_block_that_fails_or_returns_ends_the_launch() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let mut barrier = DeviceGridBarrier::new(stream).unwrap();
    let mut data = DeviceArray::<u32, _>::zeros(stream, 5).unwrap();
    let config = LaunchConfig::new(5, 64);
    let mut run = |silent, loud| stream.launch::<shift>(&config, (silent, loud, &mut barrier, &mut data));

    let Err(Error::Fault(fault)) = run(NONE, 3) else {
        panic!("no fault")
    };
    assert_eq!((&*fault.message, fault.block.x), ("block 3 gives up", 3));
    assert!(fault.location.unwrap().file.ends_with("cooperative.rs"));

    let Err(Error::Fault(fault)) = run(2, NONE) else {
        panic!("no fault")
    };
    assert_eq!(
        fault.message,
        "grid barrier `GridBarrier::sync` not reached by all blocks of the grid: block (2, 0, 0) has ended"
    );
    assert!(fault.location.unwrap().file.ends_with("cooperative.rs"));

    // The barrier is as good as new.
    run(NONE, NONE).unwrap();
    assert_eq!(data.to_ndarray().unwrap(), Array1::from_vec(vec![4, 1, 3, 5, 7]));
}

#[test]
fn a_kernel_that_takes_no_block_has_no_grid() {
    let device = Device::simulator();
    for (threads, shared) in [(2048, 0), (0, 0), (32, 1 << 20)] {
        let error = device.cooperative_config::<shift>(threads, shared).unwrap_err();
        assert!(matches!(error, Error::LaunchConfig { .. }), "{error}");
    }
}
