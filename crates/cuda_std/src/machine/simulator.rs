// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's functions on the simulated GPU.
//!
//! Memory that blocks share is accessed by relaxed atomics of the element's size (plain moves on the host's
//! processors), so that kernels which race, as on a GPU, read or keep one of the values and do nothing worse. A loop over
//! such accesses may wait for another thread in vain; so each is a place at which a launch that never ends is given up.
//!
//! What kernels call all the time is to be inlined where they are optimised. Where they are not, as in tests, inlining would
//! compile it as slow as they are: it stays a function of this crate, which is optimised, but for what is so short that rustc
//! inlines it into other crates unasked.

use core::mem::MaybeUninit;
use core::panic::Location;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;
pub use cuda_sim::{Dim3, SharedPtr};
use cuda_sim::{Kind, Lanes, Scope, SharedSite, Space};

use super::Shuffle;
use crate::array;
use crate::panics::with_numbers;

/// Accesses that a kernel vouches for are checked all the same.
pub const CHECKED: bool = true;

#[cfg_attr(not(debug_assertions), inline)]
pub fn thread_idx() -> Dim3 {
    cuda_sim::thread_idx()
}

#[cfg_attr(not(debug_assertions), inline)]
pub fn block_idx() -> Dim3 {
    cuda_sim::block_idx()
}

#[cfg_attr(not(debug_assertions), inline)]
pub fn block_dim() -> Dim3 {
    cuda_sim::block_dim()
}

#[cfg_attr(not(debug_assertions), inline)]
pub fn grid_dim() -> Dim3 {
    cuda_sim::grid_dim()
}

#[cfg_attr(not(debug_assertions), inline)]
pub fn lane_id() -> u32 {
    cuda_sim::lane()
}

#[cold]
#[inline(never)]
#[track_caller]
pub fn panic_with(message: &'static str, a: i64, b: i64, c: i64, count: u32, _: &'static Location<'static>) -> ! {
    panic!("{}", with_numbers(message, &[a, b, c][..count as usize]))
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
    cuda_sim::yield_now("nanosleep");
}

pub fn opaque(value: u32) -> u32 {
    value
}

pub fn pinned(value: u32) -> u32 {
    value
}

#[track_caller]
pub fn fence_block() {
    core::sync::atomic::fence(Ordering::SeqCst);
    cuda_sim::fence(Scope::Block);
}

#[track_caller]
pub fn fence_device() {
    core::sync::atomic::fence(Ordering::SeqCst);
    cuda_sim::fence(Scope::Device);
}

#[track_caller]
pub fn fence_system() {
    fence_device();
}

pub fn active_mask() -> u32 {
    cuda_sim::active_mask()
}

#[track_caller]
pub fn sync_warp(mask: u32) {
    cuda_sim::sync_warp("sync_warp", mask);
}

#[track_caller]
pub fn elect() -> bool {
    cuda_sim::exchange("elect", u32::MAX, ());
    lane_id() == 0
}

#[track_caller]
pub fn shuffle(mode: Shuffle, mask: u32, value: u32, argument: u32) -> u32 {
    shuffle_value(mode, mask, value, argument)
}

/// A value of any size, in one piece.
#[inline(always)]
#[track_caller]
pub fn shuffle_value<T: Pod>(mode: Shuffle, mask: u32, value: T, argument: u32) -> T {
    let mut moved = value;
    shuffle_bytes(
        mode,
        mask,
        bytemuck::bytes_of(&value),
        argument,
        bytemuck::bytes_of_mut(&mut moved),
    );
    moved
}

#[track_caller]
fn shuffle_bytes(mode: Shuffle, mask: u32, value: &[u8], argument: u32, moved: &mut [u8]) {
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
    cuda_sim::exchange_bytes(name, mask, value, source, moved);
}

#[track_caller]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    vote("ballot", mask, predicate)
}

#[track_caller]
pub fn vote_all(mask: u32, predicate: bool) -> bool {
    vote("all", mask, predicate) == mask
}

#[track_caller]
pub fn vote_any(mask: u32, predicate: bool) -> bool {
    vote("any", mask, predicate) != 0
}

/// The lanes of the mask for which it holds.
#[track_caller]
fn vote(name: &'static str, mask: u32, predicate: bool) -> u32 {
    let count = |lanes: &Lanes<bool>| [lanes_with(lanes, true); 32];
    // SAFETY: it compares what was given.
    unsafe { cuda_sim::exchange_with(name, mask, predicate, count) }
}

#[track_caller]
pub fn match_any(mask: u32, value: u64) -> u32 {
    matching("match_any", mask, value)
}

#[inline(always)]
#[track_caller]
pub fn match_any_bits<const BITS: u32>(mask: u32, value: u32) -> u32 {
    match_bits(mask, value & u32::MAX.unbounded_shr(u32::BITS - BITS))
}

/// Compiled here, as the others are, and not where it is called.
#[track_caller]
fn match_bits(mask: u32, bits: u32) -> u32 {
    matching("match_any_bits", mask, bits)
}

/// The lanes of the mask that have the same value.
#[track_caller]
fn matching<T: Copy + PartialEq + 'static>(name: &'static str, mask: u32, value: T) -> u32 {
    let compare =
        |lanes: &Lanes<T>| array::from_fn(|lane| lanes.get(lane as u32).map_or(0, |value| lanes_with(lanes, value)));
    // SAFETY: it compares what was given.
    unsafe { cuda_sim::exchange_with(name, mask, value, compare) }
}

/// The mask of the lanes that gave `value`.
fn lanes_with<T: Copy + PartialEq>(lanes: &Lanes<T>, value: T) -> u32 {
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

#[cfg_attr(not(debug_assertions), inline)]
pub fn shared_offset(ptr: SharedPtr, bytes: usize) -> SharedPtr {
    ptr.byte_add(bytes)
}

/// Where each array begins, since its memory is nowhere in particular.
#[cfg_attr(not(debug_assertions), inline)]
pub fn shared_address(_: SharedPtr) -> u32 {
    0
}

/// What is at an address in the array at `ptr`.
#[cfg_attr(not(debug_assertions), inline)]
pub fn shared_at(ptr: SharedPtr, address: u32) -> SharedPtr {
    shared_offset(ptr, address as usize)
}

/// How many bytes from `ptr` on to the next multiple of `align`, a power of two.
#[cfg_attr(not(debug_assertions), inline)]
pub fn shared_padding(ptr: SharedPtr, align: usize) -> usize {
    ptr.offset().wrapping_neg() & (align - 1)
}

#[cfg_attr(not(debug_assertions), inline)]
pub fn shared_is_aligned(ptr: SharedPtr, align: usize) -> bool {
    ptr.is_aligned_to(align)
}

#[track_caller]
pub fn shared_may_be_uninitialised(ptr: SharedPtr, bytes: usize) {
    cuda_sim::assume_written(Space::Shared, cuda_sim::shared_memory(ptr, bytes).addr(), bytes);
}

/// # Safety
///
/// `ptr` is an aligned `T`; that it is of the block's shared memory is checked.
#[inline(always)]
#[track_caller]
pub unsafe fn load_shared<T: Pod>(ptr: SharedPtr, align: usize) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the caller's promise; the words are all of the value, of which every bit pattern is a `T`.
    unsafe {
        load_shared_words(ptr, value.as_mut_ptr().cast(), Words::of::<T>(align));
        value.assume_init()
    }
}

/// # Safety
///
/// As [`load_shared`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_shared<T: Pod>(ptr: SharedPtr, value: T, align: usize) {
    // SAFETY: the caller's promise, and the words are all of the value.
    unsafe { store_shared_words(ptr, (&raw const value).cast(), Words::of::<T>(align)) };
}

/// # Safety
///
/// At `ptr` and `to` there are words of that kind, aligned; that those at `ptr` are of the block's memory is checked.
#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
unsafe fn load_shared_words(ptr: SharedPtr, to: *mut u8, words: Words) {
    let from = cuda_sim::access_shared(ptr, words.bytes, words.align, Kind::Read);
    // SAFETY: aligned, as the caller promises, and in the memory of the block, whose threads are all on this OS thread.
    unsafe { words.load(from, to) };
}

/// # Safety
///
/// As [`load_shared_words`], the other way.
#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
unsafe fn store_shared_words(ptr: SharedPtr, from: *const u8, words: Words) {
    let to = cuda_sim::access_shared(ptr, words.bytes, words.align, Kind::Write);
    // SAFETY: as in `load_shared_words`.
    unsafe { words.store(to, from) };
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
#[inline(always)]
#[track_caller]
pub unsafe fn load_read_only<T: Pod>(ptr: *const T, align: usize) -> T {
    cuda_sim::load(ptr.addr(), size_of::<T>(), align);
    // SAFETY: the caller's promise.
    unsafe { ptr.read() }
}

/// What `#[kernel]` makes of `x[i]`, where `x: &[T]` is a parameter: a read of that place, if it is an element of the
/// device's memory.
#[inline(always)]
#[track_caller]
pub fn element<T: ?Sized>(place: &T) -> &T {
    // A slice of the slice, whose reference has a length, is not read by that.
    if size_of::<&T>() == size_of::<usize>() {
        note_element((&raw const *place).addr(), size_of_val(place), align_of_val(place));
    }
    place
}

#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
fn note_element(address: usize, bytes: usize, align: usize) {
    cuda_sim::load_element(address, bytes, align);
}

/// # Safety
///
/// `ptr` is a `T`, aligned, which other threads access only through the functions of this module.
#[inline(always)]
#[track_caller]
pub unsafe fn load_global<T: Pod>(ptr: *const T, align: usize) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the caller's promise; the words are all of the value, of which every bit pattern is a `T`.
    unsafe {
        load_global_words(ptr.cast(), value.as_mut_ptr().cast(), Words::of::<T>(align));
        value.assume_init()
    }
}

/// # Safety
///
/// As [`load_global`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_global<T: Pod>(ptr: *mut T, value: T, align: usize) {
    // SAFETY: the caller's promise, and the words are all of the value.
    unsafe { store_global_words(ptr.cast(), (&raw const value).cast(), Words::of::<T>(align)) };
}

/// # Safety
///
/// As [`Words::load`].
#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
unsafe fn load_global_words(from: *const u8, to: *mut u8, words: Words) {
    cuda_sim::access(Space::Global, from.addr(), words.bytes, words.align, Kind::Read);
    // SAFETY: the caller's promise.
    unsafe { words.load(from, to) };
}

/// # Safety
///
/// As [`Words::store`].
#[cfg_attr(not(debug_assertions), inline(always))]
#[track_caller]
unsafe fn store_global_words(to: *mut u8, from: *const u8, words: Words) {
    cuda_sim::access(Space::Global, to.addr(), words.bytes, words.align, Kind::Write);
    // SAFETY: the caller's promise.
    unsafe { words.store(to, from) };
}

/// The unit in which a value is moved: the largest that its alignment allows.
#[derive(Clone, Copy)]
enum Word {
    One,
    Two,
    Four,
    Eight,
}

/// A value as it is moved. What moves it knows the type by this alone, and not as a parameter: so it is compiled with this
/// crate, which tests optimise, and not with each kernel, which they do not. Where all is optimised it is inlined, and the
/// words are constants.
#[derive(Clone, Copy)]
struct Words {
    word: Word,
    bytes: usize,
    /// The most that one instruction of a GPU would move; 0 where none of the thread's does.
    align: usize,
}

impl Words {
    /// Those of a `T`, of that alignment.
    #[inline(always)]
    const fn of<T>(align: usize) -> Words {
        Words {
            word: const {
                match align_of::<T>() {
                    1 => Word::One,
                    2 => Word::Two,
                    4 => Word::Four,
                    _ => Word::Eight,
                }
            },
            bytes: size_of::<T>(),
            align,
        }
    }

    /// Calls `access` for each word, with its offset in bytes.
    #[inline(always)]
    fn each(self, access: impl Fn(usize)) {
        let step = match self.word {
            Word::One => 1,
            Word::Two => 2,
            Word::Four => 4,
            Word::Eight => 8,
        };
        let mut offset = 0;
        while offset < self.bytes {
            access(offset);
            offset += step;
        }
    }

    /// # Safety
    ///
    /// At `from` there are these words, aligned, of memory accessed by atomics, and at `to` of this thread's own.
    #[inline(always)]
    unsafe fn load(self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise; `each` keeps within the words.
        self.each(|offset| unsafe { self.word.load(from.byte_add(offset).cast_mut(), to.byte_add(offset)) });
    }

    /// # Safety
    ///
    /// As [`Words::load`], the other way.
    #[inline(always)]
    unsafe fn store(self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller's promise; `each` keeps within the words.
        self.each(|offset| unsafe { self.word.store(to.byte_add(offset), from.byte_add(offset)) });
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
#[cfg_attr(not(debug_assertions), inline)]
pub fn f16_to_f32(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

/// The bits of the f16 nearest to `value`, ties to even.
#[cfg_attr(not(debug_assertions), inline)]
pub fn f32_to_f16(value: f32) -> u16 {
    half::f16::from_f32(value).to_bits()
}

/// [`byte_perm`](crate::bits::byte_perm), with digits below 8.
#[cfg_attr(not(debug_assertions), inline)]
pub fn byte_perm(low: u32, high: u32, selector: u32) -> u32 {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    u32::from_le_bytes(array::from_fn(|k| bytes[selector as usize >> (4 * k) & 7]))
}

/// [`dp4a`](crate::bits::dp4a)
#[cfg_attr(not(debug_assertions), inline)]
pub fn dp4a(a: u32, b: u32, c: u32) -> u32 {
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
}

/// [`dp2a_lo`](crate::bits::dp2a_lo)
#[cfg_attr(not(debug_assertions), inline)]
pub fn dp2a_lo(a: u32, b: u32, c: u32) -> u32 {
    let products = [a & 0xffff, a >> 16].into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| sum.wrapping_add(a * u32::from(b)))
}

/// [`round_to_bytes`](crate::bits::round_to_bytes)
#[cfg_attr(not(debug_assertions), inline)]
pub fn round_to_bytes(values: [f32; 4], scale: f32) -> u32 {
    u32::from_le_bytes(values.map(|value| half_up(value * scale) as u8))
}

/// [`round_sums_to_bytes`](crate::bits::round_sums_to_bytes)
#[cfg_attr(not(debug_assertions), inline)]
pub fn round_sums_to_bytes(values: [f32; 4], scale: f32) -> u32 {
    debug_assert!(scale >= 1.0 / 256.0 && !values.iter().any(|value| value.is_nan()));
    round_to_bytes(values, scale)
}

/// [`round_to_halves`](crate::bits::round_to_halves)
#[cfg_attr(not(debug_assertions), inline)]
pub fn round_to_halves(values: [f32; 2]) -> u32 {
    let [low, high] = values.map(|value| u32::from(half_up(value) as u16));
    low | high << 16
}

/// [`round_sums_to_halves`](crate::bits::round_sums_to_halves)
#[cfg_attr(not(debug_assertions), inline)]
pub fn round_sums_to_halves(values: [f32; 2], scale: f32) -> u32 {
    debug_assert!(scale >= 0.5 && !values.iter().any(|value| value.is_nan()));
    round_to_halves(values.map(|value| value * scale))
}

/// The integer nearest to `value`, of halves the greater; the difference is exact.
#[inline]
fn half_up(value: f32) -> f32 {
    let below = value.floor();
    if value - below >= 0.5 { below + 1.0 } else { below }
}

/// [`mul_wide`](crate::bits::mul_wide)
#[cfg_attr(not(debug_assertions), inline)]
pub fn mul_wide(a: u32, b: u32) -> [u32; 2] {
    let product = u64::from(a) * u64::from(b);
    [product as u32, (product >> 32) as u32]
}
