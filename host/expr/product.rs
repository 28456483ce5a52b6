// SPDX-License-Identifier: MIT OR Apache-2.0
//! Products of matrices as parts of expressions, with what their own kernel does to their sums.

use std::marker::PhantomData;
use std::sync::Arc;

use cuda_std::scalar::ScalarType;
use kernels_gpu::matmul::epilogue::Activation;
use ndarray::{Dimension, Ix1, Ix2, Ix3, IxDyn};

use super::Expr;
use super::graph::apply::{Operation, Then, as_type, typed};
use super::graph::function::Unary;
use super::graph::{Elements, Node, Part, cast};
use super::operand::Operand;
use super::value::Value;
use crate::array::Element;
use crate::array_ref::{DeviceArrayRef, Held};
use crate::error::Result;
use crate::ops::{FusedMatMul, MatMul, MatVec, Precision, check_matvec, matmul_shape};
use crate::stream::Stream;

/// Products of matrices: kernels of their own, with the bits of [`matmul`](crate::DeviceArrayRef::matmul) of arrays. What is
/// multiplied is an array first; arrays and views are read where they lie.
///
/// A bias that is added to the product, as an array of any shape that is repeated to the product's, a function behind it, and
/// then a residual are computed by the product's own kernel ([`FusedMatMul`]), where nothing else needs the product, and with
/// the same bits: sums and the functions `relu`, `gelu`, `gelu_tanh` and `silu` of `f32` and `f64` are, sums and `relu` of `i32`,
/// and `relu` of 16-bit floats. With [`fast_math`](Self::fast_math) all of these of 16-bit floats are, which are rounded once then.
/// What else follows is the next kernel.
impl<'a, T: Value<Element = T> + MatMul> Expr<'a, T, Ix2> {
    /// The product of this m × k matrix and the k × n matrix `b`: an m × n matrix.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Shape`](crate::Error::Shape) if the shapes do not fit.
    ///
    /// # Examples
    ///
    /// A layer of a network, by one kernel:
    ///
    /// ```
    /// use warpsmith::ndarray::array;
    /// use warpsmith::{Device, DeviceArray};
    ///
    /// # fn main() -> warpsmith::Result<()> {
    /// let device = Device::auto()?;
    /// let stream = device.default_stream();
    /// let x = DeviceArray::from_ndarray(stream, &array![[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let weights = DeviceArray::from_ndarray(stream, &array![[1.0f32, -1.0], [2.0, 0.5]])?;
    /// let bias = DeviceArray::from_ndarray(stream, &array![0.5f32, -2.0])?;
    /// let layer = (x.expr().matmul(&weights) + &bias).relu() + &x;
    /// assert_eq!(layer.eval()?.to_ndarray()?, array![[6.5, 2.0], [14.5, 4.0]]);
    /// assert!(layer.explain()?.contains("kernel 1: matmul with bias, relu and residual"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn matmul(&self, b: impl Operand<'a, T, Together = T, Dim = Ix2>) -> Self {
        self.times("matmul", Precision::Full, full, b.operand().0)
    }
}

impl<'a, T: Value<Element = T> + MatVec<Wide: Element>> Expr<'a, T, Ix2> {
    /// The product of this m × k matrix and a vector of `k`: a vector of `m`.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Shape`](crate::Error::Shape) if the shapes do not fit.
    pub fn matvec(&self, x: impl Operand<'a, T, Together = T, Dim = Ix1>) -> Expr<'a, T, Ix1> {
        let x = x.operand().0;
        let product = || product_with_vector::<T>(false, self.part.clone()?, cast(x?, T::TYPE)?);
        Expr::of(product())
    }
}

impl<'a> Expr<'a, f32, Ix2> {
    /// [`matmul`](Self::matmul) with a precision. What follows a product of [`Precision::Tf32`] is done by its kernel with
    /// [`fast_math`](Self::fast_math) alone.
    ///
    /// # Errors
    ///
    /// As [`matmul`](Self::matmul).
    pub fn matmul_with(
        &self,
        b: impl Operand<'a, f32, Together = f32, Dim = Ix2>,
        precision: Precision,
    ) -> Expr<'a, f32, Ix2> {
        self.times("matmul_with", precision, with(precision), b.operand().0)
    }
}

/// Products of batches of matrices.
impl<'a, T: Value<Element = T> + MatMul> Expr<'a, T, Ix3> {
    /// The products of these batch × m × k matrices and the batch × k × n matrices `b`, one by one, as
    /// [`matmul`](Expr::matmul): batch × m × n. A batch of one matrix is multiplied with all of the other.
    ///
    /// # Errors
    ///
    /// Evaluating it is [`Error::Shape`](crate::Error::Shape) if the shapes do not fit.
    pub fn batched_matmul(&self, b: impl Operand<'a, T, Together = T, Dim = Ix3>) -> Self {
        self.times("batched_matmul", Precision::Full, full, b.operand().0)
    }
}

impl<'a> Expr<'a, f32, Ix3> {
    /// [`batched_matmul`](Self::batched_matmul) with a precision, as [`matmul_with`](Expr::matmul_with).
    ///
    /// # Errors
    ///
    /// As [`batched_matmul`](Self::batched_matmul).
    pub fn batched_matmul_with(
        &self,
        b: impl Operand<'a, f32, Together = f32, Dim = Ix3>,
        precision: Precision,
    ) -> Expr<'a, f32, Ix3> {
        self.times("batched_matmul_with", precision, with(precision), b.operand().0)
    }
}

impl<'a, T: Value<Element = T> + MatMul, D: Dimension + 'static> Expr<'a, T, D> {
    fn times(&self, name: &'static str, precision: Precision, begin: Begin<T, D>, b: Part<'a>) -> Self {
        let product = || product(name, (precision, begin), self.part.clone()?, cast(b?, T::TYPE)?);
        Self::of(product())
    }
}

/// What begins a product, which is called so.
pub(super) type Begin<T, D> =
    for<'x> fn(&'static str, &'x DeviceArrayRef<T, D>, &'x DeviceArrayRef<T, D>) -> FusedMatMul<'x, T, D>;

/// The product of all precision.
pub(super) fn full<'x, T: MatMul, D: Dimension>(
    name: &'static str,
    a: &'x DeviceArrayRef<T, D>,
    b: &'x DeviceArrayRef<T, D>,
) -> FusedMatMul<'x, T, D> {
    FusedMatMul::new(name, a, b)
}

fn with<D: Dimension>(precision: Precision) -> Begin<f32, D> {
    match precision {
        Precision::Full => full,
        Precision::Tf32 => |name, a, b| FusedMatMul::new(name, a, b).precision(Precision::Tf32),
    }
}

/// The product of matrices, or of batches of them, with a precision.
pub(super) fn product<'a, T: Value<Element = T> + MatMul, D: Dimension + 'static>(
    name: &'static str,
    (precision, begin): (Precision, Begin<T, D>),
    a: Arc<Node<'a>>,
    b: Arc<Node<'a>>,
) -> Part<'a> {
    let shape = matmul_shape(name, &a.shape, &b.shape)?;
    let product = Product {
        name,
        begin,
        is_full: precision == Precision::Full,
        has_bias: false,
        function: None,
        has_residual: false,
    };
    Node::apply(name, Arc::new(product), vec![a, b], T::TYPE, &shape)
}

/// A product, and what its kernel does to the sums: its operands are the matrices, the bias and the residual.
#[derive(Clone)]
struct Product<T: MatMul, D: Dimension> {
    name: &'static str,
    begin: Begin<T, D>,
    /// Whether the sums are those of all precision.
    is_full: bool,
    has_bias: bool,
    function: Option<Unary>,
    has_residual: bool,
}

impl<T: Value<Element = T> + MatMul, D: Dimension + 'static> Operation for Product<T, D> {
    fn describe(&self) -> String {
        let parts = [
            self.has_bias.then_some("bias"),
            self.function.map(Unary::name),
            self.has_residual.then_some("residual"),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        match parts.split_last() {
            None => self.name.into(),
            Some((last, [])) => format!("{} with {last}", self.name),
            Some((last, others)) => format!("{} with {} and {last}", self.name, others.join(", ")),
        }
    }

    // How it begins is said by the types and the precision.
    fn is_same(&self, other: &dyn Operation) -> bool {
        let steps = |product: &Self| {
            (
                product.is_full,
                product.has_bias,
                product.function,
                product.has_residual,
            )
        };
        as_type::<Self>(other).is_some_and(|other| steps(other) == steps(self))
    }

    fn run(&self, stream: &Stream, operands: &[&dyn Elements], out: &dyn Elements) -> Result<()> {
        let (a, b) = (typed::<T, D>(operands[0], stream)?, typed(operands[1], stream)?);
        let addends = operands[2..].iter().map(|addend| typed(*addend, stream));
        let addends: Vec<Held<T, IxDyn>> = addends.collect::<Result<_>>()?;
        let mut product = (self.begin)(self.name, &a, &b).function(match self.function {
            None => Activation::IDENTITY,
            Some(Unary::Gelu) => Activation::GELU,
            Some(Unary::GeluTanh) => Activation::GELU_TANH,
            Some(Unary::Silu) => Activation::SILU,
            Some(_) => Activation::RELU,
        });
        let (bias, residual) = addends.split_at(self.has_bias.into());
        for bias in bias {
            product = product.bias(bias);
        }
        for residual in residual {
            product = product.residual(residual);
        }
        product.compute_into(&mut typed(out, stream)?)
    }

    /// The kernel computes in the type that is summed in, and rounds once. So sums and functions, which are the same ones, have
    /// the same bits where that is the elements' type, and `relu` has in any case, as it only leaves numbers as they are or makes
    /// them 0. Which kernel sums, and so the bits of sums of TF32, depends on what becomes of them.
    fn then(&self, next: Then, is_fast: bool) -> Option<Arc<dyn Operation>> {
        let is_exact = size_of::<T>() > 2 || next == Then::Apply(Unary::Relu);
        if self.has_residual || !(is_fast || is_exact && self.is_full) {
            return None;
        }
        let mut product = self.clone();
        match next {
            Then::Add if self.function.is_some() || self.has_bias => product.has_residual = true,
            Then::Add => product.has_bias = true,
            Then::Apply(_) if self.function.is_some() => return None,
            Then::Apply(function) if function != Unary::Relu && T::TYPE == ScalarType::I32 => return None,
            Then::Apply(function) => product.function = Some(function),
        }
        Some(Arc::new(product))
    }
}

/// The product of a matrix, or of its transpose, and a vector.
pub(super) fn product_with_vector<'a, T>(is_transposed: bool, a: Arc<Node<'a>>, x: Arc<Node<'a>>) -> Part<'a>
where
    T: Value<Element = T> + MatVec<Wide: Element>,
{
    let [rows, columns] = match is_transposed {
        true => [a.shape[1], a.shape[0]],
        false => [a.shape[0], a.shape[1]],
    };
    check_matvec("matvec", [rows, columns], x.shape[0], None)?;
    let operation = ProductWithVector::<T> {
        is_transposed,
        _element: PhantomData,
    };
    Node::apply("matvec", Arc::new(operation), vec![a, x], T::TYPE, &[rows])
}

struct ProductWithVector<T> {
    is_transposed: bool,
    _element: PhantomData<fn() -> T>,
}

impl<T: Value<Element = T> + MatVec<Wide: Element>> Operation for ProductWithVector<T> {
    fn describe(&self) -> String {
        "matvec".into()
    }

    fn is_same(&self, other: &dyn Operation) -> bool {
        as_type::<Self>(other).is_some_and(|other| other.is_transposed == self.is_transposed)
    }

    fn run(&self, stream: &Stream, operands: &[&dyn Elements], out: &dyn Elements) -> Result<()> {
        let (a, x): (Held<T, Ix2>, Held<T, Ix1>) = (typed(operands[0], stream)?, typed(operands[1], stream)?);
        let (a, out): (&DeviceArrayRef<T, Ix2>, &mut Held<T, Ix1>) = (&a, &mut typed(out, stream)?);
        match self.is_transposed {
            true => a.t().matvec_into(&x, out),
            false => a.matvec_into(&x, out),
        }
    }
}
