// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of a warp's lines and others that are in shared memory as [copies](super::copies) leave them, by `mma.sync.m16n8k16`: scores of pairs of
//! lines, and sums of lines by weights that are such scores' registers. And how the sums are stored.

use cuda_std::half::pack;
use cuda_std::matrix;
use cuda_std::mma::mma;
use cuda_std::prelude::*;

use super::{ELEMENTS, PIECE, line_bytes};
use crate::attention::decode::tensor::Half;
use crate::matmul::unroll;

/// A lane's products of its warp's lines and `G` groups of 8 others: of either 16 lines of the warp, and of each group, two of a line and two of the
/// line 8 further on.
pub(super) type Products<const G: usize> = [[[f32; 4]; G]; 2];

/// Sums of lines, for the warp's: as [`Products`], of each 8 columns.
pub(super) type Sums = [[[f32; 4]; 16]; 2];

/// The left operand of 16 lines of a warp, the first of which is at byte `own` of the memory, and `step` times 16 elements behind their first. For
/// whole warps.
///
/// # Safety
///
/// They are in the memory, at a multiple of a line's bytes, and nobody writes them.
#[inline(always)]
pub(super) unsafe fn left<const D: usize>(memory: Shared<u8>, own: u32, step: usize) -> [u32; 4] {
    let lane = thread::thread_idx_x() % 32;
    // A lane says where a line of a matrix of 8 × 8 begins: of 16 lines, then of the next 8 elements of them. Two pieces further on, the exclusive
    // or is with two more.
    let at = own + lane % 16 * line_bytes(D) + ((lane / 16) ^ (lane % 8)) * PIECE;
    // SAFETY: 16 bytes of a line, by the caller's promise; all lanes are here.
    unsafe { matrix::ldmatrix_x4(memory, at ^ (2 * PIECE * step as u32)) }
}

/// The products of the lines of a warp, so many `matrices` of 16, of which `own` gives the [left operands](left) by step and matrix, and `8 G` others
/// from byte `others` of the memory on. For whole warps.
///
/// # Safety
///
/// The others are in the memory, at a multiple of a line's bytes, and nobody writes them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn products<T: Half, const D: usize, const G: usize>(
    memory: Shared<u8>,
    matrices: usize,
    own: impl Fn(usize, usize) -> [u32; 4],
    others: u32,
) -> Products<G> {
    let (lane, line) = (thread::thread_idx_x() % 32, line_bytes(D));
    // Of 8 others, of the next 8 elements of these, and of 8 more others.
    let of_others = others + (lane % 8 + lane / 16 * 8) * line + ((lane / 8 % 2) ^ (lane % 8)) * PIECE;
    let mut products = [[[0.0; 4]; G]; 2];
    unroll!(8, step => {
        if step < D / 16 {
            let further = 2 * PIECE * step as u32;
            let mut a = [[0; 4]; 2];
            unroll!(2, half => {
                if half < matrices {
                    a[half] = own(step, half);
                }
            });
            unroll!(4, group => {
                if group < G / 2 {
                    // SAFETY: 16 bytes of a line, by the caller's promise; all lanes are here.
                    let b = unsafe { matrix::ldmatrix_x4(memory, (of_others ^ further) + group as u32 * 16 * line) };
                    unroll!(2, half => {
                        unroll!(2, n => {
                            if half < matrices {
                                let product = &mut products[half][2 * group + n];
                                *product = mma::<T>(a[half], [b[2 * n], b[2 * n + 1]], *product);
                            }
                        });
                    });
                }
            });
        }
    });
    products
}

/// Adds the `8 G` lines from byte `others` of the memory on, by weights that the [products](products()) with as many others have become, which are
/// rounded to `T`. For whole warps.
///
/// # Safety
///
/// As [`products`](products()).
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn add<T: Half, const D: usize, const G: usize>(
    memory: Shared<u8>,
    matrices: usize,
    sums: &mut Sums,
    weights: &Products<G>,
    others: u32,
) {
    let (lane, line) = (thread::thread_idx_x() % 32, line_bytes(D));
    // Of 16 lines, then of the next 8 elements of them.
    let of_others = others + lane % 16 * line + ((lane / 16) ^ (lane % 8)) * PIECE;
    unroll!(4, step => {
        if step < G / 2 {
            let of_rows = |half: usize| {
                let pair = |group: usize, i: usize| {
                    let weights = &weights[half][2 * step + group];
                    pack::<T>(weights[i], weights[i + 1])
                };
                [pair(0, 0), pair(0, 2), pair(1, 0), pair(1, 2)]
            };
            let mut a = [[0; 4]; 2];
            unroll!(2, half => {
                if half < matrices {
                    a[half] = of_rows(half);
                }
            });
            unroll!(8, chunk => {
                if chunk < D / 16 {
                    let at = (of_others ^ (2 * PIECE * chunk as u32)) + step as u32 * 16 * line;
                    // SAFETY: 16 bytes of a line, by the caller's promise; all lanes are here.
                    let b = unsafe { matrix::ldmatrix_x4_trans(memory, at) };
                    unroll!(2, half => {
                        unroll!(2, n => {
                            if half < matrices {
                                let sum = &mut sums[half][2 * chunk + n];
                                *sum = mma::<T>(a[half], [b[2 * n], b[2 * n + 1]], *sum);
                            }
                        });
                    });
                }
            });
        }
    });
}

/// Puts what `of` makes of the sums of each of a lane's lines, rounded, to the warp's lines from byte `own` of the memory on.
///
/// # Safety
///
/// They are in the memory, at a multiple of a line's bytes, and no other warp accesses them.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn put<T: Half, const D: usize>(
    memory: Shared<u8>,
    matrices: usize,
    own: u32,
    sums: &Sums,
    of: impl Fn(usize, f32) -> f32,
) {
    let lane = thread::thread_idx_x() % 32;
    let words = memory.cast::<u32>();
    unroll!(4, line => {
        if line < 2 * matrices {
            let line_at = own + (lane / 4 + 8 * line as u32) * line_bytes(D) + lane % 4 * 4;
            unroll!(16, column => {
                if column < D / 8 {
                    let value = |i: usize| of(line, sums[line / 2][column][line % 2 * 2 + i]);
                    let at = line_at + (column as u32 ^ (lane / 4)) * PIECE;
                    // SAFETY: a word of the warp's lines, by the caller's promise.
                    unsafe { words.set_unchecked(at as usize / 4, pack::<T>(value(0), value(1))) };
                }
            });
        }
    });
}

/// Stores the first `lines` of a warp's lines that were [put](put()) to its memory, from line `first` of an array on, by 16 bytes a lane. For whole
/// warps.
///
/// # Safety
///
/// As [`put`](put()); the array begins at a multiple of 16 bytes, and has the lines.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) unsafe fn store<T: Half, const D: usize>(
    memory: Shared<u8>,
    matrices: usize,
    own: u32,
    out: &SliceMut<'_, T>,
    (first, lines): (usize, u32),
) {
    let lane = thread::thread_idx_x() % 32;
    let words = memory.cast::<u32>();
    let across = D as u32 / ELEMENTS;
    let (row, piece) = (lane / across, lane % across);
    unroll!(16, i => {
        let row = row + i as u32 * (32 / across);
        if row < 16 * matrices as u32 && row < lines {
            let at = own + row * line_bytes(D) + (piece ^ (row % 8)) * PIECE;
            let to = (first + row as usize) * D + (piece * ELEMENTS) as usize;
            // SAFETY: a piece of the warp's, at a multiple of its size; of a line that is in the array, by the caller's promise.
            unsafe {
                let piece: [u32; 4] = words.get_vec_unchecked(at as usize / 4);
                out.set_vec_unchecked(to, bytemuck::cast::<[u32; 4], [T; 8]>(piece));
            }
        }
    });
}
