// SPDX-License-Identifier: MIT OR Apache-2.0

mod across;
mod clusters;
mod emulated;
mod emulator;
mod functions;
mod machine;
mod programs;
mod ptxas;
mod reading;
mod stashed;
mod texts;
mod together;

use std::collections::HashSet;

use proptest::prelude::*;

pub(in crate::expr) use self::clusters::{has_clusters_in_tests, with_clusters};
pub(in crate::expr) use self::emulated::{is_recorded, run_again};
use self::programs::{Random, samples};
pub(in crate::expr) use self::together::run_together_again;
use super::kernel;
use super::writer::REGISTERS;
use crate::expr::kernel::together::{can_be_together, of_many};

/// The registers of the kernel's own in a part of a line.
fn registers(part: &str) -> impl Iterator<Item = &str> {
    let words = part.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '%' | '_' | '$' | '.')));
    words.filter(|word| REGISTERS.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit())))
}

/// The lines of the kernel, behind what it uses.
fn body(text: &str) -> &str {
    let (_, entry) = text.split_once(".visible .entry").expect("an entry");
    entry.split_once("\n{\n").expect("a body").1
}

/// Every register of the kernel's own is written above the line that reads it, and by one line, or by the two ways of copies
/// of a function that has rare arguments: the calls write what the others wrote.
fn check_registers(text: &str) {
    let mut written = HashSet::new();
    let mut is_other_way = false;
    for line in body(text).lines().filter(|line| !line.trim_start().starts_with('.')) {
        let operands = line.trim_start();
        if operands.starts_with("$any_") || operands.starts_with("$usual_") {
            is_other_way = operands.starts_with("$any_");
        }
        let (guard, operands) = match operands.starts_with('@') {
            true => operands.split_once(' ').expect("an instruction"),
            false => ("", operands),
        };
        let (opcode, operands) = operands.split_once(' ').unwrap_or((operands, ""));
        let (to, from) = match opcode.starts_with("st.") || opcode.starts_with("bra") || opcode.starts_with("call") {
            true => ("", operands),
            false if operands.starts_with('{') => operands.split_once("},").unwrap_or(("", operands)),
            false => operands.split_once(',').unwrap_or(("", operands)),
        };
        for register in registers(guard).chain(registers(from)) {
            assert!(
                written.contains(register),
                "{register} is read before it is written: {line}\n{text}"
            );
        }
        for register in registers(to) {
            assert_eq!(
                written.insert(register),
                !is_other_way,
                "{register} is written once too often, or on one way alone: {line}\n{text}"
            );
        }
    }
}

/// Every label is there once, and every branch has one.
fn check_labels(text: &str) {
    let lines = || body(text).lines().map(str::trim_start);
    let labels: Vec<&str> = lines().filter_map(|line| line.strip_suffix(':')).collect();
    let unique: HashSet<&str> = labels.iter().copied().collect();
    assert_eq!(unique.len(), labels.len(), "a label is there twice: {text}");
    let branches = lines().filter_map(|line| line.split_once("bra ").or_else(|| line.split_once("bra.uni ")));
    for (_, target) in branches {
        assert!(
            unique.contains(target.trim_end_matches(';').trim()),
            "no label {target}: {text}"
        );
    }
}

proptest! {
    #[test]
    fn programs_become_sound_kernels(seed: u64) {
        let Random { program, texts } = Random::new(seed, &samples());
        let text = kernel(&program, &texts, (9, 0)).unwrap();
        check_registers(&text);
        check_labels(&text);
        prop_assert_eq!(text, kernel(&program, &texts, (9, 0)).unwrap());
        if can_be_together(&program, &[]) {
            let text = kernel(&of_many(&program), &texts, (9, 0)).unwrap();
            check_registers(&text);
            check_labels(&text);
        }
    }
}
