// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions applied to registers: their bodies as blocks of their own, or calls.

use std::collections::HashMap;

use super::Malformed;
use super::addresses::Addresses;
use super::body::{Body, Instruction, Statement, bits_of};
use super::halves::word;
use super::lexer::is_name;
use super::writer::{Register, Writer};

/// A function that steps apply.
#[derive(Debug)]
pub(super) enum Callee<'a> {
    /// One that is copied.
    Inline(Box<Inline<'a>>),
    /// One that remains a function, of that name.
    Call { name: String, result: u32 },
    /// One that the tests' machine has, by its number.
    #[cfg(test)]
    Native { number: usize, result: u32 },
}

/// A function that is copied.
#[derive(Debug)]
pub(super) struct Inline<'a> {
    pub body: Body<'a>,
    pub addresses: Addresses<'a>,
    /// Other names of what it uses.
    pub renamed: HashMap<&'a str, String>,
    /// Its number among the program's functions.
    pub number: usize,
}

/// The label behind a copy.
pub(super) const RETURN: &str = "$return";

impl Callee<'_> {
    /// Applies the function; gives its result.
    pub(super) fn apply(&self, arguments: &[Register], writer: &mut Writer) -> Result<Register, Malformed> {
        let arguments: Vec<Register> = arguments.iter().map(|&number| word(number, writer)).collect();
        let bits = match self {
            Self::Inline(inline) => inline.body.result.1,
            Self::Call { result, .. } => *result,
            #[cfg(test)]
            Self::Native { result, .. } => *result,
        };
        let result = if bits == 64 { writer.double() } else { writer.word() };
        match self {
            Self::Inline(inline) => Copy::of(inline, &arguments, result, writer).write(writer)?,
            Self::Call { name, .. } => call(name, &arguments, result, writer),
            #[cfg(test)]
            Self::Native { number, .. } => {
                let names: Vec<String> = arguments.iter().map(Register::to_string).collect();
                writer.line(format_args!("native.{number} {result}, {}", names.join(", ")));
            }
        }
        Ok(result)
    }
}

/// A call, as LLVM writes it.
fn call(name: &str, arguments: &[Register], result: Register, writer: &mut Writer) {
    writer.mark("\t{");
    let names: Vec<String> = (0..arguments.len()).map(|k| format!("param{k}")).collect();
    for (name, argument) in names.iter().zip(arguments) {
        writer.line(format_args!(".param .b{} {name}", argument.bits()));
    }
    writer.line(format_args!(".param .b{} retval0", result.bits()));
    for (name, argument) in names.iter().zip(arguments) {
        writer.line(format_args!("st.param.b{} [{name}], {argument}", argument.bits()));
    }
    writer.line(format_args!("call.uni (retval0), {name}, ({})", names.join(", ")));
    writer.line(format_args!("ld.param.b{} {result}, [retval0]", result.bits()));
    writer.mark("\t}");
}

/// One copy of a body. Registers have the names of the text, for they are in a scope of their own; labels have a number
/// more, and local memory is the same in all copies, since ptxas does not put that of one scope where that of another was.
struct Copy<'a> {
    inline: &'a Inline<'a>,
    arguments: &'a [Register],
    result: Register,
    number: u32,
}

impl<'a> Copy<'a> {
    fn of(inline: &'a Inline<'a>, arguments: &'a [Register], result: Register, writer: &mut Writer) -> Self {
        let number = writer.copy();
        Self {
            inline,
            arguments,
            result,
            number,
        }
    }

    fn write(&self, writer: &mut Writer) -> Result<(), Malformed> {
        for local in &self.inline.body.locals {
            writer.local(self.render(&local.declaration));
        }
        writer.mark("\t{");
        let statements = &self.inline.body.statements;
        let mut has_return = false;
        for (i, statement) in statements.iter().enumerate() {
            match statement {
                Statement::Open => writer.mark("\t{"),
                Statement::Close => writer.mark("\t}"),
                Statement::Label(label) => writer.mark(format_args!("{}:", self.name(label))),
                Statement::Directive(words) => writer.line(self.render(words)),
                Statement::Instruction(instruction) if instruction.opcode.split('.').next() == Some("ret") => {
                    let is_last = i + 1 == statements.len() && instruction.guard.is_empty();
                    if !is_last {
                        has_return = true;
                        let bra = if instruction.guard.is_empty() { "bra.uni" } else { "bra" };
                        let guard = self.guard(instruction);
                        writer.line(format_args!("{guard}{bra} {RETURN}_{}", self.number));
                    }
                }
                Statement::Instruction(instruction) => self.instruction(instruction, writer)?,
            }
        }
        writer.mark("\t}");
        if has_return {
            writer.mark(format_args!("{RETURN}_{}:", self.number));
        }
        Ok(())
    }

    fn instruction(&self, instruction: &Instruction<'a>, writer: &mut Writer) -> Result<(), Malformed> {
        let opcode = instruction.opcode;
        let parameters = &self.inline.body.parameters;
        let mentions = |name: &str| instruction.operands.contains(&name);
        if let Some(k) = parameters.iter().position(|(name, _)| mentions(name)) {
            let argument = self.arguments[k];
            // The address: its register holds the value.
            if let ("mov.b64", [to, ",", _]) = (opcode, &instruction.operands[..]) {
                let operation = if argument.bits() == 64 {
                    "mov.b64"
                } else {
                    "cvt.u64.u32"
                };
                writer.line(format_args!("{}{operation} {to}, {argument}", self.guard(instruction)));
                return Ok(());
            }
            let loaded = self.load(
                instruction,
                parameters[k].0,
                &argument.to_string(),
                argument.bits(),
                writer,
            );
            return loaded.ok_or_else(|| self.unknown(instruction));
        }
        if opcode.starts_with("ld.param")
            && let Some(address) = self.inline.addresses.keys().copied().find(|name| mentions(name))
        {
            let loaded = self.load(instruction, address, address, 64, writer);
            return loaded.ok_or_else(|| self.unknown(instruction));
        }
        if mentions(self.inline.body.result.0) {
            let line = self.store(instruction).ok_or_else(|| self.unknown(instruction))?;
            writer.line(line);
            return Ok(());
        }
        let operands = self.render(&instruction.operands);
        let space = if operands.is_empty() { "" } else { " " };
        writer.line(format_args!("{}{opcode}{space}{operands}", self.guard(instruction)));
        Ok(())
    }

    /// A `ld.param` of what is `name` there, and here `value`, as moves; `None` for what is none.
    fn load(
        &self,
        instruction: &Instruction<'_>,
        name: &str,
        value: &str,
        from_bits: u32,
        writer: &mut Writer,
    ) -> Option<()> {
        let ty = instruction.opcode.strip_prefix("ld.param")?;
        let (variable, offset, to) = instruction.access()?;
        let (to_bits, bits) = (self.inline.body.bits(&to)?, bits_of(ty)?);
        let is_inside = offset.checked_mul(8).is_some_and(|first| first + bits <= from_bits);
        if variable != name || !is_inside || to_bits < bits.max(16) {
            return None;
        }
        let guard = self.guard(instruction);
        let from = match offset {
            0 => value.to_owned(),
            _ => {
                let shifted = if from_bits == 64 {
                    writer.double()
                } else {
                    writer.word()
                };
                writer.line(format_args!(
                    "{guard}shr.u{from_bits} {shifted}, {value}, {}",
                    8 * offset
                ));
                shifted.to_string()
            }
        };
        let sign = if ty.starts_with(".s") { 's' } else { 'u' };
        writer.line(match (from_bits == bits, to_bits == bits) {
            (true, true) => format!("{guard}mov.b{bits} {to}, {from}"),
            // What is read has fewer bits than its register: it is the lower ones.
            (false, true) => format!("{guard}cvt.u{bits}.u{from_bits} {to}, {from}"),
            (_, false) => format!("{guard}cvt.{sign}{to_bits}.{sign}{bits} {to}, {from}"),
        });
        Some(())
    }

    /// A `st.param` of the result as a move; `None` for what is none.
    fn store(&self, instruction: &Instruction<'_>) -> Option<String> {
        let (result, bits) = self.inline.body.result;
        let (variable, offset, value) = instruction.access()?;
        if variable != result || offset != 0 || bits_of(instruction.opcode.strip_prefix("st.param")?)? != bits {
            return None;
        }
        let (guard, to) = (self.guard(instruction), self.result);
        let from_bits = match value.starts_with('%') {
            true => self.inline.body.bits(&value)?,
            false => bits,
        };
        match from_bits {
            _ if from_bits == bits => Some(format!("{guard}mov.b{bits} {to}, {value}")),
            64 => Some(format!("{guard}cvt.u{bits}.u64 {to}, {value}")),
            _ => None,
        }
    }

    /// The predicate and a space, or nothing.
    fn guard(&self, instruction: &Instruction<'_>) -> String {
        match instruction.guard.is_empty() {
            true => String::new(),
            false => instruction.guard.concat() + " ",
        }
    }

    /// The words with this copy's names.
    fn render(&self, words: &[&str]) -> String {
        let mut text = String::new();
        let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "_$%.".contains(c));
        let mut before = "(";
        for &word in words {
            let is_apart = match (is_word(before), is_word(word)) {
                (true, true) => true,
                (true, false) => word == "(",
                (false, _) => before == "," || (before == ")" && word != ","),
            };
            if is_apart {
                text.push(' ');
            }
            text += &self.name(word);
            before = word;
        }
        text
    }

    /// What a word is called here.
    fn name(&self, word: &str) -> String {
        let body = &self.inline.body;
        if !is_name(word) {
            return word.to_owned();
        }
        if body.labels.contains(word) {
            return format!("{word}_{}", self.number);
        }
        if body.locals.iter().any(|local| local.name == word) {
            return format!("{word}_{}", self.inline.number);
        }
        self.inline
            .renamed
            .get(word)
            .cloned()
            .unwrap_or_else(|| word.to_owned())
    }

    fn unknown(&self, instruction: &Instruction<'_>) -> Malformed {
        Malformed(format!(
            "unknown instruction `{} {}`",
            instruction.opcode,
            instruction.operands.concat()
        ))
    }
}
