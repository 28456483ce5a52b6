// SPDX-License-Identifier: MIT OR Apache-2.0
//! PTX text to tokens: just enough to find where things begin and end and which names they use.
//!
//! Byte by byte where most of a text is, and by a table, as build scripts are not optimised as a rule: then each call is one.

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
        let Some(&first) = rest.as_bytes().first() else {
            return Ok(None);
        };
        let (kind, length) = match first {
            _ if IS_WORD[first as usize] => (TokenKind::Word, word_length(rest)),
            b'/' if rest.starts_with("//") => (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len())),
            b'/' if rest.starts_with("/*") => {
                let length = rest[2..].find("*/");
                let length = length.ok_or_else(|| self.error("this comment never ends"))?;
                (TokenKind::Comment, length + 4)
            }
            b'"' => (TokenKind::Str, self.string_length(rest)?),
            _ => {
                let first = rest.chars().next().unwrap_or_default();
                (TokenKind::Punct(first), first.len_utf8())
            }
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
        let mut position = self.position;
        while position < text.len() {
            match text[position] {
                b'\n' => self.line += 1,
                b' ' | b'\t' | b'\r' | b'\x0c' => {}
                _ => break,
            }
            position += 1;
        }
        self.position = position;
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

/// Which bytes words are of: characters of one byte each.
static IS_WORD: [bool; 256] = {
    let mut is_word = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let character = byte as u8;
        is_word[byte] = character.is_ascii_alphanumeric() || matches!(character, b'_' | b'$' | b'%' | b'.');
        byte += 1;
    }
    is_word
};

/// Bytes of the word that `rest` starts with.
fn word_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut length = 1;
    while length < bytes.len() && IS_WORD[bytes[length] as usize] {
        length += 1;
    }
    length
}
