// SPDX-License-Identifier: MIT OR Apache-2.0
//! Casts between all pairs of element types: to integers and to wide floats against Rust's `as`, to 16-bit floats
//! against the nearer of the two numbers beside the exact value.

use crate::common::*;
use ndarray::{ArrayD, IxDyn, array};
use proptest::prelude::*;
use warpsmith::ops::CastTo;
use warpsmith::{DeviceArray, Element, Result, bf16, f16};

/// A number without rounding.
#[derive(Clone, Copy, Debug)]
enum Exact {
    Integer(i128),
    Float(f64),
}

/// An element type, and the number that an element is.
trait Source: Number {
    fn exact(self) -> Exact;

    /// A number near that one, or the nearest that there is.
    fn near(value: f64) -> Self;
}

/// An element type, and what becomes of a number that is cast to it.
trait Target: Number {
    fn cast(x: Exact) -> Self;
    fn saturating(x: Exact) -> Self;
    fn wrapping(x: Exact) -> Self;
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        impl Source for $type {
            fn exact(self) -> Exact {
                Exact::Integer(self.into())
            }
            fn near(value: f64) -> Self {
                value as $type
            }
        }

        impl Target for $type {
            fn cast(x: Exact) -> Self {
                match x {
                    Exact::Integer(x) => x as $type,
                    Exact::Float(x) => x as $type,
                }
            }
            fn saturating(x: Exact) -> Self {
                match x {
                    Exact::Integer(x) => x.clamp($type::MIN.into(), $type::MAX.into()) as $type,
                    Exact::Float(x) => x as $type,
                }
            }
            fn wrapping(x: Exact) -> Self {
                match x {
                    Exact::Integer(x) => x as $type,
                    // The remainder of floats is exact, and that of infinity is NaN, which `as` makes 0.
                    Exact::Float(x) => (x.trunc() % 2f64.powi($type::BITS as i32)) as i128 as $type,
                }
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ident: |$x:ident| $exact:expr, $near:expr, $float:expr, $integer:expr;)*) => {$(
        impl Source for $type {
            fn exact(self) -> Exact {
                let $x = self;
                Exact::Float($exact)
            }
            fn near($x: f64) -> Self {
                $near
            }
        }

        impl Target for $type {
            fn cast(x: Exact) -> Self {
                match x {
                    Exact::Integer($x) => $integer,
                    Exact::Float($x) => $float,
                }
            }
            fn saturating(x: Exact) -> Self {
                Self::cast(x)
            }
            fn wrapping(x: Exact) -> Self {
                Self::cast(x)
            }
        }
    )*};
}

integers!(i32 i64 u8 u16 u32 u64);
floats! {
    f32: |x| x.into(), x as f32, x as f32, x as f32;
    f64: |x| x, x, x, x as f64;
    f16: |x| x.to_f64(), f16::from_f64(x), narrow_of_float(x), narrow_of_integer(x);
    bf16: |x| x.to_f64(), bf16::from_f64(x), narrow_of_float(x), narrow_of_integer(x);
}

/// A 16-bit float type.
trait Narrow: FloatNumber {
    /// The bits of infinity.
    const INFINITY: u16;
    /// The power of two that would follow the greatest number.
    const OVERFLOW: f64;

    fn from_bits(bits: u16) -> Self;

    /// The magnitude of these bits; of infinity, where it begins but for rounding.
    fn magnitude(bits: u16) -> f64 {
        if bits == Self::INFINITY {
            Self::OVERFLOW
        } else {
            Self::from_bits(bits).wide()
        }
    }
}

impl Narrow for f16 {
    const INFINITY: u16 = 0x7c00;
    const OVERFLOW: f64 = 65536.0;

    fn from_bits(bits: u16) -> Self {
        f16::from_bits(bits)
    }
}

impl Narrow for bf16 {
    const INFINITY: u16 = 0x7f80;
    const OVERFLOW: f64 = 3.402823669209384634633746074317682e38;

    fn from_bits(bits: u16) -> Self {
        bf16::from_bits(bits)
    }
}

/// The bits of the nearest magnitude, halves to even: `not_below` says whether the exact one is at least a magnitude,
/// and `nearer` compares its distances from the two that it lies between.
fn nearest<N: Narrow>(not_below: impl Fn(f64) -> bool, nearer: impl Fn(f64, f64) -> std::cmp::Ordering) -> u16 {
    // The greatest magnitude that is not above the exact one. Bits and magnitudes have one order.
    let (mut low, mut end) = (0, N::INFINITY + 1);
    while end - low > 1 {
        let middle = low + (end - low) / 2;
        if not_below(N::magnitude(middle)) {
            low = middle;
        } else {
            end = middle;
        }
    }
    if low == N::INFINITY {
        return low;
    }
    match nearer(N::magnitude(low), N::magnitude(low + 1)) {
        std::cmp::Ordering::Less => low,
        std::cmp::Ordering::Greater => low + 1,
        std::cmp::Ordering::Equal => low + (low & 1),
    }
}

fn narrow_of_float<N: Narrow>(x: f64) -> N {
    if x.is_nan() {
        return N::from_bits(N::INFINITY | 1);
    }
    let magnitude = x.abs();
    // Both differences are exact where they are nearly the same (Sterbenz), so that the order is always right.
    let bits = nearest::<N>(
        |candidate| magnitude >= candidate,
        |low, high| (magnitude - low).total_cmp(&(high - magnitude)),
    );
    N::from_bits(bits | u16::from(x.is_sign_negative()) << 15)
}

fn narrow_of_integer<N: Narrow>(x: i128) -> N {
    let magnitude = x.unsigned_abs();
    if magnitude < 1 << 53 {
        return narrow_of_float(x as f64);
    }
    // Magnitudes of that size are whole numbers; those beyond 2^127 are too far to matter.
    let bits = nearest::<N>(
        |candidate| magnitude as f64 >= candidate && magnitude >= candidate as u128,
        |low, high| (magnitude - low as u128).cmp(&(high as u128 - magnitude)),
    );
    N::from_bits(bits | u16::from(x < 0) << 15)
}

/// The reference itself, where the result is known.
#[test]
fn references_round_to_nearest_even() {
    for (x, wanted) in [
        (1.0, 1.0),
        (1.0 + 2f64.powi(-11), 1.0),
        (1.0 + 3.0 * 2f64.powi(-11), 1.0 + 2f64.powi(-9)),
        (1.0 + 2f64.powi(-11) + 2f64.powi(-50), 1.0 + 2f64.powi(-10)),
        (65504.0, 65504.0),
        (65519.99, 65504.0),
        (65520.0, f64::INFINITY),
        (2f64.powi(-25), 0.0),
        (2f64.powi(-25) + 2f64.powi(-70), 2f64.powi(-24)),
        (-1e300, f64::NEG_INFINITY),
    ] {
        assert_eq!(narrow_of_float::<f16>(x).to_f64(), wanted, "{x}");
    }
    assert_eq!(bf16::OVERFLOW, 2f64.powi(128));
    // 2^63 + 2^55 is half-way between two numbers, of which the lower one is even.
    let tie = (1i128 << 63) + (1 << 55);
    assert_eq!(narrow_of_integer::<bf16>(tie).to_f64(), 2f64.powi(63));
    assert_eq!(
        narrow_of_integer::<bf16>(-tie - 1).to_f64(),
        -(2f64.powi(63) + 2f64.powi(56))
    );
}

/// Numbers on both sides of every limit of an integer type, and of the middle between neighbours of every float type.
fn edges<T: Source>() -> Vec<T> {
    let beside = |x: f64| [x - 1.0, x - 0.5, x, x + 0.5, x + 1.0, x.next_down(), x.next_up()];
    let limits = [0, 7, 8, 11, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64, 65, 100, 127, 128].map(|bits| 2f64.powi(bits));
    // Half a unit in the last place, of f16, bf16 and f32, at even and odd numbers, down to the subnormal ones.
    let exponents = [
        -150, -149, -134, -133, -126, -26, -25, -24, -14, 0, 15, 16, 40, 62, 63, 127,
    ];
    let halves = [8, 11, 24].map(|bits| 2f64.powi(-bits));
    let ties = exponents.into_iter().flat_map(|exponent| {
        let odd = halves
            .into_iter()
            .flat_map(|half| [1.0, 1.0 + 2.0 * half, 2.0 - 2.0 * half].map(|x| x + half));
        odd.flat_map(move |x| {
            let tie = x * 2f64.powi(exponent);
            [tie, tie * (1.0 + 2f64.powi(-40)), tie * (1.0 - 2f64.powi(-40))]
        })
    });
    let values = limits
        .into_iter()
        .flat_map(beside)
        .chain([65504.0, 65519.0, 65520.0, 1e300])
        .chain(ties);
    values
        .flat_map(|x| [x, -x])
        .map(T::near)
        .chain(T::SPECIAL.iter().copied())
        .collect()
}

type Form<T, U> = fn(&DynRef<T>) -> Result<Dyn<U>>;
type Into<T, U> = fn(&DynRef<T>, &mut DynRef<U>) -> Result<()>;

/// The casts, by name, in both forms, with their references.
#[allow(clippy::type_complexity)] // a table: the name, the two forms, and the reference
fn casts<T: Source + CastTo<U>, U: Target>() -> [(&'static str, Form<T, U>, Into<T, U>, fn(Exact) -> U); 3] {
    [
        ("cast", DynRef::cast, DynRef::cast_into, U::cast),
        (
            "cast_saturating",
            DynRef::cast_saturating,
            DynRef::cast_saturating_into,
            U::saturating,
        ),
        (
            "cast_wrapping",
            DynRef::cast_wrapping,
            DynRef::cast_wrapping_into,
            U::wrapping,
        ),
    ]
}

fn zeros<U: Element>(len: usize) -> Dyn<U> {
    DeviceArray::zeros(device().default_stream(), IxDyn(&[len])).unwrap()
}

fn check<T: Source + CastTo<U>, U: Target>(values: &[T]) {
    let x = upload_vec(values);
    for (name, form, into, oracle) in casts::<T, U>() {
        let wanted: Vec<U> = values.iter().map(|x| oracle(x.exact())).collect();
        let what = format!("{name} from {}", T::NAME);
        let got = elements(&form(&x).unwrap());
        // Says which number it was.
        if let Some(i) = (0..got.len()).find(|&i| !got[i].same(wanted[i])) {
            let (from, to) = (T::NAME, U::NAME);
            panic!(
                "{name} of {:?} from {from} to {to} is {:?}, wanted {:?}",
                values[i], got[i], wanted[i]
            );
        }
        let mut out = zeros(values.len());
        into(&x, &mut out).unwrap();
        assert_same(&elements(&out), &wanted, &format!("{what}, _into"));
    }
}

fn check_pair<T: Source + CastTo<U>, U: Target>() {
    check::<T, U>(&edges());
    // The lengths of expressions are tested with them.
    for (seed, len) in (1..).zip([0, 1, 33, 1025]) {
        check::<T, U>(&random(len, seed));
    }
}

macro_rules! for_pairs {
    ($($from:ident)*) => {
        mod pairs {
            use super::*;

            $(
                #[test]
                fn $from() {
                    for_pairs!(@to $from: f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);
                }
            )*
        }
    };
    (@to $from:ident: $($to:ident)*) => { $(check_pair::<$from, $to>();)* };
}

for_pairs!(f32 f64 f16 bf16 i32 i64 u8 u16 u32 u64);

/// Every value of a 16-bit type, to every type.
fn every_value<T>()
where
    T: Source
        + CastTo<f32>
        + CastTo<f64>
        + CastTo<f16>
        + CastTo<bf16>
        + CastTo<i32>
        + CastTo<i64>
        + CastTo<u8>
        + CastTo<u64>,
{
    let values: Vec<T> = (0..=u16::MAX).map(bytemuck::cast).collect();
    check::<T, f32>(&values);
    check::<T, f64>(&values);
    check::<T, f16>(&values);
    check::<T, bf16>(&values);
    check::<T, i32>(&values);
    check::<T, i64>(&values);
    check::<T, u8>(&values);
    check::<T, u64>(&values);
}

for_types!(every_value: f16 bf16 u16);

/// Every 16-bit float, the middles between neighbours, and what is just beside those.
fn rounded_once<N: Narrow + Target>()
where
    f64: CastTo<N>,
{
    let middles = (0..N::INFINITY).map(|bits| (N::magnitude(bits) + N::magnitude(bits + 1)) / 2.0);
    let values = middles.flat_map(|x| [x, x.next_up(), -x.next_down()]);
    check::<f64, N>(&values.collect::<Vec<f64>>());
}

for_types!(rounded_once: f16 bf16);

#[test]
fn random_casts() {
    proptest!(cases(20), |(len in 0..10_000usize, seed in any::<u64>())| {
        check::<f64, f16>(&random(len, seed));
        check::<u64, bf16>(&random(len, seed));
        check::<i64, f32>(&random(len, seed));
        check::<f32, u64>(&random(len, seed));
        check::<i64, u16>(&random(len, seed));
    });
}

/// Integers of every number of digits, with all kinds of low bits.
#[test]
fn integers_of_every_size() {
    let values: Vec<u64> = random::<u64>(4000, 5)
        .into_iter()
        .zip((0..64).cycle())
        .map(|(x, bits)| x >> bits)
        .collect();
    let signed: Vec<i64> = values.iter().map(|&x| x as i64).collect();
    check::<u64, f16>(&values);
    check::<u64, bf16>(&values);
    check::<u64, f32>(&values);
    check::<i64, f16>(&signed);
    check::<i64, bf16>(&signed);
    check::<i64, u32>(&signed);
}

#[test]
fn casts_keep_the_shape() {
    let x = upload(&array![[1.5f64, -2.5], [f64::NAN, 1e300]]);
    let cast = |result: Result<DeviceArray<i32, ndarray::Ix2>>| result.unwrap().to_ndarray().unwrap();
    assert_eq!(cast(x.cast()), array![[1, -2], [0, i32::MAX]]);
    assert_eq!(cast(x.cast_saturating()), array![[1, -2], [0, i32::MAX]]);
    assert_eq!(cast(x.cast_wrapping()), array![[1, -2], [0, 0]]);
    let base = layout_base::<u32>(1);
    for (layout, x) in layouts(&base) {
        let result = upload(&x).cast::<u8>().unwrap().to_ndarray().unwrap();
        assert_eq!(result, x.map(|&x| x as u8), "{layout}");
    }
}

#[test]
fn shapes_that_differ_are_an_error_and_leave_the_output_alone() {
    let x = upload(&ArrayD::<f32>::ones(IxDyn(&[2, 3])));
    let mut out = upload(&ArrayD::from_elem(IxDyn(&[6]), 7u8));
    for (name, _, into, _) in casts::<f32, u8>() {
        let error = into(&x, &mut out).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("{name}: given shapes [2, 3] and [6], wanted equal shapes")
        );
    }
    assert_eq!(elements(&out), [7; 6]);
}
