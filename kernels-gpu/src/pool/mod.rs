// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pooling: the largest element, or the mean, of windows over one to three axes, and the gradients of both.
//!
//! Arrays are seen as (outer, depth, height, width, inner), where windows go over the middle three axes and the inner axis, the
//! channels, lies side by side. A thread has a vector of 16 bytes along the inner axis, or an element where that has no whole
//! ones: of the output, for which it goes over the elements of the window, or for a gradient of overlapping windows of the input, for which it
//! goes over the windows that its elements are in. Where windows do not overlap, it has a window of a gradient, too, and writes all
//! elements up to the next window. So each element of a result is written once, by one thread, in a fixed order: there are no
//! atomics, and the bits are the same on every run. What windows share comes from the caches.
//!
//! Of a maximum, the gradient goes to the first of the largest elements of a window, or to the first NaN. It is found anew from
//! the elements: no places are kept from the forward pass. Where windows overlap, one launch writes for each where it is, and a second one
//! has an element look at its windows, so that each window is compared once.
//!
//! Elements of 16 bits are computed with in `f32`, and results are rounded once. Work: the elements of all windows; bytes moved:
//! those of the arrays.

mod windows;

use cuda_std::half::{bf16, f16};
use cuda_std::prelude::*;

use crate::num::Num;
use crate::tile;

pub use windows::{AXES, MOST, Side, WindowAxis, Windows};

use windows::{Place, for_each};

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that ptxas makes room for on a multiprocessor: of the kernels from elements to windows, as many as it can without
/// keeping registers in memory; of gradients so few that ptxas, which else gives them fewer registers than they take, needs no memory.
const BLOCKS: usize = 5;
const GRADIENT_BLOCKS: usize = 3;

/// Elements of a vector of 16 bytes.
pub const fn vec_len<T>() -> usize {
    tile::vec_len(size_of::<T>())
}

/// What a thread does for its vector of `N` elements.
trait Body {
    /// # Safety
    ///
    /// The arrays have all elements of the windows, and lie at multiples of `N` elements.
    unsafe fn vector<const N: usize>(&self, place: &Place);
}

/// Lets this thread treat its vector of `T`s, if arrays of `input` and `output` elements are as large as the windows, and are
/// aligned where that is asked.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn run<T>(windows: &Windows, lens: [usize; 2], is_aligned: bool, body: &impl Body) {
    let thread = thread::block_idx_x()
        .wrapping_mul(thread::block_dim_x())
        .wrapping_add(thread::thread_idx_x());
    let (Some(place), true) = (windows.place(thread), windows.fit(lens[0], lens[1])) else {
        return;
    };
    // SAFETY (of all): as large as just asked; of vectors of one element every array is, else they are aligned.
    match (windows.vector(), const { vec_len::<T>() }) {
        (1, _) => unsafe { body.vector::<1>(&place) },
        (2, 2) if is_aligned => unsafe { body.vector::<2>(&place) },
        (4, 4) if is_aligned => unsafe { body.vector::<4>(&place) },
        (8, 8) if is_aligned => unsafe { body.vector::<8>(&place) },
        _ => {}
    }
}

/// Whether vectors of 16 bytes may be loaded.
#[inline(always)]
fn is_aligned<T: bytemuck::Pod>(x: &[T]) -> bool {
    x.as_ptr().addr().is_multiple_of(16)
}

/// Whether vectors of 16 bytes may be stored.
#[inline(always)]
fn is_aligned_mut<T: bytemuck::Pod>(x: SliceMut<'_, T>) -> bool {
    x.as_ptr().addr().is_multiple_of(16)
}

/// The numbers of a vector in the type that they are computed in.
///
/// # Safety
///
/// There is a vector of that number, and the array lies at a multiple of `N` elements.
#[inline(always)]
unsafe fn load<T: Num, const N: usize>(x: &[T], number: u32) -> [T::Wide; N] {
    // SAFETY: the caller's promise.
    let vector: [T; N] = unsafe { x.load_vec_unchecked(number as usize * N) };
    cuda_std::array::from_fn(|k| vector[k].widen())
}

/// Stores a vector's numbers, rounded.
///
/// # Safety
///
/// As [`load`].
#[inline(always)]
unsafe fn store<T: Num, const N: usize>(out: SliceMut<'_, T>, number: u32, values: [T::Wide; N]) {
    let values: [T; N] = cuda_std::array::from_fn(|k| T::narrow(values[k]));
    // SAFETY: the caller's promise.
    unsafe { out.set_vec_unchecked(number as usize * N, values) };
}

/// All elements of a window combined, two loads at a time.
///
/// # Safety
///
/// As [`Body::vector`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn fold<T: Num, const N: usize>(
    x: &[T],
    windows: &Windows,
    place: &Place,
    identity: T::Wide,
    combine: impl Fn(T::Wide, T::Wide) -> T::Wide,
) -> [T::Wide; N] {
    let [depth, height, width] = windows.elements(place.at);
    let mut all = [identity; N];
    for_each([depth, height, (0, 1)], |[z, y, _]| {
        let mut x_at = width.0;
        while x_at < width.1 {
            let next = x_at.wrapping_add(1);
            // SAFETY (of both): elements of the window, of vectors of that length.
            let first = unsafe { load::<T, N>(x, windows.input(place, [z, y, x_at])) };
            let second = match next < width.1 {
                true => unsafe { load::<T, N>(x, windows.input(place, [z, y, next])) },
                false => [identity; N],
            };
            for k in 0..N {
                all[k] = combine(combine(all[k], first[k]), second[k]);
            }
            x_at = next.wrapping_add(1);
        }
    });
    all
}

/// The largest of each window.
struct Largest<'a, T> {
    x: &'a [T],
    windows: Windows,
    out: SliceMut<'a, T>,
}

impl<T: Num> Body for Largest<'_, T> {
    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, place: &Place) {
        // SAFETY (of both): the caller's promise.
        unsafe {
            let largest = fold::<T, N>(self.x, &self.windows, place, T::Wide::LEAST, Num::max);
            store(self.out, self.windows.output(place, place.at), largest);
        }
    }
}

/// The largest element of each window, NaN if any is; −0 is below +0. `windows` has a thread for each vector of the output; where
/// the arrays do not have all of its elements, or vectors are not aligned, nothing is written.
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn max_pool<T: Num>(x: &[T], windows: Windows, out: SliceMut<'_, T>) {
    let aligned = is_aligned(x) && is_aligned_mut(out);
    let lens = [x.len(), out.len()];
    run::<T>(&windows, lens, aligned, &Largest { x, windows, out });
}

/// The mean of each window.
struct Mean<'a, T> {
    x: &'a [T],
    windows: Windows,
    out: SliceMut<'a, T>,
}

impl<T: Num<Wide: Float>> Body for Mean<'_, T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn vector<const N: usize>(&self, place: &Place) {
        let count = wide_count::<T>(&self.windows, place.at);
        // SAFETY (of both): the caller's promise.
        unsafe {
            let sums = fold::<T, N>(self.x, &self.windows, place, Num::ZERO, Num::add);
            store(
                self.out,
                self.windows.output(place, place.at),
                cuda_std::array::map(sums, |sum| sum.div(count)),
            );
        }
    }
}

/// What the mean of a window divides by.
#[inline(always)]
fn wide_count<T: Num<Wide: Float>>(windows: &Windows, window: [u32; AXES]) -> T::Wide {
    Float::from_f64(windows.count(windows.elements(window)) as f64)
}

/// The mean of each window: elements are added one after another, in C order. The rest is as for [`max_pool()`].
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS, min_blocks = BLOCKS)]
pub fn average_pool<T: Num<Wide: Float>>(x: &[T], windows: Windows, out: SliceMut<'_, T>) {
    let aligned = is_aligned(x) && is_aligned_mut(out);
    let lens = [x.len(), out.len()];
    run::<T>(&windows, lens, aligned, &Mean { x, windows, out });
}

/// The gradient by the elements, of the largest of each window, which overlaps with none.
struct LargestGradient<'a, T> {
    x: &'a [T],
    gradient: &'a [T],
    windows: Windows,
    out: SliceMut<'a, T>,
}

/// Whether a number counts in a window, and not the one that did before it: NaN, or a larger one.
#[inline(always)]
#[allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "what is not less may be NaN: one comparison for both"
)]
fn counts_more<W: Num>(next: W, before: W) -> bool {
    let is_nan = |x: W| x.partial_cmp(&x).is_none();
    !is_nan(before) && !(next <= before)
}

/// The numbers of the vectors that have the largest elements of a window: the first of equal ones, or the first NaN.
///
/// # Safety
///
/// As [`Body::vector`], by windows.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
unsafe fn largest<T: Num, const N: usize>(x: &[T], windows: &Windows, place: &Place) -> [u32; N] {
    let (mut largest, mut largest_at) = ([T::Wide::LEAST; N], [u32::MAX; N]);
    for_each(windows.elements(place.at), |element| {
        let at = windows.input(place, element);
        // SAFETY: the caller's promise.
        let next: [T::Wide; N] = unsafe { load(x, at) };
        for k in 0..N {
            // The first one counts whatever it is: −∞ is no larger than the least number.
            let counts = largest_at[k] == u32::MAX || counts_more(next[k], largest[k]);
            largest[k] = if counts { next[k] } else { largest[k] };
            largest_at[k] = if counts { at } else { largest_at[k] };
        }
    });
    largest_at
}

impl<T: Num> Body for LargestGradient<'_, T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn vector<const N: usize>(&self, place: &Place) {
        let windows = &self.windows;
        // SAFETY (of all): the caller's promise, for a window and the elements up to the next.
        let largest_at: [u32; N] = unsafe { largest(self.x, windows, place) };
        let gradient: [T::Wide; N] = unsafe { load(self.gradient, windows.output(place, place.at)) };
        for_each(windows.cell(place.at), |element| {
            let at = windows.input(place, element);
            let of_element: [T::Wide; N] = cuda_std::array::from_fn(|k| match largest_at[k] == at {
                true => gradient[k],
                false => T::Wide::ZERO,
            });
            unsafe { store(self.out, at, of_element) };
        });
    }
}

/// The gradient of [`max_pool()`] of `x` by its elements, of a number of which `gradient` is the gradient by the results. `windows` has a
/// thread for each window, of which no two overlap; the rest is as for [`max_pool()`].
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS, min_blocks = GRADIENT_BLOCKS)]
pub fn max_pool_gradient<T: Num>(x: &[T], gradient: &[T], windows: Windows, out: SliceMut<'_, T>) {
    if !windows.are_by_windows() {
        return;
    }
    let aligned = is_aligned(x) && is_aligned(gradient) && is_aligned_mut(out);
    let lens = [Ord::min(x.len(), out.len()), gradient.len()];
    let body = LargestGradient {
        x,
        gradient,
        windows,
        out,
    };
    run::<T>(&windows, lens, aligned, &body);
}

/// Where the largest of each window is.
struct LargestPlace<'a, T> {
    x: &'a [T],
    windows: Windows,
    places: SliceMut<'a, u32>,
}

impl<T: Num> Body for LargestPlace<'_, T> {
    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, place: &Place) {
        // SAFETY (of both): the caller's promise, and there are as many places as windows.
        unsafe {
            let largest_at: [u32; N] = largest(self.x, &self.windows, place);
            let number = self.windows.output(place, place.at) as usize;
            self.places.set_vec_unchecked(number * N, largest_at);
        }
    }
}

/// For each window the number of the vector that has the largest element: the first of equal ones, or the first NaN. The rest is as for
/// [`max_pool()`].
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS, min_blocks = GRADIENT_BLOCKS)]
pub fn max_pool_places<T: Num>(x: &[T], windows: Windows, places: SliceMut<'_, u32>) {
    if !windows.are_by_windows() {
        return;
    }
    let aligned = is_aligned(x) && places.as_ptr().addr().is_multiple_of(32);
    let lens = [x.len(), places.len()];
    run::<T>(&windows, lens, aligned, &LargestPlace { x, windows, places });
}

/// The gradient by the elements, where it is known which of each window is the largest.
struct FoundGradient<'a, T> {
    gradient: &'a [T],
    places: &'a [u32],
    windows: Windows,
    out: SliceMut<'a, T>,
}

impl<T: Num> Body for FoundGradient<'_, T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn vector<const N: usize>(&self, place: &Place) {
        let windows = &self.windows;
        let at = windows.input(place, place.at);
        let mut sums = [T::Wide::ZERO; N];
        for_each(windows.windows(place.at), |window| {
            let number = windows.output(place, window);
            // SAFETY (of both): the caller's promise, for a window.
            let gradient: [T::Wide; N] = unsafe { load(self.gradient, number) };
            let largest_at: [u32; N] = unsafe { self.places.load_vec_unchecked(number as usize * N) };
            for k in 0..N {
                sums[k] = if largest_at[k] == at {
                    sums[k].add(gradient[k])
                } else {
                    sums[k]
                };
            }
        });
        // SAFETY: the caller's promise.
        unsafe { store(self.out, at, sums) };
    }
}

/// As [`max_pool_gradient()`], of windows that overlap, by the `places` that [`max_pool_places()`] gave. `windows` has a thread for each
/// vector of the elements.
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS, min_blocks = GRADIENT_BLOCKS)]
pub fn max_pool_gradient_at<T: Num>(gradient: &[T], places: &[u32], windows: Windows, out: SliceMut<'_, T>) {
    if windows.are_by_windows() {
        return;
    }
    let aligned = is_aligned(gradient) && places.as_ptr().addr().is_multiple_of(32) && is_aligned_mut(out);
    let lens = [out.len(), Ord::min(gradient.len(), places.len())];
    let body = FoundGradient {
        gradient,
        places,
        windows,
        out,
    };
    run::<T>(&windows, lens, aligned, &body);
}

/// Whether a place is among these.
#[inline(always)]
fn is_in(ranges: [(u32, u32); AXES], place: [u32; AXES]) -> bool {
    let mut is_in = true;
    for k in 0..AXES {
        is_in &= place[k] >= ranges[k].0 && place[k] < ranges[k].1;
    }
    is_in
}

/// The gradient by the elements, of the mean of each window.
struct MeanGradient<'a, T> {
    gradient: &'a [T],
    windows: Windows,
    out: SliceMut<'a, T>,
}

impl<T: Num<Wide: Float>> Body for MeanGradient<'_, T> {
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    unsafe fn vector<const N: usize>(&self, place: &Place) {
        let windows = &self.windows;
        if windows.are_by_windows() {
            let count = wide_count::<T>(windows, place.at);
            // SAFETY (of both): the caller's promise, for a window and the elements up to the next.
            let gradient: [T::Wide; N] = unsafe { load(self.gradient, windows.output(place, place.at)) };
            let share = cuda_std::array::map(gradient, |gradient| gradient.div(count));
            let elements = windows.elements(place.at);
            for_each(windows.cell(place.at), |element| {
                let value = if is_in(elements, element) {
                    share
                } else {
                    [Num::ZERO; N]
                };
                unsafe { store(self.out, windows.input(place, element), value) };
            });
            return;
        }
        let mut sums = [<T::Wide as Num>::ZERO; N];
        for_each(windows.windows(place.at), |window| {
            let count = wide_count::<T>(windows, window);
            // SAFETY: the caller's promise, for a window.
            let gradient: [T::Wide; N] = unsafe { load(self.gradient, windows.output(place, window)) };
            for k in 0..N {
                sums[k] = sums[k].add(gradient[k].div(count));
            }
        });
        // SAFETY: the caller's promise.
        unsafe { store(self.out, windows.input(place, place.at), sums) };
    }
}

/// The gradient of [`average_pool()`] by its elements, of a number of which `gradient` is the gradient by the results. The rest is as
/// for [`max_pool_gradient()`].
#[kernel(T = [f32, f64, f16, bf16], max_threads = THREADS, min_blocks = GRADIENT_BLOCKS)]
pub fn average_pool_gradient<T: Num<Wide: Float>>(gradient: &[T], windows: Windows, out: SliceMut<'_, T>) {
    let aligned = is_aligned(gradient) && is_aligned_mut(out);
    let lens = [out.len(), gradient.len()];
    let body = MeanGradient { gradient, windows, out };
    run::<T>(&windows, lens, aligned, &body);
}
