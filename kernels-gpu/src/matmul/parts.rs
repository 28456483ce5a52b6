// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which tiles a block computes, and which steps along k of them.

use super::tiles::{Tile, Tiles};

/// Steps along k of a tile that a block computes one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) tile: Tile,
    /// The first step: if it is not 0, the block with the number before has computed those ahead of it.
    pub(super) from: u32,
    /// The step behind the last.
    pub(super) to: u32,
    /// Whether the tile's last step is among them.
    pub(super) is_last: bool,
}

/// The parts of a block, in turn: whole tiles, then its share of the tiles that are cut. Shares are one after another along
/// these tiles' steps, and a block goes through its own from the end: the beginning of a tile, whose sums another block
/// continues, comes first, the end of one that another block began comes last.
pub(super) struct Parts {
    tiles: Tiles,
    /// The number of the next whole tile, and how many there are.
    number: u32,
    whole: u32,
    blocks: u32,
    /// Steps of a tile.
    steps: u32,
    /// Those of a whole tile that the block has.
    of_whole: [u32; 2],
    /// What is left of the share, in steps of all tiles that are cut.
    start: u32,
    end: u32,
}

impl Parts {
    /// Those of block `block` of `blocks`, where there are several along y those of one part of k of each tile. Of the tiles,
    /// which have so many steps, the first `whole` are not cut; of the others, a block has `share` steps.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub(super) fn new(
        tiles: Tiles,
        steps: u32,
        [whole, share]: [u32; 2],
        [block, part]: [u32; 2],
        [blocks, parts]: [u32; 2],
    ) -> Self {
        let cut = (tiles.total() - whole) * steps;
        Self {
            tiles,
            number: block,
            whole,
            blocks,
            steps,
            of_whole: match part + 1 == parts {
                true => [part * share, steps],
                false => [part * share, part * share + share],
            },
            start: (block * share).min(cut),
            end: (block * share + share).min(cut),
        }
    }
}

impl Iterator for Parts {
    type Item = Part;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn next(&mut self) -> Option<Part> {
        let (number, from, to) = if self.number < self.whole {
            let number = self.number;
            self.number += self.blocks;
            (number, self.of_whole[0], self.of_whole[1])
        } else if self.start < self.end {
            // There are steps, so that the division is one; a check would leave a panic.
            let cut = (self.end - 1).checked_div(self.steps).unwrap_or(0);
            let first = cut * self.steps;
            let from = self.start.max(first);
            let part = (self.whole + cut, from - first, self.end - first);
            self.end = from;
            part
        } else {
            return None;
        };
        Some(Part {
            tile: self.tiles.tile(number),
            from,
            to,
            is_last: to == self.steps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each step of each tile is in one part. Blocks begin with what they hand over, and end with what was handed to them.
    #[test]
    fn parts_make_up_the_tiles() {
        for (count, k, blocks, cut) in [
            (1, 1, 1, 0),
            (5, 40, 2, 0),
            (5, 40, 2, 3),
            (3, 160, 2, 3),
            (144, 1536, 132, 144),
            (256, 100, 132, 256),
            (300, 2048, 132, 168),
            (133, 16, 132, 133),
        ] {
            let (whole, steps) = (count - cut, u32::div_ceil(k, 16));
            let share = (cut * steps).div_ceil(blocks);
            let mut next = [0; 300];
            // The step at which the block ahead has cut a tile, and the tile.
            let mut handed = None;
            for block in 0..blocks {
                let tiles = Tiles::new(1, [count * 128, 128], [128, 128], 8);
                let parts = Parts::new(tiles, steps, [whole, share], [block, 0], [blocks, 1]);
                let mut wants = None;
                let mut leaves = None;
                for (i, part) in parts.enumerate() {
                    let tile = part.tile.row as usize / 128;
                    assert!(wants.is_none(), "what waits for another block comes last");
                    assert_eq!(part.is_last, part.to == steps);
                    assert!(part.from < part.to && part.to <= steps);
                    if part.from > 0 {
                        wants = Some((tile, part.from));
                    }
                    if !part.is_last {
                        assert!(leaves.is_none() && (whole > 0 || i == 0));
                        leaves = Some((tile, part.to));
                    }
                    assert_eq!(next[tile], part.from, "tile {tile} of {count}, block {block}");
                    next[tile] = part.to;
                }
                assert_eq!(wants, handed, "block {block}, {count} tiles");
                handed = leaves;
            }
            assert_eq!(handed, None);
            assert!(next[..count as usize].iter().all(|&next| next == steps));
        }
    }
}
