// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gradient of what is added to scores: the gradients of the scores, `S' = P ∘ (G Vᵀ − δ)` ([`gradients`](super)), summed over the
//! axes along which the bias is repeated.
//!
//! A block has a tile of 64 queries and 64 keys of one of the bias's heads, and walks over the problems and heads that share it, in their
//! order, with the sums in registers. Over queries it sums those of a warp, over keys those of the tile, and leaves it there: a small
//! sum over tiles comes behind it. Where tiles are few, problems and heads are divided among blocks, and their sums are added behind, too.
//! Nobody adds to what another adds to, and how sums are divided hangs on the shape alone: the bits are the same each time.
//!
//! `4 d` operations for each pair of a query and a key in a tile in which a query sees a key. There are no sums of lines here, so that one
//! kernel does for all head dimensions.

use cuda_std::prelude::*;

use super::super::STAGES;
use super::*;
use crate::attention::divide;

/// Blocks among which the work is divided, if it can be: as many as a large device holds a few times.
const ENOUGH_BLOCKS: u32 = 1024;

/// Warps of a block: lines of a tile whose queries are summed.
const WARPS: u32 = THREADS as u32 / 32;

/// What the gradient of a bias is summed over, and by which blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct BiasPlan {
    /// The shape of the bias: that of the scores, with 1 for axes along which it is repeated.
    pub bias: [u32; 4],
    /// Parts of the problems and heads that share a head of the bias.
    pub parts: u32,
}

impl BiasPlan {
    /// For a bias of that shape, which has elements.
    pub fn new(shape: &AttentionShape, bias: [u32; 4]) -> Self {
        let plan = Self { bias, parts: 1 };
        let blocks = plan.blocks(shape).unwrap_or(MAX_TILES);
        let parts = divide(ENOUGH_BLOCKS, blocks).clamp(1, plan.sharing(shape));
        Self { parts, ..plan }
    }

    /// Tiles along queries and keys.
    #[inline(always)]
    fn tiles(shape: &AttentionShape) -> [u32; 2] {
        [shape.queries.div_ceil(ROWS as u32), shape.keys.div_ceil(KEYS as u32)]
    }

    /// Whether queries, and keys, are summed.
    #[inline(always)]
    pub fn is_over(&self, shape: &AttentionShape) -> [bool; 2] {
        [self.bias[2] != shape.queries, self.bias[3] != shape.keys]
    }

    /// The shape of what the kernel gives: parts, and the bias's problems and heads; lines of queries, or of each warp's queries; keys, or
    /// tiles of them.
    #[inline(always)]
    pub fn sums(&self, shape: &AttentionShape) -> [u32; 5] {
        let ([over_queries, over_keys], [of_queries, of_keys]) = (self.is_over(shape), Self::tiles(shape));
        let lines = if over_queries {
            WARPS * of_queries
        } else {
            shape.queries
        };
        let columns = if over_keys { of_keys } else { shape.keys };
        [self.parts, self.bias[0], self.bias[1], lines, columns]
    }

    /// Blocks of the kernel, if a grid has as many: one for each part, head of the bias and tile.
    #[inline(always)]
    pub fn blocks(&self, shape: &AttentionShape) -> Option<u32> {
        let [of_queries, of_keys] = Self::tiles(shape);
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
    fn fits(&self, shape: &AttentionShape, sums: usize) -> bool {
        let scores = [shape.batch, shape.heads, shape.queries, shape.keys];
        let is_of_scores = (0..4).all(|axis| self.bias[axis] == 1 || self.bias[axis] == scores[axis]);
        let elements = self
            .sums(shape)
            .iter()
            .try_fold(1, |product: usize, &n| product.checked_mul(n as usize));
        is_of_scores && self.parts > 0 && elements.is_some_and(|elements| elements <= sums)
    }
}

/// A block's place.
#[derive(Clone, Copy)]
struct Place {
    /// The first one of its pairs of a problem and a head, and the one behind the last.
    pairs: [u32; 2],
    /// The first problem and head among those that share the bias's head.
    first: [u32; 2],
    /// Heads of a problem among those.
    heads: u32,
    /// Which of all parts' heads of the bias it is.
    head: u32,
    /// Tiles ahead of its own, along queries and keys.
    tile: [u32; 2],
}

impl Place {
    /// That of block `number`, if there is one.
    #[inline(always)]
    fn of_block(number: u32, plan: &BiasPlan, shape: &AttentionShape) -> Option<Self> {
        if plan.blocks(shape).is_none_or(|blocks| number >= blocks) {
            return None;
        }
        let [of_queries, of_keys] = BiasPlan::tiles(shape);
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
    fn pair(&self, number: u32) -> [u32; 2] {
        let batch = divide(number, self.heads);
        [self.first[0] + batch, self.first[1] + number - batch * self.heads]
    }
}

/// The sums of the gradients of scores of [`attention`](super::super::attention()) over axes along which `bias` is repeated, of the shape
/// that [`BiasPlan::sums`] says, in C order. What it is given besides is as for [`attention_gradients`](attention_gradients()), and sequences are not packed.
///
/// The grid has one axis, with as many blocks as [`BiasPlan::blocks`] says. Where the operands do not lie within their arrays, there is no
/// bias, or the plan is none for the shape, nothing is written.
#[kernel(max_threads = THREADS, min_blocks = BLOCKS)]
pub fn attention_bias_gradient(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    grad: &[f32],
    log_sums: &[f32],
    deltas: &[f32],
    bias: &[f32],
    sequences: &[u32],
    out: SliceMut<'_, f32>,
    shape: AttentionShape,
    strides: GradientStrides,
    plan: BiasPlan,
    factor: f32,
) {
    // There are no other results, whose lengths would be asked.
    const NONE: usize = usize::MAX;
    if thread::block_dim_x() as usize != THREADS
        || !shape.is_valid(ROWS as u32)
        || !fits(&shape, &strides.attention, [q.len(), k.len(), v.len(), NONE])
        || !fit(
            &shape,
            strides.grad,
            [grad.len(), log_sums.len(), deltas.len(), NONE, NONE],
        )
        || bias.is_empty()
        || !fits_bias(&shape, &strides.attention, bias.len())
        || !shape.fits_sequences(sequences)
        || !plan.fits(&shape, out.len())
    {
        return;
    }
    let Some(place) = Place::of_block(thread::block_idx_x(), &plan, &shape) else {
        return;
    };
    let shared = shared_array![f32; STAGES];
    let (words, of_sequence) = (
        shared_array![u32; 5 * KeptOperand::<f32>::WORDS],
        shared_array![u32; KeptSequence::WORDS],
    );
    let (row, at) = (place.tile[0] * ROWS as u32, place.tile[1] * KEYS as u32);
    let mut sums: Scores = [[0.0; LANE_KEYS]; LANE_ROWS];
    let mut products = Products::new(shared);
    let mut pair = place.pairs[0];
    while pair < place.pairs[1] {
        let [batch, head] = place.pair(pair);
        pair += 1;
        // SAFETY: `fits_sequences`, as asked.
        let of_problem = unsafe { shape.sequence(sequences, Lines::Queries, batch, (row, ROWS as u32)) };
        let Some((sequence, _)) = of_problem else { continue };
        let [begin, end] = sequence.keys_of_tile(row, ROWS as u32);
        if at >= end || at + KEYS as u32 <= begin {
            continue;
        }
        // The one before has been read.
        thread::sync_threads();
        let mut block = Block {
            log_sums,
            deltas,
            shape,
            part: Part {
                of: Of::Queries,
                batch,
                head,
                row,
            },
            sequence: KeptSequence::new(of_sequence, sequence),
            factor,
            products,
        };
        let key_head = shape.key_head(head);
        let of = |elements, strides, head| Operand::<f32>::new(elements, strides, [batch, head], shape.dim);
        let operands = [
            of(q, strides.attention.q, head).of_queries(&sequence),
            of(grad, strides.grad, head).of_queries(&sequence),
            of(k, strides.attention.k, key_head).of_keys(&sequence),
            of(v, strides.attention.v, key_head).of_keys(&sequence),
            Operand::new(bias, strides.attention.bias, [batch, head], shape.keys).of_queries(&sequence),
        ];
        let [q, grad, k, v, added] = KeptOperand::keep(words, operands);
        let gradients = block.weights::<8>(([q, grad], [k, v]), Some(added), (head, at), false);
        products = block.products;
        unroll!(4, i => {
            unroll!(8, j => {
                sums[i][j] += gradients[i][j];
            });
        });
    }
    store(sums, out, &shape, &plan, &place);
}

/// Sums what is to be summed of a tile, and stores it.
#[inline(always)]
fn store(mut sums: Scores, out: SliceMut<'_, f32>, shape: &AttentionShape, plan: &BiasPlan, place: &Place) {
    let [over_queries, over_keys] = plan.is_over(shape);
    let [.., lines, columns] = plan.sums(shape).map(|n| n as usize);
    if over_queries {
        unroll!(8, j => {
            let sum = (sums[0][j] + sums[1][j]) + (sums[2][j] + sums[3][j]);
            sums[0][j] = with_lane(with_lane(sum, 8), 16);
        });
    }
    if over_keys {
        unroll!(4, i => {
            let mut sum = 0.0;
            unroll!(8, j => {
                sum += sums[i][j];
            });
            sums[i][0] = with_lane(with_lane(with_lane(sum, 1), 2), 4);
        });
    }
    let thread = thread::thread_idx_x();
    let head = place.head as usize * lines;
    unroll!(4, i => {
        let (line, is_own) = match over_queries {
            true => (place.tile[0] * WARPS + thread / 32, i == 0 && thread % 32 < 8),
            false => {
                let row = place.tile[0] * ROWS as u32 + Products::lane_row() + i as u32;
                (row, row < shape.queries)
            }
        };
        let at = (head + line as usize) * columns;
        if is_own && over_keys && thread.is_multiple_of(8) {
            // SAFETY: `BiasPlan::fits` found all lines in `out`; a single element is always aligned.
            unsafe { out.set_vec_unchecked(at + place.tile[1] as usize, [sums[i][0]]) };
        } else if is_own && !over_keys {
            let key = place.tile[1] as usize * KEYS;
            // SAFETY: as above: the rest of the line.
            unsafe { products::store(&out, (at + key, columns - key), &sums[i], Some(1.0)) };
        }
    });
}

/// The sum of the lane's number and that of the lane with another bit.
#[inline(always)]
fn with_lane(x: f32, bit: u32) -> f32 {
    x + warp::shuffle_xor(warp::FULL_MASK, x, bit)
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

    #[test]
    fn each_tile_of_each_head_is_of_one_block() {
        for bias in [[1, 1, 130, 70], [3, 1, 1, 70], [1, 4, 130, 1], [3, 4, 1, 1]] {
            for parts in [1, 2, 5, 12, 20] {
                let plan = BiasPlan { bias, parts };
                let mut found = [[[0; 6]; 4]; 3];
                let blocks = plan.blocks(&SHAPE).unwrap();
                for number in 0..blocks {
                    let place = Place::of_block(number, &plan, &SHAPE).unwrap();
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
                assert!(Place::of_block(blocks, &plan, &SHAPE).is_none());
            }
        }
    }

    #[test]
    fn plans_divide_what_is_shared_until_there_are_enough_blocks() {
        let parts = |bias| BiasPlan::new(&SHAPE, bias).parts;
        assert_eq!(parts([3, 4, 130, 70]), 1);
        assert_eq!(parts([1, 1, 130, 70]), 12);
        let many = AttentionShape { batch: 1000, ..SHAPE };
        // 24 tiles.
        assert_eq!(BiasPlan::new(&many, [1, 4, 130, 70]).parts, 42);
    }

    #[test]
    fn plans_of_other_shapes_do_not_fit() {
        let plan = BiasPlan {
            bias: [1, 4, 1, 70],
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
