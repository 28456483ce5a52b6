// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of a matrix and a vector, and those of matrices that are such.

use super::*;

/// Rows and columns of a matrix for a vector: warps, vectors, chunks, and both sides of them.
const VECTOR_SHAPES: [(usize, usize); 20] = [
    (0, 0),
    (0, 4),
    (4, 0),
    (1, 1),
    (1, 31),
    (1, 9001),
    (2, 8192),
    (3, 600),
    (5, 33),
    (7, 513),
    (8, 512),
    (9, 1024),
    (31, 5),
    (32, 257),
    (33, 1100),
    (257, 32),
    (301, 3),
    (66, 1000),
    (65, 500),
    (64, 64),
];

fn check_matvec<T: Value>(m: usize, k: usize, seed: u64) {
    let (a, x) = (matrix::<T>(m, k, seed), vector::<T>(k, seed + 1000));
    for transposed in [false, true] {
        let (on_device, vector) = (Uploaded::new(&a, transposed), upload(&x));
        let got = on_device.as_view().matvec(&vector).unwrap();
        let mut out = upload(&Array1::from_elem(m, T::ONE));
        on_device.as_view().matvec_into(&vector.view(), &mut out).unwrap();
        assert_same(&elements(&out), &elements(&got), "matvec_into");
        assert_eq!(got.shape(), [m]);
        for (i, got) in elements(&got).into_iter().enumerate() {
            let what = format!("{m} × {k}, transposed: {transposed}, row {i}");
            T::check_sum(got, a.row(i), x.view(), &what);
        }
    }
}

fn matrices_times_vectors<T: Value>() {
    for (seed, (m, k)) in (1..).zip(VECTOR_SHAPES) {
        check_matvec::<T>(m, k, seed);
    }
    proptest!(cases(8), |(m in 0..70usize, k in 0..700usize, seed in 0..1u64 << 40)| {
        check_matvec::<T>(m, k, seed);
    });
}

fn vectors_of_other_strides<T: Value>() {
    let (row, one) = (matrix::<T>(1, 70, 1), vector::<T>(1, 2));
    let (on_device, factor) = (upload(&row), upload(&one));
    let repeated = factor.view().broadcast([70]).unwrap();
    let got = on_device.view().broadcast([40, 70]).unwrap().matvec(&repeated).unwrap();
    for got in elements(&got) {
        T::check_sum(got, row.row(0), one.broadcast(70).unwrap(), "repeated rows");
    }
    // 35 rows that are 2 elements apart, whose elements are 1 apart only in part.
    let cube = Array3::from_shape_vec((1, 35, 40), matrix::<T>(1, 1400, 3).into_raw_vec_and_offset().0).unwrap();
    let x = vector::<T>(40, 4);
    let got = upload(&cube.index_axis(Axis(0), 0)).matvec(&upload(&x)).unwrap();
    for (i, got) in elements(&got).into_iter().enumerate() {
        T::check_sum(got, cube.slice(s![0, i, ..]), x.view(), "a part of a cube");
    }
}

/// Columns of which a lane could read several rows at once, if they began where vectors do, or if there were as many.
fn columns_between_vectors<T: Value>() {
    let wide = matrix::<T>(300, 72, 5);
    let on_device = upload(&wide);
    let (x, factors) = (vector::<T>(300, 6), upload(&vector::<T>(300, 6)));
    for (first, rows) in [(0, 68), (1, 68), (2, 68), (4, 68), (0, 67), (1, 1)] {
        let part = s![.., first..first + rows];
        let got = on_device.slice(part).unwrap().t().matvec(&factors).unwrap();
        for (i, got) in elements(&got).into_iter().enumerate() {
            let what = format!("{rows} rows from {first} on, row {i}");
            T::check_sum(got, wide.slice(part).column(i), x.view(), &what);
        }
    }
}

fn dot_products<T: Value>() {
    for len in [0, 1, 31, 32, 33, 127, 128, 129, 511, 4097, 20_011] {
        let (x, y) = (vector::<T>(len, 1), vector::<T>(len, 2));
        let (on_device, other) = (upload(&x), upload(&y));
        let got = on_device.dot(&other).unwrap();
        T::check_sum(got, x.view(), y.view(), &format!("{len} elements"));
        assert!(on_device.view().dot(&other.view()).unwrap().same(got));
    }
}

/// The sums of a long row's chunks are added up as a tree: one after another, each 1 would be lost.
#[test]
fn few_chunks_of_a_row_are_a_tree() {
    const CHUNK: usize = 4096;
    let mut x = Array1::<f32>::zeros(4 * CHUNK);
    for (chunk, sum) in [16_777_216.0, 1.0, 1.0, 1.0].into_iter().enumerate() {
        x[chunk * CHUNK] = sum;
    }
    let ones = Array1::<f32>::ones(x.len());
    assert_eq!(upload(&x).dot(&upload(&ones)).unwrap(), 16_777_218.0);
}

for_types!(matrices_times_vectors: f32 f64 i32);
for_types!(vectors_of_other_strides: f32 f64 i32);
for_types!(columns_between_vectors: f32 f64 i32);
for_types!(dot_products: f32 f64 i32);

/// A product with one row or one column is that of a matrix and a vector, to the last bit, whatever is done to it.
fn one_row_or_column<T: Value>([alpha, beta]: [T; 2]) {
    for (of_vector, of_matrix) in ORDERS {
        for (n, k) in [
            (0, 300),
            (1, 1),
            (4, 0),
            (5, 3),
            (33, 40),
            (7, 5000),
            (300, 129),
            (130, 400),
        ] {
            let (b, a) = (matrix::<T>(k, n, 7), matrix::<T>(1, k, 8));
            let (bias, old) = (vector::<T>(n, 9), vector::<T>(n, 10));
            let (b, a) = (Uploaded::new(&b, of_matrix), Uploaded::new(&a, of_vector));
            let (a, b) = (a.as_view(), b.as_view());
            let sums = b.t().matvec(&a.index_axis(Axis(0), 0).unwrap()).unwrap();
            let wanted = elements(&sums);
            let what = format!("1 × {k} × {n}, transposed: {of_vector} and {of_matrix}");
            assert_same(&elements(&a.matmul(&b).unwrap()), &wanted, &what);
            assert_same(&elements(&b.t().matmul(&a.t()).unwrap()), &wanted, &what);

            let mut c = upload(&old.clone().insert_axis(Axis(0)));
            c.gemm(alpha, &a, &b, beta).unwrap();
            let mut y = upload(&old);
            y.gemv(alpha, &b.t(), &a.index_axis(Axis(0), 0).unwrap(), beta).unwrap();
            assert_same(&elements(&c), &elements(&y), &format!("{what}, scaled and added"));

            let of_columns = upload(&bias);
            let got = a.fused_matmul(&b).bias(&of_columns).relu().compute();
            let wanted: Vec<_> = wanted
                .iter()
                .zip(&bias)
                .map(|(&sum, &bias)| T::activate(Activation::RELU, [<T as Num>::add(sum, bias)])[0])
                .collect();
            assert_same(
                &elements(&got.unwrap()),
                &wanted,
                &format!("{what}, with a bias and relu"),
            );

            // The whole sum is scaled, once, into however many chunks it is cut.
            y.gemv(alpha, &b.t(), &a.index_axis(Axis(0), 0).unwrap(), T::ZERO)
                .unwrap();
            let wanted: Vec<_> = elements(&y)
                .iter()
                .zip(&bias)
                .map(|(&scaled, &bias)| <T as Num>::add(scaled, bias))
                .collect();
            let got = a.fused_matmul(&b).alpha(alpha).bias(&of_columns).compute();
            assert_same(
                &elements(&got.unwrap()),
                &wanted,
                &format!("{what}, scaled, with a bias"),
            );
        }
    }
}

#[test]
fn one_row_or_column_of_floats() {
    one_row_or_column::<f32>([0.75, -0.5]);
    one_row_or_column::<f64>([0.75, -0.5]);
}

#[test]
fn one_row_or_column_of_integers() {
    one_row_or_column::<i32>([3, -5]);
}
