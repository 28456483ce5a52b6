// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums in few parts that have nothing else done to them: [`finish_sums`](fn@super::finish_sums) does the same by three times
//! as many instructions, and by threads of which a multiprocessor has room for half as many.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::{MulAdd, THREADS, set_row};
use crate::matmul::unroll;
use crate::num::Num;

/// The parts that there may be: a thread loads all of its sums' at once.
pub const MOST_PARTS: usize = 8;

/// Loads under way at once, where there are no more parts: those beyond the last part are for nothing.
const FEW: usize = 4;

/// Columns of a thread.
pub const WIDTH: usize = super::width(size_of::<f32>());

/// `out[i, j]`, of rows of `n` one after another, is the sum of `sums[p, i, j]` over all parts `p`, in their order, rounded to the
/// type of the result. A part has `rows` rows, each `pitch` elements behind the one before it.
///
/// A block has at most [`THREADS`] threads: [`WIDTH`] columns for each along x, a row along y. The grid has all columns along x
/// and all rows along y.
///
/// # Safety
///
/// There are 1 to [`MOST_PARTS`] parts. `sums` has their `parts · rows · pitch` elements, fewer than 2³², and begins at a multiple of
/// [`WIDTH`] of them, as each row does. `out` has `rows · n` elements; `n` is at most `pitch`.
#[kernel(T = [f32, i32, bf16, f16], max_threads = THREADS)]
pub unsafe fn sum_parts<T: Num<Wide: MulAdd>>(
    sums: Slice<'_, <T as Num>::Wide>,
    out: SliceMut<'_, T>,
    parts: u32,
    rows: u32,
    n: u32,
    pitch: u32,
) {
    let column = WIDTH as u32 * (thread::block_idx_x() * thread::block_dim_x() + thread::thread_idx_x());
    let row = thread::block_idx_y() * thread::block_dim_y() + thread::thread_idx_y();
    if row >= rows || column >= n {
        return;
    }
    let (first, of_part) = (row * pitch + column, rows * pitch);
    // SAFETY: a part's number; there are fewer than 2³² elements, of which row and column have a vector.
    let load = |part: usize| unsafe {
        let part = Ord::min(part as u32, parts - 1);
        sums.get_vec_unchecked((part * of_part + first) as usize)
    };
    let values = match parts {
        ..=4 => add::<_, FEW>(parts, load),
        _ => add::<_, MOST_PARTS>(parts, load),
    };
    let values = cuda_std::array::map(values, T::narrow);
    let (n, row, column) = (n as usize, row as usize, column as usize);
    // SAFETY: row and column are in `out`.
    unsafe { set_row(out, [0, n, 1], [0, row, column], n, values) };
}

/// The sums of so many parts, of which there are at most `MOST`, all loaded ahead of the first addition.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add<W: MulAdd, const MOST: usize>(parts: u32, load: impl Fn(usize) -> [W; WIDTH]) -> [W; WIDTH] {
    let loaded: [[W; WIDTH]; MOST] = cuda_std::array::from_fn(load);
    let mut values = loaded[0];
    unroll!(8, part => {
        if part > 0 && part < MOST && (part as u32) < parts {
            let next = loaded[part % MOST];
            values = cuda_std::array::from_fn(|i| values[i].add(next[i]));
        }
    });
    values
}
