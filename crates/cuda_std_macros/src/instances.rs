// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generic functions for the type arguments that an attribute lists: what `#[kernel]` and `#[device_fn]` have in common.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{Error, Expr, GenericArgument, GenericParam, Ident, ItemFn, Lifetime, Token, Type, bracketed};

/// The lists that stand in an attribute's parentheses: `T = [f32, f64], U = [u8]`, and others behind semicolons. The instances
/// are those of each group together.
pub struct Lists {
    groups: Vec<Vec<(Ident, Vec<GenericArgument>)>>,
}

impl Lists {
    /// Reads all that stands there. `option` is given each name first, and reads what comes behind it if that is no list.
    pub fn parse(
        input: ParseStream<'_>,
        mut option: impl FnMut(&Ident, ParseStream<'_>) -> syn::Result<bool>,
    ) -> syn::Result<Self> {
        let mut lists = Self {
            groups: vec![Vec::new()],
        };
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            if !option(&name, input)? {
                lists.parse_list(name, input)?;
            }
            if input.peek(Token![;]) {
                input.parse::<Token![;]>()?;
                lists.groups.push(Vec::new());
            } else if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(lists)
    }

    /// `= [f32, f64]`, of the last group.
    fn parse_list(&mut self, name: Ident, input: ParseStream<'_>) -> syn::Result<()> {
        input.parse::<Token![=]>()?;
        let list;
        bracketed!(list in input);
        let arguments = Punctuated::<GenericArgument, Token![,]>::parse_terminated(&list)?;
        if let Some(group) = self.groups.last_mut() {
            group.push((name, arguments.into_iter().collect()));
        }
        Ok(())
    }

    /// The names of the function's type and const parameters, each of which every group must list, and nothing else.
    /// `attribute` and `what` are for errors: `kernel` and what the function is.
    pub fn names(&self, function: &ItemFn, attribute: &str, what: &str) -> syn::Result<Vec<Ident>> {
        let mut names = Vec::new();
        for parameter in &function.sig.generics.params {
            let name = match parameter {
                GenericParam::Type(parameter) => &parameter.ident,
                GenericParam::Const(parameter) => &parameter.ident,
                GenericParam::Lifetime(_) => continue,
            };
            let is_listed = |group: &Vec<(Ident, _)>| group.iter().any(|(listed, _)| listed == name);
            if !self.groups.iter().all(is_listed) {
                let message = format!("list what `{name}` is compiled for: #[{attribute}({name} = [f32, f64])]");
                return Err(Error::new_spanned(name, message));
            }
            names.push(name.clone());
        }
        for (listed, arguments) in self.groups.iter().flatten() {
            if !names.contains(listed) {
                let message = format!("`{listed}` is neither a generic parameter of the {what} nor an option");
                return Err(Error::new_spanned(listed, message));
            }
            if arguments.is_empty() {
                return Err(Error::new_spanned(listed, format!("the list of `{listed}` is empty")));
            }
        }
        Ok(names)
    }

    /// Every way to take one argument from each list of a group, in the order of the generic parameters.
    pub fn combinations(&self, names: &[Ident]) -> Vec<Vec<GenericArgument>> {
        let groups = self.groups.iter();
        groups.flat_map(|group| combinations_of(group, names)).collect()
    }
}

fn combinations_of(group: &[(Ident, Vec<GenericArgument>)], names: &[Ident]) -> Vec<Vec<GenericArgument>> {
    names.iter().fold(vec![Vec::new()], |rows, name| {
        let listed = group.iter().filter(|(listed, _)| listed == name);
        let arguments: Vec<_> = listed.flat_map(|(_, arguments)| arguments).collect();
        let with = |row: &Vec<GenericArgument>, argument: &GenericArgument| {
            row.iter().cloned().chain([argument.clone()]).collect()
        };
        rows.iter()
            .flat_map(|row| arguments.iter().map(move |argument| with(row, argument)))
            .collect()
    })
}

/// A type with the function's name. A structure with named fields shares no namespace with functions, so both can have
/// the one name. `what` says what it is the handle of, and `purpose` what for.
pub fn handle(function: &ItemFn, what: &str, purpose: &str) -> TokenStream {
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let document = format!("The handle of the {what} [`{name}`](fn@{name}), for {purpose}.");
    let parameters = function
        .sig
        .generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(parameter.ident.to_token_stream()),
            GenericParam::Const(parameter) => {
                let (name, ty) = (&parameter.ident, &parameter.ty);
                Some(quote!(const #name: #ty))
            }
            GenericParam::Lifetime(_) => None,
        });
    let types = function.sig.generics.type_params().map(|parameter| &parameter.ident);
    quote! {
        #[doc = #document]
        #[allow(non_camel_case_types)]
        #visibility struct #name<#(#parameters),*> {
            _never: ::core::convert::Infallible,
            _types: ::core::marker::PhantomData<fn() -> (#(#types,)*)>,
        }
    }
}

/// An instance as the type that its handle is, and as the function to call.
pub fn paths(name: &Ident, arguments: &[GenericArgument]) -> (TokenStream, TokenStream) {
    match arguments {
        [] => (quote!(#name), quote!(#name)),
        arguments => (quote!(#name<#(#arguments),*>), quote!(#name::<#(#arguments),*>)),
    }
}

/// What an instance is called in PTX: by the function and its type arguments.
pub fn instance_name(function: &ItemFn, arguments: &[GenericArgument]) -> String {
    let words: Vec<String> = arguments.iter().map(word).collect();
    [vec![function.sig.ident.to_string()], words].concat().join("_")
}

/// A type argument as a part of a name: the last segment of its path, or the value of a constant.
fn word(argument: &GenericArgument) -> String {
    let text = match argument {
        GenericArgument::Type(Type::Path(path)) => path
            .path
            .segments
            .last()
            .map(|segment| segment.to_token_stream().to_string())
            .unwrap_or_default(),
        other => other.to_token_stream().to_string(),
    };
    let part = |c: char| if c.is_alphanumeric() { c } else { '_' };
    text.chars().filter(|c| !c.is_whitespace()).map(part).collect()
}

/// The 64-bit FNV-1a hash of the function as it is written: its signature, its body, the texts of `options`, and the type
/// arguments of this instance. `cuda_std::signature` makes the instance's signature of it.
///
/// Attributes are left out: what `cfg_attr` makes of them may differ between the device's build and the host's.
pub fn source_hash(function: &ItemFn, options: impl IntoIterator<Item = String>, arguments: &[GenericArgument]) -> u64 {
    let function = [
        function.sig.to_token_stream().to_string(),
        function.block.to_token_stream().to_string(),
    ];
    let arguments = arguments.iter().map(|argument| argument.to_token_stream().to_string());
    let texts = function.into_iter().chain(options).chain(arguments);
    // A byte that is in no UTF-8 text ends each.
    let bytes = texts.flat_map(|text| text.into_bytes().into_iter().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Where a type begins and where it ends: what names it by way of a trait, and is spanned so, has the compiler say of all of
/// it, and of nothing else, that it lacks an implementation.
pub fn ends(ty: &Type) -> (Span, Span) {
    let tokens = ty.to_token_stream();
    let first = tokens.clone().into_iter().next().map(|token| token.span());
    let last = tokens.into_iter().last().map(|token| token.span());
    let or_here = |span: Option<Span>| span.unwrap_or_else(Span::call_site);
    (or_here(first), or_here(last))
}

/// The types with the type arguments in their places.
pub fn concrete(types: &[Type], names: &[Ident], arguments: &[GenericArgument]) -> Vec<Type> {
    let mut types = types.to_vec();
    for ty in &mut types {
        Concrete { names, arguments }.visit_type_mut(ty);
    }
    types
}

/// Puts the type arguments in place of the generic parameters, and `'static` in place of every lifetime.
pub struct Concrete<'a> {
    pub names: &'a [Ident],
    pub arguments: &'a [GenericArgument],
}

impl Concrete<'_> {
    fn argument(&self, path: &syn::Path) -> Option<&GenericArgument> {
        let position = self.names.iter().position(|name| path.is_ident(name))?;
        Some(&self.arguments[position])
    }
}

impl VisitMut for Concrete<'_> {
    fn visit_type_mut(&mut self, node: &mut Type) {
        if let Type::Path(path) = node
            && path.qself.is_none()
            && let Some(GenericArgument::Type(argument)) = self.argument(&path.path)
        {
            *node = argument.clone();
            return;
        }
        if let Type::Reference(reference) = node {
            reference.lifetime = Some(Lifetime::new("'static", Span::call_site()));
        }
        visit_mut::visit_type_mut(self, node);
    }

    fn visit_expr_mut(&mut self, node: &mut Expr) {
        if let Expr::Path(path) = node
            && let Some(GenericArgument::Const(argument)) = self.argument(&path.path)
        {
            *node = argument.clone();
            return;
        }
        visit_mut::visit_expr_mut(self, node);
    }

    fn visit_lifetime_mut(&mut self, node: &mut Lifetime) {
        *node = Lifetime::new("'static", node.span());
    }
}
