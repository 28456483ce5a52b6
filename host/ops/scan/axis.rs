// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans along an axis.

use kernels_gpu::scan::{THREADS, axis::MIN_PART};
use ndarray::{Axis, Dimension};

use super::{HasScan, Scan, ScanKind, check, flag, look_back_rows, state_len};
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::ops::tiles;
use crate::zeroed::KernelOf;

/// Rows of at most so many elements are scanned by a thread each.
const SHORT_ROW: usize = 32;

/// The most parts that a column is cut into, since the last looks back at all before it.
const MAX_PARTS: usize = 1024;

fn scan_axis<Op, T, D>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    axis: Axis,
    kind: ScanKind,
    out: &mut DeviceArray<T, D>,
) -> Result<()>
where
    T: Scan<Op>,
    D: Dimension,
{
    let shape = x.shape();
    let Some(&n) = shape.get(axis.index()) else {
        return Err(Error::Axes {
            operation,
            given: vec![axis.index()],
            wanted: match shape.len() {
                0 => "an array with at least one axis".into(),
                axes => format!("one of the axes 0 to {}", axes - 1),
            },
        });
    };
    check(operation, x, out)?;
    if x.is_empty() {
        return Ok(());
    }
    let inner = shape[axis.index() + 1..].iter().product();
    let lines = x.len() / n;
    if lines == 1 || (inner == 1 && n > T::TILE) {
        look_back_rows::<Op, T, D>(x, n, kind, out)
    } else if inner == 1 && n > SHORT_ROW {
        let config = tiles(lines, THREADS / 32, THREADS);
        x.stream().launch::<T::Rows>(&config, (x, lines, n, flag(kind), out))
    } else {
        columns::<Op, T, D>(x, n, inner, kind, out)
    }
}

/// Scans columns: a thread for each, or for each of several parts, where there are too few to fill the device.
fn columns<Op, T, D>(
    x: &DeviceArray<T, D>,
    n: usize,
    inner: usize,
    kind: ScanKind,
    out: &mut DeviceArray<T, D>,
) -> Result<()>
where
    T: HasScan<Op>,
    D: Dimension,
{
    let device = x.stream().backend().properties();
    let threads = device.multiprocessors as usize * device.max_threads_per_multiprocessor as usize / 2;
    let columns = x.len() / n;
    let (part, parts) = parts(n, columns, threads);
    let words = state_len::<T::Wide>(if parts > 1 { columns * parts } else { 0 });
    let config = tiles(columns * parts, THREADS, THREADS);
    x.stream().with_scan_state(KernelOf::Library, words, |state| {
        let args = (x, columns, n, inner, part, parts, flag(kind), state, out);
        x.stream().launch::<T::Columns>(&config, args)
    })
}

/// How many elements the parts of a column have, and how many parts there are: enough for `threads` threads, if a part
/// does not become too short for that.
fn parts(n: usize, columns: usize, threads: usize) -> (usize, usize) {
    let wanted = threads / columns;
    let parts = wanted.min(n / MIN_PART).clamp(1, MAX_PARTS);
    let part = n.div_ceil(parts);
    (part, n.div_ceil(part))
}

/// Scans along an axis: each line of elements along it is scanned by itself.
///
/// Every element is written once, and read once, or twice where the lines are few and not along the last axis. The
/// error of result `i` of a line of floats is at most `i u (|x₀| + … + |xᵢ|)`, to first order.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// The inclusive scan along `axis`.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if the array has no such axis, and those of an allocation and a launch.
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
    /// assert_eq!(x.inclusive_scan_axis::<Sum>(Axis(0))?.to_ndarray()?, array![[1, 2, 3], [5, 7, 9]]);
    /// assert_eq!(x.inclusive_scan_axis::<Sum>(Axis(1))?.to_ndarray()?, array![[1, 3, 6], [4, 9, 15]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inclusive_scan_axis<Op>(&self, axis: Axis) -> Result<Self>
    where
        T: Scan<Op>,
    {
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.inclusive_scan_axis_into::<Op>(axis, &mut out)?;
        Ok(out)
    }

    /// [`inclusive_scan_axis`](Self::inclusive_scan_axis) into an existing array.
    ///
    /// # Errors
    ///
    /// [`Error::Axes`] if the array has no such axis, [`Error::Shape`] if the shapes differ,
    /// [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn inclusive_scan_axis_into<Op>(&self, axis: Axis, out: &mut Self) -> Result<()>
    where
        T: Scan<Op>,
    {
        scan_axis::<Op, T, D>("inclusive_scan_axis", self, axis, ScanKind::Inclusive, out)
    }

    /// The exclusive scan along `axis`: each line begins with the operator's identity, as
    /// [`exclusive_scan`](Self::exclusive_scan) does.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_axis`](Self::inclusive_scan_axis).
    pub fn exclusive_scan_axis<Op>(&self, axis: Axis) -> Result<Self>
    where
        T: Scan<Op>,
    {
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.exclusive_scan_axis_into::<Op>(axis, &mut out)?;
        Ok(out)
    }

    /// [`exclusive_scan_axis`](Self::exclusive_scan_axis) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_axis_into`](Self::inclusive_scan_axis_into).
    pub fn exclusive_scan_axis_into<Op>(&self, axis: Axis, out: &mut Self) -> Result<()>
    where
        T: Scan<Op>,
    {
        scan_axis::<Op, T, D>("exclusive_scan_axis", self, axis, ScanKind::Exclusive, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_cut_where_they_are_few_and_long() {
        assert_eq!(parts(1000, 5000, 4096), (1000, 1));
        assert_eq!(parts(127, 1, 4096), (127, 1));
        assert_eq!(parts(128, 1, 4096), (64, 2));
        assert_eq!(parts(10_000_000, 2, 1 << 20), (9766, 1024));
        for (n, columns) in [(65, 3), (1000, 7), (4097, 100), (99_991, 2)] {
            let (part, parts) = parts(n, columns, 4096);
            assert!(
                part * parts >= n && part * (parts - 1) < n,
                "{n} {columns}: {part} {parts}"
            );
        }
    }
}
