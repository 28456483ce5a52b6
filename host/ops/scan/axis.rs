// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis.

use kernels_gpu::compiled::Scan;
use kernels_gpu::op::ReduceOp;
use kernels_gpu::scan::axis::BLOCKS;
use kernels_gpu::scan::columns::{columns_of_thread, segment_len, tile_rows};
use kernels_gpu::scan::lookback::narrow;
use kernels_gpu::scan::{Lines, THREADS, lookback, vec_len, warp_tile_len};
use ndarray::{Axis, Dimension, IxDyn};

use super::lines::{Way, in_order, lines, rows_of_warp, way, way_of_view};
use super::{ScanKind, check, flag, look_back, look_back_config, state_len};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::Words;
use crate::ops::tiles;
use crate::view::{DeviceView, DeviceViewMut};

/// Bytes that a row of a tile has, if the columns are many: what a warp accesses at a time.
const LINE: usize = 128;

/// Bytes that it has at least, if there are as many columns: what memory moves at a time.
const SECTOR: usize = 32;

/// As many columns fill the device with a thread for each.
const MANY_COLUMNS: usize = 1 << 16;

/// With as many strips of columns tiles wait for one another no longer than with more.
const STRIPS: usize = 16;

fn along_axis_into<Op: ReduceOp<T>, T: Scan<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    axis: Axis,
    kind: ScanKind,
    out: &mut DeviceArrayRef<Op::Output, D>,
) -> Result<()> {
    let axis = axis.index();
    x.layout.check_axis(operation, axis)?;
    check(operation, x, out)?;
    if x.is_empty() {
        return Ok(());
    }
    along(
        x.view().into_dyn(),
        axis,
        kind,
        out.view_mut().into_dyn(),
        scan_lines::<Op, T>,
    )
}

/// What scans along an axis into results in C order: [`scan_lines`] by an operator.
type ScanLines<T, R> = fn(&DeviceArrayRef<T, IxDyn>, usize, ScanKind, &mut DeviceArrayRef<R, IxDyn>) -> Result<()>;

/// Scans along an axis into elements that lie as they may; compiled once for these types. There is at least one element.
fn along<T: Element, R: Element>(
    mut x: DeviceView<'_, T, IxDyn>,
    mut axis: usize,
    kind: ScanKind,
    mut out: DeviceViewMut<'_, R, IxDyn>,
    scan_lines: ScanLines<T, R>,
) -> Result<()> {
    // Lines are each scanned by themselves, so the axes can be in any order: that in which the results are.
    if let Some(order) = out.layout.c_order() {
        x = x.permuted_axes(IxDyn(&order))?;
        out = out.permuted_axes(IxDyn(&order))?;
        axis = order.iter().position(|&other| other == axis).unwrap_or(axis);
    }
    let stream = x.stream().clone();
    out.write_in_order(&stream, &mut |out| scan_lines(&x, axis, kind, out))
}

/// Scans along an axis into results in C order. There is at least one element.
fn scan_lines<Op: ReduceOp<T>, T: Scan<Op>>(
    x: &DeviceArrayRef<T, IxDyn>,
    axis: usize,
    kind: ScanKind,
    out: &mut DeviceArrayRef<Op::Output, IxDyn>,
) -> Result<()> {
    let tile = lookback::tile_len::<T, Op>();
    if x.is_standard_layout() {
        let lines = in_order(x.shape(), axis);
        return match way(lines, tile, tile_rows_of_few::<Op, T>(lines)) {
            Way::LookBack => look_back::<Op, T, IxDyn>(x, lines.n, kind, out),
            Way::Few => few::<Op, T>(x, lines, kind, out),
            way => launch::<Op, T>(x, lines, way, kind, out),
        };
    }
    let first = x.layout.offset() - x.layout.extent().start;
    let warps = x.stream().backend().properties().multiprocessors as usize * BLOCKS * THREADS / 32;
    let lines = lines(x.shape(), x.strides(), axis, first).filter(|_| !x.interlaces(out));
    match lines.and_then(|lines| Some((lines, way_of_view(lines, tile, warps)?))) {
        Some((lines, way)) => launch::<Op, T>(x, lines, way, kind, out),
        None => scan_lines::<Op, T>(&x.to_array()?, axis, kind, out),
    }
}

/// Scans lines that lie so, as rows of warps or as columns, tile by tile.
fn launch<Op: ReduceOp<T>, T: Scan<Op>>(
    x: &DeviceArrayRef<T, IxDyn>,
    lines: Lines,
    way: Way,
    kind: ScanKind,
    out: &mut DeviceArrayRef<Op::Output, IxDyn>,
) -> Result<()> {
    let (stream, Lines { count, n, .. }) = (x.stream(), lines);
    let x = Words::<T>::of(x);
    if way == Way::Rows {
        let rows = rows_of_warp(lines, warp_tile_len::<T, Op>(), vec_len::<T, Op>());
        let config = tiles(count.div_ceil(rows), THREADS / 32, THREADS);
        return stream.launch::<T::Rows>(&config, (x, lines, rows as u32, flag(kind), out));
    }
    let width = width::<T, Op>(lines);
    let tiles_of_column = if width == THREADS {
        1
    } else {
        n.div_ceil(tile_rows::<T, Op>(width))
    };
    // Who has nobody above or below needs no state.
    let values = if tiles_of_column > 1 {
        count * tiles_of_column
    } else {
        0
    };
    let of_tile = if width == THREADS {
        THREADS * columns_of_thread(lines)
    } else {
        width
    };
    let config = tiles(count.div_ceil(of_tile) * tiles_of_column, 1, THREADS);
    let mut state = stream.take_scan_states(state_len::<Op::Acc>(values))?;
    let args = (x, lines, width as u32, flag(kind), &mut state, out);
    stream.launch::<T::Columns>(&config, args)?;
    state.give_back();
    Ok(())
}

/// Scans a few columns that lie side by side, in C order, by tiles of whole rows.
fn few<Op: ReduceOp<T>, T: Scan<Op>>(
    x: &DeviceArrayRef<T, IxDyn>,
    lines: Lines,
    kind: ScanKind,
    out: &mut DeviceArrayRef<Op::Output, IxDyn>,
) -> Result<()> {
    let (stream, columns) = (x.stream(), lines.inner);
    let of_matrix = lines.n.div_ceil(narrow::tile_rows::<T, Op>(columns));
    let count = lines.count / columns * of_matrix;
    let config = look_back_config(stream, count, narrow::shared_bytes::<T, Op>);
    let mut state = stream.take_scan_states(state_len::<Op::Acc>(count * columns))?;
    let args = (x, lines, columns as u32, flag(kind), &mut state, out);
    stream.launch::<T::Few>(&config, args)?;
    state.give_back();
    Ok(())
}

/// Rows of a tile that has all of the few columns that lie side by side; 0 for operators that have no such tiles, and where
/// strips of columns take less time: where columns are more, of large values more than 10, and where they are 8, so that a
/// strip has whole sectors, and no thread without a column.
fn tile_rows_of_few<Op: ReduceOp<T>, T: Scan<Op>>(lines: Lines) -> usize {
    let is_wide = size_of::<Op::Acc>() > 4 && lines.inner > 10;
    if !T::HAS_FEW || lines.inner == 8 || is_wide {
        0
    } else {
        narrow::tile_rows::<T, Op>(lines.inner)
    }
}

/// Columns of a tile: a power of two.
///
/// The most there are, if the columns are so many that each can have a thread for itself, or so short. Otherwise as
/// wide as an access should be, and, of elements of 4 bytes or more, twice that where rows do not begin at sectors, each of
/// which two strips then want; of fewer columns narrower strips, so that more tiles are independent of one another, but two
/// sectors wide at least, or one of a few columns; of short columns so many that all threads have elements.
fn width<T, Op: ReduceOp<T>>(lines: Lines) -> usize {
    let Lines {
        n,
        count: columns,
        along,
        ..
    } = lines;
    if columns >= MANY_COLUMNS {
        return THREADS;
    }
    let of_bytes = |bytes: usize| (bytes / size_of::<T>()).clamp(1, bytes.max(LINE) / 4);
    let is_aligned = along.wrapping_mul(size_of::<T>()).is_multiple_of(SECTOR);
    let most = if is_aligned || size_of::<T>() < 4 {
        of_bytes(LINE)
    } else {
        of_bytes(2 * LINE)
    };
    let least = of_bytes(if columns >= of_bytes(LINE) { 2 * SECTOR } else { SECTOR });
    let wanted = (columns / STRIPS).next_power_of_two();
    let segments = n.div_ceil(segment_len::<T, Op>()).min(THREADS).next_power_of_two();
    let width = wanted.clamp(least, most).min(columns.next_power_of_two());
    width.max(THREADS / segments)
}

/// Scans along an axis: each line of elements along it is scanned by itself.
///
/// Every element is read once and written once, `2 n` elements moved. Along the last axis a warp scans several short rows, or
/// a row that is shorter than a tile, and blocks with look-back a longer one; along another, threads have a column each where there are
/// many, or a tile of a strip of columns, with look-back from tile to tile. Sums of long columns of which few lie side by
/// side, as those of an array of points, are scanned as a long row is, by tiles that have all of them.
///
/// Parts of rows (`slice(s![.., a..b])`), and rows in steps or in reverse order (`slice(s![..;-1, ..])`), are read where they
/// lie. One copy is made of other views: of those whose elements do not lie side by side along the last axis, as a
/// transposed array's, since the results are in C order and so each has to change its place once; of those in which lines
/// lie at more than one distance; and of parts of rows that are longer than a tile, scanned along the last axis, unless they
/// are so many that a warp each keeps the device busy. Into an output that lies in another order of the axes without a gap,
/// results are written as they belong, and a view that lies in the same order is read where it lies.
///
/// The error of result `i` of a line of floats is at most `i u (|x₀| + … + |xᵢ|)`, to first order, however the terms are
/// grouped, which with look-back depends on timing.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
    /// The inclusive scan along `axis`.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if the array has no such axis, and those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::{Axis, array};
    /// use warpsmith::ops::Sum;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![[1, 2, 3], [4, 5, 6]])?;
    /// assert_eq!(x.inclusive_scan_axis::<Sum>(Axis(0))?.to_ndarray()?, array![[1i64, 2, 3], [5, 7, 9]]);
    /// assert_eq!(x.inclusive_scan_axis::<Sum>(Axis(1))?.to_ndarray()?, array![[1i64, 3, 6], [4, 9, 15]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inclusive_scan_axis<Op: ReduceOp<T>>(&self, axis: Axis) -> Result<DeviceArray<Op::Output, D>>
    where
        T: Scan<Op>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.inclusive_scan_axis_into::<Op>(axis, out)
        })
    }

    /// [`inclusive_scan_axis`](Self::inclusive_scan_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`](crate::Error::Axes) if the array has no such axis, [`Error::Shape`](crate::Error::Shape) if the shapes differ,
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
    pub fn inclusive_scan_axis_into<Op: ReduceOp<T>>(
        &self,
        axis: Axis,
        out: &mut DeviceArrayRef<Op::Output, D>,
    ) -> Result<()>
    where
        T: Scan<Op>,
    {
        along_axis_into::<Op, T, D>("inclusive_scan_axis", self, axis, ScanKind::Inclusive, out)
    }

    /// The exclusive scan along `axis`: each line begins with the operator's identity, as
    /// [`exclusive_scan`](Self::exclusive_scan) does.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_axis`](Self::inclusive_scan_axis).
    pub fn exclusive_scan_axis<Op: ReduceOp<T>>(&self, axis: Axis) -> Result<DeviceArray<Op::Output, D>>
    where
        T: Scan<Op>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.exclusive_scan_axis_into::<Op>(axis, out)
        })
    }

    /// [`exclusive_scan_axis`](Self::exclusive_scan_axis) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_axis_into`](Self::inclusive_scan_axis_into).
    pub fn exclusive_scan_axis_into<Op: ReduceOp<T>>(
        &self,
        axis: Axis,
        out: &mut DeviceArrayRef<Op::Output, D>,
    ) -> Result<()>
    where
        T: Scan<Op>,
    {
        along_axis_into::<Op, T, D>("exclusive_scan_axis", self, axis, ScanKind::Exclusive, out)
    }
}

#[cfg(test)]
mod tests {
    use kernels_gpu::op::Sum;

    use super::*;

    fn width<T, Op: ReduceOp<T>>(n: usize, columns: usize) -> usize {
        super::width::<T, Op>(Lines::of_array(columns, n, columns))
    }

    #[test]
    fn tiles_are_as_wide_as_columns_are_many() {
        assert_eq!(width::<f32, Sum>(1000, 5000), 32);
        assert_eq!(width::<f32, Sum>(1000, 5001), 64);
        assert_eq!(width::<f32, Sum>(1000, 1024), 32);
        assert_eq!(width::<f32, Sum>(1000, 256), 16);
        assert_eq!(width::<f32, Sum>(1000, 100), 16);
        assert_eq!(width::<f32, Sum>(1000, 24), 8);
        assert_eq!(width::<f32, Sum>(1000, 5), 8);
        assert_eq!(width::<f32, Sum>(10_000, 3), 4);
        assert_eq!(width::<f64, Sum>(1000, 5000), 16);
        assert_eq!(width::<u8, Sum>(1000, 5000), 32);
    }

    #[test]
    fn few_columns_have_tiles_of_whole_rows() {
        let rows = |columns| tile_rows_of_few::<Sum, f32>(Lines::of_array(columns, 1 << 20, columns));
        assert_eq!([1, 2, 3, 7, 8, 12, 13].map(rows), [0, 4096, 2560, 1024, 0, 512, 0]);
        // Of sums in 64 bits.
        let rows = |columns| tile_rows_of_few::<Sum, u8>(Lines::of_array(columns, 1 << 20, columns));
        assert_eq!([2, 3, 4, 10, 12].map(rows), [2048, 1280, 1024, 384, 0]);
    }

    #[test]
    fn short_columns_have_wide_tiles() {
        assert_eq!(width::<f32, Sum>(1, 5000), 256);
        assert_eq!(width::<f32, Sum>(32, 3), 256);
        assert_eq!(width::<f32, Sum>(33, 5000), 128);
        assert_eq!(width::<f32, Sum>(100, 5000), 64);
        assert_eq!(width::<f32, Sum>(129, 5000), 32);
    }

    #[test]
    fn many_columns_have_a_thread_each() {
        assert_eq!(width::<f32, Sum>(1000, 65_528), 32);
        assert_eq!(width::<f32, Sum>(1000, 65_536), THREADS);
    }
}
