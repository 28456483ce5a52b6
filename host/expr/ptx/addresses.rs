// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers that hold the address of a parameter.
//!
//! Of `if c { x } else { y }` LLVM makes a choice between the addresses of two parameters, and loads from the one chosen.
//! A copy of the function has no parameters; there such a register holds the parameter's value, and a load is a move.
//! That is the same as long as nothing else is done with the register.

use std::collections::HashMap;

use super::Malformed;
use super::body::{Body, Instruction, Statement, bits_of};

/// The registers, and the bits of the smallest parameter whose address each may hold.
pub(super) type Addresses<'a> = HashMap<&'a str, u32>;

/// What is done with addresses.
enum Use<'a> {
    /// The register of the first name is one of these.
    Copy(&'a str, Vec<&'a str>),
    /// So many bits are loaded from there.
    Load(u32, &'a str),
    Other,
}

fn use_of<'a>(instruction: &Instruction<'a>) -> Use<'a> {
    match (instruction.opcode, &instruction.operands[..]) {
        ("mov.b64", [to, ",", from]) => Use::Copy(to, vec![from]),
        ("selp.b64", [to, ",", a, ",", b, ",", _]) => Use::Copy(to, vec![a, b]),
        (opcode, [_, ",", "[", from, "]"]) => match opcode.strip_prefix("ld.param").and_then(bits_of) {
            Some(bits) => Use::Load(bits, from),
            None => Use::Other,
        },
        _ => Use::Other,
    }
}

/// Finds them. An error names an instruction that does anything else with one.
pub(super) fn addresses<'a>(body: &Body<'a>) -> Result<Addresses<'a>, Malformed> {
    let instructions = || {
        body.statements.iter().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            _ => None,
        })
    };
    let mut addresses = Addresses::new();
    let bits = |addresses: &Addresses<'_>, name: &str| {
        let parameter = body.parameters.iter().find(|(parameter, _)| *parameter == name);
        parameter
            .map(|(_, bits)| *bits)
            .or_else(|| addresses.get(name).copied())
    };
    loop {
        let before = addresses.clone();
        for instruction in instructions() {
            if let Use::Copy(to, from) = use_of(instruction)
                && let Some(bits) = from.iter().filter_map(|name| bits(&addresses, name)).min()
            {
                let known = addresses.entry(to).or_insert(bits);
                *known = bits.min(*known);
            }
        }
        if addresses == before {
            break;
        }
    }
    for instruction in instructions() {
        let is_address = |name: &&str| addresses.contains_key(*name);
        let mentioned = instruction.operands.iter().filter(|name| is_address(name)).count();
        let is_sound = match use_of(instruction) {
            Use::Copy(to, from) if is_address(&to) => {
                mentioned <= 1 + from.len() && from.iter().all(|name| bits(&addresses, name).is_some())
            }
            Use::Load(loaded, from) if is_address(&from) => mentioned == 1 && loaded <= addresses[from],
            _ => mentioned == 0,
        };
        if !is_sound {
            let operands = instruction.operands.concat();
            return Err(Malformed(format!(
                "unknown use of a parameter's address: `{} {operands}`",
                instruction.opcode
            )));
        }
    }
    Ok(addresses)
}
