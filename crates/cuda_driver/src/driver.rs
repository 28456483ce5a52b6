// SPDX-License-Identifier: MIT OR Apache-2.0
//! libcuda itself, and what answers for it where it is missing.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use libloading::{Error, Library};

use crate::functions::Function;

/// The file that the NVIDIA driver installs; its name has not changed since CUDA's beginnings.
const LIBCUDA: &str = "libcuda.so.1";

// The driver's results that this crate returns by itself, as cuda.h numbers them.
const SUCCESS: u32 = 0;
const INVALID_VALUE: u32 = 1;
const NO_DEVICE: u32 = 100;
const NOT_FOUND: u32 = 500;

/// The loaded driver, or why it could not be loaded.
///
/// Loaded by the first call and never unloaded, so that an address taken from it stays good.
pub(crate) fn driver() -> &'static Result<Library, String> {
    static DRIVER: OnceLock<Result<Library, String>> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // SAFETY: loading a library runs its initialisers. Those of the NVIDIA driver are meant to
        // run in any process that uses CUDA, at any time, on any thread.
        unsafe { Library::new(LIBCUDA) }.map_err(|error| match error {
            Error::DlOpen { source } => source.to_string(),
            other => format!("{LIBCUDA}: {other}"),
        })
    })
}

/// The address that a call of `function` goes to: the driver's, or that of a stand-in.
pub(crate) fn target(driver: &Result<Library, String>, function: Function) -> *const () {
    let Ok(library) = driver else {
        return match function {
            Function::cuGetErrorString => error_string as *const (),
            Function::cuGetErrorName => error_name as *const (),
            _ => no_device as *const (),
        };
    };
    // SAFETY: the symbol is read as a plain address and nothing is done with it here. All symbols
    // asked for are functions of the driver.
    match unsafe { library.get::<*const ()>(function.symbol()) } {
        Ok(address) if !address.is_null() => *address,
        _ => not_found as *const (),
    }
}

/// Stands for every function but two where there is no driver. The caller's arguments are nobody's
/// to clean up in the C calling convention, so a function without parameters can stand for any.
extern "C" fn no_device() -> u32 {
    NO_DEVICE
}

/// Stands for a function that the driver, being older, does not have.
extern "C" fn not_found() -> u32 {
    NOT_FOUND
}

/// `cuGetErrorString` where there is no driver to ask.
///
/// # Safety
/// `text` is null or may be written to.
unsafe extern "C" fn error_string(result: u32, text: *mut *const c_char) -> u32 {
    let string = match result {
        SUCCESS => c"no error",
        NO_DEVICE => c"no NVIDIA driver on this machine (libcuda.so.1 could not be loaded)",
        _ => c"a CUDA error (no NVIDIA driver on this machine to describe it)",
    };
    // SAFETY: the caller's contract is that of `answer`.
    unsafe { answer(text, string) }
}

/// `cuGetErrorName` where there is no driver to ask.
///
/// # Safety
/// `text` is null or may be written to.
unsafe extern "C" fn error_name(result: u32, text: *mut *const c_char) -> u32 {
    let name = match result {
        SUCCESS => c"CUDA_SUCCESS",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        _ => c"CUDA_ERROR",
    };
    // SAFETY: the caller's contract is that of `answer`.
    unsafe { answer(text, name) }
}

/// Hands a string out through an output parameter, as the driver does.
///
/// # Safety
/// `output` is null or may be written to.
unsafe fn answer(output: *mut *const c_char, string: &'static CStr) -> u32 {
    if output.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, so it may be written to, by this function's contract.
    unsafe { output.write(string.as_ptr()) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    type ErrorText = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

    fn no_driver() -> Result<Library, String> {
        Err("no such file".to_owned())
    }

    /// What a call of `cuInit` returns, where `driver` has no such function.
    fn answer_of_stand_in(driver: &Result<Library, String>) -> u32 {
        let address = target(driver, Function::cuInit);
        // SAFETY: both stand-ins for a missing `cuInit` are of this type.
        let call = unsafe { std::mem::transmute::<*const (), extern "C" fn() -> u32>(address) };
        call()
    }

    #[test]
    fn without_a_driver_a_call_finds_no_device() {
        assert_eq!(answer_of_stand_in(&no_driver()), 100);
    }

    #[test]
    fn without_a_driver_errors_have_a_text_and_a_name() {
        for function in [Function::cuGetErrorString, Function::cuGetErrorName] {
            let address = target(&no_driver(), function);
            // SAFETY: the stand-ins for these two functions are of this type.
            let call = unsafe { std::mem::transmute::<*const (), ErrorText>(address) };
            for result in [0, 1, 100, 500, 999, u32::MAX] {
                let mut text = std::ptr::null();
                // SAFETY: `text` may be written to, and what is written is a static C string.
                let string = unsafe {
                    assert_eq!(call(result, &mut text), 0);
                    CStr::from_ptr(text)
                };
                assert!(!string.is_empty(), "{function:?} of {result}");
            }
            // SAFETY: null is allowed.
            assert_eq!(unsafe { call(100, std::ptr::null_mut()) }, 1);
        }
    }

    #[test]
    fn a_function_that_the_driver_lacks_is_not_found() {
        // SAFETY: the C library is loaded in every process already. It stands for a driver that
        // has none of the functions.
        let library = unsafe { Library::new("libc.so.6") }.expect("the C library");
        assert_eq!(answer_of_stand_in(&Ok(library)), 500);
    }
}
