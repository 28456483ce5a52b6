// SPDX-License-Identifier: MIT OR Apache-2.0
//! What matrix products on tensor cores are made of, on the simulated GPU: barriers in shared memory, bulk copies of
//! tensors, and the products themselves.

// They take long under ThreadSanitizer, and have no threads: each launch is of one block, or counts, which one thread does.
#![cfg(not(thread_sanitizer))]

use cuda_sim::{Error, LaunchConfig, LaunchCounters, Options, launch, launch_counted};

mod mbarrier;
mod mma;
mod product;
mod tma;

/// Launches one block with so many bytes of dynamic shared memory.
#[track_caller]
fn run(threads: u32, dynamic_shared: usize, body: &(dyn Fn() + Sync)) {
    try_run(threads, dynamic_shared, body).unwrap();
}

fn try_run(threads: u32, dynamic_shared: usize, body: &(dyn Fn() + Sync)) -> Result<(), Error> {
    let config = LaunchConfig {
        dynamic_shared,
        ..LaunchConfig::new(1, threads)
    };
    launch("kernel", &config, body)
}

/// What a launch of one block counts.
fn count(threads: u32, body: &(dyn Fn() + Sync)) -> LaunchCounters {
    launch_counted("kernel", &LaunchConfig::new(1, threads), Options::default(), body).unwrap()
}

/// What a launch of one block fails with.
#[track_caller]
fn fault(threads: u32, body: &(dyn Fn() + Sync)) -> String {
    match try_run(threads, 64 * 1024, body) {
        Err(Error::Fault(fault)) => {
            let file = fault.location.expect("a fault has a place").file;
            assert!(
                file.contains("cuda_std/tensor_cores"),
                "the fault is the kernel's, not of {file}"
            );
            fault.message
        }
        other => panic!("a fault was expected, not {other:?}"),
    }
}

/// Numbers that look random: 16 bits at a time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u16 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 48) as u16
    }

    /// From -4 to 4.
    fn next_f32(&mut self) -> f32 {
        f32::from(self.next() as i16) / 8192.0
    }
}
