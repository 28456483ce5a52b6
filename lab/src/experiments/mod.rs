// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments, a file each.

mod atomics;
mod coalescing;
mod cpu_vs_gpu;
mod divergence;
mod latency;
mod launch_config;
mod many_kernels;
mod matmul_ladder;
mod memory_pool;
mod occupancy;
mod precision;
mod reduction_ladder;
mod scan_ladder;
mod shared_memory;
mod transfers;

use crate::Experiment;
use crate::picture::{Lines, Picture};

/// All experiments, in the order in which they are best read.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "cpu-vs-gpu",
        sentence: "seven operations on one core, on all cores and on the GPU, with and without copies, at growing sizes",
        sources: &["lab/kernels/src/monte_carlo.rs"],
        run: cpu_vs_gpu::run,
        picture: Picture::Lines {
            lines: Lines::By("operation", ""),
            x: "elements",
            y: &["with copies × all cores"],
            log: true,
        },
    },
    Experiment {
        name: "transfers",
        sentence: "copies from pageable and page-locked memory, many small ones, and beside kernels",
        sources: &[],
        run: transfers::run,
        picture: Picture::Bars {
            labels: 2,
            value: &["GB/s"],
        },
    },
    Experiment {
        name: "latency",
        sentence: "what a launch, a wait and a number that is read back cost",
        sources: &["lab/kernels/src/hello.rs"],
        run: latency::run,
        picture: Picture::Bars {
            labels: 1,
            value: &["a millisecond"],
        },
    },
    Experiment {
        name: "many-kernels",
        sentence: "a chain of small operations: a kernel each, a graph, and one kernel",
        sources: &[],
        run: many_kernels::run,
        picture: Picture::Bars {
            labels: 2,
            value: &["a millisecond", "requests"],
        },
    },
    Experiment {
        name: "memory-pool",
        sentence: "arrays that are made anew each time, and what freeing them costs",
        sources: &[],
        run: memory_pool::run,
        picture: Picture::Bars {
            labels: 1,
            value: &["GB/s"],
        },
    },
    Experiment {
        name: "launch-config",
        sentence: "threads of a block and elements of a thread: when they matter",
        sources: &["lab/kernels/src/map.rs"],
        run: launch_config::run,
        picture: Picture::HeatMap {
            x: "elements a thread",
            y: "threads a block",
            value: &["GB/s", "threads at a time, %"],
        },
    },
    Experiment {
        name: "occupancy",
        sentence: "how many threads it takes to keep memory busy, and what else does",
        sources: &["lab/kernels/src/map.rs"],
        run: occupancy::run,
        picture: Picture::Lines {
            lines: Lines::By("elements a thread", "elements a thread"),
            x: "threads at a time, %",
            y: &["GB/s"],
            log: false,
        },
    },
    Experiment {
        name: "coalescing",
        sentence: "neighbouring threads that access memory near each other, and far from each other",
        sources: &["lab/kernels/src/coalescing.rs"],
        run: coalescing::run,
        picture: Picture::Lines {
            lines: Lines::Tables(&["read", "write"]),
            x: "stride",
            y: &["GB/s", "sectors a request"],
            log: true,
        },
    },
    Experiment {
        name: "shared-memory",
        sentence: "the banks of shared memory, and a transpose with and without their conflicts",
        sources: &[
            "lab/kernels/src/shared_memory.rs",
            "lab/kernels/src/transpose.rs",
            "lab/kernels/src/blur.rs",
        ],
        run: shared_memory::run,
        picture: Picture::Lines {
            lines: Lines::Tables(&["loads from shared memory"]),
            x: "stride",
            y: &["GB/s", "bank conflicts"],
            log: false,
        },
    },
    Experiment {
        name: "divergence",
        sentence: "lanes of a warp that go different ways",
        sources: &["lab/kernels/src/divergence.rs"],
        run: divergence::run,
        picture: Picture::Lines {
            lines: Lines::Tables(&["threads part", "warps part"]),
            x: "ways",
            y: &["10⁹ elements/s", "lanes a request"],
            log: false,
        },
    },
    Experiment {
        name: "atomics",
        sentence: "a histogram by counters in global memory, in shared memory, and by one lane for all alike",
        sources: &["lab/kernels/src/histogram.rs"],
        run: atomics::run,
        picture: Picture::Bars {
            labels: 2,
            value: &["10⁹ elements/s", "requests"],
        },
    },
    Experiment {
        name: "reduction-ladder",
        sentence: "the sum of many numbers in seven steps, and the library's",
        sources: &["lab/kernels/src/reduction.rs"],
        run: reduction_ladder::run,
        picture: Picture::Bars {
            labels: 1,
            value: &["GB/s", "rounds of shared memory"],
        },
    },
    Experiment {
        name: "scan-ladder",
        sentence: "prefix sums by Hillis and Steele, by Blelloch, and in a single pass",
        sources: &["lab/kernels/src/scan.rs"],
        run: scan_ladder::run,
        picture: Picture::Bars {
            labels: 1,
            value: &["GB/s", "rounds of shared memory"],
        },
    },
    Experiment {
        name: "matmul-ladder",
        sentence: "products of matrices, from a thread for each element to the tensor cores",
        sources: &["lab/kernels/src/matmul.rs"],
        run: matmul_ladder::run,
        picture: Picture::Bars {
            labels: 1,
            value: &["GFLOP/s", "requests"],
        },
    },
    Experiment {
        name: "precision",
        sentence: "sums and products in f64, f32, TF32, f16 and bf16: their errors and their rates",
        sources: &[],
        run: precision::run,
        picture: Picture::Bars {
            labels: 1,
            value: &["bits that are right"],
        },
    },
];
