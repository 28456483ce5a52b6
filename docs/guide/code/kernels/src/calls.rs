// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of kernels that the tables of chapter "Coming from…" name.

use cuda_block::storage;
use cuda_std::prelude::*;
use cuda_std::random::{Philox4x32, uniform_f32};
use cuda_std::{fence, println};

/// A kernel with what kernels are written with. Launched by one block of 32.
#[kernel(max_threads = 1024)]
pub fn vocabulary(x: &[f32], out: SliceMut<'_, f32>, words: SliceMut<'_, u32>, table: Constant<'_, f32, 4>) {
    let i = thread::index_1d();
    let (t, b) = (thread::thread_idx_x(), thread::block_idx_x());
    let (threads, blocks) = (thread::block_dim_x(), thread::grid_dim_x());
    let (row, column) = thread::index_2d();
    let all = thread::stride_1d();
    assert!(i == (b * threads + t) as usize && all == (blocks * threads) as usize && (row, column) == (0, i));

    let tile = shared_array![f32; 64];
    let dynamic = cuda_std::shared::dynamic::<f32>();
    tile.set(i, x[i]);
    dynamic.set(i, tile.get(i));
    thread::sync_threads();
    warp::sync_warp(warp::FULL_MASK);
    let positive = thread::sync_threads_count(x[i] > 0.0);
    assert!(thread::sync_threads_or(positive > 0) && !thread::sync_threads_and(false));

    let (lane, w) = (warp::lane_id(), warp::warp_id());
    let v = x[i] + w as f32;
    let mut sum = v + warp::shuffle_down(warp::FULL_MASK, v, 16);
    sum += warp::shuffle_xor(warp::FULL_MASK, v, 1) + warp::shuffle(warp::FULL_MASK, v, 0);
    let ballot = warp::ballot(warp::FULL_MASK, v > 2.0);
    let same = warp::match_any(warp::FULL_MASK, u64::from(t / 2));
    let of_warp = warp::all_reduce(v, |a, b| a + b);
    let before = warp::exclusive_scan(v, 0.0, |a, b| a + b);
    let (of_block, used) = storage![f32; 32].all_reduce::<32>(v, 0.0, |a, b| a + b);
    let ((through_block, _), _) = used.sync().inclusive_scan::<32>(v, 0.0, |a, b| a + b);
    assert!(of_block == of_warp && through_block == before + v && same.count_ones() == 2);

    words.atomic(0).fetch_add(1);
    words.atomic(1).fetch_max(t);
    words.atomic(2).compare_exchange(0, 5);
    words.atomic(3).exchange(ballot);
    words.atomic(4).fetch_or(1 << lane);
    out.atomic(0).fetch_add(1.0);
    tile.atomic(63).store(0.0);
    fence::device();
    if words.atomic(5).fetch_add_ordered(1) == 31 {
        words
            .atomic(6)
            .store_release(ballot.leading_zeros() + ballot.count_ones());
        println!("the last thread, {lane}, found {}", words.atomic(5).load_acquire());
    }

    let four: [f32; 4] = x.load_vec::<4>(i / 4 * 4);
    let fused = v.mul_add(four[0], table.get(3));
    let roots = Float::rsqrt(v + 1.0) + v.sqrt() + Float::exp(-v) + Float::minimum(v, sum);
    if i > 0 {
        out.set(i, fused + roots);
    }
}

/// Doubles all of `x`, then adds what its mirror image has become.
#[kernel(max_threads = 32)]
pub fn mirrored(grid: GridBarrier<'_>, x: SliceMut<'_, f32>, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < x.len() {
        x.set(i, 2.0 * x.get(i));
    }
    grid.sync();
    if i < x.len() {
        out.set(i, x.get(i) + x.get(x.len() - 1 - i));
    }
}

/// The transpose of a matrix of any strides.
#[kernel]
pub fn transposed(x: ArrayView<'_, f32, 2>, out: ArrayViewMut<'_, f32, 2>) {
    let (i, j) = thread::index_2d();
    let [rows, columns] = x.shape();
    if i < rows && j < columns {
        out.set([j, i], x.get([i, j]));
    }
}

/// A uniform number for each element.
#[kernel]
pub fn uniform(random: Philox4x32, out: SliceMut<'_, f32>) {
    let i = thread::index_1d();
    if i < out.len() {
        let [word, ..] = random.with_sequence(i as u64).block(0);
        out.set(i, uniform_f32(word));
    }
}
