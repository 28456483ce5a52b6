// SPDX-License-Identifier: MIT OR Apache-2.0
//! `x[i]` of memory that threads share, which does not compile: for the sake of what the compiler then says.
//!
//! An index gives a reference, which another thread's write would make invalid.

use core::ops::{Index, IndexMut};

use crate::global::{Slice, SliceMut};
use crate::shared::Shared;

/// Memory whose elements can be borrowed. No type of this crate is.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "elements that threads share cannot be borrowed, as an index would do",
    label = "it is `get(i)` that reads an element, and `set(i, value)` that writes one"
)]
pub trait Places<T> {
    fn place(&self, index: usize) -> &T;
    fn place_mut(&mut self, index: usize) -> &mut T;
}

macro_rules! without_places {
    ($($type:ty),+) => {$(
        #[doc(hidden)]
        #[diagnostic::do_not_recommend]
        impl<T> Index<usize> for $type
        where
            Self: Places<T>,
        {
            type Output = T;

            fn index(&self, index: usize) -> &T {
                self.place(index)
            }
        }

        #[doc(hidden)]
        #[diagnostic::do_not_recommend]
        impl<T> IndexMut<usize> for $type
        where
            Self: Places<T>,
        {
            fn index_mut(&mut self, index: usize) -> &mut T {
                self.place_mut(index)
            }
        }
    )+};
}

without_places! { Slice<'_, T>, SliceMut<'_, T>, Shared<T> }
