// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for the PTX that the library writes of expressions: blocks of threads with registers, shuffles, barriers and
//! shared memory. It knows these instructions and no others; device functions are one each, which the host computes.

use std::collections::HashMap;

use half::{bf16, f16};

/// The most arguments of a device function.
pub const MAX_ARGUMENTS: usize = 6;

/// Computes the device function of that number.
pub type Native<'a> = &'a dyn Fn(usize, [u64; MAX_ARGUMENTS]) -> u64;

/// Global memory.
pub trait Memory {
    /// The number in so many bytes.
    fn load(&mut self, address: u64, bytes: usize) -> u64;

    /// Writes the low bytes of a number.
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

/// What an instruction does, found once by its name.
#[derive(Clone, Copy)]
enum Action {
    Return,
    Barrier,
    Branch,
    /// To the lane that is so many further, or of that number in its segment.
    ShuffleDown,
    ShuffleTo,
    /// From the lane whose number differs by these bits.
    ShuffleButterfly,
    Load(Space, Shape),
    Store(Space, Shape),
    /// From global to shared memory, at once.
    Copy,
    /// What only a cache notices, or what waits for what is done at once.
    Nothing,
    /// A device function, by its number.
    Native(usize),
    /// A number's halves, of so many bits.
    Split(u32),
    Compute(fn([u64; MAX_OPERANDS]) -> u64),
}

/// The most shared memory of a block beside its own.
const MOST_SHARED: usize = 227 << 10;

/// The most operands that a computed number has.
const MAX_OPERANDS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Parameters,
    Shared,
    Global,
}

/// So many neighbours of so many bytes.
#[derive(Clone, Copy)]
struct Shape {
    count: usize,
    bytes: usize,
}

struct Line {
    guard: Option<usize>,
    action: Action,
    operands: Vec<Operand>,
}

/// A kernel, taken apart.
pub struct Emulator<'a> {
    lines: Vec<Line>,
    registers: usize,
    shared: usize,
    native: Native<'a>,
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
    /// Of a text with an entry, whose device functions `native` computes.
    pub fn new(text: &str, native: Native<'a>) -> Self {
        let (head, body) = text.split_once("\n{\n").expect("a body");
        let lines: Vec<&str> = body.lines().take_while(|line| *line != "}").map(str::trim).collect();
        let mut labels = HashMap::new();
        let mut shared = 0usize;
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
        // How much more there is a launch says; here it is as much as a GPU has.
        let stash = shared.next_multiple_of(16);
        if head.contains(".extern .shared") {
            shared = stash + MOST_SHARED;
        }
        let mut registers = HashMap::new();
        let parse = |line| Line::parse(line, &labels, stash, &mut registers);
        let lines = kept.into_iter().map(parse).collect();
        Self {
            lines,
            registers: registers.len(),
            shared,
            native,
        }
    }

    /// Runs a block.
    pub fn block(&self, block: (u32, u32), threads: u32, parameters: &[u8], memory: &mut dyn Memory) {
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
            match line.action {
                Action::Return => return Stop::End,
                Action::Barrier => return Stop::Barrier,
                Action::ShuffleDown | Action::ShuffleTo | Action::ShuffleButterfly => return Stop::Shuffle,
                Action::Branch => {
                    let Operand::Label(label) = line.operands[0] else {
                        panic!("a label is wanted")
                    };
                    thread.at = label;
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
            let from = match line.action {
                Action::ShuffleDown => lane + by,
                Action::ShuffleButterfly => lane ^ by,
                _ => first | by & !segment & 31,
            };
            thread.registers[to] = values[if from > last { lane } else { from }];
            thread.at += 1;
        }
    }

    fn step(
        &self,
        line: &Line,
        thread: &mut Thread,
        block: (u32, u32),
        parameters: &[u8],
        shared: &mut [u8],
        memory: &mut dyn Memory,
    ) {
        let operands = &line.operands;
        match line.action {
            Action::Store(space, shape) => {
                let address = shape.aligned(thread.value(operands[0], block));
                for (k, &from) in operands[1..].iter().enumerate() {
                    let (at, value) = (address + (k * shape.bytes) as u64, thread.value(from, block));
                    match space {
                        Space::Global => memory.store(at, shape.bytes, value),
                        _ => shared[at as usize..][..shape.bytes].copy_from_slice(&value.to_le_bytes()[..shape.bytes]),
                    }
                }
            }
            Action::Load(space, shape) => {
                let address = shape.aligned(thread.value(operands[shape.count], block));
                for (k, &to) in operands[..shape.count].iter().enumerate() {
                    let at = address + (k * shape.bytes) as u64;
                    let loaded = match space {
                        Space::Global => memory.load(at, shape.bytes),
                        Space::Shared => word(&shared[at as usize..][..shape.bytes]),
                        Space::Parameters => word(&parameters[at as usize..][..shape.bytes]),
                    };
                    thread.set(to, loaded);
                }
            }
            Action::Copy => {
                let [to, from, bytes] = [0, 1, 2].map(|k| thread.value(operands[k], block));
                assert!(
                    (to | from).is_multiple_of(bytes),
                    "{bytes} bytes from {from} to {to} are not aligned"
                );
                for k in 0..bytes {
                    shared[(to + k) as usize] = memory.load(from + k, 1) as u8;
                }
            }
            Action::Nothing => {}
            Action::Native(number) => {
                let mut values = [0u64; MAX_ARGUMENTS];
                for (value, &operand) in values.iter_mut().zip(&operands[1..]) {
                    *value = thread.value(operand, block);
                }
                thread.set(operands[0], (self.native)(number, values));
            }
            Action::Split(bits) => {
                let halves = thread.value(operands[2], block);
                thread.set(operands[0], halves & ((1 << bits) - 1));
                thread.set(operands[1], halves >> bits);
            }
            Action::Compute(function) => {
                let mut values = [0u64; MAX_OPERANDS];
                for (value, &operand) in values.iter_mut().zip(&operands[1..]) {
                    *value = thread.value(operand, block);
                }
                thread.set(operands[0], function(values));
            }
            Action::Return
            | Action::Barrier
            | Action::Branch
            | Action::ShuffleDown
            | Action::ShuffleTo
            | Action::ShuffleButterfly => {
                unreachable!("a thread stops there or goes elsewhere")
            }
        }
    }
}

impl Shape {
    fn of(opcode: &str) -> Self {
        let bits = opcode
            .rsplit('.')
            .next()
            .and_then(|ty| ty.get(1..)?.parse::<usize>().ok());
        let count = match opcode {
            _ if opcode.contains(".v4") => 4,
            _ if opcode.contains(".v2") => 2,
            _ => 1,
        };
        Self {
            count,
            bytes: bits.expect("a type's bits") / 8,
        }
    }

    fn aligned(self, address: u64) -> u64 {
        let bytes = (self.count * self.bytes) as u64;
        assert!(
            address.is_multiple_of(bytes),
            "{bytes} bytes at {address} are not aligned"
        );
        address
    }
}

impl Space {
    fn of(opcode: &str) -> Self {
        match opcode.split('.').nth(1) {
            Some("global") => Self::Global,
            Some("shared") => Self::Shared,
            Some("param") => Self::Parameters,
            _ => panic!("unknown instruction {opcode}"),
        }
    }
}

impl Action {
    /// Of an instruction with so many operands, or with a split number.
    fn of(opcode: &str, operands: usize, is_split: bool) -> Self {
        match opcode {
            "ret" => Self::Return,
            "bar.sync" => Self::Barrier,
            "bra" | "bra.uni" => Self::Branch,
            "shfl.sync.down.b32" => Self::ShuffleDown,
            "shfl.sync.idx.b32" => Self::ShuffleTo,
            "shfl.sync.bfly.b32" => Self::ShuffleButterfly,
            "applypriority.global.L2::evict_normal" | "cp.async.wait_all" => Self::Nothing,
            _ if opcode.starts_with("cp.async.") => Self::Copy,
            _ if opcode.starts_with("st.") => Self::Store(Space::of(opcode), Shape::of(opcode)),
            _ if opcode.starts_with("ld.") => Self::Load(Space::of(opcode), Shape::of(opcode)),
            "mov.b64" if is_split => Self::Split(32),
            "mov.b32" if is_split => Self::Split(16),
            _ => match opcode.strip_prefix("native.") {
                Some(number) => Self::Native(number.parse().expect("a number")),
                None => Self::Compute(computed(opcode, operands - 1)),
            },
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn low(value: u64) -> u64 {
    u64::from(value as u32)
}

fn shifted(by: u64, number: u64) -> u64 {
    if by < 32 { number } else { 0 }
}

/// What an instruction computes of so many numbers.
fn computed(opcode: &str, numbers: usize) -> fn([u64; MAX_OPERANDS]) -> u64 {
    match (opcode, numbers) {
        ("mov.pred" | "mov.u32" | "mov.b32" | "mov.b64" | "cvta.to.global.u64" | "cvt.u64.u32", 1) => |[a, ..]| a,
        ("mov.b64", 2) => |[low, high, _]| low | high << 32,
        ("mov.b32", 2) => |[low, high, _]| low | high << 16,
        ("cvt.u32.u64", 1) => |[a, ..]| low(a),
        ("cvt.u32.u16", 1) => |[a, ..]| a,
        ("cvt.u16.u32", 1) => |[a, ..]| a & 0xffff,
        ("mad.lo.s32", 3) => |[a, b, c]| low(a.wrapping_mul(b).wrapping_add(c)),
        ("mad.wide.u32" | "mad.lo.s64", 3) => |[a, b, c]| a.wrapping_mul(b).wrapping_add(c),
        ("mul.lo.s32", 2) => |[a, b, _]| low(a.wrapping_mul(b)),
        ("mul.hi.u32", 2) => |[a, b, _]| (a * b) >> 32,
        ("add.s32", 2) => |[a, b, _]| low(a.wrapping_add(b)),
        ("add.s64", 2) => |[a, b, _]| a.wrapping_add(b),
        ("sub.s32", 2) => |[a, b, _]| low(a.wrapping_sub(b)),
        ("and.b32" | "and.pred", 2) => |[a, b, _]| a & b,
        ("xor.b32", 2) => |[a, b, _]| low(a ^ b),
        ("or.pred", 2) => |[a, b, _]| a | b,
        ("not.pred", 1) => |[a, ..]| a ^ 1,
        ("min.u32", 2) => |[a, b, _]| a.min(b),
        ("shr.u64", 2) => |[a, b, _]| a >> b,
        ("bfe.u32", 3) => |[a, from, bits]| low(a) >> from & ((1 << bits) - 1),
        ("shr.u32", 2) => |[a, b, _]| shifted(b, a >> (b & 31)),
        ("shl.b32", 2) => |[a, b, _]| shifted(b, low(a << (b & 31))),
        ("setp.ge.u32", 2) => |[a, b, _]| u64::from(a >= b),
        ("setp.lt.u32", 2) => |[a, b, _]| u64::from(a < b),
        ("setp.eq.u32", 2) => |[a, b, _]| u64::from(a == b),
        ("setp.ne.u32", 2) => |[a, b, _]| u64::from(a != b),
        ("selp.b32" | "selp.b64", 3) => |[a, b, is_first]| if is_first == 0 { b } else { a },
        ("prmt.b32", 3) => |[a, b, selector]| {
            let both = a | b << 32;
            (0..4)
                .map(|k| (both >> (8 * (selector >> (4 * k) & 7)) & 0xff) << (8 * k))
                .sum()
        },
        ("neg.f32", 1) => |[a, ..]| low(a ^ 1 << 31),
        ("abs.f32", 1) => |[a, ..]| low(a & !(1 << 31)),
        ("rcp.rn.f32", 1) => |words| of_f32(words, |[a, ..]| 1.0 / a),
        ("add.rn.f32", 2) => |words| of_f32(words, |[a, b, _]| a + b),
        ("mul.rn.f32", 2) => |words| of_f32(words, |[a, b, _]| a * b),
        ("fma.rn.f32", 3) => |words| of_f32(words, |[a, b, c]| a.mul_add(b, c)),
        ("max.NaN.f32", 2) => |words| {
            of_f32(words, |[a, b, _]| {
                // +0 is above −0.
                extreme(a, b, a > b || a == b && a.is_sign_positive())
            })
        },
        ("min.NaN.f32", 2) => |words| {
            of_f32(words, |[a, b, _]| {
                extreme(a, b, a < b || a == b && a.is_sign_negative())
            })
        },
        ("createpolicy.fractional.L2::evict_last.b64" | "createpolicy.fractional.L2::evict_normal.b64", 1) => |_| 0,
        ("sub.s64", 2) => |[a, b, _]| a.wrapping_sub(b),
        ("and.b64", 2) => |[a, b, _]| a & b,
        ("setp.ltu.f32", 2) => |[a, b, _]| {
            let (a, b) = (f32_of(a), f32_of(b));
            u64::from(a < b || a.is_nan() || b.is_nan())
        },
        ("setp.gtu.f32", 2) => |[a, b, _]| {
            let (a, b) = (f32_of(a), f32_of(b));
            u64::from(a > b || a.is_nan() || b.is_nan())
        },
        ("setp.nan.f32", 2) => |[a, b, _]| u64::from(f32_of(a).is_nan() || f32_of(b).is_nan()),
        _ => computed_of_floats(opcode, numbers),
    }
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// One of two numbers, or the GPU's NaN.
fn extreme(a: f32, b: f32, is_a: bool) -> f32 {
    match a.is_nan() || b.is_nan() {
        true => f32::from_bits(0x7fff_ffff),
        false if is_a => a,
        false => b,
    }
}

fn of_f32(words: [u64; MAX_OPERANDS], compute: fn([f32; MAX_OPERANDS]) -> f32) -> u64 {
    compute(words.map(f32_of)).to_bits().into()
}

/// The same for 16-bit floats. Their sums and products are those of `f64`, rounded: exact ones, but where one of two numbers
/// is nothing against the other.
fn computed_of_floats(opcode: &str, numbers: usize) -> fn([u64; MAX_OPERANDS]) -> u64 {
    match (opcode, numbers) {
        ("cvt.f32.f16", 1) => |[a, ..]| f16::from_bits(a as u16).to_f32().to_bits().into(),
        ("cvt.rn.f16.f32", 1) => |[a, ..]| f16::from_f32(f32::from_bits(a as u32)).to_bits().into(),
        ("cvt.rn.bf16.f32", 1) => |[a, ..]| round_to_bf16(a),
        ("cvt.rn.bf16x2.f32", 2) => |[high, low, _]| round_to_bf16(low) | round_to_bf16(high) << 16,
        ("add.rn.f16x2", 2) => |words| both_halves(words, |[a, b, _]| f16::from_f64(f64_of(a) + f64_of(b)).to_bits()),
        ("sub.rn.f16x2", 2) => |words| both_halves(words, |[a, b, _]| f16::from_f64(f64_of(a) - f64_of(b)).to_bits()),
        ("mul.rn.f16x2", 2) => |words| both_halves(words, |[a, b, _]| f16::from_f64(f64_of(a) * f64_of(b)).to_bits()),
        ("fma.rn.bf16x2", 3) => |words| {
            both_halves(words, |bits| {
                let [a, b, c] = bits.map(|bits| bf16::from_bits(bits).to_f64());
                bf16::from_f64(a * b + c).to_bits()
            })
        },
        _ => panic!("unknown instruction {opcode} of {numbers} numbers"),
    }
}

fn f64_of(bits: u16) -> f64 {
    f16::from_bits(bits).to_f64()
}

fn round_to_bf16(bits: u64) -> u64 {
    bf16::from_f32(f32::from_bits(bits as u32)).to_bits().into()
}

fn both_halves(words: [u64; MAX_OPERANDS], compute: fn([u16; MAX_OPERANDS]) -> u16) -> u64 {
    let of = |half: u32| u64::from(compute(words.map(|word| (word >> (16 * half)) as u16)));
    of(0) | of(1) << 16
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

impl Line {
    fn parse<'a>(
        line: &'a str,
        labels: &HashMap<&str, usize>,
        stash: usize,
        registers: &mut HashMap<&'a str, usize>,
    ) -> Self {
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
            // Shared memory begins at 0, and so do the parameters.
            "folded" | "turned" | "expression_param_0" => Operand::Number(0),
            "stash" => Operand::Number(stash as u64),
            _ if labels.contains_key(word) => Operand::Label(labels[word]),
            _ => match word.split_once('+') {
                Some((base, offset)) => {
                    let base = base.starts_with('%').then(|| register(base));
                    Operand::Place(base, offset.parse().expect("an offset"))
                }
                None if word.starts_with('%') => Operand::Register(register(word)),
                None => Operand::Number(match word.strip_prefix("0x").or(word.strip_prefix("0f")) {
                    Some(digits) => u64::from_str_radix(digits, 16).expect("a number"),
                    None => word.parse().expect("a number"),
                }),
            },
        };
        let operands: Vec<_> = words.map(&mut operand).collect();
        let is_split = rest.starts_with('{');
        Self {
            guard: guard.map(register),
            action: Action::of(opcode, operands.len(), is_split),
            operands,
        }
    }
}
