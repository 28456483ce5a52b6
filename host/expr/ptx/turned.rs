// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs whose neighbours lie along another axis than the last, as the transpose in `x + yᵀ`, of whole tiles.
//!
//! A thread has a vector of its row, but of such an input a vector of four rows in one column: of a tile's 64 columns of 64
//! rows, 256 bytes each, where four elements of its own would be in as many columns. So it leaves that in shared memory, and
//! finds its own elements there. A column's vectors have their places exchanged by the number of the vector of columns that it
//! belongs to: so the 32 threads of a warp, which write two columns, and read eight vectors of four rows, meet in no bank.

use cuda_std::scalar::ScalarType;

use super::arguments::{TURNED_VECTORS_LOG2, VECTORS_HEIGHT_LOG2};
use super::kernel::Kernel;
use super::memory::{self, Hint, Loaded};
use super::steps::{Elements, Inputs, Row};
use super::writer::{Register, Writer};

/// The name of the shared memory.
const SHARED: &str = "turned";

/// Elements of a vector, and their bytes.
const VECTOR_LOG2: u32 = 2;
const VECTOR_BYTES: u32 = 16;

/// The bytes of a column of a tile.
const COLUMN_BYTES: u32 = 4 << VECTORS_HEIGHT_LOG2;

/// The bytes of a tile.
const TILE_BYTES: u32 = COLUMN_BYTES << (TURNED_VECTORS_LOG2 + VECTOR_LOG2);

/// The rows of which a warp has vectors, as a power of two.
const ROWS_LOG2: u32 = 2;

/// The places of vectors that are exchanged.
const EXCHANGED: u32 = 8;

/// The most such inputs of a program: a block has 48 KiB of shared memory.
pub(in crate::expr) const MOST_TURNED: usize = (48 << 10) / TILE_BYTES as usize;

/// A thread's places in a tile.
pub(super) struct Turned {
    /// Its own row of the tile, and the vector there.
    pub within: Register,
    pub vector: Register,
    /// Where what it loads begins along all axes but the last, and the column.
    row: Row,
    column: Register,
    /// Where it writes that in shared memory, and finds its own.
    to: Register,
    from: Register,
}

impl Turned {
    /// The tile begins with that row, and is of that group of vectors.
    pub(super) fn new(
        kernel: &Kernel<'_>,
        (first, group): (Register, Register),
        thread: Register,
        writer: &mut Writer,
    ) -> Self {
        let base = writer.new_word("mov.u32", SHARED);
        let (vectors, columns) = (1u32 << TURNED_VECTORS_LOG2, 1 << (TURNED_VECTORS_LOG2 + VECTOR_LOG2));
        let of_column_log2 = VECTORS_HEIGHT_LOG2 - VECTOR_LOG2;
        // The vector of rows that it loads.
        let place = writer.new_word("and.b32", format_args!("{thread}, {}", (1 << of_column_log2) - 1));
        let own = writer.new_word("shr.u32", format_args!("{thread}, {of_column_log2}"));
        let number = writer.new_word("mad.lo.s32", format_args!("{place}, {}, {first}", 1 << VECTOR_LOG2));
        let row = kernel.row_along(number, 0, writer);
        let column = writer.new_word("mad.lo.s32", format_args!("{group}, {columns}, {own}"));
        let of_vector = writer.new_word(
            "bfe.u32",
            format_args!("{own}, {VECTOR_LOG2}, {}", EXCHANGED.trailing_zeros()),
        );
        let exchanged = writer.new_word("xor.b32", format_args!("{place}, {of_vector}"));
        let begin = writer.new_word("mad.lo.s32", format_args!("{own}, {COLUMN_BYTES}, {base}"));
        let to = writer.new_word("mad.lo.s32", format_args!("{exchanged}, {VECTOR_BYTES}, {begin}"));
        // Its own vector: a warp has eight of each of four rows.
        let within_eight = writer.new_word("and.b32", format_args!("{thread}, {}", EXCHANGED - 1));
        let of_warp = writer.new_word(
            "bfe.u32",
            format_args!("{thread}, {}, {ROWS_LOG2}", EXCHANGED.trailing_zeros()),
        );
        let warp = writer.new_word(
            "shr.u32",
            format_args!("{thread}, {}", EXCHANGED.trailing_zeros() + ROWS_LOG2),
        );
        let eight = writer.new_word("and.b32", format_args!("{warp}, {}", vectors / EXCHANGED - 1));
        let vector = writer.new_word("mad.lo.s32", format_args!("{eight}, {EXCHANGED}, {within_eight}"));
        let rows = writer.new_word(
            "shr.u32",
            format_args!("{warp}, {}", (vectors / EXCHANGED).trailing_zeros()),
        );
        let within = writer.new_word("mad.lo.s32", format_args!("{rows}, {}, {of_warp}", 1 << ROWS_LOG2));
        let of_row = writer.new_word("shr.u32", format_args!("{within}, {VECTOR_LOG2}"));
        let exchanged = writer.new_word("xor.b32", format_args!("{of_row}, {within_eight}"));
        let element = writer.new_word("and.b32", format_args!("{within}, {}", (1 << VECTOR_LOG2) - 1));
        let element = writer.new_word(
            "mad.lo.s32",
            format_args!("{exchanged}, {}, {element}", 1 << VECTOR_LOG2),
        );
        let begin = writer.new_word(
            "mad.lo.s32",
            format_args!("{vector}, {}, {base}", COLUMN_BYTES << VECTOR_LOG2),
        );
        let from = writer.new_word("mad.lo.s32", format_args!("{element}, 4, {begin}"));
        Self {
            within,
            vector,
            row,
            column,
            to,
            from,
        }
    }

    /// Loads a vector of an input for other threads.
    pub(super) fn load(&self, elements: &Elements<'_>, input: usize, writer: &mut Writer) -> (ScalarType, Loaded) {
        let Elements {
            program, block, given, ..
        } = *elements;
        let at = block.stride(input, usize::from(program.axes) - 1);
        let stride = writer.new_double("ld.param.b64", given.at(at));
        let column = writer.new_double("cvt.u64.u32", self.column);
        let address = writer.new_double(
            "mad.lo.s64",
            format_args!("{column}, {stride}, {}", self.row.inputs[input]),
        );
        let ty = program.inputs[input].ty;
        (ty, memory::load(ty, 1 << VECTOR_LOG2, address, Hint::None, writer))
    }

    /// Gives these inputs, of which the thread has loaded vectors, its own elements.
    pub(super) fn exchange(&self, loaded: &[(usize, (ScalarType, Loaded))], inputs: &mut Inputs, writer: &mut Writer) {
        let places = || (0..).map(|tile| tile * TILE_BYTES);
        for ((_, (_, loaded)), place) in loaded.iter().zip(places()) {
            let names: Vec<String> = loaded.unpack(writer).iter().map(Register::to_string).collect();
            writer.line(format_args!(
                "st.shared.v4.b32 [{}+{place}], {{{}}}",
                self.to,
                names.join(", ")
            ));
        }
        writer.local(format!(
            ".shared .align {VECTOR_BYTES} .b8 {SHARED}[{}]",
            loaded.len() as u32 * TILE_BYTES
        ));
        writer.line("bar.sync 0");
        for ((input, (ty, _)), place) in loaded.iter().zip(places()) {
            let own = (0..1 << VECTOR_LOG2).map(|k| {
                writer.new_word(
                    "ld.shared.b32",
                    format_args!("[{}+{}]", self.from, place + k * COLUMN_BYTES),
                )
            });
            inputs[*input] = vec![Loaded::of(*ty, own.collect())];
        }
    }
}
