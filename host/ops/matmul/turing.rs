// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f16` on the tensor cores of Turing, by instructions of a warp.

use half::f16;
use kernels_gpu::compiled::TuringGemm;
use kernels_gpu::matmul::mma::Turing;
use kernels_gpu::matmul::mma::turing::COLUMNS;
use ndarray::Dimension;

use super::TURING;
use super::ampere::{Launch, Operands, config, mma_shape};
use super::finish::Finish;
use super::gemm::Multiplication;
use super::tensor::Summed;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;

/// Multiplies, if the stream's device has such tensor cores and they can count the product.
pub(super) fn multiply<C: Summed + TuringGemm, D: Dimension>(
    product: &Multiplication<'_, f16, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, D>,
    finish: &Finish<'_, C, D>,
) -> Result<bool> {
    let Some(mut shape) = mma_shape(&product.shape, TURING, stream).filter(|_| finish.alpha != 0.0) else {
        return Ok(false);
    };
    let operands = Operands::new(product, true, &mut shape)?;
    let launch = Launch {
        operands: &operands,
        shape,
        stream,
    };
    launch.run::<<C as TuringGemm>::Kernel, C, _>(config::<f16, f32, Turing>(&product.shape, COLUMNS), out, finish)?;
    Ok(true)
}
