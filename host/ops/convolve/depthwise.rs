// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions whose groups have one channel, and the gradient of their weights.

use kernels_gpu::convolve::ConvolveShape;
use kernels_gpu::convolve::depthwise::weights::WeightPlan;
use kernels_gpu::convolve::depthwise::{FEW_TAPS, MANY_TAPS, Strips, THREADS, blocks, taps_at_once, vector};
use ndarray::{Ix3, Ix5};

use super::Convolve;
use super::forward::{FEW_OUTPUTS, Task, steps};
use super::geometry::Problem;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{LaunchConfig, Words, WordsMut};

/// Bytes at multiples of which the vectors of all types lie.
const ALIGNED: u64 = 16;

/// Whether groups have one channel, and no more outputs than are computed one by one.
pub(super) fn is_depthwise(problem: &Problem) -> bool {
    problem.channels == 1 && problem.outputs < FEW_OUTPUTS
}

/// How many outputs a thread has, of operands at these addresses.
fn outputs_of_thread<T>(shape: &ConvolveShape, addresses: [u64; 2]) -> u32 {
    let vector = vector(size_of::<T>());
    let is_aligned = addresses.iter().all(|address| address.is_multiple_of(ALIGNED));
    match is_aligned && shape.is_in_vectors(vector as usize) {
        true => vector,
        false => 1,
    }
}

/// Computes, if the groups have one channel and the kernel can count the places.
pub(super) fn compute<T: Convolve>(task: &mut Task<'_, T>) -> Result<bool> {
    if !is_depthwise(task.problem) {
        return Ok(false);
    }
    let shape = task.shape();
    let vector = outputs_of_thread::<T>(&shape, [task.x.address(), task.out.address()]);
    let taps = taps_at_once(size_of::<T>(), shape.window[2]);
    let strips = Strips::new(shape.groups * shape.outputs, vector, taps);
    let Some(vectors) = strips.vectors(&shape) else {
        return Ok(false);
    };
    let weights = task.weights_by_taps()?;
    let multiprocessors = task.stream.backend().properties().multiprocessors;
    let config = LaunchConfig::new(blocks(vectors, multiprocessors), THREADS as u32);
    let args = (Words::of(task.x), &weights, WordsMut::of(task.out), shape, strips);
    match taps {
        MANY_TAPS => task.stream.launch::<T::DepthwiseMany>(&config, args)?,
        _ => task.stream.launch::<T::Depthwise>(&config, args)?,
    }
    Ok(true)
}

/// The gradient of the weights, of a gradient of the output: groups, outputs, taps; `None` if the groups have several channels, or the
/// kernel cannot count the places.
pub(super) fn weight_gradient<T: Convolve>(
    problem: &Problem,
    x: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<Option<DeviceArray<T, Ix3>>> {
    if !is_depthwise(problem) || x.is_empty() || out.is_empty() {
        return Ok(None);
    }
    let shape = problem.to_kernel(steps(x), steps(out));
    let vector = outputs_of_thread::<T>(&shape, [x.address(), out.address()]);
    let multiprocessors = x.stream().backend().properties().multiprocessors;
    let plan =
        Strips::count(&shape).and_then(|total| WeightPlan::new(&shape, vector, FEW_TAPS, total, multiprocessors));
    let Some((plan, parts)) = plan else {
        return Ok(None);
    };
    let outputs = problem.groups * problem.outputs;
    let sums = Ix3(parts as usize, outputs, problem.taps());
    let mut sums = DeviceArray::<T::Scalar, Ix3>::uninit(x.stream(), sums)?;
    let config = LaunchConfig::new(parts * plan.blocks(), plan.threads());
    let args = (Words::of(x), Words::of(out), &mut sums, shape, plan);
    x.stream().launch::<T::DepthwiseWeights>(&config, args)?;
    T::of_sums(sums, true).map(Some)
}
