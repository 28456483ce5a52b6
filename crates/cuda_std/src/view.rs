// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays of several axes in global memory, with a shape and strides: what a kernel reads ([`ArrayView`]) and writes
//! ([`ArrayViewMut`]).
//!
//! An element is named by its index along each axis. That the shape and the strides stay within the memory, the launch
//! has seen to; so a kernel compares each index with its axis, and nothing else.

use core::marker::PhantomData;

use bytemuck::Pod;

use crate::atomic::{Atomic, Device, Global};
use crate::machine::{self, Place};
use crate::param::Param;

/// Where the elements lie: element `[0, 0, …]` is number `first` of the `len` elements that the memory has from the lowest
/// one on, and a step along axis `k` is one of `strides[k]` elements.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Layout<const N: usize> {
    len: usize,
    first: usize,
    shape: [usize; N],
    strides: [isize; N],
}

impl<const N: usize> Layout<N> {
    /// The layout, if every index of the shape is one of the `len` elements.
    pub fn new(len: usize, first: usize, shape: [usize; N], strides: [isize; N]) -> Option<Self> {
        if !shape.contains(&0) {
            let (mut lowest, mut highest) = (first, first);
            for (length, stride) in shape.into_iter().zip(strides) {
                let reach = (length - 1).checked_mul(stride.unsigned_abs())?;
                if stride < 0 {
                    lowest = lowest.checked_sub(reach)?;
                } else {
                    highest = highest.checked_add(reach)?;
                }
            }
            if highest >= len {
                return None;
            }
        }
        Some(Self {
            len,
            first,
            shape,
            strides,
        })
    }

    /// The number of the element with that index, unless it is out of bounds.
    #[inline(always)]
    fn number(&self, index: [usize; N]) -> Option<usize> {
        let mut number = self.first;
        for (axis, i) in index.into_iter().enumerate() {
            if i >= self.shape[axis] {
                return None;
            }
            // Modulo 2^64, in which a negative stride is a large one; the sum is below `len`.
            number = number.wrapping_add(i.wrapping_mul(self.strides[axis] as usize));
        }
        Some(number)
    }
}

/// The panic of an index that is out of bounds.
#[cold]
#[track_caller]
fn out_of_bounds<const N: usize>(index: [usize; N], shape: [usize; N]) -> ! {
    panic!("index {index:?} is out of bounds of a view of shape {shape:?}")
}

macro_rules! common {
    (|$view:ident, $number:ident| $get:expr) => {
        /// The length of each axis.
        #[inline(always)]
        pub fn shape(self) -> [usize; N] {
            self.layout.shape
        }

        /// The number of elements from one index to the next along each axis; negative where they run backwards.
        #[inline(always)]
        pub fn strides(self) -> [isize; N] {
            self.layout.strides
        }

        /// Element `index`.
        ///
        /// # Panics
        ///
        /// If the index is out of bounds.
        #[inline(always)]
        #[track_caller]
        pub fn get(self, index: [usize; N]) -> T {
            let $view = self;
            match self.layout.number(index) {
                // SAFETY: less than the length, by the contract of `from_raw_parts`.
                Some($number) => unsafe { $get },
                None => out_of_bounds(index, self.layout.shape),
            }
        }
    };
}

/// A view of `N` axes that a kernel reads; its argument on the host is `&DeviceArray` or `&DeviceView`, of any strides.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `out[j][i] = x[i][j]`
/// #[kernel]
/// pub fn transpose(x: ArrayView<'_, f32, 2>, out: ArrayViewMut<'_, f32, 2>) {
///     let (i, j) = thread::index_2d();
///     let [rows, columns] = x.shape();
///     if i < rows && j < columns {
///         out.set([j, i], x.get([i, j]));
///     }
/// }
/// ```
pub struct ArrayView<'a, T, const N: usize> {
    lowest: *const T,
    layout: Layout<N>,
    _memory: PhantomData<&'a T>,
}

impl<T, const N: usize> Clone for ArrayView<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for ArrayView<'_, T, N> {}

impl<'a, T: Pod, const N: usize> ArrayView<'a, T, N> {
    /// The view of the memory from `lowest` on.
    ///
    /// # Safety
    ///
    /// The layout was made by [`Layout::new`]; `lowest` points to as many elements of global memory as it says, aligned for
    /// `T`. Those that the layout has, nothing writes for `'a`; those in between are nobody's business here.
    #[inline(always)]
    pub unsafe fn from_raw_parts(lowest: *const T, layout: Layout<N>) -> Self {
        Self {
            lowest,
            layout,
            _memory: PhantomData,
        }
    }

    common!(|view, number| machine::load_read_only(view.lowest.add(number), align_of::<T>()));
}

/// A view of `N` axes that a kernel writes; its argument on the host is `&mut DeviceArray` or `&mut DeviceViewMut`, of any
/// strides. All threads hold it, as they do a [`SliceMut`](crate::SliceMut).
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Sets what is below the diagonal to 0.
/// #[kernel]
/// pub fn clear_below(x: ArrayViewMut<'_, f64, 2>) {
///     let (i, j) = thread::index_2d();
///     let [rows, columns] = x.shape();
///     if i < rows && j < columns && j < i {
///         x.set([i, j], 0.0);
///     }
/// }
/// ```
pub struct ArrayViewMut<'a, T, const N: usize> {
    lowest: *mut T,
    layout: Layout<N>,
    _memory: PhantomData<&'a mut T>,
}

impl<T, const N: usize> Clone for ArrayViewMut<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for ArrayViewMut<'_, T, N> {}

impl<'a, T: Pod, const N: usize> ArrayViewMut<'a, T, N> {
    /// The view of the memory from `lowest` on.
    ///
    /// # Safety
    ///
    /// The layout was made by [`Layout::new`]; `lowest` points to as many elements of global memory as it says, aligned for
    /// `T`. Those that the layout has, are accessed for `'a` only through copies of this view.
    #[inline(always)]
    pub unsafe fn from_raw_parts(lowest: *mut T, layout: Layout<N>) -> Self {
        Self {
            lowest,
            layout,
            _memory: PhantomData,
        }
    }

    common!(|view, number| machine::load_global(view.lowest.add(number).cast_const(), align_of::<T>()));

    /// Sets element `index` to `value`.
    ///
    /// # Panics
    ///
    /// If the index is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn set(self, index: [usize; N], value: T) {
        match self.layout.number(index) {
            // SAFETY: less than the length, by the contract of `from_raw_parts`.
            Some(number) => unsafe { machine::store_global(self.lowest.add(number), value, align_of::<T>()) },
            None => out_of_bounds(index, self.layout.shape),
        }
    }

    /// Element `index` for atomic access, among all threads of the device.
    ///
    /// # Panics
    ///
    /// If the index is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn atomic(self, index: [usize; N]) -> Atomic<'a, T, Global, Device> {
        match self.layout.number(index) {
            // SAFETY: as above, for 'a.
            Some(number) => unsafe { Atomic::from_ptr(self.lowest.add(number)) },
            None => out_of_bounds(index, self.layout.shape),
        }
    }
}

// SAFETY (of both): a pointer, and a structure of numbers.
#[diagnostic::do_not_recommend]
unsafe impl<T: Pod, const N: usize> Param for ArrayView<'static, T, N> {
    type Head = *const T;
    type Tail = Layout<N>;
    type At<'launch> = ArrayView<'launch, T, N>;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, tail: Self::Tail, _: Place) -> Self::At<'launch> {
        // SAFETY: the caller's promise.
        unsafe { ArrayView::from_raw_parts(*head, tail) }
    }
}

#[diagnostic::do_not_recommend]
unsafe impl<T: Pod, const N: usize> Param for ArrayViewMut<'static, T, N> {
    type Head = *mut T;
    type Tail = Layout<N>;
    type At<'launch> = ArrayViewMut<'launch, T, N>;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, tail: Self::Tail, _: Place) -> Self::At<'launch> {
        // SAFETY: the caller's promise.
        unsafe { ArrayViewMut::from_raw_parts(*head, tail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_stay_within_the_memory() {
        let number = |layout: Option<Layout<2>>, index| layout.unwrap().number(index);
        let rows = Layout::new(6, 0, [2, 3], [3, 1]);
        assert_eq!(number(rows, [1, 2]), Some(5));
        assert_eq!(number(rows, [2, 0]), None);
        assert_eq!(number(rows, [0, 3]), None);
        let reversed = Layout::new(6, 5, [2, 3], [-3, -1]);
        assert_eq!(number(reversed, [0, 0]), Some(5));
        assert_eq!(number(reversed, [1, 2]), Some(0));
        assert!(Layout::new(5, 0, [2, 3], [3, 1]).is_none());
        assert!(Layout::new(6, 4, [2, 3], [-3, -1]).is_none());
        assert!(Layout::new(0, 0, [2, 0], [3, 1]).is_some());
        assert!(Layout::new(usize::MAX, 0, [2, 2], [isize::MAX, isize::MIN]).is_none());
        assert!(Layout::new(usize::MAX, 1, [usize::MAX], [2]).is_none());
        assert_eq!(Layout::new(1, 0, [], []).unwrap().number([]), Some(0));
    }
}
