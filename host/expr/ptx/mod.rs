// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs as PTX: the one kernel that computes all of a program's outputs in one pass over its inputs.
//!
//! A kernel is put together from texts. What loads and stores elements and tells threads apart is written here
//! ([`kernel`](mod@kernel), [`memory`]); what is done to the elements are the PTX texts of device functions, which rustc
//! has compiled ahead of time. The driver's compiler never inlines a function, not even one of a single instruction, so
//! [`inline`] copies their bodies to where they are called. Some operations are written here: of 16-bit floats, two of them in one
//! instruction ([`halves`]); divisions of several `f32` by one number ([`divide`]); and smallest and largest `f32` of a reduction,
//! where the GPU has an instruction for those that are NaN if a number is ([`reduce`]). [`module`] and [`body`] read the texts,
//! and refuse whatever they do not know; [`link`] brings along what the functions use.
//!
//! A kernel knows no sizes: arrays, numbers, lengths and strides come in one block of parameters ([`arguments`]). The same
//! program gives the same text, byte for byte, which the driver finds in its cache.
//!
//! How threads share the elements:
//!
//! * *Vectors*, where the program is aligned: a thread has [`vector_len`] neighbours, one access to each array. Of an array
//!   with one axis, what is left behind the last vector is taken one by one, by threads of its own. Where such a program has
//!   much to compute, and its array is long and of whole vectors, a thread has two of them; and where it computes something of a very
//!   long array of 16-bit floats. Where full blocks have all elements,
//!   the program says so ([`Vectors`](super::program::Vectors)), and no thread has bounds, nor the code for single elements.
//!   Of many arrays that are several times the cache a thread has a word each ([`Program::by_words`]).
//! * *Spread*, where it is not: a thread has up to 4 elements of a row, as far apart as there are threads beside it, so that
//!   neighbouring threads access neighbouring elements. A thread that has fewer computes its first one again in their place,
//!   which leaves no branches and no second copy of the code, and stores it once.
//!
//! Either way threads go along a row, and then along the next one. Where an input has its neighbours along another axis, as the
//! transpose in `x + yᵀ`, a row of it takes one element of each sector of memory. So the program is *transposed*: threads go
//! through tiles of 64 rows, neighbours along that axis, and of a few vectors, or of 32 and as many groups of neighbours as a sector
//! has room for. A warp, or at least a block, has then whole sectors of all inputs. Where rows do not begin with a vector of the
//! output ([`Program::ragged`]), a thread whose vector has elements of two rows takes those of its own one by one. What lies beyond the ends of a row, or behind the last
//! row, are threads without elements. Where tiles are whole, such an input is read by vectors along the other axis, too, and
//! threads find their elements in shared memory ([`turned`]).

mod addresses;
mod arguments;
mod body;
mod divide;
mod exponential;
mod halves;
mod inline;
mod kernel;
mod lexer;
mod link;
mod memory;
mod module;
pub(in crate::expr) mod order;
mod reading;
mod reduce;
mod shares;
mod steps;
pub(in crate::expr) mod stream;
#[cfg(test)]
mod tests;
pub(in crate::expr) mod together;
mod turned;
mod writer;

use thiserror::Error;

use super::program::{GROUP, Layout, Program, Step};

pub(super) use arguments::{
    Arguments, Parts, TILE_ROWS, config, goes_by_vectors, has_tiles, parameters, reading_parameters, vectors,
};
pub(super) use kernel::kernel;
pub(super) use order::begin_with_last;
pub(super) use reading::{FIRST, reading};
pub(super) use reduce::{CLUSTERS, STASH};
#[cfg(test)]
pub(super) use tests::{has_clusters_in_tests, is_recorded, run_again, run_together_again, with_clusters};
pub(super) use turned::MOST_TURNED;

/// The name of the kernel.
pub(super) const NAME: &str = "expression";

/// The most elements of a launch. The threads, too, then have numbers below 2^31, as the kernel's divisions want it.
pub(super) const MOST: usize = 1 << 30;

/// Bytes that memory gives and takes at once.
pub(super) const SECTOR: usize = 32;

/// Why there is no kernel for a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(super) struct Malformed(String);

impl Malformed {
    /// The error, as one of that device function.
    fn of(self, function: &str) -> Self {
        Self(format!("device function `{function}`: {self}"))
    }
}

/// Bytes of a vector of the largest elements: what matters of an address is where between such vectors it is.
pub(super) const ACCESS: usize = 16;

/// Bytes of an access where a program [goes by words](Program::by_words), whose elements are none longer.
const WORD: usize = 4;

/// The most calls that a thread's code has where its vectors are of more than [`SHORT`] elements. The code grows with both,
/// and with it the time that the driver's compiler takes, while wider accesses of bytes and halves gain a tenth.
const CALLS: usize = 64;

/// The vectors that are always worth it.
const SHORT: usize = 4;

/// Elements that a thread computes at a time, if the program is aligned: a 16-byte access of the largest type that is
/// accessed by vectors, and no more than 4 where the program calls many functions.
pub(super) fn vector_len(program: &Program) -> usize {
    let rows = program.inputs.iter().filter(|input| input.layout == Layout::Rows);
    let outputs = program
        .outputs
        .iter()
        .enumerate()
        .filter(|(output, _)| !program.is_alone(*output));
    let outputs = outputs.map(|(_, &value)| program.types[usize::from(value)]);
    let sizes = rows.map(|input| input.ty).chain(outputs).map(|ty| ty.bytes());
    let access = if program.by_words { WORD } else { ACCESS };
    let mut len = access / sizes.max().unwrap_or(access);
    if program.reduce.is_some() {
        return len.min(GROUP);
    }
    if len <= SHORT {
        return len;
    }
    let is_counted = |step: &&Step| match step {
        Step::Call(function, _) => !halves::is_cast(program.functions[usize::from(*function)]),
        _ => false,
    };
    let calls = program.steps.iter().filter(is_counted).count();
    while len > SHORT && len * calls > CALLS {
        len /= 2;
    }
    len
}

/// What an aligned program's rows are a multiple of.
pub(super) fn row_multiple(program: &Program) -> usize {
    match &program.reduce {
        Some(reduce) if !reduce.form.has_columns() => GROUP,
        _ => vector_len(program),
    }
}
