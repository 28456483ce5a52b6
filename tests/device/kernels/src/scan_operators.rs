// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scans by operators that are not the library's, and the scans of a warp and of a block.

use cuda_block::storage;
use cuda_std::prelude::*;
use kernels_gpu::op::ReduceOp;

/// The map x ↦ scale · x + offset of the integers modulo 2^32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Affine {
    /// The slope.
    pub scale: u32,
    /// The value at 0.
    pub offset: u32,
}

/// The composition of maps, the first one first. Associative, not commutative.
pub struct Compose;

impl ReduceOp<Affine> for Compose {
    type Acc = Affine;
    type Output = Affine;

    #[inline(always)]
    fn identity() -> Affine {
        Affine { scale: 1, offset: 0 }
    }

    #[inline(always)]
    fn lift(x: Affine, _: u64) -> Affine {
        x
    }

    #[inline(always)]
    fn combine(a: Affine, b: Affine) -> Affine {
        Affine {
            scale: a.scale.wrapping_mul(b.scale),
            offset: b.scale.wrapping_mul(a.offset).wrapping_add(b.offset),
        }
    }

    #[inline(always)]
    fn finish(acc: Affine, _: u64) -> Affine {
        acc
    }
}

kernels_gpu::operator_kernels!(Compose: Affine => scan);

/// The product of the matrices [[1, x], [0, 1]] · [[1, 0], [x, 1]] of the elements, modulo 2^64, with a result of
/// another type than the elements: its trace plus the number of elements. Values of 32 bytes, the most that there may
/// be.
pub struct MatrixProduct;

impl ReduceOp<u8> for MatrixProduct {
    type Acc = [u64; 4];
    type Output = u64;

    #[inline(always)]
    fn identity() -> [u64; 4] {
        [1, 0, 0, 1]
    }

    #[inline(always)]
    fn lift(x: u8, index: u64) -> [u64; 4] {
        let x = u64::from(x) + index;
        [x.wrapping_mul(x).wrapping_add(1), x, x, 1]
    }

    #[inline(always)]
    fn combine(a: [u64; 4], b: [u64; 4]) -> [u64; 4] {
        let entry = |row: usize, column: usize| {
            let first = a[2 * row].wrapping_mul(b[column]);
            first.wrapping_add(a[2 * row + 1].wrapping_mul(b[2 + column]))
        };
        [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
    }

    #[inline(always)]
    fn finish(acc: [u64; 4], count: u64) -> u64 {
        acc[0].wrapping_add(acc[3]).wrapping_add(count)
    }
}

kernels_gpu::operator_kernels!(MatrixProduct: u8 => scan);

/// Three numbers of 4 bytes: a size that is not a power of two, so that nothing of it can be accessed in vectors.
pub type Triple = [u32; 3];

/// The first element, how often one differs from the one before, and the last: what runs an array has.
pub struct Runs;

impl ReduceOp<u16> for Runs {
    type Acc = Triple;
    type Output = Triple;

    // No element has that value.
    #[inline(always)]
    fn identity() -> Triple {
        [u32::MAX; 3]
    }

    #[inline(always)]
    fn lift(x: u16, _: u64) -> Triple {
        [u32::from(x), 0, u32::from(x)]
    }

    #[inline(always)]
    fn combine(a: Triple, b: Triple) -> Triple {
        if a[0] == u32::MAX {
            b
        } else if b[0] == u32::MAX {
            a
        } else {
            [a[0], a[1] + b[1] + u32::from(a[2] != b[0]), b[2]]
        }
    }

    #[inline(always)]
    fn finish(acc: Triple, _: u64) -> Triple {
        acc
    }
}

kernels_gpu::operator_kernels!(Runs: u16 => scan);

/// Threads of a block in [`small_scans()`].
pub const BLOCK: usize = 128;

/// For each thread of blocks of [`BLOCK`]: the inclusive and the exclusive scan of its warp, the exclusive scan of its
/// block and the block's total, one array behind the other.
#[kernel(max_threads = BLOCK)]
pub fn small_scans(x: &[Affine], out: SliceMut<'_, Affine>) {
    let (i, n) = (thread::index_1d(), x.len());
    out.set(i, warp::inclusive_scan(x[i], Compose::combine));
    out.set(n + i, warp::exclusive_scan(x[i], Compose::identity(), Compose::combine));
    let storage = storage![Affine; BLOCK / 32];
    let (scanned, _) = storage.exclusive_scan::<BLOCK>(x[i], Compose::identity(), Compose::combine);
    out.set(2 * n + i, scanned.before);
    out.set(3 * n + i, scanned.total);
}
