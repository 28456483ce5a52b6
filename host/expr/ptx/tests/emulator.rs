// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for what the generator writes: blocks of threads with registers, shuffles, barriers and shared memory. It knows
//! these instructions and no others; device functions are one each, which the host computes.

use std::collections::HashMap;

use crate::backend::DeviceFnInfo;
use crate::expr::program::MAX_ARGUMENTS;

/// Global memory.
pub(super) trait Memory {
    fn load(&mut self, address: u64, bytes: usize) -> u64;
    fn store(&mut self, address: u64, bytes: usize, value: u64);
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Register(usize),
    Number(u64),
    /// A place in the parameters, or in shared memory behind what a register says.
    Place(Option<usize>, u64),
    Thread,
    Block(usize),
    Label(usize),
}

#[derive(Debug)]
struct Line<'a> {
    guard: Option<usize>,
    opcode: &'a str,
    operands: Vec<Operand>,
    /// Whether a vector, or the halves of a number, come first.
    is_split: bool,
}

/// A kernel, taken apart.
pub(super) struct Emulator<'a> {
    lines: Vec<Line<'a>>,
    registers: usize,
    shared: usize,
    functions: &'a [&'static DeviceFnInfo],
}

/// What a thread waits for, or why it goes no further.
enum Stop {
    Shuffle,
    Barrier,
    End,
}

struct Thread {
    registers: Vec<u64>,
    at: usize,
    number: u32,
    is_done: bool,
}

impl<'a> Emulator<'a> {
    /// Of a text with an entry.
    pub(super) fn new(text: &'a str, functions: &'a [&'static DeviceFnInfo]) -> Self {
        let (_, body) = text.split_once("\n{\n").expect("a body");
        let lines: Vec<&str> = body.lines().take_while(|line| *line != "}").map(str::trim).collect();
        let mut labels = HashMap::new();
        let mut shared = 0;
        let mut kept = Vec::new();
        for line in lines {
            if let Some(label) = line.strip_suffix(':') {
                labels.insert(label, kept.len());
            } else if let Some(declared) = line.strip_prefix(".shared") {
                let (_, size) = declared.split_once('[').expect("a size");
                shared = size
                    .trim_end_matches(|c: char| !c.is_ascii_digit())
                    .parse()
                    .expect("a size");
            } else if !line.starts_with(['.', '{', '}']) {
                kept.push(line.trim_end_matches(';'));
            }
        }
        let mut registers = HashMap::new();
        let parse = |line: &&'a str| Line::parse(line, &labels, &mut registers);
        let lines = kept.iter().map(parse).collect();
        Self {
            lines,
            registers: registers.len(),
            shared,
            functions,
        }
    }

    /// Runs a block.
    pub(super) fn block(&self, block: (u32, u32), threads: u32, parameters: &[u8], memory: &mut dyn Memory) {
        let mut shared = vec![0u8; self.shared];
        let mut all: Vec<Thread> = (0..threads)
            .map(|number| Thread {
                registers: vec![0; self.registers],
                at: 0,
                number,
                is_done: false,
            })
            .collect();
        loop {
            let mut waits = 0;
            for warp in all.chunks_mut(32) {
                while let Stop::Shuffle = self.warp(warp, block, parameters, &mut shared, memory) {
                    self.shuffle(warp);
                }
                waits += usize::from(warp.iter().any(|thread| !thread.is_done));
            }
            if waits == 0 {
                return;
            }
            let at: Vec<usize> = all
                .iter()
                .filter(|thread| !thread.is_done)
                .map(|thread| thread.at)
                .collect();
            assert!(
                at.len() == all.len() && at.iter().all(|line| *line == at[0]),
                "a barrier of some"
            );
            all.iter_mut().for_each(|thread| thread.at += 1);
        }
    }

    /// Has each thread go on; all of a warp stop at one place.
    fn warp(
        &self,
        warp: &mut [Thread],
        block: (u32, u32),
        parameters: &[u8],
        shared: &mut [u8],
        memory: &mut dyn Memory,
    ) -> Stop {
        let mut stop = Stop::End;
        let mut at = None;
        for thread in warp.iter_mut().filter(|thread| !thread.is_done) {
            match self.run(thread, block, parameters, shared, memory) {
                Stop::End => thread.is_done = true,
                other => {
                    stop = other;
                    assert_eq!(
                        *at.get_or_insert(thread.at),
                        thread.at,
                        "threads of a warp wait at several places"
                    );
                }
            }
        }
        stop
    }

    fn run(
        &self,
        thread: &mut Thread,
        block: (u32, u32),
        parameters: &[u8],
        shared: &mut [u8],
        memory: &mut dyn Memory,
    ) -> Stop {
        loop {
            let line = &self.lines[thread.at];
            if line.guard.is_some_and(|guard| thread.registers[guard] == 0) {
                thread.at += 1;
                continue;
            }
            match (line.opcode, &line.operands[..]) {
                ("ret", _) => return Stop::End,
                ("bar.sync", _) => return Stop::Barrier,
                (opcode, _) if opcode.starts_with("shfl") => return Stop::Shuffle,
                ("bra" | "bra.uni", [Operand::Label(label)]) => {
                    thread.at = *label;
                    continue;
                }
                _ => self.step(line, thread, block, parameters, shared, memory),
            }
            thread.at += 1;
        }
    }

    fn shuffle(&self, warp: &mut [Thread]) {
        let line = &self.lines[warp[0].at];
        let Operand::Register(to) = line.operands[0] else {
            panic!("a register")
        };
        let values: Vec<u64> = warp
            .iter()
            .map(|thread| thread.value(line.operands[1], (0, 0)))
            .collect();
        assert!(
            values.len() == 32 && !warp.iter().any(|thread| thread.is_done),
            "a whole warp"
        );
        for (lane, thread) in warp.iter_mut().enumerate() {
            let [by, clamp] = [2, 3].map(|k| thread.value(line.operands[k], (0, 0)) as usize);
            let segment = clamp >> 8 & 31;
            let (first, last) = (lane & segment, lane & segment | clamp & 31 & !segment);
            let from = match line.opcode {
                "shfl.sync.down.b32" => lane + by,
                "shfl.sync.idx.b32" => first | by & !segment & 31,
                opcode => panic!("unknown instruction {opcode}"),
            };
            thread.registers[to] = values[if from > last { lane } else { from }];
            thread.at += 1;
        }
    }

    fn step(
        &self,
        line: &Line<'_>,
        thread: &mut Thread,
        block: (u32, u32),
        parameters: &[u8],
        shared: &mut [u8],
        memory: &mut dyn Memory,
    ) {
        let opcode = line.opcode;
        let count = match opcode {
            _ if opcode.contains(".v4") => 4,
            _ if opcode.contains(".v2") => 2,
            _ => 1,
        };
        let size = opcode
            .rsplit('.')
            .next()
            .and_then(|ty| ty.get(1..)?.parse::<usize>().ok());
        let bytes = size.unwrap_or(0) / 8;
        let value = |operand: Operand| thread.value(operand, block);
        let aligned = |address: u64| {
            assert_eq!(address % (count * bytes) as u64, 0, "{opcode} is not aligned");
            address
        };
        if opcode.starts_with("st.") {
            let address = aligned(value(line.operands[0]));
            for (k, &from) in line.operands[1..].iter().enumerate() {
                let (at, value) = (address + (k * bytes) as u64, value(from));
                match opcode.starts_with("st.shared") {
                    true => shared[at as usize..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]),
                    false => memory.store(at, bytes, value),
                }
            }
            return;
        }
        if opcode.starts_with("ld.") {
            let address = aligned(value(line.operands[count]));
            for k in 0..count {
                let at = address + (k * bytes) as u64;
                let loaded = match opcode {
                    _ if opcode.starts_with("ld.global") => memory.load(at, bytes),
                    _ if opcode.starts_with("ld.shared") => word(&shared[at as usize..][..bytes]),
                    _ => word(&parameters[at as usize..][..bytes]),
                };
                thread.set(line.operands[k], loaded);
            }
            return;
        }
        if let Some(number) = opcode.strip_prefix("native.") {
            let function = self.functions[number.parse::<usize>().expect("a number")];
            let values: Vec<u64> = line.operands[1..].iter().map(|&operand| value(operand)).collect();
            let mut addresses = [std::ptr::null(); MAX_ARGUMENTS];
            addresses
                .iter_mut()
                .zip(&values)
                .for_each(|(to, value)| *to = (&raw const *value).cast());
            let mut result = 0u64;
            // SAFETY: one number for each argument, and room for the result.
            unsafe { (function.run)(addresses.as_ptr(), (&raw mut result).cast(), 1) };
            thread.set(line.operands[0], result);
            return;
        }
        if line.is_split {
            let halves = value(line.operands[2]);
            thread.set(line.operands[0], halves & 0xffff_ffff);
            thread.set(line.operands[1], halves >> 32);
            return;
        }
        let values: Vec<u64> = line.operands[1..].iter().map(|&operand| value(operand)).collect();
        thread.set(line.operands[0], compute(opcode, &values));
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn compute(opcode: &str, values: &[u64]) -> u64 {
    let low = |value: u64| u64::from(value as u32);
    let shift = |by: u64, shifted: u64| if by < 32 { shifted } else { 0 };
    match (opcode, values) {
        ("mov.u32" | "mov.b32" | "mov.b64" | "cvta.to.global.u64" | "cvt.u64.u32", &[a]) => a,
        ("mov.b64", &[low, high]) => low | high << 32,
        ("cvt.u32.u64", &[a]) => low(a),
        ("mad.lo.s32", &[a, b, c]) => low(a.wrapping_mul(b).wrapping_add(c)),
        ("mad.wide.u32" | "mad.lo.s64", &[a, b, c]) => a.wrapping_mul(b).wrapping_add(c),
        ("mul.lo.s32", &[a, b]) => low(a.wrapping_mul(b)),
        ("mul.hi.u32", &[a, b]) => (a * b) >> 32,
        ("add.s32", &[a, b]) => low(a.wrapping_add(b)),
        ("add.s64", &[a, b]) => a.wrapping_add(b),
        ("sub.s32", &[a, b]) => low(a.wrapping_sub(b)),
        ("and.b32" | "and.pred", &[a, b]) => a & b,
        ("min.u32", &[a, b]) => a.min(b),
        ("shr.u32", &[a, b]) => shift(b, a >> (b & 31)),
        ("shl.b32", &[a, b]) => shift(b, low(a << (b & 31))),
        ("setp.ge.u32", &[a, b]) => u64::from(a >= b),
        ("setp.lt.u32", &[a, b]) => u64::from(a < b),
        ("setp.eq.u32", &[a, b]) => u64::from(a == b),
        ("setp.ne.u32", &[a, b]) => u64::from(a != b),
        ("selp.b32" | "selp.b64", &[a, b, is_first]) => {
            if is_first != 0 {
                a
            } else {
                b
            }
        }
        ("prmt.b32", &[a, b, selector]) => {
            let both = a | b << 32;
            (0..4)
                .map(|k| (both >> (8 * (selector >> (4 * k) & 7)) & 0xff) << (8 * k))
                .sum()
        }
        _ => panic!("unknown instruction {opcode} {values:?}"),
    }
}

impl Thread {
    fn value(&self, operand: Operand, block: (u32, u32)) -> u64 {
        match operand {
            Operand::Register(register) => self.registers[register],
            Operand::Number(number) => number,
            Operand::Place(base, offset) => base.map_or(0, |base| self.registers[base]) + offset,
            Operand::Thread => self.number.into(),
            Operand::Block(axis) => [block.0, block.1][axis].into(),
            Operand::Label(_) => panic!("a label is no value"),
        }
    }

    fn set(&mut self, operand: Operand, value: u64) {
        match operand {
            Operand::Register(register) => self.registers[register] = value,
            _ => panic!("a register is wanted"),
        }
    }
}

impl<'a> Line<'a> {
    fn parse(line: &'a str, labels: &HashMap<&str, usize>, registers: &mut HashMap<&'a str, usize>) -> Self {
        let guarded = line.strip_prefix('@').and_then(|line| line.split_once(' '));
        let (guard, line) = guarded.map_or((None, line), |(guard, line)| (Some(guard), line));
        let (opcode, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = rest
            .split([',', ' ', '{', '}', '[', ']'])
            .filter(|word| !word.is_empty());
        let mut register = |name: &'a str| {
            let next = registers.len();
            *registers.entry(name).or_insert(next)
        };
        let mut operand = |word: &'a str| match word {
            "%ctaid.x" => Operand::Block(0),
            "%ctaid.y" => Operand::Block(1),
            "%tid.x" => Operand::Thread,
            // Shared memory begins at 0.
            "folded" => Operand::Number(0),
            _ if labels.contains_key(word) => Operand::Label(labels[word]),
            _ => match word.split_once('+') {
                Some((base, offset)) => {
                    let base = base.starts_with('%').then(|| register(base));
                    Operand::Place(base, offset.parse().expect("an offset"))
                }
                None if word.starts_with('%') => Operand::Register(register(word)),
                None => Operand::Number(match word.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16).expect("a number"),
                    None => word.parse().expect("a number"),
                }),
            },
        };
        let operands = words.map(&mut operand).collect();
        Self {
            guard: guard.map(register),
            opcode,
            operands,
            is_split: opcode == "mov.b64" && rest.starts_with('{'),
        }
    }
}
