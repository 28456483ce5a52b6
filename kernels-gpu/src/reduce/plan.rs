// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which block combines what: functions of the array's shape and element size alone, so that floats are combined in the
//! same order on every device.

use cuda_std::KernelParam;

use crate::tile;

const WARP: usize = cuda_std::warp::WARP_SIZE as usize;

/// Threads of a block.
pub const THREADS: usize = 256;

/// Blocks that a multiprocessor holds at a time: more registers than that leaves, ptxas need not give a thread.
pub const BLOCKS: usize = 4;

/// Vectors of 16 bytes that a thread has in flight. With 4 of them, and the registers for it, more blocks at a time did
/// not make up for it.
pub(super) const UNROLL: usize = 8;

/// The steps of a tile, of which a chunk has at least one.
pub(super) const STEPS: usize = 4;

/// Chunks up to which rows of several tiles are cut into steps: about as many as a device has multiprocessors. A thread
/// then combines less one after another; more chunks would take longer to count than that saves.
const SMALL: usize = 128;

/// Chains in which a thread combines its vectors, in turn.
pub(super) const CHAINS: usize = 4;

/// Rows of at most so many elements are combined by warps or parts of one, however few they are: see [`RowPlan`].
pub const SHORT: usize = 1024;

/// Chunks that rows and columns are cut into where the tiles are enough for them: several times as many as a device
/// runs at once, so that all of it is busy to the end.
const PARTS: usize = 2048;

/// Blocks that are enough for a device to be busy, about as many as it has at a time: with more, each has several tiles of
/// a row, up to [`FEW`].
const BUSY: usize = 512;

/// The logarithm of the tiles of a row that are few for a block: more make no difference to its time.
const FEW: u32 = 2;

/// The logarithm of the most tiles that a block combines one after another.
const LONGEST_CHUNK: u32 = 6;

/// Vectors of a row that a lane has in flight, where warps combine rows.
pub(super) const ITEMS: usize = 4;

/// Values of blocks that a thread combines in one level of the tree above the blocks.
pub(super) const GROUP: usize = 16;

/// The columns of a segment that lie side by side: enough to fill the accesses of a warp. Of bytes, as many as are in a line
/// of the cache: what several blocks read of one line at different times, memory delivers several times.
const fn segment<T>() -> usize {
    if size_of::<T>() == 1 { 128 } else { 32 }
}

/// The columns of a sector of memory.
const fn sector<T>() -> usize {
    if size_of::<T>() < 32 { 32 / size_of::<T>() } else { 1 }
}

/// Elements that a block reads in one step of its loop over a row.
pub const fn tile_len<T>() -> usize {
    THREADS * UNROLL * tile::vec_len(size_of::<T>())
}

/// Whether a thread combines its vectors in one chain, since the values are too large to have several in registers.
pub(super) const fn has_one_chain<A>() -> bool {
    size_of::<A>() > 8
}

/// Rows that a lane has its share of, where warps combine them and it loads `vector` elements of type `T` at once:
/// several where that is less than a whole access, or where a vector's elements do not take more registers than the
/// vector.
pub(super) const fn rows_in_flight<T>(vector: usize) -> usize {
    if vector == 1 || vector < tile::vec_len(size_of::<T>()) {
        4
    } else if size_of::<T>() < 4 {
        1
    } else {
        2
    }
}

/// Those of `rows` that a thread treats together, as there are registers for values of type `A`, of which there is not one
/// chain alone.
pub(super) const fn rows_at_once<A>(rows: usize) -> usize {
    if size_of::<A>() > 4 && rows > 2 { 2 } else { rows }
}

/// Elements of a column that a thread has in flight: the smaller they are, the more, as far as registers go.
pub(super) const fn in_flight<T>() -> usize {
    match size_of::<T>() {
        1 => 12,
        2 => 8,
        _ => LEAST_IN_FLIGHT,
    }
}

/// Those of large elements; and of bytes, those of what is left of a column.
pub(super) const LEAST_IN_FLIGHT: usize = 4;

/// How the rows of an array are combined, each into one value: an array of shape (rows, length) along its last axis, or
/// a whole array as one row.
///
/// A warp, or a part of one, combines a row of up to [`SHORT`] elements, and a longer one if it is less than a tile, in
/// which a thread of a block would have fewer loads in flight, or if the values are so large that blocks have one chain.
/// It takes longer over it than a block: as many steps as it has loads one after another. So it does that where blocks would
/// have to take at least as many turns.
///
/// Any other row is cut into chunks of a power of two of tiles, at most 64, one for each block. There are at most 2048
/// of them, unless the rows alone are more or the chunks have reached their limit. Where all rows together have few
/// tiles, a chunk is a quarter of one.
///
/// A kernel relies on it that chunks are those of a row, so a plan is made by [`new`](Self::new) only.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct RowPlan {
    /// The elements of a row.
    pub(super) length: usize,
    /// The elements of a chunk; of the last one, that many or fewer. At least one.
    pub(super) chunk: usize,
    /// The chunks of a row: as many as cover it, at least one and less than 2^32.
    pub(super) chunks: usize,
    /// The count that [`ReduceOp::finish`](crate::op::ReduceOp::finish) is given.
    pub(super) count: u64,
    /// Whether a warp or a part of one combines a row, and not blocks; then a row is one chunk.
    pub(super) is_by_warps: bool,
}

/// How the columns of an array are combined, each into one value: an array of shape (outer, length, inner) along its
/// middle axis. A column has one index for outer and inner. What is neighbours along the last axis lies side by side;
/// along the others, at any distance.
///
/// A block has `width` columns side by side, and `height` threads for each. Long columns are cut into chunks, as rows
/// are.
///
/// A kernel relies on it that chunks are those of a column, so a plan is made by [`new`](Self::new) only.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct ColumnPlan {
    /// The elements of a column.
    pub(super) length: usize,
    /// The columns that lie side by side: at least 1.
    pub(super) inner: usize,
    /// The distance between neighbours of a column.
    pub(super) step: usize,
    /// The distance from such columns to the next.
    pub(super) outer_step: usize,
    /// From the first element of a column to behind its last.
    pub(super) span: usize,
    /// The elements of a chunk of a column; of the last one, that many or fewer. At least one.
    pub(super) chunk: usize,
    /// The chunks of a column: as many as cover it, at least one and less than 2^32.
    pub(super) chunks: usize,
    /// The count that [`ReduceOp::finish`](crate::op::ReduceOp::finish) is given.
    pub(super) count: u64,
    /// The columns of a block: at least one.
    pub(super) width: u32,
    /// The threads of a column: at least one, and for all columns of a block at most [`THREADS`].
    pub(super) height: u32,
}

impl RowPlan {
    /// The plan for `rows` rows of `length` elements of type `T`, combined as values of type `A`.
    ///
    /// # Panics
    ///
    /// If a row has 2^32 chunks, so more than 2^40 elements: none is that long.
    pub const fn new<T, A>(rows: usize, length: usize, count: u64) -> Self {
        let is_by_warps = is_by_warps::<T, A>(rows, length);
        let chunk = if is_by_warps {
            if length == 0 { 1 } else { length }
        } else {
            row_chunk::<T>(rows, length)
        };
        Self {
            length,
            chunk,
            chunks: chunks(length, chunk),
            count,
            is_by_warps,
        }
    }

    /// The blocks of the launch: one for each chunk, but not more than `most`, unless the rows alone are more. Then a
    /// block has several chunks, of one row.
    pub const fn blocks<T>(&self, rows: usize, most: usize) -> usize {
        if self.is_by_warps {
            let vector = self.vector::<T>();
            return rows.div_ceil(THREADS / self.lanes(vector) as usize * rows_in_flight::<T>(vector));
        }
        let each = match most.checked_div(rows) {
            Some(each) if each < self.chunks => each,
            _ => self.chunks,
        };
        rows.saturating_mul(if each == 0 { 1 } else { each })
    }

    /// The values of blocks that the launch keeps until they are combined.
    pub const fn partials(&self, rows: usize) -> usize {
        if self.chunks == 1 {
            0
        } else {
            rows.saturating_mul(self.chunks)
        }
    }

    /// The counters of the launch, 0 at its start and at its end.
    pub const fn counters(&self, rows: usize) -> usize {
        if self.chunks == 1 { 0 } else { rows }
    }

    /// The chunks of a row: at least one.
    pub const fn chunks(&self) -> usize {
        self.chunks
    }

    /// The elements that a lane loads at once where warps combine rows.
    pub(super) const fn vector<T>(&self) -> usize {
        vector::<T>(self.length)
    }

    /// The lanes of a warp that combine a row by vectors of `vector` elements: a power of two, with [`ITEMS`] vectors for
    /// each while there are lanes.
    pub(super) const fn lanes(&self, vector: usize) -> u32 {
        let lanes = (self.length / vector).div_ceil(ITEMS).next_power_of_two();
        if lanes > WARP { WARP as u32 } else { lanes as u32 }
    }

    /// The most combinations that an element of type `T` goes through when values of type `A` are combined,
    /// `O(log(length))`: the depth of the tree.
    ///
    /// Of a sum with unit roundoff `u`, the error is at most `depth · u · Σ|x|`, to first order (N. Higham, "Accuracy
    /// and Stability of Numerical Algorithms", 4.2).
    pub const fn depth<T, A>(&self) -> usize {
        if self.is_by_warps {
            let vector = self.vector::<T>();
            let lanes = self.lanes(vector) as usize;
            // A vector, those that are loaded with it, and the chain of those; the rest of fewer; then the lanes.
            return vector + 2 * (ITEMS - 1) + self.length / (vector * ITEMS * lanes) + ceil_log2(lanes);
        }
        let (tile, vector) = (tile_len::<T>(), tile::vec_len(size_of::<T>()));
        let chunk = if self.chunk < self.length {
            self.chunk
        } else {
            self.length
        };
        let chains = if has_one_chain::<A>() { 1 } else { CHAINS };
        // The values of a chain's vectors, and the vector itself, which at the end of the row is combined one by one;
        // then the chains, the threads, and the blocks.
        let vectors = chunk.div_ceil(tile / STEPS) * (UNROLL / STEPS);
        let share = vectors.div_ceil(chains) + vector + ceil_log2(chains) + ceil_log2(THREADS);
        share + levels(self.chunks, THREADS)
    }
}

impl ColumnPlan {
    /// The plan for `columns` columns of `length` elements of type `T`, which are `inner` apart, as many as lie side by
    /// side.
    ///
    /// # Panics
    ///
    /// If a column has 2^32 chunks, so more than 2^32 elements times those that a block has in flight: none is that
    /// long.
    pub const fn new<T>(columns: usize, length: usize, inner: usize, count: u64) -> Self {
        // Of no columns, or of such without elements, a plan of one: nobody asks what they are.
        let (columns, inner) = (
            if columns == 0 { 1 } else { columns },
            if inner == 0 { 1 } else { inner },
        );
        let (mut width, mut height) = block_shape(columns, length, inner, segment::<T>());
        // Narrower strips, down to a sector of memory, where a column then is one chunk, and is more else: that takes as many
        // blocks, which have not to wait for one another.
        while chunk(columns, length, (width, in_flight::<T>() * height)) < length
            && length <= in_flight::<T>() * THREADS / sector::<T>()
            && width.is_multiple_of(2)
            && width >= 2 * sector::<T>()
        {
            (width, height) = (width / 2, height * 2);
        }
        let chunk = chunk(columns, length, (width, in_flight::<T>() * height));
        Self {
            length,
            inner,
            step: 0,
            outer_step: 0,
            span: 0,
            chunk,
            chunks: chunks(length, chunk),
            count,
            width: width as u32,
            height: height as u32,
        }
        .lying(length.saturating_mul(inner), inner)
    }

    /// The plan for columns whose neighbours lie `step` elements apart; behind each `inner` of them, which lie side by
    /// side, the next begin `outer_step` elements on.
    ///
    /// # Panics
    ///
    /// If a column has a span of 2^64 elements: none has.
    pub const fn lying(self, outer_step: usize, step: usize) -> Self {
        let last = self.length.saturating_sub(1).checked_mul(step);
        let span = match last {
            Some(last) => last.checked_add((self.length > 0) as usize),
            None => None,
        };
        Self {
            step,
            outer_step,
            span: span.expect("no column is as long"),
            ..self
        }
    }

    /// As [`RowPlan::blocks`].
    pub const fn blocks(&self, columns: usize) -> usize {
        columns.div_ceil(self.width as usize).saturating_mul(self.chunks)
    }

    /// As [`RowPlan::partials`].
    pub const fn partials(&self, columns: usize) -> usize {
        if self.chunks == 1 {
            0
        } else {
            self.blocks(columns).saturating_mul(self.width as usize)
        }
    }

    /// As [`RowPlan::counters`].
    pub const fn counters(&self, columns: usize) -> usize {
        if self.chunks == 1 {
            0
        } else {
            columns.div_ceil(self.width as usize)
        }
    }

    /// The elements of a chunk of a column; of the last one, that many or fewer.
    pub const fn chunk(&self) -> usize {
        self.chunk
    }

    /// The chunks of a column: at least one.
    pub const fn chunks(&self) -> usize {
        self.chunks
    }

    /// The columns of a block.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The threads of a column.
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// As [`RowPlan::depth`].
    pub const fn depth<T>(&self) -> usize {
        let (height, in_flight) = (self.height as usize, in_flight::<T>());
        let chunk = if self.chunk < self.length {
            self.chunk
        } else {
            self.length
        };
        // A chain of as many as are in flight, each folded, and the rest of fewer than that; then the threads and
        // blocks.
        let share = chunk / (in_flight * height) + ceil_log2(in_flight) + in_flight - 1 + ceil_log2(height);
        share + levels(self.chunks, height)
    }
}

/// The columns of a block and the threads of each.
///
/// The more elements a column has, the more threads, while neighbouring threads still read neighbouring elements: at
/// least those of a [`segment`] side by side, or, where fewer lie together, all of those.
const fn block_shape(columns: usize, length: usize, inner: usize, segment: usize) -> (usize, usize) {
    let together = if inner < segment { inner } else { segment };
    let (most, wanted) = (THREADS / together, length / 8);
    let height = if wanted >= most {
        most
    } else if wanted < 2 {
        1
    } else if inner < segment {
        wanted
    } else {
        // A power of two, so that the width is one.
        1 << wanted.ilog2()
    };
    let width = THREADS / height;
    let width = if inner < segment { width / inner * inner } else { width };
    (if columns < width { columns } else { width }, height)
}

/// The elements of a chunk of columns, by blocks that have `width` of them, and `step` elements of each at a time.
const fn chunk(columns: usize, length: usize, (width, step): (usize, usize)) -> usize {
    step << log_tiles(length.div_ceil(step), columns.div_ceil(width))
}

/// Whether warps combine rows, and not blocks: see [`RowPlan`].
const fn is_by_warps<T, A>(rows: usize, length: usize) -> bool {
    let may_be = length < tile_len::<T>() || has_one_chain::<A>();
    let steps = length.div_ceil(WARP * ITEMS * vector::<T>(length));
    length <= SHORT || may_be && steps <= rows / BUSY
}

/// The elements of a row of `length` that a lane loads at once: as many as 16 bytes hold, where the row has only whole
/// vectors of them and several; else as many as four bytes hold, where it has only whole ones of those; else one.
const fn vector<T>(length: usize) -> usize {
    let access = tile::vec_len(size_of::<T>());
    let word = access / 4;
    if length.is_multiple_of(access) && length > access {
        access
    } else if word > 1 && length.is_multiple_of(word) {
        word
    } else {
        1
    }
}

/// The logarithm of the number of tiles in a chunk: the least with which `segments` rows of `tiles` tiles are at most
/// [`PARTS`] chunks, or a row is one chunk, but not above [`LONGEST_CHUNK`].
const fn log_tiles(tiles: usize, segments: usize) -> u32 {
    let most = match PARTS.checked_div(segments) {
        Some(most) => most,
        None => PARTS,
    };
    let mut log = 0;
    while log < LONGEST_CHUNK && 1 << log < tiles && tiles.div_ceil(1 << log) > most {
        log += 1;
    }
    log
}

/// The logarithm of the tiles of a chunk of a row.
const fn row_log_tiles(tiles: usize, rows: usize) -> u32 {
    let mut log = log_tiles(tiles, rows);
    while log < FEW && 1 << log < tiles && rows.saturating_mul(tiles) >= BUSY << (log + 1) {
        log += 1;
    }
    log
}

/// The elements of a chunk of a row.
const fn row_chunk<T>(rows: usize, length: usize) -> usize {
    let tile = tile_len::<T>();
    let tiles = length.div_ceil(tile);
    if tiles > 1 && rows.saturating_mul(STEPS * tiles) <= SMALL {
        tile / STEPS
    } else {
        tile << row_log_tiles(tiles, rows)
    }
}

const fn chunks(length: usize, chunk: usize) -> usize {
    let chunks = if length == 0 { 1 } else { length.div_ceil(chunk) };
    assert!(chunks <= u32::MAX as usize, "no row or column has 2^32 chunks");
    chunks
}

/// The depth of the tree above the blocks, in which `height` threads combine the values of `chunks` blocks.
const fn levels(chunks: usize, height: usize) -> usize {
    let (mut left, mut depth) = (chunks, 0);
    while left > 1 {
        let each = left.div_ceil(height);
        depth += ceil_log2(height) + if each < GROUP { each } else { GROUP };
        left = left.div_ceil(GROUP * height);
    }
    depth
}

const fn ceil_log2(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}
