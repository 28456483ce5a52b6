// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine for what a kernel consists of beside device functions, thread after thread: which elements a thread has, where
//! they lie, how they are packed. It knows the instructions that the generator writes, and no others.

use std::collections::{HashMap, HashSet};

use super::programs::info;
use crate::expr::program::{Input, Layout, Program, Step, Value};
use crate::expr::ptx::arguments::THREADS;
use crate::expr::ptx::{Arguments, SECTOR, config, kernel, parameters};
use cuda_std::scalar::ScalarType::{self, *};

/// An instruction, its guard and its operands; a label is one without operands.
struct Line<'a> {
    guard: Option<&'a str>,
    opcode: &'a str,
    operands: Vec<&'a str>,
}

impl<'a> Line<'a> {
    /// The instruction of a line; `None` for a declaration.
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim().trim_end_matches(';');
        if line.starts_with('.') {
            return None;
        }
        let guarded = line.strip_prefix('@').and_then(|line| line.split_once(' '));
        let (guard, line) = guarded.map_or((None, line), |(guard, line)| (Some(guard), line));
        let (opcode, operands) = line.split_once(' ').unwrap_or((line, ""));
        let operands = operands
            .split([',', ' ', '{', '}', '[', ']'])
            .filter(|word| !word.is_empty());
        Some(Self {
            guard,
            opcode,
            operands: operands.collect(),
        })
    }
}

/// The lower half of a number: places of 32 bits, which vectors of more than 2 have.
const LOW: &str = ".version 6.3
.target sm_75
.address_size 64
.visible .func (.param .b32 func_retval0) low(.param .b64 low_param_0)
{
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
ld.param.b64 %rd1, [low_param_0];
cvt.u32.u64 %r1, %rd1;
st.param.b32 [func_retval0], %r1;
ret;
}
";

/// One thread.
struct Thread<'a> {
    lines: &'a [Line<'a>],
    registers: HashMap<&'a str, u64>,
    parameters: &'a [u8],
    memory: &'a mut [u8],
    /// The sectors of memory that are loaded.
    sectors: &'a mut HashSet<usize>,
    number: u32,
}

impl<'a> Thread<'a> {
    fn value(&self, operand: &str) -> u64 {
        match operand {
            "%ctaid.x" => u64::from(self.number / THREADS),
            "%tid.x" => u64::from(self.number % THREADS),
            _ if operand.starts_with('%') => self.registers[operand],
            _ => match operand.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).expect("a number"),
                None => operand.parse().expect("a number"),
            },
        }
    }

    fn run(&mut self) {
        let mut at = 0;
        while let Some(line) = self.lines.get(at) {
            at += 1;
            if line.opcode.ends_with([':', '{', '}']) || line.guard.is_some_and(|guard| self.value(guard) == 0) {
                continue;
            }
            match line.opcode {
                "ret" => return,
                "bra" => {
                    let is_target = |label: &Line<'_>| label.opcode.strip_suffix(':') == Some(line.operands[0]);
                    at = self.lines.iter().position(is_target).expect("a label");
                }
                opcode => self.step(opcode, &line.operands),
            }
        }
        panic!("the thread never ends");
    }

    fn step(&mut self, opcode: &str, list: &[&'a str]) {
        let count = if opcode.contains(".v4") {
            4
        } else {
            1 + usize::from(opcode.contains(".v2"))
        };
        let bytes = opcode
            .rsplit('.')
            .next()
            .and_then(|ty| ty[1..].parse::<usize>().ok())
            .unwrap_or(0)
            / 8;
        if opcode.starts_with("st.global") {
            let address = self.value(list[0]) as usize;
            assert_eq!(address % (count * bytes), 0, "a store is not aligned");
            for (k, register) in list[1..].iter().enumerate() {
                let value = self.value(register).to_le_bytes();
                self.memory[address + k * bytes..][..bytes].copy_from_slice(&value[..bytes]);
            }
            return;
        }
        if opcode.starts_with("ld.") {
            let (place, is_global) = (list[count], opcode.starts_with("ld.global"));
            let address = match place.split_once('+') {
                Some((_, offset)) => offset.parse().expect("an offset"),
                None => self.value(place) as usize,
            };
            assert_eq!(address % (count * bytes), 0, "a load is not aligned");
            if is_global {
                self.sectors.insert(address / SECTOR);
            }
            for (k, register) in list[..count].iter().enumerate() {
                let from = if is_global { &*self.memory } else { self.parameters };
                let mut value = [0; 8];
                value[..bytes].copy_from_slice(&from[address + k * bytes..][..bytes]);
                self.registers.insert(register, u64::from_le_bytes(value));
            }
            return;
        }
        let values: Vec<u64> = list[1..].iter().map(|operand| self.value(operand)).collect();
        let low = |value: u64| u64::from(value as u32);
        let result = match (opcode, &values[..]) {
            ("mov.u32" | "mov.b32" | "mov.b64" | "cvta.to.global.u64" | "cvt.u64.u32", &[a]) => a,
            ("cvt.u32.u64", &[a]) => low(a),
            ("mad.lo.s32", &[a, b, c]) => low(a.wrapping_mul(b).wrapping_add(c)),
            ("mad.wide.u32" | "mad.lo.s64", &[a, b, c]) => a.wrapping_mul(b).wrapping_add(c),
            ("mul.lo.s32", &[a, b]) => low(a.wrapping_mul(b)),
            ("mul.hi.u32", &[a, b]) => (a * b) >> 32,
            ("add.s32", &[a, b]) => low(a.wrapping_add(b)),
            ("add.s64", &[a, b]) => a.wrapping_add(b),
            ("sub.s32", &[a, b]) => low(a.wrapping_sub(b)),
            ("and.b32", &[a, b]) => a & b,
            ("shr.u32", &[a, b]) => {
                if b < 32 {
                    a >> b
                } else {
                    0
                }
            }
            ("shl.b32", &[a, b]) => {
                if b < 32 {
                    low(a << b)
                } else {
                    0
                }
            }
            ("setp.ge.u32", &[a, b]) => u64::from(a >= b),
            ("setp.lt.u32", &[a, b]) => u64::from(a < b),
            ("selp.b32", &[a, b, is_first]) => {
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
            _ => panic!("unknown instruction {opcode} {list:?}"),
        };
        self.registers.insert(list[0], result);
    }
}

/// An array of the machine's memory.
struct Array {
    ty: ScalarType,
    first: usize,
    /// In elements.
    strides: Vec<isize>,
}

/// Runs a kernel's threads, one after another; the number of sectors that each block loads.
fn run(text: &str, blocks: u32, parameters: &[u8], memory: &mut [u8]) -> Vec<usize> {
    let (_, body) = text.split_once("\n{\n").expect("a body");
    let body = body.lines().take_while(|line| *line != "}");
    let lines: Vec<Line<'_>> = body.filter_map(Line::parse).collect();
    let mut loaded = Vec::new();
    for block in 0..blocks {
        let mut sectors = HashSet::new();
        for number in block * THREADS..(block + 1) * THREADS {
            Thread {
                lines: &lines,
                registers: HashMap::new(),
                parameters,
                memory,
                sectors: &mut sectors,
                number,
            }
            .run();
        }
        loaded.push(sectors.len());
    }
    loaded
}

/// What a program is, beside its steps.
#[derive(Clone, Copy, Debug)]
struct Form {
    aligned: bool,
    transposed: bool,
}

/// Strides of an array of that layout, along axes of these lengths.
fn strides(lengths: &[usize], form: Form, layout: Layout, is_repeated: bool) -> Vec<isize> {
    let after = |axis: usize| lengths[axis + 1..].iter().product::<usize>() as isize;
    let mut strides: Vec<isize> = (0..lengths.len()).map(after).collect();
    match (layout, &mut strides[..]) {
        (Layout::Single, all) => all.fill(0),
        (Layout::Columns, [.., column]) => *column = 0,
        (Layout::Strided, [.., row, column]) if form.transposed => {
            (*row, *column) = (1, lengths[lengths.len() - 2] as isize);
        }
        (Layout::Strided, all) => all.iter_mut().for_each(|stride| *stride *= -2),
        (Layout::Rows, all) if is_repeated => all[0] = 0,
        _ => {}
    }
    strides
}

/// Where an element is along each axis.
fn places_of(mut element: usize, lengths: &[usize]) -> Vec<usize> {
    let mut places = vec![0; lengths.len()];
    for (place, length) in places.iter_mut().zip(lengths).rev() {
        *place = element % length;
        element /= length;
    }
    places
}

/// Room in memory for so many bytes, which ends at `end` before.
fn room(end: &mut usize, bytes: usize, form: Form) -> usize {
    let first = *end + if form.aligned { 0 } else { 8 };
    *end = (first + bytes).next_multiple_of(SECTOR) + SECTOR;
    first
}

/// The program that copies its inputs, and gives the places along each axis.
fn copies(lengths: &[usize], form: Form, inputs: &[(ScalarType, Layout)], has_places: bool) -> Program {
    let places = if has_places { lengths.len() } else { 0 };
    let steps = (0..inputs.len()).map(|k| (Step::Input(k as u16), inputs[k].0));
    let steps: Vec<_> = steps
        .chain((0..places).map(|axis| (Step::Index(axis as u8), U64)))
        .chain((0..places).map(|axis| (Step::Call(0, [(inputs.len() + axis) as Value; 6]), U32)))
        .collect();
    let stored = (0..inputs.len()).chain(inputs.len() + places..steps.len());
    Program {
        axes: lengths.len() as u8,
        aligned: form.aligned,
        transposed: form.transposed,
        inputs: inputs.iter().map(|&(ty, layout)| Input { ty, layout }).collect(),
        scalars: Vec::new(),
        functions: vec![info("low", &[U64], U32)],
        types: steps.iter().map(|(_, ty)| *ty).collect(),
        outputs: stored.map(|step| step as Value).collect(),
        steps: steps.iter().map(|(step, _)| *step).collect(),
    }
}

/// Runs [`copies`], compares every byte, and gives the number of sectors that each block loads.
fn check(lengths: &[usize], form: Form, inputs: &[(ScalarType, Layout)], has_places: bool, seed: usize) -> Vec<usize> {
    let (axes, count) = (lengths.len(), lengths.iter().product::<usize>());
    let mut end = SECTOR;
    let mut arrays = Vec::new();
    for &(ty, layout) in inputs {
        // Of rows, one for all along the first axis is a case of its own.
        let strides = strides(lengths, form, layout, axes > 1 && seed.is_multiple_of(2));
        let mut first = room(&mut end, 3 * count * ty.bytes(), form);
        let steps = strides.iter().zip(lengths);
        let last: isize = steps.map(|(stride, len)| stride * (*len as isize - 1)).sum();
        if last < 0 {
            first += last.unsigned_abs() * ty.bytes();
        }
        arrays.push(Array { ty, first, strides });
    }
    let program = copies(lengths, form, inputs, has_places);
    let mut bytes = program
        .outputs
        .iter()
        .map(|&step| program.types[usize::from(step)].bytes());
    let outputs: Vec<usize> = bytes
        .by_ref()
        .map(|bytes| room(&mut end, count * bytes, form))
        .collect();
    let mut memory: Vec<u8> = (0..end).map(|at| (at * 167 + at / 256 + seed) as u8).collect();
    let before = memory.clone();
    let addresses = |all: &[usize]| -> Vec<u64> { all.iter().map(|&first| first as u64).collect() };
    let strides: Vec<&[isize]> = arrays.iter().map(|array| &array.strides[..]).collect();
    let firsts: Vec<usize> = arrays.iter().map(|array| array.first).collect();
    let block = parameters(
        &program,
        &Arguments {
            outputs: &addresses(&outputs),
            inputs: &addresses(&firsts),
            scalars: &[],
            lengths,
            strides: &strides,
            first: 1000,
        },
    );
    let text = kernel(&program, &[LOW.to_owned()]).unwrap();
    let loaded = run(&text, config(&program, lengths).grid.x, &block, &mut memory);
    let wanted = wanted(&before, lengths, &arrays, &outputs);
    assert!(memory == wanted, "{lengths:?} {form:?} {inputs:?} {text}");
    loaded
}

/// The memory with the outputs: those of the arrays, and of the places if there are more.
fn wanted(before: &[u8], lengths: &[usize], arrays: &[Array], outputs: &[usize]) -> Vec<u8> {
    let mut wanted = before.to_vec();
    for element in 0..lengths.iter().product() {
        let places = places_of(element, lengths);
        for (array, output) in arrays.iter().zip(outputs) {
            let bytes = array.ty.bytes();
            let steps = array.strides.iter().zip(&places);
            let steps: isize = steps.map(|(stride, place)| stride * *place as isize).sum();
            let from = (array.first as isize + steps * bytes as isize) as usize;
            wanted[output + element * bytes..][..bytes].copy_from_slice(&before[from..from + bytes]);
        }
        for (axis, (place, output)) in places.iter().zip(&outputs[arrays.len()..]).enumerate() {
            let place = *place as u32 + if axis == 0 { 1000 } else { 0 };
            wanted[output + 4 * element..][..4].copy_from_slice(&place.to_le_bytes());
        }
    }
    wanted
}

#[test]
fn every_element_is_read_and_written_where_it_lies() {
    let layouts = [Layout::Rows, Layout::Strided, Layout::Columns, Layout::Single];
    let types = [U8, U16, F32, F64];
    let ragged: [&[usize]; 13] = [
        &[0],
        &[3, 0],
        &[1],
        &[7],
        &[130],
        &[1029],
        &[3, 1],
        &[5, 33],
        &[3, 2, 70],
        &[2, 3, 4, 5],
        &[300, 3],
        &[67, 100],
        &[2, 33, 35],
    ];
    let whole: [&[usize]; 9] = [
        &[4, 0],
        &[16],
        &[1029],
        &[5, 32],
        &[3, 2, 16],
        &[2, 3, 4, 48],
        &[67, 80],
        &[2, 33, 144],
        &[70, 16],
    ];
    for (aligned, shapes) in [(false, &ragged[..]), (true, &whole[..])] {
        for (seed, lengths) in shapes.iter().enumerate() {
            for (k, layout) in layouts.into_iter().enumerate() {
                let inputs = types.map(|ty| (ty, layout));
                for transposed in [false, true].into_iter().take(lengths.len()) {
                    let form = Form { aligned, transposed };
                    check(lengths, form, &inputs[..2], seed == k, seed);
                    check(lengths, form, &inputs[k..=k], false, seed);
                    let mixed = [(types[k], layouts[(k + seed) % 4]), (types[seed % 4], Layout::Rows)];
                    check(lengths, form, &mixed, k == 0, seed + 1);
                }
            }
        }
    }
}

/// What a block leaves of a sector, another one reads from memory again.
#[test]
fn blocks_of_transposed_programs_load_whole_sectors() {
    let lengths = [64, 128];
    for ty in [U8, U16, F32, F64] {
        let inputs = [(ty, Layout::Rows), (ty, Layout::Strided)];
        let least = inputs.len() * lengths.iter().product::<usize>() * ty.bytes() / SECTOR;
        let loaded = |aligned, transposed| -> usize {
            let form = Form { aligned, transposed };
            check(&lengths, form, &inputs, false, 1).iter().sum()
        };
        assert_eq!(loaded(true, true), least, "{ty:?}");
        // Where rows begin anywhere, blocks share the sectors at the ends of tiles.
        assert!(loaded(false, true) <= 2 * least, "{ty:?}");
    }
}
