// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans (prefix sums), of whole arrays and along an axis.

mod axis;
mod own;

use cuda_std::SliceMut;
use cuda_std::launch::SafeKernel;
use kernels_gpu::op::{Max, Min, Product, ReduceOp, Sum};
use kernels_gpu::scan::{self as kernels, THREADS, blelloch, lookback};
use ndarray::{Dimension, Ix1};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::ops::KernelOf;

/// The parameters of [`kernels_gpu::scan::lookback::scan`](fn@kernels_gpu::scan::lookback::scan), with elements of type
/// `T` and results of type `R`: what a kernel of one's own must take for [`DeviceArray::scan_with`].
pub type LookBackParams<T, R> = (&'static [T], usize, u32, SliceMut<'static, u64>, SliceMut<'static, R>);

/// Those of `scan_tree`.
#[doc(hidden)]
pub type TreeParams<T, A> = (&'static [T], u32, SliceMut<'static, A>, SliceMut<'static, T>);

/// Those of `scan_rows`.
#[doc(hidden)]
pub type RowsParams<T> = (&'static [T], usize, usize, u32, SliceMut<'static, T>);

/// Those of `scan_columns`.
#[doc(hidden)]
pub type ColumnsParams<T> = (
    &'static [T],
    usize,
    usize,
    usize,
    u32,
    u32,
    SliceMut<'static, u64>,
    SliceMut<'static, T>,
);

/// An element type that the scans by operator `Op` are compiled for.
#[doc(hidden)]
pub trait HasScan<Op>: Element {
    /// What the elements are combined in.
    type Wide: Element;

    /// Elements of a tile of the look-back.
    const TILE: usize;
    /// [`lookback::shared_bytes`].
    const SHARED: usize;
    /// Elements of a tile of Blelloch's tree.
    const TREE_TILE: usize;

    /// [`lookback::tiles_of_row`].
    fn tiles_of_row(len: usize, n: usize) -> usize;

    type LookBack: SafeKernel<Params = LookBackParams<Self, Self>>;
    type Tree: SafeKernel<Params = TreeParams<Self, Self::Wide>>;
    type Rows: SafeKernel<Params = RowsParams<Self>>;
    type Columns: SafeKernel<Params = ColumnsParams<Self>>;
}

impl<T: Element, Op: ReduceOp<T, Output = T>> HasScan<Op> for T
where
    kernels::scan<T, Op>: SafeKernel<Params = LookBackParams<T, T>>,
    kernels::scan_tree<T, Op>: SafeKernel<Params = TreeParams<T, Op::Acc>>,
    kernels::scan_rows<T, Op>: SafeKernel<Params = RowsParams<T>>,
    kernels::scan_columns<T, Op>: SafeKernel<Params = ColumnsParams<T>>,
{
    type Wide = Op::Acc;

    const TILE: usize = lookback::tile_len::<T, Op>();
    const SHARED: usize = lookback::shared_bytes::<T, Op>();
    const TREE_TILE: usize = blelloch::tile_len::<T, Op>();

    fn tiles_of_row(len: usize, n: usize) -> usize {
        lookback::tiles_of_row::<T, Op>(len, n)
    }

    type LookBack = kernels::scan<T, Op>;
    type Tree = kernels::scan_tree<T, Op>;
    type Rows = kernels::scan_rows<T, Op>;
    type Columns = kernels::scan_columns<T, Op>;
}

/// An element type with scans by operator `Op`: each of `f32`, `f64`, `f16`, `bf16`, `i32`, `i64`, `u8`, `u16`, `u32`
/// and `u64`, by each of [`Sum`], [`Product`], [`Min`] and [`Max`].
///
/// Integers wrap around on overflow. Sums and products of 16-bit floats are computed in `f32`, and each result is
/// rounded once.
pub trait Scan<Op>: HasScan<Op, Wide: HasScan<Op, Wide = <Self as HasScan<Op>>::Wide>> {}

macro_rules! implement {
    ($($type:ty),*) => {$(
        impl Scan<Sum> for $type {}
        impl Scan<Product> for $type {}
        impl Scan<Min> for $type {}
        impl Scan<Max> for $type {}
    )*};
}

implement!(f32, f64, half::f16, half::bf16, i32, i64, u8, u16, u32, u64);

/// Whether a result includes the element at its own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanKind {
    /// Result `i` combines elements `0 ..= i`.
    Inclusive,
    /// Result `i` combines elements `0 .. i`; result 0 is the operator's identity.
    Exclusive,
}

/// How a whole array is scanned.
///
/// Integers, minima and maxima are the same to the last bit by both. Sums and products of floats differ in how the
/// roundings fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanAlgorithm {
    /// In one pass, with decoupled look-back: each element is read once and written once, `2 n` elements moved. How the
    /// terms are grouped depends on timing, so floats may differ in the last bits from run to run.
    #[default]
    LookBack,
    /// By Blelloch's tree: each element is read twice and written once, `3 n` elements moved, in `2 log n` launches (to
    /// a base of at least 1024). Floats have the same bits on every run and on every device.
    Blelloch,
}

/// What every scan checks before it allocates or launches anything.
fn check<T: Element, R: Element, D: Dimension>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    out: &DeviceArray<R, D>,
) -> Result<()> {
    x.same_shape(operation, out)?;
    if !x.stream().same_device(out.stream()) {
        return Err(Error::different_devices(
            operation,
            out.stream().device_id(),
            x.stream().device_id(),
        ));
    }
    Ok(())
}

/// Words of state for `tiles` tiles; none where there is one tile, which has nobody to tell.
fn state_len<A>(tiles: usize) -> usize {
    if tiles > 1 { lookback::state_len::<A>(tiles) } else { 0 }
}

/// Scans each row of `n` elements by kernel `K`, in one pass; the rows have `count` tiles together, each of which takes
/// `shared` bytes of shared memory, and values of type `A` are combined.
fn look_back<K, A, T, R, D>(
    x: &DeviceArray<T, D>,
    (n, count, shared): (usize, usize, usize),
    kind: ScanKind,
    out: &mut DeviceArray<R, D>,
    kernel_of: KernelOf,
) -> Result<()>
where
    K: SafeKernel<Params = LookBackParams<T, R>>,
    T: Element,
    R: Element,
    D: Dimension,
{
    let properties = x.stream().backend().properties();
    // As many as run at a time: each goes on to another tile.
    let blocks = properties.multiprocessors as usize * lookback::BLOCKS;
    let room = properties.shared_memory_per_block_optin as usize;
    let slots = if 2 * shared + STATIC_SHARED <= room { 2 } else { 1 };
    let config = LaunchConfig {
        dynamic_shared: slots * shared,
        ..tiles(count.min(blocks), 1, lookback::THREADS)
    };
    let mut state = x.stream().take_scan_states(state_len::<A>(count))?;
    x.stream().launch::<K>(&config, (x, n, flag(kind), &mut state, out))?;
    if kernel_of == KernelOf::Library {
        state.give_back();
    }
    Ok(())
}

/// Bytes of shared memory that a look-back has beside its tiles, at most.
const STATIC_SHARED: usize = 2048;

/// [`look_back`] by one of the library's operators.
fn look_back_rows<Op, T, D>(x: &DeviceArray<T, D>, n: usize, kind: ScanKind, out: &mut DeviceArray<T, D>) -> Result<()>
where
    T: HasScan<Op>,
    D: Dimension,
{
    let count = x.len() / n * T::tiles_of_row(x.len(), n);
    look_back::<T::LookBack, T::Wide, T, T, D>(x, (n, count, T::SHARED), kind, out, KernelOf::Library)
}

/// The kind as the kernels take it.
fn flag(kind: ScanKind) -> u32 {
    match kind {
        ScanKind::Inclusive => 0,
        ScanKind::Exclusive => 1,
    }
}

/// Scans the array by Blelloch's tree: the totals of the tiles, their exclusive scan by the same function, and the
/// tiles once more, each with what stands before it.
fn tree<Op, T, D>(x: &DeviceArray<T, D>, kind: ScanKind, out: &mut DeviceArray<T, D>) -> Result<()>
where
    T: HasScan<Op, Wide: HasScan<Op, Wide = <T as HasScan<Op>>::Wide>>,
    D: Dimension,
{
    let stream = x.stream();
    let count = x.len().div_ceil(T::TREE_TILE);
    let config = LaunchConfig {
        dynamic_shared: blelloch::shared_bytes::<T::Wide>(),
        ..tiles(count, 1, THREADS)
    };
    let mut before = DeviceArray::uninit(stream, Ix1(if count > 1 { count } else { 0 }))?;
    if count > 1 {
        let mut totals = DeviceArray::uninit(stream, Ix1(count))?;
        let mut nothing = DeviceArray::uninit(stream, Ix1(0))?;
        stream.launch::<T::Tree>(&config, (x, blelloch::UP, &mut totals, &mut nothing))?;
        tree::<Op, T::Wide, Ix1>(&totals, ScanKind::Exclusive, &mut before)?;
    }
    let phase = match kind {
        ScanKind::Inclusive => blelloch::DOWN,
        ScanKind::Exclusive => blelloch::DOWN_EXCLUSIVE,
    };
    stream.launch::<T::Tree>(&config, (x, phase, &mut before, out))
}

fn scan<Op, T, D>(
    operation: &'static str,
    x: &DeviceArray<T, D>,
    kind: ScanKind,
    algorithm: ScanAlgorithm,
    out: &mut DeviceArray<T, D>,
) -> Result<()>
where
    T: Scan<Op>,
    D: Dimension,
{
    check(operation, x, out)?;
    if x.is_empty() {
        return Ok(());
    }
    match algorithm {
        ScanAlgorithm::LookBack => look_back_rows::<Op, T, D>(x, x.len(), kind, out),
        ScanAlgorithm::Blelloch => tree::<Op, T, D>(x, kind, out),
    }
}

/// Scans of the whole array, in C order: the result has the array's shape.
///
/// The operator is a type: [`Sum`](crate::ops::Sum), [`Product`](crate::ops::Product), [`Min`](crate::ops::Min),
/// [`Max`](crate::ops::Max). Arrays may have any length, none included. Minima and maxima are NaN from the first NaN
/// on, and a sum of nothing but −0 is +0.
///
/// The error of result `i` of a float sum is at most `d u (|x₀| + … + |xᵢ|)`, to first order, where `u` is the unit
/// roundoff of what is summed in and `d` the most additions that a term goes through: for [`ScanAlgorithm::LookBack`]
/// the number of tiles of [`tile_len`](lookback::tile_len) elements and 50, for [`ScanAlgorithm::Blelloch`] at most 50
/// for each level of the tree (the length is divided by at least 1024 from level to level). For 16-bit floats the
/// result's own rounding comes on top.
///
/// The default algorithm takes 8 bytes for each 4 bytes of a value, for each tile, which the stream keeps for the next
/// scan unless they are more than 4 MiB; Blelloch's takes temporary memory of three values for each tile.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// The inclusive scan: element `i` of the result combines elements `0 ..= i`.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::ops::{Max, Sum};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &array![3, 1, -4, 1, 5])?;
    /// assert_eq!(x.inclusive_scan::<Sum>()?.to_ndarray()?, array![3, 4, 0, 1, 6]);
    /// assert_eq!(x.inclusive_scan::<Max>()?.to_ndarray()?, array![3, 3, 3, 3, 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inclusive_scan<Op>(&self) -> Result<Self>
    where
        T: Scan<Op>,
    {
        self.inclusive_scan_by::<Op>(ScanAlgorithm::default())
    }

    /// [`inclusive_scan`](Self::inclusive_scan) into an existing array.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes differ, [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn inclusive_scan_into<Op>(&self, out: &mut Self) -> Result<()>
    where
        T: Scan<Op>,
    {
        self.inclusive_scan_by_into::<Op>(ScanAlgorithm::default(), out)
    }

    /// [`inclusive_scan`](Self::inclusive_scan) by the given algorithm.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan`](Self::inclusive_scan).
    ///
    /// # Examples
    ///
    /// The same bits on every run:
    ///
    /// ```
    /// use ndarray::Array1;
    /// use warpsmith::ops::{ScanAlgorithm, Sum};
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &Array1::from_elem(5000, 0.1f32))?;
    /// let once = x.inclusive_scan_by::<Sum>(ScanAlgorithm::Blelloch)?.to_ndarray()?;
    /// let again = x.inclusive_scan_by::<Sum>(ScanAlgorithm::Blelloch)?.to_ndarray()?;
    /// assert_eq!(once, again);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inclusive_scan_by<Op>(&self, algorithm: ScanAlgorithm) -> Result<Self>
    where
        T: Scan<Op>,
    {
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.inclusive_scan_by_into::<Op>(algorithm, &mut out)?;
        Ok(out)
    }

    /// [`inclusive_scan_by`](Self::inclusive_scan_by) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn inclusive_scan_by_into<Op>(&self, algorithm: ScanAlgorithm, out: &mut Self) -> Result<()>
    where
        T: Scan<Op>,
    {
        scan::<Op, T, D>("inclusive_scan", self, ScanKind::Inclusive, algorithm, out)
    }

    /// The exclusive scan: element `i` of the result combines elements `0 .. i`. Element 0 is the operator's identity:
    /// 0 for a sum, 1 for a product, for a minimum the greatest value of the type (+∞ for floats), for a maximum the
    /// least (−∞).
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// Where each of several runs of given lengths begins:
    ///
    /// ```
    /// use ndarray::array;
    /// use warpsmith::ops::Sum;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let lengths = DeviceArray::from_ndarray(device.default_stream(), &array![3u64, 0, 2, 7])?;
    /// assert_eq!(lengths.exclusive_scan::<Sum>()?.to_ndarray()?, array![0, 3, 3, 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn exclusive_scan<Op>(&self) -> Result<Self>
    where
        T: Scan<Op>,
    {
        self.exclusive_scan_by::<Op>(ScanAlgorithm::default())
    }

    /// [`exclusive_scan`](Self::exclusive_scan) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn exclusive_scan_into<Op>(&self, out: &mut Self) -> Result<()>
    where
        T: Scan<Op>,
    {
        self.exclusive_scan_by_into::<Op>(ScanAlgorithm::default(), out)
    }

    /// [`exclusive_scan`](Self::exclusive_scan) by the given algorithm.
    ///
    /// # Errors
    ///
    /// As [`exclusive_scan`](Self::exclusive_scan).
    pub fn exclusive_scan_by<Op>(&self, algorithm: ScanAlgorithm) -> Result<Self>
    where
        T: Scan<Op>,
    {
        let mut out = Self::uninit(self.stream(), self.raw_dim())?;
        self.exclusive_scan_by_into::<Op>(algorithm, &mut out)?;
        Ok(out)
    }

    /// [`exclusive_scan_by`](Self::exclusive_scan_by) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn exclusive_scan_by_into<Op>(&self, algorithm: ScanAlgorithm, out: &mut Self) -> Result<()>
    where
        T: Scan<Op>,
    {
        scan::<Op, T, D>("exclusive_scan", self, ScanKind::Exclusive, algorithm, out)
    }
}
