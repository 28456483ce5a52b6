// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products on Hopper's tensor cores: of `f16` and `bf16`, which elsewhere go by way of `f32`, and of `f32` rounded to TF32.

use cuda_std::launch::Kernel;
use cuda_std::wgmma::{self, Tf32};
use half::{bf16, f16};
use kernels_gpu::compiled::{CastTo, HopperGemm, WgmmaParams};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::{
    BOX_M, LINE, THREADS, TILE_M, TRANSPOSED_BOX_ROWS, WgmmaShape, shared_bytes, tile_k, tile_n,
};
use ndarray::{Dimension, Ix2, Ix3};

use super::HOPPER;
use super::gemm::Multiplication;
use super::operand::{Mapped, can_be_mapped};
use super::split::{self, REGISTERS, cycles};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorElement, TensorMapArg, TensorType};
use crate::view::DeviceViewMut;

/// Bytes of which the lines' distance is a multiple, as tensor maps want it.
const ALIGN: usize = 16;

/// Numbers that tensor cores multiply, with results of type `C`.
pub(super) trait Factor<C: 'static>: HopperGemm<C> + wgmma::Operand<Element: TensorElement> {
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
    out: &mut DeviceArrayRef<T, D>,
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
        if let Some(sums) = split::multiply::<T, D>(&product, stream, alpha)? {
            return sums.cast_into(&mut out.in_shape_mut(Ix2(product.shape.m, product.shape.n)));
        }
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
    out: &mut DeviceArrayRef<f32, D>,
    alpha: f32,
    beta: f32,
) -> Result<()> {
    let Some(shape) = wgmma_shape(&product, stream).filter(|_| alpha != 0.0) else {
        return product.run(stream, out, alpha, beta);
    };
    if beta == 0.0 {
        if let Some(sums) = split::multiply::<Tf32, D>(&product, stream, alpha)? {
            return sums.to_array_into(&mut out.in_shape_mut(Ix2(product.shape.m, product.shape.n)));
        }
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
    out: &mut DeviceArrayRef<T, D>,
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
    Multiplication::new("matmul", &a, &b, Some(&sum))?.run(stream, &mut sum, alpha, beta)?;
    sum.cast_into(out)
}

/// The shape of the kernel's launch, if there are tensor cores for it and its numbers fit.
pub(super) fn wgmma_shape<T, D>(product: &Multiplication<'_, T, D>, stream: &Stream) -> Option<WgmmaShape> {
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

/// How products of that shape are computed: `Cᵀ = Bᵀ Aᵀ` where the kernel does not take a `B` along n.
pub(super) fn oriented<T: Factor<C>, C: 'static>(shape: &GemmShape) -> GemmShape {
    if T::ANY_LAYOUT || shape.b[2] == 1 {
        return *shape;
    }
    GemmShape {
        m: shape.n,
        n: shape.m,
        a: shape.b,
        b: shape.a,
        ..*shape
    }
}

/// An operand as a tensor map can have it: products first, and either its lines (rows of A, columns of B) or k last.
struct Operand<'a, T> {
    lies: Mapped<'a, T>,
    along_lines: bool,
}

impl<'a, T: TensorElement> Operand<'a, T> {
    /// Of elements with these lengths and strides: products, lines, k. Where no map can have them, or they lie along their
    /// lines and may not, a copy along k whose lines are longer than they have to be, so that each is aligned.
    fn new<D: Dimension>(
        elements: &'a DeviceArrayRef<T, D>,
        [batch, lines, k]: [usize; 3],
        strides: [usize; 3],
        may_lie_along_lines: bool,
    ) -> Result<Self> {
        let batch = if strides[0] == 0 { 1 } else { batch };
        let along_k = elements.laid_out(Ix3(batch, lines, k), strides.to_vec());
        let along_lines = elements.laid_out(Ix3(batch, k, lines), vec![strides[0], strides[2], strides[1]]);
        let lies_along_lines = may_lie_along_lines && !can_be_mapped(&along_k) && can_be_mapped(&along_lines);
        Ok(Self {
            lies: Mapped::new(if lies_along_lines { along_lines } else { along_k })?,
            along_lines: lies_along_lines,
        })
    }

    /// Its map, for tiles of so many lines.
    fn map(&self, of: TensorType, lines: usize) -> Result<TensorMapArg<'_, T>> {
        let tile_k = tile_k(size_of::<T>());
        let tile = match self.along_lines {
            false => [1, lines, tile_k],
            true => [1, tile_k, tile_k],
        };
        self.lies.tensor_map(of, &tile, Swizzle::B128)
    }
}

/// One launch for all products, of a block for each multiprocessor.
pub(super) fn on_hopper<T: Factor<C>, C: TensorElement, D: Dimension>(
    product: &Multiplication<'_, T::Element, D>,
    shape: WgmmaShape,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, D>,
    alpha: f32,
) -> Result<()> {
    let of = &product.shape;
    let a = |along_m: bool| Operand::new(&product.a, [of.batch, of.m, of.k], of.a, along_m);
    let b = |along_n: bool| Operand::new(&product.b, [of.batch, of.n, of.k], of.b, along_n);
    let (mut lies_a, mut lies_b) = (a(true)?, b(true)?);
    if !T::ANY_LAYOUT && lies_a.along_lines && lies_b.along_lines {
        // The smaller one.
        match lies_a.lies.len() < lies_b.lies.len() {
            true => lies_a = a(false)?,
            false => lies_b = b(false)?,
        }
    }
    let launch = Launch::<T>::new(lies_a, lies_b, shape, stream, alpha);
    let of_launch = match launch.shape.transposed {
        0 => *of,
        _ => GemmShape {
            m: of.n,
            n: of.m,
            ..*of
        },
    };
    let element = size_of::<T::Element>();
    let registers = best_registers(
        &of_launch,
        element,
        stream.backend().properties().multiprocessors as usize,
    );
    let columns = of.n.next_multiple_of(ALIGN / size_of::<C>());
    if columns == of.n || of.batch * of.m == 1 {
        return launch.run(registers, &mut out.in_shape_mut(Ix3(of.batch, of.m, of.n)));
    }
    let mut padded = DeviceArray::<C, _>::uninit(stream, Ix3(of.batch, of.m, columns))?;
    let mut result = padded.slice_mut(ndarray::s![.., .., ..of.n])?;
    launch.run(registers, &mut result)?;
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

    /// With tiles whose sums take so many registers.
    fn run<C: TensorElement>(&self, registers: usize, out: &mut DeviceViewMut<'_, C, Ix3>) -> Result<()>
    where
        T: Factor<C>,
    {
        match registers {
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
fn best_registers(shape: &GemmShape, element: usize, multiprocessors: usize) -> usize {
    let cost = |&registers: &usize| cycles(shape, element, registers, multiprocessors);
    REGISTERS.into_iter().min_by_key(cost).unwrap_or(REGISTERS[0])
}
