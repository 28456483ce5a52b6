// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays in registers.

#[cfg(target_arch = "nvptx64")]
pub use core::array::from_fn;

/// The array of `element(0)`, `element(1)`, …: [`core::array::from_fn`], for elements that are copied.
///
/// On a GPU it is that very function. For the simulated GPU it is a bare loop: that of `core` also drops what it has
/// when `element` panics, which took more than half of the code of all kernels, and of the time to compile it.
///
/// ```
/// let squares: [u32; 4] = cuda_std::array::from_fn(|i| (i * i) as u32);
/// assert_eq!(squares, [0, 1, 4, 9]);
/// ```
#[cfg(not(target_arch = "nvptx64"))]
#[inline]
pub fn from_fn<T: Copy, const N: usize, F: FnMut(usize) -> T>(mut element: F) -> [T; N] {
    let mut array = core::mem::MaybeUninit::<[T; N]>::uninit();
    let elements = array.as_mut_ptr();
    let mut i = 0;
    while i < N {
        let value = element(i);
        // SAFETY: the index is checked, `elements` points to room for the array, and the `T` that was not there yet
        // is not dropped: a `Copy` type needs no drop.
        unsafe { (*elements)[i] = value };
        i += 1;
    }
    // SAFETY: all elements were written.
    unsafe { array.assume_init() }
}
