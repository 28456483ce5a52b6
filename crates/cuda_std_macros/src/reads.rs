// SPDX-License-Identifier: MIT OR Apache-2.0
//! Has the simulated GPU see what a kernel reads by `x[i]` of its parameter `x: &[T]`: an access of global memory, which
//! is a plain one of Rust's.
//!
//! `x[i]` becomes `*cuda_std::machine::element(&x[i])`, at the same place in the source, in the function that the host
//! compiles; the one that is compiled for GPUs stays as it is.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, FnArg, Ident, ItemFn, Pat, PatIdent, Type};

/// The function, or two of them, for GPUs and for the host, with these attributes.
pub fn hooked(function: &ItemFn, attributes: &TokenStream) -> TokenStream {
    let mut reads = Reads {
        slices: slices(function),
        found: false,
    };
    let mut for_host = function.clone();
    reads.visit_block_mut(&mut for_host.block);
    if !reads.found {
        return quote!(#attributes #function);
    }
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #attributes
        #function

        // What was not written by hand is not to be told to be written better.
        #[cfg(not(target_arch = "nvptx64"))]
        #[allow(clippy::borrow_deref_ref, clippy::explicit_auto_deref, clippy::needless_borrow)]
        #attributes
        #for_host
    }
}

/// The parameters `name: &[T]`, but those whose name is another value's as well somewhere in the body.
fn slices(function: &ItemFn) -> Vec<Ident> {
    let mut bound = Bound::default();
    bound.visit_block_mut(&mut function.block.clone());
    let names = function.sig.inputs.iter().filter_map(|input| {
        let FnArg::Typed(input) = input else { return None };
        let (Pat::Ident(name), Type::Reference(reference)) = (&*input.pat, &*input.ty) else {
            return None;
        };
        let is_slice = reference.mutability.is_none() && matches!(*reference.elem, Type::Slice(_));
        is_slice.then(|| name.ident.clone())
    });
    names.filter(|name| !bound.0.contains(name)).collect()
}

/// The names that patterns bind.
#[derive(Default)]
struct Bound(Vec<Ident>);

impl VisitMut for Bound {
    fn visit_pat_ident_mut(&mut self, node: &mut PatIdent) {
        self.0.push(node.ident.clone());
        visit_mut::visit_pat_ident_mut(self, node);
    }
}

struct Reads {
    slices: Vec<Ident>,
    found: bool,
}

impl Reads {
    fn is_read(&self, node: &Expr) -> bool {
        let Expr::Index(index) = node else { return false };
        let Expr::Path(path) = &*index.expr else { return false };
        self.slices.iter().any(|slice| path.path.is_ident(slice))
    }

    /// A place that is written, or whose address is taken: an error or no read.
    fn visit_place(&mut self, node: &mut Expr) {
        match node {
            Expr::Index(index) => visit_mut::visit_expr_index_mut(self, index),
            other => self.visit_expr_mut(other),
        }
    }
}

impl VisitMut for Reads {
    fn visit_expr_mut(&mut self, node: &mut Expr) {
        match &mut *node {
            Expr::Assign(assign) => {
                self.visit_place(&mut assign.left);
                self.visit_expr_mut(&mut assign.right);
            }
            Expr::Binary(binary) if assigns(&binary.op) => {
                self.visit_place(&mut binary.left);
                self.visit_expr_mut(&mut binary.right);
            }
            Expr::Reference(reference) if reference.mutability.is_some() => self.visit_place(&mut reference.expr),
            Expr::RawAddr(address) => self.visit_place(&mut address.expr),
            other => visit_mut::visit_expr_mut(self, other),
        }
        if self.is_read(node) {
            self.found = true;
            let read = quote_spanned!(node.span()=> (*::cuda_std::machine::element(&#node)));
            *node = Expr::Verbatim(read);
        }
    }
}

fn assigns(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitXorAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}
