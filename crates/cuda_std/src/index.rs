// SPDX-License-Identifier: MIT OR Apache-2.0
//! `x[i]` of memory that threads share, which does not compile: for the sake of what the compiler then says.
//!
//! An index gives a reference, which another thread's write would make invalid.

use core::ops::{Index, IndexMut};

use crate::global::{Slice, SliceMut};
use crate::shared::Shared;
use crate::view::{ArrayView, ArrayViewMut};

/// Memory whose elements can be borrowed. No type of this crate is.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "elements that threads share cannot be borrowed, as an index would do",
    label = "it is `get(i)` that reads an element, and `set(i, value)` that writes one"
)]
pub trait Places<I, T> {
    fn place(&self, index: I) -> &T;
    fn place_mut(&mut self, index: I) -> &mut T;
}

macro_rules! without_places {
    ($([$($generics:tt)*] $type:ty [$index:ty]),+) => {$(
        #[doc(hidden)]
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> Index<$index> for $type
        where
            Self: Places<$index, T>,
        {
            type Output = T;

            fn index(&self, index: $index) -> &T {
                self.place(index)
            }
        }

        #[doc(hidden)]
        #[diagnostic::do_not_recommend]
        impl<$($generics)*> IndexMut<$index> for $type
        where
            Self: Places<$index, T>,
        {
            fn index_mut(&mut self, index: $index) -> &mut T {
                self.place_mut(index)
            }
        }
    )+};
}

without_places! {
    [T] Slice<'_, T> [usize],
    [T] SliceMut<'_, T> [usize],
    [T] Shared<T> [usize],
    [T, const N: usize] ArrayView<'_, T, N> [[usize; N]],
    [T, const N: usize] ArrayViewMut<'_, T, N> [[usize; N]]
}
