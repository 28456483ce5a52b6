// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f32` by Hopper's own kernel, simulated and real, to the last bit: each sum is a chain in the order of k.

use crate::common::simulated;
use crate::matmul_chain::devices;
use crate::matmul_chain::single::*;
use cuda_std::launch::Kernel;
use cuda_std::tma::Swizzle;
use kernels_gpu::compiled::SimtParams;
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::gemm::{KMajor, MnMajor};
use kernels_gpu::matmul::simt::{
    SimtShape, gemm_simt, handed_len, shared_bytes, swizzle, threads, tile_k, tile_m, tile_n, warps,
};
use ndarray::{Array1, Array3, ArrayView3, Axis, Ix3, s};
use warpsmith::{Device, DeviceArray, LaunchConfig, Stream};

/// Checks `alpha · a b + beta · old`.
#[track_caller]
fn check(got: ArrayView3<'_, f32>, a: ArrayView3<'_, f32>, b: ArrayView3<'_, f32>, scaling: Scaling, what: &str) {
    for ((p, i, j), &got) in got.indexed_iter() {
        let row = a.index_axis(Axis(0), p % a.len_of(Axis(0)));
        let column = b.index_axis(Axis(0), p % b.len_of(Axis(0)));
        let (row, column) = (row.row(i), column.column(j));
        let terms = || row.iter().zip(&column);
        let wanted = scaling.of(terms().fold(0.0, |sum, (&a, &b)| a.mul_add(b, sum)));
        assert_eq!(
            got.to_bits(),
            wanted.to_bits(),
            "{what}: ({p}, {i}, {j}): {got}, wanted {wanted}"
        );
    }
}

/// Matrices on the device as the kernel takes them, with rows that are longer than theirs.
fn operand(stream: &Stream, of: ArrayView3<'_, f32>) -> DeviceArray<f32, Ix3> {
    let (batch, rows, length) = of.dim();
    let mut longer = Array3::from_elem((batch, rows, length.next_multiple_of(4) + 4), f32::NAN);
    longer.slice_mut(s![.., .., ..length]).assign(&of);
    DeviceArray::from_ndarray(stream, &longer).unwrap()
}

/// A product on one of the devices.
struct Product<'a> {
    a: ArrayView3<'a, f32>,
    b: ArrayView3<'a, f32>,
    blocks: u32,
    /// Whether the tiles of the last rounds are cut along k, where there are as many as blocks.
    shares: bool,
    /// Elements of k of each part of a product, all of which are results.
    part: usize,
    scaling: Scaling,
}

impl Product<'_> {
    /// Tiles of all sizes.
    #[track_caller]
    fn check_all(&self, stream: &Stream) {
        self.check::<gemm_simt<KMajor, 4>>(stream, 4, true);
        self.check::<gemm_simt<MnMajor, 4>>(stream, 4, false);
        self.check::<gemm_simt<KMajor, 8>>(stream, 8, true);
        self.check::<gemm_simt<MnMajor, 8>>(stream, 8, false);
        self.check::<gemm_simt<MnMajor, 16>>(stream, 16, false);
    }

    /// Launches `K`, of which a thread has so many columns, and checks what it gives.
    #[track_caller]
    fn check<K: Kernel<Params = SimtParams>>(&self, stream: &Stream, columns: usize, along_k: bool) {
        let Self {
            a,
            b,
            blocks,
            shares,
            part,
            scaling,
        } = *self;
        let ((a_batch, m, k), (b_batch, _, n)) = (a.dim(), b.dim());
        let part = part.min(k);
        let a_lies = if along_k { a } else { a.permuted_axes([0, 2, 1]) };
        let (x, y) = (operand(stream, a_lies), operand(stream, b));
        let (x, y) = (
            x.slice(s![.., .., ..a_lies.dim().2]).unwrap(),
            y.slice(s![.., .., ..n]).unwrap(),
        );
        let (tile, of_a) = match along_k {
            true => ([1, tile_m(columns), tile_k(columns)], swizzle(columns)),
            false => ([1, tile_k(columns), tile_m(columns)], Swizzle::None),
        };
        let x = x.tensor_map(&tile, of_a).unwrap();
        let y = y
            .tensor_map(&[1, tile_k(columns), tile_n(columns)], Swizzle::None)
            .unwrap();
        let batch = a_batch.max(b_batch).max(k.div_ceil(part));
        let tiles = (batch * m.div_ceil(tile_m(columns)) * n.div_ceil(tile_n(columns))) as u32;
        let cut = match tiles % blocks {
            last if shares && last > 0 && tiles > blocks => blocks + last,
            _ => 0,
        };
        let shape = SimtShape {
            batch: batch as u32,
            m: m as u32,
            n: n as u32,
            k: k as u32,
            part: part as u32,
            a_step: (a_batch > 1).into(),
            b_step: (b_batch > 1).into(),
            whole: tiles - cut,
            share: (cut * part.div_ceil(tile_k(columns)) as u32).div_ceil(blocks),
        };
        let mut c = DeviceArray::from_elem(stream, (batch, m, n), scaling.old).unwrap();
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(columns),
            ..LaunchConfig::new(blocks, threads(columns) as u32)
        };
        let added: Vec<f32> = scaling.added.into_iter().collect();
        let (none, added) = (
            DeviceArray::zeros(stream, 0).unwrap(),
            DeviceArray::from_ndarray(stream, &Array1::from(added)).unwrap(),
        );
        let handing = if cut > 0 { blocks as usize } else { 0 };
        let mut partials = DeviceArray::from_elem(stream, handing * handed_len(columns), f32::NAN).unwrap();
        let mut flags = DeviceArray::<u32, _>::zeros(stream, handing * warps(columns)).unwrap();
        let Scaling { alpha, beta, .. } = scaling;
        let args = (
            &x,
            &y,
            &mut c,
            shape,
            alpha,
            beta,
            EpiloguePlan::default(),
            &none,
            &added,
            &mut partials,
            &mut flags,
        );
        // SAFETY: threads, shared memory and the maps' tiles are what the kernel is written for, and the one element that is
        // added is that of all places.
        unsafe { stream.launch_unchecked::<K>(&config, args) }.unwrap();
        let what = format!("{m} × {n} × {k} by {columns} columns, along k {along_k}");
        let got = c.to_ndarray().unwrap();
        for (i, from) in (0..k).step_by(part).enumerate() {
            let terms = from..(from + part).min(k);
            let got = if part < k {
                got.slice(s![i..=i, .., ..])
            } else {
                got.view()
            };
            let (a, b) = (a.slice(s![.., .., terms.clone()]), b.slice(s![.., terms, ..]));
            check(got, a, b, scaling, &what);
        }
        let flags = flags.to_ndarray().unwrap();
        assert!(flags.iter().all(|&flag| flag == 0), "{what}: {flags}");
    }
}

/// Tiles of all sizes.
fn check_kernels(batches: [usize; 2], extents: [usize; 3], blocks: u32, scaling: Scaling) {
    check_shares(false, batches, extents, usize::MAX, blocks, scaling);
}

/// Tiles of all sizes, of which those that may be are cut along k, if that is said, and of parts of so many elements of k.
fn check_shares(
    shares: bool,
    [a_batch, b_batch]: [usize; 2],
    [m, n, k]: [usize; 3],
    part: usize,
    blocks: u32,
    scaling: Scaling,
) {
    let (a, b) = (stack((a_batch, m, k), 1), stack((b_batch, k, n), 2));
    for device in devices() {
        let stream = device.default_stream();
        let product = Product {
            a: a.view(),
            b: b.view(),
            blocks,
            shares,
            part,
            scaling,
        };
        product.check_all(stream);
    }
}

/// Of each size there are more tiles than blocks, and no multiple: what one block begins another one ends.
#[test]
fn tiles_that_are_cut_along_k() {
    let [plain, all] = SCALINGS;
    check_shares(true, [1, 1], [150, 520, 100], 100, 4, all);
    check_shares(true, [2, 2], [130, 300, 7], 7, 3, plain);
}

/// Of which the last one is shorter, in whole tiles and in such as are cut.
#[test]
fn parts_of_k() {
    for shares in [false, true] {
        check_shares(shares, [1, 1], [70, 150, 102], 32, 4, PLAIN);
        check_shares(shares, [1, 1], [40, 20, 65], 64, 1, PLAIN);
    }
}

#[test]
fn full_tiles() {
    check_kernels([1, 1], [128, 256, 16], 1, PLAIN);
}

/// Several tiles of a block, and stages more than once.
#[test]
fn tiles_that_are_not_full() {
    check_kernels([1, 1], [65, 129, 18], 1, PLAIN);
    check_kernels([1, 1], [3, 5, 7], 1, PLAIN);
    check_kernels([1, 1], [33, 16, 150], 1, PLAIN);
}

#[test]
fn batches_and_one_matrix_for_all() {
    check_kernels([3, 3], [20, 24, 5], 2, PLAIN);
    check_kernels([1, 2], [17, 8, 24], 1, PLAIN);
    check_kernels([2, 1], [9, 15, 16], 3, PLAIN);
}

#[test]
fn alpha_and_beta_and_an_epilogue() {
    for scaling in SCALINGS {
        check_kernels([1, 1], [19, 24, 10], 1, scaling);
        check_kernels([1, 1], [6, 21, 3], 1, scaling);
    }
}

/// Through the operations: by views of any strides, which the tensor memory accelerator has as they lie, or in a copy.
#[test]
fn views_of_any_strides() {
    let (a, b) = (stack((2, 130, 131), 3), stack((2, 131, 150), 4));
    for device in devices() {
        let stream = device.default_stream();
        let (x, y) = (
            DeviceArray::from_ndarray(stream, &a).unwrap(),
            DeviceArray::from_ndarray(stream, &b).unwrap(),
        );
        let left = [s![.., .., ..], s![.., .., 1..121], s![..1, ..;-1, ..;2]];
        let right = [s![.., .., ..], s![.., 1..121, 1..140], s![.., ..;2, ..]];
        for (i, (left, right)) in left.into_iter().zip(right).enumerate() {
            let product = x.slice(left).unwrap().batched_matmul(&y.slice(right).unwrap()).unwrap();
            let (a, b) = (a.slice(left), b.slice(right));
            check(product.to_ndarray().unwrap().view(), a, b, PLAIN, &format!("views {i}"));
        }
    }
}

/// Through the operations: operands that lie the other way are turned, by the launch that aligns what does not begin at multiples of 16
/// bytes.
#[test]
fn operands_that_lie_the_other_way() {
    let turned = |of: &Array3<f32>| of.clone().permuted_axes([0, 2, 1]);
    for [m, n, k] in [[130, 150, 67], [35, 128, 96], [129, 68, 33]] {
        let (a, b) = (stack((2, m, k), 5), stack((2, k, n), 6));
        for device in devices() {
            let stream = device.default_stream();
            let upload = |of: &Array3<f32>| DeviceArray::from_ndarray(stream, of).unwrap();
            let (x, y) = (upload(&a), upload(&b));
            let (x_turned, y_turned) = (upload(&turned(&a)), upload(&turned(&b)));
            let x_turned = x_turned.swap_axes(Axis(1), Axis(2)).unwrap();
            let y_turned = y_turned.swap_axes(Axis(1), Axis(2)).unwrap();
            for product in [
                x.batched_matmul(&y_turned),
                x_turned.batched_matmul(&y),
                x_turned.batched_matmul(&y_turned),
            ] {
                let product = product.unwrap().to_ndarray().unwrap();
                check(
                    product.view(),
                    a.view(),
                    b.view(),
                    PLAIN,
                    &format!("{m} × {n} × {k}, turned"),
                );
            }
        }
    }
}

/// The last step along k is not filled up: a sum that underflowed to −0 stays that.
#[test]
fn negative_zero() {
    for k in [1, 9, 33] {
        let (mut a, mut b) = (Array3::zeros((1, 3, k)), Array3::zeros((1, k, 5)));
        a.slice_mut(s![.., .., k - 1]).fill(f32::from_bits(1));
        b.slice_mut(s![.., k - 1, ..]).fill(-0.25);
        for device in devices() {
            let product = Product {
                a: a.view(),
                b: b.view(),
                blocks: 1,
                shares: false,
                part: k,
                scaling: PLAIN,
            };
            product.check_all(device.default_stream());
        }
    }
}

/// Through the operations: of few tiles k is cut into parts, whose chains are added in their order, or in groups of as many.
#[test]
fn a_long_k_in_parts() {
    check_parts(12, 768, &devices());
    // With a last part that is shorter, and rows of results, or operands, that do not begin at multiples of 16 bytes.
    check_parts(12, 772, &devices());
    check_parts(10, 768, &devices());
    check_parts(9, 775, &devices());
    // As on a GPU that is no Hopper.
    let others: Vec<_> = [1, 3, 132]
        .map(|multiprocessors| simulated(None, multiprocessors))
        .into();
    check_parts(12, 775, &others);
    check_parts(9, 2000, &others);
}

fn check_parts(n: usize, k: usize, devices: &[Device]) {
    let (a, b) = (stack((1, 7, k), 5), stack((1, k, n), 6));
    let (a, b) = (a.index_axis(Axis(0), 0), b.index_axis(Axis(0), 0));
    let sum = |i: usize, j: usize, of_part: usize| {
        let (row, column) = (a.row(i), b.column(j));
        let chain = |from: usize| {
            let terms = from..(from + of_part).min(k);
            terms.fold(0.0f32, |sum, k| row[k].mul_add(column[k], sum))
        };
        let chains: Vec<f32> = (0..k).step_by(of_part).map(chain).collect();
        let groups = match chains.len() {
            ..=8 => 1,
            parts => parts.div_ceil(4).next_power_of_two().min(16),
        };
        let add = |chains: &[f32]| chains.iter().copied().reduce(|sum, next| sum + next).unwrap();
        let sums: Vec<f32> = chains.chunks(chains.len().div_ceil(groups)).map(add).collect();
        add(&sums)
    };
    for device in devices {
        let stream = device.default_stream();
        let upload = |of| DeviceArray::from_ndarray(stream, &of).unwrap();
        let (x, y) = (upload(a.to_owned()), upload(b.to_owned()));
        let product = x.matmul(&y).unwrap().to_ndarray().unwrap();
        let is_in = |of_part: &usize| {
            product
                .indexed_iter()
                .all(|((i, j), got)| got.to_bits() == sum(i, j, *of_part).to_bits())
        };
        // Parts begin at multiples of 32 bytes.
        let of_part = (8..k).step_by(8).chain([k]).find(is_in);
        let multiprocessors = device.properties().multiprocessors;
        assert!(
            of_part.is_some_and(|of_part| of_part < k || multiprocessors == 1),
            "parts of {of_part:?} for {multiprocessors} multiprocessors"
        );

        let mut old = DeviceArray::from_elem(stream, (7, n), 2.0).unwrap();
        old.gemm(-1.5, &x, &y, 0.5).unwrap();
        for ((i, j), &got) in old.to_ndarray().unwrap().indexed_iter() {
            let wanted = 1.0 - 1.5 * f64::from(product[[i, j]]);
            assert!((f64::from(got) - wanted).abs() < 1e-5, "{got}, wanted {wanted}");
        }
    }
}
