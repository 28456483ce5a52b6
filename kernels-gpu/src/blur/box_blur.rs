// SPDX-License-Identifier: MIT OR Apache-2.0
//! The box blur of any radius: the mean of a square window, in a time that does not depend on the radius.
//!
//! The mean over a window of `w = 2 radius + 1` rows and columns is a sum of sums: `box_rows` sums along each row,
//! `box_columns` sums these sums along each column, and divides. Both keep a running sum (M. J. McDonnell,
//! "Box-filtering techniques", 1981): from one window to the next a number enters and one leaves. A row or column is
//! cut into strips at least as long as the window, each of which begins with a sum of its own, so a number is read at
//! most three times in each pass, whatever the radius; and what rounding a float sum carries along ends with its strip.
//!
//! Along a row, a warp treats 32 numbers at a time: each lane takes the difference of what enters and what leaves, and
//! a scan of these over the lanes of one channel, added to the last window's sum, gives 32 windows' sums. Along a
//! column, each thread has its own.
//!
//! Work `n`, span of a strip; for `n` pixels of `C` channels, of `p` bytes each and row sums of `s` bytes, `2 C n (p +
//! s)` bytes are moved where the cache holds what leaves, and at most `C n (4 p + 4 s)`.

use cuda_std::prelude::*;

use super::border::{Column, MISSING, Row, existing, split};
use super::sums::{Bytes, Divisor, Floats, Running, Sums, WideWords, Words};

/// Threads of a block of either pass.
pub const THREADS: usize = 256;

/// The warps of a block: each treats one strip of a row.
pub const WARPS: usize = THREADS / 32;

/// Blocks of `box_rows` on a multiprocessor, at the least: few enough that no kernel spills registers, which hold the
/// sums.
const fn row_blocks<P: Sums>() -> usize {
    if size_of::<P::Row>() <= 8 { 4 } else { 3 }
}

/// Blocks of `box_columns`, likewise.
const COLUMN_BLOCKS: usize = 2;

/// Windows of a warp, or of a thread, whose loads are in flight together.
const UNROLL: usize = 4;

/// Pixels of a strip of a row.
pub const fn row_strip(radius: usize) -> usize {
    at_least(256, radius)
}

/// Rows of a strip of columns.
pub const fn column_strip(radius: usize) -> usize {
    at_least(32, radius)
}

const fn at_least(least: usize, radius: usize) -> usize {
    if 2 * radius + 1 > least { 2 * radius + 1 } else { least }
}

/// `sums` is, for each channel of each pixel, the sum of those from `radius` to the left to `radius` to the right,
/// where beyond the row's ends lies `border` (a number of [`super::border`]), or `constant` if that has no pixel. A
/// fourth channel is kept instead. `pixels` and `sums` hold rows of `width` pixels one after another; `radius ≤ width`,
/// or nothing is done. Each warp treats one strip of [`row_strip`] pixels of a row, and
/// then the one as many strips on as there are warps; a block has [`THREADS`] threads, or nothing is
/// done.
#[kernel(P = [Bytes, Words, WideWords, Floats], C = [1, 3, 4], max_threads = THREADS, min_blocks = row_blocks::<P>())]
pub fn box_rows<P: Sums, const C: usize>(
    pixels: &[<P as Sums>::Pixel],
    width: usize,
    radius: usize,
    border: u32,
    constant: <P as Sums>::Pixel,
    sums: SliceMut<'_, <P as Sums>::RowSum>,
) {
    let Some(row_len) = width.checked_mul(C) else {
        return;
    };
    // With a row in both arrays, and a window of three rows at most, no sum of places overflows.
    let (height, _) = split(Ord::min(pixels.len(), sums.len()), row_len);
    if height == 0 || radius > width || thread::block_dim_x() as usize != THREADS {
        return;
    }
    let strip = row_strip(radius);
    let strips = width.div_ceil(strip);
    let mut task = thread::index_1d() / 32;
    loop {
        let (y, number) = split(task, strips);
        if y >= height {
            return;
        }
        let first = number * strip;
        let end = Ord::min(first + strip, width);
        // SAFETY: `y < height`, so both have that row.
        unsafe {
            let row = Row::<_, C>::new(pixels, y, width, border, constant);
            sum_strip::<P, C>(&row, first * C, end * C, radius, sums, y * width * C);
        }
        task += thread::stride_1d() / 32;
    }
}

/// The sums of elements `first .. end` of a row, into `sums` from `start` on. All lanes of a warp call it.
///
/// # Safety
///
/// `first` is a multiple of `C`, and `sums` has `start + end` elements.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn sum_strip<P: Sums, const C: usize>(
    row: &Row<'_, P::Pixel, C>,
    first: usize,
    end: usize,
    radius: usize,
    sums: SliceMut<'_, P::RowSum>,
    start: usize,
) {
    let (ahead, behind) = (radius * C, (radius + 1) * C);
    let lane = warp::lane_id() as usize;
    // The highest lane of this lane's channel, and the one whose channel this lane has 32 elements later.
    let (highest, last) = ((31 - (31 - lane) % C) as u32, (32 - C + lane % C) as u32);
    let is_alpha = C == 4 && lane % 4 == 3;
    // The window of the first pixel but for its last one, which enters below.
    let mut before = P::Row::ZERO;
    let step = 32 / C * C;
    let mut i = lane;
    while lane < step && i < 2 * ahead {
        before = before.add(P::enter_row(row.get((first + i).wrapping_sub(ahead))));
        i += step;
    }
    let mut before = before.scan::<C>().shuffle(highest);
    // Of an element of the row, before `end`.
    let keep = |element: usize, sum: P::Row| {
        let value = if is_alpha {
            P::keep(row.get(element))
        } else {
            P::row_sum(sum)
        };
        // SAFETY: the caller's promise; every element is aligned for itself.
        unsafe { sums.set_vec_unchecked(start + element, [value]) };
    };
    let (mut base, mut is_first) = (first, true);
    while base < end {
        let next = base + UNROLL * 32;
        if !is_first && base >= behind && next <= end && next + ahead <= row.len() {
            // SAFETY (of both): from `base − behind` to before `next + ahead`, within the row.
            let at = |u: usize| base + u * 32 + lane;
            let entering: [P::Pixel; UNROLL] = cuda_std::array::from_fn(|u| unsafe { row.inside(at(u) + ahead) });
            let leaving: [P::Pixel; UNROLL] = cuda_std::array::from_fn(|u| unsafe { row.inside(at(u) - behind) });
            // By constant indices once unrolled: an iterator over the array would keep it in local memory.
            for u in 0..UNROLL {
                let step = P::enter_row(entering[u]).sub(P::enter_row(leaving[u]));
                let sum = before.add(step.scan::<C>());
                before = sum.shuffle(last);
                keep(at(u), sum);
            }
            base = next;
            continue;
        }
        let element = base + lane;
        let mut step = P::Row::ZERO;
        if element < end {
            step = P::enter_row(row.get(element + ahead));
            if !is_first || lane >= C {
                step = step.sub(P::enter_row(row.get(element.wrapping_sub(behind))));
            }
        }
        let sum = before.add(step.scan::<C>());
        before = sum.shuffle(last);
        if element < end {
            keep(element, sum);
        }
        (base, is_first) = (base + 32, false);
    }
}

/// `out` is, for each channel of each pixel, the mean of the window of which `sums` has the sums of the rows: those
/// from `radius` above to `radius` below, where above and below the picture lies `border`, or rows of `constant` if
/// that has no row. A fourth channel is what was kept. `sums` and `out` hold rows of `width` pixels of `channels`
/// channels one after another; `radius` is at most the number of rows and at most `width`, or nothing is done. Each
/// block treats [`THREADS`] columns of a strip of [`column_strip`] rows, and then those as many on as there are blocks.
#[kernel(P = [Bytes, Words, WideWords, Floats], max_threads = THREADS, min_blocks = COLUMN_BLOCKS)]
pub fn box_columns<P: Sums>(
    sums: &[<P as Sums>::RowSum],
    width: usize,
    channels: usize,
    radius: usize,
    border: u32,
    constant: <P as Sums>::Pixel,
    out: SliceMut<'_, <P as Sums>::Pixel>,
) {
    let Some(row_len) = width.checked_mul(channels) else {
        return;
    };
    // With a row in both arrays, and a window of at most three times the picture, no sum or number of pixels overflows.
    let (height, _) = split(Ord::min(sums.len(), out.len()), row_len);
    if height == 0 || radius > Ord::min(width, height) {
        return;
    }
    let strip = column_strip(radius);
    let threads = thread::block_dim_x() as usize;
    let (blocks, _) = split(row_len + threads - 1, threads);
    let mut task = thread::block_idx_x() as usize;
    while task < blocks * height.div_ceil(strip) {
        let (number, block) = split(task, blocks);
        let (first, j) = (number * strip, block * threads + thread::thread_idx_x() as usize);
        task += thread::grid_dim_x() as usize;
        if j >= row_len {
            continue;
        }
        let rows = first..Ord::min(first + strip, height);
        let constant = P::constant_row(constant, 2 * radius as u64 + 1);
        // SAFETY (of all): `j < row_len`, and both arrays have `height` rows of that length.
        let column = unsafe { Column::new(sums, row_len, height, j, border, constant) };
        let set = |y: usize, value| unsafe { out.set_vec_unchecked(y * row_len + j, [value]) };
        if channels == 4 && j % 4 == 3 {
            for y in rows {
                set(y, P::kept(column.get(y)));
            }
            continue;
        }
        let window = Window {
            radius,
            columns: if border == MISSING {
                existing(split(j, channels).0, radius, width)
            } else {
                2 * radius + 1
            },
            height: (border == MISSING).then_some(height),
        };
        mean_strip::<P>(&column, rows, window, set);
    }
}

/// The windows of a column of pixels.
struct Window {
    radius: usize,
    /// How many columns they have.
    columns: usize,
    /// The rows of the picture, if those beyond are missing.
    height: Option<usize>,
}

impl Window {
    /// How many rows the window around row `y` has.
    #[inline(always)]
    fn rows(&self, y: usize) -> usize {
        match self.height {
            Some(height) => existing(y, self.radius, height),
            None => 2 * self.radius + 1,
        }
    }
}

/// Sets the means of the windows around `rows`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn mean_strip<P: Sums>(
    column: &Column<'_, P::RowSum>,
    rows: core::ops::Range<usize>,
    window: Window,
    set: impl Fn(usize, P::Pixel),
) {
    let radius = window.radius;
    let mut sum = P::Column::ZERO;
    for i in 0..2 * radius {
        sum = sum.add(P::enter_column(column.get((rows.start + i).wrapping_sub(radius))));
    }
    let mut count = window.rows(rows.start);
    let mut divisor = Divisor::new((window.columns * count) as u64);
    let mut y = rows.start;
    while y < rows.end {
        let rows_around = window.rows(y);
        if rows_around != count {
            count = rows_around;
            divisor = Divisor::new((window.columns * count) as u64);
        }
        if y + UNROLL <= rows.end && column.has_around(y, radius, UNROLL - 1 + radius) {
            // Windows of as many rows, whose loads are in flight together.
            // SAFETY (of both): from `y − radius` to `y + UNROLL − 1 + radius`, which are there, as just asked.
            let entering: [P::RowSum; UNROLL] = cuda_std::array::from_fn(|u| unsafe { column.inside(y + u + radius) });
            let leaving: [P::RowSum; UNROLL] = cuda_std::array::from_fn(|u| unsafe { column.inside(y + u - radius) });
            for u in 0..UNROLL {
                sum = sum.add(P::enter_column(entering[u]));
                set(y + u, P::mean(sum, divisor));
                sum = sum.sub(P::enter_column(leaving[u]));
            }
            y += UNROLL;
        } else {
            sum = sum.add(P::enter_column(column.get(y + radius)));
            set(y, P::mean(sum, divisor));
            sum = sum.sub(P::enter_column(column.get(y.wrapping_sub(radius))));
            y += 1;
        }
    }
}
