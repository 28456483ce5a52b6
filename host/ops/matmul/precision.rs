// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` with a precision that the caller chooses.

use ndarray::{Dimension, Ix2, Ix3};

use super::MatMul;
use super::fused::FusedMatMul;
use super::gemm::Multiply;
use super::tensor;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;

/// How precisely a product of matrices of `f32` takes its operands.
///
/// Sums are in f32 either way, and results do not change from run to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As they are: IEEE f32 throughout. What the methods do that do not ask.
    #[default]
    Full,
    /// Rounded to TF32, which has f32's range and 11 bits of precision, where the tensor cores of a GPU from Ampere on
    /// multiply them, several times as fast. What PyTorch calls `allow_tf32`, and cuBLAS `COMPUTE_32F_FAST_TF32`.
    ///
    /// Each operand is off by at most 2⁻¹¹ of its magnitude, a sum of k products by `k 2⁻²³ Σ|a||b|`: an element's error is
    /// at most `(2⁻¹⁰ + k 2⁻²³) Σ|a||b|`, to first order. Elsewhere it is the same as `Full`, which is at least as precise.
    ///
    /// Hopper's tensor cores take TF32 along k, but one of the operands in any order where the result is only scaled. Of two
    /// whose neighbours along k are not beside one another in memory (in C order those of `a.t() · b`), the smaller one is copied
    /// first; with a bias, a function, a residual or a `beta`, each such operand is. So is, on any GPU, one whose lines do not begin
    /// at multiples of 16 bytes. A copy reads and writes its elements once, and wants memory for as many.
    Tf32,
}

impl Precision {
    /// What multiplies so.
    pub(super) fn multiply<D: Dimension>(self) -> Multiply<f32, D> {
        match self {
            Precision::Full => <f32 as MatMul>::multiply,
            Precision::Tf32 => tensor::multiply_tf32,
        }
    }
}

/// Products of matrices with a precision.
impl DeviceArrayRef<f32, Ix2> {
    /// [`matmul`](Self::matmul) with a precision.
    ///
    /// Operands may lie as they like; [`Precision::Tf32`] says which are copied on Hopper.
    ///
    /// # Errors
    ///
    /// As [`matmul`](Self::matmul).
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::ops::Precision;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, 2.0], [3.0, 4.0]])?;
    /// // Small integers have few bits: nothing is rounded.
    /// assert_eq!(a.matmul_with(&a, Precision::Tf32)?.to_ndarray()?, array![[7.0, 10.0], [15.0, 22.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn matmul_with(&self, b: &DeviceArrayRef<f32, Ix2>, precision: Precision) -> Result<DeviceArray<f32, Ix2>> {
        FusedMatMul::new("matmul_with", self, b).precision(precision).compute()
    }
}

/// Products of batches of matrices with a precision.
impl DeviceArrayRef<f32, Ix3> {
    /// [`batched_matmul`](Self::batched_matmul) with a precision, as [`matmul_with`](DeviceArrayRef::matmul_with).
    ///
    /// # Errors
    ///
    /// As [`batched_matmul`](Self::batched_matmul).
    pub fn batched_matmul_with(
        &self,
        b: &DeviceArrayRef<f32, Ix3>,
        precision: Precision,
    ) -> Result<DeviceArray<f32, Ix3>> {
        let product = FusedMatMul::new("batched_matmul_with", self, b);
        product.precision(precision).compute()
    }
}

/// Products of matrices in place with a precision.
impl DeviceArrayRef<f32, Ix2> {
    /// [`gemm`](Self::gemm) with a precision: that of the operands, while `alpha`, `beta` and the old elements are taken as
    /// they are.
    ///
    /// # Errors
    ///
    /// As [`gemm`](Self::gemm), and those of an allocation.
    pub fn gemm_with(
        &mut self,
        alpha: f32,
        a: &DeviceArrayRef<f32, Ix2>,
        b: &DeviceArrayRef<f32, Ix2>,
        beta: f32,
        precision: Precision,
    ) -> Result<()> {
        let product = FusedMatMul::new("gemm_with", a, b).alpha(alpha);
        product.precision(precision).accumulate_into(self, beta)
    }
}

/// Products of batches of matrices in place with a precision.
impl DeviceArrayRef<f32, Ix3> {
    /// [`batched_gemm`](Self::batched_gemm) with a precision, as [`gemm_with`](DeviceArrayRef::gemm_with).
    ///
    /// # Errors
    ///
    /// As [`gemm_with`](DeviceArrayRef::gemm_with).
    pub fn batched_gemm_with(
        &mut self,
        alpha: f32,
        a: &DeviceArrayRef<f32, Ix3>,
        b: &DeviceArrayRef<f32, Ix3>,
        beta: f32,
        precision: Precision,
    ) -> Result<()> {
        let product = FusedMatMul::new("batched_gemm_with", a, b).alpha(alpha);
        product.precision(precision).accumulate_into(self, beta)
    }
}
