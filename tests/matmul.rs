// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices and vectors: integers exactly, floats to the last bit where the order of summation is promised,
//! and within its bound where it is not.

mod vectors;

use crate::common::*;
use kernels_gpu::compiled::GemmParams;
use kernels_gpu::matmul::MulAdd;
use kernels_gpu::matmul::epilogue::{Activate, Activation, EpiloguePlan};
use kernels_gpu::matmul::gemm::{self, GemmShape, KMajor, Large, Medium, MnMajor, Size, Small};
use kernels_gpu::num::Num;
use ndarray::{Array1, Array2, Array3, ArrayView1, ArrayView2, ArrayView3, Axis, s};
use proptest::prelude::*;
use warpsmith::ops::{MatMul, MatVec};
use warpsmith::{DeviceArray, DeviceView, LaunchConfig};

type Matrix<T> = DeviceArray<T, ndarray::Ix2>;

/// What the tests want of an element type.
trait Value: Number + MatMul<Scalar = Self> + MatVec<Wide = Self> + MulAdd + Activate + cuda_std::param::ByValue {
    fn small(rng: &mut test_reference::random::Random) -> Self;
    /// Checks a sum of the products of `a` and `b` that was summed in some order.
    fn check_sum(got: Self, a: ArrayView1<'_, Self>, b: ArrayView1<'_, Self>, what: &str);
}

macro_rules! floats {
    ($($type:ident)*) => {$(
        impl Value for $type {
            fn small(rng: &mut test_reference::random::Random) -> Self {
                rng.random::<Self>() - 0.5
            }

            /// k fused multiply-adds and additions in any order round each product at most k times (those with the zero
            /// that a chain begins with are exact), so the error is at most `γ_k Σ|a||b|`, `γ_k = k u / (1 − k u)` (N.
            /// Higham, "Accuracy and Stability of Numerical Algorithms", 3.1). The reference, the same sum in f64, adds
            /// as much with the unit roundoff of f64.
            fn check_sum(got: Self, a: ArrayView1<'_, Self>, b: ArrayView1<'_, Self>, what: &str) {
                let terms = || a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b));
                let (wanted, magnitude): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
                let gamma = |u: f64| a.len() as f64 * u / (1.0 - a.len() as f64 * u);
                let bound = (gamma(Self::UNIT_ROUNDOFF) + gamma(f64::EPSILON)) * magnitude;
                let error = (f64::from(got) - wanted).abs();
                assert!(error <= bound, "{what}: {got}, wanted {wanted}, error {error:e}, bound {bound:e}");
            }
        }
    )*};
}

floats!(f32 f64);

impl Value for i32 {
    fn small(rng: &mut test_reference::random::Random) -> Self {
        rng.random()
    }

    fn check_sum(got: Self, a: ArrayView1<'_, Self>, b: ArrayView1<'_, Self>, what: &str) {
        assert_eq!(got, chain(a, b), "{what}");
    }
}

/// The sum of products by fused multiply-add, in ascending order: what the documentation promises of a matrix product.
fn chain<T: MulAdd>(a: ArrayView1<'_, T>, b: ArrayView1<'_, T>) -> T {
    a.iter().zip(&b).fold(T::ZERO, |sum, (&a, &b)| a.mul_add(b, sum))
}

fn product<T: Value>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) -> Array2<T> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| chain(a.row(i), b.column(j)))
}

/// The product with sums of so many chains, of which each has the next eight terms in turn; neighbours are added first.
fn product_by<T: Value>(a: ArrayView2<'_, T>, b: ArrayView2<'_, T>, chains: usize) -> Array2<T> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        let mut sums = vec![T::ZERO; chains];
        for (number, (&a, &b)) in a.row(i).iter().zip(b.column(j)).enumerate() {
            let sum = &mut sums[number / 8 % chains];
            *sum = a.mul_add(b, *sum);
        }
        while sums.len() > 1 {
            sums = sums.chunks(2).map(|two| two[0].add(two[1])).collect();
        }
        sums[0]
    })
}

/// Of how many chains the device's sums may be: on Hopper, those of `f64` by tiles of few rows are several.
fn chains<T: Value>() -> &'static [usize] {
    let is_double = std::any::TypeId::of::<T>() == std::any::TypeId::of::<f64>();
    match is_double && device().properties().tensor_cores == Some((9, 0)) {
        true => &[1, 2, 4, 8],
        false => &[1],
    }
}

/// Asserts that all elements are those that `wanted` makes of one number of chains.
#[track_caller]
fn assert_by_chains<T: Value>(got: &[T], wanted: impl Fn(usize) -> Vec<T>, what: &str) {
    let is_by = |chains: usize| wanted(chains) == got;
    if !chains::<T>().iter().skip(1).any(|&chains| is_by(chains)) {
        assert_same(got, &wanted(1), what);
    }
}

fn matrix<T: Value>(rows: usize, columns: usize, seed: u64) -> Array2<T> {
    let mut rng = rng(seed);
    Array2::from_shape_simple_fn((rows, columns), || T::small(&mut rng))
}

fn vector<T: Value>(len: usize, seed: u64) -> Array1<T> {
    matrix(1, len, seed).index_axis_move(Axis(0), 0)
}

#[track_caller]
fn assert_equal<T: Value>(got: &Matrix<T>, wanted: &Array2<T>, what: &str) {
    assert_eq!(got.shape(), wanted.shape(), "{what}");
    assert_same(&elements(got), &wanted.iter().copied().collect::<Vec<_>>(), what);
}

/// A matrix on the device in C order, or in Fortran order: its transpose lies there.
struct Uploaded<T> {
    array: Matrix<T>,
    transposed: bool,
}

impl<T: Value> Uploaded<T> {
    fn new(matrix: &Array2<T>, transposed: bool) -> Self {
        let array = if transposed {
            upload(&matrix.t())
        } else {
            upload(matrix)
        };
        Self { array, transposed }
    }
}

impl<T: Value> Uploaded<T> {
    fn as_view(&self) -> DeviceView<'_, T, ndarray::Ix2> {
        if self.transposed {
            self.array.t()
        } else {
            self.array.view()
        }
    }
}

const ORDERS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// `a b` for every combination of C and Fortran order, to the last bit, and within the derived bound of the sum in f64.
fn check_matmul<T: Value>(m: usize, n: usize, k: usize, seed: u64) {
    let (a, b) = (matrix::<T>(m, k, seed), matrix::<T>(k, n, seed + 1000));
    let wanted = product(a.view(), b.view());
    let (of_a, of_b) = (a.clone(), b.clone());
    let by_chains = |chains| product_by(of_a.view(), of_b.view(), chains);
    for ((i, j), &sum) in wanted.indexed_iter().step_by(7) {
        T::check_sum(sum, a.row(i), b.column(j), "a sum in ascending order");
    }
    for (a_transposed, b_transposed) in ORDERS {
        let (a, b) = (Uploaded::new(&a, a_transposed), Uploaded::new(&b, b_transposed));
        let got = a.as_view().matmul(&b.as_view()).unwrap();
        let what = format!("{m} × {k} × {n}, transposed: {a_transposed} and {b_transposed}");
        assert_eq!(got.shape(), wanted.shape(), "{what}");
        // A matrix and a vector are no chains.
        if m == 1 || n == 1 {
            for ((i, j), &sum) in got.to_ndarray().unwrap().indexed_iter() {
                T::check_sum(sum, of_a.row(i), of_b.column(j), &what);
            }
            continue;
        }
        assert_by_chains(
            &elements(&got),
            |chains| by_chains(chains).into_raw_vec_and_offset().0,
            &what,
        );
    }
}

/// Nothing, one, both sides of every tile and step, primes, thin and wide.
const SHAPES: [(usize, usize, usize); 22] = [
    (0, 0, 0),
    (0, 5, 3),
    (5, 0, 3),
    (5, 3, 0),
    (1, 1, 1),
    (1, 1, 100),
    (1, 37, 5),
    (37, 1, 5),
    (2, 3, 4),
    (31, 33, 7),
    (32, 32, 8),
    (33, 31, 9),
    (63, 65, 15),
    (64, 64, 16),
    (65, 63, 17),
    (16, 16, 31),
    (17, 13, 33),
    (8, 8, 64),
    (127, 129, 5),
    (130, 20, 12),
    (3, 300, 10),
    (300, 4, 11),
];

fn every_shape<T: Value>() {
    for (seed, (m, n, k)) in (1..).zip(SHAPES) {
        check_matmul::<T>(m, n, k, seed);
    }
}

fn random_shapes<T: Value>() {
    proptest!(cases(8), |(m in 0..80usize, n in 0..80usize, k in 0..50usize, seed in 0..1u64 << 40)| {
        check_matmul::<T>(m, n, k, seed);
    });
}

/// What is launched of the kernel itself: every size of tiles, whatever the host would choose for the device.
fn check_tiles<S: Size<T>, T: Value>(m: usize, n: usize, k: usize)
where
    gemm::gemm<T, S, KMajor, KMajor>: cuda_std::launch::SafeKernel<Params = GemmParams<T>>,
    gemm::gemm<T, S, KMajor, MnMajor>: cuda_std::launch::SafeKernel<Params = GemmParams<T>>,
    gemm::gemm<T, S, MnMajor, KMajor>: cuda_std::launch::SafeKernel<Params = GemmParams<T>>,
    gemm::gemm<T, S, MnMajor, MnMajor>: cuda_std::launch::SafeKernel<Params = GemmParams<T>>,
{
    let (a, b) = (matrix::<T>(m, k, 5), matrix::<T>(k, n, 6));
    // With one more where the kernel has the epilogue.
    let added = if S::FINISHES { T::ONE } else { T::ZERO };
    let wanted = product(a.view(), b.view()).mapv(|x| kernels_gpu::num::Num::add(x, added));
    let (plan, none) = (EpiloguePlan::default(), upload(&Array1::<T>::from_vec(Vec::new())));
    let one = upload(&Array1::from_elem(1, T::ONE));
    let [rows, columns] = S::BLOCK_TILE;
    let config = LaunchConfig::new((m.div_ceil(rows) * n.div_ceil(columns)) as u32, S::THREADS as u32);
    let stream = device().default_stream();
    for (a_transposed, b_transposed) in ORDERS {
        let (a, b) = (Uploaded::new(&a, a_transposed), Uploaded::new(&b, b_transposed));
        let shape = GemmShape {
            batch: 1,
            first: 0,
            m,
            n,
            k,
            a: if a_transposed { [0, 1, m] } else { [0, k, 1] },
            b: if b_transposed { [0, k, 1] } else { [0, 1, n] },
            whole: 0,
            pitch: n,
        };
        // Layouts say what is fast, not what is right.
        for [along_k_a, along_k_b] in [[!a_transposed, b_transposed], [a_transposed, !b_transposed]] {
            let mut c = upload(&Array2::from_elem((m, n), T::ONE));
            let args = (&a.array, &b.array, &mut c, shape, T::ONE, T::ZERO, plan, &none, &one);
            match (along_k_a, along_k_b) {
                (true, true) => stream.launch::<gemm::gemm<T, S, KMajor, KMajor>>(&config, args),
                (true, false) => stream.launch::<gemm::gemm<T, S, KMajor, MnMajor>>(&config, args),
                (false, true) => stream.launch::<gemm::gemm<T, S, MnMajor, KMajor>>(&config, args),
                (false, false) => stream.launch::<gemm::gemm<T, S, MnMajor, MnMajor>>(&config, args),
            }
            .unwrap();
            let what = format!("tiles of {rows} × {columns}, along k: {along_k_a} and {along_k_b}");
            assert_equal(&c, &wanted, &what);
        }
    }
}

macro_rules! tiles_of_every_size {
    ($($type:ident)*) => {
        mod tiles_of_every_size {
            use super::*;
            $(
                #[test]
                fn $type() {
                    // The first are read and written in wide accesses, the others are not.
                    for (m, n, k) in [(132, 136, 20), (129, 66, 37)] {
                        check_tiles::<Large, $type>(m, n, k);
                        check_tiles::<Medium, $type>(m, n, k);
                        check_tiles::<Small, $type>(m, n, k);
                    }
                }
            )*
        }
    };
}

tiles_of_every_size!(f32 f64 i32);

/// More than eight rows of tiles, and the tiles of a last group of fewer.
#[test]
fn tiles_in_groups() {
    let (a, b) = (matrix::<f32>(32 * 10 + 5, 3, 1), matrix::<f32>(3, 32 * 3 + 1, 2));
    let got = upload(&a).matmul(&upload(&b)).unwrap();
    assert_equal(&got, &product(a.view(), b.view()), "11 × 4 tiles");
}

/// Parts of k, of which the last one is shorter; and large tiles, whose kernel takes none.
#[test]
fn parts_of_k() {
    let (a, b) = (matrix::<f32>(5, 7, 1), matrix::<f32>(7, 6, 2));
    let shape = GemmShape {
        batch: 3,
        first: 0,
        m: 5,
        n: 6,
        k: 3,
        a: [3, 7, 1],
        b: [18, 1, 6],
        whole: 7,
        pitch: 8,
    };
    let (x, y, none) = (upload(&a), upload(&b), upload(&Array1::<f32>::zeros(0)));
    let stream = device().default_stream();
    let mut c = upload(&Array3::from_elem((3, 5, 8), 7.0));
    let plan = EpiloguePlan::default();
    let config = |threads: usize| LaunchConfig::new((1, 1, 3), threads as u32);
    let args = (&x, &y, &mut c, shape, 1.0, 0.0, plan, &none, &none);
    let large = config(<Large as Size<f32>>::THREADS);
    stream
        .launch::<gemm::gemm<f32, Large, KMajor, MnMajor>>(&large, args)
        .unwrap();
    assert_eq!(c.to_ndarray().unwrap(), Array3::from_elem((3, 5, 8), 7.0));

    let args = (&x, &y, &mut c, shape, 1.0, 0.0, plan, &none, &none);
    let small = config(<Small as Size<f32>>::THREADS);
    stream
        .launch::<gemm::gemm<f32, Small, KMajor, MnMajor>>(&small, args)
        .unwrap();
    let got = c.to_ndarray().unwrap();
    for (part, terms) in [0..3, 3..6, 6..7].into_iter().enumerate() {
        let wanted = product(a.slice(s![.., terms.clone()]), b.slice(s![terms, ..]));
        assert_eq!(got.slice(s![part, .., ..6]), wanted, "part {part}");
    }
}

/// Integers are the same, however k is cut.
#[test]
fn integers_in_parts_of_k() {
    let (a, b) = (matrix::<i32>(3, 3001, 1), matrix::<i32>(3001, 37, 2));
    let wanted = product(a.view(), b.view());
    for multiprocessors in [1, 132] {
        let device = simulated(None, multiprocessors);
        let stream = device.default_stream();
        let upload = |of: &Array2<i32>| DeviceArray::from_ndarray(stream, of).unwrap();
        let got = upload(&a).matmul(&upload(&b)).unwrap().to_ndarray().unwrap();
        assert_eq!(got, wanted, "{multiprocessors} multiprocessors");
    }
}

/// A launch whose strides lead out of the arrays writes nothing.
#[test]
fn strides_beyond_the_arrays() {
    let shape = GemmShape {
        batch: 1,
        first: 0,
        m: 4,
        n: 4,
        k: 4,
        a: [0, 4, 1],
        b: [0, 1, 4],
        whole: 0,
        pitch: 4,
    };
    let beyond = [
        GemmShape { m: 5, ..shape },
        GemmShape { k: 5, ..shape },
        GemmShape { batch: 2, ..shape },
        GemmShape {
            a: [0, usize::MAX, 1],
            ..shape
        },
        GemmShape {
            b: [0, 1, usize::MAX / 3 + 1],
            ..shape
        },
        GemmShape {
            batch: usize::MAX,
            ..shape
        },
        GemmShape { first: 1, ..shape },
        // Rows of the result that overlap, and that are too long.
        GemmShape { pitch: 3, ..shape },
        GemmShape { pitch: 5, ..shape },
        // Parts that do not follow one another, that are beyond the end, and too many to count.
        GemmShape { whole: 4, ..shape },
        GemmShape {
            whole: 5,
            a: [4, 4, 1],
            b: [16, 1, 4],
            ..shape
        },
        GemmShape {
            batch: usize::MAX,
            whole: 4,
            a: [4, 4, 1],
            b: [16, 1, 4],
            ..shape
        },
        GemmShape {
            first: usize::MAX,
            ..shape
        },
    ];
    let plan = EpiloguePlan::default();
    let (bias, residual) = ([0, 5, 1], [0, 1, usize::MAX]);
    let plans = [EpiloguePlan { bias, ..plan }, EpiloguePlan { residual, ..plan }];
    let beyond = beyond.map(|shape| (shape, plan));
    let x = upload(&Array2::<f32>::ones((4, 4)));
    for (shape, plan) in beyond.into_iter().chain(plans.map(|plan| (shape, plan))) {
        let mut c = upload(&Array2::from_elem((4, 4), 7.0));
        let args = (&x, &x, &mut c, shape, 1.0, 0.0, plan, &x, &x);
        device()
            .default_stream()
            .launch::<gemm::gemm<f32, Small, KMajor, MnMajor>>(
                &LaunchConfig::new(1, <Small as Size<f32>>::THREADS as u32),
                args,
            )
            .unwrap();
        assert_eq!(
            c.to_ndarray().unwrap(),
            Array2::from_elem((4, 4), 7.0),
            "{shape:?} {plan:?}"
        );
    }
}

/// Views with neither stride 1: repeated rows and columns, and matrices that lie across three axes.
fn other_strides<T: Value>() {
    let (row, column) = (matrix::<T>(1, 35, 1), matrix::<T>(35, 1, 2));
    let (on_device, other) = (upload(&row), upload(&column));
    let repeated = on_device.view().broadcast([20, 35]).unwrap();
    let wanted = |chains| {
        product_by(
            row.broadcast((20, 35)).unwrap(),
            column.broadcast((35, 9)).unwrap(),
            chains,
        )
    };
    let got = repeated.matmul(&other.view().broadcast([35, 9]).unwrap()).unwrap();
    let what = "repeated rows and columns";
    assert_by_chains(
        &elements(&got),
        |chains| wanted(chains).into_raw_vec_and_offset().0,
        what,
    );

    let cube = Array3::from_shape_vec((6, 7, 8), matrix::<T>(1, 336, 3).into_raw_vec_and_offset().0).unwrap();
    let on_device = upload(&cube);
    for axes in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]] {
        let a = cube.view().permuted_axes(axes);
        let b = a.permuted_axes([0, 2, 1]);
        let of_a = on_device.view().permuted_axes(axes).unwrap();
        let of_b = of_a.clone().permuted_axes([0, 2, 1]).unwrap();
        check_batch(&of_a.batched_matmul(&of_b).unwrap(), a, b, &format!("axes {axes:?}"));
    }
}

/// Checks a batch of products; an operand with one matrix has it for all.
#[track_caller]
fn check_batch<T: Value>(got: &DeviceArray<T, ndarray::Ix3>, a: ArrayView3<'_, T>, b: ArrayView3<'_, T>, what: &str) {
    let batch = if a.dim().0 == 1 { b.dim().0 } else { a.dim().0 };
    assert_eq!(got.shape(), [batch, a.dim().1, b.dim().2], "{what}");
    let wanted = |chains| {
        let of = |x: &ArrayView3<'_, T>, i| if x.dim().0 == 1 { 0 } else { i };
        let products = (0..batch).map(|i| {
            let (a, b) = (a.index_axis(Axis(0), of(&a, i)), b.index_axis(Axis(0), of(&b, i)));
            product_by(a, b, chains)
        });
        products.flatten().collect()
    };
    assert_by_chains(&elements(got), wanted, what);
}

fn batches<T: Value>() {
    let cube = |batch: usize, rows: usize, columns: usize, seed| {
        let values = matrix::<T>(1, batch * rows * columns, seed).into_raw_vec_and_offset().0;
        Array3::from_shape_vec((batch, rows, columns), values).unwrap()
    };
    for (of_a, of_b) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 5), (5, 1), (5, 5), (70, 70)] {
        for (m, n, k) in [(4, 8, 12), (5, 3, 7), (33, 2, 1), (2, 3, 0)] {
            let (a, b) = (cube(of_a, m, k, 1), cube(of_b, k, n, 2));
            let (x, y) = (upload(&a), upload(&b));
            let what = format!("batches of {of_a} and {of_b}, {m} × {k} × {n}");
            let got = x.batched_matmul(&y).unwrap();
            check_batch(&got, a.view(), b.view(), &what);
            let mut out = upload(&Array3::from_elem((got.shape()[0], m, n), T::ONE));
            x.batched_matmul_into(&y.view(), &mut out).unwrap();
            assert_same(&elements(&out), &elements(&got), &what);
            out.batched_gemm(T::ONE, &x, &y, T::ONE).unwrap();
            let twice: Vec<T> = elements(&got).iter().map(|&x| T::ONE.mul_add(x, x)).collect();
            assert_same(&elements(&out), &twice, &what);
        }
    }
}

/// More products than a grid has blocks along z. On the simulated GPU, which takes long for so many, the library's own tests have
/// grids of fewer.
#[test]
fn a_batch_beyond_the_grid() {
    if gpu("a_batch_beyond_the_grid").is_none() {
        return;
    }
    let a = Array3::from_shape_fn((65_537, 1, 1), |(i, _, _)| i as i32);
    let b = upload(&Array3::from_elem((1, 1, 1), 3));
    let old = Array3::from_shape_fn((65_537, 1, 1), |(i, _, _)| 7 * i as i32 + 1);
    let mut got = upload(&old);
    got.batched_gemm(1, &upload(&a), &b, 2).unwrap();
    assert!(got.to_ndarray().unwrap() == 2 * old + 3 * a);
}

/// `alpha · sum` is rounded, then `beta · old` is added in one step; without a `beta` there is no old value.
fn scaled<T: Value>(alpha: T, sum: T, beta: T, old: T) -> T {
    let product = alpha.mul(sum);
    if beta == T::ZERO {
        product
    } else {
        beta.mul_add(old, product)
    }
}

fn in_place<T: Value>() {
    let two = T::ONE.add(T::ONE);
    for (m, n, k) in [(7, 5, 9), (8, 12, 16), (40, 36, 3), (4, 4, 0)] {
        let (a, b, c) = (matrix::<T>(m, k, 1), matrix::<T>(k, n, 2), matrix::<T>(m, n, 3));
        let sums = |chains| product_by(a.view(), b.view(), chains);
        for alpha in [T::ZERO, T::ONE, two, T::ONE.neg()] {
            for beta in [T::ZERO, T::ONE, two.neg()] {
                let mut out = upload(&c);
                out.gemm(alpha, &upload(&a), &upload(&b.t()).t(), beta).unwrap();
                let wanted = |chains| {
                    let of = |(&sum, &old): (&T, &T)| {
                        let sum = if alpha == T::ZERO { T::ZERO } else { sum };
                        scaled(alpha, sum, beta, old)
                    };
                    sums(chains).iter().zip(&c).map(of).collect()
                };
                assert_by_chains(&elements(&out), wanted, &format!("{alpha:?} A B + {beta:?} C"));

                let (x, mut y) = (b.column(0).to_owned(), upload(&c.column(0)));
                y.gemv(alpha, &upload(&a), &upload(&x), beta).unwrap();
                let product = upload(&a).matvec(&upload(&x)).unwrap().to_ndarray().unwrap();
                let wanted: Vec<T> = (0..m)
                    .map(|i| {
                        let sum = if alpha == T::ZERO { T::ZERO } else { product[i] };
                        scaled(alpha, sum, beta, c[[i, 0]])
                    })
                    .collect();
                assert_same(&elements(&y), &wanted, &format!("{alpha:?} A x + {beta:?} y"));
            }
        }
    }
}

/// NaN and infinities stay in their rows and columns, and also meet the zeros there.
#[test]
fn nan_and_infinities_propagate() {
    for k in [5, 8, 40] {
        let (mut a, mut b) = (matrix::<f32>(6, k, 1), matrix::<f32>(k, 7, 2));
        a[[1, 2]] = f32::NAN;
        a[[2, 3]] = f32::INFINITY;
        b[[3, 4]] = 0.0;
        b[[0, 5]] = f32::NEG_INFINITY;
        let wanted = product(a.view(), b.view());
        let got = upload(&a).matmul(&upload(&b)).unwrap();
        assert_equal(&got, &wanted, "NaN and infinities");
        let got = got.to_ndarray().unwrap();
        assert!(got.row(1).iter().all(|x| x.is_nan()));
        assert!(got[[2, 4]].is_nan() && got[[2, 0]].is_infinite() && got[[0, 5]].is_infinite());
        assert!(got.slice(s![3.., ..5]).iter().all(|x| x.is_finite()));
        for transposed in [false, true] {
            let x = Uploaded::new(&a, transposed);
            let column = x.as_view().matvec(&upload(&b.column(4))).unwrap().to_ndarray().unwrap();
            let kinds: Vec<_> = column.iter().map(|x| x.is_nan()).collect();
            assert_eq!(kinds, [false, true, true, false, false, false], "{column}");
        }
    }
}

/// What is not to be read is not: NaN there does not get into the result.
#[test]
fn nan_where_a_factor_is_zero() {
    let (one, nan) = (
        upload(&Array2::<f64>::ones((9, 9))),
        upload(&Array2::from_elem((9, 9), f64::NAN)),
    );
    let mut c = upload(&Array2::from_elem((9, 9), f64::NAN));
    c.gemm(2.0, &one, &one, 0.0).unwrap();
    assert_eq!(c.to_ndarray().unwrap(), Array2::from_elem((9, 9), 18.0));
    c.gemm(0.0, &nan, &one, 0.5).unwrap();
    assert_eq!(c.to_ndarray().unwrap(), Array2::from_elem((9, 9), 9.0));
    c.gemm(-0.0, &nan, &nan, 0.0).unwrap();
    assert_eq!(c.to_ndarray().unwrap(), Array2::<f64>::zeros((9, 9)));
    one.matmul_into(&one, &mut c).unwrap();
    assert_eq!(c.to_ndarray().unwrap(), Array2::from_elem((9, 9), 9.0));

    let (ones, nans) = (upload(&Array1::<f64>::ones(9)), upload(&Array1::from_elem(9, f64::NAN)));
    let mut y = upload(&Array1::from_elem(9, f64::NAN));
    y.gemv(1.0, &one, &ones, 0.0).unwrap();
    assert_eq!(y.to_ndarray().unwrap(), Array1::from_elem(9, 9.0));
    y.gemv(0.0, &nan, &nans, 2.0).unwrap();
    assert_eq!(y.to_ndarray().unwrap(), Array1::from_elem(9, 18.0));
    // A NaN that is read does.
    c.gemm(0.0, &one, &one, f64::NAN).unwrap();
    assert!(c.to_ndarray().unwrap().iter().all(|x| x.is_nan()));
}

/// The last step along k is not filled up: a sum that underflowed to −0 stays that.
#[test]
fn negative_zero() {
    for k in [1, 7, 8, 9, 33] {
        let (mut a, mut b) = (Array2::<f32>::zeros((2, k)), Array2::<f32>::zeros((k, 2)));
        (a[[0, k - 1]], b[[k - 1, 0]]) = (f32::from_bits(1), -0.25);
        let got = upload(&a).matmul(&upload(&b)).unwrap().to_ndarray().unwrap();
        assert_eq!(got[[0, 0]].to_bits(), (-0.0f32).to_bits(), "k = {k}");
    }
}

/// The order of summation does not depend on the run, nor that of products on the form of the call.
#[test]
fn the_same_bits_on_every_run() {
    let (a, x) = (upload(&matrix::<f32>(40, 9000, 1)), upload(&vector::<f32>(9000, 2)));
    let first = elements(&a.matvec(&x).unwrap());
    assert_same(&elements(&a.matvec(&x).unwrap()), &first, "matvec");
    let by_matrix = a
        .matmul(&x.view().broadcast([1, 9000]).unwrap().reversed_axes())
        .unwrap();
    let again = a
        .matmul(&upload(&x.to_ndarray().unwrap().insert_axis(Axis(1))))
        .unwrap();
    assert_same(&elements(&by_matrix), &elements(&again), "matmul");
}

#[test]
fn shapes_that_do_not_fit_are_an_error_and_nothing_is_written() {
    let zeros = |m, n| upload(&Array2::<f32>::zeros((m, n)));
    let cube = |batch, m, n| upload(&Array3::<f32>::zeros((batch, m, n)));
    let message = |result: warpsmith::Result<()>| result.unwrap_err().to_string();
    assert_eq!(
        message(zeros(2, 3).matmul(&zeros(4, 5)).map(drop)),
        "matmul: given shapes [2, 3] and [4, 5], wanted m × k and k × n"
    );
    let nines = Array2::from_elem((3, 3), 9.0f32);
    let mut out = upload(&nines);
    for text in [
        message(upload(&nines).view().matmul_into(&zeros(3, 2), &mut out))
            .strip_prefix("matmul")
            .unwrap(),
        message(out.gemm(1.0, &upload(&nines), &zeros(3, 2), 1.0))
            .strip_prefix("gemm")
            .unwrap(),
    ] {
        assert_eq!(
            text,
            ": given shapes [3, 3] and [3, 2] into [3, 3], wanted m × k and k × n into m × n"
        );
    }
    assert_eq!(out.to_ndarray().unwrap(), nines);
    let batches = "batch × m × k and batch × k × n (a batch of 1 is repeated)";
    assert_eq!(
        message(cube(2, 3, 4).batched_matmul(&cube(3, 4, 5)).map(drop)),
        format!("batched_matmul: given shapes [2, 3, 4] and [3, 4, 5], wanted {batches}")
    );
    let mut out = cube(1, 3, 5);
    assert_eq!(
        message(cube(2, 3, 4).batched_matmul_into(&cube(1, 4, 5), &mut out)),
        format!(
            "batched_matmul: given shapes [2, 3, 4] and [1, 4, 5] into [1, 3, 5], wanted {batches} into batch × m × n"
        )
    );
    assert!(message(out.batched_gemm(1.0, &cube(0, 3, 4), &cube(1, 4, 5), 0.0)).starts_with("batched_gemm: given"));

    let vector = |len| upload(&Array1::<f32>::zeros(len));
    assert_eq!(
        message(zeros(2, 3).matvec(&vector(2)).map(drop)),
        "matvec: given shapes [2, 3] and [2], wanted m × k and k"
    );
    let mut y = upload(&Array1::from_elem(3, 9.0f32));
    for result in [
        zeros(2, 3).matvec_into(&vector(3), &mut y),
        y.gemv(1.0, &zeros(3, 2), &vector(3), 1.0),
    ] {
        assert!(message(result).contains("into [3], wanted m × k and k into m"));
    }
    assert_eq!(y.to_ndarray().unwrap(), Array1::from_elem(3, 9.0));
    assert_eq!(
        message(vector(3).dot(&vector(4)).map(drop)),
        "dot: given shapes [3] and [4], wanted equal shapes"
    );
}

for_types!(every_shape: f32 f64 i32);
for_types!(random_shapes: f32 f64 i32);
for_types!(other_strides: f32 f64 i32);
for_types!(batches: f32 f64 i32);
for_types!(in_place: f32 f64 i32);
