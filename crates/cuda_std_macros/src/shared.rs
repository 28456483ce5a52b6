// SPDX-License-Identifier: MIT OR Apache-2.0
//! `shared_array![T; N]`, `shared_array![T as U; N]`.

use std::sync::atomic::{AtomicUsize, Ordering};

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Token, Type};

/// `T; N`, or `T as U; N`
pub struct Array {
    element: Type,
    /// The type that each element has the room of, if it is another one.
    room: Option<Type>,
    len: Expr,
}

impl Parse for Array {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let element = input.parse()?;
        let room = match input.parse::<Option<Token![as]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        input.parse::<Token![;]>()?;
        let len = input.parse()?;
        Ok(Self { element, room, len })
    }
}

/// The PTX variable needs a name of its own: the crate's, and a number that counts the arrays of the crate.
pub fn expand(array: &Array) -> TokenStream {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let package = std::env::var("CARGO_CRATE_NAME").unwrap_or_default();
    let name = format!("shared_{package}_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let declaration = format!(".shared .align 16 .b8 {name}[{{bytes}}];");
    let address = format!("mov.u32 {{0}}, {name};");
    let Array { element, room, len } = array;
    match room {
        None => quote!(::cuda_std::__shared_array!(#element, #len, #declaration, #address)),
        Some(room) => quote!(
            ::cuda_std::__shared_array!(#room, #len, #declaration, #address).of_rooms::<#element>()
        ),
    }
}
