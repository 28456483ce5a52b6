// SPDX-License-Identifier: MIT OR Apache-2.0

use std::sync::Mutex;

use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{self, bf16, f16};
use cuda_std::mma::{F16M16N8K8, F64M16N8K8, I8M8N8K16, Mma, mma};
use cuda_std::prelude::*;
use cuda_std::wgmma::Tf32;
use cuda_std::{async_copy, matrix};

use super::{Numbers, count, fault, run};

/// An element type as tests see it: fragments made of matrices, and the values that count.
trait Element: Mma<A: Sync, B: Sync> {
    fn fragment_a(element: impl Fn(u32) -> f64) -> Self::A;
    fn fragment_b(element: impl Fn(u32) -> f64) -> Self::B;
    fn elements_c(c: Self::C) -> Vec<f64>;
    fn c(element: impl Fn(u32) -> f64) -> Self::C;
    /// What the tensor cores take the element for, which as it is given is an f32.
    fn value(element: f64) -> f64;
}

macro_rules! sixteen_bits {
    ($($type:ident)*) => {$(
        impl Element for $type {
            fn fragment_a(element: impl Fn(u32) -> f64) -> [u32; 4] {
                [0, 2, 4, 6].map(|i| half::pack::<$type>(element(i) as f32, element(i + 1) as f32))
            }

            fn fragment_b(element: impl Fn(u32) -> f64) -> [u32; 2] {
                [0, 2].map(|i| half::pack::<$type>(element(i) as f32, element(i + 1) as f32))
            }

            fn elements_c(c: [f32; 4]) -> Vec<f64> {
                c.map(f64::from).to_vec()
            }

            fn c(element: impl Fn(u32) -> f64) -> [f32; 4] {
                [0, 1, 2, 3].map(|i| element(i) as f32)
            }

            fn value(element: f64) -> f64 {
                $type::from_f32(element as f32).to_f64()
            }
        }
    )*};
}

sixteen_bits! { bf16 f16 }

impl Element for Tf32 {
    fn fragment_a(element: impl Fn(u32) -> f64) -> [f32; 4] {
        [0, 1, 2, 3].map(|i| element(i) as f32)
    }

    fn fragment_b(element: impl Fn(u32) -> f64) -> [f32; 2] {
        [0, 1].map(|i| element(i) as f32)
    }

    fn elements_c(c: [f32; 4]) -> Vec<f64> {
        c.map(f64::from).to_vec()
    }

    fn c(element: impl Fn(u32) -> f64) -> [f32; 4] {
        [0, 1, 2, 3].map(|i| element(i) as f32)
    }

    fn value(element: f64) -> f64 {
        f32::from_bits((element as f32).to_bits() & !0x1fff).into()
    }
}

impl Element for F16M16N8K8 {
    fn fragment_a(element: impl Fn(u32) -> f64) -> [u32; 2] {
        [0, 2].map(|i| half::pack::<f16>(element(i) as f32, element(i + 1) as f32))
    }

    fn fragment_b(element: impl Fn(u32) -> f64) -> [u32; 1] {
        [half::pack::<f16>(element(0) as f32, element(1) as f32)]
    }

    fn elements_c(c: [f32; 4]) -> Vec<f64> {
        c.map(f64::from).to_vec()
    }

    fn c(element: impl Fn(u32) -> f64) -> [f32; 4] {
        [0, 1, 2, 3].map(|i| element(i) as f32)
    }

    fn value(element: f64) -> f64 {
        f16::value(element)
    }
}

/// A word of the bytes that are made of four elements.
fn word(first: u32, byte: impl Fn(u32) -> u8) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|i| byte(first + i)))
}

macro_rules! eight_bits {
    ($([$($type:tt)+]: $sum:ident, $a:literal words, $b:literal, $c:literal, $byte:expr, $other:expr, $value:expr;)*) => {$(
        impl Element for $($type)+ {
            fn fragment_a(element: impl Fn(u32) -> f64) -> [u32; $a] {
                std::array::from_fn(|i| word(4 * i as u32, |i| $byte(element(i))))
            }

            fn fragment_b(element: impl Fn(u32) -> f64) -> [u32; $b] {
                std::array::from_fn(|i| word(4 * i as u32, |i| $other(element(i))))
            }

            fn elements_c(c: [$sum; $c]) -> Vec<f64> {
                c.map(f64::from).to_vec()
            }

            fn c(element: impl Fn(u32) -> f64) -> [$sum; $c] {
                std::array::from_fn(|i| $value(element(i as u32)) as $sum)
            }

            fn value(element: f64) -> f64 {
                $value(element)
            }
        }
    )*};
}

/// Numbers to 4, as integers to 127.
fn integer(element: f64) -> f64 {
    (element * 32.0).floor().clamp(-128.0, 127.0)
}

/// Numbers that both have.
fn both(element: f64) -> f64 {
    F8E4M3::from_f32(F8E5M2::from_f32(element as f32).to_f32())
        .to_f32()
        .into()
}

fn e4m3(element: f64) -> u8 {
    F8E4M3::from_f32(both(element) as f32).to_bits()
}

fn e5m2(element: f64) -> u8 {
    F8E5M2::from_f32(both(element) as f32).to_bits()
}

fn byte(element: f64) -> u8 {
    integer(element) as i8 as u8
}

eight_bits! {
    [i8]: i32, 4 words, 2, 4, byte, byte, integer;
    [I8M8N8K16]: i32, 1 words, 1, 2, byte, byte, integer;
    [(F8E4M3, F8E4M3)]: f32, 4 words, 2, 4, e4m3, e4m3, both;
    [(F8E4M3, F8E5M2)]: f32, 4 words, 2, 4, e4m3, e5m2, both;
    [(F8E5M2, F8E4M3)]: f32, 4 words, 2, 4, e5m2, e4m3, both;
    [(F8E5M2, F8E5M2)]: f32, 4 words, 2, 4, e5m2, e5m2, both;
}

impl Element for f64 {
    fn fragment_a(element: impl Fn(u32) -> f64) -> [f64; 1] {
        [element(0)]
    }

    fn fragment_b(element: impl Fn(u32) -> f64) -> [f64; 1] {
        [element(0)]
    }

    fn elements_c(c: [f64; 2]) -> Vec<f64> {
        c.to_vec()
    }

    fn c(element: impl Fn(u32) -> f64) -> [f64; 2] {
        [element(0), element(1)]
    }

    fn value(element: f64) -> f64 {
        element
    }
}

impl Element for F64M16N8K8 {
    fn fragment_a(element: impl Fn(u32) -> f64) -> [f64; 4] {
        [0, 1, 2, 3].map(element)
    }

    fn fragment_b(element: impl Fn(u32) -> f64) -> [f64; 2] {
        [0, 1].map(element)
    }

    fn elements_c(c: [f64; 4]) -> Vec<f64> {
        c.to_vec()
    }

    fn c(element: impl Fn(u32) -> f64) -> [f64; 4] {
        [0, 1, 2, 3].map(element)
    }

    fn value(element: f64) -> f64 {
        element
    }
}

fn check<T: Element>() {
    let mut numbers = Numbers(u64::from(T::K));
    let mut matrix = || -> Vec<f64> { (0..16 * 32).map(|_| numbers.next_f32().into()).collect() };
    let (a, b, c) = (matrix(), matrix(), matrix());
    let at = |matrix: &[f64], (row, column): (u32, u32)| matrix[(row * 16 + column) as usize];
    let of_a = |(row, k): (u32, u32)| a[(row * 32 + k) as usize];
    let got = Mutex::new(vec![None; 16 * 8]);
    let counters = count(64, &|| {
        let lane = warp::lane_id();
        let fragment_a = T::fragment_a(|i| of_a(T::place_a(lane, i)));
        let fragment_b = T::fragment_b(|i| at(&b, T::place_b(lane, i)));
        let d = mma::<T>(fragment_a, fragment_b, T::c(|i| at(&c, T::place_c(lane, i))));
        // Both warps do the same.
        if thread::thread_idx_x() >= 32 {
            return;
        }
        for (i, d) in (0..).zip(T::elements_c(d)) {
            let (row, column) = T::place_c(lane, i);
            let before = got.lock().unwrap()[(row * 8 + column) as usize].replace(d);
            assert_eq!(before, None, "({row}, {column}) is of one lane");
        }
    });
    let operations: Vec<u64> = counters.products.iter().map(|&(_, operations)| operations).collect();
    assert_eq!(operations, [2 * 2 * u64::from(T::M * 8 * T::K)]);
    let got = got.into_inner().unwrap();
    for (row, column) in (0..T::M).flat_map(|row| (0..8).map(move |column| (row, column))) {
        let terms = (0..T::K).map(|k| T::value(of_a((row, k))) * T::value(at(&b, (k, column))));
        let start = T::elements_c(T::c(|_| at(&c, (row, column))))[0];
        let (sum, size) = terms.fold((start, start.abs()), |(sum, size), term| {
            (sum + term, size + term.abs())
        });
        let got = got[(row * 8 + column) as usize].expect("some lane has the element");
        assert!(
            (got - sum).abs() <= 20.0 * 2f64.powi(-24) * size,
            "({row}, {column}): {got} is not {sum}"
        );
    }
}

#[test]
fn products_of_every_type() {
    check::<bf16>();
    check::<f16>();
    check::<Tf32>();
    check::<F16M16N8K8>();
    check::<i8>();
    check::<I8M8N8K16>();
    check::<(F8E4M3, F8E4M3)>();
    check::<(F8E4M3, F8E5M2)>();
    check::<(F8E5M2, F8E4M3)>();
    check::<(F8E5M2, F8E5M2)>();
    check::<f64>();
    check::<F64M16N8K8>();
}

/// Each product of two codes: sums of integers wrap, and those of 8-bit floats know infinities and NaN.
#[test]
fn products_of_all_codes() {
    // A's column k = 0 alone has a code, so that an element of D is one product.
    fn products<T: Element<A = [u32; 4], B = [u32; 2]>>(code: u8, other: u8, c: T::C) -> f64
    where
        T::C: Sync,
    {
        let got = Mutex::new(0.0);
        run(32, 0, &|| {
            let of = |code: u8| {
                if warp::lane_id().is_multiple_of(4) {
                    u32::from(code)
                } else {
                    0
                }
            };
            let d = mma::<T>([of(code), of(code), 0, 0], [of(other), 0], c);
            if warp::lane_id() == 0 {
                *got.lock().unwrap() = T::elements_c(d)[0];
            }
        });
        got.into_inner().unwrap()
    }
    for code in 0..=255u8 {
        let other = code.wrapping_mul(91).wrapping_add(13);
        let wanted = i32::MAX.wrapping_add(i32::from(code as i8) * i32::from(other as i8));
        assert_eq!(products::<i8>(code, other, [i32::MAX; 4]), f64::from(wanted));
        let same =
            |got: f64, wanted: f32| assert!(got == wanted.into() || got.is_nan() && wanted.is_nan(), "{code:#x}");
        let (a, b) = (F8E4M3::from_bits(code).to_f32(), F8E5M2::from_bits(code).to_f32());
        let (x, y) = (F8E4M3::from_bits(other).to_f32(), F8E5M2::from_bits(other).to_f32());
        same(products::<(F8E4M3, F8E4M3)>(code, other, [0.0; 4]), a * x);
        same(products::<(F8E4M3, F8E5M2)>(code, other, [0.0; 4]), a * y);
        same(products::<(F8E5M2, F8E4M3)>(code, other, [0.0; 4]), b * x);
        same(products::<(F8E5M2, F8E5M2)>(code, other, [0.0; 4]), b * y);
    }
}

/// Every element of A and B is of one lane.
#[test]
fn an_element_is_one_lanes() {
    fn count<T: Mma>() {
        let (of_a, of_b) = (T::M * T::K / 32, 8 * T::K / 32);
        let places = |count: u32, place: fn(u32, u32) -> (u32, u32)| {
            let mut places: Vec<_> = (0..32)
                .flat_map(|lane| (0..count).map(move |i| place(lane, i)))
                .collect();
            places.sort();
            places
        };
        let all =
            |rows: u32, columns: u32| (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)));
        assert!(places(of_a, T::place_a).into_iter().eq(all(T::M, T::K)));
        assert!(places(of_b, T::place_b).into_iter().eq(all(T::K, 8)));
    }
    count::<bf16>();
    count::<f16>();
    count::<Tf32>();
    count::<F16M16N8K8>();
    count::<i8>();
    count::<I8M8N8K16>();
    count::<(F8E4M3, F8E4M3)>();
    count::<(F8E4M3, F8E5M2)>();
    count::<(F8E5M2, F8E4M3)>();
    count::<(F8E5M2, F8E5M2)>();
    count::<f64>();
    count::<F64M16N8K8>();
}

/// `ldmatrix` brings A as the product takes it, and transposed, B by rows.
#[test]
fn ldmatrix_makes_fragments() {
    run(32, 0, &|| {
        let tile = shared_array![bf16; 16 * 16];
        let lane = warp::lane_id();
        for i in 8 * lane..8 * lane + 8 {
            tile.set(i as usize, bf16::from_f32(i as f32));
        }
        warp::sync_warp(warp::FULL_MASK);
        let element = |(row, column): (u32, u32)| f64::from(row * 16 + column);
        let (row, column) = (lane % 16, lane / 16 * 8);
        // SAFETY: 16 bytes of row `row`, at a multiple of 16.
        let (a, b) = unsafe {
            (
                matrix::ldmatrix_x4(tile, (row * 16 + column) * 2),
                matrix::ldmatrix_x4_trans(tile, (row * 16 + column) * 2),
            )
        };
        assert_eq!(a, bf16::fragment_a(|i| element(bf16::place_a(lane, i))));
        assert_eq!([b[0], b[1]], bf16::fragment_b(|i| element(bf16::place_b(lane, i))));
    });
}

#[test]
fn misuse_is_a_fault() {
    let lanes = fault(32, &|| {
        if warp::lane_id() < 31 {
            _ = mma::<f64>([1.0], [1.0], [0.0; 2]);
        }
    });
    assert_eq!(
        lanes,
        "`mma` with mask 0xffffffff not reached by all its lanes: lane 31, thread (31, 0, 0), has exited"
    );
    let elements = [[0u64; 2]; 2];
    let copy = |offset: u32, from: usize, bytes: u32| {
        let elements = elements.as_flattened();
        fault(1, &|| {
            // SAFETY: what is wrong with it is found.
            unsafe { async_copy::copy_16(shared_array![u64; 4], offset, elements[from..].as_ptr(), bytes) };
        })
    };
    assert_eq!(copy(0, 0, 17), "an asynchronous copy of 17 bytes: it is of 16 at most");
    assert_eq!(
        copy(8, 0, 16),
        "an asynchronous copy of 16 bytes is not aligned to 16 bytes"
    );
    assert_eq!(
        copy(32, 0, 16),
        "16 elements from index 32 on are out of bounds of the bytes of shared memory, whose len is 32"
    );
}
