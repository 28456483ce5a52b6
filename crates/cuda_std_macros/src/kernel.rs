// SPDX-License-Identifier: MIT OR Apache-2.0
//! `#[kernel]`: one entry for each combination of the listed type arguments.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Error, Expr, FnArg, GenericArgument, GenericParam, Ident, ItemFn, Lifetime, LitStr, ReturnType, Token, Type,
    bracketed,
};

/// How many entries of a kernel are compiled together. One more unit costs some 50 ms, one more entry in a unit is
/// compiled again when another of them changes, and what one core compiles last should not take long.
const UNIT: usize = 16;

/// What stands in the attribute's parentheses.
#[derive(Default)]
pub struct Options {
    /// `T = [f32, f64], U = [u8]`, and others behind semicolons: the entries are those of each together.
    groups: Vec<Vec<(Ident, Vec<GenericArgument>)>>,
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
    /// The one architecture whose instructions the kernel uses.
    arch: Option<LitStr>,
    /// Whether the kernel stands in a block.
    nested: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self {
            groups: vec![Vec::new()],
            ..Self::default()
        };
        while !input.is_empty() {
            options.parse_one(input)?;
            if input.peek(Token![;]) {
                input.parse::<Token![;]>()?;
                options.groups.push(Vec::new());
            } else if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

impl Options {
    /// `nested`, or `name = value`; lists are of the last group.
    fn parse_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let name: Ident = input.parse()?;
        if name == "nested" {
            self.nested = true;
            return Ok(());
        }
        input.parse::<Token![=]>()?;
        if name == "max_threads" {
            self.max_threads = Some(input.parse()?);
        } else if name == "min_blocks" {
            self.min_blocks = Some(input.parse()?);
        } else if name == "arch" {
            self.arch = Some(input.parse()?);
        } else {
            let list;
            bracketed!(list in input);
            let arguments = Punctuated::<GenericArgument, Token![,]>::parse_terminated(&list)?;
            if let Some(group) = self.groups.last_mut() {
                group.push((name, arguments.into_iter().collect()));
            }
        }
        Ok(())
    }
}

/// The function itself, its handle, and its entries.
pub fn expand(options: &Options, function: &ItemFn) -> syn::Result<TokenStream> {
    let parameters = parameter_types(function)?;
    let names = generic_names(options, function)?;
    let handle = handle(function, &names);
    let combinations = combinations(options, &names);
    let units = combinations.chunks(UNIT).enumerate().map(|(number, combinations)| {
        let unit = format_ident!("__unit_{}_{number}", function.sig.ident);
        let entries = combinations
            .iter()
            .map(|arguments| entry(options, function, &names, &unit, arguments, &parameters));
        quote! {
            ::cuda_std::__kernel_unit! { #unit }
            #(#entries)*
        }
    });
    Ok(quote! {
        #[allow(clippy::too_many_arguments)]
        #[inline(always)]
        #function
        #handle
        #(#units)*
    })
}

/// The types of the parameters; the function must be one that can be an entry.
fn parameter_types(function: &ItemFn) -> syn::Result<Vec<Type>> {
    let signature = &function.sig;
    if let ReturnType::Type(arrow, _) = &signature.output {
        let message = "a kernel returns nothing; it writes its results through a SliceMut";
        return Err(Error::new_spanned(arrow, message));
    }
    if let Some(keyword) = &signature.asyncness {
        return Err(Error::new_spanned(keyword, "a kernel cannot be async"));
    }
    signature
        .inputs
        .iter()
        .map(|input| match input {
            FnArg::Typed(input) => Ok((*input.ty).clone()),
            FnArg::Receiver(this) => Err(Error::new_spanned(this, "a kernel is a free function, it has no self")),
        })
        .collect()
}

/// The names of the function's type and const parameters, each of which every group must list, and nothing else.
fn generic_names(options: &Options, function: &ItemFn) -> syn::Result<Vec<Ident>> {
    let mut names = Vec::new();
    for parameter in &function.sig.generics.params {
        let name = match parameter {
            GenericParam::Type(parameter) => &parameter.ident,
            GenericParam::Const(parameter) => &parameter.ident,
            GenericParam::Lifetime(_) => continue,
        };
        let is_listed = |group: &Vec<(Ident, _)>| group.iter().any(|(listed, _)| listed == name);
        if !options.groups.iter().all(is_listed) {
            let message = format!("list what `{name}` is compiled for: #[kernel({name} = [f32, f64])]");
            return Err(Error::new_spanned(name, message));
        }
        names.push(name.clone());
    }
    for (listed, arguments) in options.groups.iter().flatten() {
        if !names.contains(listed) {
            let message = format!("`{listed}` is neither a generic parameter of the kernel nor an option");
            return Err(Error::new_spanned(listed, message));
        }
        if arguments.is_empty() {
            return Err(Error::new_spanned(listed, format!("the list of `{listed}` is empty")));
        }
    }
    Ok(names)
}

/// A type with the function's name. A structure with named fields shares no namespace with functions, so both can have
/// the one name.
fn handle(function: &ItemFn, names: &[Ident]) -> TokenStream {
    let (visibility, name) = (&function.vis, &function.sig.ident);
    let document = format!("The handle of the kernel [`{name}`](fn@{name}), for launching it.");
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
    debug_assert!(names.len() <= function.sig.generics.params.len());
    quote! {
        #[doc = #document]
        #[allow(non_camel_case_types)]
        #visibility struct #name<#(#parameters),*> {
            _never: ::core::convert::Infallible,
            _types: ::core::marker::PhantomData<fn() -> (#(#types,)*)>,
        }
    }
}

/// Every way to take one argument from each list of a group, in the order of the generic parameters.
fn combinations(options: &Options, names: &[Ident]) -> Vec<Vec<GenericArgument>> {
    let groups = options.groups.iter();
    groups.flat_map(|group| combinations_of(group, names)).collect()
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

/// One entry: the kernel for these type arguments.
fn entry(
    options: &Options,
    function: &ItemFn,
    names: &[Ident],
    unit: &Ident,
    arguments: &[GenericArgument],
    parameters: &[Type],
) -> TokenStream {
    let (kernel, parentheses) = (&function.sig.ident, function.sig.paren_token.span.join());
    let words: Vec<String> = arguments.iter().map(word).collect();
    let name = [vec![kernel.to_string()], words].concat().join("_");
    let note = note(options, &name);
    let source = source_hash(options, function, arguments);
    let bound = |bound: &Option<Expr>| {
        let mut bound = bound.clone();
        if let Some(bound) = &mut bound {
            Concrete { names, arguments }.visit_expr_mut(bound);
        }
        bound.into_iter()
    };
    let (max_threads, min_blocks) = (bound(&options.max_threads), bound(&options.min_blocks));
    let safe = !matches!(function.sig.safety, syn::Safety::Unsafe(_));
    let (handle, function) = match arguments {
        [] => (quote!(#kernel), quote!(#kernel)),
        arguments => (quote!(#kernel<#(#arguments),*>), quote!(#kernel::<#(#arguments),*>)),
    };
    let types: Vec<Type> = parameters
        .iter()
        .map(|parameter| {
            let mut parameter = parameter.clone();
            Concrete { names, arguments }.visit_type_mut(&mut parameter);
            parameter
        })
        .collect();
    let types: Vec<_> = types.iter().map(checked).collect();
    // A type that is no `Param` makes the list wrong too; the compiler then names the list as it is written.
    let list = quote_spanned!(parentheses=> type Params = (#(#types,)*););
    let signature = quote! {
        ::cuda_std::signature::of(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), #name, #source, &[#((
            ::core::mem::size_of::<<#types as ::cuda_std::param::Param>::Head>(),
            ::core::mem::size_of::<<#types as ::cuda_std::param::Param>::Tail>(),
        )),*])
    };
    // The note is in a module: what stands in a block has no name there, and what stands beside it may have another.
    let (constant, signature) = if options.nested {
        (quote!(), signature)
    } else {
        let constant = format_ident!("__signature_{name}");
        (quote!(#constant = #signature), quote!(#constant))
    };
    let entry = format_ident!("entry_{name}");
    let numbers = 0..parameters.len();
    // The compiler names the function's line where the launch's arguments do not live as long as it wants.
    let span = kernel.span();
    let values: Vec<_> = numbers.clone().map(|i| format_ident!("p{i}", span = span)).collect();
    let call = quote_spanned!(span=> #function(#(#values),*));
    let (heads, tails) = (
        numbers.clone().map(|i| format_ident!("h{i}")),
        numbers.clone().map(|i| format_ident!("t{i}")),
    );
    quote! {
        ::cuda_std::__kernel_entry! {
            unit: #unit, entry: #entry, handle: #handle, safe: #safe, call: [#call], name: #name,
            source: #source, constant: [#constant], signature: [#signature],
            note: #note, max_threads: [#(#max_threads)*], min_blocks: [#(#min_blocks)*],
            params: [#((#values, #heads, #tails, #numbers): #types),*], list: [#list],
        }
    }
}

/// The type `ty` by way of `Param`, as which it is the same. Where it has no such implementation, the compiler then says so
/// of `ty`, all of it, and of nothing else.
fn checked(ty: &Type) -> TokenStream {
    let tokens = ty.to_token_stream();
    let first = tokens.clone().into_iter().next().map(|token| token.span());
    let last = tokens.into_iter().last().map(|token| token.span());
    let begin = quote_spanned!(first.unwrap_or_else(Span::call_site)=> <#ty as ::cuda_std::param::Param);
    let end = quote_spanned!(last.unwrap_or_else(Span::call_site)=> >::At<'static>);
    quote!(#begin #end)
}

/// The 64-bit FNV-1a hash of the kernel as it is written: its signature, its body, its launch bounds, and the type
/// arguments of this entry. `cuda_std::signature` makes the entry's signature of it.
///
/// Attributes are left out: what `cfg_attr` makes of them may differ between the device's build and the host's.
fn source_hash(options: &Options, function: &ItemFn, arguments: &[GenericArgument]) -> u64 {
    let mut texts = vec![
        function.sig.to_token_stream().to_string(),
        function.block.to_token_stream().to_string(),
        options.max_threads.to_token_stream().to_string(),
        options.min_blocks.to_token_stream().to_string(),
    ];
    texts.extend(options.arch.as_ref().map(LitStr::value));
    texts.extend(arguments.iter().map(|argument| argument.to_token_stream().to_string()));
    // A byte that is in no UTF-8 text ends each.
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What cuda_builder reads: the entry, its module, its signature, its launch bounds (filled in by `global_asm!`).
///
/// Every entry is a module of its own: the driver compiles a module as a whole when it is first used, and a program
/// should not wait for kernels that it does not launch.
fn note(options: &Options, name: &str) -> String {
    let mut note =
        format!("//cuda_builder entry={name} module={name} signature={{signature}} tensor_maps={{tensor_maps}}");
    if options.max_threads.is_some() {
        note += " max_threads={max_threads}";
    }
    if options.min_blocks.is_some() {
        note += " min_blocks={min_blocks}";
    }
    if let Some(arch) = &options.arch {
        note += &format!(" arch={}", arch.value());
    }
    note
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

/// Puts the type arguments in place of the generic parameters, and `'static` in place of every lifetime.
struct Concrete<'a> {
    names: &'a [Ident],
    arguments: &'a [GenericArgument],
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
