// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on Hopper's tensor cores: which operands its kernel takes, and how it has them.

use std::f32::consts::LOG2_E;

use cuda_std::launch::Kernel;
use kernels_gpu::attention::wgmma::gradients::{self, LINES, ROWS, of_keys};
use kernels_gpu::attention::wgmma::{CONSUMER_ROWS, COUNTERS, KEYS, dim, rows, shared_bytes, threads};
use kernels_gpu::compiled::{GradientsOfKeysParams, GradientsOfQueriesParams, HopperAttention, HopperAttentionParams};
use ndarray::{Dim, Ix4, Ix5, s};

use super::gradients::GradientsTask;
use super::{Attend, Task, scores};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::expr;
use crate::launch::{LaunchConfig, Words};
use crate::ops::matmul::is_hopper;
use crate::ops::transpose::Ordered;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapArg};
use crate::view::DeviceView;

/// Elements of a piece of a line: 128 bytes.
const PIECE: usize = 64;

/// Registers of a thread's part of a result, for each head dimension.
const D64: usize = 32;
const D128: usize = 64;

/// Computes, if the device has such tensor cores and the kernel is written for such operands.
pub(super) fn compute<T: Attend + HopperAttention + TensorElement>(task: &mut Task<'_, T>) -> Result<bool> {
    let scores = scores(task.q, task.k);
    if !(task.extra.bias.as_deref()).is_none_or(|bias| can_be_in_pairs(bias, scores, task.factor))
        || !is_hopper(task.q.stream())
        || !is_positive(task.factor)
        || task.shape.keys == 0
    {
        return Ok(false);
    }
    match (task.shape.dim as usize, task.extra.is_empty()) {
        (d, true) if d == dim(D64) => launch::<T, <T as HopperAttention>::D64>(task, D64)?,
        (d, true) if d == dim(D128) => launch::<T, <T as HopperAttention>::D128>(task, D128)?,
        (d, false) if d == dim(D64) => launch::<T, <T as HopperAttention>::FormsD64>(task, D64)?,
        (d, false) if d == dim(D128) => launch::<T, <T as HopperAttention>::FormsD128>(task, D128)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Whether greater scores are greater exponents.
fn is_positive(factor: f32) -> bool {
    factor > 0.0 && factor.is_finite()
}

/// By the kernel whose results take so many registers of a thread, as `K`'s do.
fn launch<T: Attend + TensorElement, K: Kernel<Params = HopperAttentionParams<T>>>(
    task: &mut Task<'_, T>,
    registers: usize,
) -> Result<()> {
    let stream = task.q.stream();
    let scores = scores(task.q, task.k);
    let bias = task.extra.bias.as_deref();
    let bias = bias.map(|bias| in_pairs(bias, scores)).transpose()?;
    let bias = bias.as_ref().map(|bias| of_keys_of(bias, scores)).transpose()?;
    let bias_strides = bias
        .as_deref()
        .map_or([0; 3], |bias| [0, 1, 2].map(|axis| bias.steps()[axis]));
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
        bias.as_deref().map(Words::of),
        task.extra.sequences.as_deref().map(Words::of),
        &mut task.out,
        &mut task.log_sums,
        &mut counters,
        task.shape,
        bias_strides,
        [task.factor, LOG2_E / task.factor],
    );
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, as is the head dimension. The shape was
    // found valid for tiles of fewer queries, there are keys, and the factor is positive. The maps are of five axes, in tiles as it wants
    // them. The results are arrays of their own, whose first elements are at multiples of 16 bytes. The counters are this launch's. The
    // sequences are those of the shape, and the bias lies as `in_pairs` says.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
    counters.give_back();
    Ok(())
}

/// Whether [`in_pairs`] has such a bias: with an element for each key, and in units of scores.
fn can_be_in_pairs<T: Element>(bias: &DeviceArrayRef<T, Ix4>, [.., keys]: [usize; 4], factor: f32) -> bool {
    bias.shape()[3] == keys && (LOG2_E / factor).is_finite()
}

/// A bias whose elements for two neighbouring keys are one access, with room behind the last one: itself, if it lies so, or a copy.
fn in_pairs<T: Element>(bias: &DeviceArrayRef<T, Ix4>, scores: [usize; 4]) -> Result<Ordered<'_, T, Ix4>> {
    let [.., keys] = scores;
    let view = bias.broadcast(scores)?;
    let lies_so = keys.is_multiple_of(2)
        && view.steps()[3] == 1
        && view.steps()[..3].iter().all(|step| step.is_multiple_of(2))
        && Words::<T>::of(bias).address().is_multiple_of(4);
    if lies_so {
        return Ok(Ordered::AsIs(bias.view()));
    }
    let [batch, heads, queries] = [0, 1, 2].map(|axis| bias.shape()[axis]);
    let room = Dim([batch, heads, queries, keys.next_multiple_of(2)]);
    let mut copy = DeviceArray::uninit_with_room(bias.stream(), room)?;
    copy.slice_mut(s![.., .., .., ..keys])?.assign(bias)?;
    Ok(Ordered::Copied(copy))
}

/// What [`in_pairs`] gave, for the scores of that shape.
fn of_keys_of<'a, T: Element>(bias: &'a Ordered<'_, T, Ix4>, scores: [usize; 4]) -> Result<DeviceView<'a, T, Ix4>> {
    let [batch, heads, queries, keys] = scores;
    bias.broadcast([batch, heads, queries, keys.next_multiple_of(2)])
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

/// The gradients, if the device has such tensor cores and the kernels are written for such operands. There are keys.
pub(super) fn gradients<T: Attend + HopperAttention + TensorElement>(
    task: &GradientsTask<'_, T>,
) -> Result<Option<[DeviceArray<T, Ix4>; 3]>> {
    if task.extra.has_bias() || !is_hopper(task.q.stream()) || !is_positive(task.factors[0]) {
        return Ok(None);
    }
    let gradients = match (task.shape.dim as usize, task.extra.is_empty()) {
        (d, true) if d == dim(D64) => launch_gradients::<T, T::GradientsOfKeysD64, T::GradientsOfQueriesD64>(task, D64),
        (d, true) if d == dim(D128) => {
            launch_gradients::<T, T::GradientsOfKeysD128, T::GradientsOfQueriesD128>(task, D128)
        }
        (d, false) if d == dim(D64) => launch_gradients::<T, T::FormsOfKeysD64, T::FormsOfQueriesD64>(task, D64),
        (d, false) if d == dim(D128) => launch_gradients::<T, T::FormsOfKeysD128, T::FormsOfQueriesD128>(task, D128),
        _ => return Ok(None),
    };
    gradients.map(Some)
}

/// By the kernels whose results take so many registers of a thread, as `K`'s and `Q`'s do.
fn launch_gradients<T, K, Q>(task: &GradientsTask<'_, T>, registers: usize) -> Result<[DeviceArray<T, Ix4>; 3]>
where
    T: Attend + TensorElement,
    K: Kernel<Params = GradientsOfKeysParams<T>>,
    Q: Kernel<Params = GradientsOfQueriesParams<T>>,
{
    let stream = task.q.stream();
    let of_queries = of_queries(task)?;
    let padded = of_queries.shape()[3];
    let sequences = || task.extra.sequences.as_deref().map(Words::of);
    let known = of_queries.slice(s![.., .., .., ..task.shape.queries as usize])?;
    let known = known.into_tensor_map(f32::TYPE.0, &[2, 1, 1, LINES], Swizzle::None)?;
    let (q, k, v, grad) = (
        mappable(task.q)?,
        mappable(task.k)?,
        mappable(task.v)?,
        mappable(task.grad)?,
    );
    let (q, k, v, grad) = (map(&q, LINES)?, map(&k, LINES)?, map(&v, LINES)?, map(&grad, LINES)?);
    let (shape, factors) = (task.shape, task.factors);
    let config = |tiles| LaunchConfig {
        dynamic_shared: gradients::shared_bytes(registers),
        ..LaunchConfig::new(tiles, gradients::THREADS as u32)
    };
    let mut gradients = task.results()?;
    let [dq, dk, dv] = &mut gradients;
    let tiles = of_keys(&shape).tiles(ROWS as u32);
    let args = (
        &q,
        &k,
        &v,
        &grad,
        &known,
        &of_queries,
        padded,
        sequences(),
        dk,
        dv,
        shape,
        factors,
    );
    // SAFETY (of both): the kernels' contracts: threads, blocks and shared memory are those they are written for, as is the head dimension.
    // The shape was found valid for tiles of 64 queries, and of 64 keys; there are keys, and the factor is positive. The maps are of
    // five axes, in tiles as they want them, and what is known of queries is, for each, as they say. The results are arrays of their
    // own, whose first elements are at multiples of 16 bytes. The sequences are those of the shape.
    unsafe { stream.launch_on_tensor_cores::<K>(&config(tiles), args)? };
    let tiles = shape.tiles(ROWS as u32);
    let args = (&q, &k, &v, &grad, &of_queries, padded, sequences(), dq, shape, factors);
    unsafe { stream.launch_on_tensor_cores::<Q>(&config(tiles), args)? };
    Ok(gradients)
}

/// For each query the logarithm to base 2 of its sum of exponentials, or ∞ if it sees no key, and the product of its result and its gradient:
/// the first of four axes is these two. Lines begin at multiples of 16 bytes, as tensor maps want them.
fn of_queries<T: Attend>(task: &GradientsTask<'_, T>) -> Result<DeviceArray<f32, Ix4>> {
    let [batch, heads, queries] = [0, 1, 2].map(|axis| task.q.shape()[axis]);
    let padded = queries.next_multiple_of(4);
    let mut known = DeviceArray::uninit(task.q.stream(), Dim([2, batch, heads, padded]))?;
    let log_sums = task.log_sums.expr();
    let exponents = log_sums
        .equal(f32::NEG_INFINITY)
        .select(expr::scalar(f32::INFINITY), log_sums * std::f32::consts::LOG2_E);
    exponents.eval_into(&mut known.slice_mut(s![0, .., .., ..queries])?)?;
    task.deltas()
        .eval_into(&mut known.slice_mut(s![1, .., .., ..queries])?)?;
    Ok(known)
}
