// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of what is added to scores, against a formula in f64, which is held against differences.

use super::gradients::{assert_derivative, total};
use super::*;

/// All axes of the scores, and each of them alone.
const ALL: [bool; 4] = [true; 4];

/// Which axes a bias can have.
fn forms() -> impl Iterator<Item = [bool; 4]> {
    (0..16).map(|bits| [8, 4, 2, 1].map(|bit| bits & bit != 0))
}

impl Case {
    fn with_bias(self, axes: [bool; 4]) -> Self {
        Self {
            bias: Some(axes),
            ..self
        }
    }

    fn with_lengths(self, lengths: &'static [u32]) -> Self {
        Self {
            sequences: seen::Sequences::First(lengths),
            ..self
        }
    }

    fn with_window(self, left: usize, right: usize) -> Self {
        Self {
            window: [Some(left), Some(right)],
            ..self
        }
    }

    /// In f64, in C order, with how far it may be off.
    fn bias_gradient<T: FloatNumber>(&self, operands: &[Array4<T>; 3], grad: &Array4<T>) -> [Vec<f64>; 2] {
        let wide = Wide::new(self, operands);
        let bias = wide.bias.as_ref().expect("a bias");
        let shape: [usize; 4] = std::array::from_fn(|axis| bias.shape()[axis]);
        let [mut of, mut bounds, mut magnitudes] = [(); 3].map(|()| vec![0.0; bias.len()]);
        let mut sums = Sums {
            of: &mut of,
            bounds: &mut bounds,
            magnitudes: &mut magnitudes,
        };
        for (batch, head, row) in ndarray::indices((self.batch, self.heads, self.queries)) {
            let grad: Vec<f64> = grad.slice(s![batch, head, row, ..]).iter().map(|x| x.wide()).collect();
            let place = |key: usize| {
                let score = [batch, head, row, key];
                (0..4).fold(0, |place, axis| place * shape[axis] + score[axis] % shape[axis])
            };
            wide.query([batch, head, row])
                .add_bias_gradient(&grad, place, &mut sums);
        }
        let scores = self.batch * self.heads * self.queries * self.keys;
        bound_sums(&mut sums, scores / bias.len(), T::UNIT_ROUNDOFF);
        [of, bounds]
    }

    /// By the device, from its own results.
    fn bias_gradient_on<T: Attend>(&self, device: &Device, operands: &[Array4<T>; 3], grad: &Array4<T>) -> Array4<T> {
        let upload = |x: &Array4<T>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let [q, k, v] = operands.each_ref().map(upload);
        let (out, log_sums) = self.on(&q, &k, &v);
        let grad = upload(grad);
        let gradient = self.with(&q, &k, &v, |attention| attention.bias_gradient(&out, &log_sums, &grad));
        gradient.unwrap().to_ndarray().unwrap()
    }

    /// Checks on all devices. What is −∞, or not seen by any query, has the gradient 0.
    #[track_caller]
    fn check_bias_gradient<T: Attend + FloatNumber>(self) {
        for device in devices::<T>() {
            self.check_bias_gradient_on::<T>(&device);
        }
    }

    /// Checks on that with tensor cores.
    #[track_caller]
    fn check_bias_gradient_of_tensor_cores<T: Attend + FloatNumber>(self) {
        self.check_bias_gradient_on::<T>(&devices::<T>()[1]);
    }

    #[track_caller]
    fn check_bias_gradient_on<T: Attend + FloatNumber>(self, device: &Device) {
        let (operands, grad) = (self.operands::<T>(), self.gradient::<T>());
        let [of, bounds] = self.bias_gradient(&operands, &grad);
        let got = self.bias_gradient_on(device, &operands, &grad);
        assert_eq!(got.shape(), self.bias_of().unwrap().shape());
        for ((at, got), (wanted, bound)) in got.indexed_iter().zip(of.iter().zip(&bounds)) {
            let error = (got.wide() - wanted).abs();
            assert!(
                error <= *bound,
                "{self:?}: at {at:?}: {got:?}, wanted {wanted}, bound {bound:e}"
            );
        }
        for at in self.hidden() {
            assert_eq!(got[at].wide(), 0.0, "{self:?}: at {at:?}");
        }
    }

    /// Places of the bias that no query sees.
    fn hidden(&self) -> Vec<[usize; 4]> {
        let bias = self.bias_of().unwrap();
        let mut is_seen = Array4::from_elem(bias.raw_dim(), false);
        for (batch, head, row) in ndarray::indices((self.batch, self.heads, self.queries)) {
            for key in self.seen([batch, head, row], Some(&bias)).0 {
                let score = [batch, head, row, key];
                is_seen[std::array::from_fn::<_, 4, _>(|axis| score[axis] % bias.shape()[axis])] = true;
            }
        }
        let hidden = is_seen.indexed_iter().filter(|(_, is_seen)| !**is_seen);
        hidden.map(|((a, b, c, d), _)| [a, b, c, d]).collect()
    }
}

/// The formula in f64 against differences of the sum of results times their gradients.
#[track_caller]
fn agree_with_differences(case: Case) {
    let (operands, grad) = (case.operands::<f64>(), case.gradient::<f64>());
    let bias = case.bias_of().unwrap();
    let [of, _] = case.bias_gradient(&operands, &grad);
    for ((at, _), wanted) in bias.indexed_iter().zip(&of) {
        let moved = |by: f64| {
            let mut bias = bias.clone();
            bias[at] += by;
            let wide = Wide {
                bias: Some(bias),
                ..Wide::new(&case, &operands)
            };
            total(&case, &wide, &grad)
        };
        assert_derivative(*wanted, moved, &(&case, at));
    }
}

#[test]
fn the_formula_agrees_with_differences() {
    for axes in forms() {
        agree_with_differences(case(3, 5, 2).heads(2, 2, 1).with_bias(axes));
    }
    agree_with_differences(case(4, 5, 3).with_bias(ALL).causal());
    agree_with_differences(case(4, 5, 3).with_bias(ALL).with_window(1, 1));
    let lengths = case(3, 4, 2).heads(2, 1, 1).with_lengths(&[2, 0]);
    agree_with_differences(lengths.with_bias([false, true, true, true]));
}

/// All forms, of heads that share keys.
#[test]
fn each_axis_or_not() {
    for axes in forms() {
        case(5, 70, 8)
            .heads(2, 4, 2)
            .with_bias(axes)
            .check_bias_gradient::<f32>();
    }
}

/// Rests of tiles along queries and keys, whose sums are those of tiles, or of none.
#[test]
fn lengths_around_a_tile() {
    for length in [1, 63, 64, 65] {
        for axes in [ALL, [true, true, false, true], [true, true, true, false], [false; 4]] {
            case(length, 5, 8).with_bias(axes).check_bias_gradient::<f32>();
            case(5, length, 8).with_bias(axes).check_bias_gradient::<f32>();
        }
    }
    case(67, 132, 16).with_bias(ALL).check_bias_gradient::<f32>();
    case(130, 67, 4)
        .with_bias([false, false, false, true])
        .check_bias_gradient::<f32>();
}

#[test]
fn head_dimensions() {
    for dim in [1, 3, 64, 80, 130, 256] {
        case(5, 9, dim).with_bias(ALL).check_bias_gradient::<f32>();
    }
}

#[test]
fn elements_of_16_bits() {
    case(5, 9, 30).with_bias(ALL).check_bias_gradient::<bf16>();
    case(9, 5, 64)
        .heads(2, 2, 1)
        .with_bias([false, false, true, true])
        .check_bias_gradient::<f16>();
    case(17, 70, 128)
        .with_bias([true, false, false, true])
        .check_bias_gradient::<bf16>();
    case(3, 5, 256).with_bias([false; 4]).check_bias_gradient::<f16>();
}

/// Tiles of which no key is seen, others of which some are, and queries that see none.
#[test]
fn causal_and_windows() {
    case(70, 70, 8).causal().with_bias(ALL).check_bias_gradient::<f32>();
    case(3, 140, 8).causal().with_bias(ALL).check_bias_gradient::<f32>();
    case(140, 9, 8)
        .causal()
        .with_bias([true, true, false, true])
        .check_bias_gradient::<f32>();
    case(70, 200, 8)
        .with_window(7, 9)
        .with_bias(ALL)
        .check_bias_gradient::<f32>();
    case(90, 9, 8)
        .with_window(2, 1)
        .with_bias([false; 4])
        .check_bias_gradient::<f32>();
    case(20, 70, 64).causal().with_bias(ALL).check_bias_gradient::<bf16>();
}

/// Of problems that share a bias, each with keys of its own number: of none, of fewer than a tile, and of more than there are.
#[test]
fn lengths_of_keys() {
    let of = |lengths, case: Case| case.with_lengths(lengths);
    for axes in [
        ALL,
        [false, false, true, true],
        [false, true, false, true],
        [true, false, true, false],
    ] {
        of(&[70, 0, 9], case(5, 70, 8).heads(3, 2, 1))
            .with_bias(axes)
            .check_bias_gradient::<f32>();
    }
    let causal = of(&[9, u32::MAX], case(20, 70, 8).heads(2, 1, 1).causal());
    causal.with_bias([false, true, true, true]).check_bias_gradient::<f32>();
}

/// More heads of a bias than the work is divided among, 512 tiles with all that share them, so that a block has several problems.
#[test]
fn blocks_that_have_several_problems() {
    let case = case(1, 3, 2).heads(2, 260, 1);
    case.with_bias([false, true, false, true]).check_bias_gradient::<f32>();
    // And of tiles, of which there are 128, and all but the last have nothing to do.
    let of_tensor_cores = super::case(1, 66 * 128, 64).heads(1, 5, 1).with_window(100, 0);
    of_tensor_cores
        .with_bias([false, false, true, true])
        .check_bias_gradient_of_tensor_cores::<bf16>();
}

/// Rests of tiles of 128 queries and keys, in parts that are of tiles and of none.
#[test]
fn lengths_around_a_tile_of_tensor_cores() {
    case(9, 127, 64)
        .with_bias(ALL)
        .check_bias_gradient_of_tensor_cores::<bf16>();
    case(129, 9, 128)
        .with_bias(ALL)
        .check_bias_gradient_of_tensor_cores::<f16>();
    case(130, 130, 64)
        .with_bias([true, true, false, true])
        .check_bias_gradient_of_tensor_cores::<bf16>();
    case(1, 70, 64)
        .with_bias(ALL)
        .check_bias_gradient_of_tensor_cores::<f16>();
}

/// Heads that share keys, and all axes that tensor cores can sum.
#[test]
fn each_axis_or_not_on_tensor_cores() {
    for axes in forms().filter(|axes| axes[3]) {
        case(5, 70, 64)
            .heads(2, 4, 2)
            .with_bias(axes)
            .check_bias_gradient_of_tensor_cores::<bf16>();
    }
}

#[test]
fn what_hides_keys_on_tensor_cores() {
    case(70, 140, 64)
        .causal()
        .with_bias(ALL)
        .check_bias_gradient_of_tensor_cores::<bf16>();
    case(140, 9, 64)
        .with_window(2, 1)
        .with_bias([true, true, false, true])
        .check_bias_gradient_of_tensor_cores::<f16>();
    case(5, 70, 128)
        .heads(3, 2, 1)
        .with_lengths(&[70, 0, 9])
        .with_bias([false, true, true, true])
        .check_bias_gradient_of_tensor_cores::<bf16>();
}

/// What is no number behind the keys that count, of operands and of the bias, is in no result.
#[test]
fn keys_that_do_not_count_are_not_seen() {
    let case = case(20, 70, 64).with_lengths(&[40]);
    let (operands, grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    let bias = case.with_bias(ALL).bias_of().unwrap().mapv(bf16::from_f64);
    let behind = s![.., .., .., 40..];
    for device in devices::<bf16>() {
        let all = |operands: &[Array4<bf16>; 3], bias: &Array4<bf16>| {
            let upload = |x: &Array4<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
            let [q, k, v] = operands.each_ref().map(upload);
            let (bias, grad) = (upload(bias), upload(&grad));
            let lengths = DeviceArray::from_ndarray(device.default_stream(), &ndarray::arr1(&[40])).unwrap();
            let attention = || q.attention(&k, &v).key_lengths(&lengths).bias(&bias);
            let (out, log_sums) = attention().compute_with_log_sum_exp().unwrap();
            let [dq, dk, dv] = attention().gradients(&out, &log_sums, &grad).unwrap();
            let of_bias = attention().bias_gradient(&out, &log_sums, &grad).unwrap();
            [of_bias, out, dq, dk, dv].map(|x| x.to_ndarray().unwrap())
        };
        let usual = all(&operands, &bias);
        let (mut operands, mut bias) = (operands.clone(), bias.clone());
        for x in &mut operands[1..] {
            x.slice_mut(s![.., .., 40.., ..]).fill(bf16::NAN);
        }
        bias.slice_mut(behind).fill(bf16::NAN);
        assert_eq!(all(&operands, &bias), usual);
        assert!(usual[0].slice(behind).iter().all(|&x| x == bf16::ZERO));
    }
}

/// A bias that goes backwards, and a gradient of it that is in C order.
#[test]
fn views() {
    let case = case(5, 6, 8).with_bias(ALL);
    let (operands, grad) = (case.operands::<f32>(), case.gradient::<f32>());
    let [q, k, v] = operands.each_ref().map(upload);
    let bias = case.bias_of().unwrap().mapv(|x| x as f32);
    let backwards = upload(&bias.slice(s![.., .., ..;-1, ..;-1]));
    let view = backwards.slice(s![.., .., ..;-1, ..;-1]).unwrap();
    let (out, log_sums) = q.attention(&k, &v).bias(&view).compute_with_log_sum_exp().unwrap();
    let got = q
        .attention(&k, &v)
        .bias(&view)
        .bias_gradient(&out, &log_sums, &upload(&grad))
        .unwrap();
    assert_eq!(
        got.to_ndarray().unwrap(),
        case.bias_gradient_on(device(), &operands, &grad)
    );
}

#[test]
fn the_same_bits_each_time() {
    for dim in [16, 64] {
        let case = case(70, 66, dim).heads(3, 2, 1).with_bias([false, true, false, true]);
        let (operands, grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
        for device in devices::<bf16>() {
            let first = case.bias_gradient_on(&device, &operands, &grad);
            assert_eq!(case.bias_gradient_on(&device, &operands, &grad), first);
        }
    }
}

#[test]
fn without_keys_or_queries_there_are_zeros() {
    for (queries, keys) in [(3, 0), (0, 3), (0, 0)] {
        for axes in [ALL, [false; 4]] {
            let case = case(queries, keys, 8).with_bias(axes);
            let (operands, grad) = (case.operands::<f32>(), case.gradient());
            let got = case.bias_gradient_on(device(), &operands, &grad);
            assert_eq!(got, Array4::<f32>::zeros(case.bias_of().unwrap().raw_dim()));
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let stream = device().default_stream();
    let of = |shape: [usize; 4]| DeviceArray::<f32, Ix4>::zeros(stream, shape).unwrap();
    let sums = DeviceArray::<f32, Ix3>::zeros(stream, [1, 2, 3]).unwrap();
    let (q, k, bias) = (of([1, 2, 3, 8]), of([1, 2, 5, 8]), of([1, 1, 3, 5]));
    let error = q.attention(&k, &k).bias_gradient(&q, &sums, &q).unwrap_err();
    assert_eq!(
        error.to_string(),
        "attention: bias: given none, wanted the one whose gradient is computed"
    );
    let error = q
        .attention(&k, &k)
        .bias(&bias)
        .bias_gradient(&q, &sums, &k)
        .unwrap_err();
    assert!(
        error.to_string().contains("a gradient of shape [1, 2, 5, 8]"),
        "{error}"
    );
}
