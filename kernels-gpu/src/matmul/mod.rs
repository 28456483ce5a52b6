// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices and vectors.
//!
//! [`gemm`](mod@gemm) multiplies matrices, one by one or in batches, through tiles in shared memory; [`gemv`](mod@gemv)
//! multiplies a matrix with a vector, which is a matter of reading the matrix once; [`wgmma`] multiplies matrices of
//! numbers of 16 bits, or rounded to TF32, and of 8 bits, on Hopper's tensor cores, [`mma`] on those of Ampere and later, and [`dmma`]
//! of `f64` on Hopper's.
//!
//! Operands come as all elements of an array and the strides of a view of it: a transposed, permuted or repeated
//! operand costs no copy. Numbers are accumulated in their own type by [`MulAdd`], which rounds once.

pub mod align;
pub mod dmma;
pub mod epilogue;
pub mod gemm;
pub mod gemv;
pub mod grouped;
mod handed;
pub mod mma;
mod parts;
pub mod simt;
mod stored;
mod tiles;
pub mod wgmma;

use cuda_std::Float;

use crate::num::Num;

/// Repeats a block of statements, with the loop's variable a constant each time: 16 times, or 8 at most. What is indexed
/// by it stays in registers, which a loop that the compiler may choose not to unroll does not promise.
///
/// A number is best written as such: the compiler looks at all 8 copies of what another expression counts, and nested ones
/// multiply. `unroll!(N; 4, …)` has 4, where there are never more.
#[cfg(target_arch = "nvptx64")]
macro_rules! unroll {
    (2, $i:ident => $body:block) => {
        unroll!(@ 2, $i, $body, 0 1)
    };
    (3, $i:ident => $body:block) => {
        unroll!(@ 3, $i, $body, 0 1 2)
    };
    (4, $i:ident => $body:block) => {
        unroll!(@ 4, $i, $body, 0 1 2 3)
    };
    (5, $i:ident => $body:block) => {
        unroll!(@ 5, $i, $body, 0 1 2 3 4)
    };
    (7, $i:ident => $body:block) => {
        unroll!(@ 7, $i, $body, 0 1 2 3 4 5 6)
    };
    (16, $i:ident => $body:block) => {
        unroll!(@ 16, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (22, $i:ident => $body:block) => {
        unroll!(@ 22, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21)
    };
    ($count:expr; 4, $i:ident => $body:block) => {
        const { assert!($count <= 4, "a block is repeated 4 times at most, as is written behind the semicolon") };
        unroll!(@ $count, $i, $body, 0 1 2 3)
    };
    ($count:expr, $i:ident => $body:block) => {
        const { assert!($count <= 8, "a block is repeated 22 or 16 times, or 8 at most") };
        unroll!(@ $count, $i, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $count:expr, $i:ident, $body:block, $($value:literal)*) => {$(
        if $value < $count {
            let $i: usize = $value;
            $body
        }
    )*};
}

/// On the simulated GPU a loop does: written out, nested ones were a quarter of all that is compiled for it.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! unroll {
    (16, $i:ident => $body:block) => {
        unroll!(@ 16, $i, $body)
    };
    (22, $i:ident => $body:block) => {
        unroll!(@ 22, $i, $body)
    };
    ($count:expr; 4, $i:ident => $body:block) => {
        const { assert!($count <= 4, "on a GPU a block is repeated 4 times at most, as is written behind the semicolon") };
        unroll!(@ $count, $i, $body)
    };
    ($count:expr, $i:ident => $body:block) => {
        const { assert!($count <= 8, "on a GPU a block is repeated 22 or 16 times, or 8 at most") };
        unroll!(@ $count, $i, $body)
    };
    (@ $count:expr, $i:ident, $body:block) => {{
        let mut next: usize = 0;
        while next < $count {
            let $i = next;
            next += 1;
            $body
        }
    }};
}

pub(crate) use unroll;

/// A number that products of matrices are computed in: `f32`, `f64` or `i32`.
pub trait MulAdd: Num {
    /// `self · a + b`, rounded once; integers wrap.
    fn mul_add(self, a: Self, b: Self) -> Self;
}

macro_rules! floats {
    ($($type:ident),*) => {$(
        impl MulAdd for $type {
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                Float::mul_add(self, a, b)
            }
        }
    )*};
}

floats!(f32, f64);

impl MulAdd for i32 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        self.wrapping_mul(a).wrapping_add(b)
    }
}

/// What becomes of a sum `sum` of products: `alpha · sum`, or `alpha · sum + beta · old`, where the first product is
/// rounded before the rest is fused; without a `beta`, the old value is not looked at.
#[inline(always)]
fn scaled<T: MulAdd>(alpha: T, sum: T, beta_and_old: Option<(T, T)>) -> T {
    let product = alpha.mul(sum);
    match beta_and_old {
        Some((beta, old)) => beta.mul_add(old, product),
        None => product,
    }
}

/// The least length of an array that a view of these lengths and strides lies in, if such an array can be.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
pub(crate) fn span<const N: usize>(lengths: [usize; N], strides: [usize; N]) -> Option<usize> {
    let mut last = 0usize;
    for axis in 0..N {
        if lengths[axis] == 0 {
            return Some(0);
        }
        last = last.checked_add((lengths[axis] - 1).checked_mul(strides[axis])?)?;
    }
    last.checked_add(1)
}
