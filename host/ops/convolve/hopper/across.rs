// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on Hopper's tensor cores with places as columns: their tiles, when that is faster, and the launch.

use kernels_gpu::compiled::HopperConvolve;
use kernels_gpu::matmul::wgmma::convolve::across::{AcrossPlaces, COLUMNS, REGISTERS};
use kernels_gpu::matmul::wgmma::convolve::{CHANNELS, ConvolvePhase, ConvolvePhases, OUTPUTS, PHASES};
use kernels_gpu::matmul::wgmma::{TILE_M, WgmmaShape};
use ndarray::Ix5;

use super::{Tile, counted, launched, mapped, shape, tiles};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::convolve::Convolve;
use crate::ops::convolve::geometry::Problem;
use crate::ops::convolve::plans::Plans;
use crate::ops::matmul::hopper_config;
use crate::stream::Stream;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapMutArg, TensorMapMutInPlace};

/// Cycles for a step along k, as those of [`least_cycles`](crate::ops::matmul::least_cycles) for other tiles: with this number the faster
/// kernel, or one that takes 2 % longer, is taken of all 26 convolutions and gradients that were measured with both on an H100.
const OF_STEP: usize = 1000;

/// The lengths that so many tiles along an axis have, each once.
fn lengths(of_axis: usize) -> impl Iterator<Item = usize> {
    let evenly = move |most: usize| of_axis.div_ceil(of_axis.div_ceil(most));
    (1..=of_axis.min(COLUMNS)).filter(move |&length| evenly(length) == length)
}

/// The tile with which each multiprocessor has the fewest, where each is one of so many convolutions, and of these one whose places lie
/// together; `None` if the strides are too long for the maps of all.
fn best_tile(problem: &Problem, convolutions: usize, multiprocessors: usize) -> Option<Tile> {
    static TILES: Plans<(Problem, [usize; 2]), Option<Tile>> = Plans::new();
    let key = (*problem, [convolutions, multiprocessors]);
    TILES.get(key, || find_tile(problem, convolutions, multiprocessors))
}

/// The same, by a search.
fn find_tile(problem: &Problem, convolutions: usize, multiprocessors: usize) -> Option<Tile> {
    let beside = convolutions * problem.outputs.div_ceil(TILE_M);
    let fits = |length: usize, axis: usize| tensor_map::tile_fits(length, problem.stride[axis]);
    let [of_a, of_b, of_c] = problem.output;
    let mut best = None;
    for c in lengths(of_c).filter(|&c| fits(c, 2)) {
        for b in lengths(of_b).filter(|&b| b * c <= COLUMNS && fits(b, 1)) {
            for a in lengths(of_a).filter(|&a| a * b * c <= COLUMNS && fits(a, 0)) {
                let most = (COLUMNS / (a * b * c)).min(problem.images);
                let images = problem.images.div_ceil(problem.images.div_ceil(most));
                let tile = [images, a, b, c];
                let all = tiles(problem, tile).iter().product::<usize>();
                let turns = all.saturating_mul(beside).div_ceil(multiprocessors);
                let cost = (turns, images, all, a, b.abs_diff(c));
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, tile));
                }
            }
        }
    }
    best.map(|(_, tile)| tile)
}

/// A launch of convolutions with places as columns.
pub(super) struct Across<'a> {
    problem: &'a Problem,
    shape: WgmmaShape,
    places: AcrossPlaces,
    phases: ConvolvePhases,
    tile: Tile,
    /// Cycles that it takes.
    pub(super) cycles: usize,
}

impl<'a> Across<'a> {
    /// As [`Launch::best`](super::Launch::best), by this kernel.
    pub(super) fn new(
        problem: &'a Problem,
        phases: &[ConvolvePhase],
        tap_step: [i32; 3],
        columns: usize,
        along_outputs: bool,
        stream: &Stream,
    ) -> Option<Self> {
        let multiprocessors = stream.backend().properties().multiprocessors as usize;
        let tile = best_tile(problem, phases.len(), multiprocessors)?;
        let of_axes = tiles(problem, tile);
        let n = of_axes.into_iter().try_fold(COLUMNS, usize::checked_mul)?;
        counted(n.checked_mul(phases.len())?)?;
        let shape = WgmmaShape {
            a_along_m: along_outputs.into(),
            ..shape(phases.len(), [problem.outputs, n, columns])?
        };
        let tiles = of_axes.into_iter().product::<usize>() * problem.outputs.div_ceil(TILE_M) * phases.len();
        let cycles = tiles.div_ceil(multiprocessors) * columns.div_ceil(CHANNELS) * OF_STEP;
        let all = |numbers: [usize; 3]| numbers.map(|number| number as u32);
        let [_, a, b, c] = of_axes;
        Some(Self {
            problem,
            shape,
            places: AcrossPlaces {
                tiles: all([a, b, c]),
                tile: tile.map(|length| length as u32),
                stride: all(problem.stride),
                dilation: all(problem.dilation),
            },
            phases: launched(phases, tap_step),
            tile,
            cycles,
        })
    }

    /// A box of a result, or of the input.
    pub(super) fn of_places(&self) -> [usize; 5] {
        let [images, a, b, c] = self.tile;
        [images, a, b, c, CHANNELS]
    }

    /// As [`Launch::run`](super::Launch::run).
    pub(super) fn run<T: Convolve + HopperConvolve + TensorElement>(
        &self,
        x: &DeviceArrayRef<T, Ix5>,
        weights: &DeviceArrayRef<T, Ix5>,
        mut out: TensorMapMutArg<'_, T>,
        [_, second, third, fourth]: &[TensorMapMutInPlace<T>; PHASES],
    ) -> Result<()> {
        let stream = x.stream();
        let of_x = self.of_places();
        let x = mapped(x, &of_x)?;
        let of_weights = match self.shape.a_along_m {
            0 => [TILE_M, 1, 1, 1, CHANNELS],
            _ => [CHANNELS, 1, 1, 1, OUTPUTS],
        };
        let weights = mapped(weights, &of_weights)?;
        let [a, b, c] = self.problem.stride;
        let x = x.tensor_map_in_steps(&of_x, &[1, a, b, c, 1], Swizzle::B128)?;
        let weights = weights.tensor_map(&of_weights, Swizzle::B128)?;
        let config = hopper_config(&self.shape, REGISTERS, stream);
        let args = (
            &weights,
            &x,
            &mut out,
            second,
            third,
            fourth,
            self.shape,
            self.places,
            self.phases,
        );
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps, of a tile's
        // places, of taps, and of as many places for each result. There is a channel, so `k` is not 0, and the shape says nothing of
        // operands but how weights lie.
        unsafe { stream.launch_on_tensor_cores::<T::Across>(&config, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::problem;
    use super::*;

    #[test]
    fn tiles_of_pictures_are_full() {
        let tile = |images, output| {
            let problem = problem(images, output);
            let tile = find_tile(&problem, 1, 132).unwrap();
            assert!(tile.iter().product::<usize>() <= COLUMNS);
            (tile, tiles(&problem, tile).iter().product::<usize>())
        };
        assert_eq!(tile(32, [1, 28, 28]), ([1, 1, 14, 14], 128));
        assert_eq!(tile(64, [1, 56, 56]), ([1, 1, 14, 14], 1024));
        assert_eq!(tile(32, [1, 14, 14]), ([1, 1, 14, 14], 32));
        assert_eq!(tile(32, [1, 7, 7]), ([4, 1, 7, 7], 8));
        // 15 tiles of 200 places.
        assert_eq!(tile(16, [1, 1, 3000]), ([1, 1, 1, 200], 16 * 15));
        assert_eq!(tile(1, [1, 1, 1]), ([1, 1, 1, 1], 1));
        assert_eq!(tile(1000, [1, 1, 1]), ([200, 1, 1, 1], 5));
        // No fewer turns by 1280 full ones of 13 lines.
        assert_eq!(tile(1, [64, 64, 64]).1, 1280);
    }

    #[test]
    fn steps_of_a_map_are_short() {
        let strided = Problem {
            stride: [1, 2, 8],
            ..problem(1, [1, 200, 200])
        };
        let [_, _, rows, columns] = find_tile(&strided, 1, 132).unwrap();
        assert!((rows - 1) * 2 < 256 && (columns - 1) * 8 < 256);
        let too_long = Problem {
            stride: [1, 1, 9],
            ..problem(1, [1, 1, 100])
        };
        assert_eq!(find_tile(&too_long, 1, 132), None);
    }

    #[test]
    fn lengths_are_those_of_even_tiles() {
        assert_eq!(lengths(28).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 10, 14, 28]);
        assert_eq!(lengths(1).collect::<Vec<_>>(), [1]);
        assert_eq!(lengths(1000).last(), Some(200));
    }
}
