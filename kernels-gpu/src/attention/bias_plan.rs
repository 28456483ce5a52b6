// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the gradient of what is added to scores is summed over the axes along which the bias is repeated: which block has what of it, for
//! all kernels of it.
//!
//! A block has a tile of queries and keys of one of the bias's heads, and walks over the problems and heads that share it, in their
//! order, with the sums in registers. Over queries it sums those of a warp, over keys those of the tile, and leaves it there: a small
//! sum over tiles comes behind it. Where tiles are few, problems and heads are divided among blocks, and their sums are added behind, too.
//! Nobody adds to what another adds to, and how sums are divided hangs on the shape alone: the bits are the same each time.

use cuda_std::prelude::*;

use super::{AttentionShape, MAX_TILES, divide};

/// Sums of all blocks among which the work is divided, if it can be: a large device holds about so many.
const ENOUGH_SUMS: u32 = 1 << 21;

/// Queries of a warp: where queries are summed, there is a line for so many.
pub const WARP_QUERIES: u32 = 16;

/// What the gradient of a bias is summed over, and by which blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct BiasPlan {
    /// The shape of the bias: that of the scores, with 1 for axes along which it is repeated.
    pub bias: [u32; 4],
    /// Queries and keys of a block's tile: a multiple of [`WARP_QUERIES`], and a positive number.
    pub tile: [u32; 2],
    /// Parts of the problems and heads that share a head of the bias.
    pub parts: u32,
}

impl BiasPlan {
    /// For a bias of that shape, which has elements, in tiles of so many queries and keys.
    pub fn new(shape: &AttentionShape, bias: [u32; 4], tile: [u32; 2]) -> Self {
        let plan = Self { bias, tile, parts: 1 };
        let blocks = plan.blocks(shape).unwrap_or(MAX_TILES);
        let parts = divide(divide(ENOUGH_SUMS, tile[0] * tile[1]), blocks).clamp(1, plan.sharing(shape));
        Self { parts, ..plan }
    }

    /// Tiles along queries and keys.
    #[inline(always)]
    fn tiles(&self, shape: &AttentionShape) -> [u32; 2] {
        let of = |lines: u32, side: u32| divide(lines, side) + u32::from(!lines.is_multiple_of(side));
        [of(shape.queries, self.tile[0]), of(shape.keys, self.tile[1])]
    }

    /// Whether queries, and keys, are summed.
    #[inline(always)]
    pub fn is_over(&self, shape: &AttentionShape) -> [bool; 2] {
        [self.bias[2] != shape.queries, self.bias[3] != shape.keys]
    }

    /// The shape of what the kernel gives: parts, and the bias's problems and heads; lines of queries, or of each warp's queries; keys, or
    /// tiles of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn sums(&self, shape: &AttentionShape) -> [u32; 5] {
        let ([over_queries, over_keys], [of_queries, of_keys]) = (self.is_over(shape), self.tiles(shape));
        let lines = if over_queries {
            self.tile[0] / WARP_QUERIES * of_queries
        } else {
            shape.queries
        };
        let columns = if over_keys { of_keys } else { shape.keys };
        [self.parts, self.bias[0], self.bias[1], lines, columns]
    }

    /// Blocks of the kernel, if a grid has as many: one for each part, head of the bias and tile.
    #[inline(always)]
    pub fn blocks(&self, shape: &AttentionShape) -> Option<u32> {
        let [of_queries, of_keys] = self.tiles(shape);
        let lengths = [self.bias[0], self.bias[1], of_queries, of_keys];
        let blocks = lengths
            .iter()
            .try_fold(self.parts, |product: u32, &n| product.checked_mul(n))?;
        (blocks <= MAX_TILES).then_some(blocks)
    }

    /// Pairs of a problem and a head that share a head of the bias.
    #[inline(always)]
    fn sharing(&self, shape: &AttentionShape) -> u32 {
        divide(shape.batch, self.bias[0]) * divide(shape.heads, self.bias[1])
    }

    /// Whether it is one for scores of that shape, and the sums have so many elements.
    #[inline(always)]
    pub fn fits(&self, shape: &AttentionShape, sums: usize) -> bool {
        let scores = [shape.batch, shape.heads, shape.queries, shape.keys];
        let is_of_scores = (0..4).all(|axis| self.bias[axis] == 1 || self.bias[axis] == scores[axis]);
        let elements = self
            .sums(shape)
            .iter()
            .try_fold(1, |product: usize, &n| product.checked_mul(n as usize));
        is_of_scores && self.parts > 0 && elements.is_some_and(|elements| elements <= sums)
    }
}

/// What a block has of a bias.
#[derive(Clone, Copy)]
pub struct BiasTile {
    /// The first one of its pairs of a problem and a head, and the one behind the last.
    pub pairs: [u32; 2],
    /// The first problem and head among those that share the bias's head.
    pub first: [u32; 2],
    /// Heads of a problem among those.
    heads: u32,
    /// Which of all parts' heads of the bias it is.
    pub head: u32,
    /// Tiles ahead of its own, along queries and keys.
    pub tile: [u32; 2],
}

impl BiasTile {
    /// That of block `number`, if there is one.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    pub fn of_block(number: u32, plan: &BiasPlan, shape: &AttentionShape) -> Option<Self> {
        if plan.blocks(shape).is_none_or(|blocks| number >= blocks) {
            return None;
        }
        let [of_queries, of_keys] = plan.tiles(shape);
        let (line, of_key) = (divide(number, of_keys), number % of_keys.max(1));
        let (head, of_query) = (divide(line, of_queries), line % of_queries.max(1));
        let heads = plan.bias[0] * plan.bias[1];
        let (part, of_bias) = (divide(head, heads), head % heads.max(1));
        let sharing = plan.sharing(shape) as u64;
        let pair = |part: u32| (sharing * part as u64).checked_div(plan.parts as u64).unwrap_or(0) as u32;
        Some(Self {
            pairs: [pair(part), pair(part + 1)],
            first: [divide(of_bias, plan.bias[1]), of_bias % plan.bias[1].max(1)],
            heads: divide(shape.heads, plan.bias[1]),
            head,
            tile: [of_query, of_key],
        })
    }

    /// The problem and the head of a pair.
    #[inline(always)]
    pub fn pair(&self, number: u32) -> [u32; 2] {
        let batch = divide(number, self.heads);
        [self.first[0] + batch, self.first[1] + number - batch * self.heads]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: AttentionShape = AttentionShape {
        batch: 3,
        heads: 4,
        sharing: 2,
        queries: 130,
        keys: 70,
        dim: 8,
        from: -130,
        reach: 70,
        group: 1,
        packed: 0,
    };

    const TILE: [u32; 2] = [64, 64];

    #[test]
    fn each_tile_of_each_head_is_of_one_block() {
        for bias in [[1, 1, 130, 70], [3, 1, 1, 70], [1, 4, 130, 1], [3, 4, 1, 1]] {
            for parts in [1, 2, 5, 12, 20] {
                let plan = BiasPlan {
                    bias,
                    tile: TILE,
                    parts,
                };
                let mut found = [[[0; 6]; 4]; 3];
                let blocks = plan.blocks(&SHAPE).unwrap();
                for number in 0..blocks {
                    let place = BiasTile::of_block(number, &plan, &SHAPE).unwrap();
                    assert!(place.head < parts * bias[0] * bias[1]);
                    for pair in place.pairs[0]..place.pairs[1] {
                        let [batch, head] = place.pair(pair);
                        let of_bias = batch % bias[0] * bias[1] + head % bias[1];
                        assert_eq!(place.head % (bias[0] * bias[1]), of_bias);
                        let tile = place.tile[0] * 2 + place.tile[1];
                        found[batch as usize][head as usize][tile as usize] += 1;
                    }
                }
                assert!(
                    found.as_flattened().as_flattened().iter().all(|&found| found == 1),
                    "{plan:?}"
                );
                assert!(BiasTile::of_block(blocks, &plan, &SHAPE).is_none());
            }
        }
    }

    #[test]
    fn plans_divide_what_is_shared_until_there_are_enough_blocks() {
        let parts = |bias| BiasPlan::new(&SHAPE, bias, TILE).parts;
        assert_eq!(parts([3, 4, 130, 70]), 1);
        assert_eq!(parts([1, 1, 130, 70]), 12);
        let many = AttentionShape { batch: 1000, ..SHAPE };
        // 24 tiles.
        assert_eq!(BiasPlan::new(&many, [1, 4, 130, 70], TILE).parts, 21);
    }

    #[test]
    fn plans_of_other_shapes_do_not_fit() {
        let plan = BiasPlan {
            bias: [1, 4, 1, 70],
            tile: TILE,
            parts: 2,
        };
        // Of each part and head, the sums of four warps in each of three tiles.
        assert_eq!(plan.sums(&SHAPE), [2, 1, 4, 12, 70]);
        assert!(plan.fits(&SHAPE, 6720) && !plan.fits(&SHAPE, 6719));
        for wrong in [
            BiasPlan { parts: 0, ..plan },
            BiasPlan {
                bias: [2, 4, 1, 70],
                ..plan
            },
            BiasPlan {
                bias: [1, 4, 0, 70],
                ..plan
            },
        ] {
            assert!(!wrong.fits(&SHAPE, usize::MAX), "{wrong:?}");
        }
    }
}
