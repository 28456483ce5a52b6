// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's kernels, launched with arguments that no operation passes: a safe kernel does no harm, whatever it is
//! given.
//!
//! On the simulated GPU every access is checked, those too that a GPU does not check, and sums and products of sizes
//! that wrap around are panics, as they may be the way to such an access. So what is asserted is that a launch comes
//! back without a fault: nothing was accessed but the arrays, no number of a place wrapped around, and no warp or
//! barrier waited for a thread that there is not. What is written is not looked at.
//!
//! Left out are arguments with which a kernel has more to do than a test has time for (a row of 2^48 elements, all of
//! which are the same one), and states and counters of other contents than a kernel has left, with which it may wait for
//! ever, as its documentation says. The tests use the simulated GPU whatever the environment names.

use std::sync::LazyLock;

use crate::common::cases;
use cuda_std::launch::SafeKernel;
use kernels_gpu::attention::AttentionShape;
use kernels_gpu::attention::tiled::{AttentionStrides, attention};
use kernels_gpu::blur::box_3x3::box_blur_3x3;
use kernels_gpu::blur::box_blur::{box_columns, box_rows};
use kernels_gpu::blur::gaussian::{gaussian_columns, gaussian_rows};
use kernels_gpu::blur::sums::{Bytes, Floats, WideWords};
use kernels_gpu::grayscale::grayscale;
use kernels_gpu::histogram::{Channels, Plan, Search, Uniform, bincount, extent, histogram};
use kernels_gpu::matmul::epilogue::{Activation, EpiloguePlan};
use kernels_gpu::matmul::gemm::{GemmShape, KMajor, Large, MnMajor, Small, gemm};
use kernels_gpu::matmul::gemv::{self, gemv_columns, gemv_combine, gemv_rows};
use kernels_gpu::op::{Add, Max, Sum};
use kernels_gpu::reduce::{ColumnPlan, RowPlan, reduce, reduce_columns};
use kernels_gpu::scan::{Lines, scan, scan_columns, scan_few, scan_rows, scan_tree};
use kernels_gpu::transpose::{self, Strided, Tiles, Way, copy_lines, copy_strided, join_lines, transpose_tiles};
use ndarray::{Array1, Ix1};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::select as one_of;
use warpsmith::{Args, Checks, Device, DeviceArray, Dim3, Element, Error, LaunchConfig};

/// Without checks, whatever the environment says: launches of senseless shapes have several threads write the same.
static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::checked_simulator(Checks::NONE));

/// Sizes with which products, sums and roundings wrap around, and such as the arrays of these tests have.
const SIZES: [usize; 22] = [
    0,
    1,
    2,
    3,
    5,
    7,
    16,
    31,
    64,
    99,
    100,
    101,
    1 << 32,
    (1 << 32) + 1,
    1 << 48,
    usize::MAX / 5,
    usize::MAX / 4 + 1,
    usize::MAX / 3 + 1,
    1 << 63,
    (1 << 63) + 1,
    usize::MAX - 31,
    usize::MAX,
];

/// An array of `len` ones.
fn ones<T: Element + From<u8>>(len: usize) -> DeviceArray<T, Ix1> {
    filled(len, T::from(1))
}

fn filled<T: Element>(len: usize, value: T) -> DeviceArray<T, Ix1> {
    DeviceArray::from_ndarray(DEVICE.default_stream(), &Array1::from_elem(len, value)).expect("the array fits")
}

fn zeros<T: Element>(len: usize) -> DeviceArray<T, Ix1> {
    DeviceArray::zeros(DEVICE.default_stream(), len).expect("the array fits")
}

/// Launches, and wants no more than that the device comes back without a fault, or refuses the configuration.
#[track_caller]
fn launch<K: SafeKernel>(config: &LaunchConfig, arguments: impl Args<K::Params>) {
    match DEVICE.default_stream().launch::<K>(config, arguments) {
        Ok(()) | Err(Error::LaunchConfig { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Pictures of three channels, of a width with which a row has two elements, or one: `width · 3` wraps around.
#[test]
fn widths_that_wrap_around() {
    let config = LaunchConfig::new(1, 256);
    for width in [(1u128 << 64).div_ceil(3) as usize, (1u128 << 65).div_ceil(3) as usize] {
        let (x, mut sums) = (ones::<u8>(2), zeros(2));
        launch::<box_rows<Bytes, 3>>(&config, (&x, width, 1usize, 1u32, 0u8, &mut sums));
        launch::<box_columns<Bytes>>(&config, (&sums, width, 3usize, 1usize, 1u32, 0u8, &mut zeros(2)));
        let config = LaunchConfig::new(1, 128);
        launch::<box_blur_3x3<3, 1>>(&config, (&x, width, 1usize, &mut zeros(2)));
    }
}

/// Rows whose places wrap around to the array's beginning.
#[test]
fn rows_that_wrap_around() {
    let x = ones::<f32>(100);
    for (rows, n) in [
        (3, 1 << 63),
        (1 << 62, 4),
        (usize::MAX, usize::MAX),
        (5, usize::MAX / 4 + 1),
    ] {
        let config = LaunchConfig::new(1, 256);
        for of_warp in [0u32, 1, 5, u32::MAX] {
            let lines = Lines::of_array(rows, n, 1);
            launch::<scan_rows<f32, Sum>>(&config, (&x, lines, of_warp, 0u32, &mut zeros(100)));
        }
        for width in [8u32, 256] {
            let arguments = (
                &x,
                Lines::of_array(rows, n, 1),
                width,
                0u32,
                &mut zeros(1000),
                &mut zeros(100),
            );
            launch::<scan_columns<f32, Sum>>(&config, arguments);
        }
    }
}

/// Blocks of a second dimension, which nobody counts: one of them once took the counters from under the others.
#[test]
fn histograms_of_grids_in_two_dimensions() {
    let config = LaunchConfig {
        grid: dim((2, 3, 2)),
        dynamic_shared: 40_000,
        ..LaunchConfig::new(1, 512)
    };
    let plan = Plan {
        bins: 10,
        channels: 1,
        counters: 256,
        copies: 1,
        ..bytemuck::Zeroable::zeroed()
    };
    let (mut counters, mut out) = (zeros(2), zeros(10));
    for _ in 0..2 {
        launch::<bincount<u8, 0>>(&config, (&ones(20_000), plan, &mut counters, &mut out));
    }
    assert_eq!(counters.to_ndarray().unwrap().to_vec(), [0, 0]);
}

/// Grids and blocks, whose threads are not those that kernels are written for: too few, too many, in more dimensions,
/// and with warps that are not full.
fn configs() -> impl Strategy<Value = LaunchConfig> {
    let grid = one_of(vec![(1, 1, 1), (2, 1, 1), (5, 1, 1), (2, 3, 1), (1, 2, 2)]);
    let block = prop_oneof![
        one_of(vec![1u32, 16, 32, 33, 48, 96, 128, 256, 288, 512, 1024]).prop_map(|x| (x, 1, 1)),
        one_of(vec![(16, 16, 1), (32, 4, 1), (8, 4, 4), (96, 2, 1), (1, 128, 1)]),
    ];
    let dynamic_shared = one_of(vec![0, 4, 100, 4096, 20_000, 40_000]);
    (grid, block, dynamic_shared).prop_map(|(grid, block, dynamic_shared)| LaunchConfig {
        grid: dim(grid),
        block: dim(block),
        dynamic_shared,
    })
}

fn dim((x, y, z): (u32, u32, u32)) -> Dim3 {
    Dim3 { x, y, z }
}

fn size() -> impl Strategy<Value = usize> {
    one_of(&SIZES[..])
}

/// Lines of any number and length, that lie anywhere.
fn lines() -> impl Strategy<Value = Lines> {
    let sizes = (size(), size(), size(), size(), size(), size());
    let lines = sizes.prop_map(|(count, n, inner, first, outer, along)| Lines {
        count,
        n,
        inner,
        first,
        outer,
        along,
    });
    let of_arrays = (size(), size(), size()).prop_map(|(count, n, inner)| Lines::of_array(count, n, inner));
    prop_oneof![lines, of_arrays]
}

/// One of [`SIZES`] with which a loop over so many elements ends.
fn short() -> impl Strategy<Value = usize> {
    one_of(&SIZES[..12])
}

/// The length of an array.
fn len() -> impl Strategy<Value = usize> {
    // Of the longest no grid of `configs`, of 6 blocks of 1024 threads at most, has a thread for each element.
    one_of(vec![0, 1, 99, 100, 101, 4096, 6200])
}

/// A structure of any bits, many of which are those of sizes.
fn bits<T: bytemuck::Pod + std::fmt::Debug>() -> impl Strategy<Value = T> {
    let word = prop_oneof![
        4 => size().prop_map(|size| size as u64),
        1 => any::<u64>(),
        1 => any::<f64>().prop_map(f64::to_bits),
        1 => (0u32..200, 0u32..200).prop_map(|(low, high)| u64::from(high) << 32 | u64::from(low)),
    ];
    vec(word, size_of::<T>().div_ceil(8))
        .prop_map(|words| bytemuck::pod_read_unaligned(&bytemuck::cast_slice(&words)[..size_of::<T>()]))
}

/// The functions of epilogues.
const ACTIVATIONS: &[Activation] = &[
    Activation::IDENTITY,
    Activation::RELU,
    Activation::GELU,
    Activation::GELU_TANH,
    Activation::SILU,
];

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn reductions(
        config in configs(), (n, rows, length) in (len(), short(), 0usize..30_000),
        (partials, counters, out) in (short(), short(), short()), dirty in any::<bool>(),
    ) {
        let x = ones::<f32>(n);
        let plan = RowPlan::new::<f32, f32>(rows, length, length as u64);
        let mut counters = filled(counters, u32::from(dirty) * u32::MAX);
        launch::<reduce<f32, Sum>>(&config, (&x, plan, &mut zeros(partials), &mut counters, &mut zeros(out)));
        // A plan for other elements.
        let bytes = ones::<u8>(n);
        launch::<reduce<u8, Max>>(&config, (&bytes, plan, &mut zeros(partials), &mut counters, &mut zeros(out)));
    }

    #[test]
    fn reductions_of_columns(
        config in configs(), (n, columns, length, inner) in (len(), short(), 0usize..3000, short()),
        (partials, counters, out) in (short(), short(), short()), dirty in any::<bool>(),
    ) {
        let x = ones::<f32>(n);
        let plan = ColumnPlan::new::<u8, u64>(columns, length, inner, length as u64);
        let mut counters = filled(counters, u32::from(dirty));
        launch::<reduce_columns<f32, Sum>>(&config, (&x, plan, &mut zeros(partials), &mut counters, &mut zeros(out)));
    }

    #[test]
    fn box_blurs(
        config in configs(), (n, out) in (len(), len()), (width, channels, radius) in (size(), size(), size()),
        border in 0u32..7,
    ) {
        let (x, mut sums) = (ones::<u8>(n), zeros(out));
        launch::<box_rows<Bytes, 3>>(&config, (&x, width, radius, border, 1u8, &mut sums));
        launch::<box_rows<Bytes, 1>>(&config, (&x, width, radius, border, 1u8, &mut sums));
        launch::<box_columns<Bytes>>(&config, (&sums, width, channels, radius, border, 1u8, &mut zeros(n)));
        let (x, mut sums) = (ones::<f32>(n), zeros(out));
        launch::<box_rows<Floats, 4>>(&config, (&x, width, radius, border, 1f32, &mut sums));
        let sums = filled(n, u64::MAX);
        launch::<box_columns<WideWords>>(&config, (&sums, width, channels, radius, border, 1u16, &mut zeros(out)));
    }

    #[test]
    fn box_blurs_of_3_by_3(config in configs(), (n, out) in (len(), len()), (width, rows) in (size(), size())) {
        let (x, mut out) = (ones::<u8>(n), zeros(out));
        launch::<box_blur_3x3<1, 1>>(&config, (&x, width, rows, &mut out));
        launch::<box_blur_3x3<3, 1>>(&config, (&x, width, rows, &mut out));
        launch::<box_blur_3x3<4, 16>>(&config, (&x, width, rows, &mut out));
        launch::<box_blur_3x3<1, 16>>(&config, (&x, width, rows, &mut out));
    }

    #[test]
    fn gaussian_blurs(
        config in configs(), (n, out) in (len(), len()), (width, height, strip) in (size(), size(), size()),
        (taps, border) in (short(), 0u32..7),
    ) {
        let (x, weights) = (ones::<u8>(n), ones::<f32>(taps));
        launch::<gaussian_rows<u8, 3>>(&config, (&x, width, height, &weights, border, 1u8, &mut zeros(out)));
        launch::<gaussian_rows<u8, 4>>(&config, (&x, width, height, &weights, border, 1u8, &mut zeros(out)));
        let (rows, out) = (ones::<f32>(n), &mut zeros::<u8>(out));
        launch::<gaussian_columns<u8>>(&config, (&rows, width, height, border, strip, &weights, border, 1u8, out));
    }

    #[test]
    fn transpositions(
        config in configs(), (tiles, strided) in (bits::<Tiles>(), bits::<Strided>()), (n, out) in (len(), len()),
        way in one_of(vec![Way::SQUARES, Way::STRETCHES_OF_INPUT, Way::STRETCHES_OF_OUTPUT]), sides in [short(), short()],
        lines in [bits::<transpose::Lines>(), bits::<transpose::Lines>()], joined in bits::<transpose::Joined>(),
        (word, row) in (one_of(vec![1, 2, 4, 16]), 2usize..40),
    ) {
        let (x, sides) = (ones::<u8>(n), sides.map(|side| side as u32));
        for tiles in [tiles, Tiles { way, ..tiles }, Tiles { way, sides, ..tiles }] {
            launch::<transpose_tiles<u8>>(&config, (&x, tiles, &mut zeros(out)));
        }
        launch::<copy_strided<u8>>(&config, (&x, strided, &mut zeros(out)));
        launch::<copy_lines>(&config, (&x, &x, lines[0], lines[1], &mut zeros(out)));
        // Any, with a true length of rows, and such as may be possible.
        let row = word as usize * row;
        let joined = transpose::Joined { word, x_len: word, row: transpose::Extent::new(row), ..joined };
        let part = transpose::Side { first: 0, stride: u64::from(word) };
        let possible = transpose::Joined { x: part, y: part, out_first: 0, rows: sides[0], ..joined };
        for joined in [joined, possible] {
            launch::<join_lines>(&config, (&x, &x, joined, &mut zeros(out)));
        }
        let x = ones::<u64>(n);
        launch::<transpose_tiles<u64>>(&config, (&x, Tiles { way, sides, ..tiles }, &mut zeros(out)));
        launch::<copy_strided<u64>>(&config, (&x, strided, &mut zeros(out)));
    }

    #[test]
    fn attentions(
        config in configs(), counts in vec(one_of(vec![0u32, 1, 2, 3, 1 << 16, u32::MAX]), 4),
        (queries, keys) in (one_of(vec![0u32, 1, 3, 70, 1 << 30, u32::MAX]), one_of(vec![0u32, 1, 3, 70, u32::MAX])),
        (dim, limits) in (one_of(vec![0u32, 1, 3, 8, 64, 65]), vec(one_of(vec![-5, 0, 3, 70, i32::MIN, i32::MAX]), 2)),
        strides in vec(size(), 16), (q, k, v, out, sums) in (len(), len(), len(), len(), short()),
        (bias, packed) in (one_of(vec![0usize, 1, 5000]), one_of(vec![0u32, 0, 1, 2, u32::MAX])),
        sequences in vec(one_of(vec![0u32, 1, 3, 70, u32::MAX]), 0..8),
    ) {
        let shape = AttentionShape {
            batch: counts[0],
            heads: counts[1],
            sharing: counts[2],
            queries,
            keys,
            dim,
            from: limits[0],
            reach: limits[1],
            group: counts[3],
            packed,
        };
        let of = |first: usize| std::array::from_fn(|axis| strides[first + axis]);
        let strides = AttentionStrides { q: of(0), k: of(4), v: of(8), bias: of(12) };
        let (bias, sequences) = (ones::<f32>(bias), DeviceArray::from_ndarray(DEVICE.default_stream(), &Array1::from(sequences)).unwrap());
        let (q, k, v) = (ones::<f32>(q), ones::<f32>(k), ones::<f32>(v));
        let arguments = (&q, &k, &v, &bias, &sequences, &mut zeros(out), &mut zeros(sums), shape, strides, 1.0f32);
        launch::<attention<f32, 8>>(&config, arguments);
    }

    #[test]
    fn matrix_times_vector(
        config in configs(), (m, k, chunks, chunk) in (size(), size(), size(), size()), strides in vec(size(), 5),
        (a, x, y) in (len(), len(), len()), (beta, vector) in (0u8..2, 0usize..4),
    ) {
        let shape = gemv::GemvShape { m, k, a: [strides[0], strides[1]], x: strides[2], chunks, chunk, vector };
        // Of one element that stands for all, rows can be long.
        if k < 1 << 20 || strides[1] != 0 || strides[2] != 0 {
            let (a, x, beta) = (ones::<f32>(a), ones::<f32>(x), f32::from(beta));
            launch::<gemv_rows<f32, f32>>(&config, (&a, &x, &mut zeros(y), shape, 1f32, beta));
            launch::<gemv_columns<f32, f32>>(&config, (&a, &x, &mut zeros(y), shape, 1f32, beta));
        }
        launch::<gemv_combine<f32>>(&config, (&ones(x), &mut zeros(y), chunks, [strides[3], strides[4]], 1f32, f32::from(beta)));
    }

    #[test]
    fn matrix_times_matrix(
        config in configs(), (batch, first) in (size(), size()), (m, n, k) in (size(), size(), size()),
        (a_strides, b_strides) in (vec(size(), 3), vec(size(), 3)), (a, b, c) in (len(), len(), len()),
        beta in 0u8..2, (whole, pitch) in (size(), size()), (bias, residual) in (vec(size(), 3), vec(size(), 3)), function in one_of(ACTIVATIONS),
    ) {
        let array = |strides: Vec<usize>| [strides[0], strides[1], strides[2]];
        let plan = EpiloguePlan { function, bias: array(bias), residual: array(residual) };
        let shape = GemmShape { batch, first, m, n, k, a: array(a_strides), b: array(b_strides), whole, pitch };
        if k < 1 << 20 || shape.a[2] != 0 || shape.b[2] != 0 {
            let (a, b, beta) = (ones::<f32>(a), ones::<f32>(b), f32::from(beta));
            launch::<gemm<f32, Small, KMajor, MnMajor>>(&config, (&a, &b, &mut zeros(c), shape, 1f32, beta, plan, &a, &b));
            launch::<gemm<f32, Large, MnMajor, KMajor>>(&config, (&a, &b, &mut zeros(c), shape, 1f32, beta, plan, &a, &b));
        }
    }

    #[test]
    fn histograms(
        config in configs(), plan in bits::<Plan>(), small in (0u32..300, 0u32..70, 0u32..300, 0u32..64),
        (n, edges, counters, out) in (len(), short(), 0usize..4, short()),
    ) {
        let (bins, channels, private, copies) = small;
        for plan in [plan, Plan { bins, channels, counters: private, copies, ..plan }] {
            let counters = || zeros::<u32>(counters);
            let (x, edges) = (ones::<u8>(n), ones::<u8>(edges));
            launch::<histogram<u8, Uniform, 0>>(&config, (&x, plan, &edges, &mut counters(), &mut zeros(out)));
            launch::<histogram<u8, Channels, 1>>(&config, (&x, plan, &edges, &mut counters(), &mut zeros(out)));
            launch::<histogram<u8, Channels, 2>>(&config, (&x, plan, &edges, &mut counters(), &mut zeros(out)));
            launch::<bincount<u16, 2>>(&config, (&ones::<u16>(n), plan, &mut counters(), &mut zeros(out)));
            let (x, edges) = (ones::<f32>(n), ones::<f32>(edges.len()));
            launch::<histogram<f32, Channels, 0>>(&config, (&x, plan, &edges, &mut counters(), &mut zeros(out)));
            launch::<histogram<f32, Search, 1>>(&config, (&x, plan, &edges, &mut counters(), &mut zeros(out)));
            launch::<histogram<f32, Channels, 2>>(&config, (&x, plan, &edges, &mut counters(), &mut zeros(out)));
            launch::<extent<f32>>(&config, (&x, &mut zeros(out)));
        }
    }

    #[test]
    fn scans(
        // Of more elements, each a row of its own, the simulated GPU would be busy for seconds.
        config in configs(), (n, out, state) in (one_of(vec![0, 1, 99, 100, 101, 700]), len(), short()), (lines, length) in (lines(), size()),
        phase in 0u32..4, epoch in one_of(vec![0u64, 1, 1 << 30, u32::MAX.into()]), rows in one_of(vec![0u32, 1, 3, 70, u32::MAX]),
    ) {
        let x = ones::<f32>(n);
        launch::<scan_rows<f32, Sum>>(&config, (&x, lines, rows, phase, &mut zeros(out)));
        launch::<scan_tree<f32, Sum>>(&config, (&x, phase, &mut zeros(state), &mut zeros(out)));
        // The counter of a launch of any number.
        let mut words = Array1::<u64>::zeros(state);
        words.iter_mut().take(1).for_each(|counter| *counter = epoch << 32);
        let mut state = DeviceArray::from_ndarray(DEVICE.default_stream(), &words).unwrap();
        launch::<scan<f32, Sum>>(&config, (&x, length, phase, &mut state, &mut zeros(out)));
        let mut state = DeviceArray::from_ndarray(DEVICE.default_stream(), &words).unwrap();
        launch::<scan<u8, Max>>(&config, (&ones(n), length, phase, &mut state, &mut zeros(out)));
    }

    #[test]
    fn scans_of_columns(
        config in configs(), (n, out, state) in (len(), len(), short()),
        lines in lines(),
        width in one_of(vec![0u32, 1, 3, 16, 32, 48, 128, 256, 512, 1 << 31, u32::MAX]),
    ) {
        let x = ones::<f32>(n);
        let arguments = (&x, lines, width, 0u32, &mut zeros(state), &mut zeros(out));
        launch::<scan_columns<f32, Sum>>(&config, arguments);
        let x = ones::<u8>(n);
        let arguments = (&x, lines, width, 1u32, &mut zeros(state), &mut zeros(out));
        launch::<scan_columns<u8, Max>>(&config, arguments);
        let arguments = (&x, lines, width, 1u32, &mut zeros(state), &mut zeros(out));
        launch::<scan_few<u8, Sum>>(&config, arguments);
        let lines = Lines::of_array(6, lines.n, 3);
        let arguments = (&x, lines, 3u32, 0u32, &mut zeros(state), &mut zeros(out));
        launch::<scan_few<u8, Sum>>(&config, arguments);
    }

    #[test]
    fn elementwise(config in configs(), (n, out) in (len(), len()), weights in (size(), size(), size())) {
        let (x, y) = (ones::<u8>(n), ones::<u8>(out));
        let (red, green, blue) = (weights.0 as u32, weights.1 as u32, weights.2 as u32);
        launch::<grayscale<u8, 3>>(&config, (&x, red, green, blue, &mut zeros(out)));
        launch::<kernels_gpu::grayscale::grayscale_fused<u8, 4>>(&config, (&x, 1e30f32, -1e30f32, f32::NAN, &mut zeros(out)));
        launch::<kernels_gpu::binary::binary<u8, Add>>(&config, (&x, &y, &mut zeros(n)));
        launch::<kernels_gpu::select::select<u8>>(&config, (&x, &y, &x, &mut zeros(out)));
        launch::<kernels_gpu::map::map<u8, kernels_gpu::op::Square>>(&config, (&x, &mut zeros(out)));
    }
}
