// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention and its gradients on the tensor cores of Ampere and later: which operands the kernels take, and how they have them.

use cuda_std::launch::Kernel;
use kernels_gpu::attention::mma::{ROWS, THREADS, gradients, shared_bytes};
use kernels_gpu::attention::tiled::gradients::GradientStrides;
use kernels_gpu::compiled::{AmpereAttention, AmpereAttentionParams, AmpereGradientsParams};
use ndarray::Ix4;

use super::decode::lies_well;
use super::gradients::GradientsTask;
use super::{Attend, Task, has_ordered_exponents, steps, strides};
use crate::array::DeviceArray;
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

/// The gradients, if the device has such tensor cores and the kernel is written for such operands: nothing is added to scores.
pub(super) fn gradients<T: Attend + AmpereAttention>(
    task: &GradientsTask<'_, T>,
) -> Result<Option<[DeviceArray<T, Ix4>; 3]>> {
    if !has_tensor_cores(task.q.stream(), AMPERE) || task.extra.has_bias() {
        return Ok(None);
    }
    // SAFETY (of both): lines have so many elements, and the rest was just asked.
    let gradients = match task.shape.dim {
        64 => unsafe { launch_gradients::<T, T::GradientsD64>(task)? },
        128 => unsafe { launch_gradients::<T, T::GradientsD128>(task)? },
        _ => return Ok(None),
    };
    Ok(Some(gradients))
}

/// By the kernel for lines of as many elements.
///
/// # Safety
///
/// `K` is that for such lines, and there is no bias.
unsafe fn launch_gradients<T, K>(task: &GradientsTask<'_, T>) -> Result<[DeviceArray<T, Ix4>; 3]>
where
    T: Attend,
    K: Kernel<Params = AmpereGradientsParams<T>>,
{
    let (stream, dim) = (task.q.stream(), task.shape.dim as usize);
    let (q, k, v, grad) = (
        in_lines(task.q)?,
        in_lines(task.k)?,
        in_lines(task.v)?,
        in_lines(task.grad)?,
    );
    let (log_sums, deltas) = (task.log_sums.in_order()?, task.deltas().eval_on(stream)?);
    let mut gradients = task.results()?;
    let [dq, dk, dv] = &mut gradients;
    let config = LaunchConfig {
        dynamic_shared: gradients::shared_bytes(dim),
        ..LaunchConfig::new(gradients::blocks(&task.shape, dim), THREADS as u32)
    };
    let args = (
        Words::of(&q),
        Words::of(&k),
        Words::of(&v),
        Words::of(&grad),
        Words::of(&log_sums),
        &deltas,
        task.extra.sequences.as_deref().map(Words::of),
        dq,
        dk,
        dv,
        task.shape,
        GradientStrides {
            attention: strides(&q, &k, &v, None),
            grad: steps(&grad),
        },
        task.factors,
    );
    // SAFETY: the kernel's contract: threads, blocks and shared memory are those it is written for, as is the head dimension, by the caller's
    // promise. The shape, and that of its keys, were found valid for tiles of fewer lines, whose number is that of a grid; there are queries and
    // keys, and the sequences are those of the shape. Lines of operands begin at multiples of 16 bytes. The results are arrays of their own of the
    // shapes of queries and keys. Logarithms and products are in order, with one for each query.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
    Ok(gradients)
}

/// The elements themselves, if their lines lie as the kernel takes them, else a copy.
fn in_lines<T: Attend>(elements: &DeviceArrayRef<T, Ix4>) -> Result<Ordered<'_, T, Ix4>> {
    let elements = elements.forwards::<Ix4>(None)?;
    if lies_well(&elements) {
        return Ok(elements);
    }
    elements.into_copied()
}
