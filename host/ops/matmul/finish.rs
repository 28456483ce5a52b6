// SPDX-License-Identifier: MIT OR Apache-2.0
//! What becomes of the sums of products: what the kernels are told of it, and how it is done to sums in memory.

use std::any::Any;

use cuda_std::Slice;
use cuda_std::param::ByValue;
use kernels_gpu::compiled::{FinishSums, SumParts};
use kernels_gpu::matmul::epilogue::parts::{MOST_PARTS, OF_THREAD, THREADS, width};
use kernels_gpu::matmul::epilogue::{Activation, EpilogueOp, EpiloguePlan};
use kernels_gpu::matmul::gemm::GemmShape;
use kernels_gpu::num::Num;
use ndarray::{Dim, Dimension, Ix3};

use super::costs::Behind;
use super::finish_plan::FinishPlan;
use super::{HOPPER, MatMul, has_tensor_cores};
use crate::array::{DeviceArray, Element};
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::{Arg, InPlace, LaunchConfig, Words};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::view::DeviceView;

/// What becomes of the sums of products: `f(alpha · sums + beta · old + bias) + residual`, or what a function of one's own
/// makes of the three.
#[doc(hidden)]
pub struct Finish<'a, T: MatMul, D, F = Activation> {
    pub(super) alpha: T::Scalar,
    pub(super) beta: T::Scalar,
    pub(super) function: F,
    pub(super) bias: Option<Ordered<'a, T, D>>,
    pub(super) residual: Option<Ordered<'a, T, D>>,
}

impl<T: MatMul, D: Dimension> Finish<'_, T, D> {
    /// `alpha · sums + beta · old`
    pub(super) fn scale(alpha: T::Scalar, beta: T::Scalar) -> Self {
        Self {
            alpha,
            beta,
            function: Activation::IDENTITY,
            bias: None,
            residual: None,
        }
    }
}

impl<T: MatMul, D: Dimension, F: Copy> Finish<'_, T, D, F> {
    /// Whether there is nothing but the scaling.
    pub(super) fn only_scales(&self) -> bool
    where
        F: EpilogueOp<T::Scalar>,
    {
        self.function.is_identity() && self.bias.is_none() && self.residual.is_none()
    }

    /// What there is to be done to the sums of parts of k, which have been scaled by alpha.
    pub(super) fn behind_parts(&self, stream: &Stream) -> Behind
    where
        F: EpilogueOp<T::Scalar>,
    {
        Behind {
            finishes: !self.only_scales() || self.beta != T::Scalar::ZERO,
            is_ahead: has_tensor_cores(stream, HOPPER),
        }
    }

    /// The same, if the function is one of the library's.
    pub(super) fn of_library(&self) -> Option<Finish<'_, T, D>>
    where
        F: 'static,
    {
        let &function = (&self.function as &dyn Any).downcast_ref::<Activation>()?;
        Some(Finish {
            alpha: self.alpha,
            beta: self.beta,
            function,
            bias: view(&self.bias),
            residual: view(&self.residual),
        })
    }

    /// What is left to be done to sums that have been scaled.
    pub(super) fn without_scaling(&self) -> Finish<'_, T, D, F> {
        Finish {
            alpha: T::Scalar::ONE,
            beta: T::Scalar::ZERO,
            function: self.function,
            bias: view(&self.bias),
            residual: view(&self.residual),
        }
    }

    /// What the kernels are told of it.
    pub(super) fn plan(&self) -> EpiloguePlan<F> {
        EpiloguePlan {
            function: self.function,
            bias: strides(&self.bias),
            residual: strides(&self.residual),
        }
    }

    /// Whether each addend is the same for all columns, or has an even number of them side by side, in pairs aligned as such:
    /// so Hopper's kernel for tensor cores loads them.
    pub(super) fn lies_in_pairs(&self) -> bool {
        let in_pairs = |addend: &Option<Ordered<'_, T, D>>| {
            let Some(elements) = addend.as_deref() else {
                return true;
            };
            let [product, row, column] = strides(addend);
            let columns = elements.shape().last().copied().unwrap_or(1);
            let aligned = elements.address().is_multiple_of(2 * size_of::<T>() as u64);
            column == 0 || (column == 1 && aligned && (product | row | columns).is_multiple_of(2))
        };
        in_pairs(&self.bias) && in_pairs(&self.residual)
    }

    /// Whether a bias is the same for all rows.
    pub(super) fn has_bias_of_row(&self) -> bool {
        strides(&self.bias)[1] == 0
    }

    /// The residual of products of these extents: products, rows, columns.
    pub(super) fn residual_of(&self, extents: [usize; 3]) -> Option<DeviceView<'_, T, Ix3>> {
        let elements = self.residual.as_deref()?;
        Some(elements.laid_out(Dim(extents), strides(&self.residual).to_vec()))
    }

    pub(super) fn bias(&self) -> Option<Words<'_, T>> {
        self.bias.as_deref().map(Words::of)
    }

    pub(super) fn residual(&self) -> Option<Words<'_, T>> {
        self.residual.as_deref().map(Words::of)
    }
}

/// A view of an addend.
fn view<'a, T: MatMul, D: Dimension>(addend: &'a Option<Ordered<'_, T, D>>) -> Option<Ordered<'a, T, D>> {
    addend.as_deref().map(|addend| Ordered::AsIs(addend.view()))
}

/// The strides of an addend: products, rows, columns.
pub(super) fn strides<T: MatMul, D: Dimension>(addend: &Option<Ordered<'_, T, D>>) -> [usize; 3] {
    match addend.as_deref().map(DeviceArrayRef::steps).as_deref() {
        Some(&[row, column]) => [0, row, column],
        Some(&[product, row, column]) => [product, row, column],
        _ => [0; 3],
    }
}

/// Functions of epilogues that a launch passes.
pub trait Passed<W: Num>: EpilogueOp<W> + ByValue<Head = Self> {}

impl<W: Num, F: EpilogueOp<W> + ByValue<Head = F>> Passed<W> for F {}

/// Numbers whose sums in memory can be finished.
pub trait Finished: MatMul<Scalar = <Self as Num>::Wide> + Num<Wide: ByValue> + FinishSums {}

impl<T: MatMul<Scalar = <T as Num>::Wide> + Num<Wide: ByValue> + FinishSums> Finished for T {}

/// Sums in memory, as an argument.
pub(super) struct Sums<A> {
    pub(super) memory: A,
    pub(super) address: u64,
    pub(super) parts: usize,
    pub(super) strides: [usize; 3],
}

impl<A> Sums<A> {
    /// Those of products of this shape, in one part, in C order.
    fn in_order(memory: A, address: u64, of: &GemmShape) -> Self {
        Self {
            memory,
            address,
            parts: 1,
            strides: [of.m * of.n, of.n, 1],
        }
    }
}

impl<'a, W: Element, D: Dimension> Sums<&'a DeviceArray<W, D>> {
    /// Those of products of this shape, in one part, in C order.
    pub(super) fn new(memory: &'a DeviceArray<W, D>, of: &GemmShape) -> Self {
        Self::in_order(memory, memory.address(), of)
    }

    /// Those in parts, each of all products, with these strides: products, rows, columns.
    pub(super) fn in_parts(memory: &'a DeviceArray<W, D>, parts: usize, strides: [usize; 3]) -> Self {
        Self {
            memory,
            address: memory.address(),
            parts,
            strides,
        }
    }
}

impl<W: Element> Sums<InPlace<W>> {
    /// Those of products of this shape that lie in their output.
    ///
    /// # Safety
    ///
    /// As [`InPlace::of`].
    pub(super) unsafe fn in_place(out: &DeviceArrayRef<W, impl Dimension>, of: &GemmShape) -> Self {
        // SAFETY: the caller's promise.
        Self::in_order(unsafe { InPlace::of(out) }, out.address(), of)
    }
}

/// Neighbours of a row of sums that are loaded at once, where rows begin at multiples of as many.
pub(super) fn width_of<C: Num>() -> usize {
    width(size_of::<C::Wide>())
}

/// Adds up the parts of sums, which have been scaled by alpha, and does what else there is to be done: by a kernel of its own where
/// there is nothing else.
pub(super) fn finish_parts_into<C: Finished + FinishSums<F> + SumParts, D: Dimension, F: Passed<C::Scalar>>(
    sums: Sums<impl Arg<Slice<'static, <C as Num>::Wide>> + Copy>,
    of: &GemmShape,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, D>,
    finish: &Finish<'_, C, D, F>,
) -> Result<()> {
    let finishes = finish.behind_parts(stream).finishes;
    let Some((config, [parts, share, rows, n, pitch])) = adding::<C, _>(&sums, of).filter(|_| !finishes) else {
        return finish_sums_into(sums, of, stream, out, finish);
    };
    let args = (sums.memory, out, parts, share, rows, n, pitch);
    // SAFETY: the kernel's contract: the sums, in memory of their own, have the elements of all products in each part, and the
    // output has their shape; each group has a part, and no more than `OF_THREAD`.
    unsafe { stream.launch_unchecked::<<C as SumParts>::Kernel>(&config, args) }
}

/// The launch that adds up parts alone, and their number, those of a thread, the rows of each, the columns, and the distance of rows:
/// `None` where they are too many, for it or for 32 bits, or lie otherwise.
fn adding<C: Num, A>(sums: &Sums<A>, of: &GemmShape) -> Option<(LaunchConfig, [u32; 5])> {
    let (&GemmShape { batch, m, n, .. }, [product, pitch, column]) = (of, sums.strides);
    let is_dense = column == 1 && pitch.is_multiple_of(width_of::<C>()) && (batch == 1 || product == m * pitch);
    let rows = batch.checked_mul(m)?;
    let all = rows.checked_mul(pitch)?.checked_mul(sums.parts)?;
    let groups = groups(sums.parts);
    let (along, of_block) = block::<C>(n, groups);
    let (across, down) = (n.div_ceil(along * width_of::<C>()), rows.div_ceil(of_block));
    let is_few = (2..=MOST_PARTS).contains(&sums.parts) && u32::try_from(all).is_ok() && down <= u16::MAX.into();
    (is_few && is_dense).then(|| {
        let share = sums.parts.div_ceil(groups);
        let block = (along as u32, of_block as u32, sums.parts.div_ceil(share) as u32);
        let config = LaunchConfig::new((across as u32, down as u32), block);
        (config, [sums.parts, share, rows, n, pitch].map(|number| number as u32))
    })
}

/// Threads among which so many parts are shared out.
pub(super) fn groups(parts: usize) -> usize {
    match parts {
        ..=OF_THREAD => 1,
        parts => parts.div_ceil(4).next_power_of_two().min(16),
    }
}

/// Threads of a block along a row of `n` columns, as far as there are columns, and the rows it has with so many threads for each of them:
/// whole warps.
pub(super) fn block<C: Num>(n: usize, groups: usize) -> (usize, usize) {
    let along = n.div_ceil(width_of::<C>()).next_power_of_two().min(THREADS / groups);
    (along, THREADS / groups / along)
}

/// Adds up the parts of sums, which have been scaled by alpha, and does what else there is to be done. The sums may be the
/// output.
pub(super) fn finish_sums_into<C: Finished + FinishSums<F>, D: Dimension, F: ByValue<Head = F>>(
    sums: Sums<impl Arg<Slice<'static, <C as Num>::Wide>> + Copy>,
    of: &GemmShape,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, D>,
    finish: &Finish<'_, C, D, F>,
) -> Result<()> {
    for (config, shape) in FinishPlan::new::<C, _>(&sums, of, out.address(), finish).launches() {
        let (bias, residual) = (finish.bias(), finish.residual());
        let args = (
            sums.memory,
            &mut *out,
            shape,
            finish.beta,
            finish.function,
            bias,
            residual,
        );
        // SAFETY: the kernel's contract: the sums have the elements of all products in each part, and the output and the addends
        // have their shape; each group has a part, and no more than `OF_THREAD`; numbers have 32 bits.
        unsafe { stream.launch_unchecked::<<C as FinishSums<F>>::Kernel>(&config, args)? };
    }
    Ok(())
}

/// Has `sum` compute the sums, scaled by alpha, into memory of their own, and finishes them.
pub(super) fn finish_after<C: Finished + Num<Wide = f32> + FinishSums<F>, D: Dimension, F: ByValue<Head = F>>(
    of: &GemmShape,
    stream: &Stream,
    out: &mut DeviceArrayRef<C, D>,
    finish: &Finish<'_, C, D, F>,
    sum: impl FnOnce(&mut DeviceArray<f32, Ix3>) -> Result<()>,
) -> Result<()> {
    let mut sums = DeviceArray::uninit(stream, Ix3(of.batch, of.m, of.n))?;
    sum(&mut sums)?;
    finish_sums_into(Sums::new(&sums, of), of, stream, out, finish)
}
