// SPDX-License-Identifier: MIT OR Apache-2.0
//! `#[kernel]`: one entry for each combination of the listed type arguments.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::visit_mut::VisitMut;
use syn::{Error, Expr, FnArg, GenericArgument, Ident, ItemFn, LitStr, ReturnType, Token, Type};

use crate::instances::{self, Concrete, Lists};
use crate::reads;

/// How many entries of a kernel are compiled together. One more unit costs some 50 ms, one more entry in a unit is
/// compiled again when another of them changes, and what one core compiles last should not take long.
const UNIT: usize = 16;

/// Parameters besides references that are what they are wherever they lie.
const VALUES: [&str; 17] = [
    "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "f16", "bf16", "f32", "f64", "bool",
    "Slice", "SliceMut",
];

/// What stands in the attribute's parentheses.
pub struct Options {
    /// The entries are those of each group together.
    lists: Lists,
    bounds: Bounds,
}

/// What stands there beside the lists.
#[derive(Default)]
struct Bounds {
    max_threads: Option<Expr>,
    min_blocks: Option<Expr>,
    /// The extents of a cluster, in blocks.
    cluster: Option<[Expr; 3]>,
    /// The one architecture whose instructions the kernel uses.
    arch: Option<LitStr>,
    /// Whether the kernel stands in a block.
    nested: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut bounds = Bounds::default();
        let lists = Lists::parse(input, |name, input| bounds.parse_one(name, input))?;
        if bounds.cluster.is_some() {
            let arch = bounds
                .arch
                .get_or_insert_with(|| LitStr::new("sm_90", Span::call_site()));
            check_has_clusters(arch)?;
        }
        Ok(Self { lists, bounds })
    }
}

impl Bounds {
    /// `nested`, or `name = value`; whether the name is one of these.
    fn parse_one(&mut self, name: &Ident, input: ParseStream<'_>) -> syn::Result<bool> {
        if name == "nested" {
            self.nested = true;
        } else if name == "max_threads" {
            input.parse::<Token![=]>()?;
            self.max_threads = Some(input.parse()?);
        } else if name == "min_blocks" {
            input.parse::<Token![=]>()?;
            self.min_blocks = Some(input.parse()?);
        } else if name == "cluster" {
            input.parse::<Token![=]>()?;
            self.cluster = Some(extents(input.parse()?)?);
        } else if name == "arch" {
            input.parse::<Token![=]>()?;
            self.arch = Some(input.parse()?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// What of it belongs to the kernel's source.
    fn texts(&self) -> Vec<String> {
        let bounds = [&self.max_threads, &self.min_blocks].map(|bound| bound.to_token_stream().to_string());
        let cluster = self.cluster.as_ref();
        let cluster = cluster.map(|[x, y, z]| quote!(cluster = (#x, #y, #z)).to_string());
        bounds
            .into_iter()
            .chain(self.arch.as_ref().map(LitStr::value))
            .chain(cluster)
            .collect()
    }
}

/// Of `8` or `(4, 2)` all three extents.
fn extents(given: Expr) -> syn::Result<[Expr; 3]> {
    let one = || syn::parse_quote!(1);
    let Expr::Tuple(tuple) = given else {
        return Ok([given, one(), one()]);
    };
    if !(1..=3).contains(&tuple.elems.len()) {
        let message = "a cluster has one to three extents: `cluster = 8`, `cluster = (4, 2)` or `cluster = (2, 2, 2)`";
        return Err(Error::new_spanned(tuple, message));
    }
    let mut given = tuple.elems.into_iter();
    Ok(std::array::from_fn(|_| given.next().unwrap_or_else(one)))
}

/// An error unless GPUs of the architecture have clusters.
fn check_has_clusters(arch: &LitStr) -> syn::Result<()> {
    let name = arch.value();
    let number = name
        .trim_start_matches("sm_")
        .trim_end_matches(['a', 'f'])
        .parse::<u32>();
    match number {
        Ok(number) if number < 90 => {
            let message = format!("GPUs have clusters from `sm_90` on, and not by `{name}`");
            Err(Error::new(arch.span(), message))
        }
        // What is no architecture, cuda_builder tells.
        _ => Ok(()),
    }
}

/// The function itself, its handle, and its entries.
pub fn expand(options: &Options, function: &ItemFn) -> syn::Result<TokenStream> {
    let parameters = parameter_types(function)?;
    let names = options.lists.names(function, "kernel", "kernel")?;
    let handle = instances::handle(function, "kernel", "launching it");
    let combinations = options.lists.combinations(&names);
    let units = combinations.chunks(UNIT).enumerate().map(|(number, combinations)| {
        let unit = format_ident!("__unit_{}_{number}", function.sig.ident);
        let entries = combinations
            .iter()
            .map(|arguments| entry(&options.bounds, function, &names, &unit, arguments, &parameters));
        quote! {
            ::cuda_std::__kernel_unit! { #unit }
            #(#entries)*
        }
    });
    let attributes = quote! {
        #[allow(clippy::too_many_arguments)]
        #[inline(always)]
    };
    let function = reads::hooked(function, &attributes);
    Ok(quote! {
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
            FnArg::Typed(input) => match &*input.ty {
                Type::Reference(reference) if reference.mutability.is_some() => {
                    let message = "all threads would have this `&mut` at the same time: take a `SliceMut<'_, T>`, whose \
                                   elements are written by `set(i, value)` and read by `get(i)`";
                    Err(Error::new_spanned(reference, message))
                }
                parameter => Ok(parameter.clone()),
            },
            FnArg::Receiver(this) => Err(Error::new_spanned(this, "a kernel is a free function, it has no self")),
        })
        .collect()
}

/// One entry: the kernel for these type arguments.
fn entry(
    bounds: &Bounds,
    function: &ItemFn,
    names: &[Ident],
    unit: &Ident,
    arguments: &[GenericArgument],
    parameters: &[Type],
) -> TokenStream {
    let (kernel, parentheses) = (&function.sig.ident, function.sig.paren_token.span.join());
    let name = instances::instance_name(function, arguments);
    let source = instances::source_hash(function, bounds.texts(), arguments);
    let concrete = |bound: &Expr| {
        let mut bound = bound.clone();
        Concrete { names, arguments }.visit_expr_mut(&mut bound);
        bound
    };
    let bound = |bound: &Option<Expr>| bound.as_ref().map(concrete).into_iter();
    let (max_threads, min_blocks) = (bound(&bounds.max_threads), bound(&bounds.min_blocks));
    let cluster: Vec<_> = bounds.cluster.iter().flatten().map(concrete).collect();
    let safe = !matches!(function.sig.safety, syn::Safety::Unsafe(_));
    let (handle, function) = instances::paths(kernel, arguments);
    let types = instances::concrete(parameters, names, arguments);
    let places: Vec<_> = types.iter().map(place).collect();
    let types: Vec<_> = types.iter().map(checked).collect();
    // A type that is no `Param` makes the list wrong too; the compiler then names the list as it is written.
    let list = quote_spanned!(parentheses=> type Params = (#(#types,)*););
    let sizes = quote! {
        &[#((
            ::core::mem::size_of::<<#types as ::cuda_std::param::Param>::Head>(),
            ::core::mem::size_of::<<#types as ::cuda_std::param::Param>::Tail>(),
        )),*]
    };
    let signature = quote! {
        ::cuda_std::signature::of(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), #name, #source, #sizes)
    };
    let note = note(bounds, &name);
    // All that follows is most of what an entry has to be checked for, and few need it.
    let (sizes, tensor_maps) = if places.iter().any(|place| place == "somewhere") {
        let tensor_maps = quote! {
            ::cuda_std::param::tensor_maps(#sizes, &[#(<#types as ::cuda_std::param::Param>::IS_TENSOR_MAP),*])
        };
        (quote!(const SIZES: &[(usize, usize)] = #sizes;), tensor_maps)
    } else {
        (quote!(), quote!(0))
    };
    // The note is in a module: what stands in a block has no name there, and what stands beside it may have another.
    let (constant, signature) = if bounds.nested {
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
            cluster: [#(#cluster),*],
            params: [#((#values, #heads, #tails, #numbers, #places): #types),*], list: [#list],
            sizes: [#sizes], tensor_maps: [#tensor_maps],
        }
    }
}

/// The type `ty` by way of `Param`, as which it is the same. Where it has no such implementation, the compiler then says so
/// of `ty`, all of it, and of nothing else.
fn checked(ty: &Type) -> TokenStream {
    let (first, last) = instances::ends(ty);
    let begin = quote_spanned!(first=> <#ty as ::cuda_std::param::Param);
    let end = quote_spanned!(last=> >::At<'static>);
    quote!(#begin #end)
}

/// Whether the entry has to find out where a parameter of this type is: `nowhere` for numbers and slices, which are most
/// parameters, `somewhere` for all else. Where an entry finds it out, that is most of what there is to check of it.
///
/// A type is known by its name alone. Where another one has that name and asks for its place, it does not compile.
fn place(ty: &Type) -> Ident {
    let word = match ty {
        Type::Reference(_) => "nowhere",
        Type::Path(path) => match path.path.segments.last() {
            Some(last) if VALUES.iter().any(|value| last.ident == value) => "nowhere",
            _ => "somewhere",
        },
        _ => "somewhere",
    };
    format_ident!("{word}")
}

/// What cuda_builder reads: the entry, its module, its signature, its launch bounds (filled in by `global_asm!`).
///
/// Every entry is a module of its own: the driver compiles a module as a whole when it is first used, and a program
/// should not wait for kernels that it does not launch.
fn note(bounds: &Bounds, name: &str) -> String {
    let mut note =
        format!("//cuda_builder entry={name} module={name} signature={{signature}} tensor_maps={{tensor_maps}}");
    if bounds.max_threads.is_some() {
        note += " max_threads={max_threads}";
    }
    if bounds.min_blocks.is_some() {
        note += " min_blocks={min_blocks}";
    }
    if bounds.cluster.is_some() {
        note += " cluster={cluster_x},{cluster_y},{cluster_z}";
    }
    if let Some(arch) = &bounds.arch {
        note += &format!(" arch={}", arch.value());
    }
    note
}

#[cfg(test)]
mod tests {
    use syn::parse_str;

    use super::*;

    #[test]
    fn a_cluster_has_three_extents() {
        let extents = |text: &str| {
            let given = extents(parse_str(text).unwrap());
            given.map(|extents| extents.map(|extent| extent.to_token_stream().to_string()).join(" "))
        };
        assert_eq!(extents("BLOCKS").unwrap(), "BLOCKS 1 1");
        assert_eq!(extents("(4, 2)").unwrap(), "4 2 1");
        assert_eq!(extents("(1, 2, 3)").unwrap(), "1 2 3");
        assert!(extents("()").is_err() && extents("(1, 1, 1, 1)").is_err());
    }

    #[test]
    fn clusters_are_for_hopper_and_later() {
        let options = |text: &str| parse_str::<Options>(text).map(|options| options.bounds.arch.unwrap().value());
        assert_eq!(options("cluster = 2").unwrap(), "sm_90");
        assert_eq!(options("cluster = 2, arch = \"sm_90a\"").unwrap(), "sm_90a");
        assert_eq!(options("arch = \"sm_100f\", cluster = (2, 2)").unwrap(), "sm_100f");
        let refused = options("cluster = 2, arch = \"sm_80\"").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "GPUs have clusters from `sm_90` on, and not by `sm_80`"
        );
    }

    #[test]
    fn only_what_is_known_by_name_is_nowhere() {
        for (ty, expected) in [
            ("f32", "nowhere"),
            ("half::bf16", "nowhere"),
            ("&'static [Problem]", "nowhere"),
            ("cuda_std::SliceMut<'_, <Op as ReduceOp<f32>>::Output>", "nowhere"),
            ("Constant<'_, f32, 9>", "somewhere"),
            ("TensorMap<'_, f16>", "somewhere"),
            ("RowPlan", "somewhere"),
            ("[u32; 3]", "somewhere"),
            ("(f32, Weights)", "somewhere"),
        ] {
            assert_eq!(place(&parse_str(ty).unwrap()), expected, "{ty}");
        }
    }
}
