// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program that uses `cust`, on a machine with a driver and on one without.
//!
//! Every test here passes on both: what is expected follows `cuda_driver::is_available()`.

use std::sync::Barrier;

use cuda_driver::sys;
use cust::error::CudaError;

#[test]
fn quick_init_answers() {
    match cust::quick_init() {
        Ok(_context) => assert!(cuda_driver::is_available()),
        // A driver may be installed where there is no GPU; it then answers the same.
        Err(CudaError::NoDevice) => {}
        Err(error) => assert!(cuda_driver::is_available(), "{error:?} without a driver"),
    }
}

#[test]
fn errors_can_be_printed() {
    let text = CudaError::NoDevice.to_string();
    assert!(!text.is_empty());
    if !cuda_driver::is_available() {
        assert!(text.contains("no NVIDIA driver"), "{text}");
    }
    assert!(!CudaError::InvalidValue.to_string().is_empty());
}

#[test]
fn the_reason_is_told_exactly_when_the_driver_is_missing() {
    match cuda_driver::load_error() {
        None => assert!(cuda_driver::is_available()),
        Some(reason) => {
            assert!(!cuda_driver::is_available());
            assert!(reason.contains("libcuda.so.1"), "{reason}");
        }
    }
}

/// The first calls of several functions from many threads at once: each has the one answer.
#[test]
fn threads_may_call_at_once() {
    const THREADS: usize = 32;
    let barrier = Barrier::new(THREADS);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let (mut version, mut count) = (-1, -1);
                    // SAFETY: both functions write one integer through a pointer that is good for
                    // it.
                    unsafe {
                        let initialised = sys::cuInit(0).0;
                        let versioned = sys::cuDriverGetVersion(&mut version).0;
                        let counted = sys::cuDeviceGetCount(&mut count).0;
                        (initialised, versioned, counted, version, count)
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    if !cuda_driver::is_available() {
        assert_eq!(answers[0], (100, 100, 100, -1, -1));
    }
}
