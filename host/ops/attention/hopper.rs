// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on Hopper's tensor cores: which operands its kernel takes, and how it has them.

use cuda_std::launch::Kernel;
use kernels_gpu::attention::wgmma::{CONSUMER_ROWS, COUNTERS, KEYS, dim, rows, shared_bytes, threads};
use kernels_gpu::compiled::{HopperAttention, HopperAttentionParams};
use ndarray::{Dim, Ix4, Ix5};

use super::{Attend, Task};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::ops::matmul::is_hopper;
use crate::ops::transpose::Ordered;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapArg};
use crate::view::DeviceView;

/// Elements of a piece of a line: 128 bytes.
const PIECE: usize = 64;

/// Computes, if the device has such tensor cores and the kernel is written for such operands.
pub(super) fn compute<T: Attend + HopperAttention + TensorElement>(task: &mut Task<'_, T>) -> Result<bool> {
    let is_positive = task.factor > 0.0 && task.factor.is_finite();
    if !is_hopper(task.q.stream()) || !is_positive || task.shape.keys == 0 {
        return Ok(false);
    }
    const D64: usize = 32;
    const D128: usize = 64;
    match task.shape.dim as usize {
        d if d == dim(D64) => launch::<T, <T as HopperAttention>::D64>(task, D64)?,
        d if d == dim(D128) => launch::<T, <T as HopperAttention>::D128>(task, D128)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// By the kernel whose results take so many registers of a thread, as `K`'s do.
fn launch<T: Attend + TensorElement, K: Kernel<Params = HopperAttentionParams<T>>>(
    task: &mut Task<'_, T>,
    registers: usize,
) -> Result<()> {
    let stream = task.q.stream();
    let (q, k, v) = (mappable(task.q)?, mappable(task.k)?, mappable(task.v)?);
    let (q, k, v) = (map(&q, CONSUMER_ROWS)?, map(&k, KEYS)?, map(&v, KEYS)?);
    let tiles = task.shape.tiles(rows(registers) as u32);
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(registers),
        ..LaunchConfig::new(
            tiles.min(stream.backend().properties().multiprocessors),
            threads(registers) as u32,
        )
    };
    let mut counters = stream.take_counters(COUNTERS)?;
    let args = (
        &q,
        &k,
        &v,
        &mut task.out,
        &mut task.log_sums,
        &mut counters,
        task.shape,
        task.factor,
    );
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, as is the head dimension. The shape was
    // found valid for tiles of fewer queries, there are keys, and the factor is positive. The maps are of five axes, in tiles as it wants
    // them. The results are arrays of their own, whose first elements are at multiples of 16 bytes. The counters are this launch's.
    unsafe { stream.launch_unchecked::<K>(&config, args)? };
    counters.give_back();
    Ok(())
}

/// The elements themselves, if a tensor map can have them, else a copy.
fn mappable<T: TensorElement>(elements: &DeviceArrayRef<T, Ix4>) -> Result<Ordered<'_, T, Ix4>> {
    let elements = elements.forwards::<Ix4>(None)?;
    let lies_along = elements.strides()[3] == 1;
    if lies_along && tensor_map::layout(&in_pieces(&elements), &[1, 1, 1, 1, PIECE], Swizzle::B128).is_ok() {
        return Ok(elements);
    }
    Ok(match elements {
        Ordered::AsIs(view) => Ordered::Copied(view.to_array()?),
        copied @ Ordered::Copied(_) => copied,
    })
}

/// Problems, heads, pieces of a line, lines, elements of a piece.
fn in_pieces<T: TensorElement>(elements: &DeviceArrayRef<T, Ix4>) -> DeviceView<'_, T, Ix5> {
    let [batch, heads, lines, dim] = [0, 1, 2, 3].map(|axis| elements.shape()[axis]);
    let steps = elements.steps();
    elements.laid_out(
        Dim([batch, heads, dim / PIECE, lines, PIECE]),
        vec![steps[0], steps[1], PIECE, steps[2], 1],
    )
}

/// The map, for tiles of so many lines of one head.
fn map<T: TensorElement>(elements: &DeviceArrayRef<T, Ix4>, lines: usize) -> Result<TensorMapArg<'_, T>> {
    let pieces = elements.shape()[3] / PIECE;
    in_pieces(elements).into_tensor_map(T::TYPE.0, &[1, 1, pieces, lines, PIECE], Swizzle::B128)
}
