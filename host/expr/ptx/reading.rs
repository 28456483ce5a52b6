// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels that were compiled from Rust, reading a program's elements in place of an array.
//!
//! Such a kernel gets the address [`FIRST`] for its first array, where no memory is, and a block of parameters more. In its
//! text each load from an address that depends on that of the array is replaced: the place from which it would load says which
//! elements are meant, and their inputs are loaded and the steps done there. So the program is a part of whatever kernel
//! there is for arrays, users' operators included, without being compiled again.
//!
//! An address is followed through the arithmetic of the whole text. A kernel that does anything else with one than to
//! compute, to compare and to load is refused. Loads that stand together, as those of a tile do, stay together: what is
//! computed of the inputs comes when a loaded number is needed, or the threads may part. There, where all of a kernel's time
//! goes, functions are copied; elsewhere, at the ends of rows, they are called.

use std::collections::{HashMap, HashSet};

use super::arguments::Block;
use super::body::bits_of;
use super::halves::{AMPERE, Operation, word};
use super::inline::{Callee, LABELS};
use super::kernel::{Kernel, MOST_PARAMETERS, PARAMETER};
use super::lexer::Token;
use super::link::{LinkedTwice, MOST_INLINED, instructions, link_twice};
use super::memory;
use super::module::{Item, Kind, Module};
use super::steps::{Inputs, Row, Span};
use super::together::Given;
use super::writer::{REGISTERS, Register, Writer};
use super::{Malformed, vector_len};
use crate::expr::program::{Program, Step};

/// The address that such a kernel gets for its first array: a multiple of every vector's size.
pub(in crate::expr) const FIRST: u64 = 1 << 60;

/// The most instructions that an element may take where functions are copied. A scan has some 64 such elements of a thread in
/// its text, and as many and twice more whose functions are called, and ptxas takes some 0.05 ms for an instruction.
const MOST_COPIED: usize = 192;

/// Loads of a kernel that has no others but those that matter.
const FEW: usize = 4;

/// Instructions that numbers come out of by numbers alone.
const ARITHMETIC: [&str; 32] = [
    "abs", "add", "addc", "and", "bfe", "bfi", "clz", "cvt", "cvta", "div", "fma", "lop3", "mad", "madc", "max", "min",
    "mov", "mul", "neg", "not", "or", "popc", "prmt", "rem", "selp", "setp", "shf", "shl", "shr", "sub", "subc", "xor",
];

/// The PTX of the kernel `name` of that text, whose first parameter is an array, reading the elements of `program` in its place,
/// for GPUs from that compute capability on. `texts` are those of the program's functions. The kernel has one parameter more,
/// a block as [`reading_parameters`](super::reading_parameters) makes it.
///
/// # Errors
///
/// What is wrong with a text, or what the kernel does with the array's address besides loading from there.
pub(in crate::expr) fn reading(
    program: &Program,
    texts: &[String],
    (name, text): (&str, &str),
    capability: (u32, u32),
) -> Result<String, Malformed> {
    let modules = Module::parse_all(program, texts)?;
    let of_kernel = |error: Malformed| Malformed(format!("kernel `{name}`: {error}"));
    let kernel = Module::parse_any(text).map_err(of_kernel)?;
    let entry = Entry::find(&kernel, name).map_err(of_kernel)?;
    let operations = Operation::all(program, capability);
    let is_newer = operations.iter().flatten().any(Operation::is_newer);
    let mut length = 0;
    for (step, operation) in program.steps.iter().zip(&operations) {
        if let (Step::Call(function, _), None) = (step, operation) {
            let function = usize::from(*function);
            length += instructions(program.functions[function], &modules[function])?;
        }
    }
    let most_copied = if length <= MOST_COPIED { MOST_INLINED } else { 0 };
    let least = is_newer.then_some(AMPERE);
    let linked = link_twice(&program.functions, &modules, &kernel, least, most_copied)?;
    let LinkedTwice { text, copied, called } = linked;
    let rewritten = entry.rewritten(program, (&copied, &called), &operations);
    Ok(text + &rewritten.map_err(of_kernel)?)
}

/// The entry alone, with these functions where they are copied and where they are called.
#[cfg(test)]
pub(super) fn rewritten(
    program: &Program,
    callees: (&[Callee<'_>], &[Callee<'_>]),
    operations: &[Option<Operation>],
    (name, text): (&str, &str),
) -> Result<String, Malformed> {
    Entry::find(&Module::parse_any(text)?, name)?.rewritten(program, callees, operations)
}

/// A part of a kernel's body.
#[derive(Clone, Copy)]
enum Statement<'a> {
    /// A brace or a label.
    Mark(&'a str),
    /// Up to the semicolon.
    Line(Line<'a>),
}

/// An instruction or a declaration.
#[derive(Clone, Copy)]
struct Line<'a> {
    tokens: &'a [Token<'a>],
    /// The text, with its semicolon.
    source: &'a str,
}

impl<'a> Line<'a> {
    fn is_guarded(self) -> bool {
        self.tokens[0].text == "@"
    }

    /// The instruction and its operands, without its predicate.
    fn instruction(self) -> (&'a str, &'a [Token<'a>]) {
        let skipped = match (self.is_guarded(), self.tokens.get(1)) {
            (true, Some(token)) if token.text == "!" => 3,
            (true, _) => 2,
            _ => 0,
        };
        match self.tokens.get(skipped..).and_then(<[_]>::split_first) {
            Some((opcode, operands)) => (opcode.text, operands),
            None => ("", &[]),
        }
    }

    fn root(self) -> &'a str {
        self.instruction().0.split('.').next().unwrap_or_default()
    }

    /// The registers that the instruction writes, and its other operands.
    fn results(self) -> (&'a [Token<'a>], &'a [Token<'a>]) {
        let operands = self.instruction().1;
        let end = match operands.first() {
            Some(first) if first.text == "{" => operands.iter().position(|token| token.text == "}"),
            _ => operands.iter().position(|token| token.text == ","),
        };
        operands.split_at(end.unwrap_or(operands.len()))
    }

    fn unknown(self) -> Malformed {
        Malformed(format!(
            "it does something else than reading elements with `{}`",
            self.source
        ))
    }
}

/// A load of elements.
struct Access<'a> {
    /// Where the elements go.
    registers: Vec<&'a str>,
    /// The bits that each register gets, whose sign goes on in it if `is_signed`.
    bits: u32,
    is_signed: bool,
    /// The address.
    register: &'a str,
    offset: i64,
}

impl<'a> Access<'a> {
    /// The access of a `ld.global` that no other thread's stores matter to.
    fn parse(line: Line<'a>) -> Option<Self> {
        let (opcode, _) = line.instruction();
        let mut parts = opcode.strip_prefix("ld.global.")?.split('.');
        let ty = parts.next_back()?;
        let bits = bits_of(&format!(".{ty}"))?;
        let count = match parts.next_back() {
            Some("v4") => 4,
            Some("v2") => 2,
            Some("nc") | None => 1,
            Some(_) => return None,
        };
        if !matches!(parts.next_back(), None | Some("nc")) || line.is_guarded() {
            return None;
        }
        let (results, place) = line.results();
        let registers: Vec<&str> = results.iter().map(|token| token.text).collect();
        let registers: Vec<&str> = registers.into_iter().filter(|word| word.starts_with('%')).collect();
        let place: Vec<&str> = place.iter().map(|token| token.text).collect();
        let place = &place[place.iter().position(|word| *word == "[")?..];
        let (register, offset) = match place {
            ["[", register, "]"] => (*register, Some(0)),
            ["[", register, "+", offset, "]"] => (*register, offset.parse().ok()),
            ["[", register, "+", "-", offset, "]"] => (*register, offset.parse().ok().map(|offset: i64| -offset)),
            _ => return None,
        };
        Some(Self {
            bits,
            is_signed: ty.starts_with('s'),
            register,
            offset: offset?,
            registers,
        })
        .filter(|access| access.registers.len() == count)
    }

    fn bytes(&self) -> usize {
        self.registers.len() * self.bits as usize / 8
    }
}

/// A kernel, taken apart.
struct Entry<'a> {
    /// Ahead of the `)` behind its parameters, and from there to its body.
    head: [&'a str; 2],
    /// The bytes of its parameters, at most.
    parameters: usize,
    /// The first one.
    array: &'a str,
    body: Vec<Statement<'a>>,
}

impl<'a> Entry<'a> {
    fn find(module: &'a Module<'a>, name: &str) -> Result<Self, Malformed> {
        let is_it = |item: &&Item<'_>| item.kind == Kind::Kernel && item.name == name;
        let item = module
            .items
            .iter()
            .find(is_it)
            .ok_or_else(|| Malformed("it is not in its text".to_owned()))?;
        let tokens = &item.tokens[..];
        let position = |text: &str| {
            let found = tokens.iter().position(|token| token.text == text);
            found.ok_or_else(|| Malformed(format!("a `{text}` is missing")))
        };
        let (open, close, body) = (position("(")?, position(")")?, position("{")?);
        let parameters: Vec<&[Token<'_>]> = tokens[open + 1..close].split(|token| token.text == ",").collect();
        let array = match parameters[0] {
            [_, ty, .., name] if bits_of(ty.text) == Some(64) => name.text,
            _ => return Err(Malformed("its first parameter is no array".to_owned())),
        };
        let bytes = |parameter: &&[Token<'_>]| match parameter {
            [.., _, size, _] if parameter[parameter.len() - 1].text == "]" => {
                size.text.parse().unwrap_or(MOST_PARAMETERS)
            }
            _ => 8,
        };
        let text = module.text;
        Ok(Self {
            head: [
                &text[tokens[0].start..tokens[close].start],
                &text[tokens[close].start + 1..tokens[body].start],
            ],
            // Each may begin at a multiple of 64, as tensor maps do.
            parameters: parameters.iter().map(bytes).sum(),
            array,
            body: statements(&tokens[body + 1..tokens.len() - 1], text)?,
        })
    }

    fn rewritten(
        &self,
        program: &Program,
        (copied, called): (&[Callee<'_>], &[Callee<'_>]),
        operations: &[Option<Operation>],
    ) -> Result<String, Malformed> {
        let block = Block::new(program);
        let [copied, called] = [copied, called].map(|callees| Kernel {
            program,
            block: &block,
            callees,
            operations,
            streaming: None,
            once: false,
            given: Given::Alone,
            is_stashed: false,
        });
        let body = Rewriting::new(self, copied, called)?.write()?;
        Ok(self.head(&block)? + "{\n" + &body + "}\n")
    }

    /// What comes ahead of the body, with the block as one more parameter.
    fn head(&self, block: &Block) -> Result<String, Malformed> {
        let [before, behind] = self.head;
        if self.parameters.next_multiple_of(8) + block.size > MOST_PARAMETERS {
            return Err(Malformed(format!(
                "an expression takes {} bytes of parameters beside {}, a kernel {MOST_PARAMETERS}",
                block.size, self.parameters
            )));
        }
        let before = before.trim_end();
        Ok(format!(
            "{before},\n\t.param .align 8 .b8 {PARAMETER}[{}]\n){behind}",
            block.size
        ))
    }

    fn lines(&self) -> impl Iterator<Item = Line<'a>> {
        self.body.iter().filter_map(|statement| match statement {
            Statement::Line(line) => Some(*line),
            Statement::Mark(_) => None,
        })
    }

    /// The bits of the registers, by their names without numbers.
    fn registers(&self) -> Result<HashMap<&'a str, u32>, Malformed> {
        let mut registers = HashMap::new();
        for line in self.lines().filter(|line| line.tokens[0].text == ".reg") {
            let bits = match line.tokens.get(1).map_or("", |token| token.text) {
                ".pred" => Some(1),
                ty => bits_of(ty),
            };
            for token in line
                .tokens
                .iter()
                .skip(2)
                .filter(|token| token.text.starts_with('%') || token.is_name())
            {
                registers.insert(token.text, bits.ok_or_else(|| line.unknown())?);
            }
        }
        match REGISTERS.iter().find(|name| registers.contains_key(*name)) {
            Some(name) => Err(Malformed(format!("`{name}` is a name of the program's"))),
            None => Ok(registers),
        }
    }
}

fn statements<'a>(mut rest: &'a [Token<'a>], text: &'a str) -> Result<Vec<Statement<'a>>, Malformed> {
    let mut statements = Vec::new();
    while let Some(first) = rest.first() {
        let is_label = first.is_name() && rest.get(1).is_some_and(|token| token.text == ":");
        let (len, statement) = match first.text {
            "{" | "}" => (1, Statement::Mark(first.text)),
            _ if is_label && LABELS.iter().any(|label| first.text.starts_with(label)) => {
                return Err(Malformed(format!("`{}` is a name of the program's", first.text)));
            }
            _ if is_label => (2, Statement::Mark(&text[first.start..=rest[1].start])),
            _ => {
                let end = rest.iter().position(|token| token.text == ";");
                let end = end.ok_or_else(|| Malformed(format!("`{}` never ends", first.text)))?;
                let source = &text[first.start..=rest[end].start];
                let tokens = &rest[..end];
                (end + 1, Statement::Line(Line { tokens, source }))
            }
        };
        if !matches!(statement, Statement::Line(line) if line.tokens.is_empty()) {
            statements.push(statement);
        }
        rest = &rest[len..];
    }
    Ok(statements)
}

/// The registers that depend on the array's address. An error names a line that does something else with it.
fn dependent<'a>(entry: &Entry<'a>, registers: &HashMap<&str, u32>) -> Result<HashSet<&'a str>, Malformed> {
    let mut dependent: HashSet<&str> = HashSet::new();
    loop {
        let before = dependent.len();
        for line in entry.lines() {
            let (results, operands) = line.results();
            let mentions = |name: &str| operands.iter().any(|token| token.text == name);
            let is_array = mentions(entry.array);
            if !is_array && !operands.iter().any(|token| dependent.contains(token.text)) {
                // What is stored at an address has the address ahead of it.
                let stores = !ARITHMETIC.contains(&line.root()) && line.root() != "ld";
                if stores && results.iter().any(|token| dependent.contains(token.text)) {
                    return Err(line.unknown());
                }
                continue;
            }
            let is_parameter = matches!(line.instruction().0, "ld.param.b64" | "ld.param.u64");
            let is_element = Access::parse(line).is_some_and(|access| dependent.contains(access.register));
            match ARITHMETIC.contains(&line.root()) {
                true if !is_array => {}
                false if is_array && is_parameter => {}
                false if !is_array && is_element => continue,
                _ => return Err(line.unknown()),
            }
            let numbers = results.iter().filter(|token| token.text.starts_with('%'));
            dependent.extend(
                numbers
                    .map(|token| token.text)
                    .filter(|name| bits(registers, name) > Some(1)),
            );
        }
        if dependent.len() == before {
            return Ok(dependent);
        }
    }
}

/// The bits of a register.
fn bits(registers: &HashMap<&str, u32>, name: &str) -> Option<u32> {
    let without_number = name.trim_end_matches(|c: char| c.is_ascii_digit());
    registers.get(name).or_else(|| registers.get(without_number)).copied()
}

/// Elements whose inputs are loaded.
struct Pending<'a> {
    access: Access<'a>,
    parts: Vec<(Row, Vec<Span>, Inputs)>,
}

struct Rewriting<'e, 'a> {
    entry: &'e Entry<'a>,
    registers: HashMap<&'a str, u32>,
    /// The registers that depend on the array's address.
    dependent: HashSet<&'a str>,
    /// With functions that are copied, and with ones that are called.
    copied: Kernel<'e>,
    called: Kernel<'e>,
    /// The loads in all.
    loads: usize,
    pending: Vec<Pending<'a>>,
    writer: Writer,
}

impl<'e, 'a> Rewriting<'e, 'a> {
    fn new(entry: &'e Entry<'a>, copied: Kernel<'e>, called: Kernel<'e>) -> Result<Self, Malformed> {
        let registers = entry.registers()?;
        let dependent = dependent(entry, &registers)?;
        let is_load = |line: &Line<'_>| Access::parse(*line).is_some_and(|access| dependent.contains(access.register));
        Ok(Self {
            loads: entry.lines().filter(is_load).count(),
            entry,
            registers,
            dependent,
            copied,
            called,
            pending: Vec::new(),
            writer: Writer::default(),
        })
    }

    fn write(mut self) -> Result<String, Malformed> {
        for statement in &self.entry.body {
            let line = match *statement {
                Statement::Mark(mark) => {
                    self.compute()?;
                    self.writer.mark(mark);
                    continue;
                }
                Statement::Line(line) => line,
            };
            let access = Access::parse(line).filter(|access| self.dependent.contains(access.register));
            if self.waits_for(line, access.is_some()) {
                self.compute()?;
            }
            let (results, operands) = line.results();
            match access {
                Some(access) => self.load(access)?,
                // An address of no memory is that of no global memory either.
                None if line.root() == "cvta" && operands.iter().any(|token| self.dependent.contains(token.text)) => {
                    let [to, from] = [results, &operands[1..]].map(|tokens| tokens[0].text);
                    self.writer.line(format_args!("mov.b64 {to}, {from}"));
                }
                None => self.writer.mark(format_args!("\t{}", line.source)),
            }
        }
        Ok(self.writer.finish())
    }

    /// Whether the pending elements are to be computed ahead of the line.
    fn waits_for(&self, line: Line<'_>, is_load: bool) -> bool {
        let is_pending = |name: &str| {
            self.pending
                .iter()
                .any(|pending| pending.access.registers.contains(&name))
        };
        let is_calm = is_load || line.root() == "ld" || ARITHMETIC.contains(&line.root());
        !is_calm || line.tokens.iter().any(|token| is_pending(token.text))
    }

    /// Loads the inputs of the elements that are read there.
    fn load(&mut self, access: Access<'a>) -> Result<(), Malformed> {
        let (kernel, writer) = (&self.copied, &mut self.writer);
        let program = kernel.program;
        let output = program.outputs[0];
        let size = program.types[usize::from(output)].bytes();
        let (len, rest) = (access.bytes() / size, access.bytes() % size);
        if rest != 0 || len == 0 {
            return Err(Malformed(format!(
                "it reads {} bytes of elements of {size}",
                access.bytes()
            )));
        }
        let address = writer.new_double("add.s64", format_args!("{}, {}", access.register, access.offset));
        let number = writer.new_double("shr.u64", format_args!("{address}, {}", size.ilog2()));
        let first = writer.new_word("cvt.u32.u64", number);
        let chunk = if program.aligned {
            vector_len(program).min(len)
        } else {
            1
        };
        let needed = kernel.needed([output].into_iter());
        let none = vec![Vec::new(); program.steps.len()];
        let mut parts = Vec::new();
        let mut of_row = Vec::new();
        for k in (0..len).step_by(chunk) {
            let column = match k {
                0 => first,
                _ => writer.new_word("add.s32", format_args!("{first}, {k}")),
            };
            let span = |column| Span {
                column,
                len: chunk,
                exists: None,
            };
            if program.axes == 1 {
                of_row.push(span(column));
                continue;
            }
            let (row, column) = kernel.divide(column, kernel.block.groups, writer);
            let (row, spans) = (kernel.row_along(row, 0, writer), vec![span(column)]);
            let inputs = kernel.elements_of(&row, &spans).load_wanted(&needed, &none, writer);
            parts.push((row, spans, inputs));
        }
        if !of_row.is_empty() {
            let row = kernel.flat_row(writer);
            let inputs = kernel.elements_of(&row, &of_row).load_wanted(&needed, &none, writer);
            parts.push((row, of_row, inputs));
        }
        self.pending.push(Pending { access, parts });
        Ok(())
    }

    /// Computes the pending elements, and puts them where the kernel wants them.
    fn compute(&mut self) -> Result<(), Malformed> {
        let is_hot = self.pending.len() > 1 || self.loads <= FEW;
        let kernel = if is_hot { &self.copied } else { &self.called };
        let writer = &mut self.writer;
        let output = kernel.program.outputs[0];
        let (step, needed) = (usize::from(output), kernel.needed([output].into_iter()));
        for Pending { access, parts } in self.pending.drain(..) {
            let mut elements = Vec::new();
            for (row, spans, inputs) in &parts {
                let mut values = vec![Vec::new(); kernel.program.steps.len()];
                kernel
                    .elements_of(row, spans)
                    .compute_loaded(&needed, inputs, &mut values, writer)?;
                match values[step][..] {
                    [one] => elements.extend(vec![one; spans.iter().map(|span| span.len).sum()]),
                    _ => elements.append(&mut values[step]),
                }
            }
            let numbers = memory::words(kernel.program.types[step], &elements, writer);
            let words: Vec<Register> = numbers.into_iter().flat_map(|number| halved(number, writer)).collect();
            for (k, to) in access.registers.iter().enumerate() {
                let to = (*to, bits(&self.registers, to).unwrap_or(0));
                put(
                    to,
                    &words,
                    k as u32 * access.bits,
                    (access.bits, access.is_signed),
                    writer,
                )?;
            }
        }
        Ok(())
    }
}

/// A number as words.
fn halved(number: Register, writer: &mut Writer) -> Vec<Register> {
    if number.bits() < 64 {
        return vec![word(number, writer)];
    }
    let [low, high] = [writer.word(), writer.word()];
    writer.line(format_args!("mov.b64 {{{low}, {high}}}, {number}"));
    vec![low, high]
}

/// Puts the bits of the words from `first` on into a register of the kernel's, as a load of so many bits does.
fn put(
    (to, to_bits): (&str, u32),
    words: &[Register],
    first: u32,
    (bits, is_signed): (u32, bool),
    writer: &mut Writer,
) -> Result<(), Malformed> {
    let at = (first / 32) as usize;
    let ty = if is_signed { 's' } else { 'u' };
    if bits == 64 && to_bits == 64 {
        writer.line(format_args!("mov.b64 {to}, {{{}, {}}}", words[at], words[at + 1]));
        return Ok(());
    }
    let value = match bits {
        32 => words[at],
        _ => writer.new_word(
            &format!("bfe.{ty}32"),
            format_args!("{}, {}, {bits}", words[at], first % 32),
        ),
    };
    match to_bits {
        32 => writer.line(format_args!("mov.b32 {to}, {value}")),
        16 | 64 if bits <= to_bits => writer.line(format_args!("cvt.{ty}{to_bits}.{ty}32 {to}, {value}")),
        _ => return Err(Malformed(format!("it reads {bits} bits into `{to}`"))),
    }
    Ok(())
}
