// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention and its gradients.

use ndarray::{Array1, Ix1, Ix3, Ix4};
use warpsmith::ops::{Attend, Attention};
use warpsmith::{Checks, Device, DeviceArray, Simulation, bf16, f16};

use super::{AMPERE, HOPPER, Run, Value, each_type, in_order};

/// Queries, keys and values, with one head of keys.
struct Operands<T> {
    q: DeviceArray<T, Ix4>,
    k: DeviceArray<T, Ix4>,
    v: DeviceArray<T, Ix4>,
    /// How many of the keys count, where the kernels of other forms are wanted.
    lengths: Option<DeviceArray<u32, Ix1>>,
}

impl<T: Value + Attend> Operands<T> {
    fn new(run: &mut Run, heads: usize, [queries, keys, dim]: [usize; 3], length: Option<usize>) -> Self {
        let lengths = length.map(|length| {
            let lengths = Array1::from_elem(1, length as u32);
            run.ok(DeviceArray::from_ndarray(run.stream(), &lengths))
        });
        Self {
            q: run.array((1, heads, queries, dim)),
            k: run.array((1, 1, keys, dim)),
            v: run.array((1, 1, keys, dim)),
            lengths,
        }
    }

    /// What is added to scores: for each query, and for each key, or not.
    fn bias(&self, run: &mut Run, [of_queries, of_keys]: [bool; 2]) -> DeviceArray<T, Ix4> {
        let of = |is: bool, len: usize| if is { len } else { 1 };
        let (queries, keys) = (self.q.shape()[2], self.k.shape()[2]);
        run.array((1, 1, of(of_queries, queries), of(of_keys, keys)))
    }

    /// The results and sums that gradients begin with, which the same GPU computes without checks: what gives them is a family
    /// of its own.
    fn results(&self, run: &Run, bias: Option<&DeviceArray<T, Ix4>>) -> (DeviceArray<T, Ix4>, DeviceArray<f32, Ix3>) {
        let device = Device::simulated_as(Simulation {
            checks: Checks::NONE,
            counting: false,
            ..in_order(run.generation())
        });
        let stream = device.default_stream();
        let there = |x: &DeviceArray<T, Ix4>| run.ok(x.to_device(stream));
        let lengths = self.lengths.as_ref().map(|lengths| run.ok(lengths.to_device(stream)));
        let (q, k, v) = (there(&self.q), there(&self.k), there(&self.v));
        let (operands, bias) = (Self { q, k, v, lengths }, bias.map(there));
        let attention = operands.attention();
        let (out, log_sums) = run.ok(match &bias {
            Some(bias) => attention.bias(bias).compute_with_log_sum_exp(),
            None => attention.compute_with_log_sum_exp(),
        });
        (
            run.ok(out.to_device(run.stream())),
            run.ok(log_sums.to_device(run.stream())),
        )
    }

    fn attention(&self) -> Attention<'_, T> {
        let attention = self.q.attention(&self.k, &self.v).causal();
        match &self.lengths {
            Some(lengths) => attention.key_lengths(lengths),
            None => attention,
        }
    }
}

fn compute<T: Value + Attend>(run: &mut Run, heads: usize, shape: [usize; 3], length: Option<usize>) {
    let operands = Operands::<T>::new(run, heads, shape, length);
    let (out, log_sums) = run.ok(operands.attention().compute_with_log_sum_exp());
    run.keep(Ok(out));
    run.keep(Ok(log_sums));
}

/// With a bias that has an element for each query, and for each key, or not.
fn compute_with_bias<T: Value + Attend>(
    run: &mut Run,
    heads: usize,
    shape: [usize; 3],
    length: Option<usize>,
    axes: [bool; 2],
) {
    let operands = Operands::<T>::new(run, heads, shape, length);
    let bias = operands.bias(run, axes);
    run.keep(operands.attention().bias(&bias).compute());
}

pub(super) fn attentions(run: &mut Run) {
    match run.generation() {
        HOPPER => {
            each_type!(run, on_hopper: f16 bf16);
            // So many heads that a block has more tiles than there are stages. Both types have one code.
            compute::<f16>(run, 5, [16, 16, 64], None);
            compute::<bf16>(run, 5, [16, 16, 128], None);
            // Three tiles of keys.
            compute::<bf16>(run, 1, [20, 280, 128], None);
        }
        AMPERE => {
            each_type!(run, few_queries_on_ampere: f16 bf16);
            each_type!(run, on_ampere: f16 bf16);
        }
        _ => {
            each_type!(run, on_ordinary_cores: f32 f16 bf16);
            for axes in [[true, true], [false, true], [true, false]] {
                let shape = [16 + run.len(60), run.len(70), 8];
                let length = run.len(shape[1]);
                compute_with_bias::<f32>(run, 2, shape, Some(length), axes);
            }
        }
    }
}

fn on_ordinary_cores<T: Value + Attend>(run: &mut Run) {
    for dim in [64, 128, 256] {
        let shape = [16 + run.len(60), run.len(70), dim - 8 + run.len(8)];
        compute::<T>(run, 1, shape, None);
    }
    // One query, and several, whose keys are divided among blocks.
    for queries in [1, run.len(8)] {
        let keys = 256 + run.len(100);
        compute::<T>(run, 1, [queries, keys, 16], None);
    }
}

fn few_queries_on_ampere<T: Value + Attend>(run: &mut Run) {
    for dim in [64, 128] {
        let shape = [run.len(8), 256 + run.len(50), dim];
        compute::<T>(run, 2, shape, None);
    }
}

/// Keys of one tile, of two and of three: whether there is a next one to copy, and to wait for.
fn on_ampere<T: Value + Attend>(run: &mut Run) {
    for dim in [64, 128] {
        for (keys, length) in [(1, None), (64, Some(60)), (128, None)] {
            let shape = [17 + run.len(130), keys + run.len(60), dim];
            compute::<T>(run, 1, shape, length);
        }
    }
}

fn on_hopper<T: Value + Attend>(run: &mut Run) {
    for dim in [64, 128] {
        for length in [None, Some(run.len(100))] {
            let shape = [16 + run.len(40), 100 + run.len(40), dim];
            compute::<T>(run, 1, shape, length);
        }
        // Heads one after another, of which nothing is to be computed.
        let shape = [16 + run.len(40), run.len(40), dim];
        compute::<T>(run, 4, shape, Some(0));
        let shape = [16 + run.len(40), 100 + run.len(40), dim];
        compute_with_bias::<T>(run, 1, shape, None, [true, true]);
    }
}

pub(super) fn gradients(run: &mut Run) {
    match run.generation() {
        HOPPER => {
            gradients_of_one_tile(run);
            gradients_of_many_tiles(run);
        }
        AMPERE => each_type!(run, gradients_on_ampere: f16 bf16),
        _ => {
            // Two tiles of queries, two of keys, and one.
            let shapes = [
                [64 + run.len(9), run.len(20), 56 + run.len(8)],
                [run.len(20), 64 + run.len(9), 120 + run.len(8)],
                [run.len(30), run.len(20), 248 + run.len(8)],
            ];
            for shape in shapes {
                differentiate::<f32>(run, shape, None);
            }
            for axes in [[true, true], [false, true], [true, false]] {
                let shape = [16 + run.len(60), run.len(70), 8];
                let length = run.len(shape[1]);
                differentiate_bias::<f32>(run, 2, shape, length, axes);
            }
        }
    }
}

/// One tile of others, two, and three: whether there is a next one to copy, and to wait for. Each is of keys and of queries.
fn gradients_on_ampere<T: Value + Attend>(run: &mut Run) {
    for dim in [64, 128] {
        for (queries, keys, length) in [(17, 1, None), (33, 60, Some(70)), (70, 65, None)] {
            let shape = [queries + run.len(15), keys + run.len(31), dim];
            differentiate::<T>(run, shape, length);
        }
    }
}

/// By each entry of f16.
fn gradients_of_one_tile(run: &mut Run) {
    for (dim, heads) in [(64, 2), (128, 1)] {
        for length in [None, Some(run.len(50))] {
            let shape = [16 + run.len(40), 50 + run.len(20), dim];
            differentiate::<f16>(run, shape, length);
        }
        let shape = [16 + run.len(20), 50 + run.len(20), dim];
        let length = run.len(shape[1]);
        differentiate_bias::<f16>(run, heads, shape, length, [dim == 64, true]);
    }
}

/// By each entry of bf16, whose code is that of f16. A ring has two stages, and tiles of 128 queries, or 64 of long lines; a block
/// has 128 keys, and waits for the block of those before them.
fn gradients_of_many_tiles(run: &mut Run) {
    // Three tiles, and two blocks; then three blocks.
    differentiate::<bf16>(run, [260, 130, 64], None);
    differentiate::<bf16>(run, [20, 280, 128], None);
    // Two tiles, and a block of keys that do not count.
    let length = 20 + run.len(80);
    differentiate::<bf16>(run, [150, 140, 64], Some(length));
    // Two tiles, and two blocks; then three tiles, and heads that share a bias: of each, two places of a ring of three.
    differentiate_bias::<bf16>(run, 1, [140, 130, 64], 129, [true, true]);
    let length = run.len(20);
    differentiate_bias::<bf16>(run, 2, [150, 20, 128], length, [true, true]);
}

fn differentiate<T: Value + Attend>(run: &mut Run, shape: [usize; 3], length: Option<usize>) {
    let operands = Operands::<T>::new(run, 1, shape, length);
    let (out, log_sums) = operands.results(run, None);
    let gradient = run.array::<T, _>(out.raw_dim());
    for gradient in run.ok(operands.attention().gradients(&out, &log_sums, &gradient)) {
        run.keep(Ok(gradient));
    }
}

/// Of operands, and of a bias that has an element for each query, and for each key, or not.
fn differentiate_bias<T: Value + Attend>(
    run: &mut Run,
    heads: usize,
    shape: [usize; 3],
    length: usize,
    axes: [bool; 2],
) {
    let operands = Operands::<T>::new(run, heads, shape, Some(length));
    let bias = operands.bias(run, axes);
    let attention = || operands.attention().bias(&bias);
    let (out, log_sums) = operands.results(run, Some(&bias));
    let gradient = run.array::<T, _>(out.raw_dim());
    for gradient in run.ok(attention().gradients(&out, &log_sums, &gradient)) {
        run.keep(Ok(gradient));
    }
    run.keep(attention().bias_gradient(&out, &log_sums, &gradient));
}
