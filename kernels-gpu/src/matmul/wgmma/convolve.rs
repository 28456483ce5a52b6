// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on Hopper's tensor cores, of numbers of 16 bits: products of matrices whose left one, of a line for each place of the
//! output with what all taps read, is in no memory ("implicit GEMM").
//!
//! The block is that of [`gemm_wgmma`](super::gemm_wgmma()). A tile's 128 lines are a box of places of the output, a power of 2 along
//! each axis. What they read with one tap is a box of as many places of the input, which the accelerator copies as it lies, shifted by the
//! tap; with a stride, every so manieth place of a larger box, which the map says. What is beyond the input's ends it makes zeros, which
//! is the padding. So a step along k is 64 channels of a tap, and no address is computed for an element. The result is stored by boxes,
//! too, those of each warp's 16 places.
//!
//! The gradient of a strided convolution's input is one such convolution for each remainder of places by the stride, of the taps that have
//! it. A launch has up to [`PHASES`] of them, which differ in their taps and in the map of their result; that of a remainder which no tap
//! has reads one chunk beyond all ends, and so is zeros. Weights are read as they lie there too: `wgmma` takes them along the outputs,
//! which then are channels.

use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use cuda_std::wgmma::{KMajor, Registers};
use half::{bf16, f16};

use super::{
    A_BYTES, BOX_M, Block, Input, LINE, Output, Place, THREADS, TILE_M, WgmmaShape, b_bytes, produce, tile_k, tile_n,
};
use crate::matmul::unroll;

pub mod across;
pub mod patches;
pub mod weights;

/// Channels of a step along k.
pub const CHANNELS: usize = tile_k(2);

/// Convolutions of a launch, at most.
pub const PHASES: usize = 4;

/// The taps of a convolution.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct ConvolvePhase {
    /// Taps along each axis, none of them 0.
    pub window: [u32; 3],
    /// The first one's place in the map of the weights.
    pub tap: [i32; 3],
    /// Where in the input the first tap of the first place of the output is.
    pub first: [i32; 3],
    /// Chunks of [`CHANNELS`] that a tap has, not 0.
    pub steps: u32,
}

impl ConvolvePhase {
    /// The length of its sums.
    #[inline(always)]
    fn k(&self) -> u32 {
        let [a, b, c] = self.window;
        a * b * c * self.steps * CHANNELS as u32
    }

    /// The step behind a step along k: chunks of channels go round first, then taps along the last axis.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn next(&self, (mut tap, mut step): ([u32; 3], u32)) -> ([u32; 3], u32) {
        step += 1;
        if step == self.steps {
            step = 0;
            tap[2] += 1;
            if tap[2] == self.window[2] {
                tap[2] = 0;
                tap[1] += 1;
                if tap[1] == self.window[1] {
                    tap[1] = 0;
                    tap[0] += 1;
                }
            }
        }
        (tap, step)
    }
}

/// The taps of the convolutions of a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct ConvolvePhases {
    /// From one tap to the next in the map of the weights.
    pub tap_step: [i32; 3],
    /// Those of each convolution.
    pub all: [ConvolvePhase; PHASES],
}

impl ConvolvePhases {
    /// Those of convolution `number`.
    // By comparisons: what is indexed would be copied to local memory.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of(&self, number: u32) -> ConvolvePhase {
        let mut phase = self.all[0];
        unroll!(4, i => {
            if number == i as u32 {
                phase = self.all[i];
            }
        });
        phase
    }
}

/// The places of a convolution, and their tiles. Axes that there are not have the length 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct ConvolvePlaces {
    /// Tiles along the three axes of places; of those of images there is no end.
    pub tiles: [u32; 3],
    /// The places of a tile along the axes of images and of places, as powers of 2, whose product is [`TILE_M`], and of a gradient of
    /// weights [`PLACES`](weights::PLACES).
    pub log_tile: [u32; 4],
    /// Taps along each axis; of a launch of several convolutions, each has its own.
    pub window: [u32; 3],
    /// Places of the input from one of the output to the next, which the map of the input has as its steps.
    pub stride: [u32; 3],
    /// Places of the input from one tap to the next.
    pub dilation: [u32; 3],
    /// Where in the input the first tap of the first place of the output is; of a launch of several convolutions, each has its own.
    pub first: [i32; 3],
    /// Chunks of [`CHANNELS`] that a tap has; of a launch of several convolutions, each has its own.
    pub steps: u32,
}

impl ConvolvePlaces {
    /// The first image and place of tile `number`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn tile(&self, number: u32) -> [u32; 4] {
        let mut at = [0; 4];
        let mut rest = number;
        unroll!(3, i => {
            let axis = 2 - i;
            let tiles = self.tiles[axis];
            // A check would leave a panic.
            let quotient = rest.checked_div(tiles).unwrap_or(0);
            at[axis + 1] = (rest - quotient * tiles) << self.log_tile[axis + 1];
            rest = quotient;
        });
        at[0] = rest << self.log_tile[0];
        at
    }

    /// The image and place of line `line` of the tile that begins there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn line(&self, tile: [u32; 4], line: u32) -> [u32; 4] {
        let mut at = tile;
        let mut shift = 0;
        unroll!(4, i => {
            let axis = 3 - i;
            at[axis] += (line >> shift) & ((1 << self.log_tile[axis]) - 1);
            shift += self.log_tile[axis];
        });
        debug_assert!(1 << shift == TILE_M);
        at
    }
}

/// Convolutions of one input, as many as the shape has products.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`](super::shared_bytes) bytes of dynamic shared memory; the grid has one axis. The
/// maps have the swizzle of 128 bytes. `x` has images, three axes of places, and channels, in boxes of a tile of places, by the
/// steps of `places`, and [`CHANNELS`]; `weights` outputs, three axes of taps, and channels, in boxes of [`tile_n`]
/// outputs, one tap and `CHANNELS`, or, where they lie along the outputs, channels, taps, and outputs, in boxes of `CHANNELS` channels, one
/// tap, and 64 outputs; `out` and the other three, of the other convolutions, of which those that there are not may be any, images, places and
/// outputs, in boxes of 128 bytes of outputs, and of [`BOX_M`] places that lie in a tile one after another. They are of memory that
/// `out` stands for.
///
/// In `shape`, `batch` is the number of convolutions, up to [`PHASES`], `m` is the number of tiles of each times [`TILE_M`], `n` the number of
/// outputs, `k` is not 0, `tile_m` is [`TILE_M`], and all that is said of operands is 0, but `b_along_n`, which says how weights lie.
#[kernel(T = [bf16, f16], R = [32, 64, 128], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn convolve_wgmma<T: Input<Element = T> + Output, const R: usize>(
    x: TensorMap<'_, T>,
    weights: TensorMap<'_, T>,
    out: TensorMapMut<'_, T>,
    second: TensorMapMut<'_, T>,
    third: TensorMapMut<'_, T>,
    fourth: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    places: ConvolvePlaces,
    phases: ConvolvePhases,
) where
    [f32; R]: Registers,
{
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<T, T, R>::new(x, weights, out, shape.without_clusters()) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<40>();
        block.produce_places(warp, &places, &phases);
    } else {
        warpgroup::increase_registers::<232>();
        block.consume_places(warp - 4, &places, &phases, [out, second, third, fourth]);
    }
}

impl<T: Input<Element = T> + Output, const R: usize> Block<'_, T, T, R>
where
    [f32; R]: Registers,
{
    /// Has the stages filled, one after another. For the warps of the producers' warpgroup.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_places(&self, warp: u32, places: &ConvolvePlaces, phases: &ConvolvePhases) {
        if warp >= produce::producers(R) || !warp::elect() {
            return;
        }
        match (produce::producers(R), warp) {
            (1, _) => self.produce_taps::<true, true>(places, phases),
            (_, 0) => self.produce_taps::<true, false>(places, phases),
            _ => self.produce_taps::<false, true>(places, phases),
        }
    }

    /// Has what taps read, weights, or both copied. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_taps<const OF_X: bool, const OF_WEIGHTS: bool>(&self, places: &ConvolvePlaces, phases: &ConvolvePhases) {
        let of_x = if OF_X { A_BYTES as u32 } else { 0 };
        let of_weights = if OF_WEIGHTS { b_bytes(R) as u32 } else { 0 };
        let mut place = Place::<R>::FIRST;
        for tile in self.tiles_of_block() {
            let phase = phases.of(tile.product);
            let [image, places_at @ ..] = places.tile(tile.row / TILE_M as u32);
            let image = image as i32;
            let from: [i32; 3] =
                cuda_std::array::from_fn(|axis| (places_at[axis] * places.stride[axis]) as i32 + phase.first[axis]);
            let (mut tap, mut step) = ([0; 3], 0);
            let (mut k, all) = (0, phase.k());
            while k < all {
                self.free(place.stage).wait(place.round ^ 1);
                let full = self.full(place.stage);
                full.arrive_expect_tx(of_x + of_weights);
                let channel = (step * CHANNELS as u32) as i32;
                let stage = place.stage as usize;
                // SAFETY (of all): boxes of the map are, by the kernel's contract, as large as the stage has room for them, at
                // multiples of 1024 bytes. Nobody reads the stage before its barrier says that it is full.
                if OF_X {
                    let [a, b, c] =
                        cuda_std::array::from_fn(|axis: usize| from[axis] + (tap[axis] * places.dilation[axis]) as i32);
                    unsafe {
                        self.a
                            .load(self.operands(stage * A_BYTES), [channel, c, b, a, image], full)
                    };
                }
                if OF_WEIGHTS {
                    let [a, b, c] = cuda_std::array::from_fn(|axis: usize| {
                        phase.tap[axis] + tap[axis] as i32 * phases.tap_step[axis]
                    });
                    let to = Self::B + stage * b_bytes(R);
                    let output = tile.column as i32;
                    if self.b_lies_along_n() {
                        unroll!(4, i => {
                            if i * OUTPUTS < tile_n(R) {
                                let at = [output + (i * OUTPUTS) as i32, c, b, a, channel];
                                unsafe { self.b.load(self.operands(to + i * OUTPUTS * LINE), at, full) };
                            }
                        });
                    } else {
                        unsafe { self.b.load(self.operands(to), [channel, c, b, a, output], full) };
                    }
                }
                place = place.next();
                k += Self::TILE_K;
                (tap, step) = phase.next((tap, step));
            }
        }
    }

    /// Multiplies the stages, and stores the tiles by the maps of their convolutions. For the eight warps of two warpgroups.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_places(
        &self,
        warp: u32,
        places: &ConvolvePlaces,
        phases: &ConvolvePhases,
        out: [TensorMapMut<'_, T>; PHASES],
    ) {
        let mut place = Place::<R>::FIRST;
        for tile in self.tiles_of_block() {
            let k = phases.of(tile.product).k();
            let shape = WgmmaShape { k, ..self.shape };
            let block = Self { shape, ..*self };
            let sums = match self.b_lies_along_n() {
                false => block.sums::<T, T, KMajor, KMajor>(warp / 4, &mut place),
                true => block.sums::<T, T, KMajor, T::AlongLines>(warp / 4, &mut place),
            };
            let mut to_map = out[0];
            unroll!(4, i => {
                if tile.product == i as u32 {
                    to_map = out[i];
                }
            });
            let first = places.tile(tile.row / TILE_M as u32);
            let [image, a, b, c] = cuda_std::array::map(places.line(first, warp * BOX_M as u32), |at| at as i32);
            unroll!(8, number => {
                if number * Self::OF_BOX < R {
                    let from = number * Self::OF_BOX;
                    let to = self.take_box(number as u32, warp);
                    Self::put_sums(to, |i| sums.element(from + i));
                    tma::fence_async();
                    warp::sync_warp(warp::FULL_MASK);
                    if warp::elect() {
                        let output = (tile.column as usize + 2 * from) as i32;
                        // SAFETY: a box of the map, by the kernel's contract, whose memory is not written before it has been read.
                        unsafe { to_map.store([output, c, b, a, image], to.cast()) };
                        tma::commit();
                    }
                }
            });
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }
}

/// Outputs of a box of weights that lie along them.
pub const OUTPUTS: usize = 64;

const _: () = assert!(CHANNELS * 2 == LINE && OUTPUTS * 2 == LINE);
