// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans by operators of one's own.

use cuda_std::launch::SafeKernel;
use kernels_gpu::op::ReduceOp;
use kernels_gpu::scan::lookback;
use ndarray::Dimension;

use super::{LookBackParams, ScanKind, check, look_back};
use crate::array::{DeviceArray, Element};
use crate::error::Result;
use crate::ops::KernelOf;

/// Scans by an operator of one's own.
impl<T: Element, D: Dimension> DeviceArray<T, D> {
    /// The scan of the whole array by operator `Op` and kernel `K`, with decoupled look-back.
    ///
    /// `K` is a kernel of the caller's kernels crate that does nothing but call
    /// [`kernels_gpu::scan::lookback::scan`](fn@kernels_gpu::scan::lookback::scan), and has its parameters.
    /// `Op` may be any [`ReduceOp`], commutative or not, whose `Acc` has at most 32 bytes.
    ///
    /// # Errors
    ///
    /// Those of an allocation and a launch.
    ///
    /// # Examples
    ///
    /// The composition of affine maps, which is not commutative:
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use kernels_gpu::op::ReduceOp;
    /// use kernels_gpu::scan::lookback::{self, THREADS};
    /// use ndarray::Array1;
    /// use warpsmith::ops::ScanKind;
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
    /// #[kernel(max_threads = THREADS)]
    /// pub fn compose(x: &[[u32; 2]], n: usize, exclusive: u32, state: SliceMut<'_, u64>, out: SliceMut<'_, [u32; 2]>) {
    ///     lookback::scan::<[u32; 2], Compose>(x, n, exclusive, state, out);
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let maps = Array1::from(vec![[2, 1], [3, 0], [1, 5]]);
    /// let maps = DeviceArray::from_ndarray(device.default_stream(), &maps)?;
    /// let composed = maps.scan_with::<compose, Compose>(ScanKind::Inclusive)?;
    /// assert_eq!(composed.to_ndarray()?.to_vec(), [[2, 1], [6, 3], [6, 8]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan_with<K, Op>(&self, kind: ScanKind) -> Result<DeviceArray<Op::Output, D>>
    where
        Op: ReduceOp<T>,
        K: SafeKernel<Params = LookBackParams<T, Op::Output>>,
    {
        let mut out = DeviceArray::uninit(self.stream(), self.raw_dim())?;
        self.scan_with_into::<K, Op>(kind, &mut out)?;
        Ok(out)
    }

    /// [`scan_with`](Self::scan_with) into an existing array.
    ///
    /// # Errors
    ///
    /// As [`inclusive_scan_into`](Self::inclusive_scan_into).
    pub fn scan_with_into<K, Op>(&self, kind: ScanKind, out: &mut DeviceArray<Op::Output, D>) -> Result<()>
    where
        Op: ReduceOp<T>,
        K: SafeKernel<Params = LookBackParams<T, Op::Output>>,
    {
        check("scan_with", self, out)?;
        if self.is_empty() {
            return Ok(());
        }
        let count = lookback::tiles_of_row::<T, Op>(self.len(), self.len());
        let shared = lookback::shared_bytes::<T, Op>();
        look_back::<K, Op::Acc, T, Op::Output, D>(self, (self.len(), count, shared), kind, out, KernelOf::User)
    }
}
