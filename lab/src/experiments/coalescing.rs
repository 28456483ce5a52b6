// SPDX-License-Identifier: MIT OR Apache-2.0
//! Strides, structures and misaligned starts.

use anyhow::{Result, ensure};
use ndarray::s;
use warpsmith::{DeviceArray, LaunchConfig};

use crate::data::{array, small};
use crate::kernels::coalescing::{
    FIELDS, array_of_structures, offset_read, strided_read, strided_write, structure_of_arrays,
};
use crate::lab::{Cost, Count, Lab, Steps, Unit, check_equal};
use crate::report::Report;

const STRIDES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

const THREADS: u32 = 256;

const COUNTS: [Count; 2] = [Count::SectorsPerRequest, Count::BytesMoved];

pub fn run(lab: &Lab) -> Result<Report> {
    let n = lab.size(1 << 23, 1 << 12);
    let [reads, writes] = strides(lab, n)?;
    let offsets = offsets(lab, n)?;
    let structures = structures(lab, n)?;
    let mut lines = Vec::new();
    if let (Some(reads), Some(offsets), Some(structures)) = (reads.rates(), offsets.rates(), structures.rates()) {
        lines.extend(explain(&reads, &offsets, structures[1] / structures[0]));
    }
    if let (Some(reads), Some(structures)) = (
        reads.counts(Count::SectorsPerRequest),
        structures.counts(Count::SectorsPerRequest),
    ) {
        lines.push(format!(
            "A warp reads 32 f32 and writes 32: at stride 1 a request takes {:.1} sectors of 32 bytes, at stride 8 (with the \
             writes, which stay together) {:.1} on average, at stride 64 {:.1}.",
            reads[0], reads[3], reads[6]
        ));
        lines.push("From stride 8 on each f32 that is read costs a sector, of which 28 bytes are thrown away.".into());
        lines.push(format!(
            "Two of {FIELDS} fields: an array of structures takes {:.1} sectors a request, a structure of arrays {:.1}.",
            structures[0], structures[1]
        ));
    }
    Ok(Report {
        tables: [reads, writes, offsets, structures].iter().map(Steps::table).collect(),
        lines,
    })
}

/// The rates of reads by strides, of reads from misaligned starts, and what the better layout gains.
fn explain(reads: &[f64], offsets: &[f64], gain: f64) -> [String; 3] {
    // A stride of 8 takes a sector for each element that is read, 8 times the bytes, beside what is written: in all, 9 of 2.
    let slower = reads[0] / reads[3];
    let sectors = match slower {
        slower if slower < 4.0 => "less than that, for at stride 1 bytes are not all that takes time",
        _ => "and that is what sectors explain",
    };
    let beyond = match reads[6] / reads[3] {
        part if part < 0.8 => {
            "It falls on beyond that, though sectors do not: memory itself hands out more than one at a time, and of what the caches hold less is used"
        }
        _ => "Beyond that it does not fall any more",
    };
    let worst = offsets.iter().copied().fold(f64::INFINITY, f64::min) / offsets[0];
    let misaligned = match worst {
        part if part > 0.95 => format!(
            "A misaligned start costs next to nothing ({:.1} % at worst), for the neighbouring warp wants the sector that is too much, and finds it in the cache",
            100.0 * (1.0 - part)
        ),
        part => format!(
            "A misaligned start costs {:.0} % at worst, a sector more for each warp",
            100.0 * (1.0 - part)
        ),
    };
    [
        format!(
            "Each thread reads one f32 and writes one. Memory comes in sectors of 32 bytes: at stride 8 each f32 that is read takes one of its own, 4.5 times the bytes in all; {:.0} GB/s of useful bytes at stride 1 become {:.0}, {slower:.1} times as slow: {sectors}.",
            reads[0], reads[3]
        ),
        format!("{beyond}: {:.0} GB/s at stride 64.", reads[6]),
        format!(
            "{misaligned}. Two of {FIELDS} fields: the structure of arrays is {gain:.1} times as fast as the array of structures."
        ),
    ]
}

/// Reads and writes of `n` elements.
fn strides(lab: &Lab, n: usize) -> Result<[Steps; 2]> {
    let config = LaunchConfig::for_len(n, THREADS);
    let mut reads = Steps::new("reads with a stride", &["stride"], Unit::Bytes).counting(&COUNTS);
    let mut writes = Steps::new("writes with a stride", &["stride"], Unit::Bytes).counting(&COUNTS);
    let bytes = (2 * n * size_of::<f32>()) as f64;
    let near = array(n, small)?;
    let sum = near.sum();
    let all = array(n * STRIDES[STRIDES.len() - 1], small)?;
    let (device_near, device_all) = (lab.bench.upload(&near)?, lab.bench.upload(&all)?);
    for stride in STRIDES {
        let far = all.slice(s![..n * stride]);
        let x = device_all.slice(s![..n * stride])?;
        let mut out = lab.bench.zeros(n)?;
        let launch = |out: &mut DeviceArray<f32, _>| {
            let args = (stride as u32, &x, out);
            lab.bench.stream.launch::<strided_read>(&config, args)
        };
        let cost = lab.cost(&mut out, launch, |out| check_equal(out, &far.slice(s![..;stride])))?;
        reads.push([stride.into()], cost, bytes);

        let mut out = lab.bench.zeros(n * stride)?;
        let launch = |out: &mut DeviceArray<f32, _>| {
            let args = (stride as u32, &device_near, out);
            lab.bench.stream.launch::<strided_write>(&config, args)
        };
        let check = |out: &DeviceArray<f32, _>| {
            check_equal(&out.slice(s![..;stride])?.to_array()?, &near)?;
            // Exact: there is nothing between the elements.
            let found = out.sum()?;
            ensure!(found == sum, "elements sum up to {found}, wanted {sum}");
            Ok(())
        };
        let cost = lab.cost(&mut out, launch, check)?;
        writes.push([stride.into()], cost, bytes);
    }
    Ok([reads, writes])
}

/// Reads of `n` neighbours that begin somewhere in a sector.
fn offsets(lab: &Lab, n: usize) -> Result<Steps> {
    let mut steps = Steps::new("reads from a misaligned start", &["first element"], Unit::Bytes).counting(&COUNTS);
    let host = array(n + 32, small)?;
    let x = lab.bench.upload(&host)?;
    let mut out = lab.bench.zeros(n)?;
    for offset in [0, 1, 2, 4, 8, 16, 31, 32] {
        let config = LaunchConfig::for_len(n, THREADS);
        let launch = |out: &mut DeviceArray<f32, _>| {
            lab.bench
                .stream
                .launch::<offset_read>(&config, (offset as u32, &x, out))
        };
        let check = |out: &DeviceArray<f32, _>| check_equal(out, &host.slice(s![offset..offset + n]));
        let cost = lab.cost(&mut out, launch, check)?;
        steps.push([offset.into()], cost, (2 * n * size_of::<f32>()) as f64);
    }
    Ok(steps)
}

/// `n` particles that move, in each of the two layouts, by no time at all: so that any number of launches gives the same.
fn structures(lab: &Lab, n: usize) -> Result<Steps> {
    let mut steps = Steps::new("two fields of eight", &["layout"], Unit::Bytes).counting(&COUNTS);
    let bytes = (3 * n * size_of::<f32>()) as f64;
    let config = LaunchConfig::for_len(n, THREADS);
    let host = array(n * FIELDS, small)?;
    let (places, speeds) = (host.slice(s![..;FIELDS]), host.slice(s![3..;FIELDS]));

    let mut particles = lab.bench.upload(&host)?;
    let moved = |time: f32| {
        let mut moved = host.clone();
        moved.slice_mut(s![..;FIELDS]).scaled_add(time, &speeds);
        moved
    };
    lab.bench
        .stream
        .launch::<array_of_structures>(&config, (0.5, &mut particles))?;
    check_equal(&particles, &moved(0.5))?;
    let launch = |particles: &mut DeviceArray<f32, _>| {
        lab.bench
            .stream
            .launch::<array_of_structures>(&config, (0.0, particles))
    };
    let cost = lab.cost(&mut particles, launch, |particles| check_equal(particles, &moved(0.5)))?;
    steps.push(["array of structures".into()], cost, bytes);

    let speeds = lab.bench.upload(&speeds.to_owned())?;
    let mut out = lab.bench.upload(&places.to_owned())?;
    let launch = |time: f32, out: &mut DeviceArray<f32, _>| {
        lab.bench
            .stream
            .launch::<structure_of_arrays>(&config, (time, &speeds, out))
    };
    launch(0.5, &mut out)?;
    let check = |out: &DeviceArray<f32, _>| check_equal(out, &moved(0.5).slice(s![..;FIELDS]));
    let cost: Cost = lab.cost(&mut out, |out| launch(0.0, out), check)?;
    steps.push(["structure of arrays".into()], cost, bytes);
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_say_what_the_numbers_do() {
        // Measured on an H100.
        let reads = [2438.5, 1521.9, 1086.6, 630.9, 344.9, 318.5, 270.0];
        let [first, second, third] = explain(&reads, &[2421.7, 2416.1, 2405.0], 6.6);
        assert!(
            first.contains("2438 GB/s of useful bytes at stride 1 become 631, 3.9 times as slow: less"),
            "{first}"
        );
        assert!(
            second.contains("falls on beyond that") && second.ends_with("270 GB/s at stride 64."),
            "{second}"
        );
        assert!(
            third.contains("next to nothing (0.7 % at worst)") && third.contains("6.6 times"),
            "{third}"
        );
        // Made up: a GPU without caches.
        let reads = [900.0, 450.0, 300.0, 200.0, 200.0, 200.0, 200.0];
        let [first, second, third] = explain(&reads, &[900.0, 750.0], 8.0);
        assert!(first.contains("4.5 times as slow: and that is"), "{first}");
        assert!(second.contains("does not fall any more"), "{second}");
        assert!(third.contains("costs 17 % at worst"), "{third}");
    }
}
