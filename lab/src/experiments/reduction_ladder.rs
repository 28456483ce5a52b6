// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sum of many numbers, from interleaved additions to the library's kernel.

use anyhow::{Result, ensure};
use cuda_std::launch::SafeKernel;
use cuda_std::{Slice, SliceMut};
use ndarray::{Ix1, s};
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, small};
use crate::kernels::reduction::{
    THREADS, reduce_bank_conflicts, reduce_first_add, reduce_interleaved, reduce_last_warp, reduce_sequential,
    reduce_several, reduce_shuffles,
};
use crate::lab::{Count, Lab, Steps, Unit};
use crate::report::Report;

type Vector = DeviceArray<f32, Ix1>;

/// An element for each block of the first launch, twice.
type Scratch = [Vector; 2];

/// Adds up `x` by a kernel whose blocks add up `share` elements each, in grids of at most `most` blocks: in as many launches
/// as it takes. The result is the first element of the scratch memory that it gives the number of.
fn reduce<K>(x: &Vector, share: usize, most: usize, scratch: &mut Scratch) -> warpsmith::Result<usize>
where
    K: SafeKernel<Params = (Slice<'static, f32>, SliceMut<'static, f32>)>,
{
    let stream = x.stream().clone();
    let config = |blocks: usize| LaunchConfig::new(blocks as u32, THREADS as u32);
    let mut blocks = x.len().div_ceil(share).clamp(1, most);
    stream.launch::<K>(&config(blocks), (x, &mut scratch[0]))?;
    let mut last = 0;
    while blocks > 1 {
        let [first, second] = &mut *scratch;
        let (from, to) = if last == 0 { (first, second) } else { (second, first) };
        let from = from.slice(s![..blocks])?;
        // A grid that is to fill the GPU has one block here.
        blocks = if most < usize::MAX { 1 } else { blocks.div_ceil(share) };
        stream.launch::<K>(&config(blocks), (&from, to))?;
        last = 1 - last;
    }
    Ok(last)
}

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 26, 1 << 14);
    let host = array(n, small)?;
    let sum = host.sum();
    let x = lab.bench.upload(&host)?;
    // Two blocks for each that has room.
    let fill = 2
        * lab.bench.device.occupancy::<reduce_several>(THREADS as u32, 0)?
        * lab.bench.device.properties().multiprocessors;
    let two = 2 * THREADS;
    type Step = fn(&Vector, usize, usize, &mut Scratch) -> warpsmith::Result<usize>;
    let steps: [(&str, Step, usize, usize); 7] = [
        ("interleaved", reduce::<reduce_interleaved>, THREADS, usize::MAX),
        (
            "whole warps, bank conflicts",
            reduce::<reduce_bank_conflicts>,
            THREADS,
            usize::MAX,
        ),
        ("sequential", reduce::<reduce_sequential>, THREADS, usize::MAX),
        ("first addition at load", reduce::<reduce_first_add>, two, usize::MAX),
        (
            "last warp without barriers",
            reduce::<reduce_last_warp>,
            two,
            usize::MAX,
        ),
        ("shuffles", reduce::<reduce_shuffles>, two, usize::MAX),
        ("many elements a thread", reduce::<reduce_several>, two, fill as usize),
    ];
    let mut table = Steps::new(format!("the sum of {n} f32"), &["step"], Unit::Bytes).counting(&[
        Count::Wavefronts,
        Count::BankConflicts,
        Count::BytesMoved,
    ]);
    let bytes = (n * size_of::<f32>()) as f64;
    let blocks = n.div_ceil(THREADS).max(1);
    for (name, step, share, most) in steps {
        let scratch = [lab.bench.zeros(blocks)?, lab.bench.zeros(blocks)?];
        let launch = |(scratch, last): &mut (Scratch, usize)| {
            *last = step(&x, share, most, scratch)?;
            Ok(())
        };
        let check = |(scratch, last): &(Scratch, usize)| {
            let found = scratch[*last].slice(s![..1])?.to_ndarray()?[0];
            ensure!(found == sum, "{name}: {found}, wanted {sum}");
            Ok(())
        };
        let cost = lab.cost(&mut (scratch, 0), launch, check)?;
        table.push([name.into()], cost, bytes);
    }
    let mut out = lab.bench.zeros(())?;
    let check = |out: &DeviceArray<f32, _>| {
        let found = out.to_ndarray()?.into_scalar();
        ensure!(found == sum, "the library: {found}, wanted {sum}");
        Ok(())
    };
    let cost = lab.cost(&mut out, |out| x.sum_into(out), check)?;
    table.push(["the library"].map(Into::into), cost, bytes);
    Ok(Report {
        lines: explain(&table),
        tables: vec![table.table()],
    })
}

fn explain(table: &Steps) -> Vec<String> {
    if let (Some(rounds), Some(conflicts)) = (table.counts(Count::Wavefronts), table.counts(Count::BankConflicts)) {
        return vec![
            format!(
                "Shared memory answers in {} rounds in the first step, {} in the seventh: registers and shuffles take its place.",
                rounds[0], rounds[6]
            ),
            format!(
                "The second step has {} bank conflicts, the third {}.",
                conflicts[1], conflicts[2]
            ),
        ];
    }
    let Some(rates) = table.rates() else {
        return vec![];
    };
    let gains: Vec<f64> = rates.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let most = (0..gains.len())
        .max_by(|&a, &b| gains[a].total_cmp(&gains[b]))
        .unwrap_or(0);
    let mut lines = vec![
        format!(
            "From the first step to the library's kernel the sum becomes {:.1} times as fast; the largest gain, {:.2} times, is that of step {}.",
            rates[7] / rates[0],
            gains[most],
            most + 2
        ),
        format!(
            "Work that does not move bytes is what the first steps spend: of the library's {:.0} GB/s the interleaved one has {:.0} %.",
            rates[7],
            100.0 * rates[0] / rates[7]
        ),
    ];
    lines.push(match rates[2] / rates[1] {
        gain if gain > 1.1 => format!("Without bank conflicts (step 3 after step 2) it is {gain:.2} times as fast."),
        gain => format!(
            "Bank conflicts, which older texts make much of, hardly show here: step 3 is {gain:.2} times as fast as step 2, for other costs hide them."
        ),
    });
    lines
}
