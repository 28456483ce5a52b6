// SPDX-License-Identifier: MIT OR Apache-2.0
//! A convolution as a product of matrices on ordinary cores: `C = A Bᵀ`, where `A` has a line for each place of the output, which
//! is what all taps read in all channels, and `B` a line of weights for each output.
//!
//! The block's tile, the steps along k and the sums in registers are those of [`gemm`](crate::matmul::gemm); what is different is
//! where `A` comes from. It is the matrix that im2col makes (K. Chellapilla, S. Puri, P. Simard, "High performance convolutional
//! neural networks for document processing", 2006), and is in no memory ("implicit GEMM": S. Chetlur et al., "cuDNN: Efficient
//! Primitives for Deep Learning", 2014): as a thread goes along k it counts channels and taps, and has the element of the input that
//! lies there, or 0. A thread has one line of `A`, so it takes a number of a place apart once for a tile.
//!
//! Work `2 m n k` for `m` places, `n` outputs and `k` taps times channels. Sums are in the order of taps, then of channels, by
//! fused multiply-add: the same bits on every device.

use cuda_std::prelude::*;

use super::{ConvolveShape, Place, divide};
use crate::matmul::gemm::load::Loader;
use crate::matmul::gemm::thread_tile::{self, Position};
use crate::matmul::gemm::{KMajor, storage};
use crate::matmul::{MulAdd, unroll};

/// Threads of a block.
pub const THREADS: usize = SIDE * SIDE;

/// Threads along each side of a block's tile.
const SIDE: usize = 16;

/// Blocks that a multiprocessor holds at a time: their threads have 128 registers.
const BLOCKS: usize = 2;

/// The size of a block's tile of `T`.
pub trait Size<T>: 'static {
    /// Places and outputs of a block's tile.
    const BLOCK_TILE: [usize; 2];

    /// Computes this block's tile.
    fn run(convolution: &Arguments<'_, T>);
}

/// 128 × 128 places and outputs: the most sums for each element that is loaded. Not of `f64`, for which registers are too few.
#[derive(Clone, Copy, Debug)]
pub struct Large;

/// 64 × 64: for few outputs, or few places.
#[derive(Clone, Copy, Debug)]
pub struct Small;

/// `size: type, a thread's tile TM × TN, step BK along k, elements V of 16 bytes and F of a thread's wide access to shared memory,
/// elements NA and NB of the tiles of A and B that a thread loads`
macro_rules! sizes {
    ($($size:ty: $type:ty, $tm:literal x $tn:literal, $bk:literal, $v:literal $f:literal, $na:literal $nb:literal;)*) => {$(
        impl Size<$type> for $size {
            const BLOCK_TILE: [usize; 2] = [SIDE * $tm, SIDE * $tn];

            #[cfg_attr(target_arch = "nvptx64", inline(always))]
            fn run(convolution: &Arguments<'_, $type>) {
                const {
                    assert!(size_of::<$type>() * $v == 16);
                    assert!($tm * SIDE * $bk == $na * THREADS && $tn * SIDE * $bk == $nb * THREADS);
                    assert!($na % $v == 0 && $nb % $v == 0 && $tm % $f == 0 && $tn % $f == 0);
                }
                let tiles = shared_array![u64; storage([SIDE * $tm, SIDE * $tn], $bk, size_of::<$type>())].cast();
                let places = shared_array![u64; SIDE * $tm];
                convolution.run::<$tm, $tn, { SIDE * $tm }, { SIDE * $tn }, $bk, $v, $f, $na, $nb>(tiles, places);
            }
        }
    )*};
}

sizes! {
    Large: f32, 8 x 8, 8, 4 4, 4 4;
    Small: f32, 4 x 4, 16, 4 4, 4 4;
    Small: f64, 4 x 4, 8, 2 2, 2 2;
}

/// The convolution: `weights` has outputs of all groups, taps and channels of a group, in C order.
///
/// The grid has one axis, of a block of [`THREADS`] threads for each tile of [`Size::BLOCK_TILE`] places and outputs of a group. Where
/// operands do not lie within their arrays, nothing is written.
#[kernel(
    T = [f32], S = [Large, Small];
    T = [f64], S = [Small],
    max_threads = THREADS,
    min_blocks = BLOCKS,
)]
pub fn convolve_tiled<T: MulAdd, S: Size<T>>(x: &[T], weights: &[T], out: SliceMut<'_, T>, shape: ConvolveShape) {
    if thread::block_dim_x() as usize != THREADS || !shape.fits(x.len(), weights.len(), out.len()) {
        return;
    }
    S::run(&Arguments { x, weights, out, shape });
}

/// The arguments of the kernel, which fit together.
pub struct Arguments<'a, T> {
    x: &'a [T],
    weights: &'a [T],
    out: SliceMut<'a, T>,
    shape: ConvolveShape,
}

/// Where a thread is in its line of `A`.
struct Line<'a, T> {
    x: &'a [T],
    shape: &'a ConvolveShape,
    place: Place,
    /// Whether accesses have 16 bytes: channels lie side by side, and a whole number of accesses has them.
    wide: bool,
    /// The place along k: the tap, the channel in its group, and what it is in the image's place.
    tap: [u32; 3],
    channel: u32,
    /// The first channel of the group.
    group: usize,
}

impl<'a, T: MulAdd> Line<'a, T> {
    /// The line of place number `number`, from `k` accesses on.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn new<const V: usize>(x: &'a [T], shape: &'a ConvolveShape, number: usize, group: usize, k: u32) -> Self {
        let whole = |x: usize| x.is_multiple_of(V);
        let strides = shape.x[0] | shape.x[1] | shape.x[2] | shape.x[3];
        let wide = shape.x[4] == 1 && whole(strides) && whole(shape.channels as usize) && x.is_vec_aligned::<V>();
        let mut line = Self {
            x,
            shape,
            place: shape.place(number),
            wide,
            tap: [0; 3],
            channel: 0,
            group: group.wrapping_mul(shape.channels as usize).wrapping_mul(shape.x[4]),
        };
        line.advance(if wide { k * V as u32 } else { k });
        if number >= shape.places() {
            // A line that the convolution has not has no tap.
            line.tap[0] = shape.window[0];
        }
        line
    }

    /// Goes on along k.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn advance(&mut self, elements: u32) {
        self.channel += elements;
        while self.channel >= self.shape.channels {
            self.channel -= self.shape.channels;
            self.tap[2] += 1;
            if self.tap[2] >= self.shape.window[2] {
                self.tap[2] = 0;
                self.tap[1] += 1;
                if self.tap[1] >= self.shape.window[1] {
                    self.tap[1] = 0;
                    self.tap[0] += 1;
                }
            }
        }
    }

    /// The elements here: zeros where the input ends, and behind the last tap.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn access<const V: usize>(&self) -> [T; V] {
        let source = self.shape.source(&self.place, self.tap);
        match source.filter(|_| self.tap[0] < self.shape.window[0]) {
            Some(first) => {
                let at = first
                    .wrapping_add(self.group)
                    .wrapping_add((self.channel as usize).wrapping_mul(self.shape.x[4]));
                // SAFETY: channels of a place of the input, which `fits` found to lie in `x`. If `V` is not 1, the line is wide:
                // the elements lie side by side, all are in this tap, and every offset is a multiple of `V`, as the array is
                // aligned.
                unsafe { self.x.load_vec_unchecked::<V>(at) }
            }
            None => [T::ZERO; V],
        }
    }

    /// The thread's `N` elements of the next tile, of which `side` threads have the same line.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn load<const V: usize, const N: usize>(&mut self, side: usize) -> [T; N] {
        let mut values = [T::ZERO; N];
        if self.wide {
            for access in 0..N / V {
                let vector = self.access::<V>();
                for i in 0..V {
                    values[access * V + i] = vector[i];
                }
                self.advance((side * V) as u32);
            }
        } else {
            for access in 0..N {
                [values[access]] = self.access::<1>();
                self.advance(side as u32);
            }
        }
        values
    }

    /// Puts what [`load`](Self::load) gave into the tile at element `at` of `tiles`, whose positions along k are `pitch` apart; the
    /// thread is number `number` of the `side` ones of its line.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<const V: usize, const N: usize>(
        &self,
        tiles: Shared<T>,
        at: usize,
        values: [T; N],
        [number, side, pitch]: [usize; 3],
    ) {
        // SAFETY (of both): positions are less than `N side`, those of a tile, for which there is room.
        if self.wide {
            for access in 0..N / V {
                for i in 0..V {
                    let k = (number + access * side) * V + i;
                    unsafe { tiles.set_unchecked(at + k * pitch, values[access * V + i]) };
                }
            }
        } else {
            for access in 0..N {
                let k = number + access * side;
                unsafe { tiles.set_unchecked(at + k * pitch, values[access]) };
            }
        }
    }
}

impl<T: MulAdd> Arguments<'_, T> {
    /// Computes this block's tile.
    ///
    /// `TM` × `TN`: the thread's tile; `WM` × `WN`: the block's; `BK`: the step along k; `V`: elements of 16 bytes; `F`: elements of a
    /// wide access to shared memory; `NA`, `NB`: elements of the tiles of `A` and `B` that a thread loads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn run<
        const TM: usize,
        const TN: usize,
        const WM: usize,
        const WN: usize,
        const BK: usize,
        const V: usize,
        const F: usize,
        const NA: usize,
        const NB: usize,
    >(
        &self,
        tiles: Shared<T>,
        places: Shared<u64>,
    ) {
        let shape = &self.shape;
        let columns = shape.outputs.div_ceil(WN as u32);
        let (rest, column) = divide(thread::block_idx_x() as usize, columns);
        let rows = u32::try_from(shape.places().div_ceil(WM)).unwrap_or(u32::MAX);
        let (group, row) = divide(rest, rows);
        if group >= shape.groups as usize || columns == 0 || rows == 0 {
            return;
        }
        let (row, column) = (row * WM, column * WN);

        let side = THREADS / WM;
        let t = thread::thread_idx_x() as usize;
        let (line, number) = (t / side, t % side);
        let mut from_a = Line::new::<V>(self.x, shape, row + line, group, number as u32);
        if number == 0 {
            // SAFETY: a line of the tile. The barrier of the first step is before the first that is read.
            unsafe { places.set_unchecked(line, from_a.place.out as u64) };
        }
        let (outputs, depth) = (shape.outputs as usize, shape.depth());
        let strides = [outputs.wrapping_mul(depth), depth, 1];
        let mut from_b = Loader::new::<KMajor, T, WN, BK, V>(self.weights, strides, [group, column], [outputs, depth]);

        let (pitch_a, pitch_b) = (WM + V, WN + V);
        let (of_b, stage) = ((BK * pitch_a) as u32, (BK * (pitch_a + pitch_b)) as u32);
        let position = Position::of_thread_in_order::<SIDE>();
        let mut sums = [[T::ZERO; TN]; TM];
        let mut a = from_a.load::<V, NA>(side);
        let mut b = from_b.load::<KMajor, T, WN, BK, V, NB, THREADS>(self.weights, depth);
        let (mut left, mut to) = (depth, 0);
        while left > 0 {
            from_a.store::<V, NA>(tiles, to as usize + line, a, [number, side, pitch_a]);
            from_b.store::<KMajor, T, WN, BK, V, NB, THREADS>(tiles, to + of_b, b);
            thread::sync_threads();
            if left > BK {
                a = from_a.load::<V, NA>(side);
                b = from_b.load::<KMajor, T, WN, BK, V, NB, THREADS>(self.weights, left - BK);
            }
            let (at_a, at_b) = (to as usize + position.y * F, (to + of_b) as usize + position.x * F);
            // Behind the last product both tiles have zeros.
            for d in 0..BK {
                thread_tile::step::<T, TM, TN, F, SIDE, SIDE, false>(
                    tiles,
                    at_a + d * pitch_a,
                    at_b + d * pitch_b,
                    &mut sums,
                );
            }
            left = left.saturating_sub(BK);
            // Two buffers and one barrier a step: who writes into a buffer has passed the barrier behind its last reads.
            to = stage - to;
        }
        self.store::<TM, TN, F>(&sums, places, [group, row, column]);
    }

    /// Puts this thread's part into the output.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<const TM: usize, const TN: usize, const F: usize>(
        &self,
        sums: &[[T; TN]; TM],
        places: Shared<u64>,
        [group, row, column]: [usize; 3],
    ) {
        let position = Position::of_thread_in_order::<SIDE>();
        let (shape, out) = (&self.shape, self.out);
        let (outputs, along) = (shape.outputs as usize, shape.out[4]);
        let strides = shape.out[0] | shape.out[1] | shape.out[2] | shape.out[3] | outputs;
        let wide = along == 1 && strides.is_multiple_of(F) && out.is_vec_aligned::<F>();
        let (total, of_group) = (shape.places(), group.wrapping_mul(outputs));
        unroll!(TM, i => {
            let line = position.line::<F, SIDE>(position.y, i);
            if row + line < total {
                // SAFETY: a line of the tile.
                let place = unsafe { places.get_unchecked(line) } as usize;
                unroll!(TN / F; 4, chunk => {
                    let first = chunk * F;
                    let column = column + position.line::<F, SIDE>(position.x, first);
                    let values: [T; F] = cuda_std::array::from_fn(|j| sums[i][first + j]);
                    if wide && column < outputs {
                        // SAFETY: outputs of a place, which `fits` found to lie in `out`; there is a multiple of F of them, and so
                        // is every offset.
                        unsafe { out.set_vec_unchecked(place + of_group + column, values) };
                    } else {
                        unroll!(F; 4, j => {
                            if column + j < outputs {
                                let at = (of_group + column + j).wrapping_mul(along);
                                // SAFETY: as above, one output.
                                unsafe { out.set_vec_unchecked(place.wrapping_add(at), [values[j]]) };
                            }
                        });
                    }
                });
            }
        });
    }
}
