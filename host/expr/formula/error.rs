// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a formula, and where.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What is wrong with a [`Formula`](super::Formula), and where in its text.
///
/// The message is one line with the column, counted from 1; [`marked`](Self::marked) shows the place.
#[derive(Clone, PartialEq, Eq)]
pub struct FormulaError {
    text: Arc<str>,
    span: Range<usize>,
    message: String,
}

/// The most characters of a line on either side of the place that is marked.
const BESIDE: usize = 40;

impl FormulaError {
    /// `span` are bytes of the text, from one character's first to another's.
    pub(super) fn new(text: &Arc<str>, span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            text: Arc::clone(text),
            span,
            message: message.into(),
        }
    }

    /// The place: bytes of the text.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The message without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The line of the text with the place, and below it a line that marks it by `^`. Of a long line what is near.
    pub fn marked(&self) -> String {
        let (_, column) = self.position();
        let line_start = self.line_start();
        let line = self.text[line_start..].split('\n').next().unwrap_or_default();
        let marked = self
            .span
            .len()
            .min((line_start + line.len()).saturating_sub(self.span.start));
        let marks = self.text[self.span.start..][..marked].chars().count().clamp(1, BESIDE);
        let skipped = column.saturating_sub(BESIDE);
        let shown = line.chars().skip(skipped).take(column - skipped + 2 * BESIDE);
        let mut shown: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let mut indent = column - skipped;
        if skipped > 0 {
            shown.insert(0, '…');
            indent += 1;
        }
        if line.chars().count() > column + 2 * BESIDE {
            shown.push('…');
        }
        format!("{shown}\n{}{}", " ".repeat(indent), "^".repeat(marks))
    }

    fn line_start(&self) -> usize {
        self.text[..self.span.start].rfind('\n').map_or(0, |end| end + 1)
    }

    /// The line, and the characters of it that are before the place; both from 0.
    fn position(&self) -> (usize, usize) {
        let start = self.line_start();
        let lines = self.text[..start].matches('\n').count();
        (lines, self.text[start..self.span.start].chars().count())
    }
}

impl fmt::Display for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        if line > 0 {
            write!(f, "line {}, ", line + 1)?;
        }
        write!(f, "column {}: {}", column + 1, self.message)
    }
}

/// The message and the place: it is what `unwrap` prints.
impl fmt::Debug for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}\n{}", self.marked())
    }
}

impl std::error::Error for FormulaError {}

/// `: did you mean …?` with the known name that is closest to `given`; nothing where none is close.
pub(super) fn suggestion<'n>(given: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    // Names are short; what is longer is none of them, and would take long to compare.
    if given.len() > 32 {
        return String::new();
    }
    // Of names of one or two letters all are near.
    let most = given.chars().count() / 3;
    let near = known
        .into_iter()
        .map(|name| (distance(given, name), name.len().abs_diff(given.len()), name));
    match near.filter(|&(distance, ..)| distance <= most).min() {
        Some((.., name)) => format!(": did you mean `{name}`?"),
        None => String::new(),
    }
}

/// How many characters have to be inserted, left out, replaced, or exchanged with their neighbour, to make one name of the
/// other. Capitals are the letters that they are of.
fn distance(a: &str, b: &str) -> usize {
    let [a, b] = [a, b].map(|name| name.to_lowercase().chars().collect::<Vec<_>>());
    // The distances of the beginnings of `a` to all beginnings of `b`: of the last three lengths.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(last[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_marked() {
        let error = |text: &str, span| FormulaError::new(&text.into(), span, "wrong");
        assert_eq!(error("ab + c", 5..6).to_string(), "column 6: wrong");
        assert_eq!(error("ab + c", 5..6).marked(), "ab + c\n     ^");
        assert_eq!(error("ab + c", 0..2).marked(), "ab + c\n^^");
        // At the end, on another line, behind characters of several bytes.
        assert_eq!(error("ab", 2..2).marked(), "ab\n  ^");
        assert_eq!(error("a +\n\tb", 5..6).to_string(), "line 2, column 2: wrong");
        assert_eq!(error("a +\n\tb", 5..6).marked(), " b\n ^");
        assert_eq!(error("äöü+x", 6..7).marked(), "äöü+x\n   ^");
        assert_eq!(error("", 0..0).marked(), "\n^");
        let long = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let marked = error(&long, 500..501).marked();
        let (line, marks) = marked.split_once('\n').unwrap();
        assert!(line.chars().count() < 200, "{marked}");
        assert_eq!(
            line.chars().position(|c| c == '!'),
            marks.chars().position(|c| c == '^')
        );
    }

    #[test]
    fn the_closest_name_is_suggested() {
        let known = ["tanh", "tan", "sinh", "maximum"];
        assert_eq!(suggestion("tahn", known), ": did you mean `tanh`?");
        assert_eq!(suggestion("maximun", known), ": did you mean `maximum`?");
        assert_eq!(suggestion("Tanh", known), ": did you mean `tanh`?");
        assert_eq!(suggestion("volume", known), "");
        assert_eq!(suggestion("x", ["y", "e"]), "");
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }
}
