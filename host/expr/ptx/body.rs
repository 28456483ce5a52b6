// SPDX-License-Identifier: MIT OR Apache-2.0
//! The body of a device function, statement by statement, each of which is known to do what it does wherever it stands.

use std::collections::{HashMap, HashSet};

use super::Malformed;
use super::lexer::{Token, is_name};
use super::module::{Item, Kind, Module};

/// What a function's instructions may be. All of them concern one thread: those of a warp or a block would wait for threads
/// that have taken another way.
const INSTRUCTIONS: [&str; 66] = [
    "abs", "add", "addc", "and", "atom", "bfe", "bfi", "bfind", "bmsk", "bra", "brev", "brx", "call", "clz", "cnot",
    "copysign", "cos", "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "exit", "fma", "fns", "ld", "lg2", "lop3", "mad",
    "mad24", "madc", "max", "membar", "min", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "red",
    "rem", "ret", "rsqrt", "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "st", "sub",
    "subc", "szext", "tanh", "testp", "trap", "xor",
];

/// A statement of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement<'a> {
    Open,
    Close,
    Label(&'a str),
    /// Declarations, but those of memory of the function's own.
    Directive(Vec<&'a str>),
    Instruction(Instruction<'a>),
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction<'a> {
    /// The predicate, such as `@`, `!`, `%p1`.
    pub guard: Vec<&'a str>,
    pub opcode: &'a str,
    pub operands: Vec<&'a str>,
}

impl<'a> Instruction<'a> {
    /// The variable, offset and other operand of a `ld.param` or `st.param`: `[name+offset]` is one of two operands.
    pub(super) fn access(&self) -> Option<(&'a str, u32, String)> {
        let comma = self.operands.iter().position(|word| *word == ",")?;
        let (left, right) = (&self.operands[..comma], &self.operands[comma + 1..]);
        let (place, other) = if self.opcode.starts_with("ld.") {
            (right, left)
        } else {
            (left, right)
        };
        match place {
            ["[", name, "]"] => Some((name, 0, other.concat())),
            ["[", name, "+", offset, "]"] => Some((name, offset.parse().ok()?, other.concat())),
            _ => None,
        }
    }
}

/// Memory of the function's own.
#[derive(Clone, Debug)]
pub(super) struct Local<'a> {
    pub name: &'a str,
    /// From `.local` to the semicolon.
    pub declaration: Vec<&'a str>,
}

/// A variable of the function's interface: its name and its bits.
pub(super) type Parameter<'a> = (&'a str, u32);

/// A function.
#[derive(Clone, Debug)]
pub(super) struct Body<'a> {
    pub parameters: Vec<Parameter<'a>>,
    pub result: Parameter<'a>,
    pub statements: Vec<Statement<'a>>,
    pub locals: Vec<Local<'a>>,
    pub labels: HashSet<&'a str>,
    /// Bits and number of the registers of a name; predicates have 1 bit, and a single register has no number.
    registers: HashMap<&'a str, (u32, Option<u32>)>,
}

impl<'a> Body<'a> {
    /// Reads a function of `module`, and checks every name and instruction in it.
    pub(super) fn parse(item: &Item<'a>, module: &Module<'a>) -> Result<Self, Malformed> {
        if item.kind != Kind::Function {
            return Err(Malformed("there is no such function".to_owned()));
        }
        let body = position(&item.tokens, "{")?;
        let interface = interface(&item.tokens[..body])?;
        Self::of(item, body, interface, module)
    }

    /// Checks a function that remains one, whose interface may be any.
    pub(super) fn check_called(item: &Item<'a>, module: &Module<'a>) -> Result<(), Malformed> {
        let body = position(&item.tokens, "{")?;
        let names = item.tokens[..body].iter().filter(|token| token.is_name());
        let parameters = names.map(|token| (token.text, 0)).collect();
        Self::of(item, body, (parameters, (item.name, 0)), module).map(drop)
    }

    fn of(
        item: &Item<'a>,
        body: usize,
        (parameters, result): (Vec<Parameter<'a>>, Parameter<'a>),
        module: &Module<'a>,
    ) -> Result<Self, Malformed> {
        let mut this = Self {
            parameters,
            result,
            statements: Vec::new(),
            locals: Vec::new(),
            labels: HashSet::new(),
            registers: HashMap::new(),
        };
        let mut rest = &item.tokens[body + 1..item.tokens.len() - 1];
        while !rest.is_empty() {
            let len = this.statement(rest)?;
            rest = &rest[len..];
        }
        this.check(module)?;
        Ok(this)
    }

    /// The number of instructions, without what loads constants, of which ptxas makes operands.
    pub(super) fn instructions(&self) -> usize {
        let is_instruction = |statement: &&Statement<'_>| match statement {
            Statement::Instruction(instruction) => !instruction.opcode.starts_with("ld.const."),
            _ => false,
        };
        self.statements.iter().filter(is_instruction).count()
    }

    /// The bits of a register, if it is declared.
    pub(super) fn bits(&self, register: &str) -> Option<u32> {
        if let Some(&(bits, None)) = self.registers.get(register) {
            return Some(bits);
        }
        let name = register.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: u32 = register[name.len()..].parse().ok()?;
        match self.registers.get(name) {
            Some(&(bits, Some(count))) if number < count => Some(bits),
            _ => None,
        }
    }

    /// The names of the registers.
    pub(super) fn register_names(&self) -> impl Iterator<Item = &'a str> {
        self.registers.keys().copied()
    }

    /// Takes the statement that `rest` begins with; gives the number of its tokens.
    fn statement(&mut self, rest: &[Token<'a>]) -> Result<usize, Malformed> {
        let first = rest[0].text;
        match first {
            "{" => {
                self.statements.push(Statement::Open);
                return Ok(1);
            }
            "}" => {
                self.statements.push(Statement::Close);
                return Ok(1);
            }
            ";" => return Ok(1),
            _ => {}
        }
        if rest[0].is_name() && rest.get(1).is_some_and(|token| token.text == ":") {
            if !self.labels.insert(first) {
                return Err(Malformed(format!("label `{first}` is there twice")));
            }
            self.statements.push(Statement::Label(first));
            return Ok(2);
        }
        let len = position(rest, ";")?;
        let words: Vec<&str> = rest[..len].iter().map(|token| token.text).collect();
        match first {
            ".reg" => self.registers(&words)?,
            ".local" => self.local(&words)?,
            ".param" | ".branchtargets" | ".callprototype" | ".pragma" => {}
            _ if first.starts_with('.') => return Err(unknown("directive", first)),
            _ => {
                let instruction = instruction(&words)?;
                self.statements.push(Statement::Instruction(instruction));
                return Ok(len + 1);
            }
        }
        if first != ".local" {
            self.statements.push(Statement::Directive(words));
        }
        Ok(len + 1)
    }

    /// `.reg .b32 %r<8>` or `.reg .b64 %SP`.
    fn registers(&mut self, words: &[&'a str]) -> Result<(), Malformed> {
        let (ty, name, count) = match words {
            [_, ty, name] => (*ty, *name, None),
            [_, ty, name, "<", count, ">"] => (*ty, *name, count.parse().ok()),
            _ => return Err(unknown("declaration", &words.join(" "))),
        };
        let bits = match ty {
            ".pred" => 1,
            _ => bits_of(ty)
                .filter(|&bits| bits >= 16)
                .ok_or_else(|| unknown("type", ty))?,
        };
        // Inline assembly has one of the same name in a scope for each time that it is there.
        let before = self.registers.insert(name, (bits, count));
        if (count.is_none() && words.len() > 3) || before.is_some_and(|before| before != (bits, count)) {
            return Err(unknown("declaration", &words.join(" ")));
        }
        Ok(())
    }

    fn local(&mut self, words: &[&'a str]) -> Result<(), Malformed> {
        let name = words.iter().find(|word| is_name(word));
        let name = name.ok_or_else(|| unknown("declaration", &words.join(" ")))?;
        self.locals.push(Local {
            name,
            declaration: words.to_vec(),
        });
        Ok(())
    }

    /// Whether every name in a statement is that of something.
    fn check(&self, module: &Module<'a>) -> Result<(), Malformed> {
        let mut scoped = HashSet::new();
        for statement in &self.statements {
            match statement {
                Statement::Directive(words) if words[0] == ".param" => {
                    scoped.extend(words.iter().filter(|w| is_name(w)))
                }
                Statement::Directive(words) if words[0] == ".branchtargets" => {
                    for word in words.iter().filter(|word| is_name(word)) {
                        if !self.labels.contains(word) {
                            return Err(unknown("name", word));
                        }
                    }
                }
                Statement::Instruction(instruction) => {
                    for word in instruction.guard.iter().chain(&instruction.operands) {
                        self.check_operand(word, &scoped, module)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_operand(&self, word: &str, scoped: &HashSet<&str>, module: &Module<'_>) -> Result<(), Malformed> {
        let is_known = match word.chars().next() {
            Some('%') => self.bits(word).is_some() || is_place(word),
            Some('0'..='9') => true,
            Some(_) if is_name(word) => {
                let interface = self.parameters.iter().chain([&self.result]);
                interface.into_iter().any(|(name, _)| *name == word)
                    || self.labels.contains(word)
                    || self.bits(word).is_some()
                    || scoped.contains(word)
                    || self.locals.iter().any(|local| local.name == word)
                    || module.find(word).is_some()
            }
            _ => matches!(
                word,
                "@" | "!" | "," | "[" | "]" | "{" | "}" | "(" | ")" | "+" | "-" | "|"
            ),
        };
        if is_known {
            Ok(())
        } else {
            Err(unknown("operand", word))
        }
    }
}

/// Whether a register says which thread it is: panics tell.
fn is_place(register: &str) -> bool {
    let (name, axis) = register.split_once('.').unwrap_or((register, ""));
    matches!(name, "%tid" | "%ntid" | "%ctaid" | "%nctaid") && matches!(axis, "x" | "y" | "z")
}

/// The parameters and the result of a function's head.
fn interface<'a>(head: &[Token<'a>]) -> Result<(Vec<Parameter<'a>>, Parameter<'a>), Malformed> {
    let words: Vec<&str> = head.iter().map(|token| token.text).collect();
    let wrong = || {
        Malformed(format!(
            "a device function takes and gives numbers, not `{}`",
            words.join(" ")
        ))
    };
    let function = words.iter().position(|word| *word == ".func").ok_or_else(wrong)?;
    let ["(", ".param", ty, result, ")", _, "(", parameters @ .., ")"] = &words[function + 1..] else {
        return Err(wrong());
    };
    let parameter = |ty: &str, name: &'a str| match bits_of(ty) {
        Some(bits @ (32 | 64)) if is_name(name) => Ok((name, bits)),
        _ => Err(wrong()),
    };
    let parse = |words: &[&'a str]| match words {
        [".param", ty, name] => parameter(ty, name),
        _ => Err(wrong()),
    };
    let parameters = match parameters {
        [] => Vec::new(),
        all => all.split(|word| *word == ",").map(parse).collect::<Result<_, _>>()?,
    };
    Ok((parameters, parameter(ty, result)?))
}

/// The bits of a type such as `.b32`, predicates aside.
pub(super) fn bits_of(ty: &str) -> Option<u32> {
    let bits = ty.strip_prefix('.')?.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some(bits)
}

/// `@!%p1 bra $L__BB0_1`.
fn instruction<'a>(words: &[&'a str]) -> Result<Instruction<'a>, Malformed> {
    let guard = match words {
        ["@", "!", _, ..] => 3,
        ["@", _, ..] => 2,
        _ => 0,
    };
    let Some((&opcode, operands)) = words[guard..].split_first() else {
        return Err(unknown("statement", &words.join(" ")));
    };
    let root = opcode.split('.').next().unwrap_or_default();
    if !INSTRUCTIONS.contains(&root)
        || opcode
            .split('.')
            .any(|part| part.starts_with("shared") || part == "sync")
    {
        return Err(unknown("instruction", opcode));
    }
    Ok(Instruction {
        guard: words[..guard].to_vec(),
        opcode,
        operands: operands.to_vec(),
    })
}

fn position(tokens: &[Token<'_>], text: &str) -> Result<usize, Malformed> {
    let found = tokens.iter().position(|token| token.text == text);
    found.ok_or_else(|| Malformed(format!("a `{text}` is missing")))
}

fn unknown(what: &str, text: &str) -> Malformed {
    Malformed(format!("unknown {what} `{text}`"))
}
