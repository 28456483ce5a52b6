// SPDX-License-Identifier: MIT OR Apache-2.0
//! What may be a kernel's parameter.

use bytemuck::Pod;

use crate::machine::{self, ParamAddress};
use crate::{Slice, SliceMut, array};

/// A type that a kernel can take: a number, `bool`, an array or a tuple of up to four of them, a structure with
/// [`KernelParam`](crate::KernelParam), `&[T]`, [`Slice`], [`SliceMut`], or a tensor that bulk copies read
/// ([`TensorMap`](crate::tma::TensorMap)) or write ([`TensorMapMut`](crate::tma::TensorMapMut)).
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
    note = "a kernel takes numbers, `bool`, arrays and tuples of them, `&[T]`, `Slice<'_, T>`, `SliceMut<'_, T>` for what it \
            writes, and structures with `#[derive(KernelParam)]`"
)]
pub unsafe trait Param: Copy + 'static {
    /// The first value.
    type Head: Copy;
    /// The second value, or [`NoTail`].
    type Tail: Copy;
    /// The parameter in a launch that lasts for `'launch`.
    type At<'launch>;

    /// Whether the kernel uses the first value where the launch has put it, by its address: a tensor map, which
    /// instructions take so. Then the parameter is made by [`from_place`](Self::from_place), else by
    /// [`from_abi`](Self::from_abi).
    const IN_PLACE: bool = false;

    /// Puts the parameter together again.
    ///
    /// # Safety
    ///
    /// The values are those of a parameter of this type, and what they point to lives for `'launch`. The type is not
    /// [`IN_PLACE`](Self::IN_PLACE).
    unsafe fn from_abi<'launch>(head: Self::Head, tail: Self::Tail) -> Self::At<'launch>;

    /// The parameter whose first value is at `place`; of a type that is [`IN_PLACE`](Self::IN_PLACE) only.
    ///
    /// # Safety
    ///
    /// There is the `Head` of a parameter of this type for `'launch`, and what it points to lives as long. The type is
    /// `IN_PLACE`.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn from_place<'launch>(_place: ParamAddress) -> Self::At<'launch> {
        if machine::CHECKED {
            unreachable!("a parameter that crosses the launch by value has no place");
        }
        // SAFETY: the caller's promise: this is never called for a type that is not `IN_PLACE`.
        unsafe { core::hint::unreachable_unchecked() }
    }
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

/// What a parameter is in PTX.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Shape {
    /// The values that PTX passes for it: those that have a size.
    values: usize,
    in_place: bool,
}

impl Shape {
    #[doc(hidden)]
    pub const fn of<P: Param>() -> Self {
        Self {
            values: (size_of::<P::Head>() > 0) as usize + (size_of::<P::Tail>() > 0) as usize,
            in_place: P::IN_PLACE,
        }
    }
}

/// The number that parameter `index` has in PTX.
#[doc(hidden)]
pub const fn number(parameters: &[Shape], index: usize) -> usize {
    let (mut number, mut i) = (0, 0);
    while i < index {
        number += parameters[i].values;
        i += 1;
    }
    number
}

/// The parameters that are used where they are, a bit each by their numbers in PTX.
#[doc(hidden)]
pub const fn tensor_maps(parameters: &[Shape]) -> u64 {
    let (mut maps, mut i) = (0, 0);
    while i < parameters.len() {
        if parameters[i].in_place {
            maps |= 1 << number(parameters, i);
        }
        i += 1;
    }
    maps
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
            unsafe fn from_abi<'launch>(head: Self, _: NoTail) -> Self::At<'launch> {
                head
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
    unsafe fn from_abi<'launch>(head: u8, _: NoTail) -> Self::At<'launch> {
        head != 0
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
pub struct Fields<T>(T);

// SAFETY: a structure of as many parameters by value, in their order.
unsafe impl<P: ByValue, const N: usize> Param for [P; N] {
    type Head = Fields<[P::Head; N]>;
    type Tail = NoTail;
    type At<'launch> = Self;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: Self::Head, _: NoTail) -> Self::At<'launch> {
        // SAFETY: the caller's promise, for each.
        array::from_fn(|i| unsafe { P::from_abi(head.0[i], NoTail) })
    }
}

impl<P: ByValue, const N: usize> ByValue for [P; N] {
    #[inline(always)]
    fn into_head(self) -> Self::Head {
        Fields(array::from_fn(|i| self[i].into_head()))
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
            unsafe fn from_abi<'launch>(head: Self::Head, _: NoTail) -> Self::At<'launch> {
                // SAFETY: the caller's promise, for each.
                unsafe { ($($param::from_abi(head.$number, NoTail),)*) }
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
