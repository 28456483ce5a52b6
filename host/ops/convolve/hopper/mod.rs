// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on Hopper's tensor cores: which their kernel takes, and how it has them.

mod weights;

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{HopperConvolve, HopperConvolveParams};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::convolve::{CHANNELS, ConvolvePlaces};
use kernels_gpu::matmul::wgmma::{BOX_M, TILE_M, WgmmaShape, tile_n};
use ndarray::Ix5;

pub(super) use self::weights::weight_gradient;
use super::geometry::Problem;
use super::{Convolve, Task};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::matmul::{best_registers, hopper_config, is_hopper};
use crate::ops::transpose::Ordered;
use crate::tensor_map::{self, Swizzle, TensorElement};

/// Elements of 16 bytes: at multiples of them the lines of a tensor map begin.
const UNIT: usize = 8;

/// The registers that the sums of a tile take: widths of tiles.
const REGISTERS: [usize; 3] = [128, 64, 32];

/// Images and places along each axis of a tile, as powers of 2.
type LogTile = [u32; 4];

/// The lengths that a tile, or so many of its places one after another, has along the axes, and those of channels or outputs.
fn boxed(log_tile: LogTile, mut places: usize, last: usize) -> [usize; 5] {
    let mut lengths = [1, 1, 1, 1, last];
    for axis in [3, 2, 1, 0] {
        lengths[axis] = places.min(1 << log_tile[axis]);
        places /= lengths[axis];
    }
    lengths
}

/// Tiles along each axis.
fn tiles(problem: &Problem, log_tile: LogTile) -> [usize; 4] {
    let [a, b, c] = problem.output;
    let lengths = [problem.images, a, b, c];
    std::array::from_fn(|axis| lengths[axis].div_ceil(1 << log_tile[axis]))
}

/// The tile of so many places of which the fewest do, and of these one whose places lie together; `None` if the strides are too long for
/// the maps of all.
fn best_tile(problem: &Problem, places: usize) -> Option<LogTile> {
    let log = places.trailing_zeros();
    let all = (0..=log)
        .flat_map(|c| (0..=log - c).flat_map(move |b| (0..=log - c - b).map(move |a| [log - a - b - c, a, b, c])));
    let cost = |log_tile: &LogTile| {
        let [images, a, b, c] = *log_tile;
        (
            tiles(problem, *log_tile).iter().product::<usize>(),
            images,
            a,
            b.abs_diff(c),
        )
    };
    let fits =
        |log_tile: &LogTile| (0..3).all(|axis| tensor_map::tile_fits(1 << log_tile[axis + 1], problem.stride[axis]));
    all.filter(fits).min_by_key(cost)
}

/// Whether the kernels take such operands. Of fewer channels most of a chunk would be zeros.
fn is_taken(problem: &Problem) -> bool {
    let of_units = [problem.channels, problem.outputs]
        .iter()
        .all(|length| length.is_multiple_of(UNIT));
    of_units && problem.groups == 1 && 2 * problem.channels >= problem.channels.next_multiple_of(CHANNELS)
}

/// Taps, with whole chunks of their channels.
fn columns(problem: &Problem) -> usize {
    problem.taps() * problem.channels.next_multiple_of(CHANNELS)
}

/// A length that coordinates of a tensor map count, and what is a tile beyond.
fn counted(length: usize) -> Option<u32> {
    let length = u32::try_from(length).ok();
    length.filter(|&length| length <= i32::MAX as u32 - 256)
}

/// So many products of these extents, if the kernels count them.
fn shape(products: usize, extents: [usize; 3]) -> Option<WgmmaShape> {
    let [m, n, k] = extents.map(counted);
    Some(WgmmaShape {
        batch: counted(products)?,
        m: m?,
        n: n?,
        k: k?,
        a_step: 0,
        b_step: 0,
        a_along_m: 0,
        b_along_n: 0,
        c_transposed: 0,
        tile_m: TILE_M as u32,
        a_lines: TILE_M as u32,
        cluster: 0,
    })
}

/// The places as kernels take them.
fn places(problem: &Problem, log_tile: LogTile) -> ConvolvePlaces {
    let all = |numbers: [usize; 3]| numbers.map(|number| number as u32);
    let [_, a, b, c] = tiles(problem, log_tile);
    ConvolvePlaces {
        tiles: all([a, b, c]),
        log_tile,
        window: all(problem.window),
        stride: all(problem.stride),
        dilation: all(problem.dilation),
        first: problem.first.map(|first| first as i32),
        steps: problem.channels.div_ceil(CHANNELS) as u32,
    }
}

/// Elements that a map of boxes of this shape can have: themselves, or a copy.
fn mapped<'a, T: Convolve + TensorElement>(
    elements: &'a DeviceArrayRef<T, Ix5>,
    tile: &[usize],
) -> Result<Ordered<'a, T, Ix5>> {
    Ok(match tensor_map::layout(elements, tile, Swizzle::B128) {
        Ok(_) => Ordered::AsIs(elements.view()),
        Err(_) => Ordered::Copied(elements.to_array()?),
    })
}

/// Computes, if the device has such tensor cores and the kernel is written for such operands.
pub(super) fn compute<T: Convolve + HopperConvolve + TensorElement>(task: &mut Task<'_, T>) -> Result<bool> {
    let problem = task.problem;
    if !is_hopper(task.stream) || !is_taken(problem) {
        return Ok(false);
    }
    let Some(log_tile) = best_tile(problem, TILE_M) else {
        return Ok(false);
    };
    let tiles = tiles(problem, log_tile);
    let k = columns(problem);
    let m = tiles.into_iter().try_fold(TILE_M, usize::checked_mul);
    let Some(shape) = m.and_then(|m| shape(1, [m, problem.outputs, k])) else {
        return Ok(false);
    };
    let of_out = boxed(log_tile, BOX_M, CHANNELS);
    if tensor_map::layout(&*task.out, &of_out, Swizzle::B128).is_err() {
        return Ok(false);
    }
    let places = places(problem, log_tile);
    let of = GemmShape {
        batch: 1,
        first: 0,
        m: shape.m as usize,
        n: problem.outputs,
        k,
        a: [0; 3],
        b: [0; 3],
    };
    let launch = Launch { shape, places };
    match best_registers(&of, size_of::<T>(), &REGISTERS, task.stream) {
        128 => launch.run::<T, T::N256>(task, 128)?,
        64 => launch.run::<T, T::N128>(task, 64)?,
        _ => launch.run::<T, T::N64>(task, 32)?,
    }
    Ok(true)
}

struct Launch {
    shape: WgmmaShape,
    places: ConvolvePlaces,
}

impl Launch {
    /// By the kernel whose sums take so many registers of a thread, as `K`'s do.
    fn run<T: Convolve + TensorElement, K: Kernel<Params = HopperConvolveParams<T>>>(
        &self,
        task: &mut Task<'_, T>,
        registers: usize,
    ) -> Result<()> {
        let log_tile = self.places.log_tile;
        let of_x = boxed(log_tile, TILE_M, CHANNELS);
        let x = mapped(task.x, &of_x)?;
        let of_weights = [tile_n(registers), 1, 1, 1, CHANNELS];
        let weights = mapped(task.weights, &of_weights)?;
        let [a, b, c] = task.problem.stride;
        let x = x.tensor_map_in_steps(&of_x, &[1, a, b, c, 1], Swizzle::B128)?;
        let weights = weights.tensor_map(&of_weights, Swizzle::B128)?;
        let mut out = task.out.view_mut();
        let mut out = out.tensor_map_mut(&boxed(log_tile, BOX_M, CHANNELS), Swizzle::B128)?;
        let config = hopper_config(&self.shape, registers, task.stream);
        let args = (&x, &weights, &mut out, self.shape, self.places);
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps, of a tile's
        // places, of taps, and of as many of a tile's places as a warp stores. There is a channel, so `k` is not 0, and the shape says
        // nothing of operands.
        unsafe { task.stream.launch_on_tensor_cores::<K>(&config, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(images: usize, output: [usize; 3]) -> Problem {
        Problem {
            images,
            input: output,
            output,
            window: [1; 3],
            stride: [1; 3],
            dilation: [1; 3],
            first: [0; 3],
            groups: 1,
            channels: 64,
            outputs: 64,
        }
    }

    #[test]
    fn tiles_waste_little() {
        let tile = |images, output| {
            let problem = problem(images, output);
            let log_tile = best_tile(&problem, TILE_M).unwrap();
            assert_eq!(log_tile.iter().sum::<u32>(), 7);
            let tiles = tiles(&problem, log_tile);
            (log_tile.map(|log| 1 << log), tiles.iter().product::<usize>())
        };
        // 56 is 7 · 8, 28 is 7 · 4, and 14 is 7 · 2: no place is wasted.
        assert_eq!(tile(64, [1, 56, 56]), ([2, 1, 8, 8], 64 * 56 * 56 / 128));
        assert_eq!(tile(64, [1, 28, 28]).1, 64 * 28 * 28 / 128);
        assert_eq!(tile(64, [1, 14, 14]).1, 64 * 14 * 14 / 128);
        assert_eq!(tile(1, [1, 1, 1000]), ([1, 1, 1, 128], 8));
        assert_eq!(tile(1, [16, 16, 16]).1, 32);
        assert_eq!(tile(128, [1, 1, 1]), ([128, 1, 1, 1], 1));
    }

    #[test]
    fn places_one_after_another_are_a_box() {
        assert_eq!(boxed([1, 0, 3, 3], 128, 64), [2, 1, 8, 8, 64]);
        assert_eq!(boxed([1, 0, 3, 3], 16, 64), [1, 1, 2, 8, 64]);
        assert_eq!(boxed([6, 0, 0, 1], 16, 64), [8, 1, 1, 2, 64]);
        assert_eq!(boxed([0, 0, 0, 7], 16, 64), [1, 1, 1, 16, 64]);
    }
}
