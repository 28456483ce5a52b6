// SPDX-License-Identifier: MIT OR Apache-2.0
//! The element types of NumPy's files, and the bytes of those that the library has no kernels for.
//!
//! bool, i8 and i16 are computed in a wider integer type, which holds each of their values. A result of the same type is
//! the lowest bytes of the wide one: what arithmetic in that type, which wraps around, gives as well.

use std::fmt;

use anyhow::{Result, bail};

use crate::scalar::{Dtype, Number};

/// An element type of a .npy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// One that the library computes in.
    Of(Dtype),
    /// A byte, 0 or 1.
    Bool,
    I8,
    I16,
}

/// What messages name as the types that a file may hold.
const WANTED: &str = "wanted f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 or bool \
    (for NumPy f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1)";

impl Stored {
    /// The type that a header's `descr` names, in either byte order.
    pub fn from_descr(descr: &str) -> Result<Self> {
        let name = descr.strip_prefix(['<', '>', '|', '=']).unwrap_or_default();
        let narrow = [Stored::Bool, Stored::I8, Stored::I16];
        let all = Dtype::ALL.map(Stored::Of).into_iter().chain(narrow);
        match all.into_iter().find(|stored| stored.numpy_name() == name) {
            Some(stored) => Ok(stored),
            // How NumPy writes the bf16 of `ml_dtypes`, which it does not know.
            None if name == "V2" => bail!(
                "element type '{descr}': two bytes without a meaning, as bf16 is saved, for which NumPy has no type; \
                {WANTED}"
            ),
            None => bail!("element type '{descr}', {WANTED}"),
        }
    }

    /// The error for a `descr` that is no name.
    pub fn refuse(descr: &str) -> anyhow::Error {
        anyhow::anyhow!("element type {descr}, {WANTED}")
    }

    pub fn name(self) -> &'static str {
        match self {
            Stored::Of(dtype) => dtype.name(),
            Stored::Bool => "bool",
            Stored::I8 => "i8",
            Stored::I16 => "i16",
        }
    }

    /// NumPy's name without the byte order.
    pub fn numpy_name(self) -> &'static str {
        match self {
            Stored::Of(dtype) => dtype.numpy_name(),
            Stored::Bool => "b1",
            Stored::I8 => "i1",
            Stored::I16 => "i2",
        }
    }

    pub fn size(self) -> usize {
        match self {
            Stored::Of(dtype) => dtype.size(),
            Stored::Bool | Stored::I8 => 1,
            Stored::I16 => 2,
        }
    }

    /// The type that its elements are computed in.
    pub fn dtype(self) -> Dtype {
        match self {
            Stored::Of(dtype) => dtype,
            Stored::Bool => Dtype::U8,
            Stored::I8 | Stored::I16 => Dtype::I32,
        }
    }

    /// The type that its elements are summed and multiplied as. The library's result of it has NumPy's type: that of bool
    /// is signed.
    pub fn sum_dtype(self) -> Dtype {
        match self {
            Stored::Bool => Dtype::I32,
            stored => stored.dtype(),
        }
    }

    /// An error if these bytes are none of its elements, in the machine's byte order.
    pub fn check(self, elements: &[u8]) -> Result<()> {
        if self != Stored::Bool {
            return Ok(());
        }
        match elements.iter().find(|&&byte| byte > 1) {
            Some(byte) => bail!("an element of bool is {byte}, wanted 0 or 1"),
            None => Ok(()),
        }
    }

    /// Widens elements to integers of `wide` bytes each.
    pub fn widen(self, elements: &[u8], wide: usize, into: &mut [u8]) {
        for (narrow, wide) in elements.chunks_exact(self.size()).zip(into.chunks_exact_mut(wide)) {
            let negative = self != Stored::Bool && narrow.last().is_some_and(|byte| byte >> 7 == 1);
            let (low, high) = wide.split_at_mut(narrow.len());
            low.copy_from_slice(narrow);
            high.fill(if negative { 0xff } else { 0 });
        }
    }

    /// [`narrow`](Self::narrow) of numbers of type `T`; none if the elements are of that type.
    pub fn narrow_from<T: Number>(self, elements: &[u8]) -> Option<Vec<u8>> {
        (self != Stored::Of(T::DTYPE)).then(|| self.narrow(elements, size_of::<T>()))
    }

    /// The elements that the lowest bytes of wider integers are.
    pub fn narrow(self, elements: &[u8], wide: usize) -> Vec<u8> {
        let lowest = elements.chunks_exact(wide).flat_map(|wide| &wide[..self.size()]);
        lowest.copied().collect()
    }
}

const _: () = assert!(
    cfg!(target_endian = "little"),
    "an integer's first bytes are its lowest"
);

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_in_every_byte_order() {
        for stored in Dtype::ALL
            .map(Stored::Of)
            .into_iter()
            .chain([Stored::Bool, Stored::I8, Stored::I16])
        {
            for order in ["<", ">", "|", "="] {
                let descr = format!("{order}{}", stored.numpy_name());
                assert_eq!(Stored::from_descr(&descr).unwrap(), stored, "{descr}");
            }
        }
        for descr in ["f4", "<c8", "", "<", "f2<"] {
            assert!(Stored::from_descr(descr).is_err(), "{descr}");
        }
    }

    #[test]
    fn widening_and_narrowing_are_rusts_as() {
        let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
        let bytes: Vec<u8> = all.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let mut wide = vec![0; 8 * all.len()];
        Stored::I16.widen(&bytes, 8, &mut wide);
        let want: Vec<u8> = all.iter().flat_map(|&x| i64::from(x).to_ne_bytes()).collect();
        assert_eq!(wide, want);
        let low: Vec<u8> = all.iter().map(|&x| x as i8 as u8).collect();
        assert_eq!(Stored::I8.narrow(&wide, 8), low);
        let mut wide = [9; 8];
        Stored::Bool.widen(&[0, 1], 4, &mut wide);
        assert_eq!(wide, [0, 0, 0, 0, 1, 0, 0, 0]);
    }
}
