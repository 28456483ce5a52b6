// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations of the library on a device of which each call fails in turn: an error comes back or the operation finds
//! another way, nothing that it allocated is left, and the device works as before.

mod elements;
mod networks;

use std::ops::Range;
use std::sync::LazyLock;
use std::sync::mpsc::channel;

use cuda_std::prelude::*;
use ndarray::{Array1, Array2, Array3, Axis, Ix1, Ix2, array};
use warpsmith::expr::{self, Compiled, Expr};
use warpsmith::ops::{Border, Sum};
use warpsmith::{
    Device, DeviceArray, DeviceGridBarrier, Error, F8E4M3, Faults, Generator, PinnedArray, Result, Stream, f16,
};

use crate::common::device;

/// Something done with arrays at home on the stream, which checks its results.
type Work = fn(&Device, &Stream) -> Result<()>;

/// One more than the elements.
#[kernel]
fn increment(data: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i < data.len() {
        data.set(i, data.get(i) + 1);
    }
}

/// Four times the elements: each is doubled by one thread and, when all have met, by another.
#[kernel]
fn double_twice(grid: GridBarrier<'_>, data: SliceMut<'_, f32>) {
    let threads = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    for i in (thread::index_1d()..data.len()).step_by(threads) {
        data.set(i, 2.0 * data.get(i));
    }
    grid.sync();
    for i in (thread::index_1d()..data.len()).step_by(threads) {
        let mirrored = data.len() - 1 - i;
        data.set(mirrored, 2.0 * data.get(mirrored));
    }
}

fn ones(stream: &Stream, len: usize) -> Result<DeviceArray<f32, ndarray::Ix1>> {
    DeviceArray::from_ndarray(stream, &Array1::ones(len))
}

const WORK: &[(&str, Work)] = &[
    ("zeros and copies", |_, stream| {
        let mut x = DeviceArray::<u16, _>::zeros(stream, (30, 50))?;
        x.assign_ndarray(&Array2::from_elem((50, 30), 7).t())?;
        let y = x.try_clone()?;
        x.assign(&y)?;
        let mut host = Array2::zeros((30, 50));
        x.copy_to_ndarray(&mut host)?;
        assert_eq!(host, Array2::from_elem((30, 50), 7));
        Ok(())
    }),
    ("a large copy", |_, stream| {
        let host = Array1::from_shape_fn(40_000, |i| i as u32);
        let x = DeviceArray::from_ndarray(stream, &host)?;
        assert!(x.to_ndarray()? == host);
        Ok(())
    }),
    ("maps", |_, stream| {
        let mut x = ones(stream, 1000)?.square()?.exp()?;
        x.neg_inplace()?;
        let y = ones(stream, 1000)?;
        x.axpy(1.0, &y)?;
        assert!(x.to_ndarray()?.iter().all(|x| (x + 1.7182817).abs() < 1e-5));
        Ok(())
    }),
    ("binary operations", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![[1, 2], [3, 4]])?;
        let y = DeviceArray::from_ndarray(stream, &array![10, 20])?;
        assert_eq!(x.add(&y)?.mul_scalar(2)?.to_ndarray()?, array![[22, 44], [26, 48]]);
        assert_eq!(x.t().to_array()?.to_ndarray()?, array![[1, 3], [2, 4]]);
        Ok(())
    }),
    ("comparison and selection", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![1.0, 5.0, 3.0])?;
        let y = DeviceArray::from_ndarray(stream, &array![2.0, 4.0, 6.0])?;
        assert_eq!(x.less(&y)?.select(&x, &y)?.to_ndarray()?, array![1.0, 4.0, 3.0]);
        Ok(())
    }),
    ("casts", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &array![1.5f32, -2.5])?;
        assert_eq!(x.cast::<i32>()?.to_ndarray()?, array![1, -2]);
        Ok(())
    }),
    ("reductions", |_, stream| {
        // Of two tiles.
        let x = ones(stream, 9000)?;
        assert_eq!((x.sum()?, x.max()?, x.argmin()?), (9000.0, 1.0, 0));
        assert_eq!(x.variance(0)?, 0.0);
        Ok(())
    }),
    ("reductions along axes", |_, stream| {
        let rows = ones(stream, 2000)?.into_shape((20, 100))?;
        assert_eq!(rows.sum_axis(Axis(1))?.to_ndarray()?, Array1::from_elem(20, 100.0));
        assert_eq!(rows.sum_axis(Axis(0))?.to_ndarray()?, Array1::from_elem(100, 20.0));
        Ok(())
    }),
    ("scans", |_, stream| {
        let x = ones(stream, 10_000)?;
        assert_eq!(x.inclusive_scan::<Sum>()?.max()?, 10_000.0);
        let rows = x.into_shape((50, 200))?;
        assert_eq!(rows.exclusive_scan_axis::<Sum>(Axis(0))?.max()?, 49.0);
        Ok(())
    }),
    ("products of matrices", |_, stream| {
        let a = ones(stream, 20 * 30)?.into_shape((20, 30))?;
        let b = ones(stream, 30 * 10)?.into_shape((30, 10))?;
        assert_eq!(a.matmul(&b)?.to_ndarray()?, Array2::from_elem((20, 10), 30.0));
        assert_eq!(
            a.t().matmul(&a.view())?.to_ndarray()?,
            Array2::from_elem((30, 30), 20.0)
        );
        assert_eq!(a.matvec(&ones(stream, 30)?)?.sum()?, 600.0);
        Ok(())
    }),
    ("products of matrices of bytes", |_, stream| {
        let a = ones(stream, 20 * 30)?.into_shape((20, 30))?;
        let b = ones(stream, 30 * 10)?.into_shape((30, 10))?;
        let (x, y, scale) = (a.cast::<F8E4M3>()?, b.cast::<F8E4M3>()?, ones(stream, 1)?);
        let product: DeviceArray<f32, _> = x.scaled_matmul(&y).scale_b(&scale).compute()?;
        assert_eq!(product.to_ndarray()?, Array2::from_elem((20, 10), 30.0));
        let (x, y) = (a.cast::<i8>()?, b.cast::<i8>()?);
        assert_eq!(x.matmul_i32(&y)?.to_ndarray()?, Array2::from_elem((20, 10), 30));
        Ok(())
    }),
    ("expressions with operations on arrays", |_, stream| {
        let a = ones(stream, 20 * 30)?.into_shape((20, 30))?;
        let row = ones(stream, 20)?;
        let layer = ((&a * 2.0).matmul(a.t().to_array()?.into_expr()) + &row).relu();
        let sums = (layer * 0.5).inclusive_scan_axis::<Sum>(Axis(0)).max_axis(Axis(0));
        assert_eq!(sums.eval()?.to_ndarray()?, Array1::from_elem(20, 610.0));
        Ok(())
    }),
    ("histograms", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &Array1::from_shape_fn(1000, |i| (i % 10) as f32))?;
        assert_eq!(x.histogram(5, 0.0..=9.0)?.to_ndarray()?, Array1::from_elem(5, 200));
        assert_eq!(x.histogram_auto(2)?.0.to_ndarray()?, array![500, 500]);
        assert_eq!(x.histogram_edges(&[0.0, 3.0, 10.0])?.to_ndarray()?, array![300, 700]);
        let y = x.cast::<u32>()?;
        assert_eq!(y.bincount()?.to_ndarray()?, Array1::from_elem(10, 100));
        Ok(())
    }),
    ("transpositions", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &Array3::from_shape_fn((10, 20, 30), |(i, j, k)| i + j + k))?;
        let y = x.permute([2, 0, 1])?;
        assert_eq!(y.to_ndarray()?[[29, 9, 19]], 57);
        Ok(())
    }),
    ("pictures", |_, stream| {
        let x = DeviceArray::from_ndarray(stream, &Array3::from_elem((10, 15, 3), 100u8))?;
        assert_eq!(x.grayscale()?.to_ndarray()?, Array2::from_elem((10, 15), 100));
        assert_eq!(x.box_blur(2, Border::Mean)?.min()?, 100);
        assert_eq!(x.gaussian_blur(1.5, Border::Clamp)?.min()?, 100);
        Ok(())
    }),
    ("a launch", |device, stream| {
        let mut x = DeviceArray::<u32, _>::zeros(stream, 100)?;
        if device.is_simulator() {
            device.preload::<increment>()?;
            assert_eq!(device.occupancy::<increment>(64, 0)?, 16);
            stream.launch::<increment>(&device.launch_config::<increment>(100)?, (&mut x,))?;
            assert_eq!(x.sum()?, 100);
        }
        Ok(())
    }),
    ("a cooperative launch", |device, stream| {
        if device.is_simulator() {
            let mut barrier = DeviceGridBarrier::new(stream)?;
            let mut x = ones(stream, 1000)?;
            let config = device.cooperative_config::<double_twice>(256, 0)?;
            stream.launch::<double_twice>(&config, (&mut barrier, &mut x))?;
            let mut graph = stream.capture((barrier, x), |stream, (barrier, x)| {
                stream.launch::<double_twice>(&config, (barrier, x))
            })?;
            graph.launch()?;
            assert_eq!(graph.args().1.sum()?, 16_000.0);
        }
        Ok(())
    }),
    ("streams and events", |device, stream| {
        let other = device.create_stream_with_priority(*device.stream_priorities()?.start())?;
        let start = stream.record()?;
        let x = ones(stream, 1000)?;
        let y = ones(&other, 1000)?.add(&x)?;
        drop(x);
        assert_eq!(y.into_stream(stream)?.sum()?, 2000.0);
        other.wait(&start)?;
        let end = other.record()?;
        end.synchronize()?;
        assert!(end.is_reached()?);
        end.elapsed_since(&start)?;
        stream.synchronize()?;
        assert!(stream.is_idle()?);
        let (sender, receiver) = channel();
        stream.on_reached(move || sender.send(3).unwrap())?;
        assert_eq!(receiver.recv(), Ok(3));
        device.synchronize()
    }),
    ("pinned arrays", |device, stream| {
        let host = PinnedArray::from_ndarray(device, &Array1::from_elem(5000, 3i64))?;
        let (mut x, upload) = DeviceArray::upload_async(stream, host)?;
        let mut host = upload.wait()?;
        host.view_mut().fill(4);
        assert_eq!(x.sum()?, 15_000);
        drop(x.assign_async(host)?);
        let download = x.download_async()?;
        download.is_done()?;
        assert_eq!(download.wait()?.view().sum(), 20_000);
        Ok(())
    }),
    ("copies to other devices", |device, stream| {
        let x = ones(stream, 1000)?;
        assert_eq!(x.to_device(&device.create_stream()?)?.sum()?, 1000.0);
        let simulator = Device::simulator();
        let there = x.square()?.to_device(simulator.default_stream())?;
        assert_eq!(there.to_device(stream)?.sum()?, 1000.0);
        Ok(())
    }),
    ("graphs", |device, stream| {
        let mut graph = stream.capture((ones(stream, 10_000)?, ones(stream, 10)?), |stream, (x, y)| {
            let mut zeros = DeviceArray::<f32, _>::zeros(stream, 10)?;
            zeros.assign(y)?;
            let scanned = x.square()?.add_scalar(1.0)?.inclusive_scan::<Sum>()?;
            Ok((scanned.max_axis(Axis(0))?, zeros))
        })?;
        graph.launch()?;
        let other = device.create_stream()?;
        graph.args_mut().0.assign(&ones(&other, 10_000)?)?;
        graph.launch()?;
        assert_eq!(graph.output().0.to_ndarray()?.into_scalar(), 20_000.0);
        graph.update(|_, (x, y)| Ok((x.sum_axis(Axis(0))?, y.square()?)))?;
        graph.launch()?;
        assert_eq!(graph.output().0.to_ndarray()?.into_scalar(), 10_000.0);
        graph.update(|_, (x, y)| Ok((x.max_axis(Axis(0))?, y.square()?)))?;
        graph.launch()?;
        assert_eq!(graph.output().1.sum()?, 10.0);
        Ok(())
    }),
    ("a compiled function of several kernels", |_, stream| {
        // One for all streams and failures: what was traced stays.
        type Columns = Compiled<'static, Expr<'static, f32, Ix2>, Expr<'static, f32, Ix1>>;
        static NORMS: LazyLock<Columns> = LazyLock::new(|| {
            expr::compile(|x: Expr<f32, Ix2>| {
                (&x / x.sum_axis(Axis(1)).insert_axis(Axis(1)))
                    .square()
                    .sum_axis(Axis(0))
                    .sqrt()
            })
        });
        let x = DeviceArray::from_ndarray(stream, &Array2::from_elem((16, 100), 2.0f32))?;
        for _ in 0..2 {
            assert!(
                NORMS
                    .call(&x)?
                    .to_ndarray()?
                    .iter()
                    .all(|norm| (norm - 0.04).abs() < 1e-6)
            );
        }
        Ok(())
    }),
    ("memory", |device, stream| {
        let x = ones(stream, 1000)?;
        assert!(device.memory()?.allocated >= 4000);
        device.trim()?;
        device.set_release_threshold(u64::MAX)?;
        assert_eq!(x.sum()?, 1000.0);
        Ok(())
    }),
];

/// Does the work while those of its calls fail; returns how many calls there were, and how it ended.
fn with_failures(work: Work, device: &Device, faults: &Faults, failing: Range<u64>) -> (u64, Result<()>) {
    faults.fail(failing);
    let done = device.create_stream().and_then(|stream| work(device, &stream));
    let calls = faults.calls();
    faults.fail(0..0);
    (calls, done)
}

/// Has each call of each work fail, alone and with all that follow.
fn fail_each_call(of: &[(&str, Work)]) {
    let (device, faults) = Device::named(&device().properties().id).unwrap().with_faults().unwrap();
    device.trim().unwrap();
    let before = device.memory().unwrap();
    for (name, work) in of {
        // The first time, more is loaded and compiled.
        let [_, calls] = [(); 2].map(|()| {
            let (calls, done) = with_failures(*work, &device, &faults, 0..0);
            done.unwrap_or_else(|error| panic!("{name}: {error}"));
            calls
        });
        let mut errors = 0;
        for n in 0..calls {
            // One call alone, and all from there on.
            for failing in [n..n + 1, n..u64::MAX] {
                let (_, done) = with_failures(*work, &device, &faults, failing.clone());
                errors += usize::from(done.is_err());
                if let Err(error) = done {
                    assert!(
                        matches!(
                            error,
                            Error::Cuda { .. } | Error::OutOfMemory { .. } | Error::HostMemory { .. }
                        ),
                        "{name}, {failing:?}: {error}"
                    );
                }
                device.trim().unwrap();
                let after = device.memory().unwrap();
                assert_eq!(after.allocated, before.allocated, "{name}, {failing:?}");
            }
        }
        assert!(errors as u64 >= calls / 2, "{name}: {errors} errors at {calls} calls");
        let (_, done) = with_failures(*work, &device, &faults, 0..0);
        done.unwrap_or_else(|error| panic!("{name}, afterwards: {error}"));
    }
    device.trim().unwrap();
    assert_eq!(device.memory().unwrap().allocated, before.allocated);
}

#[test]
fn whatever_call_fails_nothing_is_lost_and_the_device_goes_on() {
    fail_each_call(WORK);
}

#[test]
fn whatever_call_of_moving_and_making_elements_fails_nothing_is_lost() {
    fail_each_call(elements::WORK);
}

#[test]
fn whatever_call_of_networks_and_products_fails_nothing_is_lost() {
    fail_each_call(networks::WORK);
}

/// The first try of an allocation fails, and the second one after a trim does not.
#[test]
fn an_allocation_that_fails_is_tried_once_more() {
    let (device, faults) = Device::simulator().with_faults().unwrap();
    let stream = device.default_stream();
    faults.fail(0..1);
    let x = DeviceArray::<u32, _>::zeros(stream, 2_000_000).unwrap();
    assert_eq!(x.sum().unwrap(), 0);
    // The two tries, with a trim of two calls in between.
    faults.fail(0..4);
    let error = DeviceArray::<u32, _>::zeros(stream, 2_000_000).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Cuda {
                call: "synchronize_all",
                ..
            }
        ),
        "{error}"
    );
}
