// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small tables in the GPU's constant memory.

use bytemuck::Pod;

use crate::machine::{self, ConstantArray, Place, check_bounds};
use crate::param::{Fields, NoTail, Param};

/// An array of fixed size in constant memory, which goes with the launch: a filter's weights, say. The argument is
/// `&[T; N]`, an array of the host.
///
/// It is where a kernel's parameters are (bank 0), so that there is no copy to be made before the launch, and none to be
/// made again after a change: each launch has its own values, also in a graph. All parameters of a kernel have 4096 bytes
/// together; for more, take `&[T]`, whose loads go through the cache for data that is only read.
///
/// A load is at its fastest when all threads of a warp read one element: it then costs little more than a register.
/// Threads that read different ones are served one after another; a table that each thread looks up at a place of its own
/// is better in shared memory. An array by value, `[T; N]`, is the better parameter where every index is known when the
/// kernel is compiled: such elements are operands of the instructions that use them. By an index that is not known it is
/// first copied to the thread's own memory, all of it.
///
/// ```
/// use cuda_std::constant::Constant;
/// use cuda_std::prelude::*;
///
/// /// `out[i]` is the sum of `weights[k] * x[i + k]`, of the first `taps` weights.
/// #[kernel]
/// pub fn filter(weights: Constant<'_, f32, 64>, taps: u32, x: &[f32], out: SliceMut<'_, f32>) {
///     let i = thread::index_1d();
///     if i < out.len() {
///         let mut sum = 0.0;
///         for k in 0..taps as usize {
///             sum = weights.get(k).mul_add(x[i + k], sum);
///         }
///         out.set(i, sum);
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Constant<'a, T, const N: usize> {
    array: ConstantArray<'a, T, N>,
}

impl<T, const N: usize> Clone for Constant<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for Constant<'_, T, N> {}

impl<T: Pod, const N: usize> Constant<'_, T, N> {
    /// The number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        N
    }

    /// Whether there is no element.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        N == 0
    }

    /// Element `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    #[inline(always)]
    #[track_caller]
    pub fn get(self, index: usize) -> T {
        check_bounds!("a Constant", index, N);
        // SAFETY: in bounds.
        unsafe { self.array.get(index) }
    }

    /// [`get`](Self::get) without the check, for the innermost loops. The simulated GPU checks all the same.
    ///
    /// # Safety
    ///
    /// `index` is less than the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get_unchecked(self, index: usize) -> T {
        if machine::CHECKED {
            return self.get(index);
        }
        // SAFETY: the caller's promise.
        unsafe { self.array.get(index) }
    }
}

// SAFETY: the array's bytes, as a structure.
unsafe impl<T: Pod, const N: usize> Param for Constant<'static, T, N> {
    type Head = Fields<[T; N]>;
    type Tail = NoTail;
    type At<'launch> = Constant<'launch, T, N>;

    const HAS_PLACE: bool = true;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, _: NoTail, place: Place) -> Self::At<'launch> {
        Constant {
            array: ConstantArray::new(&head.0, place),
        }
    }
}
