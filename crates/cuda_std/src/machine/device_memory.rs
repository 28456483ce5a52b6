// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and stores on an NVIDIA GPU, of whole values of any size, by the widest instructions that there are for them.

use core::arch::asm;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use bytemuck::Pod;

use super::{ClusterPtr, SharedPtr};

/// Repeats a block of statements for `$at` from `$from`, in steps of `$step`, up to `$to`. All are constants in the end, and the
/// loop goes.
///
/// Its condition is at its end, where LLVM would bring it: doing so for the loops of every access took more time than all else in
/// large kernels, for LLVM then forgets what it knew of all loops around.
macro_rules! steps {
    ($type:ident: $at:ident from $from:expr, to $to:expr, step $step:literal => $body:block) => {
        if const { may_want::<$type>($step) } {
            let mut $at = $from;
            if $at < $to {
                loop {
                    $body
                    $at += $step;
                    if $at >= $to {
                        break;
                    }
                }
            }
        }
    };
}

/// Whether accesses of `width` bytes may be wanted for a `T`: it is as large, and not aligned to more, where wider ones would leave none.
/// It is a constant, so that rustc leaves out what is not wanted: hundreds of types have these functions.
const fn may_want<T>(width: usize) -> bool {
    size_of::<T>() >= width && (width == 16 || align_of::<T>() <= width)
}

/// The bytes, of so many, that accesses of 16, 8, 4, and 2 bytes end at which `align` allows.
#[inline(always)]
fn ends(bytes: usize, align: usize) -> [usize; 4] {
    let end = |width: usize, before: usize| if align >= width { bytes & !(width - 1) } else { before };
    let sixteen = end(16, 0);
    let eight = end(8, sixteen);
    let four = end(4, eight);
    [sixteen, eight, four, end(2, four)]
}

/// Defines `$name`, which loads a `T` aligned to `align` bytes by the widest instructions that this allows.
macro_rules! load {
    ($name:ident: $address:ty as $register:ident, $instruction:literal, [$($option:ident),*]) => {
        /// # Safety
        ///
        /// `ptr` is a `T` of the memory that the function names, aligned to `align`, a power of two: 16, or no less than the type's own
        /// alignment.
        #[inline(always)]
        pub unsafe fn $name<T: Pod>(ptr: $address, align: usize) -> T {
            let mut value = MaybeUninit::<T>::uninit();
            let to = value.as_mut_ptr();
            let [sixteen, eight, four, two] = ends(size_of::<T>(), align);
            // SAFETY: each access lies within the T that the caller promises at `ptr`, and within `value`.
            unsafe {
                steps!(T: at from 0, to sixteen, step 16 => {
                    let (a, b, c, d): (u32, u32, u32, u32);
                    asm!(
                        concat!($instruction, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<[u32; 4]>().write_unaligned([a, b, c, d]);
                });
                steps!(T: at from sixteen, to eight, step 8 => {
                    let (a, b): (u32, u32);
                    asm!(
                        concat!($instruction, ".v2.b32 {{{0}, {1}}}, [{2}];"),
                        out(reg32) a, out(reg32) b, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<[u32; 2]>().write_unaligned([a, b]);
                });
                steps!(T: at from eight, to four, step 4 => {
                    let a: u32;
                    asm!(
                        concat!($instruction, ".b32 {0}, [{1}];"), out(reg32) a, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<u32>().write_unaligned(a);
                });
                steps!(T: at from four, to two, step 2 => {
                    let a: u16;
                    asm!(
                        concat!($instruction, ".b16 {0}, [{1}];"), out(reg16) a, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<u16>().write_unaligned(a);
                });
                steps!(T: at from two, to size_of::<T>(), step 1 => {
                    let a: u16;
                    asm!(
                        concat!($instruction, ".u8 {0}, [{1}];"), out(reg16) a, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<u8>().write(a as u8);
                });
                value.assume_init()
            }
        }
    };
}

/// Where a value of the entry's parameters is, in the constant memory that has them.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub u64);

/// An array among the parameters.
#[derive(Debug)]
pub struct ConstantArray<'a, T, const N: usize> {
    place: Place,
    _array: PhantomData<&'a [T; N]>,
}

impl<T, const N: usize> Clone for ConstantArray<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for ConstantArray<'_, T, N> {}

impl<'a, T: Pod, const N: usize> ConstantArray<'a, T, N> {
    /// Of the array at `place`. What the entry has by value is a copy, which is not used.
    #[inline(always)]
    pub fn new(_: &'a [T; N], place: Place) -> Self {
        Self {
            place,
            _array: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `index` is less than `N`.
    #[inline(always)]
    pub unsafe fn get(self, index: usize) -> T {
        let place = Place(self.place.0 + (index * size_of::<T>()) as u64);
        // SAFETY: the caller's promise.
        unsafe { load_param(place, align_of::<T>()) }
    }
}

/// Defines `$name`, which stores a `T` aligned to `align` bytes by the widest instructions that this allows.
macro_rules! store {
    ($name:ident: $address:ty as $register:ident, $instruction:literal) => {
        /// # Safety
        ///
        /// `ptr` is a `T` of the memory that the function names, aligned to `align`, a power of two: 16, or no less than the type's own
        /// alignment.
        #[inline(always)]
        pub unsafe fn $name<T: Pod>(ptr: $address, value: T, align: usize) {
            let from: *const T = &value;
            let [sixteen, eight, four, two] = ends(size_of::<T>(), align);
            // SAFETY: each access lies within the T that the caller promises at `ptr`, and within `value`.
            unsafe {
                steps!(T: at from 0, to sixteen, step 16 => {
                    let [a, b, c, d] = from.byte_add(at).cast::<[u32; 4]>().read_unaligned();
                    asm!(
                        concat!($instruction, ".v4.b32 [{4}], {{{0}, {1}, {2}, {3}}};"),
                        in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
                steps!(T: at from sixteen, to eight, step 8 => {
                    let [a, b] = from.byte_add(at).cast::<[u32; 2]>().read_unaligned();
                    asm!(
                        concat!($instruction, ".v2.b32 [{2}], {{{0}, {1}}};"),
                        in(reg32) a, in(reg32) b, in($register) ptr.register(at), options(nostack, preserves_flags)
                    );
                });
                steps!(T: at from eight, to four, step 4 => {
                    asm!(
                        concat!($instruction, ".b32 [{1}], {0};"),
                        in(reg32) from.byte_add(at).cast::<u32>().read_unaligned(), in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
                steps!(T: at from four, to two, step 2 => {
                    asm!(
                        concat!($instruction, ".b16 [{1}], {0};"),
                        in(reg16) from.byte_add(at).cast::<u16>().read_unaligned(), in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
                steps!(T: at from two, to size_of::<T>(), step 1 => {
                    asm!(
                        concat!($instruction, ".u8 [{1}], {0};"),
                        in(reg16) u16::from(from.byte_add(at).cast::<u8>().read()), in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
            }
        }
    };
}

/// An address that an instruction takes in a register.
trait Address {
    type Register;
    /// The address so many bytes further.
    fn register(self, bytes: usize) -> Self::Register;
}

impl<T> Address for *const T {
    type Register = *const T;

    #[inline(always)]
    fn register(self, bytes: usize) -> *const T {
        self.wrapping_byte_add(bytes)
    }
}

impl<T> Address for *mut T {
    type Register = *mut T;

    #[inline(always)]
    fn register(self, bytes: usize) -> *mut T {
        self.wrapping_byte_add(bytes)
    }
}

impl Address for SharedPtr {
    type Register = u32;

    #[inline(always)]
    fn register(self, bytes: usize) -> u32 {
        self.0 + bytes as u32
    }
}

impl Address for ClusterPtr {
    type Register = u32;

    #[inline(always)]
    fn register(self, bytes: usize) -> u32 {
        self.0 + bytes as u32
    }
}

impl Address for Place {
    type Register = u64;

    #[inline(always)]
    fn register(self, bytes: usize) -> u64 {
        self.0 + bytes as u64
    }
}

// The generic address of global memory is its global address. Loads that see no stores of others are `pure`; those of
// memory that others write are not, so that each happens where it stands.
load!(load_read_only: *const T as reg64, "ld.global.nc", [pure, readonly]);
load!(load_global: *const T as reg64, "ld.global", []);
load!(load_shared_words: SharedPtr as reg32, "ld.shared", []);
load!(load_cluster: ClusterPtr as reg32, "ld.shared::cluster", []);
load!(load_param: Place as reg64, "ld.param", [pure, nomem]);
store!(store_global: *mut T as reg64, "st.global");
store!(store_shared: SharedPtr as reg32, "st.shared");
store!(store_cluster: ClusterPtr as reg32, "st.shared::cluster");

/// Loads a `T`. A number of 64 bits, or two, has registers of 64 bits: of two of 32 bits ptxas makes it again, and so it waits in
/// registers that are not those where an instruction wants it. `mma` of `f64`, whose operands are several in a row, had a copy of
/// each. What is kept in many registers, as are the numbers of global memory, is better left in halves: ptxas then spills less.
///
/// # Safety
///
/// `ptr` is a `T` of shared memory, aligned to `align`, a power of two: 16, or no less than the type's own alignment.
#[inline(always)]
pub unsafe fn load_shared<T: Pod>(ptr: SharedPtr, align: usize) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr();
    let is_wide = align_of::<T>() == 8;
    // SAFETY: the access is of the T that the caller promises at `ptr`, and `value` is as large.
    unsafe {
        if is_wide && size_of::<T>() == 16 && align >= 16 {
            let (a, b): (u64, u64);
            asm!(
                "ld.shared.v2.b64 {{{0}, {1}}}, [{2}];",
                out(reg64) a, out(reg64) b, in(reg32) ptr.register(0), options(nostack, preserves_flags)
            );
            to.cast::<[u64; 2]>().write([a, b]);
        } else if is_wide && size_of::<T>() == 8 {
            let a: u64;
            asm!(
                "ld.shared.b64 {0}, [{1}];",
                out(reg64) a, in(reg32) ptr.register(0), options(nostack, preserves_flags)
            );
            to.cast::<u64>().write(a);
        } else {
            return load_shared_words(ptr, align);
        }
        value.assume_init()
    }
}

/// What comparing slices calls. `core` counts on it from the platform; the others of its kind (`memcpy`, `memset`) the
/// NVPTX backend writes out itself.
///
/// # Safety
///
/// `bytes` bytes can be read at `a` and at `b`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    let mut i = 0;
    while i < bytes {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { (*a.add(i), *b.add(i)) };
        if a != b {
            return i32::from(a) - i32::from(b);
        }
        i += 1;
    }
    0
}

/// What comparing slices for equality may call.
///
/// # Safety
///
/// As [`memcmp`].
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, bytes) }
}
