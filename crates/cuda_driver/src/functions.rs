// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's functions as this crate defines them, one trampoline for each name of the list.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::driver;
use crate::names::with_driver_functions;
use crate::trampoline::{jump_through_slot, resolve_then_jump};

macro_rules! define_functions {
    ($($name:ident)*) => {
        /// A function of the driver, numbered as in the list of names.
        #[allow(
            non_camel_case_types,
            clippy::enum_variant_names,
            reason = "these are the names of the driver's symbols"
        )]
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[repr(usize)]
        pub(crate) enum Function { $($name),* }

        /// The symbols, by number.
        const SYMBOLS: &[&CStr] = &[$(c_str(concat!(stringify!($name), "\0"))),*];

        $(
            #[allow(non_snake_case, reason = "the name of the driver's symbol")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                jump_through_slot!(SLOTS, Function::$name as usize, unresolved)
            }
        )*
    };
}

with_driver_functions!(define_functions);

/// Where each function's trampoline jumps to; null until it is called for the first time.
static SLOTS: [AtomicPtr<()>; SYMBOLS.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; SYMBOLS.len()];

impl Function {
    /// The function's name in libcuda.
    pub(crate) fn symbol(self) -> &'static CStr {
        SYMBOLS[self as usize]
    }
}

/// Where a trampoline goes while its slot is null.
#[unsafe(naked)]
extern "C" fn unresolved() {
    resolve_then_jump!(resolve)
}

/// Finds what a function stands for on this machine and fills its slot.
///
/// Threads that come here at once find and store the same address. The trampolines pass nothing
/// but the numbers of [`Function`], so its argument is one of them.
extern "C" fn resolve(function: Function) -> *const () {
    let target = driver::target(driver::driver(), function);
    SLOTS[function as usize].store(target.cast_mut(), Ordering::Release);
    target
}

/// The C string that `text`, which ends in its only NUL, is.
const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a symbol's name must end in its only NUL"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_driver_functions;

    /// As many names as cust_raw 0.11.3 declares, each declared there (or this would not compile),
    /// and each linked to the definition here.
    #[test]
    fn cust_calls_these_functions() {
        macro_rules! addresses {
            ($($name:ident)*) => {
                [$((stringify!($name), super::$name as *const (), cust::sys::$name as *const ())),*]
            };
        }
        let functions = with_driver_functions!(addresses);
        assert_eq!(functions.len(), 353);
        for (name, here, called_by_cust) in functions {
            assert_eq!(here, called_by_cust, "{name}");
        }
    }
}
