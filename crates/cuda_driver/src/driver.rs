// SPDX-License-Identifier: MIT OR Apache-2.0
//! libcuda itself, and what answers for it where it is missing.

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use libloading::{Error, Library};

use crate::functions::Function;
use crate::sys::Status;

/// The file that the NVIDIA driver installs; its name has not changed since CUDA's beginnings.
const LIBCUDA: &str = "libcuda.so.1";

/// Why there is no driver to call.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// No such file is where the dynamic linker looks.
    Missing(String),
    /// The file is there and cannot be loaded.
    Broken(String),
}

impl LoadError {
    /// In the words of the dynamic linker.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Missing(reason) | Self::Broken(reason) => reason,
        }
    }
}

/// The loaded driver, or why it could not be loaded.
///
/// Loaded by the first call and never unloaded, so that an address taken from it stays good.
pub(crate) fn driver() -> &'static Result<Library, LoadError> {
    static DRIVER: OnceLock<Result<Library, LoadError>> = OnceLock::new();
    DRIVER.get_or_init(|| load(LIBCUDA))
}

fn load(name: &str) -> Result<Library, LoadError> {
    // SAFETY: loading a library runs its initialisers. Those of the NVIDIA driver are meant to
    // run in any process that uses CUDA, at any time, on any thread.
    unsafe { Library::new(name) }.map_err(|error| {
        let reason = match error {
            Error::DlOpen { source } => source.to_string(),
            other => format!("{name}: {other}"),
        };
        match says_not_found(&reason, name) {
            true => LoadError::Missing(reason),
            false => LoadError::Broken(reason),
        }
    })
}

/// Whether the dynamic linker says by `reason` that there is no file `name`.
///
/// It has only words for that. A library that is found nowhere is named as it was asked for, without a folder, and the
/// system's text for ENOENT ends the message: "libcuda.so.1: cannot open shared object file: No such file or directory"
/// (glibc), "Error loading shared library libcuda.so.1: No such file or directory" (musl). A file that is found and is
/// no library is named with its folder; one whose own dependency is missing gives the dependency's name. What is not
/// recognised counts as found: a driver that does not load must never look like a machine without one.
fn says_not_found(reason: &str, name: &str) -> bool {
    let system = std::io::Error::from_raw_os_error(2).to_string(); // "No such file or directory (os error 2)"
    let absent = system.split(" (os error").next().unwrap_or(&system);
    let named_first = reason.strip_prefix(name).filter(|rest| rest.starts_with(": "));
    let of_this = named_first.or_else(|| {
        let (before, after) = reason.split_once(&format!(" {name}: "))?;
        (!before.contains([':', '/'])).then_some(after)
    });
    of_this.is_some_and(|rest| rest.ends_with(absent))
}

/// The address that a call of `function` goes to: the driver's, or that of a stand-in.
pub(crate) fn target(driver: &Result<Library, LoadError>, function: Function) -> *const () {
    let library = match (driver, function) {
        (Ok(library), _) => library,
        (Err(_), Function::cuGetErrorString) => return error_string as *const (),
        (Err(_), Function::cuGetErrorName) => return error_name as *const (),
        (Err(LoadError::Missing(_)), _) => return no_device as *const (),
        (Err(LoadError::Broken(_)), _) => return not_loaded as *const (),
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
extern "C" fn no_device() -> Status {
    Status::NO_DEVICE
}

/// Stands for every function but two where there is a driver that cannot be loaded.
extern "C" fn not_loaded() -> Status {
    Status::SHARED_OBJECT_INIT_FAILED
}

/// Stands for a function that the driver, being older, does not have.
extern "C" fn not_found() -> Status {
    Status::NOT_FOUND
}

/// `cuGetErrorString` where there is no driver to ask.
///
/// # Safety
/// `text` is null or may be written to.
unsafe extern "C" fn error_string(result: Status, text: *mut *const c_char) -> Status {
    let string = match result {
        Status::SUCCESS => c"no error",
        Status::NO_DEVICE => c"no NVIDIA driver on this machine (libcuda.so.1 was not found)",
        Status::SHARED_OBJECT_INIT_FAILED => c"the NVIDIA driver of this machine (libcuda.so.1) could not be loaded",
        _ => c"a CUDA error (no NVIDIA driver on this machine to describe it)",
    };
    // SAFETY: the caller's contract is that of `answer`.
    unsafe { answer(text, string) }
}

/// `cuGetErrorName` where there is no driver to ask.
///
/// # Safety
/// `text` is null or may be written to.
unsafe extern "C" fn error_name(result: Status, text: *mut *const c_char) -> Status {
    let name = match result {
        Status::SUCCESS => c"CUDA_SUCCESS",
        Status::NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        Status::SHARED_OBJECT_INIT_FAILED => c"CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        _ => c"CUDA_ERROR",
    };
    // SAFETY: the caller's contract is that of `answer`.
    unsafe { answer(text, name) }
}

/// Hands a string out through an output parameter, as the driver does.
///
/// # Safety
/// `output` is null or may be written to.
unsafe fn answer(output: *mut *const c_char, string: &'static CStr) -> Status {
    if output.is_null() {
        return Status::INVALID_VALUE;
    }
    // SAFETY: not null, so it may be written to, by this function's contract.
    unsafe { output.write(string.as_ptr()) };
    Status::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    type ErrorText = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

    fn no_driver() -> Result<Library, LoadError> {
        Err(LoadError::Missing("no such file".to_owned()))
    }

    /// What a call of `cuInit` returns, where `driver` has no such function.
    fn answer_of_stand_in(driver: &Result<Library, LoadError>) -> u32 {
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
    fn with_a_driver_that_does_not_load_a_call_fails() {
        let broken = Err(LoadError::Broken("invalid ELF header".to_owned()));
        assert_eq!(answer_of_stand_in(&broken), 303);
    }

    #[test]
    fn a_file_that_is_not_there_is_told_from_one_that_does_not_load() {
        let folder = std::env::temp_dir();
        let name = format!("libwarpsmith-no-library-{}.so.1", std::process::id());
        assert!(matches!(load(&name), Err(LoadError::Missing(_))));
        let path = folder.join(&name);
        std::fs::write(&path, "not a library").expect("a file in the folder for temporary files");
        let broken = load(path.to_str().expect("a path in UTF-8"));
        std::fs::remove_file(&path).expect("the file just written");
        assert!(matches!(broken, Err(LoadError::Broken(_))), "{broken:?}");

        for (reason, missing) in [
            (
                "libcuda.so.1: cannot open shared object file: No such file or directory",
                true,
            ),
            (
                "Error loading shared library libcuda.so.1: No such file or directory",
                true,
            ),
            ("libcuda.so.1: cannot open shared object file: Permission denied", false),
            ("/lib/libcuda.so.1: file too short", false),
            (
                "libnvidia.so.2: cannot open shared object file: No such file or directory",
                false,
            ),
            ("libcuda.so.1: wrong ELF class: ELFCLASS32", false),
            (
                "Error loading shared library libdep.so: No such file or directory (needed by libcuda.so.1)",
                false,
            ),
            (
                "libcuda.so.1.2: cannot open shared object file: No such file or directory",
                false,
            ),
            ("Dynamic loading not supported", false),
        ] {
            assert_eq!(says_not_found(reason, LIBCUDA), missing, "{reason}");
        }
    }

    #[test]
    fn without_a_driver_errors_have_a_text_and_a_name() {
        for function in [Function::cuGetErrorString, Function::cuGetErrorName] {
            let address = target(&no_driver(), function);
            // SAFETY: the stand-ins for these two functions are of this type.
            let call = unsafe { std::mem::transmute::<*const (), ErrorText>(address) };
            for result in [0, 1, 100, 303, 500, 999, u32::MAX] {
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
