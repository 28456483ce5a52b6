// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gradients of weights on Hopper's tensor cores: into how many parts the places are cut, and the launch.

use kernels_gpu::compiled::HopperConvolve;
use kernels_gpu::matmul::wgmma::convolve::CHANNELS;
use kernels_gpu::matmul::wgmma::convolve::weights::{PLACES, REGISTERS};
use kernels_gpu::matmul::wgmma::{BOX_M, LINE, TILE_M, WgmmaShape, tile_n};
use kernels_gpu::num::Num;
use ndarray::{Ix3, Ix4, Ix5};

use super::{LogTile, best_tile, boxed, columns, counted, is_taken, mapped, places, shape, tile_of, tiles};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::convolve::Convolve;
use crate::ops::convolve::geometry::Problem;
use crate::ops::convolve::plans::Plans;
use crate::ops::matmul::{hopper_config, is_hopper};
use crate::tensor_map::{Swizzle, TensorElement};

/// Steps along k that a tile takes as long as, beside its own: until its first ones are there, and for its sums to be stored and
/// added to those of other parts.
const OF_TILE: usize = 12;

/// Steps along k of a part of the places, which are so many in all, where each part has so many tiles of sums: those with which all are
/// done first.
fn steps_of_part(steps: usize, tiles: usize, multiprocessors: usize) -> usize {
    // With more parts each multiprocessor would have several tiles of fewer steps than are lost with one.
    let most = (8 * multiprocessors).div_ceil(tiles).min(steps);
    let cost = |&steps_of_part: &usize| {
        let turns = (tiles * steps.div_ceil(steps_of_part)).div_ceil(multiprocessors);
        turns * (steps_of_part + OF_TILE)
    };
    let all = (1..=most).map(|parts| steps.div_ceil(parts));
    all.min_by_key(cost).unwrap_or(steps)
}

/// The tile of a step's places, and the products of all parts; `None` if the kernel cannot count them.
fn plan(problem: &Problem, multiprocessors: usize) -> Option<(LogTile, WgmmaShape)> {
    static PLANS: Plans<(Problem, usize), Option<(LogTile, WgmmaShape)>> = Plans::new();
    PLANS.get((*problem, multiprocessors), || find_plan(problem, multiprocessors))
}

/// The same, by a search.
fn find_plan(problem: &Problem, multiprocessors: usize) -> Option<(LogTile, WgmmaShape)> {
    let log_tile = best_tile(problem, PLACES)?;
    let steps = tiles(problem, tile_of(log_tile))
        .into_iter()
        .try_fold(1, usize::checked_mul)?;
    counted(steps.checked_mul(PLACES)?)?;
    let columns = columns(problem);
    let of_part = problem.outputs.div_ceil(TILE_M) * columns.div_ceil(tile_n(REGISTERS));
    let steps_of_part = steps_of_part(steps, of_part, multiprocessors);
    let parts = steps.div_ceil(steps_of_part);
    let shape = shape(parts, [problem.outputs, columns, steps_of_part * PLACES])?;
    Some((log_tile, shape))
}

/// The gradient of the weights, of a gradient of the output in C order, as outputs, and taps with their channels, in one group: if the
/// device has such tensor cores, and the kernel is written for such operands.
pub(in crate::ops::convolve) fn weight_gradient<T: Convolve + HopperConvolve + TensorElement + Num<Wide = f32>>(
    problem: &Problem,
    x: &DeviceArrayRef<T, Ix5>,
    out: &DeviceArrayRef<T, Ix5>,
) -> Result<Option<DeviceArray<T, Ix3>>> {
    let stream = x.stream();
    if !is_hopper(stream) || !is_taken(problem) || x.is_empty() || out.is_empty() {
        return Ok(None);
    }
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let Some((log_tile, shape)) = plan(problem, multiprocessors) else {
        return Ok(None);
    };
    let tile = boxed(log_tile, PLACES, CHANNELS);
    let (x, out) = (mapped(x, &tile)?, mapped(out, &tile)?);
    let [a, b, c] = problem.stride;
    let x = x.tensor_map_in_steps(&tile, &[1, a, b, c, 1], Swizzle::B128)?;
    let out = out.tensor_map(&tile, Swizzle::B128)?;
    let (parts, taps, channels) = (shape.batch as usize, problem.taps(), problem.channels);
    let mut sums = DeviceArray::<f32, Ix4>::uninit(stream, Ix4(parts, problem.outputs, taps, channels))?;
    let mut of_sums = sums.tensor_map_mut(&[1, BOX_M, 1, LINE / size_of::<f32>()], Swizzle::B128)?;
    let config = hopper_config(&shape, REGISTERS, stream);
    let args = (&out, &x, &mut of_sums, shape, places(problem, log_tile));
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps, of a step's places,
    // and of as many outputs of a tap as a warp stores. There is a place, so `k` is not 0, and the shape says nothing of operands.
    unsafe { stream.launch_on_tensor_cores::<T::Weights>(&config, args)? };
    let sums = sums.into_shape(Ix3(parts, problem.outputs, taps * channels))?;
    T::of_sums(sums, parts > 1).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_the_device() {
        // 64 images of 56², 6 tiles of sums: each of 132 multiprocessors has one, of a 22nd of the places.
        assert_eq!(steps_of_part(3136, 6, 132), 143);
        // As many tiles as multiprocessors, and few places: they stay in one part.
        assert_eq!(steps_of_part(50, 132, 132), 50);
        assert_eq!(steps_of_part(1, 6, 132), 1);
        for (steps, tiles, multiprocessors) in [(1000, 7, 2), (49, 72, 132), (5, 1000, 132)] {
            let of_part = steps_of_part(steps, tiles, multiprocessors);
            assert!((1..=steps).contains(&of_part));
            // No part is without places.
            assert!((steps.div_ceil(of_part) - 1) * of_part < steps);
        }
    }
}
