// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clusters on the simulated GPU: a place in the shared memory of another block is one as in the block's own, and what
//! accesses it asks the engine whose it is.

use super::{Dim3, SharedPtr};

pub use super::{
    load_shared as load_cluster, shared_is_aligned as cluster_is_aligned, shared_offset as cluster_offset,
    store_shared as store_cluster,
};

/// A place in the shared memory of a block of the cluster.
pub type ClusterPtr = SharedPtr;

pub fn cluster_dim() -> Dim3 {
    cuda_sim::cluster_dim()
}

pub fn cluster_block_idx() -> Dim3 {
    cuda_sim::block_in_cluster()
}

pub fn cluster_blocks() -> u32 {
    let Dim3 { x, y, z } = cluster_dim();
    x * y * z
}

pub fn cluster_rank() -> u32 {
    let (extent, block) = (cluster_dim(), cluster_block_idx());
    (block.z * extent.y + block.y) * extent.x + block.x
}

#[track_caller]
pub fn sync_cluster() {
    cuda_sim::cluster_barrier("cluster::sync");
}

#[track_caller]
pub fn sync_cluster_started() {
    cuda_sim::cluster_barrier("cluster::sync_started");
}

/// The same place as `ptr`, in the memory of the block of that rank.
#[track_caller]
pub fn map_shared(ptr: SharedPtr, rank: u32) -> ClusterPtr {
    cuda_sim::map_shared(ptr, rank)
}
