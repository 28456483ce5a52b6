// SPDX-License-Identifier: MIT OR Apache-2.0
//! A formula as a tree, and the tree as text.
//!
//! The tree lies in a list in which each part is behind its own parts, so that nothing that goes through it recurses: a
//! sum of many numbers is as deep as it is long.

use std::fmt;
use std::ops::Range;

use super::functions::{ATOM, COMPARISONS, Function, Infix, POWER, PREFIX, Prefix};

/// The place of a part in the list.
pub(super) type Id = usize;

/// A part of a formula.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) kind: Kind,
    /// Of an operator, or of the name of a function: where the text has it.
    pub(super) span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Int(u64),
    Float(f64),
    Name(Box<str>),
    Prefix(&'static Prefix, Id),
    Infix(&'static Infix, Id, Id),
    /// With the function's arguments, in the order of its parameters.
    Call(&'static Function, Vec<Option<Id>>),
}

/// What stands between two `;`.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// The name that it is given; the last one has none.
    pub(super) name: Option<Box<str>>,
    /// The last of its terms, which are those behind the last statement's.
    pub(super) root: Id,
}

/// Places do not count.
impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl PartialEq for Statement {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, self.root) == (&other.name, other.root)
    }
}

/// The text of a part, and how strongly it holds together.
struct Text {
    text: String,
    level: u8,
}

impl Text {
    /// The text, in parentheses if it holds together less than that.
    fn at_least(self, level: u8) -> String {
        match self.level < level {
            true => format!("({})", self.text),
            false => self.text,
        }
    }
}

/// Writes the statements, with no more parentheses than are needed.
pub(super) fn write(f: &mut fmt::Formatter<'_>, statements: &[Statement], terms: &[Term]) -> fmt::Result {
    let mut statements = statements.iter().peekable();
    let mut texts: Vec<Option<Text>> = Vec::with_capacity(terms.len());
    for term in terms {
        let text = text(&term.kind, |id| texts[id].take().expect("a part of one other part"));
        texts.push(Some(text));
        let Some(statement) = statements.next_if(|statement| statement.root + 1 == texts.len()) else {
            continue;
        };
        let Text { text, .. } = texts[statement.root].take().expect("a part of no other");
        match &statement.name {
            Some(name) => write!(f, "{name} = {text}; ")?,
            None => f.write_str(&text)?,
        }
    }
    Ok(())
}

fn text(kind: &Kind, mut part: impl FnMut(Id) -> Text) -> Text {
    let (text, level) = match kind {
        Kind::Int(number) => (number.to_string(), ATOM),
        Kind::Float(number) => (format!("{number:?}"), ATOM),
        Kind::Name(name) => (name.to_string(), ATOM),
        Kind::Prefix(prefix, operand) => {
            let operand = part(*operand).at_least(PREFIX);
            (format!("{}{operand}", prefix.symbol), PREFIX)
        }
        Kind::Infix(infix, left, right) => {
            let level = infix.level;
            // A power's exponent may have a sign; comparisons stand beside none.
            let (left_level, right_level) = match level {
                COMPARISONS => (level + 1, level + 1),
                _ if *infix == &POWER => (ATOM, PREFIX),
                _ => (level, level + 1),
            };
            // What is on the left may be long, and is not copied.
            let mut text = part(*left).at_least(left_level);
            text += &format!(" {} {}", infix.symbol, part(*right).at_least(right_level));
            (text, level)
        }
        Kind::Call(function, arguments) => {
            let given = function.parameters().zip(arguments);
            let given = given.enumerate().filter_map(|(at, (name, &argument))| {
                let text = part(argument?).text;
                Some(match at < function.wanted.len() {
                    true => text,
                    false => format!("{name}={text}"),
                })
            });
            let given: Vec<String> = given.collect();
            (format!("{}({})", function.name, given.join(", ")), ATOM)
        }
    };
    Text { text, level }
}
