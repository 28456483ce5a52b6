// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the words of a formula to its tree, by Python's precedence.

use std::ops::Range;
use std::sync::Arc;

use super::error::{FormulaError, suggestion};
use super::functions::{self, COMPARISONS, Function, INFIXES, Infix, POWER, PREFIXES};
use super::lexer::{Token, Word, words};
use super::syntax::{Id, Kind, Statement, Term};

type Result<T> = std::result::Result<T, FormulaError>;

/// The most bytes of a text.
pub(super) const MAX_LEN: usize = 1 << 16;

/// The most operands, in parentheses or behind an operator, that the parser is in at a time: each takes some of the stack.
const MAX_DEPTH: usize = 256;

/// Words that are operators in Python, and what is written here.
const PYTHON_WORDS: [(&str, &str); 5] = [
    ("and", "`&` takes conditions, in parentheses: `(a > 0) & (b > 0)`"),
    ("or", "`|` takes conditions, in parentheses: `(a > 0) | (b > 0)`"),
    ("not", "`~` takes a condition, in parentheses: `~(a > 0)`"),
    ("if", "`where(condition, a, b)` chooses"),
    ("is", "`==` compares"),
];

/// The statements of a text and their terms.
pub(super) fn parse(text: &Arc<str>) -> Result<(Vec<Statement>, Vec<Term>)> {
    if text.len() > MAX_LEN {
        let message = format!("a formula of {} bytes, wanted at most {MAX_LEN}", text.len());
        return Err(FormulaError::new(text, 0..0, message));
    }
    let mut parser = Parser {
        text,
        words: words(text)?,
        at: 0,
        depth: 0,
        terms: Vec::new(),
    };
    let statements = parser.statements()?;
    Ok((statements, parser.terms))
}

struct Parser<'t> {
    text: &'t Arc<str>,
    words: Vec<Token<'t>>,
    /// The next word.
    at: usize,
    depth: usize,
    terms: Vec<Term>,
}

impl<'t> Parser<'t> {
    fn word(&self) -> Word<'t> {
        self.words[self.at].word
    }

    /// The word behind the next one.
    fn second(&self) -> Option<Word<'t>> {
        self.words.get(self.at + 1).map(|token| token.word)
    }

    /// Takes the next word, of which the last is never taken, and gives its place.
    fn take(&mut self) -> Range<usize> {
        self.at += 1;
        self.words[self.at - 1].span.clone()
    }

    fn take_if(&mut self, symbol: &'static str) -> Option<Range<usize>> {
        (self.word() == Word::Symbol(symbol)).then(|| self.take())
    }

    fn push(&mut self, kind: Kind, span: Range<usize>) -> Id {
        self.terms.push(Term { kind, span });
        self.terms.len() - 1
    }

    fn error<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T> {
        Err(FormulaError::new(self.text, span, message))
    }

    /// The error for a next word that is not what is wanted.
    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let Token { word, span } = &self.words[self.at];
        if let Word::Name(name) = word
            && let Some((_, instead)) = PYTHON_WORDS.iter().find(|(word, _)| word == name)
        {
            return self.error(span.clone(), format!("`{name}` is no operator: {instead}"));
        }
        let given = match word {
            Word::End => "nothing".into(),
            _ => format!("`{}`", &self.text[span.clone()]),
        };
        let hint = match word {
            Word::Symbol("=") => "; `==` compares",
            _ => "",
        };
        self.error(span.clone(), format!("given {given}, wanted {wanted}{hint}"))
    }

    fn statements(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            let first = self.at;
            let name = self.bound_name();
            let is_result = name.is_none();
            let root = self.expression(COMPARISONS)?;
            statements.push(Statement { name, root });
            if !matches!(self.word(), Word::End | Word::Symbol(";")) {
                return self.unexpected("an operator, `;` or the end");
            }
            while self.take_if(";").is_some() {}
            match (is_result, self.word() == Word::End) {
                (true, true) => return Ok(statements),
                (false, false) => {}
                (true, false) => {
                    let message = "a result with more behind it, wanted a name for it, as in `m = a*2; m + b`";
                    return self.error(self.words[first].span.clone(), message);
                }
                (false, true) => return self.unexpected("a formula for the result, behind a `;`"),
            }
        }
    }

    /// The name that the next statement is given.
    fn bound_name(&mut self) -> Option<Box<str>> {
        let (Word::Name(name), Some(Word::Symbol("="))) = (self.word(), self.second()) else {
            return None;
        };
        self.at += 2;
        Some(name.into())
    }

    /// Notes that the parser is one operand deeper.
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        match self.depth > MAX_DEPTH {
            true => self.error(
                self.words[self.at].span.clone(),
                format!("more than {MAX_DEPTH} operands inside of each other; `name = …;` takes parts out"),
            ),
            false => Ok(()),
        }
    }

    /// Operands and the operators between them, of that level or higher.
    fn expression(&mut self, level: u8) -> Result<Id> {
        self.enter()?;
        let mut left = self.prefixed()?;
        while let Some(infix) = self.infix(level) {
            let span = self.take();
            let right = self.expression(infix.level + 1)?;
            left = self.push(Kind::Infix(infix, left, right), span);
            if infix.level == COMPARISONS && self.infix(COMPARISONS).is_some() {
                let message = "comparisons stand alone: wanted `(a < b) & (b < c)` for `a < b < c`, and each condition \
                               beside `&` and `|` in parentheses";
                return self.error(self.words[self.at].span.clone(), message);
            }
        }
        self.depth -= 1;
        Ok(left)
    }

    /// The next word, if it is an operator of that level or higher.
    fn infix(&self, level: u8) -> Option<&'static Infix> {
        let Word::Symbol(given) = self.word() else {
            return None;
        };
        INFIXES
            .iter()
            .find(|infix| infix.symbol == given && infix.level >= level)
    }

    /// An operand with the operators before it.
    fn prefixed(&mut self) -> Result<Id> {
        let prefix = PREFIXES
            .iter()
            .find(|prefix| self.word() == Word::Symbol(prefix.symbol));
        let Some(prefix) = prefix else {
            return self.power();
        };
        self.enter()?;
        let span = self.take();
        let operand = self.prefixed()?;
        self.depth -= 1;
        Ok(self.push(Kind::Prefix(prefix, operand), span))
    }

    fn power(&mut self) -> Result<Id> {
        let base = self.atom()?;
        let Some(span) = self.take_if(POWER.symbol) else {
            return Ok(base);
        };
        self.enter()?;
        let exponent = self.prefixed()?;
        self.depth -= 1;
        Ok(self.push(Kind::Infix(&POWER, base, exponent), span))
    }

    fn atom(&mut self) -> Result<Id> {
        let kind = match self.word() {
            Word::Int(number) => Kind::Int(number),
            Word::Float(number) => Kind::Float(number),
            Word::Name(name) if self.second() == Some(Word::Symbol("(")) => return self.call(name),
            Word::Name(name) if PYTHON_WORDS.iter().all(|(word, _)| *word != name) => Kind::Name(name.into()),
            Word::Symbol("(") => {
                self.take();
                let inner = self.expression(COMPARISONS)?;
                return match self.take_if(")") {
                    Some(_) => Ok(inner),
                    None => self.unexpected("an operator or `)`"),
                };
            }
            _ => return self.unexpected("a number, a name or `(`"),
        };
        let span = self.take();
        Ok(self.push(kind, span))
    }

    /// A function and its arguments.
    fn call(&mut self, name: &str) -> Result<Id> {
        let span = self.take();
        let Some(function) = functions::find(name) else {
            let hint = match PYTHON_WORDS.iter().find(|(word, _)| *word == name) {
                Some((_, instead)) => format!(": {instead}"),
                None => suggestion(name, functions::names()),
            };
            return self.error(span, format!("unknown function `{name}`{hint}"));
        };
        self.take();
        let mut arguments = vec![None; function.parameters().count()];
        let mut is_by_name = false;
        let mut next = 0;
        while self.take_if(")").is_none() {
            let (at, place) = match self.argument_name(name, function)? {
                Some(named) => {
                    is_by_name = true;
                    named
                }
                None if is_by_name => return self.unexpected("an argument by its name, as the one before it is"),
                None => (next, self.words[self.at].span.clone()),
            };
            let usage = || function.usage(name);
            match arguments.get(at) {
                None => return self.error(place, format!("more arguments than {} takes", usage())),
                Some(Some(_)) => return self.error(place, format!("an argument of {} for the second time", usage())),
                Some(None) => arguments[at] = Some(self.expression(COMPARISONS)?),
            }
            next += 1;
            if self.take_if(",").is_none() && self.word() != Word::Symbol(")") {
                return self.unexpected("an operator, `,` or `)`");
            }
        }
        let missing = function
            .wanted
            .iter()
            .zip(&arguments)
            .find(|(_, given)| given.is_none());
        if let Some((missing, _)) = missing {
            let message = format!(
                "`{name}` without its argument `{missing}`, wanted {}",
                function.usage(name)
            );
            return self.error(span, message);
        }
        Ok(self.push(Kind::Call(function, arguments), span))
    }

    /// Which of the function's arguments the next one is, where it has a name, and the name's place.
    fn argument_name(&mut self, of: &str, function: &Function) -> Result<Option<(usize, Range<usize>)>> {
        let (Word::Name(name), Some(Word::Symbol("="))) = (self.word(), self.second()) else {
            return Ok(None);
        };
        let Some(at) = function.parameters().position(|parameter| parameter == name) else {
            let hint = suggestion(name, function.parameters());
            let message = format!("unknown argument `{name}` of {}{hint}", function.usage(of));
            return self.error(self.words[self.at].span.clone(), message);
        };
        let span = self.take();
        self.take();
        Ok(Some((at, span)))
    }
}
