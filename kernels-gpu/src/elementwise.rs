// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the elements of one to four arrays, of any types: what [`elementwise!`](crate::elementwise!) makes
//! kernels of.
//!
//! Work `n`, span 1. Each element is read once and written once. A block treats [`tile_len`] elements; a thread makes
//! one 16-byte access to the array of the largest elements, and narrower ones to the others. An input may be the output
//! itself: a thread loads what it will overwrite before it stores, and nothing else.

use bytemuck::Pod;
use cuda_std::{Slice, SliceMut};

use crate::tile::{self, Body};

pub use crate::tile::THREADS;

/// Elements that a block treats where results are of type `U` and the inputs' elements have `inputs` bytes: the launch
/// has `n / tile_len` blocks, rounded up, of [`THREADS`] threads.
pub const fn tile_len<U>(inputs: &[usize]) -> usize {
    let mut bytes = size_of::<U>();
    let mut i = 0;
    while i < inputs.len() {
        bytes = larger(bytes, inputs[i]);
        i += 1;
    }
    tile::tile_len(bytes)
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// The input arrays, as a tuple of [`Slice`]s.
pub trait Inputs: Copy {
    /// An element of each.
    type Elements: Copy;

    /// Bytes of the largest element.
    const LARGEST: usize;

    /// The length of the shortest.
    fn least_len(self) -> usize;

    /// Whether vectors of `N` may be loaded at multiples of `N`.
    fn are_aligned<const N: usize>(self) -> bool;

    /// Elements `i .. i + N` of each.
    ///
    /// # Safety
    ///
    /// `are_aligned::<N>()` holds, `i` is a multiple of `N`, and `i + N` is at most `least_len()`.
    unsafe fn vectors<const N: usize>(self, i: usize) -> [Self::Elements; N];

    /// Element `i` of each.
    fn elements(self, i: usize) -> Self::Elements;
}

macro_rules! inputs {
    ($($type:ident $x:ident),+) => {
        impl<$($type: Pod),+> Inputs for ($(Slice<'_, $type>,)+) {
            type Elements = ($($type,)+);

            const LARGEST: usize = {
                let mut bytes = 0;
                $(bytes = larger(bytes, size_of::<$type>());)+
                bytes
            };

            #[inline(always)]
            fn least_len(self) -> usize {
                let ($($x,)+) = self;
                let mut len = usize::MAX;
                $(len = Ord::min(len, $x.len());)+
                len
            }

            #[inline(always)]
            fn are_aligned<const N: usize>(self) -> bool {
                let ($($x,)+) = self;
                true $(&& is_vector::<$type>() && $x.is_vec_aligned::<N>())+
            }

            #[inline(always)]
            unsafe fn vectors<const N: usize>(self, i: usize) -> [Self::Elements; N] {
                let ($($x,)+) = self;
                // SAFETY (of all): the caller's promise, for the shortest of them.
                $(let $x: [$type; N] = unsafe { $x.get_vec_unchecked(i) };)+
                cuda_std::array::from_fn(|k| ($($x[k],)+))
            }

            #[inline(always)]
            fn elements(self, i: usize) -> Self::Elements {
                let ($($x,)+) = self;
                ($($x.get(i),)+)
            }
        }
    };
}

inputs!(A a);
inputs!(A a, B b);
inputs!(A a, B b, C c);
inputs!(A a, B b, C c, D d);

/// Whether vectors of a type begin at multiples of their own size.
const fn is_vector<T>() -> bool {
    size_of::<T>().is_power_of_two()
}

/// `out[i] = function(inputs[i])`
struct Function<'a, I, U, F> {
    inputs: I,
    out: SliceMut<'a, U>,
    function: F,
}

impl<I: Inputs, U: Pod, F: Fn(I::Elements) -> U> Body for Function<'_, I, U, F> {
    const LARGEST: usize = larger(I::LARGEST, size_of::<U>());

    #[inline(always)]
    fn len(&self) -> usize {
        Ord::min(self.out.len(), self.inputs.least_len())
    }

    #[inline(always)]
    fn is_aligned<const N: usize>(&self) -> bool {
        self.inputs.are_aligned::<N>() && is_vector::<U>() && self.out.is_vec_aligned::<N>()
    }

    #[inline(always)]
    unsafe fn vector<const N: usize>(&self, i: usize) {
        // SAFETY (of both): the caller's promise for the shortest of the arrays.
        unsafe {
            let elements: [I::Elements; N] = self.inputs.vectors(i);
            self.out
                .set_vec_unchecked::<N>(i, cuda_std::array::map(elements, &self.function));
        }
    }

    #[inline(always)]
    fn element(&self, i: usize) {
        self.out.set(i, (self.function)(self.inputs.elements(i)));
    }
}

/// Lets this block compute `out[i] = function(inputs[i])` for its tile; the inputs are as long as `out` (of longer ones,
/// the shortest length counts), and may be it.
#[inline(always)]
pub fn run<I: Inputs, U: Pod>(inputs: I, out: SliceMut<'_, U>, function: impl Fn(I::Elements) -> U) {
    tile::for_tile(&Function { inputs, out, function });
}
