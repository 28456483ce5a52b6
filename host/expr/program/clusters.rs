// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows that the blocks of a cluster share: each has its part of a row in registers, and tells the others what it has combined.
//!
//! How many threads a row has follows from its length, and with that what is combined with what; how many blocks have them does
//! not change it. So GPUs without clusters, whose blocks stand for several in turn, give the same bits.

use super::Form;
use super::lower::Reducing;
use crate::expr::graph::Array;
use crate::expr::ptx;

/// The threads of a block in a cluster, as a power of two: half of the most, so that one block computes while another one loads.
const THREADS_LOG2: u8 = 9;

/// The most blocks of a cluster that every GPU has which has any, as a power of two.
const MOST_BLOCKS_LOG2: u8 = 3;

/// The multiprocessors of a GPU whose clusters are that large: those of a smaller one, or of a small part of one, may lie where no
/// eight share a row.
const LEAST_MULTIPROCESSORS: u32 = 32;

/// The most threads of a row, as a power of two: of the most blocks of a cluster, which are as large as they can be.
pub(in crate::expr) const MOST_LANES_LOG2: u8 = MOST_BLOCKS_LOG2 + 10;

impl Reducing<'_, '_> {
    /// The blocks that share a row which goes in that form, as a power of two: several where it is in registers and has more threads than
    /// the largest block there is.
    pub(super) fn blocks_log2(&self, form: Form) -> u8 {
        match form {
            Form::Rows { lanes_log2, .. } if form.has_cluster() && self.has_clusters() => {
                (lanes_log2 - THREADS_LOG2).min(MOST_BLOCKS_LOG2)
            }
            _ => 0,
        }
    }

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
        Some(capability) => capability >= ptx::CLUSTERS.0 && device.multiprocessors >= LEAST_MULTIPROCESSORS,
        #[cfg(not(test))]
        None => false,
    }
}
