// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device standard library: what a CUDA kernel written in Rust calls.
//!
//! One source, two machines. Compiled for `nvptx64-nvidia-cuda`, the functions of this crate become the GPU's own
//! instructions; compiled for any other target, the same functions run on the simulated GPU of `cuda_sim`, where
//! mistakes that a GPU leaves undefined (a barrier that not every thread reaches, a shuffle from an absent lane, an
//! access out of bounds) are errors with a file and a line. Kernels contain neither `asm!` nor `cfg`.
//!
//! | CUDA C++ | here |
//! |---|---|
//! | `__global__` | [`#[kernel]`](kernel) |
//! | `__device__` functions for expressions on the host | [`#[device_fn]`](device_fn) |
//! | `threadIdx`, `blockIdx`, `blockDim`, `gridDim` | [`thread::thread_idx`], [`thread::block_idx`], … |
//! | `blockIdx.x * blockDim.x + threadIdx.x`, of rows and columns too | [`thread::index_1d`], [`thread::index_2d`] |
//! | `__syncthreads`, `__syncthreads_count` | [`thread::sync_threads`], [`thread::sync_threads_count`] |
//! | `cooperative_groups::grid_group`, `cudaLaunchCooperativeKernel` | [`GridBarrier`] |
//! | `__cluster_dims__`, `cooperative_groups::cluster_group` | [`#[kernel(cluster = …)]`](kernel), [`cluster`] |
//! | `__shfl_down_sync`, `__ballot_sync`, … | [`warp`] |
//! | `__shared__ float tile[256]` | [`shared_array!`] |
//! | `extern __shared__` | [`shared::dynamic`] |
//! | `atomicAdd`, `atomicCAS`, `_block`, `_system` | [`Atomic`](atomic::Atomic) |
//! | `__threadfence` | [`fence`] |
//! | `mdspan`, an array of several axes | [`ArrayView`], [`ArrayViewMut`] |
//! | `__ldg`, `float4` loads | [`SliceExt`](global::SliceExt) |
//! | `float *out` | [`SliceMut`] |
//! | `const float *x` that `out` may be | [`Slice`] |
//! | `__half`, `__nv_bfloat16` | [`half`] |
//! | `__byte_perm`, `__dp4a` | [`bits`] |
//! | `expf`, `rsqrtf`, … | [`Float`] |
//! | `__barrier_sync_count` | [`thread::sync_threads_named`] |
//! | `cuda::barrier`, `mbarrier` | [`mbarrier`] |
//! | `CUtensorMap`, `cp_async_bulk_tensor` | [`tma`] |
//! | `wgmma`, `setmaxnreg` | [`wgmma`], [`warpgroup`] |
//! | `mma.sync` | [`mma`] |
//! | `ldmatrix`, `stmatrix` | [`matrix`] |
//! | `__pipeline_memcpy_async`, `cp.async` | [`async_copy`] |
//! | cuRAND's `curand_init`, `curand4`, `curand_normal` | [`random`] |
//! | `printf`, `assert` | [`println!`](crate::println), `assert!` and `panic!` of Rust itself, [`panic_with`] numbers |
//!
//! # Examples
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// `out[i] = a * x[i] + y[i]`
//! #[kernel]
//! pub fn saxpy(a: f32, x: &[f32], y: &[f32], out: SliceMut<'_, f32>) {
//!     let i = thread::index_1d();
//!     if i < out.len() {
//!         out.set(i, a.mul_add(x[i], y[i]));
//!     }
//! }
//! # let mut out = [0.0; 3];
//! # cuda_std::launch::on_simulator(1, 32, &mut out, |out| saxpy(2.0, &[1.0, 2.0, 3.0], &[10.0; 3], out));
//! assert_eq!(out, [12.0, 14.0, 16.0]);
//! ```
//!
//! # Features
//!
//! `linked-bodies`: the bodies of kernels for the simulated GPU are compiled once, with the crate that has the kernels, and not in each
//! executable that launches them, of those that it launches. That pays where several executables launch most of a crate's kernels.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(
        abi_ptx,
        allow_internal_unstable,
        asm_experimental_arch,
        core_float_math,
        core_intrinsics,
        link_llvm_intrinsics,
        rustc_attrs,
        stdarch_nvptx
    )
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
#![deny(missing_docs)]

extern crate self as cuda_std;

pub mod array;
pub mod async_copy;
pub mod atomic;
pub mod bits;
pub mod cluster;
pub mod constant;
mod entry;
pub mod fence;
pub mod float;
pub mod float8;
pub mod global;
pub mod grid;
pub mod half;
pub mod hint;
mod index;
pub mod io;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
#[doc(hidden)]
pub mod machine;
mod macros;
pub mod matrix;
pub mod mbarrier;
pub mod mma;
#[doc(hidden)]
pub mod panics;
pub mod param;
pub mod random;
pub mod scalar;
pub mod shared;
#[doc(hidden)]
pub mod signature;
pub mod thread;
pub mod tma;
pub mod view;
pub mod warp;
pub mod warpgroup;
pub mod wgmma;

pub use constant::Constant;
pub use float::Float;
pub use global::{Slice, SliceMut};
pub use grid::GridBarrier;
pub use macros::{KernelParam, device_fn, kernel, shared_array};
pub use panics::panic_with;
pub use view::{ArrayView, ArrayViewMut};

/// What most kernels use.
pub mod prelude {
    pub use crate::constant::Constant;
    pub use crate::float::Float;
    pub use crate::global::{Slice, SliceExt, SliceMut};
    pub use crate::grid::GridBarrier;
    pub use crate::shared::Shared;
    pub use crate::view::{ArrayView, ArrayViewMut};
    pub use crate::{KernelParam, device_fn, kernel, shared_array, thread, warp};
}

/// The simulated GPU's part of `shared_array!`; not for direct use.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub use cuda_sim::SharedSite;
