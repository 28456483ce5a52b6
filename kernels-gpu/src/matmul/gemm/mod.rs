// SPDX-License-Identifier: MIT OR Apache-2.0
//! Matrix times matrix: `C ← f(α A B + β C + bias) + residual`, where `A` is m × k, `B` is k × n, and `C` is m × n in C
//! order.
//!
//! The tiled product of CUTLASS ("CUTLASS: Fast linear algebra in CUDA C++", NVIDIA 2017) without tensor cores. A block
//! computes one tile of `C`, by `Y` × `X` threads, of `Y TM` × `X TN` elements: it walks along k in steps of `BK`, brings the tiles of
//! `A` and `B` to shared memory, both with the axis k outermost, and each thread accumulates `TM` × `TN` elements in
//! registers, for which it reads only `TM + TN` elements of shared memory a step, 16 bytes at a time. Shared memory is
//! double buffered: the loads of the next tiles are in flight while the present ones are multiplied, and one barrier a
//! step suffices. Lines of shared memory are 16 bytes longer than the tile, so that operands which lie along k are
//! transposed on their way in with fewer bank conflicts.
//!
//! Work `2 m n k`; elements moved from global memory `m n k (1 / (Y TM) + 1 / (X TN))` and `m n` (twice that if β is
//! not 0). Every element of `C` is one chain of fused multiply-adds in the order of k, whatever the tile: the same bits
//! on every device. Error of an element of `A B`: at most `k u Σ|a||b|` to first order in the unit roundoff `u` (N.
//! Higham, "Accuracy and Stability of Numerical Algorithms", 3.5).

pub(crate) mod load;
pub(crate) mod thread_tile;

use cuda_std::hint;
use cuda_std::prelude::*;

use self::load::Loader;
use self::thread_tile::Position;
use super::epilogue::{Activate, Epilogue, EpiloguePlan};
use super::stored::Stored;
use super::{MulAdd, span, unroll};

/// Rows of tiles that blocks of neighbouring numbers share: they walk down such a group before they go right, so that
/// the tiles of `A` and `B` which run at the same time are few, and stay in the L2 cache.
const GROUP: u32 = 8;

/// The size of a block's tile, for numbers of type `T`.
pub trait Size<T>: 'static {
    /// Rows and columns of a block's tile.
    const BLOCK_TILE: [usize; 2];

    /// Threads of a block.
    const THREADS: usize;

    /// Blocks that a multiprocessor holds at a time at least: what that leaves a thread of registers.
    const BLOCKS: usize;

    /// Whether the kernel has the epilogue, and takes parts of k. That of large tiles has not: it would take registers from the loop
    /// along k, which then spills.
    const FINISHES: bool;

    /// Computes this block's tile.
    #[doc(hidden)]
    fn run<A: Layout, B: Layout>(product: &Arguments<'_, T>);
}

/// 128 × 128 elements, or 128 × 64 of 8 bytes: the fewest bytes moved, for matrices with a tile for every multiprocessor.
#[derive(Clone, Copy, Debug)]
pub struct Large;

/// 64 × 64 elements.
#[derive(Clone, Copy, Debug)]
pub struct Medium;

/// 32 × 32 elements: the most blocks.
#[derive(Clone, Copy, Debug)]
pub struct Small;

/// `size: type, bytes, threads Y × X of a block and blocks of a multiprocessor, a thread's tile TM × TN, step BK along k, elements V of
/// 16 bytes and F of a thread's wide access to shared memory, elements NA and NB of the tiles of A and B that a thread loads`
macro_rules! sizes {
    ($($size:ty: $type:ty, $bytes:literal, $y:literal x $x:literal $blocks:literal, $tm:literal x $tn:literal, $bk:literal, $v:literal $f:literal, $na:literal $nb:literal;)*) => {$(
        impl Size<$type> for $size {
            const BLOCK_TILE: [usize; 2] = [$y * $tm, $x * $tn];
            const THREADS: usize = $y * $x;
            const BLOCKS: usize = $blocks;
            const FINISHES: bool = finishes($tm, $tn, $bytes);

            #[inline(always)]
            fn run<A: Layout, B: Layout>(product: &Arguments<'_, $type>) {
                const {
                    assert!(size_of::<$type>() == $bytes && $v * $bytes == 16);
                    assert!($tm * $bk == $na * $x && $tn * $bk == $nb * $y && $x % 8 == 0 && $y % 4 == 0);
                    assert!($na % $v == 0 && $nb % $v == 0 && $tm % $f == 0 && $tn % $f == 0);
                }
                let tiles = shared_array![u64; storage([$y * $tm, $x * $tn], $bk, $bytes)].cast();
                product.run::<A, B, $y, $x, $tm, $tn, { $y * $tm }, { $x * $tn }, $bk, $v, $f, $na, $nb, { $y * $x }>(tiles);
            }
        }
    )*};
}

sizes! {
    Large: f32, 4, 16 x 16 2, 8 x 8, 8, 4 4, 4 4;
    Large: i32, 4, 16 x 16 2, 8 x 8, 8, 4 4, 4 4;
    Large: f64, 8, 16 x 16 2, 8 x 4, 8, 2 2, 4 2;
    Medium: f32, 4, 8 x 16 4, 8 x 4, 16, 4 4, 8 8;
    Medium: i32, 4, 8 x 16 4, 8 x 4, 16, 4 4, 8 8;
    Medium: f64, 8, 16 x 16 2, 4 x 4, 8, 2 2, 2 2;
    Small: f32, 4, 8 x 16 4, 4 x 2, 32, 4 2, 8 8;
    Small: i32, 4, 8 x 16 4, 4 x 2, 32, 4 2, 8 8;
    Small: f64, 8, 16 x 16 2, 2 x 2, 16, 2 2, 2 2;
}

/// Along which axis of an operand neighbouring threads load. Either is right for any strides; the one whose stride is 1
/// is fast.
pub trait Layout: 'static {
    /// Whether it is k, the axis that is summed over.
    const ALONG_K: bool;
}

/// Along k: `A` in C order, or `B` in Fortran order.
#[derive(Clone, Copy, Debug)]
pub struct KMajor;

/// Along the rows of `A` or the columns of `B`: `A` in Fortran order, or `B` in C order.
#[derive(Clone, Copy, Debug)]
pub struct MnMajor;

impl Layout for KMajor {
    const ALONG_K: bool = true;
}

impl Layout for MnMajor {
    const ALONG_K: bool = false;
}

/// The shape of a product, and where the elements of its operands lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, KernelParam)]
pub struct GemmShape {
    /// Products in the batch.
    pub batch: usize,
    /// The first product of the launch: a batch can be larger than a grid along z.
    pub first: usize,
    /// Rows of `A` and `C`.
    pub m: usize,
    /// Columns of `B` and `C`.
    pub n: usize,
    /// Columns of `A` and rows of `B`.
    pub k: usize,
    /// `A`'s strides in elements: from product to product of the batch, along m, along k.
    pub a: [usize; 3],
    /// `B`'s strides in elements: from product to product of the batch, along n, along k.
    pub b: [usize; 3],
    /// 0, or columns of `A` and rows of `B` of the one product whose parts along k the batch is: each has the next `k`, the last one
    /// what is left.
    pub whole: usize,
    /// From row to row of a product's result, in elements: `n`, or more where it is sums that nothing follows, so that each row begins
    /// at a multiple of 16 bytes. What is behind the columns may be written.
    pub pitch: usize,
}

impl GemmShape {
    /// Whether the operands lie within arrays of these lengths, and the result fills no more than `c` elements.
    #[inline(always)]
    fn fits(&self, a: usize, b: usize, c: usize) -> bool {
        let within = |span: Option<usize>, len| span.is_some_and(|span| span <= len);
        let elements = self
            .batch
            .checked_mul(self.m)
            .and_then(|rows| rows.checked_mul(self.pitch));
        let (mut batch, mut k) = (self.batch, self.k);
        if self.whole > 0 {
            let follow = |strides: [usize; 3]| k.checked_mul(strides[2]) == Some(strides[0]);
            if !follow(self.a) || !follow(self.b) || batch.checked_mul(k).is_none() {
                return false;
            }
            (batch, k) = (1, self.whole);
        }
        self.pitch >= self.n
            && within(span([batch, self.m, k], self.a), a)
            && within(span([batch, self.n, k], self.b), b)
            && within(elements, c)
    }

    /// Columns of `A` that a product has.
    #[inline(always)]
    fn k_of(&self, product: usize) -> usize {
        match self.whole {
            0 => self.k,
            // No more than batch × k, which `fits` found to be a number.
            whole => Ord::min(self.k, whole.saturating_sub(product * self.k)),
        }
    }
}

/// `C ← f(alpha · A B + beta · C + bias) + residual` for each product of the batch, with the function of the plan; where
/// `beta` is 0, `C` is not read. Without [`Size::FINISHES`], `C ← alpha · A B + beta · C`.
///
/// `c` has the products one after another, each in C order. The grid has in x as many blocks, of [`Size::THREADS`]
/// threads, as `C` has tiles of [`Size::BLOCK_TILE`] elements, and in z as many as it has products, from `first` on. Where the
/// operands and addends do not lie within their arrays, nothing is written.
#[kernel(
    T = [f32, f64, i32],
    S = [Large, Medium, Small],
    A = [KMajor, MnMajor],
    B = [KMajor, MnMajor],
    max_threads = <S as Size<T>>::THREADS,
    min_blocks = <S as Size<T>>::BLOCKS,
)]
pub fn gemm<T: MulAdd + Activate, S: Size<T>, A: Layout, B: Layout>(
    a: &[T],
    b: &[T],
    c: SliceMut<'_, T>,
    shape: GemmShape,
    alpha: T,
    beta: T,
    plan: EpiloguePlan,
    bias: &[T],
    residual: &[T],
) {
    if thread::block_dim_x() as usize != S::THREADS
        || (!S::FINISHES && shape.whole > 0)
        || !shape.fits(a.len(), b.len(), c.len())
        || !plan.fits([shape.batch, shape.m, shape.n], bias.len(), residual.len())
    {
        return;
    }
    let product = Arguments {
        a,
        b,
        shape,
        result: Stored {
            c,
            alpha,
            beta,
            // SAFETY: as just asked.
            epilogue: unsafe { Epilogue::new(plan, bias, residual) },
        },
    };
    S::run::<A, B>(&product);
}

/// [`Size::FINISHES`], of tiles of which a thread has so many rows and columns of so many bytes: its sums take 32 registers at most.
const fn finishes(tm: usize, tn: usize, bytes: usize) -> bool {
    tm * tn * bytes <= 4 * 32
}

/// The shared memory for two tiles of each operand, of so many lines, in units of 8 bytes: 16 bytes lie between a line and the next.
pub(crate) const fn storage([of_a, of_b]: [usize; 2], bk: usize, bytes: usize) -> usize {
    2 * bk * ((of_a + of_b) * bytes + 32) / 8
}

/// The arguments of the kernel, which fit together.
pub struct Arguments<'a, T> {
    a: &'a [T],
    b: &'a [T],
    shape: GemmShape,
    result: Stored<'a, T>,
}

impl<T: MulAdd + Activate> Arguments<'_, T> {
    /// Computes this block's tile. One product for a block: in a loop over several, the compiler would keep the
    /// addresses of all of the thread's elements of `C` in registers from one to the next.
    ///
    /// `Y` × `X`: the block's threads; `TM` × `TN`: the thread's tile; `WM` × `WN`: the block's; `BK`: the step along k; `V`: elements
    /// of 16 bytes; `F`: elements of a wide access to shared memory; `NA`, `NB`: elements of the tiles of `A` and `B` that a thread
    /// loads; `THREADS`: all of them.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn run<
        A: Layout,
        B: Layout,
        const Y: usize,
        const X: usize,
        const TM: usize,
        const TN: usize,
        const WM: usize,
        const WN: usize,
        const BK: usize,
        const V: usize,
        const F: usize,
        const NA: usize,
        const NB: usize,
        const THREADS: usize,
    >(
        &self,
        tiles: Shared<T>,
    ) {
        let shape = &self.shape;
        let (tile_m, tile_n) = tile_of_block(shape.m.div_ceil(WM) as u32, shape.n.div_ceil(WN) as u32);
        let (row, column) = (tile_m as usize * WM, tile_n as usize * WN);
        let product = shape.first.saturating_add(thread::block_idx_z() as usize);
        if product < shape.batch && row < shape.m && column < shape.n {
            let sums = self.sums::<A, B, Y, X, TM, TN, WM, WN, BK, V, F, NA, NB, THREADS>(tiles, product, row, column);
            self.store::<Y, X, TM, TN, F>(&sums, product, row, column);
            if const { finishes(TM, TN, size_of::<T>()) } && !self.result.epilogue.is_identity() {
                self.finish::<Y, X, TM, TN, F>(product, row, column);
            }
        }
    }

    /// This thread's part of the block's tile of `A B`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn sums<
        A: Layout,
        B: Layout,
        const Y: usize,
        const X: usize,
        const TM: usize,
        const TN: usize,
        const WM: usize,
        const WN: usize,
        const BK: usize,
        const V: usize,
        const F: usize,
        const NA: usize,
        const NB: usize,
        const THREADS: usize,
    >(
        &self,
        tiles: Shared<T>,
        product: usize,
        row: usize,
        column: usize,
    ) -> [[T; TN]; TM] {
        let (pitch_a, pitch_b) = (WM + V, WN + V);
        let (of_b, stage) = ((BK * pitch_a) as u32, (BK * (pitch_a + pitch_b)) as u32);
        let GemmShape { m, n, k, .. } = self.shape;
        let k = if const { finishes(TM, TN, size_of::<T>()) } {
            self.shape.k_of(product)
        } else {
            k
        };
        let mut from_a = Loader::new::<A, T, WM, BK, V>(self.a, self.shape.a, [product, row], [m, k]);
        let mut from_b = Loader::new::<B, T, WN, BK, V>(self.b, self.shape.b, [product, column], [n, k]);
        let position = Position::of_thread::<X>();

        let mut sums = [[T::ZERO; TN]; TM];
        let mut a = from_a.load::<A, T, WM, BK, V, NA, THREADS>(self.a, k);
        let mut b = from_b.load::<B, T, WN, BK, V, NB, THREADS>(self.b, k);
        let (mut left, mut to) = (k, 0);
        while left > 0 {
            from_a.store::<A, T, WM, BK, V, NA, THREADS>(tiles, to, a);
            from_b.store::<B, T, WN, BK, V, NB, THREADS>(tiles, to + of_b, b);
            thread::sync_threads();
            if left > BK {
                a = from_a.load::<A, T, WM, BK, V, NA, THREADS>(self.a, left - BK);
                b = from_b.load::<B, T, WN, BK, V, NB, THREADS>(self.b, left - BK);
            }
            let (at_a, at_b) = (to as usize + position.y * F, (to + of_b) as usize + position.x * F);
            if left >= BK {
                for d in 0..BK {
                    thread_tile::step::<T, TM, TN, F, Y, X, true>(
                        tiles,
                        at_a + d * pitch_a,
                        at_b + d * pitch_b,
                        &mut sums,
                    );
                }
                left -= BK;
            } else {
                for d in 0..left {
                    thread_tile::step::<T, TM, TN, F, Y, X, true>(
                        tiles,
                        at_a + d * pitch_a,
                        at_b + d * pitch_b,
                        &mut sums,
                    );
                }
                left = 0;
            }
            // Two buffers and one barrier a step: who writes into a buffer has passed the barrier behind its last
            // reads.
            to = stage - to;
        }
        sums
    }

    /// Puts this thread's part into `C`.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn store<const Y: usize, const X: usize, const TM: usize, const TN: usize, const F: usize>(
        &self,
        sums: &[[T; TN]; TM],
        product: usize,
        row: usize,
        column: usize,
    ) {
        let position = Position::of_thread::<X>();
        let (m, n) = (self.shape.m, self.shape.n);
        let pitch = if finishes(TM, TN, size_of::<T>()) {
            self.shape.pitch
        } else {
            n
        };
        let wide = pitch.is_multiple_of(F) && self.result.c.is_vec_aligned::<F>();
        unroll!(TM, i => {
            let row = row + position.line::<F, Y>(position.y, i);
            if row < m {
                let line = (product * m + row) * pitch;
                unroll!(TN / F; 4, chunk => {
                    let first = chunk * F;
                    let column = column + position.line::<F, X>(position.x, first);
                    let values: [T; F] = cuda_std::array::from_fn(|j| sums[i][first + j]);
                    if wide && column < n {
                        // SAFETY: the row and the column are in C, which `fits` found to lie in `c`; as the pitch, which is
                        // no less than n, is a multiple of F, so are `line` and the column, and the whole vector is in the row.
                        unsafe { self.result.put(line + column, values) };
                    } else {
                        unroll!(F; 4, j => {
                            if column + j < n {
                                // SAFETY: the row and the column are in C; a vector of one is aligned like its element.
                                unsafe { self.result.put(line + column + j, [values[j]]) };
                            }
                        });
                    }
                });
            }
        });
    }

    /// Finishes what [`store`](Self::store) stored.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    fn finish<const Y: usize, const X: usize, const TM: usize, const TN: usize, const F: usize>(
        &self,
        product: usize,
        row: usize,
        column: usize,
    ) {
        let position = Position::of_thread::<X>();
        let (m, n) = (self.shape.m, self.shape.n);
        // A number that the compiler does not know: it would unroll the loop.
        let pieces = hint::opaque((TM * TN / F) as u32) as usize;
        let mut piece = 0;
        while piece < pieces {
            let row = row + position.line::<F, Y>(position.y, piece / (TN / F));
            let column = column + position.line::<F, X>(position.x, piece % (TN / F) * F);
            if row < m && column < n {
                // SAFETY: the row and the column are in C, and this thread stored the elements; columns are multiples of F.
                unsafe {
                    self.result
                        .epilogue
                        .finish_stored::<F>(self.result.c, [product, row, column], [m, n])
                };
            }
            piece += 1;
        }
    }
}

/// The tile of `C` that this block computes, of `rows` × `columns` tiles: down in groups of [`GROUP`] rows of tiles.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
fn tile_of_block(rows: u32, columns: u32) -> (u32, u32) {
    let block = thread::block_idx_x();
    // A grid has less than 2^31 blocks: where this saturates, there is one group.
    let in_group = Ord::max(columns, 1).saturating_mul(GROUP);
    let (group, within) = (block / in_group, block % in_group);
    let first = group * GROUP;
    let height = Ord::min(rows.saturating_sub(first), GROUP);
    if height == 0 {
        // A block beyond the last tile: a row that no matrix has.
        return (u32::MAX, 0);
    }
    (first + within % height, within / height)
}
