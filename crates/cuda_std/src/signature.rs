// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signatures: by what the host tells that a PTX entry is the kernel it was compiled with.
//!
//! A launch hands the driver untyped addresses, so that an entry of the same name with other parameters would read
//! foreign memory. `#[kernel]` therefore writes a number beside each entry, into the PTX and into the host's handle:
//! a hash of the package's name and version, the entry's name, the kernel's source with the type arguments in their
//! places, and the sizes of the values by which each parameter crosses the launch. Both sides are made from the same lines,
//! each by its own compiler run, and a launch compares the two.
//!
//! The hash is FxHash, by words of 8 bytes: the compiler interprets it, for each of more than a thousand entries, and goes
//! from step to step slowly. Each step maps words, and hashes so far, one to one.
//!
//! The signature of a `#[device_fn]` has the types of the arguments and of the result in place of the sizes; it is compared
//! before the function becomes a part of a kernel.

use crate::scalar::ScalarType;

/// What FxHash multiplies by.
const FACTOR: u64 = 0x517c_c1b7_2722_0a95;

/// The most bytes that CUDA passes to a kernel, on all GPUs and with all drivers.
const MOST_BYTES: usize = 4096;

/// The signature of an entry: `source` is the hash that `#[kernel]` made of the function and its type arguments,
/// `sizes` has the sizes of head and tail of each parameter, which no launch can pass if there are too many bytes.
pub const fn of(package: &str, version: &str, name: &str, source: u64, sizes: &[(usize, usize)]) -> u64 {
    let mut bytes = 0;
    let mut hash = named(package, version, name, source);
    let mut i = 0;
    while i < sizes.len() {
        // Sizes that are no number of 32 bits are too many bytes.
        hash = number(hash, sizes[i].0 as u64 | ((sizes[i].1 as u64) << 32));
        bytes += sizes[i].0 + sizes[i].1;
        i += 1;
    }
    assert!(
        bytes <= MOST_BYTES,
        "the parameters of a kernel have at most 4096 bytes"
    );
    hash
}

/// The signature of a device function: `source` is the hash that `#[device_fn]` made of it and its type arguments.
pub const fn of_function(
    package: &str,
    version: &str,
    name: &str,
    source: u64,
    arguments: &[ScalarType],
    result: ScalarType,
) -> u64 {
    let mut hash = named(package, version, name, source);
    let mut i = 0;
    while i < arguments.len() {
        hash = number(hash, arguments[i] as u64);
        i += 1;
    }
    // Behind the arguments: their number is what the result stands behind.
    number(number(hash, arguments.len() as u64), result as u64)
}

const fn named(package: &str, version: &str, name: &str, source: u64) -> u64 {
    let mut hash = number(0, source);
    hash = text(hash, package);
    hash = text(hash, version);
    text(hash, name)
}

/// Goes on with a text and its length, which keeps neighbours apart.
const fn text(mut hash: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut i = 0;
    while i < words.len() {
        hash = number(hash, u64::from_le_bytes(words[i]));
        i += 1;
    }
    let (mut last, mut i) = (0, 0);
    while i < rest.len() {
        last = (last << 8) | rest[i] as u64;
        i += 1;
    }
    number(number(hash, last), text.len() as u64)
}

const fn number(hash: u64, number: u64) -> u64 {
    (hash.rotate_left(5) ^ number).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_shows() {
        let a = of("package", "1.0.0", "sum_f32", 7, &[(8, 8), (4, 0)]);
        assert_eq!(a, of("package", "1.0.0", "sum_f32", 7, &[(8, 8), (4, 0)]));
        for other in [
            of("packages", "1.0.0", "sum_f32", 7, &[(8, 8), (4, 0)]),
            of("package", "1.0.1", "sum_f32", 7, &[(8, 8), (4, 0)]),
            of("package1", ".0.0", "sum_f32", 7, &[(8, 8), (4, 0)]),
            of("package", "1.0.0", "sum_f64", 7, &[(8, 8), (4, 0)]),
            of("package", "1.0.0", "sum_f32", 8, &[(8, 8), (4, 0)]),
            of("package", "1.0.0", "sum_f32", 7, &[(8, 8), (8, 0)]),
            of("package", "1.0.0", "sum_f32", 7, &[(8, 8)]),
        ] {
            assert_ne!(a, other);
        }
    }

    #[test]
    fn types_of_functions_show() {
        use ScalarType::{F32, I32, U32};
        let of = |arguments: &[ScalarType], result| of_function("package", "1.0.0", "f", 7, arguments, result);
        let all = [
            of(&[F32, F32], F32),
            of(&[F32], F32),
            of(&[], F32),
            of(&[F32, F32], U32),
            of(&[F32, U32], F32),
            of(&[U32, F32], F32),
            of(&[F32, F32, F32], F32),
            of(&[I32, F32], F32),
            of_function("package", "1.0.0", "g", 7, &[F32, F32], F32),
            of_function("package", "1.0.0", "f", 8, &[F32, F32], F32),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }

    #[test]
    fn parameters_that_no_launch_can_pass_are_refused() {
        assert_ne!(of("p", "1", "k", 0, &[(4000, 0), (88, 8)]), 0);
        assert!(std::panic::catch_unwind(|| of("p", "1", "k", 0, &[(4000, 0), (89, 8)])).is_err());
    }

    #[test]
    fn texts_differ_by_each_byte_and_by_their_lengths() {
        let letters = "abcdefghijklmnopqrst";
        let all: Vec<_> = (0..20)
            .map(|len| letters[..len].to_owned())
            .chain((0..20).map(|at| format!("{}x{}", &letters[..at], &letters[at + 1..])))
            .chain(["\0".to_owned(), "\0\0".to_owned(), "\0".repeat(8), "\0".repeat(16)])
            .map(|of| text(7, &of))
            .collect();
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
    }
}
