// SPDX-License-Identifier: MIT OR Apache-2.0
//! Element by element: functions of one operand and of two, comparisons, selections, casts.

use ndarray::Ix2;
use warpsmith::ops::{CastTo, Number, Real};
use warpsmith::{DeviceArray, F8E4M3, F8E5M2, bf16, f16};

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
    run.keep(x.clamp(T::of(1), T::of(3)));
    let mut y = run.array::<T, _>(x.len());
    let result = y.axpy(T::of(2), &x);
    run.keep_changed(y, result);
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

/// A matrix, another of its shape, and a row.
fn operands<T: Value>(run: &mut Run) -> [DeviceArray<T, Ix2>; 3] {
    let (rows, columns) = (run.len(9), run.len(300));
    [(rows, columns), (rows, columns), (1, columns)].map(|shape| run.array(shape))
}

/// Operations of two arrays, of an array and a row, and, by the second name, of an array and a number.
macro_rules! operations {
    ($run:ident, [$a:ident, $b:ident, $row:ident], $type:ty: $($arrays:ident $number:ident)*) => {$(
        $run.keep($a.$arrays(&$b));
        $run.keep($a.$arrays(&$row));
        $run.keep($a.$number(<$type>::of(2)));
    )*};
}

pub(super) fn two_operands(run: &mut Run) {
    each_type!(run, arithmetic: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
}

fn arithmetic<T: Value + Number>(run: &mut Run) {
    let [a, b, row] = operands::<T>(run);
    operations! {
        run, [a, b, row], T:
        add add_scalar sub sub_scalar mul mul_scalar div div_scalar
        minimum minimum_scalar maximum maximum_scalar pow pow_scalar
    }
    run.keep(a.scalar_sub(T::of(3)));
    run.keep(a.scalar_div(T::of(3)));
    run.keep(a.scalar_pow(T::of(3)));
}

pub(super) fn comparisons(run: &mut Run) {
    each_type!(run, compare: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
}

fn compare<T: Value + Number>(run: &mut Run) {
    let [a, b, row] = operands::<T>(run);
    operations! {
        run, [a, b, row], T:
        equal equal_scalar not_equal not_equal_scalar less less_scalar
        less_equal less_equal_scalar greater greater_scalar greater_equal greater_equal_scalar
    }
    let mask = run.ok(a.less(&b));
    run.keep(mask.select(&a, &b));
    run.keep(mask.select(&row, &b));
}

pub(super) fn casts(run: &mut Run) {
    each_type!(run, from_number: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
    macro_rules! casts {
        ($($from:ident $to:ident;)*) => {
            $(cast::<$from, $to>(run);)*
        };
    }
    casts! {
        f32 F8E4M3; f16 F8E4M3; bf16 F8E4M3; f32 F8E5M2; f16 F8E5M2; bf16 F8E5M2;
        F8E4M3 f32; F8E4M3 f16; F8E4M3 bf16; F8E5M2 f32; F8E5M2 f16; F8E5M2 bf16;
        f32 i8; i32 i8; i8 f32; i8 i32;
    }
}

fn from_number<T>(run: &mut Run)
where
    T: Value
        + CastTo<f32>
        + CastTo<f64>
        + CastTo<f16>
        + CastTo<bf16>
        + CastTo<i32>
        + CastTo<i64>
        + CastTo<u8>
        + CastTo<u16>
        + CastTo<u32>
        + CastTo<u64>,
{
    macro_rules! casts {
        ($($to:ident)*) => {
            $(cast::<T, $to>(run);)*
        };
    }
    casts!(f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
}

fn cast<T: Value + CastTo<U>, U: Value>(run: &mut Run) {
    let x = run.vector::<T>(1000);
    run.keep(x.cast::<U>());
    run.keep(x.cast_saturating::<U>());
    run.keep(x.cast_wrapping::<U>());
}
