// SPDX-License-Identifier: MIT OR Apache-2.0
//! The macros of `cuda_std`, which re-exports and documents them; depend on that crate, not on this one.
//!
//! Their examples are tested there: what the tests of a procedural macro depend on is compiled a second time, as what a
//! build script depends on.

use proc_macro::TokenStream;

mod device_fn;
mod instances;
mod kernel;
mod param;
mod reads;
mod shared;

#[proc_macro_attribute]
pub fn kernel(options: TokenStream, function: TokenStream) -> TokenStream {
    let options = syn::parse_macro_input!(options as kernel::Options);
    let function = syn::parse_macro_input!(function as syn::ItemFn);
    kernel::expand(&options, &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[proc_macro_attribute]
pub fn device_fn(options: TokenStream, function: TokenStream) -> TokenStream {
    let options = syn::parse_macro_input!(options as device_fn::Options);
    let function = syn::parse_macro_input!(function as syn::ItemFn);
    device_fn::expand(&options, &function)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[proc_macro_derive(KernelParam)]
pub fn kernel_param(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    param::expand(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

#[proc_macro]
pub fn shared_array(input: TokenStream) -> TokenStream {
    let array = syn::parse_macro_input!(input as shared::Array);
    shared::expand(&array).into()
}
