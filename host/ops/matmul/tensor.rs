// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on Hopper's tensor cores: of `f16` and `bf16`, which elsewhere go by way of `f32`, and of `f32` rounded to TF32.

use cuda_std::launch::Kernel;
use cuda_std::wgmma::{self, Tf32};
use half::{bf16, f16};
use kernels_gpu::compiled::{CastTo, HopperGemm, WgmmaParams};
use kernels_gpu::matmul::wgmma::{
    BOX_M, LINE, THREADS, TILE_M, TRANSPOSED_BOX_ROWS, WgmmaShape, shared_bytes, tile_k, tile_n,
};
use ndarray::{Dimension, Ix3};

use super::gemm::Multiplication;
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::tensor_map::{self, Swizzle, TensorElement, TensorMapArg, TensorType};
use crate::view::{DeviceView, DeviceViewMut};

/// The compute capability of Hopper.
const HOPPER: (u32, u32) = (9, 0);

/// Bytes of which the lines' distance is a multiple, as tensor maps want it.
const ALIGN: usize = 16;

/// Numbers that tensor cores multiply, with results of type `C`.
trait Factor<C: 'static>: HopperGemm<C> + wgmma::Operand<Element: TensorElement> {
    /// What tensor maps take them for.
    const TYPE: TensorType;

    /// Whether `A` can lie along m while `B` lies along n, and `B` along n at all; else it is `Cᵀ` that is computed.
    const ANY_LAYOUT: bool;
}

impl<C: 'static> Factor<C> for f16
where
    f16: HopperGemm<C>,
{
    const TYPE: TensorType = TensorType::F16;
    const ANY_LAYOUT: bool = true;
}

impl<C: 'static> Factor<C> for bf16
where
    bf16: HopperGemm<C>,
{
    const TYPE: TensorType = TensorType::Bf16;
    const ANY_LAYOUT: bool = true;
}

impl Factor<f32> for Tf32 {
    const TYPE: TensorType = TensorType::Tf32;
    const ANY_LAYOUT: bool = false;
}

/// Numbers of 16 bits that tensor cores multiply.
#[allow(private_bounds)]
pub(super) trait Half:
    TensorElement + CastTo<f32> + wgmma::Operand<Element = Self> + Factor<Self> + Factor<f32>
{
}

impl Half for f16 {}
impl Half for bf16 {}

/// `out ← alpha · A B + beta · out`, summed in f32 and rounded once; with a `beta` in f32, and rounded after that.
pub(super) fn multiply<T: Half, D: Dimension>(
    product: Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArray<T, D>,
    alpha: f32,
    beta: f32,
) -> Result<()>
where
    f32: CastTo<T>,
{
    let Some(shape) = wgmma_shape(&product, stream).filter(|_| alpha != 0.0) else {
        return by_f32(product, stream, out, alpha, beta);
    };
    if beta == 0.0 {
        return on_hopper::<T, T, D>(&product, shape, stream, out, alpha);
    }
    let mut sum = DeviceArray::<f32, D>::uninit(stream, out.raw_dim())?;
    on_hopper::<T, f32, D>(&product, shape, stream, &mut sum, alpha)?;
    let mut scaled = out.cast::<f32>()?;
    scaled.mul_assign_scalar(beta)?;
    sum.add_assign(&scaled)?;
    sum.cast_into(out)
}

/// `out ← alpha · A B + beta · out`, of elements rounded to TF32 where there are tensor cores for it.
pub(super) fn multiply_tf32<D: Dimension>(
    product: Multiplication<'_, f32, D>,
    stream: &Stream,
    out: &mut DeviceArray<f32, D>,
    alpha: f32,
    beta: f32,
) -> Result<()> {
    let Some(shape) = wgmma_shape(&product, stream).filter(|_| alpha != 0.0) else {
        return product.run(stream, out, alpha, beta);
    };
    if beta == 0.0 {
        return on_hopper::<Tf32, f32, D>(&product, shape, stream, out, alpha);
    }
    let mut sum = DeviceArray::uninit(stream, out.raw_dim())?;
    on_hopper::<Tf32, f32, D>(&product, shape, stream, &mut sum, alpha)?;
    sum.axpy(beta, out)?;
    sum.to_array_into(out)
}

/// On the ordinary cores, which have no arithmetic of 16 bits that sums in f32.
fn by_f32<T: Half, D: Dimension>(
    product: Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArray<T, D>,
    alpha: f32,
    beta: f32,
) -> Result<()>
where
    f32: CastTo<T>,
{
    let (a, b) = (product.a.cast::<f32>()?, product.b.cast::<f32>()?);
    let mut sum = match beta {
        0.0 => DeviceArray::uninit(stream, out.raw_dim())?,
        _ => out.cast::<f32>()?,
    };
    Multiplication::new("matmul", &a, &b, Some(out.shape()))?.run(stream, &mut sum, alpha, beta)?;
    sum.cast_into(out)
}

/// The shape of the kernel's launch, if there are tensor cores for it and its numbers fit.
fn wgmma_shape<T, D>(product: &Multiplication<'_, T, D>, stream: &Stream) -> Option<WgmmaShape> {
    if stream.backend().properties().tensor_cores != Some(HOPPER) {
        return None;
    }
    let shape = &product.shape;
    // Coordinates are signed, and those of the last tile reach beyond the end.
    let fits = |length: usize| {
        u32::try_from(length)
            .ok()
            .filter(|&length| length <= i32::MAX as u32 - 256)
    };
    // Those of the smallest tiles, whichever way round they lie.
    let tiles = shape.batch.checked_mul(shape.m.div_ceil(tile_n(32)))?;
    u32::try_from(tiles.checked_mul(shape.n.div_ceil(tile_n(32)))?).ok()?;
    Some(WgmmaShape {
        batch: fits(shape.batch)?,
        m: fits(shape.m)?,
        n: fits(shape.n)?,
        k: fits(shape.k).filter(|&k| k > 0)?,
        a_step: (shape.a[0] != 0).into(),
        b_step: (shape.b[0] != 0).into(),
        a_along_m: 0,
        b_along_n: 0,
        transposed: 0,
    })
}

/// An operand as a tensor map can have it: products first, and either its lines (rows of A, columns of B) or k last.
struct Operand<'a, T> {
    lies: Ordered<'a, T, Ix3>,
    along_lines: bool,
}

impl<'a, T: TensorElement> Operand<'a, T> {
    /// Of elements with these lengths and strides: products, lines, k. Where no map can have them, a copy along k whose
    /// lines are longer than they have to be, so that each is aligned.
    fn new<D: Dimension>(
        elements: &'a DeviceArrayRef<T, D>,
        [batch, lines, k]: [usize; 3],
        strides: [usize; 3],
    ) -> Result<Self> {
        let batch = if strides[0] == 0 { 1 } else { batch };
        let along_k = elements.laid_out(Ix3(batch, lines, k), strides.to_vec());
        if can_be_mapped(&along_k) {
            return Ok(Self {
                lies: Ordered::AsIs(along_k),
                along_lines: false,
            });
        }
        let along_lines = elements.laid_out(Ix3(batch, k, lines), vec![strides[0], strides[2], strides[1]]);
        if can_be_mapped(&along_lines) {
            return Ok(Self {
                lies: Ordered::AsIs(along_lines),
                along_lines: true,
            });
        }
        Self::copied(&along_k)
    }

    /// A copy along k of elements in the order of products, lines, k.
    fn copied(elements: &DeviceArrayRef<T, Ix3>) -> Result<Self> {
        let [batch, lines, k] = [0, 1, 2].map(|axis| elements.shape()[axis]);
        let padded = k.next_multiple_of(ALIGN / size_of::<T>());
        let copy = if padded == k {
            elements.to_array()?
        } else {
            let mut copy = DeviceArray::zeros(elements.stream(), (batch, lines, padded))?;
            copy.slice_mut(ndarray::s![.., .., ..k])?.assign(elements)?;
            copy
        };
        Ok(Self {
            lies: Ordered::Copied(copy),
            along_lines: false,
        })
    }

    /// Has it lie along k, by a copy if it does not.
    fn along_k(self) -> Result<Self> {
        match self.along_lines {
            false => Ok(self),
            true => Self::copied(&*self.lies.view().permuted_axes([0, 2, 1])?),
        }
    }

    /// Its map, for tiles of so many lines.
    fn map(&self, of: TensorType, lines: usize) -> Result<TensorMapArg<'_, T>> {
        let tile_k = tile_k(size_of::<T>());
        let tile = match self.along_lines {
            false => [1, lines, tile_k],
            true => [1, tile_k, tile_k],
        };
        self.lies.tensor_map_as(of, &tile, Swizzle::B128)
    }
}

/// Whether the elements lie so that a tensor map can have them.
fn can_be_mapped<T: TensorElement>(elements: &DeviceView<'_, T, Ix3>) -> bool {
    tensor_map::layout(elements, &[1, 1, ALIGN / size_of::<T>()], Swizzle::B128).is_ok()
}

/// One launch for all products, of a block for each multiprocessor.
fn on_hopper<T: Factor<C>, C: TensorElement, D: Dimension>(
    product: &Multiplication<'_, T::Element, D>,
    shape: WgmmaShape,
    stream: &Stream,
    out: &mut DeviceArray<C, D>,
    alpha: f32,
) -> Result<()> {
    let of = &product.shape;
    let (mut a, mut b) = (
        Operand::new(&product.a, [of.batch, of.m, of.k], of.a)?,
        Operand::new(&product.b, [of.batch, of.n, of.k], of.b)?,
    );
    if !T::ANY_LAYOUT && a.along_lines && b.along_lines {
        // The smaller one.
        (a, b) = if a.lies.len() < b.lies.len() {
            (a.along_k()?, b)
        } else {
            (a, b.along_k()?)
        };
    }
    let launch = Launch::<T>::new(a, b, shape, stream, alpha);
    let columns = of.n.next_multiple_of(ALIGN / size_of::<C>());
    if columns == of.n || of.batch * of.m == 1 {
        return launch.run(&mut out.in_shape_mut(Ix3(of.batch, of.m, of.n)));
    }
    let mut padded = DeviceArray::<C, _>::uninit(stream, Ix3(of.batch, of.m, columns))?;
    let mut result = padded.slice_mut(ndarray::s![.., .., ..of.n])?;
    launch.run(&mut result)?;
    out.in_shape_mut(Ix3(of.batch, of.m, of.n)).assign(&result)
}

struct Launch<'a, T: wgmma::Operand> {
    a: Operand<'a, T::Element>,
    b: Operand<'a, T::Element>,
    shape: WgmmaShape,
    stream: &'a Stream,
    alpha: f32,
}

impl<'a, T: wgmma::Operand<Element: TensorElement>> Launch<'a, T> {
    /// Of operands as they lie: where the kernel does not take a `B` along n, `Cᵀ = Bᵀ Aᵀ` is computed.
    fn new<C: 'static>(
        a: Operand<'a, T::Element>,
        b: Operand<'a, T::Element>,
        mut shape: WgmmaShape,
        stream: &'a Stream,
        alpha: f32,
    ) -> Self
    where
        T: Factor<C>,
    {
        let transposed = !T::ANY_LAYOUT && b.along_lines;
        let (a, b) = if transposed {
            (shape.m, shape.n) = (shape.n, shape.m);
            (shape.a_step, shape.b_step) = (shape.b_step, shape.a_step);
            (b, a)
        } else {
            (a, b)
        };
        shape.a_along_m = a.along_lines.into();
        shape.b_along_n = b.along_lines.into();
        shape.transposed = transposed.into();
        Self {
            a,
            b,
            shape,
            stream,
            alpha,
        }
    }

    fn run<C: TensorElement>(&self, out: &mut DeviceViewMut<'_, C, Ix3>) -> Result<()>
    where
        T: Factor<C>,
    {
        match best_registers(&self.shape, self.stream.backend().properties().multiprocessors) {
            32 => self.launch::<T::N64, C>(32, out),
            64 => self.launch::<T::N128, C>(64, out),
            96 => self.launch::<T::N192, C>(96, out),
            _ => self.launch::<T::N256, C>(128, out),
        }
    }

    /// With tiles whose sums take so many registers, as `K`'s do.
    fn launch<K: Kernel<Params = WgmmaParams<T::Element, C>>, C: TensorElement>(
        &self,
        registers: usize,
        out: &mut DeviceViewMut<'_, C, Ix3>,
    ) -> Result<()>
    where
        T: Factor<C>,
    {
        let (a, b) = (self.a.map(T::TYPE, TILE_M)?, self.b.map(T::TYPE, tile_n(registers))?);
        let mut c = match self.shape.transposed {
            0 => out.tensor_map_mut(&[1, BOX_M, LINE / size_of::<C>()], Swizzle::B128)?,
            _ => out.tensor_map_mut(&[1, TRANSPOSED_BOX_ROWS, BOX_M], Swizzle::B64)?,
        };
        let blocks = tiles(&self.shape, registers).min(self.stream.backend().properties().multiprocessors.into());
        let config = LaunchConfig {
            dynamic_shared: shared_bytes(registers),
            ..LaunchConfig::new(blocks as u32, THREADS as u32)
        };
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps'
        // types and tiles, by how the operands lie and whether the result is transposed, and their swizzle.
        unsafe {
            self.stream
                .launch_unchecked::<K>(&config, (&a, &b, &mut c, self.shape, self.alpha))
        }
    }
}

/// Tiles of all products.
fn tiles(shape: &WgmmaShape, registers: usize) -> u64 {
    let rows = u64::from(shape.m).div_ceil(TILE_M as u64);
    let columns = u64::from(shape.n).div_ceil(tile_n(registers) as u64);
    u64::from(shape.batch) * rows * columns
}

/// The width of tiles with which the products are done first, by the registers of their sums.
///
/// A multiprocessor takes tiles in turn; one costs its columns, and a constant for the tile of A, which is read and kept
/// all the same.
fn best_registers(shape: &WgmmaShape, multiprocessors: u32) -> usize {
    let cost = |&registers: &usize| {
        let turns = tiles(shape, registers).div_ceil(multiprocessors.into());
        turns * (tile_n(registers) + 40) as u64
    };
    [128, 96, 64, 32].into_iter().min_by_key(cost).unwrap_or(128)
}
