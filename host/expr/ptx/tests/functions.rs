// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program's device functions, as the tests' machine calls them.

use test_reference::emulator::Function;

use crate::backend::DeviceFnInfo;
use crate::expr::program::Program;
use crate::expr::ptx::inline::Callee;
use crate::expr::ptx::writer::register_bits;

/// Computes the device functions of a program, by their numbers.
pub(super) fn native(functions: &[&'static DeviceFnInfo]) -> Vec<Function> {
    let native = functions.iter().map(|function| {
        let arguments = function.arguments.iter().map(|ty| ty.bytes()).collect();
        // SAFETY: it is for elements of these types, whose alignment is no more than that of words.
        unsafe { Function::new(arguments, function.result.bytes(), function.run) }
    });
    native.collect()
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
