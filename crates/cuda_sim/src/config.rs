// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shape of a launch, and the limits that a CUDA device sets to it.
//!
//! The numbers are those of "Technical specifications per compute capability"
//! in the CUDA programming guide: the ones common to compute 7.5 and later,
//! but for the opt-in shared memory, which is compute 9.0's.

use std::fmt;
use std::ops::Range;

use crate::check::Checks;
use crate::dim3::Dim3;
use crate::error::Error;
use crate::schedule::Schedule;
use crate::written::Written;

/// How many threads a launch runs, and with how much dynamic shared memory.
///
/// ```
/// use cuda_sim::LaunchConfig;
///
/// let config = LaunchConfig {
///     dynamic_shared: 256 * size_of::<f32>(),
///     ..LaunchConfig::new((4, 2), 256)
/// };
/// assert_eq!((config.grid.count(), config.block.count()), (8, 256));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct LaunchConfig {
    /// The extents of the grid, in blocks.
    pub grid: Dim3,
    /// The extents of a block, in threads.
    pub block: Dim3,
    /// The dynamic shared memory of a block, in bytes.
    pub dynamic_shared: usize,
}

impl LaunchConfig {
    /// A grid of `grid` blocks of `block` threads, without dynamic shared
    /// memory.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        LaunchConfig {
            grid: grid.into(),
            block: block.into(),
            dynamic_shared: 0,
        }
    }

    /// A one-dimensional grid of blocks of `block` threads with at least one
    /// thread for each of `len` elements, and at least one block.
    ///
    /// ```
    /// use cuda_sim::{Dim3, LaunchConfig};
    ///
    /// let config = LaunchConfig::for_len(1000, 256);
    /// assert_eq!((config.grid, config.block), (Dim3::from(4), Dim3::from(256)));
    /// ```
    pub fn for_len(len: usize, block: u32) -> Self {
        Self::new(blocks(len, block), block)
    }

    /// A two-dimensional grid of blocks of `block` threads with at least one
    /// thread for each element of an array of so many rows and columns, and at
    /// least one block. Columns run along x, in which neighbouring threads lie,
    /// and rows along y.
    ///
    /// A grid has 65,535 blocks at most along y: of more rows than that many
    /// blocks cover, the launch is an error. A grid of fewer blocks whose threads
    /// step on by the grid's extent covers any number.
    ///
    /// ```
    /// use cuda_sim::{Dim3, LaunchConfig};
    ///
    /// // 1080 rows of 1920 pixels, by blocks of 8 rows of 32.
    /// let config = LaunchConfig::for_shape((1080, 1920), (32, 8));
    /// assert_eq!((config.grid, config.block), (Dim3::from((60, 135)), Dim3::from((32, 8))));
    /// ```
    pub fn for_shape((rows, columns): (usize, usize), block: impl Into<Dim3>) -> Self {
        let block = block.into();
        Self::new((blocks(columns, block.x), blocks(rows, block.y)), block)
    }

    /// Compares each part with the limits; the first one outside is the error.
    pub(crate) fn check(&self, kernel: &str) -> Result<(), Error> {
        let (block, grid) = (LIMITS.max_block, LIMITS.max_grid);
        let u64s = |a: Dim3| [a.x, a.y, a.z].map(u64::from);
        let extents = [
            ("block.x", "block.y", "block.z", self.block, block),
            ("grid.x", "grid.y", "grid.z", self.grid, grid),
        ];
        let mut rows = Vec::with_capacity(8);
        for (x, y, z, given, max) in extents {
            for ((limit, given), max) in [x, y, z].into_iter().zip(u64s(given)).zip(u64s(max)) {
                rows.push((limit, given, 1, max));
            }
        }
        let threads = u64::from(LIMITS.max_threads_per_block);
        let shared = LIMITS.max_shared as u64;
        rows.push(("threads per block", self.block.count(), 1, threads));
        rows.push(("dynamic shared memory in bytes", self.dynamic_shared as u64, 0, shared));

        match rows.iter().find(|row| row.1 < row.2 || row.1 > row.3) {
            None => Ok(()),
            Some(&(limit, given, min, max)) => Err(Error::Config {
                kernel: kernel.to_owned(),
                limit,
                given,
                min,
                max,
            }),
        }
    }
}

/// How many blocks of `threads` threads have one for each of `len` elements; the
/// greatest number, which no launch takes, if it is beyond.
fn blocks(len: usize, threads: u32) -> u32 {
    let blocks = len.div_ceil(threads.max(1) as usize).max(1);
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// How a grid is launched, other than its shape.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// All blocks run side by side, and may meet at the [`grid_barrier`](crate::grid_barrier).
    pub cooperative: bool,
    /// The extents of a cluster in blocks, at most [`Limits::max_cluster`] of them, of which the grid has a whole number in
    /// each dimension: the blocks of a cluster run side by side, may meet at the
    /// [`cluster_barrier`](crate::cluster_barrier), and have each other's shared memory by
    /// [`map_shared`](crate::map_shared). Without, each block is one for itself.
    pub cluster: Option<Dim3>,
    /// What the launch is checked for.
    pub checks: Checks,
    /// In which order threads and blocks run. Without one the threads of a block run in order, and blocks on all cores.
    pub schedule: Option<Schedule>,
    /// The number of the block whose steps are kept, where the launch is counted.
    pub traced: Option<u64>,
    /// The allocation of global memory that an address is in, as reports name it.
    pub allocation: Option<&'a (dyn Fn(usize) -> Option<Range<usize>> + Sync)>,
    /// What of global memory has been written, where launches are checked for that.
    pub written: Option<&'a Written>,
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("cooperative", &self.cooperative)
            .field("cluster", &self.cluster)
            .field("checks", &self.checks)
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

/// What a device can launch at most; [`LIMITS`] holds the values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Threads in a block, over all three extents.
    pub max_threads_per_block: u32,
    /// Each extent of a block.
    pub max_block: Dim3,
    /// Each extent of a grid.
    pub max_grid: Dim3,
    /// Threads in a warp.
    pub warp_size: u32,
    /// Bytes of static shared memory in a block.
    pub max_static_shared: usize,
    /// Bytes of static and dynamic shared memory together in a block. On a GPU
    /// more than [`max_static_shared`](Limits::max_static_shared) needs an
    /// opt-in; asking for dynamic shared memory is that opt-in here.
    pub max_shared: usize,
    /// Blocks in a cluster, over all three extents: those that every GPU with
    /// clusters takes.
    pub max_cluster: u32,
}

/// Whether libraries let the simulated GPU run their kernels for tensor cores: with this crate's feature `tensor-cores`.
///
/// The launches here know nothing of tensor cores; this is a constant that a library asks before it names a kernel's body,
/// so that the body is not compiled where the answer is no.
pub const TENSOR_CORES: bool = cfg!(feature = "tensor-cores");

/// The limits of the simulated GPU, which are those of a real one.
pub const LIMITS: Limits = Limits {
    max_threads_per_block: 1024,
    max_block: Dim3 {
        x: 1024,
        y: 1024,
        z: 64,
    },
    max_grid: Dim3 {
        x: 0x7fff_ffff,
        y: 65_535,
        z: 65_535,
    },
    warp_size: 32,
    max_static_shared: 48 * 1024,
    max_shared: 227 * 1024,
    max_cluster: 8,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Small extents, those at the limits, and any.
    fn extent() -> impl Strategy<Value = u32> {
        let edges = [64, 65, 1024, 1025, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, u32::MAX];
        prop_oneof![0u32..4, prop::sample::select(edges.to_vec()), any::<u32>()]
    }

    fn dim3() -> impl Strategy<Value = Dim3> {
        (extent(), extent(), extent()).prop_map(|(x, y, z)| Dim3 { x, y, z })
    }

    proptest! {
        /// What is accepted is within every limit, and what is refused names one that it is outside of.
        #[test]
        fn configurations_are_accepted_within_the_limits_only(
            grid in dim3(),
            block in dim3(),
            dynamic_shared in prop_oneof![0usize..300_000, any::<usize>()],
        ) {
            let config = LaunchConfig { grid, block, dynamic_shared };
            let within = |given: Dim3, max: Dim3| {
                let each = [(given.x, max.x), (given.y, max.y), (given.z, max.z)];
                each.into_iter().all(|(given, max)| (1..=max).contains(&given))
            };
            let threads = u128::from(block.x) * u128::from(block.y) * u128::from(block.z);
            let fits = within(grid, LIMITS.max_grid)
                && within(block, LIMITS.max_block)
                && threads <= u128::from(LIMITS.max_threads_per_block)
                && dynamic_shared <= LIMITS.max_shared;
            match config.check("k") {
                Ok(()) => prop_assert!(fits),
                Err(Error::Config { given, min, max, .. }) => prop_assert!(!fits && !(min..=max).contains(&given)),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }

        /// As few blocks as have a thread for each element, and one block at least.
        #[test]
        fn grids_cover_shapes(rows in 0usize..5000, columns in 0usize..5000, x in 1u32..65, y in 1u32..17) {
            let config = LaunchConfig::for_shape((rows, columns), (x, y));
            prop_assert_eq!((config.block, config.grid.z), (Dim3 { x, y, z: 1 }, 1));
            for (len, blocks, threads) in [(columns, config.grid.x, x), (rows, config.grid.y, y)] {
                let covered = |blocks: u32| blocks as usize * threads as usize;
                prop_assert!(covered(blocks) >= len && blocks >= 1);
                prop_assert!(blocks == 1 || covered(blocks - 1) < len);
            }
            prop_assert_eq!(LaunchConfig::for_shape((1, columns), x), LaunchConfig::for_len(columns, x));
        }

        /// Positions and numbers within an extent are one to one, and successors follow one another.
        #[test]
        fn positions_count_on(x in 1u32..9, y in 1u32..9, z in 1u32..9) {
            let extent = Dim3 { x, y, z };
            let mut at = Dim3 { x: 0, y: 0, z: 0 };
            for linear in 0..extent.count() {
                prop_assert_eq!(extent.position(linear), at);
                prop_assert_eq!(extent.linear(at), linear);
                at = extent.successor(at);
            }
            prop_assert_eq!(at, Dim3 { x: 0, y: 0, z });
        }
    }
}
