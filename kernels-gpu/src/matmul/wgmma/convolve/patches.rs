// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions of some channels on Hopper's tensor cores, with what a tile reads in shared memory once, for all taps.
//!
//! [`convolve_wgmma`](super::convolve_wgmma()) has the accelerator copy what each tap reads, so that each element of the input comes from
//! the cache once for each tap. Where products are few for that, of 32 channels and outputs 32 for an element, the cache is what limits it.
//! Here a tile is a box of places of the output of one image. What all its taps read, its *patch*, is a box of the input, which the
//! accelerator copies in planes of 8 channels: of a plane, places one after another are pieces of 16 bytes one after another. That is how
//! `wgmma` takes matrices without swizzle ([`KMajorPieces`]), from any piece on: what a tap reads is the same memory from another place on.
//!
//! Each instruction takes 16 channels of a tap; a table in shared memory says how far what it reads is from the first, so that little
//! stands between one and the next: with loops over axes, taps and channels there were 32 instructions for each, and nothing else counted.
//!
//! The weights of a block's outputs stay in shared memory, in planes too, while the block takes tile after tile. One thread has patches
//! copied into a ring of stages. The consumers are independent of one another: each multiplies *parts* of the tile, 64 places with all
//! their outputs, by all taps, and stores them while the others multiply. The lines of a part are 8 places along the last axis each, and
//! from one to the next it is as far as to the next line of the patch, or to the next 8 places of the same.

use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma::TensorMap;
use cuda_std::wgmma::{Accumulator, KMajorPieces, MatrixDescriptor, Registers};
use half::{bf16, f16};

use super::super::{Input, Output};
use crate::convolve::ConvolveShape;
use crate::matmul::unroll;

/// The most warpgroups that multiply. With four ptxas has 96 registers of a thread, and keeps some in memory.
pub const CONSUMERS: usize = 3;

/// The most threads of a block: the consumers, and the warp that has patches copied.
pub const THREADS: usize = threads(CONSUMERS);

/// Threads of a block with so many consumers.
pub const fn threads(consumers: usize) -> usize {
    128 * consumers + 32
}

/// Channels of a plane.
pub const WIDE: usize = 8;

/// Places of a part.
pub const PART: usize = 64;

/// Bytes of a piece.
const PIECE: u32 = 16;

/// Parts that a consumer multiplies at a time, of whose sums a thread has so many registers each. A tile has a multiple of them.
pub const fn at_once(registers: usize) -> u32 {
    match registers {
        64 => 1,
        _ => 2,
    }
}

/// Where a matrix lies.
type Descriptor<T> = MatrixDescriptor<T, KMajorPieces>;

/// How a convolution falls to blocks, and what they have in shared memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct PatchesPlan {
    /// Tiles of an image along the axes.
    pub tiles: [u32; 3],
    /// Parts of a tile along the axes.
    pub parts: [u32; 3],
    /// Places of a part along the axes: 8 × 8 along the last two, or 64 along the last.
    pub part: [u32; 3],
    /// Places of the input that a tile reads, along the axes.
    pub patch: [u32; 3],
    /// Pairs of planes of channels.
    pub pairs: u32,
    /// Blocks side by side that all outputs take.
    pub columns: u32,
    /// Patches that there is room for.
    pub stages: u32,
}

impl PatchesPlan {
    /// Bytes of a plane of a patch, and of all of them.
    #[inline(always)]
    fn bytes(&self) -> [u32; 2] {
        let [a, b, c] = self.patch;
        let plane = (a * b * c * PIECE).next_multiple_of(128);
        [plane, 2 * self.pairs * plane]
    }

    /// Bytes of a plane of weights, of `taps` taps and `outputs` outputs, and of all of them.
    #[inline(always)]
    fn weights(&self, taps: u32, outputs: u32) -> [u32; 2] {
        let plane = taps * outputs * PIECE;
        [plane, 2 * self.pairs * plane]
    }

    /// Where the barriers begin in shared memory, which the table follows.
    #[inline(always)]
    fn barriers(&self, taps: u32, outputs: u32) -> u32 {
        self.weights(taps, outputs)[1] + self.stages * self.bytes()[1]
    }

    /// Bytes of dynamic shared memory.
    pub fn memory(&self, taps: u32, outputs: u32) -> u32 {
        128 + self.barriers(taps, outputs) + 8 * (2 * self.stages + 1) + 4 * (taps * self.pairs + 1)
    }
}

/// The convolution.
///
/// # Safety
///
/// A block has [`threads`] threads, of 1 to [`CONSUMERS`] consumers, and the bytes of dynamic shared memory that
/// [`memory`](PatchesPlan::memory) says for the taps and 2 `R` outputs, of which there is a multiple of 8; the grid has one axis, of a
/// multiple of `columns` blocks. The stride is 1, there is one group, and there are an image, a place and a tap. Tiles cover the output; there
/// are less than 2^31 of them. A patch has what a tile reads. Maps have no swizzle. `x` has images, three axes of places, and channels,
/// in boxes of a patch of one image, and [`WIDE`] channels; `weights` three axes of taps, outputs and channels, in boxes of all taps, 2 `R`
/// outputs, and as many channels. The output lies within its array, which is aligned to 16 bytes; its outputs are neighbours, in a
/// multiple of 8, and its other distances are such multiples.
#[kernel(T = [bf16, f16], R = [16, 32, 64], arch = "sm_90a", max_threads = THREADS, min_blocks = 1)]
pub unsafe fn convolve_patches_wgmma<T: Input<Element = T> + Output, const R: usize>(
    x: TensorMap<'_, T>,
    weights: TensorMap<'_, T>,
    out: SliceMut<'_, T>,
    shape: ConvolveShape,
    plan: PatchesPlan,
) where
    [f32; R]: Registers,
{
    let memory = cuda_std::shared::dynamic::<u8>().aligned::<128>();
    let [a, b, c] = shape.window;
    let taps = a * b * c;
    let at = plan.barriers(taps, 2 * R as u32) as usize;
    // SAFETY: the block has as much memory behind that address.
    let barriers = unsafe { memory.subarray_unchecked(at, 8 * (2 * plan.stages as usize + 1)) }.cast::<u64>();
    let steps = taps * plan.pairs;
    // SAFETY: as above.
    let table = unsafe { memory.subarray_unchecked(at + 8 * (2 * plan.stages as usize + 1), 4 * (steps as usize + 1)) };
    let (first, column) = quotient(thread::block_idx_x(), plan.columns);
    let block = Block::<T, R> {
        x,
        weights,
        out,
        shape,
        plan,
        taps,
        first,
        apart: quotient(thread::grid_dim_x(), plan.columns).0,
        column: column * 2 * R as u32,
        memory,
        barriers,
        table: table.cast(),
        steps,
    };
    block.make_table();
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    let consumers = thread::block_dim_x() / 128;
    if thread::thread_idx_x() == 0 {
        x.prefetch();
        weights.prefetch();
        block.loaded().init(1);
        let mut stage = 0;
        while stage < plan.stages {
            block.full(stage).init(1);
            block.free(stage).init(consumers);
            stage += 1;
        }
        mbarrier::fence_init();
    }
    thread::sync_threads();
    if warp < 4 * consumers {
        // SAFETY: the kernel's contract.
        unsafe { block.consume(warp, consumers) };
    } else if warp::elect() {
        block.produce();
    }
}

/// Quotient and remainder; 0 where there is none, so that there is no panic to compile.
#[inline(always)]
fn quotient(a: u32, b: u32) -> (u32, u32) {
    let quotient = a.checked_div(b).unwrap_or(0);
    (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
}

/// The numbers along three axes of number `number`, of so many along each; and what is left.
#[inline(always)]
fn digits(number: u32, lengths: [u32; 3]) -> (u32, [u32; 3]) {
    let (rest, c) = quotient(number, lengths[2]);
    let (rest, b) = quotient(rest, lengths[1]);
    let (rest, a) = quotient(rest, lengths[0]);
    (rest, [a, b, c])
}

/// A place in the ring of stages.
#[derive(Clone, Copy)]
struct Place {
    stage: u32,
    /// The parity of the rounds so far.
    round: u32,
}

impl Place {
    const FIRST: Self = Self { stage: 0, round: 0 };

    /// The next one, of so many stages.
    #[inline(always)]
    fn next(self, stages: u32) -> Self {
        if self.stage + 1 == stages {
            Self {
                stage: 0,
                round: self.round ^ 1,
            }
        } else {
            Self {
                stage: self.stage + 1,
                ..self
            }
        }
    }
}

/// What the threads of a block have in common.
struct Block<'a, T, const R: usize> {
    x: TensorMap<'a, T>,
    weights: TensorMap<'a, T>,
    out: SliceMut<'a, T>,
    shape: ConvolveShape,
    plan: PatchesPlan,
    taps: u32,
    /// The first tile, and from one to the next.
    first: u32,
    apart: u32,
    /// The first output.
    column: u32,
    /// The weights, then the stages.
    memory: Shared<u8>,
    /// For each stage whether it is full, then for each whether it is free, then whether the weights are there.
    barriers: Shared<u64>,
    /// For each step, 16 channels of a tap, how far what it reads is from the first, and, in the upper half, so of its weights, in pieces;
    /// and a word more.
    table: Shared<u32>,
    steps: u32,
}

impl<T: Input<Element = T> + Output, const R: usize> Block<'_, T, R>
where
    [f32; R]: Registers,
{
    /// Outputs of the block.
    const OUTPUTS: u32 = 2 * R as u32;

    /// Parts that a consumer multiplies at a time: with two, there are half as many steps. The sums of more outputs have no room.
    const AT_ONCE: u32 = at_once(R);

    /// The barrier that the copies of a stage complete.
    #[inline(always)]
    fn full(&self, stage: u32) -> Mbarrier {
        // SAFETY (of all): there are two for each stage, and one.
        unsafe { Mbarrier::at_unchecked(self.barriers, stage as usize) }
    }

    /// The barrier at which the consumers arrive when they are done with a stage.
    #[inline(always)]
    fn free(&self, stage: u32) -> Mbarrier {
        unsafe { Mbarrier::at_unchecked(self.barriers, (self.plan.stages + stage) as usize) }
    }

    /// The barrier that the copies of the weights complete.
    #[inline(always)]
    fn loaded(&self) -> Mbarrier {
        unsafe { Mbarrier::at_unchecked(self.barriers, 2 * self.plan.stages as usize) }
    }

    /// The memory from byte `at` on, of so many bytes.
    #[inline(always)]
    fn bytes_at(&self, at: u32, bytes: u32) -> Shared<T> {
        // SAFETY: of the weights or stages.
        unsafe { self.memory.subarray_unchecked(at as usize, bytes as usize) }.cast()
    }

    /// Tiles of all images.
    #[inline(always)]
    fn tiles(&self) -> u32 {
        let [a, b, c] = self.plan.tiles;
        self.shape.images * a * b * c
    }

    /// The image of tile `number`, and its first place.
    #[inline(always)]
    fn tile(&self, number: u32) -> (u32, [u32; 3]) {
        let (image, tile) = digits(number, self.plan.tiles);
        let place = |axis: usize| tile[axis] * self.plan.parts[axis] * self.plan.part[axis];
        (image, cuda_std::array::from_fn(place))
    }

    /// Makes the table. For all threads.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn make_table(&self) {
        let (shape, plan) = (&self.shape, &self.plan);
        let [of_weights, _] = plan.weights(self.taps, Self::OUTPUTS);
        let [of_patch, _] = plan.bytes();
        let mut step = thread::thread_idx_x();
        while step <= self.steps {
            let (tap, pair) = quotient(step, plan.pairs);
            let (_, [a, b, c]) = digits(tap, shape.window);
            let line = a * shape.dilation[0] * plan.patch[1] + b * shape.dilation[1];
            let place = line * plan.patch[2] + c * shape.dilation[2];
            let a = place + 2 * pair * (of_patch / PIECE);
            let b = tap * Self::OUTPUTS + 2 * pair * (of_weights / PIECE);
            // SAFETY: a word of the table.
            unsafe { self.table.set_unchecked(step as usize, a & 0xffff | b << 16) };
            step += thread::block_dim_x();
        }
    }

    /// Has the weights copied, and the stages filled, one after another. For one thread.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn produce(&self) {
        let planes = 2 * self.plan.pairs;
        let [plane, all] = self.plan.weights(self.taps, Self::OUTPUTS);
        let loaded = self.loaded();
        loaded.arrive_expect_tx(all);
        let mut i = 0;
        while i < planes {
            let at = [(i * WIDE as u32) as i32, self.column as i32, 0, 0, 0];
            // SAFETY: a box of the map is, by the kernel's contract, a plane, which begins at a multiple of 128 bytes, and which nobody
            // reads before the barrier says that it is there.
            unsafe { self.weights.load(self.bytes_at(i * plane, plane), at, loaded) };
            i += 1;
        }
        let first = all;
        let [plane, all] = self.plan.bytes();
        let [a, b, c] = self.plan.patch;
        let mut place = Place::FIRST;
        let mut number = self.first;
        while number < self.tiles() {
            let (image, tile) = self.tile(number);
            let [a0, b0, c0] =
                cuda_std::array::from_fn(|axis: usize| tile[axis].wrapping_add(self.shape.first[axis]) as i32);
            self.free(place.stage).wait(place.round ^ 1);
            let full = self.full(place.stage);
            full.arrive_expect_tx(planes * a * b * c * PIECE);
            let mut i = 0;
            while i < planes {
                let to = self.bytes_at(first + place.stage * all + i * plane, plane);
                let at = [(i * WIDE as u32) as i32, c0, b0, a0, image as i32];
                // SAFETY: as above; all consumers are done with the stage.
                unsafe { self.x.load(to, at, full) };
                i += 1;
            }
            place = place.next(self.plan.stages);
            number += self.apart;
        }
    }

    /// Multiplies and stores parts of the tiles. For the warps of the consumers.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn consume(&self, warp: u32, consumers: u32) {
        let (plan, group) = (&self.plan, warp / 4);
        let leads = thread::thread_idx_x().is_multiple_of(128);
        let [of_weights, first] = plan.weights(self.taps, Self::OUTPUTS);
        let [plane, all] = plan.bytes();
        let [_, _, columns] = plan.patch;
        // From 8 places of a part to the next 8: a line of the patch further on, or 8 places.
        let on = if plan.part[1] == 1 { [0, 8] } else { [1, 0] };
        let a = Descriptor::<T>::new(
            self.bytes_at(first, plan.stages * all),
            plane,
            (on[0] * columns + on[1]) * PIECE,
        );
        let b = Descriptor::<T>::new(self.bytes_at(0, first), of_weights, 8 * PIECE);
        let parts = plan.parts[0] * plan.parts[1] * plan.parts[2];
        self.loaded().wait(0);
        let mut place = Place::FIRST;
        let mut number = self.first;
        // Parts of all tiles fall to the consumers in turn.
        let mut part = group * Self::AT_ONCE;
        while number < self.tiles() {
            let (image, tile) = self.tile(number);
            self.full(place.stage).wait(place.round);
            if part >= parts {
                self.free(place.stage).arrive_if(leads);
            }
            let from = |part: u32| -> [u32; 3] {
                let (_, of_tile) = digits(part, plan.parts);
                cuda_std::array::from_fn(|axis: usize| of_tile[axis] * plan.part[axis])
            };
            while part < parts {
                let both = [from(part), from(part + Self::AT_ONCE - 1)];
                let corner = |[i, j, k]: [u32; 3]| (i * plan.patch[1] + j) * columns + k;
                let of_stage = a.advance(place.stage * all);
                let sums = self.sums(both.map(|from| of_stage.advance(corner(from) * PIECE)), b);
                part += consumers * Self::AT_ONCE;
                if part >= parts {
                    self.free(place.stage).arrive_if(leads);
                }
                unroll!(2, i => {
                    if (i as u32) < Self::AT_ONCE {
                        let at = cuda_std::array::from_fn(|axis: usize| tile[axis] + both[i][axis]);
                        // SAFETY: the kernel's contract.
                        unsafe { self.store(&sums[i], image, at, on, warp % 4) };
                    }
                });
            }
            part -= parts;
            place = place.next(plan.stages);
            number += self.apart;
        }
    }

    /// The sums of parts over all taps and channels, where what the first tap reads of the first channels, and its weights, are there.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums(&self, a: [Descriptor<T>; 2], b: Descriptor<T>) -> [Accumulator<R>; 2] {
        let mut first = Accumulator::<R>::zero().start();
        let mut second = Accumulator::<R>::zero().start();
        let mut step = 0;
        // SAFETY (of all): a word of the table; what it says is there, and stays until the wait below, behind which this consumer says
        // that it is done.
        let mut word = unsafe { self.table.get_unchecked(0) };
        while step < self.steps {
            step += 1;
            let next = unsafe { self.table.get_unchecked(step as usize) };
            let (of_a, b) = ((word & 0xffff) * PIECE, b.advance((word >> 16) * PIECE));
            first = unsafe { first.mma(a[0].advance(of_a), b) };
            if Self::AT_ONCE == 2 {
                second = unsafe { second.mma(a[1].advance(of_a), b) };
            }
            word = next;
        }
        let first = first.commit();
        let second = second.commit();
        [first.wait(), second.wait()]
    }

    /// Stores the part whose first place is `at`, from 8 places of which to the next 8 there are so many lines, or places.
    ///
    /// # Safety
    ///
    /// The kernel's contract.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store(&self, sums: &Accumulator<R>, image: u32, at: [u32; 3], on: [u32; 2], warp: u32) {
        let lane = thread::thread_idx_x() % 32;
        let shape = &self.shape;
        unroll!(2, h => {
            let eight = 2 * warp + h as u32;
            let place = [at[0], at[1] + eight * on[0], at[2] + eight * on[1] + lane / 4];
            let mut to = (image as usize).wrapping_mul(shape.out[0]);
            let mut is_there = true;
            unroll!(3, axis => {
                is_there &= place[axis] < shape.output[axis];
                to = to.wrapping_add((place[axis] as usize).wrapping_mul(shape.out[axis + 1]));
            });
            unroll!(4, group => {
                if 16 * group < R {
                    let words: [u32; 4] = cuda_std::array::from_fn(|j: usize| {
                        let first = (16 * group + 4 * j + 2 * h) % R;
                        T::pack(sums.element(first), sums.element(first + 1))
                    });
                    let words = across(words, lane);
                    let output = self.column + 32 * group as u32 + 8 * (lane % 4);
                    if is_there && output < shape.outputs {
                        let values = bytemuck::cast::<[u32; 4], [T; 8]>(words);
                        // SAFETY: outputs of the place, by the kernel's contract.
                        unsafe { self.out.set_vec_unchecked::<8>(to.wrapping_add(output as usize), values) };
                    }
                }
            });
        });
    }
}

/// Of the words of four lanes, word `j` of each to lane `j`, in the order of lanes.
#[inline(always)]
fn across(words: [u32; 4], lane: u32) -> [u32; 4] {
    let [p, q, r, s] = words;
    let is_upper = lane & 2 != 0;
    let (send, keep) = if is_upper { ([p, q], [r, s]) } else { ([r, s], [p, q]) };
    let got = cuda_std::array::map(send, |word| warp::shuffle_xor(warp::FULL_MASK, word, 2));
    let [p, q, r, s] = if is_upper {
        [got[0], got[1], keep[0], keep[1]]
    } else {
        [keep[0], keep[1], got[0], got[1]]
    };
    let is_odd = lane & 1 != 0;
    let (send, keep) = if is_odd { ([p, r], [q, s]) } else { ([q, s], [p, r]) };
    let got = cuda_std::array::map(send, |word| warp::shuffle_xor(warp::FULL_MASK, word, 1));
    if is_odd {
        [got[0], keep[0], got[1], keep[1]]
    } else {
        [keep[0], got[0], keep[1], got[1]]
    }
}

const _: () = assert!(WIDE * size_of::<u16>() == PIECE as usize && PART == 64);
