// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that the blocks of a cluster share: each has its part of a row in registers, and tells the others what it has combined.
//!
//! How many threads a row has follows from its length, and with that what is combined with what; how many blocks have them does
//! not change it. So GPUs without clusters, whose blocks stand for several in turn, give the same bits.

use super::lower::{Lowered, Reducing};
use super::{Form, Reduce};
use crate::expr::graph::Array;
use crate::expr::plan::MOST_OF_THREAD;
use crate::expr::ptx;

/// The threads of a block in a cluster, as a power of two: half of the most, so that one block computes while another one loads.
const THREADS_LOG2: u8 = 9;

/// The most blocks of a cluster that every GPU has which has any, as a power of two.
const MOST_BLOCKS_LOG2: u8 = 3;

/// The multiprocessors of a GPU whose clusters are that large: those of a smaller one, or of a small part of one, may lie where no
/// eight share a row.
const LEAST_MULTIPROCESSORS: u32 = 32;

/// The first driver that takes PTX which knows clusters, by its CUDA version.
const DRIVER: (u32, u32) = (12, 0);

/// The most threads of a row, as a power of two: of the most blocks of a cluster, which are as large as they can be.
pub(in crate::expr) const MOST_LANES_OF_CLUSTER_LOG2: u8 = MOST_BLOCKS_LOG2 + 10;

impl Lowered<'_> {
    /// Says of the program how many blocks share a row: several where all of it is in registers and no block has room for it, or
    /// [would be alone](Self::is_alone) on its multiprocessor.
    pub(super) fn suit_clusters(&mut self) {
        let (row_len, is_alone) = (self.lengths[self.lengths.len() - 1], self.is_alone());
        let Some(reduce) = &mut self.program.reduce else { return };
        let form = reduce.form;
        let Form::Rows {
            lanes_log2, looped: 0, ..
        } = form
        else {
            return;
        };
        if !(form.has_cluster() || is_alone) || !self.arrays.first().is_some_and(has_clusters) {
            return;
        }
        reduce.blocks_log2 = (lanes_log2 - THREADS_LOG2).min(MOST_BLOCKS_LOG2);
        // Of 65,540 elements in 4096 threads' five groups, one thread has any in the last one.
        let last = row_len % form.lanes();
        reduce.skips_last = last > 0 && 2 * last <= form.lanes();
    }

    /// Whether a row has all threads of the largest block there is, with more than half of the elements that they have room for:
    /// two blocks of half as many take less time, or as much (softmax of rows of 32,768 `f32` on an H200, of 32 rows 13.0 µs for 18.5,
    /// of 2048 149.8 for 150.5, of `bf16` 101.8 for 111.3).
    ///
    /// Not for elements of two words (of 16,384 `f64` 273 µs for 229), nor where they are only combined (sums of 120 rows 4.9 µs for
    /// 4.4), nor where single ones are read, for whose addresses there are no registers.
    fn is_alone(&self) -> bool {
        let program = &self.program;
        let has_elements = |reduce: &Reduce| reduce.is_row.contains(&false);
        let (row_len, half) = (self.lengths[self.lengths.len() - 1], MOST_OF_THREAD << THREADS_LOG2);
        program.aligned && row_len > half && program.reduce.as_ref().is_some_and(has_elements)
    }
}

impl Reducing<'_, '_> {
    /// Whether the device of the arrays has clusters.
    pub(in crate::expr) fn has_clusters(&self) -> bool {
        self.steps.arrays.first().is_some_and(has_clusters)
    }
}

/// Whether the device on which that array is has clusters.
fn has_clusters(array: &Array<'_>) -> bool {
    let device = array.stream().backend().properties();
    match device.compute_capability {
        // The simulated GPU has them in tests, which run kernels' texts too, but in some of them.
        #[cfg(test)]
        None => ptx::has_clusters_in_tests(),
        Some(capability) => {
            capability >= ptx::CLUSTERS.0
                && device.multiprocessors >= LEAST_MULTIPROCESSORS
                && device.driver_version >= Some(DRIVER)
        }
        #[cfg(not(test))]
        None => false,
    }
}
