// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulated GPU counts of accesses, which is what ncu counts of them on an H100. On a GPU the same launches are
//! made there as well, for a profiler to look at; with `--nocapture` the test says what that should find.

use device_test_kernels::counters::{
    BLOCK, count_global, read_by_some, read_global, read_global_bytes, read_global_quads, read_shared,
    read_shared_pairs, read_shared_quads, transpose, write_global_pairs, write_shared,
};
use device_tests::{PTX, device, download, upload, zeros};
use ndarray::Ix1;
use warpsmith::{Counts, Device, DeviceArray, LaunchConfig, Operation, Space};

/// Enough for all that the kernels read and write.
const LEN: usize = 32 * 1024;

struct Arrays {
    x: DeviceArray<f32, Ix1>,
    bytes: DeviceArray<u8, Ix1>,
    out: DeviceArray<f32, Ix1>,
    counts: DeviceArray<u32, Ix1>,
}

impl Arrays {
    fn new(device: &Device) -> Self {
        let x: Vec<f32> = (0..LEN).map(|i| (i * 7 % 1001) as f32).collect();
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 7) as u8).collect();
        Arrays {
            x: upload(device, &x),
            bytes: upload(device, &bytes),
            out: zeros(device, LEN),
            counts: zeros(device, 64),
        }
    }
}

type Launch = Box<dyn Fn(&Device, &mut Arrays)>;

/// A launch of four warps, and what is counted of one kind of access.
struct Case {
    name: String,
    launch: Launch,
    of: (Space, Operation),
    /// For each warp: requests, sectors or wavefronts, conflicts or collisions.
    wanted: (u64, u64, u64),
}

const LOADS: (Space, Operation) = (Space::Global, Operation::Load);
const STORES: (Space, Operation) = (Space::Global, Operation::Store);
const ATOMICS: (Space, Operation) = (Space::Global, Operation::Atomic);
const SHARED_LOADS: (Space, Operation) = (Space::Shared, Operation::Load);
const SHARED_STORES: (Space, Operation) = (Space::Shared, Operation::Store);

/// `kernel(arguments; arrays)`, counted of some kind.
macro_rules! case {
    ($kernel:ident($($argument:literal),*; $($array:ident),*), $of:ident, $wanted:expr) => {
        Case {
            name: format!("{} {:?}", stringify!($kernel), ($($argument,)*)),
            launch: Box::new(|device, arrays| {
                let arguments = ($($argument,)* $(array!(arrays, $array),)*);
                let config = LaunchConfig::new(2, BLOCK as u32);
                device.default_stream().launch::<$kernel>(&config, arguments).unwrap();
            }),
            of: $of,
            wanted: $wanted,
        }
    };
}

macro_rules! array {
    ($arrays:ident, x) => {
        &$arrays.x
    };
    ($arrays:ident, bytes) => {
        &$arrays.bytes
    };
    ($arrays:ident, $written:ident) => {
        &mut $arrays.$written
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!(read_global(1, 1, 0; x, out), LOADS, (1, 4, 0)),
        case!(read_global(1, 1, 1; x, out), LOADS, (1, 5, 0)),
        case!(read_global(2, 1, 0; x, out), LOADS, (1, 8, 0)),
        case!(read_global(3, 1, 0; x, out), LOADS, (1, 12, 0)),
        case!(read_global(32, 1, 0; x, out), LOADS, (1, 32, 0)),
        case!(read_global(1, 32, 0; x, out), LOADS, (1, 1, 0)),
        case!(read_global(8, 4, 0; x, out), LOADS, (1, 8, 0)),
        case!(read_global(2, 1, 0; x, out), STORES, (1, 4, 0)),
        case!(read_global_quads(1, 1; x, out), LOADS, (1, 16, 0)),
        case!(read_global_quads(2, 1; x, out), LOADS, (1, 32, 0)),
        case!(read_global_quads(1, 2; x, out), LOADS, (1, 8, 0)),
        case!(read_global_quads(1, 32; x, out), LOADS, (1, 1, 0)),
        case!(write_global_pairs(1; out), STORES, (1, 8, 0)),
        case!(write_global_pairs(4; out), STORES, (1, 32, 0)),
        case!(read_global_bytes(1; bytes, out), LOADS, (1, 1, 0)),
        case!(read_global_bytes(5; bytes, out), LOADS, (1, 5, 0)),
        case!(read_by_some(5; x, out), LOADS, (1, 1, 0)),
        case!(read_by_some(20; x, out), LOADS, (1, 3, 0)),
        case!(count_global(32; counts), ATOMICS, (1, 4, 0)),
        case!(count_global(3; counts), ATOMICS, (1, 11, 29)),
        case!(transpose(; x, out), LOADS, (32, 32 * 32, 0)),
        case!(transpose(; x, out), STORES, (32, 32 * 4, 0)),
        case!(read_shared(1, 1; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared(2, 1; out), SHARED_LOADS, (1, 2, 1)),
        case!(read_shared(3, 1; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared(8, 1; out), SHARED_LOADS, (1, 8, 7)),
        case!(read_shared(32, 1; out), SHARED_LOADS, (1, 32, 31)),
        case!(read_shared(1, 32; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared(32, 4; out), SHARED_LOADS, (1, 8, 7)),
        case!(read_shared_pairs(1, 1; out), SHARED_LOADS, (1, 2, 0)),
        case!(read_shared_pairs(2, 1; out), SHARED_LOADS, (1, 4, 2)),
        case!(read_shared_pairs(3, 1; out), SHARED_LOADS, (1, 2, 0)),
        case!(read_shared_pairs(16, 1; out), SHARED_LOADS, (1, 32, 30)),
        case!(read_shared_pairs(1, 2; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared_pairs(1, 32; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared_quads(1, 1; out), SHARED_LOADS, (1, 4, 0)),
        case!(read_shared_quads(2, 1; out), SHARED_LOADS, (1, 8, 4)),
        case!(read_shared_quads(8, 1; out), SHARED_LOADS, (1, 32, 28)),
        case!(read_shared_quads(1, 2; out), SHARED_LOADS, (1, 2, 0)),
        case!(read_shared_quads(1, 32; out), SHARED_LOADS, (1, 2, 0)),
        case!(write_shared(1; out), SHARED_STORES, (1, 1, 0)),
        case!(write_shared(4; out), SHARED_STORES, (1, 4, 3)),
        case!(write_shared(32; out), SHARED_STORES, (1, 32, 31)),
        case!(write_shared(33; out), SHARED_STORES, (1, 1, 0)),
    ]
}

fn numbers(counts: &Counts) -> (u64, u64, u64) {
    (
        counts.requests,
        counts.sectors + counts.wavefronts,
        counts.bank_conflicts + counts.collisions,
    )
}

#[test]
fn accesses_are_counted_as_a_gpu_would() {
    let simulator = Device::counting_simulator();
    simulator.register_kernels(PTX).unwrap();
    let gpu = Some(device()).filter(|device| !device.is_simulator());
    let mut simulated = Arrays::new(&simulator);
    let mut arrays = gpu.as_ref().map(Arrays::new);
    for case in cases() {
        (case.launch)(&simulator, &mut simulated);
        let counters = simulator.take_counters();
        let (space, operation) = case.of;
        let counted = numbers(&counters[0].total(space, operation));
        // The warps of a launch do the same, each in sectors of its own.
        let (requests, moved, extra) = case.wanted;
        assert_eq!(
            counted,
            (4 * requests, 4 * moved, 4 * extra),
            "{}\n{}",
            case.name,
            counters[0]
        );
        println!(
            "{}: {space:?} {operation:?}, requests, moved, extra: {counted:?}",
            case.name
        );
        if let (Some(gpu), Some(arrays)) = (&gpu, &mut arrays) {
            (case.launch)(gpu, arrays);
            assert_eq!(download(&arrays.out), download(&simulated.out), "{}", case.name);
            assert_eq!(download(&arrays.counts), download(&simulated.counts), "{}", case.name);
        }
    }
}
