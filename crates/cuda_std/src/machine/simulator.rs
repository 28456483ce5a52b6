// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's functions on the simulated GPU.
//!
//! Memory that blocks share is accessed by relaxed atomics of the element's size (plain moves on the host's
//! processors), so that kernels which race, as on a GPU, read or keep one of the values and do nothing worse. A loop over
//! such accesses may wait for another thread in vain; so each is a place at which a launch that never ends is given up.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;
use cuda_sim::SharedSite;
pub use cuda_sim::{Dim3, SharedPtr};

use super::Shuffle;

/// Accesses that a kernel vouches for are checked all the same.
pub const CHECKED: bool = true;

#[inline]
pub fn thread_idx() -> Dim3 {
    cuda_sim::thread_idx()
}

#[inline]
pub fn block_idx() -> Dim3 {
    cuda_sim::block_idx()
}

#[inline]
pub fn block_dim() -> Dim3 {
    cuda_sim::block_dim()
}

#[inline]
pub fn grid_dim() -> Dim3 {
    cuda_sim::grid_dim()
}

#[inline]
pub fn lane_id() -> u32 {
    cuda_sim::lane()
}

#[track_caller]
pub fn sync_threads() {
    cuda_sim::barrier("sync_threads", 0);
}

#[track_caller]
pub fn sync_threads_count(predicate: bool) -> u32 {
    cuda_sim::barrier("sync_threads_count", predicate.into()).nonzero
}

#[track_caller]
pub fn sync_threads_and(predicate: bool) -> bool {
    let result = cuda_sim::barrier("sync_threads_and", predicate.into());
    result.nonzero == result.threads
}

#[track_caller]
pub fn sync_threads_or(predicate: bool) -> bool {
    cuda_sim::barrier("sync_threads_or", predicate.into()).nonzero > 0
}

/// # Safety
///
/// None: the engine has a barrier, and the word is not used.
#[track_caller]
pub unsafe fn sync_grid(_: *mut u32) {
    cuda_sim::grid_barrier("GridBarrier::sync");
}

#[track_caller]
pub fn nanosleep(_nanoseconds: u32) {
    cuda_sim::poll("nanosleep");
    cuda_sim::yield_now();
}

pub fn opaque(value: u32) -> u32 {
    value
}

pub fn pinned(value: u32) -> u32 {
    value
}

pub fn fence_block() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

pub fn fence_device() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

pub fn fence_system() {
    core::sync::atomic::fence(Ordering::SeqCst);
}

pub fn active_mask() -> u32 {
    cuda_sim::active_mask()
}

#[track_caller]
pub fn sync_warp(mask: u32) {
    cuda_sim::exchange("sync_warp", mask, 0);
}

#[track_caller]
pub fn shuffle(mode: Shuffle, mask: u32, value: u32, argument: u32) -> u32 {
    let lane = cuda_sim::lane();
    let (name, source) = match mode {
        Shuffle::Index => ("shuffle", argument % 32),
        Shuffle::Up => ("shuffle_up", lane.checked_sub(argument).unwrap_or(lane)),
        Shuffle::Down => (
            "shuffle_down",
            lane.checked_add(argument).filter(|&l| l < 32).unwrap_or(lane),
        ),
        Shuffle::Xor => ("shuffle_xor", Some(lane ^ argument).filter(|&l| l < 32).unwrap_or(lane)),
    };
    let lanes = cuda_sim::exchange(name, mask, value.into());
    match lanes.get(source) {
        Some(value) => value as u32,
        None => panic!("`{name}` of lane {lane} reads lane {source}, which is not in its mask {mask:#010x}"),
    }
}

#[track_caller]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    lanes_with(cuda_sim::exchange("ballot", mask, predicate.into()), 1)
}

#[track_caller]
pub fn vote_all(mask: u32, predicate: bool) -> bool {
    lanes_with(cuda_sim::exchange("all", mask, predicate.into()), 1) == mask
}

#[track_caller]
pub fn vote_any(mask: u32, predicate: bool) -> bool {
    lanes_with(cuda_sim::exchange("any", mask, predicate.into()), 1) != 0
}

#[track_caller]
pub fn match_any(mask: u32, value: u64) -> u32 {
    lanes_with(cuda_sim::exchange("match_any", mask, value), value)
}

/// The mask of the lanes that deposited `value`.
fn lanes_with(lanes: cuda_sim::Lanes, value: u64) -> u32 {
    (0..32)
        .filter(|&lane| lanes.get(lane) == Some(value))
        .fold(0, |mask, lane| mask | 1 << lane)
}

/// Prints the first `len` bytes, which are text, as a line.
pub fn print_line(bytes: &[u8], len: usize) {
    cuda_sim::print(&format!("{}\n", String::from_utf8_lossy(&bytes[..len])));
}

#[track_caller]
pub fn static_shared(site: &'static SharedSite) -> SharedPtr {
    cuda_sim::static_shared(site)
}

#[track_caller]
pub fn dynamic_shared() -> (SharedPtr, usize) {
    cuda_sim::dynamic_shared()
}

#[inline]
pub fn shared_offset(ptr: SharedPtr, bytes: usize) -> SharedPtr {
    ptr.byte_add(bytes)
}

/// Where each array begins, since its memory is nowhere in particular.
#[inline]
pub fn shared_address(_: SharedPtr) -> u32 {
    0
}

/// What is at an address in the array at `ptr`.
#[inline]
pub fn shared_at(ptr: SharedPtr, address: u32) -> SharedPtr {
    shared_offset(ptr, address as usize)
}

/// How many bytes from `ptr` on to the next multiple of `align`, a power of two.
#[inline]
pub fn shared_padding(ptr: SharedPtr, align: usize) -> usize {
    ptr.offset().wrapping_neg() & (align - 1)
}

#[inline]
pub fn shared_is_aligned(ptr: SharedPtr, align: usize) -> bool {
    ptr.is_aligned_to(align)
}

/// # Safety
///
/// `ptr` is an aligned `T`; that it is of the block's shared memory is checked.
#[inline]
#[track_caller]
pub unsafe fn load_shared<T: Pod>(ptr: SharedPtr, _align: usize) -> T {
    let ptr = cuda_sim::shared_memory(ptr, size_of::<T>());
    // SAFETY: aligned, as the caller promises, and in the memory of the block, whose threads are all on this OS thread.
    unsafe { load_words(ptr.cast()) }
}

/// # Safety
///
/// As [`load_shared`].
#[inline]
#[track_caller]
pub unsafe fn store_shared<T: Pod>(ptr: SharedPtr, value: T, _align: usize) {
    let ptr = cuda_sim::shared_memory(ptr, size_of::<T>());
    // SAFETY: as in `load_shared`.
    unsafe { store_words(ptr.cast(), value) }
}

/// Where a GPU has the entry's parameters; here a kernel reads them where the launch has them.
#[derive(Clone, Copy, Debug)]
pub struct Place;

/// An array among the parameters.
#[derive(Debug)]
pub struct ConstantArray<'a, T, const N: usize>(&'a [T; N]);

impl<T, const N: usize> Clone for ConstantArray<'_, T, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for ConstantArray<'_, T, N> {}

impl<'a, T: Pod, const N: usize> ConstantArray<'a, T, N> {
    pub fn new(array: &'a [T; N], _: Place) -> Self {
        Self(array)
    }

    /// # Safety
    ///
    /// `index` is less than `N`.
    #[inline]
    pub unsafe fn get(self, index: usize) -> T {
        self.0[index]
    }
}

/// # Safety
///
/// `ptr` is a `T`, aligned, which nothing writes during the kernel.
#[inline]
pub unsafe fn load_read_only<T: Pod>(ptr: *const T, _align: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { ptr.read() }
}

/// # Safety
///
/// `ptr` is a `T`, aligned, which other threads access only through the functions of this module.
#[inline]
#[track_caller]
pub unsafe fn load_global<T: Pod>(ptr: *const T, _align: usize) -> T {
    cuda_sim::poll("get");
    // SAFETY: the caller's promise.
    unsafe { load_words(ptr) }
}

/// # Safety
///
/// As [`load_global`].
#[inline]
#[track_caller]
pub unsafe fn store_global<T: Pod>(ptr: *mut T, value: T, _align: usize) {
    cuda_sim::poll("set");
    // SAFETY: the caller's promise.
    unsafe { store_words(ptr, value) };
}

/// # Safety
///
/// As [`load_global`].
#[inline]
unsafe fn load_words<T: Pod>(ptr: *const T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr();
    // SAFETY: the caller's promise for `ptr`; `to` is a local of the same size; `words` keeps within it, and has written
    // all of it, of which every bit pattern is a `T`.
    unsafe {
        words::<T>(|word, offset| word.load(ptr.byte_add(offset).cast_mut().cast(), to.byte_add(offset).cast()));
        value.assume_init()
    }
}

/// # Safety
///
/// As [`load_global`].
#[inline]
unsafe fn store_words<T: Pod>(ptr: *mut T, value: T) {
    let from: *const T = &value;
    // SAFETY: the caller's promise for `ptr`; `from` is a local of the same size; `words` keeps within it.
    unsafe { words::<T>(|word, offset| word.store(ptr.byte_add(offset).cast(), from.byte_add(offset).cast())) };
}

/// The unit in which a value is moved: the largest that its alignment allows.
#[derive(Clone, Copy)]
enum Word {
    One,
    Two,
    Four,
    Eight,
}

/// Calls `access` for each word of a `T`, with the word's offset in bytes. A bare loop, since all that kernels do goes
/// through it and tests do not optimise it.
#[inline(always)]
fn words<T>(access: impl Fn(Word, usize)) {
    let (word, bytes) = const {
        match align_of::<T>() {
            1 => (Word::One, 1),
            2 => (Word::Two, 2),
            4 => (Word::Four, 4),
            _ => (Word::Eight, 8),
        }
    };
    let mut offset = 0;
    while offset < size_of::<T>() {
        access(word, offset);
        offset += bytes;
    }
}

impl Word {
    /// # Safety
    ///
    /// `from` is an aligned word of memory accessed by atomics, `to` an aligned word of this thread's own.
    #[inline(always)]
    unsafe fn load(self, from: *mut u8, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Word::One => to.write(AtomicU8::from_ptr(from).load(Ordering::Relaxed)),
                Word::Two => to
                    .cast::<u16>()
                    .write(AtomicU16::from_ptr(from.cast()).load(Ordering::Relaxed)),
                Word::Four => to
                    .cast::<u32>()
                    .write(AtomicU32::from_ptr(from.cast()).load(Ordering::Relaxed)),
                Word::Eight => to
                    .cast::<u64>()
                    .write(AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed)),
            }
        }
    }

    /// # Safety
    ///
    /// As [`Word::load`], the other way.
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Word::One => AtomicU8::from_ptr(to).store(from.read(), Ordering::Relaxed),
                Word::Two => AtomicU16::from_ptr(to.cast()).store(from.cast::<u16>().read(), Ordering::Relaxed),
                Word::Four => AtomicU32::from_ptr(to.cast()).store(from.cast::<u32>().read(), Ordering::Relaxed),
                Word::Eight => AtomicU64::from_ptr(to.cast()).store(from.cast::<u64>().read(), Ordering::Relaxed),
            }
        }
    }
}

/// The f32 that the f16 of these bits is.
#[inline]
pub fn f16_to_f32(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

/// The bits of the f16 nearest to `value`, ties to even.
#[inline]
pub fn f32_to_f16(value: f32) -> u16 {
    half::f16::from_f32(value).to_bits()
}

/// [`byte_perm`](crate::bits::byte_perm), with digits below 8.
#[inline]
pub fn byte_perm(low: u32, high: u32, selector: u32) -> u32 {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    u32::from_le_bytes(core::array::from_fn(|k| bytes[selector as usize >> (4 * k) & 7]))
}

/// [`dp4a`](crate::bits::dp4a)
#[inline]
pub fn dp4a(a: u32, b: u32, c: u32) -> u32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
}

/// [`dp2a_lo`](crate::bits::dp2a_lo)
#[inline]
pub fn dp2a_lo(a: u32, b: u32, c: u32) -> u32 {
    let products = [a & 0xffff, a >> 16].into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add(a * u32::from(b)))
}

/// [`mul_wide`](crate::bits::mul_wide)
#[inline]
pub fn mul_wide(a: u32, b: u32) -> [u32; 2] {
    let product = u64::from(a) * u64::from(b);
    [product as u32, (product >> 32) as u32]
}
