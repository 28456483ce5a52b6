// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on Hopper's tensor cores with places as the columns of what is multiplied: tiles of any box of up to [`COLUMNS`]
//! places, and 128 outputs.
//!
//! [`convolve_wgmma`](super::convolve_wgmma()) has places as lines, of which the tensor cores take 64 at a time, so that tiles have 128
//! of them, and boxes that are powers of 2. Of columns they take any multiple of 8. Pictures in networks have 7, 14, 28 or 56 places
//! along an axis, and 7 × 28 or 14 × 14 are 196 places: of 32 images of 28², where tiles of 128 places are one and a half for each of 132
//! multiprocessors, those are 128. A step along k is as long, of 42 KiB for 1.5 times the products of 32.
//!
//! The product is the transpose of that of [`convolve_wgmma`](super::convolve_wgmma()), its left matrix the weights; sums are transposed
//! on their way to shared memory, as in [`across`](super::super::across), from where the accelerator stores 64 outputs of all places of
//! a tile at once. What a stage has behind the places of a tile are zeros, which are multiplied, and not stored.

use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use cuda_std::wgmma::KMajor;
use half::{bf16, f16};

use super::super::across::meet;
use super::super::{A_BYTES, Block, Input, LINE, Output, Place, THREADS, TILE_M, WgmmaShape, b_bytes, tile_n};
use super::{CHANNELS, ConvolvePhases, OUTPUTS, PHASES};
use crate::matmul::unroll;

/// Registers of a tile's sums.
pub const REGISTERS: usize = 104;

/// The most places of a tile.
pub const COLUMNS: usize = tile_n(REGISTERS);

/// Places of the output of a box of a consumer's result, which are one after another in shared memory.
const BOXES: usize = REGISTERS / 8;

/// The places of a convolution, and their tiles. Axes that there are not have the length 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct AcrossPlaces {
    /// Tiles along the three axes of places; of those of images there is no end.
    pub tiles: [u32; 3],
    /// The places of a tile along the axes of images and of places, whose product is [`COLUMNS`] at most.
    pub tile: [u32; 4],
    /// Places of the input from one of the output to the next, which the map of the input has as its steps.
    pub stride: [u32; 3],
    /// Places of the input from one tap to the next.
    pub dilation: [u32; 3],
}

impl AcrossPlaces {
    /// The first image and place of tile `number`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn first(&self, number: u32) -> [u32; 4] {
        let mut at = [0; 4];
        let mut rest = number;
        unroll!(3, i => {
            let axis = 2 - i;
            let tiles = self.tiles[axis];
            // A check would leave a panic.
            let quotient = rest.checked_div(tiles).unwrap_or(0);
            at[axis + 1] = (rest - quotient * tiles) * self.tile[axis + 1];
            rest = quotient;
        });
        at[0] = rest * self.tile[0];
        at
    }

    /// The places of a tile.
    #[inline(always)]
    fn columns(&self) -> u32 {
        let [images, a, b, c] = self.tile;
        images * a * b * c
    }
}

/// Convolutions of one input, as many as the shape has products.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`](super::super::shared_bytes) bytes of dynamic shared memory for [`REGISTERS`]; the
/// grid has one axis. The maps have the swizzle of 128 bytes. `weights` has outputs, three axes of taps, and channels, in boxes of
/// [`TILE_M`] outputs, one tap and [`CHANNELS`], or, where they lie along the outputs, channels, taps, and outputs, in boxes of
/// `CHANNELS` channels, one tap, and [`OUTPUTS`] outputs; `x` has images, three axes of places, and channels, in boxes of a tile of
/// `places`, by their steps, and `CHANNELS`; `out` and the other three, of the other convolutions, of which those that there are not may
/// be any, images, places and outputs, in boxes of a tile, and `OUTPUTS`. They are of memory that `out` stands for.
///
/// In `shape`, `batch` is the number of convolutions, up to [`PHASES`], `m` that of outputs, `n` the number of tiles of each times
/// [`COLUMNS`], `k` is not 0, `tile_m` is [`TILE_M`], and all that is said of operands is 0, but `a_along_m`, which says how weights lie.
#[kernel(T = [bf16, f16], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn convolve_wgmma_across<T: Input<Element = T> + Output>(
    weights: TensorMap<'_, T>,
    x: TensorMap<'_, T>,
    out: TensorMapMut<'_, T>,
    second: TensorMapMut<'_, T>,
    third: TensorMapMut<'_, T>,
    fourth: TensorMapMut<'_, T>,
    shape: WgmmaShape,
    places: AcrossPlaces,
    phases: ConvolvePhases,
) {
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<T, T, REGISTERS>::new(weights, x, out, shape) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<40>();
        if warp == 0 && warp::elect() {
            block.produce_across(&places, &phases);
        }
    } else {
        warpgroup::increase_registers::<232>();
        block.consume_places_across(warp - 4, &places, &phases, [out, second, third, fourth]);
    }
}

impl<T: Input<Element = T> + Output> Block<'_, T, T, REGISTERS> {
    /// Has the stages filled, one after another. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_across(&self, places: &AcrossPlaces, phases: &ConvolvePhases) {
        let bytes = A_BYTES as u32 + places.columns() * LINE as u32;
        let mut place = Place::<REGISTERS>::FIRST;
        for tile in self.tiles_of_block() {
            let phase = phases.of(tile.product);
            let [image, at @ ..] = places.first(tile.column / COLUMNS as u32);
            let from: [i32; 3] =
                cuda_std::array::from_fn(|axis| (at[axis] * places.stride[axis]) as i32 + phase.first[axis]);
            let (mut tap, mut step) = ([0; 3], 0);
            let (mut k, all) = (0, phase.k());
            while k < all {
                self.free(place.stage).wait(place.round ^ 1);
                let full = self.full(place.stage);
                full.arrive_expect_tx(bytes);
                let channel = (step * CHANNELS as u32) as i32;
                let stage = place.stage as usize;
                let [a, b, c] =
                    cuda_std::array::from_fn(|axis: usize| from[axis] + (tap[axis] * places.dilation[axis]) as i32);
                let to = Self::B + stage * b_bytes(REGISTERS);
                // SAFETY (of all): boxes of the map are, by the kernel's contract, no larger than the stage has room for them, at
                // multiples of 1024 bytes. Nobody reads the stage before its barrier says that it is full.
                unsafe { self.b.load(self.operands(to), [channel, c, b, a, image as i32], full) };
                let [a, b, c] =
                    cuda_std::array::from_fn(|axis: usize| phase.tap[axis] + tap[axis] as i32 * phases.tap_step[axis]);
                let (to, output) = (stage * A_BYTES, tile.row as i32);
                if self.a_lies_along_m() {
                    unroll!(2, i => {
                        let at = [output + (i * OUTPUTS) as i32, c, b, a, channel];
                        unsafe { self.a.load(self.operands(to + i * OUTPUTS * LINE), at, full) };
                    });
                } else {
                    unsafe { self.a.load(self.operands(to), [channel, c, b, a, output], full) };
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
    fn consume_places_across(
        &self,
        warp: u32,
        places: &AcrossPlaces,
        phases: &ConvolvePhases,
        out: [TensorMapMut<'_, T>; PHASES],
    ) {
        let group = warp / 4;
        self.clear(Self::B, b_bytes(REGISTERS), [places.columns(), COLUMNS as u32]);
        let mut place = Place::<REGISTERS>::FIRST;
        for tile in self.tiles_of_block() {
            let k = phases.of(tile.product).k();
            let shape = WgmmaShape { k, ..self.shape };
            let block = Self { shape, ..*self };
            let sums = match self.a_lies_along_m() {
                false => block.sums::<T, T, KMajor, KMajor>(group, &mut place),
                true => block.sums::<T, T, T::AlongLines, KMajor>(group, &mut place),
            };
            let mut to_map = out[0];
            unroll!(4, i => {
                if tile.product == i as u32 {
                    to_map = out[i];
                }
            });
            self.take_boxes(group);
            unroll!(16, number => {
                if number < BOXES {
                    self.put_box(group, number as u32, |i| sums.element(8 * number + i));
                }
            });
            tma::fence_async();
            meet(group);
            if warp.is_multiple_of(4) && warp::elect() {
                let [image, a, b, c] = cuda_std::array::map(places.first(tile.column / COLUMNS as u32), |at| at as i32);
                let output = (tile.row + group * OUTPUTS as u32) as i32;
                // SAFETY: a box of the map, by the kernel's contract, no larger than this consumer's boxes, whose memory is not written
                // before it has been read.
                unsafe { to_map.store([output, c, b, a, image], self.boxes_across(group).cast()) };
                tma::commit();
            }
        }
        if warp::elect() {
            // The shared memory is the block's as long as copies read it.
            tma::wait_read::<0>();
        }
    }
}

const _: () = assert!(TILE_M == 2 * OUTPUTS && A_BYTES == TILE_M * LINE);
