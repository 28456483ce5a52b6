// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two arrays side by side whose lines are short: by one launch, which writes the output in whole words.

use kernels_gpu::transpose::{CHUNK, Extent, Joined, STRIDED_THREADS, Side, join_lines};
use ndarray::Dimension;

use super::plan::{Axis, Lie, Plan};
use super::{LEAST_OF_TWO, MOST, tiles};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{Words, WordsMut};

/// Rows of the output with so many bytes have enough of each array in one stretch to be copied line by line.
const LONG_ROW: usize = 256;

/// Makes `out`, which is in C order without a gap, of two arrays side by side along an axis, and says whether that was
/// possible: where lines of one or the other are too short to be copied by themselves, and those of an array are all
/// equally far apart.
pub(in super::super) fn join_two<T: Element, D: Dimension>(
    views: [&DeviceArrayRef<T, D>; 2],
    axis: usize,
    out: &mut DeviceArray<T, D>,
) -> Result<bool> {
    join_two_by(views, axis, out, MOST)
}

/// [`join_two`] in launches that make at most `most` bytes, but at least as many rows as end with a chunk.
pub(super) fn join_two_by<T: Element, D: Dimension>(
    views: [&DeviceArrayRef<T, D>; 2],
    axis: usize,
    out: &mut DeviceArray<T, D>,
    most: usize,
) -> Result<bool> {
    let (before, row) = rows_along::<T>(out.shape(), axis);
    // Ahead of the plans: these are all that most arrays need to be asked for.
    if before < 2 || row >= LONG_ROW || views.iter().any(|view| view.is_empty()) || size_of::<T>() == 0 {
        return Ok(false);
    }
    let (address, strides) = (out.address(), out.strides().to_vec());
    let lines = views.map(|view| Lined::of(view, &strides, address).filter(|of| of.are_rows(before, row)));
    let [Some(of_x), Some(of_y)] = lines else {
        return Ok(false);
    };
    if of_x.len + of_y.len != row || !address.is_multiple_of(CHUNK as u64) {
        return Ok(false);
    }
    let all = [&of_x, &of_y].map(|of| of.len | of.stride);
    let addresses = views.map(|view| view.address() as usize);
    let word = 1 << (all[0] | all[1] | addresses[0] | addresses[1] | CHUNK).trailing_zeros();
    // Words of 8 bytes go by halves: they have no code of their own.
    let word = if word == 8 { 4 } else { word };
    // Lines that are copied by themselves have their ends looked at by bytes, unless they lie in vectors.
    let short = if matches!(word, 2 | 4) {
        2 * LEAST_OF_TWO
    } else {
        LEAST_OF_TWO
    };
    if of_x.len.min(of_y.len) >= short {
        return Ok(false);
    }
    let [x, y] = views.map(|view| Words::<u8>::of(view));
    let (stream, mut out) = (out.stream().clone(), WordsMut::<u8>::of(out));
    let at_a_time = (most / row / CHUNK).max(1) * CHUNK;
    for first in (0..of_x.rows).step_by(at_a_time) {
        let rows = at_a_time.min(of_x.rows - first);
        let plan = Joined {
            x: of_x.from(first),
            y: of_y.from(first),
            out_first: (first * row) as u64,
            row: Extent::new(row),
            x_len: of_x.len as u32,
            rows: rows as u32,
            word,
            zero: 0,
        };
        let config = tiles((rows * row).div_ceil(CHUNK), STRIDED_THREADS, STRIDED_THREADS);
        stream.launch::<join_lines>(&config, (x.cast::<u8>(), y.cast::<u8>(), plan, out.cast::<u8>()))?;
    }
    Ok(true)
}

/// Whether lines of the array, which has elements, are equally far apart, one for each row of an array of that shape in C order without a
/// gap, which has others beside it along the axis: what [`join_two`] wants of each.
pub(in super::super) fn is_lined<T: Element, D: Dimension>(
    view: &DeviceArrayRef<T, D>,
    axis: usize,
    shape: &[usize],
) -> bool {
    let (before, row) = rows_along::<T>(shape, axis);
    // An array of more bytes cannot be made.
    if before.saturating_mul(row) >= isize::MAX as usize {
        return false;
    }
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    Lined::of(view, &strides, 0).is_some_and(|of| of.are_rows(before, row))
}

/// How many rows an array of that shape has, of what lies along the axis and behind it, and the bytes of one. Numbers that
/// are too large are the largest.
pub(in super::super) fn rows_along<T>(shape: &[usize], axis: usize) -> (usize, usize) {
    let (before, behind) = shape.split_at(axis);
    let product = |first, lens: &[usize]| lens.iter().fold(first, |all: usize, &len| all.saturating_mul(len));
    (product(1, before), product(size_of::<T>(), behind))
}

/// Lines of one array that are equally far apart, in bytes.
struct Lined {
    rows: usize,
    len: usize,
    stride: usize,
    /// From one to the next in the output.
    distance: usize,
}

impl Lined {
    /// Of an array that has elements, as it is copied to an address, in C order with these strides.
    fn of<T: Element, D: Dimension>(view: &DeviceArrayRef<T, D>, out: &[isize], address: u64) -> Option<Self> {
        let lie = Lie {
            shape: view.shape(),
            x: view.strides(),
            out,
            bytes: size_of::<T>(),
            addresses: [view.address(), address],
        };
        Self::new(&Plan::new(&lie).into_lines(1)?)
    }

    /// Whether there is one for each of so many rows of the output, each of so many bytes.
    fn are_rows(&self, rows: usize, row: usize) -> bool {
        (self.rows, self.distance) == (rows, row)
    }

    /// Of the axes of a copy by lines; `None` if the lines are along more axes than one, or go backwards.
    fn new(axes: &[Axis]) -> Option<Self> {
        let [along, line] = axes else { return None };
        Some(Self {
            rows: along.len,
            len: line.len,
            stride: usize::try_from(along.x).ok()?,
            distance: along.out,
        })
    }

    /// The lines from that one on.
    fn from(&self, first: usize) -> Side {
        Side {
            first: (first * self.stride) as u64,
            stride: self.stride as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::s;

    use super::*;
    use crate::{Device, Result};

    #[test]
    fn crops_flipped_rows_and_transposed_arrays_are_not_lined() -> Result<()> {
        let device = Device::simulator();
        let x = DeviceArray::<f32, _>::zeros(device.default_stream(), (40, 3))?;
        for (part, is) in [
            (x.view(), true),
            (x.slice(s![.., 1..])?, true),
            (x.slice(s![.., 2..])?, true),
            (x.slice(s![..1, ..])?.broadcast((40, 3))?, true),
            (x.slice(s![..;-1, ..])?, false),
            (x.slice(s![.., ..;2])?, false),
        ] {
            let (shape, strides) = ([40, 9], part.strides().to_vec());
            assert_eq!(is_lined(&part, 1, &shape), is, "{:?} by {strides:?}", part.shape());
        }
        let columns = DeviceArray::<f32, _>::zeros(device.default_stream(), (3, 40))?;
        assert!(!is_lined(&columns.t(), 1, &[40, 9]));
        let picture = DeviceArray::<f32, _>::zeros(device.default_stream(), (8, 10, 4))?;
        assert!(is_lined(&picture.slice(s![.., .., 1..3])?, 2, &[8, 10, 6]));
        assert!(!is_lined(&picture.slice(s![.., 1..6, 1..3])?, 2, &[8, 5, 6]));
        // More bytes than there are addresses.
        let one = x.slice(s![..1, ..])?;
        assert!(!is_lined(
            &one.broadcast((usize::MAX >> 4, 3))?,
            1,
            &[usize::MAX >> 4, 9]
        ));
        Ok(())
    }
}
