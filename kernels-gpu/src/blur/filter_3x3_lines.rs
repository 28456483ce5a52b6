// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the 3 × 3 pixels around each, for pictures of one channel: of bytes whose rows begin at vectors, and of `f32`.
//!
//! A thread goes down a strip of the picture. Each row that it reads counts for three rows of results, of which it keeps the sums in
//! registers; so each pixel is loaded once, but for those at a thread's and a strip's edges. A thread's columns lie side by side where
//! rows begin at vectors (`Together`); else a warp's lanes have them in turn (`Apart`), so that its accesses are to neighbours,
//! wherever they begin. Sums are as in [`super::filter`].

use cuda_std::hint;
use cuda_std::prelude::*;

use super::border::{source, split};
use super::filter::THREADS;
use super::sample::Scaled;
use crate::pixel::Pixel;

/// The columns of a thread where a warp's lanes have them in turn.
pub const APART: usize = 4;

/// The exponent of the power of two that bytes are multiplied by.
pub const BYTE_EXPONENT: i32 = <u8 as Scaled<16>>::EXPONENT;

/// The lanes of a warp.
const LANES: usize = 32;

/// The blocks that a multiprocessor is to have room for: as many as leave registers enough for `v` columns.
pub const fn blocks(v: usize) -> usize {
    if v >= 8 { 5 } else { 8 }
}

/// 3 × 3 weights, row by row, for scaled pixels.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, KernelParam)]
pub struct ScaledWeights {
    /// The weights.
    pub weights: [f32; 9],
    /// What the sums of scaled pixels times them are multiplied by, a power of two.
    pub scale: f32,
}

/// The rows of a strip, by where they begin; above and below it, where those begin that the border has there, if it has any.
struct Rows {
    first: usize,
    count: i32,
    width: usize,
    above: Option<usize>,
    below: Option<usize>,
}

impl Rows {
    /// At most `count` rows from row `top` on, of a picture of `height` rows; none beyond it.
    #[inline(always)]
    fn new<T>(picture: &Picture<'_, T>, height: usize, top: usize, count: usize) -> Option<Self> {
        let end = Ord::min(top.saturating_add(count), height);
        if top >= end {
            return None;
        }
        let row = |y: usize| {
            let y = if y < height {
                Some(y)
            } else {
                source(picture.border, y, height)
            };
            y.map(|y| y * picture.width)
        };
        Some(Self {
            first: top * picture.width,
            count: (end - top) as i32,
            width: picture.width,
            above: row(top.wrapping_sub(1)),
            below: row(end),
        })
    }
}

/// A picture, and what lies beyond its edges.
#[derive(Clone, Copy)]
struct Picture<'a, T> {
    pixels: &'a [T],
    width: usize,
    border: u32,
    constant: T,
}

impl<T: Copy + bytemuck::Pod> Picture<'_, T> {
    /// The column before the first of `columns`, and the one behind its last, or what the border has there, if it has any.
    #[inline(always)]
    fn beside(&self, first: usize, count: usize) -> [Option<usize>; 2] {
        let before = if first > 0 {
            Some(first - 1)
        } else {
            source(self.border, usize::MAX, self.width)
        };
        let behind = if self.width - first > count {
            Some(first + count)
        } else {
            source(self.border, self.width, self.width)
        };
        [before, behind]
    }

    /// A pixel of the row that begins at `start`; the constant without a column.
    ///
    /// # Safety
    ///
    /// A row of the picture begins there, which has the column.
    #[inline(always)]
    unsafe fn get(&self, start: usize, column: Option<usize>) -> T {
        column.map_or(self.constant, |column| {
            // SAFETY: a pixel of the picture.
            let [pixel] = unsafe { self.pixels.load_vec_unchecked::<1>(start + column) };
            pixel
        })
    }
}

/// The columns of a thread.
trait Columns<const V: usize> {
    /// What the picture is made of.
    type Pixel: Scaled<V>;

    /// Its pixels in a row, and those beside them, as they are loaded.
    type Row: Copy;

    /// Whether the last row of a strip below which the border has none is left to [`Task::set`]: then the next row is loaded without a branch,
    /// which took twelve instructions a row.
    const LEAVES_LAST: bool;

    /// The pixels of the row that begins at `start`, or constants without a row.
    ///
    /// # Safety
    ///
    /// A row of the picture begins there.
    unsafe fn load(&self, start: Option<usize>) -> Self::Row;

    /// Left neighbours, pixels, and right neighbours, scaled.
    fn neighbours(&self, row: Self::Row) -> [[f32; V]; 3];

    /// Stores the results of the row that begins at `start`.
    ///
    /// # Safety
    ///
    /// `out` has the row, whose pixels of these columns no other thread accesses.
    unsafe fn store(&self, out: &SliceMut<'_, Self::Pixel>, start: usize, results: <Self::Pixel as Scaled<V>>::Words);
}

/// Columns side by side.
struct Together<'a, T> {
    picture: Picture<'a, T>,
    first: usize,
    /// Where the words begin that have the pixels beside them, or others.
    beside: [usize; 2],
    /// Which pixels of their words these are.
    selectors: [u32; 2],
}

impl<'a, T: Copy + bytemuck::Pod> Together<'a, T> {
    /// The `V` columns from `first` on.
    ///
    /// # Safety
    ///
    /// The picture has them, and in each of its rows, as in each that is stored, they begin at a vector of so many.
    #[inline(always)]
    unsafe fn new<const V: usize>(picture: Picture<'a, T>, first: usize) -> Self
    where
        T: Scaled<V>,
    {
        let beside = picture.beside(first, V);
        Self {
            picture,
            first,
            beside: beside.map(|column| {
                let column = column.unwrap_or(first);
                column - column % (4 / size_of::<T>())
            }),
            selectors: beside.map(T::selector),
        }
    }
}

/// `value`, made here: the next row is loaded to where it is from.
#[inline(always)]
fn pinned(value: f32) -> f32 {
    f32::from_bits(hint::pinned(value.to_bits()))
}

/// Pixels side by side, and the words that have those beside them.
#[derive(Clone, Copy)]
struct Pixels<M> {
    left: u32,
    middle: M,
    right: u32,
}

impl<T: Scaled<V>, const V: usize> Columns<V> for Together<'_, T> {
    type Pixel = T;
    type Row = Pixels<T::Words>;

    const LEAVES_LAST: bool = size_of::<T>() < 4;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load(&self, start: Option<usize>) -> Self::Row {
        let Some(start) = start else {
            let word = self.picture.constant.repeated();
            return Pixels {
                left: word,
                middle: bytemuck::cast([self.picture.constant; V]),
                right: word,
            };
        };
        let pixels = self.picture.pixels;
        // SAFETY (of both): the row's, as promised.
        let [left, right] = self
            .beside
            .map(|column| unsafe { T::load_word(pixels, start + column) });
        let middle: [T; V] = unsafe { pixels.load_vec_unchecked(start + self.first) };
        Pixels {
            left,
            middle: bytemuck::cast(middle),
            right,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn neighbours(&self, row: Self::Row) -> [[f32; V]; 3] {
        let beside = |word, selector| pinned(T::one_of(word, self.picture.constant, selector));
        let left = beside(row.left, self.selectors[0]);
        let right = beside(row.right, self.selectors[1]);
        let middle = cuda_std::array::map(T::widen(row.middle), pinned);
        let lefts = cuda_std::array::from_fn(|i| if i == 0 { left } else { middle[i - 1] });
        let rights = cuda_std::array::from_fn(|i| if i + 1 == V { right } else { middle[i + 1] });
        [lefts, middle, rights]
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, out: &SliceMut<'_, T>, start: usize, results: T::Words) {
        let values: [T; V] = bytemuck::cast(results);
        // SAFETY: the row's, as promised.
        unsafe { out.set_vec_unchecked(start + self.first, values) };
    }
}

/// A pixel that the compiler does not join with others to a word, for which it would wait for all of them.
#[derive(Clone, Copy)]
#[repr(align(4))]
struct Apiece<T>(T);

/// Columns of which each is a warp's lanes beyond the one before, so that a warp's are side by side.
struct Apart<'a, T> {
    picture: Picture<'a, T>,
    lane: u32,
    first: usize,
    /// How many the picture has.
    count: usize,
    /// Whether all lanes have all their columns.
    is_whole: bool,
    /// The column beside the warp's, of its first and of its last lane.
    beside: Option<usize>,
}

impl<'a, T: Copy + bytemuck::Pod> Apart<'a, T> {
    /// `count` columns of this lane; those of the warp begin at `first`, which the picture has.
    #[inline(always)]
    fn new(picture: Picture<'a, T>, first: usize, count: usize) -> Self {
        let lane = warp::lane_id();
        let left = picture.width - first;
        let [before, behind] = picture.beside(first, LANES * count);
        Self {
            picture,
            lane,
            first: first + lane as usize,
            count: (left + LANES - 1).saturating_sub(lane as usize) / LANES,
            is_whole: left >= LANES * count,
            beside: if lane == 0 { before } else { behind },
        }
    }

    /// Whether the lane is the one whose neighbour is not in the warp, to the left or to the right.
    #[inline(always)]
    fn is_at_edge(&self) -> [bool; 2] {
        [self.lane == 0, self.lane == LANES as u32 - 1]
    }
}

impl<T: Scaled<V>, const V: usize> Columns<V> for Apart<'_, T> {
    type Pixel = T;
    /// The last is the one beside the warp's.
    type Row = ([Apiece<T>; V], T);

    const LEAVES_LAST: bool = false;

    /// Behind the last column is what the border has there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load(&self, start: Option<usize>) -> Self::Row {
        let constant = self.picture.constant;
        let Some(start) = start else {
            return ([Apiece(constant); V], constant);
        };
        let at = start + self.first;
        // SAFETY (of all): the row's, as promised; the first that count has.
        let column = |k: usize| {
            let [pixel] = unsafe { self.picture.pixels.load_vec_unchecked(at + LANES * k) };
            Apiece(pixel)
        };
        let pixels = if self.is_whole {
            cuda_std::array::from_fn(column)
        } else {
            // Found here, where few come, and not kept.
            let border = hint::opaque(self.picture.border);
            let behind = source(border, self.picture.width, self.picture.width);
            let behind = Apiece(unsafe { self.picture.get(start, behind) });
            cuda_std::array::from_fn(|k| if k < self.count { column(k) } else { behind })
        };
        let mut beside = constant;
        if self.is_at_edge().contains(&true) {
            beside = unsafe { self.picture.get(start, self.beside) };
        }
        (pixels, beside)
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn neighbours(&self, (pixels, beside): Self::Row) -> [[f32; V]; 3] {
        let middle = cuda_std::array::map(pixels, |Apiece(pixel)| pixel.widen_one());
        let beside = beside.widen_one();
        let turned = |by: u32| {
            cuda_std::array::map(middle, |pixel| {
                warp::shuffle(warp::FULL_MASK, pixel, self.lane.wrapping_add(by))
            })
        };
        let (up, down): ([f32; V], [f32; V]) = (turned(LANES as u32 - 1), turned(1));
        // The lane at an edge has its neighbour's of the columns before, or behind.
        let [first, last] = self.is_at_edge();
        let lefts = cuda_std::array::from_fn(|k| match (first, k) {
            (false, _) => up[k],
            (true, 0) => beside,
            (true, _) => up[k - 1],
        });
        let rights = cuda_std::array::from_fn(|k| match (last, k + 1 == V) {
            (false, _) => down[k],
            (true, true) => beside,
            (true, false) => down[k + 1],
        });
        [lefts, middle, rights]
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, out: &SliceMut<'_, T>, start: usize, results: T::Words) {
        let values: [T; V] = bytemuck::cast(results);
        let at = start + self.first;
        // SAFETY (of both): the row's, as promised.
        if self.is_whole {
            for k in 0..V {
                unsafe { out.set_vec_unchecked(at + LANES * k, [values[k]]) };
            }
        } else {
            for k in 0..V {
                if k < self.count {
                    unsafe { out.set_vec_unchecked(at + LANES * k, [values[k]]) };
                }
            }
        }
    }
}

/// The results of all rows of a strip.
///
/// Three rows are on their way while one is added, which is taken from where it was loaded to before the next is loaded to there: ptxas has
/// few names for what is to be waited for, and else waited for the newest. The sums of the row above are complete then, those of its own
/// get their second part, and those of the row below their first. Three rows in turn, so that the names of the sums and of the rows have come
/// round at the end of the loop: in a loop of one row, ptxas moves them from register to register.
///
/// # Safety
///
/// As of [`Columns::load`] and [`Columns::store`], for these rows, which both the picture and `out` have.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn run<C: Columns<V>, const V: usize>(
    columns: &C,
    weights: &ScaledWeights,
    rows: &Rows,
    out: &SliceMut<'_, C::Pixel>,
) {
    let [w0, w1, w2, w3, w4, w5, w6, w7, w8] = weights.weights;
    // Where the row begins that is loaded next, and how many are to be loaded yet, that below the strip among them.
    let (mut read, mut left) = (rows.first + rows.width, rows.count);
    let mut load_next = || {
        // The last once more, behind it: a branch without a load would keep what the registers had, and move it.
        let mut start = if left > 1 { Some(read) } else { rows.below };
        if C::LEAVES_LAST {
            start = Some(start.unwrap_or(rows.first));
        }
        read += rows.width;
        left -= 1;
        // SAFETY: one of the strip's rows, or the border's.
        unsafe { columns.load(start) }
    };
    // SAFETY (of both): as above.
    let mut one = unsafe { columns.load(rows.above) };
    let mut two = unsafe { columns.load(Some(rows.first)) };
    let mut three = load_next();
    let row = columns.neighbours(one);
    one = load_next();
    let here = add(&row, [0.0; V], [w0, w1, w2]);
    let row = columns.neighbours(two);
    two = load_next();
    let mut above = add(&row, here, [w3, w4, w5]);
    let mut here = add(&row, [0.0; V], [w0, w1, w2]);
    let (mut write, mut count) = (rows.first, rows.count);
    let is_packed = size_of::<C::Pixel>() < 4;
    let mut step = |above: [f32; V], here: [f32; V], current: &mut C::Row| {
        let row = columns.neighbours(*current);
        if is_packed {
            *current = load_next();
        }
        let done = add(&row, above, [w6, w7, w8]);
        // SAFETY: a row of the strip.
        unsafe { columns.store(out, write, C::Pixel::round(done, weights.scale)) };
        write += rows.width;
        count -= 1;
        let here = add(&row, here, [w3, w4, w5]);
        let below = add(&row, [0.0; V], [w0, w1, w2]);
        if !is_packed {
            *current = load_next();
        }
        (here, below, count > 0)
    };
    loop {
        let (a, b, more) = step(above, here, &mut three);
        if !more {
            break;
        }
        let (b, c, more) = step(a, b, &mut one);
        if !more {
            break;
        }
        let more;
        (above, here, more) = step(b, c, &mut two);
        if !more {
            break;
        }
    }
}

/// `sums` and the products of three `weights` with the left neighbours, the pixels and the right neighbours of a row.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add<const V: usize>([left, middle, right]: &[[f32; V]; 3], sums: [f32; V], [a, b, c]: [f32; 3]) -> [f32; V] {
    cuda_std::array::from_fn(|j| {
        let sum = Float::mul_add(b, middle[j], Float::mul_add(a, left[j], sums[j]));
        Float::mul_add(c, right[j], sum)
    })
}

/// A picture that is filtered.
struct Task<'a, T> {
    picture: Picture<'a, T>,
    height: usize,
    weights: &'a ScaledWeights,
    out: &'a SliceMut<'a, T>,
}

impl<T: Pixel> Task<'_, T> {
    /// Sets one pixel, of any place.
    ///
    /// # Safety
    ///
    /// The picture and `out` have it, which no other thread accesses.
    #[inline(always)]
    unsafe fn set<const V: usize>(&self, x: usize, y: usize)
    where
        T: Scaled<V>,
    {
        let Picture { width, border, .. } = self.picture;
        let place = |i: usize, n: usize| if i < n { Some(i) } else { source(border, i, n) };
        let columns = [x.wrapping_sub(1), x, x + 1].map(|x| place(x, width));
        let add_row = |y: usize, sum: f32, [a, b, c]: [f32; 3]| {
            let start = place(y, self.height).map(|y| y * width);
            let [left, middle, right] = columns.map(|column| {
                // SAFETY: a row of the picture, which has the column.
                let pixel = start.map_or(self.picture.constant, |start| unsafe {
                    self.picture.get(start, column)
                });
                pixel.widen_one()
            });
            Float::mul_add(c, right, Float::mul_add(b, middle, Float::mul_add(a, left, sum)))
        };
        let [w0, w1, w2, w3, w4, w5, w6, w7, w8] = self.weights.weights;
        let sum = add_row(y.wrapping_sub(1), 0.0, [w0, w1, w2]);
        let sum = add_row(y, sum, [w3, w4, w5]);
        let sum = add_row(y + 1, sum, [w6, w7, w8]);
        let pixel = T::from_f32(sum * self.weights.scale);
        // SAFETY: as promised.
        unsafe { self.out.set_vec_unchecked(y * width + x, [pixel]) };
    }
}

/// `out` is, for each pixel, the sum of the 3 × 3 around it times the weights, rounded as [`Pixel::from_f32`].
/// Beyond the edges lies `border` (a number of [`super::border`]), or `constant` if that has no pixel. `pixels` and `out` hold `height`
/// rows of `width` pixels, or nothing is done. Block `(i, j)`, of [`THREADS`] threads, treats the `rows` rows from row `rows j` on: if each
/// row begins at a vector, `V` columns for each thread in one of `V / APART` parts of the rows, else [`APART`] columns by a warp's lanes in
/// turn.
#[kernel(T = [u8], V = [16]; T = [f32], V = [4], arch = "sm_75", max_threads = THREADS, min_blocks = blocks(V))]
pub fn filter_3x3_lines<T: Scaled<V> + Scaled<APART>, const V: usize>(
    pixels: &[T],
    width: usize,
    height: usize,
    rows: u32,
    border: u32,
    weights: ScaledWeights,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let elements = width.checked_mul(height);
    if elements.is_none_or(|elements| elements > Ord::min(pixels.len(), out.len())) {
        return;
    }
    let picture = Picture {
        pixels,
        width,
        border,
        constant,
    };
    let (block, thread) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let rows = rows as usize;
    let top = (thread::block_idx_y() as usize).saturating_mul(rows);
    if width.is_multiple_of(V) && pixels.is_vec_aligned::<V>() && out.is_vec_aligned::<V>() {
        let (block, part) = split(block, V / APART);
        let share = rows.div_ceil(V / APART);
        let (first, start) = ((block * THREADS + thread) * V, Ord::min(part * share, rows));
        let strip = Rows::new(
            &picture,
            height,
            top.saturating_add(start),
            Ord::min(share, rows - start),
        );
        if let (true, Some(strip)) = (first < width, strip) {
            // SAFETY (of both): rows of the picture, which `out` has too, and columns of theirs, which are this thread's; each row begins
            // at a multiple of the vector, as the columns do.
            unsafe { run::<_, V>(&Together::new::<V>(picture, first), &weights, &strip, &out) };
            if <Together<'_, T> as Columns<V>>::LEAVES_LAST && strip.below.is_none() {
                let task = Task {
                    picture,
                    height,
                    weights: &weights,
                    out: &out,
                };
                for x in first..first + V {
                    // SAFETY: a pixel of this thread's.
                    unsafe { task.set::<V>(x, height - 1) };
                }
            }
        }
    } else {
        let first = (block * THREADS + (thread & !(LANES - 1))) * APART;
        if let (true, Some(strip)) = (first < width, Rows::new(&picture, height, top, rows)) {
            // SAFETY: rows as above, and the warp's own columns.
            unsafe { run::<_, APART>(&Apart::new(picture, first, APART), &weights, &strip, &out) };
        }
    }
}
