// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be a kernel's parameter.

use bytemuck::Pod;

use crate::machine::Place;
use crate::{Slice, SliceMut, array};

/// A type that a kernel can take: a number, `bool`, an array or a tuple of up to four of them, a structure with
/// [`KernelParam`](crate::KernelParam), `&[T]`, [`Slice`], [`SliceMut`], an [`ArrayView`](crate::ArrayView), a
/// [`Constant`](crate::Constant), a [`GridBarrier`](crate::GridBarrier), or a tensor that bulk copies read
/// ([`TensorMap`](crate::tma::TensorMap)) or write ([`TensorMapMut`](crate::tma::TensorMapMut)). All together have at most 4096 bytes; more do not compile.
///
/// A parameter crosses the launch as one or two values: a slice as its address and its length (two values and not one
/// structure, because the compiler knows a bare pointer parameter to be global memory), everything else as itself.
///
/// # Lifetimes
///
/// The trait is implemented for the type as a list of parameters spells it, with `'static` for what is borrowed. What
/// the kernel is called with is [`At<'launch>`](Self::At), borrowed for the time of the launch. The entry is generic
/// over that time, so that a kernel which wants its argument for longer (`&'static [T]`, or an alias that stands for
/// it) does not compile, and none can keep one.
///
/// # Safety
///
/// `Head` and `Tail` have the layout that the launch writes and the PTX entry reads: a number, a pointer, or a
/// `repr(C)` structure; one of no size is not passed. `At<'launch>` differs from `Self` in its lifetimes only.
/// `from_abi` looks at its place only where `HAS_PLACE` says so.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a kernel",
    label = "no launch can pass this",
    note = "a kernel takes numbers, `bool`, arrays and tuples of them, structures with `#[derive(KernelParam)]`, `&[T]`, \
            `Slice<'_, T>`, `ArrayView<'_, T, N>`, `Constant<'_, T, N>`, for what it writes `SliceMut<'_, T>` and \
            `ArrayViewMut<'_, T, N>`, and `GridBarrier<'_>`",
    note = "`T` is plain bytes, `bytemuck::Pod`: not `bool`, for which a mask has `u8`, and of structures those with \
            `#[repr(C)]` and `#[derive(Clone, Copy, Pod, Zeroable)]`"
)]
pub unsafe trait Param: Copy + 'static {
    /// The first value.
    type Head: Copy;
    /// The second value, or [`NoTail`].
    type Tail: Copy;
    /// The parameter in a launch that lasts for `'launch`.
    type At<'launch>;

    /// Whether it is a tensor map, which a GPU wants aligned to 64 bytes.
    #[doc(hidden)]
    const IS_TENSOR_MAP: bool = false;

    /// Whether it is read where it lies, and not as a value.
    #[doc(hidden)]
    const HAS_PLACE: bool = false;

    /// Whether it is a grid's barrier, with which a launch is cooperative.
    #[doc(hidden)]
    const IS_GRID_BARRIER: bool = false;

    /// Puts the parameter together again.
    ///
    /// # Safety
    ///
    /// The values are those of a parameter of this type, and what they point to lives for `'launch`. On a GPU, `place` is
    /// that of the first value among the entry's parameters.
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, tail: Self::Tail, place: Place) -> Self::At<'launch>;
}

/// A parameter that is a value, and refers to no memory.
pub trait ByValue: for<'launch> Param<Tail = NoTail, At<'launch> = Self> {
    /// The value as it crosses the launch.
    fn into_head(self) -> Self::Head;
}

/// The second value of a parameter that has only one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTail;

// SAFETY: a pointer and a length.
#[diagnostic::do_not_recommend]
unsafe impl<T: Pod> Param for &'static [T] {
    type Head = *const T;
    type Tail = usize;
    type At<'launch> = &'launch [T];

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, tail: Self::Tail, _: Place) -> Self::At<'launch> {
        const { assert_alignment::<T>() };
        // SAFETY: the caller's promise: `tail` elements lie at `head`, shared for the kernel's time.
        unsafe { core::slice::from_raw_parts(*head, tail) }
    }
}

// SAFETY: a pointer and a length.
#[diagnostic::do_not_recommend]
unsafe impl<T: Pod> Param for Slice<'static, T> {
    type Head = *const T;
    type Tail = usize;
    type At<'launch> = Slice<'launch, T>;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, tail: Self::Tail, _: Place) -> Self::At<'launch> {
        const { assert_alignment::<T>() };
        // SAFETY: the caller's promise: `tail` elements lie at `head` for the kernel's time.
        unsafe { Slice::from_raw_parts(*head, tail) }
    }
}

// SAFETY: a pointer and a length.
#[diagnostic::do_not_recommend]
unsafe impl<T: Pod> Param for SliceMut<'static, T> {
    type Head = *mut T;
    type Tail = usize;
    type At<'launch> = SliceMut<'launch, T>;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, tail: Self::Tail, _: Place) -> Self::At<'launch> {
        const { assert_alignment::<T>() };
        // SAFETY: the caller's promise: `tail` elements lie at `head`, borrowed mutably for the kernel's time.
        unsafe { SliceMut::from_raw_parts(*head, tail) }
    }
}

/// The number of values that a head and a tail of these sizes are passed as.
const fn values(head: usize, tail: usize) -> usize {
    (head > 0) as usize + (tail > 0) as usize
}

/// The number of values that are passed ahead of parameter `number`, of the sizes of all heads and tails.
#[doc(hidden)]
pub const fn values_before(sizes: &[(usize, usize)], number: usize) -> usize {
    let (mut before, mut i) = (0, 0);
    while i < number {
        before += values(sizes[i].0, sizes[i].1);
        i += 1;
    }
    before
}

/// The parameters that are tensor maps, a bit each, of their numbers among the values that are passed: of the sizes of
/// all heads and tails, and of which parameters are.
#[doc(hidden)]
pub const fn tensor_maps(sizes: &[(usize, usize)], are_tensor_maps: &[bool]) -> u64 {
    let (mut maps, mut i) = (0, 0);
    while i < sizes.len() {
        if are_tensor_maps[i] {
            maps |= 1 << values_before(sizes, i);
        }
        i += 1;
    }
    maps
}

/// On a GPU: a parameter of a type that has no place.
///
/// # Safety
///
/// As [`Param::from_abi`].
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[inline(always)]
pub unsafe fn from_values<'launch, P: Param>(head: &'launch P::Head, tail: P::Tail) -> P::At<'launch> {
    const { assert!(!P::HAS_PLACE, "a type with a place has the name of one that has none") };
    // SAFETY: the caller's promise; the place is not looked at.
    unsafe { P::from_abi(head, tail, Place(0)) }
}

/// Compiles only for what a kernel takes by value.
#[doc(hidden)]
pub const fn assert_by_value<P: ByValue>() {}

/// Device memory is allocated at multiples of 256 bytes.
const fn assert_alignment<T>() {
    assert!(
        align_of::<T>() <= 256,
        "device memory has no alignment beyond 256 bytes"
    );
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        // SAFETY: a number.
        unsafe impl Param for $type {
            type Head = Self;
            type Tail = NoTail;
            type At<'launch> = Self;

            #[inline(always)]
            unsafe fn from_abi<'launch>(head: &'launch Self, _: NoTail, _: Place) -> Self::At<'launch> {
                *head
            }
        }

        impl ByValue for $type {
            #[inline(always)]
            fn into_head(self) -> Self {
                self
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 half::f16 half::bf16 }

// SAFETY: a number, 0 or 1.
unsafe impl Param for bool {
    type Head = u8;
    type Tail = NoTail;
    type At<'launch> = Self;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch u8, _: NoTail, _: Place) -> Self::At<'launch> {
        *head != 0
    }
}

impl ByValue for bool {
    #[inline(always)]
    fn into_head(self) -> u8 {
        self.into()
    }
}

/// An array or a tuple as it crosses the launch: a structure, the only way in which C passes several values as one.
#[doc(hidden)]
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Fields<T>(pub(crate) T);

// SAFETY: a structure of as many parameters by value, in their order.
unsafe impl<P: ByValue, const N: usize> Param for [P; N] {
    type Head = Fields<[P::Head; N]>;
    type Tail = NoTail;
    type At<'launch> = Self;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, _: NoTail, place: Place) -> Self::At<'launch> {
        // SAFETY: the caller's promise, for each.
        array::from_fn(|i| unsafe { P::from_abi(&head.0[i], NoTail, place) })
    }
}

impl<P: ByValue, const N: usize> ByValue for [P; N] {
    #[inline(always)]
    fn into_head(self) -> Self::Head {
        Fields(array::from_fn(|i| self[i].into_head()))
    }
}

impl<T> Fields<T> {
    /// For the host, which passes them.
    pub fn new(fields: T) -> Self {
        Self(fields)
    }
}

macro_rules! tuples {
    ($($fields:ident: $($param:ident $number:tt)*;)*) => {$(
        #[doc(hidden)]
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $fields<$($param),*>($($param),*);

        // SAFETY: a structure of parameters by value.
        unsafe impl<$($param: ByValue),*> Param for ($($param,)*) {
            type Head = $fields<$($param::Head),*>;
            type Tail = NoTail;
            type At<'launch> = Self;

            #[inline(always)]
            unsafe fn from_abi<'launch>(head: &'launch Self::Head, _: NoTail, place: Place) -> Self::At<'launch> {
                // SAFETY: the caller's promise, for each.
                unsafe { ($($param::from_abi(&head.$number, NoTail, place),)*) }
            }
        }

        impl<$($param: ByValue),*> ByValue for ($($param,)*) {
            #[inline(always)]
            fn into_head(self) -> Self::Head {
                $fields($(self.$number.into_head()),*)
            }
        }
    )*};
}

tuples! {
    Fields2: A 0 B 1;
    Fields3: A 0 B 1 C 2;
    Fields4: A 0 B 1 C 2 D 3;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Constant;
    use crate::tma::{TensorMap, TensorMapMut};

    /// `#[kernel]` knows the names of those that have none.
    #[test]
    fn constants_and_tensor_maps_have_places() {
        const { assert!(<Constant<'static, f32, 9> as Param>::HAS_PLACE) };
        const { assert!(<TensorMap<'static, f32> as Param>::HAS_PLACE) };
        const { assert!(<TensorMapMut<'static, f32> as Param>::HAS_PLACE) };
        const { assert!(!<Slice<'static, f32> as Param>::HAS_PLACE) };
        const { assert!(!<SliceMut<'static, f32> as Param>::HAS_PLACE) };
        const { assert!(!<&'static [f32] as Param>::HAS_PLACE) };
        const { assert!(!<half::f16 as Param>::HAS_PLACE) };
    }
}
