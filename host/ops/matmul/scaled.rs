// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit floats, scaled: on the tensor cores of Hopper and of Ada and later by their own kernels, elsewhere by way
//! of `f16` or `f32`.

use std::fmt;

use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::launch::Kernel;
use half::{bf16, f16};
use kernels_gpu::compiled::{AdaGemm, CastTo, Fp8Gemm, Fp8Params};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::mma::{Narrow, fp8 as fp8_mma};
use kernels_gpu::matmul::wgmma::fp8::SCALE_BLOCK;
use ndarray::{Dimension, Ix2, Ix3, IxDyn};

use super::MatMul;
use super::ampere::{self, Operands};
use super::bytes::{ByteProduct, best_parts, check_output, product_dim};
use super::finish::{self, Finish};
use super::gemm::Multiplication;
use super::hopper;
use super::scales::{ScaleArgs, Scales};
use super::split::Parts;
use super::tensor::{self, Summed};
use super::{ADA, TURING, has_tensor_cores, turing};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::view::{DeviceView, DeviceViewMut};

mod sealed {
    pub trait Sealed {}
    impl Sealed for cuda_std::float8::F8E4M3 {}
    impl Sealed for cuda_std::float8::F8E5M2 {}
}

/// 8-bit floats that are multiplied by those of type `B`, with results of type `C`: [`F8E4M3`] by either, [`F8E5M2`] by
/// [`F8E4M3`], with results of `f32` and `bf16`.
pub trait ScaledMul<B: Element, C: MatMul>: Element + sealed::Sealed {
    #[doc(hidden)]
    fn multiply<D: Dimension>(
        product: &Scaled<'_, Self, B, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<C, D>,
        finish: &Finish<'_, C, D>,
    ) -> Result<()>;
}

macro_rules! scaled {
    ($($a:ident by $b:ident: $($c:ident)*;)*) => {$($(
        impl ScaledMul<$b, $c> for $a {
            fn multiply<D: Dimension>(
                product: &Scaled<'_, $a, $b, D>,
                stream: &Stream,
                out: &mut DeviceArrayRef<$c, D>,
                finish: &Finish<'_, $c, D>,
            ) -> Result<()> {
                product.run(stream, out, finish)
            }
        }
    )*)*};
}

scaled! {
    F8E4M3 by F8E4M3: f32 bf16;
    F8E4M3 by F8E5M2: f32 bf16;
    F8E5M2 by F8E4M3: f32 bf16;
}

/// A product of matrices of 8-bit floats, or of batches of them, whose operands have scales, and what becomes of it:
/// `(s_a A) (s_b B) + bias`, by [`scaled_matmul`](DeviceArrayRef::scaled_matmul) and
/// [`scaled_batched_matmul`](DeviceArrayRef::scaled_batched_matmul). It is what PyTorch has as `_scaled_mm`.
///
/// Nothing is computed before [`compute`](Self::compute) or [`compute_into`](Self::compute_into) is called. An operand without
/// a scale is taken as it is. The result is `f32` or `bf16`, whichever type is asked for.
///
/// # How exact it is
///
/// Products are exact, sums are in f32, and the result is rounded once. Hopper's tensor cores add 8-bit floats with some 14
/// bits ("DeepSeek-V3 Technical Report", 2024, 3.3.2): of 32 products and the sum so far, each is cut off at 2⁻¹³ of the
/// largest. So every 128 of k are summed on their own, and added up in f32: an element's error is at most
/// `(132 · 2⁻¹³ + k / 128 · 2⁻²⁴) Σ|a||b|`, to first order, times the scales, and mostly a small part of it; it does not grow
/// with k but by what f32 adds. With [`fast_accumulation`](Self::fast_accumulation) it grows with k. Ada's and later ones are
/// taken to be as exact, and used in the same way. Other devices convert the operands, which is exact, and multiply them with the
/// error of [`matmul`](DeviceArrayRef::matmul) of `f16`, or `f32`.
///
/// # Cost
///
/// On Hopper that of `matmul` of 16-bit numbers, with elements of half as many bytes in half the time. The tensor cores take
/// bytes only along k: an operand whose neighbours along k are not beside one another in memory is copied there first (in C
/// order the `b` of `a · b`, but nothing of `a · b.t()`), and so is one whose lines do not begin at multiples of 16 bytes; its
/// elements are read and written once, and want memory for as many.
///
/// On Ada and later (a driver of CUDA 12.4 or newer) their own tensor cores multiply them likewise, into memory of the sums in
/// `f32`, from which the result is made.
///
/// Elsewhere the operands are converted, to `f16` where there are tensor cores for it and no scales of blocks, or else to
/// `f32`, and want memory for that and for the sums in `f32`.
///
/// # Examples
///
/// ```
/// # use ndarray::array;
/// # use warpsmith::{Device, DeviceArray, F8E4M3, bf16};
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let a = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?.cast::<F8E4M3>()?;
/// let b = DeviceArray::from_ndarray(stream, &array![[1.0f32, 0.5], [0.0, 2.0]])?.cast::<F8E4M3>()?;
/// let of_rows = DeviceArray::from_ndarray(stream, &array![[10.0f32], [100.0]])?;
/// let c: DeviceArray<f32, _> = a.scaled_matmul(&b).scale_a(&of_rows).compute()?;
/// assert_eq!(c.to_ndarray()?, array![[10.0, 45.0], [300.0, 950.0]]);
/// let bias = DeviceArray::from_ndarray(stream, &array![bf16::ONE, bf16::ZERO])?;
/// let c = a.scaled_matmul(&b).bias(&bias).compute()?;
/// assert_eq!(c.cast::<f32>()?.to_ndarray()?, array![[2.0, 4.5], [4.0, 9.5]]);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is computed before `compute` or `compute_into`"]
pub struct ScaledMatMul<'a, A, B, C: MatMul, D: Dimension> {
    operation: &'static str,
    a: &'a DeviceArrayRef<A, D>,
    b: &'a DeviceArrayRef<B, D>,
    a_scales: Option<DeviceView<'a, f32, IxDyn>>,
    b_scales: Option<DeviceView<'a, f32, IxDyn>>,
    fast: bool,
    bias: Option<Result<DeviceView<'a, C, D>>>,
}

impl<A: Element, B: Element, C: MatMul, D: Dimension> fmt::Debug for ScaledMatMul<'_, A, B, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScaledMatMul")
            .field("operation", &self.operation)
            .field("a", &self.a.shape())
            .field("b", &self.b.shape())
            .field("fast", &self.fast)
            .finish_non_exhaustive()
    }
}

impl<'a, A: ScaledMul<B, C>, B: Element, C: MatMul<Scalar = f32>, D: Dimension> ScaledMatMul<'a, A, B, C, D> {
    fn new(operation: &'static str, a: &'a DeviceArrayRef<A, D>, b: &'a DeviceArrayRef<B, D>) -> Self {
        Self {
            operation,
            a,
            b,
            a_scales: None,
            b_scales: None,
            fast: false,
            bias: None,
        }
    }

    /// Scales the left operand, of m rows: by one number, as an array of one element; by a number for each row, as one of m × 1;
    /// or by a number for each 128 elements of a row, as one of m × ⌈k / 128⌉. Scales of a batch are batch × … of these, or
    /// those of all products.
    ///
    /// Scales of rows are multiplied with the sums, those of 128 elements with the sums of 128 products, as these are added up.
    pub fn scale_a<E: Dimension>(mut self, scales: &'a DeviceArrayRef<f32, E>) -> Self {
        self.a_scales = Some(scales.view().into_dyn());
        self
    }

    /// Scales the right operand, of n columns: by one number, as an array of one element; by a number for each column, as one
    /// of 1 × n; or by a number for each block of 128 × 128 elements, as one of ⌈k / 128⌉ × ⌈n / 128⌉. Otherwise as
    /// [`scale_a`](Self::scale_a).
    pub fn scale_b<E: Dimension>(mut self, scales: &'a DeviceArrayRef<f32, E>) -> Self {
        self.b_scales = Some(scales.view().into_dyn());
        self
    }

    /// Lets the tensor cores add all products, which is faster in large products, and less exact: with the 14 bits that they
    /// have, the error grows as k does, up to `(k + k / 32) 2⁻¹³ Σ|a||b|`. What PyTorch calls `use_fast_accum`. With scales of
    /// 128 elements, and in small products, all is as without.
    pub fn fast_accumulation(mut self) -> Self {
        self.fast = true;
        self
    }

    /// Adds a bias, of any shape that broadcasts to the result's, by NumPy's rules: so a vector of `n` has an element for each
    /// column. It is of the result's type, and added before the result is rounded.
    pub fn bias<E: Dimension>(mut self, bias: &'a DeviceArrayRef<C, E>) -> Self {
        let dim = self.dim();
        self.bias = Some(bias.broadcast(dim.clone()).map_err(|_| Error::Shape {
            operation: self.operation,
            given: format!(
                "a bias of shape {:?} for a product of shape {:?}",
                bias.shape(),
                dim.slice()
            ),
            wanted: "a bias that broadcasts to the product's shape".into(),
        }));
        self
    }

    /// The product as a new array, on the stream of its left operand.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn compute(mut self) -> Result<DeviceArray<C, D>> {
        // Before there is memory for a result of no shape.
        let (a, b) = (self.a.bits::<u8>(), self.b.bits::<u8>());
        let product = Multiplication::new(self.operation, &a, &b, None)?;
        DeviceArray::made(self.a.stream(), self.dim(), &mut |out| self.run(&product, out))
    }

    /// [`compute`](Self::compute) into an existing array or view, whatever its elements were.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute); on an error nothing is written.
    pub fn compute_into(mut self, out: &mut DeviceArrayRef<C, D>) -> Result<()> {
        let stream = self.a.stream();
        let (a, b) = (self.a.bits::<u8>(), self.b.bits::<u8>());
        let product = Multiplication::new(self.operation, &a, &b, None)?;
        check_output(self.operation, &self.dim(), stream, out)?;
        out.write_in_order(stream, &mut |out| self.run(&product, out))
    }

    /// The shape of the result, if the operands fit.
    fn dim(&self) -> D {
        product_dim(self.a, self.b)
    }

    /// The product into elements of its shape, in C order; to be called once.
    fn run(&mut self, product: &Multiplication<'_, u8, D>, out: &mut DeviceArrayRef<C, D>) -> Result<()> {
        let stream = self.a.stream();
        let of = &product.shape;
        let scales = |of, scales: &'_ Option<DeviceView<'a, f32, IxDyn>>, extents| {
            let scales = scales
                .as_ref()
                .map(|scales| Scales::new(self.operation, of, scales, extents));
            scales.transpose()
        };
        let blocks = |length: usize| length.div_ceil(SCALE_BLOCK);
        let a_scales = scales("a", &self.a_scales, [of.batch, of.m, blocks(of.k), of.m])?;
        let b_scales = scales("b", &self.b_scales, [of.batch, of.n, blocks(of.k), blocks(of.n)])?;
        let bias = self.bias.take().transpose()?;
        for operand in [&a_scales, &b_scales].into_iter().flatten() {
            stream.check_device(self.operation, operand.memory.stream())?;
        }
        if let Some(bias) = &bias {
            stream.check_device(self.operation, bias.stream())?;
        }
        if out.is_empty() {
            return Ok(());
        }
        let bias = match &bias {
            Some(bias) => Some(bias.forwards(Some(&*out))?),
            None => None,
        };
        let finish = Finish {
            bias,
            ..Finish::scale(1.0, 0.0)
        };
        let scaled = Scaled {
            a: self.a,
            b: self.b,
            product,
            a_scales,
            b_scales,
            fast: self.fast,
        };
        A::multiply(&scaled, stream, out, &finish)
    }
}

/// The matrices of a batch, or one as often as there are products.
fn repeated(matrices: DeviceArray<f32, Ix3>, products: usize) -> Result<DeviceArray<f32, Ix3>> {
    let (batch, rows, columns) = matrices.raw_dim().into_pattern();
    match batch == 1 && products > 1 {
        true => matrices.broadcast(Ix3(products, rows, columns))?.to_array(),
        false => Ok(matrices),
    }
}

/// A product whose operands fit.
#[doc(hidden)]
pub struct Scaled<'a, A, B, D> {
    a: &'a DeviceArrayRef<A, D>,
    b: &'a DeviceArrayRef<B, D>,
    product: &'a Multiplication<'a, u8, D>,
    a_scales: Option<Scales<'a>>,
    b_scales: Option<Scales<'a>>,
    fast: bool,
}

impl<A: Element, B: Element, D: Dimension> Scaled<'_, A, B, D> {
    /// The product, finished.
    fn run<C: Summed>(&self, stream: &Stream, out: &mut DeviceArrayRef<C, D>, finish: &Finish<'_, C, D>) -> Result<()>
    where
        A: Fp8Gemm<B, C> + Fp8Gemm<B, f32> + AdaGemm<B> + CastTo<f16> + CastTo<f32>,
        B: Fp8Gemm<A, f32> + CastTo<f16> + CastTo<f32>,
    {
        let of = &self.product.shape;
        // Of scales of blocks a tile has those of one block.
        let wide = <A as Fp8Gemm<B, C>>::HAS_192 && !self.has_blocks();
        let widths: &[usize] = match (self.is_fast(), wide) {
            (true, false) => &[128, 64, 32],
            (true, true) => &[128, 96, 64, 32],
            (false, false) => &[64, 32],
            (false, true) => &[96, 64, 32],
        };
        if let Some(parts) = self.by_parts(widths, stream)? {
            return finish::finish_parts_into(parts.sums(), of, stream, out, finish);
        }
        match ByteProduct::new(self.product, stream)? {
            Some(bytes) if finish.lies_in_pairs() => {
                multiply::<A, B, C>(bytes, of, widths, self.scales(), stream, out, finish)
            }
            Some(bytes) => finish::finish_after(of, stream, out, finish, |sums| {
                let scale = Finish::<f32, Ix3>::scale(1.0, 0.0);
                multiply::<A, B, f32>(bytes, of, widths, self.scales(), stream, sums, &scale)
            }),
            None => finish::finish_after(of, stream, out, finish, |sums| {
                if multiply_by_warps::<A, B>(self.product, self.scales(), stream, sums)? {
                    return Ok(());
                }
                self.sum_elsewhere(stream, sums)
            }),
        }
    }

    /// Whether the tensor cores add all of k. Scales of blocks want the second level of sums.
    fn is_fast(&self) -> bool {
        self.fast && !self.has_blocks()
    }

    fn has_blocks(&self) -> bool {
        let scales = [&self.a_scales, &self.b_scales];
        scales.into_iter().flatten().any(|scales| scales.by_blocks)
    }

    /// The sums of few tiles with a long k, or of few rows, in parts on tensor cores, if that pays.
    fn by_parts(&self, widths: &[usize], stream: &Stream) -> Result<Option<Parts>>
    where
        A: Fp8Gemm<B, f32> + AdaGemm<B>,
        B: Fp8Gemm<A, f32>,
    {
        if hopper::is_hopper(stream) {
            self.by_parts_on_hopper(widths, stream)
        } else if has_tensor_cores(stream, ADA) {
            self.by_parts_of_warps(stream)
        } else {
            Ok(None)
        }
    }

    /// [`by_parts`](Self::by_parts) by the instructions of a warp.
    fn by_parts_of_warps(&self, stream: &Stream) -> Result<Option<Parts>>
    where
        A: AdaGemm<B>,
    {
        let of = &self.product.shape;
        let how = ampere::best_parts(of, &[fp8_mma::COLUMNS], stream);
        // Parts of whole blocks; few rows are no faster as columns.
        let Some(how) = how.filter(|how| !how.transposed && of.k.is_multiple_of(how.parts * SCALE_BLOCK)) else {
            return Ok(None);
        };
        let cut = how.product(self.product);
        let GemmShape { batch, m, n, k, .. } = cut.shape;
        let mut sums = DeviceArray::<f32, _>::uninit(stream, Ix3(batch, m, n))?;
        let scales = self.scales().of_parts(k);
        Ok(
            multiply_by_warps::<A, B>(&cut, scales, stream, &mut sums)?.then_some(Parts {
                sums,
                transposed: false,
            }),
        )
    }

    /// [`by_parts`](Self::by_parts) on Hopper.
    fn by_parts_on_hopper(&self, widths: &[usize], stream: &Stream) -> Result<Option<Parts>>
    where
        A: Fp8Gemm<B, f32>,
        B: Fp8Gemm<A, f32>,
    {
        // Blocks have one line of A and 128 of B.
        let how = best_parts(self.product, widths, stream).filter(|how| !(how.transposed && self.has_blocks()));
        let Some(how) = how else {
            return Ok(None);
        };
        let cut = how.product(self.product);
        let GemmShape { batch, m, n, k, .. } = cut.shape;
        let Some(bytes) = ByteProduct::new(&cut, stream)? else {
            return Ok(None);
        };
        let mut sums = DeviceArray::<f32, _>::uninit(stream, Ix3(batch, m, n))?;
        let (scales, finish) = (self.scales().of_parts(k), Finish::<f32, Ix3>::scale(1.0, 0.0));
        match how.transposed {
            true => {
                let scales = scales.transposed();
                multiply::<B, A, f32>(bytes, &cut.shape, widths, scales, stream, &mut sums, &finish)?;
            }
            false => multiply::<A, B, f32>(bytes, &cut.shape, widths, scales, stream, &mut sums, &finish)?,
        }
        Ok(Some(Parts {
            sums,
            transposed: how.transposed,
        }))
    }

    /// The scales as the kernels take them.
    fn scales(&self) -> ScaleArgs<'_> {
        ScaleArgs::new(&self.a_scales, &self.b_scales, self.is_fast(), &self.product.shape)
    }

    /// By products of `f16` on tensor cores, or of `f32`, which have all 8-bit floats: sums in f32, which are then scaled.
    fn sum_elsewhere(&self, stream: &Stream, sums: &mut DeviceArray<f32, Ix3>) -> Result<()>
    where
        A: CastTo<f16> + CastTo<f32>,
        B: CastTo<f16> + CastTo<f32>,
    {
        if self.has_blocks() || !self.by_f16(stream, sums)? {
            self.by_f32(stream, sums)?;
        }
        for (scales, order) in [(&self.a_scales, [0, 1, 2]), (&self.b_scales, [0, 2, 1])] {
            if let Some(scales) = scales.as_ref().filter(|scales| !scales.by_blocks) {
                let ([p, r, c], strides) = (order.map(|i| scales.extents[i]), order.map(|i| scales.strides[i]));
                sums.mul_assign(&scales.memory.laid_out(Ix3(p, r, c), strides.to_vec()))?;
            }
        }
        Ok(())
    }

    /// The sums by the tensor cores' products of `f16`, if there are any.
    fn by_f16(&self, stream: &Stream, sums: &mut DeviceArray<f32, Ix3>) -> Result<bool>
    where
        A: CastTo<f16>,
        B: CastTo<f16>,
    {
        if !has_tensor_cores(stream, TURING) {
            return Ok(false);
        }
        let [a_shape, b_shape] = self.stacks();
        let a = self.a.cast::<f16>()?.into_shape(a_shape)?;
        let b = self.b.cast::<f16>()?.into_shape(b_shape)?;
        let product = Multiplication::new("scaled_matmul", &a, &b, None)?;
        let scale = Finish::scale(1.0, 0.0);
        Ok(
            tensor::by_tensor_cores::<f16, f32, Ix3, _>(&product, stream, sums, &scale)?
                || turing::multiply(&product, stream, sums, &scale)?,
        )
    }

    /// The sums of the operands as `f32`, times the scales of blocks.
    fn by_f32(&self, stream: &Stream, sums: &mut DeviceArray<f32, Ix3>) -> Result<()>
    where
        A: CastTo<f32>,
        B: CastTo<f32>,
    {
        let of = &self.product.shape;
        let [a_shape, b_shape] = self.stacks();
        let mut a = self.a.cast::<f32>()?.into_shape(a_shape)?;
        let mut b = self.b.cast::<f32>()?.into_shape(b_shape)?;
        let of_blocks = |scales: &'_ Option<Scales<'_>>| match scales {
            Some(scales) if scales.by_blocks && of.k > 0 => Some(scales.extents[0]),
            _ => None,
        };
        if let (Some(products), Some(scales)) = (of_blocks(&self.a_scales), &self.a_scales) {
            a = repeated(a, products)?;
            a.mul_assign(&scales.of_elements(1, [of.m, of.k])?)?;
        }
        if let (Some(products), Some(scales)) = (of_blocks(&self.b_scales), &self.b_scales) {
            b = repeated(b, products)?;
            let scales = scales.of_elements(SCALE_BLOCK, [of.n, of.k])?;
            b.mul_assign(&*scales.view().permuted_axes([0, 2, 1])?)?;
        }
        Multiplication::new("scaled_matmul", &a, &b, Some(sums))?.run(stream, sums, &Finish::scale(1.0, 0.0))
    }

    /// The operands' shapes as batches of matrices.
    fn stacks(&self) -> [Ix3; 2] {
        let of = &self.product.shape;
        let batch = |shape: &[usize]| if shape.len() == 3 { shape[0] } else { 1 };
        [
            Ix3(batch(self.a.shape()), of.m, of.k),
            Ix3(batch(self.b.shape()), of.k, of.n),
        ]
    }
}

/// The sums of the products, scaled, by the instructions of a warp, if the stream's device has them and they can count them.
fn multiply_by_warps<A: AdaGemm<B>, B>(
    product: &Multiplication<'_, u8, impl Dimension>,
    scales: ScaleArgs<'_>,
    stream: &Stream,
    sums: &mut DeviceArray<f32, Ix3>,
) -> Result<bool> {
    let Some(mut shape) = ampere::mma_shape(&product.shape, ADA, stream) else {
        return Ok(false);
    };
    let operands = Operands::new(product, false, &mut shape)?;
    let (a, b) = operands.words();
    let args = (a, b, sums, shape, scales.plan, scales.a, scales.b);
    let config = ampere::config::<u8, f32, Narrow>(&product.shape, fp8_mma::COLUMNS);
    // SAFETY: the kernel's contract: threads and shared memory are those of its tiles, which are as many as the blocks; the
    // operands lie along k, and have the elements of the shape, from multiples of 16 bytes on and with such strides, as a tensor
    // map wants them, and the sums those of the products. The scales are as their plan says.
    unsafe { stream.launch_on_tensor_cores::<A::Kernel>(&config, args) }?;
    Ok(true)
}

/// The products, of one launch, by tiles of the best of these widths. The addends lie in pairs.
fn multiply<A: Fp8Gemm<B, C>, B, C: Summed>(
    bytes: ByteProduct<'_>,
    of: &GemmShape,
    widths: &[usize],
    scales: ScaleArgs<'_>,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, impl Dimension>,
    finish: &Finish<'_, C, impl Dimension>,
) -> Result<()> {
    let registers = hopper::best_registers(of, 1, widths, stream);
    let bytes = bytes.with_best_rows(of, registers, stream);
    hopper::write_mapped(out, [of.batch, of.m, of.n], false, stream, |out| match registers {
        32 => launch::<A::N64, C>(&bytes, 32, scales, stream, out, finish),
        64 => launch::<A::N128, C>(&bytes, 64, scales, stream, out, finish),
        96 => launch::<A::N192, C>(&bytes, 96, scales, stream, out, finish),
        _ => launch::<A::N256, C>(&bytes, 128, scales, stream, out, finish),
    })
}

/// With tiles whose sums take so many registers, as `K`'s do.
fn launch<K: Kernel<Params = Fp8Params<C>>, C: Summed>(
    bytes: &ByteProduct<'_>,
    registers: usize,
    scales: ScaleArgs<'_>,
    stream: &Stream,
    out: &mut DeviceViewMut<'_, C, Ix3>,
    finish: &Finish<'_, C, impl Dimension>,
) -> Result<()> {
    let [a, b] = bytes.maps(registers)?;
    let mut c = hopper::result_map(out)?;
    let config = hopper::config(&bytes.shape, registers, stream);
    let (plan, bias, residual) = (finish.plan(), finish.bias(), finish.residual());
    let ScaleArgs {
        plan: scale_plan,
        a: a_scales,
        b: b_scales,
    } = scales;
    let args = (
        &a,
        &b,
        &mut c,
        bytes.shape,
        plan,
        bias,
        residual,
        scale_plan,
        a_scales,
        b_scales,
    );
    // SAFETY: the kernel's contract: threads and shared memory are those it is written for, and so are the maps' tiles and
    // their swizzle; both operands lie along k. The addends have the products' shape, in pairs; the scales are as their plan says:
    // of blocks only with tiles whose sums are on two levels, and those of `b` only with tiles of at most 128 columns.
    unsafe { stream.launch_on_tensor_cores::<K>(&config, args) }
}

/// Products of matrices of 8-bit floats.
impl<A: Element> DeviceArrayRef<A, Ix2> {
    /// The product of this m × k matrix and the k × n matrix `b`, of 8-bit floats, whose scales and bias are added by the
    /// methods of [`ScaledMatMul`], which has its precision, its cost and an example.
    pub fn scaled_matmul<'a, B: Element, C: MatMul<Scalar = f32>>(
        &'a self,
        b: &'a DeviceArrayRef<B, Ix2>,
    ) -> ScaledMatMul<'a, A, B, C, Ix2>
    where
        A: ScaledMul<B, C>,
    {
        ScaledMatMul::new("scaled_matmul", self, b)
    }
}

/// Products of batches of matrices of 8-bit floats.
impl<A: Element> DeviceArrayRef<A, Ix3> {
    /// The products of these batch × m × k matrices and the batch × k × n matrices `b`, one by one, as
    /// [`scaled_matmul`](DeviceArrayRef::scaled_matmul). A batch of one matrix is multiplied with all of the other.
    pub fn scaled_batched_matmul<'a, B: Element, C: MatMul<Scalar = f32>>(
        &'a self,
        b: &'a DeviceArrayRef<B, Ix3>,
    ) -> ScaledMatMul<'a, A, B, C, Ix3>
    where
        A: ScaledMul<B, C>,
    {
        ScaledMatMul::new("scaled_batched_matmul", self, b)
    }
}
