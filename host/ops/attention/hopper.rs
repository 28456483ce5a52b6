// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention on Hopper's tensor cores: which operands its kernel takes, and how it has them.

use std::f32::consts::LOG2_E;

use cuda_std::launch::Kernel;
use kernels_gpu::attention::AttentionShape;
use kernels_gpu::attention::bias_plan::BiasPlan;
use kernels_gpu::attention::wgmma::bias::{BiasAxes, SIDE};
use kernels_gpu::attention::wgmma::gradients::{
    self, Exponents, LINES, MOST_CHAINS, ROWS, SUMS, bias as of_bias, of_queries, of_sums,
};
use kernels_gpu::attention::wgmma::{
    CONSUMER_ROWS, COUNTERS, KEYS, blocks, consumers, dim, rows, shared_bytes, threads,
};
use kernels_gpu::compiled::{BiasGradientParams, HopperAttention, HopperAttentionParams, HopperGradientsParams};
use ndarray::{Dim, Ix4, Ix5, s};

use super::gradients::GradientsTask;
use super::sequences::Extra;
use super::{Attend, Task, has_ordered_exponents, steps};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words};
use crate::ops::matmul::is_hopper;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapArg};
use crate::view::DeviceView;

/// Elements of a piece of a line: 128 bytes.
const PIECE: usize = 64;

/// Bytes of queries, the gradients of results, and the sums of their own that stay in the cache.
const CACHED: u64 = 32 << 20;

/// Registers of a thread's part of a result, for each head dimension.
const D64: usize = 32;
const D128: usize = 64;

/// Computes, if the device has such tensor cores and the kernel is written for such operands.
pub(super) fn compute<T: Attend + HopperAttention + TensorElement>(task: &mut Task<'_, T>) -> Result<bool> {
    if !is_possible(task.q.stream(), &task.extra, task.shape.keys, task.factor) {
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

/// Whether the device has such tensor cores, there are keys, greater scores are greater exponents, and a bias has an element for each key,
/// and is finite in units of scores.
fn is_possible<T: Element>(stream: &Stream, extra: &Extra<'_, T>, keys: u32, factor: f32) -> bool {
    let bias = extra.bias.as_deref();
    is_hopper(stream)
        && has_ordered_exponents(keys, factor)
        && bias.is_none_or(|bias| bias.shape()[3] == keys as usize && (LOG2_E / factor).is_finite())
}

/// By the kernel whose results take so many registers of a thread, as `K`'s do.
fn launch<T: Attend + TensorElement, K: Kernel<Params = HopperAttentionParams<T>>>(
    task: &mut Task<'_, T>,
    registers: usize,
) -> Result<()> {
    let stream = task.q.stream();
    let bias = task.extra.bias.as_deref().map(in_boxes).transpose()?;
    let bias = bias.as_deref().map(|bias| BiasBoxes::new(bias, task.shape.keys));
    let bias = bias.transpose()?;
    let (q, k, v) = (mappable(task.q)?, mappable(task.k)?, mappable(task.v)?);
    let (q, k, v) = (map(&q, CONSUMER_ROWS)?, map(&k, KEYS)?, map(&v, KEYS)?);
    let multiprocessors = stream.backend().properties().multiprocessors;
    let shared = |consumers| shared_bytes(registers, consumers, !task.extra.is_empty(), bias.is_some());
    let held = |consumers| blocks(registers, consumers, shared(consumers)) as u32;
    let consumers = consumers_for(&task.shape, registers, multiprocessors, held);
    let tiles = task.shape.tiles(rows(consumers) as u32);
    let config = LaunchConfig {
        dynamic_shared: shared(consumers),
        ..LaunchConfig::new(tiles.min(multiprocessors * held(consumers)), threads(consumers) as u32)
    };
    let mut counters = stream.take_counters(COUNTERS)?;
    let args = (
        &q,
        &k,
        &v,
        bias.as_ref().map_or(&q, |bias| &bias.map),
        task.extra.sequences.as_deref().map(Words::of),
        &mut task.out,
        &mut task.log_sums,
        &mut counters,
        task.shape,
        BiasBoxes::axes(&bias),
        [task.factor, LOG2_E / task.factor],
    );
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, as is the head dimension. The shape was
    // found valid for tiles of as few queries, there are keys, and the factor is positive. The maps are of five axes, in tiles as it wants
    // them. The results are arrays of their own, whose first elements are at multiples of 16 bytes. The counters are this launch's. The
    // sequences are those of the shape, which are not packed where there is a bias, and that is in boxes as `BiasBoxes` has them.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
    counters.give_back();
    Ok(())
}

/// How long a block with so many consumers takes for a tile, and for each tile of keys that it sees, where so many blocks share a multiprocessor: twentieths
/// of a microsecond of an H100. Blocks with more consumers take longer, for more queries.
const fn cost(registers: usize, consumers: usize, together: u32) -> [u64; 2] {
    match (registers, consumers, together) {
        (D64, 1, 1) => [11, 16],
        (D64, 1, _) => [38, 23],
        (D64, 2, _) => [32, 26],
        (D64, _, _) => [27, 31],
        (_, 1, _) => [9, 22],
        (_, _, _) => [26, 28],
    }
}

/// Tiles of a head beyond which blocks have all consumers: how tiles fill multiprocessors makes little of a difference then.
const MANY: u32 = 256;

/// Rounds of tiles of few keys of which memory has the greatest part.
const MANY_ROUNDS: u64 = 16;

/// How many consumers blocks have: of packed sequences all. It is said how many blocks with so many a multiprocessor holds.
fn consumers_for(shape: &AttentionShape, registers: usize, multiprocessors: u32, held: impl Fn(usize) -> u32) -> usize {
    let most = consumers(registers);
    if shape.packed > 0 || shape.blocks(shape.queries, rows(most) as u32) > MANY {
        return most;
    }
    let least =
        (1..=most).min_by_key(|&consumers| estimate(shape, registers, consumers, [multiprocessors, held(consumers)]));
    least.unwrap_or(most)
}

/// About how long it takes with so many consumers for a block: no less than the longest tile, and what all take, divided by the
/// multiprocessors, and half a tile behind, or rounds of the longest ones, if that is less.
fn estimate(shape: &AttentionShape, registers: usize, consumers: usize, [multiprocessors, held]: [u32; 2]) -> u64 {
    let (sequence, rows) = (shape.whole(), rows(consumers) as u32);
    let heads = u64::from(shape.batch) * u64::from(shape.heads);
    let blocks = u64::from(shape.blocks(shape.queries, rows));
    let multiprocessors = u64::from(multiprocessors.max(1));
    let together = if heads * blocks > multiprocessors { held } else { 1 };
    // Where memory is the limit for many rounds, two consumers ask for keys half as often as one for itself.
    let is_of_memory =
        consumers == 2 && shape.keys <= 2 * KEYS as u32 && heads * blocks > MANY_ROUNDS * multiprocessors;
    let of_tile = |row: u32| {
        let [begin, end] = sequence.keys_of_tile(row, rows);
        let keys = u64::from(end.div_ceil(KEYS as u32) - begin / KEYS as u32).max(1);
        // Those without queries take some time, too.
        let with_queries = (shape.queries - row).div_ceil(CONSUMER_ROWS as u32) as usize;
        let [once, of_keys] = cost(registers, consumers.min(with_queries + 1), together);
        once + of_keys * keys - u64::from(is_of_memory)
    };
    let tiles = (0..shape.queries).step_by(rows as usize).map(of_tile);
    let (sum, longest) = tiles.fold((0, 0), |(sum, longest): (u64, u64), tile| {
        (sum + tile, longest.max(tile))
    });
    let at_a_time = multiprocessors * u64::from(together);
    let rounds = (heads * blocks).div_ceil(at_a_time) * longest;
    let filled = heads * sum / at_a_time + sum / (2 * blocks.max(1));
    longest.max(rounds.min(filled))
}

/// A bias as kernels have it.
struct BiasBoxes<'a, T> {
    map: TensorMapArg<'a, T>,
    axes: BiasAxes,
}

impl<'a, T: TensorElement> BiasBoxes<'a, T> {
    /// Of what [`in_boxes`] gives, for so many keys.
    fn new(bias: &'a DeviceArrayRef<T, Ix4>, keys: u32) -> Result<Self> {
        let of = [0, 1, 2].map(|axis| u32::from(bias.shape()[axis] > 1));
        let lines = if of[2] == 1 { SIDE } else { 1 };
        let bias = bias.slice(s![.., .., .., ..keys as usize])?;
        Ok(Self {
            map: bias.into_tensor_map(T::MAP_TYPE.0, &[1, 1, lines, SIDE], Swizzle::B128)?,
            axes: BiasAxes { is_there: 1, of },
        })
    }

    /// What kernels are told of it, if there is one.
    fn axes(boxes: &Option<Self>) -> BiasAxes {
        boxes.as_ref().map(|boxes| boxes.axes).unwrap_or_default()
    }
}

/// A bias, once along an axis on which it is repeated, with lines of which a tensor map has boxes: itself, if it lies so, or a copy, with room
/// behind each line.
fn in_boxes<T: TensorElement>(bias: &DeviceArrayRef<T, Ix4>) -> Result<Ordered<'_, T, Ix4>> {
    let (shape, steps) = (bias.raw_dim(), bias.steps());
    let once = |axis: usize| if axis < 3 && steps[axis] == 0 { 1 } else { shape[axis] };
    let [batch, heads, queries, keys] = [0, 1, 2, 3].map(once);
    let bias = bias.laid_out(Dim([batch, heads, queries, keys]), steps.clone());
    if tensor_map::layout(&bias, &[1, 1, 1, SIDE], Swizzle::B128).is_ok() {
        return Ok(Ordered::AsIs(bias));
    }
    let line = keys.next_multiple_of(16 / size_of::<T>());
    let mut copy = DeviceArray::uninit_with_room(bias.stream(), Dim([batch, heads, queries, line]))?;
    copy.slice_mut(s![.., .., .., ..keys])?.assign(&bias)?;
    Ok(Ordered::Copied(copy))
}

/// The elements themselves, if a tensor map can have them, else a copy.
fn mappable<T: TensorElement>(elements: &DeviceArrayRef<T, Ix4>) -> Result<Ordered<'_, T, Ix4>> {
    let elements = elements.forwards::<Ix4>(None)?;
    let lies_along = elements.strides()[3] == 1;
    if lies_along && tensor_map::layout(&in_pieces(&elements), &[1, 1, 1, 1, PIECE], Swizzle::B128).is_ok() {
        return Ok(elements);
    }
    elements.into_copied()
}

/// Queries, keys, values and the gradient of the result, as tensor maps can have them.
fn operands<'a, T: Attend + TensorElement>(task: &GradientsTask<'a, T>) -> Result<[Ordered<'a, T, Ix4>; 4]> {
    Ok([
        mappable(task.q)?,
        mappable(task.k)?,
        mappable(task.v)?,
        mappable(task.grad)?,
    ])
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
    in_pieces(elements).into_tensor_map(T::MAP_TYPE.0, &[1, 1, pieces, lines, PIECE], Swizzle::B128)
}

/// The gradients, if the device has such tensor cores and the kernels are written for such operands.
pub(super) fn gradients<T: Attend + HopperAttention + TensorElement>(
    task: &GradientsTask<'_, T>,
) -> Result<Option<[DeviceArray<T, Ix4>; 3]>> {
    if !is_possible(task.q.stream(), &task.extra, task.shape.keys, task.factors[0]) {
        return Ok(None);
    }
    let gradients = match (task.shape.dim as usize, task.extra.is_empty()) {
        (d, true) if d == dim(D64) => launch_gradients::<T, T::GradientsD64>(task, D64),
        (d, true) if d == dim(D128) => launch_gradients::<T, T::GradientsD128>(task, D128),
        (d, false) if d == dim(D64) => launch_gradients::<T, T::GradientsOfFormsD64>(task, D64),
        (d, false) if d == dim(D128) => launch_gradients::<T, T::GradientsOfFormsD128>(task, D128),
        _ => return Ok(None),
    };
    gradients.map(Some)
}

/// The heads of keys whose tiles are taken together for gradients, of which a GPU has some sixteen to eight blocks of each side by side then. With more of
/// them, blocks would wait for one another as they begin, most where a mask leaves them little to do; with fewer, each would have queries and sums come
/// to the cache anew: so where blocks walk over all of them, as many as have those of [`CACHED`].
fn group(shape: &AttentionShape) -> u32 {
    let of_query = u64::from(shape.dim) * (2 + 2 + 4);
    let of_head = u64::from(shape.sharing) * u64::from(shape.queries) * of_query;
    let heads = match shape.each_query_sees_all_keys() {
        true => CACHED.checked_div(of_head).unwrap_or(0).clamp(8, 16) as u32,
        false => 16,
    };
    heads.min(shape.batch * shape.key_head(shape.heads))
}

/// Among how many sums of each tile of queries blocks are divided. All blocks of a head begin with the same tile, and each waits for those ahead of it in its
/// chain; but what sums there are more are stored and read again. They are worth it where a head has several blocks, and all sums, of so many tiles,
/// stay in the cache. With a mask, blocks of short lines wait for more than it takes to read sums from memory, too; those of long lines end one after
/// another, but where a head has some eight, and a multiprocessor more than one.
fn chains(shape: &AttentionShape, registers: usize, tiles: usize, multiprocessors: u32) -> usize {
    let bytes = tiles * SUMS[0] * SUMS[1] * size_of::<f32>();
    let blocks = shape.keys.div_ceil(ROWS as u32);
    let all_blocks = u64::from(shape.batch * shape.key_head(shape.heads)) * u64::from(blocks);
    let sees_all = shape.each_query_sees_all_keys();
    // Each query sees all keys ahead of its last one.
    let is_causal = !sees_all && shape.packed == 0 && i64::from(shape.queries) + i64::from(shape.from) <= 1;
    let is_worth_it = match registers {
        D64 => blocks > 3 && bytes <= if is_causal { 128 << 20 } else { 32 << 20 },
        _ if sees_all => blocks > 3 && bytes <= 16 << 20,
        _ => is_causal && (8..=9).contains(&blocks) && all_blocks > u64::from(multiprocessors),
    };
    if is_worth_it { MOST_CHAINS } else { 1 }
}

/// By the kernel whose results take so many registers of a thread, as `K`'s do.
fn launch_gradients<T, K>(task: &GradientsTask<'_, T>, registers: usize) -> Result<[DeviceArray<T, Ix4>; 3]>
where
    T: Attend + HopperAttention + TensorElement,
    K: Kernel<Params = HopperGradientsParams<T>>,
{
    let stream = task.q.stream();
    let [q, k, v, grad] = operands(task)?;
    let of_queries = of_queries(task, &grad)?;
    let (q, k, v, grad) = (map(&q, LINES)?, map(&k, LINES)?, map(&v, LINES)?, map(&grad, LINES)?);
    let sequences = || task.extra.sequences.as_deref().map(Words::of);
    let bias = task.extra.bias.as_deref().map(in_boxes).transpose()?;
    let bias = bias.as_deref().map(|bias| BiasBoxes::new(bias, task.shape.keys));
    let bias = bias.transpose()?;
    let shape = AttentionShape {
        group: group(&task.shape),
        ..task.shape
    };
    let blocks = shape.of_keys().tiles(ROWS as u32);
    let tiles = shape.tiles(gradients::queries(registers) as u32) as usize;
    let multiprocessors = stream.backend().properties().multiprocessors;
    let chains = chains(&shape, registers, tiles, multiprocessors);
    let [lines, elements] = SUMS;
    let mut sums = DeviceArray::<f32, _>::uninit(stream, Dim([chains * tiles, lines, elements]))?;
    let mut turns = stream.take_counters(gradients::COUNTERS + chains * tiles)?;
    let [mut dq, mut dk, mut dv] = task.results()?;
    let [factor, scale] = task.factors;
    {
        let mut sums = sums.tensor_map_mut(&[1, lines, elements], Swizzle::None)?;
        let args = (
            &q,
            &k,
            &v,
            &grad,
            &of_queries,
            bias.as_ref().map_or(&q, |bias| &bias.map),
            sequences(),
            &mut sums,
            &mut turns,
            &mut dk,
            &mut dv,
            shape,
            Exponents {
                bias: BiasBoxes::axes(&bias),
                of_bias: LOG2_E / factor,
                factor,
                scale,
            },
            chains as u32,
        );
        let config = LaunchConfig {
            dynamic_shared: gradients::shared_bytes(registers, bias.is_some()),
            ..LaunchConfig::new(blocks, gradients::THREADS as u32)
        };
        // SAFETY: the kernel's contract: threads, blocks and shared memory are those it is written for, as is the head dimension. The shape was
        // found valid for tiles of 64 queries, and of 64 keys; there are keys, and the factor is positive. The maps are of five axes, in tiles as
        // it wants them, and what is known of queries is, for each, as it says. The results are arrays of their own, whose first elements are
        // at multiples of 16 bytes, the sums are of as many tiles, and the words are zeros, one for each tile behind the counter. The sequences are
        // those of the shape, which are not packed where there is a bias, and that is in boxes as `BiasBoxes` has them.
        unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
    }
    let config = LaunchConfig::new(tiles as u32, of_sums::THREADS as u32);
    let args = (&sums, sequences(), &mut dq, &mut turns, shape, scale, chains as u32);
    // SAFETY: the kernel's contract: threads and blocks are as it wants them. The rest is as above.
    unsafe { stream.launch_on_tensor_cores::<T::GradientsOfSums>(&config, args)? };
    turns.give_back();
    Ok([dq, dk, dv])
}

/// The sums that the gradient of a bias of that shape is made of, by the plan for them, if the device has such tensor cores and the kernel is
/// written for such operands.
pub(super) fn bias_gradient<T: Attend + HopperAttention + TensorElement>(
    task: &GradientsTask<'_, T>,
    bias: [u32; 4],
) -> Result<Option<(BiasPlan, DeviceArray<f32, Ix5>)>> {
    if !is_possible(task.q.stream(), &task.extra, task.shape.keys, task.factors[0]) {
        return Ok(None);
    }
    let plan = BiasPlan::new(&task.shape, bias, of_bias::TILE);
    let Some(blocks) = plan.blocks(&task.shape) else {
        return Ok(None);
    };
    let sums = match task.shape.dim as usize {
        d if d == dim(D64) => launch_bias_gradient::<T, T::BiasGradientD64>(task, &plan, blocks, D64)?,
        d if d == dim(D128) => launch_bias_gradient::<T, T::BiasGradientD128>(task, &plan, blocks, D128)?,
        _ => return Ok(None),
    };
    Ok(Some((plan, sums)))
}

/// By so many blocks of the kernel for a head dimension.
fn launch_bias_gradient<T, K>(
    task: &GradientsTask<'_, T>,
    plan: &BiasPlan,
    blocks: u32,
    registers: usize,
) -> Result<DeviceArray<f32, Ix5>>
where
    T: Attend + HopperAttention + TensorElement,
    K: Kernel<Params = BiasGradientParams<T>>,
{
    let stream = task.q.stream();
    let [q, k, v, grad] = operands(task)?;
    let of_queries = of_queries(task, &grad)?;
    let (q, k, v, grad) = (map(&q, LINES)?, map(&k, KEYS)?, map(&v, KEYS)?, map(&grad, LINES)?);
    let bias = in_boxes(task.extra.bias.as_deref().expect("its gradient is asked for"))?;
    let bias = BiasBoxes::new(&bias, task.shape.keys)?;
    let mut sums = DeviceArray::uninit(stream, Dim(plan.sums(&task.shape).map(|n| n as usize)))?;
    let config = LaunchConfig {
        dynamic_shared: of_bias::shared_bytes(registers),
        ..LaunchConfig::new(blocks, gradients::THREADS as u32)
    };
    let factor = task.factors[0];
    let args = (
        &q,
        &k,
        &v,
        &grad,
        &of_queries,
        &bias.map,
        task.extra.sequences.as_deref().map(Words::of),
        &mut sums,
        task.shape,
        bias.axes,
        *plan,
        [factor, LOG2_E / factor],
    );
    // SAFETY: the kernel's contract: threads, blocks and shared memory are those it is written for, as are the head dimension and the plan's
    // tiles. The shape was found valid, there are keys, and the factor is positive. The maps are of five axes, in tiles as it wants them,
    // what is known of queries is as it says, and the bias, which has each key, is in boxes as `BiasBoxes` has them. With a bias, sequences are
    // not packed. The sums are an array of their own of the plan's shape.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args)? };
    Ok(sums)
}

/// For each query the logarithm to base 2 of its sum of exponentials, or ∞ if it sees no key, and the product of its result and its gradient,
/// which [`mappable`] has made: the first of four axes is these two.
fn of_queries<T: Attend + HopperAttention + TensorElement>(
    task: &GradientsTask<'_, T>,
    grad: &DeviceArrayRef<T, Ix4>,
) -> Result<DeviceArray<f32, Ix4>> {
    let stream = task.q.stream();
    let [batch, heads, queries] = [0, 1, 2].map(|axis| task.q.shape()[axis]);
    let mut known = DeviceArray::uninit(stream, Dim([2, batch, heads, queries]))?;
    let (out, log_sums) = (mappable(task.out)?, task.log_sums.in_order()?);
    let blocks = task.shape.queries.div_ceil(of_queries::queries(task.shape.dim));
    let strides = |x: &DeviceArrayRef<T, Ix4>| {
        let [batch, heads, queries, _] = steps(x);
        [batch, heads, queries]
    };
    let args = (
        Words::of(&out),
        Words::of(grad),
        Words::of(&log_sums),
        &mut known,
        task.shape,
        strides(&out),
        strides(grad),
    );
    let blocks = (task.shape.batch * task.shape.heads).checked_mul(blocks);
    let blocks = blocks.expect("there is memory for two words of each query");
    let config = LaunchConfig::new(blocks, of_queries::THREADS as u32);
    // SAFETY: the kernel's contract: threads and blocks are as it wants them, and the head dimension is one of those. Results, their gradients and the
    // logarithms have the shape of the queries, the first two with lines that begin at multiples of 16 bytes, as they are `mappable`, the last in
    // order. There is room for two words of each query.
    unsafe { stream.launch_on_tensor_cores::<T::GradientsOfQueries>(&config, args)? };
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(registers: usize, [batch, positions]: [u32; 2], is_causal: bool) -> AttentionShape {
        AttentionShape {
            batch,
            heads: 16,
            sharing: 1,
            queries: positions,
            keys: positions,
            dim: dim(registers) as u32,
            from: -(positions as i32),
            reach: if is_causal { 0 } else { positions as i32 },
            group: 1,
            packed: 0,
        }
    }

    fn consumers_of(registers: usize, of: [u32; 2], is_causal: bool) -> usize {
        let shape = shape_of(registers, of, is_causal);
        let held = |consumers| blocks(registers, consumers, shared_bytes(registers, consumers, false, false)) as u32;
        consumers_for(&shape, registers, 132, held)
    }

    #[test]
    fn blocks_have_the_consumers_that_were_fastest() {
        for (shape, of_d64, of_d128) in [
            ([1, 512], [1, 1], [1, 1]),
            ([1, 1024], [1, 1], [2, 2]),
            ([2, 1024], [1, 1], [2, 2]),
            ([1, 2048], [1, 1], [2, 2]),
            // 2 were as fast.
            ([16, 256], [1, 2], [2, 2]),
            ([64, 256], [1, 2], [2, 2]),
            ([128, 256], [2, 2], [2, 2]),
            ([256, 256], [2, 2], [2, 2]),
            ([512, 128], [2, 2], [2, 2]),
            ([4, 1024], [3, 1], [2, 2]),
            ([32, 512], [3, 3], [2, 2]),
            // Causal 3 were as fast, within 2 %.
            ([8, 1000], [3, 1], [2, 2]),
            ([8, 2048], [3, 3], [2, 2]),
            ([1, 4096], [3, 3], [2, 2]),
            ([1, 1 << 20], [3, 3], [2, 2]),
        ] {
            assert_eq!(
                [false, true].map(|causal| consumers_of(D64, shape, causal)),
                of_d64,
                "{shape:?}"
            );
            assert_eq!(
                [false, true].map(|causal| consumers_of(D128, shape, causal)),
                of_d128,
                "{shape:?}"
            );
        }
    }

    #[test]
    fn gradients_have_the_chains_that_were_fastest() {
        for (shape, of_d64, of_d128) in [
            ([1, 512], [2, 2], [2, 1]),
            ([1, 1024], [2, 2], [2, 1]),
            ([2, 1024], [2, 2], [2, 2]),
            ([16, 1024], [1, 2], [1, 2]),
            ([1, 2048], [2, 2], [2, 1]),
            ([8, 2048], [1, 2], [1, 1]),
            ([4, 4096], [1, 2], [1, 1]),
            ([128, 128], [1, 1], [1, 1]),
        ] {
            let chains_of = |registers, causal| {
                let shape = shape_of(registers, shape, causal);
                let tiles = shape.tiles(gradients::queries(registers) as u32) as usize;
                chains(&shape, registers, tiles, 132)
            };
            assert_eq!([false, true].map(|causal| chains_of(D64, causal)), of_d64, "{shape:?}");
            assert_eq!(
                [false, true].map(|causal| chains_of(D128, causal)),
                of_d128,
                "{shape:?}"
            );
        }
        // With a window, blocks add to few tiles of queries: sums are no more than stay in the cache.
        let window = AttentionShape {
            from: -128,
            ..shape_of(D64, [16, 1024], true)
        };
        assert_eq!(chains(&window, D64, window.tiles(128) as usize, 132), 1);
    }

    #[test]
    fn shapes_without_queries_or_keys_have_consumers() {
        for positions in [0, 1] {
            assert!((1..=3).contains(&consumers_of(D64, [1, positions], true)));
            assert!((1..=2).contains(&consumers_of(D128, [0, positions], false)));
        }
    }
}
