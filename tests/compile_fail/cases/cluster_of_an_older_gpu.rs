// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters that the attribute refuses.

use cuda_std::prelude::*;

#[kernel(cluster = 2, arch = "sm_80")]
pub fn of_ampere(out: SliceMut<'_, f32>) {
    out.set(0, 0.0);
}

#[kernel(cluster = (2, 1, 1, 1))]
pub fn of_four_extents(out: SliceMut<'_, f32>) {
    out.set(0, 0.0);
}

fn main() {}
