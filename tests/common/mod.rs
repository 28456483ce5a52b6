// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the integration tests share: the device, values to compute with, and exact comparison.
//!
//! The tests run on the device that `WARPSMITH_DEVICE` names, or the one that `Device::auto` finds.

pub mod expr;

use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array3, ArrayBase, ArrayD, ArrayView3, ArrayViewD, Axis, Data, Dimension, IxDyn, s};
use proptest::prelude::{ProptestConfig, RngExt};
use test_reference::random::Random;
use warpsmith::{Checks, Device, DeviceArray, DeviceArrayRef, Element, Schedule, Simulation, bf16, f16};

/// A device array with any number of dimensions.
pub type Dyn<T> = DeviceArray<T, IxDyn>;

/// What arrays and views of any shape have in common.
pub type DynRef<T> = DeviceArrayRef<T, IxDyn>;

/// The device that the tests of this process share.
pub fn device() -> &'static Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::auto().expect("the device can be opened"));
    &DEVICE
}

/// Columns of a product of few rows that tiles of this width fill best, of those that are computed as transposes: of 192, or of 64, of
/// which there are at most five for six multiprocessors.
pub fn columns_across(device: &Device, width: usize) -> usize {
    let multiprocessors = device.properties().multiprocessors as usize;
    let tiles = match width {
        64 => (multiprocessors * 5 / 6).max(1),
        _ => multiprocessors,
    };
    width * tiles - 8
}

/// The shared device, and those that differ from it in how they multiply numbers of 16 bits and TF32.
pub fn with_tensor_cores() -> [Device; 3] {
    [
        device().clone(),
        Device::simulated_hopper(),
        device().as_ampere().unwrap(),
    ]
}

/// The same, and Turing, which multiplies f16 and integers.
pub fn with_turing() -> Vec<Device> {
    let turing = device().as_generation((7, 5)).unwrap();
    [&with_tensor_cores()[..], &[turing]].concat()
}

/// A simulated Hopper GPU with room for so many blocks.
pub fn hopper_of(multiprocessors: u32, checks: Checks) -> Device {
    simulated_as(Some((9, 0)), multiprocessors, checks)
}

/// A simulated GPU with tensor cores of that compute capability and room for so many blocks.
pub fn simulated(tensor_cores: Option<(u32, u32)>, multiprocessors: u32) -> Device {
    simulated_as(tensor_cores, multiprocessors, Checks::from_env())
}

fn simulated_as(tensor_cores: Option<(u32, u32)>, multiprocessors: u32, checks: Checks) -> Device {
    Device::simulated_as(Simulation {
        checks,
        schedule: Schedule::InOrder,
        counting: false,
        tensor_cores,
        multiprocessors,
    })
}

/// The shared device, if it is a GPU; says that the test is left out otherwise.
pub fn gpu(test: &str) -> Option<&'static Device> {
    let device = device();
    if device.is_simulator() {
        println!(
            "{test}: left out, as the device is {} and no GPU",
            device.properties().id
        );
    }
    (!device.is_simulator()).then_some(device)
}

/// Leaves the table of `set_matmul_choices`, which is the process's, to one test at a time.
pub fn choices_of_products() -> MutexGuard<'static, ()> {
    static CHOICES: Mutex<()> = Mutex::new(());
    CHOICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An array of that shape, whose elements are functions of their numbers in C order.
pub fn numbered<T>(shape: &[usize], of: impl Fn(usize) -> T) -> ArrayD<T> {
    let len = shape.iter().product::<usize>();
    ArrayD::from_shape_vec(IxDyn(shape), (0..len).map(of).collect()).expect("as many elements")
}

/// The array on the default stream of the shared device.
pub fn upload<S: Data<Elem: Element>, D: Dimension>(array: &ArrayBase<S, D>) -> DeviceArray<S::Elem, D> {
    DeviceArray::from_ndarray(device().default_stream(), array).expect("the array fits")
}

/// A vector on the device, with dynamic dimension.
pub fn upload_vec<T: Element>(elements: &[T]) -> Dyn<T> {
    upload(&ArrayD::from_shape_vec(IxDyn(&[elements.len()]), elements.to_vec()).expect("one axis"))
}

/// The elements of a device array, in C order.
pub fn elements<T: Element, D: Dimension>(array: &DeviceArray<T, D>) -> Vec<T> {
    array
        .to_ndarray()
        .expect("the array can be read")
        .into_raw_vec_and_offset()
        .0
}

/// `cases` cases, times what the variable `WARPSMITH_TEST_CASES_TIMES` says if it is set, and no file of failures: the tests also
/// run where there is no source tree.
pub fn cases(cases: u32) -> ProptestConfig {
    let times = std::env::var("WARPSMITH_TEST_CASES_TIMES").map_or(1, |times| times.parse().expect("a number"));
    ProptestConfig {
        cases: cases * times,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A generator of random values that gives the same for the same seed.
pub fn rng(seed: u64) -> Random {
    Random::of_seed(seed)
}

/// `len` values of [`Number::random`].
pub fn random<T: Number>(len: usize, seed: u64) -> Vec<T> {
    let mut rng = rng(seed);
    (0..len).map(|_| T::random(&mut rng)).collect()
}

/// Lengths around every boundary of warps, blocks and tiles of `tile` elements, and one of several tiles: with blocks of a quarter of
/// one, as reductions have, so many that a tree of two levels is above them, but of bytes.
pub fn lengths(tile: usize) -> Vec<usize> {
    vec![
        0,
        1,
        31,
        32,
        33,
        255,
        256,
        257,
        tile - 1,
        tile,
        tile + 1,
        2 * tile + 7,
        (5 * tile + 97).min(99_991),
    ]
}

/// An element type.
pub trait Number: Element + PartialEq + Debug {
    /// The type's name.
    const NAME: &'static str;

    /// Values at which arithmetic goes wrong, if it does.
    const SPECIAL: &'static [Self];

    /// One value in eight special, three of any bits, the rest of moderate size.
    fn random(rng: &mut Random) -> Self;

    /// Whether the bits are the same; one NaN is like another.
    fn same(self, other: Self) -> bool;
}

/// A float type.
pub trait FloatNumber: Number {
    /// Half the distance from 1 to the next number.
    const UNIT_ROUNDOFF: f64;
    /// The least normal number.
    const LEAST_NORMAL: f64;

    fn of(value: f64) -> Self;
    fn wide(self) -> f64;

    /// The distance to the true value, in units in the last place of that value. 0 between two NaN, infinite between a
    /// NaN and a number; the greatest number and infinity are neighbours.
    fn ulps(self, reference: f64) -> f64;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Number for $type {
            const NAME: &'static str = stringify!($type);
            const SPECIAL: &'static [Self] = &[
                0, 1, 2, 3, 7, 100, $type::MAX, $type::MAX - 1, $type::MAX / 2, $type::MIN, $type::MIN + 1,
                (0 as $type).wrapping_sub(1), (0 as $type).wrapping_sub(2),
            ];

            fn random(rng: &mut Random) -> Self {
                match rng.random_range(0..8) {
                    0 => Self::SPECIAL[rng.random_range(0..Self::SPECIAL.len())],
                    1..4 => rng.random(),
                    _ => (rng.random_range(0..=200u8) as Self).wrapping_sub(100),
                }
            }

            fn same(self, other: Self) -> bool {
                self == other
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ident: $bits:ident;)*) => {$(
        impl Number for $type {
            const NAME: &'static str = stringify!($type);
            const SPECIAL: &'static [Self] = &[
                0.0, -0.0, 1.0, -1.0, 0.1, -3.0, 0.5, 1.5, 1e6, $type::EPSILON, $type::MIN_POSITIVE, -$type::MIN_POSITIVE,
                $type::MIN_POSITIVE / 4.0, $type::from_bits(1), -$type::from_bits(1), $type::MAX, $type::MIN,
                $type::INFINITY, $type::NEG_INFINITY, $type::NAN,
            ];

            fn random(rng: &mut Random) -> Self {
                match rng.random_range(0..8) {
                    0 => Self::SPECIAL[rng.random_range(0..Self::SPECIAL.len())],
                    1..4 => Self::from_bits(rng.random()),
                    _ => (rng.random::<Self>() - 0.5) * 200.0,
                }
            }

            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
            }
        }

        impl FloatNumber for $type {
            const UNIT_ROUNDOFF: f64 = $type::EPSILON as f64 / 2.0;
            const LEAST_NORMAL: f64 = $type::MIN_POSITIVE as f64;

            fn of(value: f64) -> Self {
                value as $type
            }

            fn wide(self) -> f64 {
                self as f64
            }

            fn ulps(self, reference: f64) -> f64 {
                let rounded = reference as $type;
                if self.is_nan() || rounded.is_nan() {
                    return if self.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
                }
                if self.is_infinite() || rounded.is_infinite() {
                    let same_sign = self.is_sign_negative() == rounded.is_sign_negative();
                    let steps = self.abs().to_bits().abs_diff(rounded.abs().to_bits()) as f64;
                    return if same_sign { steps } else { f64::INFINITY };
                }
                let below = rounded.abs().min($type::MAX.next_down());
                (self as f64 - reference).abs() / (below.next_up() - below) as f64
            }
        }
    )*};
}

/// 16-bit floats: special values are those of f32, rounded, and their own limits.
macro_rules! narrow_floats {
    ($($type:ident: unit roundoff $unit:literal, least normal $least:literal;)*) => {$(
        impl Number for $type {
            const NAME: &'static str = stringify!($type);
            const SPECIAL: &'static [Self] = &[
                $type::ZERO, $type::NEG_ZERO, $type::ONE, $type::NEG_ONE, $type::from_f32_const(0.1),
                $type::from_f32_const(-3.0), $type::from_f32_const(0.5), $type::from_f32_const(1000.0), $type::EPSILON,
                $type::MIN_POSITIVE, $type::from_bits(1), $type::from_bits(0x8001), $type::MAX, $type::MIN,
                $type::INFINITY, $type::NEG_INFINITY, $type::NAN,
            ];

            fn random(rng: &mut Random) -> Self {
                match rng.random_range(0..8) {
                    0 => Self::SPECIAL[rng.random_range(0..Self::SPECIAL.len())],
                    1..4 => Self::from_bits(rng.random()),
                    _ => Self::from_f32((rng.random::<f32>() - 0.5) * 200.0),
                }
            }

            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || (self.is_nan() && other.is_nan())
            }
        }

        impl FloatNumber for $type {
            const UNIT_ROUNDOFF: f64 = $unit;
            const LEAST_NORMAL: f64 = $least;

            fn of(value: f64) -> Self {
                Self::from_f64(value)
            }

            fn wide(self) -> f64 {
                self.to_f64()
            }

            fn ulps(self, reference: f64) -> f64 {
                let rounded = Self::from_f64(reference);
                if self.is_nan() || rounded.is_nan() {
                    return if self.is_nan() && rounded.is_nan() { 0.0 } else { f64::INFINITY };
                }
                let magnitude = |x: Self| x.to_bits() & 0x7fff;
                if self.is_infinite() || rounded.is_infinite() {
                    let same_sign = self.is_sign_negative() == rounded.is_sign_negative();
                    let steps = f64::from(magnitude(self).abs_diff(magnitude(rounded)));
                    return if same_sign { steps } else { f64::INFINITY };
                }
                let below = magnitude(rounded).min(Self::MAX.to_bits() - 1);
                let ulp = Self::from_bits(below + 1).to_f64() - Self::from_bits(below).to_f64();
                (self.to_f64() - reference).abs() / ulp
            }
        }
    )*};
}

integers!(i32 i64 u8 u16 u32 u64);
floats!(f32: u32; f64: u64;);
narrow_floats! {
    f16: unit roundoff 4.8828125e-4, least normal 6.103515625e-5;
    bf16: unit roundoff 3.90625e-3, least normal 1.1754943508222875e-38;
}

/// Turns a generic function into a test for each type.
macro_rules! for_types {
    ($function:ident: $($type:ident)*) => {
        mod $function {
            // The names of the tests must not hide them, nor `f16` be the primitive type that is not stable.
            #[allow(unused_imports)]
            use warpsmith::{bf16, f16};

            $(
                #[test]
                fn $type() {
                    super::$function::<$type>();
                }
            )*
        }
    };
    ($function:ident) => {
        for_types!($function: f32 f64 i32 i64 u32 u64);
    };
}

/// Panics at the first element that is not the same, with its index and how many differ.
#[track_caller]
pub fn assert_same<T: Number>(got: &[T], wanted: &[T], what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what} of {}: length", T::NAME);
    let differ = |&i: &usize| !got[i].same(wanted[i]);
    if let Some(i) = (0..got.len()).find(differ) {
        let count = (0..got.len()).filter(differ).count();
        let (got, wanted, len) = (got[i], wanted[i], wanted.len());
        panic!(
            "{what} of {}: {count} of {len} differ; element {i} is {got:?}, wanted {wanted:?}",
            T::NAME
        );
    }
}

/// One array of values in ways to lie in memory, with what is particular to each.
pub fn layouts<T: Number>(base: &ArrayD<T>) -> Vec<(&'static str, ArrayViewD<'_, T>)> {
    assert_eq!(base.shape(), [3, 4, 5, 6]);
    let four = base.view().into_dimensionality::<ndarray::Ix4>().expect("four axes");
    let mut reversed = four;
    reversed.invert_axis(ndarray::Axis(3));
    reversed.invert_axis(ndarray::Axis(0));
    vec![
        ("no axis", four.slice_move(s![1, 2, 3, 4]).into_dyn()),
        ("one axis", four.slice_move(s![1, 2, 3, ..]).into_dyn()),
        ("one axis, strided", four.slice_move(s![0, .., 1, 2]).into_dyn()),
        ("two axes", four.slice_move(s![1, 2, .., ..]).into_dyn()),
        (
            "two axes, every other column",
            four.slice_move(s![2, 1, .., ..;2]).into_dyn(),
        ),
        (
            "three axes, Fortran order",
            four.slice_move(s![2, .., .., ..]).reversed_axes().into_dyn(),
        ),
        ("four axes", four.into_dyn()),
        ("four axes, two reversed", reversed.into_dyn()),
        ("four axes, permuted", four.permuted_axes([2, 0, 3, 1]).into_dyn()),
        (
            "four axes, a part of each",
            four.slice_move(s![1.., 1..3, ..;-2, 2..]).into_dyn(),
        ),
        ("three axes, one empty", four.slice_move(s![1, .., 2..2, ..]).into_dyn()),
    ]
}

/// The sums `Σ ab` of `batch` products of matrices, and `Σ |ab|`, by ndarray in f64. Where there is one matrix for all, it is
/// for all.
pub fn sums_of_products<T: Copy>(
    batch: usize,
    [a, b]: [ArrayView3<'_, T>; 2],
    wide: impl Fn(T) -> f64,
) -> [Array3<f64>; 2] {
    let [a, b] = [a, b].map(|x| x.mapv(&wide));
    let of = |f: fn(f64) -> f64| {
        let [a, b] = [&a, &b].map(|x| x.mapv(f));
        let mut sums = Array3::zeros((batch, a.dim().1, b.dim().2));
        for (p, mut sums) in sums.outer_iter_mut().enumerate() {
            let [a, b] = [&a, &b].map(|x| x.index_axis(Axis(0), p % x.len_of(Axis(0))));
            general_mat_mul(1.0, &a, &b, 0.0, &mut sums);
        }
        sums
    };
    [of(|x| x), of(f64::abs)]
}

/// Random values in the shape that [`layouts`] takes.
pub fn layout_base<T: Number>(seed: u64) -> ArrayD<T> {
    let values = Array1::from(random::<T>(3 * 4 * 5 * 6, seed));
    values
        .into_shape_with_order(IxDyn(&[3, 4, 5, 6]))
        .expect("as many values")
}
