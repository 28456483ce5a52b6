// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that are many launches, run by the tests' machine: they give the bits of each launch.

use ndarray::{Axis, Ix0, Ix3, s};
use test_reference::emulator::{Emulator, Memory};

use super::emulated::{count, host, is_run, numbers, twice};
use super::functions::{callees, native};
use crate::expr::graph::Elements;
use crate::expr::kernel::together::{Work, by_program, can_be_together, launch_all, launches};
use crate::expr::plan::{Course, Next};
use crate::expr::program::Program;
use crate::expr::ptx::kernel::{Newer, entry};
use crate::{DeviceArray, Expr, Result, expr};

/// Where a test wants it, computes these once more by one kernel's text: they have the same bits.
pub(in crate::expr) fn run_together_again(program: &Program, works: &[&Work<'_>]) {
    if !is_run() {
        return;
    }
    let text = entry(program, &callees(program), &Newer::of(program, (7, 5))).expect("a kernel");
    let native = native(&program.functions);
    let emulator = Emulator::new(&text, &native);
    let places = works.iter().flat_map(|(lowered, outputs)| {
        let elements: usize = lowered.lengths.iter().product();
        let rows = lowered.lengths[..lowered.lengths.len() - 1].iter().product::<usize>() * lowered.parts.0;
        let is_row = move |output: usize| program.reduce.as_ref().is_some_and(|reduce| reduce.is_row[output]);
        let numbers = move |output: usize| if is_row(output) { rows } else { elements };
        let bytes = move |output: usize| numbers(output) * program.types[usize::from(program.outputs[output])].bytes();
        outputs
            .iter()
            .enumerate()
            .map(move |(output, &address)| (address, bytes(output)))
    });
    let bytes = places.flat_map(|(address, bytes)| address..address + bytes as u64);
    let wanted: Vec<(u64, u64)> = bytes.map(|address| (address, host().load(address, 1) & 0xff)).collect();
    // What is written in place is then computed once more: only what is not, is as it was.
    let is_in_place = |(lowered, outputs): &&&Work<'_>| outputs.iter().any(|output| lowered.inputs.contains(output));
    assert!(
        !works.iter().any(|work| is_in_place(&work)),
        "tests read what they do not write"
    );
    wanted
        .iter()
        .for_each(|&(address, byte)| host().store(address, 1, !byte));
    let mut blocks = 0;
    for (parameters, config) in launches(program, works) {
        for x in 0..config.grid.x {
            emulator.block((x, 0), config.block.x, &parameters, &mut host());
            blocks += 1;
        }
    }
    for (address, byte) in wanted {
        assert_eq!(host().load(address, 1) & 0xff, byte, "{program:?}\n{text}");
    }
    count(blocks);
}

/// Of lengths with and without vectors, with elements behind the last one, in more launches than one has room for; of views of two axes;
/// of two forms, one of which one alone has; and of nothing.
#[test]
fn many_arrays_together() {
    let blocks = twice(|stream| {
        let lengths: Vec<usize> = (0..70).map(|k| [4, 1, 7, 64, 300, 0, 33][k % 7] + k / 7).collect();
        let new = |len: &usize| numbers(stream, [1, 1, *len]);
        let x: Vec<_> = lengths.iter().map(new).collect::<Result<_>>()?;
        let mut out: Vec<_> = x
            .iter()
            .map(|x| DeviceArray::<f32, Ix3>::zeros(stream, x.raw_dim()))
            .collect::<Result<_>>()?;
        let factor = DeviceArray::from_ndarray(stream, &ndarray::arr0(0.5f32))?;
        let several = x.iter().zip(&mut out).enumerate();
        let several = several.map(|(k, (x, out))| (x.expr() * k as f32 + factor.expr()).defer_into(out));
        expr::run_all(several.collect::<Result<Vec<_>>>()?)?;
        for (k, (x, out)) in x.iter().zip(&out).enumerate() {
            assert_eq!(out.to_ndarray()?, x.to_ndarray()? * k as f32 + 0.5);
        }
        let mut views = Vec::new();
        let parts = x
            .iter()
            .map(|x| x.slice(s![.., .., ..;-1]))
            .collect::<Result<Vec<_>>>()?;
        for (k, (x, out)) in parts.iter().zip(&mut out).enumerate() {
            views.push(match k {
                3 => x.expr().abs().defer_into(out)?,
                _ => (x.expr() + expr::index(x.raw_dim(), 2).cast::<f32>()).defer_into(out)?,
            });
        }
        expr::run_all(views)
    });
    assert!(blocks > 0);
}

/// Sums of rows that a few threads have, a block in registers, a block in a loop, or several blocks, whose numbers others combine:
/// all that is of one kind by one launch.
#[test]
fn many_reductions_together() {
    let lengths = [
        1, 8, 300, 301, 1024, 4096, 4100, 9000, 9001, 16_384, 40_000, 65_536, 66_000, 70_001, 3, 512, 66_004,
    ];
    let blocks = twice(|stream| {
        let x = lengths.map(|len| numbers(stream, [1, 1, len]).expect("numbers"));
        let sums: Vec<_> = x.iter().map(|x| x.expr().square().sum()).collect();
        let alone: Vec<_> = sums.iter().map(Expr::eval).collect::<Result<_>>()?;
        let numbers = DeviceArray::<f32, ndarray::Ix1>::zeros(stream, sums.len())?;
        let out: Vec<_> = numbers.axis_iter(Axis(0))?.collect();
        let mut under_way: Vec<_> = sums
            .iter()
            .zip(&out)
            .map(|(sum, out)| {
                (
                    Course::new(&[sum.part.as_ref().expect("a sum")]),
                    vec![Elements::first_address(out)],
                )
            })
            .collect();
        let mut kept = Vec::new();
        let mut kinds = Vec::new();
        while !under_way.is_empty() {
            let (mut works, mut left) = (Vec::new(), Vec::new());
            for (mut course, outputs) in under_way {
                let (mut lowered, addresses) = match course.next(stream, &outputs)? {
                    Next::Last(lowered) => (lowered, outputs),
                    Next::Ahead(lowered, numbers) => {
                        let addresses = numbers.iter().map(|array| array.first_address()).collect();
                        kept.extend(numbers);
                        left.push((course, outputs));
                        (lowered, addresses)
                    }
                    Next::Long(_) => panic!("a kernel has room for a sum"),
                };
                // As where the cache is larger than in tests.
                lowered.program.either_way = false;
                assert!(can_be_together(&lowered.program, &lowered.lengths));
                works.push((*lowered, addresses));
            }
            let works: Vec<_> = works.iter().collect();
            kinds.push(by_program(&works).len());
            // SAFETY: arrays of the stream's, each of which one of these writes.
            unsafe { launch_all(stream, &works)? };
            under_way = left;
        }
        // With vectors and without: of one number, by 1, 32, 64, 128, 256, 512 and 1024 threads, and in parts; then the parts' numbers.
        assert_eq!(kinds, [13, 1]);
        for (out, alone) in out.iter().zip(&alone) {
            let (out, alone) = (out.to_ndarray()?.into_scalar(), alone.to_ndarray()?.into_scalar());
            assert_eq!(out.to_bits(), alone.to_bits());
        }
        Ok(())
    });
    assert!(blocks > 0);
}

/// Of several rows each; what follows from a row's numbers for its elements; and reductions of reductions.
#[test]
fn rows_of_many_arrays_together() {
    let blocks = twice(|stream| {
        let rows = [3, 5].map(|rows| numbers(stream, [1, rows, 40]).expect("numbers"));
        let mut means = [3, 5].map(|rows| DeviceArray::<f32, ndarray::Ix2>::zeros(stream, (1, rows)).expect("zeros"));
        let several = rows.iter().zip(&mut means);
        let several = several.map(|(x, out)| x.expr().mean_axis(Axis(2)).defer_into(out));
        expr::run_all(several.collect::<Result<Vec<_>>>()?)?;
        let mut normed = rows
            .each_ref()
            .map(|x| DeviceArray::<f32, Ix3>::zeros(stream, x.raw_dim()).expect("zeros"));
        let several = rows.iter().zip(&mut normed);
        let several = several.map(|(x, out)| x.expr().softmax(Axis(2)).defer_into(out));
        expr::run_all(several.collect::<Result<Vec<_>>>()?)?;
        for (x, (mean, normed)) in rows.iter().zip(means.iter().zip(&normed)) {
            assert_eq!(mean.to_ndarray()?, x.expr().mean_axis(Axis(2)).eval()?.to_ndarray()?);
            assert_eq!(normed.to_ndarray()?, x.expr().softmax(Axis(2)).eval()?.to_ndarray()?);
        }
        let mut spread = DeviceArray::<f32, Ix0>::zeros(stream, ())?;
        let mut largest = DeviceArray::<f32, Ix0>::zeros(stream, ())?;
        expr::run_all([
            rows[0].expr().sum_axis(Axis(1)).variance(0).defer_into(&mut spread)?,
            rows[1].expr().max().defer_into(&mut largest)?,
        ])?;
        let alone = rows[0].expr().sum_axis(Axis(1)).variance(0).eval()?;
        assert_eq!(spread.to_ndarray()?, alone.to_ndarray()?);
        assert_eq!(largest.to_ndarray()?, rows[1].expr().max().eval()?.to_ndarray()?);
        Ok(())
    });
    assert!(blocks > 0);
}
