// SPDX-License-Identifier: MIT OR Apache-2.0
//! `#[device_fn]`: one PTX function for each combination of the listed type arguments.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::{Error, FnArg, GenericArgument, Ident, ItemFn, ReturnType, Safety, Type};

use crate::instances::{self, Lists};

/// How many functions are compiled together: they are smaller than a kernel's entries, and a unit costs some 50 ms.
const UNIT: usize = 32;

/// The most arguments.
const MOST: usize = 6;

/// What stands in the attribute's parentheses.
pub struct Options {
    lists: Lists,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let lists = Lists::parse(input, |_, _| Ok(false))?;
        Ok(Self { lists })
    }
}

/// The function itself, its handle, and its instances.
pub fn expand(options: &Options, function: &ItemFn) -> syn::Result<TokenStream> {
    check(function)?;
    let types = types(function)?;
    let names = options.lists.names(function, "device_fn", "device function")?;
    let handle = instances::handle(function, "device function", "expressions");
    let combinations = options.lists.combinations(&names);
    let units = combinations.chunks(UNIT).enumerate().map(|(number, combinations)| {
        let unit = format_ident!("__unit_{}_{number}", function.sig.ident);
        let instances = combinations
            .iter()
            .map(|arguments| instance(function, &names, &unit, arguments, &types));
        quote! {
            ::cuda_std::__kernel_unit! { #unit }
            #(#instances)*
        }
    });
    Ok(quote! {
        #[inline(always)]
        #function
        #handle
        #(#units)*
    })
}

/// Refuses functions that cannot be called with numbers alone.
fn check(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    if let Some(keyword) = &signature.asyncness {
        return Err(Error::new_spanned(keyword, "a device function cannot be async"));
    }
    if let Safety::Unsafe(keyword) = &signature.safety {
        let message = "a device function is safe: an expression has nobody who could uphold a contract";
        return Err(Error::new_spanned(keyword, message));
    }
    if let Some(lifetime) = signature.generics.lifetimes().next() {
        return Err(Error::new_spanned(
            lifetime,
            "a device function takes numbers, and borrows nothing",
        ));
    }
    match signature.inputs.iter().nth(MOST) {
        Some(argument) => {
            let message = format!("a device function has {MOST} arguments at most");
            Err(Error::new_spanned(argument, message))
        }
        None => Ok(()),
    }
}

/// The types of the arguments, and behind them that of the result.
fn types(function: &ItemFn) -> syn::Result<Vec<Type>> {
    let signature = &function.sig;
    let ReturnType::Type(_, result) = &signature.output else {
        let message = "a device function gives a number: `-> f32`";
        return Err(Error::new_spanned(signature, message));
    };
    let arguments = signature.inputs.iter().map(|input| match input {
        FnArg::Typed(input) => match &*input.ty {
            Type::Reference(_) => {
                let message = "a device function takes numbers by value, and borrows nothing";
                Err(Error::new_spanned(input, message))
            }
            Type::ImplTrait(_) => {
                let message =
                    "name the type: `fn f<T: Float>(x: T)`, with the list that #[device_fn(T = [f32, f64])] has of it";
                Err(Error::new_spanned(input, message))
            }
            ty => Ok(ty.clone()),
        },
        FnArg::Receiver(this) => Err(Error::new_spanned(
            this,
            "a device function is a free function, it has no self",
        )),
    });
    arguments.chain([Ok((**result).clone())]).collect()
}

/// The function for these type arguments.
fn instance(
    function: &ItemFn,
    names: &[Ident],
    unit: &Ident,
    arguments: &[GenericArgument],
    types: &[Type],
) -> TokenStream {
    let (item, parentheses) = (&function.sig.ident, function.sig.paren_token.span.join());
    let name = instances::instance_name(function, arguments);
    let source = instances::source_hash(function, [], arguments);
    let (handle, function) = instances::paths(item, arguments);
    let types = instances::concrete(types, names, arguments);
    let (result, parameters) = types.split_last().expect("the result is one of them");
    let wrapper = format_ident!("function_{name}");
    let constant = format_ident!("__signature_{name}");
    let span = item.span();
    let values: Vec<_> = (0..parameters.len())
        .map(|i| format_ident!("p{i}", span = span))
        .collect();
    let registers = (0..parameters.len()).map(|i| format_ident!("r{i}"));
    let call = quote_spanned!(span=> #function(#(#values),*));
    // Where a type is no `Scalar` the compiler names the list as it is written.
    let list = quote_spanned!(parentheses=> type Arguments = (#(#parameters,)*););
    // All functions of an item are one module: they have much in common, and are packed together.
    let note = format!("//cuda_builder function={name} module={item} signature={{signature}}");
    quote! {
        ::cuda_std::__device_fn! {
            unit: #unit, wrapper: #wrapper, handle: #handle, call: [#call], name: #name, source: #source,
            constant: #constant, note: #note, arguments: [#((#values, #registers): #parameters),*], result: #result, list: [#list],
        }
    }
}
