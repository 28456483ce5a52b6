// SPDX-License-Identifier: MIT OR Apache-2.0
//! The epilogue of sums in memory, of which there may be several parts.
//!
//! What this kernel takes is its instructions, more than its bytes: a thread has a few results, and finds five places for them.
//! So numbers of products, rows and columns, and strides, have 32 bits, whose products of 64 are one instruction each; the host
//! says where vectors may be loaded, and cuts what does not fit into launches. All that a thread loads is under way at once.

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use super::parts::{FEW, OF_THREAD, THREADS, add, add_groups, width};
use super::{Activate, Activation, EpilogueOp, MulAdd, element};
use crate::num::Num;

/// Where elements lie: of products, rows and columns, of which a thread has [`width`] neighbours of a row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, KernelParam)]
pub struct Lines {
    /// The place of the first one.
    pub first: usize,
    /// The strides in elements: from product to product, along rows' numbers, along columns' numbers.
    pub strides: [u32; 3],
    /// Whether the neighbours of each thread are loaded and stored as a vector, 1 or 0: they lie side by side from a multiple of their
    /// number on, all of them within the memory.
    pub in_vectors: u32,
}

impl Lines {
    /// The place of an element.
    #[inline(always)]
    fn at(&self, numbers: [u32; 3]) -> usize {
        let along = |axis: usize| self.strides[axis] as usize * numbers[axis] as usize;
        self.first + along(0) + along(1) + along(2)
    }

    /// `N` neighbours of a row of `n`; in the place of those beyond its end the last one, or what lies there.
    ///
    /// # Safety
    ///
    /// The first one is in `elements`, which lie so, and the others as far as the row goes.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn load<T: Num, const N: usize>(&self, elements: Slice<'_, T>, numbers: [u32; 3], n: u32) -> [T; N] {
        let first = self.at(numbers);
        // SAFETY (of both): the caller's promise.
        if self.in_vectors != 0 {
            return unsafe { elements.get_vec_unchecked(first) };
        }
        let last = n - 1 - numbers[2];
        let place = |i: usize| first + Ord::min(i as u32, last) as usize * self.strides[2] as usize;
        cuda_std::array::from_fn(|i: usize| unsafe { element(elements, place(i)) })
    }

    /// Sets `N` neighbours of a row of `n`, but for those beyond its end.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn store<T: Num, const N: usize>(
        &self,
        elements: SliceMut<'_, T>,
        numbers: [u32; 3],
        n: u32,
        values: [T; N],
    ) {
        let first = self.at(numbers);
        // SAFETY (of both): the caller's promise.
        if self.in_vectors != 0 {
            return unsafe { elements.set_vec_unchecked(first, values) };
        }
        for i in 0..N {
            if (i as u32) < n - numbers[2] {
                let place = first + i * self.strides[2] as usize;
                unsafe { elements.set_vec_unchecked(place, [values[i]]) };
            }
        }
    }
}

/// The shape of sums in memory, and where all that belongs to them lies.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct SumsShape {
    /// Parts that each sum is the sum of.
    pub parts: u32,
    /// Parts that a thread adds up.
    pub share: u32,
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Elements from a part to the next one.
    pub of_part: usize,
    /// The sums of the first part.
    pub sums: Lines,
    /// The results.
    pub out: Lines,
    /// The bias.
    pub bias: Lines,
    /// The residual.
    pub residual: Lines,
}

impl SumsShape {
    /// This thread's parts of neighbouring sums, added up in their order: all loaded ahead of the first addition, or, of what is
    /// not in vectors, one after another.
    ///
    /// # Safety
    ///
    /// The sums are there, and this thread has a part.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn sum<W: MulAdd, const N: usize>(&self, sums: Slice<'_, W>, numbers: [u32; 3]) -> [W; N] {
        let begin = thread::thread_idx_z() * self.share;
        let mine = Ord::min(self.share, self.parts - begin);
        let mut lies = self.sums;
        lies.first += begin as usize * self.of_part;
        if lies.in_vectors != 0 {
            let first = lies.at(numbers);
            let load = |part: usize| {
                // Beyond the last part that one, which is not added.
                let part = Ord::min(part as u32, mine - 1) as usize;
                // SAFETY: the caller's promise.
                unsafe { sums.get_vec_unchecked(first + part * self.of_part) }
            };
            return match self.share {
                1 => load(0),
                ..=4 => add::<_, FEW, N>(mine, load),
                _ => add::<_, OF_THREAD, N>(mine, load),
            };
        }
        // SAFETY (of both): the caller's promise.
        let mut values: [W; N] = unsafe { lies.load(sums, numbers, self.n) };
        let mut part = 1;
        while part < mine {
            lies.first += self.of_part;
            let next: [W; N] = unsafe { lies.load(sums, numbers, self.n) };
            values = cuda_std::array::from_fn(|i| values[i].add(next[i]));
            part += 1;
        }
        values
    }
}

/// The epilogue of sums in memory, of which there may be several parts, which are added in their order:
/// `out ← f(sums + beta · out + bias) + residual`; where `beta` is 0, `out` is not read, and an empty addend is none. Where a block
/// has several threads along z, each adds up `share` parts one after another, and the sums of these groups are then added in their
/// order.
///
/// `out` may be the memory of `sums`, if they lie as it does. A block has at most [`THREADS`] threads: [`width`] columns for each along
/// x, a row along y, parts along z. The grid has all columns along x, all rows along y, the products along z.
///
/// # Safety
///
/// `share` is 1 to [`OF_THREAD`], and each thread along z has a part, and all of them every one. `sums` has the elements of all parts,
/// `out` those of all products, and each addend that is not empty has one for each of them, where `shape` says. Numbers of rows and of
/// columns, with those that the last block has beyond them, have 32 bits.
#[kernel(T = [f32, f64, i32, bf16, f16], max_threads = THREADS)]
pub unsafe fn finish_sums<T: Num<Wide: Activate + MulAdd>>(
    sums: Slice<'_, <T as Num>::Wide>,
    out: SliceMut<'_, T>,
    shape: SumsShape,
    beta: <T as Num>::Wide,
    function: Activation,
    bias: &[T],
    residual: &[T],
) {
    // SAFETY: the kernel's contract.
    unsafe { finish_sums_with(sums, out, shape, beta, function, bias, residual) };
}

/// [`finish_sums()`], with any function.
///
/// # Safety
///
/// The kernel's.
#[inline(always)]
pub unsafe fn finish_sums_with<T: Num<Wide: Activate + MulAdd>, F: EpilogueOp<T::Wide>>(
    sums: Slice<'_, T::Wide>,
    out: SliceMut<'_, T>,
    shape: SumsShape,
    beta: T::Wide,
    function: F,
    bias: &[T],
    residual: &[T],
) {
    // SAFETY (of both): the kernel's contract.
    match const { width(size_of::<T::Wide>()) } {
        2 => unsafe { finish_sums_by::<T, F, 2>(sums, out, shape, beta, function, [bias, residual]) },
        _ => unsafe { finish_sums_by::<T, F, 4>(sums, out, shape, beta, function, [bias, residual]) },
    }
}

/// [`finish_sums()`] by so many columns for each thread.
///
/// # Safety
///
/// The kernel's.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn finish_sums_by<T: Num<Wide: Activate + MulAdd>, F: EpilogueOp<T::Wide>, const N: usize>(
    sums: Slice<'_, T::Wide>,
    out: SliceMut<'_, T>,
    shape: SumsShape,
    beta: T::Wide,
    function: F,
    addends: [&[T]; 2],
) {
    let place = |block: u32, threads: u32, thread: u32| block * threads + thread;
    let column = N as u32 * place(thread::block_idx_x(), thread::block_dim_x(), thread::thread_idx_x());
    let row = place(thread::block_idx_y(), thread::block_dim_y(), thread::thread_idx_y());
    let numbers = [thread::block_idx_z(), row, column];
    let is_there = row < shape.m && column < shape.n;
    let finishes = is_there && thread::thread_idx_z() == 0;
    // SAFETY (of all loads): product, row and column are in all of them, and this thread has a part; the output's elements are written
    // only through it, behind this.
    let old = unsafe { Slice::from_raw_parts(out.as_ptr(), out.len()) };
    let load = |elements: Slice<'_, T>, lies: &Lines, is_wanted: bool| -> [T; N] {
        match finishes && is_wanted {
            true => unsafe { lies.load(elements, numbers, shape.n) },
            false => [T::ZERO; N],
        }
    };
    let reads_old = beta != T::Wide::ZERO;
    let there = addends.map(|addend| !addend.is_empty());
    // SAFETY: a reference is to as many elements, which nobody writes.
    let [bias, residual] = addends.map(|addend| unsafe { Slice::from_raw_parts(addend.as_ptr(), addend.len()) });
    let mut values = match is_there {
        true => unsafe { shape.sum(sums, numbers) },
        false => [T::Wide::ZERO; N],
    };
    let bias = load(bias, &shape.bias, there[0]);
    let residual = load(residual, &shape.residual, there[1]);
    let old = load(old, &shape.out, reads_old);
    values = add_groups(values, shared_array![u64; 2 * THREADS].cast());
    if finishes {
        if reads_old {
            values = cuda_std::array::from_fn(|i| beta.mul_add(old[i].widen(), values[i]));
        }
        let widened = |elements| move || cuda_std::array::map(elements, T::widen);
        let values = function.apply_to(values, there, widened(bias), widened(residual));
        // SAFETY: product, row and column are in the output.
        unsafe {
            shape
                .out
                .store(out, numbers, shape.n, cuda_std::array::map(values, T::narrow))
        };
    }
}
