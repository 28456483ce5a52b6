// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transposition and other orders of the axes, bit by bit, for elements of every size.

use std::fmt::Debug;

use crate::common::*;
use bytemuck::bytes_of;
use ndarray::{Array, Array1, Array2, Array3, ArrayBase, Data, Dimension, IxDyn, array};
use proptest::prelude::*;
use warpsmith::{Device, DeviceArray, Element};

/// An element that can be told from the others.
trait Plain: Element + Debug {
    /// Element `index`, with different bits in all of its bytes.
    fn nth(index: usize) -> Self {
        let mut bytes = vec![0; size_of::<Self>()];
        for (i, byte) in bytes.iter_mut().enumerate() {
            // The low digits of the index first, then the same scrambled, so that no part is a constant.
            let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *byte = if i < 4 {
                (index >> (8 * i)) as u8
            } else {
                (mixed >> (8 * (i % 8))) as u8
            } ^ (17 * i) as u8;
        }
        bytemuck::pod_read_unaligned(&bytes)
    }
}

impl<T: Element + Debug> Plain for T {}

fn numbered<T: Plain, D: Dimension>(shape: impl ndarray::ShapeBuilder<Dim = D>) -> Array<T, D> {
    let mut index = 0;
    Array::from_shape_simple_fn(shape, || {
        index += 1;
        T::nth(index - 1)
    })
}

/// The elements are those of `wanted`, in C order.
#[track_caller]
fn assert_array<T: Plain, D: Dimension, S: Data<Elem = T>>(
    got: &DeviceArray<T, D>,
    wanted: &ArrayBase<S, D>,
    what: &dyn Debug,
) {
    let got = got.to_ndarray().unwrap();
    assert!(got.is_standard_layout());
    assert_eq!(got.shape(), wanted.shape(), "{what:?}");
    let mut pairs = got.indexed_iter().zip(wanted.iter());
    // By their bytes: NaN equals itself here.
    if let Some(((index, got), wanted)) = pairs.find(|((_, got), wanted)| bytes_of(*got) != bytes_of(*wanted)) {
        panic!(
            "{what:?} of {}: at {index:?} is {got:?}, wanted {wanted:?}",
            std::any::type_name::<T>()
        );
    }
}

/// The transpose, into new and existing memory, and twice.
fn check_transpose<T: Plain>(rows: usize, columns: usize) {
    let x = numbered::<T, _>((rows, columns));
    let on_device = upload(&x);
    let transposed = on_device.transpose().unwrap();
    assert_array(&transposed, &x.t(), &(rows, columns));
    let mut back = upload(&Array2::from_elem((rows, columns), T::nth(77)));
    transposed.transpose_into(&mut back).unwrap();
    assert_array(&back, &x, &("twice", rows, columns));
}

/// Sizes at the boundaries of a warp and of the tiles of every element size, and primes.
const SIDES: [usize; 12] = [1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 97, 128];

fn every_side<T: Plain>() {
    for (i, rows) in SIDES.into_iter().enumerate() {
        // Every pair once, in one order or the other; the square ones too.
        for columns in SIDES.into_iter().skip(i) {
            let (rows, columns) = if (rows + columns) % 2 == 0 {
                (rows, columns)
            } else {
                (columns, rows)
            };
            check_transpose::<T>(rows, columns);
        }
    }
    for (rows, columns) in [
        (129, 260),
        (256, 131),
        (127, 129),
        (1, 1001),
        (1001, 1),
        (3, 700),
        (700, 5),
    ] {
        check_transpose::<T>(rows, columns);
    }
}

macro_rules! for_plain {
    ($function:ident: $($name:ident = $type:ty),*) => {
        mod $function {
            $(
                #[test]
                fn $name() {
                    super::$function::<$type>();
                }
            )*
        }
    };
}

/// Short sides of every length, that make one stretch of several tiles of the other side, and rows that begin anywhere.
fn every_short_side<T: Plain>() {
    for short in (2..=64 / size_of::<T>()).chain([70]) {
        let long = 17_000 / (size_of::<T>() * short) + short % 5;
        check_transpose::<T>(long, short);
    }
    // Stacks of such matrices, one behind another.
    let x = numbered::<T, _>((3, 301, 3));
    let wanted = x.view().permuted_axes([0, 2, 1]);
    assert_array(&upload(&x).permute([0, 2, 1]).unwrap(), &wanted, &"thin stack");
    let x = numbered::<T, _>((3, 3, 301));
    let wanted = x.view().permuted_axes([0, 2, 1]);
    assert_array(&upload(&x).permute([0, 2, 1]).unwrap(), &wanted, &"flat stack");
}

for_plain!(every_short_side: bytes_1 = u8, bytes_2 = i16, bytes_4 = f32, bytes_8 = u64, bytes_16 = u128);

/// Parts of matrices whose rows begin anywhere, with gaps between them on either side, and what lies in the gaps stays.
fn parts<T: Plain>() {
    let x = numbered::<T, _>((290, 301));
    let on_device = upload(&x);
    for (rows, columns) in [(200, 260), (129, 131), (270, 3), (3, 270), (100, 1)] {
        for (top, left) in [(0, 0), (1, 1), (2, 3), (5, 2)] {
            let part = ndarray::s![top..top + rows, left..left + columns];
            let view = on_device.slice(part).unwrap();
            let wanted = x.slice(part);
            assert_array(&view.transpose().unwrap(), &wanted.t(), &(rows, columns, top, left));
            let mut host = Array2::from_elem((columns + 7, rows + 9), T::nth(78));
            let mut out = upload(&host);
            let inner = ndarray::s![left + 1..left + 1 + columns, top + 2..top + 2 + rows];
            view.transpose_into(&mut out.slice_mut(inner).unwrap()).unwrap();
            host.slice_mut(inner).assign(&wanted.t());
            assert_array(&out, &host, &("into a part", rows, columns, top, left));
        }
    }
}

for_plain!(parts: bytes_1 = u8, bytes_2 = i16, bytes_4 = f32, bytes_8 = u64, bytes_16 = u128);

for_plain!(every_side: bytes_1 = u8, bytes_2 = i16, bytes_4 = f32, bytes_8 = u64, bytes_16 = u128);

/// Lines that begin and end anywhere in words and chunks, on both sides, and what is beside them stays.
fn lines<T: Plain>() {
    let x = numbered::<T, _>((5, 3, 180));
    let on_device = upload(&x);
    for len in [63, 64, 65, 66, 67, 71, 79, 80, 129] {
        for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (3, 7), (16, 5), (17, 17)] {
            let part = ndarray::s![1..4, .., from..from + len];
            let (view, wanted) = (on_device.slice(part).unwrap(), x.slice(part));
            assert_array(&view.to_array().unwrap(), &wanted, &(len, from));
            let mut host = Array3::from_elem((4, 3, len + 20), T::nth(79));
            let mut out = upload(&host);
            let inner = ndarray::s![1.., .., to..to + len];
            out.slice_mut(inner).unwrap().assign(&view).unwrap();
            host.slice_mut(inner).assign(&wanted);
            assert_array(&out, &host, &("into a part", len, from, to));
        }
    }
    // Rows from the last to the first, and each several times.
    let part = ndarray::s![..;-1, .., 1..100];
    let view = on_device.slice(part).unwrap();
    assert_array(&view.to_array().unwrap(), &x.slice(part), &"backwards");
    let row = x.slice(ndarray::s![2, 1, 3..90]);
    let repeated = on_device.slice(ndarray::s![2, 1, 3..90]).unwrap();
    let repeated = repeated.broadcast((6, 87)).unwrap().to_array().unwrap();
    assert_array(&repeated, &row.broadcast((6, 87)).unwrap(), &"repeated");
}

for_plain!(lines: bytes_1 = u8, bytes_2 = i16, bytes_3 = [u8; 3], bytes_4 = f32, bytes_8 = u64);

/// Elements that are no word, and words that want less alignment than the kernels' own.
fn some_sides<T: Plain>() {
    for (rows, columns) in [(1, 1), (2, 3), (33, 31), (64, 65), (40, 3), (3, 40), (1, 50)] {
        check_transpose::<T>(rows, columns);
    }
    let x = numbered::<T, _>((3, 20, 30));
    assert_array(
        &upload(&x).permute([1, 2, 0]).unwrap(),
        &x.view().permuted_axes([1, 2, 0]),
        &"three axes",
    );
}

for_plain!(
    some_sides: bytes_3 = [u8; 3], bytes_5 = [u8; 5], bytes_6 = [u16; 3], bytes_4_of_1 = [u8; 4], bytes_8_of_4 = [f32; 2],
    bytes_12 = [f32; 3], bytes_16_of_1 = [u8; 16], bytes_24 = [u64; 3], bytes_32 = [u32; 8], bytes_40 = [f64; 5],
    bytes_256 = [u32; 64]
);

#[test]
fn elements_without_bytes() {
    let x = upload(&Array2::from_elem((3, 4), [0u8; 0]));
    assert_eq!(
        x.transpose().unwrap().to_ndarray().unwrap(),
        Array2::from_elem((4, 3), [])
    );
}

#[test]
fn empty_arrays() {
    for (rows, columns) in [(0, 0), (0, 5), (5, 0), (0, 1 << 40)] {
        let x = DeviceArray::<u32, _>::zeros(device().default_stream(), (rows, columns)).unwrap();
        assert_eq!(x.transpose().unwrap().shape(), [columns, rows]);
    }
    let x = upload(&Array3::<u16>::zeros((3, 0, 4)));
    assert_eq!(x.permute([2, 0, 1]).unwrap().shape(), [4, 3, 0]);
}

#[test]
fn no_axis_and_one() {
    let x = upload(&ndarray::arr0(7u8));
    assert_eq!(x.transpose().unwrap().to_ndarray().unwrap(), ndarray::arr0(7));
    let x = numbered::<u16, _>(100);
    assert_array(&upload(&x).transpose().unwrap(), &x, &"one axis");
    assert_array(&upload(&x).permute([0]).unwrap(), &x, &"one axis");
}

/// The smallest bits of a NaN, its sign and whether it is quiet stay.
#[test]
fn bits_of_nan_are_kept() {
    let bits = |i: u32| [0x7f80_0001, 0xff80_0000, 0x7fc0_0000, 0xffff_ffff, 0x8000_0000][(i % 5) as usize] | (i << 3);
    let x = Array2::from_shape_fn((40, 50), |(y, x)| f32::from_bits(bits((50 * y + x) as u32)));
    let transposed = upload(&x).transpose().unwrap().to_ndarray().unwrap();
    assert_eq!(transposed.mapv(f32::to_bits), x.t().mapv(f32::to_bits));
    let x = x.mapv(|x| f64::from_bits(u64::from(x.to_bits()) << 32 | 1));
    let transposed = upload(&x).transpose().unwrap().to_ndarray().unwrap();
    assert_eq!(transposed.mapv(f64::to_bits), x.t().mapv(f64::to_bits));
}

#[test]
fn every_order_of_three_axes() {
    fn check<T: Plain>(shape: [usize; 3]) {
        let x = numbered::<T, _>(shape);
        let on_device = upload(&x);
        for axes in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let wanted = x.view().permuted_axes(axes);
            assert_array(&on_device.permute(axes).unwrap(), &wanted, &(shape, axes));
            let mut out = upload(&wanted.mapv(|_| T::nth(99)));
            on_device.permute_into(axes, &mut out).unwrap();
            assert_array(&out, &wanted, &(shape, axes));
        }
    }
    for shape in [
        [3, 40, 35],
        [40, 35, 3],
        [2, 64, 128],
        [33, 1, 70],
        [16, 16, 16],
        [5, 3, 7],
    ] {
        check::<u8>(shape);
        check::<u16>(shape);
        check::<f32>(shape);
        check::<f64>(shape);
        check::<u128>(shape);
        check::<[u8; 3]>(shape);
    }
}

/// A stack of matrices, and rows that are copied in wide accesses.
#[test]
fn stacks_and_rows() {
    let x = numbered::<u8, _>((5, 130, 132));
    assert_array(
        &upload(&x).permute([0, 2, 1]).unwrap(),
        &x.view().permuted_axes([0, 2, 1]),
        &"stack",
    );
    let x = numbered::<u8, _>((5, 129, 131));
    assert_array(
        &upload(&x).permute([0, 2, 1]).unwrap(),
        &x.view().permuted_axes([0, 2, 1]),
        &"odd stack",
    );
    let x = numbered::<u16, _>((2, 3, 66, 67));
    assert_array(
        &upload(&x).permute([1, 3, 0, 2]).unwrap(),
        &x.view().permuted_axes([1, 3, 0, 2]),
        &"four axes",
    );
    for columns in [1, 2, 4, 5, 8, 16, 31, 48] {
        let x = numbered::<u8, _>((20, 30, columns));
        assert_array(
            &upload(&x).permute([1, 0, 2]).unwrap(),
            &x.view().permuted_axes([1, 0, 2]),
            &columns,
        );
    }
}

/// More axes than one launch takes, none of which can be merged with another.
#[test]
fn many_axes() {
    let x = numbered::<u16, _>(IxDyn(&[2; 12]));
    assert_array(&upload(&x).transpose().unwrap(), &x.t(), &"twelve axes");
    let x = numbered::<u8, _>(IxDyn(&[2, 2, 2, 2, 2, 2, 2, 32, 33]));
    let axes = [6, 5, 4, 3, 2, 1, 0, 8, 7];
    assert_array(
        &upload(&x).permute(&axes[..]).unwrap(),
        &x.view().permuted_axes(&axes[..]),
        &"nine axes",
    );
}

/// A shape of few or many short and long axes, and an order of them.
fn shape_and_axes(most: usize) -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    let length = prop_oneof![4 => 1..6usize, 1 => Just(1), 2 => 6..40usize];
    let shape = proptest::collection::vec(length, 1..6).prop_filter("not too many", move |shape: &Vec<usize>| {
        shape.iter().product::<usize>() <= most
    });
    shape.prop_flat_map(|shape| {
        let axes: Vec<usize> = (0..shape.len()).collect();
        (Just(shape), Just(axes).prop_shuffle())
    })
}

/// The axes in that order, and back.
fn check_order<T: Plain>(shape: &[usize], axes: &[usize]) {
    let x = numbered::<T, _>(IxDyn(shape));
    let permuted = upload(&x).permute(axes).unwrap();
    assert_array(&permuted, &x.view().permuted_axes(axes), &(shape, axes));
    let mut inverse = vec![0; axes.len()];
    axes.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    assert_array(&permuted.permute(&inverse[..]).unwrap(), &x, &("and back", shape, axes));
}

#[test]
fn random_orders() {
    let checks = [
        check_order::<u8>,
        check_order::<u16>,
        check_order::<u32>,
        check_order::<f64>,
        check_order::<u128>,
        check_order::<[u8; 3]>,
        check_order::<[u32; 3]>,
    ];
    proptest!(cases(40), |((shape, axes) in shape_and_axes(40_000))| {
        checks.iter().for_each(|check| check(&shape, &axes));
    });
}

/// Every layout of a host array, and parts of Fortran order, on the way up.
#[test]
fn uploads_of_every_layout() {
    fn check<T: Number>() {
        let base = layout_base::<T>(3);
        for (layout, view) in layouts(&base) {
            let wanted: Vec<T> = view.iter().copied().collect();
            assert_same(&elements(&upload(&view)), &wanted, layout);
            let mut existing = upload(&view.mapv(|_| T::SPECIAL[0]));
            existing.assign_ndarray(&view).unwrap();
            assert_same(&elements(&existing), &wanted, layout);
        }
    }
    check::<u8>();
    check::<f32>();
    check::<f64>();
}

#[test]
fn uploads_of_every_order_of_axes() {
    let x = numbered::<u16, _>((6, 1, 35, 33));
    for axes in [[3, 2, 1, 0], [0, 1, 3, 2], [2, 1, 0, 3], [1, 3, 0, 2], [3, 0, 1, 2]] {
        let view = x.view().permuted_axes(axes);
        assert_array(&upload(&view), &view, &axes);
    }
    let reversed = x.slice(ndarray::s![.., .., ..;-1, ..]);
    assert_array(&upload(&reversed.t()), &reversed.t(), &"one reversed, transposed");
}

#[test]
fn outputs_of_other_shapes_are_an_error_and_stay_as_they_are() {
    let x = upload(&array![[1, 2, 3], [4, 5, 6]]);
    let mut out = upload(&Array2::from_elem((2, 3), 9));
    assert_eq!(
        x.transpose_into(&mut out).unwrap_err().to_string(),
        "transpose: given an output of shape [2, 3], wanted one of shape [3, 2]"
    );
    assert_eq!(
        x.permute_into([1, 0], &mut out).unwrap_err().to_string(),
        "permute: given an output of shape [2, 3], wanted one of shape [3, 2]"
    );
    assert_eq!(
        x.t().to_array_into(&mut out).unwrap_err().to_string(),
        "to_array: given an output of shape [2, 3], wanted one of shape [3, 2]"
    );
    assert_eq!(out.to_ndarray().unwrap(), Array2::from_elem((2, 3), 9));
}

#[test]
fn axes_that_are_not_each_once_are_an_error() {
    let x = upload(&Array3::<u8>::zeros((2, 3, 4)));
    let mut out = upload(&Array3::<u8>::zeros((2, 3, 4)));
    for axes in [[0, 1, 1], [0, 1, 3], [3, 1, 2]] {
        let text = format!("permute: given axes {axes:?}, wanted each of the 3 axes once");
        assert_eq!(x.permute(axes).unwrap_err().to_string(), text);
        assert_eq!(x.permute_into(axes, &mut out).unwrap_err().to_string(), text);
    }
    let error = x.into_dyn().permute(&[0, 1][..]).unwrap_err().to_string();
    assert_eq!(error, "permute: given axes [0, 1], wanted each of the 3 axes once");
}

/// Also where nothing is launched, and nothing even to do.
#[test]
fn outputs_on_another_device_are_an_error() {
    let other = Device::simulator();
    for len in [0, 3] {
        let x = upload(&Array1::<u8>::zeros(len));
        let mut out = DeviceArray::zeros(other.default_stream(), len).unwrap();
        let error = x.transpose_into(&mut out).unwrap_err().to_string();
        assert!(error.starts_with("transpose: given an operand on "), "{error}");
    }
}

/// The transpose runs on the array's own stream, and waits for the output's.
#[test]
fn between_streams() {
    let other = device().create_stream().unwrap();
    let x = numbered::<u32, _>((300, 200));
    let on_device = upload(&x);
    let mut out = DeviceArray::zeros(&other, (200, 300)).unwrap();
    on_device.transpose_into(&mut out).unwrap();
    assert_array(&out, &x.t(), &"into another stream's array");
    assert_array(&out.transpose().unwrap(), &x, &"and back on that stream");
}
