// SPDX-License-Identifier: MIT OR Apache-2.0
//! PTX tokens to top-level items.
//!
//! An item ends with its line (`.version`, `.target`, `.address_size`, `.file`), with the brace
//! that closes its body (functions, debug sections) or with a semicolon (all else, variables with
//! an initialiser in braces included). What an instruction or initialiser means does not matter
//! here: an item uses another when one of its words is the other's name.

use super::PtxError;
use super::lexer::{Lexer, Token, TokenKind};
use super::note::Note;

/// What an item is to the splitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// `.version`, `.target`, `.address_size`, `.file`, `.pragma`: belongs to every module.
    Global,
    /// A kernel, with the offset of its body's opening brace.
    Entry {
        /// Offset into the whole text.
        body: usize,
    },
    /// A function with a body that other texts can call.
    Function,
    /// Anything that modules have only if they use it.
    Other,
}

/// A top-level item.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) kind: ItemKind,
    /// Byte offsets of its first token and of its end.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The line on which it starts.
    pub(super) line: usize,
    /// The names it declares or defines: one, but for variables declared together and for debug
    /// sections, whose names are their labels.
    pub(super) names: Vec<&'a str>,
    /// All its words but registers and numbers, those of its names included.
    pub(super) words: Vec<&'a str>,
}

/// A PTX text, taken apart.
#[derive(Debug, Default)]
pub(super) struct Parsed<'a> {
    pub(super) items: Vec<Item<'a>>,
    pub(super) notes: Vec<Note<'a>>,
}

/// Takes `text` apart.
pub(super) fn parse(text: &str) -> Result<Parsed<'_>, PtxError> {
    let mut parsed = Parsed::default();
    let mut lexer = Lexer::new(text);
    while let Some(token) = lexer.next()? {
        let slice = &text[token.start..token.end];
        match token.kind {
            TokenKind::Comment => parsed.notes.extend(Note::parse(slice, token.line)?),
            TokenKind::Punct(';') => {}
            TokenKind::Word if matches!(slice, ".version" | ".target" | ".address_size" | ".file") => {
                parsed.items.push(Item {
                    kind: ItemKind::Global,
                    start: token.start,
                    end: lexer.skip_line(),
                    line: token.line,
                    names: Vec::new(),
                    words: Vec::new(),
                });
            }
            TokenKind::Word if slice.starts_with('.') => {
                let item = ItemParser::new(text, token).parse(&mut lexer)?;
                parsed.items.push(item);
            }
            _ => {
                let reason = format!("`{slice}` cannot stand at file scope");
                return Err(PtxError::malformed(token.line, reason));
            }
        }
    }
    Ok(parsed)
}

/// Reads one item that braces or a semicolon end.
struct ItemParser<'a> {
    text: &'a str,
    first: Token,
    /// The brackets that are open.
    open: Vec<(char, usize)>,
    /// Past the `=` of a variable: braces are values, not a body.
    initialiser: bool,
    /// The next plain word outside brackets is a name.
    name_next: bool,
    is_entry: bool,
    body: Option<usize>,
    names: Vec<&'a str>,
    words: Vec<&'a str>,
}

impl<'a> ItemParser<'a> {
    fn new(text: &'a str, first: Token) -> Self {
        let directive = &text[first.start..first.end];
        Self {
            text,
            first,
            open: Vec::new(),
            initialiser: false,
            name_next: true,
            is_entry: directive == ".entry",
            body: None,
            names: Vec::new(),
            words: vec![directive],
        }
    }

    fn parse(mut self, lexer: &mut Lexer<'a>) -> Result<Item<'a>, PtxError> {
        while let Some(token) = lexer.next()? {
            match token.kind {
                TokenKind::Word => self.word(&self.text[token.start..token.end]),
                TokenKind::Punct(c) => {
                    if self.punct(c, token)? {
                        return self.finish(token.end);
                    }
                }
                TokenKind::Str | TokenKind::Comment => {}
            }
        }
        let (what, line) = match self.open.last() {
            Some((bracket, line)) => (format!("this `{bracket}`"), *line),
            None => (format!("this `{}`", self.words[0]), self.first.line),
        };
        Err(PtxError::malformed(line, format!("{what} never ends")))
    }

    fn word(&mut self, word: &'a str) {
        let first = word.as_bytes()[0];
        // A register, or a number: half of all words, and no name, so that nobody looks them up.
        if first == b'%' || first.is_ascii_digit() {
            return;
        }
        self.words.push(word);
        if self.open.is_empty() {
            self.is_entry |= word == ".entry";
            if self.name_next && first != b'.' {
                self.names.push(word);
                self.name_next = false;
            }
        }
    }

    /// Whether the item ends here.
    fn punct(&mut self, c: char, token: Token) -> Result<bool, PtxError> {
        match c {
            '(' | '[' | '{' => {
                if c == '{' && self.open.is_empty() && !self.initialiser {
                    self.body = Some(token.start);
                }
                self.open.push((c, token.line));
            }
            ')' | ']' | '}' => {
                let opener = match c {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                if self.open.pop().map(|(open, _)| open) != Some(opener) {
                    let reason = format!("this `{c}` closes nothing");
                    return Err(PtxError::malformed(token.line, reason));
                }
                return Ok(c == '}' && self.open.is_empty() && !self.initialiser);
            }
            ':' if self.words[0] == ".section" => self.names.extend(self.words.last().copied()),
            ';' => return Ok(self.open.is_empty()),
            '=' if self.open.is_empty() => self.initialiser = true,
            // The second name of an alias is the one it stands for.
            ',' if self.open.is_empty() => self.name_next = self.words[0] != ".alias",
            _ => {}
        }
        Ok(false)
    }

    fn finish(self, end: usize) -> Result<Item<'a>, PtxError> {
        let error = |reason: &str| {
            let reason = format!("this `{}` {reason}", self.words[0]);
            PtxError::malformed(self.first.line, reason)
        };
        let kind = match (self.words[0], self.body) {
            (".pragma", _) => ItemKind::Global,
            (_, Some(body)) if self.is_entry => ItemKind::Entry { body },
            _ if self.is_entry => return Err(error("is an entry without a body")),
            (".visible", Some(_)) if self.words[1..].first() == Some(&".func") => ItemKind::Function,
            _ => ItemKind::Other,
        };
        if self.names.is_empty() && !matches!(self.words[0], ".pragma" | ".section") {
            return Err(error("has no name"));
        }
        Ok(Item {
            kind,
            start: self.first.start,
            end,
            line: self.first.line,
            names: self.names,
            words: self.words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<Vec<&str>> {
        let parsed = parse(text).unwrap();
        parsed.items.into_iter().map(|item| item.names).collect()
    }

    fn malformed(text: &str) -> (usize, String) {
        let error = parse(text).unwrap_err();
        (error.line, error.reason)
    }

    #[test]
    fn names_of_functions() {
        for (text, name) in [
            (".visible .entry k(.param .u64 .ptr .align 1 k_0)\n{ ret; }", "k"),
            (".entry k { ret; }", "k"),
            (".func (.param .b32 r) f(.param .b32 a)\n.noreturn;", "f"),
            (".weak .func f() .noreturn { { call.uni g, (); } }", "f"),
            (
                ".extern .func (.param .b32 r) vprintf\n(.param .b64 a, .param .b64 b)\n;",
                "vprintf",
            ),
            (".visible .entry k() .maxntid 256, 1, 1 .minnctapersm 2 { }", "k"),
        ] {
            assert_eq!(names(text), [[name]], "{text}");
        }
    }

    #[test]
    fn what_can_be_called_is_a_function() {
        for (text, kind) in [
            (
                ".visible .func (.param .b32 r) f(.param .b32 a) { ret; }",
                ItemKind::Function,
            ),
            (".visible .func (.param .b32 r) f(.param .b32 a);", ItemKind::Other),
            (".func f() { ret; }", ItemKind::Other),
            (".visible .global .u32 a[1] = {1};", ItemKind::Other),
        ] {
            assert_eq!(parse(text).unwrap().items[0].kind, kind, "{text}");
        }
    }

    #[test]
    fn names_of_variables_and_the_rest() {
        for (text, expected) in [
            (".global .align 4 .b8 a[8] = {1, 0xFF, b, 0f3F800000};", &["a"][..]),
            (".global .u64 p = generic(a), q = b+4, r;", &["p", "q", "r"]),
            (".global .attribute(.managed) .s32 m;", &["m"]),
            (".extern .shared .align 128 .b8 sh[];", &["sh"]),
            (".alias a, b;", &["a"]),
            (".pragma \"nounroll\";", &[]),
            (".section .debug_str { a: .b8 1 b:\n.b8 2 }", &["a", "b"]),
            (".section\t.debug_macinfo\t{\t}", &[]),
        ] {
            assert_eq!(names(text), [expected], "{text}");
        }
    }

    #[test]
    fn registers_and_numbers_are_no_words() {
        let text = ".func f() { mov.u32 %r1, 7; add.s32 %r2, %r1, sh; st.u32 [$L_1+4], 0f3F800000; }";
        let words = [".func", "f", "mov.u32", "add.s32", "sh", "st.u32", "$L_1"];
        assert_eq!(parse(text).unwrap().items[0].words, words);
    }

    #[test]
    fn strings_and_comments_hide_brackets() {
        let text = ".global .b8 s[4] = {\"}\\\"{\"}; // }\n/* { \n } */ .func f() { // }\n }\n\
                    .file 1 \"a{b.rs\"\n.const .u32 c;";
        assert_eq!(names(text), [vec!["s"], vec!["f"], vec![], vec!["c"]]);
    }

    #[test]
    fn notes_count_at_file_scope_only() {
        let text = "//cuda_builder entry=a module=m signature=1\n.entry a() { //cuda_builder wrong\n }";
        let parsed = parse(text).unwrap();
        assert_eq!((parsed.notes.len(), parsed.items.len()), (1, 1));
        assert_eq!((parsed.notes[0].line, parsed.items[0].line), (1, 2));
    }

    #[test]
    fn what_is_malformed_is_named_with_its_line() {
        for (text, line, reason) in [
            ("\n\n.func f() {\n { ret; }\n", 3, "this `{` never ends"),
            (".global .u32 a", 1, "this `.global` never ends"),
            (".func f(\n}", 2, "this `}` closes nothing"),
            ("\nret;", 2, "`ret` cannot stand at file scope"),
            (".func f() { }\n}", 2, "`}` cannot stand at file scope"),
            ("/* a\n b", 1, "this comment never ends"),
            ("\n.global .b8 s[1] = \"a\n;", 2, "this string never ends"),
            (".global .u32;", 1, "this `.global` has no name"),
            (".visible .entry k();", 1, "this `.visible` is an entry without a body"),
        ] {
            assert_eq!(malformed(text), (line, reason.to_owned()), "{text}");
        }
    }
}
