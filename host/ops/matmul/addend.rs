// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Hopper's tensor cores add to each tile of a result by way of their ring: the elements that were there before, or a residual
//! that a tensor map can have.

use cuda_std::launch::Abi;
use cuda_std::tma::TensorMap;
use kernels_gpu::matmul::wgmma::addend::{ADDEND_M, RingAddend};
use kernels_gpu::matmul::wgmma::{LINE, WgmmaShape};
use ndarray::{Dimension, Ix3};

use super::finish::{self, Finish};
use super::hopper;
use super::operand::can_be_mapped;
use super::tensor::Summed;
use crate::error::Result;
use crate::launch::Arg;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorElement, TensorMapArg, TensorMapInPlace, TensorMapMutArg};
use crate::view::DeviceViewMut;

/// The map of the addend: of the result itself, also where there is none, or of the residual.
pub(super) enum AddendMap<'a, C> {
    Result(TensorMapInPlace<C>),
    Residual(TensorMapArg<'a, C>),
}

// SAFETY: what each of them is.
unsafe impl<C: TensorElement> Arg<TensorMap<'static, C>> for &AddendMap<'_, C> {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        match self {
            AddendMap::Result(map) => map.prepare(kernel, stream),
            AddendMap::Residual(map) => map.prepare(kernel, stream),
        }
    }

    fn is_part(&self) -> bool {
        match self {
            AddendMap::Result(map) => Arg::is_part(&map),
            AddendMap::Residual(map) => Arg::is_part(&map),
        }
    }

    fn abi(&self) -> Abi<TensorMap<'static, C>> {
        match self {
            AddendMap::Result(map) => map.abi(),
            AddendMap::Residual(map) => map.abi(),
        }
    }
}

/// The maps of a launch's result and of its addend, and what the addend is.
///
/// # Safety
///
/// The launch that takes one of them takes the other, and its kernel is a `gemm_wgmma` for products of this shape.
pub(super) unsafe fn maps<'out, 'addend, C: Summed, F: Copy>(
    out: &'out mut DeviceViewMut<'_, C, Ix3>,
    shape: &WgmmaShape,
    finish: &'addend Finish<'_, C, impl Dimension, F>,
) -> Result<(TensorMapMutArg<'out, C>, RingAddend, AddendMap<'addend, C>)> {
    let tile = [1, ADDEND_M, LINE / size_of::<C>()];
    if finish.beta != 0.0 {
        let ring = RingAddend {
            is: RingAddend::OLD,
            beta: finish.beta,
            step: 1,
        };
        // SAFETY: the caller's promise; the old elements of a tile are read before the new ones are stored.
        let old = unsafe { out.tensor_map(&tile, Swizzle::B128)?.in_place() };
        return Ok((hopper::result_map(out)?, ring, AddendMap::Result(old)));
    }
    let result = hopper::result_map(out)?;
    if let Some(residual) = finish.residual.as_deref() {
        let [product, row, column] = finish::strides(&finish.residual);
        let batch = if product == 0 { 1 } else { shape.batch as usize };
        let extents = Ix3(batch, shape.m as usize, shape.n as usize);
        let residual = residual.laid_out(extents, vec![product, row, column]);
        if can_be_mapped(&residual) {
            let ring = RingAddend {
                is: RingAddend::RESIDUAL,
                beta: 0.0,
                step: (product != 0).into(),
            };
            let map = residual.into_tensor_map(C::MAP_TYPE.0, &tile, Swizzle::B128)?;
            return Ok((result, ring, AddendMap::Residual(map)));
        }
    }
    // SAFETY: the caller's promise; nothing is read by it.
    let none = unsafe { result.in_place() };
    Ok((result, RingAddend::default(), AddendMap::Result(none)))
}
