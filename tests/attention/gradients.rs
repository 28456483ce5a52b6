// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of attention against formulas in f64, which are held against differences.

use super::*;

/// Gradients in C order, and how far they may be off.
struct Gradients {
    of: [Vec<f64>; 3],
    bounds: [Vec<f64>; 3],
}

impl Case {
    pub(super) fn gradient<T: FloatNumber>(&self) -> Array4<T> {
        let mut rng = rng((self.queries * 1000 + self.keys) as u64);
        Array4::from_shape_simple_fn((self.batch, self.heads, self.queries, self.dim), || {
            T::of(rng.random::<f64>() * 2.0 - 1.0)
        })
    }

    /// In f64, by the formulas that [`Attention::gradients`] has.
    fn gradients<T: FloatNumber>(&self, operands: &[Array4<T>; 3], grad: &Array4<T>) -> Gradients {
        let wide = Wide::new(self, operands);
        let grad: Vec<f64> = grad.iter().map(|x| x.wide()).collect();
        let [mut of, mut bounds, mut magnitudes] =
            [(); 3].map(|()| wide.operands.each_ref().map(|x| vec![0.0; x.len()]));
        for (batch, head, row) in ndarray::indices((self.batch, self.heads, self.queries)) {
            let [queries, keys] = wide.heads(batch, head);
            let query = queries.start + row * self.dim..queries.start + (row + 1) * self.dim;
            let at = [query.clone(), keys.clone(), keys];
            let mut sums = sums([&mut of, &mut bounds, &mut magnitudes], &at);
            wide.query([batch, head, row]).add_gradients(&grad[query], &mut sums);
        }
        let of_keys = self.queries * self.heads / self.key_heads;
        let all = wide.operands.each_ref().map(|x| 0..x.len());
        let all = sums([&mut of, &mut bounds, &mut magnitudes], &all);
        for (mut sums, terms) in all.into_iter().zip([self.keys, of_keys, of_keys]) {
            bound_sums(&mut sums, terms, T::UNIT_ROUNDOFF);
        }
        Gradients { of, bounds }
    }

    /// By the device, from its own results.
    pub(super) fn gradients_on<T: Attend>(
        &self,
        device: &Device,
        operands: &[Array4<T>; 3],
        grad: &Array4<T>,
    ) -> [Array4<T>; 3] {
        let upload = |x: &Array4<T>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let [q, k, v] = operands.each_ref().map(upload);
        let (out, log_sums) = self.on(&q, &k, &v);
        let grad = upload(grad);
        let gradients = self.with(&q, &k, &v, |attention| {
            attention.gradients(&out, &log_sums, &grad).unwrap()
        });
        gradients.map(|x| x.to_ndarray().unwrap())
    }

    #[track_caller]
    fn compare_gradients<T: FloatNumber>(&self, operands: &[Array4<T>; 3], grad: &Array4<T>, got: &[Array4<T>; 3]) {
        let Gradients { of, bounds } = self.gradients(operands, grad);
        for (number, name) in ["queries", "keys", "values"].iter().enumerate() {
            assert_eq!(got[number].shape(), operands[number].shape());
            for ((at, got), (wanted, bound)) in got[number].indexed_iter().zip(of[number].iter().zip(&bounds[number])) {
                let error = (got.wide() - wanted).abs();
                assert!(
                    error <= *bound,
                    "{self:?}: {name} at {at:?}: {got:?}, wanted {wanted}, bound {bound:e}"
                );
            }
        }
    }

    /// Checks on all devices.
    #[track_caller]
    pub(super) fn check_gradients<T: Attend + FloatNumber>(self) {
        for device in self.devices_of_gradients::<T>() {
            self.check_gradients_on::<T>(&device);
        }
    }

    /// Checks on those with tensor cores.
    #[track_caller]
    pub(super) fn check_gradients_of_tensor_cores<T: Attend + FloatNumber>(self) {
        for device in &self.devices_of_gradients::<T>()[1..] {
            self.check_gradients_on::<T>(device);
        }
    }

    /// Checks on that with Ampere's tensor cores.
    #[track_caller]
    fn check_gradients_on_ampere<T: Attend + FloatNumber>(self) {
        self.check_gradients_on::<T>(&device().as_ampere().unwrap());
    }

    /// As [`all_devices`], but for gradients that Ampere's tensor cores do not compute, with a bias.
    fn devices_of_gradients<T: 'static>(&self) -> Vec<Device> {
        match self.bias {
            None => all_devices::<T>(),
            Some(_) => devices::<T>(),
        }
    }

    #[track_caller]
    fn check_gradients_on<T: Attend + FloatNumber>(self, device: &Device) {
        let (operands, grad) = (self.operands::<T>(), self.gradient::<T>());
        let got = self.gradients_on(device, &operands, &grad);
        self.compare_gradients(&operands, &grad, &got);
    }
}

/// Those parts of three arrays each.
fn sums<'a>([of, bounds, magnitudes]: [&'a mut [Vec<f64>; 3]; 3], at: &[std::ops::Range<usize>; 3]) -> [Sums<'a>; 3] {
    let [a, b, c] = [of, bounds, magnitudes].map(|arrays| {
        let mut number = 0;
        arrays.each_mut().map(|array| {
            number += 1;
            &mut array[at[number - 1].clone()]
        })
    });
    let mut parts = a.into_iter().zip(b).zip(c);
    [(); 3].map(|()| {
        let ((of, bounds), magnitudes) = parts.next().expect("three of each");
        Sums { of, bounds, magnitudes }
    })
}

/// The sum of results times `grad`, in f64, whose gradients those are.
pub(super) fn total(case: &Case, wide: &Wide, grad: &Array4<f64>) -> f64 {
    let of_query = |(batch, head, i)| {
        let row = wide.query([batch, head, i]).row();
        let grad = grad.slice(s![batch, head, i, ..]);
        row.out.iter().zip(grad).map(|((out, _), grad)| out * grad).sum::<f64>()
    };
    let queries = ndarray::indices((case.batch, case.heads, case.queries));
    queries.into_iter().map(of_query).sum()
}

/// The derivative that is wanted against the difference of what `moved` gives by a step back and forth.
#[track_caller]
pub(super) fn assert_derivative(wanted: f64, moved: impl Fn(f64) -> f64, what: &dyn std::fmt::Debug) {
    let step = 1e-5;
    // Off by the third derivative times `step²`, and by rounding of sums of some 10 over `step`.
    let difference = (moved(step) - moved(-step)) / (2.0 * step);
    assert!((difference - wanted).abs() < 1e-7, "{what:?}: {difference}, {wanted}");
}

/// The formulas in f64 against differences of the sum of results times their gradients.
#[track_caller]
pub(super) fn agree_with_differences(case: Case) {
    let (operands, grad) = (case.operands::<f64>(), case.gradient::<f64>());
    let Gradients { of, .. } = case.gradients(&operands, &grad);
    for (number, of) in of.iter().enumerate() {
        for ((at, _), wanted) in operands[number].indexed_iter().zip(of) {
            let moved = |by: f64| {
                let mut operands = operands.clone();
                operands[number][at] += by;
                total(&case, &Wide::new(&case, &operands), &grad)
            };
            assert_derivative(*wanted, moved, &(&case, number, at));
        }
    }
}

#[test]
fn formulas_agree_with_differences() {
    let case = Case {
        scale: Some(0.7),
        ..case(4, 5, 3).heads(2, 2, 1).causal()
    };
    agree_with_differences(case);
}

#[test]
fn one_query_and_one_key() {
    case(1, 1, 1).check_gradients::<f32>();
    case(1, 1, 64).check_gradients::<bf16>();
}

#[test]
fn lengths_around_a_tile() {
    for length in [63, 64, 65] {
        case(length, 5, 8).check_gradients::<f32>();
        case(5, length, 8).check_gradients::<f32>();
    }
    case(67, 130, 16).check_gradients::<f32>();
}

#[test]
fn head_dimensions() {
    for dim in [3, 64, 80, 130, 256] {
        case(5, 9, dim).check_gradients::<f32>();
    }
}

#[test]
fn elements_of_16_bits() {
    case(5, 9, 30).check_gradients::<bf16>();
    case(9, 5, 64).check_gradients::<f16>();
    case(5, 70, 128).check_gradients::<bf16>();
    case(3, 5, 256).check_gradients::<f16>();
}

/// On ordinary cores those of 16 bits are computed as `f32`, and rounded once.
#[test]
fn half_precision_is_f32_rounded_once() {
    fn check<T: Attend + FloatNumber + CastTo<f32>>(case: Case)
    where
        f32: CastTo<T>,
    {
        let device = &devices::<T>()[0];
        let (operands, grad) = (case.operands::<T>(), case.gradient::<T>());
        let got = case.gradients_on(device, &operands, &grad);
        let upload = |x: &Array4<T>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
        let [q, k, v] = operands.each_ref().map(upload);
        let (out, log_sums) = case.on(&q, &k, &v);
        let wide = |x: &DeviceArray<T, Ix4>| x.cast::<f32>().unwrap();
        let [q, k, v, out, grad] = [&q, &k, &v, &out, &upload(&grad)].map(wide);
        let wanted = case.with(&q, &k, &v, |attention| {
            attention.gradients(&out, &log_sums, &grad).unwrap()
        });
        for (got, wanted) in got.iter().zip(&wanted) {
            assert_eq!(*got, wanted.cast::<T>().unwrap().to_ndarray().unwrap());
        }
    }
    check::<bf16>(case(5, 9, 30));
    check::<f16>(case(9, 5, 130));
}

/// As many queries as keys, fewer, and more, of which the first ones see no key and the gradients are 0.
#[test]
fn causal() {
    case(70, 70, 8).causal().check_gradients::<f32>();
    case(3, 70, 8).causal().check_gradients::<f32>();
    case(70, 9, 8).causal().check_gradients::<f32>();
    case(20, 70, 64).causal().check_gradients::<bf16>();
}

/// Rests of tiles, and more tiles than the ring has stages.
#[test]
fn lengths_around_a_tile_of_tensor_cores() {
    for length in [63, 65] {
        case(length, 5, 64).check_gradients_of_tensor_cores::<bf16>();
        case(5, length, 64).check_gradients_of_tensor_cores::<f16>();
    }
    case(200, 9, 64).check_gradients_of_tensor_cores::<bf16>();
    case(9, 200, 64).check_gradients_of_tensor_cores::<f16>();
}

#[test]
fn causal_on_tensor_cores() {
    case(70, 70, 64).causal().check_gradients_of_tensor_cores::<bf16>();
    case(5, 90, 128).causal().check_gradients_of_tensor_cores::<f16>();
    // The first queries see no key.
    case(70, 9, 64).causal().check_gradients_of_tensor_cores::<f16>();
    case(5, 6, 64)
        .heads(1, 2, 1)
        .causal()
        .check_gradients_of_tensor_cores::<bf16>();
}

/// Blocks of keys add to the same queries, one after another: all of them, or those that a mask leaves, which may be none.
#[test]
fn blocks_of_keys_that_add_to_the_same_queries() {
    case(70, 270, 128).check_gradients_of_tensor_cores::<bf16>();
    case(150, 150, 64)
        .heads(1, 2, 1)
        .causal()
        .check_gradients_of_tensor_cores::<f16>();
    for (queries, keys, window) in [(200, 280, [40, 10]), (280, 200, [10, 100]), (20, 300, [15, 0])] {
        let case = Case {
            window: window.map(Some),
            ..case(queries, keys, 64)
        };
        case.check_gradients_of_tensor_cores::<bf16>();
    }
}

/// Blocks of 64 or 128 lines, and tiles of 32 others, of which there are two places: rests of all of them, and warps with nothing to do.
#[test]
fn lengths_around_a_block_on_ampere() {
    for length in [31, 33, 64] {
        case(length, 5, 128).check_gradients_on_ampere::<bf16>();
        case(3, length, 128).check_gradients_on_ampere::<f16>();
    }
    case(129, 97, 64).check_gradients_on_ampere::<f16>();
    case(97, 65, 128).check_gradients_on_ampere::<bf16>();
}

/// Tiles of queries of one head after another, all of each or those that a mask leaves.
#[test]
fn heads_that_share_keys_on_ampere() {
    case(40, 70, 64).heads(2, 6, 2).check_gradients_on_ampere::<bf16>();
    case(70, 70, 128)
        .heads(1, 3, 1)
        .causal()
        .check_gradients_on_ampere::<f16>();
    let case = Case {
        window: [Some(9), Some(2)],
        ..case(150, 100, 64).heads(1, 2, 1)
    };
    case.check_gradients_on_ampere::<f16>();
}

/// Greater scores may be smaller exponents.
#[test]
fn scales_on_ampere() {
    for scale in [0.0, 1.0, -0.5] {
        let case = Case {
            scale: Some(scale),
            ..case(5, 40, 64)
        };
        case.check_gradients_on_ampere::<bf16>();
    }
}

/// Lines of positions, heads behind them, and others that do not begin at multiples of 16 bytes, which are copied.
#[test]
fn views_on_ampere() {
    let case = case(20, 40, 64).heads(2, 4, 2);
    let (operands, grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    let device = device().as_ampere().unwrap();
    let upload = |x: &Array4<bf16>| DeviceArray::from_ndarray(device.default_stream(), x).unwrap();
    let [q, k, v] = &operands;
    let positions = |x: &Array4<bf16>| upload(&x.view().permuted_axes([0, 2, 1, 3]).as_standard_layout().to_owned());
    let (a, g) = (positions(q), positions(&grad));
    let [a, g] = [&a, &g].map(|x| x.view().permuted_axes([0, 2, 1, 3]).unwrap());
    let mut wide = Array4::from_elem((2, 2, 43, 67), bf16::NAN);
    wide.slice_mut(s![.., .., 3.., 3..]).assign(k);
    let wide = upload(&wide);
    let b = wide.slice(s![.., .., 3.., 3..]).unwrap();
    let c = upload(v);
    let (out, log_sums) = case.on(&a, &b, &c);
    let got = case.with(&a, &b, &c, |attention| {
        attention.gradients(&out, &log_sums, &g).unwrap()
    });
    case.compare_gradients(&operands, &grad, &got.map(|x| x.to_ndarray().unwrap()));
}

#[test]
fn heads_that_share_keys() {
    case(5, 9, 16).heads(2, 6, 2).check_gradients::<f32>();
    case(5, 66, 8).heads(1, 3, 1).causal().check_gradients::<f32>();
    case(9, 6, 64).heads(2, 4, 2).check_gradients::<bf16>();
}

#[test]
fn scales() {
    for scale in [0.0, 1.0, -0.5] {
        let case = Case {
            scale: Some(scale),
            ..case(5, 70, 8)
        };
        case.check_gradients::<f32>();
    }
}

/// Heads behind positions, every other element, and backwards.
#[test]
fn views() {
    let case = case(20, 30, 8).heads(2, 4, 2);
    let (operands, grad) = (case.operands::<f32>(), case.gradient::<f32>());
    let [q, k, v] = &operands;
    let positions = |x: &Array4<f32>| upload(&x.view().permuted_axes([0, 2, 1, 3]).as_standard_layout());
    let (a, g) = (positions(q), positions(&grad));
    let [a, g] = [&a, &g].map(|x| x.view().permuted_axes([0, 2, 1, 3]).unwrap());
    let mut wide = Array4::from_elem((2, 2, 33, 16), 0.0);
    wide.slice_mut(s![.., .., 3.., ..;2]).assign(k);
    let wide = upload(&wide);
    let b = wide.slice(s![.., .., 3.., ..;2]).unwrap();
    let backwards = upload(&v.slice(s![.., .., ..;-1, ..]));
    let c = backwards.slice(s![.., .., ..;-1, ..]).unwrap();
    let (out, log_sums) = case.on(&a, &b, &c);
    let out = positions(&out.to_ndarray().unwrap());
    let out = out.view().permuted_axes([0, 2, 1, 3]).unwrap();
    let log_sums = upload(
        &log_sums
            .to_ndarray()
            .unwrap()
            .permuted_axes([2, 0, 1])
            .as_standard_layout(),
    );
    let log_sums = log_sums.view().permuted_axes([1, 2, 0]).unwrap();
    let got = case.with(&a, &b, &c, |attention| {
        attention.gradients(&out, &log_sums, &g).unwrap()
    });
    case.compare_gradients(&operands, &grad, &got.map(|x| x.to_ndarray().unwrap()));
}

#[test]
fn without_keys_or_queries_there_are_zeros() {
    for (queries, keys) in [(3, 0), (0, 3), (0, 0)] {
        let case = case(queries, keys, 8);
        let (operands, grad) = (case.operands::<f32>(), case.gradient());
        let gradients = case.gradients_on(device(), &operands, &grad);
        for (gradient, operand) in gradients.iter().zip(&operands) {
            assert_eq!(gradient, Array4::<f32>::zeros(operand.raw_dim()));
        }
    }
}

/// NaN in the gradient of query 2: its own, and those of the keys and values that it sees, are NaN, and no others.
#[test]
fn nan_goes_where_it_is_seen() {
    let case = case(6, 6, 8).causal();
    let (operands, mut grad) = (case.operands::<f32>(), case.gradient::<f32>());
    let usual = case.gradients_on(device(), &operands, &grad);
    grad[[0, 0, 2, 3]] = f32::NAN;
    let got = case.gradients_on(device(), &operands, &grad);
    for (number, (got, usual)) in got.iter().zip(&usual).enumerate() {
        for (at, x) in got.indexed_iter() {
            let concerned = match number {
                0 => at.2 == 2,
                1 => at.2 <= 2,
                _ => at.3 == 3,
            };
            match concerned {
                true => assert!(x.is_nan(), "{number}, {at:?}: {x}"),
                false => assert_eq!(x.to_bits(), usual[at].to_bits(), "{number}, {at:?}"),
            }
        }
    }
}

/// On Ampere's tensor cores: of keys that a query does not see, those of its tile are multiplied by 0.
#[test]
fn nan_goes_where_it_is_seen_on_ampere() {
    let case = case(70, 70, 64).causal();
    let (operands, mut grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    let device = device().as_ampere().unwrap();
    let usual = case.gradients_on(&device, &operands, &grad);
    grad[[0, 0, 40, 3]] = bf16::NAN;
    let [dq, dk, dv] = case.gradients_on(&device, &operands, &grad);
    for (at, x) in dq.indexed_iter() {
        match at.2 == 40 {
            true => assert!(x.is_nan(), "{at:?}: {x}"),
            false => assert_eq!(x.to_bits(), usual[0][at].to_bits(), "{at:?}"),
        }
    }
    for (at, x) in dk.indexed_iter() {
        match at.2 <= 40 {
            true => assert!(x.is_nan(), "{at:?}: {x}"),
            false => assert_eq!(x.to_bits(), usual[1][at].to_bits(), "{at:?}"),
        }
    }
    assert!(dv.slice(s![.., .., ..41, 3]).iter().all(|x| x.is_nan()));
    assert!(dv.slice(s![.., .., .., ..3]).iter().all(|x| x.is_finite()));
}

/// Whatever its incoming gradient is, as long as it is a number.
#[test]
fn a_query_that_sees_no_key_adds_nothing_on_ampere() {
    let case = case(40, 9, 64).causal();
    let (operands, mut grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    let device = device().as_ampere().unwrap();
    let usual = case.gradients_on(&device, &operands, &grad);
    // Queries up to 30 see no key.
    grad.slice_mut(s![.., .., ..31, ..]).fill(bf16::from_f32(1e30));
    let got = case.gradients_on(&device, &operands, &grad);
    assert_eq!(got, usual);
    assert!(got[0].slice(s![.., .., ..31, ..]).iter().all(|&x| x == bf16::ZERO));
}

#[test]
fn the_same_bits_each_time() {
    let case = case(70, 266, 64).heads(1, 2, 1).causal();
    let (operands, grad) = (case.operands::<bf16>(), case.gradient::<bf16>());
    for device in all_devices::<bf16>() {
        let first = case.gradients_on(&device, &operands, &grad);
        assert_eq!(case.gradients_on(&device, &operands, &grad), first);
    }
}

#[test]
fn results_of_other_shapes_are_an_error() {
    let stream = device().default_stream();
    let of = |shape: [usize; 4]| DeviceArray::<f32, Ix4>::zeros(stream, shape).unwrap();
    let sums = |shape: [usize; 3]| DeviceArray::<f32, Ix3>::zeros(stream, shape).unwrap();
    let (q, k) = (of([1, 2, 3, 8]), of([1, 2, 5, 8]));
    for (out, log_sums, grad) in [
        (of([1, 2, 5, 8]), sums([1, 2, 3]), of([1, 2, 3, 8])),
        (of([1, 2, 3, 8]), sums([1, 2, 5]), of([1, 2, 3, 8])),
        (of([1, 2, 3, 8]), sums([1, 2, 3]), of([1, 1, 3, 8])),
    ] {
        let error = q.attention(&k, &k).gradients(&out, &log_sums, &grad).unwrap_err();
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
        assert!(message.contains("[1, 2, 3, 8], [1, 2, 3]"), "{message}");
    }
    let elsewhere = sums([1, 2, 3]);
    let hopper = Device::simulated_hopper();
    let grad = DeviceArray::<f32, Ix4>::zeros(hopper.default_stream(), [1, 2, 3, 8]).unwrap();
    let error = q.attention(&k, &k).gradients(&q, &elsewhere, &grad).unwrap_err();
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
