// SPDX-License-Identifier: MIT OR Apache-2.0
//! The warpgroup: four warps, whose number of registers can be changed while they run (`setmaxnreg`).
//!
//! A kernel whose warps have different tasks is compiled for the registers of the greediest. Where the warps that only ask
//! for copies give up some, those that compute can have more than the block's share. A kernel that does so has to
//! say the number of threads of its blocks.
//!
//! GPU: compute 9.0 with its own features (`sm_90a`). Source: PTX ISA, "setmaxnreg". The simulated GPU has as many
//! registers as anybody wants.
//!
//! # Convergence
//!
//! All threads of the warpgroup reach the same call.

use crate::machine;

/// Takes registers, so that each thread has `N`: a multiple of 8 from 24 to 256, and no less than it has. Waits until there
/// are as many, which others have to [give up](decrease_registers).
///
/// ```
/// use cuda_std::prelude::*;
/// use cuda_std::warpgroup;
///
/// #[kernel(max_threads = 384)]
/// pub fn roles(out: SliceMut<'_, u32>) {
///     let t = thread::thread_idx_x();
///     // The first warpgroup copies, the others compute: 128 × 40 + 256 × 232 of 65,536 registers.
///     if warp::uniform(t / 128) == 0 {
///         warpgroup::decrease_registers::<40>();
///     } else {
///         warpgroup::increase_registers::<232>();
///         out.set(t as usize, t);
///     }
/// }
/// # let mut out = [0; 384];
/// # cuda_std::launch::on_simulator(1, 384, &mut out, roles);
/// # assert_eq!((out[127], out[128]), (0, 128));
/// ```
#[inline(always)]
pub fn increase_registers<const N: u32>() {
    const { assert!(N.is_multiple_of(8) && N >= 24 && N <= 256) };
    machine::increase_registers::<N>();
}

/// Gives up registers, so that each thread has `N`: a multiple of 8 from 24 to 256, and no more than it has. The example of
/// [`increase_registers`] does it.
#[inline(always)]
pub fn decrease_registers<const N: u32>() {
    const { assert!(N.is_multiple_of(8) && N >= 24 && N <= 256) };
    machine::decrease_registers::<N>();
}
