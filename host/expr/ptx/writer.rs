// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's text as it grows: lines, and registers that have names of their own.

use std::fmt::{self, Display, Write};
use std::mem;

use cuda_std::scalar::ScalarType;
use rustc_hash::FxHashMap;

/// A register of the kernel's. Bodies of functions have none of these names: [`link`](super::link) checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Register {
    /// 16 bits: a 16-bit float, where it has one.
    Half(u32),
    /// 32 bits.
    Word(u32),
    /// 64 bits.
    Double(u32),
    /// A predicate.
    Predicate(u32),
}

/// The labels of what is done with any numbers, and behind that.
pub(super) const ANY: &str = "$any";
pub(super) const USUAL: &str = "$usual";

/// What the names of the kernel's registers begin with.
pub(super) const REGISTERS: [&str; 4] = ["%h", "%w", "%d", "%q"];

impl Register {
    /// 16, 32 or 64, of a number.
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Predicate(_) => 1,
            Self::Half(_) => 16,
            Self::Word(_) => 32,
            Self::Double(_) => 64,
        }
    }
}

impl Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Half(number) => write!(f, "%h{number}"),
            Self::Word(number) => write!(f, "%w{number}"),
            Self::Double(number) => write!(f, "%d{number}"),
            Self::Predicate(number) => write!(f, "%q{number}"),
        }
    }
}

/// The bits of the register in which functions have a number of that type.
pub(super) const fn register_bits(ty: ScalarType) -> u32 {
    if ty.bytes() == 8 { 64 } else { 32 }
}

/// The lines of a body.
#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    /// What stands behind all else.
    rare: String,
    halves: u32,
    words: u32,
    doubles: u32,
    predicates: u32,
    /// The functions that were inlined.
    copies: u32,
    locals: Vec<String>,
    /// Predicates, by the first of the numbers of which each says whether one is rare.
    rare_of: FxHashMap<Register, Register>,
}

impl Writer {
    /// Notes that the predicate `is_rare` holds where one of several numbers is rare, the first of which is this one.
    pub(super) fn note_rare(&mut self, first: Register, is_rare: Register) {
        self.rare_of.insert(first, is_rare);
    }

    /// What was noted of these numbers.
    pub(super) fn noted_rare(&self, first: Register) -> Option<Register> {
        self.rare_of.get(&first).copied()
    }

    pub(super) fn half(&mut self) -> Register {
        self.halves += 1;
        Register::Half(self.halves - 1)
    }

    pub(super) fn word(&mut self) -> Register {
        self.words += 1;
        Register::Word(self.words - 1)
    }

    pub(super) fn double(&mut self) -> Register {
        self.doubles += 1;
        Register::Double(self.doubles - 1)
    }

    pub(super) fn predicate(&mut self) -> Register {
        self.predicates += 1;
        Register::Predicate(self.predicates - 1)
    }

    /// The number of the next copy of a function.
    pub(super) fn copy(&mut self) -> u32 {
        self.copies += 1;
        self.copies
    }

    /// An instruction, without its semicolon.
    pub(super) fn line(&mut self, line: impl Display) {
        writeln!(self.text, "\t{line};").expect("a string takes all");
    }

    /// A brace or a label.
    pub(super) fn mark(&mut self, mark: impl Display) {
        writeln!(self.text, "{mark}").expect("a string takes all");
    }

    /// `%h1 = opcode operands`
    pub(super) fn new_half(&mut self, opcode: &str, operands: impl Display) -> Register {
        let register = self.half();
        self.line(format_args!("{opcode} {register}, {operands}"));
        register
    }

    /// As [`new_half`](Self::new_half), of 32 bits.
    pub(super) fn new_word(&mut self, opcode: &str, operands: impl Display) -> Register {
        let register = self.word();
        self.line(format_args!("{opcode} {register}, {operands}"));
        register
    }

    /// As [`new_half`](Self::new_half), of 64 bits.
    pub(super) fn new_double(&mut self, opcode: &str, operands: impl Display) -> Register {
        let register = self.double();
        self.line(format_args!("{opcode} {register}, {operands}"));
        register
    }

    /// As [`new_half`](Self::new_half), of a predicate.
    pub(super) fn new_predicate(&mut self, opcode: &str, operands: impl Display) -> Register {
        let register = self.predicate();
        self.line(format_args!("{opcode} {register}, {operands}"));
        register
    }

    /// As [`usual_or_any`](Self::usual_or_any), of calls, which stand in the way of the others, who pass over them: a jump over
    /// whole copies takes the processor longer, since it fetches what is next in memory ahead.
    pub(super) fn usual_or_calls<E>(
        &mut self,
        is_any: Register,
        usual: impl FnOnce(&mut Self) -> Result<(), E>,
        calls: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = self.copy();
        self.line(format_args!("@{is_any} bra {ANY}_{number}"));
        usual(self)?;
        self.line(format_args!("bra.uni {USUAL}_{number}"));
        self.mark(format_args!("{ANY}_{number}:"));
        calls(self)?;
        self.mark(format_args!("{USUAL}_{number}:"));
        Ok(())
    }

    /// Writes what is done where `is_any` does not hold, and far from it, so that nobody else fetches it, what is done where it
    /// does. Both write the same registers.
    pub(super) fn usual_or_any<E>(
        &mut self,
        is_any: Register,
        usual: impl FnOnce(&mut Self) -> Result<(), E>,
        any: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let number = self.copy();
        self.line(format_args!("@{is_any} bra {ANY}_{number}"));
        usual(self)?;
        self.mark(format_args!("{USUAL}_{number}:"));
        let before = mem::take(&mut self.text);
        self.mark(format_args!("{ANY}_{number}:"));
        any(self)?;
        self.line(format_args!("bra.uni {USUAL}_{number}"));
        let any = mem::replace(&mut self.text, before);
        self.rare += &any;
        Ok(())
    }

    /// Declares local memory, once however often it is asked for.
    pub(super) fn local(&mut self, declaration: String) {
        if !self.locals.contains(&declaration) {
            self.locals.push(declaration);
        }
    }

    /// The whole body, behind its declarations.
    pub(super) fn finish(self) -> String {
        let mut text = String::new();
        for local in &self.locals {
            text.extend(["\t", local, ";\n"]);
        }
        let counts = [self.halves, self.words, self.doubles, self.predicates];
        for ((name, ty), count) in REGISTERS.into_iter().zip(["b16", "b32", "b64", "pred"]).zip(counts) {
            if count > 0 {
                writeln!(text, "\t.reg .{ty} {name}<{count}>;").expect("a string takes all");
            }
        }
        text + &self.text + &self.rare
    }
}
