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

/// All experiments, in the order in which they are best read.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "cpu-vs-gpu",
        sentence: "seven operations on one core, on all cores and on the GPU, with and without copies, at growing sizes",
        sources: &["lab/kernels/src/monte_carlo.rs"],
        run: cpu_vs_gpu::run,
    },
    Experiment {
        name: "transfers",
        sentence: "copies from pageable and page-locked memory, many small ones, and beside kernels",
        sources: &[],
        run: transfers::run,
    },
    Experiment {
        name: "latency",
        sentence: "what a launch, a wait and a number that is read back cost",
        sources: &["lab/kernels/src/hello.rs"],
        run: latency::run,
    },
    Experiment {
        name: "many-kernels",
        sentence: "a chain of small operations: a kernel each, a graph, and one kernel",
        sources: &[],
        run: many_kernels::run,
    },
    Experiment {
        name: "memory-pool",
        sentence: "arrays that are made anew each time, and what freeing them costs",
        sources: &[],
        run: memory_pool::run,
    },
    Experiment {
        name: "launch-config",
        sentence: "threads of a block and elements of a thread: when they matter",
        sources: &["lab/kernels/src/map.rs"],
        run: launch_config::run,
    },
    Experiment {
        name: "occupancy",
        sentence: "how many threads it takes to keep memory busy, and what else does",
        sources: &["lab/kernels/src/map.rs"],
        run: occupancy::run,
    },
    Experiment {
        name: "coalescing",
        sentence: "neighbouring threads that access memory near each other, and far from each other",
        sources: &["lab/kernels/src/coalescing.rs"],
        run: coalescing::run,
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
    },
    Experiment {
        name: "divergence",
        sentence: "lanes of a warp that go different ways",
        sources: &["lab/kernels/src/divergence.rs"],
        run: divergence::run,
    },
    Experiment {
        name: "atomics",
        sentence: "a histogram by counters in global memory, in shared memory, and by one lane for all alike",
        sources: &["lab/kernels/src/histogram.rs"],
        run: atomics::run,
    },
    Experiment {
        name: "reduction-ladder",
        sentence: "the sum of many numbers in seven steps, and the library's",
        sources: &["lab/kernels/src/reduction.rs"],
        run: reduction_ladder::run,
    },
    Experiment {
        name: "scan-ladder",
        sentence: "prefix sums by Hillis and Steele, by Blelloch, and in a single pass",
        sources: &["lab/kernels/src/scan.rs"],
        run: scan_ladder::run,
    },
    Experiment {
        name: "matmul-ladder",
        sentence: "products of matrices, from a thread for each element to the tensor cores",
        sources: &["lab/kernels/src/matmul.rs"],
        run: matmul_ladder::run,
    },
    Experiment {
        name: "precision",
        sentence: "sums and products in f64, f32, TF32, f16 and bf16: their errors and their rates",
        sources: &[],
        run: precision::run,
    },
];
