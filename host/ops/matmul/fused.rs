// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices, and what becomes of their sums before they are stored.

use std::fmt;

use kernels_gpu::compiled::Real;
use kernels_gpu::matmul::epilogue::Activation;
use kernels_gpu::num::Num;
use ndarray::{Dimension, Ix2, Ix3};

use super::finish::Finish;
use super::gemm::{Multiplication, Multiply};
use super::own::{MultiplyWith, OwnEpilogue};
use super::{MatMul, Precision};
use crate::array::DeviceArray;
use crate::array_ref::DeviceArrayRef;
use crate::error::{Error, Result};
use crate::ops::transpose::Ordered;
use crate::stream::Stream;
use crate::view::DeviceView;

/// A product of matrices, or of batches of them, and what becomes of it: `f(alpha · A B + beta · C + bias) + residual`, by
/// [`fused_matmul`](DeviceArrayRef::fused_matmul) and [`fused_batched_matmul`](DeviceArrayRef::fused_batched_matmul).
///
/// Nothing is computed before [`compute`](Self::compute), [`compute_into`](Self::compute_into) or
/// [`accumulate_into`](Self::accumulate_into) is called. Each of the parts can be left out, and the order in which they are
/// named does not matter; a part that is named twice is that of the last time. `F` is the function: one of the library's, or one
/// of one's own, which [`epilogue`](Self::epilogue) takes.
///
/// The sums of products are those of [`matmul`](DeviceArrayRef::matmul). What follows is computed in the type that is summed
/// in, each step rounded to it (`beta` times the old element is added by fused multiply-add), and the result is rounded to
/// the elements' type once. NaN and infinities propagate as IEEE 754 says; NaN is NaN to each of the functions.
///
/// # Cost
///
/// That of `matmul`, whose kernel does the rest, on the sums that it has: in registers where the result has 16 bits, and
/// where it has the sums' type from the cache, in which it has just been stored. A bias is read from the cache, of `n` or `m`
/// elements; the old elements and a residual are each read once, as many as the result has. Apart, each step would read and
/// write all of the result.
///
/// On Hopper's tensor cores an addend is loaded by pairs: one that is neither the same for all columns nor has an even number
/// of them side by side, with rows that begin at multiples of a pair, is added by a pass of its own over sums in `f32`.
///
/// # Examples
///
/// ```
/// # use ndarray::array;
/// # use warpsmith::{Device, DeviceArray};
/// # fn main() -> warpsmith::Result<()> {
/// let device = Device::auto()?;
/// let stream = device.default_stream();
/// let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
/// let weights = DeviceArray::from_ndarray(stream, &array![[1.0, -1.0], [2.0, 0.5]])?;
/// let bias = DeviceArray::from_ndarray(stream, &array![0.5, -2.0])?;
/// let layer = x.fused_matmul(&weights).bias(&bias).relu().residual(&x).compute()?;
/// assert_eq!(layer.to_ndarray()?, array![[6.5, 2.0], [14.5, 4.0]]);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is computed before `compute`, `compute_into` or `accumulate_into`"]
pub struct FusedMatMul<'a, T: MatMul, D: Dimension, F = Activation> {
    operation: &'static str,
    a: &'a DeviceArrayRef<T, D>,
    b: &'a DeviceArrayRef<T, D>,
    multiply: Multiply<T, D>,
    /// What multiplies with this function, where it wants to by the one above.
    multiply_with: MultiplyWith<T, D, F>,
    alpha: T::Scalar,
    function: F,
    bias: Option<Result<DeviceView<'a, T, D>>>,
    residual: Option<Result<DeviceView<'a, T, D>>>,
}

impl<T: MatMul, D: Dimension, F> fmt::Debug for FusedMatMul<'_, T, D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FusedMatMul")
            .field("operation", &self.operation)
            .field("a", &self.a.shape())
            .field("b", &self.b.shape())
            .finish_non_exhaustive()
    }
}

impl<'a, T: MatMul, D: Dimension> FusedMatMul<'a, T, D> {
    pub(crate) fn new(operation: &'static str, a: &'a DeviceArrayRef<T, D>, b: &'a DeviceArrayRef<T, D>) -> Self {
        Self {
            operation,
            a,
            b,
            multiply: T::multiply,
            multiply_with: |multiply, product, stream, out, finish| multiply(product, stream, out, finish),
            alpha: T::Scalar::ONE,
            function: Activation::IDENTITY,
            bias: None,
            residual: None,
        }
    }

    /// The function `max(x, 0)`, with the bits of [`relu`](DeviceArrayRef::relu) of arrays.
    pub fn relu(self) -> Self {
        self.function(Activation::RELU)
    }

    /// That function, of integers `max(x, 0)` alone.
    pub(crate) fn function(mut self, function: Activation) -> Self {
        self.function = function;
        self
    }

    /// An epilogue of one's own, whose kernels a kernels crate makes by
    /// [`epilogue_kernels!`](kernels_gpu::epilogue_kernels): each element of the result is `function.apply(sum, bias,
    /// residual)` of `alpha · A B + beta · C` and of the elements of bias and residual for its place, 0 where there is none.
    ///
    /// It is computed like the library's functions where products are of `f16` and `bf16`. Products of the other types are
    /// stored first, and another kernel makes the results of them in their place, which reads and writes as many elements as
    /// the result has.
    ///
    /// # Examples
    ///
    /// See [`epilogue_kernels!`](kernels_gpu::epilogue_kernels), and docs/writing-kernels.md.
    pub fn epilogue<F: Copy>(self, function: F) -> FusedMatMul<'a, T, D, F>
    where
        T: OwnEpilogue<F>,
    {
        FusedMatMul {
            operation: self.operation,
            a: self.a,
            b: self.b,
            multiply: self.multiply,
            multiply_with: T::multiply_with,
            alpha: self.alpha,
            function,
            bias: self.bias,
            residual: self.residual,
        }
    }
}

impl<'a, T: MatMul, D: Dimension, F: Copy> FusedMatMul<'a, T, D, F> {
    /// The shape of the result, if the operands fit.
    fn dim(&self) -> D {
        let mut dim = self.a.raw_dim();
        let last = dim.ndim() - 1;
        dim[last] = self.b.shape()[last];
        if last == 2 && dim[0] == 1 {
            dim[0] = self.b.shape()[0];
        }
        dim
    }

    /// An addend as elements of the result's shape.
    fn addend<E: Dimension>(&self, name: &str, of: &'a DeviceArrayRef<T, E>) -> Result<DeviceView<'a, T, D>> {
        let dim = self.dim();
        of.broadcast(dim.clone()).map_err(|_| Error::Shape {
            operation: self.operation,
            given: format!(
                "a {name} of shape {:?} for a product of shape {:?}",
                of.shape(),
                dim.slice()
            ),
            wanted: format!("a {name} that broadcasts to the product's shape"),
        })
    }

    /// Multiplies the sums by `alpha`. If it is 0, the operands are not read: a NaN there does not get into the result.
    pub fn alpha(mut self, alpha: T::Scalar) -> Self {
        self.alpha = alpha;
        self
    }

    /// Adds a bias before the function: of any shape that broadcasts to the result's, by NumPy's rules. So a vector of `n`
    /// has an element for each column, and a matrix of `m` × 1 one for each row.
    pub fn bias<E: Dimension>(mut self, bias: &'a DeviceArrayRef<T, E>) -> Self {
        self.bias = Some(self.addend("bias", bias));
        self
    }

    /// Adds other elements behind the function: of any shape that broadcasts to the result's.
    pub fn residual<E: Dimension>(mut self, residual: &'a DeviceArrayRef<T, E>) -> Self {
        self.residual = Some(self.addend("residual", residual));
        self
    }

    /// The product as a new array, on the stream of its left operand.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] if the shapes do not fit, [`Error::DifferentDevices`], and those of an allocation and a launch.
    pub fn compute(self) -> Result<DeviceArray<T, D>> {
        let (multiply, multiply_with) = (self.multiply, self.multiply_with);
        let product =
            self.compute_by(|product, stream, out, finish| multiply_with(multiply, product, stream, out, finish));
        product.map(|(out, _)| out)
    }

    /// [`compute`](Self::compute) by other means, and what they give, if there is anything to be done.
    pub(super) fn compute_by<R>(
        mut self,
        by: impl FnOnce(Multiplication<'_, T, D>, &Stream, &mut DeviceArrayRef<T, D>, &Finish<'_, T, D, F>) -> Result<R>,
    ) -> Result<(DeviceArray<T, D>, Option<R>)> {
        let product = Multiplication::new(self.operation, self.a, self.b, None)?;
        let stream = self.a.stream();
        let mut out = DeviceArray::uninit(stream, self.dim())?;
        let given = self.run_by(product, stream, &mut out, T::Scalar::ZERO, by)?;
        Ok((out, given))
    }

    /// [`compute`](Self::compute) into an existing array or view, whatever its elements were.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute); on an error nothing is written.
    pub fn compute_into(mut self, out: &mut DeviceArrayRef<T, D>) -> Result<()> {
        let stream = self.a.stream();
        stream.check_device(self.operation, out.stream())?;
        out.write_in_order(stream, &mut |out| {
            let product = Multiplication::new(self.operation, self.a, self.b, Some(out))?;
            self.run(product, stream, out, T::Scalar::ZERO)
        })
    }

    /// The same with `beta` times the old elements of `out` added before the bias, on the stream of `out`. If `beta` is 0,
    /// they are not read: a NaN there does not get into the result.
    ///
    /// # Errors
    ///
    /// As [`compute`](Self::compute); on an error nothing is written.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let a = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0]])?;
    /// let b = DeviceArray::from_ndarray(stream, &array![[3.0], [4.0]])?;
    /// let mut c = DeviceArray::from_ndarray(stream, &array![[-100.0]])?;
    /// a.fused_matmul(&b).alpha(2.0).relu().accumulate_into(&mut c, 0.1)?;
    /// assert_eq!(c.to_ndarray()?, array![[12.0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn accumulate_into(mut self, out: &mut DeviceArrayRef<T, D>, beta: T::Scalar) -> Result<()> {
        let stream = out.stream().clone();
        stream.check_device(self.operation, self.a.stream())?;
        out.change_in_order(&mut |out| {
            let product = Multiplication::new(self.operation, self.a, self.b, Some(out))?;
            self.run(product, &stream, out, beta)
        })
    }

    /// The product into elements of its shape, in C order, on that stream; to be called once.
    fn run(
        &mut self,
        product: Multiplication<'_, T, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<T, D>,
        beta: T::Scalar,
    ) -> Result<()> {
        let (multiply, multiply_with) = (self.multiply, self.multiply_with);
        let by = |product: Multiplication<'_, T, D>, stream: &Stream, out: &mut _, finish: &Finish<'_, T, D, F>| {
            multiply_with(multiply, product, stream, out, finish)
        };
        self.run_by(product, stream, out, beta, by).map(|_| ())
    }

    /// The same by other means, if there is anything to be done.
    fn run_by<R>(
        &mut self,
        product: Multiplication<'_, T, D>,
        stream: &Stream,
        out: &mut DeviceArrayRef<T, D>,
        beta: T::Scalar,
        by: impl FnOnce(Multiplication<'_, T, D>, &Stream, &mut DeviceArrayRef<T, D>, &Finish<'_, T, D, F>) -> Result<R>,
    ) -> Result<Option<R>> {
        let (bias, residual) = (self.bias.take().transpose()?, self.residual.take().transpose()?);
        for addend in [&bias, &residual].into_iter().flatten() {
            stream.check_device(self.operation, addend.stream())?;
        }
        if out.is_empty() {
            return Ok(None);
        }
        // The kernels go forwards.
        let forwards = |addend: &Option<DeviceView<'a, T, D>>| -> Result<_> {
            addend
                .as_ref()
                .map(|addend| {
                    Ok(match addend.forwards(Some(&*out))? {
                        Ordered::Copied(copy) => Ordered::Copied(copy),
                        Ordered::AsIs(_) => Ordered::AsIs(addend.clone()),
                    })
                })
                .transpose()
        };
        let finish = Finish {
            alpha: self.alpha,
            beta,
            function: self.function,
            bias: forwards(&bias)?,
            residual: forwards(&residual)?,
        };
        by(product, stream, out, &finish).map(Some)
    }
}

impl<T: MatMul + Real, D: Dimension> FusedMatMul<'_, T, D> {
    /// The function `x Φ(x)`, with the distribution function `Φ` of the normal distribution: GELU. It is computed to the
    /// precision of [`silu`](Self::silu).
    pub fn gelu(self) -> Self {
        self.function(Activation::GELU)
    }

    /// The function `x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³)))`, which [`gelu`](Self::gelu) is often taken for, to the
    /// precision of [`silu`](Self::silu).
    pub fn gelu_tanh(self) -> Self {
        self.function(Activation::GELU_TANH)
    }

    /// The function `x / (1 + e^−x)`: SiLU, or swish.
    ///
    /// A value of `f32`, and of the types that are summed in it, is off by at most 4 · 10⁻⁷ of it, and by 10⁻⁷ more, or by
    /// 3 · 10⁻⁵ of it where that is less. Those of `f64` are off by at most 16 · 2⁻⁵³ of them, and by 8 · 2⁻⁵³ more
    /// for each power of e that makes them small. A GPU has other last bits in `f32` than the simulated one.
    pub fn silu(self) -> Self {
        self.function(Activation::SILU)
    }
}

impl<D: Dimension, F: Copy> FusedMatMul<'_, f32, D, F> {
    /// How precisely the operands are taken: [`Precision::Full`], unless this says otherwise.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.multiply = precision.multiply();
        self
    }
}

/// Products of matrices with what follows them.
impl<T: MatMul> DeviceArrayRef<T, Ix2> {
    /// The product of this m × k matrix and the k × n matrix `b`, to which a scaling, a bias, a function and a residual are
    /// added by the methods of [`FusedMatMul`], in one kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # use ndarray::array;
    /// # use warpsmith::{Device, DeviceArray};
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let a = DeviceArray::from_ndarray(stream, &array![[1, 2], [3, 4]])?;
    /// let of_rows = DeviceArray::from_ndarray(stream, &array![[-10], [0]])?;
    /// assert_eq!(a.fused_matmul(&a).bias(&of_rows).relu().compute()?.to_ndarray()?, array![[0, 0], [15, 22]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fused_matmul<'a>(&'a self, b: &'a DeviceArrayRef<T, Ix2>) -> FusedMatMul<'a, T, Ix2> {
        FusedMatMul::new("fused_matmul", self, b)
    }
}

/// Products of batches of matrices with what follows them.
impl<T: MatMul> DeviceArrayRef<T, Ix3> {
    /// The products of [`batched_matmul`](DeviceArrayRef::batched_matmul), as [`fused_matmul`](DeviceArrayRef::fused_matmul).
    /// A bias of n elements is that of all products; one of batch × 1 × n is each product's own.
    pub fn fused_batched_matmul<'a>(&'a self, b: &'a DeviceArrayRef<T, Ix3>) -> FusedMatMul<'a, T, Ix3> {
        FusedMatMul::new("fused_batched_matmul", self, b)
    }
}
