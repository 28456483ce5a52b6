// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements in order, and what follows from it: where they were, which of them there are, and how many of each.

use kernels_gpu::compiled::{Number, Sort};
use kernels_gpu::sort::rows::{self, RowWord};
use kernels_gpu::sort::{COUNTING_BLOCKS, COUNTING_THREADS, DIGIT_BITS, DIGITS, Pass, THREADS, control, tile_len};
use ndarray::{Axis, Dimension, Ix1, s};

use super::lanes::of_lanes;
use super::{concatenate, tiles};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, Words, WordsMut};

/// The most elements, whose places have 32 bits.
const MOST: usize = u32::MAX as usize;

/// What is wanted of elements in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Elements,
    Places,
}

/// Sorting: a radix sort, in passes of 8 bits from the lowest to the highest, each of which reads and writes the elements once, behind
/// one look at them all that counts the digits. So it takes as long for elements in any order. Where all elements have the same 8 bits,
/// as small numbers of wide types do, a pass but copies them.
///
/// Integers are in the order of their numbers. Floats are in that of `total_cmp`, −0 before +0, but that all NaN come last, as
/// NumPy's. The sort is stable: equal elements keep their order, and so there is one result, with the same bits on every device.
impl<T: Element + Sort, D: Dimension> DeviceArrayRef<T, D> {
    /// The elements in ascending order along an axis: NumPy's `sort`. In descending order they are the
    /// [flipped](Self::flip) result.
    ///
    /// # Cost
    ///
    /// A pass for each byte of an element, and where there are several lanes along the axis another one for each byte of their
    /// number; then 4 bytes are moved with each element. Beside the result as much memory again, where there are several passes, and for
    /// counts an eighth of a byte for each element, a quarter of 64 bits. Along another axis than the last, elements are copied before and
    /// after. For the few largest, [`top_k`](Self::top_k) takes less.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if there is no such axis, [`Error::Shape`] for 2³² elements or more; those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[3.0f32, -1.0, 2.0], [0.5, 7.0, -2.0]])?;
    /// let sorted = x.sort(Axis(1))?;
    /// assert_eq!(sorted.to_ndarray()?, array![[-1.0, 2.0, 3.0], [-2.0, 0.5, 7.0]]);
    /// assert_eq!(sorted.flip(Axis(1))?.to_ndarray()?, array![[3.0, 2.0, -1.0], [7.0, 0.5, -2.0]]);
    /// assert_eq!(x.sort(Axis(0))?.to_ndarray()?, array![[0.5, -1.0, -2.0], [3.0, 7.0, 2.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sort(&self, axis: Axis) -> Result<DeviceArray<T, D>> {
        self.layout.check_axis("sort", axis.index())?;
        let len = self.shape()[axis.index()];
        if len <= 1 || self.is_empty() {
            return self.to_array();
        }
        let lanes = self.lanes_along(axis.index())?;
        of_lanes(elements_of_rows("sort", &lanes, len)?, self.raw_dim(), axis.index())
    }

    /// The places along an axis that the elements have in this array, in the order of the elements: NumPy's `argsort`, with
    /// `kind="stable"`. Equal elements are in the order of their places.
    ///
    /// [Taking](Self::take) these places of another array sorts that one by the elements of this one.
    ///
    /// # Cost
    ///
    /// As [`sort`](Self::sort), with 4 bytes moved with each element in any case; then they are made `u64`.
    ///
    /// # Errors
    ///
    /// Those of [`sort`](Self::sort).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let keys = DeviceArray::from_ndarray(device.default_stream(), &array![3, 1, 2, 1])?;
    /// let order = keys.argsort(Axis(0))?;
    /// assert_eq!(order.to_ndarray()?, array![1, 3, 2, 0]);
    ///
    /// let rows = DeviceArray::from_ndarray(device.default_stream(), &array![[30, 31], [10, 11], [20, 21], [12, 13]])?;
    /// let by_key = rows.take(Axis(0), &order)?;
    /// assert_eq!(by_key.to_ndarray()?, array![[10, 11], [12, 13], [20, 21], [30, 31]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn argsort(&self, axis: Axis) -> Result<DeviceArray<u64, D>> {
        self.layout.check_axis("argsort", axis.index())?;
        let (stream, len) = (self.stream(), self.shape()[axis.index()]);
        if len <= 1 || self.is_empty() {
            return DeviceArray::zeros(stream, self.raw_dim());
        }
        let lanes = self.lanes_along(axis.index())?;
        of_lanes(places_of_rows("argsort", &lanes, len)?, self.raw_dim(), axis.index())
    }
}

/// What there is, of all elements.
impl<T: Element + Sort + Number, D: Dimension> DeviceArrayRef<T, D> {
    /// The different elements, in ascending order: NumPy's `unique`. −0 and +0 are one, as all NaN are, which come last. Waits
    /// for their number.
    ///
    /// # Cost
    ///
    /// That of a [`sort`](Self::sort) of all elements, and of a [`compress`](Self::compress).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] for 2³² elements or more; those of an allocation and a launch; waits for a result, so also those of
    /// earlier kernels.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[2, 7, 2], [1, 7, 7]])?;
    /// assert_eq!(x.unique()?.to_ndarray()?, array![1, 2, 7]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn unique(&self) -> Result<DeviceArray<T, Ix1>> {
        let (elements, first) = self.first_of_each("unique")?;
        elements.take(Axis(0), &first)
    }

    /// [`unique`](Self::unique), and how often each occurs: NumPy's, with `return_counts=True`. For small integers
    /// [`bincount`](Self::bincount) takes less.
    ///
    /// # Errors
    ///
    /// Those of [`unique`](Self::unique).
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![0.5f32, 2.0, f32::NAN, 0.5, f32::NAN])?;
    /// let (elements, counts) = x.unique_counts()?;
    /// assert_eq!(elements.to_ndarray()?.to_vec()[..2], [0.5, 2.0]);
    /// assert_eq!(counts.to_ndarray()?, array![2, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn unique_counts(&self) -> Result<(DeviceArray<T, Ix1>, DeviceArray<u64, Ix1>)> {
        let (elements, first) = self.first_of_each("unique_counts")?;
        if first.is_empty() {
            return Ok((elements, first));
        }
        let end = DeviceArray::from_elem(self.stream(), 1, self.len() as u64)?;
        let mut counts = concatenate(Axis(0), &[first.slice(s![1..])?, end.view()])?;
        counts.sub_assign(&first)?;
        Ok((elements.take(Axis(0), &first)?, counts))
    }

    /// All elements in order.
    pub(super) fn all_sorted(&self, operation: &'static str) -> Result<DeviceArray<T, Ix1>> {
        let elements = self.in_order()?;
        let elements = elements.in_shape(Ix1(self.len()));
        if self.len() <= 1 {
            return elements.to_array();
        }
        elements_of_rows(operation, &elements, self.len())
    }

    /// All elements in order, and the places of those that differ from the one before them.
    fn first_of_each(&self, operation: &'static str) -> Result<(DeviceArray<T, Ix1>, DeviceArray<u64, Ix1>)> {
        let elements = self.all_sorted(operation)?;
        let len = elements.len();
        let mut is_first = DeviceArray::<u8, _>::ones(self.stream(), len)?;
        if len > 1 {
            let (before, after) = (elements.slice(s![..len - 1])?, elements.slice(s![1..])?);
            let mut others = is_first.slice_mut(s![1..])?;
            after.not_equal_into(&before, &mut others)?;
            if is_nan(elements.get(len - 1)?) {
                // One that is behind another differs from that, as it does from itself.
                others.mul_assign(&before.equal(&before)?)?;
            }
        }
        let first = is_first.flatnonzero()?;
        Ok((elements, first))
    }
}

/// Whether a number is none.
pub(super) fn is_nan<T: PartialOrd>(x: T) -> bool {
    x.partial_cmp(&x).is_none()
}

/// The elements of rows of `len` elements, each sorted by itself. There are two elements at least.
fn elements_of_rows<T: Element + Sort>(
    operation: &'static str,
    x: &DeviceArrayRef<T, Ix1>,
    len: usize,
) -> Result<DeviceArray<T, Ix1>> {
    if len > rows::most::<KeyOf<T>>() {
        return Ok(sorted(operation, x, len, Wanted::Elements)?.0);
    }
    let mut out = DeviceArray::uninit(x.stream(), Ix1(x.len()))?;
    let config = tiles(x.len() / len, rows::rows_of_block::<KeyOf<T>>(len), rows::THREADS);
    let args = (Words::of::<T, _>(x), len as u32, T::PASS, WordsMut::of(&mut out));
    x.stream().launch::<T::Rows>(&config, args)?;
    Ok(out)
}

/// The places in their row of the elements of rows of `len`, in their order. There are two elements at least.
fn places_of_rows<T: Element + Sort>(
    operation: &'static str,
    x: &DeviceArrayRef<T, Ix1>,
    len: usize,
) -> Result<DeviceArray<u64, Ix1>> {
    let (stream, rows) = (x.stream(), x.len() / len);
    if len <= rows::most::<PlacedOf<T>>() {
        let mut out = DeviceArray::uninit(stream, Ix1(x.len()))?;
        let config = tiles(rows, rows::rows_of_block::<PlacedOf<T>>(len), rows::THREADS);
        stream.launch::<T::RowPlaces>(&config, (Words::of::<T, _>(x), len as u32, T::PASS, &mut out))?;
        return Ok(out);
    }
    let (_, places) = sorted(operation, x, len, Wanted::Places)?;
    let places = places.cast::<u64>()?;
    if rows == 1 {
        return Ok(places);
    }
    let first_of_row = DeviceArray::range(stream, 0, x.len() as u64, len as u64)?;
    let mut of_rows = places.into_shape((rows, len))?;
    of_rows.sub_assign(&first_of_row.into_shape((rows, 1))?)?;
    of_rows.into_shape(x.len())
}

/// What short rows are sorted by.
type KeyOf<T> = <<T as Sort>::Word as RowWord>::Key;

/// What they are sorted by where places are wanted.
pub(super) type PlacedOf<T> = <<T as Sort>::Word as RowWord>::Placed;

/// The elements of rows of `len` elements, each sorted by itself, or their places in `x`. There are two elements at least.
fn sorted<T: Element + Sort>(
    operation: &'static str,
    x: &DeviceArrayRef<T, Ix1>,
    len: usize,
    wanted: Wanted,
) -> Result<(DeviceArray<T, Ix1>, DeviceArray<u32, Ix1>)> {
    if x.len() > MOST {
        return Err(Error::Shape {
            operation,
            given: format!("{} elements", x.len()),
            wanted: format!("at most {MOST}"),
        });
    }
    let (stream, rows) = (x.stream(), x.len() / len);
    let passes = passes::<T>(rows, len);
    let config = tiles(x.len(), tile_len::<T::Word>(), THREADS);
    let tiles_of_part = control::tiles_of_part::<T::Word>();
    let parts = config.grid.x.div_ceil(tiles_of_part);
    let mut control = DeviceArray::<u64, _>::zeros(stream, control::len(passes.len(), parts as usize))?;
    let mut states = DeviceArray::<u32, _>::uninit(stream, Ix1(config.grid.x as usize * DIGITS))?;
    let has_places = wanted == Wanted::Places || rows > 1;

    let counting = {
        let blocks = stream.backend().properties().multiprocessors * COUNTING_BLOCKS as u32;
        LaunchConfig::new(config.grid.x.min(blocks), COUNTING_THREADS as u32)
    };
    let by_row = Pass {
        row_len: len as u32,
        ..T::PASS
    };
    let args = (
        Words::of::<T, _>(x),
        by_row,
        rows as u32,
        parts,
        &mut control,
        &mut states,
    );
    stream.launch::<T::Count>(&counting, args)?;

    // What the last pass has written, and what the next one writes.
    let mut elements = None;
    let mut places = DeviceArray::<u32, _>::uninit(stream, Ix1(0))?;
    let (mut spare, mut spare_places) = (None, None);
    for (number, &pass) in passes.iter().enumerate() {
        let is_last = number + 1 == passes.len();
        let room = |is_wanted: bool| Ix1(if is_wanted { x.len() } else { 0 });
        let mut elements_out = match spare.take() {
            Some(array) if !is_last || wanted == Wanted::Elements => array,
            _ => DeviceArray::<T, _>::uninit(stream, room(!is_last || wanted == Wanted::Elements))?,
        };
        let mut places_out = match spare_places.take() {
            Some(array) if !is_last || wanted == Wanted::Places => array,
            _ => DeviceArray::<u32, _>::uninit(stream, room(has_places && (!is_last || wanted == Wanted::Places)))?,
        };
        let words = || Words::<T::Word>::of::<T, _>(elements.as_deref().unwrap_or(x));
        let out = WordsMut::<T::Word>::of(&mut elements_out);
        let (number, count) = (number as u32, passes.len() as u32);
        let args = (
            words(),
            &places,
            pass,
            number,
            count,
            tiles_of_part,
            &mut control,
            &mut states,
            out,
            &mut places_out,
        );
        stream.launch::<T::Move>(&config, args)?;
        spare = elements.replace(elements_out);
        spare_places = (number > 0).then_some(std::mem::replace(&mut places, places_out));
    }
    Ok((elements.expect("there is a pass"), places))
}

/// A pass for each digit of an element, and then for each of a row's number.
fn passes<T: Sort>(rows: usize, len: usize) -> Vec<Pass> {
    let shifts = |bits: u32| (0..bits).step_by(DIGIT_BITS as usize);
    let of_elements = shifts(u8::BITS * size_of::<T>() as u32).map(|shift| Pass { shift, ..T::PASS });
    let row_len = len as u32;
    let of_rows = shifts(usize::BITS - (rows - 1).leading_zeros()).map(|shift| Pass {
        shift,
        row_len,
        ..T::PASS
    });
    of_elements.chain(of_rows).collect()
}
