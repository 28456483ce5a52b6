// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith histogram`: how often values occur, of an array or of each channel of a picture.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use ndarray::{Array1, Array2, Array3, Axis, Ix1};
use serde_json::json;
use warpsmith::ops::{self, Histogram};
use warpsmith::{Device, DeviceArray};

use crate::chart::{self, Channel};
use crate::input::{Input, Kind, is_stream};
use crate::npy::{self, NpyFile};
use crate::output::Output;
use crate::picture::{self, Format, Picture};
use crate::pieces::Pieces;
use crate::scalar::{Dtype, Number, Scalar};
use crate::session::{Report, Session};
use crate::stored::Stored;
use crate::timing::Timings;

#[derive(Args)]
pub struct HistogramArgs {
    /// The array (.npy) or the picture (PNG or JPEG) that is read; the contents decide, not the name.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The number of bins, all of one width.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    bins: u32,
    /// Where the first bin begins and the last one ends [default: the smallest and the largest element; of a picture
    /// 0 and 256, or 65536 if it has 16 bits].
    #[arg(long, value_name = "LO,HI", allow_hyphen_values = true)]
    range: Option<Limits>,
    /// The file that is written: the counts as .npy (also to standard output, -), or a plot of them as .png.
    #[arg(short, long, value_name = "COUNTS.npy|PLOT.png")]
    output: Option<PathBuf>,
}

/// Two numbers with a comma between them.
#[derive(Clone, Copy, Debug)]
struct Limits {
    low: f64,
    high: f64,
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once(',')
            .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
        let (low, high) = parsed.ok_or("wanted two numbers, as in 0,1.5")?;
        Ok(Self { low, high })
    }
}

/// What is written besides what is printed.
enum Target {
    Counts(Output),
    Plot(Output),
}

impl Target {
    fn open(session: &Session, path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("npy" | "npz") => session.create_output(path).map(Target::Counts),
            _ if is_stream(path) => session.create_output(path).map(Target::Counts),
            Some("png") => session.create_output(path).map(Target::Plot),
            _ => bail!("{}: wanted a name that ends in .npy, .npz or .png", path.display()),
        }
    }
}

/// Counts of each bin: a row for each channel.
struct Counts {
    counts: Array2<u64>,
    range: RangeInclusive<f64>,
    dtype: Stored,
    /// Whether they are those of an array, which has no channels.
    of_array: bool,
}

/// `warpsmith histogram IN --bins N`
pub fn run(session: &Session, args: &HistogramArgs) -> Result<()> {
    let target = args
        .output
        .as_deref()
        .map(|path| Target::open(session, path))
        .transpose()?;
    let input = Input::open(&args.input)?;
    let name = input.name().to_string();
    let context = || name.clone();
    let mut timings = None;
    let counts = match input.kind().with_context(context)? {
        Kind::Array => {
            let file = NpyFile::of(input)?;
            let device = session.open_device()?;
            let timings = timings.insert(Timings::new(device.default_stream()));
            of_file(session, &device, args, &file, timings)
        }
        Kind::Picture => {
            let progress = session.progress("histogram");
            let picture = picture::read(&input).with_context(context)?;
            let device = session.open_device()?;
            let timings = timings.insert(Timings::new(device.default_stream()));
            match picture {
                Picture::Bytes(pixels) => of_picture(&pixels, 256.0, args, timings),
                Picture::Words(pixels) => of_picture(&pixels, 65536.0, args, timings),
            }
            .inspect(|_| drop(progress))
        }
        Kind::Other => Err(anyhow!("is no .npy or .npz file, and no PNG or JPEG picture")),
    };
    let counts = counts.with_context(context)?;
    let timings = timings.context("timings of the device")?;
    counts.write(target)?;
    let channels = counts.channels();
    let report = Report {
        operation: "histogram".into(),
        dtype: counts.dtype.name(),
        shape: counts.counts.shape(),
        output: args.output.as_deref(),
        value: Some((
            chart::bars(&channels, &counts.range).trim_end().to_string(),
            counts.to_json(),
        )),
    };
    session.finish(&report, timings.stream().device_id(), &timings)
}

fn of_file(
    session: &Session,
    device: &Device,
    args: &HistogramArgs,
    file: &NpyFile,
    timings: &mut Timings,
) -> Result<Counts> {
    let wider = match file.stored.dtype() {
        Dtype::F32 => return of_array::<f32>(session, device, args, file, timings),
        Dtype::F64 => return of_array::<f64>(session, device, args, file, timings),
        Dtype::I32 => return of_array::<i32>(session, device, args, file, timings),
        Dtype::U8 => return of_array::<u8>(session, device, args, file, timings),
        Dtype::U16 => return of_array::<u16>(session, device, args, file, timings),
        Dtype::U32 => return of_array::<u32>(session, device, args, file, timings),
        Dtype::F16 => Dtype::F32,
        Dtype::I64 | Dtype::U64 => Dtype::F64,
    };
    bail!(
        "histogram of {}: wanted f32, f64, i8, i16, i32, u8, u16, u32 or bool (`map cast:{wider}` makes one)",
        file.stored
    )
}

fn of_array<T: Scalar + Histogram>(
    session: &Session,
    device: &Device,
    args: &HistogramArgs,
    file: &NpyFile,
    timings: &mut Timings,
) -> Result<Counts> {
    if let Some(pieces) = Pieces::<T>::of(file, device, 0)? {
        let bar = session.progress_of("histogram", pieces.bytes());
        let counts = timings.time("all", || of_pieces(args, &pieces, &bar))?;
        return Ok(Counts::of_array(counts, file.stored));
    }
    let progress = session.progress("histogram");
    let array = file.read::<T>(device)?;
    let x = timings.time("copy in", || npy::upload(device, &array))?;
    let range = match args.range {
        Some(limits) => limits.low..=limits.high,
        None => timings.time("range", || x.histogram_range())?,
    };
    let counts = timings.time("kernel", || x.histogram(args.bins as usize, range.clone()))?;
    let counts = timings.time("copy out", || counts.to_ndarray())?;
    drop(progress);
    Ok(Counts::of_array((counts, range), file.stored))
}

/// The counts of a long file. Without a range it is read twice.
fn of_pieces<T: Scalar + Histogram>(
    args: &HistogramArgs,
    pieces: &Pieces<T>,
    bar: &ProgressBar,
) -> Result<(Array1<u64>, RangeInclusive<f64>)> {
    let range = match args.range {
        Some(limits) => limits.low..=limits.high,
        None => {
            let mut least = Vec::new();
            let greatest = pieces.each(bar, |x| {
                least.push(x.min_axis(Axis(0))?);
                x.max_axis(Axis(0))
            })?;
            let least: Vec<_> = least.iter().map(|number| number.view()).collect();
            let least = ops::stack(Axis(0), &least)?;
            ops::concatenate(Axis(0), &[least.view(), greatest.view()])?.histogram_range()?
        }
    };
    let mut counts: Option<DeviceArray<u64, Ix1>> = None;
    for x in pieces.load(bar) {
        let new = x?.histogram(args.bins as usize, range.clone())?;
        counts = Some(match counts {
            Some(counts) => counts.add(&new)?,
            None => new,
        });
    }
    let counts = counts.context("a long file has pieces")?.to_ndarray()?;
    Ok((counts, range))
}

fn of_picture<T: Histogram + Number>(
    pixels: &Array3<T>,
    values: f64,
    args: &HistogramArgs,
    timings: &mut Timings,
) -> Result<Counts> {
    let range = args.range.map_or(0.0..=values, |limits| limits.low..=limits.high);
    let stream = timings.stream();
    let x = timings.time("copy in", || DeviceArray::from_ndarray(&stream, pixels))?;
    let counts = timings.time("kernel", || x.histogram_channels(args.bins as usize, range.clone()))?;
    Ok(Counts {
        counts: timings.time("copy out", || counts.to_ndarray())?,
        range,
        dtype: Stored::Of(T::DTYPE),
        of_array: false,
    })
}

impl Counts {
    fn of_array((counts, range): (Array1<u64>, RangeInclusive<f64>), dtype: Stored) -> Self {
        Self {
            counts: counts.insert_axis(Axis(0)),
            range,
            dtype,
            of_array: true,
        }
    }

    fn channels(&self) -> Vec<Channel> {
        let names: &[&str] = match self.counts.nrows() {
            1 => &[""],
            2 => &["gray", "alpha"],
            _ => &["red", "green", "blue", "alpha"],
        };
        let rows = self.counts.rows().into_iter().zip(names);
        rows.map(|(counts, name)| Channel {
            name,
            counts: counts.to_vec(),
        })
        .collect()
    }

    fn to_json(&self) -> serde_json::Value {
        let rows: Vec<Vec<u64>> = self.counts.rows().into_iter().map(|row| row.to_vec()).collect();
        let counts = if self.of_array { json!(rows[0]) } else { json!(rows) };
        json!({ "low": self.range.start(), "high": self.range.end(), "counts": counts })
    }

    fn write(&self, target: Option<Target>) -> Result<()> {
        let counts = Stored::Of(u64::DTYPE);
        match target {
            None => Ok(()),
            Some(Target::Counts(output)) if self.of_array => {
                npy::write(output, &self.counts.index_axis(Axis(0), 0).to_owned(), counts)
            }
            Some(Target::Counts(output)) => npy::write(output, &self.counts, counts),
            Some(Target::Plot(output)) => {
                let plot = Picture::Bytes(chart::plot(&self.channels(), &self.range));
                output.commit(|writer| picture::encode(&plot, Format::Png, writer))
            }
        }
    }
}
