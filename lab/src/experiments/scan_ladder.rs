// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefix sums, from the scan with the most additions to the library's single pass.

use anyhow::Result;
use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Array1, Ix1};
use warpsmith::ops::Sum;
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, small};
use crate::kernels::scan::{THREADS, TILE, add_offsets, scan_blelloch, scan_blelloch_padded, scan_hillis_steele};
use crate::lab::{Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

type Vector = DeviceArray<f32, Ix1>;

/// Scans `x` into `out` by a kernel whose blocks scan `tile` elements each: then the tiles' sums in the same way, until one
/// tile has them all, and adds to each tile what lies before it.
fn scan<K>(x: &Vector, tile: usize, out: &mut Vector) -> warpsmith::Result<()>
where
    K: SafeKernel<Params = (Slice<'static, f32>, SliceMut<'static, f32>, SliceMut<'static, f32>)>,
{
    let stream = x.stream().clone();
    let tiles = x.len().div_ceil(tile).max(1);
    let mut sums = DeviceArray::zeros(&stream, tiles)?;
    stream.launch::<K>(
        &LaunchConfig::new(tiles as u32, THREADS as u32),
        (x, &mut *out, &mut sums),
    )?;
    if tiles > 1 {
        let mut scanned = DeviceArray::zeros(&stream, tiles)?;
        scan::<K>(&sums, tile, &mut scanned)?;
        let config = LaunchConfig::for_len(x.len(), THREADS as u32);
        stream.launch::<add_offsets>(&config, (tile, &scanned, out))?;
    }
    Ok(())
}

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 25, 1 << 14);
    let host = array(n, small)?;
    let wanted: Array1<f32> = host
        .iter()
        .scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        })
        .collect();
    let x = lab.bench.upload(&host)?;
    let mut table = Steps::new(format!("the prefix sums of {n} f32"), &["step"], Unit::Bytes).counting(&[
        Count::Wavefronts,
        Count::BankConflicts,
        Count::BytesMoved,
    ]);
    type Step = fn(&Vector, &mut Vector) -> warpsmith::Result<()>;
    let steps: [(&str, Step); 4] = [
        ("Hillis and Steele", |x, out| {
            scan::<scan_hillis_steele>(x, THREADS, out)
        }),
        ("Blelloch", |x, out| scan::<scan_blelloch>(x, TILE, out)),
        ("Blelloch, padded", |x, out| scan::<scan_blelloch_padded>(x, TILE, out)),
        ("the library: one pass, look-back", |x, out| {
            x.inclusive_scan_into::<Sum>(out)
        }),
    ];
    for (name, step) in steps {
        let mut out = lab.bench.zeros(n)?;
        let cost = lab.cost(&mut out, |out| step(&x, out), |out| check_equal(out, &wanted))?;
        table.push([name.into()], cost, (2 * n * size_of::<f32>()) as f64);
    }
    Ok(Report {
        lines: explain(&table),
        tables: vec![table.table()],
    })
}

fn explain(table: &Steps) -> Vec<String> {
    if let (Some(moved), Some(conflicts)) = (table.counts(Count::BytesMoved), table.counts(Count::BankConflicts)) {
        return vec![
            format!(
                "Blelloch's tree has {} bank conflicts, with padding {}.",
                conflicts[1], conflicts[2]
            ),
            format!(
                "The library's single pass moves {:.0} bytes of global memory, where the padded scan and its addition of offsets move {:.0}.",
                moved[3], moved[2]
            ),
        ];
    }
    let Some(rates) = table.rates() else {
        return vec![];
    };
    let [hillis, blelloch, padded, library] = [rates[0], rates[1], rates[2], rates[3]];
    let fewer = match blelloch / hillis {
        gain if gain > 1.0 => {
            format!("Fewer additions make Blelloch's scan {gain:.2} times as fast as Hillis and Steele's")
        }
        gain => format!(
            "Blelloch's scan does fewer additions than Hillis and Steele's and is slower all the same, {:.2} times: its threads rest, and its words share banks",
            1.0 / gain
        ),
    };
    vec![
        format!("{fewer}."),
        format!(
            "Padding, against bank conflicts in the tree, makes it {:.2} times as fast.",
            padded / blelloch
        ),
        format!(
            "The library reads and writes each element once, where those before do it twice, and keeps several in registers: {:.1} times as fast as the padded one.",
            library / padded
        ),
    ]
}
