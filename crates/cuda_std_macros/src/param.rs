// SPDX-License-Identifier: MIT OR Apache-2.0
//! `#[derive(KernelParam)]`: structures that kernels take by value.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Meta, Token, punctuated::Punctuated};

/// The structure as a parameter, if it is one of numbers that lie in the order in which they stand.
pub fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(
            name,
            "a kernel takes structures, and neither an enum nor a union",
        ));
    };
    if !input.generics.params.is_empty() {
        let message = "a kernel takes structures without type parameters and lifetimes";
        return Err(Error::new_spanned(&input.generics, message));
    }
    if !is_repr_c(input)? {
        let message = format!("`{name}` is to be #[repr(C)]: the host and the GPU lay it out in the same way then");
        return Err(Error::new_spanned(name, message));
    }
    let types = data.fields.iter().map(|field| &field.ty);
    Ok(quote! {
        // SAFETY: `repr(C)`, and each field is a parameter by value itself, which the constant below asks: numbers that
        // lie on the GPU as on the host.
        unsafe impl ::cuda_std::param::Param for #name {
            type Head = Self;
            type Tail = ::cuda_std::param::NoTail;
            type At<'launch> = Self;

            #[inline(always)]
            unsafe fn from_abi<'launch>(
                head: &'launch Self,
                _: ::cuda_std::param::NoTail,
                _: ::cuda_std::machine::Place,
            ) -> Self::At<'launch> {
                *head
            }
        }

        impl ::cuda_std::param::ByValue for #name {
            #[inline(always)]
            fn into_head(self) -> Self {
                self
            }
        }

        const _: () = {
            #(::cuda_std::param::assert_by_value::<#types>();)*
        };
    })
}

fn is_repr_c(input: &DeriveInput) -> syn::Result<bool> {
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        let words = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
        if words.iter().any(|word| word.path().is_ident("C")) {
            return Ok(true);
        }
    }
    Ok(false)
}
