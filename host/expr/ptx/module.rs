// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a device function, or of a kernel, to its parts: header, functions, variables.

use super::Malformed;
use super::lexer::{Token, tokens};
use crate::expr::program::Program;

/// The PTX version and the architecture that a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    /// As in `.version 6.3`.
    pub version: (u32, u32),
    /// As in `.target sm_90a`: 90, and what follows.
    pub target: (u32, &'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A function's, or that of a variable of another module.
    Declaration,
    Variable,
    Function,
    Kernel,
}

/// A function, a variable, or the declaration of one.
#[derive(Clone, Debug)]
pub(super) struct Item<'a> {
    pub kind: Kind,
    /// Whether other modules, or the host, find it by its name.
    pub is_public: bool,
    pub name: &'a str,
    pub tokens: Vec<Token<'a>>,
}

impl<'a> Item<'a> {
    /// The names in it, its own among them, and local ones.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.tokens
            .iter()
            .filter(|token| token.is_name())
            .map(|token| token.text)
    }

    /// What it is declared as, if that is a kernel, or memory that its threads share.
    fn of_kernel(&self) -> Option<&'a str> {
        let mut words = self.tokens.iter().take(2).map(|token| token.text);
        words.find(|word| matches!(*word, ".entry" | ".shared"))
    }

    /// The text without its layout: what two of them are compared by.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a str> {
        self.tokens.iter().map(|token| token.text)
    }
}

/// A text, taken apart.
#[derive(Debug)]
pub(super) struct Module<'a> {
    pub text: &'a str,
    pub header: Header<'a>,
    pub items: Vec<Item<'a>>,
}

impl<'a> Module<'a> {
    /// Takes the text of a device function apart.
    pub(super) fn parse(text: &'a str) -> Result<Self, Malformed> {
        let module = Self::parse_any(text)?;
        match module.items.iter().find_map(Item::of_kernel) {
            None => Ok(module),
            Some(word) => Err(Malformed(format!(
                "`{word}` cannot stand in the text of a device function"
            ))),
        }
    }

    /// Takes the texts of a program's functions apart.
    pub(super) fn parse_all(program: &Program, texts: &'a [String]) -> Result<Vec<Self>, Malformed> {
        if texts.len() != program.functions.len() {
            return Err(Malformed("a text is missing".to_owned()));
        }
        let functions = texts.iter().zip(&program.functions);
        functions
            .map(|(text, function)| Self::parse(text).map_err(|error| error.of(function.name)))
            .collect()
    }

    /// Takes a text apart, which may be a kernel's.
    pub(super) fn parse_any(text: &'a str) -> Result<Self, Malformed> {
        let tokens = tokens(text)?;
        let (mut version, mut target, mut is_64_bit) = (None, None, false);
        let mut items = Vec::new();
        let mut rest = &tokens[..];
        while let Some(first) = rest.first() {
            let value = rest.get(1).map_or("", |token| token.text);
            let len = match first.text {
                ".version" => {
                    version = Some(version_of(value)?);
                    2
                }
                ".target" => {
                    target = Some(target_of(value)?);
                    2 + options(&rest[2..])
                }
                ".address_size" => {
                    is_64_bit = value == "64";
                    2
                }
                ".section" => item_len(rest)?,
                _ => {
                    let len = item_len(rest)?;
                    items.push(item(&rest[..len])?);
                    len
                }
            };
            rest = rest.get(len..).unwrap_or_default();
        }
        let (Some(version), Some(target), true) = (version, target, is_64_bit) else {
            let reason = "there is no header with a version, a target and addresses of 64 bits";
            return Err(Malformed(reason.to_owned()));
        };
        let header = Header { version, target };
        Ok(Self { text, header, items })
    }

    /// Item `name`, its definition if there is one.
    pub(super) fn find(&self, name: &str) -> Option<&Item<'a>> {
        let named = || self.items.iter().filter(|item| item.name == name);
        named()
            .find(|item| item.kind != Kind::Declaration)
            .or_else(|| named().next())
    }
}

/// The version `6.3`.
fn version_of(text: &str) -> Result<(u32, u32), Malformed> {
    let parts = text
        .split_once('.')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| Malformed(format!("`{text}` is no version of PTX")))
}

/// The target `sm_90a`.
fn target_of(text: &str) -> Result<(u32, &str), Malformed> {
    let parse = || {
        let rest = text.strip_prefix("sm_")?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((rest[..digits].parse().ok()?, &rest[digits..]))
    };
    parse().ok_or_else(|| Malformed(format!("`{text}` is no target")))
}

/// The tokens of `, debug` and the like.
fn options(rest: &[Token<'_>]) -> usize {
    let pairs = rest.chunks(2);
    2 * pairs.take_while(|pair| pair[0].text == ",").count()
}

/// The tokens of the item that `rest` begins with.
fn item_len(rest: &[Token<'_>]) -> Result<usize, Malformed> {
    let (mut depth, mut is_value) = (0_i32, false);
    for (i, token) in rest.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "=" if depth == 0 => is_value = true,
            _ => {}
        }
        if depth == 0 && (token.text == ";" || token.text == "}" && !is_value) {
            return Ok(i + 1);
        }
    }
    Err(Malformed(format!("`{}` never ends", rest[0].text)))
}

/// The item of these tokens.
fn item<'a>(tokens: &[Token<'a>]) -> Result<Item<'a>, Malformed> {
    let is_linkage = |token: &&Token<'_>| matches!(token.text, ".visible" | ".extern" | ".weak" | ".common");
    let linkage = tokens.iter().take_while(is_linkage).count();
    let is_extern = tokens[..linkage].iter().any(|token| token.text == ".extern");
    let is_defined = tokens[tokens.len() - 1].text == "}";
    let kind = match tokens[linkage].text {
        ".func" if is_defined => Kind::Function,
        ".func" => Kind::Declaration,
        ".global" | ".const" if is_extern => Kind::Declaration,
        ".global" | ".const" | ".shared" => Kind::Variable,
        ".entry" => Kind::Kernel,
        other => {
            return Err(Malformed(format!(
                "`{other}` cannot stand in the text of a device function"
            )));
        }
    };
    let mut depth = 0;
    let mut name = None;
    for token in tokens {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            // Those of a kernel are between the numbers of its launch bounds.
            "," if depth == 0 && kind != Kind::Kernel => {
                return Err(Malformed("variables are declared together".to_owned()));
            }
            _ if depth == 0 && name.is_none() && token.is_name() => name = Some(token.text),
            _ => {}
        }
    }
    Ok(Item {
        kind,
        is_public: linkage > 0,
        name: name.ok_or_else(|| Malformed(format!("a `{}` has no name", tokens[linkage].text)))?,
        tokens: tokens.to_vec(),
    })
}
