// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies between the host and devices: pinned arrays and the copies that nobody waits for, large copies by several
//! threads, copies between devices; callbacks.

use std::sync::mpsc::channel;
use std::thread;

use ndarray::{Array1, Array2, Array3, ArrayD, Axis, Ix1, IxDyn, array, s};
use warpsmith::{Device, DeviceArray, Element, Error, PinnedArray};

use crate::common::{device, upload};
use crate::slicing::numbered;

fn numbers(len: usize) -> Array1<u32> {
    Array1::from_shape_fn(len, |i| (i as u32).wrapping_mul(2_654_435_761))
}

/// Around the sizes at which another way is taken: 64 KiB, a chunk of 2 MiB, several threads.
#[test]
fn copies_of_every_size_arrive() {
    let stream = device().default_stream();
    let words = [
        0,
        1,
        (16 << 10) - 1,
        16 << 10,
        (16 << 10) + 1,
        (512 << 10) - 3,
        512 << 10,
        (512 << 10) + 1,
    ];
    for len in words.into_iter().chain([(1 << 20) + 77, (6 << 20) + 1]) {
        let host = numbers(len);
        let mut x = DeviceArray::from_ndarray(stream, &host).unwrap();
        assert!(x.to_ndarray().unwrap() == host, "{len}");
        // Into memory at an odd place, and from there.
        let mut larger = Array1::from_elem(len + 1, 5u32);
        x.copy_to_ndarray(&mut larger.slice_mut(s![1..])).unwrap();
        assert!(larger[0] == 5 && larger.slice(s![1..]) == host, "{len}");
        x.assign_ndarray(&larger.slice(s![..len])).unwrap();
        assert!(x.to_ndarray().unwrap() == larger.slice(s![..len]), "{len}");
    }
}

#[test]
fn threads_copy_at_once() {
    thread::scope(|scope| {
        for i in 0..4 {
            scope.spawn(move || {
                let stream = device().create_stream().unwrap();
                let host = numbers((3 << 20) + i);
                for _ in 0..3 {
                    let x = DeviceArray::from_ndarray(&stream, &host).unwrap();
                    assert!(x.to_ndarray().unwrap() == host);
                }
            });
        }
    });
}

#[test]
fn an_array_is_copied_into_any_layout() {
    let x = Array2::from_shape_fn((3, 4), |(i, j)| 10 * i + j);
    let on_device = crate::common::upload(&x);
    let mut host = Array3::<usize>::zeros((4, 2, 3));
    let mut part = host.slice_mut(s![.., 1, ..;-1]).reversed_axes();
    on_device.copy_to_ndarray(&mut part).unwrap();
    assert_eq!(part, x);
    assert_eq!(host.slice(s![.., 0, ..]), Array2::<usize>::zeros((4, 3)));
    let error = on_device.copy_to_ndarray(&mut Array2::zeros((4, 3))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "copy_to_ndarray: given shape [4, 3], wanted shape [3, 4]"
    );
}

#[test]
fn a_pinned_array_is_an_array_of_the_host() {
    let x = Array2::from_shape_fn((5, 7), |(i, j)| (i * j) as f64);
    let mut pinned = PinnedArray::from_ndarray(device(), &x.t()).unwrap();
    assert_eq!(
        (pinned.shape(), pinned.len(), pinned.is_empty()),
        (&[7, 5][..], 35, false)
    );
    assert_eq!(pinned.view(), x.t());
    assert_eq!(PinnedArray::from_ndarray(device(), &x).unwrap().view(), x);
    pinned.view_mut()[[6, 4]] = -1.0;
    assert_eq!(pinned.view().sum(), x.sum() - 25.0);
    // The memory of another array comes back, and is 0.
    drop(pinned);
    assert_eq!(
        PinnedArray::<f64, _>::zeros(device(), (5, 7)).unwrap().view().sum(),
        0.0
    );
    let empty = PinnedArray::<f32, _>::zeros(device(), (0, 3)).unwrap();
    assert!(empty.is_empty() && empty.view().is_empty());
    let error = PinnedArray::<f32, Ix1>::zeros(device(), usize::MAX).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    let error = PinnedArray::<f32, Ix1>::zeros(device(), 1 << 60).unwrap_err();
    assert!(
        matches!(error, Error::HostMemory { .. } | Error::Cuda { .. }),
        "{error}"
    );
}

/// Elements that are repeated more often than there are addresses are refused, and not counted.
#[test]
fn repeated_elements_beyond_all_memory() {
    let one = upload(&array![1.0f64]);
    let all = one.broadcast(1 << 62).unwrap();
    assert!(matches!(
        all.to_ndarray(),
        Err(Error::HostMemory { wanted: usize::MAX })
    ));
    assert!(matches!(
        all.to_array(),
        Err(Error::Shape {
            operation: "allocation",
            ..
        })
    ));
    let stream = device().default_stream();
    assert_eq!(all.as_device_ptr(stream).unwrap(), one.as_device_ptr(stream).unwrap());
}

#[test]
fn pinned_arrays_go_and_come_back() {
    let stream = device().create_stream().unwrap();
    let host = PinnedArray::from_ndarray(device(), &numbers(100_000)).unwrap();
    let (mut x, upload) = DeviceArray::upload_async(&stream, host).unwrap();
    let download = x.download_async().unwrap();
    let mut host = upload.wait().unwrap();
    assert!(download.wait().unwrap().view() == numbers(100_000));
    host.view_mut().fill(3);
    // Dropped at once: the memory is not used again before the copy is done.
    drop(x.assign_async(host).unwrap());
    let others: Vec<_> = (0..4)
        .map(|i| PinnedArray::from_ndarray(device(), &Array1::from_elem(100_000, i)).unwrap())
        .collect();
    assert_eq!((x.min().unwrap(), x.max().unwrap()), (3, 3));
    drop(others);
    // The array may go or change before its copy is done.
    let copies: Vec<_> = (0..10)
        .map(|i| {
            x.add_scalar_into(i, &mut DeviceArray::zeros(&stream, 100_000).unwrap())
                .unwrap();
            x.add_scalar(i).unwrap().download_async().unwrap()
        })
        .collect();
    for (i, copy) in (0..).zip(copies) {
        assert!(copy.wait().unwrap().view().iter().all(|&y| y == 3 + i));
    }
    std::mem::forget(x.download_async().unwrap());
    // On several streams.
    let other = device().create_stream().unwrap();
    let y = x.into_stream(&other).unwrap();
    let copy = y
        .download_async_into(PinnedArray::zeros(device(), 100_000).unwrap())
        .unwrap();
    while !copy.is_done().unwrap() {
        thread::yield_now();
    }
    assert!(copy.wait().unwrap().view().iter().all(|&y| y == 3));
    // Of no elements.
    let (none, copy) = DeviceArray::upload_async(&stream, PinnedArray::<u8, _>::zeros(device(), 0).unwrap()).unwrap();
    assert!(copy.wait().unwrap().is_empty() && none.download_async().unwrap().wait().unwrap().is_empty());
}

/// Parts in any order and direction come to page-locked memory in C order, and are written from there, and nothing else is.
#[test]
fn views_go_and_come_back_by_pinned_memory() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
        let stream = device().create_stream().unwrap();
        let x = numbered(&[4, 5, 6], &of);
        macro_rules! check {
            ($([$($slice:tt)*] $axes:expr;)*) => {$({
                let (slice, axes) = (s![$($slice)*], IxDyn($axes));
                let mut on_device = DeviceArray::from_ndarray(&stream, &x).unwrap();
                let part = on_device.slice(slice).unwrap().into_dyn().permuted_axes(axes.clone()).unwrap();
                let download = part.download_async().unwrap();
                let wanted = x.slice(slice).into_dyn().permuted_axes(axes.clone());
                assert_eq!(download.wait().unwrap().view(), wanted, stringify!($($slice)*));

                let others = numbered(wanted.shape(), |i| of(i + 50));
                let host = PinnedArray::from_ndarray(device(), &others).unwrap();
                let part = on_device.slice_mut(slice).unwrap().into_dyn();
                let upload = part.permuted_axes(axes.clone()).unwrap().assign_async(host).unwrap();
                let mut wanted = x.clone();
                wanted.slice_mut(slice).into_dyn().permuted_axes(axes).assign(&others);
                assert_eq!(on_device.to_ndarray().unwrap(), wanted, stringify!($($slice)*));
                assert_eq!(upload.wait().unwrap().view(), others);
            })*};
        }
        check! {
            [.., .., ..] &[0, 1, 2];
            [1..3, .., ..] &[0, 1, 2];
            [2, 1..4, ..] &[0, 1];
            [3, 4, 5] &[];
            [.., .., 2..] &[0, 1, 2];
            [.., .., 3] &[0, 1];
            [.., .., ..] &[2, 0, 1];
            [..;-1, ..;2, 1..;-2] &[0, 1, 2];
            [.., 2..2, ..] &[1, 0, 2];
        }
    }
    check(|i| i as u8);
    check(|i| i as f32);
    check(|i| [i as f64, -1.0]);
}

/// Parts that other threads use by turns, with the copies of one another's on their way.
#[test]
fn parts_are_copied_side_by_side() {
    let mut x = DeviceArray::<u32, _>::zeros(device().default_stream(), (8, 1000)).unwrap();
    thread::scope(|scope| {
        for (number, part) in x.axis_chunks_mut(Axis(0), 2).unwrap().enumerate() {
            let stream = device().create_stream().unwrap();
            let mut part = part.into_stream(&stream).unwrap();
            scope.spawn(move || {
                for turn in 0..20 {
                    let value = (number * 100 + turn) as u32;
                    let host = PinnedArray::from_ndarray(device(), &Array2::from_elem((2, 1000), value)).unwrap();
                    let upload = part.assign_async(host).unwrap();
                    let download = part.download_async().unwrap();
                    assert!(download.wait().unwrap().view().iter().all(|&y| y == value));
                    drop(upload);
                }
            });
        }
    });
    let wanted = Array2::from_shape_fn((8, 1000), |(row, _)| (row / 2 * 100 + 19) as u32);
    assert_eq!(x.to_ndarray().unwrap(), wanted);
}

#[test]
fn what_does_not_fit_is_not_copied() {
    let mut x = DeviceArray::<u8, Ix1>::zeros(device().default_stream(), 5).unwrap();
    let error = x.assign_async(PinnedArray::zeros(device(), 6).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "assign_async: given shape [6], wanted shape [5]");
    let error = x
        .download_async_into(PinnedArray::zeros(device(), 4).unwrap())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "download_async_into: given shape [4], wanted shape [5]"
    );
    let elsewhere = PinnedArray::zeros(&Device::simulator(), 5).unwrap();
    let error = x.assign_async(elsewhere).unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
}

#[test]
fn arrays_are_copied_between_devices() {
    let (here, there) = (device().default_stream(), Device::simulator());
    let x = ArrayD::from_shape_fn(IxDyn(&[3, 100, 7]), |index| {
        (index[0] * 700 + index[1] * 7 + index[2]) as u32
    });
    let on_device = crate::common::upload(&x);
    let over_there = on_device.to_device(there.default_stream()).unwrap();
    assert_eq!(over_there.stream(), there.default_stream());
    let back = over_there.to_device(here).unwrap();
    assert_eq!(back.stream(), here);
    drop((on_device, over_there));
    assert_eq!(back.to_ndarray().unwrap(), x);
    // On the same device: a copy on another stream.
    let stream = device().create_stream().unwrap();
    let mut copy = back.to_device(&stream).unwrap();
    copy.add_scalar_into(0, &mut DeviceArray::zeros(here, IxDyn(&[3, 100, 7])).unwrap())
        .unwrap();
    drop(back);
    assert_eq!(copy.to_ndarray().unwrap(), x);
    copy.assign_ndarray(&(&x + 1)).unwrap();
    assert_eq!(copy.to_ndarray().unwrap(), x + 1);
    let empty = DeviceArray::<u8, Ix1>::zeros(here, 0).unwrap();
    assert!(empty.to_device(&stream).unwrap().is_empty());
}

#[test]
fn every_gpu_has_its_copy() {
    let gpus: Vec<_> = Device::list()
        .unwrap()
        .into_iter()
        .filter(|gpu| gpu.id != "sim")
        .collect();
    let devices: Vec<_> = gpus.iter().map(|gpu| Device::named(&gpu.id).unwrap()).collect();
    for from in &devices {
        for to in &devices {
            let x = DeviceArray::from_ndarray(from.default_stream(), &numbers(1 << 20)).unwrap();
            let y = x.add_scalar(1).unwrap().to_device(to.default_stream()).unwrap();
            drop(x);
            assert!(y.to_ndarray().unwrap() == numbers(1 << 20) + 1);
        }
    }
}

#[test]
fn a_callback_comes_behind_the_work_and_may_use_the_device() {
    let stream = device().create_stream().unwrap();
    let x = crate::common::upload(&array![1.0f32, 2.0, 3.0])
        .into_stream(&stream)
        .unwrap();
    let (sender, receiver) = channel();
    let panicking = stream.on_reached(|| std::panic::resume_unwind(Box::new("of no importance")));
    panicking.unwrap();
    for i in 0..3 {
        let (sender, y) = (sender.clone(), x.add_scalar(i as f32).unwrap());
        stream
            .on_reached(move || sender.send((i, y.sum().unwrap())).unwrap())
            .unwrap();
    }
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [(0, 6.0), (1, 9.0), (2, 12.0)]);
    stream.synchronize().unwrap();
    assert!(stream.is_idle().unwrap());
    let event = stream.record().unwrap();
    device().synchronize().unwrap();
    assert!(event.is_reached().unwrap());
}

#[test]
fn streams_of_every_priority_work() {
    let priorities = device().stream_priorities().unwrap();
    assert!(priorities.contains(&0), "{priorities:?}");
    for priority in [i32::MIN, *priorities.start(), 0, *priorities.end(), i32::MAX] {
        let stream = device().create_stream_with_priority(priority).unwrap();
        let x = DeviceArray::from_ndarray(&stream, &array![1i32, 2, 3]).unwrap();
        assert_eq!(x.sum().unwrap(), 6i64);
    }
}

/// Copies of views to another stream and to another device.
#[test]
fn views_to_other_streams_and_devices() {
    let host = Array2::from_shape_fn((6, 5), |(i, j)| (10 * i + j) as i32);
    let (device, other) = (Device::auto().unwrap(), Device::simulator());
    let stream = device.create_stream().unwrap();
    let mut x = DeviceArray::from_ndarray(device.default_stream(), &host).unwrap();
    for stream in [&stream, other.default_stream()] {
        for part in [s![.., ..], s![1..3, ..], s![..;-2, 1..4], s![2..2, ..]] {
            let view = x.slice(part).unwrap();
            assert_eq!(view.to_device(stream).unwrap().to_ndarray().unwrap(), host.slice(part));
            let transposed = view.t().to_device(stream).unwrap();
            assert_eq!(transposed.to_ndarray().unwrap(), host.slice(part).t());
        }
        let repeated = x.broadcast((2, 6, 5)).unwrap().to_device(stream).unwrap();
        assert_eq!(repeated.to_ndarray().unwrap(), host.broadcast((2, 6, 5)).unwrap());
    }
    // The copy is of its own.
    let copy = x.slice(s![1..3, ..]).unwrap().to_device(&stream).unwrap();
    x.fill(0).unwrap();
    assert_eq!(copy.to_ndarray().unwrap(), host.slice(s![1..3, ..]));
}
