// SPDX-License-Identifier: MIT OR Apache-2.0
//! PTX text to tokens: just enough to find where things begin and end and which names they use.
//!
//! Byte by byte where most of a text is, as build scripts are not optimised as a rule.

use super::PtxError;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A directive, instruction, register, number or name: a run of word characters.
    Word,
    /// A string, quotes included.
    Str,
    /// A comment of either form, whole.
    Comment,
    /// Any other single character.
    Punct(char),
}

/// A piece of the text, by byte offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The line on which it starts, counted from 1.
    pub(super) line: usize,
}

/// Reads tokens off the front of a text.
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            position: 0,
            line: 1,
        }
    }

    /// The next token, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token>, PtxError> {
        self.skip_blank();
        let rest = &self.text[self.position..];
        let Some(first) = rest.chars().next() else {
            return Ok(None);
        };
        let (kind, length) = if is_word(first) {
            // All such characters are bytes of their own.
            let mut length = 1;
            while rest.as_bytes().get(length).is_some_and(|&byte| is_word(byte.into())) {
                length += 1;
            }
            (TokenKind::Word, length)
        } else if rest.starts_with("//") {
            (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(inside) = rest.strip_prefix("/*") {
            let length = inside.find("*/");
            let length = length.ok_or_else(|| self.error("this comment never ends"))?;
            (TokenKind::Comment, length + 4)
        } else if first == '"' {
            (TokenKind::Str, self.string_length(rest)?)
        } else {
            (TokenKind::Punct(first), first.len_utf8())
        };
        let (start, line) = (self.position, self.line);
        // No other token goes over lines.
        match kind {
            TokenKind::Comment => self.advance(length),
            _ => self.position += length,
        }
        Ok(Some(Token {
            kind,
            start,
            end: self.position,
            line,
        }))
    }

    /// Skips to the end of the line, for the few directives that no semicolon ends, and gives the
    /// offset of that end.
    pub(super) fn skip_line(&mut self) -> usize {
        let rest = &self.text[self.position..];
        self.advance(rest.find('\n').unwrap_or(rest.len()));
        self.position
    }

    /// Goes to what is not blank.
    fn skip_blank(&mut self) {
        let text = self.text.as_bytes();
        while let Some(&byte) = text.get(self.position) {
            match byte {
                b'\n' => self.line += 1,
                _ if byte.is_ascii_whitespace() => {}
                _ => break,
            }
            self.position += 1;
        }
    }

    /// Bytes of the string that `rest` starts with. PTX strings do not span lines.
    fn string_length(&self, rest: &str) -> Result<usize, PtxError> {
        let mut escaped = false;
        for (offset, c) in rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return Ok(offset + 1),
                _ => {}
            }
        }
        Err(self.error("this string never ends"))
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.position..self.position + bytes];
        self.line += passed.matches('\n').count();
        self.position += bytes;
    }

    fn error(&self, reason: &str) -> PtxError {
        PtxError::malformed(self.line, reason)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}
