// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arrays on NVIDIA GPUs, and kernels of your own, in Rust throughout: the library's kernels are Rust, too.
//!
//! A [`DeviceArray`] is an ndarray array in the memory of a [`Device`]: an NVIDIA GPU (Turing or later), or the
//! simulated GPU, which runs the same kernels on the host's cores. Operations are methods of [`DeviceArrayRef`], which arrays
//! and views alike dereference to: that page lists all of them. Most have a form that allocates its result, and an `_into` form
//! that writes into an existing array or view. Work is asynchronous, in the order of a [`Stream`].
//!
//! The search of this documentation knows the names of NumPy, CuPy, PyTorch and Numba, too: `arange` finds
//! [`range`](DeviceArray::range), `astype` finds [`cast`](DeviceArrayRef::cast).
//!
//! | On the CPU | here |
//! |---|---|
//! | `Array<T, D>` | [`DeviceArray<T, D>`](DeviceArray) |
//! | `ArrayView<T, D>`, `ArrayViewMut<T, D>` | [`DeviceView<T, D>`](DeviceView), [`DeviceViewMut<T, D>`](DeviceViewMut) |
//! | `a.slice(s![1.., ..;2])`, `a[[i, j]]` | [`a.slice(s![1.., ..;2])`](DeviceArrayRef::slice), [`a.get([i, j])`](DeviceArrayRef::get) |
//! | `a.slice_mut(s![..3]).assign(&b)` | [`a.slice_mut(s![..3])?`](DeviceArrayRef::slice_mut)[`.assign(&b)`](DeviceArrayRef::assign) |
//! | `concatenate`, `a.select(axis, &indices)` | [`ops::concatenate`], [`a.take(axis, &indices)`](DeviceArrayRef::take) |
//! | `&a + &b`, `a.map(f)` | [`a.add(&b)`](DeviceArrayRef::add), [`a.exp()`](DeviceArrayRef::exp), … |
//! | `&a * 2.0 + &b` | [`(&a * 2.0 + &b).eval()`](Expr::eval): [expressions](expr) |
//! | `a.sum()`, `a.mean_axis(axis)` | [`a.sum()`](DeviceArrayRef::sum), [`a.mean_axis(axis)`](DeviceArrayRef::mean_axis) |
//! | `a.dot(&b)` of matrices | [`a.matmul(&b)`](DeviceArrayRef::matmul) |
//! | running totals, `a.accumulate_axis_inplace(…)` | [`a.cumsum()`](DeviceArrayRef::cumsum), [`a.inclusive_scan_axis::<Op>(axis)`](DeviceArrayRef::inclusive_scan_axis) |
//! | `v.sort()`, `v.sort_by_key(…)`, `dedup` | [`a.sort(axis)`](DeviceArrayRef::sort), [`a.argsort(axis)`](DeviceArrayRef::argsort), [`a.unique()`](DeviceArrayRef::unique) |
//! | a thread | a [`Stream`] |
//! | `Instant` | an [`Event`] |
//! | `x.axis_chunks_iter(axis, n).map(f)`, a data loader | a [`Pipeline`] |
//! | a closure, called again and again | a [`Graph`] |
//! | `rand`'s generators | a [`Generator`] |
//! | a function called for each element | a `#[kernel]` of your own, and [`Stream::launch`] |
//!
//! # Examples
//!
//! ```
//! use warpsmith::ndarray::Array1;
//! use warpsmith::{Device, DeviceArray};
//!
//! # fn main() -> warpsmith::Result<()> {
//! let device = Device::auto()?;
//! let stream = device.default_stream();
//! let x = DeviceArray::from_ndarray(stream, &Array1::linspace(0.0f32, 1.0, 1000))?;
//! let mean_square = x.square()?.mean()?;
//! assert!((mean_square - 1.0 / 3.0).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```
//!
//! # Devices
//!
//! [`Device::auto`] takes the first GPU, or the simulated one where there is none. The variable `WARPSMITH_DEVICE` names another,
//! without a change of the program. [`Device::list`] says which GPUs there are; [`Device::cuda`] and [`Device::simulator`] open
//! one device. In debug builds the simulated GPU is slower, under checks several times, unless Cargo.toml has the packages `cuda_sim` and `cuda_std`
//! optimised, as `warpsmith new` writes it: `opt-level = 2` under `[profile.dev.package.cuda_sim]`, and so for the other.
//!
//! An array is in the memory of its device. It also has a stream, on which its operations run one after another.
//! [`Device::create_stream`] makes more streams, for work side by side. An array may be used on any of them: the library has each
//! use wait for those that it depends on.
//!
//! # Errors
//!
//! * **What the host can know is an error at once**: shapes that do not fit, memory that is not there, a launch that the device
//!   does not take. The error says what was given and what was wanted.
//! * **What a kernel does wrong**, such as an index out of bounds, is known only when the kernel has run. On a GPU the next
//!   call that waits for a result returns it, as [`Error::Fault`], with the kernel's name, thread, file and line. The device cannot be
//!   used after that, until [`Device::reset`]. On the simulated GPU the launch itself returns it, and the device can be used on.
//! * **Results that nobody looks at** are warnings of the compiler: pass them on by `?`.
//!
//! # Other libraries
//!
//! [`DeviceArrayRef::as_device_ptr`] and [`Stream::as_raw`] are for C libraries such as cuBLAS, [`dlpack`] for PyTorch, CuPy
//! and JAX, and a [`Module`] runs what another compiler made.
//!
//! # Environment variables
//!
//! | Variable | what it says | read when |
//! |---|---|---|
//! | `WARPSMITH_DEVICE` | the device of [`Device::auto`]: `auto`, `cuda:N` or `sim` | it is called |
//! | `WARPSMITH_SYNC` | `1`: each launch on a GPU waits for its kernel, so that the one that fails is the one that says so ([`Error::KernelFailed`]) | a device is opened |
//! | `WARPSMITH_TRACE_ALLOC` | `1`: each allocation keeps the calls that led to it ([`Device::live_allocations`]) | a device is opened |
//! | `WARPSMITH_MATMUL_CHOICES` | a file with the kernels of products of matrices that were measured on a GPU, as `warpsmith tune` writes it ([`ops::set_matmul_choices`]) | the first product |
//! | `WARPSMITH_SIM_CHECKS` | what launches on the simulated GPU are checked for: `all`, or a list of `races` and `uninitialised` ([`Device::simulator`]) | a device is opened |
//! | `WARPSMITH_SIM_SEED` | the order in which its threads run: the seed of a random one, or `reversed` ([`Device::scheduled_simulator`]) | a device is opened |
//! | `WARPSMITH_SIM_PROFILE` | `1`, or a file: each launch on it writes what it has counted ([`Device::counting_simulator`]) | a device is opened |
//! | `WARPSMITH_SIM_TIMEOUT` | after how many seconds a launch on it is given up in which no block ends; 0 is never | the first launch |
//! | `WARPSMITH_SIM_ONLY` | set, and neither empty nor `0`: nothing is compiled for GPUs | the program is built |
//!
//! # Features
//!
//! `cust`, on by default: conversions to and from the types of the crate `cust` ([`Stream`], [`Event`], [`Device`],
//! [`DeviceArray`]: their methods with `cust` in the name). Its build scripts fail with "Could not find a cuda
//! installation" where there is none and `CUDA_LIBRARY_PATH` is not set. `default-features = false` builds everywhere,
//! and works on GPUs all the same.
//!
//! `cudarc`: conversions to and from the types of the crate `cudarc` ([`Stream`], [`Device`], [`DeviceArray`]: their
//! methods with `cudarc` in the name). It takes nothing to build. Which CUDA its declarations are of, a program chooses by
//! `cudarc`'s own features; otherwise it is nvcc's version, or the newest that it knows.
//!
//! `tracing`: allocations, copies, launches and waits as spans of the crate `tracing`, of level DEBUG and target
//! `warpsmith`.
//!
//! `nvtx`: the same as ranges that NVIDIA's profilers show, in the domain `warpsmith`. It takes nothing to build.
//!
//! `npz`: NumPy's archives of arrays ([`npy`]), by the crate `zip`. Files of one array, `.npy`, take no feature.
#![deny(missing_docs)]

mod array;
mod array_ref;
mod backend;
mod buffer;
mod callback;
mod constants;
#[cfg(feature = "cudarc")]
mod cudarc;
#[cfg(feature = "cust")]
mod cust;
mod device;
pub mod dlpack;
mod error;
mod event;
pub mod expr;
mod graph;
mod grid_barrier;
mod landed;
mod launch;
mod layout;
mod memory;
mod module;
mod new_file;
pub mod npy;
mod occupancy;
pub mod ops;
pub mod optim;
mod owner;
mod pinned;
mod pipeline;
mod ptx;
mod raw;
pub mod sim;
mod stream;
pub mod tensor_map;
mod turns;
mod usage;
mod view;
mod workspace;

pub use array::{DeviceArray, Element};
pub use array_ref::DeviceArrayRef;
pub use backend::cuda::SYNC_VARIABLE;
#[doc(hidden)]
pub use backend::faulty::Faults;
#[doc(hidden)]
pub use backend::sim::Simulation;
pub use cuda_sim::{Checks, Fault, Schedule};
pub use cuda_std::float8::{F8E4M3, F8E5M2};
pub use device::{DEVICE_VARIABLE, Device, Properties};
pub use error::{Error, KernelFailure, Result};
pub use event::Event;
pub use expr::Expr;
pub use graph::{Graph, GraphArrays, HeldArrays};
pub use grid_barrier::DeviceGridBarrier;
pub use half::{bf16, f16};
pub use launch::{Arg, Args, Dim3, LaunchConfig};
pub use memory::{LiveAllocation, MemoryInfo, TRACE_VARIABLE};
pub use module::{Function, FunctionArg, FunctionArgs, Module};
/// The arrays of the host, in the version that this library takes.
pub use ndarray;
#[doc(hidden)]
pub use new_file::NewFile;
pub use ops::{Border, Generator, Side};
pub use pinned::{PendingCopy, PinnedArray};
pub use pipeline::{Chunk, Loader, Pipeline};
pub use ptx::PtxModules;
#[doc(hidden)]
pub use ptx::WrittenModules;
pub use stream::Stream;
pub use view::{AsView, DeviceView, DeviceViewMut};

/// The examples of docs/writing-kernels.md, as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/writing-kernels.md")]
mod writing_kernels {}
