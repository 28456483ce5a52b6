// SPDX-License-Identifier: MIT OR Apache-2.0
//! `warpsmith demo`: every kernel on generated arrays and on a photograph, each checked against ndarray
//! on the CPU and timed.
//!
//! A time is the median between events around the operation, after a warm-up, or of the one run on the simulated GPU; for a
//! reduction that includes the way of the result to the host. GB/s counts the bytes that must move: each input read
//! once, each output written once.

mod arrays;
mod check;
mod data;
mod histogram;
mod matrices;
mod pictures;
mod reference;
mod rows;
mod scan;

use std::path::PathBuf;

use anyhow::{Error, Result, anyhow, ensure};
use clap::Args;
use kernels_gpu::num::Num;
use serde_json::json;

use crate::scalar::{Dtype, dispatch};
use crate::session::{Session, print};
use reference::{CastFrom, Reference};
use rows::Demo;

/// Elements of the generated arrays on a GPU: more than any L2 cache holds.
const GPU_LEN: usize = 1 << 25;

/// Elements of the generated arrays on the simulated GPU, where every thread is run by the CPU.
const SIMULATOR_LEN: usize = 1 << 18;

#[derive(Args)]
pub struct DemoArgs {
    /// The folder for the pictures that are made.
    #[arg(long, default_value = "warpsmith-demo", value_name = "DIR")]
    out: PathBuf,
    /// Elements of the generated arrays, and pixels of the pictures at most [default: 2^25 on a GPU, 2^18 on the
    /// simulated one; the photograph has 2^18].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    len: Option<u64>,
    /// Element types: f32, f64, i32, i64, u8, u16, u32, u64.
    #[arg(long, value_delimiter = ',', default_value = "f32,i64", value_name = "TYPE,…")]
    types: Vec<Dtype>,
}

/// `warpsmith demo`
pub fn run(session: &Session, args: &DemoArgs) -> Result<()> {
    ensure!(!args.types.contains(&Dtype::F16), refusal());
    let device = session.open_device()?;
    let outputs = pictures::Outputs::create(&args.out)?;
    let default_len = if device.is_simulator() { SIMULATOR_LEN } else { GPU_LEN };
    let len = args.len.map_or(default_len, |len| len as usize);
    let mut demo = Demo::new(&device, session.progress("demo"));
    for &dtype in &args.types {
        dispatch!(dtype, T => numbers::<T>(&mut demo, len), F16 => Err(refusal()))?;
        match dtype {
            Dtype::F32 => {
                arrays::float_functions::<f32>(&mut demo, len)?;
                matrices::matmul::<f32>(&mut demo, device.is_simulator())?;
                histogram::of_floats(&mut demo, len)?;
            }
            Dtype::F64 => {
                arrays::float_functions::<f64>(&mut demo, len)?;
                matrices::matmul::<f64>(&mut demo, device.is_simulator())?;
            }
            Dtype::I32 => matrices::matmul::<i32>(&mut demo, device.is_simulator())?,
            _ => {}
        }
    }
    let written = outputs.write(pictures::run(&mut demo, len)?)?;
    demo.finish();
    let device = device.properties();
    if session.json() {
        let pictures: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
        let (rows, ok) = (demo.to_json(), demo.verdict().is_ok());
        let object = json!({ "device": device.id, "name": device.name, "ok": ok, "rows": rows, "pictures": pictures });
        print(&format!("{object}\n"))?;
    } else {
        print(&format!("{} ({})\n{}\n", device.name, device.id, demo.table()))?;
        for path in written {
            print(&format!("wrote {}\n", path.display()))?;
        }
    }
    demo.verdict()
}

/// The error for the element type that the references know nothing of.
fn refusal() -> Error {
    anyhow!("demo of f16: wanted f32, f64, i32, i64, u8, u16, u32 or u64")
}

/// All operations on elements of type `T`, but for the functions that only floats have.
fn numbers<T: Reference + CastFrom + Num<Total: Reference + CastFrom>>(demo: &mut Demo, len: usize) -> Result<()> {
    let x = arrays::run::<T>(demo, len)?;
    scan::run(demo, &x)?;
    matrices::transpose(demo, &x)
}
