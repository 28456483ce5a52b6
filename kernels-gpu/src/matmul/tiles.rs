// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tiles of the result a block computes.

use cuda_std::prelude::*;

/// The tiles of a batch of products, numbered. Blocks take them in turn: each every so many from its own number on.
#[derive(Clone, Copy)]
pub struct Tiles {
    /// Of all products.
    total: u32,
    /// Rows and columns of tiles of a product.
    pub extents: [u32; 2],
    /// Rows and columns of a tile.
    tile: [u32; 2],
    /// Rows of tiles that numbers go down before they go right, so that what neighbours read stays in the cache.
    group: u32,
}

/// A tile of the result: its product, and its first row and column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tile {
    /// The product's number.
    pub product: u32,
    /// The first row.
    pub row: u32,
    /// The first column.
    pub column: u32,
    /// The first row and column that are this tile's alone: those ahead of them a neighbour has as well, and stores.
    pub own: [u32; 2],
}

impl Tile {
    /// The tile, where none begins behind these: the last ones reach back, so that there are fewer lines beyond the matrix, of which a
    /// copy takes longer than of others.
    #[inline(always)]
    pub fn reach_back(self, [last_row, last_column]: [u32; 2]) -> Self {
        Self {
            row: self.row.min(last_row),
            column: self.column.min(last_column),
            own: [self.row, self.column],
            ..self
        }
    }

    /// Whether rows and columns that begin here are this tile's alone.
    #[inline(always)]
    pub fn owns(&self, row: u32, column: u32) -> bool {
        row >= self.own[0] && column >= self.own[1]
    }
}

impl Tiles {
    /// Those of `batch` products of that many rows and columns, in groups of so many rows of tiles.
    #[inline(always)]
    pub fn new(batch: u32, [m, n]: [u32; 2], tile: [u32; 2], group: u32) -> Self {
        let extents = [m.div_ceil(tile[0]), n.div_ceil(tile[1])];
        Self {
            total: batch * extents[0] * extents[1],
            extents,
            tile,
            group,
        }
    }

    /// How many there are.
    #[inline(always)]
    pub fn total(&self) -> u32 {
        self.total
    }

    /// This block's tiles.
    #[inline(always)]
    pub fn of_block(&self) -> OfBlock<'_> {
        self.every(thread::block_idx_x(), thread::grid_dim_x())
    }

    /// Tile `first`, and each so many from there.
    #[inline(always)]
    pub fn every(&self, first: u32, step: u32) -> OfBlock<'_> {
        OfBlock {
            tiles: self,
            number: first,
            step,
        }
    }

    /// Where tile `number` lies. Numbers go down a group of rows before they go right.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn tile(&self, number: u32) -> Tile {
        let [rows, columns] = self.extents;
        // A division takes longer than all else here, and the first tile's loads wait for it.
        let divide_if = |there_is_more: bool, a, b| if there_is_more { divide(a, b) } else { 0 };
        let product = divide_if(self.total > rows * columns, number, rows * columns);
        let number = number - product * rows * columns;
        let group = divide_if(rows > self.group, number, self.group * columns);
        let height = (rows - group * self.group).min(self.group);
        let within = number - group * self.group * columns;
        let column = divide(within, height);
        Tile {
            product,
            row: (group * self.group + within - column * height) * self.tile[0],
            column: column * self.tile[1],
            own: [0; 2],
        }
    }
}

/// The tiles of a block, in turn.
pub struct OfBlock<'a> {
    tiles: &'a Tiles,
    number: u32,
    step: u32,
}

impl Iterator for OfBlock<'_> {
    type Item = Tile;

    #[inline(always)]
    fn next(&mut self) -> Option<Tile> {
        if self.number >= self.tiles.total {
            return None;
        }
        let tile = self.tiles.tile(self.number);
        self.number += self.step;
        Some(tile)
    }
}

/// `a / b`, where `b` is not 0: there is a tile, so there are rows and columns. A check would leave a panic.
#[inline(always)]
fn divide(a: u32, b: u32) -> u32 {
    a.checked_div(b).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_that_reaches_back_owns_what_it_had() {
        let tile = Tile {
            product: 1,
            row: 256,
            column: 512,
            own: [0; 2],
        };
        assert_eq!(
            tile.reach_back([u32::MAX; 2]),
            Tile {
                own: [256, 512],
                ..tile
            }
        );
        let back = tile.reach_back([160, 448]);
        assert_eq!([back.row, back.column], [160, 448]);
        assert!(back.owns(256, 512) && !back.owns(240, 512) && !back.owns(256, 448));
        assert!(tile.owns(0, 0));
    }

    #[test]
    fn each_tile_has_one_number() {
        for (batch, m, n) in [
            (1, 1, 1),
            (1, 1280, 300),
            (3, 1000, 2000),
            (2, 64, 5000),
            (1, 2049, 257),
        ] {
            let tiles = Tiles::new(batch, [m, n], [128, 256], 8);
            let [rows, columns] = tiles.extents;
            assert_eq!((rows, columns), (m.div_ceil(128), n.div_ceil(256)));
            let mut found = [false; 256];
            for tile in (0..tiles.total).map(|number| tiles.tile(number)) {
                assert!(tile.product < batch && tile.row < m && tile.column < n, "{tile:?}");
                let place = (tile.product * rows + tile.row / 128) * columns + tile.column / 256;
                assert!(!core::mem::replace(&mut found[place as usize], true), "{tile:?}");
            }
            assert_eq!(found.iter().filter(|&&found| found).count(), tiles.total as usize);
        }
    }
}
