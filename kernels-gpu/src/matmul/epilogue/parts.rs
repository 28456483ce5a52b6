// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums in parts that have nothing else done to them: [`finish_sums`](fn@super::finish_sums) does the same by more
//! instructions, and by threads of which a multiprocessor has room for fewer.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{MulAdd, set_row};
use crate::matmul::unroll;
use crate::num::Num;

/// The parts that there may be.
pub const MOST_PARTS: usize = 64;

/// The parts that a thread has at most: it loads all of its sums' at once.
pub const OF_THREAD: usize = 8;

/// Loads under way at once, where a thread has no more parts: those beyond its last part are for nothing.
pub(super) const FEW: usize = 4;

/// Threads of a block, of this kernel and of [`finish_sums`](fn@super::finish_sums).
pub const THREADS: usize = 256;

/// Neighbours of a row that a thread adds up, whose sums have so many bytes.
pub const fn width(bytes: usize) -> usize {
    if bytes == 8 { 2 } else { 4 }
}

/// Columns of a thread.
pub const WIDTH: usize = width(size_of::<f32>());

/// `out[i, j]`, of rows of `n` one after another, is the sum of `sums[p, i, j]` over all parts `p`, in their order, rounded to the
/// type of the result. Threads that differ along z alone have `share` parts each, one after another, and their sums are then added in
/// their order. A part has `rows` rows, each `pitch` elements behind the one before it.
///
/// A block has at most [`THREADS`] threads: [`WIDTH`] columns for each along x, a row along y, parts along z. The grid has all columns
/// along x and all rows along y.
///
/// # Safety
///
/// `share` is 1 to [`OF_THREAD`], and each thread along z has a part, and all of them every one. `sums` has the elements of these `parts`,
/// `parts · rows · pitch`, fewer than 2³², and begins at a multiple of [`WIDTH`] of them, as each row does. `out` has `rows · n` elements;
/// `n` is at most `pitch`.
#[kernel(T = [f32, i32, bf16, f16], max_threads = THREADS)]
pub unsafe fn sum_parts<T: Num<Wide: MulAdd>>(
    sums: Slice<'_, <T as Num>::Wide>,
    out: SliceMut<'_, T>,
    parts: u32,
    share: u32,
    rows: u32,
    n: u32,
    pitch: u32,
) {
    let column = WIDTH as u32 * (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x());
    let row = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
    let is_there = row < rows && column < n;
    let mut values = [<T as Num>::Wide::ZERO; WIDTH];
    if is_there {
        let of_part = rows * pitch;
        let begin = thread::thread_idx_z() * share;
        let (first, mine) = (begin * of_part + row * pitch + column, Ord::min(share, parts - begin));
        // SAFETY: a part's number; there are fewer than 2³² elements, of which row and column have a vector.
        let load = |part: usize| unsafe {
            let part = Ord::min(part as u32, mine - 1);
            sums.get_vec_unchecked((part * of_part + first) as usize)
        };
        values = match share {
            ..=4 => add::<_, FEW, WIDTH>(mine, load),
            _ => add::<_, OF_THREAD, WIDTH>(mine, load),
        };
    }
    let values = cuda_std::array::map(add_groups(values, shared_array![u64; 2 * THREADS].cast()), T::narrow);
    if is_there && thread::thread_idx_z() == 0 {
        let (n, row, column) = (n as usize, row as usize, column as usize);
        // SAFETY: row and column are in `out`.
        unsafe { set_row(out, [0, n, 1], [0, row, column], n, values) };
    }
}

/// The sums of so many parts, of which there are at most `MOST`, all loaded ahead of the first addition.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn add<W: MulAdd, const MOST: usize, const N: usize>(parts: u32, load: impl Fn(usize) -> [W; N]) -> [W; N] {
    let loaded: [[W; N]; MOST] = cuda_std::array::from_fn(load);
    let mut values = loaded[0];
    unroll!(8, part => {
        if part > 0 && part < MOST && (part as u32) < parts {
            let next = loaded[part % MOST];
            values = cuda_std::array::from_fn(|i| values[i].add(next[i]));
        }
    });
    values
}

/// For the first thread along z the sums of all of these that differ along z alone, in their order; `room` has [`N`](width) for each
/// thread. For all threads of the block.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn add_groups<W: MulAdd, const N: usize>(mut values: [W; N], room: Shared<W>) -> [W; N] {
    if thread::block_dim_z() > 1 {
        let of_group = thread::block_dim_x() * thread::block_dim_y();
        let within = thread::thread_idx_y() * thread::block_dim_x() + thread::thread_idx_x();
        let at = |group: u32| N * (group * of_group + within) as usize;
        // SAFETY (of both): there is room for each thread of a block.
        unsafe { room.set_vec_unchecked(at(thread::thread_idx_z()), values) };
        thread::sync_threads();
        if thread::thread_idx_z() == 0 {
            let mut group = 1;
            while group < thread::block_dim_z() {
                let next: [W; N] = unsafe { room.get_vec_unchecked(at(group)) };
                values = cuda_std::array::from_fn(|i| values[i].add(next[i]));
                group += 1;
            }
        }
    }
    values
}
