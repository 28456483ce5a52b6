// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays in registers.
//!
//! Kernels make their arrays by these functions, and not by those of [`core`], which also drop what they have when a
//! closure panics. On the simulated GPU that took more than half of the code of all kernels, and of the time to compile
//! it. On GPUs LLVM is done with it before it proves to be for nothing: a seventh of what rustc handed to it, and a third or
//! more of the time that rustc took to find out what it should.
//!
//! Scans by look-back take `core`'s all the same, as they would spill more registers. So do arrays of what is not copied.

use core::mem::MaybeUninit;

/// The array of `element(0)`, `element(1)`, …: [`core::array::from_fn`], for elements that are copied.
///
/// For GPUs this is a function of its own until LLVM inlines it. Then its loop is unrolled ahead of what is around it; as
/// a loop in its caller from the start, scans have more instructions and spill registers that they do not so.
///
/// ```
/// let squares: [u32; 4] = cuda_std::array::from_fn(|i| (i * i) as u32);
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
#[inline]
#[cfg_attr(target_arch = "nvptx64", rustc_no_mir_inline)]
pub fn from_fn<T: Copy, const N: usize, F: FnMut(usize) -> T>(mut element: F) -> [T; N] {
    let mut array = [const { MaybeUninit::<T>::uninit() }; N];
    let mut i = 0;
    while i < N {
        let value = element(i);
        // SAFETY: the index is checked, and a `Copy` type needs no drop: what is there is written over.
        unsafe { *(&raw mut array[i] as *mut T) = value };
        i += 1;
    }
    // SAFETY: all elements were written, and an array of what may be uninitialised lies as the array itself.
    unsafe { *(&raw const array as *const [T; N]) }
}

/// The array of what `function` makes of each element: the method `map` of arrays, for elements that are copied.
///
/// ```
/// assert_eq!(cuda_std::array::map([1, 2, 3], f64::from), [1.0, 2.0, 3.0]);
/// ```
#[inline]
pub fn map<T: Copy, U: Copy, const N: usize, F: FnMut(T) -> U>(array: [T; N], mut function: F) -> [U; N] {
    from_fn(|i| function(array[i]))
}

#[cfg(test)]
mod tests {
    use super::{from_fn, map};

    #[test]
    fn elements_are_made_in_order_once_each() {
        let mut calls = 0;
        let numbers: [u64; 5] = from_fn(|i| {
            calls += 1;
            10 * calls + i as u64
        });
        assert_eq!(numbers, [10, 21, 32, 43, 54]);
        let mut sum = 0;
        let sums = map(numbers, |number| {
            sum += number;
            (sum, number as u8)
        });
        assert_eq!(sums, [(10, 10), (31, 21), (63, 32), (106, 43), (160, 54)]);
    }

    #[test]
    fn there_may_be_no_element_or_elements_without_bytes() {
        let none: [u32; 0] = from_fn(|i| i as u32);
        assert!(map(none, f64::from).is_empty());
        #[derive(Clone, Copy, Debug, PartialEq)]
        struct Nothing;
        let mut calls = 0;
        let nothing: [Nothing; 3] = from_fn(|_| {
            calls += 1;
            Nothing
        });
        assert_eq!((nothing, calls), ([Nothing; 3], 3));
    }
}
