// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windows, biases, and sequences of various lengths: results and gradients.

use warpsmith::{Stream, ops};

use super::*;

/// Which queries and keys belong together.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sequences {
    /// All of a problem.
    All,
    /// So many keys of each problem.
    First(&'static [u32]),
    /// So many queries, and keys, of sequences one after another.
    Packed(&'static [usize], &'static [usize]),
}

impl Sequences {
    pub(super) fn on(self, stream: &Stream) -> (Option<DeviceArray<u32, ndarray::Ix1>>, Option<ops::Sequences>) {
        match self {
            Self::All => (None, None),
            Self::First(lengths) => {
                let lengths = ndarray::arr1(lengths);
                (Some(DeviceArray::from_ndarray(stream, &lengths).unwrap()), None)
            }
            Self::Packed(queries, keys) => (None, Some(ops::Sequences::with_keys(stream, queries, keys).unwrap())),
        }
    }

    /// The queries and keys of the sequence that a query is of.
    fn of(self, case: &Case, batch: usize, row: usize) -> [std::ops::Range<usize>; 2] {
        match self {
            Self::All => [0..case.queries, 0..case.keys],
            Self::First(lengths) => [0..case.queries, 0..(lengths[batch] as usize).min(case.keys)],
            Self::Packed(queries, keys) => {
                let (mut query, mut key) = (0, 0);
                for (&queries, &keys) in queries.iter().zip(keys) {
                    if (query..query + queries).contains(&row) {
                        return [query..query + queries, key..key + keys];
                    }
                    query += queries;
                    key += keys;
                }
                panic!("query {row} is of no sequence");
            }
        }
    }
}

impl Case {
    fn window(self, left: Option<usize>, right: Option<usize>) -> Self {
        Self {
            window: [left, right],
            ..self
        }
    }

    fn biased(self, axes: [bool; 4]) -> Self {
        Self {
            bias: Some(axes),
            ..self
        }
    }

    /// One problem of packed sequences, of so many queries and keys each.
    fn packed(queries: &'static [usize], keys: &'static [usize], dim: usize) -> Self {
        Self {
            sequences: Sequences::Packed(queries, keys),
            ..case(queries.iter().sum(), keys.iter().sum(), dim)
        }
    }

    /// What is added to scores, which bf16 can represent, too: some are −∞.
    pub(super) fn bias_of(&self) -> Option<Array4<f64>> {
        let scores = [self.batch, self.heads, self.queries, self.keys];
        let axes = self.bias?;
        let mut rng = rng(self.queries as u64);
        let shape: [usize; 4] = std::array::from_fn(|axis| if axes[axis] { scores[axis] } else { 1 });
        Some(Array4::from_shape_simple_fn(shape, || match rng.random::<f64>() {
            x if x < 0.1 => f64::NEG_INFINITY,
            x => (x * 32.0).round() / 8.0 - 2.0,
        }))
    }

    /// The keys that a query sees, and what is added to their scores.
    pub(super) fn seen(&self, [batch, head, row]: [usize; 3], bias: Option<&Array4<f64>>) -> (Vec<usize>, Vec<f64>) {
        let [queries, keys] = self.sequences.of(self, batch, row);
        let position = (row - queries.start + keys.len()) as isize - queries.len() as isize;
        let [left, mut right] = self.window;
        if self.causal {
            right = Some(0);
        }
        let scores = bias.map(|bias| {
            bias.broadcast((self.batch, self.heads, self.queries, self.keys))
                .unwrap()
        });
        let seen = keys.clone().filter_map(|key| {
            let ahead = (key - keys.start) as isize - position;
            let inside =
                left.is_none_or(|left| -ahead <= left as isize) && right.is_none_or(|right| ahead <= right as isize);
            let added = scores.map_or(0.0, |scores| scores[[batch, head, row, key]]);
            (inside && added > f64::NEG_INFINITY).then_some((key, added))
        });
        seen.unzip()
    }

    /// Results and gradients, on all devices.
    #[track_caller]
    fn check_both<T: Attend + FloatNumber>(self) {
        self.check::<T>();
        self.check_gradients::<T>();
    }
}

#[test]
fn formulas_agree_with_differences() {
    use super::gradients::agree_with_differences as agree;

    agree(case(4, 5, 3).window(Some(1), Some(1)));
    agree(case(3, 5, 2).heads(2, 2, 1).biased([true; 4]));
    agree(Case::packed(&[2, 3], &[3, 1], 2).causal());
    agree(Case {
        sequences: Sequences::First(&[2, 0]),
        ..case(3, 4, 2).heads(2, 1, 1)
    });
}

/// Narrower than a tile and wider, on one side and both, with the first queries, or the last ones, at an edge.
#[test]
fn windows() {
    for window in [
        (Some(0), Some(0)),
        (Some(3), Some(0)),
        (Some(70), Some(5)),
        (None, Some(2)),
        (Some(9), None),
    ] {
        case(70, 140, 8).window(window.0, window.1).check_both::<f32>();
    }
    case(200, 200, 8).window(Some(10), Some(0)).check::<f32>();
    case(9, 140, 8)
        .heads(1, 4, 2)
        .window(Some(20), None)
        .causal()
        .check_both::<f32>();
    // The first queries see no key.
    case(90, 9, 8).window(Some(2), Some(1)).check_both::<f32>();
}

/// So far that all is seen.
#[test]
fn windows_that_hide_nothing() {
    let plain = case(20, 70, 16);
    let operands = plain.operands::<f32>();
    for most in [70, usize::MAX] {
        let window = plain.window(Some(most), Some(most));
        assert_eq!(window.run(device(), &operands), plain.run(device(), &operands));
    }
}

/// Tiles of 128 keys that are not read, and parts of those that are.
#[test]
fn windows_on_tensor_cores() {
    case(30, 400, 64).window(Some(100), Some(0)).check::<bf16>();
    case(200, 200, 64).window(Some(5), Some(3)).check::<f16>();
    case(140, 300, 128)
        .heads(1, 2, 1)
        .window(Some(40), None)
        .check::<bf16>();
    case(9, 300, 64)
        .window(Some(33), Some(0))
        .check_gradients_of_tensor_cores::<bf16>();
    case(150, 9, 64)
        .window(Some(3), Some(2))
        .check_gradients_of_tensor_cores::<f16>();
    case(70, 150, 128)
        .window(Some(20), Some(70))
        .check_gradients_of_tensor_cores::<bf16>();
}

/// Each axis repeated or not, with lines of whole accesses and of others.
#[test]
fn biases() {
    for axes in [
        [false; 4],
        [false, false, false, true],
        [false, true, true, false],
        [true, true, false, true],
    ] {
        case(5, 70, 8).heads(2, 2, 1).biased(axes).check_both::<f32>();
    }
    case(70, 68, 8).biased([true; 4]).check_both::<f32>();
    case(9, 67, 64).biased([true; 4]).check_both::<bf16>();
    case(9, 30, 130)
        .biased([false, true, true, true])
        .causal()
        .check_both::<f16>();
    case(70, 90, 8)
        .biased([true; 4])
        .window(Some(7), Some(9))
        .check_both::<f32>();
}

/// A bias that is a view, and one that hides all keys of a query, whose result is 0.
#[test]
fn biases_that_lie_otherwise() {
    let case = case(5, 6, 8).biased([true; 4]);
    let operands = case.operands::<f32>();
    let [q, k, v] = operands.each_ref().map(upload);
    let mut bias = case.bias_of().unwrap().mapv(|x| x as f32);
    let lies = upload(
        &bias
            .view()
            .permuted_axes([3, 0, 1, 2])
            .slice(s![..;-1, .., .., ..])
            .as_standard_layout(),
    );
    let view = lies.view().permuted_axes([1, 2, 3, 0]).unwrap();
    let view = view.slice(s![.., .., .., ..;-1]).unwrap();
    let (out, log_sums) = q.attention(&k, &v).bias(&view).compute_with_log_sum_exp().unwrap();
    case.compare(&operands, &out.to_ndarray().unwrap(), &log_sums.to_ndarray().unwrap());

    bias.slice_mut(s![.., .., 2, ..]).fill(f32::NEG_INFINITY);
    let bias = upload(&bias);
    let (out, log_sums) = q.attention(&k, &v).bias(&bias).compute_with_log_sum_exp().unwrap();
    assert!(
        out.to_ndarray()
            .unwrap()
            .slice(s![0, 0, 2, ..])
            .iter()
            .all(|&x| x == 0.0)
    );
    assert_eq!(log_sums.get([0, 0, 2]).unwrap(), f32::NEG_INFINITY);
    let [dq, ..] = q.attention(&k, &v).bias(&bias).gradients(&out, &log_sums, &q).unwrap();
    assert!(
        dq.to_ndarray()
            .unwrap()
            .slice(s![0, 0, 2, ..])
            .iter()
            .all(|&x| x == 0.0)
    );
}

/// Sequences of no position, of one, around a tile, and of fewer keys than queries.
#[test]
fn packed() {
    const LENGTHS: [usize; 6] = [0, 3, 64, 0, 1, 70];
    Case::packed(&LENGTHS, &LENGTHS, 8).check_both::<f32>();
    Case::packed(&LENGTHS, &LENGTHS, 8).causal().check_both::<f32>();
    Case::packed(&[2, 70, 5, 9], &[66, 3, 0, 10], 8)
        .heads(1, 4, 2)
        .causal()
        .check_both::<f32>();
    Case::packed(&[63, 65, 9], &[9, 130, 64], 16)
        .window(Some(20), Some(3))
        .check_both::<f32>();
    Case::packed(&[5, 9, 20], &[5, 9, 20], 64).causal().check_both::<bf16>();
    Case::packed(&[7], &[0], 8).check_both::<f32>();
}

/// Sequences around a tile of 128 keys, and of 128 and 192 queries, of one and of none.
#[test]
fn packed_on_tensor_cores() {
    Case::packed(&[1, 0, 3, 2, 4, 30], &[127, 5, 0, 128, 1, 129], 64)
        .heads(1, 2, 1)
        .check::<bf16>();
    Case::packed(&[2, 129, 5], &[1, 130, 7], 128).causal().check::<f16>();
    Case::packed(&[193, 7], &[140, 3], 64)
        .window(Some(20), Some(3))
        .check::<bf16>();
}

/// Those of no key, of one, around a tile, and of more than there are.
#[test]
fn lengths_of_keys_on_tensor_cores() {
    let of = |lengths, case: Case| Case {
        sequences: Sequences::First(lengths),
        ..case
    };
    of(&[0, 1, 127, 128, 129], case(17, 130, 64).heads(5, 1, 1)).check::<bf16>();
    of(&[131], case(17, 150, 128).causal()).check::<f16>();
    of(&[140], case(17, 150, 64).window(Some(30), None)).check::<bf16>();
}

/// Gradients of sequences that begin anywhere, of a query and of a key, of fewer keys than queries, and around a tile of 64 and of 128.
#[test]
fn gradients_of_packed_sequences_on_tensor_cores() {
    Case::packed(&[3, 0, 65, 1], &[5, 2, 64, 0], 64).check_gradients_of_tensor_cores::<bf16>();
    Case::packed(&[1, 5], &[1, 66], 128)
        .causal()
        .check_gradients_of_tensor_cores::<f16>();
    Case::packed(&[9, 7], &[5, 70], 64)
        .heads(1, 2, 1)
        .window(Some(20), Some(3))
        .check_gradients_of_tensor_cores::<f16>();
    // Several blocks of keys add to the queries of a sequence, whose tiles are its own.
    Case::packed(&[130, 3, 0, 70], &[140, 150, 9, 5], 64).check_gradients_of_tensor_cores::<bf16>();
    Case::packed(&[70, 6], &[5, 150], 128)
        .heads(1, 2, 1)
        .causal()
        .check_gradients_of_tensor_cores::<bf16>();
}

#[test]
fn gradients_of_lengths_of_keys_on_tensor_cores() {
    let of = |lengths, case: Case| Case {
        sequences: Sequences::First(lengths),
        ..case
    };
    of(&[0, 65, u32::MAX], case(9, 70, 64).heads(3, 1, 1)).check_gradients_of_tensor_cores::<bf16>();
    of(&[63], case(5, 70, 128).causal()).check_gradients_of_tensor_cores::<f16>();
    // Which block of keys is the last to add to a query differs.
    of(&[129, 0, 128, 260], case(70, 260, 64).heads(4, 1, 1)).check_gradients_of_tensor_cores::<f16>();
}

/// What is no number in one sequence, or behind the keys that count, is in no gradient of others, and of keys that do not count those are 0.
#[test]
fn gradients_do_not_see_other_sequences() {
    const LENGTHS: [usize; 3] = [20, 9, 140];
    let packed = Case::packed(&LENGTHS, &LENGTHS, 64);
    let (operands, grad) = (packed.operands::<bf16>(), packed.gradient::<bf16>());
    for device in all_devices::<bf16>() {
        let usual = packed.gradients_on(&device, &operands, &grad);
        let (mut operands, mut grad) = (operands.clone(), grad.clone());
        for x in operands.iter_mut().chain([&mut grad]) {
            x.slice_mut(s![.., .., 20..29, ..]).fill(bf16::NAN);
        }
        let got = packed.gradients_on(&device, &operands, &grad);
        for (got, usual) in got.iter().zip(&usual) {
            for part in [0..20, 29..169] {
                assert_eq!(
                    got.slice(s![.., .., part.clone(), ..]),
                    usual.slice(s![.., .., part, ..])
                );
            }
        }
    }
    let filled = Case {
        sequences: Sequences::First(&[40]),
        ..case(20, 70, 128)
    };
    let (operands, grad) = (filled.operands::<bf16>(), filled.gradient::<bf16>());
    for device in all_devices::<bf16>() {
        let usual = filled.gradients_on(&device, &operands, &grad);
        let mut operands = operands.clone();
        for x in &mut operands[1..] {
            x.slice_mut(s![.., .., 40.., ..]).fill(bf16::NAN);
        }
        let got = filled.gradients_on(&device, &operands, &grad);
        assert_eq!(got, usual);
        for x in &got[1..] {
            assert!(x.slice(s![.., .., 40.., ..]).iter().all(|&x| x == bf16::ZERO));
        }
    }
}

/// With lines of an even and of an odd number of keys, repeated and not, and with what hides keys besides.
#[test]
fn biases_on_tensor_cores() {
    case(17, 140, 64).biased([true; 4]).check::<bf16>();
    case(20, 261, 128)
        .heads(1, 2, 1)
        .biased([true; 4])
        .causal()
        .check::<f16>();
    let masks = case(17, 134, 64).heads(2, 2, 2);
    masks.biased([true, false, false, true]).check::<f16>();
    masks.biased([false, true, true, false]).check::<f16>();
    Case {
        sequences: Sequences::First(&[129, 3]),
        ..case(17, 134, 128).heads(2, 1, 1).biased([false, false, true, true])
    }
    .window(Some(100), Some(2))
    .check::<bf16>();
}

/// As for results, around a tile of 64 queries and keys, and of 128.
#[test]
fn gradients_of_biases_on_tensor_cores() {
    case(9, 70, 64)
        .biased([true; 4])
        .check_gradients_of_tensor_cores::<bf16>();
    case(70, 9, 128)
        .biased([true; 4])
        .causal()
        .check_gradients_of_tensor_cores::<f16>();
    case(5, 136, 64)
        .heads(1, 2, 1)
        .biased([false, true, true, true])
        .check_gradients_of_tensor_cores::<bf16>();
    case(131, 8, 64)
        .heads(2, 1, 1)
        .biased([true, false, false, true])
        .check_gradients_of_tensor_cores::<f16>();
    // The bias's stages come around.
    case(270, 130, 64)
        .biased([true; 4])
        .check_gradients_of_tensor_cores::<bf16>();
    case(200, 130, 128)
        .biased([true; 4])
        .causal()
        .check_gradients_of_tensor_cores::<bf16>();
    Case {
        sequences: Sequences::First(&[65, 3]),
        ..case(9, 70, 128).heads(2, 1, 1).biased([false, false, true, true])
    }
    .window(Some(40), Some(2))
    .check_gradients_of_tensor_cores::<bf16>();
}

/// Behind the last query a tile has the same bias, whose exponential is infinite: nothing is added for it.
#[test]
fn a_large_bias_of_all_queries() {
    let case = case(5, 9, 64);
    let (operands, grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    for device in devices::<bf16>() {
        let upload = |x: &Array4<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let [q, k, v] = operands.each_ref().map(upload);
        let bias = upload(&Array4::from_elem((1, 1, 1, 9), bf16::from_f32(300.0)));
        let attention = || q.attention(&k, &v).bias(&bias);
        let (out, log_sums) = attention().compute_with_log_sum_exp().unwrap();
        let got = attention().gradients(&out, &log_sums, &upload(&grad)).unwrap();
        // What is added to all scores changes no weight, but for the rounding of scores: less than that of results.
        for (got, wanted) in got.iter().zip(case.gradients_on(&device, &operands, &grad)) {
            for (got, wanted) in got.to_ndarray().unwrap().iter().zip(&wanted) {
                let (got, wanted) = (got.to_f32(), wanted.to_f32());
                assert!((got - wanted).abs() <= 1e-2 * wanted.abs() + 1e-2, "{got}, {wanted}");
            }
        }
    }
}

/// A view that repeats a bias gives the same as the bias.
#[test]
fn a_bias_that_is_repeated_in_memory() {
    let case = case(9, 72, 64).heads(2, 2, 1);
    let (operands, grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    let bias = Case {
        bias: Some([false, true, false, true]),
        ..case
    };
    let bias = bias.bias_of().unwrap().mapv(bf16::from_f64);
    for device in devices::<bf16>() {
        let upload = |x: &Array4<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let ([q, k, v], grad, bias) = (operands.each_ref().map(upload), upload(&grad), upload(&bias));
        let repeated = bias.broadcast((2, 2, 9, 72)).unwrap();
        let all = |bias: &warpsmith::DeviceArrayRef<bf16, Ix4>| {
            let attention = || q.attention(&k, &v).bias(bias);
            let (out, log_sums) = attention().compute_with_log_sum_exp().unwrap();
            let [a, b, c] = attention().gradients(&out, &log_sums, &grad).unwrap();
            [out, a, b, c].map(|x| x.to_ndarray().unwrap())
        };
        assert_eq!(all(&bias), all(&repeated));
    }
}

/// What is no number in one sequence shows in no other, which may share tiles of keys with it.
#[test]
fn packed_sequences_do_not_see_each_other() {
    const LENGTHS: [usize; 3] = [20, 9, 130];
    for dim in [64, 128] {
        let case = Case::packed(&LENGTHS, &LENGTHS, dim);
        let mut operands = case.operands::<bf16>();
        for device in all_devices::<bf16>() {
            let usual = case.run(&device, &operands);
            for x in &mut operands {
                x.slice_mut(s![.., .., 20..29, ..]).fill(bf16::NAN);
            }
            let (out, log_sums) = case.run(&device, &operands);
            for part in [0..20, 29..159] {
                assert_eq!(
                    out.slice(s![.., .., part.clone(), ..]),
                    usual.0.slice(s![.., .., part.clone(), ..])
                );
                assert_eq!(
                    log_sums.slice(s![.., .., part.clone()]),
                    usual.1.slice(s![.., .., part])
                );
            }
            assert!(out.slice(s![.., .., 20..29, ..]).iter().all(|x| x.is_nan()));
            operands = case.operands::<bf16>();
        }
    }
}

/// As each sequence by itself, to the bit, whatever the others are.
#[test]
fn packed_sequences_are_as_by_themselves() {
    let case = Case::packed(&[70, 20, 30], &[70, 20, 30], 16).causal();
    let operands = case.operands::<f32>();
    let (out, log_sums) = case.run(device(), &operands);
    let own = operands.each_ref().map(|x| x.slice(s![.., .., 70..90, ..]).to_owned());
    let (one, log_sums_of_one) = super::case(20, 20, 16).causal().run(device(), &own);
    assert_eq!(out.slice(s![.., .., 70..90, ..]), one);
    assert_eq!(log_sums.slice(s![.., .., 70..90]), log_sums_of_one);
}

#[test]
fn lengths_of_keys() {
    let of = |lengths, case: Case| Case {
        sequences: Sequences::First(lengths),
        ..case
    };
    of(&[70, 0, 9], case(5, 70, 8).heads(3, 2, 1)).check_both::<f32>();
    of(&[9, 64], case(20, 70, 8).heads(2, 1, 1).causal()).check_both::<f32>();
    of(
        &[130, u32::MAX],
        case(9, 140, 64).heads(2, 1, 1).window(Some(20), Some(0)),
    )
    .check_both::<bf16>();
    of(
        &[3, 40],
        case(20, 70, 8).heads(2, 1, 1).biased([true, false, true, true]),
    )
    .check_both::<f32>();
}

/// NaN behind the keys that count, as a cache may have, shows nowhere.
#[track_caller]
fn keys_behind_are_not_read<T: Attend + FloatNumber>(queries: usize, dim: usize) {
    let case = Case {
        sequences: Sequences::First(&[60, 128, 131]),
        ..case(queries, 300, dim).heads(3, 1, 1)
    };
    let mut operands = case.operands::<T>();
    for device in all_devices::<T>() {
        let usual = case.run(&device, &operands);
        for x in &mut operands[1..] {
            x.slice_mut(s![0, .., 60.., ..]).fill(T::of(f64::NAN));
            x.slice_mut(s![1, .., 128.., ..]).fill(T::of(f64::NAN));
            x.slice_mut(s![2, .., 131.., ..]).fill(T::of(f64::NAN));
        }
        assert_eq!(case.run(&device, &operands), usual);
        operands = case.operands::<T>();
    }
}

#[test]
fn keys_that_do_not_count_are_not_read() {
    keys_behind_are_not_read::<f32>(1, 16);
    keys_behind_are_not_read::<f32>(20, 16);
    keys_behind_are_not_read::<bf16>(2, 128);
    keys_behind_are_not_read::<bf16>(20, 64);
    keys_behind_are_not_read::<f16>(17, 128);
}

#[test]
fn what_does_not_fit_is_an_error() {
    let stream = device().default_stream();
    let of = |shape: [usize; 4]| DeviceArray::<f32, Ix4>::zeros(stream, shape).unwrap();
    let (q, k) = (of([2, 2, 3, 8]), of([2, 2, 5, 8]));
    let refused = |error: Error, wanted: &str| assert!(error.to_string().contains(wanted), "{error}");
    let bias = of([2, 2, 5, 3]);
    let error = q.attention(&k, &k).bias(&bias).compute().unwrap_err();
    refused(error, "a bias of shape [2, 2, 5, 3] for scores of shape [2, 2, 3, 5]");
    let lengths = DeviceArray::zeros(stream, 3).unwrap();
    let error = q.attention(&k, &k).key_lengths(&lengths).compute().unwrap_err();
    refused(error, "3 lengths of keys");
    let sequences = ops::Sequences::with_keys(stream, &[1, 2], &[5, 0]).unwrap();
    let error = q.attention(&k, &k).packed(&sequences).compute().unwrap_err();
    refused(error, "a batch of 1, and the 3 queries and 5 keys");
    let (q, k, bias) = (of([1, 2, 3, 8]), of([1, 2, 5, 8]), of([1, 1, 1, 5]));
    let error = q
        .attention(&k, &k)
        .packed(&sequences)
        .bias(&bias)
        .compute()
        .unwrap_err();
    refused(error, "not packed");
    let hopper = Device::simulated_hopper();
    let elsewhere = DeviceArray::<f32, Ix4>::zeros(hopper.default_stream(), [1, 1, 1, 5]).unwrap();
    let error = q.attention(&k, &k).bias(&elsewhere).compute().unwrap_err();
    assert!(matches!(error, Error::DifferentDevices { .. }), "{error}");
}

#[test]
fn starts_that_are_none_are_an_error() {
    let stream = device().default_stream();
    let refused = |queries: &[i64], keys: &[i64], wanted: &str| {
        let [queries, keys] = [queries, keys].map(|x| upload(&ndarray::arr1(x)));
        let error = ops::Sequences::from_starts(&queries, &keys).err().unwrap();
        assert!(error.to_string().contains(wanted), "{error}");
    };
    refused(&[0, 3], &[0, 2, 3], "2 of queries, 3 of keys");
    refused(&[0], &[0], "1 to 1048576 sequences");
    refused(&[], &[], "1 to 1048576 sequences");
    refused(&[0, 3, 2], &[0, 3, 3], "2 behind 3");
    refused(&[0, 3, 3], &[1, 3, 3], "1 first");
    refused(&[0, -1, 3], &[0, 3, 3], "-1");
    refused(&[0, 1 << 40], &[0, 3], "an end at 1099511627776");
    assert!(ops::Sequences::new(stream, &[usize::MAX, 1]).is_err());
    assert!(ops::Sequences::with_keys(stream, &[1], &[1, 2]).is_err());
}
