// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words that a formula's text is made of.

use std::ops::Range;
use std::sync::Arc;

use super::error::FormulaError;

/// A word, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'t> {
    pub(super) word: Word<'t>,
    pub(super) span: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word<'t> {
    Int(u64),
    Float(f64),
    Name(&'t str),
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    End,
}

/// The longer ones first.
const SYMBOLS: [&str; 26] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+", "-", "*", "/", "%", "@", "~", "!", "&", "|", "^", "<", ">",
    "(", ")", ",", ";", "=",
];

/// What other languages write, and what is written here.
const ELSEWHERE: [(&str, &str); 8] = [
    ("&&", "`&` takes conditions, in parentheses: `(a > 0) & (b > 0)`"),
    ("||", "`|` takes conditions, in parentheses: `(a > 0) | (b > 0)`"),
    ("[", "elements and parts of an array have no notation here"),
    ("?", "`where(condition, a, b)` chooses"),
    ("−", "minus is `-`"),
    ("×", "times is `*`"),
    ("·", "times is `*`"),
    ("²", "the square is `**2`"),
];

/// The words of the text; the last is [`Word::End`].
pub(super) fn words(text: &Arc<str>) -> Result<Vec<Token<'_>>, FormulaError> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            words.push(Token {
                word: Word::End,
                span: at..at,
            });
            return Ok(words);
        };
        let is_number = first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()));
        let (word, len) = if is_number {
            let len = number_len(rest);
            let word = number(&rest[..len]).map_err(|message| FormulaError::new(text, at..at + len, message))?;
            (word, len)
        } else if first.is_alphabetic() || first == '_' {
            let len = name_len(rest);
            (Word::Name(&rest[..len]), len)
        } else {
            symbol(rest).map_err(|message| FormulaError::new(text, at..at + first.len_utf8(), message))?
        };
        let span = at..at + len;
        words.push(Token { word, span });
        at += len;
    }
}

fn symbol(text: &str) -> Result<(Word<'static>, usize), String> {
    if let Some((given, instead)) = ELSEWHERE.iter().find(|(given, _)| text.starts_with(given)) {
        return Err(format!("`{given}` is no operator: {instead}"));
    }
    match SYMBOLS.into_iter().find(|symbol| text.starts_with(symbol)) {
        Some(symbol) => Ok((Word::Symbol(symbol), symbol.len())),
        None => {
            let given = text.chars().next().unwrap_or_default();
            Err(format!("{given:?} is no part of a formula"))
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name_len(text: &str) -> usize {
    text.find(|c| !is_of_name(c)).unwrap_or(text.len())
}

/// The bytes of a number, with all that stands right behind it and could be a part of it or of a name.
fn number_len(text: &str) -> usize {
    let is_decimal = !text.starts_with("0x") && !text.starts_with("0X");
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let is_exponent_sign = is_decimal && matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
        if !is_of_name(c) && c != '.' && !is_exponent_sign {
            return at;
        }
        before = c;
    }
    text.len()
}

/// The number: in decimals, or an integer to the base 16, 8 or 2, as in Python.
fn number(text: &str) -> Result<Word<'static>, String> {
    let digits = text.replace('_', "");
    let radix = match digits.get(..2) {
        Some("0x" | "0X") => Some(16),
        Some("0o" | "0O") => Some(8),
        Some("0b" | "0B") => Some(2),
        _ => None,
    };
    let is_int = radix.is_some() || digits.bytes().all(|c| c.is_ascii_digit());
    let no_number = || match name_behind(text) {
        Some((number, name)) => {
            format!("`{text}` is no number: wanted an operator in between, as in `{number}*{name}`")
        }
        None => format!("`{text}` is no number"),
    };
    if !is_int {
        let number: f64 = digits.parse().map_err(|_| no_number())?;
        return match number.is_finite() {
            true => Ok(Word::Float(number)),
            false => Err(format!("`{text}` is beyond the numbers of f64; `inf` is infinity")),
        };
    }
    let parsed = match radix {
        Some(radix) => u64::from_str_radix(&digits[2..], radix),
        None => digits.parse(),
    };
    parsed.map(Word::Int).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow => {
            format!("`{text}` is beyond the integers of 64 bits; `{text}.0` is a float")
        }
        _ => no_number(),
    })
}

/// The two parts of `2x`.
fn name_behind(text: &str) -> Option<(&str, &str)> {
    let at = text.find(|c: char| c.is_alphabetic() || c == '_')?;
    let (number, name) = text.split_at(at);
    (number.parse::<f64>().is_ok() && name.chars().all(is_of_name)).then_some((number, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(text: &str) -> Result<Vec<String>, String> {
        let text: Arc<str> = text.into();
        let words = words(&text).map_err(|error| error.to_string())?;
        Ok(words.iter().map(|token| format!("{:?}", token.word)).collect())
    }

    #[test]
    fn numbers_are_pythons() {
        for (text, wanted) in [
            ("0", Word::Int(0)),
            ("007", Word::Int(7)),
            ("1_000", Word::Int(1000)),
            ("0xfF", Word::Int(255)),
            ("0b101", Word::Int(5)),
            ("0o17", Word::Int(15)),
            ("18446744073709551615", Word::Int(u64::MAX)),
            ("1.", Word::Float(1.0)),
            (".5", Word::Float(0.5)),
            ("1.5e-3", Word::Float(0.0015)),
            ("2E+2", Word::Float(200.0)),
            ("1e3", Word::Float(1000.0)),
        ] {
            let text: Arc<str> = text.into();
            let words = words(&text).unwrap();
            assert_eq!(words[0].word, wanted, "{text}");
            assert_eq!((words.len(), words[0].span.clone()), (2, 0..text.len()), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_says_why() {
        for (text, wanted) in [
            (
                "1 + 2x",
                "column 5: `2x` is no number: wanted an operator in between, as in `2*x`",
            ),
            ("1.2.3", "column 1: `1.2.3` is no number"),
            (
                "1e",
                "column 1: `1e` is no number: wanted an operator in between, as in `1*e`",
            ),
            ("1e+", "column 1: `1e+` is no number"),
            ("0xg", "column 1: `0xg` is no number"),
            ("1e999", "column 1: `1e999` is beyond the numbers of f64"),
            (
                "18446744073709551616",
                "beyond the integers of 64 bits; `18446744073709551616.0` is a float",
            ),
        ] {
            let message = words_of(text).unwrap_err();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }

    #[test]
    fn symbols_are_the_longest() {
        assert_eq!(
            words_of("a**-b<=c//2!=~d").unwrap().join(" "),
            r#"Name("a") Symbol("**") Symbol("-") Name("b") Symbol("<=") Name("c") Symbol("//") Int(2) Symbol("!=") Symbol("~") Name("d") End"#
        );
        assert_eq!(words_of(" \n\t").unwrap(), ["End"]);
        for (text, wanted) in [
            ("a $ b", "column 3: '$' is no part of a formula"),
            ("a && b", "column 3: `&&` is no operator: `&` takes conditions"),
            ("a[0]", "column 2: `[` is no operator: elements and parts"),
            ("a − b", "minus is `-`"),
            ("\u{7}", r"column 1: '\u{7}' is no part"),
            (".", "column 1: '.' is no part"),
        ] {
            let message = words_of(text).unwrap_err();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
