// SPDX-License-Identifier: MIT OR Apache-2.0
//! A warp's matrices between shared memory and registers, copies of single threads to shared memory, registers of a
//! warpgroup, and named barriers on the simulated GPU.

use cuda_sim::{Engine, Kind, Operation, SharedPtr, Space};

use super::{load_shared, store_shared};
use crate::array;

/// Where the rows of the warp's four matrices are: each lane gives one.
#[track_caller]
fn rows(name: &'static str, row: SharedPtr) -> impl Fn(u32) -> SharedPtr {
    assert!(
        row.is_aligned_to(16),
        "`{name}` of a row that is not aligned to 16 bytes of shared memory"
    );
    let rows = cuda_sim::exchange(name, u32::MAX, row.offset() as u64);
    move |lane| {
        let other = rows.get(lane).unwrap_or_default() as usize;
        row.byte_add(other.wrapping_sub(row.offset()))
    }
}

/// Counts what the lane has the warp's instruction access: a row of 16 bytes.
#[track_caller]
fn count_row(row: SharedPtr, operation: Operation) {
    let address = cuda_sim::shared_memory(row, 16).addr();
    cuda_sim::count(Space::Shared, address, 16, 16, operation);
}

/// # Safety
///
/// At `row` there are 16 bytes of a `Shared`.
#[track_caller]
pub unsafe fn stmatrix_x4<const TRANSPOSED: bool>(row: SharedPtr, words: [u32; 4]) {
    let lane = cuda_sim::lane();
    let name = if TRANSPOSED { "stmatrix_x4_trans" } else { "stmatrix_x4" };
    let rows = rows(name, row);
    count_row(row, Operation::Store);
    let (line, first) = (lane / 4, 2 * (lane % 4));
    for (matrix, word) in (0..).zip(words) {
        let at = |row: u32, column: u32| rows(8 * matrix + row).byte_add(2 * column as usize);
        // SAFETY (of all): in one of the rows, which their lanes' callers promise, and aligned, as these are.
        if TRANSPOSED {
            unsafe { store_shared(at(first, line), word as u16, 0) };
            unsafe { store_shared(at(first + 1, line), (word >> 16) as u16, 0) };
        } else {
            unsafe { store_shared(at(line, first), word, 0) };
        }
    }
}

/// # Safety
///
/// At `row` there are 16 bytes of a `Shared`.
#[track_caller]
pub unsafe fn ldmatrix_x4<const TRANSPOSED: bool>(row: SharedPtr) -> [u32; 4] {
    let lane = cuda_sim::lane();
    let name = if TRANSPOSED { "ldmatrix_x4_trans" } else { "ldmatrix_x4" };
    let rows = rows(name, row);
    count_row(row, Operation::Load);
    let element = |matrix: u32, row: u32, column: u32| {
        let at = rows(8 * matrix + row).byte_add(2 * column as usize);
        // SAFETY: as in `stmatrix_x4`.
        u32::from(unsafe { load_shared::<u16>(at, 0) })
    };
    let (line, first) = (lane / 4, 2 * (lane % 4));
    array::map([0, 1, 2, 3], |matrix| {
        let at = |k: u32| match TRANSPOSED {
            false => element(matrix, line, first + k),
            true => element(matrix, first + k, line),
        };
        at(0) | at(1) << 16
    })
}

/// The bits of the two bf16 nearest to the values, `low` in the lower half.
#[inline]
pub fn pack_bf16(low: f32, high: f32) -> u32 {
    let bits = |value| u32::from(half::bf16::from_f32(value).to_bits());
    bits(low) | bits(high) << 16
}

/// The bits of the two f16 nearest to the values, `low` in the lower half.
#[inline]
pub fn pack_f16(low: f32, high: f32) -> u32 {
    let bits = |value| u32::from(half::f16::from_f32(value).to_bits());
    bits(low) | bits(high) << 16
}

/// # Safety
///
/// As for [`copy_16`](crate::async_copy::copy_16).
#[track_caller]
pub unsafe fn copy_16(to: SharedPtr, from: *const u8, bytes: u32) {
    assert!(
        bytes <= 16,
        "an asynchronous copy of {bytes} bytes: it is of 16 at most"
    );
    assert!(
        to.is_aligned_to(16) && from.addr().is_multiple_of(16),
        "an asynchronous copy of 16 bytes is not aligned to 16 bytes"
    );
    let bytes = bytes as usize;
    cuda_sim::access(Space::Global, from.addr(), bytes, 16, Kind::Read);
    let to = cuda_sim::copy_begins(to, 16);
    // SAFETY: the caller's promise: bytes that nothing writes; and 16 bytes of the block's memory, whose threads are all on
    // this OS thread.
    unsafe {
        to.copy_from_nonoverlapping(from, bytes);
        to.add(bytes).write_bytes(0, 16 - bytes);
    }
}

#[track_caller]
pub fn copy_commit() {
    cuda_sim::copies_commit(Engine::Async);
}

#[track_caller]
pub fn copy_wait<const N: u32>() {
    cuda_sim::copies_wait(Engine::Async, N);
}

pub fn increase_registers<const N: u32>() {}

pub fn decrease_registers<const N: u32>() {}

#[track_caller]
pub fn sync_threads_named<const ID: u32, const COUNT: u32>() {
    cuda_sim::group_barrier("sync_threads_named", ID, COUNT);
}
