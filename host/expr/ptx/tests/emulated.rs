// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels of expressions, run by the tests' machine on the simulated GPU's memory: they give the bits that the simulated GPU
//! gives.

use std::cell::RefCell;

use ndarray::{Array, Axis, Ix0, Ix3, s};
use test_reference::emulator::{Emulator, ProcessMemory};

use super::functions::{callees, native};
use super::reading::read_again;
use crate::expr::kernel::pieces;
use crate::expr::program::lower::Lowered;
use crate::expr::program::{Form, Program};
use crate::expr::ptx::begin_with_last;
use crate::expr::ptx::halves::Operation;
use crate::expr::ptx::kernel::{Newer, entry};
use crate::expr::{self, Expr};
use crate::{Device, DeviceArray, Generator, Result, Stream};

thread_local! {
    /// The blocks that were run while a test wants it.
    static RUN: RefCell<Option<usize>> = const { RefCell::new(None) };
    /// The programs that were to be run while a test wants them.
    static PROGRAMS: RefCell<Option<Vec<Program>>> = const { RefCell::new(None) };
}

/// The memory of kernels that tests run.
pub(super) fn host() -> ProcessMemory {
    // SAFETY: kernels load elements of the arrays that they are given and store those of their outputs, and tests read and write
    // these. The simulated GPU has done with them.
    unsafe { ProcessMemory::new() }
}

/// Where a test wants programs, takes this one in place of its run.
pub(in crate::expr) fn is_recorded(program: &Program) -> bool {
    PROGRAMS.with_borrow_mut(|programs| {
        programs
            .as_mut()
            .map(|programs| programs.push(program.clone()))
            .is_some()
    })
}

/// Where a test wants it, computes the outputs once more by the kernel's text: they have the same bits.
pub(in crate::expr) fn run_again(lowered: &Lowered<'_>, outputs: &[u64]) {
    if !is_run() {
        return;
    }
    let program = &lowered.program;
    let callees = callees(program);
    let elements = |output: usize| {
        let axes = match &program.reduce {
            Some(reduce) if reduce.is_row[output] => {
                let axis = reduce.form.axis(lowered.lengths.len());
                lowered.lengths.iter().product::<usize>() / lowered.lengths[axis] * lowered.parts.0
            }
            _ => lowered.lengths.iter().product(),
        };
        axes * program.types[usize::from(program.outputs[output])].bytes()
    };
    let read = |output: usize| -> Vec<u8> {
        let mut bytes = vec![0; elements(output)];
        host().read(outputs[output], &mut bytes);
        bytes
    };
    let wanted: Vec<Vec<u8>> = (0..outputs.len()).map(read).collect();
    let mut blocks = 0;
    let cluster = 1 << program.reduce.as_ref().map_or(0, |reduce| reduce.blocks_log2);
    // What GPUs have for 16-bit floats is not the same.
    let mut all = [(7, 5), (9, 0)]
        .map(|capability| Newer::of(program, capability))
        .to_vec();
    all.dedup();
    let mut runs: Vec<_> = all.into_iter().map(|newer| (newer, false)).collect();
    if program.either_way {
        if let [alone] = &runs[..] {
            runs.push(alone.clone());
        }
        runs[1].1 = true;
    }
    for (newer, from_end) in runs {
        let text = entry(program, &callees, &newer).expect("a kernel");
        let native = native(&program.functions);
        let emulator = Emulator::new(&text, &native);
        for (output, bytes) in wanted.iter().enumerate() {
            let others: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            host().write(outputs[output], &others);
        }
        for piece in pieces(lowered, outputs) {
            let (mut block, config) = piece.launch(lowered);
            if from_end {
                begin_with_last(program, &mut block, &config);
            }
            for y in 0..config.grid.y {
                for x in (0..config.grid.x).step_by(cluster as usize) {
                    emulator.cluster((x, y), cluster, config.block.x, &block, &mut host());
                    blocks += cluster as usize;
                }
            }
        }
        // Which NaN it is that an operation gives is no device's promise; softmax has those of its differences.
        let has_exponentials = Operation::all(program, (9, 0))
            .iter()
            .flatten()
            .any(Operation::is_exponential);
        let of_numbers = |output: usize, bytes: &[u8]| -> Vec<u8> {
            let ty = program.types[usize::from(program.outputs[output])];
            if !has_exponentials || ty.bytes() != 4 {
                return bytes.to_vec();
            }
            let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
            let one_nan = |x: f32| if x.is_nan() { f32::NAN } else { x };
            bytes
                .chunks(4)
                .flat_map(|bytes| one_nan(number(bytes)).to_le_bytes())
                .collect()
        };
        for (output, wanted) in wanted.iter().enumerate() {
            let (got, wanted) = (of_numbers(output, &read(output)), of_numbers(output, wanted));
            assert_eq!(got, wanted, "output {output} of {program:?}\n{text}");
        }
        if program.reduce.is_none() && program.transposed.is_none() && wanted.len() == 1 {
            blocks += read_again(lowered, &callees, &newer.operations, &wanted[0], &mut host());
        }
    }
    count(blocks);
}

/// Whether a test wants kernels to be run.
pub(super) fn is_run() -> bool {
    RUN.with_borrow(Option::is_some)
}

/// So many blocks more were run.
pub(super) fn count(blocks: usize) {
    RUN.with_borrow_mut(|run| *run = run.map(|before| before + blocks));
}

/// Evaluates what `compute` makes, each kernel twice; gives the number of blocks.
pub(super) fn twice(compute: impl FnOnce(&Stream) -> Result<()>) -> usize {
    RUN.set(Some(0));
    let device = Device::simulator();
    compute(device.default_stream()).expect("it is computed");
    RUN.take().expect("a number")
}

/// The programs of what `compute` evaluates, which are not run: nothing is in its arrays.
pub(super) fn programs(compute: impl FnOnce(&Stream) -> Result<()>) -> Vec<Program> {
    PROGRAMS.set(Some(Vec::new()));
    let device = Device::simulator();
    compute(device.default_stream()).expect("it is computed");
    PROGRAMS.take().expect("programs")
}

/// Numbers whose order shows in their sums.
pub(super) fn numbers(stream: &Stream, shape: [usize; 3]) -> Result<DeviceArray<f32, ndarray::Ix3>> {
    let [a, b, c] = shape.map(|len| len as u64);
    let place = |axis| expr::index((a as usize, b as usize, c as usize), axis);
    let number = (place(0) * b + place(1)) * c + place(2);
    ((number.cast::<f32>() * 0.7).sin() * 1.5).eval_on(stream)
}

pub(super) fn softmax<'a>(x: &Expr<'a, f32, ndarray::Ix3>, axis: usize) -> Expr<'a, f32, ndarray::Ix3> {
    let axis = Axis(axis);
    let e = (x - x.max_axis(axis).insert_axis(axis)).exp();
    &e / e.sum_axis(axis).insert_axis(axis)
}

#[test]
fn reductions_along_each_axis_of_views() {
    for shape in [[2, 3, 5], [3, 20, 33], [1, 64, 132]] {
        let blocks = twice(|stream| {
            let x = numbers(stream, shape)?;
            let turned = x.view().permuted_axes([2, 1, 0])?;
            let part = x.slice(s![.., .., 1..])?;
            let step = x.slice(s![..;-1, .., ..;2])?;
            for axis in [0, 1, 2].map(Axis) {
                x.expr().sum_axis(axis).eval()?;
                (turned.expr() * 2.0).sum_axis(axis).eval()?;
                (part.expr().max_axis(axis) - part.expr().min_axis(axis)).eval()?;
                step.expr().cast::<f64>().mean_axis(axis).eval()?;
                x.expr().argmax_axis(axis).eval()?;
                turned.expr().cast::<crate::f16>().sum_axis(axis).eval()?;
                x.expr().less(0.3).count_axis(axis).eval()?;
                softmax(&x.expr(), axis.0).eval()?;
                part.expr().variance_axis(axis, 0).eval()?;
            }
            x.expr().sum_axes(&[0, 2]).eval()?;
            turned.expr().sum().eval()?;
            Ok(())
        });
        assert!(blocks > 30, "{blocks}");
    }
}

#[test]
fn rows_by_warps_by_blocks_in_loops_and_in_parts() {
    for (rows, len) in [
        (3, 1),
        (9, 7),
        (70, 16),
        (3, 200),
        (2, 515),
        (2, 1024),
        (1, 4097),
        (1, 17_001),
        (1, 32_768),
        (1, 33_000),
        (1, 40_960),
        (130, 4100),
    ] {
        let blocks = twice(|stream| {
            let x = numbers(stream, [1, rows, len])?;
            x.expr().square().sum_axis(Axis(2)).eval()?;
            if rows < 100 {
                softmax(&x.expr(), 2).eval()?;
                x.expr().log_sum_exp_axis(Axis(2)).eval()?;
                // What numbers of both signs are summed to tells the order of all additions.
                (&x - x.expr().mean_axis(Axis(2)).insert_axis(Axis(2))).eval()?;
                let y = x.expr().cast::<f64>();
                (&y - y.mean_axis(Axis(2)).insert_axis(Axis(2))).eval()?;
                // The weights are read behind the reductions.
                let (weight, bias) = (x.slice(s![..1, ..1, ..])?, x.slice(s![..1, rows - 1.., ..])?);
                x.expr().layer_norm(&[2], &weight, &bias, 1e-5).eval()?;
            }
            Ok(())
        });
        assert!(blocks > 1, "{blocks}");
    }
    let blocks = twice(|stream| {
        let long = numbers(stream, [1, 1, 70_001])?;
        (long.expr() - long.expr().mean()).square().sum().eval()?;
        long.expr().log_sum_exp().eval()?;
        let columns = numbers(stream, [1, 3000, 40])?;
        let (sum, place) = (columns.expr().sum_axis(Axis(1)), columns.expr().argmin_axis(Axis(1)));
        expr::eval((&sum, &place))?;
        Ok(())
    });
    assert!(blocks > 20, "{blocks}");
}

/// The kernels without reductions, too.
#[test]
fn elements_of_views() {
    let blocks = twice(|stream| {
        let x = numbers(stream, [7, 13, 50])?;
        let turned = numbers(stream, [50, 13, 7])?;
        let turned = turned.view().permuted_axes([2, 1, 0])?;
        (&x + &turned).eval()?;
        let mut out = DeviceArray::<f32, _>::zeros(stream, 101)?;
        // Vectors that begin beside a multiple of their size.
        let row = numbers(stream, [1, 1, 100])?;
        let row = row.index_axis(Axis(0), 0)?.index_axis(Axis(0), 0)?.to_array()?;
        (&row * 2.0).eval_into(&mut out.slice_mut(s![1..])?)?;
        Ok(())
    });
    assert!(blocks > 10, "{blocks}");
}

/// Turned arrays, of one matrix and of several, beside arrays in rows and ones that lie otherwise, and more of them than there is
/// shared memory for.
pub(super) fn turned_arrays(stream: &Stream, [many, rows, columns]: [usize; 3]) -> Result<()> {
    let of_columns = || numbers(stream, [many, columns, rows]);
    let turned = [0, 2, 1];
    let (x, all) = (numbers(stream, [many, rows, columns])?, of_columns()?);
    let y = all.view().permuted_axes(turned)?;
    (&x + &y).eval()?;
    // Alone, reversed, and between vectors.
    (y.expr() * 2.0).eval()?;
    (&x - &y.slice(s![..;-1, .., ..;-1])?).eval()?;
    let wide = numbers(stream, [many, columns, rows + 4])?;
    let part = |begin: usize| wide.slice(s![.., .., begin..begin + rows])?.permuted_axes(turned);
    (&x + &part(4)?).eval()?;
    (&x + &part(1)?).eval()?;
    let integers = y.expr().cast::<i32>().eval()?;
    let other = of_columns()?.expr().cast::<i32>().eval()?;
    (integers.expr() + &*other.view().permuted_axes(turned)?)
        .cast::<f32>()
        .eval()?;
    let row = x.slice(s![.., ..1, ..])?;
    let place = expr::index((many, rows, columns), 1).cast::<f32>();
    expr::eval((&(&x * &y + &row), &(y.expr() + place)))?;
    // As many calls as there are for such.
    let long = (0..4).fold(y.expr(), |sum, _| (sum.sin() + &x).exp().tanh());
    long.eval()?;
    let others: Vec<_> = (0..5).map(|_| of_columns()).collect::<Result<_>>()?;
    let others: Vec<_> = others
        .iter()
        .map(|other| other.view().permuted_axes(turned))
        .collect::<Result<_>>()?;
    others.iter().fold(x.expr(), |sum, other| sum + other.expr()).eval()?;
    Ok(())
}

/// Threads load vectors for each other where tiles are whole.
#[test]
fn tiles_of_turned_arrays() {
    for shape in [[1, 64, 64], [1, 128, 192], [2, 64, 128]] {
        let blocks = twice(|stream| turned_arrays(stream, shape));
        assert!(blocks > 10, "{blocks}");
    }
}

/// Of a long array whose elements take many calls: whole vectors or not, blocks of which some threads have one, or none.
#[test]
fn two_vectors_of_a_thread() {
    for len in [4, 800, 1023, 1028, 1030, 2048, 2052, 4096 + 1200, 5001] {
        let blocks = twice(|stream| {
            let x = numbers(stream, [1, 1, len])?;
            let x = x.index_axis(Axis(0), 0)?.index_axis(Axis(0), 0)?.to_array()?;
            let y = ((x.expr().sin() * 1.5 + 0.5).exp() - 1.0).abs();
            ((y + 1.0).sqrt().ln() * 0.25 + &x).tanh().eval()?;
            Ok(())
        });
        assert!(blocks > 1, "{blocks}");
    }
}

/// Of a long array of 16-bit floats, in full blocks.
#[test]
fn two_vectors_of_halves() {
    for len in [8192, 3 * 4096, 8200] {
        let blocks = twice(|stream| {
            let numbers = narrow_numbers(0x9e37_79b9, len, crate::f16::from_bits, crate::f16::is_finite);
            let x = DeviceArray::from_ndarray(stream, &ndarray::Array1::from_vec(numbers))?;
            let y = x.expr().tanh() * crate::f16::from_f32(2.0) + crate::f16::ONE;
            y.eval()?;
            y.fast_math().eval()?;
            Ok(())
        });
        assert!(blocks > 3, "{blocks}");
    }
}

/// Arrays that are several times the cache: along one axis with a rest and without, in rows beside a row that is repeated, and rows
/// that are combined. What is read alone, or lies otherwise, is not streamed.
fn streamed_arrays(stream: &Stream) -> Result<()> {
    for shape in [[1, 1, 8192], [1, 1, 20_001], [3, 50, 132], [1, 9, 2000], [1, 100, 300]] {
        let (x, y) = (numbers(stream, shape)?, numbers(stream, shape)?);
        let row = y.slice(s![..1, ..1, ..])?;
        (&x * &row + &y).eval()?;
        softmax(&x.expr(), 2).eval()?;
        (x.expr().cast::<crate::f16>() * crate::f16::ONE).eval()?;
    }
    let x = numbers(stream, [1, 200, 200])?;
    x.expr().sum().eval()?;
    (x.view().permuted_axes([0, 2, 1])?.expr() * 2.0).eval()?;
    Ok(())
}

#[test]
fn streams_are_what_is_several_times_the_cache() {
    assert!(twice(streamed_arrays) > 10);
    let streams: Vec<usize> = programs(streamed_arrays)
        .iter()
        .map(|program| program.streamed.len())
        .collect();
    // Of each shape what makes its numbers, twice, and three results.
    let wanted = [0, 0, 2, 1, 1].repeat(5);
    assert_eq!(streams, [&wanted[..], &[0, 0, 0]].concat());
}

fn sum_of(arrays: &[DeviceArray<f32, Ix3>]) -> Expr<'_, f32, Ix3> {
    arrays.iter().skip(1).fold(arrays[0].expr(), |sum, x| sum + x)
}

/// As many arrays as are read by words: in full blocks and not, beside a row, from an element between vectors on, and of
/// what other sizes are with them, or fewer.
fn many_arrays(stream: &Stream) -> Result<()> {
    for shape in [[1, 1, 2048], [1, 1, 2049], [1, 5, 1000]] {
        let arrays = (0..6).map(|_| numbers(stream, shape)).collect::<Result<Vec<_>>>()?;
        sum_of(&arrays).eval()?;
        (sum_of(&arrays) * &arrays[0].slice(s![.., ..1, ..])?).eval()?;
        let parts = arrays.iter().map(|array| array.slice(s![.., .., 1..]));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        (parts.iter().skip(1))
            .fold(parts[0].expr(), |sum, x| sum + x.expr())
            .eval()?;
        sum_of(&arrays).cast::<crate::f16>().eval()?;
        sum_of(&arrays[2..]).eval()?;
    }
    Ok(())
}

#[test]
fn many_arrays_are_read_by_words() {
    assert!(twice(many_arrays) > 10);
    let programs = programs(many_arrays);
    // Of each shape what makes its numbers, six times, and five results, of which the rows' parts are not dense.
    let by_words: Vec<bool> = programs.iter().map(|program| program.by_words).collect();
    let of_shape = |parts: bool| [&[false; 6][..], &[true, true, parts, false, false]].concat();
    assert_eq!(by_words, [of_shape(true), of_shape(true), of_shape(false)].concat());
}

/// Rows side by side by the largest blocks, in parts that are whole and not, and by vectors and not; and by others where there are
/// several numbers.
fn large_columns(stream: &Stream) -> Result<()> {
    for shape in [[1, 2048, 40], [1, 3001, 40], [2, 1000, 130]] {
        let x = numbers(stream, shape)?;
        x.expr().sum_axis(Axis(1)).eval()?;
        x.slice(s![.., .., 1..])?.expr().square().sum_axis(Axis(1)).eval()?;
        x.expr().cast::<f64>().sum_axis(Axis(1)).eval()?;
        x.expr().argmin_axis(Axis(1)).eval()?;
    }
    Ok(())
}

#[test]
fn columns_of_large_arrays() {
    assert!(twice(large_columns) > 10);
    let is_large = |program: &&Program| {
        let form = program.reduce.as_ref().map(|reduce| reduce.form);
        form.is_some_and(Form::has_large_columns)
    };
    assert_eq!(programs(large_columns).iter().filter(is_large).count(), 9);
}

/// Exponentials of a thread's elements go the general way together: where none is large, where one is, and of rows.
#[test]
fn exponentials_of_numbers_of_any_size() {
    let large = [
        87.0,
        -87.0,
        87.1,
        -87.4,
        88.8,
        -104.1,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    for len in [1, 7, 36, 1024, 1027] {
        let blocks = twice(|stream| {
            for is_usual in [true, false] {
                let number = |k: usize| match k % 7 {
                    0 if !is_usual => large[k / 7 % large.len()],
                    _ => k as f32 * 0.01 - 4.0,
                };
                let numbers = Array::from_shape_fn((3, len), |(row, k)| number(row * len + k));
                let x = DeviceArray::from_ndarray(stream, &numbers)?;
                x.expr().exp().eval()?;
                (x.expr().exp() * 2.0).sum_axis(Axis(1)).eval()?;
                x.slice(s![.., len / 2..])?.expr().exp().eval()?;
            }
            Ok(())
        });
        assert!(blocks > 5, "{blocks}");
    }
}

/// Blocks that are full, which have no bounds, beside rows, and those of a vector more or less.
#[test]
fn blocks_of_whole_vectors() {
    for shape in [
        [1, 1, 1024],
        [1, 1, 8192],
        [2, 3, 1024],
        [1, 5, 2048],
        [3, 1, 1020],
        [1, 2, 1028],
    ] {
        let blocks = twice(|stream| {
            let x = numbers(stream, shape)?;
            let row = x.slice(s![..1, ..1, ..])?;
            let column = x.slice(s![.., .., ..1])?;
            (&x * 2.0).eval()?;
            (&x * &row + &column).eval()?;
            // Rows that lie apart, and from the last one on.
            let apart = numbers(stream, [2 * shape[0], shape[1], shape[2] + 4])?;
            (apart.slice(s![..;-2, .., 4..])?.expr() - &x).eval()?;
            let place = |axis| expr::index((shape[0], shape[1], shape[2]), axis);
            let number = (place(0) * 7 + place(1)) * 5000 + place(2);
            expr::eval((&number, &(number.cast::<u8>() + x.expr().less(0.3).cast::<u8>())))?;
            x.expr().cast::<f64>().eval()?;
            x.expr().cast::<crate::f16>().eval()?;
            Generator::new(5).uniform_expr(shape, 0.0f32..1.0).eval_on(stream)?;
            Ok(())
        });
        assert!(blocks > 10, "{blocks}");
    }
}

/// Elements, beside arrays, and reductions in every form, of numbers that are read nowhere.
pub(super) fn random_numbers(stream: &Stream) -> Result<()> {
    let mut random = Generator::new(7).with_sequence(3);
    for shape in [
        [1, 1, 1],
        [1, 1, 1000],
        [1, 1, 1003],
        [3, 5, 7],
        [2, 40, 16],
        [1, 3, 5000],
    ] {
        let unit = random.uniform_expr(shape, 0.0f32..1.0);
        let wide = random.normal_expr::<f64, _>(shape, 1.0, 2.0);
        let dice = random.integers_expr(shape, 1..=6i32);
        unit.eval_on(stream)?;
        wide.eval_on(stream)?;
        random.standard_normal_expr::<f32, _>(shape).eval_on(stream)?;
        random.bernoulli_expr(shape, 0.5).eval_on(stream)?;
        (&numbers(stream, shape)? * &dice).eval()?;
        for axis in [0, 1, 2].map(Axis) {
            dice.sum_axis(axis).eval_on(stream)?;
            wide.variance_axis(axis, 0).eval_on(stream)?;
            (&unit - unit.max_axis(axis).insert_axis(axis)).eval_on(stream)?;
        }
        let inside = (unit.square() + wide.square()).less(1.0);
        inside.count().eval_on(stream)?;
    }
    let many = random.integers_expr::<u64, _>(70_001, ..1000);
    many.sum().eval_on(stream)?;
    Ok(())
}

#[test]
fn kernels_that_read_nothing() {
    let blocks = twice(random_numbers);
    assert!(blocks > 100, "{blocks}");
}

/// Of every exponent, subnormal numbers too; sums and products round in every way, and overflow.
fn narrow_numbers<T: Copy>(seed: u32, count: usize, of: fn(u16) -> T, is_finite: fn(T) -> bool) -> Vec<T> {
    let bits = (1u32..).map(|k| (k.wrapping_mul(seed) >> 7) as u16);
    bits.map(of).filter(|&number| is_finite(number)).take(count).collect()
}

macro_rules! operations_of {
    ($ty:ident, $stream:expr, $shape:expr) => {{
        let count = $shape.iter().product();
        let numbers = |seed| narrow_numbers(seed, count, half::$ty::from_bits, half::$ty::is_finite);
        let array =
            |seed| DeviceArray::from_ndarray($stream, &Array::from_shape_vec($shape, numbers(seed)).expect("a shape"));
        let (x, y) = (array(0x9e37_79b9)?, array(0x85eb_ca6b)?);
        let one = half::$ty::ONE;
        expr::eval((&(&x + &y), &(&x - &y), &(&x * &y), &x.expr().square()))?;
        expr::eval((&(&x + one), &(one - y.expr()), &-x.expr()))?;
        (&x.slice(s![.., .., 1..])? * one).eval()?;
        // What is rounded once more, and what is not; widened numbers, and those of functions.
        (&x * &y * one + &x.expr().abs()).eval()?;
        let third = x.expr().cast::<f32>() * 0.333 + y.expr().cast::<f32>().clamp(-1.0, 1.0);
        expr::eval((&third.cast::<half::$ty>(), &third))?;
        x.expr().less(&y).select(x.expr(), &y * one).eval()?;
        (&x.expr().clamp(-one, one) * &y.expr().clamp(-one, one))
            .sum_axis(Axis(2))
            .eval()?;
        (&x.expr().clamp(-one, one) + &y.expr().clamp(-one, one))
            .max_axis(Axis(1))
            .eval()?;
    }};
}

pub(super) fn narrow_floats(stream: &Stream) -> Result<()> {
    for shape in [[1, 1, 2048], [3, 5, 7], [2, 3, 64]] {
        operations_of!(f16, stream, shape);
        operations_of!(bf16, stream, shape);
    }
    Ok(())
}

#[test]
fn operations_of_16_bit_floats() {
    let blocks = twice(narrow_floats);
    assert!(blocks > 100, "{blocks}");
}

/// Numerators and divisors of every kind, by one divisor for all elements and for each row.
#[test]
fn quotients_by_one_divisor() {
    let numbers = [
        0.0,
        1.0,
        3.0,
        1.0 / 3.0,
        1e-45,
        1e-38,
        7.888_609e-31,
        7.8886085e-31,
        1e30,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let numerators: Vec<f32> = numbers.into_iter().flat_map(|x| [x, -x]).collect();
    let divisors = numerators
        .iter()
        .copied()
        .chain([2.9802322e-8, 2.980232e-8, 67_108_860.0, 67_108_864.0, 41.0]);
    let blocks = twice(|stream| {
        let x = DeviceArray::from_ndarray(stream, &Array::from(numerators.clone()))?;
        // Threads whose numbers are all usual.
        let usual = (&x * 0.0).clamp(0.5, 0.75).eval()?;
        for divisor in divisors {
            (x.expr() / divisor).eval()?;
            (usual.expr() / divisor).eval()?;
            let row = DeviceArray::from_ndarray(stream, &Array::from(vec![divisor, 3.0]))?;
            (x.expr().insert_axis(Axis(0)) / row.expr().insert_axis(Axis(1))).eval()?;
        }
        Ok(())
    });
    assert!(blocks > 100, "{blocks}");
}

/// NaN and zeros of both signs, in rows by parts of warps and by blocks, and in columns.
#[test]
fn extremes_of_what_is_no_number() {
    let blocks = twice(|stream| {
        for shape in [[1, 1, 1], [1, 3, 7], [2, 1, 600], [1, 2, 1100], [2, 40, 17]] {
            let x = numbers(stream, shape)?;
            let place = x.expr().abs() * 100.0;
            let odd = place.greater(140.0).select(x.expr() * 0.0 + f32::NAN, &x);
            let zeros = (x.expr() * 0.0) * x.expr().less(0.2).select(x.expr() * 0.0 + 1.0, -(x.expr() * 0.0 + 1.0));
            for axis in [1, 2].map(Axis) {
                for x in [&odd, &-odd.clone(), &zeros] {
                    expr::eval((&x.max_axis(axis), &x.min_axis(axis)))?;
                }
                (&odd - odd.max_axis(axis).insert_axis(axis)).eval()?;
            }
        }
        Ok(())
    });
    assert!(blocks > 30, "{blocks}");
}

/// Differences down to those whose exponential is 0, with ±∞ and NaN in some of the rows.
#[test]
fn exponentials_of_differences() {
    let blocks = twice(|stream| {
        for (shape, axis) in [([2, 9, 7], 2), ([1, 6, 520], 2), ([1, 1, 5000], 2), ([2, 30, 17], 1)] {
            let x = (numbers(stream, shape)?.expr() * 60.0).eval()?;
            let replaced = |least: f32, by: f32| x.expr().greater(least).select(x.expr() * 0.0 + by, &x);
            for x in [
                x.expr() * 1.0,
                replaced(60.0, f32::NEG_INFINITY),
                replaced(-1e9, f32::NEG_INFINITY),
                replaced(89.9, f32::INFINITY),
                replaced(89.9, f32::NAN),
            ] {
                softmax(&x, axis).eval()?;
                (x.max_axis(Axis(axis)).insert_axis(Axis(axis)) - &x).exp().eval()?;
            }
        }
        Ok(())
    });
    assert!(blocks > 30, "{blocks}");
}

/// Softmax, norms, a loss, and their gradients: rows by parts of warps, by blocks, in loops, and columns.
pub(super) fn norms(stream: &Stream) -> Result<()> {
    for (shape, axis) in [([2, 3, 7], 2), ([1, 2, 520], 2), ([1, 1, 5000], 2), ([2, 30, 17], 1)] {
        let x = numbers(stream, shape)?;
        let row = x.slice(s![..1, ..1, ..])?;
        let weight = x.slice(s![.., ..1, ..1])?;
        let y = x.expr().softmax(Axis(axis));
        y.eval()?;
        y.softmax_backward(Axis(axis), &x).eval()?;
        x.expr().cast::<crate::bf16>().log_softmax(Axis(axis)).eval()?;
        x.expr().log_sum_exp_axis(Axis(axis)).eval()?;
        x.expr().layer_norm(&[axis], &row, 0.5, 1e-5).eval()?;
        let (dx, dweight, dbias) = x.expr().layer_norm_backward(&[axis], &weight, 1e-5, &x);
        dx.eval()?;
        expr::eval((&dweight, &dbias))?;
        x.expr().cast::<f64>().rms_norm(&[axis], 2.0, 1e-5).eval()?;
        let labels = x.expr().argmax_axis(Axis(axis)).cast::<i64>() - 1;
        x.expr().cross_entropy(Axis(axis), &labels).eval()?;
        x.expr().cross_entropy_backward(Axis(axis), &labels, 1.0).eval()?;
        x.expr().dropout(0.3, &mut Generator::new(1)).eval()?;
    }
    Ok(())
}

#[test]
fn norms_and_gradients() {
    let blocks = twice(norms);
    assert!(blocks > 100, "{blocks}");
}

/// Kernels and blocks of parameters of a trace, with other arrays and numbers.
#[test]
fn compiled_functions_of_other_arrays() {
    let blocks = twice(|stream| {
        let f = expr::compile(|(x, a): (Expr<f32, Ix3>, Expr<f32, Ix0>)| (softmax(&x, 2) * a).sum_axis(Axis(1)));
        for scale in [1.0, 3.0] {
            let x = (numbers(stream, [2, 20, 70])?.expr() * scale).eval()?;
            f.call((&x.slice(s![.., .., 1..])?, scale))?;
        }
        Ok(())
    });
    assert!(blocks > 8, "{blocks}");
}
