// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements between memory and registers. A number smaller than a register has its upper bits 0 in it; a vector of such
//! numbers is loaded and stored as the words that it consists of.

use cuda_std::scalar::ScalarType;

use super::writer::{Register, Writer};

/// Elements as they come from memory.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    ty: ScalarType,
    len: usize,
    registers: Vec<Register>,
}

/// Loads `len` neighbours at `address`, a multiple of their size together: 1 to 16 elements, at most 16 bytes.
pub(super) fn load(ty: ScalarType, len: usize, address: Register, writer: &mut Writer) -> Loaded {
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
    writer.line(format_args!("ld.global{access} {}, [{address}]", list(&registers)));
    Loaded { ty, len, registers }
}

impl Loaded {
    /// Each element in a register of its own.
    pub(super) fn unpack(&self, writer: &mut Writer) -> Vec<Register> {
        let bytes = self.ty.bytes();
        if self.registers.len() == self.len {
            return self.registers.clone();
        }
        let element = |k: usize| {
            let (word, within) = (self.registers[k * bytes / 4], k * bytes % 4);
            // Byte 4 of the two words is 0.
            let selector = if bytes == 2 {
                0x4400 | (within + 1) << 4 | within
            } else {
                0x4440 | within
            };
            writer.new_word("prmt.b32", format_args!("{word}, 0, 0x{selector:04x}"))
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
    let registers = pack(ty, elements, writer);
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
fn pack(ty: ScalarType, elements: &[Register], writer: &mut Writer) -> Vec<Register> {
    let mut pair = |parts: &[Register], selector: &str| match parts {
        [low, high] => writer.new_word("prmt.b32", format_args!("{low}, {high}, {selector}")),
        _ => parts[0],
    };
    let (bytes, halves) = ("0x0040", "0x5410");
    match ty.bytes() {
        1 => {
            let pairs: Vec<Register> = elements.chunks(2).map(|parts| pair(parts, bytes)).collect();
            pairs.chunks(2).map(|parts| pair(parts, halves)).collect()
        }
        2 => elements.chunks(2).map(|parts| pair(parts, halves)).collect(),
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
