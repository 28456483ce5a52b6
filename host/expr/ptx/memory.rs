// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements between memory and registers. A number smaller than a register has its upper bits 0 in it; a vector of such
//! numbers is loaded and stored as the words that it consists of, whose halves are registers too.

use cuda_std::scalar::ScalarType;

use super::halves::{halves, pack};
use super::writer::{Register, Writer};

/// Elements as they come from memory.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    ty: ScalarType,
    len: usize,
    registers: Vec<Register>,
}

/// What caches are told of what is loaded.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hint {
    None,
    /// How the second-level cache treats it, 64 bits.
    Policy(Register),
    /// Not to keep it in the first level.
    Once,
}

/// Loads `len` neighbours at `address`, a multiple of their size together: 1 to 16 elements, at most 16 bytes.
pub(super) fn load(ty: ScalarType, len: usize, address: Register, hint: Hint, writer: &mut Writer) -> Loaded {
    match hint {
        Hint::None => load_by("ld.global", "", (ty, len), address, writer),
        Hint::Policy(policy) => {
            let behind = format!(", {policy}");
            load_by("ld.global.L2::cache_hint", &behind, (ty, len), address, writer)
        }
        Hint::Once => load_by("ld.global.L1::no_allocate", "", (ty, len), address, writer),
    }
}

/// The same in shared memory, where an address has 32 bits.
pub(super) fn load_shared(ty: ScalarType, len: usize, address: Register, writer: &mut Writer) -> Loaded {
    load_by("ld.shared", "", (ty, len), address, writer)
}

fn load_by(
    opcode: &str,
    behind: &str,
    (ty, len): (ScalarType, usize),
    address: Register,
    writer: &mut Writer,
) -> Loaded {
    let (count, access) = accesses(ty, len);
    let new = |writer: &mut Writer| {
        if ty.bytes() == 8 {
            writer.double()
        } else {
            writer.word()
        }
    };
    let registers: Vec<Register> = (0..count).map(|_| new(writer)).collect();
    // Smaller than a register, `.u` says that the upper bits become 0.
    let all = list(&registers);
    writer.line(format_args!("{opcode}{access} {all}, [{address}]{behind}"));
    Loaded { ty, len, registers }
}

impl Loaded {
    /// Elements of registers of their own.
    pub(super) fn of(ty: ScalarType, registers: Vec<Register>) -> Self {
        Self {
            ty,
            len: registers.len(),
            registers,
        }
    }

    /// Each element in a register of its own.
    pub(super) fn unpack(&self, writer: &mut Writer) -> Vec<Register> {
        let bytes = self.ty.bytes();
        if self.registers.len() == self.len {
            return self.registers.clone();
        }
        if bytes == 2 {
            return self.registers.iter().flat_map(|&word| halves(word, writer)).collect();
        }
        // Byte 4 of the two words is 0.
        let element = |k: usize| {
            let (word, within) = (self.registers[k / 4], k % 4);
            writer.new_word("prmt.b32", format_args!("{word}, 0, 0x{:04x}", 0x4440 | within))
        };
        (0..self.len).map(element).collect()
    }
}

/// Stores elements side by side at `address`, a multiple of their size together, where `exists` holds.
pub(super) fn store(
    ty: ScalarType,
    elements: &[Register],
    address: Register,
    exists: Option<Register>,
    writer: &mut Writer,
) {
    let (_, access) = accesses(ty, elements.len());
    let registers = words(ty, elements, writer);
    let guard = exists.map_or(String::new(), |exists| format!("@{exists} "));
    writer.line(format_args!(
        "{guard}st.global{access} [{address}], {}",
        list(&registers)
    ));
}

/// The registers of an access to so many elements, and how the instruction names them.
fn accesses(ty: ScalarType, len: usize) -> (usize, &'static str) {
    match (ty.bytes(), ty.bytes() * len) {
        (1, 1) => (1, ".u8"),
        (1 | 2, 2) => (1, ".u16"),
        (8, 8) => (1, ".b64"),
        (8, _) => (2, ".v2.b64"),
        (_, 4) => (1, ".b32"),
        (_, 8) => (2, ".v2.b32"),
        _ => (4, ".v4.b32"),
    }
}

/// Elements side by side, in as many registers as an access has.
pub(super) fn words(ty: ScalarType, elements: &[Register], writer: &mut Writer) -> Vec<Register> {
    let mut pairs = |elements: &[Register], pair: fn(Register, Register, &mut Writer) -> Register| -> Vec<Register> {
        let one = |parts: &[Register]| match *parts {
            [low, high] => pair(low, high, writer),
            _ => parts[0],
        };
        elements.chunks(2).map(one).collect()
    };
    let bytes = |low: Register, high: Register, writer: &mut Writer| {
        writer.new_word("prmt.b32", format_args!("{low}, {high}, 0x0040"))
    };
    match ty.bytes() {
        1 => {
            let both = pairs(elements, bytes);
            pairs(&both, pack)
        }
        2 => pairs(elements, pack),
        _ => elements.to_vec(),
    }
}

/// `%w1`, or `{%w1, %w2}`.
fn list(registers: &[Register]) -> String {
    let names: Vec<String> = registers.iter().map(Register::to_string).collect();
    match &names[..] {
        [one] => one.clone(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}
