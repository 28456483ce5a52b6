// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions applied to registers: their bodies as blocks of their own, or calls.

use std::collections::HashMap;

use super::Malformed;
use super::addresses::Addresses;
use super::body::{Body, Instruction, Statement, bits_of};
use super::divide::NEXT;
use super::halves::word;
use super::lexer::is_name;
use super::writer::{ANY, Register, USUAL, Writer};

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
    /// How many of its statements lead to where its ways [meet](meeting).
    pub meeting: Option<usize>,
    /// Where it goes another way for a [few](rare) numbers: then it is a function, too.
    pub rare: Option<Rare>,
    /// The name of that function.
    pub name: String,
}

/// The statements of a body that leave out what is rare: those ahead of the branch, and those from there to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rare {
    /// The branch.
    branch: usize,
    /// The label where the ways meet.
    meeting: usize,
    end: usize,
}

/// The label behind a copy.
const RETURN: &str = "$return";

/// The labels of the kernel's own around copies.
pub(super) const LABELS: [&str; 4] = [RETURN, ANY, USUAL, NEXT];

/// The copies whose ways go on together: what each has where they meet stays in registers until the others are there.
const TOGETHER: usize = 4;

impl Callee<'_> {
    /// Applies the function; gives its result.
    pub(super) fn apply(&self, arguments: &[Register], writer: &mut Writer) -> Result<Register, Malformed> {
        let results = self.apply_each(&[arguments.to_vec()], writer)?;
        Ok(results[0])
    }

    /// Calls the function, which is not only copied; gives its result.
    pub(super) fn call(&self, argument: Register, writer: &mut Writer) -> Result<Register, Malformed> {
        let Self::Inline(inline) = self else {
            return self.apply(&[argument], writer);
        };
        let result = room(inline.body.result.1, writer);
        call(&inline.name, &words(&[argument], writer), result, writer);
        Ok(result)
    }

    /// Applies the function to each of these lists of arguments; gives its results.
    ///
    /// Where a function goes another way for a [few](rare) numbers, one branch asks for all lists whether one of them is among
    /// these: a branch for each would keep them apart, and take three instructions with it. Where the ways else
    /// [meet](meeting), copies go there one after another, and on from there without a branch between them. Either way the
    /// processor has work that does not depend on one another.
    pub(super) fn apply_each(&self, lists: &[Vec<Register>], writer: &mut Writer) -> Result<Vec<Register>, Malformed> {
        let inline = match self {
            Self::Inline(inline) => inline,
            Self::Call { name, result } => {
                let call = |arguments: &[Register], result, writer: &mut Writer| call(name, arguments, result, writer);
                return Ok(each(lists, *result, writer, call));
            }
            #[cfg(test)]
            Self::Native { number, result } => {
                let native = |arguments: &[Register], result, writer: &mut Writer| {
                    let names: Vec<String> = arguments.iter().map(Register::to_string).collect();
                    writer.line(format_args!("native.{number} {result}, {}", names.join(", ")));
                };
                return Ok(each(lists, *result, writer, native));
            }
        };
        let together = if inline.meeting.is_some() { TOGETHER } else { 1 };
        let mut results = Vec::with_capacity(lists.len());
        for lists in lists.chunks(together) {
            let copies: Vec<Copy<'_>> = lists.iter().map(|list| Copy::of(inline, list, writer)).collect();
            if let Some(rare) = inline.rare
                && copies.len() > 1
            {
                usual_or_any(&copies, rare, writer)?;
                results.extend(copies.iter().map(|copy| copy.result));
                continue;
            }
            for copy in &copies {
                copy.begin(writer)?;
            }
            // The last one is in the scopes of all before it, whose registers have the same names.
            for copy in copies.iter().rev() {
                copy.end(writer)?;
            }
            results.extend(copies.iter().map(|copy| copy.result));
        }
        Ok(results)
    }
}

/// Applies the copies without what is rare, unless a number wants that: then calls the function for one after another.
fn usual_or_any(copies: &[Copy<'_>], rare: Rare, writer: &mut Writer) -> Result<(), Malformed> {
    let mut any = None;
    for copy in copies {
        let own = copy.asks(rare, writer)?;
        any = Some(match any {
            Some(any) => writer.new_predicate("or.pred", format_args!("{any}, {own}")),
            None => own,
        });
    }
    let Some(any) = any else { return Ok(()) };
    writer.usual_or_calls(
        any,
        |writer| copies.iter().try_for_each(|copy| copy.usual(rare, writer)),
        |writer| {
            for copy in copies {
                call(&copy.inline.name, &copy.arguments, copy.result, writer);
            }
            Ok(())
        },
    )
}

/// Numbers as functions take them.
fn words(numbers: &[Register], writer: &mut Writer) -> Vec<Register> {
    numbers.iter().map(|&number| word(number, writer)).collect()
}

/// Room for a result.
fn room(bits: u32, writer: &mut Writer) -> Register {
    if bits == 64 { writer.double() } else { writer.word() }
}

/// Applies what `apply` writes to each list of arguments; gives the results.
fn each(
    lists: &[Vec<Register>],
    bits: u32,
    writer: &mut Writer,
    apply: impl Fn(&[Register], Register, &mut Writer),
) -> Vec<Register> {
    let mut results = Vec::with_capacity(lists.len());
    for list in lists {
        let arguments = words(list, writer);
        let result = room(bits, writer);
        apply(&arguments, result, writer);
        results.push(result);
    }
    results
}

/// How many statements lead to where all ways through a body meet, the label there included, if it is one way from there to the
/// only end. Such a place is behind what is done otherwise for a few numbers, as large angles are reduced.
pub(super) fn meeting(statements: &[Statement<'_>]) -> Option<usize> {
    let is_end = |statement: &Statement<'_>| is_one_of(statement, &["ret", "exit"]);
    let end = statements.iter().position(is_end)?;
    let is_unguarded = matches!(&statements[end], Statement::Instruction(end) if end.guard.is_empty());
    let is_label = |statement: &Statement<'_>| matches!(statement, Statement::Label(_));
    let label = statements[..end].iter().rposition(is_label)?;
    let (before, behind) = (&statements[..label], &statements[label..end]);
    let count = |wanted: Statement<'_>| before.iter().filter(|statement| **statement == wanted).count();
    let is_in_no_scope = count(Statement::Open) == count(Statement::Close);
    let is_one_way = !behind.iter().any(|statement| is_one_of(statement, &["bra", "brx"]));
    let is_only = !statements[end + 1..].iter().any(is_end);
    (is_unguarded && is_only && is_in_no_scope && is_one_way).then_some(label + 1)
}

/// Where a body goes another way for a few numbers: where its ways [meet](meeting), there is one way to there but for a branch,
/// and what that leads to stands behind the end, where LLVM puts what it takes to be cold.
pub(super) fn rare(statements: &[Statement<'_>]) -> Option<Rare> {
    let meeting = meeting(statements)? - 1;
    let is_jump = |statement: &Statement<'_>| is_one_of(statement, &["bra", "brx"]);
    let branch = statements[..meeting].iter().position(is_jump)?;
    let Statement::Instruction(jump) = &statements[branch] else {
        return None;
    };
    let &[to] = &jump.operands[..] else { return None };
    let end = statements.iter().position(|statement| is_one_of(statement, &["ret"]))?;
    let is_behind = statements[end..].contains(&Statement::Label(to));
    let mut others = statements[..meeting].iter().enumerate().filter(|(at, _)| *at != branch);
    let is_one_way = others.all(|(_, statement)| !is_jump(statement) && !matches!(statement, Statement::Label(_)));
    (!jump.guard.is_empty() && is_behind && is_one_way).then_some(Rare { branch, meeting, end })
}

/// Whether a statement is one of these instructions.
fn is_one_of(statement: &Statement<'_>, instructions: &[&str]) -> bool {
    match statement {
        Statement::Instruction(instruction) => instructions.contains(&root(instruction)),
        _ => false,
    }
}

/// What is done, without its types and ways.
fn root<'a>(instruction: &Instruction<'a>) -> &'a str {
    instruction.opcode.split('.').next().unwrap_or_default()
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
    arguments: Vec<Register>,
    result: Register,
    number: u32,
}

impl<'a> Copy<'a> {
    fn of(inline: &'a Inline<'a>, arguments: &[Register], writer: &mut Writer) -> Self {
        Self {
            inline,
            arguments: words(arguments, writer),
            result: room(inline.body.result.1, writer),
            number: writer.copy(),
        }
    }

    /// How many of its statements stand ahead of those of other copies.
    fn ahead(&self) -> usize {
        self.inline.meeting.unwrap_or_default()
    }

    /// Whether the argument is a rare one.
    fn asks(&self, rare: Rare, writer: &mut Writer) -> Result<Register, Malformed> {
        let statements = &self.inline.body.statements;
        let is_rare = writer.predicate();
        writer.mark("\t{");
        self.statements(&statements[..rare.branch], writer)?;
        if let Statement::Instruction(branch) = &statements[rare.branch] {
            let (opcode, predicate) = match branch.guard[..] {
                ["@", "!", predicate] => ("not.pred", predicate),
                [.., predicate] => ("mov.pred", predicate),
                [] => return Err(self.unknown(branch)),
            };
            writer.line(format_args!("{opcode} {is_rare}, {predicate}"));
        }
        writer.mark("\t}");
        Ok(is_rare)
    }

    /// What is done with an argument that is none of the rare ones.
    fn usual(&self, rare: Rare, writer: &mut Writer) -> Result<(), Malformed> {
        let statements = &self.inline.body.statements;
        self.locals(writer);
        writer.mark("\t{");
        self.statements(&statements[..rare.branch], writer)?;
        self.statements(&statements[rare.branch + 1..rare.meeting], writer)?;
        self.statements(&statements[rare.meeting + 1..rare.end], writer)?;
        writer.mark("\t}");
        Ok(())
    }

    fn locals(&self, writer: &mut Writer) {
        for local in &self.inline.body.locals {
            writer.local(self.render(&local.declaration));
        }
    }

    fn begin(&self, writer: &mut Writer) -> Result<(), Malformed> {
        self.locals(writer);
        writer.mark("\t{");
        self.statements(&self.inline.body.statements[..self.ahead()], writer)
    }

    fn statements(&self, statements: &[Statement<'a>], writer: &mut Writer) -> Result<(), Malformed> {
        statements
            .iter()
            .try_for_each(|statement| self.statement(statement, writer))
    }

    fn end(&self, writer: &mut Writer) -> Result<(), Malformed> {
        let statements = &self.inline.body.statements;
        let is_ret = |statement: &Statement<'_>| is_one_of(statement, &["ret"]);
        let rest = match statements.split_last() {
            // The end is there anyway.
            Some((Statement::Instruction(last), rest)) if root(last) == "ret" && last.guard.is_empty() => rest,
            _ => statements,
        };
        self.statements(&rest[self.ahead()..], writer)?;
        writer.mark("\t}");
        if rest.iter().any(is_ret) {
            writer.mark(format_args!("{RETURN}_{}:", self.number));
        }
        Ok(())
    }

    fn statement(&self, statement: &Statement<'a>, writer: &mut Writer) -> Result<(), Malformed> {
        match statement {
            Statement::Open => writer.mark("\t{"),
            Statement::Close => writer.mark("\t}"),
            Statement::Label(label) => writer.mark(format_args!("{}:", self.name(label))),
            Statement::Directive(words) => writer.line(self.render(words)),
            Statement::Instruction(instruction) if root(instruction) == "ret" => {
                let bra = if instruction.guard.is_empty() { "bra.uni" } else { "bra" };
                let guard = self.guard(instruction);
                writer.line(format_args!("{guard}{bra} {RETURN}_{}", self.number));
            }
            Statement::Instruction(instruction) => self.instruction(instruction, writer)?,
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
