// SPDX-License-Identifier: MIT OR Apache-2.0
//! Casts from and to 8-bit floats and `i8`, whose own conversions cuda_std and Rust have tested; and what else arrays of them
//! can do: copies, views, transposes.

use crate::common::*;
use ndarray::{Array2, array};
use proptest::prelude::RngExt;
use warpsmith::ops::CastTo;
use warpsmith::{DeviceArray, Element, F8E4M3, F8E5M2, bf16, f16};

/// The bits of an 8-bit float, of which all NaN count as the same.
fn bits<T: Copy + Into<f32>>(x: T, bits: u8) -> u8 {
    if x.into().is_nan() { 0x7f } else { bits }
}

/// Numbers of every exponent, the middles between 8-bit floats and what is beside them, and what is not finite.
fn numbers() -> Vec<f32> {
    let middles = (0..=u8::MAX).flat_map(|code| {
        let beside = |x: f32| [x, x.next_up(), x.next_down(), x * 1.0625, x * 1.125, x * 1.25];
        [
            beside(F8E4M3::from_bits(code).to_f32()),
            beside(F8E5M2::from_bits(code).to_f32()),
        ]
        .concat()
    });
    let random = (0..3000).map(|i: u32| f32::from_bits(i.wrapping_mul(0x0029_7a4d)));
    middles
        .chain(random)
        .chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0])
        .collect()
}

macro_rules! float8_tests {
    ($($name:ident: $type:ident;)*) => {$(
        #[test]
        fn $name() {
            let all: Vec<$type> = (0..=u8::MAX).map($type::from_bits).collect();
            let x = upload_vec(&all);
            let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let (wide, half, brain) = (elements(&x.cast::<f32>().unwrap()), x.cast::<f16>().unwrap(), x.cast::<bf16>().unwrap());
            let (of_half, of_brain) = (elements(&half), elements(&brain));
            for (i, x) in all.iter().map(|x| x.to_f32()).enumerate() {
                assert!(same(wide[i], x) && same(of_half[i].to_f32(), x) && same(of_brain[i].to_f32(), x), "{x}");
            }
            // What they are of, they become again.
            for back in [half.cast::<$type>().unwrap(), brain.cast_saturating().unwrap(), upload_vec(&wide).cast_wrapping().unwrap()] {
                for (i, back) in elements(&back).into_iter().enumerate() {
                    let wanted = if all[i].is_finite() { all[i] } else { $type::from_f32(all[i].to_f32()) };
                    assert_eq!(bits(back, back.to_bits()), bits(wanted, wanted.to_bits()), "{:?}", all[i]);
                }
            }
            fn check<T: Element + Copy + CastTo<$type>>(x: Vec<T>, to_f32: fn(T) -> f32) {
                for (&x, got) in x.iter().zip(elements(&upload_vec(&x).cast::<$type>().unwrap())) {
                    let x = to_f32(x);
                    assert_eq!(got.to_bits(), $type::from_f32(x).to_bits(), "{x:e}");
                }
            }
            check(numbers(), |x| x);
            check(numbers().into_iter().map(f16::from_f32).collect(), f16::to_f32);
            check(numbers().into_iter().map(bf16::from_f32).collect(), bf16::to_f32);
        }
    )*};
}

float8_tests! {
    casts_of_e4m3: F8E4M3;
    casts_of_e5m2: F8E5M2;
}

#[test]
fn casts_of_i8() {
    let all: Vec<i8> = (i8::MIN..=i8::MAX).collect();
    let x = upload_vec(&all);
    assert_eq!(
        elements(&x.cast::<i32>().unwrap()),
        all.iter().map(|&x| x.into()).collect::<Vec<i32>>()
    );
    assert_eq!(
        elements(&x.cast::<f32>().unwrap()),
        all.iter().map(|&x| x.into()).collect::<Vec<f32>>()
    );
    let mut rng = rng(1);
    let small = (0..2000)
        .map(|_| rng.random::<i32>() % 300)
        .chain([i32::MIN, i32::MAX, 127, 128, -128, -129]);
    let small: Vec<i32> = small.collect();
    let x = upload_vec(&small);
    let of = |form: fn(i32) -> i8| small.iter().map(|&x| form(x)).collect::<Vec<i8>>();
    assert_eq!(elements(&x.cast::<i8>().unwrap()), of(|x| x as i8));
    assert_eq!(elements(&x.cast_wrapping::<i8>().unwrap()), of(|x| x as i8));
    assert_eq!(
        elements(&x.cast_saturating::<i8>().unwrap()),
        of(|x| x.clamp(-128, 127) as i8)
    );
    let floats = [
        0.9f32,
        -1.9,
        127.5,
        128.0,
        -128.9,
        -129.5,
        300.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ];
    let x = upload_vec(&floats);
    let wanted = floats.map(|x| x as i8).to_vec();
    assert_eq!(elements(&x.cast::<i8>().unwrap()), wanted);
    assert_eq!(elements(&x.cast_saturating::<i8>().unwrap()), wanted);
    assert_eq!(
        elements(&x.cast_wrapping::<i8>().unwrap()),
        [0, -1, 127, -128, -128, 127, 44, 0, 0, 0]
    );
}

/// Views of any strides are cast in their order, and bytes are moved as they are.
#[test]
fn views_and_copies() {
    let matrix = Array2::from_shape_fn((37, 70), |(i, j)| F8E4M3::from_bits((i * 70 + j) as u8));
    let x = upload(&matrix);
    let same = |a: &Array2<F8E4M3>, b: &Array2<F8E4M3>| {
        a.dim() == b.dim() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
    };
    assert!(same(&x.to_ndarray().unwrap(), &matrix));
    assert!(same(
        &x.transpose().unwrap().to_ndarray().unwrap(),
        &matrix.t().to_owned()
    ));
    let part = ndarray::s![3..;2, ..;-3];
    assert!(same(
        &x.slice(part).unwrap().to_ndarray().unwrap(),
        &matrix.slice(part).to_owned()
    ));
    let mut y = DeviceArray::from_elem(device().default_stream(), (37, 70), F8E4M3::ONE).unwrap();
    y.slice_mut(ndarray::s![.., ..35])
        .unwrap()
        .assign(&x.slice(ndarray::s![.., 35..]).unwrap())
        .unwrap();
    let wanted = Array2::from_shape_fn(
        (37, 70),
        |(i, j)| if j < 35 { matrix[[i, j + 35]] } else { F8E4M3::ONE },
    );
    assert!(same(&y.to_ndarray().unwrap(), &wanted));
    let floats = x.t().cast::<f32>().unwrap().to_ndarray().unwrap();
    assert!(
        floats
            .iter()
            .zip(matrix.t())
            .all(|(a, b)| *a == b.to_f32() || b.is_nan())
    );
    assert_eq!(
        format!("{:?}", array![F8E5M2::ONE, -F8E5M2::MAX]),
        "[1.0, -57344.0], shape=[2], strides=[1], layout=CFcf (0xf), const ndim=1"
    );
}
