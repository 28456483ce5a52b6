// SPDX-License-Identifier: MIT OR Apache-2.0
//! NumPy's format, written and read by the tests themselves: without the library's functions, which are what is tested.

use bytemuck::{CheckedBitPattern, NoUninit};
use ndarray::{Array, ArrayD, Dimension, IxDyn, ShapeBuilder};

/// An element that a file can have.
pub trait Element: CheckedBitPattern + NoUninit {
    /// Its type in a header.
    const DESCR: &str;
}

macro_rules! elements {
    ($($type:ty: $descr:literal)*) => {$(
        impl Element for $type {
            const DESCR: &str = $descr;
        }
    )*};
}

elements! {
    bool: "|b1"
    i8: "|i1" u8: "|u1"
    i16: "<i2" u16: "<u2"
    i32: "<i4" u32: "<u4" f32: "<f4"
    i64: "<i8" u64: "<u8" f64: "<f8"
}

/// The magic number, the version and the header's length.
const BEFORE_HEADER: usize = 10;

/// The bytes of a file with that header, as text, and data.
pub fn bytes(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16 + 1).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

/// The header of elements of that NumPy type.
pub fn header(descr: &str, fortran_order: bool, shape: &str) -> String {
    let order = if fortran_order { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}")
}

/// The file of an array: in Fortran order if that is how it lies, else in C order.
pub fn write<T: Element, D: Dimension>(array: &Array<T, D>) -> Vec<u8> {
    let in_columns = !array.is_standard_layout() && array.t().is_standard_layout();
    let elements: Vec<T> = if in_columns {
        array.t().iter().copied().collect()
    } else {
        array.iter().copied().collect()
    };
    let axes: String = array.shape().iter().map(|len| format!("{len}, ")).collect();
    let mut header = header(T::DESCR, in_columns, &format!("({axes})"));
    let len = BEFORE_HEADER + header.len() + 1;
    header.push_str(&" ".repeat(len.next_multiple_of(64) - len));
    bytes(&header, bytemuck::cast_slice(&elements))
}

/// The array of a file, whose elements must be `T`.
#[track_caller]
pub fn read<T: Element>(file: &[u8]) -> ArrayD<T> {
    assert_eq!(file.first_chunk(), Some(b"\x93NUMPY\x01\x00"));
    let (header, data) = file[BEFORE_HEADER..].split_at(u16::from_le_bytes([file[8], file[9]]).into());
    let header = str::from_utf8(header).unwrap();
    assert_eq!((BEFORE_HEADER + header.len()) % 64, 0, "{header:?}");
    let value_of = |key: &str| header.split_once(key).unwrap_or_else(|| panic!("{header:?}")).1;
    assert!(
        value_of("'descr': '").starts_with(&format!("{}'", T::DESCR)),
        "{header:?}"
    );
    let in_columns = value_of("'fortran_order': ").starts_with("True");
    let axes = value_of("'shape': (").split_once(')').unwrap().0;
    let shape: Vec<usize> = axes
        .split(',')
        .map(str::trim)
        .filter(|len| !len.is_empty())
        .map(|len| len.parse().unwrap())
        .collect();
    let elements = data
        .chunks(size_of::<T>())
        .map(bytemuck::checked::pod_read_unaligned)
        .collect();
    ArrayD::from_shape_vec(IxDyn(&shape).set_f(in_columns), elements).unwrap()
}
