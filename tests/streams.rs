// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of work: arrays used on several streams and from several threads, events, and memory that is given back
//! while work that uses it is queued.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::device;
use kernels_gpu::op::ReduceOp;
use ndarray::{Array1, Axis, Ix1, Ix2, array, s};
use rayon::prelude::*;
use warpsmith::ops::{self, Maximum, Sum};
use warpsmith::{Device, DeviceArray, Error, Stream};

/// Elements enough that a kernel still runs when the host has queued the next.
fn len() -> usize {
    if device().is_simulator() { 1 << 13 } else { 1 << 23 }
}

fn zeros(stream: &Stream, len: usize) -> DeviceArray<u32, Ix1> {
    DeviceArray::zeros(stream, len).unwrap()
}

/// Panics unless every element is `value`.
#[track_caller]
fn assert_all(array: &DeviceArray<u32, Ix1>, value: u32) {
    let bounds = (array.min().unwrap(), array.max().unwrap());
    assert_eq!(bounds, (value, value));
}

/// One stream counts, the other adds up what it counts: a read after each write, and a write after each read.
#[test]
fn uses_on_two_streams_are_ordered() {
    let (counting, adding) = (device().create_stream().unwrap(), device().create_stream().unwrap());
    let (mut count, mut next) = (zeros(&counting, len()), zeros(&counting, len()));
    let (mut sum, mut next_sum) = (zeros(&adding, len()), zeros(&adding, len()));
    let rounds = 100;
    for _ in 0..rounds {
        count.add_scalar_into(1, &mut next).unwrap();
        sum.add_into(&next, &mut next_sum).unwrap();
        (count, next) = (next, count);
        (sum, next_sum) = (next_sum, sum);
    }
    assert_all(&count, rounds);
    assert_all(&sum, rounds * (rounds + 1) / 2);
}

/// An array goes around several streams, each of which adds to it.
#[test]
fn an_array_moves_from_stream_to_stream() {
    let streams: Vec<Stream> = (0..4).map(|_| device().create_stream().unwrap()).collect();
    let mut array = zeros(&streams[0], len());
    for round in 0..40 {
        let stream = &streams[round % streams.len()];
        array = array.into_stream(stream).unwrap().add_scalar(1).unwrap();
        assert_eq!(array.stream(), stream);
    }
    assert_all(&array, 40);
}

/// Several streams read one array while its owner goes on to overwrite it: each read sees the value of its time.
#[test]
fn many_readers_finish_before_the_next_write() {
    let readers: Vec<Stream> = (0..3).map(|_| device().create_stream().unwrap()).collect();
    let mut shared = zeros(device().default_stream(), len());
    for round in 1..=20 {
        zeros(device().default_stream(), len())
            .add_scalar_into(round, &mut shared)
            .unwrap();
        let copies: Vec<_> = readers
            .iter()
            .map(|reader| {
                let mut copy = zeros(reader, len());
                zeros(reader, len()).add_into(&shared, &mut copy).unwrap();
                copy
            })
            .collect();
        zeros(device().default_stream(), len())
            .add_scalar_into(u32::MAX, &mut shared)
            .unwrap();
        copies.iter().for_each(|copy| assert_all(copy, round));
    }
}

/// The memory of a dropped array is not given to another while a queued kernel reads it.
#[test]
fn arrays_dropped_while_work_is_queued() {
    let (one, other) = (device().create_stream().unwrap(), device().create_stream().unwrap());
    let mut total = zeros(&other, len());
    for round in 0..50 {
        let term = zeros(&one, len()).add_scalar(round).unwrap();
        total = total.add(&term).unwrap();
        drop(term);
        // Takes the memory that was just given back, if it can be had, and overwrites it.
        drop(zeros(&one, len()).add_scalar(u32::MAX).unwrap());
    }
    assert_all(&total, 49 * 50 / 2);
}

#[test]
fn a_dropped_stream_finishes_its_work() {
    let stream = device().create_stream().unwrap();
    let array = zeros(&stream, len()).add_scalar(3).unwrap();
    drop(stream);
    assert_all(&array, 3);
}

#[test]
fn an_array_outlives_its_device_and_stream() {
    let array = {
        let device = Device::auto().unwrap();
        let stream = device.create_stream().unwrap();
        DeviceArray::from_ndarray(&stream, &array![1, 2, 3]).unwrap()
    };
    assert_eq!(array.square().unwrap().sum().unwrap(), 14i64);
}

#[test]
fn events_measure_the_time_between_them() {
    let stream = device().create_stream().unwrap();
    let x = DeviceArray::from_ndarray(&stream, &Array1::<f32>::linspace(0.0, 1.0, len())).unwrap();
    x.exp().unwrap();
    stream.synchronize().unwrap();
    let clock = Instant::now();
    let start = stream.record().unwrap();
    let y = x.exp().unwrap();
    let middle = stream.record().unwrap();
    let z = y.ln().unwrap();
    let end = stream.record().unwrap();
    end.synchronize().unwrap();
    let wall = clock.elapsed();

    let (whole, first) = (
        end.elapsed_since(&start).unwrap(),
        middle.elapsed_since(&start).unwrap(),
    );
    assert!(first > Duration::ZERO && first < whole, "{first:?} of {whole:?}");
    // Half a microsecond is what an event is accurate to.
    assert!(
        whole <= wall + Duration::from_micros(1),
        "{whole:?} by events, {wall:?} by the clock"
    );
    assert_eq!(start.elapsed_since(&start).unwrap(), Duration::ZERO);
    assert_eq!(start.elapsed_since(&end).unwrap(), Duration::ZERO, "never negative");
    assert_eq!(z.len(), len());
}

/// An event recorded on one stream holds back another.
#[test]
fn a_stream_waits_for_an_event() {
    let (one, other) = (device().create_stream().unwrap(), device().create_stream().unwrap());
    let x = zeros(&one, len());
    let mut y = x.add_scalar(1).unwrap();
    for _ in 0..10 {
        y = y.add_scalar(1).unwrap();
    }
    let written = one.record().unwrap();
    other.wait(&written).unwrap();
    let reached = other.record().unwrap();
    reached.synchronize().unwrap();
    // What the other stream reached is behind the first one's event.
    assert!(written.elapsed_since(&reached).unwrap() <= Duration::from_micros(1));
    assert_all(&y, 11);
}

#[test]
fn arrays_are_shared_between_threads() {
    let shared = DeviceArray::from_ndarray(device().default_stream(), &Array1::from_iter(0..10_000i64)).unwrap();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let shared = &shared;
                scope.spawn(move || {
                    let stream = device().create_stream().unwrap();
                    let mut own = DeviceArray::<i64, _>::zeros(&stream, 10_000).unwrap();
                    for _ in 0..10 {
                        own = own.add(shared).unwrap().add_scalar(thread).unwrap();
                    }
                    assert_eq!(shared.max().unwrap(), 9_999);
                    own.sum().unwrap()
                })
            })
            .collect();
        for (thread, result) in threads.into_iter().enumerate() {
            assert_eq!(result.join().unwrap(), 10 * (9_999 * 5_000 + 10_000 * thread as i64));
        }
    });
}

#[test]
fn an_array_is_handed_from_thread_to_thread() {
    let mut array = zeros(device().default_stream(), len());
    for _ in 0..8 {
        array = thread::spawn(move || array.add_scalar(1).unwrap()).join().unwrap();
    }
    assert_all(&array, 8);
}

fn square(device: &Device) -> DeviceArray<f64, Ix2> {
    DeviceArray::zeros(device.default_stream(), (2, 2)).unwrap()
}

fn mask(device: &Device) -> DeviceArray<u8, Ix1> {
    DeviceArray::zeros(device.default_stream(), 2).unwrap()
}

#[test]
fn arrays_of_two_devices_do_not_mix() {
    let (one, other) = (Device::simulator(), Device::simulator());
    let x = DeviceArray::from_ndarray(one.default_stream(), &array![1.0, 2.0]).unwrap();
    let y = DeviceArray::from_ndarray(other.default_stream(), &array![3.0, 4.0]).unwrap();
    let mut out = y.try_clone().unwrap();
    let (matrix, mask) = (square(&one), mask(&one));
    let places = DeviceArray::<u64, Ix1>::zeros(other.default_stream(), 2).unwrap();
    let mut counts = DeviceArray::zeros(other.default_stream(), 2).unwrap();
    let mut total = DeviceArray::zeros(other.default_stream(), ()).unwrap();
    let errors = [
        ("add", x.add(&y).map(drop)),
        ("add", x.add_into(&x, &mut out)),
        ("add_scalar", x.add_scalar_into(1.0, &mut out)),
        ("scalar_sub", x.scalar_sub_into(1.0, &mut out)),
        ("mul_assign", out.mul_assign(&x)),
        ("less", x.less(&y).map(drop)),
        ("binary", x.binary::<Maximum, _>(&y).map(drop)),
        ("exp", x.exp_into(&mut out)),
        ("cast", x.cast_into(&mut out)),
        ("clamp", x.clamp_into(0.0, 1.0, &mut out)),
        ("axpy", out.axpy(2.0, &x)),
        ("assign", out.assign(&x)),
        ("select", mask.select(&x, &y).map(drop)),
        ("sum_into", x.sum_into(&mut total)),
        ("inclusive_scan", x.inclusive_scan_into::<Sum>(&mut out)),
        ("matvec", matrix.matvec(&y).map(drop)),
        ("gemv", out.gemv(1.0, &matrix, &x, 0.0)),
        ("matmul", matrix.matmul(&square(&other)).map(drop)),
        ("to_array", x.view().to_array_into(&mut out)),
        ("dot", x.dot(&y).map(drop)),
        (
            "concatenate",
            ops::concatenate(Axis(0), &[x.view(), y.view()]).map(drop),
        ),
        ("stack", ops::stack(Axis(0), &[x.view(), y.view()]).map(drop)),
        ("take", x.take(Axis(0), &places).map(drop)),
        ("compress", out.compress(&mask).map(drop)),
        ("compress_axis", out.compress_axis(Axis(0), &mask).map(drop)),
        ("scatter_add", out.scatter_add(Axis(0), &places, &x)),
        ("scatter_add_in_order", out.scatter_add_in_order(Axis(0), &places, &x)),
        ("histogram", x.histogram_into(0.0..=1.0, &mut counts)),
        ("add", (x.expr() + &y).eval().map(drop)),
        (
            "fused_matmul",
            matrix.fused_matmul(&matrix).bias(&y).compute().map(drop),
        ),
        ("add", out.update(|out| out + &x)),
    ];
    for (operation, error) in errors {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("{operation}: given an operand on another sim, wanted one on sim; `to_device` copies arrays")
        );
    }
    assert_eq!(out.to_ndarray().unwrap(), array![3.0, 4.0]);

    // The devices are compared before there is a result: this one would have 2^60 elements.
    let long = |device: &Device| DeviceArray::<f32, Ix2>::zeros(device.default_stream(), (1 << 20, 1)).unwrap();
    let wide = DeviceArray::<f32, _>::zeros(one.default_stream(), (1 << 20, 1, 1)).unwrap();
    let row = DeviceArray::<u8, Ix1>::zeros(one.default_stream(), 1 << 20).unwrap();
    let error = row.select(&wide, &long(&other)).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
    let error = row.select(&wide, &long(&one)).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");

    let error = x.into_stream(other.default_stream()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "into_stream: given an operand on another sim, wanted one on sim; `to_device` copies arrays"
    );

    let (start, end) = (
        one.default_stream().record().unwrap(),
        other.default_stream().record().unwrap(),
    );
    let error = end.elapsed_since(&start).unwrap_err();
    assert_eq!(
        error.to_string(),
        "elapsed_since: given an operand on another sim, wanted one on sim; `to_device` copies arrays"
    );
}

/// The host waits for another device's event, so the order holds all the same.
#[test]
fn a_stream_waits_for_an_event_of_another_device() {
    let (one, other) = (Device::simulator(), Device::simulator());
    let x = zeros(one.default_stream(), 100).add_scalar(5).unwrap();
    other
        .default_stream()
        .wait(&one.default_stream().record().unwrap())
        .unwrap();
    let copy = DeviceArray::from_ndarray(other.default_stream(), &x.to_ndarray().unwrap()).unwrap();
    assert_all(&copy, 5);
}

#[test]
fn streams_are_equal_only_to_their_clones() {
    let (one, other) = (device().create_stream().unwrap(), device().create_stream().unwrap());
    assert_eq!(one, one.clone());
    assert_ne!(one, other);
    assert_eq!(one.device_id(), device().properties().id);
}

/// Calls `work` in a thread of its own, and panics if it panics or takes more than a minute.
#[track_caller]
fn assert_ends(work: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        ended.send(()).expect("the test waits");
    });
    if let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(Duration::from_secs(60)) {
        panic!("no end after a minute: a deadlock");
    }
    worker.join().expect("the work does not panic");
}

/// Long enough for several blocks, which the simulator runs in the threads that also run the test's own work.
const SUMMED: usize = 1 << 15;

/// The operations that borrow memory of their stream: counters and values of blocks, and the states of scans.
fn assert_sums(ones: &DeviceArray<f32, Ix1>, out: &mut DeviceArray<f32, Ix1>) {
    assert_eq!(ones.sum().unwrap(), SUMMED as f32);
    ones.inclusive_scan_into::<Sum>(out).unwrap();
    assert_eq!(out.max().unwrap(), SUMMED as f32);
    let counts = ones.histogram(2, 0.0..=2.0).unwrap();
    assert_eq!(counts.to_ndarray().unwrap(), array![0, SUMMED as u64]);
}

/// A launch on the simulator waits in rayon, where a thread takes up the next of the program's own jobs meanwhile: one
/// that launches on the same stream.
#[test]
fn parallel_iterators_launch_on_one_stream() {
    assert_ends(|| {
        let stream = device().default_stream();
        let mut arrays: Vec<_> = (0..16)
            .map(|_| {
                let ones = DeviceArray::from_ndarray(stream, &Array1::ones(SUMMED)).unwrap();
                (ones, DeviceArray::zeros(stream, SUMMED).unwrap())
            })
            .collect();
        for threads in [2, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| arrays.par_iter_mut().for_each(|(ones, out)| assert_sums(ones, out)));
        }
        arrays.par_iter_mut().for_each(|(ones, out)| assert_sums(ones, out));
    });
}

/// Threads of the program's own, beside a parallel iterator.
#[test]
fn many_threads_launch_on_one_stream() {
    assert_ends(|| {
        let stream = device().default_stream();
        let ones = || DeviceArray::from_ndarray(stream, &Array1::ones(SUMMED)).unwrap();
        let zeros = || DeviceArray::zeros(stream, SUMMED).unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (ones, mut out) = (ones(), zeros());
                    (0..3).for_each(|_| assert_sums(&ones, &mut out));
                });
            }
            scope.spawn(|| (0..16).into_par_iter().for_each(|_| assert_sums(&ones(), &mut zeros())));
        });
    });
}

/// The sum, of elements of which none is 13.
pub struct Unlucky;

impl ReduceOp<f32> for Unlucky {
    type Acc = f32;
    type Output = f32;

    fn identity() -> f32 {
        0.0
    }

    fn lift(x: f32, _: u64) -> f32 {
        assert!(x != 13.0, "unlucky");
        x
    }

    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }

    fn finish(acc: f32, _: u64) -> f32 {
        acc
    }
}

kernels_gpu::operator_kernels!(Unlucky: f32 => reduce, scan);

/// A launch that fails leaves its counters and states anyhow; later launches do not see them. On the simulated GPU: a GPU
/// does no more work after a kernel that failed.
#[test]
fn memory_of_a_launch_that_failed_is_not_used_again() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let mut elements = Array1::<f32>::ones(SUMMED);
    let ones = DeviceArray::from_ndarray(stream, &elements).unwrap();
    elements[SUMMED - 1] = 13.0;
    let unlucky = DeviceArray::from_ndarray(stream, &elements).unwrap();
    let mut out = DeviceArray::zeros(stream, SUMMED).unwrap();
    for _ in 0..3 {
        assert_sums(&ones, &mut out);
        assert!(matches!(unlucky.reduce::<Unlucky>(), Err(Error::Fault(_))));
        assert!(matches!(unlucky.inclusive_scan::<Unlucky>(), Err(Error::Fault(_))));
        assert_eq!(ones.reduce::<Unlucky>().unwrap(), SUMMED as f32);
        ones.inclusive_scan_into::<Unlucky>(&mut out).unwrap();
        assert_eq!(out.max().unwrap(), SUMMED as f32);
    }
}

/// As above, of a graph, whose launches leave their words to the next.
#[test]
fn memory_of_a_graphs_launch_that_failed_is_set_to_0_again() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let array = || DeviceArray::<f32, _>::zeros(stream, SUMMED).unwrap();
    let mut scan = stream.capture(array(), |_, x| x.inclusive_scan::<Unlucky>()).unwrap();
    let mut reduce = stream
        .capture(array(), |_, x| x.reduce_axis::<Unlucky>(Axis(0)))
        .unwrap();
    for round in 0..6u8 {
        // Other elements in every round, so that what is left of another one shows.
        let (each, fails) = (f32::from(round + 1), round % 2 == 1);
        let fill = |x: &mut DeviceArray<f32, Ix1>| {
            x.fill(each)?;
            x.slice_mut(s![SUMMED - 1..])?.fill(if fails { 13.0 } else { each })
        };
        fill(scan.args_mut()).unwrap();
        fill(reduce.args_mut()).unwrap();
        for result in [scan.launch(), reduce.launch()] {
            assert_eq!(matches!(result, Err(Error::Fault(_))), fails, "{result:?}");
        }
        if !fails {
            let sum = each * SUMMED as f32;
            assert_eq!(scan.output().to_ndarray().unwrap()[SUMMED - 1], sum);
            assert_eq!(reduce.output().to_ndarray().unwrap().into_scalar(), sum);
        }
    }
}

#[test]
fn streams_and_arrays_know_their_device() {
    let device = device();
    let stream = device.create_stream().unwrap();
    assert_eq!(stream.device(), *device);
    assert_eq!(stream.device().default_stream(), device.default_stream());
    assert_eq!(device.default_stream().device(), *device);
    assert_eq!(zeros(&stream, 3).stream().device(), *device);
    // A device that is found by its stream outlives all other names of it.
    let found = Device::simulator().create_stream().unwrap().device();
    assert_eq!(zeros(found.default_stream(), 3).sum().unwrap(), 0);
    assert_ne!(found, *device);
}

#[test]
fn devices_and_streams_are_told_by_their_names() {
    let device = Device::simulator();
    assert_eq!(
        format!("{device:?}"),
        r#"Device { id: "sim", name: "Warpsmith simulated GPU" }"#
    );
    let default = format!("{:?}", device.default_stream());
    assert_eq!(default, r#"Stream { device: "sim", handle: default }"#);
    let other = format!("{:?}", device.create_stream().unwrap());
    assert!(other.starts_with(r#"Stream { device: "sim", handle: 0x"#), "{other}");
}

/// What threads share or hand on.
const _: fn() = || {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Device>();
    is_send_and_sync::<Stream>();
    is_send_and_sync::<Error>();
    is_send_and_sync::<warpsmith::Event>();
    is_send_and_sync::<DeviceArray<f32, Ix2>>();
    is_send_and_sync::<warpsmith::DeviceView<'_, f32, Ix2>>();
    is_send_and_sync::<warpsmith::DeviceViewMut<'_, f32, Ix2>>();
    is_send_and_sync::<warpsmith::Expr<'_, f32, Ix2>>();
    is_send_and_sync::<warpsmith::PinnedArray<f32, Ix2>>();
    is_send_and_sync::<warpsmith::PendingCopy<f32, Ix2>>();
    is_send_and_sync::<warpsmith::Module>();
    is_send_and_sync::<warpsmith::Function>();
    is_send_and_sync::<warpsmith::DeviceGridBarrier>();
    is_send_and_sync::<warpsmith::Generator>();
    is_send_and_sync::<warpsmith::optim::Adam<f32>>();
    is_send_and_sync::<warpsmith::optim::Sgd<f32>>();
};
