// SPDX-License-Identifier: MIT OR Apache-2.0
//! What launches of the kernels for Hopper's tensor cores have in common, whatever numbers these multiply.

use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{BOX_M, HALF_TILE_M, LINE, TILE_M, WgmmaShape, may_be_in_pairs, shared_bytes, tile_n};
use ndarray::{Dimension, Ix3, s};

use super::HOPPER;
use super::gemm::Multiplication;
use super::hopper_costs::{best_rows, cycles};
use super::operand::{can_be_mapped, coordinates};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorElement, TensorMapMutArg};
use crate::view::DeviceViewMut;

/// The first driver, by its CUDA version, that launches in clusters of which the kernel does not say how large they are, as launches
/// behind others are.
const CLUSTERS_DRIVER: (u32, u32) = (12, 3);

/// Whether kernels are launched in clusters on the stream's device.
pub(super) fn takes_clusters(stream: &Stream) -> bool {
    let version = stream.backend().properties().driver_version;
    // The simulator has none.
    is_hopper(stream) && version.is_none_or(|version| version >= CLUSTERS_DRIVER)
}

/// Whether the stream's device has Hopper's tensor cores.
pub(in crate::ops) fn is_hopper(stream: &Stream) -> bool {
    stream.backend().properties().tensor_cores == Some(HOPPER)
}

/// The shape of the kernel's launch, if its numbers fit.
pub(super) fn wgmma_shape<T, D>(product: &Multiplication<'_, T, D>) -> Option<WgmmaShape> {
    let shape = &product.shape;
    // Of the smallest tiles, either way around.
    let tiles = shape.batch.checked_mul(shape.m.div_ceil(tile_n(32)))?;
    u32::try_from(tiles.checked_mul(shape.n.div_ceil(tile_n(32)))?).ok()?;
    let in_parts = shape.whole > 0;
    if in_parts {
        coordinates(shape.batch.checked_mul(shape.k)?)?;
    }
    Some(WgmmaShape {
        batch: coordinates(shape.batch)?,
        m: coordinates(shape.m)?,
        n: coordinates(shape.n)?,
        k: coordinates(shape.k).filter(|&k| k > 0)?,
        a_step: (!in_parts && shape.a[0] != 0).into(),
        b_step: (!in_parts && shape.b[0] != 0).into(),
        k_step: if in_parts { coordinates(shape.k)? } else { 0 },
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

/// Of these widths of tiles, by the registers of their sums, the one with which products of elements of so many bytes are done
/// first.
pub(in crate::ops) fn best_registers(of: &GemmShape, element: usize, widths: &[usize], stream: &Stream) -> usize {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let cost = |&registers: &usize| cycles(of, element, registers, multiprocessors);
    widths.iter().copied().min_by_key(cost).unwrap_or(64)
}

/// The cycles with the best of these widths.
pub(in crate::ops) fn least_cycles(of: &GemmShape, element: usize, widths: &[usize], stream: &Stream) -> usize {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let all = widths.iter().map(|&width| cycles(of, element, width, multiprocessors));
    all.min().unwrap_or(usize::MAX)
}

/// Has a launch's shape the rows of tiles of so many columns with which the product is done first, and the lines of `A` that a copy
/// brings: of the smallest tiles of elements of 8 and 16 bits, where these lie along k, no more than there are. What a copy has beyond
/// the matrix takes it longer than elements do.
pub(super) fn set_rows(
    shape: &mut WgmmaShape,
    of: &GemmShape,
    element: usize,
    registers: usize,
    a_along_m: bool,
    stream: &Stream,
) {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let rows = best_rows(of, element, registers, multiprocessors).0;
    let lines = match rows == HALF_TILE_M && element <= 2 && !a_along_m {
        true => of.m.next_multiple_of(8).min(rows),
        false => rows,
    };
    (shape.tile_m, shape.a_lines) = (rows as u32, lines as u32);
}

/// Has the last tiles of a launch's shape, of so many columns, reach back: by whole boxes of the result, of so many rows and columns.
pub(super) fn reach_back(shape: &mut WgmmaShape, tile_n: usize, [rows, columns]: [usize; 2]) {
    let last = |length: u32, of_box: usize, tile: u32| length.next_multiple_of(of_box as u32).saturating_sub(tile);
    shape.last_row = last(shape.m, rows, shape.tile_m);
    shape.last_column = last(shape.n, columns, tile_n as u32);
}

/// A launch by tiles whose sums take so many registers: of a block for each multiprocessor, if there are as many tiles.
pub(in crate::ops) fn config(shape: &WgmmaShape, registers: usize, stream: &Stream) -> LaunchConfig {
    let rows = u64::from(shape.m).div_ceil(shape.tile_m.into());
    let columns = u64::from(shape.n).div_ceil(tile_n(registers) as u64);
    // Those of a cluster are side by side, and of four also one above the other, or, as pairs, that alone.
    let [side_by_side, above] = match may_be_in_pairs(registers) {
        true => [false, shape.cluster > 0],
        false => [shape.cluster > 0, shape.cluster > 1],
    }
    .map(|is| 1 << u32::from(is));
    let (rows, columns) = (rows.next_multiple_of(above), columns.next_multiple_of(side_by_side));
    let tiles = u64::from(shape.batch) * rows * columns;
    // Whole clusters: one, if there is no room for it.
    let room = u64::from(stream.backend().properties().multiprocessors) >> shape.cluster;
    let blocks = tiles.min(room.max(1) << shape.cluster);
    LaunchConfig {
        dynamic_shared: shared_bytes(registers),
        ..LaunchConfig::new(blocks as u32, shape.threads(registers) as u32)
    }
}

/// A box of so many rows of a result.
pub(super) const fn result_box<C>(rows: usize) -> [usize; 3] {
    [1, rows, LINE / size_of::<C>()]
}

/// The map of a result.
pub(super) fn result_map<'a, C: TensorElement>(
    out: &'a mut DeviceViewMut<'_, C, Ix3>,
) -> Result<TensorMapMutArg<'a, C>> {
    out.tensor_map_mut(&result_box::<C>(BOX_M), Swizzle::B128)
}

/// Has `write` write results of these extents to `out`, or, where no map can have it, to a matrix with longer lines that is
/// copied there: the accelerator writes whole pieces of 16 bytes. Such a matrix has the old elements, if they are read.
pub(super) fn write_mapped<C: TensorElement>(
    out: &mut DeviceArrayRef<C, impl Dimension>,
    [batch, m, n]: [usize; 3],
    reads_old: bool,
    stream: &Stream,
    write: impl FnOnce(&mut DeviceViewMut<'_, C, Ix3>) -> Result<()>,
) -> Result<()> {
    let mut result = out.in_shape_mut(Ix3(batch, m, n));
    let columns = n.next_multiple_of(16 / size_of::<C>());
    if columns == n && can_be_mapped(&result.view()) {
        return write(&mut result);
    }
    let mut padded = DeviceArray::<C, _>::uninit_with_room(stream, Ix3(batch, m, columns))?;
    let columns = s![.., .., ..n];
    if reads_old {
        padded.slice_mut(columns)?.assign(&*result.view())?;
    }
    write(&mut padded.view_mut())?;
    result.assign(&*padded.slice(columns)?)
}
