// SPDX-License-Identifier: MIT OR Apache-2.0
//! Part "The algorithms": what the steps of each have memory do, as the simulated GPU counts it.
//!
//! The kernels, and the tests of what they compute, are those of the laboratory.

use std::fmt::Write;

use warpsmith::ndarray::Array1;
use warpsmith::sim::{Counts, LaunchCounters, Operation, Space};
use warpsmith::{Device, DeviceArray, LaunchConfig, Result};
use warpsmith_lab_kernels::{blur, histogram, matmul, reduction, scan, transpose};

use crate::book::assert_shown;

/// A table of launches.
struct Counted {
    device: Device,
    table: String,
}

impl Counted {
    fn new() -> Self {
        let table = format!(
            "{:<28} {:>8} {:>9} {:>9} {:>10} {:>9}\n",
            "", "requests", "KiB moved", "of shared", "wavefronts", "conflicts"
        );
        Self {
            device: Device::counting_simulator(),
            table,
        }
    }

    /// Adds a row, of what was launched since the last one.
    fn row(&mut self, step: &str) {
        const OPERATIONS: [Operation; 3] = [Operation::Load, Operation::Store, Operation::Atomic];
        let launches = self.device.take_counters();
        let sum = |space, number: fn(&Counts) -> u64| -> u64 {
            let of = |launch: &LaunchCounters| OPERATIONS.map(|operation| number(&launch.total(space, operation)));
            launches.iter().flat_map(of).sum()
        };
        let moved: u64 = launches.iter().map(LaunchCounters::bytes_moved).sum();
        writeln!(
            self.table,
            "{step:<28} {:>8} {:>9} {:>9} {:>10} {:>9}",
            sum(Space::Global, |counts| counts.requests),
            moved / 1024,
            sum(Space::Shared, |counts| counts.requests),
            sum(Space::Shared, |counts| counts.wavefronts),
            sum(Space::Shared, |counts| counts.bank_conflicts),
        )
        .expect("a string takes all that is written");
    }
}

#[test]
fn reductions() -> Result<()> {
    let mut counted = Counted::new();
    let stream = counted.device.default_stream().clone();
    let x = DeviceArray::<f32, _>::ones(&stream, 1 << 14)?;
    let mut out = DeviceArray::zeros(&stream, 64)?;
    let whole = LaunchConfig::new(64, reduction::THREADS as u32);
    let half = LaunchConfig::new(32, reduction::THREADS as u32);
    let few = LaunchConfig::new(4, reduction::THREADS as u32);
    counted.device.take_counters();
    macro_rules! steps {
        ($($step:literal $kernel:ident $config:ident;)*) => {$(
            stream.launch::<reduction::$kernel>(&$config, (&x, &mut out))?;
            counted.row($step);
        )*};
    }
    steps! {
        "1 interleaved" reduce_interleaved whole;
        "2 the first threads" reduce_bank_conflicts whole;
        "3 sequential" reduce_sequential whole;
        "4 first addition when loading" reduce_first_add half;
        "5 last warp" reduce_last_warp half;
        "6 shuffles" reduce_shuffles half;
        "7 many elements each" reduce_several few;
    }
    assert_shown("reduction", &counted.table);
    Ok(())
}

#[test]
fn scans() -> Result<()> {
    let mut counted = Counted::new();
    let stream = counted.device.default_stream().clone();
    let x = DeviceArray::<f32, _>::ones(&stream, 1 << 13)?;
    let (mut out, mut sums) = (x.zeros_like()?, DeviceArray::zeros(&stream, 32)?);
    let config = |tile: usize| LaunchConfig::new((x.len() / tile) as u32, scan::THREADS as u32);
    counted.device.take_counters();
    stream.launch::<scan::scan_hillis_steele>(&config(scan::THREADS), (&x, &mut out, &mut sums))?;
    counted.row("1 Hillis and Steele");
    stream.launch::<scan::scan_blelloch>(&config(scan::TILE), (&x, &mut out, &mut sums))?;
    counted.row("2 Blelloch");
    stream.launch::<scan::scan_blelloch_padded>(&config(scan::TILE), (&x, &mut out, &mut sums))?;
    counted.row("  padded");
    stream.launch::<scan::add_offsets>(&config(scan::THREADS), (scan::TILE, &sums, &mut out))?;
    counted.row("3 the offsets besides");
    assert_shown("scan", &counted.table);
    Ok(())
}

#[test]
fn products() -> Result<()> {
    let mut counted = Counted::new();
    let stream = counted.device.default_stream().clone();
    let n = 64;
    let (a, b) = (
        DeviceArray::<f32, _>::ones(&stream, (n, n))?,
        DeviceArray::<f32, _>::ones(&stream, (n, n))?,
    );
    let mut out = a.zeros_like()?;
    let blocks = LaunchConfig::for_shape((n, n), (32, 8));
    let tiles = LaunchConfig::for_shape((n, n), (matmul::EDGE as u32, matmul::EDGE as u32));
    counted.device.take_counters();
    stream.launch::<matmul::matmul_by_columns>(&blocks, (n, &a, &b, &mut out))?;
    counted.row("1 the wrong way round");
    stream.launch::<matmul::matmul_by_rows>(&blocks, (n, &a, &b, &mut out))?;
    counted.row("2 the right way round");
    stream.launch::<matmul::matmul_tiled>(&tiles, (n, &a, &b, &mut out))?;
    counted.row("3 tiles in shared memory");
    let tiles = LaunchConfig::new(1, matmul::THREADS as u32);
    stream.launch::<matmul::matmul_registers>(&tiles, (n, &a, &b, &mut out))?;
    counted.row("4 tiles in registers");
    assert_shown("matmul", &counted.table);
    Ok(())
}

#[test]
fn transposes() -> Result<()> {
    let mut counted = Counted::new();
    let stream = counted.device.default_stream().clone();
    let n = 128;
    let x = DeviceArray::<f32, _>::ones(&stream, (n, n))?;
    let mut out = x.zeros_like()?;
    let tiles = (n / transpose::EDGE) as u32;
    let config = LaunchConfig::new((tiles, tiles), (transpose::EDGE as u32, transpose::ROWS as u32));
    counted.device.take_counters();
    stream.launch::<transpose::transpose_naive>(&config, (n, n, &x, &mut out))?;
    counted.row("1 naive");
    stream.launch::<transpose::transpose_tiled>(&config, (n, n, &x, &mut out))?;
    counted.row("2 by way of shared memory");
    stream.launch::<transpose::transpose_padded>(&config, (n, n, &x, &mut out))?;
    counted.row("3 padded");
    assert_shown("transpose", &counted.table);
    Ok(())
}

#[test]
fn blurs() -> Result<()> {
    let mut counted = Counted::new();
    let stream = counted.device.default_stream().clone();
    let (rows, columns) = (64, 128);
    let x = DeviceArray::<f32, _>::ones(&stream, (rows, columns))?;
    let mut out = x.zeros_like()?;
    let config = LaunchConfig::for_shape((rows, columns), (blur::COLUMNS as u32, blur::ROWS as u32));
    counted.device.take_counters();
    stream.launch::<blur::blur_naive>(&config, (rows, columns, &x, &mut out))?;
    counted.row("1 naive");
    stream.launch::<blur::blur_tiled>(&config, (rows, columns, &x, &mut out))?;
    counted.row("2 a tile in shared memory");
    assert_shown("blur", &counted.table);
    Ok(())
}

#[test]
fn histograms() -> Result<()> {
    let device = Device::counting_simulator();
    let stream = device.default_stream();
    let mut table = format!(
        "{:<24} {:>18} {:>18}\n",
        "lanes that meet", "global memory", "shared memory"
    );
    let mut random = warpsmith::Generator::new(1);
    let values = [
        ("at random", random.integers(stream, 1 << 13, 0..256u32)?),
        ("all alike", DeviceArray::from_ndarray(stream, &Array1::zeros(1 << 13))?),
    ];
    let config = LaunchConfig::new(8, histogram::THREADS as u32);
    for (what, x) in &values {
        let mut counts = DeviceArray::<u32, _>::zeros(stream, histogram::BINS)?;
        device.take_counters();
        let mut row = |step: &str| {
            let launch = &device.take_counters()[0];
            let collisions = |space| launch.total(space, Operation::Atomic).collisions;
            let [global, shared] = [Space::Global, Space::Shared].map(collisions);
            let step = format!("{step}, {what}");
            table += &format!("{step:<24} {global:>18} {shared:>18}\n");
        };
        stream.launch::<histogram::histogram_global>(&config, (x, &mut counts))?;
        row("1 global");
        stream.launch::<histogram::histogram_shared>(&config, (x, &mut counts))?;
        row("2 shared");
        stream.launch::<histogram::histogram_aggregated>(&config, (x, &mut counts))?;
        row("3 aggregated");
    }
    assert_shown("histogram", &table);
    Ok(())
}
