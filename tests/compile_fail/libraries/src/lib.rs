// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which libraries a crate is compiled with: rustc's arguments, which a macro sees as the process's own.

use proc_macro::TokenStream;

/// An expression of the type `&[&str]`: the arguments with which rustc finds the libraries of the crate that the macro is
/// used in, `--extern` and `-L` with what follows each, as cargo wrote them.
#[proc_macro]
pub fn library_arguments(_: TokenStream) -> TokenStream {
    let mut arguments = std::env::args();
    let mut found = String::new();
    while let Some(argument) = arguments.next() {
        if matches!(argument.as_str(), "--extern" | "-L") {
            let value = arguments.next().unwrap_or_default();
            found += &format!("{argument:?}, {value:?}, ");
        }
    }
    format!("&[{found}]").parse().expect("strings in an array")
}
