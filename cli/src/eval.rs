// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith eval`: a formula of arrays, computed as one kernel.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use clap::Args;
use serde_json::json;
use warpsmith::expr::{AnyExpr, Formula};
use warpsmith::{Device, Stream};

use crate::job::Job;
use crate::npy::{self, NpyFile};
use crate::scalar::{Dtype, dispatch};
use crate::session::{Report, Session};
use crate::stored::Stored;
use crate::timing::Timings;

/// What the help says below the options.
const SYNTAX: &str = "\
Operators are Python's: + - * / // % ** & | ^ ~ << >> < <= > >= == !=. Functions have NumPy's names and Rust's: tanh, log or ln, \
arcsin or asin, …; minimum, maximum, pow, arctan2, hypot, copysign, clip(x, lo, hi), where(c, a, b), fma(a, b, c); casts are \
f32(x), u8(x) and the like; index(axis) is an element's place along an axis. Constants are pi, e, inf, nan, true, false. \
\"m = a*2; m + b\" gives names to parts.

Numbers have no type of their own, as in NumPy 2: 2*a and 0.5*a of f32 are f32. Two arrays have the type that holds the values \
of both, and of a float and an integer the float's. i8 and i16 are computed as i32. A formula that begins with the letter of an \
option, as -v, stands behind --.";

#[derive(Args)]
#[command(after_help = SYNTAX)]
pub struct EvalArgs {
    /// The formula, as in "tanh(a)*2 + 1"; conditions stand in parentheses: "where((a > 0) & (b > 0), a, b)".
    #[arg(value_name = "FORMULA", allow_hyphen_values = true)]
    formula: String,
    /// What a name of the formula stands for: a .npy file.
    #[arg(value_name = "NAME=FILE.npy")]
    inputs: Vec<NamedFile>,
    /// The .npy file that is written; without it, the result is printed.
    #[arg(short, long, value_name = "OUT.npy")]
    output: Option<PathBuf>,
    /// Prints the steps of the computation with their types and shapes, and computes nothing.
    #[arg(long, conflicts_with = "output")]
    explain: bool,
}

/// A name, and the file with what it stands for.
#[derive(Clone, Debug)]
struct NamedFile {
    name: String,
    path: PathBuf,
}

impl FromStr for NamedFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Self {
                name: name.into(),
                path: path.into(),
            }),
            _ => Err("wanted a name of the formula and its file, as in a=A.npy"),
        }
    }
}

/// `warpsmith eval FORMULA NAME=FILE.npy …`
pub fn run(session: &Session, args: &EvalArgs) -> Result<()> {
    let formula = Formula::parse(&args.formula)?;
    let files = open(&formula, &args.inputs)?;
    let job = Job::open(session, "eval", args.output.as_deref())?;
    let device = session.open_device()?;
    let stream = device.default_stream();
    let progress = session.progress("eval");
    let mut timings = Timings::new(stream);
    let inputs = files.iter().map(|(name, file)| Ok((*name, upload(&device, file)?)));
    let inputs = timings.time("copy in", || inputs.collect::<Result<Vec<_>>>())?;
    let result = formula.apply(&inputs)?;
    if args.explain {
        drop(progress);
        return explain(session, stream, &result, &timings);
    }
    macro_rules! compute {
        ($($variant:ident)*) => {
            match result {
                AnyExpr::Bool(result) => compute!(@each result, job.stored_as(Stored::Bool)),
                $(AnyExpr::$variant(result) => compute!(@each result, job),)*
                AnyExpr::Bf16(_) => bail!("eval: the result is bf16, for which NumPy has no type, wanted another, as of f32(…)"),
            }
        };
        (@each $result:ident, $job:expr) => {{
            let out = timings.time("kernel", || $result.eval_on(stream))?;
            let out = timings.time("copy out", || out.to_ndarray())?;
            $job.finish(progress, stream, &out, &timings)
        }};
    }
    compute!(F16 F32 F64 I32 I64 U8 U16 U32 U64)
}

/// The files of the formula's names, whose elements are not read yet.
fn open<'a>(formula: &Formula, inputs: &'a [NamedFile]) -> Result<Vec<(&'a str, NpyFile)>> {
    let mut names: Vec<&str> = Vec::new();
    for NamedFile { name, .. } in inputs {
        ensure!(
            !names.contains(&name.as_str()),
            "eval: {name} is given twice, wanted one file for each name"
        );
        ensure!(
            formula.reads(name),
            "eval: {name} is given, but is no name of the formula"
        );
        names.push(name);
    }
    formula.check_names(&names)?;
    let files = names.into_iter().zip(inputs);
    files
        .map(|(name, input)| Ok((name, NpyFile::open(&input.path)?)))
        .collect()
}

fn upload(device: &Device, file: &NpyFile) -> Result<AnyExpr<'static>> {
    if file.stored == Stored::Bool {
        let bytes = npy::upload(device, &file.read::<u8>(device)?)?;
        return Ok(bytes.into_expr().not_equal(0).into());
    }
    dispatch!(file.stored.dtype(), T => Ok(npy::upload(device, &file.read::<T>(device)?)?.into_expr().into()))
}

fn explain(session: &Session, stream: &Stream, result: &AnyExpr, timings: &Timings) -> Result<()> {
    let steps = result.explain()?;
    let report = Report {
        operation: "eval".into(),
        dtype: result.type_name(),
        shape: result.shape()?,
        output: None,
        value: Some((steps.clone(), json!(steps.lines().collect::<Vec<_>>()))),
    };
    session.finish(&report, stream.device_id(), timings)
}
