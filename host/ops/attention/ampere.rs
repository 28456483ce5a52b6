// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on the tensor cores of Ampere and later: which operands its kernel takes, and how it has them.

use cuda_std::launch::Kernel;
use kernels_gpu::attention::mma::{ROWS, THREADS, shared_bytes};
use kernels_gpu::compiled::{AmpereAttention, AmpereAttentionParams};
use ndarray::Ix4;

use super::decode::lies_well;
use super::{Attend, Task, has_ordered_exponents, strides};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words};
use crate::ops::matmul::{AMPERE, has_tensor_cores};
use crate::ops::transpose::Ordered;

/// Computes, if the device has such tensor cores and the kernel is written for such operands: there is a key, nothing is added to scores, and greater
/// scores are greater exponents.
pub(super) fn compute<T: Attend + AmpereAttention>(task: &mut Task<'_, T>) -> Result<bool> {
    let fits = has_tensor_cores(task.q.stream(), AMPERE)
        && has_ordered_exponents(task.shape.keys, task.factor)
        && !task.extra.has_bias();
    if !fits {
        return Ok(false);
    }
    // SAFETY (of both): lines have so many elements, and the rest was just asked.
    match task.shape.dim {
        64 => unsafe { launch::<T, <T as AmpereAttention>::D64>(task)? },
        128 => unsafe { launch::<T, <T as AmpereAttention>::D128>(task)? },
        _ => return Ok(false),
    }
    Ok(true)
}

/// By the kernel for lines of as many elements.
///
/// # Safety
///
/// `K` is that for such lines, there is no bias, and the factor is positive.
unsafe fn launch<T: Attend, K: Kernel<Params = AmpereAttentionParams<T>>>(task: &mut Task<'_, T>) -> Result<()> {
    let (q, k, v) = (in_lines(task.q)?, in_lines(task.k)?, in_lines(task.v)?);
    let config = LaunchConfig {
        dynamic_shared: shared_bytes(task.shape.dim as usize),
        ..LaunchConfig::new(task.shape.tiles(ROWS as u32), THREADS as u32)
    };
    let args = (
        Words::of(&q),
        Words::of(&k),
        Words::of(&v),
        task.extra.sequences.as_deref().map(Words::of),
        &mut task.out,
        &mut task.log_sums,
        task.shape,
        strides(&q, &k, &v, None),
        task.factor,
    );
    // SAFETY: the kernel's contract: threads, blocks and shared memory are those it is written for, as is the head dimension, by the caller's
    // promise, as is the factor. The shape was found valid for tiles of fewer queries, and the sequences are those of the shape. Lines of operands
    // begin at multiples of 16 bytes. The results are arrays of their own, with as many lines as there are queries.
    unsafe { task.q.stream().launch_on_tensor_cores::<K>(&config, args) }
}

/// The elements themselves, if their lines lie as the kernel takes them, else a copy.
fn in_lines<T: Attend>(elements: &DeviceArrayRef<T, Ix4>) -> Result<Ordered<'_, T, Ix4>> {
    let elements = elements.forwards::<Ix4>(None)?;
    if lies_well(&elements) {
        return Ok(elements);
    }
    elements.into_copied()
}
