// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of any strides.

use cuda_std::prelude::*;

/// `out[i, j] = x[i, j] + y[j, i]`
#[kernel]
pub fn add_transposed(x: ArrayView<'_, f32, 2>, y: ArrayView<'_, f32, 2>, out: ArrayViewMut<'_, f32, 2>) {
    let (i, j) = thread::index_2d();
    let [rows, columns] = out.shape();
    if i < rows && j < columns {
        out.set([i, j], x.get([i, j]) + y.get([j, i]));
    }
}

/// Counts the elements of each plane in its first element.
#[kernel]
pub fn count_planes(x: ArrayViewMut<'_, u32, 3>) {
    let (i, j) = thread::index_2d();
    let [planes, rows, columns] = x.shape();
    for plane in 0..planes {
        if i < rows && j < columns {
            x.atomic([plane, 0, 0]).fetch_add(1);
        }
    }
}

/// Reads one element too far along the last axis.
#[kernel]
pub fn beyond(x: ArrayView<'_, f32, 2>, out: ArrayViewMut<'_, f32, 2>) {
    let [_, columns] = x.shape();
    out.set([0, 0], x.get([0, columns]));
}
