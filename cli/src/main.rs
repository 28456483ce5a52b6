// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program `warpsmith`: array and picture operations on a GPU, or on the simulated one.
//!
//! Results go to standard output, everything else to standard error. The exit status is 0 only when
//! all went well; an error is one line of standard error. One in a formula has two more below it, which mark the place.

mod bench;
mod chart;
mod demo;
mod devices;
mod elementwise;
mod eval;
mod histogram;
mod input;
mod job;
mod lab;
mod matmul;
mod new;
mod npy;
mod ops;
mod output;
mod picture;
mod pieces;
mod reduce;
mod scalar;
mod scan;
mod session;
mod show;
mod slabs;
mod stored;
mod threads;
mod timing;
mod transpose;
mod tune;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use warpsmith::expr::FormulaError;

use crate::elementwise::MapOp;
use crate::ops::BinaryOp;
use crate::session::{Session, SessionArgs};

/// Arrays (.npy, .npz) and pictures (PNG, JPEG) on an NVIDIA GPU, or on a simulated one.
///
/// The file name - stands for standard input, and as an output for standard output (.npy or PNG), to which nothing else
/// is written then. A.npz:NAME is one array of an archive; A.npz is its only array, and as an output an archive of one
/// array, arr_0.
///
/// Elements are f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 or bool. Of bool, add and mul are "or" and "and", as
/// in NumPy, and other arithmetic is refused. Sums and products are i64 of signed integers and bool, and u64 of unsigned
/// integers; other results of integers are of their own type again, and wrap around. NumPy has no bf16.
#[derive(Parser)]
#[command(name = "warpsmith", version)]
struct Cli {
    #[command(flatten)]
    session: SessionArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists every GPU and the simulated one with their properties.
    Devices,
    /// Runs every kernel, checks the results against the CPU's, and says how fast it was.
    Demo(demo::DemoArgs),
    /// Times the operations at several sizes, after a check of each result, against the device's own copy.
    Bench(bench::BenchArgs),
    /// Experiments that show why kernels are slow and fast: each thing done in several ways, with what is seen and why.
    Lab(lab::LabArgs),
    /// A + B, element by element.
    Add(BinaryArgs),
    /// A − B, element by element.
    Sub(BinaryArgs),
    /// A · B, element by element.
    Mul(BinaryArgs),
    /// A / B, element by element.
    Div(BinaryArgs),
    /// The smaller of A and B, element by element; NaN where either is NaN.
    Min(BinaryArgs),
    /// The larger of A and B, element by element; NaN where either is NaN.
    Max(BinaryArgs),
    /// A function of every element.
    Map {
        /// neg abs square relu; sqrt exp log sin cos tanh sigmoid (floats); cast:TYPE, as in cast:f16.
        #[arg(value_name = "OP")]
        op: MapOp,
        /// The .npy file that is read.
        #[arg(value_name = "IN.npy")]
        input: PathBuf,
        /// The .npy file that is written.
        #[arg(short, long, value_name = "OUT.npy")]
        output: PathBuf,
    },
    /// A formula of arrays, computed as one kernel: warpsmith eval "tanh(a)*2 + 1" a=A.npy -o OUT.npy
    Eval(eval::EvalArgs),
    /// The sum, product, minimum, maximum, mean, variance … of all elements, or along an axis.
    Reduce(reduce::ReduceArgs),
    /// The sum, product, minimum or maximum of each element and all before it.
    Scan(scan::ScanArgs),
    /// The product of two matrices, of stacks of them, or of a matrix and a vector.
    Matmul(matmul::MatmulArgs),
    /// How often values occur, as a bar chart.
    Histogram(histogram::HistogramArgs),
    /// An array with its axes in another order.
    Transpose(transpose::TransposeArgs),
    /// A picture in shades of gray.
    Grayscale(picture::GrayscaleArgs),
    /// A picture blurred by a box or by a Gaussian.
    Blur(picture::BlurArgs),
    /// A picture filtered by weights of one's own: warpsmith convolve IN.png KERNEL.npy -o OUT.png
    Convolve(picture::ConvolveArgs),
    /// Measures which kernels are fastest on this GPU.
    Tune(tune::TuneArgs),
    /// Writes a project with a kernel of its own into a new folder: a program, a test, and what builds them.
    New {
        /// The folder; its name is the project's.
        folder: PathBuf,
    },
}

#[derive(Args)]
struct BinaryArgs {
    /// A .npy file, or a number (write ./5 for a file of the name 5).
    #[arg(value_name = "A", allow_negative_numbers = true)]
    a: String,
    /// A .npy file of the same element type, whose shape fits (by NumPy's broadcasting), or a number.
    #[arg(value_name = "B", allow_negative_numbers = true)]
    b: String,
    /// The .npy file that is written.
    #[arg(short, long, value_name = "C.npy")]
    output: PathBuf,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever the causes or a file's name contain.
            let message = format!("{error:#}").replace(['\n', '\r'], " ");
            // Nothing is left to be done where standard error cannot be written.
            let _ = writeln!(std::io::stderr(), "warpsmith: error: {message}");
            if let Some(error) = error.downcast_ref::<FormulaError>() {
                let _ = writeln!(std::io::stderr(), "{}", error.marked());
            }
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let session = Session::new(&cli.session);
    let binary = |op, args: &BinaryArgs| elementwise::binary(&session, op, [&args.a, &args.b], &args.output);
    if matches!(cli.command, Command::Demo(_) | Command::Bench(_) | Command::Lab(_)) {
        threads::start()?;
    }
    match &cli.command {
        Command::Devices => devices::run(&session),
        Command::Demo(args) => demo::run(&session, args),
        Command::Bench(args) => bench::run(&session, args),
        Command::Lab(args) => lab::run(&session, args),
        Command::Add(args) => binary(BinaryOp::Add, args),
        Command::Sub(args) => binary(BinaryOp::Sub, args),
        Command::Mul(args) => binary(BinaryOp::Mul, args),
        Command::Div(args) => binary(BinaryOp::Div, args),
        Command::Min(args) => binary(BinaryOp::Min, args),
        Command::Max(args) => binary(BinaryOp::Max, args),
        Command::Map { op, input, output } => elementwise::map(&session, *op, input, output),
        Command::Eval(args) => eval::run(&session, args),
        Command::Reduce(args) => reduce::run(&session, args),
        Command::Scan(args) => scan::run(&session, args),
        Command::Matmul(args) => matmul::run(&session, args),
        Command::Histogram(args) => histogram::run(&session, args),
        Command::Transpose(args) => transpose::run(&session, args),
        Command::Grayscale(args) => picture::grayscale(&session, args),
        Command::Blur(args) => picture::blur(&session, args),
        Command::Convolve(args) => picture::convolve(&session, args),
        Command::Tune(args) => tune::run(&session, args),
        Command::New { folder } => new::run(folder, |_| source()),
    }
}

/// Where a project gets Warpsmith's packages from: this program came from there too.
fn source() -> String {
    match cfg!(packed) {
        true => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
        false => format!("git = {:?}", env!("CARGO_PKG_REPOSITORY")),
    }
}
