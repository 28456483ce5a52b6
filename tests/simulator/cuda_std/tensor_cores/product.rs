// SPDX-License-Identifier: MIT OR Apache-2.0

use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::half::{bf16, f16};
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::{self, RawTensorMap, Swizzle, TensorMap, TensorMapLayout, TensorMapMut};
use cuda_std::wgmma::{
    Accumulator, KMajor, Layout, MatrixDescriptor, MnMajor, MnMajorB64, MultiplyBy, Operand, Registers, Tf32,
};
use cuda_std::{matrix, warpgroup};

use super::{Numbers, fault, try_run};

const STAGES: u32 = 2;
const A_BYTES: u32 = 64 * 128;
/// The output of one warp: 16 rows of 32 f32.
const STAGING: u32 = 16 * 128;
/// The warpgroup that computes, and the warp that copies.
const THREADS: u32 = 128 + 32;

/// An element type as tests see it.
trait Element: MultiplyBy + Operand<Element: Pod + Sync + Debug> {
    fn from_f32(value: f32) -> Self::Element;
    /// What the tensor cores take the element for.
    fn value(element: Self::Element) -> f64;
}

impl Element for bf16 {
    fn from_f32(value: f32) -> bf16 {
        bf16::from_f32(value)
    }

    fn value(element: bf16) -> f64 {
        element.to_f64()
    }
}

impl Element for f16 {
    fn from_f32(value: f32) -> f16 {
        f16::from_f32(value)
    }

    fn value(element: f16) -> f64 {
        element.to_f64()
    }
}

impl Element for Tf32 {
    fn from_f32(value: f32) -> f32 {
        value
    }

    fn value(element: f32) -> f64 {
        f32::from_bits(element.to_bits() & !0x1fff).into()
    }
}

impl Element for F8E4M3 {
    fn from_f32(value: f32) -> F8E4M3 {
        F8E4M3::from_f32(value)
    }

    fn value(element: F8E4M3) -> f64 {
        element.to_f32().into()
    }
}

impl Element for F8E5M2 {
    fn from_f32(value: f32) -> F8E5M2 {
        F8E5M2::from_f32(value)
    }

    fn value(element: F8E5M2) -> f64 {
        element.to_f32().into()
    }
}

/// How a layout is told to the code that copies.
trait Tiles {
    const MN_MAJOR: bool;
    const BOXES: Swizzle;
    /// Bytes of a line of a box.
    const LINE: u32 = Self::BOXES.span();
}

impl Tiles for KMajor {
    const MN_MAJOR: bool = false;
    const BOXES: Swizzle = Swizzle::B128;
}

impl Tiles for MnMajor {
    const MN_MAJOR: bool = true;
    const BOXES: Swizzle = Swizzle::B128;
}

impl Tiles for MnMajorB64 {
    const MN_MAJOR: bool = true;
    const BOXES: Swizzle = Swizzle::B64;
}

fn dynamic_bytes<const R: usize>() -> u32 {
    STAGES * (A_BYTES + 256 * R as u32) + 4 * STAGING + 1024
}

/// C = A · B, of which a block computes 64 × 2R elements.
struct Product<T: MultiplyBy> {
    a: RawTensorMap,
    b: RawTensorMap,
    c: RawTensorMap,
    k: u32,
    _operand: std::marker::PhantomData<fn() -> T>,
}

impl<T: MultiplyBy> Product<T> {
    /// Brings `lines` rows of A, or columns of B, and 128 bytes of k: in one box, or by boxes of as many lines as a swizzle has.
    fn load<L: Tiles>(
        from: TensorMap<'_, T::Element>,
        to: Shared<T::Element>,
        (line, lines, k): (u32, u32, u32),
        loaded: Mbarrier,
    ) {
        if !L::MN_MAJOR {
            // SAFETY: `to` has room for `lines` rows of 128 bytes, and is aligned as they lie.
            unsafe { from.load(to, [k as i32, line as i32], loaded) };
            return;
        }
        let wide = L::LINE / 2;
        for i in 0..lines / wide {
            let part = to.subarray((i * wide) as usize * 64, wide as usize * 64);
            // SAFETY: a box has 64 rows of so many lines, one for each k.
            unsafe { from.load(part, [(line + wide * i) as i32, k as i32], loaded) };
        }
    }

    fn kernel<A: Layout<T> + Tiles, B: Layout<T> + Tiles, const R: usize>(&self)
    where
        [f32; R]: Registers,
    {
        let columns = 2 * R as u32;
        let b_bytes = columns * 128;
        let all = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
        let part = |start: u32, bytes: u32| all.subarray(start as usize, bytes as usize);
        let a_tile = |stage: u32| part(stage * A_BYTES, A_BYTES);
        let b_tile = |stage: u32| part(STAGES * A_BYTES + stage * b_bytes, b_bytes);
        let words = shared_array![u64; 2 * 2];
        // SAFETY: the words are barriers only, initialised ahead of the block's barrier, each for one arrival.
        let barrier = |i: u32| unsafe { Mbarrier::at(words, i as usize) };
        let (full, empty) = (barrier, |stage: u32| barrier(STAGES + stage));
        let t = thread::thread_idx_x();
        if t == 0 {
            (0..2 * STAGES).for_each(|i| barrier(i).init(1));
            mbarrier::fence_init();
        }
        thread::sync_threads();
        let (row, column) = (thread::block_idx_y() * 64, thread::block_idx_x() * columns);
        let steps = self.k.div_ceil(4 * T::K);
        let round = |step: u32| (step % STAGES, step / STAGES % 2);
        if warp::uniform(t / 32) == 4 {
            // SAFETY: the maps are of memory that lives as long as the launch, and nothing writes A and B.
            let (a, b) = unsafe { (TensorMap::from_address(&self.a), TensorMap::from_address(&self.b)) };
            // One thread of the warp copies.
            for step in 0..if t.is_multiple_of(32) { steps } else { 0 } {
                let ((stage, parity), k) = (round(step), step * 4 * T::K);
                empty(stage).wait(parity ^ 1);
                full(stage).arrive_expect_tx(A_BYTES + b_bytes);
                Self::load::<A>(a, a_tile(stage).cast(), (row, 64, k), full(stage));
                Self::load::<B>(b, b_tile(stage).cast(), (column, columns, k), full(stage));
            }
            return;
        }
        warpgroup::increase_registers::<232>();
        let mut sum = Accumulator::<R>::zero().start().commit();
        for step in 0..steps {
            let (stage, parity) = round(step);
            full(stage).wait(parity);
            let a = MatrixDescriptor::<T, A>::new(a_tile(stage), 64 * A::LINE, 8 * A::LINE);
            let b = MatrixDescriptor::<T, B>::new(b_tile(stage), 64 * B::LINE, 8 * B::LINE);
            let mut batch = sum.restart();
            for i in 0..4 {
                let step_of = |mn_major, line| if mn_major { 16 * line } else { 32 };
                let a = a.advance(i * step_of(A::MN_MAJOR, A::LINE));
                let b = b.advance(i * step_of(B::MN_MAJOR, B::LINE));
                // SAFETY: both tiles have come, and are filled again only behind an arrival at `empty`, for which the
                // batch has been waited.
                batch = match (step, i) {
                    (0, 0) => unsafe { batch.mma_from_zero(a, b) },
                    _ => unsafe { batch.mma(a, b) },
                };
            }
            sum = batch.commit().wait_but_newest();
            if step > 0 {
                empty(round(step - 1).0).arrive_if(t == 0);
            }
        }
        let sum = sum.wait();
        let staging = part(STAGES * (A_BYTES + b_bytes) + t / 32 * STAGING, STAGING).cast::<f32>();
        self.store(&sum, staging, row + t / 32 * 16, column);
    }

    /// Each warp stores its 16 rows, 32 columns at a time.
    fn store<const R: usize>(&self, sum: &Accumulator<R>, staging: Shared<f32>, row: u32, column: u32) {
        // SAFETY: the map is of memory that lives as long as the launch, which is accessed by this alone.
        let c = unsafe { TensorMapMut::<f32>::from_address(&self.c) };
        let t = thread::thread_idx_x();
        for first in (0..2 * R as u32).step_by(32) {
            warp::sync_warp(warp::FULL_MASK);
            for register in first / 2..first / 2 + 16 {
                let (row, column) = Accumulator::<R>::place(t, register);
                let place = Swizzle::B128.place(row % 16 * 128 + column % 32 * 4);
                staging.set(place as usize / 4, sum.element(register as usize));
            }
            tma::fence_async();
            warp::sync_warp(warp::FULL_MASK);
            if t.is_multiple_of(32) {
                // SAFETY: the box is written, and waited for before it is written again.
                unsafe { c.store([(column + first) as i32, row as i32], staging) };
                tma::commit();
                tma::wait_read::<0>();
            }
        }
        tma::wait::<0>();
    }
}

/// A matrix in memory whose rows begin at multiples of 16 bytes.
struct Matrix<E> {
    rows: usize,
    columns: usize,
    stride: usize,
    elements: Vec<[E; 16]>,
}

impl<E: Pod> Matrix<E> {
    fn new(rows: usize, columns: usize, mut element: impl FnMut(usize, usize) -> E) -> Self {
        let stride = columns.next_multiple_of(16);
        let mut elements = vec![[E::zeroed(); 16]; rows * stride / 16 + 1];
        for i in 0..rows * stride {
            elements[i / 16][i % 16] = element(i / stride, i % stride);
        }
        Matrix {
            rows,
            columns,
            stride,
            elements,
        }
    }

    fn get(&self, row: usize, column: usize) -> E {
        let i = row * self.stride + column;
        self.elements[i / 16][i % 16]
    }

    fn map(&mut self, box_rows: u32, swizzle: Swizzle) -> RawTensorMap {
        let bytes = size_of::<E>();
        let layout = TensorMapLayout {
            element_bytes: bytes as u32,
            rank: 2,
            dims: [self.columns as u64, self.rows as u64, 1, 1, 1],
            strides: [(self.stride * bytes) as u64, 0, 0, 0],
            box_dims: [swizzle.span() / bytes as u32, box_rows, 1, 1, 1],
            steps: [1; 5],
            swizzle,
        };
        RawTensorMap::simulated(self.elements.as_mut_ptr().expose_provenance(), &layout)
    }
}

/// Computes a product and compares it with that in f64.
fn check<T: Element, A: Layout<T> + Tiles, B: Layout<T> + Tiles, const R: usize>(m: usize, n: usize, k: usize)
where
    [f32; R]: Registers,
    T::Element: Pod,
{
    let mut numbers = Numbers((m * n * k) as u64);
    let mut matrix = |lines: usize, mn_major: bool| {
        let (rows, columns) = if mn_major { (k, lines) } else { (lines, k) };
        // What is beyond the tensor is not zero in memory.
        Matrix::new(rows, columns, |_, _| T::from_f32(numbers.next_f32()))
    };
    let (mut a, mut b) = (matrix(m, A::MN_MAJOR), matrix(n, B::MN_MAJOR));
    let mut c = Matrix::new(m, n, |_, _| f32::NAN);
    let lines = |mn_major: bool, lines: u32| if mn_major { 64 } else { lines };
    let product = Product::<T> {
        a: a.map(lines(A::MN_MAJOR, 64), A::BOXES),
        b: b.map(lines(B::MN_MAJOR, 2 * R as u32), B::BOXES),
        c: c.map(16, Swizzle::B128),
        k: k as u32,
        _operand: std::marker::PhantomData,
    };
    let config = cuda_sim::LaunchConfig {
        dynamic_shared: dynamic_bytes::<R>() as usize,
        ..cuda_sim::LaunchConfig::new((n.div_ceil(2 * R) as u32, m.div_ceil(64) as u32), THREADS)
    };
    let body = || product.kernel::<A, B, R>();
    let counters = cuda_sim::launch_counted("product", &config, cuda_sim::Options::default(), &body).unwrap();
    let operations: Vec<u64> = counters.products.iter().map(|&(_, operations)| operations).collect();
    let in_tiles = |lines: usize, tile: usize| lines.next_multiple_of(tile) as u64;
    // Whole tiles, whatever of them the matrices have.
    let tiles = in_tiles(m, 64) * in_tiles(n, 2 * R) * in_tiles(k, 4 * T::K as usize);
    assert_eq!(operations, [2 * tiles]);
    let value = |matrix: &Matrix<T::Element>, mn_major: bool, line: usize, k: usize| {
        T::value(if mn_major {
            matrix.get(k, line)
        } else {
            matrix.get(line, k)
        })
    };
    for i in 0..m {
        for j in 0..c.stride {
            let got = f64::from(c.get(i, j));
            if j >= n {
                assert!(got.is_nan(), "({i}, {j}) is beyond the {n} columns");
                continue;
            }
            let terms = (0..k).map(|k| value(&a, A::MN_MAJOR, i, k) * value(&b, B::MN_MAJOR, j, k));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), term| {
                (sum + term, size + term.abs())
            });
            let bound = (k + 16) as f64 * 2f64.powi(-24) * size;
            assert!((got - sum).abs() <= bound, "({i}, {j}): {got} is not {sum}");
        }
    }
}

#[test]
fn products_of_all_layouts() {
    check::<bf16, KMajor, KMajor, 32>(70, 100, 72);
    check::<bf16, KMajor, MnMajor, 32>(70, 100, 136);
    check::<bf16, MnMajor, KMajor, 32>(70, 60, 200);
    check::<bf16, MnMajor, MnMajor, 32>(65, 66, 67);
    check::<f16, KMajor, KMajor, 32>(64, 64, 64);
    check::<bf16, KMajor, MnMajorB64, 16>(70, 50, 72);
    check::<f16, KMajor, MnMajor, 32>(1, 3, 5);
    check::<f16, MnMajor, KMajor, 32>(33, 17, 130);
    check::<f16, MnMajor, MnMajor, 32>(64, 64, 16);
    check::<Tf32, KMajor, KMajor, 32>(70, 100, 72);
    check::<F8E4M3, KMajor, KMajor, 32>(70, 100, 300);
    check::<F8E5M2, KMajor, KMajor, 32>(9, 64, 128);
}

/// By boxes of 32 lines, of either operand.
#[test]
fn products_of_narrow_boxes() {
    check::<bf16, KMajor, MnMajorB64, 48>(70, 100, 136);
    check::<f16, MnMajorB64, MnMajorB64, 32>(65, 66, 67);
}

#[test]
fn products_of_all_widths() {
    check::<bf16, KMajor, MnMajor, 64>(64, 128, 128);
    check::<bf16, MnMajor, KMajor, 96>(60, 190, 80);
    check::<f16, KMajor, MnMajor, 96>(64, 192, 64);
    check::<f16, MnMajor, MnMajor, 128>(64, 250, 64);
    check::<Tf32, KMajor, KMajor, 128>(50, 256, 40);
    check::<Tf32, KMajor, KMajor, 64>(50, 120, 33);
    check::<F8E4M3, KMajor, KMajor, 96>(3, 190, 70);
    check::<F8E4M3, KMajor, KMajor, 128>(64, 250, 32);
}

/// A block's product of 64 × 32 and 32 × 64 bytes, by columns `b`: `of` takes the two descriptors' tiles.
fn product_of_bytes(
    a: impl Fn(u32, u32) -> u8 + Sync,
    b: impl Fn(u32, u32) -> u8 + Sync,
    of: impl Fn([Shared<u8>; 2]) + Sync,
) {
    let run = || {
        let tiles = cuda_std::shared::dynamic::<u8>().aligned::<1024>();
        let t = thread::thread_idx_x();
        for k in 0..32 {
            let place = |line: u32| Swizzle::B128.place(line * 128 + k) as usize;
            match t {
                0..64 => tiles.set(place(t), a(t, k)),
                _ => tiles.set(8192 + place(t - 64), b(t - 64, k)),
            }
        }
        tma::fence_async();
        thread::sync_threads();
        of([tiles, tiles.subarray(8192, 8192)]);
    };
    try_run(128, 64 * 1024, &run).unwrap();
}

#[test]
fn products_of_two_types_of_8_bit_floats() {
    // All finite codes of both.
    let a = |row: u32, k: u32| (row * 32 + k) as u8 % 0x78;
    let b = |column: u32, k: u32| ((column * 7 + k * 5) as u8 % 0x78) | 0x80;
    let wanted =
        |a: fn(u8) -> f64, b: fn(u8) -> f64, (row, column): (u32, u32), codes: [&dyn Fn(u32, u32) -> u8; 2]| {
            let terms = (0..32).map(|k| a(codes[0](row, k)) * b(codes[1](column, k)));
            terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
        };
    let e4m3 = |code| f64::from(F8E4M3::from_bits(code).to_f32());
    let e5m2 = |code| f64::from(F8E5M2::from_bits(code).to_f32());
    let check = |sums: Accumulator<32>, of_a: fn(u8) -> f64, of_b: fn(u8) -> f64| {
        for i in 0..32 {
            let place = Accumulator::<32>::place(thread::thread_idx_x(), i);
            let (sum, size) = wanted(of_a, of_b, place, [&a, &b]);
            let got = f64::from(sums.element(i as usize));
            assert!(
                (got - sum).abs() <= 34.0 * 2f64.powi(-24) * size,
                "{place:?}: {got} is not {sum}"
            );
        }
    };
    product_of_bytes(a, b, |[x, y]| {
        let x = MatrixDescriptor::<F8E4M3, KMajor>::new(x, 16, 1024);
        let y = MatrixDescriptor::<F8E5M2, KMajor>::new(y, 16, 1024);
        // SAFETY (of both): both matrices are written, and stay.
        let sums = unsafe { Accumulator::<32>::zero().start().mma(x, y) }.commit().wait();
        check(sums, e4m3, e5m2);
    });
    product_of_bytes(a, b, |[x, y]| {
        let x = MatrixDescriptor::<F8E5M2, KMajor>::new(x, 16, 1024);
        let y = MatrixDescriptor::<F8E4M3, KMajor>::new(y, 16, 1024);
        let sums = unsafe { Accumulator::<32>::zero().start().mma_from_zero(x, y) }
            .commit()
            .wait();
        check(sums, e5m2, e4m3);
    });
}

#[test]
fn sums_of_integers_wrap_around() {
    let a = |row: u32, k: u32| (row * 37 + k * 91) as u8;
    let b = |column: u32, k: u32| (column * 53 + k * 17 + 128) as u8;
    product_of_bytes(a, b, |[x, y]| {
        let x = MatrixDescriptor::<i8, KMajor>::new(x, 16, 1024);
        let y = MatrixDescriptor::<i8, KMajor>::new(y, 16, 1024);
        let mut sums = Accumulator::<32, i32>::zero();
        sums.update(|_, _| i32::MAX);
        // SAFETY: both matrices are written, and stay.
        let sums = unsafe { sums.start().mma_i8(x, y) }.commit().wait();
        for i in 0..32 {
            let (row, column) = Accumulator::<32>::place(thread::thread_idx_x(), i);
            let products = (0..32).map(|k| i32::from(a(row, k) as i8) * i32::from(b(column, k) as i8));
            assert_eq!(
                sums.element(i as usize),
                i32::MAX.wrapping_add(products.sum()),
                "({row}, {column})"
            );
        }
    });
}

/// The accumulators' elements are all of the matrix, each once.
#[test]
fn an_element_is_one_threads() {
    let mut seen = vec![0; 64 * 256];
    for thread in 128..256 {
        for register in 0..128 {
            let (row, column) = Accumulator::<128>::place(thread, register);
            seen[(row * 256 + column) as usize] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count == 1));
}

#[test]
fn misuse_is_a_fault() {
    let tile = || cuda_std::shared::dynamic::<bf16>().aligned::<1024>();
    let multiply = |a: Shared<bf16>, stride: u32| {
        let (a, b) = (
            MatrixDescriptor::<bf16, KMajor>::new(a, 16, stride),
            MatrixDescriptor::<bf16, KMajor>::new(tile(), 16, 1024),
        );
        // SAFETY: what is wrong with the matrices is found.
        _ = unsafe { Accumulator::<32>::zero().start().mma(a, b) }
            .commit()
            .wait()
            .get::<0>();
    };
    assert_eq!(
        fault(96, &|| multiply(tile(), 1024)),
        "a matrix instruction in warpgroup 0 of a block of 96 threads: not all of its 128 threads exist"
    );
    assert_eq!(
        fault(128, &|| multiply(tile().subarray(64, 64 * 64), 1024)),
        "the matrix of a matrix descriptor begins at offset 128 of shared memory: at no row 0 of a swizzle of 1024 bytes"
    );
    assert_eq!(
        fault(128, &|| multiply(tile(), 1000)),
        "the distances 16 and 1000 of a matrix descriptor are no multiples of 16 below 2^18"
    );
    let message = fault(128, &|| multiply(tile(), 1 << 16));
    assert!(
        message.starts_with("access out of bounds of the block's shared memory: 16 bytes"),
        "{message}"
    );
    // The lanes of a warp take one instruction: with the same matrices, and all of them.
    let odd = || thread::thread_idx_x() % 2;
    assert_eq!(
        fault(128, &|| multiply(tile().subarray(odd() as usize * 512, 64 * 64), 1024)),
        "lanes of a warp of warpgroup 0 come to a matrix instruction with other matrices than one another"
    );
    let message = fault(128, &|| {
        if thread::thread_idx_x() != 40 {
            multiply(tile(), 1024);
        }
    });
    assert_eq!(
        message,
        "`wgmma` with mask 0xffffffff not reached by all its lanes: lane 8, thread (40, 0, 0), has exited"
    );
}

/// One thread which has waited knows that all of its warpgroup have read.
#[test]
fn a_warpgroup_waits_together() {
    let result = try_run(128, 64 * 1024, &|| {
        let tiles = cuda_std::shared::dynamic::<bf16>().aligned::<1024>();
        let t = thread::thread_idx_x() as usize;
        for i in 0..64 {
            tiles.set(64 * t + i, bf16::ONE);
        }
        tma::fence_async();
        thread::sync_threads();
        let a = MatrixDescriptor::<bf16, KMajor>::new(tiles, 16, 1024);
        let b = a.advance(8192);
        // SAFETY: both matrices are written, and stay until the wait.
        let sum = unsafe { Accumulator::<32>::zero().start().mma(a, b) }.commit().wait();
        for i in 0..64 {
            tiles.set(64 * t + i, bf16::NAN);
        }
        assert!((0..32).all(|i| sum.element(i) == 16.0));
    });
    result.unwrap();
}

/// Matrices of a warp go to shared memory and back, where lanes choose the rows.
#[test]
fn stmatrix_and_ldmatrix_are_inverse() {
    try_run(64, 0, &|| {
        let tile = shared_array![u32; 2 * 4 * 8 * 4];
        let (lane, warp) = (warp::lane_id(), thread::thread_idx_x() / 32);
        let words = [0, 1, 2, 3].map(|matrix| 1000 * matrix + lane);
        // The rows in reverse order, and those of the warps between one another.
        let offset = ((31 - lane) * 2 + warp) * 16;
        // SAFETY: 16 bytes in the tile, at a multiple of 16.
        unsafe {
            matrix::stmatrix_x4(tile, offset, words);
            warp::sync_warp(warp::FULL_MASK);
            assert_eq!(matrix::ldmatrix_x4(tile, offset), words);
            warp::sync_warp(warp::FULL_MASK);
            matrix::stmatrix_x4_trans(tile, offset, words);
            warp::sync_warp(warp::FULL_MASK);
            assert_eq!(matrix::ldmatrix_x4_trans(tile, offset), words);
            warp::sync_warp(warp::FULL_MASK);
            matrix::stmatrix_x4(tile, offset, words);
            warp::sync_warp(warp::FULL_MASK);
        }
        // Row 7 - lane / 4 of the tile's last matrix is row lane / 4 of the first.
        let row = (31 - lane / 4) * 2 + warp;
        assert_eq!(tile.get((row * 4 + lane % 4) as usize), lane);
    })
    .unwrap();
    let misaligned = fault(32, &|| {
        let tile = shared_array![u32; 256];
        // SAFETY: what is wrong with the offset is found.
        _ = unsafe { matrix::ldmatrix_x4(tile, 8 * warp::lane_id()) };
    });
    assert_eq!(
        misaligned,
        "`ldmatrix_x4` of a row that is not aligned to 16 bytes of shared memory"
    );
    let outside = fault(32, &|| {
        let tile = shared_array![u32; 64];
        // SAFETY: as above.
        unsafe { matrix::stmatrix_x4(tile, 16 * warp::lane_id(), [0; 4]) };
    });
    assert_eq!(
        outside,
        "16 elements from index 256 on are out of bounds of the bytes of shared memory, whose len is 256"
    );
}
