// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warpgroup, whose operands in shared memory are theirs until they have been waited for. That sums are
//! read before is no program: `InFlight` has none (see the module `wgmma`).

use cuda_std::half::bf16;
use cuda_std::mbarrier::{self, Mbarrier};
use cuda_std::prelude::*;
use cuda_std::tma;
use cuda_std::wgmma::{Accumulator, InFlight, KMajor, MatrixDescriptor};

/// The name of this file, and what is in it.
pub const SOURCE: (&str, &str) = ("products.rs", include_str!("products.rs"));

type Descriptor = MatrixDescriptor<bf16, KMajor>;

fn me() -> usize {
    thread::thread_idx_x() as usize
}

/// A tile of 64 rows of 128 bytes, all zeros, that the warpgroup has written.
fn tile() -> Shared<bf16> {
    let tile = shared_array![bf16; 64 * 64 + 512].aligned::<1024>();
    if me() < 128 {
        for i in 0..32 {
            tile.set(128 * i + me(), bf16::ZERO);
        }
    }
    tma::fence_async();
    thread::sync_threads();
    tile
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn operand_without_a_fence<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = tile();
    for i in 0..32 {
        tile.set(128 * i + me(), bf16::ONE); // operand_without_a_fence: first
    }
    if RIGHT {
        tma::fence_async();
    }
    thread::sync_threads();
    let matrix = Descriptor::new(tile, 16, 1024);
    let batch = Accumulator::<32>::zero().start();
    // SAFETY: the tile is written, and stays as it is until the wait.
    let sum = unsafe { batch.mma(matrix, matrix) }.commit().wait(); // operand_without_a_fence: second
    out.set(me(), sum.get::<0>() as u32);
}

/// The product of the tile's K from `k` on with itself, which adds to what there is.
fn multiply(tile: Shared<bf16>, k: u32, sum: Option<InFlight<32>>) -> InFlight<32> {
    let matrix = Descriptor::new(tile, 16, 1024).advance(32 * k);
    let batch = match sum {
        None => Accumulator::<32>::zero().start(),
        Some(sum) => sum.restart(),
    };
    // SAFETY: the tile is written; it stays as it is until the wait, or else that is the mistake.
    unsafe { batch.mma(matrix, matrix) }.commit()
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn operand_written_before_the_wait<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = tile();
    let sum = multiply(tile, 0, None);
    let sum = if RIGHT {
        let sum = sum.wait();
        tile.set(32 * me(), bf16::ONE);
        sum
    } else {
        tile.set(32 * me(), bf16::ONE); // operand_written_before_the_wait: second
        sum.wait()
    };
    out.set(me(), sum.get::<0>() as u32);
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn next_operand_before_the_wait<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = tile();
    let sum = multiply(tile, 0, None);
    // A barrier orders the threads, and not what the tensor cores do for them.
    let sum = if RIGHT { Ok(sum.wait()) } else { Err(sum) };
    thread::sync_threads();
    tile.set(32 * (127 - me()), bf16::ONE); // next_operand_before_the_wait: second
    let sum = sum.unwrap_or_else(|sum| sum.wait());
    out.set(me(), sum.get::<0>() as u32);
}

#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn waits_for_one_batch_too_few<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let tile = tile();
    let mut sum = multiply(tile, 0, None);
    if RIGHT {
        sum = multiply(tile, 1, Some(sum));
    }
    sum = sum.wait_but_newest();
    thread::sync_threads();
    // Where the first 32 bytes of a row lie in row 0.
    if me() < 16 {
        tile.set(me(), bf16::ONE); // waits_for_one_batch_too_few: second
    }
    out.set(me(), sum.wait().get::<0>() as u32);
}

/// The warpgroup says that the tile is free, and a warp beside it fills it again.
#[kernel(RIGHT = [true, false], arch = "sm_90a")]
pub fn given_back_before_the_wait<const RIGHT: bool>(out: SliceMut<'_, u32>) {
    let words = shared_array![u64; 1];
    // SAFETY: the word is a barrier only, which gets one arrival.
    let empty = unsafe { Mbarrier::at(words, 0) };
    if me() == 0 {
        empty.init(128);
        mbarrier::fence_init();
    }
    let tile = tile();
    if me() >= 128 {
        empty.wait(0);
        tile.set(me() - 128, bf16::ONE); // given_back_before_the_wait: second
        return;
    }
    let sum = multiply(tile, 0, None);
    let sum = if RIGHT {
        let sum = sum.wait();
        empty.arrive();
        sum
    } else {
        empty.arrive();
        // Long enough for the other warp.
        thread::nanosleep(20);
        sum.wait()
    };
    out.set(me(), sum.get::<0>() as u32);
}

/// Hands the kernels to a macro: of each the extents of grid and block, and how what the simulated GPU finds begins.
#[macro_export]
macro_rules! corpus_products {
    ($($cases:tt)+) => {
        $($cases)+! {
            operand_without_a_fence(1, 128), "not fenced: this asynchronous read of";
            operand_written_before_the_wait(1, 128), "not waited for: this write of element";
            next_operand_before_the_wait(1, 128), "not waited for: this write of element";
            waits_for_one_batch_too_few(1, 128), "not waited for: this write of element";
            given_back_before_the_wait(1, 160), "not waited for: this write of element";
        }
    };
}
