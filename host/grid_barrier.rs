// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a grid's barrier, the argument that makes a launch cooperative.

use cuda_std::GridBarrier;
use cuda_std::launch::Abi;
use cuda_std::param::NoTail;
use ndarray::Ix1;

use crate::array::DeviceArray;
use crate::error::Result;
use crate::graph::{GraphArrays, HeldArrays};
use crate::launch::Arg;
use crate::stream::Stream;

/// The barrier at which the blocks of a launch meet: `&mut DeviceGridBarrier` is the argument for a kernel's parameter
/// [`GridBarrier`], and the launch is a cooperative one: all blocks run at a time. More of them than there is room for are
/// [`Error::LaunchConfig`](crate::Error::LaunchConfig);
/// [`Device::cooperative_config`](crate::Device::cooperative_config) has as many as there is.
///
/// It is a word on the device, ready again after each launch; launches that have the same one are done one after another,
/// on whatever streams. In a [graph](Stream::capture) it is made by the captured work, or an argument as arrays are.
///
/// # Examples
///
/// ```
/// use cuda_std::prelude::*;
/// use ndarray::Array1;
/// use warpsmith::{Device, DeviceArray, DeviceGridBarrier};
///
/// /// Divides the elements by their sum. `sums` has an element for each block.
/// #[kernel(max_threads = 256)]
/// pub fn normalize(grid: GridBarrier<'_>, x: SliceMut<'_, f32>, sums: SliceMut<'_, f32>) {
///     let threads = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
///     let share = || (thread::index_1d()..x.len()).step_by(threads);
///     sums.atomic(thread::block_idx_x() as usize).fetch_add(share().map(|i| x.get(i)).sum());
///     grid.sync();
///     let sum: f32 = (0..sums.len()).map(|block| sums.get(block)).sum();
///     share().for_each(|i| x.set(i, x.get(i) / sum));
/// }
///
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::simulator();
/// let stream = device.default_stream();
/// let mut barrier = DeviceGridBarrier::new(stream)?;
/// let mut x = DeviceArray::from_ndarray(stream, &Array1::from_elem(1000, 0.5))?;
/// let config = device.cooperative_config::<normalize>(256, 0)?;
/// let mut sums = DeviceArray::zeros(stream, config.grid.x as usize)?;
/// stream.launch::<normalize>(&config, (&mut barrier, &mut x, &mut sums))?;
/// assert_eq!(x.to_ndarray()?, Array1::from_elem(1000, 0.001));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DeviceGridBarrier {
    /// One word, whose lowest 31 bits are 0 between the launches.
    word: DeviceArray<u32, Ix1>,
}

impl DeviceGridBarrier {
    /// A barrier for launches on the stream's device.
    ///
    /// # Errors
    ///
    /// As [`DeviceArray::zeros`].
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            word: DeviceArray::zeros(stream, 1)?,
        })
    }
}

// SAFETY: a word in the memory of the stream's device, borrowed mutably, and behind the other launches that have it, as
// `prepare` sees to. It was 0, and launches leave its lowest 31 bits so: one that does not, since it failed, takes its
// device's context along, and with it the word; the simulated GPU does not use it. The launch is cooperative by the
// parameter's type.
#[diagnostic::do_not_recommend]
unsafe impl Arg<GridBarrier<'static>> for &mut DeviceGridBarrier {
    fn prepare(&self, kernel: &'static str, stream: &Stream) -> Result<()> {
        stream.check_device(kernel, self.word.stream())?;
        self.word.writes_on(stream)
    }

    fn abi(&self) -> Abi<GridBarrier<'static>> {
        Abi {
            head: std::ptr::with_exposed_provenance_mut(self.word.address() as usize),
            tail: NoTail,
        }
    }
}

// SAFETY: it has its word for itself.
unsafe impl GraphArrays for DeviceGridBarrier {
    fn arrays(&self, held: &mut HeldArrays<'_>) {
        self.word.arrays(held);
    }
}
