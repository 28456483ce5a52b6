// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products whose rows are reduced as they are stored: on Hopper by the kernel that multiplies, which leaves a value for each
//! 64 columns of a row, and one that combines these; elsewhere, and where the product is done in parts, by a reduction behind
//! it.

use cuda_std::launch::Kernel;
use half::{bf16, f16};
use kernels_gpu::compiled::{HopperRows, Reduce, WgmmaRowsParams};
use kernels_gpu::matmul::epilogue::rows::{COMBINE_THREADS, PARTIAL};
use kernels_gpu::matmul::wgmma::{TILE_M, WgmmaShape, tile_n};
use kernels_gpu::op::ReduceOp;
use ndarray::{Dimension, Ix1, Ix3, RemoveAxis};

use super::MatMul;
use super::addend;
use super::finish::Finish;
use super::fused::FusedMatMul;
use super::gemm::Multiplication;
use super::hopper;
use super::operand::can_be_mapped;
use super::tensor::{self, Factor, Half, Operand};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::Result;
use crate::launch::LaunchConfig;
use crate::stream::Stream;
use crate::view::DeviceViewMut;

/// The element types of products whose rows are reduced by `Op`: those of 16 bits that
/// [`row_kernels!`](kernels_gpu::row_kernels) was given for it.
pub trait RowMatMul<Op: ReduceOp<Self>>: MatMul + Reduce<Op> {
    /// Multiplies, and gives a value for each row of all products, if the kernel has made them.
    #[doc(hidden)]
    fn multiply_rows<D: Dimension>(
        product: Multiplication<'_, Self, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<Self, D>,
        finish: &Finish<'_, Self, D>,
    ) -> Result<Option<DeviceArray<Op::Output, Ix1>>>;
}

macro_rules! halves {
    ($($type:ty),*) => {$(
        impl<Op: ReduceOp<$type>> RowMatMul<Op> for $type
        where
            $type: HopperRows<Op> + Reduce<Op>,
        {
            fn multiply_rows<D: Dimension>(
                product: Multiplication<'_, Self, D>,
                stream: &Stream,
                out: &mut DeviceArrayRef<Self, D>,
                finish: &Finish<'_, Self, D>,
            ) -> Result<Option<DeviceArray<Op::Output, Ix1>>> {
                multiply::<$type, Op, D>(product, stream, out, finish)
            }
        }
    )*};
}

halves!(f16, bf16);

/// A product, and the reductions of its rows by `Op`.
pub type WithRows<T, D, Op> = (
    DeviceArray<T, D>,
    DeviceArray<<Op as ReduceOp<T>>::Output, <D as Dimension>::Smaller>,
);

/// Products whose rows are reduced.
impl<T: MatMul, D: Dimension + RemoveAxis> FusedMatMul<'_, T, D> {
    /// [`compute`](Self::compute), and the reduction by `Op` of each row of the result, as
    /// [`reduce_axis`](DeviceArrayRef::reduce_axis) along the last axis gives it: of the elements as they are stored. Maxima, sums,
    /// and what a softmax needs of its rows are there without reading the result.
    ///
    /// `Op` is a commutative operator of a kernels crate, of `f16` or `bf16`, whose kernels
    /// [`row_kernels!`](kernels_gpu::row_kernels) makes; its documentation has one.
    ///
    /// # Cost
    ///
    /// On Hopper, the product writes a value for each 64 elements of a row beside them, which a second kernel combines. Elsewhere
    /// the result is reduced behind the product, and so it is where k is cut into parts, or the result's rows do not begin at
    /// multiples of 16 bytes, or those of an addend not at multiples of 4.
    ///
    /// Columns are rows of the transpose: `b.t().fused_matmul(&a.t())` gives it, with their reductions, and copies no operand; a
    /// bias for each column is then one of n × 1.
    ///
    /// # Determinism
    ///
    /// The elements of a row are combined in one order for all products of a shape on a device, which is neither that of other
    /// devices nor that of `reduce_axis`: the bits do not change from run to run.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute).
    ///
    /// # Examples
    ///
    /// ```
    /// use kernels_gpu::op::ReduceOp;
    /// # use ndarray::array;
    /// use warpsmith::bf16;
    /// # use warpsmith::{Device, DeviceArray};
    ///
    /// /// The largest magnitude.
    /// struct MaxNorm;
    ///
    /// impl ReduceOp<bf16> for MaxNorm {
    ///     type Acc = f32;
    ///     type Output = f32;
    ///
    ///     fn identity() -> f32 {
    ///         0.0
    ///     }
    ///
    ///     #[inline(always)]
    ///     fn lift(x: bf16, _column: u64) -> f32 {
    ///         x.to_f32().abs()
    ///     }
    ///
    ///     #[inline(always)]
    ///     fn combine(a: f32, b: f32) -> f32 {
    ///         cuda_std::Float::maximum(a, b)
    ///     }
    ///
    ///     fn finish(acc: f32, _count: u64) -> f32 {
    ///         acc
    ///     }
    /// }
    ///
    /// kernels_gpu::operator_kernels!(MaxNorm: bf16 => reduce);
    /// kernels_gpu::row_kernels!(MaxNorm: bf16);
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::simulator();
    /// let x = array![[1.0f32, -2.0], [0.0, 3.0]].mapv(bf16::from_f32);
    /// let x = DeviceArray::from_ndarray(device.default_stream(), &x)?;
    /// let (product, norms) = x.fused_matmul(&x).compute_with_rows::<MaxNorm>()?;
    /// assert_eq!(product.to_ndarray()?.mapv(f32::from), array![[1.0, -8.0], [0.0, 9.0]]);
    /// assert_eq!(norms.to_ndarray()?, array![8.0, 9.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn compute_with_rows<Op: ReduceOp<T>>(self) -> Result<WithRows<T, D, Op>>
    where
        T: RowMatMul<Op>,
    {
        let (out, rows) = self.compute_by(T::multiply_rows)?;
        let last = ndarray::Axis(out.ndim() - 1);
        let rows = match rows.flatten() {
            Some(rows) => rows.into_shape(out.raw_dim().remove_axis(last))?,
            None => out.reduce_axis::<Op>(last)?,
        };
        Ok((out, rows))
    }
}

/// Multiplies numbers of 16 bits, with the rows' reductions, where Hopper's kernel does both at once.
fn multiply<T: Half + HopperRows<Op>, Op: ReduceOp<T>, D: Dimension>(
    product: Multiplication<'_, T, D>,
    stream: &Stream,
    out: &mut DeviceArrayRef<T, D>,
    finish: &Finish<'_, T, D>,
) -> Result<Option<DeviceArray<Op::Output, Ix1>>> {
    let of = product.shape;
    let columns = tensor::hopper_columns::<T, D>(&product, stream)?;
    let is_vector = of.batch == 1 && (of.m == 1 || of.n == 1);
    let mut result = out.in_shape_mut(Ix3(of.batch, of.m, of.n));
    let Some((shape, columns)) = columns
        .filter(|_| finish.alpha != 0.0 && !is_vector && finish.lies_in_pairs() && can_be_mapped(&result.view()))
    else {
        drop(result);
        <T as MatMul>::multiply(product, stream, out, finish)?;
        return Ok(None);
    };
    let rows = of.batch * of.m;
    let mut partials = DeviceArray::uninit(stream, Ix1(rows * of.n.div_ceil(PARTIAL)))?;
    let launch = Launch {
        product: &product,
        shape,
        columns,
        stream,
    };
    match columns {
        64 => launch.run::<<T as HopperRows<Op>>::N64, Op>(&mut result, finish, &mut partials),
        128 => launch.run::<<T as HopperRows<Op>>::N128, Op>(&mut result, finish, &mut partials),
        192 => launch.run::<<T as HopperRows<Op>>::N192, Op>(&mut result, finish, &mut partials),
        _ => launch.run::<<T as HopperRows<Op>>::N256, Op>(&mut result, finish, &mut partials),
    }?;
    let mut reduced = DeviceArray::uninit(stream, Ix1(rows))?;
    let config = LaunchConfig::for_len(rows, COMBINE_THREADS as u32);
    stream.launch::<<T as HopperRows<Op>>::Combine>(&config, (&partials, of.n as u64, &mut reduced))?;
    Ok(Some(reduced))
}

struct Launch<'a, T: Half, D> {
    product: &'a Multiplication<'a, T, D>,
    shape: WgmmaShape,
    /// Of tiles.
    columns: usize,
    stream: &'a Stream,
}

impl<T: Half, D: Dimension> Launch<'_, T, D> {
    /// One launch for all products, with tiles as `K` has them.
    fn run<K: Kernel<Params = WgmmaRowsParams<T, Op>>, Op: ReduceOp<T>>(
        &self,
        out: &mut DeviceViewMut<'_, T, Ix3>,
        finish: &Finish<'_, T, D>,
        partials: &mut DeviceArray<Op::Acc, Ix1>,
    ) -> Result<()> {
        let (of, mut shape) = (&self.product.shape, self.shape);
        let a = Operand::new(&self.product.a, [of.batch, of.m, of.k], of.a, T::ANY_LAYOUT)?;
        let b = Operand::new(&self.product.b, [of.batch, of.n, of.k], of.b, T::ANY_LAYOUT)?;
        (shape.a_along_m, shape.b_along_n) = (a.along_lines.into(), b.along_lines.into());
        let registers = self.columns / tile_n(1);
        let of = <T as Factor>::TYPE;
        let (a, b) = (a.map(of, TILE_M)?, b.map(of, self.columns)?);
        // SAFETY: the launch takes both, and the kernel is one of those.
        let (mut c, ring, addend) = unsafe { addend::maps(out, &shape, finish)? };
        let config = hopper::config(&shape, registers, self.stream);
        let (alpha, plan) = (finish.alpha, finish.plan());
        let (bias, residual) = (finish.bias(), finish.residual());
        let args = (
            &a, &b, &mut c, &addend, shape, alpha, ring, plan, bias, residual, partials,
        );
        // SAFETY: the contract is that of `gemm_wgmma`: threads and shared memory are those it is written for, and so are the
        // maps' types and tiles, by how the operands lie, and their swizzle. The addends have the products' shape, and there is
        // a partial value of each row for each `PARTIAL` columns.
        unsafe { self.stream.launch_on_tensor_cores::<K>(&config, args) }
    }
}
