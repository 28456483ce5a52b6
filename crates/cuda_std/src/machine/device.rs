// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's functions on an NVIDIA GPU.
//!
//! What threads do together (barriers, shuffles, votes) goes through LLVM's intrinsics, which are convergent: the
//! optimiser neither copies them nor moves them across control flow. Inline `asm!` is never marked so, and serves for
//! the rest: loads, stores, atomics, special registers.

use core::arch::asm;
use core::arch::nvptx;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use bytemuck::Pod;

use super::{ClusterPtr, Shuffle};

/// Accesses that a kernel vouches for are not checked.
pub const CHECKED: bool = false;

/// A position or an extent in up to three dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Along x, the dimension in which neighbouring threads lie.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

#[allow(improper_ctypes)] // i1 as bool, as LLVM declares them
unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    fn barrier_popc(id: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    fn barrier_and(id: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    fn barrier_or(id: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, value: u32, lane_mask: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot_sync(mask: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_all_sync(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any_sync(mask: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.match.any.sync.i64"]
    fn match_any_sync(mask: u32, value: u64) -> u32;
    #[link_name = "llvm.nvvm.activemask"]
    fn activemask() -> u32;
    #[link_name = "llvm.nvvm.prmt"]
    fn prmt(low: u32, high: u32, selector: u32) -> u32;
    #[link_name = "llvm.nvvm.idp4a.u.u"]
    fn idp4a_u_u(a: u32, b: u32, c: u32) -> u32;
    #[link_name = "llvm.nvvm.membar.cta"]
    fn membar_cta();
    #[link_name = "llvm.nvvm.membar.gl"]
    fn membar_gl();
    #[link_name = "llvm.nvvm.membar.sys"]
    fn membar_sys();
}

#[inline(always)]
pub fn thread_idx() -> Dim3 {
    // SAFETY: reads special registers.
    unsafe {
        Dim3 {
            x: nvptx::_thread_idx_x(),
            y: nvptx::_thread_idx_y(),
            z: nvptx::_thread_idx_z(),
        }
    }
}

#[inline(always)]
pub fn block_idx() -> Dim3 {
    // SAFETY: reads special registers.
    unsafe {
        Dim3 {
            x: nvptx::_block_idx_x(),
            y: nvptx::_block_idx_y(),
            z: nvptx::_block_idx_z(),
        }
    }
}

#[inline(always)]
pub fn block_dim() -> Dim3 {
    // SAFETY: reads special registers.
    unsafe {
        Dim3 {
            x: nvptx::_block_dim_x(),
            y: nvptx::_block_dim_y(),
            z: nvptx::_block_dim_z(),
        }
    }
}

#[inline(always)]
pub fn grid_dim() -> Dim3 {
    // SAFETY: reads special registers.
    unsafe {
        Dim3 {
            x: nvptx::_grid_dim_x(),
            y: nvptx::_grid_dim_y(),
            z: nvptx::_grid_dim_z(),
        }
    }
}

#[inline(always)]
pub fn lane_id() -> u32 {
    let lane: u32;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {0}, %laneid;", out(reg32) lane, options(pure, nomem, nostack, preserves_flags)) };
    lane
}

// The barriers, shuffles and votes below can hang a kernel that breaks their section "Convergence"; they harm no
// memory, which is what makes them safe to call.
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: a barrier accesses no memory of its own.
    unsafe { nvptx::_syncthreads() };
}

#[inline(always)]
pub fn sync_threads_count(predicate: bool) -> u32 {
    // SAFETY: a barrier accesses no memory of its own.
    unsafe { barrier_popc(0, predicate) }
}

#[inline(always)]
pub fn sync_threads_and(predicate: bool) -> bool {
    // SAFETY: a barrier accesses no memory of its own.
    unsafe { barrier_and(0, predicate) }
}

#[inline(always)]
pub fn sync_threads_or(predicate: bool) -> bool {
    // SAFETY: a barrier accesses no memory of its own.
    unsafe { barrier_or(0, predicate) }
}

#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    // SAFETY: suspends the thread. Not `nomem`, so that a waiting loop reads memory anew.
    unsafe { asm!("nanosleep.u32 {0};", in(reg32) nanoseconds, options(nostack, preserves_flags)) };
}

#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    let same;
    // SAFETY: copies a register.
    unsafe {
        asm!("mov.b32 {0}, {1};", out(reg32) same, in(reg32) value, options(pure, nomem, nostack, preserves_flags))
    };
    same
}

#[inline(always)]
pub fn pinned(value: u32) -> u32 {
    let same;
    // SAFETY: copies a register. Not `pure`, so that it stays where it is.
    unsafe { asm!("mov.b32 {0}, {1};", out(reg32) same, in(reg32) value, options(nomem, nostack, preserves_flags)) };
    same
}

#[inline(always)]
pub fn fence_block() {
    // SAFETY: a fence.
    unsafe { membar_cta() };
}

#[inline(always)]
pub fn fence_device() {
    // SAFETY: a fence.
    unsafe { membar_gl() };
}

#[inline(always)]
pub fn fence_system() {
    // SAFETY: a fence.
    unsafe { membar_sys() };
}

#[inline(always)]
pub fn active_mask() -> u32 {
    // SAFETY: reads which lanes are active.
    unsafe { activemask() }
}

#[inline(always)]
pub fn sync_warp(mask: u32) {
    // SAFETY: a barrier accesses no memory of its own.
    unsafe { bar_warp_sync(mask) };
}

#[inline(always)]
pub fn elect() -> bool {
    let elected: u32;
    // SAFETY: accesses no memory.
    unsafe {
        asm!(
            "{{",
            ".reg .pred p;",
            "elect.sync _|p, 0xffffffff;",
            "selp.u32 {0}, 1, 0, p;",
            "}}",
            out(reg32) elected, options(nostack, preserves_flags)
        )
    };
    elected != 0
}

#[inline(always)]
pub fn shuffle(mode: Shuffle, mask: u32, value: u32, argument: u32) -> u32 {
    // SAFETY: moves registers between lanes. The last argument: the whole warp is one segment, bounded below by lane
    // 0 (`up`) or above by lane 31.
    unsafe {
        match mode {
            Shuffle::Index => shfl_idx(mask, value, argument, 31),
            Shuffle::Up => shfl_up(mask, value, argument, 0),
            Shuffle::Down => shfl_down(mask, value, argument, 31),
            Shuffle::Xor => shfl_bfly(mask, value, argument, 31),
        }
    }
}

#[inline(always)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    // SAFETY: a vote accesses no memory.
    unsafe { vote_ballot_sync(mask, predicate) }
}

#[inline(always)]
pub fn vote_all(mask: u32, predicate: bool) -> bool {
    // SAFETY: a vote accesses no memory.
    unsafe { vote_all_sync(mask, predicate) }
}

#[inline(always)]
pub fn vote_any(mask: u32, predicate: bool) -> bool {
    // SAFETY: a vote accesses no memory.
    unsafe { vote_any_sync(mask, predicate) }
}

#[inline(always)]
pub fn match_any(mask: u32, value: u64) -> u32 {
    // SAFETY: a vote accesses no memory.
    unsafe { match_any_sync(mask, value) }
}

/// Not by `match.any`, which takes three times as long in a sort's counts of digits.
#[inline(always)]
pub fn match_any_bits<const BITS: u32>(mask: u32, value: u32) -> u32 {
    let mut same = mask;
    for bit in 0..BITS {
        let is_set = value >> bit & 1 != 0;
        let lanes = ballot(mask, is_set);
        same &= if is_set { lanes } else { !lanes };
    }
    same
}

/// Prints `bytes`, text that ends in a zero byte.
pub fn print_line(bytes: &[u8], _len: usize) {
    let arguments = bytes.as_ptr();
    // SAFETY: the format takes one string; the arguments are a structure of one pointer to one.
    unsafe { nvptx::vprintf(c"%s\n".as_ptr().cast(), (&raw const arguments).cast()) };
}

#[inline(always)]
pub fn shared_may_be_uninitialised(_: SharedPtr, _: usize) {}

/// The 32-bit address of a shared variable.
#[derive(Clone, Copy)]
pub struct SharedPtr(pub u32);

// All kernels that use dynamic shared memory have this one variable; the launch says how large it is.
core::arch::global_asm!(".extern .shared .align 128 .b8 cuda_std_dynamic_shared[];");

#[inline(always)]
pub fn dynamic_shared() -> (SharedPtr, usize) {
    let (ptr, bytes): (u32, u32);
    // SAFETY: an address and a special register.
    unsafe {
        asm!(
            "mov.u32 {0}, cuda_std_dynamic_shared;", "mov.u32 {1}, %dynamic_smem_size;",
            out(reg32) ptr, out(reg32) bytes, options(pure, nomem, nostack, preserves_flags)
        );
    }
    (SharedPtr(ptr), bytes as usize)
}

#[inline(always)]
pub fn shared_offset(ptr: SharedPtr, bytes: usize) -> SharedPtr {
    SharedPtr(ptr.0 + bytes as u32)
}

#[inline(always)]
pub fn shared_address(ptr: SharedPtr) -> u32 {
    ptr.0
}

#[inline(always)]
pub fn shared_at(_: SharedPtr, address: u32) -> SharedPtr {
    SharedPtr(address)
}

#[inline(always)]
pub fn shared_padding(ptr: SharedPtr, align: usize) -> usize {
    (ptr.0.wrapping_neg() & (align as u32 - 1)) as usize
}

#[inline(always)]
pub fn shared_is_aligned(ptr: SharedPtr, align: usize) -> bool {
    (ptr.0 as usize).is_multiple_of(align)
}

/// Repeats a block of statements for `$at` from `$from`, in steps of `$step`, up to `$to`. All are constants in the end, and the
/// loop goes.
///
/// Its condition is at its end, where LLVM would bring it: doing so for the loops of every access took more time than all else in
/// large kernels, for LLVM then forgets what it knew of all loops around.
macro_rules! steps {
    ($at:ident from $from:expr, to $to:expr, step $step:literal => $body:block) => {
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
    };
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
        /// `ptr` is a `T` of the memory that the function names, aligned to `align`, a power of two.
        #[inline(always)]
        pub unsafe fn $name<T: Pod>(ptr: $address, align: usize) -> T {
            let mut value = MaybeUninit::<T>::uninit();
            let to = value.as_mut_ptr();
            let [sixteen, eight, four, two] = ends(size_of::<T>(), align);
            // SAFETY: each access lies within the T that the caller promises at `ptr`, and within `value`.
            unsafe {
                steps!(at from 0, to sixteen, step 16 => {
                    let (a, b, c, d): (u32, u32, u32, u32);
                    asm!(
                        concat!($instruction, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<[u32; 4]>().write_unaligned([a, b, c, d]);
                });
                steps!(at from sixteen, to eight, step 8 => {
                    let (a, b): (u32, u32);
                    asm!(
                        concat!($instruction, ".v2.b32 {{{0}, {1}}}, [{2}];"),
                        out(reg32) a, out(reg32) b, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<[u32; 2]>().write_unaligned([a, b]);
                });
                steps!(at from eight, to four, step 4 => {
                    let a: u32;
                    asm!(
                        concat!($instruction, ".b32 {0}, [{1}];"), out(reg32) a, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<u32>().write_unaligned(a);
                });
                steps!(at from four, to two, step 2 => {
                    let a: u16;
                    asm!(
                        concat!($instruction, ".b16 {0}, [{1}];"), out(reg16) a, in($register) ptr.register(at),
                        options($($option,)* nostack, preserves_flags)
                    );
                    to.byte_add(at).cast::<u16>().write_unaligned(a);
                });
                steps!(at from two, to size_of::<T>(), step 1 => {
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
        /// `ptr` is a `T` of the memory that the function names, aligned to `align`, a power of two.
        #[inline(always)]
        pub unsafe fn $name<T: Pod>(ptr: $address, value: T, align: usize) {
            let from: *const T = &value;
            let [sixteen, eight, four, two] = ends(size_of::<T>(), align);
            // SAFETY: each access lies within the T that the caller promises at `ptr`, and within `value`.
            unsafe {
                steps!(at from 0, to sixteen, step 16 => {
                    let [a, b, c, d] = from.byte_add(at).cast::<[u32; 4]>().read_unaligned();
                    asm!(
                        concat!($instruction, ".v4.b32 [{4}], {{{0}, {1}, {2}, {3}}};"),
                        in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d, in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
                steps!(at from sixteen, to eight, step 8 => {
                    let [a, b] = from.byte_add(at).cast::<[u32; 2]>().read_unaligned();
                    asm!(
                        concat!($instruction, ".v2.b32 [{2}], {{{0}, {1}}};"),
                        in(reg32) a, in(reg32) b, in($register) ptr.register(at), options(nostack, preserves_flags)
                    );
                });
                steps!(at from eight, to four, step 4 => {
                    asm!(
                        concat!($instruction, ".b32 [{1}], {0};"),
                        in(reg32) from.byte_add(at).cast::<u32>().read_unaligned(), in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
                steps!(at from four, to two, step 2 => {
                    asm!(
                        concat!($instruction, ".b16 [{1}], {0};"),
                        in(reg16) from.byte_add(at).cast::<u16>().read_unaligned(), in($register) ptr.register(at),
                        options(nostack, preserves_flags)
                    );
                });
                steps!(at from two, to size_of::<T>(), step 1 => {
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
/// `ptr` is a `T` of shared memory, aligned to `align`, a power of two.
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

/// The f32 that the f16 of these bits is.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let value: f32;
    // SAFETY: registers only.
    unsafe {
        asm!("cvt.f32.f16 {0}, {1};", out(reg32) value, in(reg16) bits, options(pure, nomem, nostack, preserves_flags));
    }
    value
}

/// The bits of the f16 nearest to `value`, ties to even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits: u16;
    // SAFETY: registers only.
    unsafe {
        asm!("cvt.rn.f16.f32 {0}, {1};", out(reg16) bits, in(reg32) value, options(pure, nomem, nostack, preserves_flags));
    }
    bits
}

/// [`byte_perm`](crate::bits::byte_perm), with digits below 8.
#[inline(always)]
pub fn byte_perm(low: u32, high: u32, selector: u32) -> u32 {
    // SAFETY: registers only.
    unsafe { prmt(low, high, selector) }
}

#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32) -> u32 {
    // SAFETY: registers only.
    unsafe { idp4a_u_u(a, b, c) }
}

#[inline(always)]
pub fn dp2a_lo(a: u32, b: u32, c: u32) -> u32 {
    let sum;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "dp2a.lo.u32.u32 {0}, {1}, {2}, {3};",
            out(reg32) sum, in(reg32) a, in(reg32) b, in(reg32) c, options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// The two words of the product. LLVM computes in 64 bits what is done to them, and then multiplies 64 bits with 64.
#[inline(always)]
pub fn mul_wide(a: u32, b: u32) -> [u32; 2] {
    let (low, high);
    // SAFETY: registers only.
    unsafe {
        asm!(
            "{{",
            ".reg .b64 product;",
            "mul.wide.u32 product, {2}, {3};",
            "mov.b64 {{{0}, {1}}}, product;",
            "}}",
            out(reg32) low, out(reg32) high, in(reg32) a, in(reg32) b, options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}
