// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's instructions, taken apart.

use std::collections::HashMap;

use super::arithmetic::computed;

#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
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
pub(super) enum Action {
    Return,
    Barrier,
    /// Tells the cluster that a warp has come so far, and, if it does, that others see what it has stored.
    Arrive(bool),
    /// Waits until all warps of the cluster have told so.
    Meet,
    /// The place in the shared memory of that block of the cluster.
    OfBlock,
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

/// The most operands that a computed number has.
pub(super) const MAX_OPERANDS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    Parameters,
    Shared,
    /// The shared memory of a cluster's blocks.
    Cluster,
    Global,
}

/// So many neighbours of so many bytes.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

pub(super) struct Line {
    /// Threads in which that register is 0 go past it.
    pub(super) guard: Option<usize>,
    pub(super) action: Action,
    pub(super) operands: Vec<Operand>,
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

    pub(super) fn aligned(self, address: u64) -> u64 {
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
            Some("shared::cluster") => Self::Cluster,
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
            "barrier.cluster.arrive.relaxed.aligned" => Self::Arrive(false),
            "barrier.cluster.arrive.aligned" => Self::Arrive(true),
            "barrier.cluster.wait.aligned" => Self::Meet,
            "mapa.shared::cluster.u32" => Self::OfBlock,
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

impl Line {
    /// Whether the warps of a cluster wait there.
    pub(super) fn is_of_cluster(&self) -> bool {
        matches!(self.action, Action::Meet)
    }

    pub(super) fn parse<'a>(
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
