// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a profiler is told by NVTX.

use super::*;

/// A launch and copies, on the simulated GPU, which the profiler is told of as of others.
pub fn ranges() -> String {
    let device = Device::simulator();
    let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::<f32>::ones(1777)).unwrap();
    x.square().unwrap().sum().unwrap().to_string()
}

#[test]
fn a_profiler_is_told_of_launches_by_the_kernels_names_and_of_copies() {
    let library = scratch("profiler").join("profiler.so");
    compile("profiler.rs", &library);
    let path = library.to_str().expect("a path that is text");
    let (said, log) = run(stub(), "ranges", &[("NVTX_INJECTION64_PATH", path)]);
    assert_eq!(said, "1777");
    assert_eq!(log[0], "domain warpsmith");
    for wanted in [
        "push allocate",
        "push upload",
        "push map_f32_Square",
        "push reduce_f32_Sum",
    ] {
        let place = log.iter().position(|line| line == wanted);
        assert!(place.is_some_and(|place| log[place + 1] == "pop"), "{wanted}: {log:?}");
    }
    let pushes = log.iter().filter(|line| line.starts_with("push ")).count();
    assert_eq!(pushes, log.iter().filter(|line| *line == "pop").count());
}

#[test]
fn without_a_profiler_and_with_a_library_that_is_none_nobody_is_told() {
    let driver = stub().join("libcuda.so.1");
    for path in ["/nowhere.so", driver.to_str().expect("a path that is text")] {
        let (said, log) = run(stub(), "ranges", &[("NVTX_INJECTION64_PATH", path)]);
        assert_eq!((&*said, log), ("1777", Vec::<String>::new()));
    }
}
