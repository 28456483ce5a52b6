// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that the blocks of a cluster share, and the same by one block in rounds, by the tests' machine: both give the bits that the
//! simulated GPU gives.

use std::cell::Cell;

use ndarray::{Axis, s};

use super::emulated::{numbers, softmax, twice};
use crate::{DeviceArray, Result, Stream};

thread_local! {
    /// Whether the simulated GPU has clusters.
    static HAS_CLUSTERS: Cell<bool> = const { Cell::new(true) };
}

/// Whether the simulated GPU of a test has clusters.
pub(in crate::expr) fn has_clusters_in_tests() -> bool {
    HAS_CLUSTERS.get()
}

/// Does something on a GPU with clusters, or one without.
pub(in crate::expr) fn with_clusters<R>(has_clusters: bool, run: impl FnOnce() -> R) -> R {
    HAS_CLUSTERS.set(has_clusters);
    let result = run();
    HAS_CLUSTERS.set(true);
    result
}

/// Of lengths around those from which on there are more threads; by vectors and not, of whole steps and not, of no whole groups; of one
/// array and several, with numbers of rows beside elements.
pub(super) fn long_rows(stream: &Stream) -> Result<()> {
    for len in [32_772, 40_000, 65_536, 65_540] {
        softmax(&numbers(stream, [1, 1, len])?.expr(), 2).eval()?;
    }
    let x = numbers(stream, [1, 2, 33_005])?;
    let x = x.slice(s![.., .., 1..])?;
    x.expr().log_softmax(Axis(2)).eval()?;
    let weight = numbers(stream, [1, 1, 33_004])?;
    let weight = weight.slice(s![0, 0, ..])?;
    x.expr().layer_norm(&[2], &weight, 0.5, 1e-5).eval()?;
    x.expr().variance_axis(Axis(2), 0).eval()?;
    let narrow = numbers(stream, [1, 1, 33_001])?.expr().cast::<crate::f16>().eval()?;
    narrow.expr().softmax(Axis(2)).eval()?;
    let logits = numbers(stream, [1, 2, 18_000])?;
    let labels = DeviceArray::from_ndarray(stream, &ndarray::array![[17_000, -1]])?;
    logits.expr().cross_entropy_with_gradient(Axis(2), &labels, 1.0)?;
    Ok(())
}

#[test]
fn blocks_share_long_rows() {
    assert!(twice(long_rows) > 40);
}

#[test]
fn one_block_is_several_in_rounds() {
    assert!(with_clusters(false, || twice(long_rows)) > 10);
}
