// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of the weights of convolutions on Hopper's tensor cores: products over places, of the gradient of the result with what
//! each tap reads, which is in no memory.
//!
//! The block is that of [`gemm_wgmma`](super::super::gemm_wgmma()). The lines of a tile are outputs; its columns are chunks of 64
//! channels, each of a tap. A step along k is a box of 64 places of the output: of these, the accelerator copies boxes of 64 outputs,
//! and for each chunk a box of as many places of the input, shifted by the tap, as [`convolve_wgmma`](super::convolve_wgmma()) has
//! them. Both lie along their lines, which `wgmma` takes. The places are cut into parts, so that there is work for all
//! multiprocessors, and each part's sums are stored in f32.

use bytemuck::Pod;
use cuda_std::prelude::*;
use cuda_std::tma::{self, TensorMap, TensorMapMut};
use cuda_std::warpgroup;
use half::{bf16, f16};

use super::super::{A_BYTES, BOX_M, Block, Input, LINE, Place, THREADS, TILE_M, WgmmaShape, b_bytes, tile_n};
use super::{CHANNELS, ConvolvePlaces};
use crate::matmul::unroll;

/// Places of a step along k.
pub const PLACES: usize = 64;

/// Registers of a tile's sums. Taps are three by three more often than not, so that chunks fill their tiles.
pub const REGISTERS: usize = 96;

/// Chunks of channels of a tile.
const CHUNKS: usize = tile_n(REGISTERS) / CHANNELS;

/// Bytes of a stage's boxes of the input.
const B_BYTES: usize = b_bytes(REGISTERS);

/// Bytes of a box of places.
const BOX: usize = PLACES * LINE;

/// A chunk of channels of a tap.
#[derive(Clone, Copy)]
struct Chunk {
    tap: u32,
    channel: u32,
}

impl ConvolvePlaces {
    /// Chunk `number`, of taps one after another.
    #[inline(always)]
    fn chunk(&self, number: u32) -> Chunk {
        // A check would leave a panic.
        let tap = number.checked_div(self.steps).unwrap_or(0);
        Chunk {
            tap,
            channel: (number - tap * self.steps) * CHANNELS as u32,
        }
    }

    /// Where in the input the first place reads with tap `number`.
    #[inline(always)]
    fn source(&self, number: u32) -> [i32; 3] {
        let [_, rows, columns] = self.window;
        let line = number.checked_div(columns).unwrap_or(0);
        let plane = line.checked_div(rows).unwrap_or(0);
        let tap = [plane, line - plane * rows, number - line * columns];
        cuda_std::array::from_fn(|axis| self.first[axis] + (tap[axis] * self.dilation[axis]) as i32)
    }

    /// The first image and place of the tile behind that which begins there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn next(&self, mut tile: [u32; 4]) -> [u32; 4] {
        tile[3] += 1 << self.log_tile[3];
        unroll!(3, i => {
            let axis = 3 - i;
            if tile[axis] >= self.tiles[axis - 1] << self.log_tile[axis] {
                tile[axis] = 0;
                tile[axis - 1] += 1 << self.log_tile[axis - 1];
            }
        });
        tile
    }
}

/// The sums of each part of the places.
///
/// # Safety
///
/// A block has [`THREADS`] threads and [`shared_bytes`](super::super::shared_bytes) bytes of dynamic shared memory for [`REGISTERS`];
/// the grid has one axis. The maps have the swizzle of 128 bytes. `out` has images, three axes of places, and outputs, in boxes of a tile
/// of [`PLACES`] places and as many outputs; `x` the input's, in boxes of as many places, by the steps of `places`, and [`CHANNELS`];
/// `sums` parts, outputs, taps and channels, in boxes of [`BOX_M`] outputs and 32 channels.
///
/// In `shape`, `batch` is the number of parts, `m` that of outputs, `n` that of taps times `steps` times `CHANNELS`, `k` the places of a
/// part's tiles, which is not 0, `tile_m` is [`TILE_M`], and all that is said of operands is 0.
#[kernel(T = [bf16, f16], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn convolve_weights_wgmma<T: Input<Element = T> + Pod>(
    out: TensorMap<'_, T>,
    x: TensorMap<'_, T>,
    sums: TensorMapMut<'_, f32>,
    shape: WgmmaShape,
    places: ConvolvePlaces,
) {
    // SAFETY: the kernel's contract.
    let block = unsafe { Block::<T, f32, REGISTERS>::new(out, x, sums, shape.without_clusters()) };
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    if warp < 4 {
        warpgroup::decrease_registers::<56>();
        if warp == 0 && warp::elect() {
            block.produce_parts(&places);
        }
    } else {
        warpgroup::increase_registers::<224>();
        block.consume_parts(warp - 4, &places);
    }
}

impl<T: Input<Element = T> + Pod> Block<'_, T, f32, REGISTERS> {
    /// Has the stages filled, one after another. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce_parts(&self, places: &ConvolvePlaces) {
        let mut place = Place::<REGISTERS>::FIRST;
        for tile in self.tiles_of_block() {
            let first = tile.column / CHANNELS as u32;
            let chunks: [Chunk; CHUNKS] = cuda_std::array::from_fn(|i| places.chunk(first + i as u32));
            let sources = cuda_std::array::map(chunks, |chunk| places.source(chunk.tap));
            let mut at = places.tile(tile.product * (self.shape.k / PLACES as u32));
            let mut k = 0;
            while k < self.shape.k {
                self.free(place.stage).wait(place.round ^ 1);
                let full = self.full(place.stage);
                full.arrive_expect_tx((A_BYTES + B_BYTES) as u32);
                let stage = place.stage as usize;
                let [image, a, b, c] = cuda_std::array::map(at, |at| at as i32);
                // SAFETY (of both): boxes of the map are, by the kernel's contract, as large as the stage has room for them, at
                // multiples of 1024 bytes. Nobody reads the stage before its barrier says that it is full.
                unroll!(2, i => {
                    let output = (tile.row as usize + i * PLACES) as i32;
                    let to = self.operands(stage * A_BYTES + i * BOX);
                    unsafe { self.a.load(to, [output, c, b, a, image], full) };
                });
                unroll!(3, i => {
                    let from: [i32; 3] = cuda_std::array::from_fn(|axis: usize| {
                        (at[axis + 1] * places.stride[axis]) as i32 + sources[i][axis]
                    });
                    let channel = chunks[i].channel as i32;
                    let to = self.operands(Self::B + stage * B_BYTES + i * BOX);
                    unsafe { self.b.load(to, [channel, from[2], from[1], from[0], image], full) };
                });
                place = place.next();
                at = places.next(at);
                k += PLACES as u32;
            }
        }
    }

    /// Multiplies the stages, and stores the tiles. For the eight warps of two warpgroups.
    // On the simulated GPU in a frame of its own: there is no room for both roles' in one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn consume_parts(&self, warp: u32, places: &ConvolvePlaces) {
        let mut place = Place::<REGISTERS>::FIRST;
        for tile in self.tiles_of_block() {
            let sums = self.sums::<T, T, T::AlongLines, T::AlongLines>(warp / 4, &mut place);
            let output = (tile.row + warp * BOX_M as u32) as i32;
            unroll!(8, number => {
                if number * Self::OF_BOX < REGISTERS {
                    let first = number * Self::OF_BOX;
                    let to = self.take_box(number as u32, warp);
                    Self::put_sums(to, |i| sums.element(first + i));
                    tma::fence_async();
                    warp::sync_warp(warp::FULL_MASK);
                    if warp::elect() {
                        let column = tile.column + 2 * first as u32;
                        let Chunk { tap, channel } = places.chunk(column / CHANNELS as u32);
                        let channel = channel + column % CHANNELS as u32;
                        // SAFETY: a box of the map, by the kernel's contract, whose memory is not written before it has been read.
                        unsafe { self.c.store([channel as i32, tap as i32, output, tile.product as i32], to.cast()) };
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

const _: () =
    assert!(2 * BOX == A_BYTES && CHUNKS == 3 && 3 * BOX == B_BYTES && 2 * PLACES == TILE_M && PLACES * 2 == LINE);
