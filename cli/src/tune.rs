// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith tune matmul`: which kernel multiplies matrices, measured on the device at hand. It writes what
//! `warpsmith::ops::set_matmul_choices` reads.
//!
//! Each class of shapes has three samples, a fourth shorter and longer than its middle. A candidate is an entry where it takes
//! less time than what the library's model of costs chooses, by a margin, twice, and for no sample more.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use ndarray::Ix2;
use warpsmith::ops::{CastTo, MatMul, Precision, set_matmul_choices};
use warpsmith::{Device, DeviceArray, DeviceArrayRef, Element, Error, bf16};

use crate::bench::Bench;
use crate::session::Session;

#[derive(Args)]
pub struct TuneArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Measures which kernel multiplies matrices fastest, by element type, layout and class of shape, in some two minutes.
    ///
    /// The table names the classes where one choice is faster than the library's own by 3 % or more. Programs take it by the
    /// variable WARPSMITH_MATMUL_CHOICES, which names the file, or by warpsmith::ops::set_matmul_choices.
    Matmul(MatmulArgs),
}

#[derive(Args)]
struct MatmulArgs {
    /// The table that is written.
    #[arg(short, long, value_name = "TABLE.txt")]
    output: PathBuf,
    /// No class is begun after so many seconds; the table says which were left out.
    #[arg(long, value_name = "SECONDS", default_value_t = 150)]
    seconds: u64,
    /// Measures tiny products, on any device: for tests.
    #[arg(long, hide = true)]
    tiny: bool,
}

/// `warpsmith tune matmul -o TABLE.txt`
pub fn run(session: &Session, args: &TuneArgs) -> Result<()> {
    let What::Matmul(args) = &args.what;
    let device = session.open_device()?;
    ensure!(
        args.tiny || !device.is_simulator(),
        "tune: given the simulated GPU, whose times say nothing of a GPU, wanted one (--device cuda:0)"
    );
    let output = session.create_output(&args.output)?;
    let tuner = Tuner {
        bench: Bench::new(&device, if args.tiny { 1 } else { REPEATS }),
        key: key(&device),
        multiprocessors: device.properties().multiprocessors as usize,
        hopper: device.properties().tensor_cores == Some((9, 0)),
    };
    let table = tuner.table(session, &classes(args.tiny), Duration::from_secs(args.seconds))?;
    output.commit(|file| Ok(file.write_all(table.as_bytes())?))
}

/// Timed calls of each candidate.
const REPEATS: usize = 7;

/// The part of the model's time that an entry takes at most.
const MOST: f64 = 0.97;

/// The part of the model's time that it takes at most for each sample.
const MOST_OF_SAMPLE: f64 = 1.02;

/// How an entry names the device.
fn key(device: &Device) -> String {
    let properties = device.properties();
    let (major, minor) = properties
        .compute_capability
        .or(properties.tensor_cores)
        .unwrap_or_default();
    let name: Vec<&str> = properties.name.split_whitespace().collect();
    format!("{major}.{minor} {} {}", properties.multiprocessors, name.join("_"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Factors {
    Half,
    Tf32,
    F32,
    F64,
}

impl Factors {
    fn name(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// What an entry is for.
#[derive(Clone, Copy)]
struct Class {
    factors: Factors,
    layout: &'static str,
    /// The binary logarithms of m, n, k.
    shape: [u32; 3],
}

impl Display for Class {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.shape;
        write!(f, "{} {} {m} {n} {k}", self.factors.name(), self.layout)
    }
}

/// What is measured, the most wanted first.
fn classes(tiny: bool) -> Vec<Class> {
    const SHAPES: [[u32; 3]; 17] = [
        [8, 8, 8],
        [9, 9, 9],
        [10, 10, 10],
        [11, 11, 11],
        [12, 12, 12],
        [13, 13, 13],
        // Few rows, as where a network makes one word after another.
        [4, 12, 12],
        [6, 12, 12],
        [4, 13, 13],
        [6, 13, 13],
        [8, 12, 12],
        // A network's layers, of 2048 and 8192 words.
        [11, 14, 12],
        [11, 12, 14],
        [13, 14, 12],
        [13, 12, 14],
        // A short and a long k.
        [13, 13, 6],
        [8, 8, 16],
    ];
    const KINDS: [(Factors, &[&str]); 4] = [
        (Factors::Half, &["nn", "nt", "tn", "tt"]),
        (Factors::Tf32, &["nt", "nn"]),
        (Factors::F32, &["nn", "nt", "tn", "tt"]),
        (Factors::F64, &["nn", "nt", "tn", "tt"]),
    ];
    let shapes: &[[u32; 3]] = if tiny { &[[4, 5, 5]] } else { &SHAPES };
    let of = move |(factors, layouts): (Factors, &'static [&'static str])| {
        let of = move |&layout: &&'static str| shapes.iter().map(move |&shape| Class { factors, layout, shape });
        layouts[..if tiny { 1 } else { layouts.len() }].iter().flat_map(of)
    };
    KINDS.into_iter().flat_map(of).collect()
}

impl Class {
    /// Three shapes of the class: lengths from 256 on are multiples of 64, shorter ones the same in all of them.
    fn samples(&self) -> [[usize; 3]; 3] {
        [4, 3, 5].map(|fourths| {
            self.shape.map(|log| match 1usize << log {
                length @ ..256 => length,
                length => length * fourths / 4,
            })
        })
    }
}

/// How a product may be done.
#[derive(Clone, Copy)]
struct Candidate {
    kernel: &'static str,
    tile: usize,
    parts: usize,
    transposed: bool,
}

impl Display for Candidate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let transposed = if self.transposed { " transposed" } else { "" };
        write!(f, "{} {} {}{transposed}", self.kernel, self.tile, self.parts)
    }
}

/// A kernel, the sizes of its tiles, and their rows and columns where they have so many.
type Tiles = (&'static str, &'static [usize], fn(usize) -> [usize; 2]);

const WGMMA: Tiles = ("wgmma", &[64, 128, 192, 256], |columns| [128, columns]);
const ACROSS: Tiles = ("across", &[64, 112, 128, 160, 168, 176, 192], |size| match size {
    64 => [48, 64],
    112 => [112, 128],
    160 => [160, 256],
    168 => [168, 256],
    176 => [176, 192],
    columns => [96, columns],
});
const MMA: Tiles = ("mma", &[64, 128, 256], |columns| [columns.min(128), columns]);
const SIMT: Tiles = ("simt", &[64, 128, 256], |columns| [columns / 2, columns]);
const DMMA: Tiles = ("dmma", &[32, 64, 128], |rows| [rows, 128]);
const GEMM: Tiles = ("gemm", &[32, 64, 128], |rows| [rows, rows]);

struct Tuner {
    bench: Bench,
    /// The words of an entry that name the device.
    key: String,
    multiprocessors: usize,
    hopper: bool,
}

impl Tuner {
    /// The table of these classes, of which none is begun behind the time.
    fn table(&self, session: &Session, classes: &[Class], time: Duration) -> Result<String> {
        let start = Instant::now();
        let progress = session.progress("tune");
        let device = &self.bench.device.properties().name;
        let mut table = format!("# {device}, by warpsmith {}.\n", env!("CARGO_PKG_VERSION"));
        for class in classes {
            progress.set_message(format!("tune {class}"));
            let line = if start.elapsed() > time {
                Some(format!("# not measured: {class}"))
            } else {
                match self.entry(class) {
                    Err(error) if matches!(error.downcast_ref(), Some(Error::OutOfMemory { .. })) => {
                        Some(format!("# not measured, for want of memory: {class}"))
                    }
                    line => line?,
                }
            };
            table.extend(line.map(|line| line + "\n"));
        }
        // What comes behind this is the model's again.
        set_matmul_choices("")?;
        Ok(table)
    }

    /// The entry for a class, behind a remark of what it gains, if one choice is better than the model's.
    fn entry(&self, class: &Class) -> Result<Option<String>> {
        let candidates = self.candidates(class);
        let lines: Vec<String> = candidates
            .iter()
            .map(|candidate| format!("{} {class} {candidate}", self.key))
            .collect();
        let Some((best, ratio)) = self.best(class, &lines)? else {
            return Ok(None);
        };
        // Once more, each of the two behind the other: a clock that changed meanwhile favours neither.
        let again = self.best(class, &lines[best..=best])?;
        Ok(again.map(|(_, again)| {
            let ratio = ratio.max(again);
            format!("# {ratio:.2} of the model's time\n{}", lines[best])
        }))
    }

    /// The entry of these with the least time, and the part that it is of the model's, if that is less by the margin.
    fn best(&self, class: &Class, lines: &[String]) -> Result<Option<(usize, f64)>> {
        let mut logarithms = vec![0.0; lines.len()];
        let samples = class.samples();
        for sample in samples {
            let times = self.times(class, sample, lines)?;
            for (sum, time) in logarithms.iter_mut().zip(&times[1..]) {
                let ratio = time / times[0];
                *sum += if ratio <= MOST_OF_SAMPLE {
                    ratio.ln()
                } else {
                    f64::INFINITY
                };
            }
        }
        let ratios = logarithms.iter().map(|sum| (sum / samples.len() as f64).exp());
        let best = ratios.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        Ok(best.filter(|&(_, ratio)| ratio <= MOST))
    }

    /// Seconds for a product: by the model, and with each of the entries.
    fn times(&self, class: &Class, shape: [usize; 3], lines: &[String]) -> Result<Vec<f64>> {
        match class.factors {
            Factors::Half => self.times_of::<bf16>(class, shape, lines, |a, b, out| a.matmul_into(b, out)),
            Factors::F32 => self.times_of::<f32>(class, shape, lines, |a, b, out| a.matmul_into(b, out)),
            Factors::F64 => self.times_of::<f64>(class, shape, lines, |a, b, out| a.matmul_into(b, out)),
            Factors::Tf32 => self.times_of::<f32>(class, shape, lines, |a, b, out| {
                a.fused_matmul(b).precision(Precision::Tf32).compute_into(out)
            }),
        }
    }

    fn times_of<T: Element + MatMul>(
        &self,
        class: &Class,
        [m, n, k]: [usize; 3],
        lines: &[String],
        multiply: Multiply<T>,
    ) -> Result<Vec<f64>>
    where
        f32: CastTo<T>,
    {
        let mut random = warpsmith::Generator::new(16);
        let mut normal = |shape| -> warpsmith::Result<DeviceArray<T, Ix2>> {
            random.normal::<f32, _>(&self.bench.stream, shape, 0.0, 1.0)?.cast()
        };
        let (a_transposed, b_transposed) = (class.layout.starts_with('t'), class.layout.ends_with('t'));
        let a = normal(if a_transposed { (k, m) } else { (m, k) })?;
        let b = normal(if b_transposed { (n, k) } else { (k, n) })?;
        let a = if a_transposed { a.t() } else { a.view() };
        let b = if b_transposed { b.t() } else { b.view() };
        let mut out = self.bench.zeros::<T, _>((m, n))?;
        let tables = std::iter::once("").chain(lines.iter().map(String::as_str));
        let times = tables.map(|table| {
            set_matmul_choices(table)?;
            let times = self.bench.times(&mut out, |out| multiply(&a, &b, out), |_| Ok(()))?;
            // The clock of a simulated GPU can stand still.
            Ok(times.median.as_secs_f64().max(1e-9))
        });
        times.collect()
    }

    /// What may be best for a class.
    fn candidates(&self, class: &Class) -> Vec<Candidate> {
        let kernels: &[Tiles] = match (class.factors, self.hopper) {
            (Factors::Half, true) => &[WGMMA, ACROSS, MMA],
            (Factors::Tf32, true) => &[WGMMA, MMA],
            (Factors::Half | Factors::Tf32, false) => &[MMA],
            (Factors::F32, true) => &[SIMT, GEMM],
            (Factors::F64, true) => &[DMMA, GEMM],
            (Factors::F32 | Factors::F64, false) => &[GEMM],
        };
        let with = |&(kernel, sizes, extents): &Tiles| {
            let is_whole = |&cut: &(usize, bool)| cut == (1, false);
            let of = move |&tile: &usize| {
                let cuts = self.cuts(class, extents(tile)).into_iter();
                let possible = cuts.filter(move |cut| kernel != ACROSS.0 || is_whole(cut));
                possible.map(move |cut| (tile, cut))
            };
            let candidate = move |(tile, (parts, transposed))| Candidate {
                kernel,
                tile,
                parts,
                transposed,
            };
            sizes.iter().flat_map(of).map(candidate).collect::<Vec<_>>()
        };
        kernels.iter().flat_map(with).collect()
    }

    /// Into how many parts k may be cut, and whether the transpose is computed, with tiles of these rows and columns: none where
    /// there are far more of them than the device has multiprocessors.
    fn cuts(&self, class: &Class, [rows, columns]: [usize; 2]) -> Vec<(usize, bool)> {
        let [m, n, k] = class.shape.map(|log| 1usize << log);
        let mut cuts = Vec::new();
        for transposed in [false, true] {
            let (m, n) = if transposed { (n, m) } else { (m, n) };
            let tiles = m.div_ceil(rows) * n.div_ceil(columns);
            let largest = rows * columns >= 128 * 128;
            let on_tensor_cores = matches!(class.factors, Factors::Half | Factors::Tf32);
            if (transposed && (n > 64 || !on_tensor_cores)) || (tiles > 16 * self.multiprocessors && !largest) {
                continue;
            }
            cuts.push((1, transposed));
            let parts = [2, 4, 8, 16]
                .into_iter()
                .filter(|parts| on_tensor_cores && tiles * parts <= 4 * self.multiprocessors && k / parts >= 256);
            cuts.extend(parts.map(|parts| (parts, transposed)));
        }
        cuts
    }
}

type Matrix<T> = DeviceArrayRef<T, Ix2>;

/// What is timed.
type Multiply<T> = fn(&Matrix<T>, &Matrix<T>, &mut Matrix<T>) -> warpsmith::Result<()>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_of_their_class() {
        for class in classes(false).into_iter().chain(classes(true)) {
            for sample in class.samples() {
                let logs = sample.map(|length| (length as f64).log2().round() as u32);
                assert_eq!(logs, class.shape, "{sample:?}");
            }
        }
    }
}
