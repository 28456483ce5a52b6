// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formulas: expressions as text, as Python and NumPy write them, of arrays whose types are known at run time only.

mod apply;
mod arrays;
mod error;
mod functions;
mod ints;
mod lexer;
mod numbers;
mod operations;
mod parser;
mod syntax;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use self::functions::CONSTANTS;
use self::syntax::{Kind, Statement, Term};
use super::any::AnyExpr;

pub use self::error::FormulaError;

/// An expression as text: `tanh(a) * 2 + row`.
///
/// [`parse`](Self::parse) checks what can be checked of the text alone, and [`apply`](Self::apply) makes an expression of it
/// and of what its names stand for.
///
/// # Syntax
///
/// It is Python's. From what is computed last to what is computed first:
///
/// | | |
/// |---|---|
/// | `<` `<=` `>` `>=` `==` `!=` | comparisons, of which two do not stand side by side |
/// | `\|`, then `^`, then `&` | "or", "xor" and "and" of integers and conditions, which stand in parentheses: `(a > 0) & (b > 0)` |
/// | `<<` `>>` | shifts of integers |
/// | `+` `-` | |
/// | `*` `/` `//` `%` `@` | `/` of integers is `f64`; `//` is rounded down, and `%` is what that leaves; `@` is the product of matrices |
/// | `-x` `+x` `~x` | `-x**2` is `-(x**2)`; `!x` is `~x` |
/// | `**` | the power, from the right to the left: `2**3**2` is `2**9` |
///
/// Functions are those of [`Expr`](crate::Expr) by their names, and by NumPy's where those are others: `ln` and `log`, `asin`
/// and `arcsin`, `exp_m1` and `expm1`, `clamp(x, lo, hi)` and `clip`, `select(c, a, b)` and `where`, `mul_add(a, b, c)` and
/// `fma`, `rem` and `fmod`. `sign` is NumPy's, with 0 for 0. `round` is Rust's, away from zero where two are equally near, and
/// `rint` to the even one. Types are functions too, as Rust and as NumPy call them: `f32(x)`, `float32(x)`, `u8(x)`, `bool(x)`.
/// `a @ b`, or `matmul(a, b)`, is the product of matrices, vectors or batches of matrices, as NumPy's, of floats or `i32`;
/// `softmax(x, axis=-1)`, `log_softmax` and `logsumexp` are of rows along an axis, or of all elements.
/// `cumsum(x, axis=0)` and `cumprod` have sums and products of the elements so far, along an axis or else of all as one axis.
/// `index(axis)` is an element's place along an axis of the result, as `i64`; -1 is the last axis. Arguments can be given by
/// name: `clip(x, lo=0, hi=1)`.
///
/// `pi`, `e`, `inf`, `nan`, `true` and `false` are constants, unless they are names of inputs. `m = a * 2; m + b` gives names to
/// parts, which are computed once.
///
/// # Types
///
/// Two numbers have the type together that [`Promote`](super::Promote) says; where there is none (a condition and a number,
/// `u64` and a signed integer) one has to be cast. Numbers of the text have none, as Python's in NumPy 2: an integer takes the
/// type that it stands beside, and has to be one of its values; a float takes that of floats, and makes integers `f64`. Among
/// themselves they are computed as integers that do not overflow and as `f64`. A result without a type is `i64` or `f64`, and
/// so are both numbers of `where(c, 1, 0)`. Functions of floats make integers `f64` (NumPy takes `f16` and `f32` for narrow
/// ones).
///
/// The square, the third power, the reciprocal and the square root have functions of their own: `x**2`, `x**3`, `x**-1`,
/// `x**0.5`. A shift by an array's element is by as many bits, modulo the type's.
///
/// # Examples
///
/// ```
/// use warpsmith::expr::{AnyExpr, Formula};
/// use warpsmith::ndarray::array;
/// use warpsmith::{Device, DeviceArray};
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let a = DeviceArray::from_ndarray(device.default_stream(), &array![[1.0f32, -2.0], [3.0, 4.0]])?;
/// let row = DeviceArray::from_ndarray(device.default_stream(), &array![10u8, 20])?;
/// let formula = Formula::parse("maximum(a, 0)*2 + row")?;
/// let AnyExpr::F32(sum) = formula.apply(&[("a", a.expr().into()), ("row", row.expr().into())])? else {
///     unreachable!("f32 and u8 are f32 together");
/// };
/// assert_eq!(sum.eval()?.to_ndarray()?, array![[12.0, 20.0], [16.0, 28.0]].into_dyn());
///
/// let error = Formula::parse("tahn(a) + 1").unwrap_err();
/// assert_eq!(error.to_string(), "column 1: unknown function `tahn`: did you mean `tanh`?");
/// assert_eq!(error.marked(), "tahn(a) + 1\n^^^^");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Formula {
    text: Arc<str>,
    statements: Vec<Statement>,
    terms: Vec<Term>,
}

impl Formula {
    /// Reads a text.
    ///
    /// # Errors
    ///
    /// Where the text is none of a formula: a word that is not wanted where it is, an unknown function, a wrong number of
    /// arguments. Or it is longer than 64 KiB or nests deeper than 256 operands.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let text = Arc::from(text);
        let (statements, terms) = parser::parse(&text)?;
        Ok(Self {
            text,
            statements,
            terms,
        })
    }

    /// The names that stand for inputs, once each: those that are neither constants nor bound by the formula before. An input
    /// of a constant's name is taken all the same.
    pub fn names(&self) -> Vec<&str> {
        let names = self.free_names().into_iter().map(|(name, _)| name);
        names.filter(|name| !is_constant(name)).collect()
    }

    /// Whether an input of that name would be read.
    pub fn reads(&self, name: &str) -> bool {
        self.free_names().iter().any(|(free, _)| *free == name)
    }

    /// Whether inputs of those names are all that it wants, before there are any.
    ///
    /// # Errors
    ///
    /// A name that is none of them, with its place in the text.
    pub fn check_names(&self, given: &[&str]) -> Result<(), FormulaError> {
        let free = self.free_names();
        let unknown = free
            .iter()
            .find(|(name, _)| !given.contains(name) && !is_constant(name));
        unknown.map_or(Ok(()), |(name, term)| {
            let message = apply::unknown_name(name, given.iter().copied());
            Err(self.error(term, message))
        })
    }

    /// The names that are not bound before, and where they are first.
    fn free_names(&self) -> Vec<(&str, &Term)> {
        let mut bound: Vec<&str> = Vec::new();
        let mut free: Vec<(&str, &Term)> = Vec::new();
        let mut statements = self.statements.iter().peekable();
        for (id, term) in self.terms.iter().enumerate() {
            if let Kind::Name(name) = &term.kind
                && !bound.contains(&&**name)
                && free.iter().all(|(free, _)| *free != &**name)
            {
                free.push((name, term));
            }
            let ended = statements.next_if(|statement| statement.root == id);
            bound.extend(ended.and_then(|statement| statement.name.as_deref()));
        }
        free
    }

    /// The formula of these inputs. Those that it does not name are left alone.
    ///
    /// # Errors
    ///
    /// A name that nothing is given for, types that an operation does not take or that have none together, shapes that do not
    /// fit, arrays of different devices; each with its place in the text. What went wrong in an input where that is read.
    pub fn apply<'a>(&self, inputs: &[(&str, AnyExpr<'a>)]) -> Result<AnyExpr<'a>, FormulaError> {
        apply::apply(self, inputs).map(AnyExpr::of)
    }

    fn error(&self, term: &Term, message: String) -> FormulaError {
        FormulaError::new(&self.text, term.span.clone(), message)
    }
}

fn is_constant(name: &str) -> bool {
    CONSTANTS.iter().any(|(constant, _)| *constant == name)
}

/// The formula with no more parentheses than it needs, by the library's names of functions.
impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        syntax::write(f, &self.statements, &self.terms)
    }
}

/// Whether they are the same but for spaces, parentheses and names of functions.
impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        (&self.statements, &self.terms) == (&other.statements, &other.terms)
    }
}
