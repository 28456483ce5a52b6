// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tiles of thin matrices: a tile has the short axis whole, so that on one side it is one stretch of memory. It lies in
//! shared memory as in that stretch, from one aligned word to another, and single elements are gathered from it, or
//! scattered in it, for the long rows of the other side.

use bytemuck::Zeroable;
use cuda_std::hint;
use cuda_std::prelude::*;

use super::tile::{Tile, get};
use super::{LANES, Packed, TILE_THREADS, UNROLL, WARPS};

/// Words that a thread has in flight, whose elements it scatters or has gathered.
const TOGETHER: usize = 4;

/// Elements one after another in memory, of which some words of `V` are aligned.
#[derive(Clone, Copy)]
struct Run {
    /// The elements ahead of the first of these words.
    head: u32,
    words: u32,
    /// The elements beside these words, ahead and behind.
    singles: u32,
}

impl Run {
    /// `len` elements, the first of which is `phase` elements behind an aligned one.
    #[inline(always)]
    fn new<const V: usize>(phase: u32, len: u32) -> Self {
        let head = Ord::min((V as u32 - phase) % V as u32, len);
        let words = (len - head) / V as u32;
        Self {
            head,
            words,
            singles: len - words * V as u32,
        }
    }

    /// The place in the run of one of the elements beside the words.
    #[inline(always)]
    fn single<const V: usize>(&self, index: u32) -> u32 {
        index + if index < self.head { 0 } else { self.words * V as u32 }
    }
}

/// How a stretch lies in shared memory: with a word left free behind each 32, or not.
#[derive(Clone, Copy)]
pub(super) struct Stretch {
    pub padded: bool,
}

impl Stretch {
    /// Where word `index` lies.
    #[inline(always)]
    fn word(self, index: u32) -> u32 {
        index + if self.padded { index / LANES as u32 } else { 0 }
    }

    /// Where element `index` lies.
    #[inline(always)]
    fn element<const V: usize>(self, index: u32) -> u32 {
        let line = (LANES * V) as u32;
        index + if self.padded { index / line * V as u32 } else { 0 }
    }

    /// Whether so many elements, which may begin behind an aligned one, have room in so many words.
    #[inline(always)]
    pub fn has_room<const V: usize>(self, elements: usize, words: usize) -> bool {
        elements <= words * V && (self.word((elements + V - 1).div_ceil(V) as u32) as usize) < words
    }
}

/// How the warps of a block share lines out: a line each, or, of few lines, parts of all.
struct Shares {
    first_line: u32,
    lines_apart: u32,
    /// The first of the `TOGETHER` words, 32 apart, that a lane has at a time.
    first_word: u32,
    /// From these to the next.
    words_apart: u32,
    lane: u32,
    /// Whether the warp has the elements beside a line's words.
    has_singles: bool,
}

impl Shares {
    #[inline(always)]
    fn of(lines: u32) -> Self {
        const WHOLE: u32 = (TOGETHER * LANES) as u32;
        let t = hint::opaque(thread::thread_idx_x());
        let (lane, warp) = (t % LANES as u32, t / LANES as u32 % WARPS as u32);
        let whole = lines >= WARPS as u32;
        Self {
            first_line: if whole { warp } else { 0 },
            lines_apart: if whole { WARPS as u32 } else { 1 },
            first_word: lane + if whole { 0 } else { warp * WHOLE },
            words_apart: if whole { WHOLE } else { WARPS as u32 * WHOLE },
            lane,
            has_singles: whole || warp == 0,
        }
    }
}

impl<T: bytemuck::Pod> Tile<'_, T> {
    /// Brings a tile that is a stretch of the input to shared memory.
    ///
    /// # Safety
    ///
    /// The tile is one stretch of the input, in bounds, and has room.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn load_stretch<const V: usize>(&self, shared: Shared<T::Word>, stretch: Stretch)
    where
        T: Packed<V>,
    {
        const THREADS: u32 = TILE_THREADS as u32;
        let t = hint::opaque(thread::thread_idx_x()) % THREADS;
        let first = self.first.x as usize;
        let phase = self.x_phase::<V>(first) as u32;
        let run = Run::new::<V>(phase, (self.a_len * self.b_len) as u32);
        let (words, offset) = (first + run.head as usize, (phase + run.head) / V as u32);
        let mut word = t;
        while word < run.words {
            let loaded: [T::Word; UNROLL] = cuda_std::array::from_fn(|k| {
                let word = word + k as u32 * THREADS;
                if word >= run.words {
                    return T::Word::zeroed();
                }
                // SAFETY: the caller's promise; an aligned word of the run.
                bytemuck::cast(unsafe { self.x.load_vec_unchecked::<V>(words + word as usize * V) })
            });
            for k in 0..UNROLL {
                let word = word + k as u32 * THREADS;
                if word < run.words {
                    // SAFETY: the stretch has room.
                    unsafe { shared.set_unchecked(stretch.word(word + offset) as usize, loaded[k]) };
                }
            }
            word += UNROLL as u32 * THREADS;
        }
        if t < run.singles {
            let index = run.single::<V>(t);
            // SAFETY: the caller's promise; a single element is always aligned, and the stretch has room.
            unsafe {
                let [element] = self.x.load_vec_unchecked(first + index as usize);
                let at = stretch.element::<V>(phase + index) as usize;
                shared.cast::<T>().set_unchecked(at, element);
            }
        }
    }

    /// Writes a tile that lies in shared memory as a stretch of the input, along the output's rows.
    ///
    /// # Safety
    ///
    /// The elements of the tile are in bounds of the output, and [`load_stretch`](Self::load_stretch) has brought them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn store_rows<const V: usize>(&self, shared: Shared<T>, stretch: Stretch)
    where
        T: Packed<V>,
    {
        let (a_len, b_len) = (self.a_len as u32, self.b_len as u32);
        let shares = Shares::of(b_len);
        let phase = self.x_phase::<V>(self.first.x as usize) as u32;
        // A multiple of 32 words: that many words further in the stretch lies that much further in shared memory.
        let apart = stretch.element::<V>((LANES * V) as u32 * b_len);
        let mut b = shares.first_line;
        while b < b_len {
            let row = self.first.out as usize + b as usize * self.b_stride;
            let run = Run::new::<V>(self.out_phase::<V>(row) as u32, a_len);
            let place = |a: u32| stretch.element::<V>(phase + a * b_len + b);
            let words = row + run.head as usize;
            let mut group = shares.first_word;
            while group < run.words {
                let mut places: [u32; V] = cuda_std::array::from_fn(|j| place(run.head + group * V as u32 + j as u32));
                for k in 0..TOGETHER {
                    let word = group + (k * LANES) as u32;
                    if word < run.words {
                        // SAFETY: elements of the tile, which are in the stretch; an aligned word of the row, which is in
                        // bounds by the caller's promise.
                        unsafe {
                            let elements: [T; V] = cuda_std::array::from_fn(|j| get(shared, places[j] as usize));
                            self.out.set_vec_unchecked::<V>(words + word as usize * V, elements);
                        }
                    }
                    for j in 0..V {
                        places[j] += apart;
                    }
                }
                group += shares.words_apart;
            }
            if shares.has_singles && shares.lane < run.singles {
                let a = run.single::<V>(shares.lane);
                // SAFETY: as above; a single element is always aligned.
                unsafe {
                    let element = get(shared, place(a) as usize);
                    self.out.set_vec_unchecked(row + a as usize, [element]);
                }
            }
            b += shares.lines_apart;
        }
    }

    /// Brings a tile to shared memory, along the input's rows, where it lies as a stretch of the output.
    ///
    /// # Safety
    ///
    /// The elements of the tile are in bounds of the input, and have room.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn load_rows<const V: usize>(&self, shared: Shared<T>, stretch: Stretch)
    where
        T: Packed<V>,
    {
        let (a_len, b_len) = (self.a_len as u32, self.b_len as u32);
        let shares = Shares::of(a_len);
        let phase = self.out_phase::<V>(self.first.out as usize) as u32;
        let apart = stretch.element::<V>((LANES * V) as u32 * a_len);
        let mut a = shares.first_line;
        while a < a_len {
            let row = self.first.x as usize + a as usize * self.a_stride;
            let run = Run::new::<V>(self.x_phase::<V>(row) as u32, b_len);
            let place = |b: u32| stretch.element::<V>(phase + b * a_len + a);
            let words = row + run.head as usize;
            let mut group = shares.first_word;
            while group < run.words {
                let loaded: [T::Word; TOGETHER] = cuda_std::array::from_fn(|k| {
                    let word = group + (k * LANES) as u32;
                    if word >= run.words {
                        return T::Word::zeroed();
                    }
                    // SAFETY: the caller's promise; an aligned word of the row.
                    bytemuck::cast(unsafe { self.x.load_vec_unchecked::<V>(words + word as usize * V) })
                });
                let mut places: [u32; V] = cuda_std::array::from_fn(|j| place(run.head + group * V as u32 + j as u32));
                for k in 0..TOGETHER {
                    if group + ((k * LANES) as u32) < run.words {
                        let elements: [T; V] = bytemuck::cast(loaded[k]);
                        for j in 0..V {
                            // SAFETY: an element of the tile, which has room.
                            unsafe { shared.set_unchecked(places[j] as usize, elements[j]) };
                        }
                    }
                    for j in 0..V {
                        places[j] += apart;
                    }
                }
                group += shares.words_apart;
            }
            if shares.has_singles && shares.lane < run.singles {
                let b = run.single::<V>(shares.lane);
                // SAFETY: as above; a single element is always aligned.
                unsafe {
                    let [element] = self.x.load_vec_unchecked(row + b as usize);
                    shared.set_unchecked(place(b) as usize, element);
                }
            }
            a += shares.lines_apart;
        }
    }

    /// Writes a tile that is a stretch of the output.
    ///
    /// # Safety
    ///
    /// The tile is one stretch of the output, in bounds, and [`load_rows`](Self::load_rows) has brought it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn store_stretch<const V: usize>(&self, shared: Shared<T::Word>, stretch: Stretch)
    where
        T: Packed<V>,
    {
        const THREADS: u32 = TILE_THREADS as u32;
        let t = hint::opaque(thread::thread_idx_x()) % THREADS;
        let first = self.first.out as usize;
        let phase = self.out_phase::<V>(first) as u32;
        let run = Run::new::<V>(phase, (self.a_len * self.b_len) as u32);
        let (words, offset) = (first + run.head as usize, (phase + run.head) / V as u32);
        let mut word = t;
        while word < run.words {
            // SAFETY: a word of the stretch; in the output it is aligned, and in bounds by the caller's promise.
            unsafe {
                let elements = get(shared, stretch.word(word + offset) as usize);
                self.out
                    .set_vec_unchecked::<V>(words + word as usize * V, bytemuck::cast(elements));
            }
            word += THREADS;
        }
        if t < run.singles {
            let index = run.single::<V>(t);
            // SAFETY: as above; a single element is always aligned.
            unsafe {
                let element = get(shared.cast::<T>(), stretch.element::<V>(phase + index) as usize);
                self.out.set_vec_unchecked(first + index as usize, [element]);
            }
        }
    }
}
