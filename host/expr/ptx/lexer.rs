// SPDX-License-Identifier: MIT OR Apache-2.0
//! PTX text to tokens.

use super::Malformed;

/// A word (an instruction, a directive, a register, a number, a name), a string, or a single other character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub text: &'a str,
    /// Its offset in the text.
    pub start: usize,
}

impl Token<'_> {
    /// Whether it is a name of something, rather than a register, a number, a directive or a character.
    pub(super) fn is_name(&self) -> bool {
        is_name(self.text)
    }
}

/// As [`Token::is_name`].
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'))
}

/// The tokens of `text`, without comments and without where in the source a line comes from.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, Malformed> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let line = rest.find('\n').unwrap_or(rest.len());
        let (len, is_token) = match first {
            _ if first.is_whitespace() => (first.len_utf8(), false),
            _ if rest.starts_with("//") => (line, false),
            _ if rest.starts_with("/*") => (ended(rest, "/*", "*/")?, false),
            '"' => (ended(rest, "\"", "\"")?, true),
            _ if is_word(first) => (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true),
            _ => (first.len_utf8(), true),
        };
        let word = &rest[..len];
        if matches!(word, ".loc" | ".file") {
            at += line;
            continue;
        }
        if is_token {
            tokens.push(Token { text: word, start: at });
        }
        at += len;
    }
    Ok(tokens)
}

/// The length of what `rest` begins with, between `open` and `close`.
fn ended(rest: &str, open: &str, close: &str) -> Result<usize, Malformed> {
    match rest[open.len()..].find(close) {
        Some(inside) => Ok(open.len() + inside + close.len()),
        None => Err(Malformed(format!("a `{open}` is never closed"))),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}
