// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies between host and device beside the driver's own, in GB/s, and the time of an allocation and of a sum that the
//! host reads: `cargo bench --bench runtime -- transfer`. By the host's clock, medians, from the call until the copy is
//! done; what arrives is compared. New memory is fresh only from 32 MiB on: what is smaller, the allocator gives out again.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::driver::{self, check};
use cuda_driver::sys;
use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, PinnedArray, Result};

const MIB: usize = 1 << 20;

pub fn run() -> Result<()> {
    let device = Device::auto()?;
    println!("{}: GB/s, the driver's own beside them", device.properties().name);
    println!("{:>34}  {:>16}  {:>16}  {:>16}", "", "1 MiB", "16 MiB", "256 MiB");
    let sizes: &[usize] = match device.is_simulator() {
        true => &[MIB, 16 * MIB],
        false => &[MIB, 16 * MIB, 256 * MIB],
    };
    let columns: Vec<[Cell; 5]> = sizes
        .iter()
        .map(|&bytes| column(&device, bytes))
        .collect::<Result<_>>()?;
    let rows = [
        "upload",
        "download into new memory",
        "download into used memory",
        "upload from pinned memory",
        "download into pinned memory",
    ];
    for (i, name) in rows.into_iter().enumerate() {
        print!("{name:>34}");
        for column in &columns {
            let (ours, driver) = column[i];
            print!(
                "  {ours:>7.1} ({:>6})",
                driver.map_or("-".into(), |driver| format!("{driver:.1}"))
            );
        }
        println!();
    }
    small(&device)
}

/// GB/s of the library's copy, and of the driver's.
type Cell = (f64, Option<f64>);

/// The median time of `work`.
fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[rounds / 2]
}

/// The rate at which `work` copies as many bytes. The first times are for caches of memory to fill.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    let rounds = (512 * MIB / bytes).clamp(7, 101);
    (0..3).for_each(|_| work());
    bytes as f64 / 1e9 / median(rounds, work).as_secs_f64()
}

/// All ways to copy that many bytes.
fn column(device: &Device, bytes: usize) -> Result<[Cell; 5]> {
    let stream = device.default_stream();
    let host = Array1::from_shape_fn(bytes / 4, |i| (i as u32).wrapping_mul(2_654_435_761));
    let mut driver = (!device.is_simulator()).then(|| Driver::new(bytes));
    let mut x = DeviceArray::<u32, Ix1>::zeros(stream, bytes / 4)?;

    let ours = rate(bytes, || {
        x.assign_ndarray(&host).expect("the copy succeeds");
        stream.synchronize().expect("the copy succeeds");
    });
    let theirs = driver
        .as_mut()
        .map(|driver| rate(bytes, || driver.upload(host.as_ptr().cast())));
    let upload = (ours, theirs);

    // The time of the drop, which gives the pages back, counts as little as with any other program.
    let ours = rate(bytes, || drop(black_box(x.to_ndarray().expect("the copy succeeds"))));
    assert!(x.to_ndarray()? == host, "what arrived");
    let theirs = driver.as_mut().map(|driver| {
        rate(bytes, || {
            let mut fresh = Vec::<u32>::with_capacity(bytes / 4);
            driver.download(fresh.as_mut_ptr().cast());
            black_box(fresh.as_ptr());
        })
    });
    let fresh = (ours, theirs);

    let mut used = Array1::<u32>::ones(bytes / 4);
    let ours = rate(bytes, || x.copy_to_ndarray(&mut used).expect("the copy succeeds"));
    assert!(used == host, "what arrived");
    let theirs = driver.as_mut().map(|driver| {
        used.fill(1);
        let rate = rate(bytes, || driver.download(used.as_mut_ptr().cast()));
        assert!(used == host, "what arrived by the driver");
        rate
    });
    let used = (ours, theirs);

    let (up, down) = pinned(device, &mut x, &host)?;
    let theirs = driver.as_mut().map(|driver| {
        let memory = driver.pinned;
        (
            rate(bytes, || driver.upload(memory)),
            rate(bytes, || driver.download(memory)),
        )
    });
    Ok([
        upload,
        fresh,
        used,
        (up, theirs.map(|(up, _)| up)),
        (down, theirs.map(|(_, down)| down)),
    ])
}

/// The rates of copies from and to a pinned array.
fn pinned(device: &Device, x: &mut DeviceArray<u32, Ix1>, host: &Array1<u32>) -> Result<(f64, f64)> {
    let bytes = 4 * host.len();
    let mut array = Some(PinnedArray::from_ndarray(device, host)?);
    let up = rate(bytes, || {
        let pending = x
            .assign_async(array.take().expect("it came back"))
            .expect("the copy succeeds");
        array = Some(pending.wait().expect("the copy succeeds"));
    });
    if let Some(array) = &mut array {
        array.view_mut().fill(0);
    }
    let down = rate(bytes, || {
        let pending = x
            .download_async_into(array.take().expect("it came back"))
            .expect("the copy succeeds");
        array = Some(pending.wait().expect("the copy succeeds"));
    });
    assert!(array.is_some_and(|array| array.view() == host), "what arrived");
    Ok((up, down))
}

/// What is small and happens often.
fn small(device: &Device) -> Result<()> {
    let stream = device.default_stream();
    // On the simulated GPU only for the benchmark to be tried out.
    let (len, sums, rows) = match device.is_simulator() {
        true => (1 << 10, 3, 1),
        false => (1 << 20, 2001, 51),
    };
    for elements in [1, len] {
        let x = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(elements))?;
        let mut out = DeviceArray::<f32, _>::zeros(stream, ())?;
        let row = |name: &str, work: &mut dyn FnMut() -> Result<()>| {
            let time = median(sums, || work().expect("the kernel succeeds"));
            println!("{name:>50}: {:.1} µs", time.as_secs_f64() * 1e6);
        };
        println!("a sum of {elements} f32");
        row("queued and waited for", &mut || {
            x.sum_into(&mut out)?;
            stream.synchronize()
        });
        row("queued, and the stream asked until it is done", &mut || {
            x.sum_into(&mut out)?;
            while !stream.is_idle()? {}
            Ok(())
        });
        row("queued, and copied to the host", &mut || {
            x.sum_into(&mut out)?;
            assert_eq!(out.get(())?, elements as f32);
            Ok(())
        });
        row("read by the host where the kernel puts it", &mut || {
            assert_eq!(x.sum()?, elements as f32);
            Ok(())
        });
        row("an element alone, copied to the host", &mut || {
            assert_eq!(x.get(0)?, 1.0);
            Ok(())
        });
    }
    for elements in [len >> 10, len >> 2, len] {
        let y = DeviceArray::from_ndarray(stream, &Array1::<f32>::ones(elements))?;
        let mut out = DeviceArray::zeros(stream, elements)?;
        // In rows, for the clock; each behind a wait, so that the device's queue is empty.
        let row = |work: &mut dyn FnMut()| {
            let time = median(rows, || {
                (0..200).for_each(|_| work());
                stream.synchronize().expect("the kernels succeed");
            });
            time.as_secs_f64() * 1e6 / 200.0
        };
        let into = row(&mut || y.square_into(&mut out).expect("the kernel succeeds"));
        let made = row(&mut || drop(y.square().expect("the kernel succeeds")));
        println!("a launch on {elements} f32: {into:.2} µs; with an allocation and its free: {made:.2} µs");
    }
    Ok(())
}

/// The driver's own copies, on a stream of their own.
struct Driver {
    stream: sys::CUstream,
    memory: sys::CUdeviceptr,
    pinned: *mut u8,
    bytes: usize,
}

impl Driver {
    /// Memory of that size on the first GPU and, page-locked, on the host. It is there until the program ends.
    fn new(bytes: usize) -> Self {
        let stream = driver::stream();
        let (mut memory, mut pinned) = (0, std::ptr::null_mut());
        // SAFETY: functions that write a handle or an address; the device was opened, so there is one.
        unsafe {
            check(sys::cuMemAlloc_v2(&mut memory, bytes));
            check(sys::cuMemHostAlloc(&mut pinned, bytes, 0));
        }
        Self {
            stream,
            memory,
            pinned: pinned.cast(),
            bytes,
        }
    }

    fn upload(&mut self, from: *const u8) {
        // SAFETY: both have as many bytes; the copy is waited for.
        unsafe {
            check(sys::cuMemcpyHtoDAsync_v2(
                self.memory,
                from.cast(),
                self.bytes,
                self.stream,
            ));
            check(sys::cuStreamSynchronize(self.stream));
        }
    }

    fn download(&mut self, to: *mut u8) {
        // SAFETY: as above.
        unsafe {
            check(sys::cuMemcpyDtoHAsync_v2(
                to.cast(),
                self.memory,
                self.bytes,
                self.stream,
            ));
            check(sys::cuStreamSynchronize(self.stream));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: its own, and no copy is under way.
        unsafe {
            check(sys::cuMemFree_v2(self.memory));
            check(sys::cuMemFreeHost(self.pinned.cast()));
            check(sys::cuStreamDestroy_v2(self.stream));
        }
    }
}
