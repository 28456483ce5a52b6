// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operands and scores that are no numbers, or large.

use super::*;

/// One element of an operand is another number; which results of query 2 of 17 are to be what they are without it, and what the
/// others are.
#[track_caller]
fn with_special<T: Attend + FloatNumber>(operand: usize, value: f64, wanted: impl Fn(f64) -> bool) {
    let case = case(17, 140, 64);
    let mut operands = case.operands::<T>();
    let usual = case.run(&devices::<T>()[0], &operands).0;
    let line = if operand == 0 { 2 } else { 100 };
    operands[operand][[0, 0, line, 7]] = T::of(value);
    for device in all_devices::<T>() {
        let (out, _) = case.run(&device, &operands);
        for ((at, &got), &usual) in out.indexed_iter().zip(&usual) {
            let (row, column) = (at.2, at.3);
            let concerned = match operand {
                0 => row == 2,
                1 => true,
                _ => column == 7,
            };
            match concerned {
                true => assert!(wanted(got.wide()), "{at:?}: {got:?}"),
                false => assert!((got.wide() - usual.wide()).abs() < 0.02, "{at:?}: {got:?}, {usual:?}"),
            }
        }
    }
}

#[test]
fn nan_stays_where_it_belongs() {
    for operand in 0..3 {
        with_special::<f32>(operand, f64::NAN, f64::is_nan);
        with_special::<bf16>(operand, f64::NAN, f64::is_nan);
    }
}

/// Scores of +∞ are no number in a softmax; those of −∞ are as if there were no such key.
#[test]
fn infinities() {
    with_special::<f32>(2, f64::INFINITY, |x| x == f64::INFINITY);
    with_special::<bf16>(2, f64::NEG_INFINITY, |x| x == f64::NEG_INFINITY);
    let hidden = |keys: [usize; 2]| {
        let case = case(17, 300, 64);
        let mut operands = case.operands::<bf16>();
        operands[0].fill(bf16::ONE);
        for key in keys[0]..keys[1] {
            operands[1][[0, 0, key, 5]] = bf16::NEG_INFINITY;
        }
        let left: Vec<usize> = (0..300).filter(|key| !(keys[0]..keys[1]).contains(key)).collect();
        let [q, k, v] = &operands;
        let others = Case {
            keys: left.len(),
            ..case
        };
        let others_operands = [q.clone(), k.select(Axis(2), &left), v.select(Axis(2), &left)];
        for device in all_devices::<bf16>() {
            let (out, log_sums) = case.run(&device, &operands);
            others.compare(&others_operands, &out, &log_sums);
        }
    };
    // Whole tiles first, last, and in between, and all.
    for keys in [[0, 128], [256, 300], [100, 270], [0, 300]] {
        hidden(keys);
    }
}

/// Finite scores, of which the exponents are not, leave no number, and not a query that sees nothing.
#[test]
fn exponents_beyond_numbers_on_tensor_cores() {
    let case = Case {
        scale: Some(1e38),
        ..case(17, 200, 64)
    };
    let mut operands = case.operands::<bf16>();
    operands[0].fill(bf16::ONE);
    operands[1].fill(bf16::ONE);
    for device in all_devices::<bf16>() {
        if device.properties().tensor_cores >= Some((8, 0)) {
            let (out, log_sums) = case.run(&device, &operands);
            assert!(out.iter().all(|x| x.is_nan()) && log_sums.iter().all(|x| x.is_nan()));
        }
    }
}

/// Scores that grow from tile to tile, and fall, by more than a weight has room for, and than a number has; and that grow within each tile, and again
/// towards the first ones, which are the last to come.
#[test]
fn large_scores() {
    fn check<T: Attend + FloatNumber>(dim: usize) {
        let within_and_among = |key: f64| key % 128.0 * 0.05 - (key / 128.0).floor() * 8.0;
        for of_key in [|key| key * 0.05, |key| key * -0.05, within_and_among] {
            let case = case(17, 400, dim);
            let mut operands = case.operands::<T>();
            let mut keys = operands[1].slice_mut(s![0, 0, .., ..]);
            for (key, mut line) in keys.rows_mut().into_iter().enumerate() {
                line.mapv_inplace(|x| T::of(x.wide() * 0.01 + of_key(key as f64)));
            }
            operands[0].fill(T::of(2.0));
            for device in all_devices::<T>() {
                let (out, log_sums) = case.run(&device, &operands);
                case.compare(&operands, &out, &log_sums);
            }
        }
    }
    check::<f16>(64);
    check::<bf16>(128);
}

/// One score that is greater than all others, by more than a weight has room for, or a number: whichever way its power is computed.
#[test]
fn single_large_scores() {
    // At every place of a lane's scores, and at some.
    for (great, dim, step) in [
        (8.0, 64, 5),
        (60.0, 64, 1),
        (200.0, 64, 5),
        (20.0, 128, 1),
        (200.0, 128, 5),
    ] {
        for key in (0..33).step_by(step).chain([127, 129, 134, 255]) {
            let case = case(17, 300, dim);
            let mut operands = case.operands::<bf16>();
            operands[1].mapv_inplace(|x| bf16::of(x.wide() * 0.01));
            operands[0].fill(bf16::ONE);
            // All of a line, so that the score is this many times ln 2, about.
            let of_element = great / (dim as f64).sqrt();
            operands[1].slice_mut(s![0, 0, key, ..]).fill(bf16::of(of_element));
            for device in &all_devices::<bf16>()[1..] {
                case.check_on(device, &operands);
            }
        }
    }
}

/// As above, of queries that do not see the first keys to come, and of a single warp whose scores are beyond numbers.
#[test]
fn large_scores_of_some_queries() {
    fn check<T: Attend + FloatNumber>(dim: usize, of_key: impl Fn(f64) -> f64) {
        // Without more keys than queries the last tile has keys that no query of the first warps sees.
        let case = case(100, 420, dim).causal();
        let mut operands = case.operands::<T>();
        for (key, mut line) in operands[1]
            .slice_mut(s![0, 0, .., ..])
            .rows_mut()
            .into_iter()
            .enumerate()
        {
            line.mapv_inplace(|x| T::of(x.wide() * 0.01 + of_key(key as f64)));
        }
        for (query, mut line) in operands[0]
            .slice_mut(s![0, 0, .., ..])
            .rows_mut()
            .into_iter()
            .enumerate()
        {
            line.fill(T::of(if (16..32).contains(&query) { 2.0 } else { 0.03 }));
        }
        for device in &all_devices::<T>()[1..] {
            case.check_on(device, &operands);
        }
    }
    for dim in [64, 128] {
        check::<bf16>(dim, |key| key * -0.05);
        check::<f16>(dim, |key| (key / 128.0).floor() * -8.0);
    }
}
