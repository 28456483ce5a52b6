// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix products of a warpgroup on the simulated GPU.
//!
//! The lanes of a warp come to an instruction together, and the last one computes the elements of all, so that each operand
//! is read once for a warp. On a GPU the four warps go through the instructions together, so that one thread which has
//! waited knows that all have read; here, the threads of a warpgroup wait for one another where they wait for instructions.

use cuda_sim::{Engine, Lanes, Operands, SharedPtr};

use super::{InRegisters, IntegerRegisters, Major, Registers};
use crate::array;
use crate::float8::{F8E4M3, F8E5M2};
use crate::thread::{block_dim, linear_thread_idx};
use crate::tma::Swizzle;

/// Threads in a warpgroup.
const WARPGROUP: u32 = 128;

/// The bytes of 8 elements of 16 bits, which lie together whatever the swizzle.
const PIECE: usize = 16;

/// The number of the group barrier of warpgroup 0: those below are the named ones.
const FIRST_BARRIER: u32 = 16;

/// Rows of A of which a warp has the elements, and in how many of them a lane has some: those that far apart.
const ROWS: usize = 16;
const APART: usize = 8;

/// Columns of which a group of registers has the elements, and elements of a lane in each group.
const COLUMNS: usize = 8;
const GROUP: usize = 4;

/// Where a matrix lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MatrixDescriptor {
    at: SharedPtr,
    leading: u32,
    stride: u32,
    swizzle: Swizzle,
}

impl MatrixDescriptor {
    pub fn new(at: SharedPtr, leading: u32, stride: u32, swizzle: Swizzle) -> Self {
        Self {
            at,
            leading,
            stride,
            swizzle,
        }
    }

    pub fn advance(self, bytes: u32) -> Self {
        Self {
            at: self.at.byte_add(bytes as usize),
            ..self
        }
    }

    /// Panics unless the instruction can take it.
    #[track_caller]
    fn check(self) {
        let (at, bytes) = (self.at.offset(), self.swizzle.align());
        // Beside the bits within a piece of 16 bytes, those that the swizzle adds to others.
        assert!(
            at & (bytes - 1) & 0x38f == 0,
            "the matrix of a matrix descriptor begins at offset {at} of shared memory: at no row 0 of a swizzle of {bytes} bytes"
        );
        let (leading, stride) = (self.leading, self.stride);
        assert!(
            (leading | stride) & 15 == 0 && (leading | stride) < 1 << 18,
            "the distances {leading} and {stride} of a matrix descriptor are no multiples of 16 below 2^18"
        );
    }

    /// Reads pieces of 16 bytes, of elements of that kind, at offsets within the matrix: a swizzle moves each as a whole.
    #[inline(always)]
    #[track_caller]
    fn read<const P: usize>(self, kind: Kind, offsets: [u32; P]) -> [[u8; PIECE]; P] {
        let start = self.at.offset() as u32;
        let place = |offset| self.swizzle.place(start + offset).wrapping_sub(start) as i32 as usize;
        let places = array::map(offsets, place);
        let from = cuda_sim::reads_begin(Engine::Matrix, self.at, places, (PIECE, kind.bytes() as usize));
        // SAFETY: memory of the block's, whose threads are all on this OS thread.
        array::map(from, |from| unsafe { from.cast::<[u8; PIECE]>().read() })
    }

    /// The elements of some rows of A, or columns of B, of those numbers along M or N, which have `P` pieces. Where neighbours
    /// along M or N are neighbours all are of one piece.
    #[inline(always)]
    #[track_caller]
    fn lines<const K: usize, const L: usize, const P: usize>(
        self,
        kind: Kind,
        transposed: bool,
        lines: [u32; L],
    ) -> [[f32; K]; L] {
        const { assert!(P == 2 * L) };
        let mut elements = [[0.0; K]; L];
        if transposed {
            let offsets = array::from_fn(|k| self.transposed(lines[0], k as u32));
            let pieces: [_; K] = self.read(kind, offsets);
            for (elements, line) in elements.iter_mut().zip(lines) {
                let first = line as usize % 8 * 2;
                for (element, piece) in elements.iter_mut().zip(&pieces) {
                    *element = kind.value(&piece[first..]);
                }
            }
            return elements;
        }
        // The instruction's K elements are two pieces, whatever their type.
        // From one line to the next, and from its first piece to the second.
        let (next, second) = match self.swizzle {
            Swizzle::None => (PIECE as u32, self.leading),
            _ => (128, PIECE as u32),
        };
        let offsets = array::from_fn(|number| {
            let (line, is_second) = (lines[number / 2], (number % 2) as u32);
            line / 8 * self.stride + line % 8 * next + is_second * second
        });
        let pieces: [_; P] = self.read(kind, offsets);
        let values = pieces.as_flattened().chunks_exact(kind.bytes() as usize);
        for (element, bytes) in elements.as_flattened_mut().iter_mut().zip(values) {
            *element = kind.value(bytes);
        }
        elements
    }

    /// The offset of the piece of an element where neighbours along M or N are neighbours: of 16 bits, for no others are so.
    #[inline(always)]
    fn transposed(self, line: u32, k: u32) -> u32 {
        let row = self.swizzle.span();
        let wide = row / 2;
        line / wide * self.leading + line % wide / 8 * 16 + k / 8 * self.stride + k % 8 * row
    }
}

/// The operands' element type.
#[derive(Clone, Copy)]
enum Kind {
    Bf16,
    F16,
    Tf32,
    E4m3,
    E5m2,
    S8,
}

impl Kind {
    #[inline(always)]
    fn bytes(self) -> u32 {
        match self {
            Kind::Tf32 => 4,
            Kind::Bf16 | Kind::F16 => 2,
            Kind::E4m3 | Kind::E5m2 | Kind::S8 => 1,
        }
    }

    fn operands(self) -> Operands {
        match self {
            Kind::Bf16 => Operands::Bf16,
            Kind::F16 => Operands::F16,
            Kind::Tf32 => Operands::Tf32,
            Kind::E4m3 | Kind::E5m2 => Operands::Float8,
            Kind::S8 => Operands::Int8,
        }
    }

    /// The element that begins with those bytes.
    #[inline(always)]
    fn value(self, bytes: &[u8]) -> f32 {
        let half = || u16::from_le_bytes([bytes[0], bytes[1]]);
        match self {
            Kind::Bf16 => f32::from_bits(u32::from(half()) << 16),
            Kind::F16 => half::f16::from_bits(half()).to_f32(),
            Kind::Tf32 => {
                let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
                f32::from_bits(word & !0x1fff)
            }
            Kind::E4m3 => F8E4M3::from_bits(bytes[0]).to_f32(),
            Kind::E5m2 => F8E5M2::from_bits(bytes[0]).to_f32(),
            Kind::S8 => f32::from(bytes[0] as i8),
        }
    }
}

/// An operand: its elements, where they lie, and whether neighbours along M or N are neighbours there.
type Operand = (Kind, MatrixDescriptor, bool);

/// What is summed in.
trait Sum: Copy + 'static {
    const ZERO: Self;

    /// Adds the sum of an instruction's products: of integers it is exact.
    fn plus(self, products: f32) -> Self;
}

impl Sum for f32 {
    const ZERO: f32 = 0.0;

    #[inline(always)]
    fn plus(self, products: f32) -> f32 {
        self + products
    }
}

impl Sum for i32 {
    const ZERO: i32 = 0;

    #[inline(always)]
    fn plus(self, products: f32) -> i32 {
        self.wrapping_add(products as i32)
    }
}

/// Adds the product to the thread's elements. This and the next are not generic, and so optimised with this crate.
#[track_caller]
fn multiply(d: &mut [f32], add: bool, a: Operand, b: Operand) {
    match a.0.bytes() {
        1 => multiply_by::<f32, 32>(d, add, a, b),
        2 => multiply_by::<f32, 16>(d, add, a, b),
        _ => multiply_by::<f32, 8>(d, add, a, b),
    }
}

/// The same of integers.
#[track_caller]
fn multiply_integers(d: &mut [i32], add: bool, a: Operand, b: Operand) {
    multiply_by::<i32, 32>(d, add, a, b);
}

/// Adds the product to the thread's elements, by instructions of that K.
#[inline(always)]
#[track_caller]
fn multiply_by<S: Sum, const K: usize>(d: &mut [S], add: bool, (a_kind, a, a_transposed): Operand, b: Operand) {
    a.check();
    if let Some(lanes) = meet::<S, K>(d, add, (Some(a), [0; 4]), b) {
        let first = linear_thread_idx() / 32 % 4 * ROWS as u32;
        let numbers = |first| array::from_fn(|row| first + row as u32);
        let low = a.lines::<K, APART, ROWS>(a_kind, a_transposed, numbers(first));
        let high = a.lines::<K, APART, ROWS>(a_kind, a_transposed, numbers(first + APART as u32));
        multiply_rows(&lanes, &[low, high], b);
    }
}

/// Adds the product of a matrix A that the warps have in registers: the four lanes that have two rows of it have all of these.
#[track_caller]
fn multiply_fragment(d: &mut [f32], add: bool, kind: Kind, a: [u32; 4], (b, b_transposed): (MatrixDescriptor, bool)) {
    let b = (kind, b, b_transposed);
    match kind {
        Kind::Tf32 => {
            if let Some(lanes) = meet::<_, 8>(d, add, (None, a), b) {
                let element = |far, row, k| f32::from_bits(lanes.word(far, row, k % 4, k / 4) & !0x1fff);
                let rows = array::from_fn(|far| array::from_fn(|row| array::from_fn(|k| element(far, row, k))));
                multiply_rows::<_, 8>(&lanes, &rows, b);
            }
        }
        _ => {
            if let Some(lanes) = meet::<_, 16>(d, add, (None, a), b) {
                let half = |far, row, k: usize| (lanes.word(far, row, k % 8 / 2, k / 8) >> (16 * (k % 2))) as u16;
                let element = |far, row, k| kind.value(&half(far, row, k).to_le_bytes());
                let rows = array::from_fn(|far| array::from_fn(|row| array::from_fn(|k| element(far, row, k))));
                multiply_rows::<_, 16>(&lanes, &rows, b);
            }
        }
    }
}

/// What each lane of a warp brings to an instruction.
struct Warp<S> {
    /// What it has of A, if that is in registers.
    a: [[u32; 4]; 32],
    /// Its elements of the sum, so many.
    d: [*mut S; 32],
    len: usize,
}

impl<S> Warp<S> {
    /// Word `number` of A of lane `lane` of the four that have a row, or the row [`APART`] further on.
    fn word(&self, far: usize, row: usize, lane: usize, number: usize) -> u32 {
        self.a[row * 4 + lane][2 * number + far]
    }
}

/// Waits for the other lanes of the warp. The last one gets what all have brought, and is to add the product to all sums: the
/// others go on when it waits for something.
#[inline(always)]
#[track_caller]
fn meet<S: Sum, const K: usize>(
    d: &mut [S],
    add: bool,
    (a, of_a): (Option<MatrixDescriptor>, [u32; 4]),
    (kind, b, _): Operand,
) -> Option<Warp<S>> {
    let number = warpgroup();
    b.check();
    if !add {
        d.fill(S::ZERO);
    }
    cuda_sim::products(kind.operands(), (d.len() / GROUP * COLUMNS * K) as u64);
    // What is the same for all, and what is a lane's own.
    let own = ((a, b, d.len()), of_a, d.as_mut_ptr());
    let mut met = None;
    let keep = |lanes: &Lanes<_>| {
        met = Some(*lanes);
        [(); 32]
    };
    // SAFETY: it only keeps what all have given.
    unsafe { cuda_sim::exchange_with("wgmma", u32::MAX, own, keep) };
    let lanes = met?;
    let lanes: [_; 32] = array::from_fn(|lane| lanes.get(lane as u32).unwrap_or(own));
    assert!(
        lanes.iter().all(|(same, ..)| *same == own.0),
        "lanes of a warp of warpgroup {number} come to a matrix instruction with other matrices than one another"
    );
    Some(Warp {
        a: array::map(lanes, |(_, a, _)| a),
        d: array::map(lanes, |(.., d)| d),
        len: d.len(),
    })
}

/// Adds the product of those rows of A.
#[inline(always)]
#[track_caller]
fn multiply_rows<S: Sum, const K: usize>(
    warp: &Warp<S>,
    rows: &[[[f32; K]; APART]; ROWS / APART],
    (kind, b, transposed): Operand,
) {
    for group in 0..warp.len / GROUP {
        let columns = array::from_fn(|column| (group * COLUMNS + column) as u32);
        let columns = b.lines::<K, COLUMNS, { 2 * COLUMNS }>(kind, transposed, columns);
        let lines: [[f32; COLUMNS]; K] = array::from_fn(|k| array::from_fn(|column| columns[column][k]));
        for (far, rows) in rows.iter().enumerate() {
            for (row, a) in rows.iter().enumerate() {
                let mut products = [-0.0; COLUMNS];
                for (a, line) in a.iter().zip(&lines) {
                    products.iter_mut().zip(line).for_each(|(sum, b)| *sum += a * b);
                }
                for (column, products) in products.into_iter().enumerate() {
                    let (lane, number) = (row * 4 + column / 2, group * GROUP + 2 * far + column % 2);
                    // SAFETY: the lane has come to this instruction with so many elements, and waits there.
                    unsafe {
                        let element = warp.d[lane].add(number);
                        element.write(element.read().plus(products));
                    }
                }
            }
        }
    }
}

/// The number of the thread's warpgroup.
#[track_caller]
fn warpgroup() -> u32 {
    let (number, block) = (linear_thread_idx() / WARPGROUP, block_dim());
    let threads = block.x * block.y * block.z;
    assert!(
        (number + 1) * WARPGROUP <= threads,
        "a matrix instruction in warpgroup {number} of a block of {threads} threads: not all of its 128 threads exist"
    );
    number
}

/// Waits for the instructions of all batches but the `newest` ones: for the other threads of the warpgroup.
#[track_caller]
fn wait(name: &'static str, newest: u32) {
    cuda_sim::group_barrier(name, FIRST_BARRIER + warpgroup(), WARPGROUP);
    // Now that they have met: who goes on knows that all of them have waited.
    cuda_sim::copies_wait(Engine::Matrix, newest);
}

macro_rules! registers {
    ($($registers:literal)*) => {$(
        impl Registers for [f32; $registers] {
            registers!(multiply_bf16 multiply Bf16 Bf16);
            registers!(multiply_f16 multiply F16 F16);
            registers!(multiply_tf32 multiply Tf32 Tf32);

            unsafe fn multiply_tf32_fragment<const ADD: i32>(&mut self, a: [u32; 4], b: MatrixDescriptor) {
                multiply_fragment(self, ADD != 0, Kind::Tf32, a, (b, false));
            }

            unsafe fn multiply_bf16_fragment<B: Major, const ADD: i32>(&mut self, a: [u32; 4], b: MatrixDescriptor) {
                multiply_fragment(self, ADD != 0, Kind::Bf16, a, (b, B::TRANSPOSED != 0));
            }

            unsafe fn multiply_f16_fragment<B: Major, const ADD: i32>(&mut self, a: [u32; 4], b: MatrixDescriptor) {
                multiply_fragment(self, ADD != 0, Kind::F16, a, (b, B::TRANSPOSED != 0));
            }

            registers!(multiply_e4m3_e4m3 multiply E4m3 E4m3);
            registers!(multiply_e4m3_e5m2 multiply E4m3 E5m2);
            registers!(multiply_e5m2_e4m3 multiply E5m2 E4m3);
            registers!(multiply_e5m2_e5m2 multiply E5m2 E5m2);
        }

        impl IntegerRegisters for [i32; $registers] {
            registers!(multiply_s8 multiply_integers S8 S8);
        }

        registers!(@wait f32 $registers);
        registers!(@wait i32 $registers);
    )*};
    (@wait $sum:ident $registers:literal) => {
        impl InRegisters<$sum> for [$sum; $registers] {
            fn any() -> Self {
                [<$sum as Sum>::ZERO; $registers]
            }

            fn update(&mut self, f: impl Fn(usize, $sum) -> $sum) {
                for (i, element) in self.iter_mut().enumerate() {
                    *element = f(i, *element);
                }
            }

            fn fence(&mut self) {}

            fn wait(&mut self) {
                wait("wait", 0);
            }

            fn wait_but_newest(&mut self) {
                wait("wait_beside_newer", 1);
            }
        }
    };
    ($name:ident $multiply:ident $a:ident $b:ident) => {
        unsafe fn $name<A: Major, B: Major, const ADD: i32>(&mut self, a: MatrixDescriptor, b: MatrixDescriptor) {
            $multiply(self, ADD != 0, (Kind::$a, a, A::TRANSPOSED != 0), (Kind::$b, b, B::TRANSPOSED != 0));
        }
    };
}

registers! { 16 24 32 48 56 64 80 84 88 96 104 128 }

pub fn wgmma_fence() {}

#[track_caller]
pub fn wgmma_commit() {
    cuda_sim::copies_commit(Engine::Matrix);
}

#[track_caller]
pub fn wgmma_wait_but_newest() {
    wait("wait_but_newest", 1);
}

pub fn keep_fragment(_: &[u32; 4]) {}
