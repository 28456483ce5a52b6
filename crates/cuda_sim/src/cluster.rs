// SPDX-License-Identifier: MIT OR Apache-2.0
//! Thread block clusters: blocks that run side by side, meet at a barrier, and reach each other's shared memory.
//!
//! All blocks of a cluster run on one OS thread, each in a context of its own, so that what they share needs no more
//! order than what the threads of a block do. From its context a thread finds the others by the [`Cluster`], which is
//! there as long as they run.

use std::cell::Cell;
use std::ptr;

use crate::check::{Bytes, Space};
use crate::config::{LIMITS, LaunchConfig};
use crate::context::Context;
use crate::dim3::Dim3;
use crate::error::{Call, Error};
use crate::meeting::Meeting;
use crate::shared::{SharedPtr, SharedSite};

/// How the clusters of a launch lie in its grid.
#[derive(Clone, Copy)]
pub(crate) struct Tiling {
    /// The grid's extents, in clusters.
    grid: Dim3,
    /// A cluster's, in blocks.
    cluster: Dim3,
}

impl Tiling {
    /// The clusters of a grid that was checked.
    pub(crate) fn new(grid: Dim3, cluster: Dim3) -> Tiling {
        Tiling {
            grid: Dim3 {
                x: grid.x / cluster.x,
                y: grid.y / cluster.y,
                z: grid.z / cluster.z,
            },
            cluster,
        }
    }

    /// How many clusters there are.
    pub(crate) fn clusters(&self) -> u64 {
        self.grid.count()
    }

    /// How many blocks each has.
    pub(crate) fn blocks(&self) -> u32 {
        // At most `LIMITS.max_cluster`.
        self.cluster.count() as u32
    }

    /// The index in the grid of the block of that rank in cluster `number`.
    pub(crate) fn block(&self, number: u64, rank: u32) -> Dim3 {
        let (cluster, block) = (self.grid.position(number), self.cluster.position(rank.into()));
        Dim3 {
            x: cluster.x * self.cluster.x + block.x,
            y: cluster.y * self.cluster.y + block.y,
            z: cluster.z * self.cluster.z + block.z,
        }
    }
}

/// Whether a grid can be cut into such clusters.
pub(crate) fn check(kernel: &str, config: &LaunchConfig, cluster: Dim3) -> Result<(), Error> {
    if !(1..=u64::from(LIMITS.max_cluster)).contains(&cluster.count()) {
        return Err(Error::Config {
            kernel: kernel.to_owned(),
            limit: "blocks of a cluster",
            given: cluster.count(),
            min: 1,
            max: LIMITS.max_cluster.into(),
        });
    }
    let grid = config.grid;
    let is_cut = |grid: u32, cluster: u32| grid.is_multiple_of(cluster);
    if is_cut(grid.x, cluster.x) && is_cut(grid.y, cluster.y) && is_cut(grid.z, cluster.z) {
        return Ok(());
    }
    Err(Error::Clusters {
        kernel: kernel.to_owned(),
        grid,
        cluster,
    })
}

/// The blocks of the cluster that runs.
pub(crate) struct Cluster<'a> {
    /// By rank.
    members: &'a [Context<'a>],
    /// Where they meet.
    pub(crate) meeting: Meeting,
    /// All threads of all of them wait for one another.
    stuck: Cell<bool>,
}

impl<'a> Cluster<'a> {
    /// Calls `run`, during which the members find one another.
    pub(crate) fn assemble(members: &'a [Context<'a>], run: impl FnOnce(&Cluster<'a>)) {
        /// Also a scheduler that panics leaves no pointer behind.
        struct Dissolve<'a>(&'a [Context<'a>]);

        impl Drop for Dissolve<'_> {
            fn drop(&mut self) {
                self.0.iter().for_each(|member| member.cluster.set(ptr::null()));
            }
        }

        let cluster = Cluster {
            members,
            meeting: Meeting::new("cluster", members.len() as u64),
            stuck: Cell::new(false),
        };
        let _dissolve = Dissolve(members);
        for member in members {
            member.cluster.set(ptr::from_ref(&cluster).cast());
        }
        run(&cluster);
    }

    /// Gets ready for another cluster.
    pub(crate) fn begin(&self) {
        self.meeting.reset();
        self.stuck.set(false);
    }

    /// Its blocks' numbers in the grid.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> + Clone {
        self.members.iter().map(|member| member.who().block)
    }

    /// In a turn of all blocks that have not ended nobody has run but who waited for the others.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.set(stuck);
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.get()
    }

    fn holder(&self, is_holder: impl Fn(&Context<'_>) -> bool) -> Option<&'a Context<'a>> {
        self.members.iter().find(|member| is_holder(member))
    }
}

impl Context<'_> {
    /// The cluster that the block is one of, where the launch has clusters.
    #[inline]
    pub(crate) fn cluster(&self) -> Option<&Cluster<'_>> {
        // SAFETY: null, or what `Cluster::assemble` has set, and takes back before the cluster goes.
        unsafe { self.cluster.get().cast::<Cluster<'_>>().as_ref() }
    }

    /// The extents of the cluster, in blocks.
    pub(crate) fn cluster_dim(&self) -> Dim3 {
        self.grid.options.cluster.unwrap_or(Dim3 { x: 1, y: 1, z: 1 })
    }

    /// The block's index in its cluster.
    pub(crate) fn block_in_cluster(&self) -> Dim3 {
        let (block, cluster) = (self.block.get(), self.cluster_dim());
        Dim3 {
            x: block.x % cluster.x,
            y: block.y % cluster.y,
            z: block.z % cluster.z,
        }
    }

    /// The array of `site`, which lies in all blocks of a cluster at the same place.
    pub(crate) fn shared_array(&self, site: &'static SharedSite) -> Result<SharedPtr, String> {
        let array = self.shared.array(site)?;
        for member in self.cluster().into_iter().flat_map(|cluster| cluster.members) {
            member.shared.array(site)?;
        }
        Ok(array)
    }

    /// The same place as `at`, which is in this block's memory, in that of the block of this rank.
    pub(crate) fn map_shared(&self, call: Call, at: SharedPtr, rank: u32) -> SharedPtr {
        let blocks = self.cluster_dim().count();
        if u64::from(rank) >= blocks {
            self.raise(
                call,
                format!("shared memory of block {rank} of a cluster of {blocks} blocks"),
            );
        }
        if !self.shared.holds(at) {
            self.raise(call, self.shared.refusal(at, 0));
        }
        match self.cluster() {
            Some(cluster) => cluster.members[rank as usize].shared.counterpart(at),
            None => at,
        }
    }

    /// The address of memory that is not this block's: that of another block of the cluster, or a fault.
    pub(crate) fn locate_in_cluster(&self, call: Call, at: SharedPtr, bytes: usize) -> *mut u8 {
        let Some(holder) = self
            .cluster()
            .and_then(|cluster| cluster.holder(|member| member.shared.holds(at)))
        else {
            self.raise(call, self.shared.refusal(at, bytes))
        };
        if holder.has_ended() {
            self.end_with_others();
            self.raise(call, holder.missed());
        }
        match holder.shared.at(at, bytes) {
            Some(address) => address,
            None => self.raise(call, holder.shared.refusal(at, bytes)),
        }
    }

    /// What is wrong with an access to the memory of this block, which has ended.
    #[cold]
    pub(crate) fn missed(&self) -> String {
        let block = self.block.get();
        format!("access to shared memory of block {block} of the cluster, which has ended: {KEEPS}")
    }

    /// The block whose memory a place is in: another one of the cluster, or this one.
    pub(crate) fn holder(&self, space: Space, address: usize) -> &Context<'_> {
        let other = match (space, self.cluster()) {
            (Space::Shared, Some(cluster)) => cluster.holder(|member| member.shared.contains(address)),
            _ => None,
        };
        other.unwrap_or(self)
    }

    /// The place, with the block that holds it if that is another one.
    pub(crate) fn held(&self, place: Bytes) -> Bytes {
        if self.cluster().is_none() {
            return place;
        }
        let (own, holder) = (self.who().block, self.holder(place.space, place.address).who().block);
        Bytes {
            holder: (holder != own).then_some(holder),
            ..place
        }
    }
}

/// What keeps a block's shared memory.
pub(crate) const KEEPS: &str = "a `cluster::sync` behind the last such access keeps the block";
