// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchange between the lanes of a warp.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::warp::FULL_MASK;

/// A value of 12 bytes, which no single shuffle moves.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Debug, PartialEq)]
pub struct Triple(pub f32, pub u32, pub i16, pub [u8; 2]);

/// For each lane: the value of lane `argument`, of the lane so many above and below, and of the one that differs by
/// xor.
#[kernel(T = [u8, u32, f64, Triple])]
pub fn shuffles<T: Pod>(x: &[T], argument: u32, out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    let n = x.len();
    out.set(i, warp::shuffle(FULL_MASK, x[i], argument));
    out.set(n + i, warp::shuffle_up(FULL_MASK, x[i], argument));
    out.set(2 * n + i, warp::shuffle_down(FULL_MASK, x[i], argument));
    out.set(3 * n + i, warp::shuffle_xor(FULL_MASK, x[i], argument));
}

/// For each lane: ballot, all, any (of `x > 0`), match_any (of `x`), the lane's number, and match_any_bits (of `x`, 3 bits).
#[kernel]
pub fn votes(x: &[i32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    let n = x.len();
    let positive = x[i] > 0;
    out.set(i, warp::ballot(FULL_MASK, positive));
    out.set(n + i, warp::all(FULL_MASK, positive) as u32);
    out.set(2 * n + i, warp::any(FULL_MASK, positive) as u32);
    out.set(3 * n + i, warp::match_any(FULL_MASK, x[i] as u64));
    out.set(4 * n + i, warp::lane_id());
    out.set(5 * n + i, warp::match_any_bits::<3>(FULL_MASK, x[i] as u32));
}

/// The even and the odd lanes exchange among themselves, in different branches.
#[kernel]
pub fn halves(x: &[u32], out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    let value = if warp::lane_id().is_multiple_of(2) {
        warp::shuffle_xor(0x5555_5555, x[i], 2)
    } else {
        warp::shuffle_xor(0xaaaa_aaaa, x[i], 4)
    };
    warp::sync_warp(FULL_MASK);
    out.set(i, value);
}

/// The sum of each warp, in every lane.
#[kernel(T = [i32, i64, f64])]
pub fn warp_sums<T: Pod + core::ops::Add<Output = T>>(x: &[T], out: SliceMut<'_, T>) {
    let i = thread::index_1d();
    out.set(i, warp::all_reduce(x[i], |a, b| a + b));
}
