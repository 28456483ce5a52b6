// SPDX-License-Identifier: MIT OR Apache-2.0
//! Element by element: functions of one operand and of two, selections.

use warpsmith::ops::{Number, Real};
use warpsmith::{DeviceArray, bf16, f16};

use super::{Run, Value, each_type};

/// Elements of these are up to two blocks' for the widest types.
const MOST: usize = 3000;

pub(super) fn maps(run: &mut Run) {
    each_type!(run, of_numbers: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
    each_type!(run, of_floats: f32 f64 f16 bf16);
}

fn of_numbers<T: Value + Number>(run: &mut Run) {
    let x = run.vector::<T>(MOST);
    run.keep(x.neg());
    run.keep(x.abs());
    run.keep(x.square());
    run.keep(x.relu());
    let end = run.len(200) as u8;
    run.keep(DeviceArray::range(run.stream(), T::of(0), T::of(end), T::of(1)));
    let len = run.len(MOST);
    run.keep(DeviceArray::from_elem(run.stream(), len, T::of(3)));
}

fn of_floats<T: Value + Real>(run: &mut Run) {
    let x = run.vector::<T>(MOST);
    run.keep(x.sqrt());
    run.keep(x.exp());
    run.keep(x.ln());
    run.keep(x.sin());
    run.keep(x.cos());
    run.keep(x.tanh());
    run.keep(x.sigmoid());
}

pub(super) fn two_operands(run: &mut Run) {
    each_type!(run, of_two: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
}

fn of_two<T: Value + Number>(run: &mut Run) {
    let len = run.len(MOST);
    let (a, b, mask) = (run.array::<T, _>(len), run.array::<T, _>(len), run.array::<u8, _>(len));
    run.keep(a.add(&b));
    run.keep(a.sub(&b));
    run.keep(a.mul(&b));
    run.keep(a.div(&b));
    run.keep(a.minimum(&b));
    run.keep(a.maximum(&b));
    run.keep(a.pow(&b));
    run.keep(mask.select(&a, &b));
}
