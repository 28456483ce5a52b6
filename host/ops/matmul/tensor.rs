// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of `f16` and `bf16`, and of `f32` rounded to TF32: on Hopper's tensor cores, here, and by tiles of other sizes (across.rs); on those of Ampere and later,
//! and what Hopper's cannot count (ampere.rs); of `f16` on Turing's (turing.rs); and without any, by way of `f32`.

use cuda_std::launch::Kernel;
use cuda_std::wgmma::{self, Tf32};
use half::{bf16, f16};
use kernels_gpu::compiled::{AcrossGemm, AmpereGemm, CastTo, FinishSums, HopperGemm, MatVec, SumParts, WgmmaParams};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::MmaShape;
use kernels_gpu::matmul::wgmma::{BOX_M, LINE, WgmmaShape, tile_n};
use kernels_gpu::num;
use ndarray::{Dimension, Ix3};

use super::choices::{self, Choice, Factors, Kernel as Chosen};
use super::finish::{self, Finish, Finished, Passed, Sums};
use super::gemm::Multiplication;
use super::gemv::by_vector;
use super::hopper::{self, best_registers, is_hopper, takes_clusters, wgmma_shape};
use super::hopper_costs::{self, REGISTERS};
use super::operand::{Mapped, can_be_mapped};
use super::sides::Sides;
use super::split;
use super::ways::{self, Way};
use super::{AMPERE, across, addend, ampere, has_tensor_cores, simt, turing};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::stream::Stream;
use crate::tensor_map::{Swizzle, TensorElement, TensorMapArg, TensorType};
use crate::view::DeviceViewMut;

/// Numbers that tensor cores multiply.
pub(super) trait Factor: wgmma::Operand<Element: TensorElement> + HopperGemm<f32> + AmpereGemm<f32> {
    /// What tensor maps take them for.
    const TYPE: TensorType;

    /// Whether both operands may lie along their lines.
    const ANY_LAYOUT: bool;
}

impl Factor for f16 {
    const TYPE: TensorType = TensorType::F16;
    const ANY_LAYOUT: bool = true;
}

impl Factor for bf16 {
    const TYPE: TensorType = TensorType::Bf16;
    const ANY_LAYOUT: bool = true;
}

impl Factor for Tf32 {
    const TYPE: TensorType = TensorType::Tf32;
    const ANY_LAYOUT: bool = false;
}

/// Numbers of 16 bits that tensor cores multiply.
pub(super) trait Half:
    CastTo<f32>
    + MatVec<Wide = f32>
    + Factor
    + Summed
    + wgmma::Operand<Element = Self>
    + HopperGemm<Self>
    + AmpereGemm<Self>
{
    /// The product, finished, on Turing's tensor cores, if they multiply such numbers and the stream's device has them.
    fn finished_on_turing<D: Dimension>(
        _product: &Multiplication<'_, Self, D>,
        _stream: &Stream,
        _out: &mut DeviceArrayRef<Self, D>,
        _finish: &Finish<'_, Self, D>,
    ) -> Result<bool> {
        Ok(false)
    }

    /// The sums, scaled, on those.
    fn sums_on_turing<D: Dimension>(
        _product: &Multiplication<'_, Self, D>,
        _stream: &Stream,
        _sums: &mut DeviceArrayRef<f32, D>,
        _scale: &Finish<'_, f32, D>,
    ) -> Result<bool> {
        Ok(false)
    }
}

impl Half for f16 {
    fn finished_on_turing<D: Dimension>(
        product: &Multiplication<'_, f16, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<f16, D>,
        finish: &Finish<'_, f16, D>,
    ) -> Result<bool> {
        turing::multiply(product, stream, out, finish)
    }

    fn sums_on_turing<D: Dimension>(
        product: &Multiplication<'_, f16, D>,
        stream: &Stream,
        sums: &mut DeviceArrayRef<f32, D>,
        scale: &Finish<'_, f32, D>,
    ) -> Result<bool> {
        turing::multiply(product, stream, sums, scale)
    }
}

impl Half for bf16 {}

/// Results of sums in `f32`.
pub(super) trait Summed: TensorElement + Finished<Scalar = f32> + num::Num<Wide = f32> + SumParts {}

impl Summed for f32 {}
impl Summed for f16 {}
impl Summed for bf16 {}

/// Multiplies numbers of 16 bits: the sums are in f32, and rounded once when they are finished.
pub(super) fn multiply<T, D: Dimension, F: Passed<f32>>(
    product: Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D, F>,
) -> Result<()>
where
    T: Half + HopperGemm<T, F> + AcrossGemm<F> + AmpereGemm<T, F> + FinishSums<F>,
{
    if by_vector(&product, stream, out, finish)? || across::multiply(&product, stream, out, finish)? {
        return Ok(());
    }
    if by_tensor_cores::<T, T, D, F>(&product, stream, out, finish)? {
        return Ok(());
    }
    if let Some(finish) = finish.of_library()
        && T::finished_on_turing(&product, stream, out, &finish)?
    {
        return Ok(());
    }
    by_sums(product, stream, out, finish)
}

/// Adds products of numbers of 16 bits to sums in `f32`.
pub(super) fn add_products<T: Half>(
    a: &DeviceArrayRef<T, Ix3>,
    b: &DeviceArrayRef<T, Ix3>,
    sums: &mut DeviceArrayRef<f32, Ix3>,
) -> Result<()> {
    let (product, stream) = (Multiplication::new("add_products", a, b, None)?, a.stream());
    let add = Finish::<f32, Ix3>::scale(1.0, 1.0);
    if by_tensor_cores::<T, f32, Ix3, _>(&product, stream, sums, &add)? {
        return Ok(());
    }
    if T::sums_on_turing(&product, stream, sums, &add)? {
        return Ok(());
    }
    let (a, b) = (a.cast::<f32>()?, b.cast::<f32>()?);
    a.fused_batched_matmul(&b).accumulate_into(sums, 1.0)
}

/// Multiplies elements rounded to TF32 where there are tensor cores for it.
pub(super) fn multiply_tf32<D: Dimension>(
    product: Multiplication<'_, f32, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<f32, D>,
    finish: &Finish<'_, f32, D>,
) -> Result<()> {
    match by_tensor_cores::<Tf32, f32, D, _>(&product, stream, out, finish)? {
        true => Ok(()),
        false => simt::multiply(product, stream, out, finish),
    }
}

/// Multiplies by tensor cores, if it can be done: in parts of k, if that pays.
pub(super) fn by_tensor_cores<T, C, D: Dimension, F: Passed<f32>>(
    product: &Multiplication<'_, T::Element, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, D>,
    finish: &Finish<'_, C, D, F>,
) -> Result<bool>
where
    T: Factor + HopperGemm<C, F> + AmpereGemm<C, F>,
    C: Summed + FinishSums<F>,
{
    let choice = choice::<T, _>(product, stream)?;
    let Some(cores) = TensorCores::of(product, stream, choice).filter(|_| finish.alpha != 0.0) else {
        return Ok(false);
    };
    let of = &product.shape;
    let finishes = finish.behind_parts(stream).finishes;
    match split::multiply::<T, D>(product, &cores, stream, (finish.alpha, finishes), choice)? {
        Some(parts) => finish::finish_parts_into(parts.sums(), of, stream, out, finish)?,
        None if cores.can_finish(finish) => cores.multiply::<T, C, F>(product, stream, out, finish, choice)?,
        None => finish::finish_after(of, stream, out, finish, |sums| {
            let scale = Finish::<f32, Ix3>::scale(finish.alpha, 0.0);
            cores.multiply::<T, f32, _>(product, stream, sums, &scale, choice)
        })?,
    }
    Ok(true)
}

/// The choice for a product, if there is one that it allows.
pub(super) fn choice<T: Factor, D>(
    product: &Multiplication<'_, T::Element, D>,
    stream: &Stream,
) -> Result<Option<Choice>> {
    let factors = match size_of::<T::Element>() {
        2 => Factors::Half,
        4 => Factors::Tf32,
        _ => return Ok(None),
    };
    let possible = |choice: &Choice| {
        choice.cut.fits(&product.shape)
            && match choice.kernel {
                Chosen::Wgmma => is_hopper(stream),
                // Who has been asked ahead.
                Chosen::Across => false,
                _ => has_tensor_cores(stream, AMPERE),
            }
    };
    Ok(choices::choice(factors, &product.shape, stream)?.filter(possible))
}

/// The kernels for a device's tensor cores, with what a launch of them is told of a product.
pub(super) enum TensorCores {
    Hopper(WgmmaShape),
    Ampere(MmaShape),
}

impl TensorCores {
    /// Those that multiply this product on the stream's device: Hopper's, if it has them and they can count it, and the
    /// choice is none of the others.
    pub(super) fn of<T, D>(
        product: &Multiplication<'_, T, D>,
        stream: &Stream,
        choice: Option<Choice>,
    ) -> Option<Self> {
        let by_others = choice.is_some_and(|choice| choice.kernel == Chosen::Mma);
        let hopper = (is_hopper(stream) && !by_others)
            .then(|| wgmma_shape(product))
            .flatten();
        hopper
            .map(Self::Hopper)
            .or_else(|| ampere::mma_shape(&product.shape, AMPERE, stream).map(Self::Ampere))
    }

    /// Cycles for a batch of products of elements of so many bytes, with the best width of tiles.
    pub(super) fn least_cycles(&self, shape: &GemmShape, element: usize, multiprocessors: usize) -> usize {
        match self {
            Self::Hopper(_) => hopper_costs::least_cycles(shape, element, multiprocessors),
            Self::Ampere(_) => ampere::least_cycles(shape, element, multiprocessors),
        }
    }

    /// Whether their kernels can do what becomes of the sums.
    fn can_finish<C: Summed, F: Copy>(&self, finish: &Finish<'_, C, impl Dimension, F>) -> bool {
        matches!(self, Self::Ampere(_)) || finish.lies_in_pairs()
    }

    pub(super) fn multiply<T, C: Summed, F: Passed<f32>>(
        self,
        product: &Multiplication<'_, T::Element, impl Dimension>,
        stream: &Stream,
        out: &mut DeviceArrayRef<C, impl Dimension>,
        finish: &Finish<'_, C, impl Dimension, F>,
        choice: Option<Choice>,
    ) -> Result<()>
    where
        T: Factor + HopperGemm<C, F> + AmpereGemm<C, F>,
    {
        let columns = |kernel| choice.and_then(|choice| choice.tile_of(kernel));
        match self {
            Self::Hopper(shape) => {
                let columns = columns(Chosen::Wgmma);
                on_hopper::<T, C, F>(product, (shape, columns), stream, out, finish)
            }
            Self::Ampere(shape) => {
                let columns = columns(Chosen::Mma);
                ampere::multiply::<T, C, F>(product, (shape, columns), stream, out, finish)
            }
        }
    }
}

/// By sums in memory: on Turing's tensor cores, or on the ordinary ones, which have no arithmetic of 16 bits that sums in f32.
fn by_sums<T: Half + FinishSums<F>, D: Dimension, F: Passed<f32>>(
    product: Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D, F>,
) -> Result<()> {
    let mut sums = DeviceArray::<f32, D>::uninit(stream, out.raw_dim())?;
    let scale = Finish::scale(finish.alpha, 0.0);
    if !T::sums_on_turing(&product, stream, &mut sums, &scale)? {
        let (a, b) = (product.a.cast::<f32>()?, product.b.cast::<f32>()?);
        Multiplication::new("matmul", &a, &b, Some(&sums))?.run(stream, &mut sums, &scale)?;
    }
    finish::finish_sums_into(Sums::new(&sums, &product.shape), &product.shape, stream, out, finish)
}

/// An operand as a tensor map can have it: products first, and either its lines (rows of A, columns of B) or k last.
pub(super) struct Operand<'a, T> {
    lies: Mapped<'a, T>,
    pub(super) along_lines: bool,
}

impl<'a, T: TensorElement> Operand<'a, T> {
    /// Of elements with these lengths and strides: products, lines, k. Where no map can have them, or they lie along their
    /// lines and may not, a copy along k whose lines are longer than they have to be, so that each is aligned.
    pub(super) fn new<D: Dimension>(
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

    /// Whether such elements need not be copied, along k or along their lines.
    pub(super) fn lies<D: Dimension>(
        elements: &DeviceArrayRef<T, D>,
        [batch, lines, k]: [usize; 3],
        strides: [usize; 3],
    ) -> bool {
        let along_k = elements.laid_out(Ix3(batch, lines, k), strides.to_vec());
        let along_lines = elements.laid_out(Ix3(batch, k, lines), vec![strides[0], strides[2], strides[1]]);
        can_be_mapped(&along_k) || can_be_mapped(&along_lines)
    }

    /// Its elements, where lines begin at multiples of 16 bytes.
    pub(super) fn elements(&self) -> &DeviceArrayRef<T, Ix3> {
        self.lies.elements()
    }

    /// Its map, of elements that the copy takes as `of`: for tiles of so many lines and 128 bytes along k, or, of what lies
    /// along them, of 128 bytes of them.
    pub(super) fn map(&self, of: TensorType, lines: usize) -> Result<TensorMapArg<'_, T>> {
        self.map_in_boxes(of, lines, LINE / size_of::<T>(), 0)
    }

    /// The same, where of what lies along them a box has so many lines, and the swizzle of as many bytes; and where the blocks of a
    /// cluster, the binary logarithm of whose number that is, copy a part of a tile each.
    pub(super) fn map_in_boxes(
        &self,
        of: TensorType,
        lines: usize,
        of_box: usize,
        cluster: u32,
    ) -> Result<TensorMapArg<'_, T>> {
        let along_k = LINE / size_of::<T>();
        if !self.along_lines {
            return self.lies.tensor_map(of, &[1, lines >> cluster, along_k], Swizzle::B128);
        }
        let swizzle = match of_box * size_of::<T>() {
            32 => Swizzle::B32,
            64 => Swizzle::B64,
            _ => Swizzle::B128,
        };
        self.lies.tensor_map(of, &[1, along_k >> cluster, of_box], swizzle)
    }
}

/// One launch for all products, of a block for each multiprocessor, by tiles of so many columns, if that is said.
fn on_hopper<T: Factor + HopperGemm<C, F>, C: Summed, F: Passed<f32>>(
    product: &Multiplication<'_, T::Element, impl Dimension>,
    (mut shape, columns): (WgmmaShape, Option<usize>),
    stream: &Stream,
    out: &mut DeviceArrayRef<C, impl Dimension>,
    finish: &Finish<'_, C, impl Dimension, F>,
) -> Result<()> {
    let of = &product.shape;
    let sides = Sides::new::<T, _>(product, finish.only_scales() && finish.beta == 0.0)?;
    sides.describe(&mut shape);
    let (computed, element) = (sides.of(of), size_of::<T::Element>());
    let reads_old = finish.beta != 0.0;
    let way = || way::<T>(&computed, stream);
    let registers = match columns.map(|columns| columns / tile_n(1)) {
        Some(registers) => registers,
        None => match way() {
            Some(way) => {
                shape.cluster = way.cluster;
                way.registers()
            }
            None => best_registers(&computed, element, &REGISTERS, stream),
        },
    };
    if !sides.a_comes_from_registers::<T>() {
        hopper::set_rows(&mut shape, &computed, element, registers, sides.a.along_lines, stream);
    }
    if element == 2 && !reads_old {
        hopper::reach_back(&mut shape, tile_n(registers), [BOX_M, LINE / size_of::<C>()]);
    }
    hopper::write_mapped(out, [of.batch, of.m, of.n], reads_old, stream, |out| {
        let launch = Launch::<T> {
            a: &sides.a,
            b: &sides.b,
            shape,
            stream,
        };
        match registers {
            32 => launch.run::<<T as HopperGemm<C, F>>::N64, C, _, F>(32, out, finish),
            64 => launch.run::<<T as HopperGemm<C, F>>::N128, C, _, F>(64, out, finish),
            96 => launch.run::<<T as HopperGemm<C, F>>::N192, C, _, F>(96, out, finish),
            _ => launch.run::<<T as HopperGemm<C, F>>::N256, C, _, F>(128, out, finish),
        }
    })
}

/// The way by which a product is done first that is not computed as its transpose, where lines of the operands are not those of the cache.
fn way<T: Factor>(of: &GemmShape, stream: &Stream) -> Option<Way> {
    let multiprocessors = stream.backend().properties().multiprocessors as usize;
    let has_clusters = takes_clusters(stream);
    let may_be = |way: &Way| !way.is_across && (way.cluster == 0 || has_clusters);
    (size_of::<T::Element>() == 2)
        .then(|| ways::best(of, multiprocessors, may_be))
        .flatten()
}

struct Launch<'a, T: Factor> {
    a: &'a Operand<'a, T::Element>,
    b: &'a Operand<'a, T::Element>,
    shape: WgmmaShape,
    stream: &'a Stream,
}

impl<T: Factor> Launch<'_, T> {
    /// With tiles whose sums take so many registers, as `K`'s do.
    fn run<K: Kernel<Params = WgmmaParams<T::Element, C, F>>, C: Summed, D: Dimension, F: Passed<f32>>(
        &self,
        registers: usize,
        out: &mut DeviceViewMut<'_, C, Ix3>,
        finish: &Finish<'_, C, D, F>,
    ) -> Result<()> {
        let rows = self.shape.a_lines as usize;
        let a = self.a.map(T::TYPE, rows)?;
        // Half of a tile, where the blocks of a pair have it in common.
        let b = self.b.map_in_boxes(
            T::TYPE,
            tile_n(registers),
            LINE / size_of::<T::Element>(),
            self.shape.cluster,
        )?;
        // SAFETY: the launch takes both, and the kernel is one of those.
        let (mut c, ring, addend) = unsafe { addend::maps(out, &self.shape, finish)? };
        let config = hopper::config(&self.shape, registers, self.stream);
        let (alpha, plan) = (finish.alpha, finish.plan());
        let (bias, residual) = (finish.bias(), finish.residual());
        let args = (&a, &b, &mut c, &addend, self.shape, alpha, ring, plan, bias, residual);
        // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps'
        // types and tiles, by how the operands lie, and their swizzle. Of TF32 `b` lies along k, and `a` where there is more to
        // be done than to scale. The addends have the products' shape. The clusters are the shape's.
        unsafe {
            self.stream
                .launch_in_clusters::<K>(&config, 1 << self.shape.cluster, args)
        }
    }
}

/// The shape of the launch and the columns of its tiles, if Hopper's tensor cores do the product, and do it in one.
pub(super) fn hopper_columns<T: Factor, D>(
    product: &Multiplication<'_, T::Element, D>,
    stream: &Stream,
) -> Result<Option<(WgmmaShape, usize)>> {
    let choice = choice::<T, D>(product, stream)?;
    let Some(cores @ TensorCores::Hopper(shape)) = TensorCores::of(product, stream, choice) else {
        return Ok(None);
    };
    if split::how::<T>(&product.shape, &cores, true, stream, choice).is_some() {
        return Ok(None);
    }
    let columns = choice.and_then(|choice| choice.tile_of(Chosen::Wgmma));
    let best = || {
        tile_n(best_registers(
            &product.shape,
            size_of::<T::Element>(),
            &REGISTERS,
            stream,
        ))
    };
    Ok(Some((shape, columns.unwrap_or_else(best))))
}
