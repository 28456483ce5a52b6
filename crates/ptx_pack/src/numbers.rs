// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers of registers, by how new they are.
//!
//! LLVM numbers the registers of a function upwards, `%r1`, `%r2`, …, nearly in the order in which they are written, and most
//! are read soon after. So of each name of one or two letters (`%r`, `%rd`) a number is
//!
//! * *new*, where the name has not had it: a step of 1 to [`STEPS`] up from the newest is one byte;
//! * *known*, where it has: one of the newest or up to [`STEPS`]` - 1` below is one byte.
//!
//! All other numbers stay digits. The bytes are of `0x80` and more, with which PTX is not written. A text that has such bytes
//! all the same, in a string say, stays as it is, behind the byte [`AS_IT_IS`].
//!
//! Both directions go through the text once, from one `%` to the next, and learn the same of it. What is between is
//! searched and copied by the standard library, which is optimised where this crate may not be.

use std::io::{BufRead, Write};

/// How far numbers may be from the newest.
const STEPS: u32 = 32;

/// The byte for the next number; those behind it are for larger steps.
const NEW: u8 = 0x80;

/// The byte for the newest number; those behind it are for numbers below.
const KNOWN: u8 = NEW + STEPS as u8;

/// The first byte of a text whose numbers are digits.
const AS_IT_IS: u8 = 0xff;

/// The digits of numbers that are learnt, so that tables have some limit.
const DIGITS: usize = 6;

/// The letters of the alphabet.
const LETTERS: usize = 26;

/// What has been seen of one name.
#[derive(Clone, Default)]
struct Numbers {
    newest: u32,
    /// Whether it has had each number.
    known: Vec<bool>,
}

impl Numbers {
    /// For each name, at its place.
    fn of_all_names() -> Vec<Self> {
        vec![Self::default(); LETTERS * (1 + LETTERS)]
    }

    fn knows(&self, number: u32) -> bool {
        self.known.get(number as usize) == Some(&true)
    }

    /// The byte for a number, if there is one.
    #[cfg(any(test, feature = "pack"))]
    fn byte(&self, number: u32) -> Option<u8> {
        let (newest, is_known) = (self.newest, self.knows(number));
        if is_known && number <= newest && newest - number < STEPS {
            return Some(KNOWN + (newest - number) as u8);
        }
        if !is_known && number > newest && number - newest <= STEPS {
            return Some(NEW + (number - newest - 1) as u8);
        }
        None
    }

    /// The inverse of `byte`; `None` for bytes that it does not give.
    fn number(&self, byte: u8) -> Option<u32> {
        let (number, is_known) = match byte < KNOWN {
            true => (self.newest + 1 + u32::from(byte - NEW), false),
            false if byte < KNOWN + STEPS as u8 => (self.newest.checked_sub(u32::from(byte - KNOWN))?, true),
            false => return None,
        };
        (self.knows(number) == is_known).then_some(number)
    }

    /// Notes that the number has come.
    fn learn(&mut self, number: u32) {
        if self.knows(number) {
            return;
        }
        let place = number as usize;
        if self.known.len() <= place {
            self.known.resize(place + 1, false);
        }
        self.known[place] = true;
        self.newest = number;
    }
}

/// The letters behind a `%` that are a name whose numbers are learnt: how many, and the name's place among all.
fn name(text: &[u8]) -> Option<(usize, usize)> {
    let letter = |at: usize| match text.get(at) {
        Some(&byte) if byte.is_ascii_lowercase() => Some(usize::from(byte - b'a')),
        _ => None,
    };
    let first = letter(0)?;
    match letter(1) {
        None => Some((1, first)),
        Some(second) if letter(2).is_none() => Some((2, LETTERS * (1 + second) + first)),
        Some(_) => None,
    }
}

/// How many digits the text begins with, and the number that they are, if it is one to learn.
fn digits(text: &[u8]) -> (usize, Option<u32>) {
    let (mut len, mut number) = (0, 0);
    while len < text.len() && text[len].is_ascii_digit() {
        if len < DIGITS {
            number = 10 * number + u32::from(text[len] - b'0');
        }
        len += 1;
    }
    let is_plain = len == 1 || (2..=DIGITS).contains(&len) && text[0] != b'0';
    (len, is_plain.then_some(number))
}

/// Moves what is before the next name from `rest` to the end of `text`, and the name; gives the name's place, or `None` at the
/// end.
fn copy_to_name(rest: &mut &[u8], text: &mut Vec<u8>) -> Option<usize> {
    loop {
        let copied = rest.read_until(b'%', text).expect("reading memory does not fail");
        if copied == 0 {
            return None;
        }
        if let Some((len, place)) = name(rest) {
            copy(rest, len, text);
            return Some(place);
        }
    }
}

/// Moves `len` bytes from `rest` to the end of `text`.
fn copy(rest: &mut &[u8], len: usize, text: &mut Vec<u8>) {
    let (copied, left) = rest.split_at(len);
    text.extend_from_slice(copied);
    *rest = left;
}

/// The text with numbers by how new they are.
#[cfg(any(test, feature = "pack"))]
pub(crate) fn encode(text: &str) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(text.len() + 1);
    let mut rest = text.as_bytes();
    if !text.is_ascii() {
        encoded.push(AS_IT_IS);
        encoded.extend_from_slice(rest);
        return encoded;
    }
    let mut names = Numbers::of_all_names();
    while let Some(place) = copy_to_name(&mut rest, &mut encoded) {
        let (len, Some(number)) = digits(rest) else { continue };
        match names[place].byte(number) {
            Some(byte) => {
                encoded.push(byte);
                rest = &rest[len..];
            }
            None => copy(&mut rest, len, &mut encoded),
        }
        names[place].learn(number);
    }
    encoded
}

/// The inverse of `encode`; `None` where `encoded` is nothing that it gives.
pub(crate) fn decode(encoded: &[u8]) -> Option<String> {
    if let [AS_IT_IS, text @ ..] = encoded {
        return String::from_utf8(text.to_vec()).ok();
    }
    let mut text = Vec::with_capacity(encoded.len() + encoded.len() / 8);
    let mut rest = encoded;
    let mut names = Numbers::of_all_names();
    while let Some(place) = copy_to_name(&mut rest, &mut text) {
        let number = match rest.first() {
            Some(&byte) if byte >= NEW => {
                let number = names[place].number(byte)?;
                write!(text, "{number}").ok()?;
                rest = &rest[1..];
                number
            }
            _ => match digits(rest) {
                (len, Some(number)) => {
                    copy(&mut rest, len, &mut text);
                    number
                }
                (_, None) => continue,
            },
        };
        names[place].learn(number);
    }
    String::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text, and what it is encoded as.
    fn assert_encoded(text: &str, expected: &[u8]) {
        assert_eq!(encode(text), expected, "{text:?}");
        assert_eq!(decode(expected).as_deref(), Some(text), "{text:?}");
    }

    #[test]
    fn numbers_are_named_by_how_new_they_are() {
        assert_encoded("%r1, %r2, %r2, %r1;", b"%r\x80, %r\x80, %r\xa0, %r\xa1;");
        // Names are told apart.
        assert_encoded("%r1 %rd1 %d1 %p2 %rd1", b"%r\x80 %rd\x80 %d\x80 %p\x81 %rd\xa0");
        // Up to so many steps up, and down, and digits beyond.
        assert_encoded("%r32 %r65 %r66 %r34 %r66", b"%r\x9f %r65 %r\x80 %r34 %r66");
        assert_encoded("%r32 %r1 %r33 %r32 %r2 %r33", b"%r\x9f %r1 %r\x9f %r\xa1 %r2 %r33");
    }

    #[test]
    fn what_is_no_number_stays() {
        for text in [
            "",
            "%",
            "%r",
            "%tid.x %r<12>; %r %",
            "%r01 %r00 %r1234567 12 r1 %R1 %env1",
            "%r0 %r0",
        ] {
            let known = text.replace("%r0 %r0", "%r0 %r\u{a0}");
            let expected: Vec<u8> = known.chars().map(|char| char as u8).collect();
            assert_encoded(text, &expected);
        }
    }

    #[test]
    fn a_text_with_other_characters_stays() {
        assert_encoded("é%r1", b"\xff\xc3\xa9%r1");
    }

    #[test]
    fn what_no_text_gives_is_refused() {
        for encoded in [
            b"\x80".as_slice(),
            b"%r\xa0",
            b"%r\xc0",
            b"%r\x80 %r\xa2",
            b"a\xff",
            b"\xff\xff",
            b"%r\xff",
            b"%rdd\x80",
        ] {
            assert_eq!(decode(encoded), None, "{encoded:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(
            pieces in prop::collection::vec(
                prop_oneof![
                    prop::sample::select(vec!["%r", "%rd", "%p", "%tid", " ", "\n", "%", "<", "0"]).prop_map(str::to_owned),
                    (0u32..100).prop_map(|number| number.to_string()),
                    any::<u64>().prop_map(|number| number.to_string()),
                ],
                0..200,
            ),
        ) {
            let text = pieces.concat();
            let decoded = decode(&encode(&text));
            prop_assert_eq!(decoded, Some(text));
        }

        /// Of any bytes: a text or none, and no panic.
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(text) = decode(&bytes) {
                prop_assert!(text.len() + 1 >= bytes.len());
            }
        }
    }
}
