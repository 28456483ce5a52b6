// SPDX-License-Identifier: MIT OR Apache-2.0
//! Weighted sums of the `N × N` pixels around each, of any number of channels, for rows of any width.
//!
//! A thread has several neighbours of a channel and goes down a strip of the picture. Each row that it reads counts for `N` rows of results,
//! of which it keeps the sums in registers; so each number is loaded and widened once, but for those at a thread's and a strip's edges. Rows
//! of one channel that begin at vectors are read by vectors (`Vectors`), others number by number (`Singles`). The weights are
//! parameters, which multiply-adds read from where they are. Sums are as in [`super::filter`].

use cuda_std::hint;
use cuda_std::prelude::*;

use super::border::{source, split};
use super::filter::THREADS;
use super::sample::Scaled;
use crate::matmul::unroll;

/// The most numbers to either side of a thread's that its windows have.
const BESIDE: usize = 3;

/// The blocks that a multiprocessor is to have room for: as many as leave registers enough for weights of `n × n`.
pub const fn blocks(n: usize) -> usize {
    if n > 5 { 2 } else { 4 }
}

/// The exponent of the power of two that integers of 16 bits are multiplied by.
pub const WORD_EXPONENT: i32 = <u16 as Scaled<8>>::EXPONENT;

/// A picture, and what lies beyond its edges.
#[derive(Clone, Copy)]
struct Picture<'a, T> {
    pixels: &'a [T],
    width: usize,
    height: usize,
    channels: usize,
    border: u32,
    constant: T,
}

impl<T> Picture<'_, T> {
    /// The column that stands for column `x`, if the border has one; one before the first has wrapped around.
    #[inline(always)]
    fn column(&self, x: usize) -> Option<usize> {
        if x < self.width {
            Some(x)
        } else {
            source(self.border, x, self.width)
        }
    }
}

/// The rows of a strip.
struct Rows {
    /// The first one, and how many there are.
    top: usize,
    count: u32,
    /// The rows that are read begin above the first: so many of them are above the picture, and so many in it.
    above: u32,
    inside: u32,
    /// The numbers of a row of the picture.
    stride: usize,
}

impl Rows {
    /// At most `count` rows from row `top` on, of windows that go `radius` beyond; none beyond the picture.
    #[inline(always)]
    fn new<T>(picture: &Picture<'_, T>, top: usize, count: u32, radius: usize) -> Option<Self> {
        if top >= picture.height {
            return None;
        }
        let left = picture.height - top;
        let count = Ord::min(count as usize, left);
        let above = radius.saturating_sub(top);
        Some(Self {
            top,
            count: count as u32,
            above: above as u32,
            inside: (Ord::min(count + radius, left) + radius - above) as u32,
            stride: picture.width * picture.channels,
        })
    }
}

/// The numbers of a row that a thread's windows have, as floats.
struct Window<const V: usize> {
    left: [f32; BESIDE],
    middle: [f32; V],
    right: [f32; BESIDE],
}

impl<const V: usize> Window<V> {
    /// Number `i` of a window that begins `radius` before the thread's first.
    #[inline(always)]
    fn get(&self, i: usize, radius: usize) -> f32 {
        if i < radius {
            self.left[i]
        } else if i < radius + V {
            self.middle[i - radius]
        } else {
            self.right[i - radius - V]
        }
    }
}

/// Words of a row, as they are loaded: of the numbers beside a thread's, and its own.
#[derive(Clone, Copy)]
struct Row<M> {
    beside: [[u32; BESIDE]; 2],
    middle: M,
}

/// The columns of a thread.
trait Columns<const V: usize, const N: usize> {
    /// What the picture is made of.
    type Pixel: Scaled<V>;

    /// Its own numbers, as they are loaded.
    type Words: Copy;

    /// How many of those beside them a word has.
    const EACH: usize;

    /// How many rows are on their way, 1 or `N`: `N` where the registers have room for so many.
    const AHEAD: usize;

    /// The numbers of the row that begins at `start`.
    ///
    /// # Safety
    ///
    /// A row of the picture begins there.
    unsafe fn load(&self, start: usize) -> Row<Self::Words>;

    /// A row of the border's constant.
    fn constant(&self) -> Row<Self::Words>;

    /// Numbers of a row, scaled.
    fn widen(&self, row: Row<Self::Words>) -> Window<V>;

    /// Stores the results of the row that begins at `start`.
    ///
    /// # Safety
    ///
    /// The picture and `out` have the row, of whose numbers in `out` no other thread accesses those of these columns.
    unsafe fn store(&self, out: &SliceMut<'_, Self::Pixel>, start: usize, results: <Self::Pixel as Scaled<V>>::Words);
}

/// Where the words begin that have the numbers beside a thread's, and which of their words those are.
struct Beside {
    at: [[u32; BESIDE]; 2],
    selectors: [[u32; BESIDE]; 2],
}

impl Beside {
    /// Of columns from `first` on, as `C` has them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new<C: Columns<V, N>, const V: usize, const N: usize>(picture: &Picture<'_, C::Pixel>, first: usize) -> Self {
        let mut beside = Self {
            at: [[0; BESIDE]; 2],
            selectors: [[0; BESIDE]; 2],
        };
        for side in 0..2 {
            for i in 0..N / 2 {
                let x = if side == 0 {
                    first.wrapping_sub(1 + i)
                } else {
                    first + V + i
                };
                let column = picture.column(x);
                let within = column.unwrap_or(first) % C::EACH;
                if i % C::EACH == 0 {
                    beside.at[side][i / C::EACH] = (column.unwrap_or(first) - within) as u32;
                }
                beside.selectors[side][i] = <C::Pixel as Scaled<V>>::selector(column.map(|_| within));
            }
        }
        beside
    }

    /// The numbers before the thread's, and behind them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen<C: Columns<V, N>, const V: usize, const N: usize>(
        &self,
        [left, right]: [[u32; BESIDE]; 2],
        constant: C::Pixel,
    ) -> [[f32; BESIDE]; 2] {
        let mut numbers = [[0.0; BESIDE]; 2];
        for i in 0..N / 2 {
            let one = |word: u32, selector: u32| pinned(<C::Pixel as Scaled<V>>::one_of(word, constant, selector));
            numbers[0][N / 2 - 1 - i] = one(left[i / C::EACH], self.selectors[0][i]);
            numbers[1][i] = one(right[i / C::EACH], self.selectors[1][i]);
        }
        numbers
    }
}

/// `value`, made here: the next row is loaded to where it is from.
#[inline(always)]
fn pinned(value: f32) -> f32 {
    f32::from_bits(hint::pinned(value.to_bits()))
}

/// Columns of one channel in rows that begin at vectors.
struct Vectors<'a, T> {
    picture: Picture<'a, T>,
    first: u32,
    beside: Beside,
}

impl<T: Scaled<V>, const V: usize, const N: usize> Columns<V, N> for Vectors<'_, T> {
    type Pixel = T;
    type Words = T::Words;

    const EACH: usize = 4 / size_of::<T>();
    const AHEAD: usize = N;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load(&self, start: usize) -> Row<T::Words> {
        let pixels = self.picture.pixels;
        let mut beside = [[0; BESIDE]; 2];
        for side in 0..2 {
            for i in 0..(N / 2).div_ceil(4 / size_of::<T>()) {
                // SAFETY: the row's, as promised.
                beside[side][i] = unsafe { T::load_word(pixels, start + self.beside.at[side][i] as usize) };
            }
        }
        // SAFETY: as above.
        let middle: [T; V] = unsafe { pixels.load_vec_unchecked(start + self.first as usize) };
        Row {
            beside,
            middle: bytemuck::cast(middle),
        }
    }

    #[inline(always)]
    fn constant(&self) -> Row<T::Words> {
        Row {
            beside: [[self.picture.constant.repeated(); BESIDE]; 2],
            middle: bytemuck::cast([self.picture.constant; V]),
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen(&self, row: Row<T::Words>) -> Window<V> {
        let [left, right] = self.beside.widen::<Self, V, N>(row.beside, self.picture.constant);
        Window {
            left,
            middle: cuda_std::array::map(T::widen(row.middle), pinned),
            right,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, out: &SliceMut<'_, T>, start: usize, results: T::Words) {
        let values: [T; V] = bytemuck::cast(results);
        // SAFETY: the row's, as promised.
        unsafe { out.set_vec_unchecked(start + self.first as usize, values) };
    }
}

/// Columns of any channel, number by number.
struct Singles<'a, T> {
    picture: Picture<'a, T>,
    /// Where the first of them is in a row, in numbers.
    first: u32,
    /// The columns before these are another thread's.
    skip: u32,
    /// Whether the channel is kept as it is. Its sums are made, too: the threads of a warp have all channels.
    is_kept: bool,
    beside: Beside,
}

impl<T: Scaled<V>, const V: usize, const N: usize> Columns<V, N> for Singles<'_, T> {
    type Pixel = T;
    type Words = [u32; V];

    const EACH: usize = 1;
    const AHEAD: usize = if size_of::<T>() == 4 { N } else { 1 };

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load(&self, start: usize) -> Row<[u32; V]> {
        let get = |at: u32| {
            // SAFETY: the row's, as promised.
            let [number] = unsafe { self.picture.pixels.load_vec_unchecked::<1>(start + at as usize) };
            number.word()
        };
        let mut beside = [[0; BESIDE]; 2];
        for side in 0..2 {
            for i in 0..N / 2 {
                beside[side][i] = get(self.beside.at[side][i]);
            }
        }
        let channels = hint::pinned(self.picture.channels as u32);
        let mut at = self.first;
        let middle = cuda_std::array::from_fn(|_| {
            let word = get(at);
            at += channels;
            word
        });
        Row { beside, middle }
    }

    #[inline(always)]
    fn constant(&self) -> Row<[u32; V]> {
        let word = self.picture.constant.word();
        Row {
            beside: [[word; BESIDE]; 2],
            middle: [word; V],
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn widen(&self, row: Row<[u32; V]>) -> Window<V> {
        let constant = self.picture.constant;
        let [left, right] = self.beside.widen::<Self, V, N>(row.beside, constant);
        Window {
            left,
            middle: cuda_std::array::map(row.middle, |word| {
                pinned(T::one_of(word, constant, T::selector(Some(0))))
            }),
            right,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, out: &SliceMut<'_, T>, start: usize, results: T::Words) {
        let mut values: [T; V] = bytemuck::cast(results);
        if self.is_kept {
            for i in 0..V {
                let at = start + self.first as usize + i * self.picture.channels;
                // SAFETY: the row's, as promised.
                [values[i]] = unsafe { self.picture.pixels.load_vec_unchecked(at) };
            }
        }
        let channels = hint::pinned(self.picture.channels as u32);
        let mut at = self.first;
        for i in 0..V {
            if i as u32 >= self.skip {
                // SAFETY: the row's, as promised.
                unsafe { out.set_vec_unchecked(start + at as usize, [values[i]]) };
            }
            at += channels;
        }
    }
}

/// The rows that a strip's windows have, one after another.
struct Reader<'a, C, T> {
    columns: &'a C,
    picture: &'a Picture<'a, T>,
    rows: &'a Rows,
    /// How many have been loaded, and where the next one begins if the picture has it.
    loaded: u32,
    start: usize,
}

impl<C, T> Reader<'_, C, T> {
    /// The next row, and whether the border has none there.
    ///
    /// # Safety
    ///
    /// As of [`Columns::load`], for the rows of the picture.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn next<const V: usize, const N: usize>(&mut self) -> (Row<C::Words>, bool)
    where
        C: Columns<V, N, Pixel = T>,
    {
        let Rows {
            top,
            above,
            inside,
            stride,
            ..
        } = *self.rows;
        let mut start = Some(self.start);
        if self.loaded.wrapping_sub(above) >= inside {
            // Found here, where few come, and not kept.
            let [border, low, high] = [
                self.picture.border,
                self.picture.height as u32,
                (self.picture.height >> 32) as u32,
            ]
            .map(hint::pinned);
            let height = (high as usize) << 32 | low as usize;
            let y = top.wrapping_add(self.loaded as usize).wrapping_sub(N / 2);
            let row = if y < height { Some(y) } else { source(border, y, height) };
            start = row.map(|y| y * stride);
        }
        self.loaded += 1;
        self.start = self.start.wrapping_add(stride);
        // SAFETY: a row of the picture, the first where the border has none.
        (unsafe { self.columns.load(start.unwrap_or(0)) }, start.is_none())
    }
}

/// Adds the products of a row's numbers to the sums of all rows whose windows have it, of which the first come first; returns the sums that
/// are complete.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add_row<const V: usize, const N: usize>(
    window: &Window<V>,
    sums: &mut [[f32; V]; N],
    weights: &[[f32; N]; N],
) -> [f32; V] {
    let complete = add(window, sums[0], weights[N - 1]);
    unroll!(N, r => {
        if r + 2 < N {
            sums[r] = add(window, sums[r + 1], weights[N - 2 - r]);
        } else if r + 2 == N {
            sums[r] = add(window, [0.0; V], weights[0]);
        }
    });
    complete
}

/// The results of all rows of a strip.
///
/// The sums of the row whose window ends with the row that is read are complete then, and those of the row whose window begins there are
/// begun. `N` rows in turn, so that the names of the sums have come round at the end of the loop: in a loop of one row, ptxas moves them from
/// register to register. A row is made floats before another is loaded to where it was, the `N`th behind it as a rule.
///
/// # Safety
///
/// As of [`Columns::load`] and [`Columns::store`], for these rows, which both the picture and `out` have.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn run<C: Columns<V, N>, const V: usize, const N: usize>(
    columns: &C,
    picture: &Picture<'_, C::Pixel>,
    weights: &[[f32; N]; N],
    scale: f32,
    rows: &Rows,
    out: &SliceMut<'_, C::Pixel>,
) {
    let start = |y: usize| y.wrapping_mul(rows.stride);
    let mut reader = Reader {
        columns,
        picture,
        rows,
        loaded: 0,
        start: start(rows.top.wrapping_sub(N / 2)),
    };
    let mut sums = [[0.0; V]; N];
    // SAFETY (of all): rows of the picture, as promised.
    let mut ahead = [unsafe { reader.next() }; N];
    unroll!(N, k => {
        if k > 0 && k < C::AHEAD {
            ahead[k] = unsafe { reader.next() };
        }
    });
    let (mut done, mut write) = (0, start(rows.top.wrapping_sub(N - 1)));
    loop {
        unroll!(N, k => {
            let place = k % C::AHEAD;
            let (row, is_missing) = ahead[place];
            let window = columns.widen(if is_missing { columns.constant() } else { row });
            ahead[place] = unsafe { reader.next() };
            let complete = add_row(&window, &mut sums, weights);
            if done >= N as u32 - 1 {
                // SAFETY: a row of the strip.
                unsafe { columns.store(out, write, <C::Pixel as Scaled<V>>::round(complete, scale)) };
            }
            write = write.wrapping_add(rows.stride);
            done += 1;
            if done == rows.count + N as u32 - 1 {
                return;
            }
        });
    }
}

/// `sums` and the products of a row's `weights` with its numbers.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn add<const V: usize, const N: usize>(window: &Window<V>, sums: [f32; V], weights: [f32; N]) -> [f32; V] {
    cuda_std::array::from_fn(|v| {
        let mut sum = sums[v];
        for t in 0..N {
            sum = Float::mul_add(weights[t], window.get(v + t, N / 2), sum);
        }
        sum
    })
}

/// `out` is, for each channel of each pixel, the sum of the `N × N` around it times the weights, rounded as
/// [`Pixel::from_f32`](crate::pixel::Pixel::from_f32). Pixels are scaled, as `Scaled` has it, and so are the `weights`; sums are multiplied
/// by `scale`. A fourth channel is kept. Beyond the edges lies `border` (a number of [`super::border`]), or `constant` if that has no pixel.
/// `pixels` and `out` hold `height` rows of `width` pixels of `channels` channels, `width` is at least `V`, and 32 bits count the numbers of
/// a row, or nothing is done. Block `(i, j)`, of [`THREADS`] threads, treats `V` columns of a channel for each thread of the `rows` rows from
/// row `rows j` on.
#[kernel(T = [u8], V = [8], N = [5, 7]; T = [u16], V = [8], N = [5]; T = [f32], V = [4], N = [5], arch = "sm_75", max_threads = THREADS, min_blocks = blocks(N))]
pub fn filter_strips<T: Scaled<V>, const V: usize, const N: usize>(
    pixels: &[T],
    width: usize,
    height: usize,
    channels: usize,
    rows: u32,
    border: u32,
    weights: [[f32; N]; N],
    scale: f32,
    constant: T,
    out: SliceMut<'_, T>,
) {
    let elements = width.checked_mul(channels).and_then(|row| row.checked_mul(height));
    if elements.is_none_or(|elements| elements > Ord::min(pixels.len(), out.len()))
        || channels == 0
        || width < V
        || width * channels > u32::MAX as usize
    {
        return;
    }
    let picture = Picture {
        pixels,
        width,
        height,
        channels,
        border,
        constant,
    };
    let (group, channel) = split(thread::index_1d(), channels);
    let top = (thread::block_idx_y() as usize).saturating_mul(rows as usize);
    let (x, Some(strip)) = (group.saturating_mul(V), Rows::new(&picture, top, rows, N / 2)) else {
        return;
    };
    if x >= width {
        return;
    }
    if channels == 1 && width.is_multiple_of(V) && pixels.is_vec_aligned::<V>() && out.is_vec_aligned::<V>() {
        let beside = Beside::new::<Vectors<'_, T>, V, N>(&picture, x);
        let columns = Vectors {
            picture,
            first: x as u32,
            beside,
        };
        // SAFETY: rows of the picture, which `out` has too, and columns of theirs, which are this thread's; each row begins at a multiple of
        // the vector, as the columns do.
        unsafe { run::<_, V, N>(&columns, &picture, &weights, scale, &strip, &out) };
    } else {
        let first = Ord::min(x, width - V);
        let mut beside = Beside::new::<Singles<'_, T>, V, N>(&picture, first);
        for side in 0..2 {
            for i in 0..N / 2 {
                beside.at[side][i] = beside.at[side][i] * channels as u32 + channel as u32;
            }
        }
        let columns = Singles {
            picture,
            first: (first * channels + channel) as u32,
            skip: (x - first) as u32,
            is_kept: channels == 4 && channel == 3,
            beside,
        };
        // SAFETY: rows as above, and the thread's own columns of them.
        unsafe { run::<_, V, N>(&columns, &picture, &weights, scale, &strip, &out) };
    }
}
