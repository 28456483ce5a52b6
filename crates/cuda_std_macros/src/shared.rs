// SPDX-License-Identifier: MIT OR Apache-2.0
//! `shared_array![T; N]`.

use std::sync::atomic::{AtomicUsize, Ordering};

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Token, Type};

/// `T; N`
pub struct Array {
    element: Type,
    len: Expr,
}

impl Parse for Array {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let element = input.parse()?;
        input.parse::<Token![;]>()?;
        let len = input.parse()?;
        Ok(Self { element, len })
    }
}

/// The PTX variable needs a name of its own: the crate's, and a number that counts the arrays of the crate.
pub fn expand(array: &Array) -> TokenStream {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let package = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    let name = format!("shared_{package}_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let declaration = format!(".shared .align 16 .b8 {name}[{{bytes}}];");
    let address = format!("mov.u32 {{0}}, {name};");
    let Array { element, len } = array;
    quote!(::cuda_std::__shared_array!(#element, #len, #declaration, #address))
}
