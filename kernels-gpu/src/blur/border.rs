// SPDX-License-Identifier: MIT OR Apache-2.0
//! What lies beyond the edges of a picture.
//!
//! The kernels take a border as a number, the same for all threads, and look at it only where a window crosses an edge.

use cuda_std::prelude::*;

/// Nothing: the mean is over the pixels that exist.
pub const MISSING: u32 = 0;
/// The pixel at the edge: `a a a | a b c d | d d d`.
pub const CLAMP: u32 = 1;
/// The picture, reflected about its edge: `c b a | a b c d | d c b`.
pub const REFLECT: u32 = 2;
/// The picture again: `b c d | a b c d | a b c`.
pub const WRAP: u32 = 3;
/// A constant.
pub const CONSTANT: u32 = 4;

/// The position, of `n ≥ 1`, that stands for position `i` outside of them, or none for a border that has no pixel for
/// it.
///
/// A position before the first has wrapped around. It is at most `n` away from the nearest; beyond that the answer is
/// some position of the `n`.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub fn source(border: u32, i: usize, n: usize) -> Option<usize> {
    let before = (i as isize) < 0;
    let source = match border {
        CLAMP if before => 0,
        CLAMP => n - 1,
        // −1 − i
        REFLECT if before => !i,
        REFLECT => (2 * n - 1).wrapping_sub(i),
        WRAP if before => i.wrapping_add(n),
        WRAP => i - n,
        _ => return None,
    };
    Some(Ord::min(source, n - 1))
}

/// How many of the positions `i − radius ..= i + radius` are among `n`; `i < n`.
#[inline(always)]
pub fn existing(i: usize, radius: usize, n: usize) -> usize {
    Ord::min(i + radius, n - 1) - i.saturating_sub(radius) + 1
}

/// Number `task` of a kernel's tasks as the number of its group of `each` and its number in that. (0, 0) for groups of
/// none; so there is no panic to compile.
#[inline(always)]
pub(super) fn split(task: usize, each: usize) -> (usize, usize) {
    if each == 0 {
        return (0, 0);
    }
    (task / each, task % each)
}

/// One row of a picture of `C` channels, and what lies beyond its ends.
pub struct Row<'a, T, const C: usize> {
    pixels: &'a [T],
    start: usize,
    width: usize,
    border: u32,
    constant: T,
}

impl<'a, T: bytemuck::Pod, const C: usize> Row<'a, T, C> {
    /// Row `y` of the picture `pixels` with rows of `width ≥ 1` pixels; beyond its ends lies `border`, or `constant`
    /// where that has no pixel.
    ///
    /// # Safety
    ///
    /// The picture has a row `y`.
    #[inline(always)]
    pub unsafe fn new(pixels: &'a [T], y: usize, width: usize, border: u32, constant: T) -> Self {
        Self {
            pixels,
            start: y * width * C,
            width,
            border,
            constant,
        }
    }

    /// Number `element` of the row, counted in channels of pixels; one before the first has wrapped around.
    #[inline(always)]
    pub fn get(&self, element: usize) -> T {
        if element < self.width * C {
            // SAFETY: as just asked.
            unsafe { self.inside(element) }
        } else {
            self.outside(element)
        }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.width * C
    }

    /// Whether there is no element.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.width == 0
    }

    /// Number `element` of the row.
    ///
    /// # Safety
    ///
    /// `element` is less than the length.
    #[inline(always)]
    pub unsafe fn inside(&self, element: usize) -> T {
        // SAFETY: an element of the row, which `new` was promised to be in the picture.
        let [value] = unsafe { self.pixels.load_vec_unchecked(self.start + element) };
        value
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn outside(&self, element: usize) -> T {
        // Rounded down, for elements before the first too.
        let pixel = if (element as isize) < 0 {
            !(!element / C)
        } else {
            element / C
        };
        let channel = element.wrapping_sub(pixel.wrapping_mul(C));
        match source(self.border, pixel, self.width) {
            // SAFETY: a pixel of the row, and the channel is a remainder by C.
            Some(pixel) => unsafe { self.inside(pixel * C + channel) },
            None => self.constant,
        }
    }
}

/// One column of an array of rows of `row_len` elements, and what lies above and below it.
pub struct Column<'a, T> {
    elements: &'a [T],
    row_len: usize,
    height: usize,
    j: usize,
    border: u32,
    constant: T,
}

impl<'a, T: bytemuck::Pod> Column<'a, T> {
    /// Element `j` of each of `height ≥ 1` rows of `elements`; above and below lies `border`, or `constant` where that
    /// has no row.
    ///
    /// # Safety
    ///
    /// There are so many rows of `row_len` elements, and `j < row_len`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn new(elements: &'a [T], row_len: usize, height: usize, j: usize, border: u32, constant: T) -> Self {
        Self {
            elements,
            row_len,
            height,
            j,
            border,
            constant,
        }
    }

    /// The element of row `y`; a row above the first has wrapped around.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn get(&self, y: usize) -> T {
        let source = if y < self.height {
            Some(y)
        } else {
            source(self.border, y, self.height)
        };
        match source {
            // SAFETY: a row of the array.
            Some(y) => unsafe { self.inside(y) },
            None => self.constant,
        }
    }

    /// The elements from row `y` on, one after another.
    ///
    /// # Safety
    ///
    /// There is a row for each call.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn down(&self, y: usize) -> impl FnMut() -> T + use<'a, T> {
        let (elements, row_len) = (self.elements, self.row_len);
        let mut at = y * row_len + self.j;
        move || {
            // SAFETY: the element of a row, as `inside` argues.
            let [value] = unsafe { elements.load_vec_unchecked(at) };
            at += row_len;
            value
        }
    }

    /// Whether row `y` and all between `radius` rows above it and `below` rows below it are there.
    #[inline(always)]
    pub fn has_around(&self, y: usize, radius: usize, below: usize) -> bool {
        y >= radius && y + below < self.height
    }

    /// The element of row `y`.
    ///
    /// # Safety
    ///
    /// There is such a row.
    #[inline(always)]
    pub unsafe fn inside(&self, y: usize) -> T {
        // SAFETY: `y < height` and `j < row_len`, so it is an element, as `new` was promised.
        let [value] = unsafe { self.elements.load_vec_unchecked(y * self.row_len + self.j) };
        value
    }
}
