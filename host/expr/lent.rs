// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts whose destructor may run when what they borrow is gone.

use std::marker::PhantomData;
use std::mem;
use std::ops::Deref;

use super::graph::Part;

/// A part of arrays that are lent for `'a`, and may be used only as long; but it may be dropped later.
///
/// In `x = (x.expr() * 2.0).eval()?` the expression is a temporary value: it is dropped at the end of the statement, when `x` has
/// been replaced. A [`Part<'a>`](Part) would have to be gone by then. It has `dyn Elements + 'a` in it and a destructor of its own,
/// of both of which the compiler takes for granted that they use what they borrow. Nothing here has a destructor that names
/// `'a`, and there is none that uses what is lent: see [`Elements`](super::graph::Elements), whose implementations promise that.
pub(super) struct Lent<'a> {
    /// A `Part<'a>`, which is given out as nothing else.
    part: Part<'static>,
    /// Covariant, as the part is.
    _arrays: PhantomData<&'a ()>,
}

impl<'a> Lent<'a> {
    pub(super) fn new(part: Part<'a>) -> Self {
        // SAFETY: the types differ in a lifetime alone, and so have one layout. The longer one is never made use of: the field is
        // private to this module, which gives the part out by `deref` and `into_part`, as a `Part` of `'a` or of less, since `Lent`
        // is covariant in it; and both take a `Lent<'a>`, which is no longer there for safe code when `'a` is over. What is left
        // then is its destructor, that of a `Part`. Beside arrays a part has numbers, shapes, functions and operations, which
        // are `'static` (`Operation: Any`), and counted references to other parts and arrays. `Node::drop` and what it calls take
        // apart which parts there are, and ask no array for anything. An array is `dyn Elements`, of which dropping reads
        // nothing that is lent, by that trait's contract; what an array shares with others, its memory and its stream, is
        // counted and `'static`. References that a part holds, dangling by then, lie behind an `Arc` and are neither read nor
        // moved when that goes, as with any `Arc<&T>` of std, which may be dropped when `T` is gone.
        let part = unsafe { mem::transmute::<Part<'a>, Part<'static>>(part) };
        Self {
            part,
            _arrays: PhantomData,
        }
    }

    pub(super) fn into_part(self) -> Part<'a> {
        self.part
    }
}

impl<'a> Deref for Lent<'a> {
    type Target = Part<'a>;

    fn deref(&self) -> &Part<'a> {
        &self.part
    }
}
