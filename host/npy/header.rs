// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a .npy file: a magic string, a version, and a Python dictionary.
//!
//! What is read is checked before anything is allocated for it, and the parser takes a time that is linear in the
//! header's length: it knows the three keys and their values, and no other Python.

use std::io::Read;

use crate::error::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy refuses longer headers too.
const MAX_LEN: usize = 10_000;

/// How deep brackets may nest: two levels are what a header of plain numbers has.
const MAX_NESTING: usize = 4;

/// The elements of a file begin at a multiple of this.
const ALIGNMENT: usize = 64;

/// What a .npy file says of its array, ahead of the elements.
///
/// # Examples
///
/// ```
/// use warpsmith::npy::Header;
///
/// # fn main() -> warpsmith::Result<()> {
/// let header = Header::new("<f4", &[2, 3]);
/// let bytes = header.to_bytes();
/// assert_eq!(bytes.len(), 128);
/// assert_eq!(Header::read(&mut &bytes[..], "memory")?, header);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The element type: NumPy's name with the byte order before it, such as `<f4`. Of a structure, the list of its
    /// fields as the file has it.
    pub descr: String,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// Whether the elements lie in Fortran order: the first axis is contiguous.
    pub fortran_order: bool,
}

impl Header {
    /// The header of an array in C order.
    pub fn new(descr: &str, shape: &[usize]) -> Self {
        Self {
            descr: descr.into(),
            shape: shape.into(),
            fortran_order: false,
        }
    }

    /// Reads a header, and leaves the reader where the elements begin. `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if there is none, or it is none of the three versions that NumPy writes, or longer than 10,000
    /// bytes; [`Error::Io`] if the reader fails.
    pub fn read(reader: &mut dyn Read, file: &str) -> Result<Self> {
        let no_header = |problem: String| Error::File {
            file: file.into(),
            problem,
        };
        let io = |source| Error::Io {
            file: file.into(),
            source,
        };
        let mut start = Vec::new();
        reader.take(8).read_to_end(&mut start).map_err(io)?;
        if start.is_empty() {
            return Err(no_header("is empty".into()));
        }
        if !start.starts_with(MAGIC) {
            return Err(no_header("is no .npy file (it does not start with \\x93NUMPY)".into()));
        }
        let truncated = || no_header("truncated in the header".into());
        // The later versions have four bytes for the length.
        let length = match *start.get(6..8).ok_or_else(truncated)? {
            [1, _] => 2,
            [2 | 3, _] => 4,
            [major, minor] => {
                let problem = format!("is a .npy file of version {major}.{minor}, wanted 1.0, 2.0 or 3.0");
                return Err(no_header(problem));
            }
            _ => unreachable!("two bytes"),
        };
        let mut len = Vec::new();
        reader.take(length).read_to_end(&mut len).map_err(io)?;
        if len.len() < length as usize {
            return Err(truncated());
        }
        let len = len.iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
        if len > MAX_LEN {
            let problem = format!("the header claims {len} bytes, wanted at most {MAX_LEN}");
            return Err(no_header(problem));
        }
        let mut text = Vec::new();
        reader.take(len as u64).read_to_end(&mut text).map_err(io)?;
        if text.len() < len {
            return Err(truncated());
        }
        Parser::new(&text)
            .and_then(Parser::header)
            .map_err(|problem| no_header(format!("no valid .npy header: {problem}")))
    }

    /// The header as NumPy writes it, to where the elements begin: at a multiple of 64 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let axes = match *self.shape {
            [len] => format!("{len},"),
            _ => self.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        };
        let descr = match self.is_structure() {
            true => self.descr.clone(),
            false => format!("'{}'", self.descr),
        };
        let order = if self.fortran_order { "True" } else { "False" };
        let mut text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': ({axes}), }}");
        // Two bytes for the length, as in the first version, do for every shape that is short enough to be read again.
        let prefix = MAGIC.len() + 4;
        let len = (prefix + text.len() + 1).next_multiple_of(ALIGNMENT) - prefix;
        text.extend(std::iter::repeat_n(' ', len - 1 - text.len()));
        text.push('\n');
        match u16::try_from(len) {
            Ok(len) => [MAGIC, &[1, 0], &len.to_le_bytes(), text.as_bytes()].concat(),
            Err(_) => [MAGIC, &[2, 0], &(len as u32).to_le_bytes(), text.as_bytes()].concat(),
        }
    }

    /// Whether the elements are structures, and `descr` is the list of their fields.
    pub fn is_structure(&self) -> bool {
        self.descr.starts_with('[')
    }

    /// Bytes of the elements, of that many bytes each, unless an address cannot reach them. Axes of length 0 do not hide
    /// that of the others, which ndarray would refuse.
    pub fn byte_len(&self, element: usize) -> Option<usize> {
        let mut filled = self.shape.iter().filter(|&&len| len > 0);
        let spanned = filled.try_fold(element, |bytes, &len| bytes.checked_mul(len))?;
        isize::try_from(spanned).ok()?;
        Some(if self.shape.contains(&0) { 0 } else { spanned })
    }
}

/// Reads the dictionary.
struct Parser<'a> {
    text: &'a str,
}

type Parsed<T> = std::result::Result<T, String>;

const NO_DICTIONARY: &str = "is no Python dictionary";

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8]) -> Parsed<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is no text".to_string())?;
        let mut depth = 0usize;
        for byte in text.bytes() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > MAX_NESTING {
                return Err("brackets nest too deep".into());
            }
        }
        Ok(Self { text })
    }

    fn header(mut self) -> Parsed<Header> {
        let (mut descr, mut shape, mut fortran_order) = (None, None, None);
        if !self.eat('{') {
            return Err("metadata is not a dict".into());
        }
        while !self.eat('}') {
            let key = self.string()?;
            if !self.eat(':') {
                return Err(NO_DICTIONARY.into());
            }
            let is_new = match key {
                "descr" => descr.replace(self.descr()?).is_none(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_none(),
                "shape" => shape.replace(self.shape()?).is_none(),
                other => return Err(format!("unknown key: {}", shortened(other))),
            };
            if !is_new {
                return Err(format!("key given twice: {key}"));
            }
            if !self.eat(',') && !self.peek('}') {
                return Err(NO_DICTIONARY.into());
            }
        }
        if !self.text.trim_start().is_empty() {
            return Err(NO_DICTIONARY.into());
        }
        let missing = |key| format!("missing key: {key}");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        })
    }

    fn peek(&mut self, wanted: char) -> bool {
        self.text = self.text.trim_start();
        self.text.starts_with(wanted)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek(wanted);
        if found {
            self.text = &self.text[wanted.len_utf8()..];
        }
        found
    }

    /// A text in either quotes, without escapes.
    fn string(&mut self) -> Parsed<&'a str> {
        let quote = match () {
            () if self.eat('\'') => '\'',
            () if self.eat('"') => '"',
            () => return Err(NO_DICTIONARY.into()),
        };
        let end = self.text.find([quote, '\\', '\n']).ok_or(NO_DICTIONARY)?;
        let (string, rest) = self.text.split_at(end);
        self.text = rest.strip_prefix(quote).ok_or(NO_DICTIONARY)?;
        Ok(string)
    }

    /// A name, or the list of a structure's fields as it stands.
    fn descr(&mut self) -> Parsed<String> {
        if !self.peek('[') {
            if self.text.is_empty() {
                return Err(NO_DICTIONARY.into());
            }
            let name = self
                .string()
                .map_err(|_| "descr is neither a text nor a list".to_string())?;
            // A name that looked like the list of a structure would become one.
            return match name.starts_with('[') {
                true => Err(format!("descr is no name of a type: {}", shortened(name))),
                false => Ok(name.into()),
            };
        }
        let mut depth = 0;
        for (at, byte) in self.text.bytes().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let (list, rest) = self.text.split_at(at + 1);
                self.text = rest;
                return Ok(list.into());
            }
        }
        Err(NO_DICTIONARY.into())
    }

    fn boolean(&mut self) -> Parsed<bool> {
        self.text = self.text.trim_start();
        for (name, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.text.strip_prefix(name) {
                self.text = rest;
                return Ok(value);
            }
        }
        Err("fortran_order is neither True nor False".into())
    }

    /// A tuple of lengths: `()`, `(3,)`, `(3, 4)`. Python 2 wrote `3L`.
    fn shape(&mut self) -> Parsed<Vec<usize>> {
        let wanted = || "shape is no tuple of lengths".to_string();
        let mut shape = Vec::new();
        if !self.eat('(') {
            return Err(wanted());
        }
        let mut is_tuple = true;
        while !self.eat(')') {
            if !is_tuple {
                return Err(wanted());
            }
            self.text = self.text.trim_start();
            let digits = self.text.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = self.text.split_at(digits);
            shape.push(number.parse().map_err(|_| wanted())?);
            self.text = rest.strip_prefix('L').unwrap_or(rest);
            is_tuple = self.eat(',');
        }
        // In Python, (3) is a number.
        if shape.len() == 1 && !is_tuple {
            return Err(wanted());
        }
        Ok(shape)
    }
}

/// A text from a file, short enough for a message.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Header> {
        let len = (text.len() as u16).to_le_bytes();
        let bytes = [MAGIC, &[1, 0], &len, text.as_bytes()].concat();
        Header::read(&mut bytes.as_slice(), "x.npy")
    }

    #[test]
    fn what_python_writes() {
        let header = |descr: &str, shape: &[usize], fortran_order| Header {
            fortran_order,
            ..Header::new(descr, shape)
        };
        for (text, wanted) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }       \n",
                header("<f4", &[3, 4], false),
            ),
            (
                "{\"shape\" : ( 7 , ) ,\n'fortran_order':True,'descr':\"|u1\"}",
                header("|u1", &[7], true),
            ),
            (
                "{'descr': '>i8', 'fortran_order': False, 'shape': ()}",
                header(">i8", &[], false),
            ),
            (
                "{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 0L, 2L,), }\n",
                header("<f8", &[3, 0, 2], false),
            ),
            (
                "{'descr': [('a', '<f4'), ('b', '<i8', (2,))], 'fortran_order': False, 'shape': (1,), }",
                header("[('a', '<f4'), ('b', '<i8', (2,))]", &[1], false),
            ),
        ] {
            assert_eq!(read(text).unwrap(), wanted, "{text}");
            assert_eq!(Header::read(&mut wanted.to_bytes().as_slice(), "").unwrap(), wanted);
        }
    }

    #[test]
    fn what_is_none() {
        for (text, problem) in [
            ("", "metadata is not a dict"),
            ("[1, 2]", "metadata is not a dict"),
            ("{'descr': ", "is no Python dictionary"),
            ("{'descr': 4", "descr is neither a text nor a list"),
            ("{'descr", "is no Python dictionary"),
            ("{'descr' '<f4'}", "is no Python dictionary"),
            ("{'shape': (1,) 'descr': '<f4'}", "is no Python dictionary"),
            ("{'shape': (1)}", "shape is no tuple of lengths"),
            ("{'shape': (1, -1)}", "shape is no tuple of lengths"),
            ("{'shape': (1 2)}", "shape is no tuple of lengths"),
            (
                "{'shape': (99999999999999999999999999,)}",
                "shape is no tuple of lengths",
            ),
            ("{'shape': (", "shape is no tuple of lengths"),
            ("{'shape': (1,), 'shape': (1,)}", "key given twice: shape"),
            ("{'fortran_order': 1}", "fortran_order is neither True nor False"),
            ("{'descr': '<f\\x34'}", "descr is neither a text nor a list"),
            ("{'descr': '[<f4'}", "descr is no name of a type: [<f4"),
            ("{'descr': [('a', '<f4')", "is no Python dictionary"),
            ("{'name': 3}", "unknown key: name"),
            ("{'descr': '<f4', 'shape': (1,)}", "missing key: fortran_order"),
            (
                "{'descr': '<f4', 'shape': (1,), 'fortran_order': True} x",
                "is no Python dictionary",
            ),
            ("{[{[{", "brackets nest too deep"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert_eq!(message, format!("x.npy: no valid .npy header: {problem}"), "{text}");
        }
    }

    #[test]
    fn what_comes_before_the_dictionary() {
        let message = |bytes: &[u8]| Header::read(&mut &*bytes, "x").unwrap_err().to_string();
        assert_eq!(message(b""), "x: is empty");
        assert_eq!(
            message(b"a,b,c\n1,2,3\n"),
            "x: is no .npy file (it does not start with \\x93NUMPY)"
        );
        let intact = Header::new("<f4", &[3]).to_bytes();
        for len in 6..intact.len() {
            assert_eq!(message(&intact[..len]), "x: truncated in the header", "{len}");
        }
        let mut other = intact.clone();
        other[6] = 9;
        assert_eq!(
            message(&other),
            "x: is a .npy file of version 9.0, wanted 1.0, 2.0 or 3.0"
        );
        let long = [MAGIC, &[2, 0], &u32::MAX.to_le_bytes()].concat();
        assert_eq!(
            message(&long),
            "x: the header claims 4294967295 bytes, wanted at most 10000"
        );
    }

    #[test]
    fn bytes_of_shapes() {
        let bytes = |shape: &[usize], size| Header::new("", shape).byte_len(size);
        assert_eq!(bytes(&[], 8), Some(8));
        assert_eq!(bytes(&[2, 3], 4), Some(24));
        assert_eq!(bytes(&[2, 0], 4), Some(0));
        assert_eq!(bytes(&[1 << 62], 4), None);
        assert_eq!(bytes(&[1 << 32, 1 << 32], 1), None);
        assert_eq!(bytes(&[0, 1 << 62], 4), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        /// Characters of the grammar in any order: a header or an error, and what is read is written alike.
        #[test]
        fn any_text_is_read_or_refused(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "(", ")", "[", "]", ",", ":", "'descr'", "'shape'", "'fortran_order'", "'<f4'", "True",
                    "False", "3", "12L", " ", "\n", "'", "\\", "é",
                ]),
                0..30,
            ),
        ) {
            if let Ok(header) = read(&parts.concat()) {
                prop_assert_eq!(Header::read(&mut header.to_bytes().as_slice(), "").unwrap(), header);
            }
        }

        #[test]
        fn what_is_written_is_read(shape in prop::collection::vec(any::<usize>(), 0..8), fortran_order: bool) {
            let header = Header { fortran_order, ..Header::new("<i2", &shape) };
            let bytes = header.to_bytes();
            prop_assert_eq!(bytes.len() % 64, 0);
            prop_assert_eq!(Header::read(&mut bytes.as_slice(), "").unwrap(), header);
        }
    }
}
