// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrices of 8 × 8 16-bit elements between shared memory and the registers of a warp (`ldmatrix`, `stmatrix`).
//!
//! Each function moves four such matrices. Their rows, of 16 bytes, can be anywhere in shared memory: lane `l` says where row
//! `l % 8` of matrix `l / 8` is. In the registers, lane `l` has of each matrix the two elements in row `l / 4` and columns
//! `2 (l % 4)` and the next, as one word with the lower column in the lower half: what the operands and results
//! of matrix instructions look like.
//!
//! Source: PTX ISA, "Warp Level Matrix Load Instruction: ldmatrix", "Warp-level matrix store instruction: stmatrix".
//!
//! # Convergence
//!
//! All lanes of the warp reach the same call.

use bytemuck::Pod;

use crate::machine;
use crate::shared::Shared;

/// Stores four matrices; `offset` is where the lane's row begins in `tile`, in bytes.
///
/// GPU: compute 9.0 or later.
///
/// ```
/// use cuda_std::half::{self, bf16};
/// use cuda_std::matrix;
/// use cuda_std::prelude::*;
///
/// /// A warp's 16 × 16 matrix, of which lane `l` has rows `l / 4` and `l / 4 + 8`, goes through shared memory into order.
/// #[kernel(max_threads = 32)]
/// pub fn fragment_to_rows(out: SliceMut<'_, u16>) {
///     let tile = shared_array![bf16; 16 * 16];
///     let lane = warp::lane_id();
///     // Element (i, j) of the matrix is 16 i + j. The four 8 × 8 matrices: upper left, lower left, upper and lower right.
///     let word = |row: u32, column: u32| {
///         let first = (row + lane / 4) * 16 + column + lane % 4 * 2;
///         half::pack::<bf16>(first as f32, (first + 1) as f32)
///     };
///     let words = [word(0, 0), word(8, 0), word(0, 8), word(8, 8)];
///     let (row, column) = (lane % 16, lane / 16 * 8);
///     // SAFETY: 16 bytes of row `row`, at a multiple of 16.
///     unsafe { matrix::stmatrix_x4(tile, (row * 16 + column) * 2, words) };
///     warp::sync_warp(warp::FULL_MASK);
///     for i in 0..8 {
///         let i = 8 * lane + i;
///         out.set(i as usize, half::bf16_to_f32(tile.get(i as usize)) as u16);
///     }
/// }
/// # let mut out = [0; 256];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, fragment_to_rows);
/// assert!((0..256).all(|i| out[i as usize] == i));
/// ```
///
/// # Safety
///
/// 16 bytes from `offset` on are in `tile`, at a multiple of 16 bytes of the block's shared memory. The simulated GPU checks
/// it.
#[inline(always)]
#[track_caller]
pub unsafe fn stmatrix_x4<T: Pod>(tile: Shared<T>, offset: u32, words: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe { machine::stmatrix_x4::<false>(tile.bytes_at(offset as usize, 16), words) }
}

/// [`stmatrix_x4`] of the transposed matrices: of each, the lane has the two elements in column `l / 4` and rows
/// `2 (l % 4)` and the next.
///
/// GPU: compute 9.0 or later.
///
/// ```
/// use cuda_std::half::{self, bf16};
/// use cuda_std::matrix;
/// use cuda_std::prelude::*;
///
/// /// Four matrices whose columns a warp has, one behind the other, by rows.
/// #[kernel(max_threads = 32)]
/// pub fn columns_to_rows(out: SliceMut<'_, u16>) {
///     let tile = shared_array![bf16; 4 * 64];
///     let lane = warp::lane_id();
///     // Element (i, j) of a matrix is 8 i + j.
///     let (row, column) = (lane % 4 * 2, lane / 4);
///     let word = half::pack::<bf16>((8 * row + column) as f32, (8 * row + 8 + column) as f32);
///     // SAFETY: row `lane % 8` of matrix `lane / 8`: 16 bytes at a multiple of 16.
///     unsafe { matrix::stmatrix_x4_trans(tile, 16 * lane, [word; 4]) };
///     warp::sync_warp(warp::FULL_MASK);
///     for i in 0..8 {
///         let i = (8 * lane + i) as usize;
///         out.set(i, half::bf16_to_f32(tile.get(i)) as u16);
///     }
/// }
/// # let mut out = [0; 256];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, columns_to_rows);
/// assert!((0..256).all(|i| out[i as usize] == i % 64));
/// ```
///
/// # Safety
///
/// As for [`stmatrix_x4`].
#[inline(always)]
#[track_caller]
pub unsafe fn stmatrix_x4_trans<T: Pod>(tile: Shared<T>, offset: u32, words: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe { machine::stmatrix_x4::<true>(tile.bytes_at(offset as usize, 16), words) }
}

/// Loads four matrices; `offset` is where the lane's row begins in `tile`, in bytes.
///
/// GPU: compute 7.5 or later.
///
/// ```
/// use cuda_std::matrix;
/// use cuda_std::prelude::*;
///
/// /// Each lane's words of four matrices that lie one behind the other, as they are and transposed.
/// #[kernel(max_threads = 32)]
/// pub fn fragments(x: &[u16], out: SliceMut<'_, [u32; 8]>) {
///     let tile = shared_array![u16; 256];
///     let lane = warp::lane_id();
///     for i in 0..8 {
///         let i = (8 * lane + i) as usize;
///         tile.set(i, x[i]);
///     }
///     warp::sync_warp(warp::FULL_MASK);
///     // SAFETY: row `lane % 8` of matrix `lane / 8`: 16 bytes at a multiple of 16.
///     let (a, b) = unsafe { (matrix::ldmatrix_x4(tile, 16 * lane), matrix::ldmatrix_x4_trans(tile, 16 * lane)) };
///     out.set(lane as usize, [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]);
/// }
/// # let x: Vec<u16> = (0..256).collect();
/// # let mut out = [[0; 8]; 32];
/// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| fragments(&x, out));
/// // Lane 5: row 1, columns 2 and 3; transposed, column 1, rows 2 and 3.
/// assert_eq!((out[5][0], out[5][1]), (11 << 16 | 10, 75 << 16 | 74));
/// assert_eq!((out[5][4], out[5][5]), (25 << 16 | 17, 89 << 16 | 81));
/// ```
///
/// # Safety
///
/// As for [`stmatrix_x4`].
#[inline(always)]
#[track_caller]
pub unsafe fn ldmatrix_x4<T: Pod>(tile: Shared<T>, offset: u32) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe { machine::ldmatrix_x4::<false>(tile.bytes_at(offset as usize, 16)) }
}

/// [`ldmatrix_x4`] of the transposed matrices: of each, the lane has the two elements in column `l / 4` and rows
/// `2 (l % 4)` and the next.
///
/// # Safety
///
/// As for [`stmatrix_x4`].
#[inline(always)]
#[track_caller]
pub unsafe fn ldmatrix_x4_trans<T: Pod>(tile: Shared<T>, offset: u32) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe { machine::ldmatrix_x4::<true>(tile.bytes_at(offset as usize, 16)) }
}
