// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans (prefix sums), of whole arrays and along an axis.

mod axis;
mod lines;
mod named;

use kernels_gpu::compiled::{Scan, ScanTree};
use kernels_gpu::op::ReduceOp;
use kernels_gpu::scan::{THREADS, blelloch, lookback};
use ndarray::{Dimension, Ix1};

use super::tiles;
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;

/// Whether a result includes the element at its own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanKind {
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
    /// In one pass, with decoupled look-back (D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled
    /// Look-back", 2016): each element is read once and each result written once, which is the least that there can be.
    /// How the terms are grouped depends on timing, so floats may differ in the last bits from run to run.
    #[default]
    LookBack,
    /// By Blelloch's tree (G. Blelloch, "Prefix sums and their applications", 1990): each element is read twice and each
    /// result written once, in `2 log n` launches (to a base of at least 1024). Floats have the same bits on every run and
    /// on every device.
    Blelloch,
}

/// What every scan checks before it allocates or launches anything.
fn check<T: Element, R: Element, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    out: &DeviceArrayRef<R, D>,
) -> Result<()> {
    x.fits(operation, out)
}

/// Words of state for `tiles` tiles; none where there is one tile, which has nobody to tell.
fn state_len<A>(tiles: usize) -> usize {
    if tiles > 1 { lookback::state_len::<A>(tiles) } else { 0 }
}

/// Bytes of shared memory that a look-back has beside its tiles, at most.
const STATIC_SHARED: usize = 2048;

/// Scans each row of `n` elements, in one pass. The array is not empty.
fn look_back<Op: ReduceOp<T>, T: Scan<Op>, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    n: usize,
    kind: ScanKind,
    out: &mut DeviceArrayRef<Op::Output, D>,
) -> Result<()> {
    let count = x.len() / n * lookback::tiles_of_row::<T, Op>(x.len(), n);
    let config = look_back_config(x.stream(), count, |tiles| tiles * lookback::shared_bytes::<T, Op>());
    let mut state = x.stream().take_scan_states(state_len::<Op::Acc>(count))?;
    let args = (x, n, flag(kind), &mut state, out);
    x.stream().launch::<T::LookBack>(&config, args)?;
    state.give_back();
    Ok(())
}

/// The launch of a look-back of so many tiles, of which a block keeps one or two in so much shared memory.
fn look_back_config(stream: &Stream, count: usize, shared: impl Fn(usize) -> usize) -> LaunchConfig {
    let properties = stream.backend().properties();
    // As many as run at a time: each goes on to another tile.
    let blocks = properties.multiprocessors as usize * lookback::BLOCKS;
    let room = properties.shared_memory_per_block_optin as usize;
    let kept = if shared(2) + STATIC_SHARED <= room { 2 } else { 1 };
    LaunchConfig {
        dynamic_shared: shared(kept),
        ..tiles(count.min(blocks), 1, lookback::THREADS)
    }
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
fn tree<Op, T: ScanTree<Op>, D: Dimension>(
    x: &DeviceArrayRef<T, D>,
    kind: ScanKind,
    out: &mut DeviceArrayRef<T::Output, D>,
) -> Result<()> {
    let stream = x.stream();
    let count = x.len().div_ceil(T::TILE);
    let config = LaunchConfig {
        dynamic_shared: blelloch::shared_bytes::<T::Acc>(),
        ..tiles(count, 1, THREADS)
    };
    let mut before = DeviceArray::uninit(stream, Ix1(if count > 1 { count } else { 0 }))?;
    if count > 1 {
        let mut totals = DeviceArray::uninit(stream, Ix1(count))?;
        let mut nothing = DeviceArray::uninit(stream, Ix1(0))?;
        stream.launch::<T::Tree>(&config, (x, blelloch::UP, &mut totals, &mut nothing))?;
        tree::<Op, T::Acc, Ix1>(&totals, ScanKind::Exclusive, &mut before)?;
    }
    let phase = match kind {
        ScanKind::Inclusive => blelloch::DOWN,
        ScanKind::Exclusive => blelloch::DOWN_EXCLUSIVE,
    };
    stream.launch::<T::Tree>(&config, (x, phase, &mut before, out))
}

/// Of the whole array, by the default algorithm.
fn whole_into<Op: ReduceOp<T>, T: Scan<Op>, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    kind: ScanKind,
    out: &mut DeviceArrayRef<Op::Output, D>,
) -> Result<()> {
    check(operation, x, out)?;
    if x.is_empty() {
        return Ok(());
    }
    let x = &*x.in_order()?;
    out.write_in_order(x.stream(), &mut |out| look_back::<Op, T, D>(x, x.len(), kind, out))
}

/// Of the whole array, by that algorithm.
fn whole_by_into<Op, T, D: Dimension>(
    operation: &'static str,
    x: &DeviceArrayRef<T, D>,
    kind: ScanKind,
    algorithm: ScanAlgorithm,
    out: &mut DeviceArrayRef<Op::Output, D>,
) -> Result<()>
where
    Op: ReduceOp<T>,
    T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
{
    check(operation, x, out)?;
    if x.is_empty() {
        return Ok(());
    }
    let x = &*x.in_order()?;
    out.write_in_order(x.stream(), &mut |out| match algorithm {
        ScanAlgorithm::LookBack => look_back::<Op, T, D>(x, x.len(), kind, out),
        ScanAlgorithm::Blelloch => tree::<Op, T, D>(x, kind, out),
    })
}

/// Scans of the whole array, in C order: the result has the array's shape.
///
/// The operator is a type: [`Sum`](crate::ops::Sum), [`Product`](crate::ops::Product), [`Min`](crate::ops::Min),
/// [`Max`](crate::ops::Max), or one that a kernels crate names to [`kernels_gpu::operator_kernels!`], commutative or not,
/// whose values have at most 32 bytes: the order of the elements is kept. Arrays may have any length, none included.
/// Views that are not in C order without a gap are copied first: tiles go over the ends of their rows.
/// Sums and products of integers are `i64` or `u64`, whatever the elements' size, as in NumPy, and wrap around where that
/// overflows. Minima and maxima are NaN from the first NaN on, and a sum of nothing but −0 is +0.
///
/// The error of result `i` of a float sum is at most `d u (|x₀| + … + |xᵢ|)`, to first order, where `u` is the unit
/// roundoff of what is summed in and `d` the most additions that a term goes through: for [`ScanAlgorithm::LookBack`]
/// the number of tiles of [`tile_len`](lookback::tile_len) elements and 50, for [`ScanAlgorithm::Blelloch`] at most 50
/// for each level of the tree (the length is divided by at least 1024 from level to level). For 16-bit floats the
/// result's own rounding comes on top.
///
/// The default algorithm takes 8 bytes for each 4 bytes of a value, for each tile, which the stream keeps for the next
/// scan unless they are more than 4 MiB; Blelloch's takes temporary memory of three values for each tile.
impl<T: Element, D: Dimension> DeviceArrayRef<T, D> {
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
    /// assert_eq!(x.inclusive_scan::<Sum>()?.to_ndarray()?, array![3i64, 4, 0, 1, 6]);
    /// assert_eq!(x.inclusive_scan::<Max>()?.to_ndarray()?, array![3, 3, 3, 3, 5]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The composition of affine maps, an operator of one's own that does not commute:
    ///
    /// ```
    /// use kernels_gpu::op::ReduceOp;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// /// First `a`, then `b`; a map `[s, t]` is x ↦ s x + t.
    /// pub struct Compose;
    ///
    /// impl ReduceOp<[u32; 2]> for Compose {
    ///     type Acc = [u32; 2];
    ///     type Output = [u32; 2];
    ///
    ///     fn identity() -> [u32; 2] {
    ///         [1, 0]
    ///     }
    ///
    ///     fn lift(x: [u32; 2], _: u64) -> [u32; 2] {
    ///         x
    ///     }
    ///
    ///     fn combine(a: [u32; 2], b: [u32; 2]) -> [u32; 2] {
    ///         [a[0].wrapping_mul(b[0]), b[0].wrapping_mul(a[1]).wrapping_add(b[1])]
    ///     }
    ///
    ///     fn finish(acc: [u32; 2], _: u64) -> [u32; 2] {
    ///         acc
    ///     }
    /// }
    ///
    /// kernels_gpu::operator_kernels!(Compose: [u32; 2] => scan);
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator(); // on a GPU also Device::register_kernels
    /// let maps = ndarray::Array1::from(vec![[2, 1], [3, 0], [1, 5]]);
    /// let maps = DeviceArray::from_ndarray(device.default_stream(), &maps)?;
    /// assert_eq!(maps.inclusive_scan::<Compose>()?.to_ndarray()?.to_vec(), [[2, 1], [6, 3], [6, 8]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn inclusive_scan<Op: ReduceOp<T>>(&self) -> Result<DeviceArray<Op::Output, D>>
    where
        T: Scan<Op>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            whole_into::<Op, T, D>("inclusive_scan", self, ScanKind::Inclusive, out)
        })
    }

    /// [`inclusive_scan`](Self::inclusive_scan) into an existing array or view.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) if the shapes differ,
    /// [`Error::DifferentDevices`](crate::Error::DifferentDevices), and those of an allocation and a launch.
    pub fn inclusive_scan_into<Op: ReduceOp<T>>(&self, out: &mut DeviceArrayRef<Op::Output, D>) -> Result<()>
    where
        T: Scan<Op>,
    {
        whole_into::<Op, T, D>("inclusive_scan", self, ScanKind::Inclusive, out)
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
    pub fn inclusive_scan_by<Op: ReduceOp<T>>(&self, algorithm: ScanAlgorithm) -> Result<DeviceArray<Op::Output, D>>
    where
        T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.inclusive_scan_by_into::<Op>(algorithm, out)
        })
    }

    /// [`inclusive_scan_by`](Self::inclusive_scan_by) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn inclusive_scan_by_into<Op: ReduceOp<T>>(
        &self,
        algorithm: ScanAlgorithm,
        out: &mut DeviceArrayRef<Op::Output, D>,
    ) -> Result<()>
    where
        T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
    {
        whole_by_into::<Op, T, D>("inclusive_scan", self, ScanKind::Inclusive, algorithm, out)
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
    #[doc(alias = "prefix_sum")]
    pub fn exclusive_scan<Op: ReduceOp<T>>(&self) -> Result<DeviceArray<Op::Output, D>>
    where
        T: Scan<Op>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            whole_into::<Op, T, D>("exclusive_scan", self, ScanKind::Exclusive, out)
        })
    }

    /// [`exclusive_scan`](Self::exclusive_scan) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn exclusive_scan_into<Op: ReduceOp<T>>(&self, out: &mut DeviceArrayRef<Op::Output, D>) -> Result<()>
    where
        T: Scan<Op>,
    {
        whole_into::<Op, T, D>("exclusive_scan", self, ScanKind::Exclusive, out)
    }

    /// [`exclusive_scan`](Self::exclusive_scan) by the given algorithm.
    ///
    /// # Errors
    ///
    /// As [`exclusive_scan`](Self::exclusive_scan).
    pub fn exclusive_scan_by<Op: ReduceOp<T>>(&self, algorithm: ScanAlgorithm) -> Result<DeviceArray<Op::Output, D>>
    where
        T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
    {
        DeviceArray::made(self.stream(), self.raw_dim(), &mut |out| {
            self.exclusive_scan_by_into::<Op>(algorithm, out)
        })
    }

    /// [`exclusive_scan_by`](Self::exclusive_scan_by) into an existing array or view.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn exclusive_scan_by_into<Op: ReduceOp<T>>(
        &self,
        algorithm: ScanAlgorithm,
        out: &mut DeviceArrayRef<Op::Output, D>,
    ) -> Result<()>
    where
        T: Scan<Op> + ScanTree<Op, Output = Op::Output>,
    {
        whole_by_into::<Op, T, D>("exclusive_scan", self, ScanKind::Exclusive, algorithm, out)
    }
}
