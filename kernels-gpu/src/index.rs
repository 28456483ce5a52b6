// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements that indices name: gathered, added to and replaced along an axis, and the indices of those that a mask has.
//!
//! An array is seen as (outer, n, inner), of which the middle axis is indexed; the elements of the inner axes lie side by
//! side, and [`take()`] moves them in words as wide as they and their addresses allow. Neighbouring threads treat
//! neighbouring words of the output (of [`scatter_add()`] and [`put()`], the values), so that on that side whole lines are
//! accessed, and on the other as much as the inner axes have. An index that the axis does not have is a panic of the kernel, as
//! that of a slice. [`in_order`] adds in the order of the indices. [`take()`] has indices of each element, too, which it reads
//! beside the element that it writes.
//!
//! Of an index that occurs more than once [`put()`] writes the last part, in whatever order threads come: [`find_last()`] finds
//! ahead of it, by an atomic maximum for each part of the array, which that is, and all others write nothing.

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

/// The panic of these kernels. An index beyond those of `i64` may have been a negative one, of a signed type.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn out_of_bounds(index: u64, number: u64, length: usize) -> ! {
    cuda_std::panic_with(
        "an index is out of bounds of its axis: given {iu}, as number {u}, wanted indices below {u}",
        [index as i64, number as i64, length as i64],
    )
}

/// Which indices there are along the axis.
#[derive(Clone, Copy)]
enum Along {
    /// The same ones everywhere.
    Same,
    /// So many in each line, of whose elements, of `words` each, every one has its own.
    Each { count: u64, words: u64 },
}

/// What a word of the array that has a part for each index belongs to.
struct Named {
    /// Which of the indices.
    which: usize,
    /// The index.
    index: usize,
    /// The word's place in the indexed array.
    at: usize,
}

/// What the indexed array of `len` words, which has `n` parts of `inner` words along the axis, has for word `number` of the
/// other one, which has a part for each of the indices `along` the axis, at least one.
///
/// # Panics
///
/// If the index is not less than `n`, or the place not less than `len`, or there is no such index.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn named(number: u64, indices: &[u64], along: Along, n: usize, inner: usize, len: usize) -> Named {
    let (part, word) = div_rem(number, inner as u64);
    let (outer, which) = match along {
        Along::Same => div_rem(part, indices.len() as u64),
        Along::Each { count, words } => {
            let which = if words == 1 { number } else { div_rem(number, words).0 };
            if which >= indices.len() as u64 {
                out_of_bounds(which, number, indices.len());
            }
            (div_rem(part, count).0, which)
        }
    };
    // SAFETY: a remainder is less than the divisor, or just asked; a single element is always aligned.
    let [index] = unsafe { indices.load_vec_unchecked(which as usize) };
    let part = outer.wrapping_mul(n as u64).wrapping_add(index);
    let at = part.wrapping_mul(inner as u64).wrapping_add(word);
    if index >= n as u64 || at >= len as u64 {
        out_of_bounds(index, which, n);
    }
    Named {
        which: which as usize,
        index: index as usize,
        at: at as usize,
    }
}

/// `out[o, j, i] = x[o, indices[j], i]`, for (outer, n, inner) words; a block of [`THREADS`] threads for each [`TILE`] words
/// of the output. If `words` is not 0, each element, of so many words, has an index of its own, of `count` along the axis:
/// `out[o, j, i] = x[o, indices[o, j, i], i]`.
///
/// # Panics
///
/// If an index is not less than `n`, or the sizes are not those of the arrays.
#[kernel(T = [u8, u16, u32, u64, u128], max_threads = THREADS)]
pub fn take<T: Cell>(
    x: &[T],
    indices: &[u64],
    count: usize,
    words: usize,
    n: usize,
    inner: usize,
    out: SliceMut<'_, T>,
) {
    if inner == 0 || indices.is_empty() || count == 0 {
        return;
    }
    let along = match words {
        0 => Along::Same,
        _ => Along::Each {
            count: count as u64,
            words: words as u64,
        },
    };
    let (numbers, len) = (numbers(), out.len() as u64);
    let words: [T; ITEMS] = cuda_std::array::from_fn(|k| {
        if numbers[k] >= len {
            return T::zeroed();
        }
        let named = named(numbers[k], indices, along, n, inner, x.len());
        // SAFETY: in bounds, as `named` says; a single element is always aligned.
        let [word] = unsafe { x.load_vec_unchecked(named.at) };
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
            let named = named(number, indices, Along::Same, n, inner, out.len());
            // SAFETY (of both): in bounds, as just asked and as `named` says; a single element is always aligned.
            let [value] = unsafe { values.load_vec_unchecked(number as usize) };
            unsafe { T::add_to(out, named.at, value) };
        }
    }
}

/// Which of the indices is the last to name each part: `last[index]` becomes 1 more than its number, where it is 0 or that of
/// another. Or 0, if it is to be `reset`: where few of many parts are named, that takes less than to have all of them 0.
/// A block of [`THREADS`] threads for each [`TILE`] indices, of which there are less than 2³².
///
/// # Panics
///
/// If an index is not less than the length of `last`.
#[kernel(max_threads = THREADS)]
pub fn find_last(indices: &[u64], reset: bool, last: SliceMut<'_, u32>) {
    for number in numbers() {
        if number < indices.len() as u64 {
            // SAFETY: in bounds, as just asked; a single element is always aligned.
            let [index] = unsafe { indices.load_vec_unchecked(number as usize) };
            if index >= last.len() as u64 {
                out_of_bounds(index, number, last.len());
            }
            // SAFETY: in bounds, as just asked.
            let last = unsafe { last.atomic_unchecked(index as usize) };
            if reset {
                last.store(0);
            } else {
                last.fetch_max((number as u32).wrapping_add(1));
            }
        }
    }
}

/// `out[o, indices[j], i] = values[o, j, i]`, for (outer, n, inner) words of the output and `count` words of all parts. The
/// values are repeated, if they are fewer. `last` is what [`find_last()`] has found, and where it says another index, nothing
/// is written; or empty, if no index occurs more than once. A block of [`THREADS`] threads for each [`TILE`] words.
///
/// # Panics
///
/// If an index is not less than `n`, or the sizes are not those of the arrays.
#[kernel(T = [u8, u16, u32, u64, u128], max_threads = THREADS)]
pub fn put<T: Cell>(
    values: &[T],
    indices: &[u64],
    last: &[u32],
    count: usize,
    n: usize,
    inner: usize,
    out: SliceMut<'_, T>,
) {
    if inner == 0 || indices.is_empty() || values.is_empty() {
        return;
    }
    let numbers = numbers();
    let mut places = [None; ITEMS];
    for k in 0..ITEMS {
        if numbers[k] < count as u64 {
            let named = named(numbers[k], indices, Along::Same, n, inner, out.len());
            let is_last = last.is_empty() || {
                if named.index >= last.len() {
                    out_of_bounds(named.index as u64, named.which as u64, last.len());
                }
                // SAFETY: in bounds, as just asked; a single element is always aligned.
                let [last] = unsafe { last.load_vec_unchecked::<1>(named.index) };
                last == (named.which as u32).wrapping_add(1)
            };
            places[k] = is_last.then_some(named.at);
        }
    }
    for k in 0..ITEMS {
        if let Some(at) = places[k] {
            let of_values = values.len() as u64;
            let number = if numbers[k] < of_values {
                numbers[k]
            } else {
                div_rem(numbers[k], of_values).1
            };
            // SAFETY (of both): a remainder is less than the divisor, and in bounds, as `named` says; a single element is always
            // aligned.
            let [word] = unsafe { values.load_vec_unchecked(number as usize) };
            unsafe { out.set_vec_unchecked(at, [word]) };
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
