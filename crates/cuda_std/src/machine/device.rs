// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's functions on an NVIDIA GPU.
//!
//! What threads do together (barriers, shuffles, votes) goes through LLVM's intrinsics, which are convergent: the
//! optimiser neither copies them nor moves them across control flow. Inline `asm!` is never marked so, and serves for
//! the rest: loads, stores, atomics, special registers.

use core::arch::asm;
use core::arch::nvptx;

use super::Shuffle;

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
    #[link_name = "llvm.nvvm.add.rm.f"]
    fn add_rm(a: f32, b: f32) -> f32;
    #[link_name = "llvm.nvvm.fma.rm.f"]
    fn fma_rm(a: f32, b: f32, c: f32) -> f32;
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
    let minus_one = hidden_minus_one();
    let lanes_like = |bit: u32| {
        // One test for the ballot and for what follows: of a bit that it knows LLVM makes two different ones.
        let bit = opaque(value & 1 << bit);
        let mut lanes = ballot(mask, bit != 0);
        // Where the bit is 0, the lanes that have not set it: by a product, since multiplications have a unit that has nothing else to
        // do here. A sort waits for the one that tests and combines bits, and to choose between these lanes and the others takes two
        // instructions of that.
        // SAFETY: registers only.
        unsafe {
            asm!(
                "{{", ".reg .pred %is_set;", "setp.ne.u32 %is_set, {1}, 0;", "@!%is_set mad.lo.u32 {0}, {0}, {2}, {2};", "}}",
                inout(reg32) lanes, in(reg32) bit, in(reg32) minus_one, options(pure, nomem, nostack, preserves_flags)
            );
        }
        lanes
    };
    let mut same = mask;
    let mut bit = 0;
    while bit + 1 < BITS {
        let (lanes, others) = (lanes_like(bit), lanes_like(bit + 1));
        // Two at once, which the compilers do not see.
        // SAFETY: registers only.
        unsafe {
            asm!(
                "lop3.b32 {0}, {0}, {1}, {2}, 0x80;",
                inout(reg32) same, in(reg32) lanes, in(reg32) others, options(pure, nomem, nostack, preserves_flags)
            );
        }
        bit += 2;
    }
    if bit < BITS {
        same &= lanes_like(bit);
    }
    same
}

/// All ones. A product by it the compilers leave, for they do not know the size that it is made of, which is far below 2^31.
#[inline(always)]
fn hidden_minus_one() -> u32 {
    let minus_one;
    // SAFETY: a special register.
    unsafe {
        asm!(
            "mov.u32 {0}, %dynamic_smem_size;", "shr.u32 {0}, {0}, 31;", "sub.u32 {0}, {0}, 1;",
            out(reg32) minus_one, options(pure, nomem, nostack, preserves_flags)
        );
    }
    minus_one
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

/// [`round_to_bytes`](crate::bits::round_to_bytes)
///
/// `(scale x + 1/2) / 256` is rounded down and clamped to 0 ..= 1, where NaN becomes 0; with 2¹⁵ on top of it the last bit stands
/// for 1 / 256, so that the lower bytes have the result, 256 for what was clamped to 1. Rounding down once or twice passes no
/// multiple of 1 / 256, which are all floats. A multiplication of the second bytes by 255 makes 255 of each 256.
#[inline(always)]
pub fn round_to_bytes(values: [f32; 4], scale: f32) -> u32 {
    let [a, b, c, d] = values.map(|value| fixed_point::<8>(scale_saturated::<8>(value, scale)));
    let (low, high) = (byte_perm(a, b, 0x5140), byte_perm(c, d, 0x5140));
    byte_perm(low, high, 0x7632)
        .wrapping_mul(255)
        .wrapping_add(byte_perm(low, high, 0x5410))
}

/// [`round_sums_to_bytes`](crate::bits::round_sums_to_bytes): as multiples of 2⁻⁸, a half added and rounded down, numbers are the bits of
/// floats below the least normal one. As integers they are in order, negative ones far below 0, so that halves of words saturate as bytes
/// are to, in their upper byte.
#[inline(always)]
pub fn round_sums_to_bytes(values: [f32; 4], scale: f32) -> u32 {
    let scale = scale * f32::from_bits(1 << 8);
    let [a, b, c, d] = values.map(|value| {
        // SAFETY: registers only.
        unsafe { fma_rm(value, scale, f32::from_bits(1 << 7)) }.to_bits()
    });
    byte_perm(saturated_halves(a, b), saturated_halves(c, d), 0x7531)
}

/// [`round_sums_to_halves`](crate::bits::round_sums_to_halves): as [`round_sums_to_bytes`], with one bit for a half, which is shifted out.
#[inline(always)]
pub fn round_sums_to_halves(values: [f32; 2], scale: f32) -> u32 {
    let scale = scale * f32::from_bits(2);
    let [low, high] = values.map(|value| {
        // SAFETY: registers only.
        let doubled = unsafe { fma_rm(value, scale, f32::from_bits(1)) }.to_bits() as i32;
        (doubled >> 1) as u32
    });
    saturated_halves(low, high)
}

/// Two signed numbers as the nearest ones of 16 bits without a sign, the first in the lower half.
#[inline(always)]
fn saturated_halves(low: u32, high: u32) -> u32 {
    let halves;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "cvt.pack.sat.u16.s32 {0}, {1}, {2};",
            out(reg32) halves, in(reg32) high, in(reg32) low, options(pure, nomem, nostack, preserves_flags)
        );
    }
    halves
}

/// [`round_to_halves`](crate::bits::round_to_halves), as for bytes; what is clamped to 1 becomes the greatest by a minimum.
#[inline(always)]
pub fn round_to_halves(values: [f32; 2]) -> u32 {
    let greatest = 1.0 - 1.0 / 65536.0;
    let [a, b] = values.map(|value| fixed_point::<16>(scale_saturated::<16>(value, 1.0).min(greatest)));
    byte_perm(a, b, 0x5410)
}

/// `(scale value + 1/2) / 2^BITS`, rounded down and clamped to 0 ..= 1; 0 for NaN.
#[inline(always)]
fn scale_saturated<const BITS: u32>(value: f32, scale: f32) -> f32 {
    let scaled;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "fma.rm.sat.f32 {0}, {1}, {2}, {3};",
            out(reg32) scaled, in(reg32) value, in(reg32) scale * power_of_two(-(BITS as i32)), in(reg32) power_of_two(-1 - BITS as i32),
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    scaled
}

/// The bits of 2^(23 − BITS) + x, of which the last stands for `2^−BITS`, for `x` from 0 to 1, which is rounded down.
#[inline(always)]
fn fixed_point<const BITS: u32>(x: f32) -> u32 {
    // SAFETY: registers only.
    unsafe { add_rm(x, power_of_two(23 - BITS as i32)) }.to_bits()
}

#[inline(always)]
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent) as u32) << 23)
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
