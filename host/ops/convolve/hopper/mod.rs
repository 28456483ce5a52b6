// SPDX-License-Identifier: MIT OR Apache-2.0
//! Convolutions on Hopper's tensor cores: which their kernel takes, and how it has them.

mod across;
mod input;
pub(super) mod patches;
mod weights;

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::{HopperConvolve, HopperConvolveParams};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::convolve::{CHANNELS, ConvolvePhase, ConvolvePhases, ConvolvePlaces, OUTPUTS, PHASES};
use kernels_gpu::matmul::wgmma::{BOX_M, TILE_M, WgmmaShape, tile_n};
use ndarray::Ix5;

use self::across::Across;
pub(super) use self::input::input_gradient;
pub(super) use self::weights::weight_gradient;
use super::geometry::Problem;
use super::plans::Plans;
use super::{Convolve, Task};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::ops::matmul::{best_registers, hopper_config, is_hopper, least_cycles};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapMutArg, TensorMapMutInPlace};

/// Elements of 16 bytes: at multiples of them the lines of a tensor map begin.
const UNIT: usize = 8;

/// The registers that the sums of a tile take: widths of tiles.
const REGISTERS: [usize; 3] = [128, 64, 32];

/// Images and places along each axis of a tile.
type Tile = [usize; 4];

/// The same, as powers of 2.
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

/// What a tile has along the axes.
fn tile_of(log_tile: LogTile) -> Tile {
    log_tile.map(|log| 1 << log)
}

/// Tiles along each axis.
fn tiles(problem: &Problem, tile: Tile) -> [usize; 4] {
    let [a, b, c] = problem.output;
    let lengths = [problem.images, a, b, c];
    std::array::from_fn(|axis| lengths[axis].div_ceil(tile[axis]))
}

/// The tile of so many places of which the fewest do, and of these one whose places lie together; `None` if the strides are too long for
/// the maps of all.
fn best_tile(problem: &Problem, places: usize) -> Option<LogTile> {
    static TILES: Plans<(Problem, usize), Option<LogTile>> = Plans::new();
    TILES.get((*problem, places), || find_tile(problem, places))
}

/// The same, by a search.
fn find_tile(problem: &Problem, places: usize) -> Option<LogTile> {
    let log = places.trailing_zeros();
    let all = (0..=log)
        .flat_map(|c| (0..=log - c).flat_map(move |b| (0..=log - c - b).map(move |a| [log - a - b - c, a, b, c])));
    let cost = |log_tile: &LogTile| {
        let [images, a, b, c] = *log_tile;
        (
            tiles(problem, tile_of(*log_tile)).iter().product::<usize>(),
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
        k_step: 0,
        a_along_m: 0,
        b_along_n: 0,
        c_transposed: 0,
        tile_m: TILE_M as u32,
        a_lines: TILE_M as u32,
        cluster: 0,
        last_row: u32::MAX,
        last_column: u32::MAX,
    })
}

/// Convolutions as kernels take them, of which there is one at least; those that there are not are the first one again.
fn launched(phases: &[ConvolvePhase], tap_step: [i32; 3]) -> ConvolvePhases {
    ConvolvePhases {
        tap_step,
        all: std::array::from_fn(|i| *phases.get(i).unwrap_or(&phases[0])),
    }
}

/// The places as kernels take them.
fn places(problem: &Problem, log_tile: LogTile) -> ConvolvePlaces {
    let all = |numbers: [usize; 3]| numbers.map(|number| number as u32);
    let [_, a, b, c] = tiles(problem, tile_of(log_tile));
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

/// Computes, if the device has such tensor cores and a kernel is written for such operands.
pub(super) fn compute<T: Convolve + HopperConvolve + TensorElement>(task: &mut Task<'_, T>) -> Result<bool> {
    let problem = task.problem;
    if !is_hopper(task.stream) || !is_taken(problem) {
        return Ok(false);
    }
    let phase = ConvolvePhase {
        window: problem.window.map(|window| window as u32),
        tap: [0; 3],
        first: problem.first.map(|first| first as i32),
        steps: problem.channels.div_ceil(CHANNELS) as u32,
    };
    let Some(launch) = Launch::best(problem, &[phase], [1; 3], columns(problem), false, task.stream) else {
        return Ok(false);
    };
    if tensor_map::layout(&*task.out, &launch.of_out(), Swizzle::B128).is_err() {
        return Ok(false);
    }
    let mut out = task.out.view_mut();
    let out = out.tensor_map_mut(&launch.of_out(), Swizzle::B128)?;
    // SAFETY: of the launch's other convolutions, none.
    let none = [(); PHASES].map(|()| unsafe { out.in_place_mut() });
    launch.run(task.x, task.weights, out, &none)?;
    Ok(true)
}

/// A launch of convolutions.
enum Launch<'a> {
    /// With places as the lines of what is multiplied.
    Lines(Lines<'a>),
    /// As its columns.
    Across(Across<'a>),
}

impl<'a> Launch<'a> {
    /// That of convolutions which differ from that of the problem in their taps, whose sums have so many columns, of weights that lie along
    /// their taps and channels or, of channels, taps and outputs, along the outputs: by the kernel with which it is done first; `None` if
    /// none can count them. There is one convolution at least, and no more than a launch has.
    fn best(
        problem: &'a Problem,
        phases: &[ConvolvePhase],
        tap_step: [i32; 3],
        columns: usize,
        along_outputs: bool,
        stream: &Stream,
    ) -> Option<Self> {
        let mut lines = Lines::new(problem, phases, tap_step, columns)?;
        lines.shape.b_along_n = along_outputs.into();
        let across = Across::new(problem, phases, tap_step, columns, along_outputs, stream);
        let cycles = least_cycles(&lines.of, size_of::<u16>(), &REGISTERS, stream);
        Some(match across {
            Some(across) if across.cycles < cycles => Self::Across(across),
            _ => Self::Lines(lines),
        })
    }

    /// A box of a result.
    fn of_out(&self) -> [usize; 5] {
        match self {
            Self::Lines(launch) => boxed(launch.places.log_tile, BOX_M, CHANNELS),
            Self::Across(launch) => launch.of_places(),
        }
    }

    /// Launches it. `out` stands for all results, and has the map of the first convolution's; `maps` has those of all.
    fn run<T: Convolve + HopperConvolve + TensorElement>(
        &self,
        x: &DeviceArrayRef<T, Ix5>,
        weights: &DeviceArrayRef<T, Ix5>,
        out: TensorMapMutArg<'_, T>,
        maps: &[TensorMapMutInPlace<T>; PHASES],
    ) -> Result<()> {
        match self {
            Self::Lines(launch) => launch.run(x, weights, out, maps),
            Self::Across(launch) => launch.run(x, weights, out, maps),
        }
    }
}

/// A launch of convolutions with places as lines.
struct Lines<'a> {
    problem: &'a Problem,
    shape: WgmmaShape,
    places: ConvolvePlaces,
    phases: ConvolvePhases,
    /// What it costs.
    of: GemmShape,
}

impl<'a> Lines<'a> {
    /// That of convolutions which differ from that of the problem in their taps, whose sums have so many columns; `None` if the kernel
    /// cannot count them. There is one at least, and no more than a launch has.
    fn new(problem: &'a Problem, phases: &[ConvolvePhase], tap_step: [i32; 3], columns: usize) -> Option<Self> {
        let log_tile = best_tile(problem, TILE_M)?;
        let m = tiles(problem, tile_of(log_tile))
            .into_iter()
            .try_fold(TILE_M, usize::checked_mul)?;
        let all = m.checked_mul(phases.len())?;
        counted(all)?;
        let shape = shape(phases.len(), [m, problem.outputs, columns])?;
        let of = GemmShape {
            batch: phases.len(),
            first: 0,
            m,
            n: problem.outputs,
            k: columns,
            a: [0; 3],
            b: [0; 3],
            whole: 0,
            pitch: problem.outputs,
        };
        Some(Self {
            problem,
            shape,
            places: places(problem, log_tile),
            phases: launched(phases, tap_step),
            of,
        })
    }

    /// Launches it, with tiles of the width with which it is done first, as [`Launch::run`].
    fn run<T: Convolve + HopperConvolve + TensorElement>(
        &self,
        x: &DeviceArrayRef<T, Ix5>,
        weights: &DeviceArrayRef<T, Ix5>,
        out: TensorMapMutArg<'_, T>,
        maps: &[TensorMapMutInPlace<T>; PHASES],
    ) -> Result<()> {
        match best_registers(&self.of, size_of::<T>(), &REGISTERS, x.stream()) {
            128 => self.run_by::<T, T::N256>(x, weights, out, maps, 128),
            64 => self.run_by::<T, T::N128>(x, weights, out, maps, 64),
            _ => self.run_by::<T, T::N64>(x, weights, out, maps, 32),
        }
    }

    /// By the kernel whose sums take so many registers of a thread, as `K`'s do.
    fn run_by<T: Convolve + TensorElement, K: Kernel<Params = HopperConvolveParams<T>>>(
        &self,
        x: &DeviceArrayRef<T, Ix5>,
        weights: &DeviceArrayRef<T, Ix5>,
        mut out: TensorMapMutArg<'_, T>,
        [_, second, third, fourth]: &[TensorMapMutInPlace<T>; PHASES],
        registers: usize,
    ) -> Result<()> {
        let stream = x.stream();
        let of_x = boxed(self.places.log_tile, TILE_M, CHANNELS);
        let x = mapped(x, &of_x)?;
        let of_weights = match self.shape.b_along_n {
            0 => [tile_n(registers), 1, 1, 1, CHANNELS],
            _ => [CHANNELS, 1, 1, 1, OUTPUTS],
        };
        let weights = mapped(weights, &of_weights)?;
        let [a, b, c] = self.problem.stride;
        let x = x.tensor_map_in_steps(&of_x, &[1, a, b, c, 1], Swizzle::B128)?;
        let weights = weights.tensor_map(&of_weights, Swizzle::B128)?;
        let config = hopper_config(&self.shape, registers, stream);
        let args = (
            &x,
            &weights,
            &mut out,
            second,
            third,
            fourth,
            self.shape,
            self.places,
            self.phases,
        );
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps, of a tile's
        // places, of taps, and of as many of a tile's places as a warp stores. There is a channel, so `k` is not 0, and the shape says
        // nothing of operands but how weights lie.
        unsafe { stream.launch_on_tensor_cores::<K>(&config, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn problem(images: usize, output: [usize; 3]) -> Problem {
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
            let tiles = tiles(&problem, tile_of(log_tile));
            (tile_of(log_tile), tiles.iter().product::<usize>())
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
