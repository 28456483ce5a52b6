// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the threads of a launch share its elements.

use super::arguments::{
    HEIGHT_LOG2, LANES_LOG2, LEAST_PAIRED, Parts, THREADS, TILE_LANES_LOG2, TILE_VECTORS_LOG2, TURNED_VECTORS_LOG2,
    VECTORS_HEIGHT_LOG2, columns_of_block, is_flat, is_paired, rows_of_block, spread_len,
};
use super::{MOST, vector_len};
use crate::expr::program::{Form, GROUP, Program, Reduce, Vectors};

/// How the threads share the elements.
pub(super) struct Shares {
    pub(super) columns: usize,
    /// Of a flat program the vectors, else the rows.
    pub(super) rows: usize,
    pub(super) lanes_log2: u32,
    pub(super) height_log2: u32,
    /// Vectors, groups or tiles of a row; of reductions the blocks that have rows side by side.
    pub(super) groups: usize,
    /// Of reductions the blocks of a part, else the threads.
    pub(super) count: usize,
}

impl Shares {
    pub(super) fn new(program: &Program, lengths: &[usize], parts: Parts) -> Self {
        assert_eq!(lengths.len(), usize::from(program.axes), "a length for each axis");
        if let Some(reduce) = &program.reduce {
            return Self::of_rows(program, reduce, lengths, parts);
        }
        let (&columns, outer) = lengths.split_last().expect("at least one axis");
        // Without elements there are no rows, which the kernel looks at.
        let rows: usize = if columns == 0 { 0 } else { outer.iter().product() };
        assert!(rows * columns <= MOST, "a launch has at most {MOST} elements");
        let (flat, aligned, transposed) = (is_flat(program), program.aligned, program.transposed.is_some());
        assert!(!(flat && transposed), "one row has no tiles");
        let len = match aligned || program.ragged {
            true => vector_len(program),
            false => spread_len(program),
        };
        let rest = if aligned { columns % len } else { 0 };
        assert!(flat || rest == 0, "rows of aligned programs are whole vectors");
        let lanes_log2 = match (aligned, transposed) {
            (true, false) => 0,
            (true, true) if program.has_turned() => TURNED_VECTORS_LOG2,
            (true, true) => lanes(columns, len, TILE_VECTORS_LOG2),
            (false, true) if program.ragged => lanes(columns, len, TILE_VECTORS_LOG2),
            (false, true) => lanes(columns, len, TILE_LANES_LOG2),
            (false, false) if flat => LANES_LOG2,
            (false, false) => lanes(columns, len, LANES_LOG2),
        };
        // Where rows begin and end between two vectors, a row has a part of one more.
        let behind = if program.ragged { len - 1 } else { 0 };
        let groups = (columns + behind - rest).div_ceil(len << lanes_log2);
        let most = if aligned || program.ragged {
            VECTORS_HEIGHT_LOG2
        } else {
            HEIGHT_LOG2
        };
        let height_log2 = if transposed { height(rows, most) } else { 0 };
        let has_pairs = match program.vectors {
            Vectors::Any => is_paired(program) && rest == 0 && groups >= LEAST_PAIRED,
            Vectors::One => false,
            Vectors::Two => true,
        };
        if has_pairs {
            return Self {
                columns,
                rows: groups,
                lanes_log2: 1,
                height_log2,
                groups,
                count: groups.div_ceil(2 * THREADS as usize) * THREADS as usize,
            };
        }
        Self {
            columns,
            rows: if flat && aligned { groups } else { rows },
            lanes_log2,
            height_log2,
            groups,
            count: rows.next_multiple_of(1 << height_log2) * (groups << lanes_log2) + rest,
        }
    }

    /// Of reductions: the groups are blocks, of each part.
    fn of_rows(program: &Program, reduce: &Reduce, lengths: &[usize], parts: Parts) -> Self {
        let (&last, outer) = lengths.split_last().expect("at least one axis");
        assert!(
            parts.len <= MOST && parts.len.is_multiple_of(GROUP),
            "a part has at most {MOST} elements"
        );
        let (rows, groups, count) = match reduce.form {
            Form::Rows { .. } => {
                let rows: usize = outer.iter().product();
                (rows, 1, rows.div_ceil(rows_of_block(reduce)) << reduce.blocks_log2)
            }
            Form::Columns { across_log2, .. } => {
                let rows: usize = outer[1..].iter().product();
                let groups = last.div_ceil(columns_of_block(program, across_log2));
                (rows, groups, rows * groups)
            }
        };
        assert!(rows <= MOST && count <= MOST, "a launch has at most {MOST} rows");
        Self {
            columns: last,
            rows,
            lanes_log2: 0,
            height_log2: 0,
            groups,
            count,
        }
    }
}

/// The logarithm of the number of threads that share neighbours, at most `most`. As many as leave no more than a third of their
/// elements beyond the row: neighbours in one access are worth less than that.
fn lanes(columns: usize, len: usize, most: u32) -> u32 {
    let has_few_idle = |&log2: &u32| 2 * columns.next_multiple_of(len << log2) <= 3 * columns;
    (0..=most).rev().find(has_few_idle).unwrap_or(0)
}

/// The logarithm of the number of rows of a tile, at most `most`.
fn height(rows: usize, most: u32) -> u32 {
    rows.next_power_of_two().trailing_zeros().min(most)
}
