// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attention: `softmax(scale · Q Kᵀ) V` for each head, without a matrix of scores in memory.
//!
//! The algorithm is FlashAttention's (T. Dao, D. Fu, S. Ermon, A. Rudra, C. Ré, "FlashAttention: Fast and Memory-Efficient
//! Exact Attention with IO-Awareness", 2022; T. Dao, "FlashAttention-2", 2023), which rests on the softmax in one pass (M.
//! Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018). A block has some queries of a head, and walks
//! over the keys, tile by tile. Of each query it keeps the greatest score `m` so far, the sum `l` of `2^(t − m)`, where `t` is the
//! score times `log₂ e`, and the sum of as many times the values. Where a tile has a greater score, both sums are multiplied by
//! `2^(m − m')` first. In the end the one is divided by the other, and the logarithm of the sum of exponentials is `(m + log₂ l)
//! ln 2`.
//!
//! [`tiled`] is the kernel for any GPU, on ordinary cores; [`mma`] that for the tensor cores of Ampere and later; [`wgmma`] that for
//! Hopper's; [`decode`] that for few queries.

use cuda_std::prelude::*;

pub mod bias_plan;
pub mod decode;
pub mod mma;
pub mod tiled;
pub mod wgmma;

/// The most queries, and the most keys, of a head.
pub const MAX_LENGTH: u32 = 1 << 30;

/// The most tiles of queries of a launch.
pub const MAX_TILES: u32 = i32::MAX as u32;

/// The most sequences that are packed.
pub const MAX_PACKED: u32 = 1 << 20;

/// The shape of an attention, which keys a query sees, and in which order tiles of queries are taken.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct AttentionShape {
    /// Independent problems.
    pub batch: u32,
    /// Heads of queries of each.
    pub heads: u32,
    /// How many of them, one after another, share a head of keys and values.
    pub sharing: u32,
    /// Queries of a head.
    pub queries: u32,
    /// Keys of a head, and values.
    pub keys: u32,
    /// Elements of a query, a key, a value.
    pub dim: u32,
    /// Query `i` sees the keys from number `i + from` to `i + reach`. With `−queries` and `keys`, all.
    pub from: i32,
    /// See there.
    pub reach: i32,
    /// Heads of the batch whose tiles are taken together, those with the most keys first: so many that their keys and values stay in
    /// the cache.
    pub group: u32,
    /// How many sequences lie one after another along the axes of queries and keys, each of which sees itself alone. 0 if one problem's are
    /// one sequence.
    pub packed: u32,
}

/// Queries and keys that belong together, and which of the keys each query sees. Numbers of both begin at 0 with the sequence's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The line of its first query, and how many it has.
    pub first_query: u32,
    /// See there.
    pub queries: u32,
    /// The line of its first key, and how many it has.
    pub first_key: u32,
    /// See there.
    pub keys: u32,
    /// As of [`AttentionShape`].
    pub from: i32,
    /// As of [`AttentionShape`].
    pub reach: i32,
}

/// Of what the lines of a tile are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Queries.
    Queries,
    /// Keys and values.
    Keys,
}

impl Sequence {
    /// The same, which is the same in all lanes of a warp: so the compiler knows it.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn uniform(self) -> Self {
        let of = |word: i32| warp::uniform(word as u32) as i32;
        Self {
            first_query: warp::uniform(self.first_query),
            queries: warp::uniform(self.queries),
            first_key: warp::uniform(self.first_key),
            keys: warp::uniform(self.keys),
            from: of(self.from),
            reach: of(self.reach),
        }
    }

    /// The keys that a query sees end before this one. It need not be one of the sequence.
    #[inline(always)]
    pub fn end(&self, query: u32) -> u32 {
        let end = (query as i32 + 1).wrapping_add(self.reach);
        let end = if end < 0 { 0 } else { end as u32 };
        if end < self.keys { end } else { self.keys }
    }

    /// The first key that a query sees, if it sees one.
    #[inline(always)]
    pub fn begin(&self, query: u32) -> u32 {
        let begin = (query as i32).wrapping_add(self.from);
        if begin < 0 { 0 } else { begin as u32 }
    }

    /// The keys that a tile of so many queries sees, the first of which is `row`: from the first to before the second, which is no less.
    #[inline(always)]
    pub fn keys_of_tile(&self, row: u32, rows: u32) -> [u32; 2] {
        let last = if self.queries - row < rows {
            self.queries
        } else {
            row + rows
        };
        let (begin, end) = (self.begin(row), self.end(last - 1));
        [if begin < end { begin } else { end }, end]
    }

    /// The queries that see one of a tile of so many keys, the first of which is `row`: from the first to before the second, which is no
    /// less. Keys behind those of the sequence are seen by none.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn queries_of_tile(&self, row: u32, rows: u32) -> [u32; 2] {
        if row >= self.keys {
            return [0, 0];
        }
        let begin = (row as i32).wrapping_sub(self.reach);
        let begin = if begin < 0 { 0 } else { begin as u32 };
        let end = ((row + rows) as i32).wrapping_sub(self.from);
        let end = if end < 0 { 0 } else { end as u32 };
        let end = if end < self.queries { end } else { self.queries };
        [if begin < end { begin } else { end }, end]
    }
}

/// A tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The problem of the batch.
    pub batch: u32,
    /// Its head of queries.
    pub head: u32,
    /// The first query.
    pub row: u32,
}

impl AttentionShape {
    /// Whether no number that is computed from these wraps around, with tiles of so many queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn is_valid(&self, rows: u32) -> bool {
        let tiles = || {
            self.batch
                .checked_mul(self.heads)
                .and_then(|heads| heads.checked_mul(self.blocks(self.queries, rows)))
        };
        self.queries <= MAX_LENGTH
            && self.keys <= MAX_LENGTH
            && self.from.unsigned_abs() <= MAX_LENGTH
            && self.reach.unsigned_abs() <= MAX_LENGTH
            && self.packed <= MAX_PACKED
            && (self.packed == 0 || self.batch == 1)
            && tiles().is_some_and(|total| total <= MAX_TILES)
            && self.sharing > 0
            && self.heads.checked_rem(self.sharing) == Some(0)
            && self.group > 0
            && self.group <= self.batch * self.heads
    }

    /// All queries and keys of a head, as one sequence.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn whole(&self) -> Sequence {
        Sequence {
            first_query: 0,
            queries: self.queries,
            first_key: 0,
            keys: self.keys,
            from: self.from,
            reach: self.reach,
        }
    }

    /// Whether `sequences` are none, or as many words as [`sequence`](Self::sequence) reads.
    #[inline(always)]
    pub fn fits_sequences(&self, sequences: &[u32]) -> bool {
        match self.packed {
            0 => sequences.is_empty() || sequences.len() >= self.batch as usize,
            packed => sequences.len() / 2 > packed as usize,
        }
    }

    /// The sequence of a tile of so many lines, and the tile's first line in it, where `row` is the first one of the tile among those of its
    /// head. There may be none, of packed ones, which have more tiles than they fill.
    ///
    /// Without `sequences` it is the whole head. Of packed ones they are the lines at which their queries begin, and where the last ends,
    /// then those of keys; else how many keys each problem has. What is not in order is of no sequence, or of several: nothing beyond the
    /// head is.
    ///
    /// # Safety
    ///
    /// [`fits_sequences`](Self::fits_sequences).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn sequence(
        &self,
        sequences: &[u32],
        of: Lines,
        batch: u32,
        (row, rows): (u32, u32),
    ) -> Option<(Sequence, u32)> {
        if sequences.is_empty() {
            return Some((self.whole(), row));
        }
        // SAFETY (of all): the caller's promise.
        let at = |i: u32, most: u32| {
            let [line] = unsafe { sequences.load_vec_unchecked::<1>(i as usize) };
            if line < most { line } else { most }
        };
        if self.packed == 0 {
            let keys = at(batch, self.keys);
            return Some((self.part([0, self.queries], [0, keys]), row));
        }
        let (first, lines) = match of {
            Lines::Queries => (0, self.queries),
            Lines::Keys => (self.packed + 1, self.keys),
        };
        // Sequence `i` has tiles from number `start / rows + i` on: the next one's first is beyond its last.
        let tile = divide(row, rows);
        let first_tile = |i: u32| divide(at(first + i, lines), rows) + i;
        let (mut number, mut end) = (0, self.packed);
        while end - number > 1 {
            let middle = number + (end - number) / 2;
            if first_tile(middle) <= tile {
                number = middle;
            } else {
                end = middle;
            }
        }
        let row = tile.checked_sub(first_tile(number))?.checked_mul(rows)?;
        let ends = |first: u32, lines: u32| [at(first + number, lines), at(first + number + 1, lines)];
        let sequence = self.part(ends(0, self.queries), ends(self.packed + 1, self.keys));
        let lines = match of {
            Lines::Queries => sequence.queries,
            Lines::Keys => sequence.keys,
        };
        (row < lines).then_some((sequence, row))
    }

    /// The sequence of these queries and keys, from the first to before the second, whose last query and key are at the same position.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn part(&self, queries: [u32; 2], keys: [u32; 2]) -> Sequence {
        let len = |[first, end]: [u32; 2]| end.saturating_sub(first);
        let (queries_len, keys_len) = (len(queries), len(keys));
        let ahead = |queries: u32, keys: u32| (keys as i32).wrapping_sub(queries as i32);
        let moved = ahead(queries_len, keys_len).wrapping_sub(ahead(self.queries, self.keys));
        Sequence {
            first_query: queries[0],
            queries: queries_len,
            first_key: keys[0],
            keys: keys_len,
            from: self.from.wrapping_add(moved),
            reach: self.reach.wrapping_add(moved),
        }
    }

    /// Whether each query sees all keys, if no sequences are packed and all keys are there.
    pub fn each_query_sees_all_keys(&self) -> bool {
        i64::from(self.reach) + 1 >= i64::from(self.keys) && i64::from(self.queries) + i64::from(self.from) <= 1
    }

    /// Tiles of so many of a head's lines: where those of packed sequences begin is known on the device.
    #[inline(always)]
    pub fn blocks(&self, lines: u32, rows: u32) -> u32 {
        match self.packed {
            0 => lines.div_ceil(rows),
            packed => divide(lines, rows) + packed,
        }
    }

    /// Tiles of so many queries.
    #[inline(always)]
    pub fn tiles(&self, rows: u32) -> u32 {
        self.batch * self.heads * self.blocks(self.queries, rows)
    }

    /// Tile `number` of those, if there is one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn tile(&self, number: u32, rows: u32) -> Option<Tile> {
        self.tile_of(number, rows, self.blocks(self.queries, rows))
    }

    /// As [`tile`](Self::tile), where it is known of how many [`blocks`](Self::blocks) of a head's queries.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn tile_of(&self, number: u32, rows: u32, blocks: u32) -> Option<Tile> {
        let heads = self.batch * self.heads;
        if number >= heads * blocks {
            return None;
        }
        let of_group = self.group * blocks;
        let group = divide(number, of_group);
        let (first, within) = (group * self.group, number - group * of_group);
        let height = if heads - first < self.group {
            heads - first
        } else {
            self.group
        };
        let block = divide(within, height);
        let head = first + within - block * height;
        let batch = divide(head, self.heads);
        Some(Tile {
            batch,
            head: head - batch * self.heads,
            row: (blocks - 1 - block) * rows,
        })
    }

    /// The [sequence](Self::sequence) of a tile of so many queries, and the tile with its first query in that, if there is one.
    ///
    /// # Safety
    ///
    /// [`fits_sequences`](Self::fits_sequences).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub unsafe fn sequence_of_tile(&self, sequences: &[u32], tile: Tile, rows: u32) -> Option<(Sequence, Tile)> {
        // SAFETY: the caller's promise.
        let (sequence, row) = unsafe { self.sequence(sequences, Lines::Queries, tile.batch, (tile.row, rows))? };
        Some((sequence, Tile { row, ..tile }))
    }

    /// The shape in which keys take the place of queries: for the order of their tiles, of which those of [`group`](Self::group) heads of keys are
    /// taken together.
    #[inline(always)]
    pub fn of_keys(&self) -> Self {
        Self {
            heads: self.key_head(self.heads),
            sharing: 1,
            queries: self.keys,
            ..*self
        }
    }

    /// The head of keys and values that a head of queries has.
    #[inline(always)]
    pub fn key_head(&self, head: u32) -> u32 {
        divide(head, self.sharing)
    }
}

/// What is subtracted from exponents whose greatest is `max`: without a key yet, or with scores of −∞ alone, nothing, as ∞ − ∞ is no number.
#[inline(always)]
fn base(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// `a / b`, where `b` is not 0, since there is a tile. A check would leave a panic.
#[inline(always)]
fn divide(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: AttentionShape = AttentionShape {
        batch: 2,
        heads: 6,
        sharing: 3,
        queries: 300,
        keys: 200,
        dim: 64,
        from: -300,
        reach: -100,
        group: 4,
        packed: 0,
    };

    #[test]
    fn each_tile_has_one_number_and_long_ones_come_first_in_a_group() {
        for group in [1, 4, 5, 12] {
            let shape = AttentionShape { group, ..SHAPE };
            assert!(shape.is_valid(128));
            let mut found = [false; 36];
            let mut previous: Option<(u32, u32)> = None;
            for number in 0..shape.tiles(128) {
                let tile = shape.tile(number, 128).unwrap();
                assert!(
                    tile.batch < 2 && tile.head < 6 && [0, 128, 256].contains(&tile.row),
                    "{tile:?}"
                );
                let head = tile.batch * 6 + tile.head;
                let place = head * 3 + tile.row / 128;
                assert!(!core::mem::replace(&mut found[place as usize], true), "{tile:?}");
                if let Some((of_group, row)) = previous {
                    assert!(
                        of_group < head / group || (of_group == head / group && row >= tile.row),
                        "{tile:?}"
                    );
                }
                previous = Some((head / group, tile.row));
            }
            assert!(found.iter().all(|&found| found));
            assert_eq!(shape.tile(36, 128), None);
        }
    }

    #[test]
    fn what_queries_see() {
        let causal = SHAPE.whole();
        assert_eq!(
            [0, 99, 100, 101, 299, 400].map(|row| causal.end(row)),
            [0, 0, 1, 2, 200, 200]
        );
        let of_tiles = |sequence: Sequence| [0, 256].map(|row| sequence.keys_of_tile(row, 128));
        assert_eq!(of_tiles(causal), [[0, 28], [0, 200]]);
        let all = AttentionShape { reach: 200, ..SHAPE }.whole();
        assert_eq!([0, 299].map(|row| all.end(row)), [200, 200]);
        let window = AttentionShape { from: -110, ..SHAPE }.whole();
        assert_eq!([0, 110, 111, 299].map(|row| window.begin(row)), [0, 0, 1, 189]);
        assert_eq!(of_tiles(window), [[0, 28], [146, 200]]);
        // Key 0 is seen by queries 100 to 110, key 63 by those up to 173.
        assert_eq!(window.queries_of_tile(0, 64), [100, 174]);
        assert_eq!(window.queries_of_tile(192, 64), [292, 300]);
        assert_eq!(window.queries_of_tile(200, 64), [0, 0]);
    }

    #[test]
    fn queries_that_see_all_keys() {
        for (queries, keys, window, all) in [
            (5, 5, [5, 5], true),
            (5, 5, [4, 4], true),
            (5, 5, [5, 3], false),
            (5, 5, [3, 5], false),
            (2, 9, [9, 1], true),
            (2, 9, [9, 0], false),
            (9, 2, [1, 8], true),
            (9, 2, [0, 8], false),
        ] {
            let ahead = keys as i32 - queries as i32;
            let [left, right] = window;
            let shape = AttentionShape {
                queries,
                keys,
                from: ahead - left,
                reach: ahead + right,
                ..SHAPE
            };
            let sequence = shape.whole();
            let sees_all = |query| sequence.begin(query) == 0 && sequence.end(query) == keys;
            assert_eq!((0..queries).all(sees_all), all, "{shape:?}");
            assert_eq!(shape.each_query_sees_all_keys(), all, "{shape:?}");
        }
    }

    #[test]
    fn each_line_of_packed_sequences_has_one_tile() {
        let starts = [[0, 0, 3, 64, 128, 128, 130], [0, 5, 5, 70, 133, 134, 200]];
        let shape = AttentionShape {
            batch: 1,
            queries: 130,
            from: -130,
            reach: 70,
            packed: 6,
            ..SHAPE
        };
        let words = starts.concat();
        assert!(shape.is_valid(64) && shape.fits_sequences(&words) && !shape.fits_sequences(&words[1..]));
        for (of, lines, starts) in [(Lines::Queries, 130, starts[0]), (Lines::Keys, 200, starts[1])] {
            let mut found = [0; 200];
            for tile in 0..shape.blocks(lines, 64) {
                // SAFETY: as just asked.
                let Some((sequence, row)) = (unsafe { shape.sequence(&words, of, 0, (tile * 64, 64)) }) else {
                    continue;
                };
                let (first, len) = match of {
                    Lines::Queries => (sequence.first_query, sequence.queries),
                    Lines::Keys => (sequence.first_key, sequence.keys),
                };
                assert!(starts.contains(&first) && starts.contains(&(first + len)) && row.is_multiple_of(64));
                for line in row..core::cmp::min(row + 64, len) {
                    found[(first + line) as usize] += 1;
                }
                // The last query is at the position of the last key.
                assert_eq!(
                    sequence.reach - shape.reach,
                    sequence.keys as i32 - sequence.queries as i32 - 70
                );
            }
            assert!(found[..lines as usize].iter().all(|&found| found == 1), "{found:?}");
        }
    }

    /// What no host would say: what is read is within the head.
    #[test]
    fn sequences_out_of_order_are_within_the_head() {
        let shape = AttentionShape {
            batch: 1,
            packed: 3,
            ..SHAPE
        };
        let words = [70, 3, u32::MAX, 9, 1 << 31, 0, 500, 500];
        for tile in 0..20 {
            for of in [Lines::Queries, Lines::Keys] {
                // SAFETY: there are as many words.
                if let Some((sequence, _)) = unsafe { shape.sequence(&words, of, 0, (tile * 64, 64)) } {
                    assert!(sequence.first_query + sequence.queries <= 300, "{sequence:?}");
                    assert!(sequence.first_key + sequence.keys <= 200, "{sequence:?}");
                }
            }
        }
        let lengths = AttentionShape { packed: 0, ..shape };
        // SAFETY: as above.
        let (sequence, row) = unsafe { lengths.sequence(&[u32::MAX], Lines::Queries, 0, (64, 64)) }.unwrap();
        assert_eq!((sequence, row), (lengths.whole(), 64));
    }

    #[test]
    fn sizes_that_wrap_around_are_not_valid() {
        let wrong = [
            AttentionShape {
                batch: 1 << 20,
                heads: 1 << 12,
                ..SHAPE
            },
            AttentionShape {
                queries: u32::MAX,
                ..SHAPE
            },
            AttentionShape {
                keys: MAX_LENGTH + 1,
                ..SHAPE
            },
            AttentionShape {
                reach: i32::MIN,
                ..SHAPE
            },
            AttentionShape {
                from: i32::MIN,
                ..SHAPE
            },
            AttentionShape { packed: 1, ..SHAPE },
            AttentionShape {
                batch: 1,
                packed: MAX_PACKED + 1,
                ..SHAPE
            },
            AttentionShape { sharing: 4, ..SHAPE },
            AttentionShape { sharing: 0, ..SHAPE },
            AttentionShape { group: 0, ..SHAPE },
            AttentionShape { group: 13, ..SHAPE },
        ];
        for shape in wrong {
            assert!(!shape.is_valid(128), "{shape:?}");
        }
    }
}
