// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit floats, on the tests' device, on the simulated one with Hopper's instructions, and by way of `f16` on
//! Ampere's, within their documented bounds.

use crate::common::*;
use ndarray::{Array1, Array2, Array3, ArrayD, ArrayView3, Axis, IxDyn, s};
use proptest::prelude::RngExt;
use warpsmith::ops::{MatMul, ScaledMul};
use warpsmith::{Checks, Device, DeviceArray, DeviceView, Element, Error, F8E4M3, F8E5M2, bf16};

/// What the tests want of an element type.
trait Float8: Element {
    fn of(x: f32) -> Self;
    fn to(self) -> f64;
}

macro_rules! float8 {
    ($($type:ident)*) => {$(
        impl Float8 for $type {
            fn of(x: f32) -> Self {
                $type::from_f32(x)
            }

            fn to(self) -> f64 {
                self.to_f32().into()
            }
        }
    )*};
}

float8!(F8E4M3 F8E5M2);

/// What the tests want of a result's type.
trait Output: MatMul<Scalar = f32> {
    /// The unit roundoff.
    const ROUNDOFF: f64;
    fn to(self) -> f64;
}

impl Output for f32 {
    const ROUNDOFF: f64 = 1.0 / 16_777_216.0;

    fn to(self) -> f64 {
        self.into()
    }
}

impl Output for bf16 {
    const ROUNDOFF: f64 = 1.0 / 256.0;

    fn to(self) -> f64 {
        self.to_f64()
    }
}

fn stack<T: Float8>(shape: (usize, usize, usize), seed: u64) -> Array3<T> {
    let mut rng = rng(seed);
    Array3::from_shape_simple_fn(shape, || T::of(4.0 * rng.random::<f32>() - 2.0))
}

/// What a product's error is at most, as a part of the sum of magnitudes: on a GPU's tensor cores of Ada and later that of sums of 14
/// bits, else that of sums in f32 that are truncated.
fn relative_bound(device: &Device, k: usize, fast: bool) -> f64 {
    let k = k as f64;
    let properties = device.properties();
    match properties.id != "sim" && properties.tensor_cores >= Some((8, 9)) {
        true if fast => (k + k / 32.0 + 33.0) * 2f64.powi(-13),
        true => 132.0 * 2f64.powi(-13) + (k / 128.0 + 4.0) * 2f64.powi(-24),
        false => 2.0 * (k + 4.0) * 2f64.powi(-23),
    }
}

/// The scales of an operand, and the one of each element: product, line, place along k.
struct Scaling {
    scales: Option<ArrayD<f32>>,
    of: fn(&ArrayD<f32>, [usize; 3]) -> f32,
}

const NONE: Scaling = Scaling {
    scales: None,
    of: |_, _| 1.0,
};

impl Scaling {
    fn new(shape: &[usize], seed: u64, of: fn(&ArrayD<f32>, [usize; 3]) -> f32) -> Self {
        let mut rng = rng(seed);
        let scales = ArrayD::from_shape_simple_fn(IxDyn(shape), || 4.0 * rng.random::<f32>() - 1.0);
        Self {
            scales: Some(scales),
            of,
        }
    }

    fn at(&self, place: [usize; 3]) -> f64 {
        self.scales
            .as_ref()
            .map_or(1.0, |scales| (self.of)(scales, place))
            .into()
    }
}

struct Case<'a, A, B> {
    a: ArrayView3<'a, A>,
    b: ArrayView3<'a, B>,
    scales: [&'a Scaling; 2],
    fast: bool,
    what: String,
}

impl<A: Float8, B: Float8> Case<'_, A, B> {
    /// The sums of products, and of their magnitudes.
    fn wanted(&self) -> [Array3<f64>; 2] {
        let (a_batch, m, k) = self.a.dim();
        let (b_batch, _, n) = self.b.dim();
        let [of_a, of_b] = self.scales;
        let (mut sums, mut sizes) = (
            Array3::zeros((a_batch.max(b_batch), m, n)),
            Array3::zeros((a_batch.max(b_batch), m, n)),
        );
        for (p, (mut sum, mut size)) in sums.outer_iter_mut().zip(sizes.outer_iter_mut()).enumerate() {
            let product = |batch: usize| if batch == 1 { 0 } else { p };
            let (row, column) = (product(a_batch), product(b_batch));
            let a = Array2::from_shape_fn((m, k), |(i, k)| self.a[[row, i, k]].to() * of_a.at([p, i, k]));
            let b = Array2::from_shape_fn((k, n), |(k, j)| self.b[[column, k, j]].to() * of_b.at([p, j, k]));
            sum.assign(&a.dot(&b));
            size.assign(&a.mapv(f64::abs).dot(&b.mapv(f64::abs)));
        }
        [sums, sizes]
    }

    /// Checks a result, to each column of which a number of `bias` was added.
    #[track_caller]
    fn check<C: Output>(
        &self,
        device: &Device,
        got: ArrayView3<'_, C>,
        [sums, sizes]: &[Array3<f64>; 2],
        bias: Option<&Array1<C>>,
    ) {
        let relative = relative_bound(device, self.a.len_of(Axis(2)), self.fast) + 4.0 * 2f64.powi(-24);
        assert_eq!(got.dim(), sums.dim());
        for ((p, i, j), got) in got.indexed_iter() {
            let bias = bias.map_or(0.0, |bias| bias[j].to());
            let (wanted, bound) = (sums[[p, i, j]] + bias, relative * (sizes[[p, i, j]] + bias.abs()));
            let bound = bound + C::ROUNDOFF * (wanted.abs() + bound) + 2f64.powi(-40);
            let got = got.to();
            assert!(
                (got - wanted).abs() <= bound,
                "{} on {}: ({p}, {i}, {j}): {got}, wanted {wanted}, bound {bound:e}",
                self.what,
                device.properties().name
            );
        }
    }

    /// Multiplies on all devices, with each operand in C and in Fortran order.
    #[track_caller]
    fn check_orders<C: Output>(&self, devices: &[Device], orders: &[(bool, bool)])
    where
        A: ScaledMul<B, C>,
    {
        let wanted = self.wanted();
        for device in devices {
            let stream = device.default_stream();
            let scales = self.scales.map(|scales| {
                scales
                    .scales
                    .as_ref()
                    .map(|scales| DeviceArray::from_ndarray(stream, scales).unwrap())
            });
            for &(a_transposed, b_transposed) in orders {
                let axes = |transposed| if transposed { [0, 2, 1] } else { [0, 1, 2] };
                let x = DeviceArray::from_ndarray(stream, &self.a.permuted_axes(axes(a_transposed))).unwrap();
                let y = DeviceArray::from_ndarray(stream, &self.b.permuted_axes(axes(b_transposed))).unwrap();
                let x = x.view().permuted_axes(axes(a_transposed)).unwrap();
                let y = y.view().permuted_axes(axes(b_transposed)).unwrap();
                let mut product = x.scaled_batched_matmul::<B, C>(&y);
                if let Some(scales) = &scales[0] {
                    product = product.scale_a(scales);
                }
                if let Some(scales) = &scales[1] {
                    product = product.scale_b(scales);
                }
                if self.fast {
                    product = product.fast_accumulation();
                }
                let got = product.compute().unwrap().to_ndarray().unwrap();
                self.check(device, got.view(), &wanted, None);
            }
        }
    }
}

const ALL_ORDERS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// Those that differ in how they multiply numbers of 16 bits, and Ada.
fn devices() -> Vec<Device> {
    let mut devices = with_turing();
    devices.push(device().as_generation((8, 9)).unwrap());
    devices
}

/// `a b` of such batches, scaled so, on all devices.
#[track_caller]
fn check_scaled<A: Float8 + ScaledMul<B, C>, B: Float8, C: Output>(
    batches: [usize; 2],
    shape: [usize; 3],
    scales: [&Scaling; 2],
    orders: &[(bool, bool)],
) {
    check_on::<A, B, C>(&devices(), batches, shape, scales, orders);
}

#[track_caller]
fn check_on<A: Float8 + ScaledMul<B, C>, B: Float8, C: Output>(
    devices: &[Device],
    [a_batch, b_batch]: [usize; 2],
    [m, n, k]: [usize; 3],
    scales: [&Scaling; 2],
    orders: &[(bool, bool)],
) {
    let (a, b) = (stack::<A>((a_batch, m, k), 1), stack::<B>((b_batch, k, n), 2));
    let shapes = scales.map(|scales| scales.scales.as_ref().map(|scales| scales.shape().to_vec()));
    let what = format!("{m} × {n} × {k}, scales {shapes:?}");
    Case {
        a: a.view(),
        b: b.view(),
        scales,
        fast: false,
        what,
    }
    .check_orders::<C>(devices, orders);
}

#[track_caller]
fn check<A: Float8 + ScaledMul<B, C>, B: Float8, C: Output>(shape: [usize; 3]) {
    check_scaled::<A, B, C>([1, 1], shape, [&NONE, &NONE], &ALL_ORDERS);
}

#[test]
fn products_of_all_types_are_within_their_bound() {
    check::<F8E4M3, F8E4M3, f32>([72, 136, 160]);
    check::<F8E4M3, F8E4M3, bf16>([130, 72, 144]);
    check::<F8E4M3, F8E5M2, f32>([20, 40, 48]);
    check::<F8E4M3, F8E5M2, bf16>([9, 24, 16]);
    check::<F8E5M2, F8E4M3, f32>([20, 40, 48]);
    check::<F8E5M2, F8E4M3, bf16>([9, 24, 16]);
}

/// Lines that no copy of the tensor memory accelerator can have: they are no multiple of 16 bytes.
#[test]
fn lines_of_any_length() {
    for shape in [[1, 1, 1], [3, 5, 7], [33, 8, 9], [8, 35, 16], [5, 33, 257]] {
        check::<F8E4M3, F8E4M3, f32>(shape);
        check::<F8E4M3, F8E5M2, bf16>(shape);
    }
}

#[test]
fn tiles_that_are_not_full_and_several_of_a_block() {
    check::<F8E4M3, F8E4M3, bf16>([300, 16, 200]);
}

#[test]
fn batches_and_one_matrix_for_all() {
    for batches in [[3, 3], [1, 2], [2, 1]] {
        check_scaled::<F8E4M3, F8E4M3, f32>(batches, [20, 24, 40], [&NONE, &NONE], &ALL_ORDERS);
    }
}

/// As many columns as the multiprocessors take at once in tiles of each width: it is the best one then. Of 64 columns, tiles of 64 rows,
/// and of 128.
#[test]
fn tiles_of_all_widths() {
    let device = Device::simulated_hopper();
    let stream = device.default_stream();
    let widths = [
        (8, 64, false),
        (8, 64, true),
        (100, 64, false),
        (72, 128, false),
        (72, 192, false),
        (72, 192, true),
        (72, 256, true),
    ];
    for (m, width, fast) in widths {
        let n = width * device.properties().multiprocessors as usize - 8;
        let (a, b) = (stack::<F8E4M3>((1, m, 272), 7), stack::<F8E4M3>((1, 272, n), 8));
        let of_rows = Scaling::new(&[m, 1], 9, |scales, [_, i, _]| scales[[i, 0]]);
        let of_columns = Scaling::new(&[1, n], 10, |scales, [_, j, _]| scales[[0, j]]);
        let scales = [&of_rows, &of_columns];
        let on_device =
            scales.map(|scales| DeviceArray::from_ndarray(stream, scales.scales.as_ref().unwrap()).unwrap());
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let bias = Array1::from_shape_fn(n, |j| bf16::from_f32(j as f32 / 8.0));
        let on_device_bias = DeviceArray::from_ndarray(stream, &bias).unwrap();
        for with_bias in [false, true] {
            let mut product = x
                .scaled_batched_matmul(&y)
                .scale_a(&on_device[0])
                .scale_b(&on_device[1]);
            product = if fast { product.fast_accumulation() } else { product };
            product = if with_bias {
                product.bias(&on_device_bias)
            } else {
                product
            };
            let case = Case {
                a: a.view(),
                b: b.view(),
                scales,
                fast,
                what: format!("{m} rows, width {width}"),
            };
            let got = product.compute().unwrap().to_ndarray().unwrap();
            case.check(&device, got.view(), &case.wanted(), with_bias.then_some(&bias));
        }
    }
}

/// Several tiles of 256 columns for a block, whose last boxes wait for the next one's products.
#[test]
fn boxes_wait_for_the_next_tile() {
    let device = hopper_of(1, Checks::ALL);
    let (a, b) = (stack::<F8E4M3>((1, 128, 1296), 11), stack::<F8E4M3>((1, 1296, 760), 12));
    let x = DeviceArray::from_ndarray(device.default_stream(), &a).unwrap();
    let y = DeviceArray::from_ndarray(device.default_stream(), &b).unwrap();
    let product: DeviceArray<bf16, _> = x.scaled_batched_matmul(&y).fast_accumulation().compute().unwrap();
    let case = Case {
        a: a.view(),
        b: b.view(),
        scales: [&NONE, &NONE],
        fast: true,
        what: "three tiles a block".into(),
    };
    case.check(&device, product.to_ndarray().unwrap().view(), &case.wanted(), None);
}

#[test]
fn scales_of_tensors_rows_and_columns() {
    let one = Scaling::new(&[1], 20, |scales, _| scales[[0]]);
    let rows = Scaling::new(&[37, 1], 21, |scales, [_, i, _]| scales[[i, 0]]);
    let columns = Scaling::new(&[1, 43], 22, |scales, [_, j, _]| scales[[0, j]]);
    for scales in [
        [&one, &one],
        [&rows, &columns],
        [&one, &columns],
        [&rows, &NONE],
        [&NONE, &columns],
    ] {
        check_scaled::<F8E4M3, F8E4M3, f32>([1, 1], [37, 43, 130], scales, &[(false, true)]);
    }
    check_scaled::<F8E5M2, F8E4M3, bf16>([1, 1], [37, 43, 130], [&rows, &columns], &[(false, true)]);
    // Each product's own, and those of all.
    let rows = Scaling::new(&[2, 37, 1], 23, |scales, [p, i, _]| scales[[p, i, 0]]);
    check_scaled::<F8E4M3, F8E4M3, f32>([2, 1], [37, 43, 20], [&rows, &columns], &[(false, true)]);
    let each = Scaling::new(&[2, 1, 1], 24, |scales, [p, ..]| scales[[p, 0, 0]]);
    check_scaled::<F8E4M3, F8E4M3, f32>([1, 2], [37, 43, 20], [&each, &each], &[(false, true)]);
}

/// 128 of k at a time, and of `b` 128 columns.
#[test]
fn scales_of_blocks() {
    let of_a = Scaling::new(&[37, 3], 30, |scales, [_, i, k]| scales[[i, k / 128]]);
    let of_b = Scaling::new(&[3, 2], 31, |scales, [_, j, k]| scales[[k / 128, j / 128]]);
    let columns = Scaling::new(&[1, 150], 32, |scales, [_, j, _]| scales[[0, j]]);
    for scales in [[&of_a, &of_b], [&of_a, &columns], [&NONE, &of_b]] {
        check_scaled::<F8E4M3, F8E4M3, f32>([1, 1], [37, 150, 300], scales, &[(false, true)]);
    }
    let of_a = Scaling::new(&[2, 9, 3], 33, |scales, [p, i, k]| scales[[p, i, k / 128]]);
    let of_b = Scaling::new(&[2, 3, 2], 34, |scales, [p, j, k]| scales[[p, k / 128, j / 128]]);
    check_scaled::<F8E4M3, F8E4M3, bf16>([1, 2], [9, 150, 300], [&of_a, &of_b], &[(false, true)]);
    check_scaled::<F8E4M3, F8E4M3, f32>([2, 1], [9, 150, 300], [&of_a, &of_b], &[(false, true)]);
    // Of one block, whose scales are those of rows, and of all columns.
    let of_a = Scaling::new(&[9, 1], 35, |scales, [_, i, _]| scales[[i, 0]]);
    let of_b = Scaling::new(&[1, 2], 36, |scales, [_, j, _]| scales[[0, j / 128]]);
    check_scaled::<F8E4M3, F8E4M3, f32>([1, 1], [9, 150, 100], [&of_a, &of_b], &[(false, true)]);
}

/// Few tiles and a long k, which is cut, as scales of blocks are; and few rows, which are columns of the transpose.
#[test]
fn a_long_k_in_parts_and_few_rows() {
    let hopper = [Device::simulated_hopper()];
    let of_a = Scaling::new(&[70, 64], 40, |scales, [_, i, k]| scales[[i, k / 128]]);
    let of_b = Scaling::new(&[64, 1], 41, |scales, [_, _, k]| scales[[k / 128, 0]]);
    check_on::<F8E4M3, F8E5M2, bf16>(&hopper, [1, 1], [70, 16, 8192], [&of_a, &of_b], &[(false, true)]);
    let rows = Scaling::new(&[3, 1], 42, |scales, [_, i, _]| scales[[i, 0]]);
    let columns = Scaling::new(&[1, 16], 44, |scales, [_, j, _]| scales[[0, j]]);
    check_on::<F8E5M2, F8E4M3, bf16>(&hopper, [1, 1], [3, 16, 8192], [&rows, &columns], &[(false, true)]);
}

/// Views that begin anywhere and go backwards: of operands, of scales, and of the result.
#[test]
fn parts_of_matrices() {
    let (a, b) = (stack::<F8E4M3>((1, 40, 50), 3), stack::<F8E5M2>((1, 60, 30), 4));
    let (a, b) = (a.index_axis_move(Axis(0), 0), b.index_axis_move(Axis(0), 0));
    let rows = Array2::from_shape_fn((3, 20), |(i, j)| (i * 20 + j) as f32);
    let columns = Array1::from_shape_fn(24, |j| j as f32 - 7.5);
    for device in with_turing() {
        let stream = device.default_stream();
        let x = DeviceArray::from_ndarray(stream, &a).unwrap();
        let y = DeviceArray::from_ndarray(stream, &b).unwrap();
        let of_rows = DeviceArray::from_ndarray(stream, &rows).unwrap();
        let of_columns = DeviceArray::from_ndarray(stream, &columns).unwrap();
        let (left, right) = (s![3..;2, 1..41], s![..;-1, 2..26]);
        let y = y.slice(right).unwrap();
        let (y, x) = (y.slice(s![..40, ..]).unwrap(), x.slice(left).unwrap());
        // A column of numbers that goes backwards: 38, 37, …
        let of_rows = of_rows.slice(s![1..2, ..;-1]).unwrap();
        let of_rows: DeviceView<'_, f32, _> = of_rows.slice(s![.., 1..20]).unwrap().reversed_axes();
        let of_columns = of_columns.slice(s![..;-1]).unwrap();
        let mut out = DeviceArray::<f32, _>::zeros(stream, (19, 50)).unwrap();
        x.scaled_matmul(&y)
            .scale_a(&of_rows)
            .scale_b(&of_columns.insert_axis(Axis(0)).unwrap())
            .compute_into(&mut out.slice_mut(s![.., 1..49;2]).unwrap())
            .unwrap();
        let row_scales = Scaling {
            scales: Some(rows.clone().into_dyn()),
            of: |scales, [_, i, _]| scales[[1, 18 - i]],
        };
        let column_scales = Scaling {
            scales: Some(columns.clone().into_dyn()),
            of: |scales, [_, j, _]| scales[[23 - j]],
        };
        let case = Case {
            a: a.slice(left).insert_axis(Axis(0)),
            b: b.slice(right).slice_move(s![..40, ..]).insert_axis(Axis(0)),
            scales: [&row_scales, &column_scales],
            fast: false,
            what: "parts".into(),
        };
        let got = out.to_ndarray().unwrap();
        case.check(
            &device,
            got.slice(s![.., 1..49;2]).insert_axis(Axis(0)),
            &case.wanted(),
            None,
        );
        assert!(got.slice(s![.., ..;2]).iter().chain(got.column(49)).all(|&x| x == 0.0));
    }
}

#[test]
fn nothing_to_sum_and_nothing_to_write() {
    for device in with_turing() {
        let stream = device.default_stream();
        let a = DeviceArray::<F8E4M3, _>::zeros(stream, (5, 0)).unwrap();
        let b = DeviceArray::<F8E4M3, _>::zeros(stream, (0, 8)).unwrap();
        let bias = DeviceArray::from_elem(stream, 8, 3.0f32).unwrap();
        let scale = DeviceArray::from_elem(stream, (1, 1), 2.0f32).unwrap();
        let product = a.scaled_matmul(&b).scale_a(&scale).bias(&bias).compute().unwrap();
        assert!(product.to_ndarray().unwrap().iter().all(|&c| c == 3.0));
        let no_blocks = DeviceArray::<f32, _>::zeros(stream, (5, 0)).unwrap();
        let product: DeviceArray<f32, _> = a.scaled_matmul(&b).scale_a(&no_blocks).compute().unwrap();
        assert!(product.to_ndarray().unwrap().iter().all(|&c| c == 0.0));
        let empty = DeviceArray::<F8E4M3, _>::zeros(stream, (0, 5)).unwrap();
        let product: DeviceArray<bf16, _> = empty.scaled_matmul(&a).compute().unwrap();
        assert_eq!(product.shape(), [0, 0]);
    }
}

/// NaN and infinities propagate, −0 is 0, the greatest numbers do not overflow, and what the result's type has not is an
/// infinity.
#[test]
fn what_is_not_finite() {
    for device in with_turing() {
        let stream = device.default_stream();
        let mut a = Array2::from_elem((8, 16), F8E5M2::ONE);
        a[[1, 3]] = F8E5M2::NAN;
        a[[2, 3]] = F8E5M2::INFINITY;
        a[[3, 3]] = F8E5M2::NEG_INFINITY;
        a.row_mut(4).fill(F8E5M2::MAX);
        a.row_mut(5).fill(-F8E5M2::ZERO);
        let mut b = Array2::from_elem((16, 8), F8E4M3::MAX);
        b.column_mut(1).fill(F8E4M3::ONE);
        b[[3, 2]] = F8E4M3::ZERO;
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let c: DeviceArray<f32, _> = x.scaled_matmul(&y).compute().unwrap();
        let c = c.to_ndarray().unwrap();
        assert_eq!((c[[0, 0]], c[[0, 1]], c[[0, 2]]), (16.0 * 448.0, 16.0, 15.0 * 448.0));
        assert!(c.row(1).iter().all(|c| c.is_nan()));
        assert_eq!(
            (c[[2, 0]], c[[2, 1]], c[[3, 0]]),
            (f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY)
        );
        assert!(c[[2, 2]].is_nan() && c[[3, 2]].is_nan(), "∞ · 0");
        assert_eq!(c[[4, 0]], 16.0 * 448.0 * 57344.0);
        assert!(c.row(5).iter().all(|&c| c == 0.0));
        let ones = DeviceArray::from_elem(stream, 8, bf16::ONE).unwrap();
        let large = DeviceArray::from_elem(stream, (1, 1), 1e30f32).unwrap();
        let c = x.scaled_matmul(&y).scale_a(&large).scale_b(&large).bias(&ones);
        let c = c.compute().unwrap().to_ndarray().unwrap();
        assert!(c[[0, 0]] == bf16::INFINITY && c[[5, 0]] == bf16::ONE && c[[1, 0]].is_nan());
    }
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let stream = device().default_stream();
    let zeros = |rows, columns| DeviceArray::<F8E4M3, _>::zeros(stream, (rows, columns)).unwrap();
    let scales = |rows, columns| DeviceArray::<f32, _>::zeros(stream, (rows, columns)).unwrap();
    let (a, b) = (zeros(200, 300), zeros(300, 200));
    let message = |result: warpsmith::Result<DeviceArray<f32, _>>| match result {
        Err(Error::Shape {
            operation,
            given,
            wanted,
        }) => {
            assert_eq!(operation, "scaled_matmul");
            format!("{given}: {wanted}")
        }
        other => panic!("an error of shapes was expected, not {other:?}"),
    };
    message(a.scaled_matmul(&a).compute());
    message(a.scaled_matmul(&b).bias(&scales(1, 199)).compute());
    assert_eq!(
        message(a.scaled_matmul(&b).scale_a(&scales(200, 2)).compute()),
        "scales of `a` of shape [200, 2]: scales of 1 × 1, 200 × 1 or 200 × 3, for each of 1 products or for all"
    );
    assert_eq!(
        message(a.scaled_matmul(&b).scale_b(&scales(200, 1)).compute()),
        "scales of `b` of shape [200, 1]: scales of 1 × 1, 1 × 200 or 3 × 2, for each of 1 products or for all"
    );
    let four = DeviceArray::<f32, _>::zeros(stream, (1, 1, 1, 1)).unwrap();
    message(a.scaled_matmul(&b).scale_b(&four).compute());
    let mut out = scales(200, 199);
    assert!(matches!(
        a.scaled_matmul(&b).compute_into(&mut out),
        Err(Error::Shape { .. })
    ));
}

#[test]
fn operands_of_other_devices_are_errors() {
    let (one, other) = (Device::simulated_hopper(), Device::simulated_hopper());
    let zeros = |device: &Device| DeviceArray::<F8E4M3, _>::zeros(device.default_stream(), (16, 16)).unwrap();
    let floats = |device: &Device| DeviceArray::<f32, _>::zeros(device.default_stream(), (16, 1)).unwrap();
    let (a, b) = (zeros(&one), zeros(&one));
    for error in [
        a.scaled_matmul(&zeros(&other)).compute(),
        a.scaled_matmul(&b).scale_a(&floats(&other)).compute(),
        a.scaled_matmul(&b).scale_b(&floats(&other).t()).compute(),
        a.scaled_matmul(&b).bias(&floats(&other)).compute(),
    ] {
        assert!(matches!(error, Err(Error::DifferentDevices { .. })));
    }
    let mut out = DeviceArray::<f32, _>::zeros(other.default_stream(), (16, 16)).unwrap();
    let error = a.scaled_matmul(&b).compute_into(&mut out);
    assert!(matches!(error, Err(Error::DifferentDevices { .. })));
}
