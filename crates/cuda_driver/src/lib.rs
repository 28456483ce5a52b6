// SPDX-License-Identifier: MIT OR Apache-2.0
//! libcuda loaded at run time: one binary that starts with and without an NVIDIA driver.
//!
//! # What
//! `cust` and `cust_raw` declare the driver's functions and leave it to the linker to find them
//! in libcuda. A program linked so does not even start where there is no driver, and building it
//! takes the stub library of a CUDA toolkit. This crate defines those functions itself, all 353
//! that `cust_raw` 0.11.3 declares. Each is a jump through a slot, and the slot is filled on the
//! first call, from `libcuda.so.1`.
//!
//! * With a driver every call reaches it, with its arguments untouched.
//! * With none every call returns `CUDA_ERROR_NO_DEVICE`, so `cust::quick_init()` answers
//!   `CudaError::NoDevice`. `cuGetErrorString` and `cuGetErrorName` still work, so that the error
//!   can be printed.
//! * With one that cannot be loaded every call returns `CUDA_ERROR_SHARED_OBJECT_INIT_FAILED`.
//! * A function that an older driver lacks returns `CUDA_ERROR_NOT_FOUND`.
//!
//! [`sys`] declares those of them that Warpsmith itself calls, with integer results: `cust_raw` declares a Rust `enum`
//! that lacks what newer drivers return.
//!
//! # When
//! A program must name this crate once, or the compiler leaves it out of the link and the linker
//! misses `cuInit` and the rest. A call of [`is_available`] does that, and so does:
//!
//! ```
//! use cuda_driver as _;
//! ```
//!
//! # Cost
//! A call costs one load, one test that is always predicted, and one jump more than a direct one.
//! The first call of each function looks its name up; the first of all loads the library.
//!
//! # Building outside this workspace
//! The build scripts of `cust` and `cust_raw` insist on a folder that holds `lib64/`, and pass
//! `-lcuda` to the linker. Where a CUDA toolkit is installed in `/usr/local/cuda` or `/opt/cuda`
//! nothing is to be done: its stub satisfies the linker, and this crate's definitions come first.
//! Everywhere else a project provides the folder. In its root, once:
//!
//! ```sh
//! mkdir -p cuda-link/lib64
//! echo '/* no library */' > cuda-link/lib64/libcuda.so
//! ```
//!
//! That file is a linker script without a command, which GNU ld, gold and LLVM's lld all take.
//! Then, in the project's `.cargo/config.toml`, with a path relative to the folder that holds
//! `.cargo`:
//!
//! ```toml
//! [env]
//! CUDA_LIBRARY_PATH = { value = "cuda-link", relative = true }
//! ```
//!
//! The variable can be set in the environment as well, and wins there. The folder `link/` of this
//! crate's sources is such a folder, for a checkout that lies beside the project.
//!
//! # Source
//! The scheme is that of a dynamic linker's lazily bound procedure linkage table, as the System V
//! ABI's supplements for x86-64 and AArch64 describe it, with a library that may be missing.

#![deny(missing_docs)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "cuda_driver supports 64-bit Linux on x86-64 and AArch64 (x86_64-unknown-linux-* and \
     aarch64-unknown-linux-*), not this target"
);

mod driver;
mod functions;
mod names;
pub mod sys;
mod trampoline;

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

/// Whether `libcuda.so.1` could be loaded, that is, whether an NVIDIA driver is installed.
///
/// `true` does not mean that there is a GPU: the driver's own `cuInit` and `cuDeviceGetCount` tell
/// that. The answer is found once and stays for the life of the process.
///
/// Calling this function, or naming the crate in a `use`, is also what brings the driver's
/// functions into the link: the compiler leaves out a crate that nothing names.
///
/// # Examples
/// ```
/// if !cuda_driver::is_available() {
///     eprintln!("no GPU: {}", cuda_driver::load_error().unwrap_or("unknown reason"));
/// }
/// ```
pub fn is_available() -> bool {
    driver::driver().is_ok()
}

/// Whether there is no file `libcuda.so.1` where the dynamic linker looks: a machine without an NVIDIA driver.
///
/// `false` where the driver was loaded, and also where the file is there and cannot be loaded (it is damaged, or for
/// another architecture, or depends on a library that is missing). Such a driver has failed; [`load_error`] says how.
///
/// # Examples
/// ```
/// if !cuda_driver::is_available() && !cuda_driver::is_missing() {
///     panic!("the driver does not load: {:?}", cuda_driver::load_error());
/// }
/// ```
pub fn is_missing() -> bool {
    matches!(driver::driver(), Err(driver::LoadError::Missing(_)))
}

/// Why `libcuda.so.1` could not be loaded, in the words of the dynamic linker; `None` where it was.
///
/// # Examples
/// ```
/// assert_eq!(cuda_driver::load_error().is_none(), cuda_driver::is_available());
/// ```
pub fn load_error() -> Option<&'static str> {
    driver::driver().as_ref().err().map(driver::LoadError::reason)
}

/// Where a function of the driver is that older ones lack, as it is since the CUDA version `since` (major, minor): what came
/// later under the same name has other parameters. `None` where the driver, or any, is missing that.
///
/// For functions that this crate does not define, since `cust_raw` does not declare them.
///
/// # Examples
/// ```
/// if cuda_driver::address(c"cuLaunchKernelEx", (11, 8)).is_none() {
///     eprintln!("launches have no attributes here");
/// }
/// ```
pub fn address(name: &CStr, since: (u32, u32)) -> Option<NonNull<c_void>> {
    let mut found = ptr::null_mut();
    let version = c_int::try_from(since.0 * 1000 + since.1 * 10).ok()?;
    // SAFETY: a name that ends with a zero, and a place for an address. A driver without this function itself says so.
    let status = unsafe { sys::cuGetProcAddress(name.as_ptr(), &mut found, version, 0) };
    NonNull::new(found).filter(|_| status.is_success())
}
