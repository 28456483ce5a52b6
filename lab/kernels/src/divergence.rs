// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches: a warp has one place in the program at a time. Where its lanes want to go different ways, it goes each of
//! them, with the other lanes resting.

use cuda_std::prelude::*;

/// Ways that there are.
pub const WAYS: u32 = 8;

/// `rounds` steps of a computation that is another one for each `SHIFT`.
#[inline(always)]
pub fn way<const SHIFT: u32>(mut value: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        value = (value ^ (value >> SHIFT)).wrapping_mul(0x9e37_79b1 + 2 * SHIFT);
    }
    value
}

// ANCHOR: ways
/// Groups of `group` neighbouring threads go the same way, of `ways`; all ways are equally long.
#[kernel]
pub fn ways(ways: u32, group: u32, rounds: u32, out: SliceMut<'_, u32>) {
    let i = thread::index_1d();
    if i >= out.len() {
        return;
    }
    let value = i as u32;
    match value / group % ways {
        0 => out.set(i, way::<3>(value, rounds)),
        1 => out.set(i, way::<5>(value, rounds)),
        2 => out.set(i, way::<7>(value, rounds)),
        3 => out.set(i, way::<9>(value, rounds)),
        4 => out.set(i, way::<11>(value, rounds)),
        5 => out.set(i, way::<13>(value, rounds)),
        6 => out.set(i, way::<15>(value, rounds)),
        _ => out.set(i, way::<17>(value, rounds)),
    }
}
// ANCHOR_END: ways
