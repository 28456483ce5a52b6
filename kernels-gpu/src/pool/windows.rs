// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which elements are in which windows: what the host tells the kernels, and how threads walk over it.

use cuda_std::KernelParam;

use crate::transpose::Extent;

/// Axes that windows go over.
pub const AXES: usize = 3;

/// The most threads of a launch.
pub const MOST: usize = (1 << 31) - 1;

/// An axis that windows go over.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct WindowAxis {
    input: u32,
    output: u32,
    size: u32,
    padding: u32,
    stride: Extent,
}

impl WindowAxis {
    /// Windows of `size` elements, each `stride` further than the one before, over `input` elements and `padding` places that
    /// have none on either side. `None` if a window would have no element, there would be none, or a number is beyond 2^30.
    pub fn new(input: usize, size: usize, stride: usize, padding: usize) -> Option<Self> {
        let is_small = [input, size, stride].iter().all(|&n| (1..=1 << 30).contains(&n));
        if !is_small || padding >= size || input + 2 * padding < size {
            return None;
        }
        Some(Self {
            input: input as u32,
            output: ((input + 2 * padding - size) / stride + 1) as u32,
            size: size as u32,
            padding: padding as u32,
            stride: Extent::new(stride),
        })
    }

    /// One that has one element, and a window of it.
    pub fn none() -> Self {
        Self::new(1, 1, 1, 0).expect("one window")
    }

    /// The number of elements.
    pub fn input(&self) -> usize {
        self.input as usize
    }

    /// The number of windows.
    pub fn output(&self) -> usize {
        self.output as usize
    }

    /// The elements of a window: the first, and that behind the last.
    #[inline(always)]
    fn elements(&self, window: u32) -> (u32, u32) {
        // Counted from the first place of the padding.
        let first = window.wrapping_mul(self.stride.len());
        let end = Ord::min(first.wrapping_add(self.size), self.padding.wrapping_add(self.input));
        (first.saturating_sub(self.padding), end.wrapping_sub(self.padding))
    }

    /// The elements from the window on to the next one; those of the last end with the axis.
    #[inline(always)]
    fn cell(&self, window: u32) -> (u32, u32) {
        let next = window.wrapping_add(1);
        let end = match next < self.output {
            true => next.wrapping_mul(self.stride.len()).saturating_sub(self.padding),
            false => self.input,
        };
        (window.wrapping_mul(self.stride.len()).saturating_sub(self.padding), end)
    }

    /// Whether no element is in two windows.
    fn has_windows_apart(&self) -> bool {
        self.stride.len() >= self.size
    }

    /// The windows that an element is in: the first, and that behind the last. There are none between windows that leave gaps.
    #[inline(always)]
    fn windows(&self, element: u32) -> (u32, u32) {
        let place = element.wrapping_add(self.padding);
        let (last, _) = self.stride.div_rem(place);
        let first = match place < self.size {
            true => 0,
            false => self.stride.div_rem(place.wrapping_sub(self.size)).0.wrapping_add(1),
        };
        (first, Ord::min(last.wrapping_add(1), self.output))
    }
}

/// Which of the two arrays a launch has a thread for each vector of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The elements.
    Input,
    /// The windows.
    Output,
}

/// Windows over up to three axes of an array that is seen as (outer, depth, height, width, inner).
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Windows {
    /// Depth, height, width.
    axes: [WindowAxis; AXES],
    /// Of the side that has threads: vectors of the inner axis, width, height, depth.
    walk: [Extent; 1 + AXES],
    threads: u32,
    vector: u32,
    counts_padding: u32,
    /// Whether the side that has threads is that of the windows.
    by_windows: u32,
    input: usize,
    output: usize,
}

/// A vector that a thread treats.
#[derive(Clone, Copy)]
pub(super) struct Place {
    outer: u32,
    /// Along depth, height and width.
    pub at: [u32; AXES],
    /// Its number along the inner axis.
    vector: u32,
}

impl Windows {
    /// Windows of these axes, in each of `outer` arrays, of lines of `inner` elements, which are treated in vectors of `vector`
    /// elements: 1, or a number that divides `inner`; then both arrays lie at multiples of a vector. `None` if an array would
    /// have no element, or a side has more than [`MOST`] vectors.
    pub fn new(outer: usize, axes: [WindowAxis; AXES], inner: usize, side: Side, vector: usize) -> Option<Self> {
        if outer == 0 || !(1..=MOST).contains(&inner) || vector == 0 || !inner.is_multiple_of(vector) {
            return None;
        }
        let elements = |of: fn(&WindowAxis) -> usize| axes.iter().map(of).try_fold(outer, usize::checked_mul);
        let (input, output) = (elements(WindowAxis::input)?, elements(WindowAxis::output)?);
        let (of_side, lines) = match side {
            Side::Input => (axes.map(|axis| axis.input()), input),
            Side::Output => (axes.map(|axis| axis.output()), output),
        };
        let vectors = inner / vector;
        // Of both sides, so that all places have 32 bits.
        let count = |lines: usize| lines.checked_mul(vectors).filter(|&count| count <= MOST);
        let threads = count(lines).filter(|_| count(input).is_some() && count(output).is_some())?;
        let [depth, height, width] = of_side;
        Some(Self {
            axes,
            walk: [vectors, width, height, depth].map(Extent::new),
            threads: threads as u32,
            vector: vector as u32,
            counts_padding: 0,
            by_windows: u32::from(side == Side::Output),
            input: input.checked_mul(inner)?,
            output: output.checked_mul(inner)?,
        })
    }

    /// The same, where a mean is the sum over the number of all places of a window, those without an element too.
    pub fn counting_padding(self) -> Self {
        Self {
            counts_padding: 1,
            ..self
        }
    }

    /// The side that has the threads of a gradient: the windows where they do not overlap, else the elements.
    pub fn side_of_gradient(axes: &[WindowAxis; AXES]) -> Side {
        match axes.iter().all(WindowAxis::has_windows_apart) {
            true => Side::Output,
            false => Side::Input,
        }
    }

    /// The same with a thread for each vector of the elements, if windows overlap.
    pub fn by_elements(&self) -> Option<Self> {
        let [depth, height, width] = self.axes.map(|axis| Extent::new(axis.input()));
        (Self::side_of_gradient(&self.axes) == Side::Input).then(|| Self {
            walk: [self.walk[0], width, height, depth],
            threads: (self.input / self.vector as usize) as u32,
            by_windows: 0,
            ..*self
        })
    }

    /// The elements of the array of the windows.
    pub fn outputs(&self) -> usize {
        self.output
    }

    /// The threads of a launch, in blocks of any size.
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// The vectors of the side that has more.
    pub fn vectors(&self) -> usize {
        Ord::max(self.input, self.output) / self.vector as usize
    }

    /// Elements of a vector.
    #[inline(always)]
    pub(super) fn vector(&self) -> usize {
        self.vector as usize
    }

    /// Whether arrays of so many elements have all that there is.
    #[inline(always)]
    pub(super) fn fit(&self, input: usize, output: usize) -> bool {
        input >= self.input && output >= self.output
    }

    /// The vector of thread number `thread`; `None` if there is none left.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn place(&self, thread: u32) -> Option<Place> {
        if thread >= self.threads {
            return None;
        }
        let (rest, vector) = self.walk[0].div_rem(thread);
        let (rest, x) = self.walk[1].div_rem(rest);
        let (rest, y) = self.walk[2].div_rem(rest);
        let (outer, z) = self.walk[3].div_rem(rest);
        Some(Place {
            outer,
            at: [z, y, x],
            vector,
        })
    }

    /// The number, in the array of the elements, of the vector of `place` at other places along the axes.
    #[inline(always)]
    pub(super) fn input(&self, place: &Place, at: [u32; AXES]) -> u32 {
        self.number(place, at, |axis| axis.input)
    }

    /// Its number in the array of the windows.
    #[inline(always)]
    pub(super) fn output(&self, place: &Place, at: [u32; AXES]) -> u32 {
        self.number(place, at, |axis| axis.output)
    }

    #[inline(always)]
    fn number(&self, place: &Place, at: [u32; AXES], len: impl Fn(&WindowAxis) -> u32) -> u32 {
        // At most `MOST`, so that nothing wraps around.
        let further = |number: u32, len: u32, at: u32| number.wrapping_mul(len).wrapping_add(at);
        let lines = (0..AXES).fold(place.outer, |number, k| further(number, len(&self.axes[k]), at[k]));
        further(lines, self.walk[0].len(), place.vector)
    }

    /// The elements of a window along each axis: the first, and that behind the last.
    #[inline(always)]
    pub(super) fn elements(&self, window: [u32; AXES]) -> [(u32, u32); AXES] {
        cuda_std::array::from_fn(|k| self.axes[k].elements(window[k]))
    }

    /// The elements from a window on to the next along each axis: where windows do not overlap, each element is in one such cell.
    #[inline(always)]
    pub(super) fn cell(&self, window: [u32; AXES]) -> [(u32, u32); AXES] {
        cuda_std::array::from_fn(|k| self.axes[k].cell(window[k]))
    }

    /// Whether threads have windows, which do not overlap.
    #[inline(always)]
    pub(super) fn are_by_windows(&self) -> bool {
        self.by_windows != 0
    }

    /// The windows that an element is in along each axis: the first, and that behind the last.
    #[inline(always)]
    pub(super) fn windows(&self, element: [u32; AXES]) -> [(u32, u32); AXES] {
        cuda_std::array::from_fn(|k| self.axes[k].windows(element[k]))
    }

    /// What the mean of a window divides by.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn count(&self, elements: [(u32, u32); AXES]) -> u32 {
        let mut count = 1u32;
        for k in 0..AXES {
            let (first, end) = elements[k];
            count = count.wrapping_mul(match self.counts_padding {
                0 => end.wrapping_sub(first),
                _ => self.axes[k].size,
            });
        }
        count
    }
}

/// All places of these ranges, in C order.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(super) fn for_each(ranges: [(u32, u32); AXES], mut what: impl FnMut([u32; AXES])) {
    let [depth, height, width] = ranges;
    let mut z = depth.0;
    while z < depth.1 {
        let mut y = height.0;
        while y < height.1 {
            let mut x = width.0;
            while x < width.1 {
                what([z, y, x]);
                x = x.wrapping_add(1);
            }
            y = y.wrapping_add(1);
        }
        z = z.wrapping_add(1);
    }
}
