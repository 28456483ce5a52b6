// SPDX-License-Identifier: MIT OR Apache-2.0
//! The 3 × 3 box blur of pictures of bytes, in one pass.
//!
//! Each output is the mean of the pixel and those of its eight neighbours that exist, rounded to nearest, halves up.
//! `2 C n` bytes moved for `n` pixels of `C` channels.
//!
//! A thread goes down a strip of the picture that is four *words* of 4 bytes wide. Of each row it loads its words and the
//! two beside them (which are its neighbours', and come from the cache), and adds them up, shifted by a pixel to either
//! side: two bytes to a register of 32 bits, so that the sums have room. Each row's sums serve for the three rows around
//! it. A mean is a product with a reciprocal in units of 2^-16, whose third byte it is.

use cuda_std::prelude::*;

/// Threads of a block, side by side.
pub const THREADS: usize = 128;

/// Blocks that ptxas makes room for on a multiprocessor.
const BLOCKS: usize = 8;

/// Bytes of a word.
const WORD: usize = 4;

/// Words of a row that a thread treats.
const WORDS: usize = 4;

/// Bytes of a row that a thread treats.
pub const STRIP: usize = WORDS * WORD;

/// Rows that a thread loads before it adds them up.
const UNROLL: usize = 1;

/// The even bytes of a word, as two numbers of 16 bits.
const EVEN: u32 = 0x00ff_00ff;

/// Blurs a picture of `width` columns and `C` channels: gray, RGB or RGBA, whose alpha is kept as it is. `pixels` and
/// `out` hold its rows one after another. A thread treats `rows` rows of [`STRIP`] bytes; block `(i, j)` of [`THREADS`]
/// threads has strips [`THREADS`]` i` and after, and rows `rows j` and after.
///
/// With `ALIGN` = [`STRIP`], the rows have a multiple of so many bytes, and both arrays are aligned to it; nothing is done
/// otherwise. With `ALIGN` = 1, they need not.
#[kernel(C = [1, 3, 4], ALIGN = [1, 16], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn box_blur_3x3<const C: usize, const ALIGN: usize>(
    pixels: &[u8],
    width: usize,
    rows: usize,
    out: SliceMut<'_, u8>,
) {
    let pitch = width * C;
    let x = (thread::block_idx_x() as usize * thread::block_dim_x() as usize + thread::thread_idx_x() as usize) * STRIP;
    if x >= pitch {
        return;
    }
    let strip = Strip::<C> {
        pixels,
        out,
        pitch,
        height: Ord::min(pixels.len(), out.len()) / pitch,
        x,
        edges: edges::<C>(x, pitch),
    };
    let first = thread::block_idx_y() as usize * rows;
    let end = Ord::min(first + rows, strip.height);
    if ALIGN == 1 {
        strip.blur::<false>(first, end);
    } else if pitch.is_multiple_of(STRIP) && pixels.is_vec_aligned::<STRIP>() && out.is_vec_aligned::<STRIP>() {
        strip.blur::<true>(first, end);
    }
}

/// The words of a strip in a row, and those beside them, the first byte of each as the lowest; 0 for bytes that are not the
/// row's.
type Row = [u32; WORDS + 2];

/// For each word of a strip the sums of three pixels side by side around its bytes: of bytes 0 and 2, and of 1 and 3.
type Sums = [[u32; 2]; WORDS];

/// `WORDS` words of every row.
struct Strip<'a, const C: usize> {
    pixels: &'a [u8],
    out: SliceMut<'a, u8>,
    /// Bytes of a row.
    pitch: usize,
    height: usize,
    /// Where the strip begins in a row, less than `pitch`.
    x: usize,
    /// A bit for each byte of the strip: whether its pixel is at the row's beginning or end.
    edges: u32,
}

/// [`Strip::edges`] of the strip at `x`.
#[inline(always)]
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
    #[inline(always)]
    fn blur<const ALIGNED: bool>(&self, first: usize, end: usize) {
        let mut above = Self::sums(self.row::<ALIGNED>(first.wrapping_sub(1)));
        let mut here = Self::sums(self.row::<ALIGNED>(first));
        let mut y = first;
        while y < end {
            let rows: [Row; UNROLL] = core::array::from_fn(|k| self.row::<ALIGNED>(y + 1 + k));
            for k in 0..UNROLL {
                let below = Self::sums(rows[k]);
                if y + k < end {
                    let sums =
                        core::array::from_fn(|w| core::array::from_fn(|i| above[w][i] + here[w][i] + below[w][i]));
                    self.store::<ALIGNED>(y + k, self.means(y + k, sums));
                }
                above = here;
                here = below;
            }
            y += UNROLL;
        }
    }

    /// Row `y`; zeros where there is no such row.
    #[inline(always)]
    fn row<const ALIGNED: bool>(&self, y: usize) -> Row {
        if y >= self.height {
            return [0; WORDS + 2];
        }
        let at = y * self.pitch + self.x;
        if !ALIGNED {
            return self.shifted_row(at);
        }
        // SAFETY (of both): the strip's bytes and those words beside it that are the row's; aligned.
        let word = |at: usize| u32::from_le_bytes(unsafe { self.pixels.load_vec_unchecked(at) });
        let left = if self.x > 0 { word(at - WORD) } else { 0 };
        let strip: [u8; STRIP] = unsafe { self.pixels.load_vec_unchecked(at) };
        let right = if self.x + STRIP < self.pitch {
            word(at + STRIP)
        } else {
            0
        };
        let [a, b, c, d] = bytemuck::cast::<_, [u32; WORDS]>(strip).map(u32::from_le);
        [left, a, b, c, d, right]
    }

    /// The row whose strip begins at `at`, wherever that is: from the aligned words around, and without the bytes that are
    /// not the row's.
    #[inline(always)]
    fn shifted_row(&self, at: usize) -> Row {
        let shift = (self.pixels.as_ptr().addr() + at) % WORD;
        let first = at.wrapping_sub(shift + WORD);
        let row_end = self.pitch - self.x;
        let mask = |w: usize| match w {
            0 if self.x == 0 => 0,
            0 => u32::MAX,
            _ => mask(row_end.saturating_sub((w - 1) * WORD)),
        };
        if first >= self.pixels.len() || self.pixels.len() - first < (WORDS + 3) * WORD {
            // At the picture's very beginning or end.
            return core::array::from_fn(|w| self.bytes(at.wrapping_add(w * WORD).wrapping_sub(WORD)) & mask(w));
        }
        // SAFETY: in bounds, as just asked, and aligned, since `shift` is subtracted.
        let word = |w: usize| u32::from_le_bytes(unsafe { self.pixels.load_vec_unchecked(first + w * WORD) });
        let words: [u32; WORDS + 3] = core::array::from_fn(word);
        core::array::from_fn(|w| {
            let both = (u64::from(words[w + 1]) << 32) | u64::from(words[w]);
            (both >> (8 * shift as u32)) as u32 & mask(w)
        })
    }

    /// The four bytes at `at`, which may be before the picture; 0 for those that do not exist.
    #[inline(always)]
    fn bytes(&self, at: usize) -> u32 {
        let byte = |k: usize| self.pixels.get(at.wrapping_add(k)).copied().unwrap_or(0);
        u32::from_le_bytes(core::array::from_fn(byte))
    }

    /// The sums of a row.
    #[inline(always)]
    fn sums(row: Row) -> Sums {
        let odd = |word: u32| word >> 8 & EVEN;
        core::array::from_fn(|w| {
            let [left, word, right] = [row[w], row[w + 1], row[w + 2]];
            let (left, right) = if C == WORD {
                (left, right)
            } else {
                let shift = 8 * C as u32 % 32;
                (
                    word << shift | left >> (32 - shift),
                    word >> shift | right << (32 - shift),
                )
            };
            [
                (left & EVEN) + (word & EVEN) + (right & EVEN),
                odd(left) + odd(word) + odd(right),
            ]
        })
    }

    /// The means in row `y`, whose sums over all pixels around are `sums`.
    #[inline(always)]
    fn means(&self, y: usize, sums: Sums) -> [u32; WORDS] {
        let rows = 1 + u32::from(y > 0) + u32::from(y + 1 < self.height);
        if rows == 3 && self.edges == 0 {
            return sums.map(|sums| means(sums, |_| Mean::of(9)));
        }
        let (inner, edge) = (
            Mean::of(3 * rows),
            Mean::of(if self.pitch == C { rows } else { 2 * rows }),
        );
        core::array::from_fn(|w| {
            let is_edge = |k: usize| self.edges >> (w * WORD + k) & 1 == 1;
            means(sums[w], |k| if is_edge(k) { edge } else { inner })
        })
    }

    /// Sets the strip in row `y`, as far as it is the row's, but for alpha, which is copied.
    #[inline(always)]
    fn store<const ALIGNED: bool>(&self, y: usize, blurred: [u32; WORDS]) {
        let at = y * self.pitch + self.x;
        let mut bytes: [u8; STRIP] = bytemuck::cast(blurred.map(u32::to_le));
        if C == WORD {
            for k in 0..WORDS {
                let alpha = k * WORD + WORD - 1;
                if self.x + alpha < self.pitch {
                    // SAFETY: in the row, as just asked; every address is aligned for one byte.
                    [bytes[alpha]] = unsafe { self.pixels.load_vec_unchecked(at + alpha) };
                }
            }
        }
        if ALIGNED {
            // SAFETY: the whole strip is the row's, and aligned.
            unsafe { self.out.set_vec_unchecked(at, bytes) };
            return;
        }
        for k in 0..STRIP {
            if self.x + k < self.pitch {
                // SAFETY: in the row, as just asked.
                unsafe { self.out.set_vec_unchecked(at + k, [bytes[k]]) };
            }
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

/// What makes the mean of a sum of some numbers.
///
/// The reciprocal is rounded up; what that adds to a quotient, at most `2 · 2299 / 9` units of 2^-16, is less than the
/// distance of a quotient from the next integer.
#[derive(Clone, Copy)]
struct Mean {
    reciprocal: u32,
    half: u32,
}

impl Mean {
    /// For so many numbers: 1, 2, 3, 4, 6 or 9.
    #[inline(always)]
    fn of(count: u32) -> Self {
        let reciprocal = 0xffff / count + 1;
        Self {
            reciprocal,
            half: count / 2 * reciprocal,
        }
    }
}

/// The sums around a word's bytes as means, which are bytes again.
#[inline(always)]
fn means([even, odd]: [u32; 2], mean: impl Fn(usize) -> Mean) -> u32 {
    let sums = [even & 0xffff, odd & 0xffff, even >> 16, odd >> 16];
    // Below 2^24: the mean is byte 2.
    let [a, b, c, d] = core::array::from_fn(|k| sums[k] * mean(k).reciprocal + mean(k).half);
    (a >> 16) | (b >> 8 & 0xff00) | (c & 0xff_0000) | (d << 8 & 0xff00_0000)
}
