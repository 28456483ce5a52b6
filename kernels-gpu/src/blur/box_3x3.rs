// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 3 × 3 box blur of pictures of bytes, in one pass.
//!
//! Each output is the mean of the pixel and those of its eight neighbours that exist, rounded to nearest, halves up.
//! `2 C n` bytes moved for `n` pixels of `C` channels.
//!
//! A thread goes down a strip of the picture that is four *words* of 4 bytes wide. Of each row it loads its words and
//! the two beside them (which are its neighbours', and come from the cache). Bytes become numbers of 16 bits, two to a
//! register, so that sums have room: first the sums of three rows, then of three pixels side by side, which are in the
//! registers already, or half of them in one and half in the next. A mean of nine is two multiplications for two sums.
//!
//! Where rows are no multiple of a strip, each begins at another place of the strips of memory. Words are then loaded
//! from aligned addresses around and shifted into place; and what a thread stores is an aligned strip, of which it has
//! one part and the next thread of the warp the other.

use cuda_std::bits::byte_perm;
use cuda_std::hint;
use cuda_std::prelude::*;
use cuda_std::warp::{FULL_MASK, WARP_SIZE};

/// Threads of a block.
pub const THREADS: usize = 128;

/// Blocks that ptxas makes room for on a multiprocessor: as many as it can without keeping registers in memory.
const fn blocks(channels: usize, align: usize) -> usize {
    match (channels, align) {
        (_, 1) => 5,
        (1, _) => 7,
        _ => 6,
    }
}

/// Bytes of a word.
const WORD: usize = 4;

/// Words of a row that a thread treats.
const WORDS: usize = 4;

/// Bytes of a row that a thread treats.
pub const STRIP: usize = WORDS * WORD;

/// Rows that a thread loads at once, before it adds them up. From 3 on, a row's numbers can stay in their registers
/// while the two rows below are added.
pub const BATCH: usize = 4;

/// Lanes of a warp.
const LANES: usize = WARP_SIZE as usize;

/// Strips of a block where rows are not aligned: one less for each warp, whose last lane only has what the one before
/// it stores.
pub const SHIFTED_STRIPS: usize = THREADS - THREADS / LANES;

/// The even bytes of a word, as two numbers of 16 bits.
const EVEN: u32 = 0x00ff_00ff;

/// Blurs a picture of `width` columns and `C` channels: gray, RGB or RGBA, whose alpha is kept as it is. `pixels` and
/// `out` hold its rows one after another. A thread treats `rows` rows of [`STRIP`] bytes; block `(i, j)` of [`THREADS`]
/// threads has rows `rows j` and after.
///
/// With `ALIGN` = [`STRIP`], the rows have a multiple of so many bytes, and both arrays are aligned to it; nothing is
/// done otherwise. The block has strips [`THREADS`]` i` and after. With `ALIGN` = 1, they need not, and it has strips
/// [`SHIFTED_STRIPS`]` i` and after. Fastest for `rows` a multiple of [`BATCH`].
///
/// With another number of threads, nothing is done for `ALIGN` = 1, whose warps shuffle, and strips are left out or
/// written twice otherwise: there a check of it would cost 4% of a large picture's time.
#[kernel(C = [1, 3, 4], ALIGN = [1, 16], max_threads = THREADS, min_blocks = blocks(C, ALIGN))]
pub fn box_blur_3x3<const C: usize, const ALIGN: usize>(
    pixels: &[u8],
    width: usize,
    rows: usize,
    out: SliceMut<'_, u8>,
) {
    let pitch = match width.checked_mul(C) {
        Some(pitch) if pitch > 0 => pitch,
        _ => return,
    };
    let height = Ord::min(pixels.len(), out.len()) / pitch;
    let first = (thread::block_idx_y() as usize).saturating_mul(rows);
    let end = Ord::min(first.saturating_add(rows), height);
    let (block, thread) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let strip = |x: usize, is_stored: bool| Strip::<C> {
        pixels,
        out,
        pitch,
        height,
        x,
        edges: edges::<C>(x, pitch),
        is_stored,
    };
    if ALIGN == 1 {
        if hint::opaque(thread::block_dim_x()) as usize != THREADS {
            return;
        }
        let x = (block * SHIFTED_STRIPS + thread - thread / LANES) * STRIP;
        if x >= pitch.saturating_add(thread % LANES * STRIP) {
            return;
        }
        // A thread beyond the row goes along if another of its warp is not, for the shuffles.
        let is_stored = x < pitch && thread % LANES < LANES - 1;
        strip(Ord::min(x, (pitch - 1) / STRIP * STRIP), is_stored).blur::<false>(first, end);
    } else if pitch.is_multiple_of(STRIP) && pixels.is_vec_aligned::<STRIP>() && out.is_vec_aligned::<STRIP>() {
        let x = (block * THREADS + thread) * STRIP;
        if x < pitch {
            strip(x, true).blur::<true>(first, end);
        }
    }
}

/// The words of a strip in a row, and those beside them, the first byte of each as the lowest; 0 for bytes that are not
/// the row's.
type Row = [u32; WORDS + 2];

/// Numbers of 16 bits for the bytes of a word: for bytes 0 and 2, and for 1 and 3.
type Halves = [u32; 2];

/// The bytes of a [`Row`], or sums of them.
type Numbers = [Halves; WORDS + 2];

/// `WORDS` words of every row.
struct Strip<'a, const C: usize> {
    pixels: &'a [u8],
    out: SliceMut<'a, u8>,
    /// Bytes of a row.
    pitch: usize,
    height: usize,
    /// Where the strip begins in a row, less than `pitch`.
    x: usize,
    /// A bit for each byte of the strip: whether its pixel is at the row's beginning or end. None is: all words of the
    /// strip and beside it are the row's.
    edges: u32,
    /// Whether this thread stores it, where rows are not aligned.
    is_stored: bool,
}

/// [`Strip::edges`] of the strip at `x`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn edges<const C: usize>(x: usize, pitch: usize) -> u32 {
    let first = if x == 0 { (1 << C) - 1 } else { 0 };
    let last = pitch - C;
    if last >= x + STRIP || last + C <= x {
        first
    } else if last >= x {
        first | ((1 << C) - 1) << (last - x)
    } else {
        // The last pixel begins in the strip before.
        first | ((1 << C) - 1) >> (x - last)
    }
}

impl<const C: usize> Strip<'_, C> {
    /// Blurs rows `first .. end`. `ALIGNED`: every strip is, and none reaches beyond its row.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn blur<const ALIGNED: bool>(&self, first: usize, end: usize) {
        // Kept as bytes, so that nothing waits for these two rows before the loads of the next are on their way.
        let mut above = self.row::<ALIGNED>(first.wrapping_sub(1));
        let mut here = self.row::<ALIGNED>(first);
        let mut y = first;
        while y < end {
            if y > 0 && y + BATCH <= end && self.is_between(y + BATCH) {
                let next: [Row; BATCH] = cuda_std::array::from_fn(|k| self.inner_row::<ALIGNED>(y + 1 + k));
                let [a, b, c, d, e, f] =
                    cuda_std::array::map([above, here, next[0], next[1], next[2], next[3]], numbers);
                self.blur_inner::<ALIGNED>(y, [a, b, c]);
                self.blur_inner::<ALIGNED>(y + 1, [b, c, d]);
                self.blur_inner::<ALIGNED>(y + 2, [c, d, e]);
                self.blur_inner::<ALIGNED>(y + 3, [d, e, f]);
                (above, here) = (next[2], next[3]);
                y += BATCH;
            } else {
                let below = self.row::<ALIGNED>(y + 1);
                let count = 1 + u32::from(y > 0) + u32::from(y + 1 < self.height);
                let rows = cuda_std::array::map([above, here, below], numbers);
                let blurred = self.means(count, Self::sums(rows));
                self.store::<ALIGNED>(y, Self::with_alpha(blurred, rows[1]));
                (above, here) = (here, below);
                y += 1;
            }
        }
    }

    /// Blurs the second of three rows, row `y`.
    #[inline(always)]
    fn blur_inner<const ALIGNED: bool>(&self, y: usize, rows: [Numbers; 3]) {
        let sums = Self::sums(rows);
        let mut blurred = cuda_std::array::map(sums, means_of_9);
        if self.edges != 0 {
            blurred = self.means(3, sums);
        }
        self.store::<ALIGNED>(y, Self::with_alpha(blurred, rows[1]));
    }

    /// Whether all words of memory around a strip in row `y` are the picture's: it has rows above and below, with room
    /// for the words.
    #[inline(always)]
    fn is_between(&self, y: usize) -> bool {
        y > 0 && y + 1 < self.height && self.pitch >= 2 * STRIP
    }

    /// Row `y`; zeros where there is no such row.
    #[inline(always)]
    fn row<const ALIGNED: bool>(&self, y: usize) -> Row {
        if y >= self.height {
            [0; WORDS + 2]
        } else if ALIGNED || self.is_between(y) {
            self.inner_row::<ALIGNED>(y)
        } else {
            self.row_of_bytes(y)
        }
    }

    /// Row `y`, which is [between](Self::is_between) others or aligned.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn inner_row<const ALIGNED: bool>(&self, y: usize) -> Row {
        if !ALIGNED {
            return self.shifted_row(y);
        }
        let at = y * self.pitch + self.x;
        // SAFETY (of both): the strip's bytes and those words beside it that are the row's; aligned.
        let word = |at: usize| u32::from_le_bytes(unsafe { self.pixels.load_vec_unchecked(at) });
        let left = if self.x > 0 { word(at - WORD) } else { 0 };
        let strip: [u8; STRIP] = unsafe { self.pixels.load_vec_unchecked(at) };
        let right = if self.x + STRIP < self.pitch {
            word(at + STRIP)
        } else {
            0
        };
        let [a, b, c, d] = cuda_std::array::map(bytemuck::cast::<_, [u32; WORDS]>(strip), u32::from_le);
        [left, a, b, c, d, right]
    }

    /// Row `y`, wherever it begins, [between](Self::is_between) others: from the aligned words around the strip.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn shifted_row(&self, y: usize) -> Row {
        // That of the row's beginning, which is the same for all strips and so takes no register of every thread.
        let shift = (self.pixels.as_ptr().addr() + y * self.pitch) % WORD;
        let first = y * self.pitch + self.x - shift - WORD;
        // SAFETY: in bounds, since the row is between others, and aligned, since `shift` is subtracted.
        let word = |w: usize| u32::from_le_bytes(unsafe { self.pixels.load_vec_unchecked(first + w * WORD) });
        let words: [u32; WORDS + 3] = cuda_std::array::from_fn(word);
        let row = cuda_std::array::from_fn(|w| bytes_from(words[w], words[w + 1], shift));
        if self.edges == 0 { row } else { self.without_others(row) }
    }

    /// The row's bytes from the strip's first one on, as far as words take part. They are compared with constants, and
    /// anew for each row: what does not change from row to row would wait in registers otherwise.
    #[inline(always)]
    fn left(&self) -> u32 {
        hint::pinned(Ord::min(self.pitch - self.x, (WORDS + 1) * WORD) as u32)
    }

    /// `row` with zeros for the bytes that are not the row's.
    #[inline(always)]
    fn without_others(&self, row: Row) -> Row {
        let left = self.left();
        cuda_std::array::from_fn(|w| match w {
            0 if self.x == 0 => 0,
            0 => row[0],
            _ => row[w] & mask((left as usize).saturating_sub((w - 1) * WORD)),
        })
    }

    /// Row `y`, one of the picture's, byte by byte.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn row_of_bytes(&self, y: usize) -> Row {
        let at = y * self.pitch + self.x;
        let left = self.left();
        let byte = |i: usize| {
            let is_there = if i < WORD {
                self.x > 0
            } else {
                ((i - WORD) as u32) < left
            };
            if is_there {
                // SAFETY: in row `y`, where a strip has a whole one before it unless it is the first.
                unsafe { *self.pixels.get_unchecked((at + i).wrapping_sub(WORD)) }
            } else {
                0
            }
        };
        cuda_std::array::from_fn(|w| u32::from_le_bytes(cuda_std::array::from_fn(|k| byte(w * WORD + k))))
    }

    /// The sums around the strip's bytes: of three rows and, side by side, three pixels.
    #[inline(always)]
    fn sums(rows: [Numbers; 3]) -> [Halves; WORDS] {
        let columns: Numbers =
            cuda_std::array::from_fn(|w| cuda_std::array::from_fn(|i| rows[0][w][i] + rows[1][w][i] + rows[2][w][i]));
        cuda_std::array::from_fn(|w| {
            let (left, right) = beside::<C>([columns[w], columns[w + 1], columns[w + 2]]);
            cuda_std::array::from_fn(|i| left[i] + columns[w + 1][i] + right[i])
        })
    }

    /// The means of the sums over `rows` rows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn means(&self, rows: u32, sums: [Halves; WORDS]) -> [u32; WORDS] {
        let inner = cuda_std::array::map(sums, |sums| means(sums, 3 * rows));
        if self.edges == 0 {
            return inner;
        }
        let edge = cuda_std::array::map(sums, |sums| means(sums, if self.pitch == C { rows } else { 2 * rows }));
        cuda_std::array::from_fn(|w| {
            let mask = spread(self.edges >> (w * WORD));
            inner[w] ^ (inner[w] ^ edge[w]) & mask
        })
    }

    /// The blurred words, but of four channels the last as it is in the row.
    #[inline(always)]
    fn with_alpha(blurred: [u32; WORDS], row: Numbers) -> [u32; WORDS] {
        if C == WORD {
            cuda_std::array::from_fn(|w| byte_perm(blurred[w], row[w + 1][1], 0x6210))
        } else {
            blurred
        }
    }

    /// Sets the strip in row `y`, as far as it is the row's.
    #[inline(always)]
    fn store<const ALIGNED: bool>(&self, y: usize, blurred: [u32; WORDS]) {
        if ALIGNED {
            // SAFETY: the whole strip is the row's, and aligned.
            unsafe { self.out.set_vec_unchecked(y * self.pitch + self.x, bytes(blurred)) };
        } else {
            self.store_shifted(y, blurred);
        }
    }

    /// Sets the aligned strip of memory that begins in this one's row `y`, and what is before the row's first. All
    /// lanes of a warp call it together, for strips side by side.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store_shifted(&self, y: usize, blurred: [u32; WORDS]) {
        let shift = (self.out.as_ptr().addr() + y * self.pitch).wrapping_neg() % STRIP;
        let at = y * self.pitch + self.x;
        let next = cuda_std::array::map(blurred, |word| warp::shuffle_down(FULL_MASK, word, 1));
        let aligned = strip_from(blurred, next, shift);
        if !self.is_stored {
            return;
        }
        if self.x == 0 {
            self.store_bytes(at, blurred, Ord::min(shift, self.pitch));
        }
        let left = self.pitch - self.x;
        if left >= shift + STRIP {
            // SAFETY: in the row, as just asked, and aligned, since `shift` is added.
            unsafe { self.out.set_vec_unchecked(at + shift, bytes(aligned)) };
        } else {
            self.store_bytes(at + shift, aligned, left.saturating_sub(shift));
        }
    }

    /// Sets the first `count` bytes from `at` on, which are the row's.
    #[inline(always)]
    fn store_bytes(&self, at: usize, words: [u32; WORDS], count: usize) {
        let mut rest = u128::from_le_bytes(bytes(words));
        for k in 0..count {
            // SAFETY: in the row, as the caller says; every address is aligned for one byte.
            unsafe { self.out.set_vec_unchecked(at + k, [rest as u8]) };
            rest >>= 8;
        }
    }
}

/// The first `bytes` bytes of a word, or all.
#[inline(always)]
fn mask(bytes: usize) -> u32 {
    if bytes >= WORD {
        u32::MAX
    } else {
        (1 << (8 * bytes as u32)) - 1
    }
}

/// The bytes of words.
#[inline(always)]
fn bytes(words: [u32; WORDS]) -> [u8; STRIP] {
    bytemuck::cast(cuda_std::array::map(words, u32::to_le))
}

/// The four bytes from byte `shift` of `low` on, at most 3; those that it does not have are `high`'s.
#[inline(always)]
fn bytes_from(low: u32, high: u32, shift: usize) -> u32 {
    byte_perm(low, high, 0x3210 + 0x1111 * shift as u32)
}

/// The strip from byte `shift` of `low` on, less than [`STRIP`]; what that does not have is `high`'s.
///
/// Registers have no index: words are moved by two, then by one, then by bytes.
#[inline(always)]
fn strip_from(low: [u32; WORDS], high: [u32; WORDS], shift: usize) -> [u32; WORDS] {
    let words: [u32; 2 * WORDS] = bytemuck::cast([low, high]);
    let selectors = cuda_std::array::map([8, 4], |bit| if shift & bit == 0 { 0x3210 } else { 0x7654 });
    let by_two: [u32; 6] = cuda_std::array::from_fn(|w| byte_perm(words[w], words[w + 2], selectors[0]));
    let by_one: [u32; 5] = cuda_std::array::from_fn(|w| byte_perm(by_two[w], by_two[w + 1], selectors[1]));
    cuda_std::array::from_fn(|w| bytes_from(by_one[w], by_one[w + 1], shift % WORD))
}

/// The bytes of a row as numbers.
#[inline(always)]
fn numbers(row: Row) -> Numbers {
    cuda_std::array::map(row, |word| [word & EVEN, byte_perm(word, 0, 0x4341)])
}

/// What is one pixel to the left and to the right of the bytes of a word, which is the second of three.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn beside<const C: usize>([before, word, after]: [Halves; 3]) -> (Halves, Halves) {
    let ([before_even, before_odd], [even, odd], [after_even, after_odd]) = (before, word, after);
    // The upper number of one and the lower of the next.
    let between = |low: u32, high: u32| low >> 16 | high << 16;
    match C {
        1 => ([between(before_odd, odd), even], [odd, between(even, after_even)]),
        3 => (
            [before_odd, between(before_even, even)],
            [between(odd, after_odd), after_even],
        ),
        _ => (before, after),
    }
}

/// The sums of nine bytes around those of a word as means.
///
/// A ninth is 28 / 256 and 7 / 16 / 256, a bit less, of which a sum's last four bits take no part in the second: for
/// two sums at a time there is just the room, and byte 1 of each product is the mean. What is added makes up for the
/// half that rounds and for what the product lacks; it is right for every sum up to 9 · 255.
#[inline(always)]
fn means_of_9(sums: Halves) -> u32 {
    let [even, odd] = cuda_std::array::map(sums, |sums| {
        sums * 28 + ((sums >> 4 & 0x0fff_0fff) * 7 + 139 * 0x0001_0001)
    });
    byte_perm(even, odd, 0x7351)
}

/// The sums of `count` bytes (1, 2, 3, 4, 6 or 9) around those of a word as means, which are bytes again.
///
/// The reciprocal is rounded up; what that adds to a quotient, at most `2 · 2299 / 9` units of 2^-16, is less than the
/// distance of a quotient from the next integer.
#[inline(always)]
fn means([even, odd]: Halves, count: u32) -> u32 {
    let reciprocal = 0xffff / count + 1;
    let sums = [even & 0xffff, odd & 0xffff, even >> 16, odd >> 16];
    // Below 2^24: the mean is byte 2.
    let [a, b, c, d] = cuda_std::array::map(sums, |sum| (sum + count / 2) * reciprocal);
    byte_perm(byte_perm(a, b, 0x0062), byte_perm(c, d, 0x0062), 0x5410)
}

/// The lowest four bits as bytes of ones or zeros.
#[inline(always)]
fn spread(bits: u32) -> u32 {
    (((bits & 0xf) * 0x0020_4081) & 0x0101_0101) * 0xff
}
