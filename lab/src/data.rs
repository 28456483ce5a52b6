// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs: random numbers, each of which its index alone gives. So they are made by all cores at once, and a check computes
//! the element that it wants instead of keeping the array.

use anyhow::{Context, Result};
use ndarray::Array1;
use rayon::prelude::*;

/// 32 random bits for index `i`: the middle ones of the `i`-th number of SplitMix64 (G. Steele, D. Lea, C. Flood,
/// 2014).
pub fn bits(i: usize) -> u32 {
    let mut z = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 16) as u32
}

/// The random integer of index `i`, from −4 to 4, as a float. Sums of them stay so small that no order of additions rounds
/// one: of less than 2^22 for certain, of 10^8 because 0 is their mean.
pub fn small(i: usize) -> f32 {
    (bits(i) % 9) as f32 - 4.0
}

/// The array whose elements `element` gives, made by all cores.
///
/// # Errors
///
/// If the host has no memory for it.
pub fn array<T: Send>(len: usize, element: impl Fn(usize) -> T + Sync + Send) -> Result<Array1<T>> {
    let mut elements = Vec::new();
    elements
        .try_reserve_exact(len)
        .with_context(|| format!("the host has no memory for {len} elements"))?;
    (0..len).into_par_iter().map(element).collect_into_vec(&mut elements);
    Ok(elements.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_splitmix() {
        // The first numbers of the generator with seed 0, by its published code.
        assert_eq!(bits(0), (0xe220_a839_7b1d_cdaf_u64 >> 16) as u32);
        assert_eq!(bits(1), (0x6e78_9e6a_a1b9_65f4_u64 >> 16) as u32);
    }
}
