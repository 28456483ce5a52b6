// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's device functions, as the tests' machine calls them.

use crate::backend::DeviceFnInfo;
use crate::expr::program::{MAX_ARGUMENTS, Program};
use crate::expr::ptx::inline::Callee;
use crate::expr::ptx::writer::register_bits;

/// Computes the device functions of a program, by their numbers.
pub(super) fn native(functions: &[&'static DeviceFnInfo]) -> impl Fn(usize, [u64; MAX_ARGUMENTS]) -> u64 {
    |number, arguments| {
        let at = |k: usize| (&raw const arguments[k]).cast();
        // Each for itself: a loop that is not optimised took a quarter of what the longest of these tests do.
        let addresses: [*const (); MAX_ARGUMENTS] = [at(0), at(1), at(2), at(3), at(4), at(5)];
        let mut result = 0u64;
        // SAFETY: one number for each argument, and room for the result.
        unsafe { (functions[number].run)(addresses.as_ptr(), (&raw mut result).cast(), 1) };
        result
    }
}

/// The program's functions, as the tests' machine calls them.
pub(super) fn callees(program: &Program) -> Vec<Callee<'static>> {
    let functions = program.functions.iter().enumerate();
    let native = functions.map(|(number, function)| Callee::Native {
        number,
        result: register_bits(function.result),
    });
    native.collect()
}
