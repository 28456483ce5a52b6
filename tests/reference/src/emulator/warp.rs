// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads of a warp, and what they do of a kernel until they wait for others.

use super::line::{Action, Line, MAX_OPERANDS, Operand, Shape, Space};
use super::{Block, Emulator, LANES, MAX_ARGUMENTS};

/// The most threads of a block.
const MOST_THREADS: u32 = 1024;

/// Addresses in the shared memory of a cluster's blocks: a mark, the number of the block, and the address there.
const OF_CLUSTER: u64 = 1 << 30;
const OF_BLOCK_LOG2: u32 = 24;

/// A number of each lane.
type Numbers = [u64; LANES];

/// What all lanes that have not ended wait for.
pub(super) enum Stop {
    /// At that line.
    Shuffle(usize),
    Barrier,
    End,
}

pub(super) struct Warp {
    /// Those of all lanes side by side.
    registers: Vec<Numbers>,
    /// The line that each lane is at.
    at: [usize; LANES],
    /// The block among those of its cluster.
    rank: u32,
    /// The number of the first lane's thread.
    first: u32,
    /// Whether it has told the cluster how far it is, and whether others see what it has stored by then.
    arrived: Option<bool>,
    /// The lanes that there are, those that have not ended, and those that wait.
    all: u32,
    live: u32,
    waiting: u32,
}

/// The numbers of the lanes in a mask.
fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

impl Warp {
    /// Of so many threads, from that one of a block of the cluster on.
    pub(super) fn new((rank, first): (u32, u32), threads: u32, registers: usize) -> Self {
        let all = u32::MAX >> (LANES as u32 - threads);
        Self {
            registers: vec![[0; LANES]; registers],
            at: [0; LANES],
            rank,
            first,
            arrived: None,
            all,
            live: all,
            waiting: 0,
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Whether others see what it has stored by when it arrived, which is done then.
    pub(super) fn has_released(&mut self) -> bool {
        self.arrived.take().expect("a warp arrives before it waits")
    }

    /// The number of a lane's thread among those of its cluster.
    fn thread(&self, lane: usize) -> u32 {
        self.rank * MOST_THREADS + self.first + lane as u32
    }

    pub(super) fn is_done(&self) -> bool {
        self.live == 0
    }

    /// The line at which all lanes wait, if none has ended.
    pub(super) fn waits_at(&self) -> Option<usize> {
        (self.live == self.all && self.waiting == self.all).then_some(self.at[0])
    }

    /// Those that wait go on behind the line that they wait at.
    pub(super) fn pass(&mut self) {
        lanes(self.waiting).for_each(|lane| self.at[lane] += 1);
        self.waiting = 0;
    }

    /// Does a shuffle, which all lanes wait at.
    pub(super) fn shuffle(&mut self, line: &Line) {
        assert!(self.live == u32::MAX && self.waiting == u32::MAX, "a whole warp");
        // The numbers of lanes, which are in no register, are of no use here.
        let [values, by, clamp] = [1, 2, 3].map(|operand| self.numbers(line.operands[operand], (0, 0)));
        let mut moved = [0; LANES];
        for (lane, moved) in moved.iter_mut().enumerate() {
            let (by, clamp) = (by[lane] as usize, clamp[lane] as usize);
            let segment = clamp >> 8 & 31;
            let (first, last) = (lane & segment, lane & segment | clamp & 31 & !segment);
            let from = match line.action {
                Action::ShuffleDown => lane + by,
                Action::ShuffleButterfly => lane ^ by,
                _ => first | by & !segment & 31,
            };
            *moved = values[if from > last { lane } else { from }];
        }
        self.set(u32::MAX, line.operands[0], &moved);
        self.pass();
    }

    /// What an operand is for each lane.
    fn numbers(&self, operand: Operand, block: (u32, u32)) -> Numbers {
        match operand {
            Operand::Register(register) => self.registers[register],
            Operand::Number(number) => [number; LANES],
            Operand::Place(None, offset) => [offset; LANES],
            // Lanes that are elsewhere may have anything there.
            Operand::Place(Some(base), offset) => self.registers[base].map(|base| base.wrapping_add(offset)),
            Operand::Thread => std::array::from_fn(|lane| u64::from(self.first) + lane as u64),
            Operand::Block(axis) => [[block.0, block.1][axis].into(); LANES],
            Operand::Label(_) => panic!("a label is no value"),
        }
    }

    /// Sets the register in those lanes.
    fn set(&mut self, mask: u32, operand: Operand, numbers: &Numbers) {
        let Operand::Register(register) = operand else {
            panic!("a register is wanted")
        };
        let register = &mut self.registers[register];
        match mask {
            u32::MAX => *register = *numbers,
            _ => lanes(mask).for_each(|lane| register[lane] = numbers[lane]),
        }
    }

    /// The lanes that go on next, which are at one line, and that line: the first at which any are.
    fn next(&self) -> Option<(u32, usize)> {
        let going = self.live & !self.waiting;
        let at = lanes(going).map(|lane| self.at[lane]).min()?;
        let there = lanes(going).filter(|&lane| self.at[lane] == at);
        Some((there.fold(0, |mask, lane| mask | 1 << lane), at))
    }

    /// The lanes of `mask` for which the line's guard holds.
    fn guarded(&self, line: &Line, mask: u32) -> u32 {
        let Some(guard) = line.guard else { return mask };
        let holds = lanes(mask).filter(|&lane| self.registers[guard][lane] != 0);
        holds.fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Puts lanes at a line.
    fn go(&mut self, mask: u32, at: usize) {
        match mask {
            u32::MAX => self.at = [at; LANES],
            _ => lanes(mask).for_each(|lane| self.at[lane] = at),
        }
    }
}

impl Emulator<'_> {
    /// Has all lanes go on until they have ended or wait at one place.
    pub(super) fn run(&self, warp: &mut Warp, block: &mut Block<'_>) -> Stop {
        while let Some((mask, at)) = warp.next() {
            self.run_together(warp, mask, at, block);
        }
        if warp.is_done() {
            return Stop::End;
        }
        let mut places = lanes(warp.waiting).map(|lane| warp.at[lane]);
        let at = places.next().expect("one that has not ended waits");
        assert!(
            places.all(|place| place == at),
            "threads of a warp wait at several places"
        );
        match self.lines[at].action {
            Action::Barrier | Action::Meet => Stop::Barrier,
            _ => Stop::Shuffle(at),
        }
    }

    /// Has these lanes go on together from one line, until they part, end or wait; where others are on their way, only for that
    /// line.
    fn run_together(&self, warp: &mut Warp, mask: u32, mut at: usize, block: &mut Block<'_>) {
        let are_all = mask == warp.live & !warp.waiting;
        loop {
            let line = &self.lines[at];
            let doing = warp.guarded(line, mask);
            let mut next = at + 1;
            let part = match line.action {
                Action::Return => {
                    warp.live &= !doing;
                    doing != 0
                }
                Action::Barrier | Action::Meet | Action::ShuffleDown | Action::ShuffleTo | Action::ShuffleButterfly => {
                    warp.waiting |= doing;
                    warp.go(doing, at);
                    doing != 0
                }
                Action::Branch => {
                    let Operand::Label(label) = line.operands[0] else {
                        panic!("a label is wanted")
                    };
                    if doing == mask {
                        next = label;
                    } else {
                        warp.go(doing, label);
                    }
                    doing != 0 && doing != mask
                }
                _ if doing == 0 => false,
                _ => {
                    self.step(line, warp, doing, block);
                    false
                }
            };
            if part {
                return warp.go(mask & !doing, next);
            }
            if !are_all {
                return warp.go(mask, next);
            }
            at = next;
        }
    }

    /// What the lanes do that go on behind the line.
    fn step(&self, line: &Line, warp: &mut Warp, mask: u32, block: &mut Block<'_>) {
        let operands = &line.operands;
        let numbers = |warp: &Warp, operand: usize, block: &Block<'_>| warp.numbers(operands[operand], block.place);
        match line.action {
            Action::Store(space, shape) => self.store((space, shape), operands, warp, mask, block),
            Action::Load(space, shape) => self.load((space, shape), operands, warp, mask, block),
            Action::Copy => {
                let [to, from, bytes] = [0, 1, 2].map(|operand| numbers(warp, operand, block));
                for lane in lanes(mask) {
                    let (to, from, bytes) = (to[lane], from[lane], bytes[lane]);
                    assert!(
                        (to | from).is_multiple_of(bytes),
                        "{bytes} bytes from {from} to {to} are not aligned"
                    );
                    for k in 0..bytes {
                        let byte = block.memory.load(from + k, 1);
                        block.shared[block.rank].store(warp.thread(lane), to + k, 1, byte);
                    }
                }
            }
            Action::Nothing => {}
            Action::Arrive(releases) => {
                assert!(mask == warp.all && warp.arrived.is_none(), "a whole warp arrives, once");
                warp.arrived = Some(releases);
            }
            Action::OfBlock => {
                let [places, ranks] = [1, 2].map(|operand| numbers(warp, operand, block));
                let mut mapped = [0; LANES];
                for lane in lanes(mask) {
                    assert!(ranks[lane] < block.shared.len() as u64, "a block of the cluster");
                    mapped[lane] = OF_CLUSTER | ranks[lane] << OF_BLOCK_LOG2 | places[lane];
                }
                warp.set(mask, operands[0], &mapped);
            }
            Action::Native(number) => {
                let mut arguments = [[0; LANES]; MAX_ARGUMENTS];
                let count = operands.len() - 1;
                for (argument, &operand) in arguments.iter_mut().zip(&operands[1..]) {
                    let all = warp.numbers(operand, block.place);
                    lanes(mask).enumerate().for_each(|(k, lane)| argument[k] = all[lane]);
                }
                let results = self.functions[number].call(&arguments[..count], mask.count_ones() as usize);
                let mut of_lanes = [0; LANES];
                lanes(mask)
                    .zip(results)
                    .for_each(|(lane, result)| of_lanes[lane] = result);
                warp.set(mask, operands[0], &of_lanes);
            }
            Action::Split(bits) => {
                let halves = numbers(warp, 2, block);
                warp.set(mask, operands[0], &halves.map(|both| both & ((1 << bits) - 1)));
                warp.set(mask, operands[1], &halves.map(|both| both >> bits));
            }
            Action::Compute(function) => {
                let mut of = [[0; LANES]; MAX_OPERANDS];
                for (of, &operand) in of.iter_mut().zip(&operands[1..]) {
                    *of = warp.numbers(operand, block.place);
                }
                let [a, b, c] = &of;
                let mut results = [0; LANES];
                lanes(mask).for_each(|lane| results[lane] = function([a[lane], b[lane], c[lane]]));
                warp.set(mask, operands[0], &results);
            }
            Action::Return
            | Action::Barrier
            | Action::Meet
            | Action::Branch
            | Action::ShuffleDown
            | Action::ShuffleTo
            | Action::ShuffleButterfly => {
                unreachable!("threads stop there or go elsewhere")
            }
        }
    }

    fn store(
        &self,
        (space, shape): (Space, Shape),
        operands: &[Operand],
        warp: &Warp,
        mask: u32,
        block: &mut Block<'_>,
    ) {
        let addresses = warp.numbers(operands[0], block.place);
        for (k, &from) in operands[1..].iter().enumerate() {
            let values = warp.numbers(from, block.place);
            for lane in lanes(mask) {
                let at = shape.aligned(addresses[lane]) + (k * shape.bytes) as u64;
                match space {
                    Space::Global => block.memory.store(at, shape.bytes, values[lane]),
                    Space::Cluster => {
                        assert!(at & OF_CLUSTER != 0, "an address of the cluster");
                        let (rank, at) = ((at ^ OF_CLUSTER) >> OF_BLOCK_LOG2, at & ((1 << OF_BLOCK_LOG2) - 1));
                        (block.shared[rank as usize]).store(warp.thread(lane), at, shape.bytes, values[lane]);
                    }
                    _ => (block.shared[block.rank]).store(warp.thread(lane), at, shape.bytes, values[lane]),
                }
            }
        }
    }

    fn load(
        &self,
        (space, shape): (Space, Shape),
        operands: &[Operand],
        warp: &mut Warp,
        mask: u32,
        block: &mut Block<'_>,
    ) {
        let addresses = warp.numbers(operands[shape.count], block.place);
        for (k, &to) in operands[..shape.count].iter().enumerate() {
            let mut loaded = [0; LANES];
            for lane in lanes(mask) {
                let at = shape.aligned(addresses[lane]) + (k * shape.bytes) as u64;
                loaded[lane] = match space {
                    Space::Global => block.memory.load(at, shape.bytes),
                    Space::Shared => block.shared[block.rank].load(warp.thread(lane), at, shape.bytes),
                    Space::Cluster => panic!("no kernel loads from another block's memory"),
                    Space::Parameters => word(&block.parameters[at as usize..][..shape.bytes]),
                };
            }
            warp.set(mask, to, &loaded);
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
