// SPDX-License-Identifier: MIT OR Apache-2.0
//! A balanced pipeline (a copy in, kernels that take as long, a copy out) beside the same work one after the other on
//! one stream: `cargo bench --bench runtime -- pipeline`. By the host's clock, medians; the results are compared.
//!
//! For each size of chunks there is what each stage takes alone, and what a pipeline can reach: with all stages side by
//! side, that of the slowest stage for each chunk and two stages more. Between it and the pipelines is the same work on
//! several streams *by hand*, with no allocation, no thread and no locking of pages on its way. The library keeps 512
//! MiB of page-locked memory unused, and all chunks are locked at a time, so there are 256 MiB of them: what does not fit
//! is unlocked by who drops it, and locked anew.

use std::time::{Duration, Instant};

use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, PendingCopy, PinnedArray, Pipeline, Result, Stream};

const MIB: usize = 1 << 20;
const ROUNDS: usize = 5;

type Pinned = PinnedArray<f32, Ix1>;
type Vector = DeviceArray<f32, Ix1>;

pub fn run() -> Result<()> {
    let device = Device::auto()?;
    println!("{}", device.properties().name);
    let sizes: &[(usize, usize)] = match device.is_simulator() {
        true => &[(8, MIB / 4)],
        false => &[(64, 4 * MIB), (32, 8 * MIB), (8, 32 * MIB)],
    };
    for &(count, bytes) in sizes {
        Bench::new(&device, count, bytes / size_of::<f32>())?.run()?;
    }
    Ok(())
}

/// The median of what `work` says that it took, but for the first time.
fn median(mut work: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    work()?;
    let mut times = (0..ROUNDS).map(|_| work()).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// What each part of the work on a chunk takes by itself, until it is done.
struct Stages {
    lock: Duration,
    copy_in: Duration,
    copy_out: Duration,
    both_copies: Duration,
    kernels: Duration,
    /// To queue them.
    queue: Duration,
}

struct Bench<'a> {
    device: &'a Device,
    stream: Stream,
    arrays: Vec<Array1<f32>>,
    kernels: usize,
    /// The last element of each result.
    want: Vec<f32>,
}

impl<'a> Bench<'a> {
    fn new(device: &'a Device, count: usize, len: usize) -> Result<Self> {
        let stream = device.create_stream()?;
        let arrays: Vec<_> = (0..count)
            .map(|i| Array1::from_shape_fn(len, |j| (i + j % 97) as f32 / 100.0))
            .collect();
        Ok(Self {
            device,
            stream,
            arrays,
            kernels: 16,
            want: Vec::new(),
        })
    }

    fn run(mut self) -> Result<()> {
        let stages = self.stages()?;
        let bytes = size_of_val(self.arrays[0].as_slice().expect("in C order"));
        println!(
            "\n{} chunks of {} KiB, {} kernels each",
            self.arrays.len(),
            bytes >> 10,
            self.kernels
        );
        println!(
            "    alone: lock pages {:.2?}, copy in {:.1?}, kernels {:.1?} (queued in {:.1?}), copy out {:.1?}, both copies \
             at a time {:.1?}",
            stages.lock, stages.copy_in, stages.kernels, stages.queue, stages.copy_out, stages.both_copies
        );
        let serial = median(|| self.one_by_one())?;
        let row = |name: &str, time: Duration| {
            println!(
                "{name:>44}  {time:>9.2?}  {:>5.1} GB/s each way, {:.2} times as fast",
                (self.arrays.len() * bytes) as f64 / 1e9 / time.as_secs_f64(),
                serial.as_secs_f64() / time.as_secs_f64()
            );
        };
        row("one after the other", serial);
        let slowest = stages.kernels.max(stages.both_copies);
        row(
            "all side by side, if nothing else took time",
            slowest * (self.arrays.len() + 2) as u32,
        );
        for streams in [2, 3, 4] {
            row(&format!("{streams} streams by hand"), median(|| self.by_hand(streams))?);
        }
        for streams in [2, 3, 4, 6] {
            row(
                &format!("pipeline of {streams} streams"),
                median(|| self.pipeline(streams))?,
            );
        }
        row("pipeline that has to take all memory anew", median(|| self.cold())?);
        row("pipeline from ordinary arrays", median(|| self.pageable())?);
        Ok(())
    }

    /// Measures the stages, with as many kernels for each chunk as take about as long as its copy.
    fn stages(&mut self) -> Result<Stages> {
        let (device, stream, array) = (self.device, &self.stream, &self.arrays[0]);
        let lock = median(|| {
            device.trim()?;
            let start = Instant::now();
            let array = PinnedArray::<f32, _>::zeros(device, array.len())?;
            drop(array);
            device.trim()?;
            Ok(start.elapsed())
        })?;
        let mut host = Some(PinnedArray::from_ndarray(device, array)?);
        let mut other = Some(PinnedArray::from_ndarray(device, array)?);
        let mut x = DeviceArray::from_ndarray(stream, array)?;
        let y = DeviceArray::from_ndarray(&device.create_stream()?, array)?;
        let copy_in = median(|| {
            let start = Instant::now();
            host = Some(x.assign_async(host.take().expect("it came back"))?.wait()?);
            Ok(start.elapsed())
        })?;
        let copy_out = median(|| {
            let start = Instant::now();
            host = Some(x.download_async_into(host.take().expect("it came back"))?.wait()?);
            Ok(start.elapsed())
        })?;
        let both_copies = median(|| {
            let start = Instant::now();
            let up = x.assign_async(host.take().expect("it came back"))?;
            let down = y.download_async_into(other.take().expect("it came back"))?;
            (host, other) = (Some(up.wait()?), Some(down.wait()?));
            Ok(start.elapsed())
        })?;
        let mut x = Some(x);
        let mut queue = Duration::ZERO;
        let mut time = |kernels: usize| {
            median(|| {
                stream.synchronize()?;
                let start = Instant::now();
                x = Some(work(x.take().expect("it came back"), kernels)?);
                queue = start.elapsed();
                stream.synchronize()?;
                Ok(start.elapsed())
            })
        };
        let one = time(16)? / 16;
        let kernels = ((both_copies.as_secs_f64() / one.as_secs_f64()).round() as usize).max(1);
        let all_kernels = time(kernels)?;
        let result =
            |array: &Array1<f32>| work(DeviceArray::from_ndarray(stream, array)?, kernels)?.get(array.len() - 1);
        self.want = self.arrays.iter().map(result).collect::<Result<_>>()?;
        self.kernels = kernels;
        Ok(Stages {
            lock,
            copy_in,
            copy_out,
            both_copies,
            kernels: all_kernels,
            queue,
        })
    }

    fn pinned(&self) -> Result<Vec<Pinned>> {
        let arrays = self.arrays.iter();
        arrays
            .map(|array| PinnedArray::from_ndarray(self.device, array))
            .collect()
    }

    fn one_by_one(&self) -> Result<Duration> {
        let chunks = self.pinned()?;
        let start = Instant::now();
        for (chunk, &want) in chunks.into_iter().zip(&self.want) {
            let (x, copy) = DeviceArray::upload_async(&self.stream, chunk)?;
            let chunk = copy.wait()?;
            let y = work(x, self.kernels)?;
            let result = y.download_async_into(chunk)?.wait()?;
            assert_eq!(result.view()[result.len() - 1], want);
        }
        Ok(start.elapsed())
    }

    /// Each stream has an array on the device and one for its results.
    fn by_hand(&self, streams: usize) -> Result<Duration> {
        struct Lane {
            x: Option<Vector>,
            result: Option<Pinned>,
            copies: Option<[PendingCopy<f32, Ix1>; 2]>,
        }
        let len = self.arrays[0].len();
        let lane = |_| {
            Ok(Lane {
                x: Some(DeviceArray::zeros(&self.device.create_stream()?, len)?),
                result: Some(PinnedArray::zeros(self.device, len)?),
                copies: None,
            })
        };
        let mut lanes = (0..streams).map(lane).collect::<Result<Vec<_>>>()?;
        let mut chunks = self.pinned()?.into_iter();
        self.device.synchronize()?;
        let start = Instant::now();
        for i in 0..self.arrays.len() + streams {
            let lane = &mut lanes[i % streams];
            if let Some([up, down]) = lane.copies.take() {
                up.wait()?;
                let result = down.wait()?;
                assert_eq!(result.view()[len - 1], self.want[i - streams]);
                lane.result = Some(result);
            }
            if let Some(chunk) = chunks.next() {
                let mut x = lane.x.take().expect("it came back");
                let up = x.assign_async(chunk)?;
                let y = work(x, self.kernels)?;
                let down = y.download_async_into(lane.result.take().expect("it came back"))?;
                (lane.x, lane.copies) = (Some(y), Some([up, down]));
            }
        }
        Ok(start.elapsed())
    }

    fn pipeline(&self, streams: usize) -> Result<Duration> {
        let chunks = self.pinned()?;
        let start = Instant::now();
        let pipeline = Pipeline::new(self.device).streams(streams);
        self.check(pipeline.run(chunks, |x| work(x, self.kernels)))?;
        Ok(start.elapsed())
    }

    /// With nothing kept of page-locked memory and in the device's pool.
    fn cold(&self) -> Result<Duration> {
        let chunks = self.pinned()?;
        self.device.trim()?;
        let start = Instant::now();
        let pipeline = Pipeline::new(self.device);
        self.check(pipeline.run(chunks, |x| work(x, self.kernels)))?;
        Ok(start.elapsed())
    }

    fn pageable(&self) -> Result<Duration> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let pipeline = Pipeline::scoped(self.device, scope);
            let chunks = self.arrays.iter().map(|array| array.view());
            self.check(pipeline.run(chunks, |x| work(x, self.kernels)))
        })?;
        Ok(start.elapsed())
    }

    fn check(&self, results: impl Iterator<Item = Result<Pinned>>) -> Result<()> {
        let mut count = 0;
        for (result, &want) in results.zip(&self.want) {
            let result = result?;
            assert_eq!(result.view()[result.len() - 1], want);
            count += 1;
        }
        assert_eq!(count, self.want.len());
        Ok(())
    }
}

/// The work on a chunk, in its place.
fn work(mut x: Vector, kernels: usize) -> Result<Vector> {
    for _ in 0..kernels {
        x.tanh_inplace()?;
    }
    Ok(x)
}
