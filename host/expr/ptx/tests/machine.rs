// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which elements a thread has, where they lie, how they are packed.

use rustc_hash::FxHashSet;
use test_reference::emulator::{Emulator, Memory};

use super::programs::info;
use crate::expr::program::{Input, Layout, Program, Step, Value};
use crate::expr::ptx::{Arguments, Parts, SECTOR, config, kernel, parameters};
use crate::launch::LaunchConfig;
use cuda_std::scalar::ScalarType::{self, *};

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

/// The machine's memory, and the sectors of it that are loaded.
struct Sectors<'a> {
    memory: &'a mut [u8],
    loaded: FxHashSet<usize>,
}

impl Memory for Sectors<'_> {
    fn load(&mut self, address: u64, bytes: usize) -> u64 {
        let address = address as usize;
        self.loaded.insert(address / SECTOR);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.memory[address..][..bytes]);
        u64::from_le_bytes(word)
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) {
        self.memory[address as usize..][..bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
}

/// Nothing is combined.
const ONE_PART: Parts = Parts {
    count: 1,
    len: 4,
    first: 0,
    launched: 1,
};

/// An array of the machine's memory.
struct Array {
    ty: ScalarType,
    first: usize,
    /// In elements.
    strides: Vec<isize>,
}

/// Runs a kernel's blocks, one after another; the number of sectors that each loads.
fn run(text: &str, config: LaunchConfig, parameters: &[u8], memory: &mut [u8]) -> Vec<usize> {
    let emulator = Emulator::new(text, &[]);
    let sectors = |block| {
        let mut sectors = Sectors {
            memory,
            loaded: FxHashSet::default(),
        };
        emulator.block((block, 0), config.block.x, parameters, &mut sectors);
        sectors.loaded.len()
    };
    (0..config.grid.x).map(sectors).collect()
}

/// What a program is, beside its steps.
#[derive(Clone, Copy, Debug)]
struct Form {
    aligned: bool,
    ragged: bool,
    transposed: Option<usize>,
}

/// Strides of an array of that layout, along axes of these lengths.
fn strides(lengths: &[usize], form: Form, layout: Layout, is_repeated: bool) -> Vec<isize> {
    let after = |axis: usize| lengths[axis + 1..].iter().product::<usize>() as isize;
    let mut strides: Vec<isize> = (0..lengths.len()).map(after).collect();
    match (layout, &mut strides[..]) {
        (Layout::Single, all) => all.fill(0),
        (Layout::Columns, [.., column]) => *column = 0,
        (Layout::Strided, all) if form.transposed.is_some() => {
            // In C order but for that axis, which is the last.
            let mut order: Vec<usize> = (0..lengths.len()).collect();
            order.retain(|&axis| Some(axis) != form.transposed);
            order.extend(form.transposed);
            let mut next = 1;
            for axis in order.into_iter().rev() {
                all[axis] = next;
                next *= lengths[axis] as isize;
            }
        }
        (Layout::Strided, all) => all.iter_mut().for_each(|stride| *stride *= -2),
        (Layout::Rows | Layout::Offset, all) if is_repeated && !form.ragged => all[0] = 0,
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
    let first = *end + if form.aligned || form.ragged { 0 } else { 8 };
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
        ragged: form.ragged,
        transposed: form.transposed.map(|axis| axis as u8),
        inputs: inputs.iter().map(|&(ty, layout)| Input { ty, layout }).collect(),
        scalars: Vec::new(),
        functions: vec![info("low", &[U64], U32)],
        types: steps.iter().map(|(_, ty)| *ty).collect(),
        outputs: stored.map(|step| step as Value).collect(),
        steps: steps.iter().map(|(step, _)| *step).collect(),
        ..Program::default()
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
    let strides: Vec<Vec<isize>> = arrays.iter().map(|array| array.strides.clone()).collect();
    let firsts: Vec<usize> = arrays.iter().map(|array| array.first).collect();
    let block = parameters(
        &program,
        &Arguments {
            cache: 0,
            outputs: &addresses(&outputs),
            inputs: &addresses(&firsts),
            scalars: &[],
            lengths,
            strides: &strides,
            first: 1000,
            parts: ONE_PART,
        },
    );
    let text = kernel(&program, &[LOW.to_owned()], (9, 0)).unwrap();
    let loaded = run(&text, config(&program, lengths, ONE_PART), &block, &mut memory);
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
    let layouts = [
        Layout::Rows,
        Layout::Strided,
        Layout::Columns,
        Layout::Single,
        Layout::Offset,
    ];
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
                let axes = (0..lengths.len() - 1).map(Some);
                for transposed in axes.chain([None]) {
                    for ragged in [false, true] {
                        if ragged && (aligned || transposed.is_none()) {
                            continue;
                        }
                        let form = Form {
                            aligned,
                            ragged,
                            transposed,
                        };
                        check(lengths, form, &inputs[..2], seed == k, seed);
                        check(lengths, form, &inputs[k % 4..=k % 4], false, seed);
                        let mixed = [(types[k % 4], layouts[(k + seed) % 5]), (types[seed % 4], Layout::Rows)];
                        check(lengths, form, &mixed, k == 0, seed + 1);
                    }
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
            let form = Form {
                aligned,
                ragged: false,
                transposed,
            };
            check(&lengths, form, &inputs, false, 1).iter().sum()
        };
        assert_eq!(loaded(true, Some(0)), least, "{ty:?}");
        // Where rows begin anywhere, blocks share the sectors at the ends of tiles.
        assert!(loaded(false, Some(0)) <= 2 * least, "{ty:?}");
    }
}
