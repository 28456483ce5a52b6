// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that are added where indices say, one after another in the order of the indices: the same bits each time, and those of a loop
//! on the host.
//!
//! What an index names, over all outer and inner axes, is a *line*, and its elements *columns*. Each line is of one share, whose blocks
//! have columns of their own, so that nobody else adds to them. A block reads all indices, `CHUNK` at a time, and lists those of its
//! share in shared memory. When the list may not have room for another chunk, it is sorted, by line and then by number (K. Batcher,
//! "Sorting networks and their applications", 1968): what is added to one line lies together, in its order. Teams of warps share the
//! list, each of which goes over whole lines: a line is read once, added to in registers, a lane for each column, and written once.
//!
//! No memory but the list, one launch. Indices are read by each block, of which there are about two for each multiprocessor: from the
//! cache, 8 bytes where a line's values are moved. Where few indices occur over and over, few warps have all of the work.

use bytemuck::Pod;
use core::ops::Add;
use cuda_std::prelude::*;

use super::{THREADS, div_rem, out_of_bounds};
use crate::matmul::unroll;

/// Warps of a block.
const WARPS: usize = THREADS / 32;

/// Indices of a lane, of a warp, and of a block at a time.
const ITEMS: usize = 8;
const OF_WARP: usize = ITEMS * 32;
const CHUNK: usize = ITEMS * THREADS;

/// Entries that a list has room for: those of a chunk, whatever it is, behind as many.
const CAPACITY: usize = 2 * CHUNK;

/// Columns of a lane, 32 apart, and of a warp.
const COLUMNS: usize = 4;
const SPAN: usize = COLUMNS * 32;

/// Values that are on their way to a lane for each of its columns.
const BATCH: usize = 4;

/// No line: more than any has.
const NONE: u64 = u64::MAX;

/// Blocks that ptxas makes room for on a multiprocessor, by the bytes of an element: with two of f64 it keeps registers in memory.
const fn blocks(bytes: usize) -> usize {
    if bytes == 4 { 2 } else { 1 }
}

/// Who adds to which lines and columns.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct InOrderPlan {
    /// Shares of lines, a power of two: line `i` is of share `i` modulo their number.
    pub shares: u32,
    /// Warps of a team, a power of two up to those of a block.
    pub team: u32,
    /// Blocks that have the teams of a share, each with columns of its own.
    pub across: u32,
}

impl InOrderPlan {
    /// For so many lines and columns, of which there are some, on a device of so many multiprocessors.
    pub fn new(lines: usize, columns: usize, multiprocessors: u32) -> Self {
        let spans = columns.div_ceil(SPAN);
        let team = spans.next_power_of_two().min(WARPS);
        let blocks = 2 * multiprocessors.max(1) as usize;
        let across = spans.div_ceil(team).min(blocks);
        let shares = lines.div_ceil(WARPS / team).min(blocks / across);
        Self {
            shares: 1 << shares.ilog2(),
            team: team as u32,
            across: across as u32,
        }
    }

    /// Blocks of the kernel.
    pub fn blocks(&self) -> u32 {
        self.shares * self.across
    }

    fn is_valid(&self) -> bool {
        self.shares.is_power_of_two() && self.team.is_power_of_two() && self.team as usize <= WARPS && self.across > 0
    }
}

/// Lines of a block: line `i` of the share is line `i << shift | number` of all.
#[derive(Clone, Copy)]
struct Share {
    shift: u32,
    number: u32,
}

/// The indices of a share, each of them an entry: its line of the share, and behind that its number since the list began.
#[derive(Clone, Copy)]
struct List {
    entries: Shared<u64>,
    /// How many.
    count: Shared<u32>,
}

impl List {
    /// Makes it empty. For all threads of the block, as everything here; the entries have been read.
    #[inline(always)]
    fn clear(&self) {
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            self.count.set(0, 0);
        }
        thread::sync_threads();
    }

    /// Adds those of a chunk, wherever there is room, and says how many there are. The chunk's first is index `at` of `of` indices, and
    /// its number since the list began is `first`.
    ///
    /// # Panics
    ///
    /// If an index is not less than `n`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn append(&self, indices: &[u64; ITEMS], [at, of]: [usize; 2], n: usize, first: usize, share: Share) -> u32 {
        let (mut ballots, mut count) = ([0u32; ITEMS], 0);
        unroll!(8, k => {
            let is_index = number(k) < of - at;
            if is_index && indices[k] >= n as u64 {
                out_of_bounds(indices[k], (at + number(k)) as u64, n);
            }
            let is_own = is_index && indices[k] as u32 & ((1 << share.shift) - 1) == share.number;
            ballots[k] = warp::ballot(warp::FULL_MASK, is_own);
            count += ballots[k].count_ones();
        });
        let lane = thread::thread_idx_x() % 32;
        let mut place = 0;
        if lane == 0 && count > 0 {
            // SAFETY: there is one.
            place = unsafe { self.count.atomic_unchecked(0) }.fetch_add(count);
        }
        place = warp::shuffle(warp::FULL_MASK, place, 0);
        let places: [u32; ITEMS] = cuda_std::array::from_fn(|k| {
            let own = place + (ballots[k] & ((1 << lane) - 1)).count_ones();
            place += ballots[k].count_ones();
            own
        });
        unroll!(8, k => {
            if ballots[k] >> lane & 1 == 1 {
                let entry = indices[k] >> share.shift << 32 | (first + number(k)) as u64;
                // SAFETY: a list that is not sorted has room for all of a chunk.
                unsafe { self.entries.set_unchecked(places[k] as usize, entry) };
            }
        });
        thread::sync_threads();
        // SAFETY: there is one.
        let listed = unsafe { self.count.get_unchecked(0) };
        thread::sync_threads();
        listed
    }

    /// Sorts so many entries, all that there are, by a bitonic network.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sort(&self, listed: u32) {
        let (thread, size) = (thread::thread_idx_x(), listed.next_power_of_two());
        // SAFETY (of all): below a power of two that is at most the capacity.
        let get = |i: u32| unsafe { self.entries.get_unchecked(i as usize) };
        let set = |i: u32, entry| unsafe { self.entries.set_unchecked(i as usize, entry) };
        let mut i = listed + thread;
        while i < size {
            set(i, u64::MAX);
            i += THREADS as u32;
        }
        thread::sync_threads();
        let mut run = 2;
        while run <= size {
            let mut apart = run / 2;
            while apart > 0 {
                let mut pair = thread;
                while pair < size / 2 {
                    let low = (pair & !(apart - 1)) << 1 | pair & (apart - 1);
                    let (a, b) = (get(low), get(low | apart));
                    if (a > b) == (low & run == 0) {
                        set(low, b);
                        set(low | apart, a);
                    }
                    pair += THREADS as u32;
                }
                thread::sync_threads();
                apart /= 2;
            }
            run *= 2;
        }
    }

    /// The line of an entry.
    ///
    /// # Safety
    ///
    /// There is the entry.
    #[inline(always)]
    unsafe fn line(&self, entry: u32) -> u32 {
        // SAFETY: the caller's promise.
        (unsafe { self.entries.get_unchecked(entry as usize) } >> 32) as u32
    }

    /// The first entry from `at` on that begins a line, of so many sorted ones, or how many there are. For all lanes of a warp.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn next_line(&self, mut at: u32, listed: u32) -> u32 {
        loop {
            let own = at + thread::thread_idx_x() % 32;
            // SAFETY (of both): asked before.
            let begins = own == 0 || own >= listed || unsafe { self.line(own) != self.line(own - 1) };
            let ballot = warp::ballot(warp::FULL_MASK, begins);
            if ballot != 0 {
                return (at + ballot.trailing_zeros()).min(listed);
            }
            at += 32;
        }
    }
}

/// Which of a chunk's indices is number `k` of this lane.
#[inline(always)]
fn number(k: usize) -> usize {
    let thread = thread::thread_idx_x() as usize;
    thread / 32 * OF_WARP + k * 32 + thread % 32
}

/// This lane's indices of the chunk from `first` on, 0 behind the last.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn load(indices: &[u64], first: usize) -> [u64; ITEMS] {
    cuda_std::array::from_fn(|k| {
        if number(k) < indices.len().saturating_sub(first) {
            // SAFETY: in bounds, as just asked; a single element is always aligned.
            let [index] = unsafe { indices.load_vec_unchecked(first + number(k)) };
            index
        } else {
            0
        }
    })
}

/// A lane's columns: where they are in the first line of the sums and of the values, if they are.
#[derive(Clone, Copy)]
struct Columns {
    of_sums: [usize; COLUMNS],
    of_values: [usize; COLUMNS],
    are: [bool; COLUMNS],
}

impl Columns {
    /// Those of a span, of arrays of (outer, `n`, `inner`) and (outer, `values`, `inner`) elements.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn of_span(span: usize, columns: usize, [n, values, inner]: [usize; 3]) -> Self {
        let mut of = Self {
            of_sums: [0; COLUMNS],
            of_values: [0; COLUMNS],
            are: [false; COLUMNS],
        };
        unroll!(COLUMNS; 4, i => {
            let column = span * SPAN + i * 32 + thread::thread_idx_x() as usize % 32;
            let (outer, within) = div_rem(column as u64, inner as u64);
            of.are[i] = column < columns;
            of.of_sums[i] = outer as usize * n * inner + within as usize;
            of.of_values[i] = outer as usize * values * inner + within as usize;
        });
        of
    }

    /// An element for each that is one.
    #[inline(always)]
    fn load<T: Pod>(&self, of: impl Fn(usize) -> T) -> [T; COLUMNS] {
        cuda_std::array::from_fn(|i| if self.are[i] { of(i) } else { T::zeroed() })
    }
}

/// Warps that add to the same lines, and how many such teams a block has.
struct Team {
    number: u32,
    teams: u32,
    share: Share,
    inner: usize,
    columns: Columns,
}

impl Team {
    /// Adds the values of the team's part of a sorted list, which are numbered from `first` on: whole lines.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn add<T: Pod + Add<Output = T>>(
        &self,
        list: &List,
        listed: u32,
        values: &[T],
        first: usize,
        out: SliceMut<'_, T>,
    ) {
        let part = |number| list.next_line(listed * number / self.teams, listed);
        let (mut at, end) = (part(self.number), part(self.number + 1));
        let (mut line, mut sums) = (NONE, [T::zeroed(); COLUMNS]);
        while at < end {
            let mut entries = [NONE; BATCH];
            let (mut before, mut added) = ([[T::zeroed(); COLUMNS]; BATCH], [[T::zeroed(); COLUMNS]; BATCH]);
            unroll!(4, k => {
                if at + (k as u32) < end {
                    // SAFETY: there is the entry.
                    entries[k] = unsafe { list.entries.get_unchecked(at as usize + k) };
                    let number = first + entries[k] as u32 as usize;
                    added[k] = self.columns.load(|i| {
                        // SAFETY: the number is that of an index, and of arrays of such sizes the column is one; a single element is
                        // always aligned.
                        let [value] = unsafe { values.load_vec_unchecked(self.columns.of_values[i] + number * self.inner) };
                        value
                    });
                    if k == 0 && entries[0] >> 32 != line || k > 0 && entries[k] >> 32 != entries[k.max(1) - 1] >> 32 {
                        // SAFETY: lines are less than `n`, and see above.
                        before[k] = self.columns.load(|i| unsafe { out.get_unchecked(self.place(i, entries[k] >> 32)) });
                    }
                }
            });
            unroll!(4, k => {
                if at + (k as u32) < end {
                    if entries[k] >> 32 != line {
                        self.store(line, &sums, out);
                        (line, sums) = (entries[k] >> 32, before[k]);
                    }
                    unroll!(COLUMNS; 4, i => { sums[i] = sums[i] + added[k][i]; });
                }
            });
            at += BATCH as u32;
        }
        self.store(line, &sums, out);
    }

    /// Where a column is in a line of the share.
    #[inline(always)]
    fn place(&self, column: usize, line: u64) -> usize {
        let line = line << self.share.shift | self.share.number as u64;
        self.columns.of_sums[column] + line as usize * self.inner
    }

    /// Writes a line, unless there is none.
    #[inline(always)]
    fn store<T: Pod>(&self, line: u64, sums: &[T; COLUMNS], out: SliceMut<'_, T>) {
        unroll!(COLUMNS; 4, i => {
            if line != NONE && self.columns.are[i] {
                // SAFETY: as for what was read.
                unsafe { out.set_vec_unchecked(self.place(i, line), [sums[i]]) };
            }
        });
    }
}

/// `out[o, indices[j], i] += values[o, j, i]`, for (outer, `n`, `inner`) elements of the output, one `j` after another. Blocks of
/// [`THREADS`] threads, as many as [`InOrderPlan::blocks`] says.
///
/// # Panics
///
/// If an index is not less than `n`, or the sizes are not those of the arrays.
#[kernel(T = [f32, f64], max_threads = THREADS, min_blocks = blocks(size_of::<T>()))]
pub fn scatter_add_in_order<T: Pod + Add<Output = T>>(
    values: &[T],
    indices: &[u64],
    n: usize,
    inner: usize,
    plan: InOrderPlan,
    out: SliceMut<'_, T>,
) {
    if inner == 0 || indices.is_empty() {
        return;
    }
    let (columns, rest) = div_rem(values.len() as u64, indices.len() as u64);
    let (outer, part) = div_rem(columns, inner as u64);
    let wanted = (outer as usize)
        .checked_mul(n)
        .and_then(|lines| lines.checked_mul(inner));
    assert!(
        rest == 0
            && part == 0
            && wanted == Some(out.len())
            && plan.is_valid()
            && n as u64 >> plan.shares.trailing_zeros() < 1 << 32
            && thread::block_dim_x() as usize == THREADS,
        "the arrays are not of one shape"
    );
    let list = List {
        entries: shared_array![u64; CAPACITY],
        count: shared_array![u32; 1],
    };
    let (columns, in_team) = (columns as usize, plan.team as usize);
    let share = Share {
        shift: plan.shares.trailing_zeros(),
        number: thread::block_idx_x() & (plan.shares - 1),
    };
    let block = thread::block_idx_x() >> share.shift;
    if block >= plan.across {
        return;
    }
    let warp = warp::uniform(thread::thread_idx_x() / 32);
    // The first of the block's spans.
    let mut span = block as usize * in_team;
    while span * SPAN < columns {
        let own = span + (warp & (plan.team - 1)) as usize;
        let team = Team {
            number: warp >> plan.team.trailing_zeros(),
            teams: WARPS as u32 >> plan.team.trailing_zeros(),
            share,
            inner,
            columns: Columns::of_span(own, columns, [n, indices.len(), inner]),
        };
        list.clear();
        // Where the list begins, and the next chunk, which is on its way.
        let (mut begin, mut first) = (0, 0);
        let mut next = load(indices, 0);
        while first < indices.len() {
            let chunk = next;
            next = load(indices, first + CHUNK);
            let listed = list.append(&chunk, [first, indices.len()], n, first - begin, share);
            first += CHUNK;
            let is_full = listed > (CAPACITY - CHUNK) as u32 || first - begin > u32::MAX as usize - CHUNK;
            if is_full || first >= indices.len() {
                list.sort(listed);
                team.add(&list, listed, values, begin, out);
                list.clear();
                begin = first;
                // Once more, so that no registers keep it meanwhile.
                next = load(indices, first);
            }
        }
        span += plan.across as usize * in_team;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_fill_the_device_and_no_more() {
        let plan = |lines, columns| InOrderPlan::new(lines, columns, 132);
        let of = |shares, team, across| InOrderPlan { shares, team, across };
        assert_eq!(plan(50_000, 1024), of(256, 8, 1));
        assert_eq!(plan(50_000, 1025), of(128, 8, 2));
        assert_eq!(plan(50_000, 128), of(256, 1, 1));
        // Each warp has a line.
        assert_eq!(plan(24, 1), of(2, 1, 1));
        assert_eq!(plan(1, 1 << 30), of(1, 8, 264));
        for (lines, columns) in [(1, 1), (3, 300), (1 << 40, 1 << 20)] {
            for multiprocessors in [0, 1, 2, 132] {
                let plan = InOrderPlan::new(lines, columns, multiprocessors);
                assert!(
                    plan.is_valid() && plan.blocks() <= 2 * multiprocessors.max(1),
                    "{plan:?}"
                );
            }
        }
    }
}
