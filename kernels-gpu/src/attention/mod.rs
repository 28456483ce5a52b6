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
//! [`tiled`] is the kernel for any GPU, on ordinary cores; [`wgmma`] that for Hopper's tensor cores; [`decode`] that for few queries.

use cuda_std::prelude::*;

pub mod decode;
pub mod tiled;
pub mod wgmma;

/// The most queries, and the most keys, of a head.
pub const MAX_LENGTH: u32 = 1 << 30;

/// The most tiles of queries of a launch.
pub const MAX_TILES: u32 = i32::MAX as u32;

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
    /// Query `i` sees the keys up to number `i + reach`. With `keys`, all.
    pub reach: i32,
    /// Heads of the batch whose tiles are taken together, those with the most keys first: so many that their keys and values stay in
    /// the cache.
    pub group: u32,
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
    #[inline(always)]
    pub fn is_valid(&self, rows: u32) -> bool {
        let total = self
            .batch
            .checked_mul(self.heads)
            .and_then(|heads| heads.checked_mul(self.queries.div_ceil(rows)));
        total.is_some_and(|total| total <= MAX_TILES)
            && self.queries <= MAX_LENGTH
            && self.keys <= MAX_LENGTH
            && self.reach.unsigned_abs() <= MAX_LENGTH
            && self.sharing > 0
            && self.heads.checked_rem(self.sharing) == Some(0)
            && self.group > 0
            && self.group <= self.batch * self.heads
    }

    /// How many keys a query sees. It need not be one of the head.
    #[inline(always)]
    pub fn visible(&self, row: u32) -> u32 {
        let end = (row as i32 + 1).wrapping_add(self.reach);
        let end = if end < 0 { 0 } else { end as u32 };
        if end < self.keys { end } else { self.keys }
    }

    /// How many keys the queries of a tile see that begins there and has so many rows.
    #[inline(always)]
    pub fn visible_to_tile(&self, row: u32, rows: u32) -> u32 {
        let end = if self.queries - row < rows {
            self.queries
        } else {
            row + rows
        };
        self.visible(end - 1)
    }

    /// Tiles of so many queries.
    #[inline(always)]
    pub fn tiles(&self, rows: u32) -> u32 {
        self.batch * self.heads * self.queries.div_ceil(rows)
    }

    /// Tile `number` of those, if there is one.
    #[inline(always)]
    pub fn tile(&self, number: u32, rows: u32) -> Option<Tile> {
        let (heads, blocks) = (self.batch * self.heads, self.queries.div_ceil(rows));
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

    /// The head of keys and values that a head of queries has.
    #[inline(always)]
    pub fn key_head(&self, head: u32) -> u32 {
        divide(head, self.sharing)
    }
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
        reach: -100,
        group: 4,
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
        assert_eq!(
            [0, 99, 100, 101, 299, 400].map(|row| SHAPE.visible(row)),
            [0, 0, 1, 2, 200, 200]
        );
        assert_eq!(
            [(0, 128), (256, 128)].map(|(row, rows)| SHAPE.visible_to_tile(row, rows)),
            [28, 200]
        );
        let all = AttentionShape { reach: 200, ..SHAPE };
        assert_eq!([0, 299].map(|row| all.visible(row)), [200, 200]);
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
