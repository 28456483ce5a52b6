// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pipelines: what comes out is in order and right, errors and panics come where they belong, and nothing is left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ndarray::{Array1, Array2, Array3, ArrayD, Axis, Ix1, Ix2, IxDyn, ShapeBuilder, s};
use warpsmith::npy::{Header, NpyFile};
use warpsmith::{Chunk, Device, DeviceArray, Error, PinnedArray, Pipeline};

use crate::common::device;

/// Chunks of these lengths, of numbers that count on.
fn counting(lengths: Vec<usize>) -> (impl Iterator<Item = Array1<u32>> + Send + 'static, Vec<Array1<u32>>) {
    let mut next = 0;
    let chunks: Vec<_> = lengths
        .into_iter()
        .map(|len| {
            next += len as u32;
            Array1::from_iter(next - len as u32..next)
        })
        .collect();
    (chunks.clone().into_iter(), chunks)
}

/// Has `work` done on a device of its own where that is the simulator, and finds what it allocated given back.
#[track_caller]
fn without_leak(work: impl Fn(&Device)) {
    let device = if device().is_simulator() {
        Device::simulator()
    } else {
        device().clone()
    };
    let allocated = || {
        device.synchronize().unwrap();
        device.trim().unwrap();
        device.memory().unwrap().allocated
    };
    work(&device);
    // Other tests share a GPU, and may hold memory at one time and not at another.
    if device.is_simulator() {
        let before = Device::simulator().memory().unwrap().allocated;
        assert_eq!(allocated(), before);
    }
}

#[test]
fn results_are_those_of_each_chunk_in_order() {
    let even = |count, len| vec![len; count];
    let lengths = [
        vec![],
        vec![0],
        vec![5],
        even(50, 100),
        [even(7, 1000), vec![3]].concat(),
        (0..40).map(|i| i * 37 % 300).collect(),
    ];
    for lengths in lengths {
        for (streams, prefetch) in [(1, 1), (2, 3), (3, 1), (8, 8)] {
            let (chunks, want) = counting(lengths.clone());
            let pipeline = Pipeline::new(device()).streams(streams).prefetch(prefetch);
            let results = pipeline.run(chunks, |x| x.add_scalar(7)?.cast::<u64>());
            let results: Vec<_> = results.map(|y| y.unwrap().view().to_owned()).collect();
            let want: Vec<_> = want.iter().map(|x| x.mapv(|x| u64::from(x) + 7)).collect();
            assert_eq!(results, want, "{lengths:?}, {streams} streams, {prefetch} ahead");
        }
    }
}

#[test]
fn loaded_chunks_are_folded_where_they_are() {
    without_leak(|device| {
        let chunks = (0..30).map(|i| Array2::from_elem((i + 1, 20), i as f64));
        let zero = DeviceArray::<f64, Ix1>::zeros(device.default_stream(), 20).unwrap();
        let mut loader = Pipeline::new(device).load(chunks);
        let sum = loader.try_fold(zero, |sum, x| sum.add(&x?.sum_axis(Axis(0))?)).unwrap();
        let want: usize = (0..30).map(|i| i * (i + 1)).sum();
        assert_eq!(sum.to_ndarray().unwrap(), Array1::from_elem(20, want as f64));
    });
}

#[test]
fn chunks_borrow_in_a_scope_and_lie_anyhow() {
    let x = Array3::from_shape_fn((50, 6, 7), |(i, j, k)| (100 * i + 10 * j + k) as i32);
    // Steps, an axis backwards, and the last axis first.
    let view = x.slice(s![.., ..;2, ..;-1]).permuted_axes([2, 0, 1]);
    let mut parts = Vec::new();
    std::thread::scope(|scope| {
        let pipeline = Pipeline::scoped(device(), scope);
        for y in pipeline.run(view.axis_chunks_iter(Axis(1), 8), |x| x.neg()) {
            parts.push(y.unwrap().view().to_owned());
        }
    });
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    assert_eq!(ndarray::concatenate(Axis(1), &views).unwrap(), view.mapv(|x| -x));
}

/// The library's error, or one of the iterator's.
#[derive(Debug)]
enum Wrong {
    Library(#[expect(dead_code, reason = "shown by Debug where a test fails")] Error),
    Chunk(usize),
    Function(u32),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

#[test]
fn an_error_of_the_source_comes_in_its_place_and_is_the_last_item() {
    for prefetch in [1, 2, 5] {
        without_leak(|device| {
            let chunks = (0..100).map(|i| match i {
                13 => Err(Wrong::Chunk(i)),
                _ => Ok(Array1::from_elem(1000, i as u32)),
            });
            let mut results = Pipeline::new(device)
                .prefetch(prefetch)
                .run(chunks, |x| Ok(x.square()?));
            for i in 0..13 {
                assert_eq!(results.next().unwrap().unwrap().view(), Array1::from_elem(1000, i * i));
            }
            assert!(matches!(results.next(), Some(Err(Wrong::Chunk(13)))));
            assert!(results.next().is_none() && results.next().is_none());
        });
    }
}

#[test]
fn an_error_of_the_function_comes_in_its_place_and_is_the_last_item() {
    without_leak(|device| {
        let chunks = (0..100u32).map(|i| Array1::from_elem(100, i));
        let mut number = 0;
        let mut results = Pipeline::new(device).run(chunks, |x| {
            number += 1;
            match number {
                8 => Err(Wrong::Function(number)),
                _ => Ok(x.square()?),
            }
        });
        for i in 0..7 {
            assert_eq!(results.next().unwrap().unwrap().view()[99], i * i);
        }
        assert!(matches!(results.next(), Some(Err(Wrong::Function(8)))));
        assert!(results.next().is_none());
        drop(results);
        assert_eq!(number, 8);
    });
}

#[test]
fn what_is_dropped_early_ends_its_threads_and_leaves_nothing() {
    /// Counts those that are alive.
    struct Alive(Arc<AtomicUsize>);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    for taken in [0, 1, 2, 10] {
        without_leak(|device| {
            let (alive, pulled) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
            let (iterator, count) = (Alive(alive.clone()), pulled.clone());
            let chunks = (0..).map(move |i| {
                assert_eq!(iterator.0.load(Ordering::SeqCst), 1);
                count.fetch_add(1, Ordering::SeqCst);
                Array1::from_elem(5000, i as f32)
            });
            let mut results = Pipeline::new(device).streams(2).prefetch(3).run(chunks, |x| x.exp());
            for _ in 0..taken {
                results.next().unwrap().unwrap();
            }
            // What is loaded ahead is bounded: as many as threads, streams and results, and what each thread is at.
            std::thread::sleep(Duration::from_millis(5));
            assert!(pulled.load(Ordering::SeqCst) <= taken + 3 + 3 + 2 + 2);
            drop(results);
            assert_eq!(alive.load(Ordering::SeqCst), 0, "the iterator is dropped");
        });
    }
}

/// The text of the panic of `work`.
#[track_caller]
fn panic_of(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("a panic");
    panic.downcast_ref::<&str>().map(ToString::to_string).expect("a text")
}

#[test]
fn panics_come_where_the_chunk_is_taken() {
    /// Panics when it is loaded.
    struct Bad(bool);
    impl Chunk for Bad {
        type Elem = u8;
        type Dim = Ix1;
        type Error = Error;
        fn load(self, device: &Device) -> Result<PinnedArray<u8, Ix1>, Error> {
            match self.0 {
                true => panic!("load"),
                false => PinnedArray::zeros(device, 9),
            }
        }
    }
    without_leak(|device| {
        let pipeline = Pipeline::new(device).prefetch(2);
        let mut loaded = pipeline.load((0..9).map(|i| match i {
            4 => panic!("iterator"),
            i => Array1::from_elem(10, i),
        }));
        let mut seen = 0;
        assert_eq!(
            panic_of(|| loaded.by_ref().for_each(|x| seen += x.unwrap().len())),
            "iterator"
        );
        // Those that were on their way are there still.
        seen += loaded.map(|x| x.unwrap().len()).sum::<usize>();
        assert_eq!(seen, 40);

        let mut loaded = pipeline.load((0..9).map(|i| Bad(i == 5)));
        let mut count = 0;
        assert_eq!(panic_of(|| loaded.by_ref().for_each(|_| count += 1)), "load");
        assert_eq!(count + loaded.count(), 5);

        let mut number = 0;
        let mut results = pipeline.run((0..9u32).map(|i| Array1::from_elem(10, i)), |x| {
            number += 1;
            assert!(number < 4, "function");
            x.square()
        });
        let mut seen = Vec::new();
        let mut take = || results.by_ref().for_each(|y| seen.push(y.unwrap().view()[0]));
        assert_eq!(panic_of(&mut take), "function");
        take();
        assert_eq!(seen, [0, 1, 4]);
    });
}

#[test]
fn several_pipelines_share_a_device() {
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            scope.spawn(move || {
                let pipeline = Pipeline::new(device());
                let chunks = move || (0..40u64).map(move |i| Array1::from_iter((0..1000).map(|j| seed * i + j)));
                // Two at a time, one inside of the other's function.
                let mut inner = pipeline.run(chunks(), |x| x.add_scalar(1));
                let results = pipeline.run(chunks(), |x| {
                    let other = inner.next().expect("as many chunks")?;
                    x.add(&DeviceArray::from_ndarray(x.stream(), &other.view())?)
                });
                for (i, (y, want)) in results.zip(chunks()).enumerate() {
                    assert_eq!(y.unwrap().view(), want.mapv(|x| 2 * x + 1), "chunk {i}");
                }
            });
        }
    });
}

#[test]
fn a_reduction_goes_through_less_memory_than_the_array_takes() {
    // A limit is for the whole device, so this has one of its own.
    let device = Device::simulator();
    device.set_memory_limit(Some(1 << 20));
    let x = Array2::from_shape_fn((10_000, 100), |(i, j)| (i * j % 1000) as f64);
    assert!(matches!(
        DeviceArray::from_ndarray(device.default_stream(), &x),
        Err(Error::OutOfMemory { .. })
    ));
    let rows = Pipeline::new(&device).chunk_len(800).unwrap();
    assert!((1..200).contains(&rows), "{rows}");
    let sum = std::thread::scope(|scope| {
        let zero = DeviceArray::<f64, _>::zeros(device.default_stream(), ()).unwrap();
        let pipeline = Pipeline::scoped(&device, scope);
        let mut loader = pipeline.load(x.axis_chunks_iter(Axis(0), rows));
        loader.try_fold(zero, |sum, x| {
            let mut part = DeviceArray::zeros(device.default_stream(), ())?;
            x?.sum_into(&mut part)?;
            sum.add(&part)
        })
    });
    // Integers, so that the order of the sum does not matter.
    assert_eq!(sum.unwrap().to_ndarray().unwrap().into_scalar(), x.sum());
    assert!(device.memory().unwrap().peak <= 1 << 20);
}

#[test]
fn too_large_a_chunk_is_an_error_behind_those_before() {
    let device = Device::simulator();
    device.set_memory_limit(Some(1 << 20));
    let chunks = [1000, 1000, 1 << 20, 1000].map(Array1::<u8>::zeros);
    let chunks = chunks.map(|x| x.insert_axis(Axis(0)));
    let chunks: Vec<_> = chunks.into_iter().chain([Array2::zeros((3, 1 << 19))]).collect();
    let mut results = Pipeline::new(&device).run(chunks, |x| x.add_scalar(1)).take(9);
    assert_eq!(results.next().unwrap().unwrap().len(), 1000);
    assert_eq!(results.next().unwrap().unwrap().len(), 1000);
    assert!(matches!(results.next(), Some(Err(Error::OutOfMemory { .. }))));
    assert!(results.next().is_none());
}

#[test]
fn faults_of_the_device_are_errors_and_leave_nothing() {
    let simulator = Device::simulator();
    let (device, faults) = simulator.with_faults().unwrap();
    let run = || -> Result<Vec<f32>, Error> {
        let chunks = (0..10).map(|i| Array1::from_elem(3000, i as f32));
        let pipeline = Pipeline::new(&device).streams(2).prefetch(1);
        pipeline
            .run(chunks, |x| x.square())
            .map(|y| Ok(y?.view()[2999]))
            .collect()
    };
    let want: Vec<_> = (0..10).map(|i| (i * i) as f32).collect();
    let allocated = || device.memory().unwrap().allocated;
    let before = allocated();
    faults.fail(0..0);
    assert_eq!(run().unwrap(), want);
    let calls = faults.calls();
    let mut failed = 0;
    for nth in 0..calls {
        faults.fail(nth..nth + 1);
        match run() {
            Ok(results) => assert_eq!(results, want, "call {nth}"),
            Err(_) => failed += 1,
        }
        faults.fail(0..0);
        device.trim().unwrap();
        assert_eq!(allocated(), before, "call {nth}");
        assert_eq!(run().unwrap(), want, "after call {nth}");
    }
    assert!(failed > 20, "{failed} of {calls} failed");
}

fn npy_file(bytes: &[u8]) -> std::path::PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("warpsmith-pipeline-{}-{number}.npy", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn files_are_read_in_parts_in_either_order_of_axes_and_bytes() {
    let x = ArrayD::from_shape_fn(IxDyn(&[23, 4, 5]), |i| (100 * i[0] + 10 * i[1] + i[2]) as i32);
    for fortran_order in [false, true] {
        for (order, to_bytes) in [('<', i32::to_le_bytes as fn(i32) -> [u8; 4]), ('>', i32::to_be_bytes)] {
            let mut header = Header::new(&format!("{order}i4"), &[23, 4, 5]);
            header.fortran_order = fortran_order;
            let elements: Vec<i32> = match fortran_order {
                true => x.t().iter().copied().collect(),
                false => x.iter().copied().collect(),
            };
            let data = elements.iter().flat_map(|&x| to_bytes(x));
            let path = npy_file(&header.to_bytes().into_iter().chain(data).collect::<Vec<_>>());
            let file = NpyFile::<i32, IxDyn>::open(&path).unwrap();
            assert_eq!((file.shape(), file.rows(), file.row_bytes()), (&[23, 4, 5][..], 23, 80));
            for rows in [1, 5, 23, 100, usize::MAX] {
                let results = Pipeline::new(device()).run(file.chunks(rows), |x| x.add_scalar(1));
                let parts: Vec<_> = results.map(|y| y.unwrap().view().to_owned()).collect();
                assert_eq!(parts.len(), 23usize.div_ceil(rows));
                let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
                assert_eq!(ndarray::concatenate(Axis(0), &views).unwrap(), x.mapv(|x| x + 1));
            }
            let part = file.part(7..7).load(device()).unwrap();
            assert_eq!(part.shape(), [0, 4, 5]);
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn bad_files_are_errors() {
    let x = Array2::<f32>::zeros((10, 3).f());
    let bytes = [Header::new("<f4", x.shape()).to_bytes(), vec![0; 120]].concat();
    let path = npy_file(&bytes);
    let error = |result: Result<_, Error>| match result {
        Err(error) => error.to_string(),
        Ok(()) => panic!("an error"),
    };
    let file = NpyFile::<f32, Ix2>::open(&path).unwrap();
    let text = error(NpyFile::<f64, Ix2>::open(&path).map(drop));
    assert!(
        text.ends_with("holds <f4 of shape [10, 3], wanted f8 (f64) with 2 axes"),
        "{text}"
    );
    let text = panic::<String>(|| drop(file.part(3..11)));
    assert!(text.ends_with("rows 3..11 of shape [10, 3]"), "{text}");

    // It becomes shorter while it is open.
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let mut results = Pipeline::new(device()).run(file.chunks(4), |x| x.exp());
    assert!(results.next().unwrap().is_ok() && results.next().unwrap().is_ok());
    let text = error(results.next().unwrap().map(drop));
    assert!(text.contains("truncated since it was opened"), "{text}");
    assert!(results.next().is_none());
    let text = error(NpyFile::<f32, Ix2>::open(&path).map(drop));
    assert!(text.contains("truncated"), "{text}");

    std::fs::write(&path, [bytes, vec![0]].concat()).unwrap();
    let text = error(NpyFile::<f32, Ix2>::open(&path).map(drop));
    assert!(text.contains("more than one array"), "{text}");
    std::fs::write(&path, [Header::new("|b1", &[3]).to_bytes(), vec![0, 1, 2]].concat()).unwrap();
    let file = NpyFile::<u8, Ix1>::open(&path).unwrap();
    assert!(file.part(0..2).load(device()).is_ok());
    assert!(error(file.part(1..3).load(device()).map(drop)).ends_with("an element of bool is 2, wanted 0 or 1"));
    std::fs::write(&path, [Header::new("<f4", &[]).to_bytes(), vec![0; 4]].concat()).unwrap();
    let text = error(NpyFile::<f32, IxDyn>::open(&path).map(drop));
    assert!(
        text.ends_with("holds a single number, wanted an array with an axis"),
        "{text}"
    );
    std::fs::remove_file(&path).unwrap();
    let text = error(NpyFile::<f32, IxDyn>::open("/dev/null").map(drop));
    assert!(text.ends_with("is no regular file, wanted one"), "{text}");
    assert!(matches!(NpyFile::<f32, IxDyn>::open(&path), Err(Error::Io { .. })));
}

/// What a panic with a formatted text says.
#[track_caller]
fn panic<T: std::any::Any + Clone>(work: impl FnOnce()) -> T {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("a panic");
    panic.downcast_ref::<T>().expect("a text").clone()
}
