// SPDX-License-Identifier: MIT OR Apache-2.0
//! Graphs: what was recorded is done by each launch as the operations would do it, and nothing else is recorded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use cuda_std::prelude::*;
use ndarray::{Array1, Array2, Array3, Axis, Ix1, array, s};
use warpsmith::ops::{Border, Product, Sum};
use warpsmith::{
    Device, DeviceArray, Error, Generator, Graph, GraphArrays, HeldArrays, LaunchConfig, PinnedArray, Result, Stream,
};

use crate::common::device;

type Vector<T> = DeviceArray<T, Ix1>;

fn stream() -> Stream {
    device().create_stream().unwrap()
}

fn upload<T: warpsmith::Element>(stream: &Stream, elements: &[T]) -> Vector<T> {
    DeviceArray::from_ndarray(stream, &Array1::from_vec(elements.to_vec())).unwrap()
}

/// Numbers below 50, others for each round.
fn numbers(len: usize, round: usize) -> Array1<u32> {
    Array1::from_shape_fn(len, |i| ((i * 7919 + round * 31) % 50) as u32)
}

/// The reason why something is not in a graph.
fn reason<T>(result: Result<T>) -> &'static str {
    match result {
        Err(Error::Capture { reason, .. }) => reason,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

/// A graph can go to another thread.
const _: fn() = || {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Graph<Vector<f32>, Vector<f32>>>();
};

#[test]
fn nothing_runs_before_the_launch() {
    let stream = stream();
    let mut x = upload(&stream, &[1.0f32, 2.0]);
    let one = upload(&stream, &[1.0f32, 1.0]);
    let mut graph = stream.capture((&mut x, one), |_, (x, one)| x.axpy(1.0, one)).unwrap();
    assert_eq!(graph.args().0.to_ndarray().unwrap(), array![1.0, 2.0]);
    for round in 1..4 {
        graph.launch().unwrap();
        let n = round as f32;
        assert_eq!(graph.args().0.to_ndarray().unwrap(), array![1.0 + n, 2.0 + n]);
    }
    drop(graph);
    assert_eq!(x.to_ndarray().unwrap(), array![4.0, 5.0]);
}

#[test]
fn chains_of_elementwise_operations() {
    let stream = stream();
    let x = upload(&stream, &[0.0f64; 3000]);
    let mut graph = stream
        .capture(x, |_, x| {
            let mut y = x.square()?;
            for i in 0..100 {
                y = y.add_scalar(f64::from(i))?.mul_scalar(0.5)?.add(x)?;
            }
            Ok((y, x.neg()?))
        })
        .unwrap();
    for round in 0..5 {
        let host = Array1::from_shape_fn(3000, |i| (i + round) as f64 / 100.0);
        graph.args_mut().assign_ndarray(&host).unwrap();
        graph.launch().unwrap();
        let mut expected = &host * &host;
        for i in 0..100 {
            expected = (expected + f64::from(i)) * 0.5 + &host;
        }
        assert_eq!(graph.output().0.to_ndarray().unwrap(), expected);
        assert_eq!(graph.output().1.to_ndarray().unwrap(), -host);
    }
}

#[test]
fn reductions_and_scans_are_right_in_every_launch() {
    let (stream, len) = (stream(), 60_000);
    let x = upload(&stream, numbers(len, 0).as_slice().unwrap());
    let mut graph = stream
        .capture(x, |_, x| {
            let scanned = x.inclusive_scan::<Sum>()?;
            let both = x.exclusive_scan::<Sum>()?.add(&scanned)?;
            let rows = x.slice(s![..len])?.to_array()?.into_shape((300, 200))?;
            Ok((
                (scanned, both, x.sum_axis(Axis(0))?, x.max_axis(Axis(0))?),
                (
                    rows.sum_axis(Axis(0))?,
                    rows.sum_axis(Axis(1))?,
                    rows.argmax_axis(Axis(1))?,
                ),
                rows.inclusive_scan_axis::<Sum>(Axis(0))?,
            ))
        })
        .unwrap();
    let other = device().create_stream().unwrap();
    for round in 0..if device().is_simulator() { 4 } else { 50 } {
        let host = numbers(len, round);
        // By way of another stream: the launch is ordered behind the copy.
        let there = upload(&other, host.as_slice().unwrap());
        graph.args_mut().assign(&there).unwrap();
        graph.launch().unwrap();
        let wide = host.mapv(u64::from);
        let mut sum = 0;
        let inclusive = wide.mapv(|x| {
            sum += x;
            sum
        });
        let (whole, rows, scanned) = graph.output();
        assert_eq!(whole.0.to_ndarray().unwrap(), inclusive, "{round}");
        assert_eq!(whole.1.to_ndarray().unwrap(), &inclusive * 2 - &wide);
        assert_eq!(whole.2.to_ndarray().unwrap().into_scalar(), sum);
        assert_eq!(whole.3.to_ndarray().unwrap().into_scalar(), *host.iter().max().unwrap());
        let wide = wide.into_shape_with_order((300, 200)).unwrap();
        assert_eq!(rows.0.to_ndarray().unwrap(), wide.sum_axis(Axis(0)));
        assert_eq!(rows.1.to_ndarray().unwrap(), wide.sum_axis(Axis(1)));
        let first_of_largest = |row: ndarray::ArrayView1<'_, u64>| {
            let largest = row.iter().max().unwrap();
            row.iter().position(|x| x == largest).unwrap() as u64
        };
        assert_eq!(rows.2.to_ndarray().unwrap(), wide.map_axis(Axis(1), first_of_largest));
        let mut columns = wide;
        columns.accumulate_axis_inplace(Axis(0), |&before, x| *x += before);
        assert_eq!(scanned.to_ndarray().unwrap(), columns);
    }
}

#[test]
fn products_histograms_transpositions_and_pictures() {
    let stream = stream();
    let a = DeviceArray::from_ndarray(&stream, &Array2::<f32>::zeros((70, 50))).unwrap();
    let picture = DeviceArray::from_ndarray(&stream, &Array3::<u8>::zeros((20, 30, 3))).unwrap();
    let mut graph = stream
        .capture((a, picture), |stream, (a, picture)| {
            let square = a.t().matmul(&a.view())?;
            let counts = a.histogram(8, 0.0..=8.0)?;
            let mut sum = DeviceArray::<f32, _>::zeros(stream, (50, 70))?;
            sum.assign(&a.t())?;
            let blurred = picture.gaussian_blur(1.5, Border::Clamp)?;
            Ok((
                square,
                counts,
                sum,
                blurred.permute([2, 0, 1])?,
                (
                    DeviceArray::<f32, _>::eye(stream, 3)?,
                    a.histogram_edges(&[0.0, 3.0, 8.0])?,
                ),
            ))
        })
        .unwrap();
    for round in 0..4 {
        let host = Array2::from_shape_fn((70, 50), |(i, j)| ((i + j * round) % 8) as f32);
        graph.args_mut().0.assign_ndarray(&host).unwrap();
        let image = Array3::from_shape_fn((20, 30, 3), |(i, j, k)| (i * 3 + j + k * round) as u8);
        graph.args_mut().1.assign_ndarray(&image).unwrap();
        graph.launch().unwrap();
        let (square, counts, sum, blurred, (eye, by_edges)) = graph.output();
        assert_eq!(square.to_ndarray().unwrap(), host.t().dot(&host));
        let expected = Array1::from_shape_fn(8, |bin| host.iter().filter(|&&x| x == bin as f32).count() as u64);
        assert_eq!(counts.to_ndarray().unwrap(), expected);
        let below = host.iter().filter(|&&x| x < 3.0).count() as u64;
        assert_eq!(by_edges.to_ndarray().unwrap(), array![below, 3500 - below]);
        assert_eq!(sum.to_ndarray().unwrap(), host.t());
        let at_once = graph.args().1.gaussian_blur(1.5, Border::Clamp).unwrap();
        assert_eq!(
            blurred.to_ndarray().unwrap(),
            at_once.permute([2, 0, 1]).unwrap().to_ndarray().unwrap()
        );
        assert_eq!(eye.to_ndarray().unwrap(), Array2::<f32>::eye(3));
    }
}

#[kernel]
fn add_to(n: u64, x: &[u32], out: SliceMut<'_, u64>) {
    let i = thread::index_1d();
    if i < out.len() {
        out.set(i, out.get(i) + n * u64::from(x[i]));
    }
}

#[test]
fn kernels_of_ones_own() {
    let device = Device::simulator();
    let stream = device.default_stream();
    let mut out = DeviceArray::<u64, _>::zeros(stream, 100).unwrap();
    let config = LaunchConfig::for_len(100, 32);
    let x = upload(stream, numbers(100, 1).as_slice().unwrap());
    let work = |n| {
        move |stream: &Stream, (x, out): &mut (Vector<u32>, &mut Vector<u64>)| {
            stream.launch::<add_to>(&config, (n, &*x, &mut **out))?;
            stream.launch::<add_to>(&config, (n + 1, &*x, &mut **out))
        }
    };
    let mut graph = stream.capture((x, &mut out), work(3)).unwrap();
    graph.launch().unwrap();
    graph.launch().unwrap();
    graph.update(work(10)).unwrap();
    graph.launch().unwrap();
    drop(graph);
    assert_eq!(
        out.to_ndarray().unwrap(),
        numbers(100, 1).mapv(|x| u64::from(x) * (7 + 7 + 21))
    );
}

#[test]
fn other_arrays_and_numbers_by_an_update() {
    let stream = stream();
    let mut graph = stream
        .capture(upload(&stream, &[1i32, 2, 3]), |_, x| x.mul_scalar(10)?.add_scalar(1))
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![11, 21, 31]);
    let old = std::mem::replace(graph.args_mut(), upload(&stream, &[4, 5]));
    assert!(reason(graph.launch()).contains("update"));
    // The same operations, then others.
    graph.update(|_, x| x.mul_scalar(100)?.add_scalar(2)).unwrap();
    drop(old);
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![402, 502]);
    graph.update(|_, x| x.neg()).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![-4, -5]);
    // One that fails changes nothing.
    assert!(reason(graph.update(|_, x| x.sum().and_then(|_| x.neg()))).contains("output"));
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![-4, -5]);
    // Nor does work that is not there.
    graph.update(|stream, _| DeviceArray::from_elem(stream, 0, 0)).unwrap();
    graph.launch().unwrap();
    assert!(graph.output().is_empty());
    graph.update(|_, x| x.abs()).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![4, 5]);
}

#[test]
fn an_argument_that_comes_back_is_the_same_one() {
    let stream = stream();
    let mut graph = stream.capture(upload(&stream, &[3u64, 4]), |_, x| x.square()).unwrap();
    let old = std::mem::replace(graph.args_mut(), upload(&stream, &[7, 8]));
    *graph.args_mut() = old;
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![9, 16]);
}

#[test]
fn launches_are_ordered_with_other_streams() {
    let (stream, other) = (stream(), device().create_stream().unwrap());
    // So long that a launch is not done when the next one is queued.
    let len = if device().is_simulator() { 1 << 12 } else { 1 << 24 };
    let x = upload(&stream, &vec![0.0f32; len]);
    let mut graph = stream
        .capture(x, |_, x| {
            let mut y = x.add_scalar(0.0)?;
            for _ in 0..20 {
                y = y.add_scalar(1.0)?;
            }
            Ok(y)
        })
        .unwrap();
    let (mut sums, mut expected) = (Vec::new(), Vec::new());
    for round in 0..20 {
        let ones = DeviceArray::<f32, _>::from_elem(&other, len, round as f32).unwrap();
        graph.args_mut().assign(&ones).unwrap();
        graph.launch().unwrap();
        // Read on the other stream; the next launch comes behind it.
        let mut read = DeviceArray::<f32, _>::zeros(&other, len).unwrap();
        read.assign(graph.output()).unwrap();
        sums.push(read);
        expected.push(round as f32 + 20.0);
    }
    for (sum, expected) in sums.iter().zip(expected) {
        assert_eq!((sum.min().unwrap(), sum.max().unwrap()), (expected, expected));
    }
}

#[test]
fn graphs_with_borrowed_parts() {
    let stream = stream();
    let mut x = upload(&stream, &[1i64, 2, 3, 4, 5, 6]);
    let offset = upload(&stream, &[10i64, 20, 30]);
    {
        let (first, mut second) = x.split_at_mut(Axis(0), 3).unwrap();
        let mut graph = stream
            .capture((first, Some(&offset)), |_, (first, offset)| {
                let sum = first.add(offset.expect("it is there"))?;
                first.assign(&sum)
            })
            .unwrap();
        graph.launch().unwrap();
        second.fill(0).unwrap();
        graph.launch().unwrap();
    }
    assert_eq!(x.to_ndarray().unwrap(), array![21, 42, 63, 0, 0, 0]);
}

struct Layer {
    weights: DeviceArray<f32, ndarray::Ix2>,
    bias: Vector<f32>,
}

// SAFETY: the fields' arrays, which belong to the layer.
unsafe impl GraphArrays for Layer {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        self.weights.arrays(held);
        self.bias.arrays(held);
    }
}

#[test]
fn structures_and_lists_are_arguments() {
    let stream = stream();
    let layers: Vec<Layer> = (1..4)
        .map(|n| Layer {
            weights: DeviceArray::from_ndarray(&stream, &(Array2::eye(3) * n as f32)).unwrap(),
            bias: upload(&stream, &[1.0; 3]),
        })
        .collect();
    let (x, layers) = (upload(&stream, &[0.0f32; 3]), Arc::new(layers));
    let mut graph = stream
        .capture((x, Arc::clone(&layers)), |_, (x, layers)| {
            let mut y = x.try_clone()?;
            for layer in layers.iter() {
                y = layer.weights.matvec(&y)?.add(&layer.bias)?;
            }
            Ok([y])
        })
        .unwrap();
    graph.args_mut().0.assign_ndarray(&array![1.0, 2.0, 3.0]).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.output()[0].to_ndarray().unwrap(), array![16.0, 22.0, 28.0]);
    assert_eq!(layers.len(), 3);
}

#[test]
fn random_numbers_are_those_of_the_capture() {
    let stream = stream();
    let mut generator = Generator::new(7);
    let mut graph = stream
        .capture((), |stream, ()| generator.uniform::<f32, _>(stream, 1000, 0.0..1.0))
        .unwrap();
    let expected = Generator::new(7).uniform::<f32, _>(&stream, 1000, 0.0..1.0).unwrap();
    for _ in 0..2 {
        graph.launch().unwrap();
        assert_eq!(graph.output().to_ndarray().unwrap(), expected.to_ndarray().unwrap());
    }
}

#[test]
fn a_graph_keeps_what_it_uses() {
    let stream = stream();
    let x = upload(&stream, &[1.0f32, 2.0, 3.0]);
    // `x` ends with the closure, as far as the closure is concerned.
    let mut graph = stream
        .capture(Some(x), |_, x| x.take().expect("it is there").square()?.add_scalar(1.0))
        .unwrap();
    let junk: Vec<_> = (0..10).map(|i| upload(&stream, &[i as f32; 3])).collect();
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![2.0, 5.0, 10.0]);
    assert!(junk.iter().all(|array| array.len() == 3));
}

#[test]
fn memory_is_given_back_with_the_graph() {
    // One of its own, whose accounts are nobody else's.
    let (device, _) = Device::named(&device().properties().id).unwrap().with_faults().unwrap();
    let stream = device.create_stream().unwrap();
    let x = upload(&stream, &vec![1.0f32; 20_000]);
    let allocated = || device.memory().unwrap().allocated;
    let start = allocated();
    let mut graph = stream
        .capture(&x, |_, x| {
            let mut y = x.square()?;
            for _ in 0..50 {
                y = y.add_scalar(1.0)?;
            }
            y.inclusive_scan::<Sum>()
        })
        .unwrap();
    let with_graph = allocated();
    // Two arrays take turns, a third is the result's, in `f64` or not, beside small states.
    assert!(
        with_graph > start && with_graph < start + 6 * 80_000,
        "{}",
        with_graph - start
    );
    for _ in 0..10 {
        graph.launch().unwrap();
        assert_eq!(allocated(), with_graph);
    }
    for _ in 0..3 {
        graph.update(|_, x| x.square()?.inclusive_scan::<Product>()).unwrap();
        graph.launch().unwrap();
        assert!(allocated() <= with_graph);
    }
    drop(graph);
    assert_eq!(allocated(), start);
}

#[test]
fn what_cannot_be_recorded_says_why() {
    let (device, stream) = (device(), stream());
    let other = device.create_stream().unwrap();
    let event = stream.record().unwrap();
    let x = upload(&stream, &[1.0f32, 2.0]);
    let mut inner = stream
        .capture((), |stream, ()| DeviceArray::<u8, _>::zeros(stream, 3))
        .unwrap();
    type Refused<'a> = (
        &'static str,
        Box<dyn FnOnce(&Stream, &mut &Vector<f32>) -> Result<()> + 'a>,
    );
    let refused: Vec<Refused<'_>> = vec![
        (
            "upload it before",
            Box::new(|stream, _| DeviceArray::from_ndarray(stream, &array![1]).map(drop)),
        ),
        ("read its output", Box::new(|_, x| x.to_ndarray().map(drop))),
        ("read its output", Box::new(|_, x| x.sum().map(drop))),
        ("read its output", Box::new(|_, x| x.get([0]).map(drop))),
        (
            "read its output",
            Box::new(|_, x| x.square()?.download_async().map(drop)),
        ),
        (
            "upload it before",
            Box::new(|stream, _| {
                let host = PinnedArray::from_ndarray(device, &array![1.0])?;
                DeviceArray::upload_async(stream, host).map(drop)
            }),
        ),
        (
            "upload it before",
            Box::new(|_, x| x.square()?.view_mut().set([0], 1.0)),
        ),
        ("is not done", Box::new(|stream, _| stream.synchronize())),
        ("is not done", Box::new(|stream, _| stream.is_idle().map(drop))),
        ("is not done", Box::new(|stream, _| stream.record().map(drop))),
        ("is not done", Box::new(|stream, _| stream.on_reached(|| {}))),
        (
            "before the graph is launched",
            Box::new(|stream, _| stream.wait(&event)),
        ),
        (
            "another library",
            Box::new(|stream, x| x.as_device_ptr(stream).map(drop)),
        ),
        (
            "already",
            Box::new(|stream, _| stream.capture((), |_, ()| Ok(())).map(drop)),
        ),
        ("already", Box::new(|_, _| other.capture((), |_, ()| Ok(())).map(drop))),
        ("call its work", Box::new(|_, _| inner.launch())),
        (
            "no elements yet",
            Box::new(|_, x| {
                let y = x.square()?;
                let mut there = DeviceArray::<f32, _>::zeros(&other, 2)?;
                there.view_mut().assign(&y)
            }),
        ),
    ];
    for (why, work) in refused {
        let given = reason(stream.capture(&x, work));
        assert!(given.contains(why), "{given}: {why}");
        // The stream works on.
        assert_eq!(x.sum().unwrap(), 3.0);
    }
    inner.launch().unwrap();
    assert_eq!(inner.output().sum().unwrap(), 0);
}

#[test]
fn what_a_graph_uses_is_its_own() {
    let stream = stream();
    let other = device().create_stream().unwrap();
    let (x, mut y) = (upload(&stream, &[1.0f32, 2.0]), upload(&stream, &[1.0f32, 2.0]));
    // Not among the arguments.
    assert!(reason(stream.capture(&x, |_, x| x.add(&y))).contains("among the arguments"));
    let shared = Arc::new(Mutex::new(upload(&stream, &[5.0f32, 6.0])));
    let from_shared = stream.capture(&x, |_, x| x.add(&*shared.lock().unwrap()));
    assert!(reason(from_shared).contains("among the arguments"));
    // Kept elsewhere: an argument, and a result.
    let kept = Mutex::new(None);
    let taken = stream.capture(Some(upload(&stream, &[1.0f32])), |_, x| {
        let y = x.as_ref().expect("it is there").square()?;
        *kept.lock().unwrap() = x.take();
        Ok(y)
    });
    assert!(reason(taken).contains("kept elsewhere"));
    let made = stream.capture(&x, |_, x| {
        *kept.lock().unwrap() = Some(x.square()?);
        Ok(())
    });
    assert!(reason(made).contains("kept elsewhere"));
    // What was kept is an array with unspecified elements, as a simulated GPU says that is checked.
    let elements = kept.lock().unwrap().as_ref().unwrap().to_ndarray();
    assert!(
        matches!(elements, Ok(_) | Err(Error::Uninitialised { bytes: 8, .. })),
        "{elements:?}"
    );
    // At home elsewhere, with gaps, and results of another stream.
    let there = upload(&other, &[1.0f32]);
    assert!(reason(stream.capture(&there, |_, x| x.square())).contains("into_stream"));
    assert!(reason(stream.capture((), |_, ()| DeviceArray::<u8, _>::zeros(&other, 1))).contains("into_stream"));
    let gaps = y.slice_mut(s![..;2]).unwrap();
    assert!(
        stream.capture(gaps, |_, x| x.square()).is_ok(),
        "one element has no gap"
    );
    let rows = DeviceArray::<f32, _>::zeros(&stream, (4, 4)).unwrap();
    let gaps = rows.slice(s![.., ..2]).unwrap();
    assert!(reason(stream.capture(gaps, |_, x| x.to_array())).contains("to_array"));
    let broadcast = x.broadcast((3, 2)).unwrap();
    assert!(stream.capture(broadcast, |_, x| x.to_array()).is_ok());
}

#[test]
fn errors_and_panics_end_the_capture() {
    let stream = stream();
    let x = upload(&stream, &[1.0f32, 2.0]);
    let error = stream.capture(&x, |_, x| {
        x.add(&x.slice(s![..1])?.to_array()?.into_shape((1, 1, 1))?.into_shape(1)?)
    });
    assert!(error.is_ok(), "broadcast");
    let wrong = stream.capture(&x, |stream, x| {
        let y = x.square()?;
        y.dot(&DeviceArray::<f32, _>::zeros(stream, 3)?).map(drop)
    });
    assert!(wrong.is_err());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        stream.capture(&x, |_, x| -> Result<Vector<f32>> {
            let _y = x.square()?.exp()?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(x.square().unwrap().sum().unwrap(), 5.0);
    let mut graph = stream.capture(&x, |_, x| x.square()).unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), array![1.0, 4.0]);
}

#[test]
fn other_threads_use_the_stream_meanwhile() {
    let stream = stream();
    let x = upload(&stream, &vec![2.0f32; 1000]);
    let mut graph = stream
        .capture(&x, |_, x| {
            let y = x.square()?;
            // Not recorded: done at once.
            let sum = std::thread::scope(|scope| scope.spawn(|| x.exp()?.ln()?.sum()).join().unwrap())?;
            assert!((sum - 2000.0).abs() < 0.1);
            let not_there = std::thread::scope(|scope| scope.spawn(|| y.square()).join().unwrap());
            assert!(reason(not_there).contains("no elements yet"));
            device().synchronize()?;
            device().trim()?;
            y.add(*x)
        })
        .unwrap();
    graph.launch().unwrap();
    assert_eq!(graph.output().to_ndarray().unwrap(), Array1::from_elem(1000, 6.0));
}

#[test]
fn graphs_of_several_threads_on_one_stream() {
    let stream = stream();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let stream = stream.clone();
            scope.spawn(move || {
                for round in 0..10 {
                    let host = numbers(5000, (thread * 10 + round) as usize);
                    let mut graph: Graph<_, _> = stream
                        .capture(upload(&stream, host.as_slice().unwrap()), |_, x| {
                            x.add_scalar(thread)?.inclusive_scan::<Sum>()?.max_axis(Axis(0))
                        })
                        .unwrap();
                    for _ in 0..3 {
                        graph.launch().unwrap();
                        let expected: u64 = host.iter().map(|&x| u64::from(x + thread)).sum();
                        assert_eq!(graph.output().to_ndarray().unwrap().into_scalar(), expected);
                    }
                }
            });
        }
    });
}
