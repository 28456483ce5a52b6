// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that the blocks of a cluster share, and the same by one block in rounds, by the tests' machine: both give the bits that the
//! simulated GPU gives.

use std::cell::Cell;

use ndarray::{Axis, s};

use super::emulated::{numbers, programs, softmax, twice};
use crate::expr::program::Program;
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
    for len in [16_388, 32_772, 40_000, 65_536] {
        softmax(&numbers(stream, [1, 1, len])?.expr(), 2).eval()?;
    }
    // Of 4096 threads.
    let wide = numbers(stream, [1, 1, 33_000])?.expr().cast::<f64>().eval()?;
    wide.expr().softmax(Axis(2)).eval()?;
    let x = numbers(stream, [1, 2, 33_005])?;
    let x = x.slice(s![.., .., 1..])?;
    x.expr().log_softmax(Axis(2)).eval()?;
    let weight = numbers(stream, [1, 1, 33_004])?;
    let weight = weight.slice(s![0, 0, ..])?;
    x.expr().layer_norm(&[2], &weight, 0.5, 1e-5).eval()?;
    x.expr().variance_axis(Axis(2), 0).eval()?;
    let narrow = numbers(stream, [1, 1, 33_001])?.expr().cast::<crate::f16>().eval()?;
    narrow.expr().softmax(Axis(2)).eval()?;
    let wide = numbers(stream, [1, 1, 16_388])?.expr().cast::<f64>().eval()?;
    wide.expr().softmax(Axis(2)).eval()?;
    let logits = numbers(stream, [1, 2, 18_000])?;
    let labels = DeviceArray::from_ndarray(stream, &ndarray::array![[17_000, -1]])?;
    logits.expr().cross_entropy_with_gradient(Axis(2), &labels, 1.0)?;
    Ok(())
}

/// Of the most threads, which there are of 16 rows and more.
pub(super) fn longest_rows(stream: &Stream) -> Result<()> {
    for len in [131_076, 200_000] {
        let x = numbers(stream, [1, 16, len])?;
        softmax(&x.expr(), 2).eval()?;
        x.expr().cast::<crate::f16>().log_softmax(Axis(2)).eval()?;
    }
    let wide = numbers(stream, [1, 16, 70_000])?.expr().cast::<f64>().eval()?;
    wide.expr().softmax(Axis(2)).eval()?;
    Ok(())
}

/// What kernels an expression of so many sums of long rows is said to have, of short elements: of others a block has the rows.
fn of_sums(sums: usize) -> Result<String> {
    let device = crate::Device::simulator();
    let x = numbers(device.default_stream(), [1, 1, 20_000])?;
    let x = x.expr().cast::<half::bf16>().eval()?;
    let x = x.expr().cast::<f32>();
    let mut all = x.clone();
    for number in 0..sums {
        all = all - (&x * number as f32).sum_axis(Axis(2)).insert_axis(Axis(2));
    }
    all.explain()
}

#[test]
fn rows_of_many_numbers_have_room_for_them() -> Result<()> {
    let (few, many) = (of_sums(20)?, of_sums(30)?);
    assert!(few.contains("of a cluster of 8 blocks"), "{few}");
    assert!(!many.contains("of a cluster"), "{many}");
    Ok(())
}

#[test]
fn blocks_share_long_rows() {
    assert!(twice(long_rows) > 40);
}

/// Where a thread has room for few elements because each has many functions, its block has shared memory for the row; but not for short
/// elements, which it would read in loops.
#[test]
fn rows_of_many_functions_are_by_a_block_with_shared_memory() {
    let gradient = |stream: &Stream| {
        let logits = numbers(stream, [1, 2, 18_000])?;
        let labels = DeviceArray::from_ndarray(stream, &ndarray::array![[17_000, -1]])?;
        logits.expr().cross_entropy_backward(Axis(2), &labels, 1.0).eval()?;
        Ok(())
    };
    let narrow_gradient = |stream: &Stream| {
        let logits = numbers(stream, [1, 2, 18_000])?.expr().cast::<crate::bf16>().eval()?;
        let labels = DeviceArray::from_ndarray(stream, &ndarray::array![[17_000, -1]])?;
        logits
            .expr()
            .cross_entropy_backward(Axis(2), &labels, crate::bf16::ONE)
            .eval()?;
        Ok(())
    };
    let is_stashed = |program: &Program| program.reduce.as_ref().is_some_and(|reduce| reduce.is_stashed);
    let has_cluster = |program: &Program| program.reduce.as_ref().is_some_and(|reduce| reduce.blocks_log2 > 0);
    for (programs, is_by_block) in [(programs(gradient), true), (programs(narrow_gradient), false)] {
        assert_eq!(programs.iter().any(is_stashed), is_by_block, "{programs:?}");
        assert_eq!(programs.iter().any(has_cluster), !is_by_block, "{programs:?}");
    }
}

/// Of two words an element a block stays one, and where elements are only combined, and where single ones are read.
#[test]
fn two_blocks_share_rows_of_one_word_an_element() {
    let blocks = |compute: &dyn Fn(&Stream) -> Result<()>| {
        let programs = programs(compute);
        programs
            .iter()
            .filter_map(|program| program.reduce.as_ref())
            .map(|reduce| reduce.blocks_log2)
            .max()
    };
    let x = |stream: &Stream, len| numbers(stream, [1, 1, len]);
    assert_eq!(
        blocks(&|stream| softmax(&x(stream, 16_388)?.expr(), 2).eval().map(drop)),
        Some(1)
    );
    assert_eq!(
        blocks(&|stream| softmax(&x(stream, 16_387)?.expr(), 2).eval().map(drop)),
        Some(0)
    );
    assert_eq!(
        blocks(&|stream| x(stream, 16_388)?.expr().sum_axis(Axis(2)).eval().map(drop)),
        Some(0)
    );
    let wide = |stream: &Stream| {
        x(stream, 16_384)?
            .expr()
            .cast::<f64>()
            .eval()?
            .expr()
            .softmax(Axis(2))
            .eval()
            .map(drop)
    };
    assert_eq!(blocks(&wide), Some(0));
}

/// Warps go past their threads' last groups where at most half of them have any: whichever warps those are, the bits are the same.
#[test]
fn warps_go_past_what_a_row_has_not() {
    let step = 4 * 1024;
    for (len, skips) in [
        (4 * step + 4, true),
        (4 * step + step / 2, true),
        (4 * step + step / 2 + 4, false),
        (5 * step, false),
    ] {
        let softmax = |stream: &Stream| {
            softmax(&numbers(stream, [1, 1, len])?.expr(), 2).eval()?;
            Ok(())
        };
        let skipping = |program: &Program| program.reduce.as_ref().is_some_and(|reduce| reduce.skips_last);
        assert_eq!(programs(softmax).iter().any(skipping), skips, "{len}");
        assert!(twice(softmax) > 0);
    }
}

#[test]
fn one_block_is_several_in_rounds() {
    assert!(with_clusters(false, || twice(long_rows)) > 10);
}
