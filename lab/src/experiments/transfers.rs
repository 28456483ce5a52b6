// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies between host and device.

use std::collections::VecDeque;

use anyhow::{Result, ensure};
use ndarray::{Array1, Ix1, s};
use warpsmith::{DeviceArray, PendingCopy, PinnedArray, Stream};

use crate::data::{array, small};
use crate::lab::{Lab, Steps, Unit, check_equal};
use crate::report::Report;

/// Parts that a copy is done in.
const PARTS: usize = 10;

pub fn run(lab: &Lab) -> Result<Report> {
    let (kinds, parts, overlap) = (kinds(lab)?, parts(lab)?, overlap(lab)?);
    let mut lines = Vec::new();
    match (kinds.rates(), parts.seconds(), overlap.seconds()) {
        (Some(kinds), Some(parts), Some(overlap)) => {
            lines.push(format!(
                "From page-locked memory copies run at {:.1} GB/s to the device and {:.1} back; from pageable memory at {:.1} and {:.1}, which goes through page-locked memory on its way.",
                kinds[2], kinds[3], kinds[0], kinds[1]
            ));
            lines.push(format!(
                "{PARTS} small copies take {:.1} times as long as one of the same bytes where each has 4 KiB, {:.2} times where each is large: each copy costs the time that it takes to ask for it, and none is there to overlap with.",
                parts[0] / parts[1], parts[2] / parts[3]
            ));
            lines.push(format!(
                "Copies in, kernels and copies out side by side in three streams take {:.2} of the time that they take one after the other.",
                overlap[1] / overlap[0]
            ));
        }
        _ => lines.push(
            "The simulated GPU has the host's memory: its copies say nothing of a bus, and are only checked here."
                .into(),
        ),
    }
    Ok(Report {
        tables: vec![kinds.table(), parts.table(), overlap.table()],
        lines,
    })
}

/// Pageable and page-locked memory, in both directions.
fn kinds(lab: &Lab) -> Result<Steps> {
    let n = lab.size(1 << 26, 1 << 12);
    let (device, stream) = (&lab.bench.device, &lab.bench.stream);
    let host = array(n, small)?;
    let mut steps = Steps::new(format!("copies of {n} f32"), &["memory", "direction"], Unit::Bytes);
    let bytes = (n * size_of::<f32>()) as f64;
    let mut x = lab.bench.zeros(n)?;
    let cost = lab.wall(|| Ok(x.assign_ndarray(&host)?))?;
    check_equal(&x, &host)?;
    steps.push(["pageable".into(), "to the device".into()], cost, bytes);
    let mut back = Array1::zeros(n);
    let cost = lab.wall(|| Ok(x.copy_to_ndarray(&mut back)?))?;
    ensure!(back == host, "a copy differs");
    steps.push(["pageable".into(), "to the host".into()], cost, bytes);

    let mut pinned = Some(PinnedArray::from_ndarray(device, &host)?);
    let mut x = DeviceArray::zeros(stream, n)?;
    let cost = lab.wall(|| {
        if let Some(array) = pinned.take() {
            pinned = Some(x.assign_async(array)?.wait()?);
        }
        Ok(())
    })?;
    check_equal(&x, &host)?;
    steps.push(["page-locked".into(), "to the device".into()], cost, bytes);
    let mut pinned = Some(PinnedArray::zeros(device, n)?);
    let cost = lab.wall(|| {
        if let Some(array) = pinned.take() {
            pinned = Some(x.download_async_into(array)?.wait()?);
        }
        Ok(())
    })?;
    ensure!(pinned.is_some_and(|back| back.view() == host), "a copy differs");
    steps.push(["page-locked".into(), "to the host".into()], cost, bytes);
    Ok(steps)
}

/// Many small copies against one large one.
fn parts(lab: &Lab) -> Result<Steps> {
    let mut steps = Steps::new(
        "copies to the device from pageable memory",
        &["copies", "bytes in all"],
        Unit::Bytes,
    );
    for part in [1 << 10, lab.size(1 << 22, 1 << 11)] {
        let n = PARTS * part;
        let host = array(n, small)?;
        let bytes = n * size_of::<f32>();
        let pieces: Vec<_> = (0..PARTS)
            .map(|i| host.slice(s![i * part..(i + 1) * part]).to_owned())
            .collect();
        let mut arrays = (0..PARTS)
            .map(|_| lab.bench.zeros::<f32, _>(part))
            .collect::<Result<Vec<_>>>()?;
        let cost = lab.wall(|| {
            let mut pairs = arrays.iter_mut().zip(&pieces);
            Ok(pairs.try_for_each(|(x, piece)| x.assign_ndarray(piece))?)
        })?;
        arrays
            .iter()
            .zip(&pieces)
            .try_for_each(|(x, piece)| check_equal(x, piece))?;
        steps.push([PARTS.into(), bytes.into()], cost, bytes as f64);
        let mut x = lab.bench.zeros(n)?;
        let cost = lab.wall(|| Ok(x.assign_ndarray(&host)?))?;
        check_equal(&x, &host)?;
        steps.push([1.into(), bytes.into()], cost, bytes as f64);
    }
    Ok(steps)
}

/// Chunks that go in, are computed on and come out, in one stream and in three.
fn overlap(lab: &Lab) -> Result<Steps> {
    const CHUNKS: usize = 12;
    let n = lab.size(1 << 22, 1 << 9);
    let device = &lab.bench.device;
    let three = [
        device.create_stream()?,
        device.create_stream()?,
        device.create_stream()?,
    ];
    let title = format!("{CHUNKS} chunks of {n} f32 there and back, and a kernel between");
    let mut steps = Steps::new(title, &["streams"], Unit::Bytes);
    let host = array(n, small)?;
    let wanted = host.mapv(|x| x * x);
    for streams in [&three[..1], &three[..]] {
        // Each stream has its own two arrays on the host.
        let mut unused = Vec::new();
        for _ in streams {
            unused.push((
                PinnedArray::from_ndarray(device, &host)?,
                PinnedArray::zeros(device, n)?,
            ));
        }
        let cost = lab.wall(|| chunks(streams, CHUNKS, &mut unused))?;
        for (_, out) in &unused {
            ensure!(out.view() == wanted, "a chunk differs");
        }
        let bytes = (2 * CHUNKS * n * size_of::<f32>()) as f64;
        steps.push([streams.len().into()], cost, bytes);
    }
    Ok(steps)
}

type Pinned = PinnedArray<f32, Ix1>;

/// The squares of `count` chunks, on streams that take turns.
fn chunks(streams: &[Stream], count: usize, unused: &mut Vec<(Pinned, Pinned)>) -> Result<()> {
    type Copies = (PendingCopy<f32, Ix1>, PendingCopy<f32, Ix1>);
    let finish = |(input, output): Copies| -> Result<_> { Ok((input.wait()?, output.wait()?)) };
    let mut under_way: VecDeque<Copies> = VecDeque::new();
    for i in 0..count {
        if under_way.len() == streams.len() {
            unused.extend(under_way.pop_front().map(finish).transpose()?);
        }
        if let Some((input, output)) = unused.pop() {
            let (x, upload) = DeviceArray::upload_async(&streams[i % streams.len()], input)?;
            under_way.push_back((upload, x.square()?.download_async_into(output)?));
        }
    }
    for copies in under_way {
        unused.push(finish(copies)?);
    }
    Ok(())
}
