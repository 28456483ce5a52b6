// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which block combines what: functions of the array's shape and element size, and of columns whether they begin at a
//! multiple of 16 bytes, so that floats are combined in the same order on every device.

use cuda_block::MAX_VALUE;
use cuda_std::KernelParam;

use super::row::have_places;
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

/// Chunks that rows are cut into where the tiles are enough for them: several times as many as a device
/// runs at once, so that all of it is busy to the end.
const PARTS: usize = 2048;

/// Blocks that are enough for a device to be busy, about as many as it has at a time: with more, each has several tiles of
/// a row, up to [`FEW`].
const BUSY: usize = 512;

/// The logarithm of the tiles of a row that are few for a block: more make no difference to its time.
const FEW: u32 = 2;

/// The logarithm of the most tiles that a block combines one after another.
const LONGEST_CHUNK: u32 = 6;

/// The same of columns.
const LONGEST_OF_COLUMN: usize = 128;

/// Vectors of a row that a lane has in flight, where warps combine rows.
pub(super) const ITEMS: usize = 4;

/// The bytes of rows that a block brings into shared memory.
const STAGE: usize = 1 << 15;

/// Bytes of a row for each lane there: so all threads of a block have a row, or lanes of one.
const STAGED_SHARE: usize = STAGE / THREADS;

/// The most elements of a word.
const STAGED_WORD: usize = 4;

/// Values of blocks that a thread combines in one level of the tree above the blocks.
pub(super) const GROUP: usize = 16;

/// The same of columns, whose groups each have a block.
const COLUMN_GROUP: usize = 8;

/// The threads of a block that have columns side by side, at least, where there are as many: a warp, whose accesses they fill, or
/// those whose columns have a line of the cache: what several blocks read of one line at different times, memory delivers
/// several times.
const fn segment<T>(each: usize) -> usize {
    let of_line = 128 / if size_of::<T>() == 0 { 1 } else { each * size_of::<T>() };
    if of_line > WARP { of_line } else { WARP }
}

/// The threads whose columns fill a sector of memory, where each has `each` columns.
const fn sector<T>(each: usize) -> usize {
    let bytes = each * size_of::<T>();
    if bytes < 32 { 32 / bytes } else { 1 }
}

/// Elements that a block reads in one step of its loop over a row.
pub const fn tile_len<T>() -> usize {
    THREADS * UNROLL * tile::vec_len(size_of::<T>())
}

/// Whether a thread combines its vectors in one chain, since the values are too large to have several in registers.
pub(super) const fn has_one_chain<A>() -> bool {
    size_of::<A>() > 8
}

/// Rows that a lane has its share of, where warps combine them by vectors: several where a vector's elements do not take
/// more registers than the vector.
pub(super) const fn rows_in_flight<T>() -> usize {
    if size_of::<T>() < 4 { 1 } else { 2 }
}

/// Columns of a thread: neighbours, as many as 16 bytes hold, but not more than there are registers for their values.
pub(super) const fn columns_of_thread<T, A>() -> usize {
    let most = if size_of::<T>().is_power_of_two() {
        tile::vec_len(size_of::<T>())
    } else {
        1
    };
    let (mut each, size) = (if most < 4 { most } else { 4 }, size_of::<A>());
    while each > 1 && each * size > MAX_VALUE {
        each /= 2;
    }
    each
}

/// Elements of each of `each` columns that a thread has in flight: the smaller they are, and the fewer the columns that it could
/// have, the more, as far as registers go.
pub(super) const fn in_flight<T, A>(each: usize) -> usize {
    match (size_of::<T>(), each) {
        (1, 1) => 16,
        (1, _) | (2 | 4, 1) => 8,
        (2, _) if each * size_of::<A>() <= 16 => 8,
        (17.., _) => 2,
        _ => 4,
    }
}

/// How the rows of an array are combined, each into one value: an array of shape (rows, length) along its last axis, or
/// a whole array as one row.
///
/// Rows of up to 4 KiB that have not only whole vectors of 16 bytes, and those of one, go by way of shared memory: a block
/// brings several into it, as one stretch, and a warp or a part of one combines each.
///
/// A warp, or a part of one, combines any other row of up to [`SHORT`] elements, and a longer one if it is less than a tile,
/// in which a thread of a block would have fewer loads in flight, or if the values are so large that blocks have one chain.
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
    /// The rows that a block brings into shared memory together; 0 if each is read by itself.
    pub(super) together: u32,
}

/// How the columns of an array are combined, each into one value: an array of shape (outer, length, inner) along its
/// middle axis. A column has one index for outer and inner. What is neighbours along the last axis lies side by side;
/// along the others, at any distance.
///
/// A block has `width` threads side by side, and `height` threads behind each, which share its columns. A thread has several
/// columns: neighbours, which it loads as vectors where they are aligned. Where the rows of the array are no whole vectors, but
/// few of them together are, these are one long row, and what is combined in its parts is combined at the end. Else a thread has
/// one column. Long columns are cut into chunks, of as many rows as make about as many blocks as a device has at a time; the
/// last block of a group combines its values, and the last of these blocks those.
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
    /// The long rows.
    pub(super) rows: usize,
    /// The long rows of a chunk; of the last one, that many or fewer. At least one.
    pub(super) chunk: usize,
    /// The chunks of a column: as many as cover it, at least one and less than 2^32.
    pub(super) chunks: usize,
    /// The count that [`ReduceOp::finish`](crate::op::ReduceOp::finish) is given.
    pub(super) count: u64,
    /// The threads of a block side by side: at least one.
    pub(super) width: u32,
    /// The threads behind each: at least one, and in a block at most [`THREADS`].
    pub(super) height: u32,
    /// The rows of a long row: at least one, and one if there are several outer.
    pub(super) fold: u32,
    /// Whether a thread has one column, whatever it could have.
    pub(super) is_single: bool,
}

impl RowPlan {
    /// The plan for `rows` rows of `length` elements of type `T`, combined as values of type `A`.
    ///
    /// # Panics
    ///
    /// If a row has 2^32 chunks, so more than 2^40 elements: none is that long.
    pub const fn new<T, A>(rows: usize, length: usize, count: u64) -> Self {
        let is_by_warps = is_by_warps::<T, A>(rows, length);
        let together = together::<T>(rows, length);
        let chunk = if is_by_warps || together > 0 {
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
            together,
        }
    }

    /// The blocks of the launch: one for each chunk, but not many more than `most`, unless the rows alone are more. Then a
    /// block has several chunks, of one row.
    pub const fn blocks<T>(&self, rows: usize, most: usize) -> usize {
        if self.together > 0 {
            return rows.div_ceil(self.together as usize);
        }
        if self.is_by_warps {
            let vector = tile::vec_len(size_of::<T>());
            return rows.div_ceil(THREADS / self.lanes(vector) as usize * rows_in_flight::<T>());
        }
        let each = match most.checked_div(rows) {
            // Of few blocks for each row, one more where a good part of the device would be without.
            Some(each) if rows.saturating_mul(each) < most - most / 4 => each + 1,
            Some(each) => each,
            None => self.chunks,
        };
        let each = if each < self.chunks { each } else { self.chunks };
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

    /// The bytes of shared memory that the launch asks for.
    pub const fn shared_bytes<T>(&self) -> usize {
        if self.together == 0 {
            return 0;
        }
        let elements = self.together as usize * self.length + tile::vec_len(size_of::<T>());
        (elements * size_of::<T>()).next_multiple_of(16)
    }

    /// The lanes of a warp that combine a row in shared memory, a power of two.
    pub(super) const fn staged_lanes<T>(&self) -> u32 {
        staged_lanes::<T>(self.length) as u32
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
        if self.together > 0 {
            let lanes = self.staged_lanes::<T>() as usize;
            // What a lane has, of words and less, and the lanes.
            return self.length.div_ceil(lanes) + STAGED_WORD + ceil_log2(lanes);
        }
        if self.is_by_warps {
            let vector = tile::vec_len(size_of::<T>());
            let lanes = self.lanes(vector) as usize;
            // A vector, those that are loaded with it, and the chain of those; the rest of fewer, and what is less than a
            // vector; then the lanes.
            let rest = 2 * (ITEMS - 1) + vector.div_ceil(lanes);
            return vector + rest + self.length / (vector * ITEMS * lanes) + ceil_log2(lanes);
        }
        let (tile, vector) = (tile_len::<T>(), tile::vec_len(size_of::<T>()));
        let chunk = if self.chunk < self.length {
            self.chunk
        } else {
            self.length
        };
        let chains = if has_one_chain::<A>() { 1 } else { CHAINS };
        // The values of a chain's vectors, the vector itself, and an element of what is less than one; then the chains, the
        // threads, and the blocks.
        let vectors = chunk.div_ceil(tile / STEPS) * (UNROLL / STEPS);
        let share = vectors.div_ceil(chains) + vector + ceil_log2(chains) + ceil_log2(THREADS);
        share + levels(self.chunks, THREADS, GROUP)
    }
}

impl ColumnPlan {
    /// The plan for `columns` columns of `length` elements of type `T`, combined as values of type `A`, which are `inner` apart,
    /// as many as lie side by side. The array begins where a vector may.
    ///
    /// # Panics
    ///
    /// As [`lying`](Self::lying).
    pub const fn new<T, A>(columns: usize, length: usize, inner: usize, count: u64) -> Self {
        let steps = (length.saturating_mul(inner), inner);
        Self::lying::<T, A>((columns, length, inner), steps, true, count)
    }

    /// The plan for columns whose neighbours lie `step` elements apart; behind each `inner` of them, which lie side by
    /// side, the next begin `outer_step` elements on; and whether the first one is aligned as a vector of 16 bytes.
    ///
    /// # Panics
    ///
    /// If a column has a span of 2^64 elements, or 2^32 chunks, so more than 2^32 elements times those that a block has in
    /// flight: none is that long.
    pub const fn lying<T, A>(
        (columns, length, inner): (usize, usize, usize),
        (outer_step, step): (usize, usize),
        is_aligned: bool,
        count: u64,
    ) -> Self {
        // Of no columns, or of such without elements, a plan of one: nobody asks what they are.
        let (columns, inner) = (
            if columns == 0 { 1 } else { columns },
            if inner == 0 { 1 } else { inner },
        );
        let most = columns_of_thread::<T, A>();
        let is_outer = columns != inner;
        let (each, fold) = if !is_aligned || most == 1 || !columns.is_multiple_of(inner) {
            (1, 1)
        } else if (inner | step).is_multiple_of(most) && (!is_outer || outer_step.is_multiple_of(most)) {
            (most, 1)
        } else {
            match long_row(inner, length, most) {
                0 => (1, 1),
                _ if is_outer || step != inner => (1, 1),
                rows => (most, rows),
            }
        };
        // From here on in threads side by side, and long rows.
        let (across, together, rows) = (columns * fold / each, inner * fold / each, length / fold);
        let in_flight = in_flight::<T, A>(each);
        let (mut width, mut height) = match fold {
            1 => block_shape(across, rows, together, segment::<T>(each)),
            _ => (across, THREADS / across),
        };
        let mut chunk = column_chunk(across, rows, (width, in_flight * height));
        // Narrower strips, down to a sector of memory, where a column then is one chunk, and is more else: that takes as many
        // blocks, which have not to wait for one another.
        let narrow = match (in_flight * THREADS).checked_div(rows) {
            Some(narrow) if narrow < sector::<T>(each) => 0,
            Some(narrow) => narrow,
            None => 0,
        };
        if chunk < rows && fold == 1 && 0 < narrow && narrow < width && together >= width {
            (width, height, chunk) = (narrow, THREADS / narrow, rows);
        }
        let last = length.saturating_sub(1).checked_mul(step);
        let span = match last {
            Some(last) => last.checked_add((length > 0) as usize),
            None => None,
        };
        Self {
            length,
            inner,
            step,
            outer_step,
            span: span.expect("no column is as long"),
            rows,
            chunk,
            chunks: chunks(rows, chunk),
            count,
            width: width as u32,
            height: height as u32,
            fold: fold as u32,
            is_single: each == 1,
        }
    }

    /// As [`RowPlan::blocks`], of a kernel for elements of type `T`, which it combines as values of type `A`.
    pub const fn blocks<T, A>(&self, columns: usize) -> usize {
        self.strips::<T, A>(columns).saturating_mul(self.chunks)
    }

    /// The neighbours whose columns blocks have, `chunks` of them the same.
    const fn strips<T, A>(&self, columns: usize) -> usize {
        let of_block = self.width as usize * self.each::<T, A>();
        columns.saturating_mul(self.fold as usize).div_ceil(of_block)
    }

    /// The columns of a thread.
    pub(super) const fn each<T, A>(&self) -> usize {
        if self.is_single { 1 } else { columns_of_thread::<T, A>() }
    }

    /// As [`RowPlan::partials`].
    pub const fn partials<T, A>(&self, columns: usize) -> usize {
        if self.chunks == 1 {
            0
        } else {
            let of_block = self.width as usize * columns_of_thread::<T, A>();
            self.blocks::<T, A>(columns).saturating_mul(of_block)
        }
    }

    /// As [`RowPlan::counters`].
    pub const fn counters<T, A>(&self, columns: usize) -> usize {
        self.strips::<T, A>(columns).saturating_mul(self.groups())
    }

    /// The groups of all levels of the tree above the blocks, but for the last one.
    pub(super) const fn groups(&self) -> usize {
        let (mut left, mut groups) = (self.chunks, 0);
        while left > 1 {
            left = left.div_ceil(self.group());
            groups += left;
        }
        groups
    }

    /// The values of a column that a block combines in one level of the tree above the blocks.
    pub(super) const fn group(&self) -> usize {
        COLUMN_GROUP * if self.height == 0 { 1 } else { self.height as usize }
    }

    /// The elements of a chunk of a column; of the last one, that many or fewer.
    pub const fn chunk(&self) -> usize {
        self.chunk.saturating_mul(self.fold as usize)
    }

    /// The chunks of a column: at least one.
    pub const fn chunks(&self) -> usize {
        self.chunks
    }

    /// The threads of a block side by side.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The threads behind each of those, which share its columns.
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// As [`RowPlan::depth`].
    pub const fn depth<T, A>(&self) -> usize {
        let (height, in_flight) = (self.height as usize, in_flight::<T, A>(self.each::<T, A>()));
        let chunk = if self.chunk < self.rows { self.chunk } else { self.rows };
        // A chain of as many as are in flight, each folded, and the rest of fewer than that; then the threads, the blocks, and
        // the rows of a long one, and those that are left.
        let share = chunk / (in_flight * height) + ceil_log2(in_flight) + in_flight - 1 + ceil_log2(height);
        share + levels(self.chunks, height, COLUMN_GROUP) + 2 * (self.fold as usize - 1)
    }
}

/// The fewest rows of `inner` elements that together are whole vectors of `each`, if all of those are a block's, and there are
/// several such rows; else 0.
const fn long_row(inner: usize, length: usize, each: usize) -> usize {
    let mut rows = 2;
    while !(rows * (inner % each)).is_multiple_of(each) {
        rows *= 2;
    }
    let has_room = inner > 1 && inner <= each * THREADS / rows;
    if has_room && length >= 4 * rows { rows } else { 0 }
}

/// The threads of a block side by side, each of which has columns, and those behind each, for `across` of them in rows, of which
/// `together` lie side by side.
///
/// The more elements a column has, the more threads, while neighbouring threads still read neighbouring elements: at
/// least those of a [`segment`] side by side, or, where fewer lie together, all of those. Of so many columns that there
/// would be more blocks than a device has at a time, a block has more.
const fn block_shape(across: usize, rows: usize, together: usize, segment: usize) -> (usize, usize) {
    let wanted = if rows < 16 { 1 } else { rows / 8 };
    if together < segment && across > together {
        let most = THREADS / together;
        let height = if wanted < most { wanted } else { most };
        let width = THREADS / height / together * together;
        return (if across < width { across } else { width }, height);
    }
    let least = THREADS / if wanted < THREADS { wanted } else { THREADS };
    // Of so many that there would be less than two chunks for each block, half as many are enough side by side.
    let segment = if across > BUSY * segment / 2 {
        segment / 2
    } else {
        segment
    };
    let mut width = across.div_ceil(BUSY);
    if width < segment {
        width = if across < segment { across } else { segment };
    }
    if width < least {
        width = least;
    }
    if width > THREADS {
        width = THREADS;
    }
    // Strips of one width, as near as can be.
    let width = across.div_ceil(across.div_ceil(width));
    let height = THREADS / width;
    (width, if height < wanted { height } else { wanted })
}

/// The rows of a chunk, by blocks that are `width` wide, of `across`, and have `step` rows at a time: as many as make about
/// [`BUSY`] blocks, or a multiple of that if they were above [`LONGEST_OF_COLUMN`]. Chunks are of one length, so that blocks
/// that run at a time end at a time.
const fn column_chunk(across: usize, rows: usize, (width, step): (usize, usize)) -> usize {
    let (tiles, strips) = (rows.div_ceil(step), across.div_ceil(width));
    let turns = tiles.saturating_mul(strips).div_ceil(BUSY * LONGEST_OF_COLUMN);
    let most = BUSY * turns / strips;
    let tiles = tiles.div_ceil(if most == 0 { 1 } else { most });
    step * match tiles {
        0 => 1,
        LONGEST_OF_COLUMN.. => LONGEST_OF_COLUMN,
        _ => tiles,
    }
}

/// The lanes of a row in shared memory.
const fn staged_lanes<T>(length: usize) -> usize {
    let lanes = (length * size_of::<T>()).div_ceil(STAGED_SHARE).next_power_of_two();
    if lanes > WARP { WARP } else { lanes }
}

/// The rows that a block brings into shared memory together: those that fit in, of an array of few rows as many as leave
/// work for a device. None where a row has only whole vectors, or is longer than the shares of a warp, or where elements may lie
/// across vectors.
const fn together<T>(rows: usize, length: usize) -> u32 {
    let access = tile::vec_len(size_of::<T>());
    if access == 1
        || !have_places::<T>()
        || length == 0
        || length.is_multiple_of(access) && length > access
        || length * size_of::<T>() > WARP * STAGED_SHARE
    {
        return 0;
    }
    let (most, each) = (STAGE / (length * size_of::<T>()), rows.div_ceil(BUSY));
    let least = WARP / staged_lanes::<T>(length);
    (if each > most {
        most
    } else if each < least {
        least
    } else {
        each
    }) as u32
}

/// Whether warps combine rows, and not blocks: see [`RowPlan`].
const fn is_by_warps<T, A>(rows: usize, length: usize) -> bool {
    let may_be = length < tile_len::<T>() || has_one_chain::<A>();
    let steps = length.div_ceil(WARP * ITEMS * tile::vec_len(size_of::<T>()));
    length <= SHORT || may_be && steps <= rows / BUSY
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
const fn levels(chunks: usize, height: usize, group: usize) -> usize {
    let (mut left, mut depth) = (chunks, 0);
    while left > 1 {
        let each = left.div_ceil(height);
        depth += ceil_log2(height) + if each < group { each } else { group };
        left = left.div_ceil(group * height);
    }
    depth
}

const fn ceil_log2(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}
