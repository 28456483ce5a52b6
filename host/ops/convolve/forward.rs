// SPDX-License-Identifier: MIT OR Apache-2.0
//! The convolution itself: which kernel computes it.

use cuda_std::launch::SafeKernel;
use kernels_gpu::compiled::{ConvolveParams, ConvolveTiled};
use kernels_gpu::convolve::{ConvolveShape, direct, tiled};
use ndarray::Ix5;

use super::geometry::Problem;
use super::{Convolve, OPERATION, depthwise, gathered};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::{LaunchConfig, Words, WordsMut};
use crate::stream::Stream;

/// Groups of fewer outputs are computed output by output: a tile of a product has no use of its columns.
pub(super) const FEW_OUTPUTS: usize = 8;

/// A convolution whose operands fit, of an output that is not empty.
#[doc(hidden)]
pub struct Task<'a, T> {
    pub(super) problem: &'a Problem,
    pub(super) x: &'a DeviceArrayRef<T, Ix5>,
    pub(super) weights: &'a DeviceArrayRef<T, Ix5>,
    pub(super) stream: &'a Stream,
    pub(super) out: &'a mut DeviceArrayRef<T, Ix5>,
}

impl<T: Convolve> Task<'_, T> {
    pub(super) fn run(mut self) -> Result<()> {
        let problem = self.problem;
        // Without an input all that is read is padding.
        if problem.channels == 0 || self.x.is_empty() {
            return self.out.fill(T::ZERO);
        }
        if problem.outputs < FEW_OUTPUTS {
            return match T::depthwise_by_patches(&mut self)?
                || depthwise::compute(&mut self)?
                || T::by_patches(&mut self)?
            {
                true => Ok(()),
                false => self.directly(),
            };
        }
        let is_product = problem.is_product() && self.x.is_standard_layout() && self.out.is_standard_layout();
        let is_done =
            !is_product && (T::by_patches(&mut self)? || T::by_tensor_cores(&mut self)? || T::by_tiles(&mut self)?);
        match is_done {
            true => Ok(()),
            false => gathered::compute(&mut self),
        }
    }

    /// By a thread for each output.
    fn directly(mut self) -> Result<()> {
        let weights = self.weights_by_taps()?;
        let outputs = self.problem.places() * self.problem.groups * self.problem.outputs;
        let blocks = outputs.div_ceil(direct::THREADS).min(1 << 20);
        self.launch::<T::Direct>(&weights, blocks, direct::THREADS)
    }

    /// Taps, channels, outputs.
    pub(super) fn weights_by_taps(&self) -> Result<DeviceArray<T, Ix5>> {
        self.weights.view().permuted_axes([1, 2, 3, 4, 0])?.to_array()
    }

    /// The shape as kernels take it.
    pub(super) fn shape(&self) -> ConvolveShape {
        self.problem.to_kernel(steps(self.x), steps(self.out))
    }

    fn launch<K: SafeKernel<Params = ConvolveParams<T>>>(
        &mut self,
        weights: &DeviceArrayRef<T, Ix5>,
        blocks: usize,
        threads: usize,
    ) -> Result<()> {
        let shape = self.shape();
        let config = LaunchConfig::new(blocks as u32, threads as u32);
        let args = (Words::of(self.x), weights, WordsMut::of(self.out), shape);
        self.stream.launch::<K>(&config, args)
    }
}

/// The distances between elements along each axis.
pub(super) fn steps<T: Convolve>(elements: &DeviceArrayRef<T, Ix5>) -> [usize; 5] {
    let steps = elements.steps();
    std::array::from_fn(|axis| steps[axis])
}

impl<T: Convolve + ConvolveTiled> Task<'_, T> {
    /// By tiles of the size with which it is done first.
    pub(super) fn by_tiles(&mut self) -> Result<()> {
        let problem = self.problem;
        let tiles = |[places, outputs]: [usize; 2]| {
            let of_group = problem.places().div_ceil(places) * problem.outputs.div_ceil(outputs);
            of_group.saturating_mul(problem.groups)
        };
        let multiprocessors = self.stream.backend().properties().multiprocessors as usize;
        // What an element of a tile costs: of small ones more, because they read more of shared memory for each product.
        let cost = |tile: [usize; 2], weight: usize| {
            let turns = tiles(tile).div_ceil(multiprocessors);
            turns.saturating_mul(tile[0] * tile[1] * weight)
        };
        let is_large = cost(T::LARGE_TILE, 40) <= cost(T::SMALL_TILE, 50);
        let tiles = tiles(if is_large { T::LARGE_TILE } else { T::SMALL_TILE });
        if tiles > i32::MAX as usize {
            return Err(Error::Shape {
                operation: OPERATION,
                given: format!(
                    "{} places and {} groups of {} outputs",
                    problem.places(),
                    problem.groups,
                    problem.outputs
                ),
                wanted: format!("at most {} tiles", i32::MAX),
            });
        }
        let weights = self.weights.in_order()?;
        match is_large {
            true => self.launch::<T::Large>(&weights, tiles, tiled::THREADS),
            false => self.launch::<T::Small>(&weights, tiles, tiled::THREADS),
        }
    }
}
