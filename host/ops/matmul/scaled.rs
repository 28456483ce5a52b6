// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of 8-bit floats, scaled: on Hopper's tensor cores by their own kernel, elsewhere by way of `f16` or `f32`.

use cuda_std::float8::{F8E4M3, F8E5M2};
use cuda_std::launch::Kernel;
use half::{bf16, f16};
use kernels_gpu::compiled::{CastTo, Fp8Gemm, Fp8Params};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::matmul::wgmma::fp8::{SCALE_BLOCK, ScalePlan};
use ndarray::{Dimension, Ix2, Ix3, Ix5, IxDyn, s};

use super::MatMul;
use super::bytes::{ByteProduct, best_parts, check_output, product_dim, result_map, write_mapped};
use super::finish::{self, Finish, Sums};
use super::gemm::Multiplication;
use super::split::Parts;
use super::tensor::{self, Summed};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::launch::Words;
use crate::ops::transpose::Ordered;
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
/// with k but by what f32 adds. With [`fast_accumulation`](Self::fast_accumulation) it grows with k. Other devices convert the
/// operands, which is exact, and multiply them with the error of [`matmul`](DeviceArrayRef::matmul) of `f16`, or `f32`.
///
/// # Cost
///
/// On Hopper that of `matmul` of 16-bit numbers, with elements of half as many bytes in half the time. The tensor cores take
/// bytes only along k: an operand whose neighbours along k are not beside one another in memory is copied there first (in C
/// order the `b` of `a · b`, but nothing of `a · b.t()`), and so is one whose lines do not begin at multiples of 16 bytes; its
/// elements are read and written once, and want memory for as many.
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
    pub fn compute(self) -> Result<DeviceArray<C, D>> {
        // Before there is memory for a result of no shape.
        let (a, b) = (self.a.bits::<u8>(), self.b.bits::<u8>());
        let product = Multiplication::new(self.operation, &a, &b, None)?;
        let mut out = DeviceArray::uninit(self.a.stream(), self.dim())?;
        self.run(product, &mut out)?;
        Ok(out)
    }

    /// [`compute`](Self::compute) into an existing array or view, whatever its elements were.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute); on an error nothing is written.
    pub fn compute_into(self, out: &mut DeviceArrayRef<C, D>) -> Result<()> {
        let stream = self.a.stream();
        let (a, b) = (self.a.bits::<u8>(), self.b.bits::<u8>());
        let product = Multiplication::new(self.operation, &a, &b, None)?;
        check_output(self.operation, &self.dim(), stream, out)?;
        out.write_in_order(stream, |out| self.run(product, out))
    }

    /// The shape of the result, if the operands fit.
    fn dim(&self) -> D {
        product_dim(self.a, self.b)
    }

    /// The product into elements of its shape, in C order.
    fn run(self, product: Multiplication<'_, u8, D>, out: &mut DeviceArrayRef<C, D>) -> Result<()> {
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
        let bias = self.bias.transpose()?;
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

/// The scales of an operand: for each product, each line (row of A, column of B) or block of them, and each block of k.
struct Scales<'a> {
    memory: Ordered<'a, f32, IxDyn>,
    /// Products, lines or blocks of them, blocks of k: of each as many as there are, or 1 for all.
    extents: [usize; 3],
    /// For each of them, 0 where there is 1 for all.
    strides: [usize; 3],
    by_blocks: bool,
}

impl<'a> Scales<'a> {
    /// Those of operand `a` or `b`, of so many products, lines, blocks of k, and, where it has scales of blocks, groups of
    /// lines.
    fn new(
        operation: &'static str,
        of: &str,
        scales: &DeviceView<'a, f32, IxDyn>,
        [batch, lines, of_k, groups]: [usize; 4],
    ) -> Result<Self> {
        let shape = scales.shape();
        let mut extents = [1; 3];
        let fits = shape.len() <= 3;
        if fits {
            extents[3 - shape.len()..].copy_from_slice(shape);
        }
        // Products, lines, k.
        let order = if of == "a" { [0, 1, 2] } else { [0, 2, 1] };
        let extents = order.map(|axis: usize| extents[axis]);
        let one_or = |given: usize, all: usize| given == 1 || given == all;
        let by_lines = extents[2] == 1 && one_or(extents[1], lines);
        let by_blocks = extents[2] == of_k && one_or(extents[1], groups);
        if !fits || !one_or(extents[0], batch) || !(by_lines || by_blocks) {
            let wanted = match of {
                "a" => format!("1 × 1, {lines} × 1 or {lines} × {of_k}"),
                _ => format!("1 × 1, 1 × {lines} or {of_k} × {groups}"),
            };
            return Err(Error::Shape {
                operation,
                given: format!("scales of `{of}` of shape {shape:?}"),
                wanted: format!("scales of {wanted}, for each of {batch} products or for all"),
            });
        }
        let memory = match scales.forwards::<IxDyn>(None)? {
            Ordered::Copied(copy) => Ordered::Copied(copy),
            Ordered::AsIs(_) => Ordered::AsIs(scales.clone()),
        };
        let mut strides = [0; 3];
        strides[3 - shape.len()..].copy_from_slice(&memory.steps());
        let strides = [0, 1, 2].map(|i| if extents[i] == 1 { 0 } else { strides[order[i]] });
        Ok(Self {
            memory,
            extents,
            strides,
            by_blocks: !by_lines,
        })
    }
}

impl Scales<'_> {
    /// The strides; 0 where there are no scales.
    fn strides(of: &Option<Self>) -> [usize; 3] {
        of.as_ref().map_or([0; 3], |scales| scales.strides)
    }

    /// The elements from the first to the last.
    fn len(of: &Option<Self>) -> usize {
        of.as_ref()
            .map_or(0, |scales| scales.memory.bytes().len() / size_of::<f32>())
    }

    /// The memory, if there are scales.
    fn words(of: &Option<Self>) -> Option<Words<'_, f32>> {
        of.as_ref().map(|scales| Words::of(&scales.memory))
    }

    /// Those of blocks of so many lines and 128 along k, one for each element, or for all lines: products, lines, k.
    fn of_elements(&self, block: usize, [lines, k]: [usize; 2]) -> Result<DeviceArray<f32, Ix3>> {
        let ([products, groups, of_k], [product, group, step]) = (self.extents, self.strides);
        let block = if groups == 1 { 1 } else { block };
        let each = Ix5(products, groups, block, of_k, SCALE_BLOCK);
        let each = self
            .memory
            .laid_out(each, vec![product, group, 0, step, 0])
            .to_array()?;
        let each = each.into_shape(Ix3(products, groups * block, of_k * SCALE_BLOCK))?;
        each.slice(s![.., ..lines.min(groups * block), ..k])?.to_array()
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
    product: Multiplication<'a, u8, D>,
    a_scales: Option<Scales<'a>>,
    b_scales: Option<Scales<'a>>,
    fast: bool,
}

impl<A: Element, B: Element, D: Dimension> Scaled<'_, A, B, D> {
    /// The product, finished.
    fn run<C: Summed>(&self, stream: &Stream, out: &mut DeviceArrayRef<C, D>, finish: &Finish<'_, C, D>) -> Result<()>
    where
        A: Fp8Gemm<B, C> + Fp8Gemm<B, f32> + CastTo<f16> + CastTo<f32>,
        B: Fp8Gemm<A, f32> + CastTo<f16> + CastTo<f32>,
    {
        let widths: &[usize] = match self.fast && !self.has_blocks() {
            true => &[128, 64, 32],
            false => &[64, 32],
        };
        if let Some(parts) = self.by_parts(widths, stream)? {
            return finish::finish_sums_into(parts.sums(), &self.product.shape, stream, out, finish);
        }
        match ByteProduct::new(&self.product, stream)? {
            Some(bytes) => multiply::<A, B, C>(bytes, &self.product.shape, widths, self.scales(), stream, out, finish),
            None => self.elsewhere(stream, out, finish),
        }
    }

    fn has_blocks(&self) -> bool {
        let scales = [&self.a_scales, &self.b_scales];
        scales.into_iter().flatten().any(|scales| scales.by_blocks)
    }

    /// The sums of few tiles with a long k, or of few rows, in parts on Hopper's tensor cores, if that pays.
    fn by_parts(&self, widths: &[usize], stream: &Stream) -> Result<Option<Parts>>
    where
        A: Fp8Gemm<B, f32>,
        B: Fp8Gemm<A, f32>,
    {
        // Blocks have one line of A and 128 of B.
        let how = best_parts(&self.product, widths, stream).filter(|how| !(how.transposed && self.has_blocks()));
        let Some(how) = how else {
            return Ok(None);
        };
        let cut = how.product(&self.product);
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
        let (strides, words) = (Scales::strides, Scales::words);
        let by_blocks = |scales: &Option<Scales<'_>>| scales.as_ref().is_some_and(|scales| scales.by_blocks).into();
        let plan = ScalePlan {
            a: strides(&self.a_scales),
            b: strides(&self.b_scales),
            a_by_blocks: by_blocks(&self.a_scales),
            b_by_blocks: by_blocks(&self.b_scales),
        };
        let GemmShape { batch, m, n, k, .. } = self.product.shape;
        debug_assert!(plan.fits(
            [batch, m, n, k],
            Scales::len(&self.a_scales),
            Scales::len(&self.b_scales)
        ));
        ScaleArgs {
            plan,
            a: words(&self.a_scales),
            b: words(&self.b_scales),
        }
    }

    /// By products of `f16` on tensor cores, or of `f32`, which have all 8-bit floats: sums in f32, which are then scaled.
    fn elsewhere<C: Summed>(
        &self,
        stream: &Stream,
        out: &mut DeviceArrayRef<C, D>,
        finish: &Finish<'_, C, D>,
    ) -> Result<()>
    where
        A: CastTo<f16> + CastTo<f32>,
        B: CastTo<f16> + CastTo<f32>,
    {
        let of = &self.product.shape;
        let mut sums = DeviceArray::<f32, Ix3>::uninit(stream, Ix3(of.batch, of.m, of.n))?;
        if self.has_blocks() || !self.by_f16(stream, &mut sums)? {
            self.by_f32(stream, &mut sums)?;
        }
        for (scales, order) in [(&self.a_scales, [0, 1, 2]), (&self.b_scales, [0, 2, 1])] {
            if let Some(scales) = scales.as_ref().filter(|scales| !scales.by_blocks) {
                let ([p, r, c], strides) = (order.map(|i| scales.extents[i]), order.map(|i| scales.strides[i]));
                sums.mul_assign(&scales.memory.laid_out(Ix3(p, r, c), strides.to_vec()))?;
            }
        }
        finish::finish_sums_into(Sums::new(&sums, of), of, stream, out, finish)
    }

    /// The sums by the tensor cores' products of `f16`, if there are any.
    fn by_f16(&self, stream: &Stream, sums: &mut DeviceArray<f32, Ix3>) -> Result<bool>
    where
        A: CastTo<f16>,
        B: CastTo<f16>,
    {
        if stream.backend().properties().tensor_cores.is_none() {
            return Ok(false);
        }
        let [a_shape, b_shape] = self.stacks();
        let a = self.a.cast::<f16>()?.into_shape(a_shape)?;
        let b = self.b.cast::<f16>()?.into_shape(b_shape)?;
        let product = Multiplication::new("scaled_matmul", &a, &b, None)?;
        tensor::by_tensor_cores::<f16, f32, Ix3>(&product, stream, sums, &Finish::scale(1.0, 0.0))
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

/// The scales of both operands as the kernels take them.
struct ScaleArgs<'a> {
    plan: ScalePlan,
    a: Option<Words<'a, f32>>,
    b: Option<Words<'a, f32>>,
}

impl ScaleArgs<'_> {
    /// Those of a batch of parts of so many elements along k, which are whole blocks.
    fn of_parts(mut self, k: usize) -> Self {
        for strides in [&mut self.plan.a, &mut self.plan.b] {
            strides[0] = k / SCALE_BLOCK * strides[2];
        }
        self
    }

    /// Those of the product of the transposes, in the other order: not of blocks, which have other lines in both.
    fn transposed(self) -> Self {
        let ScalePlan { a, b, .. } = self.plan;
        Self {
            plan: ScalePlan {
                a: b,
                b: a,
                ..ScalePlan::default()
            },
            a: self.b,
            b: self.a,
        }
    }
}

/// The products, of one launch, by tiles of the best of these widths.
fn multiply<A: Fp8Gemm<B, C>, B, C: Summed>(
    mut bytes: ByteProduct<'_>,
    of: &GemmShape,
    widths: &[usize],
    scales: ScaleArgs<'_>,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, impl Dimension>,
    finish: &Finish<'_, C, impl Dimension>,
) -> Result<()> {
    let registers = bytes.best_registers(of, widths);
    write_mapped(out, [of.batch, of.m, of.n], stream, |out| {
        bytes.shape.c_row = out.shape()[2] as u32;
        match registers {
            32 => launch::<A::N64, C>(&bytes, 32, scales, stream, out, finish),
            64 => launch::<A::N128, C>(&bytes, 64, scales, stream, out, finish),
            _ => launch::<A::N256, C>(&bytes, 128, scales, stream, out, finish),
        }
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
    let mut c = result_map(out)?;
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
    // their swizzle; both operands lie along k. The addends have the products' shape, and the scales are as their plan says: of
    // blocks only with tiles whose sums are on two levels.
    unsafe { stream.launch_unchecked::<K>(&bytes.config(registers), args) }
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
