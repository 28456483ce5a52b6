// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices on tensor cores, and on Hopper's ordinary ones.

use ndarray::{Array1, Ix2, s};
use warpsmith::ops::{MatMul, Precision, ScaledMul};
use warpsmith::{DeviceArray, DeviceArrayRef, F8E4M3, F8E5M2, Result, bf16, f16};

use super::products::{LAYOUTS, Operands, by_choices, by_choices_along, in_parts, matmul};
use super::{ADA, AMPERE, HOPPER, MULTIPROCESSORS, Run, TURING, Value, each_type};

pub(super) fn halves(run: &mut Run) {
    let generation = run.generation();
    if generation == TURING {
        return turing(run);
    }
    // In two parts, of a step of Hopper's each, the sums are in f32.
    let (whole, parts): (&[&str], &[&str]) = match generation {
        HOPPER => (
            &["wgmma 64 1", "wgmma 128 1", "wgmma 192 1", "wgmma 256 1"],
            &["wgmma 64 2", "wgmma 128 2", "wgmma 192 2", "wgmma 256 2"],
        ),
        _ => (
            &["mma 64 1", "mma 128 1", "mma 256 1"],
            &["mma 64 2", "mma 128 2", "mma 256 2"],
        ),
    };
    by_choices::<f16>(run, "half", &["nn", "tt"], whole, matmul);
    by_choices_along::<f16>(128, run, "half", &["nt"], parts, matmul);
    by_choices::<bf16>(run, "half", &["nt"], whole, matmul);
    by_choices_along::<bf16>(128, run, "half", &["tn"], parts, matmul);
    by_choices::<f32>(run, "tf32", &["nt", "tn"], whole, tf32);
    if generation == HOPPER {
        // More stages than there are, of what is read by ordinary loads.
        by_choices_along::<f32>(512, run, "tf32", &["tn"], &["wgmma 64 1"], tf32);
        across::<f16>(run, "nn", &SHAPES, &[Added::Bias]);
        across::<bf16>(run, "nt", &SHAPES, &[Added::Bias]);
        across::<bf16>(run, "tn", &SHAPES, &[Added::Residual]);
    } else {
        each_type!(run, in_parts: f32 i32);
        // More parts than a thread adds up.
        by_choices_along::<bf16>(128, run, "half", &["nt"], &["mma 64 16"], matmul);
    }
}

/// Shapes that tiles of 64 × 48, of 192 × 96 and of 128 × 112 fill best, which are computed as transposes, one of a pair of blocks, and
/// those that a pair fills by tiles of 192 × 176, of 256 × 160 and of 256 × 168.
const SHAPES: [(usize, usize); 7] = [
    (48, 56),
    (96, columns(192)),
    (112, columns(128)),
    (136, 248),
    (344, 184),
    (296, 248),
    (328, 248),
];

/// One that two clusters of four fill by tiles of 64 × 112.
pub(super) fn halves_in_fours(run: &mut Run) {
    across::<f16>(run, "nn", &[(216, 248)], &[Added::Bias, Added::Residual]);
    across::<bf16>(run, "nt", &[(216, 248)], &[Added::Bias, Added::Residual]);
}

/// Products of these shapes, and with what is finished from `added`: the code of that knows the type and the tile, but not how
/// operands lie.
fn across<T: Value + MatMul>(run: &mut Run, layout: &'static str, shapes: &[(usize, usize)], added: &[Added]) {
    for &(m, n) in shapes {
        let operands = Operands::<T>::new(run, [m, n, 72], layout);
        run.keep(operands.a().matmul(&operands.b()));
        for added in added {
            let (a, b) = (operands.a(), operands.b());
            let product = a.fused_matmul(&b);
            match added {
                Added::Bias => {
                    let bias = run.array::<T, _>((1, n));
                    run.keep(product.bias(&bias).relu().compute());
                }
                Added::Residual => {
                    let residual = run.array::<T, _>((m, n));
                    run.keep(product.residual(&residual).compute());
                }
            }
        }
    }
}

/// What is added to a product.
enum Added {
    Bias,
    Residual,
}

fn tf32(a: &DeviceArrayRef<f32, Ix2>, b: &DeviceArrayRef<f32, Ix2>) -> Result<DeviceArray<f32, Ix2>> {
    a.matmul_with(b, Precision::Tf32)
}

/// Which has f16 alone; its sums are in f32 where 8-bit floats are multiplied.
fn turing(run: &mut Run) {
    for layout in LAYOUTS {
        let [m, n, k] = [140, 70, 40].map(|most| run.len(most));
        let operands = Operands::<f16>::new(run, [m, n, k], layout);
        run.keep(operands.a().matmul(&operands.b()));
    }
    let operands = Operands::<F8E4M3>::new(run, [40, 70, 50], "nn");
    run.keep::<f32, _>(operands.a().scaled_matmul(&operands.b()).compute());
}

pub(super) fn wide(run: &mut Run) {
    // Ampere's have one tile, whichever is chosen.
    let tiles: &[&str] = match run.generation() {
        HOPPER => &["dmma 32 1", "dmma 64 1", "dmma 128 1"],
        _ => &["dmma 64 1"],
    };
    by_choices::<f64>(run, "f64", &LAYOUTS, tiles, matmul);
    if run.generation() == HOPPER {
        // Three tiles for two multiprocessors, which are cut along k.
        let operands = Operands::<f64>::new(run, [30, 300, 160], "nn");
        run.keep(operands.a().matmul(&operands.b()));
        // One narrow tile, of which either has a part of k.
        let operands = Operands::<f64>::new(run, [30, 60, 260], "nt");
        run.keep(operands.a().matmul(&operands.b()));
        // Five tiles for two multiprocessors, which are cut along k.
        let operands = Operands::<f32>::new(run, [30, 300, 360], "nn");
        run.keep(operands.a().matmul(&operands.b()));
        // One tile, of which k is in parts; and lines that do not begin at multiples of 16 bytes, which are copied first.
        let operands = Operands::<f32>::new(run, [20, 50, 1537], "nn");
        run.keep(operands.a().matmul(&operands.b()));
        by_choices::<f32>(
            run,
            "f32",
            &["nn", "tn"],
            &["simt 64 1", "simt 128 1", "simt 256 1"],
            matmul,
        );
        by_choices::<f32>(
            run,
            "f32",
            &["nn"],
            &["simt 64 1", "simt 128 1", "simt 256 1"],
            finished_where_rows_begin_anywhere,
        );
        // More stages than there are.
        by_choices_along::<f32>(512, run, "f32", &["nn", "tn"], &["simt 64 1"], matmul);
    }
}

/// The sums go by way of shared memory, and lanes finish what others have stored.
fn finished_where_rows_begin_anywhere(
    a: &DeviceArrayRef<f32, Ix2>,
    b: &DeviceArrayRef<f32, Ix2>,
) -> Result<DeviceArray<f32, Ix2>> {
    a.fused_matmul(&b.slice(s![.., 1..])?).relu().compute()
}

/// As many columns as the multiprocessors take at once in tiles of that width: it is the best one then.
const fn columns(width: usize) -> usize {
    width * MULTIPROCESSORS as usize - 8
}

pub(super) fn bytes(run: &mut Run) {
    let generation = run.generation();
    let short = run.len(8);
    let shapes = match generation {
        HOPPER => [64, 128, 192, 256].map(|width| [short, columns(width)]).to_vec(),
        TURING => vec![[short, run.len(70)]],
        // In small tiles, and in large ones.
        _ => vec![[short, run.len(70)], [72, columns(128)]],
    };
    for [m, n] in shapes {
        let shape = [m, n, run.len(40)];
        let operands = Operands::<i8>::new(run, shape, "nt");
        run.keep(operands.a().matmul_i32(&operands.b()));
        if generation == HOPPER || generation == ADA {
            scaled::<F8E4M3, F8E4M3, f32>(run, shape);
            scaled::<F8E4M3, F8E4M3, bf16>(run, shape);
            scaled::<F8E4M3, F8E5M2, f32>(run, shape);
            scaled::<F8E4M3, F8E5M2, bf16>(run, shape);
            scaled::<F8E5M2, F8E4M3, f32>(run, shape);
            scaled::<F8E5M2, F8E4M3, bf16>(run, shape);
        }
    }
}

fn scaled<A: Value + ScaledMul<B, C>, B: Value, C: MatMul<Scalar = f32>>(run: &mut Run, [m, n, k]: [usize; 3]) {
    let (a, b) = (run.array::<A, _>((m, k)), run.array::<B, _>((n, k)));
    let scale = run.array::<f32, _>((m, 1));
    let b = b.t();
    let product = || a.scaled_matmul::<B, C>(&b).scale_a(&scale);
    run.keep(product().compute());
    // On one level, and in tiles of all widths.
    run.keep(product().fast_accumulation().compute());
}

pub(super) fn groups(run: &mut Run) {
    each_type!(run, grouped: f16 bf16);
}

fn grouped<T: Value + MatMul>(run: &mut Run) {
    let (first, second, rest) = (run.len(140), run.len(30), run.len(9));
    let a = run.array::<T, _>((first + second + rest, 24));
    let b = run.array::<T, _>((3, 24, 40));
    let ends = [first, first, first + second];
    let of_i32 = Array1::from_iter(ends.map(|end| end as i32));
    let of_u64 = Array1::from_iter(ends.map(|end| end as u64));
    let of_i32 = run.ok(DeviceArray::from_ndarray(run.stream(), &of_i32));
    let of_u64 = run.ok(DeviceArray::from_ndarray(run.stream(), &of_u64));
    run.keep(a.grouped_matmul(&b, &of_i32));
    run.keep(a.grouped_matmul(&b, &of_u64));
    if run.generation() == AMPERE {
        let c = run.array::<T, _>((24, 40));
        let pairs = [(a.view(), c.view()), (c.t(), c.view())];
        for product in run.ok(warpsmith::ops::grouped_matmul(&pairs)) {
            run.keep(Ok(product));
        }
    }
}
