// SPDX-License-Identifier: MIT OR Apache-2.0
//! The barrier of a whole grid.

use core::marker::PhantomData;

use crate::machine::{self, Place};
use crate::param::{NoTail, Param};

/// A barrier at which all blocks of the grid meet (`cooperative_groups::grid_group`): for a kernel whose next phase
/// reads what other blocks have written in the last one. A kernel that takes one is launched cooperatively: all its blocks
/// run at a time, so that none waits for one that has not begun.
///
/// CUDA's `this_grid()` finds its barrier in a register of the driver's, which is not documented. Here it is a parameter:
/// a word of global memory, for which the launch's argument is `&mut DeviceGridBarrier`. By it launch and kernel know
/// that the launch is cooperative, and neither can be without the other.
///
/// A meeting costs an atomic addition for each block, and the wait for the slowest; instead of a second launch it saves
/// what the blocks keep meanwhile, in registers and shared memory.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `data[0]` becomes the sum of the elements: first each block adds up its own share, of as many elements as it has
/// /// threads, then the first one all of these.
/// #[kernel]
/// pub fn sum(grid: GridBarrier<'_>, data: SliceMut<'_, u32>) {
///     let (block, threads) = (thread::block_idx_x() as usize, thread::block_dim_x() as usize);
///     if thread::thread_idx_x() == 0 {
///         let first = block * threads;
///         data.set(first, (first..first + threads).map(|i| data.get(i)).sum());
///     }
///     grid.sync();
///     if thread::index_1d() == 0 {
///         let blocks = thread::grid_dim_x() as usize;
///         data.set(0, (0..blocks).map(|block| data.get(block * threads)).sum());
///     }
/// }
/// # let mut data: Vec<u32> = (0..128).collect();
/// # cuda_std::launch::on_simulator_cooperative(4, 32, &mut data, sum);
/// assert_eq!(data[0], (0..128).sum());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GridBarrier<'a> {
    word: *mut u32,
    _memory: PhantomData<&'a u32>,
}

impl GridBarrier<'_> {
    /// # Safety
    ///
    /// `word` is a word of global memory that lives as long as the result, and that nobody else uses meanwhile but the
    /// launch's other threads by such a barrier. Its lowest 31 bits are 0 when the launch, a cooperative one, begins, and
    /// again whenever all its threads have met. The simulated GPU does not use it.
    pub(crate) unsafe fn from_word(word: *mut u32) -> Self {
        Self {
            word,
            _memory: PhantomData,
        }
    }

    /// Waits until all threads of all blocks of the grid have come here (`grid.sync()`). What they wrote to global memory
    /// before is then visible to all of them.
    ///
    /// # Convergence
    ///
    /// All threads of the grid. One that has returned is missed for ever: the simulated GPU says so, as it does where
    /// threads come to different calls; on a GPU the launch does not end.
    #[inline(always)]
    #[track_caller]
    pub fn sync(self) {
        // SAFETY: the word of a cooperative launch, by the contract of `from_word`.
        unsafe { machine::sync_grid(self.word) };
    }
}

// SAFETY: a pointer.
unsafe impl Param for GridBarrier<'static> {
    type Head = *mut u32;
    type Tail = NoTail;
    type At<'launch> = GridBarrier<'launch>;

    const IS_GRID_BARRIER: bool = true;

    #[inline(always)]
    unsafe fn from_abi<'launch>(head: &'launch Self::Head, _: NoTail, _: Place) -> Self::At<'launch> {
        // SAFETY: the caller's promise: the word of a barrier, for the launch's time; and one that has such a parameter is
        // cooperative.
        unsafe { GridBarrier::from_word(*head) }
    }
}
