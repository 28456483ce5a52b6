// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that share a device, its default stream and arrays, and do whatever comes, each result compared with
//! ndarray's.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use ndarray::{Array1, Axis, Ix1, s};
use proptest::prelude::RngExt;
use test_reference::random::Random;
use warpsmith::ops::Sum;
use warpsmith::{Device, DeviceArray, PinnedArray, Stream};

use crate::common::{device, rng};

/// An array on the device, and what should be in it.
struct Pair {
    device: DeviceArray<i64, Ix1>,
    host: Array1<i64>,
}

/// All arrays have as many elements: enough for the operations that take several blocks.
const LEN: usize = 5000;

impl Pair {
    fn random(stream: &Stream, rng: &mut Random) -> Self {
        let host = Array1::from_shape_simple_fn(LEN, || rng.random_range(-1000..1000));
        let device = DeviceArray::from_ndarray(stream, &host).unwrap();
        Self { device, host }
    }

    fn check(&self) {
        assert!(self.device.to_ndarray().unwrap() == self.host);
    }
}

/// Does one thing with `x`, of which `y` is an operand.
fn step(device: &Device, streams: &[Stream], x: &mut Pair, y: &Pair, rng: &mut Random) {
    let stream = &streams[rng.random_range(0..streams.len())];
    match rng.random_range(0..16) {
        0 => *x = Pair::random(stream, rng),
        1 => {
            x.device = x.device.add(&y.device).unwrap();
            x.host = &x.host + &y.host;
        }
        2 => {
            x.device.minimum_assign(&y.device).unwrap();
            x.host.zip_mut_with(&y.host, |x, y| *x = (*x).min(*y));
        }
        3 => assert_eq!(x.device.sum().unwrap(), x.host.sum()),
        4 => {
            let sums = x.device.inclusive_scan::<Sum>().unwrap();
            let mut sum = 0;
            let expected = x.host.mapv(|x| {
                sum += x;
                sum
            });
            assert!(sums.to_ndarray().unwrap() == expected);
        }
        5 => {
            let clone = x.device.try_clone().unwrap();
            x.device = clone.into_stream(stream).unwrap();
        }
        6 => x.device.assign(&y.device).map(|()| x.host.assign(&y.host)).unwrap(),
        7 => x.device = x.device.to_device(stream).unwrap(),
        8 => assert!(x.device.download_async().unwrap().wait().unwrap().view() == x.host),
        9 => {
            let pinned = PinnedArray::from_ndarray(device, &y.host).unwrap();
            drop(x.device.assign_async(pinned).unwrap());
            x.host.assign(&y.host);
        }
        10 => {
            let rows = x.device.try_clone().unwrap().into_shape((50, 100)).unwrap();
            let expected = x.host.to_shape((50, 100)).unwrap().t().to_owned();
            assert!(rows.t().to_array().unwrap().to_ndarray().unwrap() == expected);
        }
        11 => {
            let (mut odd, other) = (
                x.device.slice_mut(s![1..;2]).unwrap(),
                y.device.slice(s![..;-2]).unwrap(),
            );
            odd.assign(&other).unwrap();
            x.host.slice_mut(s![1..;2]).assign(&y.host.slice(s![..;-2]));
        }
        12 => {
            let places = Array1::from_shape_simple_fn(100, || rng.random_range(0..LEN));
            let indices = DeviceArray::from_ndarray(stream, &places.mapv(|place| place as u64)).unwrap();
            let taken = x.device.take(Axis(0), &indices).unwrap();
            assert!(taken.to_ndarray().unwrap() == places.mapv(|place| x.host[place]));
        }
        13 => {
            let mask = x.device.greater(&y.device).unwrap();
            let kept = x.host.iter().zip(&y.host).filter(|(x, y)| x > y).map(|(x, _)| *x);
            assert!(x.device.compress(&mask).unwrap().to_ndarray().unwrap() == Array1::from_iter(kept));
        }
        14 => {
            let home = x.device.stream().clone();
            let y_there = y.device.view().into_stream(&home).unwrap();
            let mut graph = home
                .capture((&x.device, y_there), |_, (x, y)| x.sub(y)?.add_scalar(3))
                .unwrap();
            graph.launch().unwrap();
            assert!(graph.output().to_ndarray().unwrap() == &x.host - &y.host + 3);
        }
        _ => {
            let there = x.device.to_device(Device::simulator().default_stream()).unwrap();
            assert!(there.to_ndarray().unwrap() == x.host);
        }
    }
    // So that sums of sums stay small.
    if x.host.iter().any(|x| x.abs() > 1 << 40) {
        *x = Pair::random(stream, rng);
    }
}

/// Four threads, with two streams each beside the default stream that they share, and arrays that they hand around.
fn work_for(time: Duration) {
    let device = Device::named(&device().properties().id).unwrap();
    let shared = Mutex::new(Vec::new());
    let end = Instant::now() + time;
    thread::scope(|scope| {
        for seed in 0..4 {
            let (device, shared) = (&device, &shared);
            scope.spawn(move || {
                let mut rng = rng(seed);
                let streams = [device.thread_stream().unwrap(), device.create_stream().unwrap()];
                let streams = [&streams[..], &[device.default_stream().clone()]].concat();
                let mut pairs: Vec<_> = streams.iter().map(|stream| Pair::random(stream, &mut rng)).collect();
                while Instant::now() < end {
                    let mut x = pairs.swap_remove(rng.random_range(0..pairs.len()));
                    let y = &pairs[rng.random_range(0..pairs.len())];
                    step(device, &streams, &mut x, y, &mut rng);
                    // Now and then for one that another thread had.
                    if rng.random_range(0..10) == 0 {
                        let mut shared = shared.lock().unwrap();
                        shared.push(x);
                        x = shared.swap_remove(0);
                    }
                    pairs.push(x);
                }
                pairs.iter().for_each(Pair::check);
            });
        }
    });
    shared.lock().unwrap().iter().for_each(Pair::check);
    shared.lock().unwrap().clear();
    device.synchronize().unwrap();
    // But for what the default stream keeps for its launches.
    assert!(device.memory().unwrap().allocated < 1 << 20);
}

#[test]
fn four_threads_share_a_device() {
    work_for(Duration::from_secs(2));
}

#[test]
#[ignore = "takes a minute"]
fn four_threads_share_a_device_for_a_minute() {
    work_for(Duration::from_secs(60));
}
