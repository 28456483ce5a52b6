// SPDX-License-Identifier: MIT OR Apache-2.0
//! Look-back where a tile has several values: one for each of a few columns that lie side by side.
//!
//! The states of a tile lie side by side. The lanes of a warp are as many groups as fit, a lane of a group being a column,
//! and each group looks at several tiles in a row, the last one at the nearest. A lane combines what it sees, and the
//! groups are combined by shuffles.

use bytemuck::Pod;
use cuda_std::prelude::*;

use super::{AGGREGATE, INVALID, PAUSE, PREFIX, PREFIX_EVERY, States};

/// The lanes of a warp as groups, a lane for each of a few columns, at most 32. What lanes behind the last whole group
/// have is nobody's, though they have the number of a column, too.
///
/// Invariant, on which loads without checks rely: `column` is less than `count`, and `groups` is at least 1. Only
/// [`new`](Self::new) makes such values, and nothing changes them.
#[derive(Clone, Copy)]
pub struct Columns {
    count: u32,
    groups: u32,
    column: u32,
    group: u32,
}

impl Columns {
    /// So many columns; of none or of more than 32, one or 32.
    #[inline(always)]
    pub fn new(count: u32) -> Self {
        let count = count.clamp(1, warp::WARP_SIZE);
        Self {
            count,
            groups: warp::WARP_SIZE / count,
            column: warp::lane_id() % count,
            group: warp::lane_id() / count,
        }
    }

    /// How many columns there are: 1 to 32.
    #[inline(always)]
    pub fn count(self) -> u32 {
        self.count
    }

    /// The whole groups of a warp, at least 1.
    #[inline(always)]
    pub fn groups(self) -> u32 {
        self.groups
    }

    /// This lane's column, less than [`count`](Self::count).
    #[inline(always)]
    pub fn column(self) -> u32 {
        self.column
    }

    /// This lane's group; of lanes behind the last whole one, [`groups`](Self::groups).
    #[inline(always)]
    pub fn group(self) -> u32 {
        self.group
    }

    /// The lanes of whole groups.
    #[inline(always)]
    pub fn lanes(self) -> u32 {
        self.groups * self.count
    }

    /// Scans values of this lane, one of each of `U` rows of groups, by column, each row for itself and then from one to
    /// the next: all of the column up to each, combined, and all of them.
    ///
    /// `combine` must be associative, up to rounding; it need not be commutative. Cost: `(1 + ⌈log2(groups)⌉) U`
    /// shuffles of a value.
    ///
    /// # Convergence
    ///
    /// All lanes of the warp reach the same call.
    ///
    /// # Examples
    ///
    /// Sums of three columns from the first row on, of 20 rows of them:
    ///
    /// ```
    /// use cuda_block::lookback::Columns;
    /// use cuda_std::prelude::*;
    ///
    /// #[kernel(max_threads = 32)]
    /// pub fn column_sums(x: &[u32], out: SliceMut<'_, u32>) {
    ///     let columns = Columns::new(3);
    ///     let lane = warp::lane_id() as usize;
    ///     // Lanes 30 and 31 have no column.
    ///     let at = |u: usize| if lane < 30 { x[30 * u + lane] } else { 0 };
    ///     let (sums, _) = columns.scan([at(0), at(1)], 0, |a, b| a + b);
    ///     if lane < 30 {
    ///         out.set(lane, sums[0]);
    ///         out.set(30 + lane, sums[1]);
    ///     }
    /// }
    /// # let (x, mut out) = (vec![1u32; 60], vec![0u32; 60]);
    /// # cuda_std::launch::on_simulator(1, 32, &mut out, |out| column_sums(&x, out));
    /// assert!((0..60).all(|i| out[i] as usize == i / 3 + 1));
    /// ```
    #[inline(always)]
    #[track_caller]
    pub fn scan<A: Pod, const U: usize>(
        self,
        mut values: [A; U],
        identity: A,
        combine: impl Fn(A, A) -> A + Copy,
    ) -> ([A; U], A) {
        let mut distance = self.count;
        while distance < warp::WARP_SIZE {
            for u in 0..U {
                let below = warp::shuffle_up(warp::FULL_MASK, values[u], distance);
                if warp::lane_id() >= distance {
                    values[u] = combine(below, values[u]);
                }
            }
            distance *= 2;
        }
        let mut carry = identity;
        for u in 0..U {
            let row = self.last(values[u]);
            values[u] = combine(carry, values[u]);
            carry = combine(carry, row);
        }
        (values, carry)
    }

    /// The value of this lane's column in the last group.
    #[inline(always)]
    fn last<A: Pod>(self, value: A) -> A {
        warp::shuffle(warp::FULL_MASK, value, self.lanes() - self.count + self.column)
    }

    /// The bits of the lanes that have this lane's column.
    #[inline(always)]
    fn mask(self) -> u32 {
        let mut mask = 1;
        for _ in 1..self.groups {
            mask = mask << self.count | 1;
        }
        mask << self.column
    }

    /// What the lanes of each column have seen, together, in all of the column's lanes: as `States::window`.
    #[inline(always)]
    fn window<A: Pod>(
        self,
        (flag, value): (u32, A),
        mask: u32,
        identity: A,
        combine: impl Fn(A, A) -> A + Copy,
    ) -> (u32, A) {
        let invalid = warp::ballot(warp::FULL_MASK, flag == INVALID) & mask;
        let prefixes = warp::ballot(warp::FULL_MASK, flag == PREFIX) & mask;
        let nearest = if prefixes == 0 { 0 } else { prefixes.ilog2() };
        let is_counted = warp::lane_id() >= nearest;
        let counted = if is_counted { value } else { identity };
        let (_, total) = self.scan([counted], identity, combine);
        let flag = match prefixes {
            _ if invalid >> nearest != 0 => INVALID,
            0 => AGGREGATE,
            _ => PREFIX,
        };
        (flag, total)
    }
}

impl<A: Pod> States<'_, A> {
    /// What stands before `tile` in this lane's column; as [`prefix`](Self::prefix), of tiles whose states are
    /// [`published`](Self::publish) as those of number `tile · count + column`, with the `total` of the lane's column.
    /// Each group looks at `L` tiles at once, at least one: 0 does not compile.
    ///
    /// # Convergence
    ///
    /// All lanes of one warp call it.
    #[inline(always)]
    #[track_caller]
    pub fn prefix_of_columns<const L: usize>(
        self,
        (tile, in_row): (usize, usize),
        columns: Columns,
        total: A,
        identity: A,
        combine: impl Fn(A, A) -> A + Copy,
    ) -> A {
        const { assert!(L > 0, "a group looks at one tile at least") };
        let count = columns.count as usize;
        if in_row == 0 || in_row > tile || !self.have(tile.saturating_mul(count)) {
            return identity;
        }
        let (first, mask) = (tile - in_row, columns.mask());
        let (mut prefix, mut end, mut flag) = (identity, tile, AGGREGATE);
        while warp::any(warp::FULL_MASK, flag != PREFIX) {
            // SAFETY: the words have room for `count` states of each tile before `tile`, as just asked; `first` is one of
            // those, and `end` is `tile` at first, and only falls.
            let looked = unsafe { self.above::<L>(end, first, columns, identity, combine) };
            let (seen, value) = columns.window(looked, mask, identity, combine);
            // All columns go on together: a tile's states are stored by one access, so one of them is seldom there alone.
            if warp::any(warp::FULL_MASK, flag != PREFIX && seen == INVALID) {
                thread::nanosleep(PAUSE);
                continue;
            }
            if flag != PREFIX {
                prefix = combine(value, prefix);
                flag = seen;
            }
            end = end.saturating_sub(columns.groups as usize * L);
        }
        let every = Ord::min(PREFIX_EVERY, 4 * columns.groups as usize);
        if in_row % every == every - 1 && warp::lane_id() < columns.count {
            self.publish(tile * count + columns.column as usize, PREFIX, combine(prefix, total));
        }
        prefix
    }

    /// What the states of this lane's column say together of the `L` tiles that its group looks at, those before `end`
    /// being the last group's: from the nearest prefix on, combined; an aggregate, where there is none; or that one of those
    /// is still invalid. Before the row's first tile, all is known, and nothing.
    ///
    /// # Safety
    ///
    /// The words have room for the states of all columns, `columns.count` of them, of each tile before `end` and of tile
    /// `first`.
    #[inline(always)]
    unsafe fn above<const L: usize>(
        self,
        end: usize,
        first: usize,
        columns: Columns,
        identity: A,
        combine: impl Fn(A, A) -> A,
    ) -> (u32, A) {
        // Lanes that have no column look where the last group does.
        let groups_back = Ord::max(columns.groups.saturating_sub(columns.group), 1) as usize;
        let looked: [(u32, A); L] = cuda_std::array::from_fn(|l| {
            let (shifted, earliest) = (end + l, first + groups_back * L);
            let tile = Ord::max(shifted, earliest) - groups_back * L;
            // SAFETY: of tile `first`, or of one before `end`, since `l` is less than `L` and `groups_back` at least 1; and
            // of one of its columns, since `column` is less than `count`, the type's invariant.
            let known = unsafe { self.value_unchecked(tile * columns.count as usize + columns.column as usize) };
            if shifted >= earliest { known } else { (PREFIX, identity) }
        });
        let (mut flag, mut acc) = (AGGREGATE, identity);
        for l in 0..L {
            let (seen, value) = looked[l];
            if seen == PREFIX {
                (flag, acc) = (PREFIX, value);
            } else if seen == INVALID {
                flag = INVALID;
            } else {
                acc = combine(acc, value);
            }
        }
        (flag, acc)
    }
}
