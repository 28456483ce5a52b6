// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a device knows of a kernel before it is launched: that it can be, how many of its blocks run at a time, and which
//! block is best for it.

use cuda_std::launch::Kernel;

use crate::backend::KernelInfo;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::{Dim3, LaunchConfig, check};

impl Device {
    /// Loads kernel `K`, so that its first launch takes no longer than the others. Otherwise that launch loads it, for
    /// which the driver compiles the kernel's PTX if it is not in its cache: some milliseconds, up to a second for a
    /// large one. Threads may preload several kernels side by side.
    ///
    /// On the simulated GPU, which loads nothing, it is checked that the kernel is of the source that was
    /// [registered](Self::register_kernels).
    ///
    /// # Errors
    ///
    /// [`Error::NoModule`], [`Error::SignatureMismatch`], [`Error::DriverTooOld`] and [`Error::Module`] if the kernel
    /// cannot be loaded, [`Error::Cuda`] if the driver fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::Device;
    ///
    /// #[kernel]
    /// pub fn double(data: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     if i < data.len() {
    ///         data.set(i, 2.0 * data.get(i));
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// device.preload::<double>()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn preload<K: Kernel>(&self) -> Result<()> {
        self.backend().preload(&KernelInfo::of::<K>())
    }

    /// How many blocks of `block` threads, with that many bytes of dynamic shared memory each, run at a time on one
    /// multiprocessor: fewer where a thread takes many registers or a block much shared memory. The kernel is loaded for
    /// that, as by [`preload`](Self::preload).
    ///
    /// A multiprocessor of the simulated GPU has room for the threads and the shared memory of one block of the largest
    /// size; it has no registers.
    ///
    /// # Errors
    ///
    /// [`Error::LaunchConfig`] for a block that the kernel or the device does not take, and those of
    /// [`preload`](Self::preload).
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::Device;
    ///
    /// #[kernel]
    /// pub fn idle() {}
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let blocks = device.occupancy::<idle>(256, 0)?;
    /// assert_eq!(blocks, 4);
    /// // A grid that fills the device once.
    /// let grid = blocks * device.properties().multiprocessors;
    /// # assert!(grid >= 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn occupancy<K: Kernel>(&self, block: impl Into<Dim3>, dynamic_shared: usize) -> Result<u32> {
        let (_, threads) = self.one_block::<K>(block, dynamic_shared)?;
        self.backend()
            .occupancy(&KernelInfo::of::<K>(), threads, dynamic_shared)
    }

    /// The largest grid of a cooperative launch of kernel `K`, in blocks of `block` threads with that many bytes of dynamic
    /// shared memory each: all blocks run at a time, as many on each multiprocessor as [`occupancy`](Self::occupancy) says.
    /// That a launch is cooperative is the kernel's doing, by its parameter: see
    /// [`DeviceGridBarrier`](crate::DeviceGridBarrier).
    ///
    /// The simulated GPU, whose multiprocessors are the host's cores, also wants room for the stacks of all threads: that
    /// of 28 blocks of the largest size.
    ///
    /// # Errors
    ///
    /// As [`occupancy`](Self::occupancy).
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use warpsmith::{Device, DeviceArray, DeviceGridBarrier};
    ///
    /// /// Each block's element becomes the number of blocks that have come to the barrier.
    /// #[kernel]
    /// pub fn count(grid: GridBarrier<'_>, counts: SliceMut<'_, u32>) {
    ///     let block = thread::block_idx_x() as usize;
    ///     if thread::thread_idx_x() == 0 {
    ///         counts.atomic(0).fetch_add(1);
    ///     }
    ///     grid.sync();
    ///     counts.set(block, counts.get(0));
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let stream = device.default_stream();
    /// let config = device.cooperative_config::<count>(128, 0)?;
    /// let mut barrier = DeviceGridBarrier::new(stream)?;
    /// let mut counts = DeviceArray::zeros(stream, config.grid.x as usize)?;
    /// stream.launch::<count>(&config, (&mut barrier, &mut counts))?;
    /// assert!(counts.to_ndarray()?.iter().all(|&count| count == config.grid.x));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cooperative_config<K: Kernel>(&self, block: impl Into<Dim3>, dynamic_shared: usize) -> Result<LaunchConfig> {
        let (config, threads) = self.one_block::<K>(block, dynamic_shared)?;
        let blocks = self
            .backend()
            .cooperative_blocks(&KernelInfo::of::<K>(), threads, dynamic_shared)?;
        // A kernel of which no block has room is refused with a grid of one.
        let grid = blocks.max(1).into();
        Ok(LaunchConfig { grid, ..config })
    }

    /// A grid of one block, which the kernel and the device take, and its threads.
    fn one_block<K: Kernel>(&self, block: impl Into<Dim3>, dynamic_shared: usize) -> Result<(LaunchConfig, u32)> {
        let config = LaunchConfig {
            dynamic_shared,
            ..LaunchConfig::new(1, block)
        };
        check(K::NAME, K::MAX_THREADS, &config, self.properties())?;
        // At most a block's, as just checked.
        Ok((config, config.block.count() as u32))
    }

    /// A configuration with one thread for each of `len` elements and at least one block, in blocks of the size with
    /// which the most threads of kernel `K` run at a time, without dynamic shared memory. The driver knows it from the
    /// registers and the shared memory that the kernel takes; the kernel is loaded for that, as by
    /// [`preload`](Self::preload). No block is larger than the kernel's bound. The simulated GPU takes the largest block.
    ///
    /// It is the choice of the block alone: for a kernel whose algorithm wants a certain one, launch that.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for more elements than the threads of a grid, and those of [`preload`](Self::preload).
    ///
    /// # Examples
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// #[kernel(max_threads = 512)]
    /// pub fn double(data: SliceMut<'_, f32>) {
    ///     let i = thread::index_1d();
    ///     if i < data.len() {
    ///         data.set(i, 2.0 * data.get(i));
    ///     }
    /// }
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let mut x = DeviceArray::from_ndarray(device.default_stream(), &array![1.0, 2.0, 3.0])?;
    /// let config = device.launch_config::<double>(x.len())?;
    /// device.default_stream().launch::<double>(&config, (&mut x,))?;
    /// assert_eq!(x.to_ndarray()?, array![2.0, 4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn launch_config<K: Kernel>(&self, len: usize) -> Result<LaunchConfig> {
        let most = K::MAX_THREADS.min(self.properties().max_threads_per_block);
        let block = self.backend().best_block(&KernelInfo::of::<K>(), most)?.min(most);
        let threads = u64::from(self.properties().max_grid.x) * u64::from(block);
        if len as u64 > threads {
            return Err(Error::Parameter {
                operation: "launch_config",
                parameter: "the number of elements",
                given: len.to_string(),
                wanted: format!("at most {threads}, the threads of a grid"),
            });
        }
        Ok(LaunchConfig::for_len(len, block))
    }
}
