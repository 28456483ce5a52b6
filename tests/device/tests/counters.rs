// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the simulated GPU counts of accesses, and what ncu counts of the same launches on a GPU:
//!
//! ```text
//! WARPSMITH_DEVICE=cuda:0 device-tests-suite counters::ncu_counts_the_same --exact --ignored --nocapture
//! ```

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::process::Command;

use device_test_kernels::counters::{
    BLOCK, count_apart, count_global, gather, read_by_some, read_global, read_global_bytes, read_global_halves,
    read_global_pairs, read_global_quads, read_reversed, read_shared, read_shared_by_odd_lanes, read_shared_bytes,
    read_shared_pairs, read_shared_quads, read_shared_swizzled, read_tile, transpose, write_global_bytes,
    write_global_pairs, write_shared, write_shared_quads,
};
use device_tests::{PTX, device, download, upload, zeros};
use ndarray::Ix1;
use warpsmith::sim::{Counts, Operation, Space};
use warpsmith::{Device, DeviceArray, LaunchConfig};

/// Enough for all that the kernels read and write.
const LEN: usize = 32 * 1024;

struct Arrays {
    x: DeviceArray<f32, Ix1>,
    bytes: DeviceArray<u8, Ix1>,
    halves: DeviceArray<u16, Ix1>,
    out: DeviceArray<f32, Ix1>,
    out_bytes: DeviceArray<u8, Ix1>,
    counts: DeviceArray<u32, Ix1>,
}

impl Arrays {
    fn new(device: &Device) -> Self {
        let x: Vec<f32> = (0..LEN).map(|i| (i * 7 % 1001) as f32).collect();
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 7) as u8).collect();
        let halves: Vec<u16> = (0..LEN).map(|i| (i * 7) as u16).collect();
        Arrays {
            x: upload(device, &x),
            bytes: upload(device, &bytes),
            halves: upload(device, &halves),
            out: zeros(device, LEN),
            out_bytes: zeros(device, LEN),
            counts: zeros(device, LEN),
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
    ($arrays:ident, halves) => {
        &$arrays.halves
    };
    ($arrays:ident, $written:ident) => {
        &mut $arrays.$written
    };
}

/// Those that ncu has been asked about.
fn compared() -> Vec<Case> {
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

/// Others, whose numbers the model says, and ncu has not been asked yet.
fn predicted() -> Vec<Case> {
    vec![
        case!(read_global(5, 1, 3; x, out), LOADS, (1, 20, 0)),
        case!(gather(37; x, out), LOADS, (1, 16, 0)),
        case!(gather(96; x, out), LOADS, (1, 8, 0)),
        case!(read_reversed(; x, out), LOADS, (1, 4, 0)),
        case!(read_tile(16, 100; x, out), LOADS, (1, 5, 0)),
        case!(read_tile(8, 33; x, out), LOADS, (1, 7, 0)),
        case!(read_global_pairs(3; x, out), LOADS, (1, 24, 0)),
        case!(read_global_quads(3, 1; x, out), LOADS, (1, 32, 0)),
        case!(read_global_halves(1; halves, out), LOADS, (1, 2, 0)),
        case!(read_global_halves(3; halves, out), LOADS, (1, 6, 0)),
        case!(write_global_bytes(1; out_bytes), STORES, (1, 1, 0)),
        case!(write_global_bytes(5; out_bytes), STORES, (1, 5, 0)),
        case!(count_global(16; counts), ATOMICS, (1, 4, 16)),
        case!(count_global(5; counts), ATOMICS, (1, 7, 27)),
        case!(count_apart(8; counts), ATOMICS, (1, 32, 0)),
        case!(read_shared(6, 1; out), SHARED_LOADS, (1, 2, 1)),
        case!(read_shared(12, 3; out), SHARED_LOADS, (1, 2, 1)),
        case!(read_shared_bytes(1; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared_bytes(8; out), SHARED_LOADS, (1, 2, 1)),
        case!(read_shared_swizzled(5; out), SHARED_LOADS, (1, 1, 0)),
        case!(read_shared_by_odd_lanes(2; out), SHARED_LOADS, (1, 2, 1)),
        case!(read_shared_pairs(5, 1; out), SHARED_LOADS, (1, 2, 0)),
        case!(read_shared_quads(3, 1; out), SHARED_LOADS, (1, 4, 0)),
        case!(write_shared_quads(1; out), SHARED_STORES, (1, 4, 0)),
        case!(write_shared_quads(4; out), SHARED_STORES, (1, 16, 12)),
    ]
}

fn all() -> impl Iterator<Item = Case> {
    compared().into_iter().chain(predicted())
}

impl Case {
    /// What ncu has of the case's kind of access, and how much of each is wanted of the launch's four warps. It counts no requests
    /// of shared memory, and no collisions.
    fn metrics(&self) -> Vec<(String, u64)> {
        let (requests, moved, extra) = self.wanted;
        let operation = match self.of.1 {
            Operation::Load => "ld",
            Operation::Store => "st",
            // None of these kernels wants what an atomic returns.
            Operation::Atomic => "red",
        };
        let metrics = match self.of.0 {
            Space::Global => [
                ("t_requests_pipe_lsu_mem_global", requests),
                ("t_sectors_pipe_lsu_mem_global", moved),
            ],
            Space::Shared => [
                ("data_pipe_lsu_wavefronts_mem_shared", moved),
                ("data_bank_conflicts_pipe_lsu_mem_shared", extra),
            ],
        };
        let full = |(name, number)| (format!("l1tex__{name}_op_{operation}.sum"), 4 * number);
        metrics.map(full).to_vec()
    }
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
    for case in all() {
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
        if let (Some(gpu), Some(arrays)) = (&gpu, &mut arrays) {
            (case.launch)(gpu, arrays);
            assert_eq!(download(&arrays.out), download(&simulated.out), "{}", case.name);
            assert_eq!(
                download(&arrays.out_bytes),
                download(&simulated.out_bytes),
                "{}",
                case.name
            );
            assert_eq!(download(&arrays.counts), download(&simulated.counts), "{}", case.name);
        }
    }
}

/// The launches on the GPU, and nothing else.
#[test]
#[ignore = "for ncu, which `ncu_counts_the_same` runs"]
fn launches() {
    let device = device();
    let mut arrays = Arrays::new(&device);
    all().for_each(|case| (case.launch)(&device, &mut arrays));
    device.synchronize().unwrap();
}

/// The fields of a line of comma-separated values, of which each may be in quotes and then have commas.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match (character, fields.last_mut()) {
            ('"', _) => is_quoted = !is_quoted,
            (',', _) if !is_quoted => fields.push(String::new()),
            (_, Some(last)) => last.push(character),
            (_, None) => {}
        }
    }
    fields
}

/// What ncu has measured of each launch, in order: the kernel's name, and metrics. It prints a line for each metric below one with
/// the columns' names, behind whatever the program has printed.
fn measured(text: &str) -> Vec<(String, HashMap<String, u64>)> {
    let mut lines = text.lines().map(fields);
    let header = lines.find(|fields| fields[0] == "ID").expect("ncu prints a header");
    let column = |name| {
        header
            .iter()
            .position(|field| field == name)
            .expect("ncu has the column")
    };
    let [kernel, metric, value] = ["Kernel Name", "Metric Name", "Metric Value"].map(column);
    let mut launches: Vec<(String, String, HashMap<_, _>)> = Vec::new();
    for line in lines.filter(|line| line.len() == header.len()) {
        if launches.last().is_none_or(|(id, ..)| *id != line[0]) {
            launches.push((line[0].clone(), line[kernel].clone(), HashMap::new()));
        }
        let number = line[value].replace(',', "").parse().expect("a count");
        let (.., metrics) = launches.last_mut().expect("one was pushed");
        metrics.insert(line[metric].clone(), number);
    }
    launches.into_iter().map(|(_, name, metrics)| (name, metrics)).collect()
}

#[test]
fn what_ncu_prints_is_read() {
    let text = "ok\n\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n\"0\",\"a\",\"x\",\"1,024\"\n\"0\",\"a\",\"y\",\"2\"\n\"1\",\"a\",\"x\",\"3\"\n";
    let launches = measured(text);
    assert_eq!(launches.len(), 2);
    assert_eq!(
        (launches[0].1["x"], launches[0].1["y"], launches[1].1["x"]),
        (1024, 2, 3)
    );
}

#[test]
#[ignore = "wants a GPU and ncu"]
fn ncu_counts_the_same() {
    let metrics: BTreeSet<String> = all().flat_map(|case| case.metrics()).map(|(name, _)| name).collect();
    let mut ncu = Command::new("ncu");
    ncu.args(["--csv", "--metrics", &Vec::from_iter(metrics).join(",")]);
    ncu.arg(env::current_exe().unwrap());
    ncu.args(["counters::launches", "--exact", "--ignored"]);
    let output = ncu.output().expect("`ncu` can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{text}", output.status);
    let launches = measured(&text);
    assert_eq!(launches.len(), all().count(), "{text}");
    let mut others = 0;
    for (case, (kernel, measured)) in all().zip(launches) {
        for (metric, wanted) in case.metrics() {
            let found = measured[&metric];
            println!(
                "{} ({kernel}), {metric}: {wanted} predicted, {found} measured",
                case.name
            );
            others += u32::from(found != wanted);
        }
    }
    assert_eq!(others, 0, "numbers that ncu has otherwise");
}
