// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be a kernel's parameter.

use bytemuck::Pod;

use crate::{Slice, SliceMut};

/// A type that a kernel can take: a number, `&[T]`, [`Slice`], [`SliceMut`], or a [`Pod`] structure named to
/// [`kernel_param!`](crate::kernel_param).
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a kernel",
    label = "no launch can pass this",
    note = "a kernel takes numbers, `&[T]`, `Slice<'_, T>`, `SliceMut<'_, T>` for what it writes, and structures named to \
            `cuda_std::kernel_param!`",
    note = "an array of a fixed length goes into such a structure, `#[repr(C)] struct Weights {{ of: [f32; 5] }}`, or is \
            passed as a slice"
)]
pub unsafe trait Param: Copy + 'static {
    /// The first value.
    type Head: Copy;
    /// The second value, or [`NoTail`].
    type Tail: Copy;
    /// The parameter in a launch that lasts for `'launch`.
    type At<'launch>;

    /// Puts the parameter together again.
    ///
    /// # Safety
    ///
    /// The values are those of a parameter of this type, and what they point to lives for `'launch`.
    unsafe fn from_abi<'launch>(head: Self::Head, tail: Self::Tail) -> Self::At<'launch>;
}

/// A parameter that crosses the launch as it is: a number, or a structure named to
/// [`kernel_param!`](crate::kernel_param).
pub trait ByValue: Param<Head = Self, Tail = NoTail> {}

/// The second value of a parameter that has only one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTail;

// SAFETY: a pointer and a length.
unsafe impl<T: Pod> Param for &'static [T] {
    type Head = *const T;
    type Tail = usize;
    type At<'launch> = &'launch [T];

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: Self::Head, tail: Self::Tail) -> &'launch [T] {
        const { assert_alignment::<T>() };
        // SAFETY: the caller's promise: `tail` elements lie at `head`, shared for the kernel's time.
        unsafe { core::slice::from_raw_parts(head, tail) }
    }
}

// SAFETY: a pointer and a length.
unsafe impl<T: Pod> Param for Slice<'static, T> {
    type Head = *const T;
    type Tail = usize;
    type At<'launch> = Slice<'launch, T>;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: Self::Head, tail: Self::Tail) -> Slice<'launch, T> {
        const { assert_alignment::<T>() };
        // SAFETY: the caller's promise: `tail` elements lie at `head` for the kernel's time.
        unsafe { Slice::from_raw_parts(head, tail) }
    }
}

// SAFETY: a pointer and a length.
unsafe impl<T: Pod> Param for SliceMut<'static, T> {
    type Head = *mut T;
    type Tail = usize;
    type At<'launch> = SliceMut<'launch, T>;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: Self::Head, tail: Self::Tail) -> SliceMut<'launch, T> {
        const { assert_alignment::<T>() };
        // SAFETY: the caller's promise: `tail` elements lie at `head`, borrowed mutably for the kernel's time.
        unsafe { SliceMut::from_raw_parts(head, tail) }
    }
}

/// Lets kernels take structures by value.
///
/// The structure must be `Copy` and [`bytemuck::Pod`] (so it is `repr(C)` and has no padding).
///
/// ```
/// #[repr(C)]
/// #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Camera {
///     position: [f32; 3],
///     zoom: f32,
/// }
/// cuda_std::kernel_param!(Camera);
/// ```
///
/// A structure whose values are not just any bits, because a kernel relies on what its constructor has checked, must not
/// be `Pod`: safe code could make one of any bytes. It is named behind the word `unsafe`, and its fields are private.
///
/// # Safety
///
/// A type named behind `unsafe` is `repr(C)`, without padding, and made of numbers alone.
///
/// ```
/// /// A part of an array.
/// #[repr(C)]
/// #[derive(Clone, Copy)]
/// pub struct Part {
///     first: usize,
///     end: usize,
/// }
///
/// impl Part {
///     /// # Panics
///     ///
///     /// If the first is behind the end.
///     pub fn new(first: usize, end: usize) -> Self {
///         assert!(first <= end);
///         Self { first, end }
///     }
/// }
/// // SAFETY: `repr(C)`, two numbers of one size.
/// cuda_std::kernel_param!(unsafe Part);
/// ```
#[macro_export]
macro_rules! kernel_param {
    (unsafe $($type:ty),* $(,)?) => {$(
        // SAFETY: a `repr(C)` structure of numbers, as whoever names it has promised.
        unsafe impl $crate::param::Param for $type {
            type Head = Self;
            type Tail = $crate::param::NoTail;
            type At<'launch> = Self;

            #[inline(always)]
            unsafe fn from_abi<'launch>(head: Self, _: $crate::param::NoTail) -> Self::At<'launch> {
                head
            }
        }

        impl $crate::param::ByValue for $type {}
    )*};
    ($($type:ty),* $(,)?) => {
        // Pod types have a fixed layout without padding: what the form with `unsafe` wants promised.
        $(const _: () = $crate::param::assert_pod::<$type>();)*
        $crate::kernel_param!(unsafe $($type),*);
    };
}

/// Compiles only for [`Pod`] types.
#[doc(hidden)]
pub const fn assert_pod<T: Pod>() {}

/// Device memory is allocated at multiples of 256 bytes.
const fn assert_alignment<T>() {
    assert!(
        align_of::<T>() <= 256,
        "device memory has no alignment beyond 256 bytes"
    );
}

kernel_param!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    half::f16,
    half::bf16
);
