// SPDX-License-Identifier: MIT OR Apache-2.0
//! PTX texts, packed to a tenth: between `cuda_builder`, which embeds them in a program, and the program, which unpacks a
//! text when its kernel is first launched.
//!
//! `pack`, with the feature of that name, and [`unpack`] are inverses, byte for byte, for any text. A packed text is LZMA, as
//! `xz --format=lzma` writes it, of a text in which registers are named by how new they are: a loop that is unrolled, and the
//! same code in another kernel, then read the same wherever the numbers began. Of the library's 53 MB of PTX, LZMA alone
//! makes 7.9 MB, and 5.5 so.

#![deny(missing_docs)]

mod numbers;

use std::io::{self, Read};

use lzma_rust2::LzmaReader;

/// The source of this crate, which decides what is packed as what: for caches of packed texts.
#[doc(hidden)]
pub const SOURCE: [&str; 2] = [include_str!("lib.rs"), include_str!("numbers.rs")];

/// Packs a text. The same text gives the same bytes on every machine.
///
/// It takes some 60 ns a byte of processor, optimised: of LZMA's searches the quickest that is worth it. Whole lines repeat
/// in PTX, so the longest matches are looked for, among few candidates. All candidates, and the choice among all ways to put
/// the text together, would pack by 15 % smaller in five times the time.
#[cfg(any(test, feature = "pack"))]
#[must_use]
pub fn pack(text: &str) -> Vec<u8> {
    use lzma_rust2::{EncodeMode, LzmaOptions, LzmaWriter, MfType};
    use std::io::Write;

    let options = LzmaOptions {
        dict_size: 1 << 18,
        pb: 0,
        mode: EncodeMode::Fast,
        mf: MfType::Hc4,
        nice_len: 273,
        depth_limit: 8,
        ..LzmaOptions::default()
    };
    let named = numbers::encode(text);
    let packed = LzmaWriter::new_use_header(Vec::new(), &options, Some(named.len() as u64)).and_then(|mut writer| {
        writer.write_all(&named)?;
        writer.finish()
    });
    packed.expect("valid options, and writing to memory does not fail")
}

/// The text that [`pack`] has packed.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidData`] or [`io::ErrorKind::UnexpectedEof`] if `packed` is no packed text, or not all of one.
pub fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut named = Vec::new();
    LzmaReader::new_mem_limit(packed, u32::MAX, None)?.read_to_end(&mut named)?;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "packed PTX that no text gives");
    numbers::decode(&named).ok_or_else(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back() {
        for text in ["", "\n", ".version 6.3\n", "\t%r1 %r2 é %r1\n"] {
            assert_eq!(unpack(&pack(text)).unwrap(), text);
        }
    }

    #[test]
    fn code_that_repeats_with_other_registers_packs_as_if_it_were_the_same() {
        let unrolled = |step: usize| -> String {
            let iteration = |i: usize| {
                let [a, b, c] = [3 * i * step + 1, 3 * i * step + 2, 3 * i * step + 3];
                format!(
                    "\tld.global.u32 \t%r{a}, [%rd1];\n\tadd.s32 \t%r{b}, %r{a}, %r{a};\n\tmul.lo.s32 \t%r{c}, %r{b}, %r{a};\n"
                )
            };
            (0..200).map(iteration).collect()
        };
        let (same, other) = (pack(&unrolled(0)).len(), pack(&unrolled(1)).len());
        assert!(
            other < same + 40,
            "{other} bytes, where one iteration repeated takes {same}"
        );
    }

    #[test]
    fn what_is_no_packed_text_is_an_error() {
        let packed = pack(&"\tadd.s32 \t%r1, %r2, %r3;\n".repeat(50));
        for end in 0..packed.len() - 1 {
            assert!(
                unpack(&packed[..end]).is_err(),
                "the first {end} bytes of {}",
                packed.len()
            );
        }
        assert!(unpack(&[0xff; 40]).is_err());
    }
}
