// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a launch is told: one block of bytes, in which kernel and host find everything at the same offsets.

use cuda_std::scalar::ScalarType;
use kernels_gpu::transpose::Extent;

use super::halves::{is_arithmetic, is_cast};
use super::shares::Shares;
use super::{MOST, order, vector_len};
use crate::backend::DeviceFnInfo;
use crate::expr::plan::{GROUPS, MOST_LANES_LOG2};
use crate::expr::program::stashed::stash_len;
use crate::expr::program::{Form, Input, Layout, Program, Reduce, Step, Vectors, WARP_LOG2};
use crate::launch::LaunchConfig;

/// Threads of a block.
pub(super) const THREADS: u32 = 256;

/// Threads of a block of a program that [goes by words](Program::by_words).
const THREADS_BY_WORDS: u32 = 128;

/// Threads of a block that has a tile of [vectors](TILE_VECTORS_LOG2).
const THREADS_OF_TILE: u32 = 1 << (TILE_VECTORS_LOG2 + VECTORS_HEIGHT_LOG2);

/// The most elements that a thread has where they are spread.
const SPREAD: usize = 4;

/// The most threads that share neighbouring elements in turn where they are spread: a warp, as a power of two.
pub(super) const LANES_LOG2: u32 = 5;

/// The most vectors in a row of a tile, as a power of two: of 32 bits, 128 bytes. A warp has 4 rows of them, and those below
/// are of the same block, which so reads whole sectors of a transposed input of 32 bits.
pub(super) const TILE_VECTORS_LOG2: u32 = 3;

/// The most threads that share neighbours in a row of a tile, as a power of two: of 32 bits, a sector.
pub(super) const TILE_LANES_LOG2: u32 = 3;

/// The most rows of a tile, as a power of two: of bytes, a sector. A block has at least one tile, so that what a warp leaves
/// of sectors is read by its neighbours.
pub(super) const HEIGHT_LOG2: u32 = 5;

/// And of one of vectors, which a block has.
pub(super) const VECTORS_HEIGHT_LOG2: u32 = 6;

/// The same as a number.
pub(in crate::expr) const TILE_ROWS: usize = 1 << VECTORS_HEIGHT_LOG2;

/// The vectors in a row of a tile of [turned](Layout::Turned) inputs, as a power of two. Of both arrays a tile has pieces of 256
/// bytes.
pub(super) const TURNED_VECTORS_LOG2: u32 = 4;

/// The least vectors in a row of a [ragged](Program::ragged) program, where rows follow one another in the outputs, and else.
const LEAST_RAGGED: [usize; 2] = [48, 4];

/// The least vectors of which a thread has [two](is_paired): fewer leave some multiprocessors without a block.
pub(super) const LEAST_PAIRED: usize = if cfg!(test) { 200 } else { 1 << 18 };

/// The least vectors of which a thread has [two of 16-bit elements](has_pairs_of_halves): 2^26 elements. Of `tanh(x) · 2 + 1` those take
/// 64.4 µs for 65.7, and 2^28 252.6 for 262.1 (H200); of 2^22 two vectors were slower (7.5 for 7.2, H100).
const LEAST_PAIRED_HALVES: usize = if cfg!(test) { 1000 } else { 1 << 23 };

/// The values of a launch, in the order of the program.
pub(in crate::expr) struct Arguments<'a> {
    /// Addresses of the first elements.
    pub outputs: &'a [u64],
    /// Addresses of the first elements.
    pub inputs: &'a [u64],
    /// The bits, the upper ones of small numbers 0.
    pub scalars: &'a [u64],
    /// Of each axis.
    pub lengths: &'a [usize],
    /// Of each input along each axis, in elements.
    pub strides: &'a [Vec<isize>],
    /// The place along axis 0 at which the launch begins, among those that make up the result.
    pub first: usize,
    /// The parts of rows that are combined each for itself.
    pub parts: Parts,
    /// Bytes of the second-level cache, where inputs are [streamed](Program::streamed).
    pub cache: usize,
}

/// Parts of rows, the last of which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expr) struct Parts {
    /// All of them.
    pub count: usize,
    /// The elements of each.
    pub len: usize,
    /// The first one of the launch, and how many that has.
    pub first: usize,
    pub launched: usize,
}

/// Whether all elements are one row, which has no coordinates.
pub(super) fn is_flat(program: &Program) -> bool {
    program.axes == 1
}

/// Whether a thread may have two vectors, which are a block's threads apart: where a program computes much of one array. Both are
/// loaded first, so that one is on its way while the other is computed, and there are half as many blocks to start.
pub(super) fn is_paired(program: &Program) -> bool {
    // The code is there twice, so calls are not too many either.
    const LEAST: usize = 8;
    const MOST: usize = 16;
    let is_row = |input: &&Input| input.layout == Layout::Rows;
    let is_call = |step: &&Step| matches!(step, Step::Call(..));
    let calls = program.steps.iter().filter(is_call).count();
    is_flat(program)
        && program.aligned
        && program.reduce.is_none()
        && program.inputs.iter().filter(is_row).count() == 1
        && vector_len(program) <= SPREAD
        && (LEAST..=MOST).contains(&calls)
}

/// Whether a thread has two vectors of 16-bit elements where an array is [so long](LEAST_PAIRED_HALVES) and full blocks have all of
/// them: where a program calls few functions, of which one at least is more than arithmetic. Vectors of 16-bit elements have twice as
/// many as others, and so twice as much to compute between a load and the store, in which one vector alone leaves memory waiting.
fn has_pairs_of_halves(program: &Program) -> bool {
    const MOST: usize = 4;
    let is_call = |step: &&Step| match step {
        Step::Call(function, _) => !is_cast(program.functions[usize::from(*function)]),
        _ => false,
    };
    let calls = program.steps.iter().filter(is_call).count();
    let is_more = |function: &&'static DeviceFnInfo| !is_cast(function) && !is_arithmetic(function);
    let is_half = |ty: ScalarType| ty.bytes() == 2;
    let mut outputs = program.outputs.iter().map(|&value| program.types[usize::from(value)]);
    let mut rows = program.inputs.iter().filter(|input| input.layout == Layout::Rows);
    rows.next().is_some_and(|row| is_half(row.ty))
        && rows.next().is_none()
        && outputs.all(is_half)
        && vector_len(program) > SPREAD
        && calls <= MOST
        && program.functions.iter().any(is_more)
}

/// The vectors of each thread, of elements along axes of these lengths. Launches of parts of one axis have full blocks too, since
/// the parts are a power of two that is more than a block has.
pub(in crate::expr) fn vectors(program: &Program, lengths: &[usize]) -> Vectors {
    let (&[len], true, None) = (lengths, program.aligned, &program.reduce) else {
        return Vectors::Any;
    };
    let vector = vector_len(program);
    let one = vector * threads(program) as usize;
    // These have two vectors where blocks are not full, too: `One` would take them away.
    let is_paired = is_paired(program) && len >= LEAST_PAIRED * vector;
    let has_pairs = is_paired || (len >= LEAST_PAIRED_HALVES * vector && has_pairs_of_halves(program));
    match len {
        0 => Vectors::Any,
        _ if has_pairs && len.is_multiple_of(2 * one) => Vectors::Two,
        _ if !is_paired && len.is_multiple_of(one) => Vectors::One,
        _ => Vectors::Any,
    }
}

/// Whether a program calls few functions.
fn has_few_calls(program: &Program) -> bool {
    const MOST: usize = 16;
    let calls = program.steps.iter().filter(|step| matches!(step, Step::Call(..)));
    calls.count() <= MOST
}

/// Whether the elements along these axes are whole tiles of vectors of four, none of which has rows of two matrices, and a thread
/// of a block that has as many threads as there can be has enough registers for them.
pub(in crate::expr) fn has_tiles(program: &Program, lengths: &[usize]) -> bool {
    let Some(along) = program.transposed.map(usize::from) else {
        return false;
    };
    let (rows, columns) = (lengths[along], lengths[lengths.len() - 1]);
    program.aligned
        && has_few_calls(program)
        && vector_len(program) == SPREAD
        && columns.is_multiple_of(SPREAD << TURNED_VECTORS_LOG2)
        && rows.is_multiple_of(TILE_ROWS)
        && rows * columns > 0
        && lengths[along + 1..].iter().product::<usize>() <= MOST / TILE_ROWS
}

/// Whether a program goes by vectors of so many elements, as its outputs have them, where rows do not begin with a vector, or where
/// inputs are [off](Layout::Offset) them.
pub(in crate::expr) fn goes_by_vectors(program: &Program, vector: usize, lengths: &[usize]) -> bool {
    let columns = lengths[lengths.len() - 1];
    let rows_are_whole = is_flat(program) || columns.is_multiple_of(vector);
    let is_worth = match (rows_are_whole, program.transposed) {
        (true, None) => vector > SPREAD && !is_flat(program),
        (true, Some(_)) => vector > 1,
        (false, None) => false,
        // The code is there twice, and parts of the first axis are to begin with a vector.
        (false, Some(_)) => {
            let least = LEAST_RAGGED[usize::from(!axes_of_rows(program).is_sorted())];
            let has_parts = lengths[1..].iter().product::<usize>() <= MOST / TILE_ROWS;
            vector > 1 && columns >= least * vector && has_few_calls(program) && has_parts
        }
    };
    program.reduce.is_none() && vector_len(program) == vector && is_worth
}

/// The axes of a row's number: all but the last, behind the others that along which the program is transposed.
pub(super) fn axes_of_rows(program: &Program) -> Vec<usize> {
    let outer = 0..usize::from(program.axes) - 1;
    let along = program.transposed.map(usize::from);
    outer.filter(|axis| Some(*axis) != along).chain(along).collect()
}

/// Threads of a block, where nothing is reduced.
pub(super) fn threads(program: &Program) -> u32 {
    match program.transposed.is_some() && (program.aligned || program.ragged) {
        true if program.has_turned() => 1 << (TURNED_VECTORS_LOG2 + VECTORS_HEIGHT_LOG2),
        true => THREADS_OF_TILE,
        false if program.by_words => THREADS_BY_WORDS,
        false => THREADS,
    }
}

/// Elements that a thread has where they are spread.
pub(super) fn spread_len(program: &Program) -> usize {
    vector_len(program).min(SPREAD)
}

/// Offsets in the block of parameters. What most kernels want before their first load comes first: a GPU fetches parameters by
/// lines of 64 bytes, each of which keeps the kernel waiting.
pub(super) struct Block {
    outputs: usize,
    inputs: usize,
    /// Of the input's strides: those along all axes but the last, then that one of a strided input.
    strides: Vec<usize>,
    /// Where the launch begins along axis 0: u64.
    pub first: usize,
    /// Elements of a row: u32.
    pub columns: usize,
    /// Of a flat program the vectors, else the rows: u32.
    pub rows: usize,
    /// The logarithm of the number of threads that share neighbouring elements, or have vectors of a tile's row, or of the
    /// vectors of a thread: u32.
    pub lanes_log2: usize,
    /// The logarithm of the number of a tile's rows: u32.
    pub height_log2: usize,
    /// Extents: the vectors, groups or tiles of a row.
    pub groups: usize,
    /// Extents: of the [axes of a row's number](axes_of_rows) all but the first.
    middle: usize,
    /// Where rows are counted otherwise than in C order, how many elements of the outputs are between neighbours along each of
    /// their axes: u32.
    of_rows: Option<usize>,
    /// Of reductions.
    pub reduce: ReduceBlock,
    /// Of streamed inputs: the first of the blocks that [give priorities back](super::stream): u32.
    pub last_blocks: usize,
    /// And how many bytes before: u64, of each input, if it is streamed.
    back: Vec<Option<usize>>,
    /// The [order](super::order) of a program that goes either way.
    pub order: Option<usize>,
    /// The size of it all.
    pub size: usize,
}

/// Offsets of what only reductions have.
pub(super) struct ReduceBlock {
    /// The place along rows at which the launch begins: u64.
    pub start: usize,
    /// Elements of a row, from there on: u32.
    pub length: usize,
    /// Elements of a part: u32.
    pub part_len: usize,
    /// Parts of a row: u32.
    pub parts: usize,
    /// The first part of the launch: u32.
    pub first_part: usize,
}

/// The size of an [`Extent`], which begins with length, magic number and shift.
const EXTENT: usize = size_of::<Extent>();

impl Block {
    pub(super) fn new(program: &Program) -> Self {
        let outputs = program.outputs.len();
        let inputs = outputs + program.inputs.len();
        let outer = usize::from(program.axes) - 1;
        let mut size = 8 * (inputs + program.scalars.len());
        let mut strides = Vec::with_capacity(program.inputs.len());
        for input in &program.inputs {
            strides.push(size);
            size += 8 * match input.layout {
                Layout::Single => 0,
                Layout::Rows | Layout::Offset | Layout::Columns => outer,
                Layout::Strided | Layout::Turned => outer + 1,
            };
        }
        let mut next = |bytes: usize| {
            size += bytes;
            size - bytes
        };
        let [columns, rows, lanes_log2, height_log2] = [(); 4].map(|()| next(4));
        let words = if program.reduce.is_some() { 4 } else { 0 };
        let [length, part_len, parts, first_part] = [(); 4].map(|()| next(words));
        let groups = next(if outer == 0 { 0 } else { EXTENT });
        let middle = next(EXTENT * outer.saturating_sub(1));
        let is_reordered = !axes_of_rows(program).is_sorted();
        let of_rows = is_reordered.then(|| next((4 * outer).next_multiple_of(8)));
        let first = next(8);
        let start = next(2 * words);
        let last_blocks = next(if program.streamed.is_empty() { 0 } else { 8 });
        let mut back = vec![None; program.inputs.len()];
        for &input in &program.streamed {
            back[usize::from(input)] = Some(next(8));
        }
        let order = program.either_way.then(|| next(order::BYTES));
        Self {
            outputs: 0,
            inputs: 8 * outputs,
            strides,
            columns,
            rows,
            lanes_log2,
            height_log2,
            groups,
            middle,
            of_rows,
            first,
            reduce: ReduceBlock {
                start,
                length,
                part_len,
                parts,
                first_part,
            },
            last_blocks,
            back,
            order,
            size,
        }
    }

    /// Where a streamed input has how many bytes before priorities are given back.
    pub(super) fn back(&self, input: usize) -> Option<usize> {
        self.back[input]
    }

    pub(super) fn output(&self, number: usize) -> usize {
        self.outputs + 8 * number
    }

    pub(super) fn input(&self, number: usize) -> usize {
        self.inputs + 8 * number
    }

    pub(super) fn scalar(&self, program: &Program, number: usize) -> usize {
        self.input(program.inputs.len() + number)
    }

    pub(super) fn stride(&self, input: usize, axis: usize) -> usize {
        self.strides[input] + 8 * axis
    }

    /// The extent of one of the [axes of a row's number](axes_of_rows), but for the first.
    pub(super) fn middle(&self, number: usize) -> usize {
        self.middle + EXTENT * (number - 1)
    }

    /// The elements of the outputs between neighbours along an axis of rows, where these are counted otherwise than in C order.
    pub(super) fn of_rows(&self, axis: usize) -> Option<usize> {
        self.of_rows.map(|at| at + 4 * axis)
    }
}

/// The rows that a block has at a time, each by as many threads; 1 of what it shares with others.
pub(super) fn rows_of_block(reduce: &Reduce) -> usize {
    match reduce.form {
        Form::Rows { .. } => (block_threads(reduce) >> reduce.threads_log2()) as usize,
        Form::Columns { .. } => 1,
    }
}

/// The columns that a block has whose rows so many threads have side by side.
pub(super) fn columns_of_block(program: &Program, across_log2: u8) -> usize {
    (if program.aligned { vector_len(program) } else { 1 }) << across_log2
}

/// The block of parameters.
///
/// # Panics
///
/// If there are more than [`MOST`] elements, or other numbers of values than the program has.
pub(in crate::expr) fn parameters(program: &Program, arguments: &Arguments<'_>) -> Vec<u8> {
    let given = [
        arguments.outputs.len(),
        arguments.inputs.len(),
        arguments.scalars.len(),
        arguments.strides.len(),
    ];
    let inputs = program.inputs.len();
    let wanted = [program.outputs.len(), inputs, program.scalars.len(), inputs];
    assert_eq!(given, wanted, "as many values as the program has");
    let block = Block::new(program);
    let shares = Shares::new(program, arguments.lengths, arguments.parts);
    let mut bytes = vec![0; block.size];
    order::begin_with_first(&block, &mut bytes);
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    for (number, address) in arguments.outputs.iter().enumerate() {
        put(block.output(number), &address.to_le_bytes());
    }
    for (number, address) in arguments.inputs.iter().enumerate() {
        put(block.input(number), &address.to_le_bytes());
    }
    for (number, bits) in arguments.scalars.iter().enumerate() {
        put(block.scalar(program, number), &bits.to_le_bytes());
    }
    put(block.first, &(arguments.first as u64).to_le_bytes());
    put(block.columns, &(shares.columns as u32).to_le_bytes());
    put(block.rows, &(shares.rows as u32).to_le_bytes());
    put(block.lanes_log2, &shares.lanes_log2.to_le_bytes());
    put(block.height_log2, &shares.height_log2.to_le_bytes());
    let last = arguments.lengths.len() - 1;
    if last > 0 {
        put(block.groups, bytemuck::bytes_of(&Extent::new(shares.groups.max(1))));
    }
    for (number, axis) in axes_of_rows(program).into_iter().enumerate().skip(1) {
        let extent = Extent::new(arguments.lengths[axis].max(1));
        put(block.middle(number), bytemuck::bytes_of(&extent));
    }
    for axis in 0..last {
        if let Some(at) = block.of_rows(axis) {
            let elements: usize = arguments.lengths[axis + 1..].iter().product();
            put(at, &(elements as u32).to_le_bytes());
        }
    }
    if let Some(axis) = program.reduced_axis() {
        let Parts {
            count,
            len,
            first,
            launched,
        } = arguments.parts;
        let start = first * len;
        // More than a launch has: the kernel computes with numbers below 2^31.
        let length = (arguments.lengths[axis] - start).min(launched.saturating_mul(len));
        put(block.reduce.start, &(start as u64).to_le_bytes());
        put(block.reduce.length, &(length as u32).to_le_bytes());
        put(block.reduce.part_len, &(len as u32).to_le_bytes());
        put(block.reduce.parts, &(count as u32).to_le_bytes());
        put(block.reduce.first_part, &(first as u32).to_le_bytes());
    }
    if !program.streamed.is_empty() {
        let (last_blocks, elements) = last_blocks(program, arguments);
        put(block.last_blocks, &last_blocks.to_le_bytes());
        for &input in &program.streamed {
            let input = usize::from(input);
            let back = elements * program.inputs[input].ty.bytes();
            put(
                block.back(input).expect("a streamed input"),
                &(back as u64).to_le_bytes(),
            );
        }
    }
    for (number, (input, strides)) in program.inputs.iter().zip(arguments.strides).enumerate() {
        let axes = match input.layout {
            Layout::Single => 0,
            Layout::Rows | Layout::Offset | Layout::Columns => last,
            Layout::Strided | Layout::Turned => last + 1,
        };
        for (axis, stride) in strides.iter().take(axes).enumerate() {
            let stride = *stride as i64 * input.ty.bytes() as i64;
            put(block.stride(number, axis), &stride.to_le_bytes());
        }
    }
    bytes
}

/// The first of the blocks that [give priorities back](super::stream), and of elements how many before their own. As many are
/// theirs, of which streamed inputs have a quarter more than the cache.
fn last_blocks(program: &Program, arguments: &Arguments<'_>) -> (u32, usize) {
    let bytes = |&input: &u16| program.inputs[usize::from(input)].ty.bytes();
    let of_element: usize = program.streamed.iter().map(bytes).sum();
    let elements = (arguments.cache + arguments.cache / 4).div_ceil(of_element);
    let all: usize = arguments.lengths.iter().product();
    let blocks = config(program, arguments.lengths, arguments.parts).grid.x;
    // Else some would be before the first one: all blocks load as usual.
    if blocks < 3 || all < 3 * elements {
        return (0, 0);
    }
    let last = (blocks as usize * elements).div_ceil(all);
    (blocks - last as u32, elements)
}

/// The block of parameters of a kernel that [reads](super::reading()) the program's elements.
///
/// # Panics
///
/// As [`parameters`].
pub(in crate::expr) fn reading_parameters(program: &Program, arguments: &Arguments<'_>) -> Vec<u8> {
    let mut bytes = parameters(program, arguments);
    if let [.., _, columns] = *arguments.lengths {
        // An element's row is asked for, rather than a thread's.
        let (at, extent) = (Block::new(program).groups, Extent::new(columns.max(1)));
        bytes[at..at + EXTENT].copy_from_slice(bytemuck::bytes_of(&extent));
    }
    bytes
}

/// The threads that the kernel wants for elements along axes of these lengths.
///
/// # Panics
///
/// If there are more than [`MOST`] elements.
pub(in crate::expr) fn config(program: &Program, lengths: &[usize], parts: Parts) -> LaunchConfig {
    let shares = Shares::new(program, lengths, parts);
    match &program.reduce {
        Some(reduce) => LaunchConfig {
            dynamic_shared: match reduce.is_stashed {
                true => stash_len(program, lengths[lengths.len() - 1]).unwrap_or(0),
                false => 0,
            },
            ..LaunchConfig::new((shares.count as u32, parts.launched as u32), block_threads(reduce))
        },
        None => LaunchConfig::for_len(shares.count, threads(program)),
    }
}

/// The threads of a block that goes through rows: several rows where a warp is enough for one.
pub(super) fn block_threads(reduce: &Reduce) -> u32 {
    match reduce.form {
        Form::Rows { lanes_log2, .. } if lanes_log2 <= WARP_LOG2 => THREADS,
        _ => 1 << reduce.threads_log2(),
    }
}

/// The blocks that a multiprocessor has at a time at least, where each thread has more of a row than it loads in a loop: without
/// being told, ptxas would take more registers than that leaves.
pub(super) fn least_blocks(reduce: &Reduce) -> Option<u32> {
    let has_many = match reduce.form {
        Form::Rows { held, .. } => usize::from(held) > GROUPS,
        Form::Columns { is_held, in_flight, .. } => is_held && usize::from(in_flight) > GROUPS,
    };
    has_many.then(|| (1 << MOST_LANES_LOG2) / block_threads(reduce))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last blocks are there and read at least what the cache has, and so are the elements before theirs.
    #[test]
    fn priorities_are_given_back_for_as_much_as_the_cache_has() {
        let program = |axes, reduce| Program {
            axes,
            aligned: true,
            inputs: vec![
                Input {
                    ty: ScalarType::F32,
                    layout: Layout::Rows
                };
                2
            ],
            streamed: vec![0, 1],
            reduce,
            ..Program::default()
        };
        let form = Form::Rows {
            lanes_log2: 10,
            held: 4,
            looped: 0,
        };
        let rows = Reduce {
            form,
            is_row: vec![false],
            in_parts: false,
            is_whole: true,
            is_stashed: false,
            blocks_log2: 0,
            skips_last: false,
        };
        let whole = Parts {
            count: 1,
            len: MOST,
            first: 0,
            launched: 1,
        };
        let cache = 1 << 20;
        for lengths in [
            vec![1 << 20],
            vec![(1 << 19) + 4],
            vec![2000, 1000],
            vec![100, 16384],
            vec![3, 1 << 18],
            vec![2, 1 << 20],
        ] {
            let reduce = (lengths.len() > 1 && lengths[1] > 1000).then(|| rows.clone());
            let program = program(lengths.len() as u8, reduce);
            let arguments = Arguments {
                outputs: &[],
                inputs: &[0, 0],
                scalars: &[],
                lengths: &lengths,
                strides: &[],
                first: 0,
                parts: whole,
                cache,
            };
            let (first, back) = last_blocks(&program, &arguments);
            let blocks = config(&program, &lengths, whole).grid.x;
            let all: usize = lengths.iter().product();
            if blocks < 3 {
                assert_eq!((first, back), (0, 0), "{lengths:?}");
                continue;
            }
            let before = first as usize * all / blocks as usize;
            assert!(
                first < blocks && before >= back,
                "{lengths:?}: {first} of {blocks}, {back}"
            );
            assert!(8 * (all - before) >= cache && 8 * back >= cache, "{lengths:?}");
        }
    }
}
