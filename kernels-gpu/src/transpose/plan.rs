// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the host tells the kernels about a copy: its axes, how far apart their elements lie on either side, and the
//! constants that make a division by an axis' length a multiplication.
//!
//! An index of the iteration is a number below 2^31, taken apart with 32-bit arithmetic; the place of an element is a
//! 64-bit sum of products. Copies with more iterations are several launches, each from a first element of its own.

use bytemuck::{Pod, Zeroable};
use cuda_std::KernelParam;

/// The most axes of [`Strided`].
pub const STRIDED_AXES: usize = 8;

/// The most axes of [`Tiles`] beside the two of the tile.
pub const BATCH_AXES: usize = STRIDED_AXES - 2;

/// The length of an axis, and the constants that divide by it: T. Granlund and P. L. Montgomery, "Division by Invariant
/// Integers using Multiplication" (1994), section 4.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Extent {
    len: u32,
    magic: u32,
    shift: u32,
    /// Always 0: it makes the size of what follows in a structure a multiple of 8 bytes.
    zero: u32,
}

impl Extent {
    /// The length `len`.
    ///
    /// # Panics
    ///
    /// Unless `len` is from 1 to 2^31.
    pub const fn new(len: usize) -> Self {
        assert!(len >= 1 && len <= 1 << 31, "the length of an axis is from 1 to 2^31");
        let shift = len.next_power_of_two().trailing_zeros();
        let magic = (((1u64 << shift) - len as u64) << 32) / len as u64 + 1;
        Self {
            len: len as u32,
            magic: magic as u32,
            shift,
            zero: 0,
        }
    }

    /// The length.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        self.len
    }

    /// Whether the length is 0: it never is, except in a zeroed structure.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Quotient and remainder of `index`, which is less than 2^31.
    #[inline(always)]
    pub const fn div_rem(self, index: u32) -> (u32, u32) {
        let high = ((index as u64 * self.magic as u64) >> 32) as u32;
        // Without overflow: `high` is at most `index`.
        let quotient = high.wrapping_add(index).wrapping_shr(self.shift);
        (quotient, index.wrapping_sub(quotient.wrapping_mul(self.len)))
    }
}

/// An axis of a copy: how many steps, and how many elements further each is on either side.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Axis {
    /// The number of steps.
    pub extent: Extent,
    /// Elements of the input from one to the next; 0 where an element is repeated.
    pub x_stride: u64,
    /// Elements of the output from one to the next.
    pub out_stride: u64,
}

/// The place of an element: where it is read and where it is written.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub x: u64,
    pub out: u64,
}

impl Place {
    /// The place so many steps along `axis`. The arithmetic wraps: a sum that does so is out of bounds of every slice
    /// or another element of it, and the kernels look at the bounds.
    #[inline(always)]
    pub fn step(self, axis: &Axis, steps: u32) -> Self {
        Self {
            x: self.x.wrapping_add((steps as u64).wrapping_mul(axis.x_stride)),
            out: self.out.wrapping_add((steps as u64).wrapping_mul(axis.out_stride)),
        }
    }

    /// The place whose number is `index` along the first `rank` of the axes, the first of which turns fastest.
    #[inline(always)]
    pub fn along<const N: usize>(mut self, axes: &[Axis; N], rank: u32, mut index: u32) -> Self {
        for i in 0..N {
            if i < rank as usize {
                let (quotient, step) = axes[i].extent.div_rem(index);
                self = self.step(&axes[i], step);
                index = quotient;
            }
        }
        self
    }
}

/// A copy element by element ([`copy_strided`](fn@super::copy_strided)).
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Strided {
    /// The first element of the input.
    pub x_first: u64,
    /// The first element of the output.
    pub out_first: u64,
    /// The number of elements, the product of the lengths: less than 2^31.
    pub count: u32,
    /// The number of axes.
    pub rank: u32,
    /// The axes, in the order that neighbouring threads go along them: the innermost first.
    pub axes: [Axis; STRIDED_AXES],
}

/// The most axes of [`Lines`] beside the one of the line.
pub const LINE_AXES: usize = STRIDED_AXES - 1;

/// A copy of lines ([`copy_lines`](fn@super::copy_lines)), all in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Lines {
    /// The first byte of the input.
    pub x_first: u64,
    /// The first byte of the output.
    pub out_first: u64,
    /// The length of a line.
    pub len: u64,
    /// The chunks of the output, of 16 aligned bytes, in which a line may lie.
    pub chunks: Extent,
    /// All chunks, those of every line: less than 2^31.
    pub count: u32,
    /// The number of axes along which there are lines.
    pub rank: u32,
    /// These axes, the innermost first.
    pub axes: [Axis; LINE_AXES],
}

/// Where the lines of one of two arrays are that [`join_lines`](fn@super::join_lines) puts side by side.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Side {
    /// The first byte of the first line.
    pub first: u64,
    /// Bytes from a line to the next.
    pub stride: u64,
}

/// Two arrays side by side ([`join_lines`](fn@super::join_lines)), all in bytes: each row of the output is a line of `x`
/// and one of `y`, and there is no gap between rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Joined {
    /// The lines of `x`.
    pub x: Side,
    /// Those of `y`.
    pub y: Side,
    /// The first byte of the output, a multiple of 16 from address 0 on.
    pub out_first: u64,
    /// The length of a row of the output.
    pub row: Extent,
    /// What a line of `x` has of it: less than all.
    pub x_len: u32,
    /// The number of rows, which together have less than 2^31 bytes.
    pub rows: u32,
    /// What is loaded at a time: 1, 2, 4 or 16 bytes, of which all lengths, strides and addresses are multiples.
    pub word: u32,
    /// Always 0: it makes the size a multiple of 8 bytes.
    pub zero: u32,
}

/// What the tiles of a transposition are: the values of [`Tiles::way`].
pub enum Way {}

impl Way {
    /// Squares, of [`tile_side`](super::tile_side) elements either way.
    pub const SQUARES: u32 = 0;
    /// All of `b`, which is short, and many of `a`; the input has no gap between its rows, so that a tile is one stretch of
    /// it.
    pub const STRETCHES_OF_INPUT: u32 = 1;
    /// All of `a`, which is short, and many of `b`; a tile is one stretch of the output.
    pub const STRETCHES_OF_OUTPUT: u32 = 2;
}

/// A transposition by tiles ([`transpose_tiles`](fn@super::transpose_tiles)): of two axes, `a`, along which the output
/// is contiguous, and `b`, along which the input is, for each step along the others.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam, Pod, Zeroable)]
pub struct Tiles {
    /// The first element of the input.
    pub x_first: u64,
    /// The first element of the output.
    pub out_first: u64,
    /// The length of `a`.
    pub a_len: u64,
    /// The length of `b`.
    pub b_len: u64,
    /// Elements of the input from one step along `a` to the next.
    pub a_stride: u64,
    /// Elements of the output from one step along `b` to the next.
    pub b_stride: u64,
    /// Tiles along `a`.
    pub a_tiles: Extent,
    /// Tiles along `b`.
    pub b_tiles: Extent,
    /// What the tiles are: one of [`Way`].
    pub way: u32,
    /// Whether tiles along `a` are neighbours, and not those along `b`: 0 or 1.
    pub a_first: u32,
    /// The elements of a stretch along `a` and along `b`.
    pub sides: [u32; 2],
    /// Whether a stretch has a word left free behind each 32 in shared memory: 0 or 1.
    pub padded: u32,
    /// Always 0: it makes the size of what follows a multiple of 8 bytes.
    pub zero: u32,
    /// All tiles, those of every step along the other axes: less than 2^31.
    pub count: u32,
    /// The number of other axes.
    pub rank: u32,
    /// The other axes, the innermost first.
    pub axes: [Axis; BATCH_AXES],
}
