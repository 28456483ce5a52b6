// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of numbers of 16 bits on Hopper's tensor cores as `Cᵀ = Bᵀ Aᵀ`, by tiles of 96 and of 48 rows of `C`: where these fill the
//! multiprocessors better than those of 64 and 128.

use cuda_std::launch::Kernel;
use kernels_gpu::compiled::AcrossParams;
use kernels_gpu::matmul::epilogue::EpiloguePlan;
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{HALF_TILE_M, WgmmaShape, tile_k, tile_m, tile_n};
use ndarray::{Dimension, Ix3};

use super::finish::Finish;
use super::gemm::Multiplication;
use super::hopper::{self, is_hopper, wgmma_shape};
use super::split;
use super::tensor::{self, Factor, Half, Operand};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;
use crate::view::DeviceViewMut;

/// The tiles by the registers of a thread that their sums take, with the cycles for 128 bytes along k as [`split`] reckons them.
const TILES: [(usize, usize); 2] = [(48, 820), (24, 380)];

/// The tiles with which a product of elements of 16 bits is done first, and the cycles.
///
/// The narrow ones have two steps at least, one for each consumer, and are five for six multiprocessors at most: more of them at a
/// time ask the cache for more than it gives, as measured on an H100.
fn best(of: &GemmShape, multiprocessors: usize) -> Option<(usize, usize)> {
    let steps = of.k.div_ceil(tile_k(2));
    let cycles = |(registers, step): (usize, usize)| {
        let columns = of.batch.saturating_mul(of.n.div_ceil(tile_m(registers)));
        let tiles = columns.saturating_mul(of.m.div_ceil(tile_n(registers)));
        let fits = tile_m(registers) > HALF_TILE_M || (steps > 1 && tiles <= multiprocessors * 5 / 6);
        let turns = tiles.div_ceil(multiprocessors);
        fits.then_some((registers, turns.saturating_mul(steps).saturating_mul(step)))
    };
    TILES.into_iter().filter_map(cycles).min_by_key(|&(_, cycles)| cycles)
}

/// The registers of the sums of such tiles, if they are reckoned to be done before all others, and no table says otherwise.
fn registers<T: Half, D>(product: &Multiplication<'_, T, D>, stream: &Stream) -> Result<Option<usize>> {
    let of = &product.shape;
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let others = |shape: &GemmShape| split::least_cycles(shape, size_of::<T>(), multiprocessors);
    let Some((registers, cycles)) = best(of, multiprocessors) else {
        return Ok(None);
    };
    if cycles >= others(of) || split::best_cut(of, others).is_some() {
        return Ok(None);
    }
    Ok(tensor::choice::<T, D>(product, stream)?.is_none().then_some(registers))
}

/// Multiplies by these tiles, if that is best, `A` lies along k, no old element is read, and all rows have the addends in common.
pub(super) fn multiply<T: Half, D: Dimension>(
    product: &Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D>,
) -> Result<bool> {
    let can_finish = finish.alpha != 0.0 && finish.beta == 0.0 && finish.is_same_for_all_rows();
    let Some(shape) = (is_hopper(stream) && can_finish)
        .then(|| wgmma_shape(product))
        .flatten()
    else {
        return Ok(false);
    };
    let Some(registers) = registers::<T, D>(product, stream)? else {
        return Ok(false);
    };
    let of = &product.shape;
    let b = Operand::new(&product.a, [of.batch, of.m, of.k], of.a, true)?;
    if b.along_lines {
        return Ok(false);
    }
    let a = Operand::new(&product.b, [of.batch, of.n, of.k], of.b, true)?;
    let launch = Launch {
        shape: WgmmaShape {
            m: shape.n,
            n: shape.m,
            a_step: shape.b_step,
            b_step: shape.a_step,
            a_along_m: a.along_lines.into(),
            c_transposed: 1,
            tile_m: tile_m(registers) as u32,
            ..shape
        },
        a,
        b,
        stream,
    };
    hopper::write_mapped(out, [of.batch, of.m, of.n], false, stream, |out| match registers {
        24 => launch.run::<T::Tiles64By48, D>(registers, out, finish),
        _ => launch.run::<T::Tiles192By96, D>(registers, out, finish),
    })?;
    Ok(true)
}

/// A launch for `Cᵀ = Bᵀ Aᵀ`, whose left operand is `a`.
struct Launch<'a, T> {
    shape: WgmmaShape,
    a: Operand<'a, T>,
    b: Operand<'a, T>,
    stream: &'a Stream,
}

impl<T: Half> Launch<'_, T> {
    /// With tiles whose sums take so many registers, as `K`'s do.
    fn run<K: Kernel<Params = AcrossParams<T>>, D: Dimension>(
        &self,
        registers: usize,
        out: &mut DeviceViewMut<'_, T, Ix3>,
        finish: &Finish<'_, T, D>,
    ) -> Result<()> {
        let of = <T as Factor>::TYPE;
        let a = self.a.map(of, tile_m(registers))?;
        let b = self.b.map(of, tile_n(registers))?;
        let mut c = hopper::result_map(out)?;
        let config = hopper::config(&self.shape, registers, self.stream);
        let across = |[product, row, column]: [usize; 3]| [product, column, row];
        let plan = finish.plan();
        let plan = EpiloguePlan {
            bias: across(plan.bias),
            residual: across(plan.residual),
            ..plan
        };
        let (bias, residual) = (finish.bias(), finish.residual());
        let args = (&a, &b, &mut c, self.shape, finish.alpha, plan, bias, residual);
        // SAFETY: the kernel's contract: threads and shared memory are those of these tiles, and so are the maps' tiles, by how the
        // operands lie, and their swizzle. `b` lies along k, which `multiply` has asked; the addends have the product's shape, and the
        // same for all of its rows.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fill_the_device() {
        let found = [256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 3072, 4096].map(|side| {
            let of = GemmShape {
                batch: 1,
                first: 0,
                m: side,
                n: side,
                k: side,
                a: [0, side, 1],
                b: [0, 1, side],
            };
            let best = best(&of, 132).filter(|&(_, cycles)| cycles < split::least_cycles(&of, 2, 132));
            best.map(|(registers, _)| registers)
        });
        let wanted = [
            Some(24),
            Some(24),
            Some(24),
            None,
            None,
            None,
            None,
            Some(48),
            None,
            None,
            None,
        ];
        assert_eq!(found, wanted, "as measured on an H100");
    }
}
