// SPDX-License-Identifier: MIT OR Apache-2.0
//! Atomics whose result nobody wants: reductions (`red`), which return nothing.
//!
//! Assembly in Rust cannot tell whether its result is used, so `fetch_add` is always `atom`. ptxas makes reductions of such atomics
//! in kernels that call nothing; in those that can panic it has been seen to leave them. On an H100 an atomic that waits for an answer
//! takes up to 1.7 times as long (67 million of u32 in 4096 places: 360 and 210 µs).

use super::lexer::{Lexer, TokenKind};
use std::borrow::Cow;
use std::collections::HashMap;

/// How such an instruction begins: those that order nothing else.
const ATOMIC: &str = "atom.relaxed.";

/// What both instructions have.
const OPERATIONS: [&str; 6] = ["add", "and", "max", "min", "or", "xor"];

/// The text of a function, with reductions for the atomics of global memory whose result's register is nowhere else in it.
pub(super) fn reduce(text: &str) -> Cow<'_, str> {
    if !text.contains(ATOMIC) {
        return text.into();
    }
    let occurrences = registers(text);
    let lines = text
        .split_inclusive('\n')
        .map(|line| match reduction(line, &occurrences) {
            Some(reduction) => reduction.into(),
            None => Cow::from(line),
        });
    lines.collect::<String>().into()
}

/// How often each register occurs. Those of a function are declared by the number of them, not by name.
fn registers(text: &str) -> HashMap<&str, usize> {
    let mut occurrences = HashMap::new();
    let mut lexer = Lexer::new(text);
    // The text was read before, token for token.
    while let Ok(Some(token)) = lexer.next() {
        let word = &text[token.start..token.end];
        if token.kind == TokenKind::Word && word.starts_with('%') {
            *occurrences.entry(word).or_default() += 1;
        }
    }
    occurrences
}

/// The line with a reduction in place of its atomic, if it has one whose result is not used.
fn reduction(line: &str, occurrences: &HashMap<&str, usize>) -> Option<String> {
    let rest = line.trim_start();
    let blank = &line[..line.len() - rest.len()];
    let kind = rest.strip_prefix(ATOMIC)?;
    let (kind, operands) = kind.split_once(' ')?;
    let [_scope, "global", operation, ..] = kind.split('.').collect::<Vec<_>>()[..] else {
        return None;
    };
    let (result, operands) = operands.split_once(',')?;
    let is_unused = occurrences.get(result.trim()) == Some(&1);
    (is_unused && OPERATIONS.contains(&operation)).then(|| format!("{blank}red.relaxed.{kind}{operands}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atomic_whose_result_is_unused_is_a_reduction() {
        for kind in [
            "gpu.global.add.u32",
            "cta.global.max.s64",
            "sys.global.add.noftz.f16",
            "cluster.global.xor.b32",
        ] {
            let text = format!(".func f() {{\n\tatom.relaxed.{kind} %r7, [%rd1+8], %r8; // %rd1\n\tret;\n}}");
            let expected = format!(".func f() {{\n\tred.relaxed.{kind} [%rd1+8], %r8; // %rd1\n\tret;\n}}");
            assert_eq!(reduce(&text), expected);
        }
    }

    #[test]
    fn all_else_stays() {
        for text in [
            // Used: behind it, ahead of it in a loop, in the same line.
            "atom.relaxed.gpu.global.add.u32 %r7, [%rd1], %r8;\nst.global.u32 [%rd2], %r7;\n",
            "L:\nadd.u32 %r1, %r7, 1;\natom.relaxed.gpu.global.add.u32 %r7, [%rd1], %r8;\nbra L;\n",
            "atom.relaxed.gpu.global.add.u32 %r7, [%rd1], %r7;\n",
            // A register that is declared by name.
            "{ .reg .u32 %t;\natom.relaxed.gpu.global.add.u32 %t, [%rd1], %r7; }\n",
            // There is no such reduction, or it would order less.
            "atom.relaxed.gpu.global.exch.b32 %r7, [%rd1], %r8;\n",
            "atom.relaxed.gpu.global.cas.b32 %r7, [%rd1], %r8, %r9;\n",
            "atom.acq_rel.gpu.global.add.u32 %r7, [%rd1], %r8;\n",
            // Shared memory has one instruction for both.
            "atom.relaxed.cta.shared.add.u32 %r7, [%rd1], %r8;\n",
            "atom.relaxed.cluster.shared::cluster.add.u32 %r7, [%rd1], %r8;\n",
        ] {
            assert_eq!(reduce(text), text);
        }
    }

    #[test]
    fn a_longer_name_is_another_register() {
        let text = "atom.relaxed.gpu.global.add.u32 %r7, [%rd1], %r8;\nst.global.u32 [%rd2], %r77;\n";
        assert!(reduce(text).starts_with("red.relaxed.gpu.global.add.u32 [%rd1], %r8;\n"));
    }
}
