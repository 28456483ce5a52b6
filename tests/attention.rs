// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention against softmax and products in f64, by the kernel for any GPU, and by those for the tensor cores of Ampere and of Hopper: on a
//! GPU that has them, else on the simulated one.

use crate::common::*;
use ndarray::{Array3, Array4, Axis, Ix3, Ix4, s};
use proptest::prelude::RngExt;
use test_reference::attention::{Query, Row, Sums, bound_sums};
use warpsmith::ops::{Attend, Attention, CastTo};
use warpsmith::{Device, DeviceArray, Error, bf16, f16};

mod bias;
mod decode;
mod gradients;
mod seen;
mod special;

/// An attention, and random operands of it.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    dim: usize,
    causal: bool,
    window: [Option<usize>; 2],
    scale: Option<f32>,
    /// Which axes of the scores a bias has; the others are 1.
    bias: Option<[bool; 4]>,
    sequences: seen::Sequences,
}

/// One head.
fn case(queries: usize, keys: usize, dim: usize) -> Case {
    Case {
        batch: 1,
        heads: 1,
        key_heads: 1,
        queries,
        keys,
        dim,
        causal: false,
        window: [None; 2],
        scale: None,
        bias: None,
        sequences: seen::Sequences::All,
    }
}

impl Case {
    fn causal(self) -> Self {
        Self { causal: true, ..self }
    }

    fn heads(self, batch: usize, heads: usize, key_heads: usize) -> Self {
        Self {
            batch,
            heads,
            key_heads,
            ..self
        }
    }

    fn operands<T: FloatNumber>(&self) -> [Array4<T>; 3] {
        let mut rng = rng((self.queries * 1000 + self.keys + self.dim) as u64);
        let mut array = |heads: usize, lines: usize, most: f64| {
            Array4::from_shape_simple_fn((self.batch, heads, lines, self.dim), || {
                T::of((rng.random::<f64>() * 2.0 - 1.0) * most)
            })
        };
        [
            array(self.heads, self.queries, 3.0),
            array(self.key_heads, self.keys, 3.0),
            array(self.key_heads, self.keys, 1.0),
        ]
    }

    fn run<T: Attend>(&self, device: &Device, [q, k, v]: &[Array4<T>; 3]) -> (Array4<T>, Array3<f32>) {
        let [q, k, v] = [q, k, v].map(|x| DeviceArray::from_ndarray(device.default_stream(), x).unwrap());
        let (out, log_sums) = self.on(&q, &k, &v);
        (out.to_ndarray().unwrap(), log_sums.to_ndarray().unwrap())
    }

    fn on<T: Attend>(
        &self,
        q: &warpsmith::DeviceArrayRef<T, Ix4>,
        k: &warpsmith::DeviceArrayRef<T, Ix4>,
        v: &warpsmith::DeviceArrayRef<T, Ix4>,
    ) -> (DeviceArray<T, Ix4>, DeviceArray<f32, Ix3>) {
        self.with(q, k, v, |attention| attention.compute_with_log_sum_exp().unwrap())
    }

    /// What `f` makes of the attention.
    fn with<T: Attend, R>(
        &self,
        q: &warpsmith::DeviceArrayRef<T, Ix4>,
        k: &warpsmith::DeviceArrayRef<T, Ix4>,
        v: &warpsmith::DeviceArrayRef<T, Ix4>,
        f: impl FnOnce(Attention<'_, T>) -> R,
    ) -> R {
        let mut attention = q.attention(k, v).window(self.window[0], self.window[1]);
        if self.causal {
            attention = attention.causal();
        }
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        let stream = q.stream();
        let bias = self.bias_of().map(|bias| bias.mapv(|x| T::narrow(x as f32)));
        let bias = bias.map(|bias| DeviceArray::from_ndarray(stream, &bias).unwrap());
        if let Some(bias) = &bias {
            attention = attention.bias(bias);
        }
        let (lengths, sequences) = self.sequences.on(stream);
        if let Some(lengths) = &lengths {
            attention = attention.key_lengths(lengths);
        }
        if let Some(sequences) = &sequences {
            attention = attention.packed(sequences);
        }
        f(attention)
    }

    /// Checks on all devices.
    fn check<T: Attend + FloatNumber>(self) {
        let operands = self.operands::<T>();
        for device in all_devices::<T>() {
            self.check_on(&device, &operands);
        }
    }

    /// Checks on those with tensor cores.
    fn check_of_tensor_cores<T: Attend + FloatNumber>(self) {
        let operands = self.operands::<T>();
        for device in &all_devices::<T>()[1..] {
            self.check_on(device, &operands);
        }
    }

    fn check_on<T: Attend + FloatNumber>(&self, device: &Device, operands: &[Array4<T>; 3]) {
        let (out, log_sums) = self.run(device, operands);
        self.compare(operands, &out, &log_sums);
    }

    #[track_caller]
    fn compare<T: FloatNumber>(&self, operands: &[Array4<T>; 3], out: &Array4<T>, log_sums: &Array3<f32>) {
        assert_eq!(out.shape(), operands[0].shape());
        assert_eq!(log_sums.shape(), &out.shape()[..3]);
        let wide = Wide::new(self, operands);
        for (batch, head, row) in ndarray::indices((self.batch, self.heads, self.queries)) {
            let got = (out.slice(s![batch, head, row, ..]), log_sums[[batch, head, row]]);
            compare_row(&wide.query([batch, head, row]).row(), got, || {
                format!("{self:?}: batch {batch}, head {head}, query {row}")
            });
        }
    }

    /// What scores are multiplied with.
    fn scale(&self) -> f64 {
        self.scale.map_or(1.0 / (self.dim as f64).sqrt(), f64::from)
    }
}

/// A case and its operands in f64, as the reference takes them.
struct Wide<'a> {
    case: &'a Case,
    /// Queries, keys and values, in C order.
    operands: [Vec<f64>; 3],
    bias: Option<Array4<f64>>,
    unit_roundoff: f64,
    narrow: bool,
}

impl<'a> Wide<'a> {
    fn new<T: FloatNumber>(case: &'a Case, operands: &[Array4<T>; 3]) -> Self {
        Self {
            case,
            operands: operands.each_ref().map(|x| x.iter().map(|x| x.wide()).collect()),
            bias: case.bias_of(),
            unit_roundoff: T::UNIT_ROUNDOFF,
            narrow: size_of::<T>() == 2,
        }
    }

    /// Where the head of a query, and that of the keys that it sees, are among all elements.
    fn heads(&self, batch: usize, head: usize) -> [std::ops::Range<usize>; 2] {
        let case = self.case;
        let key_head = batch * case.key_heads + head / (case.heads / case.key_heads);
        let [queries, keys] = [case.queries * case.dim, case.keys * case.dim];
        let query_head = batch * case.heads + head;
        [
            query_head * queries..(query_head + 1) * queries,
            key_head * keys..(key_head + 1) * keys,
        ]
    }

    fn query(&self, [batch, head, row]: [usize; 3]) -> Query<'_> {
        let [q, k, v] = &self.operands;
        let [queries, keys] = self.heads(batch, head);
        let (seen, bias) = self.case.seen([batch, head, row], self.bias.as_ref());
        Query {
            q: &q[queries][row * self.case.dim..][..self.case.dim],
            keys: &k[keys.clone()],
            values: &v[keys],
            seen,
            bias,
            scale: self.case.scale(),
            unit_roundoff: self.unit_roundoff,
            narrow: self.narrow,
        }
    }
}

#[track_caller]
fn compare_row<T: FloatNumber>(row: &Row, (got, log_sum): (ndarray::ArrayView1<'_, T>, f32), at: impl Fn() -> String) {
    let (wanted, bound) = row.log_sum;
    if row.weights.is_empty() {
        assert_eq!(log_sum, f32::NEG_INFINITY, "{}", at());
    } else {
        let error = (f64::from(log_sum) - wanted).abs();
        assert!(
            error <= bound,
            "{}: logarithm {log_sum}, wanted {wanted}, bound {bound:e}",
            at()
        );
    }
    for (column, (got, (wanted, bound))) in got.iter().zip(&row.out).enumerate() {
        let error = (got.wide() - wanted).abs();
        assert!(
            error <= *bound,
            "{}, column {column}: {got:?}, wanted {wanted}, bound {bound:e}",
            at()
        );
    }
}

/// Those on which elements of this type go through different kernels: a GPU as it is and without its tensor cores, or the simulated one
/// with and without Hopper's.
fn devices<T: 'static>() -> Vec<Device> {
    let device = device().clone();
    match (size_of::<T>(), device.is_simulator()) {
        (4, _) => vec![device],
        (_, true) => vec![device, Device::simulated_hopper()],
        (_, false) => vec![device.as_generation((7, 5)).unwrap(), device],
    }
}

/// These, and, for results of 16 bits, the same GPU with no tensor cores but Ampere's.
fn all_devices<T: 'static>() -> Vec<Device> {
    let mut devices = devices::<T>();
    if size_of::<T>() == 2 {
        devices.push(device().as_ampere().unwrap());
    }
    devices
}

#[test]
fn one_query_and_one_key() {
    case(1, 1, 1).check::<f32>();
    case(1, 1, 64).check::<bf16>();
}

#[test]
fn lengths_around_a_tile() {
    for length in [63, 64, 65] {
        case(length, 67, 32).check::<f32>();
        case(17, length, 32).check::<f32>();
    }
    case(5, 77, 8).check::<f32>();
    case(17, 200, 16).check::<f32>();
}

#[test]
fn lengths_around_a_tile_of_tensor_cores() {
    for length in [127, 128, 129] {
        case(17, length, 64).check_of_tensor_cores::<bf16>();
    }
    case(193, 70, 64).check_of_tensor_cores::<bf16>();
    case(129, 20, 128).check_of_tensor_cores::<f16>();
    for length in [63, 64, 65] {
        case(32, length, 128).check_of_tensor_cores::<bf16>();
    }
}

#[test]
fn head_dimensions() {
    for dim in [1, 3, 32, 64, 80, 128, 130, 256] {
        case(17, 70, dim).check::<f32>();
    }
}

#[test]
fn head_dimensions_of_16_bits() {
    for dim in [30, 64, 128] {
        case(17, 140, dim).check::<bf16>();
        case(17, 140, dim).check::<f16>();
    }
    case(17, 5, 256).check::<f16>();
}

#[test]
fn causal_with_as_many_queries_as_keys() {
    case(70, 70, 16).causal().check::<f32>();
    case(140, 140, 64).causal().check::<bf16>();
}

#[test]
fn causal_with_fewer_queries_than_keys() {
    case(17, 150, 16).causal().check::<f32>();
    case(20, 300, 64).causal().check::<f16>();
    case(17, 19, 128).causal().check::<bf16>();
}

/// The first queries see no key.
#[test]
fn causal_with_more_queries_than_keys() {
    case(150, 40, 16).causal().check::<f32>();
    case(210, 9, 64).causal().check::<bf16>();
}

#[test]
fn grouped_heads_and_batches() {
    case(7, 9, 16).heads(2, 6, 2).check::<f32>();
    case(7, 9, 16).heads(1, 3, 1).causal().check::<f32>();
    case(9, 6, 64).heads(2, 4, 2).check::<bf16>();
    case(9, 6, 128).heads(1, 2, 1).causal().check::<f16>();
}

/// More tiles than blocks of tensor cores, each with an odd number of tiles of keys: all places of the rings, in each order.
#[test]
fn several_tiles_for_a_block() {
    let heads = 3 * device().properties().multiprocessors as usize + 1;
    for keys in [150, 300] {
        case(3, keys, 128).heads(1, heads, 1).check_of_tensor_cores::<f16>();
        case(17, keys, 64)
            .causal()
            .heads(1, heads, heads)
            .check_of_tensor_cores::<bf16>();
    }
}

/// So few tiles that blocks have one consumer, two of three, and all, by both kernels of a head dimension of tensor cores.
#[test]
fn few_tiles_and_many() {
    let multiprocessors = device().properties().multiprocessors as usize;
    for heads in [1, multiprocessors, 3 * multiprocessors + 1] {
        case(100, 150, 64)
            .causal()
            .heads(1, heads, 1)
            .check_of_tensor_cores::<bf16>();
        Case {
            bias: Some([false, false, true, true]),
            ..case(100, 130, 64).heads(1, heads, 1)
        }
        .check_of_tensor_cores::<f16>();
    }
    case(100, 140, 128)
        .heads(1, multiprocessors.div_ceil(2), 1)
        .check_of_tensor_cores::<f16>();
}

/// Of the keys that a block has, the first and the last are seen by some of its consumers alone.
#[test]
fn keys_of_few_consumers() {
    let heads = 3 * device().properties().multiprocessors as usize + 1;
    let case = case(200, 330, 64).heads(1, heads, heads);
    case.causal().check_of_tensor_cores::<bf16>();
    Case {
        window: [Some(20), Some(3)],
        ..case
    }
    .check_of_tensor_cores::<f16>();
}

/// Long enough for all kinds of tiles on a GPU; the simulated one has a smaller one.
#[test]
fn longer_sequences() {
    let (queries, keys) = if device().is_simulator() {
        (130, 261)
    } else {
        (300, 1337)
    };
    case(queries, keys, 128).causal().check::<bf16>();
    case(queries, keys, 64).check::<f16>();
    case(queries, keys, 96).causal().check::<f32>();
}

#[test]
fn scales() {
    for scale in [0.0, 1.0, -0.5] {
        let of = |case: Case| Case {
            scale: Some(scale),
            ..case
        };
        of(case(17, 70, 8)).check::<f32>();
        of(case(17, 130, 64)).check::<bf16>();
    }
}

#[test]
fn no_key_gives_zeros() {
    for causal in [false, true] {
        let case = Case {
            causal,
            ..case(3, 0, 64)
        };
        case.check::<f32>();
        case.check::<bf16>();
    }
}

#[test]
fn empty_results() {
    let empty = |case: Case| {
        let (out, log_sums) = case.run::<bf16>(device(), &case.operands());
        assert_eq!((out.len(), log_sums.len()), (0, 0));
        assert_eq!(out.shape(), [case.batch, case.heads, case.queries, case.dim]);
    };
    empty(case(0, 3, 64));
    empty(case(3, 3, 64).heads(0, 2, 1));
    empty(case(3, 3, 64).heads(1, 0, 0));
}

/// Heads behind positions, every other element, a part of the positions, and backwards.
#[test]
fn views() {
    let case = case(20, 30, 64).heads(2, 4, 2);
    for device in all_devices::<bf16>() {
        let stream = device.default_stream();
        let operands = case.operands::<bf16>();
        let [q, k, v] = &operands;
        let upload = |x: &ndarray::ArrayView4<'_, bf16>| DeviceArray::from_ndarray(stream, x).unwrap();
        let positions = |x: &Array4<bf16>| upload(&x.view().permuted_axes([0, 2, 1, 3]).as_standard_layout().view());
        let [a, b, c] = [q, k, v].map(positions);
        let [a, b, c] = [&a, &b, &c].map(|x| x.view().permuted_axes([0, 2, 1, 3]).unwrap());
        let (out, log_sums) = case.on(&a, &b, &c);
        case.compare(&operands, &out.to_ndarray().unwrap(), &log_sums.to_ndarray().unwrap());

        let mut wide = Array4::from_elem((2, 2, 33, 128), bf16::ZERO);
        wide.slice_mut(s![.., .., 3.., ..;2]).assign(k);
        let wide = upload(&wide.view());
        let k = wide.slice(s![.., .., 3.., ..;2]).unwrap();
        let backwards = upload(&v.slice(s![.., .., ..;-1, ..]));
        let v = backwards.slice(s![.., .., ..;-1, ..]).unwrap();
        let (out, log_sums) = case.on(&a, &k, &v);
        case.compare(&operands, &out.to_ndarray().unwrap(), &log_sums.to_ndarray().unwrap());
    }
}

/// One head of keys for all batches, by a view that repeats it.
#[test]
fn keys_that_are_repeated() {
    let case = case(17, 5, 64).heads(2, 2, 2);
    let [q, k, v] = case.operands::<bf16>();
    let [k, v] = [k, v].map(|x| {
        x.slice(s![..1, ..1, .., ..])
            .broadcast((2, 2, 5, 64))
            .unwrap()
            .to_owned()
    });
    for device in all_devices::<bf16>() {
        let upload = |x: &Array4<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let (a, b, c) = (upload(&q), upload(&k), upload(&v));
        let one = |x: &DeviceArray<bf16, Ix4>| x.slice(s![..1, ..1, .., ..]).unwrap().to_array().unwrap();
        let (b, c) = (one(&b), one(&c));
        let (b, c) = (b.broadcast((2, 2, 5, 64)).unwrap(), c.broadcast((2, 2, 5, 64)).unwrap());
        let (out, log_sums) = case.on(&a, &b, &c);
        let operands = [q.clone(), k.clone(), v.clone()];
        case.compare(&operands, &out.to_ndarray().unwrap(), &log_sums.to_ndarray().unwrap());
    }
}

#[test]
fn the_same_bits_each_time() {
    let case = case(70, 140, 64).heads(1, 3, 1).causal();
    for device in all_devices::<bf16>() {
        let operands = case.operands::<bf16>();
        let first = case.run(&device, &operands);
        assert_eq!(case.run(&device, &operands), first);
    }
}

#[test]
fn without_logarithms_the_result_is_the_same() {
    let case = case(17, 70, 64);
    for device in all_devices::<f16>() {
        let operands = case.operands::<f16>();
        let [q, k, v] = operands
            .each_ref()
            .map(|x| DeviceArray::from_ndarray(device.default_stream(), x).unwrap());
        let out = q.attention(&k, &v).compute().unwrap().to_ndarray().unwrap();
        assert_eq!(out, case.run(&device, &operands).0);
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let stream = device().default_stream();
    let of = |shape: [usize; 4]| DeviceArray::<f32, Ix4>::zeros(stream, shape).unwrap();
    let refused = |q: [usize; 4], k: [usize; 4], v: [usize; 4], wanted: &str| {
        let error = of(q).attention(&of(k), &of(v)).compute().unwrap_err();
        assert!(
            matches!(
                error,
                Error::Shape {
                    operation: "attention",
                    ..
                }
            ),
            "{error}"
        );
        let message = error.to_string();
        assert!(
            message.contains(&format!("{q:?}")) && message.contains(wanted),
            "{message}"
        );
    };
    refused([1, 2, 3, 8], [1, 2, 3, 9], [1, 2, 3, 9], "heads of keys");
    refused([1, 2, 3, 8], [1, 2, 3, 8], [1, 2, 4, 8], "heads of keys");
    refused([2, 2, 3, 8], [1, 2, 3, 8], [1, 2, 3, 8], "batch");
    refused([1, 3, 3, 8], [1, 2, 3, 8], [1, 2, 3, 8], "multiple");
    refused([1, 3, 3, 8], [1, 0, 3, 8], [1, 0, 3, 8], "multiple");
    refused([1, 1, 3, 0], [1, 1, 3, 0], [1, 1, 3, 0], "1 to 256");
    refused([1, 1, 3, 257], [1, 1, 3, 257], [1, 1, 3, 257], "1 to 256");
    let elsewhere = DeviceArray::<f32, Ix4>::zeros(Device::simulated_hopper().default_stream(), [1, 1, 3, 8]).unwrap();
    let here = of([1, 1, 3, 8]);
    for error in
        [here.attention(&elsewhere, &here), here.attention(&here, &elsewhere)].map(|a| a.compute().unwrap_err())
    {
        assert!(
            matches!(
                error,
                Error::DifferentDevices {
                    operation: "attention",
                    ..
                }
            ),
            "{error}"
        );
    }
}
