// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a thread makes of the values that it has in registers.

/// Combines `N` values one after another, in their order.
///
/// ```
/// use cuda_block::thread::fold;
///
/// assert_eq!(fold([1, 2, 3, 4], |a, b| 10 * a + b), 1234);
/// ```
#[inline(always)]
pub fn fold<T: Copy, const N: usize>(values: [T; N], combine: impl Fn(T, T) -> T) -> T {
    const { assert!(N > 0) };
    let mut total = values[0];
    for k in 1..N {
        total = combine(total, values[k]);
    }
    total
}

/// Combines `N` values as a tree of depth `⌈log2 N⌉`, which rounds less than one after another, and has fewer
/// instructions that wait for one another. `combine` must be commutative: the tree combines a value with the one half
/// of them further on.
///
/// ```
/// use cuda_block::thread::fold_pairwise;
///
/// // (a + c) + (b + d)
/// assert_eq!(fold_pairwise([1e30f32, 1.0, -1e30, 1.0], |a, b| a + b), 2.0);
/// ```
#[inline(always)]
pub fn fold_pairwise<T: Copy, const N: usize>(mut values: [T; N], combine: impl Fn(T, T) -> T) -> T {
    const { assert!(N > 0) };
    let mut width = N;
    while width > 1 {
        let half = width.div_ceil(2);
        for i in 0..width / 2 {
            values[i] = combine(values[i], values[i + half]);
        }
        width = half;
    }
    values[0]
}
