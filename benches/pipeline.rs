// SPDX-License-Identifier: MIT OR Apache-2.0
//! A balanced pipeline (a copy in, kernels that take as long, a copy out) beside the same work one after the other on
//! one stream: `cargo bench --bench pipeline`. By the host's clock, medians; the results are compared.

use std::time::{Duration, Instant};

use ndarray::{Array1, Ix1};
use warpsmith::{Device, DeviceArray, PinnedArray, Pipeline, Result, Stream};

const MIB: usize = 1 << 20;

type Pinned = PinnedArray<f32, Ix1>;
type Vector = DeviceArray<f32, Ix1>;

fn main() -> Result<()> {
    let device = Device::auto()?;
    let (count, len) = match device.is_simulator() {
        true => (8, MIB / 16),
        false => (24, 8 * MIB),
    };
    let bench = Bench::new(&device, count, len)?;
    let gigabytes = (count * len * size_of::<f32>()) as f64 / 1e9;
    println!(
        "{}: {count} chunks of {} KiB, {} kernels each ({:.1?} beside a copy of {:.1?})",
        device.properties().name,
        (len * size_of::<f32>()) >> 10,
        bench.kernels,
        bench.kernels_time,
        bench.copy_time,
    );
    let rate = |time: Duration| gigabytes / time.as_secs_f64();
    let serial = median(|| bench.one_by_one())?;
    println!(
        "{:>36}  {serial:>9.2?}  {:>5.1} GB/s each way",
        "one after the other, pinned",
        rate(serial)
    );
    for streams in [2, 3, 4, 6] {
        let time = median(|| bench.pipeline(streams))?;
        println!(
            "{:>36}  {time:>9.2?}  {:>5.1} GB/s each way, {:.2} times as fast",
            format!("pipeline of {streams} streams, pinned"),
            rate(time),
            serial.as_secs_f64() / time.as_secs_f64()
        );
    }
    let pageable = median(|| bench.pageable())?;
    println!(
        "{:>36}  {pageable:>9.2?}  {:>5.1} GB/s each way, {:.2} times as fast",
        "pipeline from ordinary arrays",
        rate(pageable),
        serial.as_secs_f64() / pageable.as_secs_f64()
    );
    Ok(())
}

/// The median of what `work` says that it took.
fn median(mut work: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    work()?;
    let mut times = (0..9).map(|_| work()).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

struct Bench<'a> {
    device: &'a Device,
    stream: Stream,
    arrays: Vec<Array1<f32>>,
    kernels: usize,
    kernels_time: Duration,
    copy_time: Duration,
    /// The last element of each result.
    want: Vec<f32>,
}

impl<'a> Bench<'a> {
    /// With as many kernels for each chunk as take about as long as its copy.
    fn new(device: &'a Device, count: usize, len: usize) -> Result<Self> {
        let stream = device.create_stream()?;
        let arrays: Vec<_> = (0..count)
            .map(|i| Array1::from_shape_fn(len, |j| (i + j % 97) as f32 / 100.0))
            .collect();
        let mut bench = Self {
            device,
            stream,
            arrays,
            kernels: 16,
            kernels_time: Duration::ZERO,
            copy_time: Duration::ZERO,
            want: Vec::new(),
        };
        bench.copy_time = median(|| {
            let array = PinnedArray::from_ndarray(device, &bench.arrays[0])?;
            let start = Instant::now();
            let (_x, copy) = DeviceArray::upload_async(&bench.stream, array)?;
            copy.wait()?;
            Ok(start.elapsed())
        })?;
        let x = DeviceArray::from_ndarray(&bench.stream, &bench.arrays[0])?;
        let mut x = Some(x);
        let mut time = |kernels: usize| {
            median(|| {
                bench.stream.synchronize()?;
                let start = Instant::now();
                if let Some(given) = x.take() {
                    x = Some(work(given, kernels)?);
                }
                bench.stream.synchronize()?;
                Ok(start.elapsed())
            })
        };
        let one = time(16)? / 16;
        bench.kernels = ((bench.copy_time.as_secs_f64() / one.as_secs_f64()).round() as usize).max(1);
        bench.kernels_time = time(bench.kernels)?;
        bench.want = bench
            .arrays
            .iter()
            .map(|array| {
                let x = DeviceArray::from_ndarray(&bench.stream, array)?;
                Ok(work(x, bench.kernels)?.to_ndarray()?[len - 1])
            })
            .collect::<Result<_>>()?;
        Ok(bench)
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

    fn pipeline(&self, streams: usize) -> Result<Duration> {
        let chunks = self.pinned()?;
        let start = Instant::now();
        let pipeline = Pipeline::new(self.device).streams(streams);
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
