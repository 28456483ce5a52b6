// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine below the device library: one file for the GPU, one for the simulated GPU, with the same items. All
//! that the hardware does and Rust cannot say is here, and nothing above names a machine.
#![allow(missing_docs)] // not for direct use; see above

use bytemuck::Pod;

use crate::tma::Swizzle;

mod space;
pub use space::*;

#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(target_arch = "nvptx64")]
mod device_async;
#[cfg(target_arch = "nvptx64")]
mod device_atomic;
#[cfg(target_arch = "nvptx64")]
mod device_cluster;
#[cfg(target_arch = "nvptx64")]
mod device_grid;
#[cfg(target_arch = "nvptx64")]
mod device_matrix;
#[cfg(target_arch = "nvptx64")]
mod device_memory;
#[cfg(target_arch = "nvptx64")]
mod device_mma;
#[cfg(target_arch = "nvptx64")]
mod device_panic;
#[cfg(target_arch = "nvptx64")]
mod device_wgmma;
#[cfg(target_arch = "nvptx64")]
pub use device::*;
#[cfg(target_arch = "nvptx64")]
pub use device_async::*;
#[cfg(target_arch = "nvptx64")]
pub use device_atomic::*;
#[cfg(target_arch = "nvptx64")]
pub use device_cluster::*;
#[cfg(target_arch = "nvptx64")]
pub use device_grid::*;
#[cfg(target_arch = "nvptx64")]
pub use device_matrix::*;
#[cfg(target_arch = "nvptx64")]
pub use device_memory::*;
#[cfg(target_arch = "nvptx64")]
pub use device_mma::*;
#[cfg(target_arch = "nvptx64")]
pub use device_panic::panic_with;
#[cfg(target_arch = "nvptx64")]
pub use device_wgmma::*;

#[cfg(not(target_arch = "nvptx64"))]
mod simulator;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_atomic;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_cluster;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_matrix;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_mbarrier;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_mma;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_tma;
#[cfg(not(target_arch = "nvptx64"))]
mod simulator_wgmma;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_atomic::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_cluster::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_matrix::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_mbarrier::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_mma::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_tma::*;
#[cfg(not(target_arch = "nvptx64"))]
pub use simulator_wgmma::*;

/// The alignment that an access to `[T; N]` wants, so that it takes the fewest instructions: that which every multiple
/// of `N` has in an array whose first element has it, of at most 16 bytes.
pub(crate) const fn vec_align<T, const N: usize>() -> usize {
    let bytes = size_of::<[T; N]>();
    if bytes.is_multiple_of(16) {
        16
    } else {
        1 << bytes.trailing_zeros()
    }
}

/// An access to several elements that is out of bounds, as the simulated GPU says it. Not for the GPU, where accesses of vectors would
/// take registers for it.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn out_of_bounds(what: &str, first: usize, count: usize, len: usize) -> ! {
    match count {
        1 => panic!("index out of bounds of {what}: the len is {len} but the index is {first}"),
        _ => panic!("{count} elements from index {first} on are out of bounds of {what}, whose len is {len}"),
    }
}

/// Panics unless element `$index` of `$len` is in bounds, with a message that names both; or the `$count` elements from there on,
/// with numbers on the simulated GPU.
macro_rules! check_bounds {
    ($what:literal, $index:expr, $len:expr) => {
        if $index >= $len {
            let message = concat!(
                "index out of bounds of ",
                $what,
                ": the len is {u} but the index is {iu}"
            );
            $crate::panics::panic_with(message, [$len as i64, $index as i64]);
        }
    };
    ($what:literal, $index:expr, $count:expr, $len:expr) => {
        if !$crate::machine::CHECKED {
            assert!(
                $index <= $len && $count <= $len - $index,
                concat!("vector access out of bounds of ", $what)
            );
        } else if $index > $len || $count > $len - $index {
            $crate::machine::out_of_bounds($what, $index, $count, $len);
        }
    };
}

pub(crate) use check_bounds;

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// The lane of that number.
    Index,
    /// So many lanes below.
    Up,
    /// So many lanes above.
    Down,
    /// The lane whose number differs in these bits.
    Xor,
}

/// Moves a value of any size in 32-bit words, as the hardware does.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
#[track_caller]
pub fn shuffle_value<T: Pod>(mode: Shuffle, mask: u32, mut value: T, argument: u32) -> T {
    let bytes = bytemuck::bytes_of_mut(&mut value);
    let mut start = 0;
    while start < bytes.len() {
        let end = if start + 4 < bytes.len() {
            start + 4
        } else {
            bytes.len()
        };
        let mut word = [0; 4];
        word[..end - start].copy_from_slice(&bytes[start..end]);
        let moved = shuffle(mode, mask, u32::from_ne_bytes(word), argument);
        bytes[start..end].copy_from_slice(&moved.to_ne_bytes()[..end - start]);
        start = end;
    }
    value
}

/// How a matrix lies in shared memory, to the instructions that take it.
pub trait Major {
    /// 1 if neighbours along M or N are neighbours in memory, 0 if those along K are.
    #[doc(hidden)]
    const TRANSPOSED: i32;
    #[doc(hidden)]
    const SWIZZLE: Swizzle;
}

/// Registers that instructions write to beside the thread.
pub trait InRegisters<S> {
    /// Elements of no particular value, which no instruction sets.
    #[doc(hidden)]
    fn any() -> Self;
    /// Replaces each element by a function of its number and itself, in code that is written out.
    #[doc(hidden)]
    fn update(&mut self, f: impl Fn(usize, S) -> S);
    #[doc(hidden)]
    fn fence(&mut self);
    #[doc(hidden)]
    #[track_caller]
    fn wait(&mut self);
    #[doc(hidden)]
    #[track_caller]
    fn wait_but_newest(&mut self);
}

/// The registers of one thread: 16, 24, 32, 48, 56, 64, 80, 84, 88, 96, 104 or 128 f32, for matrices 32, 48, 64, 96, 112, 128, 160, 168, 176, 192, 208 or 256 wide.
#[diagnostic::on_unimplemented(
    message = "there is no accumulator `{Self}`",
    note = "an accumulator has 16, 24, 32, 48, 56, 64, 80, 84, 88, 96, 104 or 128 elements a thread"
)]
#[allow(clippy::missing_safety_doc)] // as for `Batch::mma`
pub trait Registers: InRegisters<f32> {
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_bf16<A: Major, B: Major, const ADD: i32>(&mut self, a: MatrixDescriptor, b: MatrixDescriptor);
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_f16<A: Major, B: Major, const ADD: i32>(&mut self, a: MatrixDescriptor, b: MatrixDescriptor);
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_tf32<A: Major, B: Major, const ADD: i32>(&mut self, a: MatrixDescriptor, b: MatrixDescriptor);
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_tf32_fragment<const ADD: i32>(&mut self, a: [u32; 4], b: MatrixDescriptor);
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_bf16_fragment<B: Major, const ADD: i32>(&mut self, a: [u32; 4], b: MatrixDescriptor);
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_f16_fragment<B: Major, const ADD: i32>(&mut self, a: [u32; 4], b: MatrixDescriptor);
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_e4m3_e4m3<A: Major, B: Major, const ADD: i32>(
        &mut self,
        a: MatrixDescriptor,
        b: MatrixDescriptor,
    );
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_e4m3_e5m2<A: Major, B: Major, const ADD: i32>(
        &mut self,
        a: MatrixDescriptor,
        b: MatrixDescriptor,
    );
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_e5m2_e4m3<A: Major, B: Major, const ADD: i32>(
        &mut self,
        a: MatrixDescriptor,
        b: MatrixDescriptor,
    );
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_e5m2_e5m2<A: Major, B: Major, const ADD: i32>(
        &mut self,
        a: MatrixDescriptor,
        b: MatrixDescriptor,
    );
}

/// As [`Registers`], of i32.
#[diagnostic::on_unimplemented(
    message = "there is no accumulator `{Self}`",
    note = "an accumulator has 16, 24, 32, 48, 56, 64, 80, 84, 88, 96, 104 or 128 elements a thread"
)]
#[allow(clippy::missing_safety_doc)] // as for `Batch::mma`
pub trait IntegerRegisters: InRegisters<i32> {
    #[track_caller]
    #[doc(hidden)]
    unsafe fn multiply_s8<A: Major, B: Major, const ADD: i32>(&mut self, a: MatrixDescriptor, b: MatrixDescriptor);
}

/// A type with atomic operations. Each function's contract: `ptr` is an aligned element of the memory `M` that lives,
/// and other threads access it only atomically while this one does.
#[allow(clippy::missing_safety_doc)] // the contract above is that of every function
pub trait AtomicValue: Pod {
    unsafe fn add<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn min<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn max<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn exchange<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn compare_exchange<M: Space, S: Scope>(ptr: *mut Self, current: Self, new: Self) -> Self;
    unsafe fn load<M: Space, S: Scope>(ptr: *mut Self) -> Self;
    unsafe fn store<M: Space, S: Scope>(ptr: *mut Self, value: Self);
    unsafe fn load_acquire<M: Space, S: Scope>(ptr: *mut Self) -> Self;
    unsafe fn store_release<M: Space, S: Scope>(ptr: *mut Self, value: Self);
}

/// An integer with atomic operations; the contract is that of [`AtomicValue`].
#[allow(clippy::missing_safety_doc)] // as said above
pub trait AtomicInteger: AtomicValue {
    unsafe fn add_ordered<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn and<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn or<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
    unsafe fn xor<M: Space, S: Scope>(ptr: *mut Self, value: Self) -> Self;
}

/// `fetch_min` and `fetch_max` of a float, which no instruction does: `better` says whether the new value replaces the
/// old one, `same_bits` whether two values are the same to compare-and-swap.
///
/// # Safety
///
/// As for [`AtomicValue`].
#[inline(always)]
unsafe fn replace_if<T: AtomicValue, M: Space, S: Scope>(
    ptr: *mut T,
    value: T,
    better: impl Fn(T, T) -> bool,
    same_bits: impl Fn(T, T) -> bool,
) -> T {
    // SAFETY: the caller's promise.
    let mut old = unsafe { T::load::<M, S>(ptr) };
    while better(value, old) {
        // SAFETY: the caller's promise.
        let seen = unsafe { T::compare_exchange::<M, S>(ptr, old, value) };
        if same_bits(seen, old) {
            break;
        }
        old = seen;
    }
    old
}
