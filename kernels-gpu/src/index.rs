// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that indices name: gathered along an axis, added to along an axis, and the indices of those that a mask has.
//!
//! An array is seen as (outer, n, inner), of which the middle axis is indexed; the elements of the inner axes lie side by
//! side, and [`take()`] moves them in words as wide as they and their addresses allow. Neighbouring threads treat
//! neighbouring words of the output (of [`scatter_add()`], the values), so that on that side whole lines are accessed,
//! and on the other as much as the inner axes have. An index that the axis does not have is a panic of the kernel, as
//! that of a slice. [`in_order`] adds in the order of the indices.

use cuda_std::prelude::*;

use crate::transpose::Cell;

pub mod in_order;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Words, or elements, that a block treats.
pub const TILE: usize = THREADS * ITEMS;

/// Those that a thread has in flight.
const ITEMS: usize = 4;

/// Quotient and remainder; 32-bit where that does.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn div_rem(a: u64, b: u64) -> (u64, u64) {
    if (a | b) >> 32 == 0 {
        let (a, b) = (a as u32, b as u32);
        let quotient = a / b;
        (quotient as u64, a.wrapping_sub(quotient.wrapping_mul(b)) as u64)
    } else {
        let quotient = a / b;
        (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
    }
}

/// The numbers of this thread's words.
#[inline(always)]
fn numbers() -> [u64; ITEMS] {
    let first = (thread::block_idx_x() as u64)
        .wrapping_mul(TILE as u64)
        .wrapping_add(thread::thread_idx_x() as u64);
    cuda_std::array::from_fn(|k| first.wrapping_add((k * THREADS) as u64))
}

/// Where the indexed array of `len` words, which has `n` parts of `inner` words along the axis, has word `number` of the
/// other one, which has a part for each of the indices, at least one.
///
/// # Panics
///
/// If the index is not less than `n`, or the place not less than `len`: the only panic of these kernels, without the code
/// that would put numbers into a message.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn place(number: u64, indices: &[u64], n: usize, inner: usize, len: usize) -> usize {
    let (part, word) = div_rem(number, inner as u64);
    let (outer, which) = div_rem(part, indices.len() as u64);
    // SAFETY: a remainder is less than the divisor, and a single element is always aligned.
    let [index] = unsafe { indices.load_vec_unchecked(which as usize) };
    let part = outer.wrapping_mul(n as u64).wrapping_add(index);
    let place = part.wrapping_mul(inner as u64).wrapping_add(word);
    assert!(
        index < n as u64 && place < len as u64,
        "an index is out of bounds of its axis"
    );
    place as usize
}

/// `out[o, j, i] = x[o, indices[j], i]`, for (outer, n, inner) words; a block of [`THREADS`] threads for each [`TILE`] words
/// of the output.
///
/// # Panics
///
/// If an index is not less than `n`, or the sizes are not those of the arrays.
#[kernel(T = [u8, u16, u32, u64, u128], max_threads = THREADS)]
pub fn take<T: Cell>(x: &[T], indices: &[u64], n: usize, inner: usize, out: SliceMut<'_, T>) {
    if inner == 0 || indices.is_empty() {
        return;
    }
    let (numbers, len) = (numbers(), out.len() as u64);
    let words: [T; ITEMS] = cuda_std::array::from_fn(|k| {
        if numbers[k] >= len {
            return T::zeroed();
        }
        let place = place(numbers[k], indices, n, inner, x.len());
        // SAFETY: in bounds, as `place` says; a single element is always aligned.
        let [word] = unsafe { x.load_vec_unchecked(place) };
        word
    });
    for k in 0..ITEMS {
        if numbers[k] < len {
            // SAFETY: in bounds, as just asked.
            unsafe { out.set_vec_unchecked(numbers[k] as usize, [words[k]]) };
        }
    }
}

/// An element that others are added to, atomically.
pub trait AtomicAdd: bytemuck::Pod + Send + Sync {
    /// Adds `value` to element `at`.
    ///
    /// # Safety
    ///
    /// There is such an element.
    unsafe fn add_to(out: SliceMut<'_, Self>, at: usize, value: Self);
}

macro_rules! atomic_add {
    ($($type:ident)*) => {$(
        impl AtomicAdd for $type {
            #[inline(always)]
            unsafe fn add_to(out: SliceMut<'_, Self>, at: usize, value: Self) {
                // SAFETY: the caller's promise.
                unsafe { out.atomic_unchecked(at) }.fetch_add(value);
            }
        }
    )*};
}

atomic_add!(f32 f64 u32 u64);

/// `out[o, indices[j], i] += values[o, j, i]`, for (outer, n, inner) elements of the output, atomically: an index may occur
/// more than once. A block of [`THREADS`] threads for each [`TILE`] values.
///
/// # Panics
///
/// If an index is not less than `n`, or the sizes are not those of the arrays.
#[kernel(T = [f32, f64, u32, u64], max_threads = THREADS)]
pub fn scatter_add<T: AtomicAdd>(values: &[T], indices: &[u64], n: usize, inner: usize, out: SliceMut<'_, T>) {
    if inner == 0 || indices.is_empty() {
        return;
    }
    for number in numbers() {
        if number < values.len() as u64 {
            let at = place(number, indices, n, inner, out.len());
            // SAFETY (of both): in bounds, as just asked and as `place` says; a single element is always aligned.
            let [value] = unsafe { values.load_vec_unchecked(number as usize) };
            unsafe { T::add_to(out, at, value) };
        }
    }
}

/// The indices of the elements of `mask` that are not 0, in order; `before[i]` is how many of them there are in front of
/// element `i`, which is where its index goes, if `out` has that place. A block of [`THREADS`] threads for each [`TILE`]
/// elements.
#[kernel(max_threads = THREADS)]
pub fn indices_of(mask: &[u8], before: &[u64], out: SliceMut<'_, u64>) {
    let numbers = numbers();
    let marks: [u8; ITEMS] = cuda_std::array::from_fn(|k| {
        if numbers[k] >= Ord::min(mask.len(), before.len()) as u64 {
            return 0;
        }
        // SAFETY: in bounds, as just asked.
        let [mark] = unsafe { mask.load_vec_unchecked(numbers[k] as usize) };
        mark
    });
    for k in 0..ITEMS {
        if marks[k] != 0 {
            // SAFETY (of both): in bounds, as asked above and as is asked here; single elements are always aligned.
            let [place] = unsafe { before.load_vec_unchecked::<1>(numbers[k] as usize) };
            if place < out.len() as u64 {
                unsafe { out.set_vec_unchecked(place as usize, [numbers[k]]) };
            }
        }
    }
}
